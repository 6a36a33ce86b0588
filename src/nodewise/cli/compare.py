"""`nodewise compare`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET
from nodewise.cli.gates import Written, fail_if_option, write_files, write_option
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
    from nodewise.decide.inputs import Question
    from nodewise.history.entry import Entry
    from nodewise.history.gates import Gate, GateResult
    from nodewise.study.study import Study


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.argument("more", type=click.Path(path_type=Path), nargs=-1)
@file_option("Also a page .html or a chart .svg, .png or .pdf.")
@fail_if_option
@write_option
@question_options
@analysis_options
@output_options
def command(
    first: Path,
    second: Path,
    more: tuple[Path, ...],
    output: Path | None,
    gates: "tuple[Gate, ...]",
    written: tuple[Written, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two studies: which is faster at each K, and what to run.

    FIRST and SECOND are CSV files, study folders or pages of nodewise report. They are compared at
    the K that both have, with the question of FIRST. A difference counts if chance alone would
    rarely give it, over all scales together. Exits with 1 when a measurement is invalid, or an
    interval excludes a limit of --fail-if. With MORE studies: the overhead of each engine.

    \b
    Examples:
      nodewise compare before.study after.study --price 3.20
      nodewise compare ours.csv theirs.csv -o compare.html
      nodewise compare old.study new.study --fail-if slower=3% --write junit=junit.xml
      nodewise compare local.study ray.study dask.study spark.study
    """
    from nodewise.decide.compare import compare_costs
    from nodewise.report.text import compare as text

    if more:
        if gates or written:
            raise click.UsageError("--fail-if and --write take two studies")
        _line_up([first, second, *more], output, options, as_json)
        return
    one, question = read_question(first, options)
    other, others_question = read_question(second, options)
    comparison = compare_costs(one, other, question)
    if question != others_question:
        note = f"{second} has other inputs; both are compared with those of {first}."
        comparison = msgspec.structs.replace(comparison, notes=(*comparison.notes, note))
    judged = _judge(gates, one, other, question) if gates or written else None
    results = judged[0] if judged else ()
    if as_json:
        shown = {**msgspec.to_builtins(comparison, str_keys=True), "gates": results}
        emit(shown if gates else comparison, as_json, text.priced_comparison_report)
    else:
        emit(comparison, as_json, lambda found: text.gated_report(found, results))
    if output is not None:
        _draw(comparison, output)
    if judged is not None:
        from nodewise.report.ci.content import of_gates

        write_files(of_gates(results, [judged[1]], text.gated_report(comparison, results)), written)
    if any(result.state == "failed" for result in results):
        sys.exit(GATE_NOT_MET)
    if "invalid" in (comparison.first_validity.state, comparison.second_validity.state):
        sys.exit(GATE_NOT_MET)


def _judge(
    gates: "tuple[Gate, ...]", first: "Study", second: "Study", question: "Question"
) -> "tuple[tuple[GateResult, ...], Entry]":
    """Each gate at each K of the second study, and that study as a line of a history."""
    from nodewise.history.entry import entry_of
    from nodewise.history.gates import judge

    before, after = (entry_of(study, question, workload=second.name) for study in (first, second))
    return tuple(result for gate in gates for result in judge(gate, [before], after)), after


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
