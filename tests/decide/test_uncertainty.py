"""Ranges, regret, flips: what holds when prices are not known exactly."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.base.interval import Interval, parse_range
from nodewise.base.units import parse_amount, parse_fraction, parse_seconds
from nodewise.decide.candidates import Needs
from nodewise.decide.decide import decide, decide_law
from nodewise.decide.energy import NodePower, Site
from nodewise.decide.inputs import (
    RANGED,
    Question,
    value_of,
    with_range,
    with_value,
)
from nodewise.decide.payment.spot import Preemptions
from nodewise.decide.payment.ways import Payment
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.lookup import question_of
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.findings import find
from nodewise.study.spec import parse_file
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table
from tests.conftest import golden_study

LAW = Law(s=0.03, c=0.0015, base_seconds=3600.0)
TEXTBOOK = Question(price=Price(per_node_hour=2.10, fixed_per_hour=9.0))


@pytest.mark.parametrize(
    ("text", "parse", "ends"),
    [
        ("2.1..3.5", parse_amount, (2.1, 3.5)),
        ("$2..$3", parse_amount, (2, 3)),
        ("2.1", parse_amount, (2.1, 2.1)),
        ("1..5min", parse_seconds, (60, 300)),
        ("90s..5min", parse_seconds, (90, 300)),
        ("20..50%", parse_fraction, (0.2, 0.5)),
        ("1.5 .. 2", parse_amount, (1.5, 2)),
    ],
)
def test_a_range_is_two_numbers_and_their_unit(text, parse, ends):
    found = parse_range(text, parse)
    assert (found.low, found.high) == pytest.approx(ends)
    assert found.center == pytest.approx(sum(ends) / 2)


@pytest.mark.parametrize("text", ["3..2", "..3", "2..", "2..x", "2...3"])
def test_what_is_no_range(text):
    with pytest.raises(ValueError):
        parse_range(text, parse_amount)


def test_every_input_can_be_read_and_moved():
    question = msgspec.structs.replace(
        TEXTBOOK, payment=Payment(preemptions=Preemptions(per_second=1e-5))
    )
    for name in RANGED:
        assert value_of(with_value(question, name, 0.25), name) == 0.25
    assert value_of(Question(), "price") is None
    # a rate may be asked for where none was stated
    assert value_of(with_value(Question(), "preempt", 0.1), "preempt") == 0.1


def ranged(**ranges: tuple[float, float]) -> Question:
    question = TEXTBOOK
    for name, ends in ranges.items():
        question = with_range(question, name.replace("_", "-"), Interval(*ends))
    return question


def test_a_range_of_prices_gives_chances_and_regret():
    decision = decide_law(LAW, 64, ranged(price=(2.1, 3.5)))
    shares = {row.nodes: row.probability_cheapest for row in decision.rows}
    assert sum(shares.values()) == pytest.approx(1)
    # K=7 is the cheapest above $2.792, which is half of the way from 2.1 to 3.5
    assert shares[7] == pytest.approx((3.5 - 2.792) / 1.4, abs=0.03)
    assert shares[7] + shares[8] == pytest.approx(1)
    best = decision.recommended.nodes
    assert best == decision.least_regret.nodes
    regrets = [row.expected_regret for row in decision.rows]
    assert decision.row(best).expected_regret == min(regrets)
    row = decision.row(8)
    assert row.cost_low == pytest.approx(4.17315)
    assert row.cost_high == pytest.approx(row.cost_low + 1.4 * 8 * row.seconds / 3600)
    assert "least expected regret" in decision.recommended.because


def test_ranges_and_noise_come_together():
    study = simulate(PlantedTruth(law=LAW, noise=0.10, rounds=7, scales=(1, 4, 7, 8, 16)))
    noisy = decide(study, TEXTBOOK)
    both = decide(study, ranged(price=(1.0, 4.0), fixed=(4.0, 20.0)))
    assert max(row.probability_cheapest for row in both.rows) < max(
        row.probability_cheapest for row in noisy.rows
    )
    assert sum(row.probability_cheapest for row in both.rows) == pytest.approx(1)
    assert all(row.regret_p95 >= 0 for row in both.rows)


def test_a_deadline_is_held_against_the_longest_start_up():
    needs = Needs(deadline_seconds=600)
    known = msgspec.structs.replace(ranged(startup=(60.0, 60.0)), needs=needs)
    spread = msgspec.structs.replace(ranged(startup=(0.0, 120.0)), needs=needs)
    sure, unsure = (decide_law(LAW, 64, one, 0.05) for one in (known, spread))
    assert unsure.recommended.nodes > sure.recommended.nodes
    allowed = unsure.row(unsure.recommended.nodes)
    assert allowed.deadline_probability >= 0.95


@pytest.mark.slow
@settings(max_examples=25)
@given(st.floats(0.5, 20), st.floats(1, 50), st.floats(0.005, 0.1), st.floats(1e-4, 0.01))
def test_beyond_a_flip_another_scale_is_recommended_and_before_it_is_not(price, fixed, s, c):
    law = Law(s=s, c=c, base_seconds=3600.0)
    decision = decide_law(law, 64, Question(price=Price(per_node_hour=price, fixed_per_hour=fixed)))
    for flip in decision.flips:
        if flip.input == "threshold":
            continue
        field = {"price": "per_node_hour", "fixed": "fixed_per_hour"}[flip.input]
        hair = 1e-4 if flip.side == "above" else -1e-4
        for factor, nodes in ((1 - 2 * hair, decision.recommended.nodes), (1 + hair, flip.nodes)):
            given = msgspec.structs.replace(decision.price, **{field: flip.value * factor})
            assert decide_law(law, 64, Question(price=given)).recommended.nodes == nodes


def test_where_no_hour_has_a_price_the_threshold_flips_the_answer():
    decision = decide(golden_study("breakdown"), Question(price=Price(per_node_hour=3.2)))
    found = {flip.side: (flip.input, round(flip.value, 3), flip.nodes) for flip in decision.flips}
    assert found == {"above": ("threshold", 0.769, 2), "below": ("threshold", 0.485, 8)}
    for needs, nodes in ((Needs(threshold=0.77), 2), (Needs(threshold=0.48), 8)):
        moved = Question(price=Price(per_node_hour=3.2), needs=needs)
        assert decide(golden_study("breakdown"), moved).recommended.nodes == nodes


def test_the_tornado_names_the_input_that_moves_the_cheapest_scale_most():
    decision = decide_law(LAW, 64, ranged(fixed=(1.0, 50.0)))
    first = decision.tornado[0]
    assert (first.input, first.is_range) == ("fixed", True)
    assert (first.low_nodes, first.high_nodes) == (3, 15)  # as for the overhead alone
    assert {one.input for one in decision.tornado} == {"price", "fixed", "s", "c"}


def test_energy_is_a_gate_and_is_labelled():
    power = NodePower(idle_watts=350, busy_watts=350)
    site = Site(power=power, shared_watts=500.0)
    question = msgspec.structs.replace(TEXTBOOK, site=site)
    decision = decide_law(LAW, 64, question)
    assert (decision.cheapest.nodes, decision.fastest.nodes) == (8, 25)
    assert decision.greenest.nodes == 5
    assert decision.energy.basis == "modelled"
    row = decision.row(8)
    assert row.energy_low is row.energy_high is None
    least = decision.row(5).energy_joules
    gated = msgspec.structs.replace(question, needs=Needs(energy_budget_joules=1.02 * least))
    held = decide_law(LAW, 64, gated)
    assert held.recommended.nodes < 8
    assert "J (modelled)" in held.row(8).excluded_because
    with pytest.raises(SpecError, match="carbon"):
        decide_law(LAW, 64, msgspec.structs.replace(question, needs=Needs(carbon_budget_grams=1)))


def test_energy_and_quality_make_the_frontier_wider():
    rows = (
        "K,time_s,energy_j,quality\n1,100,900,0.80\n2,60,950,0.81\n4,50,500,0.82\n8,49,990,0.80\n"
    )
    question = Question(price=Price(per_node_hour=1.0), needs=Needs(quality_better="higher"))
    decision = decide(parse_table(rows), question)
    assert decision.energy.basis == "imported"
    assert decision.greenest.nodes == 4
    assert decision.frontier == (1, 2, 4, 8)
    assert decision.pareto == (1, 2, 4, 8)
    assert decide(golden_study("breakdown"), question).energy.basis == "unknown"


def test_tokens_cost_by_the_million():
    study = parse_table("K,time_s,work\n1,3600,2000000\n2,2000,2000000\n")
    asked = Question(price=Price(per_node_hour=1.0), work_unit="tokens")
    assert decide(study, asked).row(1).cost_per_million_tokens == pytest.approx(0.5)
    plain = Question(price=Price(per_node_hour=1.0))
    assert decide(study, plain).row(1).cost_per_million_tokens is None


SPEC = """
name = "job"
scales = [1, 2]
work_unit = "tokens"
[workload]
command = ["true"]
[price]
per_node_hour = 2.1
fixed_per_hour = 9
spot = 0.4
preempt = "0.05/h"
checkpoint_seconds = 30
correlation = 0.5
while_down = "survivors"
commit = 0.4
utilisation = 0.7
ranges = { fixed = [4, 12] }
[energy]
busy_watts = 400
embodied_kilograms = 1000
[gates]
energy_budget_joules = 1e9
[scenarios.crunch]
price = 3.5
preempt = "0.2/h"
"""


def test_a_spec_asks_the_whole_question():
    spec, asked = parse_file(SPEC)
    question = question_of(asked)
    assert question.ranges == {"fixed": Interval(4, 12)}
    assert question.price.fixed_per_hour == 8
    assert question.payment.preemptions.per_hour == pytest.approx(0.05)
    assert question.payment.preemptions.correlation_exponent == 0.5
    assert question.payment.while_down == "survivors"
    study = simulate(PlantedTruth(law=LAW, scales=(1, 2), rounds=3))
    findings = find(
        Study(name="job", regime="strong", runs=study.runs, spec=spec, asked=asked), question, ()
    )
    decision = findings.decision
    assert [one.label for one in decision.payments] == [
        "on-demand", "on-demand, committed", "spot", "owned",
    ]  # fmt: skip
    assert decision.rows[0].cost_per_million_tokens is not None
    assert set(decision.checks) <= set(findings.checks)
    again = msgspec.json.decode(msgspec.json.encode(question), type=Question)
    assert again == question


@pytest.mark.parametrize(
    "line", ["ranges = { luck = [1, 2] }", "ranges = { fixed = [2, 1] }", 'preempt = "0.05"']
)
def test_a_spec_that_asks_for_nonsense_is_refused(line):
    text = f'name = "x"\nscales = [1]\nworkload.command = ["true"]\n[price]\n{line}\n'
    with pytest.raises(SpecError):
        question_of(parse_file(text)[1])


def test_no_value_of_time_moves_the_choice_to_a_scale_that_is_not_clearly_faster():
    """T is 100 s at every K, so what K=2 saves is noise."""
    rows = [
        Run(nodes=nodes, round=at, seconds=100 * (1 + off / 100) - 0.3 * (nodes == 2))
        for turn, nodes in enumerate((1, 2, 4, 8))
        for at, off in enumerate(np.roll([0.0, -1.2, 1.2, 0.7, -0.7, 0.3, -0.3], turn))
    ]
    flat = Study(name="flat", regime="strong", runs=tuple(rows))
    price = Price(per_node_hour=2.0)
    decision = decide(flat, Question(price=price))
    assert decision.row(2).seconds < decision.row(1).seconds
    assert decision.would_change == ()
    waiting = decide(flat, Question(price=price, needs=Needs(value_per_hour=100.0)))
    assert waiting.recommended.nodes == 1
    assert waiting.flips == ()
    falling = [
        Run(nodes=run.nodes, round=run.round, seconds=run.seconds * 2 / (1 + run.nodes))
        for run in rows
    ]
    scaling = Study(name="falls", regime="strong", runs=tuple(falling))
    assert decide(scaling, Question(price=price)).would_change[0].endswith("K=8")
