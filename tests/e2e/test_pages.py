"""Pages of a fleet, a claim, a trace, a diagnosis and a plan, in a real browser."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from nodewise.audit.rules import read_rules
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.report.findings import find
from nodewise.report.page.html import page, study_of_page
from nodewise.report.page.vega import vega_bundle
from nodewise.study.study import Rank, Run, Study
from tests.conftest import GOLDEN

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STEP = ["--peak-flops", "20T", "--memory-bandwidth", "800GB/s", "--flops", "6T", "--bytes", "120GB"]
EXCHANGE = ["--net-bytes", "4GB", "--net-bandwidth", "25GB/s", "--alpha", "10us"]
# The command of each kind, its exit code, and the charts of its first screen.
KINDS = {
    "fleet": (["fleet", "decide", "{windows}", "--ttft", "100ms", "--price", "2.1",
               "--demand", "60"], 0, ["latency", "capacity", "tokens"]),
    "audit": (["audit", str(GOLDEN / "vendor-claim.md")], 1, ["claim", "efficiency", "implied"]),
    "audits": (["audit", str(GOLDEN / "vendor-claim.md"), str(GOLDEN / "linear-claim.csv")],
               1, ["rules"]),
    "trace": (["trace", str(ROOT / "tests/data/traces/k4")], 0, ["timeline", "breakdown", "late"]),
    "plan": (["plan", str(GOLDEN / "gpt-22b.toml"), str(GOLDEN / "a100-cluster.toml")],
             0, ["throughput", "step", "memory"]),
    "diagnose": (["diagnose", "--needs", "40GB", "--device-memory", "80GB", *STEP, *EXCHANGE],
                 0, ["flow", "roofline", "exchange"]),
    "diagnose-memory": (["diagnose", "--propose", "fsdp", "--parameters", "13e9",
                         "--device-memory", "80GB"], 0, ["flow", "memory"]),
    "diagnose-study": (["diagnose", str(GOLDEN / "ddp-step.csv")], 0, ["flow", "ledger"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """The page of each kind, written by its command."""
    folder = tmp_path_factory.mktemp("pages")
    windows = folder / "windows.jsonl"
    maker = ROOT / "examples" / "fleet" / "simulated_windows.py"
    subprocess.run([sys.executable, str(maker), str(windows)], check=True, capture_output=True)
    made = {}
    for name, (command, code, _) in KINDS.items():
        made[name] = folder / f"{name}.html"
        words = [word.format(windows=windows) for word in command]
        done = subprocess.run(
            [sys.executable, "-m", "nodewise", *words, "--page", str(made[name])],
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert f"Wrote {made[name]}." in done.stderr
    return made


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A window of a desktop without scripts, where nothing may be asked of the network."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 900}, java_script_enabled=False
    )
    shown = context.new_page()
    asked: list[str] = []
    shown.on("request", lambda one: asked.append(one.url) if one.url.startswith("http") else None)
    yield shown
    context.close()
    assert asked == []


@pytest.mark.parametrize("name", KINDS)
def test_the_first_screen_has_the_answer_and_its_charts_without_scripts(name, pages, tab):
    content = pages[name].read_text()
    assert len(content.encode()) < 400_000
    assert '<script type="module"' not in content
    tab.goto(pages[name].as_uri())
    charts = KINDS[name][2]
    assert tab.locator(".verdict").inner_text()
    for chart in charts:
        place = tab.locator(f"#first #figure-{chart} .chart > svg").bounding_box()
        assert place is not None and place["y"] + place["height"] <= 900, chart
    assert tab.locator("#first figure").count() == len(charts)
    assert tab.locator("#reproduce pre").count() == 1


# Texts of a chart that lie over each other by more than a third of a line.
OVERLAPS = """() => [...document.querySelectorAll(".chart > svg")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].filter((one) => one.textContent.trim())
    .map((one) => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], at) => boxes.slice(at + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 4 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5)
    .map(([other]) => `${text} / ${other}`));
})"""
CUT = """() => [...document.querySelectorAll("#first .chart > svg")].flatMap((svg) => {
  const place = svg.closest("figure").getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && (box.left < place.left || box.right > place.right);
  }).map((one) => one.textContent);
})"""
SENTENCES = """() => [...document.querySelectorAll("p, li")].map((one) => one.textContent)
  .flatMap((text) => text.split(/(?<=[.]) /)).map((one) => one.trim().toLowerCase())"""


@pytest.mark.parametrize("name", KINDS)
def test_a_page_is_accessible_fits_and_says_nothing_twice(name, pages, browser):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    try:
        tab.goto(pages[name].as_uri())
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            found = Axe().run(tab)
            assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"
        assert tab.evaluate(OVERLAPS) == []
        assert tab.evaluate(CUT) == []
        said = [one for one in tab.evaluate(SENTENCES) if len(one) > 40]
        assert {one for one in said if said.count(one) > 1} == set()
        tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        tab.set_viewport_size({"width": 400, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        marks = tab.locator("#scales tr.strong td").first
        if marks.count():
            assert marks.bounding_box()["x"] + marks.bounding_box()["width"] <= 400
    finally:
        context.close()


@pytest.mark.parametrize("name", ["fleet", "plan"])
def test_the_chosen_scale_is_marked_on_every_chart_over_k(name, pages, tab):
    tab.goto(pages[name].as_uri())
    chosen = {"fleet": ("2", ["capacity", "tokens"]), "plan": ("64", KINDS["plan"][2])}
    words, charts = chosen[name]
    for chart in charts:
        svg = tab.locator(f"#figure-{chart} .chart > svg").inner_html()
        tick = re.findall(r'<text[^>]*font-weight="bold"[^>]*>([^<]*)</text>', svg)
        assert words in tick, chart


def test_the_flow_marks_the_way_and_gives_the_figure_of_each_fork(pages, tab):
    tab.goto(pages["diagnose"].as_uri())
    texts = tab.locator("#figure-flow svg text").all_text_contents()
    assert "it needs 40 GB, 0.5 times the 80 GB of one device" in texts
    assert "50 FLOP per byte against a ridge of 25" in texts
    assert {"yes", "no", "not known"} <= set(texts)
    strong = tab.locator('#figure-flow svg text[font-weight="bold"]').all_text_contents()
    assert strong == ["yes", "yes"]  # memory suffices, and so does the link


def test_a_page_is_printed_on_four_sheets_at_most(tmp_path, nodewise, browser):
    target = tmp_path / "plan.pdf"
    made = nodewise("plan", GOLDEN / "gpt-22b.toml", GOLDEN / "a100-cluster.toml", "--page", target)
    assert made.code == 0, made.err
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", target.read_bytes())) <= 4


def test_a_page_has_a_name_of_its_kind(tmp_path, nodewise):
    wrong = nodewise("audit", GOLDEN / "vendor-claim.md", "--page", tmp_path / "page.txt")
    assert wrong.code == 2
    assert "must end in .html or .pdf" in wrong.err


def many_ranks(rounds: int = 7) -> Study:
    """64 ranks, the last but one slower than the rest."""
    generator, runs = random.Random(1), []
    for number in range(rounds):
        for nodes in (1, 2, 4, 8, 16, 32, 64):
            slow = 0.3 if nodes > 1 else 0.0
            busy = [
                64 / nodes * (1 + 0.03 * generator.random() + slow * (rank == nodes - 2))
                for rank in range(nodes)
            ]
            seconds = max(busy) + 0.3
            ranks = tuple(
                Rank(
                    rank=rank,
                    stages={"compute": one, "communication": 0.2, "idle": max(busy) - one,
                            "io": 0.1, "serial": 0.0},
                    items=1000 / nodes, seconds=seconds, host=f"node{rank:03}.example",
                )
                for rank, one in enumerate(busy)
            )  # fmt: skip
            runs.append(Run(nodes=nodes, round=number, seconds=seconds, ranks=ranks, work=1000.0))
    return Study(name="many ranks", regime="strong", runs=tuple(runs))


def test_a_study_of_many_ranks_stays_small_and_shows_the_late_one():
    study, asked = many_ranks(), Question(price=Price(per_node_hour=2.1))
    findings = find(study, asked, read_rules())
    plain = page(study, findings, "nodewise report x")
    live = page(study, findings, "nodewise report x", vega_bundle())
    assert len(plain.encode()) < 400_000
    assert len(live.encode()) < 1_300_000
    for made in (plain, live):  # the study inside is compressed, and whole
        assert study_of_page(made.encode()) == (study, asked)
    assert "16 of the 64 ranks are drawn" in plain
    assert re.search(r"Rank 62 is \d\d % busier than the median", plain)
    assert "nodes are idle for" in plain  # with what that costs


def test_ranks_without_stages_have_no_map():
    study = many_ranks(2)
    bare = Study(
        name="bare",
        regime="strong",
        runs=tuple(
            Run(nodes=run.nodes, round=run.round, seconds=run.seconds) for run in study.runs
        ),
    )
    assert "figure-ranks" not in page(bare, find(bare, Question(), ()), "x")
