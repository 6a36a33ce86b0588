"""The report as one file: no network, readable from disk, on paper and in the dark.

The study itself is inside, so that the page can be read back, checked and decided anew.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec
import numpy as np
from markupsafe import Markup, escape

from nodewise import __version__
from nodewise.candidates import Needs
from nodewise.compare import Comparison
from nodewise.decide import DecisionRow
from nodewise.errors import DataError
from nodewise.findings import Findings, Question
from nodewise.forecast import forecast
from nodewise.prices import NODE_HOURS
from nodewise.question import INPUTS
from nodewise.report import text
from nodewise.report.charts import PALETTE, Definition, Figure, compare, figures, sized
from nodewise.report.charts_live import what_if
from nodewise.report.forecasts import beyond_lines
from nodewise.report.tables import (
    BAR,
    Table,
    failures_table,
    figure_table,
    provenance_table,
    rubric_table,
)
from nodewise.scaling import Timings, timings
from nodewise.study import Study
from nodewise.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_money,
    format_quantity,
    format_speedup,
)

# The charts' colours where the page is dark; see PALETTE for what each is for.
DARK: dict[str, str] = {
    "ink": "#e8ebee",
    "muted": "#a8b1ba",
    "grid": "#2f373f",
    "paper": "#14181c",
    "measured": "#5ab0ee",
    "predicted": "#f2994a",
    "second": "#f0a35e",
    "third": "#3fc9a0",
    "chosen": "#4fd0a5",
    "refused": "#ff8a80",
    "compute": "#4aa3df",
    "communication": "#f07f3c",
    "io": "#2bbf95",
    "serial": "#d48cc0",
    "idle": "#6b747d",
    "unrecorded": "#444c54",
    "imbalance": "#f0b429",
    "slow node": "#8fd0f5",
    "jitter": "#e6d53a",
    "foreign": "#b98a5e",
    "overhead": "#a793e0",
    "unexplained": "#9aa2aa",
}

_EMBEDDED = re.compile(
    rb'<script type="application/json" id="nodewise-study">(.*?)</script>', re.DOTALL
)
_MEASURE = ("speedup", "efficiency", "repeats")
_ATTRIBUTE = ("ledger", "stages", "timeline", "flow", "roofline")
_BEYOND = ("forecast",)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page: what it says, what it shows, and the rest for those who read on."""

    name: str
    title: str
    lead: text.Report
    figures: Sequence["_Drawing"]
    rest: text.Report
    live: bool = False  # whether prices can be tried here


class _Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as the template shows it."""

    name: str
    title: str
    caption: str
    description: str
    table: Table


class _Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """What the page carries: the study and the question that it answers."""

    study: Study
    question: Question


def page(study: Study, findings: Findings, reproduce: str, vega: str, spec_text: str = "") -> str:
    """The page of a study; `reproduce` are the commands that make it again, `vega` draws it."""
    decision = findings.decision
    drawn = {figure.name: figure for figure in figures(study, findings)}
    live = _live(study, findings)
    embedded = _Embedded(study=study, question=findings.question)
    return _render(
        charts={**_charts(drawn.values()), "what-if": what_if(decision)},
        vega=vega,
        name=study.name,
        kicker=f"{study.regime} scaling, {'measured' if decision.measured else 'from a model'}",
        labels=_labels(study),
        verdict=text.verdict(decision),
        because=capitalised(decision.recommended.because),
        claim=decision.claim,
        cards=_cards(findings),
        sections=[
            _rubric(study, findings),
            *_sections(findings, drawn),
            *_beyond(study, findings, drawn),
        ],
        checks=findings.checks,
        provenance=provenance_table(study),
        reproduce_lead="The whole study is inside this file. To make it again, and to decide anew "
        "with other prices:",
        reproduce=reproduce,
        spec=spec_text,
        made=max((run.started for run in study.runs), default=""),
        sliders=_sliders(live),
        also=_also(findings),
        live=_inert(json.dumps(live)),
        study_json=_inert(msgspec.json.encode(embedded).decode()),
    )


def comparison_page(result: Comparison, reproduce: str, vega: str) -> str:
    """The page of two studies side by side."""
    figure = compare(result)
    lines = text.comparison_report(result)
    section = Section(
        name="difference",
        title="The difference",
        lead=[],
        figures=[_drawing(figure)],
        rest=lines[2:],
    )
    return _render(
        charts=_charts([figure]),
        vega=vega,
        name=f"{result.second} against {result.first}",
        kicker=f"{result.regime} scaling, two studies",
        verdict=text.comparison_verdict(result),
        sections=[section, *_two_scalings(result)],
        reproduce_lead="To make this page again:",
        reproduce=reproduce,
    )


def _charts(drawn: Iterable[Figure]) -> dict[str, Definition]:
    return {figure.name: figure.chart for figure in drawn}


def _render(charts: Mapping[str, Definition], vega: str, **content: Any) -> str:
    """The page around its content; what is not given stays empty."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nodewise.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    source = environment.loader
    assert source is not None
    css, script = (source.get_source(environment, f"page.{kind}")[0] for kind in ("css", "js"))
    specs = {name: colored(sized(chart, "page", titled=False)) for name, chart in charts.items()}
    optional = ("labels", "because", "claim", "cards", "checks", "provenance", "spec", "made")
    empty = dict.fromkeys([*optional, "sliders", "also", "live", "study_json"], "")
    return environment.get_template("page.html.jinja").render(
        {**empty, **content},
        version=__version__,
        css=Markup(with_colors(css)),
        charts_json=_inert(json.dumps(specs)),
        vega=Markup(vega),
        script=Markup(script),
    )


