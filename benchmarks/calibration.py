"""Calibration: coverage of intervals and probabilities, and confident answers that are wrong.

    .venv/bin/python benchmarks/calibration.py           # about ten minutes on one core
    .venv/bin/python benchmarks/calibration.py --quick   # few studies, less than a minute

Every study is simulated from a known truth: Amdahl's law, costs that grow with log2 K or with K, an
uneven shard, a cache that larger scales fit into, and a job that never gets faster; strong and
weak; 2 to 10 rounds; noise of 1 to 20 %. A quarter of the studies each is plain, has outliers (one
run of 20 takes 2 to 3 times as long), drifts (all scales of a round share a factor), or has unequal
numbers of rounds. The truth of a time is the mean of its distribution, that of the printed seconds
its median. Below six rounds the printed bounds are the range of the runs, which holds the truth in
1 - 2^(1-rounds) of studies.

A recommendation is *wrong* where another scale is right under the true times AND the recommended
one loses more than 1 %: of the cost or the time that the objective compares, or by missing the
deadline, the budget or the cost threshold by more than 1 %. It is *confident* where its probability
is 95 % or more, nothing is undecided and the measurement is valid. The objective is the one that
the tool names.

A *false accusation* is a named cause where the truth holds another one that takes more, by more
than 1 % of the wall time. No cause named is no accusation. A wait of unknown kind counts as all
planted waits together.
"""

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import msgspec
import numpy as np

from nodewise.base.stats import Floats
from nodewise.decide.candidates import Candidates, Needs, candidates_of_study
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, ObjectiveName, judge, least_costs, picks
from nodewise.decide.payment.ways import on_demand
from nodewise.decide.prices.bill import Price, bill
from nodewise.decide.uncertainty import Regret, cost_bounds, likely, regret_of
from nodewise.explain.attribute import Attribution, Loss, attribute_timings
from nodewise.explain.laws import Growth, Law, growth_term
from nodewise.explain.predict.curve import fit_curve
from nodewise.explain.quality import quality_drifts
from nodewise.explain.scaling import Scaling, Timings, scale_timings, timings
from nodewise.explain.simulate import Detail, PlantedTruth, simulate
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Stage, Study

Kind = Literal["amdahl", "log2", "linear", "imbalance", "cache", "flat"]
Trouble = Literal["plain", "outliers", "drift", "unequal"]

KINDS: tuple[Kind, ...] = ("amdahl", "log2", "linear", "imbalance", "cache", "flat")
TROUBLES: tuple[Trouble, ...] = ("plain", "outliers", "drift", "unequal")
NOISES = (0.01, 0.03, 0.05, 0.10, 0.20)
SCALES = (1, 2, 4, 8, 16, 32)
MOST_ROUNDS = 10
STUDIES = 1000
BASE_SECONDS = 1000.0
NODE_PRICE = 2.0
OUTLIERS = 0.05  # of the runs
ENOUGH_ROUNDS = 6
SURE = 0.95
TOLERANCE = 0.01
GROUPS = {"2": (2, 2), "3-5": (3, 5), "6-7": (6, 7), "8-10": (8, 10)}
BINS = (0.0, 0.02, 0.05, 0.2, 0.5, 0.8, 0.95, 0.98, 1.0)
WAITS = ("load imbalance", "slow node", "jitter")
OBJECTIVES = get_args(ObjectiveName)
PLACES = ("headline: named", "headline: false", "every row: named", "every row: false")
GOALS = {"equal costs": 0.10, "confident and wrong": 0.01, "false accusations": 0.02}


class Truth(NamedTuple):
    """A law, and what disturbs its runs."""

    kind: Kind
    regime: Regime
    trouble: Trouble
    noise: float
    rounds: int
    seconds: Callable[[Floats], Floats]  # without noise, at k
    s: float
    c: float
    factors: Floats  # a large sample of what a run takes over `seconds`

    @property
    def mean(self) -> float:
        """Of the factors."""
        return 1 + OUTLIERS * 1.5 if self.trouble == "outliers" else 1.0

    def mean_seconds(self, k: Floats) -> Floats:
        """The true centre at each scale."""
        return np.asarray(self.mean * self.seconds(k))


class Trial(NamedTuple):
    """A study with its truth and what every command computes first."""

    truth: Truth
    study: Study
    times: Timings
    scaling: Scaling
    true: Timings  # of the true times, each run once


