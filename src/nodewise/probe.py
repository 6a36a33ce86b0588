"""What a workload may call to say what it is doing. Standard library only; all of it optional.

    from nodewise import probe
    with probe.setup():                 # not timed; reported separately
        model, loader = build()
    for batch in probe.steps(loader):   # a step each; waiting for the loader is I/O
        with probe.compute(): loss = forward_backward(batch)
        with probe.comm(): all_reduce(grads)
        with probe.serial(): checkpoint()   # one rank works while the others wait
    probe.quality(accuracy=evaluate(), split="test", seed=0)
    probe.work(items=n)
    probe.fact(global_batch=4096, dtype="float32")

Without nodewise around it every call does nothing. Spans may be nested to any depth:
the inner one takes its time from the outer. One thread calls the probe.

The clock runs from `setup`, or else from the first `steps`, to the end of the last `steps`. So with
a `steps` for each epoch, what lies between epochs is timed and what follows the last is not.

On an emulated node (`NODEWISE_PACE_SHARE`) the probe also paces: the rank computes at full speed,
and sleeps before it communicates or ends a step until it is as slow as the node would be.
"""

import atexit
import contextlib
import json
import os
import resource
import socket
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from math import isfinite, nan
from pathlib import Path
from time import (
    clock_gettime_ns,
    monotonic,
    perf_counter_ns,
    process_time_ns,
    sleep,
    thread_time,
    time,
)
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")
# When it was read, the counters of `getrusage`, CPU seconds of the thread, and two files of /proc.
_Usage = tuple[int, resource.struct_rusage, float, bytes, bytes]

