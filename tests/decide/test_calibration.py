"""How often an answer is more certain than its runs; benchmarks/calibration.py counts more."""

import numpy as np
import pytest
from benchmarks.calibration import (
    GOALS,
    SURE,
    Intervals,
    Tally,
    accusations,
    answer_to,
    drawn_truth,
    equal_costs,
    questions,
    recommendations,
    trial_of,
)

from nodewise.decide.candidates import Needs, candidates_of_study
from nodewise.decide.decide import Decision, decide
from nodewise.decide.forecast import advise
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain.attribute import attribute_timings
from nodewise.study.study import Run, Study

SPREAD = np.array([0.0, -1.2, 1.2, 0.7, -0.7, 0.3, -0.3])  # of seven rounds, times the noise


def study(seconds: dict[int, float], noise: float, rounds: int) -> Study:
    """Rounds at every scale; the noise of one says nothing about that of another."""
    runs = []
    for at, (nodes, center) in enumerate(seconds.items()):
        for number, off in enumerate(np.roll(SPREAD[:rounds], at)):
            runs.append(Run(nodes=nodes, round=number, seconds=center * (1 + noise * off)))
    return Study(name="rounds", regime="strong", runs=tuple(runs))


def asked(seconds: dict[int, float], noise: float, rounds: int = 7, **needs: float) -> Decision:
    question = Question(price=Price(per_node_hour=3600.0), needs=Needs(**needs))  # $1 a node-second
    return decide(study(seconds, noise, rounds), question)


def test_a_scale_that_breaks_the_budget_by_less_than_the_noise_may_be_right():
    seconds = {4: 100.0, 8: 60.0}  # bills of 400 and 480
    near = asked(seconds, 0.05, budget=477.0).recommended
    assert near.nodes == 4
    assert near.probability < 0.8
    assert near.undecided == (4, 8)
    assert near.rounds_to_decide is None  # so near to the limit a hundred rounds do not help
    clear = asked(seconds, 0.05, budget=430.0).recommended
    assert (clear.nodes, clear.undecided) == (4, ())
    assert clear.probability >= SURE


def test_a_scale_that_may_keep_the_deadline_may_be_right():
    seconds = {4: 100.0, 8: 60.0}
    near = asked(seconds, 0.03, deadline_seconds=104.0)
    row = near.row(4)
    assert row.excluded
    assert 0.8 < row.deadline_probability < SURE
    assert near.recommended.nodes == 8
    assert near.recommended.undecided == (4, 8)
    assert near.row(4).probability_right > 0.05
    clear = asked(seconds, 0.03, deadline_seconds=80.0).recommended
    assert (clear.nodes, clear.undecided, clear.probability) == (8, (), 1.0)


def test_rounds_that_would_decide_may_decide_for_the_other_scale():
    near = asked({4: 100.0, 8: 60.0}, 0.05, rounds=3, deadline_seconds=114.0)
    assert near.recommended.nodes == 8  # three rounds do not show that K=4 keeps the deadline
    assert near.row(4).probability_right > near.row(8).probability_right
    assert near.recommended.rounds_to_decide is not None


PRICE = Question(price=Price(per_node_hour=2.0))


def drawn_runs(
    centers: dict[int, float], noise: float, rounds: dict[int, int], seed: int
) -> tuple[Run, ...]:
    generator = np.random.default_rng(seed)
    return tuple(
        Run(
            nodes=nodes,
            round=at,
            seconds=float(centers[nodes] * np.exp(noise * generator.standard_normal())),
        )
        for nodes, count in rounds.items()
        for at in range(count)
    )


def decided_after(runs: tuple[Run, ...], decision: Decision, seed: int) -> bool:
    """Whether the proposed rounds decide, with centres and spreads as measured."""
    generator = np.random.default_rng(seed)
    more = []
    for nodes in decision.recommended.repeat:
        logs = np.log([run.seconds for run in runs if run.nodes == nodes])
        spread = logs.std(ddof=1) if len(logs) > 1 else 0.02
        for at in range(decision.recommended.rounds_to_decide):
            seconds = float(np.exp(logs.mean() + spread * generator.standard_normal()))
            more.append(Run(nodes=nodes, round=100 + at, seconds=seconds))
    return not decide(
        Study(name="more", regime="strong", runs=(*runs, *more)), PRICE
    ).recommended.undecided


