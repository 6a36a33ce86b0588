"""The page of an audited claim, and that of several."""

from collections.abc import Sequence

import msgspec

from nodewise.audit.rules import Audit
from nodewise.report.charts.audit import (
    claim_chart,
    claim_efficiency_chart,
    implied_chart,
    rules_chart,
)
from nodewise.report.page.content import Card, Page, Section
from nodewise.report.page.words import words_of
from nodewise.report.text.audit import audit_report, audits_report
from nodewise.report.text.findings import Report
from nodewise.study.check import Verdict

_MOST_SHOWN = 12  # claims with a curve on a page of many
_CARDS: dict[Verdict, str] = {
    "fail": "Rules broken",
    "warn": "Doubtful",
    "pass": "Passed",
    "unknown": "Not answered",
}
_BASIS = "All figures are computed from the claim; nothing was measured."


def audit_page(result: Audit) -> Page:
    """The page of a claim: its curve, what it implies, and the rules."""
    verdicts = [check.shown_verdict for check in result.checks]
    cards = [Card(title, str(verdicts.count(verdict))) for verdict, title in _CARDS.items()]
    asked: Report = [f"  {at}. {question}" for at, question in enumerate(result.questions, start=1)]
    sections = [
        Section(name="ask", title="Questions to the author", rest=asked),
        Section(name="notes", title="Notes", rest=[f"note: {note}" for note in result.notes]),
    ]
    figures = [claim_chart(result), claim_efficiency_chart(result), implied_chart(result)]
    return Page(
        name=result.name,
        kicker=f"{result.scaling.regime} scaling, a claim",
        verdict=words_of(audit_report(result)).verdict.removeprefix(result.name).lstrip(": "),
        cards=cards,
        figures=[figure for figure in figures if figure is not None],
        sections=[section for section in sections if section.rest],
        checks=result.checks,
        basis=_BASIS,
    )


def audits_page(results: Sequence[Audit]) -> Page:
    """Several claims: how often each rule is broken, and the curves of the claims that fail."""
    words = words_of(audits_report(results))
    worst = sorted(results, key=lambda one: one.passes)
    shown = worst[:_MOST_SHOWN]
    parts = [
        Section(
            name=f"claim-{at}",
            title=f"{one.name}: {one.standing}",
            figures=[msgspec.structs.replace(claim_chart(one), name=f"claim-{at}-curve")],
            rest=[one.verdict],
        )
        for at, one in enumerate(shown)
    ]
    return Page(
        name=f"{len(results)} claims",
        kicker="audit",
        verdict=words.verdict,
        reasons=words.reasons,
        figures=[rules_chart(results)],
        sections=parts,
        basis=_BASIS,
    )
