"""What is measured again, when it counts as not slower, and the end of a build."""

import time
from pathlib import Path

import psutil
import pytest

from nodewise.base.errors import RunError, SpecError
from nodewise.base.interval import Interval
from nodewise.history import confirm
from nodewise.history.check import check
from nodewise.history.entry import job_key
from nodewise.study.spec import parse_file
from tests.history.conftest import entry
from tests.history.test_check import SLOW

SPEC = 'name = "solver"\nscales = [1, 2]\nrounds = 2\n[workload]\ncommand = ["true"]\n'


@pytest.fixture(scope="module")
def failed(slower):
    result = check(slower(SLOW, 2))
    assert result.failed
    return result


def test_the_spec_of_another_workload_is_refused(failed):
    spec, _ = parse_file(SPEC)
    assert confirm.suspicion(failed, confirm.names_of(spec)).workload == "solver"
    other, _ = parse_file(SPEC.replace("solver", "other"))
    with pytest.raises(SpecError, match="The slowdown is in solver, and the spec measures other"):
        confirm.suspicion(failed, confirm.names_of(other))


def test_the_slow_workload_that_the_spec_measures_is_chosen():
    """Everything is slower; of the two workloads the one of the spec is measured again."""
    spec, _ = parse_file(SPEC)
    key = job_key(spec, "strong")
    entries = [
        entry(number, *([SLOW] if number >= 12 else []), workload=name)
        for number in range(14)
        for name in ("a", key)
    ]
    found = confirm.suspicion(check(entries), confirm.names_of(spec))
    assert found.workload == key
    changed, _ = parse_file(SPEC.replace("true", "false"))
    with pytest.raises(SpecError):
        confirm.suspicion(check(entries), confirm.names_of(changed) - {"solver"})


@pytest.mark.parametrize(
    ("low", "high", "limit", "state"),
    [(1.02, 1.08, 0.0, "slower"), (0.99, 1.09, 0.0, "in doubt"), (0.97, 1.04, 0.0, "not slower"),
     (1.04, 1.08, 0.03, "slower"), (0.99, 1.04, 0.03, "in doubt"),
     (0.99, 1.03, 0.03, "not slower"), (1.001, 1.004, 0.0, "not slower")],
)  # fmt: skip
def test_not_slower_means_that_the_interval_excludes_it(low, high, limit, state):
    """A slowdown of 10 % is suspected."""
    assert confirm.confirmed_state(Interval(low, high), 1.10, limit) == state


def test_a_build_that_takes_too_long_ends_with_all_its_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(confirm, "_BUILD_SECONDS", 0.5)
    with pytest.raises(RunError, match="took longer than"):
        confirm._build("sleep 60 & echo $! > pid; wait", tmp_path)
    child = int(Path(tmp_path / "pid").read_text())
    for _ in range(100):  # its parent may be slow to reap it
        if not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie":
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the build started is still running")
    with pytest.raises(RunError, match="no such tool"):
        confirm._build("echo no such tool >&2; exit 3", tmp_path)
