"""Predictions and advice as lines and tables; what was predicted never looks measured."""

from collections.abc import Mapping, Sequence

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
from nodewise.explain.predict.laws import LawName
from nodewise.report.tables import Table, between, given, in_currency, rows_table
from nodewise.report.text.findings import (
    Report,
    better_words,
    compared_words,
    how_sure,
    knee_line,
    listed,
)
from nodewise.study.check import Check, Validity

_LAWS: dict[LawName, str] = {
    "amdahl": "a serial and a parallel part",
    "log2": "these and a cost of log2 K",
    "universal": "these and a cost of K",
    "drift": "no formula, a smooth curve whose slope changes with K as that of the measured times",
    "stages": "a law for each recorded stage",
}


def forecast_report(result: Forecast) -> Report:
    """The curve, its landmarks with their bounds, and the laws behind it."""
    lines: Report = [
        f"**{result.name}**: {forecast_headline(result)}",
        *_doubt(result.validity),
        *_gates(result.gates),
        "",
        forecast_table(result),
        f"{result.regime} scaling; from {result.evidence}; intervals are calibrated on published "
        f"scaling curves; those of measured rows are {_noise(result)}{_unit_of_work(result)}.",
        *_never_end(result),
        "",
        *_recommended(result),
        f"Cheapest{result.compared_for.clause}: {where(result.cheapest)}.",
        f"Fastest: {where(result.fastest)}.",
        _knee(result),
    ]
    if result.unknown_beyond is not None:
        lines.append(
            f"note: Beyond K={result.unknown_beyond} nothing is claimed: a growing load brings no "
            "more there, and what follows a saturation is not written in the points before it."
        )
    if not result.laws:
        return lines
    return [*lines, "", _laws_table(result), _laws_line(result)]


def _never_end(result: Forecast) -> Report:
    if not result.never_end:
        return []
    return [
        f"Not shown: K={listed(result.never_end)}, where nodes fail too often for a run to end."
    ]


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
    if result.better is not None:
        words = better_words(result.better, result.currency, result.compared_for)
        lines.append(f"Measure next: {words}.")
    return lines


def _knee(result: Forecast) -> str:
    """The knee as `scale` has it; beyond the measured scales that of the predicted curve."""
    found = result.measured_knee
    if found is not None:
        return knee_line(result.regime, found.nodes, found.low, found.high)
    if result.knee is None:
        return knee_line(result.regime, None)
    return f"Knee: beyond the measured scales, predicted at {where(result.knee)}."


def beyond_lines(result: Forecast, priced: bool) -> Report:
    """What a report of a study says about scales without a run; `priced`: nodes have one price."""
    cheapest = f"Cheapest{result.compared_for.clause}"
    landmarks = [(cheapest, result.cheapest)] if priced else []
    landmarks += [("Fastest", result.fastest)]
    return [
        f"Predictions, except rows marked measured. {capitalised(forecast_headline(result))}",
        *(f"  **{name}**: {where(landmark)}." for name, landmark in landmarks),
        *([] if result.measured_knee else [f"  {_knee(result).replace('Knee', '**Knee**', 1)}"]),
        beyond_table(result),
        f"From {result.evidence}. Intervals are calibrated on published scaling curves; those of "
        f"measured rows are {_noise(result)}.",
    ]


def beyond_table(result: Forecast) -> Table:
    """The seconds alone: their cost is elsewhere, and only for what was measured."""
    rows = [_cells(row, result) for row in result.doublings]
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
        cells = _cells(row, result.forecast, seconds="seconds there")
        rows.append({"K": cells.pop("K"), "measured here": here, **cells})
    rows += _other_row(result.forecast, rows[0])
    return rows_table("Times measured here and predicted there", rows, left=("",))


def forecast_table(result: Forecast) -> Table:
    """Seconds at every scale, measured or predicted, with 80 and 95 % intervals."""
    rows = [_cells(row, result) for row in result.rows]
    rows += _other_row(result, rows[0])
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
        return format_money(result.compared_for.amount(value), result.currency)

    unit = result.compared_for
    of = unit.words if unit.clause else "a later run"
    of = "of the time" if result.regret_is_of_time else of
    rows = [
        {
            "K": run.nodes,
            "cost of the run": format_money(run.cost, result.currency),
            f"saves {of}": saves(run.saving),
            "saved per cost": f"{run.saving_per_cost:.3g}",
            "changes the choice": format_percent(run.could_change),
            "": "<- next" if run.nodes == result.measure else "",
        }
        for run in result.runs
    ]
    if not rows:
        return lines
    return [*lines, "", rows_table("What each run is worth", rows, left=("",), sparse=True)]


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
        f"at K={row.nodes} a run is predicted to take {format_duration(row.seconds)}, with 80 % "
        f"between {format_duration(row.low80)} and {format_duration(row.high80)}."
    )


def _unit_of_work(result: Forecast) -> str:
    """What costs are compared for, where runs do not do the same work."""
    words = compared_words(result.compared_for, result.rows[0].nodes)
    return f"; {words}" if words else ""


def _doubt(validity: Validity) -> list[str]:
    return [f"  {capitalised(validity.clause)}."] if validity.clause else []


def _gates(checks: Sequence[Check]) -> list[str]:
    failed = [check for check in checks if check.verdict == "fail"]
    return [f"  Gate not met: {check.rule}; {check.evidence}." for check in failed]


def _noise(result: Forecast) -> str:
    return "the noise of their runs" if result.repeated else "the usual noise of a single run"


def _other_row(result: Forecast, row: Mapping[str, str]) -> list[dict[str, str]]:
    """How likely a scale without a row is the cheapest."""
    if not result.probability_other:
        return []
    chance = format_percent(result.probability_other)
    return [dict.fromkeys(row, "") | {"K": "other", "P(cheapest)": chance}]


def _cells(row: ForecastRow, result: Forecast, seconds: str = "seconds") -> dict[str, str]:
    known, unit = "measured" if row.measured else "predicted", result.compared_for
    money, per = in_currency(result.currency), {}
    if unit.clause:
        each = None
        if row.cost is not None and row.relative_work is not None:
            each = unit.amount(row.cost / row.relative_work)
        per = {f"cost{unit.label}": given(each, money)}
    return {
        "K": str(row.nodes),
        "": "unknown" if row.seconds is None else known,
        seconds: given(row.seconds, format_seconds),
        "80 % between": between(row.low80, row.high80, format_seconds),
        "95 % between": between(row.low95, row.high95, format_seconds),
        "speedup": given(row.speedup, format_speedup),
        "efficiency": given(row.efficiency, format_efficiency),
        "cost a run" if unit.clause else "cost": given(row.cost, money),
        **per,
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


def _laws_line(result: Forecast) -> str:
    """What the laws are, and how they make the answer."""
    names = [law.law for law in result.laws]
    flat = "amdahl" if result.regime == "strong" else "log2"
    answer = f"the median of {flat}, universal and drift, or a law that meets every measured time"
    if "stages" in names:
        answer = "the sum of the stages"
    return f"{'; '.join(f'{name}: {_LAWS[name]}' for name in names)}. The answer is {answer}."
