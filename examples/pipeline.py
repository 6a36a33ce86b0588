"""A pipeline of two stages with MPI, one of them serial: the same seals at every K.

Records come in batches. Rank 0 makes the key of a batch from the key before it, which nobody can
do ahead or in parts; then all ranks seal their records of the batch with that key.
Run it alone (python examples/pipeline.py), under mpiexec, or as a study:
nodewise study examples/pipeline.toml

One disease can be turned on: --serial-share 0.7 puts 70 % of the same work into the serial stage.
"""

import argparse
import sys
from hashlib import pbkdf2_hmac

from mpi4py import MPI

from nodewise import probe


def next_key(key, batch, rounds):
    """The key of a batch, made from the one before."""
    return pbkdf2_hmac("sha256", key, b"batch %d" % batch, rounds)


def seal(key, records, rounds):
    """The sum of the seals of some records."""
    seals = [pbkdf2_hmac("sha256", key, b"record %d" % record, rounds) for record in records]
    return sum(int.from_bytes(one) for one in seals)


def alone(seed, batches, records, key_rounds, seal_rounds):
    """The same sum by one rank, without any message."""
    key, total = b"%d" % seed, 0
    for batch in range(batches):
        key = next_key(key, batch, key_rounds)
        total += seal(key, range(records), seal_rounds)
    return total


def main():
    """Seal all records and report the sum of the seals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--records", type=int, default=64, help="in a batch")
    parser.add_argument("--rounds", type=int, default=2500, help="of hashing for each record")
    parser.add_argument("--serial-share", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if not 0 <= options.serial_share < 1:
        parser.error("--serial-share must be 0 or more and less than 1")
    world = MPI.COMM_WORLD
    key_rounds = max(round(options.serial_share * options.records * options.rounds), 1)
    seal_rounds = max(round((1 - options.serial_share) * options.rounds), 1)
    with probe.setup():
        key = b"%d" % options.seed
        mine = range(world.rank, options.records, world.size)
        total = 0
        world.Barrier()
    for batch in probe.steps(range(options.batches)):
        if world.rank == 0:
            with probe.serial():
                key = next_key(key, batch, key_rounds)
        with probe.comm():
            key = world.bcast(key)
        with probe.compute():
            own = seal(key, mine, seal_rounds)
        with probe.comm():
            total += world.allreduce(own)
    probe.work(items=len(mine) * options.batches)
    probe.fact(
        records=options.records * options.batches,
        key_rounds=key_rounds,
        seal_rounds=seal_rounds,
        seed=options.seed,
    )
    if world.rank == 0:
        expected = alone(options.seed, options.batches, options.records, key_rounds, seal_rounds)
        right = total == expected
        answer = f"{total % 2**64:016x}"
        probe.quality(correct=float(right), seed=options.seed)
        probe.fact(answer=answer)
        sys.stdout.write(f"answer {answer}, right: {right}\n")


if __name__ == "__main__":
    main()
