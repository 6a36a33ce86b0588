"""The laws that continue timings to scales that were not run.

All of them work on y = ln(seconds for a unit of work) over x = ln K: ideal scaling is a slope of -1
in both regimes, a change of units only shifts y, and a throughput is a time with its sign turned.

    amdahl      1/k, 1               what does not shrink
    universal   1/k, 1, k            and what grows with K: the Universal Scalability Law
    log2        1/k, 1, log2 k       and what grows with the depth of a tree of messages;
                1/k, log2(k)/k       for weak scaling, where the job takes T0*(1 + c*log2 k)
    drift       the local exponent goes from -1 to 0 (a plateau) or to +1 (each node costs), early
                or late, gently or sharply, and wanders on the way

The first three are non-negative fits of relative errors. Each is carried through the measured
points: what it misses there is added back, between the points in proportion and beyond them as at
the last one, because the largest measured scale says more about the next than any fit does. `drift`
is a mixture of Gaussian processes, each around one such passage of the exponent, weighted by how
well it predicted the points. Its constants are round figures on a plateau where others do as well;
weights learnt from published curves did not carry over to other families of codes.

Where the seconds of each stage are known, `stages` gives each its own law and adds them up:
compute and input/output shrink or stay, messages cost a transfer (1 - 1/K of the data) and a
latency (log2 K or K), serial work stays; waiting, which is what is left, shrinks or stays, and is
nothing if a node is alone.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Floats
from nodewise.study.spec import Regime

LawName = Literal["amdahl", "log2", "universal", "drift", "stages"]
PlainLaw = Literal["amdahl", "log2", "universal"]
PLAIN_LAWS: tuple[PlainLaw, ...] = get_args(PlainLaw)
Part = Literal["compute", "communication", "serial", "io", "waiting"]
Parts = dict[Part, Floats]  # seconds at each measured scale; they add up to the wall time

# A law of two terms cannot follow a curve that bends twice; the larger scales then count more.
_RECENCY_OF_TWO = 0.5

# The passages of the exponent: how far it rises (to a plateau, or to a time that grows with K), how
# sharply over ln K (1: Amdahl's), and where its middle lies from the largest measured scale.
_RISES = (1.0, 2.0)
_SHARPNESS = (0.5, 1.0, 2.0)
_MIDDLES = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
# What the points may do beside it, as standard deviations of y: noise of a point, steps that stay
# (a node or switch is crossed), and a wandering exponent, both for each factor e of K.
_NOISE = (0.005, 0.02, 0.08)
_STEPS = (0.001, 0.05, 0.2)
_WANDER = (0.02, 0.1, 0.4)
_TILT = 0.05  # of the exponent as a whole
_LEVEL = 5.0  # of y at the largest scale: anything
_NEGLIGIBLE = 3e-3  # weight of a component, next to the largest
_HALVINGS = 16


class Ladder(NamedTuple):
    """The measured points, ascending in K."""

    nodes: Floats
    y: Floats  # ln(seconds for a unit of work)
    noise: Floats  # relative standard error of each time
    regime: Regime

    @property
    def x(self) -> Floats:
        """ln K."""
        return np.log(self.nodes)


class PlainFit(NamedTuple):
    """A law of the linear kind, fitted to timings."""

    law: PlainLaw
    ladder: Ladder
    coefficients: Floats
    residuals: Floats  # of y at the measured points

    def raw(self, x: Floats) -> Floats:
        """ln T of the law alone."""
        k = np.exp(x - self.ladder.x[0])
        seconds = _terms(self.law, self.ladder.regime, k) @ self.coefficients
        # Nothing is faster than the ideal continuation by more than the fit could tell.
        return np.asarray(np.log(np.maximum(seconds, 1e-9 / k)) + self.ladder.y[0])

    def at(self, x: Floats) -> Floats:
        """ln T of the law, carried through the measured points."""
        return self.raw(x) + np.interp(x, self.ladder.x, self.residuals)

    @property
    def rms(self) -> float:
        """The root mean square of what the law alone misses."""
        return float(np.sqrt(np.mean(self.residuals**2)))


def fit_plain(law: PlainLaw, ladder: Ladder) -> PlainFit:
    """The non-negative fit of a law's terms to the relative errors."""
    k = np.exp(ladder.x - ladder.x[0])
    seconds = np.exp(ladder.y - ladder.y[0])
    terms = _terms(law, ladder.regime, k)
    weights = 1 / seconds
    if terms.shape[1] == 2:
        weights = weights * k**_RECENCY_OF_TWO
    solved = nonnegative_fit(terms, seconds, weights)
    fit = PlainFit(law, ladder, solved, np.zeros_like(k))
    return fit._replace(residuals=ladder.y - fit.raw(ladder.x))


