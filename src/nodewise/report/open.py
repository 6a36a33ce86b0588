"""What a path holds: a study with its question, from a folder, a page, a table or a log."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.study import store
from nodewise.study.files import is_stream, open_regular
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.study import PER_NODE, Run, Study
from nodewise.study.table import parse_table

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question
    from nodewise.explain.trace.breakdown import JobBreakdown
    from nodewise.importers.logs.survey import Source
    from nodewise.importers.profilers.read import TraceReading
    from nodewise.importers.registry import Files
    from nodewise.study.spec import Regime
    from nodewise.study.study import Stage
    from nodewise.study.trace import Digest, Unreadable

    _Digests = list[Digest | Unreadable]

_LARGEST_BYTES = 256 * 2**20
MILLION = 1e6  # units of work in a run, where only a throughput is known


def open_study(
    path: Path, regime: "Regime | None" = None, work: float | None = None
) -> "tuple[Study, Question]":
    """A study, and the question that its spec asks or that its page answers."""
    from nodewise.decide.prices.lookup import question_of

    if path.suffix == ".html":
        from nodewise.report.page.html import study_of_page

        study, question = study_of_page(read_bytes(path))
        return study.in_regime(regime), question
    study = read_study(path, regime, work)
    return study, question_of(study.asked)


def open_sources(
    sources: "Sequence[Source]", regime: "Regime | None" = None, work: float | None = None
) -> "tuple[Study, Question]":
    """A study and its question from one path, or from several logs; K may be given for each."""
    from nodewise.decide.prices.lookup import question_of

    scale, path = sources[0]
    if len(sources) == 1 and scale is None and not re.search(r"[*?]", str(path)):
        return open_study(path, regime, work)
    study = read_logs(sources, regime)
    return study, question_of(study.asked)


def read_logs(sources: "Sequence[Source]", regime: "Regime | None" = None) -> Study:
    """The study in logs."""
    from nodewise.importers.logs.study import study_of_logs, understand
    from nodewise.importers.logs.survey import survey

    return study_of_logs(understand(survey(sources)), sources[0][1].stem, regime)


def read_study(table: Path, regime: "Regime | None", work: float | None = None) -> Study:
    """The study in a study folder, in a file of any format, or in a CSV on stdin for `-`."""
    from nodewise.importers.registry import open_file

    if table.is_dir() and not store.is_study(table):
        from nodewise.importers.logs.survey import has_logs  # imports every reader of logs

        if has_logs([(None, table)]):
            return read_logs([(None, table)], regime)
    if table.is_dir():
        return read_folder(table).in_regime(regime)
    is_pipe = str(table) == "-" or is_stream(table)
    if not is_pipe:  # a pipe can be read only once
        files = open_file(table)
        if files.format.gives == "logs":
            return read_logs([(None, table)], regime)
        if files.format.name != "csv":
            runs = runs_in(files, None)
            return study_of_runs(table.stem, regime or "strong", runs, unit_in(files, runs))
    name = "stdin" if str(table) == "-" else table.stem
    try:
        text = read_bytes(table).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not text in UTF-8 (byte {error.start}).", "Save the table as CSV in UTF-8."
        ) from None
    return parse_table(text, name, regime, work, units_of_a_rate=MILLION)


def read_bytes(path: Path) -> bytes:
    """What a file or, for `-`, stdin holds."""
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(_LARGEST_BYTES + 1)
        else:
            with path.open("rb") if is_stream(path) else open_regular(path) as file:
                raw = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise DataError(
            f"Cannot read {path}: {reason}.",
            "Name a CSV file, a study folder, a page, or - for standard input.",
        ) from None
    if len(raw) > _LARGEST_BYTES:
        raise DataError(f"{path} is larger than 256 MiB.", "Give one row for each run.")
    return raw


def read_folder(folder: Path) -> Study:
    """The study in a folder; it must hold at least one run that worked."""
    if not store.is_study(folder):
        raise DataError(
            f"{folder} holds no study.", f"Make one from its files: nodewise import {folder}"
        )
    study = store.load(folder)
    if not study.scales and (folder / "fleet.toml").is_file():
        raise DataError(
            f"The sweep in {folder} has no run that worked yet.",
            f"See its windows: nodewise fleet decide {folder}; continue: "
            f"nodewise fleet sweep SPEC -o {folder}",
        )
    if not study.runs:
        raise DataError(f"{folder} has no runs yet.", "Measure first: nodewise measure SPEC")
    if not study.scales:
        from nodewise.study.telling_lines import failures, remedy

        raise DataError(
            f"No run of {folder} worked. {failures(study.runs)}.",
            f"{remedy(study.runs)} (what it printed is in {folder}/outputs), delete {folder}, and "
            "measure again.",
        )
    return study


def runs_in(
    files: "Files",
    nodes: int | None,
    region: str = "",
    reading: "TraceReading | None" = None,
    accept_missing: bool = False,
) -> list[Run]:
    """The runs in the files of one scale, or of several where the files give their K."""
    from nodewise.importers import registry

    form = files.format
    if form.gives in ("load", "link", "logs", "operations"):
        raise registry.unsuitable(files.paths[0], form, "a record of runs")
    if region and not form.has_regions:
        raise SpecError(f"--region does not apply to {form.title}.", "Leave it out.")
    if form.gives == "trace":
        return _runs_of_traces(files, nodes, reading, accept_missing)
    return registry.read_runs(files, nodes, region)


def _runs_of_traces(
    files: "Files", nodes: int | None, reading: "TraceReading | None", accept_missing: bool
) -> list[Run]:
    """The steps of a job as runs; all its ranks are needed, since a missing one may be slow."""
    from nodewise.explain.trace.breakdown import runs_of
    from nodewise.importers.profilers.read import TraceReading

    reading = reading or TraceReading()
    job = break_down_digests(digest_files(files, reading), reading)
    if job.missing_ranks and not accept_missing:
        ranks = [str(rank) for rank in job.missing_ranks]
        named = ", ".join(ranks if len(ranks) <= 8 else [*ranks[:7], f"... {ranks[-1]}"])
        place = files.paths[0] if len(files.paths) == 1 else files.paths[0].parent
        raise DataError(
            f"{place} has no trace of rank {named}.",
            "Add it, or go without with --missing accept.",
        )
    if nodes is None:
        # The scale is that of the whole job, with the ranks that are missing.
        nodes = sum(rank.used for rank in job.ranks) + len(job.missing_ranks)
    return list(runs_of(job, nodes))


def digest_files(files: "Files", reading: "TraceReading") -> "_Digests":
    """What each trace file says, small enough to keep."""
    from nodewise.explain.trace.breakdown import digest
    from nodewise.importers.profilers.read import read_digests

    return read_digests(files.paths, digest, reading)


def break_down_digests(digests: "_Digests", reading: "TraceReading") -> "JobBreakdown":
    """Where the time of a traced job went."""
    from nodewise.explain.trace.breakdown import break_down

    return break_down(digests, reading.window, use_damaged=reading.broken == "use")


def shares_in_traces(paths: Sequence[Path]) -> "dict[int, dict[Stage, float]]":
    """The share of a step that each rank spent in each stage, by the traces of one run."""
    from nodewise.explain.trace.breakdown import break_down, digest, stage_shares
    from nodewise.importers.profilers.read import TraceReading, read_digests

    # the profiler often stops in the middle of the last step, which this window leaves out
    reading = TraceReading(window="hta")
    return stage_shares(break_down(read_digests(paths, digest, reading), reading.window))


def unit_in(files: "Files", runs: Sequence[Run]) -> ScaleUnit:
    """What K counts in files: as a table says, or as their format has it."""
    from nodewise.importers.tables.claims_tables import read_unit

    if files.format.gives == "table":
        return read_unit(files.paths[0])
    shared = [run.facts.get(PER_NODE) for run in runs]
    if runs and all(isinstance(count, int) for count in shared):
        most = max(count for count in shared if isinstance(count, int))
        return ScaleUnit(unit="accelerator", per_node=most)
    fits = all(not run.ranks or len(run.ranks) == run.nodes for run in runs)
    return ScaleUnit(unit=files.format.unit) if fits else ScaleUnit()


def study_of_runs(
    name: str, regime: "Regime", runs: Sequence[Run], unit: ScaleUnit | None = None
) -> Study:
    """A study of runs from several files; those of one K are its rounds, in their order."""
    rounds: dict[int, int] = {}
    numbered = []
    for run in runs:
        rounds[run.nodes] = rounds.get(run.nodes, -1) + 1
        numbered.append(msgspec.structs.replace(run, round=rounds[run.nodes]))
    return Study(
        name=name[:100] or "imported",
        regime=regime,
        runs=tuple(numbered),
        scale_unit=unit or ScaleUnit(),
    )
