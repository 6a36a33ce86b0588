"""A claimed table: what somebody wrote down, digit by digit, before anyone believes it.

A `Study` holds measured runs; a `Claim` holds cells. So it keeps what a study would refuse or
recompute: speedup and efficiency columns, rounded figures, work that changes between rows.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from nodewise.base.errors import DataError
from nodewise.study.scale_unit import NODE, ScaleUnit, unit_of_title
from nodewise.study.spec import Regime
from nodewise.study.study import SHORTEST_SECONDS, Run, Study

Column = Literal[
    "nodes", "seconds", "std", "rounds", "round", "speedup", "efficiency", "throughput",
    "work", "batch", "local_batch", "steps", "epochs", "quality", "seed", "split",
    "precision", "machine", "settings", "energy", "power", "price", "price_date", "kind",
    "regime", "curve", "metric", "value",
]  # fmt: skip

# What a title is called by, tried in this order: the first that matches names the column.
_TITLES: tuple[tuple[Column, str], ...] = (
    ("curve", r"curve(_id)?|series"),
    ("metric", r"metric"),
    ("value", r"value"),
    ("regime", r"regime|scaling"),
    ("kind", r"kind|measured or predicted|measured\?|predicted\?"),
    ("speedup", r"(relative |parallel |max )?speed-? ?ups?( .*)?|s\(?[knp]?\)?|s_[knp]"),
    ("efficiency", r"(parallel |scaling |weak[- ]scaling )?eff(iciency|\.)?( .*)?|e\(?[knp]?\)?"),
    ("std", r"(.* )?(std|stdev|std\.? ?dev.*|sd|sigma|spread|\+/-)( .*)?|std_.*|.*_std"),
    ("local_batch", r"(local|micro|mini|per[- ]?(gpu|node|worker|device)).*batch.*|batch.*(per|/) ?"
     r"(gpu|node|worker|device).*"),
    ("batch", r"((global|total|effective)[ _-])?batch([ _-]?size)?"),
    ("throughput", r"throughput.*|.*(/s|/sec|/second|per[ _]s|per[ _]sec(ond)?)|items_per_s|qps|tps"
     r"|.*flop/?s|bandwidth"),
    ("rounds", r"(number of |no\. |n |# ?)?(runs|repeats|repetitions|rounds|reps|trials)"),
    ("round", r"rep|round|repeat|run|trial"),
    ("price_date", r"price[ _]date|priced on|as of"),
    ("price", r"(price|cost|rate).*|.*(\$|usd|eur).*"),
    ("energy", r"energy.*|.*joules?|.*kwh"),
    ("power", r"power.*|.*watts?"),
    ("machine", r"machine|host|hostname|hardware|system|(gpu|cpu|node|instance)[ _-](type|model)"),
    ("settings", r"settings|options|flags|config(uration)?|commit|versions?|software|notes?|build"),
    ("precision", r"precision|dtype|data[ _]type"),
    ("split", r"(data )?split|quality_split"),
    ("seed", r"(random )?seed"),
    ("quality", r"quality|.*accuracy|acc\.?|(test|val|validation|final|eval)?[ _]?loss|auc|bleu|f1"
     r"|perplexity|m?ap|.*top-?1.*"),
    ("epochs", r"(number of |# ?)?epochs"),
    ("steps", r"(number of |# ?)?(time ?)?(steps|iterations|iters)"),
    ("work", r"work|items|(total )?(samples|tokens|images|cells|atoms|particles|dofs?|elements)"
     r"|(problem|data(set)?|global|total) size"),
    ("seconds", r"(wall|run|step|total|mean|median|best|min(imum)?|average|avg\.?|elapsed|training|"
     r"epoch|solve|iteration|execution)?[ _-]*(clock )?(time|seconds|runtime|duration|wall|latency)"
     r"([ _](s|sec|ms|min|h|per .*|to .*))?|t\(?[knp]?\)?|t_[knp]|secs?|elapsed([ _]s)?"),
    ("nodes", r"k|p|n|(number of |no\. |n[ _]|num[ _]|# ?|total )?(compute )?(nodes|workers|gpus?|"
     r"ranks|processes|procs|cores|threads|accelerators|chips|tpus|devices|tasks|machines|servers|"
     r"clients|users|concurrency|mpi (ranks|tasks))"),
)  # fmt: skip
_UNITS = {"ms": 1e-3, "msec": 1e-3, "us": 1e-6, "µs": 1e-6, "s": 1.0, "sec": 1.0, "min": 60.0,
          "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "hr": 3600.0}  # fmt: skip
_LARGEST, _SMALLEST = 1e15, 1e-12
_MOST_POWER = 30  # of ten: 0e999 is nothing, and too precise to be written down
_SUMMARY = re.compile(r"(arithmetic |geometric )?(mean|average|avg\.?|geomean|overall|total)", re.I)
_SELECTED = re.compile(r"\b(best|fastest|min(imum)?)\b", re.I)
_NUMBER = re.compile(
    r"(?P<head>[~$≈<>]*)(?P<number>[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?)"
    r"\s*(?P<tail>x|\u00d7|%|s|ms|sec|min|h|k)?(?P<mark>[*†‡]*)$"
)
_PREDICTED = re.compile(
    r"\b(predict(ed|ion)|project(ed|ion)|extrapolat(ed|ion)|estimated|modelled|modeled|est\.)", re.I
)
_WORDS: frozenset[Column] = frozenset(
    {"machine", "settings", "precision", "split", "kind", "regime", "curve", "metric", "price_date"}
)


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


class Claim(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The rows of one claimed curve, ascending in K, and the words around them."""

    name: str
    rows: tuple[Row, ...]
    summary: tuple[Row, ...] = ()  # rows of means over the others
    regime: Regime | None = None  # as declared; null: nobody says
    predicted: tuple[int, ...] = ()  # scales that are marked as not measured
    selected: bool = False  # a title says that the best run was taken
    text: str = ""
    notes: tuple[str, ...] = ()
    source: Study | None = None  # the runs behind it, where it was read from runs
    scale_unit: ScaleUnit = ScaleUnit()

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
        """The declared regime, or what the work column shows, else strong."""
        return self.regime or self.shown_regime or "strong"

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
        """The first value of a column at each scale; nothing where the column is not full."""
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
        return grown * base / (nodes * value) if self.main == "efficiency" else grown / value

    @property
    def has_seconds(self) -> bool:
        """Whether a time or a rate stands there, not only ratios."""
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
        regime=declared or _regime_in(text),
        text=text,
        notes=study.notes,
        source=study,
        scale_unit=study.scale_unit,
    )


