"""Efficiencies of the POP method, as HPC centres use them, for every scale of a study.

    global efficiency = parallel efficiency x computation scaling
    parallel efficiency = load balance x communication efficiency (x thread efficiency)
    communication efficiency = serialisation x transfer
    computation scaling = instruction scaling x IPC scaling x frequency scaling

Useful is all time outside of communication, of waiting and of the engine's overhead. With u the
useful seconds of each rank and T the run time: load balance = mean(u) / max(u) and communication
efficiency = max(u) / T. Without transfer the run would take T' = T less what the busiest rank
spends on it: serialisation = max(u) / T', transfer = T' / T. Runs of a scale are added up, so that
the products are exact. A factor that the records do not show is None, with its reason.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from nodewise.study.check import Check, warning
from nodewise.study.study import Efficiency, Run, Stage, Study

_USEFUL: tuple[Stage, ...] = ("compute", "serial", "io")
_NOT_USEFUL: tuple[Stage, ...] = ("communication", "idle", "overhead")
_NO_COUNTERS = "no counters"
_NO_RANKS = "needs the stages of each rank"
_NO_SPLIT = "waiting is not recorded apart from transfer"
_NO_TIME = 1e-12  # seconds
_CONTRADICTS = 0.02  # files give efficiencies with two digits
_OF_PROCESSES: set[Stage] = {"compute", "communication", "idle"}  # without threads and devices


class Factors(NamedTuple):
    """The efficiencies of one run or of several together."""

    parallel: float
    load_balance: float
    communication: float
    serialisation: float | None
    transfer: float | None


class _Parts(NamedTuple):
    """The seconds behind the factors; those of several runs may be added."""

    elapsed: float
    mean_useful: float
    most_useful: float
    ideal: float | None  # elapsed on a network without delay


class PopRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The efficiencies at one scale; computation scaling is relative to the smallest one."""

    nodes: int
    seconds: float  # wall time of a run
    global_efficiency: float | None  # parallel efficiency x computation scaling
    parallel_efficiency: float | None  # load balance x communication efficiency
    load_balance: float | None  # mean over largest useful time
    communication_efficiency: float | None  # serialisation x transfer
    serialisation: float | None  # factor of waiting between ranks
    transfer: float | None  # factor of data transfer
    thread_efficiency: float | None  # busy share of the threads outside MPI
    computation_scaling: float | None  # useful time relative to the smallest scale
    instruction_scaling: float | None  # of the instruction count
    ipc_scaling: float | None  # of the instructions per cycle
    frequency_scaling: float | None  # of the clock frequency


class Pop(msgspec.Struct, frozen=True, kw_only=True):
    """The efficiencies of a study, by scale."""

    source: str
    rows: tuple[PopRow, ...]
    unknown: dict[str, str]  # why a factor is not given, at one scale or at all


def factors(useful: Sequence[float], elapsed: float, transfer: float | None) -> Factors | None:
    """The efficiencies of one run; `transfer` is what the busiest rank spends on it."""
    parts = _parts(useful, elapsed, transfer)
    return None if parts is None else _factors(parts)


def pop(study: Study) -> Pop | None:
    """The efficiencies at every scale; None if the runs do not show what is useful time."""
    reader = _reader(study)
    if reader is None:
        return None
    source, read = reader
    rows: list[PopRow] = []
    unknown: dict[str, str] = {}
    base: _Scale | None = None
    for nodes in study.scales:
        scale = _scale(study, nodes, read)
        base = base or scale
        rows.append(_row(nodes, scale, base, study, unknown))
    return Pop(source=source, rows=tuple(rows), unknown=unknown)


def stated_checks(study: Study) -> Iterator[Check]:
    """That the efficiencies in a file contradict the times in it."""
    for run in study.good_runs:
        stated = run.efficiencies.get("parallel")
        seconds = [run.stages.get(stage, 0.0) for stage in ("compute", "communication", "idle")]
        if stated is None or sum(seconds) <= _NO_TIME or run.stages.keys() - _OF_PROCESSES:
            continue
        found = seconds[0] / sum(seconds)
        if abs(stated - found) > _CONTRADICTS:
            yield warning(
                "efficiencies in the file",
                f"at K={run.nodes} the file states a parallel efficiency of {stated:.2f}; useful "
                f"over all time in it is {found:.2f}",
                "Find out which one is right before you use them.",
            )
            return


