"""audit, export and rerun from the command line."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from nodewise.study import bundle

EXAMPLES = Path(__file__).parents[2] / "examples"

JOB = """\
import sys, time
from nodewise import probe
nodes = int(sys.argv[1])
for _ in probe.steps(range(4)):
    with probe.compute():
        time.sleep(0.02 / nodes)
probe.work(items=4096 // nodes)
"""
SPEC = """\
name = "tiny"
scales = [1, 2]
rounds = 6
[workload]
command = ["{python}", "job.py", "{nodes}"]
warmup_steps = 1
"""


def test_the_vendors_slide_fails_and_its_bend_moves(nodewise):
    outcome = nodewise("audit", EXAMPLES / "vendor-claim.md", "--json")
    assert outcome.code == 1
    result = outcome.json
    assert (result["correction"]["claimed_bend"], result["correction"]["bend"]) == (64, 16)
    assert result["correction"]["factor"] == pytest.approx(1.8, rel=0.02)
    failed = [check["key"] for check in result["checks"] if check["verdict"] == "fail"]
    assert failed[0] == "baseline"


def test_the_linear_table_names_both_mistakes(nodewise):
    outcome = nodewise("audit", EXAMPLES / "linear-claim.csv", "-v")
    assert outcome.code == 1  # ratios without seconds
    text = " ".join(outcome.out.split())
    assert "a baseline that is too slow, and a problem that changes between the points" in text
    assert "Please re-measure one point" in text


def test_an_honest_table_passes(nodewise):
    outcome = nodewise("audit", EXAMPLES / "step-times.csv", "-v")
    assert outcome.code == 0
    assert "warn     repeats and spread: 5 runs" in outcome.out


@pytest.mark.slow
def test_published_curves_are_audited_without_error(nodewise, shared):
    outcome = nodewise("audit", shared / "data" / "curves-dev.csv", "--json")
    assert outcome.code in (0, 1) and not outcome.err
    audits = outcome.json
    assert len(audits) == 148
    twice = next(one for one in audits if one["name"] == "archerbench-opensbli-tgv1024ss-cirrus-0")
    (identical,) = [check for check in twice["checks"] if check["key"] == "identical"]
    assert identical["verdict"] == "fail"  # both repeats of every scale are one number
    one = nodewise("audit", shared / "data" / "curves-dev.csv", "--curve", twice["name"], "-v")
    assert "5 pairs of equal repeats" in one.out


def test_results_of_other_tools(nodewise, tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"results": [
        {"command": f"job {k}", "times": [10 / k, 10.3 / k, 10.1 / k], "parameters": {"nodes": k}}
        for k in (1, 2, 4)
    ]}))  # fmt: skip
    outcome = nodewise("audit", file, "--regime", "strong", "-vv")
    assert "pass     strong or weak: declared strong" in outcome.out


def test_stdin_and_errors(nodewise):
    assert nodewise("audit", "-", stdin="K,time_s\n1,10\n2,6\n").code == 0
    outcome = nodewise("audit", "-", stdin="a,b\n1,2\n")
    assert outcome.code == 4 and "fix:" in outcome.err
    assert nodewise("audit", "nowhere.csv").code == 4


@pytest.fixture
def tiny(tmp_path, nodewise, monkeypatch):
    """A measured study with its job."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "job.py").write_text(JOB)
    (home / "tiny.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    assert nodewise("measure", home / "tiny.toml").code == 0
    return home


def names_below(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_bundle_holds_everything_and_is_repeated(tiny, tmp_path, nodewise):
    audited = nodewise("audit", tiny / "tiny.study", "-vv")
    assert "pass     order of runs" in audited.out
    assert nodewise("export", tiny / "tiny.study", "--workload", tiny).code == 0
    bundle.unpack(tmp_path / "tiny.zip", tmp_path / "unpacked")
    files = names_below(tmp_path / "unpacked")
    assert {"study.toml", "runs.jsonl", "samples.csv", "environment.json", "audit.json",
            "result.json", "workload/job.py", "tables/scaling.csv", "tables/scaling.md",
            "tables/scaling.tex", "figures/speedup.svg", "README.txt"} <= set(files)  # fmt: skip
    assert not any("tiny.study" in name for name in files)
    shutil.rmtree(tiny)
    outcome = nodewise("rerun", "tiny.zip", "--json")
    assert outcome.code in (0, 1), outcome.err
    result = outcome.json
    assert [row["K"] for row in result["rows"]] == [1, 2]
    assert {row["speedup"] for row in result["rows"]} <= {"agrees", "differs"}
    assert (tmp_path / "tiny.rerun" / "runs.jsonl").exists()
    text = nodewise("rerun", "tiny.zip")  # nothing is left to run
    assert "tiny again: " in text.out


def test_a_changed_bundle_is_refused(tmp_path, nodewise):
    (tmp_path / "a.zip").write_bytes(bundle.pack({"study.toml": b"x", "runs.jsonl": b"y"}))
    bundle.unpack(tmp_path / "a.zip", tmp_path / "a")
    assert names_below(tmp_path / "a") == {"study.toml", "runs.jsonl"}
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for name, content in (files | {"study.toml": b"other"}).items():
            archive.writestr(name, content)
    outcome = nodewise("rerun", tmp_path / "b.zip")
    assert outcome.code == 4 and "was changed: study.toml" in outcome.err
    (tmp_path / "c.zip").write_bytes(b"no zip")
    assert nodewise("rerun", tmp_path / "c.zip").code == 4


def test_the_same_study_gives_the_same_bytes():
    assert bundle.pack({"a": b"1", "b": b"2"}) == bundle.pack({"b": b"2", "a": b"1"})
