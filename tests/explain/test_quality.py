"""Drifts of the quality, with their noise."""

import numpy as np
import pytest
from scipy import stats as reference

from nodewise.explain.quality import Drift, drawn_held, quality_drifts
from nodewise.study.study import Run, Study

SCALES = (1, 2, 4, 8)


def study(quality: dict[int, list[float]], rounds: dict[int, list[int]] | None = None) -> Study:
    runs = [
        Run(nodes=nodes, round=number, seconds=8 / nodes, quality=value)
        for nodes, values in quality.items()
        for number, value in zip((rounds or {}).get(nodes, range(99)), values, strict=False)
    ]
    return Study(name="q", regime="strong", runs=tuple(runs))


def noisy(seed: int, rounds: dict[int, int], drift: float = 0.0, noise: float = 0.01) -> Study:
    draw = np.random.default_rng(seed).normal
    values = {
        nodes: list(draw(0.87 + drift * (nodes == SCALES[-1]), noise, size=count))
        for nodes, count in rounds.items()
    }
    return study(values)


def states(made: Study, tolerance: float = 0.005, better: str = "same") -> list[str]:
    return [drift.state(tolerance, better) for drift in quality_drifts(made)]


def test_single_runs_decide_by_their_figures():
    made = study({1: [0.871], 2: [0.866], 4: [0.865], 8: [0.880]})
    assert states(made) == ["held", "held", "excluded", "excluded"]
    assert states(made, better="higher") == ["held", "held", "excluded", "held"]
    assert states(made, better="lower") == ["held", "held", "held", "excluded"]


@pytest.mark.parametrize("rounds", [3, 7])
def test_quality_that_does_not_drift_is_seldom_excluded(rounds):
    counts = dict.fromkeys(SCALES, rounds)
    wrong = sum("excluded" in states(noisy(seed, counts)) for seed in range(400))
    assert wrong / 400 < 0.05


def test_a_drift_beyond_the_noise_is_excluded():
    counts = dict.fromkeys(SCALES, 7)
    found = [states(noisy(seed, counts, drift=-0.06)) for seed in range(50)]
    assert sum(one[-1] == "excluded" for one in found) > 45
    quiet = noisy(1, counts, noise=0.001)
    assert states(quiet) == ["held"] * 4


def test_what_disturbs_a_round_cancels():
    rounds = np.array([0.0, 0.02, -0.03, 0.01, 0.04, -0.02])
    steady = study({1: list(0.87 + rounds), 2: list(0.871 + rounds), 4: list(0.85 + rounds)})
    assert states(steady) == ["held", "held", "excluded"]


def test_unequal_rounds_share_the_spread():
    once = noisy(3, {1: 1, 2: 7, 4: 7, 8: 7})
    assert set(states(once)) == {"held", "undecided"}
    counts = {1: 1, 2: 7, 4: 3, 8: 7}
    assert states(noisy(3, counts, drift=-0.2))[-1] == "excluded"
    wrong = sum("excluded" in states(noisy(seed, counts)) for seed in range(400))
    assert wrong / 400 < 0.05
    assert states(study({1: [0.9, 0.9], 2: [0.9, 0.9]}, {2: [1, 2]})) == ["held", "held"]


def test_rounds_that_would_decide():
    drift = quality_drifts(noisy(5, dict.fromkeys(SCALES, 7)))[1]
    assert drift.state(0.02, "same") == "undecided"
    rounds = drift.rounds_to_decide(0.02, "same")
    assert 7 < rounds < 40
    assert drift.rounds_to_decide(abs(drift.value), "same") is None


def test_quality_that_is_not_in_every_run_is_unknown():
    runs = (Run(nodes=1, round=0, seconds=2.0, quality=0.9), Run(nodes=2, round=0, seconds=1.0))
    assert quality_drifts(Study(name="q", regime="strong", runs=runs)) is None


def test_drawn_drifts_hold_as_often_as_the_t_test_says():
    drifts = (
        Drift(value=0.0, low=0.0, high=0.0),
        Drift(value=0.004, low=-0.02, high=0.03, spread=0.02, rounds=6, freedom=5),
        Drift(value=0.004, low=-0.02, high=0.03, spread=0.02, rounds=6, freedom=25),
        Drift(value=0.002, low=0.002, high=0.002),  # a single run decides as it stands
    )
    drawn = drawn_held(drifts, 0.005, "same", 20_000)
    expected = [drift.probability_held(0.005, "same") for drift in drifts]
    assert drawn.mean(axis=0) == pytest.approx(expected, abs=0.015)
    assert expected[0] == expected[3] == 1.0
    reach = 0.02 / np.sqrt(6)
    share = reference.t.cdf(0.001 / reach, 5) - reference.t.cdf(-0.009 / reach, 5)
    assert expected[1] == pytest.approx(share, abs=1e-6)
    both, one = (
        drawn_held(drifts, 0.005, "same", 20_000, more).mean(axis=0)[1]
        for more in ((500, 500, 500, 500), (0, 500, 500, 500))
    )
    assert both > one > drawn.mean(axis=0)[1]
