"""Charts of what scale costs: cost and time, the margin, ways to pay, time against money."""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from nodewise.report.charts.look import (
    HEIGHT,
    PALETTE,
    Axis,
    Definition,
    Figure,
    Row,
    Rows,
    about,
    failed_words,
    failures,
    figure,
    intervals,
    layered,
    linear,
    logarithmic,
    mark,
    names_axis,
    nodes_axis,
    role_words,
    roles,
    series,
    some,
    time_unit,
    values_of,
)
from nodewise.report.tables import input_words
from nodewise.report.text.findings import listed, quality_words, verdict
from nodewise.study.study import Study

# What the page fills in when a slider moves.
SCALES, MARKS = "scales", "marks"
_MOST_STEPS = 12
_MOST_LABELS = 12
_SHORT = {"price": "node price", "fixed": "overhead", "value-per-hour": "waiting"}


class _Money(NamedTuple):
    """The axis of cost: of one run, or of so many that the numbers are short."""

    title: str
    factor: float
    currency: str

    def form(self, *costs: float) -> str:
        """Costs in words."""
        return " to ".join(format_money(cost, self.currency) for cost in costs)


def cost(decision: Decision, study: Study | None = None) -> Figure:
    """Cost over time at each K, with the cheapest, the balanced and the fastest scale.

    `study` adds the scales at which every run failed. The page fills in `SCALES` and `MARKS` again
    when a slider moves, so the axis of cost follows them.
    """
    failed = study.broken if study else {}
    money, unit = _money(decision), time_unit(max(map(_seconds, decision.rows)))
    points = _points(decision, money)
    for point in points:
        point["units"] = point["seconds"] / unit.seconds
        point["took"] = format_duration(point["seconds"])
    x = nodes_axis([*(row.nodes for row in decision.rows), *failed])
    five, four = ({"tickCount": count, "format": "~f"} for count in (5, 4))
    costs = Axis("shown", money.title, {"zero": True, "nice": True}, five)
    times = linear("units", f"time, {unit.name}", 0.0, _most(values_of(points, "units")), four)
    found = {"cheapest (K*)": decision.cheapest, "balanced": decision.balanced}
    words = role_words({**found, decision.fastest_words: decision.fastest})
    marks = [
        {**row, "role": f"{words[row['K']]}: K={row['K']}, {row['price']}, {row['took']}"}
        for nodes in words
        for row in points
        if row["K"] == nodes
    ] or [{**points[0], "role": "no scale passes every gate", "none": True}]
    bars = [some("isValid(datum.low)", layer) for layer in intervals(SCALES, x, costs)]
    panels = [
        layered([*_over_k(x, costs, bars), *failures(failed, x, costs, 0.0)], 0.62 * HEIGHT),
        layered(_over_k(x, times), 0.36 * HEIGHT),
    ]
    rows = [
        {
            "K": row.nodes,
            "cost": _cost(row),
            "bill": row.cost / row.relative_work,
            "low": None if row.cost_low is None else row.cost_low / row.relative_work,
            "high": None if row.cost_high is None else row.cost_high / row.relative_work,
            "seconds": row.seconds,
            "probability cheapest": row.probability_cheapest,
            "excluded because": row.excluded_because,
        }
        for row in decision.rows
    ]
    return figure(
        "cost",
        "Cost and time at each scale",
        about(decision.name, decision.regime, _price_line(decision)),
        _cost_caption(decision) + failed_words(failed),
        rows,
        {
            "vconcat": panels,
            "datasets": {SCALES: points, MARKS: marks},
            "usermeta": {"factor": money.factor},
        },
    )


