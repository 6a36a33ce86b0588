"""Take the pictures of the README, and every variant of each page to look at.

    .venv/bin/python docs/screenshots.py            # docs/images
    .venv/bin/python docs/screenshots.py --all out  # light, dark and print, 1400 and 400 px wide

The page of the real study is taken from out/digits.study, which `make study` measures.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from nodewise.audit.rules import read_rules
from nodewise.cli.printing import find_browser, print_page
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.lookup import question_of
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.findings import find
from nodewise.report.page.html import page
from nodewise.report.page.vega import vega_bundle
from nodewise.study import store
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PRICED = Question(price=Price(per_node_hour=3.20, fixed_per_hour=2.0, source="example"))


def crashed() -> Study:
    """Fine up to K=4; at K=8 every run ended for lack of memory."""
    study = simulate(PlantedTruth(law=Law(s=0.05, c=0.004), scales=(1, 2, 4), rounds=7, noise=0.03))
    lost = [
        Run(nodes=8, round=number, seconds=41.0, outcome="out of memory", detail="killed (137)")
        for number in range(2)
    ]
    return Study(name="crash at K=8", regime="strong", runs=(*study.runs, *lost))


def studies() -> dict[str, Study]:
    """What is shown, by the name of its picture."""
    found = {
        name: parse_table((ROOT / "examples" / f"{name}.csv").read_text(), name)
        for name in ("breakdown", "rubric", "step-times")
    }
    found["weak"] = simulate(PlantedTruth(law=Law(c=0.01, regime="weak"), rounds=7, noise=0.02))
    found["crash"] = crashed()
    measured = ROOT / "out" / "digits.study"
    if store.is_study(measured):
        found["digits"] = store.load(measured)
    return found


def shoot(browser: Browser, html: Path, target: Path, width: int, scheme: str, whole: bool) -> None:
    """One picture of one page."""
    context = browser.new_context(
        viewport={"width": width, "height": 1150}, color_scheme="dark" if scheme == "dark" else None
    )
    tab = context.new_page()
    tab.goto(html.as_uri())
    tab.wait_for_function("document.documentElement.dataset.charts === 'drawn'", timeout=30_000)
    tab.screenshot(path=target, full_page=whole)
    context.close()


def main() -> None:
    """Make the pages and take the pictures."""
    everything = Path(sys.argv[2]) if sys.argv[1:2] == ["--all"] else None
    folder = everything or IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for name, study in studies().items():
            question = question_of(study.asked) if study.asked else PRICED
            html = folder / f"{name}.html"
            command = f"nodewise report {name}"
            content = page(study, find(study, question, read_rules()), command, vega_bundle())
            html.write_text(content, encoding="utf-8")
            if everything is None:
                shoot(browser, html, folder / f"{name}.png", 1400, "light", whole=False)
                html.unlink()
                continue
            for width in (1400, 400):
                for scheme in ("light", "dark"):
                    shoot(browser, html, folder / f"{name}-{width}-{scheme}.png", width, scheme,
                          whole=True)  # fmt: skip
            (folder / f"{name}.pdf").write_bytes(print_page(content))
        browser.close()


if __name__ == "__main__":
    main()
