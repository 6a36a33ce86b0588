"""CPU time of the replay of a pipeline, and of the same figures computed with pandas.

.venv/bin/python benchmarks/stragglers.py [operations.csv.gz]

Needs pandas, and ../shared/data/stragglers where no table is named. The reference is given the
dependencies, and replays with one Series an operation; both must agree to 1e-6.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.explain.trace.replay import (
    _COMMUNICATION,
    _SHOWN,
    _WRONG_CLOCK,
    _graph,
    _Table,
    replay,
)
from nodewise.importers.profilers import operations
from nodewise.study.trace import Operations

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared" / "data" / "stragglers" / "trace-ST.csv.gz"
ROUNDS = 5


class Reference:
    """The replay, with pandas."""

    def __init__(self, job: Operations) -> None:
        """Rebuild the dependencies and the durations."""
        table = _Table(job)
        self.graph = _graph(table, job)
        group = {node: i for i, nodes in enumerate(self.graph.groups) for node in nodes}
        at = [table.index[key] for key in zip(job.kind, job.number, job.stage, strict=True)]
        self.rows = pd.DataFrame(
            {
                "node": at,
                "kind": job.kind,
                "shown": [_SHOWN.get(kind, kind) for kind in job.kind],
                "stage": job.stage,
                "replica": job.replica,
                "step": job.step,
                "start": job.start,
                "end": job.end,
                "seconds": job.duration,
                "transfer": [bool(self.graph.is_transfer[node]) for node in at],
                "group": [group[node] for node in at],
                "shared": [node in self.graph.over_replicas for node in at],
            }
        )
        self._find_durations()

    def _find_durations(self) -> None:
        rows = self.rows
        meets = rows.replica.where(~rows.shared, -1)
        arrival = rows.start.groupby([rows.step, rows.group, meets]).transform("max")
        transfer = (rows.end - arrival).where(rows.end - arrival > -_WRONG_CLOCK, 0.0)
        rows["seconds"] = transfer.where(rows.transfer, rows.seconds).astype("float32")
        of_kind = rows.groupby(["kind", "transfer"]).seconds
        is_sent = rows.kind.isin(_COMMUNICATION)
        rows["ideal"] = of_kind.transform("median").where(is_sent, of_kind.transform("mean"))

    def step(self, measured: Any) -> float:
        """Seconds of a step if only these rows keep their durations."""
        rows = self.rows.assign(used=self.rows.seconds.where(measured, self.rows.ideal))
        used = {
            node: part.set_index(["step", "replica"]).used.astype(float).sort_index()
            for node, part in rows.groupby("node")
        }
        ends: dict[int, Any] = {}
        for group in self.graph.groups:
            before = [ends[need] for node in group for need in self.graph.needs[node]]
            begin = pd.concat(before, axis=1).max(axis=1) if before else 0.0
            if before and group[0] in self.graph.over_replicas:
                begin = begin.groupby(level="step").transform("max")
            for node in group:
                ends[node] = begin + used[node]
        return float(pd.concat(ends.values(), axis=1).max(axis=1).groupby("step").max().mean())

    def slowdowns(self) -> dict[str, float]:
        """In all, and by kind, replica and stage."""
        rows = self.rows
        ideal = self.step(rows.step < rows.step.min())
        found = {"all": self.step(rows.step >= rows.step.min()) / ideal}
        for column in ("shown", "replica", "stage"):
            for key in rows[column].unique():
                found[f"{column} {key}"] = self.step(rows[column] == key) / ideal
        return found


def ours(job: Operations) -> dict[str, float]:
    """The same figures by nodewise."""
    found = replay(job)
    return (
        {"all": found.slowdown}
        | {f"shown {key}": value for key, value in found.by_kind.items()}
        | {f"replica {key}": value for key, value in found.by_replica.items()}
        | {f"stage {key}": value for key, value in found.by_stage.items()}
    )


def cpu_seconds(work: Callable[[], Any], rounds: int) -> float:
    """The least of some rounds."""
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def main() -> None:
    """Compare the figures, then the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, nargs="?", default=TRACE)
    job = operations.read(parser.parse_args().table)
    mine, theirs = ours(job), Reference(job).slowdowns()
    apart = max(abs(mine[key] / theirs[key] - 1) for key in theirs)
    print(f"{len(job.kind)} operations, {len(theirs)} slowdowns; largest difference {apart:.1e}")
    assert mine.keys() == theirs.keys() and apart < 1e-6
    fast = cpu_seconds(lambda: ours(job), ROUNDS)
    slow = cpu_seconds(lambda: Reference(job).slowdowns(), 1)
    print(f"CPU seconds: nodewise {fast:.3f}, pandas {slow:.2f}: 1/{slow / fast:.0f}")


if __name__ == "__main__":
    main()
