"""One cell of a written table: a number with its unit, a duration, or a count of K."""

import math
import re
from typing import Literal, NamedTuple

from nodewise.study.titles import COUNTED, time_unit

Kind = Literal["plain", "time", "rate", "device_rate", "pace", "times", "percent", "other"]

_LARGEST, _SMALLEST = 1e15, 1e-12
_LONGEST = 300  # characters of a cell that are read
_MOST_POWER = 30  # of ten: 0e999 is nothing, and too precise to be written down
_NUMBER = re.compile(
    r"(?P<head>[~$€<>≤≥]*)\s*(?P<number>[+-]?(\d{1,3}([, ']\d{3})+(?!\d)|\d+)?"
    r"([.,]\d*)?([eE][+-]?\d+)?)\s*(?P<tail>.*)$",
    re.DOTALL,
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([, ']\d{3})+(\.\d*)?")
_FACTORS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_NOT_SAID = {"", "-", "--", "n/a", "na", "nan", "none", "oom", "tbd", "todo", "?", "x"}
_PER_DEVICE = re.compile(r"/ ?(gpu|device|node|core|chip|rank|worker|card|gcd)\b", re.I)
_RATE = re.compile(r"(/ ?(s|sec|second|min|minute|h|hr|hour|day)\b|[kmgtp]?flops?\b|fps|qps|tps)",
                   re.I)  # fmt: skip
_PACE = re.compile(r"^(it|iters?|iterations?|steps?) ?/ ?s(ec)?\b", re.I)
_SECONDS_PER = re.compile(
    r"^(ns|us|µs|ms|s|sec|min|h) ?/ ?(1 )?(it|iter|iteration|step|epoch|batch|p|run)", re.I
)
# Signs that people write, as those that are searched for: times, minus, primes, tilde.
_SIGNS = str.maketrans({
    "\u00d7": "x", "\u2715": "x", "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2019": "'",
    "\u2032": "'", "\u201d": '"', "\u2033": '"', "\u223c": "~", "\u2248": "~", "\u00a0": " ",
    "\u2009": " ", "\u202f": " ",
})  # fmt: skip
_PARTS = re.compile(
    r"(?:(?P<d>\d+(?:\.\d+)?)\s*d(?:ays?)?)?[,\s]*(?:(?P<h>\d+(?:\.\d+)?)\s*h(?:ours?|rs?)?)?[,\s]*"
    r"(?:(?P<m>\d+(?:\.\d+)?)\s*m(?:in(?:utes?|s)?)?)?[,\s]*"
    r"(?:(?P<s>\d+(?:\.\d+)?)\s*s(?:ec(?:onds?|s)?)?)?",
    re.I,
)
_PRIMES = re.compile(r"(?:(\d+)[h°]\s*)?(\d+)'\s*(?:(\d+(?:\.\d+)?)(?:\"|''))?")
_CLOCK = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
_WORDS = {"serial": 1, "sequential": 1, "single": 1, "one": 1, "two": 2, "four": 4, "eight": 8,
          "sixteen": 16}  # fmt: skip
_PRODUCT = re.compile(r"(\d[\d,]*)\s*[x*]\s*(?:(\d+)\s*[x*]\s*)?(?=[A-Za-z])")
_TUPLE = re.compile(r"[(\[]\s*(\d+)\s*(?:,\s*(\d+)\s*)(?:,\s*(\d+)\s*)?[)\]]")
_NAMED = re.compile(rf"(\d[\d,]*)\s*(?:x\s*)?(?:[A-Za-z]+\d*\w*\s+)?(?:{COUNTED})\b", re.I)
_EQUALS = re.compile(r"\b(?:k|p|n|np|tp|pp|dp|cp|ep)\s*[= ]?\s*(\d+)\b", re.I)
_BEFORE = re.compile(r"^(\d+)\s*(?=\()")
_TIMES = re.compile(r"\((\d+)\s*x\)")
_LAST = re.compile(r"[-_ ](\d+)$")
_LAYOUT = re.compile(r"\b(?:tp|pp|dp|cp)\s*=?\s*(\d+)\b", re.I)


class Cell(NamedTuple):
    """A number as written: its value, what kind it is, half a unit of its last digit."""

    value: float
    kind: Kind
    text: str
    half: float
    spread: float | None = None  # after ±
    is_bound: bool = False  # "at most 5"
    factor: float = 1.0  # of its unit


def plain_signs(text: str) -> str:
    """A text with the usual signs for times, minus and primes."""
    return text.translate(_SIGNS)


def plain(cell: str) -> str:
    """A cell without the marks of Markdown, HTML and LaTeX.

    >>> plain(r"\\textbf{3.4}$\\times$"), plain("**94** %"), plain(r"$12.5 \\pm 0.3$")
    ('3.4x', '94 %', '12.5 ± 0.3')
    """
    cell = re.sub(r"<[^<>]{0,400}>", " ", cell[:_LONGEST].translate(_SIGNS))
    cell = re.sub(r"!?\[([^\]]{0,200})\]\([^)]{0,400}\)", r"\1", cell)
    cell = re.sub(r"\\(textbf|textit|emph|mathbf|mathrm|text|num|bfseries|SI|makecell)\b\s*", "",
                  cell)  # fmt: skip
    for mark, sign in ((r"\times", "x"), (r"\pm", "±"), (r"\%", "%"), (r"\#", "#"), (r"\,", ""),
                       (r"\_", "_"), (r"\mu", "µ"), (r"\sim", "~"), (r"\approx", "~")):  # fmt: skip
        cell = cell.replace(mark, sign)
    cell = re.sub(r"\\[a-zA-Z]+\b\*?", " ", cell)
    cell = re.sub(r"\*\*|[`{}$]|(?<!\w)_|_(?!\w)", "", cell) if cell.strip() != "*" else cell
    cell = (
        cell.replace("\\", "").replace("+/-", "±").replace("&nbsp;", " ").replace("&plusmn;", "±")
    )
    return " ".join(cell.split())


def parse_cell(text: str, is_time: bool = False) -> Cell | None:
    """The number in a cell with its unit; None if there is none, or where it says no run.

    >>> parse_cell("24.93 mins")[:2], parse_cell("2.5M tok/s")[:2], parse_cell("2'42\\"", True)[0]
    ((1495.8, 'time'), (2500000.0, 'rate'), 162.0)
    """
    if text.strip().lower() in _NOT_SAID:
        return None
    whole = _duration(text.strip(), is_time)
    if whole is not None:
        return whole
    center, _, spread = (part.strip() for part in text.partition("±"))
    cell, around = _number(center), _number(spread) if spread else None
    if cell is None or around is None:
        return cell
    return cell._replace(spread=around.value * (cell.factor if around.kind == "plain" else 1.0))


def _number(text: str) -> Cell | None:
    found = _NUMBER.match(text)
    if found is None:
        return None
    number = _decimal(found["number"])
    mantissa, _, power = number.lower().partition("e")
    if not re.search(r"\d", mantissa):
        return None
    size = abs(float(number))
    if size > _LARGEST or 0 < size < _SMALLEST or abs(float(power or 0)) > _MOST_POWER:
        return None  # a typing error
    tail = re.sub(r"[\[(].*", "", found["tail"]).strip().rstrip("*†‡★^ ").strip()
    if re.match(r"/ ?\d", tail):
        return None  # "1 / 2 / 4" is not a number
    factor, kind = _unit(tail)
    half = 0.5 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2])) * factor
    is_bound = bool(set(found["head"]) & set("<>≤≥"))
    return Cell(float(number) * factor, kind, number, half, None, is_bound, factor)


