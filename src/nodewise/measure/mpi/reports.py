"""What the interposer left of each rank, with waiting separated from transfer."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.stats import Floats
from nodewise.study.files import read_regular
from nodewise.study.spec import Amount, Number, Signed
from nodewise.study.study import Counter, MpiCalls, MpiRecord, Stage, Usage

_STAMP = np.dtype(
    [
        *((name, "<i8") for name in ("post", "enter", "exit")),
        ("key", "<u8"),
        *((name, "<u4") for name in ("seq", "size", "kind", "root")),
    ]
)
# As in interposer.c: all wait for all, all for the root, the root for all; messages.
_ALL, _FROM_ROOT, _TO_ROOT, _SENT, _RECEIVED = 1, 2, 3, 4, 5
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BUSY = 0.02  # of the busiest thread: one that used less is not one that computes
_MOST_COMMUNICATORS = 8  # that are kept in a study, those with the most time

_STAGES: tuple[Stage, ...] = ("compute", "communication", "io")  # that every report has
Stamps = NDArray[np.void]
Whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Nanoseconds = Whole


class _World(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a report that only an MPI program has."""

    process: Whole
    world_size: Whole
    library: str
    finalized: bool
    aborted: bool
    abort_code: Whole
    begin_ns: Nanoseconds
    end_ns: Nanoseconds
    clock_offset_ns: Nanoseconds
    clock_error_ns: Nanoseconds
    hosts: Whole
    collectives_seen: Whole
    messages_seen: Whole
    unmatched: Whole
    region: str = ""  # that was asked for and not found
    region_calls: Whole = 0  # of the collective that it is named after
    thread_cpu_s: tuple[Amount, ...] = ()
    thread_delay_s: tuple[Amount, ...] = ()  # ready to run, while another had the core
    classes: dict[str, MpiCalls]
    communicators: tuple[MpiCalls, ...]


class MpiReport(msgspec.Struct, frozen=True, kw_only=True):
    """The file that the interposer of one rank writes."""

    rank: Number
    host: str
    began: float
    seconds: Amount
    stages: dict[Stage, Signed]
    usage: Usage
    mpi: _World
    cpu_s: Amount | None = None
    paced_s: Amount | None = None
    late_s: Amount | None = None
    held_up_s: Amount | None = None  # inside MPI and ready to run, but another had the core
    pace_share: Amount | None = None  # the cores of the emulated node
    counters: dict[Counter, Amount] = {}  # empty if they were not read, and why:
    no_counters: str = ""

    def __post_init__(self) -> None:
        """Refuse a report without its stages."""
        if missing := [stage for stage in _STAGES if stage not in self.stages]:
            raise ValueError(f"it has no {missing[0]}")

    @property
    def record(self) -> MpiRecord:
        """What is kept of the calls of this rank."""
        busiest = sorted(self.mpi.communicators, key=lambda one: -one.seconds)
        return MpiRecord(
            classes={name: one for name, one in self.mpi.classes.items() if one.calls},
            communicators=tuple(one for one in busiest if one.calls)[:_MOST_COMMUNICATORS],
            thread_cpu_seconds=self.busy_threads,
            thread_efficiency=self.thread_efficiency,
            # A rank that never computed executed nothing outside MPI: none is not a count.
            counters={name: count for name, count in self.counters.items() if count > 0},
        )

    @property
    def busy_threads(self) -> tuple[float, ...]:
        """CPU seconds of the threads that computed, the busiest first.

        MPI and its network have threads of their own, which hardly use any.
        """
        used = sorted(self.mpi.thread_cpu_s, reverse=True)
        return tuple(one for one in used if one > _BUSY * used[0])

    @property
    def thread_efficiency(self) -> float | None:
        """How much of the time outside MPI the threads computed, or wanted to; None: one thread."""
        compute, threads = self.stages["compute"], len(self.busy_threads)
        if (
            threads < 2
            or compute <= 0
            or len(self.mpi.thread_delay_s) != len(self.mpi.thread_cpu_s)
        ):
            return None
        both = zip(self.mpi.thread_cpu_s, self.mpi.thread_delay_s, strict=True)
        used = sorted((min(cpu + delay, compute) for cpu, delay in both), reverse=True)
        return sum(used[:threads]) / (threads * compute)


class DamagedMpiReport(Exception):
    """A rank left a report that cannot be read."""


