"""Real studies on hosts behind a real sshd: four addresses of this machine's loopback."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.clusters.ssh import Ssh, SshOptions
from tests.jobs import command, measure, runs_of, wait_until, workers, write_job

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no sshd here: apt-get install openssh-server"),
    pytest.mark.skipif(os.geteuid() != 0, reason="sshd lets others in only as root"),
]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The command that reaches the hosts."""
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
        subprocess.run(make, check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    listen = "".join(f"ListenAddress {host}:{port}\n" for host in HOSTS)
    (folder / "config").write_text(
        f"{listen}HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nMaxStartups 50\n"
    )
    assert SSHD is not None
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE)
    command = (
        "ssh", "-F", "none", "-i", str(folder / "user"), "-p", str(port), "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
        "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=5",
    )  # fmt: skip
    deadline = time.monotonic() + 10
    while subprocess.run([*command, HOSTS[0], "true"], capture_output=True).returncode:
        assert server.poll() is None and time.monotonic() < deadline, "sshd does not start"
        time.sleep(0.1)
    yield command
    server.terminate()
    server.communicate(timeout=10)


JOB = """
import os, time
rank, nodes = int(os.environ["NODEWISE_RANK"]), int(os.environ["NODEWISE_NODES"])
time.sleep(0.8 / nodes)
"""


def write(folder: Path, ssh, job=JOB, scales="1, 2, 4", rounds=2, timeout=40, more="") -> Path:
    table = f'[engine]\nname = "ssh"\n[engine.ssh]\nhosts = {list(HOSTS)}\nssh = {list(ssh)}\n'
    return write_job(folder, job, scales, rounds, timeout, table + more)


def test_a_study_over_hosts(tmp_path, ssh):
    outcome = measure(write(tmp_path, ssh))
    assert outcome.returncode == 0, outcome.stderr
    runs = runs_of(tmp_path)
    assert runs.keys() == {(k, r) for k in (1, 2, 4) for r in range(2)}
    for (nodes, _), run in runs.items():
        assert run.outcome == "ok", run.detail
        assert [rank.host for rank in run.ranks] == list(HOSTS[:nodes])
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
            assert rank.stages["overhead"] > 0
        assert run.provenance["engine_nodes"] == ",".join(HOSTS[:nodes])
        assert run.provenance["engine_version"].startswith("OpenSSH")
    again = measure(tmp_path / "study.toml")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_killed_worker_ends_all_and_is_named(tmp_path, ssh):
    spec = write(tmp_path, ssh, job="import time; time.sleep(30)", scales="4", rounds=1)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(workers(tmp_path.name)) == 4, 30)
        workers(tmp_path.name, NODEWISE_RANK="3")[0].kill()
        process.communicate(timeout=60)
    run = runs_of(tmp_path)[4, 0]
    assert run.outcome == "out of memory"
    assert run.detail.startswith("exit code 137, rank 3 on 127.0.0.5")
    assert run.seconds < 25
    wait_until(lambda: not workers(tmp_path.name), 10)


def test_ctrl_c_leaves_no_worker_on_any_host(tmp_path, ssh):
    spec = write(tmp_path, ssh, job="import time; time.sleep(30)", scales="2", rounds=1)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(workers(tmp_path.name)) == 2, 30)
        process.send_signal(2)
        _, err = process.communicate(timeout=30)
    assert "Stopped; all finished runs are kept." in err
    wait_until(lambda: not workers(tmp_path.name), 10)


MPI_JOB = """
from mpi4py import MPI
from nodewise import probe
world = MPI.COMM_WORLD
for step in probe.steps(range(3)):
    with probe.comm():
        total = world.allreduce(world.rank + 1)
probe.fact(ranks=world.size, total=total)
"""


def test_mpi_over_ssh(tmp_path, ssh):
    pytest.importorskip("mpi4py")
    spec = write(tmp_path, ssh, job=MPI_JOB, scales="1, 3", rounds=1, more='launcher = "mpi"')
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    run = runs_of(tmp_path)[3, 0]
    assert run.outcome == "ok", run.detail
    assert (run.facts["ranks"], run.facts["total"], len(run.ranks)) == (3, 6, 3)


TORCH_JOB = """
import torch, torch.distributed as dist
from nodewise import probe
dist.init_process_group("gloo")
value = torch.ones(1)
for step in probe.steps(range(2)):
    dist.all_reduce(value)
probe.fact(ranks=dist.get_world_size())
dist.destroy_process_group()
"""


def test_torchrun_over_ssh(tmp_path, ssh):
    pytest.importorskip("torch")
    more = f'launcher = "torchrun"\nmaster_port = {free_port()}'
    spec = write(tmp_path, ssh, job=TORCH_JOB, scales="2", rounds=1, timeout=200, more=more)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    run = runs_of(tmp_path)[2, 0]
    assert run.outcome == "ok", run.detail
    assert (run.facts["ranks"], len(run.ranks)) == (2, 2)


def test_what_is_missing_is_said_before_the_first_run(tmp_path, ssh):
    with pytest.raises(SpecError, match=r"K=2 needs as many hosts; the list has 1"):
        Ssh(SshOptions(hosts=HOSTS[:1], ssh=ssh), tmp_path).check([1, 2])
    with pytest.raises(SpecError, match="twice"):
        Ssh(SshOptions(hosts=HOSTS[:1] * 2, ssh=ssh), tmp_path).check([1])
    with pytest.raises(RunError, match=r"127.0.0.9 fails: .*[Rr]efused") as refused:
        Ssh(SshOptions(hosts=("127.0.0.9",), ssh=ssh), tmp_path).check([1])
    assert "ssh-copy-id" in refused.value.fix
    with pytest.raises(RunError, match="does not see"):
        Ssh(SshOptions(hosts=HOSTS[:1], ssh=ssh), tmp_path / "nowhere").check([1])
    with pytest.raises(RunError, match="sch is not installed"):
        Ssh(SshOptions(hosts=HOSTS[:1], ssh=("sch",)), tmp_path).check([1])


def test_dry_run_shows_a_line_for_each_host(tmp_path, ssh):
    outcome = measure(write(tmp_path, ssh, scales="2"), "--dry-run")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.count("-tt 127.0.0.") == 2
