"""A sweep over replicas of llama.cpp's own server, with a model of random weights."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.fleet.load import windows
from tests.jobs import left_behind

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"


def test_a_real_inference_server_in_a_sweep(tmp_path):
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'nodewise[demo]'")
    text = (EXAMPLES / "fleet.toml").read_text()
    for old, new in (
        ("rounds = 3", "rounds = 1"),
        ("ttft = 0.25", "ttft = 9.0"),
        ("share = 0.95", "share = 0.5"),
        ("[demand]\nper_second = 20\n", ""),  # so that both fleets are loaded
        ("\nwindow_seconds = 4\n", "\nwindow_seconds = 1\nmost_rate_per_second = 20\n"),
        ("most_window_seconds = 40", "most_window_seconds = 2"),
        ('"{python}", "llama_server.py"', f'"{{python}}", "{EXAMPLES / "llama_server.py"}"'),
        ('health = "/health"', f'environment = {{ MARK = "{tmp_path.name}" }}'),
    ):
        assert old in text
        text = text.replace(old, new)
    spec = tmp_path / "fleet.toml"
    spec.write_text(text)
    command = [sys.executable, "-m", "nodewise", "fleet", "sweep", spec, "--json"]
    done = subprocess.run(
        [*command, "-o", tmp_path / "out"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode in (0, 1), done.stderr
    made = windows.load(tmp_path / "out")
    assert {window.replicas for window in made} == {1, 2}
    answered = [r for window in made for r in window.requests if not r.error]
    assert answered, done.stderr
    assert all(8 <= r.output_tokens <= 32 and r.input_tokens > 4 for r in answered)
    assert {r.endpoint for window in made for r in window.requests if window.replicas == 2} == {
        0,
        1,
    }
    assert not any("usage" in note for window in made for note in window.notes)
    assert left_behind(tmp_path.name) == []
