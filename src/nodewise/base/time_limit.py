"""A limit on the time of a search: an expression of a user can backtrack without end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SEARCH_SECONDS = 60.0  # a pattern that takes longer backtracks without end
_BYTES_PER_SECOND = 2**20  # of a long file, as much again


@contextlib.contextmanager
def time_limit(seconds: float, problem: Exception) -> Iterator[None]:
    """Raise `problem` in what takes longer; only the main thread has an alarm."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise problem

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def search_limit(
    size: int, problem: Callable[[str], Exception]
) -> contextlib.AbstractContextManager[None]:
    """The limit of a search in so many bytes with an expression that a user wrote."""
    seconds = SEARCH_SECONDS + size / _BYTES_PER_SECOND
    return time_limit(seconds, problem(f"a pattern takes longer than {seconds:.3g} s"))
