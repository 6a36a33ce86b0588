"""AIPerf: profile_export.jsonl with every request, profile_export_aiperf.json with figures."""

from typing import Any

from nodewise.importers.files import number
from nodewise.importers.serving.records import percentiles, window_of
from nodewise.study.window import Request, Summary, Window

TOOL = "AIPerf"
_NANOSECOND = 1e-9
_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}


def windows(records: list[dict[str, Any]], replicas: int) -> list[Window | Summary]:
    """The window of the records of one profile."""
    requests, planned = [], True
    for record in records:
        about = record["metadata"]
        if about.get("benchmark_phase", "profiling") != "profiling":
            continue
        issued = about.get("credit_issued_ns")
        planned &= issued is not None
        requests.append(_request(record, about, issued))
    return window_of(requests, replicas, TOOL, None, planned)


def _request(record: dict[str, Any], about: dict[str, Any], issued: Any) -> Request:
    metrics = record.get("metrics") or {}
    # whole nanoseconds since 1970 lose microseconds as a float, so differences come first
    start = int(about["request_start_ns"])
    begun = start if issued is None else min(int(issued), start)
    wait = _seconds(metrics.get("time_to_first_token"))
    took = _seconds(metrics.get("request_latency"))
    sent = start * _NANOSECOND
    last = sent + (
        took if took is not None else (int(about["request_end_ns"]) - start) * _NANOSECOND
    )
    failed = bool(record.get("error")) or bool(about.get("was_cancelled"))
    return Request(
        intended=sent - (start - begun) * _NANOSECOND,
        sent=sent,
        first=last if wait is None else sent + wait,
        last=last,
        # the server's count; that of the client is the text, tokenised again
        input_tokens=_count(metrics, "usage_prompt_tokens", "input_sequence_length"),
        output_tokens=_count(metrics, "usage_completion_tokens", "output_sequence_length"),
        error=_error(record) if failed else "",
    )


def _error(record: dict[str, Any]) -> str:
    error = record.get("error")
    return str(error.get("type") or "failed") if isinstance(error, dict) else "failed"


def _seconds(metric: Any) -> float | None:
    amount = number(metric.get("value")) if isinstance(metric, dict) else None
    return None if amount is None else amount * _UNITS.get(metric.get("unit", "ms"), 1e-3)


def _count(metrics: dict[str, Any], *names: str) -> int:
    """The first of these metrics that is there."""
    found = (metrics[name] for name in names if isinstance(metrics.get(name), dict))
    counts = (number(metric.get("value")) for metric in found)
    return int(next((count for count in counts if count is not None), 0))


def summaries(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """The figures of one profile."""

    def only(name: str) -> float:
        return number((found.get(name) or {}).get("avg")) or 0.0

    def shares(name: str) -> dict[str, float]:
        block = found.get(name) or {}
        return percentiles(block, _UNITS.get(block.get("unit", "ms"), 1e-3))

    def tokens(side: str, length: str) -> int:
        each = only(f"usage_{side}_tokens") or only(length)
        return round(only(f"total_usage_{side}_tokens") or done * each)

    done, failed = round(only("request_count")), round(only("error_request_count"))
    seconds = only("benchmark_duration") or done / only("request_throughput")
    return [
        Summary(
            replicas=replicas,
            offered_per_second=(done + failed) / seconds,
            seconds=seconds,
            completed=done,
            failed=failed,
            tool=TOOL,
            input_tokens=tokens("prompt", "input_sequence_length") or round(only("total_isl")),
            output_tokens=tokens("completion", "output_sequence_length")
            or round(only("total_osl")),
            ttft=shares("time_to_first_token"),
            tpot=shares("inter_token_latency"),
            latency=shares("effective_latency") or shares("request_latency"),
            dispatch_delay=shares("credit_to_start_latency"),
        )
    ]
