"""CodeCarbon and Zeus: their files become runs, and their joules are called imported."""

import csv

import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.benchmarks.energy_logs import read_codecarbon, read_zeus
from tests.conftest import DATA

ONE, TWO = DATA / "energy" / "codecarbon-1.csv", DATA / "energy" / "codecarbon-2.csv"
# as ZeusMonitor 0.16 writes it
ZEUS = """start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy
1760000000.0,training,10.5,2000.0,2100.0
1760000020.0,training,10.0,1900.0,2000.0
"""


def column(path, name):
    return [float(row[name]) for row in csv.DictReader(path.read_text().splitlines())]


def test_rows_of_codecarbon_are_runs():
    runs = read_codecarbon([ONE], 1)
    assert [run.seconds for run in runs] == column(ONE, "duration")
    kwh = column(ONE, "energy_consumed")
    assert [run.energy_joules for run in runs] == pytest.approx([3.6e6 * one for one in kwh])
    assert [run.round for run in runs] == [0, 1, 2]
    assert runs[0].provenance["energy_basis"] == "imported"
    assert "CodeCarbon 3.3.2 of a machine" in runs[0].provenance["energy_source"]
    assert runs[0].started.startswith("2026-11-16T")


def test_the_pue_of_codecarbon_is_taken_out_again(tmp_path):
    """It multiplies its energy by it; here the PUE comes with the question."""
    path = tmp_path / "emissions.csv"
    path.write_text("project_name,duration,energy_consumed,pue\nx,10,0.003,1.5\n")
    [run] = read_codecarbon([path], 1)
    assert run.energy_joules == pytest.approx(7200)


def test_a_file_for_each_node_is_one_run(tmp_path):
    runs = read_codecarbon([ONE, TWO], 2)
    both = [a + b for a, b in zip(column(ONE, "energy_consumed"), column(TWO, "energy_consumed"),
                                  strict=True)]  # fmt: skip
    assert [run.energy_joules for run in runs] == pytest.approx([3.6e6 * one for one in both])
    longest = map(max, column(ONE, "duration"), column(TWO, "duration"))
    assert [run.seconds for run in runs] == list(longest)
    assert "energy_missing" not in runs[0].provenance
    assert "one file for K=8" in read_codecarbon([ONE], 8)[0].provenance["energy_missing"]
    with pytest.raises(DataError, match="not one per rank"):
        read_codecarbon([ONE, TWO, ONE], 2)


def test_windows_of_zeus_are_runs(tmp_path):
    path = tmp_path / "zeus.csv"
    path.write_text(ZEUS)
    runs = read_zeus([path], 1)
    assert [(run.seconds, run.energy_joules) for run in runs] == [(10.5, 4100.0), (10.0, 3900.0)]
    assert runs[0].provenance["energy_source"] == "Zeus, 2 GPUs a node and no CPU"


def test_a_window_within_another_is_not_added_to_it(tmp_path):
    path = tmp_path / "zeus.csv"
    path.write_text(ZEUS + "1760000001.0,step,0.5,100.0,100.0\n")
    with pytest.raises(SpecError, match="--region step"):
        read_zeus([path], 1)
    assert [run.seconds for run in read_zeus([path], 1, "step")] == [0.5]
    with pytest.raises(DataError, match="training"):
        read_zeus([path], 1, "epoch")


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", "project_name,duration\nx,1\n", "\x00\x01",
     "project_name,duration,energy_consumed\nx,ten,1\n",
     "project_name,duration,energy_consumed\nx,10,-1\n",
     "project_name,duration,energy_consumed\nx,10,nan\n"],
)  # fmt: skip
def test_another_file_is_two_lines(tmp_path, text):
    path = tmp_path / "emissions.csv"
    path.write_text(text)
    for read in (read_codecarbon, read_zeus):
        with pytest.raises(DataError) as error:
            read([path], 1)
        assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize(
    "row", ["1,training,10", "1,training,10,5,6,7", "1,training,0,5,6", "1,training,ten,5,6"]
)
def test_a_row_that_is_none_is_refused_and_never_left_out(tmp_path, row):
    path = tmp_path / "zeus.csv"
    path.write_text(f"{ZEUS}{row}\n")
    with pytest.raises(DataError):
        read_zeus([path], 1)


def test_imported_energy_through_the_command_line(nodewise, tmp_path):
    study = tmp_path / "energy.study"
    made = nodewise("import", "codecarbon", f"1={ONE}", f"2={TWO}", "-o", study)
    assert made.code == 0, made.err
    decision = nodewise("decide", study, "--grid", "FRA", "--pue", "1.2", "--json").json
    assert decision["energy"]["basis"] == "imported"
    assert "PUE of 1.2" in decision["energy"]["note"]
    mean = sum(column(ONE, "energy_consumed")) / 3 * 3.6e6
    assert decision["rows"][0]["energy_joules"] == pytest.approx(1.2 * mean)
    [check] = [one for one in decision["checks"] if "energy" in one["rule"]]
    assert check["verdict"] == "unknown"
    text = nodewise("decide", study, "-v").out
    assert "J imported" in text
    bare = nodewise("import", "codecarbon", ONE, "-o", tmp_path / "bare.study")
    assert (bare.code, len(bare.err.splitlines())) == (2, 2)
