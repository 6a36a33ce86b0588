"""Rehearsal fidelity: paced nodes and nodes with quotas, idle and busy.

    .venv/bin/python benchmarks/rehearsal.py [PART ...] [--busy 4] [--quick]

real      The training of `make study` at K = 1 to 16 on paced nodes with a real link, ten rounds:
          how far T(K) spreads, how long ranks of this balanced program wait for each other, and how
          long a transfer takes against the arithmetic of a ring.
modelled  The same on paced nodes with a modelled link.
quota     The same on nodes with a CPU quota and a real link.
planted   Ten studies of each planted cause: slow node, doubled shard, serial stage, slow link.
examples  The torch and the pipeline example and a shell job, each with its line of fidelity.

With --busy so many processes compute beside it. As an ordinary user it leaves out what needs
control groups. Without a PART all are run; --quick has two rounds and one study.
"""

import argparse
import importlib.util
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from nodewise.explain.fidelity import late_share, received, transfer_seconds
from nodewise.explain.scaling import scale
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.measure.engines.rehearsal.virtual_nodes import missing
from nodewise.measure.loop import measure
from nodewise.study import store
from nodewise.study.check import validity_of
from nodewise.study.spec import Rehearsal, parse_spec
from nodewise.study.study import Run, Study

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.planted_causes import PLANTED, named, planted_study

ROOT = Path(__file__).parents[1]
DIGITS = (ROOT / "examples" / "digits.toml").read_text()
LINK_MBIT = parse_spec(DIGITS).engine.rehearsal.link_mbit_per_second
WAYS = {
    "real": {"cpu": "paced", "link": "real"},
    "modelled": {"cpu": "paced", "link": "modelled"},
    "quota": {"cpu": "quota", "link": "real"},
}
MOST_SPREAD = {"idle": 0.05, "busy": 0.08}  # of T(K) over the rounds
MOST_WAIT = 0.08  # of a step
RING = (0.9, 1.1)  # transfer against the arithmetic of a ring
SHELL = """
name = "shell"
scales = [1, 2, 4]
rounds = {rounds}
[workload]
command = ["sh", "-c", "i=0; while [ $i -lt $((400000 / NODEWISE_NODES)) ]; do i=$((i+1)); done"]
[engine]
name = "rehearsal"
[engine.rehearsal]
launcher = "local"
cores_per_node = 0.2
"""


def main() -> None:
    """Run the parts that are asked for and print their tables."""
    parts = {**dict.fromkeys(WAYS, spread), "planted": planted, "examples": examples}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; all")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside it")
    parser.add_argument("--quick", action="store_true", help="two rounds, one study of each cause")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(parts)}")
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    load = os.getloadavg()[0]
    beside = f", {options.busy} busy processes beside it" if options.busy else ""
    print(f"{os.cpu_count()} cores, load {load:.1f} at the begin, as {user}{beside}", flush=True)
    with _busy(options.busy):
        for part in options.parts or parts:
            parts[part](part, options)


def spread(way: str, asked: argparse.Namespace) -> None:
    """T(K) of a balanced training: its spread, its waits, its transfers."""
    lacking = missing(Rehearsal(**WAYS[way]))  # type: ignore[arg-type]
    if lacking is not None:
        print(f"\n{way}: not here, this machine lacks {lacking}", flush=True)
        return
    study = _measured(_digits(way, 2 if asked.quick else 10))
    figures = [_figures(study.at(nodes)) for nodes in study.scales]
    print(f"\n{way}: CPU {WAYS[way]['cpu']}, link {WAYS[way]['link']}")
    print("| K | T | spread | wait of a step | transfer / ring | CPU share received | late |")
    print("|---|---|---|---|---|---|---|")
    for nodes, of in zip(study.scales, figures, strict=True):
        print(f"| {nodes} | {_cells(of)} |", flush=True)
    print(_summary(figures, MOST_SPREAD["busy" if asked.busy else "idle"]), flush=True)


class _Figures(NamedTuple):
    """What the rounds at one scale show; None: does not apply."""

    seconds: float
    spread: float  # standard deviation over mean
    wait: float  # of a step
    over_ring: float | None
    received: float | None  # of the CPU share, by the slowest rank while it computed
    late: float | None  # of the run, what the slowest rank lacked of its share


def _figures(runs: tuple[Run, ...]) -> _Figures:
    seconds = [run.seconds for run in runs]
    shares = [share for run in runs if _paced(run) and (share := received(run)) is not None]
    late = [late_share(run) for run in runs if _paced(run)]
    return _Figures(
        mean(seconds),
        stdev(seconds) / mean(seconds),
        mean(_stage(run, "idle") / run.seconds for run in runs),
        mean(map(_over_ring, runs)) if runs[0].nodes > 1 else None,
        mean(shares) if shares else None,
        mean(late) if late else None,
    )


