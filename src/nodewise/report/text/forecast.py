"""Predictions and advice as lines and tables; what was predicted never looks measured."""

from collections.abc import Mapping
from functools import partial

from nodewise.base.units import (
    capitalised,
    digits_known,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_seconds,
    format_speedup,
    significant,
)
from nodewise.decide.forecast import Advice, Forecast, ForecastRow
from nodewise.decide.paper.relocate import Relocated
from nodewise.decide.what_if import Change, WhatIf
from nodewise.explain.predict.curve import Landmark
from nodewise.explain.predict.laws import LawName, Part
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.tables import Table, between, given, in_currency, rows_table
from nodewise.report.text.findings import (
    better_words,
    compared_words,
    how_sure,
    knee_words,
    listed,
)
from nodewise.study.check import Validity

_LAWS: dict[LawName, str] = {
    "amdahl": "a serial and a parallel part",
    "log2": "these and a cost of log2 K",
    "universal": "these and a cost of K",
    "drift": "no formula; a smooth curve that continues the measured change of slope",
    "stages": "a law for each recorded stage",
}
_PARTS: dict[Part, str] = {
    "compute": "compute",
    "communication": "communication",
    "serial": "serial work",
    "io": "input/output",
    "waiting": "waiting",
}


def forecast_report(result: Forecast) -> Output:
    """The recommended scale, the curve and its landmarks; the laws behind it in a section."""
    lines = [
        f"**{result.name}**: {forecast_headline(result)}",
        *_doubt(result.validity),
        *_recommended(result),
        f"Cheapest{result.compared_for.clause}: {where(result.cheapest)}. "
        f"Fastest: {where(result.fastest)}.",
        *_largest_loss(result),
        *_never_end(result),
    ]
    if result.unknown_beyond is not None:
        lines.append(
            f"Nothing is predicted above K={result.unknown_beyond}: the work done no longer grows "
            "with the load there."
        )
    lines += [
        *_rivals(result),
        _knee(result),
        f"{capitalised(result.regime)} scaling, from {result.evidence}. Intervals are calibrated "
        f"on published scaling curves; those of measured rows are {_noise(result)}"
        f"{_unit_of_work(result)}.",
    ]
    parts: Report = [_laws_table(result), _laws_line(result)] if result.laws else []
    tables: Report = [forecast_table(result)]
    if result.losses:
        tables.append(_losses_table(result))
    sections = [
        Section(name="forecast", title="Forecast", parts=tables),
        Section(name="laws", title="Prediction laws", parts=parts),
    ]
    return output(lines, short_forecast_table(result), sections, result.gates)


def short_forecast_table(result: Forecast) -> Table:
    """Time with its 80 % interval, speedup, efficiency and cost at every scale."""
    rows = []
    for row in result.rows:
        digits = digits_known(row.seconds or 0.0, row.low80, row.high80)
        form = partial(format_duration, digits=digits)
        cells = _cells(row, result)
        rows.append(
            {
                "K": str(row.nodes),
                "": "" if row.measured else cells[""],
                "time": given(row.seconds, form),
                "80 % interval": between(row.low80, row.high80, form).replace(
                    " s\N{EN DASH}", "\N{EN DASH}"
                ),
                "speedup": given(row.speedup, partial(significant, digits=digits)),
                "efficiency": given(row.efficiency, format_percent),
                **{title: cell for title, cell in cells.items() if title.startswith("cost")},
                "P(cheapest)": cells["P(cheapest)"],
            }
        )
    chosen = None if result.recommended is None else result.recommended.nodes
    strong = next((at for at, row in enumerate(rows) if row["K"] == str(chosen)), None)
    return rows_table(
        "Measured and predicted times",
        rows,
        left=("",),
        strong=strong,
        sparse=True,
        optional=("efficiency", "P(cheapest)", "speedup"),
    )


def _largest_loss(result: Forecast) -> list[str]:
    """What costs most at the largest scale without a run, by the law of each stage."""
    if not result.losses or not result.losses[-1].largest:
        return []
    losses = result.losses[-1]
    largest = [_PARTS[part] for part in losses.largest]
    lost = sum(losses.lost[part] for part in losses.largest)
    whole = sum(losses.seconds.values())
    named = " and ".join(largest)
    return [
        f"At K={losses.nodes} most is predicted to be lost to {named}: "
        f"{format_duration(lost, 2)} of {format_duration(whole, 2)}."
    ]


def _losses_table(result: Forecast) -> Table:
    """Predicted seconds of each part, one row per scale."""
    taken = [part for part, seconds in result.losses[-1].seconds.items() if seconds > 0]
    rows = [
        {
            "K": str(losses.nodes),
            **{_PARTS[part]: format_seconds(losses.seconds[part]) for part in taken},
            "most is lost to": ", ".join(_PARTS[part] for part in losses.largest),
        }
        for losses in result.losses
    ]
    return rows_table("Predicted seconds by part", rows, left=("most is lost to",))


