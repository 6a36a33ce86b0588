"""Trace files of thousands of ranks, read where a Ray or Dask cluster has its workers.

The workers must see the files under the same paths and have nodewise installed; what comes back
from each file is its digest, some kilobytes.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nodewise.base.errors import RunError, SpecError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_PENDING = 10_000  # tasks that a cluster is handed at a time


def map_on_cluster(
    engine: str, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
) -> list[_Result]:
    """The results in the order of the tasks; `engine` is ray or dask, with its address."""
    name, _, address = engine.partition("://")
    maps = {"ray": _map_on_ray, "dask": _map_on_dask}
    if name not in maps:
        raise SpecError(
            f"--engine {engine} is no cluster that reads traces.",
            "Write ray, ray://HOST:PORT, dask or dask://HOST:PORT.",
        )
    results: list[_Result] = []
    for begin in range(0, len(tasks), _PENDING):
        results += maps[name](address, function, tasks[begin : begin + _PENDING])
    return results


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise RunError(
            f"The Python package {name} is not installed.", f"pip install 'nodewise[{extra}]'"
        ) from None


def _map_on_ray(address: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Ray: the cluster of the address or of RAY_ADDRESS, else one made for this."""
    ray = _package("ray", "ray")
    where = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "local")
    was_there = ray.is_initialized()
    if not was_there:
        try:
            ray.init(where, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise RunError(
                f"No cluster of Ray: {str(error).rstrip('.')}.",
                "Start it, or correct the address after --engine ray://.",
            ) from None
    try:
        remote = ray.remote(function)
        return list(ray.get([remote.remote(task) for task in tasks]))
    finally:
        if not was_there:
            ray.shutdown()


def _map_on_dask(address: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Dask: the scheduler of an address, else workers of this machine."""
    distributed = _package("distributed", "dask")
    where = {"address": address} if address else {"dashboard_address": None}
    try:
        client = distributed.Client(**where)
    except OSError as error:
        raise RunError(
            f"No scheduler of Dask: {str(error).rstrip('.')}.",
            "Start it, or correct the address after --engine dask://.",
        ) from None
    with client:
        return list(client.gather(client.map(function, tasks, pure=False)))
