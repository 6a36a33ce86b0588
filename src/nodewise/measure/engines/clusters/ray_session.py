"""The process that speaks to a Ray cluster: starts it or connects, holds nodes, reads records.

The task events that Ray keeps for its timeline are read from its control store, since the timeline
itself does not tell when a task was submitted and when it was ready.
"""

import contextlib
import importlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nodewise.base.errors import RunError
from nodewise.measure.engines.clusters.companion import Answer, check_enough, serve

_POLL_SECONDS = 0.2
_ANSWERS_SECONDS = 5.0  # a node that is alive accepts a connection
_SETTLE_SECONDS = 3.0  # for events to arrive; workers send them once a second
_OBJECT_STORE_BYTES = 200 * 2**20  # of each node on this machine
_DONE = ("FINISHED", "FAILED")
_DOING = {
    "task:execute": "compute",
    "task:deserialize_arguments": "communication",
    "task:store_outputs": "communication",
}


def task_of(
    kind: str,
    node: str,
    states: Mapping[str, int],
    events: Iterable[tuple[str, int, int]],
) -> dict[str, Any] | None:
    """A task that was finished, from the moments of its states and the spans of its worker.

    What its worker did for it besides computing and moving data is overhead. A worker that ends
    with its driver may not have sent its last spans; the driver's own record of the task is used.
    """
    end = next((states[name] for name in _DONE if name in states), None)
    begin = states.get("RUNNING", states.get("SUBMITTED_TO_WORKER"))
    if end is None or begin is None or not node:
        return None
    spans = [(_DOING[name], start, stop) for name, start, stop in events if name in _DOING]
    if not any(doing == "compute" for doing, _, _ in spans):
        spans.append(("compute", begin, end))
    spans.append(("overhead", begin, max(stop for _, _, stop in spans)))
    return {
        "kind": kind,
        "worker": node,
        "spans": spans,
        "handed_in": states.get("PENDING_ARGS_AVAIL"),
        "ready": states.get("PENDING_NODE_ASSIGNMENT"),
    }


class _Session:
    """A driver of one cluster, for all runs of a study."""

    def __init__(self, ray: Any, address: str, start_seconds: float) -> None:
        self._ray = ray
        self._address = address
        self._start_seconds = start_seconds
        self._group: Any = None
        self._used: list[str] = []
        self._before: set[str] = set()

    def workers(self) -> list[dict[str, Any]]:
        """The nodes that can compute, the largest first.

        Ray itself may take half a minute to notice that a node is dead, so each is asked.
        """
        known = [n for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        nodes = [node for node in known if _answers(node)]
        return sorted(nodes, key=lambda node: (-node["Resources"]["CPU"], node["NodeID"]))

    def about(self) -> Answer:
        """Where it is, and what it has."""
        workers = self.workers()
        return {
            "address": self._address,
            "workers": len(workers),
            "hosts": sorted({node["NodeManagerHostname"] for node in workers}),
        }

    def hold(self, nodes: int) -> Answer:
        """Take all nodes but `nodes` with a placement group, so that a driver cannot use them."""
        groups = importlib.import_module("ray.util.placement_group")
        if self._group is not None:
            groups.remove_placement_group(self._group)
            self._group = None
        workers = self.workers()
        check_enough(len(workers), nodes)
        taken = [
            {name: node["Resources"][name] for name in ("CPU", "GPU") if name in node["Resources"]}
            for node in workers[: len(workers) - nodes]
        ]
        held: set[str] = set()
        if taken:
            self._group = groups.placement_group(taken, strategy="STRICT_SPREAD")
            if not self._group.wait(timeout_seconds=self._start_seconds):
                raise RunError(
                    f"{len(taken)} of {len(workers)} nodes could not be reserved for K={nodes}.",
                    "Wait until the cluster is free: other jobs use it.",
                )
            held = set(groups.placement_group_table(self._group)["bundles_to_node_id"].values())
        self._used = [n["NodeID"] for n in workers if n["NodeID"] not in held]
        self._before = {job["JobID"] for job in _state().job_table()}
        return {"workers": self._used}

    def records(self) -> Answer:
        """What was recorded since `hold`, of the nodes that are still there."""
        jobs = [job for job in _state().job_table() if job["JobID"] not in self._before]
        mine = {job["JobID"] for job in jobs}
        tasks, open_tasks = _tasks(mine)
        deadline = time.monotonic() + _SETTLE_SECONDS
        while open_tasks and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            tasks, open_tasks = _tasks(mine)
        alive = {node["NodeID"] for node in self.workers()}
        begin = min((job["StartTime"] for job in jobs), default=None)
        ends = [job["EndTime"] for job in jobs]
        return {
            "tasks": tasks,
            "workers": [node for node in self._used if node in alive],
            "begin": begin * 1_000_000 if begin else None,
            "end": max(ends) * 1_000_000 if ends and all(ends) else None,
        }


def _answers(node: Mapping[str, Any]) -> bool:
    """Whether the node's manager accepts a connection."""
    where = node["NodeManagerAddress"], node["NodeManagerPort"]
    try:
        socket.create_connection(where, _ANSWERS_SECONDS).close()
    except OSError:
        return False
    return True


def _state() -> Any:
    return importlib.import_module("ray._private.state").state


def _tasks(jobs: set[str]) -> tuple[list[dict[str, Any]], int]:
    """The finished tasks of these jobs, and how many have no end yet."""
    common = importlib.import_module("ray.core.generated.common_pb2")
    names = {number: name for name, number in common.TaskStatus.items()}
    driver = common.TaskType.Value("DRIVER_TASK")
    tasks, unfinished = [], 0
    for event in _state()._get_all_task_events():
        if event.job_id.hex() not in jobs or event.task_info.type == driver:
            continue
        if not event.task_info.func_or_class_name:
            continue  # only spans of a driver, and no task
        states = {names[number]: at for number, at in event.state_updates.state_ts_ns.items()}
        task = task_of(
            event.task_info.func_or_class_name,
            event.state_updates.node_id.hex(),
            states,
            [(e.event_name, e.start_time, e.end_time) for e in event.profile_events.events],
        )
        if task is not None:
            tasks.append(task)
        unfinished += task is None or not event.profile_events.events
    return tasks, unfinished


def _start_cluster(workers: int, cpus: int) -> Any:
    """A head that does not compute, and nodes that do, each a raylet of its own."""
    cluster = importlib.import_module("ray.cluster_utils").Cluster
    store = {"object_store_memory": _OBJECT_STORE_BYTES}
    made = cluster(
        initialize_head=True, head_node_args={**store, "num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(workers):
        made.add_node(wait=False, num_cpus=cpus, **store)
    made.wait_for_nodes()
    return made


@contextlib.contextmanager
def _connect(ray: Any, wanted: Answer) -> Iterator[_Session]:
    cluster = None
    if not wanted["address"]:
        cluster = _start_cluster(wanted["workers"], wanted["cpus_per_node"])
    address = wanted["address"] if cluster is None else cluster.address
    ray.init(address=address, log_to_driver=False, namespace="nodewise")
    try:
        yield _Session(ray, address, wanted["start_seconds"])
    finally:
        ray.shutdown()
        if cluster is not None:
            cluster.shutdown()


if __name__ == "__main__":
    serve("ray", _connect)
