"""`nodewise doctor`."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import NodewiseError, SpecError
from nodewise.cli.options import emit, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodewise.report.sections import Output

# What works better or only with a package: the package, what for, the extra that brings it.
_PACKAGES = (
    ("isal", "fast traces", "traces"),
    ("uvloop", "precise load tests", "fleet"),
    ("httptools", "load tests", "fleet"),
    ("sklearn", "the examples", "examples"),
)
_NOT_ASKED = {"replay"}  # needs no machine, only a study


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that nodewise can use, whether it is here, and what to do if not."""

    what: str
    ready: bool
    configured: bool = True  # false: it only lacks its settings
    detail: str = ""
    fix: str = ""

    @property
    def state(self) -> str:
        """The state in words."""
        return "ready" if self.ready else "missing" if self.configured else "not configured"


@click.command("doctor")
@output_options
def command(as_json: bool) -> None:
    """What can be measured on this machine, and what to do about the rest.

    Each engine checks whether it could run here. Nothing is started or installed. What is missing
    is shown with its fix, and is not an error.

    \b
    Examples:
      nodewise doctor
      nodewise doctor --json
    """
    emit([*_engines(), *_mpis(), *_energy(), *_browser(), *_packages()], as_json, _report)


def _engines() -> Iterator[Condition]:
    from nodewise.measure.engines.registry import engine_type, names
    from nodewise.study.spec import EngineSpec

    for name in names():
        if name in _NOT_ASKED:
            continue
        try:
            engine = engine_type(name).of(EngineSpec(name=name), Path.cwd())
            try:
                engine.check([1])
            finally:
                engine.close()
        except NodewiseError as error:
            yield Condition(
                what=f"engine {name}",
                ready=False,
                configured=not isinstance(error, SpecError),
                detail=error.what,
                fix=error.fix,
            )
        else:
            yield Condition(what=f"engine {name}", ready=True)


def _mpis() -> Iterator[Condition]:
    """Every MPI with its version, and whether programs of it can be looked into."""
    from nodewise.measure.mpi.libraries import described

    for one, lacking in described():
        what, where = f"MPI programs of {one.title}", one.launcher
        if not lacking:
            yield Condition(what=what, ready=True, detail=where)
            continue
        package = "libopenmpi-dev" if one.vendor == "Open MPI" else "libmpich-dev"
        said = f"{where} is installed, but {lacking} is missing."
        fix = f"Install a C compiler and the headers (Debian: apt-get install gcc {package})."
        yield Condition(what=what, ready=False, detail=said, fix=fix)


def _energy() -> Iterator[Condition]:
    from nodewise.measure.energy import find_counters

    found = find_counters()
    if found.counters:
        yield Condition(what="energy of runs", ready=True, detail=found.names)
    else:
        why = "; ".join(found.missing) or "This machine shows no energy counter (RAPL, NVML)."
        fix = "See docs/energy.md: import what another tool read, or model it from watts."
        yield Condition(what="energy of runs", ready=False, detail=why, fix=fix)


def _browser() -> Iterator[Condition]:
    from nodewise.cli.printing import find_browser

    try:
        yield Condition(what="reports as PDF", ready=True, detail=find_browser())
    except NodewiseError as error:
        yield Condition(what="reports as PDF", ready=False, detail=error.what, fix=error.fix)


def _packages() -> Iterator[Condition]:
    for package, what, extra in _PACKAGES:
        ready = importlib.util.find_spec(package) is not None
        fix = "" if ready else f"pip install 'nodewise[{extra}]'"
        said = package if ready else f"The package {package} is not installed."
        yield Condition(what=what, ready=ready, detail=said, fix=fix)


def _report(conditions: "Sequence[Condition]") -> "Output":
    """What is ready in one line; the others with their fix."""
    from nodewise.report.sections import Section, output

    ready = [one for one in conditions if one.ready]
    unset = [one for one in conditions if one.state == "not configured"]
    lines = [
        f"**{len(ready)} of {len(conditions)} features are ready on this machine.**",
        f"Ready: {_named(ready)}.",
    ]
    lines += [
        f"missing  {one.what}: {one.fix.partition('; ')[0].removesuffix('.')}."
        for one in conditions
        if one.state == "missing"
    ]
    if unset:
        lines.append(f"Not configured: {_named(unset)}. Add their settings to the spec.")
    parts = []
    for one in sorted(conditions, key=lambda one: not one.ready):
        detail = f": {one.detail}" if one.detail else ""
        parts.append(f"  {one.state.replace(' ', '-'):<14}  {one.what}{detail}")
        parts += [f"                  Fix: {one.fix}"] if one.fix else []
    return output(lines, sections=[Section(name="conditions", title="Conditions", parts=[*parts])])


def _named(conditions: "Sequence[Condition]") -> str:
    """The names of some conditions, engines first."""
    engines = [one.what.removeprefix("engine ") for one in conditions if "engine " in one.what]
    others = [one.what for one in conditions if "engine " not in one.what]
    return "; ".join(
        part
        for part in (f"engines {', '.join(engines)}" if engines else "", ", ".join(others))
        if part
    )
