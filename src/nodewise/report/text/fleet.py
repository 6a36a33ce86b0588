"""A fleet's decision, its windows and its simulation as lines and tables."""

from collections.abc import Sequence
from statistics import fmean

from nodewise.base.units import format_efficiency, format_money, format_percent, format_quantity
from nodewise.fleet.batching import Engine
from nodewise.fleet.decide import FleetDecision, FleetRow, TokenCost
from nodewise.fleet.latency import Percentile, Served
from nodewise.fleet.simulate import Prediction, Residual
from nodewise.report.tables import Table
from nodewise.report.text.findings import Report, checks_report

_MEDIAN, _P99 = 0.5, 0.99
_PAUSE = 5.0  # times the median TPOT: shorter ones are the ordinary unevenness of a batch


def fleet_report(result: FleetDecision) -> Report:
    """The answer, the fleets, the day, what each window showed, and what is doubtful."""
    lines: Report = [
        f"**{result.name}: {_headline(result)}**",
        f"  Objective: {result.objective}.",
        f"  Constraint: {result.constraint}.",
        f"  Because {result.because}.",
        "",
        fleets_table(result),
        f"Rates in requests/s, within the constraint; the cost of a million good {result.unit} as "
        "allocation (the bill over the demand) and as usage (over the highest rate); between: 95 % "
        "of the answers' spread.",
        *_landmarks(result),
    ]
    if result.day:
        lines += ["", day_table(result), "Between two fleets that ran, rates are on a line."]
    lines += ["", *windows_report(result.windows)]
    doubts = [check for check in result.checks if check.verdict != "pass"]
    lines += [f"note: {note}" for note in result.notes]
    return [*lines, *(checks_report(doubts) if doubts else [])]


def _headline(result: FleetDecision) -> str:
    if result.chosen is None:
        return "no fleet that was measured will do"
    row = result.row(result.chosen)
    plural = "" if row.replicas == 1 else "s"
    said = f"run {row.replicas} replica{plural}"
    if row.allocation is None:
        return said
    return f"{said}, {_cost(row.allocation, result)} for a million good {result.unit}"


def _money(amount: float, result: FleetDecision) -> str:
    return format_money(amount, result.price.currency)


def fleets_table(result: FleetDecision) -> Table:
    """What each number of replicas serves, and what a token costs there."""
    spread = any(row.rounds > 1 for row in result.rows)
    energy = any(row.joules_per_million is not None for row in result.rows)
    asked = result.question.floor is not None
    titles = (
        "r", "", "rate kept", *(["rounds"] if spread else []), "breaks at", "efficiency",
        f"{result.unit}/s", *(["busy"] if asked else []),
        "allocation", "between", *(["usage"] if asked else []),
        *(["kJ"] if energy else []), "one lost", " ",
    )  # fmt: skip
    rows = []
    for row in result.rows:
        cells = [str(row.replicas), row.evidence, _rate(row.rate_per_second)]
        if spread:
            cells.append(f"{_rate(row.rate_low)}..{_rate(row.rate_high)}")
        cells += [
            "" if row.breaks_at is None else _rate(row.breaks_at),
            "" if row.efficiency is None else format_efficiency(row.efficiency),
            format_quantity(row.good_per_second),
        ]
        if asked:
            cells.append("" if row.utilisation is None else format_percent(row.utilisation))
        cells += [_cost(row.allocation, result), _between(row.allocation, result)]
        if asked:
            cells.append(_cost(row.usage, result))
        if energy:
            joules = row.joules_per_million
            cells.append("" if joules is None else format_quantity(joules / 1000))
        cells += [
            "" if row.rate_one_lost is None else _rate(row.rate_one_lost),
            "chosen" if row.replicas == result.chosen else row.why,
        ]
        rows.append(tuple(cells))
    return Table(
        name="Fleets: rate within the limit, efficiency and cost",
        titles=titles,
        rows=tuple(rows),
        left=frozenset({"", " "}),
        strong=next(
            (at for at, row in enumerate(result.rows) if row.replicas == result.chosen), None
        ),
    )


def _rate(rate: float) -> str:
    return f"{rate:.4g}"


def _cost(cost: TokenCost | None, result: FleetDecision) -> str:
    return "" if cost is None else _money(cost.amount, result)


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
    return Table(
        name="A day of demand",
        titles=("a day of demand", "replicas", "most", "cost a day", f"a million {result.unit}"),
        rows=tuple(
            (row.way, f"{row.replicas:.4g}", str(row.most), _money(row.cost_per_day, result),
             _money(row.cost_per_million, result))
            for row in result.day
        ),
        left=frozenset({"a day of demand"}),
    )  # fmt: skip


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
        usual = next(told.seconds for told in one.tpot if told.share == _MEDIAN)
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
    return Table(
        name="Windows: batching against latency",
        titles=("r", "rate", "requests", "in flight", "TTFT p50", "p99", "TPOT p50", "p99 ",
                "latency p50", "p99  ", "good", "tokens/s", ""),
        rows=tuple(_window_cells(rounds) for rounds in rates.values()),
        left=frozenset({""}),
    )  # fmt: skip


