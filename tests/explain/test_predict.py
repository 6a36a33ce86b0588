import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.explain.laws import Law
from nodewise.explain.predict.curve import FACTORS, LEVELS, Curve, fit_curve
from nodewise.explain.predict.laws import Ladder
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "data" / "curves.csv"
REHEARSED = PUBLISHED.parent / "rehearsed"
SCALES = (1, 2, 4, 8, 16)
ASKED = (3, 24, 32, 64, 128)


@st.composite
def ladders(draw, regimes=("strong", "weak")):
    """Three to six scales, each step with an exponent of its own: smooth, noisy or retrograde."""
    count = draw(st.integers(3, 6))
    steps = draw(st.lists(st.sampled_from([1.5, 2.0, 3.0, 4.0]), min_size=count, max_size=count))
    nodes = np.unique(np.round(draw(st.integers(1, 16)) * np.cumprod(steps)))
    assume(len(nodes) >= 3)
    slopes = draw(st.lists(st.floats(-1.2, 0.8), min_size=len(nodes) - 1, max_size=len(nodes) - 1))
    y = np.concatenate([[0.0], np.cumsum(np.diff(np.log(nodes)) * slopes)])
    return Ladder(nodes, y, np.zeros_like(y), draw(st.sampled_from(regimes)))


def predict_curve(nodes, values, metric, regime, asked):
    """Values at the scales asked for, with the bounds that hold 80 % of them.

    A number is given even beyond a saturation; `Curve.unknown_beyond` says where we would not.
    """
    order = np.argsort(nodes)
    scales, y = np.asarray(nodes, float)[order], np.log(np.asarray(values, float)[order])
    sign = -1.0 if metric == "throughput" else 1.0
    grows = metric == "time_s" and regime == "weak"
    curve = Curve(Ladder(scales, sign * y - np.log(scales) * grows, np.zeros_like(y), regime))
    wanted = np.array(asked, float)
    answer, spread = curve.log_times(wanted)
    reach = spread * float(np.interp(0.8, LEVELS, FACTORS))
    center = sign * (answer + np.log(wanted) * grows)
    return np.exp(center), np.exp(center - reach), np.exp(center + reach)


def asked_of(ladder: Ladder) -> list[float]:
    return [float(k) for k in ladder.nodes[-1] * np.array([1.3, 2.0, 4.0, 7.0])]


def table(seconds, scales=SCALES, regime="strong", rounds=1) -> Study:
    runs = [
        Run(nodes=k, round=r, seconds=float(t))
        for k, t in zip(scales, seconds, strict=True)
        for r in range(rounds)
    ]
    return Study(name="t", regime=regime, runs=tuple(runs))


@given(
    s=st.floats(0.0, 0.3),
    c=st.floats(1e-4, 0.05),
    growth=st.sampled_from(["none", "linear", "log2"]),
    base=st.floats(1e-3, 1e4),
)
def test_exact_laws_are_recovered(s, c, growth, base):
    law = Law(s=s, c=c if growth != "none" else 0.0, growth=growth, base_seconds=base)
    curve = fit_curve(table(law.seconds(np.array(SCALES, float))))
    for k in ASKED:
        assert curve.at(k).seconds == pytest.approx(
            float(law.seconds(np.array([float(k)]))[0]), rel=2e-3
        )


def test_an_exact_weak_law_is_recovered():
    law = Law(c=0.08, growth="log2", regime="weak", base_seconds=5.0)
    curve = fit_curve(table(law.seconds(np.array(SCALES, float)), regime="weak"))
    assert curve.at(128).seconds == pytest.approx(5.0 * (1 + 0.08 * 7), rel=1e-6)


