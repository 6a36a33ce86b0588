"""The start barrier: ranks wait until all are ready, start together, and report their end."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path


class Barrier:
    """A Unix socket that lets K ranks through at once, and notices when all have finished."""

    def __init__(
        self,
        path: Path,
        ranks: int,
        at_first: Callable[[], None],
        before_release: Callable[[], None],
        after_last: Callable[[], None],
    ) -> None:
        """Listen at `path`; the three calls are made when the first rank comes, and so on."""
        self._path = path
        self._ranks = ranks
        self._at_first = at_first
        self._before_release = before_release
        self._after_last = after_last
        self._listener = socket.socket(socket.AF_UNIX)
        self._inside: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Barrier":
        """Open for arrivals."""
        self._listener.bind(str(self._path))
        self._listener.listen(self._ranks)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close; ranks that still wait are refused."""
        for door in (self._listener, *self._inside):
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)
        for door in (self._listener, *self._inside):
            door.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed from outside: the run is over
            while len(self._inside) < self._ranks:
                door, _ = self._listener.accept()
                if not self._inside:
                    self._at_first()
                door.recv(16)  # its rank: only then is it waiting, not still sending
                self._inside.append(door)
            self._before_release()
            threading.Thread(target=self._let_others_through, daemon=True).start()
            for door in self._inside:
                door.sendall(b"g")
            for door in self._inside:
                door.recv(1)  # a byte, or the end of the connection: this rank is through
            self._after_last()

    def _let_others_through(self) -> None:
        """More ranks than expected, as of a launcher inside the job: their reports count them."""
        with contextlib.suppress(OSError):
            while True:
                door, _ = self._listener.accept()
                with door, contextlib.suppress(OSError):
                    door.recv(16)  # closed before, the rank would fail in its call