def _decimal(number: str) -> str:
    """A number with a point as its decimal mark, and no mark of thousands."""
    if _THOUSANDS.fullmatch(number):
        return re.sub(r"[, ']", "", number)
    return number.replace(",", ".")


def _unit(tail: str) -> tuple[float, Kind]:
    """The factor and the kind that the text behind a number means."""
    if not tail:
        return 1.0, "plain"
    if tail[0] in "x" and not tail[1:2].isalpha():
        return 1.0, "times"
    if tail[0] == "%":
        return 1.0, "percent"
    per = _SECONDS_PER.match(tail)
    if per:
        return time_unit(per[1]) or 1.0, "time"
    if _PACE.match(tail):
        return 1.0, "pace"
    unit = time_unit(tail.split()[0].rstrip(".,;"))
    if unit is not None and not _RATE.search(tail):
        return unit, "time"
    rated = _RATE.search(tail)
    factor = 1.0
    prefix = re.match(r"([kKMGBT])(?![a-zA-Z])|([kMGT])(?=[A-Z]*[Ff][Ll][Oo][Pp])", tail)
    if prefix:
        factor = _FACTORS[prefix[1] or prefix[2]]
    if rated:
        return factor, "device_rate" if _PER_DEVICE.search(tail) else "rate"
    return (factor, "plain") if prefix and len(tail) == 1 else (factor, "other")


