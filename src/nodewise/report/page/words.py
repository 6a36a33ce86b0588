"""The words of a page: what its command prints, cut into the answer, a table and sections."""

import msgspec

from nodewise.report.page.content import Section
from nodewise.report.sections import Output, Report


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about one result; the checks are not among it."""

    verdict: str
    reasons: tuple[str, ...] = ()
    table: Report = []
    sections: tuple[Section, ...] = ()


def words_of(printed: Output, name: str = "") -> Words:
    """The parts of what a command prints; a page repeats nothing.

    `name` is what the answer begins with, and the page has above it.
    """
    words = Words(
        verdict=printed.answer[0],
        reasons=printed.answer[1:],
        table=[] if printed.table is None else [printed.table],
        sections=_sections(printed),
    )
    # **The answer.** What follows it in the same line is a reason.
    answer, ended, rest = words.verdict.removeprefix("**").partition(".**")
    said = [line.replace("**", "").strip() for line in (rest if ended else "", *words.reasons)]
    verdict = answer.replace("**", "").strip().removesuffix(".").removeprefix(f"{name}: ")
    reasons = tuple(line for line in said if line)
    return msgspec.structs.replace(words, verdict=verdict, reasons=reasons)


def _sections(printed: Output) -> tuple[Section, ...]:
    """The sections without what the answer says; the checks have a place of their own."""
    answer = " ".join(printed.answer).replace("**", "")
    found = []
    for one in printed.sections:
        rest = [
            part
            for part in (*one.parts, *one.details)
            if not isinstance(part, str) or part.replace("**", "").strip() not in answer
        ]
        if rest and one.name != "checks":
            found.append(Section(name=one.name, title=one.title, rest=rest))
    return tuple(found)
