"""`nodewise scale`."""

from pathlib import Path
from typing import Any

import click

from nodewise.cli.inputs import analysis_options, exit_if_invalid, value
from nodewise.cli.options import (
    FRACTION,
    emit,
    output_options,
    table_argument,
)
from nodewise.report.open import read_study


@click.command("scale")
@table_argument
@analysis_options
@click.option(
    "--at-efficiency",
    type=FRACTION,
    default="0.50",
    show_default=True,
    help="Also predict by Amdahl's law the K with this efficiency.",
)
@output_options
def command(table: Path, at_efficiency: float, as_json: bool, **options: Any) -> None:
    """Speedup and efficiency at every K, with intervals; the bend, the knee, the fitted laws.

    TABLE is a CSV file (- reads stdin) or a study folder. A CSV has a column K (also p, n, nodes,
    workers, gpus, ranks) and time_s, throughput or stages (compute_s, comm_s, idle_s, io_s,
    serial_s, overhead_s); rep numbers repeated runs.

    \b
    Examples:
      nodewise scale timings.csv
      nodewise scale timings.csv --center median --threshold 0.75
      nodewise scale weak.csv --regime weak --json
    """
    from nodewise.explain.scaling import scale
    from nodewise.report.text import findings as text

    result = scale(
        read_study(table, options["regime"]),
        value(options, "threshold"),
        value(options, "center"),
        at_efficiency,
    )
    emit(result, as_json, text.scaling_report)
    exit_if_invalid(result.checks)
