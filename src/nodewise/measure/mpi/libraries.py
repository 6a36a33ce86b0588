"""Which MPIs are on this machine, and which of them a program is linked with."""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

_SECONDS = 20.0  # for a question to a program
# Debian has several MPIs in one folder, under names with their own ending.
_LAUNCHERS = ("mpiexec", "mpirun", "mpiexec.openmpi", "mpiexec.hydra", "mpiexec.mpich")
_COMPILERS = ("mpicc", "mpicc.openmpi", "mpicc.mpich")
STARTERS = {*_LAUNCHERS, "mpirun.openmpi", "mpirun.mpich", "srun", "prun", "aprun", "jsrun"}
_LIBRARY = re.compile(r"lib(?:mpi|mpich|mpi_abi)\.so[.\d]*$")
_PYTHON = re.compile(r"python[\d.]*")
_SCRIPT_BYTES = 65536  # of a shell script, in which its program is looked for
_LONGEST_NAME = 4096
_OPEN_MPI = re.compile(r"libmpi\.so\.(?:20|40|80)")

# What a Python program would load: mpi4py has a module for each MPI, and wheels bring their own.
_ASK_PYTHON = """
import pathlib, re, sys
try:
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
except (ImportError, RuntimeError):
    found = sorted(pathlib.Path(sys.prefix, "lib").glob("libmpi*.so*"))
else:
    maps = pathlib.Path("/proc/self/maps").read_text()
    found = sorted({line.split()[-1] for line in maps.splitlines() if ".so" in line})
known = re.compile(r"/lib(mpi|mpich|mpi_abi)\\.so[.\\d]*$")
names = [str(path) for path in found if known.search(str(path))]
print(names[-1] if names else "")
"""


class Mpi(msgspec.Struct, frozen=True, kw_only=True):
    """One MPI on this machine."""

    vendor: str  # Open MPI or MPICH, which all that share its interface count as
    version: str
    launcher: str
    compiler: str | None

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.vendor} {self.version}"


def installed() -> list[Mpi]:
    """The MPIs whose launcher is beside this interpreter or on the PATH, in that order."""
    found: dict[tuple[str, str], Mpi] = {}
    for folder in _folders():
        for name in _LAUNCHERS:
            path = folder / name
            if not os.access(path, os.X_OK):
                continue
            vendor, version = launcher_version(str(path))
            key = (vendor, str(path.resolve().parent))
            if vendor and key not in found:
                compiler = _compiler(folder, vendor)
                found[key] = Mpi(
                    vendor=vendor, version=version, launcher=str(path), compiler=compiler
                )
    return list(found.values())


