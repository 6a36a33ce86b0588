"""The sentences of a decision: why this scale, the claim, what would change it."""

from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_rate_cost,
    format_speedup,
    format_unit_cost,
)
from nodewise.decide.candidates import Candidates, Needs
from nodewise.decide.gates import Refusal, allowed_scales, quality_states, why_refused
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, cost_limit
from nodewise.decide.prices.bill import Bills, Price, bill
from nodewise.explain.causes import CauseName

_SAME_EFFICIENCY = 0.005
_FAR = 4  # times as large: the next scale says little about those between

Refusals = Sequence[Refusal | None]  # why each scale is excluded, or nothing


def why_this_scale(judged: Judged, question: Question, chosen: int) -> str:
    """The objective that chose a scale, its efficiency there, and what the next scale loses to."""
    scales, needs = judged.scales, question.needs
    rule = _rule(judged, question)
    if judged.fastest == 0 and chosen == 0:
        clearly = "" if judged.is_clearly_fastest else "clearly "
        rule = f"no larger scale is {clearly}faster than K={scales.nodes[chosen]}"
    efficiency = float(scales.fitted_efficiency[chosen])
    if scales.price.is_money and question.payment.asks_spot:
        rule = f"on demand, {rule}"
    why = f"{rule}, at an efficiency of {format_efficiency(efficiency)}{_relative(scales)}"
    of_cost = _cost_efficiency(judged, chosen)
    if of_cost:
        why += f" and a cost efficiency of {of_cost}"
    elif float(format_efficiency(efficiency)) < needs.threshold:  # as it is shown
        why += f" although that is below {needs.threshold:.2f}"
    states = quality_states(scales, needs)
    if states is not None:
        why += " and with its quality held" if states[chosen] == "held" else " (quality undecided)"
    return f"{why}; {_beyond(judged, chosen)}"


def _cost_efficiency(judged: Judged, at: int) -> str:
    """The least bill over this one, where it decides and is not the efficiency."""
    cheapest = judged.reference_bill[judged.eligible].min()
    of_cost = float(cheapest / judged.unit_bill[at]) if cheapest > 0 else 1.0
    apart = abs(of_cost - float(judged.scales.fitted_efficiency[at])) > _SAME_EFFICIENCY
    by_threshold = judged.objective.name == "fastest worth its cost"
    return format_efficiency(of_cost) if by_threshold and apart else ""


def _rule(judged: Judged, question: Question) -> str:
    """The objective in words."""
    needs, currency = question.needs, judged.scales.price.currency
    per = judged.scales.compared_for.clause
    others = {refusal.gate for refusal in judged.refused if refusal}
    if judged.objective.name == "cheapest within the deadline":
        assert needs.deadline_seconds is not None
        limit = _limit(judged.scales, needs)
        rule = f"the cheapest scale{per} that keeps the deadline of {limit}"
        others.discard("deadline")
    elif judged.objective.name == "fastest within the budget":
        assert needs.budget is not None
        rule = f"the fastest scale within the budget of {format_money(needs.budget, currency)}"
        others.discard("budget")
    elif judged.objective.name == "fastest worth its cost":
        limit = cost_limit(needs.threshold, f"times the cheapest{per}", "at most")
        rule = f"the fastest scale that {'costs' if needs.threshold > 0 else 'may cost'} {limit}"
    else:
        rule = (
            f"the lowest bill plus waiting{per}"
            if needs.value_per_hour is not None
            else f"the cheapest scale{per}"
        )
    if others:
        rule += " and passes every other gate" if rule.count(" that ") else " of those that pass"
    if question.ranges and not judged.objective.is_speed:
        rule += ", by the least expected regret over the ranges"
    return rule


def _limit(scales: Candidates, needs: Needs) -> str:
    assert needs.deadline_seconds is not None
    limit = format_duration(needs.deadline_seconds)
    if scales.in_time is None:  # single runs: the one measured time decides
        return limit
    return f"{limit} in {format_percent(needs.deadline_confidence)} of runs"


def why_none(scales: Candidates, refusals: Refusals, bills: Bills) -> str:
    """Which scale comes nearest when no scale passes every gate."""
    if scales.validity.state == "invalid":
        return scales.validity.clause
    quickest, cheapest = int(np.argmin(scales.seconds)), int(np.argmin(bills.billed))
    named = [
        f"the {what}, K={scales.nodes[at]}, {_passes_or_not(refusals[at])}"
        for what, at in (("fastest", quickest), ("cheapest", cheapest))
    ]
    return "; ".join(dict.fromkeys(named))


