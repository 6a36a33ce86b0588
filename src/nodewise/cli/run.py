"""`nodewise run`."""

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import NodewiseError, SpecError, printable
from nodewise.cli.inputs import stated_inputs, stated_options
from nodewise.cli.measure import (
    dry_run_option,
    measure_spec,
    parse_text,
    parse_to_measure,
    print_plans,
)
from nodewise.cli.options import POSITIVE_DURATION, WHOLE, output_options, parse_scales
from nodewise.cli.spec_file import (
    ENGINES,
    engine_of,
    new_text,
    rounds_option,
    with_values,
    write_spec,
)
from nodewise.cli.study import answer
from nodewise.decide.inputs import INPUTS
from nodewise.study import store
from nodewise.study.files import read_regular
from nodewise.study.spec import OWN_WORKERS, refuse_one_scale

if TYPE_CHECKING:
    from nodewise.study.spec import Spec

_K_RANKS = {(option, "{n}") for option in ("-n", "-np", "--np")}
_OTHER_NAME = "Give this study another name: --name NAME"


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "-n",
    "--scales",
    metavar="K,K,...",
    required=True,
    help="K to run: 1,2,4 or 1..8 (doublings).",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    metavar="NAME",
    help="What starts K workers: mpi, ... [local]",
)
@rounds_option
@click.option("--warmup-steps", type=WHOLE, help="Steps before the clock starts (probe). [0]")
@click.option("--requires", metavar="EXPR", help="Condition on every K: 'n % 2 == 0'.")
@click.option("--log", metavar="NAME", help="Time from the output: lammps, ... or a pattern.")
@click.option("--timeout", type=POSITIVE_DURATION, help="Longest time of one run. [10min]")
@click.option("--name", help="Name of the study [that of the program].")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The study folder [NAME.study].",
)
@dry_run_option
@stated_options(*INPUTS)
@output_options
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    words: tuple[str, ...],
    name: str | None,
    output: Path | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run COMMAND at several scales; say what it loses and which scale pays.

    The engine starts K workers; a command with {n} starts its own. Repeat the command to continue
    NAME.study; NAME.toml keeps its spec.

    \b
    Examples:
      nodewise run -n 1,2,4,8 -- python train.py
      nodewise run -n 1,2,4 --engine torchrun --price 3.20 -- train.py --epochs 1
      nodewise run -n 1,2,4,8 -- mpirun -n {n} ./app -s 20
    """
    if words[0].endswith(".py"):
        words = ("{python}", *words)
    if name is not None and "/" in name:
        raise SpecError(f"--name {name} is not a file name.", "Use letters, digits and hyphens.")
    name = name or (output.stem if output else _name_of(words))
    path = (output.parent if output else Path()) / f"{name}.toml"
    folder = output or path.with_suffix(".study")
    scales = parse_scales(options["scales"])
    stated = {
        "scales": [*scales],
        "rounds": options["rounds"],
        "timeout_seconds": options["timeout"],
        "workload.warmup_steps": options["warmup_steps"],
        "workload.requires": options["requires"],
        **_clock(options["log"]),
        **stated_inputs(options, *INPUTS),
    }
    values = {place: value for place, value in stated.items() if value is not None}
    engine = engine_of(words, options["engine"])
    source = path if path.exists() else folder / store.SPEC
    kept = None
    if not source.exists():
        job = _job(words, engine, path.parent)
        text = new_text(
            path, engine, {"name": name, **_unit(words, engine, values), **job, **values}
        )
    else:
        kept, before = _read(source)
        _refuse_another_job(before, path, folder, words, engine, values)
        text = with_values(kept, values)
    if dry_run:
        spec = parse_to_measure(text)
        refuse_one_scale(spec.scales)
        print_plans(spec, path, folder, as_json)
        return
    _check(text, path.parent, folder)
    _write(path, text, kept)
    if kept is None and engine == "local":
        click.echo(
            "K copies of the command are started; NODEWISE_RANK and NODEWISE_NODES tell each its "
            "share.",
            err=True,
        )
    answer(measure_spec(path, output, "--rounds {}"), as_json)


def _clock(log: str | None) -> dict[str, str | None]:
    """Where the time is in the output: a preset, or a pattern with a group."""
    is_pattern = log is not None and "(" in log
    return {f"workload.{'seconds' if is_pattern else 'log'}": log}


def _job(words: Sequence[str], engine: str, home: Path) -> dict[str, Any]:
    """What a new spec in the folder `home` says of the job."""
    here = Path.cwd()
    threads = os.environ.get("OMP_NUM_THREADS")
    set_here = threads is not None and engine != OWN_WORKERS
    return {
        "workload.command": [*words],
        "workload.directory": "." if home.resolve() == here else str(here),
        **({"workload.environment.OMP_NUM_THREADS": threads} if set_here else {}),
    }


def _unit(words: Sequence[str], engine: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What K counts where it shows: MPI ranks on this machine are not nodes."""
    if "unit" in values or not (engine == "mpi" or _starts_ranks_here(words)):
        return {}
    return {"unit": "ranks", "per_node": max(len(os.sched_getaffinity(0)), *values["scales"])}


