"""Overhead of the torch hooks: CPU time of steps with and without them, in one run.

    python benchmarks/torch_overhead.py [trainer ...]

Each call of a hook is timed, less the call of torch inside it, in a training with steps of about
10 ms on two ranks. This is an upper limit: the clocks around the calls count too, and the counters
of the process are read at every step, which a run of more than 100 steps does more rarely. The
verdict is about this cost. It is larger than in steps of less than a millisecond, in which the code
of the hooks stays in the caches; that cost is printed as well.

Beside it the hooks are put in and taken out every few steps of one process, so drift and other
load meet both alike; a comparison of steps without hooks among themselves shows the noise. The
heap keeps its memory, because page faults depend on chance and take more time than the hooks.

A training ends after SECONDS of steps, so that all take about four minutes also on a busy machine.
"""

import importlib
import json
import os
import random
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples" / "frameworks"
TRAINERS = ("ddp", "fsdp2", "hf_trainer", "accelerated", "lightning_fit")
SIZES = {  # ranks, rows of 32 tokens, width; cycles of four blocks (with, without, without, with)
    "tiny": (1, 1, 4, 100),
    "short": (2, 40, 256, 16),
}
BLOCK = 6  # steps; after a switch the interpreter specialises its code again, so 5 are timed
SKIPPED, COUNTED = 10, 30  # steps before, and steps in which calls are counted
SECONDS = {"tiny": 15.0, "short": 20.0}  # of steps; what was measured by then counts
MOST_SECONDS = 180  # of a training with its imports
LIMIT = 1.0  # percent of a step
FEWEST_CALLS = 3  # that are counted; one call alone may have waited for a core


class Place:
    """A call of torch, with the hook around it, and with clocks around both."""

    def __init__(self, switch: "Switch", owner: Any, name: str, make: Callable[..., Any]) -> None:
        """Nothing is put in its place yet."""
        self.owner, self.name, self.plain = owner, name, getattr(owner, name)
        self.hooked = make(self.plain)
        self.counted = switch.outside(name, make(switch.inside(self.plain)))

    def put(self, call: Any) -> None:
        """Put one of the three there; collectives are in two modules."""
        setattr(self.owner, self.name, call)
        if self.owner is sys.modules.get("torch.distributed"):
            setattr(sys.modules["torch.distributed.distributed_c10d"], self.name, call)


class Switch:
    """Puts the hooks in and takes them out, and reads the CPU clock between."""

    def __init__(self, cycles: int, seconds: float) -> None:
        """Take the place of `replace`, before the hooks import it."""
        from nodewise.measure.torch import wrap

        self.seconds, self.end = seconds, 0.0
        self.places: list[Place] = []
        self.inner = 0  # nanoseconds of torch in the watched call under way
        self.own: dict[str, list[int]] = {}  # nanoseconds of each call of a hook, by name
        self.counting: dict[int, Any] = {}  # counted versions, by the id of the hooked ones
        self.steps, self.clock, self.cycles = 0, 0, cycles
        self.blocks: list[float] = []
        wrap.replace = self.replace  # type: ignore[assignment]
        from nodewise.measure.torch import communication, hooks

        self.communication, self.recorder = communication, hooks._recorder
        hooks.install()
        self.stepped = self.recorder.optimizer_stepped  # type: ignore[union-attr]
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda *_: self.step())

    def replace(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        """As `wrap.replace`, and remember it."""
        if hasattr(owner, name):
            place = Place(self, owner, name, make)
            self.counting[id(place.hooked)] = place.counted
            self.places.append(place)
            setattr(owner, name, place.hooked)

    def inside(self, call: Any) -> Any:
        """The call of torch, timed; one that is watched already is timed as that."""
        if id(call) in self.counting:
            return self.counting[id(call)]

        def inner(*arguments: Any, **options: Any) -> Any:
            before, begin = self.inner, time.perf_counter_ns()
            try:
                return call(*arguments, **options)
            finally:  # a watched call in it is part of it
                self.inner = before + time.perf_counter_ns() - begin

        return inner

    def outside(self, name: str, call: Any) -> Any:
        """The call of torch with its hook, timed without what is inside."""

        def outer(*arguments: Any, **options: Any) -> Any:
            before, self.inner = self.inner, 0
            begin = time.perf_counter_ns()
            try:
                return call(*arguments, **options)
            finally:
                length = time.perf_counter_ns() - begin
                self.own.setdefault(name, []).append(length - self.inner)
                self.inner = before + length

        return outer

    def put(self, version: str) -> None:
        """All hooks in, out or counted."""
        for place in self.places if version != "plain" else reversed(self.places):
            place.put(getattr(place, version))
        stepped = {"plain": lambda _: None, "hooked": self.stepped}
        counted = self.outside("step", self.stepped)
        self.recorder.optimizer_stepped = stepped.get(version, counted)  # type: ignore[union-attr]
        kept = self.communication._kept
        if version == "plain":
            kept.pop()._destroy()  # type: ignore[attr-defined]
        elif not kept:
            self.communication.watch_functional_waits(self.recorder)  # type: ignore[arg-type]

    def step(self) -> None:
        """The optimizer made a step."""
        self.steps += 1
        if self.steps == SKIPPED:
            self.put("counted")
            self.end = time.monotonic() + self.seconds
        block, step = divmod(self.steps - SKIPPED - COUNTED, BLOCK)
        if not 0 <= block <= 4 * self.cycles:
            return
        if step == 1:
            self.clock = time.process_time_ns()
        if step == 0 and block:
            self.blocks.append((time.process_time_ns() - self.clock) / (BLOCK - 1))
            if block % 4 == 0:
                self.cycle_is_over()
        if step == 0 and block % 4 == 1:
            self.put("plain")
        elif step == 0 and (block == 0 or block % 4 == 3):
            self.put("hooked")

    def cycle_is_over(self) -> None:
        """Write down what blocks and calls took so far; the other rank is ended with this one."""
        calls = {
            name: (len(own) / COUNTED, statistics.median(own))
            for name, own in self.own.items()
            if len(own) >= FEWEST_CALLS
        }
        place = Path(os.environ["NODEWISE_RUN"], f"found-{os.environ['RANK']}.json")
        place.with_suffix(".part").write_text(json.dumps({"blocks": self.blocks, "calls": calls}))
        place.with_suffix(".part").rename(place)
        if time.monotonic() > self.end or len(self.blocks) == 4 * self.cycles:
            os._exit(0)


def rank_of(trainer: str, size: str) -> None:
    """Train as one rank, until the time is over."""
    _, rows, width, cycles = SIZES[size]
    Switch(cycles, SECONDS[size])
    sys.path.insert(0, str(EXAMPLES))
    common = importlib.import_module("common")
    common.Model.__init__.__defaults__ = (width, 128)
    if trainer == "hf_trainer":
        transformers = importlib.import_module("transformers")
        made = transformers.GPT2Config
        transformers.GPT2Config = lambda **options: made(**{**options, "n_embd": width})
    steps = SKIPPED + COUNTED + 4 * cycles * BLOCK + 2
    sys.argv = ["train", "--batch-per-device", str(rows), "--steps", str(steps)]
    runpy.run_path(str(EXAMPLES / f"{trainer}.py"), run_name="__main__")


def train(trainer: str, size: str) -> list[dict[str, Any]]:
    """What each rank of a training found."""
    count = SIZES[size][0]
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
        shared |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "NODEWISE_RUN": folder}
        shared |= {"HF_HUB_OFFLINE": 1, "NODEWISE_WARMUP_STEPS": 2}
        shared |= {"MALLOC_TRIM_THRESHOLD_": 2**31 - 1, "MALLOC_MMAP_THRESHOLD_": 2**31 - 1}
        environment = {**os.environ, **{name: str(value) for name, value in shared.items()}}
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", trainer, size],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for rank in range(count)
        ]  # fmt: skip
        try:
            _wait_for_one(trainer, ranks)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        return [json.loads((Path(folder) / f"found-{r}.json").read_text()) for r in range(count)]


