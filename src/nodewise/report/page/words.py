"""The words of a page: what its command prints, cut into the answer, a table and sections."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from nodewise.report.page.content import Section
from nodewise.report.tables import Table
from nodewise.report.text.findings import Report

_CHECK = re.compile(r"\s*(pass|warn|fail|unknown) {2,}")


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about one result; the checks are not among it."""

    verdict: str
    reasons: tuple[str, ...] = ()
    table: Report = []  # with the lines below it
    sections: tuple[Section, ...] = ()


def words_of(printed: Any, name: str = "") -> Words:
    """The parts of what a command prints: lines and tables, or a struct that has them apart.

    `name` is what the answer begins with, and the page has above it.
    """
    if isinstance(printed, list):
        words = _of_lines(printed)
    else:
        words = Words(
            verdict=printed.answer[0],
            reasons=printed.answer[1:],
            table=[] if printed.table is None else [printed.table],
            sections=tuple(
                Section(name=one.name, title=one.title, rest=[*one.parts, *one.details])
                for one in printed.sections
                if one.name != "checks"
            ),
        )
    # **The answer.** What follows it in the same line is a reason.
    answer, ended, rest = words.verdict.removeprefix("**").partition(".**")
    said = [line.replace("**", "").strip() for line in (rest if ended else "", *words.reasons)]
    verdict = answer.replace("**", "").strip().removesuffix(".").removeprefix(f"{name}: ")
    reasons = tuple(line for line in said if line)
    return msgspec.structs.replace(words, verdict=verdict, reasons=reasons)


def _of_lines(report: Report) -> Words:
    """Lines that blank ones divide: the answer, the table, then sections; words alone are one."""
    answer, *rest = list(_blocks(report)) or [[""]]
    said = [line for line in answer if isinstance(line, str)]
    table = next((block for block in rest if isinstance(block[0], Table)), [])
    plain = [block for block in rest if all(isinstance(line, str) for line in block)]
    sections = [
        _section(f"part-{at}", block)
        for at, block in enumerate(rest)
        if block is not table and block not in plain
    ]
    remarks = [line for block in plain for line in block]
    if remarks:
        sections.append(Section(name="remarks", title="Remarks", rest=remarks))
    return Words(verdict=said[0], reasons=tuple(said[1:]), table=table, sections=tuple(sections))


def _blocks(report: Report) -> Iterator[Report]:
    """What is between blank lines, without checks: a page has a place for them."""
    block: Report = []
    for line in [*report, ""]:
        if line != "":
            block.append(line)
            continue
        if block and not any(isinstance(one, str) and _CHECK.match(one) for one in block):
            yield block
        block = []


def _section(name: str, block: Report) -> Section:
    first = block[0]
    headed = isinstance(first, str) and first.startswith("**") and first.endswith("**")
    title = (
        str(first).strip("*")
        if headed
        else next(one.name for one in block if isinstance(one, Table))
    )
    return Section(name=name, title=title, rest=block[1:] if headed else block)
