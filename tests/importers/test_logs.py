"""Logs: what each format gives, what is left out, and which logs make one study."""

import gzip
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import log_samples
from benchmarks.judges import logs as judged

from nodewise.base import time_limit
from nodewise.base.errors import DataError, SpecError
from nodewise.importers.files import read_text
from nodewise.importers.logs.lines import MAX_LINE, lines
from nodewise.importers.logs.pattern import Pattern
from nodewise.importers.logs.record import LogRun, clock_seconds
from nodewise.importers.logs.study import study_of_logs, understand
from nodewise.importers.logs.survey import Reading, expand, survey
from nodewise.importers.logs.warmup import steady
from nodewise.study import store

SHARED = Path(__file__).parents[3] / "shared/data/trainlogs"
# What each sample says: format, then figures.
KNOWN = {
    "megatron": dict(world_size=16, tp=4, pp=1, dp=4, global_batch=128, seq_length=4096,
                     iterations=24, warmup=2, skipped=1),
    "nemo": dict(global_batch=64, iterations=20, warmup=1, world_size=None, seq_length=None),
    "torchtitan": dict(world_size=8, global_batch=16, seq_length=4096, iterations=16, warmup=1,
                       entries=16),
    "torchtitan-jsonl": dict(world_size=1, nodes=1, iterations=12, warmup=1,
                             tokens_per_step=8192.0, step_seconds=0.115),
    "maxtext": dict(world_size=8, iterations=20, warmup=2, step_seconds=2.0,
                    tokens_per_step=65536.0),
    "hf-console": dict(world_size=4, global_batch=64, iterations=100, mean_step_seconds=0.5001,
                       step_seconds=None),
    "hf-state": dict(world_size=None, global_batch=320, iterations=100, mean_step_seconds=0.5),
    "deepspeed": dict(world_size=16, global_batch=256, step_seconds=2.0, skipped=2,
                      iterations=80),
    "lightning": dict(world_size=4, global_batch=128, iterations=55, warmup=1),
    "lammps": dict(world_size=2, iterations=100, run_seconds=2.5, work=3.2e6),
    "gromacs": dict(world_size=8, nodes=2, iterations=5000, run_seconds=10.0),
    "openfoam": dict(world_size=4, iterations=100, run_seconds=200.0),
    "hpcg": dict(world_size=8, step_seconds=0.12, work=208.0**3),
    "quantum-espresso": dict(world_size=6, nodes=1, run_seconds=83.5, iterations=11),
    "mpip": dict(world_size=2, nodes=2, run_seconds=10.0),
    "seff": dict(nodes=16, run_seconds=349.0),
    "tensorboard": dict(world_size=None, iterations=20, warmup=1, step_seconds=0.5),
    "wandb": dict(world_size=None, iterations=20, step_seconds=0.5),
}  # fmt: skip


def put(folder: Path, content: str | bytes, name: str = "out.log") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, scale: int | None = None) -> LogRun:
    [run] = survey([(scale, path)])
    return run


@pytest.mark.parametrize("name", KNOWN)
def test_a_log_gives_what_it_says_and_nothing_else(tmp_path, name):
    run = read(put(tmp_path, log_samples.samples()[name][0]))
    assert run.format == name and not run.problem
    found = {field: getattr(run, field) for field in KNOWN[name]}
    assert found == pytest.approx(KNOWN[name])


