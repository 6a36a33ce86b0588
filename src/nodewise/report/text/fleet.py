"""A fleet's decision, its windows and its simulation as lines and tables."""

from collections.abc import Sequence
from statistics import fmean

from nodewise.base.units import (
    format_efficiency,
    format_latency,
    format_money,
    format_percent,
    format_quantity,
    significant,
)
from nodewise.fleet.batching import Engine
from nodewise.fleet.concurrency import LatencyPrediction
from nodewise.fleet.cost import TokenCost
from nodewise.fleet.decide import FleetDecision, FleetRow
from nodewise.fleet.latency import Percentile, Served
from nodewise.fleet.simulate import Prediction, Residual
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.tables import Table, given, rows_table
from nodewise.study.check import validity_of

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
        "Rates are in requests/s, within the constraint. kept, broken: tested at 95 % or more; "
        "estimate: of the capacity between them. allocation: the bill over the demand, for a "
        f"million good {result.unit}; usage: the bill over the rate kept, at least that over the "
        "rate broken.",
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
            "kept at": given(row.rate_per_second or None, significant),
            "broken at": given(row.breaks_at, significant),
            "efficiency": given(row.efficiency, format_percent),
            f"{result.unit}/s": given(row.good_per_second or None, significant),
            "cost/million": _cost(row.allocation, result),
            "95 % interval": _between(row.allocation, result),
            "evidence": row.evidence,
            "": "<- recommended" if row.replicas == result.chosen else _short(row),
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
        optional=("evidence", "efficiency", "95 % interval"),
    )


def _headline(result: FleetDecision) -> str:
    """The answer, with what makes it doubtful."""
    doubt = validity_of(result.checks).clause
    return f"{_answer(result)}; {doubt}" if doubt else _answer(result)


def _answer(result: FleetDecision) -> str:
    if result.chosen is None:
        if result.rivals:
            return f"undecided; {_replicas(result.rivals)} may suffice, but no fleet is certain to"
        return "no measured fleet is sufficient"
    row = result.row(result.chosen)
    price = ""
    if row.allocation is not None:
        span = " of the day" if result.question.is_day else ""
        price = f", {_cost(row.allocation, result)} for a million good {result.unit}{span}"
    if result.rivals:
        numbers = sorted((*result.rivals, row.replicas))
        return f"undecided between {_replicas(numbers)}; so far {row.replicas}{price}"
    return f"run {_replicas([row.replicas])}{price}"


def _replicas(numbers: Sequence[int]) -> str:
    """Numbers of replicas in words.

    >>> _replicas([1]), _replicas([1, 2]), _replicas([1, 2, 4])
    ('1 replica', '1 and 2 replicas', '1, 2 and 4 replicas')
    """
    *first, last = map(str, numbers)
    words = f"{', '.join(first)} and {last}" if first else last
    return f"{words} replica" if words == "1" else f"{words} replicas"


def _money(amount: float, result: FleetDecision) -> str:
    return format_money(amount, result.price.currency)


