"""What a decision makes of an invalid or doubtful measurement, and of noisy quality."""

import msgspec
import numpy as np
import pytest

from nodewise.decide.candidates import Needs
from nodewise.decide.decide import Decision, decide
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain.laws import Law
from nodewise.explain.quality import quality_drifts
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.tables import rubric_table
from nodewise.report.text.findings import verdict
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table

PRICED = Question(price=Price(per_node_hour=2.0))
SLOW = {1: 1600.0, 2: 515.0, 4: 272.5, 8: 151.25, 16: 90.6, 32: 60.3}
CACHED = {1: 1000.0, 2: 450.0, 4: 200.0, 8: 115.0, 16: 80.0}


def study(seconds: dict[int, float], rounds: int = 1, seed: int = 3, **fields) -> Study:
    draw = np.random.default_rng(seed)
    noise = 0.02 * (rounds > 1)
    runs = tuple(
        Run(nodes=k, round=at, seconds=value * float(draw.normal(1, noise)), **fields)
        for at in range(rounds)
        for k, value in seconds.items()
    )
    return Study(name="job", regime="strong", runs=runs)


def cost_of(decision: Decision, nodes: int) -> float:
    return decision.row(nodes).cost


@pytest.mark.parametrize("rounds", [1, 7])
def test_a_slow_base_does_not_sell_more_nodes(rounds):
    decision = decide(study(SLOW, rounds), PRICED)
    assert decision.recommended.nodes == 8
    assert decision.fitted_base_seconds == pytest.approx(1000, rel=0.03)
    assert decision.row(8).efficiency == pytest.approx(1.322, rel=0.03)  # as it was measured
    assert "at efficiency 0.8" in decision.claim
    assert "fitted at K=1; measured: 26m" in decision.claim
    assert "T(1) is 1.6 times what the curve implies; judged against" in verdict(decision)


@pytest.mark.parametrize("rounds", [1, 7])
def test_caches_that_beat_the_base_do_not_sell_dear_nodes(rounds):
    """K=4 is the cheapest; K=16 keeps 0.78 of K=1 and costs 1.6 times K=4."""
    decision = decide(study(CACHED, rounds), PRICED)
    chosen = decision.recommended.nodes
    assert cost_of(decision, chosen) <= cost_of(decision, 4) / 0.70
    assert decision.fitted_base_seconds is None
    assert "faster than ideal at K=2, 4, 8: a cache effect, or a slow T(1)" in verdict(decision)


def test_an_honest_base_is_kept():
    moved = 0
    for seed in range(40):
        plan = PlantedTruth(law=Law(s=0.03, c=0.001), rounds=7, seed=seed, noise=0.02)
        moved += decide(simulate(plan), PRICED).fitted_base_seconds is not None
    assert moved <= 4


def test_an_invalid_measurement_has_no_recommendation():
    made = study(SLOW, work=8.0)
    weak = msgspec.structs.replace(made, regime="weak")
    decision = decide(weak, PRICED)
    assert decision.validity.state == "invalid"
    assert decision.recommended.nodes is None
    assert decision.claim is None
    assert decision.cheapest is None
    assert decision.would_change == ()
    assert {row.refused_by for row in decision.rows} == {"validity"}
    assert verdict(decision) == (
        "no answer: the work contradicts weak scaling: 8 at K=1, 8 at K=32"
    )
    assert decision.recommended.because == decision.validity.clause
    assert decide(made, PRICED).recommended.nodes == 8


def test_a_scale_that_failed_is_in_the_headline_and_the_rubric():
    made = study({1: 10.0, 2: 5.5, 8: 2.0}, rounds=3)
    failed = Run(nodes=4, round=0, seconds=1.0, outcome="out of memory")
    decision = decide(msgspec.structs.replace(made, runs=(*made.runs, failed)), PRICED)
    assert [(one.nodes, one.outcome) for one in decision.failed] == [(4, "out of memory")]
    assert "doubtful: every run failed at K=4 (out of memory)" in verdict(decision)
    rows = rubric_table(decision).rows
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert rows[2][-1] == "failed: out of memory"


