"""`nodewise next`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.inputs import analysis_options, question_options, read_question, valid_or_exit
from nodewise.cli.options import FRACTION, MONEY, emit, output_options, table_argument


@click.command("next")
@table_argument
@click.option("--spend", type=MONEY, help="Largest cost of the further runs.")
@click.option("--max-nodes", type=click.IntRange(min=1), help="Largest number of nodes available.")
@click.option(
    "--share",
    type=FRACTION,
    default="1",
    show_default=True,
    help="Share of the job that a timing run does.",
)
@question_options
@analysis_options
@output_options
def command(
    table: Path,
    spend: float | None,
    max_nodes: int | None,
    share: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Propose the next run that is worth its cost, or say that no run is needed.

    TABLE is a CSV file (- reads stdin), a study folder or a page that nodewise report made. The
    objective is that of nodewise decide. next proposes a scale that is likely better than the
    recommended one, repeats that decide between candidates, or the run that reduces the expected
    regret most for its cost. Measure it, add it to the table or the spec, and ask again. Exits with
    1 when the measurement is invalid.

    \b
    Examples:
      nodewise next timings.csv --price 2.10 --fixed 9 --spend 20
      nodewise next digits.study --max-nodes 64 --share 10%
    """
    import math

    from nodewise.decide.forecast import advise
    from nodewise.report.text.forecast import advice_report

    study, question = read_question(table, options)
    valid_or_exit(study, question, as_json)
    most = math.inf if spend is None else spend
    emit(advise(study, question, most, max_nodes, share), as_json, advice_report)
