"""How faithful are emulated nodes? Paced nodes against nodes with quotas, idle and busy.

    .venv/bin/python benchmarks/rehearsal.py [--quick] [spread] [planted] [examples]

spread    The training of `make study` at K = 1 to 16, ten rounds: how far T(K) spreads, how long
          ranks of this balanced program wait for each other, and how long a transfer takes against
          the arithmetic of a ring. On paced nodes with a real link, on paced nodes with a modelled
          link, and under quotas; alone, and beside four busy processes.
planted   Ten studies of each planted cause: slow node, doubled shard, serial stage, slow link.
examples  The torch and the pipeline example and a shell job, each with its line of fidelity.

As an ordinary user it leaves out what needs root. About 55 minutes; --quick about 10, with two
rounds and one study.
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

from nodewise.explain.fidelity import transfer_seconds
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
BUSY = 4
LINK_MBIT = 20.0
WAYS = {
    "paced, real link": {"cpu": "paced", "link": "real"},
    "paced, modelled link": {"cpu": "paced", "link": "modelled"},
    "quota, real link": {"cpu": "quota", "link": "real"},
}
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="spread, planted or examples; default: all")
    parser.add_argument("--quick", action="store_true", help="two rounds, one study of each cause")
    options = parser.parse_args()
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} at the begin, as {user}", flush=True)
    for part in options.parts or ("spread", "planted", "examples"):
        {"spread": spread, "planted": planted, "examples": examples}[part](options.quick)


def spread(quick: bool) -> None:
    """T(K) of a balanced training: its spread, its waits, its transfers."""
    head = "| nodes | others | K | T | spread | wait of a step | transfer / ring | received |"
    print(f"\n{head}\n|---|---|---|---|---|---|---|---|")
    for way, options in WAYS.items():
        lacking = missing(Rehearsal(**options))  # type: ignore[arg-type]
        if lacking is not None:
            print(f"| {way} | not here: this machine lacks {lacking} | | | | | | |", flush=True)
            continue
        for others in (0, BUSY):
            with _busy(others):
                study = _measured(_digits(options, 2 if quick else 10))
            for nodes in study.scales:
                print(f"| {way} | {others} | {_row(study.at(nodes))} |", flush=True)


def _row(runs: tuple[Run, ...]) -> str:
    """The figures of one scale as cells."""
    seconds = [run.seconds for run in runs]
    waits = [_stage(run, "idle") / run.seconds for run in runs]
    cells = [f"{runs[0].nodes}", f"{mean(seconds):.3f} s", f"{stdev(seconds) / mean(seconds):.1%}"]
    cells += [f"{mean(waits):.1%}", f"{mean(map(_over_ring, runs)):.2f}" if _sends(runs) else ""]
    late = [
        max(rank.pace.late_seconds for rank in run.ranks if rank.pace)
        for run in runs
        if _paced(run)
    ]
    walls = [run.seconds for run in runs if _paced(run)]
    cells.append(f"{1 - sum(late) / sum(walls):.1%}" if walls else "")
    return " | ".join(cells)


def _sends(runs: tuple[Run, ...]) -> bool:
    return runs[0].nodes > 1


def _paced(run: Run) -> bool:
    return all(rank.pace is not None for rank in run.ranks)


def _stage(run: Run, stage: str) -> float:
    """The mean of a stage over ranks."""
    return mean(rank.stages.get(stage, 0.0) for rank in run.ranks)  # type: ignore[call-overload]


def _over_ring(run: Run) -> float:
    """The transfer against what a ring of such links takes for the bytes of the timed steps."""
    ring = 2 * (run.nodes - 1) / run.nodes * float(run.facts["allreduce_bytes"])
    return transfer_seconds(run) / ((run.steps or 1) * ring * 8e-6 / LINK_MBIT)


def planted(quick: bool) -> None:
    """How often each planted cause is named."""
    print("\n| planted cause | named | seconds a study |\n|---|---|---|")
    for cause, plant in PLANTED.items():
        right, begin = 0, time.monotonic()
        studies = 1 if quick else 10
        for seed in range(studies):
            with tempfile.TemporaryDirectory() as folder:
                found, rank = named(planted_study(plant, Path(folder), seed=seed))
            right += found == cause and plant.rank in (None, rank)
        each = (time.monotonic() - begin) / studies
        print(f"| {cause} | {right} of {studies} | {each:.0f} |", flush=True)


def examples(quick: bool) -> None:
    """Other programs, each with what its study says of its fidelity."""
    rounds = 2 if quick else 5
    pipeline = (ROOT / "examples" / "pipeline.toml").read_text()
    pipeline = pipeline.replace('name = "mpi"', 'name = "rehearsal"\n[engine.rehearsal]')
    torch = (ROOT / "examples" / "digits_torch_rehearsal.toml").read_text()
    texts = {"pipeline": _in_root(pipeline, rounds), "shell": SHELL.format(rounds=rounds)}
    if importlib.util.find_spec("torch") is not None:
        texts["torch"] = _in_root(torch, rounds)
    for name, text in texts.items():
        study = _measured(text)
        scaling = scale(study)
        words = next(
            check.evidence for check in scaling.checks if check.rule == "nodes are machines"
        )
        print(f"\n{name}: {words}")
        print(f"{name}: {validity_of(scaling.checks).clause or 'valid'}", flush=True)


def _digits(options: dict[str, str], rounds: int) -> str:
    """The spec of `make study`, on such nodes."""
    text = _in_root((ROOT / "examples" / "digits.toml").read_text(), rounds)
    lines = "".join(f'{name} = "{value}"\n' for name, value in options.items())
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
