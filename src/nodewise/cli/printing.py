"""A browser that is already on the machine, to print a page as PDF."""

import os
import shutil
import subprocess

from nodewise.base.errors import RunError
from nodewise.measure.scratch import scratch_folder

_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
_MOST_SECONDS = 120


def find_browser() -> str:
    """The path of a browser of the Chromium family; CHROME names another one."""
    names = [os.environ["CHROME"]] if "CHROME" in os.environ else _NAMES
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise RunError(
            "Chromium, Chrome or Edge is not installed, so nothing can be printed.",
            "Install one (apt-get install chromium), or write .html and print it from a browser.",
        )
    return found


def print_page(html: str) -> bytes:
    """The page as PDF, as the browser prints it."""
    browser = find_browser()
    with scratch_folder() as place:
        page, printed = place / "page.html", place / "page.pdf"
        page.write_text(html, encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer"]
        command += [f"--user-data-dir={place}/profile", f"--print-to-pdf={printed}"]
        if os.geteuid() == 0:  # the sandbox of Chromium refuses root
            command.append("--no-sandbox")
        try:
            done = subprocess.run(
                [*command, page.as_uri()], capture_output=True, text=True, timeout=_MOST_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise RunError(
                f"{browser} did not print within {_MOST_SECONDS} s.", "Write .html and print that."
            ) from None
        if not printed.exists():
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise RunError(f"{browser} did not print: {last}.", "Write .html and print that.")
        return printed.read_bytes()
