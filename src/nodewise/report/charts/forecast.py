"""The chart beyond the runs: what was measured is filled, what is expected is hollow and dashed."""

from nodewise.base.units import capitalised, format_duration
from nodewise.decide.forecast import Forecast, ForecastRow
from nodewise.report.charts.look import (
    Axis,
    Definition,
    Figure,
    Row,
    about,
    figure,
    folds,
    intervals,
    label,
    layered,
    linear,
    mark,
    nodes_axis,
    time_unit,
    values_of,
)
from nodewise.report.text.forecast import forecast_headline, where


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
    values = values_of(rows, "low", "high")
    x = nodes_axis(named, drawn[-1].nodes)
    low, high = min(values) / 1.25, max(values) * 1.25
    title = f"time of a run, {unit.name}"
    y = folds("shown", title, low, high)
    if forecast.regime == "weak" and high < 4 * low:  # hardly a doubling to be marked
        y = linear("shown", title, 0.0, high)
    measured = [row for row in rows if row["kind"] == "measured"]
    hollow = [row for row in rows if row["K"] in ahead]
    further = [row for row in rows if row["K"] >= last] if drawn[-1].nodes > last else []
    tips = ("K", "kind", "time", "80 % interval")
    layers = [
        *_ideal(forecast, x, y, unit.seconds, low),
        mark("area", further, "band", x=x, y=y.of("low"), y2="high"),
        mark("line", further, "beyond", x=x, y=y),
    ]
    for some, style in ((measured, "measured"), (hollow, "predicted")):
        layers += [*intervals(some, x, y, style), mark("point", some, style, x=x, y=y, tips=tips)]
    caption = f"{capitalised(forecast_headline(forecast))} Fastest: {where(forecast.fastest)}."
    end = forecast.unknown_beyond
    if end is not None:
        layers += [
            mark("rule", [{"K": end}], "bend", x=x),
            label("unknown beyond", x, y, (end, low), style="warning", align="right"),
        ]
        caption = (
            f"Nothing is predicted above K={end}: throughput no longer grows with the load there."
        )
    read = "filled: measured; hollow and dashed: predicted, with the 80 % interval"
    return figure(
        "forecast",
        "Measured and predicted run time",
        about(forecast.name, forecast.regime, read),
        caption,
        [_numbers(row) for row in forecast.doublings],
        layered(layers),
    )


def _row(row: ForecastRow, unit: float) -> Row:
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    return {
        "K": row.nodes,
        "kind": "measured" if row.measured else "predicted",
        "shown": row.seconds / unit,
        "low": row.low80 / unit,
        "high": row.high80 / unit,
        "time": format_duration(row.seconds),
        "80 % interval": f"{format_duration(row.low80)} to {format_duration(row.high80)}",
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


def _ideal(forecast: Forecast, x: Axis, y: Axis, unit: float, low: float) -> list[Definition]:
    """T0 K0 / K; flat where the work grows with K."""
    first, last = forecast.rows[0], [row for row in forecast.rows if row.seconds is not None][-1]
    assert first.seconds is not None
    start = first.seconds / unit
    if forecast.regime == "weak":
        flat = mark("rule", [{"shown": start}], "limit", y=y)
        return [flat, label("ideal: flat", x, y, (first.nodes, start), side="below")]
    # Where the line leaves the picture, it is drawn to the edge.
    end = min(last.nodes, first.nodes * start / low)
    line = [{"K": k, "shown": start * first.nodes / k} for k in (first.nodes, end)]
    middle = (first.nodes * end) ** 0.5
    at = middle, start * first.nodes / middle
    return [
        mark("line", line, "ideal", x=x, y=y),
        label("ideal", x, y, at, align="right", side="below"),
    ]
