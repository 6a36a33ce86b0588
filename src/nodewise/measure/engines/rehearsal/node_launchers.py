"""How the ranks of a job are started on virtual nodes: as they are, or as a launcher would."""

import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.measure.engines import commands
from nodewise.measure.engines.base import Job, Worker, start
from nodewise.measure.engines.rehearsal.fork_server import Fork, ForkServer
from nodewise.measure.engines.rehearsal.virtual_nodes import (
    PlainNodes,
    cores_of,
    missing_for_links,
)
from nodewise.measure.mpi import preload
from nodewise.study.spec import Rehearsal

_PORTS = range(29500, 30500)

# What keeps MPI on the link, whichever of its transports is chosen.
_MPI_NETWORK = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "FI_TCP_IFACE": "eth0"}
_SLACK_NANOSECONDS = 500_000  # by which a rank that polls may wake up late: fewer wake-ups
_WITH_SLACK = f'echo {_SLACK_NANOSECONDS} > /proc/$$/timerslack_ns; exec "$@"'

_AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
node=$1
shift
echo {slack} > /proc/$$/timerslack_ns
case $node in
{cases}
esac
echo "No such node: $node." >&2
exit 1
"""


class Ranks:
    """Every node runs the command, with its rank in the environment."""

    start_seconds = 5.0  # what a rank may take until it is ready

    def __init__(self, options: Rehearsal, arguments: Sequence[str]) -> None:
        """`arguments` are for mpiexec or torchrun."""
        self._options = options
        self._arguments = tuple(arguments)
        self._threads = max(1, int(options.cores_per_node))

    def check(self) -> None:
        """Raise a `RunError` with its fix if the launcher is not here."""

    def check_job(self, job: Job) -> None:
        """Raise a `RunError` with its fix if the job cannot be started by it."""

    def why_modelled(self, job: Job) -> str:
        """What is against a real link where the choice is ours; empty if nothing is."""
        lacking = missing_for_links()
        return f"{lacking} is missing for a real one" if lacking else ""

    def prepare(self, nodes: PlainNodes, job: Job) -> None:
        """Do what comes before the first run and belongs to none."""

    def start(self, nodes: PlainNodes, job: Job) -> list[Worker]:
        """The processes to wait for, on the first nodes."""
        return [self._start_rank(nodes, job, rank) for rank in range(job.nodes)]

    def close(self) -> None:
        """End what `prepare` left running."""

    def _start_rank(self, nodes: PlainNodes, job: Job, rank: int) -> Worker:
        environment = self._environment(nodes, job, rank) | {"NODEWISE_RANK": str(rank)}
        return start(nodes.command(rank, job.command, job.directory), job, environment)

    def _environment(self, nodes: PlainNodes, job: Job, rank: int | None = None) -> dict[str, str]:
        """As the job has it, and by default no more threads than the node has cores.

        With a rank, its pace too.
        """
        device = "eth0" if nodes.link == "real" else "lo"
        default = {"OMP_NUM_THREADS": str(self._threads), "GLOO_SOCKET_IFNAME": device}
        pace = {} if rank is None else self._pace(nodes, job, rank)
        return {**default, **job.environment, **pace, "NODEWISE_NODES": str(job.nodes)}

    def _pace(self, nodes: PlainNodes, job: Job, rank: int) -> dict[str, str]:
        """What tells a rank how slow its node is, and its link where that is modelled."""
        options = self._options
        pace = {}
        if options.cpu == "paced":
            pace["NODEWISE_PACE_SHARE"] = f"{cores_of(options, rank, job.nodes):.6g}"
            if nodes.link == "modelled":
                pace["NODEWISE_PACE_LATENCY"] = f"{options.link_latency_ms / 1000:.9g}"
                pace["NODEWISE_PACE_BANDWIDTH"] = f"{options.link_mbit_per_second * 125000:.9g}"
        return pace


class MpiRanks(Ranks):
    """One mpiexec on the head, of the program's MPI.

    On real links it reaches the nodes by our agent instead of by ssh, as only that of MPICH can.
    """

    def check(self) -> None:
        """There must be an mpiexec."""
        preload.launch_of((), Path(), None)

    def check_job(self, job: Job) -> None:
        """There must be an mpiexec of the program's MPI, and a way to its nodes."""
        launch = preload.launch_of(job.command, job.directory, None)
        preload.interposed(job.command, job.directory, job.environment, launch.mpi, launch.library)
        if launch.vendor != "MPICH" and self._options.link == "real":
            raise RunError(
                f"Emulated nodes with real links start the ranks of MPICH only, and this program "
                f"uses {launch.vendor}.",
                'Set link = "modelled" under [engine.rehearsal].',
            )

    def why_modelled(self, job: Job) -> str:
        """Only the mpiexec of MPICH starts ranks by our agent."""
        why = super().why_modelled(job)
        try:
            vendor = preload.launch_of(job.command, job.directory, None).vendor
        except RunError:  # `check_job` says it
            return why
        return why or ("" if vendor == "MPICH" else f"{vendor} starts no ranks on a real one")

    def start(self, nodes: PlainNodes, job: Job) -> list[Worker]:
        """The mpiexec, which ends with the first rank that fails."""
        launch = preload.launch_of(job.command, job.directory, None)
        command = [launch.launcher]
        # On a core of its own a rank may spin while it waits; here it would take the cores from
        # the ranks that compute (a 1 MB all-reduce took twice the link's time).
        environment = {**preload.patience(), **self._environment(nodes, job)}
        if launch.vendor == "Open MPI":
            command += ["--oversubscribe", "--bind-to", "none"]
            environment |= preload.of_open_mpi((), job.folder)
        elif nodes.link == "real":
            command += self._over_links(nodes, job)
            environment = {**_MPI_NETWORK, **environment}
        command += [*self._arguments, *self._ranks(nodes, job, launch.vendor)]
        environment |= preload.interposed(
            job.command, job.directory, environment, launch.mpi, launch.library
        )
        with_slack = ["sh", "-c", _WITH_SLACK, "mpiexec", *command]
        return [start(nodes.command(None, with_slack, job.directory), job, environment)]

    def _over_links(self, nodes: PlainNodes, job: Job) -> list[str]:
        """The options by which mpiexec starts a rank on each node."""
        agent = job.folder / "agent"
        agent.write_text(_agent(nodes, job))
        agent.chmod(0o700)
        hosts = ",".join(f"node{rank}" for rank in range(job.nodes))
        agent_options = ["-launcher", "ssh", "-launcher-exec", str(agent)]
        return [*agent_options, "-hosts", hosts, "-ppn", "1"]

    def _ranks(self, nodes: PlainNodes, job: Job, vendor: str) -> list[str]:
        """The ranks as mpiexec takes them: a part for each run of ranks with the same pace."""
        parts: list[tuple[dict[str, str], int]] = []
        for rank in range(job.nodes):
            pace = self._pace(nodes, job, rank)
            if parts and parts[-1][0] == pace:
                parts[-1] = (pace, parts[-1][1] + 1)
            else:
                parts.append((pace, 1))
        # On real links our agent puts each rank on its node.
        command = job.command
        if nodes.link == "modelled":
            command = tuple(nodes.groups.entered_by_ranks(job.command))
        words: list[str] = []
        for pace, ranks in parts:
            variables = [word for one in pace.items() for word in _variable(vendor, *one)]
            words += [*([":"] if words else []), "-n", str(ranks), *variables, *command]
        return words


