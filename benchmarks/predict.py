"""Prediction accuracy: T(K) from the smallest quarter or half of published curves.

    .venv/bin/python benchmarks/predict.py [curves.csv] [--families] [--calibrate] [--extrap FOLDER]

Trains on K <= Kmax/4 and K <= Kmax/2 (at least three scales) and predicts the rest. The error of a
curve is the mean of |predicted/measured - 1| over its predicted points; each curve weighs the same.
No coefficient of the prediction is fitted to these curves, though its design was chosen on them.
The factors of the intervals are fitted, so coverage and width are cross-validated: each family of
studies is judged by factors learnt on the others.

Without a table it reads ../shared/data/curves-dev.csv, or the few curves in benchmarks/data.
`--calibrate` prints the factors to be written into `nodewise.explain.predict.curve`;
`--extrap` fits Extra-P from PyPI beside it, in a virtual environment of its own that is made in
FOLDER. What stage times add is in stage_times.py.
"""

import argparse
import collections
import csv
import json
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares, nnls

from nodewise.base.stats import Floats
from nodewise.explain.predict import curve as predict
from nodewise.explain.predict.laws import PLAIN_LAWS, Ladder, drift, fit_plain

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "data"
LADDERS = {"quarter": 4.0, "half": 2.0}
SEED = 7


class Published(NamedTuple):
    """One curve of the table."""

    name: str
    regime: str
    metric: str
    nodes: Floats
    values: Floats

    @property
    def family(self) -> str:
        """The collection it comes from: sister curves must not teach the factors that judge it."""
        return self.name.split("-")[0]

    def unit_seconds(self) -> Floats:
        """Seconds for a unit of work."""
        if self.metric == "throughput":
            return 1 / self.values
        return self.values / self.nodes if self.regime == "weak" else self.values


class Task(NamedTuple):
    """What a predictor is asked: the larger scales of a curve, from the smaller ones."""

    curve: Published
    known: int

    @property
    def ladder(self) -> Ladder:
        """The scales to learn from."""
        nodes = self.curve.nodes[: self.known]
        unit = self.curve.unit_seconds()[: self.known]
        return Ladder(nodes, np.log(unit), np.zeros(self.known), self.curve.regime)

    @property
    def asked(self) -> Floats:
        """The scales to predict."""
        return self.curve.nodes[self.known :]

    @property
    def truth(self) -> Floats:
        """ln(seconds for a unit of work) there."""
        return np.log(self.curve.unit_seconds()[self.known :])

    def error(self, log_unit: Floats) -> float:
        """The mean relative error in the curve's own metric."""
        sign = -1 if self.curve.metric == "throughput" else 1
        return float(np.mean(np.abs(np.expm1(sign * (log_unit - self.truth)))))


Predictor = Callable[[Task], Floats]


