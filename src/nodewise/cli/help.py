"""`nodewise help`."""

from typing import TYPE_CHECKING

import click

from nodewise.cli.options import emit, json_option

if TYPE_CHECKING:
    from nodewise.report.text.findings import Report

_FIELDS = ("key", "toml", "unit", "default", "help")


@click.command("help")
@click.argument("topic", required=False)
@json_option
@click.pass_context
def command(ctx: click.Context, topic: str | None, as_json: bool) -> None:
    """Help on a command, or the list of the inputs of a question.

    `nodewise help inputs` lists every input: its key for --set, its place in a TOML file, its unit
    and its default. An input can also be set by an option of its name, --spot 0.3 for example.

    \b
    Examples:
      nodewise help inputs
      nodewise help decide
    """
    if topic == "inputs":
        emit(_inputs(), as_json, _report)
        return
    group = ctx.find_root()
    if topic is None:
        click.echo(group.get_help())
        return
    assert isinstance(group.command, click.Group)
    found = group.command.get_command(group, topic)
    if found is None:
        raise click.UsageError(f"No such topic '{topic}'. Topics are inputs and every command.")
    with click.Context(found, info_name=topic, parent=group) as inner:
        click.echo(found.get_help(inner))


def _inputs() -> list[dict[str, str]]:
    from nodewise.decide.inputs import INPUTS, default_text

    rows = []
    for row in INPUTS.values():
        unit = f"{row.kind.name} or range" if row.ranged else row.kind.name
        rows.append(
            dict(zip(_FIELDS, (row.key, row.toml, unit, default_text(row), row.help), strict=True))
        )
    return rows


def _report(rows: list[dict[str, str]]) -> "Report":
    from nodewise.report.tables import Table

    table = Table(
        name="inputs",
        titles=("--set key", "in TOML", "unit", "default", "meaning"),
        rows=tuple(tuple(row.values()) for row in rows),
        left=frozenset({"--set key", "in TOML", "unit", "default", "meaning"}),
    )
    return [table]
