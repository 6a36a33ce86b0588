"""What engines with a cluster of their own share: it is started once, or found, and kept.

A run at K uses K of its workers; the others are held, and do nothing. The program is an ordinary
driver of the engine, finds the cluster by a variable, and needs no call of nodewise: the
seconds of every worker come from what the engine records anyway.
"""

import importlib.util
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.importers.schedulers.task_records import Task
from nodewise.measure.engines import base
from nodewise.measure.engines.base import Engine, Finished, Job, Started
from nodewise.measure.engines.clusters.companion import (
    Companion,
    check_enough,
    cluster_environment,
    driver_environment,
)
from nodewise.measure.engines.clusters.recorded import Records, finished_with
from nodewise.study.spec import EngineSpec, Part, Positive
from nodewise.study.study import Fact

_ANSWER_SECONDS = 60.0
_CONNECT_SECONDS = 5.0


class ClusterOptions(Part, frozen=True, kw_only=True):
    """What the tables of such engines have in common."""

    address: str = ""  # host:port of a cluster; empty: start one on this machine
    start_seconds: Positive = 120.0  # longest start of the cluster


class _Told(msgspec.Struct):
    """The records of a run, as the process beside us tells them."""

    tasks: tuple[Task, ...]
    workers: tuple[str, ...]
    begin: int | None
    end: int | None


class ClusterEngine(Engine):
    """One cluster for all runs of a study."""

    options_type: ClassVar[type[ClusterOptions]]
    watched = False
    package: ClassVar[str]
    title: ClassVar[str]  # its name as printed
    address_variable: ClassVar[str]  # where the driver looks for it

    def __init__(self, options: ClusterOptions) -> None:
        """As the spec says."""
        self._options = options
        self._most = 1
        self._companion: Companion | None = None
        self._first: dict[str, Any] = {}

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the table of the spec."""
        return cls(base.options_of(chosen, cls.title.lower(), cls.options_type))

    def check(self, scales: Sequence[int]) -> None:
        """The package must be there, and a cluster that was named must answer."""
        if importlib.util.find_spec(self.package) is None:
            raise RunError(
                f"{self.title} is not installed.",
                f"Install it: pip install 'nodewise[{self.title.lower()}]'.",
            )
        self._most = max(scales)
        if self._options.address:
            self._check_address()
            outer = {n: v for n, v in os.environ.items() if not n.startswith("NODEWISE_")}
            self._open(outer)

    def _check_address(self) -> None:
        """Refuse an address that does not answer: libraries try for minutes before they fail."""
        address = self._options.address
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if not port.isdecimal():
            raise SpecError(
                f"engine.{self.title.lower()}.address: '{address}' has no port.",
                "Write it as host:port.",
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError:
            raise RunError(
                f"No {self.title} answers at {address}.",
                "Correct the address, or leave it out for a cluster on this machine.",
            ) from None

    def run(self, job: Job, started: Started) -> Finished:
        """Hold all workers but K, run the driver to its end, and read what was recorded."""
        companion = self._open(cluster_environment(job))
        started([companion.pid])
        companion.ask("hold", self._options.start_seconds + _ANSWER_SECONDS, nodes=job.nodes)
        environment = {**driver_environment(job), self.address_variable: self._first["address"]}
        begin, began_ns = time.monotonic(), time.time_ns()
        driver = base.start(job.command, job, environment)
        started([driver.pid, companion.pid])
        finished = base.wait_for_all([driver], job, begin)
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
        session = f"nodewise.measure.engines.clusters.{self.title.lower()}_session"
        request = {**msgspec.structs.asdict(self._options), "workers": self._most}
        theirs = bool(self._options.address)
        self._companion = Companion(session, request, environment, restores=theirs)
        self._first = self._companion.answer(self._options.start_seconds + _ANSWER_SECONDS)
        check_enough(self._first["workers"], self._most)
        return self._companion

    def _facts(self) -> dict[str, Fact]:
        return {
            "engine_version": self._first["version"],
            "engine_nodes": ",".join(self._first["hosts"]),
            "startup_seconds": self._first["startup_seconds"],
        }
