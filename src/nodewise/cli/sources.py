"""The options for reading files of any format."""

from typing import TYPE_CHECKING

import click

from nodewise.cli.options import Decorator, shared

if TYPE_CHECKING:
    from nodewise.importers.profilers.read import Broken
    from nodewise.importers.registry import Files

format_option = click.option(
    "--format", "form", default="", metavar="NAME", help="Format of the files; default: detected."
)
reading_options = shared(
    click.option(
        "--window",
        type=click.Choice(["all", "hta", "common"]),
        default="all",
        show_default=True,
        help="Time that counts: of each rank, as HTA, or common.",
    ),
    click.option(
        "--collective-kernels",
        default="",
        metavar="PATTERN",
        help="Other communication kernels, as a regular expression.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1, 256),
        metavar="N",
        help="Reading processes; default: cores.",
    ),
    click.option(
        "--engine",
        default="",
        metavar="URL",
        help="Read on a cluster: ray://HOST:PORT, dask://HOST:PORT.",
    ),
)


def broken_option(default: "Broken") -> Decorator:
    """What happens to a file that is damaged, cut off or no trace."""
    return click.option(
        "--broken",
        type=click.Choice(["skip", "refuse", "use"]),
        default=default,
        show_default=True,
        help="What to do with a damaged trace.",
    )


def report_skipped(files: "Files") -> None:
    """Name the files of a folder that are left out."""
    for path in files.skipped:
        click.echo(f"Left out {path}: unknown format.", err=True)
