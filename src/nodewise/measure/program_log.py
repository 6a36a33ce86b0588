"""The output of a run: the figures in it, what is kept of it, and what it says of a crash."""

import math
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import msgspec

from nodewise.base.errors import DataError
from nodewise.base.time_limit import search_limit
from nodewise.importers import registry
from nodewise.importers.logs.lines import lines
from nodewise.importers.logs.record import LogRun
from nodewise.study.log_patterns import Figures, LogPatterns, NoFigure, Reading
from nodewise.study.spec import Amount, Signed
from nodewise.study.study import SHORTEST_SECONDS, STAGES, Outcome, Run
from nodewise.study.telling_lines import telling_place

KEPT_BYTES = 64 * 1024  # of the beginning of an output, and as many of its end
_MAX_BYTES = 2**30  # of an output that are searched
_SHOWN_LINES = 20  # of the output of a failed run
_SHOWN_SIGNS = 500  # of each of them
_WORK = "atom-steps"  # that a reader finds: steps or cells alone are not the work of a run
_CLOCK_SLACK = 2.0  # seconds between our clock and that of a file system


def with_figures(
    run: Run, patterns: LogPatterns | None, log: Path, directory: Path, since: float
) -> Run:
    """The run with the figures of its output; one that lacks a figure is not valid.

    `since` is when the run began: an older file is the output of another run.
    """
    if patterns is None or run.outcome != "ok":
        return run
    cut = ""
    try:
        source = log if patterns.output is None else _newest(directory, patterns.output, since)
        cut = _cut(source)
        with search_limit(_size(source), lambda said: NoFigure(f"{said}, so no line was found")):
            figures = Reading(patterns).lines(_lines(source))
        figures = _with_program(figures, patterns.program, source)
    except NoFigure as problem:
        why = f"{problem} of {_place(patterns)}{cut and f' ({cut})'}"
        return _refused(run, "no match", f"{why}. {_fix(run, patterns)}")
    for name, value in _stated(figures).items():
        if not math.isfinite(value):
            return _refused(run, "not a number", f"the output gives {name} as {value}")
        if wrong := _wrong(name, value):
            why = f"{_place(patterns)} gives {wrong}"
            return _refused(run, "no match", f"{why}. {_fix(run, patterns)}")
    if cut:
        run = msgspec.structs.replace(run, provenance={**run.provenance, "output": cut})
    return _with(run, figures, patterns)


def _with_program(figures: Figures, program: str | None, log: Path) -> Figures:
    """The figures with those that the reader of a known program finds; stated patterns count."""
    if program is None:
        return figures
    try:
        runs: list[LogRun] = registry.by_name(program).read(log)
    except DataError as error:
        raise NoFigure(f"{error.what.rstrip('.')}, so no line was found") from None
    run = max(runs, key=lambda one: one.run_seconds or 0.0)
    if figures.seconds is None and (run.run_seconds is None or run.outcome != "ok"):
        why = run.detail or run.problem
        raise NoFigure(f"workload.log: {program} found no time ({why}) in the lines")
    return Figures(
        seconds=run.run_seconds if figures.seconds is None else figures.seconds,
        work=run.work if figures.work is None and run.work_unit == _WORK else figures.work,
        quality=figures.quality,
        stages={str(name): seconds for name, seconds in run.stages.items()} | figures.stages,
    )


def _stated(figures: Figures) -> dict[str, float]:
    plain = {"seconds": figures.seconds, "work": figures.work, "quality": figures.quality}
    return {name: value for name, value in (plain | figures.stages).items() if value is not None}


def _wrong(name: str, value: float) -> str:
    """Why a run cannot have this value; empty if it can."""
    if name == "seconds" and value < SHORTEST_SECONDS:
        return f"a time of {value:g} s"
    try:
        msgspec.convert(value, Amount if name in ("seconds", "work") else Signed)
    except msgspec.ValidationError as error:
        return f"{name} as {value:g}: {str(error).replace('`', '').lower()}"
    return ""


