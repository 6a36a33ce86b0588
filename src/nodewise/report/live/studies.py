"""The studies below a folder: where they are, how far they have got, what they say so far."""

import datetime
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Literal, NamedTuple

import msgspec

from nodewise.audit.rules import read_rules
from nodewise.base.errors import DataError, NodewiseError
from nodewise.decide.prices.lookup import question_of
from nodewise.explain.scaling import speedup_is_known
from nodewise.measure.loop import Task, missing
from nodewise.report.findings import Findings, find
from nodewise.study import store
from nodewise.study.spec import Spec
from nodewise.study.study import Run, Study

State = Literal["running", "finished", "unfinished", "failed", "damaged"]

# What the files of a study look like from outside: when they were written, and how long they are.
Stamp = tuple[tuple[int, int], ...]

_DEPTH = 2
_PAUSE_SECONDS = 60  # between two runs: the study was stopped and went on later


class Reading(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the files of one study say; it holds until they change."""

    key: str  # what the study is called in addresses
    folder: Path
    stamp: Stamp
    study: Study | None = None
    left: tuple[Task, ...] = ()  # still to be made; with a precision target, at most these
    findings: Findings | None = None
    problem: NodewiseError | None = None  # why one of those above is missing

    @property
    def name(self) -> str:
        """The name in the spec; of a study that cannot be read, that of its folder."""
        return self.study.name if self.study else self.folder.name

    @property
    def spec(self) -> Spec | None:
        """What was asked for."""
        return self.study.spec if self.study else None

    @property
    def changed(self) -> float:
        """When the newest of its files was written, in seconds since 1970."""
        return max((written for written, _ in self.stamp), default=0) / 1e9


class Snapshot(NamedTuple):
    """A study at this moment."""

    reading: Reading
    running: bool

    @property
    def state(self) -> State:
        """How far it is; failed: all runs are made, and too few scales worked to compare."""
        spec, study = self.reading.spec, self.reading.study
        if self.running:
            return "running"
        if spec is None or study is None:
            return "damaged"
        if self.reading.left:
            return "unfinished"
        return "finished" if len(study.scales) >= min(2, len(spec.scales)) else "failed"


class Studies:
    """The studies below one folder, each read again only when its files have changed."""

    def __init__(self, folder: Path) -> None:
        """Look below this folder."""
        self.folder = folder.resolve()
        self._folders: dict[str, Path] = {}
        self._readings: dict[str, Reading] = {}
        self._reading = threading.Lock()

    def all(self) -> list[Snapshot]:
        """Every study that is there now."""
        self._folders |= {_key(folder): folder for folder in _study_folders(self.folder, _DEPTH)}
        snapshots = [self._look(key) for key in list(self._folders)]
        return [one for one in snapshots if one.reading.stamp]

    def find(self, key: str) -> Snapshot | None:
        """A study by its key, which only a study that is or was there has."""
        if key not in self._folders:
            self.all()
        return self._look(key) if key in self._folders else None

    def _look(self, key: str) -> Snapshot:
        folder = self._folders[key]
        # Asked before the files are read: who ends in between has written all of them.
        running = store.is_running(folder)
        # One at a time: several pages that wait for the same run cost its reading once.
        with self._reading:
            stamp, held = _stamp(folder), self._readings.get(key)
            if held is None or held.stamp != stamp:
                held = self._readings[key] = _read(key, folder, stamp)
        return Snapshot(held, running)


@contextmanager
def damage_as_error() -> Iterator[None]:
    """Whatever a damaged study sets off becomes an error with a fix; the other studies go on."""
    try:
        yield
    except NodewiseError:
        raise
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        raise DataError(
            f"This study cannot be shown: {type(error).__name__}: {error}.",
            "Look in its runs.jsonl for an invalid run. If all are valid, please report a bug.",
        ) from error


def seconds_left(runs: Sequence[Run], left: Sequence[Task], now: datetime.datetime) -> float | None:
    """How long the runs that are left will take; None before the first run.

    Each takes as long as its scale did so far, and as long between two runs as it took so far.

    >>> second = lambda at: datetime.datetime(2030, 1, 1, 0, 0, at, tzinfo=datetime.UTC)
    >>> made = [Run(nodes=1, round=0, seconds=4.0, started=second(0).isoformat()),
    ...         Run(nodes=2, round=0, seconds=2.0, started=second(5).isoformat())]
    >>> seconds_left(made, [Task(1, 1, False), Task(2, 1, False)], second(8))
    8.0
    """
    stamped = sorted(
        ((begun, run) for run in runs if (begun := _begun(run))), key=lambda one: one[0]
    )
    if not stamped:
        return None
    gaps = [
        (after - before).total_seconds() - _lasted(run)
        for (before, run), (after, _) in pairwise(stamped)
    ]
    usual = [gap for gap in gaps if gap <= median(gaps) + _PAUSE_SECONDS]
    between = max(fmean(usual), 0.0) if usual else 0.0
    lengths: dict[tuple[int, bool], list[float]] = {}
    for _, run in stamped:
        lengths.setdefault((run.nodes, run.baseline), []).append(_lasted(run) + between)
    typical = fmean(length for lasted in lengths.values() for length in lasted)
    expected = [fmean(lengths.get((task.nodes, task.baseline), [typical])) for task in left]
    if not expected:
        return 0.0
    begun, last = stamped[-1]
    under_way = (now - begun).total_seconds() - _lasted(last) - between
    return sum(expected) - min(max(under_way, 0.0), expected[0])


def _begun(run: Run) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(run.started).astimezone(datetime.UTC)
    except ValueError:
        return None


def _lasted(run: Run) -> float:
    return run.seconds + (run.setup_seconds or 0.0)


def _study_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders that were measured into; a folder with a spec alone is not a study yet."""
    try:
        measured = store.is_study(folder) and any(
            os.path.lexists(folder / part) for part in (store.RUNS, store.RANKS)
        )
        with os.scandir(folder) as entries:
            inside = [entry.path for entry in entries if _is_inside(entry)]
    except OSError:  # not ours to read
        return
    if measured:
        yield folder
    if depth:
        for path in sorted(inside):
            yield from _study_folders(Path(path), depth - 1)


def _is_inside(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder to look into; a link to one may lead out of the folder."""
    return entry.is_dir(follow_symlinks=False) and entry.name[0] != "."


def _key(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


def _stamp(folder: Path) -> Stamp:
    """Empty when the study is gone."""
    stamps = []
    for name in (store.SPEC, store.RUNS):
        try:
            found = (folder / name).lstat()
        except OSError:
            continue
        stamps.append((found.st_mtime_ns, found.st_size))
    return tuple(stamps)


def _read(key: str, folder: Path, stamp: Stamp) -> Reading:
    reading = Reading(key=key, folder=folder, stamp=stamp)
    try:
        with damage_as_error():
            study = store.load(folder)
            reading = msgspec.structs.replace(reading, study=study)
            reading = msgspec.structs.replace(reading, left=_left(study))
            if len(study.scales) >= 2:
                findings = find(study, question_of(study.asked), read_rules())
                reading = msgspec.structs.replace(reading, findings=findings)
    except NodewiseError as problem:
        reading = msgspec.structs.replace(reading, problem=problem)
    return reading


def _left(study: Study) -> tuple[Task, ...]:
    spec = study.spec
    assert spec is not None  # that of its folder
    if spec.precision is not None:
        if speedup_is_known(study, spec.precision.speedup):
            return ()
        spec = msgspec.structs.replace(spec, rounds=spec.precision.most_rounds)
    return tuple(missing(spec, study))