# The variables in which launchers tell a worker its rank.
RANK_NAMES = ("NODEWISE_RANK", "RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_STAGES = ("compute", "communication", "idle", "io", "serial")
# The least there is for who communicates. A longer slice for who computes would make it wait as
# long for other load afterwards: with 100 ms, ranks were late two to five times as much.
_COMPUTE_SLICE_NS, _URGENT_SLICE_NS = 500_000, 100_000
_MOST_LATE_NS = 100_000_000  # of a timer: beyond, the machine stood still
_MEET_SECONDS = 600.0  # a rank that never comes must not block the others without end
# Between looks at a shared folder: many ranks must not load its server while the last one loads.
_FIRST_POLL_SECONDS, _LAST_POLL_SECONDS = 0.01, 0.1


class _Span:
    """The time of one stage: entered and left many times, also inside itself."""

    __slots__ = ("calls", "in_calls", "total")

    def __init__(self, calls: "array[int] | None" = None) -> None:
        self.total = 0
        self.calls = calls  # the length of each call, where calls are matched over ranks
        self.in_calls = 0  # how much of the total is in there

    # Entering and leaving do not call `_settle`, as that would make a span a third slower.
    def __enter__(self) -> None:
        global _since
        now = perf_counter_ns()
        if _open:
            _open[-1].total += now - _since
        _open.append(self)
        _since = now

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        global _since
        now = perf_counter_ns()
        innermost = _open.pop()
        innermost.total += now - _since
        _since = now
        if innermost is not self:  # left out of order, as by a generator that yields inside a span
            _open.append(innermost)
            _open.remove(self)
        if self.calls is not None and self not in _open:
            self.calls.append(self.total - self.in_calls)
            self.in_calls = self.total


_open: list[_Span] = []  # the innermost last: time goes to that one alone
_since = 0  # up to here it has been given out


class _Used:
    """What a span used between two pacing points, in nanoseconds."""

    __slots__ = ("blocked", "cpu", "wall")

    def __init__(self) -> None:
        self.cpu = self.wall = self.blocked = 0


class _Pace:
    """Makes a rank as slow as the emulated node that it runs on.

    The CPU time between two pacing points (a communication call, the end of a step) must take that
    time divided by the node's share of a core. What is missing is slept, and belongs to the spans
    that used the CPU. Time blocked on anything but the core passes as it does on any node. In
    communication and waiting nothing is counted, so a library that spins there costs nothing.

    Many ranks share few cores. So a rank that communicates goes before those that compute, and if
    it still waits for a core after its message has come, that counts as part of its next pace.
    """

    def __init__(self, environment: "os._Environ[str]") -> None:
        self.share = float(environment["NODEWISE_PACE_SHARE"])
        self.latency = float(environment.get("NODEWISE_PACE_LATENCY", "0"))
        self.bandwidth = float(environment.get("NODEWISE_PACE_BANDWIDTH", "0"))  # 0: a real link
        self.ranks = int(environment.get("NODEWISE_RANKS", environment.get("NODEWISE_NODES", "1")))
        self.resting: list[_Span] = []  # the spans in which nothing is counted
        self.other_clocks: list[int] = []  # of threads that only move bytes
        self.other_ns: dict[int, int] = {}  # what each of them has used, when last read
        self.ended_ns = 0  # the same of those that have ended
        self.running = False
        self.transfer = 0.0  # seconds that the modelled link takes for the call under way
        self.late_timer_ns = 0  # how much longer than that its sleep took
        self.schedule: int | None = None
        self.slices = _Slices()
        self.used: dict[_Span | None, _Used] = {}  # since the last pacing point
        self.charged = self.seen = self.credit = 0  # where counting was
        self.scheduled = (0, 0, 0)
        self.forget()

    def forget(self) -> None:
        """Start the sums again: the timed region begins."""
        self.cpu_ns = self.paced_ns = self.late_ns = 0
        self.calls_without_bytes = 0

    def begin(self) -> None:
        """Count from here on."""
        self.running = True
        if self.schedule is None:
            with contextlib.suppress(OSError):  # Linux only
                self.schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._restart()

    def end(self) -> None:
        """Pace what is left and stop counting."""
        outer = _open[-1] if _open else None
        if outer not in self.resting:
            self._charge(outer)
            self.late_ns += max(-self._missing(), 0)
            self._sleep()
        self.running = False

    def point(self) -> None:
        """The end of a step or a gradient: sleep until the wall time fits the CPU time.

        No other rank waits here, so a rank that is late may catch up, and a sleep that took too
        long makes the next one shorter.
        """
        outer = _open[-1] if _open else None
        if self.running and outer not in self.resting:
            self._charge(outer)
            if self._missing() > 0:
                self._restart(credit=self._sleep())

    def enter(self, span: _Span) -> None:
        """A span begins: charge the one around it, and pace before communication."""
        outer = _open[-1] if _open else None
        if self.running and outer not in self.resting:
            self._charge(outer)
            if span in self.resting:
                self._settle()

    def leave(self, span: _Span) -> None:
        """A span is about to end."""
        if not self.running or _open[-1] is not span:
            return
        outer = _open[-2] if len(_open) > 1 else None
        if span not in self.resting:
            self._charge(span)
        elif outer not in self.resting:
            _, delayed, times = self.scheduled
            _, now_delayed, now_times = self._scheduled()
            credit = (now_delayed - delayed) // max(now_times - times, 1)  # of the last time
            span.total -= credit
            self.slices.ask(_COMPUTE_SLICE_NS)
            self._restart(credit)

    def use_link(self) -> None:
        """Take the time of the modelled link, at the end of a communication call.

        A timer that rang late makes the next sleep shorter; for a wait for the core, `leave` does.
        """
        if self.running and self.bandwidth and self.ranks > 1:
            begin, delayed = perf_counter_ns(), self._scheduled()[1]
            wanted = int((self.transfer or self.latency) * 1e9) - self.late_timer_ns
            sleep(max(wanted, 0) / 1e9)
            delayed = self._scheduled()[1] - delayed
            late = perf_counter_ns() - begin - wanted - delayed
            self.late_timer_ns = min(late, _MOST_LATE_NS)
            self.calls_without_bytes += not self.transfer
        self.transfer = 0.0

    def send(self, sent_bytes: float, messages: int) -> None:
        """What the call under way sends over the link of this rank."""
        if self.bandwidth:
            self.transfer += messages * self.latency + sent_bytes / self.bandwidth

    def _charge(self, span: _Span | None) -> None:
        """Note what a span used since the last call."""
        charged, seen, scheduled = self._cpu(), perf_counter_ns(), self._scheduled()
        used = self.used.setdefault(span, _Used())
        on_core = sum(scheduled[:2]) - sum(self.scheduled[:2])
        used.cpu += charged - self.charged
        used.wall += seen - self.seen
        used.blocked += max(seen - self.seen - on_core, 0) if self.schedule is not None else 0
        self.seen, self.scheduled = seen, scheduled
        self.charged = self._cpu()  # what pacing itself takes is not the program's

    def _restart(self, credit: int = 0) -> None:
        self.used.clear()
        self.credit = credit
        self.scheduled = self._scheduled()
        self.seen = perf_counter_ns()
        self.charged = self._cpu()

    def _settle(self) -> None:
        """Sleep what is missing, or be late for the others."""
        self.slices.ask(_URGENT_SLICE_NS)
        self.late_ns += max(-self._missing(), 0)
        self._sleep()
        self._restart()

    def _missing(self) -> int:
        """Nanoseconds that the node would still need for what was computed; negative: late."""
        owed = sum(used.cpu / self.share + used.blocked - used.wall for used in self.used.values())
        return int(owed) - self.credit

    def _sleep(self) -> int:
        """Sleep what is missing; by how much that took longer."""
        global _since
        missing, begin, slept = self._missing(), perf_counter_ns(), 0
        if missing > 0:
            sleep(missing / 1e9)
            slept = perf_counter_ns() - begin
        self.paced_ns += slept
        _since += slept
        self._give_out(slept)
        return max(slept - missing, 0)

    def _give_out(self, slept: int) -> None:
        """Give each span the time that its CPU takes on the node, and in which it was blocked."""
        cpu = sum(used.cpu for used in self.used.values())
        computed = slept + self.credit
        computed += sum(used.wall - used.blocked for used in self.used.values())
        self.cpu_ns += cpu
        for span, used in self.used.items():
            if span is not None and cpu:
                span.total += computed * used.cpu // cpu + used.blocked - used.wall

    def _cpu(self) -> int:
        """CPU time of this process, without the threads that a network card would replace."""
        used = process_time_ns()
        for clock in tuple(self.other_clocks):
            try:
                self.other_ns[clock] = clock_gettime_ns(clock)
            except OSError:  # the thread has ended; what it used stays in the process's time
                self.other_clocks.remove(clock)
                self.ended_ns += self.other_ns.pop(clock, 0)
        return used - self.ended_ns - sum(self.other_ns.values())

    def _scheduled(self) -> tuple[int, int, int]:
        """How long this thread ran, waited for a core, and how often; zeros where not known."""
        if self.schedule is None:
            return 0, 0, 0
        ran, delayed, times = os.pread(self.schedule, 100, 0).split()
        return int(ran), int(delayed), int(times)


class _Slices:
    """How long a rank asks to keep the core: who asks for less goes first (Linux 6.12 or newer)."""

    def __init__(self) -> None:
        import ctypes  # only ranks that are paced need it

        self.call = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)  # sched_setattr
        self.library = ctypes.CDLL(None)
        self.nice = os.getpriority(os.PRIO_PROCESS, 0)

    def ask(self, nanoseconds: int) -> None:
        """Ask for this from now on; where it is not possible, nothing changes."""
        if self.call is not None:
            attributes = struct.pack("IIQiIQQQ", 48, 0, 0, self.nice, 0, nanoseconds, 0, 0)
            self.library.syscall(self.call, 0, attributes, 0)


