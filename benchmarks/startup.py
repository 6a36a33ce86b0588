"""CPU time of the commands, relative to the imports that they need; minimum of repeats.

The first run of each writes its bytecode and draws its charts; later runs find them.

.venv/bin/python benchmarks/startup.py
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 15
PYTHON = sys.executable
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def cpu_seconds(*command: str) -> float:
    """User and system time of a finished command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plain = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    subprocess.run(command, check=True, capture_output=True, timeout=60, env=plain)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print each command beside its limit, measured alternately in one run."""
    nodewise = str(Path(PYTHON).parent / "nodewise")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "ten.csv"
        rows = [f"{k},{rep},{100 / k + 2 * k + rep}" for k in (1, 2, 4, 8, 16) for rep in (0, 1)]
        table.write_text("\n".join(["K,rep,time_s", *rows]))
        commands = {
            "python -c 'import click'": (PYTHON, "-c", "import click"),
            "nodewise --help": (nodewise, "--help"),
            "python -c 'import numpy'": (PYTHON, "-c", "import numpy"),
            "nodewise decide, ten rows": (nodewise, "decide", str(table), "--price", "3"),
            "nodewise report, ten rows": (nodewise, "report", str(table), "-o", f"{table}.html"),
        }
        least = dict.fromkeys(commands, float("inf"))
        for _ in range(REPEATS):
            for name, command in commands.items():
                least[name] = min(least[name], cpu_seconds(*command))
    for name, limit in (
        ("nodewise --help", "python -c 'import click'"),
        ("nodewise decide, ten rows", "python -c 'import numpy'"),
        ("nodewise report, ten rows", "python -c 'import numpy'"),
    ):
        ratio = least[name] / least[limit]
        print(f"{name}: {1000 * least[name]:.0f} ms CPU, {ratio:.2f} times {limit}")


if __name__ == "__main__":
    main()
