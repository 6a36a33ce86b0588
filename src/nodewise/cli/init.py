"""`nodewise init`."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nodewise.base.errors import SpecError
from nodewise.cli.inputs import stated_inputs, stated_options
from nodewise.cli.options import MONEY, file_option, is_given, parse_scales, to_json
from nodewise.cli.spec_file import ENGINES, engine_of, new_text, rounds_option, write_spec

_INPUTS = ("regime", "price", "price-source")


@click.command("init")
@file_option("The file to write.", default="study.toml", show_default=True)
@click.option("--name", default="study", show_default=True, help="Name of the study.")
@click.option(
    "--command",
    "workload",
    default="{python} train.py",
    show_default=True,
    help="The job, as one string.",
)
@click.option("--scales", default="1,2,4,8", show_default=True, help="The K to run.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Where the K workers run [local]; nodewise doctor says which are ready here.",
)
@rounds_option
@stated_options(*_INPUTS)
@click.option("--schema", is_flag=True, help="Print the JSON schema of a spec instead.")
def command(schema: bool, output: Path, **answers: Any) -> None:
    """Write a commented spec of a scaling study, ready for nodewise study.

    On a terminal and without options it asks for what it needs. It overwrites no file. In the
    command, {python} is this Python, {nodes} for K, {round} and {seed} for those of a run.
    A command with {n} starts its own K workers. To measure without a spec: nodewise run.

    \b
    Examples:
      nodewise init --command "{python} train.py --steps 100" --scales 1,2,4
      nodewise init --engine mpi --command "{python} heat.py" -o heat.toml
    """
    from nodewise.study.spec import refuse_one_scale

    if schema:
        click.echo(_schema(), nl=False)
        return
    if sys.stdin.isatty() and not any(is_given(name) for name in answers):
        answers |= _ask(answers)
    words, scales = _split(answers["workload"]), parse_scales(answers["scales"])
    refuse_one_scale(scales)
    values = {
        "name": answers["name"],
        "scales": [*scales],
        "workload.command": words,
        **({} if answers["rounds"] is None else {"rounds": answers["rounds"]}),
        **stated_inputs(answers, *_INPUTS),
    }
    write_spec(output, new_text(output, engine_of(words, answers["engine"]), values))
    click.echo(f"Wrote {output}. Next: nodewise study {output}")


def _ask(defaults: dict[str, Any]) -> dict[str, Any]:
    """Ask for these values on the terminal."""
    return {
        "name": click.prompt("Name of the study", default=defaults["name"]),
        "workload": click.prompt("Command of the job", default=defaults["workload"]),
        "scales": click.prompt("Numbers of workers (K)", default=defaults["scales"]),
        "engine": click.prompt("Engine", type=click.Choice(ENGINES), default="local"),
        "price": click.prompt("Dollars per node-hour (0: unknown)", type=MONEY, default="0")
        or None,
    }


def _split(command: str) -> list[str]:
    """The words of a command, as a shell would have them."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise SpecError(
            f"The quotation marks of --command are not closed: {error}.", "Close them."
        ) from None


def _schema() -> str:
    """The JSON schema of a spec, for editors."""
    import msgspec

    from nodewise.decide.inputs import schema
    from nodewise.measure.engines.base import NoOptions
    from nodewise.measure.engines.registry import engine_type, names
    from nodewise.study.spec import Spec

    types = {name: engine_type(name).options_type for name in names()}
    types = {name: kind for name, kind in types.items() if kind is not NoOptions}
    (whole, *tables), parts = msgspec.json.schema_components([Spec, *types.values()])
    asked = schema()
    parts["Quality"]["properties"] |= asked.pop("quality")
    parts["Spec"]["properties"] |= asked.pop("") | {
        table: {"type": "object", "properties": fields, "additionalProperties": False}
        for table, fields in asked.items()
    }
    for name in ("Spec", "Quality"):
        parts[name]["additionalProperties"] = False
    engine = parts["EngineSpec"]["properties"]
    del engine["tables"]  # each of them has a name of its own
    engine |= dict(zip(types, tables, strict=True))
    return to_json({**whole, "$defs": parts})
