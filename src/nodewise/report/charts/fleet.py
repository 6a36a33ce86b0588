"""A fleet in three charts: latency against the rate, capacity and cost at each size."""

from collections.abc import Callable, Sequence
from itertools import cycle
from statistics import fmean

from nodewise.base.errors import DataError
from nodewise.base.units import format_money, format_percent
from nodewise.fleet.certainty import requests_to_certify
from nodewise.fleet.cost import TokenCost, money_in_words
from nodewise.fleet.decide import FleetDecision, FleetRow
from nodewise.fleet.latency import Served
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Definition,
    Figure,
    Row,
    figure,
    folds,
    intervals,
    label,
    layered,
    linear,
    logarithmic,
    mark,
    nodes_axis,
    series,
    shortened,
    values_of,
    with_recommended,
)
from nodewise.study.service_objective import format_share

_TITLES = {"ttft": "time to the first token", "tpot": "time per token", "latency": "latency"}
# One colour for each size of fleet, smallest first; a label at the end of its line names it.
_COLORS = ("third", "imbalance", "foreign", "slow node", "serial", "overhead")
_MEETS = "meets the constraint"
_REPLICAS = "replicas r"
_FAN = 0.12  # opacity: the fans of several fleets lie over each other
_TICKS = tuple(base * 10.0**power for power in range(-1, 7) for base in (1, 2, 5))


def latency_chart(result: FleetDecision) -> Figure:
    """The percentile of the objective against the rate, a line for each number of replicas."""
    objective = result.question.objective
    metric, limit = objective.metric, objective.limits[objective.metric]
    share = format_share(objective.share)
    rows = _latency_rows(result)
    if not rows:
        raise DataError(
            f"No window shows the {_TITLES[metric]} of {share} of the requests.",
            f"Measure windows of {requests_to_certify(objective.share)} requests or more.",
        )
    rates, most = values_of(rows, "rate"), 1000 * limit
    left = min(rates) / 1.2
    x = folds("rate", "requests per second, offered to the fleet", left, max(rates) * 1.5)
    times = [most, *values_of(rows, "ms", "low", "high", "median")]
    low, high = min(times) / 1.4, max(times) * 1.4
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    shown = {"values": ticks, "format": "~g"}
    y = logarithmic("ms", f"{_TITLES[metric]}, ms", low, high, 10, shown)
    layers = [
        mark("rule", [{"ms": most}], "limit", y=y),
        label(f"limit {most:.4g} ms", x, y, (left, most)),
    ]
    colors = dict(zip(sorted({row["replicas"] for row in rows}), cycle(_COLORS), strict=False))
    lines: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["replicas"], row["simulated"])):
        lines.setdefault((row["replicas"], row["simulated"]), []).append(row)
    for (replicas, _), own in lines.items():
        layers += _line(own, x, y, colors[replicas], replicas == result.chosen)
    return figure(
        "latency",
        f"Latency of {share} of the requests, by rate",
        [
            f"{shortened(result.name)}; {objective.words}",
            "filled: that is kept, with 95 % certainty; hollow: not, or not for certain; "
            "bars: 95 % interval; shaded: down to the median",
        ],
        _latency_caption(result),
        rows,
        layered(layers),
    )


def _latency_rows(result: FleetDecision) -> list[Row]:
    objective = result.question.objective
    metric = objective.metric
    groups: dict[tuple[int, float, bool], list[Served]] = {}
    for one in sorted(result.windows, key=lambda one: (one.replicas, one.offered_per_second)):
        groups.setdefault((one.replicas, one.offered_per_second, one.simulated), []).append(one)
    rows: list[Row] = []
    for (replicas, rate, simulated), windows in groups.items():
        known = [window.percentile_of(objective) for window in windows]
        found = [one for one in known if one.seconds is not None]
        if not found or all(window.is_client_fault for window in windows):
            continue
        row = result.row(replicas)
        # as the windows of a rate say together, or simulated ones one by one beside measured ones
        kept = (
            rate <= row.rate_per_second * (1 + 1e-9)
            if simulated == (row.evidence != "measured")
            else all(window.verdict == "met" for window in windows)
        )
        rows.append(
            {
                "replicas": replicas,
                "rate": rate,
                "ms": 1000 * fmean(one.seconds or 0.0 for one in found),
                "low": _bound(min, [one.low for one in found]),
                "high": _bound(max, [one.high for one in found]),
                "median": _bound(min, [_median_of(window, metric) for window in windows]),
                "kept": "kept" if kept else "not kept",
                "simulated": "simulated" if simulated else "measured",
            }
        )
    return rows


