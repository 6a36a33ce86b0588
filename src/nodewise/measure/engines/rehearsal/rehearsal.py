"""K emulated nodes on this machine, each with its own share of the CPU and link, running the job.

A rank that comes to the gate has a probe, and paces itself to the share of its node. A program that
never comes there gets a CPU quota instead. Either begins when the ranks are ready: start-up is not
limited, as it is not timed. Everything measured here is a rehearsal.
"""

import os
import threading
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
from nodewise.measure.engines.rehearsal.node_launchers import Ranks, launcher_of
from nodewise.measure.engines.rehearsal.virtual_nodes import (
    PlainNodes,
    cores_of,
    link_of,
    make_nodes,
    missing,
)
from nodewise.measure.scratch import scratch_folder
from nodewise.study.spec import EngineSpec, Rehearsal

_LOOK_SECONDS = 0.2
_RELEASE_SECONDS = 10.0  # how long after the start of the quota new threads are looked for
_LEAST_QUOTA_MS = 1.0  # what the kernel takes
_DRY_TIMEOUT_SECONDS = 60.0
_USABLE = 0.7  # of the cores, where a share is proposed: the rest moves bytes and starts ranks


class _Counters(msgspec.Struct, frozen=True):
    """What a node had used at one moment; None where it is not counted."""

    cpu_seconds: float | None
    throttled_seconds: float | None
    periods: tuple[int, int] | None  # awake, throttled
    traffic_bytes: tuple[int, int] | None  # received, sent


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
        self._lock = threading.RLock()  # the gate, the watch and the run speak at once
        self._running = 0
        self._held = False
        self._failure: RunError | None = None
        self._limited_by = "never"
        self._limited_at = 0.0
        self._paced = False
        self._before: list[_Counters] = []
        self._memory_kills: list[int] = []
        self._checks: dict[str, float | str] = {}
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
        options, real = self._options, link_of(self._options) == "real"
        cores = cores_of(options, 0, job.nodes)
        latency = "" if real else f", {options.link_latency_ms:g} ms a message"
        where = "real, in network namespaces" if real else "modelled by pacing"
        without_groups = missing_for_groups(options)
        quota = f"no quota for a program without a hook: {without_groups} is missing"
        if without_groups is None:
            quota = f"a quota with periods of {options.period_ms:g} ms for a program without a hook"
        cpu = f"paced; {quota}" if options.cpu == "paced" else f"quota ({options.period_ms:g} ms)"
        slow = ""
        if options.slow_node is not None:
            named = f"node{options.slow_node % job.nodes}"
            slow = f"; {named} has {cores / options.slow_factor:g}"
        return "\n".join([
            f"nodes: {job.nodes} emulated, {cores:g} cores each{slow}, "
            f"{job.nodes * cores:.3g} of {_cores_here()} cores in all",
            f"CPU: {cpu}",
            f"link: {options.link_mbit_per_second:g} Mbit/s{latency}, {where}",
            f"launcher: {options.launcher}",
            super().plan(job),
        ])  # fmt: skip

    def check_job(self, job: Job) -> None:
        """The launcher must be of the program's MPI."""
        self._launcher.check_job(job)

    def run(self, job: Job, started: Started) -> Finished:
        """Start the job without limits, put them in force when it is ready, wait for its end.

        Once more, limited from its start, where the program never came to the gate.
        """
        nodes = self._nodes_for(job)
        self._rehearse_dry(nodes, job)
        self._launcher.prepare(nodes, job)
        finished = self._run(nodes, job, started, self._launcher, self._has_no_hook)
        unhooked = "NODEWISE_GATE" in job.environment and self._limited_by in ("never", "the clock")
        if finished.outcome == "ok" and unhooked:
            self._has_no_hook = True  # its whole time counts, so it is limited from its start
            _forget_output(job)
            finished = self._run(nodes, job, started, self._launcher, at_once=True)
        return finished

    def _run(
        self,
        nodes: PlainNodes,
        job: Job,
        started: Started,
        launcher: Ranks,
        at_once: bool = False,
    ) -> Finished:
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(nodes, over), daemon=True)
        self._reset(nodes, job.nodes)
        # One that never comes is limited from the start of its next run.
        self._held = self._options.cpu == "paced" and "NODEWISE_GATE" in job.environment
        watch.start()
        try:
            if at_once:
                self._limit("the start")
            begin = time.monotonic()
            workers = launcher.start(nodes, job)
            started([worker.pid for worker in workers])
            finished = self._explain(nodes, wait_for_all(workers, job, begin))
            self._record(nodes)
        finally:
            over.set()
            watch.join()
            self._running = 0
            nodes.kill()
        if self._failure is not None:
            raise self._failure
        if lost := nodes.lost():
            self.close()  # the next run gets whole ones
            words = f"{lost[0]} was killed in the run"
            finished = Finished(outcome="crashed", seconds=finished.seconds, detail=words)
        facts = {f"rehearsal_{name}": value for name, value in self._checks.items()}
        return msgspec.structs.replace(finished, facts=facts)

    def _rehearse_dry(self, nodes: PlainNodes, job: Job) -> None:
        """Measure, once a scale, what ranks wait for each other by the emulation alone."""
        if job.nodes in self._dry:
            return
        with scratch_folder() as folder:
            cores = cores_of(self._options, 0, job.nodes)
            own = {
                "NODEWISE_RUN": str(folder),
                "NODEWISE_GATE": str(folder / "gate"),
                "NODEWISE_RANKS": str(job.nodes),
                "NODEWISE_WARMUP_STEPS": "1",
            }
            dry = Job(
                command=dry_step.command(folder, cores),
                nodes=job.nodes,
                directory=job.directory,
                environment={**job.environment, **own},
                folder=folder,
                timeout_seconds=_DRY_TIMEOUT_SECONDS,
            )
            even = msgspec.structs.replace(self._options, slow_node=None)
            with Barrier(folder / "gate", job.nodes, self.hold, self.limit, self.unlimit):
                done = self._run(nodes, dry, lambda leaders: None, Ranks(even, ()))
            ok = done.outcome == "ok"
            self._dry[job.nodes] = dry_step.read(folder, job.nodes) if ok else None

    def limit(self) -> None:
        """Put the limits in force now; the gate calls this just before it lets the ranks go."""
        self._limit("the gate")

    def unlimit(self) -> None:
        """Lift the quotas for the rest of the run: what is measured is over, all may end fast."""
        with self._lock:
            if self._made is not None and self._running:
                self._record(self._made)
                self._made.unlimit()
                self._held = True

    def hold(self) -> None:
        """A rank is on its way to the gate: from now on, in this run, the quota waits for it."""
        self._held = True

    def checks(self) -> dict[str, float | str]:
        """What the nodes of the last run were promised and got, while the quota was in force."""
        return dict(self._checks)

    def close(self) -> None:
        """Remove the nodes and all that runs on them."""
        self._launcher.close()
        if self._made is not None:
            self._made.remove()
            self._made = None

    def _reset(self, nodes: PlainNodes, running: int) -> None:
        """Begin a run without limits."""
        with self._lock:
            nodes.unlimit()
            self._running = running
            self._held = False
            self._failure = None
            self._checks = {}
            self._memory_kills = [
                nodes.groups.memory_kills(f"node{node}") for node in range(running)
            ]
            self._note(nodes, "never")

    def _explain(self, nodes: PlainNodes, finished: Finished) -> Finished:
        """The kernel reports a full memory; launchers report only that some rank is gone."""
        before = enumerate(self._memory_kills)
        full = [node for node, kills in before if nodes.groups.memory_kills(f"node{node}") > kills]
        if finished.outcome == "ok" or not full or self._options.memory_bytes is None:
            return finished
        limit = f"{self._options.memory_bytes / 1e6:g} MB"
        detail = f"node{full[0]} needs more than its {limit} of memory"
        return Finished(outcome="out of memory", seconds=finished.seconds, detail=detail)

    def _check_shares(self, nodes: int) -> None:
        options = self._options
        cores = _cores_here()
        asked = nodes * options.cores_per_node
        if asked > cores + 1e-9:
            raise RunError(
                f"{nodes} nodes of {options.cores_per_node:g} cores need {asked:g} cores; "
                f"this machine has {cores}.",
                f"Set cores_per_node to {fitting_share(nodes, cores):g} or leave out the scale.",
            )
        slowest = options.cores_per_node / self._slowness()
        if options.cpu == "quota" and slowest * options.period_ms < _LEAST_QUOTA_MS - 1e-9:
            raise RunError(
                f"{slowest:g} cores are less than 1 ms in a period of {options.period_ms:g} ms.",
                f"Set period_ms to {_LEAST_QUOTA_MS / slowest:g} or more.",
            )

    def _slowness(self) -> float:
        return 1.0 if self._options.slow_node is None else self._options.slow_factor

    def _nodes_for(self, job: Job) -> PlainNodes:
        if self._made is None or len(self._made) < job.nodes:
            self.close()
            self._check_shares(job.nodes)
            self._made = make_nodes(max(job.nodes, self._largest), self._options, job.directory)
        return self._made

    def _limit(self, reason: str) -> None:
        """Never raises, as it runs in other threads: an error ends the run, and is reported."""
        with self._lock:
            if self._made is None or not self._running or self._checks:
                return
            self._paced = reason == "the gate" and self._options.cpu == "paced"
            try:
                if self._paced:
                    self._made.unlimit()  # a quota from before, by the clock
                    self._made.groups.shield(True)
                else:
                    self._release_communication(self._made)
                    self._made.limit(self._cores())
            except RunError as error:
                self._failure = error
                self._made.kill()
            self._note(self._made, reason)

    def _note(self, nodes: PlainNodes, reason: str) -> None:
        """Remember why and from where on the quotas are as they are now."""
        self._limited_by = reason
        self._limited_at = time.monotonic()
        self._before = self._counters(nodes)

    def _watch(self, nodes: PlainNodes, over: threading.Event) -> None:
        """Limit jobs that never come to the gate, and keep byte-moving threads out of the quota."""
        while not over.wait(_LOOK_SECONDS):
            with self._lock:
                waited = time.monotonic() - self._limited_at
                limited = self._limited_by != "never"
                if not limited and not self._held and waited > self._start_seconds:
                    self._limit("the clock")
                elif limited and not self._paced and waited < _RELEASE_SECONDS:
                    self._release_communication(nodes)

    def _release_communication(self, nodes: PlainNodes) -> None:
        for node in range(self._running):
            nodes.groups.release_communication(f"node{node}")

    def _cores(self) -> list[float]:
        return [cores_of(self._options, node, self._running) for node in range(self._running)]

    def _counters(self, nodes: PlainNodes) -> list[_Counters]:
        groups = nodes.groups
        return [
            _Counters(
                groups.cpu_seconds(name),
                groups.throttled_seconds(name),
                groups.periods(name),
                nodes.traffic_bytes(node),
            )
            for node, name in ((node, f"node{node}") for node in range(self._running))
        ]

    def _record(self, nodes: PlainNodes) -> None:
        """Compare what was promised with what was got since the quota came into force."""
        with self._lock:
            if self._checks:
                return
            seconds = time.monotonic() - self._limited_at
            limited = self._limited_by != "never"
            self._checks = {
                "label": "rehearsal: emulated nodes",
                "cpu": "paced" if self._paced else "quota",
                "link": nodes.link,
                "limited_by": self._limited_by,
                "limited_seconds": seconds if limited else 0.0,
                "link_mbit_per_second": self._options.link_mbit_per_second,
                **self._dry_facts(),
            }
            after = self._counters(nodes)
            for node, (old, new) in enumerate(zip(self._before, after, strict=True)):
                facts = _used(old, new)
                if self._paced:
                    facts["cores"] = self._cores()[node]
                elif (cores := nodes.groups.cores(f"node{node}")) is not None:
                    facts["cores"] = cores
                    if "cpu_seconds" in facts:
                        facts["cpu_received_of_asked"] = facts["cpu_seconds"] / (cores * seconds)
                self._checks |= {f"node{node}.{name}": value for name, value in facts.items()}

    def _dry_facts(self) -> dict[str, float | str]:
        dry = self._dry.get(self._running)
        if dry is None:
            return {}
        return {"dry_step_seconds": dry.seconds, "dry_wait_seconds": dry.wait_seconds}


