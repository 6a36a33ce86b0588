"""Run benchmarks, and write what they print into docs/benchmarks.md with date and machine.

    .venv/bin/python benchmarks/run_all.py              # all, about three hours
    .venv/bin/python benchmarks/run_all.py audit page   # these; the others keep their last figures

What each one prints is kept in benchmarks/results and never edited by hand. Peers that need an
environment of their own are found by NODEWISE_WRK2, NODEWISE_GUIDELLM, NODEWISE_AIPERF (programs),
NODEWISE_TOKENIZER (a folder), NODEWISE_HTA (an environment) and NODEWISE_OTAVA (its Python);
without them their lines are missing.
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
TRACE = HERE.parent.parent / "shared/data/traces/kineto/old_names_resnet50.json.gz"


def peer(option: str, variable: str) -> tuple[str, ...]:
    """An option of a benchmark, if the reader has said where that peer is."""
    value = os.environ.get(variable)
    return (option, value) if value else ()


# In the order of the document: a script and its arguments.
BENCHMARKS: tuple[tuple[str, ...], ...] = (
    ("startup",),
    ("page",),
    ("scale",),
    ("probe_overhead",),
    ("mpi_overhead",),
    ("mpi_lammps", "real"),
    ("mpi_lammps", "rehearsed"),
    ("torch_overhead",),
    ("aa_study", "30"),
    ("calibration",),
    ("rehearsal", "real"),
    ("rehearsal", "real", "--busy", "4"),
    ("rehearsal", "modelled"),
    ("rehearsal", "modelled", "--busy", "4"),
    ("rehearsal", "quota"),
    ("rehearsal", "quota", "--busy", "4"),
    ("rehearsal", "planted"),
    ("rehearsal", "examples"),
    ("predict",),
    ("stage_times",),
    ("next_run", "100"),
    ("plan", "--fit"),
    ("what_if", "3"),
    ("stragglers",),
    ("preemption",),
    ("audit", "400"),
    ("traces", str(TRACE), *peer("--hta", "NODEWISE_HTA")),
    ("fuzz", "--count", "10000"),
    ("logs",),
    ("machine",),
    ("diagnose", "zoo"),
    ("diagnose", "unseen"),
    ("diagnose", "zoo", "--busy", "4"),
    ("diagnose", "unseen", "--busy", "4"),
    ("diagnose", "fixed_work", "--confirm"),
    ("diagnose_overhead",),
    ("fleet", *peer("--wrk2", "NODEWISE_WRK2"), *peer("--guidellm", "NODEWISE_GUIDELLM"),
     *peer("--aiperf", "NODEWISE_AIPERF"), *peer("--tokenizer", "NODEWISE_TOKENIZER")),
    ("fleet_peers", *peer("--guidellm", "NODEWISE_GUIDELLM"), *peer("--aiperf", "NODEWISE_AIPERF")),
    ("fleet_servers",),
    ("simulator",),
    ("history", *peer("--otava", "NODEWISE_OTAVA")),
    ("history_check",),
    ("fleet_truth",),
    ("fit_serving",),
)  # fmt: skip

_SEVERAL = ("diagnose", "mpi_lammps", "rehearsal")  # run in several ways, a result for each


def main() -> None:
    """Run the chosen benchmarks, then write the document from all results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    chosen = parser.parse_args().names
    known = {name for command in BENCHMARKS for name in _names(command)}
    if unknown := set(chosen) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; use {', '.join(sorted(known))}")
    RESULTS.mkdir(exist_ok=True)
    commands = [command for command in BENCHMARKS if not chosen or _names(command) & set(chosen)]
    if not TRACE.exists():
        print(f"traces: left out, {TRACE.name} is missing")
        commands = [command for command in commands if command[0] != "traces"]
    failed = [" ".join(command) for command in commands if not run(command)]
    DOCUMENT.write_text(document())
    print(f"Wrote {DOCUMENT}." + (f" Failed: {', '.join(failed)}." if failed else ""))
    sys.exit(bool(failed))


def _names(command: Sequence[str]) -> set[str]:
    """What a benchmark is called: its script, and its result where a script has several."""
    return {command[0], result_of(command).stem}


def result_of(command: Sequence[str]) -> Path:
    """Where the output of a benchmark is kept; one script may be run in several ways."""
    ways = [word.lstrip("-") for word in command[1:] if command[0] in _SEVERAL]
    return RESULTS / f"{'-'.join([command[0], *ways])}.md"


def run(command: Sequence[str]) -> bool:
    """Run one; what it prints becomes its result, whether it kept its bounds or not."""
    name, *arguments = command
    shown = " ".join([f"benchmarks/{name}.py", *(word.rpartition("/")[2] for word in arguments)])
    print(f"{shown} ...", flush=True)
    begin, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(
        [sys.executable, HERE / f"{name}.py", *arguments],
        capture_output=True, text=True, timeout=MOST_SECONDS, cwd=HERE.parent,
    )  # fmt: skip
    minutes = (time.monotonic() - begin) / 60
    kept = "" if done.returncode == 0 else f"; exit code {done.returncode}"
    head = f"`{shown}`, {date.today()}, {minutes:.1f} minutes, load {load:.1f} at its start{kept}"
    printed = done.stdout.rstrip() or done.stderr.rstrip()[-2000:]
    result_of(command).write_text(f"{head}\n\n```text\n{printed}\n```\n")
    return done.returncode == 0


def document() -> str:
    """All results, each with its command."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "msgspec", "altair"))
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Each block is the output of the command above it. Figures are",
        "ratios or counts where possible, because the machine is small and shared.",
        "",
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, {packages}.",
    ]
    titled = ""
    for command in BENCHMARKS:
        result = result_of(command)
        if not result.exists():
            continue
        title = (HERE / f"{command[0]}.py").read_text().partition("\n")[0].strip('".')
        lines += [] if title == titled else ["", f"## {title}"]
        lines += ["", result.read_text().rstrip()]
        titled = title
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