class Answer(NamedTuple):
    """A recommendation, and what the truth says of it."""

    judged: Judged
    regret: Regret | None
    among: list[int]  # that hold the right scale with 95 %
    right: int | None  # under the true times; None: no scale passes
    loss: float  # of the chosen scale, over the right one
    same_objective: bool  # the true times lead to the same objective

    @property
    def chosen(self) -> int | None:
        """The position of the recommended scale."""
        return self.judged.chosen

    @property
    def probability(self) -> float:
        """That it is right."""
        if self.chosen is None or self.regret is None:
            return math.nan
        return float(self.regret.share_right[self.chosen])

    @property
    def is_confident(self) -> bool:
        """Whether nothing in the answer speaks of doubt."""
        valid = self.judged.scales.validity.state == "valid"
        return self.probability >= SURE and len(self.among) == 1 and valid

    @property
    def is_wrong(self) -> bool:
        """Whether another scale is right, and that matters."""
        return self.chosen != self.right and self.loss > TOLERANCE


# Truths and studies


def true_law(kind: Kind, regime: Regime, s: float, c: float, extra: float) -> Callable[..., Floats]:
    """The seconds of a law at k, without noise."""
    weak = regime == "weak"

    def seconds(k: Floats) -> Floats:
        work = np.ones_like(k) if weak else s + (1 - s) / k
        if kind == "amdahl":
            work = k / (k - s * (k - 1)) if weak else work
        elif kind in ("log2", "linear"):
            work = work + c * growth_term("log2" if kind == "log2" else "linear", k)
        elif kind == "imbalance":
            factor = 1 + 2 * extra
            share = np.where(k > 1, factor / (factor + k - 1), 1.0)
            work = share * k if weak else share
        elif kind == "cache":
            gain = 0.1 + 0.3 * extra
            work = work * (1 - gain / (1 + np.exp(-2 * (np.log2(k) - 2))) + gain / (1 + np.e**4))
        else:
            work = np.ones_like(k)
        return np.asarray(BASE_SECONDS * work)

    return seconds


def factors(generator: np.random.Generator, truth: Truth, count: int) -> Floats:
    """What runs of one scale take over the law; of mean 1 without outliers."""
    noise = truth.noise
    made = np.exp(noise * generator.standard_normal(count) - noise**2 / 2)
    if truth.trouble == "outliers":
        hit = generator.random(count) < OUTLIERS
        made = made * np.where(hit, generator.uniform(2, 3, count), 1.0)
    return np.asarray(made)


def drawn_truth(generator: np.random.Generator) -> Truth:
    """A law and its troubles, each kind alike."""
    kind = KINDS[generator.integers(len(KINDS))]
    regime: Regime = "weak" if generator.random() < 1 / 3 else "strong"
    s = 0.0 if kind == "flat" else float(10 ** generator.uniform(-2.3, -0.8))
    if kind in ("log2", "linear"):
        s = 0.3 * s
    c = {"log2": 10 ** generator.uniform(-3, -1.3), "linear": 10 ** generator.uniform(-4, -2)}
    strength = float(c.get(kind, 0.0))
    truth = Truth(
        kind=kind,
        regime=regime,
        trouble=TROUBLES[generator.integers(len(TROUBLES))],
        noise=float(generator.choice(NOISES)),
        rounds=int(generator.integers(2, MOST_ROUNDS + 1)),
        seconds=true_law(kind, regime, s, strength, float(generator.random())),
        s=s,
        c=strength,
        factors=np.ones(1),
    )
    sample = factors(generator, truth, 20_000)
    if truth.trouble == "drift":
        sample = sample * shared_factors(generator, truth, 20_000)
    return truth._replace(factors=sample)


def shared_factors(generator: np.random.Generator, truth: Truth, rounds: int) -> Floats:
    """What all scales of a round share, of mean 1: as wide as the noise, 5 % at least."""
    width = max(truth.noise, 0.05)
    return np.asarray(np.exp(width * generator.standard_normal(rounds) - width**2 / 2))


def study_of(
    truth: Truth, generator: np.random.Generator, scales: tuple[int, ...] = SCALES
) -> Study:
    """Runs of a truth."""
    centers = truth.seconds(np.array(scales, dtype=np.float64) / scales[0])
    shared = np.ones(truth.rounds)
    if truth.trouble == "drift":
        shared = shared_factors(generator, truth, truth.rounds)
    runs = []
    for nodes, center in zip(scales, centers, strict=True):
        kept = truth.rounds
        if truth.trouble == "unequal":
            kept = int(generator.integers(max(1, truth.rounds - 3), truth.rounds + 1))
            kept = max(kept, 2) if nodes == scales[-1] else kept
        seconds = center * factors(generator, truth, kept) * shared[:kept]
        runs += [Run(nodes=nodes, round=at, seconds=float(t)) for at, t in enumerate(seconds)]
    return Study(name="simulated", regime=truth.regime, runs=tuple(runs))


