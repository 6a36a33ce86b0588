"""The detector of slowdowns: what it finds, what it leaves alone, and how sure it is."""

import msgspec
import numpy as np
import pytest
from benchmarks.history import SCOPES, covers_right, simulated
from benchmarks.judges import history

from nodewise.history.detect import Campaign, Point, detect
from nodewise.history.noise import log_times, table_of


def scaled(campaigns: list[Campaign], since: int, factor: float) -> list[Campaign]:
    """The same campaigns, with every time multiplied from one campaign on."""
    return [
        msgspec.structs.replace(
            one,
            points=tuple(
                Point(point.test, point.nodes, tuple(time * factor for time in point.times))
                for point in one.points
            ),
        )
        if at >= since
        else one
        for at, one in enumerate(campaigns)
    ]


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_clear_slowdown_is_found_and_named(kind: str, seed: int) -> None:
    found = detect(simulated(seed, kind=kind, ratio=1.2, since=18))
    assert len(found) == 1
    alarm = found[0]
    assert alarm.confirmed
    assert covers_right(alarm, kind)
    assert alarm.since == 18
    assert alarm.probability > 0.9
    assert alarm.measure_again is None
    assert 1.12 < alarm.ratio < 1.28
    assert alarm.ratio_interval.low < alarm.ratio < alarm.ratio_interval.high


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_when_everything_becomes_faster(seed: int) -> None:
    assert not any(one.confirmed for one in detect(scaled(simulated(seed), 18, 1 / 1.2)))


def test_a_test_that_gains_less_than_the_others_is_not_slower() -> None:
    """A machine 20 % faster, on which one test gains 10 %: relative losses are no slowdown."""
    campaigns = scaled(simulated(1, kind="test", ratio=1.1, since=18), 18, 1 / 1.2)
    assert not any(one.confirmed for one in detect(campaigns))


@pytest.mark.parametrize("kind", ["base", "test"])
def test_units_do_not_matter(kind: str) -> None:
    seconds = detect(simulated(2, kind=kind, ratio=1.06, since=18))[0]
    micro = detect(simulated(2, kind=kind, ratio=1.06, since=18, unit=1e6))[0]
    assert (seconds.kind, seconds.test, seconds.since) == (micro.kind, micro.test, micro.since)
    assert seconds.ratio == pytest.approx(micro.ratio, rel=1e-9)
    assert seconds.probability == pytest.approx(micro.probability, rel=1e-6)


def test_an_alarm_is_new_once() -> None:
    campaigns = simulated(4, count=21, kind="base", ratio=1.2, since=18)
    first, second, third = (detect(campaigns[:length])[0] for length in (19, 20, 21))
    assert not first.repeated
    assert second.repeated and third.repeated
    assert first.since == second.since == third.since == 18


def test_a_slow_campaign_that_is_over_raises_no_alarm() -> None:
    campaigns = simulated(5, count=20)
    campaigns[18] = scaled(campaigns, 18, 1.5)[18]
    assert not any(one.confirmed for one in detect(campaigns))


def test_doubt_names_one_scale_to_measure_again() -> None:
    """Of all sizes, those between nothing and an alarm leave doubt, within the slow scope."""
    doubts = [
        one
        for ratio in np.linspace(1.005, 1.05, 19)
        for one in detect(simulated(3, kind="test", ratio=float(ratio), since=19))
        if not one.confirmed
    ]
    assert doubts
    assert all(one.measure_again is not None and 0.1 <= one.probability < 0.5 for one in doubts)
    last = doubts[-1]
    assert last.measure_again is not None and last.measure_again[0] == last.test == "collide"


@pytest.mark.parametrize("count", range(6))
def test_short_histories_say_nothing(count: int) -> None:
    assert detect(simulated(0, count=count)) == []


def test_new_series_and_missing_points_are_left_out() -> None:
    campaigns = simulated(6, kind="scaling", ratio=1.2, since=18)
    newest = campaigns[-1]
    fewer = tuple(one for one in newest.points if one.nodes != 4)
    campaigns[-1] = Campaign(newest.date, (*fewer, Point("new", 8, (1.0,)), Point("none", 8, ())))
    alarm = detect(campaigns)[0]
    assert alarm.confirmed and alarm.kind == "scaling" and alarm.nodes_from in (4, 8)


def test_one_series_alone_can_become_slower() -> None:
    rng = np.random.default_rng(0)
    times = np.exp(0.01 * rng.standard_normal(20))
    times[18:] *= 1.1
    campaigns = [Campaign(str(at), (Point("job", 4, (float(t),)),)) for at, t in enumerate(times)]
    alarm = detect(campaigns)[0]
    assert (alarm.kind, alarm.since, alarm.confirmed) == ("base", 18, True)


def test_probabilities_are_right_on_simulated_truth() -> None:
    """False alarms are rare, and slowdowns of 5 % are found with an interval that holds them."""
    false = sum(one.confirmed for seed in range(100) for one in detect(simulated(seed, count=30)))
    assert false <= 5
    kinds = [kind for kind in SCOPES if kind != "series"]
    found = [
        (kind, detect(simulated(seed, count=30, kind=kind, ratio=1.05, since=28)))
        for seed in range(100, 120)
        for kind in kinds
    ]
    sure = [(kind, one[0]) for kind, one in found if one and one[0].confirmed]
    assert len(sure) >= 0.9 * len(found)
    assert sum(covers_right(one, kind) for kind, one in sure) >= 0.9 * len(sure)
    held = [one.ratio_interval.low <= 1.05 <= one.ratio_interval.high for _, one in sure]
    assert np.mean(held) >= 0.9


def test_many_tests_are_judged_with_bounded_work(monkeypatch) -> None:
    """Of 60 tests one is slower; the equations stay as small as those of 40 tests."""
    rng = np.random.default_rng(1)
    names = [f"t{at:03}" for at in range(60)]
    campaigns = [
        Campaign(str(day), tuple(
            Point(name, nodes, (float(np.exp(0.01 * rng.standard_normal()))
                                * (1.3 if name == "t037" and day >= 18 else 1.0),))
            for name in names for nodes in (1, 4)
        ))
        for day in range(20)
    ]  # fmt: skip
    sizes, solve = [], np.linalg.solve

    def watched(matrix, sides):
        sizes.append(matrix.shape)
        return solve(matrix, sides)

    monkeypatch.setattr(np.linalg, "solve", watched)
    (alarm,) = detect(campaigns)
    assert (alarm.kind, alarm.test, alarm.since, alarm.confirmed) == ("test", "t037", 18, True)
    assert max(shape[-1] for shape in sizes) <= 1 + 2 + 40
    assert max(shape[0] for shape in sizes) <= 1 + 3 * (1 + 2 + 40)


def test_disturbed_repeats_count_little() -> None:
    points = [(at, 0, (1.0, 1.0 + 0.01 * (at % 3))) for at in range(9)]
    values = log_times(table_of([*points, (9, 0, (1.0, 3.0))], (10, 1)))[:, 0]
    assert values[9] < np.log(1.02)


def test_the_judge_gets_new_alarms_by_its_keys() -> None:
    campaigns = simulated(0, kind="scaling", ratio=1.2, since=19)
    alarms = history(msgspec.to_builtins(campaigns))
    assert [one["kind"] for one in alarms] == ["scaling"]
    assert alarms[0]["nodes_from"] == 8
