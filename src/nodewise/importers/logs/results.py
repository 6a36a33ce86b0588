"""Result tables of JUBE, and results of Ramble and Benchpark."""

import re
from pathlib import Path
from typing import Any

from nodewise.importers.files import format_errors, read_json, read_text
from nodewise.importers.logs.record import LogRun, number
from nodewise.importers.logs.scan import Seen
from nodewise.study.scale_unit import unit_of_title
from nodewise.study.titles import seconds_of_unit, title_column

_JUBE_RULE = re.compile(r"^-{2,}(?:\+-{2,})+ *$", re.MULTILINE)
_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3,
            "us": 1e-6, "min": 60.0, "h": 3600.0}  # fmt: skip
_STATUS = {"SUCCESS": "ok", "FAILED": "crashed"}


def read_jube(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The rows of a table that JUBE prints: titles, a rule of dashes and plus signs, cells."""
    lines = read_text(path).splitlines()
    at = next((at for at, line in enumerate(lines) if _JUBE_RULE.match(line)), 0)
    titles = [cell.strip() for cell in lines[at - 1].split("|")] if at else []
    kinds = [_kind(title) for title in titles]
    if "nodes" not in kinds or "seconds" not in kinds:
        return [_rejected(path, "jube", "no column gives nodes or ranks, or none gives seconds")]
    unit = unit_of_title(titles[kinds.index("nodes")]) or "node"
    scale = seconds_of_unit(titles[kinds.index("seconds")])
    runs = []
    for line in lines[at + 1 :]:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != len(titles):
            break
        count = number(cells[kinds.index("nodes")])
        seconds = number(cells[kinds.index("seconds")])
        if not count or count != int(count) or not seconds or seconds <= 0:
            runs.append(_rejected(path, "jube", f"no number in the row {line.strip()[:40]}"))
            continue
        place: dict[str, Any] = {"nodes" if unit == "node" else "world_size": int(count)}
        runs.append(LogRun(path=str(path), format="jube", unit=unit, run_seconds=seconds * scale,
                           **place))  # fmt: skip
    return runs or [_rejected(path, "jube", "no rows")]


def _kind(title: str) -> str | None:
    """What a column holds; JUBE writes its unit in brackets."""
    return title_column(title) or title_column(title.replace("_", " "))


def _rejected(path: Path, form: str, problem: str) -> LogRun:
    return LogRun(path=str(path), format=form, problem=problem)


def read_ramble(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The experiments in a results file of Ramble or Benchpark: the first figure in seconds."""
    document = read_json(path, "a results file of Ramble", dict)
    runs: list[LogRun] = []
    with format_errors(path):
        for one in document["experiments"]:
            if isinstance(one, dict):
                runs.append(_experiment(path, one))
    return runs or [_rejected(path, "ramble", "no experiments")]


def _experiment(path: Path, one: dict[str, Any]) -> LogRun:
    variables = {**(one.get("RAMBLE_VARIABLES") or {}), **one}
    name = str(one.get("name", ""))[:80]
    counts = {key: number(str(variables.get(key, ""))) for key in ("n_nodes", "n_ranks")}
    figures = [
        (str(fom.get("name", "")), value * _SECONDS[str(fom.get("units", "")).lower()])
        for context in one.get("CONTEXTS") or ()
        for fom in context.get("foms") or ()
        if str(fom.get("units", "")).lower() in _SECONDS
        and (value := number(str(fom.get("value", "")))) is not None
        and "summary" not in str(fom.get("origin_type", ""))
    ]
    status = str(one.get("RAMBLE_STATUS", ""))
    common: dict[str, Any] = {
        "path": f"{path}: {name}", "format": "ramble",
        "nodes": int(counts["n_nodes"]) if counts["n_nodes"] else None,
        "world_size": int(counts["n_ranks"]) if counts["n_ranks"] else None,
        "size": {"workload": str(variables.get("workload_name", ""))[:80]},
    }  # fmt: skip
    if one.get("N_REPEATS"):
        return LogRun(**common, problem="a summary of repeats, which follow")
    if status not in _STATUS:
        return LogRun(**common, problem=f"status {status or 'unknown'}")
    if status == "FAILED":
        return LogRun(**common, outcome="crashed", detail=f"Ramble: {status}")
    if not figures or figures[0][1] <= 0:
        return LogRun(**common, problem="no figure of merit in seconds")
    return LogRun(**common, run_seconds=figures[0][1])
