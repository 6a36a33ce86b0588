import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.decide import Needs, decide, decide_law
from nodewise.errors import SpecError
from nodewise.laws import Law
from nodewise.prices import Alternatives, Price
from nodewise.simulate import Plan, simulate
from nodewise.study import Run
from nodewise.table import parse_table
from tests.conftest import golden_study

DOLLARS = Price(per_node_hour=3.20)


@given(st.integers(0, 200), st.floats(1.01, 5.0), st.integers(1, 40))
def test_a_dominated_scale_never_changes_the_cheapest(seed, factor, extra):
    """Slower and dearer than some scale that is there: it must not matter."""
    law = Law(s=0.03, c=0.0015, base_seconds=3600.0)
    study = simulate(Plan(law=law, rounds=3, seed=seed, scales=(1, 2, 4, 8, 16)))
    price = Price(per_node_hour=2.10, fixed_per_hour=9.0)
    before = decide(study, price)
    nodes = 16 + extra
    slow = factor * max(run.seconds for run in study.at(16))
    added = tuple(Run(nodes=nodes, round=number, seconds=slow, work=1e6) for number in range(3))
    after = decide(msgspec.structs.replace(study, runs=study.runs + added), price)
    assert after.cheapest.nodes == before.cheapest.nodes
    assert nodes not in after.frontier


def test_cheapest_scale_does_not_depend_on_the_price_without_an_overhead():
    study = golden_study("breakdown")
    for price in (0.01, 3.2, 500.0):
        decision = decide(study, Price(per_node_hour=price, startup_seconds=30))
        assert decision.cheapest.nodes == 1
        assert {one.nodes for one in decision.regimes} == {1}
        assert "do not move" in decision.cheaper_nodes


def test_two_deployments_and_what_each_gives_up():
    decision = decide(golden_study("breakdown"), DOLLARS)
    dollars, latency = decision.deployments
    assert (dollars.nodes, latency.nodes) == (1, 8)
    assert "9.9 min a run" in dollars.gives_up
    assert latency.gives_up == "$0.754 a run, 2.06 times the cheapest"
    assert any("K=6 and K=12" in change for change in decision.would_change)


def test_the_claim_stands_on_measured_numbers_and_names_the_cause():
    study = parse_table(
        "K,time_s,rate_per_hour,quality,work\n1,3600,1,0.871,1200000\n8,560,8,0.871,1200000\n"
        "16,340,16,0.870,1200000\n32,250,32,0.871,1200000\n",
        "rag",
    )
    assert decide(study).claim == (
        "rag (strong scaling) scales to 8 nodes at efficiency 0.804 (6.43x over K=1, 1.00 h), with "
        "quality held at 0.871 (drift 0.000 at most), and a cost of $1.244 a run, $1.037e-06 per "
        "unit of work; beyond that, at K=16 with efficiency 0.662, the serial fraction makes "
        "further scaling uneconomic."
    )
    assert decide_law(Law(s=0.03), 8, DOLLARS).claim is None


def test_quality_at_the_edge_of_the_tolerance_is_held():
    rows = "K,time_s,quality\n1,10,0.871\n2,6,0.866\n4,4,0.865\n"
    excluded = [row.excluded for row in decide(parse_table(rows)).rows]
    assert excluded == [False, False, True]


def test_deadline_budget_and_the_gate_that_nobody_passes():
    study = golden_study("breakdown")
    late = decide(study, DOLLARS, Needs(deadline_seconds=250))
    assert late.recommended.nodes == late.cheapest.nodes == 8
    assert late.row(4).excluded_because == "misses the deadline of 4.2 min"
    poor = decide(study, DOLLARS, Needs(budget=1.0))
    assert poor.fastest.nodes == 4
    nobody = decide(study, DOLLARS, Needs(deadline_seconds=100))
    assert nobody.recommended.nodes is None
    assert nobody.cheapest is None
    assert nobody.claim is None
    assert "K=8, misses the deadline" in nobody.recommended.because


def test_start_up_counts_against_the_deadline():
    needs = Needs(deadline_seconds=250)
    price = Price(per_node_hour=3.2, startup_seconds=60)
    assert decide(golden_study("breakdown"), price, needs).recommended.nodes is None


@pytest.mark.parametrize(
    ("minutes", "point", "safe"), [(9.0, 9, 11), (7.8, 12, 14), (7.2, 14, 18), (6.6, 18, None)]
)
def test_a_deadline_is_held_with_confidence_when_the_noise_is_known(minutes, point, safe):
    """At 5 % noise the scale whose expected time just meets it is in time for half of the runs."""
    price = Price(per_node_hour=2.10, fixed_per_hour=9.0)
    law = Law(s=0.03, c=0.0015, base_seconds=3600.0)
    needs = Needs(deadline_seconds=60 * minutes)
    # Of K=8 on, cost rises with K, so the smallest K in time is the cheapest.
    expected = decide_law(law, 64, price, needs)
    assert expected.recommended.nodes == point
    held = decide_law(law, 64, price, needs, noise=0.05)
    assert held.recommended.nodes == safe
    assert held.row(point).deadline_probability < 0.70
    if safe is None:
        assert max(row.deadline_probability for row in held.rows) == pytest.approx(0.83, abs=0.02)


