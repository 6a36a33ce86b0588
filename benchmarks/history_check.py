"""History check: builds that fail without cause, planted slowdowns, and time to open a history.

    benchmarks/history_check.py --studies 20    # about four minutes

A/A: one real job of half a second is studied again and again, each time under the name of another
commit, while a process beside it loads the machine on and off. No build may fail. Studies that are
invalid on so busy a machine are left out by the check; the second figure judges them as well.

Planted: simulated studies with stages, through the command line. After twelve studies the program
becomes 10 % slower, or communication begins to cost more at K >= 4.

Measured: a git repository whose job sleeps where it would compute and communicate, so that four
ranks fit on two cores. Eight commits are studied, then three in which the job is 10 % slower, or
communicates more at K >= 4. Then `history check --confirm` runs the last good commit beside it.
"""

import argparse
import csv
import datetime
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.history.check import check
from nodewise.history.file import place_of, read
from nodewise.study.table import format_table

NODEWISE = [sys.executable, "-m", "nodewise"]
JOB = """
import os
from nodewise import probe
nodes = int(os.environ["NODEWISE_NODES"])
for step in probe.steps(range(8)):
    with probe.compute():
        sum(i * i for i in range(600_000 // nodes))
"""
SPEC = """
name = "loop"
scales = [1, 2]
rounds = 4
[workload]
command = ["{python}", "job.py"]
"""
REAL_JOB = """
import os, time
from nodewise import probe
nodes, compute, extra = int(os.environ["NODEWISE_NODES"]), {compute}, {extra}
for step in probe.steps(range(5)):
    with probe.compute():
        time.sleep(compute / nodes)
    with probe.comm():
        time.sleep(0.004 + (extra if nodes >= 4 else 0.0))
"""
REAL_SPEC = """
name = "sleeper"
scales = [1, 2, 4]
rounds = 4
[workload]
command = ["{python}", "job.py"]
"""
LOAD = """
import random, time
random.seed(7)
while True:
    end = time.time() + random.uniform(0.2, 4.0)
    while time.time() < end:
        sum(i * i for i in range(10_000))
    time.sleep(random.uniform(0.2, 4.0))
"""
START = datetime.datetime(2020, 1, 1)
REAL_BEFORE = 8  # measured studies before the slowdown
BEFORE, AFTER = 12, 3  # planted: studies before the slowdown, and in which it must be found


def commit(number: int) -> str:
    """A name that looks like a commit."""
    return hashlib.sha1(str(number).encode()).hexdigest()


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of nodewise."""
    # compiled once, as pip does when it installs, whatever this environment asks for
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment = {**os.environ, **compiled}
    return subprocess.run(
        [*NODEWISE, *words], cwd=folder, capture_output=True, text=True, env=environment
    )


def add(folder: Path, study: str, number: int) -> dict[str, Any]:
    """Add a study under a commit, and check the history."""
    date = f"2026-{1 + number // 28:02}-{1 + number % 28:02}"
    done = run(folder, "history", "add", study, "--commit", commit(number), "--date", date,
               "--workload", "job")  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged = run(folder, "history", "check", "--json")
    return {"code": judged.returncode, **json.loads(judged.stdout)}


def aa(studies: int) -> None:
    """The same job, studied many times on a busy machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.py").write_text(JOB)
        (folder / "study.toml").write_text(SPEC)
        load = subprocess.Popen([sys.executable, "-c", LOAD])
        try:
            states = []
            for number in range(studies):
                done = run(folder, "measure", "study.toml", "-o", f"{number}.study")
                assert done.returncode == 0, done.stderr
                states.append(add(folder, f"{number}.study", number))
        finally:
            load.kill()
            load.wait()
        entries = read(place_of(str(folder)))
        taken = [msgspec.structs.replace(entry, invalid="") for entry in entries]
        also = [check(taken[: at + 1]) for at in range(len(taken))]
        spread = []
        for nodes in (1, 2):
            times = sorted(entry.at(nodes).mean_seconds for entry in entries)
            spread.append(f"K={nodes} {times[0]:.2f} to {times[-1]:.2f} s")
        invalid = sum(bool(entry.invalid) for entry in entries)
        print(
            f"A/A: {studies} studies of one program, {invalid} of them invalid; {', '.join(spread)}"
        )
        print(f"  failed builds: {sum(one['code'] for one in states)}; "
              f"with the invalid studies: {sum(one.failed for one in also)}")  # fmt: skip
        doubts = sum(one.state == "in doubt" for one in also)
        print(f"  in doubt, which fails no build: {doubts}")


def planted() -> None:
    """Simulated studies with a slowdown from one commit on."""
    usual = Law(s=0.02, c=0.004, growth="log2", base_seconds=10.0)
    slow = {
        "10 % slower": (usual, Law(s=0.02, c=0.004, growth="log2", base_seconds=11.0)),
        "communication at K >= 4": (usual, usual),
    }
    for name, (before, after) in slow.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for number in range(BEFORE + AFTER):
                is_slow = number >= BEFORE
                truth = PlantedTruth(
                    law=after if is_slow else before,
                    scales=(1, 2, 4, 8),
                    rounds=5,
                    noise=0.03,
                    detail="stages",
                    seed=number,
                )
                text = format_table(simulate(truth), [])
                if is_slow and name.startswith("communication"):
                    text = with_communication(text)
                (folder / "study.csv").write_text(text)
                result = add(folder, "study.csv", number)
                if result["code"]:
                    break
            found = result["regressions"][0] if result["regressions"] else {}
            where = f", K >= {found['from_K']}" if found.get("from_K") else ""
            ratio = f"{found['ratio']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
            print(f"planted, simulated: {name}: fails at slow study {number - BEFORE + 1}; "
                  f"kind {found['kind']}{where}, times {ratio}, cause {found['cause']['name']}, "
                  f"commit right: {found['bad'] == commit(BEFORE)}")  # fmt: skip


