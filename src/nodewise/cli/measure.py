"""`nodewise measure`, and the measuring half of `nodewise study`."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.errors import RunError, SpecError
from nodewise.units import format_duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from nodewise.engines.base import Engine
    from nodewise.spec import Spec
    from nodewise.study import Run, Study

spec_argument = click.argument("spec", metavar="SPEC", type=click.Path(path_type=Path))
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The study folder; default: NAME.study beside the spec.",
)


@click.command("measure")
@spec_argument
@output_option
def command(spec: Path, output: Path | None) -> None:
    """Run the job of SPEC at every scale, in randomised rounds, into a study folder.

    Runs that are there already are not made again: after Ctrl-C, a crash or a reboot the same
    command goes on where it stopped. A run that fails is recorded, and the study goes on.

    \b
    Examples:
      nodewise measure study.toml
      nodewise measure study.toml -o /scratch/digits.study
    """
    folder = measure_spec(spec, output)
    click.echo(f"The study is in {folder}. Next: nodewise decide {folder}")


def measure_spec(path: Path, output: Path | None) -> Path:
    """Measure what a spec file asks for; the study folder."""
    from nodewise.measure.loop import measure
    from nodewise.scaling import speedup_is_known

    text, spec = read_spec(path)
    folder = output or path.parent / f"{spec.name}.study"

    def enough(study: "Study") -> bool:
        return spec.precision is not None and speedup_is_known(study, spec.precision.speedup)

    try:
        with _Teller() as teller:
            engine = engine_of(spec, path.parent)
            measure(spec, text, path.parent, folder, engine, teller.tell, enough)
    except KeyboardInterrupt:
        raise RunError(
            "Stopped; every finished run is kept.", f"Go on with: nodewise measure {path}"
        ) from None
    return folder


def read_spec(path: Path) -> "tuple[str, Spec]":
    """The text and the spec of a file."""
    from nodewise.spec import parse_spec

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise SpecError(
            f"Cannot read the spec {path}.", "Make one with: nodewise init -o study.toml"
        ) from None
    return text, parse_spec(text)


def engine_of(spec: "Spec", home: Path) -> "Engine":
    """The engine that a spec names."""
    chosen = spec.engine
    if chosen.name == "mpi":
        from nodewise.engines.mpi import Mpi

        return Mpi(chosen.options)
    if chosen.name == "torchrun":
        from nodewise.engines.torchrun import Torchrun

        return Torchrun(chosen.options)
    if chosen.name == "rehearsal":
        from nodewise.engines.rehearsal import RehearsalEngine

        return RehearsalEngine(chosen.rehearsal, chosen.options)
    if chosen.name == "replay":
        from nodewise.engines.replay import Replay

        if chosen.study is None:
            raise SpecError(
                "engine.study: replay needs the folder of a study.", 'Write study = "digits.study".'
            )
        return Replay(home / chosen.study)
    from nodewise.engines.local import Local

    return Local()


class _Teller:
    """What is shown on stderr: a line for each finished run, and a bar on a terminal."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._made = 0
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def __enter__(self) -> "_Teller":
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("first run", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, run: "Run", left: int) -> None:
        """A run is finished, and `left` are still to be made."""
        self._made += 1
        rest = (time.monotonic() - self._begin) / self._made * left
        label = "baseline" if run.baseline else f"K={run.nodes}"
        ended = f"{run.seconds:.4g} s"
        if run.outcome != "ok":
            ended = f"{run.outcome}: {run.detail.partition(chr(10))[0]}"
        line = f"round {run.round + 1}  {label:<8}  {ended}"
        if self._bar is None:
            click.echo(f"{line}  ({left} runs left, about {format_duration(rest)})", err=True)
            return
        assert self._task is not None
        self._bar.console.print(line, markup=False, highlight=False)
        self._bar.update(
            self._task,
            description=f"{left} runs left, about {format_duration(rest)}",
            completed=self._made,
            total=self._made + left,
        )


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
