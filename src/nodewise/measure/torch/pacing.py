"""Pace a torch training on an emulated node, beside what the probe does at spans and steps.

A gradient is handed to DistributedDataParallel when such a node would have computed it, so a bucket
leaves at its time. Threads that only move bytes do not count: a network card would do their work.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nodewise import probe

_BYTE_MOVERS = ("gloo", "pt_gloo")  # how the names of such threads begin


def pace_gradients(model: Any) -> None:
    """Pace the backward pass of a model."""
    pace = _pace()
    if pace is not None:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(lambda _: pace.point())


def tell_bytes(name: str, tensors: Iterable[Any]) -> None:
    """Tell the pace what a collective sends, where the link is modelled: all of it at its start."""
    pace = _pace()
    if pace is None or not pace.bandwidth:
        return
    sizes = [one.numel() * one.element_size() for one in tensors if hasattr(one, "element_size")]
    if name == "all_reduce":
        probe.comm(all_reduce_bytes=sum(sizes))
    elif sizes or name == "wait":
        probe.comm(sent_bytes=max(sizes, default=0))


def leave_out_byte_movers() -> None:
    """Keep the threads that only move bytes out of the CPU time that is paced."""
    pace = _pace()
    if pace is None:
        return
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith(_BYTE_MOVERS):
                clock = ~int(task.name) << 3 | 6  # as the kernel numbers the clock of a thread
                pace.other_clocks.append(clock)


def _pace() -> "probe._Pace | None":
    return None if probe._report is None else probe._report.pace
