"""`nodewise compare`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET
from nodewise.cli.inputs import (
    ANALYSIS,
    analysis_options,
    question_options,
    read_question,
    settings_of,
    value,
)
from nodewise.cli.options import emit, file_option, output_options, write

if TYPE_CHECKING:
    from nodewise.decide.compare import PricedComparison


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.argument("more", type=click.Path(path_type=Path), nargs=-1)
@file_option("Also a page .html or a chart .svg, .png or .pdf.")
@question_options
@analysis_options
@output_options
def command(
    first: Path,
    second: Path,
    more: tuple[Path, ...],
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two studies: which is faster at each K, and what to run.

    FIRST and SECOND are CSV files, study folders or pages of nodewise report. They are compared at
    the K that both have, with the question of FIRST. A difference counts if chance alone would
    rarely give it, over all scales together. Exits with 1 when a measurement is invalid.

    With MORE studies: one job on several engines, and the speedup lost to each engine's overhead.

    \b
    Examples:
      nodewise compare before.study after.study --price 3.20
      nodewise compare ours.csv theirs.csv -o compare.html
      nodewise compare local.study ray.study dask.study spark.study
    """
    from nodewise.decide.compare import compare_costs
    from nodewise.report.text import compare as text

    if more:
        _line_up([first, second, *more], output, options, as_json)
        return
    one, question = read_question(first, options)
    other, others_question = read_question(second, options)
    comparison = compare_costs(one, other, question)
    if question != others_question:
        note = f"{second} asks another question; both answer that of {first}."
        comparison = msgspec.structs.replace(comparison, notes=(*comparison.notes, note))
    emit(comparison, as_json, text.priced_comparison_report)
    if output is not None:
        _draw(comparison, output)
    if "invalid" in (comparison.first_validity.state, comparison.second_validity.state):
        sys.exit(GATE_NOT_MET)


def _draw(comparison: "PricedComparison", output: Path) -> None:
    from nodewise.report.charts.draw import compare as compare_chart
    from nodewise.report.charts.draw import sized
    from nodewise.report.images import image

    form: Any = output.suffix.removeprefix(".")
    if form == "html":
        from nodewise.report.page.html import comparison_page
        from nodewise.report.page.vega import vega_bundle

        again = shlex.join(["nodewise", *sys.argv[1:]])
        write(comparison_page(comparison, again, vega_bundle()), output)
    elif form in ("svg", "png", "pdf"):
        write(image(sized(compare_chart(comparison).chart), form), output)
    else:
        raise click.UsageError(f"{output}: the name must end in .html, .svg, .png or .pdf")


def _line_up(
    paths: list[Path], output: Path | None, options: dict[str, Any], as_json: bool
) -> None:
    from nodewise.explain.compare import line_up
    from nodewise.report.open import open_study
    from nodewise.report.text.compare import lineup_report

    if output is not None:
        raise click.UsageError("-o takes two studies; more of them are a table only")
    ignored = [key for key in settings_of(options) if key not in ANALYSIS]
    if ignored:
        raise click.UsageError(f"--{ignored[0]} takes two studies; more of them have no costs")
    studies = [open_study(path, options["regime"])[0] for path in paths]
    shown = value(options, "threshold"), value(options, "center")
    emit(line_up(studies, *shown), as_json, lineup_report)
