"""Communication as the hooks time it, beside torch.profiler over the same steps of the same run."""

import gzip
import json
import textwrap
from bisect import bisect_left

import pytest

from tests.engines import ranks
from tests.engines.test_torch_workload import EXAMPLES, collected

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
CLOSE = 0.10  # relative; 3 % was seen
ATTEMPTS = 3  # while other load keeps ranks from their cores
TRAINERS = {"ddp": None, "fsdp2": None, "hf_trainer": "transformers"}
STEPS, WARMUP = 14, 2
# Records from the end of the warm-up, as the hooks do, to the last step of the optimizer.
PROFILED = """
    import os, runpy, sys
    import torch
    import transformers
    from torch.optim.optimizer import register_optimizer_step_post_hook

    trainer, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    made = [0]

    def wide(config):
        return lambda **options: config(**{**options, "n_embd": 256})

    def stepped(*_):
        made[0] += 1
        if made[0] == first:
            profiler.start()
        if made[0] == last:
            profiler.stop()
            name = f"profile-{os.environ['RANK']}.json.gz"
            profiler.export_chrome_trace(os.path.join(os.environ["NODEWISE_RUN"], name))

    register_optimizer_step_post_hook(stepped)
    sys.path.insert(0, os.path.dirname(trainer))
    import common
    common.Model.__init__.__defaults__ = (1536, 128)  # gradients of 10 MB
    transformers.GPT2Config = wide(transformers.GPT2Config)
    sys.argv = [trainer, "--batch-per-device", "4", "--steps", sys.argv[3]]
    runpy.run_path(trainer, run_name="__main__")
"""


def merged(spans):
    """Spans as a sorted list without overlaps."""
    found = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def outside(spans, others):
    """What is in spans and not in others, both merged, as spans."""
    found = []
    for begin, end in spans:
        for start, stop in others:
            if stop > begin and start < end:
                if start > begin:
                    found.append((begin, start))
                begin = max(begin, stop)
        if begin < end:
            found.append((begin, end))
    return found


def exposed_seconds(path):
    """Time in which the main thread waits for a collective, or works in one, by the trace alone.

    A collective runs in a thread of gloo. It is exposed while the main thread computes nothing.

    - An operator may wait in itself: a norm of DTensors calls `wait_tensor`. That part is a wait.
    - Copies that a collective or DDP's reducer makes for the exchange are part of it.
    - The rank waits until its main thread goes on, not until the thread of gloo is done. On a busy
      machine these differ.
    - DDP starts its buckets within the backward pass: until that ends, nothing is exposed, also
      while the main thread has no core.
    """
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    events = [one for one in events if one.get("ph") == "X"]
    (main,) = {one["tid"] for one in events if one["name"].startswith("Optimizer.step#")}

    def spans(*prefixes, everywhere=False):
        return [
            (one["ts"], one["ts"] + one["dur"])
            for one in events
            if one["name"].startswith(prefixes) and (everywhere or one["tid"] == main)
        ]

    waits = sorted(begin for begin, _ in spans("FSDP::", "_c10d_functional::wait_tensor"))
    begins = sorted(begin for begin, _ in spans(""))
    local: list[tuple[float, float]] = []
    for begin, end in merged(spans("autograd::engine::evaluate_function")):
        if bisect_left(waits, begin) != bisect_left(waits, end):
            continue
        if local and bisect_left(begins, local[-1][1]) == bisect_left(begins, begin):
            begin = local.pop()[0]  # the same backward pass: nothing began between
        local.append((begin, end))
    calls = spans("c10d::", "_c10d_functional::wait_tensor", "torch.distributed.ddp.reducer::")
    inside = outside(merged(calls), merged(local))
    computed = merged([*outside(merged(spans("aten::")), merged(inside)), *local])
    edges = sorted(edge for span in spans("") for edge in span)
    exchanged = []
    for begin, end in spans("gloo:", everywhere=True):
        at = bisect_left(edges, end)
        busy = at == len(edges) or any(start <= end < stop for start, stop in computed)
        exchanged.append((begin, end if busy else edges[at]))
    exposed = outside(merged([*exchanged, *inside]), computed)
    return sum(end - begin for begin, end in exposed) / 1e6


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    for name in filter(None, TRAINERS.values()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    folder = tmp_path_factory.mktemp("profiled")
    script = folder / "profiled.py"
    script.write_text(textwrap.dedent(PROFILED))
    jobs = [
        ranks.job(folder / f"{trainer}{at}", script, EXAMPLES / f"{trainer}.py", WARMUP, STEPS,
                  ranks=2)
        for trainer in TRAINERS
        for at in range(ATTEMPTS)
    ]  # fmt: skip
    ranks.run(folder, jobs, "transformers", "transformers.trainer")
    return folder


@pytest.mark.parametrize("trainer", TRAINERS)
def test_communication_is_that_of_the_profiler(profiled, trainer):
    seen = []
    for at in range(ATTEMPTS):
        folder = profiled / f"{trainer}{at}"
        run = collected(folder, 2)
        pairs = [
            (
                rank.stages["communication"] + rank.stages["idle"],
                exposed_seconds(folder / f"profile-{rank.rank}.json.gz"),
            )
            for rank in run.ranks
        ]
        if all(timed == pytest.approx(recorded, rel=CLOSE) for timed, recorded in pairs):
            return
        seen.append(pairs)
        assert ranks.disturbed(run), seen
    pytest.skip(f"disturbed: other load kept ranks from their cores: {seen}")