def _folders() -> list[Path]:
    named = [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    # Of a folder that is closed to this user, even is_dir() would be an error.
    return list(dict.fromkeys(folder for folder in named if os.access(folder, os.X_OK)))


@functools.cache
def launcher_version(launcher: str) -> tuple[str, str]:
    """The vendor and the version of a launcher; empty if it does not say."""
    text = _output(launcher, "--version")
    # Under its second name, mpirun.openmpi, it gives that of its runtime.
    if found := re.search(r"\((?:Open MPI|OpenRTE|PRRTE)\)\s+(\S+)", text):
        return "Open MPI", found[1]
    if re.search(r"HYDRA|MPICH|Intel\(R\) MPI|MVAPICH", text):
        version = re.search(r"Version:?\s+(\d\S*)", text)
        return "MPICH", version[1] if version else ""
    return "", ""


def _compiler(folder: Path, vendor: str) -> str | None:
    """The mpicc beside a launcher that has the headers of the same MPI."""
    for name in _COMPILERS:
        path = shutil.which(folder / name)
        if path is not None and _vendor_of_compiler(path) == vendor:
            return path
    return None


@functools.cache
def _vendor_of_compiler(compiler: str) -> str:
    text = _output(compiler, "-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null")
    if "OMPI_MAJOR_VERSION" in text:
        return "Open MPI"
    return "MPICH" if re.search(r"define (MPICH_VERSION|MPI_VERSION) ", text) else ""


def library_of(command: Sequence[str], directory: Path) -> Path | None:
    """The libmpi of the first program in a command that has one; None: not known.

    The command may begin with a launcher, whose own libraries do not count.
    """
    for word in command:
        if " " in word and (found := _library_of_words(shell_words(word), directory)):
            return found  # sh -c "..."
        if Path(word).name in STARTERS or len(word) > _LONGEST_NAME:
            continue
        path = shutil.which(directory / word if "/" in word else word)
        if path is not None and (found := _library_of_program(Path(path), directory)):
            return found
    return None


def linked_mpi(program: str, directory: Path) -> Path | None:
    """The libmpi that a program itself is linked with; None for a script."""
    return _linked(Path(path)) if (path := _binary(program, directory)) else None


def is_binary(program: str, directory: Path) -> bool:
    """Whether a program is machine code and not a script."""
    return _binary(program, directory) is not None


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter."""
    return _PYTHON.fullmatch(Path(program).name) is not None


def _binary(program: str, directory: Path) -> str | None:
    if len(program) > _LONGEST_NAME or "\0" in program:
        return None
    path = shutil.which(directory / program if "/" in program else program)
    if path is None:
        return None
    return path if _head(Path(path), 4) == b"\x7fELF" else None


def starter_of(command: Sequence[str]) -> str | None:
    """The MPI launcher that a command begins with."""
    first = next(iter(command), "")
    return shutil.which(first) if Path(first).name in STARTERS else None


def starts_mpi(command: Sequence[str]) -> bool:
    """Whether a command begins with the launcher of an MPI; srun starts other programs, too."""
    starter = starter_of(command)
    return starter is not None and launcher_version(starter)[0] != ""


def names_hosts(words: Sequence[str]) -> bool:
    """Whether a command or options of a launcher name hosts: --host, -H, -machinefile, -f hosts."""
    return any(word == "-H" or "host" in word or "machinefile" in word for word in words)


def vendor_of(library: Path) -> str:
    """Whose a libmpi is, by its name: the number at its end is that of its interface."""
    return "Open MPI" if _OPEN_MPI.search(library.name) else "MPICH"


def _library_of_program(path: Path, directory: Path) -> Path | None:
    head = _head(path, _SCRIPT_BYTES)
    if head.startswith(b"\x7fELF") and not _PYTHON.fullmatch(path.name):
        return _linked(path)
    interpreter = _interpreter_of(path, head)
    if interpreter is not None:
        return _library_of_python(interpreter)
    if head.startswith(b"#!") and b"sh" in head.partition(b"\n")[0]:
        text = head.partition(b"\n")[2].decode(errors="replace")
        return _library_of_words(shell_words(text), directory)
    return None


def _head(path: Path, size: int) -> bytes:
    """The first bytes of a file; none if it may be executed but not read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def shell_words(text: str) -> list[str]:
    """The words of a shell script, without the signs that end a command or quote a word.

    >>> shell_words("if true; then exec './app' -x; fi")
    ['if', 'true', 'then', 'exec', './app', '-x', 'fi']
    """
    return [word for part in text.split() if (word := part.strip("();&|'\""))]


def _library_of_words(words: Sequence[str], directory: Path) -> Path | None:
    """Of the first binary with one that a shell script names."""
    for word in words:
        path = None if Path(word).name in STARTERS else _binary(word, directory)
        if path is not None and (found := _linked(Path(path))) is not None:
            return found
    return None


def _interpreter_of(path: Path, head: bytes) -> str | None:
    """The Python that runs a program, if it is one of Python."""
    if _PYTHON.fullmatch(path.name):
        return str(path)
    line = head.partition(b"\n")[0].decode(errors="replace")
    if not line.startswith("#!") or "python" not in line:
        return None
    words = line[2:].split()
    return shutil.which(words[-1] if words[0].endswith("/env") else words[0])


@functools.cache
def _library_of_python(interpreter: str) -> Path | None:
    """What mpi4py loads there, else the library that a wheel brought."""
    said = _output(interpreter, "-c", _ASK_PYTHON).strip().splitlines()
    return Path(said[-1]) if said and said[-1].startswith("/") else None


@functools.cache
def _linked(program: Path) -> Path | None:
    for line in _output("ldd", str(program)).splitlines():
        name, _, rest = line.strip().partition(" => ")
        if _LIBRARY.search(name) and rest.startswith("/"):
            return Path(rest.split(" (")[0])
    return None


def _output(*words: str) -> str:
    """What a program prints; nothing if it cannot be asked."""
    quiet = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_SECONDS, env=quiet,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def described() -> Iterator[tuple[Mpi, str]]:
    """Every MPI with what is missing to look into its programs; empty: nothing."""
    for one in installed():
        yield one, "" if one.compiler else "its mpicc or its headers"
