"""Heat spreading over a plate, with MPI: the same numbers to the last bit at every K.

The rows of the plate are divided over the ranks; before each step a rank exchanges rows with the
ranks above and below it. The plate starts as one wave, whose decay is known exactly.
Run it alone (python examples/heat_mpi.py), under mpiexec, or as a study:
nodewise study examples/heat_mpi.toml

One disease can be turned on: a step needs one row of each neighbour, --halo-rows 200 sends 200.
"""

import argparse
import hashlib
import sys

import numpy as np
from mpi4py import MPI

from nodewise import probe

DIFFUSION = 0.2  # stable below 0.25
WAVES = (3, 2)  # half waves down and across the plate


def plate(rows, columns):
    """The plate at the start, without its cold rim."""
    down = np.sin(WAVES[0] * np.pi * np.arange(1, rows + 1) / (rows + 1))
    across = np.sin(WAVES[1] * np.pi * np.arange(1, columns + 1) / (columns + 1))
    return np.outer(down, across)


def decay(rows, columns):
    """What one step leaves of the wave: it is an eigenvector of the stencil."""
    down = np.cos(WAVES[0] * np.pi / (rows + 1))
    across = np.cos(WAVES[1] * np.pi / (columns + 1))
    return 1.0 - DIFFUSION * (4.0 - 2.0 * down - 2.0 * across)


def exchange(world, heat, halo):
    """Fill the halo above and below the own rows; at the rim of the plate it stays cold."""
    above = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
    below = world.rank + 1 if world.rank < world.size - 1 else MPI.PROC_NULL
    world.Sendrecv(heat[halo : 2 * halo], above, recvbuf=heat[-halo:], source=below)
    world.Sendrecv(heat[-2 * halo : -halo], below, recvbuf=heat[:halo], source=above)


def spread(heat, halo, flow):
    """One step of the own rows; `flow` is room for what comes in from the sides."""
    around = heat[halo - 1 : len(heat) - halo + 1]
    inner = around[1:-1, 1:-1]
    np.add(around[:-2, 1:-1], around[2:, 1:-1], out=flow)
    flow += around[1:-1, :-2]
    flow += around[1:-1, 2:]
    flow *= DIFFUSION
    inner *= 1.0 - 4.0 * DIFFUSION
    inner += flow


def main():
    """Let the heat spread for a fixed number of steps and compare with the exact answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--halo-rows", type=int, default=1)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    halo = options.halo_rows
    edges = [options.rows * rank // world.size for rank in range(world.size + 1)]
    own_rows = edges[world.rank + 1] - edges[world.rank]
    if world.size > 1 and not 1 <= halo <= options.rows // world.size:
        parser.error(f"--halo-rows must be 1 to {options.rows // world.size}")
    with probe.setup():
        begin = plate(options.rows, options.columns)
        heat = np.zeros((own_rows + 2 * halo, options.columns + 2))
        heat[halo:-halo, 1:-1] = begin[edges[world.rank] : edges[world.rank + 1]]
        flow = np.zeros((own_rows, options.columns))
        world.Barrier()
    for _ in probe.steps(range(options.steps)):
        with probe.comm():
            exchange(world, heat, halo)
        with probe.compute():
            spread(heat, halo, flow)
    probe.work(items=own_rows * options.columns * options.steps)
    probe.fact(
        rows=options.rows, columns=options.columns, steps=options.steps, dtype=str(heat.dtype)
    )
    parts = world.gather(heat[halo:-halo, 1:-1])
    if world.rank == 0:
        end = np.concatenate(parts)
        exact = begin * decay(options.rows, options.columns) ** options.steps
        error = float(np.abs(end - exact).max())
        answer = hashlib.sha256(end.tobytes()).hexdigest()[:16]
        probe.quality(error=error)
        probe.fact(answer=answer)
        sys.stdout.write(f"answer {answer}, largest error {error:.1e}\n")


if __name__ == "__main__":
    main()