@pytest.mark.parametrize(
    ("serial", "noise", "rounds"),
    [
        (0.03, 0.02, {1: 5, 2: 5, 4: 5, 8: 5, 16: 5}),
        (0.045, 0.02, {1: 1, 2: 2, 4: 9, 8: 9, 16: 3, 32: 9}),
    ],
)
def test_the_proposed_rounds_decide_in_most_cases(serial, noise, rounds):
    centers = {nodes: 1000 * (serial + (1 - serial) / nodes) for nodes in rounds}
    cases = []
    for seed in range(16):
        runs = drawn_runs(centers, noise, rounds, seed)
        decision = decide(Study(name="rounds", regime="strong", runs=runs), PRICE)
        if decision.recommended.rounds_to_decide is not None:
            cases += [decided_after(runs, decision, seed=100 + seed + at) for at in range(3)]
    assert len(cases) >= 9
    assert sum(cases) >= 0.65 * len(cases), sum(cases) / len(cases)


def test_the_scale_that_others_are_compared_with_is_repeated_and_paid_for():
    """A single run at K=1 is what every efficiency is taken over: its noise is the doubt."""
    seconds = {1: 1000.0, 2: 520.0, 4: 280.0, 8: 170.0}
    runs = [run for run in study(seconds, 0.03, 7).runs if run.nodes > 1 or run.round == 0]
    once = Study(name="once", regime="strong", runs=tuple(runs))
    found = decide(once, PRICE)
    advice = found.recommended
    assert len(advice.undecided) > 1
    assert 1 in advice.repeat
    bills = sum(found.row(nodes).cost for nodes in advice.repeat)
    assert advice.cost_to_decide == pytest.approx(advice.rounds_to_decide * bills)
    step = advise(once, PRICE)
    assert (step.repeat, step.rounds) == (advice.repeat, advice.rounds_to_decide)
    # 280 s and 170 s are clearly different times: only which one is worth its cost is open
    assert step.because == "the runs so far do not decide between K=4 and 8"


def test_the_benchmark_asks_as_decide_does():
    generator = np.random.default_rng(2)
    for _ in range(4):
        trial = trial_of(drawn_truth(generator), generator)
        attribution = attribute_timings(trial.study, trial.times, trial.scaling)
        for question in questions(trial, generator).values():
            scales = candidates_of_study(trial.study, trial.times, attribution, question)
            answer = answer_to(scales, trial, question)
            decision = decide(trial.study, question)
            assert decision.objective == answer.judged.objective
            if answer.chosen is None:
                assert decision.recommended.nodes is None
            else:
                assert decision.recommended.nodes == scales.nodes[answer.chosen]
                assert decision.recommended.probability == pytest.approx(answer.probability)


@pytest.mark.slow
def test_of_two_equal_costs_one_is_rarely_called():
    called = Tally()
    equal_costs(300, np.random.default_rng(11), called)
    assert called.share("one of the two called").value <= 1.5 * GOALS["equal costs"]


@pytest.mark.slow
def test_confident_recommendations_are_rarely_wrong():
    answers = list(
        recommendations(100, np.random.default_rng(12), Intervals(Tally(), Tally()), Tally())
    )
    confident = [one for one in answers if one.is_confident]
    assert len(confident) > 0.2 * len(answers)
    assert sum(one.is_wrong for one in confident) <= 0.03 * len(confident)


@pytest.mark.slow
def test_no_cause_is_named_where_another_takes_more():
    causes = Tally()
    accusations(24, np.random.default_rng(13), causes, Tally())
    assert causes.share(column="headline: false").value <= 2 * GOALS["false accusations"]
    assert causes.share("stage totals", "headline: named").value > 0.5
    assert causes.share("stages of each rank", "headline: named").value > 0.5
