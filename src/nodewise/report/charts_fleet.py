"""A fleet in two charts: latency against the rate, and what a token costs at each size."""

from statistics import fmean

import altair as alt

from nodewise.errors import DataError
from nodewise.fleet_decide import FleetDecision, FleetRow, TokenCost
from nodewise.latency import Served
from nodewise.objective import format_share
from nodewise.prices import NODE_HOURS
from nodewise.report.charts_look import (
    PALETTE,
    Axis,
    Figure,
    Row,
    data,
    figure,
    folds,
    label,
    layered,
    linear,
    nodes_axis,
    number,
    series,
    shortened,
    tooltip,
)
from nodewise.units import format_money

_TITLES = {"ttft": "time to the first token", "tpot": "time per token", "latency": "latency"}
# One colour for each size of fleet, smallest first; a label at the end of its line names it.
_COLORS = ("measured", "second", "third", "serial", "imbalance", "slow node")
_MEETS = "meets the constraint"
_TICKS = tuple(base * 10.0**power for power in range(-1, 7) for base in (1, 2, 5))


def latency_chart(result: FleetDecision) -> Figure:
    """The percentile of the objective against the rate, a line for each number of replicas."""
    objective = result.question.objective
    metric, limit = next(iter(objective.limits.items()))
    rows = _latency_rows(result, metric, objective.share)
    rates = [number(row["rate"]) for row in rows] or [1.0]
    times = [number(row["ms"]) for row in rows] or [1000 * limit]
    x = folds(
        "rate", "requests per second, offered to the fleet", min(rates) / 1.2, max(rates) * 1.5
    )
    y = _milliseconds(
        f"{_TITLES[metric]}, ms", min(*times, 1000 * limit) / 1.4, max(*times, 1000 * limit) * 1.4
    )
    layers = [
        alt.Chart(data([{"ms": 1000 * limit}])).mark_rule(style="limit").encode(y=y.y()),
        label(f"limit {1000 * limit:.4g} ms", x, y, (min(rates) / 1.2, 1000 * limit)),
    ]
    sizes = sorted({int(number(row["replicas"])) for row in rows})
    for at, replicas in enumerate(sizes):
        own = [row for row in rows if row["replicas"] == replicas]
        layers += _line(own, x, y, PALETTE[_COLORS[at % len(_COLORS)]], replicas)
    share = format_share(objective.share)
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


def _latency_rows(result: FleetDecision, metric: str, share: float) -> list[Row]:
    groups: dict[tuple[int, float], list[Served]] = {}
    for one in sorted(result.windows, key=lambda one: (one.replicas, one.offered_per_second)):
        groups.setdefault((one.replicas, one.offered_per_second), []).append(one)
    rows: list[Row] = []
    for (replicas, rate), windows in groups.items():
        found = [
            one.seconds
            for window in windows
            for one in getattr(window, metric)
            if one.share == min((p.share for p in window.ttft), key=lambda s: abs(s - share))
            and one.seconds is not None
        ]
        if not found or all(window.is_client_fault for window in windows):
            continue
        kept = all(window.verdict == "met" for window in windows)
        rows.append(
            {
                "replicas": replicas,
                "rate": rate,
                "ms": 1000 * fmean(found),
                "kept": "kept" if kept else "not kept",
                "simulated": "simulated" if windows[0].simulated else "measured",
            }
        )
    return rows


def _line(rows: list[Row], x: Axis, y: Axis, color: str, replicas: int) -> list[alt.Chart]:
    simulated = rows[0]["simulated"] == "simulated"
    base = alt.Chart(data(rows)).encode(x=x.x(), y=y.y())
    marks = alt.Chart(data([row for row in rows if row["kept"] == "kept"])).encode(x=x.x(), y=y.y())
    open_marks = alt.Chart(data([row for row in rows if row["kept"] != "kept"])).encode(
        x=x.x(), y=y.y()
    )
    told = tooltip("replicas", "rate", "ms", "kept", "simulated")
    last = rows[-1]
    name = f"r = {replicas}" + (" (simulated)" if simulated else "")
    return [
        base.mark_line(style="join", color=color, strokeDash=[6, 3] if simulated else [1, 0]),
        marks.mark_point(style="measured", color=color).encode(tooltip=told),
        open_marks.mark_point(style="predicted", stroke=color).encode(tooltip=told),
        label(name, x, y, (number(last["rate"]), number(last["ms"])), style="label"),
    ]


def _milliseconds(title: str, low: float, high: float) -> Axis:
    scale = alt.Scale(type="log", base=10, domain=[low, high], nice=False)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    return Axis("ms", title, scale, alt.Axis(values=ticks, format="~g"))


def _latency_caption(result: FleetDecision) -> str:
    told = [
        f"{row.replicas} replica{'s' if row.replicas > 1 else ''} keep the limit up to "
        f"{row.rate_per_second:.4g} requests/s"
        for row in result.rows
        if row.rate_per_second
    ]
    return f"{'; '.join(told)}." if told else "No rate keeps the limit."


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
    rows: list[Row] = [
        _cost_row(row, getattr(row, kind), name) for kind, name in kinds.items() for row in priced
    ]
    x = nodes_axis([row.replicas for row in priced])._replace(title="replicas r")
    tops = [number(row["cost"]) for row in rows] + [
        number(row["high"]) for row in rows if row["high"] is not None
    ]
    money = "replica-hours" if result.price.currency == NODE_HOURS else result.price.currency
    y = linear("cost", f"{money} for a million good {result.unit}", 0.0, max(tops) * 1.12)
    layers = series(
        list(kinds.values()), "account", rows, x, y, tooltip("K", "account", "cost", "meets")
    )
    shown = "allocation" if floor else "usage"
    short = [row for row in rows if row["meets"] != _MEETS and row["account"] == kinds[shown]]
    if short:
        crosses = alt.Chart(data(short)).mark_point(style="refused")
        layers.append(crosses.encode(x=x.x(), y=y.y(), tooltip=tooltip("K", "meets")))
    if result.chosen is not None:
        chosen: TokenCost | None = getattr(result.row(result.chosen), shown)
        assert chosen is not None
        at = {"K": result.chosen, "cost": chosen.amount}
        layers += [
            alt.Chart(data([at])).mark_point(style="ring").encode(x=x.x(), y=y.y()),
            label(
                "chosen",
                x,
                y,
                (result.chosen, chosen.amount),
                style="verdict",
                away=11,
                align="right" if 1 < result.chosen == priced[-1].replicas else "left",
            ),
        ]
    crossed = "; crossed out: does not meet it" if short else ""
    source = f"; price: {result.price.source}" if result.price.source else ""
    return figure(
        "tokens",
        "What a million good tokens cost at each size of the fleet"
        if result.unit == "tokens"
        else "What a million good requests cost at each size of the fleet",
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
    row = result.row(result.chosen)
    assert row.allocation is not None
    told = (
        f"{row.replicas} replica{'s' if row.replicas > 1 else ''} serve a million good "
        f"{result.unit} for {format_money(row.allocation.amount, currency)}."
    )
    if result.most_throughput not in (None, result.chosen) and result.gap_per_million:
        told += (
            f" The fleet of the largest throughput, r={result.most_throughput}, pays "
            f"{format_money(result.gap_per_million, currency)} more for them."
        )
    return told
