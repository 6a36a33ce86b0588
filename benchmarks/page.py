"""Page of six scales: size, time to write and time to draw.

    .venv/bin/python benchmarks/page.py

Beside each time stands what cannot be avoided: importing altair, and an empty page.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from nodewise.cli.printing import find_browser

NODEWISE = str(Path(sys.executable).parent / "nodewise")
REPEATS = 5


def best(action, repeats: int = REPEATS) -> float:
    """The least seconds of some repeats."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def draw(browser: Browser, address: str, ready: str) -> None:
    """Open a page and wait until it says that it is ready."""
    tab = browser.new_page()
    tab.goto(address)
    tab.wait_for_function(ready, timeout=60_000)
    tab.close()


def main() -> None:
    """Make the page and open it."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        table, page = Path(place, "six.csv"), Path(place, "six.html")
        made = subprocess.run(
            [NODEWISE, "simulate", "--scales", "1,2,4,8,16,32"], capture_output=True, check=True
        )
        table.write_bytes(made.stdout)
        report = [NODEWISE, "report", str(table), "--price", "3.2", "-o", str(page)]
        build = best(lambda: subprocess.run(report, check=True, capture_output=True))
        limit = best(lambda: subprocess.run([sys.executable, "-c", "import altair"], check=True))
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        shown = best(
            lambda: draw(browser, page.as_uri(), "document.documentElement.dataset.charts")
        )
        empty = best(lambda: draw(browser, "about:blank", "true"))
        browser.close()
        print(f"size: {page.stat().st_size / 1e6:.2f} MB")
        print(f"made in {build:.2f} s ({build / limit:.1f} times importing altair)")
        print(f"charts drawn in {shown:.2f} s ({shown / empty:.1f} times an empty page)")


if __name__ == "__main__":
    main()
