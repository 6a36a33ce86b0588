"""More evidence than the samples: bytes of TCP sockets, file locks, kills for lack of memory.

The bytes come from the kernel's socket statistics (netlink), the locks from its list, the kills
from the counters of the control groups and of the whole node. None of them needs root. What cannot
be read is None, never zero.
"""

import contextlib
import os
import platform
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SOCK_DIAG_BY_FAMILY = 20
_DUMP = 0x301  # request, root, match
_DONE, _ERROR = 3, 2
_TCP_INFO = 2
_ALL_STATES = 0xFFF
_MESSAGE = struct.Struct("=IHHII")
_SOCKET_BYTES = 72  # struct inet_diag_msg, whose last field is the inode
_COUNTERS = struct.Struct("=QQII")  # bytes acknowledged and received, segments out and in
_COUNTERS_AT = 120  # in struct tcp_info
_MOST_READS = 1000
_FUTEX = {"x86_64": "202", "aarch64": "98"}  # numbers of the system call
_FUTEX_COMMAND = 0x7F
_FUTEX_WAITS = (0, 9)  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_MOST_FILES = 64
_NO_STORAGE = ("/dev/null", "/dev/zero", "/dev/pts", "/dev/tty", "/dev/urandom", "/dev/shm",
               "/proc", "/memfd:")  # fmt: skip


class Traffic(NamedTuple):
    """What TCP sockets have carried so far."""

    bytes: int
    segments: int


def tcp_traffic() -> dict[int, Traffic] | None:
    """Each TCP socket of this network namespace by its inode; None if the kernel refuses."""
    found: dict[int, Traffic] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:
            link.settimeout(0.2)
            for family in (socket.AF_INET, socket.AF_INET6):
                ask = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 2, 0, _ALL_STATES)
                head = _MESSAGE.pack(_MESSAGE.size + len(ask), _SOCK_DIAG_BY_FAMILY, _DUMP, 0, 0)
                link.send(head + ask)
                for _ in range(_MOST_READS):
                    if _read_sockets(link.recv(65536), found):
                        break
    except (OSError, AttributeError, struct.error):
        return None
    return found


def _read_sockets(raw: bytes, found: dict[int, Traffic]) -> bool:
    """Add the sockets of one answer; whether it was the last.

    Raises:
        OSError: the answer is a refusal, which is not the same as no sockets.
    """
    at = 0
    while at + _MESSAGE.size <= len(raw):
        length, kind, *_ = _MESSAGE.unpack_from(raw, at)
        if kind == _ERROR:
            raise OSError("the kernel keeps no statistics of sockets")
        if kind == _DONE or length < _MESSAGE.size:
            return True
        end, attribute = at + length, at + _MESSAGE.size + _SOCKET_BYTES
        while attribute + 4 <= end:
            size, name = struct.unpack_from("=HH", raw, attribute)
            if name == _TCP_INFO and size >= 4 + _COUNTERS_AT + _COUNTERS.size:
                sent, got, out, into = _COUNTERS.unpack_from(raw, attribute + 4 + _COUNTERS_AT)
                inode = struct.unpack_from("=I", raw, at + _MESSAGE.size + _SOCKET_BYTES - 4)[0]
                found[inode] = Traffic(sent + got, out + into)
            attribute += max(size + 3 & ~3, 4)
        at += length + 3 & ~3
    return False


class Opened(NamedTuple):
    """What processes have open: inodes of their sockets, and how many pipes and regular files."""

    sockets: list[int]
    pipes: int
    files: int

    @classmethod
    def of(cls, processes: Iterable[int]) -> "Opened":
        """Of each process the first open files are asked: there may be thousands."""
        sockets, pipes, files = [], 0, 0
        our_files = _targets(os.getpid())
        ours = {target for name, target in our_files if name in ("0", "1", "2")}
        our_pipes = {target for _, target in our_files}  # what it complains about comes to us
        for process in processes:
            for _, target in _targets(process):
                if target.startswith("socket:["):
                    sockets.append(int(target[8:-1]))
                pipes += target.startswith("pipe:") and target not in our_pipes
                if target.startswith("/") and target not in ours:  # inherited: where we write to
                    files += not target.startswith(_NO_STORAGE)
        return cls(sockets, pipes, files)


