"""Study folders: append-only and safe under kill -9 at any moment.

study.toml   the spec as run          runs.jsonl   one line per run, synced to disk
ranks/       step stamps, one file per run       lock   held by the one process that measures
outputs/     what each run printed, its beginning and its end
"""

import errno
import fcntl
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nodewise.base.errors import DataError, RunError
from nodewise.study import files, json_lines
from nodewise.study.question import Tables
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime, Spec, parse_file, parse_spec, scale_unit_in
from nodewise.study.study import Fact, Run, Study
from nodewise.study.workload import devices_per_node, on_one_job

SPEC, RUNS, RANKS, LOCK = "study.toml", "runs.jsonl", "ranks", "lock"
OUTPUTS = "outputs"


def is_study(folder: Path) -> bool:
    """Whether a folder holds a study."""
    return os.path.lexists(folder / SPEC)


def create(folder: Path, spec_text: str) -> None:
    """Make a study folder, or check that it was made for the same spec.

    More scales and another number of rounds continue a study, and a new question changes no
    measurement; the newer spec is then kept.
    """
    spec_file = folder / SPEC
    try:
        files.own_folder(folder / RANKS)
        if not is_study(folder):
            files.replace(spec_file, spec_text)
            return
        kept = files.read_own(spec_file).decode()
    except files.NotRegularError:
        raise
    except UnicodeDecodeError:
        raise RunError(f"{spec_file} is not text.", "Name another folder with -o.") from None
    except OSError as error:
        raise RunError(
            f"Cannot write to {folder}: {(error.strerror or 'it fails').lower()}.",
            "Name a folder that you can write to with -o.",
        ) from None
    if not parse_spec(spec_text).continues(parse_spec(kept)):
        raise RunError(
            f"{folder} holds a study of another measurement.",
            "Scales, rounds and the question may change, but not the job. Name another "
            "folder with -o, or delete this one to measure again.",
        )
    if kept != spec_text and not is_running(folder):
        files.replace(spec_file, spec_text)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the study for this process; a second one is refused."""
    with files.open_to_change(folder / LOCK) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise RunError(
                    f"Another process is measuring {folder}.", "Wait for it, or stop it first."
                ) from None
            raise RunError(
                f"Cannot lock {folder}: {(error.strerror or 'it fails').lower()}.",
                "Name a folder on a file system with locks (NFS: a mount without nolock) with -o.",
            ) from None
        json_lines.drop_torn_line(folder / RUNS)
        yield


def is_running(folder: Path) -> bool:
    """Whether a process is measuring the study, as far as this system tells.

    The kernel's list is read: trying the lock could refuse a process that begins just then.
    """
    try:
        inode = (folder / LOCK).stat().st_ino
        held = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return False
    # "1: FLOCK ADVISORY WRITE 4711 fd:00:1234567 0 EOF"; some file systems name another device
    return any(" FLOCK " in line and f":{inode} " in line for line in held)


def append(folder: Path, run: Run) -> None:
    """Add a run; when this returns it is on the disk. Facts that are not finite are left out."""
    known = {"facts": _finite(run.facts), "provenance": _finite(run.provenance)}
    json_lines.append(folder / RUNS, msgspec.structs.replace(run, **known))


def _finite(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {
        name: value
        for name, value in facts.items()
        if not isinstance(value, float) or math.isfinite(value)
    }


def load(folder: Path) -> Study:
    """The study of a folder, with its spec."""
    try:
        spec, asked = parse_file(files.read_own(folder / SPEC).decode())
        runs, torn = json_lines.read(folder / RUNS, Run)
    except OSError as error:
        name = error.filename or folder
        raise DataError(
            f"Cannot read the study {folder}: {name}: {(error.strerror or str(error)).lower()}.",
            "Name a study folder; each of its files is a regular file.",
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"Cannot read the study {folder}: {error}.", "Name a study folder."
        ) from None
    notes = ("The last line of runs.jsonl was cut off and is not used.",) if torn else ()
    study = Study(
        name=spec.name,
        regime="strong",
        runs=on_one_job(tuple(runs)),
        notes=notes,
        spec=spec,
        asked=asked,
        scale_unit=_unit(asked, spec, runs),
    )
    shown: Regime = (study.seen and study.seen.regime) or "strong"
    return msgspec.structs.replace(study, regime=shown).in_regime(asked.get("regime"))


def _unit(asked: Tables, spec: Spec, runs: Sequence[Run]) -> ScaleUnit:
    """What K counts: as the file says, else accelerators where every rank was seen to have one.

    Ranks of MPI where the engine says how many share a node.
    """
    stated = scale_unit_in(asked)
    ranks = spec.engine.tables.get("mpi", {}).get("ranks_per_node")
    if ranks is not None and spec.engine.name == "mpi" and not {"unit", "per_node"} & {*asked}:
        return ScaleUnit(unit="rank", per_node=ranks)
    devices = None if "unit" in asked or "per_node" in asked else devices_per_node(runs)
    return stated if devices is None else ScaleUnit(unit="GPU", per_node=devices)


def keep_stamps(folder: Path, run: Run, source: Path) -> None:
    """Keep the binary stamps of a run's ranks, one file per run."""
    import shutil

    target = files.own_folder(folder / RANKS) / f"{run.label}.bin"
    with files.replacing(target) as file:
        for rank in run.ranks:
            stamps = source / f"rank-{rank.rank}.bin"
            if stamps.exists():
                with files.open_own(stamps) as one:
                    shutil.copyfileobj(one, file)


def keep_output(folder: Path, run: Run, output: bytes) -> None:
    """Keep what a run printed; nothing is written for a silent one."""
    if output:
        files.replace(files.own_folder(folder / OUTPUTS) / f"{run.label}.log", output)
