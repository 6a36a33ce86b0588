"""A plan on paper in three charts: throughput and cost, the parts of a step, the memory."""

from collections.abc import Mapping

from nodewise.base.units import format_duration, format_money, format_quantity
from nodewise.decide.paper.plan import Planned, PlanRow
from nodewise.decide.paper.step import CEILINGS
from nodewise.report.charts.look import (
    HEIGHT,
    Axis,
    Definition,
    Figure,
    Row,
    columns,
    figure,
    folds,
    label,
    layered,
    linear,
    mark,
    nodes_axis,
    places,
    values_of,
    with_recommended,
)
from nodewise.report.charts.parts import part_bars, stacked

_STEP_COLORS = {
    "matrix units": "compute",
    "memory bandwidth": "slow node",
    "tensor-parallel link": "communication",
    "context-parallel link": "serial",
    "exchange of experts": "foreign",
    "pipeline link": "imbalance",
    "pipeline bubble": "idle",
    "data-parallel link": "third",
    "weight update": "overhead",
}
_MEMORY_COLORS = {
    "weights": "foreign",
    "gradients": "serial",
    "optimizer": "jitter",
    "activations": "io",
    "working": "unexplained",
}
_GIGA = 1e9
_WIDE, _GAP = 0.86, 0.07  # of a column, by its bar and by the gap beside it


def rate_and_cost_chart(result: Planned) -> Figure:
    """Tokens per second against the ideal line; below it what a billion tokens cost."""
    rows = [_rate_row(row, result) for row in result.fitting]
    x = nodes_axis([row.nodes for row in result.fitting])
    values = values_of(rows, "rate", "ideal")
    y = folds("rate", "thousand tokens/s", min(values) / 1.3, max(values) * 1.3)
    last = rows[-1]
    panels = [
        layered(
            [
                mark("line", rows, "ideal", x=x, y=y.of("ideal")),
                *(
                    [label("ideal", x, y, (last["K"], last["ideal"]), align="right")]
                    if len(rows) > 1
                    else []
                ),
                *_points(rows, x, y),
            ],
            0.6 * HEIGHT if result.price else HEIGHT,
        )
    ]
    if result.price is not None:
        cost = linear("cost", "$ per billion tokens", 0, 1.15 * max(values_of(rows, "cost")))
        panels.append(layered(_points(rows, x, cost), 0.38 * HEIGHT))
    drawn = {"vconcat": panels} if len(panels) > 1 else panels[0]
    made = figure(
        "throughput",
        "Throughput and cost at each scale" if result.price else "Throughput at each scale",
        ["", f"points: the fastest plan that fits; line: K={result.base_nodes} times K"],
        _rate_caption(result),
        rows,
        drawn,
    )
    return _marked(made, result)


def _points(rows: list[Row], x: Axis, y: Axis) -> list[Definition]:
    return [
        mark("line", rows, "beyond", x=x, y=y),
        mark("point", rows, "predicted", x=x, y=y, tips=("K", "plan", "tokens per second", "paid")),
    ]


def _rate_row(row: PlanRow, result: Planned) -> Row:
    assert row.best is not None and row.tokens_per_second is not None
    base = result.fitting[0]
    plan, cost = row.best.plan, row.cost_per_billion_tokens
    assert base.tokens_per_second is not None
    return {
        "K": row.nodes,
        "rate": row.tokens_per_second / 1000,
        "ideal": base.tokens_per_second * row.nodes / base.nodes / 1000,
        "cost": cost,
        "seconds": row.best.seconds,
        "plan": f"{plan.tensor} x {plan.pipeline} x {plan.data}",
        "tokens per second": format_quantity(row.tokens_per_second),
        "paid": "" if cost is None else format_money(cost),
    }


