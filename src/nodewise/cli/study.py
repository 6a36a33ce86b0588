"""`nodewise study`."""

from pathlib import Path

import click

from nodewise.cli.measure import measure_spec, output_option, spec_argument
from nodewise.cli.options import emit, json_option, read_folder


@click.command("study")
@spec_argument
@output_option
@json_option
def command(spec: Path, output: Path | None, as_json: bool) -> None:
    """Measure the job of SPEC, name the cause of every lost fold, and recommend a scale.

    \b
    Examples:
      nodewise study study.toml
      nodewise study study.toml --json > result.json
    """
    from nodewise.attribute import attribute
    from nodewise.report import text
    from nodewise.scaling import scale

    folder = measure_spec(spec, output)
    asked, study = read_folder(folder)
    if not as_json:
        emit(scale(study, asked.threshold), False, text.scaling_report)
        emit(attribute(study, asked.threshold), False, text.attribution_report)
    emit(decide_folder(folder), as_json, text.decision_report)


def decide_folder(folder: Path) -> object:
    """The decision for a study folder, with the prices and gates of its spec."""
    from nodewise.decide import Needs, decide
    from nodewise.prices import Price

    spec, study = read_folder(folder)
    price = Price(
        per_node_hour=spec.price.per_node_hour,
        fixed_per_hour=spec.price.fixed_per_hour,
        startup_seconds=spec.price.startup_seconds,
        source=spec.price.source,
    )
    needs = Needs(
        value_per_hour=spec.price.value_per_hour,
        quality_tolerance=spec.quality.tolerance,
        quality_better=spec.quality.better,
        threshold=spec.threshold,
    )
    return decide(study, price, needs)
