"""Data-parallel training on scikit-learn's digits with MPI: the same answer at every K.

A two-layer network, a fixed global batch split over the ranks, gradients summed by an all-reduce,
or with --exchange allgather sent by every rank to all others, as is done with sparse gradients.
Run it alone (python examples/digits_mpi.py), under mpiexec, or as a study:
nodewise study examples/digits_mpi.toml

Two diseases can be turned on: --shard-factor 2 gives rank 0 twice the samples of another,
--serial-ms 30 lets rank 0 work alone while the others wait.
"""

import argparse
import hashlib
import importlib.util
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from nodewise import probe

PIECE = 256  # samples; larger ones take up to twice the CPU, and differ from run to run


def load(seed):
    """Training and held-out digits, shuffled once by the seed.

    The file of scikit-learn's load_digits; importing scikit-learn takes each rank a second or more.
    """
    package = Path(importlib.util.find_spec("sklearn").origin).parent
    table = np.loadtxt(package / "datasets" / "data" / "digits.csv.gz", delimiter=",", dtype="f4")
    images, labels = table[:, :-1], table[:, -1].astype(int)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order] / 16.0, labels[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def share(batch, rank, ranks, factor):
    """The rows of a batch that belong to this rank."""
    weights = np.ones(ranks)
    weights[0] = factor if ranks > 1 else 1.0
    edges = np.round(np.concatenate([[0], np.cumsum(weights)]) / weights.sum() * len(batch))
    return batch[int(edges[rank]) : int(edges[rank + 1])]


def gradients(weights, images, labels, rows):
    """Summed gradients of some rows, in small pieces that stay in the cache of a core."""
    total = 0.0
    for begin in range(0, len(rows), PIECE):
        piece = rows[begin : begin + PIECE]
        total = total + gradients_of(weights, images[piece], labels[piece])
    return total


def gradients_of(weights, images, labels):
    """Summed gradients of the cross-entropy of a two-layer network."""
    first, second = weights
    hidden = np.maximum(images @ first, 0.0)
    scores = hidden @ second
    scores -= scores.max(axis=1, keepdims=True)
    errors = np.exp(scores)
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    back = (errors @ second.T) * (hidden > 0)
    return np.concatenate([(images.T @ back).ravel(), (hidden.T @ errors).ravel()])


def summed(world, own, exchange):
    """The gradients of all ranks, added up."""
    if exchange == "allreduce":
        with probe.comm(all_reduce_bytes=own.nbytes):
            total = np.empty_like(own)
            world.Allreduce(own, total)
        return total
    with probe.comm(sent_bytes=(world.size - 1) * own.nbytes):
        everyone = np.empty((world.size, own.size), own.dtype)
        world.Allgather(own, everyone)
    with probe.compute():
        return everyone.sum(axis=0)


def accuracy(weights, images, labels):
    """The share of held-out digits that are read right."""
    first, second = weights
    return float(np.mean((np.maximum(images @ first, 0.0) @ second).argmax(axis=1) == labels))


def main():
    """Train for a fixed number of steps and report what was done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--exchange", choices=("allreduce", "allgather"), default="allreduce")
    parser.add_argument("--shard-factor", type=float, default=1.0)
    parser.add_argument("--serial-ms", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    with probe.setup():
        images, labels, test_images, test_labels = load(options.seed)
        random = np.random.default_rng(options.seed)
        weights = [
            np.float32(0.1) * random.standard_normal((64, options.hidden), dtype="f4"),
            np.float32(0.1) * random.standard_normal((options.hidden, 10), dtype="f4"),
        ]
        batches = [random.integers(0, len(labels), options.batch) for _ in range(options.steps)]
        world.Barrier()
    seen = 0
    for batch in probe.steps(batches):
        if options.serial_ms and world.rank == 0:
            with probe.serial():
                end = time.process_time() + options.serial_ms / 1000
                while time.process_time() < end:
                    pass
        with probe.compute():
            mine = share(batch, world.rank, world.size, options.shard_factor)
            own = gradients(weights, images, labels, mine)
            seen += len(mine)
        total = summed(world, own, options.exchange)
        with probe.compute():
            edge = weights[0].size
            step = 0.5 / options.batch
            weights[0] -= step * total[:edge].reshape(weights[0].shape)
            weights[1] -= step * total[edge:].reshape(weights[1].shape)
    probe.work(items=seen)
    probe.quality(
        accuracy=accuracy(weights, test_images, test_labels), split="test", seed=options.seed
    )
    probe.fact(
        global_batch=options.batch,
        steps=options.steps,
        dtype=str(weights[0].dtype),
        data_hash=hashlib.sha256(images.tobytes()).hexdigest()[:16],
        gradient_bytes=own.nbytes,
    )
    if world.rank == 0:
        print(f"accuracy {accuracy(weights, test_images, test_labels):.4f}")


if __name__ == "__main__":
    main()