def _over_k(x: Axis, y: Axis, bars: Sequence[Definition] = ()) -> list[Definition]:
    """Every scale as a point, and those with a role by their shape."""
    shape = {
        "field": "role",
        "type": "nominal",
        "sort": None,
        "scale": {"range": ["triangle-up", "diamond", "square"]},
        "legend": {"columns": 1},
    }
    hidden = {"condition": {"test": "datum.none", "value": 0}, "value": 1}
    order = {"field": "K", "type": "quantitative"}
    tips = ("K", "time", "price", "S", "E")
    return [
        some("!datum.excluded", mark("line", SCALES, "join", x=x, y=y, order=order)),
        *bars,
        some("!datum.excluded", mark("point", SCALES, "measured", x=x, y=y, tips=tips)),
        some("datum.excluded", mark("point", SCALES, "refused", x=x, y=y, tips=("K", "excluded"))),
        mark("point", MARKS, "role", x=x, y=y, shape=shape, opacity=hidden),
    ]


def pareto(decision: Decision) -> Figure | None:
    """Time against cost, and the frontier of scales that no other beats in both."""
    if len(decision.rows) < 2:
        return None
    money, unit = _money(decision), time_unit(max(map(_seconds, decision.rows)))
    points = _points(decision, money)
    named = {row.nodes for row in decision.rows}
    if len(named) > _MOST_LABELS:
        named = {*_role_words(decision), decision.rows[0].nodes, decision.rows[-1].nodes}
    for point in points:
        point["units"] = point["seconds"] / unit.seconds
        point["label"] = str(point["K"]) if point["K"] in named else ""
    same = "of a run" if decision.regime == "strong" else "for the first run's work"
    x = _time_axis(values_of(points, "units"), f"time {same}, {unit.name}")
    y = linear("shown", money.title, 0.0, _most(values_of(points, "shown")))
    best = [row for row in points if row["K"] in decision.frontier]
    beaten = [row for row in _allowed(points) if row not in best]
    text = {"align": "left", "baseline": "bottom", "dx": 5, "dy": -4}
    layers = [
        *_curve(best, x, y),
        _dots(beaten, x, y, "beaten"),
        *_marks([row for row in points if row not in beaten], x, y),
        _roles(decision, points, x, y),
        mark("text", points, "label", text, x=x, y=y, text="label"),
    ]
    read = ["numbers: K"]
    read += ["line: no other scale is faster and cheaper"] if len(best) > 1 else []
    read += ["grey: not Pareto-optimal"] if beaten else []
    read += ["crossed out: excluded"] if any(row["excluded"] for row in points) else []
    caption = "No scale passes every gate."
    if decision.frontier:
        caption = f"Pareto-optimal in time and cost: K={listed(decision.frontier)}."
    return figure(
        "pareto",
        "Time against cost",
        about(decision.name, decision.regime, "; ".join(read)),
        caption,
        [
            {
                "K": row.nodes,
                "seconds": _seconds(row),
                "cost": _cost(row),
                "on the frontier": row.nodes in decision.frontier,
                "excluded because": row.excluded_because,
            }
            for row in decision.rows
        ],
        layered(layers, 1.1 * HEIGHT),
    )


def marginal(decision: Decision) -> Figure | None:
    """What each step up returns: speedup per added node, and per extra dollar."""
    steps = decision.marginal if len(decision.marginal) < _MOST_STEPS else _doublings(decision)
    if not steps:
        return None
    rows = [
        {
            "from": step.from_nodes,
            "to": step.to_nodes,
            "speedup gained": step.speedup,
            "speedup per node": _per_node(step),
            "cost": step.cost,
            "speedup per dollar": step.speedup_per_dollar,
            "seconds saved": step.seconds_saved,
        }
        for step in steps
    ]
    currency, strong = decision.price.currency, decision.regime == "strong"
    bars = [{**row, **_step_words(step, currency)} for row, step in zip(rows, steps, strict=True)]
    # in weak scaling the work grows, so S = K is not the ideal of the same job
    ideal = 1 / decision.rows[0].nodes if strong else None
    panels = [_step_bars(bars, "speedup per node", "speedup per added node", "per node", ideal)]
    if any(step.speedup_per_dollar is not None for step in steps):
        panels.append(
            _step_bars(bars, "speedup per dollar", f"speedup per extra {currency}", "rate")
        )
    return figure(
        "marginal",
        f"What each larger scale returns, in {'' if strong else 'scaled '}speedup",
        about(
            decision.name,
            decision.regime,
            "line: what a node returns where nothing is lost" if ideal else "",
        ),
        _marginal_caption(decision, steps),
        rows,
        {"vconcat": panels},
    )


