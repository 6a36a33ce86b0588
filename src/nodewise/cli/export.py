"""`nodewise export`."""

import os
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise import __version__
from nodewise.base.errors import DataError, SpecError
from nodewise.cli.options import file_option, to_json, write
from nodewise.report.open import read_folder
from nodewise.study.files import file_name, own_folder, read_own, read_regular

if TYPE_CHECKING:
    from nodewise.report.findings import Findings
    from nodewise.report.tables import Table
    from nodewise.study.study import Study

_README = """\
{name}: a scaling study, as measured with nodewise {version}.

study.toml         the spec            runs.jsonl   every run, including failed ones
ranks/             step stamps         samples.csv  the same runs as a table
environment.json   machine, software and code of the runs, packages of this machine
result.json        the analysis        audit.json   the audit rules and their answers
tables/            as CSV, Markdown and LaTeX       figures/     as SVG
workload/          the job, if it was given
SHA256SUMS         sha256sum -c SHA256SUMS

Repeat it and compare scale by scale:  nodewise rerun {file}
"""


@click.command("export")
@click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
@file_option("The bundle; default: NAME.zip.")
@click.option(
    "--workload",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with the job, to go into the bundle; without it only its commit is named.",
)
def command(study: Path, output: Path | None, workload: Path | None) -> None:
    """Write a study as one bundle: raw runs, spec, environment, plots, tables, checksums.

    STUDY is a study folder. Anyone can check the bundle, and repeat it with nodewise rerun.

    \b
    Examples:
      nodewise export digits.study
      nodewise export digits.study --workload examples -o artifact.zip
    """
    from nodewise.study import bundle

    measured = read_folder(study)
    target = output or Path(f"{file_name(measured.name)}.zip")
    if target.suffix != ".zip":
        raise SpecError(f"{target}: a bundle ends in .zip.", f"Write -o {target.stem}.zip.")
    files = _raw(study) | _analysed(measured)
    if workload is not None:
        files |= _workload(workload, study)
    readme = _README.format(name=measured.name, version=__version__, file=target.name)
    write(bundle.pack(files | {"README.txt": readme.encode()}), target)


def _raw(folder: Path) -> dict[str, bytes]:
    """What was measured, byte for byte."""
    from nodewise.study import store

    ranks = folder / store.RANKS
    try:
        stamps = sorted(own_folder(ranks).glob("*")) if os.path.lexists(ranks) else []
        names = [folder / store.SPEC, folder / store.RUNS, *stamps]
        return {str(path.relative_to(folder)): read_own(path) for path in names}
    except OSError as error:
        raise DataError(
            f"Cannot read {error.filename}: {error.strerror}.",
            "A study folder holds regular files only; remove what is not.",
        ) from None


def _workload(workload: Path, study: Path) -> dict[str, bytes]:
    """The files of the job; a link that leads out of its folder is refused."""
    home, found = workload.resolve(), {}
    for file in sorted(workload.rglob("*")):
        if not file.is_file() or {".git", "__pycache__"} & set(file.parts):
            continue
        place = file.resolve()
        if study.resolve() in place.parents:
            continue
        if home not in place.parents:
            raise SpecError(
                f"{file} is a symbolic link to a file outside of {workload}.",
                "Put the file itself there, or remove the link.",
            )
        found[f"workload/{file.relative_to(workload)}"] = read_regular(file)
    return found


def _analysed(study: "Study") -> dict[str, bytes]:
    """What is computed from it: so that a reader needs no nodewise."""
    from nodewise.audit.rules import audit, read_rules
    from nodewise.decide.prices.lookup import question_of
    from nodewise.report.charts.draw import figures, sized
    from nodewise.report.export import export
    from nodewise.report.findings import find
    from nodewise.report.images import image
    from nodewise.study.claim import claim_of_study
    from nodewise.study.table import format_table

    rules = read_rules()
    findings = find(study, question_of(study.asked), rules)
    made = {
        "samples.csv": format_table(study).encode(),
        "result.json": to_json(findings.document).encode(),
        "audit.json": to_json(audit(claim_of_study(study), rules)).encode(),
        "environment.json": to_json(_environment(study)).encode(),
    }
    forms: tuple[Any, ...] = ("csv", "md", "tex")
    for name, table in _tables(study, findings).items():
        if table is not None and table.rows:
            for form in forms:
                text = export(table, form, f"{study.name}, {study.regime} scaling")
                made[f"tables/{name}.{form}"] = (text + "\n").encode()
    for figure in figures(study, findings):
        made[f"figures/{figure.name}.svg"] = image(sized(figure.chart), "svg")
    return made


def _tables(study: "Study", findings: "Findings") -> "dict[str, Table | None]":
    from nodewise.report import tables

    return {
        "scaling": tables.scaling_table(findings.scaling),
        "laws": tables.laws_table(findings.scaling),
        "ledger": tables.ledger_table(findings.attribution),
        "rubric": tables.rubric_table(findings.decision),
        "checks": tables.checks_table(findings.checks),
        "failures": tables.failures_table(study),
        "provenance": tables.provenance_table(study),
    }


def _environment(study: "Study") -> dict[str, Any]:
    """Facts of the runs, each with the values it had, and the packages that are installed here."""
    facts: dict[str, list[str]] = {}
    for run in study.runs:
        for name, value in run.provenance.items():
            seen = facts.setdefault(name, [])
            if str(value) not in seen:
                seen.append(str(value))
    packages = {one.metadata["Name"]: one.version for one in distributions()}
    return {
        "runs": dict(sorted(facts.items())),
        "python": sys.version.split()[0],
        "packages": dict(sorted(packages.items())),
    }
