"""The textbook laws of scaling, fitted to seconds at several scales.

Every law is written for k = K / K0, where K0 is the smallest measured scale (1 if it was measured):

    strong   T(k) = T0 * (s + (1-s)/k + c*g(k))     s does not shrink, c grows
    weak     T(k) = T0 * (1 + c*g(k))               each node keeps its share

with g = 0 (Amdahl), g = k-1 (the Universal Scalability Law) or g = log2 k (a tree or ring of
messages). With s and c both free this is linear in T0, T0*s and T0*c, so that a non-negative linear
solve fits it. Gustafson's law for weak scaling, S = k - s*(k-1), has its own one-line fit.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import ENOUGH_ROUNDS, Floats, percentile_interval, student_quantile
from nodewise.base.units import format_percent
from nodewise.study.spec import Regime

Growth = Literal["none", "linear", "log2"]

_GROWTH: dict[Growth, Callable[[Floats], Floats]] = {
    "none": lambda k: np.zeros_like(k),
    "linear": lambda k: k - 1,
    "log2": np.log2,
}

LAW_ERROR = 0.003  # relative; no job follows a law more closely than this
_LEVEL = 0.95
_LEAST_BASE = 1e-3  # of the measured base
_CLEARLY_CLOSER = 0.5  # a fit with at most this share of the error of another is the better one
_MISFIT = 0.25  # a law that misses the points by more, root mean square, does not describe them


def growth_term(growth: Growth, k: Floats) -> Floats:
    """g(k), the part of a law that grows."""
    return _GROWTH[growth](k)


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """A law with its numbers: the seconds at any scale."""

    s: float = 0.0
    c: float = 0.0
    growth: Growth = "linear"
    regime: Regime = "strong"
    base_seconds: float = 1.0

    def seconds(self, k: Floats) -> Floats:
        """T at k = K / K0."""
        shrinking = self.s + (1 - self.s) / k if self.regime == "strong" else np.ones_like(k)
        return self.base_seconds * (shrinking + self.c * growth_term(self.growth, k))


class LawFit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fitted law: its parameters with intervals, and how far the points lie from it."""

    formula: str
    s: float | None = None  # share that does not shrink
    s_low: float | None = None
    s_high: float | None = None
    c: float | None = None  # share that grows with K
    c_low: float | None = None
    c_high: float | None = None
    base_seconds: float
    ceiling: float | None = None  # the largest speedup that the law allows
    ceiling_at: float | None = None  # k of the ceiling, if it is finite
    interval: str  # what the bounds are
    speedup: tuple[float, ...]  # by the law, at each scale
    holds: bool  # false: the points deviate too much
    residuals: tuple[float, ...]  # relative error at each scale
    rms: float  # root mean square of the residuals


