"""Joules and grams of CO2e of a run, and where the figure comes from.

    joules = PUE * (T + L) * (K * node watts + shared watts)
    grams  = kWh * grid intensity + K * (T + L) * embodied grams / life

is the same algebra as money, with shared watts for the overhead, so the cheapest, the fastest and
the greenest K come from one routine. A figure is measured, imported, modelled with its range, or
unknown; without counters a model was off by 44 % in the median, so the range is always shown.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import HOURS_PER_YEAR, SECONDS_PER_HOUR, format_quantity
from nodewise.study.check import Check, Verdict
from nodewise.study.study import Study

Basis = Literal["measured", "imported", "modelled", "unknown"]

JOULES_PER_KWH = 3.6e6
# MLPerf Training's power rules, the bar for the word "measured"
LEAST_SAMPLES = 60
LEAST_SAMPLES_PER_SECOND = 1.0

# Cloud Carbon Footprint, commit b7a049c7 (2024-03): idle and full watts
_VCPU_WATTS = (0.74, 3.5)
_WATTS_PER_GB = 0.392
_ACCELERATOR_WATTS = {"T4": (8.0, 71.0), "V100": (35.0, 306.0), "A100": (46.0, 407.0)}


class NodePower(msgspec.Struct, frozen=True, kw_only=True):
    """What a node draws: somewhere between idle and busy; both are one where one is stated."""

    idle_watts: float
    busy_watts: float
    source: str = "stated"

    def __post_init__(self) -> None:
        """Refuse impossible powers."""
        if not 0 <= self.idle_watts <= self.busy_watts < math.inf:
            raise SpecError(
                f"A node draws {self.idle_watts:g} W idle and {self.busy_watts:g} W busy.",
                "Write watts, idle not above busy.",
            )

    @property
    def watts(self) -> float:
        """The centre of the range."""
        return (self.idle_watts + self.busy_watts) / 2


def power_of_parts(
    vcpus: float,
    memory_gb: float,
    accelerator: str = "",
    accelerator_count: float = 0,
) -> NodePower | None:
    """A node's power from its parts, by public averages; nothing for an accelerator not listed.

    >>> power = power_of_parts(vcpus=96, memory_gb=1152, accelerator="A100", accelerator_count=8)
    >>> power and (round(power.idle_watts), round(power.busy_watts))
    (891, 4044)
    """
    if accelerator_count and accelerator.partition("-")[0] not in _ACCELERATOR_WATTS:
        return None
    each = _ACCELERATOR_WATTS.get(accelerator.partition("-")[0], (0.0, 0.0))
    idle, busy = (
        vcpus * _VCPU_WATTS[end] + memory_gb * _WATTS_PER_GB + accelerator_count * each[end]
        for end in (0, 1)
    )
    source = "Cloud Carbon Footprint, 2024-03"
    return NodePower(idle_watts=idle, busy_watts=busy, source=source)


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """Joules of each run, with a range where they are modelled, and how they are known."""

    basis: Basis
    joules: Floats | None
    low: Floats | None = None
    high: Floats | None = None
    note: str = ""

    @property
    def was_sought(self) -> bool:
        """Whether there is a figure, or a reason why it is missing."""
        return self.basis != "unknown" or self.note != UNKNOWN.note

    def times(self, factor: Floats) -> "Energy":
        """The same runs, each drawing power this many times as long."""
        longer = [
            None if one is None else one * factor for one in (self.joules, self.low, self.high)
        ]
        return msgspec.structs.replace(self, joules=longer[0], low=longer[1], high=longer[2])

    def per_work(self, work: Floats) -> Floats | None:
        """Joules for a unit of work."""
        return None if self.joules is None else self.joules / work

    def label(self, at: int) -> str:
        """The figure of one run as it may be shown: never without its basis."""
        if self.joules is None:
            return "unknown"
        said = f"{format_quantity(float(self.joules[at]))} J, {self.basis}"
        if self.low is not None and self.high is not None:
            low, high = float(self.low[at]), float(self.high[at])
            said += f" ({format_quantity(low)} to {format_quantity(high)})"
        return said


UNKNOWN = Energy(basis="unknown", joules=None, note="no counter, no import and no node watts")


def modelled(
    seconds: Floats,
    nodes: Floats,
    power: NodePower,
    shared_watts: float = 0.0,
    pue: float = 1.0,
    startup_seconds: float = 0.0,
) -> Energy:
    """Energy from node watts: PUE * (T + L) * (K * watts + shared), from all idle to all busy.

    One power that was stated has no range.

    >>> hour = modelled(np.array([3600.0]), np.array([2.0]), NodePower(idle_watts=100,
    ...     busy_watts=500), pue=1.2)
    >>> hour.label(0)
    '2,592,000 J, modelled (864,000 to 4,320,000)'
    """
    for name, value in (("shared power", shared_watts), ("start-up", startup_seconds)):
        if not (math.isfinite(value) and value >= 0):
            raise SpecError(f"The {name} is {value:g}.", "Write 0 or more.")
    _refuse_pue(pue)

    def joules(watts: float) -> Floats:
        return pue * metered(seconds + startup_seconds, nodes, watts, shared_watts)

    is_range = power.idle_watts < power.busy_watts
    return Energy(
        basis="modelled",
        joules=joules(power.watts),
        low=joules(power.idle_watts) if is_range else None,
        high=joules(power.busy_watts) if is_range else None,
        note=f"node watts: {power.source}; PUE {pue:g}",
    )


def _refuse_pue(pue: float) -> None:
    if not (math.isfinite(pue) and pue >= 1):
        raise SpecError(f"A PUE of {pue:g} is below 1.", "Write site watts over node watts.")


def metered(hours: Floats, nodes: Floats, per_node: float, shared: float) -> Floats:
    """(T + L) (K * per node + shared): money, energy or carbon, depending on the inputs."""
    return np.asarray(hours * (nodes * per_node + shared), dtype=np.float64)


def energy_of_runs(study: Study) -> Energy:
    """Joules at each scale as its runs hold them: measured or imported; else unknown, and why.

    A reading of too few samples is not used: it would look like a measured one.
    """
    runs = study.good_runs
    told = [run.provenance for run in runs]
    missing = sorted({str(facts["energy_missing"]) for facts in told if "energy_missing" in facts})
    if any(run.energy_joules is None for run in runs):
        return msgspec.structs.replace(UNKNOWN, note="; ".join(missing) or UNKNOWN.note)
    sources = sorted({str(facts.get("energy_source", "column energy_j")) for facts in told})
    note = ", ".join(sources) + "".join(f"; {one}" for one in missing)
    joules = [
        float(np.mean([run.energy_joules for run in study.at(nodes)])) for nodes in study.scales
    ]
    basis: Basis = "imported"
    if all(facts.get("energy_basis") == "measured" for facts in told):
        basis = "measured"
        samples = min(float(facts.get("energy_samples", 0)) for facts in told)
        hertz = min(float(facts.get("energy_hertz", 0)) for facts in told)
        said = f"{samples:g} samples or more a run, {hertz:.3g} a second"
        if samples < LEAST_SAMPLES or hertz < LEAST_SAMPLES_PER_SECOND:
            few = (
                f"{said}: too few to be called measured, which takes {LEAST_SAMPLES} and 1 a second"
            )
            return msgspec.structs.replace(UNKNOWN, note=few)
        note += f"; {said}"
    return Energy(basis=basis, joules=np.array(joules), note=note)


def energy_check(energy: Energy) -> Check:
    """Whether the energy may be called measured, by MLPerf's rules: all nodes, 1 a second, 60."""
    verdicts: dict[Basis, Verdict] = {"measured": "pass", "imported": "unknown"}
    return Check(
        rule="energy of every node",
        verdict=verdicts.get(energy.basis, "fail"),
        evidence=f"{energy.basis}; {energy.note}",
        remedy=""
        if energy.basis == "measured"
        else "Read every node once a second or more, 60 times or more; one reader a node.",
    )


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The carbon intensity of the grid of a place, from a dated table."""

    scope: str  # country, gcp-region or world
    code: str
    name: str
    grams_per_kwh: float
    year: int | None
    source: str

    @property
    def label(self) -> str:
        """The figure with its year and source."""
        when = str(self.year) if self.year is not None else "year not stated"
        return f"{self.grams_per_kwh:g} g CO2e/kWh, {self.name}, {when}: {self.source}"


def find_grid(grids: Sequence[Grid], place: str) -> Grid:
    """The grid of a country (FRA, France) or a region (gcp:us-central1)."""
    wanted = place.strip().lower().removeprefix("gcp:")
    for grid in grids:
        if wanted in (grid.code.lower(), grid.name.lower()):
            return grid
    countries = ", ".join(sorted(grid.code for grid in grids if grid.scope == "country"))
    raise SpecError(
        f"No grid intensity is known for '{place}'.",
        f"Name the country of the region ({countries}), or WLD for the world.",
    )


class Embodied(msgspec.Struct, frozen=True, kw_only=True):
    """The carbon it took to make a node, spread over its life."""

    kilograms: float
    life_years: float = 4.0

    @property
    def grams_per_second(self) -> float:
        """The share of one second of one node."""
        return self.kilograms * 1000 / (self.life_years * HOURS_PER_YEAR * SECONDS_PER_HOUR)


class Carbon(msgspec.Struct, frozen=True, kw_only=True):
    """Grams of CO2e of each run, labelled as its energy is."""

    basis: Basis
    grams: Floats | None
    low: Floats | None = None
    high: Floats | None = None
    grid: Grid | None = None

    def times(self, factor: Floats) -> "Carbon":
        """The same runs, each held this many times as long."""
        longer = [
            None if one is None else one * factor for one in (self.grams, self.low, self.high)
        ]
        return msgspec.structs.replace(self, grams=longer[0], low=longer[1], high=longer[2])

    def per_work(self, work: Floats) -> Floats | None:
        """Grams for a unit of work."""
        return None if self.grams is None else self.grams / work


def carbon(
    energy: Energy, grid: Grid | None, node_seconds: Floats, embodied: Embodied | None = None
) -> Carbon:
    """Grams of runs that held nodes for `node_seconds`; unknown without energy or a grid.

    >>> grid = Grid(scope="country", code="X", name="X", grams_per_kwh=400, year=2023, source="")
    >>> one = Energy(basis="measured", joules=np.array([3.6e6]))
    >>> float(carbon(one, grid, np.array([0.0])).grams[0])
    400.0
    """
    if energy.joules is None or grid is None:
        return Carbon(basis="unknown", grams=None, grid=grid)
    made = node_seconds * (embodied.grams_per_second if embodied else 0.0)

    def grams(joules: Floats | None) -> Floats | None:
        return None if joules is None else joules / JOULES_PER_KWH * grid.grams_per_kwh + made

    return Carbon(
        basis=energy.basis,
        grams=grams(energy.joules),
        low=grams(energy.low),
        high=grams(energy.high),
        grid=grid,
    )


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes draw and where: all that turns seconds into joules and grams."""

    power: NodePower | None = None
    shared_watts: float = 0.0  # of what runs beside the nodes, whatever K is
    pue: float = 1.0
    grid: Grid | None = None
    embodied: Embodied | None = None

    def energy(
        self, seconds: Floats, nodes: Floats, startup_seconds: float, known: Energy = UNKNOWN
    ) -> Energy:
        """Joules of runs: as they are known, else modelled from the node watts, else unknown.

        Counters see nodes, so what a site draws on top of them is added here: what runs beside
        them, and its PUE.
        """
        if known.joules is not None:
            _refuse_pue(self.pue)
            note = known.note
            if self.shared_watts:
                note += f"; plus {self.shared_watts:g} W of shared equipment"
            if self.pue != 1:
                note += f"; times a PUE of {self.pue:g}"
            joules = known.joules + self.shared_watts * (seconds + startup_seconds)
            return msgspec.structs.replace(known, joules=self.pue * joules, note=note)
        if self.power is None:
            return known
        model = modelled(seconds, nodes, self.power, self.shared_watts, self.pue, startup_seconds)
        if known.note == UNKNOWN.note:
            return model
        return msgspec.structs.replace(model, note=f"{model.note}; not measured: {known.note}")

    def carbon(
        self, energy: Energy, seconds: Floats, nodes: Floats, startup_seconds: float
    ) -> Carbon:
        """Grams of the same runs."""
        return carbon(energy, self.grid, nodes * (seconds + startup_seconds), self.embodied)


class Least(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The scale that needs the least of something."""

    of: str
    nodes: int
    value: float
    within_1_percent: tuple[int, ...]


def least_scales(
    nodes: Floats, quantities: Mapping[str, Floats | None], allowed: Sequence[bool] | None = None
) -> tuple[Least, ...]:
    """The cheapest, the fastest and the greenest K: the least of each quantity that is known.

    >>> found = least_scales(np.array([1.0, 2.0]), {"cost": np.array([3.0, 4.0]),
    ...     "seconds": np.array([10.0, 6.0]), "grams": None})
    >>> [(one.of, one.nodes) for one in found]
    [('cost', 1), ('seconds', 2)]
    """
    open_to = np.ones(len(nodes), dtype=bool) if allowed is None else np.array(allowed, dtype=bool)
    found = []
    for name, values in quantities.items():
        if values is None or not open_to.any():
            continue
        ranked = np.where(open_to, values, np.inf)
        at = int(np.argmin(ranked))
        near = ranked <= ranked[at] * 1.01
        found.append(
            Least(
                of=name,
                nodes=int(nodes[at]),
                value=float(ranked[at]),
                within_1_percent=tuple(int(count) for count in nodes[near & open_to]),
            )
        )
    return tuple(found)
