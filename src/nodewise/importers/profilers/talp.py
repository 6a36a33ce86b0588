"""TALP (DLB) JSON: totals of a run over its processes, in nanoseconds, by region.

TALP's parallel efficiency is useful time over useful and lost time of the CPUs, so the stages here
are its totals over the number of CPUs: what a CPU did on average. What the run took beyond them
stays unexplained. A stage that TALP did not record is left out. Its load balance says how much of
the MPI time is waiting for the busiest process.
"""

from pathlib import Path
from typing import Any

from nodewise.importers.files import number, read_json, wrong_format
from nodewise.study.study import Counter, Efficiency, Run, Stage

WHAT = "a JSON of TALP"
_GLOBAL = "Global"
_THREADS = ("ompLoadImbalanceTime", "ompSchedulingTime", "ompSerializationTime")


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

    has_mpi = bool(first("numMpiRanks"))
    has_threads = _uses_threads(values, cpus, first("numMpiRanks"))
    return [
        Run(
            nodes=int(scale),
            round=0,
            seconds=elapsed / 1e9,
            stages=_stages(values, cpus, has_mpi, has_threads),
            efficiencies=_efficiencies(values, has_mpi, has_threads),
            counters=_counters(values),
        )
    ]


def _uses_threads(values: dict[str, Any], cpus: float, ranks: float | None) -> bool:
    """Whether OpenMP ran: TALP writes its times as 0 also where it did not."""
    parallels = number(values.get("numOmpParallels"))
    if parallels is not None:
        return parallels > 0
    return cpus > (ranks or 1) or any((number(values.get(name)) or 0) > 0 for name in _THREADS)


def _stages(
    values: dict[str, Any], cpus: float, has_mpi: bool, has_threads: bool
) -> dict[Stage, float]:
    def share(*names: str) -> float | None:
        # A counter that overflowed is negative, and not known.
        known = [number(values.get(name)) for name in names]
        found = [value for value in known if value is not None and value >= 0]
        return sum(found) / cpus / 1e9 if found else None

    useful = share("usefulTime")
    communication = share("mpiTime") if has_mpi else None
    waiting = None
    balance = number(values.get("mpiLoadBalance"))
    if has_mpi and useful is not None and communication is not None and balance:
        waiting = min(max(useful * (1 / balance - 1), 0.0), communication)
        communication -= waiting
    threads = share("ompLoadImbalanceTime") if has_threads else None
    serial = share("ompSchedulingTime", "ompSerializationTime") if has_threads else None
    offload = share("gpuRuntimeTime")
    found: dict[Stage, float | None] = {
        "compute": useful,
        "communication": communication,
        "idle": None
        if waiting is None and threads is None
        else (waiting or 0.0) + (threads or 0.0),
        "serial": None if serial is None and not offload else (serial or 0.0) + (offload or 0.0),
    }
    return {stage: seconds for stage, seconds in found.items() if seconds is not None}


def _efficiencies(
    values: dict[str, Any], has_mpi: bool, has_threads: bool
) -> dict[Efficiency, float]:
    """The efficiencies that TALP computed."""
    names: dict[Efficiency, str] = {"parallel": "parallelEfficiency"}
    if has_mpi:
        names |= {"load balance": "mpiLoadBalance", "communication": "mpiCommunicationEfficiency"}
    if has_threads:
        names |= {"threads": "ompParallelEfficiency"}
    stated = {name: number(values.get(key)) for name, key in names.items()}
    return {name: value for name, value in stated.items() if value is not None and value > 0}


def _counters(values: dict[str, Any]) -> dict[Counter, float]:
    """Instructions and cycles of useful time; 0 where they were not counted."""
    names: tuple[Counter, ...] = ("instructions", "cycles")
    counted = {name: number(values.get(name)) for name in names}
    return {name: value for name, value in counted.items() if value is not None and value > 0}
