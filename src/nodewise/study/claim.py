"""A claimed table: its figures as written, digit by digit.

A `Study` holds measured runs; a `Claim` holds cells. So it keeps what a study would refuse or
recompute: speedup and efficiency columns, rounded figures, work that changes between rows.
"""

import re
from functools import cached_property
from typing import Literal

import msgspec

from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import SHORTEST_SECONDS, Run, Study
from nodewise.study.titles import Column

_LARGE_RATE = 1e6  # a second
Confidence = Literal["sure", "likely", "guess"]  # sure: a title or a unit says so


class Figure(msgspec.Struct, frozen=True):
    """A cell: its value, the text as written, and half a unit of its last digit."""

    value: float
    text: str
    half: float = 0.0

    @property
    def digits(self) -> int:
        """How many significant digits were written."""
        mantissa = re.split(r"[eE]", self.text)[0]
        return len(re.sub(r"\D", "", mantissa).lstrip("0"))


Row = dict[Column, Figure]


class ColumnReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a column of a claimed table was taken for, and why."""

    title: str
    read_as: str
    confidence: Confidence
    why: str
    column: Column | None = None
    shown: str = ""  # its first and its last cell


class Claim(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The rows of one claimed curve, ascending in K, and the words around them."""

    name: str
    rows: tuple[Row, ...]
    summary: tuple[Row, ...] = ()  # rows of means over the others
    regime: Regime | None = None  # as declared; null: not stated
    predicted: tuple[int, ...] = ()  # scales that are marked as not measured
    selected: bool = False  # a title says that the best run was taken
    text: str = ""
    notes: tuple[str, ...] = ()
    source: Study | None = None  # the runs behind it, where it was read from runs
    scale_unit: ScaleUnit = ScaleUnit()
    reading: tuple[ColumnReading, ...] = ()  # of the table, in its order
    read_regime: Regime | None = None  # what the figures were read as, if it is not stated
    is_load: bool = False  # K is the load on one set-up, not a number of devices
    second: "Claim | None" = None  # the same cells read in the other way that they allow
    second_reading: str = ""  # what differs in it

    @cached_property
    def columns(self) -> frozenset[Column]:
        """The columns that every row fills."""
        return frozenset(set.intersection(*(set(row) for row in self.rows)))

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """The claimed node counts, ascending."""
        return tuple(sorted({int(row["nodes"].value) for row in self.rows}))

    @property
    def assumed_regime(self) -> Regime:
        """What the figures were read as, or declared, or the work column shows, else strong."""
        return self.read_regime or self.regime or self.shown_regime or "strong"

    @cached_property
    def shown_regime(self) -> Regime | None:
        """What the column of total work, or of the batch, was held to."""
        for column in ("work", "batch"):
            values = self.by_scale(column)
            if len(values) < 2 or min(values.values()) <= 0:
                continue
            (first, base), *_ = values.items()
            if all(abs(value / base - 1) <= 0.01 for value in values.values()):
                return "strong"
            if all(abs(v / base * first / k - 1) <= 0.01 for k, v in values.items()):
                return "weak"
        return None

    def by_scale(self, column: Column) -> dict[int, float]:
        """The first value of a column at each scale; nothing if the column is not full."""
        if column not in self.columns:
            return {}
        found: dict[int, float] = {}
        for row in self.rows:
            found.setdefault(int(row["nodes"].value), row[column].value)
        return found

    def words(self, column: Column) -> dict[int, set[str]]:
        """What a column says at each scale, as written."""
        found: dict[int, set[str]] = {}
        for row in self.rows:
            if column in row:
                found.setdefault(int(row["nodes"].value), set()).add(row[column].text)
        return found

    @cached_property
    def study(self) -> Study | None:
        """The claim as runs: seconds as given, or relative ones from a rate or a ratio.

        A row is a run, or the mean of `rounds` of them; what is only a ratio has T = 1 at the base.
        """
        if self.source is not None:
            return self.source
        counts: dict[int, int] = {}
        runs = []
        for row in self.rows:
            nodes = int(row["nodes"].value)
            number = int(row["round"].value) if "round" in row else counts.get(nodes, 0)
            counts[nodes] = counts.get(nodes, 0) + 1
            seconds = self._seconds(row)
            if seconds is None or seconds < SHORTEST_SECONDS:
                return None
            quality = row["quality"].value if "quality" in row else None
            work = row["work"].value if "work" in row else None
            runs.append(Run(nodes=nodes, round=number, seconds=seconds, quality=quality, work=work))
        return Study(
            name=self.name,
            regime=self.assumed_regime,
            runs=tuple(runs),
            scale_unit=self.scale_unit,
            is_rate=self.main == "throughput" and "work" not in self.columns,
        )

    @cached_property
    def main(self) -> Column | None:
        """The column that the seconds come from."""
        columns: tuple[Column, ...] = ("seconds", "throughput", "speedup", "efficiency")
        return next((column for column in columns if column in self.columns), None)

    def _seconds(self, row: Row) -> float | None:
        nodes, base = row["nodes"].value, self.scales[0]
        grown = nodes / base if self.assumed_regime == "weak" else 1.0
        if self.main is None or row[self.main].value <= 0:
            return None
        value = row[self.main].value
        if self.main == "seconds":
            return value
        if self.main == "efficiency":
            return grown * base / (nodes * value)
        return grown * self._rate_unit / value

    @cached_property
    def _rate_unit(self) -> float:
        """The work of a run: one unit, or as many as a large rate does in a second."""
        first = self.rows[0][self.main].value if self.main else 1.0
        return first if self.main == "throughput" and first > _LARGE_RATE else 1.0

    @property
    def has_seconds(self) -> bool:
        """Whether a time or a rate is given, not only ratios."""
        return self.source is not None or bool({"seconds", "throughput"} & self.columns)


