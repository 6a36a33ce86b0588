"""A real browser for the tests of the pages."""

import os
import shutil

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="package")
def browser() -> Browser:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        # On a machine that is meant to have one, a missing browser is a failure.
        (pytest.fail if "CI" in os.environ else pytest.skip)("no Chromium: scripts/chromium.sh")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()
