"""`nodewise ui`."""

import os
import sys
from pathlib import Path

import click

from nodewise.base.errors import SpecError


@click.command("ui")
@click.argument(
    "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default="."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on; default: a free one.",
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
def command(folder: Path, port: int, no_open: bool) -> None:
    """A page of all studies in FOLDER and two levels below, live while they are measured.

    Only this machine can reach it, and only with the address that is printed. Tick two studies to
    compare them. Ctrl-C ends it. It changes nothing in the studies.

    \b
    Examples:
      nodewise ui
      nodewise ui /scratch/studies --no-open --port 8765
      ssh -L 8765:127.0.0.1:8765 cluster    # then open the printed address here
    """
    from nodewise.report.live.server import Server

    try:
        server = Server(folder, port)
    except OSError as error:
        raise SpecError(
            f"Cannot listen at port {port}: {(error.strerror or 'it fails').lower()}.",
            "Name another one with --port, or leave it out for a free one.",
        ) from None
    # Reading should disturb a running measurement as little as possible.
    os.nice(10)
    with server:
        try:
            click.echo(f"Studies in {folder}: {server.url}")
            if not no_open and _has_display():
                import webbrowser

                webbrowser.open(server.url)
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped")


def _has_display() -> bool:
    """Whether a browser would open a window; without one it could take over the terminal."""
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(named) or sys.platform in ("darwin", "win32")
