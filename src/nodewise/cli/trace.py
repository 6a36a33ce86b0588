"""`nodewise trace`, and how a job's trace files are read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from nodewise.base.errors import DataError, SpecError
from nodewise.cli.options import Decorator, emit, json_option, shared, write

if TYPE_CHECKING:
    from nodewise.explain.trace.breakdown import Digest, JobBreakdown, Window
    from nodewise.report.text.findings import Report
    from nodewise.study.trace import RankTrace, Unreadable

Broken = Literal["skip", "refuse", "use"]

_SMALL_BYTES = 4 * 2**20  # packed; below, starting processes takes longer than reading
_SQLITE = b"SQLite format 3\0"

reading_options = shared(
    click.option(
        "--window",
        type=click.Choice(["all", "hta", "common"]),
        default="all",
        show_default=True,
        help="all: each rank from its first work to its last; hta: as Holistic Trace Analysis, "
        "without the last step; common: from the first work of any rank to the last.",
    ),
    click.option(
        "--collective-kernels",
        default="",
        metavar="PATTERN",
        help="More kernels that communicate, beside NCCL's, as a regular expression.",
    ),
    click.option(
        "--jobs", type=click.IntRange(1, 256), help="Processes to read with; default: the cores."
    ),
    click.option(
        "--engine",
        default="",
        metavar="ray|dask[://HOST:PORT]",
        help="Read on the workers of a cluster, which must see the files under the same paths.",
    ),
)


def broken_option(default: Broken) -> Decorator:
    """What is to be done with a file that is damaged, cut off or no trace at all."""
    return click.option(
        "--broken",
        type=click.Choice(["skip", "refuse", "use"]),
        default=default,
        show_default=True,
        help="A damaged file: leave its rank out, refuse them all, or use what was read of it.",
    )


@click.command("trace")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@reading_options
@broken_option("skip")
@click.option(
    "--part",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was read, some kilobytes a rank; parts of a job are merged by naming them.",
)
@json_option
def command(
    files: tuple[Path, ...],
    window: Any,
    collective_kernels: str,
    jobs: int | None,
    engine: str,
    broken: Broken,
    part: Path | None,
    as_json: bool,
) -> None:
    """Where the time of one job went, from what its profiler wrote: a file for each rank.

    FILES are traces of torch.profiler (.json, .json.gz; GPU, or CPU with gloo), exports of Nsight
    Systems (.sqlite), parts (.digests) or folders of them. Nothing is run again.

    \b
    Examples:
      nodewise trace traces8/
      nodewise trace rank0.json.gz rank1.json.gz --window hta --json
      nodewise trace node0/ --part node0.digests; nodewise trace node*.digests
      nodewise trace traces4096/ --engine ray://head:10001
    """
    from nodewise.explain.trace.breakdown import break_down

    digests = read_digests(trace_paths(files), window, collective_kernels, jobs, engine)
    check_broken(digests, broken)
    if part is not None:
        from nodewise.explain.trace.digest_format import pack

        write(pack(digests, window, collective_kernels), part)
    job = break_down(digests, window, use_damaged=broken == "use")
    emit(job, as_json, _report)


def _report(job: "JobBreakdown") -> "Report":
    from nodewise.report.text.trace import job_report  # with all tables, which --json does not need

    return job_report(job)


def trace_paths(files: Sequence[Path]) -> list[Path]:
    """The trace files that the arguments name; a folder stands for those in it."""
    from nodewise.importers.profilers.kineto import trace_files

    paths = []
    for file in files:
        found = trace_files(file)
        if not found:
            raise DataError(
                f"{file} holds no traces.", "Name a folder of .json, .json.gz or .sqlite files."
            )
        paths += found
    return list(dict.fromkeys(paths))


def read_digests(
    paths: Sequence[Path],
    window: "Window",
    collective_kernels: str,
    jobs: int | None = None,
    engine: str = "",
) -> "list[Digest | Unreadable]":
    """What each file comes to, read by several processes or a cluster where that is worth it."""
    import re

    try:
        re.compile(collective_kernels)
    except re.error as error:
        raise SpecError(
            f"--collective-kernels is no regular expression: {error}.",
            "Write for example 'multimem|cross_device_reduce'.",
        ) from None
    if engine:
        from nodewise.cli.trace_clusters import map_on_cluster

        everywhere = [(path.absolute(), window, collective_kernels) for path in paths]
        return _apart(_flat(map_on_cluster(engine, _digest_file, everywhere)))
    tasks = [(path, window, collective_kernels) for path in paths]
    workers = min(jobs or os.cpu_count() or 1, len(paths))
    if workers == 1 or (jobs is None and sum(map(_size, paths)) < _SMALL_BYTES):
        return _apart(_flat([_digest_file(task) for task in tasks]))
    return _apart(_flat(_read_in_processes(tasks, workers)))


def _read_in_processes(tasks: "Sequence[_Task]", workers: int) -> "list[_Digests]":
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # What the readers need is loaded here once, so that they share it.
    import nodewise.explain.trace.breakdown
    import nodewise.importers.profilers.kineto  # noqa: F401

    try:
        with ProcessPoolExecutor(workers) as pool:
            return list(pool.map(_digest_file, tasks))
    except BrokenProcessPool:
        raise DataError(
            "A process that read traces was killed; most often the memory ran out.",
            "Read fewer at once: --jobs 1.",
        ) from None


_Task = tuple[Path, "Window", str]
_Digests = list["Digest | Unreadable"]


def _digest_file(task: _Task) -> "_Digests":
    """One file, read and added up; an export of Nsight may hold several ranks."""
    from nodewise.explain.trace.breakdown import digest
    from nodewise.explain.trace.digest_format import MAGIC, unpack
    from nodewise.study.trace import Unreadable

    path, window, collective_kernels = task
    try:
        beginning = _beginning(path)
        if beginning.startswith(MAGIC):
            return unpack(path.read_bytes(), window, collective_kernels)
        traces = _read_file(path, collective_kernels, beginning.startswith(_SQLITE))
        return [digest(trace, window) for trace in traces]
    except DataError as error:
        reason = error.what.removeprefix(f"{path} ").removeprefix("is ").rstrip(".")
        return [Unreadable(file=str(path), reason=reason, rank=_rank_of_name(path))]
    except SpecError as error:
        raise SpecError(f"{path}: {error.what}", error.fix) from None
    except MemoryError:
        return [Unreadable(file=str(path), reason="the memory ran out", rank=_rank_of_name(path))]


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""  # the reader says what is wrong


def _read_file(path: Path, collective_kernels: str, is_database: bool) -> "list[RankTrace]":
    from dataclasses import replace

    from nodewise.importers.profilers import kineto

    if is_database:
        from nodewise.importers.profilers import nsys

        return nsys.read(path, collective_kernels)
    trace = kineto.read(path, collective_kernels)
    return [trace if trace.rank is not None else replace(trace, rank=_rank_of_name(path))]


def _rank_of_name(path: Path) -> int | None:
    from nodewise.importers.profilers.kineto import rank_of_name

    return rank_of_name(path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _flat(lists: "Sequence[_Digests]") -> "_Digests":
    return [one for digests in lists for one in digests]


def _apart(digests: "_Digests") -> "_Digests":
    """A rank told by two files counts once; the second one says so."""
    from dataclasses import replace

    from nodewise.study.trace import Unreadable

    seen: dict[int, str] = {}
    kept: _Digests = []
    for one in digests:
        if isinstance(one, Unreadable) or one.rank is None or one.rank not in seen:
            kept.append(one)
        else:
            kept.append(replace(one, damage=f"rank {one.rank} is also in {seen[one.rank]}"))
        if not isinstance(one, Unreadable) and one.rank is not None:
            seen.setdefault(one.rank, one.file)
    return kept


def check_broken(digests: "_Digests", broken: Broken) -> None:
    """Refuse damaged files where asked to, and a set of which nothing is left."""
    from nodewise.study.trace import Unreadable

    faults = [
        (one.file, one.reason if isinstance(one, Unreadable) else one.damage) for one in digests
    ]
    faults = [(file, fault) for file, fault in faults if fault]
    if faults and broken == "refuse":
        file, fault = faults[0]
        more = f" ({len(faults)} files are broken)" if len(faults) > 1 else ""
        raise DataError(
            f"{_named(file, fault)}{more}.",
            "Record it again, or leave its rank out with --broken skip.",
        )
    left = [
        one
        for one in digests
        if not isinstance(one, Unreadable) and (broken == "use" or not one.damage)
    ]
    if not left:
        raise DataError(
            f"No trace could be read whole: {_named(*faults[0])}.",
            "Hand in what torch.profiler wrote; --broken use takes what there is of a damaged one.",
        )


def _named(file: str, fault: str) -> str:
    """The fault with its file, unless it names it."""
    return fault if file in fault else f"{file}: {fault}"


def missing_ranks(job: "JobBreakdown") -> str:
    """The ranks that no file tells of, in words."""
    ranks = [str(rank) for rank in job.missing_ranks]
    return ", ".join(ranks if len(ranks) <= 8 else [*ranks[:7], f"... {ranks[-1]}"])
