"""The files of a plan: a job, a cluster, and the accelerators and links that come along."""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from nodewise.errors import SpecError
from nodewise.plan import Accelerator, Cluster, Efficiency, Job, Link
from nodewise.prices import Price
from nodewise.transformer import Count

Decoded = TypeVar("Decoded")
Device = TypeVar("Device", Accelerator, Link)

_SEE = "See docs/plan.md for what it may be."


class _PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    per_node_hour: Annotated[float, msgspec.Meta(ge=0)]
    date: date
    source: Annotated[str, msgspec.Meta(min_length=1)]
    fixed_per_hour: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class _ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster as it is written: devices and links by name, or spelled out."""

    name: str
    accelerator: str | Accelerator
    devices_per_node: Count = 8
    node_link: str | Link
    network: str | Link
    adapters_per_node: Annotated[float, msgspec.Meta(gt=0)] | None = None  # None: one a device
    efficiency: Efficiency = Efficiency()
    price: _PriceTable | None = None


def read_job(path: Path) -> Job:
    """The transformer, its training and what is fixed, from a TOML file."""
    job = _read(path, Job)
    model = job.model
    for field, count in (("heads", model.heads), ("key_value_heads", model.key_value_heads)):
        of = "hidden" if field == "heads" else "heads"
        if count and getattr(model, of) % count:
            raise SpecError(
                f"{path.name}: model.{of}: {getattr(model, of)} cannot be divided by {count} "
                f"{field.replace('_', ' ')}.",
                f"Make {of} a multiple of {field}.",
            )
    return job


def read_cluster(path: Path) -> Cluster:
    """A cluster from a TOML file; the names in it are looked up."""
    told = _read(path, _ClusterFile)
    price = None
    if told.price is not None:
        price = Price(
            per_node_hour=told.price.per_node_hour,
            fixed_per_hour=told.price.fixed_per_hour,
            source=f"{told.price.source}, {told.price.date.isoformat()}",
        )
    return Cluster(
        name=told.name,
        accelerator=_found(path, "accelerator", told.accelerator, shipped_accelerators()),
        devices_per_node=told.devices_per_node,
        node_link=_found(path, "node_link", told.node_link, shipped_links()),
        network=_found(path, "network", told.network, shipped_links()),
        adapters_per_node=told.adapters_per_node or told.devices_per_node,
        efficiency=told.efficiency,
        price=price,
    )


@cache
def shipped_accelerators() -> dict[str, Accelerator]:
    """Common accelerators by name, each with its source."""
    return _shipped("accelerators.toml", Accelerator)


@cache
def shipped_links() -> dict[str, Link]:
    """Common links by name, each with its source."""
    return _shipped("links.toml", Link)


def _shipped(name: str, kind: type[Device]) -> dict[str, Device]:
    text = files("nodewise").joinpath("data", name).read_text(encoding="utf-8")
    return {
        title: msgspec.convert({"name": title, **table}, kind)
        for title, table in tomllib.loads(text).items()
    }


def _found(path: Path, field: str, told: str | Device, known: dict[str, Device]) -> Device:
    if not isinstance(told, str):
        return told
    if told not in known:
        raise SpecError(
            f"{path.name}: {field}: {told} does not come along.",
            f"Use one of {', '.join(known)}, or spell it out in a table [{field}].",
        )
    return known[told]


def _read(path: Path, kind: type[Decoded]) -> Decoded:
    """A file as a struct; a bad field is named by its path."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            f"Cannot read {path}: {(error.strerror or 'it fails').lower()}.",
            "Name a model file and a cluster file, for example examples/gpt-22b.toml "
            "examples/a100-cluster.toml.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path.name} is not TOML: {error}.", _SEE) from None
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$.") or "the file"
        raise SpecError(f"{path.name}: {field}: {problem[0].lower()}{problem[1:]}.", _SEE) from None
