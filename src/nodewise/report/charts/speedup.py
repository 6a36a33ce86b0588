"""Charts of the measured times: speedup, efficiency, repeats, and two studies beside each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np

from nodewise.base.stats import ENOUGH_ROUNDS, Floats
from nodewise.base.units import format_duration, format_efficiency, format_percent, format_speedup
from nodewise.explain.compare import Comparison, ComparisonRow
from nodewise.explain.laws import Growth, Law, LawFit
from nodewise.explain.scaling import Scaling, ScalingRow
from nodewise.report.charts.look import (
    HEIGHT,
    Axis,
    Figure,
    Row,
    about,
    columns,
    data,
    failed_words,
    failures,
    figure,
    folds,
    intervals,
    known,
    label,
    layered,
    linear,
    nodes_axis,
    number,
    places,
    series,
    shortened,
    tooltip,
)
from nodewise.report.tables import place_of_ceiling
from nodewise.study.study import Study

_LAW_NAMES: dict[Growth, str] = {
    "none": "Amdahl's law",
    "linear": "the universal scalability law",
    "log2": "the law with log2 K",
}
_MOST_POINTS = 100  # of one scale; more are a cloud
_BEYOND = 2.0  # a law is drawn to twice the largest measured scale, not further

# What a figure shows of k = K / K0 and the seconds there.
_Shown = Callable[[Floats, Floats], Floats]


class _Curve(NamedTuple):
    """A fitted law to draw: its name, its fit, its points among the measured scales and beyond."""

    name: str
    fit: LawFit
    inside: list[Row]
    beyond: list[Row]

    def values(self, field: str) -> list[float]:
        return [number(row[field]) for row in (*self.inside, *self.beyond)]


def speedup(scaling: Scaling, study: Study | None = None) -> Figure:
    """Speedup against S = K; of a weak study the time of a run against the flat line 1.

    `study` adds the scales at which every run failed.
    """
    failed = study.broken if study else {}
    return _weak_time(scaling, failed) if scaling.regime == "weak" else _strong(scaling, failed)


def _strong(scaling: Scaling, failed: Mapping[int, str]) -> Figure:
    base = scaling.rows[0]
    curve = _curve(scaling, "speedup", lambda k, seconds: base.seconds / seconds)
    rows: list[Row] = [
        {
            "K": row.nodes,
            "rounds": row.rounds,
            "seconds": row.seconds,
            "speedup": row.speedup,
            "low": row.speedup_low,
            "high": row.speedup_high,
            "ideal": row.nodes / scaling.base_nodes,
            "law": curve.fit.speedup[at] if curve else None,
        }
        for at, row in enumerate(scaling.rows)
    ]
    x = _axis_of_scales(scaling, failed, curve)
    top = max(scaling.rows[-1].nodes * (_BEYOND if curve else 1.0), *failed, 0)
    ideal = [{"K": nodes, "speedup": nodes / base.nodes} for nodes in (base.nodes, top)]
    values = [v for row in rows for v in known(row["speedup"], row["low"], row["high"])]
    values += [top / base.nodes, *(curve.values("speedup") if curve else [])]
    low, high = min(values) / 1.4, max(values) * 1.3
    y = folds("speedup", _over(base, "speedup S"), low, high)
    layers = [
        alt.Chart(data(ideal)).mark_line(style="ideal").encode(x=x.x(), y=y.y()),
        label("ideal S = K", x, y, (top, top / base.nodes), align="right"),
        *_law_line(curve, x, y),
        *_ceiling(scaling, curve, x, y, high),
        *_bend(scaling, x, y, low),
        *_measured(scaling, rows, x, y),
        *failures(failed, x, y, low),
    ]
    return figure(
        "speedup",
        "Speedup against the ideal line S = K",
        about(scaling.name, scaling.regime, *_how_to_read(scaling, curve)),
        _speedup_caption(scaling, curve, failed),
        rows,
        layered(layers, 1.13 * HEIGHT),
    )


def _weak_time(scaling: Scaling, failed: Mapping[int, str]) -> Figure:
    """Weak scaling is perfect when the time stays flat; S = K would be the ideal of another job."""
    base = scaling.rows[0]
    curve = _curve(scaling, "time ratio", lambda k, seconds: seconds / base.seconds)
    rows: list[Row] = [
        {
            "K": row.nodes,
            "rounds": row.rounds,
            "seconds": row.seconds,
            "time ratio": row.seconds / base.seconds,
            "low": 1 / row.efficiency_high if row.efficiency_high else None,
            "high": 1 / row.efficiency_low if row.efficiency_low else None,
            "scaled speedup": row.speedup,
            "efficiency": row.efficiency,
        }
        for row in scaling.rows
    ]
    values = [v for row in rows for v in known(row["time ratio"], row["high"])]
    values += [1.0, *(curve.values("time ratio") if curve else [])]
    x = _axis_of_scales(scaling, failed, curve)
    y = linear("time ratio", f"time over that of K={base.nodes}", 0, 1.15 * max(values))
    flat = f"ideal: flat at 1, {format_duration(base.seconds)}"
    layers = [
        alt.Chart(data([{"time ratio": 1.0}])).mark_rule(style="ideal").encode(y=y.y()),
        label(flat, x, y, (base.nodes, 1.0), side="below"),
        *_law_line(curve, x, y),
        *_measured(scaling, rows, x, y),
        *failures(failed, x, y, 0.0),
    ]
    return figure(
        "speedup",
        "Time of a run against the flat line 1, as the work grows with K",
        about(scaling.name, scaling.regime, *_how_to_read(scaling, curve)),
        _weak_caption(scaling),
        rows,
        layered(layers),
    )


def efficiency(scaling: Scaling, study: Study | None = None) -> Figure:
    """Efficiency against the flat line 1, its threshold, and the last K that keeps it."""
    base, failed = scaling.rows[0].seconds, (study.broken if study else {})

    def shown(k: Floats, seconds: Floats) -> Floats:
        return base / seconds if scaling.regime == "weak" else base / (k * seconds)

    curve = _curve(scaling, "efficiency", shown)
    rows: list[Row] = [
        {
            "K": row.nodes,
            "rounds": row.rounds,
            "seconds": row.seconds,
            "speedup": row.speedup,
            "efficiency": row.efficiency,
            "low": row.efficiency_low,
            "high": row.efficiency_high,
            "threshold": scaling.bend.threshold,
        }
        for row in scaling.rows
    ]
    values = [v for row in rows for v in known(row["efficiency"], row["high"])]
    values += [1.0, *(curve.values("efficiency") if curve else [])]
    x = _axis_of_scales(scaling, failed, curve)
    y = linear("efficiency", _over(scaling.rows[0], "efficiency E"), 0, 1.15 * max(values))
    edge = max(scaling.rows[-1].nodes * (_BEYOND if curve else 1.0), *failed, 0)
    layers = [
        alt.Chart(data([{"efficiency": 1.0}])).mark_rule(style="ideal").encode(y=y.y()),
        label("ideal E = 1", x, y, (edge, 1.0), align="right"),
        *_threshold(scaling, x, y, edge, curve.values("efficiency")[-1] if curve else 0.0),
        *_law_line(curve, x, y),
        *_measured(scaling, rows, x, y),
        *_last_above(scaling, x, y),
        *failures(failed, x, y, 0.0),
    ]
    return figure(
        "efficiency",
        "Efficiency against the flat line 1",
        about(scaling.name, scaling.regime, *_how_to_read(scaling, curve)),
        _efficiency_caption(scaling),
        rows,
        layered(layers),
    )


def _curve(scaling: Scaling, field: str, shown: _Shown) -> _Curve | None:
    """The law to draw: the nearer of those with a growing part, else Amdahl's; none that misses."""
    nearest = scaling.laws.nearest()
    growth: Growth = "none"
    fit = scaling.laws.amdahl
    if nearest is not None:
        growth, fit = nearest
    if fit is None or not fit.holds:
        return None
    law = Law(
        s=fit.s or 0.0,
        c=fit.c or 0.0,
        growth=growth,
        regime=scaling.regime,
        base_seconds=fit.base_seconds,
    )

    def points(low: float, high: float, count: int) -> list[Row]:
        k = np.geomspace(low, high, count)
        seconds = law.seconds(k)
        return [
            {
                "K": float(at) * scaling.base_nodes,
                field: float(value),
                "predicted K": f"{at * scaling.base_nodes:.0f}",
                "predicted value": f"{value:.3g}",
                "predicted time": format_duration(float(time)),
            }
            for at, value, time in zip(k, shown(k, seconds), seconds, strict=True)
        ]

    largest = scaling.rows[-1].nodes / scaling.base_nodes
    beyond = points(largest, largest * _BEYOND, 12)
    return _Curve(_LAW_NAMES[growth], fit, points(1.0, largest, 60), beyond)