def payment(decision: Decision) -> Figure | None:
    """The runs paid for in several ways; nothing if there is one way only."""
    if len(decision.payments) < 2:
        return None
    money = _money(decision)
    words = {}
    for one in decision.payments:
        best = "no scale passes"
        if one.cheapest is not None:
            best = f"cheapest K={one.cheapest.nodes}, {money.form(one.cheapest.cost)}"
        share = f"{one.share} of the price"
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
        if at.cost is not None
    ]
    points = [
        {
            **row,
            "way": words[row["payment"]],
            "shown": row["cost"] * money.factor,
            "price": money.form(row["cost"]),
        }
        for row in rows
    ]
    x = nodes_axis([row.nodes for row in decision.rows])
    y = linear("shown", money.title, 0, _most(values_of(points, "shown")))
    layers = [
        *series(list(words.values()), "way", points, x, y, ("payment", "K", "price")),
        mark(
            "point",
            [row for row in points if row["cheapest"]],
            "ring",
            {"color": PALETTE["ink"]},
            x=x,
            y=y,
        ),
    ]
    return figure(
        "payment",
        "The same runs, paid for in other ways",
        about(decision.name, decision.regime, "rings: the cheapest scale of each"),
        decision.cheaper_nodes,
        rows,
        layered(layers),
    )


def triangle(decision: Decision) -> Figure | None:
    """Quality, throughput and cost at each K, above each other; nothing without quality."""
    quality = decision.quality
    if quality is None or len(decision.rows) < 2:
        return None
    money, first = _money(decision), decision.rows[0].nodes
    counted = all(row.work is not None for row in decision.rows)
    rows: list[Row] = [
        {
            "K": row.nodes,
            "quality": row.quality,
            "throughput": row.speedup if not counted else (row.work or 0.0) / row.seconds,
            "cost": _cost(row),
            "seconds": row.seconds,
        }
        for row in decision.rows
    ]
    points = [{**point, **row} for point, row in zip(_points(decision, money), rows, strict=True)]
    costs, rates = values_of(points, "shown", "high"), values_of(rows, "throughput")
    unit = "throughput, work/s" if counted else f"throughput over K={first}"
    plain = {"tickCount": 4, "format": ",~f"}
    axes = [
        _quality_axis(values_of(rows, "quality"), quality),
        linear("throughput", unit, 0, 1.15 * max(rates), plain),
        linear("shown", money.title, 0, 1.15 * max(costs) or 1.0, plain),
    ]
    read = f"band: quality within {quality.tolerance:g} of K={first}"
    return figure(
        "triangle",
        "Quality, throughput and cost at each scale",
        about(decision.name, decision.regime, read),
        f"{capitalised(quality_words(quality))}. {capitalised(verdict(decision))}.",
        rows,
        {"vconcat": [_panel(points, y, decision) for y in axes]},
    )


def sensitivity(decision: Decision) -> Figure | None:
    """How the cost and the cheapest K move when a price is a fifth or a half off, or in its range.

    Nothing if the cost is proportional to the one price there is.
    """
    if decision.ranges:
        return _given_ranges(decision)
    chosen = decision.recommended.nodes
    if not decision.sensitivity or chosen is None:
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
    base, money = _cost(decision.row(chosen)), _money(decision)
    caption = f"K={chosen} costs {money.form(base)}"
    moved = [
        f"K={row['cheapest K']} with the {row['what']} at {format_percent(row['factor'])}"
        for row in rows
        if row["cheapest K"] != chosen
    ]
    if moved:
        caption += f". Another scale is the cheapest if a price is wrong: {', '.join(moved)}."
    else:
        caption += ", and stays the cheapest if any one price is wrong by up to 50 %."
    read = "thick: by 20 %; thin: by 50 %, at its ends the K that is then the cheapest"
    return figure(
        "sensitivity",
        f"How the cost of K={chosen} changes if a price is wrong",
        about(decision.name, decision.regime, read),
        caption,
        rows,
        _tornado(_prices_off(decision), base, money),
    )


