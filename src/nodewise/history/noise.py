"""What a history of campaigns looks like while nothing changes: levels, scales, campaign effects.

All values are logarithms of times, so that a difference is a ratio and no unit matters. A table has
one row per campaign and one column per series (one test at one node count). Missing values are NaN.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nodewise.base.stats import Floats

FREEDOM = 4.0  # of Student's t: timings and whole campaigns have far outliers
WINDOW = 11  # campaigns whose median is the level: long against outliers, short against drift
_LEAST_LEVEL = 2  # campaigns that make a level
_LEAST_KNOWN = 2  # deviations from it that make a scale
LEAST_PAST = _LEAST_LEVEL + _LEAST_KNOWN  # campaigns from which noise can be learnt
_MEDIAN_VARIANCE = np.pi / 2  # of a median, times that of a mean
_BORROWED = 3.0  # campaigns' worth of weight of the scale that all series share
_LEAST_SCALE = 0.003  # relative; clocks and job starts vary so much on any machine
_LEAST_EFFECT = 0.002  # of a campaign, relative, on any machine
_FEW = 3.0  # campaigns too few to know a scale; a short past makes it wider
_DOUBTED = 0.5  # standard errors of the variance of campaign effects that are added to it
_ROUNDS = 12  # of re-weighting; scales have converged to 1 % by then


class Noise(NamedTuple):
    """The past of every series, as the campaigns before the newest ones show it."""

    level: Floats  # of each series
    scale: Floats  # of one campaign's deviation from the level, for each series
    effects: Floats  # scale of the effect of one campaign on each group of series


def log_times(repeats: Floats) -> Floats:
    """One value a point: the middle of its repeats where they agree, near the fastest elsewhere.

    `repeats` has a third axis, padded with NaN. What disturbs a run makes it slower. Repeats that
    differ by more than is usual in their series say that the slower ones were disturbed.
    """
    fastest = np.fmin.reduce(repeats, axis=2)
    middle = column_medians(repeats.reshape(-1, repeats.shape[2]).T).reshape(fastest.shape)
    above = middle - fastest
    return np.asarray(fastest + np.minimum(above, column_medians(above)))


def learn(values: Floats, groups: Floats) -> Noise | None:
    """The noise of a history; nothing if it is too short. `groups` has one column per group."""
    level, spread = _levels(values)
    off = (values - level[:-1]) / spread[:-1]
    counts = np.isfinite(off).sum(axis=0)
    if not (counts >= _LEAST_KNOWN).any():
        return None
    own = student_scale(off)
    shared = float(np.exp(np.median(np.log(own[counts > 1]))))
    own = np.where(counts > 1, own, shared)
    # few campaigns may lie too close or too far by chance; a series of its own kind stays so
    borrowed = np.minimum(shared, 3 * own)
    scale = np.sqrt((counts * own**2 + _BORROWED * borrowed**2) / (counts + _BORROWED))
    scale = np.maximum(scale, _LEAST_SCALE) * np.sqrt(1 + _FEW / (counts + _BORROWED))
    drift, effects = _campaign_effects(off * spread[:-1], scale, groups)
    return Noise(level[-1] + drift, scale * spread[-1], effects)


def _levels(values: Floats) -> tuple[Floats, Floats]:
    """The level before each campaign and after the last, and how much wider it makes deviations."""
    level, spread = np.full((2, len(values) + 1, values.shape[1]), np.nan)
    recent = np.full((WINDOW, values.shape[1]), np.nan)
    for at in range(len(level)):
        count = np.isfinite(recent).sum(axis=0)
        level[at] = np.where(count >= _LEAST_LEVEL, column_medians(recent), np.nan)
        spread[at] = np.sqrt(1 + _MEDIAN_VARIANCE / np.maximum(count, 1))
        if at < len(values):
            known = np.isfinite(values[at])
            recent[:-1, known], recent[-1, known] = recent[1:, known], values[at, known]
    return level, spread


def _campaign_effects(off: Floats, scale: Floats, groups: Floats) -> tuple[float, Floats]:
    """The usual distance of a campaign from the level before it, and what shifts each group.

    The first group is everything, the others are parts of it. A machine that becomes slower little
    by little is always above its level.
    """
    every, every_variance = _locations(off, scale, groups[:, :1])
    drift = float(column_medians(every)[0])
    parts, parts_variance = _locations(off - every, scale, groups[:, 1:])
    moved = np.concatenate([every - drift, parts], axis=1)
    counts = np.isfinite(moved).sum(axis=0)
    by_chance = np.concatenate([every_variance, parts_variance], axis=1)
    by_chance = column_medians(np.where(np.isfinite(moved), by_chance, np.nan))
    variance = np.nan_to_num(student_scale(moved)) ** 2
    beyond = np.maximum(variance - np.nan_to_num(by_chance), 0.0)
    beyond = beyond + _DOUBTED * variance * np.sqrt(2 / np.maximum(counts, 1))
    return drift, np.maximum(np.sqrt(beyond), _LEAST_EFFECT)


def _locations(off: Floats, scale: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Where each group lies in each campaign, robustly, and the variance of that by chance."""
    known = np.isfinite(off)
    value, precision = np.where(known, off, 0.0), known / scale**2
    near = np.clip(value, -2 * scale, 2 * scale)
    total = precision @ groups
    found = (precision * near) @ groups / np.maximum(total, 1e-12)
    for _ in range(_ROUNDS // 2):
        away = (value[:, :, None] - found[:, None, :]) / scale[None, :, None]
        weight = (precision[:, :, None] / (FREEDOM + away**2)) * groups[None]
        found = (weight * value[:, :, None]).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-12)
    return np.where(total > 0, found, np.nan), 1 / np.maximum(total, 1e-12)


def student_scale(off: Floats) -> Floats:
    """The scale of each column by the likelihood of Student's t around 0; 0 for an empty column."""
    known = np.isfinite(off)
    squares, count = np.where(known, off, 0.0) ** 2, np.maximum(known.sum(axis=0), 1)
    scale = squares.sum(axis=0) / count + 1e-10
    for _ in range(3 * _ROUNDS):
        weight = (FREEDOM + 1) / (FREEDOM + squares / scale)
        scale = (squares * weight).sum(axis=0) / count + 1e-10
    return np.asarray(np.sqrt(scale))


def column_medians(table: Floats) -> Floats:
    """The median of each column without NaN; NaN for an empty column."""
    ordered, count = np.sort(table, axis=0), np.isfinite(table).sum(axis=0)
    columns = np.arange(table.shape[1])
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(table) - 1)
    return np.asarray((ordered[low, columns] + ordered[high, columns]) / 2)


def weighted_medians(values: Floats, weights: Floats) -> Floats:
    """The median of the same values under each row of weights."""
    order = np.argsort(values)
    total = np.cumsum(weights[:, order], axis=1)
    return np.asarray(values[order][np.argmax(total >= total[:, -1:] / 2, axis=1)])


def table_of(points: Sequence[tuple[int, int, Sequence[float]]], shape: tuple[int, int]) -> Floats:
    """Logarithms of repeats, from (campaign, series, times); the third axis is padded with NaN."""
    most = max((len(times) for _, _, times in points), default=1)
    table = np.full((*shape, most), np.nan)
    for campaign, series, times in points:
        table[campaign, series, : len(times)] = np.log(times)
    return table
