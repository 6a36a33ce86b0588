"""The audit of one claim, or of many, as text and tables."""

from collections.abc import Sequence

from nodewise.audit.rules import Audit, Correction, is_severe
from nodewise.base.units import capitalised, format_efficiency, format_speedup
from nodewise.report.sections import Output, Section, output
from nodewise.report.tables import Table, rows_table
from nodewise.report.text.reading import reading_lines, reading_section

_SHOWN_QUESTIONS = 2


def audit_report(result: Audit) -> Output:
    """The verdict and the corrected curve; then the questions and the checklist."""
    lines = [f"**{result.verdict}**", *reading_lines(result), _count(result)]
    table = None
    if result.correction is not None:
        table = _corrected(result.correction)
        lines.append(
            f"{capitalised(result.correction.sentence)}: T at the smallest K is "
            f"{result.correction.factor:.2f} times too long. The corrected curve is computed from "
            "the claim, not measured."
        )
    asked = [f"  {at}. {question}" for at, question in enumerate(result.questions, start=1)]
    sections = [
        *reading_section(result),
        Section(name="questions", title="Questions to the author", parts=[*asked]),
        Section(name="notes", title="Notes", parts=[f"  {note}" for note in result.notes]),
    ]
    ending = [f"Ask the author: {question}" for question in result.questions[:_SHOWN_QUESTIONS]]
    return output(lines, table, sections, result.checks, ending)


def _count(result: Audit) -> str:
    """How many rules are broken, kept or cannot be judged."""
    verdicts = [check.shown_verdict for check in result.checks]
    return (
        f"{len(verdicts)} rules: {verdicts.count('fail')} failed, {verdicts.count('warn')} "
        f"doubtful, {verdicts.count('pass')} passed, {verdicts.count('unknown')} not applicable "
        "or without data."
    )


def _corrected(correction: Correction) -> Table:
    rows = [
        {
            "K": row.nodes,
            "claimed S": format_speedup(row.claimed_speedup),
            "claimed E": format_efficiency(row.claimed_efficiency),
            "corrected S": format_speedup(row.speedup),
            "corrected E": format_efficiency(row.efficiency),
            "": "" if row.efficiency >= correction.threshold else "below",
        }
        for row in correction.rows
    ]
    return rows_table("The corrected curve", rows, left=("",))


def audits_report(audits: Sequence[Audit]) -> Output:
    """Of several claims: which fail, and how many break each rule."""
    rules = {check.rule: is_severe(check) for one in audits for check in one.checks}
    rows = []
    for rule, grave in rules.items():
        verdicts = [check.verdict for one in audits for check in one.checks if check.rule == rule]
        rows.append(
            {
                "rule": rule,
                "severity": "fail" if grave else "warn",
                "broken": verdicts.count("fail"),
                "met": verdicts.count("pass"),
                "unknown": verdicts.count("unknown"),
            }
        )
    standings = [one.standing for one in audits]
    failed = [one for one in audits if one.standing == "fails"]
    headline = (
        f"**{len(audits)} claims**: {standings.count('fails')} break a rule of severity fail, "
        f"{standings.count('suspect')} are suspect, {standings.count('open')} are open, "
        f"{standings.count('holds')} hold."
    )
    broken = sorted((row for row in rows if row["broken"]), key=lambda row: -int(row["broken"]))
    shown = rows_table("The rules that most claims break", broken, left=("rule", "severity"))
    sections = [
        Section(
            name="failed",
            title="Failed claims",
            parts=[f"  - {one.verdict}" for one in failed],
        ),
        Section(
            name="rules",
            title="Rules",
            parts=[rows_table("Rules over all claims", rows, left=("rule", "severity"))],
        ),
    ]
    ending = ["Next: --curve NAME shows one claim in full."]
    return output([headline], shown if broken else None, sections, ending=ending)
