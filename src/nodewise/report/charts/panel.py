"""The sliders of a page: what a reader may change, and what they leave as it is."""

from nodewise.base.units import format_duration, format_money, format_quantity
from nodewise.decide.inputs import INPUTS, is_spot_only
from nodewise.decide.sliders import SliderNumbers
from nodewise.report.findings import Findings
from nodewise.report.page.content import Slider


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


def sliders(numbers: SliderNumbers) -> list[Slider]:
    """What a reader may change."""
    asked, money = numbers.asked, numbers.currency
    price = asked.price or max(numbers.rate_per_hour) / max(numbers.billed_units) or 1.0
    fixed = max(asked.fixed, 10 * price)
    longest = 2 * max(min(max(numbers.sure_seconds), 10 * max(numbers.seconds)), asked.deadline)
    return [
        Slider(
            "price", f"Price of a {numbers.billed_unit}", f"{money}/h", 4 * price, 4 * price / 400
        ),
        Slider("fixed", "Hourly overhead", f"{money}/h", 2 * fixed, 2 * fixed / 400),
        Slider("deadline", "Deadline (0: none)", "s", longest, longest / 400),
        Slider("threshold", "Least efficiency", "", 1.0, 0.01),
    ]
