"""How long requests wait for one of several equal servers: Erlang's C and its general form.

For Poisson arrivals and exponential service this is exact. For other service times the wait is
scaled by (1 + CV^2) / 2 (Allen and Cunneen), an approximation. Continuous batching is not such
a queue: taken either way, slots or replicas as servers, these figures are above the simulated ones,
so they are a quick upper bound, and `fleet.simulate` is the estimate.
"""

import math

import msgspec

from nodewise.base.errors import SpecError


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Requests before a row of servers: how busy these are, and how long requests wait."""

    servers: int
    utilisation: float
    chance: float  # that a request waits at all
    mean_seconds: float  # of the wait, over all requests
    relaxation_seconds: float  # the waits of those that wait, on average

    def percentile(self, share: float) -> float:
        """The wait that a share of the requests do not exceed.

        >>> wait = waiting(arrivals_per_second=8, service_seconds=0.1, servers=1)
        >>> round(wait.percentile(0.99), 4)
        2.191
        """
        if self.chance <= 1 - share:
            return 0.0
        return self.relaxation_seconds * math.log(self.chance / (1 - share))

    def beyond(self, seconds: float) -> float:
        """The share of requests that wait longer than this."""
        return self.chance * math.exp(-seconds / self.relaxation_seconds)


def erlang_c(servers: int, load: float) -> float:
    """The chance to wait, of Poisson arrivals that keep `load` of the servers busy.

    By the recursion of Erlang's B, which neither over- nor underflows.

    >>> round(erlang_c(1, 0.8), 4), round(erlang_c(10, 8.0), 4)
    (0.8, 0.4092)
    """
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def waiting(
    *, arrivals_per_second: float, service_seconds: float, servers: int, cv2: float = 1.0
) -> Waiting:
    """The wait before servers; `cv2` is the squared coefficient of variation of the service."""
    load = arrivals_per_second * service_seconds
    if servers < 1 or load < 0 or cv2 < 0:
        raise SpecError(
            "A queue needs a server, and amounts of 0 or more.",
            "Give one server or more, and rates and times of 0 or more.",
        )
    if load >= servers:
        raise SpecError(
            f"The requests need {load:.4g} servers, not {servers}: the queue grows without limit.",
            f"Take {math.floor(load) + 1} servers or more, or fewer requests.",
        )
    chance = erlang_c(servers, load)
    relaxation = (1 + cv2) / 2 * service_seconds / (servers - load)
    return Waiting(
        servers=servers,
        utilisation=load / servers,
        chance=chance,
        mean_seconds=chance * relaxation,
        relaxation_seconds=relaxation,
    )
