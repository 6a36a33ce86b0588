"""K virtual nodes on this machine, each with its own CPU quota and link, running the real job.

Start-up is outside the quota, as it is outside the timing: a run begins without limits, and
`limit` puts them in force when the ranks are ready. Everything measured here is a rehearsal.
"""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import Engine, Finished, Job, Started, wait_for_all
from nodewise.measure.engines.rehearsal.control_groups import remove_leftovers
from nodewise.measure.engines.rehearsal.node_launchers import launcher_of
from nodewise.measure.engines.rehearsal.virtual_nodes import VirtualNodes, missing
from nodewise.study.spec import EngineSpec, Rehearsal

_LOOK_SECONDS = 0.2
_RELEASE_SECONDS = 10.0  # how long after the start of the quota new threads are looked for
_LEAST_QUOTA_MS = 1.0  # what the kernel takes


class _Counters(msgspec.Struct, frozen=True):
    """What a node had used at one moment."""

    cpu_seconds: float
    periods: int
    throttled: int
    received_bytes: int
    sent_bytes: int


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
        self._made: VirtualNodes | None = None
        self._lock = threading.RLock()  # the gate, the watch and the run speak at once
        self._running = 0
        self._held = False
        self._failure: RunError | None = None
        self._limited_by = "never"
        self._limited_at = 0.0
        self._before: list[_Counters] = []
        self._memory_kills: list[int] = []
        self._checks: dict[str, float | str] = {}

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the nodes and the launcher's options of the spec."""
        return cls(chosen.rehearsal, chosen.options)

    def check(self, scales: Sequence[int]) -> None:
        """The machine must allow such nodes, have the cores, and the launcher must be there."""
        lacking = missing(self._options)
        if lacking is not None:
            raise RunError(
                f"This machine lacks {lacking} for virtual nodes.",
                "Run as root, or where control groups are delegated to you, on Linux with iproute2 "
                "and util-linux; or choose the engine 'local'.",
            )
        self._check_quotas(max(scales))
        self._launcher.check()
        remove_leftovers()
        self._largest = max(scales)

    def check_job(self, job: Job) -> None:
        """The launcher must be of the program's MPI."""
        self._launcher.check_job(job)

    def run(self, job: Job, started: Started) -> Finished:
        """Start the job without limits, put them in force when it is ready, wait for its end."""
        nodes = self._nodes_for(job)
        self._launcher.prepare(job)
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(nodes, over), daemon=True)
        self._reset(nodes, job.nodes)
        watch.start()
        try:
            begin = time.monotonic()
            workers = self._launcher.start(nodes, job)
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

    def limit(self) -> None:
        """Put the quotas in force now; the gate calls this just before it lets the ranks go."""
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

    def _reset(self, nodes: VirtualNodes, running: int) -> None:
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

    def _explain(self, nodes: VirtualNodes, finished: Finished) -> Finished:
        """A full memory is told by the kernel; launchers tell only that some rank is gone."""
        before = enumerate(self._memory_kills)
        full = [node for node, kills in before if nodes.groups.memory_kills(f"node{node}") > kills]
        if finished.outcome == "ok" or not full or self._options.memory_bytes is None:
            return finished
        limit = f"{self._options.memory_bytes / 1e6:g} MB"
        detail = f"node{full[0]} needs more than its {limit} of memory"
        return Finished(outcome="out of memory", seconds=finished.seconds, detail=detail)

    def _check_quotas(self, nodes: int) -> None:
        options = self._options
        cores = len(os.sched_getaffinity(0))
        asked = nodes * options.cores_per_node
        if asked > cores + 1e-9:
            raise RunError(
                f"{nodes} nodes of {options.cores_per_node:g} cores need {asked:g} cores; "
                f"this machine has {cores}.",
                f"Set cores_per_node to {cores / nodes:.2g} or less, or leave out the scale.",
            )
        slowest = options.cores_per_node / self._slowness()
        if slowest * options.period_ms < _LEAST_QUOTA_MS - 1e-9:
            raise RunError(
                f"{slowest:g} cores are less than 1 ms in a period of {options.period_ms:g} ms.",
                f"Set period_ms to {_LEAST_QUOTA_MS / slowest:g} or more.",
            )

    def _slowness(self) -> float:
        return 1.0 if self._options.slow_node is None else self._options.slow_factor

    def _cores(self, node: int) -> float:
        """The quota of a node in the run under way; a slow node of -1 is its last."""
        slow = self._options.slow_node
        is_slow = slow is not None and node == (self._running - 1 if slow == -1 else slow)
        return self._options.cores_per_node / (self._slowness() if is_slow else 1.0)

    def _nodes_for(self, job: Job) -> VirtualNodes:
        if self._made is None or len(self._made) < job.nodes:
            self.close()
            self._check_quotas(job.nodes)
            self._made = VirtualNodes(max(job.nodes, self._largest), self._options, job.directory)
        return self._made

    def _limit(self, reason: str) -> None:
        """Never raises, as it runs in other threads: what went wrong ends the run, and is told."""
        with self._lock:
            if self._made is None or not self._running or self._checks:
                return
            try:
                self._release_communication(self._made)
                self._made.limit([self._cores(node) for node in range(self._running)])
            except RunError as error:
                self._failure = error
                self._made.kill()
            self._note(self._made, reason)

    def _note(self, nodes: VirtualNodes, reason: str) -> None:
        """Remember why and from where on the quotas are as they are now."""
        self._limited_by = reason
        self._limited_at = time.monotonic()
        self._before = self._counters(nodes)

    def _watch(self, nodes: VirtualNodes, over: threading.Event) -> None:
        """Limit jobs that never come to the gate, and keep byte-moving threads out of the quota."""
        while not over.wait(_LOOK_SECONDS):
            with self._lock:
                waited = time.monotonic() - self._limited_at
                limited = self._limited_by != "never"
                if not limited and not self._held and waited > self._start_seconds:
                    self._limit("the clock")
                elif limited and waited < _RELEASE_SECONDS:
                    self._release_communication(nodes)

    def _release_communication(self, nodes: VirtualNodes) -> None:
        for node in range(self._running):
            nodes.groups.release_communication(f"node{node}")

    def _counters(self, nodes: VirtualNodes) -> list[_Counters]:
        groups = nodes.groups
        return [
            _Counters(groups.cpu_seconds(name), *groups.periods(name), *nodes.traffic_bytes(node))
            for node, name in ((node, f"node{node}") for node in range(self._running))
        ]

    def _record(self, nodes: VirtualNodes) -> None:
        """Compare what was promised with what was got since the quota came into force."""
        with self._lock:
            if self._checks:
                return
            seconds = time.monotonic() - self._limited_at
            limited = self._limited_by != "never"
            self._checks = {
                "label": "rehearsal: emulated nodes",
                "limited_by": self._limited_by,
                "limited_seconds": seconds if limited else 0.0,
                "link_mbit_per_second": self._options.link_mbit_per_second,
            }
            after = self._counters(nodes)
            for node, (old, new) in enumerate(zip(self._before, after, strict=True)):
                facts = _used(old, new)
                cores = nodes.groups.cores(f"node{node}")
                if cores is not None:
                    facts["cores"] = cores
                    facts["cpu_received_of_asked"] = facts["cpu_seconds"] / (cores * seconds)
                self._checks |= {f"node{node}.{name}": value for name, value in facts.items()}


def _used(old: _Counters, new: _Counters) -> dict[str, float]:
    """What a node used between two moments."""
    return {
        "cpu_seconds": new.cpu_seconds - old.cpu_seconds,
        "throttled_periods": (new.throttled - old.throttled) / max(new.periods - old.periods, 1),
        "received_bytes": new.received_bytes - old.received_bytes,
        "sent_bytes": new.sent_bytes - old.sent_bytes,
    }
