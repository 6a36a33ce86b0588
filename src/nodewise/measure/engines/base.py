"""What an engine is given and what it gives back. Engines know no mathematics."""

import contextlib
import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeVar

import msgspec
import psutil

from nodewise.study.spec import EngineSpec, Part, convert
from nodewise.study.study import Fact, Outcome, Rank

Options = TypeVar("Options", bound=msgspec.Struct)

RUN_MARK = "NODEWISE_RUN"  # the variable by which every process of a run is known
SCRATCH_MARK = "NODEWISE_SCRATCH"  # that of a program which is watched, not measured
_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.01
_GONE_SECONDS = 5.0  # that the kernel may take to end what was killed
_PR_SET_PDEATHSIG = 1


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be made: a command, how many workers of it, and where each reports."""

    command: tuple[str, ...]
    nodes: int
    directory: Path
    environment: Mapping[str, str]  # complete, as the workers are to see it
    own_environment: Mapping[str, str] = {}  # the part of it that other machines lack
    folder: Path  # scratch of this run: each rank's report, the log
    timeout_seconds: float

    @property
    def told(self) -> Mapping[str, str]:
        """The old name of `own_environment`, which keeps working for one version."""
        warnings.warn("Job.told is now Job.own_environment.", DeprecationWarning, stacklevel=2)
        return self.own_environment

    @property
    def log(self) -> Path:
        """Where the output of all workers goes."""
        return self.folder / "log"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended; what the ranks measured themselves is in the job's folder."""

    outcome: Outcome
    seconds: float  # from the start of the first worker to the end of the last
    detail: str = ""  # the exit code or signal in words
    printed: int | None = None  # bytes of its output before it was stopped; None: it ended itself
    ranks: tuple[Rank, ...] = ()  # each worker, from the engine's own records
    driven: bool = False  # by one program, whose report tells of the run and not of a worker
    interposed: bool = False  # every rank that calls MPI_Init reports it
    facts: Mapping[str, Fact] = {}  # its version, nodes, queue wait, start-up: provenance of a run


class Worker(Protocol):
    """A process that leads a group of its own, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its process, which is also its group."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def wait(self) -> int:
        """Its exit code, as soon as there is one."""


# Called with the leaders of the process groups as soon as they run, so a crash leaves none behind.
Started = Callable[[Sequence[int]], None]


class NoOptions(Part, frozen=True, kw_only=True):
    """The table of an engine that takes none."""


class Engine:
    """A way to run a command on K workers. Only `run` must be written."""

    options_type: ClassVar[type[msgspec.Struct]] = NoOptions  # of its table in the spec
    emulated: ClassVar[bool] = False  # its nodes are not real ones
    watched: ClassVar[bool] = True  # its workers are our children: other load is separable
    # Its workers are on other machines: the folder of a run is in the study folder, which all of
    # them must see.
    elsewhere: ClassVar[bool] = False
    # Runs continue without us; their folders are kept until `run` has returned how they ended.
    detached: ClassVar[bool] = False

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """The engine that a spec asks for; `home` is the folder of the spec."""
        return cls()

    def check_spec(self, scales: Sequence[int]) -> None:
        """Raise a `SpecError` where the spec alone shows that these scales cannot be run."""

    def check(self, scales: Sequence[int]) -> None:
        """Raise a `RunError` with its fix if these scales cannot be run here."""

    def check_job(self, job: Job) -> None:
        """Raise a `RunError` with its fix if this job cannot be run here."""

    def ranks(self, nodes: int) -> int | None:
        """How many ranks take part at a scale; None: only the command knows, and starts them."""
        return nodes

    def threads(self, nodes: int) -> int:
        """How many threads compute at a scale."""
        return nodes

    def plan(self, job: Job) -> str:
        """What would be run, for people to read."""
        return shlex.join(job.command)

    def prepare(self, jobs: Sequence[Job]) -> None:
        """If detached, takes what is to be run, the next one first; also what it took before."""

    def run(self, job: Job, started: Started) -> Finished:
        """Run the job to its end, and leave no process of it behind."""
        raise NotImplementedError

    def forget(self, folder: Path) -> None:
        """End a prepared run that is not wanted any more; `folder` was that of its job."""

    def close(self) -> None:
        """Leave nothing behind; called once, also after a failure."""

    def hold(self) -> None:
        """The first rank has reached the gate."""

    def limit(self) -> None:
        """All ranks are at the gate, and go on after this."""

    def unlimit(self) -> None:
        """All ranks are through."""


class LauncherEngine(Engine):
    """One command a run, which starts the ranks itself and ends with the first that fails."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """`options` go to the launcher, before the job's command."""
        self._options = tuple(options)

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the options of the spec."""
        return cls(chosen.options)

    def command(self, job: Job) -> list[str]:
        """The line of the launcher."""
        raise NotImplementedError

    def environment(self, job: Job) -> dict[str, str]:
        """The variables of the launcher, which its ranks inherit."""
        return {**job.environment, "NODEWISE_NODES": str(job.nodes)}

    def plan(self, job: Job) -> str:
        """The line of the launcher."""
        return shlex.join(self.command(job))

    def run(self, job: Job, started: Started) -> Finished:
        """Start the launcher and wait for it."""
        command, environment = self.command(job), self.environment(job)
        begin = time.monotonic()
        worker = start(command, job, environment)
        started([worker.pid])
        return wait_for_all([worker], job, begin)


def options_of(chosen: EngineSpec, name: str, kind: type[Options]) -> Options:
    """The table `[engine.NAME]` of a spec; a bad field is named by its path."""
    return convert(chosen.tables.get(name, {}), kind, f"engine.{name}", "docs/engines.md")


def has_program(name: str, directory: Path) -> bool:
    """Whether a worker finds its program: a path counts from where the worker runs."""
    return shutil.which(directory / name if "/" in name else name) is not None


def fill_in(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words of a command with the values of the names in them.

    >>> fill_in(["--port={port}", "run"], {"{port}": "80"})
    ['--port=80', 'run']
    """
    pattern = re.compile("|".join(map(re.escape, values)))
    return [pattern.sub(lambda found: values[found[0]], word) for word in words]