def fleets_table(result: FleetDecision) -> Table:
    """What each number of replicas serves, and what a token costs there."""
    asked = result.question.floor is not None
    rows = [
        {
            "r": row.replicas,
            "": row.evidence,
            "kept": given(row.rate_per_second or None, _rate),
            "broken": given(row.breaks_at, _rate),
            "estimate": given(row.estimate, significant),
            "efficiency": given(row.efficiency, format_efficiency),
            f"{result.unit}/s": given(row.good_per_second or None, format_quantity),
            "busy": given(row.utilisation if asked else None, format_percent),
            "allocation": _cost(row.allocation, result),
            "interval": _between(row.allocation, result),
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


def _short(row: FleetRow) -> str:
    """A reason that fits into a table."""
    if row.undecided or len(row.why) <= _SHORT:
        return "undecided" if row.undecided else row.why
    return "excluded"


def _rate(rate: float) -> str:
    return f"{rate:.4g}"


def _cost(cost: TokenCost | None, result: FleetDecision) -> str:
    return given(cost, lambda one: _money(one.amount, result))


def _between(cost: TokenCost | None, result: FleetDecision) -> str:
    if cost is None:
        return ""
    high = _money(cost.high, result) if cost.high != float("inf") else "any"
    low = _money(cost.low, result) if cost.low > 0 else "0"
    return f"{low}..{high}"


def _landmarks(result: FleetDecision) -> list[str]:
    lines = [_decisive(result)] if result.rivals else []
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
    lines += result.causes
    if result.chosen is not None:
        lines += _headroom(result, result.row(result.chosen))
    if result.untried is not None:
        lines.append(
            f"Not measured: r={result.untried}, {result.untried_because}; it would be cheaper, so "
            "measure it."
        )
    return lines


def _decisive(result: FleetDecision) -> str:
    """What would decide between the chosen number and its rivals."""
    floor = result.question.floor
    first = result.row(result.rivals[0])
    own = [one for one in result.windows if one.replicas == first.replicas]
    if own and all(one.verdict == "void" and one.is_client_fault for one in own):
        return (
            f"To decide, load r={first.replicas} from an idle machine: the client was late in "
            "all of its windows."
        )
    if floor is None or result.question.goal == "throughput":
        alike = "rates" if result.question.goal == "throughput" else "costs"
        why = "" if result.chosen is None else f": their {alike} may be the same"
        return f"To decide, lengthen the windows or add rounds{why}."
    kept = f"kept at {_rate(first.rate_per_second)}" if first.rate_per_second else "kept at no rate"
    broken = f"broken at {_rate(first.breaks_at)}" if first.breaks_at else "never broken"
    return (
        f"To decide, measure r={first.replicas} at {_rate(floor)} requests/s for longer; so far it "
        f"is {kept}, {broken}."
    )


def _headroom(result: FleetDecision, row: FleetRow) -> list[str]:
    floor = result.question.floor
    if floor is None:
        return []
    if row.rate_one_lost is None:
        fewer = next((one for one in result.rows if one.replicas == row.replicas - 1), None)
        if fewer is None or not fewer.breaks_at or fewer.breaks_at > floor:
            return []
        return [
            f"With one replica lost the demand is not served: r={fewer.replicas} breaks at "
            f"{_rate(fewer.breaks_at)} requests/s, and no rate that it keeps was measured."
        ]
    if row.rate_one_lost >= floor:
        spare = format_percent(row.rate_one_lost / floor - 1)
        return [f"With one replica lost the demand is still served, {spare} to spare."]
    return [
        f"With one replica lost {_rate(row.rate_one_lost)} of {_rate(floor)} requests/s are served "
        "within the limit: no headroom is left."
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
        if one.verdict == "void"
    }
    if reasons:
        lines += ["Void windows are not evidence about the fleet:", *reasons]
    pauses = _pauses(windows)
    if pauses:
        lines += ["TPOT is a mean and hides a pause inside an answer. The longest:", *pauses]
    return lines


def _pauses(windows: Sequence[Served]) -> list[str]:
    """The longest pause of each fleet at rates that are kept, if a reader would notice it."""
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
    if result.withheld:
        lines.insert(1, "Measure the larger fleets, with a machine for each replica.")
    residuals: Report = [residuals_table(result)] if result.residuals else []
    slower = ", ".join(f"{one.factor:.2f} at r={one.replicas}" for one in result.slowdowns)
    if slower:
        residuals.append(f"Time of an ordinary request over that of one replica alone: {slower}.")
    sections = [
        Section(name="engine", title="Engine", parts=[f"  {_engine(calibration.engine)}."]),
        Section(name="errors", title="Errors of the simulation", parts=residuals),
    ]
    return output(lines, predictions_table(result) if result.fleets else None, sections)


def latency_report(result: LatencyPrediction) -> Output:
    """TTFT and TPOT by concurrency, measured and predicted."""
    last = result.rows[-1]
    rows = [
        {
            "concurrency": row.concurrency,
            "": "predicted" if row.ttft80 else "",
            "TTFT": format_latency(row.ttft),
            "TTFT 80 % interval": _interval(row.ttft80),
            "TPOT": format_latency(row.tpot),
            "TPOT 80 % interval": _interval(row.tpot80),
        }
        for row in result.rows
    ]
    said = "is predicted to be" if last.ttft80 else "was"
    lines = [
        f"**{result.name}: at concurrency {last.concurrency} TTFT {said} "
        f"{format_latency(last.ttft)}, TPOT {format_latency(last.tpot)}.**",
        "Requests already queue: TPOT stays, and TTFT grows with every further request."
        if result.queues
        else "Learnt from published measurements. A queue that begins beyond the measured "
        "concurrencies cannot be seen in them.",
    ]
    return output(lines, rows_table("Latency by concurrency", rows, left=("",)))


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else "\N{EN DASH}".join(format_latency(bound) for bound in bounds)


def _predicted(result: Prediction) -> str:
    if result.withheld:
        return f"no prediction, because {result.withheld}"
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
