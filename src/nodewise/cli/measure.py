"""`nodewise measure`, and the measuring half of `nodewise study`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewise.errors import RunError, SpecError

if TYPE_CHECKING:
    from nodewise.engines.base import Engine
    from nodewise.measure.loop import Tell
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
        measure(spec, text, path.parent, folder, engine_of(spec, path.parent), teller(), enough)
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


def teller() -> "Tell":
    """What is shown on stderr while measuring: one line for each finished run, with time left."""
    begin = time.monotonic()
    made = 0

    def tell(run: "Run", left: int) -> None:
        nonlocal made
        made += 1
        rest = (time.monotonic() - begin) / made * left
        label = "baseline" if run.baseline else f"K={run.nodes}"
        ended = (
            f"{run.seconds:.4g} s"
            if run.outcome == "ok"
            else f"{run.outcome}: {_first(run.detail)}"
        )
        click.echo(
            f"round {run.round + 1}  {label:<8}  {ended}  ({left} runs left, about {rest:.0f} s)",
            err=True,
        )

    return tell


def _first(detail: str) -> str:
    return detail.splitlines()[0] if detail else ""
