"""`nodewise dossier`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.base.errors import GATE_NOT_MET, DataError, SpecError
from nodewise.cli.options import Parsed, file_option, json_option, to_json, write
from nodewise.report.open import open_study, read_bytes

if TYPE_CHECKING:
    from nodewise.decide.allocation.allocation import Job, Machine
    from nodewise.decide.allocation.centres import Centre
    from nodewise.report.dossier.blocks import Block
    from nodewise.report.dossier.dossier import Measured

_RUNS = re.compile(r"(?P<name>[^=]+)=(?P<runs>\d+)@(?P<k>\d+)(\*(?P<times>\d+(\.\d+)?))?")


class _Invalid(DataError):
    """A study from which no answer may be given; the command ends as `decide` does."""

    exit_code = GATE_NOT_MET


def _read_job(text: str) -> "Job":
    """`NAME=COUNT@K`, or `NAME=COUNT@K*TIMES` where a run is longer than the measured job."""
    from nodewise.decide.allocation.allocation import Job

    found = _RUNS.fullmatch(text.strip())
    if found is None:
        raise SpecError(
            f"'{text}' is not a planned run.",
            "Write NAME=COUNT@K, for example 'production=40@16'; *3 after K: three times as long.",
        )
    return Job(
        name=found["name"].strip(),
        runs=int(found["runs"]),
        nodes=int(found["k"]),
        times=float(found["times"] or 1),
    )


@click.command("dossier")
@click.argument(
    "studies", metavar="STUDY...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--for",
    "centre",
    required=True,
    metavar="CENTRE|FILE.toml",
    help="csc, archer2, gcs, nhr, incite, or a file that describes a centre.",
)
@file_option("A file .md, .tex or .docx; its pictures are written beside it.")
@click.option(
    "--runs",
    "jobs",
    multiple=True,
    metavar="NAME=COUNT@K",
    type=Parsed("runs", _read_job),
    help="Planned runs, for the resource table; *3 after K: three times as long.",
)
@click.option(
    "--cores-per-node", type=click.IntRange(1, 100_000), help="Cores of a node of the machine."
)
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 1000), help="GPUs of a node of the machine."
)
@json_option
def command(
    studies: tuple[Path, ...],
    centre: str,
    output: Path | None,
    jobs: "tuple[Job, ...]",
    cores_per_node: int | None,
    gpus_per_node: int | None,
    as_json: bool,
) -> None:
    """Write the scaling part of an application for computing time, as a centre requires it.

    STUDY is a study folder or a table; give a strong and a weak one together. Missing information
    is marked TODO(author). Exits with 1 if a measurement is invalid.

    \b
    Examples:
      nodewise dossier digits.study --for csc --cores-per-node 128
      nodewise dossier strong.csv weak.csv --for archer2 --runs production=40@16 -o dossier.tex
    """
    from nodewise.decide.allocation.allocation import Machine

    asked = _centre(centre)
    machine = Machine(cores_per_node=cores_per_node, gpus_per_node=gpus_per_node)
    measured = [_measured(path, asked, machine, jobs) for path in studies]
    if as_json:
        click.echo(to_json([one.allocation for one in measured]), nl=False)
        return
    from nodewise.report.dossier.dossier import dossier

    _write(dossier(asked, measured, pictures=output is not None), output)


def _centre(name: str) -> "Centre":
    """A centre by its key, or the first one of a file."""
    from nodewise.decide.allocation.centres import parse_centres, read_centres

    if name.endswith(".toml"):
        found = parse_centres(read_bytes(Path(name)).decode("utf-8", "replace"))
        return next(iter(found.values()))
    known = read_centres()
    if name not in known:
        raise SpecError(
            f"'{name}' is not a centre that nodewise knows.",
            f"Use one of: {', '.join(known)}, or a file FILE.toml that describes one.",
        )
    return known[name]


def _measured(
    path: Path, centre: "Centre", machine: "Machine", jobs: "tuple[Job, ...]"
) -> "Measured":
    from nodewise.decide.allocation.allocation import allocation
    from nodewise.explain.scaling import timings
    from nodewise.report.dossier.dossier import Measured, doubts
    from nodewise.report.findings import find

    study, question = open_study(path)
    findings = find(study, question)
    if findings.decision.validity.state == "invalid":
        raise _Invalid(
            f"{study.name}: {findings.decision.validity.clause}.",
            f"Correct the study first; the fix: nodewise decide {path}",
        )
    if study.regime == "weak":
        return Measured(study, findings, None)
    missing = [job.nodes for job in jobs if job.nodes not in study.scales]
    if missing:
        raise DataError(
            f"K={missing[0]} of --runs was not measured; measured are "
            f"{', '.join(map(str, study.scales))}.",
            "Plan runs at a measured K, or measure that one.",
        )
    times = timings(study, question.center)
    made = allocation(
        *(centre, findings.scaling, times, study.scale_unit, machine, jobs),
        decided=findings.decision.rows,
        doubts=doubts(study, findings),
    )
    return Measured(study, findings, made)


def _write(blocks: "list[Block]", output: Path | None) -> None:
    from nodewise.report.dossier.blocks import Picture, as_latex, as_markdown
    from nodewise.report.dossier.word import as_docx

    if output is None:
        click.echo(as_markdown(blocks), nl=False)
        return
    pictures = [block for block in blocks if isinstance(block, Picture)]
    if output.suffix == ".md":
        write(as_markdown(blocks), output)
        for picture in pictures:
            write(picture.png, output.with_name(f"{picture.name}.png"))
    elif output.suffix == ".tex":
        write(as_latex(blocks), output)
        for picture in pictures:
            write(picture.pdf, output.with_name(f"{picture.name}.pdf"))
    elif output.suffix == ".docx":
        write(as_docx(blocks), output)
    else:
        raise SpecError(f"{output}: a dossier ends in .md, .tex or .docx.", "Write -o dossier.md.")
