"""The report as one file: no network, readable from disk, on paper and in the dark.

The study itself is inside, so that the page can be read back, checked and decided anew.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from nodewise import __version__
from nodewise.base.errors import DataError
from nodewise.base.units import (
    capitalised,
    format_efficiency,
    format_percent,
    format_speedup,
)
from nodewise.decide.compare import PricedComparison
from nodewise.decide.inputs import Question, ask, read_tables
from nodewise.report.charts.draw import compare, figures, sized
from nodewise.report.charts.look import PALETTE, Definition, Figure
from nodewise.report.charts.panel import sliders, unmoved_inputs, what_if
from nodewise.report.findings import Findings
from nodewise.report.tables import (
    BAR,
    Table,
    cost_cell,
    failures_table,
    provenance_table,
    rows_table,
    rubric_table,
    time_cell,
)
from nodewise.report.text import compare as compare_text
from nodewise.report.text import findings as text
from nodewise.report.text.forecast import beyond_lines
from nodewise.study.question import split
from nodewise.study.study import Study

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

_EMBEDDED = b'<script type="application/json" id="nodewise-study">'
FOLDER = ("nodewise.report", "page")  # of the templates
_MEASURE = ("speedup", "efficiency", "repeats")
_ATTRIBUTE = ("ledger", "stages", "timeline", "flow", "roofline")
_BEYOND = "forecast"


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page: what it says, what it shows, and the rest for those who read on."""

    name: str
    title: str
    lead: text.Report = []
    figures: Sequence[Figure] = ()
    rest: text.Report = []
    live: bool = False  # whether prices can be tried here


class _Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """What the page carries: the study and the question that it answers."""

    study: Study
    question: Question


def page(study: Study, findings: Findings, reproduce: str, vega: str, spec_text: str = "") -> str:
    """The page of a study; `reproduce` are the commands that make it again, `vega` draws it."""
    decision = findings.decision
    embedded = _Embedded(study=study, question=findings.question)
    return _render(
        _sections(study, findings),
        {"what-if": what_if(decision)},
        vega,
        name=study.name,
        kicker=f"{study.regime} scaling, {'measured' if decision.measured else 'from a model'}",
        labels=_labels(study),
        verdict=text.verdict(decision),
        because=capitalised(decision.recommended.because),
        certainty=text.certainty_lines(decision),
        claim=decision.claim,
        cards=_cards(findings),
        checks=findings.checks,
        doubts=sorted(findings.doubts, key=lambda check: check.shown_verdict),
        provenance=provenance_table(study),
        reproduce_lead="The whole study is inside this file. To make it again, and to decide anew "
        "with other prices:",
        reproduce=reproduce,
        spec=spec_text,
        made=max((run.started for run in study.runs), default=""),
        sliders=sliders(findings.sliders),
        also=unmoved_inputs(findings),
        live=_inert(msgspec.json.encode(findings.sliders).decode()),
        study_json=_inert(msgspec.json.encode(embedded).decode()),
    )


def comparison_page(result: PricedComparison, reproduce: str, vega: str) -> str:
    """The page of two studies side by side."""
    times, money = compare_text.times_lines(result), compare_text.money_lines(result)[1:]
    scalings = (("first", result.first_scaling), ("second", result.second_scaling))
    sections = [
        Section(name="times", title="Times", figures=[compare(result)], rest=times),
        Section(name="cost", title="Cost and recommendation", rest=money),
        Section(name="ledger", title="Lost speedup", rest=compare_text.ledger_lines(result)),
        *(
            Section(name=name, title=scaling.name, rest=text.scaling_lines(scaling))
            for name, scaling in scalings
            if scaling is not None
        ),
    ]
    return _render(
        sections,
        {},
        vega,
        name=f"{result.second} against {result.first}",
        kicker=f"{result.regime} scaling, two studies",
        verdict=compare_text.comparison_verdict(result),
        because=capitalised(compare_text.advice_verdict(result)),
        reproduce_lead="To make this page again:",
        reproduce=reproduce,
    )


def _render(
    sections: Sequence[Section], charts: dict[str, Definition], vega: str, **content: Any
) -> str:
    """The page around its content, with the charts of its sections; what is not given is empty."""
    charts |= {figure.name: figure.chart for part in sections for figure in part.figures}
    pages = templates(FOLDER)
    css, *scripts = (source(pages, name) for name in ("page.css", "draw.js", "page.js"))
    specs = {name: colored(sized(chart, "page", titled=False)) for name, chart in charts.items()}
    optional = (
        "labels because certainty claim cards checks doubts provenance spec made sliders also live "
        "study_json"
    )
    return pages.get_template("page.html.jinja").render(
        {**dict.fromkeys(optional.split(), ""), **content},
        sections=sections,
        version=__version__,
        css=Markup(with_colors(css)),
        charts_json=_inert(json.dumps(specs)),
        vega=Markup(vega),
        script=Markup("".join(scripts)),
    )


