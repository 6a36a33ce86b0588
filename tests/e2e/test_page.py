"""The report page in a real browser: drawn, quiet, accessible, live, and readable again."""

import functools
import json
import random
import re
from collections.abc import Iterator

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from nodewise.audit.rules import read_rules
from nodewise.base.interval import Interval
from nodewise.decide.candidates import Needs
from nodewise.decide.energy import NodePower, Site, find_grid
from nodewise.decide.inputs import Question, with_range
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.files import shipped_grids
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.findings import find
from nodewise.report.page.html import page, study_of_page
from nodewise.report.page.vega import vega_bundle
from nodewise.study.spec import Spec, Workload
from nodewise.study.study import Rank, Run, Study
from nodewise.study.table import parse_table
from tests.conftest import GOLDEN, golden_study

pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script>"
TEXTBOOK = Law(s=0.03, c=0.0015, base_seconds=3600.0)


def textbook() -> Study:
    """The worked example at every K up to 64, without noise."""
    rows = "\n".join(f"{k},{TEXTBOOK.seconds(float(k))!r}" for k in range(1, 65))
    return parse_table(f"K,time_s\n{rows}\n", "textbook")


def with_a_crash() -> Study:
    study = simulate(PlantedTruth(law=Law(s=0.05, c=0.002), scales=(1, 2, 4), rounds=7, noise=0.03))
    crash = Run(nodes=8, round=0, seconds=3.0, outcome="crashed", detail="exit code 3\nno luck")
    spec = Spec(name="crash", scales=(1, 2, 4, 8), workload=Workload(command=("true",)))
    return Study(name="crash", regime="strong", runs=(*study.runs, crash), spec=spec)


def with_ranks() -> Study:
    runs = []
    for number in range(6):
        for nodes in (1, 2, 4):
            ranks = tuple(
                Rank(
                    rank=rank,
                    stages={"compute": 8 / nodes + 0.1 * rank, "communication": 0.2 * (nodes > 1),
                            "idle": 0.1 * (nodes - 1 - rank), "io": 0.05, "serial": 0.0},
                    items=12 / nodes,
                )
                for rank in range(nodes)
            )  # fmt: skip
            runs.append(
                Run(
                    nodes=nodes,
                    round=number,
                    seconds=8 / nodes + 0.4 + 0.02 * number,
                    ranks=ranks,
                    quality=0.9 + 0.0001 * number,
                    work=12.0,
                )
            )
    return Study(name=EVIL, regime="strong", runs=tuple(runs))


STUDIES = {
    "step-times": lambda: golden_study("step-times"),
    "rubric": lambda: golden_study("rubric"),
    "breakdown": lambda: golden_study("breakdown"),
    "weak": lambda: simulate(PlantedTruth(law=Law(c=0.01, regime="weak"))),
    "crash": with_a_crash,
    "evil ranks": with_ranks,
    "two single runs": lambda: parse_table("K,time_s\n1,10\n2,6\n", "two"),
    "textbook": textbook,
}
VEGA = vega_bundle()
PRICED = Question(price=Price(per_node_hour=2.1, fixed_per_hour=9.0, source="a list, 2026-01-01"))


@functools.cache
def study_of(name: str) -> Study:
    return STUDIES[name]()


@functools.cache
def html(name: str, question: bytes) -> str:
    """A page; rendering one takes about a second, so each is rendered once."""
    study = study_of(name)
    asked = msgspec.json.decode(question, type=Question)
    return page(study, find(study, asked, read_rules()), "nodewise report x", VEGA)


def page_of(name: str, question: Question = PRICED) -> str:
    return html(name, msgspec.json.encode(question))


