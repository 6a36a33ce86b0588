"""Whether the quality of a job drifts with K by more than a tolerance, beyond its noise."""

import math
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL
from nodewise.base.stats import Floats, student_quantile
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
    )
