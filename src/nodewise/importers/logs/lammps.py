"""LAMMPS: `Loop time of X on P procs for N steps with A atoms`, and the breakdown after it."""

import re
from pathlib import Path
from typing import Any

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import Seen, rule, scan
from nodewise.study.study import Stage

LOOP = rb"Loop time of [\d.e+-]{1,20} on \d{1,9} procs for"
_ROW = r"^(\w[\w/ ]{0,20}?) *\| *([\d.e+-]*) *\| *([\d.e+-]+) *\| *([\d.e+-]*) *\|"
_COMPUTE = {"Pair", "Bond", "Kspace", "Neigh", "Modify"}
_MOST_LOOPS = 10_000


def _loop(log: Log, found: "re.Match[bytes]") -> None:
    """A `run` of the input; a minimization has a loop as well."""
    loops = log.values.setdefault("loops", [])
    if len(loops) < _MOST_LOOPS:
        figures = [number(found[at]) or 0.0 for at in range(1, 5)]
        loops.append({"seconds": figures[0], "procs": int(figures[1]), "steps": int(figures[2]),
                      "atoms": figures[3], "rows": {}})  # fmt: skip


def _row(log: Log, found: "re.Match[bytes]") -> None:
    loops = log.values.get("loops")
    if loops:
        name = found[1].decode("ascii", "replace").strip()
        low, mean, high = (number(found[at]) for at in (2, 3, 4))
        if mean is not None:
            own = (mean if low is None else low, mean, mean if high is None else high)
            loops[-1]["rows"].setdefault(name, own)


RULES = (
    rule("loop", "Loop time of", r"Loop time of ([\d.e+-]{1,20}) on (\d{1,9}) procs for "
         r"(\d{1,12}) steps with (\d{1,15}) atoms", _loop, True),
    rule("breakdown", "|", _ROW, _row, True),
    rule("threads", "OpenMP", r"(\d{1,6}) MPI tasks? x (\d{1,6}) OpenMP threads",
         lambda log, m: log.put("threads", number(m[2])), True),
    rule("error", "ERROR", r"^ERROR(?: on proc \d+)?: (.{1,200})",
         lambda log, m: log.values.setdefault("error", m[1].decode("utf-8", "replace")), True),
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The longest loop of each part of the log that ran on another number of ranks."""
    log = scan(path, Log(path, "lammps"), RULES, seen)
    loops = [loop for loop in log.values.pop("loops", []) if loop["seconds"] > 0 and loop["steps"]]
    error = log.values.pop("error", "")
    if not loops:
        return [log.run(problem=error or "no loop with its time: the run did not end")]
    chosen: dict[int, dict[str, Any]] = {}
    for loop in loops:
        held = chosen.get(loop["procs"])
        if held is None or loop["seconds"] > held["seconds"]:
            chosen[loop["procs"]] = loop
    threads = log.get("threads") or 1.0
    return [_run(path, loop, threads) for loop in chosen.values()]


def _run(path: Path, loop: dict[str, Any], threads: float) -> LogRun:
    return LogRun(
        path=str(path), format="lammps", world_size=loop["procs"], iterations=loop["steps"],
        run_seconds=loop["seconds"], mean_step_seconds=loop["seconds"] / loop["steps"],
        work=loop["atoms"] * loop["steps"] or None, work_unit="atom-steps",
        size={"threads": threads}, stages=stages(loop["rows"]),
    )  # fmt: skip


def stages(rows: dict[str, tuple[float, float, float]]) -> dict[Stage, float]:
    """Mean seconds of a rank, from the least, mean and most of each section.

    A rank that computes less waits inside Comm. The rank that waits least has the least Comm, so
    what the mean is above it is waiting, as far as the imbalance of the computing explains it.
    """
    if "Comm" not in rows:
        return {}
    compute = [rows[name] for name in rows if name in _COMPUTE]
    low, mean, _ = rows["Comm"]
    spread = sum(most - middle for _, middle, most in compute)
    idle = max(0.0, min(spread, mean - low))
    known: dict[Stage, float] = {
        "compute": sum(middle for _, middle, _ in compute),
        "communication": mean - idle,
        "idle": idle,
        "io": rows.get("Output", (0.0, 0.0, 0.0))[1],
        "overhead": rows.get("Other", (0.0, 0.0, 0.0))[1],
    }
    return known