class _Scale(NamedTuple):
    """What was recorded at one scale: means over its runs, sums over its ranks."""

    nodes: int
    seconds: float
    parts: _Parts | None  # None: a profiler states the efficiencies itself
    stated: dict[Efficiency, float]
    useful: float | None
    instructions: float | None
    cycles: float | None
    work: float | None
    threads: float | None  # the efficiency of the threads of a rank
    of_ranks: bool


_Read = Callable[[Run], _Parts | None]


def _reader(study: Study) -> tuple[str, _Read] | None:
    """Where the useful time is recorded, best first."""
    runs = study.good_runs
    if all(run.efficiencies for run in runs):
        return "stated by the profiler", _parts_of_totals
    if all(_has_communication([rank.stages for rank in run.timed_ranks]) for run in runs):
        return "stages of each rank", _parts_of_ranks
    if all(_has_communication([run.stages]) for run in runs):
        return "stage totals", _parts_of_totals
    return None


def _has_communication(stages: Sequence[dict[Stage, float]]) -> bool:
    return bool(stages) and all("communication" in one for one in stages)


def _useful(stages: dict[Stage, float], seconds: float) -> float:
    """All time outside of communication, waiting and overhead; recorded or not."""
    recorded = sum(stages.get(stage, 0.0) for stage in _USEFUL)
    rest = seconds - sum(stages.get(stage, 0.0) for stage in _NOT_USEFUL)
    return max(recorded, rest, 0.0)


def _parts_of_ranks(run: Run) -> _Parts | None:
    ranks = run.timed_ranks
    useful = [
        min(_useful(rank.stages, min(rank.seconds or run.seconds, run.seconds)), run.seconds)
        for rank in ranks
    ]
    busiest = ranks[useful.index(max(useful))]
    spent = sum(max(rank.stages["communication"], 0.0) for rank in ranks)
    waited = any(rank.stages.get("idle", 0.0) > 0 for rank in ranks)
    is_split = len(ranks) == 1 or waited or spent <= _NO_TIME
    return _parts(useful, run.seconds, busiest.stages["communication"] if is_split else None)


def _parts_of_totals(run: Run) -> _Parts | None:
    """Totals are those of an average rank: how far the busiest one is from it is unknown."""
    if "communication" not in run.stages:
        return None
    useful = min(_useful(run.stages, run.seconds), run.seconds)
    return _Parts(run.seconds, useful, useful, None) if useful > _NO_TIME else None


def _parts(useful: Sequence[float], elapsed: float, transfer: float | None) -> _Parts | None:
    most = max(useful, default=0.0)
    if most <= _NO_TIME or elapsed <= _NO_TIME:
        return None
    ideal = None if transfer is None else min(max(elapsed - max(transfer, 0.0), most), elapsed)
    return _Parts(elapsed, sum(useful) / len(useful), most, ideal)


def _factors(parts: _Parts) -> Factors:
    elapsed, mean, most, ideal = parts
    return Factors(
        parallel=mean / elapsed,
        load_balance=mean / most,
        communication=most / elapsed,
        serialisation=None if ideal is None else most / ideal,
        transfer=None if ideal is None else ideal / elapsed,
    )


def _scale(study: Study, nodes: int, read: _Read) -> _Scale:
    runs = study.at(nodes)
    found = [read(run) for run in runs]
    known = [parts for parts in found if parts is not None]
    parts = _summed(known) if len(known) == len(found) else None
    ranks = len(runs[0].timed_ranks) or nodes
    stated = {
        name: sum(run.efficiencies[name] for run in runs) / len(runs)
        for name in runs[0].efficiencies
        if all(name in run.efficiencies for run in runs)
    }
    return _Scale(
        nodes=nodes,
        seconds=sum(run.seconds for run in runs) / len(runs),
        parts=parts,
        stated=stated,
        useful=None if parts is None else ranks * parts.mean_useful / len(runs),
        instructions=_mean([run.counters.get("instructions") for run in runs]),
        cycles=_mean([run.counters.get("cycles") for run in runs]),
        work=_mean([run.work for run in runs]),
        threads=_mean([_thread_efficiency(run) for run in runs]),
        of_ranks=bool(runs[0].timed_ranks) and read is _parts_of_ranks,
    )


