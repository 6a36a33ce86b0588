"""A node's measured ceilings and identity: the `Machine` that probes fill and rooflines read."""

from typing import Literal

import msgspec

from nodewise.study.study import Fact

Unit = Literal["FLOP/s", "B/s", "s", "1/s", "B"]


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One limit of a node: the median of its windows, between which bounds, and how it was got."""

    value: float
    low: float
    high: float
    unit: Unit
    windows: int  # the repeats behind it
    clean: float = 1.0  # share of all windows in which no other process had the core
    how: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one node can do at most. Ceilings that could not be measured are named in `missing`."""

    identity: dict[str, Fact]
    measured: str  # date and time, UTC
    seconds: float  # that the measuring took
    compute: dict[str, dict[int, Ceiling]] = {}  # by dtype, then by threads
    peak_flops: dict[str, float] = {}  # in theory, one thread, by dtype
    clock_hertz: float | None = None
    memory: dict[str, dict[int, Ceiling]] = {}  # by level, then by threads
    page_fault: Ceiling | None = None  # first touch of fresh memory
    disk: dict[str, Ceiling] = {}
    link: dict[str, dict[str, Ceiling]] = {}  # by kind, then alpha and beta by message size
    capacity: dict[str, float] = {}  # bytes; what limits memory, smallest is what counts
    devices: dict[str, dict[str, Ceiling]] = {}
    contention: dict[str, float] = {}
    missing: dict[str, str] = {}  # what was not measured, and why

    @property
    def memory_bytes(self) -> float:
        """The memory that a process here can have: the smallest of all limits."""
        return min(self.capacity.values())

    def peak(self, dtype: str = "float64") -> float | None:
        """The most FLOP/s of any number of threads."""
        found = self.compute.get(dtype, {})
        return max((ceiling.value for ceiling in found.values()), default=None)

    @property
    def memory_bandwidth(self) -> float | None:
        """The most bytes per second from main memory, of any number of threads."""
        found = self.memory.get("DRAM", {})
        return max((ceiling.value for ceiling in found.values()), default=None)
