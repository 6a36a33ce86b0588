"""Watching any program from outside: its process tree, sampled through /proc without being root.

A look, many times a second, says what each thread is doing: running, waiting for the disk, for a
lock, for a message, for a clock. Counters are read at every look and summed over windows of half a
second. In a large tree each look takes some of the processes, so that watching stays cheap.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import IO

import psutil

from nodewise.base.errors import RunError
from nodewise.diagnose.machine.evidence import (
    FileLocks,
    Kills,
    Opened,
    Traffic,
    is_python,
    is_timed,
    tcp_traffic,
)
from nodewise.diagnose.machine.hot_spots import HotSpots
from nodewise.diagnose.machine.identity import contention
from nodewise.diagnose.machine.inside import Inside, Share
from nodewise.diagnose.machine.limits import limits
from nodewise.diagnose.machine.touching import Touch
from nodewise.measure.engines.base import SCRATCH_MARK, die_with_parent, end
from nodewise.measure.scratch import scratch_folder
from nodewise.study.observed import Observation, Rank, Sample

_LOOK_SECONDS = 0.02
_WINDOW_SECONDS = 0.5
_LEAST_LOOKS = 3  # in a window; where each look takes long, windows are longer
_STARTED_WINDOWS = 3  # after which a program is likely at its work
_COST = 0.02  # of one core, at most, for looking
_SLOWEST = 3.0  # times fewer looks at a program that waits for its cores: it does less in a second
# A thread that computes or waits for a core in less of a window, or does less of the work, sleeps:
# on a busy machine a helper that wakes once waits long for its core.
_ACTIVE = 0.03
_TAIL_BYTES = 4000
_PR_SET_CHILD_SUBREAPER = 36
_GONE_SECONDS = 3.0  # that what is killed may take to end
_MOST_AT_ONCE = 32  # processes in one look; of more, each look takes others
_MOST_CLOCKED = 16  # threads whose CPU time is kept
_FEW = 8  # processes whose control group is looked up
_SELDOM = 3  # looks: control groups and the kernel's list of file locks are read so often
_INSIDE_EVERY = 2  # windows: in so many, samples are taken of where ranks of MPI are
_MESSAGES = ("libmpi", "libnccl", "libgloo", "libucp", "libpsm")  # libraries that wait by spinning
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_LIBRARIES = ("libmpi", "libpsm", "libnccl", "libgomp", "libiomp", "libgloo", "libucp", "libpython")
# What the kernel calls the place where a thread sleeps.
_WAITS = {
    "lock": ("futex", "sem", "pipe", "fifo", "locks", "setlk", "rwsem", "rt_mutex", "mutex"),
    "socket": ("sk_wait", "wait_woken", "inet_csk", "tcp", "unix_stream", "unix_dgram", "skb",
               "sock"),
    "event": ("poll", "select", "nanosleep", "sigtimedwait", "pause"),
    "child": ("do_wait",),
    "completion": ("io_cqring", "read_events"),  # of requests that were given to the kernel
}  # fmt: skip


def watch(command: tuple[str, ...], most_seconds: float) -> Observation:
    """Run the command, look at it until it ends or the time is up, and end it then."""
    with scratch_folder() as folder:
        return _watch(command, most_seconds, folder)


def start_program(command: tuple[str, ...], folder: Path, errors: int) -> "subprocess.Popen[bytes]":
    """The user's program in a session of its own, marked so that what it leaves can be ended."""
    try:
        return subprocess.Popen(
            command,
            stdout=beside_output(),
            stderr=errors,
            start_new_session=True,
            env={**os.environ, SCRATCH_MARK: str(folder)},
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise RunError(
            f"Cannot run {command[0]}: {(error.strerror or str(error)).lower()}.",
            "Give a program and its arguments after --, as in: nodewise diagnose -- python job.py",
        ) from None


def start_adopting(
    command: tuple[str, ...], folder: Path, errors: int
) -> "tuple[subprocess.Popen[bytes], Adopted]":
    """Start a program; what it puts into the background is given to us, until that is closed."""
    adopted = Adopted(folder)
    try:
        program = start_program(command, folder, errors)
    except RunError:
        adopted.close()
        raise
    adopted.started(program.pid)
    return program, adopted


def _watch(command: tuple[str, ...], most_seconds: float, folder: Path) -> Observation:
    tail = bytearray()
    began = time.monotonic()
    program, adopted = start_adopting(command, folder, subprocess.PIPE)
    assert program.stderr is not None
    copying = threading.Thread(target=_copy, args=(program.stderr, tail), daemon=True)
    copying.start()
    looker = _Looker(program.pid, adopted)
    hot_spots = HotSpots(folder)
    stopped = False
    try:
        while program.poll() is None:
            if time.monotonic() - began > most_seconds:
                stopped = True
                break
            looker.look()
            if len(looker.samples) == _STARTED_WINDOWS:
                hot_spots.begin(program.pid)
    finally:
        seconds = time.monotonic() - began
        with contextlib.suppress(PermissionError):  # a program of another user
            end(program)
        adopted.close()
        looker.stop_sampling()
        spots = hot_spots.found()
    if len(looker.samples) < 3:  # else the last one is cut short by the end of the program
        looker.close_window()
    copying.join(timeout=1)
    return Observation(
        command=command,
        seconds=seconds,
        samples=tuple(looker.samples),
        exit_code=None if stopped else program.returncode,
        error_tail=tail.decode(errors="replace"),
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        cores=len(os.sched_getaffinity(0)),
        memory_limit=min(limits().values()),
        group_kills=looker.kills.in_groups(),
        node_kills=looker.kills.on_node(),
        libraries=tuple(sorted(looker.libraries)),
        cpu_pressure=contention().get("cpu_pressure"),
        stopped=stopped,
        hot_spots=spots,
    )


def beside_output() -> int:
    """Where a program's own output goes, apart from that of nodewise."""
    try:
        return sys.stderr.fileno()
    except (OSError, AttributeError, ValueError):
        return subprocess.DEVNULL


def _copy(source: IO[bytes], tail: bytearray) -> None:
    """Pass on what the program complains about, and keep the end of it."""
    with source:
        for line in source:
            sys.stderr.write(line.decode(errors="replace"))
            tail += line
            del tail[:-_TAIL_BYTES]


class _Thread:
    """What one thread was seen doing in this window, and its clock."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.first: tuple[int, int, int, int] | None = None
        self.last: tuple[int, int, int, int] | None = None


class Adopted:
    """Processes that a watched program has put into the background, outside of its tree.

    The kernel gives them to us as children, as long as we ask for that. Others of our children do
    not have the mark of the program; who has ended has no environment, but another session.
    """

    def __init__(self, folder: Path) -> None:
        """From now on; `folder` is the mark."""
        self._mark = f"{SCRATCH_MARK}={folder}".encode()
        self._known = dict.fromkeys(_children(), False)
        self._adopt(True)

    def _adopt(self, is_wanted: bool) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_wanted), 0, 0, 0)

    def started(self, root: int) -> None:
        """Note the program itself, which does not count as an orphan."""
        self._known[root] = False

    def processes(self) -> list[int]:
        """Those that still run."""
        children = _children()
        for child in children:
            if child not in self._known:
                with contextlib.suppress(OSError):
                    mark = Path(f"/proc/{child}/environ").read_bytes()
                    is_ours = not mark and os.getsid(child) == os.getsid(0)
                    self._known[child] = not is_ours and (not mark or self._mark in mark)
        return [child for child in children if self._known.get(child) and not _is_reaped(child)]

    def close(self) -> None:
        """End them, reap them, and take no more."""
        deadline = time.monotonic() + _GONE_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:  # its children are ours then, and are next
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
        self._adopt(False)


def _children() -> list[int]:
    """The processes that are our own children."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in _entries("/proc/self/task"):
            found += map(int, _read(f"/proc/self/task/{thread}/children").split())
    return found


def _is_reaped(child: int) -> bool:
    """Reap our child if it has ended; whether it had."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except OSError:
        return True


class _Looker:
    """Looks at the tree below one process, and turns looks into samples."""

    def __init__(self, root: int, adopted: "Adopted") -> None:
        self._root = root
        self._adopted = adopted
        self._totals: Counter[str] = Counter()  # of the tree, at the last look
        self._change: Counter[str] = Counter()  # since the window began
        self._spent: dict[int, float] = {}  # CPU seconds of each process that is alive
        self._spent_before: dict[int, float] = {}
        self._threads: dict[tuple[int, int], _Thread] = {}
        self.samples: list[Sample] = []
        self.libraries: set[str] = set()
        self._seen_libraries: dict[int, int] = {}
        self._touch = Touch()
        self._alive = [root]
        self._traffic: dict[int, Traffic] = {}
        self.kills = Kills()
        self._file_locks = FileLocks()
        self._spinners: set[int] = set()  # processes with a library that waits by spinning
        self._inside: Inside | None = None
        self._slower = 1.0
        self._begin()

    def _begin(self) -> None:
        """A new window; what was last seen is where it starts."""
        self._start = time.monotonic()
        self._looks = 0
        self._running = self._disk = self._completing = self._timed = 0
        self._lock_looks = self._locked = 0
        if len(self._spinners) > 1 and len(self.samples) % _INSIDE_EVERY == 0:
            self._inside = Inside(self._spinners)
        self._change = Counter()
        self._spent_before = dict(self._spent)
        for thread in self._threads.values():
            thread.seen = Counter()
            thread.first = thread.last

    def look(self) -> None:
        """One look, then a pause that keeps the cost of looking small."""
        cpu = time.thread_time()
        is_last = self._is_over() and self._looks >= _LEAST_LOOKS - 1
        states = self._look_at_all() if is_last or self._is_small() else self._look_at_some()
        self._looks += 1
        self._running += "R" in states
        self._disk += "D" in states and "R" not in states
        self._completing += "completion" in states and not states & {"D", "R"}
        cost = time.thread_time() - cpu
        self._touch.look(self._busiest)
        if is_last or (self._is_over() and self._is_small() and self._looks >= _LEAST_LOOKS):
            self.close_window()
        time.sleep(self._slower * max(_LOOK_SECONDS, cost / _COST - cost))

    def _is_over(self) -> bool:
        return time.monotonic() - self._start >= _WINDOW_SECONDS

    def _is_small(self) -> bool:
        return len(self._alive) <= _MOST_AT_ONCE

    def _look_at_all(self) -> set[str]:
        """The states of all threads; the counters of the tree."""
        self._alive = _tree(self._root)
        for process in self._adopted.processes():
            self._alive += _tree(process)
        states: set[str] = set()
        totals: Counter[str] = Counter()
        self._spent = {}
        seldom = self._looks % _SELDOM == 0
        for process in self._alive[:_FEW] if seldom else ():
            self.kills.look(process)
        running = set()
        for process in self._alive:
            own = self._look_at(process, totals)
            states |= own
            if own & {"R", "D"}:
                running.add(process)
        if seldom and len(self._alive) > 1:
            waits, asks = self._file_locks.waiting(self._alive)
            self._lock_looks += 1
            self._locked += len(waits | asks - running)
        # What has ended is now in the counters of its parent, so the sum only grows; where it
        # falls, a process ended without a parent, and nothing is known of that moment.
        for name, total in totals.items():
            self._change[name] += max(total - self._totals[name], 0.0)  # type: ignore[assignment]
        self._totals = totals
        return states

    def _look_at_some(self) -> set[str]:
        """The states of a part of a large tree: the next one each time."""
        step = -(-len(self._alive) // _MOST_AT_ONCE)
        spent, states, unused = self._spent, set(), Counter[str]()
        for process in self._alive[self._looks % step :: step]:
            states |= self._look_at(process, unused)
        self._spent = spent
        return states

    def _look_at(self, process: int, totals: "Counter[str]") -> set[str]:
        """The states of its threads; its counters are added to the totals."""
        states: set[str] = set()
        try:
            stat = _stat(f"/proc/{process}/stat")
            totals.update(_counters(stat, process))
            self._spent[process] = float(stat[11]) + float(stat[12])
            for name in _entries(f"/proc/{process}/task"):
                place = f"/proc/{process}/task/{name}"
                state = _stat(f"{place}/stat")[0] if int(stat[17]) > 1 else stat[0]
                thread = self._threads.setdefault((process, int(name)), _Thread())
                kind = _wait(place) if state == "S" else state
                thread.seen[kind] += 1
                if kind == "lock" and self._looks % _SELDOM == 0:
                    self._timed += _SELDOM * is_timed(place)
                states.add("completion" if kind == "completion" else state)
        except (OSError, IndexError, ValueError):
            pass  # it has just ended
        return states

    def _busiest(self) -> int | None:
        """The process that has taken most CPU in this window."""
        return max(self._alive, key=self._recently, default=None)

    def _recently(self, process: int) -> float:
        """CPU that a process has taken in this window."""
        return self._spent.get(process, 0.0) - self._spent_before.get(process, 0.0)

    def close_window(self) -> None:
        """Sum up the window, if there was anything to see in it."""
        seconds = time.monotonic() - self._start
        if self._looks >= _LEAST_LOOKS:
            self.samples.append(self._sample(seconds))
            self._slower = _slower_for(self.samples[-1])
        self.stop_sampling()  # of a window without a sample
        self._begin()
        gone = [key for key in self._threads if not Path(f"/proc/{key[0]}/task/{key[1]}").exists()]
        for key in gone:
            del self._threads[key]

    def _sample(self, seconds: float) -> Sample:
        change = self._change
        touched = self._touch.taken()
        ranks = self._taken_inside()
        python = set()
        for process in self._spent:
            self._note_libraries(process)
            if is_python(process):
                python.add(process)
        opened = Opened.of(self._spent)
        carried = self._carried(opened.sockets)
        worked = change["user"] + change["system"]
        ran = unclocked = 0
        in_python = 0.0
        waits: defaultdict[str, float] = defaultdict(float)
        idle: defaultdict[str, float] = defaultdict(float)
        delay = switches = forced = 0.0
        spent: Counter[str] = Counter()
        delays: Counter[int] = Counter()
        active = 0
        for (process_id, thread_id), thread in self._threads.items():
            ran += thread.seen["R"]
            try:
                thread.last = _clock_of(f"/proc/{process_id}/task/{thread_id}")
            except (OSError, ValueError, IndexError):  # it has ended
                unclocked += thread.seen["R"]
            begin, end = thread.first or (0, 0, 0, 0), thread.last or (0, 0, 0, 0)
            waited = max(end[1] - begin[1], 0) / 1e9
            cpu = max(end[0] - begin[0], 0) / 1e9
            delay += waited
            delays[process_id] += waited  # type: ignore[assignment]
            if cpu:
                spent[f"{process_id}.{thread_id}"] = cpu  # type: ignore[assignment]
            switches += end[2] - begin[2]
            forced += end[3] - begin[3]
            own = idle
            times = 1.0 if self._is_small() else self._looks / max(thread.seen.total(), 1)
            works = cpu + waited > _ACTIVE * seconds and cpu >= _ACTIVE * worked
            if works or times * thread.seen["R"] > 0.1 * self._looks:
                active += 1
                own = waits
            for kind, count in thread.seen.items():
                own[kind] += times * count
            if own is waits and process_id in python:
                in_python += times * thread.seen["lock"]
        looks = max(self._looks, 1)
        return Sample(
            seconds=seconds,
            user=change["user"],
            system=change["system"],
            run_delay=delay,
            active_threads=active,
            runnable_ticks=self._running / looks,
            unclocked=unclocked / max(ran, 1),
            disk_ticks=self._disk / looks,
            completion_ticks=self._completing / looks,
            lock_threads=waits["lock"] / looks,
            socket_threads=waits["socket"] / looks,
            event_threads=waits["event"] / looks,
            timed_threads=self._timed / looks,
            idle_threads=sum(idle.values()) / looks,
            python_lock_threads=in_python / looks,
            file_lock_processes=self._locked / max(self._lock_looks, 1),
            message_samples=sum(one.messages for one in ranks.values()),
            own_samples=sum(one.own for one in ranks.values()),
            ranks={
                str(process): Rank(one.messages, one.own, delays[process])
                for process, one in ranks.items()
            },
            busiest_thread=max(spent.values(), default=0.0),
            thread_seconds=dict(spent.most_common(_MOST_CLOCKED)),
            sockets=len(opened.sockets),
            pipes=opened.pipes,
            files=opened.files,
            message_bytes=None if carried is None else carried.bytes,
            messages=None if carried is None else carried.segments,
            storage_bytes=change["storage"],
            io_bytes=change["moved"],
            io_calls=change["calls"],
            minor_faults=change["minor"],
            major_faults=change["major"],
            switches=max(switches, 0.0),
            forced_switches=max(forced, 0.0),
            touched_bytes=touched.bytes,
            touched_seconds=touched.seconds,
            touched_of_bytes=touched.of_bytes,
            touched_huge=touched.huge,
            resident_bytes=self._totals["resident"],
            processes=len(self._spent),
            threads=len(self._threads),
        )

    def stop_sampling(self) -> None:
        """Close what samples ranks; the kernel has a file and a buffer open for each thread."""
        if self._inside is not None:
            self._inside.close()
            self._inside = None

    def _taken_inside(self) -> dict[int, Share]:
        """Samples of each rank in this window: in the library of messages, and in other code."""
        return self._inside.taken() if self._inside is not None else {}

    def _carried(self, inodes: list[int]) -> Traffic | None:
        """What its TCP sockets carried in this window."""
        if not inodes:
            return Traffic(0, 0)
        now = tcp_traffic()
        if now is None:
            return None
        before, self._traffic = self._traffic, {one: now[one] for one in inodes if one in now}
        grown = [(after, before.get(one, Traffic(0, 0))) for one, after in self._traffic.items()]
        return Traffic(
            sum(max(after.bytes - earlier.bytes, 0) for after, earlier in grown),
            sum(max(after.segments - earlier.segments, 0) for after, earlier in grown),
        )

    def _note_libraries(self, process: int) -> None:
        """Libraries of a process, looked at a few times in its life: reading maps is not cheap."""
        times = self._seen_libraries.get(process, 0)
        self._seen_libraries[process] = times + 1
        if times not in (0, 2, 8):
            return
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{process}/maps").read_text()
            loaded = {name for name in _LIBRARIES if name in maps}
            self.libraries |= loaded
            if loaded & set(_MESSAGES):
                self._spinners.add(process)


def _slower_for(sample: Sample) -> float:
    """How many times longer the pauses may be, for as many looks in a second of its own time."""
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    return 1.0 if wanted < _ACTIVE * sample.seconds else min(wanted / max(cpu, 1e-9), _SLOWEST)


def _tree(root: int) -> list[int]:
    """The process and all below it."""
    found, todo = [], [root]
    while todo:
        process = todo.pop()
        found.append(process)
        try:
            for name in _entries(f"/proc/{process}/task"):
                children = _read(f"/proc/{process}/task/{name}/children")
                todo.extend(int(child) for child in children.split())
        except FileNotFoundError:
            if process == root and not Path(f"/proc/{root}/task/{root}/children").exists():
                with contextlib.suppress(psutil.Error):  # a kernel that does not list children
                    below = psutil.Process(root).children(recursive=True)
                    return [root, *(one.pid for one in below)]
        except (OSError, ValueError):
            continue
    return found


def _entries(folder: str) -> list[str]:
    return os.listdir(folder)  # noqa: PTH208 - many times a second, so no objects for the names


def _read(path: str) -> str:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096).decode(errors="replace")
    finally:
        os.close(file)


def _stat(path: str) -> list[str]:
    """The fields behind the name of the program, which may hold anything: state is the first."""
    return _read(path).rpartition(") ")[2].split()


def _counters(stat: list[str], process: int) -> dict[str, float]:
    """Of a process and of its children that have ended and were waited for."""
    found = {
        "minor": float(stat[7]) + float(stat[8]),
        "major": float(stat[9]) + float(stat[10]),
        "user": (float(stat[11]) + float(stat[13])) * _TICK,
        "system": (float(stat[12]) + float(stat[14])) * _TICK,
        "resident": float(stat[21]) * 4096,
    }
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(": ") for line in _read(f"/proc/{process}/io").splitlines())
        found["storage"] = float(lines["read_bytes"]) + float(lines["write_bytes"])
        found["moved"] = float(lines["rchar"]) + float(lines["wchar"])
        found["calls"] = float(lines["syscr"]) + float(lines["syscw"])
    return found


def _wait(place: str) -> str:
    """What a sleeping thread waits for: a lock, a message, an event, a child, or unknown."""
    try:
        channel = _read(f"{place}/wchan")
    except OSError:
        return "unknown"
    waits = (kind for kind, parts in _WAITS.items() if any(part in channel for part in parts))
    return next(waits, "unknown")


def _clock_of(place: str) -> tuple[int, int, int, int]:
    """CPU and run-queue nanoseconds, and switches by choice and by force, of one thread."""
    cpu, delay, _ = _read(f"{place}/schedstat").split()
    status = _read(f"{place}/status")
    chosen, forced = (
        int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line
    )
    return int(cpu), int(delay), chosen, forced