def _with(run: Run, figures: Figures, patterns: LogPatterns) -> Run:
    timed = {}
    if figures.seconds is not None:
        timed = {
            "seconds": figures.seconds,
            "provenance": {**run.provenance, "clock": patterns.clock},
        }
    return msgspec.structs.replace(
        run,
        **timed,
        stages=run.stages | {stage: figures.stages[stage] for stage in STAGES
                             if stage in figures.stages},
        work=run.work if figures.work is None else figures.work,
        quality=run.quality if figures.quality is None else figures.quality,
    )  # fmt: skip


def _refused(run: Run, outcome: Outcome, why: str) -> Run:
    return msgspec.structs.replace(run, outcome=outcome, detail=why)


def _place(patterns: LogPatterns) -> str:
    return "the output" if patterns.output is None else patterns.output


def _fix(run: Run, patterns: LogPatterns) -> str:
    kept = f"outputs/{run.label}.log in the study folder"
    place = kept if patterns.output is None else patterns.output
    wrong = "workload.log, or add seconds = 'PATTERN'" if patterns.program else "the pattern"
    return f"Correct {wrong}; see {place}"


def _newest(directory: Path, pattern: str, since: float) -> Path:
    """The last file of this name that the run wrote; the name may be a whole path."""
    try:
        # Path.glob refuses a whole path
        named = glob(pattern, root_dir=directory, recursive=True, include_hidden=True)  # noqa: PTH207
        files = [path for name in named if (path := directory / name).is_file()]
        times = {path: path.stat().st_mtime for path in files}
    except (OSError, ValueError) as error:  # not readable, or gone; a null byte in the name
        why = f"cannot read {pattern} ({error}), so no line was found"
        raise NoFigure(f"workload.output: {why}") from None
    found = [(time, path) for path, time in times.items() if time >= since - _CLOCK_SLACK]
    if not found:
        raise NoFigure(f"workload.output: the run wrote no file {pattern}, so no line was found")
    return max(found)[1]


def _lines(path: Path) -> Iterator[str]:
    """The lines of an output, as many as are searched; a carriage return ends one as well."""
    read = 0
    try:
        for line in lines(path, finished=True) if path.exists() else ():
            yield line.decode("utf-8", "replace")
            read += len(line) + 1
            if read >= _MAX_BYTES:
                return
    except DataError as error:
        raise NoFigure(f"{error.what.rstrip('.')}, so no line was found") from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _cut(path: Path) -> str:
    """What is not searched of an output, in words."""
    size = _size(path)
    return "" if size <= _MAX_BYTES else f"only the first {_MAX_BYTES} of {size} bytes are searched"


def kept_output(log: Path, printed: int | None = None) -> bytes:
    """The beginning and the end of an output, with a line that says what is left out.

    `printed` are the bytes that count; None: all.
    """
    if not log.exists():
        return b""
    size = log.stat().st_size if printed is None else printed
    with log.open("rb") as file:
        if size <= 2 * KEPT_BYTES:
            return file.read(size)
        head = file.read(KEPT_BYTES)
        file.seek(size - KEPT_BYTES)
        left_out = f"\n[... {size - 2 * KEPT_BYTES} bytes are left out ...]\n"
        return head + left_out.encode() + file.read(KEPT_BYTES)


def failure_lines(log: Path, printed: int | None = None) -> list[str]:
    """The lines of a failed run to keep with it: around the most telling one, and the last."""
    text = kept_output(log, printed).decode("utf-8", "replace")
    lines = [_shown(line) for line in text.splitlines()]
    last = lines[-_SHOWN_LINES:]
    at = telling_place(lines)
    if at is None or at >= len(lines) - len(last):
        return last
    around = lines[at : at + _SHOWN_LINES // 2]
    return [*around, "[...]", *last[-(_SHOWN_LINES - len(around)) :]]


def _shown(line: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in line[:_SHOWN_SIGNS])
