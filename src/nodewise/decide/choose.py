"""Which scale is the cheapest, the fastest, or Pareto-optimal."""

from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.stats import Floats
from nodewise.decide.candidates import Candidates
from nodewise.decide.prices.bill import Bills
from nodewise.explain.scaling import fastest_among

TIE = 1e-9  # relative; closer than this is rounding, not a difference


class Choice(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """A scale with what it costs and takes."""

    nodes: int
    cost: float
    seconds: float
    speedup: float


def cheapest_of(scales: Candidates, cost: Floats, eligible: Sequence[int]) -> int | None:
    """The position of the least cost; of equal ones the fastest."""
    if not len(eligible):
        return None
    at = np.asarray(eligible)
    ties = at[cost[at] <= cost[at].min() * (1 + TIE)]
    return int(ties[np.argmax(scales.speedup[ties])])


def fastest_of(scales: Candidates, cost: Floats, eligible: Sequence[int]) -> int | None:
    """The position of the fewest nodes that cannot be distinguished from the fastest.

    A scale that costs more than the fastest is never taken instead of it.
    """
    if not len(eligible):
        return None
    at = np.asarray(eligible)
    speed = scales.speedup[at]
    if scales.margins is not None:
        at = at[cost[at] <= cost[at[np.argmax(speed)]] * (1 + TIE)]
        nodes = [scales.nodes[position] for position in at]
        return int(at[fastest_among(nodes, scales.speedup[at], scales.margins[np.ix_(at, at)])])
    ties = at[speed >= speed.max() * (1 - TIE)]
    return int(ties[np.argmin(cost[ties])])


def choice_at(scales: Candidates, bills: Bills, at: int | None) -> Choice | None:
    """A position as a scale with its bill and its time."""
    if at is None:
        return None
    return Choice(
        nodes=scales.nodes[at],
        cost=float(bills.billed[at]),
        seconds=float(scales.seconds[at]),
        speedup=float(scales.speedup[at]),
    )


def frontier_of(scales: Candidates, cost: Floats, eligible: Sequence[int]) -> list[int]:
    """Positions of scales that no other beats in speed and cost at once, ascending."""
    kept, best = [], 0.0
    # nine digits of the cost: closer is a tie, which the faster one wins
    for at in sorted(eligible, key=lambda at: (float(f"{cost[at]:.9g}"), -scales.speedup[at])):
        if scales.speedup[at] > best * (1 + TIE):
            kept.append(at)
            best = float(scales.speedup[at])
    return sorted(kept)


def not_beaten(quantities: Sequence[Floats], eligible: Sequence[int]) -> list[int]:
    """Positions that no other beats in one quantity without being worse in another; less is better.

    >>> not_beaten([np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])], [0, 1, 2])
    [0, 1]
    """
    at = np.asarray(eligible, dtype=np.int64)
    values = np.stack([quantity[at] for quantity in quantities], axis=1)
    slack = TIE * np.abs(values)
    kept = []
    for position, row in zip(at, values, strict=True):
        no_worse = (values <= row + slack).all(axis=1)
        better = (values < row - slack).any(axis=1)
        if not (no_worse & better).any():
            kept.append(int(position))
    return kept
