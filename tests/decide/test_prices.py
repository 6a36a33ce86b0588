"""Start-up, overhead, billing units and flatness on the textbook curve, s=0.03 and c=0.0015."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodewise.decide.decide import Needs, decide_law
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price, bill
from nodewise.explain.laws import Law

HOUR = Law(s=0.03, c=0.0015, base_seconds=3600.0)
NODES = np.arange(1, 65, dtype=float)


def law(seconds: float) -> Law:
    return Law(s=0.03, c=0.0015, base_seconds=seconds)


def costs(price: Price, curve: Law = HOUR, value: float = 0.0) -> np.ndarray:
    return bill(price, price.per_node_hour * NODES, curve.seconds(NODES), value).total


def cheapest(price: Price, curve: Law = HOUR, value: float = 0.0) -> int:
    question = Question(price=price, needs=Needs(value_per_hour=value))
    return decide_law(curve, 64, question).cheapest.nodes


def textbook(**changes) -> Price:
    return Price(**{"per_node_hour": 2.10, "fixed_per_hour": 9.0, **changes})


@pytest.mark.parametrize(
    ("minutes", "nodes", "regret_percent"),
    [(0, 8, 0.0), (1, 8, 0.0), (2, 7, 0.7), (3, 6, 1.5), (5, 6, 3.6), (8, 5, 7.5), (10, 4, 9.8),
     (15, 4, 15.8), (30, 3, 30.3)],
)  # fmt: skip
def test_billed_start_up_moves_the_cheapest_scale_inward(minutes, nodes, regret_percent):
    price = textbook(startup_seconds=60.0 * minutes)
    assert cheapest(price) == nodes
    total = costs(price)
    assert 100 * (total[7] / total.min() - 1) == pytest.approx(regret_percent, abs=0.06)


@pytest.mark.parametrize(
    ("fixed", "nodes"),
    [(0, 1), (1, 3), (2, 5), (4.5, 6), (9, 8), (18, 11), (50, 15), (200, 20), (1000, 24)],
)
def test_overhead_by_the_hour_moves_it_outward(fixed, nodes):
    assert cheapest(textbook(fixed_per_hour=fixed)) == nodes


@pytest.mark.parametrize(
    ("discount", "nodes", "cost"),
    [(0, 8, 4.173), (0.3, 9, 3.330), (0.5, 11, 2.737), (0.7, 13, 2.108), (0.8, 14, 1.768),
     (0.9, 17, 1.396)],
)  # fmt: skip
def test_cheaper_nodes_move_it_outward_beside_an_overhead(discount, nodes, cost):
    decision = decide_law(HOUR, 64, Question(price=textbook(per_node_hour=2.10 * (1 - discount))))
    assert decision.cheapest.nodes == nodes
    assert decision.cheapest.cost == pytest.approx(cost, abs=0.0005)


@pytest.mark.parametrize(
    ("price", "value", "nodes"), [(55.04, 0, 2), (55.04, 100, 6), (20.74, 0, 3), (20.74, 100, 9)]
)
def test_real_prices_and_the_value_of_an_hour(price, value, nodes):
    question = Question(price=textbook(per_node_hour=price), needs=Needs(value_per_hour=value))
    assert decide_law(HOUR, 64, question).recommended.nodes == nodes


def test_the_optimum_is_flat():
    total = costs(textbook())
    for share, low, high in ((0.01, 7, 9), (0.02, 7, 10), (0.05, 6, 12)):
        within = NODES[total <= total.min() * (1 + share)]
        assert (within.min(), within.max()) == (low, high)
    assert decide_law(HOUR, 64, Question(price=textbook())).within_1_percent == (7, 8, 9)


@pytest.mark.parametrize(
    ("nodes", "dollars_per_hour"), [(1, -8.9), (8, 0.5), (12, 20), (16, 70), (20, 225), (24, 1827)]
)
def test_the_price_of_an_hour_saved_by_one_more_node(nodes, dollars_per_hour):
    step = decide_law(HOUR, 64, Question(price=textbook())).marginal[nodes - 1]
    assert (step.from_nodes, step.to_nodes) == (nodes, nodes + 1)
    assert step.cost_per_hour_saved == pytest.approx(dollars_per_hour, rel=0.06)


def test_billing_units():
    per_second = {"billing_unit_seconds": 1.0}
    assert cheapest(textbook(**per_second, billing_minimum_seconds=60.0)) == 8
    assert cheapest(textbook(**per_second), law(60.0)) == 9
    assert cheapest(textbook(**per_second, billing_minimum_seconds=60.0), law(60.0)) == 1
    assert cheapest(textbook(billing_unit_seconds=60.0)) == 9
    assert cheapest(textbook(billing_unit_seconds=3600.0)) == 1


@given(
    st.floats(0.1, 100),
    st.floats(0.01, 200),
    st.floats(0, 0.5),
    st.floats(0.001, 0.2),
    st.floats(1e-5, 0.01),
)
@example(0.1, 200.0, 0.0, 0.001, 1e-5)  # the largest scale that can be cheapest
def test_the_closed_form_finds_the_same_scale(price, fixed, startup, s, c):
    """dCost/dK = 0 is 2c K^3 + (a + L/T1 + c phi) K^2 - b phi = 0, with one positive root."""
    curve = Law(s=s, c=c, base_seconds=3600.0)
    phi = fixed / price
    roots = np.roots([2 * c, (s - c) + startup + c * phi, 0.0, -(1 - s) * phi])
    root = max(float(one.real) for one in roots if abs(one.imag) < 1e-9)
    decision = decide_law(
        curve,
        2 * int(root) + 8,  # beyond its one root the cost only grows
        Question(
            price=Price(per_node_hour=price, fixed_per_hour=fixed, startup_seconds=3600 * startup)
        ),
    )
    assert decision.cheapest.nodes in {max(int(np.floor(root)), 1), max(int(np.ceil(root)), 1)}


@given(
    st.floats(0, 1e4), st.floats(0, 7200), st.floats(0, 7200), st.floats(0, 100), st.floats(0, 50)
)
def test_line_items_add_up_and_nothing_is_negative(startup, unit, minimum, fixed, value):
    price = Price(per_node_hour=3.0, fixed_per_hour=fixed, startup_seconds=startup,
                  billing_unit_seconds=unit, billing_minimum_seconds=minimum)  # fmt: skip
    bills = bill(price, 3.0 * NODES, HOUR.seconds(NODES), value)
    one = bills.at(7)
    items = [one.compute, one.startup, one.rounding, one.fixed, one.waiting]
    assert sum(items) == pytest.approx(bills.total[7])
    assert min(items) >= -1e-9
