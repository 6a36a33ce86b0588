"""Randomised complete blocks: every round runs each scale once, in random order.

Drift of the machine then disturbs all scales of a round alike, and rounds are compared whole. A
failed run is a result: it is recorded and the study goes on. Runs that are already there are not
made again, so that an interrupted study goes on where it stopped.
"""

import contextlib
import datetime
import errno
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from nodewise.base.errors import RunError, SpecError
from nodewise.measure import provenance
from nodewise.measure.barrier import Barrier
from nodewise.measure.collect import ReadTraces, collect
from nodewise.measure.energy import Meter, with_energy
from nodewise.measure.engines import base
from nodewise.measure.engines.base import Engine, Job
from nodewise.measure.gpus import GpuWatch
from nodewise.measure.mpi import leftovers
from nodewise.measure.mpi.libraries import STARTERS
from nodewise.measure.program_log import kept_output, with_figures
from nodewise.measure.scratch import remove_leftovers, scratch_folder
from nodewise.measure.watch import Watch, cores
from nodewise.probe import RANK_NAMES
from nodewise.study import store
from nodewise.study.expression import expand, holds, uses_alone
from nodewise.study.files import open_to_change, own_folder, read_own
from nodewise.study.log_patterns import log_patterns
from nodewise.study.spec import OWN_WORKERS, Spec
from nodewise.study.study import Fact, Rank, Run, Study

_STARTS_COPIES = ("local", "mpi", "torchrun", "rehearsal")
_GIVE_UP_AFTER = 2  # failures of one scale; a third would only cost time
_BUSY_SHARE = 0.5  # of the CPU; a launcher whose workers are elsewhere hardly uses any
_MOST_TRIED = 10_000  # scales, to suggest some that fit
_RUNNING = "running"
_JOBS = "jobs"  # runs that continue without us, one folder per run


class Task(NamedTuple):
    """One run that is to be made."""

    nodes: int
    round: int
    baseline: bool


# Called with each finished run, and how many are left.
Tell = Callable[[Run, int], None]


def measure(
    spec: Spec,
    spec_text: str,
    home: Path,
    folder: Path,
    engine: Engine,
    tell: Tell,
    enough: Callable[[Study], bool],
    read_traces: ReadTraces | None = None,
) -> None:
    """Make every run that is missing in the study folder; `home` is the folder of the spec.

    `read_traces` breaks down what the ranks recorded of their devices.
    """
    with contextlib.closing(engine):
        check(spec, home, folder, engine)  # may start a process that `close` ends
        store.create(folder, spec_text)
        with _full_disk_said(folder), store.locked(folder):
            _end_leftovers(folder)
            machine = provenance.machine()
            study = store.load(folder)
            tasks = _tasks(spec, study, enough)
            while tasks:
                _prepare(spec, home, folder, engine, tasks)
                run = _run(spec, spec_text, home, folder, engine, tasks[0], machine, read_traces)
                store.append(folder, run)
                study = msgspec.structs.replace(study, runs=(*study.runs, run))
                tasks = _tasks(spec, study, enough)
                tell(run, len(tasks))
            _prepare(spec, home, folder, engine, [])


