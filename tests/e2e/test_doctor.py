"""`nodewise doctor`: every engine is asked, and what is missing comes with its fix."""

import json
import re
import subprocess
import sys


def doctor(*options, path=None):
    environment = None if path is None else {"PATH": path}
    return subprocess.run(
        [sys.executable, "-m", "nodewise", "doctor", *options],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip


def test_every_engine_is_asked_and_what_is_missing_has_its_fix():
    done = doctor("--json")
    assert done.returncode == 0, done.stderr
    conditions = {one["what"]: one for one in json.loads(done.stdout)}
    assert conditions["engine local"]["ready"]
    assert {"engine mpi", "engine slurm", "engine ray", "engine kubernetes"} <= set(conditions)
    for one in conditions.values():
        assert one["ready"] or (one["detail"] and one["fix"]), one


def test_without_programs_on_the_path_their_engines_are_missing():
    done = doctor("-v", path="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "missing         reports as PDF" in done.stdout
    assert "missing         engine slurm" in done.stdout
    assert "not-configured  engine ssh" in done.stdout
    assert "ready           engine local" in done.stdout


def test_every_mpi_is_named_with_its_version():
    done = doctor("--json")
    found = [one for one in json.loads(done.stdout) if one["what"].startswith("MPI programs of")]
    assert any(re.fullmatch(r"MPI programs of MPICH \d+\.\d.*", one["what"]) for one in found)
