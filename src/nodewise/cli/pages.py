"""The page of a command's result: one file, HTML or PDF, that needs no network and no scripts."""

import datetime
import hashlib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.cli.options import write
from nodewise.study.files import open_regular

if TYPE_CHECKING:
    from nodewise.report.page.content import Page
    from nodewise.report.tables import Table

_MOST_FILES = 40  # in the table of sources


def _named(_ctx: click.Context, _param: click.Parameter, target: Path | None) -> Path | None:
    if target is not None and target.suffix not in (".html", ".pdf"):
        raise click.BadParameter(f"{target}: the name must end in .html or .pdf")
    return target


page_option = click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_named,
    help="Also write a page with charts: .html or .pdf.",
)


def write_page(content: "Page", target: Path, sources: Iterable[Path] = ()) -> None:
    """Write the page with the files it was made from and the command that makes it again."""
    import msgspec

    from nodewise.report.page.template import render

    now = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    whole = msgspec.structs.replace(
        content,
        provenance=_provenance(sources),
        reproduce=shlex.join(["nodewise", *sys.argv[1:]]),
        made=f"{now} UTC",
    )
    save_page(render(whole), target)


def save_page(html: str, target: Path) -> None:
    """Write HTML, or print it as PDF where the name ends so."""
    if target.suffix == ".html":
        write(html, target)
        return
    from nodewise.cli.printing import print_page

    write(print_page(html), target)


def _provenance(sources: Iterable[Path]) -> "Table | None":
    """Each file with its size and checksum; of a folder, the files in it."""
    from nodewise.report.tables import rows_table

    files = [file for source in sources for file in _files(source)]
    rows = [
        {
            "file": str(file),
            "bytes": file.stat().st_size,
            "sha256": _checksum(file),
        }
        for file in files[:_MOST_FILES]
    ]
    if not rows:
        return None
    more = f", the first {_MOST_FILES} of {len(files)}" if len(files) > _MOST_FILES else ""
    return rows_table(f"Files that were read{more}", rows, left=("file", "sha256"))


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        return sorted(file for file in source.iterdir() if file.is_file() and not file.is_symlink())
    return [source] if source.is_file() else []


def _checksum(file: Path) -> str:
    with open_regular(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]