def prefixed(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


DISGUISES = {
    "as it is": lambda text: text,
    "torchrun": lambda text: prefixed(text, "[rank0]: "),
    "srun --label": lambda text: prefixed(text, "0: "),
    "srun --label of four": lambda text: "".join(
        f"{rank}: {line}\n" for line in text.splitlines() for rank in range(4)
    ),
    "mpirun --tag-output": lambda text: prefixed(text, "[1,0]<stdout>:"),
    "time stamps": lambda text: prefixed(text, "2026-11-18T01:02:03.456Z "),
    "colours": lambda text: text.replace("iteration", "\x1b[1;32miteration\x1b[0m"),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "a progress bar": lambda text: "\r 10%|#         | 1/10 [00:01<00:09]\r".join(
        text.splitlines(keepends=True)
    ),
    "other lines": lambda text: text.replace("\n", "\n[W] a warning about nothing\n"),
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ["megatron", "nemo", "maxtext"])
def test_a_log_says_the_same_however_a_launcher_prints_it(tmp_path, name, disguise):
    plain = log_samples.samples()[name][0].decode()
    run = read(put(tmp_path, DISGUISES[disguise](plain)))
    known = {field: getattr(run, field) for field in KNOWN[name]}
    assert known == pytest.approx(KNOWN[name])


def test_a_packed_log_says_the_same(tmp_path):
    packed = gzip.compress(log_samples.megatron().encode())
    assert read(put(tmp_path, packed, "out.log.gz")).step_seconds == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("after", [b"", b"\0" * 512])
def test_every_member_of_a_packed_log_is_read(tmp_path, after):
    packed = b"".join(gzip.compress(f"line {at}\n".encode() * at) for at in (1, 2, 400_000))
    found = list(lines(put(tmp_path, packed + after, "out.log.gz")))
    assert (len(found), found[0], found[2], found[-1]) == (
        400_003, b"line 1", b"line 2", b"line 400000"
    )  # fmt: skip


def test_every_member_of_a_packed_text_is_read(tmp_path):
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert read_text(put(tmp_path, packed)) == "one two"
    with pytest.raises(DataError, match="cut off"):
        read_text(put(tmp_path, packed[:-4]))


def test_fields_of_megatron_may_come_in_another_order_and_in_seconds(tmp_path):
    line = (
        " iteration {:8d}/infinity | global batch size:    64 | lm loss: 2.0E+00 | elapsed time "
        "per iteration (s): {:.2f} | consumed tokens: 1 |\n"
    )
    run = read(put(tmp_path, "".join(line.format(at, 2.5) for at in range(1, 9))))
    assert (run.step_seconds, run.global_batch, run.world_size) == (2.5, 64, None)


def test_a_batch_that_grows_during_a_run_is_not_one_batch(tmp_path):
    ramp = log_samples.megatron(count=12) + log_samples.megatron(count=12, batch=256)
    assert read(put(tmp_path, ramp)).global_batch is None


def test_a_restart_has_its_own_warm_up(tmp_path):
    once = log_samples.megatron(warm=2, count=40)
    run = read(put(tmp_path, once + once.replace("iteration ", "iteration ")))
    assert run.entries == 80 and run.warmup == 2
    assert run.step_seconds == pytest.approx(1.0, rel=0.01)
    assert run.iterations == 40


def test_runs_with_other_settings_in_one_file_are_not_one_run(tmp_path):
    text = log_samples.megatron(world=16) + log_samples.megatron(world=32, base=0.5)
    run = read(put(tmp_path, text))
    assert "split it" in run.problem and run.step_seconds is None and run.global_batch == 128
    twice = log_samples.HF_CONSOLE + log_samples.HF_CONSOLE.replace("'50.01'", "'90.01'")
    assert "split the file" in read(put(tmp_path, twice)).problem


def test_an_older_torchtitan_gives_the_batch_of_a_device(tmp_path):
    text = "Building 2-D device mesh with ['dp', 'tp'], [4, 2]\n"
    text += "Training starts at step 1, with local batch size 2, sequence length 2048\n"
    text += "".join(f"step: {at}  loss: 2.1  wps: 1,024  mfu: 4%\n" for at in range(1, 9))
    run = read(put(tmp_path, text))
    assert (run.world_size, run.global_batch, run.step_seconds) == (8, 8, 2.0)


def test_pauses_are_told_apart(tmp_path):
    run = read(put(tmp_path, log_samples.megatron()))
    assert [(pause.kind, pause.step) for pause in run.pauses] == [
        ("checkpoint", 16), ("evaluation", 20),
    ]  # fmt: skip
    assert run.pauses[0].seconds == pytest.approx(3.0, rel=0.1)


def test_the_rate_of_one_device_alone_is_no_time(tmp_path):
    text = "".join(f"step: {at}  loss: 2.1  tps: 5,000  mfu: 40%\n" for at in range(1, 9))
    run = read(put(tmp_path, text), 8)
    assert "one device" in run.problem and run.step_seconds is None


def test_the_ranks_of_torchtitan_show_who_waits(tmp_path):
    for rank in range(3):
        put(tmp_path, log_samples.torchtitan_jsonl(rank, 3), f"logs/rank{rank}.jsonl")
    run = read(tmp_path)
    assert run.world_size == 3 and run.step_seconds == pytest.approx(0.165)
    waits = [rank.stages["idle"] for rank in run.ranks]
    assert waits == pytest.approx([0.05, 0.05, 0.0])
    (tmp_path / "logs/rank1.jsonl").unlink()
    assert read(tmp_path).problem == "no file of rank 1"


def test_a_damaged_line_is_no_step(tmp_path):
    text = log_samples.torchtitan_jsonl().encode().replace(b'"node0"', b'"\x94"', 1)
    run = read(put(tmp_path, text))
    assert not run.problem and run.iterations == 12
    far = log_samples.LIGHTNING.replace("160.0,160,640.0", "1e-300,160,1e17")
    assert not read(put(tmp_path, far)).problem


def test_waiting_inside_comm_is_not_communication(tmp_path):
    stages = read(put(tmp_path, log_samples.LAMMPS)).stages
    assert stages["idle"] == pytest.approx(0.4)
    assert stages["communication"] == pytest.approx(0.2)
    waits = read(put(tmp_path, log_samples.GROMACS)).stages
    assert waits["idle"] == pytest.approx(0.5) and waits["communication"] == pytest.approx(1.5)


def test_mlflow_is_read_from_its_folder(tmp_path):
    put(tmp_path, log_samples.MLFLOW, "1/meta.yaml")
    rows = "".join(f"{1_000_000 + 250 * step} 2.0 {step}\n" for step in range(12))
    put(tmp_path, rows, "1/metrics/loss")
    put(tmp_path, "16", "1/params/world_size")
    run = read(tmp_path)  # the other files of the folder are parts of this run
    assert (run.world_size, run.step_seconds, run.iterations) == (16, 0.25, 12)


def mlflow_run(folder: Path, loss: str = "2.0", **params: int) -> None:
    put(folder, log_samples.MLFLOW, "meta.yaml")
    rows = "".join(f"{1_000_000 + 250 * step} {loss} {step}\n" for step in range(12))
    put(folder, rows, "metrics/loss")
    for name, value in params.items():
        put(folder, str(value), f"params/{name}")


def test_samples_of_the_machine_are_no_steps(tmp_path):
    mlflow_run(tmp_path, world_size=4)
    before = read(tmp_path / "meta.yaml")
    (tmp_path / "metrics/system").mkdir()
    (tmp_path / "metrics/system/cpu").write_text(
        "".join(f"{10_000 * at} 50.0 {at}\n" for at in range(500))
    )
    assert read(tmp_path / "meta.yaml") == before


def test_scalars_over_samples_are_no_steps(tmp_path):
    """Megatron-LM has them beside those over steps, with its ranks and batch; DeepSpeed alone."""
    tags = [("lm loss vs samples", 64, 2.0), ("lm loss", 1, 2.0), ("world-size", 1, 16.0),
            ("batch-size", 1, 64.0), ("batch-size vs samples", 64, 64.0)]  # fmt: skip
    (tmp_path / "events.out.tfevents.1").write_bytes(log_samples.tensorboard(tags=tags))
    run = read(tmp_path / "events.out.tfevents.1")
    assert (run.world_size, run.global_batch, run.iterations) == (16, 64, 20)
    assert run.step_seconds == pytest.approx(0.5)
    alone = [("Train/Samples/train_loss", 64, 2.0), ("Train/Samples/lr", 64, 1e-4)]
    (tmp_path / "events.out.tfevents.2").write_bytes(log_samples.tensorboard(tags=alone))
    assert "over samples" in read(tmp_path / "events.out.tfevents.2").problem


def test_a_row_of_wandb_that_stands_for_several_steps(tmp_path):
    """Trainers write one row in ten steps; the step that they give beside it counts."""
    (tmp_path / "run.wandb").write_bytes(log_samples.wandb(every=10))
    run = read(tmp_path / "run.wandb")
    assert (run.iterations, run.entries) == (200, 19)
    assert run.step_seconds == pytest.approx(0.05)


def test_a_loss_that_is_no_number_makes_a_study_that_can_be_read(tmp_path, monkeypatch):
    from nodewise.cli.main import nodewise

    monkeypatch.chdir(tmp_path)
    for world in (1, 2):
        mlflow_run(tmp_path / f"runs/{world}", "nan", world_size=world)
    nodewise.main(["import", "runs", "-o", "out.study"], standalone_mode=False)
    facts = [run.facts for run in store.load(tmp_path / "out.study").runs]
    assert [("loss" in one, one["nan"]) for one in facts] == [(False, 12)] * 2


@pytest.mark.parametrize(
    ("params", "world"),
    [({"devices": 4}, None), ({"devices": 4, "num_nodes": 2}, 8), ({"world_size": 4}, 4)],
)
def test_devices_are_those_of_one_node(tmp_path, params, world):
    mlflow_run(tmp_path, **params)
    assert read(tmp_path).world_size == world


def test_jobs_of_slurm(tmp_path):
    runs = survey([(None, put(tmp_path, log_samples.SACCT))])
    used = [run for run in runs if not run.problem]
    assert [(run.nodes, run.run_seconds, run.outcome) for run in used] == [
        (1, 600.0, "ok"), (2, 310.0, "ok"), (4, 86400.0, "timeout"), (4, 180.0, "ok"),
    ]  # fmt: skip
    assert [run.energy_joules for run in used] == [600000, 640000, 9000000, 700000]
    assert [run.problem for run in runs if run.problem] == [
        "state PENDING: it did not end by itself"
    ]
    study = study_of_logs(understand(runs), "heat")
    assert study.scales == (1, 2, 4) and len(study.runs) == 4
    assert study.at(4)[0].energy_joules == 700000


def test_columns_of_sacct_in_any_order(tmp_path):
    runs = survey([(None, put(tmp_path, log_samples.SACCT_COLUMNS))])
    assert [(run.nodes, run.run_seconds) for run in runs] == [(1, 600.0), (2, 310.0)]


def test_a_job_that_failed_at_once_stays_as_a_failure(tmp_path):
    text = "JobID|JobName|NNodes|Elapsed|State\n1|a|1|00:00:00|FAILED\n2|a|2|00:00:00|COMPLETED\n"
    text += "3|a|4|00:09:00|OUT_OF_ME+\n"
    failed, empty, cut = survey([(None, put(tmp_path, text))])
    assert (failed.outcome, failed.problem, failed.run_seconds) == ("crashed", "", None)
    assert empty.problem == "no nodes or no elapsed time"
    assert (cut.outcome, cut.problem) == ("out of memory", "")


def test_sacct_without_nodes_says_what_to_ask_for(tmp_path):
    text = "JobID|JobName|Partition|State|ExitCode\n1|a|b|COMPLETED|0:0\n"
    assert "ask for: sacct --parsable2" in read(put(tmp_path, text)).problem


def test_several_jobs_of_a_history_are_not_one_curve(tmp_path):
    text = log_samples.SACCT + log_samples.SACCT.partition("\n")[2].replace("heat", "flow")
    text = text.replace("7|flow", "17|flow").replace("8|flow", "18|flow")
    found = understand(survey([(None, put(tmp_path, text))]))
    with pytest.raises(DataError, match="2 jobs at several K: flow, heat"):
        study_of_logs(found, "x")
    assert len(study_of_logs(found, "x", job="heat").runs) == 4


@pytest.mark.parametrize("name", ["nanotron", "ramble"])
def test_result_tables(tmp_path, name):
    study = study_of_logs(
        understand(survey([(None, put(tmp_path, log_samples.samples()[name][0]))])), name
    )
    assert len(study.scales) == 2
    assert len(study.broken) == (1 if name == "ramble" else 0)


def test_a_model_that_grows_with_k_is_refused(tmp_path):
    put(tmp_path, log_samples.megatron(world=16, layers=40), "a.log")
    put(tmp_path, log_samples.megatron(world=64, layers=64), "b.log")
    with pytest.raises(DataError, match=r"Two workloads: num_layers is 40 at K=16 and 64 at K=64"):
        study_of_logs(understand(survey([(None, tmp_path)])), "x")


def test_the_regime_is_what_the_batch_says(tmp_path):
    def made(second: int, regime=None):
        put(tmp_path, log_samples.megatron(world=16, batch=128), "a.log")
        put(tmp_path, log_samples.megatron(world=32, batch=second), "b.log")
        return study_of_logs(understand(survey([(None, tmp_path)])), "x", regime)

    assert made(128).regime == "strong"
    assert made(256).regime == "weak"
    with pytest.raises(DataError, match=r"neither fixed \(strong\) nor proportional"):
        made(192)
    with pytest.raises(DataError, match="that is strong scaling, not weak"):
        made(128, "weak")


def test_k_comes_from_the_log_the_path_or_the_user(tmp_path):
    for nodes in (1, 2):
        put(tmp_path, log_samples.NEMO, f"n{nodes}/out.log")
    found = understand(survey([(None, tmp_path)]))
    assert [run.problem for run in found.runs] == [
        "the log does not give K; write K=PATH or use --k"
    ] * 2
    by_path = understand(survey([(None, tmp_path)], Reading(scale=r"/n(\d+)/")))
    given = understand(survey([(1, tmp_path / "n1"), (2, tmp_path / "n2/out.log")]))
    for one in (by_path, given):
        assert study_of_logs(one, "x").scales == (1, 2)
    with pytest.raises(SpecError, match="one group"):
        survey([(None, tmp_path)], Reading(scale="n"))


def test_the_part_of_the_path_that_differs_gives_k(tmp_path):
    """Neither run2, which ends with an n, nor what all paths have in common."""
    for nodes in (4, 8):
        folder = tmp_path / f"cluster/n3/run2/n{nodes}"
        folder.mkdir(parents=True)
        put(folder, log_samples.NEMO, "run7.log")
    runs = survey([(None, tmp_path)], Reading(scale=r"n(\d+)"))
    assert [run.scale for run in runs] == [4, 8]
    one = survey([(None, tmp_path / "cluster/n3/run2/n4")], Reading(scale=r"/n(\d+)/run7"))
    assert [run.scale for run in one] == [4]
    several = survey([(None, tmp_path / "cluster/n3/run2/n4")], Reading(scale=r"n(\d+)"))
    assert "finds several numbers (3, 4)" in several[0].problem


def test_a_file_that_is_named_twice_counts_once(tmp_path, monkeypatch):
    """By another path or as a part of its folder; K as it is given for the file counts."""
    monkeypatch.chdir(tmp_path)
    path = put(tmp_path, log_samples.NEMO, "a.log")
    put(tmp_path, log_samples.MAXTEXT, "b.log")
    sources = [(None, Path()), (8, path), (None, Path("b.log"))]
    assert [(scale, file.name) for scale, file in expand(sources)] == [
        (8, "a.log"),
        (None, "b.log"),
    ]


def test_the_pattern_of_the_path_says_what_k_counts(tmp_path):
    for count in (4, 8):
        put(tmp_path, log_samples.NEMO, f"gpus{count}/out.log")
    found = understand(survey([(None, tmp_path)], Reading(scale=r"gpus(\d+)")))
    assert found.scale_unit.unit == "GPU"
    assert (
        understand(survey([(None, tmp_path)], Reading(scale=r"s(\d+)"))).scale_unit.unit == "node"
    )


def test_job_records_and_logs_are_not_one_study(tmp_path):
    put(tmp_path, log_samples.SACCT, "history.txt")
    put(tmp_path, log_samples.LAMMPS, "out.log")
    with pytest.raises(DataError, match="several programs: lammps, sacct"):
        study_of_logs(understand(survey([(None, tmp_path)])), "x")


def test_two_records_of_one_run_count_once(tmp_path):
    put(tmp_path, log_samples.megatron(), "rank0.log")
    put(tmp_path, log_samples.megatron(), "rank1.log")
    assert [run.problem for run in survey([(None, tmp_path)])] == ["", "the same run as rank0.log"]


def test_a_document_that_quotes_a_log_is_read_only_where_it_is_named(tmp_path):
    put(tmp_path, log_samples.megatron(), "out.log")
    document = put(tmp_path, "# Logs\n\n" + log_samples.NEMO, "README.md")
    runs = survey([(None, tmp_path)])
    assert [run.format for run in runs if not run.problem] == ["megatron"]
    assert "may quote a log" in next(run.problem for run in runs if run.problem)
    assert not read(document).problem


def test_what_a_tracker_recorded_beside_a_log_is_the_same_run(tmp_path):
    """The log counts. A tracker below another folder, or with another K, is a run of its own."""
    for world in (16, 32):
        folder = tmp_path / f"n{world}"
        (folder / "tb").mkdir(parents=True)
        put(folder, log_samples.megatron(world=world), "out.log")
        (folder / "tb/events.out.tfevents.1").write_bytes(log_samples.tensorboard())
    runs = survey([(None, tmp_path)], Reading(scale=r"n(\d+)"))
    assert [run.format for run in runs if not run.problem] == ["megatron", "megatron"]
    assert [run.problem for run in runs if run.format == "tensorboard"] == 2 * [
        "the run of out.log"
    ]
    assert len(study_of_logs(understand(runs), "x").runs) == 2
    other = survey([(2, tmp_path / "n16/tb"), (4, tmp_path / "n16/out.log")])
    assert not any(run.problem for run in other)


def test_nothing_is_left_out_silently(tmp_path):
    put(tmp_path, log_samples.megatron(), "good.log")
    put(tmp_path, "hello\n", "note.txt")
    put(tmp_path, "K,time_s\n1,8\n2,5\n", "table.csv")
    put(tmp_path, b"\0\1\2", "binary.bin")
    runs = {Path(run.path).name: run.problem for run in survey([(None, tmp_path)])}
    assert runs["note.txt"] == runs["binary.bin"] == "unknown format"
    assert "nodewise audit" in runs["table.csv"] and not runs["good.log"]


def test_a_pattern_of_your_own(tmp_path):
    table = {"pattern": {
        "k": r"on (\d+) ranks", "step_seconds": r"iter \d+: ([\d.]+) ms", "step": r"iter (\d+):",
        "loss": r"loss=([\d.]+|nan)", "units": {"step_seconds": "ms"},
        "stages": {"communication": r"halo ([\d.]+) s"},
    }}  # fmt: skip
    text = "on 4 ranks\n" + "".join(
        f"iter {at}: {(4000 if at == 0 else 500)} ms loss=2.5 halo 0.1 s\n" for at in range(9)
    )
    [run] = Pattern(table, "mine.toml").read(put(tmp_path, text))
    assert (run.world_size, run.step_seconds, run.warmup, run.loss) == (4, 0.5, 1, 2.5)
    assert run.stages == {"communication": 0.1}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "no table"),
        ({"k": "(\\d+)"}, "no pattern for the time"),
        ({"seconds": "took"}, "no group"),
        ({"seconds": "("}, "not a regular expression"),
        ({"seconds": "(\\d)", "colour": "(.)"}, "not a name of a pattern"),
        ({"seconds": "(\\d)", "units": {"seconds": "days"}}, "not a unit of time"),
    ],
)
def test_a_wrong_pattern_is_refused(table, says):
    with pytest.raises(SpecError, match=says):
        Pattern({"pattern": dict(table)} if table else {}, "mine.toml")


