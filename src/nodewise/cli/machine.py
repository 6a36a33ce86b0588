"""`nodewise machine`."""

from pathlib import Path

import click

from nodewise.cli.options import emit, json_option


@click.command("machine")
@click.option("--refresh", is_flag=True, help="Measure again, although nothing changed.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Measure the disk below this folder; default: here.",
)
@click.option("--peer", metavar="HOST:PORT", default="", help="Measure the network to a --serve.")
@click.option(
    "--serve",
    "port",
    type=click.IntRange(1, 65535),
    help="Answer a --peer on this port, until Ctrl-C.",
)
@json_option
def command(refresh: bool, folder: Path, peer: str, port: int | None, as_json: bool) -> None:
    """Measure this node's ceilings: arithmetic, memory, page faults, disk, links, GPUs.

    Takes less than a minute and, for that time, a quarter of a gigabyte of disk. The result is kept
    until the machine changes (processor, cores, limits, kernel). Short windows count only when no
    other process had the core, so other load hardly matters. The output says how busy the machine
    was.

    \b
    Examples:
      nodewise machine
      nodewise machine --refresh --json
      nodewise machine --serve 7300                  # on the other node
      nodewise machine --peer other-node:7300
    """
    if port is not None:
        from nodewise.diagnose.machine.links import serve

        click.echo(f"Answering on port {port}; stop with Ctrl-C.", err=True)
        serve(port)
        return
    if peer and not peer.rpartition(":")[2].isdigit():
        raise click.UsageError("--peer: write HOST:PORT")
    from nodewise.diagnose.machine.measured import machine
    from nodewise.report.text import diagnose as text_diagnose

    found, _ = machine(folder, refresh, peer)
    emit(found, as_json, text_diagnose.machine_report)
