"""The wheel as a stranger has it: built, installed into an empty environment, used elsewhere."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from nodewise import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def pip(*words: object) -> subprocess.CompletedProcess[str]:
    quietly = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
    command = [sys.executable, "-m", "pip", *quietly, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)


def must_work(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """A failure is one, unless nothing at all can be fetched here."""
    if done.returncode == 0:
        return
    if pip("download", "--no-deps", "--no-cache-dir", "--dest", folder, "click").returncode:
        pytest.skip("the package index cannot be reached")
    pytest.fail(done.stderr)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    must_work(pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT), folder)
    (made,) = folder.glob("nodewise-*.whl")
    return made


@pytest.fixture(scope="module")
def nodewise(wheel: Path):
    """The command of the installed wheel, run in a folder that knows nothing of the checkout."""
    home = wheel.parent / "clean"
    venv.create(home, symlinks=True)
    must_work(pip("--python", home / "bin" / "python", "install", wheel), wheel.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*words: str) -> str:
        done = subprocess.run(
            [home / "bin" / "nodewise", *words],
            cwd=wheel.parent, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_all_files_of_the_package_are_in_the_wheel(wheel):
    files = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "nodewise").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"nodewise/audit/rules.toml", "nodewise/report/page/page.js"} < files
    assert files <= set(zipfile.ZipFile(wheel).namelist())


def test_the_installed_wheel_decides_and_writes_its_page(nodewise, wheel):
    times = wheel.parent / "times.csv"
    times.write_text((ROOT / "examples" / "breakdown.csv").read_text())
    assert nodewise("--version") == f"nodewise, version {__version__}\n"
    assert "run on 4 nodes" in nodewise("decide", "times.csv", "--price", "3.20")
    priced = json.loads(nodewise("decide", "times.csv", "--instance", "aws:p5.48xlarge", "--json"))
    assert priced["price"]["per_node_hour"] > 0
    ready = {one["what"]: one["ready"] for one in json.loads(nodewise("doctor", "--json"))}
    assert ready["engine local"]
    nodewise("report", "times.csv", "--price", "3.20", "-o", "times.html")
    page = (wheel.parent / "times.html").read_text()
    assert "times: run on 4 nodes" in page
    assert (SOURCE / "nodewise/report/page/page.js").read_text().strip()[:200] in page
