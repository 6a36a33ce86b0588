"""What the honesty rules say of a claim, or of many, as text and tables."""

from collections.abc import Sequence

from nodewise.audit.rules import Audit, Correction, is_grave
from nodewise.base.units import capitalised, format_efficiency, format_speedup
from nodewise.report.tables import rows_table
from nodewise.report.text.findings import Report, checklist
from nodewise.report.text.reading import understood

_MOST_LISTED = 12


def audit_report(result: Audit) -> Report:
    """The verdict, what was understood, the checklist, the curve that is left, the questions."""
    lines: Report = [f"**{result.verdict}**", "", *understood(result), *checklist(result.checks)]
    if result.correction is not None:
        lines += ["", *_corrected(result.correction)]
    if result.questions:
        lines += ["", "**To ask the author**"]
        lines += [f"  {at}. {question}" for at, question in enumerate(result.questions, start=1)]
    if result.notes:
        lines += ["", *(f"note: {note}" for note in result.notes)]
    return lines


def _corrected(correction: Correction) -> Report:
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
    return [
        "**The corrected curve** (computed from the claim, not measured)",
        rows_table("The corrected curve", rows, left=("",)),
        f"{capitalised(correction.sentence)}: T at the smallest K is {correction.factor:.2f} "
        "times too long.",
    ]


def audits_report(audits: Sequence[Audit]) -> Report:
    """Of several claims: how many each rule fails, passes or cannot judge; then the worst ones."""
    rules = {check.rule: is_grave(check) for one in audits for check in one.checks}
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
    lines: Report = [
        f"**{len(audits)} claims**: {standings.count('fails')} break a rule of severity fail, "
        f"{standings.count('suspect')} are suspect, {standings.count('open')} are open, "
        f"{standings.count('holds')} hold.",
        "",
        rows_table("The rules over all claims", rows, left=("rule", "severity")),
    ]
    if failed:
        lines += ["", "**Broken**", *(f"  - {one.verdict}" for one in failed[:_MOST_LISTED])]
        if len(failed) > _MOST_LISTED:
            lines.append(f"  and {len(failed) - _MOST_LISTED} more; --json has all.")
    return [*lines, "", "One of them in full: --curve NAME."]
