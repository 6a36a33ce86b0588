"""K workers of a Dask cluster, on this machine or at the address of a scheduler."""

from nodewise.measure.engines.clusters.cluster import ClusterEngine, ClusterOptions
from nodewise.study.spec import Count


class DaskOptions(ClusterOptions, frozen=True, kw_only=True):
    """The table [engine.dask]."""

    threads_per_worker: Count = 1  # threads per worker, on this machine


class Dask(ClusterEngine):
    """The driver finds the scheduler by `Client()` without arguments."""

    options_type = DaskOptions
    package = "distributed"
    title = "Dask"
    address_variable = "DASK_SCHEDULER_ADDRESS"
