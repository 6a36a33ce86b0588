"""What engines with a cluster of their own share: it is started once, or found, and kept.

A run at K uses K of its workers; the others are held, and do nothing. The program is an ordinary
driver of the engine, told by a variable where the cluster is, and needs no call of ours: the
seconds of every worker come from what the engine records anyway.
"""

import importlib.util
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from nodewise.engines.base import Engine, Finished, Job, Started, start, wait_for_all
from nodewise.engines.companion import Companion, cluster_environment, driver_environment
from nodewise.engines.recorded import Records, finished_with
from nodewise.errors import RunError, SpecError
from nodewise.importers.task_records import Task
from nodewise.study import Fact

_ANSWER_SECONDS = 60.0
_KNOCK_SECONDS = 5.0


class _Told(msgspec.Struct):
    """The records of a run, as the process beside us tells them."""

    tasks: tuple[Task, ...]
    workers: tuple[str, ...]
    begin: int | None
    end: int | None


class ClusterEngine(Engine):
    """One cluster for all runs of a study."""

    watched = False
    package: ClassVar[str]
    title: ClassVar[str]  # as people write its name
    session: ClassVar[str]  # the module that speaks to the cluster
    address_variable: ClassVar[str]  # where the driver looks for it

    def __init__(self, address: str, start_seconds: float) -> None:
        """`address` is that of a cluster, or empty: then one is started on this machine."""
        self._address = address
        self._start_seconds = start_seconds
        self._most = 1
        self._companion: Companion | None = None
        self._first: dict[str, Any] = {}

    def request(self, workers: int) -> dict[str, Any]:
        """What the session must know to start or to find the cluster."""
        return {
            "address": self._address,
            "workers": workers,
            "start_seconds": self._start_seconds,
        }

    def check(self, scales: Sequence[int]) -> None:
        """The package must be there, and a cluster that was named must answer."""
        if importlib.util.find_spec(self.package) is None:
            raise RunError(
                f"There is no {self.title}.",
                f"Install it: pip install 'nodewise[{self.title.lower()}]'.",
            )
        self._most = max(scales)
        if self._address:
            self._knock()
            outer = {n: v for n, v in os.environ.items() if not n.startswith("NODEWISE_")}
            self._open(outer)

    def _knock(self) -> None:
        """Somebody must listen at the address: libraries try for minutes before they say so."""
        host, _, port = self._address.rpartition("://")[2].rpartition(":")
        if not port.isdecimal():
            raise SpecError(
                f"engine.{self.title.lower()}.address: '{self._address}' has no port.",
                "Write it as host:port.",
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
        except OSError:
            raise RunError(
                f"No {self.title} answers at {self._address}.",
                "Correct the address, or leave it out for a cluster on this machine.",
            ) from None

    def run(self, job: Job, started: Started) -> Finished:
        """Hold all workers but K, run the driver to its end, and read what was recorded."""
        companion = self._open(cluster_environment(job))
        started([companion.pid])
        companion.ask("hold", self._start_seconds + _ANSWER_SECONDS, nodes=job.nodes)
        environment = {
            **driver_environment(job),
            self.address_variable: self._first["address"],
        }
        begin, began_ns = time.monotonic(), time.time_ns()
        driver = start(job.command, job, environment)
        started([driver.pid, companion.pid])
        finished = wait_for_all([driver], job, begin)
        ended_ns = time.time_ns()
        try:
            told = msgspec.convert(companion.ask("records", _ANSWER_SECONDS), _Told)
        except RunError as error:
            # A cluster that broke is how this run failed; the next one gets a new one.
            self.close()
            return msgspec.structs.replace(
                finished,
                outcome="crashed" if finished.outcome == "ok" else finished.outcome,
                detail=f"{finished.detail or 'the cluster broke'}: {error.what} {error.fix}",
            )
        records = Records(
            tasks=told.tasks,
            workers=told.workers,
            begin=told.begin or began_ns,
            end=told.end or ended_ns,
            facts=self._facts(),
        )
        whole = finished_with(finished, job, records)
        if finished.outcome != "ok" or len(told.workers) != job.nodes:
            self.close()
        return whole

    def close(self) -> None:
        """End the process beside us, and with it the cluster that it started."""
        if self._companion is not None:
            self._companion.close()
            self._companion = None

    def _open(self, environment: Mapping[str, str]) -> Companion:
        """The process that speaks to the cluster."""
        if self._companion is not None and self._companion.alive:
            return self._companion
        self.close()
        request = self.request(self._most)
        theirs = bool(self._address)
        self._companion = Companion(self.session, request, environment, restores=theirs)
        self._first = self._companion.answer(self._start_seconds + _ANSWER_SECONDS)
        if self._first["workers"] < self._most:
            raise RunError(
                f"The cluster at {self._first['address']} has {self._first['workers']} workers, "
                f"K={self._most} needs more.",
                "Start more of them, or ask for smaller scales.",
            )
        return self._companion

    def _facts(self) -> dict[str, Fact]:
        return {
            "engine_version": self._first["version"],
            "engine_nodes": ",".join(self._first["hosts"]),
            "startup_seconds": self._first["startup_seconds"],
        }
