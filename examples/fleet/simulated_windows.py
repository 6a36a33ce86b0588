"""Windows of a fleet that never was: simulated, so that docs/fleet.md prints the same everywhere.

python simulated_windows.py out/windows.jsonl
"""

import sys
from pathlib import Path

import msgspec

from nodewise.fleet.batching import Engine, poisson_traffic, simulate

# A step of 2 ms, 0.1 ms more for each sequence and 0.05 ms for each prompt token; 16 slots.
ENGINE = Engine(step=0.002, per_sequence=0.0001, per_prompt_token=5e-5, slots=16)
PROMPTS, ANSWERS = [20, 40, 64, 100], [16, 96, 32, 48]
NOTE = "Simulated by examples/fleet/simulated_windows.py; no server was measured."


def main() -> None:
    """Write a window for each fleet and rate, to be read as if it was measured."""
    path = Path(sys.argv[1])
    with path.open("wb") as file:
        for replicas in (1, 2, 4):
            for per_replica in (20, 35, 45, 55, 90):
                rate, count = float(per_replica * replicas), 8000
                traffic = poisson_traffic(rate, count, (PROMPTS, ANSWERS), seed=per_replica)
                window = simulate(ENGINE, traffic, replicas, "shortest queue", rate, count / rate)
                told = msgspec.structs.replace(window, simulated=False, notes=(NOTE,))
                file.write(msgspec.json.encode(told) + b"\n")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
