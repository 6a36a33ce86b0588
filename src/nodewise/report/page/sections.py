"""The content of the page of a study; each statement appears once."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from nodewise.base.units import (
    capitalised,
    format_efficiency,
    format_money,
    format_percent,
    format_speedup,
)
from nodewise.decide.idle import Idling
from nodewise.report.charts.draw import FIRST, draw
from nodewise.report.charts.look import Figure
from nodewise.report.findings import Findings
from nodewise.report.page.content import Card, Section
from nodewise.report.tables import Table, cost_cell, failures_table, rubric_table, time_cell
from nodewise.report.text import findings as text
from nodewise.report.text.forecast import beyond_lines
from nodewise.report.text.pop import pop_lines
from nodewise.report.text.training import training_lines
from nodewise.study.study import Study

_SHOWN = ("work/s", "seconds", "speedup", "efficiency", "")  # in the table of every scale
_RENAMED = {"interval": "speedup interval"}


def first_figures(study: Study, findings: Findings) -> list[Figure]:
    """Speedup, cost and losses, as far as they can be drawn; none of an invalid measurement."""
    return [] if _is_invalid(findings) else _drawn(FIRST, study, findings)


def _is_invalid(findings: Findings) -> bool:
    return findings.decision.validity.state == "invalid"


def reasons(findings: Findings) -> list[str]:
    """Why this answer, and how sure it is; an invalid measurement has none."""
    if _is_invalid(findings):
        return []
    because = capitalised(findings.decision.recommended.because)
    return [f"{because}.", *text.certainty_lines(findings.decision)]


def _drawn(names: Iterable[str], study: Study, findings: Findings) -> list[Figure]:
    found = (draw(name, study, findings) for name in names)
    return [figure for figure in found if figure is not None]


def labels(study: Study) -> list[str]:
    """What a reader must know about the nodes."""
    found = []
    if any(run.provenance.get("emulated") for run in study.runs):
        found.append("rehearsal: emulated nodes")
    if any(run.provenance.get("oversubscribed") for run in study.runs):
        found.append("more workers than cores")
    return found


def cards(findings: Findings) -> list[Card]:
    """The alternatives and what the answer is worth."""
    decision, scaling = findings.decision, findings.scaling
    chosen = decision.recommended.nodes
    if chosen is None:
        return []
    row, measured = decision.row(chosen), scaling.row(chosen)
    bounds = ""
    if measured.speedup_low is not None and measured.speedup_high is not None:
        low, high = format_speedup(measured.speedup_low), format_speedup(measured.speedup_high)
        bounds = f"between {low} and {high}"
    found = [
        Card(f"Speedup at K={chosen}", f"{format_speedup(row.speedup)}x", bounds),
        Card(f"Efficiency at K={chosen}", format_efficiency(row.efficiency), _threshold(findings)),
    ]
    if row.quality is not None and decision.quality is not None:
        held = {"held": "held", "excluded": "not held at every K", "undecided": "undecided"}
        found.append(Card("Quality", format_efficiency(row.quality), held[decision.quality.state]))
    for one in decision.deployments:
        at = decision.row(one.nodes)
        remark = f"{cost_cell(at, decision)}, {time_cell(at, decision)}"
        found.append(Card(capitalised(one.kind), f"K={one.nodes}", remark))
    if findings.attribution.rows[-1].loses:
        cause = findings.attribution.dominant_cause or "not identifiable"
        found.append(Card("Main bottleneck", cause, f"at K={findings.attribution.nodes}"))
    return found


def _threshold(findings: Findings) -> str:
    first = findings.scaling.base_nodes
    relative = "" if first == 1 else f", relative to K={first}"
    return f"threshold {findings.scaling.bend.threshold:.2f}{relative}"


def scales(findings: Findings) -> text.Report:
    """Every scale in a table that begins with its mark, and how to read it."""
    decision = findings.decision
    if _is_invalid(findings):
        return []
    table = rubric_table(decision)
    if "" in table.titles:
        at = table.titles.index("")
        order = [at, *(other for other in range(len(table.titles)) if other != at)]
        table = msgspec.structs.replace(
            table,
            name="Every scale",
            titles=tuple(table.titles[place] for place in order),
            rows=tuple(
                tuple(row[place].removeprefix("<- ") for place in order) for row in table.rows
            ),
        )
    return [table, text.rubric_caption(decision), *text.excluded(decision)]


def sections(study: Study, findings: Findings) -> list[Section]:
    """Runs, ranks, causes, cost, forecast; what a caption or a check says is left out."""
    decision, attribution = findings.decision, findings.attribution
    said = " ".join([text.verdict(decision), *(check.evidence for check in findings.checks)])
    said += " ".join(f"{one.caption} {one.reading}" for one in first_figures(study, findings))

    def part(name: str, title: str, charts: Sequence[str], lines: text.Report, **more: Any) -> None:
        nonlocal said
        drawn = [
            msgspec.structs.replace(
                figure, reading="" if figure.reading in said else figure.reading
            )
            for figure in _drawn(charts, study, findings)
        ]
        said += " ".join(f"{figure.caption} {figure.reading}" for figure in drawn)
        own = [line.removeprefix(f"**{study.name}**: ") if isinstance(line, str) else line
               for line in lines]  # fmt: skip
        kept = [line for line in _unsaid(own, said) if line]
        if drawn or kept:
            made.append(Section(name=name, title=title, figures=drawn, rest=kept, **more))

    made: list[Section] = []
    failures = failures_table(study)
    broke: text.Report = ["**Failed scales**", failures] if failures else []
    measured = text.scaling_lines(findings.scaling)
    if not _is_invalid(findings):
        measured = [_runs(line) for line in measured]
    part("runs", "Runs and variation", ("efficiency", "repeats"), [*measured, *broke])
    if _is_invalid(findings):
        return made
    part("ranks", "Stages and idle time", ("timeline", "ranks", "stages"), _idle_lines(findings))
    attributed = text.attribution_lines(attribution, decision.recommended.nodes)
    part("causes", "Causes of lost speedup", ("roofline",), attributed)
    part("pop", "POP efficiencies", (), pop_lines(attribution.pop))
    currency = decision.price.currency
    part("training", "Training", (), training_lines(findings.training, currency))
    part("cost", "Cost and payment", ("pareto", "payment", "sensitivity", "energy"),
         text.decision_lines(decision, None), has_sliders=True)  # fmt: skip
    if findings.forecast is not None:
        priced = not any(run.rate_per_hour for run in study.runs)
        part("forecast", "Forecast", ("forecast",), beyond_lines(findings.forecast, priced))
    return made


def _runs(line: str | Table) -> str | Table:
    """The table of times without what the table of every scale has."""
    if isinstance(line, str) or "rounds" not in line.titles:
        return line
    shown = [at for at, title in enumerate(line.titles) if title not in _SHOWN]
    return msgspec.structs.replace(
        line,
        name="Runs of every scale",
        titles=tuple(_RENAMED.get(line.titles[at], line.titles[at]) for at in shown),
        rows=tuple(tuple(row[at] for at in shown) for row in line.rows),
    )


def _idle_lines(findings: Findings) -> text.Report:
    """What the nodes cost while they wait."""
    found: Idling | None = findings.idling
    if found is None:
        return []
    currency = findings.decision.price.currency
    paid, whole = (format_money(one, currency) for one in (found.cost, found.run_cost))
    return [
        f"At K={found.nodes} nodes are idle for {format_percent(found.share)} of a run, which "
        f"costs **{paid}** of {whole}."
    ]


def _unsaid(lines: text.Report, said: str) -> text.Report:
    """The lines without the sentences that a caption has already."""
    known = _plain(said)

    def unsaid(line: str) -> str:
        sentences = re.split(r"(?<=\.) (?=[A-Z*])", line)
        kept = [one for one in sentences if len(one) < 20 or _plain(one) not in known]
        return " ".join(kept)

    return [unsaid(line) if isinstance(line, str) else line for line in lines]


def _plain(line: str) -> str:
    """A line without emphasis, to compare it with another."""
    return line.replace("**", "").strip(" .").lower()
