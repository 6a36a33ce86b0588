"""K emulated nodes on this machine, each with its own share of the CPU and link, running the job.

A rank that comes to the gate has a probe, and paces itself to the share of its node. A program that
never comes there gets a CPU quota instead. Either begins when the ranks are ready: start-up is not
limited, as it is not timed. Everything measured here is a rehearsal.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.barrier import Barrier
from nodewise.measure.engines.base import Engine, Finished, Job, Started, wait_for_all
from nodewise.measure.engines.rehearsal import dry_step
from nodewise.measure.engines.rehearsal.control_groups import missing_for_groups, remove_leftovers
from nodewise.measure.engines.rehearsal.dry_step import DryStep
from nodewise.measure.engines.rehearsal.limits import AT_START, BY_CLOCK, BY_GATE, NEVER, Limits
from nodewise.measure.engines.rehearsal.node_launchers import Ranks, launcher_of
from nodewise.measure.engines.rehearsal.virtual_nodes import (
    PlainNodes,
    cores_of,
    make_nodes,
    missing,
)
from nodewise.measure.scratch import scratch_folder
from nodewise.study.spec import EngineSpec, Rehearsal
from nodewise.study.study import DRY_STEP, DRY_WAIT

_LEAST_QUOTA_MS = 1.0  # what the kernel takes
_DRY_TIMEOUT_SECONDS = 60.0
_USABLE = 0.7  # of the cores, where a share is proposed: the rest moves bytes and starts ranks


class RehearsalEngine(Engine):
    """Makes virtual nodes for the largest scale once, and runs each job on the first K of them."""

    options_type = Rehearsal
    emulated = True

    def __init__(
        self,
        options: Rehearsal,
        arguments: Sequence[str] = (),
        start_seconds: float | None = None,
    ) -> None:
        """`arguments` go to mpiexec or torchrun; the quota waits `start_seconds` for `limit`."""
        self._options = options
        self._launcher = launcher_of(options, arguments)
        default = self._launcher.start_seconds
        self._start_seconds = default if start_seconds is None else start_seconds
        self._largest = 1
        self._made: PlainNodes | None = None
        self._limits: Limits | None = None  # of the run under way
        self._dry: dict[int, DryStep | None] = {}
        self._has_no_hook = False  # a program that never came to the gate

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the nodes and the launcher's options of the spec."""
        return cls(chosen.rehearsal, chosen.options)

    def check(self, scales: Sequence[int]) -> None:
        """The machine must allow such nodes, have the cores, and the launcher must be there."""
        lacking = missing(self._options)
        if lacking is not None:
            raise RunError(
                f"This machine lacks {lacking} for such nodes.",
                'Run as root on Linux with iproute2 and util-linux; or take cpu = "paced", '
                'link = "modelled" and no limit of memory or disk.',
            )
        self._check_shares(max(scales))
        self._launcher.check()
        remove_leftovers()
        self._largest = max(scales)

    def plan(self, job: Job) -> str:
        """The nodes, their share of the CPU, their link, the launcher, and the command."""
        return "\n".join([
            f"nodes: {self._nodes_words(job.nodes)}",
            f"CPU: {self._cpu_words()}",
            f"link: {self._link_words(job)}",
            f"launcher: {self._options.launcher}",
            super().plan(job),
        ])  # fmt: skip

    def check_job(self, job: Job) -> None:
        """The launcher must be of the program's MPI."""
        self._launcher.check_job(job)

    def run(self, job: Job, started: Started) -> Finished:
        """Start the job without limits, put them in force when it is ready, wait for its end."""
        if job.nodes not in self._dry:
            self._dry[job.nodes] = self._rehearse_dry(self._nodes_for(job), job)
        nodes = self._nodes_for(job)
        self._launcher.prepare(nodes, job)
        finished = self._run(nodes, job, started, self._launcher, self._has_no_hook)
        if finished.outcome == "ok" and _came_not_to_the_gate(finished, job):
            self._has_no_hook = True  # its whole time counts, so it is limited from its start
            _forget_output(job)
            finished = self._run(nodes, job, started, self._launcher, at_once=True)
        return finished

    def hold(self) -> None:
        """A rank is on its way to the gate: from now on, in this run, the quota waits for it."""
        if self._limits is not None:
            self._limits.hold()

    def limit(self) -> None:
        """Put the limits in force now; the gate calls this just before it lets the ranks go."""
        if self._limits is not None:
            self._limits.begin(BY_GATE)

    def unlimit(self) -> None:
        """Lift the quotas for the rest of the run: what is measured is over, all may end fast."""
        if self._limits is not None:
            self._limits.end()

    def close(self) -> None:
        """Remove the nodes and all that runs on them."""
        self._launcher.close()
        if self._made is not None:
            self._made.remove()
            self._made = None

    def _run(
        self, nodes: PlainNodes, job: Job, started: Started, launcher: Ranks, at_once: bool = False
    ) -> Finished:
        kills = _memory_kills(nodes, job)
        limits = self._limits = Limits(nodes, job.nodes, self._options, self._start_seconds)
        # A paced program that never comes to the gate is limited from the start of its next run.
        if self._options.cpu == "paced" and "NODEWISE_GATE" in job.environment:
            limits.hold()
        try:
            with limits.watched():
                if at_once:
                    limits.begin(AT_START)
                begin = time.monotonic()
                workers = launcher.start(nodes, job)
                started([worker.pid for worker in workers])
                finished = wait_for_all(workers, job, begin)
                limits.end()
                if finished.outcome != "ok":
                    finished = self._explain(finished, kills, _memory_kills(nodes, job))
        finally:
            self._limits = None
            nodes.kill()
        if limits.failure is not None:
            raise limits.failure
        if lost := nodes.lost():
            self.close()  # the next run gets whole ones
            words = f"{lost[0]} was killed in the run"
            finished = Finished(outcome="crashed", seconds=finished.seconds, detail=words)
        dry = self._dry.get(job.nodes)
        figures = {} if dry is None else {DRY_STEP: dry.seconds, DRY_WAIT: dry.wait_seconds}
        facts = {f"rehearsal_{name}": value for name, value in limits.facts.items()}
        if why := self._link(job)[1]:
            facts["rehearsal_link_modelled_because"] = why
        return msgspec.structs.replace(finished, facts=facts | figures)

    def _rehearse_dry(self, nodes: PlainNodes, job: Job) -> DryStep | None:
        """What ranks wait for each other by the emulation alone; None: it could not be measured."""
        with scratch_folder() as folder:
            even = msgspec.structs.replace(self._options, slow_node=None)
            own = {
                "NODEWISE_RUN": str(folder),
                "NODEWISE_GATE": str(folder / "gate"),
                "NODEWISE_RANKS": str(job.nodes),
                "NODEWISE_WARMUP_STEPS": "1",
            }
            dry = Job(
                command=dry_step.command(folder, even.cores_per_node),
                nodes=job.nodes,
                directory=job.directory,
                environment={**job.environment, **own},
                folder=folder,
                timeout_seconds=_DRY_TIMEOUT_SECONDS,
            )
            with Barrier(folder / "gate", job.nodes, self.hold, self.limit, self.unlimit):
                done = self._run(nodes, dry, lambda leaders: None, Ranks(even, ()))
            return dry_step.read(folder, job.nodes) if done.outcome == "ok" else None

    def _explain(self, finished: Finished, before: list[int], after: list[int]) -> Finished:
        """The kernel reports a full memory; launchers report only that some rank is gone."""
        full = [node for node, kills in enumerate(after) if kills > before[node]]
        if not full or self._options.memory_bytes is None:
            return finished
        limit = f"{self._options.memory_bytes / 1e6:g} MB"
        detail = f"node{full[0]} needs more than its {limit} of memory"
        return Finished(outcome="out of memory", seconds=finished.seconds, detail=detail)

    def _nodes_words(self, nodes: int) -> str:
        options, here = self._options, _cores_here()
        asked = nodes * options.cores_per_node
        words = f"{nodes} emulated, {options.cores_per_node:g} cores each"
        for node in range(nodes):
            if (cores := cores_of(options, node, nodes)) != options.cores_per_node:
                words += f"; node{node} has {cores:g}"
        words += f", {asked:.3g} of {here} cores in all"
        if not _fits(asked, here):
            words += f": too many, {fitting_share(nodes, here):g} cores each would fit"
        return words

    def _cpu_words(self) -> str:
        period = f"{self._options.period_ms:g} ms"
        if self._options.cpu == "quota":
            return f"quota ({period})"
        lacking = missing_for_groups(self._options)
        if lacking is not None:
            return f"paced; no quota for a program without a hook: {lacking} is missing"
        return f"paced; a quota with periods of {period} for a program without a hook"

    def _link(self, job: Job) -> tuple[str, str]:
        """Whether the link is real or modelled; and why modelled, if link = "auto" chose it."""
        if self._options.link != "auto":
            return self._options.link, ""
        why = self._launcher.why_modelled(job)
        return ("modelled" if why else "real"), why

    def _link_words(self, job: Job) -> str:
        rate = f"{self._options.link_mbit_per_second:g} Mbit/s"
        link, why = self._link(job)
        if link == "real":
            return f"{rate}, real, in network namespaces"
        words = f"{rate}, {self._options.link_latency_ms:g} ms a message, modelled by pacing"
        return f"{words}; {why}" if why else words

    def _check_shares(self, nodes: int) -> None:
        options = self._options
        cores = _cores_here()
        asked = nodes * options.cores_per_node
        if not _fits(asked, cores):
            raise RunError(
                f"{nodes} nodes of {options.cores_per_node:g} cores need {asked:g} cores; "
                f"this machine has {cores}.",
                f"Set cores_per_node to {fitting_share(nodes, cores):g} or leave out the scale.",
            )
        slowest = min(cores_of(options, node, nodes) for node in range(nodes))
        if options.cpu == "quota" and slowest * options.period_ms < _LEAST_QUOTA_MS - 1e-9:
            raise RunError(
                f"{slowest:g} cores are less than 1 ms in a period of {options.period_ms:g} ms.",
                f"Set period_ms to {_LEAST_QUOTA_MS / slowest:g} or more.",
            )

    def _nodes_for(self, job: Job) -> PlainNodes:
        link, _ = self._link(job)
        if self._made is None or len(self._made) < job.nodes or self._made.link != link:
            self.close()
            self._check_shares(job.nodes)
            nodes = max(job.nodes, self._largest)
            self._made = make_nodes(nodes, self._options, link, job.directory)
        return self._made


def fitting_share(nodes: int, cores: int) -> float:
    """The cores of a node, to two digits, of which so many fit on a machine.

    >>> fitting_share(16, 2), fitting_share(32, 2)
    (0.087, 0.043)
    """
    share = _USABLE * cores / nodes
    step = 10.0 ** (int(f"{share:e}".partition("e")[2]) - 1)
    return round(int(share / step) * step, 12)


def _fits(asked: float, cores: int) -> bool:
    return asked <= cores + 1e-9


def _cores_here() -> int:
    return len(os.sched_getaffinity(0))


def _forget_output(job: Job) -> None:
    """Empty the log and remove the reports of a run that is repeated in the same folder."""
    for pattern in ("rank-*", "mpi-*"):
        for report in job.folder.glob(pattern):
            report.unlink()
    if job.log.exists():
        os.truncate(job.log, 0)


def _came_not_to_the_gate(finished: Finished, job: Job) -> bool:
    begun_by = finished.facts["rehearsal_limited_by"]
    return "NODEWISE_GATE" in job.environment and begun_by in (NEVER, BY_CLOCK)


def _memory_kills(nodes: PlainNodes, job: Job) -> list[int]:
    return [nodes.groups.memory_kills(f"node{node}") for node in range(job.nodes)]
