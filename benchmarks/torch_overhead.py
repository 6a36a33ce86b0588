"""What the hooks cost a torch training: CPU time of the same script, bare and watched, in turns.

python benchmarks/torch_overhead.py
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 7
SCRIPT = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(64 * 220, 512)), batch_size=64)
for step, (batch,) in enumerate(loader):
    if step == 20:
        begin = time.process_time()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(json.dumps((time.process_time() - begin) / 200))
dist.destroy_process_group()
"""


def seconds(script: Path, watched: bool) -> float:
    """CPU seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment |= {"NODEWISE_RUN": folder} if watched else {}
        launcher = ["-m", "nodewise.measure.launch"] if watched else []
        done = subprocess.run(
            [sys.executable, *launcher, str(script), folder],
            env=environment, check=True, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print the cost of a step, and of the same script again as a control."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        found: dict[str, list[float]] = {"bare": [], "watched": [], "bare again": []}
        for _ in range(ROUNDS):
            for name, values in found.items():
                values.append(seconds(script, name == "watched"))
    bare = min(found["bare"])
    step = 1000 * statistics.median(found["bare"])
    cost, noise = (100 * (min(found[name]) / bare - 1) for name in ("watched", "bare again"))
    print(f"a step of {step:.2f} ms CPU: {cost:+.2f} % with the hooks, {noise:+.2f} % bare again")


if __name__ == "__main__":
    main()
