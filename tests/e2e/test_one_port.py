"""A fleet that one command starts behind one port: logged, revived and ended as a whole."""

import os
import signal
from pathlib import Path

import pytest

from nodewise.base.errors import SpecError
from nodewise.fleet.load.replicas import ReplicaFailed, replicas_of
from nodewise.fleet.load.sweep import sweep
from nodewise.fleet.spec import Server, parse_fleet
from tests.e2e.test_fleet import EXAMPLES, left_behind, write
from tests.jobs import wait_until

pytestmark = pytest.mark.slow

# Workers in sessions of their own, as Ray has them, and a server in the command's process.
GATEWAY = f"""
import os, subprocess, sys
replicas, port = sys.argv[1:3]
print("asked for", replicas, flush=True)
for _ in range(int(replicas)):
    subprocess.Popen(["sleep", "300"], start_new_session=True)
if replicas == "3":
    sys.exit("no memory left")
server = {str(EXAMPLES / "scripted_server.py")!r}
os.execv(sys.executable, [sys.executable, server, "--port", port])
"""


def gateway(folder: Path) -> Server:
    (folder / "gateway.py").write_text(GATEWAY)
    return Server(
        command=("{python}", "gateway.py", "{replicas}", "{port}"),
        behind_one_port=True,
        start_seconds=30,
        environment={"MARK": folder.name},
    )


def test_one_command_has_one_endpoint_one_log_and_ends_with_all_it_started(tmp_path):
    server, logs = gateway(tmp_path), tmp_path / "logs"
    with replicas_of(server, 2, tmp_path, logs) as fleet:
        assert len(fleet.endpoints) == 1
        assert len(left_behind(tmp_path.name)) == 3  # the command and its two workers
        assert fleet.dead() == []
        workers = left_behind(tmp_path.name)
        [leader] = [
            one for one in workers if b"scripted" in Path(f"/proc/{one}/cmdline").read_bytes()
        ]
        os.kill(leader, signal.SIGKILL)
        wait_until(fleet.dead)
        assert fleet.dead() == ["Replica set of 2 ended: killed by SIGKILL."]
        fleet.revive()
        assert fleet.dead() == []
        wait_until(lambda: len(left_behind(tmp_path.name)) == 3)
        assert not set(workers) & set(left_behind(tmp_path.name))  # nothing of the dead one is left
    wait_until(lambda: left_behind(tmp_path.name) == [])
    assert (logs / "2-replicas" / "all" / "log").read_text().count("asked for 2") == 2


def test_a_fleet_that_does_not_start_shows_its_log_and_leaves_nothing(tmp_path):
    with (
        pytest.raises(ReplicaFailed, match=r"Replica set of 3 ended .*exit code 1.*no memory left"),
        replicas_of(gateway(tmp_path), 3, tmp_path, tmp_path / "logs"),
    ):
        pass
    wait_until(lambda: left_behind(tmp_path.name) == [])


def test_a_sweep_counts_replicas_and_not_ports(tmp_path):
    gateway(tmp_path)
    text = write(tmp_path).read_text().replace("= 320", "= 40")
    start, end = text.index("command = "), text.index("start_seconds")
    command = (
        'behind_one_port = true\ncommand = ["{python}", "gateway.py", "{replicas}", "{port}"]\n'
    )
    fleet = parse_fleet(text[:start] + command + text[end:])
    out = tmp_path / "out"
    out.mkdir()
    made = sweep(fleet, tmp_path, out, lambda *_: None)
    assert {window.replicas for window in made} == {1, 2}
    assert {request.endpoint for window in made for request in window.requests} == {0}
    assert not any(request.error for window in made for request in window.requests)
    for count in (1, 2):
        assert f"asked for {count}" in (out / f"logs/{count}-replicas/all/log").read_text()
    wait_until(lambda: left_behind(tmp_path.name) == [])


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ('command = ["serve"]', "does not say how many replicas"),
        ('command = ["serve", "{replicas}"]\ncores_per_replica = 1', "so none has a quota"),
        ('endpoints = ["http://a:1", "http://b:1"]', "it needs server.command"),
    ],
)
def test_a_spec_that_cannot_mean_one_port_is_refused(server, what):
    text = f'name = "x"\nreplicas = [1, 2]\n[objective]\nttft = 1\n[server]\n{server}\n'
    parse_fleet(text)
    with pytest.raises(SpecError, match=what):
        parse_fleet(text + "behind_one_port = true\n")