def _window_cells(rounds: Sequence[Served]) -> tuple[str, ...]:
    """The windows at one rate, on average over the rounds."""
    one = rounds[0]
    flights = [window.in_flight for window in rounds if window.in_flight is not None]
    verdicts = ["saturated" if window.saturated else window.verdict for window in rounds]
    marks = (["simulated"] if one.simulated else []) + ([one.tool] if one.tool else [])
    return (
        str(one.replicas),
        _rate(one.offered_per_second),
        str(sum(window.requests for window in rounds)),
        f"{fmean(flights) / one.replicas:.2f}" if flights else "",
        *(_milliseconds([getattr(window, name) for window in rounds], share)
          for name in ("ttft", "tpot", "latency") for share in (_MEDIAN, _P99)),
        f"{100 * fmean(window.attainment for window in rounds):.4g} %",
        format_quantity(fmean(window.output_tokens_per_second for window in rounds)),
        ", ".join([*dict.fromkeys(verdicts), *marks]),
    )  # fmt: skip


def _milliseconds(blocks: Sequence[Sequence[Percentile]], share: float) -> str:
    """A percentile, on average over the rounds that can tell it."""
    found = [one for block in blocks for one in block if one.share == share]
    known = [one.seconds for one in found if one.seconds is not None]
    if known:
        return f"{1000 * fmean(known):.4g} ms"
    return "too few" if any(one.too_few for one in found) else ""


def prediction_report(result: Prediction) -> Report:
    """The calibrated engine, the fleets that it predicts, and how far it was off where measured."""
    calibration = result.calibration
    lines: Report = [
        f"**Simulated: {_predicted(result)}**",
        f"  {_engine(calibration.engine)}.",
        f"  Calibrated on {calibration.requests} requests of one replica, "
        f"{calibration.left_out} disturbed ones left out; an ordinary one is off by "
        f"{format_percent(calibration.off_by)}.",
        f"  Constraint: {result.objective.words}; router: {result.router}.",
        "",
        predictions_table(result),
    ]
    if not result.residuals:
        return [*lines, "note: No measured window tells how far the simulation is off."]
    lines += ["", residuals_table(result), *_worst(result)]
    return lines


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
    return Table(
        name="Predicted fleets",
        titles=("r", "", "rate kept", "a replica", "in flight", "TTFT p99", "latency p50",
                "latency p99", "tokens/s"),
        rows=tuple(
            (
                str(one.replicas),
                "simulated",
                _rate(one.offered_per_second),
                _rate(one.offered_per_second / one.replicas),
                "" if one.in_flight is None else f"{one.in_flight / one.replicas:.2f}",
                _milliseconds([one.ttft], _P99),
                _milliseconds([one.latency], _MEDIAN),
                _milliseconds([one.latency], _P99),
                format_quantity(one.output_tokens_per_second),
            )
            for one in result.fleets
        ),
        left=frozenset({""}),
    )  # fmt: skip


def residuals_table(result: Prediction) -> Table:
    """Measured and simulated latencies of the same arrivals."""
    grouped: dict[tuple[int, float, str], list[Residual]] = {}
    for row in result.residuals:
        grouped.setdefault((row.replicas, row.offered_per_second, row.metric), []).append(row)
    return Table(
        name="Measured against simulated",
        titles=("r", "rate", "metric", "p50 measured", "simulated", "off by", "p99 measured",
                "simulated ", "off by ", ""),
        rows=tuple(
            (
                str(replicas),
                _rate(rate),
                metric,
                *_compared(rows, _MEDIAN),
                *_compared(rows, _P99),
                "calibrated on it" if rows[0].is_calibration else "",
            )
            for (replicas, rate, metric), rows in grouped.items()
        ),
        left=frozenset({"metric", ""}),
    )  # fmt: skip


def _compared(rows: Sequence[Residual], share: float) -> tuple[str, str, str]:
    own = [row for row in rows if row.share == share]
    if not own:
        return "too few", "", ""
    return (
        f"{1000 * fmean(row.measured for row in own):.4g} ms",
        f"{1000 * fmean(row.simulated for row in own):.4g} ms",
        f"{100 * fmean(row.off_by for row in own):+.0f} %",
    )


def _worst(result: Prediction) -> list[str]:
    held_out = [row for row in result.residuals if not row.is_calibration]
    which = "fleets it was not calibrated on" if held_out else "the windows it was calibrated on"
    median = result.worst(_MEDIAN, calibration=not held_out)
    tail = result.worst(_P99, calibration=not held_out)
    said = [
        f"{name} by {format_percent(error)}"
        for name, error in (("the median", median), ("the 99th percentile", tail))
        if error is not None
    ]
    if not said:
        return []
    return [
        f"On {which}, latency is off at worst: {', '.join(said)}. A simulated tail is an estimate; "
        "a load test is the verdict."
    ]
