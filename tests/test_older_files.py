"""Files and imports of version 0.1: a later version still reads them and gives the same answer."""

import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nodewise.decide.prices.lookup import question_of
from nodewise.study import store
from tests.conftest import DATA

OLD = DATA / "version1"
STUDY = OLD / "tiny.study"
# Sentences may be rewritten; these figures may not change. Modelled energy is shown at the centre
# of its range since version 0.3; its top is what version 0.1 showed.
FIGURES = ("K", "seconds", "speedup", "efficiency", "quality", "cost", "bill", "cost_per_work",
           "energy_high", "grams_high", "excluded")  # fmt: skip


def stored(name: str) -> Any:
    return json.loads((OLD / name).read_text())


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """Only what is compared; a bill is nested, and `approx` takes flat tables."""
    chosen = {name: row[name] for name in FIGURES}
    return {**chosen.pop("bill"), **chosen}


def check_decision(found: dict[str, Any], old: dict[str, Any]) -> None:
    assert found["recommended"]["K"] == old["recommended"]["K"]
    for name in ("cheapest", "fastest"):
        assert found[name]["K"] == old[name]["K"]
        assert found[name]["cost"] == pytest.approx(old[name]["cost"])
    assert len(found["rows"]) == len(old["rows"]) == 3
    for row, before in zip(found["rows"], old["rows"], strict=True):
        assert figures(row) == pytest.approx(figures(before))
    for part in ("per_node_hour", "fixed_per_hour", "startup_seconds"):
        assert found["price"][part] == old["price"][part]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.html"
    path.write_bytes(gzip.decompress((OLD / "tiny.html.gz").read_bytes()))
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A copy of the folder: a command may write into it."""
    return shutil.copytree(STUDY, tmp_path / "tiny.study")


def test_a_folder_is_decided_as_before(nodewise):
    outcome = nodewise("decide", STUDY, "--json")
    assert outcome.code == 0, outcome.err
    check_decision(outcome.json, stored("decide.json"))


def test_every_part_of_the_old_spec_is_read():
    study = store.load(STUDY)
    assert (study.spec.fixed, study.spec.quality.name) == (("batch",), "accuracy")
    asked = question_of(study.asked)
    assert (asked.needs.threshold, asked.work_unit) == (0.6, "images")
    assert (asked.price.per_node_hour, asked.payment.spot_fraction) == (3.2, 0.4)
    assert asked.payment.preemptions.per_hour == pytest.approx(0.05)
    assert (asked.site.power.busy_watts, asked.site.grid.code) == (350, "FRA")
    assert (asked.needs.deadline_seconds, asked.needs.least_efficiency) == (5, {2: 0.2})
    assert asked.needs.quality_better == "higher"


def test_a_finished_study_is_continued_and_gives_the_same_result(nodewise, study, tmp_path):
    with zipfile.ZipFile(OLD / "tiny.zip") as archive:
        archive.extractall(tmp_path / "bundle")
    runs = (study / store.RUNS).read_bytes()
    spec = tmp_path / "bundle" / "workload" / "tiny.toml"
    outcome = nodewise("study", spec, "-o", study, "--json")
    assert outcome.code == 0, outcome.err
    assert (study / store.RUNS).read_bytes() == runs  # no run was needed
    old = stored("study.json")
    check_decision(outcome.json["decision"], old["decision"])
    gates = {check["rule"]: check["verdict"] for check in old["checks"] if check["is_gate"]}
    assert gates == {"efficiency at least 0.2 at K=2": "pass"}
    found = [check["verdict"] for check in outcome.json["checks"] if check["is_gate"]]
    assert found == list(gates.values())


def test_a_bundle_opens_and_agrees_with_the_folder(nodewise, study):
    """The new folder already holds every run, so nothing is run and nothing depends on timing."""
    runs = (study / store.RUNS).read_bytes()
    outcome = nodewise("rerun", OLD / "tiny.zip", "-o", study, "--json")
    assert outcome.code == 0, outcome.err
    assert (study / store.RUNS).read_bytes() == runs
    assert outcome.json["agrees"]
    before = {row["K"]: row["speedup"] for row in stored("decide.json")["rows"]}
    for row in outcome.json["rows"]:
        assert row["first_speedup"] == pytest.approx(before[row["K"]])
        assert row["second_speedup"] == pytest.approx(before[row["K"]])


@pytest.mark.slow
def test_a_page_opens_and_holds_the_study_and_its_question(nodewise, page, tmp_path):
    """Its costs are those of the folder, which are compared with the stored ones above."""
    again = tmp_path / "again.html"
    assert nodewise("report", page, "-o", again).code == 0
    costs = nodewise("table", STUDY, "rubric").out
    assert costs.count("\n") > 4
    assert nodewise("table", page, "rubric").out == costs
    assert nodewise("table", again, "rubric").out == costs
    assert nodewise("table", page, "rubric", "--price", "9").out != costs


OLD_IMPORTS = {
    "nodewise.attribute": "attribute",
    "nodewise.prices": "Price",
    "nodewise.scaling": "scale",
    "nodewise.table": "parse_table",
    "nodewise.engines.base": "Engine",
}


def python(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


@pytest.mark.parametrize("module", OLD_IMPORTS)
def test_an_import_of_the_old_documents_works_and_warns(module):
    """In a process of its own: a module is imported, and warns, once."""
    code = f"from {module} import {OLD_IMPORTS[module]} as found; print(found.__module__)"
    done = python("-W", "always::DeprecationWarning", "-c", code)
    assert done.returncode == 0, done.stderr
    assert f"DeprecationWarning: {module} is now {done.stdout.strip()}." in done.stderr
    refused = python("-W", "error::DeprecationWarning", "-c", code)
    assert refused.returncode == 1


def test_the_old_example_in_python_gives_the_old_figures():
    code = """
from pathlib import Path
from nodewise.attribute import attribute
from nodewise.scaling import scale
from nodewise.table import parse_table
study = parse_table(Path("examples/breakdown.csv").read_text(), name="segmentation")
print(scale(study).bend.first_below, attribute(study).dominant_cause)
"""
    done = python("-c", code, folder=Path(__file__).parents[1])
    assert (done.returncode, done.stdout) == (0, "8 communication\n"), done.stderr


def test_a_workload_is_launched_by_the_old_name(tmp_path):
    (tmp_path / "job.py").write_text("import sys; print('ran with', sys.argv[1:])")
    done = python("-W", "always", "-m", "nodewise.launch", "job.py", "a", "b", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran with ['a', 'b']\n"), done.stderr
    assert "nodewise.launch is now nodewise.measure.launch" in done.stderr


def test_a_page_keeps_its_gates(nodewise, page):
    assert "efficiency at least 0.2 at K=2" in nodewise("table", page, "checks").out
