"""OpenFOAM, HPCG, Quantum ESPRESSO and mpiP: what they print at the end of a run."""

import re
from pathlib import Path

import msgspec

from nodewise.importers.logs.record import Log, LogRun, clock_seconds, number
from nodewise.importers.logs.rounded import whole
from nodewise.importers.logs.scan import Rule, Seen, fact, rule, scan, size
from nodewise.study.study import Rank, Stage

_MOST_PROGRAMS = 1000
_MPIP_ROUNDING = 0.02  # of a sum: mpiP prints three digits
_MPIP_EXACT = 1e-7  # of a ratio: its short report prints six decimals
_FINE_CLOCK, _COARSE_CLOCK = 100.0, 20.0  # seconds, of which whole ones are 1 and 5 %


class _Foam(msgspec.Struct):
    """One program of OpenFOAM in a log; a job prints several, one after the other."""

    program: str = ""
    ranks: int | None = None
    times: int = 0  # lines with the clocks
    cpu: float = 0.0
    wall: float = 0.0
    ended: bool = False
    error: bool = False


def _foam(log: Log) -> _Foam:
    programs: list[_Foam] = log.values.setdefault("programs", [_Foam()])
    return programs[-1]


def _foam_begins(log: Log, found: "re.Match[bytes]") -> None:
    if _foam(log) != _Foam() and len(log.values["programs"]) < _MOST_PROGRAMS:
        log.values["programs"].append(_Foam())
    _foam(log).program = found[1].decode("utf-8", "replace")


def _foam_step(log: Log, found: "re.Match[bytes]") -> None:
    cpu, wall = number(found[1]), number(found[2])
    program = _foam(log)
    log.end_header()
    if cpu is None:
        return
    if cpu < program.cpu:  # the clock of another program
        program = _Foam(program=program.program, ranks=program.ranks)
        if len(log.values["programs"]) < _MOST_PROGRAMS:
            log.values["programs"].append(program)
    program.cpu, program.wall, program.times = cpu, wall or 0.0, program.times + 1


def _foam_steps(log: Log, lines: bytes, _: int) -> bool:
    """Count the lines that begin a time step, of all programs."""
    clocks = lines.count(b"ExecutionTime = ") + lines.count(b"ClockTime = ")
    count = lines.count(b"Time = ") - clocks
    log.values["steps"] = (log.get("steps") or 0) + count
    return True


_FOAM = (
    rule("time step", "Time = ", r"^Time = \S",
         lambda log, _: _foam_steps(log, b"Time = ", 1), True, _foam_steps, unordered=True),
    rule("time", "ExecutionTime", r"ExecutionTime = ([\d.]{1,16}) s(?:.{0,20}ClockTime = "
         r"([\d.]{1,16}) s)?", _foam_step, True),
    rule("program", "Exec", r"^Exec *: *(\S{1,100})", _foam_begins, True),
    rule("ranks", "nProcs", r"^nProcs *: *(\d{1,7})\b",
         lambda log, m: setattr(_foam(log), "ranks", int(m[1]) or None), True),
    rule("end", "End", r"^End\s*$", lambda log, _: setattr(_foam(log), "ended", True), True),
    rule("end", "inalising", r"^Finalising parallel run",
         lambda log, _: setattr(_foam(log), "ended", True), True),
    rule("error", "FOAM", r"FOAM FATAL (?:IO )?ERROR",
         lambda log, _: setattr(_foam(log), "error", True), True),
)  # fmt: skip


