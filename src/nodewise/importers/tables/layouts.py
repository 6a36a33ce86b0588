"""Tables in a text: Markdown, HTML, LaTeX, org, boxes, columns of spaces, CSV and JSON."""

import csv
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NamedTuple

from nodewise.base.errors import DataError

MOST_TABLES = 50
_MOST_ABOVE = 1500  # characters of the text above a table that speak of it
_RULE = re.compile(r"\s*:?-{2,}:?\s*|\s*:?-:?\s*")
_TABULAR = re.compile(r"\\begin\{(tabular[x*]?|tabulary|longtable)\}")
# Options are short: an unclosed bracket is not looked for through the whole text.
_LATEX_RULES = re.compile(
    r"\\(toprule|midrule|bottomrule|hline|cmidrule(\([^)]{0,99}\))?\{[^}]{0,99}\}|cline\{[^}]{0,99}\})"
)
_BORDER = re.compile(r"\s*[-+=|┌┬┐├┼┤└┴┘─━═╔╦╗╠╬╣╚╩╝╒╤╕╞╪╡╘╧╛┏┳┓┣╋┫┗┻┛╭╮╯╰┠┨┝┥┿╂:]+\s*")
_RST_RULE = re.compile(r"\s*[=-]{2,}(\s+[=-]{2,})+\s*")
_UNDERLINE = re.compile(r"\s*[-=]{3,}\s*")
_FENCE = re.compile(r"\s*(```|~~~)")


class Sheet(NamedTuple):
    """The cells of one table, the words above it, and all words around the tables."""

    titles: list[str]
    rows: list[list[str]]
    above: str = ""
    words: str = ""


class _Found(NamedTuple):
    first: int
    last: int  # of its lines, the last one excluded
    titles: list[str]
    rows: list[list[str]]


def sheets_of(text: str) -> list[Sheet]:
    """The tables in a text, in their order."""
    if _TABULAR.search(text):
        return _latex(text)
    if re.search(r"<t[dh]\b", text, re.IGNORECASE):
        found = _html(text)
        if found:
            return found
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text)
        if found:
            return found
    if _is_csv(text, whole=True):
        return [_csv(text)]
    lines = [line for line in text.splitlines() if not _FENCE.match(line)]
    tables = list(_tables(lines))
    if not tables:
        return [_csv(text)] if _is_csv(text) else []
    taken = {at for table in tables for at in range(table.first, table.last)}
    words = "\n".join(line for at, line in enumerate(lines) if at not in taken)
    sheets = []
    for before, table in pairwise([_Found(0, 0, [], []), *tables[:MOST_TABLES]]):
        above = "\n".join(lines[before.last : table.first])[-_MOST_ABOVE:]
        sheets.append(Sheet(table.titles, table.rows, above, words))
    return sheets


def _tables(lines: list[str]) -> Iterator[_Found]:
    """Tables of pipes and boxes first; else tables whose columns are apart by spaces."""
    piped = list(_piped(lines))
    yield from piped or _spaced(lines)


def _piped(lines: list[str]) -> Iterator[_Found]:
    """Runs of lines with bars, with a rule of dashes below the titles or not."""
    at = 0
    while at < len(lines):
        start = at
        while at < len(lines) and (_is_row(lines[at]) or _is_border(lines[at])):
            at += 1
        block = lines[start:at]
        at += at == start
        rows = [bars(line) for line in block if not _is_rule(line)]
        ruled = any(_is_rule(line) for line in block)
        if len(rows) < 2 or not (ruled or all(line.strip()[:1] == "|" for line in block)):
            continue
        width = len(rows[0])
        if width < 2 and not (width == 1 and ruled):
            continue
        yield _Found(start, at, rows[0], rows[1:])


def _is_row(line: str) -> bool:
    bar = line.replace("│", "|").replace("┃", "|").replace("║", "|").strip()
    return bar.startswith("|") or bar.count("|") >= 2 or bool(re.search(r"\S\s+\|\s+\S", bar))


def _is_border(line: str) -> bool:
    return bool(_BORDER.fullmatch(line)) and len(line.strip()) > 3


def _is_rule(line: str) -> bool:
    if _BORDER.fullmatch(line) and not re.search(r"[A-Za-z0-9]", line):
        return bool(re.search(r"[-=─━═]", line))
    cells = bars(line)
    return bool(cells) and all(_RULE.fullmatch(cell) for cell in cells)


def bars(line: str) -> list[str]:
    """The cells between bars."""
    line = re.sub(r"[│┃║]", "|", line)
    if "|" not in line:
        return []
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _spaced(lines: list[str]) -> Iterator[_Found]:
    """Lines of as many cells, apart by two spaces or a tab, whose first has words and rest figures.

    A title of several words is apart from the next one by two spaces or more.
    """
    at = 0
    while at < len(lines):
        titles = _gaps(lines[at])
        if len(titles) < 2 or not re.match(r"[^\d\s]", lines[at].strip()) or _is_border(lines[at]):
            at += 1
            continue
        start, rows = at, []
        at += 1
        while at < len(lines) and (
            _UNDERLINE.fullmatch(lines[at]) or _RST_RULE.fullmatch(lines[at])
        ):
            at += 1
        while at < len(lines):
            cells = _gaps(lines[at])
            if len(cells) != len(titles):
                cells = lines[at].split()
            if len(cells) != len(titles) or not re.search(r"\d", lines[at]):
                break
            rows.append(cells)
            at += 1
        if len(rows) > 1:
            yield _Found(start, at, titles, rows)
        else:
            at = start + 1


def _gaps(line: str) -> list[str]:
    cells = [cell for cell in re.split(r"\t+|\s{2,}", line.strip()) if cell]
    return cells if len(cells) > 1 else line.split() if len(line.split()) < 9 else cells


