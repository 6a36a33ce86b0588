"""Charts of the measured times: speedup, efficiency, repeats, and two studies beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from nodewise.base.stats import ENOUGH_ROUNDS
from nodewise.base.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_percent,
    format_speedup,
)
from nodewise.explain.compare import Comparison
from nodewise.explain.laws import Growth, Law, LawFit
from nodewise.explain.predict.curve import FEWEST_SCALES
from nodewise.explain.scaling import Scaling, ScalingRow
from nodewise.report.charts.look import (
    HEIGHT,
    Axis,
    Definition,
    Figure,
    Row,
    about,
    columns,
    failed_words,
    failures,
    figure,
    folds,
    intervals,
    label,
    layered,
    linear,
    mark,
    nodes_axis,
    places,
    series,
    shortened,
    values_of,
)
from nodewise.report.tables import Formatter
from nodewise.report.text.compare import comparison_verdict
from nodewise.report.text.findings import bend_line, scaling_headline
from nodewise.study.study import Study

_LAW_NAMES: dict[Growth, str] = {
    "none": "Amdahl's law",
    "linear": "the universal scalability law",
    "log2": "the law with log2 K",
}
_SHORT_NAMES: dict[Growth, str] = {"none": "Amdahl", "linear": "USL", "log2": "log2 law"}
_MOST_POINTS = 100  # of one scale; more are a cloud
_BEYOND = 2  # a law is drawn to twice the largest measured scale, not further


class _Curve(NamedTuple):
    """A fitted law to draw: its name, its fit, its points among the measured scales and beyond."""

    name: str
    short: str
    fit: LawFit
    inside: list[Row]
    beyond: list[Row]

    @property
    def points(self) -> list[Row]:
        return [*self.inside, *self.beyond]


class _Plane(NamedTuple):
    """A quantity over K: what every chart of a scaling is drawn on."""

    scaling: Scaling
    failed: Mapping[int, str]
    curve: _Curve | None
    x: Axis
    rows: list[Row]

    @property
    def edge(self) -> float:
        """The largest K to be drawn."""
        reach = self.scaling.rows[-1].nodes * (_BEYOND if self.curve else 1)
        return max(reach, *self.failed, 0)

    def values(self, field: str) -> list[float]:
        """All that must have its place along the axis of the quantity."""
        measured = values_of(self.rows, field, "low", "high")
        return measured + values_of(self.curve.points if self.curve else [], field)

    def figure(
        self,
        name: str,
        title: str,
        caption: str,
        y: Axis,
        layers: Sequence[Definition],
        low: float = 0.0,
        height: float = HEIGHT,
        law_side: Literal["above", "below"] = "above",
    ) -> Figure:
        """The layers, over them the law and the points with their intervals."""
        scaling, curve = self.scaling, self.curve
        drawn = [*layers, *_law_line(curve, self.x, y, law_side), *_measured(self, y)]
        crosses = failures(self.failed, self.x, y, low)
        return figure(
            name,
            title,
            about(scaling.name, scaling.regime, _how_to_read(scaling, curve)),
            caption + failed_words(self.failed),
            self.rows,
            layered([*drawn, *crosses], height),
        )


def _plane(scaling: Scaling, study: Study | None, field: str, columns: Sequence[Row]) -> _Plane:
    failed = study.broken if study else {}
    curve = _curve(scaling, field) if len(scaling.rows) >= FEWEST_SCALES else None
    measured = [row.nodes for row in scaling.rows]
    x = nodes_axis([*measured, *failed, *([measured[-1] * _BEYOND] if curve else [])])
    rows = [
        {"K": row.nodes, "rounds": row.rounds, "seconds": row.seconds, **more}
        for row, more in zip(scaling.rows, columns, strict=True)
    ]
    return _Plane(scaling, failed, curve, x, rows)


def speedup(scaling: Scaling, study: Study | None = None) -> Figure:
    """Speedup against S = K; of a weak study the time of a run against the flat line 1.

    `study` adds the scales at which every run failed.
    """
    return _weak_time(scaling, study) if scaling.regime == "weak" else _strong(scaling, study)


def _strong(scaling: Scaling, study: Study | None) -> Figure:
    base = scaling.rows[0]
    plane = _plane(
        scaling,
        study,
        "speedup",
        [
            {
                "speedup": row.speedup,
                "low": row.speedup_low,
                "high": row.speedup_high,
                "ideal": row.nodes / base.nodes,
            }
            for row in scaling.rows
        ],
    )
    x, curve, top = plane.x, plane.curve, plane.edge
    for row, law in zip(plane.rows, curve.fit.speedup if curve else (), strict=False):
        row["law"] = law
    ideal = [{"K": nodes, "speedup": nodes / base.nodes} for nodes in (base.nodes, top)]
    values = [*plane.values("speedup"), top / base.nodes]
    low, high = min(values) / 1.4, max(values) * 1.3
    y = folds("speedup", _over(base, "speedup S"), low, high)
    caption = capitalised(scaling_headline(scaling))
    if curve is None:
        few = len(scaling.rows) < FEWEST_SCALES
        caption += (
            f" A law needs {FEWEST_SCALES} scales."
            if few
            else " No fitted law describes these points."
        )
    elif curve.fit.ceiling is not None:
        ceiling = format_speedup(curve.fit.ceiling)
        caption += f" By {curve.name} no scale reaches more than {ceiling}."
    layers = [
        mark("line", ideal, "ideal", x=x, y=y),
        label("ideal S = K", x, y, (top, top / base.nodes), align="right"),
        *_ceiling(scaling, curve, x, y, high),
        *_bend(scaling, x, y, low),
    ]
    title = "Speedup against the ideal line S = K"
    return plane.figure("speedup", title, caption, y, layers, low, 1.13 * HEIGHT, "below")


def _weak_time(scaling: Scaling, study: Study | None) -> Figure:
    """Weak scaling is perfect when the time stays flat; S = K would be the ideal of another job."""
    base = scaling.rows[0]
    plane = _plane(
        scaling,
        study,
        "time ratio",
        [
            {
                "time ratio": row.seconds / base.seconds,
                "low": 1 / row.efficiency_high if row.efficiency_high else None,
                "high": 1 / row.efficiency_low if row.efficiency_low else None,
                "scaled speedup": row.speedup,
                "efficiency": row.efficiency,
            }
            for row in scaling.rows
        ],
    )
    top = 1.15 * max(1.0, *plane.values("time ratio"))
    y = linear("time ratio", f"time over that of K={base.nodes}", 0, top)
    flat = f"ideal: flat at 1, {format_duration(base.seconds)}"
    layers = [
        mark("rule", [{"time ratio": 1.0}], "ideal", y=y),
        label(flat, plane.x, y, (base.nodes, 1.0), side="below"),
    ]
    title = "Time of a run against the flat line 1, as the work grows with K"
    return plane.figure("speedup", title, capitalised(scaling_headline(scaling)), y, layers)


def efficiency(scaling: Scaling, study: Study | None = None) -> Figure:
    """Efficiency against the flat line 1, and its threshold."""
    plane = _plane(
        scaling,
        study,
        "efficiency",
        [
            {
                "speedup": row.speedup,
                "efficiency": row.efficiency,
                "low": row.efficiency_low,
                "high": row.efficiency_high,
                "threshold": scaling.bend.threshold,
            }
            for row in scaling.rows
        ],
    )
    x, edge, last = plane.x, plane.edge, scaling.rows[-1]
    top = 1.15 * max(1.0, *plane.values("efficiency"))
    y = linear("efficiency", _over(scaling.rows[0], "efficiency E"), 0, top)
    end = plane.curve.beyond[-1]["efficiency"] if plane.curve else 0.0
    layers = [
        mark("rule", [{"efficiency": 1.0}], "ideal", y=y),
        label("ideal E = 1", x, y, (edge, 1.0), align="right"),
        *_threshold(scaling, x, y, edge, end),
    ]
    caption = (
        f"{bend_line(scaling)} At K={last.nodes} efficiency is "
        f"{format_efficiency(last.efficiency)} ({format_duration(last.seconds)})."
    )
    side: Literal["above", "below"] = "below" if end > 0.8 else "above"  # off the ideal line
    title = "Efficiency against the flat line 1"
    return plane.figure("efficiency", title, caption, y, layers, law_side=side)


def _curve(scaling: Scaling, field: str) -> _Curve | None:
    """The law to draw: the nearer of those with a growing part, else Amdahl's; none that misses."""
    growth, fit = scaling.laws.nearest() or ("none", scaling.laws.amdahl)
    if fit is None or not fit.holds:
        return None
    regime, base = scaling.regime, scaling.rows[0]
    law = Law(
        s=fit.s or 0.0, c=fit.c or 0.0, growth=growth, regime=regime, base_seconds=fit.base_seconds
    )

    def points(low: float, high: float, count: int) -> list[Row]:
        k = np.geomspace(low, high, count)
        seconds = law.seconds(k)
        quantity = {
            "speedup": base.seconds / seconds,
            "time ratio": seconds / base.seconds,
            "efficiency": base.seconds / seconds / (1 if regime == "weak" else k),
        }
        return [
            {
                "K": float(at) * base.nodes,
                field: float(value),
                "predicted K": f"{at * base.nodes:.0f}",
                "predicted value": f"{value:.3g}",
                "predicted time": format_duration(float(time)),
            }
            for at, value, time in zip(k, quantity[field], seconds, strict=True)
        ]

    largest = scaling.rows[-1].nodes / base.nodes
    beyond = points(largest, largest * _BEYOND, 12)
    names = _LAW_NAMES[growth], _SHORT_NAMES[growth]
    return _Curve(*names, fit, points(1.0, largest, 40), beyond)


