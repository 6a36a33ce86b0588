"""Operations and bytes of real torch steps against the analytic count, and a script by stages."""

import json
import subprocess
import sys
import textwrap

import pytest

from nodewise.diagnose.machine.torch_counting import Counting
from nodewise.diagnose.machine.torch_script import count
from nodewise.diagnose.training_step import judge_run
from nodewise.study.machine import Ceiling, Machine

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
functional = torch.nn.functional
WITHIN = 0.015  # of the analytic count


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that spin for each other take minutes on a busy machine."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def exactly(value: float, unit: str) -> Ceiling:
    return Ceiling(value=value, low=value, high=value, unit=unit, windows=9)


MACHINE = Machine(
    identity={"cores": 2}, measured="2026-01-01", seconds=1.0,
    compute={"float32": {1: exactly(80e9, "FLOP/s"), 2: exactly(160e9, "FLOP/s")}},
    memory={"DRAM": {1: exactly(20e9, "B/s"), 2: exactly(35e9, "B/s")}},
    page_fault=exactly(1e9, "B/s"), capacity={"installed": 8e9},
)  # fmt: skip


def counted(model: object, *inputs: object) -> Counting:
    """One step, forward and backward, with an optimizer."""
    optimizer = torch.optim.AdamW(model.parameters())
    with Counting() as counting:
        model(*inputs).square().mean().backward()
        optimizer.step()
    return counting


def test_a_dense_network():
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)
    )
    found = counted(model, torch.randn(32, 128))
    # The first layer's inputs need no gradient: two products there, three in the second.
    analytic = 2 * 32 * (2 * 128 * 256 + 3 * 256 * 64)
    assert found.flops == pytest.approx(analytic, rel=WITHIN)
    assert found.dtype == "float32"
    # At least: every parameter, its gradient and both states are read, and three of them written.
    parameters = 4 * sum(one.numel() for one in model.parameters())
    assert found.memory_bytes > 7 * parameters


def test_a_convolutional_network():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.Flatten(),
        torch.nn.Linear(32 * 8 * 8, 10),
    )  # fmt: skip
    found = counted(model, torch.randn(4, 3, 16, 16))
    first, second = 2 * 4 * 16 * 16 * 16 * 27, 2 * 4 * 32 * 8 * 8 * 144
    analytic = 2 * first + 3 * second + 3 * 2 * 4 * 2048 * 10
    assert found.flops == pytest.approx(analytic, rel=WITHIN)


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.mix(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(x)))


def test_a_transformer_with_its_attention():
    layers, width, length, batch, words = 2, 64, 96, 2, 100
    model = torch.nn.Sequential(
        torch.nn.Embedding(words, width), *(Block(width, 4) for _ in range(layers)),
        torch.nn.Linear(width, words),
    )  # fmt: skip
    found = counted(model, torch.randint(0, words, (batch, length)))
    attention = layers * 4 * batch * length * length * width
    products = 2 * batch * length * (layers * 12 * width**2 + width * words)
    assert found.flops == pytest.approx(3 * (products + attention), rel=WITHIN)
    assert attention > 2 * WITHIN * (products + attention)  # leaving it out would be seen
    without = {name for (_, name), counts in found.found.items() if not counts.formula}
    assert {"gelu", "embedding"} <= without


def test_views_and_repeated_numbers_move_no_bytes():
    table = torch.randn(1000, 64)
    with Counting() as counting:
        table.view(-1).unsqueeze(0)
        torch.empty(10**6)
    assert counting.memory_bytes == 0
    with Counting() as counting:
        functional.embedding(torch.tensor([1, 2]), table)
    assert counting.memory_bytes < table.nbytes / 100  # rows, not the table
    with Counting() as counting:
        torch.zeros(1).expand(1000).clone()
    assert counting.memory_bytes == pytest.approx(4008)  # a zero, its copies


SCRIPT = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(320, 64), torch.randn(320, 8))
print("to nobody's report")
for x, y in torch.utils.data.DataLoader(data, batch_size=16):
    for half in (0, 8):  # two forward passes make one step
        loss = (model(x[half:half + 8]) - y[half:half + 8]).square().mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ANALYTIC = 2 * 16 * (2 * 64 * 256 + 3 * 256 * 8)


def write(folder, text):
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    return path


def test_a_script_is_timed_by_stage_and_counted_by_step(tmp_path):
    run = count((str(write(tmp_path, SCRIPT)),), 300)
    stages = {stage.name: stage for stage in run.stages}
    assert list(stages)[:4] == ["loader", "forward", "backward", "optimizer"]
    assert run.step == "step of the optimizer"
    assert run.exit_code == 0
    assert sum(stage.flops for stage in run.stages) == pytest.approx(ANALYTIC, rel=WITHIN)
    assert stages["backward"].flops > stages["forward"].flops > 0 == stages["loader"].flops
    assert len(stages["forward"].seconds) == run.steps >= 5
    found = judge_run(run, MACHINE, "data-parallel")
    assert found.intensity == pytest.approx(found.flops / found.memory_bytes)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.answer is not None
    share = sum(one.share for one in found.uncounted)
    assert share + found.counted_share == pytest.approx(1)


def test_steps_and_functions_marked_with_the_probe(tmp_path):
    script = """
        import torch
        from nodewise import probe
        a = torch.randn(64, 64)
        for _ in probe.steps(range(9)):
            with probe.compute():
                a @ a
            with probe.serial():
                a + a
    """
    run = count((str(write(tmp_path, script)),), 300)
    stages = {stage.name: stage for stage in run.stages}
    assert run.step == "step of the probe"
    assert stages["compute"].flops == 2 * 64**3
    assert stages["serial"].flops == 0 < stages["serial"].memory_bytes


def test_a_model_without_a_loop_and_a_script_that_fails(tmp_path):
    once = "import torch; torch.nn.Linear(8, 8)(torch.randn(4, 8))"
    run = count((str(write(tmp_path, once)),), 300)
    assert run.with_setup
    assert sum(stage.flops for stage in run.stages) == 2 * 4 * 8 * 8
    failing = count((str(write(tmp_path, f"{SCRIPT}\nraise ValueError('at the end')")),), 300)
    assert failing.exit_code == 1
    assert judge_run(failing, MACHINE).confidence != "high"


def test_a_slow_loader_is_named(tmp_path):
    slow = SCRIPT.replace("data = ", """
import time
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 192
    def __getitem__(self, at):
        time.sleep(0.002)
        return torch.randn(64), torch.randn(8)
data = Slow() or """)  # fmt: skip
    found = judge_run(count((str(write(tmp_path, slow)),), 300), MACHINE, "data-sharding")
    assert found.ceiling == "data I/O"
    assert found.answer.answer == "yes"


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "nodewise", "diagnose", "--torch", "--json", "-o",
               str(tmp_path / "roof.svg"), "--", str(write(tmp_path, SCRIPT))]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flops"] == pytest.approx(ANALYTIC, rel=WITHIN)
    assert "to nobody's report" in done.stderr
    assert (tmp_path / "roof.svg").read_text().startswith("<svg")
