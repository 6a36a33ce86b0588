"""GuideLLM's benchmarks.json: every request, from the time at which it was targeted."""

from typing import Any

from nodewise.importers.files import number
from nodewise.importers.serving.records import percentiles, sent_rate, window_of
from nodewise.study.window import Request, Summary, Window

TOOL = "GuideLLM"


def windows(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """A window for each benchmark of the report; its figures where the requests were not kept."""
    benchmarks = found["benchmarks"]
    return [one for at in benchmarks for one in _window(at, replicas) or _summary(at, replicas)]


def _window(benchmark: dict[str, Any], replicas: int) -> list[Window | Summary]:
    kept = benchmark.get("requests") or {}
    measured = benchmark.get("scheduler_metrics") or {}
    since = number(measured.get("measure_start_time")) or 0.0
    until = number(measured.get("measure_end_time")) or float("inf")
    requests, planned = [], True
    for status in ("successful", "errored", "incomplete"):
        for one in kept.get(status) or []:
            times = (one.get("info") or {}).get("timings") or {}
            request = _request(one, times, status)
            planned &= number(times.get("targeted_start")) is not None
            if request is not None and since <= request.intended <= until:
                requests.append(request)
    totals = (benchmark.get("metrics") or {}).get("request_totals") or {}
    made = int(totals.get("total") or 0)
    if made > len(requests) * 1.02:  # it keeps a sample of the requests on demand
        return []
    rate = _rate(benchmark)
    # without a rate, a target is but the moment at which a user was free
    return window_of(requests, replicas, TOOL, rate, planned and rate is not None)


def _request(one: dict[str, Any], times: dict[str, Any], status: str) -> Request | None:
    sent = number(times.get("request_start")) or number(times.get("resolve_start"))
    if sent is None:
        return None
    intended = number(times.get("targeted_start"))
    done = status == "successful"
    return Request(
        intended=sent if intended is None else min(intended, sent),
        sent=sent,
        first=number(times.get("first_token_iteration")) or number(times.get("request_end")),
        last=number(times.get("request_end")),
        input_tokens=int(number(one.get("prompt_tokens")) or 0),
        output_tokens=int(number(one.get("output_tokens")) or 0),
        error="" if done else status,
    )


def _rate(benchmark: dict[str, Any]) -> float | None:
    strategy = (benchmark.get("config") or {}).get("strategy") or {}
    return number(strategy.get("rate")) if isinstance(strategy, dict) else None


def _summary(benchmark: dict[str, Any], replicas: int) -> list[Summary]:
    metrics = benchmark["metrics"]
    totals = metrics["request_totals"]
    done = int(totals.get("successful") or 0)
    failed = int(totals.get("errored") or 0) + int(totals.get("incomplete") or 0)
    seconds = number(benchmark.get("duration"))
    if not done or not seconds:
        return []

    scheduled = metrics.get("request_scheduled_latency")
    latency = "request_scheduled_latency" if scheduled else "request_latency"

    def block(name: str) -> dict[str, Any]:
        one = (metrics.get(name) or {}).get("successful") or {}
        return {**(one.get("percentiles") or {}), "max": one.get("max")}

    def total(name: str) -> int:
        return int(((metrics.get(name) or {}).get("successful") or {}).get("total_sum") or 0)

    offered, notes = sent_rate(_rate(benchmark), done + failed, seconds)
    summary = Summary(
        replicas=replicas,
        offered_per_second=offered,
        seconds=seconds,
        completed=done,
        failed=failed,
        tool=TOOL,
        input_tokens=total("prompt_token_count"),
        output_tokens=total("output_token_count"),
        ttft=percentiles(block("time_to_first_token_ms"), 1e-3),
        tpot=percentiles(block("inter_token_latency_ms"), 1e-3),
        latency=percentiles(block(latency), 1.0),
        dispatch_delay=percentiles(block("request_dispatch_delay"), 1.0),
        notes=notes,
    )
    return [summary]