def _law_line(
    curve: _Curve | None, x: Axis, y: Axis, side: Literal["above", "below"]
) -> list[Definition]:
    """The law through the measured scales, and what it predicts beyond them: dashed, hollow."""
    if curve is None:
        return []
    place = {"align": "right", "dx": 14, "baseline": "middle", "dy": 14 if side == "below" else -14}
    named = [{**curve.beyond[-1], "text": curve.short}]
    tips = ("predicted K", "predicted value", "predicted time")
    return [
        mark("line", curve.inside, "law", x=x, y=y),
        mark("line", curve.beyond, "beyond", x=x, y=y),
        mark("point", curve.beyond[-1:], "predicted", x=x, y=y, tips=tips),
        mark("text", named, "expected", place, x=x, y=y, text="text"),
    ]


def _over(base: ScalingRow, quantity: str) -> str:
    """A quantity, and what it is relative to when that is not one node."""
    return quantity if base.nodes == 1 else f"{quantity}, over K={base.nodes}"


def _ceiling(
    scaling: Scaling, curve: _Curve | None, x: Axis, y: Axis, high: float
) -> list[Definition]:
    ceiling = curve.fit.ceiling if curve else None
    if curve is None or ceiling is None or not 1 < ceiling < 0.9 * high:
        return []
    text = f"ceiling {format_speedup(ceiling)} ({curve.short})"
    rule = mark("rule", [{"speedup": ceiling}], "limit", y=y)
    # on the side of the chart where the ideal line does not cross the ceiling
    base, reach = scaling.base_nodes, scaling.rows[-1].nodes * _BEYOND
    if ceiling**2 * base < reach:
        return [rule, label(text, x, y, (reach, ceiling), align="right", away=7)]
    return [rule, label(text, x, y, (base, ceiling), away=2)]


