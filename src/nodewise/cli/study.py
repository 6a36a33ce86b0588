"""`nodewise study`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.cli.measure import measure_spec, output_option, spec_argument
from nodewise.cli.options import emit, json_option, read_folder, to_json

if TYPE_CHECKING:
    from nodewise.decide import Decision
    from nodewise.spec import Spec
    from nodewise.study import Study


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
    from nodewise.audit import checks
    from nodewise.report import text
    from nodewise.scaling import scale

    folder = measure_spec(spec, output)
    asked, study = read_folder(folder)
    scaling = scale(study, asked.threshold)
    decision = decide_for(asked, study)
    rows = checks(asked, study, scaling)
    if as_json:
        everything = {"scaling": scaling, "decision": decision, "checks": rows}
        click.echo(to_json(everything), nl=False)
        return
    emit(scaling, False, text.scaling_report)
    emit(decision.attribution, False, text.attribution_report)
    emit(decision, False, text.decision_report)
    emit(rows, False, text.checks_report)


def decide_for(spec: "Spec", study: "Study") -> "Decision":
    """The decision with the prices and gates of a spec."""
    from nodewise.decide import Needs, decide
    from nodewise.prices import Price

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
