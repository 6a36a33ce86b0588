"""What every chart shares: colours, sizes, the axis of K, intervals, labels, the finished figure.

Colours and fonts stand in the config of the finished chart, under the names of styles that the
marks refer to. So a chart says what a mark is (measured, predicted, ideal), and only this file says
what that looks like.
"""

import copy
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import altair as alt
import msgspec

from nodewise.base.units import SECONDS_PER_HOUR
from nodewise.explain.causes import CauseName
from nodewise.study.spec import Regime
from nodewise.study.study import Stage

Definition = dict[str, Any]  # of a chart, in Vega-Lite
Chart = alt.LayerChart | alt.VConcatChart | alt.HConcatChart
Size = Literal["screen", "page", "paper", "slide"]
Cell = str | int | float | None
Row = dict[str, Cell]

# Okabe and Ito's colours, which people with any colour vision tell apart, in shades that stand out
# from white and black alike. Each is one role: a page replaces them by variables for dark mode.
PALETTE: dict[str, str] = {
    "ink": "#1f2328",
    "muted": "#646b73",
    "grid": "#e2e5e8",
    "paper": "#ffffff",
    "measured": "#0b6cb0",
    "predicted": "#c2620a",
    "second": "#b8580c",
    "third": "#0a8a68",
    "chosen": "#087f5f",
    "refused": "#c0271d",
    "compute": "#0072b2",
    "communication": "#d55e00",
    "io": "#009e73",
    "serial": "#b5609a",
    "idle": "#b4b9be",
    "unrecorded": "#d5dade",
    "imbalance": "#e69f00",
    "slow node": "#56b4e9",
    "jitter": "#d9c400",
    "foreign": "#8c5a2b",
    "overhead": "#7a5fc0",
    "unexplained": "#5b6168",
}

STAGE_COLORS: dict[Stage | Literal["not recorded"], str] = {
    "io": PALETTE["io"],
    "compute": PALETTE["compute"],
    "serial": PALETTE["serial"],
    "idle": PALETTE["idle"],
    "communication": PALETTE["communication"],
    "overhead": PALETTE["overhead"],
    "not recorded": PALETTE["unrecorded"],
}

CAUSE_COLORS: dict[CauseName, str] = {
    "serial fraction": PALETTE["serial"],
    "communication": PALETTE["communication"],
    "load imbalance": PALETTE["imbalance"],
    "slow node": PALETTE["slow node"],
    "jitter": PALETTE["jitter"],
    "input/output": PALETTE["io"],
    "compute inflation": PALETTE["compute"],
    "foreign load": PALETTE["foreign"],
    "engine overhead": PALETTE["overhead"],
    "idle": PALETTE["idle"],
    "unexplained": PALETTE["unexplained"],
}

REGIMES: dict[Regime, str] = {
    "strong": "strong scaling: the job stays the same",
    "weak": "weak scaling: the work grows with K",
}

# Several curves in one chart: colour, shape and dash of each.
_SERIES = (
    ("measured", "circle", [1, 0]),
    ("second", "square", [6, 3]),
    ("third", "diamond", [2, 2]),
)

FONT = "system-ui, 'Liberation Sans', Arial, sans-serif"
HEIGHT = 300  # of a chart of one panel on a screen; other sizes scale it
_MOST_TICKS = 16
_MOST_HEADS = 7  # texts above more columns than these would meet


class _Look(NamedTuple):
    """One size: pixels (96 an inch) of the whole, of the text, of the marks."""

    width: int
    height: float  # factor on the heights of the screen
    font: float
    point: float
    line: float
    padding: float


