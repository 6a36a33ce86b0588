"""What was recorded at one scale: seconds and stages by round and rank."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewise.base.stats import Floats
from nodewise.study.study import DRY_WAIT, STAGES, Rank, Run, Stage, Study

# What is taken to be hidden first, where the stages of a run exceed its wall time.
_HIDDEN_FIRST: tuple[Stage, ...] = (
    "communication", "io", "overhead", "idle", "serial", "compute",
)  # fmt: skip


class Measured(NamedTuple):
    """What was recorded at one scale: one row per round, one column per rank."""

    seconds: Floats
    stages: dict[Stage, Floats]  # exposed: those of a rank never exceed the wall time
    hidden: dict[Stage, Floats]
    items: Floats | None
    delays: Floats | None = None  # seconds that other processes had the rank's core
    steps: int | None = None  # of the shortest run
    # Of a step on emulated nodes, that the emulation makes ranks wait; None: not measured.
    dry_wait: float | None = None
    crowded: bool = False  # the job has more ranks and threads than cores: they delay each other
    emulated: bool = False  # overhead is that of a rank while another emulated node had its core
    meetings: int = 0  # collectives and waits of the rank with the fewest, of an MPI program
    held_up: Floats | None = None  # of the delays, those inside MPI

    def of(self, stage: Stage) -> Floats:
        """The seconds of a stage; zero where it was not recorded."""
        return self.stages.get(stage, np.zeros_like(next(iter(self.stages.values()))))

    def pick(self, rounds: NDArray[np.int64]) -> "Measured":
        """The same with these rounds only, as a resample draws them."""
        return self._replace(
            seconds=self.seconds[rounds],
            stages={stage: values[rounds] for stage, values in self.stages.items()},
            hidden={stage: values[rounds] for stage, values in self.hidden.items()},
            items=None if self.items is None else self.items[rounds],
            delays=None if self.delays is None else self.delays[rounds],
            held_up=None if self.held_up is None else self.held_up[rounds],
        )


def has_stages(run: Run) -> bool:
    """Whether the stages of ranks are recorded, of the time that the run is said to take."""
    return any(rank.stages for rank in run.ranks) and run.ranks_are_timed


def measured_at(study: Study, nodes: int, by_rank: bool) -> Measured:
    """The records of the runs at one scale, of each rank or of whole runs."""
    runs = study.at(nodes)
    return _of_ranks(runs) if by_rank else _of_whole_runs(runs)


def _of_whole_runs(runs: Sequence[Run]) -> Measured:
    seconds = np.array([run.seconds for run in runs])
    recorded = [stage for stage in STAGES if all(stage in run.stages for run in runs)]
    totals = {stage: np.array([[run.stages[stage]] for run in runs]) for stage in recorded}
    return Measured(seconds, *_exposed(totals, seconds), None)


def _of_ranks(runs: Sequence[Run]) -> Measured:
    ranked = [run.ranks for run in runs]
    seconds = np.array([run.seconds for run in runs])
    recorded = [s for s in STAGES if all(s in rank.stages for ranks in ranked for rank in ranks)]
    stages = {
        stage: np.array([[rank.stages[stage] for rank in ranks] for ranks in ranked])
        for stage in recorded
    }
    stages, hidden = _exposed(stages, seconds)
    items = _of_each_rank(runs, work_of)
    steps = [run.steps for run in runs]
    delays, held_up = _foreign_delays(runs, stages)
    return Measured(
        seconds,
        stages,
        hidden,
        items,
        delays,
        None if None in steps else min(step for step in steps if step is not None),
        _dry_wait(runs),
        any(run.provenance.get("oversubscribed") for run in runs),
        any(run.provenance.get("emulated") for run in runs),
        min((_meetings(rank) for ranks in ranked for rank in ranks), default=0),
        held_up,
    )


def _of_each_rank(runs: Sequence[Run], value: Callable[[Rank], float | None]) -> Floats | None:
    """A figure of every rank in every run; None unless all have it."""
    found = [[value(rank) for rank in run.ranks] for run in runs]
    is_full = all(one is not None for row in found for one in row)
    return np.array(found, dtype=np.float64) if is_full else None


def _meetings(rank: Rank) -> int:
    """How often a rank of an MPI program could wait for another one."""
    classes = rank.mpi.classes if rank.mpi else {}
    return sum(classes[name].calls for name in ("collective", "wait") if name in classes)


def work_of(rank: Rank) -> float | None:
    """The items of a rank; of one that was paced as an emulated node, else the CPU that it used.

    Emulated nodes share the same cores: the same work takes the same CPU time on a slow one. On
    real nodes the same work takes the same instructions, where they were counted.
    """
    if rank.items is not None:
        return rank.items
    if rank.pace is not None:
        return rank.pace.cpu_seconds or None
    return rank.mpi.counters.get("instructions") if rank.mpi else None


def _dry_wait(runs: Sequence[Run]) -> float | None:
    known = [float(run.provenance[DRY_WAIT]) for run in runs if DRY_WAIT in run.provenance]
    return sum(known) / len(known) if len(known) == len(runs) else None


def _exposed(
    stages: dict[Stage, Floats], seconds: Floats
) -> tuple[dict[Stage, Floats], dict[Stage, Floats]]:
    """The stages that fill the wall time, and what of them runs beside the others."""
    named = sum(stages.values(), np.zeros(()))
    excess = np.maximum(named - seconds[:, None], 0.0)
    exposed, hidden = dict(stages), {}
    for stage in _HIDDEN_FIRST:
        if stage in stages:
            hidden[stage] = np.minimum(np.maximum(stages[stage], 0.0), excess)
            exposed[stage] = stages[stage] - hidden[stage]
            excess = excess - hidden[stage]
    return exposed, hidden


def _foreign_delays(
    runs: Sequence[Run], stages: dict[Stage, Floats]
) -> tuple[Floats | None, Floats | None]:
    """How long each rank was kept from its core, taken out of its stages, and of that inside MPI.

    The wait is known for the whole timed region: compute has the share of it that it has of the
    time, and so has the communication of MPI programs. A rank that was paced as an emulated node
    counts its wait beyond the pace itself. Under a quota a rank waits for its core by design, so
    that wait does not show other load.
    """
    if "compute" not in stages:
        return None, None
    late = _of_each_rank(runs, lambda rank: rank.pace.late_seconds if rank.pace else None)
    if late is not None:
        paced = np.minimum(late, stages["compute"])
        stages["compute"] = stages["compute"] - paced
        return np.asarray(paced), None
    waits = _of_each_rank(runs, lambda rank: rank.usage.run_delay_seconds if rank.usage else None)
    if waits is None or any(run.provenance.get("emulated") for run in runs):
        return None, None
    regions = np.array([[rank.seconds or run.seconds for rank in run.ranks] for run in runs])
    share = np.minimum(waits / np.maximum(regions, waits), 1.0)
    delays = share * stages["compute"]
    stages["compute"] = stages["compute"] - delays
    if "communication" not in stages or not all(rank.mpi for run in runs for rank in run.ranks):
        return np.asarray(delays), None
    # A rank spins inside MPI: what it lost of its core there is not transfer.
    held_up = share * stages["communication"]
    stages["communication"] = stages["communication"] - held_up
    return np.asarray(delays + held_up), np.asarray(held_up)
