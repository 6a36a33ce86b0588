"""Where the time of a traced job went: per rank, per step, per collective, and over its ranks.

Of each rank: compute + exposed communication + exposed copies + idle = window, to the nanosecond.
Exposed is what no compute hides; a copy is exposed where neither compute nor communication runs.
Over ranks: calls of the same collective are matched; the shortest call is what the transfer takes,
because its rank came last, and the rest of every other call is waiting for that rank.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.time_sets import Cover, transfer_and_wait, union, without
from nodewise.explain.pop import factors
from nodewise.study.study import Fact, Rank, Run, Stage
from nodewise.study.trace import (
    COMMUNICATION,
    COMPUTE,
    NO_CALL,
    NO_LAUNCH,
    PARTS,
    Call,
    Digest,
    Nanoseconds,
    RankTrace,
    TraceWindow,
    Unreadable,
)

_OUTSIDE_STEPS = -1
_NEVER = np.iinfo(np.int64).max
_ROWS_AT_ONCE = 2**16


class RankBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one rank, in microseconds."""

    file: str
    rank: int | None
    window_us: float = 0.0
    compute_us: float = 0.0
    exposed_comm_us: float = 0.0
    exposed_copy_us: float = 0.0
    idle_us: float = 0.0
    comm_us: float = 0.0
    overlap_us: float = 0.0  # communication that compute hides
    copy_us: float = 0.0
    input_wait_us: float = 0.0  # of the idle time: the host waited for its data loader
    host_bound_us: float = 0.0  # of the idle time: the host had not called for the next work yet
    wait_us: float | None = None  # in calls of collectives, for the rank that came last
    exposed_wait_us: float | None = None  # the part of the exposed communication that is such wait
    rows: int = 0
    steps: int = 0
    on_device: bool = True
    used: bool = True
    error: str | None = None