# Until the charts have followed the size of the window.
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def tabs(browser, tmp_path_factory) -> Iterator:
    """Opens each page once: Chromium needs seconds of a core to draw its charts."""
    folder, open_tabs, contexts = tmp_path_factory.mktemp("pages"), {}, []

    def load(content: str, **options) -> Page:
        path = folder / f"page-{len(contexts)}.html"
        path.write_text(content, encoding="utf-8")
        contexts.append(browser.new_context(**options))
        tab = contexts[-1].new_page()
        tab.said = []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.on("request", lambda request: tab.said.append(request.url)
               if request.url.startswith(("http", "ws")) else None)  # fmt: skip
        tab.goto(path.as_uri())
        tab.wait_for_function("document.documentElement.dataset.charts === 'drawn'", timeout=90_000)
        return tab

    def open_page(
        name: str, question: Question = PRICED, width: int = 1400, scheme: str = "light"
    ) -> Page:
        """A tab as it was when it was opened: its window as wide, its sliders where they were."""
        content, size = page_of(name, question), {"width": width, "height": 900}
        key = (content, width, scheme)
        if key not in open_tabs:
            open_tabs[key] = load(content, viewport=size, color_scheme=scheme)
        tab = open_tabs[key]
        tab.set_viewport_size(size)
        tab.evaluate("document.getElementById('live')?.reset()")
        tab.evaluate(
            "document.querySelectorAll('details').forEach(one => one.open = one.id === 'cost')"
        )
        tab.evaluate(TWO_FRAMES)
        return tab

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def opened(tabs) -> Iterator:
    """The tabs, none of which may say anything during a test."""
    used = []

    def open_page(*arguments, **options) -> Page:
        used.append(tabs(*arguments, **options))
        return used[-1]

    yield open_page
    assert [tab.said for tab in used] == [[]] * len(used)


UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_shows_every_chart_says_nothing_and_asks_for_nothing(opened, name):
    most = 1_400_000 if name == "textbook" else 1_300_000  # 64 scales
    assert len(page_of(name).encode()) < most
    tab = opened(name)
    assert tab.said == []
    drawn = tab.eval_on_selector_all(
        "[data-chart]", "all => all.map(one => one.querySelectorAll('svg path, svg text').length)"
    )
    assert len(drawn) >= 4
    assert min(drawn) > 5
    tab.evaluate(UNFOLD)
    for width in (1400, 800, 400):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate(TWO_FRAMES)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert charts_beyond_their_place(tab) == []


def charts_beyond_their_place(tab: Page) -> list[str]:
    return tab.eval_on_selector_all(
        "figure svg",
        "all => all.filter(one => one.getBoundingClientRect().right > "
        "one.closest('figure').getBoundingClientRect().right)"
        ".map(one => one.closest('[data-chart]').dataset.chart)",
    )


@pytest.mark.parametrize("name", STUDIES)
def test_the_first_screen_has_the_answer_and_three_charts(opened, name):
    tab = opened(name)
    tab.evaluate("window.scrollTo(0, 0)")
    places = tab.eval_on_selector_all(
        "#first .chart svg", "all => all.map(one => one.getBoundingClientRect().toJSON())"
    )
    assert len(places) == 3
    assert max(place["bottom"] for place in places) <= 900
    assert places[0]["right"] <= places[1]["left"] and places[1]["right"] <= places[2]["left"]
    cards = tab.eval_on_selector_all(".cards div", "all => all.map(one => one.offsetTop)")
    assert len(set(cards)) == 1  # one row


SENTENCES = """() => {
  const parts = [...document.querySelectorAll("p, li, figcaption p")].map((one) => one.textContent);
  return parts.flatMap((text) => text.split(/(?<=[.]) /)).map((one) => one.trim());
}"""


@pytest.mark.parametrize("name", STUDIES)
def test_nothing_is_said_or_drawn_twice(opened, name):
    tab = opened(name)
    said = [one.lower() for one in tab.evaluate(SENTENCES) if len(one) > 40]
    assert {one for one in said if said.count(one) > 1} == set()
    charts = tab.eval_on_selector_all("[data-chart]", "all => all.map(one => one.dataset.chart)")
    assert len(charts) == len(set(charts))


