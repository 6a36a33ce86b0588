"""A page as one HTML file: no network, readable from disk, on paper and in the dark.

One template holds every kind of page. Charts are drawn when the page is written; scripts only add
values under the pointer and sliders.
"""

import json
import re
from typing import Any

import jinja2
from markupsafe import Markup, escape

from nodewise import __version__
from nodewise.report.charts.draw import sized
from nodewise.report.charts.look import PALETTE, Definition, Figure
from nodewise.report.page.content import Page
from nodewise.report.page.vega import chart_svg
from nodewise.report.tables import BAR, Table, rows_table

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

# Attributes of an SVG that the page gives it, that have their default, or that scripts would need.
_NEEDLESS = re.compile(
    r' (?:(?:font-family|class|xmlns(?::xlink)?|version|role|aria-[a-z]+|pointer-events)="[^"]*"'
    r'|opacity="1"|stroke-width="1"|font-weight="normal")'
)
_LONG_NUMBER = re.compile(r"\d+\.\d{3,}")
FOLDER = ("nodewise.report", "page")  # of the templates


def render(page: Page, vega: str = "") -> str:
    """The HTML of a page.

    `vega` is what draws values under the pointer and sliders (`vega_bundle`); without it the page
    has no scripts.
    """
    drawn = [*page.figures, *(figure for part in page.sections for figure in part.figures)]
    charts = {figure.name: _on_page(figure.chart) for figure in drawn} if vega else {}
    looks = [chart.pop("config") for chart in charts.values()][:1]  # all have the same
    pages = templates(FOLDER)
    return pages.get_template("page.html.jinja").render(
        page=page,
        doubts=sorted(
            (check for check in page.checks if check.verdict in ("fail", "warn")),
            key=lambda check: check.shown_verdict,
        ),
        can_be_linear=any(map(is_over_k, drawn)),
        version=__version__,
        css=Markup(with_colors(source(pages, "page.css"))),
        charts_json=_inert(json.dumps({"charts": charts, "looks": looks}, separators=(",", ":"))),
        vega=Markup(vega),
        script=Markup(source(pages, "page.js") if vega else ""),
    )


def _on_page(chart: Definition) -> Definition:
    """As it is drawn in a page, which says in words what it shows."""
    made = _colored(sized(chart, "page", titled=False))
    made.pop("description", None)
    return made


def svg(figure: Figure) -> Markup:
    """The chart as part of a page, which gives it its colours and its font."""
    return _drawn(figure.chart)


def linear_svg(figure: Figure) -> Markup:
    """The chart with an even axis of K, for those who turn the logarithm off."""
    return _drawn(_with_linear_axes(figure.chart))


def is_over_k(figure: Figure) -> bool:
    """Whether the chart has a logarithmic axis of K."""
    panels = figure.chart.get("vconcat", [figure.chart])
    scales = (layer["encoding"].get("x", {}) for panel in panels for layer in panel["layer"])
    return any(x.get("field") == "K" and x.get("scale", {}).get("type") == "log" for x in scales)


def _with_linear_axes(part: Any) -> Any:
    """The definition with every logarithmic scale made even."""
    if isinstance(part, list):
        return [_with_linear_axes(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: _with_linear_axes(one) for name, one in part.items()}
    if made.get("type") == "log":
        made = {name: one for name, one in made.items() if name != "base"} | {"type": "linear"}
    return made


def _drawn(chart: Definition) -> Markup:
    drawn = chart_svg(_on_page(chart))
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


_FILTERS = {"strong": _strong, "bar": _bar, "numbers": _numbers, "svg": svg,
            "linear_svg": linear_svg, "over_k": is_over_k, "inert": _inert}  # fmt: skip


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
