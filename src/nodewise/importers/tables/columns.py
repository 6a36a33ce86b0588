"""What each column of a written table is, by its title, its cells and the arithmetic of both."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.tables.cells import Cell, Kind, count_of, parse_cell, plain
from nodewise.study.claim import ColumnReading, Confidence
from nodewise.study.scale_unit import NODE, ScaleUnit, unit_of_title
from nodewise.study.titles import COUNTED, Column, seconds_of_unit, title_column, words_of

# What a reader may write behind `--column TITLE=`, first the name that we print.
ROLES: dict[Column, tuple[str, ...]] = {
    "nodes": ("number of devices", "k", "nodes", "gpus", "cores", "ranks", "devices"),
    "seconds": ("time", "seconds"),
    "pace": ("steps per second",),
    "throughput": ("total rate", "rate", "throughput", "total throughput"),
    "device_rate": ("rate per device", "rate per gpu", "rate per node"),
    "speedup": ("speedup",),
    "efficiency": ("efficiency",),
    "batch": ("global batch", "batch"),
    "local_batch": ("batch per device", "local batch"),
    "micro_batch": ("micro batch",),
    "work": ("amount of work", "work", "problem size"),
    "model": ("model size", "model"),
    "size": ("problem dimensions", "size"),
    "std": ("spread", "std"),
    "rounds": ("number of runs", "runs"),
    "round": ("run number",),
    "machine": ("hardware", "machine"),
    "settings": ("software or settings", "settings", "version"),
    "precision": ("precision",),
    "date": ("date",),
    "memory": ("memory",),
    "utilisation": ("utilisation",),
    "parallelism": ("parallel layout",),
    "quality": ("quality",),
    "per_node": ("devices per node",),
    "load": ("load",),
    "ttft": ("time to first token",),
    "tpot": ("time per output token",),
    "requests": ("number of requests",),
    "label": ("not used", "ignore", "label"),
}
_NAMES = {name: column for column, names in ROLES.items() for name in names}
_STATISTICS = ("median", "mean", "avg", "average", "min", "max", "minimum", "maximum", "p50")
_FREE: frozenset[Column | None] = frozenset({None, "label", "ratio", "metric"})
_UNIT_ORDER = ("GPU", "GCD", "TPU", "accelerator", "device", "chip", "replica", NODE)
_VAGUE = ("speed", "performance", "perf", "training speed", "simulation speed")
_OF_KIND: dict[Kind | None, Column] = {
    "rate": "throughput", "device_rate": "device_rate", "pace": "pace", "time": "seconds",
    "times": "speedup",
}  # fmt: skip
_RATE = ("throughput", "rate")  # the title and the cells say the same
_MOST_SHARE = 1.4  # a larger ratio is not an efficiency
_COUNTS: frozenset[Column | None] = frozenset({None, "nodes", "machine", "per_node", "label"})
_LABELS: frozenset[Column | None] = _COUNTS | {"model", "curve", "metric"}
_MOST_HEADERS = 200


class Read(NamedTuple):
    """A column: its title, what it is, how sure that is and why, and its cells."""

    title: str
    column: Column | None
    confidence: Confidence
    why: str
    texts: tuple[str, ...]
    cells: tuple[Cell | None, ...]

    def reading(self) -> ColumnReading:
        """The words that are shown."""
        written = [text for text in self.texts if text]
        ends = [written[0], written[-1]] if len(written) > 1 else written
        names = ROLES.get(self.column) if self.column else None
        return ColumnReading(
            title=self.title,
            read_as=names[0] if names else (self.column or "not used").replace("_", " "),
            confidence=self.confidence,
            why=self.why,
            column=self.column,
            shown=" … ".join(ends),
        )


class Scale(NamedTuple):
    """The column of K: a count for each row, what else its cells say, and its unit."""

    counts: tuple[int | None, ...]
    rests: tuple[str, ...]
    unit: ScaleUnit
    at: int
    is_load: bool = False


def parse_corrections(given: Sequence[str]) -> dict[str, Column]:
    """`TITLE=what it is`, as a reader corrects a column.

    >>> parse_corrections(["TPS/GPU=rate per device"])
    {'tps/gpu': 'device_rate'}
    """
    found: dict[str, Column] = {}
    for one in given:
        title, mark, role = one.rpartition("=")
        column = _NAMES.get(role.strip().lower())
        if not mark or column is None:
            names = ", ".join(names[0] for names in ROLES.values())
            raise SpecError(
                f"'{one}' does not say what a column is.",
                f"Write --column 'TITLE=...' with one of: {names}.",
            )
        found[title.strip().lower()] = column
    return found


def upright(
    titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Plain cells with the scales down a column: a table that has them on top is turned."""
    heads = [plain(title) for title in titles][:_MOST_HEADERS]
    lines = [[plain(cell) for cell in row][: len(heads)] for row in rows]
    lines = [[*line, *[""] * (len(heads) - len(line))] for line in lines]
    heads, lines = _joined_head(heads, lines)
    along = [_is_scale(head) for head in heads[1:]]
    counts = {count_of(head) for head, is_scale in zip(heads[1:], along, strict=True) if is_scale}
    labels = title_column(heads[0]) if heads else None
    if len(counts) < 2 or not all(along[1:]) or labels not in _LABELS:
        return heads, lines
    start = 1 + along.index(True)
    first = heads[0] if labels == "nodes" else _unit_word(heads[start:]) or "K"
    turned = [
        list(row) for row in zip(heads[start:], *(line[start:] for line in lines), strict=False)
    ]
    return [first, *(" ".join(line[:start]).strip() or "value" for line in lines)], turned