def _bend(scaling: Scaling, x: Axis, y: Axis, low: float) -> list[Definition]:
    bend = scaling.bend.first_below
    if bend is None:
        return []
    text = f"bend: E < {scaling.bend.threshold:.2f}"
    # the text lies to the right, where the curve has risen away, unless that is the edge
    left = bend * 2 > scaling.rows[-1].nodes
    return [
        mark("rule", [{"K": bend}], "bend", x=x),
        label(text, x, y, (bend, low), style="warning", align="right" if left else "left"),
    ]


def _threshold(scaling: Scaling, x: Axis, y: Axis, edge: float, end: float) -> list[Definition]:
    """The threshold, named at the side on which the points keep further away from it."""
    threshold = scaling.bend.threshold
    first, last = scaling.rows[1].efficiency, scaling.rows[-1].efficiency
    at_right = min(abs(last - threshold), abs(end - threshold)) > 0.12
    at_right = at_right or abs(last - threshold) > abs(first - threshold)
    near = end if at_right else first
    return [
        mark("rule", [{"efficiency": threshold}], "bend", y=y),
        label(
            f"threshold {threshold:.2f}",
            x,
            y,
            (edge if at_right else scaling.base_nodes, threshold),
            style="warning",
            align="right" if at_right else "left",
            side="above" if threshold - 0.12 < near < threshold else "below",
            away=3,
        ),
    ]