class TorchrunRanks(Ranks):
    """A torchrun on every node."""

    start_seconds = 60.0  # importing torch takes a while
    _runs = 0
    _port = 0

    def check(self) -> None:
        """Torch must be installed beside us."""
        commands.require_torch()

    def start(self, nodes: PlainNodes, job: Job) -> list[Worker]:
        """The launchers, at a new port each time, as the last may not be free yet."""
        self._runs += 1
        self._port = _PORTS[self._runs % len(_PORTS)]
        if nodes.link == "modelled":  # the ports are those of the machine
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._port = free.getsockname()[1]
        return super().start(nodes, job)

    def _start_rank(self, nodes: PlainNodes, job: Job, rank: int) -> Worker:
        place = [f"--nnodes={job.nodes}", "--nproc-per-node=1", f"--node-rank={rank}"]
        place += [f"--master-addr={_first_host(nodes)}", f"--master-port={self._port}"]
        command = commands.torchrun(job, *place, *self._arguments)
        environment = self._environment(nodes, job, rank)
        return start(nodes.command(rank, command, job.directory), job, environment)


class ForkedRanks(TorchrunRanks):
    """The ranks that torchrun would start, without the wait for torch."""

    _server: ForkServer | None = None

    def prepare(self, nodes: PlainNodes, job: Job) -> None:
        """Have torch imported as it would be in this job; in a study all jobs have that alike."""
        variables = self._environment(nodes, job).items()
        settled = {name: value for name, value in variables if not name.startswith("NODEWISE_")}
        if self._server is not None and self._server.environment != settled:
            self.close()
        if self._server is None:
            self._server = ForkServer(job, commands.script_of(job)[0], settled)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start_rank(self, nodes: PlainNodes, job: Job, rank: int) -> Worker:
        assert self._server is not None
        place = commands.torchrun_environment(rank, job.nodes, _first_host(nodes), self._port)
        fork = Fork(
            script=commands.script_of(job),
            environment=self._environment(nodes, job, rank) | place,
            directory=str(job.directory),
            log=str(job.log),
            procs_files=nodes.procs_files(rank),
            spaces=nodes.spaces(rank),
        )
        return self._server.start(fork)


def _variable(vendor: str, name: str, value: str) -> list[str]:
    """A variable of some ranks, in the words of their mpiexec."""
    return ["-x", f"{name}={value}"] if vendor == "Open MPI" else ["-env", name, value]


def _first_host(nodes: PlainNodes) -> str:
    return "node0" if nodes.link == "real" else "127.0.0.1"


def launcher_of(options: Rehearsal, arguments: Sequence[str]) -> Ranks:
    """The way to start ranks that the options name."""
    if options.launcher == "mpi":
        return MpiRanks(options, arguments)
    if options.launcher == "local":
        return Ranks(options, arguments)
    # Only torchrun knows its options, and a fork does not pay for the memory that torch takes.
    if arguments or options.memory_bytes is not None:
        return TorchrunRanks(options, arguments)
    return ForkedRanks(options, arguments)


def _agent(nodes: PlainNodes, job: Job) -> str:
    """The script that mpiexec calls as it would call ssh: a node's name, then a command."""
    cases = []
    for rank in range(job.nodes):
        there = nodes.command(rank, ["sh", "-c"], Path("/"), from_head=True)
        cases.append(f'node{rank}) exec {shlex.join(there)} "$*" ;;')
    return _AGENT.format(cases="\n".join(cases), slack=_SLACK_NANOSECONDS)
