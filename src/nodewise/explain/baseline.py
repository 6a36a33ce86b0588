"""Whether the base of a curve fits the rest of it: from plain numbers to what they show.

Every honest curve, strong or weak, obeys one inequality: the cost 1/E = k*T(k)/T0 of a unit of work
(T(k)/T0 where the job grows with k) starts at one and does not fall. Each test raises at most one
false alarm in twenty honest studies; benchmarks/audit.py counts them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Floats, quantiles, student_quantile
from nodewise.explain.laws import Growth, terms
from nodewise.study.spec import Regime

SUPERLINEAR = 1.02  # an efficiency above this is not a rounding error
FALSE_ALARMS = 0.05  # of honest studies, for each test
SINGLE_RUN_NOISE = 0.03  # relative, of a run whose spread is not known
LEAST_NOISE = 0.002  # no clock and no machine repeats better
MIN_INFLATION = 0.02  # relative; a smaller one is not worth an alarm
_MIN_OF_SINGLE_RUNS = 0.05  # the same where the noise is assumed, not measured
_MAX_MISFIT = 0.06  # a law that misses the points by more is not used to judge the base
_DRAWS = 400
_SEED = 7
_GROWTHS: tuple[Growth, ...] = ("none", "log2", "linear")


class Points(NamedTuple):
    """A curve as bare numbers, ascending in K."""

    nodes: Floats
    seconds: Floats  # of the same job (strong), or of the job that grows with K (weak)
    noise: Floats  # relative standard error of each, rounding included
    freedom: int  # degrees of freedom behind the noise; 0: assumed, not measured
    regime: Regime

    @property
    def k(self) -> Floats:
        """Nodes over the smallest scale."""
        return np.asarray(self.nodes / self.nodes[0])

    @property
    def cost(self) -> Floats:
        """Of a unit of work, in that of the smallest scale: 1/E."""
        grown = self.k if self.regime == "strong" else 1.0
        return np.asarray(grown * self.seconds / self.seconds[0])

    def reach(self, comparisons: int) -> float:
        """Standard errors beyond which one of several one-sided comparisons is not chance."""
        level = 1 - FALSE_ALARMS / max(comparisons, 1)
        return student_quantile(level, self.freedom if self.freedom else 1000)


class Detection(NamedTuple):
    """The result of a detector: yes, no or undecided, and the size of the effect."""

    seen: bool | None
    evidence: str
    size: float | None = None
    low: float | None = None
    high: float | None = None


def points_of(
    nodes: Sequence[int],
    samples: Sequence[Floats],
    regime: Regime,
    rounding: Floats | None = None,
    spreads: Floats | None = None,
) -> Points:
    """The centres of repeated seconds, with their noise.

    Repeats of all scales share one relative spread: few at each, many together. `spreads` are
    relative standard errors that are stated; without either, single runs are assumed to be
    three percent off. `rounding` is the relative half unit of the last digit.
    """
    seconds = np.array([float(np.mean(values)) for values in samples])
    counts = np.array([len(values) for values in samples])
    freedom = int((counts - 1).sum())
    squares = sum(
        float(np.sum((values / center - 1) ** 2))
        for values, center in zip(samples, seconds, strict=True)
    )
    if freedom >= 2 and squares > 0:  # equal repeats tell of no noise, but of a copy
        spread = max(math.sqrt(squares / freedom), LEAST_NOISE)
        noise = spread / np.sqrt(counts)
    elif spreads is not None:
        noise, freedom = np.maximum(spreads, LEAST_NOISE), 0
    else:
        noise, freedom = np.full(len(seconds), SINGLE_RUN_NOISE), 0
    if rounding is not None:
        noise = np.sqrt(noise**2 + rounding**2 / 3)
    return Points(np.array(nodes, dtype=np.float64), seconds, noise, freedom, regime)


def slow_baseline(points: Points) -> Detection:
    """The claimed base against what a law fitted to the other scales implies there.

    Three laws are fitted (what stays; and what grows with log2 K or with K), each with the noise of
    the points, or with its own misfit where that is larger. The base is called slow when every law
    that describes the others says so, and by more than the same laws err one scale further up.
    """
    if len(points.k) < 4:
        return _slow_by_bound(points)
    fits = _implied(points)
    if not fits:
        return _slow_by_bound(points)
    center = fits[0].ratio
    low, high = min(fit.low for fit in fits), max(fit.high for fit in fits)
    if len(points.k) >= 5:
        above = points._replace(
            nodes=points.nodes[1:], seconds=points.seconds[1:], noise=points.noise[1:]
        )
        # A law that also misses the next scale is wrong there, not the base.
        low /= max([1.0, *(fit.ratio for fit in _implied(above))])
    base = f"T({int(points.nodes[0])})"
    sure = f"(between {low:.2f} and {high:.2f})"
    if low > 1 + (MIN_INFLATION if points.freedom else _MIN_OF_SINGLE_RUNS):
        evidence = f"{base} is {center:.2g} times what the rest of the curve implies {sure}"
        return Detection(True, evidence, center, low, high)
    evidence = f"{base} is {center:.2f} times what the rest of the curve implies {sure}"
    return Detection(False, evidence, center, low, high)


class _Implied(NamedTuple):
    """The claimed base over the one that a law implies, with its bounds."""

    ratio: float
    low: float
    high: float


def _implied(points: Points) -> list[_Implied]:
    """What each law that describes the scales beyond the base says of it, the best law first."""
    seconds = points.seconds
    fits = []
    for growth in _GROWTHS:
        names: tuple[Growth, ...] = () if growth == "none" else (growth,)
        design = terms(points.k, points.regime, *names)[1:] / seconds[1:, None]
        solved = nonnegative_fit(design, np.ones(len(design)))
        missed = 1 - design @ solved
        free = max(len(missed) - int(np.count_nonzero(solved)), 1)
        fits.append((math.sqrt(float(missed @ missed) / free), design, solved))
    fits.sort(key=lambda fit: fit[0])
    usual = float(np.mean(points.noise))
    if fits[0][0] > max(2 * usual, _MAX_MISFIT):
        return []
    shaken = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(seconds)))
    found = []
    for misfit, design, solved in fits:
        # Where one node would be faster than the next scale, the law knows of no scaling at all.
        hopeless = points.regime == "strong" and solved[0] < seconds[1]
        if misfit > 2 * max(fits[0][0], usual) or hopeless:
            continue
        draws = 1 + np.maximum(points.noise, misfit) * shaken
        # Of the terms of a law only the first, what shrinks, is left at k = 1.
        implied = nonnegative_fit(design, draws[:, 1:])[:, 0]
        ratios = seconds[0] * (1 + points.noise[0] * shaken[:, 0]) / np.maximum(implied, 1e-12)
        low, high = quantiles(ratios, [FALSE_ALARMS / 2, 1 - FALSE_ALARMS / 2])
        found.append(
            _Implied(float(seconds[0]) / max(float(solved[0]), 1e-12), float(low), float(high))
        )
    return found


def _slow_by_bound(points: Points) -> Detection:
    """With too few scales for a law: the base cannot cost more than any other scale does."""
    above = superlinear(points)
    base = f"T({int(points.nodes[0])})"
    if above.seen and not points.freedom and len(_above_one(points)) < 2 < len(points.k):
        evidence = f"single runs: one scale costs less than {base}, and no other one confirms it"
        return Detection(None, evidence)
    if above.seen:
        assert above.size is not None
        evidence = (
            f"{base} is at least {above.size:.2f} times too long: "
            "a larger scale costs less per unit of work"
        )
        return Detection(True, evidence, above.size, above.low, None)
    if len(points.k) < 3:
        return Detection(None, "two scales imply nothing about the base")
    if len(points.k) < 4:
        return Detection(None, f"three scales beyond {base} are needed to fit a law to")
    return Detection(None, f"no law describes the scales beyond {base}")


def superlinear(points: Points) -> Detection:
    """Scales that are faster than ideal, beyond their noise."""
    efficiency, low = 1 / points.cost, _least_efficiency(points)
    found = _above_one(points)
    if not found:
        most = int(np.argmax(efficiency[1:])) + 1
        evidence = f"the largest efficiency is {efficiency[most]:.3f}, at K={points.nodes[most]:g}"
        return Detection(False, evidence, float(efficiency[most]))
    most = max(found, key=lambda at: float(efficiency[at]))
    where = ", ".join(f"{points.nodes[at]:g}" for at in found)
    evidence = f"E = {efficiency[most]:.2f} at K={points.nodes[most]:g}; above one at K={where}"
    return Detection(True, evidence, float(efficiency[most]), float(low[most]))


def _least_efficiency(points: Points) -> Floats:
    """The efficiency at each scale, less what its noise may add."""
    error = np.sqrt(points.noise**2 + points.noise[0] ** 2)
    return np.asarray((1 - points.reach(len(points.k) - 1) * error) / points.cost)


def _above_one(points: Points) -> list[int]:
    """The positions of the scales whose efficiency is above one beyond its noise."""
    low = _least_efficiency(points)
    return [at for at in range(1, len(low)) if low[at] > 1 and 1 / points.cost[at] > SUPERLINEAR]
