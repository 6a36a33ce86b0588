"""Studies with a planted truth: to learn on, to test detectors with, to plan rounds by. Seeded.

At k = K nodes rank r takes items_r * seconds per item, rank 0 also the serial part while the others
wait, and all exchange messages; the wall time is that of the last rank. With even shares and equal
nodes this is exactly the law T1*(s + (1-s)/K + c*g(K)).
"""

from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats, percentile_interval, resample_rounds
from nodewise.explain.laws import Law, growth_term
from nodewise.study.study import Rank, Run, Stage, Study

Detail = Literal["timings", "stages", "ranks"]

_ITEMS = 1_000_000.0
_MOST_ROUNDS = 500


class PlantedTruth(msgspec.Struct, frozen=True, kw_only=True):
    """The truth to plant. Factors of 1 and shares of 0 plant nothing."""

    law: Law
    scales: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    rounds: int = 7
    noise: float = 0.02  # relative spread of a whole run
    jitter: float = 0.0  # relative spread of each rank's compute
    shard_factor: float = 1.0  # how many times the items of another rank 0 has
    slow_node_factor: float = 1.0  # how many times longer the last of several nodes takes per item
    straggler_factor: float = 1.0  # at each K the slowest round is held up by up to this
    baseline_factor: float = 1.0  # how many times too slow the run at the smallest K is
    detail: Detail = "timings"
    seed: int = 7

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        for name in ("shard_factor", "slow_node_factor", "straggler_factor", "baseline_factor"):
            if getattr(self, name) < 1:
                raise SpecError(
                    f"{name} is below 1.", "Write how many times longer, for example 2."
                )
        if self.noise < 0 or self.jitter < 0:
            raise SpecError("A spread cannot be negative.", "Write for example 0.02 or 2%.")
        if not self.scales or min(self.scales) < 1 or self.rounds < 1:
            raise SpecError("There is nothing to simulate.", "Give scales >= 1 and rounds >= 1.")


def simulate(plan: PlantedTruth) -> Study:
    """A study that the planted truth would give."""
    generator = np.random.default_rng(plan.seed)
    runs = []
    for nodes in sorted(set(plan.scales)):
        noise = np.maximum(1 + plan.noise * generator.standard_normal(plan.rounds), 0.05)
        if plan.straggler_factor > 1:
            noise[noise.argmax()] *= generator.uniform(1.0, plan.straggler_factor)
        if nodes == min(plan.scales):
            noise = noise * plan.baseline_factor
        for number, factor in enumerate(noise):
            runs.append(_run(plan, nodes, number, float(factor), generator))
    return Study(name="simulated", regime=plan.law.regime, runs=tuple(runs))


def _run(
    plan: PlantedTruth, nodes: int, number: int, factor: float, generator: np.random.Generator
) -> Run:
    law = plan.law
    shares = np.ones(nodes)
    if nodes > 1:
        shares[0] = plan.shard_factor
    shares /= shares.sum()
    grown = nodes if law.regime == "weak" else 1
    per_rank = (1 - law.s) * law.base_seconds * grown * shares
    if nodes > 1:
        per_rank[-1] *= plan.slow_node_factor
    if plan.jitter:
        per_rank = per_rank * np.maximum(1 + plan.jitter * generator.standard_normal(nodes), 0.05)
    serial = np.zeros(nodes)
    serial[0] = law.s * law.base_seconds
    messages = law.base_seconds * law.c * float(growth_term(law.growth, np.array([nodes * 1.0]))[0])
    wall = float((per_rank + serial).max()) + messages
    items = _ITEMS * grown * shares
    idle = wall - messages - per_rank - serial

    def stages(compute: float, waiting: float, alone: float) -> dict[Stage, float]:
        return {
            "compute": factor * compute,
            "communication": factor * messages,
            "idle": factor * max(waiting, 0.0),
            "serial": factor * alone,
        }

    ranks: tuple[Rank, ...] = ()
    totals: dict[Stage, float] = {}
    if plan.detail == "ranks":
        ranks = tuple(
            Rank(
                rank=rank,
                stages=stages(float(per_rank[rank]), float(idle[rank]), float(serial[rank])),
                items=float(items[rank]),
            )
            for rank in range(nodes)
        )
    elif plan.detail == "stages":
        mean = float(per_rank.mean())
        totals = stages(mean, wall - messages - mean - float(serial[0]), float(serial[0]))
    return Run(
        nodes=nodes,
        round=number,
        seconds=factor * wall,
        stages=totals,
        ranks=ranks,
        work=float(items.sum()),
    )


def rounds_needed(
    noise: float, difference: float, power: float = 0.8, seed: int = 7, studies: int = 400
) -> int:
    """Rounds after which scales that differ by `difference` are distinguished as often as `power`.

    Found by simulating studies and judging each by the interval that `scale` prints: the central
    95 % of resampled rounds of the ratio must exclude 1.

    >>> rounds_needed(noise=0.02, difference=0.05)
    6
    """
    if not (0 < difference < 1 and 0 < noise < 1):
        raise SpecError(
            "Noise and difference must lie between 0 and 1.", "Write for example 3% and 5%."
        )
    generator = np.random.default_rng(seed)
    # The normal approximation is a little optimistic, so it is where the search starts.
    least = 2 * ((1.96 + 0.84) * noise / np.log1p(difference)) ** 2
    rounds = max(6, int(0.7 * least))
    while rounds <= _MOST_ROUNDS:
        if _share_told_apart(noise, difference, rounds, studies, generator) >= power:
            return rounds
        rounds += max(1, rounds // 20)
    raise SpecError(
        f"Even {_MOST_ROUNDS} rounds would not show a difference of {difference:g}.",
        "Lower the noise first: longer runs, a quiet machine, every K in each round.",
    )


def _share_told_apart(
    noise: float, difference: float, rounds: int, studies: int, generator: np.random.Generator
) -> float:
    picks = resample_rounds(rounds, draws=1000, seed=int(generator.integers(2**31)))
    told_apart = 0
    for _ in range(studies):
        base: Floats = 1 + noise * generator.standard_normal(rounds)
        other: Floats = (1 + difference) * (1 + noise * generator.standard_normal(rounds))
        ratio = percentile_interval(base[picks].mean(axis=1) / other[picks].mean(axis=1), rounds)
        told_apart += ratio.high < 1 or ratio.low > 1
    return told_apart / studies