class _Bar(NamedTuple):
    """A bar of a tornado: from one cost to another, and the cheapest K at its ends."""

    what: str
    kind: str  # thin or thick
    off: str
    costs: tuple[float, float]
    ends: tuple[int | None, int | None] | None


def _prices_off(decision: Decision) -> list[_Bar]:
    """Each price off by a half and by a fifth, that which matters most first."""
    by_price: dict[str, dict[float, Any]] = {}
    for one in decision.sensitivity:
        by_price.setdefault(one.price, {})[one.factor] = one
    bars = []
    for what, of in sorted(by_price.items(), key=lambda one: one[1][0.5].cost - one[1][1.5].cost):
        half, fifth = (of[0.5], of[1.5]), (of[0.8], of[1.2])
        ends = half[0].cheapest, half[1].cheapest
        bars.append(_Bar(what, "thin", "by 50 %", (half[0].cost, half[1].cost), ends))
        bars.append(_Bar(what, "thick", "by 20 %", (fifth[0].cost, fifth[1].cost), None))
    return bars


def _given_ranges(decision: Decision) -> Figure | None:
    """How the least cost and the cheapest K move within the ranges that were given."""
    swings = [one for one in decision.tornado if one.payment == "on-demand" and one.low_nodes]
    if decision.cheapest is None or not any(one.is_range for one in swings):
        return None
    base, money = decision.cheapest.cost, _money(decision)
    rows: list[Row] = []
    bars = []
    for one in swings:
        what = _SHORT.get(one.input, one.input)
        low, high = (input_words(one.input, end, decision) for end in (one.low, one.high))
        rows.append(
            {
                "what": what,
                "from": low,
                "to": high,
                "given": "a range" if one.is_range else "+-20 %",
                "least cost from": one.low_cost,
                "least cost to": one.high_cost,
                "cheapest K from": one.low_nodes,
                "cheapest K to": one.high_nodes,
            }
        )
        off = f"{low} to {high}" + ("" if one.is_range else ", +-20 % because no range was given")
        kind, costs = "thick" if one.is_range else "thin", (one.low_cost, one.high_cost)
        bars.append(_Bar(what, kind, off, costs, (one.low_nodes, one.high_nodes)))
    caption = (
        f"K={decision.cheapest.nodes} costs {money.form(base)} with every input at the centre of "
        "its range"
    )
    moved = [
        f"{row['what']} {row['from']} to {row['to']}: K={row['cheapest K from']} to "
        f"K={row['cheapest K to']}"
        for row in rows
        if row["cheapest K from"] != row["cheapest K to"]
    ]
    stays = ", and stays the cheapest within every range."
    read = (
        "thick: a range that was given; thin: +-20 %; at the ends the K that is then the cheapest"
    )
    return figure(
        "sensitivity",
        "How the lowest cost changes within the given ranges",
        about(decision.name, decision.regime, read),
        caption + (f". The cheapest moves with {'; '.join(moved)}." if moved else stays),
        rows,
        _tornado(bars, base, money),
    )


