"""Audit detectors: false alarms, and planted defects found, in simulated studies.

    .venv/bin/python benchmarks/audit.py [studies] [--first SEED] [--curves curves.csv]

Honest studies: laws with a serial part and a part that grows with log2 K or K, strong and weak,
uneven shards, a slow node, jitter, stragglers, a dearer network beyond eight nodes, a shared
resource that is full from some scale on; four to eight scales; one, three, five or seven rounds;
noise of 0.5 to 3 %; times to 0.1, 0.001 or 1e-6 s. Each defect is planted into such a study at a
stated size. Exits with 1 when a detector raises more than 1 % false alarms.
With --curves, the detectors also run over published curves, where nobody knows the truth.
"""

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nodewise.audit.detectors import (
    averaged_ratios,
    bends_back,
    column_mismatch,
    dependent_repeats,
    identical_repeats,
    idle_digits,
    missing_scales,
    summary_used,
    too_straight,
)
from nodewise.base.stats import Floats
from nodewise.explain.baseline import Detection, Points, points_of, slow_baseline, superlinear
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.explain.validity import changed_amount
from nodewise.study.spec import Regime

LIMIT = 0.01
LADDER = (1, 2, 4, 8, 16, 32, 64, 128)
DECIMALS = 4  # of the seconds in an honest table; speedups have two, efficiencies three


class Table:
    """A study as somebody would print it: samples, and the columns made from them."""

    def __init__(
        self, nodes: list[int], samples: list[Floats], regime: Regime, decimals: int = 6
    ) -> None:
        """Print what was measured, the samples with so many decimals."""
        self.nodes, self.regime, self.unit = nodes, regime, 10.0**-decimals
        self.samples = [np.maximum(np.round(v, decimals), self.unit) for v in samples]
        samples = self.samples
        means = np.array([values.mean() for values in samples])
        k = np.array(nodes) / nodes[0]
        speedup = means[0] / means * (k if regime == "weak" else 1)
        self.seconds = _written(means, DECIMALS)
        self.speedup = _written(speedup, 2)
        self.efficiency = _written(speedup / k, 3)
        spread = [
            max(float(np.std(v, ddof=1)), 1e-6) if len(v) > 1 else 0.02 * float(v.mean())
            for v in samples
        ]
        self.spreads = spread
        self.times = [
            (_to_spread(mean, sd), 0.5 * 10.0 ** -_decimals(sd))
            for mean, sd in zip(means, spread, strict=True)
        ]
        self.summary: tuple[float, float] = _written(
            np.array([np.exp(np.mean(np.log(speedup)))]), 2
        )[0]
        self.batch = {n: 512.0 * (n if regime == "weak" else 1) for n in nodes}

    @property
    def points(self) -> Points:
        """The curve as the detectors take it."""
        return points_of(self.nodes, self.samples, self.regime)


def _written(values: Floats, decimals: int) -> list[tuple[float, float]]:
    return [(round(float(value), decimals), 0.5 * 10.0**-decimals) for value in values]


def _decimals(spread: float) -> int:
    """As many as give the spread two digits."""
    return 1 - int(np.floor(np.log10(spread)))


def _to_spread(mean: float, spread: float) -> float:
    return round(float(mean), _decimals(spread))


