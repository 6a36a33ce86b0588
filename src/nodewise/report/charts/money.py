"""Charts of what scale costs: the U of cost, the margin, ways to pay, time against money."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import altair as alt

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_speedup,
)
from nodewise.decide.decide import Decision, DecisionRow, Marginal, Quality
from nodewise.decide.inputs import INPUTS
from nodewise.decide.prices.bill import NODE_HOURS
from nodewise.report.charts.look import (
    HEIGHT,
    PALETTE,
    Axis,
    Figure,
    Row,
    about,
    data,
    failed_words,
    failures,
    figure,
    intervals,
    known,
    label,
    layered,
    linear,
    nodes_axis,
    number,
    series,
    time_unit,
    tooltip,
)
from nodewise.study.study import Study

_MOST_STEPS = 12
_MOST_LABELS = 12
_SHORT = {"price": "node price", "fixed": "overhead", "value-per-hour": "waiting"}
_ROLE_SHAPES = ("diamond", "triangle-up", "square", "circle")


class _Scale(NamedTuple):
    """One scale, priced and timed for the same work: that of the first run."""

    row: DecisionRow
    work: float  # of its run, over that of the first

    @property
    def nodes(self) -> int:
        return self.row.nodes

    @property
    def cost(self) -> float:
        """What scales are ranked by: the bill, and the worth of waiting where it has one."""
        return (self.row.cost + self.row.bill.waiting) / self.work

    @property
    def seconds(self) -> float:
        return self.row.seconds / self.work


class _Money(NamedTuple):
    """The axis of cost: of one run, or of so many that the numbers are short."""

    title: str
    factor: float


def cost(decision: Decision, study: Study | None = None) -> Figure | None:
    """The U of cost: the cheapest K, the fastest, and the money between them.

    Nothing without a price. `study` adds the scales at which every run failed.
    """
    if decision.price.currency == NODE_HOURS:
        return None
    scales = _scales(decision)
    failed = study.broken if study else {}
    rows = [_cost_row(scale) for scale in scales]
    money = _money(decision, scales)
    told = [_cost_words(scale, decision, money) for scale in scales]
    values = [v for row in told for v in known(row["shown"], row["low"], row["high"])]
    nodes = [*(scale.nodes for scale in scales), *failed]
    x = nodes_axis(nodes)
    y = linear("shown", money.title, *_span(values))
    allowed = [row for row in told if not row["excluded"]]
    layers = [
        *_curve(allowed, x, y, "join" if decision.measured else "beyond"),
        *intervals(allowed, x, y),
        *_money_between(decision, scales, money, x, y),
        *(_points(allowed, x, y) if decision.measured else []),
        *_crosses(told, x, y),
        *failures(failed, x, y, _span(values)[0]),
        *_roles(decision, scales, money, x, y),
    ]
    return figure(
        "cost",
        "What a run costs at each scale",
        _about(decision, _price_line(decision)),
        _cost_caption(decision, scales, failed),
        rows,
        layered(layers),
    )


def pareto(decision: Decision) -> Figure | None:
    """Time against cost, and the frontier of scales that no other beats in both."""
    scales = _scales(decision)
    if len(scales) < 2:
        return None
    money, unit = _money(decision, scales), time_unit(max(scale.seconds for scale in scales))
    named = _labelled(decision, scales)
    told = [
        {
            **_cost_words(scale, decision, money),
            "units": scale.seconds / unit.seconds,
            "label": str(scale.nodes) if scale.nodes in named else "",
        }
        for scale in scales
    ]
    x = _time_axis([number(row["units"]) for row in told], _time_title(decision, unit.name))
    y = linear("shown", money.title, *_span([number(row["shown"]) for row in told]))
    best = [row for row in told if row["K"] in decision.frontier]
    beaten = [row for row in told if row not in best and not row["excluded"]]
    drawn = [*_points(beaten, x, y, "beaten"), *_points(best, x, y)]
    if not decision.measured:  # a point for every K of a model would be a thick line
        drawn = _curve([row for row in told if not row["excluded"]], x, y, "limit")
    texts = alt.Chart(data(told)).mark_text(
        style="label", align="left", baseline="bottom", dx=5, dy=-4
    )
    layers = [
        *_curve(best, x, y, "join" if decision.measured else "beyond"),
        *drawn,
        *_crosses(told, x, y),
        *_roles(decision, scales, money, x, y, unit.seconds),
        texts.encode(x=x.x(), y=y.y(), text="label:N"),
    ]
    parts = ["numbers: K"]
    parts += ["line: no other scale is faster and cheaper"] if len(best) > 1 else []
    parts += ["grey: beaten"] if beaten and decision.measured else []
    parts += ["crossed out: excluded"] if any(row["excluded"] for row in told) else []
    return figure(
        "pareto",
        "Time against cost",
        _about(decision, "; ".join(parts)),
        _pareto_caption(decision),
        [
            {
                "K": scale.nodes,
                "seconds": scale.seconds,
                "cost": scale.cost,
                "on the frontier": scale.nodes in decision.frontier,
                "excluded because": scale.row.excluded_because,
            }
            for scale in scales
        ],
        layered(layers, 1.1 * HEIGHT),
    )


def marginal(decision: Decision) -> Figure | None:
    """What each step up the ladder returns: folds per added node, and per extra dollar."""
    steps = decision.marginal if len(decision.marginal) < _MOST_STEPS else _doublings(decision)
    if not steps:
        return None
    rows: list[Row] = [
        {
            "from": step.from_nodes,
            "to": step.to_nodes,
            "folds": step.speedup,
            "folds per node": step.speedup / (step.to_nodes - step.from_nodes),
            "cost": step.cost,
            "folds per dollar": step.speedup_per_dollar,
            "seconds saved": step.seconds_saved,
        }
        for step in steps
    ]
    money = "extra $" if decision.price.currency == "$" else f"extra {decision.price.currency}"
    told = [{**row, **_step_words(step, decision)} for row, step in zip(rows, steps, strict=True)]
    # in weak scaling the work grows, so one fold for each node is no ideal of the same job
    ideal = 1 / decision.rows[0].nodes if decision.regime == "strong" else None
    panels = [_step_bars(told, "folds per node", "folds per added node", "per node", ideal)]
    if any(step.speedup_per_dollar is not None for step in steps):
        panels.append(_step_bars(told, "folds per dollar", f"folds per {money}", "rate", None))
    kind = "speedup" if decision.regime == "strong" else "scaled speedup"
    read = ["line: what a node returns where nothing is lost"] if ideal else []
    return figure(
        "marginal",
        f"What each step up returns, in folds of {kind}",
        _about(decision, *read),
        _marginal_caption(decision, steps),
        rows,
        alt.VConcatChart(vconcat=panels),
    )


def payment(decision: Decision) -> Figure | None:
    """The same runs paid for in several ways; nothing where there is one way only."""
    if len(decision.payments) < 2:
        return None
    currency, money = decision.price.currency, _money(decision, _scales(decision))
    words = {}
    for one in decision.payments:
        best = "no scale passes"
        if one.cheapest is not None:
            cost = format_money(one.cheapest.cost, currency)
            best = f"cheapest K={one.cheapest.nodes}, {cost}"
        share = f"{format_percent(one.fraction)} of the price"
        applies = "" if one.applies else ", does not apply"
        words[one.label] = f"{one.label} ({share}{applies}): {best}"
    rows: list[Row] = [
        {
            "payment": one.label,
            "K": at.nodes,
            "cost": at.cost,
            "cheapest": one.cheapest is not None and at.nodes == one.cheapest.nodes,
        }
        for one in decision.payments
        for at in one.rows
    ]
    told = [
        {
            **row,
            "way": words[str(row["payment"])],
            "shown": number(row["cost"]) * money.factor,
            "price": format_money(number(row["cost"]), currency),
        }
        for row in rows
    ]
    x = nodes_axis([row.nodes for row in decision.rows])
    y = linear("shown", money.title, 0, 1.08 * max(number(row["shown"]) for row in told) or 1.0)
    best_of = [row for row in told if row["cheapest"]]
    layers = series(
        list(words.values()),
        "way",
        told,
        x,
        y,
        tooltip("payment", "K", "price"),
        # a point for every K of a model would be a thick line
        lambda row: decision.measured or bool(row["cheapest"]),
    )
    if best_of:
        rings = alt.Chart(data(best_of)).mark_point(style="ring")
        layers.append(rings.encode(x=x.x(), y=y.y()))
    return figure(
        "payment",
        "The same runs, paid for in other ways",
        _about(decision, "rings: the cheapest scale of each"),
        decision.cheaper_nodes,
        rows,
        layered(layers),
    )


def triangle(decision: Decision) -> Figure | None:
    """Quality, throughput and cost at each K, above each other; nothing without quality."""
    if decision.quality is None or len(decision.rows) < 2:
        return None
    scales = _scales(decision)
    money = _money(decision, scales)
    works = [scale.row.work for scale in scales]
    unit = "throughput, work/s"
    if any(work is None for work in works):
        unit = f"throughput over K={scales[0].nodes}"
    rows: list[Row] = [
        {
            "K": scale.nodes,
            "quality": scale.row.quality,
            "throughput": scale.row.speedup if work is None else work / scale.row.seconds,
            "cost": scale.cost,
            "seconds": scale.row.seconds,
        }
        for scale, work in zip(scales, works, strict=True)
    ]
    told = [
        {
            **_cost_words(scale, decision, money),
            **row,
            "merit": format_efficiency(number(row["quality"])),
            "rate": format_quantity(number(row["throughput"])),
        }
        for row, scale in zip(rows, scales, strict=True)
    ]
    nodes = [scale.nodes for scale in scales]
    costs = [v for row in told for v in known(row["shown"], row["high"])]
    throughputs = [number(row["throughput"]) for row in rows]
    plain = alt.Axis(tickCount=4, format=",~f")
    panels = [
        _panel(told, _quality_axis(rows, decision.quality), decision),
        _panel(told, linear("throughput", unit, 0, 1.15 * max(throughputs), plain), decision),
        _panel(told, linear("shown", money.title, 0, 1.15 * max(costs) or 1.0, plain), decision),
    ]
    return figure(
        "triangle",
        "Quality, throughput and cost at each scale",
        _about(
            decision,
            f"band: quality within {decision.quality.tolerance:g} of K={nodes[0]}; "
            "ring: the recommended scale",
        ),
        _triangle_caption(decision),
        rows,
        alt.VConcatChart(vconcat=panels),
    )


def sensitivity(decision: Decision) -> Figure | None:
    """How the cost and the cheapest K move when a price is a fifth or a half off, or in its range.

    Nothing where the cost is proportional to the one price there is.
    """
    if decision.ranges:
        return _given_ranges(decision)
    chosen, scales = decision.recommended.nodes, _scales(decision)
    if not decision.sensitivity:
        return None
    rows: list[Row] = [
        {
            "what": one.price,
            "factor": one.factor,
            "cost": one.cost,
            "cheapest K": one.cheapest,
            "least cost": one.least_cost,
        }
        for one in decision.sensitivity
    ]
    base = next(scale.cost for scale in scales if scale.nodes == chosen)
    return figure(
        "sensitivity",
        f"How the cost of K={chosen} moves when a price is off",
        _about(
            decision,
            "thick: by 20 %; thin: by 50 %, at its ends the K that is then the cheapest",
        ),
        _sensitivity_caption(decision, rows, base),
        rows,
        _tornado(rows, base, _money(decision, scales), decision.price.currency),
    )


def _given_ranges(decision: Decision) -> Figure | None:
    """How the least cost and the cheapest K move within the ranges that were given."""
    swings = [one for one in decision.tornado if one.payment == "on-demand" and one.low_nodes]
    if decision.cheapest is None or not any(one.is_range for one in swings):
        return None
    currency, base = decision.price.currency, decision.cheapest.cost
    money = _money(decision, _scales(decision))
    rows: list[Row] = []
    bars: list[Row] = []
    ends: list[Row] = []
    for one in swings:
        about_it = INPUTS.get(one.input)
        what = _SHORT.get(one.input, one.input)
        sides = (("left", one.low, one.low_nodes, one.low_cost),
                 ("right", one.high, one.high_nodes, one.high_cost))  # fmt: skip
        said = [about_it.form(end, currency) if about_it else f"{end:.3g}" for _, end, *_ in sides]
        off = "" if one.is_range else ", 20 % off because no range was given"
        rows.append(
            {
                "what": what,
                "from": said[0],
                "to": said[1],
                "given": "a range" if one.is_range else "20 % off",
                "least cost from": one.low_cost,
                "least cost to": one.high_cost,
                "cheapest K from": one.low_nodes,
                "cheapest K to": one.high_nodes,
            }
        )
        bars.append(
            {
                "what": what,
                "kind": "thick" if one.is_range else "thin",
                "shown": one.low_cost * money.factor,
                "to": one.high_cost * money.factor,
                "off": f"{said[0]} to {said[1]}{off}",
                "between": " to ".join(
                    format_money(cost, currency) for cost in (one.low_cost, one.high_cost)
                ),
            }
        )
        ends += [
            {"what": what, "shown": cost * money.factor, "side": side, "text": f"K={nodes}"}
            for side, _, nodes, cost in sides
        ]
    order = [str(row["what"]) for row in rows]
    return figure(
        "sensitivity",
        "How the least cost moves within the ranges given",
        _about(
            decision,
            "thick: a range that was given; thin: 20 % off; at the ends the K that is then the "
            "cheapest",
        ),
        _ranges_caption(decision, rows, base),
        rows,
        _draw_tornado(bars, ends, order, base * money.factor, money),
    )


def _ranges_caption(decision: Decision, rows: Sequence[Row], base: float) -> str:
    money = format_money(base, decision.price.currency)
    assert decision.cheapest is not None
    text = f"K={decision.cheapest.nodes} costs {money} with every input at the centre of its range"
    moved = [
        f"{row['what']} {row['from']} to {row['to']}: K={row['cheapest K from']} to "
        f"K={row['cheapest K to']}"
        for row in rows
        if row["cheapest K from"] != row["cheapest K to"]
    ]
    if not moved:
        return f"{text}, and stays the cheapest within every range."
    return f"{text}. The cheapest moves with {'; '.join(moved)}."


def _about(decision: Decision, *more: str) -> list[str]:
    """The lines below a title; a model is never taken for a measurement."""
    model = () if decision.measured else ("a model, not a measurement",)
    return about(decision.name, decision.regime, "; ".join((*more, *model)))


def _scales(decision: Decision) -> list[_Scale]:
    return [_Scale(row, row.relative_work) for row in decision.rows]


def _cost_row(scale: _Scale) -> Row:
    row = scale.row
    return {
        "K": row.nodes,
        "cost": scale.cost,
        "bill": row.cost / scale.work,
        "low": None if row.cost_low is None else row.cost_low / scale.work,
        "high": None if row.cost_high is None else row.cost_high / scale.work,
        "seconds": row.seconds,
        "probability cheapest": row.probability_cheapest,
        "excluded because": row.excluded_because,
    }


def _cost_words(scale: _Scale, decision: Decision, money: _Money) -> Row:
    """A point of a chart: where its cost lies, and what it says when pointed at."""
    row = scale.row
    factor = money.factor / scale.work
    # bounds are known of the bill, not of the worth of waiting
    bounded = row.cost_low is not None and row.cost_high is not None and not row.bill.waiting
    return {
        "K": row.nodes,
        "shown": scale.cost * money.factor,
        "low": row.cost_low * factor if bounded and row.cost_low is not None else None,
        "high": row.cost_high * factor if bounded and row.cost_high is not None else None,
        "price": format_money(scale.cost, decision.price.currency),
        "time": format_duration(row.seconds),
        "S": format_speedup(row.speedup),
        "E": format_efficiency(row.efficiency),
        "excluded": row.excluded_because or "",
    }


def _money(decision: Decision, scales: Sequence[_Scale]) -> _Money:
    """How cost is written along an axis: of so many runs, or in millions, that it is short."""
    highest = max(scale.cost for scale in scales)
    unit = "node-hours" if decision.price.currency == NODE_HOURS else decision.price.currency
    factor, runs = 1.0, 1
    if highest >= 1e6:
        factor, unit = 1e-6, f"million {unit}"
    elif 0 < highest < 0.1:
        runs = 1_000 if highest >= 1e-4 else 1_000_000
        factor = float(runs)
    if any(scale.row.bill.waiting for scale in scales):
        unit += ", waiting included"
    if decision.regime == "weak":
        times = "" if runs == 1 else f"{runs:,} x "
        return _Money(f"cost of {times}the first run's work, {unit}", factor)
    return _Money(f"cost of {'a run' if runs == 1 else f'{runs:,} runs'}, {unit}", factor)


def _time_title(decision: Decision, unit: str) -> str:
    same = "of a run" if decision.regime == "strong" else "for the first run's work"
    return f"time {same}, {unit}"


def _span(values: Sequence[float]) -> tuple[float, float]:
    """From zero, unless that would press the curve flat."""
    low, high = min(values), max(values)
    if low < 0.6 * high:
        return 0.0, 1.08 * high
    margin = 0.25 * (high - low) or 0.1 * high or 1.0
    return max(0.0, low - margin), high + margin


def _curve(rows: Sequence[Row], x: Axis, y: Axis, style: str) -> list[alt.Chart]:
    """A line through scales in the order of K, because time and cost may both turn back."""
    mark = alt.Chart(data(rows)).mark_line(style=style)
    return [mark.encode(x=x.x(), y=y.y(), order=alt.Order("K:Q"))] if len(rows) > 1 else []


def _points(rows: Sequence[Row], x: Axis, y: Axis, style: str = "measured") -> list[alt.Chart]:
    told = tooltip("K", "time", "price", "S", "E")
    mark = alt.Chart(data(rows)).mark_point(style=style)
    return [mark.encode(x=x.x(), y=y.y(), tooltip=told)] if rows else []


def _crosses(rows: Sequence[Row], x: Axis, y: Axis) -> list[alt.Chart]:
    crossed = [row for row in rows if row["excluded"]]
    if not crossed:
        return []
    told = tooltip("K", "time", "price", "excluded")
    mark = alt.Chart(data(crossed)).mark_point(style="refused")
    return [mark.encode(x=x.x(), y=y.y(), tooltip=told)]


def _roles(
    decision: Decision,
    scales: Sequence[_Scale],
    money: _Money,
    x: Axis,
    y: Axis,
    unit: float = 1.0,
) -> list[alt.Chart]:
    """The chosen scales by shape and colour; what they are stands in the legend, clear of all."""
    roles = _role_words(decision)
    if not roles:
        return []
    by_nodes = {scale.nodes: scale for scale in scales}
    currency = decision.price.currency
    rows = []
    for nodes, words in roles.items():
        scale = by_nodes[nodes]
        price = format_money(scale.cost, currency)
        text = f"{words}: K={nodes}, {price}, {format_duration(scale.seconds)}"
        at = {"K": nodes, "units": scale.seconds / unit, "shown": scale.cost * money.factor}
        rows.append({**at, "role": text})
    names = [str(row["role"]) for row in rows]
    recommended = [decision.recommended.nodes == nodes for nodes in roles]
    colors = [PALETTE["chosen" if chosen else "ink"] for chosen in recommended]
    mark = alt.Chart(data(rows)).mark_point(style="role")
    return [
        mark.encode(
            x=x.x(),
            y=y.y(),
            color=alt.Color(
                "role:N",
                scale=alt.Scale(domain=names, range=colors),
                legend=alt.Legend(columns=1),
            ),
            shape=alt.Shape(
                "role:N", scale=alt.Scale(domain=names, range=list(_ROLE_SHAPES[: len(names)]))
            ),
        )
    ]


def _role_words(decision: Decision) -> Mapping[int, str]:
    """The scales that a reader looks for, and what each of them is."""
    words: dict[int, list[str]] = {}
    for nodes, role in (
        (decision.recommended.nodes, "recommended"),
        (decision.cheapest.nodes if decision.cheapest else None, "cheapest"),
        (decision.fastest.nodes if decision.fastest else None, "fastest"),
    ):
        if nodes is not None:
            words.setdefault(nodes, []).append(role)
    return {nodes: ", ".join(roles) for nodes, roles in words.items()}


def _money_between(
    decision: Decision, scales: Sequence[_Scale], money: _Money, x: Axis, y: Axis
) -> list[alt.Chart]:
    """The price of pure speed: from the cost of the cheapest up to that of the fastest."""
    if decision.cheapest is None or decision.fastest is None:
        return []
    cost_of = {scale.nodes: scale.cost for scale in scales}
    least, most = cost_of[decision.cheapest.nodes], cost_of[decision.fastest.nodes]
    if most <= least:
        return []
    low, high = least * money.factor, most * money.factor
    level = [{"K": one.nodes, "shown": low} for one in (decision.cheapest, decision.fastest)]
    gap = [{"K": decision.fastest.nodes, "shown": low, "top": high}]
    text = f"+{format_money(most - least, decision.price.currency)}"
    foot = (decision.fastest.nodes, low)
    return [
        alt.Chart(data(level)).mark_line(style="limit").encode(x=x.x(), y=y.y()),
        alt.Chart(data(gap)).mark_rule(style="gap").encode(x=x.x(), y=y.y(), y2="top:Q"),
        label(text, x, y, foot, style="verdict", align="right", side="below", away=4),
    ]


def _price_line(decision: Decision) -> str:
    price, currency = decision.price, decision.price.currency
    parts = []
    if price.per_node_hour is not None:
        parts.append(f"{format_money(price.per_node_hour, currency)} per node-hour")
    if price.fixed_per_hour:
        parts.append(f"{format_money(price.fixed_per_hour, currency)} per hour besides")
    if price.source:
        parts.append(f"source: {' '.join(price.source.split())}")
    if decision.rows[0].cost_low is not None and not decision.rows[0].bill.waiting:
        parts.append("bars: interval of the time")
    return "; ".join(parts) or "price: by the table's column"


def _cost_caption(decision: Decision, scales: Sequence[_Scale], failed: Mapping[int, str]) -> str:
    currency = decision.price.currency
    by_nodes = {scale.nodes: scale for scale in scales}
    if decision.cheapest is None or decision.fastest is None:
        text = f"{capitalised(decision.recommended.because)}."
    else:
        least, quick = by_nodes[decision.cheapest.nodes], by_nodes[decision.fastest.nodes]
        work = "a run" if decision.regime == "strong" else "for the work of the first run"
        text = (
            f"The cheapest scale is K={least.nodes}: {format_money(least.cost, currency)} and "
            f"{format_duration(least.seconds)} {work}"
        )
        if least is quick:
            text += "; it is the fastest, too."
        else:
            text += (
                f". K={quick.nodes}, the fastest, is {least.seconds / quick.seconds:.2f} times as "
                f"fast and costs {format_money(quick.cost - least.cost, currency)} more."
            )
    refused = [str(row.nodes) for row in decision.rows if row.excluded]
    if refused:
        text += (
            f" Crossed out: K={', '.join(refused[:6])}{' and more' if len(refused) > 6 else ''}."
        )
    return text + failed_words(failed)


def _labelled(decision: Decision, scales: Sequence[_Scale]) -> set[int]:
    """The scales whose K is written beside their point: few enough to be read."""
    if len(scales) <= _MOST_LABELS:
        return {scale.nodes for scale in scales}
    return {*_role_words(decision), scales[0].nodes, scales[-1].nodes}


def _time_axis(units: Sequence[float], title: str) -> Axis:
    low, high = min(units), max(units)
    margin = max(high / low, 1.5) ** 0.08
    low, high = low / margin, high * margin
    ticks: list[float] = []
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):  # the finer ones where there are too few
        values = [step * 10.0**power for power in range(-6, 7) for step in steps]
        ticks = ticks if len(ticks) > 3 else [step for step in values if low <= step <= high]
    if len(ticks) < 3:  # a narrow range: let the machine find round numbers
        scale = alt.Scale(domain=[low, high], nice=False, zero=False)
        return Axis("units", title, scale, alt.Axis(tickCount=6, format="~f", grid=False))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return Axis("units", title, scale, alt.Axis(values=ticks, format="~g", grid=False))


def _pareto_caption(decision: Decision) -> str:
    shown = ", ".join(str(nodes) for nodes in decision.frontier[:10])
    more = " and more" if len(decision.frontier) > 10 else ""
    text = f"No other scale is both faster and cheaper than K={shown}{more}."
    if not decision.frontier:
        text = "No scale passes every gate."
    chosen = decision.recommended.nodes
    return f"{text} Recommended: K={chosen}, {decision.recommended.because}." if chosen else text


def _doublings(decision: Decision) -> tuple[Marginal, ...]:
    """Doublings of which each begins where the one before ended."""
    chain: list[Marginal] = []
    for step in decision.doublings:
        if not chain or step.from_nodes == chain[-1].to_nodes:
            chain.append(step)
    return tuple(chain)


def _step_words(step: Marginal, decision: Decision) -> Row:
    rate = step.speedup_per_dollar
    free = "saves" if step.cost < 0 else "free"
    return {
        "step": f"{step.from_nodes} \N{RIGHTWARDS ARROW} {step.to_nodes}",
        "per node": f"{step.speedup / (step.to_nodes - step.from_nodes):.2f}",
        "rate": free if rate is None else format_quantity(rate),
        "gain": f"{step.speedup:+.2f}",
        "extra": format_money(step.cost, decision.price.currency),
        "saved": format_duration(step.seconds_saved),
    }


def _step_bars(
    rows: Sequence[Row], field: str, title: str, text: str, ideal: float | None
) -> alt.LayerChart:
    """A bar for each step with its number: inside a high bar, above a low one."""
    drawn = [{**row, field: row[field] or 0.0} for row in rows]
    values = [0.0, ideal or 0.0, *(number(row[field]) for row in drawn)]
    low, high = min(values), max(values)
    margin = 0.14 * (high - low)
    y = linear(field, title, low - (margin if low < 0 else 0), high + margin)
    x = alt.X(
        "step:O",
        title="step in nodes",
        sort=[str(row["step"]) for row in rows],
        axis=alt.Axis(labelAngle=0, grid=False, labelOverlap="greedy"),
    )
    tall = [row for row in drawn if number(row[field]) > 2 * margin]
    # the number of a bar that hangs down stands above it, too
    short = [{**row, field: max(number(row[field]), 0.0)} for row in drawn if row not in tall]
    layers = [
        alt.Chart(data(drawn))
        .mark_bar(style="step")
        .encode(x=x, y=y.y(), tooltip=tooltip("step", "gain", "extra", "rate", "saved")),
    ]
    inside, above = (
        alt.Chart(data(part)).encode(x=x, y=y.y(), text=f"{text}:N") for part in (tall, short)
    )
    layers += [inside.mark_text(style="inside", baseline="top", dy=5)] if tall else []
    layers += [above.mark_text(style="label", baseline="bottom", dy=-3)] if short else []
    if ideal is not None:
        layers.append(alt.Chart(data([{field: ideal}])).mark_rule(style="ideal").encode(y=y.y()))
    return layered(layers, 0.6 * HEIGHT)


def _marginal_caption(decision: Decision, steps: Sequence[Marginal]) -> str:
    first, last = steps[0], steps[-1]
    per_node = [step.speedup / (step.to_nodes - step.from_nodes) for step in (first, last)]
    text = (
        f"From K={first.from_nodes} to K={first.to_nodes} an added node returns "
        f"{format_speedup(per_node[0])} folds"
    )
    if last is not first:
        text += (
            f", from K={last.from_nodes} to K={last.to_nodes} {format_speedup(per_node[1])} "
            f"({format_duration(abs(last.seconds_saved))} "
            f"{'saved' if last.seconds_saved >= 0 else 'lost'}, "
            f"{format_money(abs(last.cost), decision.price.currency)} "
            f"{'more' if last.cost >= 0 else 'less'})"
        )
    if decision.first_unfavourable_doubling:
        low, high = decision.first_unfavourable_doubling
        text += f". The first doubling that raises the cost is that from K={low} to K={high}"
    return f"{text}."


def _quality_axis(rows: Sequence[Row], quality: Quality) -> Axis:
    values = [number(row["quality"]) for row in rows]
    reach = max(quality.tolerance, 0.001)
    low, high = min(*values, values[0] - reach), max(*values, values[0] + reach)
    margin = 0.25 * (high - low)
    ticks = alt.Axis(tickCount=4, format="~f")
    return linear("quality", "quality", low - margin, high + margin, ticks)


def _panel(rows: Sequence[Row], y: Axis, decision: Decision) -> alt.LayerChart:
    """One corner of the triangle along K."""
    x = nodes_axis([int(number(row["K"])) for row in rows])
    layers = []
    if y.field == "quality" and decision.quality is not None:
        first, off = number(rows[0]["quality"]), decision.quality.tolerance
        band = alt.Chart(data([{"low": first - off, "high": first + off}]))
        layers.append(band.mark_rect(style="band").encode(y=y.y("low"), y2="high:Q"))
    layers += _curve(rows, x, y, "join")
    if y.field == "shown":
        layers += intervals(rows, x, y)
    layers += _points([row for row in rows if not row["excluded"]], x, y)
    layers += _points([row for row in rows if row["K"] == decision.recommended.nodes], x, y, "ring")
    return layered([*layers, *_crosses(rows, x, y)], 0.42 * HEIGHT)


def _triangle_caption(decision: Decision) -> str:
    assert decision.quality is not None
    quality = decision.quality
    held = "held at every scale" if quality.held else "not held at every scale"
    text = (
        f"Quality is {held}: it drifts by {quality.max_drift:.3f} at most, tolerance "
        f"{quality.tolerance:g}"
    )
    chosen = decision.recommended.nodes
    if chosen is None:
        return f"{text}. No scale passes every gate."
    row = decision.row(chosen)
    merit = "" if row.quality is None else f" with quality {format_efficiency(row.quality)}"
    return (
        f"{text}. K={chosen} is recommended: {format_speedup(row.speedup)} times the throughput "
        f"of K={decision.rows[0].nodes}, {format_money(row.cost, decision.price.currency)} a run"
        f"{merit}."
    )


def _tornado(rows: Sequence[Row], base: float, money: _Money, currency: str) -> alt.LayerChart:
    by_what: dict[str, dict[float, Row]] = {}
    for row in rows:
        by_what.setdefault(str(row["what"]), {})[number(row["factor"])] = row
    order = sorted(
        by_what,
        key=lambda what: number(by_what[what][0.5]["cost"]) - number(by_what[what][1.5]["cost"]),
    )
    bars: list[Row] = []
    ends: list[Row] = []
    for what in order:
        of = by_what[what]
        for low, high, kind in ((0.5, 1.5, "thin"), (0.8, 1.2, "thick")):
            bars.append(
                {
                    "what": what,
                    "kind": kind,
                    "shown": number(of[low]["cost"]) * money.factor,
                    "to": number(of[high]["cost"]) * money.factor,
                    "off": "by 50 %" if kind == "thin" else "by 20 %",
                    "between": " to ".join(
                        format_money(number(of[f]["cost"]), currency) for f in (low, high)
                    ),
                }
            )
        for factor, side in ((0.5, "left"), (1.5, "right")):
            ends.append(
                {
                    "what": what,
                    "shown": number(of[factor]["cost"]) * money.factor,
                    "side": side,
                    "text": f"K={of[factor]['cheapest K']}",
                }
            )
    return _draw_tornado(bars, ends, order, base * money.factor, money)


def _draw_tornado(
    bars: Sequence[Row], ends: Sequence[Row], order: Sequence[str], base: float, money: _Money
) -> alt.LayerChart:
    """Bars around a base, the widest on top, with words at their ends."""
    values = [number(row["shown"]) for row in ends]
    margin = 0.28 * (max(values) - min(values))
    x = linear("shown", money.title, min(values) - margin, max(values) + margin)
    y = alt.Y(
        "what:N",
        title=None,
        sort=list(order),
        axis=alt.Axis(grid=False, domain=False, ticks=False, labelPadding=6),
    )
    layers = []
    for kind in ("thin", "thick"):
        drawn = alt.Chart(data([bar for bar in bars if bar["kind"] == kind]))
        layers.append(
            drawn.mark_bar(style=kind).encode(
                x=x.x(), x2="to:Q", y=y, tooltip=tooltip("what", "off", "between")
            )
        )
    layers.append(alt.Chart(data([{"shown": base}])).mark_rule(style="wall").encode(x=x.x()))
    left, right = (
        alt.Chart(data([end for end in ends if end["side"] == side])).encode(
            x=x.x(), y=y, text="text:N"
        )
        for side in ("left", "right")
    )
    layers += [
        left.mark_text(style="label", align="right", baseline="middle", dx=-6),
        right.mark_text(style="label", align="left", baseline="middle", dx=6),
    ]
    return layered(layers, 46.0 * len(order) + 20)


def _sensitivity_caption(decision: Decision, rows: Sequence[Row], base: float) -> str:
    chosen, currency = decision.recommended.nodes, decision.price.currency
    moved = [row for row in rows if row["cheapest K"] != chosen]
    text = f"K={chosen} costs {format_money(base, currency)}"
    if not moved:
        return f"{text}, and stays the cheapest when any one price is off by up to 50 %."
    told = [
        f"K={row['cheapest K']} with the {row['what']} at {format_percent(number(row['factor']))}"
        for row in moved
    ]
    return f"{text}. Another scale is the cheapest when a price is off: {', '.join(told)}."
