"""Latency at concurrencies that were not measured."""

import numpy as np
import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.base.trees import Trees
from nodewise.fleet.concurrency import LatencyTable, predict, predict_latencies


def table(**changed) -> LatencyTable:
    load = (4.0, 8.0, 16.0)
    known = {
        "name": "made",
        "concurrency": load,
        "ttft": tuple(0.1 + 0.01 * at for at in load),
        "tpot": tuple(0.01 + 0.0002 * at for at in load),
        "input_tokens": 1024.0,
        "output_tokens": 1024.0,
    }
    return LatencyTable(**{**known, **changed})


def test_trees_take_the_branch_above_the_limit():
    trees = Trees(
        start=1.0,
        linear=[0.0, 2.0],
        features=[[0, 0, 1]],
        limits=[[5.0, 2.0, 9.0]],
        values=[[10.0, 20.0, 30.0, 40.0]],
    )
    rows = np.array([[1.0, 0.0], [3.0, 0.0], [6.0, 1.0], [6.0, 10.0]])
    assert trees.at(rows).tolist() == [11.0, 21.0, 33.0, 61.0]


def test_latency_grows_with_load_and_lies_in_its_interval():
    rows = predict_latencies(table(), [32, 64]).rows
    assert [row.concurrency for row in rows] == [4, 8, 16, 32, 64]
    assert rows[-1].tpot > rows[2].tpot
    for row in rows[3:]:
        assert row.ttft80[0] < row.ttft < row.ttft80[1]
        assert row.tpot80[0] < row.tpot < row.tpot80[1]
    assert rows[0].ttft80 is None


def test_a_made_law_is_met_roughly():
    """TPOT a + b c; the truth at four times the load lies in the interval."""
    seconds, low, high = predict(table(), "tpot", np.array([64.0]))
    assert low[0] < 0.01 + 0.0002 * 64 < high[0]
    assert seconds[0] == pytest.approx(0.0228, rel=0.3)


def test_the_interval_holds_a_steep_line_that_meets_every_point():
    asked = np.array([32.0, 64.0, 128.0, 256.0])
    steep = tuple(0.005 + 0.0005 * at for at in (4, 8, 16))
    seconds, low, high = predict(table(tpot=steep), "tpot", asked)
    line = 0.005 + 0.0005 * asked
    assert np.all((low < seconds) & (seconds < high))
    assert np.all((low <= line) & (line <= high * (1 + 1e-9)))
    bent = (steep[0], steep[1], 0.9 * steep[2])
    assert predict(table(tpot=bent), "tpot", asked)[2][-1] < line[-1]


def closed_queue(places: int, load: tuple[float, ...]) -> LatencyTable:
    """A server with places for so many requests; a further one waits until one of them ends."""
    service = [0.5 + 1024 * (0.01 + 1e-4 * min(at, places)) for at in load]
    return table(
        concurrency=load,
        ttft=tuple(0.5 + s * max(at / places - 1, 0) for at, s in zip(load, service, strict=True)),
        tpot=tuple(0.01 + 1e-4 * min(at, places) for at in load),
    )


def test_a_queue_that_has_begun_is_followed():
    load = tuple(2.0**i for i in range(4, 12))
    known, whole = closed_queue(64, load[:5]), closed_queue(64, load)
    rows = predict_latencies(known, [512, 1024, 2048])
    assert rows.queues
    assert [row.ttft for row in rows.rows[5:]] == pytest.approx(whole.ttft[5:], rel=1e-9)
    assert [row.tpot for row in rows.rows[5:]] == pytest.approx(whole.tpot[5:], rel=1e-9)
    for row in rows.rows[5:]:
        assert row.ttft80[0] < row.ttft < row.ttft80[1]


def test_a_server_with_free_places_has_no_queue():
    load = tuple(2.0**i for i in range(4, 10))
    assert not predict_latencies(closed_queue(1024, load), [1024]).queues
    # A prefill that takes longer is no queue while it is a small part of the request.
    short = table(tpot=(0.01, 0.01, 0.01), ttft=(0.05, 0.1, 0.2))
    assert not predict_latencies(short, [32]).queues


def test_units_do_not_matter_for_the_shape_of_a_prediction():
    twice = predict_latencies(table(), [64, 64]).rows
    assert len(twice) == 4


def test_too_few_concurrencies():
    few = table(concurrency=(4.0, 8.0), ttft=(0.1, 0.2), tpot=(0.01, 0.02))
    with pytest.raises(DataError, match="needs 3"):
        predict_latencies(few, [16])


@pytest.mark.parametrize("asked", [2, 10, 4096])
def test_outside_of_what_can_be_predicted(asked):
    with pytest.raises(SpecError, match="cannot be predicted"):
        predict_latencies(table(), [asked])


def test_the_command(nodewise, tmp_path):
    path = tmp_path / "latency.csv"
    path.write_text("concurrency,ttft_ms,tpot_ms\n4,140,7\n8,180,9\n16,260,13\n16,260,13\n")
    done = nodewise("fleet", "predict", path, "--concurrency", "32,64")
    assert done.code == 0 and "at concurrency 64 TTFT is predicted to be" in done.out
    assert (
        nodewise("fleet", "predict", path, "--concurrency", "64", "--json").json["rows"][-1][
            "concurrency"
        ]
        == 64
    )
    path.write_text("concurrency,ttft_ms\n4,140\n")
    done = nodewise("fleet", "predict", path, "--concurrency", "32")
    assert done.code == 4 and "lacks tpot_ms" in done.err


@pytest.mark.slow
def test_public_measurements(shared):
    """Fitted on these curves, so this is a floor, not a judgement (benchmarks/fit_serving.py)."""
    from benchmarks.fit_serving import tasks

    from nodewise.fleet.concurrency import _learnt

    path = shared / "data" / "serving" / "curves-dev.csv"
    if not path.exists():
        pytest.skip("the latency curves are not there")
    for what, most in (("tpot", 9.0), ("ttft", 19.0)):
        errors = [
            np.mean(
                np.abs(np.exp((_learnt()[what].exponent.at(t.rows) - t.exponent) * t.distance) - 1)
            )
            for t in tasks(path, what)
            if t.fraction == 4
        ]
        assert 100 * np.median(errors) < most
