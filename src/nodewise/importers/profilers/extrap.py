"""Extra-P measurements as text or JSON: bare times at several values of one parameter."""

import re
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import number, read_text, wrong_format
from nodewise.study.study import Run

WHAT = "measurements of Extra-P"
_TIMES = ("time", "runtime", "wall", "wall_time", "seconds")

# By region and metric: a list of (K, seconds of each repetition).
Points = dict[tuple[str, str], list[tuple[float, list[float]]]]


def read(path: Path, nodes: int | None, region: str = "") -> list[Run]:
    """The runs of one region: the one that was named, else the first that has times."""
    text = read_text(path)
    points = _from_json(path, text) if text.lstrip()[:1] in ("{", "[") else _from_text(path, text)
    chosen = _choose(path, points, region)
    runs = []
    for scale, values in chosen:
        if not 1 <= scale < 10_000_000 or scale != int(scale):  # also where it is not a number
            raise wrong_format(path, WHAT, f"K={scale:g} is not a number of nodes")
        runs += [
            Run(nodes=int(scale), round=at, seconds=seconds)
            for at, seconds in enumerate(values)
            if 0 < seconds < 1e15
        ]
    if not runs:
        raise DataError(f"{path} has no times.", "Name a region with --region.")
    return runs


def _choose(path: Path, points: Points, region: str) -> list[tuple[float, list[float]]]:
    named = {key: value for key, value in points.items() if not region or key[0] == region}
    if not named:
        regions = ", ".join(dict.fromkeys(key[0] for key in points))
        raise DataError(f"{path} has no region {region}.", f"Name one of: {regions}.")
    for key, value in named.items():
        if key[1].lower() in _TIMES:
            return value
    return next(iter(named.values()))


def _from_text(path: Path, text: str) -> Points:
    table = _Table()
    for number_of_line, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        try:
            known = table.add(word.upper(), rest)
        except ValueError:
            raise wrong_format(path, WHAT, f"line {number_of_line} has no number") from None
        if not known:
            raise wrong_format(path, WHAT, f"line {number_of_line} begins with {word[:20]}")
    if table.parameters > 1:
        raise DataError(
            f"{path} has {table.parameters} parameters.",
            "Keep the number of nodes alone, in one file.",
        )
    if not table.scales or not table.rows:
        raise wrong_format(path, WHAT, "it has no POINTS or no DATA")
    for key, data in table.rows.items():
        if len(data) != len(table.scales):
            missing = f"{key[0] or 'it'} has {len(data)} of {len(table.scales)} points"
            raise wrong_format(path, WHAT, missing)
    return {key: list(zip(table.scales, data, strict=True)) for key, data in table.rows.items()}


class _Table:
    """The text format: a line a word, PARAMETER, POINTS, REGION, METRIC or DATA."""

    def __init__(self) -> None:
        self.parameters = 0
        self.scales: list[float] = []
        self.rows: dict[tuple[str, str], list[list[float]]] = {}
        self._region = self._metric = ""

    def add(self, word: str, rest: str) -> bool:
        """Take a line; false where its word is none of the format's."""
        if word == "PARAMETER":
            self.parameters += len(rest.split())
        elif word == "POINTS":
            self.scales += [float(value) for value in re.findall(r"[^\s(),]+", rest)]
        elif word == "REGION":
            self._region = rest.strip()
        elif word == "METRIC":
            self._metric = rest.strip()
        elif word == "DATA":
            values = [float(value) for value in rest.split()]
            self.rows.setdefault((self._region, self._metric), []).append(values)
        return word in ("PARAMETER", "POINTS", "REGION", "METRIC", "DATA", "EXPERIMENT")


def _from_json(path: Path, text: str) -> Points:
    try:
        document = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        document = _lines(path, text)
    points: Points = {}
    if isinstance(document, dict) and "params" in document:
        document = [document]
    if isinstance(document, list):
        for row in document:
            _add_row(path, points, row)
    elif isinstance(document, dict) and isinstance(document.get("measurements"), dict):
        for region, metrics in document["measurements"].items():
            for metric, rows in metrics.items() if isinstance(metrics, dict) else ():
                for row in rows if isinstance(rows, list) else ():
                    _add_point(path, points, (region, metric), row)
    if not points:
        raise wrong_format(
            path, WHAT, "it has neither measurements nor lines with params and value"
        )
    return points


def _lines(path: Path, text: str) -> list[Any]:
    try:
        return [msgspec.json.decode(line.encode()) for line in text.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError) as error:
        raise wrong_format(path, WHAT, str(error)) from None


def _add_row(path: Path, points: Points, row: Any) -> None:
    parameters = row.get("params") if isinstance(row, dict) else None
    value = number(row.get("value")) if isinstance(row, dict) else None
    if not isinstance(parameters, dict) or len(parameters) != 1 or value is None:
        raise wrong_format(path, WHAT, "a line has no value of one parameter")
    scale = number(next(iter(parameters.values())))
    if scale is None:
        raise wrong_format(path, WHAT, "a parameter is not a number")
    _append(points, (str(row.get("callpath", "")), str(row.get("metric", ""))), scale, [value])


def _add_point(path: Path, points: Points, key: tuple[str, str], row: Any) -> None:
    place = row.get("point") if isinstance(row, dict) else None
    values = row.get("values") if isinstance(row, dict) else None
    if not isinstance(place, list) or len(place) != 1 or not isinstance(values, list):
        raise wrong_format(path, WHAT, "a measurement has no point of one parameter")
    scale = number(place[0])
    found = [value for value in map(number, values) if value is not None]
    if scale is None or len(found) != len(values):
        raise wrong_format(path, WHAT, "a measurement is not a number")
    _append(points, key, scale, found)


def _append(points: Points, key: tuple[str, str], scale: float, values: list[float]) -> None:
    for at, before in points.setdefault(key, []):
        if at == scale:
            before += values
            return
    points[key].append((scale, list(values)))
