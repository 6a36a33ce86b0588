"""What is asked of a study: prices and gates, as the options say, else as its spec does."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from nodewise.base.interval import Range, parse_range
from nodewise.base.units import parse_amount
from nodewise.cli.options import (
    DURATION,
    FRACTION,
    MONEY,
    POSITIVE_DURATION,
    QUANTITY,
    TOLERANCE,
    Parsed,
    read_bytes,
    read_study,
    shared,
)

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question
    from nodewise.decide.payment.spot import Preemptions
    from nodewise.report.findings import Findings
    from nodewise.study.spec import Regime
    from nodewise.study.study import Study


_BUDGETS = {
    "j": ("energy_budget_joules", 1.0),
    "kj": ("energy_budget_joules", 1e3),
    "mj": ("energy_budget_joules", 1e6),
    "wh": ("energy_budget_joules", 3.6e3),
    "kwh": ("energy_budget_joules", 3.6e6),
    "g": ("carbon_budget_grams", 1.0),
    "kg": ("carbon_budget_grams", 1e3),
}


def _ranged(inner: Parsed, name: str) -> Parsed:
    """A number of some type, or a range of two: `2.1..3.5`."""
    return Parsed(name, lambda text: parse_range(text, lambda one: inner.convert(one, None, None)))


def _rate(text: str) -> "tuple[Preemptions, Range]":
    """Preemptions with their unit; the rate a second as a range."""
    from nodewise.decide.payment.spot import parse_preemptions

    given = parse_range(text, lambda one: parse_preemptions(one).per_second)
    stated = parse_preemptions(text.rpartition("..")[2])
    return msgspec.structs.replace(stated, per_second=given.center), given


def _saving(text: str) -> Range | None:
    """The time to save, or `none`."""
    given: Range | None = None
    if text != "none":
        given = DURATION_RANGE.convert(text, None, None)
    return given


def _watts(text: str) -> Range:
    """A power, or the idle and the busy one; one alone is the busy one, and idle is unknown."""
    given = parse_range(text, lambda one: parse_amount(one.strip().rstrip("wW")))
    return Range(0.0, given.high) if given.is_known else given


def _budget(text: str) -> tuple[str, float]:
    """Money, energy (2kWh, 500kJ) or carbon (300g, 2kg): a gate and its value."""
    plain = text.strip().lower()
    number = plain.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = plain[len(number) :].strip()
    if unit and unit not in _BUDGETS:
        raise ValueError(f"'{text}' is no budget; write for example 5, 2kWh or 300g")
    field, factor = _BUDGETS.get(unit, ("budget", 1.0))
    return field, factor * MONEY.convert(number, None, None)


MONEY_RANGE, DURATION_RANGE, FRACTION_RANGE = (
    _ranged(MONEY, "money"),
    _ranged(DURATION, "time"),
    _ranged(FRACTION, "share"),
)
_FILE = click.Path(path_type=Path, dir_okay=False)

_price_options = shared(
    click.option(
        "--price", type=MONEY_RANGE, help="Dollars per node-hour, or a range 2.1..3.5; "
        "so with every amount, share and time of a price. Without it: node-hours.",
    ),
    click.option("--price-source", default="", help="Where and when the price was read."),
    click.option(
        "--instance", metavar="CLOUD:NAME[@REGION]",
        help="Take price and spot price from the shipped or your own list: aws:p5.48xlarge.",
    ),
    click.option(
        "--prices", metavar="FILE[@DAY]",
        help="Your own prices: TOML, SkyPilot CSV, AWS offer or Azure retail JSON.",
    ),
    click.option(
        "--fixed", type=MONEY_RANGE, default="0", help="Overhead in dollars per wall-clock hour."
    ),
    click.option(
        "--startup", type=DURATION_RANGE, default="0", help="Launch and tear-down, billed per node."
    ),
    click.option("--storage", type=MONEY_RANGE, help="Disks of the job, in dollars an hour."),
    click.option(
        "--egress", metavar="GB[@CLOUD]", help="Data that a run sends out of the cloud."
    ),
    click.option(
        "--billing-unit", type=DURATION, default="0", help="Billed time is rounded up to this."
    ),
    click.option("--billing-minimum", type=DURATION, default="0", help="Least time billed."),
)  # fmt: skip
_pay_options = shared(
    click.option(
        "--spot", type=FRACTION_RANGE, default="0.30", show_default=True,
        help="Spot price as a fraction of that on demand.",
    ),
    click.option(
        "--preempt", type=Parsed("rate", _rate),
        help="Preemptions: 0.05/h of a node, 0.4/gang-h of all; 5%/month is a share.",
    ),
    click.option(
        "--checkpoint", type=Parsed("time", _saving), default="1min", show_default=True,
        help="Time to save once, on spot; none: a run that is stopped begins anew.",
    ),
    click.option(
        "--downtime", type=DURATION_RANGE, default="5min", show_default=True,
        help="Time until lost nodes are back.",
    ),
    click.option(
        "--restart", type=DURATION_RANGE, default="2min", show_default=True,
        help="Time to reload what was saved."
    ),
    click.option(
        "--correlation", type=FRACTION, default="1", show_default=True,
        help="K nodes are stopped K^this times as often as one; 0: all are lost at once.",
    ),
    click.option(
        "--while-down", type=click.Choice(["all", "survivors", "none"]), default="all",
        show_default=True, help="Nodes that stay on the meter until lost ones are back.",
    ),
    click.option("--trace", type=_FILE, help="Replay when spot nodes were there: CSV or JSON."),
    click.option(
        "--own", "--owned", "own", metavar="SHARE|FILE", default="0.60", show_default=True,
        help="Owned nodes: a fraction of the price, or a TOML file of what one costs.",
    ),
    click.option(
        "--owned-above", type=FRACTION, default="0.60", show_default=True,
        help="Utilisation above which the owned fraction holds.",
    ),
    click.option("--utilisation", type=FRACTION, help="Share of hours that owned nodes work."),
    click.option("--commit", type=FRACTION, help="Discount on hours paid whether used or not."),
)  # fmt: skip
_energy_options = shared(
    click.option(
        "--watts",
        type=Parsed("watts[..watts]", _watts),
        help="Power of a node, idle..busy, to model joules.",
    ),
    click.option(
        "--shared-watts", type=TOLERANCE, default="0", help="Power of what runs beside the nodes."
    ),
    click.option("--pue", type=QUANTITY, default="1", help="Watts of the site per watt of nodes."),
    click.option("--grid", metavar="PLACE", help="Country of the power, for grams of CO2e: FRA."),
)
_needs_options = shared(
    click.option(
        "--deadline", type=POSITIVE_DURATION,
        help="A run must be done within this time, start-up included.",
    ),
    click.option(
        "--confidence", type=FRACTION, default="0.95", show_default=True,
        help="Share of the runs that must keep the deadline.",
    ),
    click.option(
        "--budget", type=Parsed("amount", _budget), multiple=True,
        help="At most this for a run: 5 (money), 2kWh, 300g; may be repeated.",
    ),
    click.option(
        "--value-per-hour", type=MONEY_RANGE, default="0", help="What an hour of waiting is worth."
    ),
    click.option(
        "--scenario", metavar="NAME: INPUT=VALUE,...", multiple=True,
        help="Choose by least worst regret over these: 'crunch: price=3.5, preempt=0.2/h'.",
    ),
    click.option(
        "--quality-tolerance", type=TOLERANCE, default="0.005", show_default=True,
        help="Quality may drift by at most this from the smallest K.",
    ),
    click.option(
        "--quality-better", type=click.Choice(["same", "higher", "lower"]), default="same",
        show_default=True, help="A drift this way is no harm; same: any drift is.",
    ),
)  # fmt: skip
question_options = shared(_price_options, _pay_options, _energy_options, _needs_options)


def find_in(table: Path, options: dict[str, Any]) -> "tuple[Study, Findings]":
    """The study in a table, a study folder or a page, and what it says to the question asked."""
    from nodewise.audit.rule_book import read_rules
    from nodewise.report.findings import find

    study, question = read_question(table, options["regime"])
    return study, find(study, asked(question, options), read_rules())


def read_question(table: Path, regime: "Regime | None") -> "tuple[Study, Question]":
    """A study and the question that its spec asks, or that its page answers."""
    from nodewise.decide.prices.lookup import question_today

    if table.suffix == ".html":
        from nodewise.report.page.html import study_of_page

        return study_of_page(read_bytes(table))
    study = read_study(table, regime)
    return study, question_today(study.spec)


def asked(question: "Question", options: dict[str, Any]) -> "Question":
    """The question, with what the command line says instead."""
    from nodewise.cli.asked import with_options

    return with_options(question, options)


def is_given(name: str) -> bool:
    """Whether an option stands on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source == ParameterSource.COMMANDLINE
