"""Results of benchmark tools as runs: hyperfine, pyperf, ReFrame and MLPerf logs.

None of them knows that its results are a scaling curve, so K is looked for where people put it: in
a parameter, in the name of a benchmark (`fft_8`, `fft[gpus=8]`), in the number of tasks.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.benchmarks import mlperf
from nodewise.importers.files import as_promised, number, text_of
from nodewise.study.study import Fact, Run

_SCALE = (
    r"k|n|p|nodes|workers|gpus|ranks|procs|processes|cores|threads|tasks|num_?(?:nodes|tasks|gpus)"
)
_NAMED = re.compile(rf"(?:^|[\[_,;\s-])(?:{_SCALE})\s*[=_-]?\s*(\d+)\b", re.I)
_LAST = re.compile(r"[_\s-](\d+)$")
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "second": 1.0, "ms": 1e-3, "us": 1e-6}


def is_mllog(text: str) -> bool:
    """Whether a text is a log of MLPerf."""
    return ":::MLLOG" in text


def read_json(text: str, name: str) -> list[Run]:
    """The runs in a JSON document of hyperfine, pyperf or ReFrame."""
    try:
        document: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f"{name} is not JSON: {error}.", "Hand in the file as the tool wrote it."
        ) from None
    known = {"benchmarks": _pyperf, "results": _hyperfine, "runs": _reframe}
    for key, read in known.items():
        if isinstance(document, dict) and isinstance(document.get(key), list):
            with as_promised(name, "Hand in the file as the tool wrote it."):
                # decoded again, what no run can be is found by its field
                runs = msgspec.json.decode(msgspec.json.encode(read(document)), type=list[Run])
            if runs:
                return runs
    raise DataError(
        f"{name} is no result of hyperfine, pyperf or ReFrame.",
        "Hand in its JSON, or a table with the columns K and time_s.",
    )


def read_mllog(path: Path, nodes: int | None) -> list[Run]:
    """The run in a log of MLPerf; K as said, or as the log says it."""
    if nodes is None:
        nodes = _mllog_scale(text_of(path))
    return mlperf.read(path, nodes)


def _mllog_scale(text: str) -> int | None:
    said: dict[str, Any] = {}
    for line in text.splitlines():
        _, mark, event = line.partition(":::MLLOG")
        if not mark:
            continue
        try:
            found: Any = msgspec.json.decode(event.strip().encode())
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(found, dict):
            said.setdefault(str(found.get("key")), found.get("value"))
    counted = number(said.get("number_of_nodes"))
    if counted:
        return int(counted * (number(said.get("accelerators_per_node")) or 1))
    # "16xDGXA100_n16": so many machines
    platform = re.match(r"(\d+)\s*x", str(said.get("submission_platform", "")))
    return int(platform.group(1)) if platform else None


def _hyperfine(document: dict[str, Any]) -> list[Run]:
    runs: list[Run] = []
    for result in _objects(document["results"]):
        parameters = result.get("parameters")
        command = str(result.get("command", ""))
        nodes = _scale_of(parameters if isinstance(parameters, dict) else {}, command)
        times = result.get("times") or [result.get("mean")]
        codes = result.get("exit_codes") or []
        for at, seconds in enumerate(times):
            good = at >= len(codes) or codes[at] == 0
            runs.append(_run(nodes, at, seconds, good, {"command": command}))
    return runs


def _pyperf(document: dict[str, Any]) -> list[Run]:
    runs: list[Run] = []
    shared: dict[str, Any] = document.get("metadata") or {}
    for benchmark in _objects(document["benchmarks"]):
        about = {**shared, **(benchmark.get("metadata") or {})}
        nodes = _scale_of(about, str(about.get("name", "")))
        at = 0
        for run in _objects(benchmark.get("runs")):
            facts = {**about, **(run.get("metadata") or {})}
            warm = bool(run.get("warmups"))
            for seconds in run.get("values") or []:
                made = _run(nodes, at, seconds, True, {"warmups": warm})
                place: dict[str, Fact] = {
                    key: facts[key]
                    for key in ("hostname", "cpu_model_name", "python_version", "platform")
                    if isinstance(facts.get(key), str)
                }
                # what pyperf timed before its values is warm-up, reported apart
                apart = sum(float(value) for _, value in run["warmups"]) if warm else None
                runs.append(
                    msgspec.structs.replace(
                        made,
                        provenance=place,
                        setup_seconds=apart,
                        started=str(facts.get("date", "")),
                    )
                )
                at += 1
    return runs


def _reframe(document: dict[str, Any]) -> list[Run]:
    runs: list[Run] = []
    made: dict[int, int] = {}
    for session in _objects(document["runs"]):
        for case in _objects(session.get("testcases")):
            variables = {
                **(case.get("check_vars") or {}),
                **(case.get("check_params") or {}),
                **{key: case[key] for key in ("num_tasks", "num_nodes") if key in case},
            }
            listed = case.get("nodelist")
            name = str(case.get("display_name") or case.get("name", ""))
            nodes = _scale_of(variables, name, len(listed) if isinstance(listed, list) else None)
            good = case.get("result") in ("success", "pass")
            seconds = _reframe_seconds(case)
            if seconds is None and good:
                raise DataError(
                    f"The test {name} reports no performance variable in seconds.",
                    "Add one, or hand in its time_run.",
                )
            at = made.get(nodes, 0)
            made[nodes] = at + 1
            place: dict[str, Fact] = {
                key: case[key]
                for key in ("system", "environment", "partition")
                if isinstance(case.get(key), str)
            }
            run = _run(nodes, at, seconds or 0.0, good, {})
            runs.append(msgspec.structs.replace(run, provenance=place))
    return runs


def _reframe_seconds(case: dict[str, Any]) -> float | None:
    """The first performance variable in a unit of time; without any, the time of the job."""
    for one in _objects(case.get("perfvars")):  # reports up to 3
        unit = _SECONDS.get(str(one.get("unit", "")).lower())
        if unit is not None and number(one.get("value")) is not None:
            return float(one["value"]) * unit
    values = case.get("perfvalues")  # reports of 4: value, reference, bounds, unit
    if isinstance(values, dict):
        for entry in values.values():
            if isinstance(entry, list) and len(entry) >= 5 and str(entry[4]).lower() in _SECONDS:
                return float(entry[0]) * _SECONDS[str(entry[4]).lower()]
    return number(case.get("time_run"))


def _objects(values: Any) -> list[dict[str, Any]]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _scale_of(parameters: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    """K in a parameter that is called like one, in the only number, or in the name."""
    numbers = {key: str(value) for key, value in parameters.items() if str(value).isdecimal()}
    for key, value in numbers.items():
        if re.fullmatch(_SCALE, key, re.I) and int(value) > 0:
            return int(value)
    found = _NAMED.search(name) or _LAST.search(name)
    if found and int(found.group(1)) > 0:
        return int(found.group(1))
    if otherwise:
        return otherwise
    raise DataError(
        f"Nothing in '{name[:60]}' tells the number of nodes.",
        "Name a parameter nodes, or end the names with it: job_1, job_2, job_4.",
    )


def _run(nodes: int, at: int, seconds: Any, good: bool, facts: dict[str, Fact]) -> Run:
    value = number(seconds)
    if value is None or (value <= 0 and good):
        raise DataError(
            f"A run at K={nodes} has no time.", "Hand in the file as the tool wrote it."
        )
    outcome = "ok" if good else "crashed"
    return Run(nodes=nodes, round=at, seconds=value, outcome=outcome, facts=facts)  # type: ignore[arg-type]