def _thread_efficiency(run: Run) -> float | None:
    """Of the threads of all ranks outside MPI; None if they are not recorded."""
    return _mean([rank.mpi.thread_efficiency if rank.mpi else None for rank in run.ranks])


def _summed(parts: Sequence[_Parts]) -> _Parts:
    ideals = [one.ideal for one in parts]
    known = [ideal for ideal in ideals if ideal is not None]
    return _Parts(
        sum(one.elapsed for one in parts),
        sum(one.mean_useful for one in parts),
        sum(one.most_useful for one in parts),
        sum(known) if len(known) == len(ideals) else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _row(nodes: int, scale: _Scale, base: _Scale, study: Study, unknown: dict[str, str]) -> PopRow:
    parallel, balance, communication, serialisation, transfer = _of_ranks(scale, unknown)
    computation, counted = _computation(scale, base, study, unknown)
    overall = parallel * computation if parallel is not None and computation is not None else None
    return PopRow(
        nodes=nodes,
        seconds=scale.seconds,
        global_efficiency=overall,
        parallel_efficiency=parallel,
        load_balance=balance,
        communication_efficiency=communication,
        serialisation=serialisation,
        transfer=transfer,
        thread_efficiency=scale.stated.get("threads", scale.threads),
        computation_scaling=computation,
        instruction_scaling=counted[0],
        ipc_scaling=counted[1],
        frequency_scaling=counted[2],
    )


def _of_ranks(scale: _Scale, unknown: dict[str, str]) -> tuple[float | None, ...]:
    """Parallel efficiency, load balance, communication efficiency, serialisation, transfer."""
    stated = scale.stated
    if stated:
        found = tuple(stated.get(name) for name in _STATED)
    elif scale.parts is None:
        found = (None,) * len(_STATED)
    elif scale.of_ranks:
        found = tuple(_factors(scale.parts))
    else:
        found = (_factors(scale.parts).parallel, None, None, None, None)
    split = _NO_SPLIT if scale.of_ranks or stated else _NO_RANKS
    reasons = (_NO_RANKS, _NO_RANKS, _NO_RANKS, split, split)
    for name, value, reason in zip(_NAMES, found, reasons, strict=True):
        if value is None:
            unknown.setdefault(name, reason)
    return found


_STATED: tuple[Efficiency, ...] = (
    "parallel", "load balance", "communication", "serialisation", "transfer",
)  # fmt: skip
_NAMES = (
    "parallel efficiency", "load balance", "communication efficiency", "serialisation", "transfer",
)  # fmt: skip


def _computation(
    scale: _Scale, base: _Scale, study: Study, unknown: dict[str, str]
) -> tuple[float | None, tuple[float | None, float | None, float | None]]:
    """Computation scaling, and its factors where instructions and cycles were counted."""
    if scale.useful is None or base.useful is None:
        unknown.setdefault("computation scaling", "the useful time is not recorded")
        return None, (None, None, None)
    growth = _growth(scale, base, study)
    computation = growth * base.useful / scale.useful
    counts = (scale.instructions, base.instructions, scale.cycles, base.cycles)
    if None in counts or not all(counts):
        unknown.setdefault("instructions, IPC and frequency", _NO_COUNTERS)
        return computation, (None, None, None)
    instructions, first_instructions, cycles, first_cycles = (float(one or 0.0) for one in counts)
    return computation, (
        growth * first_instructions / instructions,
        (instructions / cycles) / (first_instructions / first_cycles),
        (cycles / scale.useful) / (first_cycles / base.useful),
    )


def _growth(scale: _Scale, base: _Scale, study: Study) -> float:
    """How much more work is done than at the base: as recorded, else as the regime says."""
    if scale.work and base.work:
        return scale.work / base.work
    return scale.nodes / base.nodes if study.regime == "weak" else 1.0
