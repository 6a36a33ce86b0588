"""An invalid measurement ends every command that would answer with exit code 1."""

import pytest

from nodewise.study import store
from nodewise.study.study import Run

SPEC = """name = "job"
scales = [1, 2, 4, 8]
[workload]
command = ["true"]
"""
SECONDS = {1: 1000.0, 2: 515.0, 4: 272.5, 8: 151.25}


@pytest.fixture
def folder(tmp_path):
    """A study whose work did not grow with K."""
    made = tmp_path / "job.study"
    store.create(made, SPEC)
    for number in range(3):
        for nodes, seconds in SECONDS.items():
            run = Run(nodes=nodes, round=number, seconds=seconds + number, work=8.0, steps=4)
            store.append(made, run)
    return made


@pytest.mark.parametrize("command", ["decide", "next", "predict"])
def test_a_regime_against_the_work_gets_no_answer(nodewise, folder, command):
    assert nodewise(command, folder, "--price", 2).code == 0
    refused = nodewise(command, folder, "--price", 2, "--regime", "weak")
    assert refused.code == 1
    reason = "job: no answer: the work contradicts weak scaling: 8 at K=1, 8 at K=8"
    assert refused.out.startswith(reason)
    assert "Add --regime strong." in " ".join(refused.out.split())
    made = nodewise(command, folder, "--price", 2, "--regime", "weak", "--json")
    assert made.code == 1
    assert made.json["validity"]["state"] == "invalid"
    assert made.json["recommended"]["K"] is None


def test_the_page_of_an_invalid_study_gives_no_answer(nodewise, folder, tmp_path):
    page = tmp_path / "page.html"
    assert nodewise("report", folder, "-o", page).code == 0
    assert nodewise("report", folder, "--regime", "weak", "-o", page).code == 1
    body = page.read_text().partition("<body>")[2].partition("<footer>")[0]
    assert "no answer: the work contradicts weak scaling" in body
    assert "Measure next" not in body
    assert 'data-chart="cost"' not in body


def test_a_study_that_ran_no_step_has_no_answer(nodewise, folder):
    for nodes in (1, 2, 4, 8):
        store.append(folder, Run(nodes=nodes, round=3, seconds=1.0, work=8.0, steps=0))
    refused = nodewise("decide", folder)
    assert refused.code == 1
    assert "no answer: no step ran at K=1, 2, 4, 8" in refused.out


@pytest.mark.parametrize("command", ["decide", "next", "predict"])
def test_a_doubt_is_in_the_answer(nodewise, command):
    table = "K,time_s\n1,1000\n2,515\n4,272.5\n8,151.25\n"
    told = nodewise(command, "-", "--price", 2, stdin=table)
    assert told.code == 0
    assert "oubtful: single runs, no error bars" in told.out
