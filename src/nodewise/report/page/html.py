"""The report as one file: no network, readable from disk, on paper and in the dark.

Charts are drawn when the page is written; scripts only add values under the pointer and sliders.
The study itself is inside, so the page can be opened like a table and answer other questions.
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
from nodewise.base.units import capitalised
from nodewise.decide.compare import PricedComparison
from nodewise.decide.inputs import Question, ask, read_tables
from nodewise.report.charts.draw import compare, sized
from nodewise.report.charts.look import PALETTE, Definition, Figure
from nodewise.report.charts.panel import sliders, unmoved_inputs
from nodewise.report.findings import Findings
from nodewise.report.images import image
from nodewise.report.page.sections import (
    Section,
    cards,
    first_figures,
    labels,
    reasons,
    scales,
    sections,
)
from nodewise.report.tables import BAR, Table, provenance_table, rows_table
from nodewise.report.text import compare as compare_text
from nodewise.report.text import findings as text
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
    "third": "#cf9be0",
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
    "emulation": "#b5c266",
    "unexplained": "#9aa2aa",
}

_EMBEDDED = b'<script type="application/json" id="nodewise-study">'
# Attributes of an SVG that the page gives it, that have their default, or that scripts would need.
_NEEDLESS = re.compile(
    r' (?:(?:font-family|class|xmlns(?::xlink)?|version|role|aria-[a-z]+|pointer-events)="[^"]*"'
    r'|opacity="1"|stroke-width="1"|font-weight="normal")'
)
_LONG_NUMBER = re.compile(r"\d+\.\d{3,}")
FOLDER = ("nodewise.report", "page")  # of the templates


class _Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """What the page carries: the study and the question that it answers."""

    study: Study
    question: Question


def page(
    study: Study, findings: Findings, reproduce: str, vega: str = "", spec_text: str = ""
) -> str:
    """The page of a study; `reproduce` are the commands that make it again.

    `vega` is the script that adds values under the pointer and sliders; without it the page has no
    scripts.
    """
    decision = findings.decision
    embedded = _Embedded(study=study, question=findings.question)
    content = sections(study, findings)
    return _render(
        content,
        first_figures(study, findings),
        vega,
        name=study.name,
        kicker=f"{study.regime} scaling, {'measured' if decision.measured else 'from a model'}",
        labels=labels(study),
        verdict=text.verdict(decision),
        reasons=reasons(findings),
        cards=cards(findings),
        scales=scales(findings),
        checks=findings.checks,
        doubts=sorted(findings.doubts, key=lambda check: check.shown_verdict),
        provenance=provenance_table(study),
        reproduce_lead="The whole study is inside this file. These commands make the page "
        "again, or answer another question:",
        reproduce=reproduce,
        spec=spec_text,
        made=max((run.started for run in study.runs), default=""),
        sliders=sliders(findings.sliders),
        also=unmoved_inputs(findings),
        live=_inert(msgspec.json.encode(findings.sliders).decode()),
        study_json=_inert(msgspec.json.encode(embedded).decode()),
    )


def comparison_page(result: PricedComparison, reproduce: str, vega: str = "") -> str:
    """The page of two studies side by side."""
    times, money = compare_text.times_lines(result), compare_text.money_lines(result)[1:]
    scalings = (("first", result.first_scaling), ("second", result.second_scaling))
    parts = [
        Section(name="times", title="Times", rest=times, is_open=True),
        Section(name="cost", title="Cost and recommendation", rest=money, is_open=True),
        Section(name="ledger", title="Lost speedup", rest=compare_text.ledger_lines(result)),
        *(
            Section(name=name, title=scaling.name, rest=text.scaling_lines(scaling))
            for name, scaling in scalings
            if scaling is not None
        ),
    ]
    return _render(
        parts,
        [compare(result)],
        vega,
        name=f"{result.second} against {result.first}",
        kicker=f"{result.regime} scaling, two studies",
        verdict=compare_text.comparison_verdict(result),
        reasons=[f"{capitalised(compare_text.advice_verdict(result))}."],
        reproduce_lead="To make this page again:",
        reproduce=reproduce,
    )


def _render(parts: Sequence[Section], first: Sequence[Figure], vega: str, **content: Any) -> str:
    """The page around its content; what is not given is empty."""
    drawn = [*first, *(figure for part in parts for figure in part.figures)]
    pages = templates(FOLDER)
    charts = {figure.name: _on_page(figure) for figure in drawn} if vega else {}
    looks = [chart.pop("config") for chart in charts.values()][:1]  # all have the same
    optional = (
        "labels reasons cards scales checks doubts provenance spec made sliders also "
        "live study_json"
    )
    return pages.get_template("page.html.jinja").render(
        {**dict.fromkeys(optional.split(), ""), **content},
        sections=parts,
        first=first,
        version=__version__,
        css=Markup(with_colors(source(pages, "page.css"))),
        charts_json=_inert(json.dumps({"charts": charts, "looks": looks}, separators=(",", ":"))),
        vega=Markup(vega),
        script=Markup(source(pages, "page.js") if vega else ""),
    )


def _on_page(figure: Figure) -> Definition:
    return _colored(sized(figure.chart, "page", titled=False))


def svg(figure: Figure) -> Markup:
    """The chart as part of a page, which gives it its colours and its font."""
    drawn = image(_on_page(figure), "svg").decode()
    plain = re.sub(
        "<[^>]+>", lambda tag: _LONG_NUMBER.sub(_shorter, _NEEDLESS.sub("", tag[0])), drawn
    )
    return Markup(plain.replace("<svg", '<svg aria-hidden="true"', 1))


def _shorter(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}"


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


_FILTERS = {"strong": _strong, "bar": _bar, "numbers": _numbers, "svg": svg}


def _variable(name: str) -> str:
    return f"--chart-{name.replace(' ', '-')}"


def _colored(chart: Definition) -> Definition:
    """The chart with variables for colours, so that the page decides between light and dark."""
    encoded = json.dumps(chart)
    for name, color in PALETTE.items():
        encoded = encoded.replace(f'"{color}"', f'"var({_variable(name)})"')
    made: Definition = json.loads(encoded, parse_float=_six_digits)
    return made


def _six_digits(number: str) -> float:
    """A number as exact as a picture needs it."""
    return float(f"{float(number):.6g}")


def with_colors(css: str) -> str:
    """The style sheet with the colours of the charts, light and dark."""
    for place, palette in (("{{ light }}", PALETTE), ("{{ dark }}", DARK)):
        lines = "".join(f"  {_variable(name)}: {color};\n" for name, color in palette.items())
        css = css.replace(place, lines)
    return css
