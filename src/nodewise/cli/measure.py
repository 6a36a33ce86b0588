"""`nodewise measure`, and the measuring half of `nodewise study`."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import RunError, SpecError, printable
from nodewise.base.units import format_clock, format_duration
from nodewise.cli.options import json_option, to_json
from nodewise.report.open import failure, read_folder

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from nodewise.study.spec import Spec
    from nodewise.study.study import Run, Study

_LONG_SECONDS = 600.0  # a rest of the study for which fewer rounds are proposed
spec_argument = click.argument("spec", metavar="SPEC", type=click.Path(path_type=Path))
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The study folder; default: NAME.study beside the spec.",
)


class _Scale(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    nodes: int
    baseline: bool
    runs: int  # that worked
    failed: int
    seconds: float | None  # their mean


class _Measured(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: str
    scales: tuple[_Scale, ...]


@click.command("measure")
@spec_argument
@output_option
@click.option("--dry-run", is_flag=True, help="Print what would be run at each scale, and stop.")
@json_option
def command(spec: Path, output: Path | None, dry_run: bool, as_json: bool) -> None:
    """Run the job of SPEC at every scale, in randomised rounds, into a study folder.

    Runs that are there already are not made again: after Ctrl-C, a crash or a reboot the same
    command goes on where it stopped. A run that fails is recorded with the end of its log, and the
    study goes on; a scale that fails twice is given up.

    \b
    Examples:
      nodewise measure study.toml
      nodewise measure study.toml -o /scratch/digits.study
      nodewise measure study.toml --dry-run
      nodewise measure study.toml --json > measured.json
    """
    if dry_run:
        _print_plans(spec, output, as_json)
        return
    folder = measure_spec(spec, output)
    if as_json:
        click.echo(to_json(_summary(folder)), nl=False)
    study = read_folder(folder)  # an error where no run worked
    if not as_json:
        further = f"nodewise decide {shlex.quote(str(folder))}"
        if len(study.scales) == 1:
            further = "add a second scale to the spec and run this again"
        click.echo(f"The study is in {folder}. Next: {further}")


def _summary(folder: Path) -> _Measured:
    from nodewise.study import store

    study = store.load(folder)
    scales = []
    for baseline, nodes in sorted({(run.baseline, run.nodes) for run in study.runs}):
        runs = [run for run in study.runs if (run.baseline, run.nodes) == (baseline, nodes)]
        worked = [run.seconds for run in runs if run.outcome == "ok"]
        scales.append(
            _Scale(
                nodes=nodes,
                baseline=baseline,
                runs=len(worked),
                failed=len(runs) - len(worked),
                seconds=sum(worked) / len(worked) if worked else None,
            )
        )
    return _Measured(name=study.name, folder=str(folder), scales=tuple(scales))


def measure_spec(path: Path, output: Path | None, rounds: str = "rounds = {} in the spec") -> Path:
    """Measure what a spec file asks for; the study folder. `rounds` is how fewer are set."""
    from nodewise.explain.scaling import speedup_is_known
    from nodewise.measure.engines.registry import engine_of
    from nodewise.measure.loop import measure
    from nodewise.report.open import shares_in_traces

    text, spec = read_spec(path)
    folder = output or path.parent / f"{spec.name}.study"

    def enough(study: "Study") -> bool:
        return spec.precision is not None and speedup_is_known(study, spec.precision.speedup)

    engine = engine_of(spec.engine, path.parent)
    if not engine.elsewhere and not engine.emulated:
        _print_energy_sources()
    _warn_of_changed_program(path.parent / spec.workload.directory, folder)
    try:
        with _ProgressLine(spec, rounds) as progress:
            measure(
                spec, text, path.parent, folder, engine, progress.finished, enough, shares_in_traces
            )
    except KeyboardInterrupt:
        rest = " What is submitted goes on." if engine.detached else ""
        raise RunError(
            f"Stopped; every finished run is kept.{rest}",
            f"Go on with: {command_line()}",
        ) from None
    return folder


def _warn_of_changed_program(directory: Path, folder: Path) -> None:
    """Say that the runs of a folder were made with another program than the next ones."""
    from nodewise.measure.provenance import changed_programs
    from nodewise.study import store

    changed = changed_programs(directory, store.load(folder).runs) if store.is_study(folder) else []
    if changed:
        click.echo(
            f"warning: the program changed since runs in {folder} were made: "
            f"{printable(', '.join(changed))}. To measure it anew, name a new folder with -o.",
            err=True,
        )


def command_line() -> str:
    """The command as it was typed; repeated, it goes on where it was stopped."""
    return shlex.join(["nodewise", *sys.argv[1:]])


def _print_plans(path: Path, output: Path | None, as_json: bool) -> None:
    """What would be run, as the engine says it."""
    from nodewise.measure.engines.registry import engine_of
    from nodewise.measure.loop import plans

    _, spec = read_spec(path)
    folder = (output or path.parent / f"{spec.name}.study").resolve()
    engine = engine_of(spec.engine, path.parent)
    planned = list(plans(spec, path.parent, folder, engine))
    if as_json:
        rows = [
            {"K": task.nodes, "baseline": task.baseline, "plan": text} for task, text in planned
        ]
        click.echo(to_json(rows), nl=False)
        return
    for task, text in planned:
        click.echo(f"# {'baseline' if task.baseline else f'K={task.nodes}'}")
        click.echo(text)


def _print_energy_sources() -> None:
    """Say before the first run what will be read of its energy; nothing where nothing counts it."""
    from nodewise.measure.energy import find_counters

    found = find_counters()
    if found.counters:
        click.echo(f"energy is read from {found.names}", err=True)
    for why in found.missing:
        click.echo(f"energy: {why}", err=True)


def read_spec(path: Path) -> "tuple[str, Spec]":
    """The text and the spec of a file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise SpecError(
            f"Cannot read the spec {path}.", "Make one with: nodewise init -o study.toml"
        ) from None
    return text, parse_text(text)


