"""The local page in a real browser: the board, a study that is being measured, a comparison."""

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study import store

pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script>"
SPEC = """
name = "{name}"
scales = [{scales}]
rounds = {rounds}
regime = "{regime}"
[workload]
command = ["{{python}}", "job.py"]
"""
JOB = """
import os, sys, time
from nodewise import probe
nodes = int(os.environ["NODEWISE_NODES"])
while os.environ["NODEWISE_ROUND"] == "1" and not os.path.exists("go"):
    time.sleep(0.05)
if nodes == 4:
    sys.exit("no luck with four")
for step in probe.steps(range(4)):
    time.sleep(0.1 / nodes)
"""
SECONDS = 120_000  # milliseconds: the longest that anything here is waited for
expect.set_options(timeout=SECONDS)


class Served(NamedTuple):
    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(re.search(r":(\d+)/", self.url)[1])

    @property
    def token(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2]

    def get(self, path: str, host: str | None = None, method: str = "GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content


def serve(folder: Path, *more: str) -> Served:
    process = subprocess.Popen(
        [sys.executable, "-m", "nodewise", "ui", str(folder), "--no-open", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
    assert found, line + process.stderr.read()
    return Served(process, found[0])


def stop(served: Served) -> tuple[int, str, str]:
    served.process.send_signal(signal.SIGINT)
    try:
        out, err = served.process.communicate(timeout=120)
    finally:
        served.process.kill()
        served.process.wait()
    return served.process.returncode, out, err


def write_study(
    folder: Path, name: str, scales=(1, 2, 4, 8), rounds=7, faster=1.0, regime="strong"
):
    """A finished study with a planted truth."""
    law = Law(s=0.04, c=0.002, base_seconds=60.0, regime=regime)
    plan = PlantedTruth(law=law, scales=scales, rounds=rounds, noise=0.01)
    store.create(
        folder, SPEC.format(name=name, scales=str(scales)[1:-1], rounds=rounds, regime=regime)
    )
    for run in simulate(plan).runs:
        store.append(folder, msgspec.structs.replace(run, seconds=run.seconds / faster))


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("studies")
    write_study(home / "before.study", "before")
    write_study(home / "team" / "after.study", "after", faster=1.3)
    write_study(home / "team" / "weak.study", "weak", regime="weak")
    write_study(home / "evil.study", EVIL)
    write_study(home / "damaged.study", "damaged")
    with (home / "damaged.study" / "runs.jsonl").open("a") as runs:
        runs.write("this is no run\n")
    write_study(home / "strange.study", "strange")
    with (home / "strange.study" / "runs.jsonl").open("ab") as runs:
        runs.write(b'{"K":1,"round":9,"seconds":0.0,"detail":"\xff"}\n')
    store.create(
        home / "begun.study", SPEC.format(name="begun", scales="1, 2", rounds=2, regime="strong")
    )
    write_study(home / "a" / "b" / "c" / "deep.study", "too deep")
    (home / "study.toml").write_text("name = 'only a spec'")
    served = serve(home)
    yield served
    stop(served)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab that must stay quiet, and may speak to nobody but the server."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(SECONDS)
    said: list[str] = []
    tab.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    tab.on(
        "request",
        lambda one: (
            None if one.url.startswith(("http://127.0.0.1:", "data:")) else said.append(one.url)
        ),
    )
    yield tab
    context.close()
    assert said == []


def row(page: Page, name: str):
    return page.locator("tr[data-study]").filter(
        has=page.get_by_role("link", name=name, exact=True)
    )


def test_only_who_knows_the_whole_address_gets_in(board):
    assert board.get(f"/{board.token}/")[0] == 200
    for path in (
        "/",
        "",
        f"/{board.token}",
        f"/{board.token}x/",
        "/x/state.json",
        "//",
        "/vega.js",
    ):
        status, content = board.get(path or "*")
        assert status == 403, path
        assert "study" not in content
    assert board.get("/favicon.ico")[0] == 204


def test_another_host_name_is_refused(board):
    page = f"/{board.token}/"
    assert board.get(page, "evil.example")[0] == 403
    assert board.get(page, f"evil.example:{board.port}")[0] == 403
    assert board.get(page, "localhost:9000")[0] == 200  # the end of a tunnel


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(board, method):
    assert board.get(f"/{board.token}/", method=method)[0] == 501


def test_it_listens_on_this_machine_only(board):
    listening = psutil.Process(board.process.pid).net_connections("inet")
    assert {one.laddr.ip for one in listening if one.status == "LISTEN"} == {"127.0.0.1"}


@pytest.mark.parametrize(
    "path", ["study/../../etc/passwd", "study/%2e%2e/", "study/0/", "study/..%2fevil/report", "x"]
)
def test_a_study_is_named_by_its_key_alone(board, path):
    status, content = board.get(f"/{board.token}/{path}")
    assert status == 404
    assert "Page not found" in content


def test_the_board_lists_every_study_whatever_is_wrong_with_one(board, page):
    page.goto(board.url)
    expect(page.locator("tr[data-study]")).to_have_count(7)
    finished = row(page, "before")
    expect(finished).to_contain_text("finished")
    expect(finished).to_contain_text("28 of 28 runs")
    expect(finished).to_contain_text("1, 2, 4, 8")
    expect(finished).to_contain_text(re.compile(r"x at K=8"))
    expect(finished).to_contain_text(re.compile(r"run on \d nodes"))
    expect(row(page, "damaged.study")).to_contain_text("Line 29")
    expect(row(page, "damaged.study")).to_contain_text("Delete that line")
    expect(row(page, "strange.study")).to_contain_text("is damaged")
    expect(row(page, "begun")).to_contain_text("unfinished")
    expect(row(page, "begun")).to_contain_text("0 of 4 runs")
    assert "too deep" not in page.content()
    assert "only a spec" not in page.content()


def test_a_name_is_text_and_never_a_script(board, page):
    page.goto(board.url)
    row(page, EVIL).get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(EVIL)
    page.wait_for_selector("#figure-speedup svg")
    page.get_by_role("link", name="Full report").click()
    page.wait_for_selector("html[data-charts=drawn]")
    expect(page.locator("h1")).to_have_text(EVIL)


def test_the_first_screen_has_three_charts_that_stay_when_a_study_cannot_be_read(tmp_path, page):
    folder = tmp_path / "whole.study"
    write_study(folder, "whole")
    served = serve(tmp_path)
    try:
        page.set_viewport_size({"width": 1400, "height": 900})
        page.goto(served.url)
        row(page, "whole").get_by_role("link").click()
        page.wait_for_selector("#figure-ledger svg")
        ends = page.eval_on_selector_all(
            "figure svg", "all => all.map(one => one.getBoundingClientRect().bottom)"
        )
        assert len(ends) == 4
        assert max(ends[:3]) <= 900
        with (folder / "runs.jsonl").open("a") as runs:
            runs.write("this is no run\n")
        expect(page.locator("header")).to_contain_text("Delete that line")
        expect(page.locator("#figure-ledger svg")).to_be_visible()
    finally:
        page.close()  # it asks the server again and again
        stop(served)


def test_a_damaged_study_says_what_to_do(board, page):
    page.goto(board.url)
    row(page, "damaged.study").get_by_role("link").click()
    expect(page.locator("header")).to_contain_text("Delete that line")
    page.goto(page.url + "report")
    expect(page.locator("main")).to_contain_text("Delete that line")


def test_two_ticked_studies_are_compared_and_ticks_outlive_a_refresh(board, page):
    page.goto(board.url)
    button = page.get_by_role("button", name="Compare")
    expect(button).to_be_disabled()
    row(page, "before").get_by_role("checkbox").check()
    row(page, "after").get_by_role("checkbox").check()
    expect(button).to_be_enabled()
    with page.expect_response("**/state.json"):
        pass
    expect(row(page, "after").get_by_role("checkbox")).to_be_checked()
    button.click()
    page.wait_for_selector("html[data-charts=drawn]")
    assert {"before", "after"} == set(page.locator("h1").inner_text().split(" against "))
    verdict = page.locator(".verdict").inner_text().lower()
    page.get_by_role("link", name="Swap the studies").click()
    page.wait_for_selector("html[data-charts=drawn]")
    swapped = page.locator(".verdict").inner_text().lower()
    assert {"faster" in verdict, "faster" in swapped} == {True, False}
    page.get_by_role("link", name="All studies").click()
    expect(page.locator("tr[data-study]")).to_have_count(7)


def test_studies_that_cannot_be_compared_say_why(board, page):
    page.goto(board.url)
    row(page, "before").get_by_role("checkbox").check()
    row(page, "weak").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text("Compare two studies of one regime")
    page.get_by_role("link", name="All studies").click()
    row(page, "before").get_by_role("checkbox").check()
    row(page, "begun").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text("does not have two scales yet")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible_and_fit_a_small_screen(board, browser, scheme):
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.set_default_timeout(SECONDS)
    try:
        tab.goto(board.url)
        addresses = [
            board.url,
            board.url + row(tab, "before").get_by_role("link").get_attribute("href"),
        ]
        for address in addresses:
            tab.goto(address)
            if address != board.url:
                tab.wait_for_selector("#figure-repeats svg")
            found = Axe().run(tab)
            assert found.violations_count == 0, found.generate_report()
            assert tab.evaluate("document.documentElement.scrollWidth") == 400
    finally:
        context.close()


def test_a_study_is_watched_while_it_is_measured(tmp_path, page):
    (tmp_path / "job.py").write_text(JOB)
    spec = tmp_path / "study.toml"
    spec.write_text(SPEC.format(name="live", scales="1, 2, 4", rounds=4, regime="strong"))
    served = serve(tmp_path)
    measuring = None
    try:
        page.goto(served.url)
        expect(page.locator("main")).to_contain_text("No study in this folder")
        measuring = subprocess.Popen(
            [sys.executable, "-m", "nodewise", "measure", str(spec)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        expect(row(page, "live")).to_contain_text("running")
        expect(page.locator("[data-part=count]")).to_have_text("1 study, 1 running")
        row(page, "live").get_by_role("link").click()
        status = page.get_by_role("status")
        expect(status).to_contain_text("running")
        expect(page.get_by_role("link", name="report")).to_have_count(0)
        page.wait_for_selector("#figure-speedup svg")
        expect(page.locator(".cards")).to_contain_text("Time left")
        before = float(page.locator("progress").get_attribute("value"))
        (tmp_path / "go").touch()  # the second round waits for it
        page.wait_for_function(
            "before => Number(document.querySelector('progress').value) > before", arg=before
        )
        expect(page.locator("#figure-repeats svg")).to_be_visible()
        expect(status).to_contain_text("finished")
        assert measuring.wait(timeout=120) == 0
        expect(status).to_contain_text("10 of 10 runs")  # four rounds; K=4 is given up after two
        for name in ("speedup", "cost", "ledger", "repeats"):
            expect(page.locator(f"#figure-{name} svg")).to_be_visible()
        expect(page.locator("main")).to_contain_text("no luck with four")
        study = store.load(tmp_path / "live.study")
        assert len(study.runs) == 10
        page.get_by_role("link", name="Full report").click()
        page.wait_for_selector("html[data-charts=drawn]")
        expect(page.locator("#scales")).to_contain_text("recommended")
    finally:
        if measuring is not None and measuring.poll() is None:
            measuring.send_signal(signal.SIGINT)
            measuring.wait(timeout=120)
        page.close()  # it asks the server again and again
        stop(served)


def test_a_study_waits_for_its_second_scale_and_goes_on_when_runs_arrive(tmp_path, page):
    write_study(tmp_path / "whole", "growing", scales=(1, 2), rounds=2)
    folder = tmp_path / "growing.study"
    shutil.move(tmp_path / "whole", folder)
    lines = (folder / "runs.jsonl").read_bytes().splitlines(keepends=True)
    lines.sort(key=lambda line: b'"K":2' in line)
    (folder / "runs.jsonl").write_bytes(lines[0])
    served = serve(tmp_path)
    try:
        with store.locked(folder):
            page.goto(served.url)
            expect(row(page, "growing")).to_contain_text("waiting for the second scale")
            row(page, "growing").get_by_role("link").click()
            expect(page.locator(".verdict")).to_have_text("waiting for the second scale")
            expect(page.locator("[data-part=runs]")).to_contain_text("ok")
            expect(page.locator("#figure-speedup")).to_be_hidden()
            (folder / "runs.jsonl").write_bytes(b"".join(lines))
            page.wait_for_selector("#figure-speedup svg")
        expect(page.get_by_role("status")).to_contain_text("finished")
    finally:
        page.close()  # it asks the server again and again
        stop(served)


# How many charts of the first screen there are at least, from the moment that all were there.
COUNTING = """() => {
  window.least = null;
  const look = () => {
    const count = document.querySelectorAll(
      "#figure-speedup svg, #figure-cost svg, #figure-ledger svg").length;
    if (window.least !== null || count === 3) window.least = Math.min(window.least ?? 3, count);
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();
}"""


def test_charts_stay_when_a_study_ends(tmp_path, page):
    write_study(tmp_path / "recorded" / "whole.study", "whole", rounds=40)
    spec = tmp_path / "again.toml"
    text = SPEC.format(name="again", scales="1, 2, 4, 8", rounds=40, regime="strong")
    spec.write_text(text + '[engine]\nname = "replay"\nstudy = "recorded/whole.study"\n')
    served = serve(tmp_path)
    command = [sys.executable, "-m", "nodewise", "measure", str(spec)]
    measuring = None
    try:
        page.goto(served.url)
        measuring = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expect(row(page, "again")).to_be_visible()
        row(page, "again").get_by_role("link").click()
        page.wait_for_selector("[data-part=figures]")
        page.evaluate(COUNTING)
        assert measuring.wait(timeout=120) == 0
        expect(page.get_by_role("status")).to_contain_text("finished")
        expect(page.get_by_role("status")).to_contain_text("160 of 160 runs")
        for name in ("speedup", "cost", "ledger", "repeats"):
            expect(page.locator(f"#figure-{name} svg")).to_be_visible()
        # the page asks again and again after the end; the charts stay
        with page.expect_response("**/state.json"):
            pass
        assert page.evaluate("window.least") == 3
        assert page.locator("#figure-speedup svg").is_visible()
    finally:
        if measuring is not None and measuring.poll() is None:
            measuring.kill()
            measuring.wait(timeout=120)
        page.close()
        stop(served)


def test_repeated_studies_of_a_job_show_their_trend(tmp_path, page):
    for name, faster in (("monday", 1.0), ("tuesday", 1.25), ("wednesday", 2.0)):
        write_study(tmp_path / f"{name}.study", "nightly", faster=faster)
    write_study(tmp_path / "other.study", "other")
    served = serve(tmp_path)
    try:
        page.goto(served.url)
        newest = page.locator("tr[data-study]").filter(has_text="wednesday.study")
        sparks = newest.locator("svg.spark")
        expect(sparks).to_have_count(3)
        words = sparks.first.get_attribute("aria-label")
        found = re.fullmatch(
            r"time at K=8 over 3 studies: ([\d.]+) s, ([\d.]+) s, ([\d.]+) s", words
        )
        assert found, words
        first, second, third = map(float, found.groups())
        assert first / second == pytest.approx(1.25, rel=0.01)
        assert first / third == pytest.approx(2.0, rel=0.01)
        expect(newest).to_contain_text(found[3])
        expect(row(page, "other").locator("svg.spark")).to_have_count(0)
        assert Axe().run(page).violations_count == 0
    finally:
        page.close()
        stop(served)


def test_ctrl_c_ends_it_and_frees_the_port(tmp_path):
    served = serve(tmp_path)
    assert served.get(f"/{served.token}/")[0] == 200
    code, out, err = stop(served)
    assert (code, out.strip(), err) == (0, "stopped", "")
    again = serve(tmp_path, "--port", str(served.port))
    assert again.port == served.port
    assert again.token != served.token
    taken = subprocess.run(
        [sys.executable, "-m", "nodewise", "ui", str(tmp_path), "--port", str(again.port)],
        capture_output=True, text=True, timeout=240, env={**os.environ, "DISPLAY": ""},
    )  # fmt: skip
    assert stop(again)[0] == 0
    assert taken.returncode == 2
    assert "Cannot listen at port" in taken.stderr
    assert len(taken.stderr.splitlines()) == 2
