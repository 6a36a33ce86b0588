"""Trace files read on the workers of a Ray or Dask cluster.

The workers must see the files under the same paths and have nodewise installed. Each file comes
back as its digest, a few kilobytes.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nodewise.base.errors import RunError, SpecError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_MAX_PENDING = 10_000  # tasks submitted at a time


def map_on_cluster(
    engine: str, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
) -> list[_Result]:
    """The results in the order of the tasks; `engine` is ray or dask, with its address."""
    name, _, address = engine.partition("://")
    maps = {"ray": _map_on_ray, "dask": _map_on_dask}
    if name not in maps:
        raise SpecError(
            f"--engine {engine} is not a cluster that reads traces.",
            "Write ray, ray://HOST:PORT, dask or dask://HOST:PORT.",
        )
    results: list[_Result] = []
    for begin in range(0, len(tasks), _MAX_PENDING):
        results += maps[name](address, function, tasks[begin : begin + _MAX_PENDING])
    return results


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise RunError(
            f"The Python package {name} is not installed.", f"pip install 'nodewise[{extra}]'"
        ) from None


def _no_cluster(name: str, error: Exception) -> RunError:
    return RunError(
        f"Cannot reach a {name} cluster: {str(error).rstrip('.')}.",
        f"Start it, or correct the address after --engine {name.lower()}://.",
    )


def _map_on_ray(address: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """On the cluster of the address or of RAY_ADDRESS, else on one started for this."""
    ray = _package("ray", "ray")
    was_running = ray.is_initialized()
    if not was_running:
        where = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "local")
        try:
            ray.init(where, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise _no_cluster("Ray", error) from None
    try:
        remote = ray.remote(function)
        return list(ray.get([remote.remote(task) for task in tasks]))
    finally:
        if not was_running:
            ray.shutdown()


def _map_on_dask(address: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """On the scheduler of the address, else on workers of this machine."""
    distributed = _package("distributed", "dask")
    where = {"address": address} if address else {"dashboard_address": None}
    try:
        client = distributed.Client(**where)
    except OSError as error:
        raise _no_cluster("Dask", error) from None
    with client:
        return list(client.gather(client.map(function, tasks, pure=False)))
