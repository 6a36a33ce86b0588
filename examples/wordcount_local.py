"""Counting words with plain processes: nodewise study examples/wordcount_local.toml

Rank 0 adds up what the others leave in a folder; without nodewise there is one rank.
"""

import os
import pickle
import time
from pathlib import Path

from words import add, count, count_alone, divide, options, tell

from nodewise import probe

RANK, RANKS = int(os.environ.get("NODEWISE_RANK", 0)), int(os.environ.get("NODEWISE_NODES", 1))
FOLDER = Path(os.environ.get("NODEWISE_RUN", "."))


def leave(name, counts):
    """Hand counts to the other ranks; the name appears when they are whole."""
    (FOLDER / f"{name}.part").write_bytes(pickle.dumps(counts))
    (FOLDER / f"{name}.part").rename(FOLDER / f"{name}.counts")


def fetch(name):
    """Counts of another rank, as soon as they are there."""
    path = FOLDER / f"{name}.counts"
    while not path.exists():
        time.sleep(0.001)
    return pickle.loads(path.read_bytes())


def work(asked):
    """Count, and on rank 0 add up."""
    alone, pieces = divide(asked)
    first = []
    if alone is not None:
        if RANK == 0:
            with probe.serial():
                leave("alone", count_alone(asked.seed, *alone))
        with probe.wait():
            first = [fetch("alone")]
    with probe.compute():
        own = add(count(asked.seed, *edges) for edges in pieces[RANK::RANKS])
    if RANK > 0:
        with probe.comm():
            leave(f"rank{RANK}", own)
        return None
    with probe.wait():
        others = [fetch(f"rank{rank}") for rank in range(1, RANKS)]
    with probe.serial():
        return add([*first, own, *others])


def main():
    """Nothing schedules here: each rank knows its pieces."""
    asked = options()
    with probe.setup():
        pass
    for _ in probe.steps([None]):
        counts = work(asked)
    if counts is not None:
        tell(asked, counts)


if __name__ == "__main__":
    main()
