"""How often the black box is right: every program of a zoo, watched and classified.

    python benchmarks/diagnose.py tuning 3        # what the thresholds were chosen on
    python benchmarks/diagnose.py held_out_3 1    # also held_out, held_out_2

The held-out sets were unseen when each was first run (docs/diagnose.md has those figures); the
rules were mended afterwards, so a new set is needed to test them again.

Prints a line for each run and, at the end, how many were right, undecided and wrong, and how many
of the wrong ones were given with high confidence (which must be none).
"""

import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path

from nodewise.machine.measured import one_core
from nodewise.machine.watching import watch
from nodewise.symptoms import Roofs, classify

ZOO = Path(__file__).parent / "diagnose_zoo"
SECONDS = "4"


def main(half: str, repeats: int, only: list[str]) -> None:
    """Watch every program of one half so many times."""
    path = ZOO / f"{half}.py"
    spec = importlib.util.spec_from_file_location(half, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    roofs = Roofs(*one_core(Path.cwd()))
    outcomes: Counter[str] = Counter()
    for _ in range(repeats):
        for name, truth in module.ZOO.items():
            if only and name not in only:
                continue
            seen = watch((sys.executable, str(path), name, SECONDS), 30)
            found = classify(seen, roofs)
            said = found.ceiling or "undecided"
            # Some programs cannot be told apart from outside: there 'undecided' is the answer.
            right = said in truth.split(" or ")
            outcome = "right" if right else "undecided" if said == "undecided" else "wrong"
            outcomes[outcome] += 1
            if outcome == "wrong":
                outcomes[f"wrong, {found.confidence} confidence"] += 1
            print(
                f"{outcome:9s} {name:22s} is {truth:28s} said {said:17s} {found.confidence:6s} "
                f"load {os.getloadavg()[0]:.1f}  {found.shares}",
                flush=True,
            )
    print(half, dict(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
