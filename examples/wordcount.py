"""Counting words, map and reduce with MPI: the same counts at every K.

Text comes in batches of documents. Each rank counts the words of its documents, the counts of a
batch are summed on rank 0. The text is drawn from a seed, common words more often than rare ones.
Run it alone (python examples/wordcount.py), under mpiexec, or as a study:
nodewise study examples/wordcount.toml

One disease can be turned on: --skew 9 gives rank 0 nine times the documents of another.
"""

import argparse
import hashlib
import sys
from collections import Counter

import numpy as np
from mpi4py import MPI

from nodewise import probe

LANGUAGE = [f"word{number}" for number in range(2000)]
LENGTH = 500  # words in a document


def draw(seed, batch, document):
    """The words of one document, as numbers; any rank can draw any document."""
    chance = np.random.default_rng([seed, batch, document]).random(LENGTH)
    return (len(LANGUAGE) * chance**4).astype(np.int64)  # small numbers are the common words


def write(numbers):
    """A document as text."""
    return " ".join([LANGUAGE[number] for number in numbers.tolist()])


def share(documents, rank, ranks, skew):
    """The documents of a batch that belong to this rank."""
    weights = np.ones(ranks)
    weights[0] = skew if ranks > 1 else 1.0
    edges = np.round(np.concatenate([[0], np.cumsum(weights)]) / weights.sum() * documents)
    return range(int(edges[rank]), int(edges[rank + 1]))


def count(texts):
    """How often each word stands in the texts."""
    counts = Counter()
    for text in texts:
        counts.update(text.split())
    return counts


def expected(seed, batches, documents):
    """The counts as they were drawn, without any text."""
    drawn = np.zeros(len(LANGUAGE), dtype=np.int64)
    for batch in range(batches):
        for document in range(documents):
            drawn += np.bincount(draw(seed, batch, document), minlength=len(LANGUAGE))
    return Counter(dict(zip(LANGUAGE, drawn.tolist(), strict=True)))


def main():
    """Count all words and compare with what was drawn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--skew", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    with probe.setup():
        mine = share(options.documents, world.rank, world.size, options.skew)
        batches = [
            [write(draw(options.seed, batch, document)) for document in mine]
            for batch in range(options.batches)
        ]
        world.Barrier()
    counts = Counter()
    for texts in probe.steps(batches):
        with probe.compute():
            own = count(texts)
        with probe.comm():
            together = world.reduce(own)
        if world.rank == 0:
            with probe.compute():
                counts.update(together)
    probe.work(items=len(mine) * options.batches)
    probe.fact(documents=options.documents * options.batches, seed=options.seed)
    if world.rank == 0:
        right = counts == expected(options.seed, options.batches, options.documents)
        answer = hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()[:16]
        probe.quality(correct=float(right), seed=options.seed)
        probe.fact(answer=answer, words=counts.total())
        sys.stdout.write(f"answer {answer}, {counts.total()} words, right: {right}\n")


if __name__ == "__main__":
    main()
