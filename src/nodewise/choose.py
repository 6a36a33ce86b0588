"""Which scales may be chosen, and which of them is the cheapest or the fastest."""

from collections.abc import Sequence

import msgspec

from nodewise.candidates import Candidates, Needs
from nodewise.prices import Bills, Price
from nodewise.stats import Floats
from nodewise.units import format_duration, format_money, format_percent

_ROUNDING = 1e-12  # 0.871 - 0.866 is a hair above 0.005 in binary
TIE = 1e-9  # relative; closer than this is rounding, not a difference


class Choice(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """A scale with what it costs and takes."""

    nodes: int
    cost: float
    seconds: float
    speedup: float


def harm(scales: Candidates, needs: Needs, at: int) -> float | None:
    """The drift of the quality from the smallest scale, where it is one too many."""
    assert scales.quality is not None
    drift = float(scales.quality[at] - scales.quality[0])
    harmful = {"same": abs(drift), "higher": -drift, "lower": drift}[needs.quality_better]
    return drift if harmful > needs.quality_tolerance + _ROUNDING else None


def exclusions(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> list[str | None]:
    """Why each scale may not be chosen, or nothing."""
    reasons: list[str | None] = []
    for at in range(len(scales.nodes)):
        reason = None
        drift = harm(scales, needs, at) if scales.quality is not None else None
        if drift is not None:
            reason = f"its quality drifts by {drift:+.3g}, tolerance {needs.quality_tolerance:g}"
        if reason is None and needs.deadline_seconds is not None:
            reason = _lateness(scales, price, needs, at)
        if reason is None and needs.budget is not None and bills.billed[at] > needs.budget:
            reason = (
                f"it costs more than the budget of {format_money(needs.budget, price.currency)}"
            )
        reasons.append(reason)
    return reasons


def _lateness(scales: Candidates, price: Price, needs: Needs, at: int) -> str | None:
    assert needs.deadline_seconds is not None
    deadline = f"the deadline of {format_duration(needs.deadline_seconds)}"
    if scales.in_time is None:
        # rounding of T1*(s + ...) must not decide against a scale that just meets it
        late = scales.seconds[at] + price.startup_seconds > needs.deadline_seconds * (1 + _ROUNDING)
        return f"it misses {deadline}" if late else None
    share = float(scales.in_time[at])
    if share >= needs.deadline_confidence:
        return None
    return f"it meets {deadline} in fewer than {format_percent(needs.deadline_confidence)} of runs"


def cheapest_of(scales: Candidates, cost: Floats, ladder: Sequence[int]) -> int | None:
    """The position of the least cost; of equal ones the fastest."""
    if not ladder:
        return None
    least = min(cost[at] for at in ladder) * (1 + TIE)
    return max((at for at in ladder if cost[at] <= least), key=lambda at: scales.speedup[at])


def fastest_of(scales: Candidates, cost: Floats, ladder: Sequence[int]) -> int | None:
    """The position of the highest speed; of equal ones the cheapest."""
    if not ladder:
        return None
    most = max(scales.speedup[at] for at in ladder) * (1 - TIE)
    return min((at for at in ladder if scales.speedup[at] >= most), key=lambda at: cost[at])


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
