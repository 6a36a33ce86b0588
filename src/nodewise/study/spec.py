"""What is to be measured: the TOML file that a user writes, as frozen structs.

Every field has its unit in its name where that is not seconds; a bad one is named by its path.
"""

import tomllib
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from nodewise.base.errors import SpecError

Regime = Literal["strong", "weak"]
# Beyond these bounds a figure is a typing error or damage, and products of such figures overflow.
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e30)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Signed = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Nodes = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Number = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
Rounds = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Table = TypeVar("Table", bound=msgspec.Struct)


class Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A table of the file; a field that it does not know is an error, not a silence."""


class Workload(Part, frozen=True, kw_only=True):
    """The job. In the command `{nodes}`, `{round}`, `{seed}` and `{python}` are filled in."""

    command: tuple[str, ...] = ()
    function: str | None = None  # module:function instead of a command
    directory: str = "."  # from the folder of the spec
    environment: dict[str, str] = {}
    warmup_steps: Annotated[int, msgspec.Meta(ge=0)] = 0


class Baseline(Part, frozen=True, kw_only=True):
    """The fastest correct program on one worker, measured in the same rounds."""

    command: tuple[str, ...]


class Rehearsal(Part, frozen=True, kw_only=True):
    """Emulated nodes on one machine: what each of them has, and what runs on them."""

    launcher: Literal["local", "mpi", "torchrun"] = "mpi"
    cores_per_node: Positive = 0.1
    period_ms: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 20.0
    link_mbit_per_second: Positive = 300.0
    memory_bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None
    disk_bytes_per_second: Annotated[int, msgspec.Meta(gt=0)] | None = None
    slow_node: Annotated[int, msgspec.Meta(ge=-1)] | None = None  # -1: the last one
    slow_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.0


class EngineSpec(Part, frozen=True, kw_only=True):
    """Where the job runs."""

    name: str = "local"
    rehearsal: Rehearsal = Rehearsal()
    study: str | None = None  # replay: the folder to play
    options: tuple[str, ...] = ()  # more arguments for mpiexec or torchrun
    tables: dict[str, dict[str, Any]] = {}  # [engine.NAME], as its engine reads it


class Quality(Part, frozen=True, kw_only=True):
    """The figure of merit that must not move."""

    name: str = "quality"
    tolerance: Amount = 0.005
    better: Literal["same", "higher", "lower"] = "same"
    split: str = ""


class Price(Part, frozen=True, kw_only=True):
    """What a node costs; the words of the decision."""

    per_node_hour: Amount | None = None
    fixed_per_hour: Amount = 0.0
    startup_seconds: Amount = 0.0
    value_per_hour: Amount = 0.0
    storage_per_hour: Amount | None = None
    egress_gb: Amount | None = None  # of a run, out of the cloud
    instance: str = ""  # cloud:name@region instead of per_node_hour
    cloud: str = ""  # whose egress it is, without an instance
    spot: Share | None = None  # of the price on demand
    preempt: str = ""  # a rate with its unit, 0.05/h
    checkpoint_seconds: Amount = 60.0
    downtime_seconds: Amount = 300.0
    restart_seconds: Amount = 120.0
    correlation: Share = 1.0  # K nodes are stopped K^this times as often as one
    while_down: Literal["all", "survivors", "none"] = "all"  # that stay on the meter
    utilisation: Share | None = None  # of owned or committed nodes
    commit: Share | None = None
    ranges: dict[str, tuple[float, float]] = {}  # by input: price, fixed, startup, ...
    source: str = ""


class Energy(Part, frozen=True, kw_only=True):
    """What a node draws and where, for joules and grams."""

    idle_watts: Amount = 0.0
    busy_watts: Positive | None = None
    shared_watts: Amount = 0.0
    pue: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    grid: str = ""  # a country, FRA
    embodied_kilograms: Amount = 0.0  # to make a node, over 4 years


class Gates(Part, frozen=True, kw_only=True):
    """What must hold: for the recommended scale the first five, at named scales the others."""

    deadline_seconds: Positive | None = None
    deadline_confidence: Share = 0.95
    budget: Amount | None = None
    energy_budget_joules: Positive | None = None
    carbon_budget_grams: Positive | None = None
    least_speedup: dict[int, float] = {}  # by K
    least_efficiency: dict[int, float] = {}
    most_seconds: dict[int, float] = {}


class Precision(Part, frozen=True, kw_only=True):
    """Stop early or go on until the speedup of every scale is known this well."""

    speedup: Share
    most_rounds: Annotated[int, msgspec.Meta(ge=6, le=100_000)] = 40


class Spec(Part, frozen=True, kw_only=True):
    """A scaling study: what, at which scales, how often, and what must hold."""

    format: Literal[1] = 1
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    scales: Annotated[tuple[Nodes, ...], msgspec.Meta(min_length=1)]
    regime: Regime = "strong"
    rounds: Rounds = 7
    timeout_seconds: Positive = 600.0
    seed: int = 7
    threshold: Share = 0.70
    fixed: tuple[str, ...] = ()  # facts that must be the same at every scale
    work_unit: str = "items"
    workload: Workload
    baseline: Baseline | None = None
    engine: EngineSpec = EngineSpec()
    quality: Quality = Quality()
    price: Price = Price()
    energy: Energy = Energy()
    scenarios: dict[str, dict[str, float | str]] = {}  # inputs that differ, by scenario
    gates: Gates = Gates()
    precision: Precision | None = None


def parse_spec(text: str) -> Spec:
    """The spec in a TOML text."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits, too deep
        raise SpecError(
            f"The spec is not TOML: {error}.", "Mend that line, or make a spec with nodewise init."
        ) from None
    spec = convert(_with_engine_tables(raw), Spec, "", "nodewise init --schema or docs/spec.md")
    if len(set(spec.scales)) != len(spec.scales):
        raise SpecError("scales: a scale stands there twice.", "Name each scale once.")
    for field in ("least_speedup", "least_efficiency", "most_seconds"):
        strangers = [nodes for nodes in getattr(spec.gates, field) if nodes not in spec.scales]
        if strangers:
            raise SpecError(
                f"gates.{field}: K={strangers[0]} is not measured.",
                f"Name one of the scales: {', '.join(map(str, spec.scales))}.",
            )
    if bool(spec.workload.command) == bool(spec.workload.function):
        raise SpecError(
            "workload: give a command or a function, one of the two.",
            'Write command = ["python", "train.py"] or function = "module:function".',
        )
    return spec


def convert(raw: object, kind: type[Table], path: str, page: str) -> Table:
    """A table of the file as a struct; a bad field is named by its path, and `page` explains it."""
    try:
        return msgspec.convert(raw, kind, str_keys=True)
    except msgspec.ValidationError as error:
        problem, _, inner = str(error).partition(" - at ")
        below = inner.strip("`").removeprefix("$").removeprefix(".")
        where = ".".join(part for part in (path, below) if part) or "the spec"
        raise SpecError(
            f"{where}: {problem[0].lower()}{problem[1:]}.", f"See {page} for what it may be."
        ) from None


def _with_engine_tables(raw: dict[str, Any]) -> dict[str, Any]:
    """The file with the tables of its engines in one place: which there are is not known here."""
    engine = raw.get("engine")
    if not isinstance(engine, dict):
        return raw
    own = {field.name for field in msgspec.structs.fields(EngineSpec)}
    tables = {name: t for name, t in engine.items() if isinstance(t, dict) and name not in own}
    rest = {name: value for name, value in engine.items() if name not in tables}
    return {**raw, "engine": {**rest, **({"tables": tables} if tables else {})}}