def templates(*folders: tuple[str, str]) -> jinja2.Environment:
    """Those in these folders of packages; what is not given to one is an error."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(*folder) for folder in folders]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= _FILTERS
    return made


def source(pages: jinja2.Environment, name: str) -> str:
    """A file beside the templates, as it is."""
    assert pages.loader is not None
    return pages.loader.get_source(pages, name)[0]


def study_of_page(content: bytes) -> tuple[Study, Question]:
    """The study inside a page, and the question that the page answers."""
    _, begun, rest = content.partition(_EMBEDDED)
    inside, ended, _ = rest.partition(b"</script>")
    if not begun or not ended:
        raise DataError("The page holds no study.", "Name a page that nodewise report made.")
    try:
        embedded = msgspec.json.decode(inside, type=_Embedded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(
            f"The study inside the page is damaged: {error}.", "Make the page anew from its study."
        ) from None
    return _with_old_question(embedded, msgspec.json.decode(inside))


def _with_old_question(embedded: _Embedded, raw: dict[str, Any]) -> tuple[Study, Question]:
    """Version 0.1 kept the question in the spec, and its gates at named K nowhere else."""
    study, question = embedded.study, embedded.question
    _, asked = split(raw["study"].get("spec") or {})
    if study.asked or not asked:
        return study, question
    gates = asked.get("gates", {})
    named = {key: limits for key, limits in gates.items() if isinstance(limits, dict)}
    question = ask(question, read_tables({"gates": named}))
    return msgspec.structs.replace(study, asked=asked), question


def _inert(encoded: str) -> Markup:
    """JSON that cannot end the script element around it."""
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


def _numbers(figure: Figure) -> Table:
    """The numbers behind a chart, to six digits."""
    words = {name for row in figure.rows for name, value in row.items() if isinstance(value, str)}
    rows = [
        {name: f"{cell:.6g}" if isinstance(cell, float) else cell for name, cell in row.items()}
        for row in figure.rows
    ]
    return rows_table(figure.title, rows, left=words)


_FILTERS = {"strong": _strong, "bar": _bar, "numbers": _numbers}


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
        low, high = format_speedup(measured.speedup_low), format_speedup(measured.speedup_high)
        between = f"{low} to {high}"
    first = scaling.rows[0]
    relative = "" if first.nodes == 1 else f", relative to K={first.nodes}"
    cards = [
        ("Run on", decision.unit.named(chosen), f"of {scaling.rows[-1].nodes}"),
        (
            "Speedup" if scaling.regime == "strong" else "Scaled speedup",
            f"{format_speedup(row.speedup)}x",
            between,
        ),
        ("Throughput" if decision.is_rate else "Time", time_cell(row, decision),
         f"{time_cell(decision.row(first.nodes), decision)} at K={first.nodes}"),
        ("Efficiency", format_efficiency(row.efficiency),
         f"threshold {scaling.bend.threshold:.2f}{relative}"),
        (f"Cost of a million {decision.work_unit}" if decision.is_rate else "Cost of a run",
         cost_cell(row, decision), decision.price.source),
    ]  # fmt: skip
    if row.quality is not None and decision.quality is not None:
        held = {"held": "held", "excluded": "not held at every K", "undecided": "undecided"}[
            decision.quality.state
        ]
        cards.append(("Quality", format_efficiency(row.quality), held))
    lost = next((r for r in findings.attribution.rows if r.nodes > chosen), None)
    lost = lost or findings.attribution.rows[-1]
    if lost.loses:
        where = "Most is lost to" if chosen == scaling.rows[-1].nodes else "Lost beyond it to"
        cards.append((where, decision.cause or "not identifiable", ""))
    bound = findings.attribution.bound
    if bound is not None:
        cards.append(("Of the time", f"{format_percent(bound.share)} {bound.cause}", "at every K"))
    return cards


def _sections(study: Study, findings: Findings) -> list[Section]:
    """The rubric; measure, attribute, decide in this order; at last the scales nobody ran."""
    decision, attribution = findings.decision, findings.attribution
    drawn = {figure.name: figure for figure in figures(study, findings)}
    others = [name for name in drawn if name not in (*_MEASURE, *_ATTRIBUTE, _BEYOND)]
    measured = text.scaling_lines(findings.scaling)
    attributed = text.attribution_lines(attribution, decision.recommended.nodes)
    failures = failures_table(study)
    broke: text.Report = ["**Where scaling broke**", failures] if failures else []

    def part(name: str, title: str, wanted: Sequence[str] = (), **content: Any) -> Section:
        own = [drawn[one] for one in wanted if one in drawn]
        return Section(name=name, title=title, figures=own, **content)

    rubric = [rubric_table(decision), text.rubric_caption(decision), *text.excluded(decision)]
    decided = text.decision_lines(decision, attribution)
    sections = [
        part("rubric", "Rubric", lead=[*rubric, *broke]),
        part("measure", "Measure", _MEASURE, lead=measured[:1], rest=measured[1:]),
        part("attribute", "Attribute", _ATTRIBUTE, lead=attributed[:1], rest=attributed[1:]),
        part("decide", "Decide", others, rest=decided, live=True),
    ]
    if findings.forecast is not None:
        priced = not any(run.rate_per_hour for run in study.runs)
        ahead = beyond_lines(findings.forecast, priced)
        sections.append(part("beyond", "Beyond what was measured", [_BEYOND], rest=ahead))
    return sections
