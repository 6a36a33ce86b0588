import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, rounds_needed, simulate


@given(
    st.floats(0, 0.3),
    st.floats(0, 0.01),
    st.sampled_from(["linear", "log2", "none"]),
    st.sampled_from(["strong", "weak"]),
    st.sampled_from(["timings", "stages", "ranks"]),
)
def test_even_and_noiseless_it_is_exactly_the_law(s, c, growth, regime, detail):
    law = Law(s=s, c=c, growth=growth, regime=regime, base_seconds=7.0)
    study = simulate(PlantedTruth(law=law, noise=0, rounds=1, detail=detail, scales=(1, 2, 8)))
    expected = law.seconds(np.array([1.0, 2.0, 8.0]))
    assert [run.seconds for run in study.runs] == pytest.approx(list(expected))
    for run in study.runs:
        for stages in [run.stages, *(rank.stages for rank in run.ranks)]:
            assert not stages or sum(stages.values()) == pytest.approx(run.seconds)


def test_the_same_seed_gives_the_same_study():
    plan = PlantedTruth(law=Law(s=0.05), detail="ranks", jitter=0.1, straggler_factor=1.5)
    assert simulate(plan) == simulate(plan)


def test_planted_diseases_are_there():
    base = PlantedTruth(law=Law(), noise=0, rounds=1, scales=(1, 4), detail="ranks")

    def seconds(**changes):
        return simulate(msgspec.structs.replace(base, **changes))

    assert seconds(shard_factor=2.0).at(4)[0].seconds == pytest.approx(2 / 5)
    assert seconds(slow_node_factor=3.0).at(4)[0].seconds == pytest.approx(3 / 4)
    assert seconds(baseline_factor=1.8).at(1)[0].seconds == pytest.approx(1.8)
    items = [rank.items for rank in seconds(shard_factor=2.0).at(4)[0].ranks]
    assert items[0] == pytest.approx(2 * items[1])


def test_a_straggler_widens_the_band():
    def band(factor):
        study = simulate(PlantedTruth(law=Law(s=0.04), rounds=5, straggler_factor=factor))
        times = [np.array([run.seconds for run in study.at(nodes)]) for nodes in study.scales]
        return np.mean([samples.std(ddof=1) / samples.mean() for samples in times])

    assert band(1.5) > 2 * band(1.0)


def test_rounds_needed_grow_with_noise_and_shrink_with_the_difference():
    few, more = rounds_needed(0.03, 0.10), rounds_needed(0.08, 0.10)
    assert 6 <= few < more
    # two-sample normal theory: n = 2 ((1.96 + 0.84) * 0.08 / ln 1.1)^2 = 11
    assert more == pytest.approx(11, abs=3)
    assert rounds_needed(0.08, 0.05) > more
    with pytest.raises(SpecError, match="500 rounds"):
        rounds_needed(0.5, 0.01)


@pytest.mark.parametrize(
    "changes",
    [{"shard_factor": 0.5}, {"noise": -1.0}, {"rounds": 0}, {"scales": ()}, {"scales": (0, 1)}],
)
def test_what_cannot_be_simulated_is_refused(changes):
    with pytest.raises(SpecError):
        PlantedTruth(law=Law(), **changes)