class CollectiveKind(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one operation in one group of ranks, summed over ranks."""

    operation: str
    group: str
    calls: int
    bytes: int | None
    call_us: float
    exposed_us: float
    transfer_us: float | None  # null if the calls of the ranks do not match
    wait_us: float | None


class Collectives(msgspec.Struct, frozen=True, kw_only=True):
    """Matched collectives; over all ranks, transfer and wait add up to the time in their calls."""

    count: int
    unmatched_calls: int
    transfer_us: float | None
    wait_us: float | None
    kinds: tuple[CollectiveKind, ...]


class LateRank(msgspec.Struct, frozen=True, kw_only=True):
    """How often a rank was the last to come to a collective, and how long the others waited."""

    rank: int
    times_last: int
    waited_for_us: float


class Pop(msgspec.Struct, frozen=True, kw_only=True):
    """Efficiencies of the POP method: parallel = load balance x serialisation x transfer."""

    parallel_efficiency: float
    load_balance: float
    serialisation: float | None
    transfer: float | None
    elapsed_us: float


class StepRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank in one step, in microseconds; the parts add up to the window."""

    rank: int
    start_us: float
    window_us: float
    compute_us: float
    exposed_comm_us: float
    exposed_copy_us: float
    input_wait_us: float
    host_bound_us: float
    other_idle_us: float
    wait_us: float  # of the exposed communication: for the rank that came last


class StepBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """One step over its ranks, and the rank that the others waited for."""

    number: int
    window_us: float
    critical_rank: int | None
    ranks: tuple[StepRank, ...]


class JobBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a job went."""

    window: TraceWindow
    ranks: tuple[RankBreakdown, ...]
    collectives: Collectives
    late_ranks: tuple[LateRank, ...]
    pop: Pop | None
    steps: tuple[StepBreakdown, ...]
    missing_ranks: tuple[int, ...]
    notes: tuple[str, ...]


def digest(trace: RankTrace, window: TraceWindow = "all") -> Digest:
    """Add up the rows of a rank."""
    kept = _kept(trace, window)
    starts, ends, kinds = trace.starts[kept], trace.ends[kept], trace.kinds[kept]
    launches, calls = trace.launches[kept], trace.calls[kept]
    start, end = int(starts.min()), int(ends.max())
    if not trace.on_device and trace.steps:
        start = min(start, trace.steps[0].start)
        end = max(end, trace.steps[-1].end)
    numbers, cuts, ends_of_steps = _steps(trace, starts, launches, end)
    called = np.flatnonzero(calls != NO_CALL)
    call_starts, call_ends = starts[called], ends[called]

    def total(cover: Cover) -> _Total:
        return _Total(cover.length, cover.between(cuts, ends_of_steps))

    # A set may be as long as the rows, so each is let go as soon as it is added up.
    cover = _cover(starts, ends, kinds == COMPUTE)
    compute, hidden = total(cover), cover.between(call_starts, call_ends)
    communication = _cover(starts, ends, kinds == COMMUNICATION).length
    copy = _cover(starts, ends, kinds > COMMUNICATION).length
    cover = _cover(starts, ends, kinds <= COMMUNICATION)
    both = total(cover)
    cover = union(starts, ends)
    busy = total(cover)
    input_cover = without(union(trace.input_starts, trace.input_ends).within(start, end), cover)
    waiting = total(input_cover)
    host_bound = total(without(_host_bound(starts, launches, cover), input_cover))
    parts = np.stack(
        [
            compute.of_steps,
            both.of_steps - compute.of_steps,
            busy.of_steps - both.of_steps,
            waiting.of_steps,
            host_bound.of_steps,
            ends_of_steps - cuts - busy.of_steps - waiting.of_steps - host_bound.of_steps,
        ],
        axis=1,
    )
    launched = launches[called]
    when = np.where(launched == NO_LAUNCH, call_starts, launched)
    return Digest(
        file=trace.file,
        rank=trace.rank,
        world_size=trace.world_size,
        start=start,
        end=end,
        compute=compute.length,
        communication=communication,
        copy=copy,
        busy=busy.length,
        computing_or_communicating=both.length,
        input_wait=waiting.length,
        host_bound=host_bound.length,
        rows=len(starts),
        on_device=trace.on_device,
        call_starts=call_starts,
        call_lengths=call_ends - call_starts,
        call_exposed=call_ends - call_starts - hidden,
        call_steps=_step_of(trace, when),
        call_kinds=calls[called],
        call_table=trace.call_table,
        step_numbers=numbers,
        step_starts=cuts,
        step_ends=ends_of_steps,
        step_parts=parts,
        damage=trace.damage,
        notes=trace.notes,
    )


class _Total(NamedTuple):
    """Nanoseconds of a set of time, in all and in each step."""

    length: int
    of_steps: Nanoseconds


def _cover(starts: Nanoseconds, ends: Nanoseconds, chosen: NDArray[np.bool_]) -> Cover:
    return union(starts[chosen], ends[chosen])


def _kept(trace: RankTrace, window: TraceWindow) -> NDArray[np.bool_] | slice:
    """The rows in the window: all, or those that Holistic Trace Analysis keeps.

    It leaves out what was launched from the start of the last step on, and what has no launch.
    """
    everything = slice(None)  # which copies nothing
    if window != "hta" or trace.last_step_start is None or len(trace.steps) < 2:
        return everything
    launched = (trace.launches != NO_LAUNCH) & (trace.launches < trace.last_step_start)
    return launched if launched.any() else everything


def _host_bound(starts: Nanoseconds, launches: Nanoseconds, busy: Cover) -> Cover:
    """Gaps of the device that end with work the host called for only after they began."""
    gaps = busy.gaps
    late = launches[np.searchsorted(starts, gaps.ends)] > gaps.starts
    return Cover(gaps.starts[late], gaps.ends[late])


def _step_of(trace: RankTrace, times: Nanoseconds) -> NDArray[np.int64]:
    """The number of the step that holds each time on the host's clock."""
    if not trace.steps:
        return np.full(len(times), _OUTSIDE_STEPS)
    begins = np.array([step.start for step in trace.steps])
    numbers = np.array([_OUTSIDE_STEPS, *(step.number for step in trace.steps)])
    return np.asarray(numbers[np.searchsorted(begins, times, side="right")])


def _steps(
    trace: RankTrace, starts: Nanoseconds, launches: Nanoseconds, end: int
) -> tuple[NDArray[np.int64], Nanoseconds, Nanoseconds]:
    """Steps on the clock of the work: each from its first work to the first of the next."""
    numbers = np.array([step.number for step in trace.steps], np.int64)
    begins = np.array([step.start for step in trace.steps], np.int64)
    if not len(begins):
        return numbers, begins, begins
    if not trace.on_device:
        last = max(trace.steps[-1].end, int(begins[-1]))
        return numbers, begins, np.append(begins[1:], last)
    if (launches != NO_LAUNCH).any():
        # A step begins with the first of the rows that were launched between it and the next.
        firsts = np.full(len(begins) + 1, _NEVER)
        for begin in range(0, len(starts), _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            at = np.searchsorted(begins, launches[rows], side="right")
            np.minimum.at(firsts, at, starts[rows])
        worked = firsts[1:] < _NEVER
        numbers, begins = numbers[worked], np.maximum.accumulate(firsts[1:][worked])
    inside = begins < end
    numbers, begins = numbers[inside], begins[inside]
    return numbers, begins, np.append(begins[1:], end)[: len(begins)]


def break_down(
    digests: Sequence[Digest | Unreadable], window: TraceWindow = "all", use_damaged: bool = False
) -> JobBreakdown:
    """The account of a job from the digests of its ranks.

    A damaged rank is shown with its error and, unless `use_damaged`, left out of what is said
    over ranks; one that could not be read at all is shown with its error alone.
    """
    known = [one for one in digests if isinstance(one, Digest)]
    used = [one for one in known if use_damaged or not one.damage]
    places = {one: place for place, one in enumerate(used)}
    ranks = _numbered(used)
    matched = _match(used)
    notes = list(dict.fromkeys(note for one in used for note in one.notes))
    aligned = _aligned(used)
    if len(used) > 1 and not aligned:
        notes.append(
            "The ranks' times do not overlap: their clocks differ, or they are of different runs. "
            "Each rank has a window of its own."
        )
    whole = (min(one.start for one in used), max(one.end for one in used)) if used else (0, 0)
    rows = []
    for one in digests:
        if isinstance(one, Unreadable):
            rows.append(RankBreakdown(file=one.file, rank=one.rank, used=False, error=one.reason))
            continue
        if one not in places:
            rows.append(_rank_row(one, one.rank, None, None, matched))
            continue
        shared = whole if window == "common" and aligned else None
        rows.append(_rank_row(one, ranks[places[one]], shared, places[one], matched))
    if matched.unmatched_calls and len(used) > 1:
        notes.append(
            f"{matched.unmatched_calls} calls of collectives have no counterpart on every rank and "
            "are not divided into transfer and wait."
        )
    steps = _step_rows(used, ranks, matched)
    marked = {number for one in used for number in one.step_numbers.tolist()}
    if len(steps) < len(marked):
        notes.append(
            f"{len(marked) - len(steps)} of {len(marked)} steps are not marked alike on every rank "
            "and are left out of the tables by step; the totals include them."
        )
    return JobBreakdown(
        window=window,
        ranks=tuple(rows),
        collectives=_collectives(used, matched),
        late_ranks=_late(ranks, matched),
        pop=_pop(used, whole, aligned, matched),
        steps=steps,
        missing_ranks=_missing(known, ranks),
        notes=tuple(notes),
    )


def _numbered(digests: Sequence[Digest]) -> list[int]:
    """The rank of each, by what it says of itself or by its place."""
    said = [one.rank for one in digests]
    if None in said or len(set(said)) < len(said):
        return list(range(len(said)))
    return [rank for rank in said if rank is not None]


def _missing(digests: Sequence[Digest], ranks: Sequence[int]) -> tuple[int, ...]:
    """Ranks of the job that no file tells of."""
    sizes = [one.world_size for one in digests if one.world_size is not None]
    size = max([*sizes, max(ranks, default=-1) + 1])
    return tuple(sorted(set(range(size)) - set(ranks)))


def _aligned(digests: Sequence[Digest]) -> bool:
    if not digests:
        return False
    return max(one.start for one in digests) < min(one.end for one in digests)


def _rank_row(
    one: Digest,
    rank: int | None,
    whole: tuple[int, int] | None,
    place: int | None,
    matched: "_Matched",
) -> RankBreakdown:
    start, end = whole or (one.start, one.end)
    exposed_comm = one.exposed_communication
    known = place is not None and matched.count > 0
    return RankBreakdown(
        file=one.file,
        rank=rank,
        window_us=_us(end - start),
        compute_us=_us(one.compute),
        exposed_comm_us=_us(exposed_comm),
        exposed_copy_us=_us(one.busy - one.computing_or_communicating),
        idle_us=_us(end - start - one.busy),
        comm_us=_us(one.communication),
        overlap_us=_us(one.communication - exposed_comm),
        copy_us=_us(one.copy),
        input_wait_us=_us(one.input_wait),
        host_bound_us=_us(one.host_bound),
        wait_us=_us(matched.waits[place or 0]) if known else None,
        exposed_wait_us=matched.wait_shares.get(place or 0, 0.0) * _us(exposed_comm)
        if known
        else None,
        rows=one.rows,
        steps=len(one.step_numbers),
        on_device=one.on_device,
        used=place is not None,
        error=one.damage or None,
    )


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1000


Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class _Matched:
    """Calls of the same collective on several ranks, one column per rank; rows are collectives."""

    count: int
    unmatched_calls: int
    transfer: int  # summed over ranks
    wait: int
    by_kind: dict[Key, tuple[int, int]]  # transfer and wait
    waits: Counter[int]  # by place among the ranks
    wait_shares: dict[int, float]  # of the exposed time in calls
    times_last: Counter[int]
    waited_for: Counter[int]
    step_wait_shares: dict[tuple[int, int], float]  # by place and step


def _same_calls(
    digests: Sequence[Digest],
) -> dict[tuple[Key, int], dict[int, NDArray[np.int64]]]:
    """Calls by operation, group and step, of each rank in the order in which it made them."""
    found: dict[tuple[Key, int], dict[int, NDArray[np.int64]]] = {}
    for place, one in enumerate(digests):
        for kind, call in enumerate(one.call_table):
            if call.pairwise:
                continue
            of_kind = one.call_kinds == kind
            for step in np.unique(one.call_steps[of_kind]).tolist():
                calls = np.flatnonzero(of_kind & (one.call_steps == step))
                places = found.setdefault((_key(call), step), {})
                before = places.get(place)
                places[place] = calls if before is None else np.union1d(before, calls)
    return found


def _match(digests: Sequence[Digest]) -> _Matched:
    """What ranks spent on transfer and on waiting in the calls that can be matched."""
    matched_calls = count = 0
    by_kind: dict[Key, tuple[int, int]] = {}
    times_last: Counter[int] = Counter()
    waited_for: Counter[int] = Counter()
    waits: Counter[int] = Counter()
    step_waits: Counter[tuple[int, int]] = Counter()
    for (key, step), places in _same_calls(digests).items():
        if len(places) < 2 or len({len(calls) for calls in places.values()}) > 1:
            continue
        order = sorted(places)
        lengths = np.stack([digests[at].call_lengths[places[at]] for at in order], axis=1)
        exposed = np.stack([digests[at].call_exposed[places[at]] for at in order], axis=1)
        last = lengths.argmin(axis=1)
        shortest, waiting = transfer_and_wait(lengths)
        count += len(lengths)
        matched_calls += lengths.size
        transfer, wait = by_kind.get(key, (0, 0))
        by_kind[key] = transfer + int(shortest.sum()) * len(order), wait + int(waiting.sum())
        exposed_wait = exposed - np.minimum(exposed, shortest)
        for column, at in enumerate(order):
            times_last[at] += int((last == column).sum())
            waited_for[at] += int(waiting[last == column].sum())
            waits[at] += int(waiting[:, column].sum())
            step_waits[at, step] += int(exposed_wait[:, column].sum())
    # Calls may overlap each other and reach over a step's end, so only shares are kept.
    wait_shares: dict[int, float] = {}
    step_wait_shares: dict[tuple[int, int], float] = {}
    for place, one in enumerate(digests):
        in_calls = int(one.call_exposed.sum())
        steps = np.unique(one.call_steps).tolist()
        if in_calls:
            wait_shares[place] = sum(step_waits[place, step] for step in steps) / in_calls
        for step in steps:
            in_step = int(one.call_exposed[one.call_steps == step].sum())
            if in_step:
                step_wait_shares[place, step] = step_waits[place, step] / in_step
    return _Matched(
        count=count,
        unmatched_calls=sum(len(one.call_starts) for one in digests) - matched_calls,
        transfer=sum(transfer for transfer, _ in by_kind.values()),
        wait=sum(wait for _, wait in by_kind.values()),
        by_kind=by_kind,
        waits=waits,
        wait_shares=wait_shares,
        times_last=times_last,
        waited_for=waited_for,
        step_wait_shares=step_wait_shares,
    )


def _key(call: Call) -> Key:
    return call.operation, call.group, call.ranks


def _collectives(digests: Sequence[Digest], matched: _Matched) -> Collectives:
    sums: dict[Key, list[int]] = {}
    sized: dict[Key, bool] = {}
    for one in digests:
        for kind, call in enumerate(one.call_table):
            mine = one.call_kinds == kind
            calls = int(mine.sum())
            if not calls:
                continue
            total = sums.setdefault(_key(call), [0, 0, 0, 0])
            total[0] += calls
            total[1] += calls * (call.bytes or 0)
            total[2] += int(one.call_lengths[mine].sum())
            total[3] += int(one.call_exposed[mine].sum())
            sized[_key(call)] = sized.get(_key(call), True) and call.bytes is not None
    kinds = []
    for key, (calls, size, length, exposed) in sums.items():
        transfer, wait = matched.by_kind.get(key, (None, None))
        kinds.append(
            CollectiveKind(
                operation=key[0],
                group=key[1],
                calls=calls,
                bytes=size if sized[key] else None,
                call_us=_us(length),
                exposed_us=_us(exposed),
                transfer_us=None if transfer is None else _us(transfer),
                wait_us=None if wait is None else _us(wait),
            )
        )
    return Collectives(
        count=matched.count,
        unmatched_calls=matched.unmatched_calls,
        transfer_us=_us(matched.transfer) if matched.count else None,
        wait_us=_us(matched.wait) if matched.count else None,
        kinds=tuple(sorted(kinds, key=lambda kind: -kind.call_us)),
    )


def _late(ranks: Sequence[int], matched: _Matched) -> tuple[LateRank, ...]:
    rows = [
        LateRank(rank=ranks[at], times_last=times, waited_for_us=_us(matched.waited_for[at]))
        for at, times in matched.times_last.items()
        if times
    ]
    return tuple(sorted(rows, key=lambda row: (-row.times_last, row.rank)))


def _pop(
    digests: Sequence[Digest], whole: tuple[int, int], aligned: bool, matched: _Matched
) -> Pop | None:
    """The factors; their product is the parallel efficiency by construction."""
    if not digests:
        return None
    elapsed = whole[1] - whole[0] if aligned else max(one.end - one.start for one in digests)
    useful = [one.useful for one in digests]
    transfer = None
    if matched.count:
        busiest = useful.index(max(useful))
        share = 1 - matched.wait_shares.get(busiest, 0.0)
        transfer = share * digests[busiest].exposed_communication
    found = factors(useful, elapsed, transfer)
    if found is None:
        return None
    return Pop(
        parallel_efficiency=found.parallel,
        load_balance=found.load_balance,
        serialisation=found.serialisation,
        transfer=found.transfer,
        elapsed_us=_us(elapsed),
    )


def _shared_steps(digests: Sequence[Digest]) -> list[int]:
    """The steps that all ranks have and that all end with the same step.

    A step lasts until the next mark, so where a mark is missing, the one before holds two steps.
    """
    if not digests:
        return []
    following: list[dict[int, int | None]] = []
    for one in digests:
        numbers = one.step_numbers.tolist()
        following.append(dict(zip_longest(numbers, numbers[1:])))
    return [
        number
        for number in following[0]
        if all(number in one for one in following)
        and len({one[number] for one in following} - {None}) <= 1
    ]


def _step_rows(
    digests: Sequence[Digest], ranks: Sequence[int], matched: _Matched
) -> tuple[StepBreakdown, ...]:
    """The steps that can be set side by side, in order."""
    rows = []
    for number in _shared_steps(digests):
        of_ranks = []
        for place, (rank, one) in enumerate(zip(ranks, digests, strict=True)):
            at = int(np.flatnonzero(one.step_numbers == number)[0])
            parts = dict(zip(PARTS, one.step_parts[at].tolist(), strict=True))
            share = matched.step_wait_shares.get((place, number), 0.0)
            of_ranks.append(
                StepRank(
                    rank=rank,
                    start_us=_us(int(one.step_starts[at])),
                    window_us=_us(int(one.step_ends[at] - one.step_starts[at])),
                    **{f"{part}_us": _us(length) for part, length in parts.items()},
                    wait_us=share * _us(parts["exposed_comm"]),
                )
            )
        least = min(of_ranks, key=lambda one: one.wait_us - one.compute_us / 1e9)
        waited = any(one.wait_us > 0 for one in of_ranks)
        rows.append(
            StepBreakdown(
                number=number,
                window_us=max(one.window_us for one in of_ranks),
                critical_rank=least.rank if waited else None,
                ranks=tuple(of_ranks),
            )
        )
    return tuple(rows)


def runs_of(job: JobBreakdown, nodes: int) -> tuple[Run, ...]:
    """A run for each step of a job, with the stages of its ranks; without steps, one for all.

    The last of three or more steps is left out: profilers often stop in the middle of it.
    """
    steps = job.steps[:-1] if len(job.steps) > 2 else job.steps
    if not steps:
        return (_whole_run(job, nodes),)
    on_device = {one.rank: one.on_device for one in job.ranks}
    runs = []
    for number, step in enumerate(steps):
        ranks = tuple(
            Rank(
                rank=one.rank,
                stages=_stages(one, on_device.get(one.rank, True)),
                seconds=one.window_us / 1e6,
            )
            for one in sorted(step.ranks, key=lambda one: one.rank)
        )
        runs.append(
            Run(
                nodes=nodes,
                round=number,
                seconds=step.window_us / 1e6,
                ranks=ranks,
                steps=1,
                facts=_unrecorded(job, len(ranks)),
            )
        )
    return tuple(runs)


def _stages(one: StepRank, on_device: bool) -> dict[Stage, float]:
    """Seconds of a rank by stage; they add up to its step.

    A host that is late to call for work does what does not shrink with more nodes: serial. On a
    processor, time outside of operators is the program's own, so it computes.
    """
    own = one.compute_us + one.other_idle_us
    stages: dict[Stage, float] = {
        "compute": own if on_device else own + one.host_bound_us,
        "communication": one.exposed_comm_us - one.wait_us,
        "idle": one.wait_us,
        "io": one.input_wait_us + one.exposed_copy_us,
        "serial": one.host_bound_us if on_device else 0.0,
    }
    return {stage: microseconds / 1e6 for stage, microseconds in stages.items()}


def stage_shares(job: JobBreakdown) -> dict[int, dict[Stage, float]]:
    """The share of its time that each rank spent in each stage.

    Nothing if a file could not be read: the shares of the others would hide its waits.
    """
    if not job.ranks or any(not rank.used for rank in job.ranks):
        return {}
    return {
        rank.rank: {stage: part / rank.seconds for stage, part in rank.stages.items()}
        for rank in _whole_run(job, len(job.ranks)).ranks
        if rank.seconds
    }


def _whole_run(job: JobBreakdown, nodes: int) -> Run:
    """One run of a job without steps."""
    ranks = []
    for one in job.ranks:
        if not one.used or one.rank is None:
            continue
        other = one.idle_us - one.input_wait_us - one.host_bound_us
        whole = StepRank(
            rank=one.rank, start_us=0.0, window_us=one.window_us, compute_us=one.compute_us,
            exposed_comm_us=one.exposed_comm_us, exposed_copy_us=one.exposed_copy_us,
            input_wait_us=one.input_wait_us, host_bound_us=one.host_bound_us,
            other_idle_us=other, wait_us=one.exposed_wait_us or 0.0,
        )  # fmt: skip
        ranks.append(
            Rank(rank=one.rank, stages=_stages(whole, one.on_device), seconds=one.window_us / 1e6)
        )
    seconds = max(rank.seconds or 0.0 for rank in ranks)
    facts = _unrecorded(job, len(ranks))
    return Run(nodes=nodes, round=0, seconds=seconds, ranks=tuple(ranks), facts=facts)


def _unrecorded(job: JobBreakdown, present: int) -> dict[str, Fact]:
    """How many ranks of the job took part without a record of it."""
    missing = sum(rank.used for rank in job.ranks) + len(job.missing_ranks) - present
    return {"missing_ranks": missing} if missing > 0 else {}
