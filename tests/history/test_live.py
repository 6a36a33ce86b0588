"""Histories on the local page, and the page of a history."""

import re

import altair as alt
import jsonschema
import pytest

from nodewise.decide.prices.lookup import question_of
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.history.entry import entry_of
from nodewise.history.file import append, place_of
from nodewise.history.trend import history, trends
from nodewise.report.charts.look import sized
from nodewise.report.live.server import Server
from nodewise.report.page.history import history_page
from nodewise.study import store

SPEC = 'name = "job"\nscales = [1, 2]\nrounds = 3\n[workload]\ncommand = ["true"]\n'


@pytest.fixture
def server(tmp_path, usual):
    store.create(tmp_path / "job.study", SPEC)
    for run in simulate(PlantedTruth(law=Law(s=0.1), scales=(1, 2), rounds=3)).runs:
        store.append(tmp_path / "job.study", run)
    study = store.load(tmp_path / "job.study")
    own = entry_of(study, question_of({}), date="2026-05-01T00:00:00Z", workload="solver")
    append(place_of(str(tmp_path)), [*usual[:4], own])
    with Server(tmp_path) as made:
        yield made


def get(server, address):
    answer = server.answer("127.0.0.1", f"/{server.token}/{address}")
    assert answer.status == 200
    return answer.body


def test_the_board_lists_the_histories_of_a_folder(server):
    board = get(server, "")
    assert '<h2 id="histories-title">Histories</h2>' in board
    (address,) = re.findall(r'href="(history/\w+/)">history.jsonl</a>: 5 studies; ', board)
    page = get(server, address)
    assert "history of scaling studies" in page
    assert page.count("<svg") >= 3
    assert '"histories"' in get(server, "state.json")


def test_a_study_knows_its_place_in_its_history(server):
    (study,) = re.findall(r'href="(study/\w+/)"', get(server, ""))
    page = get(server, study)
    found = re.search(r'Study 5 of 5 in its <a href="../../(history/\w+/)">history</a>', page)
    assert found
    get(server, found[1])


def test_a_damaged_history_is_said_and_hides_nothing(server, tmp_path):
    (tmp_path / "history.jsonl").write_text("{}\n")
    board = get(server, "")
    assert "Line 1 of" in board
    assert 'href="study/' in board


def test_a_page_shows_every_metric_the_heat_map_and_the_ledger(usual):
    found = history("history.jsonl", usual)
    content = history_page(found, trends(usual, found.check.machine))
    assert [figure.name for figure in content.figures] == ["speedup", "efficiency", "cost"]
    assert {"heat", "ledger"} <= {section.name for section in content.sections}
    rows = content.figures[0].rows
    assert len(rows) == 12 * 3  # at every K but the first
    assert all(row["low"] < row["value"] < row["high"] for row in rows)
    assert content.verdict.lower().startswith("passed")
    schema = jsonschema.Draft7Validator(alt.load_schema())
    drawn = [*content.figures, *(one for part in content.sections for one in part.figures)]
    for figure in drawn:
        assert not [*schema.iter_errors(sized(figure.chart))], figure.name