def _starts_ranks_here(words: Sequence[str]) -> bool:
    """Whether the command is a launcher of MPI with K ranks, and names no other host."""
    from nodewise.measure.mpi import libraries

    ranks = any(pair in _K_RANKS for pair in itertools.pairwise(words))
    return ranks and not libraries.names_hosts(words) and libraries.starts_mpi(words)


def _name_of(words: Sequence[str]) -> str:
    """The name of the first file below this folder that a command names, else of its program.

    >>> _name_of(["/usr/bin/mpirun", "-n", "4", "no-such-file"])
    'mpirun'
    """
    named = next(filter(_is_own_file, words), words[0])
    return re.sub(r"[^\w.-]+", "-", Path(named).stem)


def _is_own_file(word: str) -> bool:
    here = Path.cwd()
    try:
        return (here / word).is_file() and (here / word).resolve().is_relative_to(here)
    except OSError:  # too long for a name
        return False


def _read(source: Path) -> "tuple[str, Spec]":
    """The text and the spec that are kept under this name."""
    try:
        text = read_regular(source).decode()
        return text, parse_text(text)
    except (OSError, UnicodeDecodeError, NodewiseError):
        raise SpecError(f"{source} already exists and is not a spec.", f"{_OTHER_NAME}.") from None


def _refuse_another_job(
    before: "Spec",
    path: Path,
    folder: Path,
    words: Sequence[str],
    engine: str,
    values: Mapping[str, Any],
) -> None:
    """A study continues with the same job, at the same scales or more."""
    what = printable(f"The study {before.name}")
    fix = f"{_OTHER_NAME}; or delete {path} and {folder}."
    job = before.workload
    if job.command != tuple(words):
        typed = printable(shlex.join(job.command))
        raise SpecError(f"{what} measures another command: {typed}.", fix)
    place = (path.parent / job.directory).resolve()
    steps = values.get("workload.warmup_steps", job.warmup_steps)
    differences = [
        *([f"with the engine {before.engine.name}"] if before.engine.name != engine else []),
        *([f"after {job.warmup_steps} warm-up steps"] if job.warmup_steps != steps else []),
        *([f"in {place}"] if place != Path.cwd() else []),
        *(
            f"with {field} = {getattr(job, field)!r}"
            for field in ("requires", "log", "seconds")
            if values.get(f"workload.{field}", getattr(job, field)) != getattr(job, field)
        ),
    ]
    if differences:
        how = " and ".join(differences)
        raise SpecError(f"{what} measures this command {how}.", fix)
    left_out = sorted({*before.scales} - {*values["scales"]})
    if left_out:
        listed = ",".join(map(str, left_out))
        raise SpecError(f"{what} also measures K={listed}.", f"Add {listed} to -n. {fix}")


def _check(text: str, home: Path, folder: Path) -> None:
    """What cannot be run is an error before a file is written."""
    from nodewise.measure.engines import registry
    from nodewise.measure.loop import check

    spec = parse_to_measure(text)
    with contextlib.closing(registry.engine_of(spec.engine, home)) as engine:
        check(spec, home, folder, engine)
    refuse_one_scale(spec.scales)


def _write(path: Path, text: str, kept: str | None) -> None:
    """Write the spec and say so, unless it exists already."""
    if not path.exists():
        write_spec(path, text)
        click.echo(f"Wrote {path}.", err=True)
    elif kept != text:
        write_spec(path, text, replace=True)
        changed = {*text.splitlines()} - {*(kept or "").splitlines()}
        listed = ", ".join(sorted(line.partition(" #")[0].strip() for line in changed))
        click.echo(f"Changed {path}: {listed}.", err=True)
