"""`nodewise table`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import DataError
from nodewise.cli.inputs import analysis_options, find_in, question_options
from nodewise.cli.options import file_option, table_argument, write
from nodewise.cli.plot import NameChoice

if TYPE_CHECKING:
    from nodewise.report.findings import Findings
    from nodewise.report.tables import Table

_NAMES = ("rubric", "scaling", "laws", "ledger", "causes", "pop", "marginal", "payment", "checks")


@click.command("table")
@table_argument
@click.argument("name", type=NameChoice(_NAMES))
@file_option("A file .md, .tex or .csv; default: Markdown on stdout.")
@question_options
@analysis_options
def command(table: Path, name: str, output: Path | None, **options: Any) -> None:
    """One table of the report, for a paper, a README or a spreadsheet.

    TABLE is a CSV file (- reads stdin), a study folder or a page that nodewise report made.

    \b
    Examples:
      nodewise table digits.study rubric
      nodewise table timings.csv scaling -o scaling.tex
    """
    from nodewise.report.export import export

    study, findings = find_in(table, options)
    made = _table(name, findings)
    if made is None or not made.rows:
        raise DataError(
            f"{study.name} has nothing for the table {name}.",
            "Every study has rubric, scaling and ledger.",
        )
    form: Any = "md" if output is None else output.suffix.removeprefix(".")
    if form not in ("md", "tex", "csv"):
        raise click.UsageError(f"{output}: the name must end in .md, .tex or .csv")
    write(export(made, form, f"{study.name}, {study.regime} scaling") + "\n", output)


def _table(name: str, findings: "Findings") -> "Table | None":
    from nodewise.report import tables

    decision, attribution = findings.decision, findings.attribution
    makers: dict[str, Callable[[], Table | None]] = {
        "rubric": lambda: tables.rubric_table(decision),
        "scaling": lambda: tables.scaling_table(findings.scaling),
        "laws": lambda: tables.laws_table(findings.scaling),
        "ledger": lambda: tables.ledger_table(attribution),
        "causes": lambda: tables.causes_table(attribution.bend_row),
        "pop": lambda: None if attribution.pop is None else tables.pop_table(attribution.pop),
        "marginal": lambda: tables.marginal_table(decision.marginal, decision),
        "payment": lambda: tables.payment_table(decision),
        "checks": lambda: tables.checks_table(findings.checks),
    }
    return makers[name]()