def claim(judged: Judged, needs: Needs, chosen: int, nodes_fail: bool = False) -> str:
    """One sentence on measured numbers; a base that is too slow is replaced by the fitted one.

    Where nodes fail, only the bill counts what failures are expected to add.
    """
    scales = judged.scales
    measured = format_duration(float(scales.seconds[0]))
    base = f"{measured} at K={scales.nodes[0]}"
    if scales.is_rate and scales.work is not None:
        rate = format_quantity(float(scales.work[0] / scales.seconds[0]))
        base = f"{rate} units of work a second at K={scales.nodes[0]}"
    elif scales.fitted_base_seconds is not None:
        fitted = format_duration(scales.fitted_base_seconds)
        base = f"{fitted} fitted at K={scales.nodes[0]}; measured: {measured}"
    if nodes_fail:
        base += " without failures of nodes"
    if nodes_fail and judged.fastest == 0:
        return (
            f"{scales.name} does not scale where nodes fail this often: with failures no measured "
            f"scale is expected to be faster than K={scales.nodes[0]}."
        )
    if judged.fastest == 0 or scales.speedup.max() <= 1:
        return f"{scales.name} does not scale: no measured scale is clearly faster than {base}."
    efficiency = format_efficiency(float(scales.fitted_efficiency[chosen]))
    parts = [
        f"{scales.name} ({scales.regime} scaling) scales to {scales.named(chosen)} "
        f"at efficiency {efficiency}{_relative(scales)} "
        f"({format_speedup(scales.base_share * float(scales.speedup[chosen]))}x over {base})"
    ]
    if chosen == 0:
        parts = [f"{scales.name} ({scales.regime} scaling) is best run at its base, {base}"]
    if scales.quality is None:
        parts.append("with quality not measured")
    elif scales.drifts is None:
        loss = format_efficiency(float(scales.quality[chosen]))
        parts.append(f"with a training loss of {loss} (no tolerance is stated)")
    else:
        parts.append(_claimed_quality(scales, needs, judged.refused, chosen))
    parts.append(
        f"and a cost of {_claimed_cost(judged, chosen)}{' with failures' if nodes_fail else ''}"
    )
    return f"{', '.join(parts)}; {_end_of_claim(judged, needs, chosen)}."


def _claimed_cost(judged: Judged, chosen: int) -> str:
    """The bill of a run, and of a unit of work where that is known."""
    scales, currency = judged.scales, judged.scales.price.currency
    billed = float(judged.bills.billed[chosen])
    cost = f"{format_money(billed, currency)} a run"
    if scales.is_rate and scales.work is not None:
        return format_rate_cost(billed / float(scales.work[chosen]), "units of work", currency)
    if scales.compared_for.clause:
        each = scales.compared_for.amount(float(judged.unit_bill[chosen]))
        return f"{cost}, {format_money(each, currency)}{scales.compared_for.label}"
    if scales.work is not None:
        unit = format_unit_cost(billed / float(scales.work[chosen]), currency)
        return f"{cost}, {unit} per unit of work"
    return cost


def _end_of_claim(judged: Judged, needs: Needs, chosen: int) -> str:
    """The next larger scale, and why it is not the one."""
    scales, end = judged.scales, _beyond(judged, chosen)
    beyond = scales.after(chosen)
    if beyond is None or judged.refused[beyond] is not None:
        return end
    costs_more = judged.unit_bill[beyond] > judged.unit_bill[chosen]
    why = "it costs more" if costs_more else "it was not chosen"
    if scales.nodes[beyond] > _FAR * scales.nodes[chosen]:
        why = "no scale between them was measured"
    elif scales.fitted_efficiency[beyond] < needs.threshold:
        why = "further scaling is uneconomic here"
    return f"beyond that, {end}: {why}"


def _relative(scales: Candidates) -> str:
    """The base of speedup and efficiency, where it is not K=1."""
    return "" if scales.nodes[0] == 1 else f" relative to K={scales.nodes[0]}"


def _claimed_quality(scales: Candidates, needs: Needs, refusals: Refusals, chosen: int) -> str:
    """The quality of the chosen scale, and the largest drift up to it that is not excluded."""
    assert scales.drifts is not None
    assert scales.quality is not None
    quality = format_efficiency(float(scales.quality[chosen]))
    own = scales.drifts[chosen]
    if own.state(needs.quality_tolerance, needs.quality_better) == "undecided":
        return f"with a quality of {quality} (drift between {own.low:+.3f} and {own.high:+.3f})"
    kept = [at for at in range(chosen + 1) if refusals[at] is None or at == 0]
    drift = max(abs(scales.drifts[at].value) for at in kept)
    return f"with quality held at {quality} (drift {drift:.3f} at most)"


