"""Logs as a user reads them: from a folder to a recommendation with its cause."""

import json
from pathlib import Path

import pytest
from benchmarks import log_samples
from click.testing import CliRunner, Result

from nodewise.cli.main import nodewise
from nodewise.study import store

EIGHT = Path(__file__).parents[2] / "examples/logs"
MOST_LINES = 24


def run(*words: object) -> Result:
    return CliRunner().invoke(nodewise, [str(word) for word in words])


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_from_eight_logs_to_a_recommendation_with_its_cause(tmp_path):
    made = run("import", EIGHT, "-o", tmp_path / "melt.study")
    assert made.exit_code == 0 and "8 of 8 runs understood" in made.output
    assert len(made.output.splitlines()) <= MOST_LINES
    decided = json.loads(run("decide", tmp_path / "melt.study", "--price", "0.05", "--json").stdout)
    assert decided["recommended"]["K"] == 8
    attributed = json.loads(run("attribute", EIGHT, "--json").stdout)
    assert attributed["rows"][-1]["dominant_cause"] == "idle"
    page = run("report", EIGHT, "--price", "0.05", "-o", tmp_path / "melt.html", "--static")
    assert page.exit_code == 0 and (tmp_path / "melt.html").stat().st_size > 10_000


def test_logs_can_be_named_one_by_one(tmp_path):
    files = [put(tmp_path, f"{n}.log", log_samples.NEMO) for n in (1, 2, 4)]
    named = [f"{n}={file}" for n, file in zip((1, 2, 4), files, strict=True)]
    for command in ("decide", "audit"):
        done = run(command, *named, "--json")
        assert done.exit_code in (0, 1) and json.loads(done.stdout)


def test_two_models_are_refused_as_one_study(tmp_path):
    put(tmp_path, "a.log", log_samples.megatron(world=16, layers=40))
    put(tmp_path, "b.log", log_samples.megatron(world=64, layers=64))
    done = run("import", tmp_path, "-o", tmp_path / "x.study")
    assert done.exit_code == 4 or "Two workloads" in str(done.exception)
    assert "2 of 2 runs understood" in done.output  # the table comes first
    assert not (tmp_path / "x.study").exists()


def test_a_history_is_observed_and_never_measured(tmp_path):
    history = put(tmp_path, "history.txt", log_samples.SACCT)
    made = run("import", "sacct", history, "-o", tmp_path / "heat.study")
    assert made.exit_code == 0 and "timeout" in made.output
    study = store.load(tmp_path / "heat.study")
    assert [r.energy_joules for r in study.runs if r.outcome == "ok"] == [600000, 640000, 700000]
    decided = json.loads(run("decide", tmp_path / "heat.study", "--json").stdout)
    [check] = [c for c in decided["checks"] if c["rule"] == "comparable runs"]
    assert check["makes"] == "doubtful"
    assert "partition" in check["evidence"] and "day" in check["evidence"]
    assert "observed and not measured" in check["evidence"]
    assert "from job records" in run("decide", tmp_path / "heat.study", "-v").output


def test_records_of_other_jobs_are_named(tmp_path):
    other = "91|flow|2|4|00:10:00|COMPLETED|0:0|1000|cpu|2026-03-01T10:00:00\n"
    titles = (
        "JobID|JobName|NNodes|NTasks|Elapsed|State|ExitCode|ConsumedEnergyRaw|Partition|Start\n"
    )
    heat = "".join(other.replace("91|flow|2", f"{n}|heat_n{n}|{n}") for n in (1, 2, 4))
    history = put(tmp_path, "history.txt", titles + heat + other)
    made = run("import", "sacct", history, "-o", tmp_path / "heat.study")
    assert "Left out: 1 record of other jobs (flow). Take one with --region NAME." in made.output
    assert len(store.load(tmp_path / "heat.study").runs) == 3


def test_jobs_of_several_names_are_doubted_as_one_curve(tmp_path):
    history = put(
        tmp_path,
        "history.txt",
        "JobID|JobName|NNodes|Elapsed|State\n1|prepare|1|01:00:00|COMPLETED\n"
        "2|solve|4|00:30:00|COMPLETED\n",
    )
    decided = json.loads(run("decide", history, "--json").stdout)
    [check] = [c for c in decided["checks"] if c["rule"] == "comparable runs"]
    assert check["makes"] == "doubtful" and "job name" in check["evidence"]


def test_explain_shows_which_lines_matched(tmp_path):
    path = put(tmp_path, "out.log", log_samples.megatron())
    shown = json.loads(run("import", "--explain", path, "--json").stdout)
    rules = {row["rule"]: row for row in shown["rules"]}
    assert rules["step"]["lines"] == 24 and rules["step"]["first"] == 6
    assert "Format: megatron" in run("import", "--explain", path).output


def test_a_pattern_file(tmp_path):
    form = put(
        tmp_path, "mine.toml", "[pattern]\nk = 'on (\\d+) ranks'\nseconds = 'took (\\S+) s'\n"
    )
    for n in (1, 2):
        put(tmp_path, f"runs/{n}.txt", f"on {n} ranks\ntook {8 / n} s\n")
    made = run("import", tmp_path / "runs", "--pattern", form, "-o", tmp_path / "x.csv", "--json")
    assert [row["K"] for row in json.loads(made.stdout)["logs"]] == [1, 2]


@pytest.mark.parametrize("count", [3, 40])
def test_the_table_is_short(tmp_path, count):
    for at in range(count):
        put(tmp_path, f"n{at + 1}.log", log_samples.NEMO)
        put(tmp_path, f"other{at}.txt", "hello")
    made = run("import", tmp_path, "--k", r"/n(\d+)", "-o", tmp_path.parent / f"{count}.csv")
    assert len(made.output.splitlines()) <= MOST_LINES
    assert f"{count} of {2 * count} runs understood" in made.output


def test_formats_are_listed():
    names = {row["name"] for row in json.loads(run("help", "formats", "--json").stdout)}
    assert {"megatron", "lammps", "sacct", "kineto"} <= names
