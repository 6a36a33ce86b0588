"""Which library the threads of a program are in, by samples of their CPU time.

A rank of MPI that waits by spinning looks busy from outside; its instruction pointer is then in the
library of messages. The kernel takes the samples: no hardware counters are needed, and the program
is not stopped. Where the kernel does not allow it, nothing is known.
"""

import bisect
import contextlib
import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_SOFTWARE, _TASK_CLOCK, _ADDRESS = 1, 1, 1
_EACH = 4_000_000  # nanoseconds of CPU time between two samples of a thread
_USER_ONLY = 1 << 5 | 1 << 6  # neither the kernel nor a hypervisor
_SIZE = 72  # of the first version of the struct: all that is used here
_ASK = struct.Struct("=IIQQQQQIIQQ")
_PAGES = 9  # one that describes the ring, and eight of samples
_HEAD = 1024  # its place in the first page
_RECORD = struct.Struct("=IHHQ")  # kind, flags, size, address
_SAMPLE = 9
_MOST_THREADS = 64
# Those of a library of messages and its plug-ins. What it copies with is the C library's, and may
# be the program's own copying: that shows nothing.
_MESSAGES = ("libmpi", "libopen-", "libpsm", "libucp", "libuct", "libucs", "libfabric", "mca_",
             "libhcoll", "libmpich", "libpmpi", "libnccl")  # fmt: skip
_SAYS_NOTHING = ("libc.so", "libc-2", "ld-linux", "libpthread", "[vdso]")


class Share(NamedTuple):
    """Samples of one process: in the library of messages, and in the program's own code."""

    messages: int
    own: int


class Inside:
    """Samples of all threads of some processes, from now until they are taken."""

    def __init__(self, processes: Iterable[int]) -> None:
        """Begin to sample; threads that start later are missed."""
        self._rings: list[tuple[int, int, mmap.mmap]] = []
        for process in processes:
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - in a hurry
                    if len(self._rings) < _MOST_THREADS:
                        self._rings.append((process, *_ring(int(name))))

    def taken(self) -> dict[int, Share]:
        """The samples of each process; ends the sampling. Empty if the kernel refuses."""
        addresses: dict[int, list[int]] = {}
        for process, _, ring in self._rings:
            addresses.setdefault(process, []).extend(_addresses(ring))
        self.close()
        found = {}
        for process, seen in addresses.items():
            with contextlib.suppress(OSError):
                found[process] = share_of(seen, Path(f"/proc/{process}/maps").read_text())
        return found

    def close(self) -> None:
        """End the sampling."""
        for _, file, ring in self._rings:
            ring.close()
            os.close(file)
        self._rings = []


def _ring(thread: int) -> tuple[int, mmap.mmap]:
    """The samples of one thread.

    Raises:
        OSError: this machine or its settings do not allow it.
    """
    number = _SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError("not known for this processor")
    ask = _ASK.pack(_SOFTWARE, _SIZE, _TASK_CLOCK, _EACH, _ADDRESS, 0, _USER_ONLY, 0, 0, 0, 0)
    call = ctypes.CDLL(None, use_errno=True).syscall
    file = call(number, ctypes.create_string_buffer(ask, len(ask)), thread, -1, -1, 8)
    if file < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    try:
        return file, mmap.mmap(file, _PAGES * mmap.PAGESIZE)
    except (OSError, ValueError) as error:
        os.close(file)
        raise OSError(str(error)) from error


def _addresses(ring: mmap.mmap) -> list[int]:
    """Where a thread was; what no longer fits the ring is lost."""
    (head,) = struct.unpack_from("=Q", ring, _HEAD)
    at, found = mmap.PAGESIZE, []
    end = min(at + head, len(ring))
    while at + _RECORD.size <= end:
        kind, _, size, address = _RECORD.unpack_from(ring, at)
        if kind == _SAMPLE:
            found.append(address)
        at += max(size, 8)
    return found


def share_of(addresses: Iterable[int], maps: str) -> Share:
    """What the addresses belong to, by the mappings of the process.

    >>> maps = "1000-2000 r-xp 0 0 0 /bin/a\\n2000-3000 r-xp 0 0 0 /lib/libmpi.so.40"
    >>> share_of([0x1008, 0x2008, 0x2009], maps)
    Share(messages=2, own=1)
    """
    starts, ends, names = [], [], []
    for line in maps.splitlines():
        span, _, _, _, _, *path = line.split(maxsplit=5)
        start, _, end = span.partition("-")
        starts.append(int(start, 16))
        ends.append(int(end, 16))
        names.append(path[0].rpartition("/")[2] if path else "")
    messages = own = 0
    for address in addresses:
        at = bisect.bisect_right(starts, address) - 1
        if at < 0 or address >= ends[at] or names[at].startswith(_SAYS_NOTHING):
            continue
        if names[at].startswith(_MESSAGES):
            messages += 1
        else:
            own += 1
    return Share(messages, own)
