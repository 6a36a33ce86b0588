"""What became slower in the newest campaign, at which tests and scales, since when, and how sure.

Every hypothesis says that one scope (every series, every scale from K on, one test, or one series)
is slower by one factor since one of the newest campaigns. Its rival says that nothing changed and
that the campaigns were disturbed: as a whole, at one scale, in one test or in single points, as far
as the past of the same history shows. Student's t makes room for far outliers. A disturbance comes
once and a regression stays, so two campaigns that agree say much more than one.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import Floats, student_quantile
from nodewise.history.noise import (
    FREEDOM,
    LEAST_PAST,
    Noise,
    column_medians,
    learn,
    log_times,
    table_of,
    weighted_medians,
)

Kind = Literal["base", "scaling", "test", "series"]

CHANGES = 0.08  # of campaigns bring a slowdown, before anything is measured
SURE = 0.5  # an alarm is more likely right than wrong
DOUBT = 0.1  # below it nothing is said
_NEWEST = 3  # campaigns in which a change may have begun
LEAST_CAMPAIGNS = _NEWEST + LEAST_PAST  # with fewer nothing can be said
_MEMORY = 40  # campaigns that are looked at; older ones ran another program
_WIDTH = 0.1  # half of all slowdowns are smaller, the others may be much larger
_ROUNDS = 12  # of re-weighting
_LEAST_SPREAD = 0.003  # of the past of a test, where it hardly varies
_MOST_SERIES = 100  # that are suspected one by one; the work grows with their square
_MOST_TESTS = 40  # that are suspected one by one; the work grows with their third power
_SHARES = {"base": 0.3, "scaling": 0.3, "test": 0.3, "series": 0.1}  # of the changes


class Point(msgspec.Struct, frozen=True):
    """One test at one node count in one campaign, with the times of its repeats."""

    test: str
    nodes: int
    times: tuple[float, ...]


class Campaign(msgspec.Struct, frozen=True):
    """All that was measured for one commit at one date."""

    date: str
    points: tuple[Point, ...]


class Alarm(msgspec.Struct, frozen=True):
    """A slowdown that the newest campaign shows, or makes likely."""

    kind: Kind
    test: str | None  # of the kinds test and series
    nodes_from: int | None  # of the kind scaling
    nodes: int | None  # of the kind series
    since: int  # the first slow campaign, as its place in the list
    ratio: float  # new time over old time
    ratio_interval: Interval  # 95 %
    probability: float  # that a slowdown is real
    kind_probability: float  # that it is of this kind and scope, if it is real
    confirmed: bool  # sure enough for an alarm
    repeated: bool  # the campaign before gave this alarm already
    measure_again: tuple[str, int] | None  # the test and node count that would tell most


class _Scope(NamedTuple):
    kind: Kind
    test: str | None
    nodes_from: int | None
    nodes: int | None
    covers: Floats  # 1 for each series in it
    share: float  # of all changes


class _Fit(NamedTuple):
    """What a hypothesis explains, one row per hypothesis; the first is that nothing changed."""

    size: Floats  # logarithm of the ratio
    error: Floats  # its standard error
    gain: Floats  # of log likelihood


def detect(campaigns: Sequence[Campaign]) -> list[Alarm]:
    """Alarms and doubts of the newest campaign, the likeliest only; empty most of the time.

    Campaigns are in order of time, of one machine, and need not have every point. Only slowdowns
    are reported.
    """
    alarm = _newest(campaigns)
    if alarm is None:
        return []
    before = _newest(campaigns[:-1]) if alarm.confirmed else None
    repeated = before is not None and before.confirmed and _alike(alarm, before)
    return [msgspec.structs.replace(alarm, repeated=repeated)]


def _alike(alarm: Alarm, before: Alarm) -> bool:
    """Whether an alarm says no more than the one before it."""
    scopes = [(one.kind, one.test, one.nodes_from, one.nodes) for one in (alarm, before)]
    now, then = np.log(alarm.ratio), np.log(before.ratio)
    return scopes[0] == scopes[1] and bool(then / 2 < now < 2 * then)


def _newest(campaigns: Sequence[Campaign]) -> Alarm | None:
    first = max(len(campaigns) - _MEMORY, 0)
    if len(campaigns) - first <= _NEWEST:
        return None
    kept = campaigns[first:]
    newest = [one for campaign in kept[-_NEWEST:] for one in campaign.points if one.times]
    series = sorted({(one.test, one.nodes) for one in newest})
    place = {key: at for at, key in enumerate(series)}
    points = [
        (at, place[one.test, one.nodes], one.times)
        for at, campaign in enumerate(kept)
        for one in campaign.points
        if one.times and (one.test, one.nodes) in place
    ]
    if not points:
        return None
    values = log_times(table_of(points, (len(kept), len(series))))
    suspects = _suspects(values, series)
    groups = _groups(series, suspects)
    noise = learn(values[:-_NEWEST], groups)
    if noise is None:
        return None
    off = values[-_NEWEST:] - noise.level
    if not np.isfinite(off[-1]).any():
        return None
    scopes = _scopes(series, suspects)
    starts, shifts, chosen = _hypotheses(scopes, np.isfinite(off))
    fit = _fit(off, noise, groups, shifts)
    slow = _slower(off, noise, shifts, fit.size)
    odds = np.array([scopes[at].share for at in chosen]) * CHANGES * slow * _evidence(fit)
    total = float(odds.sum())
    probability = total / (1 + total) if np.isfinite(total) else 1.0
    if probability < DOUBT:
        return None
    by_scope = np.bincount(chosen, odds, len(scopes))
    likeliest = int(np.argmax(by_scope))
    best = int(np.argmax(np.where(np.array(chosen) == likeliest, odds, -1.0)))
    scope = scopes[likeliest]
    size, error = float(fit.size[best]), float(fit.error[best])
    reach = student_quantile((1 + LEVEL) / 2, max(int(shifts[best].sum()) - 1, 1)) * error
    confirmed = probability >= SURE
    return Alarm(
        kind=scope.kind,
        test=scope.test,
        nodes_from=scope.nodes_from,
        nodes=scope.nodes,
        since=len(campaigns) - _NEWEST + starts[best],
        ratio=float(np.exp(size)),
        ratio_interval=Interval(float(np.exp(size - reach)), float(np.exp(size + reach))),
        probability=probability,
        kind_probability=float(by_scope[likeliest]) / total,
        confirmed=confirmed,
        repeated=False,
        measure_again=None if confirmed else series[_most_telling(noise, shifts, fit, odds)],
    )


def _suspects(values: Floats, series: list[tuple[str, int]]) -> list[str]:
    """The tests that are looked at one by one: all, or the slowest against their past."""
    tests = sorted({test for test, _ in series})
    if len(tests) <= _MOST_TESTS:
        return tests
    past = values[:-_NEWEST]
    level = column_medians(past)
    spread = column_medians(np.abs(past - level))
    above = (values[-1] - level) / (spread + _LEAST_SPREAD)
    named = np.array([test for test, _ in series])
    scores = [float(column_medians(above[named == test][:, None])[0]) for test in tests]
    order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")
    return sorted(tests[at] for at in order[:_MOST_TESTS])


def _groups(series: list[tuple[str, int]], suspects: list[str]) -> Floats:
    """What one campaign may disturb: a column for everything, for each scale and each suspect."""
    tests = np.array([test for test, _ in series])
    nodes = np.array([count for _, count in series])
    scales = [nodes == count for count in sorted(set(nodes.tolist()))]
    named = [tests == test for test in suspects]
    return np.stack([np.ones(len(series), bool), *scales, *named], axis=1).astype(np.float64)


def _scopes(series: list[tuple[str, int]], suspects: list[str]) -> list[_Scope]:
    tests, scales = sorted({test for test, _ in series}), sorted({count for _, count in series})
    covered = np.ones(len(series))
    scopes = [_Scope("base", None, None, None, covered, _SHARES["base"])]
    for least in scales[1:]:
        covered = np.array([float(count >= least) for _, count in series])
        share = _SHARES["scaling"] / (len(scales) - 1)
        scopes.append(_Scope("scaling", None, least, None, covered, share))
    for name in suspects if len(tests) > 1 else []:
        covered = np.array([float(test == name) for test, _ in series])
        scopes.append(_Scope("test", name, None, None, covered, _SHARES["test"] / len(tests)))
    for at, (name, count) in enumerate(series) if 1 < len(series) <= _MOST_SERIES else []:
        covered = np.eye(len(series))[at]
        share = _SHARES["series"] / len(series)
        scopes.append(_Scope("series", name, None, count, covered, share))
    return scopes


def _hypotheses(scopes: list[_Scope], known: Floats) -> tuple[list[int], Floats, list[int]]:
    """First slow campaign, points that are slow, and scope; no two with the same slow points."""
    found: dict[bytes, tuple[int, Floats, int]] = {}
    for at, scope in enumerate(scopes):
        for start in reversed(range(len(known))):
            slow = scope.covers * known * (np.arange(len(known)) >= start)[:, None]
            if slow[-1].any() and slow[start].any():
                found.setdefault(slow.tobytes(), (start, slow, at))
    starts, shifts, chosen = zip(*found.values(), strict=True)
    return list(starts), np.stack(shifts), list(chosen)


def _fit(off: Floats, noise: Noise, groups: Floats, shifts: Floats) -> _Fit:
    """The likeliest size of every hypothesis, with the disturbances that it needs beside it."""
    known = np.isfinite(off)
    value = np.where(known, off, 0.0)
    precision = known / noise.scale**2
    every = np.concatenate([np.zeros((1, *off.shape)), shifts])
    flat = (every * np.sqrt(precision)).reshape(len(every), -1)
    size = weighted_medians(value.ravel(), flat) * (np.arange(len(every)) > 0)
    moved = np.zeros((len(every), len(off), groups.shape[1]))  # by each disturbance
    products = (groups[:, :, None] * groups[:, None, :]).reshape(len(groups), -1)
    diagonal = np.arange(groups.shape[1])
    certain = np.ones(len(every))
    for _ in range(_ROUNDS):
        rest = value - every * size[:, None, None] - moved @ groups.T
        weight = precision * (FREEDOM + 1) / (FREEDOM + rest**2 * precision)
        matrix = (weight @ products).reshape(*moved.shape, -1)
        matrix[..., diagonal, diagonal] += (FREEDOM + 1) / (FREEDOM * noise.effects**2 + moved**2)
        slow = weight * every
        sides = np.stack([slow @ groups, (weight * value) @ groups], axis=-1)
        solved = np.linalg.solve(matrix, sides)
        # sizes with the disturbances eliminated
        certain = slow.sum(axis=(1, 2)) - (sides[..., 0] * solved[..., 0]).sum(axis=(1, 2))
        wanted = (slow * value).sum(axis=(1, 2)) - (sides[..., 0] * solved[..., 1]).sum(axis=(1, 2))
        size = np.where(certain > 0, wanted / np.where(certain > 0, certain, 1.0), 0.0)
        moved = solved[..., 1] - solved[..., 0] * size[:, None, None]
    rest = value - every * size[:, None, None] - moved @ groups.T
    likelihood = _log_student(rest**2 * precision)
    likelihood += _log_student((moved / noise.effects) ** 2)
    # Fisher's information of Student's t; the weights alone promise more
    error = np.sqrt((FREEDOM + 3) / (FREEDOM + 1) / np.maximum(certain[1:], 1e-9))
    return _Fit(size[1:], error, likelihood[1:] - likelihood[0])


def _log_student(squares: Floats) -> Floats:
    return np.asarray(-(FREEDOM + 1) / 2 * np.log1p(squares / FREEDOM).sum(axis=(1, 2)))


def _evidence(fit: _Fit) -> Floats:
    """Bayes factors against no change, by Laplace's method; the size has a half-Cauchy prior."""
    prior = 2 / np.pi / _WIDTH / (1 + (fit.size / _WIDTH) ** 2)
    width = np.minimum(prior * np.sqrt(2 * np.pi) * fit.error, 1.0)
    return np.asarray(np.exp(np.minimum(fit.gain, 500.0)) * width)


def _slower(off: Floats, noise: Noise, shifts: Floats, size: Floats) -> Floats:
    """1 where the scope is slower than it was, still is, and is so not only against the others."""
    known = np.isfinite(off)
    value, weights = np.where(known, off, 0.0), shifts * known / noise.scale
    middle = weighted_medians(value.ravel(), weights.reshape(len(shifts), -1))
    newest = weighted_medians(value[-1], weights[:, -1])
    return ((size > 0) & (np.minimum(middle, newest) > size / 2)).astype(np.float64)


def _most_telling(noise: Noise, shifts: Floats, fit: _Fit, odds: Floats) -> int:
    """The series on whose next time the hypotheses differ most, in units of its noise."""
    weight = np.append(odds, 1.0) / (odds.sum() + 1.0)
    expected = np.append(shifts[:, -1] * fit.size[:, None], np.zeros((1, shifts.shape[2])), axis=0)
    variance = weight @ expected**2 - (weight @ expected) ** 2
    return int(np.argmax(variance / noise.scale**2))
