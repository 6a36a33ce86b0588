"""OpenFOAM, HPCG, Quantum ESPRESSO and mpiP: what they print at the end of a run."""

import re
from pathlib import Path

from nodewise.importers.logs.record import Log, LogRun, clock_seconds, number
from nodewise.importers.logs.scan import Rule, Seen, fact, rule, scan, size
from nodewise.study.study import Rank, Stage

FOAM_TIME = rb"ExecutionTime = [\d.]{1,16} s"
HPCG_HEAD = rb"Distributed Processes ?[=:] ?\d"
PWSCF = rb"Program (?:PWSCF|CP|PHONON|NEB) {1,8}v\.[\w.-]{1,20}\s{1,40}starts"
MPIP = rb"@ mpiP"
_FINE_CLOCK, _COARSE_CLOCK = 100.0, 20.0  # seconds, of which whole ones are 1 and 5 %


def _foam_step(log: Log, found: "re.Match[bytes]") -> None:
    cpu, wall = number(found[1]), number(found[2])
    held = log.values.setdefault("clock", [])
    if cpu is not None and (not held or cpu >= held[-1][0]):
        if len(held) == 2:
            held.pop()
        held.append((cpu, wall or 0.0))
        log.values["times"] = log.values.get("times", 0) + 1


_FOAM = (
    rule("time", "ExecutionTime", r"ExecutionTime = ([\d.]{1,16}) s(?:.{0,20}ClockTime = "
         r"([\d.]{1,16}) s)?", _foam_step, True),
    fact("ranks", "nProcs", r"^nProcs *: *(\d{1,7})\b", "world_size"),
    rule("program", "Exec", r"^Exec *: *(\S{1,100})",
         lambda log, m: log.size.setdefault("program", m[1].decode("utf-8", "replace"))),
    rule("end", "End", r"^End\s*$", lambda log, _: log.values.update(ended=True), True),
    rule("end", "inalising", r"^Finalising parallel run",
         lambda log, _: log.values.update(ended=True), True),
    rule("error", "FOAM", r"FOAM FATAL (?:IO )?ERROR",
         lambda log, _: log.values.update(error="FOAM FATAL ERROR"), True),
)  # fmt: skip


