"""How likely an interrupted run meets a deadline: the distribution of its time, not a normal law.

A run of N segments takes its undisturbed time and an excess. A segment of `a` seconds goes through
with the chance e^(-L a). Else it costs the X < a seconds until the stop and D seconds without
nodes; then R seconds of reloading and the segment are tried again as one attempt, until that goes
through:

    E_a(z) = e^(-L a) + X_a(z) z^(D+R) e^(-L (a+R)) / (1 - X_(a+R)(z) z^D)

is the generating function of one excess on a lattice of time, E_(W/N+C)^(N-1) E_(W/N) that of the
run. Its sum up to the time left is read off a circle of the complex plane.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodewise.base.stats import Floats
from nodewise.decide.payment.spot import Checkpointing, Expected

Complexes = NDArray[np.complex128]

# lattice points up to the time left: 16 for what a stop costs, 4 for the work that it loses
_POINTS_PER_STOP, _POINTS_PER_LOSS = 16.0, 4.0
_LATTICES = (256, 1024, 4096)
_WRAPPED = 1e-8  # the share of what lies beyond the lattice that comes back as an error
_MOST_CELLS = 1 << 18  # of one array
_GROUPS = 9  # of runs of different length, in what stops add to them
_SMALL = 1e-2  # stops expected within one step of the lattice, below which a series is exact
_HOPELESS = 23.0  # stops expected while a segment is tried again: one try in 10^10 goes through


def share_in_time(
    run: Expected,
    rate_per_second: Floats,
    checkpointing: Checkpointing,
    left_seconds: ArrayLike,
    spread: Floats | None = None,
) -> Floats:
    """The share of runs of each scale that end within `left_seconds`.

    `spread` has single runs over their centre, a row a quantile: the noise of undisturbed runs.

    >>> from nodewise.decide.payment.spot import expected
    >>> hour = expected([3600.0], [0.03 / 3600], Checkpointing(downtime_seconds=300), "none")
    >>> round(float(share_in_time(hour, np.array([0.03 / 3600]), Checkpointing(), 3700.0)[0]), 2)
    0.97
    """
    rate, left = rate_per_second, np.asarray(left_seconds, dtype=np.float64)
    around = np.ones((1, 1)) if spread is None else np.sort(spread, axis=0)
    segments = run.segments.astype(np.float64)
    saving = (segments - 1) * checkpointing.save_seconds

    def undisturbed(relative: Floats) -> Floats:
        return np.asarray(relative * run.work + saving, dtype=np.float64)

    seconds = undisturbed(around)
    calm = np.where(seconds <= left * (1 + 1e-12), np.exp(-rate * seconds), 0.0)
    groups = np.array_split(around, min(_GROUPS, len(around)))
    relative = np.stack([np.median(group, axis=0) for group in groups])
    slack = left - undisturbed(relative)

    def flat(values: Floats) -> Floats:
        return np.asarray(np.broadcast_to(values, slack.shape), dtype=np.float64).ravel()

    stopped = _share_after_stops(
        flat(relative * run.interval_seconds), flat(rate), flat(segments), slack.ravel(),
        checkpointing, noisy=len(around) > 1,
    ).reshape(slack.shape)  # fmt: skip
    weights = np.array([len(group) for group in groups]) / len(around)
    return np.asarray(calm.mean(axis=0) + weights @ stopped, dtype=np.float64)


def _share_after_stops(
    piece: Floats,
    rate: Floats,
    segments: Floats,
    slack: Floats,
    times: Checkpointing,
    noisy: bool,
) -> Floats:
    """The share of runs that are stopped once or more and exceed their time by `slack` at most."""
    found = np.zeros_like(slack)
    least = times.downtime_seconds + times.restart_seconds
    again = piece + times.save_seconds + times.restart_seconds
    possible = np.flatnonzero((slack > least) & (rate > 0) & (rate * again < _HOPELESS))
    lost = np.minimum(piece[possible] / 2, 1 / rate[possible])
    wanted = slack[possible] * np.maximum(
        _POINTS_PER_STOP / (least + lost), 0.0 if noisy else _POINTS_PER_LOSS / lost
    )  # noise smooths what a lattice cannot tell apart
    size = np.searchsorted(_LATTICES[:-1], wanted)
    for at, points in enumerate(_LATTICES):
        chosen = possible[size == at]
        for some in np.array_split(chosen, len(chosen) * points // _MOST_CELLS + 1):
            if len(some):
                found[some] = _on_lattice(
                    piece[some], rate[some], segments[some], slack[some], times, points
                )
    return found


def _on_lattice(
    piece: Floats, rate: Floats, segments: Floats, slack: Floats, times: Checkpointing, points: int
) -> Floats:
    down, reload = times.downtime_seconds, times.restart_seconds
    step = slack / points
    # a stop costs whole steps without nodes and of reloading, where these are long enough
    whole = np.ceil((down + reload) / step)
    step = np.where(whole >= 8, (down + reload) / np.maximum(whole, 1), step)
    count = 3 * points  # whole steps are shorter, by an eighth at most
    radius = _WRAPPED ** (1 / count)
    z = radius * np.exp(2j * np.pi / count * np.arange(count // 2 + 1))
    factor = rate * step
    return_time = _shift(z, (down + reload) / step)
    wait = _shift(z, down / step)

    def excess(length: Floats) -> Complexes:
        again = length + reload
        retried = np.exp(-rate * again)[:, None] / (1 - _lost(z, again / step, factor) * wait)
        first = _lost(z, length / step, factor) * return_time
        return np.asarray(np.exp(-rate * length)[:, None] + first * retried)

    with np.errstate(under="ignore"):
        whole_run = excess(piece + times.save_seconds) ** (segments - 1)[:, None] * excess(piece)
    undisturbed = np.exp(-rate * (segments * piece + (segments - 1) * times.save_seconds))
    stopped = whole_run - undisturbed[:, None]
    limit = slack / step
    low = np.floor(limit)
    part = (limit - low)[:, None]
    # the sum of the chances of 0, 1, ... steps, between the two lattice points around the limit
    last = z ** -(low[:, None] + 1)
    sums = (1 - last * (1 - part + part / z)) / (1 - 1 / z)
    weight = np.full(len(z), 2.0)
    weight[[0, -1]] = 1.0
    shares = np.real(stopped * sums) @ weight / count
    return np.asarray(np.clip(shares, 0.0, 1 - undisturbed), dtype=np.float64)


def _shift(z: Complexes, steps: Floats) -> Complexes:
    """A fixed time on the lattice, shared by the two points around it."""
    low = np.floor(steps * (1 + 1e-12))
    part = np.maximum(steps - low, 0.0)[:, None]
    return np.asarray(z ** low[:, None] * (1 - part + part * z))


def _lost(z: Complexes, length: Floats, rate: Floats) -> Complexes:
    """The time until a stop that comes within `length` steps, on the lattice."""
    whole = np.floor(length)[:, None]
    kept = np.exp(-rate)[:, None] * z
    reached = kept**whole
    cells = (1 - reached) / (1 - kept) * _cell(z, np.ones_like(rate), rate)
    return np.asarray(cells + reached * _cell(z, length - whole[:, 0], rate))


def _cell(z: Complexes, width: Floats, rate: Floats) -> Complexes:
    """A stop within one step, shared by its two ends."""
    x = rate * width
    low = np.minimum(x, _SMALL)
    small = low**2 * (1 / 2 - low * (1 / 3 - low * (1 / 8 - low / 30)))
    upper = np.where(x < _SMALL, small, -np.expm1(-x) - x * np.exp(-x)) / rate
    return np.asarray((-np.expm1(-x) - upper)[:, None] + upper[:, None] * z)