def claims_of_cells(
    name: str,
    titles: Sequence[str],
    cells: Iterable[Sequence[str]],
    text: str = "",
    regime: Regime | None = None,
) -> tuple[Claim, ...]:
    """The claims in a table of cells: one, or one for each value of a column `curve`."""
    titles, lines = _upright([plain(title) for title in titles], [list(row) for row in cells])
    columns = [title_column(title) for title in titles]
    if "nodes" not in columns:
        shown = ", ".join(titles)[:80]
        raise DataError(
            f"No column gives the number of nodes; the titles are: {shown}",
            "Name one K, nodes, GPUs or the like.",
        )
    grouped: dict[str, list[list[str]]] = {}
    at = columns.index("curve") if "curve" in columns else None
    for line in lines:
        line = [plain(cell) for cell in line] + [""] * (len(titles) - len(line))
        grouped.setdefault(name if at is None else line[at], []).append(line)
    made = [_claim(one, titles, columns, some, text, regime) for one, some in grouped.items()]
    if not made:
        raise DataError("The table has no rows of data.", "Write a row for each scale.")
    return tuple(made)


def plain(cell: str) -> str:
    """A cell without the marks of Markdown and LaTeX.

    >>> plain(r"\\textbf{3.4}$\\times$"), plain("**94** %"), plain(r"$12.5 \\pm 0.3$")
    ('3.4x', '94 %', '12.5 ± 0.3')
    """
    cell = re.sub(r"\\(textbf|textit|emph|mathbf|mathrm|text|num|bfseries|SI)\b\s*", "", cell)
    for mark, sign in ((r"\times", "x"), (r"\pm", "±"), (r"\%", "%"), (r"\#", "#"), (r"\,", "")):
        cell = cell.replace(mark, sign)
    cell = re.sub(r"\\[a-zA-Z]+\b\*?", " ", cell)
    cell = re.sub(r"\*\*|[`{}$~]|(?<!\w)_|_(?!\w)", "", cell) if cell.strip() != "*" else cell
    cell = cell.replace("\\", "").replace("+/-", "±").replace("&nbsp;", " ")
    return " ".join(cell.split())


