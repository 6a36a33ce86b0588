"""The breakdown of a traced job, as text and tables."""

from collections.abc import Sequence

from nodewise.base.units import (
    format_efficiency,
    format_latency,
    format_percent,
    format_seconds,
)
from nodewise.explain.trace.breakdown import JobBreakdown, RankBreakdown, StepBreakdown
from nodewise.explain.trace.replay import Replay
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.tables import Table, given, rows_table
from nodewise.study.check import warning
from nodewise.study.study import STAGES, Rank, Run

_MOST_STEPS = 12
_WELL_EXPLAINED = 0.05  # by which a replayed step may differ from the measured one
# The parts of a step in the order in which they are shown; transfer is what is left of the exposed
# communication.
_LEDGER = (
    ("compute", "compute_us"),
    ("transfer", ""),
    ("wait", "wait_us"),
    ("copies", "exposed_copy_us"),
    ("input wait", "input_wait_us"),
    ("host-bound", "host_bound_us"),
    ("other idle", "other_idle_us"),
)


def job_report(job: JobBreakdown) -> Output:
    """Where most of the time went, and which rank the others waited for."""
    used = [rank for rank in job.ranks if rank.used]
    lines = [f"**{_headline(job, used)}**"]
    if job.collectives.kinds:
        lines.append(_split(job))
    lines += _late(job)
    if job.pop is not None:
        lines.append(_pop(job))
    doubts = [warning(rank.file, rank.error) for rank in job.ranks if rank.error]
    if job.missing_ranks:
        fix = "Name the traces of all ranks."
        doubts.append(warning("missing ranks", f"{len(job.missing_ranks)} have no trace here", fix))
    collectives: Report = [collectives_table(job)] if job.collectives.kinds else []
    steps: Report = [steps_table(job, job.steps[:_MOST_STEPS])] if job.steps else []
    rest: Report = [steps_table(job, job.steps[_MOST_STEPS:])] if job.steps[_MOST_STEPS:] else []
    sections = [
        Section(
            name="ranks",
            title="Ranks",
            parts=[
                ranks_table(job),
                "Milliseconds; compute + exposed communication + exposed copies + idle = window "
                f"({job.window}).",
            ],
        ),
        Section(name="collectives", title="Collectives", parts=collectives),
        Section(name="steps", title="Steps", parts=steps, details=rest),
        Section(name="notes", title="Notes", parts=[f"  {note}" for note in job.notes]),
    ]
    return output(lines, _short_table(job), sections, doubts)


def _short_table(job: JobBreakdown) -> Table:
    """What each rank spent its time on, as shares of its window."""
    rows = []
    for rank in job.ranks:
        name = "?" if rank.rank is None else str(rank.rank)
        parts = {
            "compute": rank.compute_us,
            "exposed comm": rank.exposed_comm_us,
            "of it wait": rank.exposed_wait_us,
            "copies": rank.exposed_copy_us,
            "idle": rank.idle_us,
        }
        window = rank.window_us or 1.0
        shares = {
            what: "" if part is None or not rank.used else format_percent(part / window)
            for what, part in parts.items()
        }
        time = format_latency(rank.window_us / 1e6) if rank.used else ""
        rows.append({"rank": name, "window": time, **shares, "": "" if rank.used else "left out"})
    return rows_table("Ranks", rows, left=("",), sparse=True)


def stages_report(runs: Sequence[Run]) -> Output:
    """Where the time of runs with recorded stages went, rank by rank."""
    rows = [
        (run, rank)
        for run in runs
        for rank in run.ranks or (Rank(rank=0, stages=run.stages, seconds=run.seconds),)
    ]
    stages = [stage for stage in STAGES if any(rank.stages.get(stage) for _, rank in rows)]
    total = sum(rank.seconds or run.seconds for run, rank in rows) or 1.0
    spent = {stage: sum(rank.stages.get(stage, 0.0) for _, rank in rows) for stage in stages}
    shares = ", ".join(f"{format_percent(spent[stage] / total)} {stage}" for stage in stages)
    cells = [
        {
            "K": run.nodes,
            "round": run.round,
            "rank": rank.rank if run.ranks else "mean",
            "seconds": format_seconds(rank.seconds or run.seconds),
            **{stage: format_seconds(rank.stages.get(stage, 0.0)) for stage in stages},
        }
        for run, rank in rows
    ]
    table = rows_table("The stages of each rank", cells)
    return output([f"**{shares}**", "In seconds; the rest of each run is unexplained."], table)


