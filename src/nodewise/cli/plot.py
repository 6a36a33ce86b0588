"""`nodewise plot`."""

from pathlib import Path
from typing import Any

import click

from nodewise.base.errors import DataError
from nodewise.cli.inputs import analysis_options, find_in, question_options
from nodewise.cli.options import file_option, table_argument, write

# As CHARTS in nodewise.report.charts.draw, which takes half a second to import; a test compares.
NAMES = (
    "speedup", "efficiency", "ledger", "stages", "timeline", "ranks", "flow", "roofline", "cost",
    "pareto", "marginal", "payment", "sensitivity", "energy", "triangle", "repeats", "forecast",
)  # fmt: skip
_OLD_NAMES = {"regimes": "payment"}  # of version 0.1


class NameChoice(click.Choice[str]):
    """One of the names; those of version 0.1 are taken as well."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name of today."""
        return super().convert(_OLD_NAMES.get(value, value), param, ctx)


@click.command("plot")
@table_argument
@click.argument("name", type=NameChoice(NAMES), required=False)
@file_option("A file .svg, .png or .pdf; .json is the Vega-Lite definition.", required=True)
@click.option(
    "--size",
    type=click.Choice(["screen", "paper", "slide"]),
    default="screen",
    show_default=True,
    help="paper: a column of 3.4 inches; slide: 16 to 9.",
)
@click.option("--slide", is_flag=True, help="Speedup, cost and losses as one picture.")
@click.option("--no-title", is_flag=True, help="Omit the title; the caption of your paper has it.")
@question_options
@analysis_options
def command(
    table: Path,
    name: str | None,
    output: Path,
    size: Any,
    slide: bool,
    no_title: bool,
    **options: Any,
) -> None:
    """One chart of the report for a paper or a slide, or three as one slide.

    TABLE is a CSV file (- reads stdin), a study folder or a page that nodewise report made.

    \b
    Examples:
      nodewise plot digits.study speedup -o speedup.svg
      nodewise plot timings.csv cost --price 3.20 --size paper -o cost.pdf
      nodewise plot breakdown.csv ledger --size slide -o ledger.png
      nodewise plot --slide timings.csv --price 3.20 -o slide.png
    """
    form: Any = output.suffix.removeprefix(".")
    if form not in ("svg", "png", "pdf", "json"):
        raise click.UsageError(f"{output}: the name must end in .svg, .png, .pdf or .json")
    if slide is (name is not None):
        raise click.UsageError("name one chart, or give --slide")
    study, findings = find_in(table, options)
    from nodewise.report.charts.draw import CHARTS, draw, sized
    from nodewise.report.charts.draw import slide as draw_slide
    from nodewise.report.images import image

    if name is None:
        write(image(draw_slide(study, findings), form), output)
        return
    figure = draw(name, study, findings)
    if figure is None:
        raise DataError(
            f"{study.name} has nothing to draw for {name}.", f"It needs {CHARTS[name].needs}."
        )
    write(image(sized(figure.chart, size, titled=not no_title), form), output)
