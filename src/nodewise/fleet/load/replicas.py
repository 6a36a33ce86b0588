"""Replicas of a server: started, waited for, watched and ended; none outlives this process."""

import contextlib
import http.client
import os
import shlex
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from nodewise.base.errors import RunError
from nodewise.fleet.load import tls
from nodewise.fleet.load.client import address_of
from nodewise.fleet.load.first_request import open_connection
from nodewise.fleet.spec import Server
from nodewise.measure.engines import base
from nodewise.measure.engines.base import Job
from nodewise.measure.engines.rehearsal import control_groups
from nodewise.measure.engines.rehearsal.control_groups import Groups
from nodewise.study.spec import Rehearsal

_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 2.0
_LOG_LINES = 5
_HEALTH = "/health"  # where the spec names none
_FINAL = ("status 400", "status 405")  # waiting would not change them
_MISSING = "status 404"  # nor this, but a gateway answers so while its replicas are scaled up
_MISSING_SECONDS = 2.0  # of 404 at the default path: the server has no such path, but it answers


class ReplicaFailed(RunError):
    """A replica did not become ready; that is a result of the sweep, not its end."""


class Replicas(Protocol):
    """The servers that a window is put on."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Their addresses."""

    def dead(self) -> list[str]:
        """A sentence for each that has ended by itself."""

    def revive(self) -> None:
        """Start those again that have ended; wait until they are ready."""


@contextlib.contextmanager
def replicas_of(server: Server, count: int, home: Path, logs: Path) -> Iterator[Replicas]:
    """So many replicas of a server, ready; `home` is the folder of its spec."""
    if server.urls:
        if server.scale:
            _scale(server, count, home)
        existing = _Existing(server, count, tls.context_of(server, home))
        existing.revive()
        yield existing
        return
    started = _Started(server, count, home, logs)
    try:
        started.revive()
        yield started
    finally:
        started.close()


class _Existing:
    """Servers that were started elsewhere and end there."""

    def __init__(self, server: Server, count: int, context: ssl.SSLContext | None) -> None:
        self._server = server
        self._health = _Health(server, context)
        self.endpoints = server.urls[:count]

    def dead(self) -> list[str]:
        return [
            f"Replica {number + 1} at {url} is not healthy."
            for number, url in enumerate(self.endpoints)
            if self._health.problem(url)
        ]

    def revive(self) -> None:
        for url in self.endpoints:
            deadline = time.monotonic() + self._server.start_seconds
            while problem := self._health.problem(url):
                named = self._server.health is not None
                final = problem in _FINAL or (problem == _MISSING and not self._server.scale)
                if named and final:
                    raise RunError(
                        f"{url}{self._health.path} does not answer 200: {problem}.",
                        'Write a path that answers 200 in server.health, or health = "".',
                    )
                if time.monotonic() > deadline:
                    raise ReplicaFailed(
                        f"{url}{self._health.path} does not answer 200: {problem}.",
                        "Start the server, or correct server.endpoints and server.health.",
                    )
                time.sleep(_POLL_SECONDS)


def _scale(server: Server, count: int, home: Path) -> None:
    """Set the number of replicas behind an address; the command of the spec knows how."""
    command = [word.replace("{n}", str(count)) for word in shlex.split(server.scale)]
    shown = shlex.join(command)
    directory = (home / server.directory).resolve()
    environment = {**os.environ, **server.environment}
    try:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all that it starts can be ended
        )
    except OSError as error:
        raise RunError(f"Cannot run {shown}: {error.strerror}.", "Correct server.scale.") from None
    with process:
        try:
            output, _ = process.communicate(timeout=server.start_seconds)
        except subprocess.TimeoutExpired:
            base.end(process)
            raise ReplicaFailed(
                f"{shown} was not finished after {server.start_seconds:g} s.",
                "Raise server.start_seconds, or correct server.scale.",
            ) from None
        except BaseException:
            base.end(process)
            raise
    if process.returncode:
        lines = output.decode(errors="replace").strip().splitlines()[-_LOG_LINES:]
        raise ReplicaFailed(
            f"{shown}: {base.in_words(process.returncode)}. {' / '.join(lines)}".rstrip(),
            "Correct server.scale, or the number of replicas.",
        )


