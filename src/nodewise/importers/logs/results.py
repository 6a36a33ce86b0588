"""Results of Ramble and Benchpark."""

from pathlib import Path
from typing import Any

from nodewise.importers.files import format_errors, read_json
from nodewise.importers.logs.record import LogRun, number
from nodewise.importers.logs.scan import Seen
from nodewise.importers.whole_run import whole_run

_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3,
            "us": 1e-6, "min": 60.0, "h": 3600.0}  # fmt: skip
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
    chosen = whole_run(figures)
    if figures and chosen is None:
        names = ", ".join(sorted({name for name, _ in figures}))
        problem = f"several times, and none of the whole run: {names[:80]}"
        return LogRun(**common, problem=problem)
    if chosen is None or chosen[1] <= 0:
        return LogRun(**common, problem="no figure of merit in seconds")
    common["size"]["figure of merit"] = chosen[0][:80]
    return LogRun(**common, run_seconds=chosen[1])