def start(
    command: Sequence[str], job: Job, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, that dies with this one, with its output in the log."""
    with job.log.open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=job.directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def wait_for_all(workers: Sequence[Worker], job: Job, begin: float) -> Finished:
    """Wait until all workers end, one fails, or the time is up; then end what is left."""
    deadline = begin + job.timeout_seconds
    try:
        while True:
            codes = [worker.poll() for worker in workers]
            seconds = time.monotonic() - begin
            failed = [code for code in codes if code]
            if failed:
                outcome, words = outcome_of(failed[0]), in_words(failed[0])
                return Finished(outcome=outcome, seconds=seconds, detail=words)
            if all(code == 0 for code in codes):
                return Finished(outcome="ok", seconds=seconds)
            if time.monotonic() > deadline:
                words = f"stopped after {job.timeout_seconds:g} s"
                # Workers that are stopped may print errors, which are not what they waited for.
                printed = job.log.stat().st_size if job.log.exists() else 0
                return Finished(outcome="timeout", seconds=seconds, detail=words, printed=printed)
            time.sleep(_POLL_SECONDS)
    finally:
        for worker in workers:
            end(worker)


def outcome_of(code: int) -> Outcome:
    """The outcome behind an exit code; a kill that we did not send is taken for lack of memory."""
    return "out of memory" if code in (-signal.SIGKILL, 128 + signal.SIGKILL) else "crashed"


def in_words(code: int) -> str:
    """An exit code or a signal in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def end(worker: Worker, grace_seconds: float = _GRACE_SECONDS) -> None:
    """End a worker and everything in its group: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace_seconds
        if not signal_group(worker.pid, number):
            break
        while time.monotonic() < deadline:
            worker.poll()  # a child that is not waited for keeps its group alive
            if not signal_group(worker.pid, 0):
                break
            time.sleep(_POLL_SECONDS)
    worker.wait()


def end_marked(run: Path) -> None:
    """End every process that belongs to a run, those too that left its group for the background.

    Their ports and files are free when this returns.
    """
    killed = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            if str(run) in (environment.get(RUN_MARK), environment.get(SCRATCH_MARK)):
                process.kill()
                killed.append(process)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(map(_holds, killed)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _holds(process: psutil.Process) -> bool:
    """Whether a process still has its ports: one that only waits to be reaped has none."""
    try:
        # the first thread may be over while others still end
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def signal_group(leader: int, number: int) -> bool:
    """Send a signal to a process group; false if the group has ended."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True


def die_with_parent() -> None:
    """In a child, before it becomes the worker: be killed when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
