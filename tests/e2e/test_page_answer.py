"""One table and one question have one answer: in the commands, the page, its sliders and the ui."""

import json
import random
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from playwright.sync_api import Browser, Page

from nodewise.decide.decide import decided
from nodewise.decide.inputs import INPUTS, Question, replaced, with_value
from nodewise.decide.objective import Judged
from nodewise.report.findings import find
from nodewise.report.live.studies import Studies
from tests.conftest import GOLDEN
from tests.jobs import measure, write_job
from tests.one_answer import Case, cases, unless_no_run_ends


def slider_code() -> str:
    """The part of the page's script that decides."""
    script = (resources.files("nodewise.report.page") / "page.js").read_text()
    found = re.search(r"^// The bill of one scale.*?(?=^function money)", script, re.M | re.S)
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def moved(question: Question, values: dict[str, Any], start: dict[str, Any]) -> Question:
    """The question with the sliders at other values, as the page takes them."""
    for name, value in values.items():
        if name == "deadline":
            question = replaced(question, INPUTS[name].path, value or None)
        elif value != start[name] and value is not None:
            question = with_value(question, name, value)
    if question.price.fixed_per_hour and start["price"] == 1.0 == values["price"]:
        question = with_value(question, "price", 1.0)  # hours of nodes count as one each
    return question


def expected(judged: Judged) -> dict[str, Any]:
    paid, total = judged.bills.billed.tolist(), judged.bills.total.tolist()
    return {
        "eligible": judged.eligible,
        "cheapest": judged.cheapest,
        "balanced": judged.balanced,
        "fastest": judged.fastest,
        "chosen": judged.chosen,
        "paid": pytest.approx(paid, rel=1e-9),
        "total": pytest.approx(total, rel=1e-9),
        **({} if judged.fastest is None else {"isClearlyFastest": judged.is_clearly_fastest}),
    }


@pytest.mark.slow
@settings(max_examples=25)
@given(cases())
def test_the_sliders_give_what_decide_gives_at_the_start_and_elsewhere(tab: Page, case: Case):
    question = case.job.question(**case.inputs)
    with unless_no_run_ends():
        findings = find(case.study, question)
    numbers = findings.sliders
    start = msgspec.to_builtins(numbers.asked)
    generator = random.Random(case.table)
    base = numbers.seconds[0]
    choices = {
        "price": (0.0, 0.5, 2.0, 7.7),
        "fixed": (0.0, 1.0, 20.0, 500.0),
        "deadline": (0.0, 0.1 * base, 0.4 * base, 1.2 * base),
        "threshold": (0.0, 0.2, 0.6, 0.95, 1.0),
    }
    asked = [start]
    for _ in range(3):
        names = generator.sample(sorted(choices), generator.randint(1, 4))
        asked.append(start | {name: generator.choice(choices[name]) for name in names})
    shown = tab.evaluate(
        """([code, live, asked]) => {
          const decide = new Function("live", `${code}; return decide;`)(live);
          return asked.map((one) => {
            const { bills, ...found } = decide(one);
            const of = (item) => bills.map((bill) => bill[item]);
            return { cheapest: null, balanced: null, fastest: null, chosen: null, ...found,
                     paid: of("paid"), total: of("total") };
          });
        }""",
        [slider_code(), msgspec.to_builtins(numbers), asked],
    )
    for values, found in zip(asked, shown, strict=True):
        judged = decided(case.study, moved(question, values, start)).judged
        assert found == expected(judged), values
    assert numbers.chosen == findings.decision.recommended.nodes


