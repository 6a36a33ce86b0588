"""Traces: CPU time and memory of `nodewise trace`, Holistic Trace Analysis and bare unpacking.

.venv/bin/python benchmarks/traces.py TRACE.json.gz [--megabytes 200] [--hta VENV] [--large 2000]

A real trace is replicated, with its times, correlations and steps moved on, into a pair of ranks of
about 200 MB each. On the same files, in one run: nodewise (the whole command), Holistic Trace
Analysis (load and temporal breakdown, in a venv of its own: python -m venv VENV; VENV/bin/pip
install HolisticTraceAnalysis), and the limit: unpacking and skipping through the JSON, no more.
"""

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
table = TraceAnalysis(trace_dir=sys.argv[1]).get_temporal_breakdown(visualize=False)
print(table.to_json(orient="records"))
"""
_LIMIT = """
import sys, zlib
import msgspec
from isal import isal_zlib
skip = msgspec.json.Decoder(list[msgspec.Raw])
for path in sys.argv[1:]:
    unpacker, rest, inside = isal_zlib.decompressobj(31), b"", False
    with open(path, "rb") as file:
        while packed := file.read(2**18):
            text = rest + unpacker.decompress(packed)
            if not inside:
                text, inside = text[text.index(b"[", text.index(b'"traceEvents"')) + 1 :], True
            cut = text.rfind(b'{', 0, max(text.rfind(b'"ph"'), 0))
            if cut > 0:
                skip.decode(b"[" + text[:cut].strip().strip(b",") + b"]")
                rest = text[cut:]
            else:
                rest = text
