"""Measured facts: a `Study` and its `Run`s. Only these are stored; all else is recomputed."""

from typing import Literal, get_args

import msgspec

Regime = Literal["strong", "weak"]

# Where the seconds of a rank can go. `idle` is waiting for others; what waiting was for is the
# ledger's business, not the measurement's.
Stage = Literal["compute", "communication", "idle", "io", "serial"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class Rank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one rank of a run did: seconds in each recorded stage, and its share of the items."""

    rank: int
    stages: dict[Stage, float]
    items: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"nodes": "K"}):
    """One measured fact: one scale, one round."""

    nodes: int
    round: int
    seconds: float
    stages: dict[Stage, float] = {}
    ranks: tuple[Rank, ...] = ()
    quality: float | None = None
    work: float | None = None
    rate_per_hour: float | None = None
    energy_joules: float | None = None


class Study(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of one job at several scales; the job (strong) or a node's share (weak) is fixed."""

    name: str
    regime: Regime
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @property
    def scales(self) -> tuple[int, ...]:
        """The measured node counts, ascending."""
        return tuple(sorted({run.nodes for run in self.runs}))

    def at(self, nodes: int) -> tuple[Run, ...]:
        """The runs at one scale, by round."""
        return tuple(sorted((r for r in self.runs if r.nodes == nodes), key=lambda r: r.round))

    @property
    def paired(self) -> bool:
        """Whether every scale was run in the same rounds, so that rounds can be compared whole."""
        rounds = {tuple(run.round for run in self.at(nodes)) for nodes in self.scales}
        return len(rounds) == 1

    @property
    def rounds(self) -> int:
        """The number of rounds that every scale has."""
        return min(len(self.at(nodes)) for nodes in self.scales)
