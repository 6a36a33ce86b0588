"""A real Dask cluster: three scales, a killed worker, Ctrl-C, kill -9, and its records alone."""

import signal

import pytest

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.clusters.dask import Dask, DaskOptions
from nodewise.measure.engines.clusters.dask_session import tasks_of
from tests.engines.clusters import Cluster, check_nothing_outlives_us, check_survival

JOB = """
    from distributed import Client

    if __name__ == "__main__":
        with Client() as client:
            client.submit(sleep_alone, 1.5, pure=False).result()
            client.gather(client.map(sleep_piece, LENGTHS, pure=False))
"""


def test_tasks_have_the_moments_of_the_scheduler():
    transitions = [
        ("a-1", "released", "waiting", 1.0),
        ("a-1", "waiting", "queued", 2.0),
        ("a-1", "queued", "processing", 3.0),
        ("a-1", "processing", "memory", 5.0),
        ("a-1", "memory", "released", 5.5),
        ("a-1", "released", "waiting", 6.0),  # once more
        ("a-1", "waiting", "processing", 6.5),
        ("a-1", "processing", "memory", 8.0),
    ]
    spans = [
        {"action": "transfer", "start": 3.5, "stop": 4.0},
        {"action": "compute", "start": 4.0, "stop": 5.0},
    ]
    entry = {"key": "a-1", "kind": "a", "worker": "w", "startstops": spans}
    later = {**entry, "startstops": [{"action": "compute", "start": 7.0, "stop": 8.0}]}
    unknown = {**entry, "key": "b-2"}
    one, two, three = tasks_of([entry, later, unknown], transitions)
    assert (one["handed_in"], one["ready"]) == (1_000_000_000, 2_000_000_000)
    assert one["spans"] == [
        ["communication", 3_500_000_000, 4_000_000_000],
        ["compute", 4_000_000_000, 5_000_000_000],
    ]
    assert (two["handed_in"], two["ready"]) == (6_000_000_000, 6_500_000_000)
    assert (three["handed_in"], three["ready"]) == (None, None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'nodewise[dask]'")
    return Cluster(tmp_path_factory.mktemp("dask"), "dask", JOB)


def test_a_study_survives_ctrl_c_and_a_killed_worker(cluster):
    check_survival(cluster)


def test_workers_of_others_are_used_and_left_as_they_were(cluster, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as running:
        address = running.scheduler_address
        table = f'[engine.dask]\naddress = "{address}"'
        mine = Cluster(tmp_path, "dask", JOB, table, rounds=1)
        spec = tmp_path / "job.toml"
        spec.write_text(spec.read_text().replace("seed = 3", "seed = 1"))  # K=1 comes last
        (tmp_path / "killed").write_text("")  # nobody is
        mine.go_on()
        assert [run.nodes for run in mine.study.runs] == [3, 2, 1]
        assert [len(run.ranks) for run in mine.study.runs] == [3, 2, 1]
        with distributed.Client(running) as client:
            states = client.run(lambda dask_worker: dask_worker.status.name)
    assert list(states.values()) == ["running"] * 3


def test_workers_of_others_run_again_after_a_killed_harness(cluster, tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as running,
        distributed.Client(running) as client,
    ):
        table = f'[engine.dask]\naddress = "{running.scheduler_address}"'
        mine = Cluster(tmp_path, "dask", JOB, table)
        spec = tmp_path / "job.toml"
        spec.write_text(spec.read_text().replace("[1, 2, 3]", "[1]"))

        def states() -> list[str]:
            return sorted(client.run(lambda dask_worker: dask_worker.status.name).values())

        with mine.start() as measuring:
            mine.wait_for("job.py")
            assert states() == ["paused", "paused", "running"]
            measuring.send_signal(signal.SIGKILL)
        assert mine.wait_until_gone() == []
        assert states() == ["running"] * 3


def test_what_is_missing_is_said_before_the_first_run(monkeypatch):
    absent = Dask(DaskOptions(address="tcp://127.0.0.1:9"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(RunError, match="No Dask answers at tcp:"):
        absent.check([1, 2])
    with pytest.raises(SpecError, match=r"engine\.dask\.address: 'here' has no port"):
        Dask(DaskOptions(address="here")).check([1])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RunError) as caught:
        absent.check([1, 2])
    assert str(caught.value).endswith("pip install 'nodewise[dask]'.")


def test_nothing_outlives_a_killed_harness(cluster, tmp_path):
    check_nothing_outlives_us(Cluster(tmp_path, "dask", JOB))
