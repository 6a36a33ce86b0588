"""A process beside ours that speaks to a cluster, so that its library is never loaded here.

It leads a group of its own, in which a cluster that it starts lives too. A guard kills that group
when we end. Requests and answers are a line of JSON each; what its library prints goes to a log.
"""

import contextlib
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import Job, end

_MOST_LINES = 6  # of its log in an error
_GOODBYE_SECONDS = 5.0
_LAST_WORDS_SECONDS = 3.0  # a process that ends still writes why
Answer = dict[str, Any]
# The library and the first request to a session, whose methods answer the later ones.
Connect = Callable[[Any, Answer], contextlib.AbstractContextManager[Any]]


class Companion:
    """Our side: asks, and waits for the answer."""

    def __init__(
        self, module: str, request: Answer, environment: Mapping[str, str], *, restores: bool
    ) -> None:
        """`request` is what it gets first, as all later ones are asked.

        One that restores a cluster of others is not killed with us: it ends as its requests end.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(request)],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._guard = None if restores else _guard(self._process.pid)
        self._heard = b""

    @property
    def pid(self) -> int:
        """The leader of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, name: str, timeout_seconds: float, **request: Any) -> Answer:
        """The answer to one request."""
        assert self._process.stdin is not None
        with contextlib.suppress(
            BrokenPipeError
        ):  # its end is reported where the answer is missing
            self._process.stdin.write(json.dumps({"name": name, **request}).encode() + b"\n")
            self._process.stdin.flush()
        return self.answer(timeout_seconds)

    def answer(self, timeout_seconds: float) -> Answer:
        """Its next answer."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_seconds
        while b"\n" not in self._heard:
            left = max(deadline - time.monotonic(), 0.0)
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            more = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                how = "ended" if ready else f"gave no answer in {timeout_seconds:g} s"
                raise RunError(f"The process for the cluster {how}.", self._last_lines())
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        told: Answer = json.loads(line)
        if "error" in told:
            raise RunError(told["error"], told["fix"])
        return told

    def close(self) -> None:
        """Let it end, so that it leaves a cluster of others as it was; then end what is left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOODBYE_SECONDS)
        self._process.stdout.close()
        end(self._process)
        if self._guard is not None:
            self._guard.communicate()
        self._log.close()

    def _last_lines(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_SECONDS)
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        told = " / ".join(line.strip() for line in lines[-_MOST_LINES:] if line.strip())
        return f"Its output: {told}" if told else "It printed nothing; see the logs of the cluster."


def _guard(leader: int) -> subprocess.Popen[bytes]:
    """A process that kills a group as soon as our end of its input is closed, also by our death.

    The kernel could kill the companion with us, but not the workers of its cluster: one that is
    still starting would wait a minute or more for its master.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read _; kill -9 "-$1"', "nodewise-guard", str(leader)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def serve(package: str, connect: Connect) -> None:
    """Its side: start or find the cluster, tell about it, answer requests until none are left.

    A request is the name of a method of the session and its arguments.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # what anybody else prints from now on goes to the log
    library = importlib.import_module(package)
    begin = time.monotonic()
    with connect(library, json.loads(sys.argv[1])) as session, os.fdopen(answers, "w") as out:

        def say(answer: Answer) -> None:
            out.write(json.dumps(answer) + "\n")
            out.flush()

        took = time.monotonic() - begin
        say({**session.about(), "version": library.__version__, "startup_seconds": took})
        for line in sys.stdin:
            request = json.loads(line)
            try:
                say(getattr(session, request.pop("name"))(**request))
            except RunError as error:
                say({"error": error.what, "fix": error.fix})


def check_enough(workers: int, nodes: int) -> None:
    """A cluster must have a worker for each of the nodes that a run takes."""
    if workers < nodes:
        raise RunError(
            f"The cluster has {workers} workers, K={nodes} needs more.",
            "Start more of them, or ask for smaller scales.",
        )


def cluster_environment(job: Job) -> dict[str, str]:
    """What a cluster is started with: as the program, but it is not the program that is timed."""
    outer = {name: v for name, v in job.environment.items() if not name.startswith("NODEWISE_")}
    return {**outer, "PYTHONPATH": os.pathsep.join(import_folders(job))}


def driver_environment(job: Job) -> dict[str, str]:
    """What the program is started with: it is alone, so it must not wait for others at the gate."""
    inner = {name: value for name, value in job.environment.items() if name != "NODEWISE_GATE"}
    return {**inner, "NODEWISE_RANK": "0"}


def import_folders(job: Job) -> list[str]:
    """Where the program finds its modules, so that workers find them too."""
    scripts = [Path(word) for word in job.command if word.endswith(".py")]
    folders = [str((job.directory / script).resolve().parent) for script in scripts[:1]]
    others = job.environment.get("PYTHONPATH", "").split(os.pathsep)
    return list(dict.fromkeys([*folders, str(job.directory), *filter(None, others)]))
