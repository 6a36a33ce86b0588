"""The commands in a shell, as CI runs them: add, check, confirm, the action and the component."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from nodewise.history.file import append, place_of, read
from tests.history.conftest import USUAL, commit, entry
from tests.history.test_formats import validate_junit

ROOT = Path(__file__).parents[2]
SLOW = msgspec.structs.replace(USUAL, base_seconds=12.0)
JOB = """
import time
from nodewise import probe
for step in probe.steps(range(2)):
    with probe.compute():
        time.sleep({seconds})
"""
SPEC = """
name = "sleep"
scales = [1, 2]
rounds = 2
[workload]
command = ["{python}", "job.py"]
"""


def shell(command, folder, **variables):
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command], cwd=folder, text=True, timeout=240,
        env={**os.environ, "PATH": path, **variables}, capture_output=True,
    )  # fmt: skip


def git(folder, *words):
    named = ["-c", "user.name=n", "-c", "user.email=n@x"]
    done = subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path):
    """Two commits of a job: the second one sleeps twice as long."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "study.toml").write_text(SPEC)
    for seconds in (0.2, 0.4):  # long beside what other load adds
        (tmp_path / "job.py").write_text(JOB.format(seconds=seconds))
        git(tmp_path, "add", "study.toml", "job.py")
        git(tmp_path, "commit", "-qm", f"sleep {seconds}")
    return tmp_path


def suspected(repository, law, names):
    """A history whose newest studies follow a law, at these commits."""
    old = [entry(number, workload="sleep") for number in range(10)]
    new = [entry(10 + at, law, "sleep") for at in range(len(names))]
    commits = [*(commit(number) for number in range(9)), git(repository, "rev-parse", "HEAD~1")]
    append(
        place_of(str(repository)),
        [msgspec.structs.replace(one, commit=name)
         for one, name in zip([*old, *new], [*commits, *names], strict=True)],
    )  # fmt: skip


@pytest.mark.slow
def test_confirm_runs_both_commits_in_turn_before_a_build_fails(repository):
    suspected(repository, SLOW, [git(repository, "rev-parse", "HEAD")])
    asked = "nodewise history check --confirm study.toml --rounds 6 --json"
    done = shell(asked, repository)
    assert done.returncode == 1, done.stderr
    made = json.loads(done.stdout)["confirmation"]
    assert made["state"] == "slower"
    assert made["low"] > 1.2
    assert made["good"] == git(repository, "rev-parse", "HEAD~1")
    order = re.findall(r"(base|new) ", done.stderr)
    assert order == ["base", "new", "new", "base"] * 3
    assert git(repository, "worktree", "list").count("\n") == 0  # removed again


@pytest.mark.slow
def test_confirm_clears_a_build_that_was_suspected_for_nothing(repository):
    git(repository, "checkout", "-q", "HEAD~1", "--", "job.py")
    git(repository, "commit", "-qm", "as before")
    git(repository, "commit", "-q", "--allow-empty", "-m", "nothing")
    old = [git(repository, "rev-parse", "HEAD~1"), git(repository, "rev-parse", "HEAD")]
    append(
        place_of(str(repository)),
        [*(entry(number, workload="sleep") for number in range(9)),
         msgspec.structs.replace(entry(9, workload="sleep"), commit=old[0]),
         msgspec.structs.replace(entry(10, SLOW, "sleep"), commit=old[1])],
    )  # fmt: skip
    assert shell("nodewise history check", repository).returncode == 1
    done = shell("nodewise history check --confirm study.toml --rounds 8", repository)
    assert done.returncode == 0, done.stdout
    assert "Passed: not confirmed" in done.stdout or "In doubt" in done.stdout


