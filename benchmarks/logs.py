"""Log reading: speed and memory for 1 GB of console output of each framework.

.venv/bin/python benchmarks/logs.py [--bytes 1000000000]

Each log is written to a temporary folder, read by a process of its own, and deleted. `mixed` has
one step in twenty lines, as a real log with warnings has. `steps` has nothing but steps, three to
eight million of them: the worst case. The limits of both are 20 s of CPU and 200 MB.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SECONDS, MEGABYTES = 20.0, 200.0
_WARNING = (
    "[rank3]: /opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:85: UserWarning: "
    "the use_reentrant parameter should be passed explicitly\n"
)


def _megatron(dice: random.Random, step: int) -> str:
    return (
        f" [2026-03-01 12:00:00.{step % 10**6:06d}] iteration {step:8d}/ 9000000 |"
        f" consumed samples: {step * 128:12d} |"
        f" elapsed time per iteration (ms): {1000 * dice.gauss(1, 0.01):.1f} |"
        " throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 1.000000E-05 |"
        " global batch size:   128 | lm loss: 2.100000E+00 | loss scale: 1.0 | grad norm: 1.020 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def _torchtitan(dice: random.Random, step: int) -> str:
    return (
        f"[titan] 2026-03-01 12:00:00,123 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss: "
        f" 2.1  \x1b[34mtps: {round(6000 * dice.gauss(1, 0.01)):,}  tflops: 401.20\x1b[39m\n"
    )


def _maxtext(dice: random.Random, step: int) -> str:
    return (
        f"completed step: {step}, seconds: {dice.gauss(1, 0.01):.3f}, TFLOP/s/device: 401.200, "
        "Tokens/s/device: 8192.000, total_weights: 131072, loss: 2.100\n"
    )


def _nemo(dice: random.Random, step: int) -> str:
    return (
        f"Training epoch 0, iteration {step}/9000000 | lr: 1.499e-07 | global_batch_size: 128 |"
        f" global_step: {step} | reduced_train_loss: 11.95 | train_step_timing in s:"
        f" {dice.gauss(1, 0.01):.4g} | consumed_samples: {step * 128}\n"
    )


def _deepspeed(dice: random.Random, step: int) -> str:
    return (
        "[2026-01-01 00:00:01,000] [INFO] [timer.py:260:stop] epoch=0/"
        f"micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=128.0, "
        f"CurrSamplesPerSec={128 * dice.gauss(1, 0.01)}, MemAllocated=4.32GB, "
        "MaxMemAllocated=38.49GB\n"
    )


LINES: dict[str, Callable[[random.Random, int], str]] = {
    "megatron": _megatron, "torchtitan": _torchtitan, "maxtext": _maxtext,
    "nemo": _nemo, "deepspeed": _deepspeed,
}  # fmt: skip


def write_log(path: Path, name: str, size: int, noise: int) -> None:
    """A log of `size` bytes with `noise` other lines for each step."""
    dice = random.Random(0)
    header = (
        "using world size: 64, data-parallel size: 8\n"
        "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=64, cp=1, tp=1\n"
        "global batch size 64, sequence length 8192\n"
        "  train_batch_size ............. 128\n"
    )
    with path.open("w") as file:
        written = file.write(header)
        step = 0
        while written < size:
            block = []
            for _ in range(2000):
                step += 1
                block.append(LINES[name](dice, step))
                block.append(_WARNING * noise)
            written += file.write("".join(block))


def measure(path: Path) -> None:
    """Read a log, in a process of its own; print seconds of CPU, megabytes and steps."""
    from nodewise.importers.logs.survey import survey

    begin = time.process_time()
    [run] = survey([(None, path)])
    used = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{used:.1f} {peak:.0f} {run.entries} {run.problem or 'read'}")


def main() -> None:
    """Print a table; exit with 1 where a limit is broken."""
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--bytes", type=int, default=10**9)
    options.add_argument("--read", type=Path)
    asked = options.parse_args()
    if asked.read:
        measure(asked.read)
        return
    worst = 0
    print("| log | CPU s | MB | steps |\n|---|---|---|---|")
    for name in LINES:
        for kind, noise in (("mixed", 19), ("steps", 0)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "out.log"
                write_log(path, name, asked.bytes, noise)
                command = [sys.executable, __file__, "--read", str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
            used, peak, steps, _ = done.stdout.split(maxsplit=3)
            print(f"| {name}, {kind} | {used} | {peak} | {steps} |", flush=True)
            worst += float(used) > SECONDS or float(peak) > MEGABYTES
    sys.exit(worst > 0)


if __name__ == "__main__":
    main()
