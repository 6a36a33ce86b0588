"""The page of a history: trends, slowdowns with their commits, the heat map, the ledger."""

from nodewise.base.units import format_money
from nodewise.history.regressions import count_words
from nodewise.history.trend import History, TrendPoint, Trends
from nodewise.report.charts.history import changes_rows, heat_map, ledger_chart, trend_chart
from nodewise.report.charts.look import Figure
from nodewise.report.page.content import Card, Page, Section
from nodewise.report.page.words import words_of
from nodewise.report.text.history import history_report, ledger_table

_METRICS = (("speedup", "Speedup", "speedup"), ("efficiency", "Efficiency", "efficiency"),
            ("cost", "Cost of a run", "cost"), ("seconds", "Time of a run", "seconds"))  # fmt: skip


def history_page(result: History, trends: Trends) -> Page:
    """Everything that a history shows; the newest workload comes first."""
    words = words_of(history_report(result), result.place)
    newest = list(dict.fromkeys(entry.workload for entry in result.check.newest))
    first, *others = newest or list(result.workloads)
    figures = _figures(first, trends, 3)
    heat, ledger = heat_map(trends.seconds, trends), ledger_chart(trends.ledger)
    sections = [
        Section(name="changes", title="Slowdowns", rest=[*changes_rows(trends)], is_open=True),
        Section(
            name="heat",
            title="Every K over time",
            figures=[heat] if heat else [],
            rest=[""] if heat else [],
            is_open=True,
        ),
        Section(
            name="ledger",
            title="What changed in the ledger",
            figures=[ledger] if ledger else [],
            rest=[ledger_table(trends.ledger)] if trends.ledger else [],
        ),
        *(
            Section(name=f"workload-{at}", title=name, figures=_figures(name, trends, 4, f"-{at}"))
            for at, name in enumerate(others)
        ),
    ]
    return Page(
        name=first,
        kicker="history of scaling studies",
        verdict=words.verdict,
        reasons=words.reasons,
        cards=_cards(result, trends, first),
        figures=figures,
        table=words.table,
        sections=[section for section in sections if section.rest or section.figures],
    )


def _figures(workload: str, trends: Trends, most: int, suffix: str = "") -> list[Figure]:
    """The first metrics that are known of a workload."""
    found = []
    for name, title, unit in _METRICS:
        points: tuple[TrendPoint, ...] = getattr(trends, name)
        own = [point for point in points if point.workload == workload]
        unit = f"{unit}, {trends.currency}" if name == "cost" else unit
        made = trend_chart(f"{name}{suffix}", title, unit, own, trends)
        if made is not None:
            found.append(made)
    return found[:most]


def _cards(result: History, trends: Trends, workload: str) -> list[Card]:
    cards = [
        Card("Studies", str(result.studies), f"{count_words(result.campaigns)} on this machine"),
        Card("Newest", trends.labels[-1] if trends.labels else "", result.last[:10]),
        Card(
            "Slowdowns", str(len(trends.changes)), f"in the last {count_words(len(trends.labels))}"
        ),
    ]
    newest = next((one for one in result.check.newest if one.workload == workload), None)
    if newest is not None and newest.chosen:
        scale = newest.at(newest.chosen[0])
        cost = scale.cost if scale else None
        remark = "" if cost is None else f"{format_money(cost, newest.currency)} a run"
        cards.append(Card("Run on", f"K={newest.chosen[0]}", remark))
    return cards