def _law_line(curve: _Curve | None, x: Axis, y: Axis) -> list[alt.Chart]:
    """The law through the measured scales, and what it predicts beyond them: dashed, hollow."""
    if curve is None:
        return []
    told = tooltip("predicted K", "predicted value", "predicted time")
    return [
        alt.Chart(data(curve.inside)).mark_line(style="law").encode(x=x.x(), y=y.y()),
        alt.Chart(data(curve.beyond)).mark_line(style="beyond").encode(x=x.x(), y=y.y()),
        alt.Chart(data(curve.beyond[-1:]))
        .mark_point(style="predicted")
        .encode(x=x.x(), y=y.y(), tooltip=told),
    ]


def _over(base: ScalingRow, quantity: str) -> str:
    """A quantity, and what it is relative to when that is not one node."""
    return quantity if base.nodes == 1 else f"{quantity}, over K={base.nodes}"


def _axis_of_scales(scaling: Scaling, failed: Mapping[int, str], curve: _Curve | None) -> Axis:
    measured = [row.nodes for row in scaling.rows]
    reach = measured[-1] * _BEYOND if curve else 0.0
    return nodes_axis([*measured, *failed], reach)


def _ceiling(
    scaling: Scaling, curve: _Curve | None, x: Axis, y: Axis, high: float
) -> list[alt.Chart]:
    ceiling = curve.fit.ceiling if curve else None
    if curve is None or ceiling is None or not 1 < ceiling < 0.9 * high:
        return []
    text = f"ceiling {format_speedup(ceiling)}{place_of_ceiling(curve.fit, scaling)}"
    rule = alt.Chart(data([{"speedup": ceiling}])).mark_rule(style="limit").encode(y=y.y())
    # on the side of the chart where the ideal line does not cross the ceiling
    base, reach = scaling.base_nodes, scaling.rows[-1].nodes * _BEYOND
    if ceiling**2 * base < reach:
        return [rule, label(text, x, y, (reach, ceiling), align="right", away=7)]
    return [rule, label(text, x, y, (base, ceiling), away=2)]