def exact_study(truth: Truth, scales: tuple[int, ...] = SCALES) -> Study:
    """The true centres, each as one run."""
    centers = truth.mean_seconds(np.array(scales, dtype=np.float64) / scales[0])
    runs = tuple(
        Run(nodes=nodes, round=0, seconds=float(center))
        for nodes, center in zip(scales, centers, strict=True)
    )
    return Study(name="true", regime=truth.regime, runs=runs)


def trial_of(
    truth: Truth, generator: np.random.Generator, scales: tuple[int, ...] = SCALES
) -> Trial:
    """A simulated study and its tables."""
    study = study_of(truth, generator, scales)
    times = timings(study)
    true = timings(exact_study(truth, scales))
    return Trial(truth, study, times, scale_timings(study, times), true)


# The recommendation


def questions(trial: Trial, generator: np.random.Generator) -> dict[str, Question]:
    """One question for each objective, with limits that some scales keep and others do not."""
    fixed = float(generator.choice([0.0, 10.0]))
    price = Price(per_node_hour=NODE_PRICE, fixed_per_hour=fixed)
    seconds, nodes = trial.true.seconds, np.array(trial.true.nodes, dtype=np.float64)
    # one outlier in 20 runs: no deadline below twice the time is kept with 95 %
    confidence = 0.90 if trial.truth.trouble == "outliers" else SURE
    longest = seconds * float(np.quantile(trial.truth.factors, confidence)) / trial.truth.mean
    bills = bill(price, NODE_PRICE * nodes, seconds).billed

    def between(values: Floats) -> float:
        low, high = math.log(1.02 * values.min()), math.log(1.1 * values.max())
        return math.exp(generator.uniform(low, high))

    needs = {
        "lowest bill plus waiting": Needs(value_per_hour=float(10 ** generator.uniform(0, 2))),
        "cheapest within the deadline": Needs(
            deadline_seconds=between(longest), deadline_confidence=confidence
        ),
        "fastest within the budget": Needs(budget=between(bills)),
    }
    overhead = Price(per_node_hour=NODE_PRICE, fixed_per_hour=float(generator.uniform(10, 60)))
    return {
        **{name: Question(price=price, needs=one) for name, one in needs.items()},
        "cheapest": Question(price=overhead),
        "fastest worth its cost": Question(price=Price(per_node_hour=NODE_PRICE)),
    }


def true_scales(scales: Candidates, trial: Trial, question: Question) -> Candidates:
    """The candidates with their true times."""
    true, deadline = trial.true, question.needs.deadline_seconds
    in_time = None
    if deadline is not None:
        latest = deadline / (true.seconds / trial.truth.mean)
        in_time = np.array([float(np.mean(trial.truth.factors <= one)) for one in latest])
    return msgspec.structs.replace(
        scales,
        seconds=true.seconds,
        speedup=true.speedup(true.seconds),
        efficiency=true.efficiency(true.seconds),
        noise=None,
        margins=None,
        bounds=None,
        in_time=in_time,
        fitted_base_seconds=true.fitted_base_seconds,
    )


def answer_to(scales: Candidates, trial: Trial, question: Question) -> Answer:
    """The recommendation as `decide` makes it, and what the truth says of it."""
    question = msgspec.structs.replace(question, price=scales.price)
    hired = on_demand(scales, scales.price, question.needs, question.payment)
    judged = judge(hired.scales, hired.bills, question)
    regret = regret_of(judged, question, scales.noise)
    among = []
    if regret is not None and judged.chosen is not None:
        among = likely(regret.share_right, judged.chosen)
    known = true_scales(scales, trial, question)
    exact = on_demand(known, scales.price, question.needs, question.payment)
    truth = judge(exact.scales, exact.bills, question, judged.objective)
    same = judge(exact.scales, exact.bills, question).objective.name == judged.objective.name
    right = right_scale(truth, question)
    loss = loss_of(truth, question, judged.chosen, right, trial.truth)
    return Answer(judged, regret, among, right, loss, same)


def right_scale(truth: Judged, question: Question) -> int | None:
    """The scale that the objective takes under the true times."""
    where = np.flatnonzero(truth.allowed)
    if not len(where):
        return None
    scales = truth.scales
    found = picks(
        truth.objective,
        question,
        truth.reference_bill[None, where],
        truth.unit_cost[None, where],
        scales.speedup[None, where],
        [scales.nodes[at] for at in where],
        scales.relative_work[where],
    )
    return int(where[found[0]])


