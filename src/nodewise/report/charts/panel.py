"""What a reader changes in the page: the U of cost at prices of their own, and its sliders."""

from typing import Any, Literal

import altair as alt
import numpy as np

from nodewise.base.units import format_duration, format_money, format_quantity
from nodewise.decide.candidates import Needs
from nodewise.decide.decide import Decision, DecisionRow
from nodewise.decide.inputs import INPUTS
from nodewise.decide.prices.bill import NODE_HOURS
from nodewise.explain.scaling import Timings, timings
from nodewise.report.charts.look import HEIGHT, Definition, definition, layered, nodes_axis, tooltip
from nodewise.report.findings import Findings
from nodewise.study.study import Study

# The page's script fills these two when a slider moves.
SCALES, MARKS = "scales", "marks"
_ALIGNS: tuple[Literal["left", "right"], ...] = ("left", "right")
_SIDES = {"above": -18, "below": 18}


def what_if(decision: Decision) -> Definition:
    """Cost against K; the page marks the cheapest, the fastest and the recommended scale."""
    rows = [
        {"K": row.nodes, "cost": row.cost, "allowed": not row.excluded} for row in decision.rows
    ]
    x = nodes_axis([row.nodes for row in decision.rows])
    money = "node-hours" if decision.price.currency == NODE_HOURS else "dollars"
    y = alt.Y("cost:Q", title=f"{money} a run", scale=alt.Scale(zero=True, nice=True))
    scales, marks = alt.NamedData(SCALES), alt.NamedData(MARKS)
    allowed = alt.Chart(scales).transform_filter("datum.allowed")
    layers = [
        allowed.mark_line(style="join").encode(x=x.x(), y=y),
        allowed.mark_point(style="measured").encode(x=x.x(), y=y, tooltip=tooltip("K", "cost")),
        alt.Chart(scales)
        .transform_filter("!datum.allowed")
        .mark_point(style="refused")
        .encode(x=x.x(), y=y, tooltip=tooltip("K", "cost")),
        alt.Chart(marks).mark_point(style="ring").encode(x=x.x(), y=y),
        *(
            alt.Chart(marks)
            .transform_filter(f"datum.align === '{align}' && datum.side === '{side}'")
            .mark_text(style="verdict", dy=away, align=align)
            .encode(x=x.x(), y=y, text="label:N")
            for align in _ALIGNS
            for side, away in _SIDES.items()
        ),
    ]
    chart = layered(layers, HEIGHT)
    chart.datasets = {SCALES: rows, MARKS: []}
    return definition(chart)


def live_numbers(study: Study, findings: Findings) -> dict[str, Any]:
    """What the page needs to decide anew when the reader moves a price."""
    decision, question = findings.decision, findings.question
    rows, price, needs = decision.rows, decision.price, question.needs
    hours = [(row.seconds + price.startup_seconds) / 3600 for row in rows]
    times = timings(study, question.center)
    work = [run.cost_per_work for run in rows]
    grown = [row.nodes / rows[0].nodes if study.regime == "weak" else 1.0 for row in rows]
    if all(one is not None for one in work):
        done = [row.cost / one for row, one in zip(rows, work, strict=True) if one]
        grown = [one / done[0] for one in done]
    longest = question.ranges.get("startup")
    return {
        "nodes": [row.nodes for row in rows],
        "seconds": [row.seconds for row in rows],
        "sure_seconds": _sure_seconds(times, needs.deadline_confidence),
        "speedup": [row.speedup for row in rows],
        "efficiency": [row.efficiency for row in rows],
        "relative_work": grown,
        "refused": [_is_refused(row, needs) for row in rows],
        "rate_per_hour": [
            (row.bill.compute + row.bill.startup) / spent if spent else 0.0
            for row, spent in zip(rows, hours, strict=True)
        ],
        "startup_seconds": price.startup_seconds,
        "longest_startup_seconds": price.startup_seconds
        if longest is None or times.draws is None
        else longest.high,
        "storage_per_hour": price.storage_per_hour or 0.0,
        "egress": price.egress or 0.0,
        "billing_unit_seconds": price.billing_unit_seconds,
        "billing_minimum_seconds": price.billing_minimum_seconds,
        "value_per_hour": needs.value_per_hour,
        "budget": needs.budget,
        "currency": price.currency,
        "asked": {
            "price": 1.0 if price.currency == NODE_HOURS else price.per_node_hour,
            "fixed": price.fixed_per_hour,
            "deadline": needs.deadline_seconds or 0.0,
            "threshold": needs.threshold,
        },
    }  # fmt: skip


