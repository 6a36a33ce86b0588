"""What the server says of itself while it is loaded, and which limit of it breaks the objective."""

import re
from collections.abc import Iterable, Mapping, Sequence

from nodewise.base.units import format_percent
from nodewise.study.window import ServerLoad, Window

# The names of the engines: vLLM (two versions), SGLang, llama.cpp, Triton.
_NAMES = {
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_requests_running": "running",
    "vllm:kv_cache_usage_perc": "cache",
    "vllm:gpu_cache_usage_perc": "cache",
    "vllm:num_preemptions_total": "preemptions",
    "sglang:num_queue_reqs": "waiting",
    "sglang:num_running_reqs": "running",
    "sglang:token_usage": "cache",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:requests_processing": "running",
    "llamacpp:kv_cache_usage_ratio": "cache",
    "nv_inference_pending_request_count": "waiting",
}
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)")
_FULL_CACHE = 0.9
_QUEUE = 1.0  # requests that wait on average

Sample = Mapping[str, float]


def parse_metrics(text: str) -> dict[str, float]:
    """Requests waiting and running, share of the cache in use, preemptions: what is known of them.

    >>> parse_metrics('vllm:num_requests_waiting{model="a"} 3\\nvllm:kv_cache_usage_perc 0.5\\nx 1')
    {'waiting': 3.0, 'cache': 0.5}
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        name = _NAMES.get(match.group(1)) if match else None
        if match is None or name is None:
            continue
        try:
            value = float(match.group(2))
        except ValueError:
            continue
        if 0 <= value < float("inf"):
            before = found.get(name, 0.0)
            found[name] = max(before, value) if name == "cache" else before + value
    return found


def server_load(samples: Iterable[Sequence[Sample]]) -> ServerLoad | None:
    """The samples of each server over one window, as one load; nothing if there are none."""
    servers = [one for one in samples if one]
    if not servers:
        return None

    def means(name: str) -> list[float]:
        known = [[at[name] for at in one if name in at] for one in servers]
        return [sum(values) / len(values) for values in known if values]

    def peaks(name: str) -> list[float]:
        return [max(at[name] for at in one if name in at) for one in servers if name in one[-1]]

    counts = [[at["preemptions"] for at in one if "preemptions" in at] for one in servers]
    waiting, running = means("waiting"), means("running")
    return ServerLoad(
        waiting=sum(waiting) if waiting else None,
        running=sum(running) if running else None,
        cache=max(peaks("cache"), default=None),
        preemptions=round(sum(max(one[-1] - one[0], 0.0) for one in counts if one))
        if any(counts)
        else None,
    )


def cause(load: ServerLoad) -> str:
    """Which limit of a server a window ran into; nothing if its metrics show none.

    >>> cause(ServerLoad(waiting=12.0, running=8.0, cache=0.97, preemptions=14))
    'the KV cache was full (97 %, 14 preemptions)'
    >>> cause(ServerLoad(waiting=12.0, running=8.0, cache=0.5))
    'requests queued in the server (12 on average, 8 ran at once)'
    """
    preempted = _preempted(load.preemptions or 0)
    if load.cache is None and preempted:
        return f"the KV cache was full ({preempted})"
    if load.cache is not None and load.cache >= _FULL_CACHE:
        full = format_percent(load.cache)
        return f"the KV cache was full ({f'{full}, {preempted}' if preempted else full})"
    if load.cache is not None and preempted:
        seen = f"at most {format_percent(load.cache)} of the KV cache was seen in use"
        return f"the server preempted requests ({preempted}; {seen})"
    if load.waiting is None:
        return ""
    ran = "" if load.running is None else f", {load.running:.3g} ran at once"
    if load.waiting >= _QUEUE:
        return f"requests queued in the server ({load.waiting:.3g} on average{ran})"
    return f"each request took longer, and few queued ({load.waiting:.2g} on average{ran})"


def _preempted(count: int) -> str:
    return f"{count} preemption{'' if count == 1 else 's'}" if count else ""


def break_causes(
    windows: Iterable[object], breaks_at: Mapping[int, float | None]
) -> tuple[str, ...]:
    """For each fleet, why its lowest broken rate broke, where its servers show it."""
    loads = {
        (one.replicas, one.offered_per_second): one.server_load
        for one in windows
        if isinstance(one, Window) and one.server_load is not None
    }
    made = []
    for replicas, rate in breaks_at.items():
        load = None if rate is None else loads.get((replicas, rate))
        why = cause(load) if load is not None else ""
        if why:
            made.append(f"r={replicas} breaks at {rate:.4g} requests/s: {why}.")
    return tuple(made)
