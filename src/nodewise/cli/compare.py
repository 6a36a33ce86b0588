"""`nodewise compare`."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nodewise.cli.inputs import analysis_options, value
from nodewise.cli.options import emit, file_option, json_option, write


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.argument("more", type=click.Path(path_type=Path), nargs=-1)
@file_option("Also a page .html or a chart .svg, .png or .pdf.")
@analysis_options
@json_option
def command(
    first: Path,
    second: Path,
    more: tuple[Path, ...],
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Two studies side by side: which is faster at each K, and by how much.

    FIRST and SECOND are CSV files, study folders or pages that nodewise report made: before and
    after a fix, two clusters. A difference is called one when chance alone would hardly give it,
    all scales taken together.

    With MORE than two, one job on several engines: all on the base of the quickest, with the folds
    that each engine's own overhead costs.

    \b
    Examples:
      nodewise compare before.study after.study
      nodewise compare ours.csv theirs.csv -o compare.html
      nodewise compare local.study ray.study dask.study spark.study
    """
    from nodewise.explain.compare import compare, line_up
    from nodewise.report.open import open_study
    from nodewise.report.text import findings as text

    shown = value(options, "threshold"), value(options, "center")
    studies = [open_study(path, options["regime"])[0] for path in (first, second, *more)]
    if more:
        if output is not None:
            raise click.UsageError("-o takes two studies; more of them are a table only")
        emit(line_up(studies, *shown), as_json, text.lineup_report)
        return
    comparison = compare(studies[0], studies[1], *shown)
    emit(comparison, as_json, text.comparison_report)
    if output is None:
        return
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
