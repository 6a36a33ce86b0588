"""What every chart shares: colours, sizes, the axis of K, intervals, labels, the finished figure.

Colours and fonts are in the config of the finished chart, under the names of styles that the
marks refer to. So a chart says what a mark is (measured, predicted, ideal), and only this file says
what that looks like.
"""

import copy
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from nodewise.base.units import SECONDS_PER_HOUR, capitalised
from nodewise.study.spec import Regime

Definition = dict[str, Any]  # of a chart or a part of one, in Vega-Lite
Size = Literal["screen", "page", "third", "paper", "slide"]
Row = dict[str, Any]  # text and numbers by column; None if there is none
Rows = Sequence[Mapping[str, Any]]

# Okabe and Ito's colours, which people with any colour vision tell apart, in shades that differ
# from white and black alike. Each is one role: a page replaces them by variables for dark mode.
PALETTE: dict[str, str] = {
    "ink": "#1f2328",
    "muted": "#646b73",
    "grid": "#e2e5e8",
    "paper": "#ffffff",
    "measured": "#0b6cb0",
    "predicted": "#c2620a",
    "second": "#b8580c",
    "third": "#8a4a9c",
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
    "emulation": "#7f8f3a",
    "unexplained": "#5b6168",
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

FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"  # of one width on every machine
HEIGHT = 300  # of a chart of one panel on a screen; other sizes scale it
_MOST_TICKS = 16
_MOST_HEADS = 6  # texts above more columns than these would meet
_ROLE_SHAPES = ("diamond", "triangle-up", "square", "circle")
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


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
    "page": _Look(408, 0.85, 12, 58, 1.8, 5),  # three beside each other on a screen of 1400
    "third": _Look(310, 1.2, 12, 58, 1.8, 14),  # of a slide of 960 by 540
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
    reading: str = ""  # what points, bars and lines are

    def with_chart(self, chart: Definition) -> "Figure":
        """The same figure, drawn in another way."""
        return msgspec.structs.replace(self, chart=chart)


def figure(
    name: str, title: str, subtitle: Sequence[str], caption: str, rows: Rows, chart: Definition
) -> Figure:
    """A chart with its title, its caption, its numbers and a description made of them."""
    table = tuple(dict(row) for row in rows)
    description = f"{title}. {caption} {_spoken(table)}"
    words = {
        "title": {"text": [title], "subtitle": list(subtitle)},
        "description": description,
    }
    return Figure(
        name=name,
        title=title,
        caption=caption,
        description=description,
        chart=definition({**chart, **words}),
        rows=table,
        reading=". ".join(capitalised(line) for line in subtitle[1:] if line),
    )


def definition(chart: Definition) -> Definition:
    """The finished chart. Rows that several layers draw are in it once."""
    names: dict[str, str] = {}
    tables: Definition = {}
    for panel in chart.get("vconcat", [chart]):
        for layer in panel["layer"]:
            rows = layer["data"].get("values")
            if rows is not None:
                name = names.setdefault(json.dumps(rows), f"rows-{len(names)}")
                tables[name] = rows
                layer["data"] = {"name": name}
    return {"$schema": _SCHEMA, **chart, "datasets": {**tables, **chart.get("datasets", {})}}


def _spoken(rows: Sequence[Row], most: int = 12) -> str:
    """The first rows as text."""
    lines = [
        ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
            if value is not None
        )
        for row in rows[:most]
    ]
    rest = f"; and {len(rows) - most} more rows" if len(rows) > most else ""
    return f"Data: {'; '.join(lines)}{rest}."


def sized(chart: Definition, size: Size = "screen", titled: bool = True) -> Definition:
    """A figure's chart for a screen, a page (a third of it), a paper or a slide.

    A paper's column is 3.4 inches wide; a slide is 1280 by 720. Panels are above each other, on a
    slide beside each other.
    """
    look = _LOOKS[size]
    made = copy.deepcopy(chart)
    title = made.pop("title", None)
    if "vconcat" in made:
        _size_panels(made, size)
    else:
        made["width"] = look.width
        made["height"] = _SLIDE_HEIGHT if size == "slide" else round(made["height"] * look.height)
        fit = "fit" if size == "slide" else "fit-x"
        made["autosize"] = {"type": fit, "contains": "padding"}
        _scale_pixels(made, look)
    if titled and title is not None:
        made["title"] = _title(title, look)
    made["config"] = _config(look, size)
    return made


