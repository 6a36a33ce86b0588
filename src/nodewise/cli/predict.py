"""`nodewise predict`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from nodewise.cli.inputs import (
    analysis_options,
    question_options,
    read_question,
    settings_of,
    valid_or_exit,
)
from nodewise.cli.options import emit, output_options, parse_scales, table_argument


@click.command("predict")
@table_argument
@click.option("--at", "scales", help="The K to predict: 16,32,64. [two more]")
@click.option(
    "--cluster",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Predict for the cluster of this TOML file.",
)
@click.option(
    "--what-if",
    "changes",
    metavar="LIST",
    help="Causes made smaller: communication=0.5x.",
)
@question_options
@analysis_options
@output_options
def command(
    table: Path,
    scales: str | None,
    cluster: Path | None,
    changes: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict the time at scales that were not run, with intervals, and the cheapest K.

    TABLE is a CSV file (- reads stdin), a study folder or a page of nodewise report, with at least
    three measured scales. Recorded stages get a law each. Intervals are calibrated on published
    curves. --cluster predicts the times on other nodes and another link, and lists what it
    assumes. --what-if needs recorded stages. Exits with 1 when the measurement is invalid.

    \b
    Examples:
      nodewise predict timings.csv
      nodewise predict digits.study --at 16,32 --price 3.20 --fixed 9
      nodewise predict digits.study --cluster examples/slower-link.toml
      nodewise predict digits.study --what-if communication=0.5x
    """
    from nodewise.decide.forecast import predict
    from nodewise.report.text.forecast import forecast_report

    study, question = read_question(table, options)
    valid_or_exit(study, question, as_json)
    wanted = parse_scales(scales) if scales else ()
    if changes is not None:
        if cluster is not None:
            raise click.UsageError("--what-if and --cluster exclude each other")
        from nodewise.decide.what_if import parse_changes, what_if
        from nodewise.report.text.forecast import what_if_report

        found = what_if(study, question, parse_changes(changes, study), wanted)
        emit(found, as_json, what_if_report)
        return
    if cluster is None:
        emit(predict(study, question, wanted), as_json, forecast_report)
        return
    from nodewise.decide.paper.files import read_move
    from nodewise.decide.paper.relocate import rehearsed_place, relocate
    from nodewise.report.text.forecast import relocated_report

    move = read_move(cluster, rehearsed_place(study))
    if {"price", "instance"} & settings_of(options).keys():
        move = msgspec.structs.replace(move, price=question.price)
    emit(relocate(study, move, question, wanted), as_json, relocated_report)