def refit(law: PlainLaw, ladder: Ladder, y: Floats, weights: Floats, x: Floats) -> Floats:
    """Seconds for a unit of work at `x`, by the law fitted to other times: a row of `y` a fit."""
    first = ladder.x[0]
    terms = _terms(law, ladder.regime, np.exp(ladder.x - first))
    solved = nonnegative_fit(terms, np.exp(y), weights * np.exp(-ladder.y))
    return np.asarray(solved @ _terms(law, ladder.regime, np.exp(x - first)).T)


def parameters(law: PlainLaw, regime: Regime) -> int:
    """How many numbers a law is free to choose."""
    return int(_terms(law, regime, np.ones(1)).shape[1])


def _terms(law: PlainLaw, regime: Regime, k: Floats) -> Floats:
    one = np.ones_like(k)
    columns: dict[PlainLaw, list[Floats]] = {
        "amdahl": [1 / k, one],
        "universal": [1 / k, one, k - 1],
        "log2": [1 / k, one, np.log2(k)] if regime == "strong" else [1 / k, np.log2(k) / k],
    }
    return np.stack(columns[law], axis=1)


class StageFit(NamedTuple):
    """A law for each part of the wall time, added up."""

    ladder: Ladder
    coefficients: dict[Part, Floats]
    residuals: Floats

    def raw(self, x: Floats) -> Floats:
        """ln T of the laws alone."""
        seconds = np.sum(list(self._seconds(x).values()), axis=0)
        grown = x if self.ladder.regime == "weak" else 0.0
        return np.asarray(np.log(np.maximum(seconds, 1e-300)) - grown)

    def _seconds(self, x: Floats) -> Parts:
        nodes = np.exp(x)
        return {
            part: np.asarray(_part_terms(part, self.ladder.regime, nodes) @ coefficients)
            for part, coefficients in self.coefficients.items()
        }

    def parts(self, x: Floats) -> Parts:
        """Seconds of each part of a run; they add up to the answer."""
        carried = np.exp(np.interp(x, self.ladder.x, self.residuals))
        return {part: seconds * carried for part, seconds in self._seconds(x).items()}

    def at(self, x: Floats) -> Floats:
        """ln T of the laws, carried through the measured points."""
        return self.raw(x) + np.interp(x, self.ladder.x, self.residuals)


def fit_stages(ladder: Ladder, parts: Parts) -> StageFit:
    """Each part by its own non-negative law, in shares of the wall time."""
    nodes = ladder.nodes
    wall = np.sum(list(parts.values()), axis=0)
    coefficients: dict[Part, Floats] = {}
    for part, seconds in parts.items():
        terms = _part_terms(part, ladder.regime, nodes)
        # No more terms than scales that could tell them apart; the last ones grow the fastest.
        told = int(np.sum(np.any(terms > 0, axis=1)))
        solved = nonnegative_fit(terms[:, :told], seconds, 1 / wall)
        coefficients[part] = np.append(solved, np.zeros(terms.shape[1] - len(solved)))
    fit = StageFit(ladder, coefficients, np.zeros_like(nodes))
    return fit._replace(residuals=ladder.y - fit.raw(ladder.x))


