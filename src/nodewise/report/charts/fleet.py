"""A fleet in two charts: latency against the rate, and what a token costs at each size."""

from itertools import cycle
from statistics import fmean
from typing import Literal

from nodewise.base.errors import DataError
from nodewise.base.units import format_money
from nodewise.fleet.decide import FleetDecision, FleetRow, TokenCost, money_in_words
from nodewise.fleet.latency import Served, requests_to_certify
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Definition,
    Figure,
    Row,
    figure,
    folds,
    label,
    layered,
    linear,
    logarithmic,
    mark,
    nodes_axis,
    series,
    shortened,
    values_of,
)
from nodewise.study.service_objective import format_share

_TITLES = {"ttft": "time to the first token", "tpot": "time per token", "latency": "latency"}
# One colour for each size of fleet, smallest first; a label at the end of its line names it.
_COLORS = ("measured", "second", "third", "serial", "imbalance", "slow node")
_MEETS = "meets the constraint"
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
    times = [most, *values_of(rows, "ms")]
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
        layers += _line(own, x, y, PALETTE[colors[replicas]])
    return figure(
        "latency",
        f"Latency against the rate: {share} of the requests are quicker than this",
        [
            f"{shortened(result.name)}; {objective.words}",
            "filled: that is kept, with 95 % certainty; hollow: it is not",
        ],
        _latency_caption(result),
        rows,
        layered(layers),
    )


def _latency_rows(result: FleetDecision) -> list[Row]:
    groups: dict[tuple[int, float, bool], list[Served]] = {}
    for one in sorted(result.windows, key=lambda one: (one.replicas, one.offered_per_second)):
        groups.setdefault((one.replicas, one.offered_per_second, one.simulated), []).append(one)
    rows: list[Row] = []
    for (replicas, rate, simulated), windows in groups.items():
        times = [window.percentile_of(result.question.objective).seconds for window in windows]
        found = [seconds for seconds in times if seconds is not None]
        if not found or all(window.is_client_fault for window in windows):
            continue
        kept = all(window.verdict == "met" for window in windows)
        rows.append(
            {
                "replicas": replicas,
                "rate": rate,
                "ms": 1000 * fmean(found),
                "kept": "kept" if kept else "not kept",
                "simulated": "simulated" if simulated else "measured",
            }
        )
    return rows


def _line(rows: list[Row], x: Axis, y: Axis, color: str) -> list[Definition]:
    last = rows[-1]
    simulated = last["simulated"] == "simulated"
    tips = ("replicas", "rate", "ms", "kept", "simulated")
    kept = [row for row in rows if row["kept"] == "kept"]
    broken = [row for row in rows if row["kept"] != "kept"]
    look = {"color": color, "strokeDash": [6, 3] if simulated else [1, 0]}
    name = f"r = {last['replicas']}" + (" (simulated)" if simulated else "")
    return [
        mark("line", rows, "join", look, x=x, y=y),
        mark("point", kept, "measured", {"color": color}, x=x, y=y, tips=tips),
        mark("point", broken, "predicted", {"stroke": color}, x=x, y=y, tips=tips),
        label(name, x, y, (last["rate"], last["ms"]), style="label"),
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
            "No fleet keeps the limit at any rate, so there is no cost to draw.",
            "Loosen the limit, or measure lower rates.",
        )
    floor = result.question.floor
    wanted = {"allocation": "allocation: the bill over the demand"} if floor else {}
    kinds = {**wanted, "usage": "usage: the bill over the highest rate that keeps the limit"}
    rows = [
        _cost_row(row, getattr(row, kind), name) for kind, name in kinds.items() for row in priced
    ]
    x = nodes_axis([row.replicas for row in priced])._replace(title="replicas r")
    title = f"{money_in_words(result.price)} for a million good {result.unit}"
    y = linear("cost", title, 0.0, max(values_of(rows, "cost", "high")) * 1.12)
    shown = [row for row in rows if row["account"] == next(iter(kinds.values()))]
    short = [row for row in shown if row["meets"] != _MEETS]
    layers = [
        *series(list(kinds.values()), "account", rows, x, y, ("K", "account", "cost", "meets")),
        mark("point", short, "refused", x=x, y=y, tips=("K", "meets")),
    ]
    for row in shown:
        if row["K"] == result.chosen:
            last = 1 < row["K"] == priced[-1].replicas
            align: Literal["left", "right"] = "right" if last else "left"
            at = (row["K"], row["cost"])
            layers += [
                mark("point", [row], "ring", x=x, y=y),
                label("chosen", x, y, at, style="verdict", away=11, align=align),
            ]
    crossed = "; crossed out: does not meet it" if short else ""
    source = f"; price: {result.price.source}" if result.price.source else ""
    return figure(
        "tokens",
        f"What a million good {result.unit} cost at each size of the fleet",
        [f"{shortened(result.name)}{source}", f"within {result.constraint}{crossed}"],
        _cost_caption(result),
        rows,
        layered(layers),
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
