"""Figures in sentences: "32 nodes -> 413 TFLOP/s/GPU", lists of a scale and a time."""

import re
from itertools import pairwise
from typing import NamedTuple

from nodewise.base.errors import DataError
from nodewise.importers.tables.cells import Kind, count_of, parse_cell, plain_signs
from nodewise.importers.tables.reading import claims_of_cells
from nodewise.study.claim import Claim
from nodewise.study.scale_unit import unit_of_title
from nodewise.study.spec import Regime
from nodewise.study.titles import COUNTED

_MOST_CHARACTERS = 10_000
_COUNT = re.compile(
    r"\b(\d[\d,]{0,9}|single|one|two|four|eight|sixteen)[ -]*(?:x ?)?(?:[A-Z][A-Za-z]*\d+\w* )?"
    rf"{COUNTED}\b",
    re.I,
)
_TIME = r"(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?)"
_FIGURE = re.compile(
    r"~?\d[\d,.]{0,15}\s*(?:"
    r"[kMGTP]?FLOPs?(?:/s)?(?:/(?:GPU|device|node))?|"
    r"[kM]?\s?[A-Za-z]{2,12}/s(?:ec(?:ond)?)?(?:/(?:GPU|device|node))?\b|"
    rf"{_TIME}/(?:it(?:er(?:ation)?)?|step|epoch)|"
    r"h(?:ours?|rs?)?,?\s*\d+\s*m(?:in(?:utes)?)?|m(?:in)?\s?\d+\s*s(?:ec)?|"
    rf"{_TIME}\b|ns/day)"
)
_SCALES = re.compile(
    r"(?<![\w.,])(?P<list>(?:\d{1,7}(?: ?[,/] ?| (?=and))){1,30}(?:and\s+)?\d{1,7})\s*"
    rf"(?P<unit>{COUNTED})\b",
    re.I,
)
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\d+")  # 1,024 is one number
_ARROW = re.compile(r"\s*(?:->|→|=>|—>)\s*")
_WORDS: dict[Kind, str] = {
    "time": "time", "rate": "throughput", "device_rate": "throughput per GPU", "pace": "it/s",
}  # fmt: skip


class _Said(NamedTuple):
    scale: str
    figure: str
    kind: Kind


def claims_of_prose(text: str, name: str, regime: Regime | None) -> tuple[Claim, ...]:
    """The claim in sentences that give K and one figure each; nothing if there is none."""
    text = plain_signs(text[:_MOST_CHARACTERS])
    said = _lists(text) or [one for clause in _clauses(text) if (one := _pair(clause))]
    for kind in ("rate", "device_rate", "pace", "time"):
        some = [one for one in said if one.kind == kind]
        counts = {count_of(one.scale) for one in some}
        if len(counts) > 1 and len(counts) == len(some):
            unit = unit_of_title(some[0].scale) or "K"
            titles = [f"{unit}s", _title(kind, some)]
            rows = [[one.scale, one.figure] for one in some]
            try:
                return claims_of_cells(name, titles, rows, text, regime, text)
            except DataError:
                return ()
    return ()


def _title(kind: Kind, some: list[_Said]) -> str:
    """A title for the figures; the time of a step is not that of a job."""
    stepped = all(re.search(r"/(it|step|epoch)", one.figure) for one in some)
    return "time per step" if kind == "time" and stepped else _WORDS[kind]


def _clauses(text: str) -> list[str]:
    return re.split(
        r"\n|;|(?<=[a-z)])\. |, (?=when|while|with|on|and|for|but)| and (?=\d|on|with)", text
    )


def _pair(clause: str) -> _Said | None:
    """The scale and the figure of a clause that has one figure."""
    counts = list(_COUNT.finditer(clause))
    rest = _COUNT.sub(lambda found: " " * len(found[0]), clause)
    figures = [one for one in _FIGURE.finditer(rest) if _kind(one[0])]
    if not counts or not figures:
        return None
    devices = [one for one in counts if re.search(r"gpu|device|core|rank", one[0], re.I)]
    count = (devices or counts)[-1]
    if len(figures) > 1 and len({_kind(one[0]) for one in figures}) == 1:
        return None
    figure = figures[0]
    kind = _kind(figure[0])
    return _Said(count[0], figure[0], kind) if kind else None


def _kind(figure: str) -> Kind | None:
    cell = parse_cell(figure, is_time=True)
    return cell.kind if cell is not None and cell.kind in _WORDS else None


def _in_one_line(line: str) -> list[_Said]:
    """Scales and figures as two lists of as many: 1, 2, 4 cores in 26.1s, 19.5s, 14.3s."""
    counts = _SCALES.search(line)
    if counts is None:
        return []
    scales = _NUMBER.findall(counts["list"])
    figures = [one[0] for one in _FIGURE.finditer(line[counts.end() :])]
    kinds = [_kind(figure) for figure in figures]
    if len(figures) != len(scales) or len(set(kinds)) != 1 or kinds[0] is None:
        return []
    return [
        _Said(f"{scale} {counts['unit']}", figure, kinds[0])
        for scale, figure in zip(scales, figures, strict=True)
    ]


def _lists(text: str) -> list[_Said]:
    """Two lines of arrows, one of scales and one of figures; or both as lists in one line."""
    for line in text.splitlines():
        if said := _in_one_line(line):
            return said
    lines = [_ARROW.split(line.strip()) for line in text.splitlines()]
    for one, other in pairwise(lines):
        if len(one) < 2 or len(one) != len(other):
            continue
        for counts, figures in ((one, other), (other, one)):
            kinds = [_kind(figure) for figure in figures]
            if all(map(_COUNT.search, counts)) and all(kinds):
                return [
                    _Said(count, figure, kind)
                    for count, figure, kind in zip(counts, figures, kinds, strict=True)
                    if kind
                ]
    return []
