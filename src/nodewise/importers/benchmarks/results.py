"""Results of benchmark tools as runs: hyperfine, pyperf and ReFrame.

These tools have no field for K. It is looked for where people put it: in a parameter, in the name
of a benchmark (`fft_8`, `fft[gpus=8]`), in the number of tasks.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import AS_WRITTEN, format_errors, number, read_text, runs_at
from nodewise.importers.logs.record import number as as_number
from nodewise.importers.whole_run import whole_run
from nodewise.study.study import Fact, Run

SCALE_NAMES = (
    r"k|n|p|nodes|workers|gpus|ranks|procs|processes|cores|threads|tasks|num_?(?:nodes|tasks|gpus)"
)
_NAMED = re.compile(rf"(?:^|[\[_,;\s-])(?:{SCALE_NAMES})\s*[=_-]?\s*(\d+)\b", re.I)
_LAST = re.compile(r"[_\s-](\d+)$")
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "second": 1.0, "ms": 1e-3, "us": 1e-6}


def read(path: Path, nodes: int | None) -> list[Run]:
    """The runs in one file; with `nodes`, those of that K, or all where the file has one K."""
    runs = runs_of_json(read_text(path), str(path), nodes)
    if nodes is None or {run.nodes for run in runs} == {nodes}:
        return runs
    if len({run.nodes for run in runs}) == 1:  # K as given counts, not a number in a name
        return [msgspec.structs.replace(run, nodes=nodes) for run in runs]
    return runs_at(path, runs, nodes)


def runs_of_json(text: str, name: str, nodes: int | None = None) -> list[Run]:
    """The runs in a JSON document; `nodes` is K where the document does not give it."""
    try:
        document: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(f"{name} is not JSON: {error}.", AS_WRITTEN) from None
    known = {"benchmarks": _pyperf, "results": _hyperfine, "runs": _reframe}
    for key, read in known.items():
        if isinstance(document, dict) and isinstance(document.get(key), list):
            with format_errors(name):
                # decoded again, so that a value that no run can have is named by its field
                plain = msgspec.json.encode(read(document, nodes))
                runs = msgspec.json.decode(plain, type=list[Run])
            if runs:
                return runs
    raise DataError(
        f"{name} is not a result of hyperfine, pyperf or ReFrame.",
        "Use its JSON, or a table with the columns K and time_s.",
    )


def _hyperfine(document: dict[str, Any], otherwise: int | None) -> list[Run]:
    runs: list[Run] = []
    for result in _objects(document["results"]):
        parameters = result.get("parameters")
        command = str(result.get("command", ""))
        nodes = scale_of(parameters if isinstance(parameters, dict) else {}, command, otherwise)
        times = result.get("times") or [result.get("mean")]
        codes = result.get("exit_codes") or []
        for at, seconds in enumerate(times):
            good = at >= len(codes) or codes[at] == 0
            runs.append(_run(nodes, at, seconds, good, {"command": command}))
    return runs


def _pyperf(document: dict[str, Any], otherwise: int | None) -> list[Run]:
    runs: list[Run] = []
    shared: dict[str, Any] = document.get("metadata") or {}
    for benchmark in _objects(document["benchmarks"]):
        about = {**shared, **(benchmark.get("metadata") or {})}
        nodes = scale_of(about, str(about.get("name", "")), otherwise)
        at = 0
        for run in _objects(benchmark.get("runs")):
            facts = {**about, **(run.get("metadata") or {})}
            warm = bool(run.get("warmups"))
            for seconds in run.get("values") or []:
                made = _run(nodes, at, seconds, True, {"warmups": warm})
                place = _words(facts, "hostname", "cpu_model_name", "python_version", "platform")
                # what pyperf timed before its values is warm-up, reported separately
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


def _reframe(document: dict[str, Any], otherwise: int | None) -> list[Run]:
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
            hosts = len(listed) if isinstance(listed, list) else None
            nodes = scale_of(variables, name, otherwise or hosts)
            good = case.get("result") in ("success", "pass")
            seconds = _reframe_seconds(case)
            if seconds is None and good:
                raise DataError(
                    f"The test {name} reports no performance variable in seconds.",
                    "Add one, or keep time_run in the report.",
                )
            at = made.get(nodes, 0)
            made[nodes] = at + 1
            place = _words(case, "system", "environment", "partition")
            run = _run(nodes, at, seconds or 0.0, good, {})
            runs.append(msgspec.structs.replace(run, provenance=place))
    return runs


def _reframe_seconds(case: dict[str, Any]) -> float | None:
    """The performance variable that is the time of the run; without it, the time of the job."""
    times: list[tuple[str, float]] = []
    for one in _objects(case.get("perfvars")):  # reports up to 3
        _add_time(times, one.get("name"), one.get("value"), one.get("unit"))
    values = case.get("perfvalues")  # reports of 4: value, reference, bounds, unit
    for name, entry in values.items() if isinstance(values, dict) else ():
        if isinstance(entry, list) and len(entry) >= 5:
            _add_time(times, name.rpartition(":")[2], entry[0], entry[4])
    chosen = whole_run(times)
    return chosen[1] if chosen else number(case.get("time_run"))


def _add_time(times: list[tuple[str, float]], name: Any, value: Any, unit: Any) -> None:
    worth, amount = _SECONDS.get(str(unit).lower()), number(value)
    if worth is not None and amount is not None:
        times.append((str(name), amount * worth))


def read_reframe_log(path: Path, nodes: int | None) -> list[Run]:
    """The runs in a performance log of ReFrame: rows of cells between bars, below their titles."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    titles = [title.strip() for title in lines[0].split("|")] if lines else []
    cases: list[dict[str, Any]] = []
    for line in lines[1:]:
        row = dict(zip(titles, (cell.strip() for cell in line.split("|")), strict=False))
        perfvars = [{"name": name.removesuffix("_value"), "value": as_number(cell),
                     "unit": row.get(f"{name.removesuffix('_value')}_unit")}
                    for name, cell in row.items() if name.endswith("_value")]  # fmt: skip
        cases.append({**row, "perfvars": perfvars, "time_run": None,
                      "environment": row.get("environ")})  # fmt: skip
    with format_errors(path):
        return runs_at(path, _reframe({"runs": [{"testcases": cases}]}, nodes), nodes)


