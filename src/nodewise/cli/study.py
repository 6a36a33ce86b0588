"""`nodewise study`."""

import sys
from pathlib import Path

import click

from nodewise.base.errors import GATE_NOT_MET
from nodewise.cli.measure import (
    dry_run_option,
    measure_spec,
    output_option,
    print_plans,
    read_spec,
    spec_argument,
)
from nodewise.cli.options import emit, output_options, to_json
from nodewise.cli.report import page_of
from nodewise.report.open import read_folder
from nodewise.study.files import replace


@click.command("study")
@spec_argument
@output_option
@dry_run_option
@output_options
def command(spec: Path, output: Path | None, dry_run: bool, as_json: bool) -> None:
    """Measure the job of SPEC, name the causes of lost speedup, and recommend a scale.

    The study folder also gets the page report.html and the JSON file result.json. Runs that were
    already made are not repeated. Exits with 1 when a gate of the spec is not met, 3 when the job
    cannot be started, 4 when fewer than two scales worked.

    \b
    Examples:
      nodewise study study.toml
      nodewise study study.toml --dry-run
      nodewise study study.toml --json > result.json
    """
    from nodewise.study.spec import refuse_one_scale

    read = read_spec(spec)[1]
    refuse_one_scale(read.scales)
    if dry_run:
        print_plans(read, spec, output, as_json)
        return
    answer(measure_spec(spec, output), as_json)


def answer(folder: Path, as_json: bool) -> None:
    """Print what a measured study says, write its page, and exit with 1 where a gate is not met."""
    from nodewise.audit.rules import read_rules
    from nodewise.decide.prices.lookup import question_of
    from nodewise.report.findings import find
    from nodewise.report.text import findings as text

    study = read_folder(folder)
    findings = find(study, question_of(study.asked), read_rules())
    replace(folder / "result.json", to_json(findings.document))
    replace(folder / "report.html", page_of(study, findings, folder))
    ending = [f"Page: {folder / 'report.html'}", f"Next: nodewise ui {folder.parent}"]
    emit(
        findings.document if as_json else findings,
        as_json,
        lambda found: text.findings_report(found, ending),
    )
    if not findings.gates_are_met:
        sys.exit(GATE_NOT_MET)
