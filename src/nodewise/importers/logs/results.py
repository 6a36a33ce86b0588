"""Results of Ramble and Benchpark."""

import re
from pathlib import Path
from typing import Any

from nodewise.importers.files import format_errors, read_json
from nodewise.importers.logs.record import LogRun, number
from nodewise.importers.logs.scan import Seen

_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3,
            "us": 1e-6, "min": 60.0, "h": 3600.0}  # fmt: skip
# A time of the whole run, and not of its set-up or of a part.
_WHOLE = re.compile(
    r"\b(total|wall ?(clock|time)?|elapsed|run ?time|execution|cumulative)\b|^time$", re.IGNORECASE
)
_STATUS = {"SUCCESS": "ok", "FAILED": "crashed"}


def read_ramble(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The experiments in a results file of Ramble or Benchpark: the time of the whole run."""
    document = read_json(path, "a results file of Ramble", dict)
    runs: list[LogRun] = []
    with format_errors(path):
        for one in document["experiments"]:
            if isinstance(one, dict):
                runs.append(_experiment(path, one))
    return runs or [LogRun(path=str(path), format="ramble", problem="no experiments")]


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
    whole = [figure for figure in figures if _WHOLE.search(figure[0].replace("_", " "))]
    names = sorted({name for name, _ in figures})
    if not whole and len(names) > 1:
        problem = f"several times, and none of the whole run: {', '.join(names)[:80]}"
        return LogRun(**common, problem=problem)
    if not figures or (whole or figures)[0][1] <= 0:
        return LogRun(**common, problem="no figure of merit in seconds")
    name, seconds = (whole or figures)[0]
    common["size"]["figure of merit"] = name[:80]
    return LogRun(**common, run_seconds=seconds)
