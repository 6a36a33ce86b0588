"""What a load test of a serving fleet recorded: a `Window` of requests, or only its `Summary`."""

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request: seconds since the window began, as the client saw them."""

    intended: float  # when it should have been sent; every latency counts from here
    sent: float
    first: float | None = None  # the first token, or the first byte of a plain answer
    last: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    longest_gap: float | None = None  # between two tokens
    endpoint: int = 0
    error: str = ""  # a request that failed misses every objective


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One load test of `replicas` servers, requests in the order in which they were intended."""

    replicas: int
    offered_per_second: float
    seconds: float  # of the timed part: after the warm-up, until the last intended request
    requests: tuple[Request, ...]
    round: int = 0
    client_cpu_seconds: float = 0.0
    client_seconds: float = 0.0  # that the client was up, warm-up and drain included
    started: str = ""  # date and time, UTC
    energy_joules: float | None = None
    notes: tuple[str, ...] = ()  # a replica that died, a time-out of the drain
    simulated: bool = False  # predicted, not measured
    from_intended: bool = True  # False: another tool kept but the times of sending
    tool: str = ""  # that recorded it, where that was not nodewise


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One load test of which another tool kept but figures; shares of requests to their seconds."""

    replicas: int
    offered_per_second: float
    seconds: float
    completed: int
    failed: int = 0
    tool: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    ttft: dict[str, float] = {}  # "0.99": seconds; "1" is the largest
    tpot: dict[str, float] = {}
    latency: dict[str, float] = {}
    from_intended: bool = False  # whether all of these count from the intended sending
    dispatch_delay: dict[str, float] = {}
    notes: tuple[str, ...] = ()
