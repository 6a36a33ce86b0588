"""The process that speaks to a Dask cluster: starts it or connects, holds workers, reads records.

What runs on the scheduler or on a worker is sent there whole, since nodewise need not be installed
on the cluster. Only what Dask records anyway is read: its task stream, its transitions, its events.
"""

import contextlib
import importlib
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nodewise.base.errors import RunError
from nodewise.measure.engines.clusters.companion import Answer, check_enough, serve

_POLL_SECONDS = 0.05
_LOG_LENGTH = 5_000_000  # transitions; the default of 1000 is soon full
_DOING = {
    "compute": "compute",
    "transfer": "communication",
    "disk-read": "io",
    "disk-write": "io",
    "deserialize": "overhead",
}


def tasks_of(
    stream: Iterable[dict[str, Any]], transitions: Iterable[Sequence[Any]]
) -> list[dict[str, Any]]:
    """The tasks that were finished, with the moments at which the scheduler had them.

    A transition is a key, the state that it leaves, the state that it enters, and when.
    """
    handed_in: dict[str, float] = {}
    ready: dict[str, float] = {}
    moments: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for key, left, entered, at in transitions:
        if left == "released" and entered == "waiting":
            handed_in[key] = at
            ready.pop(key, None)
        elif entered in ("queued", "no-worker", "processing"):
            ready.setdefault(key, at)
        elif left == "processing" and key in ready:  # in memory or erred: done
            moments[key].append((handed_in.get(key, ready[key]), ready.pop(key)))
    tasks = []
    for task in stream:
        spans = [
            [_DOING[span["action"]], _ns(span["start"]), _ns(span["stop"])]
            for span in task["startstops"]
            if span["action"] in _DOING
        ]
        if not spans:
            continue
        known = moments[task["key"]].pop(0) if moments[task["key"]] else None
        tasks.append(
            {
                "kind": task["kind"],
                "worker": task["worker"],
                "spans": spans,
                "handed_in": _ns(known[0]) if known else None,
                "ready": _ns(known[1]) if known else None,
            }
        )
    return tasks


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


class _Session:
    """A client of one cluster, for all runs of a study."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._since = 0.0
        self._used: list[str] = []

    def about(self) -> Answer:
        """Where it is, and what it has."""
        workers = self._client.scheduler_info()["workers"]
        return {
            "address": self._client.scheduler.address,
            "workers": len(workers),
            "hosts": sorted({worker["host"] for worker in workers.values()}),
        }

    def hold(self, nodes: int) -> Answer:
        """Pause all workers but `nodes`, and begin to record."""
        names = sorted(self._client.scheduler_info()["workers"])
        check_enough(len(names), nodes)
        self._used = names[:nodes]
        for workers, status in ((names[:nodes], "running"), (names[nodes:], "paused")):
            if workers:
                self._client.run(_set_status, status, workers=workers)
        deadline = time.monotonic() + 10
        while self._client.run_on_scheduler(_running) != self._used:
            if time.monotonic() > deadline:
                raise RunError(
                    f"The scheduler does not see {nodes} running workers.",
                    "Look at its log; workers that lack memory are paused by Dask itself.",
                )
            time.sleep(_POLL_SECONDS)
        self._client.run_on_scheduler(_record_transitions, _LOG_LENGTH)
        self._client.get_task_stream()  # from now on there is one
        self._since = time.time()
        return {"workers": self._used}

    def release(self) -> None:
        """Leave a cluster of others as it was."""
        self._client.run(_set_status, "running")

    def records(self) -> Answer:
        """What was recorded since `hold`, of the workers that are still there."""
        seen = self._client.run_on_scheduler(_seen, self._since, self._client.id)
        key_split = importlib.import_module("dask.utils").key_split
        stream = [
            {
                "key": str(task["key"]),
                "kind": key_split(task["key"]),
                "worker": task["worker"],
                "startstops": task["startstops"],
            }
            for task in self._client.get_task_stream(start=self._since)
        ]
        return {
            "tasks": tasks_of(stream, seen["transitions"]),
            "workers": [worker for worker in self._used if worker in seen["workers"]],
            "begin": _ns(seen["begin"]) if seen["begin"] else None,
            "end": _ns(seen["end"]) if seen["end"] else None,
        }


# These run on the cluster.
def _set_status(status: str, dask_worker: Any) -> None:
    states = importlib.import_module("distributed.core").Status
    # Else the memory monitor would set the worker running again.
    held = getattr(dask_worker, "nodewise_held", dask_worker.memory_manager.memory_pause_fraction)
    dask_worker.nodewise_held = held
    dask_worker.memory_manager.memory_pause_fraction = False if status == "paused" else held
    dask_worker.status = states[status]


def _running(dask_scheduler: Any) -> list[str]:
    return sorted(
        w for w, state in dask_scheduler.workers.items() if state.status.name == "running"
    )


def _record_transitions(length: int, dask_scheduler: Any) -> None:
    dask_scheduler.transition_log = deque(maxlen=length)


def _seen(since: float, ours: str, dask_scheduler: Any) -> Answer:
    clients = [
        (at, event["action"])
        for at, event in dask_scheduler.get_events("all")
        if at >= since
        and isinstance(event, dict)
        and event.get("action") in ("add-client", "remove-client")
        and event["client"] != ours
    ]
    return {
        "workers": list(dask_scheduler.workers),
        "transitions": [
            (str(one[0]), one[1], one[2], one[5])
            for one in dask_scheduler.transition_log
            if one[5] >= since
        ],
        "begin": min((at for at, action in clients if action == "add-client"), default=None),
        "end": max((at for at, action in clients if action == "remove-client"), default=None),
    }


@contextlib.contextmanager
def _connect(distributed: Any, wanted: Answer) -> Iterator[_Session]:
    cluster = None
    if not wanted["address"]:
        cluster = distributed.LocalCluster(
            n_workers=wanted["workers"],
            threads_per_worker=wanted["threads_per_worker"],
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
        )
    client = distributed.Client(cluster or wanted["address"], timeout=wanted["start_seconds"])
    session = _Session(client)
    try:
        yield session
    finally:
        if cluster is None:
            session.release()
        client.close()
        if cluster is not None:
            cluster.close()


if __name__ == "__main__":
    serve("distributed", _connect)