@contextlib.contextmanager
def _full_disk_said(folder: Path) -> Iterator[None]:
    """A full disk ends the measuring with an error; every finished run is kept."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise RunError(
            f"Cannot write to {error.filename or folder}: {os.strerror(error.errno).lower()}.",
            "Free some disk space. Every finished run is kept, and the same command continues.",
        ) from None


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
    """What is left to do: to the last round, or until the speedup is known well enough.

    Nothing after a run without a step, which no further run can make valid.
    """
    if any(run.steps == 0 for run in study.runs if run.outcome == "ok" and not run.baseline):
        return []
    if spec.precision is None:
        return missing(spec, study)
    tasks = missing(msgspec.structs.replace(spec, rounds=spec.precision.most_rounds), study)
    begins_round = bool(tasks) and all(run.round < tasks[0].round for run in study.runs)
    return [] if begins_round and enough(study) else tasks


def check(spec: Spec, home: Path, folder: Path, engine: Engine) -> None:
    """Raise an error where the job cannot be started here; nothing is written."""
    _refuse_scales(spec, engine)
    engine.check(spec.scales)
    for _, job in _first_jobs(spec, home, folder, engine):
        engine.check_job(job)


def plans(spec: Spec, home: Path, folder: Path, engine: Engine) -> Iterator[tuple[Task, str]]:
    """What would be run, for each scale and the baseline, without running it."""
    _refuse_scales(spec, engine)
    engine.check_spec(spec.scales)
    for task, job in _first_jobs(spec, home, folder, engine):
        yield task, engine.plan(job)


def _first_jobs(spec: Spec, home: Path, folder: Path, engine: Engine) -> Iterator[tuple[Task, Job]]:
    """The jobs of one round, by K; the baseline last."""
    empty = Study(name=spec.name, regime="strong", runs=())
    first = missing(msgspec.structs.replace(spec, rounds=1), empty)
    for task in sorted(first, key=lambda task: (task.baseline, task.nodes)):
        yield task, _job(spec, home, folder / _JOBS / _label(task), engine, task)


def _job(spec: Spec, home: Path, scratch: Path, engine: Engine, task: Task) -> Job:
    directory = (home / spec.workload.directory).resolve()
    if not directory.is_dir():
        raise SpecError(
            f"workload.directory: no such folder: {directory}.",
            "Name it from the spec's folder.",
        )
    command = _command(spec, engine, task)
    if not engine.elsewhere and not base.has_program(command[0], directory):
        raise RunError(
            f"No such program: {command[0]}.",
            "Install it, or correct the command of the job.",
        )
    own = _own_environment(spec, task, scratch, engine.ranks(task.nodes))
    outer = {name: value for name, value in os.environ.items() if name not in RANK_NAMES}
    return Job(
        command=command,
        nodes=task.nodes,
        directory=directory,
        environment={**outer, **own},
        own_environment=own,
        folder=scratch,
        timeout_seconds=spec.timeout_seconds,
    )


def _prepare(spec: Spec, home: Path, folder: Path, engine: Engine, tasks: list[Task]) -> None:
    """Give a detached engine the coming runs, and end those that are no longer wanted."""
    if not engine.detached:
        return
    place = own_folder(folder / _JOBS).resolve()
    wanted = {_label(task) for task in tasks}
    for old in place.iterdir():
        if old.name not in wanted:
            engine.forget(old)
            shutil.rmtree(old, ignore_errors=True)
    # Whether another round is needed is known when this one is over.
    sure = tasks if spec.precision is None else [t for t in tasks if t.round == tasks[0].round]
    jobs = []
    for task in sure:
        scratch = place / _label(task)
        scratch.mkdir(parents=True, exist_ok=True)
        jobs.append(_job(spec, home, scratch, engine, task))
    if jobs:
        engine.prepare(jobs)


@contextlib.contextmanager
def _scratch(folder: Path, engine: Engine, task: Task) -> Iterator[Path]:
    """The folder of a run; that of a detached one stays until its end is on the disk."""
    if not engine.detached and not engine.elsewhere:
        # Ranks that left the group of their launcher hold shared memory until they are ended.
        with scratch_folder() as scratch, leftovers.removed(scratch):
            try:
                yield scratch
            finally:
                base.end_marked(scratch)
        return
    shared = own_folder(folder / _JOBS).resolve() / _label(task)
    if engine.detached:
        yield shared
        return
    shutil.rmtree(shared, ignore_errors=True)  # of a run that did not finish
    shared.mkdir()
    try:
        yield shared
    finally:
        base.end_marked(shared)
        shutil.rmtree(shared, ignore_errors=True)


def _run(
    spec: Spec,
    spec_text: str,
    home: Path,
    folder: Path,
    engine: Engine,
    task: Task,
    machine: dict[str, Fact],
    read_traces: ReadTraces | None,
) -> Run:
    start = datetime.datetime.now(datetime.UTC)
    with _scratch(folder, engine, task) as scratch:
        job = _job(spec, home, scratch, engine, task)
        # Emulated nodes load without limits, and are limited while they are timed.
        meter = Meter()
        gpus = GpuWatch([] if engine.elsewhere else None)  # those of the nodes are not seen here

        def through() -> None:
            meter.end()
            gpus.end()
            engine.unlimit()

        calls = (engine.hold, engine.limit, through)
        ranks = engine.ranks(task.nodes)
        gate: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if ranks is not None and not engine.elsewhere:
            gate = Barrier(_gate(scratch), ranks, *calls)
        with Watch() as watch, meter, gpus, gate:

            def begun(leaders: Sequence[int]) -> None:
                _note_running(folder, scratch, leaders)
                watch.follow(list(leaders))

            finished = engine.run(job, begun)
            meter.end()
        (folder / _RUNNING).unlink(missing_ok=True)
        facts: dict[str, Fact] = {
            **machine,
            **provenance.code(job.directory, job.command, spec_text),
            **provenance.programs(job.directory, job.command, start.timestamp()),
            **provenance.environment(job.environment),
            "engine": spec.engine.name,
            "oversubscribed": _shares_cores(engine, task.nodes, watch),
            "emulated": engine.emulated,
            **finished.facts,
        }
        run = collect(
            finished,
            scratch,
            job.log,
            nodes=task.nodes,
            ranks=ranks,
            number=task.round,
            baseline=task.baseline,
            provenance=facts,
            started=start.isoformat(timespec="milliseconds"),
            read_traces=read_traces,
        )
        store.keep_output(folder, run, kept_output(job.log))
        if engine.watched and not engine.elsewhere:
            run = _with_usage(run, watch, ranks)
        if not engine.elsewhere:
            run = with_energy(run, meter, local=spec.engine.name == "local")
            seen = gpus.facts(run.seconds)
            run = msgspec.structs.replace(run, provenance={**run.provenance, **seen})
        store.keep_stamps(folder, run, scratch)
        run = msgspec.structs.replace(run, wall_seconds=finished.seconds)
        patterns = log_patterns(spec.workload)
        return with_figures(run, patterns, job.log, job.directory, start.timestamp())


def _shares_cores(engine: Engine, nodes: int, watch: Watch) -> bool:
    """Whether more workers than cores ran on this machine, which does not show scaling.

    Where the command starts its workers, those that ran here kept its cores busy.
    """
    if engine.emulated or engine.elsewhere or engine.threads(nodes) <= cores():
        return False
    return engine.ranks(nodes) is not None or watch.share_used() > _BUSY_SHARE


def _with_usage(run: Run, watch: Watch, expected: int | None) -> Run:
    """Add what was observed from outside, if the ranks did not report it.

    A launcher has all ranks in one group: who of them used what is unknown, but not the longest
    wait.
    """
    seen = watch.usage()
    ranks = run.ranks
    if not ranks and len(seen) == expected:
        ranks = tuple(Rank(rank=at, stages={}, usage=usage) for at, usage in enumerate(seen))
    usages = [rank.usage for rank in ranks] if ranks else seen
    delays = [None if usage is None else usage.run_delay_seconds for usage in usages]
    if run.provenance.get("emulated"):
        delays = _late_on_emulated_nodes(run, delays)
    return msgspec.structs.replace(
        run, ranks=ranks, contention=watch.contention(delays, run.seconds)
    )


def _late_on_emulated_nodes(run: Run, delays: list[float | None]) -> list[float | None]:
    """How long other load kept ranks from their core, beyond what their node makes them wait.

    A paced rank reports it. Under a quota the waits for a core include those for the next period.
    """
    if any(rank.pace is not None for rank in run.ranks):
        return [None if rank.pace is None else rank.pace.late_seconds for rank in run.ranks]
    held = [run.provenance.get(f"rehearsal_node{at}.throttled_seconds") for at in range(run.nodes)]
    known = [float(seconds) for seconds in held if seconds is not None]
    if len(known) < run.nodes or len(delays) not in (1, run.nodes):
        return [None]
    if len(delays) == 1:
        return [None if delays[0] is None else max(delays[0] - min(known), 0.0)]
    return [
        None if delay is None else max(delay - throttled, 0.0)
        for delay, throttled in zip(delays, known, strict=True)
    ]


def _refuse_scales(spec: Spec, engine: Engine) -> None:
    """Refuse the scales at which the job cannot run, as its `requires` says."""
    condition = spec.workload.requires
    if condition is None:
        return

    def fits(nodes: int) -> bool:
        return holds(condition, _numbers(spec, engine, nodes), "workload.requires")

    def suits(nodes: int) -> bool:
        try:
            return fits(nodes)
        except SpecError:  # such as a division by zero at this K
            return False

    wrong = [nodes for nodes in spec.scales if not fits(nodes)]
    if wrong:
        tried = range(1, min(2 * max(spec.scales), _MOST_TRIED) + 1)
        other = list(islice((nodes for nodes in tried if suits(nodes)), 8))
        listed = ", ".join(map(str, other))
        raise SpecError(
            f"scales: K={', '.join(map(str, wrong))} does not meet workload.requires = "
            f"'{condition}'.",
            f"Use scales that do: {listed}." if other else "Correct the condition or the scales.",
        )


def _numbers(spec: Spec, engine: Engine, nodes: int) -> dict[str, int | str]:
    """What an expression may name; the ranks where the engine starts them."""
    ranks = engine.ranks(nodes)
    return {
        "n": nodes,
        "nodes": nodes,
        "k": nodes,
        **({} if ranks is None else {"ranks": ranks}),
        "seed": spec.seed,
    }


def _command(spec: Spec, engine: Engine, task: Task) -> tuple[str, ...]:
    raw, field = spec.workload.command, "workload.command"
    if task.baseline:
        assert spec.baseline is not None
        raw, field = spec.baseline.command, "baseline.command"
    elif spec.workload.function is not None:
        raw = ("{python}", "-m", "nodewise.measure.launch", spec.workload.function)
    if spec.engine.name != OWN_WORKERS and uses_alone(raw, "n"):
        raise SpecError(
            "workload.command: {n} is for a command that starts its own K workers; the engine "
            f"'{spec.engine.name}' starts K workers too.",
            f'Write name = "{OWN_WORKERS}" under [engine], or {{nodes}} for the number alone.',
        )
    starter = Path(raw[0]).name
    if spec.engine.name in _STARTS_COPIES and starter in STARTERS and not task.baseline:
        raise SpecError(
            f"workload.command: {starter} starts the ranks, and the engine '{spec.engine.name}' "
            "would start K copies of it.",
            f"Start K ranks in it ({starter} -n {{n}} ...) with the engine '{OWN_WORKERS}', or "
            f"leave {starter} out with the engine 'mpi'.",
        )
    values = {
        **_numbers(spec, engine, task.nodes),
        "round": task.round,
        "python": sys.executable,
    }
    further = () if task.baseline else spec.workload.arguments.get(task.nodes, ())
    return (*expand(raw, values, field), *expand(further, values, "workload.arguments"))


def _own_environment(spec: Spec, task: Task, scratch: Path, ranks: int | None) -> dict[str, str]:
    """The variables of a run, beside those that are ours anyway.

    Workers meet at the gate where their number is known.
    """
    meet = {"NODEWISE_GATE": str(_gate(scratch)), "NODEWISE_RANKS": str(ranks)}
    return {
        **spec.workload.environment,
        base.RUN_MARK: str(scratch),
        **({} if ranks is None else meet),
        **({"NODEWISE_MPI_REGION": spec.workload.region} if spec.workload.region else {}),
        "NODEWISE_WARMUP_STEPS": str(spec.workload.warmup_steps),
        "NODEWISE_SEED": str(spec.seed),
        "NODEWISE_ROUND": str(task.round),
        "NODEWISE_NODES": str(task.nodes),
    }


def _gate(scratch: Path) -> Path:
    return scratch / "gate"


def _label(task: Task) -> str:
    return f"{'baseline' if task.baseline else f'K{task.nodes}'}-round{task.round}"


def _note_running(folder: Path, scratch: Path, leaders: Sequence[int]) -> None:
    """Write down who runs, so that the next process can end them if this one is killed."""
    lines = [str(scratch)]
    for leader in leaders:
        with contextlib.suppress(psutil.Error):
            lines.append(f"{leader} {psutil.Process(leader).create_time()}")
    # Written in place: a torn note is read as far as it goes, and a kill leaves no other file.
    with open_to_change(folder / _RUNNING, os.O_TRUNC) as file:
        file.write("\n".join(lines).encode())


def _end_leftovers(folder: Path) -> None:
    """End what a killed harness left running; a process id that was reused is left alone."""
    try:
        noted = read_own(folder / _RUNNING).decode(errors="replace")
    except OSError:
        noted = ""
    scratch, *lines = noted.splitlines() or [""]
    for line in lines:
        leader, _, born = line.partition(" ")
        with contextlib.suppress(psutil.Error, ValueError):
            if abs(psutil.Process(int(leader)).create_time() - float(born)) < 1:
                base.signal_group(int(leader), 9)
    if scratch:
        base.end_marked(Path(scratch))
    (folder / _RUNNING).unlink(missing_ok=True)
    remove_leftovers()
