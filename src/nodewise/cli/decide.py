"""`nodewise decide`."""

import re
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET, SpecError
from nodewise.cli.inputs import analysis_options, asked, question_options, read_question
from nodewise.cli.options import (
    FRACTION,
    POSITIVE_DURATION,
    QUANTITY,
    SOURCE,
    Source,
    emit,
    is_given,
    output_options,
    shared,
)


class _Work(click.ParamType[Any]):
    """An amount of work, its unit, or both: 1200000, 5e9tokens, tokens."""

    name = "number[unit]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        parts = re.fullmatch(r"([+-]?[\d.]*(?:e[+-]?\d+)?)\s*([a-z]*)", value.strip().lower())
        if parts is None or not any(parts.groups()):
            self.fail(
                f"'{value}' is not an amount of work; write for example 1200000 or 5e9tokens",
                param,
                ctx,
            )
        number, unit = parts.groups()
        return (QUANTITY.convert(number, param, ctx) if number else None), unit


_work_option = click.option(
    "--work",
    type=_Work(),
    help="Work of a run: 1200000, 5e9tokens, or a unit.",
)
_law_options = shared(
    click.option(
        "--law",
        metavar="s=S,c=C",
        help="A model instead of a table; see docs/method.md.",
    ),
    click.option(
        "--t1",
        hidden=True,
        type=POSITIVE_DURATION,
        default="1h",
        show_default=True,
        help="With --law: time on one node.",
    ),
    click.option(
        "--max-nodes",
        hidden=True,
        type=click.IntRange(2, 10_000),
        default=64,
        show_default=True,
        help="With --law: the largest K.",
    ),
    click.option(
        "--noise",
        hidden=True,
        type=FRACTION,
        default="0",
        help="With --law: relative spread of a run, for the deadline.",
    ),
)


@click.command("decide")
@click.argument("tables", metavar="[TABLE...]", type=SOURCE, nargs=-1)
@question_options
@_work_option
@analysis_options
@_law_options
@output_options
def command(tables: tuple[Source, ...], as_json: bool, **options: Any) -> None:
    """Price every scale, apply the gates and recommend one.

    TABLE is a CSV file (- reads stdin), a study folder, or logs: files and folders, K=PATH where a
    log does not give K. Without a price, costs are in node-hours. Exits with 1 when no scale passes
    every gate, or the measurement is invalid.

    \b
    Examples:
      nodewise decide breakdown.csv --price 3.20
      nodewise decide timings.csv --price 2.10 --fixed 9 --deadline 15min
      nodewise decide rubric.csv --work 1200000 --quality-tolerance 0.005
      nodewise decide --law s=0.03,c=0.0015 --price 2.10 --fixed 9
    """
    if (not tables) == (options["law"] is None):
        raise SpecError(
            "Give a TABLE or a --law, one of the two.",
            "For example: nodewise decide timings.csv --price 3.20",
        )
    met = _of_table(tables, options, as_json) if tables else _of_law(options, as_json)
    if not met:
        sys.exit(GATE_NOT_MET)


def _of_table(tables: Sequence[Source], options: dict[str, Any], as_json: bool) -> bool:
    """Print the decision on a study, without the audit; return whether every gate is met."""
    from nodewise.report.findings import find
    from nodewise.report.text.findings import findings_report

    _refuse("t1", "max_nodes", "noise", because="goes with --law; a table has its own")
    amount, unit = options["work"] or (None, "")
    study, question = read_question(tables, options, amount)
    if unit:
        question = msgspec.structs.replace(question, work_unit=unit)
    findings = find(study, question)
    emit(findings.document if as_json else findings, as_json, findings_report)
    return findings.gates_are_met


def _of_law(options: dict[str, Any], as_json: bool) -> bool:
    """Print the decision on a law; return whether some scale passes every gate."""
    from nodewise.decide.decide import decide_law
    from nodewise.decide.inputs import Question
    from nodewise.explain.laws import parse_law
    from nodewise.report.findings import document
    from nodewise.report.text.findings import law_report

    _refuse("work", "center", because="goes with a table")
    question = asked(Question(), options)
    law = parse_law(options["law"], options["t1"], question.regime or "strong")
    decision = decide_law(law, options["max_nodes"], question, options["noise"])
    made = document(decision, decision.checks, question) if as_json else decision
    emit(made, as_json, law_report)
    return decision.recommended.nodes is not None


def _refuse(*names: str, because: str) -> None:
    """Raise an error for an option that would be ignored."""
    for name in names:
        if is_given(name):
            option = f"--{name.replace('_', '-')}"
            raise SpecError(f"{option} {because}.", f"Drop {option}.")