_LOOKS: dict[Size, _Look] = {
    "screen": _Look(680, 1.0, 12, 64, 1.8, 7),
    "page": _Look(528, 1.0, 12, 64, 1.8, 7),  # half a page, where panels cannot fit their container
    "paper": _Look(326, 0.68, 9, 26, 1.2, 5),
    "slide": _Look(1280, 1.72, 22, 200, 3.2, 26),
}
_SLIDE_HEIGHT = 720


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A finished chart with its words and its numbers."""

    name: str
    title: str
    caption: str  # the finding, in one sentence or two, with the study's own numbers
    description: str  # for those who do not see it
    chart: Definition  # without a size yet: see `sized`
    rows: tuple[Row, ...]  # the numbers behind it, unrounded


def figure(
    name: str,
    title: str,
    subtitle: Sequence[str],
    caption: str,
    rows: Sequence[Mapping[str, Cell]],
    chart: Chart,
) -> Figure:
    """A chart with its title, its caption, its numbers and a description made of them."""
    table = tuple(dict(row) for row in rows)
    description = f"{title}. {caption} {_spoken(table)}"
    chart.title = alt.TitleParams(text=[title], subtitle=list(subtitle))
    chart.description = description
    return Figure(
        name=name,
        title=title,
        caption=caption,
        description=description,
        chart=definition(chart),
        rows=table,
    )


def definition(chart: Chart) -> Definition:
    """The chart in Vega-Lite's own words. The tests hold it to the schema; here that takes long."""
    made: Definition = chart.to_dict(validate=False)
    return made


def _spoken(rows: Sequence[Row], most: int = 12) -> str:
    """The first rows as text."""
    told = [
        ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
            if value is not None
        )
        for row in rows[:most]
    ]
    rest = f"; and {len(rows) - most} more rows" if len(rows) > most else ""
    return f"Data: {'; '.join(told)}{rest}."


def sized(chart: Definition, size: Size = "screen", titled: bool = True) -> Definition:
    """A figure's chart for a screen, a page (as wide as its container), a paper or a slide.

    A paper's column is 3.4 inches wide; a slide is 1280 by 720. Panels stand above each other, on a
    slide beside each other; they have fixed widths, because Vega-Lite cannot fit several to a
    container.
    """
    look = _LOOKS[size]
    made = copy.deepcopy(chart)
    title = made.pop("title", None)
    if "vconcat" in made:
        _size_panels(made, size)
    else:
        made["width"] = "container" if size == "page" else look.width
        made["height"] = _SLIDE_HEIGHT if size == "slide" else round(made["height"] * look.height)
        fit = "fit" if size == "slide" else "fit-x"
        made["autosize"] = {"type": fit, "contains": "padding"}
        _scale_pixels(made, look)
    if titled and title is not None:
        made["title"] = _title(title, look)
    made["config"] = _config(look, size)
    return made


def _size_panels(chart: Definition, size: Size) -> None:
    look, panels = _LOOKS[size], chart["vconcat"]
    axis = 5.1 * look.font  # labels and title of the y axis
    width = look.width - 2 * look.padding
    chart["spacing"] = round(look.font)
    for panel in panels:
        panel["width"] = round(width - axis)
        panel["height"] = round(panel["height"] * look.height)
        _scale_pixels(panel, look)
        if size == "slide":
            gaps = look.font * (len(panels) - 1)
            panel["width"] = round((width - gaps) / len(panels) - axis)
            # what is left beside titles and legend
            panel["height"] = round(_SLIDE_HEIGHT - 2 * look.padding - 10.6 * look.font)
    if size == "slide":
        chart["hconcat"] = chart.pop("vconcat")


def _scale_pixels(panel: Definition, look: _Look) -> None:
    """What is given in pixels of the screen, in those of another size: distances and dashes."""
    factor = look.font / _LOOKS["screen"].font
    for mark in (layer["mark"] for layer in panel["layer"] if isinstance(layer["mark"], dict)):
        for name in ("dx", "dy"):
            if name in mark:
                mark[name] = round(mark[name] * factor, 1)
        if "strokeDash" in mark:
            mark["strokeDash"] = [round(dash * factor, 1) for dash in mark["strokeDash"]]


def _title(title: Definition, look: _Look) -> Definition:
    """The title with its lines broken to the width; none is cut."""
    per_line = look.width / (0.52 * look.font)
    return {
        "text": textwrap.wrap(" ".join(title["text"]), round(per_line / 1.25)),
        "subtitle": [
            line for part in title["subtitle"] for line in textwrap.wrap(part, round(per_line))
        ],
    }