def replay_report(found: Replay) -> Output:
    """What stragglers cost, and who they are."""
    step, ideal = format_latency(found.step_seconds), format_latency(found.ideal_seconds)
    (stage, by_stage), (kind, by_kind) = (
        next(iter(slowdowns.items())) for slowdowns in (found.by_stage, found.by_kind)
    )
    lines = [
        f"**{found.name}: stragglers make a step {found.slowdown:.3f} times as long: {step} "
        f"instead of {ideal}.**",
        f"Slowest: stage {stage} ({by_stage:.3f}), {kind} ({by_kind:.3f}).",
    ]
    if found.last_stage_share is not None and found.worker_share is not None:
        workers = ", ".join(map(str, found.slowest_workers[:8]))
        lines.append(
            f"An ideal last stage would remove {format_percent(found.last_stage_share)} of the "
            f"slowdown, an ideal rank {workers} {format_percent(found.worker_share)}."
        )
    if found.changed_seconds is not None:
        asked = ", ".join(f"{key}={value}" for key, value in found.changes.items())
        saved = 1 - found.changed_seconds / found.step_seconds
        lines.append(
            f"What if {asked}: {format_latency(found.changed_seconds)} a step, "
            f"{format_percent(saved)} less."
        )
    lines.append(
        f"Replayed over {len(found.steps)} steps of {found.replicas} replicas x {found.stages} "
        f"stages. The clock says {format_latency(found.measured_seconds)}: recorded operations "
        f"explain {format_percent(1 / found.unexplained)} of it."
    )
    doubts = []
    if abs(found.unexplained - 1) > _WELL_EXPLAINED:
        doubts.append(
            warning(
                "replay",
                "the replayed step differs from the measured one by "
                f"{format_percent(abs(found.unexplained - 1))}",
                "Record the operations that are missing, for example input or checkpoints.",
            )
        )
    tables = {
        "optype": found.by_kind,
        "stage": {str(key): value for key, value in found.by_stage.items()},
        "replica": {str(key): value for key, value in found.by_replica.items()},
    }
    sections = [
        Section(
            name=f"{name}s",
            title=f"Slowdown if only this {name} keeps its measured durations",
            parts=[_slowdowns(name, slowdowns)],
        )
        for name, slowdowns in tables.items()
    ]
    return output(lines, _slowdowns("stage", tables["stage"]), sections, doubts)


def _slowdowns(name: str, slowdowns: dict[str, float]) -> Table:
    rows = [{name: key, "slowdown": f"{value:.4f}"} for key, value in slowdowns.items()]
    return rows_table(f"Slowdown by {name}", rows, left=(name,))


def _headline(job: JobBreakdown, used: Sequence[RankBreakdown]) -> str:
    window = sum(rank.window_us for rank in used)
    wait = sum(rank.exposed_wait_us or 0.0 for rank in used)
    parts = {
        "compute": sum(rank.compute_us for rank in used),
        "exposed communication": sum(rank.exposed_comm_us for rank in used) - wait,
        "waiting for a late rank": wait,
        "exposed copies": sum(rank.exposed_copy_us for rank in used),
        "waiting for input": sum(rank.input_wait_us for rank in used),
        "waiting for the host": sum(rank.host_bound_us for rank in used),
    }
    parts["other idle time"] = sum(rank.idle_us for rank in used) - sum(
        parts[name] for name in ("waiting for input", "waiting for the host")
    )
    if not window:
        return "nothing was recorded"
    compute = parts.pop("compute")
    most = max(parts, key=lambda name: parts[name])
    count = f"{len(used)} rank{'s' if len(used) > 1 else ''}"
    lost = f", {format_percent(parts[most] / window)} {most}" if parts[most] else ""
    return f"{count}: {format_percent(compute / window)} compute{lost}"


