"""A fleet's decision, its windows and its simulation as lines and tables."""

from collections.abc import Sequence
from statistics import fmean

from nodewise.base.units import (
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    significant,
)
from nodewise.fleet.batching import Engine
from nodewise.fleet.decide import FleetDecision, FleetRow, TokenCost
from nodewise.fleet.latency import Percentile, Served
from nodewise.fleet.simulate import Prediction, Residual
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.tables import Table, given, rows_table

_MEDIAN, _P99 = 0.5, 0.99
_SHORT = 24  # characters
_PAUSE = 5.0  # times the median TPOT: shorter ones are the ordinary unevenness of a batch


def fleet_report(result: FleetDecision, ending: Sequence[str] = ()) -> Output:
    """The number of replicas to run, and the fleets; the day and every window in sections."""
    lines = [
        f"**{result.name}: {_headline(result)}**",
        f"Because {result.because}.",
        f"Objective: {result.objective}. Constraint: {result.constraint}.",
        *_landmarks(result),
    ]
    fleets: Report = [
        fleets_table(result),
        "Rates are in requests/s, within the constraint. allocation: the bill over the demand, for "
        f"a million good {result.unit}; usage: the bill over the highest rate; between: 95 % of "
        "the answers' spread.",
    ]
    day: Report = []
    if result.day:
        day = [day_table(result), "Between two measured fleets, rates are interpolated."]
    sections = [
        Section(name="fleets", title="Fleets", parts=fleets),
        Section(name="day", title="Day of demand", parts=day),
        Section(name="windows", title="Load-test windows", parts=windows_report(result.windows)),
        Section(name="notes", title="Notes", parts=[f"  {note}" for note in result.notes]),
    ]
    return output(lines, _short_table(result), sections, result.checks, ending)


def _short_table(result: FleetDecision) -> Table:
    """What each number of replicas serves, and what a million good tokens cost there."""
    rows = [
        {
            "replicas": row.replicas,
            "requests/s": significant(row.rate_per_second),
            "breaks at": given(row.breaks_at, significant),
            "efficiency": given(row.efficiency, format_percent),
            f"{result.unit}/s": significant(row.good_per_second),
            "cost/million": _cost(row.allocation, result),
            "95 % interval": _between(row.allocation, result),
            "evidence": row.evidence,
            "": "<- recommended" if row.replicas == result.chosen else _short(row.why),
        }
        for row in result.rows
    ]
    chosen = [at for at, row in enumerate(result.rows) if row.replicas == result.chosen]
    return rows_table(
        "Fleets",
        rows,
        left=("evidence", ""),
        strong=chosen[0] if chosen else None,
        sparse=True,
        optional=("evidence", "breaks at", "95 % interval"),
    )


def _headline(result: FleetDecision) -> str:
    if result.chosen is None:
        return "no fleet that was measured will do"
    row = result.row(result.chosen)
    plural = "" if row.replicas == 1 else "s"
    answer = f"run {row.replicas} replica{plural}"
    if row.allocation is None:
        return answer
    return f"{answer}, {_cost(row.allocation, result)} for a million good {result.unit}"


def _money(amount: float, result: FleetDecision) -> str:
    return format_money(amount, result.price.currency)


def fleets_table(result: FleetDecision) -> Table:
    """What each number of replicas serves, and what a token costs there."""
    spread = any(row.rounds > 1 for row in result.rows)
    asked = result.question.floor is not None
    rows = [
        {
            "r": row.replicas,
            "": row.evidence,
            "rate kept": _rate(row.rate_per_second),
            "rounds": f"{_rate(row.rate_low)}..{_rate(row.rate_high)}" if spread else "",
            "breaks at": given(row.breaks_at, _rate),
            "efficiency": given(row.efficiency, format_efficiency),
            f"{result.unit}/s": format_quantity(row.good_per_second),
            "busy": given(row.utilisation if asked else None, format_percent),
            "allocation": _cost(row.allocation, result),
            "between": _between(row.allocation, result),
            "usage": _cost(row.usage if asked else None, result),
            "kJ": given(row.joules_per_million, lambda joules: format_quantity(joules / 1000)),
            "one lost": given(row.rate_one_lost, _rate),
            " ": "chosen" if row.replicas == result.chosen else row.why,
        }
        for row in result.rows
    ]
    chosen = [at for at, row in enumerate(result.rows) if row.replicas == result.chosen]
    return rows_table(
        "Fleets: rate within the limit, efficiency and cost",
        rows,
        left=("", " "),
        strong=chosen[0] if chosen else None,
        sparse=True,
    )


def _short(why: str) -> str:
    """A reason that fits into a table."""
    return why if len(why) <= _SHORT else "excluded" if why else ""


def _rate(rate: float) -> str:
    return f"{rate:.4g}"


def _cost(cost: TokenCost | None, result: FleetDecision) -> str:
    return given(cost, lambda one: _money(one.amount, result))


def _between(cost: TokenCost | None, result: FleetDecision) -> str:
    if cost is None:
        return ""
    high = _money(cost.high, result) if cost.high != float("inf") else "any"
    return f"{_money(cost.low, result)}..{high}"


