"""Torch ranks without the wait for torch: it is imported once, and each rank is a fork of that.

Importing torch, and with the first optimizer its compiler, takes seconds of CPU for each rank; on a
machine that plays eight nodes that is half a minute before every run. The server does it once, and
sleeps while ranks run: it is asked to start a rank and, when that is over, how it ended. A fork
enters its node by itself and then is what a process that torchrun started would be. It dies with
the server, and the server with the harness.

A fork shares the memory of the server, so a limit of memory would not see what torch takes.
"""

import ctypes
import gc
import importlib
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure import launch
from nodewise.measure.engines.base import Job, die_with_parent

_PRELOADED = ("torch", "torch._dynamo")  # the second is imported by the first optimizer
# Of a script's other imports only these: they do not look at torch before it is timed.
_ALSO = re.compile(r"^(?:from|import) +((?:numpy|scipy|sklearn|pandas)\b[\w.]*)", re.MULTILINE)
_IMPORT_SECONDS = 180.0
_CHANNEL = 0  # standard input is a socket: questions come in by it, answers go out by it
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class Fork(msgspec.Struct, frozen=True):
    """What a rank is to be."""

    script: tuple[str, ...]  # as `nodewise.measure.launch` takes it
    environment: dict[str, str]
    directory: str
    log: str
    procs_files: list[str]  # files of the node's control groups, to write its id to
    spaces: list[str]  # files of the node's namespaces, to join in this order


class ForkedRank:
    """A rank that the server forked: looked at from the harness, as if it were its own child."""

    def __init__(self, process: int, server: "ForkServer") -> None:
        """`process` stays in the table until the server is asked how it ended."""
        self.pid = process
        self._server = server
        self._code: int | None = None
        self._handle = os.pidfd_open(process)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs; the server is not woken for that."""
        if self._code is None and select.select([self._handle], [], [], 0)[0]:
            os.close(self._handle)
            self._code = self._server.ask(self.pid)
        return self._code

    def wait(self) -> int:
        """Its exit code, as soon as there is one."""
        if self._code is None:
            select.select([self._handle], [], [])
        code = self.poll()
        assert code is not None
        return code


class ForkServer:
    """The harness's side: starts the server, and ranks through it."""

    def __init__(self, job: Job, script: str, environment: Mapping[str, str]) -> None:
        """Return when torch is there; libraries read this environment while they are imported."""
        self.environment = dict(environment)
        text = job.directory / script
        modules = _ALSO.findall(text.read_text()) if text.is_file() else []
        self._channel, theirs = socket.socketpair()
        with theirs, job.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nodewise.measure.engines.rehearsal.fork_server", *modules],
                cwd=job.directory,
                env=self.environment,
                stdin=theirs.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._channel.settimeout(_IMPORT_SECONDS)
        self._answers = self._channel.makefile("rb")
        try:
            self._answer()
        except RunError:
            self.close()
            raise

    def start(self, fork: Fork) -> ForkedRank:
        """A new rank; it has entered its node."""
        return ForkedRank(self.ask(fork), self)

    def ask(self, question: Fork | int) -> int:
        """The process of a new rank, or the exit code of a rank that ended."""
        try:
            self._channel.sendall(msgspec.json.encode(question) + b"\n")
        except OSError:
            raise _lost() from None
        return self._answer()

    def close(self) -> None:
        """End the server, and with it all of its ranks."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._channel.close()

    def _answer(self) -> int:
        try:
            return msgspec.json.decode(self._answers.readline(), type=int)
        except (OSError, msgspec.DecodeError):
            raise _lost() from None


def _lost() -> RunError:
    return RunError(
        "The process that imports torch has ended or does not answer.",
        "Try: python -c 'import torch'.",
    )


def main() -> None:
    """The server's side: import torch, then fork for every order, until nodewise has ended."""
    for name in (*_PRELOADED, *sys.argv[1:]):
        importlib.import_module(name)
    gc.freeze()  # else the first collection in a fork copies the pages of all objects
    fork = _serve()
    if fork is not None:
        _run(fork)


def _serve() -> Fork | None:
    """Answer questions; returns in a fork, with what it is to be, or when none are left."""
    questions = msgspec.json.Decoder(Fork | int)
    os.write(_CHANNEL, b"0\n")
    for line in sys.stdin.buffer:
        question = questions.decode(line)
        if isinstance(question, Fork):
            answer = _fork(question)
            if answer == 0:
                return question
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(question, 0)[1])
        os.write(_CHANNEL, b"%d\n" % answer)
    return None


def _fork(fork: Fork) -> int:
    """The process of a new rank, once it has entered its node; 0 in the rank itself."""
    server = os.getpid()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _enter(fork, server)
        os.close(writing)
        return 0
    os.close(writing)
    os.read(reading, 1)  # nothing is written: this ends when the rank is in, or has ended
    os.close(reading)
    return process


def _enter(fork: Fork, server: int) -> None:
    """Become a process of the node, the leader of its own group."""
    os.setsid()
    for path, way, number in ((os.devnull, os.O_RDONLY, 0), (fork.log, _APPEND, 1)):
        file = os.open(path, way)
        os.dup2(file, number)
        os.close(file)
    os.dup2(1, 2)
    for procs_file in fork.procs_files:
        Path(procs_file).write_text(str(os.getpid()))
    library = ctypes.CDLL(None, use_errno=True)
    spaces = [os.open(space, os.O_RDONLY) for space in fork.spaces]
    for space in spaces:
        if library.setns(space, 0):
            raise OSError(ctypes.get_errno(), "a namespace of the node cannot be joined")
        os.close(space)
    die_with_parent()  # only now: a change of rights takes it back
    if os.getppid() != server:
        sys.exit("nodewise has ended")
    os.chdir(fork.directory)
    os.environ.clear()
    os.environ.update(fork.environment)


def _run(fork: Fork) -> None:
    """Run the script as `nodewise.measure.launch` does, for which torch is not imported yet."""
    if "numpy.random" in sys.modules:  # a process of its own would have numbers of its own
        importlib.import_module("numpy.random").seed()
    importlib.import_module("nodewise.measure.torch.hooks").install()
    sys.argv[1:] = fork.script
    launch.main()


if __name__ == "__main__":
    main()
