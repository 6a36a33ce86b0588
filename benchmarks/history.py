"""Slowdowns in a history: detection, false alarms, and calibration of the certainty.

    python benchmarks/history.py [--otava PYTHON]

First simulated histories, whose truth is known: how often an answer of each probability is right.
Then, where ../shared/data/history is, its judge: noise of real campaigns with planted slowdowns,
beside the rules that other tools use. Otava needs an environment of its own; name its Python. Exits
with 1 if more than 5 in 100 simulated campaigns without a change raise an alarm.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from nodewise.history import detect as detector
from nodewise.history.detect import Alarm, Campaign, Point, detect

ROOT = Path(__file__).parent.parent
JUDGE = ROOT.parent / "shared/data/history/eval_history.py"
TESTS = ("advect", "collide", "output")
NODES = (1, 2, 4, 8, 16)
FALSE_ALARMS = 0.05
MOST_SECONDS = 1200
# A slowdown of each kind, and the series that it covers.
SCOPES = {
    "base": {(test, nodes) for test in TESTS for nodes in NODES},
    "scaling": {(test, nodes) for test in TESTS for nodes in NODES if nodes >= 8},
    "test": {("collide", nodes) for nodes in NODES},
    "series": {("advect", 4)},
}


def simulated(
    seed: int,
    count: int = 20,
    kind: str | None = None,
    ratio: float = 1.0,
    since: int = 0,
    noise: float = 0.01,
    unit: float = 1.0,
) -> list[Campaign]:
    """Campaigns with heavy tails, a drift, and disturbances of whole campaigns and of one scale."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        whole = 0.001 * at + 0.5 * noise * rng.standard_t(3)
        scale = dict(zip(NODES, 0.5 * noise * rng.standard_t(3, len(NODES)), strict=True))
        points = []
        for test in TESTS:
            for nodes in NODES:
                level = unit * (1 + TESTS.index(test)) * (1 / nodes + 0.02 * np.log2(2 * nodes))
                wide = noise * (5 if test == "output" else 1)
                off = whole + scale[nodes] + wide * rng.standard_t(3)
                repeats = np.abs(wide * rng.standard_t(3, 2)) / 2
                slow = kind is not None and at >= since and (test, nodes) in SCOPES[kind]
                times = level * (ratio if slow else 1.0) * np.exp(off + repeats)
                points.append(Point(test, nodes, tuple(times.tolist())))
        made.append(Campaign(f"campaign {at}", tuple(points)))
    return made


def covers_right(alarm: Alarm, kind: str) -> bool:
    """Whether an alarm names the planted kind; a scale beside the right one counts."""
    named = {
        "base": True,
        "scaling": alarm.nodes_from in (4, 8, 16),
        "test": alarm.test == "collide",
        "series": (alarm.test, alarm.nodes) == ("advect", 4),
    }
    return alarm.kind == kind and named[kind]


def calibration() -> float:
    """How often probabilities are right, and the share of false alarms."""
    detector.DOUBT = 0.02
    answers: list[tuple[float, bool]] = []
    named: list[tuple[float, bool]] = []
    false = quiet = 0
    rng = np.random.default_rng(0)
    for seed in range(1000):
        changed = rng.random() < 3 * detector.CHANGES  # in any of the three newest campaigns
        kind = str(rng.choice(["base", "scaling", "test"]))
        ratio = 1 + 0.1 * abs(float(np.tan(np.pi / 2 * rng.random()))) if changed else 1.0
        since = int(rng.integers(17, 20))
        found = detect(simulated(seed, kind=kind, ratio=min(ratio, 10.0), since=since))
        quiet += not changed
        false += bool(found) and found[0].confirmed and not changed
        answers += [(one.probability, changed) for one in found]
        if found and changed:
            named.append((found[0].kind_probability, covers_right(found[0], kind)))
    print(f"1000 simulated histories: {false} false alarms in {quiet} without a change")
    for name, pairs in (("a slowdown is real", answers), ("the kind is right", named)):
        print(f"Probability that {name}: mean of the bin, share found (cases)")
        cells = []
        for low, high in ((0.02, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
            inside = [(p, right) for p, right in pairs if low <= p < high]
            if inside:
                mean, share = np.mean(np.array(inside, dtype=float), axis=0)
                cells.append(f"{mean:4.0%} {share:4.0%} ({len(inside)})")
        print("  " + "   ".join(cells))
    return false / quiet


def main() -> None:
    """Simulated histories, then the judge with its rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--otava", help="Python of an environment that has apache-otava and scipy")
    asked = parser.parse_args()
    share = calibration()
    sys.stdout.flush()
    if JUDGE.exists():
        data = os.path.relpath(JUDGE.parent / "cori_knl.csv.gz", ROOT)
        commands = [[sys.executable, str(JUDGE), data, "--no-baselines",
                     "--plugin", "benchmarks.judges:history=nodewise"]]  # fmt: skip
        if asked.otava:
            commands.append([asked.otava, str(JUDGE), data])
        for command in commands:
            subprocess.run(command, check=True, timeout=MOST_SECONDS, cwd=ROOT,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    sys.exit(share > FALSE_ALARMS)


if __name__ == "__main__":
    main()
