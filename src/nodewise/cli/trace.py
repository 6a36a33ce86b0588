"""`nodewise trace`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import SpecError
from nodewise.cli.options import SOURCE, Source, emit, output_options, write
from nodewise.cli.pages import page_option, write_page
from nodewise.cli.sources import (
    broken_option,
    format_option,
    reading_options,
)
from nodewise.report.open import break_down_digests, digest_files, runs_in, study_of_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodewise.explain.trace.breakdown import JobBreakdown
    from nodewise.explain.trace.replay import Replay
    from nodewise.importers.registry import Files
    from nodewise.report.sections import Output
    from nodewise.study.study import Run

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("trace")
@click.argument("sources", metavar="FILES...", nargs=-1, required=True, type=SOURCE)
@reading_options
@broken_option("skip")
@format_option
@click.option(
    "--part",
    type=_FILE,
    help="Write the result of reading, a few kilobytes a rank; name several parts to merge them.",
)
@click.option(
    "--what-if",
    default="",
    metavar="KEY=VALUE,...",
    help="Replay a pipeline with ideal stage=3, rank=7, slow-node=fixed, or communication=0.5x.",
)
@page_option
@output_options
def command(
    sources: tuple[Source, ...],
    form: str,
    part: Path | None,
    what_if: str,
    page: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Show where the time of one job went, from the profiler's file of each rank.

    FILES are traces of torch.profiler (.json, .json.gz; GPU, or CPU with gloo), exports of Nsight
    Systems (.sqlite), parts (.digests) or folders of them. Nothing is run again. Other files with
    stages (TALP, Caliper, Ray, Dask, Spark, a table) give the share of each stage. A table of
    pipeline operations (DP x PP) is replayed: what each stage and worker costs.

    \b
    Examples:
      nodewise trace traces8/
      nodewise trace rank0.json.gz rank1.json.gz --window hta --json
      nodewise trace talp.json
      nodewise trace operations.csv.gz --what-if stage=3
      nodewise trace node0/ --part node0.digests; nodewise trace node*.digests
      nodewise trace traces4096/ --engine ray://head:10001
    """
    from nodewise.importers import registry
    from nodewise.importers.profilers.read import TraceReading

    files = registry.open_files([path for _, path in sources], form)
    if files.format.gives == "operations":
        _replay_operations(files, _pairs(what_if), as_json)
        return
    if what_if:
        raise SpecError(
            f"--what-if does not apply to {files.format.title}.",
            "It needs a table of pipeline operations; nodewise predict has its own --what-if.",
        )
    if files.format.gives != "trace":
        runs = _staged_runs(sources, form)
        emit(runs, as_json, _stages_report)
        if page is not None:
            from nodewise.report.page.trace import stages_page

            study = study_of_runs(sources[0][1].stem, "strong", runs)
            write_page(stages_page(runs, study), page, [path for _, path in sources])
        return
    how = TraceReading(**reading)
    digests = digest_files(files, how)
    if part is not None:
        from nodewise.importers.profilers.digests import pack

        write(pack(digests, how.window, how.collective_kernels), part)
    job = break_down_digests(digests, how)
    emit(job, as_json, _job_report)
    if page is not None:
        from nodewise.report.page.trace import trace_page

        places = [path for _, path in sources]
        write_page(trace_page(job, places[0].stem or str(places[0])), page, places)


def _replay_operations(files: "Files", fixed: dict[str, str], as_json: bool) -> None:
    """What stragglers cost in a job with a pipeline."""
    from nodewise.explain.trace.replay import replay

    if len(files.paths) > 1:
        raise SpecError("One job has one table of operations.", "Name one file at a time.")
    emit(replay(files.format.read(files.paths[0]), fixed), as_json, _replay_report)


def _pairs(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _staged_runs(sources: "Sequence[Source]", form: str) -> "list[Run]":
    """Runs with recorded stages."""
    from nodewise.importers import registry

    found: list[Run] = []
    for nodes, path in sources:
        files = registry.open_file(path, form)
        runs = [] if files.format.gives in ("load", "link") else runs_in(files, nodes)
        if not any(run.stages or run.ranks for run in runs):
            raise registry.unsuitable(path, files.format, "a trace, and it has no stages")
        found += runs
    return found


# The reports come with all tables, which --json does not need.
def _job_report(job: "JobBreakdown") -> "Output":
    from nodewise.report.text.trace import job_report

    return job_report(job)


def _replay_report(found: "Replay") -> "Output":
    from nodewise.report.text.trace import replay_report

    return replay_report(found)


def _stages_report(runs: "Sequence[Run]") -> "Output":
    from nodewise.report.text.trace import stages_report

    return stages_report(runs)
