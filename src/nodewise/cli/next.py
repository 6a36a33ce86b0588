"""`nodewise next`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.inputs import analysis_options, question_options, read_question, valid_or_exit
from nodewise.cli.options import FRACTION, emit, json_option, table_argument


@click.command("next")
@table_argument
@click.option("--max-nodes", type=click.IntRange(min=1), help="The most nodes there are.")
@click.option(
    "--share",
    type=FRACTION,
    default="1",
    show_default=True,
    help="The part of the job that a timing run does.",
)
@question_options
@analysis_options
@json_option
def command(
    table: Path, max_nodes: int | None, share: float, as_json: bool, **options: Any
) -> None:
    """The one further run that is worth its money, or that none is.

    TABLE is a CSV file (- reads stdin), a study folder or a page that nodewise report made. For
    every doubling of K: what a run there costs, and how much of the expected regret of the choice
    it takes away. --budget is what all further runs may cost. Measure the K it names, add it to the
    table or the spec, and ask again. Exits with 1 when the measurement is invalid.

    \b
    Examples:
      nodewise next timings.csv --price 2.10 --fixed 9 --budget 20
      nodewise next digits.study --max-nodes 64 --share 10%
    """
    import math

    import msgspec

    from nodewise.decide.forecast import advise
    from nodewise.report.text.forecast import advice_report

    study, question = read_question(table, options)
    validity = valid_or_exit(study, question, as_json)
    budget = question.needs.budget
    free = msgspec.structs.replace(question.needs, budget=None)
    question = msgspec.structs.replace(question, needs=free)
    most = math.inf if budget is None else budget
    advice = advise(study, question, most, max_nodes, share)
    emit(msgspec.structs.replace(advice, validity=validity), as_json, advice_report)
