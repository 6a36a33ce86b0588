"""Wholes divided into coloured parts: bars that are stacked, and cells that are shaded."""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewise.report.charts.look import PALETTE, Definition, Row, choice, mark

_INVISIBLE = 0.002  # of the whole: less than a pixel
_PALE = 0.02  # of the darkest cell: it looks empty


def stacked(parts: Mapping[str, float], start: float = 0.0, **more: Any) -> list[Row]:
    """A segment for each part, from where the one before it ends; what is too thin is left out."""
    whole = sum(parts.values())
    segments: list[Row] = []
    for name, amount in parts.items():
        if amount > _INVISIBLE * whole:
            segments.append({"part": name, "start": start, "end": start + amount, **more})
        start += amount
    return segments


def part_bars(
    kind: str,
    segments: Sequence[Row],
    colors: Mapping[str, str],
    tips: Sequence[str] = ("part",),
    columns: int = 3,
    offset: float = 6,
    **channels: Any,
) -> Definition:
    """The segments and a legend of their parts; `colors` are roles of the palette."""
    used = {segment["part"] for segment in segments}
    shown = {name: PALETTE[color] for name, color in colors.items() if name in used}
    # a browser may have a wider font than the one that the columns were measured with
    legend = {"symbolType": "square", "columns": columns, "offset": offset, "columnPadding": 22}
    color = choice("part", shown, legend=legend)
    return mark(kind, segments, tips=tips, color=color, **channels)


def heat_cells(
    cells: Sequence[Row],
    x: tuple[str, str],
    y: tuple[str, str],
    title: str,
    most: float,
    tips: Sequence[str],
) -> Definition:
    """A cell for each pair of `x` and `y` (column and title), darker where `value` is higher."""
    orders: dict[str, list[Any]] = {
        field: list(dict.fromkeys(cell[field] for cell in cells)) for field, _ in (x, y)
    }
    cells = [cell for cell in cells if cell["value"] > _PALE * most]
    scale = {"domain": [0, most], "range": [0, 1], "clamp": True}
    legend = {"title": title, "titleFontWeight": "normal", "titleColor": PALETTE["muted"],
              "symbolType": "square", "tickCount": 4,
              "format": "d", "symbolFillColor": PALETTE["imbalance"],
              "symbolStrokeColor": PALETTE["muted"], "symbolStrokeWidth": 0.5}  # fmt: skip
    shade = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    look = {"fill": PALETTE["imbalance"], "stroke": PALETTE["grid"], "strokeWidth": 0.5}
    places = {
        "x": _band(*x, orders[x[0]]),
        "y": _band(*y, sorted(orders[y[0]], key=int)),
    }
    return mark("rect", cells, "", look, tips=tips, opacity=shade, **places)


def _band(field: str, title: str, order: Sequence[Any]) -> Definition:
    axis = {"labelAngle": 0, "labelOverlap": "greedy", "grid": False, "ticks": False}
    return {
        "field": field,
        "type": "ordinal",
        "title": title,
        "scale": {"domain": list(order)},
        "axis": axis,
    }
