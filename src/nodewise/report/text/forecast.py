"""Predictions and advice as lines and tables; what was predicted never looks measured."""

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_seconds,
    format_speedup,
)
from nodewise.decide.forecast import Advice, Forecast, ForecastRow, Landmark
from nodewise.decide.paper.relocate import Relocated
from nodewise.report.tables import Table, between
from nodewise.report.text.findings import Report

_INTERVALS = ("80 % between", "95 % between")


def forecast_report(result: Forecast) -> Report:
    """The curve, its landmarks with their bounds, and the laws behind it."""
    lines: Report = [
        f"**{result.name}**: {forecast_headline(result)}",
        "",
        forecast_table(result),
        f"{result.regime} scaling; from {result.evidence}; intervals hold 80 and 95 of 100 curves "
        f"that were published by others; measured rows carry {_noise(result)}.",
        "",
        f"Cheapest: {where(result.cheapest)}.",
        f"Fastest: {where(result.fastest)}.",
        f"Knee: {where(result.knee)}.",
    ]
    if result.unknown_beyond is not None:
        lines.append(
            f"note: Beyond K={result.unknown_beyond} nothing is claimed: a growing load brings no "
            "more there, and what follows a saturation is not written in the points before it."
        )
        return lines
    return [*lines, "", _laws_table(result)]


def beyond_lines(result: Forecast, priced: bool) -> Report:
    """What a report of a study says about scales nobody ran; `priced`: nodes have one price."""
    landmarks = [("Cheapest", result.cheapest)] if priced else []
    landmarks += [("Fastest", result.fastest), ("Knee", result.knee)]
    return [
        f"Nothing below was run, unless it says so. {capitalised(forecast_headline(result))}",
        *(f"  **{name}**: {where(landmark)}." for name, landmark in landmarks),
        beyond_table(result),
        f"From {result.evidence}. Measured rows carry {_noise(result)}, predicted ones how far "
        "published curves strayed from such predictions.",
    ]


def beyond_table(result: Forecast) -> Table:
    """The seconds alone: what they cost stands elsewhere, and only for what was measured."""
    return Table(
        name="Measured and predicted times",
        titles=("K", "", "seconds", *_INTERVALS, "speedup", "efficiency"),
        rows=tuple(_cells(row, result.currency)[:7] for row in result.doublings),
        left=frozenset({""}),
    )


def relocated_report(result: Relocated) -> Report:
    """The curve on another cluster, what moved by what, and what was assumed."""
    told = result.forecast
    return [
        f"**{result.name} on {result.cluster}**: {forecast_headline(told)}",
        "",
        relocated_table(result),
        f"{told.regime} scaling; nothing in this table but the second column was measured.",
        "",
        f"Cheapest there: {where(told.cheapest)}.",
        f"Fastest there: {where(told.fastest)}.",
        "",
        _moved_table(result),
        "",
        *(f"assumed: {line}" for line in result.assumptions),
    ]


def relocated_table(result: Relocated) -> Table:
    """Seconds here, and what they are expected to be there."""
    rows = []
    for row in result.forecast.rows:
        here = result.measured_here.get(row.nodes)
        cells = _cells(row, result.forecast.currency)
        rows.append((cells[0], "" if here is None else format_seconds(here), *cells[1:]))
    return Table(
        name="Times measured here and predicted there",
        titles=("K", "measured here", "", "seconds there", *_INTERVALS, "speedup", "efficiency",
                "cost", "P(cheapest)"),
        rows=tuple(rows),
        left=frozenset({""}),
    )  # fmt: skip


def forecast_table(result: Forecast) -> Table:
    """Seconds at every scale, measured or predicted, with 80 and 95 % intervals."""
    return Table(
        name="Measured and predicted times",
        titles=("K", "", "seconds", *_INTERVALS, "speedup", "efficiency", "cost", "P(cheapest)"),
        rows=tuple(_cells(row, result.currency) for row in result.rows),
        left=frozenset({""}),
    )  # fmt: skip


def advice_report(result: Advice) -> Report:
    """The scale to run next, or that no run is worth its money."""
    money = format_money(result.expected_cost, result.currency)
    regret = format_money(result.expected_regret, result.currency)
    todo = "stop measuring" if result.measure is None else f"measure K={result.measure} next"
    lines: Report = [
        f"**{result.name}: {todo}**, because {result.because}.",
        f"  As things are known, K={result.best} is the best choice: {money} a run, expected to be "
        f"{regret} above the best there is.",
    ]
    if result.runs:
        rows = tuple(
            (
                str(run.nodes),
                format_money(run.cost, result.currency),
                format_money(run.saving, result.currency),
                f"{run.saving_per_cost:.3g}",
                format_percent(run.could_change),
            )
            for run in result.runs
        )
        titles = ("K", "cost of the run", "saves a later run", "saved per cost", "moves the choice")
        lines += ["", Table(name="What each run is worth", titles=titles, rows=rows)]
    return lines


def forecast_headline(result: Forecast) -> str:
    """The time at the largest scale that was asked for and not run."""
    ahead = [row for row in result.rows if not row.measured and row.seconds is not None]
    if not ahead and result.unknown_beyond is None:
        return "every scale asked for was measured."
    if not ahead:
        return "nothing beyond the measured scales can be told."
    row = ahead[-1]
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    return (
        f"at K={row.nodes} a run is predicted to take {format_duration(row.seconds)}, between "
        f"{format_duration(row.low80)} and {format_duration(row.high80)}."
    )


def _noise(result: Forecast) -> str:
    return "the noise of their runs" if result.repeated else "the usual noise of a single run"


def _cells(row: ForecastRow, currency: str) -> tuple[str, ...]:
    if row.seconds is None or row.speedup is None or row.efficiency is None or row.cost is None:
        return (str(row.nodes), "unknown", *[""] * 7)
    return (
        str(row.nodes),
        "measured" if row.measured else "predicted",
        format_seconds(row.seconds),
        between(row.low80, row.high80, format_seconds),
        between(row.low95, row.high95, format_seconds),
        format_speedup(row.speedup),
        format_efficiency(row.efficiency),
        format_money(row.cost, currency),
        "" if row.probability_cheapest is None else format_percent(row.probability_cheapest),
    )


def where(landmark: Landmark) -> str:
    """A landmark with its bounds, in words."""
    if landmark.at_least and landmark.low == landmark.nodes == landmark.high:
        return f"K={landmark.nodes} or more; the curve was not followed further"
    more = " or more" if landmark.at_least else ""
    return f"K={landmark.nodes}, with 80 % between {landmark.low} and {landmark.high}{more}"


def _moved_table(result: Relocated) -> Table:
    largest = max(result.measured_here)
    rows = tuple(
        (moved.part, format_seconds(moved.here), format_seconds(moved.there), moved.by)
        for moved in result.parts
    )
    return Table(
        name=f"What moves at K={largest}",
        titles=("part", f"here at K={largest}", "there", "moves with"),
        rows=rows,
        left=frozenset({"part", "moves with"}),
    )


def _laws_table(result: Forecast) -> Table:
    rows = tuple(
        (law.law, format_seconds(law.seconds), "answers" if law.weight else "",
         "" if law.rms is None else format_percent(law.rms))
        for law in result.laws
    )  # fmt: skip
    at = f"seconds at K={2 * max(row.nodes for row in result.rows if row.measured)}"
    return Table(
        name="The laws behind it",
        titles=("law", at, "", "off by"),
        rows=rows,
        left=frozenset({"law", ""}),
    )
