"""Whether the quality of a job drifts with K by more than a tolerance, beyond its noise."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.interval import LEVEL
from nodewise.base.stats import (
    SEED,
    Floats,
    normal_share_below,
    student_quantile,
    student_share_below,
)
from nodewise.study.study import Study

DriftState = Literal["held", "excluded", "undecided"]
Better = Literal["same", "higher", "lower"]

_ROUNDING = 1e-12  # 0.871 - 0.866 is a hair above 0.005 in binary
_MOST_ROUNDS = 1000


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of a scale less that of the smallest; bounds hold for all scales together."""

    value: float
    low: float
    high: float
    spread: float = 0.0  # of the drift in one round; 0 for single runs
    rounds: int = 1
    level: float = LEVEL  # of the bounds of this scale
    freedom: int = 0  # degrees of freedom of the spread

    @property
    def error(self) -> float:
        """The standard error of the value."""
        return self.spread / math.sqrt(self.rounds)

    def probability_held(self, tolerance: float, better: Better) -> float:
        """How likely the drift does no harm."""
        least, most = _allowed(tolerance, better)
        if self.error == 0:
            return float(least <= self.value <= most)
        low, high = ((end - self.value) / self.error for end in (least, most))
        if not self.freedom:
            return normal_share_below(high) - normal_share_below(low)
        return student_share_below(high, self.freedom) - student_share_below(low, self.freedom)

    def state(self, tolerance: float, better: Better) -> DriftState:
        """Held or excluded where the bounds lie within or outside the tolerance."""
        least, most = _allowed(tolerance, better)
        if self.low > most or self.high < least:
            return "excluded"
        return "held" if least <= self.low and self.high <= most else "undecided"

    def rounds_to_decide(self, tolerance: float, better: Better) -> int | None:
        """How many rounds of this spread would decide; None: more than a study can have."""
        gap = min(abs(self.value - end) for end in _allowed(tolerance, better))
        for rounds in range(self.rounds + 1, _MOST_ROUNDS + 1):
            reach = student_quantile((1 + self.level) / 2, rounds - 1)
            if reach * self.spread / math.sqrt(rounds) <= gap:
                return rounds
        return None


def _allowed(tolerance: float, better: Better) -> tuple[float, float]:
    """The drifts that do no harm."""
    least = -math.inf if better == "lower" else -tolerance - _ROUNDING
    return least, math.inf if better == "higher" else tolerance + _ROUNDING


def drawn_held(
    drifts: Sequence[Drift],
    tolerance: float,
    better: Better,
    draws: int,
    more_rounds: Sequence[int] = (),
) -> NDArray[np.bool_]:
    """Where the drifts that the rounds allow do no harm: one row per draw, one column per scale.

    By Student's t. All drifts share the noise of the first scale, which is half of their variance.
    With `more_rounds` of each scale: what those would leave open.
    """
    generator = np.random.default_rng([SEED, 2])
    added = more_rounds or [0] * len(drifts)
    noise = generator.standard_normal((draws, len(drifts)))
    least, most = _allowed(tolerance, better)
    columns = []
    for at, (drift, more) in enumerate(zip(drifts, added, strict=True)):
        first, own = (math.sqrt(drift.rounds / (drift.rounds + m) / 2) for m in (added[0], more))
        off = drift.error * (own * noise[:, at] - first * noise[:, 0])
        if drift.freedom:
            # the same generator for all: scales of as many rounds share one draw of their spread
            degrees = drift.freedom + min(added[0], more)
            squares = np.random.default_rng([SEED, 3]).chisquare(degrees, draws)
            off *= np.sqrt(degrees / squares)
        columns.append((least <= drift.value + off) & (drift.value + off <= most))
    return np.stack(columns, axis=1)


def quality_drifts(study: Study) -> tuple[Drift, ...] | None:
    """The drift of every scale; None unless every run has its quality.

    The bounds are Student's t over the rounds that a scale shares with the smallest one, or, where
    their rounds differ, by the spread that all scales have in common. Each scale is one comparison,
    so each is asked to be surer than 95 %. Single runs have no bounds: their figures decide.
    """
    runs = [study.at(nodes) for nodes in study.scales]
    if any(run.quality is None for some in runs for run in some):
        return None
    values = [np.array([run.quality for run in some], dtype=np.float64) for some in runs]
    rounds = [tuple(run.round for run in some) for some in runs]
    level = 1 - (1 - LEVEL) / max(len(runs) - 1, 1)
    drifts = [Drift(value=0.0, low=0.0, high=0.0)]
    for at in range(1, len(runs)):
        same = rounds[at] == rounds[0]
        drifts.append(_drift(values, at, level, paired=same))
    return tuple(drifts)


def _drift(values: list[Floats], at: int, level: float, paired: bool) -> Drift:
    base, here = values[0], values[at]
    value = float(here.mean() - base.mean())
    rounds = min(len(base), len(here))
    if paired and rounds > 1:
        freedom, error = rounds - 1, float(np.std(here - base, ddof=1)) / math.sqrt(rounds)
    else:
        freedom = sum(len(some) - 1 for some in values)
        squares = sum(float(np.sum((some - some.mean()) ** 2)) for some in values)
        pooled = math.sqrt(squares / freedom) if freedom else 0.0
        error = pooled * math.sqrt(1 / len(base) + 1 / len(here))
    reach = student_quantile((1 + level) / 2, freedom) * error if error else 0.0
    return Drift(
        value=value,
        low=value - reach,
        high=value + reach,
        spread=error * math.sqrt(rounds),
        rounds=rounds,
        level=level,
        freedom=freedom if error else 0,
    )
