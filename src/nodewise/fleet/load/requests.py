"""The requests of a spec: their bodies, and when each is sent."""

import ssl
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from nodewise.fleet.load import arrivals
from nodewise.fleet.load.answers import Events, Streamed, Unread, Whole
from nodewise.fleet.load.client import Load
from nodewise.fleet.load.tokenizer import CountTokens
from nodewise.fleet.load.workload import NO_MATERIAL, Ask, Material, asks
from nodewise.fleet.spec import FleetSpec, LoadSpec, RequestSpec

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def load_of(
    spec: FleetSpec,
    endpoints: Sequence[str],
    rate_per_second: float,
    seconds: float,
    seed: str,
    material: Material = NO_MATERIAL,
    count_tokens: CountTokens | None = None,
    tls: ssl.SSLContext | None = None,
) -> Load:
    """A warm-up and a timed part of about `seconds`; the same seed gives the same requests."""
    asked, request = spec.load, spec.request
    seconds = max(round(rate_per_second * seconds), 1) / rate_per_second  # the rate is exact
    recorded = [one.seconds for one in material.trace]

    def moments(seconds: float, seed: str) -> list[float]:
        return _times(asked, round(rate_per_second * seconds), seconds, seed, recorded)

    warm_up = asked.warmup_seconds
    times = [moment - warm_up for moment in moments(warm_up, f"{seed} warm-up")]
    times += moments(seconds, seed)
    return Load(
        endpoints=tuple(endpoints),
        path=request.path or _PATHS[request.api],
        times=times,
        bodies=bodies(spec, times, seed, material),
        seconds=seconds,
        rate_per_second=rate_per_second,
        reader=_reader(request),
        count_tokens=count_tokens,
        method=request.method,
        headers=request.headers,
        route=asked.route,
        timeout_seconds=request.timeout_seconds,
        drain_seconds=asked.drain_seconds,
        most_connections=asked.most_connections,
        tls=tls,
    )


def bodies(
    spec: FleetSpec, times: Sequence[float], seed: str, material: Material = NO_MATERIAL
) -> list[bytes]:
    """A body for each request, with a prompt and a length of its own."""
    request, names = spec.request, ("{prompt}", "{output_tokens}")
    if request.api in ("json", "plain") and not any(name in request.body for name in names):
        return [request.body.encode()]
    return [_body(request, one) for one in asks(spec, times, seed, material)]


def _body(request: RequestSpec, asked: Ask) -> bytes:
    prompt = "\n".join(text for _, text in asked.messages)
    if request.body:
        if request.api == "json":
            prompt = msgspec.json.encode(prompt)[1:-1].decode()  # it is quoted
        filled = request.body.replace("{output_tokens}", str(asked.output_tokens))
        return filled.replace("{prompt}", prompt).encode()
    document: dict[str, Any] = {"model": request.model, "max_tokens": asked.output_tokens}
    if request.api == "chat":
        document["messages"] = [{"role": role, "content": text} for role, text in asked.messages]
    else:
        document["prompt"] = prompt
    if request.stream:
        document |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(document | request.options)


def _reader(request: RequestSpec) -> Callable[[], Unread]:
    if request.api == "plain":
        return Unread
    if not request.stream:
        return Whole
    return Events if request.api == "json" else Streamed


def _times(
    asked: LoadSpec, count: int, seconds: float, seed: str, recorded: Sequence[float]
) -> list[float]:
    if count == 0:
        return []
    if asked.arrivals == "constant":
        return arrivals.constant(count, seconds)
    if asked.arrivals == "bursts":
        return arrivals.bursts(count, seconds, asked.burst_size, seed)
    if asked.arrivals == "trace":
        return arrivals.replayed(recorded, count, seconds)
    return arrivals.poisson(count, seconds, seed)
