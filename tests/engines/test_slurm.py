"""Real studies on a Slurm of four virtual nodes on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nodewise.audit.own_study import answers
from nodewise.base.errors import RunError
from nodewise.explain.attribute import attribute
from nodewise.explain.scaling import scale
from nodewise.measure.engines.slurm import Slurm, SlurmOptions
from nodewise.study import store
from tests.jobs import command, measure, runs_of, wait_until, workers, write_job

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "slurm.sh"

# Knows nothing of nodewise. One rank has half of what all the others do, so one shard is uneven.
JOB = """
import os, time
rank, nodes = int(os.environ["SLURM_PROCID"]), int(os.environ["NODEWISE_NODES"])
work = 4.0
share = work if nodes == 1 else work / 2 if rank == 0 else work / 2 / (nodes - 1)
if nodes == 2:
    share = work * (0.7 if rank == 0 else 0.3)
time.sleep(share)
"""
SLURM = '[engine]\nname = "slurm"\n[engine.slurm]\npoll_seconds = 0.2\n'

pytestmark = pytest.mark.skipif(
    shutil.which("slurmctld") is None, reason="no Slurm here: scripts/slurm.sh install"
)


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("slurm") / "cluster"
    subprocess.run([SCRIPT, "start", folder, "4"], check=True, timeout=60)
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    yield
    subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)
    del os.environ["SLURM_CONF"]
    if before is not None:
        os.environ["SLURM_CONF"] = before


def write(folder: Path, job=JOB, scales="1, 2, 4", rounds=3, timeout=30, more="") -> Path:
    return write_job(folder, job, scales, rounds, timeout, SLURM + more)


def ranks(mark: str, rank: int, nodes: int) -> list[psutil.Process]:
    """The processes of one rank of a run at one scale."""
    return workers(mark, SLURM_PROCID=str(rank), NODEWISE_NODES=str(nodes))


def queue() -> list[str]:
    return subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.splitlines()


def test_a_study_finds_the_uneven_shard_in_a_program_that_says_nothing(tmp_path):
    spec = write(tmp_path)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    runs = runs_of(tmp_path)
    assert runs.keys() == {(k, r) for k in (1, 2, 4) for r in range(3)}
    for (nodes, _), run in runs.items():
        assert run.outcome == "ok", run.detail
        assert {rank.host for rank in run.ranks} == {f"node{n + 1}" for n in range(nodes)}
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
            assert rank.stages["overhead"] > 0
        assert run.provenance["engine_nodes"] == ",".join(rank.host for rank in run.ranks)
        assert run.provenance["engine_version"].startswith("slurm")
        assert run.provenance["queue_seconds"] >= 0
        assert 0 < run.provenance["startup_seconds"] < run.seconds
        assert run.contention is None  # the load of this machine is not that of the nodes
    study = store.load(tmp_path / "job.study")
    assert study.spec is not None
    assert answers(study, study.spec, scale(study))["same-place"].verdict == "pass"
    ledger = attribute(study)
    row = ledger.row(4)
    assert row.causes[0].cause == "load imbalance"  # on a busy machine others may be possible
    assert row.late_rank == 0
    assert sum(loss.folds for loss in row.causes) == pytest.approx(row.ideal - row.speedup)
    assert "engine overhead" in {loss.cause for loss in row.causes}
    assert not list((tmp_path / "job.study" / "jobs").iterdir())
    again = measure(spec)
    assert again.returncode == 0
    assert again.stderr == ""
    assert runs_of(tmp_path) == runs


def test_a_killed_worker_ends_its_run_and_not_the_study(tmp_path):
    job = JOB.replace("work = 4.0", "work = 1.0 if nodes < 4 else 100")
    spec = write(tmp_path, job=job, rounds=1, timeout=100)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: bool(ranks(tmp_path.name, rank=2, nodes=4)))
        for worker in ranks(tmp_path.name, rank=2, nodes=4):
            worker.kill()
        process.communicate(timeout=60)
    runs = runs_of(tmp_path)
    assert runs[4, 0].outcome == "out of memory"  # a kill from nowhere is taken for that
    assert runs[4, 0].detail.startswith("exit code 137, rank 2 on node3\n")
    assert runs[4, 0].seconds < 50  # rank 0, which had the most to do, was ended too
    assert (runs[1, 0].outcome, runs[2, 0].outcome) == ("ok", "ok")
    assert not [p for rank in range(4) for p in ranks(tmp_path.name, rank, 4)]


def test_who_submits_may_be_killed_and_comes_back(tmp_path):
    spec = write(tmp_path, job=JOB.replace("4.0", "1.5"), scales="1, 2", rounds=2)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: (tmp_path / "job.study" / "runs.jsonl").exists())
        process.kill()
    made = len(runs_of(tmp_path))
    assert made < 4
    wait_until(lambda: not queue())  # the jobs ran on
    assert len(runs_of(tmp_path)) == made
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    runs = runs_of(tmp_path)
    assert len(runs) == 4
    assert {run.outcome for run in runs.values()} == {"ok"}
    assert len({run.provenance["slurm_job"] for run in runs.values()}) == 4
    assert {run.provenance["slurm_submissions"] for run in runs.values()} == {1}


def test_a_preempted_job_comes_back_and_counts_only_its_last_start(tmp_path):
    spec = write(tmp_path, job="import time; time.sleep(3)", scales="4", rounds=1)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: bool(ranks(tmp_path.name, rank=3, nodes=4)))
        urgent = ["srun", "-p", "urgent", "-N", "4", "-n", "4", "--exclusive", "true"]
        subprocess.run(urgent, check=True, timeout=60)
        # A requeued job begins two minutes later, unless it is told otherwise. It needs a few
        # seconds of them: one that begins in the second of its first end fails at times.
        number = int((tmp_path / "job.study/jobs/K4-round0/submitted").read_text())
        update = ["scontrol", "update", f"JobId={number}", "StartTime=now+4"]
        wait_until(lambda: subprocess.run(update, capture_output=True).returncode == 0)
        _, err = process.communicate(timeout=120)
    run = runs_of(tmp_path)[4, 0]
    assert run.outcome == "ok", err
    assert int(run.provenance["slurm_restarts"]) >= 1
    assert len(run.ranks) == 4


def test_after_ctrl_c_the_jobs_go_on(tmp_path):
    spec = write(tmp_path, job="import time; time.sleep(2)", scales="2", rounds=1)
    with subprocess.Popen(command(spec), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: bool(ranks(tmp_path.name, rank=1, nodes=2)))
        process.send_signal(2)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "Submitted jobs continue." in err
    wait_until(lambda: not queue())
    assert measure(spec).returncode == 0
    run = runs_of(tmp_path)[2, 0]
    assert (run.outcome, run.provenance["slurm_submissions"]) == ("ok", 1)


MPI_JOB = """
import os
from mpi4py import MPI
from nodewise import probe
world = MPI.COMM_WORLD
with probe.setup():
    world.barrier()