def _tornado(bars: Sequence[_Bar], base: float, money: _Money) -> Definition:
    """Bars around a base, in their order from top to bottom, with the K at their ends."""
    rows: list[Row] = [
        {
            "what": bar.what,
            "kind": bar.kind,
            "off": bar.off,
            "shown": bar.costs[0] * money.factor,
            "to": bar.costs[1] * money.factor,
            "cost": money.form(*bar.costs),
            "left": bar.ends and f"K={bar.ends[0]}",
            "right": bar.ends and f"K={bar.ends[1]}",
        }
        for bar in bars
    ]
    named = [row for row in rows if row["left"]]
    values = values_of(named, "shown", "to")
    margin = 0.28 * (max(values) - min(values))
    x = linear("shown", money.title, min(values) - margin, max(values) + margin)
    y = names_axis("what", list(dict.fromkeys(bar.what for bar in bars)))
    tips = ("what", "off", "cost")
    left, right = ({"align": align, "baseline": "middle", "dx": dx}
                   for align, dx in (("right", -6), ("left", 6)))  # fmt: skip
    layers = [
        mark(
            "bar", [row for row in rows if row["kind"] == kind], kind, x=x, x2="to", y=y, tips=tips
        )
        for kind in ("thin", "thick")
    ]
    layers += [
        mark("rule", [{"shown": base * money.factor}], "wall", x=x),
        mark("text", named, "label", left, x=x, y=y, text="left"),
        mark("text", named, "label", right, x=x.of("to"), y=y, text="right"),
    ]
    return layered(layers, 46.0 * len(y["sort"]) + 20)


def _cost(row: DecisionRow) -> float:
    """The bill for the work of the first run."""
    return row.cost / row.relative_work


def _seconds(row: DecisionRow) -> float:
    """The time for the work of the first run."""
    return row.seconds / row.relative_work


def _points(decision: Decision, money: _Money) -> list[Row]:
    """Every scale as a point: where its cost lies, and what it says when pointed at."""
    points: list[Row] = []
    for row in decision.rows:
        factor = money.factor / row.relative_work
        ends = (row.cost_low, row.cost_high)
        low, high = (None if end is None else end * factor for end in ends)
        points.append(
            {
                "K": row.nodes,
                "seconds": _seconds(row),
                "shown": _cost(row) * money.factor,
                "low": low,
                "high": high,
                "price": money.form(_cost(row)),
                "time": format_duration(row.seconds),
                "S": format_speedup(row.speedup),
                "E": format_efficiency(row.efficiency),
                "excluded": row.excluded_because or "",
            }
        )
    return points


def _most(values: Sequence[float]) -> float:
    """The end of an axis from zero."""
    return 1.08 * max(values) or 1.0


def _allowed(points: Sequence[Row]) -> list[Row]:
    return [row for row in points if not row["excluded"]]


def _money(decision: Decision) -> _Money:
    """How cost is written along an axis: of so many runs, or in millions, that it is short."""
    highest, currency = max(map(_cost, decision.rows)), decision.price.currency
    unit = currency if decision.price.is_money else f"{currency}ours"
    factor, runs = 1.0, 1
    if highest >= 1e6:
        factor, unit = 1e-6, f"million {unit}"
    elif 0 < highest < 0.1:
        runs = 1_000 if highest >= 1e-4 else 1_000_000
        factor = float(runs)
    many = f"{runs:,} runs" if runs > 1 else "a run"
    if decision.regime == "weak":
        many = "the same work" if runs == 1 else f"{runs:,} x the same work"
    return _Money(f"cost of {many}, {unit}", factor, currency)


def _curve(rows: Rows, x: Axis, y: Axis) -> list[Definition]:
    """A line through scales in the order of K, because time and cost may both turn back."""
    order = {"field": "K", "type": "quantitative"}
    return [mark("line", rows, "join", x=x, y=y, order=order)] if len(rows) > 1 else []


def _dots(rows: Rows, x: Axis, y: Axis, style: str = "measured") -> Definition:
    return mark("point", rows, style, x=x, y=y, tips=("K", "time", "price", "S", "E"))


