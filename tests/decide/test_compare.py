"""Two studies under one question: one base, costs, the move of the recommendation."""

import msgspec
import pytest

from nodewise.decide.compare import compare_costs
from nodewise.decide.decide import decide
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.report.sections import everything
from nodewise.report.text.compare import advice_verdict, priced_comparison_report
from nodewise.study.study import Rank, Run, Study
from nodewise.study.table import parse_table


def study(name: str, seconds: dict[int, float], rate: float | None = None) -> Study:
    runs = tuple(
        Run(nodes=nodes, round=0, seconds=wall, rate_per_hour=rate and rate * nodes)
        for nodes, wall in seconds.items()
    )
    return Study(name=name, regime="strong", runs=runs)


def law(nodes: int, factor: float = 1.0) -> float:
    return factor * 1000 * (0.03 + 0.97 / nodes + 0.001 * (nodes - 1))


BEFORE = study("before", {nodes: law(nodes) for nodes in (1, 2, 4, 8)})
AFTER = study("after", {nodes: law(nodes, 0.7) for nodes in (2, 4, 8, 16)})
PRICED = Question(price=Price(per_node_hour=2.0, currency="$"))


def asked(question: Question, **needs: float) -> Question:
    return msgspec.structs.replace(question, needs=msgspec.structs.replace(question.needs, **needs))


def words(result) -> str:
    return "\n".join(
        line for line in everything(priced_comparison_report(result)) if isinstance(line, str)
    )


def test_one_law_compares_alike_on_the_common_base():
    """The second study has no K=1: on bases of their own it would seem to scale worse."""
    result = compare_costs(BEFORE, AFTER, Question())
    assert result.base_nodes == 2
    for row in result.rows:
        assert row.second_speedup == pytest.approx(row.first_speedup)
        assert row.second_efficiency == pytest.approx(row.first_efficiency)
    assert result.first_advice.nodes == result.second_advice.nodes == 8
    assert "of both against K=2, the smallest common K" in words(result)


def test_costs_are_those_of_decide_at_each_common_scale():
    result = compare_costs(BEFORE, AFTER, PRICED)
    assert (result.currency, [row.nodes for row in result.costs]) == ("$", [2, 4, 8])
    for row in result.costs:
        assert row.first == pytest.approx(decide(BEFORE, PRICED).row(row.nodes).cost)
        assert row.ratio == pytest.approx(0.7)


def test_the_recommendation_moves_with_the_question():
    """The deadline excludes every scale before the fix."""
    late = asked(PRICED, deadline_seconds=120.0)
    result = compare_costs(BEFORE, AFTER, late)
    assert (result.first_advice.nodes, result.second_advice.nodes) == (None, 8)
    assert "The recommendation moves from none to K=8" in words(result)


def test_a_recommendation_among_all_scales_is_named_where_it_differs():
    """On all its scales the base is K=1, and K=8 keeps less than 0.80 of it."""
    question = asked(Question(), threshold=0.8)
    result = compare_costs(BEFORE, AFTER, question)
    assert result.first_advice.nodes == 8
    assert result.first_advice.alone == decide(BEFORE, question).recommended.nodes == 4
    assert "note: The recommendation among all scales of before: K=4." in words(result)


def test_costs_without_a_price_for_both_are_not_compared():
    assert compare_costs(BEFORE, AFTER, Question()).cost_note == "no price is given"
    hired = study("hired", {2: 500.0, 4: 270.0}, rate=3.0)
    result = compare_costs(hired, AFTER, Question())
    assert (result.currency, result.costs) == (None, ())
    assert result.cost_note == "only hired has a price"
    assert "$" not in words(result)


def test_rates_are_priced_by_the_million():
    table = "K,items_per_second\n1,1000\n2,1900\n4,3400\n"
    slow = parse_table(table, "slow")
    quick = parse_table(table.replace("3400", "3800"), "quick")
    result = compare_costs(slow, quick, PRICED)
    assert result.cost_of == "a million items"
    assert result.costs[0].first == pytest.approx(2.0 / 3600 / 1000 * 1e6)
    assert "slow: K=4, 3,400 units/s, $0.654" in words(result)


def test_one_common_scale_has_costs_and_no_recommendation():
    other = study("other", {8: 100.0, 32: 50.0})
    result = compare_costs(BEFORE, other, PRICED)
    assert [row.nodes for row in result.costs] == [8]
    assert result.first_advice is result.first_scaling is None
    assert "Only K=8 is common: no recommendation to compare" in words(result)


def test_scales_that_cannot_be_told_apart_are_no_move():
    result = compare_costs(BEFORE, AFTER, PRICED)
    first = msgspec.structs.replace(result.first_advice, nodes=4, undecided=(4, 8))
    unsure = msgspec.structs.replace(result, first_advice=first)
    assert advice_verdict(unsure) == (
        "no clear move of the recommendation: K=4 or 8 before, K=8 after"
    )
    sure = msgspec.structs.replace(first, undecided=())
    moved = msgspec.structs.replace(result, first_advice=sure)
    assert advice_verdict(moved) == "the recommendation moves from K=4 to K=8"


def test_objectives_that_differ_are_named():
    """An overhead by the hour makes a larger scale the cheapest after the fix only."""
    slow = study("slow", {1: 100.0, 2: 95.0, 4: 93.0})
    quick = study("quick", {1: 100.0, 2: 51.0, 4: 27.0})
    price = msgspec.structs.replace(PRICED.price, fixed_per_hour=1.0)
    result = compare_costs(slow, quick, msgspec.structs.replace(PRICED, price=price))
    assert result.first_advice.objective != result.second_advice.objective
    assert "note: The objectives differ" in words(result)


def test_an_invalid_measurement_gets_no_answer():
    """At K=4 only two ranks ran."""
    runs = [
        Run(
            nodes=nodes, round=0, seconds=100.0 / nodes,
            ranks=tuple(Rank(rank=at, stages={"compute": 100.0 / nodes}) for at in range(ranks)),
        )
        for nodes, ranks in ((1, 1), (2, 2), (4, 2))
    ]  # fmt: skip
    broken = Study(name="broken", regime="strong", runs=tuple(runs))
    result = compare_costs(BEFORE, broken, PRICED)
    assert (result.first_validity.state, result.second_validity.state) == ("doubtful", "invalid")
    headline, advice, *_ = words(result).splitlines()
    assert "broken, no answer: ranks that ran do not follow K" in headline
    assert "An invalid measurement has no recommendation" in advice


def test_the_json_keeps_the_keys_of_a_comparison():
    made = msgspec.to_builtins(compare_costs(BEFORE, AFTER, PRICED))
    assert {"first", "second", "base_K", "rows", "costs", "ledger", "first_advice"} <= set(made)
    assert made["first_advice"]["K"] == 8
