"""Charts, tables, comparisons and notebooks, through the command line and the library."""

import json

import pytest

from nodewise.cli.plot import NAMES
from nodewise.report.charts.draw import CHARTS
from nodewise.report.notebook import open_study
from tests.conftest import DATA, GOLDEN

pytestmark = pytest.mark.slow

TABLE = GOLDEN / "breakdown.csv"


def test_the_command_line_knows_every_chart():
    assert tuple(CHARTS) == NAMES


@pytest.mark.parametrize(
    ("form", "begin"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("json", b"{")]
)
def test_a_chart_in_every_format_and_size(nodewise, tmp_path, form, begin):
    for size in ("screen", "paper", "slide"):
        target = tmp_path / f"{size}.{form}"
        outcome = nodewise("plot", TABLE, "speedup", "--size", size, "-o", target)
        assert outcome.code == 0, outcome.err
        assert target.read_bytes().startswith(begin)


def test_a_chart_that_lacks_its_data_says_what_it_needs(nodewise, tmp_path):
    outcome = nodewise("plot", TABLE, "triangle", "-o", tmp_path / "x.svg")
    assert outcome.code == 4
    assert outcome.err.splitlines()[1].endswith("quality of every run.")
    assert nodewise("plot", TABLE, "speedup", "-o", tmp_path / "x.gif").code == 2
    assert nodewise("plot", TABLE, "speedup", "-o", tmp_path / "no" / "x.svg").code == 2


@pytest.mark.parametrize("name", ["rubric", "scaling", "laws", "ledger", "causes", "marginal"])
def test_tables_for_papers(nodewise, tmp_path, name):
    for form in ("md", "tex", "csv"):
        target = tmp_path / f"{name}.{form}"
        outcome = nodewise("table", TABLE, name, "--price", "3.2", "-o", target)
        assert outcome.code == 0, outcome.err
    lines = (tmp_path / f"{name}.csv").read_text().splitlines()
    body = (tmp_path / f"{name}.tex").read_text()
    assert body.count(r"\\") == len(lines)
    assert (tmp_path / f"{name}.md").read_text().count("\n") == len(lines) + 1


def test_the_golden_rubric_as_latex(nodewise):
    outcome = nodewise("table", GOLDEN / "rubric.csv", "rubric")
    assert "| 8 | 560.0 | 6.43 | 0.804 | 0.871 | $1.244 |" in outcome.out


def test_two_studies_side_by_side(nodewise, tmp_path):
    pair = [DATA / "ddp-slow-node.csv", GOLDEN / "ddp-step.csv"]
    result = nodewise("compare", *pair, "--json").json
    assert [row["K"] for row in result["rows"]] == [1, 2, 4, 8]
    assert all(row["second_is"] == "unknown" for row in result["rows"])  # five rounds
    for form in ("html", "svg"):
        assert nodewise("compare", *pair, "-o", tmp_path / f"x.{form}").code == 0
    assert "ddp-step against ddp-slow-node" in (tmp_path / "x.html").read_text()
    assert nodewise("compare", TABLE, TABLE, "-o", tmp_path / "x.gif").code == 2


def test_a_study_in_a_notebook():
    report = open_study(TABLE, price=3.2)
    assert repr(report) == "breakdown: run on 4 nodes, 4.33 min and $0.924 a run"
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown  # the page inside is quoted
    chart = report.chart("speedup")._repr_mimebundle_()
    assert chart["image/svg+xml"].startswith("<svg")
    assert json.dumps(chart["application/vnd.vegalite.v6+json"])
    with pytest.raises(Exception, match="There is no chart x"):
        report.chart("x")
