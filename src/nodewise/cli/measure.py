"""`nodewise measure`, and the measuring half of `nodewise study`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET, RunError, SpecError, printable
from nodewise.base.units import format_duration
from nodewise.cli.options import emit, output_options, to_json
from nodewise.cli.progress import ProgressLine
from nodewise.report.open import read_folder
from nodewise.study.files import file_name, read_regular
from nodewise.study.telling_lines import failure

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question
    from nodewise.report.sections import Output
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
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be run at each scale, and stop."
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
@dry_run_option
@output_options
def command(spec: Path, output: Path | None, dry_run: bool, as_json: bool) -> None:
    """Run the job of SPEC at every scale, in randomised rounds, into a study folder.

    Runs that were already made are not repeated: after Ctrl-C, a crash or a reboot the same command
    continues where it stopped. A failed run is recorded with the end of its log, and the study
    continues; a scale that fails twice is not tried again.

    \b
    Examples:
      nodewise measure study.toml
      nodewise measure study.toml -o /scratch/digits.study
      nodewise measure study.toml --dry-run
      nodewise measure study.toml --json > measured.json
    """
    if dry_run:
        print_plans(read_spec(spec)[1], spec, output, as_json)
        return
    folder = measure_spec(spec, output)
    made = _summary(folder)
    if as_json:
        emit(made, as_json, _report)
    read_folder(folder)  # an error where no run worked
    if not as_json:
        emit(made, as_json, _report)


def _report(made: _Measured) -> "Output":
    """The runs of each scale, and the next step."""
    from nodewise.report.sections import Section
    from nodewise.report.sections import output as shown
    from nodewise.report.tables import rows_table, runs_table
    from nodewise.study import store

    rows = [
        {
            "K": "baseline" if one.baseline else str(one.nodes),
            "runs": one.runs,
            "failed": one.failed or None,
            "mean time": "" if one.seconds is None else format_duration(one.seconds),
        }
        for one in made.scales
    ]
    worked = sum(one.runs for one in made.scales)
    failed = sum(one.failed for one in made.scales)
    further = f"nodewise decide {shlex.quote(made.folder)}"
    if len({one.nodes for one in made.scales if one.runs and not one.baseline}) == 1:
        further = "add a second scale to the spec and run this again"
    runs = Section(name="runs", title="Runs", parts=[runs_table(store.load(Path(made.folder)))])
    lost = f", {failed} failed" if failed else ""
    return shown(
        [f"**{made.name}**: {worked} runs measured{lost}"],
        rows_table("Runs", rows, sparse=True),
        [runs],
        ending=[f"Study: {made.folder}", f"Next: {further}"],
    )


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
    folder = output or path.parent / f"{file_name(spec.name)}.study"

    def enough(study: "Study") -> bool:
        return spec.precision is not None and speedup_is_known(study, spec.precision.speedup)

    engine = engine_of(spec.engine, path.parent)
    if not engine.elsewhere and not engine.emulated:
        _print_energy_sources()
    _warn_of_changed_program(path.parent / spec.workload.directory, folder)
    try:
        with ProgressLine("first run") as line:
            progress = _Progress(spec, rounds, line)
            measure(
                spec, text, path.parent, folder, engine, progress.finished, enough, shares_in_traces
            )
    except KeyboardInterrupt:
        rest = " Submitted jobs continue." if engine.detached else ""
        raise RunError(
            f"Stopped; all finished runs are kept.{rest}",
            f"Continue with: {command_line()}",
        ) from None
    _refuse_without_steps(folder)
    return folder


def _refuse_without_steps(folder: Path) -> None:
    """End where a run made no step: no further run was made, and no answer is given."""
    from nodewise.explain.validity import step_check
    from nodewise.study import store

    study = store.load(folder)
    check = step_check(study)
    if check is not None and any(run.steps == 0 for run in study.runs):
        click.echo(f"no answer: {printable(check.evidence)}")
        click.echo(f"  fix: {check.remedy} Then measure into a new folder with -o.")
        raise SystemExit(GATE_NOT_MET)


def _warn_of_changed_program(directory: Path, folder: Path) -> None:
    """Say that the runs of a folder were made with another program than the next ones."""
    from nodewise.measure.provenance import changed_programs
    from nodewise.study import store

    changed = changed_programs(directory, store.load(folder).runs) if store.is_study(folder) else []
    if changed:
        click.echo(
            f"warning: the program changed since runs in {folder} were made: "
            f"{printable(', '.join(changed))}. To measure it again, name a new folder with -o.",
            err=True,
        )


def command_line() -> str:
    """The command as it was typed; repeated, it goes on where it was stopped."""
    return shlex.join(["nodewise", *sys.argv[1:]])


def print_plans(spec: "Spec", path: Path, output: Path | None, as_json: bool) -> None:
    """What would be run of the spec that is kept at `path`, as the engine says it."""
    from nodewise.measure.engines.registry import engine_of
    from nodewise.measure.loop import plans

    folder = (output or path.parent / f"{file_name(spec.name)}.study").resolve()
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
    """Say before the first run what will be read of its energy; nothing if nothing counts it."""
    from nodewise.measure.energy import find_counters

    found = find_counters()
    if found.counters:
        click.echo(f"energy is read from {found.names}", err=True)
    for why in found.missing:
        click.echo(f"energy: {why}", err=True)


def read_spec(path: Path) -> "tuple[str, Spec]":
    """The text and the spec of a file."""
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        raise SpecError(
            f"Cannot read the spec {path}.", "Make one with: nodewise init -o study.toml"
        ) from None
    return text, parse_to_measure(text)


def parse_text(text: str) -> "Spec":
    """The spec in a text; what cannot be measured or asked is an error before anything is run."""
    return _parsed(text)[0]


def parse_to_measure(text: str) -> "Spec":
    """The spec in a text; a price that is not for what its K counts is an error too."""
    from nodewise.decide.counting import refuse_price

    spec, question = _parsed(text)
    refuse_price(question, spec.scales)
    return spec


def _parsed(text: str) -> "tuple[Spec, Question]":
    from nodewise.decide.prices.lookup import question_of
    from nodewise.study.spec import parse_file

    spec, asked = parse_file(text)
    return spec, question_of(asked)


class _Progress:
    """The progress of a study, and how long all of it takes once every scale was run."""

    def __init__(self, spec: "Spec", rounds: str, line: ProgressLine) -> None:
        self._spec = spec
        self._rounds = rounds
        self._line = line
        self._scales: set[tuple[bool, int]] = set()
        self._done = 0

    def finished(self, run: "Run", left: int) -> None:
        """A run is finished, and `left` are still to be made."""
        label = "baseline" if run.baseline else f"K={run.nodes}"
        failed = run.outcome != "ok"
        ended = failure(run) if failed else format_duration(run.seconds)
        line = f"round {run.round + 1}  {label:<8}  {ended}"
        if failed and sys.stderr.isatty():
            self._line.note(line)
        before = len(self._scales)
        self._scales.add((run.baseline, run.nodes))
        self._done += 1
        block = len(self._spec.scales) + (self._spec.baseline is not None)
        each = self._line.step(line, left, alike=self._done >= block)
        if before < len(self._scales) == block and left:
            self._line.note(self._length(each * block, each * left))

    def _length(self, round_seconds: float, rest_seconds: float) -> str:
        """How long the study takes, with fewer rounds where that is long."""
        from nodewise.explain.validity import ENOUGH_TO_TRUST

        spec = self._spec
        most = spec.rounds if spec.precision is None else spec.precision.most_rounds
        one, whole = (
            format_duration(seconds, digits=2) for seconds in (round_seconds, round_seconds * most)
        )
        line = f"One round takes {one}; all {most} rounds take about {whole}."
        fewer = max(ENOUGH_TO_TRUST, 1 + int(_LONG_SECONDS / round_seconds))
        if rest_seconds <= _LONG_SECONDS or fewer >= spec.rounds or spec.precision is not None:
            return line
        return f"{line} For less, press Ctrl-C and repeat with {self._rounds.format(fewer)}."