@given(ladder=ladders(), unit=st.sampled_from([1e-6, 60.0, 3600.0]))
def test_the_unit_of_time_and_of_nodes_does_not_matter(ladder, unit):
    asked = asked_of(ladder)
    seconds = np.exp(ladder.y)
    plain = predict_curve(ladder.nodes, seconds, "time_s", "strong", asked)
    other = predict_curve(ladder.nodes * 8, seconds * unit, "time_s", "strong", np.array(asked) * 8)
    for one, two in zip(plain, other, strict=True):
        assert two == pytest.approx(one * unit, rel=1e-4)


@given(ladder=ladders())
def test_throughput_is_the_inverse_of_time(ladder):
    asked = asked_of(ladder)
    rate = np.exp(-ladder.y)
    value, low, high = predict_curve(ladder.nodes, rate, "throughput", "strong", asked)
    seconds, least, most = predict_curve(ladder.nodes, 1 / rate, "time_s", "strong", asked)
    assert value == pytest.approx(1 / seconds, rel=1e-9)
    assert low == pytest.approx(1 / most, rel=1e-9)
    assert high == pytest.approx(1 / least, rel=1e-9)


@given(ladder=ladders(), data=st.data())
def test_order_does_not_matter_and_the_answer_is_always_the_same(ladder, data):
    order = data.draw(st.permutations(range(len(ladder.nodes))))
    asked = asked_of(ladder)
    seconds = np.exp(ladder.y)
    first = predict_curve(ladder.nodes, seconds, "time_s", ladder.regime, asked)
    mixed = predict_curve(ladder.nodes[order], seconds[order], "time_s", ladder.regime, asked)
    assert all(np.array_equal(a, b) for a, b in zip(first, mixed, strict=True))


@given(ladder=ladders(regimes=("strong",)))
def test_intervals_hold_the_answer_nest_and_widen_with_the_distance(ladder):
    curve = Curve(ladder)
    last = curve.nodes[-1]
    ahead = curve.points([last + 1, 2 * last, 3 * last, 4 * last, 9 * last])
    for point in ahead:
        assert not point.measured
        assert point.low95 <= point.low80 < point.seconds < point.high80 <= point.high95
    widths = [point.high80 / point.low80 for point in ahead]
    assert all(wide >= narrow * (1 - 1e-9) for narrow, wide in itertools.pairwise(widths))
    measured = curve.at(last)
    assert measured.measured
    assert measured.high80 / measured.low80 <= widths[0] * (1 + 1e-9)


@given(ladder=ladders(regimes=("strong",)))
def test_measured_scales_keep_their_measured_value(ladder):
    curve = Curve(ladder)
    for k, y in zip(curve.nodes, ladder.y, strict=True):
        assert curve.at(k).seconds == pytest.approx(float(np.exp(y)))


@given(ladder=ladders(regimes=("strong",)))
def test_the_answer_lies_between_the_laws(ladder):
    rows = Curve(ladder).laws()
    said = [row.seconds for row in rows]
    answer = sum(row.seconds * row.weight for row in rows)
    assert sum(row.weight for row in rows) == pytest.approx(1)
    assert min(said) * (1 - 1e-9) <= answer <= max(said) * (1 + 1e-9)


def test_draws_are_seeded_centred_and_as_wide_as_the_interval():
    curve = fit_curve(table([100, 52, 29, 18, 13]))
    drawn = curve.draws([16, 32, 64], 4000)
    assert np.array_equal(drawn, curve.draws([16, 32, 64], 4000))
    assert not np.array_equal(drawn, curve.draws([16, 32, 64], 4000, seed=8))
    for column, k in zip(drawn.T, (16, 32, 64), strict=True):
        point = curve.at(k)
        assert np.median(column) == pytest.approx(point.seconds, rel=0.02)
        assert np.mean((column >= point.low80) & (column <= point.high80)) == pytest.approx(
            0.8, abs=0.03
        )


