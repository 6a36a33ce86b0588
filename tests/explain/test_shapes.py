import msgspec
import pytest

from nodewise.explain.laws import Law
from nodewise.explain.scaling import timings
from nodewise.explain.shapes import shape_of
from nodewise.explain.simulate import PlantedTruth, simulate

LOG = Law(s=0.04, c=0.01, growth="log2")
PLANTED = {
    "smooth": [
        PlantedTruth(law=LOG),
        PlantedTruth(law=Law(s=0.02, c=0.002)),
        PlantedTruth(law=Law(s=0.06, growth="none")),
    ],
    "noisy": [
        PlantedTruth(law=LOG, straggler_factor=1.5),
        PlantedTruth(law=Law(c=0.002), straggler_factor=1.5),
    ],
    "early": [
        PlantedTruth(law=Law(c=0.0005), shard_factor=2),
        PlantedTruth(law=Law(), shard_factor=1.5),
    ],
}


@pytest.mark.parametrize("planted", PLANTED)
def test_the_three_shapes_are_told_apart(planted):
    """At least 95 of 100 studies of five or seven rounds."""
    right = total = 0
    for plan in PLANTED[planted]:
        for rounds in (5, 7):
            for seed in range(25):
                study = simulate(msgspec.structs.replace(plan, rounds=rounds, seed=seed))
                shape = shape_of(timings(study))
                total += 1
                right += shape.shape == planted
    assert right / total >= 0.95


def test_plain_noise_is_not_called_a_straggler():
    wrong = 0
    for seed in range(100):
        study = simulate(PlantedTruth(law=LOG, noise=0.08, seed=seed))
        wrong += shape_of(timings(study)).shape == "noisy"
    assert wrong <= 10


@pytest.mark.parametrize(
    "plan",
    [
        PlantedTruth(law=LOG, rounds=2),
        PlantedTruth(law=LOG, scales=(1, 2)),
        PlantedTruth(law=Law(), noise=0.001),
        PlantedTruth(law=Law(c=0.01, regime="weak")),
    ],
)
def test_no_shape_without_repeats_scales_or_a_loss(plan):
    study = simulate(plan)
    assert shape_of(timings(study)) is None