def ranks_table(job: JobBreakdown) -> Table:
    """The time of each rank."""
    titles = (
        "rank", "window", "compute", "exposed comm", "of it wait", "exposed copies", "idle",
        "of it input", "of it host", "comm", "overlapped",
    )  # fmt: skip
    rows = []
    for rank in job.ranks:
        name = "?" if rank.rank is None else str(rank.rank)
        if not rank.used:
            rows.append((name, "left out", *[""] * (len(titles) - 2)))
            continue
        cells = (
            rank.window_us, rank.compute_us, rank.exposed_comm_us, rank.exposed_wait_us,
            rank.exposed_copy_us, rank.idle_us, rank.input_wait_us, rank.host_bound_us,
            rank.comm_us,
        )  # fmt: skip
        hidden = format_percent(rank.overlap_us / rank.comm_us) if rank.comm_us else ""
        rows.append((name, *(_milliseconds(cell) for cell in cells), hidden))
    return Table(name="The time of each rank", titles=titles, rows=tuple(rows))


def _milliseconds(microseconds: float | None) -> str:
    return given(microseconds, lambda known: f"{known / 1000:.3f}")


def collectives_table(job: JobBreakdown) -> Table:
    """Each operation and group: calls, bytes, transfer and wait."""
    rows = [
        {
            "collective": kind.operation,
            "group": kind.group,
            "calls": kind.calls,
            "MB": given(kind.bytes, lambda size: f"{size / 1e6:.3f}"),
            "ms": _milliseconds(kind.call_us),
            "exposed": _milliseconds(kind.exposed_us),
            "transfer": _milliseconds(kind.transfer_us),
            "wait": _milliseconds(kind.wait_us),
        }
        for kind in job.collectives.kinds
    ]
    return rows_table("Collectives, summed over ranks", rows, left=("collective", "group"))


def _split(job: JobBreakdown) -> str:
    found = job.collectives
    if found.transfer_us is None or found.wait_us is None:
        return "One rank alone cannot tell transfer from waiting."
    share = found.wait_us / (found.wait_us + found.transfer_us or 1.0)
    return (
        f"{found.count} collectives matched over ranks: {format_percent(share)} of the time in "
        "their calls is waiting for the rank that came last."
    )


def _late(job: JobBreakdown) -> list[str]:
    if not job.late_ranks:
        return []
    first = job.late_ranks[0]
    others = ", ".join(f"rank {late.rank} {late.times_last}" for late in job.late_ranks[1:6])
    also = f"; {others}" if others else ""
    return [
        f"Latest rank: **rank {first.rank}**, last in {first.times_last} of "
        f"{job.collectives.count} collectives; the others waited "
        f"{format_latency(first.waited_for_us / 1e6)} for it{also}."
    ]


def _pop(job: JobBreakdown) -> str:
    assert job.pop is not None
    pop = job.pop
    text = (
        f"Parallel efficiency {format_efficiency(pop.parallel_efficiency)} = load balance "
        f"{format_efficiency(pop.load_balance)}"
    )
    if pop.serialisation is None or pop.transfer is None:
        communication = pop.parallel_efficiency / pop.load_balance
        return f"{text} x communication and idling {format_efficiency(communication)}."
    return (
        f"{text} x serialisation {format_efficiency(pop.serialisation)} x transfer "
        f"{format_efficiency(pop.transfer)}."
    )


def steps_table(job: JobBreakdown, steps: Sequence[StepBreakdown]) -> Table:
    """The slowest account of each step: its longest rank's window, and the rank waited for."""
    ledger: tuple[tuple[str, str], ...] = _LEDGER
    if not job.collectives.count:  # nothing was divided into transfer and wait
        ledger = (("compute", "compute_us"), ("exposed comm", "exposed_comm_us"), *_LEDGER[3:])
    rows = [
        {
            "step": step.number,
            "window": _milliseconds(step.window_us),
            **{name: _milliseconds(_mean(step, field)) for name, field in ledger},
            "critical rank": step.critical_rank,
        }
        for step in steps
    ]
    return rows_table("Steps, mean over ranks", rows)


def _mean(step: StepBreakdown, field: str) -> float:
    """Microseconds of one part of the step, of the mean rank."""
    if not field:
        return _mean(step, "exposed_comm_us") - _mean(step, "wait_us")
    total: float = sum(getattr(rank, field) for rank in step.ranks)
    return total / len(step.ranks)
