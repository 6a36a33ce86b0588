"""Randomised complete blocks: every round runs each scale once, in random order.

Drift of the machine then disturbs all scales of a round alike, and rounds are compared whole. A
failed run is a result: it is recorded and the study goes on. Runs that are already there are not
made again, so that an interrupted study goes on where it stopped.
"""

import contextlib
import datetime
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from nodewise import store
from nodewise.engines.base import Engine, Job, signal_group
from nodewise.errors import RunError, SpecError
from nodewise.measure import provenance
from nodewise.measure.collect import collect
from nodewise.measure.gate import Gate
from nodewise.measure.watch import Watch, cores
from nodewise.spec import Spec
from nodewise.study import Fact, Rank, Run, Study

_GIVE_UP_AFTER = 2  # failures of one scale; a third would only cost time
_RUNNING = "running"


class Task(NamedTuple):
    """One run that is to be made."""

    nodes: int
    round: int
    baseline: bool


# Told of each finished run, and how many are left.
Tell = Callable[[Run, int], None]


def measure(
    spec: Spec,
    spec_text: str,
    home: Path,
    folder: Path,
    engine: Engine,
    tell: Tell,
    enough: Callable[[Study], bool],
) -> None:
    """Make every run that is missing in the study folder; `home` is where the spec stands."""
    engine.check(spec.scales)
    store.create(folder, spec_text)
    with store.locked(folder), contextlib.closing(engine):
        _end_leftovers(folder)
        machine = provenance.machine()
        _, study = store.load(folder)
        while tasks := _tasks(spec, study, enough):
            run = _run(spec, spec_text, home, folder, engine, tasks[0], machine)
            store.append(folder, run)
            study = msgspec.structs.replace(study, runs=(*study.runs, run))
            tell(run, len(tasks) - 1)


def missing(spec: Spec, study: Study) -> list[Task]:
    """The runs that the spec asks for and the study lacks, in the order to make them."""
    done = {(run.nodes, run.round, run.baseline) for run in study.runs}
    failures = Counter((run.nodes, run.baseline) for run in study.runs if run.outcome != "ok")
    tasks = []
    for number in range(spec.rounds):
        block = [Task(nodes, number, False) for nodes in spec.scales]
        if spec.baseline is not None:
            block.append(Task(1, number, True))
        random.Random(f"{spec.seed} {number}").shuffle(block)
        tasks += [
            task
            for task in block
            if (task.nodes, task.round, task.baseline) not in done
            and failures[task.nodes, task.baseline] < _GIVE_UP_AFTER
        ]
    return tasks


def _tasks(spec: Spec, study: Study, enough: Callable[[Study], bool]) -> list[Task]:
    """What is left to do: to the last round, or until the speedup is known well enough."""
    if spec.precision is None:
        return missing(spec, study)
    tasks = missing(msgspec.structs.replace(spec, rounds=spec.precision.most_rounds), study)
    begins_round = bool(tasks) and all(run.round < tasks[0].round for run in study.runs)
    return [] if begins_round and enough(study) else tasks


