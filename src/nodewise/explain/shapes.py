"""Three shapes of a bend, by repeated timings alone. A shape describes; it names no cause.

    smooth   the loss grows steadily with K and repeats agree: communication or a serial part
    noisy    repeats disagree, with a fat band that leans upward: stragglers
    early    there at the smallest K, hardly growing after, and repeats agree: load imbalance

Two numbers decide. The band is the relative spread of the repeats beyond the base scale. The
exponent b is that of the overhead k*T/T0 - 1 ~ (k-1)^b: a serial part has b = 1, messages b >= 1,
one shard that is too large b near 0, because its share of the compute is the same at every K.
"""

from typing import Literal

import msgspec
import numpy as np

from nodewise.base.stats import Floats, median
from nodewise.base.units import format_percent
from nodewise.explain.scaling import Timings

FAT_BAND = 0.05  # three quarters of published repeats spread by less than 4 %
HELD_UP_LEAN = 0.2  # a held-up run pulls the mean above the median; plain noise does not
EARLY_EXPONENT = 0.6  # half-way between imbalance (0 to 0.4) and a serial part (1), rounded up
_LEAST_OVERHEAD = 0.05  # below this the bend is too small to have a shape
_FEWEST_ROUNDS = 3

ShapeName = Literal["smooth", "noisy", "early", "unclear"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of the bend, and the numbers that give it."""

    shape: ShapeName
    band: float
    lean: float
    exponent: float
    evidence: str


def growth_exponent(k: Floats, overhead: Floats) -> Floats:
    """The b of overhead ~ (k-1)^b over the scales above the base, for each row.

    >>> k = np.array([1.0, 2.0, 4.0, 8.0])
    >>> round(float(growth_exponent(k, 0.1 * (k - 1)[None, :])[0]), 6)
    1.0
    """
    x = np.log(k[1:] - 1)
    y = np.log(np.maximum(overhead[:, 1:], 1e-3))
    x = x - x.mean()
    return np.asarray((y * x).sum(axis=1) / (x * x).sum())


def shape_of(times: Timings) -> Shape | None:
    """The shape of the bend; nothing without repeats, three scales, or a loss to speak of."""
    fewest = min(len(samples) for samples in times.samples)
    if times.regime == "weak" or fewest < _FEWEST_ROUNDS or len(times.nodes) < 3:
        return None
    overhead = _overhead(times, times.seconds[None, :])
    if overhead[0, -1] < _LEAST_OVERHEAD:
        return None
    exponent = float(growth_exponent(times.k, overhead)[0])
    band, lean = _band_and_lean(times)
    spread = f"repeats spread by {format_percent(band)}"
    growth = f"the overhead grows as (k-1)^{exponent:.2f}"

    def shape(name: ShapeName, why: str) -> Shape:
        return Shape(shape=name, evidence=why, band=band, lean=lean, exponent=exponent)

    if band > FAT_BAND and lean > HELD_UP_LEAN:
        return shape("noisy", f"{spread}, most of it upward: some runs are held up")
    if band > FAT_BAND:
        hidden = f"{spread}, up and down alike: noise hides the shape; repeat on a quieter machine"
        return shape("unclear", hidden)
    if exponent < EARLY_EXPONENT:
        present = (
            f"{growth}: present at K={times.nodes[1]} already; {spread}, so more repeats would not "
            "remove it"
        )
        return shape("early", present)
    return shape("smooth", f"{growth}; {spread}")


def _band_and_lean(times: Timings) -> tuple[float, float]:
    """Relative spread, and how far the mean lies above the median in spreads, over the scales."""
    spreads, leans = [], []
    for samples in times.samples[1:]:
        mean = float(samples.mean())
        spread = max(float(samples.std(ddof=1)), 1e-12 * mean)
        spreads.append(spread / mean)
        leans.append((mean - float(median(samples))) / spread)
    return float(np.sqrt(np.mean(np.square(spreads)))), float(np.mean(leans))


def _overhead(times: Timings, seconds: Floats) -> Floats:
    return times.k * seconds / seconds[:, :1] - 1
