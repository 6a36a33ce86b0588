"""The output of a run: the figures in it, what is kept of it, and what it says of a crash."""

import contextlib
import math
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import msgspec

from nodewise.study.log_patterns import MAX_LINE, Figures, LogPatterns, NoFigure, Reading
from nodewise.study.study import SHORTEST_SECONDS, STAGES, Outcome, Run
from nodewise.study.telling_lines import telling_place

KEPT_BYTES = 64 * 1024  # of the beginning of an output, and as many of its end
_MAX_BYTES = 2**30  # of an output that are searched
_MAX_SEARCH_SECONDS = 60.0  # a pattern that takes longer backtracks without end
_SHOWN_LINES = 20  # of the output of a failed run
_SHOWN_SIGNS = 500  # of each of them
_CLOCK_SLACK = 2.0  # seconds between our clock and that of a file system


def with_figures(
    run: Run, patterns: LogPatterns | None, log: Path, directory: Path, since: float
) -> Run:
    """The run with the figures of its output; one that lacks a figure is not valid.

    `since` is when the run began: an older file is the output of another run.
    """
    if patterns is None or run.outcome != "ok":
        return run
    try:
        source = log if patterns.output is None else _newest(directory, patterns.output, since)
        with _bounded(_MAX_SEARCH_SECONDS):
            figures = Reading(patterns).lines(_lines(source))
    except NoFigure as problem:
        return _refused(run, "no match", f"{problem} of {_place(patterns)}. {_fix(run, patterns)}")
    stated = {**figures._asdict(), **figures.stages}
    for name, value in stated.items():
        if isinstance(value, float) and not math.isfinite(value):
            return _refused(run, "not a number", f"the output gives {name} as {value}")
    if figures.seconds is not None and figures.seconds < SHORTEST_SECONDS:
        why = f"{_place(patterns)} gives a time of {figures.seconds:g} s"
        return _refused(run, "no match", f"{why}. {_fix(run, patterns)}")
    return _with(run, figures, patterns)


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
    return f"Correct the pattern; see {kept if patterns.output is None else patterns.output}"


def _newest(directory: Path, pattern: str, since: float) -> Path:
    """The last file of this name that the run wrote."""
    found = [
        (path.stat().st_mtime, path)
        for path in directory.glob(pattern)
        if path.is_file() and path.stat().st_mtime >= since - _CLOCK_SLACK
    ]
    if not found:
        raise NoFigure(f"workload.output: the run wrote no file {pattern}, so there is no line")
    return max(found)[1]


def _lines(path: Path) -> Iterator[str]:
    """The lines of an output, each cut to a length that is quickly searched."""
    if not path.exists():
        return
    read = 0
    with path.open("rb") as file:
        while read < _MAX_BYTES:
            line = file.readline(MAX_LINE * 4)
            if not line:
                return
            read += len(line)
            yield line.decode("utf-8", "replace").rstrip("\r\n")


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Give up a search that does not end; only the main thread has an alarm."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise NoFigure(f"a pattern takes longer than {seconds:g} s, so there is no line")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kept_output(log: Path) -> bytes:
    """The beginning and the end of an output, with a line that says what is left out."""
    if not log.exists():
        return b""
    size = log.stat().st_size
    with log.open("rb") as file:
        if size <= 2 * KEPT_BYTES:
            return file.read()
        head = file.read(KEPT_BYTES)
        file.seek(size - KEPT_BYTES)
        left_out = f"\n[... {size - 2 * KEPT_BYTES} bytes are left out ...]\n"
        return head + left_out.encode() + file.read(KEPT_BYTES)


def failure_lines(log: Path) -> list[str]:
    """The lines of a failed run to keep with it: around the most telling one, and the last."""
    text = kept_output(log).decode("utf-8", "replace")
    lines = [_shown(line) for line in text.splitlines()]
    last = lines[-_SHOWN_LINES:]
    at = telling_place(lines)
    if at is None or at >= len(lines) - len(last):
        return last
    around = lines[at : at + _SHOWN_LINES // 2]
    return [*around, "[...]", *last[-(_SHOWN_LINES - len(around)) :]]


def _shown(line: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in line[:_SHOWN_SIGNS])