def beside(figures: Sequence[Figure], title: str, subtitle: str) -> Definition:
    """Figures beside each other under one title, as one picture of 16 to 9."""
    look = _LOOKS["third"]
    panels: list[Definition] = []
    tables: Definition = {}
    top: Definition = {}
    for figure in figures:
        own = json.dumps(figure.chart).replace('"rows-', f'"{figure.name}-rows-')
        chart = json.loads(own)
        tables |= chart.pop("datasets")
        top |= {name: chart.pop(name) for name in ("params", "$schema") if name in chart}
        panels.append({**_as_panel(chart, look), "title": {"text": figure.title, "fontSize": 13}})
    words = {"text": [title], "subtitle": [subtitle]}
    wide = look._replace(width=look.width * len(panels))
    config = _config(look, "screen")
    config["title"] |= {"fontSize": 18, "offset": 14}
    independent = dict.fromkeys(("color", "shape", "fill", "stroke"), "independent")
    return {
        **top,
        "hconcat": panels,
        "spacing": 2 * look.font,
        "title": _title(words, wide),
        "datasets": tables,
        "resolve": {"scale": independent},
        "config": config,
    }


def _as_panel(chart: Definition, look: _Look) -> Definition:
    """A chart of given width and height, without what belongs to the whole picture."""
    panels = chart.get("vconcat", [chart])
    heights = sum(panel["height"] for panel in panels)
    room = look.height * HEIGHT - 5 * look.font * (len(panels) - 1)
    names = [layer["encoding"].get("y", {}).get("sort") or [] for layer in panels[0]["layer"]]
    axis = 0.52 * look.font * max((len(name) for some in names for name in some), default=8)
    for panel in panels:
        panel["width"] = round(look.width - axis)
        panel["height"] = round(room * panel["height"] / heights)
    return {key: part for key, part in chart.items() if key not in ("description", "usermeta")}


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
    for mark in (layer["mark"] for layer in panel["layer"]):
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
        "aria": size != "page",  # a page describes its charts in words
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
        "chosen": line("chosen", thin, strokeDash=[look.line, look.line]),
        "label": text("ink"),
        "head": text("ink", fontSize=0.83 * look.font),  # seven of them are beside each other
        "inside": text("paper"),
        "remark": text("muted"),
        "expected": text("predicted"),
        "warning": text("refused"),
        "verdict": text("chosen", fontWeight="bold"),
    }


class Axis(NamedTuple):
    """One direction of a chart: every layer draws its own columns along the same scale."""

    field: str
    title: str
    scale: Definition
    ticks: Definition | None

    def of(self, field: str) -> Definition:
        """Another column along this axis."""
        channel = {"field": field, "type": "quantitative", "title": self.title}
        return {**channel, "scale": self.scale, "axis": self.ticks}


def mark(
    kind: str,
    rows: Rows | str,
    style: str = "",
    look: Mapping[str, Any] | None = None,
    tips: Sequence[str] = (),
    **channels: Any,  # an Axis, a column or a definition
) -> Definition:
    """A layer of one kind of mark, `rows` or the name of rows that a page fills in.

    A channel that is a name is a column: of text, or the other end of a range. `tips` are the
    columns of text that a mark shows when pointed at.
    """
    encoding: Definition = {}
    for name, channel in channels.items():
        if isinstance(channel, Axis):
            channel = channel.of(channel.field)
        elif isinstance(channel, str):
            channel = {"field": channel} if name in ("x2", "y2") else _text(channel)
        encoding[name] = channel
    if tips:
        encoding["tooltip"] = [_text(name) for name in tips]
    data = {"name": rows} if isinstance(rows, str) else {"values": [dict(row) for row in rows]}
    named = {"style": style} if style else {}
    return {"data": data, "mark": {"type": kind, **named, **(look or {})}, "encoding": encoding}


def _text(field: str) -> Definition:
    return {"field": field, "type": "nominal"}


def some(test: str, layer: Definition) -> Definition:
    """A layer of those rows only for which a Vega expression holds."""
    return {**layer, "transform": [{"filter": test}]}


def layered(layers: Sequence[Definition], height: float = HEIGHT) -> Definition:
    """Layers over each other, as high as given on a screen; those without rows are left out."""
    drawn = [layer for layer in layers if layer["data"].get("values", True)]
    return {"layer": drawn, "height": height}


def choice(field: str, looks: Mapping[str, str], **more: Any) -> Definition:
    """A channel that gives each name in a column its colour or its shape."""
    return {**_text(field), "scale": {"domain": list(looks), "range": list(looks.values())}, **more}