def study_of_page(content: bytes) -> tuple[Study, Question]:
    """The study inside a page, and the question that the page answers."""
    found = _EMBEDDED.search(content)
    if found is None:
        raise DataError("The page holds no study.", "Name a page that nodewise report made.")
    try:
        embedded = msgspec.json.decode(found[1], type=_Embedded)
    except msgspec.DecodeError as error:
        raise DataError(
            f"The study inside the page is damaged: {error}.", "Make the page anew from its study."
        ) from None
    return embedded.study, embedded.question


def _inert(encoded: str) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028"))


def _strong(line: str) -> Markup:
    """A line with **words** made strong; everything else is text."""
    parts = re.split(r"\*\*", line.strip())
    return Markup("").join(
        Markup("<strong>{}</strong>").format(part) if at % 2 else escape(part)
        for at, part in enumerate(parts)
    )


def _bar(cell: str) -> Markup | str:
    """A bar of the terminal as one that the page draws."""
    if not cell or cell.strip(BAR):
        return cell
    return Markup('<span class="bar" style="width:{}em"></span>').format(0.5 * len(cell))


FILTERS = {"strong": _strong, "bar": _bar, "said_verdict": text.said_verdict}


def _variable(name: str) -> str:
    return f"--chart-{name.replace(' ', '-')}"


def colored(chart: Definition) -> Definition:
    """The chart with variables for colours, so that the page decides between light and dark."""
    encoded = json.dumps(chart)
    for name, color in PALETTE.items():
        encoded = encoded.replace(f'"{color}"', f'"var({_variable(name)})"')
    made: Definition = json.loads(encoded)
    return made


def with_colors(css: str) -> str:
    """The style sheet with the colours of the charts, light and dark."""
    for place, palette in (("{{ light }}", PALETTE), ("{{ dark }}", DARK)):
        lines = "".join(f"  {_variable(name)}: {color};\n" for name, color in palette.items())
        css = css.replace(place, lines)
    return css


def _labels(study: Study) -> list[str]:
    labels = []
    if any(run.provenance.get("emulated") for run in study.runs):
        labels.append("rehearsal: emulated nodes")
    if any(run.provenance.get("oversubscribed") for run in study.runs):
        labels.append("more workers than cores")
    return labels


