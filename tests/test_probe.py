import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run(code: str, folder: Path | None = None, **variables: str) -> dict:
    """A workload in a process of its own; what its probe reported."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NODEWISE")}
    if folder is not None:
        environment |= {"NODEWISE_RUN": str(folder), "NODEWISE_RANK": "0"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**environment, **variables}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "rank-0.json").read_text()) if folder else {}


WORKLOAD = """
    import time
    from nodewise import probe
    with probe.setup():
        time.sleep(0.05)
    for step in probe.steps(range(6)):
        with probe.compute():
            time.sleep(0.02)
        with probe.comm():
            time.sleep(0.01)
    time.sleep(0.2)  # evaluation, after the clock
    probe.quality(accuracy=0.9, split="test", seed=3)
    probe.work(items=60)
    probe.fact(batch=10)
"""


def test_stages_setup_quality_and_items_are_reported(tmp_path):
    told = run(WORKLOAD, tmp_path)
    assert 0.05 <= told["setup_seconds"] < told["setup_seconds"] + told["seconds"]
    assert told["stages"]["compute"] >= 6 * 0.02
    assert told["stages"]["communication"] >= 6 * 0.01
    assert told["seconds"] >= 6 * 0.03
    assert sum(told["stages"].values()) <= told["seconds"]
    assert told["steps"] == 6
    assert (told["quality"], told["items"]) == (0.9, 60)
    assert told["facts"] == {
        "quality_name": "accuracy",
        "quality_split": "test",
        "quality_seed": 3,
        "batch": 10,
    }
    assert told["comm_calls"] == 6


def test_what_follows_the_last_step_is_not_timed(tmp_path):
    told = run(WORKLOAD.replace("0.2", "1.0"), tmp_path)
    assert told["seconds"] < 1.0 + 6 * 0.03


def test_warm_up_steps_are_not_counted(tmp_path):
    told = run(WORKLOAD, tmp_path, NODEWISE_WARMUP_STEPS="4")
    assert told["steps"] == 2
    assert told["comm_calls"] == 2
    assert told["stages"]["compute"] < 5 * 0.02 + 0.1


def test_a_span_inside_another_takes_its_time_from_it(tmp_path):
    told = run(
        """
        import time
        from nodewise import probe
        for step in probe.steps(range(1)):
            with probe.compute():
                with probe.comm():
                    time.sleep(0.1)
        """,
        tmp_path,
    )
    assert told["stages"]["communication"] >= 0.1
    assert told["stages"]["compute"] < 0.05


def test_without_nodewise_every_call_does_nothing():
    run(WORKLOAD + "    assert list(probe.steps([1, 2])) == [1, 2]\n")


def test_a_workload_that_fails_still_says_what_it_did(tmp_path):
    code = "from nodewise import probe\nfor step in probe.steps(range(3)):\n    1 / (1 - step)"
    variables = {**os.environ, "NODEWISE_RUN": str(tmp_path), "NODEWISE_RANK": "0"}
    subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, timeout=60)
    assert json.loads((tmp_path / "rank-0.json").read_text())["steps"] == 1


def test_the_probe_needs_the_standard_library_only():
    code = "import sys, nodewise.probe; print({'numpy', 'msgspec', 'psutil'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()"
