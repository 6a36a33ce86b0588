"""The requests of a spec: their bodies, and when each is sent."""

import random
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.fleet.load import arrivals
from nodewise.fleet.load.answers import Events, Streamed, Unread, Whole
from nodewise.fleet.load.client import Load
from nodewise.fleet.load.tokenizer import CountTokens
from nodewise.fleet.spec import FleetSpec, LoadSpec, RequestSpec

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
# Short, common words: each is a token or two everywhere, and a random order is never in a cache.
_WORDS = (
    "the", "of", "and", "to", "in", "is", "it", "was", "for", "on", "are", "as", "with", "they",
    "at", "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what",
    "all", "were", "we", "when", "your", "can", "said", "there", "use", "an", "each", "which",
)  # fmt: skip


def load_of(
    spec: FleetSpec,
    endpoints: Sequence[str],
    rate_per_second: float,
    seconds: float,
    seed: str,
    trace: Sequence[float] = (),
    count_tokens: CountTokens | None = None,
    tls: ssl.SSLContext | None = None,
) -> Load:
    """A warm-up and a timed part of about `seconds`; the same seed gives the same requests."""
    asked, request = spec.load, spec.request
    seconds = max(round(rate_per_second * seconds), 1) / rate_per_second  # the rate is exact
    times = [
        moment - asked.warmup_seconds
        for moment in _times(asked, rate_per_second, asked.warmup_seconds, f"{seed} warm-up", trace)
    ] + _times(asked, rate_per_second, seconds, seed, trace)
    return Load(
        endpoints=tuple(endpoints),
        path=request.path or _PATHS[request.api],
        times=times,
        bodies=bodies(request, len(times), seed),
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


def read_trace(text: str, path: str) -> list[float]:
    """The arrival times of a trace file."""
    times = arrivals.read_trace(text)
    if len(times) < 2 or times[0] == times[-1]:
        raise DataError(
            f"{path} holds no arrival times.",
            "Write one time in seconds a line, in the first field.",
        )
    return times


def bodies(request: RequestSpec, count: int, seed: str) -> list[bytes]:
    """A body for each request, with a prompt and a length of its own."""
    names = ("{prompt}", "{output_tokens}")
    if request.api in ("json", "plain") and not any(name in request.body for name in names):
        return [request.body.encode()]
    draw = random.Random(f"bodies {seed}")
    return [_body(request, draw) for _ in range(count)]


def _body(request: RequestSpec, draw: random.Random) -> bytes:
    prompt = " ".join(draw.choices(_WORDS, k=draw.randint(*request.prompt_words)))
    tokens = draw.randint(*request.output_tokens)
    if request.body:
        filled = request.body.replace("{prompt}", prompt)
        return filled.replace("{output_tokens}", str(tokens)).encode()
    document: dict[str, Any] = {"model": request.model, "max_tokens": tokens}
    if request.api == "chat":
        document["messages"] = [{"role": "user", "content": prompt}]
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
    asked: LoadSpec, rate_per_second: float, seconds: float, seed: str, trace: Sequence[float]
) -> list[float]:
    count = round(rate_per_second * seconds)
    if count == 0:
        return []
    if asked.arrivals == "constant":
        return arrivals.constant(count, seconds)
    if asked.arrivals == "bursts":
        return arrivals.bursts(count, seconds, asked.burst_size, seed)
    if asked.arrivals == "trace":
        return arrivals.replayed(trace, count, seconds)
    return arrivals.poisson(count, seconds, seed)