def _measured(plane: _Plane, y: Axis) -> list[Definition]:
    """Points with their intervals; pointed at, they say seconds beside the ratio."""
    points = [
        {**row, **_tips(one)} for row, one in zip(plane.rows, plane.scaling.rows, strict=True)
    ]
    tips = ("K", "rounds", "time", "S", "E")
    return [
        *intervals(points, plane.x, y),
        mark("point", points, "measured", x=plane.x, y=y, tips=tips),
    ]


def _tips(row: ScalingRow) -> Row:
    return {
        "time": format_duration(row.seconds),
        "S": _with_bounds(row.speedup, row.speedup_low, row.speedup_high, format_speedup),
        "E": _with_bounds(
            row.efficiency, row.efficiency_low, row.efficiency_high, format_efficiency
        ),
    }


def _with_bounds(value: float, low: float | None, high: float | None, form: Formatter) -> str:
    if low is None or high is None:
        return form(value)
    return f"{form(value)} ({form(low)} to {form(high)})"


def _how_to_read(scaling: Scaling, curve: _Curve | None) -> str:
    bars = "points: single runs"
    if any(row.speedup_low is not None for row in scaling.rows):
        bars = f"points: {scaling.center}; bars: {scaling.interval}"
    return f"{bars}; line: {curve.name}, dashed where it predicts" if curve else bars


