"""Preemption: the formula for time and cost against simulated runs, in six settings.

    .venv/bin/python benchmarks/preemption.py [runs]

The process: nodes come up, reload (unless it is the first time), work and save segment by segment
until they are taken away or the job ends; then a downtime, and anew from what was saved. Nothing of
the formula is used. Exits with 1 when a mean is off by more than 0.5 %.
"""

import sys

import numpy as np

from nodewise.base.stats import Floats
from nodewise.decide.payment.spot import Checkpointing, Rule, expected

HOUR, MINUTE = 3600.0, 60.0
LIMIT = 0.005
SEED = 7

# hours of work, preemptions of the gang an hour, minutes to save, down, reload; how it saves
SETTINGS: tuple[tuple[float, float, float, float, float, Rule | float], ...] = (
    (16.175, 0.4, 1, 5, 2, "exact"),
    (10.48, 1.25, 1, 5, 2, "exact"),
    (10.0, 0.4, 1, 5, 0, 15 * MINUTE),
    (4.0, 0.05, 5, 30, 10, "exact"),
    (2.0, 0.5, 1, 5, 2, "none"),
    (6.0, 5.0, 10, 20, 5, "exact"),
)


def draw(
    runs: int, rate: float, segments: int, piece: float, times: Checkpointing, seed: int
) -> Floats:
    """Seconds that `runs` jobs take, from their up-times."""
    generator = np.random.default_rng(seed)
    taken = np.zeros(runs)
    left = np.full(runs, segments)
    going = np.arange(runs)
    reload = 0.0
    while len(going):
        up = generator.exponential(1 / rate, len(going))
        needed = reload + left[going] * (piece + times.save_seconds) - times.save_seconds
        ends = needed <= up
        taken[going] += np.where(ends, needed, up + times.downtime_seconds)
        saved = np.floor(np.maximum(up - reload, 0) / (piece + times.save_seconds)).astype(int)
        left[going] -= np.minimum(saved, left[going] - 1)
        going = going[~ends]
        reload = times.restart_seconds
    return taken


def main() -> None:
    """Draw every setting and compare."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(
        "   W h    L /h  C min  D min  R min     N  formula h    drawn h    off %      z  sd  drawn"
    )
    worst = 0.0
    for at, (hours, per_hour, save, down, reload, interval) in enumerate(SETTINGS):
        rate = per_hour / HOUR
        times = Checkpointing(
            save_seconds=save * MINUTE,
            downtime_seconds=down * MINUTE,
            restart_seconds=reload * MINUTE,
        )
        run = expected([hours * HOUR], [rate], times, interval)
        segments, piece = int(run.segments[0]), float(run.interval_seconds[0])
        taken = draw(runs, rate, segments, piece, times, SEED + at)
        mean, spread = float(run.seconds[0]), float(np.sqrt(run.variance[0]))
        off = float(taken.mean()) / mean - 1
        z = (float(taken.mean()) - mean) / (spread / np.sqrt(runs))
        worst = max(worst, abs(off))
        print(
            f"{hours:6.2f} {per_hour:7.2f} {save:6g} {down:6g} {reload:6g} {segments:5d} "
            f"{mean / HOUR:10.4f} {taken.mean() / HOUR:10.4f} {100 * off:+8.3f} {z:+6.2f}  "
            f"{spread / HOUR:.4f} {taken.std() / HOUR:.4f}"
        )
    print(f"Largest difference of the means: {100 * worst:.3f} %, allowed {100 * LIMIT:g} %.")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
