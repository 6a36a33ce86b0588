"""Serving forecast: the fit of TTFT and TPOT over concurrency, judged on left-out groups.

.venv/bin/python benchmarks/fit_serving.py [CURVES.csv] [--write]

Needs scikit-learn. A group is a model on a system. `--write` replaces fleet/concurrency.json.
"""

import argparse
import collections
import csv
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge

from nodewise.base.trees import Trees
from nodewise.fleet.concurrency import LatencyTable, features, queue_exponents

HERE = Path(__file__).parent
CURVES = HERE.parents[1] / "shared" / "data" / "serving" / "curves-dev.csv"
TARGET = HERE.parent / "src" / "nodewise" / "fleet" / "concurrency.json"
WHATS = ("ttft", "tpot")
# The linear part has this share of the answer: TPOT is smooth, TTFT jumps.
LINEAR = {"ttft": 0.0, "tpot": 0.3}
# What is far too low costs less in relative errors than what is far too high.
HIGH = {"ttft": 0.6, "tpot": 0.3}
VOTES = {"ttft": 0.5, "tpot": 0.0}  # a group counts as its curves to the power of one less this
LINES = 60  # straight lines that are learnt beside the published curves; none of them is judged
WEIGHTS = {4: 1.0, 2: 1.0, 0: 0.4, LINES: 0.3}  # by where a curve was cut; 0: anywhere else
LEVEL = 0.8


class Task(NamedTuple):
    """A curve cut at a part of its largest concurrency."""

    group: tuple[str, str]
    fraction: int  # 4, 2: the cuts that are judged; else learnt from only
    rows: Any
    distance: Any
    exponent: Any  # the truth
    queue: Any  # exponents of a queue that has begun, which are used instead of the learnt ones


def tasks(path: Path, what: str) -> list[Task]:
    """Every curve, cut at a quarter, at half, and at every other point."""
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    facts = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        at = points.setdefault(row["curve"], collections.defaultdict(list))
        at[int(row["concurrency"])].append((float(row["ttft_ms"]), float(row["tpot_ms"])))
        facts[row["curve"]] = row
    made = []
    for curve, found in points.items():
        load = np.array(sorted(found), float)
        ttft, tpot = (
            np.array([np.median([one[i] for one in found[int(at)]]) for at in load]) / 1e3
            for i in (0, 1)
        )
        fact = facts[curve]
        judged = {part: max(3, int(np.sum(load <= load[-1] / part))) for part in (4, 2)}
        others = [(0, known) for known in range(3, len(load)) if known not in judged.values()]
        for fraction, known in (*judged.items(), *others):
            if known < len(load):
                group = (fact["model_path"], fact["system"])
                lengths = (float(fact["isl"]), float(fact["osl"]))
                made.append(task(group, fraction, what, known, load, ttft, tpot, lengths))
    return made


def task(
    group: tuple[str, str],
    fraction: int,
    what: Any,
    known: int,
    load: Any,
    ttft: Any,
    tpot: Any,
    lengths: tuple[float, float],
) -> Task:
    """What the first points say, and the exponents that followed."""
    table = LatencyTable(
        name="",
        concurrency=tuple(load[:known]),
        ttft=tuple(ttft[:known]),
        tpot=tuple(tpot[:known]),
        input_tokens=lengths[0],
        output_tokens=lengths[1],
    )
    rows, distance = features(table, what, load[known:])
    truth = ttft if what == "ttft" else tpot
    exponent = np.log(truth[known:] / truth[known - 1]) / distance
    queue = queue_exponents(table, what, load[known:])
    return Task(group, fraction, rows, distance, exponent, queue)


def lines(what: str) -> list[Task]:
    """Latencies a + b c with half a percent of noise: a law that is followed when it is met."""
    generator = np.random.default_rng(0)

    def line(load: Any, level: float, width: float) -> Any:
        bend = load[known - 1] * np.exp(generator.normal(0, 1.5))
        noise = np.exp(0.005 * generator.normal(size=len(load)))
        return np.exp(generator.normal(level, width)) * (1 + load / bend) * noise

    made = []
    for _ in range(LINES):
        known = int(generator.integers(3, 7))
        load = 2.0 ** (generator.integers(0, 5) + np.arange(known + 4))
        lengths = (
            float(generator.choice([1024, 8192])), float(generator.choice([128, 1024, 8192]))
        )  # fmt: skip
        tpot, ttft = line(load, -4.5, 0.7), line(load, -2, 1)
        made.append(task(("line", ""), LINES, what, known, load, ttft, tpot, lengths))
    return made


