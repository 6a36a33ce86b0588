"""Two studies side by side: before and after a fix, two clusters, two ways to run one job."""

from typing import Literal

import msgspec

from nodewise.base.errors import DataError
from nodewise.base.interval import Interval
from nodewise.base.stats import ENOUGH_ROUNDS, LEVEL, Center, ratio_interval
from nodewise.explain.scaling import Scaling, Timings, scale_timings, timings
from nodewise.study.spec import Regime
from nodewise.study.study import Study

# Of the second against the first: nothing is said of what chance alone could give.
Difference = Literal["faster", "slower", "not told apart", "unknown"]


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale of both: the second's seconds over the first's, and what that means."""

    nodes: int
    first_seconds: float
    second_seconds: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    first_speedup: float
    second_speedup: float
    first_efficiency: float
    second_efficiency: float
    second_is: Difference


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two studies of one regime at the scales that both have."""

    first: str
    second: str
    regime: Regime
    interval: str
    rows: tuple[ComparisonRow, ...]
    only_first: tuple[int, ...]  # scales that the other lacks
    only_second: tuple[int, ...]
    first_scaling: Scaling
    second_scaling: Scaling


def compare(first: Study, second: Study, threshold: float, center: Center = "mean") -> Comparison:
    """The second study against the first at every common scale.

    The studies were made at different times, so their rounds are not paired.
    """
    if first.regime != second.regime:
        raise DataError(
            f"{first.name} is {first.regime} scaling and {second.name} is {second.regime} scaling.",
            "Compare two studies of one regime.",
        )
    shared = [nodes for nodes in first.scales if nodes in second.scales]
    if not shared:
        raise DataError(
            f"{first.name} and {second.name} have no scale in common.",
            "Measure both at the same K.",
        )
    times = timings(first, center), timings(second, center)
    scalings = (
        scale_timings(first, times[0], threshold),
        scale_timings(second, times[1], threshold),
    )
    rounds = min(times[0].rounds, times[1].rounds)
    name = f"range of {rounds} rounds" if rounds > 1 else "none: single runs"
    return Comparison(
        first=first.name,
        second=second.name,
        regime=first.regime,
        interval="95 %, rounds not paired" if rounds >= ENOUGH_ROUNDS else name,
        rows=tuple(_row(times, scalings, nodes, len(shared)) for nodes in shared),
        only_first=tuple(nodes for nodes in first.scales if nodes not in shared),
        only_second=tuple(nodes for nodes in second.scales if nodes not in shared),
        first_scaling=scalings[0],
        second_scaling=scalings[1],
    )


def _row(
    times: tuple[Timings, Timings], scalings: tuple[Scaling, Scaling], nodes: int, compared: int
) -> ComparisonRow:
    first, second = scalings[0].row(nodes), scalings[1].row(nodes)
    bounds = _ratio(times, nodes, LEVEL)
    # One verdict for each scale, so each is asked to be surer.
    return ComparisonRow(
        nodes=nodes,
        first_seconds=first.seconds,
        second_seconds=second.seconds,
        ratio=second.seconds / first.seconds,
        ratio_low=bounds.low if bounds else None,
        ratio_high=bounds.high if bounds else None,
        first_speedup=first.speedup,
        second_speedup=second.speedup,
        first_efficiency=first.efficiency,
        second_efficiency=second.efficiency,
        second_is=_difference(times, nodes, 1 - (1 - LEVEL) / compared),
    )


def _ratio(times: tuple[Timings, Timings], nodes: int, level: float) -> Interval | None:
    """Bounds of the second's seconds over the first's; a range below six rounds."""
    first, second = (one.samples[one.nodes.index(nodes)] for one in times)
    fewest = min(len(first), len(second))
    if fewest < 2:
        return None
    if fewest < ENOUGH_ROUNDS:
        return Interval(float(second.min() / first.max()), float(second.max() / first.min()))
    return ratio_interval(second, first, paired=False, level=level)


def _difference(times: tuple[Timings, Timings], nodes: int, level: float) -> Difference:
    bounds = _ratio(times, nodes, level)
    if bounds is None or min(len(one.samples[one.nodes.index(nodes)]) for one in times) < (
        ENOUGH_ROUNDS
    ):
        return "unknown"
    return "faster" if bounds.high < 1 else "slower" if bounds.low > 1 else "not told apart"
