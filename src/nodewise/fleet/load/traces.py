"""Recorded requests: when each arrived, and how long its prompt and its answer were.

Read are the Azure LLM traces of 2023 and 2024, BurstGPT, Mooncake, other CSV files that name such
columns, and plain lists of times. A request whose prompt or answer was empty had failed, and is
left out; so is one with a length or a time that cannot be.
"""

import datetime
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from nodewise.base.errors import DataError

MOST_REQUESTS = 1_000_000  # of a file that are read: a window replays its first ones
MOST_TOKENS = 1_000_000  # of a prompt or an answer: more would be a damaged or a hostile file
_MOST_SECONDS = 1e15
_TIME = ("timestamp", "time", "time_s", "arrival", "arrival_time", "arrival_s", "arrived_at")
_INPUT = ("contexttokens", "request tokens", "input_tokens", "input_length", "prompt_tokens")
_OUTPUT = (
    "generatedtokens",
    "response tokens",
    "output_tokens",
    "output_length",
    "completion_tokens",
)


class Recorded(NamedTuple):
    """A request of a trace."""

    seconds: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    blocks: tuple[int, ...] = ()  # of 512 tokens; the same number is the same text


class _Mooncake(msgspec.Struct):
    timestamp: float  # milliseconds
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


def read_trace(text: str, path: str) -> list[Recorded]:
    """The requests of a trace, in their order."""
    lines = (line for line in text.splitlines() if line.strip())
    first = next(lines, "")
    rows = _mooncake if first.lstrip().startswith("{") else _table
    read = itertools.islice(rows(itertools.chain([first], lines)), MOST_REQUESTS)
    found = sorted((one for one in read if _is_whole(one)), key=lambda one: one.seconds)
    if len(found) < 2 or found[0].seconds == found[-1].seconds:
        raise DataError(
            f"{path} holds no arrival times.",
            "Write one time in seconds a line, in the first field, or give an Azure, BurstGPT or "
            "Mooncake trace.",
        )
    return found


def _is_whole(one: Recorded) -> bool:
    lengths = (one.input_tokens, one.output_tokens)
    fit = all(length is None or 0 < length <= MOST_TOKENS for length in lengths)
    return fit and abs(one.seconds) < _MOST_SECONDS


def _mooncake(lines: Iterable[str]) -> Iterator[Recorded]:
    decode = msgspec.json.Decoder(_Mooncake).decode
    for line in lines:
        try:
            row = decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue  # a torn last line
        seconds = row.timestamp / 1000
        yield Recorded(seconds, max(row.input_length, 0), max(row.output_length, 0), row.hash_ids)


def _table(lines: Iterator[str]) -> Iterator[Recorded]:
    """Rows of a CSV file; without a header that is known, the first field is the time."""
    first = next(lines)
    names = [name.lower() for name in _fields(first)]
    time = _column(names, _TIME)
    if time is None:
        yield from _times(itertools.chain([first], lines))
        return
    inputs, outputs = _column(names, _INPUT), _column(names, _OUTPUT)
    for line in lines:
        row = _fields(line)
        try:
            yield Recorded(_seconds(row[time]), _length(row, inputs), _length(row, outputs))
        except (ValueError, IndexError, OverflowError):
            continue


def _times(lines: Iterable[str]) -> Iterator[Recorded]:
    for line in lines:
        try:
            yield Recorded(float(line.replace(",", " ").split()[0]))
        except (ValueError, IndexError):
            continue


def _fields(line: str) -> list[str]:
    return [field.strip().strip('"') for field in line.split(",")]


def _length(row: list[str], at: int | None) -> int | None:
    return None if at is None else max(int(float(row[at])), 0)


def _column(names: list[str], known: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _seconds(text: str) -> float:
    """A number of seconds, or a date with a time.

    >>> round(_seconds("2023-11-16 18:17:03.9799600") - _seconds("2023-11-16 18:17:00"), 4)
    3.98
    """
    try:
        return float(text)
    except ValueError:
        moment = datetime.datetime.fromisoformat(text.strip())
    zone = moment.tzinfo or datetime.UTC
    return moment.replace(tzinfo=zone).timestamp()
