"""K nodes or tasks of a Slurm cluster: a batch job for each run, or one for all of them.

Jobs continue without us. Each leaves its number, its log and its outcome in its folder in the study
folder, which must be on a file system that the nodes share; the next `measure` collects them.
"""

import math
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines import base, shell_tasks
from nodewise.measure.engines.base import Engine, Finished, Job, Started
from nodewise.measure.engines.commands import mpiexec, torchrun
from nodewise.measure.engines.shell_tasks import Task
from nodewise.measure.launch import carried
from nodewise.study.spec import Count, EngineSpec, Part, Positive
from nodewise.study.study import Fact, Outcome

_PROGRAMS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
_ANSWER_SECONDS = 60.0  # a busy controller is slow
_CHECK_SECONDS = 15.0  # one that does not answer at all is asked again and again
_ATTEMPTS = 3  # submissions of one run that the cluster took away before they ended
_AWAY_SECONDS = 1800.0  # a controller may be away while we wait
_SETTLE_SECONDS = 15.0  # until a file that another machine wrote is seen through a shared folder
_AWAY = "the controller does not answer"  # and the job may go on
_ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "REQUEUE_FED",
          "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "SUSPENDED", "STOPPED", "SIGNALING",
          "RESIZING", "STAGE_OUT", _AWAY)  # fmt: skip
_TAKEN_AWAY = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL")
_ACCOUNTED = ("State", "ElapsedRaw", "TotalCPU", "MaxRSS", "AveDiskRead", "AveDiskWrite",
              "ConsumedEnergyRaw", "NNodes", "NTasks", "ReqMem", "AllocTRES")  # fmt: skip


class SlurmOptions(Part, frozen=True, kw_only=True):
    """The table `[engine.slurm]`."""

    scale: Literal["nodes", "tasks"] = "nodes"  # what K counts
    tasks_per_node: Count = 1  # ranks on each node, if K counts nodes
    cpus_per_task: Count = 1  # cores of each task
    launcher: Literal["srun", "mpiexec", "torchrun"] = "srun"  # what starts the ranks
    mpi: str = ""  # srun --mpi=...: pmi2 or pmix
    allocation: Literal["each", "one"] = "each"  # one job for each run, or for all
    partition: str = ""  # Slurm partition
    account: str = ""  # Slurm account
    time_minutes: Count | None = None  # time limit of a job; default: from the timeout
    exclusive: bool = False  # no other jobs on the nodes
    together: bool = False  # runs may be on the cluster at the same time
    queued: Count = 20  # jobs in the queue at a time
    setup: tuple[str, ...] = ()  # shell lines before the job: module load ...
    poll_seconds: Positive = 2.0  # interval of queries