def _cards(findings: Findings) -> list[tuple[str, str, str]]:
    """What a reader looks for first, at the recommended scale."""
    decision, scaling = findings.decision, findings.scaling
    chosen = decision.recommended.nodes
    if chosen is None:
        return []
    row, measured = decision.row(chosen), scaling.row(chosen)
    between = ""
    if measured.speedup_low is not None and measured.speedup_high is not None:
        between = (
            f"{format_speedup(measured.speedup_low)} to {format_speedup(measured.speedup_high)}"
        )
    first = scaling.rows[0]
    cards = [
        ("Run on", f"{chosen} node{'s' if chosen > 1 else ''}", f"of {scaling.rows[-1].nodes}"),
        (
            "Speedup" if scaling.regime == "strong" else "Scaled speedup",
            f"{format_speedup(row.speedup)}x",
            between,
        ),
        ("Time", format_duration(row.seconds),
         f"{format_duration(first.seconds)} at K={first.nodes}"),
        ("Efficiency", format_efficiency(row.efficiency),
         f"threshold {scaling.bend.threshold:.2f}"),
        ("Cost of a run", format_money(row.cost, decision.price.currency), decision.price.source),
    ]  # fmt: skip
    if row.quality is not None and decision.quality is not None:
        held = "held" if decision.quality.held else "not held at every K"
        cards.append(("Quality", format_efficiency(row.quality), held))
    if decision.cause is not None:
        where = "Most is lost to" if chosen == scaling.rows[-1].nodes else "Lost beyond it to"
        cards.append((where, decision.cause, ""))
    return cards


def _rubric(study: Study, findings: Findings) -> Section:
    """Every scale in one table, what broke, and what to know before trusting it."""
    decision = findings.decision
    failures = failures_table(study)
    broke: text.Report = ["**Where scaling broke**", failures] if failures else []
    return Section(
        name="rubric",
        title="Rubric",
        lead=[
            rubric_table(decision),
            text.rubric_caption(decision),
            *text.excluded(decision),
            *broke,
            *(f"note: {note}" for note in text.notes_of(findings)),
        ],
        figures=[],
        rest=[],
    )


def _two_scalings(result: Comparison) -> list[Section]:
    return [
        Section(name=name, title=scaling.name, lead=[], figures=[],
                rest=text.scaling_lines(scaling))
        for name, scaling in (("first", result.first_scaling), ("second", result.second_scaling))
    ]  # fmt: skip


def _sections(findings: Findings, figures: dict[str, Figure]) -> list[Section]:
    """Measure, attribute, decide: in this order."""
    parts = [
        ("measure", "Measure", text.scaling_lines(findings.scaling), _MEASURE),
        ("attribute", "Attribute", text.attribution_lines(findings.attribution), _ATTRIBUTE),
        ("decide", "Decide", text.decision_lines(findings.decision),
         [name for name in figures if name not in (*_MEASURE, *_ATTRIBUTE, *_BEYOND)]),
    ]  # fmt: skip
    return [
        Section(
            name=name,
            title=title,
            lead=[] if name == "decide" else lines[:1],
            figures=[_drawing(figures[one]) for one in wanted if one in figures],
            rest=lines if name == "decide" else lines[1:],
            live=name == "decide",
        )
        for name, title, lines, wanted in parts
    ]


def _beyond(study: Study, findings: Findings, figures: dict[str, Figure]) -> list[Section]:
    """Scales nobody ran, apart from all that was measured; none where too few were."""
    if "forecast" not in figures:
        return []
    question = findings.question
    priced = not any(run.rate_per_hour for run in study.runs)
    return [
        Section(
            name="beyond",
            title="Beyond what was measured",
            lead=[],
            figures=[_drawing(figures["forecast"])],
            rest=beyond_lines(forecast(study, question), priced),
        )
    ]


def _drawing(figure: Figure) -> _Drawing:
    return _Drawing(
        name=figure.name,
        title=figure.title,
        caption=figure.caption,
        description=figure.description,
        table=figure_table(figure.title, figure.rows),
    )


