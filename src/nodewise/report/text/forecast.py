"""Predictions and advice as lines and tables; what was predicted never looks measured."""

from collections.abc import Sequence

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_seconds,
    format_speedup,
)
from nodewise.decide.forecast import Advice, Forecast, ForecastRow
from nodewise.decide.paper.relocate import Relocated
from nodewise.explain.predict.curve import Landmark
from nodewise.report.tables import Table, between, given, in_currency, rows_table
from nodewise.report.text.findings import Report, better_words, how_sure
from nodewise.study.check import Check, Validity


def forecast_report(result: Forecast) -> Report:
    """The curve, its landmarks with their bounds, and the laws behind it."""
    lines: Report = [
        f"**{result.name}**: {forecast_headline(result)}",
        *_doubt(result.validity),
        *_gates(result.gates),
        "",
        forecast_table(result),
        f"{result.regime} scaling; from {result.evidence}; intervals are calibrated on published "
        f"scaling curves; those of measured rows are {_noise(result)}.",
        "",
        *_recommended(result),
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


def _recommended(result: Forecast) -> Report:
    """The scale that decide recommends, and one that is likely better."""
    if result.recommended is None:
        return []
    nodes, among = result.recommended.nodes, result.recommended.undecided
    undecided = f"undecided between K={', '.join(map(str, among))}; so far " if among else ""
    lines: Report = [
        "Recommended: no measured scale passes every gate."
        if nodes is None
        else f"Recommended: {undecided}K={nodes}, {result.recommended.because}."
    ]
    return lines + ([f"Measure next: {better_words(result.better, result.currency)}."]
                    if result.better else [])  # fmt: skip


def beyond_lines(result: Forecast, priced: bool) -> Report:
    """What a report of a study says about scales without a run; `priced`: nodes have one price."""
    landmarks = [("Cheapest", result.cheapest)] if priced else []
    landmarks += [("Fastest", result.fastest), ("Knee", result.knee)]
    return [
        f"Predictions, except rows marked measured. {capitalised(forecast_headline(result))}",
        *(f"  **{name}**: {where(landmark)}." for name, landmark in landmarks),
        beyond_table(result),
        f"From {result.evidence}. Intervals are calibrated on published scaling curves; those of "
        f"measured rows are {_noise(result)}.",
    ]


def beyond_table(result: Forecast) -> Table:
    """The seconds alone: their cost is elsewhere, and only for what was measured."""
    rows = [_cells(row, result.currency) for row in result.doublings]
    times = [dict(list(cells.items())[:7]) for cells in rows]
    return rows_table("Measured and predicted times", times, left=("",))


def relocated_report(result: Relocated) -> Report:
    """The curve on another cluster, what moved by what, and what was assumed."""
    there = result.forecast
    return [
        f"**{result.name} on {result.cluster}**: {forecast_headline(there)}",
        "",
        relocated_table(result),
        f"{there.regime} scaling; only the second column was measured.",
        "",
        f"Cheapest there: {where(there.cheapest)}.",
        f"Fastest there: {where(there.fastest)}.",
        "",
        _moved_table(result),
        "",
        *(f"assumed: {line}" for line in result.assumptions),
    ]


def relocated_table(result: Relocated) -> Table:
    """Seconds here, and what they are expected to be there."""
    rows = []
    for row in result.forecast.rows:
        here = given(result.measured_here.get(row.nodes), format_seconds)
        cells = _cells(row, result.forecast.currency, seconds="seconds there")
        rows.append({"K": cells.pop("K"), "measured here": here, **cells})
    return rows_table("Times measured here and predicted there", rows, left=("",))


def forecast_table(result: Forecast) -> Table:
    """Seconds at every scale, measured or predicted, with 80 and 95 % intervals."""
    rows = [_cells(row, result.currency) for row in result.rows]
    return rows_table("Measured and predicted times", rows, left=("",))


def advice_report(result: Advice) -> Report:
    """The scale to run next, the rounds to repeat, or that no run is worth its money."""
    money = "" if result.cost is None else f" for {format_money(result.cost, result.currency)}"
    if result.measure is not None:
        todo = f"measure K={result.measure} next{money}"
    elif result.repeat:
        scales = ", ".join(map(str, result.repeat))
        rounds = "round" if result.rounds == 1 else "rounds"
        todo = f"repeat K={scales} for {result.rounds} more {rounds}{money}"
    else:
        todo = "stop measuring"
    lines: Report = [f"**{result.name}: {todo}**, because {result.because}."]
    if result.best is None:
        lines.append(f"  Now: no scale. {capitalised(result.recommended.because)}.")
    else:
        sure = ""
        if result.recommended.probability is not None:
            sure = f" ({how_sure(result.recommended.probability)})"
        lines.append(f"  Now: K={result.best}{sure}, {result.recommended.because}.")
    lines.append(f"  Objective: {result.objective.name}, because {result.objective.because}.")
    lines += [*_doubt(result.validity), *_gates(result.gates)]

    def saves(value: float) -> str:
        if result.regret_is_of_time:
            return format_percent(value)
        return format_money(value, result.currency)

    of = "of the time" if result.regret_is_of_time else "a later run"
    rows = [
        {
            "K": run.nodes,
            "cost of the run": format_money(run.cost, result.currency),
            f"saves {of}": saves(run.saving),
            "saved per cost": f"{run.saving_per_cost:.3g}",
            "moves the choice": format_percent(run.could_change),
        }
        for run in result.runs
    ]
    return [*lines, "", rows_table("What each run is worth", rows)] if rows else lines


def forecast_headline(result: Forecast) -> str:
    """The time at the largest scale that was asked for and not run."""
    ahead = [row for row in result.rows if not row.measured and row.seconds is not None]
    if not ahead and result.unknown_beyond is None:
        return "every scale asked for was measured."
    if not ahead:
        return "no prediction beyond the measured scales."
    row = ahead[-1]
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    return (
        f"at K={row.nodes} a run is predicted to take {format_duration(row.seconds)}, between "
        f"{format_duration(row.low80)} and {format_duration(row.high80)}."
    )


def _doubt(validity: Validity) -> list[str]:
    return [f"  {capitalised(validity.clause)}."] if validity.clause else []


def _gates(checks: Sequence[Check]) -> list[str]:
    failed = [check for check in checks if check.verdict == "fail"]
    return [f"  Gate not met: {check.rule}; {check.evidence}." for check in failed]


def _noise(result: Forecast) -> str:
    return "the noise of their runs" if result.repeated else "the usual noise of a single run"


def _cells(row: ForecastRow, currency: str, seconds: str = "seconds") -> dict[str, str]:
    known = "measured" if row.measured else "predicted"
    return {
        "K": str(row.nodes),
        "": "unknown" if row.seconds is None else known,
        seconds: given(row.seconds, format_seconds),
        "80 % between": between(row.low80, row.high80, format_seconds),
        "95 % between": between(row.low95, row.high95, format_seconds),
        "speedup": given(row.speedup, format_speedup),
        "efficiency": given(row.efficiency, format_efficiency),
        "cost": given(row.cost, in_currency(currency)),
        "P(cheapest)": given(row.probability_cheapest, format_percent),
    }


def where(landmark: Landmark | None) -> str:
    """A landmark with its bounds, in words."""
    if landmark is None:
        return "unknown"
    if landmark.at_least and landmark.low == landmark.nodes == landmark.high:
        return f"K={landmark.nodes} or more; the curve was not followed further"
    more = " or more" if landmark.at_least else ""
    return f"K={landmark.nodes}, with 80 % between {landmark.low} and {landmark.high}{more}"


def _moved_table(result: Relocated) -> Table:
    largest = max(result.measured_here)
    rows = [
        {
            "part": moved.part,
            f"here at K={largest}": format_seconds(moved.here),
            "there": format_seconds(moved.there),
            "moves with": moved.by,
        }
        for moved in result.parts
    ]
    return rows_table(f"What moves at K={largest}", rows, left=("part", "moves with"))


def _laws_table(result: Forecast) -> Table:
    at = f"seconds at K={2 * max(row.nodes for row in result.rows if row.measured)}"
    rows = [
        {
            "law": law.law,
            at: format_seconds(law.seconds),
            "": "answers" if law.weight else "",
            "off by": given(law.rms, format_percent),
        }
        for law in result.laws
    ]
    return rows_table("The laws behind it", rows, left=("law", ""))