def loss_of(
    truth: Judged, question: Question, chosen: int | None, right: int | None, law: Truth
) -> float:
    """What the chosen scale loses over the right one, relative; a missed limit is a loss too."""
    if chosen is None or right is None:
        return 0.0 if chosen == right else math.inf if right is None else math.nan
    name, needs, scales = truth.objective.name, question.needs, truth.scales
    values = truth.unit_bill
    over = 0.0
    if name == "lowest bill plus waiting":
        values = truth.unit_cost
    elif name == "cheapest within the deadline":
        factor = float(np.quantile(law.factors, needs.deadline_confidence)) / law.mean
        over = float(scales.seconds[chosen]) * factor / (needs.deadline_seconds or math.inf) - 1
    elif name == "fastest within the budget":
        values = 1 / scales.speedup
        over = float(truth.bills.billed[chosen]) / (needs.budget or math.inf) - 1
    elif name == "fastest worth its cost":
        values = 1 / scales.speedup
        reference = truth.reference_bill
        over = needs.threshold * float(reference[chosen] / reference[truth.allowed].min()) - 1
    return max(float(values[chosen] / values[right]) - 1, over, 0.0)


# Tallies


class Share(NamedTuple):
    """Cases of all, with the bounds that hold the true share with 95 % (Wilson)."""

    cases: int
    of: int

    @property
    def value(self) -> float:
        """The share."""
        return self.cases / self.of if self.of else 0.0

    def __str__(self) -> str:
        """As it is printed."""
        if not self.of:
            return "none of 0"
        n, p, z = self.of, self.value, 1.96
        middle, half = p + z * z / 2 / n, z * math.sqrt(p * (1 - p) / n + (z / 2 / n) ** 2)
        low, high = (max(0.0, (middle + side * half) / (1 + z * z / n)) for side in (-1, 1))
        return f"{self.cases} of {self.of} ({p:.1%}, {low:.1%} to {high:.1%})"


class Tally:
    """Hits of what was expected, by row and column of a table."""

    def __init__(self) -> None:
        """Nothing counted yet."""
        self.expected: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.found: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, column: str, expected: float, found: float) -> None:
        """One case: how likely it was said to be, and whether it came true."""
        self.expected[row, column].append(expected)
        self.found[row, column].append(found)

    def cell(self, row: str, column: str) -> str:
        """Expected and found, and the number of cases."""
        cases = self.found.get((row, column))
        if not cases:
            return "-"
        return f"{np.mean(self.expected[row, column]):4.0%} {np.mean(cases):4.0%} ({len(cases)})"

    def share(self, row: str = "", column: str = "") -> Share:
        """All cases of a row, or of a column."""
        cases = [
            one
            for (of, at), some in self.found.items()
            if row in ("", of) and column in ("", at)
            for one in some
        ]
        return Share(round(sum(cases)), len(cases))

    def table(self, title: str, columns: list[str]) -> list[str]:
        """A line for each row."""
        rows = list(dict.fromkeys(row for row, _ in self.found))
        lines = [title, f"  {'':34}" + "".join(f"{column:>20}" for column in columns)]
        for row in rows:
            cells = "".join(f"{self.cell(row, column):>20}" for column in columns)
            lines.append(f"  {row:34}{cells}")
        return lines


def group_of(rounds: int) -> str:
    """The column of a number of rounds."""
    return next(name for name, (low, high) in GROUPS.items() if low <= rounds <= high)


def bin_of(probability: float) -> str:
    """The column of a probability."""
    at = int(np.searchsorted(BINS[1:-1], probability, side="right"))
    return f"{BINS[at]:.0%} to {BINS[at + 1]:.0%}"


def bin_names() -> list[str]:
    """All columns of probabilities."""
    return [f"{low:.0%} to {high:.0%}" for low, high in pairwise(BINS)]


def nominal(rounds: int) -> float:
    """The share of truths that a printed interval should hold."""
    return SURE if rounds >= ENOUGH_ROUNDS else 1 - 2.0 ** (1 - rounds)


def holds(low: float | None, high: float | None, truth: float) -> bool:
    """Whether an interval holds the truth; rounding decides nothing."""
    assert low is not None and high is not None
    slack = 1e-9 * abs(truth)
    return low - slack <= truth <= high + slack


# Intervals


class Intervals(NamedTuple):
    """Coverage by the number of rounds, and by what disturbed six rounds or more."""

    by_rounds: Tally
    by_trouble: Tally

    def add(
        self,
        row: str,
        trial: Trial,
        rounds: int,
        low: float | None,
        high: float | None,
        true: float,
    ) -> None:
        """One interval; those that are not printed are not counted."""
        if low is None or high is None or math.isnan(low):
            return
        held = holds(low, high, true)
        self.by_rounds.add(row, group_of(rounds), nominal(rounds), held)
        if rounds >= ENOUGH_ROUNDS:
            self.by_trouble.add(row, trial.truth.trouble, SURE, held)


