"""The chart beyond the runs: what was measured is filled, what is expected is hollow and dashed."""

import altair as alt

from nodewise.base.units import format_duration
from nodewise.decide.forecast import Forecast, ForecastRow
from nodewise.report.charts.look import (
    Axis,
    Figure,
    Row,
    about,
    data,
    figure,
    folds,
    intervals,
    known,
    label,
    layered,
    linear,
    nodes_axis,
    time_unit,
    tooltip,
)
from nodewise.report.text.forecast import where


def beyond(forecast: Forecast | None) -> Figure | None:
    """Times at the measured scales and up to four times the largest, with their intervals."""
    if forecast is None:
        return None
    scales = [row.nodes for row in forecast.rows if row.measured]
    last, named = scales[-1], [row.nodes for row in forecast.doublings]
    ahead = [nodes for nodes in named if nodes > last]
    drawn = [row for row in forecast.rows if row.seconds is not None]
    unit = time_unit(max(row.high80 or 0.0 for row in drawn))
    rows = [_row(row, unit.seconds) for row in drawn]
    values = [v for row in rows for v in known(row["low"], row["high"])]
    x = nodes_axis(named, drawn[-1].nodes)
    low, high = min(values) / 1.25, max(values) * 1.25
    title = f"time of a run, {unit.name}"
    y = folds("shown", title, low, high)
    if forecast.regime == "weak" and high < 4 * low:  # hardly a doubling to be marked
        y = linear("shown", title, 0.0, high)
    measured = [row for row in rows if row["kind"] == "measured"]
    hollow = [row for row in rows if row["K"] in ahead]
    layers = [
        *_ideal(forecast, x, y, unit.seconds, low),
        *_band(rows, last, x, y),
        *_points(measured, x, y, "measured"),
        *_points(hollow, x, y, "predicted"),
        *_end(forecast, x, y, low),
    ]
    return figure(
        "forecast",
        "Measured times, and times nobody has measured",
        about(
            forecast.name,
            forecast.regime,
            "filled: measured; hollow and dashed: predicted, with the interval that holds 80 of "
            "100",
        ),
        _caption(forecast),
        [_numbers(row) for row in forecast.doublings],
        layered(layers),
    )  # fmt: skip


def _row(row: ForecastRow, unit: float) -> Row:
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    return {
        "K": row.nodes,
        "kind": "measured" if row.measured else "predicted",
        "shown": row.seconds / unit,
        "low": row.low80 / unit,
        "high": row.high80 / unit,
        "time": format_duration(row.seconds),
        "80 % between": f"{format_duration(row.low80)} and {format_duration(row.high80)}",
    }


def _numbers(row: ForecastRow) -> Row:
    return {
        "K": row.nodes,
        "kind": "unknown" if row.seconds is None else "measured" if row.measured else "predicted",
        "seconds": row.seconds,
        "low 80 %": row.low80,
        "high 80 %": row.high80,
        "low 95 %": row.low95,
        "high 95 %": row.high95,
    }


def _ideal(forecast: Forecast, x: Axis, y: Axis, unit: float, low: float) -> list[alt.Chart]:
    """T0 K0 / K; flat where the work grows with K."""
    first, last = forecast.rows[0], [row for row in forecast.rows if row.seconds is not None][-1]
    assert first.seconds is not None
    start = first.seconds / unit
    if forecast.regime == "weak":
        flat = alt.Chart(data([{"shown": start}])).mark_rule(style="limit").encode(y=y.y())
        words = "ideal: flat"
        return [flat, label(words, x, y, (first.nodes, start), side="below")]
    # Where the line leaves the picture, it is drawn to the edge.
    end = min(last.nodes, first.nodes * start / low)
    line = [{"K": k, "shown": start * first.nodes / k} for k in (first.nodes, end)]
    middle = (first.nodes * end) ** 0.5
    at = middle, start * first.nodes / middle
    return [
        alt.Chart(data(line)).mark_line(style="ideal").encode(x=x.x(), y=y.y()),
        label("ideal", x, y, at, align="right", side="below"),
    ]


def _band(rows: list[Row], last: int, x: Axis, y: Axis) -> list[alt.Chart]:
    further = [row for row in rows if int(row["K"] or 0) >= last]
    if len(further) < 2:
        return []
    base = alt.Chart(data(further)).encode(x=x.x())
    return [
        base.mark_area(style="band").encode(y=y.y("low"), y2="high:Q"),
        base.mark_line(style="beyond").encode(y=y.y()),
    ]


def _points(rows: list[Row], x: Axis, y: Axis, style: str) -> list[alt.Chart]:
    if not rows:
        return []
    points = alt.Chart(data(rows)).mark_point(style=style)
    return [
        *intervals(rows, x, y, style),
        points.encode(x=x.x(), y=y.y(), tooltip=tooltip("K", "kind", "time", "80 % between")),
    ]


def _end(forecast: Forecast, x: Axis, y: Axis, low: float) -> list[alt.Chart]:
    if forecast.unknown_beyond is None:
        return []
    rule = alt.Chart(data([{"K": forecast.unknown_beyond}])).mark_rule(style="bend").encode(x=x.x())
    at = (forecast.unknown_beyond, low)
    return [rule, label("unknown beyond", x, y, at, style="warning", align="right")]


def _caption(forecast: Forecast) -> str:
    if forecast.unknown_beyond is not None:
        last = forecast.unknown_beyond
        return f"Beyond K={last} nothing is claimed: more load brings no more there."
    row = forecast.rows[-1]
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    return (
        f"At K={row.nodes}, where nothing was run, {format_duration(row.seconds)} are expected, "
        f"with 80 % between {format_duration(row.low80)} and {format_duration(row.high80)}. "
        f"The fastest scale is {where(forecast.fastest)}."
    )
