"""The trace files of one job, one per rank: read in this process, in several, or on a cluster."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from nodewise.base.errors import DataError, SpecError
from nodewise.importers import registry
from nodewise.importers.profilers import kineto
from nodewise.study.files import read_regular
from nodewise.study.trace import Digest, RankTrace, TraceWindow, Unreadable

_SMALL_BYTES = 4 * 2**20  # packed; below, starting processes takes longer than reading

Broken = Literal["skip", "refuse", "use"]
Summarise = Callable[[RankTrace, TraceWindow], Digest]


class TraceReading(NamedTuple):
    """How the trace files of a job are read."""

    window: TraceWindow = "all"
    collective_kernels: str = ""  # more kernels that communicate, as a regular expression
    jobs: int | None = None  # processes; None: one per core
    engine: str = ""  # ray or dask, with its address
    broken: Broken = "refuse"  # what happens to a damaged file


class _Task(NamedTuple):
    path: Path
    summarise: Summarise
    window: TraceWindow
    collective_kernels: str


def read_digests(
    paths: Sequence[Path], summarise: Summarise, reading: TraceReading
) -> list[Digest | Unreadable]:
    """The digest of each rank, in the order of the files."""
    try:
        re.compile(reading.collective_kernels)
    except re.error as error:
        raise SpecError(
            f"--collective-kernels is not a regular expression: {error}.",
            "Write for example 'multimem|cross_device_reduce'.",
        ) from None
    tasks = [_Task(path, summarise, reading.window, reading.collective_kernels) for path in paths]
    workers = min(reading.jobs or os.cpu_count() or 1, len(paths))
    if reading.engine:
        from nodewise.importers.profilers.clusters import map_on_cluster

        tasks = [task._replace(path=task.path.absolute()) for task in tasks]
        found = map_on_cluster(reading.engine, _digest_file, tasks)
    elif workers == 1 or (reading.jobs is None and sum(map(_size, paths)) < _SMALL_BYTES):
        found = [_digest_file(task) for task in tasks]
    else:
        found = _read_in_processes(tasks, workers)
    ranks = _mark_duplicates([one for file in found for one in file])
    _check_damage(ranks, reading.broken)
    return ranks


def _read_in_processes(tasks: Sequence[_Task], workers: int) -> list[list[Digest | Unreadable]]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    try:
        with ProcessPoolExecutor(workers) as pool:
            return list(pool.map(_digest_file, tasks))
    except BrokenProcessPool:
        raise DataError(
            "A process that read traces was killed, most likely because memory ran out.",
            "Read fewer at once: --jobs 1.",
        ) from None


def _digest_file(task: _Task) -> list[Digest | Unreadable]:
    """The digests in one file; an Nsight export may hold several ranks."""
    path = task.path
    try:
        form = registry.detect(path)
        if form is None or form.gives != "trace":  # the reader says what is wrong with it
            form = registry.by_name("kineto")
        if form.name == "digests":
            packed: list[Digest | Unreadable]
            packed = form.read(read_regular(path), task.window, task.collective_kernels)
            return packed
        found = form.read(path, task.collective_kernels)
        traces = found if isinstance(found, list) else [found]
        return [task.summarise(_with_rank(trace, path), task.window) for trace in traces]
    except DataError as error:
        reason = error.what.removeprefix(f"{path} ").removeprefix("is ").rstrip(".")
    except MemoryError:
        reason = "the memory ran out"
    except SpecError as error:
        raise SpecError(f"{path}: {error.what}", error.fix) from None
    return [Unreadable(file=str(path), reason=reason, rank=kineto.rank_of_name(path))]


def _with_rank(trace: RankTrace, path: Path) -> RankTrace:
    return trace if trace.rank is not None else replace(trace, rank=kineto.rank_of_name(path))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _mark_duplicates(ranks: Sequence[Digest | Unreadable]) -> list[Digest | Unreadable]:
    """A rank that is in two files counts once; the second file is marked as damaged."""
    first: dict[int | None, str] = {}
    marked: list[Digest | Unreadable] = []
    for one in ranks:
        if isinstance(one, Digest) and one.rank in first:
            one = replace(one, damage=f"rank {one.rank} is also in {first[one.rank]}")
        elif isinstance(one, Digest) and one.rank is not None:
            first[one.rank] = one.file
        marked.append(one)
    return marked


def _check_damage(ranks: Sequence[Digest | Unreadable], broken: Broken) -> None:
    """Refuse damaged files where asked to, and a job of which no rank is left."""
    reasons = [
        (one.file, one.reason if isinstance(one, Unreadable) else one.damage) for one in ranks
    ]
    faults = [why if file in why else f"{file}: {why}" for file, why in reasons if why]
    if faults and broken == "refuse":
        more = f" ({len(faults)} files are broken)" if len(faults) > 1 else ""
        raise DataError(
            f"{faults[0]}{more}.", "Record it again, or leave its rank out with --broken skip."
        )
    if not any(isinstance(one, Digest) and (broken == "use" or not one.damage) for one in ranks):
        raise DataError(
            f"No trace could be read completely: {faults[0]}.",
            "Record it again; --broken use takes what can be read of a damaged one.",
        )
