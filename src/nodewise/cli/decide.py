"""`nodewise decide`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nodewise.cli.options import (
    DURATION,
    FRACTION,
    MONEY,
    POSITIVE_DURATION,
    QUANTITY,
    TOLERANCE,
    analysis_options,
    emit,
    json_option,
    read_study,
    shared,
)
from nodewise.errors import GATE_NOT_MET, SpecError

if TYPE_CHECKING:
    from nodewise.decide import Decision

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
    click.option(
        "--work", type=QUANTITY, help="Units of work in a run, when the table has no such column."
    ),
)
_law_options = shared(
    click.option(
        "--law",
        metavar="s=S,c=C",
        help="Decide for a model T1*(s+(1-s)/K+c*(K-1)); growth=log2 makes it c*log2(K).",
    ),
    click.option(
        "--t1",
        type=POSITIVE_DURATION,
        default="1h",
        show_default=True,
        help="With --law: time on one node.",
    ),
    click.option(
        "--max-nodes",
        type=click.IntRange(2, 10_000),
        default=64,
        show_default=True,
        help="With --law: the largest K.",
    ),
    click.option(
        "--noise",
        type=FRACTION,
        default="0",
        help="With --law: relative spread of a run, for the deadline.",
    ),
)


@click.command("decide")
@click.argument("table", metavar="[TABLE]", type=click.Path(path_type=Path), required=False)
@_price_options
@_needs_options
@analysis_options
@_law_options
@json_option
def command(table: Path | None, as_json: bool, **options: Any) -> None:
    """Price every scale, apply the gates and recommend one; attributes the losses first.

    Times are written 90s, 15min, 1.5h; shares 0.05 or 5%. Exits with 1 when no scale passes every
    gate.

    \b
    Examples:
      nodewise decide breakdown.csv --price 3.20
      nodewise decide timings.csv --price 2.10 --fixed 9 --deadline 15min
      nodewise decide rubric.csv --work 1200000 --quality-tolerance 0.005
      nodewise decide --law s=0.03,c=0.0015 --t1 1h --price 2.10 --fixed 9 --max-nodes 64
    """
    from nodewise.report import text

    decision = _decide(table, options)
    emit(decision, as_json, text.decision_report)
    if decision.recommended.nodes is None:
        sys.exit(GATE_NOT_MET)


def _decide(table: Path | None, options: dict[str, Any]) -> "Decision":
    from nodewise.decide import Needs, decide, decide_law
    from nodewise.laws import parse_law
    from nodewise.prices import Alternatives, Price

    price = Price(
        per_node_hour=options["price"],
        fixed_per_hour=options["fixed"],
        startup_seconds=options["startup"],
        billing_unit_seconds=options["billing_unit"],
        billing_minimum_seconds=options["billing_minimum"],
        source=options["price_source"],
    )
    needs = Needs(
        deadline_seconds=options["deadline"],
        deadline_confidence=options["deadline_confidence"],
        budget=options["budget"],
        value_per_hour=options["value_per_hour"],
        quality_tolerance=options["quality_tolerance"],
        quality_better=options["quality_better"],
        threshold=options["threshold"],
    )
    alternatives = Alternatives(
        spot_fraction=options["spot"],
        owned_fraction=options["owned"],
        owned_above=options["owned_above"],
        utilisation=options["utilisation"],
    )
    if (table is None) == (options["law"] is None):
        raise SpecError(
            "Hand in a TABLE or a --law, one of the two.",
            "For example: nodewise decide timings.csv --price 3.20",
        )
    if table is not None:
        _refuse("t1", "max_nodes", "noise", because="goes with --law; a table has its own")
        study = read_study(table, options["regime"], options["work"])
        return decide(study, price, needs, alternatives, options["center"])
    _refuse("work", "center", because="goes with a table")
    law = parse_law(options["law"], options["t1"], options["regime"] or "strong")
    return decide_law(law, options["max_nodes"], price, needs, alternatives, options["noise"])


def _refuse(*names: str, because: str) -> None:
    """An option that would be ignored is an error, not a silence."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise SpecError(f"{option} {because}.", f"Drop {option}.")