def _never_end(result: Forecast) -> list[str]:
    if not result.never_end:
        return []
    return [
        f"Not shown: K={listed(result.never_end)}, where nodes fail too often for a run to end."
    ]


def _recommended(result: Forecast) -> list[str]:
    """The scale that decide recommends, and one that is likely better."""
    if result.recommended is None:
        return []
    nodes, among = result.recommended.nodes, result.recommended.undecided
    undecided = f"undecided between K={', '.join(map(str, among))}; so far " if among else ""
    lines = [
        "Recommended: no measured scale passes every gate."
        if nodes is None
        else f"Recommended: {undecided}K={nodes}, {result.recommended.because}."
    ]
    if result.better is not None:
        words = better_words(result.better, result.currency, result.compared_for)
        lines.append(f"Measure next: {words}.")
    return lines


def _rivals(result: Forecast) -> list[str]:
    """Two laws that the measured times cannot tell apart."""
    if not result.rivals:
        return []
    one, other = result.rivals
    at = _twice_the_largest(result)
    return [
        f"Not identifiable from these times: at K={at} {one.law} says "
        f"{format_duration(one.seconds, digits=2)} and {other.law} "
        f"{format_duration(other.seconds, digits=2)}, and both fit the measured times."
    ]


def _knee(result: Forecast) -> str:
    """The knee as `scale` has it; beyond the measured scales that of the predicted curve."""
    found = result.measured_knee
    if found is not None:
        return knee_words(result.regime, found.nodes, found.low, found.high)
    if result.knee is None:
        return knee_words(result.regime, None)
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


def relocated_report(result: Relocated) -> Output:
    """The curve on another cluster; what moved by what and what was assumed in sections."""
    there = result.forecast
    lines = [
        f"**{result.name} on {result.cluster}**: {forecast_headline(there)}",
        f"Cheapest there: {where(there.cheapest)}. Fastest there: {where(there.fastest)}.",
        f"{capitalised(there.regime)} scaling; only the second column was measured.",
    ]
    sections = [
        Section(name="parts", title="Parts", parts=[_moved_table(result)]),
        Section(
            name="assumptions",
            title="Assumptions",
            parts=[f"  - {capitalised(line)}" for line in result.assumptions],
        ),
    ]
    return output(lines, relocated_table(result), sections)


def relocated_table(result: Relocated) -> Table:
    """Seconds here, and what they are expected to be there."""
    rows = []
    for row in result.forecast.rows:
        here = given(result.measured_here.get(row.nodes), format_seconds)
        cells = _cells(row, result.forecast, seconds="seconds there")
        rows.append({"K": cells.pop("K"), "measured here": here, **cells})
    rows += _other_row(result.forecast, rows[0])
    return rows_table(
        "Times measured here and predicted there",
        rows,
        left=("",),
        optional=("95 % interval", "P(cheapest)", "efficiency", "speedup"),
    )


def what_if_report(result: WhatIf) -> Output:
    """The curve with the changes beside the measured one."""
    words = ", ".join(_change_words(change) for change in result.changes)
    row = result.rows[-1]
    lines = [
        f"**{result.name}: at K={row.nodes} a run would take {format_duration(row.seconds)} "
        f"instead of {format_duration(row.measured_seconds)}**, if {words}.",
        f"Cheapest: {where(result.after.cheapest)}, as measured {where(result.before.cheapest)}. "
        f"Fastest: {where(result.after.fastest)}, as measured {where(result.before.fastest)}.",
        "Computed from the recorded stages. Effects of a change on other parts are not included.",
    ]
    return output(lines, _what_if_table(result))


def _change_words(change: Change) -> str:
    left = "were gone" if change.factor == 0 else f"took {change.factor:.3g} of its time"
    because = f" ({change.because})" if change.because else ""
    return f"{change.cause} {left}{because}"


def _what_if_table(result: WhatIf) -> Table:
    """Measured and computed seconds; intervals only where a law continues them."""
    measured = {row.nodes: row.measured_seconds for row in result.rows}
    rows = []
    for row in result.after.rows:
        cells = _cells(row, result.after, seconds="with changes")
        cells[""] = cells[""].replace("measured", "computed")
        if row.measured:
            cells["80 % interval"] = ""
        shown = ("with changes", "", "80 % interval", "speedup", "efficiency", "cost")
        here = given(measured.get(row.nodes), format_seconds)
        rows.append(
            {"K": cells["K"], "measured": here, **{k: cells[k] for k in shown if k in cells}}
        )
    return rows_table("Times as measured, and with the changes", rows, left=("",))


