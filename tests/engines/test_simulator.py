"""A fleet of real processes, and what the simulator makes of it from one of them."""

from pathlib import Path

from nodewise.fleet.load.client import drive
from nodewise.fleet.load.replicas import replicas_of
from nodewise.fleet.load.requests import load_of
from nodewise.fleet.simulate import calibrate, predict
from nodewise.fleet.spec import parse_fleet
from nodewise.study.service_objective import Objective

FLEETS = Path(__file__).parents[2] / "examples" / "fleet"
GENEROUS = Objective(ttft=10.0, share=0.5)  # or a busy machine makes the windows void


def test_two_replicas_are_predicted_from_one(tmp_path):
    spec = parse_fleet((FLEETS / "batching.toml").read_text())
    windows = []
    for count, rate in ((1, 14), (2, 32)):
        with replicas_of(spec.server, count, FLEETS, tmp_path) as replicas:
            load = load_of(spec, replicas.endpoints, rate, 6.0, "7")
            windows.append(drive(load, count))
    calibration = calibrate(windows, slots=8)
    # the engine that the server was told to be: 10 ms, 1 ms, 0.2 ms; a busy machine adds to it
    assert 0.005 < calibration.engine.step < 0.03
    found = predict(calibration, windows, GENEROUS, ())
    medians = [row for row in found.residuals if (row.metric, row.share) == ("TPOT", 0.5)]
    assert {row.replicas for row in medians} == {1, 2}
    assert all(abs(row.off_by) < 0.5 for row in medians)
