"""Links between processes: alpha, the time of a small message, and beta by message size.

One straight line does not fit all sizes (caches, segments, wake-ups), so the bandwidth is given for
each size and a job is compared with the one that is nearest to its own messages.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator

from nodewise.base.errors import RunError
from nodewise.diagnose.machine.windows import ceiling_of
from nodewise.study.machine import Ceiling

SIZES = {"64 KiB": 2**16, "1 MiB": 2**20, "16 MiB": 2**24, "64 MiB": 2**26}
_HEADER = struct.Struct("!q")
_LARGEST = 2**26
_BLOCK = 2**20
_PATIENCE_SECONDS = 20.0


def answer(door: socket.socket) -> None:
    """Take messages and acknowledge each with one byte, until the other side closes."""
    buffer = memoryview(bytearray(_BLOCK))
    with contextlib.suppress(OSError):
        while True:
            header = _exactly(door, _HEADER.size)
            if not header:
                return
            left = _HEADER.unpack(header)[0]
            if not 0 <= left <= _LARGEST:
                return
            while left:
                got = door.recv_into(buffer, min(left, len(buffer)))
                if not got:
                    return
                left -= got
            door.sendall(b"k")


def _exactly(door: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = door.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return parts


def alpha_beta(door: socket.socket, seconds: float) -> dict[str, Ceiling]:
    """Alpha, one way, and beta for each size, against a peer that answers."""
    small = [seconds_ / 2 for seconds_ in _round_trips(door, 0, seconds / 2, 5000)]
    small.sort()
    # Other load only ever adds, so the floor is the link; the median is given too.
    floor = small[len(small) // 10]
    found = {
        "alpha": Ceiling(
            value=floor,
            low=small[0],
            high=small[len(small) // 2],
            unit="s",
            windows=len(small),
            how="tenth percentile, one way; upper bound: the median",
        )
    }
    for name, size in SIZES.items():
        times = _round_trips(door, size, seconds / 6, 500)
        # A wake-up may be quicker now than it was for the small ones: at most half is latency.
        rates = [size / max(one - 2 * floor, one / 2) for one in times]
        found[f"beta, {name}"] = ceiling_of(rates, "B/s", "one message, acknowledged")
    return found


def _round_trips(door: socket.socket, size: int, seconds: float, most: int) -> list[float]:
    # From one block that stays in the caches: the link is asked for, not the memory behind it.
    block = memoryview(bytearray(min(size, _BLOCK)))
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < most and (time.perf_counter() < until or len(times) < 3):
        start = time.perf_counter()
        door.sendall(_HEADER.pack(size))
        for _ in range(size // _BLOCK or bool(size)):
            door.sendall(block)
        if not door.recv(1):
            break
        times.append(time.perf_counter() - start)
    return times


@contextlib.contextmanager
def _answering_child(own: socket.socket, other: socket.socket) -> Iterator[None]:
    """A process that answers from another core: on one core the two would take turns."""
    cores = os.sched_getaffinity(0)
    child = os.fork()
    if child == 0:
        try:
            own.close()
            _stay_on({max(cores)})
            answer(other)
        finally:
            os._exit(0)
    other.close()
    try:
        _stay_on({min(cores)})
        yield
    finally:
        _stay_on(cores)
        own.close()  # the child sees the end and leaves
        os.waitpid(child, 0)


def _stay_on(cores: set[int]) -> None:
    with contextlib.suppress(OSError):  # some sandboxes refuse it; then the system places us
        os.sched_setaffinity(0, cores)


def processes(seconds: float) -> dict[str, dict[str, Ceiling]]:
    """Two processes on this node: over a socket pair, and over TCP."""
    found = {}
    own, other = socket.socketpair()
    with _answering_child(own, other):
        found["process to process"] = alpha_beta(own, seconds)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = socket.create_connection(listener.getsockname(), timeout=_PATIENCE_SECONDS)
        other, _ = listener.accept()
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with _answering_child(own, other):
        found["TCP on this node"] = alpha_beta(own, seconds)
    return found


def peer(host: str, port: int, seconds: float) -> dict[str, Ceiling]:
    """The network between this node and one on which `serve` runs."""
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_SECONDS) as door:
            door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return alpha_beta(door, seconds)
    except (OSError, IndexError) as error:
        raise RunError(
            f"No answer from {host}:{port}: {error}.",
            f"Run there: nodewise machine --serve {port}",
        ) from None


def serve(port: int) -> None:
    """Answer one caller after the other, until stopped."""
    with socket.create_server(("", port)) as listener:
        while True:
            door, _ = listener.accept()
            with door:
                door.settimeout(_PATIENCE_SECONDS)
                door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answer(door)
