"""`nodewise predict`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.options import analysis_options, emit, json_option, table_argument
from nodewise.cli.question import asked, question_options, read_question
from nodewise.cli.simulate import parse_scales


@click.command("predict")
@table_argument
@click.option("--at", "scales", help="The K to predict, for example 16,32,64; default: two more.")
@question_options
@analysis_options
@json_option
def command(table: Path, scales: str | None, as_json: bool, **options: Any) -> None:
    """T(K) at scales nobody ran, how sure that is, and where the cheapest K then lies.

    At least three measured scales are needed. Where stages were recorded each gets a law of its
    own. Intervals are calibrated on published curves.

    \b
    Examples:
      nodewise predict timings.csv
      nodewise predict digits.study --at 16,32 --price 3.20 --fixed 9
    """
    from nodewise.forecast import forecast
    from nodewise.report.forecasts import forecast_report

    study, question = read_question(table, options["regime"])
    wanted = parse_scales(scales) if scales else ()
    emit(forecast(study, asked(question, options), wanted), as_json, forecast_report)