def claim_of_study(study: Study, text: str = "") -> Claim:
    """A measured study as a claim, so that one set of rules judges both."""
    names: dict[str, Column] = {"batch": "batch", "steps": "steps", "epochs": "epochs"}
    names |= {"dtype": "precision", "precision": "precision", "quality_split": "split"}
    names |= {"global_batch_size": "batch", "seed": "seed"}
    rows = []
    for run in study.good_runs:
        row: Row = {
            "nodes": Figure(float(run.nodes), str(run.nodes)),
            "round": Figure(float(run.round), str(run.round)),
            "seconds": Figure(run.seconds, repr(run.seconds)),
        }
        for column, value in (("work", run.work), ("quality", run.quality)):
            if value is not None:
                row[column] = Figure(value, repr(value))  # type: ignore[index]
        for name, column in names.items():
            if name in run.facts:
                fact = run.facts[name]
                number = float(fact) if isinstance(fact, int | float) else float("nan")
                row[column] = Figure(number, str(fact))
        rows.append(row)
    declared = study.regime if study.spec is not None else None
    return Claim(
        name=study.name,
        rows=tuple(rows),
        regime=declared or regime_in(text),
        text=text,
        notes=study.notes,
        source=study,
        scale_unit=study.scale_unit,
    )


_SAID: dict[Regime, re.Pattern[str]] = {
    "strong": re.compile(r"\bstrong([- ]scaling|\s+regime)|regime[:= ]+strong|强扩展", re.I),
    "weak": re.compile(
        r"(?<!very )\bweak([- ]scaling|\s+regime)|regime[:= ]+weak|弱扩展|weakly? scaled", re.I
    ),
}


def regime_in(text: str) -> Regime | None:
    """The regime that the words around a table declare, where they name one of the two."""
    named = [regime for regime, said in _SAID.items() if said.search(text)]
    return named[0] if len(named) == 1 else None


def last_regime_in(text: str) -> Regime | None:
    """The regime that is named last, as in the heading right above a table."""
    ends: dict[Regime, int] = {
        regime: max((found.end() for found in said.finditer(text)), default=-1)
        for regime, said in _SAID.items()
    }
    last = max(ends, key=lambda regime: ends[regime])
    return last if ends[last] >= 0 else None
