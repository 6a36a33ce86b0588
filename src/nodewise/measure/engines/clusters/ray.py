"""K worker nodes of a Ray cluster, on this machine or at an address."""

from nodewise.measure.engines.clusters.cluster import ClusterEngine, ClusterOptions
from nodewise.study.spec import Count


class RayOptions(ClusterOptions, frozen=True, kw_only=True):
    """The table [engine.ray]."""

    cpus_per_node: Count = 1  # CPUs per node of a cluster on this machine


class Ray(ClusterEngine):
    """The driver finds the cluster by `ray.init()` without arguments."""

    options_type = RayOptions
    package = "ray"
    title = "Ray"
    address_variable = "RAY_ADDRESS"