def _run(
    spec: Spec,
    spec_text: str,
    home: Path,
    folder: Path,
    engine: Engine,
    task: Task,
    machine: dict[str, Fact],
) -> Run:
    directory = (home / spec.workload.directory).resolve()
    if not directory.is_dir():
        raise SpecError(
            f"workload.directory: there is no folder {directory}.",
            "Name it from the spec's folder.",
        )
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    command = _command(spec, task)
    scratch = Path(tempfile.mkdtemp(prefix="nodewise-"))
    try:
        variables = _environment(spec, task, scratch)
        job = Job(
            command=command,
            nodes=task.nodes,
            directory=directory,
            environment=variables,
            folder=scratch,
            timeout_seconds=spec.timeout_seconds,
        )
        # Emulated nodes load without limits, and are limited while they are timed.
        calls = [getattr(engine, name, lambda: None) for name in ("hold", "limit", "unlimit")]
        with Watch() as watch, Gate(scratch / "gate", task.nodes, *calls):

            def begun(leaders: Sequence[int]) -> None:
                _note_running(folder, leaders)
                watch.follow(list(leaders))

            finished = engine.run(job, begun)
        (folder / _RUNNING).unlink(missing_ok=True)
        facts: dict[str, Fact] = {
            **machine,
            **provenance.code(directory, command, spec_text),
            **provenance.environment(variables),
            "oversubscribed": spec.engine.name != "rehearsal" and task.nodes > cores(),
            "emulated": spec.engine.name == "rehearsal",
        }
        checks = getattr(engine, "checks", None)
        if checks is not None:
            facts |= {f"rehearsal_{name}": value for name, value in checks().items()}
        run = collect(
            finished,
            scratch,
            job.log,
            nodes=task.nodes,
            number=task.round,
            baseline=task.baseline,
            provenance=facts,
            started=started,
        )
        run = _with_usage(run, watch, emulated=spec.engine.name == "rehearsal")
        store.keep_stamps(folder, run, scratch)
        return run
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _with_usage(run: Run, watch: Watch, emulated: bool) -> Run:
    """Add what was seen from outside, where the ranks did not say it themselves.

    An emulated node waits for its core by design, so its run delay is not foreign load.
    """
    seen = watch.usage()
    ranks = run.ranks
    if not ranks and len(seen) == run.nodes:
        ranks = tuple(Rank(rank=at, stages={}, usage=usage) for at, usage in enumerate(seen))
    delays = [r.usage.run_delay_seconds for r in ranks if r.usage is not None and not emulated]
    return msgspec.structs.replace(
        run, ranks=ranks, contention=watch.contention(delays, run.seconds)
    )


def _command(spec: Spec, task: Task) -> tuple[str, ...]:
    if task.baseline:
        assert spec.baseline is not None
        raw = spec.baseline.command
    elif spec.workload.function is not None:
        raw = ("{python}", "-m", "nodewise.launch", spec.workload.function)
    else:
        raw = spec.workload.command
    values = {
        "{nodes}": str(task.nodes),
        "{round}": str(task.round),
        "{seed}": str(spec.seed),
        "{python}": sys.executable,
    }
    filled = []
    for word in raw:
        for name, value in values.items():
            word = word.replace(name, value)
        filled.append(word)
    if shutil.which(filled[0]) is None:
        raise RunError(f"There is no program {filled[0]}.", "Correct the command in the spec.")
    return tuple(filled)


def _environment(spec: Spec, task: Task, scratch: Path) -> dict[str, str]:
    return {
        **os.environ,
        **spec.workload.environment,
        "NODEWISE_RUN": str(scratch),
        "NODEWISE_GATE": str(scratch / "gate"),
        "NODEWISE_WARMUP_STEPS": str(spec.workload.warmup_steps),
        "NODEWISE_SEED": str(spec.seed),
        "NODEWISE_ROUND": str(task.round),
        "NODEWISE_NODES": str(task.nodes),
    }


def _note_running(folder: Path, leaders: Sequence[int]) -> None:
    """Write down who runs, so that the next process can end them if this one is killed."""
    lines = []
    for leader in leaders:
        with contextlib.suppress(psutil.Error):
            lines.append(f"{leader} {psutil.Process(leader).create_time()}")
    (folder / _RUNNING).write_text("\n".join(lines))


def _end_leftovers(folder: Path) -> None:
    """End what a killed harness left running; a process id that was reused is left alone."""
    try:
        lines = (folder / _RUNNING).read_text().splitlines()
    except OSError:
        return
    for line in lines:
        leader, _, born = line.partition(" ")
        with contextlib.suppress(psutil.Error, ValueError):
            if abs(psutil.Process(int(leader)).create_time() - float(born)) < 1:
                signal_group(int(leader), 9)
    (folder / _RUNNING).unlink(missing_ok=True)