RATES = "K,time_s,rate_per_hour,energy_j\n1,100,2,900\n2,55,3.9,950\n4,32,7.6,1100\n8,22,15,1600\n"
GPUS = "gpus,gpus_per_node,rep,time_s,quality\n" + "".join(
    f"{k},4,{number},{(3600 / k + 40) * (1 + 0.01 * ((3 * number + k) % 5))},{0.9 - 0.001 * k}\n"
    for number in range(6)
    for k in (2, 4, 8, 16)
)
ASKED = {
    "step-times": (None, ["--price", "2", "--fixed", "9"]),
    "breakdown": (None, ["--price", "3.20", "--value-per-hour", "20", "--startup", "30s"]),
    "rates": (RATES, ["--budget", "0.09", "--budget", "1200J"]),
    "gpus": (GPUS, ["--price", "1.5..2.5/gpu", "--deadline", "20min", "--currency", "EUR"]),
    "hours": ("K,time_s\n1,100\n2,55\n4,32\n8,22\n", []),
}


def live_numbers(page: str) -> dict[str, Any]:
    """The numbers of the sliders inside a page."""
    found = re.search(r'id="nodewise-live">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("name", ASKED)
def test_every_command_gives_one_answer(name, tmp_path, nodewise):
    text, question = ASKED[name]
    table = GOLDEN / f"{name}.csv"
    if text is not None:
        table = tmp_path / f"{name}.csv"
        table.write_text(text)
    decision = nodewise("decide", table, *question, "--json").json
    best, objective = decision["recommended"], decision["objective"]
    assert best["K"] is not None
    row = next(row for row in decision["rows"] if row["K"] == best["K"])
    forecast = nodewise("predict", table, *question, "--json").json
    advice = nodewise("next", table, *question, "--json").json
    for other in (forecast, advice):
        assert (other["recommended"], other["objective"]) == (best, objective)
        assert (other["better"], other["currency"]) == (
            decision["better"], decision["price"]["currency"])  # fmt: skip
    predicted = next(one for one in forecast["rows"] if one["K"] == best["K"])
    assert predicted["cost"] == pytest.approx(row["cost"], rel=1e-9)
    if decision["better"] is None:
        assert advice["expected_cost"] == pytest.approx(row["cost"], rel=1e-9)
    page = tmp_path / "page.html"
    assert nodewise("report", table, *question, "-o", page).code == 0
    assert live_numbers(page.read_text())["chosen"] == best["K"]
    # the page holds the study and the question, so that every command can be asked of it
    assert nodewise("decide", page, "--json").json["recommended"] == best
    assert nodewise("next", page, "--json").json["recommended"] == best


JOB = """
import os, time
time.sleep(0.4 / int(os.environ["NODEWISE_NODES"]))
"""
PRICED = """
[price]
per_node_hour = 2.0
fixed_per_hour = 3.0
value_per_hour = 10.0
"""


@pytest.mark.slow
def test_a_measured_study_has_one_answer_in_its_page_its_result_and_the_ui(tmp_path, nodewise):
    spec = write_job(tmp_path, JOB, "1, 2, 4", rounds=2, timeout=60, more=PRICED)
    outcome = measure(spec, "--json", name="study")
    assert outcome.returncode == 0, outcome.stderr
    best = json.loads(outcome.stdout)["recommended"]
    folder = tmp_path / "job.study"
    assert json.loads((folder / "result.json").read_text())["recommended"] == best
    assert live_numbers((folder / "report.html").read_text())["chosen"] == best["K"]
    for command in ("decide", "next", "predict"):
        answer = nodewise(command, folder, "--json").json
        assert answer["recommended"] == best
        assert answer["objective"]["name"] == "lowest bill plus waiting"
    (shown,) = Studies(tmp_path).all()
    live = msgspec.json.encode(shown.reading.findings.decision.recommended)
    assert json.loads(live) == best


# For each input a value that matters, and the inputs beside which it does; the table has prices,
# quality, work and energy of its own unless it is "plain".
BESIDE = {
    "instance": ("aws:p4d.24xlarge", ["--per-node", "2"]),
    "prices": (str(GOLDEN / "prices.toml"), ["--instance", "lab:a100-node", "--per-node", "2"]),
    "price": ("3", []),
    "currency": ("EUR", []),
    "fixed": ("9", []),
    "startup": ("2min", []),
    "storage": ("2", []),
    "egress": ("500@aws", []),
    "cloud": ("aws", ["--egress", "500"]),
    "billing-unit": ("1h", []),
    "billing-minimum": ("1h", []),
    "spot": ("0.5", []),
    "preempt": ("0.05/h", []),
    "checkpoint": ("20min", ["--preempt", "0.5/h"]),
    "downtime": ("30min", ["--preempt", "0.5/h"]),
    "restart": ("30min", ["--preempt", "0.5/h"]),
    "correlation": ("0.5", ["--preempt", "0.5/h"]),
    "while-down": ("none", ["--preempt", "0.5/h"]),
    "trace": (str(GOLDEN / "spot-trace.csv"), []),
    "mtbf": ("5h", []),
    "own": ("0.4", []),
    "owned-above": ("0.9", ["--utilisation", "0.7"]),
    "utilisation": ("0.3", []),
    "runs-per-month": ("20", ["--own", str(GOLDEN / "owned-node.toml")]),
    "commit": ("0.3", []),
    "watts": ("100..700", ["plain", "--energy-budget", "4e6"]),
    "idle-watts": ("100", ["plain"]),
    "busy-watts": ("700", ["plain", "--energy-budget", "4e6"]),
    "shared-watts": ("5000", ["plain", "--watts", "700", "--energy-budget", "4e6"]),
    "pue": ("2", ["plain", "--watts", "700", "--energy-budget", "4e6"]),
    "grid": ("FRA", ["--carbon-budget", "90"]),
    "embodied": ("90000", ["--grid", "FRA", "--carbon-budget", "90"]),
    "deadline": ("10min", []),
    "confidence": ("0.5", ["--deadline", "600s"]),
    "budget": ("1.2", []),
    "energy-budget": ("3e6", []),
    "carbon-budget": ("50", ["--grid", "FRA"]),
    "least-speedup": ("8=7", []),
    "least-efficiency": ("8=0.9", []),
    "most-seconds": ("8=60", []),
    "least": ("16", []),
    "value-per-hour": ("30", []),
    "quality-tolerance": ("0.0001", []),
    "quality-better": ("lower", ["--quality-tolerance", "0.0001"]),
    "threshold": ("0.4", []),
    "center": ("median", []),
    "regime": ("weak", ["plain"]),
    "unit": ("ranks", ["plain", "--per-node", "2"]),
    "per-node": ("4", []),
}
# Of what a reader sees, never of the answer; the last two are figures of a training.
SHOWN_ONLY = {"price-source", "work-unit", "target-loss", "peak-tflops"}


def table_of(is_plain: bool) -> str:
    generator = random.Random(3)
    head = "K,rep,time_s" if is_plain else "gpus,gpus_per_node,rep,time_s,work,quality,energy_j"
    lines = [head]
    for number in range(5):
        for k in (2, 4, 8, 16, 32):
            seconds = 3600 * (0.03 + 0.97 / k + 0.002 * k) * (1 + 0.01 * generator.gauss(0, 1))
            quality = 0.9 - 0.003 * (k > 4) + 0.0003 * generator.gauss(0, 1)
            joules = 900 * seconds * k**1.1
            own = "" if is_plain else f",1000,{quality:.5f},{joules:.1f}"
            each = "" if is_plain else ",2"
            lines.append(f"{k}{each},{number},{seconds:.3f}{own}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "next"])
@pytest.mark.parametrize("key", [key for key in INPUTS if key not in SHOWN_ONLY])
def test_every_input_counts_or_is_refused(key, command, tmp_path, nodewise):
    value, beside = BESIDE[key]
    table = tmp_path / "table.csv"
    table.write_text(table_of("plain" in beside))
    others = [word for word in beside if word != "plain"]
    if key not in ("instance", "prices"):
        others = ["--price", "2", *others]
    before = nodewise(command, table, *others, "--json")
    after = nodewise(command, table, *others, f"--{key}", value, "--json")
    if after.code == 2:
        assert len(after.err.strip().splitlines()) == 2, after.err
        return
    assert after.code == 0, after.err
    assert after.out != before.out
