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
        input_tokens=_count(metrics.get("input_sequence_length")),
        output_tokens=_count(metrics.get("output_sequence_length")),
        error=_error(record) if failed else "",
    )


def _error(record: dict[str, Any]) -> str:
    error = record.get("error")
    return str(error.get("type") or "failed") if isinstance(error, dict) else "failed"


def _seconds(metric: Any) -> float | None:
    amount = number(metric.get("value")) if isinstance(metric, dict) else None
    return None if amount is None else amount * _UNITS.get(metric.get("unit", "ms"), 1e-3)


def _count(metric: Any) -> int:
    return int(number(metric.get("value")) or 0) if isinstance(metric, dict) else 0


def summaries(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """The figures of one profile."""

    def only(name: str) -> float:
        return number((found.get(name) or {}).get("avg")) or 0.0

    def shares(name: str) -> dict[str, float]:
        block = found.get(name) or {}
        return percentiles(block, _UNITS.get(block.get("unit", "ms"), 1e-3))

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
            input_tokens=round(only("total_isl") or done * only("input_sequence_length")),
            output_tokens=round(only("total_osl") or done * only("output_sequence_length")),
            ttft=shares("time_to_first_token"),
            tpot=shares("inter_token_latency"),
            latency=shares("effective_latency") or shares("request_latency"),
            dispatch_delay=shares("credit_to_start_latency"),
        )
    ]