def linear(
    field: str, title: str, low: float, high: float, ticks: Definition | None = None
) -> Axis:
    """An even axis from one value to another."""
    scale = {"domain": [low, high], "nice": False, "zero": False}
    return Axis(field, title, scale, ticks or {"tickCount": 6, "format": "~f"})


def logarithmic(
    field: str, title: str, low: float, high: float, base: int, ticks: Definition
) -> Axis:
    """An axis on which equal distances are equal ratios."""
    scale = {"type": "log", "base": base, "domain": [low, high], "nice": False}
    return Axis(field, title, scale, ticks)


def folds(field: str, title: str, low: float, high: float) -> Axis:
    """A logarithmic axis with a tick at every doubling."""
    powers = [2.0**power for power in range(-20, 31)]
    values = [power for power in powers if low <= power <= high]
    return logarithmic(field, title, low, high, 2, {"values": values, "format": "~g"})


SCALE_TITLE = "nodes K"  # as long as K counts nodes
RECOMMENDED = "recommended"  # the dataset and the parameter with the recommended K


def nodes_axis(nodes: Sequence[int], reach: float = 0.0) -> Axis:
    """The axis of K: powers of two apart, a tick at every scale; it reaches at least to `reach`."""
    low, high = min(nodes), max(*nodes, reach)
    margin = max(high / low, 2.0) ** 0.05
    ticks = sorted(set(nodes))
    if len(ticks) > _MOST_TICKS:  # every scale of a model: doublings are enough
        ticks = [count for count in ticks if count.bit_count() == 1]
    shown = {"values": ticks, "format": "d", "grid": False, "labelOverlap": "greedy"}
    return logarithmic("K", SCALE_TITLE, low / margin, high * margin, 2, shown)


def with_recommended(chart: Definition, nodes: int, title: str = SCALE_TITLE) -> Definition:
    """The chart with the recommended K marked on every axis of K: its tick, and a line over it."""
    made = copy.deepcopy(chart)
    made["params"] = [{"name": RECOMMENDED, "value": nodes}]
    made["datasets"][RECOMMENDED] = [{"K": nodes}]
    test = f"datum.value == {RECOMMENDED}"
    look = {
        "labelColor": {
            "condition": {"test": test, "value": PALETTE["chosen"]},
            "value": PALETTE["ink"],
        },
        "labelFontWeight": {"condition": {"test": test, "value": "bold"}, "value": "normal"},
    }
    for panel in made.get("vconcat", [made]):
        scales = [layer["encoding"].get("x", {}) for layer in panel["layer"]]
        scales = [x for x in scales if x.get("title") == title]
        for x in scales:
            x["axis"] = {**x["axis"], **look}
        if scales and scales[0]["type"] == "quantitative":
            x = {**scales[0], "field": "K"}
            panel["layer"].insert(0, mark("rule", RECOMMENDED, "chosen", x=x))
    return made


def names_axis(field: str, names: Sequence[str]) -> Definition:
    """A row for each name, from top to bottom."""
    axis = {"grid": False, "domain": False, "ticks": False, "labelPadding": 6}
    return {**_text(field), "title": None, "sort": list(names), "axis": axis}


def intervals(
    rows: Rows | str, x: Axis | Definition, y: Axis | Definition, color: str = "measured"
) -> list[Definition]:
    """Bars from `low` to `high` with caps, of the rows that have them; lying where y is names."""
    bounded: Rows | str = rows
    if not isinstance(rows, str):
        bounded = [row for row in rows if None not in (row.get("low"), row.get("high"))]
    (along, other), orient = ("yx", "horizontal") if isinstance(y, Axis) else ("xy", "vertical")
    axes = {"x": x, "y": y}
    axis, fixed, tint = axes[along], {other: axes[other]}, {"color": PALETTE[color]}
    assert isinstance(axis, Axis)
    ends: dict[str, Row] = {end: {**fixed, along: axis.of(end)} for end in ("low", "high")}
    cap = {"orient": orient, **tint}
    return [
        mark("rule", bounded, "interval", tint, **ends["low"], **{f"{along}2": "high"}),
        *(mark("tick", bounded, "cap", cap, **channels) for channels in ends.values()),
    ]


