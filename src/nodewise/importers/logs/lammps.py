"""LAMMPS: `Loop time of X on P procs for N steps with A atoms`, and the breakdown after it."""

import math
import re
from pathlib import Path
from typing import Any

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import Seen, rule, scan
from nodewise.importers.logs.timers import Row, waiting
from nodewise.study.study import Stage

_ROW = r"^(\w[\w/ ]{0,20}?) *\| *([\d.e+-]*) *\| *([\d.e+-]+) *\| *([\d.e+-]*) *\|"
_COMPUTE = {"Pair", "Bond", "Kspace", "Neigh", "Modify"}
_MOST_LOOPS = 10_000


def _loop(log: Log, found: "re.Match[bytes]") -> None:
    """A `run` of the input; a minimization has a loop as well.

    Its processors are ranks times threads. The ranks are in the same line (before 2013), in the
    line about CPU use that follows, or in the grid of processors before it.
    """
    loops = log.values.setdefault("loops", [])
    if len(loops) < _MOST_LOOPS:
        procs = int(found[2])
        ranks = int(found[3]) if found[3] else log.get("grid")
        loops.append({
            "seconds": number(found[1]) or 0.0, "procs": procs,
            "ranks": ranks if ranks and procs % ranks == 0 else None,
            "steps": int(found[5]), "atoms": number(found[6]) or 0.0, "rows": {},
        })  # fmt: skip


def _ranks(log: Log, ranks: int | None) -> None:
    """The ranks of the loop before this line; None: as many as processors, if nothing else says."""
    loops = log.values.get("loops")
    if loops and (ranks or loops[-1]["ranks"] is None):
        loops[-1]["ranks"] = ranks or loops[-1]["procs"]


def _grid(log: Log, found: "re.Match[bytes]") -> None:
    log.values["grid"] = math.prod(int(found[at]) for at in (1, 2, 3))


def _row(log: Log, found: "re.Match[bytes]") -> None:
    loops = log.values.get("loops")
    if loops:
        name = found[1].decode("ascii", "replace").strip()
        low, mean, high = (number(found[at]) for at in (2, 3, 4))
        if mean is not None:
            own = (mean if low is None else low, mean, mean if high is None else high)
            loops[-1]["rows"].setdefault(name, own)


RULES = (
    rule("loop", "Loop time of", r"Loop time of ([\d.e+-]{1,20}) on (\d{1,9}) procs "
         r"(?:\((\d{1,9}) MPI x (\d{1,6}) OpenMP\) )?for (\d{1,12}) steps with (\d{1,15}) atoms",
         _loop, True),
    rule("breakdown", "|", _ROW, _row, True),
    rule("ranks", "MPI tasks", r"CPU use with (\d{1,7}) MPI tasks? x (?:\d{1,6}|no) OpenMP",
         lambda log, m: _ranks(log, int(m[1])), True),
    rule("ranks", "time (%)", r"^\w{4,6} +time \(%\) = ",  # before 2015: no threads
         lambda log, _: _ranks(log, None), True),
    rule("grid", "processor grid",
         r"(\d{1,6}) by (\d{1,6}) by (\d{1,6}) (?:MPI )?processor grid", _grid, True),
    rule("error", "ERROR", r"^ERROR(?: on proc \d+)?: (.{1,200})",
         lambda log, m: log.values.setdefault("error", m[1].decode("utf-8", "replace")), True),
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The longest loop of each part of the log that ran on another number of ranks."""
    log = scan(path, Log(path, "lammps", one_rank=True), RULES, seen)
    loops = [loop for loop in log.values.pop("loops", []) if loop["seconds"] > 0 and loop["steps"]]
    error = log.values.pop("error", "")
    if not loops:
        return [log.run(problem=error or "no loop with its time: the run did not end")]
    chosen: dict[int, dict[str, Any]] = {}
    for loop in loops:
        key = loop["ranks"] or -loop["procs"]
        if key not in chosen or loop["seconds"] > chosen[key]["seconds"]:
            chosen[key] = loop
    return [_run(path, loop) for loop in chosen.values()]


def _run(path: Path, loop: dict[str, Any]) -> LogRun:
    ranks = loop["ranks"]
    return LogRun(
        path=str(path), format="lammps", world_size=ranks, iterations=loop["steps"],
        run_seconds=loop["seconds"], mean_step_seconds=loop["seconds"] / loop["steps"],
        work=loop["atoms"] * loop["steps"] or None, work_unit="atom-steps",
        size={"threads": loop["procs"] / ranks} if ranks else {}, stages=stages(loop["rows"]),
    )  # fmt: skip


def stages(rows: dict[str, Row]) -> dict[Stage, float]:
    """Mean seconds of a rank, from the least, mean and most of each section."""
    if "Comm" not in rows:
        return {}
    compute = [rows[name] for name in rows if name in _COMPUTE]
    idle = waiting(compute, rows["Comm"])
    known: dict[Stage, float] = {
        "compute": sum(middle for _, middle, _ in compute),
        "communication": rows["Comm"][1] - idle,
        "idle": idle,
        "io": rows.get("Output", (0.0, 0.0, 0.0))[1],
        "overhead": rows.get("Other", (0.0, 0.0, 0.0))[1],
    }
    return known
