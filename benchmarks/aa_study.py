"""False differences: one job under four labels on a busy machine, and how often two labels differ.

    .venv/bin/python benchmarks/aa_study.py [studies]

Every label K = 1..4 runs the very same single process, through the real loop; a comparison is wrong
when a scale is called faster or slower than K=1.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nodewise.explain.scaling import scale
from nodewise.measure.engines.base import Finished, Job, Started
from nodewise.measure.engines.local import Local
from nodewise.measure.loop import measure
from nodewise.study import store
from nodewise.study.spec import parse_spec

JOB = """
from nodewise import probe
for step in probe.steps(range(3)):
    sum(i * i for i in range(200_000))
"""
SPEC = """
name = "equal"
scales = [1, 2, 3, 4]
rounds = 7
seed = {seed}
[workload]
command = ["{{python}}", "job.py"]
"""
LOAD = "while True: pass"


class OneWorker:
    """Runs one process whatever K is, and lets it report for all ranks."""

    def check(self, scales: Sequence[int]) -> None:
        """Any label will do."""

    def run(self, job: Job, started: Started) -> Finished:
        """The same run for every label."""
        alone = {k: v for k, v in job.environment.items() if k != "NODEWISE_GATE"}
        finished = Local().run(msgspec.structs.replace(job, nodes=1, environment=alone), started)
        report = json.loads((job.folder / "rank-0.json").read_text())
        for rank in range(1, job.nodes):
            (job.folder / f"rank-{rank}.json").write_text(json.dumps({**report, "rank": rank}))
        return finished

    def close(self) -> None:
        """Nothing is kept."""


def main() -> None:
    """Measure, count and print."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    wrong = compared = 0
    load = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(2)]
    try:
        for seed in range(studies):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                (folder / "job.py").write_text(JOB)
                text = SPEC.format(seed=seed)
                spec = parse_spec(text)
                engine = OneWorker()
                measure(
                    spec, text, folder, folder / "study", engine, lambda *_: None, lambda _: False
                )
                study = store.load(folder / "study")
            for row in scale(study).rows[1:]:
                compared += 1
                wrong += row.faster is not None
            print(f"{seed + 1} studies: {wrong} of {compared} wrongly called different", flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
