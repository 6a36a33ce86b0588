"""Virtual nodes as they really are: real quotas, real links, and nothing left over."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from benchmarks.planted_causes import PLANTED, planted_study, slowest_rank

from nodewise import probe
from nodewise.base.errors import RunError
from nodewise.explain.attribute import attribute
from nodewise.explain.scaling import scale
from nodewise.measure.engines.base import Finished, Job
from nodewise.measure.engines.rehearsal.control_groups import remove_leftovers
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine, fitting_share
from nodewise.measure.engines.rehearsal.virtual_nodes import VirtualNodes, missing
from nodewise.study import store
from nodewise.study.spec import Rehearsal
from tests.jobs import skip_if_disturbed, wait_until

pytestmark = pytest.mark.slow

_NOBODY = 65534
_LACKING = missing(Rehearsal(cpu="quota", link="real"))
needs_nodes = pytest.mark.skipif(_LACKING is not None, reason=f"This machine lacks {_LACKING}.")
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed."
)

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed."
)

# Waits until the quota is in force, then says how much CPU it got in a second and a half.
SPIN = """
import os, pathlib, sys, time
while not pathlib.Path(sys.argv[1], "go").exists():
    time.sleep(0.02)
begin, used = time.perf_counter(), time.process_time()
while time.perf_counter() < begin + 1.5:
    pass
