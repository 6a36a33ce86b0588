"""The spec file that `nodewise init` and `nodewise run` write: a commented template with values."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from nodewise.base.errors import SpecError
from nodewise.cli.options import COUNT
from nodewise.study import files
from nodewise.study.expression import uses_alone
from nodewise.study.spec import OWN_WORKERS, read_toml
from nodewise.study.spec_text import toml_value

ENGINES = [
    *("local", "mpi", "torchrun", OWN_WORKERS, "rehearsal", "slurm", "ssh", "kubernetes"),
    *("ray", "dask", "spark"),
]
_TEMPLATE = """\
# A scaling study: nodewise study {path}
name = "study"
scales = [1, 2, 4, 8]
# regime = "strong"        # the job is fixed; weak: the work per worker is. [as the batches show]
rounds = 7                 # each runs every scale once, in random order; six give an interval
timeout_seconds = 600      # for one run
seed = 7
threshold = {threshold:.2f}           # efficiency below which the curve has bent
fixed = []                 # facts that must not change with K, as the workload reports them
work_unit = "items"

[workload]
command = ["train"]
# {{python}}, {{nodes}}, {{round}}, {{seed}}, {{48/nodes}}: computed; also {{n}} with engine "{own}"
# requires = "n % 2 == 0"  # scales that do not meet it are refused
# log = "lammps"           # time, work and stages from the output; or seconds = 'Time: (\\S+)'
directory = "."
warmup_steps = 0           # steps before the clock starts
[workload.environment]
{threads}OMP_NUM_THREADS = "1"

[engine]
name = "local"             # what it needs and takes: docs/engines.md
{options}
[quality]
# tolerance = {tolerance}        # how far it may drift from the smallest scale
better = "same"            # higher or lower: a change this way is acceptable

[gates]                    # a study that does not meet them ends with exit code 1
# deadline_seconds = 900
# least_efficiency = {{ 4 = 0.70 }}

[price]
# per_node_hour = 3.20
# fixed_per_hour = 0.0
# source = "the list, YYYY-MM-DD"
"""
_VALUE = r'"(?:[^"\\]|\\.)*"|\[.*\]|\{.*\}|[^#\s]+'

rounds_option = click.option("--rounds", type=COUNT, help="Rounds; each runs every K once. [7]")


def engine_of(words: Sequence[str], chosen: str | None) -> str:
    """The engine of a command: with {n} in it, the command starts its own workers."""
    if not uses_alone(words, "n"):
        return chosen or "local"
    if chosen not in (None, OWN_WORKERS):
        raise SpecError(
            f"{{n}} is for a command that starts its own workers, and --engine {chosen} starts "
            "them too.",
            "Drop --engine, or write {nodes} for the number alone.",
        )
    return OWN_WORKERS


def new_text(path: Path, engine: str, values: Mapping[str, Any]) -> str:
    """The template for an engine, with values by their path in the file."""
    from nodewise.decide.candidates import Needs

    usual = Needs()
    text = _TEMPLATE.format(
        path=path,
        threshold=usual.threshold,
        tolerance=usual.quality_tolerance,
        own=OWN_WORKERS,
        threads="# " if engine == OWN_WORKERS else "",  # its workers' threads are its own matter
        options=_engine_table(engine),
    )
    return with_values(text, {"engine.name": engine, **values})


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """The text of a TOML file with other values; its comments and all other lines stay.

    >>> with_values("a = 1  # one\\n[b]\\n# c = 2\\n", {"a": 3, "b.c": "x", "d.e": 4})
    'a = 3  # one\\n[b]\\nc = "x"\\n\\n[d]\\ne = 4\\n'
    """
    for path, value in values.items():
        wanted = read_toml(text)
        table, _, key = path.rpartition(".")
        inner = wanted
        for name in table.split(".") if table else ():
            inner = inner.setdefault(name, {})
        if inner.get(key) == value:
            continue
        inner[key] = value
        text = _with_line(text, table, key, toml_value(value))
        if read_toml(text) != wanted:
            raise SpecError(f"Cannot set {path} in the spec.", "Edit the file yourself.")
    return text


def _with_line(text: str, table: str, key: str, value: str) -> str:
    """The text with a line for a key, in the place of its old or commented one."""
    lines = text.splitlines()
    headers = [at for at, line in enumerate(lines) if line.startswith("[")]
    begin = 0
    if table:
        own = [at for at in headers if lines[at].partition("]")[0] == f"[{table}"]
        if not own:
            lines += ["", f"[{table}]"]
            headers = own = [len(lines) - 1]
        begin = own[0] + 1
    end = next((at for at in headers if at >= begin), len(lines))
    line = f"{key} = {value}"
    for mark in ("", "# "):
        pattern = re.compile(rf"({mark}{re.escape(key)}\s*=\s*(?:{_VALUE})\s*)(#.*)?$")
        for at in range(begin, end):
            found = pattern.match(lines[at])
            if found:
                comment = found[2] or ""
                lines[at] = f"{line.ljust(len(found[1]) - 1)} {comment}" if comment else line
                return "\n".join(lines) + "\n"
    lines.insert(begin, line)
    return "\n".join(lines) + "\n"


def write_spec(path: Path, text: str, replace: bool = False) -> None:
    """Write a spec file; an existing file is an error unless it is to be replaced."""
    try:
        content = text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        if replace:
            files.replace(path, content)
            return
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise SpecError(f"{path} already exists.", "Name another file with -o.") from None
    except UnicodeEncodeError:
        raise SpecError("The command is not UTF-8.", "Give its files names in UTF-8.") from None
    except OSError as error:
        raise SpecError(
            f"Cannot write {path}: {error.strerror}.", "Name a file you can write."
        ) from None


def _engine_table(name: str) -> str:
    """The table of an engine, each option as a comment with its default."""
    import msgspec

    from nodewise.measure.engines.registry import engine_type

    kind = engine_type(name).options_type
    types = get_type_hints(kind)
    lines = []
    for field in msgspec.structs.fields(kind):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if default is None or default is msgspec.NODEFAULT:
            lines.append(f"# {field.name} =".ljust(26) + " # not set")
            continue
        line = f"# {field.name} = {toml_value(default)}"
        if get_origin(types[field.name]) is Literal:
            others = [toml_value(one) for one in get_args(types[field.name]) if one != default]
            line = f"{line.ljust(26)} # or {', '.join(others)}"
        lines.append(line)
    return "\n".join([f"[engine.{name}]", *lines, ""]) if lines else ""
