"""The sentences of a decision: why this scale, the claim, what would change it."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.candidates import Candidates, Needs
from nodewise.causes import CauseName
from nodewise.prices import Bills, Price, bill
from nodewise.stats import Floats
from nodewise.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_efficiency,
    format_money,
    format_speedup,
    format_unit_cost,
)


def why_this_scale(scales: Candidates, needs: Needs, chosen: int, rule: str) -> str:
    """The rule that chose a scale, its efficiency there, and what the next scale loses to."""
    efficiency = float(scales.efficiency[chosen])
    why = f"{rule}, at an efficiency of {format_efficiency(efficiency)}"
    if efficiency < needs.threshold:
        why += f" although that is below {needs.threshold:.2f}"
    if scales.quality is not None:
        why += " and with its quality held"
    beyond = scales.after(chosen)
    if beyond is None:
        return f"{why}; nothing larger was {'measured' if scales.measured else 'asked for'}"
    cause = scales.causes[beyond]
    lost = f", lost mostly to {_in_prose(cause)}" if cause else ""
    next_efficiency = format_efficiency(float(scales.efficiency[beyond]))
    return f"{why}; at K={scales.nodes[beyond]} it is {next_efficiency}{lost}"


def claim(scales: Candidates, price: Price, costs: Floats, chosen: int) -> str:
    """One sentence that stands on measured numbers only."""
    base = f"K={scales.nodes[0]}, {format_duration(float(scales.seconds[0]))}"
    parts = [
        f"{scales.name} ({scales.regime} scaling) scales to {scales.nodes[chosen]} nodes at "
        f"efficiency {format_efficiency(float(scales.efficiency[chosen]))} "
        f"({format_speedup(float(scales.speedup[chosen]))}x over {base})"
    ]
    if scales.quality is None:
        parts.append("with quality not measured")
    else:
        drift = float(np.max(np.abs(scales.quality[: chosen + 1] - scales.quality[0])))
        parts.append(
            f"with quality held at {format_efficiency(float(scales.quality[chosen]))} "
            f"(drift {drift:.3f} at most)"
        )
    cost = f"and a cost of {format_money(float(costs[chosen]), price.currency)} a run"
    if scales.work is not None:
        unit = format_unit_cost(float(costs[chosen] / scales.work[chosen]), price.currency)
        cost += f", {unit} per unit of work"
    return f"{', '.join([*parts, cost])}; {_beyond(scales, chosen)}."


def _beyond(scales: Candidates, chosen: int) -> str:
    beyond = scales.after(chosen)
    if beyond is None:
        return "no larger scale was measured"
    cause = scales.causes[beyond]
    owner = _in_prose(cause) if cause else "the cost"
    return (
        f"beyond that, at K={scales.nodes[beyond]} with efficiency "
        f"{format_efficiency(float(scales.efficiency[beyond]))}, {owner} makes further scaling "
        "uneconomic"
    )


def _in_prose(cause: CauseName) -> str:
    if cause == "unexplained":
        return "a cause that was not recorded"
    if cause == "idle":
        return "waiting"
    return {"serial fraction": "the serial fraction", "slow node": "a slow node"}.get(cause, cause)


def cheaper_nodes(price: Price, needs: Needs, chosen: Sequence[tuple[str, int | None]]) -> str:
    """Whether a lower price of nodes moves the cheapest scale; `chosen` names it by regime."""
    if not (price.fixed_per_hour or needs.value_per_hour or needs.budget is not None):
        return (
            "Cheaper nodes do not move the cheapest K here: without an overhead by the hour, a "
            "value of time or a budget, cost is price times K*T(K), and that has its minimum at "
            "the same K for every price."
        )
    named = ", ".join(f"K={nodes} {regime}" for regime, nodes in chosen if nodes is not None)
    if len({nodes for _, nodes in chosen}) == 1:
        return f"Cheaper nodes could move the cheapest K here, but not by this much: {named}."
    return (
        f"Cheaper nodes move the cheapest K here ({named}): the price of the nodes falls, and what "
        "an hour costs whatever K is does not."
    )


def what_would_change(
    scales: Candidates,
    price: Price,
    needs: Needs,
    bills: Bills,
    allowed: NDArray[np.bool_],
    recommended: int | None,
    fastest: int | None,
) -> tuple[str, ...]:
    """The nearest facts that would move the recommendation."""
    changes = []
    if recommended is not None and scales.regime == "strong":
        changes += _value_of_waiting(scales, price, needs, bills.total, allowed, recommended)
    if price.fixed_per_hour:
        bare = bill(
            msgspec.structs.replace(price, fixed_per_hour=0.0),
            scales.rate_per_hour,
            scales.seconds,
            needs.value_per_hour,
        )
        costs = np.where(allowed, bare.total / scales.relative_work, np.inf)
        without = int(np.argmin(costs))
        if allowed.any() and without != recommended:
            overhead = format_money(price.fixed_per_hour, price.currency)
            changes.append(
                f"without the overhead of {overhead} an hour the cheapest is "
                f"K={scales.nodes[without]}"
            )
    if scales.measured and fastest is not None:
        changes.append(_next_measurement(scales.nodes, fastest))
    return tuple(changes)


def _value_of_waiting(
    scales: Candidates,
    price: Price,
    needs: Needs,
    costs: Floats,
    allowed: NDArray[np.bool_],
    recommended: int,
) -> list[str]:
    """The least value of an hour at which a larger scale would be the better buy."""
    offers = []
    for at in range(recommended + 1, len(scales.nodes)):
        saved = float(scales.seconds[recommended] - scales.seconds[at])
        extra = float(costs[at] - costs[recommended])
        if allowed[at] and saved > 0 and extra > 0:
            offers.append((extra / saved * SECONDS_PER_HOUR, scales.nodes[at]))
    if not offers:
        return []
    value, nodes = min(offers)
    worth = format_money(value, price.currency) + (" more" if needs.value_per_hour else "")
    return [f"an hour of waiting worth {worth} moves it to K={nodes}"]


def _next_measurement(nodes: tuple[int, ...], fastest: int) -> str:
    """The run that could change the answer of those who buy speed."""
    if fastest == len(nodes) - 1:
        return (
            f"a run at K={2 * nodes[-1]}: the time still falls at the largest measured scale, so "
            "the fastest K may lie beyond it"
        )
    below = nodes[max(fastest - 1, 0)]
    between = [
        (low + high) // 2
        for low, high in ((below, nodes[fastest]), (nodes[fastest], nodes[fastest + 1]))
        if high - low > 1
    ]
    if not between:
        return "more rounds around the fastest scale: there is none between its neighbours"
    named = " and ".join(f"K={count}" for count in between)
    return (
        f"runs at {named}: the fastest K lies between {below} and {nodes[fastest + 1]}, and only "
        f"K={nodes[fastest]} was measured there"
    )