def _median_of(window: Served, metric: str) -> float | None:
    return next((one.seconds for one in getattr(window, metric) if one.share == 0.5), None)


def _bound(pick: Callable[[list[float]], float], bounds: Sequence[float | None]) -> float | None:
    """The outermost bound, in milliseconds; nothing if one is not known."""
    known = [bound for bound in bounds if bound is not None]
    return 1000 * pick(known) if len(known) == len(bounds) else None


def _line(rows: list[Row], x: Axis, y: Axis, color: str, is_chosen: bool) -> list[Definition]:
    """The windows of one fleet; the name of the chosen one is green, as on every chart."""
    last, tint = rows[-1], PALETTE[color]
    simulated = last["simulated"] == "simulated"
    tips = ("replicas", "rate", "ms", "kept", "simulated")
    kept = [row for row in rows if row["kept"] == "kept"]
    broken = [row for row in rows if row["kept"] != "kept"]
    look = {"color": tint, "strokeDash": [6, 3] if simulated else [1, 0]}
    name = f"r = {last['replicas']}" + (" (simulated)" if simulated else "")
    fan = [row for row in rows if row["median"] is not None]
    return [
        mark("area", fan, "", {"color": tint, "opacity": _FAN}, x=x, y=y, y2="median"),
        mark("line", rows, "join", look, x=x, y=y),
        *intervals(rows, x, y, color),
        mark("point", kept, "measured", {"color": tint}, x=x, y=y, tips=tips),
        mark("point", broken, "predicted", {"stroke": tint}, x=x, y=y, tips=tips),
        label(name, x, y, (last["rate"], last["ms"]), style="verdict" if is_chosen else "label"),
    ]


def _latency_caption(result: FleetDecision) -> str:
    rates = [
        f"r={row.replicas} keeps the limit up to {row.rate_per_second:.4g} requests/s"
        for row in result.rows
        if row.rate_per_second
    ]
    return f"{'; '.join(rates)}." if rates else "No rate keeps the limit."


def token_cost_chart(result: FleetDecision) -> Figure:
    """What a million good tokens cost at each size: the bill over the demand, and over the roof."""
    priced = [row for row in result.rows if row.usage is not None]
    if not priced:
        raise DataError(
            "No fleet meets the limit at any rate, so no cost is drawn.",
            "Loosen the limit, or measure lower rates.",
        )
    floor = result.question.floor
    wanted = {"allocation": "allocation: the bill over the demand"} if floor else {}
    kinds = {**wanted, "usage": "usage: the bill over the highest rate that keeps the limit"}
    rows = [
        _cost_row(row, getattr(row, kind), name) for kind, name in kinds.items() for row in priced
    ]
    x = _sizes(result)
    title = f"{money_in_words(result.price)} for a million good {result.unit}"
    y = linear("cost", title, 0.0, max(values_of(rows, "cost", "high")) * 1.12)
    shown = [row for row in rows if row["account"] == next(iter(kinds.values()))]
    short = [row for row in shown if row["meets"] != _MEETS]
    layers = [
        *series(list(kinds.values()), "account", rows, x, y, ("K", "account", "cost", "meets")),
        mark("point", short, "refused", x=x, y=y, tips=("K", "meets")),
    ]
    crossed = ["crossed out: does not meet the constraint for certain"] if short else []
    source = f"; price: {result.price.source}" if result.price.source else ""
    made = figure(
        "tokens",
        f"Cost of a million good {result.unit}",
        [f"{shortened(result.name)}{source}; within {result.constraint}", *crossed],
        _cost_caption(result),
        rows,
        layered(layers),
    )
    return _marked(made, result)


