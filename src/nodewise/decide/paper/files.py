"""The files of a plan and of a move: a job, clusters, accelerators and links that come along."""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from nodewise.base.errors import SpecError
from nodewise.decide.paper.job import Accelerator, Anchor, Cluster, Efficiency, Job, Precision
from nodewise.decide.paper.relocate import Bound, Collective, Move, Place
from nodewise.decide.prices.bill import Price
from nodewise.diagnose.links import Link
from nodewise.study.files import read_regular
from nodewise.study.spec import Amount, Count, Positive

Decoded = TypeVar("Decoded")
Device = TypeVar("Device", Accelerator, Link)

_SEE = "See docs/plan.md for what it may be."
_SEE_MOVE = "See docs/predict.md for what it may be."


class _PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    per_node_hour: Amount
    date: date
    source: Annotated[str, msgspec.Meta(min_length=1)]
    fixed_per_hour: Amount = 0.0


class _ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster as it is written: devices and links by name, or spelled out."""

    name: str
    accelerator: str | Accelerator
    devices_per_node: Count = 1
    node_link: str | Link | None = None  # None: the network; a node of one device needs none
    network: str | Link
    adapters_per_node: Positive | None = None  # None: one a device
    link_domain: Count | None = None  # None: the devices of a node
    power_cap_watts: Positive | None = None
    efficiency: Efficiency = Efficiency()
    price: _PriceTable | None = None


class _PlaceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster of which only what changes is given; the fields are those of a cluster."""

    name: str = ""
    accelerator: str | Accelerator | None = None
    devices_per_node: Count = 1
    node_link: str | Link | None = None
    network: str | Link | None = None
    adapters_per_node: Positive | None = None
    collective: Collective = "ring"
    efficiency: Efficiency = Efficiency()


class _MoveFile(_PlaceFile, frozen=True, kw_only=True, rename={"source": "from"}):
    """The cluster to go to, the one that was measured, and what is known about the job."""

    source: _PlaceFile | None = None
    precision: Precision | None = None
    bound: Bound | None = None
    bytes_per_run: Positive | None = None
    messages_per_run: Positive | None = None
    price: _PriceTable | None = None


def read_job(path: Path) -> Job:
    """The transformer, its training and what is fixed, from a TOML file."""
    job = _read(path, Job)
    model = job.model
    for field, count in (("heads", model.heads), ("key_value_heads", model.key_value_heads)):
        of = "hidden" if field == "heads" else "heads"
        if field == "heads" and model.head_width:
            continue
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
    return Cluster(
        name=told.name,
        accelerator=_found(path, "accelerator", told.accelerator, shipped_accelerators()),
        devices_per_node=told.devices_per_node,
        node_link=_found(path, "node_link", told.node_link or told.network, shipped_links()),
        network=_found(path, "network", told.network, shipped_links()),
        adapters_per_node=told.adapters_per_node or told.devices_per_node,
        link_domain=told.link_domain,
        power_cap_watts=told.power_cap_watts,
        efficiency=told.efficiency,
        price=_price(told.price),
    )


def read_anchor(path: Path) -> Anchor:
    """A measured step of the job, from a TOML file."""
    return _read(path, Anchor)


def read_move(path: Path, measured_on: Place | None) -> Move:
    """A move from a TOML file; without a table [from], from where the study says it was."""
    told = _read(path, _MoveFile, _SEE_MOVE)
    source = measured_on if told.source is None else _place(path, told.source)
    if source is None:
        raise SpecError(
            f"{path.name} does not name the cluster of the study.",
            "Add a table [from] with its accelerator and its network.",
        )
    return Move(
        name=told.name or path.stem,
        source=source,
        target=_place(path, told),
        precision=told.precision,
        bound=told.bound,
        bytes_per_run=told.bytes_per_run,
        messages_per_run=told.messages_per_run,
        price=_price(told.price),
    )


def _place(path: Path, told: _PlaceFile) -> Place:
    def found(field: str, known: dict[str, Device]) -> Device | None:
        name = getattr(told, field)
        return None if name is None else _found(path, field, name, known)

    return Place(
        accelerator=found("accelerator", shipped_accelerators()),
        devices_per_node=told.devices_per_node,
        node_link=found("node_link", shipped_links()),
        network=found("network", shipped_links()),
        adapters_per_node=told.adapters_per_node or told.devices_per_node,
        collective=told.collective,
        efficiency=told.efficiency,
    )


def _price(told: _PriceTable | None) -> Price | None:
    if told is None:
        return None
    return Price(
        per_node_hour=told.per_node_hour,
        fixed_per_hour=told.fixed_per_hour,
        source=f"{told.source}, {told.date.isoformat()}",
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
    text = files("nodewise.decide.paper").joinpath(name).read_text(encoding="utf-8")
    return {
        title: msgspec.convert({"name": title, **table}, kind)
        for title, table in tomllib.loads(text).items()
    }


def _found(path: Path, field: str, told: str | Device, known: dict[str, Device]) -> Device:
    if not isinstance(told, str):
        return told
    if told not in known:
        raise SpecError(
            f"{path.name}: {field}: {told} is not built in.",
            f"Use one of {', '.join(known)}, or spell it out in a table [{field}].",
        )
    return known[told]


def _read(path: Path, kind: type[Decoded], see: str = _SEE) -> Decoded:
    """A file as a struct; a bad field is named by its path."""
    try:
        raw = tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise SpecError(
            f"Cannot read {path}: {(error.strerror or 'it fails').lower()}.",
            "Name a file that exists.",
        ) from None
    except (ValueError, RecursionError) as error:  # no text, too many digits, too deep
        raise SpecError(f"{path.name} is not TOML: {error}.", see) from None
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$.") or "the file"
        raise SpecError(f"{path.name}: {field}: {problem[0].lower()}{problem[1:]}.", see) from None
