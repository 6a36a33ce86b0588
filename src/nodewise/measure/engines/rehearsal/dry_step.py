"""A dry step: the same CPU time on every node, then a barrier. What ranks wait is the emulation's.

    python -m nodewise.measure.engines.rehearsal.dry_step SOCKET CPU_SECONDS

Rank 0 is the hub of the barrier, over a Unix socket: no link and no library takes part.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nodewise import probe

STEPS = 10
STEP_SECONDS = 0.08  # of a node; about as short as a step that can be rehearsed
_CONNECT_SECONDS = 20.0


class DryStep(NamedTuple):
    """What a dry step takes at one scale: means over steps and ranks."""

    seconds: float
    wait_seconds: float


def command(place: Path, cores: float) -> tuple[str, ...]:
    """The command of every rank, for nodes of this many cores."""
    module = "nodewise.measure.engines.rehearsal.dry_step"
    return (sys.executable, "-m", module, str(place / "hub"), f"{cores * STEP_SECONDS:.6g}")


def read(folder: Path, nodes: int) -> DryStep | None:
    """What the ranks of a dry run reported; None if a rank or its waits are missing."""
    from nodewise.measure.collect import read_ranks  # the ranks need not load it

    ranks = read_ranks(folder)
    walls = [rank.seconds for rank in ranks if rank.seconds is not None]
    waits = [rank.stages["idle"] for rank in ranks if "idle" in rank.stages]
    if len(walls) < nodes or (len(waits) < nodes and nodes > 1):
        return None
    return DryStep(max(walls) / STEPS, sum(waits) / nodes / STEPS)


def main() -> None:
    """Run the steps as one rank."""
    rank, ranks = int(os.environ["NODEWISE_RANK"]), int(os.environ["NODEWISE_NODES"])
    hub, cpu_seconds = sys.argv[1], float(sys.argv[2])
    with probe.setup():
        meet = _lead(hub, ranks) if rank == 0 else _follow(hub)
    for _ in probe.steps(range(STEPS + 1)):
        with probe.compute():
            end = time.process_time() + cpu_seconds
            while time.process_time() < end:
                pass
        with probe.comm():
            meet()


def _lead(hub: str, ranks: int) -> Callable[[], None]:
    """The barrier of rank 0: wait for all others, then release them."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(_CONNECT_SECONDS)
        listener.bind(hub)
        listener.listen(ranks)
        others = [listener.accept()[0] for _ in range(ranks - 1)]
    return lambda: _release(others)


def _release(others: Sequence[socket.socket]) -> None:
    for other in others:
        other.recv(1)
    for other in others:
        other.sendall(b"g")


def _follow(hub: str) -> Callable[[], None]:
    """The barrier of any other rank."""
    leader = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            leader.connect(hub)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)

    def meet() -> None:
        leader.sendall(b"h")
        leader.recv(1)

    return meet


if __name__ == "__main__":
    main()