def count_intervals(trial: Trial, intervals: Intervals) -> None:
    """Seconds, speedup, knee and laws of one study."""
    truth, times, scaling = trial.truth, trial.times, trial.scaling
    medians = truth.seconds(times.k) * float(np.median(truth.factors))
    speedups = times.speedup(trial.true.seconds)
    for at, row in enumerate(scaling.rows):
        ends = row.seconds_low, row.seconds_high
        intervals.add("seconds", trial, row.rounds, *ends, float(medians[at]))
        both = min(row.rounds, scaling.rows[0].rounds)
        if at:
            ends = row.speedup_low, row.speedup_high
            intervals.add("speedup, efficiency", trial, both, *ends, float(speedups[at]))
    if scaling.knee is not None:
        exact = scale_timings(exact_study(truth), trial.true)
        knee = float(exact.knee or times.nodes[-1])
        intervals.add("knee", trial, times.rounds, scaling.knee_low, scaling.knee_high, knee)
    laws, weak = scaling.laws, truth.regime == "weak"
    if truth.kind == "amdahl":
        fit = laws.gustafson if weak else laws.amdahl
        assert fit is not None
        intervals.add("law: s of Amdahl", trial, times.rounds, fit.s_low, fit.s_high, truth.s)
    elif truth.kind in ("log2", "linear"):
        fit = laws.log2 if truth.kind == "log2" else laws.universal
        assert fit is not None
        name = f"of {truth.kind}"
        intervals.add(f"law: c {name}", trial, times.rounds, fit.c_low, fit.c_high, truth.c)
        if not weak:
            intervals.add(f"law: s {name}", trial, times.rounds, fit.s_low, fit.s_high, truth.s)


def count_costs(trial: Trial, scales: Candidates, question: Question, intervals: Intervals) -> None:
    """The bounds of the bill."""
    bounds = cost_bounds(scales, question)
    if bounds is None:
        return
    true = bill(scales.price, scales.rate_per_hour, trial.true.seconds).billed
    for at, samples in enumerate(trial.times.samples):
        if len(samples) > 1:
            ends = float(bounds[0][at]), float(bounds[1][at])
            intervals.add("cost", trial, len(samples), *ends, float(true[at]))


def count_predictions(trial: Trial, tally: Tally) -> None:
    """Unmeasured scales: between the measured ones, at twice and at four times the largest."""
    curve = fit_curve(trial.study, times=trial.times)
    last = trial.times.nodes[-1]
    places = {"between": 12, "twice the largest": 2 * last, "four times": 4 * last}
    for place, nodes in places.items():
        made = curve.at(nodes)
        if made is None:
            continue
        k = np.array([nodes / trial.times.nodes[0]])
        true = float(trial.truth.mean_seconds(k)[0])
        column = group_of(trial.truth.rounds)
        tally.add(f"prediction 80 %, {place}", column, 0.80, holds(made.low80, made.high80, true))
        tally.add(f"prediction 95 %, {place}", column, 0.95, holds(made.low95, made.high95, true))


def count_quality(studies: int, generator: np.random.Generator, tally: Tally) -> None:
    """Drifts of the quality, all scales of a study together."""
    for _ in range(studies):
        rounds = int(generator.integers(2, MOST_ROUNDS + 1))
        drifts = np.append(0.0, generator.uniform(-0.01, 0.01, 3))
        spread = float(10 ** generator.uniform(-3, -1.5))
        unequal = generator.random() < 0.25
        runs = []
        for nodes, drift in zip((1, 2, 4, 8), drifts, strict=True):
            kept = int(generator.integers(2, rounds + 1)) if unequal else rounds
            quality = 0.87 + drift + spread * generator.standard_normal(kept)
            runs += [
                Run(nodes=nodes, round=at, seconds=1.0, quality=float(one))
                for at, one in enumerate(quality)
            ]
        found = quality_drifts(Study(name="quality", regime="strong", runs=tuple(runs)))
        assert found is not None
        held = [holds(one.low, one.high, float(d)) for one, d in zip(found, drifts, strict=True)]
        tally.add("quality drift, all scales", group_of(rounds), SURE, all(held))


# Probabilities


def count_probabilities(trial: Trial, answer: Answer, question: Question, tally: Tally) -> None:
    """What one answer says of its scales, against the truth."""
    regret = answer.regret
    if regret is None or answer.chosen is None:
        return
    scales = answer.judged.scales
    row = "recommended.probability"
    tally.add(row, bin_of(answer.probability), answer.probability, answer.chosen == answer.right)
    for at, share in enumerate(regret.share_right):
        tally.add("P(right)", bin_of(float(share)), float(share), at == answer.right)
    if question.needs.deadline_seconds is None and question.needs.budget is None:
        billed = bill(scales.price, scales.rate_per_hour, trial.true.seconds).billed
        exact = (billed / scales.relative_work)[None, :]
        least = int(least_costs(exact, trial.true.speedup(trial.true.seconds)[None, :])[0])
        for at, share in enumerate(regret.share_cheapest):
            tally.add("P(cheapest)", bin_of(float(share)), float(share), at == least)
    if scales.in_time is not None:
        known = true_scales(scales, trial, question).in_time
        assert known is not None
        for share, true in zip(scales.in_time, known, strict=True):
            tally.add("deadline_probability", bin_of(float(share)), float(share), float(true))


