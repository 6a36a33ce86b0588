"""Charts, tables, comparisons and notebooks, through the command line and the library."""

import json
import os
import re
import threading

import pytest

import nodewise as nodewise_package
from nodewise.base.errors import NodewiseError
from nodewise.cli.plot import NAMES
from nodewise.report.charts.draw import CHARTS
from nodewise.study import store
from nodewise.study.study import Run
from tests.conftest import DATA, GOLDEN
from tests.study.test_spec import MINIMAL

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


def test_the_first_screen_as_one_slide(nodewise, tmp_path):
    for form, begin in (("png", b"\x89PNG"), ("svg", b"<svg")):
        target = tmp_path / f"slide.{form}"
        outcome = nodewise("plot", "--slide", TABLE, "--price", "3.2", "-o", target)
        assert outcome.code == 0, outcome.err
        assert target.read_bytes().startswith(begin)
    drawn = target.read_text()
    for words in ("breakdown: run on 4 nodes", "cheapest (K*): K=1", "12.60x of 16x lost"):
        assert words in drawn
    width, height = map(float, re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn).groups())
    assert 1.6 < width / height < 1.95
    for wrong in ([TABLE], ["--slide", TABLE, "speedup"]):
        assert nodewise("plot", *wrong, "-o", target).code == 2


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
    assert [row["second_is"] for row in result["rows"]] == ["not distinguishable", *["faster"] * 3]
    for form in ("html", "svg"):
        assert nodewise("compare", *pair, "-o", tmp_path / f"x.{form}").code == 0
    assert "ddp-step against ddp-slow-node" in (tmp_path / "x.html").read_text()
    assert nodewise("compare", TABLE, TABLE, "-o", tmp_path / "x.gif").code == 2


def test_a_job_in_a_notebook(tmp_path):
    job = nodewise_package.open(TABLE)
    answer = "breakdown: run on 4 nodes, 4m20s and 0.289 node-h a run"
    assert repr(job) == f"{answer}; doubtful: single runs, no error bars"
    assert job.decide(price=3.20).recommended.nodes == 4
    assert job.decide(price=3.20, deadline="250s").recommended.nodes == 8
    assert job.scale(threshold=0.4).bend.first_below == 16
    assert job.attribute().dominant_cause == "communication"
    assert job.predict(32).rows[-1].nodes == 32
    assert job.audit().name == "breakdown"
    assert job.ask(price=3.20) is job.ask(price=3.20)  # computed once
    shown = job._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown  # the page inside is quoted
    for result in (job.scale(), job.attribute(), job.decide(), job.predict()):
        assert "<table>" in result._repr_html_()
    assert "28 of 36 rules" in job.audit()._repr_html_()
    chart = job.chart("speedup")._repr_mimebundle_()
    assert chart["image/svg+xml"].startswith("<svg")
    assert json.dumps(chart["application/vnd.vegalite.v6+json"])
    page = job.report(tmp_path / "page.html", price=3.20)
    assert nodewise_package.open(page).decide().price.per_node_hour == 3.20
    with pytest.raises(NodewiseError, match="'x' is not a chart"):
        job.chart("x")
    with pytest.raises(NodewiseError, match="'prise' is not an input"):
        job.decide(prise=3)


def test_a_job_is_opened_from_a_folder_and_a_log(tmp_path):
    store.create(tmp_path / "a.study", MINIMAL + "[price]\nper_node_hour = 2\n")
    for nodes in (1, 2):
        store.append(tmp_path / "a.study", Run(nodes=nodes, round=0, seconds=10.0 / nodes))
    job = nodewise_package.open(tmp_path / "a.study")
    assert job.decide().price.per_node_hour == 2
    assert job.decide(regime="weak").regime == "weak"
    log = tmp_path / "hyperfine.json"
    runs = [
        {"command": f"job {k}", "parameters": {"K": str(k)}, "times": [8.0 / k, 8.1 / k]}
        for k in (1, 2)
    ]
    log.write_text(json.dumps({"results": runs}))
    assert nodewise_package.open(log).scale().rows[-1].speedup == pytest.approx(2)


def test_the_notebook_of_version_0_1_keeps_working():
    with pytest.warns(DeprecationWarning, match=r"nodewise\.report\.notebook"):
        from nodewise.notebook import open_study
    assert open_study(TABLE, price=3.2).findings.decision.recommended.nodes == 4


def test_another_regime_reads_the_rates_of_a_table_again(tmp_path):
    table = tmp_path / "rates.csv"
    table.write_text("K,throughput\n1,100\n2,190\n4,360\n8,640\n")
    opened = nodewise_package.open(table, regime="weak").scale().rows[-1].speedup
    assert nodewise_package.open(table).scale(regime="weak").rows[-1].speedup == opened
    assert opened == pytest.approx(6.4)
    with pytest.raises(NodewiseError, match="not a regime"):
        nodewise_package.open(table, regime="weka")


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("K,time_s\n1,10\n2,6\n",))
    writer.start()
    assert nodewise_package.open(pipe).study.scales == (1, 2)
    writer.join()