def series(
    names: Sequence[str],
    field: str,
    rows: Rows,
    x: Axis,
    y: Axis,
    tips: Sequence[str],
) -> list[Definition]:
    """Up to three curves, each with its colour, shape and dash; with one legend.

    Lines and intervals are drawn curve by curve, because the legend of a line would be drawn over
    that of the points.
    """
    layers = []
    looks = dict(zip(names, _SERIES, strict=False))
    for name, (color, _, dash) in looks.items():
        own = [row for row in rows if row[field] == name]
        line = mark("line", rows, "join", {"color": PALETTE[color], "strokeDash": dash}, x=x, y=y)
        layers += [
            some(f"datum[{json.dumps(field)}] === {json.dumps(name)}", line),
            *intervals(own, x, y, color),
        ]
    colors = {name: PALETTE[color] for name, (color, _, _) in looks.items()}
    shapes = {name: shape for name, (_, shape, _) in looks.items()}
    points = mark(
        "point",
        rows,
        "measured",
        x=x,
        y=y,
        color=choice(field, colors, legend={"columns": 1}),
        shape=choice(field, shapes),
        tips=tips,
    )
    return [*layers, points]


def role_words(roles: Mapping[str, Any]) -> dict[int, str]:
    """The scales that have a role, and the names of their roles; a role may have no scale."""
    words: dict[int, list[str]] = {}
    for name, scale in roles.items():
        if scale is not None and scale.nodes is not None:
            words.setdefault(scale.nodes, []).append(name)
    return {nodes: ", ".join(names) for nodes, names in words.items()}


def roles(
    rows: Rows, words: Mapping[int, str], x: Axis, y: Axis, chosen: int | None = None
) -> Definition:
    """The scales that a reader looks for, by shape; the legend says what they are.

    `words` of a K are its roles; `chosen` has a colour of its own.
    """
    scales = {row["K"]: row for row in rows}
    named = [{**scales[nodes], "role": text} for nodes, text in words.items()]
    names = [row["role"] for row in named]
    colors = [PALETTE["chosen" if row["K"] == chosen else "ink"] for row in named]
    return mark(
        "point",
        named,
        "role",
        x=x,
        y=y,
        color=choice("role", dict(zip(names, colors, strict=True)), legend={"columns": 1}),
        shape=choice("role", dict(zip(names, _ROLE_SHAPES, strict=False))),
    )


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
) -> Definition:
    """A text so many pixels away from a point of the plane."""
    place = {
        "align": align,
        "baseline": "bottom" if side == "above" else "top",
        "dx": away if align == "left" else -away,
        "dy": -away if side == "above" else away,
    }
    rows = [{x.field: at[0], y.field: at[1], "text": text}]
    return mark("text", rows, style, place, x=x, y=y, text="text")


def places(field: str, count: int) -> Definition:
    """Places inside columns: column n reaches from n to n + 1."""
    scale = {"domain": [0, count], "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": None}


def columns(
    heads: Sequence[tuple[int, str]], y: Axis, top: float, layers: Sequence[Definition]
) -> Definition:
    """Layers drawn over `places`, in one column for each scale: its K below, its text on top.

    The bands of the K and the places have the same edges, so the one axis serves both.
    """
    few = len(heads) <= _MOST_HEADS
    rows = [{"K": nodes, y.field: top, "text": text if few else ""} for nodes, text in heads]
    bands = {
        "type": "band",
        "domain": [nodes for nodes, _ in heads],
        "paddingInner": 0,
        "paddingOuter": 0,
    }
    axis = {"labelAngle": 0, "grid": False, "labelOverlap": "greedy"}
    x = {"field": "K", "type": "ordinal", "title": SCALE_TITLE, "scale": bands, "axis": axis}
    named = mark("text", rows, "head", {"baseline": "top"}, x=x, y=y, text="text")
    return {**layered([*layers, named]), "resolve": {"scale": {"x": "independent"}}}


def values_of(rows: Rows, *fields: str) -> list[float]:
    """The numbers in some columns."""
    found = (row[field] for row in rows for field in fields)
    return [float(value) for value in found if value is not None]


def shortened(name: str, most: int = 90) -> str:
    """A study's name, on one or two lines of a subtitle."""
    plain = " ".join(name.split()) or "study"
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def about(name: str, regime: Regime, *more: str) -> list[str]:
    """The lines below a title: the study, its regime, and how to read the marks."""
    return [f"{shortened(name)}; {REGIMES[regime]}", *(line for line in more if line)]


def failures(failed: Mapping[int, str], x: Axis, y: Axis, low: float) -> list[Definition]:
    """A cross on the axis where every run failed: the scale at which scaling broke is a result."""
    rows = [{"K": nodes, y.field: low, "outcome": how} for nodes, how in failed.items()]
    tips = ("K", "outcome")
    text = {"align": "right", "baseline": "bottom", "dx": -8, "dy": -8}
    return [
        mark("point", rows, "refused", x=x, y=y, tips=tips),
        mark("text", rows, "warning", text, x=x, y=y, text="outcome", tips=tips),
    ]


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