def count_bend(trial: Trial, tally: Tally) -> None:
    """How likely each scale is the first below the threshold."""
    bend = trial.scaling.bend
    below = trial.true.efficiency(trial.true.seconds) < bend.threshold
    first = str(trial.true.nodes[int(below.argmax())]) if below.any() else "none"
    for name in (*map(str, trial.times.nodes[1:]), "none"):
        share = bend.shares.get(name, 0.0)
        tally.add("bend shares", bin_of(share), share, name == first)


# Equal costs


def equal_costs(studies: int, generator: np.random.Generator, tally: Tally) -> None:
    """Two scales of equal true cost, alone or among dearer ones; is one called the cheapest?"""
    question = Question(price=Price(per_node_hour=NODE_PRICE), needs=Needs(value_per_hour=0.0))
    attributions: dict[tuple[int, ...], Attribution] = {}
    for at in range(studies):
        rounds = 2 + at % 6
        alone = generator.random() < 0.5
        scales = (4, 8) if alone else (1, 2, 4, 8, 16)
        dear = np.ones(2) if alone else np.array([1.6, 1.3, 1.0, 1.0, 1.5])
        costs = dict(zip(scales, dear, strict=True))
        truth = drawn_truth(generator)._replace(
            rounds=rounds,
            regime="strong",
            seconds=lambda k, costs=costs, first=scales[0]: np.array(
                [BASE_SECONDS * costs[round(one * first)] / one for one in k]
            ),
        )
        study = study_of(truth, generator, scales)
        times = timings(study)
        if times.noise is None:
            continue
        if scales not in attributions:  # the causes take no part in this
            attributions[scales] = attribute_timings(study, times, scale_timings(study, times))
        candidates = candidates_of_study(study, times, attributions[scales], question)
        hired = on_demand(candidates, candidates.price, question.needs, question.payment)
        judged = judge(hired.scales, hired.bills, question)
        regret = regret_of(judged, question, times.noise)
        assert regret is not None
        pair = [scales.index(4), scales.index(8)]
        called = max(float(regret.share_right[one]) for one in pair) >= SURE
        tally.add("one of the two called", str(rounds), 0.10, called)
        tally.add(f"  {truth.trouble}", str(rounds), 0.10, called)


# Causes


class Planted(NamedTuple):
    """A study, and the seconds that each cause takes at each scale."""

    study: Study
    losses: dict[str, Floats]
    seconds: Floats  # true, at each scale
    rounds: int


def planted_study(detail: Detail, overlaps: bool, generator: np.random.Generator) -> Planted:
    """Serial work or one kind of waiting, and communication, each of random size."""
    wait = generator.choice(["", "load imbalance", "slow node", "jitter"], p=[0.4, 0.3, 0.15, 0.15])
    # a serial part on one rank runs beside the lateness of another: plant one of them
    s = float(10 ** generator.uniform(-2.5, -0.8)) if wait in ("", "load imbalance") else 0.0
    c = float(10 ** generator.uniform(-3.5, -1.5)) if generator.random() < 0.8 else 0.0
    growth: Growth = "log2" if generator.random() < 0.5 else "linear"
    if growth == "linear":
        c = c / 3
    regime: Regime = "weak" if generator.random() < 0.25 else "strong"
    rounds = int(generator.integers(2, MOST_ROUNDS + 1))
    scales = (1, 2, 4, 8, 16)
    plan = PlantedTruth(
        law=Law(s=s, c=c, growth=growth, regime=regime, base_seconds=BASE_SECONDS),
        scales=scales,
        rounds=rounds,
        noise=float(generator.choice(NOISES[:4])),
        jitter=float(generator.uniform(0.03, 0.2)) if wait == "jitter" else 0.0,
        shard_factor=float(generator.uniform(1.1, 2.5)) if wait == "load imbalance" else 1.0,
        slow_node_factor=float(generator.uniform(1.1, 2.0)) if wait == "slow node" else 1.0,
        detail=detail,
        seed=int(generator.integers(2**31)),
    )
    k = np.array(scales, dtype=np.float64)
    grown = k if regime == "weak" else np.ones_like(k)
    even = (1 - s) * BASE_SECONDS * grown / k
    losses: dict[str, Floats] = {
        "serial fraction": BASE_SECONDS * s * (1 - 1 / k)
        if regime == "strong"
        else np.zeros_like(k),
        "communication": BASE_SECONDS * c * growth_term(growth, k),
    }
    several = k > 1
    if wait == "load imbalance":
        share = plan.shard_factor / (plan.shard_factor + k - 1)
        losses[wait] = np.where(several, even * (share * k - 1), 0.0)
    elif wait == "slow node":
        losses[wait] = np.where(several, even * (plan.slow_node_factor - 1), 0.0)
    elif wait == "jitter":
        peaks = [generator.standard_normal((4000, int(n))).max(axis=1).mean() for n in k]
        losses[wait] = np.where(several, even * plan.jitter * np.array(peaks), 0.0)
    ideal = BASE_SECONDS * (np.ones_like(k) if regime == "weak" else 1 / k)
    study = disturbed(simulate(plan), generator)
    if overlaps:
        study = overlapped(study, float(generator.uniform(0.1, 0.8)))
    return Planted(study, losses, ideal + sum(losses.values()), rounds)


