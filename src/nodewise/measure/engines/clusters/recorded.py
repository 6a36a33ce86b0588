"""From what an engine recorded of a run to how it ended: stages of each worker, start-up, facts."""

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from nodewise.importers.schedulers.task_records import Task, ranks_of
from nodewise.measure.engines.base import Finished, Job
from nodewise.study.study import Fact


class Records(NamedTuple):
    """The tasks of a run and the workers that were there from its begin to its end."""

    tasks: tuple[Task, ...]
    workers: tuple[str, ...]
    begin: int  # nanoseconds since 1970: the program has its workers
    end: int
    facts: Mapping[str, Fact] = {}


class _Report(msgspec.Struct):
    """What we need of the report that the program's probe wrote."""

    seconds: float | None = None
    began: float | None = None


def finished_with(finished: Finished, job: Job, records: Records) -> Finished:
    """How the run ended, with the seconds of every worker in the timed region.

    That is the region of the program's probe if it has one, else the time that it had its workers.
    """
    begin, end = records.begin, records.end
    path = job.folder / "rank-0.json"
    if path.exists():
        report = _Report()
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # of a damaged one the run tells itself, when it is collected
            report = msgspec.json.decode(path.read_bytes(), type=_Report)
        if report.began is not None and report.seconds is not None:
            begin = round(report.began * 1e9)
            end = begin + round(report.seconds * 1e9)
    facts = {
        **records.facts,
        "engine_workers": len(records.workers),
        "engine_tasks": len(records.tasks),
    }
    if finished.outcome == "ok" and not (records.tasks and records.workers):
        unused = "the program gave its workers no tasks: it did not use the cluster of the run"
        lost = "no worker of the run was left at its end"
        return msgspec.structs.replace(
            finished,
            outcome="wrong workers",
            detail=lost if records.tasks else unused,
            driven=True,
            facts=facts,
        )
    ranks = ranks_of(records.tasks, records.workers, begin, end)
    scheduling = sum(rank.stages["overhead"] for rank in ranks)
    return msgspec.structs.replace(
        finished,
        seconds=(end - begin) / 1e9 if finished.outcome == "ok" else finished.seconds,
        ranks=tuple(ranks),
        driven=True,
        facts={**facts, "scheduling_seconds": scheduling},
    )
