"""Detectors of inflated curves: from plain numbers to what they show.

Every honest curve, strong or weak, obeys one inequality: the cost 1/E = k*T(k)/T0 of a unit of work
(T(k)/T0 where the job grows with k) starts at one and does not fall. So a detector is a test of
that cost, or of the digits, and each is set to raise at most one false alarm in twenty honest
studies; benchmarks/audit.py counts them, and how often each finds a planted defect.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from nodewise.base.stats import Floats, normal_share_below
from nodewise.base.units import format_percent
from nodewise.explain.baseline import FALSE_ALARMS, LEAST_NOISE, MIN_INFLATION, Detection, Points
from nodewise.study.spec import Regime

_STRAIGHT = 0.01  # efficiency within this of one at every scale
_STRAIGHT_UP_TO = 8  # fewer scales are always nearly straight
_MOST_DECIMALS = 12
_SLIP = 0.01  # relative: made from times with more digits than the table shows
_OTHER_BASE = 0.02  # relative, of ratios over a base that is not in the table
_CUT = 2.0  # halves of the last digit: a figure that was cut, not rounded
_FALLS_BACK = 1.5  # times that the serial share must shrink before a curve has bent back

Summary = Literal["ratio of means", "mean of ratios", "best of the repeats"]


def too_straight(points: Points) -> Detection:
    """No visible bend: efficiency within 1 % of one, over scales that span a factor of 8."""
    k = points.k
    if len(k) < 3 or k[-1] < _STRAIGHT_UP_TO:
        return Detection(
            None, f"the scales span only a factor of {k[-1]:g}; efficiency may fall beyond"
        )
    away = float(np.max(np.abs(1 / points.cost - 1)))
    if away <= _STRAIGHT:
        evidence = (
            f"no bend at all up to K={points.nodes[-1]:g}: efficiency is within "
            f"{format_percent(max(away, 0.001))} of one at every scale"
        )
        return Detection(True, evidence, away)
    return Detection(False, f"efficiency departs from one by up to {format_percent(away)}", away)


def bends_back(points: Points) -> Detection:
    """A curve whose cost falls again: the job shrank, or began to grow with K.

    Either a unit of work costs less than at a smaller scale beyond the base, or (strong) the share
    that does not split, having held or risen, falls. Of single runs one scale may be off, at the
    edge of a node or by a split that does not divide: there the next or the one before must agree.
    """
    nodes, cost, noise = points.nodes, points.cost, points.noise
    size = len(nodes)
    if size < 4:
        return Detection(None, "four scales are needed to see a switch")
    reach = points.reach((size - 1) * (size - 2) // 2)
    for at in range(2, size):
        before = _dearer_before(points, at)
        if before is None:
            continue
        fall = float(cost[before] / cost[at] - 1)
        if fall > max(reach * math.hypot(noise[before], noise[at]), MIN_INFLATION):
            evidence = (
                f"a unit of work costs {format_percent(fall / (1 + fall))} less at "
                f"K={nodes[at]:g} than at K={nodes[before]:g}: was it the same job?"
            )
            return Detection(True, evidence, fall)
    return _share_falls(points, reach)


def _dearer_before(points: Points, at: int) -> int | None:
    """The scale that a later one is compared with; a neighbour must confirm a single run."""
    cost = points.cost
    if points.freedom:
        return 1 + int(np.argmax(cost[1:at]))
    if at < 3:
        return None
    before = at - 2 + int(np.argmin(cost[at - 2 : at]))
    stays = at == len(cost) - 1 or cost[at + 1] < cost[before]
    return before if stays else None


def _share_falls(points: Points, reach: float) -> Detection:
    """The share that does not split, after Karp and Flatt: it never falls in an honest curve."""
    nodes, cost, noise = points.nodes, points.cost, points.noise
    never = Detection(False, "the cost of a unit of work never falls with K")
    if points.regime != "strong" or len(nodes) < 5:
        return never
    share = (cost[1:] - 1) / (points.k[1:] - 1)
    errors = cost[1:] * np.sqrt(noise[1:] ** 2 + noise[0] ** 2) / (points.k[1:] - 1)
    inner = share[1:-1]
    most = 1 + int(np.flatnonzero(inner >= inner.max() - 0.05 * abs(inner.max()))[-1])
    later = share[most + 1 :]
    held = share[0] <= 1.02 * share[most] and 0 < share[most] <= 1
    falls = share[most] - later > reach * np.hypot(errors[most], errors[most + 1 :])
    falls &= later < share[most] / _FALLS_BACK
    needed = 1 if points.freedom else 2
    if not held or len(later) < needed or not np.all(falls[-needed:]):
        return never
    evidence = (
        f"the serial share first rises, and then falls from {share[most]:.4f} at "
        f"K={nodes[most + 1]:g} to {later[0]:.4f} at K={nodes[most + 2]:g}"
    )
    return Detection(True, evidence, float(share[most] / max(share[-1], 1e-6)))


def column_mismatch(
    nodes: Sequence[int],
    measured: Sequence[tuple[float, float]] | None,
    speedup: Sequence[tuple[float, float]] | None,
    efficiency: Sequence[tuple[float, float]] | None,
    regime: Regime,
    is_rate: bool = False,
) -> Detection:
    """Speedup and efficiency as written against what the times, rates or speedups give.

    Each figure comes with half a unit of its last digit, and a column is wrong only where no
    numbers that round, or are cut, to the written ones would agree. A constant factor between
    them is another base, not a mistake.
    """
    k = [count / nodes[0] for count in nodes]
    problems: list[tuple[float, str, float, float]] = []
    bases: list[float] = []
    right = None
    if measured is not None:
        right = [_ratio(measured[0], one, is_rate) for one in measured]
        if regime == "weak" and not is_rate:
            right = [_times(bounds, grown) for bounds, grown in zip(right, k, strict=True)]
    if right is not None and speedup is not None:
        problems += _apart_from(right, speedup, [f"S({count})" for count in nodes], bases)
    if efficiency is not None and (right is not None or speedup is not None):
        whole = right or [_bounds(one) for one in speedup or ()]
        shares = [_times(bounds, 1 / grown) for bounds, grown in zip(whole, k, strict=True)]
        problems += _apart_from(shares, efficiency, [f"E({count})" for count in nodes], bases)
    if problems:
        off, name, given, follows = max(problems)
        more = "" if len(problems) == 1 else f"; {len(problems)} figures do not agree"
        evidence = f"{name} is stated as {given:g}, and the times give {follows:.4g}{more}"
        return Detection(True, evidence, math.exp(off))
    if bases:
        return Detection(
            False, f"the ratios fit the figures relative to another base ({bases[0]:.3g})"
        )
    return Detection(False, "the columns agree with each other to the last digit")


def _ratio(
    base: tuple[float, float], one: tuple[float, float], is_rate: bool
) -> tuple[float, float]:
    pair = (_bounds(one), _bounds(base)) if is_rate else (_bounds(base), _bounds(one))
    return _quotient(*pair)


def _times(bounds: tuple[float, float], factor: float) -> tuple[float, float]:
    return bounds[0] * factor, bounds[1] * factor


def _apart_from(
    right: Sequence[tuple[float, float]],
    written: Sequence[tuple[float, float]],
    names: Sequence[str],
    bases: list[float],
) -> list[tuple[float, str, float, float]]:
    """The written figures that do not follow; a factor that all of them share goes to `bases`."""
    middles = [(low + high) / 2 for low, high in right]
    factors = [one[0] / middle for one, middle in zip(written, middles, strict=True) if middle > 0]
    shared = sorted(factors)[len(factors) // 2] if len(factors) == len(right) else 1.0

    def apart(factor: float, slack: float = 0.0) -> list[tuple[float, str, float, float]]:
        return [
            (_apart(one[0], middle * factor), name, one[0], middle * factor)
            for name, one, middle, bounds in zip(names, written, middles, right, strict=True)
            if not _overlap(_times(bounds, factor), _bounds(one, _CUT))
            and abs(one[0] - middle * factor) > max(slack, _SLIP) * one[0]
        ]

    as_is = apart(1.0)
    if not as_is or apart(shared, _OTHER_BASE):
        return as_is
    bases.append(shared)
    return []


def _apart(given: float, right: float) -> float:
    """The logarithm of the ratio of two ratios; zero counts as infinitely far."""
    return abs(math.log(max(given, 1e-12) / max(right, 1e-12)))


def _bounds(figure: tuple[float, float], cut: float = 1.0) -> tuple[float, float]:
    value, half = figure
    slack = 1.001 * cut * half + 1e-9 * abs(value)
    return value - slack, value + slack


def _quotient(above: tuple[float, float], below: tuple[float, float]) -> tuple[float, float]:
    return above[0] / below[1], above[1] / below[0] if below[0] > 0 else math.inf


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def summary_used(
    samples: Sequence[Floats], speedup: Sequence[tuple[float, float]], regime: Regime, k: Floats
) -> Summary | None:
    """How claimed speedups were made out of repeats, where only one way gives them.

    The ratio of means is tried first, then that of medians: if they give every figure, the
    column is in order.
    """
    grown = k if regime == "weak" else np.ones_like(k)
    paired = len({len(values) for values in samples}) == 1
    means = np.array([values.mean() for values in samples])
    medians = np.array([np.median(values) for values in samples])
    least = np.array([values.min() for values in samples])
    honest = [means[0] / means, medians[0] / medians]
    ways: list[tuple[Summary, Floats]] = [("best of the repeats", least[0] / least)]
    ways += [("best of the repeats", center[0] / least) for center in (means, medians)]
    if paired:
        ratios = np.array([np.mean(samples[0] / values) for values in samples])
        ways.insert(0, ("mean of ratios", ratios))

    def gives(values: Floats) -> bool:
        return all(
            _overlap(_bounds((float(value), 0.0)), _bounds(figure))
            for value, figure in zip((grown * values)[1:], speedup[1:], strict=True)
        )

    if any(gives(values) for values in honest):
        return "ratio of means"
    return next((name for name, values in ways if gives(values)), None)


def averaged_ratios(column: Sequence[float], written: tuple[float, float]) -> Detection:
    """Whether the summary of a column of ratios is their arithmetic mean."""
    mean = sum(column) / len(column)
    geometric = math.exp(sum(math.log(value) for value in column) / len(column))
    low, high = _bounds(written)
    if low <= mean <= high and not low <= geometric <= high:
        evidence = (
            f"{written[0]:g} is the arithmetic mean of {len(column)} ratios; their geometric mean "
            f"is {geometric:.3g}"
        )
        return Detection(True, evidence, mean / geometric)
    return Detection(False, f"{written[0]:g} is not an arithmetic mean of ratios")


def idle_digits(figures: Sequence[tuple[float, float]], spreads: Sequence[float]) -> Detection:
    """Digits beyond the noise: the last one written is below a hundredth of the spread."""
    worst = max(
        (spread / (2 * half) for (_, half), spread in zip(figures, spreads, strict=True) if half),
        default=0.0,
    )
    if worst > 100:
        idle = int(math.log10(worst)) - 1
        digits = "a digit" if idle == 1 else f"{idle} digits"
        return Detection(True, f"{digits} more than the stated spread supports", worst)
    return Detection(False, "no digits beyond the stated spread", worst)


def identical_repeats(samples: Sequence[Floats]) -> Detection:
    """More equal repeats than their spread and their last digit allow, or one pattern copied.

    Two repeats are equal by chance with about unit / (2 * sqrt(pi) * spread); the number of such
    pairs is Poisson's.
    """
    unit = _last_digit(samples)
    expected, pairs = 0.0, 0
    for values in samples:
        count = len(values)
        if count < 2:
            continue
        steps = np.round(values / unit) if unit > 0 else values
        pairs += sum(times * (times - 1) // 2 for times in Counter(steps.tolist()).values())
        spread = max(float(np.std(values, ddof=1)), LEAST_NOISE * float(np.mean(values)))
        expected += count * (count - 1) / 2 * min(unit / (2 * math.sqrt(math.pi) * spread), 1.0)
    if all(len(values) < 2 for values in samples):
        return Detection(None, "no repeats are given")
    if pairs and _poisson_tail(pairs, expected) < FALSE_ALARMS / 5:
        evidence = f"{pairs} pairs of equal repeats, {expected:.1g} expected by chance"
        return Detection(True, evidence, float(pairs))
    copied = _copied(samples, unit)
    if copied is not None:
        evidence = "two scales repeat the same deviations, round by round, at another size"
        return Detection(True, evidence, copied)
    return Detection(False, "run-to-run variation looks natural", float(pairs))


def _last_digit(samples: Sequence[Floats]) -> float:
    """The unit of the last decimal that the values have, whether they were written or measured."""
    values = np.concatenate(samples)
    for decimals in range(_MOST_DECIMALS):
        if np.all(np.abs(np.round(values, decimals) - values) <= 1e-12 * values):
            return 10.0**-decimals
    return 0.0


def _copied(samples: Sequence[Floats], unit: float) -> float | None:
    """The correlation of two scales whose relative deviations are the same to the last digit."""
    for one in range(len(samples)):
        for other in range(one):
            first, second = samples[one], samples[other]
            if len(first) != len(second) or len(first) < 4:
                continue
            left, right = first / first.mean() - 1, second / second.mean() - 1
            slack = 1e-9 + 2 * unit / min(float(first.min()), float(second.min()))
            if float(np.max(np.abs(left))) > 4 * slack and np.all(np.abs(left - right) <= slack):
                return 1.0
    return None


def _poisson_tail(count: int, mean: float) -> float:
    """The chance of `count` or more."""
    if mean <= 0:
        return 0.0 if count else 1.0
    below = sum(math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)) for n in range(count))
    return max(1 - below, 0.0)


def missing_scales(nodes: Sequence[int]) -> Detection:
    """Holes in scales that are otherwise regular: doublings, or equal steps."""
    if len(nodes) < 4:
        return Detection(None, "too few scales to see a sequence")
    ratios = [above / below for below, above in pairwise(nodes)]
    steps = [float(above - below) for below, above in pairwise(nodes)]
    for gaps, fill in ((ratios, "times"), (steps, "plus")):
        usual, count = Counter(gaps).most_common(1)[0]
        if count == len(gaps):
            return Detection(False, "no scale is missing from the sequence", 0.0)
        if count < 0.6 * len(gaps) or (fill == "times" and usual < 1.5):
            continue
        holes: list[float] = []
        for below, gap in zip(nodes, gaps, strict=False):
            wide = math.log(gap) / math.log(usual) if fill == "times" else gap / usual
            if wide > 1.5 and abs(wide - round(wide)) < 0.01:
                holes += [
                    below * usual**n if fill == "times" else below + n * usual
                    for n in range(1, round(wide))
                ]
        if holes:
            named = ", ".join(f"{hole:g}" for hole in holes[:4])
            return Detection(True, f"the sequence leaves out K={named}", float(len(holes)))
    return Detection(False, "no scale is missing from a regular sequence", 0.0)


def dependent_repeats(samples: Sequence[Floats]) -> Detection:
    """Repeats that follow each other: lag-1 correlation over all scales, and what is left of n."""
    above = below = 0.0
    count = 0
    for values in samples:
        if len(values) < 4:
            continue
        away = values / values.mean() - 1
        above += float(away[1:] @ away[:-1])
        below += float(away @ away)
        count += len(values)
    if count < 12 or below == 0:
        return Detection(None, "too few repeats to test whether they are independent")
    # The deviations of n values from their own mean are correlated by -1/n.
    correlation = above / below + sum(len(v) >= 4 for v in samples) / count
    z = correlation * math.sqrt(count)
    rho = min(max(correlation, 0.0), 0.99)
    share = (1 - rho) / (1 + rho)
    if 1 - normal_share_below(z) < FALSE_ALARMS / 2 and share < 0.5:
        evidence = (
            f"repeats are correlated (lag-1 correlation {correlation:.2f}): {count} are worth "
            f"{count * share:.0f} independent ones"
        )
        return Detection(True, evidence, correlation)
    return Detection(False, f"lag-1 correlation of the repeats is {correlation:.2f}", correlation)
