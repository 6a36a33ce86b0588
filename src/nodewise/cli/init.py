"""`nodewise init`."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nodewise.base.errors import SpecError
from nodewise.cli.options import MONEY, file_option, is_given, parse_scales, to_json

_ENGINES = [
    *("local", "mpi", "torchrun", "rehearsal", "slurm", "ssh", "kubernetes"),
    *("ray", "dask", "spark"),
]
TEMPLATE = """\
# A scaling study: nodewise study {path}
name = {name}
scales = [{scales}]
regime = "strong"          # strong: the job is fixed; weak: the work per worker is
rounds = 7                 # each runs every scale once, in random order; six give an interval
timeout_seconds = 600      # for one run
seed = 7
threshold = {threshold:.2f}           # efficiency below which the curve has bent
fixed = []                 # facts that must not change with K, as the workload reports them
work_unit = "items"

[workload]
command = [{command}]      # {{python}}, {{nodes}}, {{round}} and {{seed}} are filled in
directory = "."
warmup_steps = 0           # steps before the clock starts
[workload.environment]
OMP_NUM_THREADS = "1"

[engine]
name = "{engine}"          # what it needs and takes: docs/engines.md

[quality]
tolerance = {tolerance}          # how far it may drift from the smallest scale
better = "same"            # higher or lower: a drift this way is no harm

[gates]                    # a study that does not meet them ends with exit code 1
# deadline_seconds = 900
# least_efficiency = {{ 4 = 0.70 }}

[price]
{price}
# fixed_per_hour = 0.0
{source}
"""


@click.command("init")
@file_option("The file to write.", default="study.toml", show_default=True)
@click.option("--name", default="study", show_default=True, help="What the study is called.")
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
    type=click.Choice(_ENGINES),
    default="local",
    show_default=True,
    help="Where the K workers run; nodewise doctor says which are ready here.",
)
@click.option("--price", type=MONEY, help="Dollars per node-hour.")
@click.option("--price-source", help="Where and when it was read: 'the price list, YYYY-MM-DD'.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of a spec instead.")
def command(schema: bool, output: Path, **answers: Any) -> None:
    """Write a commented spec of a scaling study, ready for nodewise study.

    On a terminal and without options it asks for what it needs. It overwrites no file. In the
    command, {python} stands for this Python, {nodes} for K, {round} and {seed} for those of a run.

    \b
    Examples:
      nodewise init --command "{python} train.py --steps 100" --scales 1,2,4
      nodewise init --engine mpi --command "{python} heat.py" -o heat.toml
    """
    from nodewise.decide.candidates import Needs
    from nodewise.study.spec import refuse_one_scale

    if schema:
        click.echo(_schema(), nl=False)
        return
    if sys.stdin.isatty() and not any(is_given(name) for name in answers):
        answers = _ask(answers)
    scales = parse_scales(answers["scales"])
    refuse_one_scale(scales)
    price, source = answers["price"], answers["price_source"]
    words = ", ".join(_quoted(word) for word in _split(answers["workload"]))
    usual = Needs()
    text = TEMPLATE.format(
        threshold=usual.threshold,
        tolerance=usual.quality_tolerance,
        path=output,
        name=_quoted(answers["name"]),
        scales=", ".join(map(str, scales)),
        command=words,
        engine=answers["engine"],
        price=f"per_node_hour = {price:g}" if price is not None else "# per_node_hour = 3.20",
        source=f"source = {_quoted(source)}" if source else '# source = "the list, YYYY-MM-DD"',
    )
    try:
        with output.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError(f"{output} is there already.", "Name another file with -o.") from None
    except OSError as error:
        raise SpecError(
            f"Cannot write {output}: {error.strerror}.", "Name a file you can write."
        ) from None
    click.echo(f"Wrote {output}. Next: nodewise study {output}")


def _ask(defaults: dict[str, Any]) -> dict[str, Any]:
    """The same answers, from whoever sits at the terminal."""
    return {
        "name": click.prompt("What is the study called", default=defaults["name"]),
        "workload": click.prompt("The command of the job", default=defaults["workload"]),
        "scales": click.prompt("At which numbers of workers", default=defaults["scales"]),
        "engine": click.prompt(
            "Where does it run", type=click.Choice(_ENGINES), default=defaults["engine"]
        ),
        "price": click.prompt("Dollars per node-hour (0: unknown)", type=MONEY, default="0")
        or None,
        "price_source": None,
    }


def _split(command: str) -> list[str]:
    """The words of a command, as a shell would have them."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise SpecError(
            f"The command is not closed: {error}.", "Close the quotation marks in --command."
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


def _quoted(word: str) -> str:
    """A TOML basic string."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