def honest(seed: int) -> Table:
    """A study without a defect."""
    draw = np.random.default_rng([11, seed])
    regime: Regime = "weak" if draw.random() < 0.25 else "strong"
    growth = draw.choice(["none", "log2", "linear"])
    serial = float(np.exp(draw.uniform(np.log(0.002), np.log(0.15))))
    most = {"none": 0.0, "log2": 0.05, "linear": 0.01}[str(growth)]
    grown = float(draw.uniform(0.02, 1)) * most
    if regime == "weak" and growth == "none":
        growth, grown = "log2", float(draw.uniform(0.005, 0.05))
    scales = LADDER[: int(draw.integers(4, 9))]
    if draw.random() < 0.2:
        scales = scales[1:] if len(scales) > 4 else scales
    cause = draw.integers(0, 7)
    plan = PlantedTruth(
        law=Law(s=serial, c=grown, growth=growth, regime=regime, base_seconds=100.0),
        scales=scales,
        rounds=int(draw.choice([1, 3, 5, 7])),
        noise=float(draw.uniform(0.005, 0.03)),
        jitter=float(draw.uniform(0, 0.05)) if cause == 1 else 0.0,
        shard_factor=float(draw.uniform(1, 1.5)) if cause == 2 else 1.0,
        slow_node_factor=float(draw.uniform(1, 1.3)) if cause == 3 else 1.0,
        straggler_factor=float(draw.uniform(1, 1.1)) if cause == 4 else 1.0,
        seed=seed,
    )
    study = simulate(plan)
    step = float(draw.uniform(0.005, 0.03)) * 100.0 if cause == 5 else 0.0
    nodes = list(study.scales)
    samples = [
        np.array([run.seconds for run in study.at(n)]) + (step if n > 8 else 0.0) for n in nodes
    ]
    if cause == 6:  # a shared resource that is full from some scale on
        full = float(draw.uniform(4, 32)) * nodes[0]
        samples = [v * max(1.0, n / full) for n, v in zip(nodes, samples, strict=True)]
    return Table(nodes, samples, regime, int(draw.choice([1, 3, 6])))


Defect = Callable[[Table, float, np.random.Generator], Table]


def slow_base(table: Table, size: float, _: np.random.Generator) -> Table:
    """T at the smallest K takes `size` times too long."""
    return Table(table.nodes, [table.samples[0] * size, *table.samples[1:]], table.regime)


def straight(table: Table, size: float, draw: np.random.Generator) -> Table:
    """A line, off by a relative noise of `size`."""
    k = np.array(table.nodes) / table.nodes[0]
    ideal = 100 / k if table.regime == "strong" else np.full_like(k, 100.0)
    rounds = len(table.samples[0])
    return Table(
        table.nodes,
        [t * (1 + size / 2 * draw.standard_normal(rounds)) for t in ideal],
        table.regime,
    )


def less_work(table: Table, size: float, _: np.random.Generator) -> Table:
    """From the middle of the ladder on, `size` of the work is left out."""
    half = len(table.nodes) // 2
    samples = [v * (1 - size) if at >= half else v for at, v in enumerate(table.samples)]
    return Table(table.nodes, samples, table.regime)


def batch_grows(table: Table, size: float, _: np.random.Generator) -> Table:
    """From K = `size` on the batch grows with K, and the rate is told as strong scaling."""
    means = [float(values.mean()) for values in table.samples]
    parallel = means[0]
    samples = []
    for nodes, values, mean in zip(table.nodes, table.samples, means, strict=True):
        larger = max(nodes / size, 1.0)
        overhead = mean - parallel * table.nodes[0] / nodes
        # the overhead is paid once for a batch that is `larger` times as large
        now = parallel * table.nodes[0] / nodes + overhead / larger
        samples.append(values * now / mean)
    made = Table(table.nodes, samples, table.regime)
    made.batch = {n: 512.0 * max(n / size, 1.0) for n in table.nodes}
    return made


def inflated_column(table: Table, size: float, _: np.random.Generator) -> Table:
    """The largest speedup as written is `size` times what the times give."""
    value, half = table.speedup[-1]
    table.speedup[-1] = (round(value * size, 2), half)
    return table


def mean_summary(table: Table, size: float, _: np.random.Generator) -> Table:
    """The summary speedup is the arithmetic mean."""
    table.summary = _written(np.array([np.mean([value for value, _ in table.speedup])]), 2)[0]
    return table


def more_digits(table: Table, size: float, _: np.random.Generator) -> Table:
    """`size` digits more than two of the spread."""
    table.times = [
        (float(v.mean()), 0.5 * 10.0 ** -(_decimals(sd) + int(size)))
        for v, sd in zip(table.samples, table.spreads, strict=True)
    ]
    return table


def copied_repeats(table: Table, size: float, _: np.random.Generator) -> Table:
    """`size` of the scales have their first repeat once more."""
    for at in range(min(int(size), len(table.samples))):
        table.samples[at] = np.append(table.samples[at], table.samples[at][0])
    return table


