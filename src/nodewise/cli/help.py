"""`nodewise help`."""

from typing import TYPE_CHECKING

import click

from nodewise.cli.options import emit, json_option

if TYPE_CHECKING:
    from nodewise.audit.rules import Rule
    from nodewise.report.sections import Report


@click.command("help")
@click.argument("topic", required=False)
@json_option
@click.pass_context
def command(ctx: click.Context, topic: str | None, as_json: bool) -> None:
    """Help on a command, or the list of the inputs of a question.

    `nodewise help inputs` lists every input: its key for --set, its place in a TOML file, its unit
    and its default. An input can also be set by an option of its name, --spot 0.3 for example.
    `nodewise help formats` lists the files that nodewise reads, `nodewise help rules` the rules of
    the audit, and `nodewise help json` prints the JSON Schema of `nodewise decide --json`.

    \b
    Examples:
      nodewise help inputs
      nodewise help formats
      nodewise help rules
      nodewise help json > schema.json
      nodewise help decide
    """
    if topic == "inputs":
        emit(inputs(), as_json, _report)
        return
    if topic == "formats":
        emit(_formats(), as_json, _formats_report)
        return
    if topic == "rules":
        emit(_rules(), as_json, _rules_report)
        return
    if topic == "json":
        from nodewise.report.schema import document_schema

        emit(document_schema(), True, list)
        return
    group = ctx.find_root()
    if topic is None:
        click.echo(group.get_help())
        return
    assert isinstance(group.command, click.Group)
    found = group.command.get_command(group, topic)
    if found is None:
        raise click.UsageError(
            f"No such topic '{topic}'. Topics are inputs, formats, rules, json and every command."
        )
    with click.Context(found, info_name=topic, parent=group) as inner:
        click.echo(found.get_help(inner))


def inputs() -> list[dict[str, str]]:
    """Every input of a question: key, place in TOML, unit, default and meaning."""
    from nodewise.decide.inputs import INPUTS, default_text

    return [
        {
            "key": row.key,
            "toml": row.toml,
            "unit": f"{row.kind.name} or range" if row.ranged else row.kind.name,
            "default": default_text(row),
            "help": row.help,
        }
        for row in INPUTS.values()
    ]


def _report(rows: list[dict[str, str]]) -> "Report":
    titles = ("--set key", "in TOML", "unit", "default", "meaning")
    return _listed("inputs", titles, tuple(tuple(row.values()) for row in rows))


def _formats() -> list[dict[str, str]]:
    from nodewise.importers.registry import FORMATS

    return [{"name": one.name, "gives": one.gives, "title": one.title} for one in FORMATS]


def _formats_report(rows: list[dict[str, str]]) -> "Report":
    titles = ("--format", "gives", "file")
    return _listed("formats", titles, tuple(tuple(row.values()) for row in rows))


def _rules() -> "tuple[Rule, ...]":
    from nodewise.audit.rules import read_rules

    return read_rules()


def _rules_report(rules: "tuple[Rule, ...]") -> "Report":
    titles = ("rule", "for", "if broken", "remedy")
    return _listed(
        "rules",
        titles,
        tuple((rule.rule, rule.applies, rule.severity, rule.remedy) for rule in rules),
    )


def _listed(name: str, titles: tuple[str, ...], cells: tuple[tuple[str, ...], ...]) -> "Report":
    from nodewise.report.tables import Table

    return [Table(name=name, titles=titles, rows=cells, left=frozenset(titles))]
