"""Unmodified C programs of MPICH under the engines `mpi` and `command`, as a user runs them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.base.errors import RunError
from nodewise.measure.mpi import build, leftovers, libraries, preload
from nodewise.measure.mpi.libraries import Mpi
from nodewise.measure.mpi.reports import missing_region, read_mpi_reports
from nodewise.study.telling_lines import telling_line

SOURCES = Path(__file__).parents[1] / "data" / "mpi"
BIN = Path(sys.executable).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The test programs, built with the MPI of the wheel."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("ends", "calls", "after", "persistent", "further"):
        words = [BIN / "mpicc", SOURCES / f"{name}.c", "-o", folder / name]
        subprocess.run(words, check=True, timeout=60)
    return folder


def nodewise(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "nodewise", *map(str, words)],
        capture_output=True, text=True, timeout=120, cwd=cwd,
    )  # fmt: skip


def runs_of(folder):
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def run_at_two(programs, tmp_path, *command, engine="mpi", timeout="60"):
    given = () if engine == "command" else ("--engine", engine)
    words = ("run", "-n", "1,2", "--rounds", "1", *given, "--timeout", timeout, "--name", "s")
    done = nodewise(*words, "--", *command, cwd=tmp_path)
    return done, {run["K"]: run for run in runs_of(tmp_path / "s.study")}


def left_behind(program):
    ran = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in ran.splitlines() if str(program) in line]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("abort", "crashed: exit code 7: rank 1 called MPI_Abort with code 7"),
        ("exit", "rank 1 ended without MPI_Finalize: solver error: no convergence"),
        ("leave", "rank 1 ended without MPI_Finalize"),
        ("segv", "rank 1 never reached MPI_Finalize"),
    ],
)
def test_how_a_rank_failed_is_said_and_nothing_is_left(programs, tmp_path, how, said):
    done, _ = run_at_two(programs, tmp_path, programs / "ends", how)
    assert done.returncode in (3, 4), done.stderr
    assert said in done.stderr
    assert not left_behind(programs / "ends")


def test_a_rank_that_never_ends_is_named(programs, tmp_path):
    done, runs = run_at_two(programs, tmp_path, programs / "ends", "hang", timeout="12")
    assert "timeout: stopped after 12 s: rank 1 never reached MPI_Finalize" in done.stderr
    assert "timeout: stopped after 12 s: no rank reached MPI_Finalize" in done.stderr  # K=1
    assert runs[2]["outcome"] == "timeout"
    assert not left_behind(programs / "ends")


def test_every_class_of_call_is_seen_and_the_result_stays(programs, tmp_path):
    plain = subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "calls", tmp_path / "data"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    (tmp_path / "data").unlink()
    spec = f'''name = "s"
scales = [1, 2]
rounds = 1
[workload]
command = ["{programs / "calls"}", "data"]
region = "pcontrol"
[engine]
name = "mpi"
'''
    (tmp_path / "s.toml").write_text(spec.replace("[1, 2]", "[2, 4]"))
    for attempt in range(3):  # other load may hold a rank up for longer than the planted 0.4 s
        folder = f"{attempt}.study"
        done = nodewise("measure", "s.toml", "-o", folder, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        run = next(run for run in runs_of(tmp_path / folder) if run["K"] == 2)
        first, second = (rank["stages"] for rank in run["ranks"])
        if second["idle"] < first["idle"]:
            break
    again = subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "calls", tmp_path / "data"],
        capture_output=True, text=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs)},
    )  # fmt: skip
    assert plain.stdout == again.stdout and "sum" in plain.stdout
    classes = [rank["mpi"]["classes"] for rank in run["ranks"]]
    assert all({"point_to_point", "collective", "wait", "one_sided", "io"} == {*c} for c in classes)
    assert classes[0]["collective"]["calls"] == 6
    assert classes[0]["io"]["bytes"] == 1024
    assert {one["size"] for one in run["ranks"][0]["mpi"]["communicators"]} == {2}
    # Rank 1 is late by 30 ms thirteen times; rank 0 waits for most of it, and rank 1 never does.
    assert second["compute"] > 0.35
    assert first["idle"] > 0.15
    assert second["idle"] < first["idle"]
    assert sum(first.values()) == pytest.approx(run["seconds"], rel=0.01)
    assert run["facts"]["mpi_size"] == 2


def test_what_comes_after_the_region_does_not_count(programs, tmp_path):
    region = {"NODEWISE_MPI_REGION": "pcontrol"}
    subprocess.run(
        [BIN / "mpiexec", "-n", "1", programs / "after"], check=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs), **region},
    )  # fmt: skip
    (file,) = tmp_path.glob("mpi-0-*.json")
    report = json.loads(file.read_text())
    assert report["mpi"]["classes"]["collective"]["calls"] == 3
    assert [one["calls"] for one in report["mpi"]["communicators"]] == [3]
    assert 0.04 < report["usage"]["cpu_seconds"] < 0.5  # one second more is used after it
    assert 0.04 < max(report["mpi"]["thread_cpu_s"]) < 0.5


def test_counters_leave_out_what_is_inside_mpi_and_after_the_region(programs, tmp_path):
    """Clocks of the kernel stand in for instructions: many machines have no counters."""
    wanted = {"NODEWISE_MPI_REGION": "pcontrol", "NODEWISE_MPI_COUNTERS": "software"}
    subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "after"], check=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs), **wanted},
    )  # fmt: skip
    for report in read_mpi_reports(tmp_path):
        if report.no_counters.startswith("not permitted"):
            pytest.skip("perf_event_open is not permitted here")
        assert report.no_counters == "" and {*report.counters} == {"instructions", "cycles"}
        assert 0.04 < report.counters["instructions"] / 1e9 < report.stages["compute"] + 0.001


@pytest.mark.parametrize(
    ("asked", "why"),
    [("none", ("not asked for",)), ("hardware", ("", "the machine has none", "not permitted"))],
)
def test_counters_that_are_not_read_are_absent_and_never_zero(programs, tmp_path, asked, why):
    subprocess.run(
        [BIN / "mpiexec", "-n", "1", programs / "after"], check=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs), "NODEWISE_MPI_COUNTERS": asked},
    )  # fmt: skip
    (report,) = read_mpi_reports(tmp_path)
    assert report.no_counters.startswith(why)
    assert bool(report.counters) == (report.no_counters == "")
    assert all(count > 0 for count in report.counters.values())


@pytest.mark.parametrize(
    ("region", "collectives", "missing"),
    [
        ("MPI_Allreduce", 52, ""),  # without the first of 53, whose end begins it
        ("MPI_Allreduce 1-3", 2, ""),
        ("MPI_Allreduce 53-54", 0, "MPI_Allreduce 53-54"),
        ("MPI_Barrier", 0, "MPI_Barrier"),
    ],
)
def test_a_region_between_calls_of_a_collective(programs, tmp_path, region, collectives, missing):
    subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "after"], check=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs), "NODEWISE_MPI_REGION": region},
    )  # fmt: skip
    reports = read_mpi_reports(tmp_path)
    assert missing_region(reports) == (
        f"the region '{missing}' was not found: rank 0 made "
        f"{'53 such calls' if 'Allreduce' in missing else 'no such calls'}"
        if missing
        else ""
    )
    for report in reports:
        calls = report.mpi.classes["collective"].calls
        assert missing or calls == collectives == report.mpi.collectives_seen


def test_a_region_that_is_missing_is_no_match(programs, tmp_path):
    (tmp_path / "s.toml").write_text(f'''name = "s"
scales = [1, 2]
rounds = 1
[workload]
command = ["{programs / "ends"}", "well"]
region = "MPI_Barrier"
[engine]
name = "mpi"
''')
    done = nodewise("measure", "s.toml", cwd=tmp_path)
    assert done.returncode == 4
    said = "K=1, 2: no match: the region 'MPI_Barrier' was not found: rank 0 made no such calls."
    assert f"{said}\n  fix:" in done.stderr


@pytest.mark.parametrize("how", ["plain", "session"])
def test_what_mpi_4_added_is_counted_and_its_waits_are_known(programs, tmp_path, how):
    def run(**variables):
        words = [BIN / "mpiexec", "-n", "2", programs / "persistent", how]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}
        )

    plain, again = run(), run(**looked_into(tmp_path, programs))
    assert (plain.returncode, again.returncode) == (0, 0)
    assert plain.stdout == again.stdout == "sum 42.000\n"
    first, second = read_mpi_reports(tmp_path)
    assert first.mpi.world_size == 2 and first.mpi.finalized and second.mpi.finalized
    # 4 starts of a sum and of a barrier, and the sum of all; 4 starts of a message in two parts.
    assert first.mpi.collectives_seen == second.mpi.collectives_seen == 9
    assert first.mpi.messages_seen == second.mpi.messages_seen == 4
    assert first.mpi.classes["collective"].bytes == 4 * 512 + 8
    assert first.mpi.classes["point_to_point"].bytes == 4 * 512
    # Rank 1 is late by 30 ms twelve times, and rank 0 waits for it.
    assert second.stages["compute"] > 0.35
    assert first.stages["idle"] > 0.8 * 12 * 0.03
    assert second.stages["idle"] < 0.5 * first.stages["idle"]


def test_further_calls_are_counted_and_their_results_stay(programs, tmp_path):
    done = subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "further", tmp_path / "data"],
        capture_output=True, text=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "all as expected\n")
    first, second = read_mpi_reports(tmp_path)
    # two of them, a scan, three that make communicators, one of neighbours, a sum, a broadcast, a
    # reduction and three that free
    assert first.mpi.classes["collective"].calls == 13
    assert first.mpi.classes["io"].calls == 5 and first.mpi.classes["io"].bytes == 8
    # Rank 1 is late by 30 ms three times, and rank 0 waits twice: it is the root that scatters.
    assert second.stages["compute"] > 0.08
    assert first.stages["idle"] > 0.05 > second.stages["idle"] - 0.05


def looked_into(folder, programs):
    mpi = next(one for one in libraries.installed() if one.vendor == "MPICH")
    library = libraries.library_of([str(programs / "calls")], folder)
    found = preload.interposed([str(programs / "calls")], folder, {}, mpi, library)
    assert "LD_PRELOAD" in found
    return {**found, "NODEWISE_RUN": str(folder)}


def test_a_command_that_starts_its_ranks_is_looked_into(programs, tmp_path):
    command = (BIN / "mpiexec", "-n", "{n}", programs / "ends", "well")
    done, runs = run_at_two(programs, tmp_path, *command, engine="command")
    assert done.returncode in (0, 1), done.stderr
    assert [len(runs[nodes]["ranks"]) for nodes in (1, 2)] == [1, 2]
    assert runs[2]["ranks"][0]["mpi"]["classes"]["collective"]["calls"] == 50
    for run in runs.values():
        for rank in run["ranks"]:
            assert sum(rank["stages"].values()) == pytest.approx(run["seconds"], rel=0.05)


def test_a_launcher_inside_the_job_of_an_engine_makes_k_times_k(programs, tmp_path):
    words = ("run", "-n", "1,2", "--engine", "mpi", "--name", "s", "--")
    done = nodewise(*words, BIN / "mpiexec", "-n", "2", programs / "ends", cwd=tmp_path)
    assert done.returncode == 2
    assert "mpiexec starts the ranks" in done.stderr and "fix:" in done.stderr
    done = nodewise("run", "-n", "1,2", "--name", "s", "--", programs / "ends", cwd=tmp_path)
    assert done.returncode == 3
    assert "ends is an MPI program (libmpi.so.12)" in done.stderr and "--engine mpi" in done.stderr
    assert not (tmp_path / "s.study").exists()


def test_a_launcher_inside_a_script_is_named_and_its_ranks_do_not_hang(programs, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{BIN}/mpiexec -n 2 {programs / 'ends'} ${{1:-well}}\n")
    script.chmod(0o755)
    done, runs = run_at_two(programs, tmp_path, script)
    assert {run["outcome"] for run in runs.values()} == {"wrong workers"}
    assert "K=1       wrong workers: the world had 2 ranks, not 1" in done.stderr
    assert "4 processes ran in separate worlds of 2 ranks, not in one" in done.stderr


def test_ranks_outside_the_group_of_their_launcher_leave_no_shared_memory(programs, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nsetsid {BIN}/mpiexec -n 2 {programs / 'ends'} hang\n")
    script.chmod(0o755)
    if leftovers.segments():
        pytest.skip("other MPI programs run here, whose shared memory comes and goes")
    run_at_two(programs, tmp_path, script, "{n}", engine="command", timeout="5")
    assert not left_behind(programs / "ends")
    assert not leftovers.segments()


def test_separate_worlds_are_no_scaling(programs, tmp_path):
    # As by a launcher that the library does not know: each process is alone.
    alone = ["env", "-u", "PMI_FD", "-u", "PMI_RANK", "-u", "PMI_SIZE", programs / "ends"]
    done, runs = run_at_two(programs, tmp_path, *alone)
    assert runs[2]["outcome"] == "wrong workers"
    assert "2 processes ran in separate worlds of 1 rank, not in one" in done.stderr


def test_a_program_without_mpi_is_not_measured_as_one(tmp_path):
    done, runs = run_at_two(None, tmp_path, "sleep", "0.2")
    assert "no rank called MPI_Init" in done.stderr
    assert runs[2]["outcome"] == "wrong workers"


def test_one_rank_may_run_without_mpi(programs, tmp_path):
    done, runs = run_at_two(programs, tmp_path, programs / "ends", "parallel", "{nodes}")
    assert done.returncode == 0, done.stderr
    assert [len(run["ranks"]) for run in runs.values()] == [1, 2]
    (alone,) = runs[1]["ranks"]
    assert alone["stages"] == {"compute": runs[1]["seconds"]}


def test_copies_of_a_program_without_mpi_are_not_sold_as_scaling(tmp_path):
    command = (BIN / "mpiexec", "-n", "{n}", "sleep", "0.2")
    done, runs = run_at_two(None, tmp_path, *command, engine="command")
    assert {run.get("outcome", "ok") for run in runs.values()} == {"ok"}
    assert "no answer: no rank called MPI_Init at K=1, 2: these may be copies of one" in done.stdout
    assert done.returncode == 1


def test_temporary_files_of_open_mpi_go_with_the_run_but_not_on_other_hosts(tmp_path):
    here = preload.of_open_mpi(("mpirun", "-n", "2", "./app"), tmp_path)
    assert here["OMPI_MCA_orte_tmpdir_base"] == str(tmp_path)
    for option in ("--host", "-H", "-machinefile"):
        there = preload.of_open_mpi(("mpirun", option, "a,b", "./app"), tmp_path)
        assert "OMPI_MCA_orte_tmpdir_base" not in there


def test_the_interposer_does_nothing_without_mpi(programs, tmp_path):
    environment = {**os.environ, **looked_into(tmp_path, programs)}
    for eager in ({}, {"LD_BIND_NOW": "1"}):
        done = subprocess.run(
            ["sh", "-c", "echo fine"], capture_output=True, text=True, env=environment | eager
        )
        assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)
    assert not list(tmp_path.glob("mpi-*"))


def test_emulated_nodes_compute_as_slowly_as_they_should(programs, tmp_path):
    pace = {"NODEWISE_PACE_SHARE": "0.25", **preload.patience()}
    subprocess.run(
        [BIN / "mpiexec", "-n", "2", programs / "ends"], check=True, timeout=60,
        env={**os.environ, **looked_into(tmp_path, programs), **pace},
    )  # fmt: skip
    for report in read_mpi_reports(tmp_path):
        assert report.paced_s + report.late_s > 0
        computed = report.stages["compute"] - report.late_s
        assert computed == pytest.approx(report.cpu_s / 0.25, rel=0.15)


def test_a_machine_without_a_compiler_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = Mpi(vendor="Open MPI", version="4.1", launcher="/usr/bin/mpirun", compiler=None)
    with pytest.raises(RunError) as error:
        build.interposer_for(here)
    assert "apt-get install gcc libopenmpi-dev" in error.value.fix
    broken = Mpi(vendor="MPICH", version="5", launcher="/x/mpiexec", compiler="/bin/false")
    with pytest.raises(RunError, match="Cannot time MPI calls in programs of MPICH 5"):
        build.interposer_for(broken)
    assert not list(tmp_path.rglob("*.so"))


def test_the_launcher_of_another_mpi_is_refused(programs, tmp_path):
    fake = tmp_path / "mpirun"
    fake.write_text('#!/bin/sh\necho "mpirun (Open MPI) 9.9.9"\n')
    fake.chmod(0o755)
    with pytest.raises(RunError) as error:
        preload.launch_of([str(programs / "ends")], tmp_path, str(fake))
    assert "is linked with MPICH" in error.value.what
    assert f"{fake} is of Open MPI 9.9.9" in error.value.what
    assert str(BIN / "mpiexec") in error.value.fix
    for program in ([programs / "ends"], ["sh", "-c", f"if true; then {programs / 'ends'}; fi"]):
        with pytest.raises(RunError) as error:
            preload.check_own_launcher([str(fake), "-n", "2", *map(str, program)], tmp_path)
        assert error.value.what.startswith("ends is linked with MPICH")
        assert error.value.fix == f"Begin the command with {BIN / 'mpiexec'}."


def test_a_python_without_mpi_is_refused_as_its_copies_would_look_like_ranks(tmp_path):
    bare = tmp_path / "python3"  # one without mpi4py
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    (tmp_path / "job.py").write_text("print(1)\n")
    words = ("run", "-n", "1,2", "--engine", "mpi", "--name", "s", "--", bare, "job.py")
    done = nodewise(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert f"{bare} has no mpi4py" in done.stderr and "fix: Install mpi4py there" in done.stderr
    assert not (tmp_path / "s.study").exists()


@pytest.mark.parametrize(
    ("name", "vendor"),
    [("libmpi.so.40", "Open MPI"), ("libmpi.so.12", "MPICH"), ("libmpich.so.12", "MPICH"),
     ("libmpi.so.80", "Open MPI")],
)  # fmt: skip
def test_whose_a_library_is(name, vendor):
    assert libraries.vendor_of(Path("/usr/lib") / name) == vendor


def test_what_a_launcher_says_at_length_has_its_fix():
    log = """--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 4
slots that were requested by the application:
    number of available slots when deciding the number of processes to
launch.
""".splitlines()
    assert telling_line(log).startswith("Open MPI has fewer slots than ranks")