class Slurm(Engine):
    """Submits, waits, and collects what the batch jobs left."""

    options_type = SlurmOptions
    elsewhere = True
    detached = True

    def __init__(self, options: SlurmOptions, arguments: Sequence[str] = ()) -> None:
        """`arguments` go to sbatch."""
        self._options = options
        self._arguments = tuple(arguments)

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the table of the spec."""
        return cls(base.options_of(chosen, "slurm", SlurmOptions), chosen.options)

    def ranks(self, nodes: int) -> int:
        """A rank a task."""
        return nodes * (self._options.tasks_per_node if self._options.scale == "nodes" else 1)

    def check_spec(self, scales: Sequence[int]) -> None:
        """Torch's agents have as many ranks on each node."""
        each = self._options.tasks_per_node
        if self._options.launcher != "torchrun" or self._options.scale == "nodes":
            return
        for nodes in scales:
            if nodes > each and nodes % each:
                raise SpecError(
                    f"K={nodes} tasks do not fill nodes of {each}, as torchrun wants.",
                    f"Name a multiple of {each}, or correct engine.slurm.tasks_per_node.",
                )

    def check(self, scales: Sequence[int]) -> None:
        """The programs, a controller that answers, and as many nodes as are asked for."""
        for name in _PROGRAMS:
            if shutil.which(name) is None:
                raise RunError(
                    f"{name} is not installed.",
                    "Run nodewise where jobs are submitted, with Slurm's programs on the PATH "
                    "(module load slurm); for a trial on one machine see scripts/slurm.sh.",
                )
        if self._options.launcher == "mpiexec":
            mpiexec()
        partition = self._options.partition
        chosen = ["-p", partition] if partition else []
        done = _ask("sinfo", "-h", "-o", "%D %C", *chosen, seconds=_CHECK_SECONDS)
        if done.returncode:
            raise RunError(
                f"Slurm does not answer: {_first_line(done.stderr)}.",
                "Check with: scontrol ping. SLURM_CONF names the cluster.",
            )
        rows = [line.split() for line in done.stdout.splitlines()]
        if not rows:
            raise RunError(f"Slurm has no partition '{partition}'.", "Choose one that sinfo lists.")
        nodes = sum(int(row[0]) for row in rows)
        cores = sum(int(row[1].rpartition("/")[2]) for row in rows)
        have, what = (nodes, "nodes") if self._options.scale == "nodes" else (cores, "cores")
        if max(scales) > have:
            raise RunError(
                f"The partition has {have} {what}; K={max(scales)} is requested.",
                "Leave out that scale, or name a larger partition.",
            )

    def plan(self, job: Job) -> str:
        """The batch script."""
        return _Script(self._options, self._arguments).text([job])

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Submit what is not submitted yet, so that it waits in the queue while others run."""
        queue = _queue()
        for job in jobs:
            _adopt(job, queue)
        new = [job for job in jobs if _must_be_submitted(job, queue)]
        if self._options.allocation == "one" and new:
            # The largest first: what fails there fails at once, and a time limit cuts the cheapest.
            new.sort(key=lambda job: (int(job.environment["NODEWISE_ROUND"]), -job.nodes))
            self._submit(new)
            return
        waiting = sum(1 for job in jobs if _number(job.folder) in queue)
        for job in new[: max(self._options.queued - waiting, 1)]:
            self._submit([job])

    def run(self, job: Job, started: Started) -> Finished:
        """Wait until the batch job has ended, and read what it left."""
        while True:
            number = _number(job.folder)
            if number is None:
                raise RunError(f"{job.folder} has no job.", "Run nodewise measure again.")
            state = self._wait(job, number)
            taken_away = state in _TAKEN_AWAY or (state == "TIMEOUT" and not _begun(job.folder))
            if _ended(job.folder) or not taken_away or _attempts(job.folder) >= _ATTEMPTS:
                return self._finished(job, number, state)
            self._submit([job])

    def forget(self, folder: Path) -> None:
        """Cancel the job, unless it also holds other runs; those without a folder it leaves out."""
        number = _number(folder)
        if number is not None and self._options.allocation == "each":
            _ask("scancel", str(number))

    def _submit(self, jobs: Sequence[Job]) -> None:
        script = jobs[0].folder / "batch.sh"
        script.write_text(_Script(self._options, self._arguments).text(jobs))
        for job in jobs:
            shell_tasks.write_task(job)
        done = _ask("sbatch", "--parsable", str(script))
        number = done.stdout.strip().partition(";")[0]
        if done.returncode or not number.isdecimal():
            raise RunError(
                f"sbatch refuses the job: {_first_line(done.stderr)}.",
                f"Correct [engine.slurm]; the script is {script}.",
            )
        for job in jobs:
            with (job.folder / "submitted").open("a") as file:
                file.write(f"{number}\n")

    def _wait(self, job: Job, number: int) -> str:
        """The state in which the job has ended, or in which this run of it has."""
        answered = time.monotonic()
        while True:
            ended = _ended(job.folder)
            state = _state(number)
            if state not in _ALIVE:
                break
            if state != _AWAY:
                answered = time.monotonic()
            elif time.monotonic() - answered > _AWAY_SECONDS:
                raise RunError(
                    f"Slurm has not answered for {_AWAY_SECONDS / 60:g} minutes.",
                    "Repeat the command when it does. Submitted jobs continue meanwhile.",
                )
            # A script that is being requeued also ends, but not with success.
            shared = len(_shared_with(number, job.folder)) > 1
            if ended is not None and (ended.code == 0 or shared):
                return state
            time.sleep(self._options.poll_seconds)
        deadline = time.monotonic() + _SETTLE_SECONDS
        while state == "COMPLETED" and not _ended(job.folder) and time.monotonic() < deadline:
            time.sleep(self._options.poll_seconds)
        return state

    def _finished(self, job: Job, number: int, state: str) -> Finished:
        facts = _facts(job, number)
        ended = _ended(job.folder)
        if ended is None:
            return _unfinished(state, facts)
        seconds = ended.end - ended.begin
        tasks = shell_tasks.read_tasks(job.folder)
        facts["slurm_step_seconds"] = seconds
        facts["engine_nodes"] = ",".join(dict.fromkeys(task.host for task in tasks)) or ended.nodes
        if tasks:
            facts["startup_seconds"] = max(max(task.begin for task in tasks) - ended.begin, 0.0)
        if ended.code:
            outcome, words = _failure(ended, state, tasks, job.timeout_seconds)
            return Finished(outcome=outcome, seconds=seconds, detail=words, facts=facts)
        hosts = len({task.host for task in tasks})
        if self._options.scale == "nodes" and hosts != job.nodes:
            words = f"the workers ran on {hosts} nodes, not {job.nodes}"
            return Finished(outcome="wrong workers", seconds=seconds, detail=words, facts=facts)
        several = self._options.launcher == "torchrun" and self._options.tasks_per_node > 1
        # Of torchrun's ranks on one node only the launcher is seen here; they report themselves.
        ranks = () if several else shell_tasks.ranks_of(tasks, ended.begin, ended.end)
        return Finished(outcome="ok", seconds=seconds, ranks=ranks, facts=facts)


class _Script:
    """The batch script of one run or of several."""

    def __init__(self, options: SlurmOptions, arguments: tuple[str, ...]) -> None:
        self._options = options
        self._arguments = arguments

    def text(self, jobs: Sequence[Job]) -> str:
        """Directives for the largest, then a section for each."""
        largest = max(jobs, key=lambda job: job.nodes)
        first = jobs[0].folder
        options = self._options
        seconds = sum(job.timeout_seconds for job in jobs)
        minutes = options.time_minutes or math.ceil(seconds / 60) + 1
        directives = {
            "job-name": f"nodewise-{first.parent.parent.name}",
            "comment": str(first),
            "output": str(first / "log") if len(jobs) == 1 else "/dev/null",
            "open-mode": "truncate",
            **self._size(largest.nodes),
            "cpus-per-task": self._cores(largest.nodes),
            "time": minutes,
            "partition": options.partition,
            "account": options.account,
            "dependency": "" if options.together else "singleton",
        }
        lines = [f'#SBATCH --{name}="{value}"' for name, value in directives.items() if value]
        flags = ["requeue", *(["exclusive"] if options.exclusive else [])]
        lines += [f"#SBATCH --{flag}" for flag in flags]
        lines += [f"#SBATCH {argument}" for argument in self._arguments]
        # Ended from outside, as by preemption: the job comes back, so no run has ended.
        lines += ["trap 'exit 143' TERM", *options.setup]
        for job in jobs:
            lines += ["(", *self._section(job, alone=len(jobs) == 1), ")"]
        return "\n".join(["#!/bin/bash", *lines, ""])

    def _agents(self, nodes: int) -> tuple[int, int]:
        """Torch's agents, one for each node, and the ranks of each."""
        each = self._options.tasks_per_node
        if self._options.scale == "nodes":
            return nodes, each
        return max(1, nodes // each), min(nodes, each)

    def _cores(self, nodes: int) -> int:
        """The cores of a task; an agent of torch has those of its ranks."""
        ranks = self._agents(nodes)[1] if self._options.launcher == "torchrun" else 1
        return self._options.cpus_per_task * ranks

    def _size(self, nodes: int) -> dict[str, int]:
        if self._options.launcher == "torchrun":
            agents, _ = self._agents(nodes)
            return {"nodes": agents, "ntasks": agents, "ntasks-per-node": 1}
        if self._options.scale == "tasks":
            return {"ntasks": nodes}
        tasks = self._options.tasks_per_node
        return {"nodes": nodes, "ntasks": nodes * tasks, "ntasks-per-node": tasks}

    def _section(self, job: Job, alone: bool) -> list[str]:
        folder = shlex.quote(str(job.folder))
        launch = f"timeout --kill-after=10 {job.timeout_seconds:g} {self._launch(job)}"
        return [
            "trap 'exit 143' TERM",
            *shell_tasks.exports(self._watched(job)),
            *([] if alone else [f"[ -d {folder} ] && [ ! -e {folder}/ended ] || exit 0"]),
            f"cd {shlex.quote(str(job.directory))} || exit 1",
            f"rm -rf {folder}/gate {folder}/rank-* {folder}/task-* {folder}/ended",
            f"date +%s.%N > {folder}/begin",
            launch if alone else f"{launch} > {folder}/log 2>&1",
            "code=$?",
            f'echo "$code $(cat {folder}/begin) $(date +%s.%N) $SLURM_JOB_NODELIST '
            f'${{SLURM_RESTART_COUNT:-0}}" > {folder}/ended.part',
            f"mv {folder}/ended.part {folder}/ended",
            *(["exit $code"] if alone else []),
        ]

    def _watched(self, job: Job) -> Job:
        """With the hooks in every Python of the job, where srun starts it and no launcher does."""
        if self._options.launcher != "srun":
            return job
        own = {**job.own_environment, **carried(job.environment)}
        return msgspec.structs.replace(job, own_environment=own)

    def _launch(self, job: Job) -> str:
        """The step; of a larger allocation it takes the first nodes."""
        options = self._options
        task = ["bash", str(job.folder / "task.sh")]
        size = self._size(job.nodes)
        if options.launcher == "mpiexec":
            place = ["-n", str(size["ntasks"])]
            if options.scale == "nodes":
                place += ["-ppn", str(options.tasks_per_node)]
            return shlex.join([mpiexec(), *place, *task, *job.command])
        flags = [f"--{name}={value}" for name, value in size.items()]
        flags += ["--kill-on-bad-exit=1", "--relative=0"]
        flags += [f"--cpus-per-task={self._cores(job.nodes)}"]
        flags += [f"--mpi={options.mpi}"] if options.mpi else []
        if options.launcher == "srun":
            return shlex.join(["srun", *flags, *task, *job.command])
        # The batch script runs on the first node: there torch's ranks meet.
        agents, each = self._agents(job.nodes)
        torch_place = (
            f"--nnodes={agents}",
            f"--nproc-per-node={each}",
            "--rdzv-backend=static",
        )
        words = torchrun(job, *torch_place)
        at = words.index("torch.distributed.run") + 1
        agent = shlex.join([*task, *words[:at]])
        meet = '--node-rank="$SLURM_NODEID" --master-addr="$0" --master-port="$1"'
        inner = f"NODEWISE_LAUNCHER=1 {agent} {meet} {shlex.join(words[at:])}"
        port = "$((20000 + SLURM_JOB_ID % 20000))"
        return f'{shlex.join(["srun", *flags, "bash", "-c", inner])} "$(hostname)" {port}'


class _Ended(msgspec.Struct, frozen=True):
    """The line that a section of the script leaves."""

    code: int
    begin: float
    end: float
    nodes: str
    restarts: int


def _ended(folder: Path) -> _Ended | None:
    try:
        code, begin, end, nodes, restarts = (folder / "ended").read_text().split()
        return _Ended(int(code), float(begin), float(end), nodes, int(restarts))
    except (OSError, ValueError):  # cut off by a full disk
        return None


def _begun(folder: Path) -> bool:
    return (folder / "begin").exists()


def _number(folder: Path) -> int | None:
    """The job that was submitted last for a run."""
    numbers = _numbers(folder)
    return numbers[-1] if numbers else None


def _numbers(folder: Path) -> list[int]:
    try:
        lines = (folder / "submitted").read_text(errors="replace").split()
    except OSError:
        return []
    return [int(line) for line in lines if line.isdecimal() and len(line) < 20]


def _attempts(folder: Path) -> int:
    return len(_numbers(folder))


def _shared_with(number: int, folder: Path) -> list[Path]:
    """The runs that one job holds."""
    return [one for one in folder.parent.iterdir() if _number(one) == number]


def _must_be_submitted(job: Job, queue: dict[int, str]) -> bool:
    """Whether no job holds a run: none was submitted, or its allocation ended before its turn."""
    number = _number(job.folder)
    if number is None:
        return True
    lost = number not in queue and not _begun(job.folder) and _attempts(job.folder) < _ATTEMPTS
    return lost and len(_shared_with(number, job.folder)) > 1


def _adopt(job: Job, queue: dict[int, str]) -> None:
    """Find the job of a process that was killed before it could write down the number."""
    if _number(job.folder) is None:
        for number, comment in queue.items():
            if comment == str(job.folder):
                (job.folder / "submitted").write_text(f"{number}\n")


def _queue() -> dict[int, str]:
    """Our jobs in the queue, with the folder that each was submitted for."""
    done = _ask("squeue", "-h", "--me", "-o", "%A %k")
    if done.returncode:
        raise RunError(
            f"Slurm does not show its queue: {_first_line(done.stderr)}.",
            "Repeat the command when it answers. Submitted jobs continue meanwhile.",
        )
    rows = [line.partition(" ") for line in done.stdout.splitlines()]
    return {int(number): comment for number, _, comment in rows if number.isdecimal()}


def _state(number: int) -> str:
    """The state of a job in Slurm's words, from the controller or from its accounts."""
    done = _ask("scontrol", "show", "job", "-o", str(number))
    shown = _fields(done.stdout)
    if "JobState" in shown:
        return shown["JobState"]
    if "Invalid job id" not in done.stderr:
        return _AWAY
    return _accounts(number).get("State", "UNKNOWN").partition(" ")[0] or "UNKNOWN"


def _fields(shown: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", shown))


def _accounts(number: int) -> dict[str, str]:
    """What sacct keeps of a job; nothing if accounting is off."""
    if shutil.which("sacct") is None:
        return {}
    done = _ask("sacct", "-n", "-P", "-j", str(number), "-o", ",".join(_ACCOUNTED))
    if done.returncode or not done.stdout.strip():
        return {}
    # The first line is the job, those after it are its steps: memory and disk are there.
    rows = [line.split("|") for line in done.stdout.splitlines()]
    told: dict[str, str] = {}
    for row in rows:
        for name, value in zip(_ACCOUNTED, row, strict=False):
            if value and name not in told:
                told[name] = value
    return told


def _facts(job: Job, number: int) -> dict[str, Fact]:
    shown = _fields(_ask("scontrol", "show", "job", "-o", str(number)).stdout)
    facts: dict[str, Fact] = {
        "slurm_job": number,
        "slurm_submissions": _attempts(job.folder),
        "engine_version": _ask("sbatch", "--version").stdout.strip(),
    }
    submitted, eligible, start, end = (
        shell_tasks.moment(shown.get(name, ""))
        for name in ("SubmitTime", "EligibleTime", "StartTime", "EndTime")
    )
    if start is not None and submitted is not None:
        # In whole seconds. A job that waits for another run is not eligible meanwhile.
        facts["queue_seconds"] = max(start - max(submitted, eligible or submitted), 0.0)
    if start is not None and end is not None:
        facts["slurm_elapsed_seconds"] = end - start
    for name, key in (("Partition", "slurm_partition"), ("Restarts", "slurm_restarts")):
        if shown.get(name):
            facts[key] = shown[name]
    facts |= {f"sacct_{name}": value for name, value in _accounts(number).items()}
    return facts


def _failure(
    ended: _Ended, state: str, tasks: list[Task], timeout_seconds: float
) -> tuple[Outcome, str]:
    seconds = ended.end - ended.begin
    if shell_tasks.is_timeout(ended.code, seconds, timeout_seconds) or state == "TIMEOUT":
        return "timeout", f"stopped after {timeout_seconds:g} s"
    if state == "OUT_OF_MEMORY":
        return "out of memory", "Slurm: out of memory"
    return shell_tasks.first_failure(tasks) or (
        base.outcome_of(ended.code),
        base.in_words(ended.code),
    )


def _unfinished(state: str, facts: dict[str, Fact]) -> Finished:
    """How a run ended whose script left no record."""
    words = {
        "COMPLETED": "the nodes do not see the study folder: name one on a shared file system",
        "UNKNOWN": "Slurm no longer knows the job",
    }.get(state, f"Slurm: {state.lower().replace('_', ' ')}")
    outcomes: dict[str, Outcome] = {"OUT_OF_MEMORY": "out of memory", "TIMEOUT": "timeout"}
    elapsed = facts.get("slurm_elapsed_seconds", 0.0)
    return Finished(
        outcome=outcomes.get(state, "crashed"), seconds=float(elapsed), detail=words, facts=facts
    )


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line.rpartition("error: ")[2].rstrip(".") or "no message"


def _ask(*command: str, seconds: float = _ANSWER_SECONDS) -> subprocess.CompletedProcess[str]:
    return shell_tasks.ask(command, seconds)
