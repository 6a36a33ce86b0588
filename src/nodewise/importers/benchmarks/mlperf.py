"""MLPerf training logs: lines that hold `:::MLLOG` and a JSON object."""

import re
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import AS_WRITTEN, no_scale, number, read_text, wrong_format
from nodewise.study.study import PER_NODE, Fact, Run

WHAT = "a log of MLPerf"
_MARK = ":::MLLOG"
_SCALE = ("number_of_nodes", PER_NODE, "submission_platform")
_FACTS = ("global_batch_size", "submission_benchmark", "submission_division", "seed", "seq_length")


def read(path: Path, nodes: int | None) -> list[Run]:
    """The run in one log: from run_start to run_stop, with its last accuracy as quality.

    Without `nodes`, K is that of the log: its accelerators, or the machines of its platform.
    """
    log = _Log()
    for line in read_text(path).splitlines():
        _, mark, text = line.partition(_MARK)
        if mark:
            log.add(text)
    if not log.times and not log.facts:
        raise wrong_format(path, WHAT, f"no line has {_MARK}")
    if "run_start" not in log.times or "run_stop" not in log.times:
        raise DataError(
            f"{path} has no run_start or no run_stop.", "Use the log of a finished run."
        )
    if nodes is None and log.per_node is not None:
        log.facts[PER_NODE] = log.per_node
    nodes = nodes or log.nodes
    if nodes is None:
        raise no_scale(path)
    seconds = (log.times["run_stop"] - log.times["run_start"]) / 1000
    if seconds <= 0:
        raise DataError(f"The run in {path} ends before it starts.", AS_WRITTEN)
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
    """What the lines of a log record."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.facts: dict[str, Fact] = {}
        self.quality: float | None = None
        self.samples: float | None = None
        self.status = ""
        self._scale: dict[str, Any] = {}

    @property
    def per_node(self) -> int | None:
        """The accelerators of a node, where they make up K."""
        count = number(self._scale.get(PER_NODE))
        return int(count) if count and number(self._scale.get("number_of_nodes")) else None

    @property
    def nodes(self) -> int | None:
        """K, where the log gives it."""
        counted = number(self._scale.get("number_of_nodes"))
        if counted:
            return int(counted * (self.per_node or 1))
        # "16xDGXA100_n16": so many machines
        platform = re.match(r"(\d{1,7})\s*x", str(self._scale.get("submission_platform", "")))
        return int(platform[1]) if platform else None

    def add(self, text: str) -> None:
        try:
            event: Any = msgspec.json.decode(text.strip().encode())
        except (msgspec.DecodeError, RecursionError):
            return  # several processes write to one log, and now and then into each other
        if not isinstance(event, dict):
            return
        key, value = str(event.get("key")), event.get("value")
        if key in _SCALE:
            self._scale.setdefault(key, value)
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
