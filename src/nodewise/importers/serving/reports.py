"""Reports that keep figures alone: llm-d's benchmark report, inference-perf and SGLang."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nodewise.importers.files import number
from nodewise.importers.serving.records import figures_by_metric, percentiles, sent_rate
from nodewise.study.window import Summary, Window

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_PERCENTILE = re.compile(r"p(\d+)p(\d+)$")  # p99p9 is 99.9
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$")
_FIGURE = re.compile(r"(p\d+|median)_(ttft|tpot|e2e_latency)_ms$")
_SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)

Figures = Mapping[str, Any]


def llmd(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """A report of llm-d-benchmark, of version 0.1 or 0.2; it holds one stage of a load."""
    if "results" in found:
        performance = found["results"]["request_performance"]["aggregate"]
        seconds = _seconds(found["run"]["time"])
        load = ((found.get("scenario") or {}).get("load") or {}).get("standardized") or {}
        tool, rate = load.get("tool"), "request_rate"
        asked = number(load.get("rate_qps"))
    else:
        performance = found["metrics"]
        seconds = number((performance.get("time") or {}).get("duration"))
        load = (found.get("scenario") or {}).get("load") or {}
        tool, rate, asked = load.get("name"), "requests_per_sec", None
    counts, latency = performance["requests"], performance.get("latency") or {}
    failed = int(counts.get("failures") or 0) + int(counts.get("incomplete") or 0)
    done = int(counts["total"]) - failed
    throughput = performance.get("throughput") or {}
    if not seconds:  # the rate counts the requests that were answered
        answered = number(_mean(throughput.get(rate)))
        seconds = done / answered if answered else None
    if not seconds or done < 1:
        return []
    offered, notes = sent_rate(asked, done + failed, seconds)
    return [
        Summary(
            replicas=replicas,
            offered_per_second=offered,
            seconds=seconds,
            completed=done,
            failed=failed,
            tool=f"llm-d-benchmark ({tool})" if tool else "llm-d-benchmark",
            input_tokens=round(done * (number(_mean(counts.get("input_length"))) or 0.0)),
            output_tokens=round(done * (number(_mean(counts.get("output_length"))) or 0.0)),
            ttft=_shares(latency.get("time_to_first_token")),
            tpot=_shares(latency.get("time_per_output_token")),
            latency=_shares(latency.get("request_latency")),
            notes=notes,
        )
    ]


def inference_perf(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """A stage of inference-perf; a summary of several stages mixes their rates, and says so."""
    load, good = found["load_summary"], found["successes"]
    done = int(good["count"])
    failed = int((found.get("failures") or {}).get("count") or 0)
    if done < 1:
        return []
    latency = good["latency"]
    asked, sent = number(load.get("requested_rate")), number(load.get("achieved_rate"))
    seconds = number(load.get("send_duration")) or number(found.get("benchmark_time_seconds"))
    if not seconds:  # older files have neither; what was answered took all of the time
        seconds = done / float(good["throughput"]["requests_per_sec"])
    offered, notes = sent_rate(asked, done + failed, seconds)
    if sent is None:
        notes += ("inference-perf wrote no rate: use its stage_N_lifecycle_metrics.json.",)
    return [
        Summary(
            replicas=replicas,
            offered_per_second=offered,
            seconds=seconds,
            completed=done,
            failed=failed,
            tool="inference-perf",
            input_tokens=_tokens(good, ("prompt_tokens", "prompt_len"), done),
            output_tokens=_tokens(good, ("output_tokens", "output_len"), done),
            ttft=percentiles(latency.get("time_to_first_token"), 1.0),
            tpot=percentiles(latency.get("time_per_output_token"), 1.0),
            latency=percentiles(latency.get("request_latency"), 1.0),
            dispatch_delay=percentiles(load.get("schedule_delay"), 1.0),
            notes=notes,
        )
    ]


def sglang(records: list[dict[str, Any]], replicas: int) -> list[Window | Summary]:
    """The runs of SGLang's bench_serving, one a line. Its token counts are the server's."""
    return [_sglang(one, replicas) for one in records if one.get("completed")]


def _sglang(found: dict[str, Any], replicas: int) -> Summary:
    blocks = figures_by_metric(found, _FIGURE)
    done, seconds = int(found["completed"]), float(found["duration"])
    errors = found.get("errors") or []
    failed = sum(1 for one in errors if one)
    waits, gaps = found.get("ttfts") or [], found.get("itls") or []
    answered = [
        (float(wait), float(wait) + sum(gap))
        for wait, gap, error in zip(waits, gaps, errors, strict=True)
        if not error
    ]
    rate = found.get("request_rate")
    asked = number(rate) if isinstance(rate, int | float) else None  # "trace": of a file
    offered, notes = sent_rate(asked, done + failed, seconds)
    return Summary(
        replicas=replicas,
        offered_per_second=offered,
        seconds=seconds,
        completed=done,
        failed=failed,
        tool="SGLang bench_serving",
        input_tokens=int(found.get("total_input_tokens") or 0),
        output_tokens=int(found.get("total_output_tokens") or 0),
        ttft=_ranked([wait for wait, _ in answered]) or percentiles(blocks.get("ttft"), 1e-3),
        tpot=percentiles(blocks.get("tpot"), 1e-3),
        latency=_ranked([took for _, took in answered])
        or percentiles(blocks.get("e2e_latency"), 1e-3),
        notes=notes,
    )


def _ranked(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of single times, each at least as large as that share of them.

    >>> _ranked([3.0, 1.0, 2.0])["0.5"], _ranked([])
    (2.0, {})
    """
    ordered = sorted(seconds)
    ranks = {share: max(-int(-share * len(ordered) // 1), 1) for share in _SHARES}
    return {f"{share:.10g}": ordered[rank - 1] for share, rank in ranks.items() if ordered}


def _shares(block: Figures | None) -> dict[str, float]:
    """The percentiles of llm-d, in seconds."""
    if not block:
        return {}
    named = {_PERCENTILE.sub(r"p\1.\2", name): value for name, value in block.items()}
    return percentiles(named, _UNITS[str(block["units"]).partition("/")[0]])


def _mean(block: Any) -> Any:
    return block.get("mean") if isinstance(block, dict) else block


def _tokens(good: Figures, names: Sequence[str], done: int) -> int:
    """The sum of tokens, or their mean over all requests."""
    for name in names:
        block = good.get(name)
        if isinstance(block, dict):
            return round(number(block.get("total")) or done * (number(block.get("mean")) or 0.0))
    return 0


def _seconds(time: Figures) -> float | None:
    """The length of a run, which is written PT1M2.5S."""
    match = _DURATION.match(str(time.get("duration") or ""))
    if match is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds or None