def _live(study: Study, findings: Findings) -> dict[str, Any]:
    """What the page needs to decide anew when the reader moves a price."""
    decision, question = findings.decision, findings.question
    rows, price, needs = decision.rows, decision.price, question.needs
    hours = [(row.seconds + price.startup_seconds) / 3600 for row in rows]
    times = timings(study, question.center)
    work = [run.cost_per_work for run in rows]
    grown = [row.nodes / rows[0].nodes if study.regime == "weak" else 1.0 for row in rows]
    if all(one is not None for one in work):
        done = [row.cost / one for row, one in zip(rows, work, strict=True) if one]
        grown = [one / done[0] for one in done]
    longest = question.ranges.get("startup")
    return {
        "nodes": [row.nodes for row in rows],
        "seconds": [row.seconds for row in rows],
        "sure_seconds": _sure_seconds(times, needs.deadline_confidence),
        "speedup": [row.speedup for row in rows],
        "efficiency": [row.efficiency for row in rows],
        "relative_work": grown,
        "refused": [_is_refused(row, needs) for row in rows],
        "rate_per_hour": [
            (row.bill.compute + row.bill.startup) / spent if spent else 0.0
            for row, spent in zip(rows, hours, strict=True)
        ],
        "startup_seconds": price.startup_seconds,
        "longest_startup_seconds": price.startup_seconds
        if longest is None or times.draws is None
        else longest.high,
        "storage_per_hour": price.storage_per_hour or 0.0,
        "egress": price.egress or 0.0,
        "billing_unit_seconds": price.billing_unit_seconds,
        "billing_minimum_seconds": price.billing_minimum_seconds,
        "value_per_hour": needs.value_per_hour,
        "budget": needs.budget,
        "currency": price.currency,
        "asked": {
            "price": 1.0 if price.currency == NODE_HOURS else price.per_node_hour,
            "fixed": price.fixed_per_hour,
            "deadline": needs.deadline_seconds or 0.0,
            "threshold": needs.threshold,
        },
    }  # fmt: skip


def _is_refused(row: DecisionRow, needs: Needs) -> bool:
    """Whether a scale fails a gate that no price moves: of quality, energy or carbon."""
    drifts = bool(row.excluded_because and "quality" in row.excluded_because)
    budgets = (
        (row.energy_joules, needs.energy_budget_joules),
        (row.grams, needs.carbon_budget_grams),
    )
    return drifts or any(
        spent is not None and most is not None and spent > most for spent, most in budgets
    )


def _also(findings: Findings) -> str:
    """What the sliders leave as it is, and still holds."""
    question, price = findings.question, findings.decision.price
    needs, currency = question.needs, price.currency
    amounts = {
        "start-up": price.startup_seconds and format_duration(price.startup_seconds),
        "storage": price.storage_per_hour and f"{format_money(price.storage_per_hour, currency)}/h",
        "egress": price.egress and f"{format_money(price.egress, currency)} a run",
        "an hour of waiting": needs.value_per_hour and format_money(needs.value_per_hour, currency),
        "at most": needs.budget is not None and format_money(needs.budget, currency),
        "energy at most": needs.energy_budget_joules
        and f"{format_quantity(needs.energy_budget_joules)} J ({findings.decision.energy.basis})",
        "carbon at most": needs.carbon_budget_grams
        and f"{format_quantity(needs.carbon_budget_grams)} g CO2e",
    }
    said = [f"{name} {amount}" for name, amount in amounts.items() if amount]
    ranges = [
        f"{INPUTS[name].title} {INPUTS[name].form(given.low, currency)} to "
        f"{INPUTS[name].form(given.high, currency)}"
        for name, given in question.ranges.items()
        if not INPUTS[name].on_spot
    ]
    lines = [f"Also counted: {', '.join(said)}."] if said else []
    lines += [f"Known as ranges, taken at their centres: {', '.join(ranges)}."] if ranges else []
    return " ".join(lines)


def _sure_seconds(times: Timings, confidence: float) -> list[float]:
    """The time that a run of each scale holds with the confidence asked for."""
    if times.draws is None:
        return [float(seconds) for seconds in times.seconds]
    sure = []
    for at, samples in enumerate(times.samples):
        runs = np.sort((times.draws[:, at, None] * samples[None, :] / times.seconds[at]).ravel())
        sure.append(float(runs[max(int(np.ceil(confidence * len(runs))) - 1, 0)]))
    return sure


def _sliders(live: dict[str, Any]) -> list[tuple[str, str, str, float, float]]:
    """Name, title, unit, largest value and step of each."""
    price = live["asked"]["price"] or max(live["rate_per_hour"]) / max(live["nodes"]) or 1.0
    fixed = max(live["asked"]["fixed"], 10 * price)
    longest = 2 * max(*live["sure_seconds"], live["asked"]["deadline"])
    money = live["currency"]
    return [
        ("price", "Price of a node", f"{money}/h", 4 * price, 4 * price / 400),
        ("fixed", "Overhead beside the nodes", f"{money}/h", 2 * fixed, 2 * fixed / 400),
        ("deadline", "Deadline (0: none)", "s", longest, longest / 400),
        ("threshold", "Least efficiency", "", 1.0, 0.01),
    ]