def test_without_scripts_every_chart_is_there_and_the_page_is_small(browser, tmp_path, nodewise):
    target = tmp_path / "static.html"
    made = nodewise("report", GOLDEN / "breakdown.csv", "--price", "2", "--static", "-o", target)
    assert made.code == 0, made.err
    content = target.read_text()
    assert len(content.encode()) < 400_000
    assert 'type="module"' not in content
    assert study_of_page(content.encode())[0] == golden_study("breakdown")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(target.as_uri())
    assert tab.locator("[data-chart] > svg").count() == tab.locator("[data-chart]").count() >= 8
    assert tab.locator("#first .chart > svg").first.is_visible()
    assert tab.locator("input").count() == 1  # the switch to linear axes, which needs no script
    shown = tab.locator("#figure-speedup .chart > svg"), tab.locator("#figure-speedup .linear svg")
    assert [one.is_visible() for one in shown] == [True, False]
    tab.check("#axes")
    assert [one.is_visible() for one in shown] == [False, True]
    context.close()


def test_a_chart_shows_the_values_under_the_pointer(opened):
    tab = opened("breakdown")
    tab.hover("#figure-speedup .chart")
    tab.wait_for_selector("#figure-speedup .vega-embed svg", timeout=90_000)
    points = tab.locator("#figure-speedup .mark-symbol path")
    points.first.hover(timeout=90_000)
    assert "time" in tab.inner_text("#vg-tooltip-element")


def test_axes_can_be_linear(opened):
    tab = opened("breakdown")
    tab.check("#axes")
    tab.wait_for_selector("#figure-speedup .vega-embed svg", timeout=90_000)
    labels = "[...document.querySelectorAll('#figure-speedup .role-axis-label text')]"
    places = tab.evaluate(f"{labels}.slice(0, 3).map(one => one.getBoundingClientRect().left)")
    assert places[2] - places[1] > 1.5 * (places[1] - places[0])  # 1, 2 and 4
    tab.uncheck("#axes")
    tab.wait_for_function(
        f"(p => p[2] - p[1] < 1.3 * (p[1] - p[0]))({labels}.slice(0, 3)"
        ".map(one => one.getBoundingClientRect().left))",
        timeout=90_000,
    )


def test_on_a_small_screen_charts_are_below_each_other_and_the_recommended_row_is_marked(opened):
    tab = opened("evil ranks", width=400)
    lefts = tab.eval_on_selector_all(
        "#first svg", "all => all.map(one => one.getBoundingClientRect().left)"
    )
    assert len(set(lefts)) == 1
    mark = tab.evaluate(
        "document.querySelector('#scales tr.strong td').getBoundingClientRect().toJSON()"
    )
    assert mark["right"] <= 400
    assert "recommended" in tab.inner_text("#scales tr.strong td:first-child")


def test_a_printed_report_of_five_scales_has_four_pages_at_most(tmp_path, nodewise, browser):
    target = tmp_path / "page.pdf"
    made = nodewise("report", GOLDEN / "breakdown.csv", "--price", "3.20", "-o", target)
    assert made.code == 0, made.err
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", target.read_bytes())) <= 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation_of_accessibility(opened, scheme):
    tab = opened("evil ranks", scheme=scheme)
    found = Axe().run(tab).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps(serious, indent=1)[:3000]


def test_colours_follow_the_scheme(opened):
    colours = {
        scheme: opened("evil ranks", scheme=scheme).evaluate(
            "getComputedStyle(document.querySelector('#figure-speedup svg text')).fill"
        )
        for scheme in ("light", "dark")
    }
    assert colours["light"] != colours["dark"]


def test_user_text_is_text(opened):
    tab = opened("evil ranks")
    assert tab.said == []
    assert EVIL in tab.inner_text("h1")


