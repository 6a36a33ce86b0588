"""Measured facts: a `Study` and its `Run`s. Only these are stored; all else is recomputed."""

from collections.abc import Iterable
from functools import cached_property
from typing import Literal, get_args

import msgspec

from nodewise.base.errors import DataError
from nodewise.study.question import Tables
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Amount, Nodes, Number, Regime, Signed, Spec
from nodewise.study.workload import SeenWork, seen_work

# Where the seconds of a rank can go. `idle` is waiting for others; what waiting was for is the
# ledger's business, not the measurement's. `overhead` is what the engine itself takes: starting,
# scheduling and handing out work.
Stage = Literal["compute", "communication", "idle", "io", "serial", "overhead"]
STAGES: tuple[Stage, ...] = get_args(Stage)


Outcome = Literal[
    "ok", "crashed", "timeout", "out of memory", "wrong workers", "not a number", "no match"
]
Efficiency = Literal[
    "parallel", "load balance", "communication", "serialisation", "transfer", "threads"
]
Counter = Literal["instructions", "cycles"]
Fact = str | int | float | bool
PER_NODE = "accelerators_per_node"  # a fact of logs whose K counts accelerators
DRY_STEP, DRY_WAIT = "rehearsal_dry_step_seconds", "rehearsal_dry_wait_seconds"  # provenance
OBSERVED = "observed"  # in the provenance of a run that a scheduler recorded
RECORD = "job_"  # and the name of a field: what its job record says
GPU = "gpu_"  # and a figure of the GPUs that a run used, in its provenance,
GPU_HOT, GPU_CAPPED = "slowed_by_heat", "slowed_by_power_limit"  # such as shares of the looks
PROGRAM = "program_"  # and the name of a file: its checksum, in the provenance of a run


SAME_REGION = 0.05  # relative: stages of ranks and the clock of a log cover the same time
SHORTEST_SECONDS = 1e-15  # of a successful run; also one operation at 1e15 a second


class NoTime(DataError, ValueError):
    """A run of no duration. Also a ValueError, so that a decoder reports it as bad data."""

    def __str__(self) -> str:
        """What is wrong, without the fix: that of a damaged file is another."""
        return self.what.rstrip(".")


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rank took from its machine, whether its program knows of us or not."""

    cpu_seconds: Signed = 0.0
    # Ready to run, but another process had the core; null if it is unknown.
    run_delay_seconds: Signed | None = 0.0
    memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class Pace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a rank was made as slow as its emulated node, in the timed region."""

    cpu_seconds: Amount  # outside of communication
    paced_seconds: Amount = 0.0  # slept
    late_seconds: Amount = 0.0  # beyond the pace, as the core was not free
    calls_without_bytes: int = 0  # communication that a modelled link could not time


class MpiCalls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """MPI calls of one class, or on one communicator."""

    seconds: Amount
    calls: int
    bytes: Signed = 0  # that this rank sent or received
    id: str = ""  # of a communicator, the same on all its ranks
    size: int = 0  # of a communicator
    calls_by_log2_ns: tuple[int, ...] = ()  # a class: how many calls took up to 2^i nanoseconds


class MpiRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one rank of an MPI program called in the timed region."""

    classes: dict[str, MpiCalls] = {}
    communicators: tuple[MpiCalls, ...] = ()
    thread_cpu_seconds: tuple[Amount, ...] = ()  # of those that computed, the busiest first
    thread_efficiency: Amount | None = None  # their share of the time outside MPI; None: one thread
    counters: dict[Counter, Amount] = {}  # of the main thread outside MPI, in user mode


class Rank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one rank of a run did: seconds in each recorded stage, and its share of the items."""

    rank: Number
    stages: dict[Stage, Signed]
    items: Amount | None = None
    seconds: Amount | None = None  # of the timed region
    setup_seconds: Amount | None = None
    host: str = ""
    usage: Usage | None = None
    pace: Pace | None = None
    mpi: MpiRecord | None = None