def read_openfoam(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run of a solver of OpenFOAM."""
    log = scan(path, Log(path, "openfoam"), _FOAM, seen)
    clock, times = log.get("clock"), log.get("times") or 0
    if log.get("error"):
        return [_crashed(log, clock[-1][1] if clock else None, "FOAM FATAL ERROR")]
    if not clock or not log.get("ended"):
        ended = "no time steps" if log.get("ended") else "the run did not end"
        return [log.run(problem=ended)]
    cpu, wall = clock[-1]
    seconds = wall
    if wall < _FINE_CLOCK and wall == int(wall):  # whole seconds: the CPU time is finer
        seconds = cpu if wall - 1 <= cpu <= wall + 1 else wall
        if seconds == wall < _COARSE_CLOCK or seconds <= 0:
            return [log.run(problem=f"the clock counts whole seconds, and the run took {wall:g}")]
    return [log.run(iterations=times, run_seconds=seconds, mean_step_seconds=seconds / times,
                    work=float(times), work_unit="steps")]  # fmt: skip


def _crashed(log: Log, seconds: float | None, detail: str) -> LogRun:
    return log.run(outcome="crashed", detail=detail, run_seconds=seconds or None)


def _hpcg(name: str, text: str) -> tuple[str, str]:
    return name, rf"(?:^|::| )\s*{text} ?[=:] ?([\d.e+-]{{1,24}})"


_HPCG_FIELDS = dict((
    _hpcg("processes", "Distributed Processes"), _hpcg("threads", "Threads per processes"),
    _hpcg("nx", "Global nx"), _hpcg("ny", "Global ny"), _hpcg("nz", "Global nz"),
    _hpcg("sets", "Total number of optimized iterations"),
    _hpcg("gflops", r"HPCG result is VALID with a GFLOP/s rating of"),
))  # fmt: skip


def _hpcg_rule(name: str, pattern: str) -> Rule:
    key = {"processes": "Distributed", "threads": "Threads per", "sets": "optimized iterations",
           "gflops": "HPCG result"}.get(name, f"Global {name}")  # fmt: skip
    return rule(name, key, pattern, lambda log, m: log.values.setdefault(name, number(m[1])))


_HPCG = (
    *(_hpcg_rule(name, pattern) for name, pattern in _HPCG_FIELDS.items()),
    rule("section", "Benchmark Time Summary", r"Benchmark Time Summary:?\s*$",
         lambda log, _: log.values.update(in_times=True)),
    rule("total", "Total", r"(Benchmark Time Summary::|^\s{1,8})Total ?[=:] ?([\d.e+-]{1,24})\s*$",
         lambda log, m: log.values.setdefault("seconds", number(m[2]))
         if log.get("in_times") or m[1].strip() else None),
    rule("section end", "Floating Point Operations", r"Floating Point Operations Summary:?\s*$",
         lambda log, _: log.values.update(in_times=False)),
    rule("invalid", "INVALID", r"HPCG result is INVALID",
         lambda log, _: log.values.update(invalid=True)),
)  # fmt: skip


def read_hpcg(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a report of HPCG; the time is that of an iteration."""
    log = scan(path, Log(path, "hpcg"), _HPCG, seen)
    log.put("world_size", int(log.get("processes") or 0) or None)
    log.size["threads"] = log.get("threads") or 1.0
    if log.get("invalid") or not log.get("gflops"):
        return [log.run(problem="HPCG calls the result invalid, or gives none")]
    cells = (log.get("nx") or 0) * (log.get("ny") or 0) * (log.get("nz") or 0)
    sets, seconds = log.get("sets"), log.get("seconds")
    if not cells or not seconds or not sets:
        return [log.run(problem="no dimensions, iterations or total time")]
    return [log.run(iterations=int(sets), run_seconds=seconds, mean_step_seconds=seconds / sets,
                    step_seconds=seconds / sets, work=cells, work_unit="cells")]  # fmt: skip


_QE_SIZES = (
    ("atoms", "number of atoms/cell"), ("bands", "number of Kohn-Sham states"),
    ("cutoff", "kinetic-energy cutoff"), ("k points", "number of k points"),
)  # fmt: skip
_QE = (
    fact("ranks", "running on", r"Parallel version \(MPI\), running on {1,12}(\d{1,7}) proc",
         "world_size"),
    fact("ranks", "MPI processes:", r"Number of MPI processes: {1,40}(\d{1,7})", "world_size"),
    fact("nodes", "distributed on", r"MPI processes distributed on {1,12}(\d{1,7}) nodes"),
    rule("threads", "Threads/MPI", r"Threads/MPI process: {1,40}(\d{1,6})",
         lambda log, m: log.size.setdefault("threads", float(m[1]))),
    rule("serial", "Serial", r"^ {1,8}Serial (?:multi-threaded )?version",
         lambda log, _: log.put("world_size", 1)),
    *(size(name, text, rf"{text} {{0,40}}= {{1,12}}([\d.]{{1,16}})") for name, text in _QE_SIZES),
    rule("time", "WALL", r"^ {1,8}(?:PWSCF|CP|PHONON|NEB) {1,12}: {1,20}.{1,30}CPU {1,12}"
         r"([\dhmds. ]{1,24}) WALL",
         lambda log, m: log.values.update(wall=clock_seconds(m[1].decode()))),
    rule("iterations", "convergence has been achieved", r"achieved in {1,8}(\d{1,6}) iterations",
         lambda log, m: log.values.update(cycles=(log.get("cycles") or 0) + int(m[1]))),
    rule("end", "JOB DONE", r"JOB DONE", lambda log, _: log.values.update(ended=True)),
)  # fmt: skip


def read_espresso(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run of a program of Quantum ESPRESSO."""
    log = scan(path, Log(path, "quantum-espresso"), _QE, seen)
    if not log.get("ended") or not log.get("wall"):
        return [log.run(problem="the run did not end: no JOB DONE with its time")]
    return [log.run(run_seconds=log.get("wall"), iterations=log.get("cycles"))]


def _task(log: Log, found: "re.Match[bytes]") -> None:
    if log.get("times"):
        total, mpi = number(found[2]), number(found[3])
        tasks = log.values.setdefault("tasks", {})
        if total is not None and mpi is not None and len(tasks) < 10**6:
            tasks.setdefault(int(found[1]), (total, mpi))


_MPIP = (
    rule("times", "@---", r"@--- (MPI Time)?",
         lambda log, m: log.values.update(times=m[1] is not None)),
    rule("task", ".", r"^ {0,12}(\d{1,7}) {1,12}([\d.e+-]{1,16}) {1,12}([\d.e+-]{1,16}) "
         r"{1,12}[\d.]{1,8}\s*$", _task),
    rule("host", "Task Assignment", r"@ MPI Task Assignment {1,12}: (\d{1,7}) (\S{1,100})",
         lambda log, m: log.values.setdefault("hosts", set()).add(m[2])),
)  # fmt: skip


def read_mpip(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a report of mpiP; its MPI time holds both sending and waiting."""
    log = scan(path, Log(path, "mpip"), _MPIP, seen)
    tasks: dict[int, tuple[float, float]] = log.get("tasks") or {}
    if not tasks or set(tasks) != set(range(len(tasks))):
        return [log.run(problem="the table of MPI time lacks tasks")]
    log.put("world_size", len(tasks))
    log.put("nodes", len(log.get("hosts") or ()) or None)
    seconds = max(total for total, _ in tasks.values())
    if seconds <= 0:
        return [log.run(problem="no time passed")]
    least = min(mpi for _, mpi in tasks.values())
    most = max(total - mpi for total, mpi in tasks.values())
    ranks = []
    for task, (total, mpi) in sorted(tasks.items()):
        # The rank that computes longest waits least; what others have more of MPI time is waiting,
        # as far as they compute less.
        idle = max(0.0, min(mpi - least, most - (total - mpi)))
        stages: dict[Stage, float] = {
            "compute": max(0.0, total - mpi), "communication": mpi - idle, "idle": idle,
        }  # fmt: skip
        ranks.append(Rank(rank=task, stages=stages, seconds=total or None))
    return [log.run(run_seconds=seconds, ranks=tuple(ranks))]