for step in probe.steps(range(3)):
    with probe.comm():
        total = world.allreduce(world.rank + 1)
probe.work(items=1)
probe.fact(ranks=world.size, total=total)
"""


@pytest.mark.parametrize("launcher", ['launcher = "mpiexec"', 'mpi = "pmi2"'])
def test_mpi_runs_on_nested_subsets_of_one_allocation(tmp_path, launcher):
    pytest.importorskip("mpi4py")
    more = f'allocation = "one"\n{launcher}'
    outcome = measure(write(tmp_path, job=MPI_JOB, rounds=1, more=more))
    assert outcome.returncode == 0, outcome.stderr
    runs = runs_of(tmp_path)
    assert len({run.provenance["slurm_job"] for run in runs.values()}) == 1
    begun = {run.nodes: run.ranks[0] for run in runs.values()}
    assert begun.keys() == {1, 2, 4}
    for (nodes, _), run in runs.items():
        assert run.outcome == "ok", run.detail
        assert run.facts["ranks"] == nodes
        assert run.facts["total"] == nodes * (nodes + 1) / 2
        assert [rank.host for rank in run.ranks] == [f"node{n + 1}" for n in range(nodes)]
        assert run.work == nodes


TORCH_JOB = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
from nodewise import probe
for step in probe.steps(range(2)):
    dist.all_reduce(torch.ones(1000))
probe.fact(ranks=int(value.item()))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("per_node", [1, 2])
def test_torchrun_meets_on_the_first_node(tmp_path, per_node):
    pytest.importorskip("torch")
    more = f'launcher = "torchrun"\ntasks_per_node = {per_node}'
    spec = write(tmp_path, job=TORCH_JOB, scales="2", rounds=1, timeout=200, more=more)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    run = runs_of(tmp_path)[2, 0]
    assert run.outcome == "ok", run.detail
    assert run.facts["ranks"] == 2 * per_node == len(run.ranks)
    assert run.ranks[0].stages["communication"] > 0


TRAINING = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.ones(4, 64)).pow(2).mean().backward()
    optimizer.step()
"""
UNDER_TORCHRUN = f"""{TRAINING}
import os
from nodewise import probe
probe.fact(
    agents=dist.get_world_size() // int(os.environ["LOCAL_WORLD_SIZE"]),
    cores=int(os.environ["SLURM_CPUS_PER_TASK"]),
)
dist.destroy_process_group()
"""
# As scripts for `srun python` do: the place of a rank is that of its task.
UNDER_SRUN = f"""
import os
place = {{"RANK": "PROCID", "LOCAL_RANK": "LOCALID", "WORLD_SIZE": "NTASKS"}}
os.environ.update({{name: os.environ[f"SLURM_{{task}}"] for name, task in place.items()}})
os.environ["MASTER_ADDR"] = "127.0.0.1"
os.environ["MASTER_PORT"] = str(20000 + int(os.environ["SLURM_JOB_ID"]) % 9000)
{TRAINING}
dist.destroy_process_group()
"""