class _PacedSpan(_Span):
    """A span of a rank that is paced."""

    __slots__ = ("is_comm", "pace")

    def __init__(self, pace: _Pace, calls: "array[int] | None", is_comm: bool) -> None:
        super().__init__(calls)
        self.pace = pace
        self.is_comm = is_comm

    def __enter__(self) -> None:
        self.pace.enter(self)
        super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        if self.is_comm:
            self.pace.use_link()
        self.pace.leave(self)
        super().__exit__(kind, error, trace)


def turn(span: _Span) -> None:
    """End the innermost span and begin this one."""
    global _since
    now = perf_counter_ns()
    _open[-1].total += now - _since
    _open[-1] = span
    _since = now


def _settle() -> int:
    """Give the innermost open span its time up to now."""
    global _since
    now = perf_counter_ns()
    if _open:
        _open[-1].total += now - _since
    _since = now
    return now


class _Report:
    """What this rank has to tell; written once, when the process ends."""

    def __init__(self, folder: Path, environment: "os._Environ[str]") -> None:
        self.folder = folder
        self.process = os.getpid()
        given = [int(environment[name]) for name in RANK_NAMES if name in environment]
        self.has_rank = bool(given)
        self.rank = given[0] if given else 0
        self.warmup = int(environment.get("NODEWISE_WARMUP_STEPS", "0"))
        # Where our library is in the MPI of this program, that one meets at the gate.
        met = "NODEWISE_MPI_GATE" in environment
        self.gate = None if met else environment.get("NODEWISE_GATE")
        self.ranks = int(environment.get("NODEWISE_RANKS", environment.get("NODEWISE_NODES", "1")))
        self.door: socket.socket | None = None  # open from the gate until no more steps can come
        self.comm_calls = array("q")
        self.step_ends = array("q")
        self.pace = _pace_of(environment)
        self.spans = {name: self._span(name) for name in _STAGES}
        self.pairwise = self._span(
            "pairwise"
        )  # communication between two ranks, which others do not match
        if self.pace is not None:
            self.pace.resting = [self.spans["communication"], self.spans["idle"], self.pairwise]
        self.beside_ns = 0  # communication in another thread that this one waited for
        self.beside_calls = array("q")
        self.slept_ns = 0
        self.expects_steps = "LOCAL_RANK" in environment  # of a torch job: none is a fault
        self.watches = False  # hooks would see steps
        self.joined = False  # others, by torch.distributed
        self.is_carried = "NODEWISE_CARRIED" in environment
        self.seen: Callable[[], dict[str, object]] | None = None  # what hooks saw of the workload
        self.setup_ns = 0
        self.begin_ns = 0
        self.began = 0.0  # the same moment, for clocks of others
        self.end_ns = 0  # of the last step so far; 0 while the clock runs
        self.all_spans = (*self.spans.values(), self.pairwise)
        self.at_end = [0] * len(self.all_spans)  # their totals, at that end
        self.beside_at_end = 0
        self.calls = self.calls_beside = 0  # of `comm_calls` and `beside_calls`, at that end
        self.steps = 0
        self.steps_are_told = False  # the workload calls `steps`
        self.items: float | None = None
        self.quality: float | None = None
        self.facts: dict[str, object] = {}
        self.usage_at_begin: _Usage | None = None
        self.usage_at_end: _Usage | None = None

    def _span(self, stage: str) -> _Span:
        calls = self.comm_calls if stage == "communication" else None
        if self.pace is None:
            return _Span(calls)
        return _PacedSpan(self.pace, calls, stage in ("communication", "pairwise"))

    def open_region(self) -> None:
        """Start the clock, once all ranks are here."""
        if self.begin_ns:
            return
        self._pass_gate()
        self._restart()
        self.go_on()

    def go_on(self) -> None:
        """More steps come: their time counts, and is paced."""
        self.end_ns = 0
        if self.pace is not None and not self.pace.running:
            self.pace.begin()

    def _pass_gate(self) -> None:
        """Wait until every rank is ready, so that none is timed while others still load."""
        if self.gate is None:
            return
        if not Path(self.gate).is_socket():
            self._meet(Path(self.gate))
            return
        self.door = socket.socket(socket.AF_UNIX)
        self.door.connect(self.gate)
        self.door.sendall(b"%d\n" % self.rank)
        self.door.recv(1)

    def _meet(self, place: Path) -> None:
        """The gate of ranks on several machines: a shared folder with a file for each."""
        place.mkdir(exist_ok=True)
        (place / str(self.rank)).touch()
        deadline, pause = monotonic() + _MEET_SECONDS, _FIRST_POLL_SECONDS
        while len(here := {path.name for path in place.iterdir()}) < self.ranks:
            if monotonic() > deadline:
                raise _no_rank_came([str(r) for r in range(self.ranks) if str(r) not in here])
            sleep(pause)
            pause = min(1.5 * pause, _LAST_POLL_SECONDS)

    def _restart(self) -> None:
        self.usage_at_begin = _read_usage()
        self.begin_ns = _settle()  # a span that is open goes on from here
        self.began = time()
        for span in self.all_spans:
            span.total = span.in_calls = 0
        self.beside_ns = self.slept_ns = 0
        del self.beside_calls[:]
        del self.comm_calls[:]
        del self.step_ends[:]
        if self.pace is not None:
            self.pace.forget()

    def step_done(self) -> None:
        """Count a step; the clock starts again when the warm-up is over."""
        if self.pace is not None:
            self.pace.point()
        self.steps += 1
        if self.steps == self.warmup:
            self._restart()
        else:
            self.step_ends.append(perf_counter_ns())

    def note_end(self) -> None:
        """Hold fast what is measured up to here; what follows is timed only if more steps come.

        It is called at every step of a training, so it only copies.
        """
        self.end_ns = _settle()
        self.at_end = [span.total for span in self.all_spans]
        self.beside_at_end = self.beside_ns
        self.calls, self.calls_beside = len(self.comm_calls), len(self.beside_calls)

    @property
    def totals(self) -> dict[str, int]:
        """Nanoseconds of the stages, at the end of the last step."""
        *stages, pairwise = self.at_end
        totals = dict(zip(self.spans, stages, strict=True))
        totals["communication"] += pairwise + self.beside_at_end
        totals["compute"] -= min(self.beside_at_end, totals["compute"])
        return totals

    def note_beside(self, exposed_ns: int) -> None:
        """Another thread communicated, and the timed one waited for it so long."""
        if self.begin_ns:
            self.beside_ns += exposed_ns
            self.beside_calls.append(exposed_ns)

    def expect(self) -> None:
        """The program joined others to train."""
        self.expects_steps = self.joined = True

    def close_region(self) -> None:
        """Stop the clock, until more steps come."""
        if self.pace is not None and self.pace.running:
            self.pace.end()
        self.note_end()
        if self.begin_ns:
            self.usage_at_end = _read_usage()

    def usage(self) -> dict[str, float]:
        """What the process used from the begin to the end; the most memory, not more of it.

        It may have been read before the end, and is taken to go on alike.
        """
        if self.usage_at_begin is None or self.usage_at_end is None:
            return {}
        seen = self.usage_at_end[0] - self.usage_at_begin[0]
        whole = (self.end_ns - self.begin_ns) / max(seen, 1)
        begin, end = _amounts(self.usage_at_begin), _amounts(self.usage_at_end)
        used = {name: whole * (amount - begin[name]) for name, amount in end.items()}
        whole_bytes = {name: int(used[name]) for name in ("read_bytes", "written_bytes")}
        return {**used, **whole_bytes, "memory_bytes": end["memory_bytes"]}

    def leave(self) -> None:
        """Tell the gate that no more steps come."""
        if self.pace is not None:
            self.pace.running = False
        if self.door is not None:
            with contextlib.suppress(OSError):  # the other side may have ended
                # Closing alone is not noticed while a child, such as a loader's worker, has it too.
                self.door.shutdown(socket.SHUT_RDWR)
            self.door.close()
            self.door = None

    def _takes_part(self) -> bool:
        """Whether this is a worker; in a job that launches its own, the launcher has hooks too."""
        return not self.is_carried or self.has_rank or bool(self.begin_ns) or self.joined

    def _lacks_steps(self) -> bool:
        """Whether steps should have run, and none did: the clock was never started."""
        told = any((self.facts, self.items, *self.totals.values()))
        return self.expects_steps and not self.begin_ns and (self.watches or not told)

    def write(self) -> None:
        """Leave the report in the folder of the run; the name appears when it is whole."""
        if os.getpid() != self.process or not self._takes_part():
            return  # a child that was forked off has nothing to tell
        if not self.end_ns:
            self.close_region()
        self.leave()
        usage = {name: _finite(amount) for name, amount in self.usage().items()}
        figures = {"quality": self.quality, "items": self.items}
        told = {
            "rank": self.rank,
            "has_rank": self.has_rank,
            "host": socket.gethostname(),
            "began": self.began or None,
            "seconds": (self.end_ns - self.begin_ns) / 1e9 if self.begin_ns else None,
            "setup_seconds": self.setup_ns / 1e9,
            "steps": max(self.steps - self.warmup, 0),
            "counts_steps": self.steps_are_told or self.steps > 0 or self._lacks_steps(),
            "seen": self.seen() if self.seen is not None else {},
            "stages": {name: total / 1e9 for name, total in self.totals.items() if total},
            "items": _finite(self.items),
            "quality": _finite(self.quality),
            "no_number": ", ".join(
                f"{name} is {value}"
                for name, value in figures.items()
                if value is not None and not isfinite(value)
            ),
            "facts": {name: _as_json(fact) for name, fact in self.facts.items()},
            "usage": usage,
            **({} if self.pace is None else _paced_facts(self.pace)),
            "comm_calls": self.calls + self.calls_beside,
            "step_ends": len(self.step_ends),
            "modules": {
                name: getattr(sys.modules[name], "__version__", "")
                for name in ("numpy", "torch", "mpi4py", "ray", "dask", "jax", "sklearn")
                if name in sys.modules
            },
        }
        path = self.folder / f"rank-{self.rank}"
        if not self.begin_ns and path.with_suffix(".json").exists():
            return  # a process that a rank started: it has the rank's environment, and no steps
        with path.with_suffix(".bin").open("wb") as file:
            self.comm_calls[: self.calls].tofile(file)
            self.beside_calls[: self.calls_beside].tofile(file)
            array("q", [end - self.begin_ns for end in self.step_ends]).tofile(file)
        path.with_suffix(".part").write_text(json.dumps(told))
        path.with_suffix(".part").rename(path.with_suffix(".json"))