def _landmarks(result: FleetDecision) -> list[str]:
    lines = []
    if result.most_throughput is not None:
        most = result.row(result.most_throughput)
        line = (
            f"Most throughput: r={most.replicas}, {format_quantity(most.good_per_second)} good "
            f"{result.unit}/s"
        )
        if result.gap_per_million:
            sign = "more" if result.gap_per_million > 0 else "less"
            gap = _money(abs(result.gap_per_million), result)
            line += f"; a million of them costs {gap} {sign} than at r={result.chosen}"
        lines.append(f"{line}.")
    if result.chosen is not None:
        lines += _headroom(result, result.row(result.chosen))
    if result.untried is not None:
        lines.append(
            f"Not measured: r={result.untried}, {result.untried_because}; it would be cheaper, so "
            "measure it."
        )
    return lines


def _headroom(result: FleetDecision, row: FleetRow) -> list[str]:
    floor = result.question.floor
    if floor is None or row.rate_one_lost is None:
        return []
    if row.rate_one_lost >= floor:
        spare = format_percent(row.rate_one_lost / floor - 1)
        return [f"With one replica lost the demand is still served, {spare} to spare."]
    return [
        f"With one replica lost {_rate(row.rate_one_lost)} of {_rate(floor)} requests/s are served "
        "within the limit: there is no headroom for it."
    ]


def day_table(result: FleetDecision) -> Table:
    """Ways to serve a day of demand."""
    rows = [
        {
            "a day of demand": row.way,
            "replicas": f"{row.replicas:.4g}",
            "most": row.most,
            "cost a day": _money(row.cost_per_day, result),
            f"a million {result.unit}": _money(row.cost_per_million, result),
        }
        for row in result.day
    ]
    return rows_table("A day of demand", rows, left=("a day of demand",))


def windows_report(windows: Sequence[Served]) -> Report:
    """Every rate: how full the batches were, what that did to the latency, and the verdict."""
    lines: Report = [windows_table(windows)]
    reasons = {
        f"  r={one.replicas} at {_rate(one.offered_per_second)}/s: {one.why}.": None
        for one in _in_order(windows)
        if one.verdict == "void" and not one.saturated
    }
    if reasons:
        lines += ["Void windows prove nothing about the limit:", *reasons]
    pauses = _pauses(windows)
    if pauses:
        lines += ["TPOT is a mean and hides a pause inside an answer. The longest:", *pauses]
    return lines


def _pauses(windows: Sequence[Served]) -> list[str]:
    """The longest pause of each fleet at rates that are kept, where a reader would notice it."""
    longest: dict[int, tuple[float, str]] = {}
    for one in _in_order(windows):
        gap = one.longest_gap
        usual = next(percentile.seconds for percentile in one.tpot if percentile.share == _MEDIAN)
        if one.verdict == "met" and gap and usual and gap > _PAUSE * usual:
            line = (
                f"  r={one.replicas} at {_rate(one.offered_per_second)}/s: a pause of "
                f"{1000 * gap:.4g} ms between tokens, {gap / usual:.0f} times the median TPOT."
            )
            longest[one.replicas] = max(longest.get(one.replicas, (0.0, "")), (gap, line))
    return [line for _, line in longest.values()]


def _in_order(windows: Sequence[Served]) -> list[Served]:
    return sorted(windows, key=lambda one: (one.replicas, one.offered_per_second, one.round))


def windows_table(windows: Sequence[Served]) -> Table:
    """Batching against latency: what each rate does to the first token, the rest and the tokens."""
    rates: dict[tuple[int, float, bool], list[Served]] = {}
    for one in _in_order(windows):
        rates.setdefault((one.replicas, one.offered_per_second, one.simulated), []).append(one)
    rows = [_window_cells(rounds) for rounds in rates.values()]
    return rows_table("Windows: batching against latency", rows, left=("",))


def _window_cells(rounds: Sequence[Served]) -> dict[str, object]:
    """The windows at one rate, on average over the rounds."""
    one = rounds[0]
    flights = [window.in_flight for window in rounds if window.in_flight is not None]
    verdicts = ["saturated" if window.saturated else window.verdict for window in rounds]
    marks = (["simulated"] if one.simulated else []) + ([one.tool] if one.tool else [])

    def times(metric: str, share: float) -> str:
        return _milliseconds([getattr(window, metric) for window in rounds], share)

    return {
        "r": one.replicas,
        "rate": _rate(one.offered_per_second),
        "requests": sum(window.requests for window in rounds),
        "in flight": f"{fmean(flights) / one.replicas:.2f}" if flights else "",
        "TTFT p50": times("ttft", _MEDIAN),
        "p99": times("ttft", _P99),
        "TPOT p50": times("tpot", _MEDIAN),
        "p99 ": times("tpot", _P99),
        "latency p50": times("latency", _MEDIAN),
        "p99  ": times("latency", _P99),
        "good": f"{100 * fmean(window.attainment for window in rounds):.4g} %",
        "tokens/s": format_quantity(fmean(window.output_tokens_per_second for window in rounds)),
        "": ", ".join([*dict.fromkeys(verdicts), *marks]),
    }