def _latex(text: str) -> list[Sheet]:
    """The tabular environments; a comment ends its line."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    tables, outside = _divided(text)
    words = _latex_words(" ".join(outside))
    sheets = []
    for at, table in enumerate(tables[:MOST_TABLES]):
        body = _LATEX_RULES.sub("", table)
        body = re.sub(
            r"^(\s*\[[^\]]*\])?(\s*\{[^{}]*(\{[^{}]*\}[^{}]*)*\}){1,2}", "", body, count=1
        )
        rows = [
            [cell for part in re.split(r"(?<!\\)&", line) for cell in _spanned(part)]
            for line in re.split(r"\\\\(?:\[[^\]]{0,99}\])?|\\tabularnewline", body)
            if line.strip()
        ]
        caption = "".join(re.findall(r"\\caption\{([^\n]*)", outside[at + 1])[:1])
        above = _latex_words(outside[at][-_MOST_ABOVE:] + " " + caption)
        if len(rows) > 1:
            sheets.append(Sheet(rows[0], rows[1:], above, words))
    return sheets


def _divided(text: str) -> tuple[list[str], list[str]]:
    """The insides of the tabular environments, and the texts before, between and after them."""
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
    return tables, [*rest, text[at:]]


def _spanned(cell: str) -> list[str]:
    r"""The cells that a \multicolumn or \multirow fills."""
    found = re.fullmatch(
        r"\s*\\multi(column|row)\{([^}]*)\}\s*\{[^}]*\}\s*\{(.*)\}\s*", cell, re.DOTALL
    )
    if found is None:
        return [cell.strip()]
    width = int(found[2]) if found[1] == "column" and found[2].isdecimal() else 1
    return [found[3].strip()] * min(width, 50)


def _latex_words(text: str) -> str:
    """A text without its commands."""
    return " ".join(re.sub(r"\\[a-zA-Z]+\*?(\[[^\]]{0,99}\])?|[{}]", " ", text).split())


class _Html(HTMLParser):
    """Rows of cells, table by table, and the text outside."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[tuple[list[list[str]], str]] = []
        self.outside: list[str] = []
        self._rows: list[list[str]] | None = None
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A table, row or cell begins."""
        if tag == "table":
            self._rows = []
        elif tag == "tr" and self._rows is not None:
            self._close()
            self._rows.append([])
        elif tag in ("td", "th") and self._rows:
            self._close()
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        """A cell or a table ends."""
        if tag in ("td", "th", "tr", "table"):
            self._close()
        if tag == "table" and self._rows is not None:
            above = " ".join("".join(self.outside).split())[-_MOST_ABOVE:]
            self.tables.append(([row for row in self._rows if row], above))
            self._rows = None

    def handle_data(self, data: str) -> None:
        """Text, in a cell or outside of the tables."""
        if self._cell is not None:
            self._cell.append(data)
        elif self._rows is None:
            self.outside.append(data)

    def _close(self) -> None:
        if self._cell is not None and self._rows:
            self._rows[-1].append(" ".join("".join(self._cell).split()))
        self._cell = None


def _html(text: str) -> list[Sheet]:
    parser = _Html()
    parser.feed(text)
    parser.close()
    words = " ".join("".join(parser.outside).split())
    return [
        Sheet(rows[0], rows[1:], above, words)
        for rows, above in parser.tables[:MOST_TABLES]
        if len(rows) > 1
    ]


def _json(text: str) -> list[Sheet]:
    """A list of objects, an object of lists, or an object of objects by K."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(document, dict):
        inner = [value for value in document.values() if _is_records(value)]
        if len(inner) == 1:
            document = inner[0]
    if isinstance(document, dict) and all(isinstance(one, dict) for one in document.values()):
        document = [{"K": key} | value for key, value in document.items()]
    if _is_records(document):
        titles = list(dict.fromkeys(key for record in document for key in record))
        rows = [[_shown(record.get(title)) for title in titles] for record in document]
        return [Sheet(titles, rows)]
    if isinstance(document, dict):
        lists = {key: value for key, value in document.items() if isinstance(value, list)}
        lengths = {len(value) for value in lists.values()}
        if len(lists) > 1 and len(lengths) == 1:
            columns = [[_shown(cell) for cell in value] for value in lists.values()]
            return [Sheet(list(lists), [list(row) for row in zip(*columns, strict=True)])]
    return []


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, dict) for v in value)


def _shown(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _is_csv(text: str, whole: bool = False) -> bool:
    """Whether the lines have cells; `whole`: all have as many, apart by one mark."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return False
    mark = max(",;\t", key=lines[0].count)
    if mark in lines[0]:
        prose = any(len(cell.split()) > 8 for cell in lines[0].split(mark))
        if whole:
            even = sum(line.count(mark) >= lines[0].count(mark) for line in lines)
            return not prose and len(lines) > 1 and even > 0.9 * len(lines)
        return not prose and (len(lines) < 2 or lines[1].count(mark) > 0)
    cells = [len(line.split()) for line in lines[:2]]
    return not whole and len(cells) > 1 and cells[0] == cells[1] > 1


def _csv(text: str) -> Sheet:
    """Cells apart by commas, semicolons, tabs or spaces; lines that begin with # are words."""
    words = "\n".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    mark = max(",;\t", key=lines[0].count)
    if mark not in lines[0]:
        lines, mark = [re.sub(r"\s+", ",", line.strip()) for line in lines], ","
    try:
        titles, *rows = csv.reader(lines, delimiter=mark, skipinitialspace=True)
    except csv.Error as error:
        raise DataError(f"The table is not CSV: {error}.", "Write plain cells.") from None
    return Sheet(titles, rows, words, words)
