import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings

from nodewise.base.errors import DataError, RunError
from nodewise.study import store
from nodewise.study.study import Run
from tests.jobs import wait_until
from tests.study.test_spec import MINIMAL
from tests.study.test_table import studies


@given(studies())
@settings(max_examples=20)
def test_what_was_appended_is_loaded(tmp_path_factory, study):
    folder = tmp_path_factory.mktemp("study")
    store.create(folder, MINIMAL)
    for run in study.runs:
        store.append(folder, run)
    assert store.load(folder).runs == study.runs


def test_what_cannot_be_read_back_is_not_written(tmp_path):
    store.create(tmp_path, MINIMAL)
    run = Run(nodes=1, round=0, seconds=1.0, facts={"loss": float("nan"), "batch": 8})
    store.append(tmp_path, run)
    with pytest.raises(DataError, match=r"out of range: .*work"):
        store.append(tmp_path, Run(nodes=2, round=0, seconds=1.0, work=-1.0))
    [kept] = store.load(tmp_path).runs
    assert kept.facts == {"batch": 8}


def test_a_line_that_was_cut_off_is_dropped_and_said(tmp_path):
    store.create(tmp_path, MINIMAL)
    store.append(tmp_path, Run(nodes=1, round=0, seconds=1.0))
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"K":2,"round":0,"sec')
    study = store.load(tmp_path)
    assert [run.nodes for run in study.runs] == [1]
    assert "cut off" in study.notes[0]
    with store.locked(tmp_path):
        store.append(tmp_path, Run(nodes=4, round=0, seconds=1.0))
    assert [run.nodes for run in store.load(tmp_path).runs] == [1, 4]


def test_a_damaged_line_is_named(tmp_path):
    store.create(tmp_path, MINIMAL)
    (tmp_path / "runs.jsonl").write_bytes(b'{"K":1}\n')
    with pytest.raises(DataError, match="Line 1"):
        store.load(tmp_path)


def test_another_spec_is_refused(tmp_path):
    store.create(tmp_path, MINIMAL)
    store.create(tmp_path, "# the same, with a comment\n" + MINIMAL)
    with pytest.raises(RunError, match="another measurement"):
        store.create(tmp_path, MINIMAL.replace("[1, 2]", "[1, 4]"))


def test_scales_may_be_added_and_rounds_may_change(tmp_path):
    store.create(tmp_path, MINIMAL)
    more = MINIMAL.replace("[1, 2]", "[1, 2, 8]")
    store.create(tmp_path, more)
    assert store.load(tmp_path).spec.scales == (1, 2, 8)
    store.create(tmp_path, "rounds = 9\n" + more)
    assert store.load(tmp_path).spec.rounds == 9
    store.create(tmp_path, more)
    assert store.load(tmp_path).spec.rounds == 7
    with pytest.raises(RunError, match="another measurement"):
        store.create(tmp_path, "rounds = 9\nseed = 3\n" + more)


def test_a_price_is_no_part_of_what_was_measured(tmp_path):
    store.create(tmp_path, MINIMAL)
    store.create(tmp_path, MINIMAL + "\n[price]\nper_node_hour = 2\nsource = 'a list'\n")
    assert store.load(tmp_path).asked["price"]["source"] == "a list"


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("[gates]\ndeadline_seconds = 60", "gates"),
        ("[gates]\nleast_speedup = { 2 = 1.5 }", "gates"),
        ("[energy]\ngrid = 'FRA'", "energy"),
        ("[quality]\ntolerance = 0.1", "quality"),
        ("[scenarios.x]\nprice = 3", "scenarios"),
    ],
)
def test_a_new_question_asks_for_no_new_measurement(tmp_path, question, key):
    store.create(tmp_path, MINIMAL)
    store.create(tmp_path, f"{MINIMAL}\n{question}\n")
    assert key in store.load(tmp_path).asked


@pytest.mark.parametrize("line", ["threshold = 0.8", "regime = 'weak'", "work_unit = 'tokens'"])
def test_a_new_line_of_the_question_asks_for_no_new_measurement(tmp_path, line):
    store.create(tmp_path, MINIMAL)
    store.create(tmp_path, f"{line}\n{MINIMAL}")
    study = store.load(tmp_path)
    assert study.asked
    assert study.regime == study.asked.get("regime", "strong")


@pytest.mark.parametrize(
    "change",
    [
        ('["true"]', '["false"]'),
        ("[workload]", "[engine]\nname = 'mpi'\n[workload]"),
        ("[workload]", "[workload]\nwarmup_steps = 2"),
        ("[workload]", "[workload]\nenvironment = { A = '1' }"),
    ],
)
def test_another_job_is_another_measurement(tmp_path, change):
    store.create(tmp_path, MINIMAL)
    with pytest.raises(RunError, match="another measurement"):
        store.create(tmp_path, MINIMAL.replace(*change))


def test_a_second_process_on_one_study_is_refused(tmp_path):
    store.create(tmp_path, MINIMAL)
    code = """
import sys, time
from pathlib import Path
from nodewise.study import store
with store.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(30)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="Another process"), store.locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()

    def is_free() -> bool:
        with suppress(RunError), store.locked(tmp_path):
            return True
        return False

    wait_until(is_free)


def test_k_counts_ranks_where_the_mpi_engine_says_how_many_share_a_node(tmp_path):
    spec = """name = "s"
scales = [1, 4]
[workload]
command = ["./app"]
[engine]
name = "mpi"
[engine.mpi]
ranks_per_node = 2
threads_per_rank = 4
"""
    for text, unit in ((spec, "4 ranks (2 nodes)"), (f'unit = "core"\n{spec}', "4 cores")):
        folder = tmp_path / unit.replace(" ", "")
        store.create(folder, text)
        for nodes in (1, 4):
            store.append(folder, Run(nodes=nodes, round=0, seconds=2.0 / nodes))
        assert store.load(folder).scale_unit.named(4) == unit
