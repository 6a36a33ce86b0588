"""Arguments that depend on K, and times from the program's own output, from spec to page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.study import store
from tests.jobs import measure

# Computes `size` cells and prints its own time, as a simulation does, after a slow start.
APP = """
import sys, time
size = float(sys.argv[1])
time.sleep(0.05)
begin = time.perf_counter()
time.sleep(0.002 * size)
print("warning: 0 s")
print(f"Loop time of {time.perf_counter() - begin} for {size:g} cells")
print("comm 0.001")
"""
SPEC = """
name = "app"
scales = [{scales}]
regime = "{regime}"
rounds = 2
[workload]
command = ["{{python}}", "app.py", "{size}"]
seconds = 'Loop time of (\\S+)'
work = 'for (\\S+) cells'
stage.communication = 'comm (\\S+)'
{more}
[engine]
name = "command"
"""


def write(folder: Path, size: str, regime: str, scales: str = "1, 8", more: str = "") -> Path:
    (folder / "app.py").write_text(APP)
    spec = folder / "app.toml"
    spec.write_text(SPEC.format(size=size, regime=regime, scales=scales, more=more))
    return spec


@pytest.mark.slow
def test_a_weak_study_grows_by_an_expression(tmp_path):
    spec = write(tmp_path, "{4*round(2*n**(1/3))**3}", "weak",
                 more='requires = "n == round(n**(1/3))**3"')  # fmt: skip
    plan = json.loads(measure(spec, "--dry-run", "--json").stdout)
    assert [one["plan"].split()[-1] for one in plan] == ["32", "256"]
    done = measure(spec, "-vv", name="study")
    assert done.returncode in (0, 1), done.stderr
    study = store.load(tmp_path / "app.study")
    assert {(run.nodes, run.work) for run in study.runs} == {(1, 32.0), (8, 256.0)}
    for run in study.runs:
        assert run.seconds == pytest.approx(0.002 * run.work, rel=0.5)
        assert run.wall_seconds is not None and run.wall_seconds > run.seconds + 0.05
        assert run.stages == {"communication": 0.001}
        assert str(run.provenance["command"]).endswith(f"app.py {run.work:g}")
    assert "times are from the program's log" in done.stdout
    assert "declared weak, and the work of the runs agrees" in done.stdout
    output = (tmp_path / "app.study" / "outputs" / "K8-round1.log").read_text()
    assert "for 256 cells" in output


@pytest.mark.slow
def test_a_strong_study_divides_its_size(tmp_path):
    """K workers do a share each, and the work of all of them is the same at every K."""
    spec = write(tmp_path, "{64/nodes}", "strong", "1, 4")
    shares = "work = { pattern = 'for (\\S+) cells', take = \"sum\" }"
    text = spec.read_text().replace("work = 'for (\\S+) cells'", shares)
    spec.write_text(text.replace('name = "command"', 'name = "local"'))
    plan = json.loads(measure(spec, "--dry-run", "--json").stdout)
    assert [one["plan"].split()[-1] for one in plan] == ["64", "16"]
    done = measure(spec, "-vv", name="study")
    assert "declared strong, and the work of the runs agrees" in done.stdout, done.stderr
    runs = store.load(tmp_path / "app.study").runs
    assert {run.outcome for run in runs} == {"ok"}, [run.detail for run in runs]
    assert {(run.nodes, run.work) for run in runs} == {(1, 64.0), (4, 64.0)}


def test_arguments_can_be_listed_for_each_scale(tmp_path):
    spec = write(tmp_path, "{2*n}", "strong")
    text = spec.read_text() + '[workload.arguments]\n1 = ["-s", "{n+1}"]\n8 = ["-s", "two words"]\n'
    spec.write_text(text)
    plan = json.loads(measure(spec, "--dry-run", "--json").stdout)
    assert [one["plan"].split("app.py ")[1] for one in plan] == ["2 -s 2", "16 -s 'two words'"]


@pytest.mark.parametrize(
    ("size", "more", "scales", "what"),
    [
        ("{n}", 'requires = "n == round(n**(1/3))**3"', "1, 2, 4", "K=2, 4 does not meet"),
        ("{24/hosts}", "", "1, 2", "{24/hosts} has the unknown name hosts (character 4)"),
        ("{24/n/}", "", "1, 2", "is not an expression"),
        ("{ranks}", "", "1, 2", "unknown name ranks"),  # the command starts them: not known
        ("{n}", 'requires = "8 % (n-3) == 0"', "1, 8", "K=8 does not meet"),
        ("{n}", 'requires = "cube"', "1, 2", "unknown name cube"),
        ("{n}", "stage.io = 'io ('", "1, 2", "workload.stage.io: 'io (' is not a regular"),
        ("{n}", 'log = "lamps"', "1, 2", "'lamps' is not a preset"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(tmp_path, size, more, scales, what):
    spec = write(tmp_path, size, "strong", scales, more)
    for words in ((), ("--dry-run",)):
        done = measure(spec, *words)
        assert done.returncode == 2, done.stdout
        assert len(done.stderr.splitlines()) == 2 and what in done.stderr
    assert not (tmp_path / "app.study").exists()


@pytest.mark.slow
def test_a_run_without_the_time_in_its_output_is_invalid(tmp_path):
    spec = write(tmp_path, "{n}", "strong", "1, 2", "quality = 'accuracy (\\S+)'")
    done = measure(spec)
    assert done.returncode == 4
    assert "no match: workload.quality: 'accuracy (\\S+)' matches no line" in done.stderr
    assert {run.outcome for run in store.load(tmp_path / "app.study").runs} == {"no match"}


@pytest.mark.slow
def test_run_takes_a_condition_and_a_clock(tmp_path):
    (tmp_path / "app.py").write_text(APP)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "nodewise", "run", "-n", "1,2", "--rounds", "1", *words]
        app = ["app.py", "{4*nodes}", "--", "{n}"]
        return subprocess.run([*line, "--", *app], cwd=tmp_path, capture_output=True, text=True)

    refused = run("--requires", "n % 2 == 0")
    assert refused.returncode == 2 and "K=1 does not meet" in refused.stderr
    assert "Use scales that do: 2, 4." in refused.stderr
    timed = run("--log", r"Loop time of (\S+)", "--requires", "n < 3")
    assert timed.returncode in (0, 1), timed.stderr
    runs = store.load(tmp_path / "app.study").runs
    assert all(run.provenance["clock"] for run in runs)
    other = run("--log", r"comm (\S+)")
    assert other.returncode == 2 and "with seconds = 'Loop time of" in other.stderr


RANKS = """K,round,time_s,rank,compute_s,comm_s,idle_s
1,0,10,0,10,0,0
2,0,8,0,3,1,4
2,0,8,1,5,1,2
"""


def test_pop_is_in_the_text_the_table_the_json_and_the_page(tmp_path, nodewise):
    table = tmp_path / "ranks.csv"
    table.write_text(RANKS)
    text = nodewise("attribute", table, "-v").out
    assert "POP efficiencies" in text and "no counters" in text
    assert "0.800" in text.split("POP efficiencies")[1]
    cells = nodewise("table", table, "pop").out.splitlines()
    assert [cell.strip() for cell in cells[-1].strip("|").split("|")] == [
        "2", "8.0000", "0.625", "0.500", "0.800", "0.625", "0.714", "0.875", "1.250",
    ]  # fmt: skip
    document = nodewise("attribute", table, "--json").json
    assert document["pop"]["rows"][1]["load_balance"] == 0.8
    assert nodewise("decide", table, "--json").json["attribution"]["pop"]["rows"][1]["K"] == 2
    nodewise("report", table, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<h2>POP efficiencies</h2>") == 1 and "serialisation" in page
    bare = tmp_path / "bare.csv"
    bare.write_text("K,time_s\n1,10\n2,6\n4,4\n")
    assert "POP" not in nodewise("attribute", bare).out
    refused = nodewise("table", bare, "pop")
    assert refused.code == 4 and "has nothing for the table pop" in refused.err