def read(path: Path) -> list[Published]:
    """The curves of a table, medians of repeats."""
    found: dict[str, list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            found.setdefault(row["curve_id"], []).append(row)
    curves = []
    for name, rows in found.items():
        nodes = np.array(sorted({float(row["K"]) for row in rows}))
        values = [
            np.median([float(row["value"]) for row in rows if float(row["K"]) == k]) for k in nodes
        ]
        first = rows[0]
        curves.append(Published(name, first["regime"], first["metric"], nodes, np.array(values)))
    return curves


def tasks(curves: Sequence[Published], fraction: float) -> list[Task]:
    """Each curve cut at Kmax/fraction."""
    made = []
    for curve in curves:
        known = max(3, int(np.sum(curve.nodes <= curve.nodes[-1] / fraction)))
        if known < len(curve.nodes):
            made.append(Task(curve, known))
    return made


# ---- the laws as others fit them ----------------------------------------------------------------


def amdahl(task: Task) -> Floats:
    """One parameter, relative errors, the first point taken as measured."""
    k, y, asked = _relative(task)
    x = (1 - 1 / k) / y
    s = float(np.clip(x @ (1 - 1 / (k * y)) / (x @ x), 0, 1))
    return s + (1 - s) / asked


def gustafson(task: Task) -> Floats:
    """Scaled speedup k - s*(k-1)."""
    k, y, asked = _relative(task)
    x = (k - 1) * y
    s = float(np.clip(x @ (k * y - 1) / (x @ x), 0, 1))
    return 1 / np.maximum(asked - s * (asked - 1), 1e-9)


def universal(task: Task) -> Floats:
    """Three parameters by iterated least squares on throughput, as the R package usl does."""
    k, y, asked = _relative(task)

    def slowdown(p: Floats, k: Floats) -> Floats:
        return (1 + p[1] * (k - 1) + p[2] * k * (k - 1)) / (p[0] * k)

    starts = ([1, 0.01, 1e-4], [1, 0.2, 1e-3], [1.05, 0.0, 0.01])
    fits = [
        least_squares(
            lambda p: 1 / slowdown(p, k) - 1 / y,
            start,
            bounds=([1e-3, 0, 0], [10, 1, 10]),
            x_scale=[1, 0.1, 0.01],
            max_nfev=400,
        )
        for start in starts
    ]
    return slowdown(min(fits, key=lambda fit: fit.cost).x, asked)


def log2(task: Task) -> Floats:
    """T1*(s + (1-s)/k + c*log2 k), relative errors, the first point taken as measured."""
    k, y, asked = _relative(task)
    design = np.stack([1 - 1 / k, np.log2(k)], 1) / y[:, None]
    goal = (y - 1 / k) / y
    s, c = nnls(design, goal)[0]
    if s > 1:
        s, c = 1.0, float(nnls(design[:, 1:], goal - design[:, 0])[0][0])
    return s + (1 - s) / asked + c * np.log2(asked)


def ernest(task: Task) -> Floats:
    """Ernest's features of the job's time, non-negative."""
    k, y, asked = _relative(task)
    weak = task.curve.regime == "weak"

    def features(k: Floats) -> Floats:
        n = k * task.curve.nodes[0]
        rows = [np.ones_like(n), np.log(n), n] if weak else [np.ones_like(n), 1 / n, np.log(n), n]
        return np.stack(rows, 1)

    design = features(k)
    size = design.max(0)
    solved = nnls(design / size, y * k if weak else y)[0]
    said = features(asked) / size @ solved
    return said / asked if weak else said


def power(task: Task) -> Floats:
    """A straight line on log-log paper."""
    k, y, asked = _relative(task)
    slope, level = np.polyfit(np.log(k), np.log(y), 1)
    return np.exp(level + slope * np.log(asked))


def last_exponent(task: Task) -> Floats:
    """The line through the last two points."""
    k, y, asked = _relative(task)
    slope = np.log(y[-1] / y[-2]) / np.log(k[-1] / k[-2])
    return y[-1] * (asked / k[-1]) ** slope


def _relative(task: Task) -> tuple[Floats, Floats, Floats]:
    first = task.curve.nodes[0]
    unit = np.exp(task.ladder.y - task.ladder.y[0])
    return task.ladder.nodes / first, unit, task.asked / first


def _logged(law: Predictor) -> Predictor:
    """In logarithms, and within 10 times of ideal and 1000 times of the first point."""

    def predictor(task: Task) -> Floats:
        ladder = task.ladder
        ideal = np.exp(ladder.y[-1]) * ladder.nodes[-1] / task.asked
        said = law(task) * np.exp(ladder.y[0])
        return np.log(np.clip(said, ideal / 10, 1000 * np.exp(ladder.y[0])))

    return predictor


SEVEN: dict[str, Predictor] = {
    law.__name__: _logged(law)
    for law in (amdahl, universal, log2, ernest, power, last_exponent, gustafson)
}


def median_of_seven(task: Task) -> Floats:
    """The best known before: fixed laws, no choice."""
    return np.median([law(task) for law in SEVEN.values()], axis=0)


# ---- ours ---------------------------------------------------------------------------------------


def ours(task: Task) -> Floats:
    """The answer of `predict.Curve`."""
    return predict.Curve(task.ladder).log_times(task.asked)[0]


def _ours_alone(name: str) -> Predictor:
    if name == "drift":
        return lambda task: drift(task.ladder, np.log(task.asked))
    return lambda task: fit_plain(name, task.ladder).at(np.log(task.asked))


PARTS: dict[str, Predictor] = {
    f"ours: {law} alone": _ours_alone(law) for law in (*PLAIN_LAWS, "drift")
}


# ---- scores -------------------------------------------------------------------------------------


def score(
    name: str, errors: Floats, reference: Floats, families: list[str], cpu: float, one: float
) -> None:
    """One row: middle, tail, and the paired comparison with the median of seven."""
    gap = errors - reference
    told = np.abs(gap) > 1e-9
    better = 100 * np.mean(gap[told] < 0) if told.any() else 0.0
    low, high = _resampled_median(gap, families)
    middle, tail = 100 * np.percentile(errors, [50, 90])
    print(
        f"  {name:22} median {middle:6.1f} %   p90 {tail:6.1f} %"
        f"   {cpu:6.2f} ms, {cpu / one:4.0f} x ernest"
        f"   better than the median of seven on {better:3.0f} % of {told.sum():3d}"
        f"   difference {100 * np.median(gap):+5.1f} [{100 * low:+.1f}, {100 * high:+.1f}] points"
    )


def by_family(asked: Sequence[Task], reference: Floats) -> None:
    """Ours and the median of seven in each family."""
    errors = np.array([task.error(ours(task)) for task in asked])
    for family in sorted({task.curve.family for task in asked}):
        mine = np.array([task.curve.family == family for task in asked])
        own, seven = 100 * np.median(errors[mine]), 100 * np.median(reference[mine])
        print(
            f"      {family:14} {mine.sum():3d} curves: median {own:6.1f} %, of the median of seven"
            f" {seven:6.1f} %"
        )


def _resampled_median(values: Floats, families: list[str]) -> tuple[float, float]:
    """90 % bounds of the median when whole families are drawn anew."""
    names = sorted(set(families))
    groups = [values[[family == name for family in families]] for name in names]
    generator = np.random.default_rng(SEED)
    drawn = [
        np.median(
            np.concatenate([groups[i] for i in generator.integers(0, len(names), len(names))])
        )
        for _ in range(400)
    ]
    low, high = np.percentile(drawn, [5, 95])
    return float(low), float(high)


def cpu_ms(predictor: Predictor, asked: Sequence[Task]) -> float:
    """Processor milliseconds of a fit, the least of three, in the middle of 40 tasks."""

    def once(task: Task) -> float:
        start = time.process_time_ns()
        predictor(task)
        return (time.process_time_ns() - start) / 1e6

    step = max(1, len(asked) // 40)
    return float(np.median([min(once(task) for _ in range(3)) for task in asked[::step]]))


class Miss(NamedTuple):
    """By how many spreads each point of a task was missed, and how wide a spread is."""

    family: str
    ladder: str
    spreads_away: Floats
    spread: Floats


def misses(curves: Sequence[Published]) -> list[Miss]:
    """For every task."""
    found = []
    for ladder, fraction in LADDERS.items():
        for task in tasks(curves, fraction):
            answer, spread = predict.Curve(task.ladder).log_times(task.asked)
            away = np.abs(task.truth - answer) / spread
            found.append(Miss(task.curve.family, ladder, away, spread))
    return found


def factors(learnt: Sequence[Miss]) -> tuple[float, ...]:
    """How many spreads hold each share of the points; each family has one vote."""
    away = np.concatenate([miss.spreads_away for miss in learnt])
    sisters = collections.Counter(miss.family for miss in learnt)
    weight = np.concatenate(
        [np.full(len(m.spread), 1 / len(m.spread) / sisters[m.family]) for m in learnt]
    )
    order = np.argsort(away)
    share = np.cumsum(weight[order]) / weight.sum()
    return tuple(float(np.interp(level, share, away[order])) for level in predict.LEVELS[1:])


def intervals(curves: Sequence[Published]) -> None:
    """Coverage and width, each family judged by factors learnt on the others."""
    every = misses(curves)
    levels = dict(zip(predict.LEVELS[1:], range(len(predict.LEVELS) - 1), strict=True))
    learnt = {
        family: factors([miss for miss in every if miss.family != family])
        for family in {miss.family for miss in every}
    }
    shipped = predict.FACTORS[1:]
    for ladder in LADDERS:
        chosen = [miss for miss in every if miss.ladder == ladder]
        for level in (0.8, 0.95):
            said = f"  {ladder:8} {100 * level:.0f} % interval:"
            for name in ("cross-validated", "as shipped"):
                reach = [
                    (learnt[miss.family] if name == "cross-validated" else shipped)[levels[level]]
                    for miss in chosen
                ]
                held = [np.mean(m.spreads_away <= r) for m, r in zip(chosen, reach, strict=True)]
                width = [
                    np.median(np.exp(2 * m.spread * r)) for m, r in zip(chosen, reach, strict=True)
                ]
                each = collections.defaultdict(list)
                for miss, share in zip(chosen, held, strict=True):
                    each[miss.family].append(share)
                alike = np.mean([np.mean(shares) for shares in each.values()])
                said += (
                    f"  {name} holds {100 * np.mean(held):.1f} % (each family alike"
                    f" {100 * alike:.1f} %), high/low {np.median(width):.2f}"
                )
            print(said)


# ---- Extra-P ------------------------------------------------------------------------------------

EXTRAP = """
import json, sys, time
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.modelers.single_parameter.basic import SingleParameterModeler
out = []
for nodes, seconds, asked in json.load(sys.stdin):
    start = time.process_time_ns()
    modeler = SingleParameterModeler()
    modeler.allow_negative_exponents = True
    points = [Measurement(Coordinate(k), Callpath("m"), Metric("t"), [t])
              for k, t in zip(nodes, seconds)]
    function = modeler.create_model(points).hypothesis.function
    said = [float(function.evaluate(k)) for k in asked]
    out.append([said, (time.process_time_ns() - start) / 1e6])
json.dump(out, sys.stdout)
"""


def extrap(folder: Path, asked: Sequence[Task]) -> tuple[list[Floats], float]:
    """Extra-P with negative exponents (without them time cannot fall), and its milliseconds."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "extrap"], check=True)
    given = []
    for task in asked:
        grown = task.curve.regime == "weak"
        ladder = task.ladder
        job = np.exp(ladder.y - ladder.y[0]) * (ladder.nodes / ladder.nodes[0] if grown else 1.0)
        given.append([ladder.nodes.tolist(), job.tolist(), task.asked.tolist()])
    done = subprocess.run(
        [python, "-W", "ignore", "-c", EXTRAP],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    said, spent = [], []
    for task, (job, ms) in zip(asked, json.loads(done.stdout), strict=True):
        grown = task.asked / task.curve.nodes[0] if task.curve.regime == "weak" else 1.0
        unit = np.array(job) / grown * np.exp(task.ladder.y[0])
        ideal = np.exp(task.ladder.y[-1]) * task.ladder.nodes[-1] / task.asked
        said.append(np.log(np.clip(unit, ideal / 10, 1000 * np.exp(task.ladder.y[0]))))
        spent.append(ms)
    return said, float(np.median(spent))


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", type=Path)
    parser.add_argument("--families", action="store_true", help="ours by family as well")
    parser.add_argument("--calibrate", action="store_true", help="print the factors and stop")
    parser.add_argument("--extrap", type=Path, metavar="FOLDER", help="score Extra-P as well")
    given = parser.parse_args()
    table = given.table or SHARED / "curves-dev.csv"
    if not table.exists():
        table = HERE / "data" / "curves.csv"
    curves = read(table)
    if given.calibrate:
        print("FACTORS =", (0.0, *(round(factor, 2) for factor in factors(misses(curves)))))
        return
    print(f"{Path(table).name}: {len(curves)} curves of {len({c.family for c in curves})} families")
    for ladder, fraction in LADDERS.items():
        asked = tasks(curves, fraction)
        families = [task.curve.family for task in asked]
        print(f"\nFrom the smallest {ladder} of the ladder, K <= Kmax/{fraction:g}")
        reference = np.array([task.error(median_of_seven(task)) for task in asked])
        every = SEVEN | {"median of seven": median_of_seven} | PARTS | {"nodewise": ours}
        one = cpu_ms(SEVEN["ernest"], asked)
        for name, predictor in every.items():
            errors = np.array([task.error(predictor(task)) for task in asked])
            score(name, errors, reference, families, cpu_ms(predictor, asked), one)
        if given.families:
            by_family(asked, reference)
        if given.extrap:
            said, spent = extrap(given.extrap, asked)
            errors = np.array([task.error(log) for task, log in zip(asked, said, strict=True)])
            score("Extra-P", errors, reference, families, spent, one)
    print("\nIntervals")
    intervals(curves)


if __name__ == "__main__":
    sys.exit(main())
