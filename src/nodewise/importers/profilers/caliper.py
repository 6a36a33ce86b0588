"""Caliper and Hatchet JSON: seconds of a program by call path, of each rank where recorded.

Read are Caliper's json-split (also what Hatchet's to_json writes), its plain list of records, and
Hatchet's literal trees. Time in functions of MPI is communication, all else is compute. Only time
of the path itself is added up: what holds another path would count twice.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nodewise.base.errors import DataError
from nodewise.importers.files import no_scale, number, read_json, wrong_format
from nodewise.study.study import Rank, Run, Stage

WHAT = "a JSON of Caliper or Hatchet"
_TIME = re.compile(
    r"(?:sum#|avg#)*time\.duration(?:\.ns)?|time(?: \(exc\))?|Time \(E\)|time\.exclusive\.duration"
)
_PATHS = ("path", "source.function#callpath.address", "_hnid", "nid", "function", "region", "name")
_RANKS = ("mpi.rank", "rank")
_SIZES = ("mpi.world.size", "jobsize", "num_procs")
_COMMUNICATION = re.compile(r"P?MPI_|MPIX_|nccl[A-Z]|rccl[A-Z]")
_MOST_DEPTH = 1000


class _Record(NamedTuple):
    """Seconds of one path on one rank."""

    path: tuple[str, ...]
    rank: int
    seconds: float


def read(path: Path, nodes: int | None, region: str = "") -> list[Run]:
    """The run in one profile; K is `nodes`, else the number of processes."""
    document = read_json(path, WHAT)
    if isinstance(document, dict):
        records = list(_split(path, document))
    elif isinstance(document, list):
        trees = any(isinstance(one, dict) and "metrics" in one for one in document)
        records = list(_trees(document) if trees else _plain(document))
    else:
        records = []
    if not records:
        raise wrong_format(path, WHAT, "it has no times of paths")
    if region:
        records = [record for record in records if region in record.path]
        if not records:
            raise DataError(f"{path} has no region {region}.", "Name one as the profile does.")
    ranks = sorted({record.rank for record in records})
    size = len(ranks) if len(ranks) > 1 else _size(document)
    if nodes is None and size is None:
        raise no_scale(path)
    parts = [_rank(at, [one for one in records if one.rank == rank]) for at, rank in
             enumerate(ranks)]  # fmt: skip
    seconds = max(part.seconds or 0.0 for part in parts)
    if seconds <= 0:
        raise DataError(f"{path} has no time in it.", "Record with a timer: runtime-report does.")
    scale = nodes or size or 1
    if len(parts) == 1:
        return [Run(nodes=scale, round=0, seconds=seconds, stages=parts[0].stages)]
    return [Run(nodes=scale, round=0, seconds=seconds, ranks=tuple(parts))]


def _rank(rank: int, records: Sequence[_Record]) -> Rank:
    moving = sum(one.seconds for one in records if _COMMUNICATION.match(one.path[-1]))
    whole = sum(one.seconds for one in records)
    stages: dict[Stage, float] = {"compute": whole - moving, "communication": moving}
    return Rank(rank=rank, stages=stages, seconds=whole)


def _split(path: Path, document: dict[str, Any]) -> Iterator[_Record]:
    """Rows of numbers, and the tree of the paths that they point into."""
    columns, rows, nodes = (document.get(name) for name in ("columns", "data", "nodes"))
    if not (isinstance(columns, list) and isinstance(rows, list) and isinstance(nodes, list)):
        raise wrong_format(path, WHAT, "it has no columns, data and nodes")
    titles = [str(column) for column in columns]
    time = next((title for title in titles if _TIME.fullmatch(title)), None)
    place = next((title for title in _PATHS if title in titles), None)
    if time is None or place is None:
        raise wrong_format(
            path, WHAT, f"no column of {', '.join(titles)[:200]} is a time of a path"
        )
    names = _names(nodes)
    for row in rows:
        if not isinstance(row, list) or len(row) != len(titles):
            raise wrong_format(path, WHAT, "a row has more or fewer values than columns")
        cells = dict(zip(titles, row, strict=True))
        at = number(cells[place])
        found = names(int(at)) if at is not None else (str(cells[place] or ""),)
        yield from _record(found, cells, time)


def _names(nodes: Sequence[Any]) -> Any:
    """The path of a node, from its place in the list; a circle among parents ends."""

    def names(at: int) -> tuple[str, ...]:
        found: list[str] = []
        place: float | None = at
        while place is not None and 0 <= place < len(nodes) and len(found) < _MOST_DEPTH:
            node = nodes[int(place)]
            if not isinstance(node, dict):
                break
            found.append(str(node.get("label", node.get("name", ""))))
            place = number(node.get("parent"))
        return tuple(reversed(found)) or ("",)

    return names


def _plain(rows: Sequence[Any]) -> Iterator[_Record]:
    """Caliper's list of records: a path with slashes, or a list of names."""
    for cells in rows:
        if not isinstance(cells, dict):
            continue
        time = next((title for title in cells if _TIME.fullmatch(title)), None)
        place = next((title for title in (*_PATHS, "mpi.function") if title in cells), None)
        if time is None or place is None:
            continue
        value = cells[place]
        names = [str(one) for one in value] if isinstance(value, list) else str(value).split("/")
        if place != "mpi.function" and "mpi.function" in cells:
            names.append(str(cells["mpi.function"]))
        yield from _record(tuple(names) or ("",), cells, time)


def _trees(trees: Sequence[Any]) -> Iterator[_Record]:
    """Hatchet's literal: a frame, its metrics and its children."""
    left: list[tuple[tuple[str, ...], Any]] = [((), tree) for tree in trees]
    while left:
        above, node = left.pop()
        if not isinstance(node, dict):
            continue
        frame, metrics, children = (node.get(name) for name in ("frame", "metrics", "children"))
        name = frame.get("name", "") if isinstance(frame, dict) else node.get("name", "")
        names = (*above, str(name))
        if isinstance(metrics, dict):
            time = next((title for title in metrics if _TIME.fullmatch(title)), None)
            yield from _record(names, metrics, time) if time is not None else ()
        if isinstance(children, list):
            left += [(names, child) for child in children]


def _record(names: tuple[str, ...], cells: dict[str, Any], time: str) -> Iterator[_Record]:
    """The record of a path, if it has a time."""
    value = number(cells[time])
    if isinstance(cells[time], str):  # the plain list has numbers as words
        try:
            value = number(float(cells[time]))
        except ValueError:
            return
    if value is not None and value >= 0:
        rank = next((number(cells[title]) for title in _RANKS if title in cells), 0)
        yield _Record(names, int(rank or 0), value / 1e9 if time.endswith(".ns") else value)


def _size(document: Any) -> int | None:
    """The number of processes, where the profile gives it."""
    for name in _SIZES if isinstance(document, dict) else ():
        found = str(document.get(name, ""))
        if found.isascii() and found.isdigit() and 0 < len(found) < 8 and int(found) > 0:
            return int(found)
    return None
