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

Without nodewise around it every call does nothing. Spans may stand inside each other: the inner one
takes its time from the outer. One thread calls the probe.
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
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")

_RANK_NAMES = ("NODEWISE_RANK", "RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


class _Span:
    """The time of one stage: entered and left many times, read once."""

    __slots__ = ("begin", "calls", "outer", "total")

    def __init__(self, calls: "array[int] | None" = None) -> None:
        self.total = 0
        self.begin = 0
        self.calls = calls  # the length of each call, where calls are matched over ranks
        self.outer: _Span | None = None

    def __enter__(self) -> None:
        global _current
        now = perf_counter_ns()
        outer = _current
        if outer is not None:
            outer.total += now - outer.begin
        self.outer = outer
        self.begin = now
        _current = self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _current
        now = perf_counter_ns()
        spent = now - self.begin
        self.total += spent
        if self.calls is not None:
            self.calls.append(spent)
        outer = self.outer
        if outer is not None:
            outer.begin = now
        _current = outer


_current: _Span | None = None


class _Report:
    """What this rank has to tell; written once, when the process ends."""

    def __init__(self, folder: Path, environment: "os._Environ[str]") -> None:
        self.folder = folder
        self.rank = next((int(environment[n]) for n in _RANK_NAMES if n in environment), 0)
        self.warmup = int(environment.get("NODEWISE_WARMUP_STEPS", "0"))
        self.gate = environment.get("NODEWISE_GATE")
        self.door: socket.socket | None = None  # open between the gate and the last step
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
        self.end_ns = 0
        self.steps = 0
        self.items: float | None = None
        self.quality: float | None = None
        self.facts: dict[str, object] = {}
        self.usage_at_begin: dict[str, float] = {}
        self.usage: dict[str, float] = {}

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
        self.door = socket.socket(socket.AF_UNIX)
        self.door.connect(self.gate)
        self.door.sendall(b"%d\n" % self.rank)
        self.door.recv(1)

    def _restart(self) -> None:
        for span in self.spans.values():
            span.total = 0
        del self.comm_calls[:]
        del self.step_ends[:]
        self.usage_at_begin = _usage()
        self.begin_ns = perf_counter_ns()

    def step_done(self) -> None:
        """Count a step; the clock starts anew when the warm-up is over."""
        self.steps += 1
        if self.steps == self.warmup:
            self._restart()
        else:
            self.step_ends.append(perf_counter_ns())

    def close_region(self) -> None:
        """Stop the clock; what follows, such as an evaluation, is not timed."""
        if self.begin_ns and not self.end_ns:
            self.end_ns = perf_counter_ns()
            usage = _usage()
            self.usage = {name: usage[name] - self.usage_at_begin[name] for name in usage}
            self.usage["memory_bytes"] = usage["memory_bytes"]
            if self.door is not None:
                self.door.close()

    def write(self) -> None:
        """Leave the report in the folder of the run; the name appears when it is whole."""
        self.close_region()
        told = {
            "rank": self.rank,
            "host": socket.gethostname(),
            "seconds": (self.end_ns - self.begin_ns) / 1e9 if self.begin_ns else None,
            "setup_seconds": self.setup_ns / 1e9,
            "steps": max(self.steps - self.warmup, 0),
            "stages": {name: span.total / 1e9 for name, span in self.spans.items() if span.total},
            "items": self.items,
            "quality": self.quality,
            "facts": self.facts,
            "usage": self.usage,
            "comm_calls": len(self.comm_calls),
            "step_ends": len(self.step_ends),
            "modules": {
                name: getattr(sys.modules[name], "__version__", "")
                for name in ("numpy", "torch", "mpi4py", "ray", "dask", "jax", "sklearn")
                if name in sys.modules
            },
        }
        path = self.folder / f"rank-{self.rank}"
        with path.with_suffix(".bin").open("wb") as file:
            self.comm_calls.tofile(file)
            array("q", [end - self.begin_ns for end in self.step_ends]).tofile(file)
        path.with_suffix(".part").write_text(json.dumps(told))
        path.with_suffix(".part").rename(path.with_suffix(".json"))


def _usage() -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    usage = {
        "cpu_seconds": own.ru_utime + own.ru_stime,
        "memory_bytes": own.ru_maxrss * 1024,
        "run_delay_seconds": 0.0,
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
    return _nothing if _current is _compute else _compute


def comm() -> contextlib.AbstractContextManager[None]:
    """A span in a collective or a message; its calls are matched over the ranks by their order."""
    return _nothing if _current is _comm else _comm


def wait() -> contextlib.AbstractContextManager[None]:
    """A span of waiting for others, where it is known to be that."""
    return _nothing if _current is _idle else _idle


def io() -> contextlib.AbstractContextManager[None]:
    """A span of reading or writing."""
    return _nothing if _current is _io else _io


def serial() -> contextlib.AbstractContextManager[None]:
    """A span of work that one rank does while the others wait."""
    return _nothing if _current is _serial else _serial


@contextlib.contextmanager
def setup() -> Iterator[None]:
    """What is done once before the clock starts; all ranks leave it together."""
    begin = perf_counter_ns()
    yield
    if _report is not None:
        _report.setup_ns += perf_counter_ns() - begin
        _report.open_region()


def steps(batches: Iterable[Item]) -> Iterator[Item]:
    """The same batches, timed: a step each, and the wait for the next one is I/O."""
    if _report is None:
        yield from batches
        return
    _report.open_region()
    source = iter(batches)
    while True:
        with _io:
            try:
                batch = next(source)
            except StopIteration:
                break
        yield batch
        _report.step_done()
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
    """How many items this rank worked on, in the timed region."""
    if _report is not None:
        _report.items = float(items)


def fact(**facts: str | int | float | bool) -> None:
    """What this run did, to be compared over scales: batch, steps, dtype, hash of the data."""
    if _report is not None:
        _report.facts.update(facts)