def read_openfoam(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run of a solver of OpenFOAM: of several programs, the one that took longest."""
    log = scan(path, Log(path, "openfoam", one_rank=True), _FOAM, seen)
    programs = log.values.pop("programs", [_Foam()])
    one = max(programs, key=lambda program: program.cpu)
    log.put("world_size", one.ranks)
    if one.program:
        log.size["program"] = one.program
    if one.error:
        return [_crashed(log, one.wall, "FOAM FATAL ERROR")]
    if not one.times or not one.ended:
        return [log.run(problem="no time steps" if one.ended else "the run did not end")]
    seconds = one.wall
    if one.wall < _FINE_CLOCK and one.wall == int(one.wall):  # whole seconds: CPU time is finer
        seconds = one.cpu if one.wall - 1 <= one.cpu <= one.wall + 1 else one.wall
        if seconds == one.wall < _COARSE_CLOCK or seconds <= 0:
            problem = f"the clock counts whole seconds, and the run took {one.wall:g}"
            return [log.run(problem=problem)]
    if not one.program:  # the beginning of the log is missing, and with it some steps
        return [log.run(run_seconds=seconds)]
    steps = log.get("steps")
    if steps and steps != sum(program.times for program in programs):
        # the clocks are printed more or less often than every step
        return [log.run(run_seconds=seconds)]
    return [log.run(iterations=one.times, run_seconds=seconds,
                    mean_step_seconds=seconds / one.times, work=float(one.times),
                    work_unit="steps")]  # fmt: skip


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
    log = scan(path, Log(path, "hpcg", one_rank=True), _HPCG, seen)
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


def _espresso_time(log: Log, found: "re.Match[bytes]") -> None:
    """The time of the whole program, which has its name; those of its parts have other names."""
    program = log.get("program")
    if found[1] == program or (program is None and found[1].isupper()):
        log.values["wall"] = clock_seconds(found[2].decode())


def _espresso_cycles(log: Log, found: "re.Match[bytes]") -> None:
    """The iterations of a run with several cycles; after JOB DONE, those of another run."""
    if log.get("ended"):
        log.values.update(ended=False, cycles=0, wall=None)
    log.values["cycles"] = (log.get("cycles") or 0) + int(found[1])


_QE = (
    rule("beginning", "Program", r"Program ([A-Za-z]\w{1,15}) {1,8}v\.",
         lambda log, m: log.values.update(program=m[1], ended=False, cycles=0, wall=None)),
    fact("ranks", "running on", r"Parallel version \(MPI\), running on {1,12}(\d{1,7}) proc",
         "world_size"),
    fact("ranks", "MPI processes:", r"Number of MPI processes: {1,40}(\d{1,7})", "world_size"),
    fact("nodes", "distributed on", r"MPI processes distributed on {1,12}(\d{1,7}) nodes"),
    rule("threads", "Threads/MPI", r"Threads/MPI process: {1,40}(\d{1,6})",
         lambda log, m: log.size.setdefault("threads", float(m[1]))),
    rule("serial", "Serial", r"^ {1,8}Serial (?:multi-threaded )?version",
         lambda log, _: log.put("world_size", 1)),
    *(size(name, text, rf"{text} {{0,40}}= {{1,12}}([\d.]{{1,16}})") for name, text in _QE_SIZES),
    rule("time", "WALL", r"^ {1,8}([A-Za-z]\w{1,15}) {1,12}: {1,20}.{1,30}CPU {1,12}"
         r"([\dhmds. ]{1,24}) WALL\s*$", _espresso_time),
    rule("iterations", "convergence has been achieved", r"achieved in {1,8}(\d{1,6}) iterations",
         _espresso_cycles),
    rule("end", "JOB DONE", r"JOB DONE", lambda log, _: log.values.update(ended=True)),
)  # fmt: skip


def read_espresso(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run of a program of Quantum ESPRESSO."""
    log = scan(path, Log(path, "quantum-espresso", one_rank=True), _QE, seen)
    if not log.get("ended") or not log.get("wall"):
        return [log.run(problem="the run did not end: no JOB DONE with its time")]
    return [log.run(run_seconds=log.get("wall"), iterations=log.get("cycles") or None)]


def mpi_ranks(tasks: dict[int, tuple[float, float]]) -> tuple[Rank, ...]:
    """Stages of each rank from its whole time and its MPI time, which holds waiting as well.

    The rank that computes longest waits least; what others have more of MPI time is waiting, as
    far as they compute less.
    """
    least = min(mpi for _, mpi in tasks.values())
    most = max(total - mpi for total, mpi in tasks.values())
    ranks = []
    for task, (total, mpi) in sorted(tasks.items()):
        idle = max(0.0, min(mpi - least, most - (total - mpi)))
        stages: dict[Stage, float] = {
            "compute": max(0.0, total - mpi), "communication": mpi - idle, "idle": idle,
        }  # fmt: skip
        ranks.append(Rank(rank=task, stages=stages, seconds=total or None))
    return tuple(ranks)


def _task(log: Log, found: "re.Match[bytes]") -> None:
    if log.get("times"):
        total, mpi = number(found[2]), number(found[3])
        tasks = log.values.setdefault("tasks", {})
        if total is not None and mpi is not None and len(tasks) < 10**6:
            tasks.setdefault(int(found[1]), (total, mpi))


def _mpip_statistic(log: Log, found: "re.Match[bytes]") -> None:
    """A row of the short report: `Mean  343.028495  106.324400`."""
    if log.get("statistics"):
        both = number(found[2]), number(found[3])
        log.values.setdefault("of tasks", {}).setdefault(found[1].decode(), both)


_MPIP = (
    rule("times", "@---", r"@--- (?:(MPI Time)|(Task Time Statistics))?",
         lambda log, m: log.values.update(times=m[1] is not None, statistics=m[2] is not None)),
    *(rule("statistic", name, rf"^({name}) {{1,40}}([\d.]{{1,24}}) {{1,40}}([\d.]{{1,24}})\b",
           _mpip_statistic) for name in ("Max", "Mean", "Min", "Aggregate")),
    rule("task", ".", r"^ {0,12}(\d{1,7}) {1,12}([\d.e+-]{1,16}) {1,12}([\d.e+-]{1,16}) "
         r"{1,12}[\d.]{1,8}\s*$", _task),
    rule("all tasks", "*", r"^ {1,12}\* {1,12}([\d.e+-]{1,16}) {1,12}[\d.e+-]{1,16} ",
         lambda log, m: log.values.update(sum=number(m[1])) if log.get("times") else None),
    rule("host", "Task Assignment", r"@ MPI Task Assignment {1,12}: (\d{1,7}) (\S{1,100})",
         lambda log, m: log.values.setdefault("hosts", set()).add(m[2])),
)  # fmt: skip


def read_mpip(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a report of mpiP; its MPI time holds both sending and waiting."""
    log = scan(path, Log(path, "mpip", one_rank=True), _MPIP, seen)
    if log.get("of tasks") and not log.get("tasks"):
        return [_short_mpip(log, log.get("of tasks"))]
    tasks: dict[int, tuple[float, float]] = log.get("tasks") or {}
    summed = sum(total for total, _ in tasks.values())
    is_whole = abs(summed - (log.get("sum") or 0.0)) <= _MPIP_ROUNDING * summed
    if not tasks or set(tasks) != set(range(len(tasks))) or not is_whole:
        return [log.run(problem="the table of MPI time lacks tasks")]
    log.put("world_size", len(tasks))
    log.put("nodes", len(log.get("hosts") or ()) or None)
    seconds = max(total for total, _ in tasks.values())
    if seconds <= 0:
        return [log.run(problem="no time passed")]
    return [log.run(run_seconds=seconds, ranks=mpi_ranks(tasks))]


def _short_mpip(log: Log, rows: dict[str, tuple[float | None, float | None]]) -> LogRun:
    """The run in a short report: it has the least, mean and most of all tasks.

    The task with the least MPI time computes longest. The others wait for it, as in `mpi_ranks`.
    """
    none = (None, None)
    (most, _), (mean, mpi) = rows.get("Max", none), rows.get("Mean", none)
    (_, least), (total, _) = rows.get("Min", none), rows.get("Aggregate", none)
    if not most or not mean or mpi is None or least is None or not total:
        return log.run(problem="the statistics of the tasks lack a row")
    if not least <= mpi <= mean <= most:
        return log.run(problem="the statistics of the tasks contradict each other")
    log.put("world_size", whole(total / mean, _MPIP_EXACT))
    stages: dict[Stage, float] = {
        "compute": mean - mpi, "communication": least, "idle": mpi - least,
    }  # fmt: skip
    return log.run(run_seconds=most, stages=stages)
