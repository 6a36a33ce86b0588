"""Real executors of Spark: three scales, a killed executor, Ctrl-C, kill -9; and its event log."""

import json

import pytest

from nodewise.importers.schedulers.spark_log import events_of
from nodewise.importers.schedulers.task_records import one_at_a_time, ranks_of
from nodewise.measure.engines.clusters.spark import java_version, records_of
from tests.engines.clusters import Cluster, check_nothing_outlives_us, check_survival

JOB = """
    from pyspark.sql import SparkSession
    from nodewise import probe

    def executor():
        # Above this process are the daemon that forks workers and the JVM.
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])

    if __name__ == "__main__":
        with probe.setup():
            session = SparkSession.builder.getOrCreate()
            context = session.sparkContext
            # The first tasks start Python on every executor, which would be longer than the job.
            context.parallelize([0.5] * 9, 9).map(sleep_alone).collect()
        context.parallelize([1.5], 1).map(sleep_alone).collect()
        lengths = context.parallelize(LENGTHS, len(LENGTHS))
        lengths.map(lambda seconds: sleep_piece(seconds, executor)).collect()
        session.stop()
"""
# Starting quickly matters here, running quickly does not.
TABLE = """
[engine.spark.settings]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


def line(kind, **fields):
    return json.dumps({"Event": f"SparkListener{kind}", **fields})


def task_end(stage, executor, launch, finish, **metrics):
    info = {"Executor ID": executor, "Launch Time": launch, "Finish Time": finish}
    fields = {"Stage ID": stage, "Stage Attempt ID": 0, "Task Info": info}
    return line("TaskEnd", **fields, **{"Task Metrics": metrics})


def test_an_event_log_tells_of_each_executor(tmp_path):
    added = [
        line("ExecutorAdded", Timestamp=at, **{"Executor ID": name, "Executor Info": {"Host": "h"}})
        for name, at in (("0", 2000), ("1", 3000), ("2", 9000))
    ]
    stages = [
        line("StageSubmitted", **{"Stage Info": {
            "Stage ID": at, "Stage Attempt ID": 0, "Submission Time": 4000 + 2000 * at}})
        for at in (0, 1)
    ]  # fmt: skip
    write = {
        "Shuffle Write Metrics": {"Shuffle Write Time": 100_000_000, "Shuffle Bytes Written": 7}
    }
    read = {"Shuffle Read Metrics": {"Fetch Wait Time": 200}}
    lines = [
        line("LogStart", **{"Spark Version": "4.3.0"}),
        line("ApplicationStart", Timestamp=1000),
        *added[:2],
        stages[0],
        task_end(0, "0", 4500, 5900, **{"Executor Run Time": 1000, "JVM GC Time": 50, **write}),
        stages[1],
        task_end(1, "0", 6000, 9000, **{"Executor Run Time": 3000, **read}),
        added[2],
        task_end(1, "1", 6000, 8000, **{"Executor Run Time": 2000}),
        line("ApplicationEnd", Timestamp=10_000),
        '{"Event": "torn',
    ]
    path = tmp_path / "log"
    path.write_text("\n".join(lines))
    records = records_of(events_of(path), began_ns=500_000_000)
    assert records.workers == ("0", "1")  # the third came when the work was under way
    assert (records.begin, records.end) == (3_000_000_000, 10_000_000_000)
    assert records.facts["startup_seconds"] == 2.5
    assert records.facts["spark_gc_seconds"] == 0.05
    assert records.facts["spark_shuffle_written_bytes"] == 7
    assert one_at_a_time(records.tasks) == {"stage 0.0"}
    ranks = ranks_of(records.tasks, records.workers, records.begin, records.end)
    first, second = ({n: round(s, 3) for n, s in rank.stages.items()} for rank in ranks)
    # 1 s before and 1 s after the stages, 0.1 s between them, and the stage of one task
    assert first == {
        "compute": 2.8, "communication": 0.2, "io": 0.1, "overhead": 0.9,
        "serial": 3.0, "idle": 0.0,
    }  # fmt: skip
    assert second["compute"] == 2.0
    assert second["serial"] == 3.0
    assert sum(second.values()) == pytest.approx(7.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'nodewise[spark]'")
    if java_version() is None:
        pytest.skip("Java is not installed: apt-get install default-jre-headless")
    return Cluster(tmp_path_factory.mktemp("spark"), "spark", JOB, TABLE)


def test_a_study_survives_ctrl_c_and_a_killed_executor(cluster):
    check_survival(cluster)
    for run in cluster.study.good_runs:
        assert run.setup_seconds > 1  # the session and the first tasks are not in the timed region


def test_nothing_outlives_a_killed_harness(cluster, tmp_path):
    other = Cluster(tmp_path, "spark", JOB, TABLE)
    check_nothing_outlives_us(other, "CoarseGrainedExecutorBackend")