def repeats(study: Study, scaling: Scaling) -> Figure | None:
    """Every run as a point, in the order of its rounds; nothing if no scale was repeated."""
    if all(row.rounds < 2 for row in scaling.rows):
        return None
    points: list[Row] = [
        {
            "place": at + 0.15 + 0.7 * (position + 0.5) / row.rounds,
            "off": 100 * (run.seconds / row.seconds - 1),
            "K": row.nodes,
            "round": run.round,
            "time": format_duration(run.seconds),
        }
        for at, row in enumerate(scaling.rows)
        for position, run in enumerate(study.at(row.nodes))
        if position % (1 + row.rounds // _MOST_POINTS) == 0
    ]
    centers = [_center_and_band(row, at) for at, row in enumerate(scaling.rows)]
    bands = [row for row in centers if row["low"] is not None]
    spread = max(abs(point["off"]) for point in points) or 1.0
    top = 1.35 * spread
    ticks = {"tickCount": 6, "format": "+~f"}
    y = linear("off", f"off the {scaling.center}, %", -1.1 * spread, top, ticks)
    left, place = (places(field, len(centers)) for field in ("left", "place"))
    layers = [
        mark("rect", bands, "band", x=left, x2="right", y=y.of("low"), y2="high"),
        mark("rule", centers, "wall", x=left, x2="right", y=y),
        mark("point", points, "measured", x=place, y=y, tips=("K", "round", "time")),
    ]
    heads = [(row.nodes, format_duration(row.seconds)) for row in scaling.rows]
    enough = min(row.rounds for row in scaling.rows) >= ENOUGH_ROUNDS
    band = "95 % interval of the median" if enough else "range of the runs"
    read = f"line: {scaling.center}; band: {band}; points from left to right by round"
    return figure(
        "repeats",
        "Run-to-run variation",
        about(study.name, study.regime, read),
        _repeats_caption(study, scaling),
        [
            {"K": row.nodes, "round": run.round, "seconds": run.seconds}
            for row in scaling.rows
            for run in study.at(row.nodes)
        ],
        columns(heads, y, top, layers),
    )


def _center_and_band(row: ScalingRow, at: int) -> Row:
    ends = {"low": row.seconds_low, "high": row.seconds_high}
    off = {
        end: None if seconds is None else 100 * (seconds / row.seconds - 1)
        for end, seconds in ends.items()
    }
    return {"left": at + 0.1, "right": at + 0.9, "off": 0.0, **off}


def _repeats_caption(study: Study, scaling: Scaling) -> str:
    spreads = [(row.std / row.seconds, row) for row in scaling.rows if row.std is not None]
    widest, row = max(spreads, key=lambda spread: spread[0])
    text = (
        f"The runs spread most at K={row.nodes}: a standard deviation of {format_percent(widest)} "
        f"around {format_duration(row.seconds)}."
    )
    if max(one.rounds for one in scaling.rows) >= _MOST_POINTS:
        text += f" Of many rounds at most {_MOST_POINTS} are drawn, evenly chosen."
    lost = [run for run in study.runs if run.outcome != "ok"]
    if lost:
        where = ", ".join(f"K={nodes}" for nodes in sorted({run.nodes for run in lost}))
        text += f" Not drawn: {len(lost)} failed run{'s' if len(lost) > 1 else ''} at {where}."
    return text


def compare(comparison: Comparison) -> Figure:
    """The speedups (weak: efficiencies) of two studies, and the ratio of their seconds."""
    names = _two_names(comparison.first, comparison.second)
    results = comparison.first_scaling, comparison.second_scaling
    scales = [row.nodes for row in comparison.rows]
    rows = [
        {
            "K": row.nodes,
            "seconds of the first": row.first_seconds,
            "seconds of the second": row.second_seconds,
            "ratio": row.ratio,
            "low": row.ratio_low,
            "high": row.ratio_high,
            "the second is": row.second_is,
        }
        for row in comparison.rows
    ]
    read = f"speedups against K={comparison.base_nodes}; below 1 the second is faster"
    if any(row.ratio_low is not None for row in comparison.rows):
        read += f"; bars: {comparison.interval}"
    return figure(
        "compare",
        "Two studies side by side",
        about(f"{names[0]} and {names[1]}", comparison.regime, read),
        f"{names[1]} against {names[0]}: {comparison_verdict(comparison)}.",
        rows,
        {"vconcat": [*_both_curves(results, names, scales), _ratios(rows, scales)]},
    )


def _two_names(first: str, second: str) -> tuple[str, str]:
    one, other = shortened(first, 40), shortened(second, 40)
    return (one, other) if one != other else (f"{one} (first)", f"{other} (second)")


def _both_curves(
    results: tuple[Scaling | None, Scaling | None], names: tuple[str, str], scales: Sequence[int]
) -> list[Definition]:
    """The curves of both; none if there is one scale only."""
    first, second = results
    if first is None or second is None:
        return []
    weak = first.regime == "weak"
    points: list[Row] = [
        {
            "study": name,
            "K": row.nodes,
            "value": row.efficiency if weak else row.speedup,
            "low": row.efficiency_low if weak else row.speedup_low,
            "high": row.efficiency_high if weak else row.speedup_high,
            "time": format_duration(row.seconds),
            "S": format_speedup(row.speedup),
            "E": format_efficiency(row.efficiency),
        }
        for name, result in zip(names, (first, second), strict=True)
        for row in result.rows
    ]
    values = values_of(points, "value", "low", "high")
    x = nodes_axis(scales)
    base = first.base_nodes
    top = max(*values, 1.0 if weak else max(scales) / base)
    low, high = min(values) / 1.3, top * 1.3
    y = folds("value", "speedup S", low, high)
    if weak:
        y = linear("value", "efficiency E", 0, max(1.15, high))
    ideal = [{"K": n, "value": 1.0 if weak else n / base} for n in (min(scales), max(scales))]
    end = (max(scales), ideal[-1]["value"])
    name = "S = K" if base == 1 else f"S = K/{base}"
    layers = [
        mark("line", ideal, "ideal", x=x, y=y),
        label("ideal E = 1" if weak else f"ideal {name}", x, y, end, align="right"),
        *series(names, "study", points, x, y, ("study", "K", "time", "S", "E")),
    ]
    return [layered(layers)]


def _ratios(rows: Sequence[Mapping[str, Any]], scales: Sequence[int]) -> Definition:
    values = [1.0, *values_of(rows, "ratio", "low", "high")]
    margin = 0.1 * (max(values) - min(values)) or 0.1
    x = nodes_axis(scales)
    y = linear("ratio", "second / first", min(values) - margin, max(values) + margin)
    points = [
        {
            **row,
            "first": format_duration(row["seconds of the first"]),
            "second": format_duration(row["seconds of the second"]),
            "times": f"{row['ratio']:.3f}",
        }
        for row in rows
    ]
    layers = [
        mark("rule", [{"ratio": 1.0}], "ideal", y=y),
        *intervals(points, x, y),
        mark("point", points, "measured", x=x, y=y, tips=("K", "first", "second", "times")),
    ]
    return layered(layers, HEIGHT / 2)
