"""Plays the runs of a stored study: the same facts, without waiting for them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.base import Engine, Finished, Job, Started
from nodewise.study import store
from nodewise.study.spec import EngineSpec
from nodewise.study.study import Run


class Replay(Engine):
    """Hands out the recorded run of each scale and round, as its ranks reported it."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the study to play."""
        self._folder = folder
        self._runs: dict[tuple[int, int], Run] = {}

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """The study that the spec names, from its own folder."""
        if chosen.study is None:
            raise SpecError(
                "engine.study: replay needs the folder of a study.", 'Write study = "digits.study".'
            )
        return cls(home / chosen.study)

    def check(self, scales: Sequence[int]) -> None:
        """The study must be there and hold these scales."""
        study = store.load(self._folder)
        self._runs = {(run.nodes, run.round): run for run in study.runs if not run.baseline}
        absent = set(scales) - {nodes for nodes, _ in self._runs}
        if absent:
            raise RunError(
                f"The study {self._folder} has no run at K={min(absent)}.",
                "Replay only the scales that it holds.",
            )

    def run(self, job: Job, started: Started) -> Finished:
        """Write the reports of the recorded ranks, and say how the run ended."""
        key = (job.nodes, int(job.environment["NODEWISE_ROUND"]))
        if key not in self._runs:
            raise RunError(
                f"The study {self._folder} has no round {key[1]} at K={key[0]}.",
                "Ask for fewer rounds.",
            )
        run = self._runs[key]
        for rank in run.ranks:
            report = {
                "rank": rank.rank,
                "host": rank.host,
                "seconds": rank.seconds,
                "setup_seconds": rank.setup_seconds or 0.0,
                "steps": run.steps or 0,
                "stages": rank.stages,
                "items": rank.items,
                "quality": run.quality,
                "facts": run.facts,
                "usage": msgspec.to_builtins(rank.usage) if rank.usage else {},
                "comm_calls": 0,
                "step_ends": 0,
                "modules": {},
            }
            (job.folder / f"rank-{rank.rank}.json").write_text(json.dumps(report))
        return Finished(outcome=run.outcome, seconds=run.seconds, detail=run.detail)
