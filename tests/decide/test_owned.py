"""Owning against renting: the published example, the closed form, the two ways to account."""

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.decide.payment.owned import Commitment, Owned, accounts, sensitivity
from nodewise.decide.prices.bill import Price, bill
from nodewise.explain.laws import Law

NODE = Owned(
    capital=350e3,
    residual_share=0.25,
    interest=0.08,
    life_years=4,
    idle_watts=2500,
    busy_watts=8500,
    pue=1.4,
    per_kwh=0.10,
    staff_per_year=15e3,
    maintenance_share=0.05,
)
NODES = np.arange(1, 65, dtype=float)

nodes_owned = st.builds(
    Owned,
    capital=st.floats(1e3, 1e6),
    residual_share=st.floats(0, 0.9),
    interest=st.floats(0, 0.3),
    life_years=st.floats(1, 10),
    idle_watts=st.floats(0, 3000),
    busy_watts=st.floats(3000, 12000),
    pue=st.floats(1, 2),
    per_kwh=st.floats(0, 0.5),
    staff_per_year=st.floats(0, 1e5),
    colocation_per_year=st.floats(0, 1e5),
    maintenance_share=st.floats(0, 0.2),
)


def cheapest(per_node_hour: float) -> int:
    seconds = Law(s=0.03, c=0.0015, base_seconds=3600.0).seconds(NODES)
    costs = bill(Price(fixed_per_hour=9.0), per_node_hour * NODES, seconds).total
    return int(NODES[costs.argmin()])


def test_what_a_year_costs():
    assert NODE.fixed_per_year == pytest.approx(121.8e3, abs=50)
    assert NODE.variable_per_year == pytest.approx(7.4e3, abs=50)


@pytest.mark.parametrize(("rent", "percent"), [(55.04, 26), (24, 60), (20.4, 71), (16, 92)])
def test_golden_break_even(rent, percent):
    assert 100 * NODE.break_even_utilisation(rent) == pytest.approx(percent, abs=0.5)


@pytest.mark.parametrize(
    ("assumption", "values", "percents"),
    [("life_years", (3, 5, 6), (71, 53, 49)), ("residual_share", (0,), (70,)),
     ("staff_per_year", (40e3,), (72,)), ("capital", (450e3,), (75,)), ("per_kwh", (0.20,), (64,)),
     ("pue", (1.58,), (60.5,))],
)  # fmt: skip
def test_golden_sensitivity(assumption, values, percents):
    rows = sensitivity(NODE, 24.0, {assumption: values})
    assert [row.value for row in rows] == list(values)
    assert [100 * row.utilisation for row in rows] == pytest.approx(percents, abs=0.55)


def test_life_and_capital_decide_and_cooling_hardly():
    order = list(dict.fromkeys(row.assumption for row in sensitivity(NODE, 24.0)))
    assert set(order[:2]) == {"capital", "life_years"}
    assert order.index("pue") > order.index("staff_per_year")


@given(nodes_owned, st.floats(0.5, 200))
def test_break_even_is_where_the_costs_are_equal(owned, rent):
    found = owned.break_even_utilisation(rent)
    assume(found is not None and 1e-3 < found <= 1)
    assert float(owned.per_useful_hour(found)) == pytest.approx(rent)


@given(nodes_owned, st.floats(0.5, 200))
def test_the_closed_form_is_what_a_search_finds(owned, rent):
    found = owned.break_even_utilisation(rent)
    assume(found is not None and 1e-3 < found < 1)
    low, high = 1e-4, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        dearer = float(owned.per_useful_hour(middle)) > rent
        low, high = (middle, high) if dearer else (low, middle)
    assert found == pytest.approx(low, rel=1e-9)


@given(nodes_owned, st.floats(0.01, 0.99), st.floats(1.01, 10))
def test_more_use_never_costs_more_an_hour(owned, used, more):
    low, high = owned.per_useful_hour([used, min(used * more, 1.0)])
    assert high <= low * (1 + 1e-12)


@given(st.floats(1e-6, 0.3), st.floats(1, 10))
def test_the_annuity_pays_the_capital_back(interest, years):
    years = round(years)
    owned = Owned(capital=1000.0, residual_share=0.2, interest=interest, life_years=years)
    discounts = (1 + interest) ** -np.arange(1.0, years + 1)
    worth = owned.capital_per_year * discounts.sum() + 200 * discounts[-1]
    assert worth == pytest.approx(1000.0)
    plain = msgspec.structs.replace(owned, interest=0.0)
    assert plain.capital_per_year == pytest.approx(800 / years)


def test_a_rent_below_the_energy_is_never_beaten():
    assert NODE.break_even_utilisation(0.5) is None
    assert NODE.break_even_utilisation(10.0) > 1


def test_a_commitment_pays_above_what_it_leaves():
    year = Commitment(discount=0.4)
    assert float(year.per_useful_hour(10.0, year.break_even_utilisation)) == pytest.approx(10.0)
    assert float(year.per_useful_hour(10.0, 0.9)) < 10.0


def test_both_accounts_favour_other_scales():
    marginal, full = accounts(NODE, utilisation=0.6, idle_stays_on=False)
    assert marginal.per_node_hour == pytest.approx(1.19)
    assert cheapest(marginal.per_node_hour) == 10
    assert full.per_node_hour == pytest.approx(24.0, rel=0.01)
    assert cheapest(full.per_node_hour) < 5
    assert "idle" in marginal.question
    assert "queue" in full.question
    # a cheap node: energy alone, its full cost at 60 % of the on-demand price, on demand
    assert [cheapest(price) for price in (0.05, 0.6 * 2.10, 2.10)] == [22, 10, 8]
    assert accounts(NODE, 0.6)[0].per_node_hour == pytest.approx(0.84)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Owned(capital=-1),
        lambda: Owned(capital=1, life_years=0),
        lambda: Owned(capital=1, residual_share=2),
        lambda: Owned(capital=1, pue=0.9),
        lambda: Owned(capital=1, per_kwh=float("nan")),
        lambda: Owned(capital=1, idle_watts=10, busy_watts=5),
        lambda: NODE.per_useful_hour(0.0),
        lambda: Commitment(discount=1.0),
        lambda: sensitivity(NODE, 24.0, {"luck": (1.0,)}),
    ],
)
def test_what_cannot_be_is_two_lines(wrong):
    with pytest.raises(SpecError) as error:
        wrong()
    assert len(str(error.value).splitlines()) == 2
