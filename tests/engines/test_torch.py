"""A torch training that calls nothing to be timed, run for real under torchrun at K = 1 and 2."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nodewise.study import store
from nodewise.study.study import Run

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
SPEC = """
name = "digits"
scales = [1, 2]
rounds = 1
timeout_seconds = 120
fixed = ["global_batch", "steps", "dtype", "data_hash"]
[workload]
command = ["{{python}}", "{script}", "--steps", "12"{more}]
warmup_steps = {warmup}
[workload.environment]
OMP_NUM_THREADS = "1"
[engine]
name = "torchrun"
[quality]
name = "accuracy"
tolerance = 0.005
better = "higher"
split = "test"
"""


def measure(folder: Path, script: Path, warmup: int = 4, more: str = "") -> dict[int, Run]:
    spec = folder / "study.toml"
    spec.write_text(SPEC.format(script=script, warmup=warmup, more=more))
    done = subprocess.run(
        [sys.executable, "-m", "nodewise", "measure", str(spec)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    study = store.load(folder / "digits.study")
    assert [run.outcome for run in study.runs] == ["ok", "ok"], [run.detail for run in study.runs]
    return {run.nodes: run for run in study.runs}


def torchrun(nodes: int, *words: object, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NODEWISE")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", str(nodes), *map(str, words)],
        env={**environment, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return measure(tmp_path_factory.mktemp("digits"), EXAMPLES / "digits_torch.py")


def test_the_example_takes_no_time_itself():
    calls = re.findall(r"probe\.(\w+)", (EXAMPLES / "digits_torch.py").read_text())
    assert set(calls) == {"work", "quality", "fact"}


def test_the_quality_is_the_same_at_every_scale(digits):
    assert digits[1].quality > 0.7
    assert digits[2].quality == pytest.approx(digits[1].quality, abs=0.005)
    seen = {"world_size"}
    told = [{k: v for k, v in run.facts.items() if k not in seen} for run in digits.values()]
    assert told[0] == told[1]
    assert digits[1].work == digits[2].work == 12 * 1024


def test_stages_and_steps_are_seen_from_outside(digits):
    for nodes, run in digits.items():
        assert run.steps == 12 - 4  # without the warm-up
        assert [rank.rank for rank in run.ranks] == list(range(nodes))
        for rank in run.ranks:
            for stage in ("compute", "communication", "io", "serial"):
                assert rank.stages[stage] > 0, stage
            told = sum(rank.stages.values())
            assert told <= 1.001 * rank.seconds
            # between the stages nothing is done, but others may have had the core
            assert told + rank.usage.run_delay_seconds > 0.9 * rank.seconds
            assert rank.usage.cpu_seconds > 0
        assert run.setup_seconds > run.seconds  # importing torch is not timed


def test_waiting_for_a_rank_that_works_alone_is_told_from_transfer(tmp_path):
    more = ', "--serial-ms", "40"'
    first, second = measure(tmp_path, EXAMPLES / "digits_torch.py", more=more)[2].ranks
    assert first.stages["serial"] > 8 * 0.040 > second.stages["serial"]
    assert second.stages["idle"] > 7 * 0.040  # the last one's work follows the last exchange
    assert first.stages["idle"] < second.stages["idle"] / 2


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_weights_are_the_same_bit_by_bit(tmp_path, nodes):
    script = EXAMPLES / "digits_torch.py"
    plain = torchrun(nodes, script)
    watched = torchrun(nodes, "-m", "nodewise.measure.launch", script, NODEWISE_RUN=str(tmp_path))
    assert re.search(r"weights [0-9a-f]{16}", plain)
    assert watched == plain
    assert len(list(tmp_path.glob("rank-*.json"))) == nodes


SCRIPT = """
    {early}
    import time
    from datetime import timedelta
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from nodewise import probe

    class Late(torch.autograd.Function):
        # rank 1 takes 30 ms longer for its backward pass
        @staticmethod
        def forward(context, value):
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            time.sleep(0.03 * dist.get_rank())
            return gradient

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    layers = [torch.nn.Linear(64, 64) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
    {setup}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.utils.data.DataLoader(torch.randn(120, 64), batch_size=10)
    for batch in {loop}:
        Late.apply(model(batch)).pow(2).mean().backward()
        optimizer.step()
    for _ in range(5):  # an evaluation
        time.sleep(0.1)
        dist.barrier()
    dist.destroy_process_group()
"""
OWN_HOOK = """
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    model.register_comm_hook(None, fp16_compress_hook)
"""
VARIANTS = {
    "plain": {},
    "own communication hook": {"setup": OWN_HOOK},
    "own steps": {"loop": "probe.steps(batches)"},
    "own steps, imported first": {
        "early": "from nodewise.probe import steps",
        "loop": "steps(batches)",
    },
    "own steps in each epoch": {
        "early": "from itertools import islice",
        "loop": "(batch for epoch in range(2) for batch in probe.steps(islice(batches, 6)))",
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_exposed_exchange_up_to_the_last_step_counts(tmp_path, variant):
    parts = {"early": "", "setup": "", "loop": "batches", **VARIANTS[variant]}
    script = tmp_path / "train.py"
    filled = {name: textwrap.dedent(part) for name, part in parts.items()}
    script.write_text(textwrap.dedent(SCRIPT).format(**filled))
    run = measure(tmp_path, script)[2]
    first, second = run.ranks
    assert run.steps == 8
    waited = first.stages["idle"] - second.stages["idle"]
    late = first.usage.run_delay_seconds or 0.0  # kept from its core, it waits that much less
    assert waited + late > 0.8 * 8 * 0.030
    assert second.stages["compute"] > 8 * 0.030
    assert run.seconds == pytest.approx(sum(first.stages.values()), rel=0.2)
