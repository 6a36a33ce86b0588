"""How the ranks of a job are started on virtual nodes: as they are, or as a launcher would."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from nodewise.measure.engines import commands
from nodewise.measure.engines.base import Job, Worker, start
from nodewise.measure.engines.rehearsal.fork_server import Fork, ForkServer
from nodewise.measure.engines.rehearsal.virtual_nodes import VirtualNodes
from nodewise.measure.mpi import preload
from nodewise.study.spec import Rehearsal

_PORTS = range(29500, 30500)

# What keeps MPI on the link, whichever of its transports is chosen.
_MPI_NETWORK = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "FI_TCP_IFACE": "eth0"}
# On a core of its own a rank may spin while it waits; here that would burn the quota it computes
# and communicates with (a 1 MB all-reduce took twice the link's time). So waiting ranks sleep.
_MPI_PATIENCE = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
_NAP_NANOSECONDS = 500_000

_AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
node=$1
shift
echo {nap} > /proc/$$/timerslack_ns
case $node in
{cases}
esac
echo "There is no node $node." >&2
exit 1
"""


class Ranks:
    """Every node runs the command, told its rank by the environment."""

    start_seconds = 5.0  # what a rank may take until it is ready

    def __init__(self, options: Rehearsal, arguments: Sequence[str]) -> None:
        """`arguments` are for mpiexec or torchrun."""
        self._arguments = tuple(arguments)
        self._threads = max(1, int(options.cores_per_node))

    def check(self) -> None:
        """Raise a `RunError` with its fix if the launcher is not here."""

    def check_job(self, job: Job) -> None:
        """Raise a `RunError` with its fix if the job cannot be started by it."""

    def prepare(self, job: Job) -> None:
        """Do what comes before the first run and belongs to none."""

    def start(self, nodes: VirtualNodes, job: Job) -> list[Worker]:
        """The processes to wait for, on the first nodes."""
        return [self._start_rank(nodes, job, rank) for rank in range(job.nodes)]

    def close(self) -> None:
        """End what `prepare` left running."""

    def _start_rank(self, nodes: VirtualNodes, job: Job, rank: int) -> Worker:
        environment = self._environment(job) | {"NODEWISE_RANK": str(rank)}
        return start(nodes.command(rank, job.command, job.directory), job, environment)

    def _environment(self, job: Job) -> dict[str, str]:
        """As the job has it, and by default no more threads than the node has cores."""
        default = {"OMP_NUM_THREADS": str(self._threads), "GLOO_SOCKET_IFNAME": "eth0"}
        return {**default, **job.environment, "NODEWISE_NODES": str(job.nodes)}


class MpiRanks(Ranks):
    """One mpiexec on the head; it reaches the nodes by our agent instead of by ssh."""

    def check(self) -> None:
        """There must be an mpiexec."""
        commands.mpiexec()

    def check_job(self, job: Job) -> None:
        """The program must be of the same MPI as the mpiexec."""
        preload.interposed_by(commands.mpiexec(), job.command, job.directory, job.environment)

    def start(self, nodes: VirtualNodes, job: Job) -> list[Worker]:
        """The mpiexec, which ends with the first rank that fails."""
        agent = job.folder / "agent"
        agent.write_text(_agent(nodes, job))
        agent.chmod(0o700)
        hosts = ",".join(f"node{rank}" for rank in range(job.nodes))
        command = [commands.mpiexec(), "-launcher", "ssh", "-launcher-exec", str(agent)]
        command += ["-hosts", hosts, "-ppn", "1", "-n", str(job.nodes)]
        command += [*self._arguments, *job.command]
        environment = {**_MPI_NETWORK, **_MPI_PATIENCE, **self._environment(job)}
        environment |= preload.interposed_by(command[0], job.command, job.directory, environment)
        return [start(nodes.command(None, command, job.directory), job, environment)]


class TorchrunRanks(Ranks):
    """A torchrun on every node."""

    start_seconds = 60.0  # importing torch takes a while
    _runs = 0

    def check(self) -> None:
        """Torch must be installed beside us."""
        commands.require_torch()

    def start(self, nodes: VirtualNodes, job: Job) -> list[Worker]:
        """The launchers, at a new port each time, as the last may not be free yet."""
        self._runs += 1
        return super().start(nodes, job)

    def _start_rank(self, nodes: VirtualNodes, job: Job, rank: int) -> Worker:
        place = [f"--nnodes={job.nodes}", "--nproc-per-node=1", f"--node-rank={rank}"]
        place += ["--master-addr=node0", f"--master-port={self._port}"]
        command = commands.torchrun(job, *place, *self._arguments)
        return start(nodes.command(rank, command, job.directory), job, self._environment(job))

    @property
    def _port(self) -> int:
        return _PORTS[self._runs % len(_PORTS)]


class ForkedRanks(TorchrunRanks):
    """The ranks that torchrun would start, without the wait for torch."""

    _server: ForkServer | None = None

    def prepare(self, job: Job) -> None:
        """Have torch imported as it would be in this job; in a study all jobs have that alike."""
        variables = self._environment(job).items()
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

    def _start_rank(self, nodes: VirtualNodes, job: Job, rank: int) -> Worker:
        assert self._server is not None
        place = commands.torchrun_environment(rank, job.nodes, "node0", self._port)
        fork = Fork(
            script=commands.script_of(job),
            environment=self._environment(job) | place,
            directory=str(job.directory),
            log=str(job.log),
            procs_files=nodes.procs_files(rank),
            spaces=nodes.spaces(rank),
        )
        return self._server.start(fork)


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


def _agent(nodes: VirtualNodes, job: Job) -> str:
    """The script that mpiexec calls as it would call ssh: a node's name, then a command."""
    cases = []
    for rank in range(job.nodes):
        there = nodes.command(rank, ["sh", "-c"], Path("/"), from_head=True)
        cases.append(f'node{rank}) exec {shlex.join(there)} "$*" ;;')
    return _AGENT.format(cases="\n".join(cases), nap=_NAP_NANOSECONDS)