def _cells(of: _Figures) -> str:
    cells = [f"{of.seconds:.3f} s", f"{of.spread:.1%}", f"{of.wait:.1%}"]
    cells.append("" if of.over_ring is None else f"{of.over_ring:.2f}")
    cells += ["" if share is None else f"{share:.1%}" for share in (of.received, of.late)]
    return " | ".join(cells)


def _summary(figures: list[_Figures], most_spread: float) -> str:
    """The worst figures of all scales, each with its goal."""
    spread, wait = max(of.spread for of in figures), max(of.wait for of in figures)
    ratios = [of.over_ring for of in figures if of.over_ring is not None]
    ring = min(ratios), max(ratios)
    goals = [spread <= most_spread, wait <= MOST_WAIT, RING[0] <= ring[0] <= ring[1] <= RING[1]]
    kept = ["kept" if goal else "MISSED" for goal in goals]
    return (
        f"spread at most {spread:.1%} (goal {most_spread:.0%}: {kept[0]}), "
        f"wait at most {wait:.1%} (goal {MOST_WAIT:.0%}: {kept[1]}), "
        f"transfer {ring[0]:.2f} to {ring[1]:.2f} of the ring "
        f"(goal {RING[0]} to {RING[1]}: {kept[2]})"
    )


def _paced(run: Run) -> bool:
    return all(rank.pace is not None for rank in run.ranks)


def _stage(run: Run, stage: str) -> float:
    """The mean of a stage over ranks."""
    return mean(rank.stages.get(stage, 0.0) for rank in run.ranks)  # type: ignore[call-overload]


def _over_ring(run: Run) -> float:
    """The transfer against what a ring of such links takes for the bytes of the timed steps.

    In an all-gather the gradients of every other rank pass each link.
    """
    ring = (run.nodes - 1) * float(run.facts["gradient_bytes"])
    return transfer_seconds(run) / ((run.steps or 1) * ring * 8e-6 / LINK_MBIT)


def planted(_: str, asked: argparse.Namespace) -> None:
    """How often each planted cause is named."""
    print("\n| planted cause | named | seconds a study |\n|---|---|---|")
    for cause, plant in PLANTED.items():
        right, begin = 0, time.monotonic()
        studies = 1 if asked.quick else 10
        for seed in range(studies):
            with tempfile.TemporaryDirectory() as folder:
                found, rank = named(planted_study(plant, Path(folder), seed=seed))
            right += found == cause and plant.rank in (None, rank)
        each = (time.monotonic() - begin) / studies
        print(f"| {cause} | {right} of {studies} | {each:.0f} |", flush=True)


def examples(_: str, asked: argparse.Namespace) -> None:
    """Other programs, each with what its study says of its fidelity."""
    rounds = 2 if asked.quick else 5
    pipeline = (ROOT / "examples" / "pipeline.toml").read_text()
    pipeline = pipeline.replace('name = "mpi"', 'name = "rehearsal"\n[engine.rehearsal]')
    torch = (ROOT / "examples" / "digits_torch_rehearsal.toml").read_text()
    texts = {"pipeline": _in_root(pipeline, rounds), "shell": SHELL.format(rounds=rounds)}
    if importlib.util.find_spec("torch") is not None:
        texts["torch"] = _in_root(torch, rounds)
    for name, text in texts.items():
        study = _measured(text)
        scaling = scale(study)
        words = next(check.evidence for check in scaling.checks if check.rule == "emulated nodes")
        print(f"\n{name}: {words}")
        print(f"{name}: {validity_of(scaling.checks).clause or 'valid'}", flush=True)


def _digits(way: str, rounds: int) -> str:
    """The spec of `make study`, on such nodes."""
    text = _in_root(DIGITS, rounds)
    lines = "".join(f'{name} = "{value}"\n' for name, value in WAYS[way].items())
    return text.replace("cores_per_node", f"{lines}cores_per_node")


def _in_root(text: str, rounds: int) -> str:
    text = text.replace('directory = ".."', f'directory = "{ROOT}"')
    return re.sub(r"^rounds = \d+", f"rounds = {rounds}", text, flags=re.MULTILINE)


def _measured(text: str) -> Study:
    spec = parse_spec(text)
    engine = RehearsalEngine(spec.engine.rehearsal)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        measure(spec, text, folder, folder / "study", engine, lambda *_: None, lambda _: False)
        return store.load(folder / "study")


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    started = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(processes)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def _compute() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        sum(range(100_000))


if __name__ == "__main__":
    main()
