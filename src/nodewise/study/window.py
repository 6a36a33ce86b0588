"""What a load test of a serving fleet recorded: a `Window` of requests, or only its `Summary`."""

from typing import Annotated

import msgspec

from nodewise.study.spec import Amount, Number, Positive, Signed

Replicas = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Share = Annotated[str, msgspec.Meta(pattern=r"^(0(\.\d+)?|1|\d(\.\d+)?e-\d+)$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]  # of tokens, or of requests


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request: seconds since the window began, as the client saw them."""

    intended: Signed  # when it should have been sent; every latency counts from here
    sent: Signed
    first: Signed | None = None  # the first token, or the first byte of a plain answer
    last: Signed | None = None
    input_tokens: Count = 0
    output_tokens: Count = 0
    longest_gap: Signed | None = None  # between two tokens
    endpoint: int = 0
    error: str = ""  # a request that failed misses every objective


class ServerLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the servers said of themselves over a window; unknown if they did not."""

    waiting: Amount | None = None  # requests in their queues, on average
    running: Amount | None = None  # requests that ran at once, on average
    cache: Amount | None = None  # the largest share of a key-value cache in use
    preemptions: Count | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One load test of `replicas` servers, requests in the order in which they were intended."""

    replicas: Replicas
    offered_per_second: Amount
    seconds: Amount  # of the timed part: after the warm-up, until the last intended request
    requests: tuple[Request, ...]
    round: Number = 0
    client_cpu_seconds: Amount = 0.0
    client_seconds: Amount = 0.0  # that the client was up, warm-up and drain included
    started: str = ""  # date and time, UTC
    energy_joules: Amount | None = None
    died: int = 0  # replicas that ended by themselves meanwhile
    unfinished: int = 0  # requests that were given up at the end of the drain
    # The share of all cores in use, where client and replicas ran on one machine.
    machine_busy: Amount | None = None
    notes: tuple[str, ...] = ()  # the same in words, and what else a reader must know
    simulated: bool = False  # predicted, not measured
    from_intended: bool = True  # False: another tool kept but the times of sending
    tool: str = ""  # that recorded it, where that was not nodewise
    server_load: ServerLoad | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One load test of which another tool kept but figures; shares of requests to their seconds."""

    replicas: Replicas
    offered_per_second: Amount
    seconds: Positive
    completed: Count
    failed: Count = 0
    tool: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    ttft: dict[Share, Amount] = {}  # "0.99": seconds; "1" is the largest
    tpot: dict[Share, Amount] = {}
    latency: dict[Share, Amount] = {}
    from_intended: bool = False  # whether all of these count from the intended sending
    dispatch_delay: dict[Share, Amount] = {}
    notes: tuple[str, ...] = ()


def with_deaths(window: Window) -> Window:
    """The same; windows from before `died` was a field say it in their notes alone."""
    if window.died or not window.requests:
        return window
    died = sum(note.startswith("Replica ") for note in window.notes)
    return msgspec.structs.replace(window, died=died) if died else window
