"""From what the ranks of a run reported to one `Run`."""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.time_sets import transfer_and_wait
from nodewise.measure.engines.base import Finished
from nodewise.measure.mpi.reports import (
    DamagedMpiReport,
    MpiReport,
    missing_region,
    read_mpi_reports,
    unfinished,
    world_problem,
)
from nodewise.measure.program_log import failure_lines
from nodewise.study.files import open_regular, read_regular
from nodewise.study.spec import Amount, Number, Signed
from nodewise.study.study import (
    SHORTEST_SECONDS,
    STAGES,
    Counter,
    Fact,
    MpiRecord,
    Outcome,
    Pace,
    Rank,
    Run,
    Stage,
    Usage,
)
from nodewise.study.workload import (
    ALL_SAMPLES,
    BATCH,
    DEVICES,
    SEEN_LOSS,
    UNEVEN_STEPS,
    WITHHELD,
)

_MOST_BLOCKED = 0.5  # share of a run that the host waited for it knows not what
_MOST_UNEVEN = 1  # steps between ranks: the last batch of a shard may be missing
_MOST_LOSSES = 200  # points of the curve that a run keeps
_ON_DEVICE = "host clocks cannot see the device"

# The share of a step that each rank spent in each stage, by traces of its device.
Shares = dict[int, dict[Stage, float]]
ReadTraces = Callable[[Sequence[Path]], Shares]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What hooks saw of a training on one rank; see `nodewise.measure.torch.workload`."""

    rows: Number = 0  # in the timed steps
    tokens: int = 0
    rows_of_all_steps: int = 0
    all_steps: int = 0
    rows_of_a_step: int = 0
    tokens_of_a_step: int = 0
    accumulation: int = 0
    same_rows: int = 1  # ranks that work on the same rows
    world_size: int = 1
    parameters: int | None = None
    precision: str = ""
    device: str = "cpu"
    devices: int = 0  # of this host
    loss: Signed | None = None
    losses: tuple[tuple[int, Signed | None], ...] = ()
    window_steps: int = 0
    window_step_seconds: float | None = None
    window_failed: str = ""
    blocked_share: float | None = None


class RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """The file that the probe of one rank writes."""

    rank: Number
    host: str
    seconds: Amount | None
    setup_seconds: Amount
    steps: int
    stages: dict[Stage, Signed]
    items: Amount | None
    quality: Signed | None
    facts: dict[str, Fact]
    usage: Usage
    comm_calls: int
    step_ends: int
    modules: dict[str, str]
    began: float | None = None  # the timed region, in seconds since 1970
    counts_steps: bool = False  # 0 steps are then none that ran
    has_rank: bool = True  # given by a launcher; the program that starts the workers has none
    no_number: str = ""  # "quality is nan"
    # Of a rank that was paced as an emulated node: CPU time that counted, time slept to the pace,
    # time beyond the pace as the core was not free, calls on a modelled link without their bytes.
    cpu_s: Amount | None = None
    paced_s: Amount | None = None
    late_s: Amount | None = None
    calls_without_bytes: int = 0
    seen: Seen = Seen()
    record: MpiRecord | None = None  # of an MPI program that was looked into


# The stages that a probe times; an engine may tell of more.
_PROBED: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage != "overhead")


class DamagedReport(Exception):
    """A rank left a report that cannot be read; the message says which and why."""


def read_reports(folder: Path) -> list[RankReport]:
    """The reports of all ranks that wrote one, by rank."""
    decoder = msgspec.json.Decoder(RankReport)
    reports = []
    for path in folder.glob("rank-*.json"):
        try:
            reports.append(decoder.decode(read_regular(path)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
            raise DamagedReport(f"the report {path.name} is damaged: {error}") from None
    return sorted(reports, key=lambda report: report.rank)


def read_ranks(folder: Path) -> list[Rank]:
    """The ranks of a run as they report themselves."""
    return _ranks(read_reports(folder), folder, {}, "")


def collect(
    finished: Finished,
    folder: Path,
    log: Path,
    *,
    nodes: int,
    ranks: int | None,
    number: int,
    baseline: bool,
    provenance: dict[str, Fact],
    started: str,
    read_traces: ReadTraces | None = None,
) -> Run:
    """The run from the reports of its workers and its engine, or how it failed.

    `ranks` workers must have taken part. None: the command starts them, and only their reports
    count them; a report without a rank is of the program that starts them.
    """
    outcome: Outcome = finished.outcome
    detail = finished.detail
    looked_into: list[MpiReport] = []
    try:
        looked_into = read_mpi_reports(folder)
        reports = _joined(read_reports(folder), looked_into)
    except (DamagedReport, DamagedMpiReport) as error:  # written by another hand than ours
        reports = []
        if outcome == "ok":
            outcome, detail = "crashed", str(error)
    outcome, detail = _judged(outcome, detail, finished, looked_into, ranks, bool(reports))
    present = len(finished.ranks or reports)
    if outcome == "ok" and present and ranks is not None and present != ranks:
        outcome, detail = "wrong workers", f"{present} of {ranks} workers reported"
    no_numbers = [report.no_number for report in reports if report.no_number]
    if outcome == "ok" and no_numbers:  # a training that diverged is none to recommend
        outcome, detail = "not a number", no_numbers[0]
    timed = [report.seconds for report in reports if report.seconds is not None]
    seconds = max(timed) if timed else finished.seconds
    if outcome == "ok" and seconds < SHORTEST_SECONDS:
        outcome, detail = "crashed", f"a run cannot take {seconds:g} s"
    steps = _steps_of(reports)
    if outcome not in ("ok", "no match") or steps == 0:
        detail = "\n".join([detail, *failure_lines(log, finished.printed)])
    versions: dict[str, Fact] = {
        f"version_{name}": version for report in reports for name, version in report.modules.items()
    }
    shares = _device_shares(reports, folder, read_traces)
    withheld = "" if shares else _withheld(reports)
    reported = _ranks(reports, folder, shares, withheld)
    by_starter = ranks is None and not any(report.has_rank for report in reports)
    return Run(
        nodes=nodes,
        round=number,
        seconds=seconds,
        outcome=outcome,
        detail=detail,
        baseline=baseline,
        stages=reported[0].stages if by_starter and reported else {},
        ranks=_merged([] if finished.driven or by_starter else reported, finished.ranks),
        quality=next((r.quality for r in reports if r.quality is not None), _seen_loss(reports)),
        work=_sum_of_items(reports),
        setup_seconds=max((r.setup_seconds for r in reports), default=None),
        steps=steps,
        counters=_counters(looked_into),
        facts={
            **_seen_facts(reports, seconds, withheld),
            **_shared_facts(reports),
            **_world(looked_into),
        },
        losses=_mean_losses(reports),
        provenance={**provenance, **versions, **_mpi_facts(looked_into)},
        started=started,
    )


def _judged(
    outcome: Outcome, detail: str, finished: Finished, mpi: list[MpiReport], ranks: int | None,
    reported: bool,
) -> tuple[Outcome, str]:  # fmt: skip
    """How a run of MPI ranks ended, by what they left: one world, and all reached its end."""
    if outcome == "ok" and finished.interposed and not reported:
        return "wrong workers", (
            "no rank called MPI_Init: the program does not use MPI, or has it linked statically"
        )
    if not mpi:
        never = "no rank reached MPI_Finalize" if finished.interposed and not reported else ""
        return outcome, f"{detail}: {never}" if outcome == "timeout" and never else detail
    problem = world_problem(mpi, ranks)
    if outcome == "ok" and problem:
        return "wrong workers", problem
    how = unfinished(mpi, ranks)
    if how and outcome == "ok":
        return "crashed", how
    region = missing_region(mpi)
    if region and outcome == "ok":
        return "no match", region
    return outcome, ": ".join(part for part in (detail, how) if part)


def _joined(reports: list[RankReport], mpi: list[MpiReport]) -> list[RankReport]:
    """The reports of the probe and of the interposer; a probe whose clock ran takes precedence."""
    own = {report.rank: report for report in reports if report.has_rank}
    if not mpi:
        return reports
    joined = []
    for seen in mpi:
        probed = own.pop(seen.rank, None)
        if probed is not None and probed.seconds is not None and any(probed.stages.values()):
            joined.append(msgspec.structs.replace(probed, record=seen.record))
            continue
        joined.append(
            RankReport(
                rank=seen.rank, host=seen.host, seconds=seen.seconds, setup_seconds=0.0, steps=0,
                stages=seen.stages, items=probed.items if probed else None,
                quality=probed.quality if probed else None, facts=probed.facts if probed else {},
                usage=seen.usage, comm_calls=0, step_ends=0,
                modules=probed.modules if probed else {}, began=seen.began, cpu_s=seen.cpu_s,
                paced_s=seen.paced_s, late_s=seen.late_s, record=seen.record,
            )
        )  # fmt: skip
    return sorted([*joined, *own.values()], key=lambda report: report.rank)


def _world(mpi: list[MpiReport]) -> dict[str, Fact]:
    """The ranks as MPI counts them, for the check that K ranks ran."""
    return {"mpi_size": mpi[0].mpi.world_size} if mpi else {}


def _counters(mpi: list[MpiReport]) -> dict[Counter, float]:
    """What the ranks counted together; nothing unless all of them did."""
    counted = [report.record.counters for report in mpi]
    names: tuple[Counter, ...] = ("instructions", "cycles")
    return {
        name: sum(one[name] for one in counted)
        for name in names
        if counted and all(name in one for one in counted)
    }


def _mpi_facts(mpi: list[MpiReport]) -> dict[str, Fact]:
    """What the ranks say of their MPI."""
    if not mpi:
        return {}
    world = mpi[0].mpi
    facts: dict[str, Fact] = {
        "mpi_version": world.library,
        "mpi_hosts": world.hosts,
    }
    missing = next((report.no_counters for report in mpi if report.no_counters), "")
    if missing:
        facts["no_counters"] = missing
    threads = max(len(report.busy_threads) for report in mpi)
    if threads > 1:
        facts["threads_seen_per_rank"] = threads
        used = [one for report in mpi if (one := report.thread_efficiency) is not None]
        if used:  # the rank whose threads idle most while it is outside MPI
            facts["threads_idle_share"] = round(1 - min(used), 3)
    unmatched = sum(report.mpi.unmatched for report in mpi)
    held_up = [report.held_up_s for report in mpi if report.held_up_s is not None]
    return {
        **facts,
        **({"mpi_messages_unmatched": unmatched} if unmatched else {}),
        # Inside MPI, ready to run, while another emulated node had the core.
        **({"rehearsal_held_up_seconds": max(held_up)} if held_up else {}),
        **(
            {"mpi_clock_error_ns": max(r.mpi.clock_error_ns for r in mpi)}
            if world.hosts > 1
            else {}
        ),
    }


def _merged(reported: list[Rank], recorded: tuple[Rank, ...]) -> tuple[Rank, ...]:
    """The ranks as they report themselves; what they do not say, as the engine recorded it."""
    if not recorded:
        return tuple(reported)
    own = {rank.rank: rank for rank in reported} if len(reported) == len(recorded) else {}
    ranks = []
    for rank in recorded:
        told = own.get(rank.rank, rank)
        ranks.append(
            msgspec.structs.replace(
                told,
                stages=told.stages or rank.stages,
                items=rank.items if told.items is None else told.items,
                seconds=rank.seconds if told.seconds is None else told.seconds,
                usage=told.usage or rank.usage,
                host=rank.host or told.host,
            )
        )
    return tuple(ranks)


def _ranks(reports: list[RankReport], folder: Path, shares: Shares, withheld: str) -> list[Rank]:
    """The ranks with their stages, transfer apart from waiting where collectives can be matched.

    Of a device the stages are the `shares` of its traces; those of host clocks may be `withheld`.
    """
    calls = [_comm_calls(report, folder) for report in reports]
    matched = len({len(one) for one in calls}) == 1 and len(reports) > 1 and len(calls[0]) > 0
    waits = [0.0] * len(reports)
    if matched:
        _, waiting = transfer_and_wait(np.array(calls).T)
        waits = (waiting.sum(axis=0) / 1e9).tolist()
    ranks = []
    for report, wait in zip(reports, waits, strict=True):
        stages: dict[Stage, float] = {stage: report.stages.get(stage, 0.0) for stage in _PROBED}
        if "overhead" in report.stages:
            stages["overhead"] = report.stages["overhead"]
        stages["communication"] -= wait
        stages["idle"] += wait
        known = any(report.stages.values()) and not withheld
        if shares:
            seconds = report.seconds or 0.0
            stages = {stage: part * seconds for stage, part in shares[report.rank].items()}
        ranks.append(
            Rank(
                rank=report.rank,
                stages=stages if known else {},
                items=_items_of(report),
                seconds=report.seconds,
                setup_seconds=report.setup_seconds,
                host=report.host,
                usage=None if report.usage == Usage() else report.usage,  # its clock never ran
                pace=_pace_of(report),
                mpi=report.record,
            )
        )
    return ranks


def _pace_of(report: RankReport) -> Pace | None:
    """How a rank was paced; None if it was not."""
    if report.cpu_s is None or report.paced_s is None or report.late_s is None:
        return None
    return Pace(
        cpu_seconds=report.cpu_s,
        paced_seconds=report.paced_s,
        late_seconds=report.late_s,
        calls_without_bytes=report.calls_without_bytes,
    )


def _comm_calls(report: RankReport, folder: Path) -> list[int]:
    stamps = array("q")
    path = folder / f"rank-{report.rank}.bin"
    if report.comm_calls > 0 and path.exists():
        with open_regular(path) as file:
            kept = file.read()[: 8 * report.comm_calls]
            stamps.frombytes(kept[: len(kept) // 8 * 8])
    return list(stamps)


def _items_of(report: RankReport) -> float | None:
    """The items of a rank as it says, else the rows that it was seen to work on."""
    return report.items if report.items is not None else float(report.seen.rows) or None


def _sum_of_items(reports: list[RankReport]) -> float | None:
    """The items of all ranks; those that several ranks share are counted once."""
    if all(report.items is not None for report in reports):
        return sum(report.items or 0.0 for report in reports) if reports else None
    return _over_ranks(reports, lambda seen: seen.rows)


def _over_ranks(reports: list[RankReport], amount: Callable[[Seen], int]) -> float | None:
    """What the ranks work on together; None unless every rank was seen to work on some."""
    amounts = [amount(report.seen) / report.seen.same_rows for report in reports]
    return sum(amounts) if amounts and min(amounts) > 0 else None


def _device_shares(
    reports: list[RankReport], folder: Path, read_traces: ReadTraces | None
) -> Shares:
    """The stages by the traces of all ranks; nothing if one is missing."""
    paths = [folder / f"trace-{report.rank}.json.gz" for report in reports]
    if read_traces is None or not paths or not all(path.exists() for path in paths):
        return {}
    try:
        shares = read_traces(paths)
    except DataError:  # a trace that is cut off
        return {}
    return shares if all(report.rank in shares for report in reports) else {}


def _withheld(reports: list[RankReport]) -> str:
    """Why the clocks of the host do not show the stages; empty if they do."""
    devices = {report.seen.device for report in reports} - {"cpu"}
    if devices:
        failed = next(
            (r.seen.window_failed for r in reports if r.seen.window_failed), "no trace of it"
        )
        return f"{_ON_DEVICE} ({', '.join(sorted(devices))}: {failed})"
    blocked = max((report.seen.blocked_share or 0.0 for report in reports), default=0.0)
    if blocked > _MOST_BLOCKED:
        return f"{_ON_DEVICE}: the host waited {100 * blocked:.0f} % of the time for no known call"
    return ""


def _seen_loss(reports: list[RankReport]) -> float | None:
    """The loss near the end, the mean over the ranks that have one."""
    losses = [report.seen.loss for report in reports if report.seen.loss is not None]
    return sum(losses) / len(losses) if losses else None


def _mean_losses(reports: list[RankReport]) -> tuple[tuple[int, float], ...]:
    """The loss after each step, the mean over ranks; of many steps some."""
    found: dict[int, list[float]] = {}
    for report in reports:
        for step, loss in report.seen.losses:
            if loss is not None:
                found.setdefault(step, []).append(loss)
    curve = [(step, sum(losses) / len(losses)) for step, losses in sorted(found.items())]
    every = 1 + len(curve) // _MOST_LOSSES
    return tuple(curve[::-1][::every][::-1])  # the last one stays


def _seen_facts(reports: list[RankReport], seconds: float, withheld: str) -> dict[str, Fact]:
    """What the hooks saw of a training, in the words of a workload's own facts."""
    if not any(report.seen.all_steps for report in reports):
        return {}
    seen = [report.seen for report in reports]
    amounts: dict[str, float | None] = {
        BATCH: _over_ranks(reports, lambda one: one.rows_of_a_step),
        ALL_SAMPLES: _over_ranks(reports, lambda one: one.rows_of_all_steps),
        "tokens": _over_ranks(reports, lambda one: one.tokens),
        "parameters": max((one.parameters or 0 for one in seen), default=0) or None,
        "accumulation": max(one.accumulation for one in seen) or None,
        "world_size": max(one.world_size for one in seen),
    }
    facts: dict[str, Fact] = {
        name: int(amount) if amount == int(amount) else amount
        for name, amount in amounts.items()
        if amount is not None
    }
    precisions = {one.precision for one in seen if one.precision}
    if precisions:
        facts["precision"] = ", ".join(sorted(precisions))
    if any(one.device != "cpu" for one in seen):
        facts["device"] = ", ".join(sorted({one.device for one in seen}))
        facts[DEVICES] = max(one.devices for one in seen)
    recorded = [one.window_step_seconds for one in seen if one.window_step_seconds is not None]
    steps = max(report.steps for report in reports)
    if recorded and steps:
        facts["recorded_step_over_timed_step"] = round(max(recorded) * steps / seconds, 3)
    if withheld:
        facts[WITHHELD] = withheld
    made = [one.all_steps for one in seen if one.all_steps]
    if max(made) - min(made) > _MOST_UNEVEN:
        facts[UNEVEN_STEPS] = f"{min(made)} to {max(made)}"
    if all(report.quality is None for report in reports) and _seen_loss(reports) is not None:
        facts |= {"quality_name": "loss", SEEN_LOSS: True}
    return facts


def _steps_of(reports: list[RankReport]) -> int | None:
    """The steps that were timed; None if the workload does not count them."""
    most = max((report.steps for report in reports), default=0)
    return most if most or any(report.counts_steps for report in reports) else None


def _shared_facts(reports: list[RankReport]) -> dict[str, Fact]:
    """What the ranks agree on; where they differ, that they do."""
    facts: dict[str, Fact] = {}
    for report in reports:
        for name, value in report.facts.items():
            facts[name] = value if facts.get(name, value) == value else "differs between ranks"
    return facts