def parse_text(text: str) -> "Spec":
    """The spec in a text; what cannot be measured or asked is an error before anything is run."""
    from nodewise.decide.prices.lookup import question_of
    from nodewise.study.spec import parse_file

    spec, asked = parse_file(text)
    question_of(asked)
    return spec


class _ProgressLine:
    """What is shown on stderr: one line that changes on a terminal, else a line for each run."""

    def __init__(self, spec: "Spec", rounds: str) -> None:
        self._spec = spec
        self._rounds = rounds
        self._begin = time.monotonic()
        self._made = 0
        self._scales: set[tuple[bool, int]] = set()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def __enter__(self) -> "_ProgressLine":
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("first run", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finished(self, run: "Run", left: int) -> None:
        """A run is finished, and `left` are still to be made."""
        self._made += 1
        each = (time.monotonic() - self._begin) / self._made
        label = "baseline" if run.baseline else f"K={run.nodes}"
        failed = run.outcome != "ok"
        ended = failure(run) if failed else f"{format_duration(run.seconds)}"
        line = f"round {run.round + 1}  {label:<8}  {ended}"
        if self._bar is None:
            to_go = f"  ({left} to go, about {format_clock(each * left)})" if left else ""
            click.echo(f"{line}{to_go}", err=True)
        else:
            assert self._task is not None
            if failed:
                self._print(line)
            words = f"{line}  {format_clock(each * left)} to go" if left else line
            total = self._made + left
            self._bar.update(self._task, description=words, completed=self._made, total=total)
        before = len(self._scales)
        self._scales.add((run.baseline, run.nodes))
        block = len(self._spec.scales) + (self._spec.baseline is not None)
        if before < len(self._scales) == block and left:
            self._print(self._length(each * block, each * left))

    def _print(self, line: str) -> None:
        if self._bar is None:
            click.echo(line, err=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def _length(self, round_seconds: float, rest_seconds: float) -> str:
        """How long the study takes, once every scale was run; with fewer rounds if that is long."""
        from nodewise.explain.validity import ENOUGH_TO_TRUST

        spec = self._spec
        most = spec.rounds if spec.precision is None else spec.precision.most_rounds
        one, whole = format_clock(round_seconds), format_clock(round_seconds * most)
        line = f"One round takes {one}; all {most} rounds take about {whole}."
        fewer = max(ENOUGH_TO_TRUST, 1 + int(_LONG_SECONDS / round_seconds))
        if rest_seconds <= _LONG_SECONDS or fewer >= spec.rounds or spec.precision is not None:
            return line
        return f"{line} For less, press Ctrl-C and repeat with {self._rounds.format(fewer)}."


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
