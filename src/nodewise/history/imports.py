"""Histories that other tools kept: a CSV, folders of TALP-Pages and ReFrame, data of
github-action-benchmark."""

import csv
import datetime
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodewise.base.errors import DataError
from nodewise.explain.causes import CAUSE_OF_STAGE
from nodewise.history.entry import Entry, bare_entry
from nodewise.importers import registry
from nodewise.importers.benchmarks.results import SCALE_NAMES, runs_of_json
from nodewise.importers.files import number, read_json, read_text
from nodewise.study.study import STAGES, Run

_COLUMNS = {
    "date": ("date", "time", "timestamp", "when"),
    "commit": ("commit", "sha", "revision", "hash"),
    "nodes": ("k", "nodes", "n", "ranks", "procs", "workers", "gpus"),
    "seconds": ("seconds", "time_s", "seconds_s", "step_time_s", "runtime_s", "wall_s", "s"),
    "workload": ("workload", "test", "benchmark", "name"),
    "machine": ("machine", "system", "host"),
}
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DATA_JS = re.compile(r"^\s*window\.BENCHMARK_DATA\s*=\s*")
_K_OF_NAME = re.compile(
    rf"(?:^|[\s_\-/,;@%]+|([\[(]))(?:{SCALE_NAMES})\s*[=:_-]?\s*(\d{{1,9}})(?![\w.])(?(1)[\])]?)",
    re.I,
)
_LAST_NUMBER = re.compile(r"[\s_-]+(\d{1,9})$")


class _Row(NamedTuple):
    """One run of a history."""

    workload: str
    commit: str
    date: str
    machine: str
    nodes: int
    seconds: float


def read_history(path: Path) -> list[Entry]:
    """The studies in a file or a folder that another tool wrote, oldest first."""
    if path.is_dir():
        entries = list(_folder(path))
    else:
        text = read_text(path)
        is_json = _DATA_JS.match(text) or text.lstrip()[:1] in ("{", "[")
        try:
            entries = _benchmark_action(text, path) if is_json else _table(text, path)
        except csv.Error as error:
            raise DataError(
                f"{path} is not a CSV: {error}.", "Name a file with dates, K and seconds."
            ) from None
    if not entries:
        raise DataError(f"{path} holds no studies.", "Name a file with dates, K and seconds.")
    return sorted(entries, key=lambda entry: entry.date)


def utc(text: str) -> str:
    """A date or a moment as UTC, to the second; without a time zone it is taken as UTC.

    >>> utc("2026-03-01"), utc("2026-03-01T10:00:00+02:00")
    ('2026-03-01T00:00:00Z', '2026-03-01T08:00:00Z')
    """
    try:
        found = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise DataError(
            f"'{text}' is not a date.", "Write 2026-03-01 or 2026-03-01T10:00."
        ) from None
    zoned = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    return zoned.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(text: str, path: Path) -> list[Entry]:
    """A CSV with a row for each run, or for each campaign and K."""
    rows = csv.DictReader(io.StringIO(text))
    titles = {(title or "").strip().lower(): title for title in rows.fieldnames or ()}
    found = {
        name: next((titles[one] for one in names if one in titles), None)
        for name, names in _COLUMNS.items()
    }
    for name in ("date", "nodes", "seconds"):
        if found[name] is None:
            wanted = {"nodes": "K"}.get(name, name)
            raise DataError(
                f"{path} has no column {wanted}.", "Name the columns date, commit, K and seconds."
            )

    def runs() -> Iterator[_Row]:
        for line, row in enumerate(rows, start=2):
            cells = {
                name: (row[title] or "").strip() if title else "" for name, title in found.items()
            }
            if not cells["seconds"]:
                continue  # a run that failed
            try:
                nodes, seconds = int(cells["nodes"]), float(cells["seconds"])
                if nodes < 1 or not 0 < seconds < 1e30:
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}, line {line}: K={cells['nodes']}, seconds={cells['seconds']}.",
                    "K is a whole number from 1 on, seconds are above 0.",
                ) from None
            yield _Row(cells["workload"] or path.name.partition(".")[0], cells["commit"],
                       utc(cells["date"]), cells["machine"], nodes, seconds)  # fmt: skip

    return _entries(runs())


def _entries(rows: Iterable[_Row]) -> list[Entry]:
    """The runs of one workload, commit, moment and machine are the rounds of one study."""
    found: dict[tuple[str, str, str, str], dict[int, list[float]]] = {}
    for row in rows:
        seconds = found.setdefault((row.workload, row.commit, row.date, row.machine), {})
        seconds.setdefault(row.nodes, []).append(row.seconds)
    return [
        bare_entry(workload, commit=commit, date=date, seconds=seconds, machine=machine)
        for (workload, commit, date, machine), seconds in found.items()
    ]


def _benchmark_action(text: str, path: Path) -> list[Entry]:
    """The data.js or JSON that github-action-benchmark keeps on a branch."""
    try:
        document = msgspec.json.decode(_DATA_JS.sub("", text).rstrip().rstrip(";"))
        suites: dict[str, Any] = document["entries"]
        return _entries(
            row for sessions in suites.values() for session in sessions for row in _benches(session)
        )
    except (
        msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError,
        ValueError, OverflowError, OSError,  # of a date that does not exist
    ) as error:  # fmt: skip
        raise DataError(
            f"{path} is not data of github-action-benchmark: {error}.",
            "Name its data.js, or a CSV with the columns date, commit, K and seconds.",
        ) from None


