"""From what the ranks of a run reported to one `Run`."""

from array import array
from pathlib import Path

import msgspec
import numpy as np

from nodewise.base.time_sets import transfer_and_wait
from nodewise.measure.engines.base import Finished
from nodewise.measure.mpi.reports import (
    DamagedMpiReport,
    MpiReport,
    read_mpi_reports,
    unfinished,
    world_problem,
)
from nodewise.measure.telling import telling_lines
from nodewise.study.spec import Amount, Number, Signed
from nodewise.study.study import (
    SHORTEST_SECONDS,
    STAGES,
    Fact,
    MpiRecord,
    Outcome,
    Rank,
    Run,
    Stage,
    Usage,
)

LOG_TAIL_LINES = 30


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
            reports.append(decoder.decode(path.read_bytes()))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedReport(f"the report {path.name} is damaged: {error}") from None
    return sorted(reports, key=lambda report: report.rank)


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
) -> Run:
    """The run that its workers and its engine tell of, or how it failed.

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
        outcome, detail = "crashed", f"no run takes {seconds:g} s"
    if outcome != "ok":
        detail = "\n".join([detail, *telling_lines(_tail(log))])
    versions: dict[str, Fact] = {
        f"version_{name}": version for report in reports for name, version in report.modules.items()
    }
    reported = _ranks(reports, folder)
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
        quality=next((r.quality for r in reports if r.quality is not None), None),
        work=_sum_of_items(reports),
        setup_seconds=max((r.setup_seconds for r in reports), default=None),
        steps=_steps_of(reports),
        facts={**_shared_facts(reports), **_world(looked_into)},
        provenance={**provenance, **versions, **_mpi_facts(looked_into)},
        started=started,
    )


def _judged(
    outcome: Outcome, detail: str, finished: Finished, mpi: list[MpiReport], ranks: int | None,
    reported: bool,
) -> tuple[Outcome, str]:  # fmt: skip
    """How a run of MPI ranks ended, by what they left: one world, and all came to its end."""
    if outcome == "ok" and finished.interposed and not reported:
        return "wrong workers", (
            "no rank called MPI_Init: the program does not use MPI, or has it linked statically"
        )
    if not mpi:
        return outcome, detail
    problem = world_problem(mpi, ranks)
    if outcome == "ok" and problem:
        return "wrong workers", problem
    how = unfinished(mpi, ranks)
    if how and outcome == "ok":
        return "crashed", how
    return outcome, ": ".join(part for part in (detail, how) if part)


def _joined(reports: list[RankReport], mpi: list[MpiReport]) -> list[RankReport]:
    """The reports of the probe and of the interposer; a probe whose clock ran knows better."""
    own = {report.rank: report for report in reports if report.has_rank}
    if not mpi:
        return reports
    joined = []
    for seen in mpi:
        told = own.pop(seen.rank, None)
        if told is not None and told.seconds is not None and any(told.stages.values()):
            joined.append(msgspec.structs.replace(told, record=seen.record))
            continue
        joined.append(
            RankReport(
                rank=seen.rank, host=seen.host, seconds=seen.seconds, setup_seconds=0.0, steps=0,
                stages=seen.stages, items=told.items if told else None,
                quality=told.quality if told else None, facts=told.facts if told else {},
                usage=seen.usage, comm_calls=0, step_ends=0,
                modules=told.modules if told else {}, began=seen.began, cpu_s=seen.cpu_s,
                paced_s=seen.paced_s, late_s=seen.late_s, record=seen.record,
            )
        )  # fmt: skip
    return sorted([*joined, *own.values()], key=lambda report: report.rank)


def _world(mpi: list[MpiReport]) -> dict[str, Fact]:
    """The ranks as MPI counts them, for the check that K ranks ran."""
    return {"mpi_size": mpi[0].mpi.world_size} if mpi else {}


def _mpi_facts(mpi: list[MpiReport]) -> dict[str, Fact]:
    """What the ranks say of their MPI."""
    if not mpi:
        return {}
    world = mpi[0].mpi
    facts: dict[str, Fact] = {
        "mpi_version": world.library,
        "mpi_hosts": world.hosts,
    }
    threads = max(len(report.busy_threads) for report in mpi)
    if threads > 1:
        # Of a rank with several threads: how much of their time they did not use a core.
        used = [sum(report.busy_threads) / (threads * report.seconds) for report in mpi]
        facts["threads_seen_per_rank"] = threads
        facts["threads_idle_share"] = round(max(1 - share for share in used), 3)
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


def _ranks(reports: list[RankReport], folder: Path) -> list[Rank]:
    """The ranks with their stages, transfer told from waiting where collectives can be matched."""
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
        known = any(report.stages.values())
        ranks.append(
            Rank(
                rank=report.rank,
                stages=stages if known else {},
                items=report.items,
                seconds=report.seconds,
                setup_seconds=report.setup_seconds,
                host=report.host,
                usage=None if report.usage == Usage() else report.usage,  # its clock never ran
                mpi=report.record,
            )
        )
    return ranks


def _comm_calls(report: RankReport, folder: Path) -> list[int]:
    stamps = array("q")
    path = folder / f"rank-{report.rank}.bin"
    if report.comm_calls > 0 and path.exists():
        with path.open("rb") as file:
            kept = file.read()[: 8 * report.comm_calls]
            stamps.frombytes(kept[: len(kept) // 8 * 8])
    return list(stamps)


def _sum_of_items(reports: list[RankReport]) -> float | None:
    items = [report.items for report in reports if report.items is not None]
    return sum(items) if items and len(items) == len(reports) else None


def _steps_of(reports: list[RankReport]) -> int | None:
    """The steps that were timed; None where the workload does not count them."""
    most = max((report.steps for report in reports), default=0)
    return most if most or any(report.counts_steps for report in reports) else None


def _shared_facts(reports: list[RankReport]) -> dict[str, Fact]:
    """What the ranks agree on; where they differ, that they do."""
    facts: dict[str, Fact] = {}
    for report in reports:
        for name, value in report.facts.items():
            facts[name] = value if facts.get(name, value) == value else "differs between ranks"
    return facts


def _tail(log: Path) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(file.tell() - 8000, 0))
        text = file.read().decode("utf-8", "replace")
    printable = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return printable.splitlines()[-LOG_TAIL_LINES:]
