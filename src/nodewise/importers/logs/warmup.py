"""Where the warm-up of a run ends, and which later steps are pauses. Pure computation."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nodewise.base.stats import Floats

PauseKind = Literal["checkpoint", "evaluation", "other"]

_FEWEST = 4  # entries; with fewer, the beginning cannot be separated from a steady part
_FEW_DIFFER = 1.5  # the largest ratio of two entries of one level, where there are so few
_MIN_DEVIATION = 0.05  # of a step from the steady level; less costs a median nothing
_DEVIATIONS = 5.0  # of the noise
_SIGMA_OF_MAD = 1.4826  # for normal noise
_OFTEN, _OFTEN_SHARE = 3, 0.2  # steps of another kind: every fifth one, say
_MIN_SHIFT, _SHIFT_ERRORS = 0.03, 6.0  # of a slow beginning as a whole, in its standard errors
_FEWEST_IN_SHIFT = 6
_ENOUGH = 100_000  # entries at each end
_MOST_SLOW = 1000
_MANY = 1_000_000


class Steady(NamedTuple):
    """The steady level of a series of step times, and what lies outside of it."""

    warmup: int | None  # leading entries to leave out; None: too few entries to tell
    median: float | None  # None: two or three entries that differ too much
    slow: tuple[int, ...]  # later entries far above the level


def steady(seconds: ArrayLike) -> Steady:
    """The end of the warm-up: the change point between the beginning and the steady level.

    The level and its noise are those of the second half. First, leading entries that are far from
    the level are left out, above or below: a step that was only dispatched takes no time. Then a
    beginning that is slower as a whole, though no single step of it is far out.

    >>> steady([6.0, 1.9, 1.0, 1.01, 0.99, 1.0, 1.02, 1.0]).warmup
    2
    """
    values = np.asarray(seconds, dtype=np.float64)
    if len(values) < _FEWEST:
        return _few(values)
    begin, most = _begin_and_limit(values)
    slow = np.flatnonzero(values[begin:] > most) + begin
    return Steady(begin, _median(values[begin:]), tuple(slow[:_MOST_SLOW].tolist()))


def _median(values: Floats) -> float:
    """The median; of very many values without a copy of all of them."""
    if len(values) < _MANY:
        return float(np.median(values))
    low, high = np.quantile(values[:: len(values) // 10_000], (0.48, 0.52))
    below = int(np.count_nonzero(values < low))
    inside = np.sort(values[(values >= low) & (values <= high)])
    ranks = [rank - below for rank in ((len(values) - 1) // 2, len(values) // 2)]
    if ranks[0] < 0 or ranks[1] >= len(inside):
        return float(np.median(values))
    return float(inside[ranks].mean())


def _few(values: Floats) -> Steady:
    """The level of one to three entries; of three, two that agree after one that does not."""
    if values.max() <= _FEW_DIFFER * values.min():
        return Steady(None, float(np.median(values)), ())
    if len(values) == 3 and abs(values[2] / values[1] - 1) <= _MIN_DEVIATION:
        return Steady(1, float(values[1:].mean()), ())
    return Steady(None, None, ())


def _begin_and_limit(values: Floats) -> tuple[int, float]:
    """The first steady entry, and the time above which an entry is slow."""
    if len(values) > 2 * _ENOUGH:  # of a very long series, its beginning and its end
        values = np.concatenate([values[:_ENOUGH], values[-_ENOUGH:]])
    logs = np.log(np.maximum(values, 1e-12))
    late = logs[len(logs) // 2 :]
    level = float(np.median(late))
    noise = _SIGMA_OF_MAD * float(np.median(np.abs(late - level)))
    limit = max(_MIN_DEVIATION, _DEVIATIONS * noise)
    far = np.abs(late - level)
    often = int((far > limit).sum())
    if often >= _OFTEN and often > _OFTEN_SHARE * len(late):
        limit = 1.5 * float(np.quantile(far, 0.95))  # such steps are usual here, no warm-up
    begin = _leading(np.abs(logs - level) > limit)
    begin += _slow_beginning(np.clip(logs[begin:], level - limit, level + limit))
    return begin, float(np.exp(level + limit))


def _leading(is_far: "np.typing.NDArray[np.bool_]") -> int:
    """The entries before the first two that are near the level; one alone may be chance."""
    most = len(is_far) // 2
    for begin in range(most + 1):
        if not is_far[begin] and not is_far[begin + 1 : begin + 2].any():
            return begin
        if not is_far[begin] and not is_far[begin:].mean() > 0.25:
            return begin
    return 0  # never near: no beginning, the series is uneven as a whole


def _slow_beginning(logs: Floats) -> int:
    """The length of a first part whose mean is clearly above that of the rest; 0 without one."""
    count, most = len(logs), len(logs) // 2
    if most < _FEWEST_IN_SHIFT:
        return 0
    sums, squares = np.cumsum(logs), np.cumsum(logs**2)
    first = np.arange(_FEWEST_IN_SHIFT, most + 1)
    rest = count - first
    mean_first = sums[first - 1] / first
    mean_rest = (sums[-1] - sums[first - 1]) / rest
    spread = squares[-1] / count - (sums[-1] / count) ** 2
    within = (squares[first - 1] - first * mean_first**2) + (
        squares[-1] - squares[first - 1] - rest * mean_rest**2
    )
    error = np.sqrt(
        np.maximum(within / (count - 2), spread * 1e-6 + 1e-12) * (1 / first + 1 / rest)
    )
    shift = mean_first - mean_rest
    score = np.where(shift > _MIN_SHIFT, shift / error, 0.0)
    best = int(np.argmax(score))
    if score[best] < _SHIFT_ERRORS or _drifts(logs[first[best] :]):
        return 0
    return int(first[best])


def _drifts(logs: Floats) -> bool:
    """Whether the rest falls or rises on: then no point in it is the end of a warm-up."""
    half = len(logs) // 2
    one, two = logs[:half], logs[half:]
    error = np.sqrt((one.var() + two.var() + 1e-12) / max(half, 1))
    return bool(abs(one.mean() - two.mean()) > max(_MIN_SHIFT / 3, 4 * error))