@pytest.mark.parametrize("name", ["energy", "work"])
@pytest.mark.parametrize("text", ["-5", "9e17"])
def test_a_pattern_gives_no_amount_that_a_run_cannot_have(tmp_path, name, text):
    table = {"seconds": r"took (\d+)", name: rf"{name} (\S+)", "units": {name: 1e17}}
    [run] = Pattern({"pattern": table}, "mine.toml").read(put(tmp_path, f"took 3\n{name} {text}\n"))
    assert (run.run_seconds, run.energy_joules, run.work) == (3.0, None, None)


@pytest.mark.parametrize("expression", ["(.*).*.*.*Z", "((?:a+)+)b"])
def test_a_pattern_that_backtracks_without_end_is_given_up(tmp_path, monkeypatch, expression):
    monkeypatch.setattr(time_limit, "SEARCH_SECONDS", 0.3)
    mine = Pattern({"pattern": {"seconds": expression}}, "mine.toml")
    with time_limit.time_limit(60, AssertionError("no limit")):
        [run] = survey([(1, put(tmp_path, "a" * 8000 + "\n"))], Reading(mine))
    assert "a pattern takes longer than 0.3" in run.problem


@pytest.mark.parametrize("warm", range(6))
@pytest.mark.parametrize("count", [12, 60, 400])
def test_a_planted_warm_up_is_found_and_no_other(warm, count):
    dice = random.Random(f"{warm} {count}")
    warm = min(warm, count // 4)
    for _ in range(40):
        times = log_samples.step_times(dice, count, 1.0, warm)
        if count > 12:
            times[dice.randrange(warm + 2, count)] *= 2.6  # a checkpoint
        found = steady(times)
        assert found.warmup is not None and abs(found.warmup - warm) <= 2
        if warm == 0:
            assert found.warmup == 0
        assert math.isclose(found.median, 1.0, rel_tol=0.02)


def test_a_slow_beginning_is_found_though_no_step_of_it_stands_out():
    dice = random.Random(7)
    times = [(1.05 if at < 20 else 1.0) * math.exp(dice.gauss(0, 0.01)) for at in range(100)]
    assert abs((steady(times).warmup or 0) - 20) <= 2


def test_of_few_steps_only_those_that_agree_give_a_level():
    assert steady([1.0, 1.1]) == (None, pytest.approx(1.05), ())
    assert steady([5.0, 1.0, 1.02]) == (1, pytest.approx(1.01), ())
    assert steady([5.0, 1.0]) == steady([5.0, 2.0, 1.0]) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("02:03", 123.0), ("1h 2m", 3720.0), ("3.5s", 3.5), ("x", None),
     ("", None), ("1:2:3:4", None), ("-5", None)],
)  # fmt: skip
def test_durations(text, seconds):
    assert clock_seconds(text) == seconds


