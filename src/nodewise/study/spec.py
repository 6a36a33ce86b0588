"""What is measured: the TOML file that a user writes, as frozen structs.

Every field has its unit in its name where that is not seconds; a bad one is named by its path.
What the same file asks (prices, gates, regime) is in `nodewise.study.question`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from nodewise.base.errors import SpecError
from nodewise.study.question import Tables, split
from nodewise.study.scale_unit import ScaleUnit, parse_unit

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
OWN_WORKERS = "command"  # the engine of a command that starts its own K workers


class Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A table of the file; an unknown field is an error."""


class Pattern(Part, frozen=True, kw_only=True):
    """A regular expression over the output of a program, with a group for the number."""

    pattern: str  # regular expression with one group
    take: Literal["last", "first", "sum"] = "last"  # which of several matches


class Workload(Part, frozen=True, kw_only=True):
    """The job. Expressions in the command are computed: `{nodes}`, `{48/nodes}`, `{seed}`.

    `{n}` alone is K of a command that starts its own workers. See `nodewise.study.expression`, and
    `nodewise.study.log_patterns` for the figures that are read from the output.
    """

    command: tuple[str, ...] = ()  # the program and its arguments
    arguments: dict[Nodes, tuple[str, ...]] = {}  # more arguments, by scale
    requires: str | None = None  # a condition that every scale must meet
    function: str | None = None  # module:function instead of a command
    directory: str = "."  # where the job runs, relative to the folder of the spec
    environment: dict[str, str] = {}  # environment variables of the job
    warmup_steps: Annotated[int, msgspec.Meta(ge=0)] = 0  # steps before the clock starts
    log: str | None = None  # name of a preset of patterns
    output: str | None = None  # file to search; default: standard output
    seconds: str | Pattern | None = None  # pattern of the time in the output
    work: str | Pattern | None = None  # pattern of the work
    quality: str | Pattern | None = None  # pattern of the figure of merit
    stage: dict[str, str | Pattern] = {}  # patterns of the seconds in each stage
    # What is timed of an MPI program: between MPI_Pcontrol(1) and (0), or from the first to the
    # last call of a collective, or between two of them ("MPI_Barrier 3-4"); nothing: from MPI_Init
    # to MPI_Finalize.
    region: Annotated[
        str, msgspec.Meta(pattern="^(pcontrol|MPI_[A-Z][a-z_]+( [1-9][0-9]*-[1-9][0-9]*)?|)$")
    ] = ""  # the timed part of an MPI program: pcontrol, or a collective such as MPI_Barrier 3-4

    def at(self, scales: Sequence[int]) -> "Workload":
        """The job at these scales alone."""
        kept = {nodes: words for nodes, words in self.arguments.items() if nodes in scales}
        return msgspec.structs.replace(self, arguments=kept)


class Baseline(Part, frozen=True, kw_only=True):
    """The fastest correct program on one worker, measured in the same rounds."""

    command: tuple[str, ...]  # the program and its arguments


class Rehearsal(Part, frozen=True, kw_only=True):
    """Emulated nodes on one machine: what each of them has, and what runs on them."""

    launcher: Literal["local", "mpi", "torchrun"] = "mpi"  # what starts the ranks
    cores_per_node: Positive = 0.1  # share of a core, or several cores
    # paced: a program with a probe or torch hooks sleeps to its share; one without has a quota
    cpu: Literal["paced", "quota"] = "paced"  # how the share of the CPU is kept
    period_ms: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 20.0  # period of a CPU quota
    link: Literal["auto", "real", "modelled"] = "auto"  # auto: real where that is possible
    link_mbit_per_second: Positive = 300.0  # bandwidth of the link of each node
    link_latency_ms: Amount = 0.05  # latency of a message on a modelled link
    memory_bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None  # memory limit of a node
    disk_bytes_per_second: Annotated[int, msgspec.Meta(gt=0)] | None = None  # disk limit of a node
    slow_node: Annotated[int, msgspec.Meta(ge=-1)] | None = (
        None  # number of a slow node; -1: the last
    )
    slow_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.0  # how many times slower it is


class EngineSpec(Part, frozen=True, kw_only=True):
    """Where the job runs."""

    name: str = "local"  # the engine; see engines.md
    rehearsal: Rehearsal = Rehearsal()
    study: str | None = None  # replay: folder of the stored study
    options: tuple[str, ...] = ()  # more arguments for mpiexec or torchrun
    tables: dict[str, dict[str, Any]] = {}  # [engine.NAME], as its engine reads it