def _marks(points: Sequence[Row], x: Axis, y: Axis) -> list[Definition]:
    """A point for each scale; a cross where it is excluded."""
    crossed = [row for row in points if row["excluded"]]
    tips = ("K", "time", "price", "excluded")
    return [
        _dots(_allowed(points), x, y),
        mark("point", crossed, "refused", x=x, y=y, tips=tips),
    ]


def _role_words(decision: Decision) -> dict[int, str]:
    """The scales that a reader looks for, and what each of them is."""
    found = {"recommended": decision.recommended, "cheapest": decision.cheapest}
    return role_words({**found, decision.fastest_words: decision.fastest})


def _roles(decision: Decision, points: Rows, x: Axis, y: Axis) -> Definition:
    """The chosen scales; the legend says what they cost and take."""
    words = {
        point["K"]: f"K={point['K']}, {point['price']}, {format_duration(point['seconds'])}"
        for point in points
    }
    named = {nodes: f"{role}: {words[nodes]}" for nodes, role in _role_words(decision).items()}
    return roles(points, named, x, y, decision.recommended.nodes)


def _price_line(decision: Decision) -> str:
    price, currency = decision.price, decision.price.currency
    parts = []
    if price.per_node_hour is not None:
        unit = price.per or decision.unit.metered
        parts.append(f"{format_money(price.per_node_hour, currency)} per {unit}-hour")
    if price.fixed_per_hour:
        parts.append(f"plus {format_money(price.fixed_per_hour, currency)} per hour")
    if price.source:
        parts.append(f"source: {' '.join(price.source.split())}")
    if decision.rows[0].cost_low is not None:
        parts.append("bars: interval of the time")
    return "; ".join(parts) or "price: by the table's column"


def _cost_caption(decision: Decision) -> str:
    currency = decision.price.currency
    if decision.cheapest is None or decision.fastest is None:
        text = f"{capitalised(decision.recommended.because)}."
    else:
        least, quick = (decision.row(one.nodes) for one in (decision.cheapest, decision.fastest))
        work = "a run" if decision.regime == "strong" else "for the work of the first run"
        text = (
            f"The cheapest scale is K={least.nodes}: {format_money(_cost(least), currency)} and "
            f"{format_duration(_seconds(least))} {work}"
        )
        if least is quick:
            first = decision.is_clearly_fastest
            text += f"; {'it is the fastest, too' if first else 'no scale is clearly faster'}."
        else:
            ratio = _seconds(least) / _seconds(quick)
            text += (
                f". K={quick.nodes}, the {decision.fastest_words}, is {ratio:.2f} times as fast "
                f"and costs {format_money(_cost(quick) - _cost(least), currency)} more."
            )
    refused = [row.nodes for row in decision.rows if row.excluded]
    return f"{text} Crossed out: K={listed(refused)}." if refused else text


def _time_axis(units: Sequence[float], title: str) -> Axis:
    low, high = min(units), max(units)
    margin = max(high / low, 1.5) ** 0.08
    low, high = low / margin, high * margin
    ticks: list[float] = []
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):  # the finer ones where there are too few
        values = [step * 10.0**power for power in range(-6, 7) for step in steps]
        ticks = ticks if len(ticks) > 3 else [step for step in values if low <= step <= high]
    if len(ticks) < 3:  # a narrow range: let the machine find round numbers
        return linear("units", title, low, high, {"tickCount": 6, "format": "~f", "grid": False})
    shown = {"values": ticks, "format": "~g", "grid": False}
    return logarithmic("units", title, low, high, 10, shown)


def _doublings(decision: Decision) -> tuple[Marginal, ...]:
    """Doublings of which each begins where the one before ended."""
    chain: list[Marginal] = []
    for step in decision.doublings:
        if not chain or step.from_nodes == chain[-1].to_nodes:
            chain.append(step)
    return tuple(chain)


def _per_node(step: Marginal) -> float:
    return step.speedup / (step.to_nodes - step.from_nodes)