def test_lines_are_bounded_and_whole(tmp_path):
    path = put(tmp_path, b"a\r\nb\rc\n" + b"x" * (9 * 2**20) + b"\nend")
    found = list(lines(path))
    assert found[:3] == [b"a", b"b", b"c"] and found[-1] == b"end"
    assert max(map(len, found)) == MAX_LINE


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")
def test_the_judge_finds_nothing_wrong_or_invented():
    pairs = [str(SHARED / "truth.json"), str(SHARED)]
    pairs += [str(SHARED / "synthetic/truth.json"), str(SHARED / "synthetic")]
    command = [
        sys.executable,
        str(SHARED / "eval_logs.py"),
        *pairs,
        "--plugin",
        "benchmarks.judges:logs",
    ]
    place = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place,
                          env={**os.environ, "PYTHONPATH": str(place)}, check=True)  # fmt: skip
    total = dict(part.rsplit(" ", 1) for part in done.stdout.splitlines()[-1][7:].split(", "))
    assert (total["wrong"], total["invented"], total["unread"]) == ("0", "0", "0")
    assert int(total["missing"]) <= 0.05 * int(total["right"])


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")
def test_shared_logs_that_must_be_refused():
    for name in ("gromacs46_zero_steps", "gromacs2021_unfinished_8ranks"):
        assert read(SHARED / f"hpc/{name}.log").problem
    with pytest.raises(DataError, match="Two workloads"):
        study_of_logs(understand(survey([(None, SHARED / "megatron")])), "x")


