"""MLPerf training logs: lines that hold `:::MLLOG` and a JSON object. K must be said."""

from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.files import foreign, number, text_of
from nodewise.study.study import Fact, Run

WHAT = "a log of MLPerf"
_MARK = ":::MLLOG"
_FACTS = ("global_batch_size", "submission_benchmark", "submission_division", "seed", "seq_length")


def read(path: Path, nodes: int | None) -> list[Run]:
    """The run in one log: from run_start to run_stop, with its last accuracy as quality."""
    if nodes is None:
        raise SpecError(
            f"{path} does not say on how many nodes it ran.", f"Put the number before it: 8={path}."
        )
    log = _Log()
    for line in text_of(path).splitlines():
        _, mark, text = line.partition(_MARK)
        if mark:
            log.add(text)
    if not log.times and not log.facts:
        raise foreign(path, WHAT, f"no line has {_MARK}")
    if "run_start" not in log.times or "run_stop" not in log.times:
        raise DataError(f"{path} has no run_start or no run_stop.", "Hand in a finished run.")
    seconds = (log.times["run_stop"] - log.times["run_start"]) / 1000
    if seconds <= 0:
        raise DataError(f"The run in {path} ends before it starts.", "Hand in the log as written.")
    begun = log.times.get("init_start")
    good = log.status in ("", "success")
    return [
        Run(
            nodes=nodes,
            round=0,
            seconds=seconds,
            outcome="ok" if good else "crashed",
            detail="" if good else f"MLPerf status: {log.status}",
            quality=log.quality,
            work=log.samples,
            setup_seconds=None if begun is None else (log.times["run_start"] - begun) / 1000,
            facts=log.facts,
        )
    ]


class _Log:
    """What the lines of a log say."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.facts: dict[str, Fact] = {}
        self.quality: float | None = None
        self.samples: float | None = None
        self.status = ""

    def add(self, text: str) -> None:
        try:
            event: Any = msgspec.json.decode(text.strip().encode())
        except (msgspec.DecodeError, RecursionError):
            return  # several processes write to one log, and now and then into each other
        if not isinstance(event, dict):
            return
        key, value = str(event.get("key")), event.get("value")
        when = number(event.get("time_ms"))
        if key in ("init_start", "run_start", "run_stop") and when is not None:
            self.times.setdefault(key, when)
        about = event.get("metadata")
        if key == "run_stop" and isinstance(about, dict):
            self.status = str(about.get("status", ""))
        elif key == "eval_accuracy":
            self.quality = number(value) or self.quality
        elif key in ("train_samples", "samples_count"):
            self.samples = number(value) or self.samples
        elif key in _FACTS and isinstance(value, str | int | float | bool):
            self.facts.setdefault(key, value)
