"""What is asked of a study: prices and gates, as the options say, else as its spec does."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from nodewise.cli.options import (
    DURATION,
    FRACTION,
    MONEY,
    POSITIVE_DURATION,
    TOLERANCE,
    read_bytes,
    read_study,
    shared,
)

if TYPE_CHECKING:
    from nodewise.findings import Findings, Question
    from nodewise.spec import Regime
    from nodewise.study import Study

_price_options = shared(
    click.option("--price", type=MONEY, help="Dollars per node-hour. Without it: node-hours."),
    click.option("--price-source", default="", help="Where and when the price was read."),
    click.option(
        "--fixed", type=MONEY, default="0", help="Overhead in dollars per wall-clock hour."
    ),
    click.option(
        "--startup", type=DURATION, default="0", help="Launch and tear-down, billed per node."
    ),
    click.option(
        "--billing-unit", type=DURATION, default="0", help="Hours are rounded up to this."
    ),
    click.option("--billing-minimum", type=DURATION, default="0", help="Least time billed."),
    click.option(
        "--spot", type=FRACTION, default="0.30", show_default=True, help="Spot price as a fraction."
    ),
    click.option(
        "--owned",
        type=FRACTION,
        default="0.60",
        show_default=True,
        help="Amortised price of owned nodes as a fraction.",
    ),
    click.option(
        "--owned-above",
        type=FRACTION,
        default="0.60",
        show_default=True,
        help="Utilisation above which the owned fraction holds.",
    ),
    click.option("--utilisation", type=FRACTION, help="Utilisation of your own nodes."),
)
_needs_options = shared(
    click.option(
        "--deadline",
        type=POSITIVE_DURATION,
        help="A run must be done within this time, start-up included.",
    ),
    click.option(
        "--deadline-confidence",
        type=FRACTION,
        default="0.95",
        show_default=True,
        help="In at least this share of runs.",
    ),
    click.option("--budget", type=MONEY, help="A run may cost at most this."),
    click.option(
        "--value-per-hour", type=MONEY, default="0", help="What an hour of waiting is worth."
    ),
    click.option(
        "--quality-tolerance",
        type=TOLERANCE,
        default="0.005",
        show_default=True,
        help="Quality may drift by at most this from the smallest K.",
    ),
    click.option(
        "--quality-better",
        type=click.Choice(["same", "higher", "lower"]),
        default="same",
        show_default=True,
        help="A drift this way is no harm; same: any drift is.",
    ),
)
question_options = shared(_price_options, _needs_options)

# Which field of which part of the question an option sets.
_FIELDS = {
    "price": ("price", "per_node_hour"),
    "price_source": ("price", "source"),
    "fixed": ("price", "fixed_per_hour"),
    "startup": ("price", "startup_seconds"),
    "billing_unit": ("price", "billing_unit_seconds"),
    "billing_minimum": ("price", "billing_minimum_seconds"),
    "spot": ("alternatives", "spot_fraction"),
    "owned": ("alternatives", "owned_fraction"),
    "owned_above": ("alternatives", "owned_above"),
    "utilisation": ("alternatives", "utilisation"),
    "deadline": ("needs", "deadline_seconds"),
    "deadline_confidence": ("needs", "deadline_confidence"),
    "budget": ("needs", "budget"),
    "value_per_hour": ("needs", "value_per_hour"),
    "quality_tolerance": ("needs", "quality_tolerance"),
    "quality_better": ("needs", "quality_better"),
    "threshold": ("needs", "threshold"),
}


def find_in(table: Path, options: dict[str, Any]) -> "tuple[Study, Findings]":
    """The study in a table, a study folder or a page, and what it says to the question asked."""
    from nodewise.findings import find

    study, question = read_question(table, options["regime"])
    return study, find(study, asked(question, options))


def read_question(table: Path, regime: "Regime | None") -> "tuple[Study, Question]":
    """A study and the question that its spec asks, or that its page answers."""
    from nodewise.findings import question_of

    if table.suffix == ".html":
        from nodewise.report.html import study_of_page

        return study_of_page(read_bytes(table))
    study = read_study(table, regime)
    return study, question_of(study.spec)


def asked(question: "Question", options: dict[str, Any]) -> "Question":
    """The question, with what the command line says instead."""
    for name, (part, field) in _FIELDS.items():
        if is_given(name):
            changed = msgspec.structs.replace(getattr(question, part), **{field: options[name]})
            question = msgspec.structs.replace(question, **{part: changed})
    if is_given("center"):
        question = msgspec.structs.replace(question, center=options["center"])
    return question


def is_given(name: str) -> bool:
    """Whether an option stands on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source == ParameterSource.COMMANDLINE
