"""Scanning a file that is not kept in memory, with MPI: the same checksum at every K.

Rank 0 writes a file into a temporary folder; each rank reads its blocks of it, several times over,
and sums the checksums of the blocks. Before each pass the file is dropped from the page cache.
Run it alone (python examples/scan.py), under mpiexec, or as a study:
nodewise study examples/scan.toml

One disease can be turned on: with --read-all every rank reads the whole file and keeps its blocks.
"""

import argparse
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from mpi4py import MPI

from nodewise import probe

BLOCK_BYTES = 65536


def write(path, blocks, seed):
    """A file of random blocks, on the disk when this returns; the sum of their checksums."""
    random = np.random.default_rng(seed)
    total = 0
    with path.open("wb") as file:
        for _ in range(blocks):
            block = random.bytes(BLOCK_BYTES)
            file.write(block)
            total += zlib.crc32(block)
        file.flush()
        os.fsync(file.fileno())
    return total


def scan(file, read, mine):
    """Read the blocks in `read`; the sum of the checksums of those that are also in `mine`."""
    total = 0
    with probe.io():
        begin = read.start * BLOCK_BYTES
        os.posix_fadvise(file.fileno(), begin, len(read) * BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
        file.seek(begin)
    for number in read:
        with probe.io():
            block = file.read(BLOCK_BYTES)
        if number in mine:
            with probe.compute():
                total += zlib.crc32(block)
    return total


def main():
    """Scan the file a few times and compare with what was written."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--read-all", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    blocks = options.megabytes * 2**20 // BLOCK_BYTES
    everything = range(blocks)
    mine = everything[blocks * world.rank // world.size : blocks * (world.rank + 1) // world.size]
    folder = Path(world.bcast(tempfile.mkdtemp() if world.rank == 0 else None))
    path = folder / "blocks"
    try:
        with probe.setup():
            written = write(path, blocks, options.seed) if world.rank == 0 else None
            world.Barrier()
            file = path.open("rb", buffering=0)
        answers = set()
        for _ in probe.steps(range(options.passes)):
            own = scan(file, everything if options.read_all else mine, mine)
            with probe.comm():
                answers.add(world.allreduce(own))
        file.close()
    finally:
        if world.rank == 0:
            shutil.rmtree(folder)
    probe.work(items=len(mine) * options.passes)
    probe.fact(blocks=blocks, block_bytes=BLOCK_BYTES, passes=options.passes, seed=options.seed)
    if world.rank == 0:
        right = answers == {written}
        answer = f"{max(answers):016x}"
        probe.quality(correct=float(right), seed=options.seed)
        probe.fact(answer=answer)
        sys.stdout.write(f"answer {answer}, right: {right}\n")


if __name__ == "__main__":
    main()