def choose(tab: Page, **values: float) -> dict[str, str]:
    """Type values one by one, as a reader does; the page answers after each."""
    for name, value in values.items():
        tab.fill(f"#live-{name}-number", repr(value))
    return tab.evaluate("({...document.getElementById('live-verdict').dataset})")


def choose_at_once(tab: Page, values: dict[str, float]) -> dict[str, str]:
    """Set all values and let the page answer once: drawing after each takes most of the time."""
    return tab.evaluate(
        """values => {
          let field;
          for (const [name, value] of Object.entries(values)) {
            field = document.getElementById(`live-${name}-number`);
            field.value = value;
          }
          field.dispatchEvent(new Event("input"));
          return {...document.getElementById("live-verdict").dataset};
        }""",
        {name: repr(value) for name, value in values.items()},
    )


def test_the_sliders_give_the_answers_of_the_textbook(opened):
    tab = opened("textbook")
    start = choose(tab)
    assert (start["cheapest"], start["fastest"]) == ("8", "25")
    discounts = {0.3: "9", 0.5: "11", 0.7: "13", 0.8: "14", 0.9: "17"}
    for discount, nodes in discounts.items():
        assert choose(tab, price=2.1 * (1 - discount))["cheapest"] == nodes
    choose(tab, price=2.1)
    overheads = {
        0: "1",
        1: "3",
        2: "5",
        4.5: "6",
        9: "8",
        18: "11",
        50: "15",
        200: "20",
        1000: "24",
    }
    for overhead, nodes in overheads.items():
        assert choose(tab, fixed=overhead)["cheapest"] == nodes
    assert choose(tab, fixed=9.0, deadline=540.0)["cheapest"] == "9"
    tab.evaluate("document.getElementById('live').reset()")
    assert choose(tab) == start
    assert "K=8 ($4.173)" in tab.text_content("#live-verdict")


def test_a_slider_moves_the_curve(opened):
    tab = opened("textbook")
    read = "document.querySelector('#figure-cost svg').outerHTML"
    before = tab.evaluate(read)
    tab.evaluate(
        "const s = document.getElementById('live-price'); s.value = s.max;"
        "s.dispatchEvent(new Event('input'))"
    )
    tab.wait_for_function(f"{read} !== {json.dumps(before)}", timeout=90_000)
    moved = choose(tab)["cheapest"]
    assert moved != "8"
    tab.wait_for_function(
        f"document.querySelector('#figure-cost svg').textContent.includes('(K*): K={moved},')",
        timeout=90_000,
    )


@pytest.mark.parametrize("name", ["rubric", "weak", "evil ranks", "step-times"])
def test_any_price_gives_what_decide_gives(opened, name):
    study, tab = study_of(name), opened(name)
    generator = random.Random(name)
    slowest = max(run.seconds for run in study.runs)
    for _ in range(15):
        values = {
            "price": round(10 ** generator.uniform(-2, 2), 3),
            "fixed": generator.choice([0.0, round(10 ** generator.uniform(-1, 3), 3)]),
            "deadline": generator.choice([0.0, round(generator.uniform(0.1, 1.1) * slowest, 6)]),
            "threshold": round(generator.random(), 2),
        }
        shown = choose_at_once(tab, values)
        needs = PRICED.needs.__class__(
            deadline_seconds=values["deadline"] or None, threshold=values["threshold"]
        )
        price = Price(per_node_hour=values["price"], fixed_per_hour=values["fixed"])
        decision = find(study, Question(price=price, needs=needs), ()).decision
        expected = {
            "cheapest": decision.cheapest.nodes if decision.cheapest else "",
            "fastest": decision.fastest.nodes if decision.fastest else "",
            "chosen": decision.recommended.nodes or "",
        }
        assert shown == {name: str(nodes) for name, nodes in expected.items()}, values


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_can_be_read_back(name):
    assert study_of_page(page_of(name).encode()) == (study_of(name), PRICED)


