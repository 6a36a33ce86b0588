"""Builds the interposer for one MPI with that MPI's own compiler, once, and keeps it."""

import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.measure.mpi.libraries import Mpi

_SOURCES = ("interposer.c", "calls.h", "counted.h", "fortran.h")
_COMPILE = ("-O2", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-c")
_SECONDS = 120.0


def interposer_for(mpi: Mpi) -> Path:
    """The library to preload into programs of this MPI."""
    if mpi.compiler is None:
        raise _no_compiler(mpi, "mpicc with its headers is not installed")
    target = _folder() / f"interposer-{_key(mpi)}.so"
    if not target.exists():
        _build(mpi, mpi.compiler, target)
    return target


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nodewise" / "mpi"


def _key(mpi: Mpi) -> str:
    """Another source, compiler or MPI is another library."""
    digest = hashlib.sha256(f"{mpi.title} {mpi.compiler} {_COMPILE}".encode())
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:16]


def _build(mpi: Mpi, compiler: str, target: Path) -> None:
    """Compile and link; nothing of libmpi is linked, as the program brings its own."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            compiled, linked = Path(place, "interposer.o"), Path(place, "interposer.so")
            source = Path(__file__).with_name(_SOURCES[0])
            _call(mpi, compiler, *_COMPILE, str(source), "-o", str(compiled))
            flags = ("-shared", "-Wl,--no-undefined", "-ldl", "-lpthread", "-lm")
            _call(mpi, "cc", str(compiled), *flags, "-o", str(linked))
            linked.replace(target)
    except OSError as error:
        raise RunError(
            f"Cannot write {target.parent}: {error.strerror or error}.",
            "Set XDG_CACHE_HOME to a folder that you can write.",
        ) from None


def _call(mpi: Mpi, *words: str) -> None:
    # The wheel's mpicc calls `cc`, wherever it was built.
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
    except FileNotFoundError:
        raise _no_compiler(mpi, f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise _no_compiler(mpi, f"{words[0]} does not end") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines() or [shlex.join(words)]
        telling = next((line for line in lines if "error" in line), lines[0])
        raise _no_compiler(mpi, telling.strip())


def _no_compiler(mpi: Mpi, why: str) -> RunError:
    package = "libopenmpi-dev" if mpi.vendor == "Open MPI" else "libmpich-dev"
    return RunError(
        f"Cannot time MPI calls in programs of {mpi.title}: {why}.",
        f"Install a C compiler and the headers (Debian: apt-get install gcc {package}), or set "
        "record = false under the engine's table: only the wall time is then measured.",
    )