def read_mpi_reports(folder: Path) -> list[MpiReport]:
    """The reports of all ranks, by rank, with the time that each waited for others as idle."""
    decoder = msgspec.json.Decoder(MpiReport)
    reports, stamps = [], []
    for path in sorted(folder.glob("mpi-*.json")):
        try:
            reports.append(decoder.decode(read_regular(path)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
            raise DamagedMpiReport(f"the report {path.name} is damaged: {error}") from None
        stamps.append(_read_stamps(path.with_suffix(".stamps")))
    order = sorted(range(len(reports)), key=lambda at: reports[at].rank)
    reports, stamps = [reports[at] for at in order], [stamps[at] for at in order]
    if not reports or len({report.rank for report in reports}) < len(reports):
        return reports  # several worlds: their ranks do not wait for each other
    return _with_waits(reports, stamps)


def world_problem(reports: list[MpiReport], ranks: int | None) -> str:
    """Why these are not the ranks of one world of the right size; empty if they are."""
    sizes = sorted({report.mpi.world_size for report in reports})
    worlds = len(reports) / sizes[-1] if sizes else 0
    if len(sizes) > 1 or worlds > 1:
        listed = " and ".join(map(str, sizes))
        return (
            f"{len(reports)} processes ran in separate worlds of {listed} rank"
            f"{'' if sizes == [1] else 's'}, not in one"
        )
    if ranks is not None and sizes and sizes[0] != ranks:
        return f"the world had {sizes[0]} ranks, not {ranks}"
    return ""


def unfinished(reports: list[MpiReport], ranks: int | None) -> str:
    """Which rank aborted or ended without MPI_Finalize; empty: none."""
    for report in reports:
        if report.mpi.aborted:
            return f"rank {report.rank} called MPI_Abort with code {report.mpi.abort_code}"
    for report in reports:
        if not report.mpi.finalized:
            return f"rank {report.rank} ended without MPI_Finalize"
    expected = ranks or max((report.mpi.world_size for report in reports), default=0)
    missing = sorted({*range(expected)} - {report.rank for report in reports})
    if reports and missing:
        listed = ", ".join(map(str, missing[:8]))
        return f"rank{'s' if len(missing) > 1 else ''} {listed} never reached MPI_Finalize"
    return ""


def missing_region(reports: list[MpiReport]) -> str:
    """That a rank did not make the calls which begin and end the region; empty: it did."""
    for report in reports:
        if report.mpi.region:
            name, calls = report.mpi.region, report.mpi.region_calls
            made = f"rank {report.rank} made {calls or 'no'} such call{'' if calls == 1 else 's'}"
            return f"the region '{name}' was not found: {made}"
    return ""


def _read_stamps(path: Path) -> Stamps:
    try:
        content = read_regular(path)
    except OSError:
        content = b""
    return np.frombuffer(content[: len(content) // _STAMP.itemsize * _STAMP.itemsize], _STAMP)


class _Waits(NamedTuple):
    """Seconds that each rank waited in calls that could be matched, and how many these were."""

    seconds: Floats
    matched: Floats


def _sums(ranks: NDArray[np.int64], values: NDArray[Any], count: int) -> Floats:
    """The values of each rank added up."""
    return np.bincount(ranks, values, count).astype(np.float64)


def _with_waits(reports: list[MpiReport], stamps: list[Stamps]) -> list[MpiReport]:
    """The reports with waiting as idle: in collectives, in messages, and at the end."""
    ranks = np.concatenate([np.full(len(one), at) for at, one in enumerate(stamps)])
    table = np.concatenate(stamps)
    offsets = np.array([report.mpi.clock_offset_ns for report in reports], dtype=np.int64)
    times = {name: table[name] + offsets[ranks] for name in ("post", "enter", "exit")}
    collective = table["kind"] < _SENT
    in_collectives = _collective_waits(table, times, ranks, collective, len(reports))
    in_messages = _message_waits(table, times, ranks, ~collective, len(reports))
    ends = np.array([report.mpi.end_ns for report in reports]) + offsets
    last = int(ends.max())
    split = []
    for at, report in enumerate(reports):
        waited = _scaled(in_collectives, at, report.mpi.collectives_seen)
        waited += _scaled(in_messages, at, report.mpi.messages_seen)
        transfer = report.stages["communication"]
        waited = min(waited, transfer)
        left = (last - int(ends[at])) / 1e9  # at MPI_Finalize it waits for the last one
        stages: dict[Stage, float] = {
            **report.stages,
            "communication": transfer - waited,
            "idle": waited + left,
            "serial": 0.0,
        }
        whole = msgspec.structs.replace(report, stages=stages, seconds=report.seconds + left)
        split.append(_without_emulation(whole))
    return split


def _without_emulation(report: MpiReport) -> MpiReport:
    """An emulated node: what it waited for a core inside MPI is overhead of the engine.

    That looks as if it communicated. Outside it was late only by what it did not make up for later.
    """
    if report.held_up_s is None or not report.pace_share or report.cpu_s is None:
        return report
    stages = report.stages
    beyond = stages["compute"] - report.cpu_s / report.pace_share
    inside = stages["communication"] + stages["idle"]
    held_up = min(report.held_up_s, inside)
    kept = 1 - held_up / inside if inside else 1.0
    moved: dict[Stage, float] = {
        "communication": stages["communication"] * kept,
        "idle": stages["idle"] * kept,
        "overhead": held_up,
    }
    late = min(max(beyond, 0.0), report.late_s or 0.0)
    return msgspec.structs.replace(report, stages={**stages, **moved}, late_s=late)


def _scaled(waits: _Waits, at: int, seen: int) -> float:
    """All calls, where only some of them were kept or matched."""
    matched = float(waits.matched[at])
    return float(waits.seconds[at]) * max(seen, matched) / matched if matched else 0.0


def _came(
    post: NDArray[np.int64], enter: NDArray[np.int64], leave: NDArray[np.int64]
) -> NDArray[np.int64]:
    """When the other side took part: at its post, or as it went on in MPI to complete that.

    MPI moves large messages only while both ranks are inside of it. Who left before the other one
    came back did not have to wait for that.
    """
    return np.where(leave >= enter, np.maximum(post, enter), post)


def _collective_waits(
    table: Stamps, times: dict[str, NDArray[np.int64]], ranks: NDArray[np.int64],
    chosen: NDArray[np.bool_], count: int,
) -> _Waits:  # fmt: skip
    """Until the last rank came, or the root, in collectives that all their ranks kept."""
    some = np.flatnonzero(chosen)
    some = some[np.lexsort((table["seq"][some], table["key"][some]))]
    if not len(some):
        return _Waits(np.zeros(count), np.zeros(count))
    key, seq = table["key"][some], table["seq"][some]
    first = np.concatenate([[True], (key[1:] != key[:-1]) | (seq[1:] != seq[:-1])])
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    members = np.diff(np.append(starts, len(some)))
    root, kind = table["root"][some] == 1, table["kind"][some]
    post, enter, leave = (times[name][some] for name in ("post", "enter", "exit"))
    never = np.iinfo(np.int64).min

    def last_of(moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the rank came that each rank waits for: the root, or the last of all."""
        last = np.maximum.reduceat(moments, starts)[group]
        of_root = np.maximum.reduceat(np.where(root, moments, never), starts)[group]
        until = np.where(kind == _FROM_ROOT, of_root, last)
        return np.where((kind == _TO_ROOT) & ~root, never, until)

    until = _came(last_of(post), last_of(enter), leave)
    wait = np.maximum(np.minimum(until, leave), enter) - enter
    whole = members[group] == table["size"][some]
    return _Waits(
        _sums(ranks[some], np.where(whole, wait, 0) / 1e9, count),
        _sums(ranks[some], whole, count),
    )


def _message_waits(
    table: Stamps, times: dict[str, NDArray[np.int64]], ranks: NDArray[np.int64],
    chosen: NDArray[np.bool_], count: int,
) -> _Waits:  # fmt: skip
    """For a sender that is late, or a receiver that is; a call waits for the last of its messages.

    A sender waits for its receiver only where it was still there when the receiver came.
    """
    some = np.flatnonzero(chosen)
    with np.errstate(over="ignore"):
        name = table["key"][some] ^ (table["seq"][some].astype(np.uint64) + np.uint64(1)) * _GOLDEN
    kind, post = table["kind"][some], times["post"][some]
    enter, leave = times["enter"][some], times["exit"][some]
    wait = np.zeros(len(some), dtype=np.int64)
    known = np.zeros(len(some), dtype=bool)
    for own, other in ((_RECEIVED, _SENT), (_SENT, _RECEIVED)):
        mine, theirs = np.flatnonzero(kind == own), np.flatnonzero(kind == other)
        _, at_mine, at_theirs = np.intersect1d(name[mine], name[theirs], return_indices=True)
        mine, theirs = mine[at_mine], theirs[at_theirs]
        came = _came(post[theirs], enter[theirs], leave[mine])
        until = np.minimum(came, leave[mine])
        if own == _SENT:
            until = np.where(came < leave[mine], until, enter[mine])
        wait[mine] = np.maximum(until - enter[mine], 0)
        known[mine] = True
    calls = np.lexsort((leave, enter, ranks[some]))
    ordered = np.stack([ranks[some], enter, leave])[:, calls]
    first = np.ones(len(calls), dtype=bool)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    longest = np.maximum.reduceat(wait[calls], np.flatnonzero(first)) if len(calls) else wait
    return _Waits(
        _sums(ordered[0][first], longest / 1e9, count),
        _sums(ranks[some], known, count),
    )
