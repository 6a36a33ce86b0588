"""`nodewise attribute`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.options import analysis_options, emit, json_option, read_study, table_argument


@click.command("attribute")
@table_argument
@analysis_options
@json_option
def command(table: Path, regime: Any, threshold: float, center: Any, as_json: bool) -> None:
    """The cause of every lost fold of speedup at every K, and the one change that would help.

    The better the records, the more the ledger can name: a row for each rank (columns rank,
    compute_s, comm_s, idle_s, io_s, serial_s, overhead_s, and work for its items), stage totals, or
    bare times, to which a law is fitted.

    \b
    Examples:
      nodewise attribute breakdown.csv
      nodewise attribute ranks.csv --json
    """
    from nodewise.attribute import attribute
    from nodewise.report import text

    emit(attribute(read_study(table, regime), threshold, center), as_json, text.attribution_report)
