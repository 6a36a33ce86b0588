"""K workers of a Dask cluster, on this machine or at an address."""

from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from nodewise.engines.base import options_of
from nodewise.engines.cluster import ClusterEngine
from nodewise.spec import EngineSpec, Part, Positive


class DaskOptions(Part, frozen=True, kw_only=True):
    """The table [engine.dask]."""

    address: str = ""  # of a scheduler; empty: a cluster on this machine
    threads_per_worker: Annotated[int, msgspec.Meta(ge=1)] = 1  # of a cluster on this machine
    start_seconds: Positive = 120.0  # the cluster may take to start


class Dask(ClusterEngine):
    """The driver finds the scheduler by `Client()` without arguments."""

    options_type = DaskOptions
    package = "distributed"
    title = "Dask"
    session = "nodewise.engines.dask_session"
    address_variable = "DASK_SCHEDULER_ADDRESS"

    def __init__(self, options: DaskOptions) -> None:
        """As the spec says."""
        super().__init__(options.address, options.start_seconds)
        self._options = options

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """The engine of a spec."""
        return cls(options_of(chosen, "dask", DaskOptions))

    def request(self, workers: int) -> dict[str, Any]:
        """With the threads of a worker."""
        return {**super().request(workers), "threads": self._options.threads_per_worker}
