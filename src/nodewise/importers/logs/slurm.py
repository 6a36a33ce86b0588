"""Job records of Slurm: sacct in any layout, and seff. They are observations."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nodewise.importers.files import read_text
from nodewise.importers.logs.record import LogRun, clock_seconds, number
from nodewise.importers.logs.scan import Seen
from nodewise.study.study import Fact, Outcome

_STATES: dict[str, Outcome] = {
    "COMPLETED": "ok", "FAILED": "crashed", "TIMEOUT": "timeout", "OUT_OF_MEMORY": "out of memory",
    "NODE_FAIL": "crashed", "BOOT_FAIL": "crashed", "DEADLINE": "timeout",
}  # fmt: skip
_UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CANCELLED", "PREEMPTED")
_TRES = ("alloctres", "reqtres")
_SUFFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALE_IN_NAME = re.compile(
    r"(?i)[-_.]?(?:n|k|np|nodes?|ranks?|gpus?|x)?[-_]?\d{1,6}(?:n|nodes?|gpus?)?$"
)
_FREE_TEXT = ("submitline", "comment", "admincomment", "systemcomment", "jobname", "workdir")
_CHANGES = ("partition", "account", "cluster", "qos", "nodelist", "submitline", "workdir",
            "constraints", "reqtres", "reqcpufreqgov")  # fmt: skip

_SHIFTED = " shifted"  # a title that sacct cannot print


def _title(text: str) -> str:
    return text.partition("%")[0].strip().lower()


class _Row(NamedTuple):
    cells: dict[str, str]

    def get(self, *names: str) -> str:
        return next((self.cells[name] for name in names if self.cells.get(name)), "")


def read_sacct(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The jobs in the output of sacct, in the order of the file; steps belong to their job."""
    text = read_text(path)
    rows = list(_rows([line for line in text.splitlines() if line.strip()][:1_000_000]))
    jobs: dict[str, list[_Row]] = {}
    for row in rows:
        name = row.get("jobid", "jobidraw")
        if name:
            jobs.setdefault(name.partition(".")[0], []).append(row)
    wanted = (
        "sacct --parsable2 --format JobID,JobName,NNodes,NTasks,Elapsed,State,ConsumedEnergyRaw"
    )
    lacks = [
        what
        for what, names in (("nodes", ("nnodes", "allocnodes", "nodelist", *_TRES)),
                            ("elapsed time", ("elapsed", "elapsedraw")), ("state", ("state",)))
        if rows and not any(name in rows[0].cells for name in names)
    ]  # fmt: skip
    if not rows or lacks:
        missing = " and no ".join(lacks) or "jobs"
        return [LogRun(path=str(path), format="sacct", problem=f"no {missing}; ask for: {wanted}")]
    return [_job(path, name, lines) for name, lines in jobs.items()]


def _rows(lines: list[str]) -> Iterator[_Row]:
    """Rows by titles: cells between bars, or columns as wide as their rules."""
    if not lines:
        return
    header = lines[0].rstrip("\n")
    if "|" in header:
        titles = [_title(cell) for cell in header.split("|")]
        for line in lines[1:]:
            if set(line) <= set("|-+ :"):
                continue  # the rule of a table with bars around it
            yield _row_of_bars(titles, [cell.strip() for cell in line.split("|")])
        return
    rules = (
        [(found.start(), found.end()) for found in re.finditer(r"-+", lines[1])]
        if lines[1:]
        else []
    )
    if rules and set(lines[1].strip()) <= {"-", " "}:
        titles = [_title(header[begin:end]) for begin, end in rules]
        ends = [begin for begin, _ in rules[1:]] + [None]
        for line in lines[2:]:
            cells = [line[begin:end].strip() for (begin, _), end in zip(rules, ends, strict=True)]
            yield _Row(dict(zip(titles, cells, strict=True)))
        return
    mark = "," if "," in header else None
    titles = [_title(cell) for cell in header.split(mark)]
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split(mark)]
        if len(cells) == len(titles):  # without bars, an empty cell shifts the others
            yield _Row(dict(zip(titles, cells, strict=True)))