def _is_refused(row: DecisionRow, needs: Needs) -> bool:
    """Whether a scale fails a gate that no price moves: of quality, energy or carbon."""
    drifts = bool(row.excluded_because and "quality" in row.excluded_because)
    budgets = (
        (row.energy_joules, needs.energy_budget_joules),
        (row.grams, needs.carbon_budget_grams),
    )
    return drifts or any(
        spent is not None and most is not None and spent > most for spent, most in budgets
    )


def also(findings: Findings) -> str:
    """What the sliders leave as it is, and still holds."""
    question, price = findings.question, findings.decision.price
    needs, currency = question.needs, price.currency
    amounts = {
        "start-up": price.startup_seconds and format_duration(price.startup_seconds),
        "storage": price.storage_per_hour and f"{format_money(price.storage_per_hour, currency)}/h",
        "egress": price.egress and f"{format_money(price.egress, currency)} a run",
        "an hour of waiting": needs.value_per_hour and format_money(needs.value_per_hour, currency),
        "at most": needs.budget is not None and format_money(needs.budget, currency),
        "energy at most": needs.energy_budget_joules
        and f"{format_quantity(needs.energy_budget_joules)} J ({findings.decision.energy.basis})",
        "carbon at most": needs.carbon_budget_grams
        and f"{format_quantity(needs.carbon_budget_grams)} g CO2e",
    }
    said = [f"{name} {amount}" for name, amount in amounts.items() if amount]
    ranges = [
        f"{INPUTS[name].title} {INPUTS[name].form(given.low, currency)} to "
        f"{INPUTS[name].form(given.high, currency)}"
        for name, given in question.ranges.items()
        if not INPUTS[name].on_spot
    ]
    lines = [f"Also counted: {', '.join(said)}."] if said else []
    lines += [f"Known as ranges, taken at their centres: {', '.join(ranges)}."] if ranges else []
    return " ".join(lines)


def _sure_seconds(times: Timings, confidence: float) -> list[float]:
    """The time that a run of each scale holds with the confidence asked for."""
    if times.draws is None:
        return [float(seconds) for seconds in times.seconds]
    sure = []
    for at, samples in enumerate(times.samples):
        runs = np.sort((times.draws[:, at, None] * samples[None, :] / times.seconds[at]).ravel())
        sure.append(float(runs[max(int(np.ceil(confidence * len(runs))) - 1, 0)]))
    return sure


def sliders(live: dict[str, Any]) -> list[tuple[str, str, str, float, float]]:
    """Name, title, unit, largest value and step of each."""
    price = live["asked"]["price"] or max(live["rate_per_hour"]) / max(live["nodes"]) or 1.0
    fixed = max(live["asked"]["fixed"], 10 * price)
    longest = 2 * max(*live["sure_seconds"], live["asked"]["deadline"])
    money = live["currency"]
    return [
        ("price", "Price of a node", f"{money}/h", 4 * price, 4 * price / 400),
        ("fixed", "Overhead beside the nodes", f"{money}/h", 2 * fixed, 2 * fixed / 400),
        ("deadline", "Deadline (0: none)", "s", longest, longest / 400),
        ("threshold", "Least efficiency", "", 1.0, 0.01),
    ]