def best_of(table: Table, size: float, _: np.random.Generator) -> Table:
    """Speedups of the mean base over the best repeat."""
    means = table.samples[0].mean()
    k = np.array(table.nodes) / table.nodes[0]
    grown = k if table.regime == "weak" else np.ones_like(k)
    least = np.array([values.min() for values in table.samples])
    table.speedup = _written(grown * means / least, 2)
    return table


def ratio_means(table: Table, size: float, _: np.random.Generator) -> Table:
    """Speedups are means of the ratios of the rounds."""
    k = np.array(table.nodes) / table.nodes[0]
    grown = k if table.regime == "weak" else np.ones_like(k)
    ratios = np.array([np.mean(table.samples[0] / values) for values in table.samples])
    table.speedup = _written(grown * ratios, 3)
    return table


def hole(table: Table, size: float, _: np.random.Generator) -> Table:
    """`size` inner scales are left out."""
    at = len(table.nodes) // 2
    keep = [n for n in range(len(table.nodes)) if not at <= n < at + int(size)]
    return Table([table.nodes[n] for n in keep], [table.samples[n] for n in keep], table.regime)


def following(table: Table, size: float, draw: np.random.Generator) -> Table:
    """Repeats (seven of them) whose noise of 2 % is AR(1) with this correlation."""
    samples = []
    for values in table.samples:
        noise = [draw.standard_normal()]
        for _ in range(6):
            noise.append(size * noise[-1] + np.sqrt(1 - size**2) * draw.standard_normal())
        samples.append(float(values.mean()) * (1 + 0.02 * np.array(noise)))
    return Table(table.nodes, samples, table.regime)


def copied_pattern(table: Table, size: float, _: np.random.Generator) -> Table:
    """One scale has the deviations of another, scaled."""
    first = table.samples[0]
    table.samples[1] = np.round(first / first.mean() * table.samples[1].mean() / table.unit)
    table.samples[1] *= table.unit
    return table


def digits_of(table: Table) -> Detection:
    """Digits of the times beside their spread."""
    return idle_digits(table.times, table.spreads)


def repeats_of(table: Table) -> Detection:
    """Repeats at the resolution of the table."""
    return identical_repeats(table.samples)


def summary_of(table: Table) -> Detection:
    """The summary row."""
    return averaged_ratios([value for value, _ in table.speedup], table.summary)


def columns_of(table: Table) -> Detection:
    """Seconds, speedup and efficiency against each other."""
    arguments = table.nodes, table.seconds, table.speedup, table.efficiency, table.regime
    return column_mismatch(*arguments)


def way_of(table: Table, name: str) -> Detection:
    """Whether the speedups were made from the repeats in this way."""
    if len(table.samples[0]) < 2:
        return Detection(None, "no repeats")
    k = np.array(table.nodes) / table.nodes[0]
    found = summary_used(table.samples, table.speedup, table.regime, k)
    return Detection(found == name, str(found))


DETECTORS: dict[str, Callable[[Table], Detection]] = {
    "slow baseline": lambda t: slow_baseline(t.points),
    "too straight": lambda t: too_straight(t.points),
    "super-linear": lambda t: superlinear(t.points),
    "bends back": lambda t: bends_back(t.points),
    "work column": lambda t: changed_amount(t.batch, t.regime),
    "columns disagree": columns_of,
    "summary of ratios": summary_of,
    "mean of ratios": lambda t: way_of(t, "mean of ratios"),
    "idle digits": digits_of,
    "identical repeats": repeats_of,
    "best of": lambda t: way_of(t, "best of the repeats"),
    "missing scales": lambda t: missing_scales(t.nodes),
    "dependent repeats": lambda t: dependent_repeats(t.samples),
}

