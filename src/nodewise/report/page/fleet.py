"""The page of a fleet: latency, capacity and cost at each number of replicas."""

from collections.abc import Callable

from nodewise.base.errors import DataError
from nodewise.base.units import capitalised, format_efficiency, format_money, format_percent
from nodewise.fleet.decide import FleetDecision
from nodewise.report.charts.fleet import capacity_chart, latency_chart, token_cost_chart
from nodewise.report.charts.look import Figure
from nodewise.report.page.content import Card, Page, Section
from nodewise.report.page.words import words_of
from nodewise.report.text.fleet import day_table, fleet_report, fleets_table, windows_report

_CHARTS = (latency_chart, capacity_chart, token_cost_chart)


def fleet_page(result: FleetDecision) -> Page:
    """How many replicas, and what that rests on."""
    words = words_of(fleet_report(result), result.name)
    notes = [f"note: {note}" for note in result.notes]
    sections = [Section(name="windows", title="Load tests",
                        rest=[*windows_report(result.windows), *notes])]  # fmt: skip
    if result.day:
        sections.insert(0, Section(name="day", title="A day of demand", rest=[day_table(result)]))
    return Page(
        name=result.name,
        kicker="serving fleet",
        verdict=words.verdict,
        reasons=_reasons(result),
        cards=_cards(result),
        figures=[figure for chart in _CHARTS for figure in _drawn(chart, result)],
        table=[fleets_table(result)],
        sections=sections,
        checks=result.checks,
        basis="All figures are computed from the windows of the load tests.",
    )


def _drawn(chart: Callable[[FleetDecision], Figure], result: FleetDecision) -> list[Figure]:
    try:
        return [chart(result)]
    except DataError:  # nothing to draw
        return []


def _reasons(result: FleetDecision) -> list[str]:
    lines = [f"{capitalised(result.because)}.", f"Constraint: {result.constraint}."]
    lines += result.causes
    if result.untried is not None:
        lines.append(f"Not measured: r={result.untried}, {result.untried_because}.")
    return lines


def _cards(result: FleetDecision) -> list[Card]:
    if result.chosen is None:
        return []
    row, currency = result.row(result.chosen), result.price.currency
    found = [Card("Replicas", str(row.replicas), row.evidence)]
    if row.allocation is not None:
        low, high = (
            format_money(one, currency) for one in (row.allocation.low, row.allocation.high)
        )
        found.append(Card(f"A million good {result.unit}",
                          format_money(row.allocation.amount, currency),
                          f"between {low} and {high}"))  # fmt: skip
    breaks = "never broken" if row.breaks_at is None else f"broken at {row.breaks_at:.4g}/s"
    found.append(Card("Rate kept", f"{row.rate_per_second:.4g}/s", breaks))
    if row.utilisation is not None and result.question.floor is not None:
        demand = f"demand {result.question.floor:.4g}/s"
        found.append(Card("Busy, at most", format_percent(row.utilisation), demand))
    if row.efficiency is not None:
        found.append(Card("Efficiency", format_efficiency(row.efficiency), "rate for each replica"))
    if row.rate_one_lost is not None:
        found.append(Card("With one lost", f"{row.rate_one_lost:.4g}/s"))
    return found
