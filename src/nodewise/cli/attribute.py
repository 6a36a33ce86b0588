"""`nodewise attribute`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.inputs import analysis_options, exit_if_invalid, value
from nodewise.cli.options import emit, output_options, table_argument
from nodewise.report.open import read_study


@click.command("attribute")
@table_argument
@analysis_options
@output_options
def command(table: Path, as_json: bool, **options: Any) -> None:
    """The causes of lost speedup at every K, and the change that would help most.

    TABLE is a CSV file (- reads stdin) or a study folder. Better records name more causes: a row
    for each rank (columns rank, compute_s, comm_s, idle_s, io_s, serial_s, overhead_s, and work for
    its items), stage totals, or bare times, to which laws are fitted. If stages exceed time_s,
    communication overlapped with compute is hidden and costs nothing.

    \b
    Examples:
      nodewise attribute digits.study
      nodewise attribute breakdown.csv --threshold 0.8
      nodewise attribute ranks.csv --json
    """
    from nodewise.explain.attribute import attribute
    from nodewise.report.text import findings as text

    study = read_study(table, options["regime"])
    found = attribute(study, value(options, "threshold"), value(options, "center"))
    emit(found, as_json, text.attribution_report)
    exit_if_invalid(found.checks)
