"""The pages of a diagnosis: of a job on paper, a study, a watched program, a step of torch."""

from collections.abc import Sequence
from typing import Any

from nodewise.base.units import capitalised
from nodewise.diagnose.axes import Answer, axis_words
from nodewise.diagnose.flow import Diagnosis
from nodewise.diagnose.next_ceiling import NextCeiling
from nodewise.diagnose.symptoms import Symptoms
from nodewise.diagnose.training_step import TrainingStep
from nodewise.explain.attribute import Attribution
from nodewise.report.charts.causes import ledger
from nodewise.report.charts.ceilings import study_flow, study_roofline
from nodewise.report.charts.diagnose import (
    exchange_chart,
    memory_chart,
    paper_step_chart,
    stage_chart,
    time_chart,
    windows_chart,
)
from nodewise.report.charts.flow import flow_chart
from nodewise.report.charts.look import Figure
from nodewise.report.charts.roofline import step_chart
from nodewise.report.page.content import Card, Page
from nodewise.report.page.words import words_of
from nodewise.report.text import diagnose as text
from nodewise.report.text.symptoms import symptoms_report
from nodewise.study.study import Study


def diagnosis_page(result: Diagnosis) -> Page:
    """A job on paper."""
    step = result.step
    figures = [flow_chart(result), memory_chart(result.training), paper_step_chart(step),
               exchange_chart(step)]  # fmt: skip
    return _page("A job on paper", "diagnosis", result, text.diagnosis_report(result), figures)


def next_ceiling_page(result: NextCeiling, study: Study, attribution: Attribution) -> Page:
    """A study after distribution."""
    figures = [study_flow(result), ledger(attribution), study_roofline(study)]
    report = text.next_ceiling_report(result)
    return _page(result.study, "diagnosis of a study", result, report, figures)


def symptoms_page(result: Symptoms) -> Page:
    """A program that was watched."""
    name, report = " ".join(result.command), symptoms_report(result)
    figures = [windows_chart(result), time_chart(result)]
    return _page(name, "diagnosis of a program", result, report, figures)


def training_step_page(result: TrainingStep) -> Page:
    """A step of a torch program whose operations were counted."""
    name, report = " ".join(result.command), text.training_step_report(result)
    figures = [step_chart(result), stage_chart(result)]
    return _page(name, "diagnosis of a torch step", result, report, figures)


def _page(
    name: str, kicker: str, result: Any, report: Any, figures: Sequence[Figure | None]
) -> Page:
    words = words_of(report)
    drawn = [figure for figure in figures if figure is not None]
    titles = {figure.title for figure in drawn}
    # A chart has its own table.
    table = [one for one in words.table if isinstance(one, str) or one.name not in titles]
    return Page(
        name=name,
        kicker=kicker,
        verdict=words.verdict,
        reasons=words.reasons,
        cards=_cards(result),
        figures=drawn,
        table=table,
        sections=words.sections,
        basis="Nothing else was measured.",
    )


def _cards(result: Any) -> list[Card]:
    answer: Answer | None = result.answer
    found = [] if answer is None else [Card("Proposal", answer.proposal, answer.answer)]
    return [
        *found,
        Card("Ceiling", result.ceiling or "undecided"),
        Card("Remedy", capitalised(axis_words(result.axis)) if result.ceiling else "measure first"),
    ]
