"""Measured facts: a `Study` and its `Run`s. Only these are stored; all else is recomputed."""

from functools import cached_property
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


class Study(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Runs of one job at several scales; the job (strong) or a node's share (weak) is fixed."""

    name: str
    regime: Regime
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _by_scale(self) -> dict[int, tuple[Run, ...]]:
        grouped: dict[int, list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: (run.nodes, run.round)):
            grouped.setdefault(run.nodes, []).append(run)
        return {nodes: tuple(runs) for nodes, runs in grouped.items()}

    @property
    def scales(self) -> tuple[int, ...]:
        """The measured node counts, ascending."""
        return tuple(self._by_scale)

    def at(self, nodes: int) -> tuple[Run, ...]:
        """The runs at one scale, by round."""
        return self._by_scale[nodes]

    @cached_property
    def paired(self) -> bool:
        """Whether every scale was run in the same rounds, so that rounds can be compared whole."""
        return len({tuple(run.round for run in runs) for runs in self._by_scale.values()}) == 1

    @property
    def rounds(self) -> int:
        """The number of rounds that every scale has."""
        return min(len(runs) for runs in self._by_scale.values())
