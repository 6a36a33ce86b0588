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
        help="all: each rank from its first work to its last; hta: as Holistic Trace Analysis, "
        "without the last step; common: from the first work of any rank to the last.",
    ),
    click.option(
        "--collective-kernels",
        default="",
        metavar="PATTERN",
        help="More kernels that communicate, beside NCCL's, as a regular expression.",
    ),
    click.option(
        "--jobs", type=click.IntRange(1, 256), help="Processes to read with; default: the cores."
    ),
    click.option(
        "--engine",
        default="",
        metavar="ray|dask[://HOST:PORT]",
        help="Read on the workers of a cluster, which must see the files under the same paths.",
    ),
)


def broken_option(default: "Broken") -> Decorator:
    """What happens to a file that is damaged, cut off or no trace."""
    return click.option(
        "--broken",
        type=click.Choice(["skip", "refuse", "use"]),
        default=default,
        show_default=True,
        help="A damaged trace: leave its rank out, refuse all, or use what was read of it.",
    )


def report_skipped(files: "Files") -> None:
    """Name the files of a folder that are left out."""
    for path in files.skipped:
        click.echo(f"Left out {path}: unknown format.", err=True)
