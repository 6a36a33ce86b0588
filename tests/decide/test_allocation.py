"""The rules of centres: doubling factor, tiers, smallest feasible K; and what runs will use."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.decide.allocation.allocation import Job, Machine, allocation
from nodewise.decide.allocation.centres import CentreRule, Tier, parse_centres, read_centres
from nodewise.explain.scaling import scale, timings
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.table import parse_table

CENTRES = read_centres()
# Oxford ARC, OpenFOAM motorbike (oxford-arc/bench-openfoam README.md)
OPENFOAM = "cores,time_s\n1,4390.02\n2,2359.38\n4,1101.13\n8,569.68\n16,319.84\n32,213.91\n"


def asked(text, centre, machine=None, jobs=()):
    study = parse_table(text, "x")
    unit = study.scale_unit
    return allocation(centre, scale(study), timings(study), unit, machine or Machine(), jobs)


def with_rule(**rule):
    return msgspec.structs.replace(CENTRES["csc"], rule=CentreRule(**rule))


def test_every_centre_has_its_source_and_year():
    assert set(CENTRES) == {"csc", "archer2", "gcs", "nhr", "incite"}
    for centre in CENTRES.values():
        assert centre.source and centre.year > 2000 and centre.headings and centre.columns


def test_the_last_step_that_passes_is_the_size_granted():
    found = asked(OPENFOAM, CENTRES["csc"])
    assert [step.passes for step in found.steps] == [None] + [True] * 4 + [False]
    # 319.84 / 213.91 = 1.495
    assert found.largest == 16 and found.probability > 0.9
    assert 0.3 < found.steps[-1].probability < 0.7
    assert found.smallest == 1 and found.steps[0].size == 1


def test_a_step_that_is_no_doubling_is_held_to_its_share_of_one():
    found = asked("cores,time_s\n32,100\n48,78\n", with_rule(kind="doubling", factor=1.5))
    assert found.steps[1].needed == pytest.approx(1.5 ** np.log2(1.5))
    assert found.largest == 48


def test_a_gap_ends_what_is_granted_though_a_later_scale_would_pass():
    text = "cores,time_s\n1,100\n2,50\n4,45\n8,20\n"
    assert asked(text, with_rule(kind="doubling", factor=1.5)).largest == 2
    assert asked(text, with_rule(kind="none")).largest is None


@pytest.mark.parametrize("kind", ["doubling", "efficiency"])
def test_no_size_is_granted_where_the_first_step_fails(kind):
    rule = with_rule(kind=kind, factor=1.5 if kind == "doubling" else 0.75)
    found = asked("cores,time_s\n1,100\n2,90\n4,20\n", rule)
    assert (found.largest, found.probability) == (None, None)
    assert [step.passes for step in found.steps] == [None, False, False]
    assert found.steps[0].probability is None


def test_tiers_and_an_unknown_size_leave_the_largest_unknown():
    tiers = (Tier(up_to=64, factor=1.1),)
    found = asked(
        "gpus,time_s\n8,100\n16,60\n", with_rule(kind="doubling", factor=1.5, tiers=tiers)
    )
    assert found.steps[1].size is None and found.steps[1].needed is None
    assert found.steps[1].passes is None and found.largest is None


def test_what_is_asked_beyond_the_last_tier_is_unknown():
    rule = with_rule(kind="doubling", tiers=(Tier(up_to=4, factor=1.5),))
    found = asked("cores,time_s\n1,100\n2,50\n4,25\n8,24\n16,23\n", rule)
    assert [step.passes for step in found.steps] == [None, True, True, None, None]
    assert found.largest == 4 and found.steps[3].probability is None
    assert CentreRule(kind="doubling").factor_at(1) is None


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(1.05, 2.0), min_size=2, max_size=6),
    st.floats(1.1, 1.9),
    st.integers(0, 3),
)
def test_the_doubling_rule_grants_the_last_unbroken_doubling(cuts, factor, start):
    nodes = [2 ** (start + at) for at in range(len(cuts) + 1)]
    seconds = 1000 / np.cumprod([1.0, *cuts])
    text = "cores,time_s\n" + "".join(
        f"{k},{t!r}\n" for k, t in zip(nodes, map(float, seconds), strict=True)
    )
    found = asked(text, with_rule(kind="doubling", factor=factor))
    passed = [cut >= factor * (1 - 1e-9) for cut in cuts]
    unbroken = passed.index(False) if False in passed else len(passed)
    close = any(abs(cut / factor - 1) < 1e-6 for cut in cuts)
    assert close or found.largest == (nodes[unbroken] if unbroken else None)
    assert found.smallest == nodes[0]
    shares = [step.probability for step in found.steps[1:]]
    assert all(a >= b for a, b in pairwise(shares))  # it can only get harder


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 20_000))
def test_tiers_hold_up_to_their_size(low, more, size):
    high = low + more
    rule = CentreRule(
        kind="doubling",
        factor=1.3,
        tiers=(Tier(up_to=high, factor=1.4), Tier(up_to=low, factor=1.5)),
    )
    expected = 1.5 if size <= low else 1.4 if size <= high else 1.3
    assert rule.factor_at(size) == expected


def test_repeats_give_the_probability_their_spread_allows():
    rows = [f"{k},{rep},{100 / k * (1 + 0.002 * rep)}" for k in (1, 2, 4) for rep in range(6)]
    sure = asked("cores,rep,time_s\n" + "\n".join(rows), CENTRES["csc"])
    assert sure.largest == 4 and sure.probability == pytest.approx(1.0, abs=0.01)


def test_hours_are_runs_times_time_times_nodes():
    text = "nodes,rep,time_s\n" + "".join(
        f"{k},{rep},{3600 / k + rep}\n" for k in (1, 2) for rep in range(6)
    )
    job = Job(name="production", runs=10, nodes=2, times=3.0)
    found = asked(text, CENTRES["archer2"], Machine(cores_per_node=128, gpus_per_node=4), [job])
    (use,) = found.uses
    assert use.node_hours == pytest.approx(10 * 3 * 2 * 1802.5 / 3600)
    assert use.node_hours_low < use.node_hours < use.node_hours_high
    assert use.core_hours == pytest.approx(128 * use.node_hours)
    assert use.gpu_hours == pytest.approx(4 * use.node_hours)


def test_what_is_not_known_is_left_to_the_author():
    found = asked(
        "gpus,time_s\n8,100\n16,60\n", CENTRES["csc"], jobs=[Job(name="a", runs=1, nodes=8)]
    )
    assert found.steps[0].size is None and found.uses[0].node_hours is None
    assert any("share a node" in what for what in found.unknown)
    assert ScaleUnit(unit="GPU").knows_nodes is False


@pytest.mark.parametrize("text", ["[[centre]]\nkey = 1\n", "centre = []\n", "", "x ="])
def test_a_file_that_describes_no_centre_is_refused(text):
    with pytest.raises(SpecError, match="does not describe a centre"):
        parse_centres(text)


@pytest.mark.parametrize(
    "rule",
    ['kind = "doubling", tiers = [{ up_to = 64, factor = 1.5 }]', 'kind = "efficiency"'],
)
def test_a_rule_without_a_factor_is_refused(rule):
    text = f"""[[centre]]
key = "x"
name = "X"
unit = "core"
year = 2026
read = "form"
source = "a test"
columns = ["size"]
rule = {{ {rule} }}
headings = []
"""
    with pytest.raises(SpecError, match="'x' has no factor"):
        parse_centres(text)
