"""A watched program in text. Imports little, so that watching starts quickly."""

from typing import TYPE_CHECKING

from nodewise.base.units import capitalised
from nodewise.diagnose.axes import MENU, Answer, CeilingName, Remedy, axis_words
from nodewise.report.sections import Output, Report, Section, output

if TYPE_CHECKING:
    from nodewise.diagnose.symptoms import Symptoms
    from nodewise.diagnose.training_step import TrainingStep


def symptoms_report(result: "Symptoms") -> Output:
    """A watched program: the ceiling or 'undecided', the evidence, the remedy."""
    lines = verdict_lines(result)
    return output(lines, sections=remedy_and_notes(result))


def remedy_and_notes(result: "Symptoms | TrainingStep") -> list[Section]:
    """The sections below a verdict."""
    remedy = [] if result.ceiling is None else remedy_lines(MENU[result.ceiling])
    return [
        Section(name="remedy", title="Remedy", parts=remedy),
        Section(name="notes", title="Notes", parts=[f"  {note}" for note in result.notes]),
    ]


def verdict_lines(result: "Symptoms | TrainingStep") -> list[str]:
    """Yes or no to a proposal; the ceiling or 'undecided'; the evidence; what to try first."""
    lines = answer_lines(result.answer)
    if result.ceiling is None:
        lines.append("**Undecided.** No ceiling is clearly reached.")
    else:
        verb = "bind" if result.ceiling == "page faults" else "binds"
        lines.append(
            f"**{capitalised(f'{result.ceiling} {verb}')}.** Confidence: {result.confidence}."
        )
    lines += [f"{capitalised(words)}." for words in result.evidence]
    return lines if result.ceiling is None else [*lines, first_words(result.ceiling)]


def first_words(ceiling: CeilingName) -> str:
    """What raises a ceiling, and what to try before."""
    remedy = MENU[ceiling]
    return (
        f"{capitalised(axis_words(remedy.axis))}: {', '.join(remedy.tools)}. First, for less: "
        f"{remedy.first}."
    )


def remedy_lines(remedy: Remedy) -> Report:
    """What raises a ceiling, what that cures and leaves."""
    return [
        f"{capitalised(axis_words(remedy.axis))}: {', '.join(remedy.tools)}.",
        f"  Cures: {remedy.cures}.",
        f"  Leaves: {remedy.leaves}.",
        f"  First, for less: {remedy.first}.",
    ]


def answer_lines(answer: Answer | None) -> list[str]:
    """Yes or no to a proposal, the reason, and what to do instead; nothing without a proposal."""
    if answer is None:
        return []
    reasons = [reason for reason in (answer.reason, answer.instead) if reason]
    return [
        f"**{capitalised(answer.answer)}: {answer.proposal}**",
        *(f"{capitalised(reason)}." for reason in reasons),
    ]
