"""What-if accuracy: a cause is planted, predicted away, removed and measured.

.venv/bin/python benchmarks/what_if.py [rounds]

Real jobs on emulated nodes, K = 1, 2 and 4, each measured with and without one cause. The
prediction is made from the runs with it. The last column compares with leaving the time as it is.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nodewise.decide.inputs import Question
from nodewise.decide.what_if import Change, parse_changes, what_if
from nodewise.explain.causes import CauseName
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.measure.loop import measure
from nodewise.study import store
from nodewise.study.spec import parse_spec
from nodewise.study.study import Study

ROOT = Path(__file__).parents[1]
SPEC = """
name = "planted"
scales = [1, 2, 4]
rounds = {rounds}
timeout_seconds = 90
[workload]
command = ["{{python}}", {command}]
directory = "{root}"
warmup_steps = 1
[workload.environment]
OMP_NUM_THREADS = "1"
[engine]
name = "rehearsal"
[engine.rehearsal]
cores_per_node = 0.2
{nodes}
"""
LINK = "link_mbit_per_second = {}.0"
HEAT = "heat_mpi.py --rows 1024 --columns 512 --steps 21 --halo-rows 16"
PIPELINE = "pipeline.py --batches 5 --records 64 --serial-share 0 --rounds 2000"
SERIAL = "pipeline.py --batches 5 --records 64 --serial-share 0.3 --rounds 2000"
WITHOUT_SERIAL = "pipeline.py --batches 5 --records 64 --serial-share 0 --rounds 1400"
WORDS = "wordcount.py --batches 4 --documents 1000"
DIGITS = "digits_mpi.py --steps 5 --batch 8192"


class Case(NamedTuple):
    """A job with the cause, what is asked, and the job without it."""

    what: str
    planted: tuple[str, str]  # command, nodes
    without: tuple[str, str]


CASES = {
    "halo, link 40 to 80": Case("link=80Mbit", (HEAT, LINK.format(40)), (HEAT, LINK.format(80))),
    "halo, link 40 to 160": Case("link=160Mbit", (HEAT, LINK.format(40)), (HEAT, LINK.format(160))),
    "all-reduce, link 20 to 40": Case(
        "link=40Mbit", (DIGITS, LINK.format(20)), (DIGITS, LINK.format(40))
    ),
    "all-reduce, link 20 to 200": Case(
        "link=200Mbit", (DIGITS, LINK.format(20)), (DIGITS, LINK.format(200))
    ),
    "slow node, factor 2": Case(
        "slow-node=fixed",
        (PIPELINE, LINK.format(300) + "\nslow_node = 2\nslow_factor = 2.0"),
        (PIPELINE, LINK.format(300)),
    ),
    "slow node, factor 1.5": Case(
        "slow-node=fixed",
        (PIPELINE, LINK.format(300) + "\nslow_node = 2\nslow_factor = 1.5"),
        (PIPELINE, LINK.format(300)),
    ),
    "skewed shards": Case(
        "load-imbalance=fixed",
        (f"{WORDS} --skew 2", LINK.format(300)),
        (WORDS, LINK.format(300)),
    ),
    "serial stage, 30 %, left out": Case(
        "serial-fraction=fixed",
        (SERIAL, LINK.format(300)),
        (WITHOUT_SERIAL, LINK.format(300)),
    ),
    "serial stage, 30 %, divided over 4": Case(
        "serial-fraction=0.25x",
        (SERIAL, LINK.format(300)),
        (PIPELINE, LINK.format(300)),
    ),
    "serial stage of 80 ms": Case(
        "serial-fraction=fixed",
        (f"{DIGITS} --serial-ms 80", LINK.format(100)),
        (DIGITS, LINK.format(100)),
    ),
}


def study_of(command: str, nodes: str, rounds: int) -> Study:
    """Measure a job on emulated nodes."""
    words = ", ".join(f'"{word}"' for word in f"examples/{command}".split())
    text = SPEC.format(command=words, nodes=nodes, rounds=rounds, root=ROOT)
    spec = parse_spec(text)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        engine = RehearsalEngine(spec.engine.rehearsal)
        measure(spec, text, folder, folder / "study", engine, lambda *_: None, lambda _: False)
        return store.load(folder / "study")


def seconds_at(study: Study, nodes: int) -> float:
    """The mean of the runs at one scale."""
    return float(np.mean([run.seconds for run in study.at(nodes)]))


def main() -> None:
    """Measure, predict and compare, case by case."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    errors = []
    for name, case in CASES.items():
        planted = study_of(*case.planted, rounds)
        changes: tuple[Change, ...] = parse_changes(case.what, planted)
        causes: list[CauseName] = [change.cause for change in changes]
        result = what_if(planted, Question(), changes)
        without = study_of(*case.without, rounds)
        row = result.rows[-1]
        truth = seconds_at(without, row.nodes)
        error = row.seconds / truth - 1
        errors.append(abs(error))
        print(
            f"{name}: {', '.join(causes)}; K={row.nodes} measured {row.measured_seconds:.2f} s, "
            f"predicted {row.seconds:.2f}, measured without {truth:.2f} s: {100 * error:+.1f} % "
            f"(unchanged {100 * (row.measured_seconds / truth - 1):+.0f} %)",
            flush=True,
        )
    print(f"median error {100 * np.median(errors):.1f} % over {len(errors)} cases")


if __name__ == "__main__":
    main()