def disturbed(study: Study, generator: np.random.Generator) -> Study:
    """In a third of the studies outliers, in a third rounds that drift."""
    kind = generator.integers(3)
    shared = np.exp(0.05 * generator.standard_normal(MOST_ROUNDS))
    runs = []
    for run in study.runs:
        factor = 1.0
        if kind == 1 and generator.random() < OUTLIERS:
            factor = float(generator.uniform(2, 3))
        elif kind == 2:
            factor = float(shared[run.round])
        runs.append(longer(run, factor))
    return msgspec.structs.replace(study, runs=tuple(runs))


def longer(run: Run, factor: float) -> Run:
    """A run in which everything takes so many times as long."""

    def scaled(stages: dict[Stage, float]) -> dict[Stage, float]:
        return {stage: factor * seconds for stage, seconds in stages.items()}

    ranks = tuple(msgspec.structs.replace(rank, stages=scaled(rank.stages)) for rank in run.ranks)
    return msgspec.structs.replace(
        run, seconds=factor * run.seconds, stages=scaled(run.stages), ranks=ranks
    )


def overlapped(study: Study, hidden: float) -> Study:
    """Communication that also runs beside this share of the compute; it costs nothing there."""
    runs = []
    for run in study.runs:
        stages = dict(run.stages)
        if run.nodes > 1:
            stages["communication"] += hidden * stages["compute"]
        runs.append(msgspec.structs.replace(run, stages=stages))
    return msgspec.structs.replace(study, runs=tuple(runs))


def taken(planted: Planted, cause: str, at: int) -> float:
    """The true seconds of a named cause; waiting of unknown kind is all waits together."""
    if cause in ("idle", "late rank"):
        return sum(float(planted.losses[one][at]) for one in WAITS if one in planted.losses)
    return float(planted.losses[cause][at]) if cause in planted.losses else 0.0


EVIDENCE: dict[str, tuple[Detail, bool]] = {
    "bare times": ("timings", False),
    "stage totals": ("stages", False),
    "stage totals, overlapping": ("stages", True),
    "stages of each rank": ("ranks", False),
}


