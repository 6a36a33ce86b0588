"""Every command of docs/frameworks.md, typed as it stands there, with one round."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.study import store

ROOT = Path(__file__).parents[2]
pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
NEEDS = {"hf_trainer": "transformers", "accelerated": "accelerate", "lightning_fit": "lightning"}


def commands() -> list[str]:
    page = (ROOT / "docs" / "frameworks.md").read_text()
    return re.findall(r"^\| .* \| `(nodewise run .*)` \|$", page, re.MULTILINE)


def test_there_are_commands():
    assert len(commands()) == 6


@pytest.mark.parametrize("command", commands())
def test_the_command_measures_the_training(tmp_path, command):
    script = re.search(r"(\w+)\.py", command)[1]
    if script in NEEDS:
        pytest.importorskip(NEEDS[script], reason=f"{NEEDS[script]} is not installed")
    for example in (ROOT / "examples" / "frameworks").glob("*.py"):
        (tmp_path / example.name).write_text(example.read_text())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    typed = command.replace("nodewise run", "nodewise run --rounds 1")
    done = subprocess.run(
        ["bash", "-c", typed], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    (folder,) = tmp_path.glob("*.study")
    study = store.load(folder)
    assert [run.outcome for run in study.runs] == ["ok", "ok"], done.stderr
    fixed = "--global-batch" in command
    assert study.regime == ("strong" if fixed else "weak")
    assert {run.nodes: run.facts["global_batch"] for run in study.runs} == {
        1: 16,
        2: 16 if fixed else 32,
    }
    assert [len(run.ranks) for run in sorted(study.runs, key=lambda run: run.nodes)] == [1, 2]
    assert "no answer" not in done.stdout