share = (time.process_time() - used) / (time.perf_counter() - begin)
names = ("NODEWISE_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
rank = next(os.environ[name] for name in names if name in os.environ)
pathlib.Path(sys.argv[1], rank).write_text(str(share))
"""

# Rank 1 sends to rank 0, which says how many bits a second came.
SEND = """
import os, pathlib, socket, sys, time
if os.environ["NODEWISE_RANK"] == "0":
    with socket.create_server(("node0", 5000)) as server:
        link, _ = server.accept()
    size, begin = len(link.recv(1)), time.perf_counter()
    while data := link.recv(1 << 16):
        size += len(data)
    rate = size * 8 / (time.perf_counter() - begin)
    pathlib.Path(sys.argv[1], "rate").write_text(str(rate))
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            link = socket.create_connection(("node0", 5000), timeout=1)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    link.settimeout(60)
    link.sendall(bytes(4_000_000))
    link.close()
"""

REDUCE = """
import os, numpy, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = numpy.empty(250_000, numpy.float32)
world.Allreduce(numpy.ones_like(total), total)
sys.stdout.write(f"rank {world.rank} of {world.size} on {os.uname().nodename}: {total[0]:g}\\n")
"""

TORCH_REDUCE = """
import os, sys, torch
import torch.distributed as world
world.init_process_group("gloo")
total = torch.ones(250_000)
world.all_reduce(total)
sys.stdout.write(f"{os.uname().nodename}: {total[0]:g}\\n")
world.destroy_process_group()
"""

# Rank 1 takes twice the memory that a node has; the others wait for it.
HUNGRY = """
import os, time
rank = os.environ.get("NODEWISE_RANK") or os.environ["PMI_RANK"]
taken = bytearray(160_000_000 if rank == "1" else 1_000)
time.sleep(0 if rank == "1" else 10)
"""

# Half a second of CPU time over all ranks, and four messages of 0.1 s at 80 Mbit/s.
PACED = """
import os, time
from nodewise import probe
for _ in probe.steps(range(4)):
    with probe.compute():
        end = time.process_time() + 0.125 / int(os.environ["NODEWISE_NODES"])
        while time.process_time() < end:
            pass
    with probe.comm(sent_bytes=1_000_000):
        pass
"""

# A harness that makes nodes, starts a job that does not end with it, and waits to be killed.
HARNESS = """
import pathlib, subprocess, sys, time
from nodewise.measure.engines.rehearsal.virtual_nodes import VirtualNodes
from nodewise.study.spec import Rehearsal
nodes = VirtualNodes(2, Rehearsal(), pathlib.Path("/"))
command = nodes.command(1, ["sleep", "1000"], pathlib.Path("/"))
job = subprocess.Popen(command, start_new_session=True)
print(job.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def clean() -> Iterator[None]:
    """Before and after a test, the machine looks the same."""
    remove_leftovers()
    before = _traces()
    yield
    assert _traces() == before


def _traces() -> tuple[object, ...]:
    """What nodes of this process could leave behind; others may use the machine as well."""
    groups = sorted(Path("/sys/fs/cgroup").glob(f"**/nodewise-{os.getpid()}-*"))
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    devices = sorted(path.name for path in Path("/sys/class/net").iterdir())
    return groups, children, devices, Path("/proc/self/mounts").read_text()


def _spaces(process: int | str = "[0-9]*") -> set[Path]:
    """The network namespaces that a process, or any process, lives in."""
    found = set()
    for link in Path("/proc").glob(f"{process}/ns/net"):
        with suppress(OSError):  # it ended meanwhile
            found.add(link.readlink())
    return found


def _job(folder: Path, command: Sequence[str], nodes: int, timeout_seconds: float = 60.0) -> Job:
    return Job(
        command=tuple(command),
        nodes=nodes,
        directory=folder,
        environment=dict(os.environ),
        folder=folder,
        timeout_seconds=timeout_seconds,
    )


def _rehearse(
    options: Rehearsal, job: Job, start_seconds: float = 30.0
) -> tuple[Finished, dict[str, float | str]]:
    engine = RehearsalEngine(options, start_seconds=start_seconds)
    try:
        engine.check([job.nodes])
        finished = engine.run(job, lambda leaders: None)
        return finished, _facts(finished)
    finally:
        engine.close()


def _facts(finished: Finished) -> dict[str, Any]:
    """What the engine recorded, without its name."""
    return {name.removeprefix("rehearsal_"): value for name, value in finished.facts.items()}


def _spin(options: Rehearsal, folder: Path, nodes: int) -> tuple[list[float], dict[str, object]]:
    """The CPU share of a busy job on each node, measured only while the quotas are in force."""
    engine = RehearsalEngine(options, start_seconds=60)

    def start(leaders: Sequence[int]) -> None:
        engine.limit()
        (folder / "go").touch()

    job = _job(folder, _python(SPIN, folder), nodes, timeout_seconds=60)
    try:
        engine.check([nodes])
        finished = engine.run(job, start)
        checks = _facts(finished)
    finally:
        engine.close()
    assert finished.outcome == "ok", job.log.read_text()
    return [float((folder / str(rank)).read_text()) for rank in range(nodes)], dict(checks)


def _received(folder: Path, megabits: float) -> tuple[float, float]:
    """Bits per second that came over such a link, and bytes that were sent into it."""
    folder.mkdir()
    options = Rehearsal(launcher="local", cores_per_node=0.5, link_mbit_per_second=megabits)
    job = _job(folder, _python(SEND, folder), nodes=2)
    finished, checks = _rehearse(options, job)
    assert finished.outcome == "ok", job.log.read_text()
    return float((folder / "rate").read_text()), float(checks["node1.sent_bytes"])


def _quota(**options: object) -> Rehearsal:
    return Rehearsal(launcher="local", cpu="quota", **options)  # type: ignore[arg-type]


def _python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *(str(argument) for argument in arguments)]


@needs_nodes
@pytest.mark.usefixtures("clean")
class TestNodes:
    def test_link_has_the_rate_that_was_asked(self, tmp_path: Path) -> None:
        rate, sent = _received(tmp_path / "slow", 40)
        assert 4e6 < sent < 4.4e6
        assert rate < 1.25 * 40e6
        control, _ = _received(tmp_path / "fast", 4000)
        if control < 4 * 40e6:
            pytest.skip(f"disturbed: no more than {control / 1e6:.0f} Mbit/s could be sent")
        assert rate > 0.75 * 40e6

    def test_a_spinning_job_gets_its_quota_under_other_load(self, tmp_path: Path) -> None:
        load = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
        try:
            shares, checks = _spin(_quota(cores_per_node=0.1), tmp_path, 2)
        finally:
            for process in load:
                process.kill()
                process.wait()
        assert shares == pytest.approx([0.1, 0.1], rel=0.1)
        assert checks["limited_by"] == "the gate"

    def test_a_slow_node_gets_half(self, tmp_path: Path) -> None:
        options = _quota(cores_per_node=0.2, slow_node=-1, slow_factor=2)
        shares, checks = _spin(options, tmp_path, 3)
        assert shares == pytest.approx([0.2, 0.2, 0.1], rel=0.1)
        assert [checks[f"node{rank}.cores"] for rank in range(3)] == [0.2, 0.2, 0.1]

    @needs_mpi
    def test_ranks_of_a_local_mpiexec_are_on_their_own_nodes(self, tmp_path: Path) -> None:
        options = Rehearsal(
            launcher="mpi", link="modelled", cpu="quota", cores_per_node=0.2, slow_node=-1,
            slow_factor=2,
        )  # fmt: skip
        shares, checks = _spin(options, tmp_path, 3)
        assert shares == pytest.approx([0.2, 0.2, 0.1], rel=0.1)
        for node in range(3):  # it sleeps while mpiexec starts and ends
            assert 0.5 < float(str(checks[f"node{node}.cpu_received_of_asked"])) < 1.1

    def test_the_gate_puts_the_quota_in_force(self, tmp_path: Path) -> None:
        """The job spins without a limit for half a second, which must not be counted."""
        spin = "while :; do :; done"
        options = _quota(cores_per_node=0.1)
        engine = RehearsalEngine(options, start_seconds=60)
        moments = [time.monotonic()]

        def limit(leaders: Sequence[int]) -> None:
            time.sleep(0.5)
            moments.append(time.monotonic())
            engine.limit()
            moments.append(time.monotonic())

        job = _job(tmp_path, ["timeout", "2.5", "sh", "-c", spin], 2)
        try:
            engine.check([2, 4])
            finished = engine.run(job, limit)
            moments.append(time.monotonic())
            checks = _facts(finished)
        finally:
            engine.close()
        assert finished.outcome == "crashed"  # by `timeout`
        assert checks["limited_by"] == "the gate"
        begin, before, after, end = moments
        assert 2.5 - (after - begin) < float(checks["limited_seconds"]) < end - before
        for node in range(2):
            assert checks[f"node{node}.cpu_received_of_asked"] == pytest.approx(1, rel=0.1)
            assert float(checks[f"node{node}.throttled_periods"]) > 0.9

    def test_lifting_the_quota_ends_what_is_compared(self, tmp_path: Path) -> None:
        """The job spins on without a limit, which must not be counted either."""
        engine = RehearsalEngine(_quota(cores_per_node=0.1), start_seconds=60)
        moments = []

        def limit_and_lift(leaders: Sequence[int]) -> None:
            moments.append(time.monotonic())
            engine.limit()
            moments.append(time.monotonic())
            time.sleep(1)
            moments.append(time.monotonic())
            engine.unlimit()
            moments.append(time.monotonic())

        job = _job(tmp_path, ["timeout", "2", "sh", "-c", "while :; do :; done"], 1)
        try:
            checks = _facts(engine.run(job, limit_and_lift))
        finally:
            engine.close()
        before, limited, lifted, after = moments
        assert lifted - limited < float(checks["limited_seconds"]) < after - before
        assert checks["node0.cpu_received_of_asked"] == pytest.approx(1, rel=0.1)

    def test_nodes_are_used_again_and_see_each_other(self, tmp_path: Path) -> None:
        engine = RehearsalEngine(Rehearsal(launcher="local"))
        script = "hostname; ls /dev/shm; getent hosts node1; cat /etc/resolv.conf; pwd"
        try:
            engine.check([1, 2])
            for nodes in (2, 1):
                job = _job(tmp_path, ["sh", "-c", script], nodes)
                assert engine.run(job, lambda leaders: None).outcome == "ok"
        finally:
            engine.close()
        words = job.log.read_text().split()
        assert sorted(word for word in words if word in {"node0", "node1"}) == [
            *["node0"] * 2,  # it ran twice
            *["node1"] * 4,  # it ran once, and each of three looked for it
        ]
        assert words.count(str(tmp_path)) == 3

    def test_what_a_job_leaves_running_is_ended(self, tmp_path: Path) -> None:
        script = "setsid sleep 1000 & echo $! > child; exit 3"
        job = _job(tmp_path, ["sh", "-c", script], 1)
        finished, _ = _rehearse(Rehearsal(launcher="local"), job)
        assert (finished.outcome, finished.detail) == ("crashed", "exit code 3")
        child = int((tmp_path / "child").read_text())
        assert _ends(child)

    def test_a_job_that_takes_too_long_is_ended(self, tmp_path: Path) -> None:
        job = _job(tmp_path, ["sleep", "1000"], 2, timeout_seconds=0.5)
        finished, _ = _rehearse(Rehearsal(launcher="local"), job)
        assert finished.outcome == "timeout"

    def test_a_limit_the_kernel_refuses_is_an_error(self) -> None:
        nodes = VirtualNodes(1, Rehearsal(), Path("/"))
        try:
            with pytest.raises(RunError, match="does not take 2"):
                nodes.limit([0.0001])
        finally:
            nodes.remove()

    def test_namespaces_go_with_the_nodes(self) -> None:
        nodes = VirtualNodes(2, Rehearsal(), Path("/"))
        sleeper = subprocess.Popen(nodes.command(0, ["sleep", "1000"], Path("/")))
        wait_until(lambda: not _spaces(sleeper.pid) & _spaces("self"))
        spaces = _spaces(nodes.head.process) | _spaces(sleeper.pid)
        assert len(spaces - _spaces("self")) == 2
        nodes.remove()
        assert sleeper.wait(60) == -signal.SIGKILL
        assert not spaces & _spaces()

    def test_disk_limit_is_in_force(self, tmp_path: Path) -> None:
        options = Rehearsal(launcher="local", disk_bytes_per_second=8_000_000)
        if missing(options) is not None or not _is_on_a_disk(tmp_path):
            pytest.skip("The disk cannot be limited here.")
        script = "dd if=/dev/zero of=data bs=1M count=8 oflag=direct 2>&1"
        finished, _ = _rehearse(options, _job(tmp_path, ["sh", "-c", script], 1))
        assert finished.outcome == "ok"
        assert finished.seconds > 0.7

    @pytest.mark.parametrize(
        ("launcher", "link"),
        [
            ("local", "real"),
            pytest.param("mpi", "real", marks=needs_mpi),
            pytest.param("mpi", "modelled", marks=needs_mpi),
        ],
    )
    def test_a_rank_that_takes_too_much_memory_is_told(
        self, tmp_path: Path, launcher: str, link: str
    ) -> None:
        options = Rehearsal(launcher=launcher, link=link, memory_bytes=80_000_000)  # type: ignore[arg-type]
        if missing(options) is not None:
            pytest.skip("Memory cannot be limited here.")
        job = _job(tmp_path, _python(HUNGRY), nodes=3)
        finished, _ = _rehearse(options, job)
        assert finished.outcome == "out of memory", job.log.read_text()
        assert finished.detail == "node1 needs more than its 80 MB of memory"

    def test_leftovers_of_a_killed_harness_are_removed(self) -> None:
        with subprocess.Popen(_python(HARNESS), stdout=subprocess.PIPE, text=True) as harness:
            assert harness.stdout is not None
            orphan = int(harness.stdout.readline())
            prefix = f"nodewise-{harness.pid}-"
            wait_until(lambda: prefix in Path(f"/proc/{orphan}/cgroup").read_text())
            assert not [name for name in remove_leftovers() if name.startswith(prefix)]
            assert _runs(orphan)
            harness.send_signal(signal.SIGKILL)
        assert _runs(orphan)
        assert len([name for name in remove_leftovers() if name.startswith(prefix)]) == 1
        assert _ends(orphan)

    @needs_mpi
    def test_mpi_goes_over_the_links(self, tmp_path: Path) -> None:
        job = _job(tmp_path, _python(REDUCE), nodes=4)
        finished, checks = _rehearse(Rehearsal(launcher="mpi"), job)
        lines = sorted(job.log.read_text().splitlines())
        assert lines == [f"rank {rank} of 4 on node{rank}: 4" for rank in range(4)]
        assert finished.outcome == "ok"
        ring_bytes = 2 * 3 / 4 * 1e6  # anything less went another way, such as shared memory
        for rank in range(4):
            assert ring_bytes < float(checks[f"node{rank}.sent_bytes"]) < 1.3 * ring_bytes

    @needs_torch
    def test_torch_goes_over_the_links(self, tmp_path: Path) -> None:
        script = tmp_path / "reduce.py"
        script.write_text(TORCH_REDUCE)
        job = _job(tmp_path, ["python", str(script)], nodes=2, timeout_seconds=60)
        finished, checks = _rehearse(Rehearsal(launcher="torchrun"), job, start_seconds=60)
        assert finished.outcome == "ok", job.log.read_text()
        said = [line for line in job.log.read_text().splitlines() if line.startswith("node")]
        assert sorted(said) == ["node0: 2", "node1: 2"]
        assert float(checks["node1.sent_bytes"]) > 1e6


def _runs(process: int) -> bool:
    """Whether a process exists and is more than a record that waits to be collected."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _ends(process: int) -> bool:
    """Whether a process ends soon: one that was killed still needs a moment of a core."""
    wait_until(lambda: not _runs(process), 60)
    return True


def _is_on_a_disk(path: Path) -> bool:
    number = path.stat().st_dev
    return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").exists()


class TestPlans:
    def test_a_dry_run_shows_nodes_shares_link_and_launcher(self, tmp_path: Path) -> None:
        options = Rehearsal(cores_per_node=0.05, link="modelled", slow_node=-1, slow_factor=2)
        plan = RehearsalEngine(options).plan(_job(tmp_path, ["true"], 32))
        nodes, cpu, link, launcher, command = plan.splitlines()
        assert nodes.startswith("nodes: 32 emulated, 0.05 cores each; node31 has 0.025, 1.6 of ")
        assert cpu.startswith("CPU: paced")
        assert link == "link: 300 Mbit/s, 0.05 ms a message, modelled by pacing"
        assert (launcher, command) == ("launcher: mpi", "true")

    @pytest.mark.parametrize(("nodes", "cores"), [(2, 2), (16, 2), (32, 2), (8, 64)])
    def test_the_proposed_share_fits(self, nodes: int, cores: int) -> None:
        assert 0.6 * cores < nodes * fitting_share(nodes, cores) <= 0.7 * cores


@needs_nodes
class TestRefusals:
    def test_more_cores_than_there_are(self) -> None:
        engine = RehearsalEngine(Rehearsal(launcher="local", cores_per_node=1))
        with pytest.raises(RunError, match="this machine has") as refused:
            engine.check([1, 1000])
        assert "cores_per_node" in refused.value.fix

    def test_a_quota_below_what_the_kernel_takes(self) -> None:
        options = _quota(cores_per_node=0.04, slow_node=0, slow_factor=2)
        with pytest.raises(RunError, match="less than 1 ms") as refused:
            RehearsalEngine(options).check([1])
        assert refused.value.fix == "Set period_ms to 50 or more."


# Runs a job on two nodes as whoever it is, and says how it went.
AS_A_USER = """
import json, os, pathlib, sys
from nodewise.measure.engines.base import Job
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.study.spec import Rehearsal
folder = pathlib.Path(sys.argv[1])
spin = "hostname; timeout 1 sh -c 'while :; do :; done'; true"
job = Job(
    command=("sh", "-c", spin), nodes=2, directory=folder, folder=folder,
    environment=dict(os.environ), timeout_seconds=20,
)
engine = RehearsalEngine(Rehearsal(launcher="local", cores_per_node=0.2), start_seconds=0.2)
engine.check([2])
try:
    finished = engine.run(job, lambda leaders: None)
finally:
    engine.close()
facts = {"user": os.getuid(), "outcome": finished.outcome, "said": job.log.read_text().split()}
print(json.dumps(facts | dict(finished.facts)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become another user.")
class TestWithoutRoot:
    _interpreter = sys.executable

    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        """A folder that another user may use; those of pytest are closed to others."""
        with tempfile.TemporaryDirectory() as place:
            os.chown(place, _NOBODY, _NOBODY)
            self._choose_interpreter()
            yield Path(place)

    def _choose_interpreter(self) -> None:
        """Ours, else one of the same version with our packages: ours may be in root's home."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        reads = "import sys, nodewise.measure.loop; open(sys.executable, 'rb').close()"
        for interpreter in (sys.executable, f"/usr/bin/{version}"):
            self._interpreter = interpreter
            if Path(interpreter).exists() and not self._run(reads).returncode:
                return
        pytest.skip(f"Another user can read neither {sys.executable} nor /usr/bin/{version}.")

    def _run(
        self, script: str, *arguments: object, groups: Sequence[Path] = ()
    ) -> subprocess.CompletedProcess[str]:
        """What a script does as nobody, in these control groups."""
        enter = 'for group in $0; do echo $$ > "$group/cgroup.procs"; done; exec "$@"'
        user = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        command = ["sh", "-c", enter, " ".join(map(str, groups)), *user, self._interpreter, "-c"]
        packages = [str(Path(probe.__file__).parents[1])]
        packages += [path for path in sys.path if path.endswith("-packages")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(packages)}
        return subprocess.run(
            [*command, script, *map(str, arguments)],
            capture_output=True, text=True, cwd="/", timeout=240, env=environment,
        )  # fmt: skip

    @pytest.mark.usefixtures("folder")
    def test_a_closed_folder_on_the_path_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tmp_path.chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        done = self._run("from nodewise.measure.mpi import libraries; libraries.installed()")
        assert done.returncode == 0, done.stderr

    def test_what_is_missing_is_said_in_two_lines(self, folder: Path) -> None:
        spec = folder / "study.toml"
        spec.write_text(
            'name = "rootless"\nscales = [1, 2]\n[workload]\ncommand = ["true"]\n'
            '[engine]\nname = "rehearsal"\n[engine.rehearsal]\nlauncher = "local"\n'
        )
        main = "from nodewise.cli.main import main; main()"
        done = self._run(main, "measure", spec, "-o", folder / "study")
        assert done.returncode == 3
        what, fix = done.stderr.splitlines()
        assert what.startswith("nodewise: The program calls neither probe.setup nor probe.steps")
        assert "run as root" in fix

    @pytest.mark.parametrize("link", ["auto", "modelled"])
    def test_a_paced_rehearsal_needs_no_root(self, folder: Path, link: str) -> None:
        (folder / "job.py").write_text(PACED)
        spec = folder / "study.toml"
        spec.write_text(
            'name = "rootless"\nscales = [1, 2, 4]\nrounds = 2\n[workload]\n'
            'command = ["{python}", "job.py"]\n[engine]\nname = "rehearsal"\n[engine.rehearsal]\n'
            f'launcher = "local"\nlink = "{link}"\nlink_mbit_per_second = 80.0\n'
        )
        main = "from nodewise.cli.main import main; main()"
        done = self._run(main, "measure", spec, "-o", folder / "study")
        assert done.returncode == 0, done.stderr
        study = store.load(folder / "study")
        for run in study.runs:
            assert run.provenance["rehearsal_cpu"] == "paced"
            for rank in run.ranks:
                assert rank.pace is not None
                on_node = rank.pace.cpu_seconds / 0.1
                expected = on_node + (0.4 if link == "modelled" and run.nodes > 1 else 0.0)
                assert rank.seconds > 0.95 * expected
                if rank.pace.late_seconds < 0.02 * on_node:
                    assert rank.seconds < 1.2 * expected + 0.1
        words = {check.rule: check.evidence for check in scale(study).checks}
        assert "by pacing" in words["emulated nodes"]
        assert ("modelled" in words["emulated nodes"]) == (link == "modelled")

    @needs_nodes
    def test_delegated_groups_are_enough(self, folder: Path) -> None:
        groups = [Path("/sys/fs/cgroup", name, folder.name) for name in ("cpu", "cpuacct")]
        if not groups[0].parent.is_dir():
            pytest.skip("Control groups of version 1 are not here to be delegated.")
        try:
            for group in groups:
                group.mkdir(exist_ok=True)
                for path in (group, *group.iterdir()):
                    os.chown(path, _NOBODY, _NOBODY)
            # Nobody may not put the nodes before other load, so the one who delegates does.
            (groups[0] / "cpu.shares").write_text("262144")
            done = self._run(AS_A_USER, folder, groups=groups)
        finally:
            remove_leftovers()
            for group in groups:
                group.rmdir()
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert facts["user"] == _NOBODY
        assert (facts["outcome"], facts["rehearsal_limited_by"]) == ("ok", "the clock")
        assert sorted(facts["said"]) == ["node0", "node1"]
        for node in range(2):
            assert facts[f"rehearsal_node{node}.cpu_received_of_asked"] == pytest.approx(
                1, abs=0.25
            )


@needs_nodes
@needs_mpi
@pytest.mark.usefixtures("clean")
class TestStudies:
    @pytest.mark.parametrize("cause", ["slow node", "load imbalance", "serial fraction"])
    def test_the_rank_to_blame_and_its_cause_are_named(self, tmp_path: Path, cause: str) -> None:
        study = planted_study(PLANTED[cause], tmp_path, rounds=5)
        assert [run.detail for run in study.runs if run.outcome != "ok"] == []
        rank = PLANTED[cause].rank
        row = attribute(study).row(4)
        found = (row.possible_causes[0], row.late_rank)
        if found != (cause, rank):
            skip_if_disturbed(study)
        assert found == (cause, rank), row.causes
        if cause == "slow node":
            assert [slowest_rank(run) for run in study.at(4)] == [rank] * 5

    def test_communication_is_named_and_half_the_link_moves_the_bend(self, tmp_path: Path) -> None:
        heat = PLANTED["communication"]
        scalings = []
        for rate in ("40.0", "20.0"):
            (tmp_path / rate).mkdir()
            nodes = heat.nodes.replace("40.0", rate)
            study = planted_study(heat._replace(nodes=nodes), tmp_path / rate, rounds=3)
            row = attribute(study).row(4)
            if row.possible_causes[0] != "communication":
                skip_if_disturbed(study)
            assert row.possible_causes[0] == "communication", row.causes
            scalings.append(scale(study))
        fast, slow = scalings
        assert slow.rows[-1].efficiency < 0.75 * fast.rows[-1].efficiency
        bends = [one.bend.first_below or 1000 for one in (slow, fast)]
        assert bends == sorted(bends)
