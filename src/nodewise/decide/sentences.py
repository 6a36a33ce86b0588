"""The sentences of a decision: why this scale, the claim, what would change it."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.stats import Floats
from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_speedup,
    format_unit_cost,
)
from nodewise.decide.candidates import Candidates, Needs
from nodewise.decide.gates import Refusal
from nodewise.decide.prices.bill import Bills, Price, bill
from nodewise.explain.causes import CauseName

Refusals = Sequence[Refusal | None]  # why each scale is excluded, or nothing


def why_refused(refusal: Refusal) -> str:
    """The gate that a scale does not pass, in words."""
    limit = refusal.limit
    if refusal.gate == "failures":
        return f"it never ends: {refusal.because}"
    if refusal.gate == "quality":
        return f"its quality drifts by {refusal.value:+.3g}, tolerance {limit:g}"
    if refusal.gate == "deadline":
        deadline = f"the deadline of {format_duration(limit)}"
        if refusal.confidence is None:
            return f"it misses {deadline}"
        return f"it meets {deadline} in fewer than {format_percent(refusal.confidence)} of runs"
    if refusal.gate == "budget":
        return f"it costs more than the budget of {format_money(limit, refusal.unit)}"
    if refusal.gate == "energy":
        return f"it takes more than {format_quantity(limit)} J ({refusal.unit})"
    return f"it emits more than {format_quantity(limit)} g CO2e ({refusal.unit})"


def why_this_scale(
    scales: Candidates, needs: Needs, refusals: Refusals, chosen: int, rule: str
) -> str:
    """The rule that chose a scale, its efficiency there, and what the next scale loses to."""
    if scales.speedup.max() <= 1:
        rule = f"no larger scale is faster than K={scales.nodes[chosen]}"
    efficiency = float(scales.efficiency[chosen])
    why = f"{rule}, at an efficiency of {format_efficiency(efficiency)}"
    if efficiency < needs.threshold:
        why += f" although that is below {needs.threshold:.2f}"
    if scales.quality is not None:
        why += " and with its quality held"
    return f"{why}; {_beyond(scales, refusals, chosen)}"


def why_none(scales: Candidates, refusals: Refusals, bills: Bills) -> str:
    """Which scale comes nearest when no scale passes every gate."""
    quickest, cheapest = int(np.argmin(scales.seconds)), int(np.argmin(bills.billed))
    named = [
        f"the {what}, K={scales.nodes[at]}, {_passes_or_not(refusals[at])}"
        for what, at in (("fastest", quickest), ("cheapest", cheapest))
    ]
    return "; ".join(dict.fromkeys(named))


def claim(scales: Candidates, price: Price, costs: Floats, refusals: Refusals, chosen: int) -> str:
    """One sentence that stands on measured numbers only."""
    base = f"{format_duration(float(scales.seconds[0]))} at K={scales.nodes[0]}"
    nodes = scales.nodes[chosen]
    if scales.speedup.max() <= 1:
        return f"{scales.name} does not scale: no measured scale is faster than {base}."
    parts = [
        f"{scales.name} ({scales.regime} scaling) scales to {nodes} node{'s' if nodes > 1 else ''} "
        f"at efficiency {format_efficiency(float(scales.efficiency[chosen]))} "
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
    beyond = scales.after(chosen)
    end = _beyond(scales, refusals, chosen)
    if beyond is not None and refusals[beyond] is None:
        end = f"beyond that, {end}: further scaling is uneconomic here"
    return f"{', '.join([*parts, cost])}; {end}."


def _beyond(scales: Candidates, refusals: Refusals, chosen: int) -> str:
    """What becomes of the next larger scale."""
    beyond = scales.after(chosen)
    if beyond is None:
        broken = [(nodes, how) for nodes, how in scales.broken if nodes > scales.nodes[chosen]]
        if broken:
            return f"at K={broken[0][0]} no run ended well: {broken[0][1]}"
        return f"no larger scale was {'measured' if scales.measured else 'asked for'}"
    if refusals[beyond] is not None:
        return f"K={scales.nodes[beyond]} {_passes_or_not(refusals[beyond])}"
    efficiency = format_efficiency(float(scales.efficiency[beyond]))
    slower = "" if scales.speedup[beyond] > scales.speedup[chosen] else " and it is no faster"
    return f"at K={scales.nodes[beyond]} efficiency is {efficiency}{_blame(scales, beyond)}{slower}"


def _passes_or_not(refusal: Refusal | None) -> str:
    return "passes" if refusal is None else f"is excluded: {why_refused(refusal)}"


def _blame(scales: Candidates, at: int) -> str:
    """The cause of most of what is lost, or the two that share it."""
    lost = [(in_prose(cause), folds) for cause, folds in scales.losses[at] if folds > 0]
    if scales.undisturbed is not None:
        useful = scales.undisturbed / scales.seconds
        failed = float(scales.speedup[at] * (useful.max() / useful[at] - 1))
        lost = sorted([*lost, ("failures of nodes", failed)], key=lambda loss: -loss[1])
    if not lost:
        return ""
    total = sum(folds for _, folds in lost)
    if lost[0][1] >= 0.6 * total or len(lost) == 1:
        return f", lost mostly to {lost[0][0]}"
    return f", lost to {lost[0][0]} and {lost[1][0]}"


def in_prose(cause: CauseName) -> str:
    """A cause as it stands in a sentence."""
    if cause == "unexplained":
        return "a cause that was not recorded"
    if cause == "idle":
        return "waiting"
    return {"serial fraction": "the serial fraction", "slow node": "a slow node"}.get(cause, cause)


def what_would_change(
    scales: Candidates,
    price: Price,
    needs: Needs,
    bills: Bills,
    refusals: Refusals,
    recommended: int | None,
    fastest: int | None,
) -> tuple[str, ...]:
    """The nearest facts that would move the recommendation."""
    if recommended is None:
        return _gates_to_move(scales, price, needs, bills)
    allowed = np.array([refusal is None for refusal in refusals])
    changes = _value_of_waiting(scales, price, needs, bills.total, allowed, recommended)
    if price.prices_the_hour or needs.value_per_hour:
        efficient = np.flatnonzero(allowed & (scales.efficiency >= needs.threshold))
        if len(efficient) and efficient[-1] != recommended:
            changes.append(
                f"if an hour had no price, K={scales.nodes[efficient[-1]]}: the largest scale with "
                f"an efficiency of {needs.threshold:.2f} or more"
            )
    if price.fixed_per_hour:
        bare = bill(
            msgspec.structs.replace(price, fixed_per_hour=0.0),
            scales.rate_per_hour,
            scales.seconds,
            needs.value_per_hour,
        )
        costs = np.where(allowed, bare.total / scales.relative_work, np.inf)
        without = int(np.argmin(costs))
        if without != recommended:
            overhead = format_money(price.fixed_per_hour, price.currency)
            changes.append(
                f"without the overhead of {overhead} an hour the cheapest is "
                f"K={scales.nodes[without]}"
            )
    if scales.measured and fastest is not None:
        changes += _next_measurement(scales, refusals, fastest)
    return tuple(changes)


def _gates_to_move(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> tuple[str, ...]:
    changes = []
    if needs.deadline_seconds is not None:
        at = int(np.argmin(scales.seconds))
        least = float(scales.seconds[at]) + price.startup_seconds
        changes.append(
            f"a deadline above {format_duration(least)}, the time of K={scales.nodes[at]}"
        )
    if needs.budget is not None:
        at = int(np.argmin(bills.billed))
        least_bill = format_money(float(bills.billed[at]), price.currency)
        changes.append(f"a budget of {least_bill}, the bill of K={scales.nodes[at]}")
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
    if scales.regime == "weak":
        return []
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


def _next_measurement(scales: Candidates, refusals: Refusals, fastest: int) -> list[str]:
    """The run that could change the answer of those who buy speed."""
    nodes = scales.nodes
    if fastest == 0:
        return []
    if fastest == len(nodes) - 1:
        still = "the time still falls" if scales.regime == "strong" else "throughput still grows"
        return [
            f"a run at K={2 * nodes[-1]}: {still} at the largest measured scale, so the fastest K "
            "may lie beyond it"
        ]
    if refusals[fastest + 1] is not None:
        return [f"a run at K={nodes[fastest + 1]} that passes: now it is excluded"]
    below, above = nodes[fastest - 1], nodes[fastest + 1]
    between = [
        (low + high) // 2
        for low, high in ((below, nodes[fastest]), (nodes[fastest], above))
        if high - low > 1
    ]
    if not between:
        return []
    named = " and ".join(f"K={count}" for count in between)
    return [
        f"{'runs' if len(between) > 1 else 'a run'} at {named}: the fastest K lies between {below} "
        f"and {above}, and only K={nodes[fastest]} was measured there"
    ]


def share_of_efficient_resamples(scales: Candidates, needs: Needs, at: int) -> str:
    """How sure it is that a scale keeps its efficiency, when rounds were repeated."""
    if scales.efficiency_draws is None:
        return ""
    share = float(np.mean(scales.efficiency_draws[:, at] >= needs.threshold))
    return f" (in {format_percent(share)} of resamples)"
