"""`vllm bench serve --save-result`: every request with --save-detailed, figures without it."""

import re
from typing import Any

from nodewise.importers.files import number
from nodewise.importers.serving.records import figures_by_metric, percentiles, sent_rate, window_of
from nodewise.study.window import Request, Summary, Window

TOOL = "vllm bench serve"
_FIGURE = re.compile(r"(p\d+(?:\.\d+)?|median)_(\w+)_ms$")


def windows(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """The load test of one file."""
    if isinstance(found.get("start_times"), list) and isinstance(found.get("ttfts"), list):
        return _window(found, replicas)
    return [_summary(found, replicas)]


def _window(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    waits, gaps = found["ttfts"], found["itls"]
    begun = min((one for one in found["start_times"] if one), default=0.0)
    starts = [one or begun for one in found["start_times"]]  # 0: it failed before it was sent
    count = len(starts)
    queued = found.get("queue_times") or [0.0] * count
    took = found.get("latencies") or [
        wait + sum(gap) for wait, gap in zip(waits, gaps, strict=True)
    ]
    errors = found.get("errors") or [""] * count
    requests = [
        Request(
            intended=start - queue,
            sent=start,
            first=start + wait,
            last=start + seconds,
            input_tokens=int(prompt),
            output_tokens=int(answer),
            longest_gap=max(gap, default=None),
            error=str(error)[-200:],
        )
        for start, queue, wait, seconds, gap, prompt, answer, error in zip(
            starts, queued, waits, took, gaps, found["input_lens"], found["output_lens"], errors,
            strict=True,
        )
    ]  # fmt: skip
    # its queue is that of its own limit of concurrency; a late loop stays hidden
    return window_of(requests, replicas, TOOL, _rate(found))


def _rate(found: dict[str, Any]) -> float | None:
    return number(found.get("request_rate"))  # "inf" where all are sent at once


def _summary(found: dict[str, Any], replicas: int) -> Summary:
    blocks = figures_by_metric(found, _FIGURE)
    seconds, done = float(found["duration"]), int(found["completed"])
    failed = int(found.get("failed") or 0)
    offered, notes = sent_rate(_rate(found), done + failed, seconds)
    return Summary(
        replicas=replicas,
        offered_per_second=offered,
        seconds=seconds,
        completed=done,
        failed=failed,
        tool=TOOL,
        input_tokens=int(found.get("total_input_tokens") or 0),
        output_tokens=int(found.get("total_output_tokens") or 0),
        ttft=percentiles(blocks.get("ttft"), 1e-3),
        tpot=percentiles(blocks.get("tpot"), 1e-3),
        latency=percentiles(blocks.get("e2el"), 1e-3),
        notes=notes,
    )
