"""The page of a traced job: its ranks over time, and where their time went."""

from collections.abc import Sequence

from nodewise.base.units import format_efficiency
from nodewise.explain.trace.breakdown import JobBreakdown
from nodewise.report.charts.causes import stages, timeline
from nodewise.report.charts.trace import breakdown_chart, late_chart, trace_timeline
from nodewise.report.page.content import Card, Page
from nodewise.report.page.words import words_of
from nodewise.report.text.trace import job_report, stages_report
from nodewise.study.study import Run, Study

_BASIS = "All figures are computed from the recorded files; nothing was run."


def trace_page(job: JobBreakdown, name: str) -> Page:
    """Where the time of a job went, rank by rank and step by step."""
    words = words_of(job_report(job))
    figures = [trace_timeline(job), breakdown_chart(job), late_chart(job)]
    return Page(
        name=name,
        kicker="trace of a job",
        verdict=words.verdict,
        reasons=words.reasons,
        cards=_cards(job),
        figures=[figure for figure in figures if figure is not None],
        table=words.table,
        sections=words.sections,
        basis=_BASIS,
    )


def _cards(job: JobBreakdown) -> list[Card]:
    used = sum(rank.used for rank in job.ranks)
    missing = f"{len(job.missing_ranks)} without a trace" if job.missing_ranks else ""
    found = [Card("Ranks", str(used), missing)]
    if job.steps:
        found.append(Card("Steps", str(len(job.steps))))
    if job.pop is not None:
        factors = {
            "Parallel efficiency": job.pop.parallel_efficiency,
            "Load balance": job.pop.load_balance,
            "Serialisation": job.pop.serialisation,
            "Transfer": job.pop.transfer,
        }
        found += [Card(title, format_efficiency(one))
                  for title, one in factors.items() if one is not None]  # fmt: skip
    if job.late_ranks:
        late = job.late_ranks[0]
        remark = f"{late.times_last} of {job.collectives.count} times"
        found.append(Card("Last to arrive", f"rank {late.rank}", remark))
    return found


def stages_page(runs: Sequence[Run], study: Study) -> Page:
    """Where the time of runs with recorded stages went; `study` holds these runs."""
    words = words_of(stages_report(runs))
    figures = [stages(study), timeline(study)]
    return Page(
        name=study.name,
        kicker="recorded stages",
        verdict=words.verdict,
        reasons=words.reasons,
        figures=[figure for figure in figures if figure is not None],
        table=words.table,
        sections=words.sections,
        basis=_BASIS,
    )