def test_measured_runs_meet_a_deadline_as_often_as_they_did():
    rows = ["K,rep,time_s"] + [f"1,{rep},20" for rep in range(10)]
    rows += [f"2,{rep},{9 if rep < 7 else 13}" for rep in range(10)]
    rows += [f"4,{rep},7" for rep in range(10)]
    decision = decide(parse_table("\n".join(rows)), DOLLARS, Needs(deadline_seconds=11))
    assert decision.row(2).deadline_probability == pytest.approx(0.7, abs=0.1)
    assert decision.recommended.nodes == 4


def test_probabilities_sum_to_one_and_follow_the_noise():
    law = Law(s=0.03, c=0.0015, base_seconds=3600.0)
    price = Price(per_node_hour=2.10, fixed_per_hour=9.0)
    for noise, least in ((0.001, 0.99), (0.10, 0.0)):
        decision = decide(simulate(Plan(law=law, noise=noise, scales=(1, 4, 7, 8, 16))), price)
        shares = [row.probability_cheapest for row in decision.rows]
        assert sum(shares) == pytest.approx(1.0)
        assert max(shares) >= least
        regrets = [row.expected_regret for row in decision.rows]
        assert min(regrets) >= 0
        assert np.argmin(regrets) == np.argmax(shares) or noise > 0.05
    assert decide(golden_study("breakdown"), DOLLARS).rows[0].probability_cheapest is None


def test_the_fitted_scale_is_close_to_the_true_one_under_noise():
    """Choosing the cheapest measured point: no regret while noise is small."""
    law = Law(s=0.03, c=0.0015, base_seconds=3600.0)
    price = Price(per_node_hour=2.10, fixed_per_hour=9.0)
    right = 0
    for seed in range(100):
        plan = Plan(law=law, noise=0.05, rounds=3, seed=seed, scales=(1, 2, 4, 8, 16))
        right += decide(simulate(plan), price).cheapest.nodes == 8
    assert right >= 97


def test_weak_scaling_is_ranked_by_unit_of_work():
    study = parse_table("K,time_s,work\n1,100,1\n4,104,4\n16,140,16\n")
    decision = decide(study, Price(per_node_hour=1.0, fixed_per_hour=5.0))
    assert decision.cheapest.nodes == 16
    assert decision.row(16).cost_per_work < decision.row(1).cost_per_work


def test_owned_nodes_pay_only_when_they_are_used():
    idle = decide(golden_study("breakdown"), DOLLARS, alternatives=Alternatives(utilisation=0.4))
    owned = next(one for one in idle.regimes if one.regime == "owned")
    assert not owned.applies
    busy = decide(golden_study("breakdown"), DOLLARS, alternatives=Alternatives(utilisation=0.8))
    assert next(one for one in busy.regimes if one.regime == "owned").applies


def test_without_a_price_costs_are_node_hours_and_money_is_refused():
    decision = decide(golden_study("breakdown"))
    assert decision.price.currency == "node-h"
    assert decision.row(8).cost == pytest.approx(8 * 206 / 3600)
    with pytest.raises(SpecError, match="needs the price"):
        decide(golden_study("breakdown"), Price(fixed_per_hour=9))
    with pytest.raises(SpecError, match="needs the price"):
        decide_law(Law(s=0.1), 8, Price(), Needs(budget=3))


def test_a_price_overrides_the_column_and_says_so():
    decision = decide(golden_study("rubric"), Price(per_node_hour=2.0, source="a list, 2026-01-01"))
    assert decision.row(8).cost == pytest.approx(2.0 * 8 * 560 / 3600)
    assert any("rate_per_hour is not used" in note for note in decision.notes)
    assert not any("no source" in note for note in decision.notes)


def test_the_decision_carries_its_attribution():
    decision = decide(golden_study("breakdown"), DOLLARS)
    assert decision.attribution.dominant_cause == "communication"
    assert decision.cause == "communication"
    assert "communication" in decision.recommended.because


def test_where_no_scale_is_efficient_the_cheapest_is_taken():
    decision = decide(parse_table("K,time_s\n1,10\n2,9\n4,9\n"), DOLLARS)
    assert decision.recommended.nodes == 1
    slow_base = decide(parse_table("K,time_s,quality\n1,10,0.9\n2,9,0.9\n4,8,0.5\n"), DOLLARS)
    assert slow_base.recommended.nodes == 1
