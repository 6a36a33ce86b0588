"""How a table was read, and the comment to its author."""

from nodewise.audit.rules import Audit
from nodewise.base.units import capitalised, format_efficiency
from nodewise.report.sections import Section
from nodewise.report.tables import rows_table

_MOST_ASKED = 4
_CURVE = ("nodes", "seconds", "throughput", "speedup", "efficiency")


def reading_lines(result: Audit) -> list[str]:
    """What the columns of the curve were taken for, in one line, and a second reading."""
    parts = [
        f"'{one.title}' as {one.read_as}"
        + ("" if one.confidence == "sure" else f" ({one.confidence})")
        for one in result.reading
        if one.column in _CURVE
    ]
    lines = [f"Read: {', '.join(parts)}."] if parts else []
    if result.second_reading:
        lines.append(f"Two readings: {result.second_reading}. Only what holds in both is judged.")
    return lines


def reading_section(result: Audit) -> list[Section]:
    """What every column was taken for; columns beside the curve only where they were not sure."""
    rows = [
        {
            "column": one.title,
            "read as": one.read_as,
            "cells": one.shown,
            "how sure": f"{one.confidence}: {one.why}",
        }
        for one in result.reading
        if one.column in _CURVE or (one.column is not None and one.confidence != "sure")
    ]
    if not rows:
        return []
    table = rows_table("How the claim was read", rows, left=tuple(rows[0]))
    fix = "Correct it: --column 'TITLE=rate per device'."
    return [Section(name="reading", title="How the claim was read", parts=[table, fix])]


def reply(result: Audit) -> str:
    """A comment for the author of a claim: thanks, what does not fit, what to ask."""
    broken = [one for one in result.checks if one.verdict == "fail"]
    lines = ["Thanks for publishing these figures. I read them as follows: " + _read(result) + "."]
    if result.second_reading:
        lines.append(f"I was not sure about one thing: {result.second_reading}. Which is it?")
    if broken:
        lines += ["", "What I could not reconcile:"]
        lines += [f"- {capitalised(one.evidence)}." for one in broken[:_MOST_ASKED]]
    asked = result.questions[:_MOST_ASKED]
    if asked:
        lines += ["", "Could you say:"]
        lines += [f"{at}. {question}" for at, question in enumerate(asked, start=1)]
    return "\n".join([*lines, "", "If I misread a column, please tell me. Thank you!"])


def _read(result: Audit) -> str:
    """The scales and efficiencies in one line."""
    rows = result.scaling.rows
    first, last = rows[0], rows[-1]
    return (
        f"K from {first.nodes} to {last.nodes}, an efficiency of "
        f"{format_efficiency(last.efficiency)} at K={last.nodes} over K={first.nodes} "
        f"({result.scaling.regime} scaling)"
    )