def test_an_unchanged_training_under_torchrun_where_k_counts_ranks(tmp_path):
    pytest.importorskip("torch")
    more = 'launcher = "torchrun"\nscale = "tasks"\ntasks_per_node = 2'
    spec = write(tmp_path, job=UNDER_TORCHRUN, scales="2, 4", rounds=1, timeout=200, more=more)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    for (ranks_asked, _), run in runs_of(tmp_path).items():
        assert run.outcome == "ok", run.detail
        assert len(run.ranks) == ranks_asked
        assert run.facts["agents"] == ranks_asked // 2  # one a node
        assert run.facts["cores"] == 2  # of an agent: one for each of its ranks
        assert run.facts["global_batch"] == 4 * ranks_asked
        assert run.steps == 5
        assert all(rank.stages["communication"] > 0 for rank in run.ranks)
    assert store.load(tmp_path / "job.study").regime == "weak"


def test_an_unchanged_training_under_srun(tmp_path):
    pytest.importorskip("torch")
    more = 'launcher = "srun"\nscale = "tasks"\ntasks_per_node = 2'
    spec = write(tmp_path, job=UNDER_SRUN, scales="2, 4", rounds=1, timeout=200, more=more)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    for (ranks_asked, _), run in runs_of(tmp_path).items():
        assert run.outcome == "ok", run.detail
        assert [rank.rank for rank in run.ranks] == list(range(ranks_asked))
        assert run.facts["global_batch"] == 4 * ranks_asked
        assert run.steps == 5
        assert all(rank.stages["communication"] > 0 for rank in run.ranks)
    assert store.load(tmp_path / "job.study").regime == "weak"


def test_k_may_count_tasks(tmp_path):
    more = 'scale = "tasks"'
    outcome = measure(
        write(tmp_path, job=JOB.replace("4.0", "0.5"), scales="3", rounds=1, more=more)
    )
    assert outcome.returncode == 0, outcome.stderr
    assert len(runs_of(tmp_path)[3, 0].ranks) == 3


def test_a_run_that_takes_too_long_is_ended(tmp_path):
    spec = write(tmp_path, job="import time; time.sleep(60)", scales="2", rounds=1, timeout=1.5)
    measure(spec)
    run = runs_of(tmp_path)[2, 0]
    assert (run.outcome, run.detail.partition("\n")[0]) == ("timeout", "stopped after 1.5 s")
    wait_until(lambda: not queue())


