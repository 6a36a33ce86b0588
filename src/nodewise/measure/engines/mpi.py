"""K ranks under the launcher of the MPI that the program is linked with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from nodewise.measure.engines.base import Finished, Job, LauncherEngine, Started, options_of
from nodewise.measure.mpi import libraries, preload
from nodewise.measure.mpi.preload import Launch
from nodewise.measure.watch import cores
from nodewise.study.spec import EngineSpec, Part
from nodewise.study.study import Fact, Rank, Stage

_Few = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class MpiOptions(Part, frozen=True, kw_only=True):
    """The table `[engine.mpi]`."""

    launcher: str | None = None  # mpirun, srun or a path; default: by libmpi
    ranks_per_node: _Few | None = None  # ranks on each node; K then counts ranks
    threads_per_rank: _Few | None = None  # sets OMP_NUM_THREADS
    bind_to: Literal["none", "core", "socket", "numa", "hwthread"] | None = None
    record: bool = True  # time the program's MPI calls


class Mpi(LauncherEngine):
    """One launcher for each run."""

    options_type = MpiOptions

    def __init__(self, options: Sequence[str] = (), table: MpiOptions | None = None) -> None:
        """`options` go to the launcher as they are."""
        super().__init__(options)
        self._table = table or MpiOptions()

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the table and the options of the spec."""
        return cls(chosen.options, options_of(chosen, "mpi", MpiOptions))

    def check(self, scales: Sequence[int]) -> None:
        """There must be a launcher."""
        preload.launch_of((), Path(), self._table.launcher)

    def check_job(self, job: Job) -> None:
        """The launcher must be of the program's MPI, and the interposer must be there."""
        launch = self._launch(job)
        if self._table.record:
            preload.check_python(job.command, job.directory, launch.library)
        self._interposed(job, launch)

    def threads(self, nodes: int) -> int:
        """Threads that compute at a scale."""
        return nodes * (self._table.threads_per_rank or 1)

    def command(self, job: Job) -> list[str]:
        """The line of the launcher."""
        launch = self._launch(job)
        places = self._places(launch.vendor, job)
        words = [launch.launcher, "-n", str(job.nodes), *places, *self._options]
        return [*words, *job.command]

    def environment(self, job: Job) -> dict[str, str]:
        """With the interposer, and what the ranks need where they share cores."""
        launch = self._launch(job)
        table = self._table
        open_mpi = launch.vendor == "Open MPI"
        return {
            **(preload.of_open_mpi(self._options, job.folder) if open_mpi else {}),
            **(preload.patience() if self._crowded(job.nodes) else {}),
            **super().environment(job),
            **self._interposed(job, launch),
            **({"OMP_NUM_THREADS": str(table.threads_per_rank)} if table.threads_per_rank else {}),
        }

    def run(self, job: Job, started: Started) -> Finished:
        """Start the launcher, wait for it, and say how the ranks were placed."""
        finished = super().run(job, started)
        launch = self._launch(job)
        facts: dict[str, Fact] = {
            "mpi_launcher": launch.launcher,
            "mpi_launcher_version": f"{launch.vendor} {launch.version}".strip(),
            "mpi_options": " ".join([*self._places(launch.vendor, job), *self._options]),
            "threads_per_rank": self._table.threads_per_rank or "as the environment says",
            **({"mpi_library": str(launch.library)} if launch.library else {}),
        }
        recorded = bool(self._interposed(job, launch))
        if recorded and _ran_serially(job, finished):
            stages: dict[Stage, float] = {"compute": finished.seconds}
            alone = Rank(rank=0, stages=stages, seconds=finished.seconds)
            facts["timed_from_launcher"] = True  # one rank without MPI_Init
            return msgspec.structs.replace(finished, facts=facts, ranks=(alone,))
        return msgspec.structs.replace(finished, facts=facts, interposed=recorded)

    def _launch(self, job: Job) -> Launch:
        return preload.launch_of(job.command, job.directory, self._table.launcher)

    def _interposed(self, job: Job, launch: Launch) -> dict[str, str]:
        if not self._table.record:
            return {}
        return preload.interposed(
            job.command, job.directory, job.environment, launch.mpi, launch.library
        )

    def _crowded(self, nodes: int) -> bool:
        return self.threads(nodes) > cores()

    def _places(self, vendor: str, job: Job) -> list[str]:
        """Where the ranks go, in the words of their launcher."""
        table = self._table
        per_node, threads, bind = table.ranks_per_node, table.threads_per_rank, table.bind_to
        if vendor == "Open MPI":
            words = ["--oversubscribe"] if self._crowded(job.nodes) else []
            words += ["--map-by", f"ppr:{per_node}:node"] if per_node else []
            # Unasked it binds a rank to one core, with all its threads.
            bind = bind or ("none" if threads and threads > 1 else None)
            words += ["--bind-to", bind] if bind else []
            return [*words, *self._exports(job)]
        if vendor == "MPICH":
            words = ["-ppn", str(per_node)] if per_node else []
            return [*words, *(["-bind-to", bind] if bind else [])]
        words = [f"--ntasks-per-node={per_node}"] if per_node else []
        words += [f"--cpus-per-task={threads}"] if threads else []
        return [*words, "--export=ALL", *([f"--cpu-bind={bind}s"] if bind else [])]

    def _exports(self, job: Job) -> list[str]:
        """Open MPI takes a variable to another host only if it is named."""
        if not libraries.names_hosts(self._options):
            return []
        names = [*job.own_environment, "LD_PRELOAD", "NODEWISE_MPI_GATE"]
        return [word for name in names for word in ("-x", name)]


def _ran_serially(job: Job, finished: Finished) -> bool:
    """Whether the only rank of an MPI program called no MPI, as OpenFOAM does on one core."""
    return (
        job.nodes == 1
        and finished.outcome == "ok"
        and "NODEWISE_MPI_REGION" not in job.environment
        and libraries.linked_mpi(job.command[0], job.directory) is not None
        and not any(job.folder.glob("mpi-*.json"))
    )
