"""Data-parallel training on scikit-learn's digits with torch: the same answer at every K.

A two-layer network under DistributedDataParallel, a fixed global batch split over the ranks. No
call here takes a time: nodewise finds the collectives, the loader and the steps by itself.
Run it alone (python examples/digits_torch.py), under torchrun, or as a study:
nodewise study examples/digits_torch.toml

Two diseases can be turned on: --shard-factor 2 gives rank 0 twice the samples of another,
--serial-ms 30 lets rank 0 work alone while the others wait.
"""

import argparse
import hashlib
import os
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from nodewise import probe


def load(seed):
    """Training and held-out digits, shuffled once by the seed."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images = torch.tensor(images[order] / 16.0, dtype=torch.float32)
    labels = torch.tensor(labels[order])
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def shares(samples, steps, batch, seed, factor):
    """For each step, the rows of its batch that belong to this rank."""
    weights = np.ones(dist.get_world_size())
    weights[0] = factor if len(weights) > 1 else 1.0
    edges = np.round(np.concatenate([[0], np.cumsum(weights)]) / weights.sum() * batch).astype(int)
    random = np.random.default_rng(seed)
    own = slice(edges[dist.get_rank()], edges[dist.get_rank() + 1])
    return [random.integers(0, samples, batch)[own].tolist() for _ in range(steps)]


def main():
    """Train for a fixed number of steps and report what was done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--shard-factor", type=float, default=1.0)
    parser.add_argument("--serial-ms", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if "RANK" not in os.environ:  # alone
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.manual_seed(options.seed)
    images, labels, test_images, test_labels = load(options.seed)
    model = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Linear(64, options.hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(options.hidden, 10),
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    rows = shares(len(labels), options.steps, options.batch, options.seed, options.shard_factor)
    # The exchange averages over ranks; this makes the average that of the whole batch.
    scale = dist.get_world_size() / options.batch
    for image, label in DataLoader(TensorDataset(images, labels), sampler=rows, batch_size=None):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(image), label, reduction="sum") * scale
        loss.backward()
        optimizer.step()
        if options.serial_ms and dist.get_rank() == 0:
            end = time.process_time() + options.serial_ms / 1000
            while time.process_time() < end:
                pass
    with torch.no_grad():
        guesses = model.module(test_images).argmax(dim=1)
    accuracy = float((guesses == test_labels).double().mean())
    probe.work(items=sum(map(len, rows)))
    probe.quality(accuracy=accuracy, split="test", seed=options.seed)
    probe.fact(
        global_batch=options.batch,
        steps=options.steps,
        dtype=str(images.dtype),
        data_hash=hashlib.sha256(images.numpy().tobytes()).hexdigest()[:16],
    )
    weights = b"".join(value.numpy().tobytes() for value in model.module.state_dict().values())
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy:.4f} weights {hashlib.sha256(weights).hexdigest()[:16]}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