def test_what_is_missing_is_said_before_the_first_run(tmp_path, monkeypatch):
    with pytest.raises(RunError, match=r"K=5 is requested"):
        Slurm(SlurmOptions()).check([1, 5])
    with pytest.raises(RunError, match="no partition 'fast'"):
        Slurm(SlurmOptions(partition="fast")).check([1])
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "nowhere"))
    with pytest.raises(RunError, match="Slurm does not answer"):
        Slurm(SlurmOptions()).check([1])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="sbatch is not installed"):
        Slurm(SlurmOptions()).check([1])


def test_sbatch_says_why_it_refuses(tmp_path):
    spec = write(tmp_path, scales="1", rounds=1, more='account = "nobody"\ntime_minutes = 1')
    spec.write_text(spec.read_text().replace('name = "slurm"', SBATCH_OPTIONS))
    outcome = measure(spec)
    assert outcome.returncode == 3
    assert "sbatch refuses the job" in outcome.stderr


SBATCH_OPTIONS = """name = "slurm"
options = ["--constraint=golden"]"""


def test_a_controller_that_is_away_for_a_while_is_waited_for(tmp_path, monkeypatch):
    (tmp_path / "scontrol").write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/asked\n"
        f'[ $(wc -l < {tmp_path}/asked) -gt 3 ] && exec {shutil.which("scontrol")} "$@"\n'
        "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n"
    )
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # The job ends only after the controller has answered again.
    job = f"""
import pathlib, time
asked, until = pathlib.Path("{tmp_path}/asked"), time.monotonic() + 20
while time.monotonic() < until and (not asked.exists() or len(asked.read_text().split()) < 5):
    time.sleep(0.05)
"""
    assert measure(write(tmp_path, job=job, scales="2", rounds=1)).returncode == 0
    assert runs_of(tmp_path)[2, 0].outcome == "ok"
    assert len((tmp_path / "asked").read_text().split()) > 3


def test_what_the_accounts_say_is_kept(tmp_path, monkeypatch):
    told = (
        "COMPLETED|12|00:20.5||||5400|2|||billing=4,cpu=4,node=2\n"
        "COMPLETED|12|00:00.1|1200K|0.10M|0|20|1|1||cpu=2\n"
    )
    (tmp_path / "sacct").write_text(f"#!/bin/sh\nprintf '{told}'\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    spec = write(tmp_path, job="", scales="1", rounds=1)
    assert measure(spec).returncode == 0
    kept = runs_of(tmp_path)[1, 0].provenance
    assert (kept["sacct_TotalCPU"], kept["sacct_MaxRSS"]) == ("00:20.5", "1200K")
    assert kept["sacct_ConsumedEnergyRaw"] == "5400"


def test_dry_run_prints_the_batch_script_and_submits_nothing(tmp_path):
    outcome = measure(write(tmp_path), "--dry-run")
    assert outcome.returncode == 0, outcome.stderr
    assert "# K=4\n#!/bin/bash\n" in outcome.stdout
    assert '#SBATCH --nodes="4"' in outcome.stdout
    assert not (tmp_path / "job.study").exists()
    assert not queue()


def test_srun_starts_the_ranks_of_the_mpi_engine(tmp_path):
    here = Path(sys.executable).parent
    source = ROOT / "tests" / "data" / "mpi" / "ends.c"
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    subprocess.run([here / "mpicc", source, "-o", tmp_path / "ends"], check=True, timeout=60)
    (tmp_path / "s.toml").write_text(f"""name = "s"
scales = [1, 2, 4]
rounds = 1
timeout_seconds = 60
[workload]
command = ["{tmp_path / "ends"}", "well"]
[engine]
name = "mpi"
options = ["--mpi=pmi2"]
[engine.mpi]
launcher = "srun"
ranks_per_node = 1
""")
    outcome = measure(tmp_path / "s.toml")
    assert outcome.returncode == 0, outcome.stderr
    study = store.load(tmp_path / "s.study")
    for run in study.runs:
        assert run.facts["mpi_size"] == len(run.ranks) == run.nodes
        assert str(run.provenance["mpi_options"]).startswith("--ntasks-per-node=1")
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
    assert study.scale_unit.named(4) == "4 ranks (4 nodes)"
    assert not queue()