def _row_of_bars(titles: list[str], cells: list[str]) -> _Row:
    """A row; where a text has bars of its own, the one that leaves the other cells plausible."""
    more = len(cells) - len(titles) - (cells[-1] == "" != titles[-1])
    if more <= 0:
        return _Row(dict(zip(titles, cells, strict=False)))
    for name in _FREE_TEXT:
        if name in titles:
            at = titles.index(name)
            joined = [*cells[:at], "|".join(cells[at : at + more + 1]), *cells[at + more + 1 :]]
            row = _Row(dict(zip(titles, joined, strict=False)))
            if _is_plausible(row):
                return row
    return _Row({**dict(zip(titles, cells, strict=False)), _SHIFTED: "yes"})


def _is_plausible(row: _Row) -> bool:
    """Whether the cells that are read hold what they should."""
    counts = [row.get(name) for name in ("nnodes", "allocnodes") if row.get(name)]
    times = [row.get("elapsed")] if row.get("elapsed") else []
    return (
        _state(row.get("state")) in (*_STATES, *_UNFINISHED)
        and all(number(text) is not None for text in counts)
        and all(clock_seconds(text) is not None for text in times)
    )


def _job(path: Path, name: str, rows: list[_Row]) -> LogRun:
    """One job; the time of its one step leaves the start-up out."""
    whole = next((row for row in rows if "." not in row.get("jobid", "jobidraw")), rows[0])
    steps = [
        row for row in rows
        if re.fullmatch(r"\d+", row.get("jobid", "jobidraw").partition(".")[2])
    ]  # fmt: skip
    state = _state(whole.get("state"))
    nodes = _nodes(whole)
    common: dict[str, Any] = {
        "path": f"{path}: job {name}", "format": "sacct", "unit": "node",
        "nodes": int(nodes) if nodes and 1 <= nodes < 10**7 else None,
        "job": _job_name(whole.get("jobname").rstrip("+")),
        "started": _date(whole.get("start")), "changes": _changes(whole, steps),
    }  # fmt: skip
    if any(row.get(_SHIFTED) for row in rows):
        return LogRun(**common, problem="a text with bars in it shifts the columns")
    if "+" in name:
        problem = "a part of a heterogeneous job, whose parts run at the same time"
        return LogRun(**common, problem=problem)
    whole_time = _elapsed(whole)
    times = [value for row in steps if (value := _elapsed(row))]
    if state in _UNFINISHED or state not in _STATES:
        return LogRun(**common, problem=f"state {state or 'unknown'}: it did not end by itself")
    # One step is the program; several may be its parts, and then the job is the run.
    seconds = times[0] if len(times) == 1 and state == "COMPLETED" else whole_time
    is_timed = seconds is not None and (seconds > 0 or state != "COMPLETED")
    if not is_timed or not common["nodes"]:
        return LogRun(**common, problem="no nodes or no elapsed time")
    tasks = [number(row.get("ntasks")) for row in (steps or [whole])]
    return LogRun(
        **common, run_seconds=seconds or None, outcome=_STATES[state],
        setup_seconds=max(0.0, (whole_time or 0.0) - (seconds or 0.0)) or None,
        detail="" if state == "COMPLETED" else f"Slurm: {state}, exit code {whole.get('exitcode')}",
        energy_joules=_energy(whole),
        world_size=int(max(t or 0 for t in tasks)) or None,
        memory_bytes=max((_memory(row.get("maxrss")) or 0.0 for row in rows), default=0.0) or None,
    )  # fmt: skip


def _nodes(row: _Row) -> float | None:
    """The nodes of a job, also from `cpu=64,mem=16000M,node=2` or from `nid[001-004,9]`."""
    listed = re.search(r"\bnode=(\d{1,7})\b", row.get(*_TRES))
    known = number(row.get("nnodes", "allocnodes") or (listed[1] if listed else ""))
    return known if known is not None else _count_hosts(row.get("nodelist"))


