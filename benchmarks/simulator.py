"""Fleet simulator, calibrated on one replica, against measured fleets of two and four.

    python benchmarks/simulator.py

Two fleets: replicas that sleep where an accelerator would compute, so that they do not slow each
other down (the bounds are theirs), and, where xllamacpp is installed, llama.cpp's server, whose
replicas share this machine's cores with each other and with the client (no bounds: what a simulator
of replicas cannot know). Exits with 1 if a median is off by more than 15 % or a 99th percentile by
more than 25 %.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from nodewise.fleet.load.client import drive
from nodewise.fleet.load.replicas import replicas_of
from nodewise.fleet.load.requests import load_of
from nodewise.fleet.simulate import Prediction, calibrate, predict
from nodewise.fleet.spec import FleetSpec, parse_fleet
from nodewise.study.window import Window

FLEETS = Path(__file__).parent.parent / "examples" / "fleet"
SECONDS = 25.0
SLOTS = 8
BOUNDS = {0.5: 0.15, 0.99: 0.25}
# Requests a second: at half and at most of what a fleet of the batching server can do.
BATCHING = {1: (8, 16), 2: (20, 36), 4: (40, 72)}
LLAMA = {1: (15, 25), 2: (20, 35), 4: (20, 35)}


def measured(spec: FleetSpec, rates: dict[int, tuple[int, ...]]) -> list[Window]:
    """A window of each rate."""
    made = []
    with tempfile.TemporaryDirectory() as logs:
        for count, several in rates.items():
            with replicas_of(spec.server, count, FLEETS, Path(logs)) as replicas:
                for rate in several:
                    load = load_of(spec, replicas.endpoints, rate, SECONDS, f"{count} {rate}")
                    made.append(drive(load, count))
    return made


def table(prediction: Prediction) -> None:
    """Each percentile that was measured, and what the simulator makes of it."""
    print("replicas  requests/s  metric   share  measured  simulated  off by")
    for row in prediction.residuals:
        print(f"{row.replicas:8d}  {row.offered_per_second:10g}  {row.metric:7s}  {row.share:5g}  "
              f"{row.measured * 1e3:5.0f} ms  {row.simulated * 1e3:6.0f} ms  {row.off_by:+6.0%}"
              f"{'  (calibrated on)' if row.is_calibration else ''}")  # fmt: skip


def main() -> int:
    """Measure, calibrate, compare."""
    print(f"load before: {os.getloadavg()[0]:.1f}")
    kept = True
    for name, rates in (("batching", BATCHING), ("fleet", LLAMA)):
        if name == "fleet" and importlib.util.find_spec("xllamacpp") is None:
            print("llama.cpp: xllamacpp is not installed")
            continue
        spec = parse_fleet((FLEETS / f"{name}.toml").read_text())
        windows = measured(spec, rates)
        found = predict(calibrate(windows, SLOTS), windows, spec.objective, ())
        print(f"\n{'batching server' if name == 'batching' else 'llama.cpp'}")
        table(found)
        for share, bound in BOUNDS.items():
            worst = found.worst(share)
            said = "" if worst is None else f"{worst:.0%}"
            if name == "batching":
                good = worst is not None and worst <= bound
                kept = kept and good
                said += f", bound {bound:.0%}: {'kept' if good else 'MISSED'}"
            print(f"latency at {share:g}, r = 2 and 4: off by at most {said or 'nothing to say'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
