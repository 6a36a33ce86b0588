"""The dossier: a study in the words, columns and headings of one computing centre.

What the study does not say is marked for the author; nothing is invented.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nodewise.base.units import (
    capitalised,
    format_bytes,
    format_duration,
    format_efficiency,
    format_percent,
    format_quantity,
    format_seconds,
    format_speedup,
)
from nodewise.decide.allocation.allocation import Allocation, Step, Use
from nodewise.decide.allocation.centres import Centre, ColumnName, Part
from nodewise.report.charts.draw import draw
from nodewise.report.charts.look import sized
from nodewise.report.dossier.blocks import TODO, Block, Paragraph, Picture, Title, file_stem
from nodewise.report.findings import Findings
from nodewise.report.images import image
from nodewise.report.page.sections import labels
from nodewise.report.tables import Table, rows_table
from nodewise.report.text.pop import pop_lines
from nodewise.study.scale_unit import plural
from nodewise.study.study import Study

_TITLES: dict[ColumnName, str] = {
    "size": "", "time": "time (s)", "speedup": "speedup", "ideal": "ideal",
    "efficiency": "efficiency", "factor": "time falls by", "passes": "passes",
}  # fmt: skip


class Measured(NamedTuple):
    """A study with what was found in it, and with what it says to the centre where it is strong."""

    study: Study
    findings: Findings
    allocation: Allocation | None


def dossier(centre: Centre, measured: Sequence[Measured], pictures: bool = True) -> list[Block]:
    """The document for a centre, heading by heading."""
    strong = next((one for one in measured if one.allocation is not None), None)
    names = ", ".join(one.study.name for one in measured)
    blocks: list[Block] = [
        Title(f"Scaling of {names}, for {centre.name}", 1),
        Paragraph(f"What is asked: {centre.source} ({centre.year})."),
    ]
    blocks += [
        Paragraph(f"Doubt about {one.study.name}: {doubt}")
        for one in measured
        for doubt in doubts(one.study, one.findings)
    ]
    for heading in centre.headings:
        blocks += [Title(heading.title), *_PARTS[heading.fills](centre, measured, strong, pictures)]
    unknown = strong.allocation.unknown if strong and strong.allocation else ()
    if unknown:
        blocks.append(Title("For the author to check"))
        blocks += [Paragraph(f"{TODO}{what}.") for what in unknown]
    return blocks


def doubts(study: Study, findings: Findings) -> list[str]:
    """What a reader must know before any figure: emulated nodes, and what makes it doubtful."""
    about = [f"{capitalised(label)}." for label in labels(study)]
    for check in findings.checks:
        if check.makes == "doubtful":
            fix = f" {check.remedy}" if check.remedy else ""
            about.append(f"{capitalised(check.evidence)}.{fix}")
    return list(dict.fromkeys(about))


def _todo(what: str) -> Paragraph:
    return Paragraph(TODO + what)


def _scaling(
    centre: Centre, measured: Sequence[Measured], _: Measured | None, pictures: bool
) -> list[Block]:
    blocks: list[Block] = []
    for number, one in enumerate(measured, 1):
        blocks += [Paragraph(_scaling_words(one)), _scaling_table(centre, one)]
        if pictures:
            blocks += _picture(one, number)
    regimes = {one.study.regime for one in measured}
    if regimes == {"strong"}:
        blocks.append(_todo("weak scaling was not measured; add a study of it, or say why not."))
    elif regimes == {"weak"}:
        blocks.append(_todo("strong scaling was not measured; without it no job size follows."))
    return blocks


def _scaling_words(one: Measured) -> str:
    scaling, unit = one.findings.scaling, one.study.scale_unit
    first, last = scaling.rows[0], scaling.rows[-1]
    rounds = min(row.rounds for row in scaling.rows)
    repeated = "once" if rounds == 1 else f"{rounds} times or more"
    held = "The same job" if one.study.regime == "strong" else "A job that grows with K"
    scales = ", ".join(str(row.nodes) for row in scaling.rows)
    faster = f"a speedup of {format_speedup(last.speedup)} over K={first.nodes}, "
    return (
        f"{one.study.name}, {one.study.regime} scaling. {held} was run on {scales} "
        f"{plural(unit.unit)}, each {repeated}. It took {format_duration(first.seconds)} at "
        f"K={first.nodes}, the smallest scale measured, and {format_duration(last.seconds)} at "
        f"K={last.nodes}: {faster if one.study.regime == 'strong' else ''}an efficiency of "
        f"{format_efficiency(last.efficiency)}."
    )


def _scaling_table(centre: Centre, one: Measured) -> Table:
    if one.allocation is None:
        rows = [
            {
                f"{plural(one.study.scale_unit.unit)} K": str(row.nodes),
                "time (s)": format_seconds(row.seconds),
                "efficiency": format_efficiency(row.efficiency),
            }
            for row in one.findings.scaling.rows
        ]
        return rows_table("Weak scaling", rows)
    steps = one.allocation.steps
    known = all(step.size is not None for step in steps)
    size = plural(centre.unit if known else one.study.scale_unit.unit)
    rows = []
    for step in steps:
        cells = _cells(step, one.allocation.smallest, known)
        rows.append({_TITLES[name] or size: cells[name] for name in centre.columns})
    return rows_table("Strong scaling", rows, left=("passes",))


def _cells(step: Step, smallest: int, known: bool) -> dict[ColumnName, str]:
    needed = "" if step.needed is None else f" ({step.needed:.2f} asked)"
    passes = {None: "", True: "yes", False: "no"}[step.passes]
    sure = "" if step.probability is None else f", {format_percent(step.probability)}"
    if step.excluded_because:
        passes, sure = "excluded", ""
    return {
        "size": f"{step.size:g}" if known and step.size is not None else str(step.nodes),
        "time": format_seconds(step.seconds),
        "speedup": format_speedup(step.speedup),
        "ideal": f"{step.nodes / smallest:g}",
        "efficiency": format_efficiency(step.efficiency),
        "factor": "" if step.factor is None else f"{step.factor:.3f}{needed}",
        "passes": f"{passes}{sure}",
    }


def _picture(one: Measured, number: int) -> list[Block]:
    """The speedups as a picture; the number keeps studies of one name apart."""
    drawn = draw("speedup", one.study, one.findings)
    if drawn is None:
        return []
    chart = sized(drawn.chart, "paper", titled=False)
    name = f"{file_stem(one.study.name)}-{one.study.regime}-{number}"
    return [Picture(name, drawn.caption, image(chart, "png"), image(chart, "pdf"))]


def _largest(
    centre: Centre, _: Sequence[Measured], strong: Measured | None, pictures: bool
) -> list[Block]:
    if strong is None or strong.allocation is None:
        return [_todo("no strong scaling was measured: the job size must be justified by you.")]
    found, unit = strong.allocation, strong.study.scale_unit
    rule = centre.rule
    if rule.kind == "none":
        last = found.steps[-1]
        return [
            Paragraph(
                f"The centre names no limit. The largest size measured is {unit.named(last.nodes)} "
                f"with an efficiency of {format_efficiency(last.efficiency)} over "
                f"{unit.named(found.smallest)}."
            ),
            _todo("the job sizes of production, and why."),
        ]
    asked = f"The rule: {_asked(centre, unit.named(found.smallest))}."
    excluded = _excluded(found)
    if found.largest is None:
        why = _no_largest(centre, strong, found)
        return [
            Paragraph(f"{asked} {why}{excluded}"),
            _todo("the job sizes of production, and why."),
        ]
    single = any(row.rounds == 1 for row in strong.findings.scaling.rows)
    noise = " A spread of 5 % is assumed for scales that ran once." if single else ""
    return [
        Paragraph(
            f"{asked} The largest size measured that passes, with all before it, is "
            f"{unit.named(found.largest)}; that it does has a probability of "
            f"{format_percent(found.probability or 0.0)}, given the spread of the runs.{noise}"
            f"{_beyond(found)}{excluded}"
        )
    ]


def _asked(centre: Centre, smallest: str) -> str:
    """The rule in words, tier by tier."""
    rule = centre.rule
    what = (
        "each doubling of the size cuts the time by"
        if rule.kind == "doubling"
        else f"the efficiency over {smallest} is"
    )
    tiers = sorted(rule.tiers, key=lambda tier: tier.up_to)
    units = plural(centre.unit)
    parts = [f"{tier.factor:g} or more up to {tier.up_to} {units}" for tier in tiers]
    if rule.factor is not None:
        parts.append(f"{rule.factor:g} or more{' beyond' if tiers else ''}")
    return f"{what} {', '.join(parts)}"


def _no_largest(centre: Centre, strong: Measured, found: Allocation) -> str:
    """Why no size passes."""
    unit = strong.study.scale_unit
    if len(found.steps) == 1:
        return f"Only {unit.named(found.smallest)} was measured, so no larger size is supported."
    first = found.steps[1]
    if first.passes is None:
        return (
            f"What it asks at {unit.named(first.nodes)} is unknown (the factor goes by the size in "
            f"{plural(centre.unit)}), so the largest size is unknown."
        )
    if first.passes:
        return "Every size that passes is excluded."
    if first.excluded_because:
        return (
            f"No size passes: {unit.named(first.nodes)} is excluded, and a size passes only with "
            "all before it."
        )
    return (
        f"No size passes: the first step, from {unit.named(found.smallest)} to "
        f"{unit.named(first.nodes)}, does not."
    )


def _excluded(found: Allocation) -> str:
    """The scales that the decision excludes, and why."""
    return "".join(
        f" K={step.nodes} is excluded: {step.excluded_because}."
        for step in found.steps
        if step.excluded_because
    )


def _beyond(found: Allocation) -> str:
    """What is not known about larger sizes."""
    if found.largest == found.steps[-1].nodes:
        return " No larger scale was measured, so the limit may lie beyond."
    after = next(step for step in found.steps if step.nodes > (found.largest or 0))
    return " What the rule requires beyond that is unknown." if after.passes is None else ""


def _resources(
    centre: Centre, _: Sequence[Measured], strong: Measured | None, pictures: bool
) -> list[Block]:
    uses = strong.allocation.uses if strong and strong.allocation else ()
    if not uses:
        return [_todo("the planned runs: --runs 'NAME=COUNT@K' makes this table.")]
    rows = [_use_row(use) for use in uses]
    total = sum(use.node_hours or 0.0 for use in uses)
    blocks: list[Block] = [rows_table("Resources", rows, left=("runs",))]
    if all(use.node_hours is not None for use in uses):
        words = f"Together {format_quantity(total)} node-hours: runs x T(K) x nodes, as measured."
        blocks.append(Paragraph(words))
    blocks.append(_todo("what each kind of run is for, and why so many of them are needed."))
    return blocks


def _use_row(use: Use) -> dict[str, str]:
    def shown(value: float | None) -> str:
        return "unknown" if value is None else format_quantity(value)

    bounds = (
        ""
        if use.node_hours_low is None or use.node_hours_high is None
        else f" ({format_quantity(use.node_hours_low)} to {format_quantity(use.node_hours_high)})"
    )
    return {
        "runs": use.job.name,
        "number": str(use.job.runs),
        "K": str(use.job.nodes),
        "T(K) of one": format_duration(use.seconds),
        "node-hours": shown(use.node_hours) + bounds,
        "core-hours": shown(use.core_hours),
        "GPU-hours": shown(use.gpu_hours),
    }


def _memory(
    centre: Centre, measured: Sequence[Measured], _: Measured | None, pictures: bool
) -> list[Block]:
    blocks: list[Block] = []
    for one in measured:
        most = max(
            (rank.usage.memory_bytes for run in one.study.good_runs for rank in run.ranks
             if rank.usage is not None),
            default=0,
        )  # fmt: skip
        if most:
            words = f"{one.study.name}: a rank held at most {format_bytes(most)} of memory."
            blocks.append(Paragraph(words))
        seconds = sum(run.stages.get("io", 0.0) for run in one.study.good_runs)
        if seconds:
            share = seconds / sum(run.seconds for run in one.study.good_runs)
            words = (
                f"{one.study.name}: reading and writing took {format_percent(share)} of the time."
            )
            blocks.append(Paragraph(words))
    if not blocks:
        blocks.append(_todo("memory per node was not recorded."))
    return [*blocks, _todo("files written, their number and size, and the storage asked for.")]


def _pop(
    centre: Centre, measured: Sequence[Measured], _: Measured | None, pictures: bool
) -> list[Block]:
    """Parallel efficiency and its parts at each K, of the studies that recorded their ranks."""
    blocks: list[Block] = []
    for one in measured:
        parts = pop_lines(one.findings.attribution.pop)
        blocks += [Paragraph(part) if isinstance(part, str) else part for part in parts]
    return blocks or [_todo("POP factors: measure with the stages of each rank.")]


def _code(
    centre: Centre, measured: Sequence[Measured], _: Measured | None, pictures: bool
) -> list[Block]:
    facts = {
        name: value
        for one in measured
        for run in one.study.good_runs[:1]
        for name, value in run.provenance.items()
        if name in ("command", "commit", "cpu", "cores", "mpi")
    }
    listed = "; ".join(f"{name}: {value}" for name, value in facts.items())
    known = [Paragraph(f"As measured: {listed}.")] if listed else []
    return [*known, _todo("the program, its methods and libraries, and the problem that was run.")]


def _author(
    centre: Centre, measured: Sequence[Measured], _: Measured | None, pictures: bool
) -> list[Block]:
    return [_todo("this part is not in a scaling study.")]


_PARTS: dict[Part, Callable[[Centre, Sequence[Measured], Measured | None, bool], list[Block]]] = {
    "scaling": _scaling,
    "largest": _largest,
    "resources": _resources,
    "memory": _memory,
    "pop": _pop,
    "code": _code,
    "author": _author,
}
