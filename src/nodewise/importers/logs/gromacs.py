"""GROMACS md.log: the cycle and time accounting at its end."""

import re
from pathlib import Path

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import Seen, fact, rule, scan
from nodewise.study.study import Stage

_ROW = (
    r"^ ([A-Za-z][\w/+.,&() -]{1,30}?)(?: \*)? {1,40}"
    r"(?:(\d{1,7}) {1,40}(?:\d{1,7} {1,20}(\d{1,12}) {1,20})?)?"
    r"([\d.]{1,16}) {1,20}[\d.]{1,20} {1,12}[\d.]{1,6}\s*$"
)
_COMMUNICATION = ("Comm. coord.", "Wait + Comm. F", "DD comm. load", "DD comm. bounds",
                  "Comm. energies", "Send X to PME", "Recv X from PP", "PME wait for PP",
                  "Wait + Recv. PME F", "Wait PME GPU gather", "Comm energies")  # fmt: skip
_BETWEEN = ("PME wait for PP", "Wait + Recv. PME F")  # ranks of two kinds wait for each other
_IO = ("Write traj.",)
_PER_DAY_ERROR = 0.01
Timed = tuple[float | None, float | None, float]  # ranks, calls and seconds of an activity
_OVERHEAD = ("Rest", "Domain decomp.", "Launch PP GPU ops.", "Launch GPU ops.", "Vsite constr.")


def _row(log: Log, found: "re.Match[bytes]") -> None:
    if log.get("table"):
        name = found[1].decode("ascii", "replace").strip()
        ranks, count, seconds = (number(found[at]) for at in (2, 3, 4))
        rows = log.values.setdefault("rows", {})
        if seconds is not None and len(rows) < 200:
            rows.setdefault(name, (ranks, count, seconds))


def _ranks(log: Log, found: "re.Match[bytes]") -> None:
    """Ranks of the accounting: of one kind, or those for particles and those for PME."""
    kind = (found[2] or b"").decode()
    log.values[f"counted{kind}"] = int(found[1])