def _wait_for_one(trainer: str, ranks: "list[subprocess.Popen[bytes]]") -> None:
    """Until one rank is through; the others wait for it then."""
    deadline = time.monotonic() + MOST_SECONDS
    while all(rank.poll() is None for rank in ranks):
        if time.monotonic() > deadline:
            raise SystemExit(f"{trainer}: no rank ended within {MOST_SECONDS} s")
        time.sleep(0.1)
    if all(rank.poll() != 0 for rank in ranks):
        raise SystemExit(f"{trainer}: a rank ended with exit code {ranks[0].poll()}")


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median with its 95 % interval, by resampling."""
    draws = random.Random(1)
    found = sorted(statistics.median(draws.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), found[25], found[974]


def compared(found: list[dict[str, Any]]) -> tuple[list[float], list[float], float]:
    """By cycle: the cost in nanoseconds a step, that of nothing as a control; and a bare step."""
    costs, controls, steps = [], [], []
    for rank in found:
        blocks = rank["blocks"]
        for at in range(0, len(blocks), 4):
            one, two, three, four = blocks[at : at + 4]
            costs.append((one + four - two - three) / 2)
            controls.append(two - three)
            steps += [two, three]
    return costs, controls, statistics.median(steps)


def main() -> None:
    """Print a line for each trainer."""
    if sys.argv[1:2] == ["--rank"]:
        rank_of(*sys.argv[2:])
        return
    for trainer in sys.argv[1:] or TRAINERS:
        tiny, short = train(trainer, "tiny"), train(trainer, "short")
        costs, controls, _ = compared(tiny)
        hot, low, high = (value / 1e3 for value in interval(costs))
        control = interval(controls)[0] / 1e3
        cost = max(sum(n * own for n, own in one["calls"].values()) for one in short) / 1e3
        direct, _, step = compared(short)
        middle, least, most = (100 * value / step for value in interval(direct))
        share = 100e3 * cost / step
        verdict = "below" if share < LIMIT else "above"
        print(
            f"{trainer}: {verdict} {LIMIT:g} %. Hooks cost {cost:.0f} us in a step of "
            f"{step / 1e6:.0f} ms, {share:.2f} %; {LIMIT:g} % of a step of "
            f"{cost / 10 / LIMIT:.0f} ms. In the caches: {hot:.0f} us CPU ({low:.0f} to "
            f"{high:.0f}; nothing costs {control:+.0f}). Steps with and without hooks differ by "
            f"{middle:+.1f} % ({least:+.1f} to {most:+.1f} %)",
            flush=True,
        )


if __name__ == "__main__":
    main()