class Quality(Part, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The figure of merit that the workload reports."""

    name: str = "quality"  # name under which the workload reports it
    split: str = ""  # data split that it is evaluated on


class Precision(Part, frozen=True, kw_only=True):
    """Stop early or go on until the speedup of every scale is known this well."""

    speedup: Share  # relative half-width of its interval
    most_rounds: Annotated[int, msgspec.Meta(ge=6, le=100_000)] = 40  # limit of rounds


class Spec(Part, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What a scaling study measures: the job, the scales, the rounds.

    Studies stored by version 0.1 have their question in here; it is skipped. A file with an unknown
    key is refused by `parse_file`.
    """

    format: Literal[1] = 1  # version of the file format
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]  # name of the study
    scales: Annotated[tuple[Nodes, ...], msgspec.Meta(min_length=1)]  # the K to measure
    rounds: Rounds = 7  # each runs every K once, in random order
    timeout_seconds: Positive = 600.0  # longest time of one run
    seed: int = 7  # random seed of the run order; {seed} in the command
    fixed: tuple[str, ...] = ()  # facts that must be the same at every scale
    workload: Workload  # the job
    baseline: Baseline | None = None  # program for K=1
    engine: EngineSpec = EngineSpec()  # where the job runs
    quality: Quality = Quality()  # figure of merit
    precision: Precision | None = None  # when to stop

    def continues(self, before: "Spec") -> bool:
        """Whether this measures what `before` did: the same job, at the same scales or more."""
        same_job = all(
            getattr(self, name) == getattr(before, name) for name in ("baseline", "engine", "seed")
        ) and self.workload.at(before.scales) == before.workload.at(before.scales)
        return same_job and set(before.scales) <= set(self.scales)


def parse_spec(text: str) -> Spec:
    """The measured part of a TOML text."""
    return parse_file(text)[0]


def parse_file(text: str) -> tuple[Spec, Tables]:
    """What a TOML text measures, and what it asks."""
    measured, asked = split(read_toml(text))
    measured = _with_engine_tables(measured)
    _refuse_unknown(measured, Spec, "")
    quality = measured.get("quality")
    if isinstance(quality, dict):
        _refuse_unknown(quality, Quality, "quality.")
    spec = convert(measured, Spec, "", "nodewise init --schema or docs/spec.md")
    if len(set(spec.scales)) != len(spec.scales):
        raise SpecError("scales: a scale is listed twice.", "Name each scale once.")
    _refuse_unmeasured(asked.get("gates"), spec.scales)
    if asked.get("regime", "strong") not in ("strong", "weak"):
        raise SpecError(f"regime: {asked['regime']!r} is not a regime.", "Write strong or weak.")
    scale_unit_in(asked)
    if bool(spec.workload.command) == bool(spec.workload.function):
        raise SpecError(
            "workload: give a command or a function, one of the two.",
            'Write command = ["python", "train.py"] or function = "module:function".',
        )
    _check_workload(spec)
    return spec, asked


def _check_workload(spec: Spec) -> None:
    """Refuse arguments that leave out a scale, and patterns that cannot be searched."""
    from nodewise.study.log_patterns import log_patterns  # which needs the stages of a study

    listed = spec.workload.arguments
    absent = [nodes for nodes in spec.scales if nodes not in listed]
    if listed and absent:
        raise SpecError(
            f"workload.arguments: K={absent[0]} has no arguments.",
            f'Add {absent[0]} = ["..."] under [workload.arguments], or leave out this scale.',
        )
    log_patterns(spec.workload)


def refuse_one_scale(scales: Sequence[int]) -> None:
    """Refuse a study of one scale: it cannot answer any question."""
    if len(set(scales)) < 2:
        raise SpecError(
            f"scales: only K={scales[0]} is given, and scaling needs two scales.",
            "Name two scales or more, such as 1,2.",
        )


def scale_unit_in(asked: Tables) -> ScaleUnit:
    """What K counts, as a file says at its top."""
    try:
        stated = {"unit": parse_unit(str(asked["unit"]))} if "unit" in asked else {}
    except ValueError as error:
        raise SpecError(f"unit: {error}.", "Say what K counts.") from None
    stated |= {"per_node": asked["per_node"]} if "per_node" in asked else {}
    return convert(stated, ScaleUnit, "", "docs/spec.md")


def read_toml(text: str) -> Tables:
    """The tables of a TOML text."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits, too deep
        raise SpecError(
            f"The file is not TOML: {error}.", "Correct that line, or make a spec: nodewise init"
        ) from None


def _refuse_unknown(raw: Tables, kind: type[Part], path: str) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for key in raw:
        if key not in known:
            unknown = f"the spec: object contains unknown field `{key}`."
            raise SpecError(
                f"{path}{key}: unknown field." if path else unknown,
                "See nodewise init --schema or docs/spec.md for what it may be.",
            )


def _refuse_unmeasured(gates: object, scales: tuple[int, ...]) -> None:
    """Refuse a gate at a scale that is not measured."""
    for name, by_scale in (gates if isinstance(gates, dict) else {}).items():
        for nodes in by_scale if isinstance(by_scale, dict) else ():
            if nodes not in map(str, scales):
                raise SpecError(
                    f"gates.{name}: K={nodes} is not measured.",
                    f"Name one of the scales: {', '.join(map(str, scales))}.",
                )


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