def _pace_of(environment: "os._Environ[str]") -> _Pace | None:
    """The pace of this rank; none on a real node, or where the MPI library is paced itself."""
    if environment.get("NODEWISE_MPI_INTERPOSED") == "1":
        return None
    return _Pace(environment) if "NODEWISE_PACE_SHARE" in environment else None


def _paced_facts(pace: _Pace) -> dict[str, float]:
    """What the pacing of a rank did, for its report."""
    return {
        "cpu_s": pace.cpu_ns / 1e9,
        "paced_s": pace.paced_ns / 1e9,
        "late_s": pace.late_ns / 1e9,
        "calls_without_bytes": pace.calls_without_bytes,
    }


def _no_rank_came(missing: list[str]) -> RuntimeError:
    listed = ", ".join(missing[:8])
    return RuntimeError(f"nodewise: rank {listed} did not reach the start within 10 minutes")


def _finite(value: float | None) -> float | None:
    """A figure that JSON can say; JSON has neither infinity nor NaN."""
    return value if value is not None and isfinite(value) else None


def _as_json(fact: object) -> object:
    """A fact that JSON can say; one that it cannot, as a word."""
    return str(fact) if isinstance(fact, float) and not isfinite(fact) else fact


class _Counters:
    """The kernel's files about this process, kept open: opening them costs more than reading."""

    def __init__(self) -> None:
        self.process = 0
        self.files: dict[str, int] = {}

    def read(self, name: str) -> bytes:
        """A file of /proc/self; empty where the system has none."""
        if self.process != os.getpid():  # a child would read those of its parent
            self.process, self.files = os.getpid(), {}
        try:
            if name not in self.files:
                self.files[name] = os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self.files[name], 4096, 0)
        except OSError:
            return b""