def accusations(studies: int, generator: np.random.Generator, causes: Tally, folds: Tally) -> None:
    """Causes that are named, and the coverage of their folds."""
    for evidence, (detail, overlaps) in EVIDENCE.items():
        for _ in range(studies // (2 if detail == "ranks" else 1)):
            planted = planted_study(detail, overlaps, generator)
            times = timings(planted.study)
            scaling = scale_timings(planted.study, times)
            found = attribute_timings(planted.study, times, scaling)
            bend = scaling.bend.first_below or times.nodes[-1]
            for at, row in enumerate(found.rows):
                if not at:
                    continue
                named = row.dominant_cause if row.dominant_cause != "unexplained" else None
                most = max(float(one[at]) for one in planted.losses.values())
                gap = most - taken(planted, named, at) if named else 0.0
                false = gap > TOLERANCE * float(planted.seconds[at])
                where = ["every row"]
                if row.nodes == bend:
                    where.append("headline")
                for place in where:
                    causes.add(evidence, f"{place}: false", GOALS["false accusations"], false)
                    causes.add(evidence, f"{place}: named", 1.0, named is not None)
                count_folds(planted, row.causes, at, evidence, folds)


def count_folds(
    planted: Planted, losses: tuple[Loss, ...], at: int, evidence: str, tally: Tally
) -> None:
    """Whether the bounds of the folds hold what was planted."""
    k = float(planted.study.scales[at])
    for loss in losses:
        if loss.cause in planted.losses and loss.folds_low is not None:
            true = k * float(planted.losses[loss.cause][at]) / float(planted.seconds[at])
            if true > 0:
                held = holds(loss.folds_low, loss.folds_high, true)
                tally.add(f"folds, {evidence}", group_of(planted.rounds), SURE, held)


# The report


class Reported(NamedTuple):
    """What the report keeps of an answer."""

    objective: str
    trouble: str
    rounds: int
    is_given: bool
    is_confident: bool
    is_wrong: bool
    same_objective: bool
    loss: float


def recommendations(
    studies: int, generator: np.random.Generator, intervals: Intervals, chances: Tally
) -> Iterator[Reported]:
    """Answers to all questions on every study, counted on the way."""
    for number in range(studies):
        trial = trial_of(drawn_truth(generator), generator)
        count_intervals(trial, intervals)
        count_bend(trial, chances)
        if number % 4 == 0:
            count_predictions(trial, intervals.by_rounds)
        attribution = attribute_timings(trial.study, trial.times, trial.scaling)
        for name, question in questions(trial, generator).items():
            scales = candidates_of_study(trial.study, trial.times, attribution, question)
            answer = answer_to(scales, trial, question)
            if name == "cheapest":
                count_costs(trial, scales, question, intervals)
            count_probabilities(trial, answer, question, chances)
            yield Reported(
                answer.judged.objective.name,
                trial.truth.trouble,
                trial.times.rounds,
                answer.chosen is not None,
                answer.is_confident,
                answer.is_wrong,
                answer.same_objective,
                answer.loss,
            )


def report_answers(answers: list[Reported]) -> list[str]:
    """Regret, and confident wrong answers, by objective, by trouble and by rounds."""
    groups = {name: [one for one in answers if one.objective == name] for name in OBJECTIVES}
    groups |= {name: [one for one in answers if one.trouble == name] for name in TROUBLES}
    groups |= {
        f"{name} rounds": [one for one in answers if group_of(one.rounds) == name]
        for name in GROUPS
    }
    lines = [
        "Recommendations: regret under the true times, confident answers, wrong ones of these",
        f"  {'':30}{'answers':>8}{'median':>8}{'90 %':>8}{'confident':>11}  wrong of the confident",
    ]
    for name, some in {**groups, "all": answers}.items():
        given = [one for one in some if one.is_given]
        if not given:
            continue
        sure = [one for one in given if one.is_confident]
        losses = [one.loss for one in given]
        wrong = Share(sum(one.is_wrong for one in sure), len(sure))
        lines.append(
            f"  {name:30}{len(given):8}{np.median(losses):8.1%}{np.quantile(losses, 0.9):8.1%}"
            f"{len(sure) / len(given):11.0%}  {wrong}"
        )
    other = Share(sum(not one.same_objective for one in answers), len(answers))
    return [*lines, f"  the true times lead to another objective: {other}"]


def main() -> None:
    """Simulate, count, print, and fail where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few studies")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    begin = time.monotonic()
    size = 0.06 if given.quick else 1.0
    generator = np.random.default_rng(given.seed)
    intervals, chances, equal, causes = Intervals(Tally(), Tally()), Tally(), Tally(), Tally()
    answers = list(recommendations(round(STUDIES * size), generator, intervals, chances))
    count_quality(round(4 * STUDIES * size), generator, intervals.by_rounds)
    equal_costs(round(3 * STUDIES * size), generator, equal)
    accusations(round(STUDIES / 3 * size), generator, causes, intervals.by_rounds)
    title = "Intervals by rounds: share that should hold the truth, share found (cases)"
    lines = intervals.by_rounds.table(title, list(GROUPS))
    title = "Intervals of six rounds or more, by what disturbs the runs"
    lines += ["", *intervals.by_trouble.table(title, list(TROUBLES))]
    title = "Probabilities: mean of the bin, share found (cases)"
    lines += ["", *chances.table(title, bin_names())]
    title = "Equal true costs, one called with P >= 95 %, by rounds: nominal, found (cases)"
    lines += ["", *equal.table(title, [str(rounds) for rounds in range(2, 8)])]
    lines += ["", *report_answers(answers), ""]
    title = "Causes at the bend and in every row: named; false accusations: goal, found (cases)"
    lines += causes.table(title, [*PLACES])
    found = {
        "equal costs": equal.share("one of the two called"),
        "confident and wrong": Share(
            sum(one.is_wrong for one in answers if one.is_confident),
            sum(one.is_confident for one in answers),
        ),
        "false accusations": causes.share(column="headline: false"),
    }
    lines.append("")
    for name, goal in GOALS.items():
        state = "kept" if found[name].value <= goal else "MISSED"
        lines.append(f"{name}: {found[name]}, goal at most {goal:.0%}: {state}")
    lines.append(f"{time.monotonic() - begin:.0f} s")
    print("\n".join(lines))
    sys.exit(any(found[name].value > goal for name, goal in GOALS.items()))


if __name__ == "__main__":
    main()
