"""From read columns to claims: which rows are one curve, which figure is its measure, what K held.

Where the cells allow two readings the claim carries both: the likelier one, and the second, so
that a rule fails only if both break it.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.tables.cells import Cell, count_of
from nodewise.importers.tables.columns import (
    Read,
    Scale,
    find_scale,
    in_seconds,
    read_columns,
    upright,
)
from nodewise.study.claim import (
    Claim,
    ColumnReading,
    Confidence,
    Figure,
    Row,
    last_regime_in,
    regime_in,
)
from nodewise.study.scale_unit import plural
from nodewise.study.spec import Regime
from nodewise.study.titles import Column, amount, regime_of_amounts, words_of

Mode = Literal["strong", "weak", "total", "per device", "ratio", "share", "hours"]

_ALIKE = 0.03  # relative and absolute: two efficiencies that say the same
_FLAT, _RISES = 0.12, 0.3  # exponents of K: below a rate is per device, above it is a total
_FALLS = -0.3  # exponent of K: a time that falls like this is of a fixed job
_HELD = 1.25  # times that a time may change and still look like weak scaling
_NUMBERS: frozenset[Column] = frozenset({
    "batch", "local_batch", "micro_batch", "work", "steps", "epochs", "quality", "seed", "energy",
    "power", "price", "rounds", "round", "std", "memory", "requests",
})  # fmt: skip
_WORDS: frozenset[Column] = frozenset({
    "machine", "settings", "precision", "split", "kind", "regime", "price_date", "date", "model",
    "size", "label", "parallelism",
})  # fmt: skip
_GROUPS: frozenset[Column | None] = frozenset({
    None, "model", "machine", "settings", "precision", "label", "size", "work", "batch",
    "local_batch", "micro_batch", "parallelism", "steps", "regime", "kind", "load",
})  # fmt: skip
_SUMMARY = re.compile(r"(arithmetic |geometric )?(mean|average|avg\.?|geomean|overall|total)", re.I)
_PREDICTED = re.compile(
    r"\b(predict(ed|ion)|project(ed|ion)|extrapolat(ed|ion)|estimated|modelled|modeled|est\.)", re.I
)
_SELECTED = re.compile(r"\b(best|fastest|minimum)\b|^min (\w+ )?time\b", re.I)
_PER_DEVICE = re.compile(r"(/| per) ?(gpu|device|node|core|chip|rank|worker|card|gcd)s?\b")
_TOTAL = re.compile(r"\b(total|aggregate|global|overall|system|cluster|combined|sum)\b", re.I)
_FLOPS = re.compile(r"flop", re.I)
_WHOLE_JOB = re.compile(r"\b(total|wall|overall|elapsed|runtime|end to end|loop|execution)\b", re.I)
_LATENCY = re.compile(r"latency|\bp9\d", re.I)
_SHARE_HELD = re.compile(
    r"(local|per[- ](gpu|device|node|rank|worker|core|gcd)) (batch|block|work|problem)|"
    r"batch( size)? per[- ](gpu|device|node|rank|worker)|constant work ?load per|"
    r"\b(cells|neurons|atoms|particles|elements|dofs?|points|unknowns|samples) per "
    r"(gpu|gcd|core|rank|node|process|device)",
    re.I,
)
_SAME_JOB = re.compile(
    r"\b(same|fixed) (problem|job|size|data ?set|workload|model)|\b\d+ epochs|not scale|slower",
    re.I,
)
_TIMED_WORDS = re.compile(r"\b(seconds|run ?times?|wall|times? in|\(s\)|elapsed|timings?)\b", re.I)
_RATED_WORDS = re.compile(r"(images?|tokens?|samples?|steps?|items?)/s|per second|throughput", re.I)


class _Measure(NamedTuple):
    """The figure that a curve is made of, and how it depends on K."""

    read: Read
    mode: Mode
    confidence: Confidence
    why: str
    other: Mode | None = None  # what the cells also allow


def claims_of_cells(
    name: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    text: str = "",
    regime: Regime | None = None,
    above: str = "",
    corrections: Mapping[str, Column] | None = None,
) -> tuple[Claim, ...]:
    """The claims in a table of cells, one for each curve in it."""
    heads, lines = upright(titles, list(rows))
    reads = read_columns(heads, lines, corrections or {})
    if not lines:
        raise DataError("The table has no rows of data.", "Write a row for each scale.")
    scale = find_scale(reads, f"{above} {text} {' '.join(heads)}")
    reads = _without_scale(reads, scale)
    made, error = [], None
    for label, at in _curves(reads, scale):
        called = f"{name}: {label}" if label and label != name else name
        curve = _Curve(called if not _has(reads, "curve") else label or name, reads, scale, at)
        try:
            made += curve.claims(text, above, regime)
        except DataError as found:
            error = error or found
    if not made:
        raise error or DataError(
            f"{name} has fewer than two scales.", "Give a table with a row for each scale."
        )
    return tuple(made)


def _has(reads: Sequence[Read], column: Column) -> bool:
    return any(read.column == column for read in reads)


def _without_scale(reads: Sequence[Read], scale: Scale) -> list[Read]:
    """The columns with that of K marked: other counts beside it are not the scale."""
    marked = []
    for at, read in enumerate(reads):
        if at == scale.at and read.column != "nodes":
            sure: Confidence = "likely" if scale.is_load or _names_device(read) else "guess"
            read = read._replace(column="nodes", confidence=sure, why="its cells count")
        elif at != scale.at and read.column == "nodes":
            read = read._replace(column="per_node", why="is next to K")
        marked.append(read)
    return marked


def _names_device(read: Read) -> bool:
    return all(re.search(r"[A-Za-z]", text) for text in read.texts if text)


def _curves(reads: Sequence[Read], scale: Scale) -> list[tuple[str, list[int]]]:
    """The rows of each curve: K occurs once in each, but for numbered or plain repeats."""
    counted = [at for at, count in enumerate(scale.counts) if count is not None]
    named = next((read for read in reads if read.column == "curve"), None)
    if named is not None:
        return _grouped(counted, lambda at: named.texts[at])
    if len({scale.counts[at] for at in counted}) == len(counted) or _has(reads, "round"):
        return [("", counted)]
    keys = [read.texts for read in reads if read.column in _GROUPS and len(set(read.texts)) > 1]
    keys += [scale.rests] if len(set(scale.rests)) > 1 else []
    for size in (1, 2, 3):
        fits = [
            groups
            for some in combinations(keys, size)
            if (
                groups := _grouped(counted, lambda at, s=some: ", ".join(k[at] for k in s if k[at]))
            )
            and all(len({scale.counts[at] for at in of}) == len(of) for _, of in groups)
        ]
        if fits:
            best = min(fits, key=len)
            several = [one for one in best if len(one[1]) > 1]
            return several or best
    return [("", counted)]


def _grouped(rows: Sequence[int], key) -> list[tuple[str, list[int]]]:  # type: ignore[no-untyped-def]
    groups: dict[str, list[int]] = {}
    for at in rows:
        groups.setdefault(key(at), []).append(at)
    return list(groups.items())


class _Curve:
    """The rows of one curve."""

    def __init__(self, name: str, reads: Sequence[Read], scale: Scale, rows: list[int]) -> None:
        self.name, self.reads, self.scale = name, reads, scale
        self.rows = sorted(rows, key=lambda at: scale.counts[at] or 0)
        self.scales = sorted({self.count(at) for at in rows})

    def count(self, at: int) -> int:
        """K of a row."""
        return self.scale.counts[at] or 0

    def claims(self, text: str, above: str, regime: Regime | None) -> list[Claim]:
        """The claim, or one for each column where a table has a curve in every column."""
        if len(self.scales) < 2:
            raise DataError(
                f"{self.name} has fewer than two scales.",
                "Give a table with a row for each scale.",
            )
        declared = regime or self._declared(text, above)
        measure = self._measure(declared, f"{above}\n{text}")
        if measure is not None:
            return [self._claim(self.name, measure, declared, text)]
        named = [self._unnamed(read, f"{above}\n{text}") for read in self.reads]
        curves = [
            self._claim(f"{self.name}: {one.read.title}", one, declared, text)
            for one in named
            if one is not None
        ]
        if not curves:
            raise DataError(
                f"{self.name} gives neither times nor rates nor speedups that can be read.",
                "Say what a column is: --column 'TITLE=time', rate, rate per device or speedup.",
            )
        return curves

    def _declared(self, text: str, above: str) -> Regime | None:
        """What a column, a title or the words above the table say was held fixed."""
        column = next((read for read in self.reads if read.column == "regime"), None)
        if column is not None:
            said = {column.texts[at].lower() for at in self.rows} & {"strong", "weak"}
            if len(said) == 1:
                return said.pop()  # type: ignore[return-value]
        titles = regime_in(" ".join(read.title for read in self.reads))
        return titles or last_regime_in(above) or regime_in(text)

    # ---- figures by K

    def series(self, read: Read) -> dict[int, float]:
        """The mean of a column at each K, where it is full and above zero; else nothing."""
        found: dict[int, list[float]] = {}
        for at in self.rows:
            cell = read.cells[at]
            value = math.nan if cell is None or cell.is_bound else self.value(read, cell)
            if value > 0:
                found.setdefault(self.count(at), []).append(value)
        return {k: sum(values) / len(values) for k, values in found.items()}

    def value(self, read: Read, cell: Cell) -> float:
        """A cell in seconds, or as a share, or as it is."""
        if read.column in ("seconds", "pace"):
            return in_seconds(read, cell)
        if read.column == "efficiency":
            return cell.value * self._percent(read, cell)
        return cell.value

    def _percent(self, read: Read, cell: Cell) -> float:
        values = [one.value for one in read.cells if one is not None]
        is_percent = cell.kind == "percent" or "%" in read.title or max(values) > 3
        return 0.01 if is_percent else 1.0

    def efficiencies(self, read: Read, mode: Mode) -> dict[int, float]:
        """Efficiency over the smallest K that the column has, read in this way."""
        found = self.series(read)
        if len(found) < 2:
            return {}
        first, base = next(iter(found.items()))
        grown = {k: k / first for k in found}
        ways = {
            "strong": lambda k, v: base / v / grown[k],
            "weak": lambda k, v: base / v,
            "total": lambda k, v: v / base / grown[k],
            "ratio": lambda k, v: v / base / grown[k],
            "per device": lambda k, v: v / base,
            "share": lambda k, v: v / base,
            "hours": lambda k, v: base / v,
        }
        return {k: ways[mode](k, v) for k, v in found.items()}

    def _written(self) -> list[dict[int, float]]:
        """The efficiencies that the table itself writes, as such or as speedups."""
        modes: dict[Column, Mode] = {"efficiency": "share", "speedup": "ratio"}
        found = []
        for read in self.reads:
            if read.column in modes:
                shares = self.efficiencies(read, modes[read.column])
                if read.column == "efficiency" and self.scales[0] not in self.series(read):
                    shares = {self.scales[0]: 1.0} | self.series(read)
                found.append(shares)
        return [one for one in found if len(one) > 1]

    def _agrees(self, read: Read, mode: Mode) -> bool | None:
        """Whether a reading gives an efficiency that is written; None if none is."""
        written = self._written()
        if not written:
            return None
        return any(_alike(self.efficiencies(read, mode), one) for one in written)

    def _exponent(self, read: Read) -> float:
        """How a column goes with K, as a power."""
        found = self.series(read)
        (first, base), *_, (last, end) = found.items()
        return math.log(end / base) / math.log(last / first)

    # ---- which figure is the measure

    def _measure(self, declared: Regime | None, words: str) -> _Measure | None:
        usable = [read for read in self.reads if len(self.series(read)) > 1]
        times = [read for read in usable if read.column in ("seconds", "pace")]
        rates = [read for read in usable if read.column in ("throughput", "device_rate")]
        rates.sort(key=lambda read: bool(_FLOPS.search(read.title)))
        if rates:
            times = [read for read in times if not _LATENCY.search(read.title)]
        rated = self._rate(rates[0]) if rates else None
        timed = self._time(self._best_time(times), declared, rated, words) if times else None
        if timed is not None and (timed.confidence != "guess" or rated is None):
            return timed
        if rated is not None:
            return rated
        last: tuple[tuple[Column, Mode], ...] = (
            ("speedup", "ratio"), ("efficiency", "share"), ("utilisation", "share"),
            ("device_hours", "hours"),
        )  # fmt: skip
        for column, mode in last:
            for read in usable:
                if read.column == column:
                    return _Measure(read, mode, read.confidence, read.why)
        return self._of_metric(usable)

    def _of_metric(self, usable: Sequence[Read]) -> _Measure | None:
        """The value of a long table, by the metric that its rows name."""
        metric = next((read for read in self.reads if read.column == "metric"), None)
        value = next((read for read in usable if read.column == "value"), None)
        if value is None:
            return None
        named = metric.texts[self.rows[0]] if metric else ""
        if "throughput" in named:
            return _Measure(value._replace(column="throughput"), "total", "sure", "by its metric")
        regime = self._declared("", "") or "strong"
        return _Measure(value._replace(column="seconds"), regime, "sure", "by its metric")

    def _best_time(self, times: Sequence[Read]) -> Read:
        """Of several times that of the whole job, and of several statistics the median."""

        def rank(read: Read) -> tuple[bool, int, bool]:
            words = words_of(read.title)
            agrees = any(self._agrees(read, mode) for mode in ("strong", "weak"))
            order = 0 if "median" in words else 1 if re.search(r"mean|av(era)?g", words) else 2
            order = 4 if re.search(r"^(min|max)|\b(min|max)imum", words) else order
            order = 0 if _WHOLE_JOB.search(words) else order
            return (not agrees, order, self._exponent(read) > _FALLS)

        return min(times, key=rank)

    def _rate(self, read: Read) -> _Measure:
        """Whether a rate is of all devices or of each: by its title, else by arithmetic."""
        if read.column == "device_rate":
            return _Measure(read, "per device", read.confidence, read.why)
        modes: tuple[Mode, Mode] = ("total", "per device")
        agrees = [mode for mode in modes if self._agrees(read, mode)]
        if len(agrees) == 1:
            return _Measure(read, agrees[0], "sure", "the stated ratios confirm it")
        if _TOTAL.search(read.title) or read.why == "stated with --column":
            return _Measure(read, "total", "sure", read.why)
        exponent = self._exponent(read)
        if exponent >= _RISES:
            return _Measure(read, "total", "likely", "it grows with K")
        if exponent <= _FLAT:
            why = "a total would grow with K, this does not"
            sure = self._has_flat_flops(read)
            return _Measure(read, "per device", "likely", why, None if sure else "total")
        return _Measure(read, "total", "guess", "it grows little with K", "per device")

    def _has_flat_flops(self, rate: Read) -> bool:
        """Whether FLOP/s are beside a rate, and do not grow with K either."""
        return any(
            _FLOPS.search(read.title) and read is not rate and self._exponent(read) <= _FLAT
            for read in self.reads
            if read.column in ("throughput", "device_rate") and len(self.series(read)) > 1
        )

    def _time(
        self, read: Read, declared: Regime | None, rated: _Measure | None, words: str
    ) -> _Measure:
        """Whether a time is of a fixed job or of one that grows with K."""
        modes: tuple[Mode, Mode] = ("strong", "weak")
        agrees = [mode for mode in modes if self._agrees(read, mode)]
        if len(agrees) == 1:
            return _Measure(read, agrees[0], "sure", "the stated ratios confirm it")
        if declared is not None:
            return _Measure(read, declared, "sure", f"{declared} scaling is declared")
        exponent = self._exponent(read)
        shown = self._shown_regime(falls=exponent <= _FALLS)
        if shown is not None:
            return _Measure(read, shown, "likely", f"the amounts next to it show {shown} scaling")
        if rated is not None:
            fits = [m for m in modes
                    if _alike(self.efficiencies(read, m),
                              self.efficiencies(rated.read, rated.mode))]  # fmt: skip
            if len(fits) == 1:
                return _Measure(read, fits[0], "likely", "it fits the rate next to it")
        if exponent <= _FALLS:
            return _Measure(read, "strong", "likely", "it falls with K")
        if _SHARE_HELD.search(words):
            return _Measure(read, "weak", "likely", "the text holds the share of each device")
        found = list(self.series(read).values())
        held = max(found) <= _HELD * found[0] and min(found) >= found[0] / _HELD
        held = held and self.scales[-1] >= 4 * self.scales[0] and not _SAME_JOB.search(words)
        a_step = read.column == "pace" or bool(
            re.search(r"step|iter|\bit\b|epoch", words_of(read.title))
        )
        if held or (a_step and exponent > 0):
            return _Measure(read, "weak", "guess", "it does not fall with K", "strong")
        return _Measure(read, "strong", "guess", "it falls little with K", "weak")

    def _shown_regime(self, falls: bool) -> Regime | None:
        """What the amounts beside K show: held, or growing in proportion to it.

        A share of each device that is held is weak scaling, unless the time falls all the same.
        """
        for read in self.reads:
            if read.column in ("batch", "work", "size", "local_batch"):
                amounts = {self.count(at): amount(read.texts[at]) for at in self.rows}
                regime = regime_of_amounts(amounts)
                if read.column == "local_batch":
                    regime = "weak" if regime == "strong" and not falls else None
                if regime is not None:
                    return regime
        return None

    def _unnamed(self, read: Read, words: str) -> _Measure | None:
        """A column without a known title, where the words around say what the figures are."""
        if read.column is not None or len(self.series(read)) < 2:
            return None
        if _RATED_WORDS.search(words) and not _TIMED_WORDS.search(words):
            return self._rate(read._replace(column="throughput"))
        if _TIMED_WORDS.search(words):
            return self._time(read._replace(column="seconds"), regime_in(words), None, words)
        return None

    # ---- the claim

    def _claim(self, name: str, measure: _Measure, declared: Regime | None, text: str) -> Claim:
        claim = self._as_read(name, measure, declared, text)
        if measure.other is None:
            return claim
        second = self._as_read(name, measure._replace(mode=measure.other), declared, text)
        words = {"strong": "the time of a fixed job", "weak": "the time of a job that grows with K",
                 "total": "the rate of all devices",
                 "per device": "the rate of each device"}  # fmt: skip
        differs = (f"'{measure.read.title}' is {words[measure.mode]}, or it is "
                   f"{words[measure.other]}")  # fmt: skip
        return msgspec.structs.replace(claim, second=second, second_reading=differs)

    def _as_read(self, name: str, measure: _Measure, declared: Regime | None, text: str) -> Claim:
        rows, summary, predicted = [], [], set()
        for at in self.rows:
            row = self._row(at, measure)
            if _target(measure) in row:
                rows.append(row)
                if self._is_predicted(at):
                    predicted.add(self.count(at))
        for at, count in enumerate(self.scale.counts):
            if count is None and any(_SUMMARY.fullmatch(r.texts[at]) for r in self.reads):
                summary.append(self._facts(at, {}))
        if len({row["nodes"].value for row in rows}) < 2:
            raise DataError(
                f"{name} gives neither times nor rates nor speedups that can be read.",
                "Say what a column is: --column 'TITLE=time', rate, rate per device or speedup.",
            )
        if len({row[_target(measure)].text for row in rows}) == 1:
            raise DataError(
                f"{name}: '{measure.read.title}' is the same in every row: no measurement.",
                "Give a table with a measured time or rate for each scale.",
            )
        timed = measure.mode in ("strong", "weak")
        unused = [
            read.title for read in self.reads if read.column is None and read is not measure.read
        ]
        claim = Claim(
            name=name,
            rows=tuple(rows),
            summary=tuple(summary),
            regime=declared,
            predicted=tuple(sorted(predicted)),
            selected=timed and bool(_SELECTED.search(words_of(measure.read.title))),
            text=text,
            notes=(f"Columns not used: {', '.join(unused)}.",) if unused else (),
            scale_unit=self.scale.unit,
            reading=self._reading(measure),
            read_regime=measure.mode if timed and measure.mode != declared else None,  # type: ignore[arg-type]
            is_load=self.scale.is_load,
        )
        if claim.study is None:
            raise DataError(
                f"{name} gives neither times nor rates nor speedups that can be read.",
                "Name a column time_s, throughput, speedup or efficiency, and fill every row.",
            )
        return claim

    def _is_predicted(self, at: int) -> bool:
        marked = re.search(r"[*†‡]$", self.reads[self.scale.at].texts[at])
        return bool(marked) or any(_PREDICTED.search(read.texts[at]) for read in self.reads)

    def _row(self, at: int, measure: _Measure) -> Row:
        """The cells of a row that rules ask for, the measure among them."""
        count = self.count(at)
        row: Row = {"nodes": Figure(float(count), str(count))}
        cell = measure.read.cells[at]
        if cell is not None and not cell.is_bound and cell.value > 0:
            row[_target(measure)] = self._figure(measure, cell, count)
            if cell.spread is not None and _target(measure) in ("seconds", "throughput"):
                share = cell.spread / cell.value
                row["std"] = Figure(share * row[_target(measure)].value, "")
        own = self._same_per_device(measure)
        if own is not None and (beside := own.cells[at]) is not None:
            row["device_rate"] = Figure(beside.value, beside.text, beside.half)
        return self._base_ratios(at, self._facts(at, row))

    def _same_per_device(self, measure: _Measure) -> Read | None:
        """The column that gives the same rate for each device, beside the total."""
        total = words_of(measure.read.title)
        return next(
            (
                read
                for read in self.reads
                if read.column == "device_rate"
                and measure.read.column == "throughput"
                and _PER_DEVICE.sub("", words_of(read.title)).strip() == total
            ),
            None,
        )

    def _figure(self, measure: _Measure, cell: Cell, count: int) -> Figure:
        value = self.value(measure.read, cell)
        if measure.mode == "per device":
            value *= count
        elif measure.mode == "hours":
            value *= 3600 / count
        return Figure(value, cell.text, cell.half * value / cell.value)

    def _facts(self, at: int, row: Row) -> Row:
        for read in self.reads:
            cell, text, column = read.cells[at], read.texts[at], read.column
            if column is None or column in row or not text:
                continue
            if column in _WORDS:
                row[column] = Figure(
                    math.nan, _without_count(text) if column == "machine" else text
                )
            elif column in ("speedup", "efficiency") and cell is not None and not cell.is_bound:
                value = self.value(read, cell)
                row[column] = Figure(value, cell.text, cell.half * value / (cell.value or 1.0))
            elif column in _NUMBERS and cell is not None:
                row[column] = self._number(read, cell)
        rest = self.scale.rests[at]
        if "machine" not in row and "nodes" in row and re.search(r"[A-Z]+\d+", rest):
            row["machine"] = Figure(math.nan, rest)
        return row

    def _base_ratios(self, at: int, row: Row) -> Row:
        """A dash at the base is a ratio of one."""
        ratios: tuple[Column, Column] = ("speedup", "efficiency")
        for ratio in ratios:
            if ratio not in row and _has(self.reads, ratio) and self.count(at) == self.scales[0]:
                row[ratio] = Figure(1.0, "", 0.0)
        return row

    def _number(self, read: Read, cell: Cell) -> Figure:
        if read.column == "std":
            factor = in_seconds(read._replace(column="seconds"), cell) / (cell.value or 1.0)
            return Figure(cell.value * factor, cell.text, cell.half * factor)
        return Figure(cell.value, cell.text, cell.half)

    def _reading(self, measure: _Measure) -> tuple[ColumnReading, ...]:
        """How the table was read: K and the measure first, then the other columns that count."""
        shown = {
            "strong": "time of a fixed job", "weak": "time of a job that grows with K",
            "total": "rate of all devices", "per device": "rate of each device",
            "ratio": "speedup", "share": "efficiency", "hours": "device hours",
        }  # fmt: skip
        rows = []
        for at, read in enumerate(self.reads):
            kept = read._replace(texts=tuple(read.texts[one] for one in self.rows))
            one = kept.reading()
            if at == self.scale.at:
                unit = plural(self.scale.unit.unit)
                shares = self.scale.unit.per_node
                more = f", {shares} to a node" if shares else ""
                one = msgspec.structs.replace(one, read_as=f"K: number of {unit}{more}")
            elif read.title == measure.read.title:
                one = msgspec.structs.replace(
                    one,
                    read_as=shown[measure.mode],
                    confidence=_weaker(measure.confidence, read.confidence),
                    why=measure.why,
                    column=_target(measure),
                )
            rows.append(one)
        return tuple(rows)


def _weaker(one: Confidence, other: Confidence) -> Confidence:
    order: tuple[Confidence, ...] = ("sure", "likely", "guess")
    return max(one, other, key=order.index) if other != "guess" or one == "guess" else one


def _target(measure: _Measure) -> Column:
    """The column of a claim that a measure fills."""
    targets: dict[Mode, Column] = {
        "strong": "seconds", "weak": "seconds", "hours": "seconds", "total": "throughput",
        "per device": "throughput", "ratio": "speedup", "share": "efficiency",
    }  # fmt: skip
    return targets[measure.mode]


def _alike(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether two sets of efficiencies say the same at every K that both have, beyond the base."""
    both = [k for k in one if k in other]
    if len(both) < 2:
        return False
    first = both[0]
    return all(
        abs(one[k] / one[first] - other[k] / other[first]) <= _ALIKE * (1 + other[k] / other[first])
        for k in both[1:]
    )


def _without_count(text: str) -> str:
    """A name of hardware without how many there are."""
    counted = count_of(text)
    return counted[1] if counted and re.match(r"\s*\d+\s*x", text) else text
