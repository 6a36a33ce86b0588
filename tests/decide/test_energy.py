"""Joules and grams: labels, the grid table, and the three best scales from one routine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.decide.decide import decide
from nodewise.decide.energy import (
    UNKNOWN,
    Embodied,
    Energy,
    NodePower,
    Site,
    carbon,
    find_grid,
    least_scales,
    metered,
    modelled,
    power_of_parts,
)
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.files import shipped_grids
from nodewise.explain.laws import Law
from nodewise.study.table import parse_table

NODES = np.arange(1, 65, dtype=float)
SECONDS = Law(s=0.03, c=0.0015, base_seconds=3600.0).seconds(NODES)
POWER = NodePower(idle_watts=350, busy_watts=350)
RANGED = NodePower(idle_watts=100, busy_watts=350)
GRIDS = shipped_grids()


@pytest.mark.parametrize(("shared_watts", "greenest"), [(0, 1), (500, 5)])
def test_golden_greenest_scale(shared_watts, greenest):
    energy = modelled(SECONDS, NODES, POWER, shared_watts)
    cost = metered(SECONDS / 3600, NODES, 2.10, 9.0)
    found = {
        one.of: one.nodes
        for one in least_scales(
            NODES, {"cost": cost, "seconds": SECONDS, "joules": energy.joules, "grams": None}
        )
    }
    assert found == {"cost": 8, "seconds": 25, "joules": greenest}


def best_scale(s: float, c: float, phi: float, startup: float = 0.0) -> float:
    """The K where (T + L)(K + phi) is least for T = s + (1-s)/K + c(K-1), all as shares of T1."""
    return max(np.roots([2 * c, s - c + startup + c * phi, 0.0, -(1 - s) * phi]).real)


def test_golden_closed_form():
    root = best_scale(0.03, 0.0015, 9 / 2.10)
    assert root == pytest.approx(8.330, abs=0.0005)
    [cheapest] = least_scales(NODES, {"cost": metered(SECONDS / 3600, NODES, 2.10, 9.0)})
    assert (cheapest.nodes, cheapest.within_1_percent) == (8, (7, 8, 9))
    assert cheapest.value == pytest.approx(4.173150)


@given(st.floats(0.001, 0.2), st.floats(1e-5, 0.01), st.floats(0.01, 50), st.floats(0, 0.5))
def test_the_closed_form_finds_the_least(s, c, phi, startup):
    root = best_scale(s, c, phi, startup)
    nodes = np.arange(1, 2000, dtype=float)
    seconds = Law(s=s, c=c, base_seconds=1.0).seconds(nodes) + startup
    [least] = least_scales(nodes, {"any": metered(seconds, nodes, 1.0, phi)})
    assert least.nodes in {max(int(np.floor(root)), 1), max(int(np.ceil(root)), 1)}


@given(st.floats(1, 1e5), st.floats(1, 1000), st.floats(0, 500), st.floats(500, 5000),
       st.floats(1, 2))  # fmt: skip
def test_a_model_lies_in_its_range(seconds, nodes, idle, busy, pue):
    power = NodePower(idle_watts=idle, busy_watts=busy + 1)
    energy = modelled(np.array([seconds]), np.array([nodes]), power, pue=pue)
    low, value, high = (float(one[0]) for one in (energy.low, energy.joules, energy.high))
    assert low <= value * (1 + 1e-12)
    assert value <= high * (1 + 1e-12)
    assert energy.basis == "modelled"


def test_every_figure_says_how_it_is_known():
    measured = Energy(basis="measured", joules=np.array([5400.0]))
    assert measured.label(0) == "5,400 J, measured"
    assert UNKNOWN.label(0) == "unknown"
    assert "modelled (" in modelled(SECONDS, NODES, RANGED).label(0)
    assert measured.per_work(np.array([100.0]))[0] == 54
    assert UNKNOWN.per_work(np.array([100.0])) is None


def test_carbon_follows_energy_and_its_label():
    france, poland = find_grid(GRIDS, "FRA"), find_grid(GRIDS, "poland")
    energy = modelled(SECONDS, NODES, RANGED, 500)
    clean, dirty = (carbon(energy, grid, NODES * SECONDS) for grid in (france, poland))
    assert clean.basis == "modelled"
    assert dirty.grams == pytest.approx(clean.grams * 661.9 / 56.0)
    assert (clean.low <= clean.grams).all()
    assert (clean.grams <= clean.high).all()
    assert clean.per_work(np.full(64, 2.0)) == pytest.approx(clean.grams / 2)
    assert carbon(UNKNOWN, france, NODES).grams is None
    assert carbon(energy, None, NODES).basis == "unknown"


def test_making_the_nodes_moves_the_greenest_scale_inward():
    grid = find_grid(GRIDS, "FRA")
    energy = modelled(SECONDS, NODES, POWER, 500)
    made = Embodied(kilograms=2400.0)
    best = [
        least_scales(NODES, {"grams": carbon(energy, grid, NODES * SECONDS, embodied).grams})[0]
        for embodied in (None, made)
    ]
    assert best[1].nodes < best[0].nodes
    one_life = Embodied(kilograms=100.0, life_years=1.0)
    assert one_life.grams_per_second * 8760 * 3600 == pytest.approx(100e3)


def test_the_grid_table_is_dated_or_says_that_it_is_not():
    assert len(GRIDS) == 45
    assert "56 g CO2e/kWh, France, 2023" in find_grid(GRIDS, "fra").label
    assert "year not stated" in find_grid(GRIDS, "gcp:us-central1").label
    assert find_grid(GRIDS, "WLD").grams_per_kwh == 475
    with pytest.raises(SpecError, match="us-east-1"):
        find_grid(GRIDS, "aws:us-east-1")


def test_power_from_parts():
    node = power_of_parts(vcpus=96, memory_gb=1152, accelerator="A100-80GB", accelerator_count=8)
    assert node.watts == pytest.approx((node.idle_watts + node.busy_watts) / 2)
    assert "Cloud Carbon Footprint" in node.source
    assert (
        power_of_parts(vcpus=192, memory_gb=2048, accelerator="H100", accelerator_count=8) is None
    )
    assert power_of_parts(vcpus=16, memory_gb=64).busy_watts == pytest.approx(16 * 3.5 + 25.088)


def test_a_site_draws_more_than_its_nodes():
    """Counters see nodes; the PUE adds the site, and nobody may write one below 1."""
    known = Energy(basis="measured", joules=np.array([100.0]), note="counters")
    one = np.array([1.0])
    assert Site(pue=1.2).energy(one, one, 0.0, known).joules[0] == pytest.approx(120)
    assert "PUE of 1.2" in Site(pue=1.2).energy(one, one, 0.0, known).note
    with pytest.raises(SpecError):
        Site(pue=0.9).energy(one, one, 0.0, known)


def test_what_runs_beside_the_nodes_counts_with_known_energy():
    """In 1000 s it draws 2 MJ, in 160 s 0.32 MJ: the greenest scale is the largest."""
    table = "K,time_s,energy_j\n1,1000,500000\n2,520,520000\n4,280,560000\n8,160,640000\n"
    greenest = []
    for watts in (0.0, 2000.0):
        question = Question(price=Price(per_node_hour=2.0), site=Site(shared_watts=watts))
        found = decide(parse_table(table, "job"), question)
        greenest.append(found.greenest.nodes)
    assert greenest == [1, 8]
    assert found.row(8).energy_joules == pytest.approx(0.96e6)
    assert found.row(1).energy_joules == pytest.approx(2.5e6)
    assert "2000 W of shared equipment" in found.energy.note


def test_a_model_shows_the_centre_of_its_range():
    energy = modelled(SECONDS, NODES, RANGED)
    assert energy.joules == pytest.approx((energy.low + energy.high) / 2)
    stated = modelled(SECONDS, NODES, POWER)
    assert stated.low is None
    assert stated.joules == pytest.approx(350 * NODES * SECONDS)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: NodePower(idle_watts=5, busy_watts=1),
        lambda: modelled(SECONDS, NODES, POWER, shared_watts=-1),
        lambda: modelled(SECONDS, NODES, POWER, pue=0.5),
        lambda: modelled(SECONDS, NODES, POWER, startup_seconds=-1),
    ],
)
def test_what_cannot_be_is_two_lines(wrong):
    with pytest.raises(SpecError) as error:
        wrong()
    assert len(str(error.value).splitlines()) == 2