def test_reports_of_every_kind(tmp_path, nodewise, browser):
    table = GOLDEN / "step-times.csv"
    for target in ("page.html", "page.md", "page.pdf"):
        outcome = nodewise("report", str(table), "--price", "2", "-o", str(tmp_path / target))
        assert outcome.code == 0, outcome.err
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    text = (tmp_path / "page.md").read_text()
    assert "![Speedup" in text
    assert (tmp_path / "page_figures" / "speedup.svg").read_text().startswith("<svg")
    again = nodewise("report", str(tmp_path / "page.html"), "-o", str(tmp_path / "again.html"))
    assert again.code == 0, again.err
    first, second = (
        study_of_page((tmp_path / f"{n}.html").read_bytes()) for n in ("page", "again")
    )
    assert first == second


def whole_question(**changes) -> Question:
    """All that a bill and its gates can hold beside what the sliders move."""
    price = Price(per_node_hour=2.1, fixed_per_hour=9.0, startup_seconds=0.02,
                  storage_per_hour=3.0, egress=0.001)  # fmt: skip
    site = Site(
        power=NodePower(idle_watts=100, busy_watts=350),
        shared_watts=200.0,
        grid=find_grid(shipped_grids(), "FRA"),
    )
    return Question(price=price, site=site, **changes)


def shown_for(study: Study, question: Question) -> dict[str, str]:
    decision = find(study, question, ()).decision
    choices = {
        "cheapest": decision.cheapest.nodes if decision.cheapest else "",
        "fastest": decision.fastest.nodes if decision.fastest else "",
        "chosen": decision.recommended.nodes or "",
    }
    return {name: str(nodes) for name, nodes in choices.items()}


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("weak", "budget"),
        ("evil ranks", "energy_budget_joules"),
        ("step-times", "carbon_budget_grams"),
    ],
)
def test_storage_egress_and_budgets_count_as_decide_counts_them(opened, name, gate):
    study = study_of(name)
    plain = find(study, whole_question(), ()).decision
    field = {"energy_budget_joules": "energy_joules", "carbon_budget_grams": "grams"}
    spent = sorted(getattr(row, field.get(gate, "cost")) for row in plain.rows)
    needs = Needs(**{gate: spent[len(spent) // 2]})
    question = whole_question(needs=needs)
    tab = opened(name, question)
    assert choose(tab) == shown_for(study, question)
    assert any(row.excluded for row in find(study, question, ()).decision.rows)
    words = tab.inner_text("#live-also")
    assert "storage $3.000/h" in words
    assert "egress" in words
    generator = random.Random(name)
    for _ in range(8):
        values = {
            "price": round(10 ** generator.uniform(-1, 2), 3),
            "fixed": generator.choice([0.0, round(10 ** generator.uniform(-1, 2), 3)]),
            "threshold": round(generator.random(), 2),
        }
        price = msgspec.structs.replace(
            question.price, per_node_hour=values["price"], fixed_per_hour=values["fixed"]
        )
        other = msgspec.structs.replace(needs, threshold=values["threshold"])
        moved = msgspec.structs.replace(question, price=price, needs=other)
        assert choose_at_once(tab, values) == shown_for(study, moved), values


def test_ranges_stand_at_their_centres_and_are_shown(opened):
    study = study_of("textbook")
    question = with_range(PRICED, "fixed", Interval(4.0, 14.0))
    question = with_range(question, "startup", Interval(0.0, 120.0))
    tab = opened("textbook", question)
    assert choose(tab) == shown_for(study, question)
    words = tab.inner_text("#live-also")
    assert "overhead by the hour $4.000 to $14.000" in words
    assert "start-up" in words
    assert "How the lowest cost changes within the given ranges" in tab.text_content("#cost")


def test_energy_is_drawn_where_it_is_known(opened):
    tab = opened("step-times", whole_question())
    assert "modelled" in tab.text_content("#figure-energy")
    assert opened("step-times").query_selector("#figure-energy") is None