def _config(look: _Look, size: Size) -> dict[str, Any]:
    ink, muted, font = PALETTE["ink"], PALETTE["muted"], look.font
    return {
        "background": "transparent" if size == "page" else PALETTE["paper"],
        "font": FONT,
        "padding": look.padding,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": ink,
            "fontSize": round(font * 1.25, 1),
            "fontWeight": "bold",
            "subtitleColor": muted,
            "subtitleFontSize": font,
            "subtitleLineHeight": round(font * 1.3, 1),
            "subtitlePadding": round(font * 0.3, 1),
            "offset": font,
            "limit": 0,
        },
        "axis": {
            "labelColor": ink,
            "labelFontSize": font,
            "labelLimit": 0,
            "titleColor": muted,
            "titleFontSize": font,
            "titleFontWeight": "normal",
            "titlePadding": round(font * 0.5, 1),
            "domainColor": muted,
            "tickColor": muted,
            "tickSize": round(font * 0.35, 1),
            "gridColor": PALETTE["grid"],
        },
        "legend": {
            "orient": "top",
            "title": None,
            "labelColor": ink,
            "labelFontSize": font,
            "labelLimit": 0,
            "columnPadding": font,
            "symbolSize": 1.3 * look.point,
            "offset": round(font * 0.5, 1),
        },
        "text": {"fontSize": font, "color": ink},
        "style": _styles(look),
    }


def _styles(look: _Look) -> dict[str, Any]:
    """What each kind of mark looks like."""
    dash, thin = [3 * look.line, 2 * look.line], look.line * 0.7

    def point(inside: str, edge: str, size: float = 1.0, **more: Any) -> dict[str, Any]:
        look_of = {"filled": True, "color": PALETTE[inside], "stroke": PALETTE[edge], "opacity": 1}
        return {**look_of, "strokeWidth": thin, "size": look.point * size, **more}

    def line(color: str, width: float = look.line, **more: Any) -> dict[str, Any]:
        return {"color": PALETTE[color], "strokeWidth": width, "opacity": 1, **more}

    def text(color: str, **more: Any) -> dict[str, Any]:
        return {"color": PALETTE[color], "fontSize": look.font, **more}

    return {
        "measured": point("measured", "paper"),
        "predicted": point("paper", "predicted"),
        "beaten": point("idle", "muted"),
        "role": point("ink", "paper", 2.2),
        "refused": point("refused", "paper", 2.0, shape="cross", angle=45),
        "ring": {**line("chosen"), "filled": False, "size": look.point * 4, "shape": "circle"},
        "interval": line("measured", thin),
        # wider than a point, so that even the narrowest interval shows beside it
        "cap": line("measured", thickness=thin, size=1.7 * look.point**0.5),
        "step": {"color": PALETTE["measured"], "opacity": 1},
        "thin": {"color": PALETTE["idle"], "opacity": 1, "size": look.font},
        "thick": {"color": PALETTE["measured"], "opacity": 1, "size": 1.7 * look.font},
        "band": {"color": PALETTE["grid"], "opacity": 1},
        "join": line("measured", thin),
        "law": line("predicted"),
        "beyond": line("predicted", strokeDash=dash),
        "ideal": line("muted", thin),
        "limit": line("muted", thin, strokeDash=[look.line, 1.5 * look.line]),
        "bend": line("refused", thin, strokeDash=dash),
        "wall": line("ink", thin),
        "gap": line("chosen"),
        "label": text("ink"),
        "head": text("ink", fontSize=0.83 * look.font),  # seven of them stand beside each other
        "inside": text("paper"),
        "remark": text("muted"),
        "warning": text("refused"),
        "verdict": text("chosen", fontWeight="bold"),
    }


