"""Parts of the readers of logs: many steps at once, timers, few steps, profiles."""

import gzip
import io
import json
import math
import random
import struct
import sys
import tarfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import log_samples, logs
from click.testing import CliRunner

from nodewise.cli.main import nodewise
from nodewise.importers.files import without_colours
from nodewise.importers.logs import cube, huggingface, scan
from nodewise.importers.logs.record import LogRun
from nodewise.importers.logs.rounded import interval, only, whole
from nodewise.importers.logs.study import study_of_logs, understand
from nodewise.importers.logs.survey import survey
from nodewise.importers.logs.warmup import _median, steady
from nodewise.study.study import Run, Study
from nodewise.study.table import format_table

_ARCHIVE = Path(__file__).parents[2] / "../shared/data/traces/otf2/ping-pong-otf2/traces.otf2"


def _read(path: Path, text: str = "") -> LogRun:
    if text:
        path.write_text(text)
    [run] = survey([(None, path)])
    return run


@pytest.mark.parametrize("name", logs.LINES)
@pytest.mark.parametrize("noise", [0, 3])
def test_many_steps_at_once_are_the_steps_line_by_line(
    name: str, noise: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.log"
    logs.write_log(path, name, 3_000_000, noise)
    with path.open("a") as file:  # a checkpoint, bad steps, a step back
        file.write("saving checkpoint at iteration 9 to /scratch\n")
        for step in (10**7, 10**7 + 1, 10**7 + 1, 10**7 - 5):
            file.write(logs.LINES[name](random.Random(step), step).replace("2.1", "nan"))
    fast = _read(path)
    monkeypatch.setattr(scan, "_takes_all", lambda *_: False)
    slow = _read(path)
    assert fast == slow
    assert fast.entries > 100


def test_the_median_of_very_many_values_needs_no_copy() -> None:
    dice = np.random.default_rng(1)
    for values in (dice.lognormal(0, 0.3, 1_000_001), np.round(dice.normal(1, 0.01, 1_000_000), 2),
                   np.sort(dice.random(1_200_000)), np.ones(1_000_000)):  # fmt: skip
        assert _median(values) == np.median(values)


def test_colours_are_taken_out_whether_few_or_many() -> None:
    many = b"".join(b"\x1b[38;5;%dmx" % code for code in range(40))
    assert without_colours(b"\x1b[31ma\x1b[0;1mb\x1b[0m \x1b c") == b"ab \x1b c"
    assert without_colours(many) == b"x" * 40


def test_a_rounded_figure_gives_a_whole_number_only_where_one_fits() -> None:
    assert interval("22.8K", 3) == (22750.0, 22850.0)
    assert interval("x") is None
    assert whole(15.99) == 16
    assert whole(512.3) is None
    assert only(31.9, 32.1, slack=0) == 32
    assert only(31.4, 32.6, slack=0) is None


def test_timers_of_megatron_are_stages(tmp_path: Path) -> None:
    """Seconds from the milliseconds of benchmarks/log_samples.py, by hand."""
    run = _read(tmp_path / "out.log", log_samples.megatron_timers())
    middle = (250 + 260 + 480 + 500 + 100.1 + 101.2) / 2 - 3
    assert run.stages["compute"] == pytest.approx(middle / 1e3)
    assert run.stages["io"] == pytest.approx(0.003)
    # The sync takes 70 ms in the mean; 10 ms more than the least, and computing differs by as much.
    assert run.stages["communication"] == pytest.approx(0.060)
    assert run.stages["idle"] == pytest.approx(0.010)
    runs = understand([run, _read(tmp_path / "b.log", log_samples.megatron_timers(32, 0.95))])
    study = study_of_logs(runs, "timers")
    assert all(one.stages for one in study.runs)


def test_timers_that_do_not_separate_the_step_give_no_stages(tmp_path: Path) -> None:
    text = log_samples.megatron_timers().replace("forward-compute", "other-timer")
    many = text.replace("pipeline-model-parallel size: 1", "pipeline-model-parallel size: 4")
    assert _read(tmp_path / "pp.log", many).stages == {}
    double = log_samples.megatron_timers(base=0.4)  # less than its timers
    assert _read(tmp_path / "short.log", double).stages == {}
    one = _read(tmp_path / "dp.log", text)  # forward-backward of one pipeline stage
    assert one.stages["compute"] == pytest.approx((810.4 + 821.3 + 201.3) / 2e3 - 0.073)


@pytest.mark.parametrize("noise", [0.003, 0.012, 0.03])
@pytest.mark.parametrize("kind", ["plain", "pauses", "drift", "tails"])
def test_the_warm_up_ends_within_two_steps(noise: float, kind: str) -> None:
    """Series with a planted warm-up and without one; pauses, drifts and slow steps beside it.

    A slow step by chance right behind a warm-up cannot be told from it: 2 of 60 may be off.
    """
    off = 0
    for seed in range(60):
        dice = random.Random(seed)
        count, warm = dice.choice((20, 50, 100, 300)), dice.choice((0, 1, 2, 3, 5))
        times = log_samples.step_times(dice, count, 1.0, warm, noise)
        if kind == "drift":
            times = [time * (1 + 0.05 * at / count) for at, time in enumerate(times)]
        if kind == "pauses":
            times = [time * (3 if at % 10 == 9 else 1) for at, time in enumerate(times)]
        if kind == "tails":
            times = [time * (1.4 if dice.random() < 0.03 else 1) for time in times]
        found = steady(times)
        off += abs((found.warmup or 0) - warm) > 2
        assert found.median is not None
        assert math.isclose(found.median, 1.02, abs_tol=0.04 + noise)
    assert off <= 2


_FOAM = """Exec   : {program} -parallel
nProcs : {ranks}
Time = 1
ExecutionTime = {first} s  ClockTime = {first} s
Time = 2
ExecutionTime = {last} s  ClockTime = {last} s
End
"""


def test_of_several_programs_of_openfoam_the_longest_counts(tmp_path: Path) -> None:
    text = _FOAM.format(program="decomposePar", ranks=1, first=3, last=4)
    text += _FOAM.format(program="simpleFoam", ranks=16, first=150, last=320)
    text += _FOAM.format(program="reconstructPar", ranks=1, first=5, last=9)
    run = _read(tmp_path / "job.out", text)
    assert (run.world_size, run.run_seconds, run.iterations) == (16, 320, 2)
    assert run.size == {"program": "simpleFoam"}


def test_a_run_of_hugging_face_that_ended_early_or_was_resumed(tmp_path: Path) -> None:
    """Its printed rates are those of all planned steps."""
    summary = (
        "{'train_runtime': 400.0, 'train_samples_per_second': 40.0, 'train_steps_per_second': "
        "2.5, 'train_loss': 1.0, 'epoch': 0.4}\n"
    )
    header = "--block_size 128\n  Total optimization steps = 1,000\n"
    bar = " 40%|████      | 400/1000 [06:40<10:00,  1.00s/it]\n"
    early = _read(tmp_path / "early.log", header + bar + summary)
    assert (early.iterations, early.mean_step_seconds) == (400, 1.0)
    assert early.global_batch == 16
    assert early.tokens_per_second == pytest.approx(16 * 128)  # of the steps that ran
    resumed = header + "  Continuing training from global step 800\n" + summary
    late = _read(tmp_path / "late.log", resumed)
    assert (late.iterations, late.mean_step_seconds) == (1000, 2.0)


def test_what_is_compared_is_what_the_table_shows(tmp_path: Path) -> None:
    """Runs of other lengths are compared by their mean step."""
    for name, procs, seconds, steps in (("a.log", 1, 100.0, 1000), ("b.log", 2, 120.0, 2000)):
        text = f"LAMMPS (2 Aug 2023)\nLoop time of {seconds} on {procs} procs for {steps} steps "
        used = f"99.9% CPU use with {procs} MPI tasks x 1 OpenMP threads\n"
        (tmp_path / name).write_text(f"{text}with 32000 atoms\n{used}")
    found = understand(survey([(None, tmp_path)]))
    assert found.compared == "mean step"
    assert [found.seconds_of(run) for run in found.runs] == [0.1, 0.06]


def test_many_beginnings_in_one_log_take_no_quadratic_time(tmp_path: Path) -> None:
    """Four times the text takes four times as long, not sixteen times."""
    line = " iteration 5/ 9 | elapsed time per iteration (ms): 1548.1 | lm loss: 1.0 |\n"
    line += "using world size: 128, data-parallel size: 128\n"
    taken = []
    for count in (40_000, 160_000):
        path = tmp_path / f"{count}.log"
        path.write_text(line * (count // len(line)))
        least = math.inf
        for _ in range(3):
            begin = time.process_time()
            survey([(None, path)])
            least = min(least, time.process_time() - begin)
        taken.append(least)
    assert taken[1] < 9 * taken[0]


def test_step_times_without_numbers_are_doubted_where_another_run_may_begin(
    tmp_path: Path,
) -> None:
    def line(seconds: float) -> str:
        return f"Step Time : {seconds:.2f}s GPU utilization: 426.6MODEL_TFLOP/s/GPU\n"

    one = line(60.0) + "".join(line(2.0 + 0.01 * (at % 3)) for at in range(9))
    run = _read(tmp_path / "one.log", one)
    assert (run.step_seconds, run.warmup, run.iterations) == (pytest.approx(2.01), 1, None)
    assert "split the file" in _read(tmp_path / "two.log", one + one).problem
    short = _read(tmp_path / "short.log", "".join(line(0.2) for _ in range(9)))
    assert "too coarse" in short.problem and short.step_seconds is None


def test_steps_between_the_messages_of_hundreds_of_ranks_are_found(tmp_path: Path) -> None:
    """NCCL_DEBUG=INFO before the first step, and a traceback of each rank after the last one."""
    before = "r7i7n0:55676:55762 [3] NCCL INFO Channel 31/32 :    0\n" * 90_000
    after = "[rank7]: Traceback (most recent call last):\n[rank7]: RuntimeError: NCCL\n" * 10_000
    run = _read(tmp_path / "out.log", before + log_samples.megatron(world=64) + after)
    assert (run.format, run.world_size, run.iterations) == ("megatron", 64, 24)


def test_losses_and_bars_at_once_give_what_line_by_line_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "  Total optimization steps = 9,000\n"
    for at in range(1, 9001):
        loss = "nan" if at % 4000 == 7 else f"{1 + 1 / at:.4f}"
        text += f"{{'loss': {loss}, 'epoch': 0.1}}\n 10%|█  | {at}/9000 [01:00<02:00, 9it/s]\r"
    text += "{'train_runtime': 60.0, 'train_steps_per_second': 150.0, 'epoch': 0.5}\n"
    fast = _read(tmp_path / "out.log", text)
    monkeypatch.setattr(huggingface, "RULES", tuple(
        rule._replace(unordered=False, take_all=None) for rule in huggingface.RULES))  # fmt: skip
    slow = _read(tmp_path / "out.log")
    assert fast == slow
    assert (fast.nan, fast.loss, fast.iterations) == (3, pytest.approx(1.0001), 9000)


def test_an_otf2_archive_gives_the_mpi_time_of_each_rank() -> None:
    otf2 = pytest.importorskip("otf2", reason="otf2 is not installed")
    if not _ARCHIVE.exists():
        pytest.skip("the public archive is not beside the project")
    run = _read(_ARCHIVE)
    with otf2.reader.open(str(_ARCHIVE)) as archive:
        resolution, spans = archive.timer_resolution, {}
        for location, event in archive.events:
            name = getattr(getattr(event, "region", None), "name", "")
            if name.startswith("MPI_"):
                spans.setdefault(location.group.name, []).append((name, event.time))
    assert run.world_size == len(spans) == 2
    for rank, events in zip(run.ranks, dict(sorted(spans.items())).values(), strict=True):
        times = {}
        inside = 0
        for (name, begin), (_, end) in zip(events[::2], events[1::2], strict=True):
            times[name] = (begin, end)
            inside += end - begin if name not in ("MPI_Init", "MPI_Finalize") else 0
        whole_time = times["MPI_Finalize"][0] - times["MPI_Init"][1]
        assert rank.seconds == pytest.approx(whole_time / resolution)
        exchanged = rank.stages["communication"] + rank.stages["idle"]
        assert exchanged == pytest.approx(inside / resolution)


def test_a_cube_profile_gives_the_mpi_time_of_each_rank(tmp_path: Path) -> None:
    """Without the start and the end of MPI; the rank that computes longest never waits."""
    pytest.importorskip("pycubexr", reason="pycubexr is not installed")
    (tmp_path / "profile.cubex").write_bytes(log_samples.cube())
    run = _read(tmp_path / "profile.cubex")
    assert (run.format, run.world_size, run.run_seconds) == ("cube", 2, 51.0)
    first, second = (rank.stages for rank in run.ranks)
    assert first == {"compute": 41.0, "communication": 10.0, "idle": 0.0}
    assert second == {"compute": 31.0, "communication": 10.0, "idle": 10.0}


def _packed_profile(name: str, content: bytes) -> bytes:
    """A profile with one part replaced."""
    parts = {name: content}
    with tarfile.open(fileobj=io.BytesIO(log_samples.cube())) as tar:
        for member in tar.getmembers():
            part = tar.extractfile(member)
            assert part is not None
            parts.setdefault(member.name, part.read())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for title in ("1.index", "1.data", "anchor.xml"):
            info = tarfile.TarInfo(title)
            info.size = len(parts[title])
            tar.addfile(info, io.BytesIO(parts[title]))
    return packed.getvalue()


def _zdata(*blocks: bytes) -> bytes:
    heads = b"".join(struct.pack("<3q", 0, 0, len(block)) for block in blocks)
    return b"ZCUBEX.DATA" + struct.pack("<q", len(blocks)) + heads + b"".join(blocks)


def test_a_profile_that_unpacks_without_end_is_refused_and_a_packed_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pycubexr", reason="pycubexr is not installed")
    monkeypatch.setattr(cube, "_MOST_BYTES", 2**20)
    profile = tmp_path / "profile.cubex"
    seconds = struct.pack("<10d", 1, 1, 2, 3, 40, 30, 10, 20, 1, 1)
    profile.write_bytes(_packed_profile("1.data", _zdata(zlib.compress(seconds))))
    assert _read(profile).run_seconds == 51.0
    large = zlib.compress(bytes(2**19 + 8))
    profile.write_bytes(_packed_profile("1.data", _zdata(large, large)))
    assert "1.data unpacks to more than" in _read(profile).problem
    profile.write_bytes(_packed_profile("anchor.xml", gzip.compress(bytes(2**21))))
    assert "anchor.xml unpacks to more than" in _read(profile).problem


def test_a_profile_without_its_reader_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pycubexr", None)
    (tmp_path / "profile.cubex").write_bytes(log_samples.cube())
    assert "pip install 'nodewise[cube]'" in _read(tmp_path / "profile.cubex").problem


_HISTORY = (
    "JobID|JobName|NNodes|Elapsed|State|ExitCode|ConsumedEnergyRaw|Partition\n"
    "1|heat_n1|1|00:10:00|COMPLETED|0:0|1000|cpu\n2|heat_n2|2|00:06:00|COMPLETED|0:0|1100|cpu\n"
    "3|heat_n2|2|1-00:00:00|TIMEOUT|0:0|9000|gpu\n"
)


def test_job_records_are_no_table(tmp_path):
    """A table would call them measured, and a job that timed out would be a slow one."""
    (tmp_path / "history.txt").write_text(_HISTORY)
    asked = ["import", "sacct", str(tmp_path / "history.txt"), "-o"]
    refused = CliRunner().invoke(nodewise, [*asked, str(tmp_path / "made.csv")])
    assert "are observations" in str(refused.exception)
    made = CliRunner().invoke(nodewise, [*asked, str(tmp_path / "made.study"), "--json"])
    assert made.exit_code == 0
    scales = json.loads(made.stdout)["scales"]
    assert [(one["K"], one["seconds"]) for one in scales] == [(1, 600.0), (2, 360.0)]


def test_a_run_that_failed_has_no_row_in_a_table():
    """Its seconds are not the time of the job."""
    runs = (Run(nodes=1, round=0, seconds=9.0), Run(nodes=2, round=0, seconds=5.0),
            Run(nodes=2, round=1, seconds=900.0, outcome="timeout"))  # fmt: skip
    text = format_table(Study(name="x", regime="strong", runs=runs))
    assert "900" not in text and len(text.splitlines()) == 3


def test_a_long_history_takes_time_in_proportion(tmp_path):
    """Four times the jobs take about four times as long, not sixteen times."""

    def seconds(jobs: int) -> float:
        rows = "".join(f"{at}|heat_n{k}|{k}|00:{10 // k:02d}:{at % 60:02d}|COMPLETED|0:0|1|cpu\n"
                       for at in range(jobs) for k in (1 + at % 2,))  # fmt: skip
        (tmp_path / "history.txt").write_text(_HISTORY.partition("\n")[0] + "\n" + rows)
        begin = time.process_time()
        found = understand(survey([(None, tmp_path / "history.txt")]))
        assert len([found.seconds_of(run) for run in found.used]) == jobs
        study_of_logs(found, "x")
        return time.process_time() - begin

    many, few = (min(seconds(jobs) for _ in range(3)) for jobs in (4000, 1000))
    assert many < 10 * few


@pytest.mark.parametrize(
    ("listed", "nodes"),
    [("uc2n853", 1), ("nid[001-004,010]", 5), ("a[1-2],b[3,5-6],c", 6), ("nid00[1-+", None),
     ("None assigned", None), ("x[4-2]", None)],
)  # fmt: skip
def test_nodes_are_counted_in_a_list_of_slurm(tmp_path, listed, nodes):
    """A list that is cut off gives no number."""
    head, row = "JobID|JobName|Elapsed|State|NodeList", f"1|heat|00:10:00|COMPLETED|{listed}"
    (tmp_path / "history.txt").write_text(f"{head}\n{row}\n")
    [run] = survey([(None, tmp_path / "history.txt")])
    assert run.nodes == nodes


def test_bars_within_a_text_of_sacct_shift_no_column(tmp_path):
    """A command line may have bars; where two texts have some, the job is left out."""
    (tmp_path / "history.txt").write_text(
        "JobID|JobName|NNodes|SubmitLine|State|Elapsed\n"
        "1|a|b_n1|1|sbatch x|COMPLETED|00:10:00\n"
        "2|a_n2|2|sbatch --wrap 'a | b | c'|COMPLETED|00:06:00\n"
        "3|a|b_n4|4|sbatch --wrap 'a | b'|COMPLETED|00:04:00\n"
        "4|a_n8|8|sbatch|COMPLETED|00:02:00|\n"
    )
    runs = survey([(None, tmp_path / "history.txt")])
    assert [(run.nodes, run.run_seconds) for run in runs if not run.problem] == [
        (1, 600.0), (2, 360.0), (8, 120.0),
    ]  # fmt: skip
    [left_out] = [run for run in runs if run.problem]
    assert "shifts the columns" in left_out.problem


def test_the_parts_of_a_heterogeneous_job_are_no_runs(tmp_path):
    """They run at the same time, on other nodes."""
    (tmp_path / "history.txt").write_text(
        "JobID|JobName|NNodes|State|Elapsed\n7+0|a|1|COMPLETED|00:10:00\n"
        "7+0.0|a|1|COMPLETED|00:09:00\n7+1|a|4|COMPLETED|00:10:00\n8|a|2|COMPLETED|00:10:00\n"
    )
    runs = survey([(None, tmp_path / "history.txt")])
    assert [run.nodes for run in runs if not run.problem] == [2]
    assert sum("heterogeneous" in run.problem for run in runs) == 2


def test_of_the_figures_of_ramble_the_time_of_the_run_counts(tmp_path):
    """Not the first time: that may be of the set-up. Of two parts none is the run."""

    def experiment(nodes: int, *figures: tuple[str, float]) -> dict[str, Any]:
        foms = [{"name": name, "value": value, "units": "s"} for name, value in figures]
        return {"name": f"heat.{nodes}", "RAMBLE_STATUS": "SUCCESS", "n_nodes": nodes,
                "CONTEXTS": [{"name": "null", "foms": foms}]}  # fmt: skip

    document = {"experiments": [
        experiment(1, ("Setup Time", 3.0), ("Total_Time", 80.0)),
        experiment(2, ("Setup Time", 3.0), ("Solve Time", 40.0)),
        experiment(4, ("Solve Time", 20.0)),
    ]}  # fmt: skip
    (tmp_path / "results.latest.json").write_text(json.dumps(document))
    whole, parts, only = survey([(None, tmp_path / "results.latest.json")])
    assert whole.run_seconds == 80
    assert parts.problem == "several times, and none of the whole run: Setup Time, Solve Time"
    assert only.run_seconds == 20


def test_a_table_of_jube_is_read_as_a_table(tmp_path, monkeypatch):
    """The run time counts and not the set-up, also as a clock; a row without a time is left out."""
    monkeypatch.chdir(tmp_path)
    Path("result.dat").write_text(
        "result:\nsystem | nodes | setup_time[s] | runtime | jobstate\n"
        "-------+-------+---------------+---------+----------\n"
        "juwels | 1 | 9 | 00:02:00 | COMPLETED\njuwels | 2 | 9 | 00:01:10 | COMPLETED\n"
        "juwels | 4 | | | FAILED\n"
    )
    made = CliRunner().invoke(nodewise, ["import", "result.dat", "-o", "made.study", "--json"])
    assert made.exit_code == 0
    scales = json.loads(made.stdout)["scales"]
    assert [(one["K"], one["seconds"]) for one in scales] == [(1, 120.0), (2, 70.0)]


@pytest.mark.parametrize(("clocks", "steps"), [(1, 40), (2, None)])
def test_the_clocks_of_openfoam_count_steps_if_every_step_has_one(tmp_path, clocks, steps):
    """Some solvers print them twice in a step."""
    text = "Exec   : interFoam\nnProcs : 2\n" + "".join(
        f"Time = {at}s\n\n" + clocks * f"ExecutionTime = {at * 5.0} s  ClockTime = {at * 5} s\n\n"
        for at in range(1, 41)
    )
    run = _read(tmp_path / "log.interFoam", text + "End\n")
    assert (run.iterations, run.run_seconds, run.problem) == (steps, 200.0, "")


def test_k_of_one_file_counts_beside_the_k_of_the_logs():
    def run(name: str, ranks: int, scale: int | None = None) -> LogRun:
        return LogRun(
            path=name, format="lammps", world_size=ranks, scale=scale, run_seconds=8 / ranks
        )

    found = understand([run("a", 1), run("b", 2), run("c", 4, scale=4)])
    assert [found.scale_of(one) for one in found.runs] == [1, 2, 4]
    # 2 are nodes here: what the others' ranks are in nodes is not known
    found = understand([run("a", 8), run("c", 16, scale=2)])
    assert [bool(one.problem) for one in found.runs] == [True, False]
    assert "K is given for other files" in found.runs[0].problem
