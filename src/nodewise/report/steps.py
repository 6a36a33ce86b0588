"""Diagnosing from Python: the steps of your own program against the ceilings of this machine.

from nodewise.report.steps import Step, counted, steps
print(steps({
    "multiply": counted(numpy.matmul, a, b),
    "train": train_one_batch,  # what torch does in it is counted
    "save and load": Step(save_and_load, disk_bytes=2 * big.nbytes),
    "by hand": Step(lambda: filter(big), flops=5 * big.size, memory_bytes=2 * big.nbytes),
}))
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nodewise.base.errors import SpecError
from nodewise.diagnose.steps import StepRow, StepTable, judge_steps
from nodewise.study.machine import Machine

REPEATS = 7


class Step(NamedTuple):
    """A step to be timed, and what one run of it does: operations and bytes."""

    call: Callable[[], object]
    flops: float = 0.0
    memory_bytes: float = 0.0
    disk_bytes: float = 0.0
    dtype: str = "float64"


def counted(call: Callable[..., Any], *arguments: Any) -> Step:
    """A step that calls a numpy function, its operations and bytes counted by formula."""
    from nodewise.diagnose.machine.array_counts import array_counts

    found = array_counts(call, arguments)
    if found is None:
        raise SpecError(
            f"No formula for {getattr(call, '__name__', call)}.",
            "Give the counts yourself: Step(call, flops=..., memory_bytes=...).",
        )
    return Step(lambda: call(*arguments), *found[:2], dtype=found.dtype)


class Steps:
    """The table of the steps; `print` shows it, `rows` has the numbers."""

    def __init__(self, table: StepTable) -> None:
        """Keep the table."""
        self.table = table

    @property
    def rows(self) -> dict[str, StepRow]:
        """Every step by its name."""
        return {row.name: row for row in self.table.rows}

    @property
    def slowest(self) -> StepRow:
        """The step that takes most of the time."""
        return self.rows[self.table.slowest]

    def __str__(self) -> str:
        """The table as on a terminal."""
        from nodewise.report.terminal import WIDTH, render
        from nodewise.report.text.diagnose import steps_report

        return render(steps_report(self.table), WIDTH, colour=False)


def steps(
    named: Mapping[str, Step | Callable[[], object]],
    *,
    machine: Machine | None = None,
    repeats: int = REPEATS,
) -> Steps:
    """Time each step and hold it against the machine's ceilings, which are measured once and kept.

    A plain function is a step whose operations and bytes are not given. What torch does in it is
    counted; without torch it is timed, not classified.
    """
    from nodewise.diagnose.machine.measured import machine as this_machine
    from nodewise.diagnose.machine.steps import time_step

    if machine is None:
        machine, _ = this_machine(Path.cwd())
    timed = []
    for name, step in named.items():
        told = step if isinstance(step, Step) else _counted_by_torch(step)
        timed.append(
            time_step(
                name,
                told.call,
                repeats=repeats,
                flops=told.flops,
                memory_bytes=told.memory_bytes,
                disk_bytes=told.disk_bytes,
                dtype=told.dtype,
            )
        )
    return Steps(judge_steps(timed, machine))


def _counted_by_torch(call: Callable[[], object]) -> Step:
    """The step with the operations and bytes that pass through torch, if that is in use at all."""
    if "torch" not in sys.modules:
        return Step(call)
    from nodewise.diagnose.machine.torch_counting import Counting

    with Counting() as found:
        call()
    return Step(call, flops=found.flops, memory_bytes=found.memory_bytes, dtype=found.dtype)
