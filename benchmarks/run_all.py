"""Run benchmarks, and write what they print into docs/benchmarks.md with date and machine.

    .venv/bin/python benchmarks/run_all.py              # all, about two hours
    .venv/bin/python benchmarks/run_all.py audit page   # these; the others keep their last figures

What each one prints is kept in benchmarks/results and never edited by hand.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"
MOST_SECONDS = 3600

# In the order of the document; arguments that make a benchmark fit for a run of all.
BENCHMARKS: dict[str, tuple[str, ...]] = {
    "startup": (),
    "page": (),
    "probe_overhead": (),
    "aa_study": ("30",),
    "planted_causes": ("3",),
    "predict": (),
    "stage_times": (),
    "next_run": ("100",),
    "preemption": (),
    "audit": ("400",),
    "fuzz_importers": ("--count", "1000"),
    "machine": (),
    "diagnose": ("tuning", "1"),
    "fleet": (),
}


def main() -> None:
    """Run what is asked for, then write the document from all results that there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    chosen = parser.parse_args().names or list(BENCHMARKS)
    if strangers := set(chosen) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(strangers)}; there are: {', '.join(BENCHMARKS)}")
    RESULTS.mkdir(exist_ok=True)
    failed = [name for name in chosen if not run(name, BENCHMARKS[name])]
    DOCUMENT.write_text(document())
    print(f"Wrote {DOCUMENT}." + (f" Failed: {', '.join(failed)}." if failed else ""))
    sys.exit(bool(failed))


def run(name: str, arguments: Sequence[str]) -> bool:
    """Run one; what it prints becomes its result, whether it kept its bounds or not."""
    print(f"{name} ...", flush=True)
    begin, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(
        [sys.executable, HERE / f"{name}.py", *arguments],
        capture_output=True, text=True, timeout=MOST_SECONDS, cwd=HERE.parent,
    )  # fmt: skip
    minutes = (time.monotonic() - begin) / 60
    kept = "" if done.returncode == 0 else f"; exit code {done.returncode}"
    command = " ".join(["benchmarks/" + name + ".py", *arguments])
    head = f"`{command}`, {date.today()}, {minutes:.1f} minutes, load {load:.1f} at its start{kept}"
    printed = done.stdout.rstrip() or done.stderr.rstrip()[-2000:]
    (RESULTS / f"{name}.md").write_text(f"{head}\n\n```text\n{printed}\n```\n")
    return done.returncode == 0


def document() -> str:
    """Everything that was measured, each with its command."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "msgspec", "altair"))
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; every figure is what the command above it printed. They are",
        "ratios or counts wherever they can be: the machine is small and shared.",
        "",
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, {packages}.",
    ]
    for name in BENCHMARKS:
        result = RESULTS / f"{name}.md"
        if result.exists():
            title = (HERE / f"{name}.py").read_text().partition("\n")[0].strip('"')
            lines += ["", f"## {title}", "", result.read_text().rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