def measured() -> None:
    """A slowdown in a repository, found by measured studies and confirmed in a worktree."""
    plants = {"10 % slower": (0.22, 0.0), "communication at K >= 4": (0.2, 0.012)}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        git(folder, "init", "-q", "-b", "main")
        (folder / ".gitignore").write_text("*.study\nhistory.jsonl\ncompiled\n")
        (folder / "study.toml").write_text(REAL_SPEC)
        (folder / "job.py").write_text(REAL_JOB.format(compute=0.2, extra=0.0))
        for number in range(REAL_BEFORE):
            studied(folder, f"before-{number}")
        good, kept = git(folder, "rev-parse", "HEAD"), (folder / "history.jsonl").read_bytes()
        for name, (compute, extra) in plants.items():
            git(folder, "reset", "-q", "--hard", good)
            (folder / "history.jsonl").write_bytes(kept)
            (folder / "job.py").write_text(REAL_JOB.format(compute=compute, extra=extra))
            result: dict[str, Any] = {}
            for number in range(AFTER):
                result = studied(folder, f"{extra}-{number}")
                if number == 0:
                    slow = git(folder, "rev-parse", "HEAD")
                if result["code"]:
                    break
            if not result["regressions"]:
                print(f"planted, measured: {name}: not found in {AFTER} studies")
                continue
            found = result["regressions"][0]
            where = f", K >= {found['from_K']}" if found.get("from_K") else ""
            ratio = f"{found['ratio']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
            print(f"planted, measured: {name}: {result['state']} at slow study {number + 1}; "
                  f"kind {found['kind']}{where}, times {ratio}, cause {found['cause']['name']}, "
                  f"commit right: {(found['good'], found['bad']) == (good, slow)}")  # fmt: skip
            again = run(folder, "history", "check", "--confirm", "study.toml", "--json")
            one = json.loads(again.stdout)["confirmation"]
            print(f"  confirmed against {one['good'][:8]}: {one['state']} at K={one['K']}, "
                  f"times {one['ratio']:.3f} ({one['low']:.3f} to {one['high']:.3f}), "
                  f"exit code {again.returncode}", flush=True)  # fmt: skip


def studied(folder: Path, name: str) -> dict[str, Any]:
    """Commit, measure, add and check; what the check says."""
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", name)
    for words in (("measure", "study.toml", "-o", f"{name}.study"),
                  ("history", "add", f"{name}.study")):  # fmt: skip
        done = run(folder, *words)
        assert done.returncode == 0, done.stderr
    judged = run(folder, "history", "check", "--json")
    return {"code": judged.returncode, **json.loads(judged.stdout)}


def git(folder: Path, *words: str) -> str:
    """A command of git."""
    named = ["git", "-c", "user.name=n", "-c", "user.email=n@localhost"]
    done = subprocess.run([*named, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def with_communication(text: str, share: float = 0.12) -> str:
    """The table with communication that takes a share of the time more at K >= 4."""
    head, *rest = [line for line in text.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join([head, *rest]))))
    for row in rows:
        if int(row["K"]) >= 4:
            more = share * float(row["time_s"])
            row["time_s"] = repr(float(row["time_s"]) + more)
            row["comm_s"] = repr(float(row["comm_s"]) + more)
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def opening(studies: int) -> None:
    """CPU of `history show` on a long history."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "study.csv").write_text(format_table(simulate(PlantedTruth(
            law=Law(s=0.02, c=0.004, growth="log2", base_seconds=10.0), scales=(1, 2, 4, 8, 16, 32),
            rounds=7, noise=0.03, detail="stages")), []))  # fmt: skip
        add(folder, "study.csv", 0)
        entry = read(place_of(made))[0]
        lines = []
        for number in range(studies):
            date = (START + datetime.timedelta(hours=6 * number)).isoformat() + "Z"
            other = msgspec.structs.replace(
                entry, commit=commit(number), key=str(number), date=date
            )
            lines.append(msgspec.json.encode(other))
        (folder / "history.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        size = (folder / "history.jsonl").stat().st_size / 1e6
        for words in (("show",), ("check",), ("page", "-o", "history.html")):
            run(folder, "history", *words)  # compiles
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = run(folder, "history", *words)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert done.returncode == 0, done.stderr
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(
                f"{studies:,} studies, {size:.0f} MB: history {words[0]} takes {spent:.2f} s of CPU"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["aa", "planted", "measured", "open"])
    parser.add_argument("--studies", type=int, default=20)
    asked = parser.parse_args()
    if "open" in asked.parts:
        opening(10_000)
    if "planted" in asked.parts:
        planted()
    if "measured" in asked.parts:
        measured()
    if "aa" in asked.parts:
        aa(asked.studies)
