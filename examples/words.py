"""What the word counts on four engines share: drawing text from a seed, counting, adding up.

Two diseases can be turned on: --skew 0.5 puts half of the documents into one piece, and
--serial-share 0.5 lets one task count half of them before the pieces begin.
"""

import argparse
import hashlib
import sys
import time
from collections import Counter
from itertools import pairwise

import numpy as np

from nodewise import probe

LANGUAGE = [f"word{number}" for number in range(2000)]
LENGTH = 500  # words in a document


def options():
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=40_000)
    parser.add_argument("--pieces", type=int, default=24)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--serial-share", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def divide(asked):
    """The documents that one task counts alone, if any; the pieces, each a first and a last."""
    alone = round(asked.serial_share * asked.documents)
    large = round(asked.skew * (asked.documents - alone))
    edges = np.linspace(alone + large, asked.documents, asked.pieces + (large == 0), dtype=int)
    edges = [alone, *edges.tolist()] if large else edges.tolist()
    return (0, alone) if alone else None, list(pairwise(edges))


def draw(seed, document):
    """The words of one document, as numbers; any worker can draw any document."""
    chance = np.random.default_rng([seed, document]).random(LENGTH)
    return (len(LANGUAGE) * chance**4).astype(np.int64)  # small numbers are the common words


def count(seed, first, last):
    """How often each word stands in some documents."""
    counts = Counter()
    for document in range(first, last):
        text = " ".join([LANGUAGE[number] for number in draw(seed, document).tolist()])
        counts.update(text.split())
    return counts


def count_alone(seed, first, last):
    """The same, under a name of its own: the task that all pieces wait for."""
    return count(seed, first, last)


def add(many):
    """The sum of counts."""
    total = Counter()
    for counts in many:
        total.update(counts)
    return total


def tell(asked, counts):
    """Compare with what was drawn, after the clock has stopped."""
    drawn = np.zeros(len(LANGUAGE), dtype=np.int64)
    for document in range(asked.documents):
        drawn += np.bincount(draw(asked.seed, document), minlength=len(LANGUAGE))
    right = counts == Counter(dict(zip(LANGUAGE, drawn.tolist(), strict=True)))
    answer = hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()[:16]
    probe.quality(correct=float(right), seed=asked.seed)
    probe.fact(documents=asked.documents, answer=answer, words=counts.total(), seed=asked.seed)
    sys.stdout.write(f"answer {answer}, {counts.total()} words, right: {right}\n")


if __name__ == "__main__":
    asked = options()
    begin = time.perf_counter()
    counts = count(asked.seed, 0, asked.documents)
    sys.stdout.write(f"{time.perf_counter() - begin:.2f} s without any engine\n")
    tell(asked, counts)