"""


class Cost(NamedTuple):
    """What a command took, with all its processes."""

    cpu_seconds: float
    resident_megabytes: float  # sum over processes, what they share counted in each
    proportional_megabytes: float  # sum over processes, what they share counted once
    output: str


def replicate(source: Path, target: Path, megabytes: float, rank: int) -> float:
    """Write copies of a trace behind each other; the size of the text in megabytes."""
    with gzip.open(source) as file:
        text = file.read()
    start = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"]", 0, text.rindex(b'"ph"') + 2000)
    end = text.rindex(b"}", 0, end) + 1
    head, body, tail = text[:start], text[start:end], text[end:]
    head, named = re.subn(rb'"rank": \d+', b'"rank": %d' % rank, head, count=1)
    if not named:  # Holistic Trace Analysis would take every file as rank 0, and read one
        head = head.replace(b"{", b'{"distributedInfo": {"rank": %d}, ' % rank, 1)
    times = [int(found) for found in re.findall(rb'"ts": (\d{12,})', body)]
    span = max(times) - min(times) + 1_000_000
    moving = re.compile(rb'"(ts|correlation|External id|id)": (\d+)|ProfilerStep#(\d+)')
    copies = max(1, round(megabytes * 1e6 / len(body)))
    size = len(head) + len(tail)
    with gzip.open(target, "wb", compresslevel=5) as copied:
        copied.write(head)
        for copy in range(copies):

            def moved(found: re.Match[bytes], copy: int = copy) -> bytes:
                if found[1] == b"ts":
                    return b'"ts": %d' % (int(found[2]) + copy * span)
                if found[1]:
                    return b'"%s": %d' % (found[1], int(found[2]) + copy * 100_000_000)
                return b"ProfilerStep#%d" % (int(found[3]) + copy * 1000)

            part = moving.sub(moved, body)
            copied.write(b"," + part if copy else part)
            size += len(part)
        copied.write(tail)
    return size / 1e6


def cost(command: Sequence[str]) -> Cost:
    """Run a command; its CPU time and the peak memory of its tree, sampled."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would fill
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    )
    peaks = [0.0, 0.0]
    watching = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, watching))
    watcher.start()
    output, _ = process.communicate()
    watching.set()
    watcher.join()
    if process.returncode:
        errors.seek(0)
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {errors.read()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(used, *peaks, output)


def _watch(pid: int, peaks: list[float], stop: threading.Event) -> None:
    while not stop.wait(0.02):
        resident = proportional = 0.0
        try:
            root = psutil.Process(pid)
            for one in (root, *root.children(recursive=True)):
                memory = one.memory_full_info()
                resident += memory.rss / 1e6
                proportional += memory.pss / 1e6
        except psutil.Error:
            continue
        peaks[0], peaks[1] = max(peaks[0], resident), max(peaks[1], proportional)


def least(command: Sequence[str], repeats: int) -> Cost:
    """The repeat with the least CPU time, with the most memory of any."""
    costs = [cost(command) for _ in range(repeats)]
    best = min(costs, key=lambda one: one.cpu_seconds)
    return best._replace(
        resident_megabytes=max(one.resident_megabytes for one in costs),
        proportional_megabytes=max(one.proportional_megabytes for one in costs),
    )


def show(name: str, spent: Cost, megabytes: float) -> None:
    """One line a command."""
    print(
        f"{name:<34} {spent.cpu_seconds:7.2f} CPU-s  {megabytes / spent.cpu_seconds:6.0f} MB/CPU-s"
        f"  {spent.proportional_megabytes:6.0f} MB ({spent.resident_megabytes:.0f} MB resident)",
        flush=True,
    )


def main() -> None:
    """Replicate, run, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--hta", type=Path, help="a venv with HolisticTraceAnalysis")
    parser.add_argument("--large", type=float, default=0, help="also one file of so many megabytes")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    nodewise = str(Path(sys.executable).parent / "nodewise")
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair"
        pair.mkdir()
        files = [pair / f"rank{rank}.json.gz" for rank in (0, 1)]
        size = sum(
            replicate(options.trace, file, options.megabytes, rank)
            for rank, file in enumerate(files)
        )
        print(f"2 ranks, {size:.0f} MB of text, {time.strftime('%Y-%m-%d')}")
        names = [str(file) for file in files]
        limit = least([sys.executable, "-c", _LIMIT, *names], options.repeats)
        show("limit: unpack and skip", limit, size)
        ours = least([nodewise, "trace", *names, "--json", "--window", "hta"], options.repeats)
        show("nodewise trace", ours, size)
        print(f"nodewise / limit: {ours.cpu_seconds / limit.cpu_seconds:.2f}")
        one = least([nodewise, "trace", *names, "--json", "--jobs", "1"], options.repeats)
        show("nodewise trace --jobs 1", one, size)
        if options.hta:
            script = Path(folder) / "breakdown_by_hta.py"
            script.write_text(_HTA)
            theirs = cost([str(options.hta / "bin" / "python"), str(script), str(pair)])
            show("Holistic Trace Analysis", theirs, size)
            print(
                f"Holistic Trace Analysis / nodewise: {theirs.cpu_seconds / ours.cpu_seconds:.1f}"
            )
            compare(json.loads(ours.output), json.loads(theirs.output.splitlines()[-1]))
        if options.large:
            large = Path(folder) / "large.json.gz"
            size = replicate(options.trace, large, options.large, 0)
            show(f"nodewise trace, {size:.0f} MB", cost([nodewise, "trace", str(large)]), size)


def compare(ours: dict[str, list[dict[str, float]]], theirs: list[dict[str, float]]) -> None:
    """Print the largest difference between the figures."""
    pairs = {
        "idle": ("idle_us", "idle_time(us)"),
        "compute": ("compute_us", "compute_time(us)"),
        "window": ("window_us", "kernel_time(us)"),
    }
    for name, (mine, other) in pairs.items():
        off = max(
            abs(a[mine] - b[other]) / max(b[other], 1.0)
            for a, b in zip(ours["ranks"], theirs, strict=True)
        )
        print(f"  {name}: largest difference {100 * off:.4f} %")


if __name__ == "__main__":
    main()