class _Started:
    """Servers that are started here, on free ports, and end with this process.

    Each replica has a command and a port, or one command starts them all behind one port.
    """

    def __init__(self, server: Server, count: int, home: Path, logs: Path) -> None:
        self._server, self._count, self._logs = server, count, logs.resolve()
        base.end_marked(self._logs)  # what a killed sweep has left
        self._directory = (home / server.directory).resolve()
        self._ports = _free_ports(1 if server.behind_one_port else count)
        self.endpoints = tuple(f"http://127.0.0.1:{port}" for port in self._ports)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._health = _Health(server)
        self._groups: Groups | None = None
        if server.cores_per_replica is not None:
            self._groups = _groups(server.cores_per_replica, count)

    def close(self) -> None:
        for process in self._running.values():
            base.end(process)
        self._running.clear()
        base.end_marked(self._logs)
        if self._groups is not None:
            self._groups.remove()
            self._groups = None

    def dead(self) -> list[str]:
        return [
            f"{self._name(number)} ended: {base.in_words(process.returncode)}."
            for number, process in self._running.items()
            if process.poll() is not None
        ]

    def revive(self) -> None:
        for number in range(len(self._ports)):
            process = self._running.get(number)
            if process is None or process.poll() is not None:
                if process is not None:
                    self._end_rest(process)
                self._running[number] = self._start(number)
        deadline = time.monotonic() + self._server.start_seconds
        for number in range(len(self._ports)):
            self._wait(number, deadline)

    def _end_rest(self, process: subprocess.Popen[bytes]) -> None:
        """End what a dead replica has left; in its group, or anywhere if it is the only one."""
        base.end(process)
        if self._server.behind_one_port:
            base.end_marked(self._logs)

    def _name(self, number: int) -> str:
        if self._server.behind_one_port:
            return f"Replica set of {self._count}"
        return f"Replica {number + 1} of {self._count}"

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = self._command(number)
        directory = self._directory
        if not directory.is_dir():
            raise RunError(f"No such folder: {directory}.", "Correct server.directory.")
        if not base.has_program(command[0], directory):
            raise RunError(f"No such program: {command[0]}.", "Correct server.command.")
        if self._groups is not None:
            command = self._groups.entered(f"replica{number}", command)
        job = self._job(number, tuple(command))
        job.folder.mkdir(parents=True, exist_ok=True)
        return base.start(command, job, job.environment)

    def _command(self, number: int) -> list[str]:
        values = {
            "{port}": str(self._ports[number]),
            "{replica}": str(number),
            "{replicas}": str(self._count),
            "{python}": sys.executable,
        }
        return base.fill_in(self._server.command, values)

    def _job(self, number: int, command: tuple[str, ...]) -> Job:
        place = "all" if self._server.behind_one_port else f"replica-{number + 1}"
        return Job(
            command=command,
            nodes=self._count,
            directory=self._directory,
            environment={**os.environ, **self._server.environment, base.RUN_MARK: str(self._logs)},
            folder=self._logs / f"{self._count}-replicas" / place,
            timeout_seconds=self._server.start_seconds,
        )

    def _wait(self, number: int, deadline: float) -> None:
        process, url = self._running[number], self.endpoints[number]
        while problem := self._health.problem(url):
            code = process.poll()
            if code is None and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                continue
            log = self._job(number, ()).log
            if code is None:
                how = f"was not ready after {self._server.start_seconds:g} s"
                how += f": {problem} at {self._health.path or url}"
            else:
                how = f"ended before it was ready: {base.in_words(code)}"
            raise ReplicaFailed(
                f"{self._name(number)} {how}. {_tail(log)}".rstrip(),
                f"See {log}; server.health must answer 200 when a replica is ready.",
            )


class _Health:
    """Whether servers are ready, by the path of the spec.

    Where the spec names none and a server answers 400, 404 or 405 at the default path all the time,
    it has no such path, and a connection is enough: the first request shows what is wrong.
    """

    def __init__(self, server: Server, context: ssl.SSLContext | None = None) -> None:
        self._named, self._context = server.health is not None, context
        self._is_scaled = bool(server.scale)  # a gateway has no path while it starts replicas
        self._exists = False  # the default path
        self.path = _HEALTH if server.health is None else server.health
        self._missing_since: float | None = None

    def problem(self, url: str) -> str:
        """Why a server is not ready; nothing if it is."""
        found = _problem(url, self.path, self._context)
        self._exists = self._exists or (not found and bool(self.path))
        lasts = found in _FINAL or (found == _MISSING and not self._is_scaled)
        if self._named or self._exists or not lasts:
            self._missing_since = None
            return found
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        if now - self._missing_since < _MISSING_SECONDS:
            return found
        self.path = ""
        return ""


def _problem(url: str, path: str, context: ssl.SSLContext | None = None) -> str:
    """Why a server is not ready; nothing if it is.

    Without a path, a connection is enough. A server that asks for a key is ready: the first request
    has the key.
    """
    connection = open_connection(url, _ANSWER_SECONDS, context)
    try:
        connection.connect()
        if not path:
            return ""
        connection.request("GET", address_of(url).path.rstrip("/") + path)
        status = connection.getresponse().status
        return "" if status in (200, 401, 403) else f"status {status}"
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # it ends, or is not up yet
        return "no answer"
    except ssl.SSLError as error:
        raise tls.explained(url, error) from None
    except (OSError, http.client.HTTPException):
        return "no answer"
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    """Ports that are free; all are held until the last is known, so none comes twice."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            holder = held.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            ports.append(int(holder.getsockname()[1]))
        return ports


def _groups(cores: float, count: int) -> Groups:
    """A control group with its share of the CPU for each replica."""
    options = Rehearsal(cores_per_node=cores)
    lacking = control_groups.missing_for_groups(options)
    if lacking is not None:
        raise RunError(
            f"server.cores_per_replica: this machine lacks {lacking}.",
            "Run as root, or leave it out: the replicas then share the cores.",
        )
    control_groups.remove_leftovers()
    groups = control_groups.make_groups(options)
    for number in range(count):
        groups.make(f"replica{number}")
        groups.limit_cpu(f"replica{number}", cores)
    return groups


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return " / ".join(line.strip() for line in lines[-_LOG_LINES:])