PLANTED: tuple[tuple[str, Defect, str, tuple[float, ...]], ...] = (
    ("slow baseline", slow_base, "T(1) times", (1.05, 1.1, 1.2, 1.4, 1.8)),
    ("super-linear", slow_base, "T(1) times", (1.05, 1.1, 1.2, 1.4, 1.8)),
    ("too straight", straight, "a line with noise of", (0.0, 0.005, 0.01, 0.02)),
    ("bends back", less_work, "work left out", (0.05, 0.1, 0.2, 0.4)),
    ("bends back", batch_grows, "batch grows from K =", (2, 4, 8)),
    ("work column", batch_grows, "batch grows from K =", (2, 8)),
    ("columns disagree", inflated_column, "largest S times", (1.01, 1.02, 1.05)),
    ("summary of ratios", mean_summary, "arithmetic mean", (1,)),
    ("mean of ratios", ratio_means, "three decimals", (1,)),
    ("idle digits", more_digits, "digits more", (1, 2, 3)),
    ("identical repeats", copied_repeats, "equal pairs", (1, 2)),
    ("identical repeats", copied_pattern, "one pattern copied", (1,)),
    ("best of", best_of, "mean over best", (1,)),
    ("missing scales", hole, "scales left out", (1, 2)),
    ("dependent repeats", following, "AR(1) of", (0.5, 0.7, 0.9)),
)


def rate(answers: list[bool | None]) -> tuple[float, float]:
    """Share seen among those that could be told, and share that could be told."""
    told = [answer for answer in answers if answer is not None]
    return (sum(told) / len(told) if told else 0.0), len(told) / max(len(answers), 1)


def main() -> None:
    """Count false alarms and detections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="?", type=int, default=1000)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--first", type=int, default=0, help="seed of the first study")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.studies)
    print("| detector | false alarms | could tell |\n|:--|--:|--:|")
    worst = 0.0
    for name, detect in DETECTORS.items():
        share, told = rate([detect(honest(seed)).seen for seed in seeds])
        worst = max(worst, share)
        print(f"| {name} | {100 * share:.1f} % | {100 * told:.0f} % |")
    print("\n| detector | planted | size | found | found, 5 or 7 rounds |\n|:--|:--|--:|--:|--:|")
    for name, plant, what, sizes in PLANTED:
        for size in sizes:
            answers, repeated = [], []
            for seed in seeds:
                table = honest(seed)
                if plant is batch_grows and (table.regime == "weak" or table.nodes[-1] < 8 * size):
                    continue
                rounds = len(table.samples[0])
                if plant in (best_of, ratio_means, copied_repeats, copied_pattern) and rounds < 3:
                    continue
                draw = np.random.default_rng([13, seed])
                seen = DETECTORS[name](plant(table, size, draw)).seen
                answers.append(seen)
                if rounds >= 5:
                    repeated.append(seen)
            # what cannot be told is not found
            found, often = (
                sum(map(bool, some)) / max(len(some), 1) for some in (answers, repeated)
            )
            print(f"| {name} | {what} | {size:g} | {100 * found:.0f} % | {100 * often:.0f} % |")
    if asked.curves:
        published(asked.curves)
    if worst > LIMIT:
        sys.exit(1)


def published(path: Path) -> None:
    """The detectors that need nothing but times, over published curves."""
    curves: dict[str, list[dict[str, str]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            curves[row["curve_id"]].append(row)
    counts: dict[str, Counter[bool | None]] = defaultdict(Counter)
    for rows in curves.values():
        regime: Regime = "weak" if rows[0]["regime"] == "weak" else "strong"
        nodes = sorted({int(float(row["K"])) for row in rows})
        samples = []
        for count in nodes:
            values = np.array([float(r["value"]) for r in rows if int(float(r["K"])) == count])
            if rows[0]["metric"] == "throughput":
                values = (count / nodes[0] if regime == "weak" else 1.0) / values
            samples.append(values)
        points = points_of(nodes, samples, regime)
        for name, detect in (
            ("slow baseline", slow_baseline),
            ("too straight", too_straight),
            ("super-linear", superlinear),
            ("bends back", bends_back),
        ):
            counts[name][detect(points).seen] += 1
        counts["missing scales"][missing_scales(nodes).seen] += 1
    print(
        f"\n| {len(curves)} published curves | seen | not seen | cannot tell |\n|:--|--:|--:|--:|"
    )
    for name, found in counts.items():
        print(f"| {name} | {found[True]} | {found[False]} | {found[None]} |")


if __name__ == "__main__":
    main()
