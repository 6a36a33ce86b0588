"""Outputs of nccl-tests and of the OSU micro-benchmarks: seconds of a message by its bytes."""

import re
from pathlib import Path
from typing import NamedTuple

from nodewise.importers.files import read_text, wrong_format

WHAT = "an output of nccl-tests or of the OSU micro-benchmarks"
_SIZE, _NUMBER = r"(\d{1,15})", r"(\d{1,15}(?:\.\d*)?)"
_NCCL = re.compile(rf"^\s*{_SIZE}\s+\d+\s+\w+\s+\w+\s+-?\d+\s+{_NUMBER}\s+[\d.]+\s+[\d.]+", re.A)
_OSU = re.compile(rf"^\s*{_SIZE}\s+{_NUMBER}(?:\s|$)", re.A)
_RANK = re.compile(r"Rank\s+(\d{1,9})\s+.*?(?:Pid|on)\b", re.IGNORECASE)


class LinkTest(NamedTuple):
    """What was timed: the operation, the ranks, and a list of bytes and seconds."""

    operation: str
    ranks: int | None
    points: tuple[tuple[int, float], ...]


def read(path: Path) -> LinkTest:
    """The timings in one output."""
    text = read_text(path)
    if re.search(r"^\s*#.*OSU ", text, re.MULTILINE):
        return _osu(path, text)
    points = []
    for line in text.splitlines():
        row = _NCCL.match(line)
        if row and int(row[1]) > 0 and float(row[2]) > 0:
            points.append((int(row[1]), float(row[2]) / 1e6))
    if not points:
        raise wrong_format(path, WHAT, "it has no table of sizes and times")
    ranks = {int(found[1]) for found in _RANK.finditer(text)}
    named = re.search(r"(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|sendrecv)"
                      r"_perf", text)  # fmt: skip
    return LinkTest(named[1] if named else "collective", len(ranks) or None, tuple(points))


def _osu(path: Path, text: str) -> LinkTest:
    title = re.search(r"OSU\s+(?:MPI\S*\s+)?(.*?)\s*(?:Test|v\d|$)", text, re.MULTILINE)
    header = re.search(r"^#\s*Size\s+(.*)$", text, re.MULTILINE)
    if header is None:
        raise wrong_format(path, WHAT, "it has no line '# Size'")
    gives_rate = "MB/s" in header[1]
    points = []
    for line in text.splitlines():
        row = _OSU.match(line)
        if row and int(row[1]) > 0 and float(row[2]) > 0:
            size, value = int(row[1]), float(row[2])
            points.append((size, size / (value * 1e6) if gives_rate else value / 1e6))
    if not points:
        raise wrong_format(path, WHAT, "it has no rows")
    return LinkTest(title[1] if title else "OSU", None, tuple(points))