def _rate_caption(result: Planned) -> str:
    first, last = result.fitting[0], result.fitting[-1]
    rates = [format_quantity(row.tokens_per_second or 0.0) for row in (first, last)]
    text = f"Throughput is {rates[0]} tokens/s at K={first.nodes} and {rates[1]} at K={last.nodes}"
    if result.price is None or result.cheapest is None:
        return f"{text}."
    cost = result.row(result.cheapest).cost_per_billion_tokens or 0.0
    return f"{text}. A billion tokens cost least at K={result.cheapest}: {format_money(cost)}."


def step_parts_chart(result: Planned) -> Figure:
    """What a step is spent on at each scale, as shares of it."""
    shares = {}
    for row in result.fitting:
        assert row.best is not None
        step = row.best.step
        shares[row.nodes] = {
            words: 100 * getattr(step, part) / row.best.seconds for part, words in CEILINGS.items()
        }
    ticks = {"values": [0, 20, 40, 60, 80, 100], "format": "d"}
    y = linear("share", "share of a step, %", 0, 110, ticks)
    heads = [(row.nodes, format_duration(row.best.seconds)) for row in result.fitting if row.best]
    made = figure(
        "step",
        "What a step is spent on",
        ["", "above each bar: the time of a step" if len(heads) <= 6 else ""],
        _most_words(shares, "% of a step"),
        [{"K": nodes, **parts} for nodes, parts in shares.items()],
        columns(heads, y, 109, [_bars(shares, _STEP_COLORS, y)]),
    )
    return _marked(made, result)


def memory_chart(result: Planned) -> Figure:
    """What the fullest device holds at each scale, below its limit."""
    held = {}
    for row in result.fitting:
        assert row.best is not None
        memory = row.best.memory
        held[row.nodes] = {name: getattr(memory, name) / _GIGA for name in memory.__struct_fields__}
    limit = result.memory_bytes / _GIGA
    y = linear("share", "GB on the fullest device", 0, 1.2 * limit)
    rule = mark("rule", [{"share": limit}], "wall", y=y)
    name = {"align": "right", "baseline": "bottom", "dy": -3}
    side = {"value": {"expr": "width"}}
    text = [{"share": limit, "text": f"a device holds {limit:.0f} GB"}]
    words = mark("text", text, "label", name, x=side, y=y, text="text")
    heads = [(nodes, "") for nodes in held]
    made = figure(
        "memory",
        "Memory of the fullest device",
        [""],
        _most_words(held, "GB"),
        [{"K": nodes, **parts, "limit": limit} for nodes, parts in held.items()],
        columns(heads, y, 1.2 * limit, [_bars(held, _MEMORY_COLORS, y), rule, words]),
    )
    return _marked(made, result)


def _bars(
    parts: Mapping[int, Mapping[str, float]], colors: Mapping[str, str], y: Axis
) -> Definition:
    segments = [
        {**segment, "left": at + _GAP, "right": at + _GAP + _WIDE, "amount": _amount(segment)}
        for at, (nodes, of_scale) in enumerate(parts.items())
        for segment in stacked(of_scale, K=nodes)
    ]
    return part_bars(
        "rect", segments, colors, ("K", "part", "amount"), 2,
        x=places("left", len(parts)), x2="right", y=y.of("start"), y2="end",
    )  # fmt: skip


def _amount(segment: Row) -> str:
    return f"{segment['end'] - segment['start']:.3g}"


def _most_words(parts: Mapping[int, Mapping[str, float]], unit: str) -> str:
    """The largest part at the first and at the last scale."""
    said = []
    for nodes in dict.fromkeys((min(parts), max(parts))):
        name = max(parts[nodes], key=lambda one: parts[nodes][one])
        said.append(f"at K={nodes} {name}, {parts[nodes][name]:.0f} {unit}")
    return f"The largest part is {'; '.join(said)}."


def _marked(made: Figure, result: Planned) -> Figure:
    chosen = result.last_above or result.fastest
    return made if chosen is None else made.with_chart(with_recommended(made.chart, chosen))
