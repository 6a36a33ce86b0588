"""Planted causes: how often each is named on emulated nodes.

    .venv/bin/python benchmarks/planted_causes.py [studies] [cause]

A study is right when the ledger puts the planted cause first at K=4 and, where one rank is to
blame, names that rank.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nodewise.explain.attribute import attribute
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.measure.loop import measure
from nodewise.study import store
from nodewise.study.spec import parse_spec
from nodewise.study.study import Run, Study

ROOT = Path(__file__).parents[1]
ROUNDS = 5
SPEC = """
name = "planted"
scales = [1, 4]
rounds = {rounds}
seed = {seed}
timeout_seconds = 60
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
period_ms = 10.0
{nodes}
"""


class Planted(NamedTuple):
    """A disease: the job that has it, or the nodes, and the rank that is to blame."""

    command: str
    nodes: str = "link_mbit_per_second = 300.0"
    rank: int | None = None


PLANTED = {
    "communication": Planted(
        "heat_mpi.py --rows 1024 --columns 512 --steps 21 --halo-rows 16",
        "link_mbit_per_second = 40.0",
    ),
    "slow node": Planted(
        "pipeline.py --batches 5 --records 64 --rounds 2000 --serial-share 0",
        "link_mbit_per_second = 300.0\nslow_node = 2\nslow_factor = 2.0",
        rank=2,
    ),
    "load imbalance": Planted("wordcount.py --batches 4 --documents 1000 --skew 2", rank=0),
    "serial fraction": Planted(
        "pipeline.py --batches 5 --records 64 --rounds 2000 --serial-share 0.3", rank=0
    ),
}


def planted_study(planted: Planted, folder: Path, rounds: int = ROUNDS, seed: int = 7) -> Study:
    """The study of a job with its disease."""
    words = f"examples/{planted.command}".split()
    command = ", ".join(f'"{word}"' for word in words)
    text = SPEC.format(command=command, nodes=planted.nodes, rounds=rounds, seed=seed, root=ROOT)
    spec = parse_spec(text)
    engine = RehearsalEngine(spec.engine.rehearsal)
    measure(spec, text, folder, folder / "study", engine, lambda *_: None, lambda _: False)
    return store.load(folder / "study")


def named(study: Study) -> tuple[str | None, int | None]:
    """The cause that the ledger puts first at K=4, and the rank that the others wait for."""
    row = attribute(study).row(4)
    return row.dominant_cause, row.late_rank


def slowest_rank(run: Run) -> int:
    """The rank of one run that took most compute seconds for an item."""
    ranks = [rank for rank in run.ranks if rank.items]
    return max(ranks, key=lambda rank: rank.stages["compute"] / (rank.items or 1)).rank


def main() -> None:
    """Measure, judge and print."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for cause in sys.argv[2:] or PLANTED:
        right = 0
        begin = time.monotonic()
        slowest: list[int] = []
        for seed in range(studies):
            with tempfile.TemporaryDirectory() as folder:
                study = planted_study(PLANTED[cause], Path(folder), seed=seed)
            found, rank = named(study)
            guilty = PLANTED[cause].rank
            right += found == cause and guilty in (None, rank)
            slowest += [slowest_rank(run) for run in study.at(4)]
            print(f"  {cause}: {found}, rank {rank}", flush=True)
        seconds = (time.monotonic() - begin) / studies
        print(f"{cause}: {right} of {studies} right, {seconds:.0f} s a study", flush=True)
        if cause == "slow node":
            hits = slowest.count(PLANTED[cause].rank or 0)
            print(f"{cause}: in {hits} of {len(slowest)} runs that rank is the slowest", flush=True)


if __name__ == "__main__":
    main()