def _duration(text: str, is_time: bool) -> Cell | None:
    """A time of several parts: 1h 3m, 5m9.04s, 2'42", and 1:02:03 in a column of times."""
    parts = _PARTS.fullmatch(text.lstrip("~"))
    if parts and sum(part is not None for part in parts.groupdict().values()) > 1:
        sizes = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
        given = {name: part for name, part in parts.groupdict().items() if part}
        last = list(given)[-1]
        half = 0.5 * 10.0 ** -len(given[last].partition(".")[2]) * sizes[last]
        return Cell(sum(float(v) * sizes[n] for n, v in given.items()), "time", text, half)
    primes = _PRIMES.fullmatch(text)
    if primes:
        hours, minutes, seconds = (float(part or 0) for part in primes.groups())
        return Cell(3600 * hours + 60 * minutes + seconds, "time", text, 0.5)
    clock = _CLOCK.fullmatch(text) if is_time else None
    if clock:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        half = 0.5 * 10.0 ** -len(clock[4].partition(".")[2])
        total = 86400 * days + 3600 * hours + 60 * minutes + seconds
        return Cell(total, "time", text, half)
    return None


def count_of(text: str) -> tuple[int, str] | None:
    """How many a cell counts, and what else it says.

    >>> count_of("128x GB200 GPUs"), count_of("(1, 4)"), count_of("2x8xH100"), count_of("serial")
    ((128, 'GB200 GPUs'), (4, ''), (16, 'H100'), (1, ''))
    >>> count_of("1S - 4GPU"), count_of("5 nodes, 1% mask"), count_of("tp8 pp4"), count_of("24/32")
    ((4, '1S -'), (5, ', 1% mask'), (32, ''), None)
    """
    text = text.translate(_SIGNS).strip("*†‡★ ")
    bare = re.fullmatch(r"(\d+|\d{1,3}(?:,\d{3})+)(\.0*)?\s*([kK]?)", text)
    if bare:
        return _whole(int(bare[1].replace(",", "")) * (1000 if bare[3] else 1), "")
    if re.search(r"\d\s*/\s*\d", text):
        return None
    if re.fullmatch(r"\d+(\s*[x*]\s*\d+)+", text):
        return _whole(math.prod(map(int, re.findall(r"\d+", text))), "")
    found = _first_count(text)
    if found is None:
        return _count_word(text)
    parts = [int(part.replace(",", "")) for part in found.groups() if part and part[0].isdecimal()]
    if found.re is _LAYOUT:
        return _whole(math.prod(map(int, _LAYOUT.findall(text))), _LAYOUT.sub("", text))
    rest = text[: found.start()] + text[found.end() :]
    return _whole(math.prod(parts), rest)


def _first_count(text: str) -> re.Match[str] | None:
    """Where a cell counts: before a bracket, in a tuple, before a device, behind a letter."""
    for pattern in (_BEFORE, _TUPLE, _PRODUCT):
        if found := pattern.search(text):
            return found
    if len(_LAYOUT.findall(text)) > 1:
        return _LAYOUT.search(text)
    named = list(_NAMED.finditer(text))
    if named:
        return max(named, key=lambda one: "gpu" in one[0].lower())
    return next((found for one in (_EQUALS, _TIMES, _LAST) if (found := one.search(text))), None)


def _count_word(text: str) -> tuple[int, str] | None:
    """A count in words: serial, single GPU, two nodes."""
    word = re.match(r"([A-Za-z]+)\b", text)
    if word is None or word[1].lower() not in _WORDS:
        return None
    rest = re.sub(rf"^[- ]*({COUNTED})?\b", "", text[word.end() :], flags=re.I)
    return _whole(_WORDS[word[1].lower()], rest)


def _whole(count: int, rest: str) -> tuple[int, str] | None:
    return (count, " ".join(rest.split())) if 1 <= count <= 10_000_000 else None