_counters = _Counters()


def _read_usage() -> _Usage:
    """What the kernel counted of this process, as it says it: reading it must be quick."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    files = _counters.read("schedstat"), _counters.read("io")
    return perf_counter_ns(), own, thread_time(), *files


def _amounts(read: _Usage) -> dict[str, float]:
    _, own, main_cpu, schedstat, io = read
    usage = {
        "cpu_seconds": own.ru_utime + own.ru_stime,
        "main_cpu_seconds": main_cpu,
        "memory_bytes": own.ru_maxrss * 1024,
        "run_delay_seconds": nan,  # unknown
        "read_bytes": 0,
        "written_bytes": 0,
    }
    with contextlib.suppress(ValueError, IndexError, KeyError):  # Linux only, and not everywhere
        usage["run_delay_seconds"] = int(schedstat.split()[1]) / 1e9
        counters = dict(line.split(b": ") for line in io.splitlines())
        usage["read_bytes"] = int(counters[b"read_bytes"])
        usage["written_bytes"] = int(counters[b"write_bytes"])
    return usage


_report: _Report | None = None
if "NODEWISE_RUN" in os.environ:
    _report = _Report(Path(os.environ["NODEWISE_RUN"]), os.environ)
    atexit.register(_report.write)

_nothing: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
_compute, _comm, _idle, _io, _serial = (
    _report.spans.values() if _report else (_nothing, _nothing, _nothing, _nothing, _nothing)
)


def compute() -> contextlib.AbstractContextManager[None]:
    """A span of useful work."""
    return _compute


def comm(
    sent_bytes: float | None = None, all_reduce_bytes: float | None = None
) -> contextlib.AbstractContextManager[None]:
    """A span in a collective or a message; its calls are matched over the ranks by their order.

    The bytes matter only on emulated nodes whose link is modelled: those that this rank sends in
    one message, or the size of the array that a ring of all ranks reduces.
    """
    if _report is not None and _report.pace is not None:
        if sent_bytes is not None:
            _report.pace.send(sent_bytes, 1)
        if all_reduce_bytes is not None:
            hops = 2 * (_report.pace.ranks - 1)
            _report.pace.send(hops * all_reduce_bytes / _report.pace.ranks, hops)
    return _comm


def wait() -> contextlib.AbstractContextManager[None]:
    """A span of waiting for others, where it is known to be that."""
    return _idle


def io() -> contextlib.AbstractContextManager[None]:
    """A span of reading or writing."""
    return _io


def serial() -> contextlib.AbstractContextManager[None]:
    """A span of work that one rank does while the others wait."""
    return _serial


@contextlib.contextmanager
def setup() -> Iterator[None]:
    """What is done once before the clock starts; all ranks leave it together."""
    begin = perf_counter_ns()
    yield
    if _report is not None:
        _report.setup_ns += perf_counter_ns() - begin
        _report.open_region()


def steps(batches: Iterable[Item]) -> Iterator[Item]:
    """The same batches, timed: a step each, and the wait for the next one is I/O.

    Call it once for each epoch. The clock stops at the end of the last call, also when its loop is
    left early; the step that is left by `break` or an exception is timed but not counted.
    """
    if _report is None:
        yield from batches
        return
    _report.steps_are_told = True
    _report.open_region()
    _report.go_on()  # what ended before was an epoch
    try:
        with _io:
            source = iter(batches)
        while True:
            with _io:
                try:
                    batch = next(source)
                except StopIteration:
                    break
            yield batch
            _report.step_done()
    finally:
        _report.close_region()


def quality(split: str = "", seed: int | None = None, **metric: float) -> None:
    """The figure of merit of this run, by name, with the split and the seed it was taken on."""
    if len(metric) != 1:
        raise TypeError("probe.quality takes one figure by name, for example accuracy=0.97")
    if _report is not None:
        ((name, value),) = metric.items()
        _report.quality = float(value)
        _report.facts["quality_name"] = name
        _report.facts["quality_split"] = split
        if seed is not None:
            _report.facts["quality_seed"] = seed


def work(items: float) -> None:
    """How many items this rank worked on, in the timed region.

    Called after the last step it also says that no more will come, and a rehearsal then lifts its
    limits; without it they hold until the process ends. So call it before a long evaluation.
    """
    if _report is not None:
        _report.items = float(items)
        if _report.steps_are_told and _report.end_ns:
            _report.leave()


def fact(**facts: str | int | float | bool) -> None:
    """What this run did, to be compared over scales: batch, steps, dtype, hash of the data."""
    if _report is not None:
        _report.facts.update(facts)
