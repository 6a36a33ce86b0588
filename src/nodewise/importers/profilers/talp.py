"""TALP (DLB) JSON: totals of a run over its processes, in nanoseconds, by region.

TALP's parallel efficiency is useful time over useful and lost time of the CPUs, so the stages here
are its totals over the number of CPUs: what a CPU did on average. What the run took beyond them
stays unexplained.
"""

from pathlib import Path
from typing import Any

from nodewise.importers.files import number, read_json, wrong_format
from nodewise.study.study import Run, Stage

WHAT = "a JSON of TALP"
_GLOBAL = "Global"


def read(path: Path, nodes: int | None, region: str = "") -> list[Run]:
    """The run in one file; K is `nodes`, else the number of MPI processes."""
    document = read_json(path, WHAT)
    regions = document.get("Application") if isinstance(document, dict) else None
    if not isinstance(regions, dict) or not regions:
        raise wrong_format(path, WHAT, "it has no Application")
    name = region or (_GLOBAL if _GLOBAL in regions else next(iter(regions)))
    if not isinstance(regions.get(name), dict):
        raise wrong_format(path, WHAT, f"it has no region {name}; there are {', '.join(regions)}")
    values: dict[str, Any] = regions[name]
    resources = document.get("resources")
    resources = resources if isinstance(resources, dict) else {}

    def first(*names: str) -> float | None:
        for source in (values, resources):
            for name in names:
                found = number(source.get(name))
                if found is not None and found > 0:
                    return found
        return None

    elapsed, cpus = first("elapsedTime"), first("numCpus")
    useful = number(values.get("usefulTime"))
    scale = nodes or first("numMpiRanks", "numNodes")
    if elapsed is None or cpus is None or useful is None or scale is None:
        raise wrong_format(path, WHAT, "it lacks elapsedTime, usefulTime, numCpus or numMpiRanks")

    def share(*names: str) -> float:
        # A counter that overflowed is negative and counts as nothing.
        return sum(max(number(values.get(name)) or 0.0, 0.0) for name in names) / cpus / 1e9

    stages: dict[Stage, float] = {
        "compute": share("usefulTime"),
        "communication": share("mpiTime"),
        "idle": share("ompLoadImbalanceTime"),
        "serial": share("ompSchedulingTime", "ompSerializationTime", "gpuRuntimeTime"),
    }
    return [Run(nodes=int(scale), round=0, seconds=elapsed / 1e9, stages=stages)]