def _upright(titles: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """A table whose scales run along the top is laid down: slides like it that way."""
    along = titles[1:] and all(re.fullmatch(r"\d+[*†‡]*x?", title) for title in titles[1:])
    if not along or title_column(titles[0]) not in ("nodes", None):
        return titles, lines
    first = titles[0] if title_column(titles[0]) == "nodes" else "K"
    turned = [list(row) for row in zip(titles[1:], *(line[1:] for line in lines), strict=False)]
    return [first, *(plain(line[0]) for line in lines)], turned


def title_column(title: str) -> Column | None:
    """What a title names; its unit in brackets does not count."""
    bare = re.sub(r"[\[(](?![knpKNP][\])]).*?[\])]", "", title).strip().lower().rstrip(":,")
    whole = re.sub(r"[\[\]()]", " ", title).strip().lower()
    for column, pattern in _TITLES:
        if re.fullmatch(pattern, bare) or (
            column == "throughput" and re.fullmatch(pattern, " ".join(whole.split()))
        ):
            return column
    return None


def seconds_of_unit(title: str) -> float:
    """The seconds in a title's unit: `time (ms)`, `time_min`."""
    found = re.search(r"[\[(,]\s*([a-zµ]+)\s*[\])]?$|_(ms|s|min|h)$", title.lower())
    return _UNITS.get((found.group(1) or found.group(2)) if found else "s", 1.0)


def _claim(
    name: str,
    titles: list[str],
    columns: list[Column | None],
    lines: list[list[str]],
    text: str,
    regime: Regime | None,
) -> Claim:
    rows: list[Row] = []
    summary: list[Row] = []
    predicted: set[int] = set()
    regimes: set[str] = set()
    for line in lines:
        row = _row(titles, columns, line)
        if "regime" in row:
            regimes.add(row["regime"].text.lower())
        if "nodes" in row:
            rows.append(row)
            marked = any(_PREDICTED.search(cell) for cell in line)
            if marked or re.search(r"[*†‡]$", line[columns.index("nodes")]):
                predicted.add(int(row["nodes"].value))
        elif any(_SUMMARY.fullmatch(cell) for cell in line):
            summary.append(row)
    if len({row["nodes"].value for row in rows}) < 2:
        raise DataError(
            f"{name} has fewer than two scales.", "Hand in a table with a row for each scale."
        )
    named = regimes & {"strong", "weak"}
    declared: Regime | None = named.pop() if len(named) == 1 else None  # type: ignore[assignment]
    unused = [title for title, column in zip(titles, columns, strict=True) if column is None]
    times = [title for title, column in zip(titles, columns, strict=True) if column == "seconds"]
    claim = Claim(
        name=name,
        rows=tuple(sorted(rows, key=lambda row: row["nodes"].value)),
        summary=tuple(summary),
        regime=regime or declared or _regime_in(text),
        predicted=tuple(sorted(predicted)),
        selected=any(_SELECTED.search(title) for title in times),
        text=text,
        notes=(f"Columns not used: {', '.join(unused)}.",) if unused else (),
        scale_unit=ScaleUnit(unit=unit_of_title(titles[columns.index("nodes")]) or NODE),
    )
    if claim.study is None:
        raise DataError(
            f"{name} gives neither times nor rates nor speedups that can be read.",
            "Name a column time_s, throughput, speedup or efficiency, and fill every row.",
        )
    return claim


def _row(titles: list[str], columns: list[Column | None], line: list[str]) -> Row:
    row: Row = {}
    cells = list(zip(titles, columns, line, strict=False))
    metric = next((cell for _, column, cell in cells if column == "metric"), "")
    for title, column, cell in cells:
        if column is None or not cell or column in ("curve", "metric") or column in row:
            continue
        if column == "value":
            column = "throughput" if "throughput" in metric else "seconds"
        if column in _WORDS:
            row[column] = Figure(float("nan"), cell)
            continue
        center, _, spread = (part.strip() for part in cell.partition("±"))
        figure = _figure(center, title, column)
        if figure is not None:
            row[column] = figure
            around = _figure(spread, title, column) if spread else None
            if around is not None and column in ("seconds", "throughput"):
                row["std"] = around
    nodes = row.get("nodes")
    if nodes is not None and (nodes.value < 1 or nodes.value != int(nodes.value)):
        del row["nodes"]
    return row


def _figure(cell: str, title: str, column: Column) -> Figure | None:
    """A number with its digits; a percentage is a share, a time is in seconds."""
    found = _NUMBER.match(cell)
    if found is None:
        return None
    number = found.group("number").replace(",", "")
    mantissa, _, power = number.lower().partition("e")
    if not re.search(r"\d", mantissa):
        return None
    tail = found.group("tail") or ""
    size = abs(float(number))
    if size > _LARGEST or 0 < size < _SMALLEST or abs(float(power or 0)) > _MOST_POWER:
        return None  # a typing error
    decimals = len(mantissa.partition(".")[2])
    factor = 1e3 if tail == "k" else 1.0
    if column == "efficiency" and (tail == "%" or "%" in title or float(number) > 3):
        factor = 0.01
    if column in ("seconds", "std"):
        factor = _UNITS[tail] if tail in _UNITS else seconds_of_unit(title)
    half = 0.5 * 10.0 ** (int(power or 0) - decimals) * factor
    return Figure(float(number) * factor, number, half)


def _regime_in(text: str) -> Regime | None:
    """The regime that the words around a table declare, where they name one of the two."""
    named = {
        word
        for word in ("strong", "weak")
        if re.search(rf"\b{word}([- ]scal|\s+regime)|regime[:= ]+{word}", text, re.I)
    }
    return named.pop() if len(named) == 1 else None  # type: ignore[return-value]
