"""This machine: its stored ceilings, measured again after a change."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodewise.base.errors import RunError
from nodewise.diagnose.machine.identity import identity, key
from nodewise.study.files import replace
from nodewise.study.machine import Machine

_MOST_SECONDS = 300
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS",
     "VECLIB_MAXIMUM_THREADS"), "1"
)  # fmt: skip


class OneCore(NamedTuple):
    """What one core of this machine can do."""

    stream: float  # bytes per second from main memory
    fresh_pages: float  # bytes per second that are handed out and touched for the first time
    cache: float  # bytes that it keeps close
    mark: float  # seconds that the first use of a small page takes after its mark was cleared


def machine(folder: Path, refresh: bool = False, peer: str = "") -> tuple[Machine, bool]:
    """The machine, and whether its ceilings were measured just now."""
    known = None if refresh or peer else stored(folder)
    if known is not None:
        return known, False
    found = measure(folder, peer)
    if not peer:  # a peer is a fact of this question, not of this machine
        with contextlib.suppress(OSError):  # a cache that cannot be written is skipped
            _write(cache_file(folder), found)
    return found, True


def stored(folder: Path) -> Machine | None:
    """The ceilings of this machine, if they were measured before."""
    return _stored(cache_file(folder))


def _stored(path: Path) -> Machine | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Machine)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def one_core(folder: Path) -> OneCore:
    """What one core can do.

    Measured in a moment and stored; the stored probe of the machine takes precedence.
    """
    path = cache_file(folder).with_suffix(".core.json")
    try:
        core = msgspec.json.decode(path.read_bytes(), type=OneCore)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        from nodewise.diagnose.machine.memory import (
            LARGEST_BYTES,
            cache_of_one_core,
            fresh_pages,
            stream,
        )
        from nodewise.diagnose.machine.touching import seconds_of_a_mark

        core = OneCore(
            stream(LARGEST_BYTES, 1, 0.4).value,
            fresh_pages(0.3).value,
            cache_of_one_core(0.1),
            seconds_of_a_mark(),
        )
        with contextlib.suppress(OSError):
            _write(path, core)
    known = stored(folder)
    if known is not None and known.page_fault is not None and 1 in known.memory.get("DRAM", {}):
        return core._replace(
            stream=known.memory["DRAM"][1].value, fresh_pages=known.page_fault.value
        )
    return core


def cache_file(folder: Path) -> Path:
    """Where the ceilings of this machine are kept: another identity is another file."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "nodewise" / f"machine-{key(identity(folder))}.json"


def measure(folder: Path, peer: str = "") -> Machine:
    """Run the probes in a process of their own, whose BLAS uses one thread."""
    # -P: a module in the folder where the user happens to be is not ours
    command = [sys.executable, "-P", "-m", "nodewise.diagnose.machine.probe_all", str(folder)]
    try:
        done = subprocess.run(
            [*command, peer] if peer else command,
            env={**os.environ, **_ONE_THREAD},
            capture_output=True,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"The probes took longer than {_MOST_SECONDS} s.", "Try on a machine with less load."
        ) from None
    if done.returncode != 0:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise RunError(f"The probes failed: {last}", "Check the folder and the peer.")
    return msgspec.json.decode(done.stdout, type=Machine)


def _write(path: Path, found: Machine | OneCore) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, msgspec.json.encode(found))