@pytest.mark.slow
def test_a_study_is_added_shown_and_checked(tmp_path):
    for number in range(3):
        made = f"nodewise simulate --scales 1,2,4 --detail stages --seed {number} -o {number}.csv"
        about = f"--commit c{number} --date 2026-01-0{number + 1} --workload job --price 3"
        done = shell(f"{made} && nodewise history add {number}.csv {about}", tmp_path)
        assert done.stdout == "Added 1 study to history.jsonl.\n", done.stderr
    again = shell("nodewise history add 2.csv --commit c2 --workload job", tmp_path)
    assert again.stdout == "Added 0 studies to history.jsonl; 1 already recorded.\n"
    entries = read(place_of(str(tmp_path)))
    assert [one.commit for one in entries] == ["c0", "c1", "c2"]
    assert all(scale.cost and scale.parts for one in entries for scale in one.scales)
    shown = shell("nodewise history show", tmp_path)
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) <= 24
    checked = shell("nodewise history check --fail-if time@1=0.1s", tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith("Failed: time@1=0.1s at K=1 (time ")


def steps():
    """Name, environment and script of each step of the action."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    defaults = {name: one["default"] for name, one in action["inputs"].items()}
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        yield step["name"], step.get("env", {}), step["run"], defaults


def filled(text, known):
    """An expression of a workflow with its inputs; the pull request is number 17."""
    text = re.sub(r"\$\{\{ github\..*?\}\}", "17", text)
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: known[found[1]], text)


def act(folder, **inputs):
    """Run the steps of the action as a runner does; the exit code and the output of all."""
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    printed = ""
    for name, environment, script, defaults in steps():
        values = {key: filled(value, {**defaults, **given}) for key, value in environment.items()}
        assert "${{" not in script, "inputs reach a script as variables only"
        done = shell(script, folder, **values, **files)
        printed += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, name, printed
    return 0, "", printed


@pytest.mark.slow
def test_the_steps_of_the_action(repository):
    origin = repository / "origin"
    subprocess.run(["git", "init", "-q", "--bare", str(origin)], check=True)
    git(repository, "remote", "add", "origin", str(origin))
    git(repository, "push", "-q", "origin", "main")
    (repository / "bin").mkdir()
    (repository / "bin" / "gh").write_text('#!/bin/sh\necho "$@" >> gh.log\n')
    (repository / "bin" / "gh").chmod(0o755)
    # a push to the default branch measures, keeps and pushes the history
    code, name, printed = act(repository, spec="study.toml", study="a.study", keep="true")
    assert code == 0, (name, printed)
    assert git(origin, "rev-list", "--count", "nodewise-history") == "1"
    # a pull request is judged, and not kept
    code, name, printed = act(
        repository, spec="study.toml", study="b.study", fail_if="time@1=0.05s k*=1", comment="true"
    )
    assert (code, name) == (1, "Check"), printed
    assert git(origin, "rev-list", "--count", "nodewise-history") == "1"
    assert "::error title=time@1=0.05s" in printed
    validate_junit((repository / "nodewise-check" / "junit.xml").read_text())
    assert "Failed: time@1=0.05s" in (repository / "GITHUB_STEP_SUMMARY").read_text()
    assert "folder=nodewise-check" in (repository / "GITHUB_OUTPUT").read_text()
    assert "pr comment 17 --edit-last --body-file" in (repository / "gh.log").read_text()


@pytest.mark.slow
def test_the_script_of_the_gitlab_component(repository):
    header, job = yaml.safe_load_all((ROOT / "templates" / "scaling-check.yml").read_text())
    inputs = {name: one.get("default", "") for name, one in header["spec"]["inputs"].items()}
    inputs |= {"study_spec": "study.toml", "fail_if": "time@1=0.05s k*=1"}
    job = job["scaling-check"]
    variables = {
        name: re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda m: inputs[m[1]], value)
        for name, value in job["variables"].items()
    }
    for branch, code in (("main", 1), ("feature", 1)):
        done = shell("\n".join(job["script"]), repository, **variables,
                     CI_DEFAULT_BRANCH="main", CI_COMMIT_BRANCH=branch)  # fmt: skip
        assert done.returncode == code, done.stderr
    assert len(read(place_of(str(repository)))) == 1
    reports = job["artifacts"]["reports"]
    validate_junit((repository / reports["junit"]).read_text())
    assert (repository / reports["metrics"]).read_text().endswith("# EOF\n")
