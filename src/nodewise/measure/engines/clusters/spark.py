"""K executors of Spark, on this machine or of a master at an address.

Executors belong to the program's session and start with it, so no cluster is kept.
The program is an ordinary driver (a Python script, or `spark-submit`): it reads the master and the
size of its executors from the folder of defaults that `SPARK_CONF_DIR` names. What each executor
did is in the event log.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from nodewise.base.errors import RunError
from nodewise.importers.files import number
from nodewise.importers.schedulers.spark_log import Event, events_of, metric
from nodewise.importers.schedulers.task_records import Span, Task
from nodewise.measure.engines import base
from nodewise.measure.engines.base import Engine, Finished, Job, Started, start
from nodewise.measure.engines.clusters.companion import driver_environment, import_folders
from nodewise.measure.engines.clusters.recorded import Records, finished_with
from nodewise.study.spec import Count, EngineSpec, Part, Positive
from nodewise.study.study import Fact

_LEAST_JAVA = 17  # of Spark 4; an older Spark says itself what it lacks
_MILLISECOND = 1_000_000  # nanoseconds


class SparkOptions(Part, frozen=True, kw_only=True):
    """The table [engine.spark]."""

    master: str = ""  # spark://host:port; empty: executors on this machine
    cores_per_executor: Count = 1  # cores of an executor
    memory_mb: Annotated[int, msgspec.Meta(ge=512)] = 1024  # memory of an executor
    start_seconds: Positive = 120.0  # longest start of the executors
    settings: dict[str, str] = {}  # noqa: RUF012 - more settings of spark-defaults.conf


class Spark(Engine):
    """The driver finds its executors by `SparkSession.builder.getOrCreate()`."""

    options_type = SparkOptions
    watched = False  # executors are not waited for by the driver, so their CPU would look foreign

    def __init__(self, options: SparkOptions) -> None:
        """As the spec says."""
        self._options = options

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """The engine of a spec."""
        return cls(base.options_of(chosen, "spark", SparkOptions))

    def check(self, scales: Sequence[int]) -> None:
        """There must be a Spark and a Java that it can use."""
        if importlib.util.find_spec("pyspark") is None and shutil.which("spark-submit") is None:
            raise RunError("Spark is not installed.", "Install it: pip install 'nodewise[spark]'.")
        version = java_version()
        if version is None:
            raise RunError(
                "Java is not installed, and Spark needs it.",
                "Install it (apt-get install default-jre-headless), or set JAVA_HOME.",
            )
        if version < _LEAST_JAVA and _spark_version().startswith("4"):
            raise RunError(
                f"Java {version} is too old for Spark 4.",
                f"Install Java {_LEAST_JAVA} or newer, and set JAVA_HOME to it.",
            )

    def run(self, job: Job, started: Started) -> Finished:
        """Run the driver to its end, and read the event log that it leaves."""
        folder = job.folder / "spark"
        (folder / "events").mkdir(parents=True)
        (folder / "scratch").mkdir()
        conf = folder / "conf"
        given = os.environ.get("SPARK_CONF_DIR")
        if given and Path(given).is_dir():
            shutil.copytree(given, conf)
        else:
            conf.mkdir()
        with (conf / "spark-defaults.conf").open("a") as file:
            file.write("".join(f"{n} {v}\n" for n, v in self._settings(job, folder).items()))
        environment = {**driver_environment(job), "SPARK_CONF_DIR": str(conf)}
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        if not self._options.master:
            environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        begin, began_ns = time.monotonic(), time.time_ns()
        driver = start(job.command, job, environment)
        started([driver.pid])
        finished = base.wait_for_all([driver], job, begin)
        logs = sorted((folder / "events").iterdir())
        if not logs:
            return _without_log(finished)
        return finished_with(finished, job, records_of(events_of(logs[-1]), began_ns))

    def _settings(self, job: Job, folder: Path) -> dict[str, str]:
        options = self._options
        cores, memory = options.cores_per_executor, options.memory_mb
        settings = {
            "spark.master": options.master or f"local-cluster[{job.nodes},{cores},{memory}]",
            "spark.executor.memory": f"{memory}m",
            "spark.executor.cores": str(cores),
            "spark.cores.max": str(cores * job.nodes),
            "spark.executor.instances": str(job.nodes),
            "spark.dynamicAllocation.enabled": "false",
            # No task starts before all executors are there, so that K of them take part.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{options.start_seconds:g}s",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(import_folders(job)),
        }
        if not options.master:
            scratch = folder / "scratch"
            settings |= {"spark.local.dir": str(scratch), "spark.driver.host": "127.0.0.1"}
        return {**settings, **options.settings}


def records_of(events: Iterable[Event], began_ns: int) -> Records:
    """The tasks and executors in an event log, and the time from the last executor to the end."""
    tasks: list[Task] = []
    hosts: dict[str, str] = {}
    added: dict[str, int] = {}
    submitted: dict[tuple[Any, Any], int] = {}
    moments: dict[str, int] = {}  # the last of each kind of event that has a time
    sums = dict.fromkeys(_SUMS, 0.0)
    version = ""
    for event in events:
        kind = event.event.removeprefix("SparkListener")
        version = event.version or version
        if event.time is not None:
            moments[kind] = event.time * _MILLISECOND
        if kind == "ExecutorAdded" and event.executor is not None:
            hosts[event.executor] = str(event.added.get("Host", ""))
            added[event.executor] = moments.get(kind, 0)
        elif kind == "ExecutorRemoved" and event.executor is not None:
            hosts.pop(event.executor, None)
        elif kind == "StageSubmitted":
            at = number(event.stage.get("Submission Time")) or 0.0
            stage = (event.stage.get("Stage ID"), event.stage.get("Stage Attempt ID"))
            submitted[stage] = round(at) * _MILLISECOND
        elif kind == "TaskEnd" and event.metrics is not None:
            tasks += _task(event, submitted.get((event.stage_id, event.attempt)))
            for name, path in _SUMS.items():
                sums[name] += metric(event.metrics, *path)
    begin = moments.get("ApplicationStart", began_ns)
    end = moments.get("ApplicationEnd", max((task.end for task in tasks), default=begin))
    # An executor that replaces a lost one comes after the first task, and was not there throughout.
    first = min((task.start for task in tasks), default=end)
    workers = tuple(name for name in hosts if added[name] <= first)
    ready = max([begin, *(added[name] for name in workers)])
    facts: dict[str, Fact] = {
        "engine_version": version,
        "engine_nodes": ",".join(sorted(set(hosts.values()))),
        "startup_seconds": (ready - began_ns) / 1e9,
        "spark_gc_seconds": sums["gc"] / 1e3,
        "spark_spilled_bytes": sums["memory spill"] + sums["disk spill"],
        "spark_shuffle_read_bytes": sums["remote read"] + sums["local read"],
        "spark_shuffle_written_bytes": sums["written"],
    }
    return Records(
        tasks=tuple(tasks),
        workers=workers,
        begin=ready,
        end=max(end, ready),
        facts=facts,
    )


_SUMS: dict[str, tuple[str, ...]] = {
    "gc": ("JVM GC Time",),
    "memory spill": ("Memory Bytes Spilled",),
    "disk spill": ("Disk Bytes Spilled",),
    "remote read": ("Shuffle Read Metrics", "Remote Bytes Read"),
    "local read": ("Shuffle Read Metrics", "Local Bytes Read"),
    "written": ("Shuffle Write Metrics", "Shuffle Bytes Written"),
}


def _task(event: Event, submitted: int | None) -> list[Task]:
    """A task, if it is whole: fetching, computing, writing; what is left of its time is overhead.

    The log has the length of each part and not when it was; what matters is that they add up.
    """
    info, metrics = event.task, event.metrics or {}
    launch, finish = number(info.get("Launch Time")), number(info.get("Finish Time"))
    if launch is None or finish is None or finish < launch:
        return []
    start, stop = round(launch) * _MILLISECOND, round(finish) * _MILLISECOND
    loading = round(metric(metrics, "Executor Deserialize Time")) * _MILLISECOND
    running = round(metric(metrics, "Executor Run Time")) * _MILLISECOND
    fetched = round(metric(metrics, "Shuffle Read Metrics", "Fetch Wait Time")) * _MILLISECOND
    written = round(metric(metrics, "Shuffle Write Metrics", "Shuffle Write Time"))
    running = min(running, stop - start)
    fetched = min(fetched, running)
    written = min(written, running - fetched)
    begin = min(start + loading, stop - running)
    computes, writes = begin + fetched, begin + running - written
    spans = (
        Span("communication", begin, computes),
        Span("compute", computes, writes),
        Span("io", writes, writes + written),
        Span("overhead", start, stop),  # scheduling, deserialising, handing over
    )
    return [
        Task(
            kind=f"stage {event.stage_id}.{event.attempt}",
            worker=str(info.get("Executor ID", "")),
            spans=spans,
            handed_in=submitted,
            ready=submitted,
        )
    ]


def _without_log(finished: Finished) -> Finished:
    """A run that left no event log has failed."""
    if finished.outcome != "ok":
        return finished
    return msgspec.structs.replace(
        finished,
        outcome="wrong workers",
        detail="the program left no event log: it did not start a Spark session with the defaults",
    )


def java_version() -> int | None:
    """The major version of the Java that Spark would take, or None without one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    _, _, rest = said.partition('version "')
    major, _, minor = rest.partition(".")
    digits = minor.partition(".")[0] if major == "1" else major  # 1.8 is 8
    found = "".join(c for c in digits.partition('"')[0] if c.isdigit())
    return int(found) if found else None


def _spark_version() -> str:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return ""
