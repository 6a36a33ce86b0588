"""Figures that a program prints: its time, work, quality and stages, by regular expression.

A `Reading` is given the output line by line, so that a log of any length takes little memory. The
presets in `log_presets.toml` name programs whose logs nodewise reads itself.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from nodewise.base.errors import SpecError
from nodewise.study.spec import Part, Pattern, Workload, convert
from nodewise.study.study import STAGES

MAX_LINE = 4096  # characters of a line that are searched
_DURATION = re.compile(
    r"(?:(?P<d>\d+)\s*d)?\s*(?:(?P<h>\d+)\s*h)?\s*(?:(?P<m>\d+)\s*m)?\s*(?:(?P<s>[\d.]+)\s*s)?"
)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
Take = Literal["last", "first", "sum"]


class NoFigure(Exception):
    """A figure that the output lacks; the message says which pattern found nothing."""


class Preset(Part, frozen=True, kw_only=True):
    """A program whose log is read, and where it prints what its reader leaves out."""

    title: str
    output: str | None = None
    work: str | Pattern | None = None
    quality: str | Pattern | None = None


class _Figure(NamedTuple):
    name: str  # seconds, work, quality or stage.NAME
    pattern: re.Pattern[str]
    take: Take
    required: bool


class LogPatterns(NamedTuple):
    """What to look for in the output of a run, and where."""

    clock: str  # what the seconds are, in words
    program: str | None  # whose reader finds the figures that no pattern of the spec asks for
    output: str | None  # a file that the program writes; None: its standard output
    figures: tuple[_Figure, ...]


class Figures(NamedTuple):
    """What was found: of each figure its value, by name."""

    seconds: float | None
    work: float | None
    quality: float | None
    stages: dict[str, float]


@cache
def presets() -> Mapping[str, Preset]:
    """The known programs, by name."""
    text = files("nodewise.study").joinpath("log_presets.toml").read_text(encoding="utf-8")
    return {
        name: convert(table, Preset, name, "study/log_presets.toml")
        for name, table in tomllib.loads(text).items()
    }


def log_patterns(workload: Workload) -> LogPatterns | None:
    """What a spec wants to know from the log; None: nothing. A bad pattern is an error."""
    preset = _preset(workload.log)
    own = _by_name(workload)
    if not own and preset is None:
        if workload.output is not None:
            raise SpecError(
                "workload.output: no pattern is set to look for in it.",
                "Add seconds = 'PATTERN' or log = \"NAME\" under [workload].",
            )
        return None
    known = {} if preset is None else _by_name(preset)
    figures = [_figure(name, one, required=True) for name, one in own.items()]
    figures += [
        _figure(name, one, required=False) for name, one in known.items() if name not in own
    ]
    return LogPatterns(
        clock=_clock(workload, own),
        program=workload.log,
        output=workload.output or (preset.output if preset else None),
        figures=tuple(figures),
    )


def _clock(workload: Workload, own: Mapping[str, Pattern]) -> str:
    if "seconds" in own:
        return f"the program's log, {own['seconds'].pattern}"
    return f"the program's log ({workload.log})" if workload.log else ""


def _preset(name: str | None) -> Preset | None:
    if name is None:
        return None
    if name not in presets():
        raise SpecError(
            f"workload.log: '{name}' is not a preset.",
            f"Use one of: {', '.join(presets())}; or write seconds = 'PATTERN'.",
        )
    return presets()[name]


def _by_name(source: Workload | Preset) -> dict[str, Pattern]:
    stated: dict[str, str | Pattern | None] = {"work": source.work, "quality": source.quality}
    if isinstance(source, Workload):
        stated = {"seconds": source.seconds, **stated}
        stated |= {f"stage.{name}": one for name, one in source.stage.items()}
    return {
        name: Pattern(pattern=one) if isinstance(one, str) else one
        for name, one in stated.items()
        if one is not None
    }


def _figure(name: str, stated: Pattern, required: bool) -> _Figure:
    stage = name.removeprefix("stage.")
    if stage != name and stage not in STAGES:
        raise SpecError(
            f"workload.{name}: unknown stage '{stage}'.", f"Use one of: {', '.join(STAGES)}."
        )
    try:
        pattern = re.compile(stated.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        at = getattr(error, "pos", None)
        place = "" if at is None else f", character {at + 1}"
        words = getattr(error, "msg", str(error))
        raise SpecError(
            f"workload.{name}: '{stated.pattern}' is not a regular expression: {words}{place}.",
            "Correct it; in TOML, put it in single quotes.",
        ) from None
    if pattern.groups == len(pattern.groupindex.keys() & {"minus"}):
        raise SpecError(
            f"workload.{name}: '{stated.pattern}' has no group for the number.",
            r"Put the number in parentheses: 'Loop time of (\S+)'.",
        )
    return _Figure(name, pattern, stated.take, required)


class Reading:
    """Reads the lines of one output and keeps what the patterns find."""

    def __init__(self, patterns: LogPatterns) -> None:
        """Nothing is found yet."""
        self._patterns = patterns
        self._found: dict[str, float] = {}

    def line(self, text: str) -> None:
        """Search one line."""
        text = text[:MAX_LINE]
        for figure in self._patterns.figures:
            if match := figure.pattern.search(text):
                self._keep(figure, _value(figure, match))

    def lines(self, texts: Iterable[str]) -> "Figures":
        """Search all lines."""
        for text in texts:
            self.line(text)
        return self.figures()

    def _keep(self, figure: _Figure, value: float) -> None:
        before = self._found.get(figure.name)
        if before is not None and figure.take == "first":
            return
        self._found[figure.name] = value + (before or 0.0 if figure.take == "sum" else 0.0)

    def figures(self) -> Figures:
        """What was found; `NoFigure` where a required one was not."""
        for figure in self._patterns.figures:
            if figure.required and figure.name not in self._found:
                raise NoFigure(
                    f"workload.{figure.name}: '{figure.pattern.pattern}' matches no line"
                )
        stages = {
            name.removeprefix("stage."): value
            for name, value in self._found.items()
            if name.startswith("stage.")
        }
        found: dict[str, Any] = {
            name: self._found.get(name) for name in ("seconds", "work", "quality")
        }
        return Figures(**found, stages=stages)


def _value(figure: _Figure, match: re.Match[str]) -> float:
    """The product of the groups, less the one named `minus`."""
    minus = match.re.groupindex.get("minus", 0)
    given = [text for at, text in enumerate(match.groups(), 1) if at != minus and text is not None]
    if not given:
        raise NoFigure(f"workload.{figure.name}: '{figure.pattern.pattern}' found no number")
    taken = match[minus] if minus else None
    product = math.prod(_number(figure, text) for text in given)
    return product - (0.0 if taken is None else _number(figure, taken))


def _number(figure: _Figure, text: str) -> float:
    """A number, or a duration such as `1h 2m` or `1m12.5s`, in seconds."""
    plain = text.strip().replace(",", "")
    try:
        return float(plain)
    except ValueError:
        parts = _DURATION.fullmatch(plain)
        given = {} if parts is None else {k: v for k, v in parts.groupdict().items() if v}
        if not given or plain.count(".") > 1:
            raise NoFigure(
                f"workload.{figure.name}: '{figure.pattern.pattern}' found '{text[:50]}', which is "
                "not a number"
            ) from None
        return sum(float(value) * _SECONDS[unit] for unit, value in given.items())
