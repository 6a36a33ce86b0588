"""K worker nodes of a Ray cluster, on this machine or at an address."""

from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from nodewise.engines.base import options_of
from nodewise.engines.cluster import ClusterEngine
from nodewise.spec import EngineSpec, Part, Positive


class RayOptions(Part, frozen=True, kw_only=True):
    """The table [engine.ray]."""

    address: str = ""  # of a cluster, host:port; empty: one on this machine
    cpus_per_node: Annotated[int, msgspec.Meta(ge=1)] = 1  # of a cluster on this machine
    start_seconds: Positive = 120.0  # the cluster may take to start


class Ray(ClusterEngine):
    """The driver finds the cluster by `ray.init()` without arguments."""

    options_type = RayOptions
    package = "ray"
    title = "Ray"
    session = "nodewise.engines.ray_session"
    address_variable = "RAY_ADDRESS"

    def __init__(self, options: RayOptions) -> None:
        """As the spec says."""
        super().__init__(options.address, options.start_seconds)
        self._options = options

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """The engine of a spec."""
        return cls(options_of(chosen, "ray", RayOptions))

    def request(self, workers: int) -> dict[str, Any]:
        """With the cores of a node."""
        return {**super().request(workers), "cpus": self._options.cpus_per_node}