def _objects(values: Any) -> list[dict[str, Any]]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _words(values: dict[str, Any], *keys: str) -> dict[str, Fact]:
    return {key: values[key] for key in keys if isinstance(values.get(key), str)}


def scale_of(parameters: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    """K in a parameter that is called like one, in the only number, or in the name."""
    numbers = {key: str(value) for key, value in parameters.items() if str(value).isdecimal()}
    named = [key for key in numbers if re.fullmatch(SCALE_NAMES, key, re.I)]
    for key in sorted(named, key=lambda key: len(key) == 1):  # n may be the size of a problem
        if int(numbers[key]) > 0:
            return int(numbers[key])
    # Where other parameters vary, the last number of a command is one of them.
    found = _NAMED.search(name) or (None if numbers else _LAST.search(name))
    if found and int(found.group(1)) > 0:
        return int(found.group(1))
    if otherwise:
        return otherwise
    raise DataError(
        f"'{name[:60]}' does not give the number of nodes.",
        "Write K=PATH, name a parameter nodes, or end the names with K: job_1, job_2.",
    )


def _run(nodes: int, at: int, seconds: Any, good: bool, facts: dict[str, Fact]) -> Run:
    value = number(seconds)
    if value is None or (value <= 0 and good):
        raise DataError(f"A run at K={nodes} has no time.", AS_WRITTEN)
    outcome = "ok" if good else "crashed"
    return Run(nodes=nodes, round=at, seconds=value, outcome=outcome, facts=facts)  # type: ignore[arg-type]