def _count_hosts(text: str) -> float | None:
    """How many hosts a list of Slurm has; None if it is cut off or has no hosts."""
    total = 0
    hosts = re.findall(r"[\w.-]{1,80}(?:\[([\d,-]{1,4000})\])?(?:,|$)", text)
    if "".join(re.split(r"[\w.,\[\]-]+", text)) or text in ("", "None", "Unknown"):
        return None
    if text.count("[") != text.count("]") or text.count("[") != sum(map(bool, hosts)):
        return None
    for ranges in hosts:
        for part in ranges.split(",") if ranges else ("",):
            first, dash, last = part.partition("-")
            if dash and not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
                return None
            total += int(last) - int(first) + 1 if dash else 1
    return float(total) if 0 < total < 10**7 else None


def _job_name(text: str) -> str:
    """The name without what counts K: heat3d_n16 is heat3d."""
    return _SCALE_IN_NAME.sub("", text) or text or "job"


def _elapsed(row: _Row) -> float | None:
    raw = number(row.get("elapsedraw"))
    return raw if raw is not None else clock_seconds(row.get("elapsed"))


def _amount(text: str) -> float | None:
    """Joules: 1121030 or 1.12M. Slurm prints 2^64-2 where it has no counter."""
    value = number(text[:-1] if text[-1:].upper() in _SUFFIX else text)
    if value is None:
        return None
    joules = value * _SUFFIX.get(text[-1:].upper(), 1.0)
    return joules if 0 < joules < 1e17 else None


def _energy(row: _Row) -> float | None:
    """The energy of a job: in its column, else within AllocTRES."""
    within = re.search(r"\benergy=(\d{1,20})\b", row.get("alloctres"))
    return _amount(row.get("consumedenergyraw", "consumedenergy") or (within[1] if within else ""))


def _state(text: str) -> str:
    """The state of a job; what sacct has cut off is added: OUT_OF_ME+."""
    word = text.upper().split(" ")[0]
    known = (*_STATES, *_UNFINISHED)
    cut = [state for state in known if word.endswith("+") and state.startswith(word[:-1])]
    return cut[0] if len(cut) == 1 else word.rstrip("+")


def _memory(text: str) -> float | None:
    value = number(text[:-1] if text[-1:].upper() in _SUFFIX else text)
    return (
        None
        if value is None
        else value * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper(), 1)
    )


def _date(text: str) -> str:
    return text if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", text) else ""


def _changes(whole: _Row, steps: list[_Row]) -> dict[str, Fact]:
    """What may have changed beside K."""
    found: dict[str, Fact] = {name: whole.get(name)[:200] for name in _CHANGES if whole.get(name)}
    nodes, cpus = _nodes(whole), number(whole.get("alloccpus"))
    if nodes and cpus:
        found["CPUs per node"] = cpus / nodes
    tasks = [number(row.get("ntasks")) for row in steps]
    if nodes and tasks and tasks[0]:
        found["tasks per node"] = tasks[0] / nodes
    if start := _date(whole.get("start")):
        found["day"] = start[:10]
    if steps and (command := steps[0].get("jobname")):
        found["program"] = command[:80]
    return found


def read_seff(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The jobs in the output of seff, one after the other."""
    fields: list[dict[str, str]] = []
    for line in read_text(path).splitlines()[:1_000_000]:
        name, colon, value = line.lstrip("# ").partition(":")
        if name.strip() == "Job ID":
            fields.append({})
        if colon and fields:
            fields[-1].setdefault(name.strip().lower(), value.strip())
    runs = []
    for one in fields:
        state = one.get("state", "").split(" ")[0].upper()
        seconds = clock_seconds(one.get("job wall-clock time", ""))
        nodes = number(one.get("nodes", "")) or (1.0 if "cores" in one else None)
        good = seconds and nodes and state in _STATES
        runs.append(LogRun(
            path=f"{path}: job {one.get('job id', '')}", format="seff", unit="node", job="job",
            nodes=int(nodes) if nodes and 1 <= nodes < 10**7 else None,
            run_seconds=seconds or None, outcome=_STATES.get(state, "ok"),
            detail="" if state == "COMPLETED" else f"Slurm: {state}",
            changes={"cores per node": one["cores per node"]} if "cores per node" in one else {},
            problem="" if good else f"no wall-clock time, or state {state or 'unknown'}",
        ))  # fmt: skip
    return runs