def forecast_table(result: Forecast) -> Table:
    """Seconds at every scale, measured or predicted, with 80 and 95 % intervals."""
    rows = [_cells(row, result) for row in result.rows]
    rows += _other_row(result, rows[0])
    return rows_table("Measured and predicted times", rows, left=("",))


def advice_report(result: Advice) -> Output:
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
    lines = [f"**{result.name}: {todo}**, because {result.because}."]
    if result.best is None:
        lines.append(f"Now: no scale. {capitalised(result.recommended.because)}.")
    elif result.best != result.recommended.nodes:
        lines.append(
            f"Now: K={result.best}, the cheapest by the fit of all runs. "
            f"K={result.recommended.nodes} has the lowest measured cost, but too few repeats to "
            "decide."
        )
    else:
        sure = ""
        if result.recommended.probability is not None:
            sure = f" ({how_sure(result.recommended.probability, result.validity)})"
        lines.append(f"Now: K={result.best}{sure}, {result.recommended.because}.")
    lines += _doubt(result.validity)
    lines.append(f"Objective: {result.objective.name}, because {result.objective.because}.")

    def saves(value: float) -> str:
        if result.regret_is_of_time:
            return format_percent(value)
        return format_money(result.compared_for.amount(value), result.currency)

    unit = result.compared_for
    saved = f"saves {unit.words if unit.clause else 'a later run'}"
    saved = "time saved" if result.regret_is_of_time else saved
    rows = [
        {
            "K": run.nodes,
            "cost of the run": format_money(run.cost, result.currency),
            saved: saves(run.saving),
            "saved per cost": f"{run.saving_per_cost:.3g}",
            "changes the choice": format_percent(run.could_change),
            "": "<- next" if run.nodes == result.measure else "",
        }
        for run in result.runs
    ]
    table = rows_table(
        "Value of each run",
        rows,
        left=("",),
        sparse=True,
        strong=next(
            (at for at, run in enumerate(result.runs) if run.nodes == result.measure), None
        ),
        optional=("saved per cost",),
    )
    return output(lines, table if rows else None, checks=result.gates)


def forecast_headline(result: Forecast) -> str:
    """The time at the largest scale that was asked for and not run."""
    ahead = [row for row in result.rows if not row.measured and row.seconds is not None]
    if not ahead and result.unknown_beyond is None:
        return "every requested scale was measured."
    if not ahead:
        return "no prediction beyond the measured scales."
    row = ahead[-1]
    assert row.seconds is not None and row.low80 is not None and row.high80 is not None
    form = partial(format_duration, digits=digits_known(row.seconds, row.low80, row.high80))
    return (
        f"at K={row.nodes} a run is predicted to take {form(row.seconds)} "
        f"(80 % interval {between(row.low80, row.high80, form)})."
    )


def _unit_of_work(result: Forecast) -> str:
    """What costs are compared for, where runs do not do the same work."""
    words = compared_words(result.compared_for, result.rows[0].nodes)
    return f"; {words}" if words else ""


def _doubt(validity: Validity) -> list[str]:
    return [f"{capitalised(validity.clause)}."] if validity.clause else []


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
        "80 % interval": between(row.low80, row.high80, format_seconds),
        "95 % interval": between(row.low95, row.high95, format_seconds),
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
        return f"K={landmark.nodes} or more; larger scales were not searched"
    if landmark.low == landmark.nodes == landmark.high:
        return f"K={landmark.nodes}"
    more = " or more" if landmark.at_least else ""
    return f"K={landmark.nodes} (80 % interval {landmark.low}\N{EN DASH}{landmark.high}{more})"


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
    return rows_table(f"What changes at K={largest}", rows, left=("part", "moves with"))


def _twice_the_largest(result: Forecast) -> int:
    """The scale at which the laws are compared."""
    return 2 * max(row.nodes for row in result.rows if row.measured)


def _laws_table(result: Forecast) -> Table:
    at = f"seconds at K={_twice_the_largest(result)}"
    rows = [
        {
            "law": law.law,
            at: format_seconds(law.seconds),
            "": "used" if law.weight else "",
            "off by": given(law.rms, format_percent),
        }
        for law in result.laws
    ]
    return rows_table("Laws", rows, left=("law", ""))


def _laws_line(result: Forecast) -> str:
    """What the laws are, and how they make the answer."""
    names = [law.law for law in result.laws]
    flat = "amdahl" if result.regime == "strong" else "log2"
    answer = f"the median of {flat}, universal and drift, or a law through all measured times"
    if "stages" in names:
        answer = "the sum of the stages"
    return f"{'; '.join(f'{name}: {_LAWS[name]}' for name in names)}. The answer is {answer}."