def capacity_chart(result: FleetDecision) -> Figure:
    """The capacity at each size, between the rate kept and the rate broken; and the demand."""
    rows = [
        {
            "K": row.replicas,
            "rate": row.estimate,
            "low": row.rate_per_second if row.breaks_at else None,
            "high": row.breaks_at,
            "kept at": row.rate_per_second or None,
            "broken at": row.breaks_at,
            "efficiency": row.efficiency,
            "evidence": row.evidence,
        }
        for row in result.rows
    ]
    floor, x = result.question.floor, _sizes(result)
    known = [row for row in rows if row["rate"] is not None]
    ideal = _in_proportion(known)
    most = max([*values_of([*known, *ideal], "rate"), *values_of(rows, "high"), floor or 0.0])
    y = linear("rate", "requests per second within the limit", 0.0, 1.2 * most or 1.0)
    measured = [row for row in known if row["evidence"] == "measured"]
    simulated = [row for row in known if row["evidence"] != "measured"]
    tips = ("K", "rate", "kept at", "broken at", "evidence")
    layers = [
        mark("line", ideal, "ideal", x=x, y=y),
        *_demand(floor, known, x, y),
        mark("line", known, "join", x=x, y=y),
        *intervals(rows, x, y),
        mark("point", measured, "measured", x=x, y=y, tips=tips),
        mark("point", simulated, "predicted", x=x, y=y, tips=tips),
    ]
    bars = any(row["high"] for row in rows)
    spread = "bars: from the highest rate kept to the lowest broken, for certain" if bars else ""
    hollow = "hollow: simulated" if simulated else ""
    gray = "grey: in proportion to the smallest fleet" if ideal else ""
    made = figure(
        "capacity",
        "Capacity within the limit",
        [shortened(result.name), "; ".join(part for part in (spread, gray, hollow) if part)],
        _capacity_caption(result),
        rows,
        layered(layers),
    )
    return _marked(made, result)


def _sizes(result: FleetDecision) -> Axis:
    return nodes_axis([row.replicas for row in result.rows])._replace(title=_REPLICAS)


def _marked(made: Figure, result: FleetDecision) -> Figure:
    if result.chosen is None:
        return made
    return made.with_chart(with_recommended(made.chart, result.chosen, _REPLICAS))


def _in_proportion(rows: Sequence[Row]) -> list[Row]:
    """The rate that each replica would add if it served as much as those of the smallest fleet.

    A fleet whose limit was not looked for has no efficiency, and nothing to compare it with.
    """
    base = next((row for row in rows if row["rate"]), None)
    if base is None or all(row["efficiency"] is None for row in rows if row is not base):
        return []
    sizes = [row["K"] for row in rows if row["K"] >= base["K"]]
    return [{"K": size, "rate": base["rate"] * size / base["K"]} for size in sizes]


def _demand(floor: float | None, rows: Sequence[Row], x: Axis, y: Axis) -> list[Definition]:
    """The demand; its label is at the side where the capacity is further from it."""
    if floor is None:
        return []
    left, right = x.scale["domain"]
    near = [abs(row["rate"] - floor) for row in (*rows[:1], *rows[-1:])]
    text, rule = f"demand {floor:.4g}/s", mark("rule", [{"rate": floor}], "limit", y=y)
    if near and near[0] > near[-1]:
        return [rule, label(text, x, y, (left, floor))]
    return [rule, label(text, x, y, (right, floor), align="right")]


def _capacity_caption(result: FleetDecision) -> str:
    able = [row for row in result.rows if row.rate_per_second]
    if not able:
        return "No rate keeps the limit for certain."
    last = able[-1]
    if last.efficiency is None:
        rate = f"{'' if last.breaks_at else 'at least '}{last.rate_per_second:.4g}"
        return f"r={last.replicas} serves {rate} requests/s within the limit."
    return (
        f"r={last.replicas} serves about {last.estimate or 0.0:.3g} requests/s within the limit, "
        f"{format_percent(last.efficiency)} of what its replicas would serve in proportion."
    )


def _cost_row(row: FleetRow, cost: TokenCost, account: str) -> Row:
    return {
        "K": row.replicas,
        "account": account,
        "cost": cost.amount,
        "low": cost.low,
        "high": cost.high if cost.high != float("inf") else None,
        "meets": _MEETS if row.meets else row.why,
    }


def _cost_caption(result: FleetDecision) -> str:
    currency = result.price.currency
    if result.chosen is None:
        return "No fleet that was measured meets the constraint."
    cost = result.row(result.chosen).allocation
    if cost is None:
        return f"r={result.chosen} is chosen, and keeps the limit at no rate: it has no price."
    amount = format_money(cost.amount, currency)
    text = f"r={result.chosen} serves a million good {result.unit} for {amount}."
    gap = result.gap_per_million
    if gap:
        text += (
            f" The fleet of the largest throughput, r={result.most_throughput}, pays "
            f"{format_money(abs(gap), currency)} {'more' if gap > 0 else 'less'} for them."
        )
    return text
