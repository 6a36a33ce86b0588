"""What a workload may call to say what it is doing. Standard library only; all of it optional.

    from nodewise import probe
    with probe.setup():                 # not timed; reported apart
        model, loader = build()
    for batch in probe.steps(loader):   # a step each; waiting for the loader is I/O
        with probe.compute(): loss = forward_backward(batch)
        with probe.comm(): all_reduce(grads)
        with probe.serial(): checkpoint()   # one rank works while the others wait
    probe.quality(accuracy=evaluate(), split="test", seed=0)
    probe.work(items=n)
    probe.fact(global_batch=4096, dtype="float32")

Without nodewise around it every call does nothing. Spans may stand inside each other, to any depth:
the inner one takes its time from the outer. One thread calls the probe.

The clock runs from `setup`, or else from the first `steps`, to the end of the last `steps`. So with
a `steps` for each epoch, what lies between epochs is timed and what follows the last is not.
"""

import atexit
import contextlib
import json
import os
import resource
import socket
import sys
from array import array
from collections.abc import Iterable, Iterator
from math import isfinite, nan
from pathlib import Path
from time import monotonic, perf_counter_ns, sleep, time
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")

# The variables in which launchers tell a worker its rank.
RANK_NAMES = ("NODEWISE_RANK", "RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_MEET_SECONDS = 600.0  # a rank that never comes must not hold the others for ever


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
        self.spans = {
            "compute": _Span(),
            "communication": _Span(self.comm_calls),
            "idle": _Span(),
            "io": _Span(),
            "serial": _Span(),
        }
        self.setup_ns = 0
        self.begin_ns = 0
        self.began = 0.0  # the same moment, for clocks of others
        self.end_ns = 0  # of the last step so far; 0 while the clock runs
        self.totals: dict[str, int] = {}  # of the stages, at that end
        self.calls = 0  # of `comm_calls`, at that end
        self.steps = 0
        self.steps_are_told = False  # the workload calls `steps`
        self.items: float | None = None
        self.quality: float | None = None
        self.facts: dict[str, object] = {}
        self.usage_at_begin: dict[str, float] = {}
        self.usage_at_end: dict[str, float] = {}

    def open_region(self) -> None:
        """Start the clock, once all ranks are here."""
        if self.begin_ns:
            return
        self._pass_gate()
        self._restart()

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
        deadline = monotonic() + _MEET_SECONDS
        while len(list(place.iterdir())) < self.ranks and monotonic() < deadline:
            sleep(0.002)

    def _restart(self) -> None:
        self.usage_at_begin = _usage()
        self.begin_ns = _settle()  # a span that is open goes on from here
        self.began = time()
        for span in self.spans.values():
            span.total = span.in_calls = 0
        del self.comm_calls[:]
        del self.step_ends[:]

    def step_done(self) -> None:
        """Count a step; the clock starts anew when the warm-up is over."""
        self.steps += 1
        if self.steps == self.warmup:
            self._restart()
        else:
            self.step_ends.append(perf_counter_ns())

    def note_end(self) -> None:
        """Hold fast what is measured up to here; what follows is timed only if more steps come."""
        self.end_ns = _settle()
        self.totals = {name: span.total for name, span in self.spans.items()}
        self.calls = len(self.comm_calls)

    def close_region(self) -> None:
        """Stop the clock, until more steps come."""
        self.note_end()
        if self.begin_ns:
            self.usage_at_end = _usage()

    def leave(self) -> None:
        """Tell the gate that no more steps come."""
        if self.door is not None:
            with contextlib.suppress(OSError):  # the other side may have ended
                # Closing alone is not noticed while a child, such as a loader's worker, has it too.
                self.door.shutdown(socket.SHUT_RDWR)
            self.door.close()
            self.door = None

    def write(self) -> None:
        """Leave the report in the folder of the run; the name appears when it is whole."""
        if os.getpid() != self.process:
            return  # a child that was forked off has nothing to tell
        if not self.end_ns:
            self.close_region()
        self.leave()
        usage = {
            name: _finite(end - self.usage_at_begin[name])
            for name, end in self.usage_at_end.items()
        }
        if usage:
            usage["memory_bytes"] = self.usage_at_end["memory_bytes"]  # the most, not more
        figures = {"quality": self.quality, "items": self.items}
        told = {
            "rank": self.rank,
            "has_rank": self.has_rank,
            "host": socket.gethostname(),
            "began": self.began or None,
            "seconds": (self.end_ns - self.begin_ns) / 1e9 if self.begin_ns else None,
            "setup_seconds": self.setup_ns / 1e9,
            "steps": max(self.steps - self.warmup, 0),
            "counts_steps": self.steps_are_told or self.steps > 0,
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
            "comm_calls": self.calls,
            "step_ends": len(self.step_ends),
            "modules": {
                name: getattr(sys.modules[name], "__version__", "")
                for name in ("numpy", "torch", "mpi4py", "ray", "dask", "jax", "sklearn")
                if name in sys.modules
            },
        }
        path = self.folder / f"rank-{self.rank}"
        with path.with_suffix(".bin").open("wb") as file:
            self.comm_calls[: self.calls].tofile(file)
            array("q", [end - self.begin_ns for end in self.step_ends]).tofile(file)
        path.with_suffix(".part").write_text(json.dumps(told))
        path.with_suffix(".part").rename(path.with_suffix(".json"))


def _finite(value: float | None) -> float | None:
    """A figure that JSON can say; it knows neither infinity nor what is no number."""
    return value if value is not None and isfinite(value) else None


def _as_json(fact: object) -> object:
    """A fact that JSON can say; one that it cannot, as a word."""
    return str(fact) if isinstance(fact, float) and not isfinite(fact) else fact


def _usage() -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    usage = {
        "cpu_seconds": own.ru_utime + own.ru_stime,
        "memory_bytes": own.ru_maxrss * 1024,
        "run_delay_seconds": nan,  # unknown
        "read_bytes": 0,
        "written_bytes": 0,
    }
    with contextlib.suppress(OSError, ValueError, IndexError):  # Linux only, and not everywhere
        usage["run_delay_seconds"] = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        usage["read_bytes"] = int(counters["read_bytes"])
        usage["written_bytes"] = int(counters["write_bytes"])
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


def comm() -> contextlib.AbstractContextManager[None]:
    """A span in a collective or a message; its calls are matched over the ranks by their order."""
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
    _report.end_ns = 0  # what ended before was an epoch
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
