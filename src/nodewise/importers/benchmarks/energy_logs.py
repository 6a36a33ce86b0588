"""Energy logs: CodeCarbon's `emissions.csv` and the log of a ZeusMonitor; a row is a run.

A tracker reads a whole node, so K nodes have K files, and one file means one machine. CodeCarbon
writes kilowatt-hours that hold the PUE; what is kept are the joules of the nodes.
"""

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.files import AS_WRITTEN, no_scale, read_text, wrong_format
from nodewise.study.study import Fact, Run

_JOULES_PER_KWH = 3.6e6
_GPU = re.compile(r"gpu\d+_energy")
_Row = dict[str, str]


def read_codecarbon(paths: Sequence[Path], nodes: int | None, region: str = "") -> list[Run]:
    """The runs in the files of one scale; `region` is the project, where there are several."""
    files = [_rows(path, "CodeCarbon's emissions.csv", "project_name", region) for path in paths]
    for path, rows in zip(paths, files, strict=True):
        if not {"duration", "energy_consumed"} <= rows[0].keys():
            raise wrong_format(
                path, "CodeCarbon's emissions.csv", "it lacks duration, energy_consumed"
            )

    def joules(row: _Row) -> float:
        pue = _amount(row.get("pue") or "1", "pue")
        return _amount(row["energy_consumed"], "energy_consumed") * _JOULES_PER_KWH / max(pue, 1.0)

    last = files[0][-1]
    mode, version = last.get("tracking_mode", ""), last.get("codecarbon_version", "")
    source = f"CodeCarbon {version} of a {mode or 'machine'}, by counters or by its model"
    return _runs(paths, files, nodes, source, "duration", joules)


def read_zeus(paths: Sequence[Path], nodes: int | None, region: str = "") -> list[Run]:
    """The windows in the files of one scale; `region` is the window, where there are several."""
    files = [_rows(path, "the log of a ZeusMonitor", "window_name", region) for path in paths]
    for path, rows in zip(paths, files, strict=True):
        if "elapsed_time" not in rows[0] or not any(map(_GPU.fullmatch, rows[0])):
            raise wrong_format(
                path, "the log of a ZeusMonitor", "it lacks elapsed_time, gpu0_energy"
            )

    def joules(row: _Row) -> float:
        return sum(_amount(value, name) for name, value in row.items() if _GPU.fullmatch(name))

    count = sum(bool(_GPU.fullmatch(name)) for name in files[0][0])
    source = f"Zeus, {count} GPU{'s' if count > 1 else ''} a node and no CPU"
    return _runs(paths, files, nodes, source, "elapsed_time", joules)


def _rows(path: Path, what: str, column: str, wanted: str) -> list[_Row]:
    """The rows of one file that belong to one name, by the names of its columns."""
    try:
        rows = list(csv.DictReader(read_text(path).splitlines()))
    except csv.Error as error:
        raise wrong_format(path, what, str(error)) from None
    if not rows or column not in rows[0]:
        raise wrong_format(path, what, f"no row has {column}")
    for at, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise wrong_format(path, what, f"row {at} has more or fewer values than columns")
    names = sorted({row[column] for row in rows})
    if wanted and wanted not in names:
        raise DataError(f"{path} has no {column} {wanted}.", f"Use one of: {', '.join(names)}.")
    if not wanted and len(names) > 1:
        # one may lie within the other, and then their sum counts it twice
        raise SpecError(
            f"{path} has several: {', '.join(names)}.", f"Choose one with --region {names[0]}."
        )
    return [row for row in rows if row[column] == (wanted or names[0])]


def _runs(
    paths: Sequence[Path],
    files: Sequence[list[_Row]],
    nodes: int | None,
    source: str,
    duration: str,
    joules: Callable[[_Row], float],
) -> list[Run]:
    """A run for each row: the longest of its nodes, and the energy of all."""
    values = [[(_seconds(row[duration], duration), joules(row)) for row in rows] for rows in files]
    if nodes is None:
        raise no_scale(paths[0])
    if len(files) not in (1, nodes):
        raise DataError(
            f"K={nodes} has {len(files)} files: use one tracker per node, not one per rank.",
            "Use a file for each node, or one for a single machine.",
        )
    if len({len(rows) for rows in files}) > 1:
        raise DataError(f"The files of K={nodes} differ in their runs.", "Give each node's rows.")
    facts: dict[str, Fact] = {"energy_basis": "imported", "energy_source": source}
    if len(files) < nodes:
        facts["energy_missing"] = f"one file for K={nodes}: of one machine, or of one node of many"
    return [
        Run(
            nodes=nodes,
            round=at,
            seconds=max(seconds for seconds, _ in row),
            energy_joules=sum(energy for _, energy in row),
            provenance=facts,
            started=files[0][at].get("timestamp", ""),
        )
        for at, row in enumerate(zip(*values, strict=True))
    ]


def _seconds(text: str, name: str) -> float:
    """The length of a run, above 0."""
    value = _amount(text, name)
    if not value:
        raise DataError(
            f"{name}: the run time must be above 0 s.",
            "Leave out rows of runs that did not happen.",
        )
    return value


def _amount(text: str, name: str) -> float:
    """A number above 0, or 0 itself where nothing was drawn."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e18:
        raise DataError(f"{name}: '{text}' is not an amount.", AS_WRITTEN)
    return value