def _benches(session: dict[str, Any]) -> Iterator[_Row]:
    """Its benchmarks in a unit of time; K is in the name, as in `fft K=8`, else 1."""
    moment = datetime.datetime.fromtimestamp(session["date"] / 1000, datetime.UTC)
    commit, date = str(session["commit"]["id"]), utc(moment.isoformat())
    for bench in session["benches"]:
        unit = _SECONDS.get(str(bench.get("unit", "")).partition("/")[0].strip().lower())
        value = number(bench.get("value"))
        if unit is None or value is None or value <= 0:
            continue
        name, nodes = _named_scale(str(bench["name"]))
        yield _Row(name, commit, date, "", nodes or 1, unit * value)


def _folder(folder: Path) -> Iterator[Entry]:
    """Reports below a folder: TALP-Pages has one folder a workload, ReFrame names its tests."""
    talp: dict[tuple[str, str, str], list[Run]] = {}
    for path in registry.files_in(folder):
        form = registry.detect(path)
        if form is not None and form.name == "talp":
            inside = str(path.parent.relative_to(folder))
            commit, date = _talp_moment(path)
            # the runs of one commit are one study, whenever each of them was made
            key = (
                folder.resolve().name if inside == "." else inside,
                commit,
                "" if commit else date,
            )
            runs = registry.read_runs(registry.Files(form, (path,)), None)
            talp.setdefault(key, []).extend(
                msgspec.structs.replace(run, started=date) for run in runs
            )
        elif form is not None and form.name == "reframe":
            try:
                reframe = list(_reframe(path))
            except (KeyError, TypeError, AttributeError):
                raise DataError(
                    f"{path} is not a whole report of ReFrame.", "Write the report again."
                ) from None
            yield from reframe
    for (workload, commit, _), runs in talp.items():
        yield _entry_of_runs(workload, commit, min(run.started for run in runs), runs)


def _talp_moment(path: Path) -> tuple[str, str]:
    """The commit that TALP-Pages wrote into a report, and when that was made or run."""
    document = read_json(path, "a JSON of TALP")
    about = document.get("metadata")
    about = about if isinstance(about, dict) else {}
    commit = str(about.get("gitCommit") or "")
    moment = about.get("gitTimestamp") or document.get("timestamp") or _written(path)
    return ("" if commit.startswith("unk") else commit), utc(str(moment))  # "unkown commit"


def _reframe(path: Path) -> Iterator[Entry]:
    """A report of ReFrame: the tests of each session by name and place."""
    document = read_json(path, "a report of ReFrame")
    moment = utc(str((document.get("session_info") or {}).get("time_start") or _written(path)))
    for session in document["runs"]:
        tests: dict[tuple[str, str], list[Run]] = {}
        for case in session.get("testcases") or []:
            part = msgspec.json.encode({"runs": [{"testcases": [case]}]}).decode()
            name = str(case.get("display_name") or case.get("name") or "test")
            place = ":".join(str(case[key]) for key in ("system", "environment") if case.get(key))
            for run in runs_of_json(part, str(path)):
                if run.outcome == "ok":
                    tests.setdefault((_plain(name, run.nodes), place), []).append(run)
        for (name, place), runs in tests.items():
            yield _entry_of_runs(name, "", moment, runs, place)


def _entry_of_runs(
    workload: str, commit: str, date: str, runs: Sequence[Run], machine: str = ""
) -> Entry:
    """Runs as one study: their seconds, and where these went as far as all of them say."""
    by_scale: dict[int, list[Run]] = {}
    for run in runs:
        by_scale.setdefault(run.nodes, []).append(run)
    seconds = {nodes: [run.seconds for run in some] for nodes, some in by_scale.items()}
    entry = bare_entry(workload, commit=commit, date=date, seconds=seconds, machine=machine)
    scales = tuple(
        msgspec.structs.replace(scale, parts=_mean_parts(by_scale[scale.nodes]))
        for scale in entry.scales
    )
    return msgspec.structs.replace(entry, scales=scales)


def _mean_parts(runs: Sequence[Run]) -> dict[str, float]:
    stages = [stage for stage in STAGES if all(stage in run.stages for run in runs)]
    return {
        "compute" if stage == "compute" else CAUSE_OF_STAGE[stage]: sum(
            run.stages[stage] for run in runs
        )
        / len(runs)
        for stage in stages
    }


def _written(path: Path) -> str:
    made = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    return made.isoformat(timespec="seconds")


def _named_scale(name: str) -> tuple[str, int | None]:
    """The name of a benchmark without its K, and that K; a bare number may be a size.

    >>> [_named_scale(name) for name in ("fft K=8", "fft[gpus=8]", "encode_4096", "BM_Sort/16")]
    [('fft', 8), ('fft', 8), ('encode_4096', None), ('BM_Sort/16', None)]
    """
    found = _K_OF_NAME.search(name)
    if found is None or int(found[2]) < 1:
        return name, None
    rest = (name[: found.start()] + name[found.end() :]).strip(" %,;_-/")
    return rest or name, int(found[2])


def _plain(name: str, nodes: int) -> str:
    """A name without the number in it that is K.

    >>> [_plain(name, 4) for name in ("fft_4", "fft_4096", "stream %num_tasks=4", "lu %nodes=8")]
    ['fft', 'fft_4096', 'stream', 'lu %nodes=8']
    """
    rest, named = _named_scale(name)
    if named is not None:
        return rest if named == nodes else name
    last = _LAST_NUMBER.search(name)
    return name[: last.start()] if last and int(last[1]) == nodes else name