def _beyond(judged: Judged, chosen: int) -> str:
    """What becomes of the next larger scale."""
    scales, refusals = judged.scales, judged.refused
    beyond = scales.after(chosen)
    if beyond is None:
        broken = [(nodes, how) for nodes, how in scales.broken if nodes > scales.nodes[chosen]]
        if broken:
            return f"at K={broken[0][0]} every run failed: {broken[0][1]}"
        return f"no larger scale was {'measured' if scales.measured else 'asked for'}"
    if refusals[beyond] is not None:
        return f"K={scales.nodes[beyond]} {_passes_or_not(refusals[beyond])}"
    efficiency = format_efficiency(float(scales.fitted_efficiency[beyond]))
    of_cost = _cost_efficiency(judged, beyond)
    billed = f" and cost efficiency {of_cost}" if of_cost else ""
    slower = "" if scales.speedup[beyond] > scales.speedup[chosen] else ", and it is no faster"
    blame = _blame(scales, beyond)
    return f"at K={scales.nodes[beyond]} efficiency is {efficiency}{billed}{blame}{slower}"


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
    """A cause as a sentence names it."""
    if cause == "unexplained":
        return "a cause that was not recorded"
    if cause == "idle":
        return "waiting"
    return {"serial fraction": "the serial fraction", "slow node": "a slow node"}.get(cause, cause)


def what_would_change(
    judged: Judged, question: Question, recommended: int | None
) -> tuple[str, ...]:
    """The nearest facts that would move the recommendation."""
    scales, price, needs = judged.scales, judged.scales.price, question.needs
    if scales.validity.state == "invalid":
        return ()
    if recommended is None:
        return _gates_to_move(scales, price, needs, judged.bills)
    changes = _value_of_waiting(judged, question, recommended)
    if judged.objective.name == "cheapest" and judged.balanced not in (None, recommended):
        assert judged.balanced is not None
        changes.append(
            f"if speed is worth "
            f"{cost_limit(needs.threshold, f'times the lowest bill{scales.compared_for.clause}')}, "
            f"K={scales.nodes[judged.balanced]}"
        )
    if price.fixed_per_hour and judged.objective.name == "cheapest":
        bare = bill(
            msgspec.structs.replace(price, fixed_per_hour=0.0),
            scales.rate_per_hour,
            scales.seconds,
        )
        costs = np.where(judged.allowed, bare.billed / scales.relative_work, np.inf)
        without = int(np.argmin(costs))
        if without != recommended:
            overhead = format_money(price.fixed_per_hour, price.currency)
            changes.append(
                f"without the overhead of {overhead} an hour the cheapest"
                f"{scales.compared_for.clause} is K={scales.nodes[without]}"
            )
    return tuple(changes)


def _gates_to_move(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> tuple[str, ...]:
    """The limits that would let a scale pass which every other gate lets pass."""
    sure = scales.sure_seconds(needs.deadline_confidence) + price.startup_seconds
    kept = ""
    if scales.in_time is not None:
        kept = f" in {format_percent(needs.deadline_confidence)} of runs"

    def deadline(at: int) -> str:
        return f"a deadline of {format_duration(float(sure[at]))} or more"

    def budget(at: int) -> str:
        return f"a budget of {format_money(float(bills.billed[at]), price.currency)}"

    changes = []
    if needs.deadline_seconds is not None:
        passing = _passing_without(scales, price, needs, bills, "deadline_seconds")
        if passing:
            at = min(passing, key=lambda at: sure[at])
            changes.append(f"{deadline(at)}: K={scales.nodes[at]} keeps it{kept}")
    if needs.budget is not None:
        passing = _passing_without(scales, price, needs, bills, "budget")
        if passing:
            at = min(passing, key=lambda at: bills.billed[at])
            changes.append(f"{budget(at)}, the bill of K={scales.nodes[at]}")
    if not changes and needs.deadline_seconds is not None and needs.budget is not None:
        passing = _passing_without(scales, price, needs, bills, "deadline_seconds", "budget")
        if passing:
            at = min(passing, key=lambda at: bills.billed[at])
            changes.append(f"{deadline(at)} and {budget(at)}: K={scales.nodes[at]} keeps both")
    return tuple(changes)


def _passing_without(
    scales: Candidates, price: Price, needs: Needs, bills: Bills, *limits: str
) -> list[int]:
    """The scales that pass every gate but these."""
    rest = msgspec.structs.replace(needs, **dict.fromkeys(limits))
    return [int(at) for at in np.flatnonzero(allowed_scales(scales, price, rest, bills))]


def _value_of_waiting(judged: Judged, question: Question, recommended: int) -> list[str]:
    """The least value of an hour at which a larger scale has the lowest bill plus waiting."""
    scales = judged.scales
    if scales.regime == "weak":
        return []
    billed, hours = judged.bills.billed, scales.seconds / SECONDS_PER_HOUR
    # time that may be noise is worth nothing
    compared = judged.allowed & scales.of_other_time(recommended)
    offers = []
    for at in np.flatnonzero(compared):
        saved, extra = hours[recommended] - hours[at], billed[at] - billed[recommended]
        if at > recommended and saved > 0 and extra > 0:
            offers.append((float(extra / saved), at))
    for value, at in sorted(offers):
        total = np.where(compared, billed + value * (1 + 1e-6) * hours, np.inf)
        if int(np.argmin(total)) == at and value > question.needs.hour_value:
            worth = format_money(value, scales.price.currency)
            return [f"an hour of waiting worth {worth} moves it to K={scales.nodes[at]}"]
    return []
