"""What a reader changes in the page: the U of cost at prices of their own, and its sliders."""

from typing import Any

from nodewise.base.units import format_duration, format_money, format_quantity
from nodewise.decide.decide import Decision
from nodewise.decide.inputs import INPUTS, is_spot_only
from nodewise.decide.sliders import SliderNumbers
from nodewise.report.charts.look import Definition, definition, layered, mark, nodes_axis
from nodewise.report.findings import Findings

# The page's script fills these two when a slider moves.
SCALES, MARKS = "scales", "marks"
_SIDES = {"above": -18, "below": 18}


def what_if(decision: Decision) -> Definition:
    """Cost against K; the page marks the cheapest, the fastest and the recommended scale."""
    rows = [
        {"K": row.nodes, "cost": row.cost, "allowed": not row.excluded} for row in decision.rows
    ]
    currency = decision.price.currency
    money = currency if decision.price.is_money else f"{currency}ours"
    money = "dollars" if currency == "$" else money
    work = "a run" if decision.regime == "strong" else "for the work of the first run"
    channels: dict[str, Any] = {
        "x": nodes_axis([row.nodes for row in decision.rows]),
        "y": {
            "field": "cost",
            "type": "quantitative",
            "title": f"{money} {work}",
            "scale": {"zero": True, "nice": True},
        },
    }

    def some(test: str, layer: Definition) -> Definition:
        return {**layer, "transform": [{"filter": test}]}

    tips = ("K", "cost")
    layers = [
        some("datum.allowed", mark("line", SCALES, "join", **channels)),
        some("datum.allowed", mark("point", SCALES, "measured", tips=tips, **channels)),
        some("!datum.allowed", mark("point", SCALES, "refused", tips=tips, **channels)),
        mark("point", MARKS, "ring", **channels),
        *(
            some(
                f"datum.align === '{align}' && datum.side === '{side}'",
                mark("text", MARKS, "verdict", {"dy": away, "align": align}, text="label",
                     **channels),
            )
            for align in ("left", "right")
            for side, away in _SIDES.items()
        ),
    ]  # fmt: skip
    # room for the words above the highest point
    room = {"top": 28, "left": 5, "right": 5, "bottom": 5}
    return definition({**layered(layers), "datasets": {SCALES: rows, MARKS: []}, "padding": room})


def unmoved_inputs(findings: Findings) -> str:
    """What the sliders leave as it is, and still holds."""
    question, price = findings.question, findings.decision.price
    needs, currency = question.needs, price.currency
    amounts = {
        "start-up": price.startup_seconds and format_duration(price.startup_seconds),
        "storage": price.storage_per_hour and f"{format_money(price.storage_per_hour, currency)}/h",
        "egress": price.egress and f"{format_money(price.egress, currency)} a run",
        "an hour of waiting": needs.hour_value and format_money(needs.hour_value, currency),
        "at most": needs.budget is not None and format_money(needs.budget, currency),
        "energy at most": needs.energy_budget_joules
        and f"{format_quantity(needs.energy_budget_joules)} J ({findings.decision.energy.basis})",
        "carbon at most": needs.carbon_budget_grams
        and f"{format_quantity(needs.carbon_budget_grams)} g CO2e",
    }
    counted = [f"{name} {amount}" for name, amount in amounts.items() if amount]
    ranges = [
        f"{INPUTS[name].title} {INPUTS[name].form(given.low, currency)} to "
        f"{INPUTS[name].form(given.high, currency)}"
        for name, given in question.ranges.items()
        if not is_spot_only(question, name)
    ]
    lines = [f"Also counted: {', '.join(counted)}."] if counted else []
    lines += [f"Known as ranges, taken at their centres: {', '.join(ranges)}."] if ranges else []
    return " ".join(lines)


def sliders(numbers: SliderNumbers) -> list[tuple[str, str, str, float, float]]:
    """Name, title, unit, largest value and step of each."""
    asked, money = numbers.asked, numbers.currency
    price = asked.price or max(numbers.rate_per_hour) / max(numbers.billed_units) or 1.0
    fixed = max(asked.fixed, 10 * price)
    longest = 2 * max(min(max(numbers.sure_seconds), 10 * max(numbers.seconds)), asked.deadline)
    return [
        ("price", f"Price of a {numbers.billed_unit}", f"{money}/h", 4 * price, 4 * price / 400),
        ("fixed", "Overhead beside the nodes", f"{money}/h", 2 * fixed, 2 * fixed / 400),
        ("deadline", "Deadline (0: none)", "s", longest, longest / 400),
        ("threshold", "Least efficiency", "", 1.0, 0.01),
    ]
