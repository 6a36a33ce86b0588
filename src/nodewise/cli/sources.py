"""Files of any format that gives runs, as the runs of a study; and the options for reading them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.cli.options import Decorator, shared

if TYPE_CHECKING:
    from nodewise.explain.trace.breakdown import JobBreakdown
    from nodewise.importers.profilers.read import Broken, TraceReading
    from nodewise.importers.registry import Files
    from nodewise.study.spec import Regime
    from nodewise.study.study import Run, Study

format_option = click.option(
    "--format", "form", default="", metavar="NAME", help="Format of the files; default: detected."
)
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


def broken_option(default: "Broken") -> Decorator:
    """What happens to a file that is damaged, cut off or no trace."""
    return click.option(
        "--broken",
        type=click.Choice(["skip", "refuse", "use"]),
        default=default,
        show_default=True,
        help="A damaged trace: leave its rank out, refuse all, or use what was read of it.",
    )


def runs_in(
    files: "Files",
    nodes: int | None,
    region: str = "",
    reading: "TraceReading | None" = None,
    accept_missing: bool = False,
) -> "list[Run]":
    """The runs in the files of one scale, or of several where the files give their K."""
    from nodewise.importers import registry

    form = files.format
    for path in files.skipped:
        click.echo(f"Left out {path}: unknown format.", err=True)
    if form.gives in ("load", "link"):
        raise registry.unsuitable(files.paths[0], form, "a record of runs")
    if region and not form.has_regions:
        raise SpecError(f"--region has no meaning for {form.title}.", "Leave it out.")
    if form.gives == "trace":
        return _runs_of_traces(files, nodes, reading, accept_missing)
    return registry.read_runs(files, nodes, region)


def _runs_of_traces(
    files: "Files", nodes: int | None, reading: "TraceReading | None", accept_missing: bool
) -> "list[Run]":
    """The steps of a job as runs; all its ranks are needed, since a missing one may be slow."""
    from nodewise.explain.trace.breakdown import runs_of

    job = break_down_files(files, reading)
    if job.missing_ranks and not accept_missing:
        ranks = [str(rank) for rank in job.missing_ranks]
        named = ", ".join(ranks if len(ranks) <= 8 else [*ranks[:7], f"... {ranks[-1]}"])
        raise DataError(
            f"{_common_path(files)} has no trace of rank {named}.",
            "Add it, or go without with --missing accept.",
        )
    if nodes is None:
        # The scale is that of the whole job, with the ranks that are missing.
        nodes = sum(rank.used for rank in job.ranks) + len(job.missing_ranks)
    return list(runs_of(job, nodes))


def _common_path(files: "Files") -> Path:
    return files.paths[0] if len(files.paths) == 1 else files.paths[0].parent


def break_down_files(
    files: "Files", reading: "TraceReading | None", part: Path | None = None
) -> "JobBreakdown":
    """The breakdown of a job from its trace files; `part` is where its digests are written."""
    from nodewise.cli.options import write
    from nodewise.explain.trace.breakdown import break_down, digest
    from nodewise.importers.profilers.digests import pack
    from nodewise.importers.profilers.read import TraceReading, read_digests

    reading = reading or TraceReading()
    digests = read_digests(files.paths, digest, reading)
    if part is not None:
        write(pack(digests, reading.window, reading.collective_kernels), part)
    return break_down(digests, reading.window, use_damaged=reading.broken == "use")


def study_of_runs(name: str, regime: "Regime", runs: "Sequence[Run]") -> "Study":
    """A study of runs from several files; those of one K are its rounds, in their order."""
    from nodewise.study.study import Study

    rounds: dict[int, int] = {}
    numbered = []
    for run in runs:
        rounds[run.nodes] = rounds.get(run.nodes, -1) + 1
        numbered.append(msgspec.structs.replace(run, round=rounds[run.nodes]))
    return Study(name=name[:100] or "imported", regime=regime, runs=tuple(numbered))
