"""Your own format: a TOML file of named regular expressions."""

import re
from pathlib import Path
from typing import Any

from nodewise.base.errors import DataError, SpecError
from nodewise.base.time_limit import search_limit
from nodewise.importers.logs.record import Log, LogRun, clock_seconds, number
from nodewise.importers.logs.scan import Rule, Seen, rank_of, scan
from nodewise.study.files import read_regular
from nodewise.study.spec import read_toml
from nodewise.study.study import STAGES, Stage

_EXAMPLE = "For example: [pattern] k = 'on (\\d+) ranks', seconds = 'took ([\\d.]+) s'."
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_NAMES = ("k", "nodes", "seconds", "step_seconds", "steps_per_second", "work", "loss", "step",
          "batch", "sequence", "energy")  # fmt: skip
_MOST = 1e30  # of an amount in a study
_COUNTS = {"k": "world_size", "nodes": "nodes", "batch": "global_batch", "sequence": "seq_length"}


class Pattern:
    """A format that a user describes."""

    def __init__(self, tables: dict[str, Any], path: str) -> None:
        """Check the table and its expressions."""
        table = tables.get("pattern")
        if not isinstance(table, dict):
            raise SpecError(f"{path} has no table [pattern].", _EXAMPLE)
        self.name = str(table.pop("name", Path(path).stem))[:40]
        self.unit = str(table.pop("unit", "rank"))[:30]
        stages = _table(table, "stages", path)
        self.units = {
            name: _unit(text, path) for name, text in _table(table, "units", path).items()
        }
        unknown = [name for name in table if name not in _NAMES]
        unknown += [name for name in stages if name not in STAGES]
        if unknown:
            raise SpecError(
                f"{path}: '{unknown[0]}' is not a name of a pattern.",
                f"Use {', '.join(_NAMES)}, and under stages {', '.join(STAGES)}.",
            )
        self.expressions = {name: _compiled(text, name, path) for name, text in table.items()}
        self.stages = {name: _compiled(text, name, path) for name, text in stages.items()}
        if not self.expressions.keys() & {"seconds", "step_seconds", "steps_per_second"}:
            raise SpecError(f"{path} has no pattern for the time.", _EXAMPLE)

    def matches(self, path: Path) -> bool:
        """Whether a file has a line with a time."""
        log = self._scan(path)
        return bool(log.seconds or log.get("run_seconds"))

    def read(self, path: Path, seen: Seen | None = None) -> list[LogRun]:
        """The run in a file; values that a line repeats are steps, or the last one counts."""
        log = self._scan(path, seen)
        stages: dict[Stage, float] = {
            name: log.values.pop(f"stage {name}")
            for name in STAGES
            if f"stage {name}" in log.values
        }
        known = log.seconds or log.get("run_seconds")
        last = log.numbers[-1] + (log.numbers[0] == 0) if log.numbers else None
        problem = "" if known else "no line matches a pattern of the time"
        return [log.run(iterations=last, stages=stages, problem=problem)]

    def _scan(self, path: Path, seen: Seen | None = None) -> Log:
        size = path.stat().st_size if path.exists() else 0

        def too_slow(said: str) -> DataError:
            return DataError(f"{path}: {said}.", "Write fewer repeats: [\\d.]+, not .* or (a+)+.")

        with search_limit(size, too_slow):
            return scan(path, Log(path, self.name, self.unit), self._rules(), seen)

    def _rules(self) -> list[Rule]:
        rules = [Rule(name, b"", found, self._take(name), True)
                 for name, found in self.expressions.items() if name != "step"]  # fmt: skip
        rules += [Rule(f"stage {name}", b"", found, self._take(f"stage {name}"), True)
                  for name, found in self.stages.items()]  # fmt: skip
        return rules

    def _take(self, name: str) -> Any:
        unit = self.units.get(name.removeprefix("stage "), 1.0)

        def take(log: Log, found: "re.Match[bytes]") -> None:
            text = found[(found.lastindex and 1) or 0]
            value = number(text)
            if value is None and name == "seconds":
                value = clock_seconds(text.decode("ascii", "replace"))
            if value is None or value != value:
                log.nan += name == "loss"
                return
            if name != "loss" and not 0 <= value * unit <= _MOST:
                return  # no count, time, work or energy
            if name in _COUNTS:
                log.count(_COUNTS[name], text)
            elif name in ("step_seconds", "steps_per_second") and value > 0:
                seconds = value * unit if name == "step_seconds" else 1 / (value * unit)
                log.step(self._step(log, found.string), seconds, rank_of(found.string))
            elif name == "seconds" and value > 0:
                log.values["run_seconds"] = value * unit
            elif name == "energy":
                log.values["energy_joules"] = value * unit
            else:
                log.values[name] = value * unit

        return take

    def _step(self, log: Log, line: bytes) -> int:
        found = self.expressions["step"].search(line) if "step" in self.expressions else None
        at = number(found[1]) if found and found.lastindex else None
        return (
            int(at) if at is not None and at >= 0 else (log.numbers[-1] + 1 if log.numbers else 0)
        )


def read_pattern(path: Path) -> Pattern:
    """The format in a TOML file."""
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"Cannot read the pattern {path}.", "Name a TOML file.") from None
    return Pattern(read_toml(text), str(path))


def _table(table: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    found = table.pop(name, {})
    if not isinstance(found, dict):
        raise SpecError(f"{path}: {name} is not a table.", f"Write [pattern.{name}].")
    return found


def _unit(text: Any, path: str) -> float:
    if isinstance(text, int | float) and 0 < text < 1e18:
        return float(text)
    if str(text) not in _UNITS:
        raise SpecError(
            f"{path}: '{text}' is not a unit of time.", f"Use {', '.join(_UNITS)}, or a number."
        )
    return _UNITS[str(text)]


def _compiled(text: Any, name: str, path: str) -> re.Pattern[bytes]:
    """An expression with a group."""
    try:
        found = re.compile(str(text).encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise SpecError(f"{path}: {name} is not a regular expression: {error}.", _EXAMPLE) from None
    if found.groups < 1:
        raise SpecError(f"{path}: {name} has no group.", "Put ( ) around the number.")
    return found
