"""The commands as a user meets them."""

import json
import subprocess
import sys

import pytest

NODEWISE = [sys.executable, "-m", "nodewise"]


def test_the_exercise_as_json(nodewise):
    outcome = nodewise(
        "roofline", "--peak-flops", "20e12", "--memory-bandwidth", "800e9", "--flops", "6e12",
        "--bytes", "1.2e11", "--net-bytes", "4e9", "--net-bandwidth", "25e9", "--alpha", "10e-6",
        "--json",
    )  # fmt: skip
    assert outcome.code == 0
    expected = {"ridge": 25.0, "intensity": 50.0, "bound": "compute", "axis": "training",
                "compute_s": 0.3, "comm_s": 0.16001, "communication_bound": False}  # fmt: skip
    assert {name: outcome.json[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["roofline"], 2, "needs the machine and the step"),
        (["roofline", "--flops", "6e12"], 2, "--peak-flops is missing"),
        (["roofline", "--flops", "many"], 2, "'many' is not a number"),
        (["roofline", "--net-bytes", "4e9"], 2, "--net-bandwidth is missing"),
        (["diagnose"], 2, "Nothing to diagnose"),
        (["diagnose", "--parameters", "13e9"], 2, "needs the memory of a device"),
        (["diagnose", "--rate", "10/s"], 2, "needs the budget"),
        (["diagnose", "--latency-budget", "soon"], 2, "'soon' is not a time"),
        (["diagnose", "--", "/nowhere/program"], 3, "Cannot run /nowhere/program"),
        (["diagnose", "--torch", "nowhere.py"], 2, "needs a script"),
        (["diagnose", "examples/breakdown.csv", "-o", "x.svg"], 2, "not a program or a study"),
        (["machine", "--peer", "host"], 2, "HOST:PORT"),
    ],
)
def test_errors_are_two_lines_with_the_fix(nodewise, arguments, code, words):
    outcome = nodewise(*arguments)
    assert outcome.code == code
    what, fix = outcome.err.splitlines()
    assert words in what
    assert fix.startswith("  fix: ")


def test_a_refused_proposal_is_exit_code_one(nodewise):
    story = ("--parameters", "13e9", "--device-memory", "80GB", "--workers", "4", "--json")
    refused = nodewise("diagnose", "--propose", "data-parallel", *story)
    assert (refused.code, refused.json["answer"]["answer"]) == (1, "no")
    assert nodewise("diagnose", "--propose", "fsdp", *story).code == 0


def test_a_study_is_fed_back(nodewise):
    table = "examples/breakdown.csv"
    found = nodewise("diagnose", table, "--json").json
    assert (found["first"], found["ceiling"], found["axis"]) == (
        "compute", "communication", "coordination",
    )  # fmt: skip
    assert nodewise("diagnose", table, "--propose", "data-parallel").code == 1
    assert nodewise("diagnose", table, "--propose", "orchestration").code == 0


def test_the_menu_names_every_ceiling(nodewise):
    assert len(nodewise("diagnose", "--menu", "--json").json) == 8


def test_charts_are_written(nodewise, tmp_path):
    machine = ("--peak-flops", "20T", "--memory-bandwidth", "800GB/s", "--flops", "6T")
    for command in ("roofline", "diagnose"):
        path = tmp_path / f"{command}.svg"
        assert nodewise(command, *machine, "--bytes", "120GB", "-o", path).code == 0
        assert path.read_text().startswith("<svg")


@pytest.mark.slow
def test_a_program_is_watched_and_its_output_does_not_mix_with_the_json():
    job = "import time; print('hello')\nfor _ in range(80): time.sleep(0.05)"
    done = subprocess.run(
        [*NODEWISE, "diagnose", "--propose", "data-parallel", "--json", "--", sys.executable, "-c",
         job],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert "hello" in done.stderr
    # A sleeping program is never called busy, however loaded the machine is.
    assert found["ceiling"] in ("latency", None)
    assert done.returncode == 1
