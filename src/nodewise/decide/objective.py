"""The one objective: which scale is right, given what the question says of time and money.

| the question states        | the objective                                                  |
|----------------------------|----------------------------------------------------------------|
| a value of an hour         | the lowest bill plus waiting                                   |
| a deadline                 | the cheapest scale that keeps it                               |
| a budget                   | the fastest scale within it                                    |
| none of these, and the bill is lowest above the smallest scale: the cheapest                |
| none of these, and the smallest scale is the cheapest: the fastest scale whose bill is at most
  1/threshold of the cheapest; with linear prices that is an efficiency of at least the threshold |

Every command and the page choose by `judge`.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.stats import Floats
from nodewise.base.units import format_duration, format_money
from nodewise.decide.candidates import Candidates
from nodewise.decide.choose import TIE, cheapest_of, fastest_of
from nodewise.decide.gates import Mask, Refusal, refusals
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Bills

ObjectiveName = Literal[
    "lowest bill plus waiting",
    "cheapest within the deadline",
    "fastest within the budget",
    "cheapest",
    "fastest worth its cost",
]
_ALIKE = 0.01  # two scales whose times or costs differ by less are alike


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """The objective of the choice, and why it applies."""

    name: ObjectiveName
    because: str

    @property
    def is_speed(self) -> bool:
        """Whether the fastest of some scales is taken, and not the cheapest."""
        return self.name in ("fastest within the budget", "fastest worth its cost")


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Scales with their bills, and the positions of those that matter; None: no scale passes."""

    scales: Candidates
    bills: Bills
    refused: tuple[Refusal | None, ...]
    allowed: Mask
    objective: Objective
    cheapest: int | None
    balanced: int | None  # the fastest that is worth its cost
    fastest: int | None
    chosen: int | None

    @property
    def unit_bill(self) -> Floats:
        """What is paid for the work of the first run: scales compare by equal work."""
        return self.bills.billed / self.scales.relative_work

    @property
    def reference_bill(self) -> Floats:
        """The bills that cost efficiency is taken over: the first is that of the fitted base."""
        return reference_bill(self.scales, self.unit_bill)

    @property
    def unit_cost(self) -> Floats:
        """The bill and the worth of waiting, for the work of the first run."""
        return self.bills.total / self.scales.relative_work

    @property
    def is_clearly_fastest(self) -> bool:
        """Whether the fastest scale has the shortest time too, not only within the noise."""
        speedup = self.scales.speedup
        return self.fastest is not None and bool(
            speedup[self.fastest] >= speedup[self.allowed].max() * (1 - TIE)
        )

    @property
    def eligible(self) -> list[int]:
        """The positions of the scales that pass every gate."""
        return [int(at) for at in np.flatnonzero(self.allowed)]


def judge(
    scales: Candidates, bills: Bills, question: Question, objective: Objective | None = None
) -> Judged:
    """Apply the gates, name the objective unless it is given, and choose."""
    price, needs = scales.price, question.needs
    refused = refusals(scales, price, needs, bills)
    allowed = np.array([refusal is None for refusal in refused])
    eligible = [int(at) for at in np.flatnonzero(allowed)]
    unit_bill, unit_cost = bills.billed / scales.relative_work, bills.total / scales.relative_work
    reference = reference_bill(scales, unit_bill)
    objective = objective or objective_of(scales, question, reference, eligible)
    cheapest = cheapest_of(scales, unit_bill, eligible)
    fastest = fastest_of(scales, unit_bill, eligible)
    balanced = fastest_of(scales, unit_bill, worth_their_cost(reference, eligible, needs.threshold))
    by_name: dict[ObjectiveName, int | None] = {
        "lowest bill plus waiting": cheapest_of(scales, unit_cost, eligible),
        "cheapest within the deadline": cheapest,
        "fastest within the budget": fastest,
        "cheapest": cheapest,
        "fastest worth its cost": balanced,
    }
    return Judged(
        scales=scales,
        bills=bills,
        refused=tuple(refused),
        allowed=allowed,
        objective=objective,
        cheapest=cheapest,
        balanced=balanced,
        fastest=fastest,
        chosen=by_name[objective.name],
    )


def reference_bill(scales: Candidates, unit_bill: Floats) -> Floats:
    """The bills with that of the first scale as its fitted time would make it, where it is slow."""
    if scales.fitted_base_seconds is None:
        return unit_bill
    launch = scales.price.startup_seconds
    share = (scales.fitted_base_seconds + launch) / (float(scales.seconds[0]) + launch)
    factors = np.ones(len(scales.nodes))
    factors[0] = share
    return np.asarray(unit_bill * factors)


