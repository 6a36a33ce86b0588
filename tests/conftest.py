"""What tests share: the worked examples, the folder of larger public data, the command line."""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

from nodewise.study.study import Study
from nodewise.study.table import parse_table

GOLDEN = Path(__file__).parents[1] / "examples"
DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared"

# Prices age. The shipped ones are of 2026-08-22, and tests ask on 2026-11-16 whenever they run.
os.environ["SOURCE_DATE_EPOCH"] = "1794787200"
# Tests start hundreds of commands. Each would compile all of nodewise again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A test run in the background ignores SIGINT, and every command that it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=60,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
# Of few examples, those that a test does not want are soon too many.
_ALLOWED = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile(
    "quick", settings.get_profile("steady"), max_examples=15, suppress_health_check=_ALLOWED
)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="a skipped test is a failed one, unless other load or a large extra is the reason",
    )


# Reasons that --no-skips accepts: other programs took the cores, a large program is not installed.
ALLOWED_SKIPS = ("disturbed: ", "optional: ")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        settings.load_profile("quick")  # laws are tried on fewer examples as well


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.skipped and item.config.getoption("--no-skips") and not hasattr(report, "wasxfail"):
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if not said.removeprefix("Skipped: ").startswith(ALLOWED_SKIPS):
            report.outcome = "failed"
    return report


def golden_study(name: str) -> Study:
    return parse_table((GOLDEN / f"{name}.csv").read_text(), name)


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def nodewise(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """The command, run in this process: arguments in; code, stdout and stderr out."""
    from nodewise.cli.main import main

    def call(*arguments: object, stdin: str | bytes = "") -> Outcome:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.argv", ["nodewise", *map(str, arguments)])
        with CliRunner().isolation(input=raw), pytest.raises(SystemExit) as stop:
            import sys

            try:
                main()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                out = sys.stdout.buffer.getvalue().decode()
                err = sys.stderr.buffer.getvalue().decode()
        return Outcome(int(stop.value.code or 0), out, err)

    return call


@pytest.fixture
def shared() -> Path:
    """Larger published data beside the checkout; tests that want it skip without it."""
    if not SHARED.is_dir():
        pytest.skip("the folder of public data is not beside this checkout")
    return SHARED