RULES = (
    rule("table", "A C C O U N T I N G", r"T I M E   A C C O U N T I N G",
         lambda log, _: log.values.update(table=True, rows={}), True),
    rule("activity", ".", _ROW, _row, True),
    rule("time", "Time:", r"^ {1,12}Time: {1,20}([\d.]{1,16}) {1,20}([\d.]{1,16}) {1,20}[\d.]",
         lambda log, m: log.values.update(wall=number(m[2])), True),
    rule("performance", "Performance:", r"^Performance: {1,20}([\d.]{1,16})\b",
         lambda log, m: log.values.update(per_day=number(m[1])), True),
    rule("steps", " steps, ", r"^(\d{1,15}) steps, {1,12}([\d.]{1,16}) ps\.",
         lambda log, m: log.values.update(asked=(int(m[1]), number(m[2]) or 0.0)), True),
    fact("nodes", "Running on", r"^Running on (\d{1,7}) nodes? with total"),
    fact("ranks", "Using ", r"^Using (\d{1,7}) MPI (?:process(?:es)?|threads?)\b",
         "world_size"),
    rule("ranks", "MPI rank", r"^[Oo]n (\d{1,7}) MPI ranks?( doing PP| doing PME)?\b", _ranks,
         True),
    rule("threads", "OpenMP thread", r"^Using (\d{1,6}) OpenMP threads?",
         lambda log, m: log.size.setdefault("threads", float(m[1]))),
    rule("steps", "nsteps", r"^ {1,8}nsteps {1,40}= (-?\d{1,15})\b",
         lambda log, m: log.values.setdefault("planned", int(m[1]))),
    rule("steps", "Overriding nsteps",
         r"Overriding nsteps with value passed on the command line: (\d{1,15}) steps",
         lambda log, m: log.values.update(planned=int(m[1]))),
    rule("atoms", "Atoms", r"^There are: (\d{1,15}) Atoms",
         lambda log, m: log.size.setdefault("atoms", float(m[1])), True),
    rule("time step", "dt", r"^ {1,8}dt {1,40}= ([\d.e-]{1,16})\b",
         lambda log, m: log.size.setdefault("dt", number(m[1]) or 0.0)),
    rule("waiting", "spent waiting",
         r"run time spent waiting due to (load|PP/PME) imbalance: ([\d.]{1,8}) ?%",
         lambda log, m: log.values.setdefault("waiting", {}).update(
             {m[1]: (number(m[2]) or 0.0) / 100}), True),
    rule("statistics", "Statistics over", r"Statistics over (\d{1,15}) steps",
         lambda log, m: log.values.update(done=int(m[1])), True),
    rule("error", "Fatal error", r"Fatal error:(.{0,200})",
         lambda log, m: log.values.setdefault("error", "fatal error"), True),
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in an md.log; one that did not end has no accounting."""
    log = scan(path, Log(path, "gromacs", one_rank=True), RULES, seen)
    wall, rows = log.get("wall"), log.get("rows") or {}
    if not log.get("world_size"):
        kinds = [log.get("counted doing PP"), log.get("counted doing PME")]
        log.put("world_size", sum(kinds) if all(kinds) else log.get("counted"))
    planned, done = log.get("planned"), log.get("done")
    error = log.get("error") or ""
    if not log.get("table") and wall and log.get("per_day"):
        return [_of_screen(log, wall)]
    if not log.get("table") or wall is None:
        return [log.run(problem=error or "the run did not end: no time accounting")]
    steps = _steps(planned, rows)
    if wall <= 0 or (steps is None and (done or 0) <= 1) or planned == 0:
        return [log.run(problem="no steps were run")]
    run = log.run(
        iterations=steps,
        run_seconds=wall,
        mean_step_seconds=wall / steps if steps else None,
        stages=_stages(log, rows, wall),
        work=float(steps) if steps else None,
        work_unit="steps",
    )
    return [run]


def _of_screen(log: Log, wall: float) -> LogRun:
    """The run as the screen of mdrun has it: without accounting, but with its time.

    The steps count where the simulated time gives the printed ns/day: else some were left out.
    """
    steps, picoseconds = log.get("asked") or (None, 0.0)
    ratio = picoseconds * 1e-3 * 86400 / wall / log.get("per_day")
    if steps and abs(ratio / 2 - 1) <= _PER_DAY_ERROR:  # -resethway: the time is of one half
        steps, ratio = steps // 2, ratio / 2
    if not steps or abs(ratio - 1) > _PER_DAY_ERROR:
        return log.run(run_seconds=wall)
    return log.run(iterations=steps, run_seconds=wall, mean_step_seconds=wall / steps,
                   work=float(steps), work_unit="steps")  # fmt: skip


def _steps(planned: int | None, rows: dict[str, Timed]) -> int | None:
    """The steps in the time: fewer than planned where a run was stopped or its clock reset."""
    planned = planned if planned and planned > 0 else None
    count = rows["Force"][1] if "Force" in rows else None
    if not count or count in (planned, (planned or 0) + 1):
        return planned
    return int(count) - 1 or None


def _stages(log: Log, rows: dict[str, Timed], wall: float) -> dict[Stage, float]:
    """Mean seconds of a rank; ranks that only do PME count for their share."""
    total, particles = log.get("world_size"), rows.get("Force", (None, None, 0.0))[0]
    is_split = total and particles and particles < total
    share = particles / total if is_split and total and particles else 1.0
    found: dict[Stage, float] = dict.fromkeys(("compute", "communication", "io", "overhead"), 0.0)
    between = 0.0
    for name, (_, _, seconds) in rows.items():
        if name in ("Total", "Breakdown of PME mesh computation"):
            break
        stage: Stage = "compute"
        if name in _COMMUNICATION:
            stage = "communication"
        elif name in _IO:
            stage = "io"
        elif name in _OVERHEAD:
            stage = "overhead"
        mean = seconds * (1 - share if is_split and name.startswith("PME") else share)
        found[stage] += mean
        between += mean if name in _BETWEEN else 0.0
    if abs(sum(found.values()) / wall - 1) > 0.05:
        return {}  # the table is of another shape: no stages rather than wrong ones
    if waiting := log.get("waiting"):
        # Estimates from the load; neither is more than the activities in which it is.
        idle = min(waiting.get(b"PP/PME", 0.0) * wall, between)
        idle += min(waiting.get(b"load", 0.0) * wall, found["communication"] - between)
        found["communication"] -= idle
        found["idle"] = idle
    return found
