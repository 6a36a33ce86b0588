"""The steps of a program against the ceilings of its machine: which one binds each, and how near.

A ceiling explains the part of a step's time that its bytes or operations take at least. The ceiling
that explains most is the one that binds; if none explains much, that is said instead.
"""

from typing import Literal

import msgspec
import numpy as np

from nodewise.base.interval import median_interval
from nodewise.diagnose.axes import MENU, AxisName, CeilingName
from nodewise.study.machine import Ceiling, Machine
from nodewise.study.observed import TimedStep

EXPLAINS = 0.3  # a ceiling that explains less of the time does not bind
_ABOVE_THE_ROOF = 1.15
_BUSY = 0.5
_HUGE_PAGE_BYTES = 2 * 2**20

StepCeiling = CeilingName | Literal["undecided", "above the roof"]


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its time, what it reached, and the ceiling that limits it."""

    name: str
    seconds: float
    low: float
    high: float
    share_of_time: float  # of all steps together
    intensity: float | None
    flops_per_second: float
    bytes_per_second: float
    cores: float  # kept busy
    ceiling: StepCeiling
    share: float  # of the ceiling that the step reaches
    explained: dict[str, float]  # share of the time that each ceiling takes at least
    axis: AxisName | None
    remark: str = ""


class StepTable(msgspec.Struct, frozen=True, kw_only=True):
    """All steps, and the one that takes most of the time."""

    rows: tuple[StepRow, ...]
    slowest: str


def judge_steps(steps: list[TimedStep], machine: Machine) -> StepTable:
    """Each step against the ceilings of as many cores as it kept busy."""
    whole = sum(float(np.median(step.seconds)) for step in steps)
    rows = tuple(_row(step, machine, whole) for step in steps)
    return StepTable(rows=rows, slowest=max(rows, key=lambda row: row.seconds).name)


def _row(step: TimedStep, machine: Machine, whole: float) -> StepRow:
    samples = np.array(step.seconds)
    seconds = float(np.median(samples))
    low, high = median_interval(samples)
    cores = step.cpu_seconds / seconds
    explained = _explained(step, machine, seconds, cores)
    ceiling, share, remark = _binding(explained, cores)
    moved = step.memory_bytes or step.disk_bytes
    return StepRow(
        name=step.name,
        seconds=seconds,
        low=low,
        high=high,
        share_of_time=seconds / whole,
        intensity=step.flops / moved if moved else None,
        flops_per_second=step.flops / seconds,
        bytes_per_second=moved / seconds,
        cores=cores,
        ceiling=ceiling,
        share=share,
        explained={str(name): value for name, value in explained.items()},
        axis=MENU[ceiling].axis if ceiling in MENU else None,
        remark=remark,
    )


def _explained(
    step: TimedStep, machine: Machine, seconds: float, cores: float
) -> dict[CeilingName, float]:
    """The share of the time that each ceiling takes at least."""
    found: dict[CeilingName, float] = {}
    peak = _of_cores(machine.compute.get(step.dtype, {}), cores)
    bandwidth = _of_cores(machine.memory.get("DRAM", {}), cores)
    if step.flops and peak is not None:
        found["compute"] = step.flops / peak.value / seconds
    if step.memory_bytes and bandwidth is not None:
        found["memory bandwidth"] = step.memory_bytes / bandwidth.value / seconds
    if step.faults and machine.page_fault is not None:
        # Faults are the kernel's time: never more than it took. A page may be a huge one.
        at_most = step.faults * _HUGE_PAGE_BYTES / machine.page_fault.value
        found["page faults"] = min(at_most, step.system_seconds) / seconds
    if step.disk_bytes:
        # Through the page cache no rate is a ceiling; what counts is waiting, and copying.
        waiting = max(seconds - step.cpu_seconds, 0.0)
        found["data I/O"] = min((waiting + step.system_seconds) / seconds, 1.0)
        found.pop("page faults", None)  # of the page cache: part of the reading
    return found


def _of_cores(ceilings: dict[int, Ceiling], cores: float) -> Ceiling | None:
    """The ceiling of as many cores as were busy; a fifth over counts as the lower number."""
    fitting = [count for count in ceilings if count <= max(cores + 0.8, 1.0)]
    return ceilings[max(fitting)] if fitting else None


def _binding(explained: dict[CeilingName, float], cores: float) -> tuple[StepCeiling, float, str]:
    if not explained:
        return "undecided", 0.0, "neither operations nor bytes are given"
    name = max(explained, key=lambda one: explained[one])
    share = explained[name]
    if share > _ABOVE_THE_ROOF:
        return (
            "above the roof",
            share,
            f"{share:.2g} times what {name} allows: a count, a unit or the dtype is wrong, or the "
            "data stayed in the cache",
        )
    if share >= EXPLAINS:
        return name, share, ""
    if cores < _BUSY:
        return "undecided", share, "it waits most of the time: for a clock, a lock or a message"
    return (
        "undecided",
        share,
        f"the core is busy, but {name} explains only {100 * share:.0f} %: calls, conversions or "
        "work that is not counted",
    )
