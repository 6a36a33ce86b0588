"""The options that let a command fail a build and write files for CI systems."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.base.errors import SpecError
from nodewise.cli.options import Parsed, write

if TYPE_CHECKING:
    from nodewise.history.gates import Gate
    from nodewise.report.ci.content import CiReport

Written = tuple[str, Path]


def _read_gate(text: str) -> "Gate":
    from nodewise.history.gates import parse_gate

    return parse_gate(text)


def _read_written(text: str) -> Written:
    from nodewise.report.ci.formats import FORMATS

    form, equals, path = text.partition("=")
    if form not in FORMATS or not equals or not path:
        raise SpecError(
            f"'{text}' names no file to write.", f"FORM is one of {', '.join(FORMATS)}."
        )
    return form, Path(path)


fail_if_option = click.option(
    "--fail-if",
    "gates",
    metavar="GATE",
    type=Parsed("gate", _read_gate),
    multiple=True,
    help="Exit with 1 beyond a limit: slower@8=3%.",
)
write_option = click.option(
    "--write",
    "written",
    metavar="FORM=FILE",
    type=Parsed("file", _read_written),
    multiple=True,
    help="Also for CI: junit=FILE, markdown=-, badge=FILE.",
)


def write_files(report: "CiReport", written: tuple[Written, ...]) -> None:
    """Write a result in every format that was asked for."""
    from nodewise.report.ci.formats import FORMATS

    for form, path in written:
        write(FORMATS[form](report), None if str(path) == "-" else path)
