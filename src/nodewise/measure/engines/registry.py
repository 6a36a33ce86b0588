"""Which engines there are: ours, and those that installed packages announce."""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.base import Engine, options_of
from nodewise.study.spec import EngineSpec

GROUP = "nodewise.engines"
_OURS = {
    "local": "nodewise.measure.engines.local:Local",
    "mpi": "nodewise.measure.engines.mpi:Mpi",
    "torchrun": "nodewise.measure.engines.torchrun:Torchrun",
    "command": "nodewise.measure.engines.own_workers:OwnWorkers",
    "rehearsal": "nodewise.measure.engines.rehearsal.rehearsal:RehearsalEngine",
    "slurm": "nodewise.measure.engines.slurm:Slurm",
    "ssh": "nodewise.measure.engines.clusters.ssh:Ssh",
    "kubernetes": "nodewise.measure.engines.clusters.kubernetes:Kubernetes",
    "ray": "nodewise.measure.engines.clusters.ray:Ray",
    "dask": "nodewise.measure.engines.clusters.dask:Dask",
    "spark": "nodewise.measure.engines.clusters.spark:Spark",
    "replay": "nodewise.measure.engines.replay:Replay",
}


def names() -> list[str]:
    """The names that a spec may use, ours first."""
    return list(_entry_points())


def engine_type(name: str) -> type[Engine]:
    """The class of an engine."""
    known = _entry_points()
    if name not in known:
        raise SpecError(
            f"engine.name: unknown engine '{name}'.", f"Choose one of: {', '.join(known)}."
        )
    try:
        found = known[name].load()
    except (ImportError, AttributeError) as error:
        raise RunError(
            f"The engine '{name}' cannot be loaded: {error}.",
            f"Repair or reinstall the package behind {known[name].value}.",
        ) from None
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise RunError(
            f"The engine '{name}' is not a subclass of nodewise.measure.engines.base.Engine.",
            f"Derive {known[name].value} from it.",
        )
    return found


def engine_of(chosen: EngineSpec, home: Path) -> Engine:
    """The engine that a spec names; `home` is the folder of the spec."""
    kind = engine_type(chosen.name)
    # A spec may have the tables of several engines; those that are not chosen must be right too.
    for name in chosen.tables:
        if name not in names():
            raise SpecError(
                f"engine.{name}: no engine has that name.",
                f"Choose one of: {', '.join(names())}.",
            )
        options_of(chosen, name, engine_type(name).options_type)
    return kind.of(chosen, home)


def _entry_points() -> dict[str, EntryPoint]:
    """By name; a package cannot take the name of a built-in engine."""
    others = {point.name: point for point in entry_points(group=GROUP)}
    ours = {name: EntryPoint(name, value, GROUP) for name, value in _OURS.items()}
    return ours | {name: others[name] for name in sorted(others.keys() - ours.keys())}