class Laws(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All laws that the regime and the number of scales admit."""

    amdahl: LawFit | None = None
    universal: LawFit | None = None
    log2: LawFit | None = None
    gustafson: LawFit | None = None

    def nearest(self) -> tuple[Growth, LawFit] | None:
        """The law with a growing term that lies nearer to the points."""
        if self.universal is None or self.log2 is None:
            return None
        if self.log2.rms < self.universal.rms:
            return "log2", self.log2
        return "linear", self.universal


def parse_law(text: str, base_seconds: float = 1.0, regime: Regime = "strong") -> Law:
    """A law from `s=0.03,c=0.0015`, with `growth=log2` for the logarithmic variant.

    >>> parse_law("s=0.03,c=0.0015").c
    0.0015
    """
    fix = "Write for example --law s=0.03,c=0.0015 or --law s=0.03,c=0.01,growth=log2."
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key.strip() not in ("s", "c", "growth") or key.strip() in given:
            raise SpecError(f"'{part.strip()}' is not a part of a law.", fix)
        given[key.strip()] = value.strip()
    growth = given.pop("growth", "linear")
    if growth not in _GROWTH:
        raise SpecError(f"growth={growth} is unknown.", f"Write one of {', '.join(_GROWTH)}.")
    numbers: dict[str, float] = {}
    for key, value in given.items():
        try:
            numbers[key] = float(value)
        except ValueError:
            raise SpecError(f"{key}={value} is not a number.", fix) from None
        if not 0 <= numbers[key] <= 1:
            raise SpecError(f"{key}={value} lies outside 0 to 1.", fix)
    return Law(
        s=numbers.get("s", 0.0),
        c=numbers.get("c", 0.0),
        growth=growth,
        regime=regime,
        base_seconds=base_seconds,
    )


def karp_flatt(speedup: float, k: float) -> float:
    """Share of the work that did not split, by Karp and Flatt.

    (1/S - 1/k) / (1 - 1/k); if it grows with k, the loss is communication, not serial code.

    >>> round(karp_flatt(6.0, 8), 4)
    0.0476
    """
    return (1 / speedup - 1 / k) / (1 - 1 / k)


def amdahl_scale_at_efficiency(s: float, efficiency: float) -> float | None:
    """The k at which Amdahl's law brings the efficiency down to a value; nothing if it never does.

    >>> round(amdahl_scale_at_efficiency(0.03761224555012302, 0.5), 3)
    27.587
    """
    return (1 / efficiency - 1) / s + 1 if s > 0 else None


def fit_laws(
    k: Floats, seconds: Floats, draws: Floats | None, regime: Regime, rounds: int = 1
) -> Laws:
    """Every law that can be fitted to the centres, with intervals from their resamples."""
    grown = k if regime == "weak" else np.ones_like(k)
    fit_of = partial(_fit, seconds=seconds, draws=draws, rounds=rounds, grown=grown)

    def growing(growth: Growth) -> LawFit | None:
        if len(k) < 3:
            return None
        named = "c*(k-1)" if growth == "linear" else "c*log2(k)"
        formula = f"T0*(s + (1-s)/k + {named})" if regime == "strong" else f"T0*(1 + {named})"

        def fitted(base: float, s: float, c: float) -> Floats:
            serial = 0.0 if np.isnan(s) else s
            law = Law(s=serial, c=c, growth=growth, regime=regime, base_seconds=base)
            return law.seconds(k)

        fit = fit_of(formula, _growing(growth, k, seconds, regime), fitted)
        return _with_ceiling(fit, growth, seconds) if regime == "strong" else fit

    if regime == "weak":
        # Least squares on k - S = s * (k - 1), where S = k * T0 / T(k).
        gustafson = fit_of(
            "T0*k/(k - s*(k-1))",
            _one_parameter(k - 1, lambda times: k - k * times[:, :1] / times),
            lambda base, s, c: base * k / (k - s * (k - 1)),
        )
        return Laws(gustafson=gustafson, universal=growing("linear"), log2=growing("log2"))
    # Least squares on (1/S - 1/k) = s * (1 - 1/k), with the measured T0 as the base. Where that
    # misses the large scales, whose 1/S is small, least squares of relative errors.
    amdahl, relative = (
        fit_of(
            "T0*(s + (1-s)/k)",
            _one_parameter(weight * (1 - 1 / k), _lost_share(k, weight)),
            lambda base, s, c: base * (s + (1 - s) / k),
        )
        for weight in (np.ones_like(k), seconds[0] / seconds)
    )
    if relative.rms < _CLEARLY_CLOSER * amdahl.rms:
        amdahl = relative
    return Laws(
        amdahl=_with_ceiling(amdahl, "none", seconds),
        universal=growing("linear"),
        log2=growing("log2"),
    )


def cannot_tell(
    k: Floats, laws: Laws, regime: Regime, error: float = LAW_ERROR, freedom: int = 1000
) -> str:
    """One sentence on what these timings leave open; `error` is that of a time, relative."""
    if laws.universal is None or laws.log2 is None:
        return (
            f"Only {len(k)} scales: a part that does not shrink and a part that grows with K look "
            "the same; a third scale would begin to tell them apart."
        )
    if len(k) == 3 and min(laws.universal.rms, laws.log2.rms) < 1e-9:
        return (
            "Three scales fix three parameters exactly, so the fit has no residual to be judged "
            "by; a fourth scale is the first test of it."
        )
    largest = k[-1:] * 2
    linear = _law_of(laws.universal, "linear", regime).seconds(largest)
    log2 = _law_of(laws.log2, "log2", regime).seconds(largest)
    apart = abs(float(linear[0] / log2[0]) - 1)
    near, far = sorted((laws.universal.rms, laws.log2.rms))
    misfit = max(error**2, len(k) * near**2 / max(len(k) - 3, 1))
    same = len(k) * (far**2 - near**2) <= misfit * student_quantile(_LEVEL, freedom) ** 2
    if not (laws.universal.c or laws.log2.c):
        if not (laws.universal.s or laws.log2.s):
            return "All of the time shrinks with K at these scales: no speedup is lost yet."
        text = "No part of the time grows with K at these scales: the loss looks serial, "
        return text + "and a cost that begins at larger scales would not show."
    if same:
        return (
            "A cost that grows with K and one that grows with log2 K fit these scales about "
            f"equally well ({format_percent(laws.universal.rms)} and "
            f"{format_percent(laws.log2.rms)} off), yet at twice the largest scale they differ by "
            f"{format_percent(apart)}; one larger scale would decide."
        )
    ratio = far / max(near, 1e-9)
    closer = f"{ratio:.1f} times" if ratio < 100 else "over 100 times"
    better, worse = ("K", "log2 K") if laws.universal.rms < laws.log2.rms else ("log2 K", "K")
    return (
        f"A cost that grows with {better} fits {closer} closer than one that grows with "
        f"{worse}. Totals alone cannot tell serial work from one late rank, nor transfer from "
        "waiting: stage columns can."
    )


def _law_of(fit: LawFit, growth: Growth, regime: Regime) -> Law:
    return Law(
        s=fit.s or 0.0, c=fit.c or 0.0, growth=growth, regime=regime, base_seconds=fit.base_seconds
    )


# Times (one row per draw) and which scales to keep (1 or 0) give columns: base seconds, s, c.
# A parameter that the law does not have is nan.
_Solver = Callable[[Floats, Floats], Floats]


def _one_parameter(x: Floats, y_of: Callable[[Floats], Floats]) -> _Solver:
    """The s of y = s*x, held inside 0 to 1, where a share can lie; the measured T0 is the base."""

    def solve(times: Floats, keep: Floats) -> Floats:
        s = np.clip((y_of(times) * x * keep).sum(axis=1) / (x * x * keep).sum(), 0.0, 1.0)
        return np.stack([times[:, 0], s, np.full_like(s, np.nan)], axis=1)

    return solve


def _lost_share(k: Floats, weight: Floats) -> Callable[[Floats], Floats]:
    """1/S - 1/k of times, weighted: what a serial share is the slope of."""
    return lambda times: np.asarray(weight * (times / times[:, :1] - 1 / k))


def terms(k: Floats, regime: Regime, *growths: Growth) -> Floats:
    """The columns that a law is linear in: what shrinks, what stays (strong), what grows."""
    fixed = [1 / k, 1 - 1 / k] if regime == "strong" else [np.ones_like(k)]
    return np.stack([*fixed, *(growth_term(growth, k) for growth in growths)], axis=1)


def _growing(growth: Growth, k: Floats, seconds: Floats, regime: Regime) -> _Solver:
    """Non-negative least squares of relative residuals on T0, T0*s and T0*c."""
    columns = terms(k, regime, growth)

    def solve(times: Floats, keep: Floats) -> Floats:
        solved = nonnegative_fit(columns, times, keep / seconds)
        # Where time only rises with K nothing shrinks and T0 would be zero; s is then very large.
        base = np.maximum(solved[:, 0], _LEAST_BASE * seconds[0])
        s = solved[:, 1] / base if regime == "strong" else np.full_like(base, np.nan)
        return np.stack([base, s, solved[:, -1] / base], axis=1)

    return solve


def _fit(
    formula: str,
    solve: _Solver,
    fitted: Callable[[float, float, float], Floats],
    seconds: Floats,
    draws: Floats | None,
    rounds: int,
    grown: Floats,
) -> LawFit:
    """Parameters of the centres, their spread over the resamples, and the residuals."""
    base, s, c = (float(value) for value in solve(seconds[None, :], np.ones(len(seconds)))[0])
    spread, interval = _spread(solve, seconds, draws, rounds)
    s_low, s_high = _bounds(spread, 1, s, rounds)
    c_low, c_high = _bounds(spread, 2, c, rounds)
    law_seconds = fitted(base, s, c)
    residuals = 1 - law_seconds / seconds
    rms = float(np.sqrt(np.mean(residuals**2)))
    return LawFit(
        formula=formula,
        s=_known(s),
        s_low=s_low,
        s_high=s_high,
        c=_known(c),
        c_low=c_low,
        c_high=c_high,
        base_seconds=base,
        interval=interval,
        holds=rms <= _MISFIT,
        speedup=tuple(float(value) for value in grown * seconds[0] / law_seconds),
        residuals=tuple(float(value) for value in residuals),
        rms=rms,
    )


def _spread(
    solve: _Solver, seconds: Floats, draws: Floats | None, rounds: int
) -> tuple[Floats | None, str]:
    """Fits to resamples of the rounds; for single runs, fits that leave out one scale each."""
    everything = np.ones(len(seconds))
    if draws is not None:
        name = "95 %, resampled rounds"
        if rounds < ENOUGH_ROUNDS:
            name = f"resamples of {rounds} rounds: a range"
        return solve(draws, everything), name
    if len(seconds) < 4:
        return None, "none (single runs at too few scales)"
    left_out = []
    for position in range(1, len(seconds), max(1, len(seconds) // 64)):
        keep = everything.copy()
        keep[position] = 0
        left_out.append(solve(seconds[None, :], keep)[0])
    return np.array(left_out), "range when one scale is left out"


def _bounds(
    spread: Floats | None, column: int, center: float, rounds: int
) -> tuple[float | None, float | None]:
    if spread is None or np.isnan(center):
        return None, None
    values = spread[:, column]
    if rounds < 2:  # fits that leave out a scale each
        return float(values.min()), float(values.max())
    interval = percentile_interval(values, rounds)
    # A parameter held at zero in the centre can be free in most resamples.
    return min(interval.low, center), max(interval.high, center)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _with_ceiling(fit: LawFit, growth: Growth, seconds: Floats) -> LawFit:
    """The fit of a strong law, with the largest speedup it allows and the k where that is.

    Speedups are over the measured base, and no ceiling lies below one that was measured.
    """
    s, c = fit.s or 0.0, fit.c or 0.0
    base, reached = float(seconds[0]), float(seconds[0] / seconds.min())
    if c <= 0:
        ceiling = max(base / (fit.base_seconds * s), reached) if s > 0 else None
        return msgspec.structs.replace(fit, ceiling=ceiling)
    # d/dk of (1-s)/k + c*g(k) is zero
    turn = max(1 - s, 0.0) / c
    at = max(turn**0.5 if growth == "linear" else turn * float(np.log(2)), 1.0)
    law = _law_of(fit, growth, "strong")
    ceiling = max(base / float(law.seconds(np.array([at]))[0]), reached)
    return msgspec.structs.replace(fit, ceiling=ceiling, ceiling_at=at)