def _targets(process: int) -> list[tuple[str, str]]:
    """Its open files: the number of each, and what it is."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd")[:_MOST_FILES]:  # noqa: PTH208 - in a hurry
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{process}/fd/{name}")  # noqa: PTH115
                found.append((name, target))
    return found


class FileLocks:
    """Processes that take the same file lock in turn.

    One that waits in the kernel is in its list. One that tries again after a pause is not: it waits
    while it sleeps and another process has the lock that it had before.
    """

    def __init__(self) -> None:
        """No lock seen yet."""
        self._had: defaultdict[str, set[int]] = defaultdict(set)  # each file, by whom

    def waiting(self, alive: Iterable[int]) -> tuple[set[int], set[int]]:
        """Of these processes, those that wait in the kernel, and those that may ask again."""
        ours = set(alive)
        waits, asks = set(), set()
        with contextlib.suppress(OSError):
            for process, file, blocked in locks_of(Path("/proc/locks").read_text()):
                if process not in ours:
                    continue
                if blocked:
                    waits.add(process)
                    self._had[file].add(process)
                else:
                    self._had[file].add(process)
                    asks |= self._had[file] & ours - {process}
        return waits, asks - waits


def locks_of(text: str) -> list[tuple[int, str, bool]]:
    """Exclusive file locks in the kernel's list: the process, the file, and whether it waits.

    >>> locks_of("1: FLOCK ADVISORY WRITE 7 fe:0:1 0 9\\n1: -> FLOCK ADVISORY WRITE 8 fe:0:1 0 9")
    [(7, 'fe:0:1', False), (8, 'fe:0:1', True)]
    """
    found = []
    for line in text.splitlines():
        words = line.split()
        blocked = "->" in words[:2]
        fields = words[2:] if blocked else words[1:]
        if len(fields) > 4 and fields[0] in ("POSIX", "FLOCK") and fields[2] == "WRITE":
            found.append((int(fields[3]), fields[4], blocked))
    return found


class Kills:
    """Processes killed for lack of memory: in the control groups of a program, and on the node."""

    def __init__(self) -> None:
        """Counts from now on."""
        self._own = memory_group("self")
        self._before: dict[Path, int] = {}
        self._now: dict[Path, int] = {}
        self._node = _node_kills()

    def look(self, process: int) -> None:
        """Note the group of a process, and the counter of one that is new."""
        group = memory_group(process)
        if group is not None and group not in self._now:
            self._note(group)

    def _note(self, group: Path) -> None:
        count = group_kills(group)
        if count is not None:
            # A group that we are not part of was made for the program: all its kills count.
            self._before.setdefault(group, count if group == self._own else 0)
            self._now[group] = count

    def in_groups(self) -> int:
        """Kills in the groups that were seen; a group may be gone by now."""
        for group in tuple(self._now):
            self._note(group)
        return sum(self._now[group] - before for group, before in self._before.items())

    def on_node(self) -> int:
        """Kills on the whole node, other programs included."""
        now = _node_kills()
        return 0 if now is None or self._node is None else now - self._node


def memory_group(process: int | str, root: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The control group that limits the memory of a process."""
    try:
        lines = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    except OSError:
        return None
    found = None
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            return root / "memory" / path.lstrip("/")
        if kinds == "":
            found = root / path.lstrip("/")
    return found


def group_kills(group: Path) -> int | None:
    """The `oom_kill` of a control group, of the new kind or of the old one."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError, ValueError):
            return _field((group / name).read_text(), "oom_kill")
    return None


def _node_kills() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return _field(Path("/proc/vmstat").read_text(), "oom_kill")
    return None


def _field(text: str, name: str) -> int | None:
    """The number behind a name.

    >>> _field("oom 3\\noom_kill 2", "oom_kill")
    2
    """
    return next(
        (int(line.split()[1]) for line in text.splitlines() if line.split()[0] == name), None
    )


def is_timed(place: str) -> bool:
    """Whether a thread (/proc/.../task/...) waits for another one, but only for a set time."""
    try:
        return waits_for_a_time(Path(f"{place}/syscall").read_text(), platform.machine())
    except OSError:  # not allowed, or it has ended
        return False


def waits_for_a_time(call: str, processor: str) -> bool:
    """Whether a system call, as the kernel shows it, is a futex wait with a time limit.

    >>> waits_for_a_time("202 0x7f10 0x189 0x0 0x7ffd40 0x0 0xffffffff 0x7f 0x7f", "x86_64")
    True
    >>> waits_for_a_time("202 0x7f10 0x80 0x2 0x0 0x0 0x0 0x7f 0x7f", "x86_64")
    False
    """
    words = call.split()
    if len(words) < 7 or words[0] != _FUTEX.get(processor):  # also "running"
        return False
    return int(words[2], 16) & _FUTEX_COMMAND in _FUTEX_WAITS and int(words[4], 16) != 0


def is_python(process: int) -> bool:
    """Whether its program is a Python interpreter: its threads share one lock."""
    try:
        return Path(os.readlink(f"/proc/{process}/exe")).name.startswith("python")  # noqa: PTH115
    except OSError:
        return False