def _step_words(step: Marginal, currency: str) -> Row:
    rate = step.speedup_per_dollar
    free = "saves" if step.cost < 0 else "free"
    return {
        "step": f"{step.from_nodes} \N{RIGHTWARDS ARROW} {step.to_nodes}",
        "per node": f"{_per_node(step):.2f}",
        "rate": free if rate is None else format_quantity(rate),
        "gain": f"{step.speedup:+.2f}",
        "extra": format_money(step.cost, currency),
        "saved": format_duration(step.seconds_saved),
    }


def _step_bars(
    rows: Sequence[Row], field: str, title: str, text: str, ideal: float | None = None
) -> Definition:
    """A bar for each step with its number: inside a high bar, above a low one."""
    drawn = [{**row, field: row[field] or 0.0} for row in rows]
    values = [0.0, ideal or 0.0, *values_of(drawn, field)]
    low, high = min(values), max(values)
    margin = 0.14 * (high - low)
    y = linear(field, title, low - (margin if low < 0 else 0), high + margin)
    x = {
        "field": "step",
        "type": "ordinal",
        "title": "step in nodes",
        "sort": [row["step"] for row in rows],
        "axis": {"labelAngle": 0, "grid": False, "labelOverlap": "greedy"},
    }
    tall = [row for row in drawn if row[field] > 2 * margin]
    # the number of a bar that hangs down is above it, too
    short = [{**row, field: max(row[field], 0.0)} for row in drawn if row not in tall]
    inside, above = {"baseline": "top", "dy": 5}, {"baseline": "bottom", "dy": -3}
    line = [] if ideal is None else [{field: ideal}]
    layers = [
        mark("bar", drawn, "step", x=x, y=y, tips=("step", "gain", "extra", "rate", "saved")),
        mark("text", tall, "inside", inside, x=x, y=y, text=text),
        mark("text", short, "label", above, x=x, y=y, text=text),
        mark("rule", line, "ideal", y=y),
    ]
    return layered(layers, 0.6 * HEIGHT)


def _marginal_caption(decision: Decision, steps: Sequence[Marginal]) -> str:
    first, last = steps[0], steps[-1]
    text = (
        f"From K={first.from_nodes} to K={first.to_nodes} an added node returns "
        f"{format_speedup(_per_node(first))}x of speedup"
    )
    if last is not first:
        text += (
            f", from K={last.from_nodes} to K={last.to_nodes} {format_speedup(_per_node(last))}x "
            f"({format_duration(abs(last.seconds_saved))} "
            f"{'saved' if last.seconds_saved >= 0 else 'lost'}, "
            f"{format_money(abs(last.cost), decision.price.currency)} "
            f"{'more' if last.cost >= 0 else 'less'})"
        )
    if decision.first_unfavourable_doubling:
        low, high = decision.first_unfavourable_doubling
        text += f". The first doubling that raises the cost is that from K={low} to K={high}"
    return f"{text}."


def _quality_axis(values: Sequence[float], quality: Quality) -> Axis:
    reach = max(quality.tolerance, 0.001)
    low, high = min(*values, values[0] - reach), max(*values, values[0] + reach)
    margin = 0.25 * (high - low)
    ticks = {"tickCount": 4, "format": "~f"}
    return linear("quality", "quality", low - margin, high + margin, ticks)


def _panel(points: Sequence[Row], y: Axis, decision: Decision) -> Definition:
    """One corner of the triangle along K."""
    x = nodes_axis([row["K"] for row in points])
    layers = []
    if y.field == "quality" and decision.quality is not None:
        first, off = points[0]["quality"], decision.quality.tolerance
        band = [{"low": first - off, "high": first + off}]
        layers.append(mark("rect", band, "band", y=y.of("low"), y2="high"))
    layers += _curve(points, x, y)
    if y.field == "shown":
        layers += intervals(points, x, y)
    return layered([*layers, *_marks(points, x, y)], 0.42 * HEIGHT)