def test_repeated_rounds_give_the_noise_of_measured_scales():
    quiet = fit_curve(
        simulate(PlantedTruth(law=Law(s=0.03), scales=(1, 2, 4, 8), noise=0.005, rounds=7))
    )
    noisy = fit_curve(
        simulate(PlantedTruth(law=Law(s=0.03), scales=(1, 2, 4, 8), noise=0.1, rounds=7))
    )
    for k in (4, 16):
        narrow, wide = quiet.at(k), noisy.at(k)
        assert narrow.high95 / narrow.low95 < wide.high95 / wide.low95


def test_the_interval_of_a_measured_scale_holds_the_truth():
    truth = float(Law(s=0.03).seconds(np.array([4.0]))[0])
    held = 0
    for seed in range(60):
        plan = PlantedTruth(law=Law(s=0.03), scales=(1, 2, 4, 8), noise=0.05, rounds=5, seed=seed)
        point = fit_curve(simulate(plan)).at(4)
        held += point.low80 <= truth <= point.high80
    assert 0.68 <= held / 60 <= 0.92


def test_a_saturated_load_is_unknown_beyond_it():
    rates = "K,throughput,regime\n" + "".join(
        f"{k},{rate},weak\n" for k, rate in ((1, 100), (4, 390), (16, 900), (64, 930))
    )
    curve = fit_curve(parse_table(rates))
    assert curve.unknown_beyond == curve.horizon == 64
    assert curve.at(128) is None
    assert curve.at(32) is not None
    assert np.isnan(curve.draws([64, 128], 10)[:, 1]).all()
    assert curve.fastest().high <= 64


def test_growing_weak_scaling_is_predicted():
    curve = fit_curve(table([10, 10.2, 10.4, 10.8, 11.1], regime="weak"))
    assert curve.unknown_beyond is None
    point = curve.at(64)
    assert 11 < point.seconds < 14
    assert 9 < point.low80 < 11


def test_the_fastest_scale_beyond_the_measured_ones_has_bounds():
    turning = Law(s=0.01, c=0.0004, growth="linear")  # least at k = 50
    curve = fit_curve(table(turning.seconds(np.array(SCALES, float))))
    fastest = curve.fastest()
    assert fastest.low <= fastest.nodes <= fastest.high
    assert fastest.nodes == pytest.approx(50, rel=0.25)
    assert fastest.low < fastest.high
    knee = curve.knee()
    assert knee.low <= knee.nodes <= knee.high < fastest.high + 1
    still_falling = fit_curve(table(Law(s=0.001).seconds(np.array(SCALES, float))))
    assert still_falling.fastest().high == still_falling.horizon == 64


def test_a_fastest_scale_that_was_measured_is_found():
    fastest = fit_curve(table([100, 55, 40, 44, 60])).fastest()
    assert fastest.nodes == 4 and fastest.high <= 8


def test_stage_times_are_used_and_see_what_totals_cannot():
    """A doubled shard: waiting shrinks as 1/K, which totals take for serial work."""
    scales = (1, 2, 4, 8, 16)
    plan = PlantedTruth(law=Law(c=0.002), scales=scales, shard_factor=2, noise=0.0, detail="ranks")
    whole = simulate(plan)
    known = [run for run in whole.runs if run.nodes <= 4]
    bare = [Run(nodes=r.nodes, round=r.round, seconds=r.seconds) for r in known]
    truth = float(np.mean([run.seconds for run in whole.at(16)]))
    with_stages = fit_curve(Study(name="s", regime="strong", runs=tuple(known)))
    without = fit_curve(Study(name="t", regime="strong", runs=tuple(bare)))
    assert with_stages.evidence == "stage times"
    assert without.evidence == "total times"
    missed = [abs(curve.at(16).seconds / truth - 1) for curve in (with_stages, without)]
    assert missed[0] < missed[1] / 2
    assert {row.law: row.weight for row in with_stages.laws()}["stages"] == 1