def fitting_share(nodes: int, cores: int) -> float:
    """The cores of a node, to two digits, of which so many fit on a machine.

    >>> fitting_share(16, 2), fitting_share(32, 2)
    (0.087, 0.043)
    """
    share = _USABLE * cores / nodes
    step = 10.0 ** (int(f"{share:e}".partition("e")[2]) - 1)
    return round(int(share / step) * step, 12)


def _cores_here() -> int:
    return len(os.sched_getaffinity(0))


def _forget_output(job: Job) -> None:
    """Empty the log and remove the reports of a run that is repeated in the same folder."""
    for pattern in ("rank-*", "mpi-*"):
        for report in job.folder.glob(pattern):
            report.unlink()
    if job.log.exists():
        os.truncate(job.log, 0)


def _used(old: _Counters, new: _Counters) -> dict[str, float]:
    """What a node used between two moments, where it is counted.

    A group that used no CPU at all had no rank in it.
    """
    used: dict[str, float] = {}
    before, after = old.cpu_seconds, new.cpu_seconds
    if before is not None and after is not None and after > before:
        used["cpu_seconds"] = after - before
        if old.throttled_seconds is not None and new.throttled_seconds is not None:
            used["throttled_seconds"] = new.throttled_seconds - old.throttled_seconds
        if old.periods is not None and new.periods is not None:
            awake, throttled = new.periods[0] - old.periods[0], new.periods[1] - old.periods[1]
            used["throttled_periods"] = throttled / max(awake, 1)
    if old.traffic_bytes is not None and new.traffic_bytes is not None:
        used["received_bytes"] = new.traffic_bytes[0] - old.traffic_bytes[0]
        used["sent_bytes"] = new.traffic_bytes[1] - old.traffic_bytes[1]
    return used