def data(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows as the data of a chart, inside it."""
    # Altair copies a chart at every step, with all lists inside; a tuple it shares.
    return alt.InlineData(values=tuple(dict(row) for row in rows))


class Axis(NamedTuple):
    """One direction of a chart: every layer draws its own columns along the same scale."""

    field: str
    title: str
    scale: alt.Scale
    ticks: alt.Axis | None

    def x(self, field: str = "") -> alt.X:
        """A column from left to right."""
        return alt.X(
            f"{field or self.field}:Q", title=self.title, scale=self.scale, axis=self.ticks
        )

    def y(self, field: str = "") -> alt.Y:
        """A column upwards."""
        return alt.Y(
            f"{field or self.field}:Q", title=self.title, scale=self.scale, axis=self.ticks
        )


def linear(field: str, title: str, low: float, high: float, ticks: alt.Axis | None = None) -> Axis:
    """An even axis from one value to another."""
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    return Axis(field, title, scale, ticks or alt.Axis(tickCount=6, format="~f"))


def folds(field: str, title: str, low: float, high: float) -> Axis:
    """A logarithmic axis with a tick at every doubling."""
    scale = alt.Scale(type="log", base=2, domain=[low, high], nice=False)
    powers = [2.0**power for power in range(-20, 31)]
    values = [power for power in powers if low <= power <= high]
    return Axis(field, title, scale, alt.Axis(values=values, format="~g"))


def nodes_axis(nodes: Sequence[int], reach: float = 0.0) -> Axis:
    """The axis of K: powers of two apart, a tick at every scale; it reaches at least to `reach`."""
    low, high = min(nodes), max(*nodes, reach)
    margin = max(high / low, 2.0) ** 0.05
    ticks = sorted(set(nodes))
    if len(ticks) > _MOST_TICKS:  # every scale of a model: doublings are enough
        ticks = [count for count in ticks if count.bit_count() == 1]
    return Axis(
        "K",
        "nodes K",
        alt.Scale(type="log", base=2, domain=[low / margin, high * margin], nice=False),
        alt.Axis(values=ticks, format="d", grid=False, labelOverlap="greedy"),
    )


def tooltip(*names: str) -> list[alt.Tooltip]:
    """What a mark says when pointed at: columns whose text is ready."""
    return [alt.Tooltip(f"{name}:N") for name in names]


def intervals(
    rows: Sequence[Mapping[str, Cell]], x: Axis, y: Axis, color: str = "measured"
) -> list[alt.Chart]:
    """Bars from `low` to `high` with caps, of the rows that have them."""
    bounded = [row for row in rows if row.get("low") is not None and row.get("high") is not None]
    if not bounded:
        return []
    base = alt.Chart(data(bounded)).encode(x=x.x())
    cap = base.mark_tick(style="cap", orient="horizontal", color=PALETTE[color])
    return [
        base.mark_rule(style="interval", color=PALETTE[color]).encode(y=y.y("low"), y2="high:Q"),
        cap.encode(y=y.y("low")),
        cap.encode(y=y.y("high")),
    ]


def series(
    names: Sequence[str],
    field: str,
    rows: Sequence[Mapping[str, Cell]],
    x: Axis,
    y: Axis,
    told: Sequence[alt.Tooltip],
    marked: Callable[[Mapping[str, Cell]], bool] = lambda row: True,
) -> list[alt.Chart]:
    """Up to three curves, told apart by colour, by shape and by dash; with one legend.

    Lines and intervals are drawn curve by curve, because the legend of a line would be drawn over
    that of the points. `marked` says which rows have a point.
    """
    layers = []
    for name, (color, _, dash) in zip(names, _SERIES, strict=False):
        own = [row for row in rows if row[field] == name]
        line = alt.Chart(data(own)).mark_line(style="join", color=PALETTE[color], strokeDash=dash)
        layers += [line.encode(x=x.x(), y=y.y()), *intervals(own, x, y, color)]
    looks = _SERIES[: len(names)]
    colors = alt.Scale(domain=list(names), range=[PALETTE[color] for color, _, _ in looks])
    shapes = alt.Scale(domain=list(names), range=[shape for _, shape, _ in looks])
    points = alt.Chart(data([row for row in rows if marked(row)])).mark_point(style="measured")
    return [
        *layers,
        points.encode(
            x=x.x(),
            y=y.y(),
            color=alt.Color(f"{field}:N", scale=colors, legend=alt.Legend(columns=1)),
            shape=alt.Shape(f"{field}:N", scale=shapes),
            tooltip=list(told),
        ),
    ]


def label(
    text: str,
    x: Axis,
    y: Axis,
    at: tuple[float, float],
    *,
    style: str = "remark",
    align: Literal["left", "right"] = "left",
    side: Literal["above", "below"] = "above",
    away: float = 5,
) -> alt.Chart:
    """A text so many pixels away from a point of the plane."""
    mark = alt.Chart(data([{x.field: at[0], y.field: at[1], "text": text}])).mark_text(
        style=style,
        align=align,
        baseline="bottom" if side == "above" else "top",
        dx=away if align == "left" else -away,
        dy=-away if side == "above" else away,
    )
    placed: alt.Chart = mark.encode(x=x.x(), y=y.y(), text="text:N")
    return placed


def layered(layers: Sequence[alt.Chart], height: float = HEIGHT) -> alt.LayerChart:
    """Layers over each other, as high as said on a screen."""
    return alt.LayerChart(layer=list(layers), height=height)


def places(field: str, count: int) -> alt.X:
    """Places inside columns: column n reaches from n to n + 1."""
    return alt.X(
        f"{field}:Q", scale=alt.Scale(domain=[0, count], nice=False, zero=False), axis=None
    )


def columns(
    heads: Sequence[tuple[int, str]], y: Axis, top: float, layers: Sequence[alt.Chart]
) -> alt.LayerChart:
    """Layers drawn over `places`, in one column for each scale: its K below, its text on top.

    The bands of the K and the places have the same edges, so the one axis stands for both.
    """
    few = len(heads) <= _MOST_HEADS
    rows = [{"K": nodes, y.field: top, "text": text if few else ""} for nodes, text in heads]
    named = (
        alt.Chart(data(rows))
        .mark_text(style="head", baseline="top")
        .encode(
            x=alt.X(
                "K:O",
                title="nodes K",
                scale=alt.Scale(
                    type="band",
                    domain=[nodes for nodes, _ in heads],
                    paddingInner=0,
                    paddingOuter=0,
                ),
                axis=alt.Axis(labelAngle=0, grid=False, labelOverlap="greedy"),
            ),
            y=y.y(),
            text="text:N",
        )
    )
    chart: alt.LayerChart = layered([*layers, named]).resolve_scale(x="independent")
    return chart


def known(*values: Cell) -> list[float]:
    """The values that are numbers."""
    return [float(value) for value in values if isinstance(value, int | float)]


def number(value: Cell) -> float:
    """A cell that is known to hold a number."""
    assert isinstance(value, int | float)
    return float(value)


def shortened(name: str, most: int = 90) -> str:
    """A study's name, on one or two lines of a subtitle."""
    plain = " ".join(name.split()) or "study"
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def about(name: str, regime: Regime, *more: str) -> list[str]:
    """The lines below a title: the study, its regime, and how to read the marks."""
    return [f"{shortened(name)}; {REGIMES[regime]}", *(line for line in more if line)]


def failures(failed: Mapping[int, str], x: Axis, y: Axis, low: float) -> list[alt.Chart]:
    """A cross on the axis where every run failed: the scale at which scaling broke is a result."""
    if not failed:
        return []
    rows = [{"K": nodes, y.field: low, "outcome": how} for nodes, how in failed.items()]
    base = alt.Chart(data(rows)).encode(x=x.x(), y=y.y(), tooltip=tooltip("K", "outcome"))
    text = base.mark_text(style="warning", align="right", baseline="bottom", dx=-8, dy=-8)
    return [base.mark_point(style="refused"), text.encode(text="outcome:N")]


def failed_words(failed: Mapping[int, str]) -> str:
    """The end of a caption: a sentence for each scale that failed."""
    return "".join(f" Every run at K={nodes} failed: {how}." for nodes, how in failed.items())


class TimeUnit(NamedTuple):
    """A unit that keeps the numbers of an axis short."""

    name: str
    seconds: float


def time_unit(seconds: float) -> TimeUnit:
    """The unit for an axis that reaches up to so many seconds.

    >>> time_unit(0.2).name, time_unit(80).name, time_unit(800).name, time_unit(90_000).name
    ('ms', 's', 'min', 'h')
    """
    if seconds < 1:
        return TimeUnit("ms", 1e-3)
    if seconds < 120:
        return TimeUnit("s", 1.0)
    return TimeUnit("min", 60.0) if seconds < 2 * SECONDS_PER_HOUR else TimeUnit("h", 3600.0)