def _milliseconds(blocks: Sequence[Sequence[Percentile]], share: float) -> str:
    """A percentile, on average over the rounds that can tell it."""
    found = [one for block in blocks for one in block if one.share == share]
    known = [one.seconds for one in found if one.seconds is not None]
    if known:
        return f"{1000 * fmean(known):.4g} ms"
    return "too few" if any(one.too_few for one in found) else ""


def prediction_report(result: Prediction) -> Output:
    """The fleets that are predicted, and how far the simulation was off where it was measured."""
    calibration = result.calibration
    error = _worst(result) or ["Its error is unknown: no measured window to compare with."]
    lines = [
        f"**Simulated: {_predicted(result)}**",
        *error,
        f"Constraint: {result.objective.words}; router: {result.router}.",
        f"Calibrated on {calibration.requests} requests of one replica, without "
        f"{calibration.left_out} disturbed ones; typical error "
        f"{format_percent(calibration.off_by)}.",
    ]
    residuals: Report = [residuals_table(result)] if result.residuals else []
    sections = [
        Section(name="engine", title="Engine", parts=[f"  {_engine(calibration.engine)}."]),
        Section(name="errors", title="Errors of the simulation", parts=residuals),
    ]
    return output(lines, predictions_table(result) if result.fleets else None, sections)


def _predicted(result: Prediction) -> str:
    if not result.fleets:
        return "no fleet keeps the objective at any rate"
    last = result.fleets[-1]
    return (
        f"{last.replicas} replicas serve {_rate(last.offered_per_second)} requests/s within the "
        "limit"
    )


def _engine(engine: Engine) -> str:
    parts = [
        f"A step takes {1000 * engine.step:.4g} ms",
        f"{1e6 * engine.per_sequence:.4g} us for each sequence",
        f"{1e6 * engine.per_prompt_token:.4g} us for each prompt token",
        f"{1000 * engine.per_request:.4g} ms before a request's first",
    ]
    limits = [
        f"{value:,} {name}"
        for value, name in (
            (engine.slots, "slots"),
            (engine.kv_tokens, "tokens of cache"),
            (engine.prefill_budget, "tokens a step"),
        )
        if value is not None
    ]
    return ", ".join(parts) + (f"; {', '.join(limits)}" if limits else "; no limit of the batch")


def predictions_table(result: Prediction) -> Table:
    """The highest rate of each predicted fleet, and its latency there."""
    rows = [
        {
            "r": one.replicas,
            "": "simulated",
            "rate kept": _rate(one.offered_per_second),
            "a replica": _rate(one.offered_per_second / one.replicas),
            "in flight": "" if one.in_flight is None else f"{one.in_flight / one.replicas:.2f}",
            "TTFT p99": _milliseconds([one.ttft], _P99),
            "latency p50": _milliseconds([one.latency], _MEDIAN),
            "latency p99": _milliseconds([one.latency], _P99),
            "tokens/s": format_quantity(one.output_tokens_per_second),
        }
        for one in result.fleets
    ]
    return rows_table("Predicted fleets", rows, left=("",), optional=("in flight", ""))


def residuals_table(result: Prediction) -> Table:
    """Measured and simulated latencies of the same arrivals."""
    grouped: dict[tuple[int, float, str], list[Residual]] = {}
    for row in result.residuals:
        grouped.setdefault((row.replicas, row.offered_per_second, row.metric), []).append(row)
    rows = [
        {
            "r": replicas,
            "rate": _rate(rate),
            "metric": metric,
            **_compared(rows, _MEDIAN, "p50 measured", "simulated", "off by"),
            **_compared(rows, _P99, "p99 measured", "simulated ", "off by "),
            "": "calibrated on it" if rows[0].is_calibration else "",
        }
        for (replicas, rate, metric), rows in grouped.items()
    ]
    return rows_table("Measured against simulated", rows, left=("metric", ""))


def _compared(rows: Sequence[Residual], share: float, *titles: str) -> dict[str, str]:
    own = [row for row in rows if row.share == share]
    cells = ["too few", "", ""]
    if own:
        cells = [
            f"{1000 * fmean(row.measured for row in own):.4g} ms",
            f"{1000 * fmean(row.simulated for row in own):.4g} ms",
            f"{100 * fmean(row.off_by for row in own):+.0f} %",
        ]
    return dict(zip(titles, cells, strict=True))


def _worst(result: Prediction) -> list[str]:
    held_out = [row for row in result.residuals if not row.is_calibration]
    which = "fleets it was not calibrated on" if held_out else "the windows it was calibrated on"
    median = result.worst(_MEDIAN, calibration=not held_out)
    tail = result.worst(_P99, calibration=not held_out)
    errors = [
        f"{name} by {format_percent(error)}"
        for name, error in (("the median", median), ("the 99th percentile", tail))
        if error is not None
    ]
    if not errors:
        return []
    return [
        f"Largest error of latency on {which}: {', '.join(errors)}. Confirm a simulated tail "
        "with a load test."
    ]
