"""What an MPI program gets with it: the interposer of its MPI, by the environment."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.mpi import libraries
from nodewise.measure.mpi.build import interposer_for
from nodewise.measure.mpi.libraries import Mpi

_LAUNCH = "nodewise.measure.launch"
_STANDARD = "libmpi_abi"  # its handles are those of no other MPI
# While they wait inside MPI, ranks that share cores sleep: they would take them from each other.
# MPICH has collectives in shared memory, from the sixth on, that spin and never yield: with 8 ranks
# on 2 cores each took 8 to 30 ms. It gets those that are made of messages.
_PATIENT = {
    "NODEWISE_MPI_PATIENT": "1",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "1000000000",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
# Open MPI asks root to confirm; version 5 starts its ranks by PRRTE.
_AS_ROOT = {
    f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
}


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranks of one program are started."""

    launcher: str
    vendor: str  # of the launcher; empty for one that starts any MPI, such as srun
    version: str = ""
    library: Path | None = None  # that the program is linked with; None: not known
    mpi: Mpi | None = None  # that the interposer is built for


def launch_of(command: Sequence[str], directory: Path, wanted: str | None) -> Launch:
    """The launcher that was asked for, else the one of the MPI that the program is linked with."""
    library = libraries.library_of(command, directory)
    vendor = libraries.vendor_of(library) if library else ""
    here = libraries.installed()
    own = _nearest([one for one in here if one.vendor == vendor], library)
    if wanted is not None:
        return _asked_for(wanted, command, directory, library, own)
    if library is not None and own is None:
        raise RunError(
            f"{_program(command, directory)} is linked with {vendor} ({library}), but the mpiexec "
            f"of {vendor} is not installed.",
            "Install it, or name it: launcher = '/path/mpiexec' under [engine.mpi].",
        )
    chosen = own or next(iter(here), None)
    if chosen is None:
        raise RunError(
            "mpiexec is not installed.", "Install one without root: pip install 'nodewise[mpi]'."
        )
    return Launch(
        launcher=chosen.launcher, vendor=chosen.vendor, version=chosen.version, library=library,
        mpi=chosen,
    )  # fmt: skip


def _asked_for(
    wanted: str, command: Sequence[str], directory: Path, library: Path | None, own: Mpi | None
) -> Launch:
    import shutil

    path = shutil.which(wanted)
    if path is None:
        raise RunError(
            f"engine.mpi.launcher: no such program: {wanted}.",
            "Name one that nodewise doctor lists, or leave it out.",
        )
    vendor, version = libraries.launcher_version(path)
    better = f"launcher = '{own.launcher}'" if own else "the mpiexec of that MPI"
    fix = f"Write {better} under [engine.mpi], or leave the launcher out."
    _check_vendors(path, command, directory, library, fix)
    return Launch(launcher=path, vendor=vendor, version=version, library=library, mpi=own)


def check_own_launcher(command: Sequence[str], directory: Path) -> None:
    """A command that begins with a launcher needs the one of its program's MPI."""
    starter = libraries.starter_of(command)
    mpi, library = own_launch(command, directory)
    if starter is not None:
        better = mpi.launcher if mpi else "the launcher of that MPI"
        _check_vendors(starter, command, directory, library, f"Begin the command with {better}.")


def _check_vendors(
    path: str, command: Sequence[str], directory: Path, library: Path | None, fix: str
) -> None:
    """The launcher and the program must be of one MPI, where both are known."""
    vendor, version = libraries.launcher_version(path)
    linked = libraries.vendor_of(library) if library else ""
    if library is not None and library != Path(path) and vendor and vendor != linked:
        raise RunError(
            f"{_program(command, directory)} is linked with {linked} ({library}), and {path} is of "
            f"{vendor} {version}: each rank would run in its own MPI world.",
            fix,
        )


def check_python(command: Sequence[str], directory: Path, library: Path | None) -> None:
    """A Python program without mpi4py could be K copies of the same job: it must report itself."""
    python = next(iter(command), "")
    if library is None and libraries.is_python(python) and not uses_probe(command, directory):
        raise RunError(
            f"{python} has no mpi4py, and nothing else would show whether its K ranks are one job.",
            "Install mpi4py there, or set record = false under [engine.mpi] if it has another MPI.",
        )


def _nearest(candidates: Sequence[Mpi], library: Path | None) -> Mpi | None:
    """The MPI whose folder the library is in, else the first."""
    for one in candidates:
        home = Path(one.launcher).parent.parent.resolve()
        if library is not None and str(home) != "/usr" and library.resolve().is_relative_to(home):
            return one
    elsewhere = [one for one in candidates if Path(one.launcher).parent.parent == Path("/usr")]
    return next(iter([*elsewhere, *candidates]), None)


def _program(command: Sequence[str], directory: Path) -> str:
    """The name of the MPI program in a command, else of what the launcher starts."""
    words = [part for word in command for part in libraries.shell_words(word)]
    named = [word for word in words if word[:1] != "-" and not word.isdigit()]
    others = [word for word in named if Path(word).name not in libraries.STARTERS]
    linked = (word for word in others if libraries.linked_mpi(word, directory))
    return Path(next(linked, next(iter(others), command[0]))).name


def interposed(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], mpi: Mpi | None,
    library: Path | None,
) -> dict[str, str]:  # fmt: skip
    """The variables that put the interposer into a program of this MPI; none if it has none."""
    if mpi is None or (library is not None and _STANDARD in library.name):
        return {}
    if uses_probe(command, directory):
        return {}
    if library is None and (mpi.compiler is None or not libraries.is_binary(command[0], directory)):
        return {}  # what a script starts may be of another MPI
    path = str(interposer_for(mpi))
    others = environment.get("LD_PRELOAD", "")
    return {
        "LD_PRELOAD": f"{path}:{others}" if others else path,
        "NODEWISE_MPI_GATE": "1",
    }


def own_launch(command: Sequence[str], directory: Path) -> tuple[Mpi | None, Path | None]:
    """The MPI and the libmpi of a command that starts its own ranks, as far as it shows."""
    library = libraries.library_of(command, directory)
    starter = libraries.starter_of(command)
    vendor = libraries.vendor_of(library) if library else ""
    if starter is not None and not vendor:  # a script behind a launcher
        vendor = libraries.launcher_version(starter)[0]
        library = Path(starter) if vendor else None
    return _nearest(
        [one for one in libraries.installed() if one.vendor == vendor], library
    ), library


def uses_probe(command: Sequence[str], directory: Path) -> bool:
    """Whether a program reports by itself: it names nodewise, or goes through our launcher."""
    if _LAUNCH in command:
        return True
    for word in command:
        path = directory / word
        if path.suffix == ".py" and path.is_file():
            return "nodewise" in path.read_text(errors="replace")
    return False


def patience() -> dict[str, str]:
    """For ranks that share cores."""
    return dict(_PATIENT)


def as_root() -> dict[str, str]:
    """What Open MPI wants to see before it runs anything as root."""
    return dict(_AS_ROOT)


def of_open_mpi(command: Sequence[str], folder: Path) -> dict[str, str]:
    """It may run as root, and its temporary files go with the folder of the run, also if killed.

    Not on other hosts, which do not have that folder.
    """
    elsewhere = libraries.names_hosts(command)
    place = {} if elsewhere else {"OMPI_MCA_orte_tmpdir_base": str(folder)}
    return {**(as_root() if os.geteuid() == 0 else {}), **place}
