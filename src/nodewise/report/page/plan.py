"""The page of a plan on paper: throughput, cost, the parts of a step, and memory."""

from nodewise.base.units import (
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
)
from nodewise.decide.paper.plan import Planned
from nodewise.report.charts.plan import memory_chart, rate_and_cost_chart, step_parts_chart
from nodewise.report.page.content import Card, Page
from nodewise.report.page.words import words_of
from nodewise.report.text.paper import plan_report


def plan_page(result: Planned) -> Page:
    """The knee on paper, before any run."""
    name = f"{result.name} on {result.cluster}"
    words = words_of(plan_report(result), name)
    charts = (rate_and_cost_chart, step_parts_chart, memory_chart) if result.fitting else ()
    return Page(
        name=name,
        kicker="plan on paper",
        labels=["no run was made"],
        verdict=words.verdict,
        reasons=words.reasons,
        cards=_cards(result),
        figures=[chart(result) for chart in charts],
        table=words.table,
        sections=words.sections,
        basis="All figures are computed from the data sheets of the model and the cluster.",
    )


def _cards(result: Planned) -> list[Card]:
    chosen = result.last_above or result.fastest
    if chosen is None:
        return []
    row = result.row(chosen)
    assert row.best is not None
    plan = row.best.plan
    knee = "knee not reached" if result.knee is None else f"knee at K={result.knee}"
    found = [
        Card(f"Step at K={chosen}", format_duration(row.best.seconds), f"bound by {row.ceiling}"),
        Card("Efficiency", format_efficiency(row.efficiency or 0.0), knee),
        Card("Tokens per second", format_quantity(row.tokens_per_second or 0.0)),
        Card("Model FLOPs", format_percent(row.model_flops_share or 0.0), "of the peak"),
        Card("Tensor x pipeline x data", f"{plan.tensor} x {plan.pipeline} x {plan.data}",
             f"sharded: {plan.sharding}"),
    ]  # fmt: skip
    if row.cost_per_billion_tokens is not None:
        remark = f"cheapest K={result.cheapest}"
        found.append(Card("A billion tokens", format_money(row.cost_per_billion_tokens), remark))
    return found
