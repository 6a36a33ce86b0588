"""The first K of a list of hosts, reached through ssh: plain processes, MPI or torchrun.

The hosts must share the file system of the spec and of the study folder, and let this user in
without a password.
"""

import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines import base, shell_tasks
from nodewise.measure.engines.base import Engine, Finished, Job, Started
from nodewise.measure.engines.commands import mpiexec, require_torch, torchrun
from nodewise.study.spec import EngineSpec, Part

_ANSWER_SECONDS = 30.0


class SshOptions(Part, frozen=True, kw_only=True):
    """The table `[engine.ssh]`."""

    hosts: tuple[str, ...] = ()  # hosts in the form that ssh accepts; the first K are used
    launcher: Literal["plain", "mpi", "torchrun"] = "plain"  # what starts the ranks
    ssh: tuple[str, ...] = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")  # command
    master_address: str = ""  # torchrun: address of the first host, as seen by the others
    master_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 29500  # torchrun: its port


class Ssh(Engine):
    """One ssh connection for each worker; a connection that ends takes its worker along."""

    options_type = SshOptions
    elsewhere = True

    def __init__(self, options: SshOptions, home: Path, arguments: Sequence[str] = ()) -> None:
        """`home` is the folder of the spec; `arguments` go to mpiexec or torchrun."""
        self._options = options
        self._home = home.resolve()
        self._arguments = tuple(arguments)

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the table of the spec."""
        return cls(base.options_of(chosen, "ssh", SshOptions), home, chosen.options)

    def check_spec(self, scales: Sequence[int]) -> None:
        """There must be hosts enough, each named once."""
        hosts = self._options.hosts
        if len(set(hosts)) != len(hosts):
            raise SpecError("engine.ssh.hosts: a host is listed twice.", "Name each once.")
        most = max(scales)
        if most > len(hosts):
            raise SpecError(
                f"engine.ssh.hosts: K={most} needs as many hosts; the list has {len(hosts)}.",
                'Write hosts = ["node1", "node2"], or leave out that scale.',
            )

    def check(self, scales: Sequence[int]) -> None:
        """Every host must be named once, answer, and see the folder of the spec."""
        self.check_spec(scales)
        if shutil.which(self._options.ssh[0]) is None:
            raise RunError(f"{self._options.ssh[0]} is not installed.", "Install openssh-client.")
        if self._options.launcher == "mpi":
            mpiexec()
        if self._options.launcher == "torchrun":
            require_torch()
        self._check_hosts(self._options.hosts[: max(scales)])

    def plan(self, job: Job) -> str:
        """The lines that are run here."""
        return "\n".join(shlex.join(command) for command in self._commands(job))

    def run(self, job: Job, started: Started) -> Finished:
        """Start a worker on each host, and wait for all."""
        shell_tasks.write_task(job)
        self._write_ssh(job)
        begin, monotonic = time.time(), time.monotonic()
        environment = {**job.environment, "NODEWISE_NODES": str(job.nodes)}
        workers = [base.start(command, job, environment) for command in self._commands(job)]
        started([worker.pid for worker in workers])
        finished = base.wait_for_all(workers, job, monotonic)
        tasks = shell_tasks.read_tasks(job.folder)
        if finished.outcome in ("crashed", "out of memory") and (
            failure := shell_tasks.first_failure(tasks)
        ):
            outcome, words = failure
            return msgspec.structs.replace(finished, outcome=outcome, detail=words)
        facts = {
            "engine_version": _version(self._options.ssh[0]),
            "engine_nodes": ",".join(task.host for task in tasks),
            "startup_seconds": max((task.begin - begin for task in tasks), default=0.0),
        }
        ranks = (
            shell_tasks.ranks_of(tasks, begin, begin + finished.seconds)
            if finished.outcome == "ok"
            else ()
        )
        return msgspec.structs.replace(finished, ranks=ranks, facts=facts)

    def _commands(self, job: Job) -> list[list[str]]:
        """What is run here: an ssh for each host, or the launcher that calls ssh itself."""
        hosts = self._options.hosts[: job.nodes]
        task = ["bash", str(job.folder / "task.sh")]
        if self._options.launcher == "mpi":
            place = ["-launcher", "ssh", "-launcher-exec", str(job.folder / "ssh.sh")]
            place += ["-hosts", ",".join(hosts), "-ppn", "1", "-n", str(job.nodes)]
            return [[mpiexec(), *place, *self._arguments, *task, *job.command]]
        commands = []
        for rank, host in enumerate(hosts):
            command = job.command
            if self._options.launcher == "torchrun":
                command = tuple(self._torchrun(job, rank))
            lines = [
                *shell_tasks.exports(job),
                f"export NODEWISE_RANK={rank} NODEWISE_HOST={shlex.quote(host)}",
                f"cd {shlex.quote(str(job.directory))} || exit 1",
                f"exec {shlex.join([*task, *command])}",
            ]
            # With a terminal, a connection that ends hangs up on the worker.
            inner = shlex.join(["bash", "-c", "\n".join(lines)])
            commands.append([*self._options.ssh, "-tt", host, inner])
        return commands

    def _torchrun(self, job: Job, rank: int) -> list[str]:
        options = self._options
        address = options.master_address or options.hosts[0].rpartition("@")[2]
        place = (
            f"--nnodes={job.nodes}",
            "--nproc-per-node=1",
            f"--node-rank={rank}",
            "--rdzv-backend=static",
            f"--master-addr={address}",
            f"--master-port={options.master_port}",
        )
        return torchrun(job, *place, *self._arguments)

    def _write_ssh(self, job: Job) -> None:
        """The program that mpiexec calls to reach a host."""
        script = job.folder / "ssh.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(self._options.ssh)} "$@"\n')
        script.chmod(0o755)

    def _check_hosts(self, hosts: Sequence[str]) -> None:
        """Ask all at once: does it answer, and does it see the spec?"""
        asked = {
            host: subprocess.Popen(
                [*self._options.ssh, host, "test", "-d", shlex.quote(str(self._home))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for host in hosts
        }
        deadline = time.monotonic() + _ANSWER_SECONDS
        answers = {host: _answer(process, deadline) for host, process in asked.items()}
        for host, (code, words) in answers.items():
            if code == 1:
                raise RunError(
                    f"{host} does not see {self._home}.",
                    "Put the spec and the study on a file system that all hosts share.",
                )
            if code:
                raise RunError(
                    f"ssh to {host} fails: {words}.",
                    f"Make this work without a password: {shlex.join(self._options.ssh)} {host} "
                    "true (ssh-copy-id gives it your key).",
                )


def _answer(process: "subprocess.Popen[str]", deadline: float) -> tuple[int, str]:
    """The exit code and the last line of a connection; one that hangs is ended."""
    try:
        _, words = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 255, f"no answer in {_ANSWER_SECONDS:g} s"
    lines = words.strip().splitlines()
    return process.returncode, lines[-1].strip().rstrip(".") if lines else "no message"


def _version(ssh: str) -> str:
    done = subprocess.run([ssh, "-V"], capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    return (done.stderr or done.stdout).strip().partition(",")[0]
