"""What is known of a worker on another machine that reports nothing itself: when it ran, and where.

Each worker is started by a few lines of shell that leave a line in the run's folder, which all
machines must see. So a program that knows nothing of us has its ranks recorded too.
"""

import contextlib
import datetime
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nodewise.measure.engines.base import Job, in_words, outcome_of
from nodewise.study.study import Outcome, Rank, Usage

_TIMED_OUT = 124  # what the program `timeout` ends with
_KILLED = 137  # and what it ends with where it had to kill

# The place of a worker as its launcher tells it; the first that is set counts.
_RANK = "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${SLURM_PROCID:-$NODEWISE_RANK}}}}"

TASK = f"""#!/bin/bash
# Runs its arguments, and leaves: rank, host, begin, end, CPU seconds, exit code.
# Around a launcher of several ranks, these are given their place by the launcher.
rank={_RANK}
[ -n "$NODEWISE_LAUNCHER" ] || export NODEWISE_RANK=$rank
begin=$(date +%s.%N)
"$@"
code=$?
end=$(date +%s.%N)
record="$NODEWISE_RUN/task-$rank"
times > "$record.part"
cpu=$(tail -n 1 "$record.part" | sed 's/[ms]/ /g' | awk '{{print $1*60+$2+$3*60+$4}}')
echo "$rank ${{SLURMD_NODENAME:-${{NODEWISE_HOST:-$(uname -n)}}}} $begin $end $cpu $code" > "$record.part"
mv "$record.part" "$record"
exit $code
"""  # noqa: E501


class Task(msgspec.Struct, frozen=True):
    """The line that a worker left."""

    rank: int
    host: str
    begin: float
    end: float
    cpu_seconds: float
    code: int


def write_task(job: Job) -> Path:
    """The shell lines around each worker of a job."""
    path = job.folder / "task.sh"
    path.write_text(TASK)
    return path


def read_tasks(folder: Path) -> list[Task]:
    """The workers that ran to their end, by rank."""
    tasks = []
    for path in folder.glob("task-*"):
        words = path.read_text(errors="replace").split()
        if path.suffix != ".part" and len(words) == 6:
            rank, host, *numbers, code = words
            with contextlib.suppress(ValueError):  # cut off by a full disk: it did not end
                begin, end, cpu = map(float, numbers)
                tasks.append(Task(int(rank), host, begin, end, cpu, int(code)))
    return sorted(tasks, key=lambda task: task.rank)


def ranks_of(tasks: list[Task], begin: float, end: float) -> tuple[Rank, ...]:
    """The stages of each worker between the start of the launcher and its end.

    Before a worker begins and after the last has ended is the launcher's time; from its own end to
    that of the last a worker waits. What it did meanwhile it alone could say: it counts as compute.
    """
    last = max((task.end for task in tasks), default=end)
    return tuple(
        Rank(
            rank=task.rank,
            host=task.host,
            seconds=end - begin,
            stages={
                "compute": task.end - task.begin,
                "communication": 0.0,
                "idle": last - task.end,
                "io": 0.0,
                "serial": 0.0,
                "overhead": max(task.begin - begin, 0.0) + max(end - last, 0.0),
            },
            usage=Usage(cpu_seconds=task.cpu_seconds, run_delay_seconds=None),
        )
        for task in tasks
    )


def first_failure(tasks: list[Task]) -> tuple[Outcome, str] | None:
    """How the worker failed that failed first; launchers end the others, and tell of those."""
    failed = min((task for task in tasks if task.code), key=lambda task: task.end, default=None)
    if failed is None:
        return None
    words = f"{in_words(failed.code)}, rank {failed.rank} on {failed.host}"
    return outcome_of(failed.code), words


def is_timeout(code: int, seconds: float, timeout_seconds: float) -> bool:
    """Whether the program `timeout` ended a run, asked or by force.

    >>> is_timeout(124, 5.0, 5.0), is_timeout(137, 15.0, 5.0), is_timeout(137, 1.0, 5.0)
    (True, True, False)
    """
    return code == _TIMED_OUT or (code == _KILLED and seconds >= timeout_seconds)


def ask(
    command: Sequence[str], seconds: float, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """What a program of the cluster answers; one that hangs has failed."""
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer in {seconds:g} s")


def moment(text: str) -> float | None:
    """A date and time as the cluster tells it, in seconds since 1970."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def exports(job: Job) -> list[str]:
    """Lines of shell that set the variables of the workers."""
    return [
        f"export {name}={shlex.quote(value)}" for name, value in sorted(job.own_environment.items())
    ]