def test_the_judge_leaves_out_what_a_log_does_not_say(tmp_path):
    found = judged(str(put(tmp_path, log_samples.NEMO)))
    assert "world_size" not in found and found["iterations"] == 20


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="no tensorboard here")
def test_event_files_of_tensorboard_itself(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step in range(1, 21):
        value = Summary.Value(tag="loss", simple_value=2.0)
        writer.add_event(Event(wall_time=1e9 + step, step=step, summary=Summary(value=[value])))
    writer.close()
    run = read(tmp_path)
    assert (run.format, run.step_seconds, run.iterations) == ("tensorboard", 1.0, 20)


def test_json_has_every_run(tmp_path, monkeypatch, capsys):
    from nodewise.cli.main import nodewise

    monkeypatch.chdir(tmp_path)
    for world in (16, 32):
        put(tmp_path, log_samples.megatron(world=world, base=16 / world), f"logs/n{world}.log")
    put(tmp_path, "hello", "logs/other.txt")
    nodewise.main(["import", "logs", "--json"], standalone_mode=False)
    made = json.loads(capsys.readouterr().out)
    assert [row.get("rejected") for row in made["logs"]] == [None, None, "unknown format"]
    assert [scale["K"] for scale in made["scales"]] == [16, 32]


SUMMARY = (
    "{{'train_runtime': {}, 'train_samples_per_second': {:.3f}, 'train_steps_per_second': {:.3f}}}"
)


def test_one_time_is_compared_at_every_scale(tmp_path):
    """Of two of these runs the printed rates give the number of steps, of two they do not."""
    for nodes, seconds in ((1, 1800.0), (2, 964.6), (4, 516.9), (8, 277.0)):
        text = SUMMARY.format(seconds, 32000 / seconds, 1000 / seconds)
        (tmp_path / f"run_{nodes}gpu.log").write_text(text + "\n")
    found = understand(survey([(None, tmp_path)], Reading(scale=r"_(\d+)gpu")))
    study = study_of_logs(found, "hf")
    assert [run.seconds for run in study.runs] == [1800.0, 964.6, 516.9, 277.0]
    assert {run.work for run in study.runs} == {None}


def test_a_training_that_ends_out_of_memory_failed(tmp_path):
    whole = log_samples.megatron()
    path = tmp_path / "out.log"
    path.write_text(whole + "\n[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    [run] = survey([(8, path)], Reading())
    assert run.outcome == "out of memory" and "OutOfMemoryError" in run.detail
    path.write_text("CUDA out of memory, the batch is tried again\n" + whole)
    [run] = survey([(8, path)], Reading())
    assert run.outcome == "ok"


def test_a_long_line_of_digits_at_the_end_is_read_in_linear_time(tmp_path):
    """A search from every digit to the end would take hours."""
    path = tmp_path / "log"
    path.write_bytes(b"step 1\n" + b"1" * 2**20 + b"x")
    assert [len(line) for line in lines(path)] == [6, MAX_LINE]
    path.write_bytes(b"step 1\nloss: 0.25e-" + b"1" * 2**20)
    assert list(lines(path)) == [b"step 1", b"loss: "]