@pytest.mark.parametrize("path", sorted(REHEARSED.glob("*.csv")), ids=lambda path: path.stem)
def test_rehearsed_studies_are_foretold_by_their_stages(path):
    """Real runs on emulated nodes: K <= 4 says what 8 takes; see benchmarks/stage_times.py."""
    assert path.with_suffix(".toml").exists()
    whole = parse_table(path.read_text(), path.stem)
    assert {1, 2, 4, 8} <= set(whole.scales)
    small = tuple(run for run in whole.runs if run.nodes <= 4)
    curve = fit_curve(Study(name=path.stem, regime="strong", runs=small))
    assert curve.evidence == "stage times"
    said = curve.at(8)
    truth = float(np.mean([run.seconds for run in whole.at(8)]))
    assert said.low95 <= truth <= said.high95
    assert abs(said.seconds / truth - 1) < 0.35


def test_stage_totals_of_weak_scaling_are_used():
    rows = "K,time_s,compute_s,comm_s,regime\n1,10,10,0,weak\n2,10.5,10,0.5,weak\n"
    rows += "4,11,10,1,weak\n8,11.5,10,1.5,weak\n"
    curve = fit_curve(parse_table(rows))
    assert curve.evidence == "stage times"
    assert curve.at(16).seconds == pytest.approx(12, rel=0.01)


def test_too_few_scales_and_no_nodes_are_refused():
    with pytest.raises(DataError, match="3 measured scales"):
        fit_curve(table([10, 6], scales=(1, 2)))
    with pytest.raises(DataError, match="0 nodes cannot run"):
        fit_curve(table([10, 6, 4, 3, 2])).at(0)


def published():
    """Curves that others measured: scales, medians of repeats, metric and regime."""
    found = {}
    lines = [line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        curve = found.setdefault(row["curve_id"], (row["metric"], row["regime"], {}))
        curve[2].setdefault(float(row["K"]), []).append(float(row["value"]))
    for metric, regime, points in found.values():
        nodes = np.array(sorted(points))
        yield nodes, np.array([np.median(points[k]) for k in nodes]), metric, regime


@pytest.mark.parametrize(("fraction", "most"), [(4, 0.12), (2, 0.08)])
def test_published_curves_are_foretold(fraction, most):
    """The small table only; benchmarks/predict.py scores the large one."""
    errors, held = [], []
    for nodes, values, metric, regime in published():
        known = max(3, int(np.sum(nodes <= nodes[-1] / fraction)))
        truth = values[known:]
        said, low, high = predict_curve(
            nodes[:known], values[:known], metric, regime, nodes[known:]
        )
        errors.append(np.mean(np.abs(said / truth - 1)))
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.median(errors) < most
    assert np.mean(held) > 0.6


def test_the_laws_of_the_stages_foretell_what_costs_most():
    nodes = (1, 2, 4, 8)
    runs = tuple(
        Run(nodes=k, round=0, seconds=100 / k + 2 * (k - 1),
            stages={"compute": 100 / k, "communication": 2.0 * (k - 1)})
        for k in nodes
    )  # fmt: skip
    curve = fit_curve(Study(name="laws", regime="strong", runs=runs))
    losses = curve.losses(64)
    assert losses.largest == ("communication",)
    assert losses.lost["communication"] == pytest.approx(126, rel=0.01)
    assert losses.lost["compute"] == pytest.approx(0, abs=0.1)
    assert sum(losses.seconds.values()) == pytest.approx(curve.at(64).seconds)
    bare = tuple(Run(nodes=run.nodes, round=0, seconds=run.seconds) for run in runs)
    assert fit_curve(Study(name="bare", regime="strong", runs=bare)).losses(64) is None


def test_parts_that_lose_about_as_much_are_named_together():
    runs = tuple(
        Run(nodes=k, round=0, seconds=100 / k + 11 * (k > 1),
            stages={"compute": 100 / k, "communication": 5.0 * (k > 1)})
        for k in (1, 2, 4, 8)
    )  # fmt: skip
    losses = fit_curve(Study(name="even", regime="strong", runs=runs)).losses(16)
    assert set(losses.largest) == {"communication", "waiting"}