def learn(some: list[Task], what: str) -> Trees:
    """Least absolute error of the exponent, weighted by distance; each curve alike."""
    rows = np.concatenate([task.rows for task in some])
    goal = np.concatenate([task.exponent for task in some])
    sisters = collections.Counter(task.group for task in some)
    weight = np.concatenate(
        [
            WEIGHTS[task.fraction]
            * task.distance
            / len(task.distance)
            / sisters[task.group] ** VOTES[what]
            * np.exp(-HIGH[what] * task.exponent * task.distance)
            for task in some
        ]
    )
    boosted = GradientBoostingRegressor(
        loss="absolute_error", n_estimators=150, max_depth=3, learning_rate=0.06, subsample=0.6,
        min_samples_leaf=20, max_features=0.5, random_state=0,
    ).fit(rows, goal, sample_weight=weight)  # fmt: skip
    scale = rows.std(0) + 1e-9
    share = LINEAR[what]
    ridge = Ridge(10).fit(rows / scale, goal, sample_weight=weight)
    return packed(boosted, share * float(ridge.intercept_), share * ridge.coef_ / scale, 1 - share)


def learn_spread(some: list[Task], missed: list[Any]) -> Trees:
    """How far the answer was off, in ln of the latency."""
    rows = np.concatenate([task.rows for task in some])
    boosted = GradientBoostingRegressor(
        loss="absolute_error", n_estimators=60, max_depth=2, learning_rate=0.06, subsample=0.6,
        min_samples_leaf=30, max_features=0.5, random_state=0,
    ).fit(rows, np.abs(np.concatenate(missed)))  # fmt: skip
    return packed(boosted, 0.0, np.zeros(rows.shape[1]), 1.0)


def packed(boosted: Any, start: float, linear: Any, share: float) -> Trees:
    """As full trees of one depth."""
    depth = boosted.max_depth
    nodes, leaves = 2**depth - 1, 2**depth
    features_of, limits, values = [], [], []
    for (one,) in boosted.estimators_:
        tree = one.tree_
        feature, limit, value = [0] * nodes, [0.0] * nodes, [0.0] * leaves
        places = [(0, 0)]
        for at, node in places:
            leaf = tree.children_left[node] < 0
            if at >= nodes:
                value[at - nodes] = float(tree.value[node][0][0])
                continue
            if not leaf:
                feature[at], limit[at] = int(tree.feature[node]), float(tree.threshold[node])
            left, right = (node, node) if leaf else (
                tree.children_left[node], tree.children_right[node])  # fmt: skip
            places += [(2 * at + 1, left), (2 * at + 2, right)]
        features_of.append(feature)
        limits.append([float(f"{x:.6g}") for x in limit])
        values.append([float(f"{share * boosted.learning_rate * x:.4g}") for x in value])
    first = float(np.ravel(boosted.init_.constant_)[0])
    return Trees(
        start=start + share * first,
        linear=[float(f"{x:.5g}") for x in linear],
        features=features_of,
        limits=limits,
        values=values,
    )


def factor(away: Any) -> float:
    """How many spreads hold the level."""
    return float(np.quantile(away, LEVEL))


def judge(what: str, learnt: list[Task], every: list[Task]) -> tuple[list[Any], float]:
    """Print errors and coverage with each group left out; what was missed, and the factor."""
    groups = sorted({task.group for task in every})
    missed: list[Any] = [None] * len(every)
    for group in groups:
        model = learn([task for task in learnt if task.group != group], what)
        for i, task in enumerate(every):
            if task.group == group:
                said = np.clip(model.at(task.rows), -3, 3) if task.queue is None else task.queue
                missed[i] = (said - task.exponent) * task.distance
    away: list[Any] = [None] * len(every)
    wide: list[Any] = [None] * len(every)
    for group in groups:
        others = [i for i, task in enumerate(every) if task.group != group]
        spread = learn_spread([every[i] for i in others], [missed[i] for i in others])
        for i, task in enumerate(every):
            if task.group == group:
                wide[i] = np.maximum(spread.at(task.rows), 0.01)
                away[i] = np.abs(missed[i]) / wide[i]
    for fraction in (4, 2):
        chosen = [i for i, task in enumerate(every) if task.fraction == fraction]
        errors = [100 * np.mean(np.abs(np.exp(missed[i]) - 1)) for i in chosen]
        held, width = [], []
        for i in chosen:
            rest = [away[j] for j, task in enumerate(every) if task.group != every[i].group]
            reach = factor(np.concatenate(rest))
            held += list(away[i] <= reach)
            width += list(np.exp(2 * reach * wide[i]))
        middle, tail = np.percentile(errors, [50, 90])
        print(
            f"{what} <= max/{fraction}: {len(chosen)} curves, off by {middle:.1f} / {tail:.1f} % "
            f"(median / p90), 80 % intervals hold {100 * np.mean(held):.0f} %, high/low "
            f"{np.median(width):.2f}"
        )
    return missed, factor(np.concatenate(away))


def main() -> None:
    """Judge, and write what all curves say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", nargs="?", type=Path, default=CURVES)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    learnt = {}
    for what in WHATS:
        known = tasks(given.curves, what) + (lines(what) if what == "tpot" else [])
        every = [task for task in known if task.fraction in (4, 2)]
        missed, reach = judge(what, known, every)
        learnt[what] = {
            "exponent": learn(known, what),
            "spread": learn_spread(every, missed),
            "factor": round(reach, 3),
        }
    if given.write:
        TARGET.write_bytes(msgspec.json.encode(learnt))


if __name__ == "__main__":
    sys.exit(main())