def noisy_quality(seed: int, drift: float = 0.0) -> Study:
    made = study({1: 1000.0, 2: 515.0, 4: 272.0, 8: 151.0}, rounds=7, seed=seed)
    draw = np.random.default_rng(seed)
    runs = tuple(
        msgspec.structs.replace(
            run, quality=float(draw.normal(0.87 + drift * (run.nodes == 8), 0.01))
        )
        for run in made.runs
    )
    return msgspec.structs.replace(made, runs=runs)


def test_noise_of_the_quality_excludes_nothing():
    wrong = 0
    for seed in range(60):
        decision = decide(noisy_quality(seed), PRICED)
        wrong += any(row.excluded for row in decision.rows)
    assert wrong < 3
    decision = decide(noisy_quality(1), PRICED)
    assert decision.recommended.nodes == 8
    assert decision.quality.state == "undecided"
    row = decision.row(8)
    assert row.quality_state == "undecided"
    assert row.quality_drift_low < row.quality - decision.row(1).quality < row.quality_drift_high
    (check,) = [check for check in decision.checks if check.key == "quality"]
    assert check.verdict == "warn"
    assert "rounds" in check.remedy
    assert "drift between" in decision.claim


def test_the_certainty_of_a_choice_counts_its_quality():
    """A scale that most likely drifts too far, but not beyond all doubt, is not a sure choice."""
    likely_worse = noisy_quality(1, drift=-0.015)
    decision = decide(likely_worse, PRICED)
    assert decision.row(8).quality_state == "undecided"
    drift = quality_drifts(likely_worse)[3]
    held = drift.probability_held(0.005, "same")
    assert held < 0.3
    assert decision.recommended.nodes == 8
    assert decision.recommended.probability == pytest.approx(held, abs=0.03)
    assert 8 in decision.recommended.undecided
    assert "; quality undecided at K=8" in verdict(decision)
    wide = Question(price=PRICED.price, needs=Needs(quality_tolerance=0.05))
    sure = decide(likely_worse, wide)
    assert (sure.recommended.nodes, sure.recommended.undecided) == (8, ())
    assert "quality" not in verdict(sure)


def test_rounds_decide_the_quality_at_the_scale_and_at_the_smallest():
    """The drift of K=2 lies outside the tolerance by less than its noise; K=1 is the other end."""
    off = np.array([0.0, -1.2, 1.2, 0.7, -0.7])
    runs = []
    for nodes, seconds, drift, turn in ((1, 100.0, 0.0, 0), (2, 51.0, 0.02, 2)):
        for at, noise in enumerate(np.roll(off, turn)):
            quality = 0.8 + drift + 0.01 * float(noise)
            runs.append(Run(nodes=nodes, round=at, seconds=seconds, quality=quality))
    advice = decide(Study(name="drift", regime="strong", runs=tuple(runs)), PRICED).recommended
    assert advice.undecided == (1, 2)
    assert advice.repeat == (1, 2)
    assert 1 <= advice.rounds_to_decide <= 10


def test_no_scale_is_proposed_that_likely_loses_quality():
    """From 0.868 at K=4 to 0.863 at K=8 the tolerance is crossed near K=6."""
    rows = "K,time_s,quality\n1,1000,0.870\n2,520,0.869\n4,280,0.868\n8,160,0.863\n"
    better = decide(parse_table(rows), PRICED).better
    assert better is None or better.nodes == 5
    assert better is None or better.probability < 0.95
    held = decide(parse_table(rows.replace("0.863", "0.867")), PRICED)
    assert held.recommended.nodes == 8


def test_a_real_drift_is_excluded_and_not_claimed():
    decision = decide(noisy_quality(1, drift=-0.08), PRICED)
    assert decision.row(8).refused_by == "quality"
    assert decision.recommended.nodes == 4
    held = Needs(quality_tolerance=0.05)
    claimed = decide(noisy_quality(1, drift=-0.08), Question(price=PRICED.price, needs=held)).claim
    assert "with quality held at 0.8" in claimed


def test_the_claim_counts_no_excluded_scale():
    rows = "K,time_s,quality\n1,10,0.870\n2,5.1,0.863\n4,2.6,0.869\n8,2.4,0.870\n"
    decision = decide(parse_table(rows), PRICED)
    assert decision.recommended.nodes == 4
    assert decision.row(2).excluded
    assert "with quality held at 0.869 (drift 0.001 at most)" in decision.claim
