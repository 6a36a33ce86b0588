"""Tables that people write: CSV, Markdown and LaTeX. Text to claims."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nodewise.base.errors import DataError
from nodewise.importers.files import read_text, runs_at
from nodewise.study.claim import Claim, claim_of_study, claims_of_cells
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table

_RULE = re.compile(r":?-{2,}:?|:?-:?")
_TABULAR = re.compile(r"\\begin\{(tabular[x*]?|tabulary|longtable)\}")
# Options are short: an unclosed bracket is not looked for through the whole text.
_LATEX_RULES = re.compile(
    r"\\(toprule|midrule|bottomrule|hline|cmidrule(\([^)]{0,99}\))?\{[^}]{0,99}\}|cline\{[^}]{0,99}\})"
)
_MOST_TABLES = 50


class _Cells(NamedTuple):
    titles: list[str]
    rows: list[list[str]]


def read_runs(path: Path, nodes: int | None) -> list[Run]:
    """The runs in the one table of a file; with `nodes`, those of that K."""
    claims = claims_of_text(read_text(path), path.stem, None)
    if len(claims) > 1:
        names = ", ".join(claim.name for claim in claims[:5])
        raise DataError(f"{path} has several tables: {names}.", "Keep one of them in a file.")
    study = claims[0].study if claims[0].has_seconds else None
    if study is None:
        raise DataError(
            f"{path} has ratios and no times.", f"Check the claim: nodewise audit {path}"
        )
    return runs_at(path, study.runs, nodes)


def read_unit(path: Path) -> ScaleUnit:
    """What K counts in the first table of a file."""
    text = read_text(path)
    study = _study(text, path.stem, None)
    return study.scale_unit if study else claims_of_text(text, path.stem, None)[0].scale_unit


def read_csv(path: Path, nodes: int | None) -> list[Run]:
    """The runs in one CSV of timings (docs/tables.md); with `nodes`, those of that K."""
    text = read_text(path)
    try:
        runs = parse_table(text, path.stem).runs
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.fix) from None
    return runs_at(path, runs, nodes)


def claims_of_text(text: str, name: str, regime: Regime | None) -> tuple[Claim, ...]:
    """The claims in the LaTeX, Markdown or CSV tables of a text."""
    if r"\begin{tabular" in text or r"\begin{longtable" in text:
        return _chosen(list(_latex_tables(text)), _latex_words(text), name, regime)
    tables = list(_markdown_tables(text))
    if tables:
        words = "\n".join(line for line in text.splitlines() if not _is_row(line))
        return _chosen(tables, words, name, regime)
    return _csv(text, name, regime)


def _chosen(
    tables: list[_Cells], words: str, name: str, regime: Regime | None
) -> tuple[Claim, ...]:
    """The claims of the scaling tables; other tables are left out."""
    made: list[Claim] = []
    first: DataError | None = None
    for number, table in enumerate(tables[:_MOST_TABLES], start=1):
        called = name if len(tables) == 1 else f"{name}, table {number}"
        try:
            made += claims_of_cells(called, table.titles, table.rows, words, regime)
        except DataError as error:
            first = first or error
    if not made:
        raise first or DataError("No table was found.", "Use a CSV, Markdown or LaTeX table.")
    return tuple(made)


def _csv(text: str, name: str, regime: Regime | None) -> tuple[Claim, ...]:
    """A CSV; where it is a table of runs as nodewise reads them, its stages and ranks count too."""
    words = "\n".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise DataError("The table is empty.", "Use a CSV with a header such as K,time_s.")
    mark = max(",;\t", key=lines[0].count)
    if mark not in lines[0]:
        lines, mark = [re.sub(r"\s+", ",", line.strip()) for line in lines], ","
    try:
        titles, *rows = csv.reader(lines, delimiter=mark, skipinitialspace=True)
    except csv.Error as error:
        raise DataError(f"The table is not CSV: {error}.", "Write plain cells.") from None
    ranked = "rank" in [title.strip().lower() for title in titles]
    try:
        claims = claims_of_cells(name, titles, rows, words, regime)
    except DataError as error:
        study = _study(text, name, regime)
        if study is None or len(study.scales) < 2:
            raise error from None
        return (claim_of_study(study, words),)
    study = _study(text, name, regime) if ranked else None
    return claims if study is None else (claim_of_study(study, words),)


def _study(text: str, name: str, regime: Regime | None) -> Study | None:
    try:
        return parse_table(text, name, regime)
    except DataError:
        return None


def _is_row(line: str) -> bool:
    return line.strip().startswith("|") or line.count("|") >= 2


def _markdown_tables(text: str) -> Iterator[_Cells]:
    """Tables of pipes: a line of titles, a line of dashes, lines of cells."""
    lines = text.splitlines()
    at = 1
    while at < len(lines):
        marks = _pipes(lines[at])
        titles = _pipes(lines[at - 1])
        if not marks or not all(_RULE.fullmatch(m) for m in marks) or len(titles) != len(marks):
            at += 1
            continue
        rows = []
        at += 1
        while at < len(lines) and _is_row(lines[at]):
            rows.append(_pipes(lines[at]))
            at += 1
        yield _Cells(titles, rows)


def _pipes(line: str) -> list[str]:
    if "|" not in line:
        return []
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _divided(text: str) -> tuple[list[str], str]:
    """The insides of the tabular environments, and the text without them."""
    tables, rest, at, endless = [], [], 0, set[str]()
    for begin in _TABULAR.finditer(text):
        if begin.start() < at or begin[1] in endless:
            continue
        close = rf"\end{{{begin[1]}}}"
        end = text.find(close, begin.end())
        if end < 0:
            endless.add(begin[1])  # later ones have no end either
            continue
        tables.append(text[begin.end() : end])
        rest.append(text[at : begin.start()])
        at = end + len(close)
    return tables, "".join([*rest, text[at:]])


def _latex_tables(text: str) -> Iterator[_Cells]:
    """The tabular environments; a comment ends its line."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    for table in _divided(text)[0]:
        body = _LATEX_RULES.sub("", table)
        body = re.sub(
            r"^(\s*\[[^\]]*\])?(\s*\{[^{}]*(\{[^{}]*\}[^{}]*)*\}){1,2}", "", body, count=1
        )
        rows = [
            [_spanned(cell) for cell in re.split(r"(?<!\\)&", line)]
            for line in re.split(r"\\\\(?:\[[^\]]{0,99}\])?", body)
            if line.strip()
        ]
        if len(rows) > 1:
            yield _Cells(rows[0], rows[1:])


def _spanned(cell: str) -> str:
    r"""A cell out of its \multicolumn or \multirow."""
    return re.sub(r"\\multi(column|row)\{[^}]*\}\{[^}]*\}\{(.*)\}", r"\2", cell.strip())


def _latex_words(text: str) -> str:
    """The text outside the tables, captions included, without its commands."""
    words = re.sub(r"(?<!\\)%.*", "", _divided(text)[1])
    return " ".join(re.sub(r"\\[a-zA-Z]+\*?(\[[^\]]{0,99}\])?|[{}]", " ", words).split())