def _bend(scaling: Scaling, x: Axis, y: Axis, low: float) -> list[alt.Chart]:
    bend = scaling.bend.first_below
    if bend is None:
        return []
    # the text lies to the right, where the curve has risen away, unless that is the edge
    left = bend * 2 > scaling.rows[-1].nodes
    return [
        alt.Chart(data([{"K": bend}])).mark_rule(style="bend").encode(x=x.x()),
        label(
            f"bend: E < {scaling.bend.threshold:.2f} from K={bend}",
            x,
            y,
            (bend, low),
            style="warning",
            align="right" if left else "left",
        ),
    ]


def _threshold(scaling: Scaling, x: Axis, y: Axis, edge: float, end: float) -> list[alt.Chart]:
    """The threshold, named at the side on which the points keep further away from it."""
    threshold = scaling.bend.threshold
    first, last = scaling.rows[1].efficiency, scaling.rows[-1].efficiency
    at_right = min(abs(last - threshold), abs(end - threshold)) > 0.12
    at_right = at_right or abs(last - threshold) > abs(first - threshold)
    near = end if at_right else first
    return [
        alt.Chart(data([{"efficiency": threshold}])).mark_rule(style="bend").encode(y=y.y()),
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


def _last_above(scaling: Scaling, x: Axis, y: Axis) -> list[alt.Chart]:
    last = scaling.bend.last_above
    if last is None or scaling.bend.first_below is None:
        return []
    row = scaling.row(last)
    ring = alt.Chart(data([{"K": last, "efficiency": row.efficiency}])).mark_point(style="ring")
    text = f"K={last}: E = {format_efficiency(row.efficiency)}"
    return [
        ring.encode(x=x.x(), y=y.y()),
        label(text, x, y, (last, row.efficiency), style="verdict", away=9),
    ]


def _measured(scaling: Scaling, rows: Sequence[Row], x: Axis, y: Axis) -> list[alt.Chart]:
    """Points with their intervals; pointed at, they say seconds beside the ratio."""
    told = [
        {
            **row,
            "time": format_duration(one.seconds),
            "S": _with_bounds(one.speedup, one.speedup_low, one.speedup_high, format_speedup),
            "E": _with_bounds(
                one.efficiency, one.efficiency_low, one.efficiency_high, format_efficiency
            ),
        }
        for row, one in zip(rows, scaling.rows, strict=True)
    ]
    return [
        *intervals(told, x, y),
        alt.Chart(data(told))
        .mark_point(style="measured")
        .encode(x=x.x(), y=y.y(), tooltip=tooltip("K", "rounds", "time", "S", "E")),
    ]


def _with_bounds(
    value: float, low: float | None, high: float | None, form: Callable[[float], str]
) -> str:
    if low is None or high is None:
        return form(value)
    return f"{form(value)} ({form(low)} to {form(high)})"


def _how_to_read(scaling: Scaling, curve: _Curve | None) -> list[str]:
    bars = "points: single runs"
    if any(row.speedup_low is not None for row in scaling.rows):
        bars = f"points: {scaling.center}; bars: {scaling.interval}"
    line = f"line: {curve.name}, dashed where it predicts" if curve else ""
    return ["; ".join(part for part in (bars, line) if part)]


def _speedup_caption(scaling: Scaling, curve: _Curve | None, failed: Mapping[int, str]) -> str:
    fastest, base = scaling.row(scaling.fastest), scaling.rows[0]
    if fastest is base:
        text = f"No scale is faster than K={base.nodes}, {format_duration(base.seconds)}."
    else:
        text = (
            f"The fastest scale is K={fastest.nodes}: {format_speedup(fastest.speedup)} times as "
            f"fast as K={base.nodes} ({format_duration(fastest.seconds)} instead of "
            f"{format_duration(base.seconds)})."
        )
    bend = scaling.bend
    if bend.first_below is None:
        text += f" Efficiency stays at or above {bend.threshold:.2f} at every scale."
    else:
        text += f" From K={bend.first_below} on efficiency is below {bend.threshold:.2f}."
    if curve is None:
        text += " No fitted law describes these points."
    elif curve.fit.ceiling is not None:
        ceiling = format_speedup(curve.fit.ceiling)
        text += f" By {curve.name} no scale reaches more than {ceiling}."
    return text + failed_words(failed)


def _weak_caption(scaling: Scaling) -> str:
    base, last = scaling.rows[0], scaling.rows[-1]
    return (
        f"With {last.nodes / base.nodes:g} times the work on as many times the nodes, a run takes "
        f"{format_duration(last.seconds)} at K={last.nodes} instead of "
        f"{format_duration(base.seconds)} at K={base.nodes}: efficiency "
        f"{format_efficiency(last.efficiency)}, {format_speedup(last.speedup)} times the work per "
        "second."
    )


def _efficiency_caption(scaling: Scaling) -> str:
    bend, last = scaling.bend, scaling.rows[-1]
    end = f"at K={last.nodes} it is {format_efficiency(last.efficiency)}"
    end += f" ({format_duration(last.seconds)})"
    if bend.first_below is None:
        return f"Efficiency stays at or above {bend.threshold:.2f}; {end}."
    first = scaling.row(bend.first_below)
    share = bend.shares.get(str(first.nodes))
    sure = f" in {format_percent(share)} of resamples" if share is not None else ""
    text = (
        f"K={first.nodes} is the first scale below {bend.threshold:.2f}{sure}, at "
        f"{format_efficiency(first.efficiency)} ({format_duration(first.seconds)})"
    )
    if bend.last_above is not None:
        kept = scaling.row(bend.last_above)
        text += f"; K={kept.nodes} is the last above, at {format_efficiency(kept.efficiency)}"
    return f"{text}." if first is last else f"{text}; {end}."


def repeats(study: Study, scaling: Scaling) -> Figure | None:
    """Every run as a point, in the order of its rounds; nothing where no scale was repeated."""
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
    spread = max(abs(number(point["off"])) for point in points) or 1.0
    top = 1.35 * spread
    ticks = alt.Axis(tickCount=6, format="+~f")
    y = linear("off", f"off the {scaling.center}, %", -1.1 * spread, top, ticks)
    left, right = places("left", len(centers)), alt.X2("right:Q")
    chart = columns(
        [(row.nodes, format_duration(row.seconds)) for row in scaling.rows],
        y,
        top,
        [
            alt.Chart(data([row for row in centers if row["low"] is not None]))
            .mark_rect(style="band")
            .encode(x=left, x2=right, y=y.y("low"), y2="high:Q"),
            alt.Chart(data(centers)).mark_rule(style="wall").encode(x=left, x2=right, y=y.y()),
            alt.Chart(data(points))
            .mark_point(style="measured")
            .encode(
                x=places("place", len(centers)), y=y.y(), tooltip=tooltip("K", "round", "time")
            ),
        ],
    )
    enough = min(row.rounds for row in scaling.rows) >= ENOUGH_ROUNDS
    band = "95 % interval of the median" if enough else "range of the runs"
    return figure(
        "repeats",
        "Every run, beside the centre of its scale",
        about(
            study.name,
            study.regime,
            f"line: {scaling.center}; band: {band}; points from left to right by round",
        ),
        _repeats_caption(study, scaling),
        [
            {"K": row.nodes, "round": run.round, "seconds": run.seconds}
            for row in scaling.rows
            for run in study.at(row.nodes)
        ],
        chart,
    )


def _center_and_band(row: ScalingRow, at: int) -> Row:
    low, high = row.seconds_low, row.seconds_high
    return {
        "left": at + 0.1,
        "right": at + 0.9,
        "off": 0.0,
        "low": None if low is None else 100 * (low / row.seconds - 1),
        "high": None if high is None else 100 * (high / row.seconds - 1),
    }


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
    scales = sorted({row.nodes for result in results for row in result.rows})
    rows: list[Row] = [
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
    read = "below 1 the second is faster"
    if any(row.ratio_low is not None for row in comparison.rows):
        read += f"; bars: {comparison.interval}"
    return figure(
        "compare",
        "Two studies beside each other",
        about(f"{names[0]} and {names[1]}", comparison.regime, read),
        _compare_caption(comparison.rows[-1], names),
        rows,
        alt.VConcatChart(vconcat=[_both_curves(results, names, scales), _ratios(rows, scales)]),
    )


def _two_names(first: str, second: str) -> tuple[str, str]:
    one, other = shortened(first, 40), shortened(second, 40)
    return (one, other) if one != other else (f"{one} (first)", f"{other} (second)")


def _both_curves(
    results: tuple[Scaling, Scaling], names: tuple[str, str], scales: Sequence[int]
) -> alt.LayerChart:
    weak = results[0].regime == "weak"
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
        for name, result in zip(names, results, strict=True)
        for row in result.rows
    ]
    values = [value for row in points for value in known(row["value"], row["low"], row["high"])]
    x = nodes_axis(scales)
    base = min(result.base_nodes for result in results)
    top = max(*values, 1.0 if weak else max(scales) / base)
    low, high = min(values) / 1.3, top * 1.3
    y = folds("value", "speedup S", low, high)
    if weak:
        y = linear("value", "efficiency E", 0, max(1.15, high))
    ideal = [{"K": n, "value": 1.0 if weak else n / base} for n in (min(scales), max(scales))]
    end = (max(scales), ideal[-1]["value"])
    return layered(
        [
            alt.Chart(data(ideal)).mark_line(style="ideal").encode(x=x.x(), y=y.y()),
            label("ideal E = 1" if weak else "ideal S = K", x, y, end, align="right"),
            *series(names, "study", points, x, y, tooltip("study", "K", "time", "S", "E")),
        ]
    )


def _ratios(rows: Sequence[Row], scales: Sequence[int]) -> alt.LayerChart:
    values = [1.0, *(v for row in rows for v in known(row["ratio"], row["low"], row["high"]))]
    margin = 0.1 * (max(values) - min(values)) or 0.1
    x = nodes_axis(scales)
    y = linear("ratio", "second / first", min(values) - margin, max(values) + margin)
    told = [
        {
            **row,
            "first": format_duration(number(row["seconds of the first"])),
            "second": format_duration(number(row["seconds of the second"])),
            "times": f"{number(row['ratio']):.3f}",
        }
        for row in rows
    ]
    return layered(
        [
            alt.Chart(data([{"ratio": 1.0}])).mark_rule(style="ideal").encode(y=y.y()),
            *intervals(told, x, y),
            alt.Chart(data(told))
            .mark_point(style="measured")
            .encode(x=x.x(), y=y.y(), tooltip=tooltip("K", "first", "second", "times")),
        ],
        HEIGHT / 2,
    )


def _compare_caption(last: ComparisonRow, names: tuple[str, str]) -> str:
    text = (
        f"At K={last.nodes}, the largest scale of both, {names[1]} takes "
        f"{format_duration(last.second_seconds)} and {names[0]} "
        f"{format_duration(last.first_seconds)}: {last.ratio:.3f} times as long"
    )
    if last.ratio_low is not None and last.ratio_high is not None:
        text += f" (between {last.ratio_low:.3f} and {last.ratio_high:.3f})"
    told = {
        "not told apart": "which chance alone could give",
        "unknown": "too few rounds to rule out chance",
    }
    return f"{text}, {told.get(last.second_is, last.second_is)}."