def objective_of(
    scales: Candidates, question: Question, unit_bill: Floats, eligible: Sequence[int]
) -> Objective:
    """What the choice is made by, from the table above."""
    needs, currency = question.needs, scales.price.currency
    per = scales.compared_for.clause
    if needs.value_per_hour is not None:
        worth = format_money(needs.value_per_hour, currency)
        return Objective(
            name="lowest bill plus waiting", because=f"an hour of waiting is worth {worth}"
        )
    if needs.deadline_seconds is not None:
        limit = format_duration(needs.deadline_seconds)
        return Objective(
            name="cheapest within the deadline",
            because=f"the deadline is {limit}",
        )
    if needs.budget is not None:
        limit = format_money(needs.budget, currency)
        return Objective(name="fastest within the budget", because=f"the budget is {limit}")
    lower = _lower_than_the_smallest(scales, unit_bill, eligible)
    if lower is not None:
        return Objective(
            name="cheapest",
            because=f"K={scales.nodes[lower]} costs less{per} than K={scales.nodes[eligible[0]]}",
        )
    smallest = f"K={scales.nodes[eligible[0]]}" if eligible else "the smallest scale"
    if scales.fitted_base_seconds is not None:
        smallest += " at its fitted time"
    return Objective(
        name="fastest worth its cost",
        because=f"no scale costs clearly less{per} than {smallest}; speed may cost "
        f"{cost_limit(needs.threshold, f'times the lowest bill{per}')}",
    )


def cost_limit(threshold: float, of: str = "times the lowest bill", bound: str = "up to") -> str:
    """How much a scale may cost for its speed.

    >>> cost_limit(0.7), cost_limit(0.004), cost_limit(0.0)
    ('up to 1/0.70 times the lowest bill', 'up to 1/0.004 times the lowest bill', 'any amount')
    """
    if threshold <= 0:
        return "any amount"
    share = f"{threshold:.2f}" if threshold >= 0.01 else f"{threshold:.2g}"
    return f"{bound} 1/{share} {of}"


def _lower_than_the_smallest(
    scales: Candidates, unit_bill: Floats, eligible: Sequence[int]
) -> int | None:
    """A scale that costs less than the smallest one, by more than the noise of the runs."""
    if len(eligible) < 2:
        return None
    first, rest = eligible[0], np.array(eligible[1:])
    margins = 0.0 if scales.joint_margins is None else scales.joint_margins[first, rest]
    lower = unit_bill[rest] * np.exp(margins) < unit_bill[first] * (1 - TIE)
    return int(rest[np.argmin(np.where(lower, unit_bill[rest], np.inf))]) if lower.any() else None


def worth_their_cost(unit_bill: Floats, eligible: Sequence[int], threshold: float) -> list[int]:
    """The scales whose cost efficiency, least bill over this bill, reaches the threshold."""
    least = min((unit_bill[at] for at in eligible), default=0.0)
    # a bill at the limit passes: 0.7 is not exact in binary
    limit = least * (1 + TIE)
    return [at for at in eligible if min(threshold, 1.0) * unit_bill[at] <= limit]


def least_costs(costs: Floats, speed: Floats) -> NDArray[np.int64]:
    """The scale of the least cost in each draw; of equal ones the fastest."""
    ties = costs <= costs.min(axis=1, keepdims=True) * (1 + TIE)
    return np.asarray(np.where(ties, speed, -np.inf).argmax(axis=1))


def picks(
    objective: Objective,
    question: Question,
    unit_bill: Floats,
    unit_cost: Floats,
    speed: Floats,
    nodes: Sequence[int],
    work: Floats,
) -> NDArray[np.int64]:
    """The right scale in each draw; one row per draw, one column per scale that passes."""
    if objective.name == "lowest bill plus waiting":
        return least_costs(unit_cost, speed)
    if objective.name in ("cheapest", "cheapest within the deadline"):
        return least_costs(unit_bill, speed)
    if objective.name == "fastest within the budget":
        within = unit_bill * work <= (question.needs.budget or 0.0) * (1 + TIE)
    else:
        least = unit_bill.min(axis=1, keepdims=True)
        passes = np.isfinite(unit_bill)  # a draw in which a scale misses a gate has no bill
        limit = question.needs.threshold * (1 - TIE)
        within = passes & (least >= limit * np.where(passes, unit_bill, 0.0))
    # where nothing is within, the cheapest comes nearest
    within = within | (unit_bill == unit_bill.min(axis=1, keepdims=True))
    reached = np.where(within, speed, 0.0)
    alike = reached >= (1 - _ALIKE) * reached.max(axis=1, keepdims=True)
    order = np.argsort(nodes)
    return np.asarray(order[alike[:, order].argmax(axis=1)])
