"""The load test that the choice of a fleet rests on, as a benchmark report of llm-d (0.2)."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from nodewise import __version__
from nodewise.base.errors import DataError
from nodewise.base.stats import Floats
from nodewise.fleet.decide import FleetDecision
from nodewise.fleet.window_checks import WindowTimes
from nodewise.study.window import Summary, Window

_SHARES = {"p1": 0.01, "p5": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9,
           "p95": 0.95, "p99": 0.99, "p99p9": 0.999}  # fmt: skip


def benchmark_report(
    decision: FleetDecision, windows: Sequence[Window | Summary]
) -> dict[str, Any]:
    """The longest window of the chosen fleet at the rate that it keeps.

    Latencies count from the intended time of sending; failed requests have none.
    """
    rate = decision.row(decision.chosen).rate_per_second if decision.chosen else 0.0
    able = [
        one
        for one in windows
        if isinstance(one, Window)
        and (one.replicas, one.offered_per_second) == (decision.chosen, rate)
        and any(request.last is not None and not request.error for request in one.requests)
    ]
    if not able:
        raise DataError(
            "No fleet was chosen from windows with single requests, so nothing can be reported.",
            "Measure with nodewise fleet sweep until a fleet is chosen, then write the report.",
        )
    return _report(decision.name, max(able, key=lambda one: one.seconds))


def _report(name: str, window: Window) -> dict[str, Any]:
    times = WindowTimes(window.requests)
    good = ~times.failed
    tokens = (times.input_tokens[good], times.output_tokens[good])
    content = msgspec.json.encode(window)
    time = {"duration": f"PT{window.seconds:g}S"}
    if window.started:
        time["start"] = window.started
    latency = {
        "time_to_first_token": (times.ttft, "s"),
        "time_per_output_token": (times.tpot, "s/token"),
        "request_latency": (times.latency, "s"),
    }
    rates = {
        "request_rate": (float(good.sum()), "queries/s"),
        "input_token_rate": (float(tokens[0].sum()), "tokens/s"),
        "output_token_rate": (float(tokens[1].sum()), "tokens/s"),
    }
    return {
        "version": "0.2",
        "run": {
            "uid": hashlib.sha256(content).hexdigest()[:32],
            "time": time,
            "description": f"{name}: {window.replicas} replicas",
        },
        "scenario": {"load": _load(window, tokens)},
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {
                        "total": len(good),
                        "failures": int(times.failed.sum()) - window.unfinished,
                        "incomplete": window.unfinished,
                        "input_length": _statistics(tokens[0], "count"),
                        "output_length": _statistics(tokens[1], "count"),
                    },
                    "latency": {
                        metric: _statistics(values[good & np.isfinite(values)], units)
                        for metric, (values, units) in latency.items()
                        if (good & np.isfinite(values)).any()
                    },
                    "throughput": {
                        metric: {"units": units, "mean": total / window.seconds}
                        for metric, (total, units) in rates.items()
                    },
                }
            }
        },
    }


def _load(window: Window, tokens: tuple[Floats, Floats]) -> dict[str, Any]:
    lengths = [{"distribution": "other", "value": float(one.mean())} for one in tokens]
    return {
        "metadata": {"description": "open loop; latencies count from the intended time"},
        "standardized": {
            "tool": "nodewise",
            "tool_version": __version__,
            "source": "unknown",
            "input_seq_len": lengths[0],
            "output_seq_len": lengths[1],
            "rate_qps": window.offered_per_second,
        },
        "native": {},
    }


def _statistics(values: Floats, units: str) -> dict[str, Any]:
    found = {name: float(np.quantile(values, share)) for name, share in _SHARES.items()}
    ends = {"min": float(values.min()), "max": float(values.max())}
    spread = {"mean": float(values.mean()), "stddev": float(values.std())}
    return {"units": units, **spread, **found, **ends}