def _is_scale(head: str) -> bool:
    """Whether a title is a value of K: 8, 8 GPUs, 128x GB200, np 4."""
    if re.fullmatch(r"\d[\d,]*[*†‡]*x?", head):
        return True
    counted = re.search(rf"\b\d[\d,]*\s*(x\s*)?(\w+\s+)?{COUNTED}\b|\bnp\b|\d+x\s*\w", head, re.I)
    return bool(counted) and count_of(head) is not None and title_column(head) in _COUNTS


def _unit_word(heads: Sequence[str]) -> str:
    units = {unit for head in heads if (unit := unit_of_title(head))}
    return units.pop() + "s" if len(units) == 1 else ""


def _joined_head(heads: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Two lines of titles as one."""
    if (
        lines
        and not any(re.search(r"\d", cell) for cell in lines[0])
        and sum(map(bool, lines[0])) > 1
    ):
        joined = [
            " ".join(dict.fromkeys(filter(None, pair)))
            for pair in zip(heads, lines[0], strict=True)
        ]
        return joined, lines[1:]
    return heads, lines


def read_columns(
    titles: Sequence[str], rows: Sequence[Sequence[str]], corrections: Mapping[str, Column]
) -> list[Read]:
    """Each column by its title, its cells, or what the reader says."""
    reads = []
    for at, title in enumerate(titles):
        texts = tuple(row[at] for row in rows)
        given = corrections.get(title.lower())
        named = given or title_column(title)
        cells = tuple(parse_cell(text, named == "seconds") for text in texts)
        if given:
            reads.append(Read(title, given, "sure", "stated with --column", texts, cells))
        else:
            column, confidence, why = _of_cells(title, named, cells)
            reads.append(Read(title, column, confidence, why, texts, cells))
    return _statistics(reads)


def _of_cells(
    title: str, named: Column | None, cells: Sequence[Cell | None]
) -> tuple[Column | None, Confidence, str]:
    """What title and cells say together: a unit in the cells goes before a vague title."""
    kinds = Counter(cell.kind for cell in cells if cell is not None)
    kind: Kind | None = kinds.most_common(1)[0][0] if kinds else None
    values = [cell.value for cell in cells if cell is not None]
    vague = named in _FREE or words_of(title) in _VAGUE
    if (named == "throughput" or vague) and kind in _OF_KIND and (named, kind) != _RATE:
        return _OF_KIND[kind], "sure", "by the unit in its cells"
    if named in ("ratio", "efficiency"):
        return _of_ratios(named, kind, values)
    if named == "seconds" and kind in ("times", "percent", "rate"):
        return None, "likely", "a ratio, not a time"
    if named == "machine" and kind == "plain" and len(values) == len(cells):
        return "nodes", "likely", "whole numbers under the name of a device"
    if named in ("throughput", "device_rate") and vague:
        return named, "guess", "a title without a unit"
    if named is not None:
        return named, "sure", "by its title"
    return None, "guess", "its title is not known"


def _of_ratios(
    named: Column, kind: Kind | None, values: Sequence[float]
) -> tuple[Column | None, Confidence, str]:
    """Whether ratios are speedups or efficiencies."""
    if not values:
        return "label", "likely", "it has no figures"
    if named == "efficiency":
        if kind == "times" and max(values) > _MOST_SHARE:
            return "speedup", "likely", "written with x, and above one"
        return "efficiency", "sure", "by its title"
    if kind == "percent" or max(values) <= _MOST_SHARE:
        return "efficiency", "likely", "ratios of about one"
    return "speedup", "likely", "ratios above one"


def _statistics(reads: list[Read]) -> list[Read]:
    """min, median, mean and max of times; a column `samples` beside them counts repeats."""
    has_statistics = any(
        read.column == "std"
        or (read.column == "seconds" and words_of(read.title).split()[0] in _STATISTICS)
        for read in reads
    )
    if not has_statistics:
        return reads
    return [
        read._replace(column="rounds", confidence="likely", why="next to a column of statistics")
        if words_of(read.title) == "samples"
        else read
        for read in reads
    ]


def find_scale(reads: Sequence[Read], words: str) -> Scale:
    """The column of K, and what it counts."""
    named = [_scale_of(at, read) for at, read in enumerate(reads) if read.column == "nodes"]
    found = [scale for scale in named if scale is not None and len(set(scale.counts) - {None}) > 1]
    if not found:
        found = _other_scales(reads, words)
    if not found:
        shown = ", ".join(read.title for read in reads)[:80]
        what = "has one value only" if any(named) else "gives the number of nodes"
        raise DataError(
            f"No column {what}; the titles are: {shown}"
            if what.startswith("gives")
            else f"The number of nodes {what}; the titles are: {shown}",
            "Name one K, nodes or GPUs, or say which it is: --column 'TITLE=gpus'.",
        )
    hybrid = _hybrid(found, reads)
    best = hybrid or max(found, key=lambda one: (len(set(one.counts)), _finest(one, reads)))
    return best._replace(unit=_unit(best, reads))


def _scale_of(at: int, read: Read) -> Scale | None:
    counted = [count_of(text) for text in read.texts]
    if sum(one is not None for one in counted) < 2:
        return None
    return Scale(
        counts=tuple(one[0] if one else None for one in counted),
        rests=tuple(one[1] if one else "" for one in counted),
        unit=ScaleUnit(unit=unit_of_title(read.title) or _cell_unit(read) or NODE),
        at=at,
    )


def _cell_unit(read: Read) -> str | None:
    return next((unit for text in read.texts if (unit := unit_of_title(text))), None)


def _finest(scale: Scale, reads: Sequence[Read]) -> int:
    """A rank by which GPUs go before nodes, and these before ranks, cores and threads."""
    title = words_of(reads[scale.at].title)
    unit = scale.unit.unit
    order = _UNIT_ORDER.index(unit) if unit in _UNIT_ORDER else len(_UNIT_ORDER)
    return -order + (10 if "total" in title else 0)


def _hybrid(found: Sequence[Scale], reads: Sequence[Read]) -> Scale | None:
    """Ranks times threads, where both change and no column gives their product."""
    ranks = [one for one in found if one.unit.unit in ("rank", "process", "task")]
    threads = [one for one in found if one.unit.unit == "thread"]
    if len(found) != 2 or not ranks or not threads:
        return None
    (rank,), (thread,) = ranks, threads
    pairs = list(zip(rank.counts, thread.counts, strict=True))
    if (
        any(a is None or b is None for a, b in pairs)
        or len({a * b for a, b in pairs if a and b}) < 2
    ):
        return None
    counts = tuple(a * b for a, b in pairs if a and b)
    return rank._replace(counts=counts, unit=ScaleUnit(unit="core"))


def _other_scales(reads: Sequence[Read], words: str) -> list[Scale]:
    """K where no title says so: cells with a device, a load, whole numbers in the first column."""
    loads = [_scale_of(at, read) for at, read in enumerate(reads) if read.column == "load"]
    counted = [
        scale
        for at, read in enumerate(reads)
        if read.column in _FREE | {"machine", "settings", "parallelism", "round"}
        and all(re.search(rf"\b({COUNTED})\b|serial|single|\dx", text, re.I) or not text
                for text in read.texts)
        and (scale := _scale_of(at, read)) is not None
    ]  # fmt: skip
    parallel = [
        _scale_of(at, read) for at, read in enumerate(reads) if read.column == "parallelism"
    ]
    claims = any(read.column in ("speedup", "efficiency") for read in reads)
    says = claims or bool(re.search(r"\bscal(es?|ing|ab)", words, re.I))
    first = [_scale_of(0, reads[0])] if says and reads and reads[0].column in _FREE else []
    for some in (counted, loads, parallel, first):
        several = [one for one in some if one is not None and len(set(one.counts) - {None}) > 1]
        if several:
            return [one._replace(is_load=some is loads) for one in several]
    return []


def _unit(scale: Scale, reads: Sequence[Read]) -> ScaleUnit:
    """What K counts, and how many share a node by the columns beside it."""
    beside = [
        other
        for at, read in enumerate(reads)
        if read.column == "nodes" and at != scale.at and (other := _scale_of(at, read)) is not None
    ]
    shares = [
        {a / b for a, b in zip(scale.counts, one.counts, strict=True) if a and b}
        for one in beside
        if one.unit.counts_nodes and not scale.unit.counts_nodes
    ]
    for read in reads:
        if read.column == "per_node":
            shares.append({cell.value for cell in read.cells if cell is not None})
    whole = [share for share in shares if len(share) == 1 and float(min(share)).is_integer()]
    per_node = int(whole[0].pop()) if whole else None
    return ScaleUnit(unit=scale.unit.unit, per_node=per_node if per_node else None)


def in_seconds(read: Read, cell: Cell) -> float:
    """The seconds of a cell: by its own unit, else by that of the title."""
    if read.column == "pace":
        return 1 / cell.value if cell.value > 0 else math.nan
    return cell.value if cell.kind == "time" else cell.value * seconds_of_unit(read.title)
