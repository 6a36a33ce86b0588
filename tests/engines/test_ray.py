"""A real Ray cluster of several raylets: three scales, a killed node, Ctrl-C, kill -9."""

import pytest

from nodewise.measure.engines.clusters.ray_session import task_of
from tests.engines.clusters import Cluster, check_nothing_outlives_us, check_survival

JOB = """
    import ray

    if __name__ == "__main__":
        ray.init(log_to_driver=False)
        ray.get(ray.remote(sleep_alone).remote(1.5))
        piece = ray.remote(sleep_piece)
        # The parent of a worker is its raylet: with it the whole node dies.
        ray.get([piece.remote(seconds, os.getppid) for seconds in LENGTHS])
        ray.shutdown()
"""


def test_a_task_is_computing_moving_and_overhead():
    states = {
        "PENDING_ARGS_AVAIL": 1,
        "PENDING_NODE_ASSIGNMENT": 2,
        "SUBMITTED_TO_WORKER": 5,
        "RUNNING": 6,
        "FINISHED": 20,
    }
    events = [
        ("task:deserialize_arguments", 7, 8),
        ("task:execute", 8, 18),
        ("task:store_outputs", 18, 19),
        ("task::f", 6, 20),
    ]
    assert task_of("f", "n", states, events) == {
        "kind": "f",
        "worker": "n",
        "spans": [
            ("communication", 7, 8),
            ("compute", 8, 18),
            ("communication", 18, 19),
            ("overhead", 6, 19),
        ],
        "handed_in": 1,
        "ready": 2,
    }
    del states["RUNNING"]  # the worker ended before it could send anything
    assert task_of("f", "n", states, [])["spans"][0] == ("compute", 5, 20)
    assert task_of("f", "", states, []) is None
    assert task_of("f", "n", {"RUNNING": 6}, events) is None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'nodewise[ray]'")
    return Cluster(tmp_path_factory.mktemp("ray"), "ray", JOB)


def test_a_study_survives_ctrl_c_and_a_killed_node(cluster):
    check_survival(cluster)


def test_nothing_outlives_a_killed_harness(cluster, tmp_path):
    check_nothing_outlives_us(Cluster(tmp_path, "ray", JOB))