class Contention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What other load on the machine took from a run, as shares of its time."""

    run_delay: Signed | None = 0.0  # of the rank that waited most for a core; null: unknown
    foreign_cpu: Signed = 0.0  # cores that other processes kept busy, over all cores
    steal: Signed = 0.0
    throttled: Signed = 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"nodes": "K"}):
    """One measured fact: one scale, one round; or how it failed."""

    nodes: Nodes
    round: Number
    seconds: Amount
    wall_seconds: Amount | None = None  # from its start to its end; `seconds` may be a part
    outcome: Outcome = "ok"
    detail: str = ""  # of a failure: the code in words and the tail of the log
    baseline: bool = False  # the best single-worker program, not the distributed one
    stages: dict[Stage, Signed] = {}
    ranks: tuple[Rank, ...] = ()
    quality: Signed | None = None
    work: Amount | None = None
    rate_per_hour: Amount | None = None
    energy_joules: Amount | None = None
    setup_seconds: Amount | None = None
    steps: int | None = None
    efficiencies: dict[Efficiency, Signed] = {}  # that a profiler computed itself
    counters: dict[Counter, Amount] = {}  # while computing, summed over CPUs
    facts: dict[str, Fact] = {}  # what the workload says it did: batch, dtype, data hash
    losses: tuple[tuple[int, Signed], ...] = ()  # of a training: step, counted from the timed ones
    contention: Contention | None = None
    provenance: dict[str, Fact] = {}
    started: str = ""  # date and time, UTC

    @property
    def label(self) -> str:
        """Its name, for its files."""
        return f"{'baseline' if self.baseline else f'K{self.nodes}'}-round{self.round}"

    @property
    def ranks_are_timed(self) -> bool:
        """Whether the ranks recorded the time that the run is said to take.

        Where a log gives that time, they may have recorded more than the part that it times.
        """
        covered = max((rank.seconds or self.seconds for rank in self.ranks), default=0.0)
        other = abs(covered - self.seconds) > SAME_REGION * self.seconds
        return bool(self.ranks) and not ("clock" in self.provenance and other)

    @property
    def timed_ranks(self) -> tuple[Rank, ...]:
        """The ranks, if the stages of all are recorded, of the time of the run."""
        staged = all(rank.stages for rank in self.ranks)
        return self.ranks if staged and self.ranks_are_timed else ()

    def __post_init__(self) -> None:
        """Refuse a run of no time, wherever it comes from: every speedup divides by it."""
        if self.outcome == "ok" and self.seconds < SHORTEST_SECONDS:
            raise NoTime(
                f"A run cannot take {self.seconds:g} s (K={self.nodes}, round {self.round}).",
                "Leave out runs that did not happen.",
            )


class Study(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Runs of one job at several scales; the job (strong) or a node's share (weak) is fixed."""

    name: str
    regime: Regime
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    spec: Spec | None = None  # what was measured, where that was done here
    asked: Tables = {}  # the question of its spec file; see nodewise.decide.inputs
    scale_unit: ScaleUnit = ScaleUnit()  # what K counts
    is_rate: bool = False  # only the throughput is known, and the work of a run is chosen
    declared: Regime | None = None  # by the user; what the runs show goes before it

    def in_regime(self, regime: Regime | None) -> "Study":
        """The study read as strong or weak scaling, unless its batches show another regime."""
        if regime is None:
            return self
        shown = self.seen.regime if self.seen is not None else None
        return msgspec.structs.replace(self, regime=shown or regime, declared=regime)

    @cached_property
    def seen(self) -> SeenWork | None:
        """The regime that the batches of the runs show, where they are known."""
        return seen_work(self.runs)

    @property
    def work_unit(self) -> str:
        """What the work of a run is counted in."""
        return str(self.asked.get("work_unit", "items"))

    @cached_property
    def _by_scale(self) -> dict[int, tuple[Run, ...]]:
        grouped: dict[int, list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: (run.nodes, run.round)):
            if run.outcome == "ok" and not run.baseline:
                grouped.setdefault(run.nodes, []).append(run)
        if self.base_is_baseline:
            grouped[1] = [_compute_only(run) for run in self._baselines]
        return {nodes: tuple(runs) for nodes, runs in grouped.items()}

    @property
    def _baselines(self) -> list[Run]:
        runs = (run for run in self.runs if run.baseline and run.outcome == "ok")
        return sorted(runs, key=lambda run: run.round)

    @cached_property
    def base_is_baseline(self) -> bool:
        """Whether the best single-worker program beats the distributed code on one worker."""
        ones = [r for r in self.runs if r.nodes == 1 and r.outcome == "ok" and not r.baseline]
        if not ones or not self._baselines:
            return False
        return _mean_seconds(self._baselines) < _mean_seconds(ones)

    @property
    def scales(self) -> tuple[int, ...]:
        """The measured node counts, ascending."""
        return tuple(self._by_scale)

    def at(self, nodes: int) -> tuple[Run, ...]:
        """The runs at one scale, by round."""
        return self._by_scale[nodes]

    @property
    def good_runs(self) -> tuple[Run, ...]:
        """The successful runs at every scale; at K=1 those of the faster program."""
        return tuple(run for runs in self._by_scale.values() for run in runs)

    @property
    def broken(self) -> dict[int, Outcome]:
        """The scales at which every run failed, and how the first one did."""
        failed: dict[int, Outcome] = {}
        for run in sorted(self.runs, key=lambda run: (run.nodes, run.round)):
            if run.outcome != "ok" and run.nodes not in self._by_scale:
                failed.setdefault(run.nodes, run.outcome)
        return failed

    @cached_property
    def paired(self) -> bool:
        """Whether every scale was run in the same rounds, so that rounds can be compared whole."""
        return len({tuple(run.round for run in runs) for runs in self._by_scale.values()}) == 1

    @property
    def rounds(self) -> int:
        """The number of rounds that every scale has."""
        return min(len(runs) for runs in self._by_scale.values())


def program_sums(runs: Iterable[Run]) -> dict[str, set[Fact]]:
    """The checksums that each file of the program had in these runs, by its name."""
    found: dict[str, set[Fact]] = {}
    for run in runs:
        for name, value in run.provenance.items():
            if name.startswith(PROGRAM):
                found.setdefault(name.removeprefix(PROGRAM), set()).add(value)
    return found


def _mean_seconds(runs: list[Run]) -> float:
    return sum(run.seconds for run in runs) / len(runs)


def _compute_only(run: Run) -> Run:
    """A single-worker program computes all the time, unless it says otherwise."""
    if run.ranks and run.ranks[0].stages:
        return run
    stages: dict[Stage, float] = dict.fromkeys(STAGES, 0.0) | {"compute": run.seconds}
    usage = run.ranks[0].usage if run.ranks else None
    rank = Rank(rank=0, stages=stages, items=run.work, seconds=run.seconds, usage=usage)
    return msgspec.structs.replace(run, ranks=(rank,))