def _part_terms(part: Part, regime: Regime, nodes: Floats) -> Floats:
    one, others = np.ones_like(nodes), 1 - 1 / nodes
    strong = regime == "strong"
    columns: dict[Part, list[Floats]] = {
        "compute": [1 / nodes, one] if strong else [one, np.log2(nodes)],
        "io": [1 / nodes, one] if strong else [one, nodes],
        "communication": [others, np.log2(nodes), nodes - 1],
        # what one node does for all grows with their number where the job does
        "serial": [one] if strong else [one, nodes],
        "waiting": [others / nodes, others] if strong else [others, np.log2(nodes)],
    }
    return np.stack(columns[part], axis=1)


def drift(ladder: Ladder, x: Floats) -> Floats:
    """ln T by the drifting exponent: the median of the mixture at each x."""
    everywhere = np.concatenate([ladder.x, x]) - ladder.x[-1]
    measured = len(ladder.x)
    shapes = _shapes(everywhere)
    missed = (ladder.y - ladder.y[-1]) - shapes[:, :measured]
    covariance = _covariances(everywhere)
    noise = np.repeat(_NOISE, len(_STEPS) * len(_WANDER))
    own = noise[:, None] ** 2 + ladder.noise**2
    inverse = np.linalg.inv(
        covariance[:, :measured, :measured] + own[:, :, None] * np.eye(measured)
    )
    gain = covariance[:, measured:, :measured] @ inverse
    evidence = 0.5 * np.linalg.slogdet(inverse)[1][:, None] - 0.5 * np.sum(
        (missed @ inverse) * missed, axis=2
    )
    means = shapes[:, measured:] + missed @ gain.transpose(0, 2, 1)
    ahead = covariance[:, measured:, measured:]
    known = np.sum(gain * covariance[:, measured:, :measured], axis=2)
    variances = np.diagonal(ahead, axis1=1, axis2=2) - known + noise[:, None] ** 2
    weights = np.exp(evidence - evidence.max())
    kept = weights > _NEGLIGIBLE
    kernels, _ = np.nonzero(kept)
    spreads = np.sqrt(np.maximum(variances, 1e-12))[kernels]
    return np.asarray(ladder.y[-1] + _mixture_median(weights[kept], means[kept], spreads))


def _shapes(x: Floats) -> Floats:
    """Each passage of the exponent from -1 upward, integrated from x = 0: a row a passage."""
    rise, sharpness, middle = (
        values.ravel()[:, None] for values in np.meshgrid(_RISES, _SHARPNESS, _MIDDLES)
    )
    risen = np.logaddexp(0, sharpness * (x - middle)) - np.logaddexp(0, -sharpness * middle)
    return np.asarray(-x + rise / sharpness * risen)


def _covariances(x: Floats) -> Floats:
    """One matrix for each pair of steps and wander (and noise, which is added elsewhere).

    Both walks start at the largest measured scale, x = 0, and go each way.
    """
    ahead, back = np.maximum(x, 0), np.maximum(-x, 0)
    steps = np.minimum.outer(ahead, ahead) + np.minimum.outer(back, back)
    wander = _integrated_walk(ahead) + _integrated_walk(back)
    shared = _LEVEL**2 + _TILT**2 * np.outer(x, x)
    one = [shared + s**2 * steps + w**2 * wander for s in _STEPS for w in _WANDER]
    return np.tile(np.array(one), (len(_NOISE), 1, 1))


def _integrated_walk(x: Floats) -> Floats:
    nearer, further = np.minimum.outer(x, x), np.maximum.outer(x, x)
    return np.asarray(nearer**2 * (3 * further - nearer) / 6)


def _mixture_median(weights: Floats, means: Floats, spreads: Floats) -> Floats:
    """The median of a mixture of normals, for each column, by halving."""
    # Single precision is three times as fast, and good to a ten-thousandth of a percent here.
    share = (weights / weights.sum()).astype(np.float32)
    centers, widths = means.astype(np.float32), spreads.astype(np.float32)
    low, high = centers.min(axis=0), centers.max(axis=0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        z = (middle - centers) / widths
        # twice the normal distribution function less one, right to 4e-4
        balance = share @ np.tanh(z * (np.float32(0.7988) + np.float32(0.03528) * z * z))
        low, high = np.where(balance < 0, middle, low), np.where(balance < 0, high, middle)
    return np.asarray((low + high) / 2, dtype=np.float64)
