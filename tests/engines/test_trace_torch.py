"""Traces of a real torchrun with gloo: the rank that sleeps is named, transfer apart from wait."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")

SLEEP_SECONDS = 0.12
SCRIPT = """
import sys, time
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

folder, sleeper, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=4, repeat=1),
    record_shapes=True,
    on_trace_ready=lambda done: done.export_chrome_trace(f"{folder}/trace-{rank}.json.gz"),
) as profiler:
    for _ in range(6):
        loss = model(torch.randn(16, 64)).pow(2).mean()
        if rank == sleeper:
            time.sleep(seconds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("sleeper", [0, 1])
def test_the_sleeping_rank_is_named(tmp_path, nodewise, sleeper):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    folder = tmp_path / "traces"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(script), str(folder), str(sleeper), str(SLEEP_SECONDS)],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    job = json.loads(nodewise("trace", folder, "--json").out)
    assert [rank["error"] for rank in job["ranks"]] == [None, None]
    assert [rank["rank"] for rank in job["ranks"]] == [0, 1]
    steps = len(job["steps"])
    assert steps >= 3
    assert job["late_ranks"][0]["rank"] == sleeper
    assert job["late_ranks"][0]["times_last"] >= steps - 1
    # What the other rank waits is what the sleeper slept; the transfer is short beside it.
    slept = 1e6 * SLEEP_SECONDS * steps
    assert 0.6 * slept < job["collectives"]["wait_us"] < 1.6 * slept
    assert job["collectives"]["transfer_us"] < 0.5 * job["collectives"]["wait_us"]
    critical = [step["critical_rank"] for step in job["steps"]]
    assert critical.count(sleeper) >= steps - 1
    pop = job["pop"]
    assert pop["load_balance"] < 0.9
    assert pop["parallel_efficiency"] == pytest.approx(
        pop["load_balance"] * pop["serialisation"] * pop["transfer"]
    )
