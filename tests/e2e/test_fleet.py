"""Sweeps of real server processes through the command line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.base.errors import DataError, RunError
from nodewise.fleet.load import windows
from nodewise.fleet.load.replicas import ReplicaFailed, replicas_of
from nodewise.fleet.load.sweep import sweep
from nodewise.fleet.spec import Server, parse_fleet
from nodewise.measure.engines.rehearsal.control_groups import missing_for_groups
from nodewise.report.open import read_folder
from nodewise.study import store
from nodewise.study.spec import Rehearsal
from tests.jobs import left_behind, wait_until

pytestmark = pytest.mark.slow
pytest.importorskip("httptools", reason="httptools is not installed: pip install 'nodewise[fleet]'")

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
SPEC = """
name = "scripted"
replicas = {replicas}
rounds = {rounds}
[server]
command = ["{{python}}", "{server}", "--port", "{{port}}", "--slots", "4", "--first-token", "0.02",
           "--gap", "0.004", {options}]
start_seconds = 30
environment = {{ MARK = "{mark}" }}
[request]
prompt_words = [2, 6]
output_tokens = [4, 12]
[load]
first_rate_per_second = 40
most_rate_per_second = 320
precision = 0.5
window_seconds = 1
warmup_seconds = 0.2
drain_seconds = 1
most_window_seconds = 4
[objective]
latency = 1.0
share = 0.8
{demand}
[price]
per_replica_hour = 0.36
"""


def write(folder: Path, replicas="[1, 2]", rounds=1, options="", demand="") -> Path:
    path = folder / "fleet.toml"
    server = EXAMPLES / "scripted_server.py"
    path.write_text(
        SPEC.format(
            replicas=replicas,
            rounds=rounds,
            options=options,
            server=server,
            mark=folder.name,
            demand=demand,
        )
    )
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nodewise", "fleet", *map(str, arguments)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_a_sweep_is_a_study_a_decision_and_goes_on_where_it_stopped(tmp_path):
    spec, folder = write(tmp_path), tmp_path / "out"
    done = run("sweep", spec, "-o", folder, "--json")
    assert done.returncode in (0, 1), done.stderr
    decision = json.loads(done.stdout)
    kept = windows.load(folder)
    assert {window.replicas for window in kept} == {1, 2}
    assert all(len(window.requests) > 0 for window in kept)
    assert sum(r.output_tokens for window in kept for r in window.requests) > 0
    assert left_behind(tmp_path.name) == []
    assert "Measuring takes about" in done.stderr
    assert "left)" in done.stderr
    assert list((folder / "logs" / "2-replicas").glob("replica-*/log"))

    study = store.load(folder)
    assert study.spec.scales == (1, 2)
    assert study.asked["price"]["per_node_hour"] == 0.36
    assert {run.nodes for run in study.runs} == {1, 2}
    assert all("host" in run.provenance for run in study.runs)

    again = run("sweep", spec, "-o", folder, "--json")
    assert json.loads(again.stdout) == decision
    assert windows.load(folder) == kept  # nothing was measured twice
    assert len(store.load(folder).runs) == len(study.runs)

    asked = run("decide", folder, "--latency", "1ms", "--json")
    assert asked.returncode == 1  # no fleet is that fast
    assert json.loads(asked.stdout)["chosen"] is None

    spec.write_text(spec.read_text().replace("share = 0.8", "share = 0.7"))
    other = run("sweep", spec, "-o", folder)
    assert other.returncode == 3
    assert "another spec" in other.stderr

    (folder / store.RUNS).unlink()  # as a sweep leaves it that was stopped
    with pytest.raises(DataError) as error:
        read_folder(folder)
    assert "nodewise fleet sweep" in error.value.fix


def test_a_sweep_with_a_demand_measures_what_the_choice_depends_on(tmp_path):
    spec = write(tmp_path, demand="[demand]\nper_second = 30")
    done = run("sweep", spec, "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    kept = windows.load(tmp_path / "out")
    assert {(window.replicas, window.offered_per_second) for window in kept} == {(1, 30.0)}
    decision = json.loads(done.stdout)
    assert (decision["chosen"], decision["rivals"]) == (1, [])


def test_a_replica_that_dies_is_recorded_and_the_sweep_finishes(tmp_path):
    """Each replica ends itself at its 60th request, again and again."""
    text = write(tmp_path, options='"--crash-after", "60"').read_text()
    fleet = parse_fleet(text.replace("= 320", "= 80"))
    out = tmp_path / "out"
    out.mkdir()
    told = []
    made = sweep(fleet, tmp_path, out, lambda window, *_: told.append(window))
    died = [window for window in made if window.died]
    assert died
    assert all("ended: exit code 13" in window.notes[-1] for window in died)
    assert {window.replicas for window in made} == {1, 2}
    assert any(r.error for window in died for r in window.requests)
    assert made == windows.load(out) == told
    assert left_behind(tmp_path.name) == []


def test_a_replica_that_is_killed_is_started_again(tmp_path):
    fleet = parse_fleet(write(tmp_path).read_text())
    with replicas_of(fleet.server, 2, tmp_path, tmp_path / "logs") as replicas:
        first, second = left_behind(tmp_path.name)
        assert replicas.dead() == []
        os.kill(second, signal.SIGKILL)
        wait_until(replicas.dead)
        assert "of 2 ended: killed by SIGKILL." in replicas.dead()[0]
        replicas.revive()
        assert replicas.dead() == []
        assert len(left_behind(tmp_path.name)) == 2
        assert first in left_behind(tmp_path.name)
    assert left_behind(tmp_path.name) == []


def test_a_fleet_that_does_not_start_is_a_result_and_only_that_is_an_error(tmp_path):
    """Two replicas do not start where one does; when none starts at all, the log is shown."""
    text = write(tmp_path, rounds=2).read_text().replace("= 320", "= 40")
    text = text.replace("\nwindow_seconds = 1", "\nwindow_seconds = 0.3")
    picky, begun = tmp_path / "picky.py", tmp_path / "begun"
    picky.write_text(
        "import os, sys\n"
        f"with open({str(begun)!r}, 'a') as file: file.write(sys.argv[1])\n"
        "if sys.argv[1] == '2': sys.exit('no memory left')\n"
        f"os.execv(sys.executable, [sys.executable, {str(EXAMPLES / 'scripted_server.py')!r},"
        " '--port', sys.argv[2]])\n"
    )
    start = text.index("command = ")
    end = text.index("start_seconds")
    command = f'command = ["{{python}}", "{picky}", "{{replicas}}", "{{port}}"]\n'
    fleet = parse_fleet(text[:start] + command + text[end:])
    out = tmp_path / "out"
    out.mkdir()
    told = []
    made = sweep(fleet, tmp_path, out, lambda window, *_: told.append(window))
    failed = [window for window in made if not window.requests]
    assert [window.replicas for window in failed] == [2]
    assert "no memory left" in failed[0].notes[0]
    assert told == made
    assert any(window.replicas == 1 for window in made)
    assert begun.read_text().count("2") <= 2  # each of them once, in the first round
    assert sweep(fleet, tmp_path, out, lambda *_: None) == made

    fewer = (text[:start] + command + text[end:]).replace("rounds = 2", "rounds = 1")
    only_two = parse_fleet(fewer.replace("[1, 2]", "[2]"))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ReplicaFailed, match="no memory left"):
        sweep(only_two, tmp_path, other, lambda *_: None)
    picky.write_text(picky.read_text().replace("== '2'", "== '3'"))  # mended
    made = sweep(only_two, tmp_path, other, lambda *_: None)
    assert made and all(window.requests for window in made)
    assert left_behind(tmp_path.name) == []


def test_a_server_that_is_never_ready_ends_the_sweep_early_and_shows_its_log(tmp_path):
    spec, begun = write(tmp_path, replicas="[2, 4]", rounds=3), tmp_path / "begun"
    script = f"echo {{replicas}} >> {begun}; echo waiting for a licence; exec sleep 60"
    text = spec.read_text()
    command = f'command = ["sh", "-c", "{script}"]\n'
    text = text[: text.index("command = ")] + command + text[text.index("start_seconds") :]
    spec.write_text(text.replace("start_seconds = 30", "start_seconds = 3"))
    done = run("sweep", spec, "-o", tmp_path / "out")
    assert done.returncode == 3
    length, what, fix = done.stderr.splitlines()
    assert length.startswith("Measuring takes about")
    assert "of 2 was not ready after 3 s: no answer at /health. waiting for a licence" in what
    assert "replica-1/log" in fix
    starts = begun.read_text().split()
    assert len(starts) <= sum(int(count) for count in set(starts))  # each fleet once at most
    assert windows.load(tmp_path / "out") == []
    with pytest.raises(DataError, match="no run that worked yet") as error:
        read_folder(tmp_path / "out")
    assert "nodewise fleet sweep" in error.value.fix
    assert left_behind(tmp_path.name) == []


def test_a_server_is_looked_for_where_it_is_started(tmp_path):
    (tmp_path / "bin").mkdir()
    server = tmp_path / "bin" / "serve"
    server.write_text(
        f"#!/bin/sh\nexec {sys.executable} {EXAMPLES / 'scripted_server.py'} --port $1\n"
    )
    server.chmod(0o755)
    here = Server(command=("./serve", "{port}"), directory="bin", start_seconds=30)
    with replicas_of(here, 1, tmp_path, tmp_path / "logs") as replicas:
        assert replicas.dead() == []
    for wrong, what in (
        (Server(command=("./serve", "{port}")), "No such program: ./serve"),
        (Server(command=("./serve",), directory="nowhere"), "No such folder: .*/nowhere"),
    ):
        with (
            pytest.raises(RunError, match=what),
            replicas_of(wrong, 1, tmp_path, tmp_path / "logs"),
        ):
            pass


def test_servers_that_run_already_are_used_and_left_alone(tmp_path):
    fleet = parse_fleet(write(tmp_path).read_text())
    with replicas_of(fleet.server, 1, tmp_path, tmp_path / "logs") as started:
        existing = Server(endpoints=started.endpoints)
        with replicas_of(existing, 1, tmp_path, tmp_path / "logs") as same:
            assert same.endpoints == started.endpoints
            assert same.dead() == []
        assert len(left_behind(tmp_path.name)) == 1
    with (
        pytest.raises(ReplicaFailed, match="does not answer 200"),
        replicas_of(Server(endpoints=existing.endpoints, start_seconds=0.2), 1, tmp_path, tmp_path),
    ):
        pass


def test_a_replica_with_a_quota_runs_in_a_group_of_its_own_that_is_removed(tmp_path):
    lacking = missing_for_groups(Rehearsal())
    if lacking is not None:
        pytest.skip(f"this machine lacks {lacking}")
    fleet = parse_fleet(
        write(tmp_path).read_text().replace("start_sec", "cores_per_replica = 0.2\nstart_sec")
    )
    with replicas_of(fleet.server, 2, tmp_path, tmp_path / "logs") as replicas:
        assert replicas.dead() == []
        places = [Path(f"/proc/{one}/cgroup").read_text() for one in left_behind(tmp_path.name)]
        for number in (0, 1):
            assert sum(f"replica{number}/job" in place for place in places) == 1
        name = places[0].partition("nodewise-")[2].partition("/")[0]
    assert left_behind(tmp_path.name) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"**/nodewise-{name}"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind_when_the_sweep_is_stopped(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "nodewise", "fleet", "sweep", str(write(tmp_path, rounds=50))],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        folder = tmp_path / "scripted.study"
        wait_until((folder / windows.WINDOWS).exists)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 3
        assert "every finished window is kept" in said
    wait_until(lambda: left_behind(tmp_path.name) == [])
    assert windows.load(folder)
