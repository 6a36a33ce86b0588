"""The timers of Megatron-LM as stages: `time (ms) | ...`, and the least and most of all ranks."""

import re
from array import array

import numpy as np

from nodewise.importers.logs.record import Log, number
from nodewise.importers.logs.scan import rule
from nodewise.study.study import Stage

_COMPUTE = ("forward-compute", "backward-compute")
_OPTIMIZER, _LOADING, _WHOLE = "optimizer", "batch-generator", "forward-backward"
# Timers that contain others of the list are not in it: backward-reduce-model-grads and the like.
_EXCHANGE = (
    "forward-recv", "forward-send", "backward-recv", "backward-send", "forward-send-forward-recv",
    "forward-send-backward-recv", "backward-send-forward-recv", "backward-send-backward-recv",
    "forward-backward-send-forward-backward-recv",
)  # fmt: skip
_GRADIENTS = (
    "backward-params-all-reduce", "backward-layernorm-all-reduce", "backward-embedding-all-reduce",
    "grads-all-reduce", "grads-reduce-scatter", "all-grads-sync", "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
)  # fmt: skip
_IN_OPTIMIZER = ("params-all-gather",)
_KNOWN = frozenset((*_COMPUTE, _OPTIMIZER, _LOADING, _WHOLE, *_EXCHANGE, *_GRADIENTS,
                    *_IN_OPTIMIZER))  # fmt: skip
_PART = re.compile(rb"([a-z][a-z-]{1,60}): ([\d.]{1,16})")
_MOST = 100_000  # values of a timer
_MORE_THAN_STEP = 1.02  # timers that take more than the step count something twice

Row = tuple[float, float, float]  # least, mean and most of the ranks


def waiting(compute: list[Row], exchange: Row) -> float:
    """Mean seconds that ranks wait for slower ones, within what they call communication.

    A rank that computes less waits inside its communication. The rank that waits least has the
    least of it, so what the mean is above it is waiting, as far as the imbalance of the computing
    explains it.
    """
    spread = sum(most - mean for _, mean, most in compute)
    least, mean, _ = exchange
    return max(0.0, min(spread, mean - least))


def _keep(log: Log, name: bytes, least: bytes, most: bytes | None) -> None:
    title = name.decode()
    low, high = number(least), number(most or least)
    if title not in _KNOWN or low is None or high is None:
        return
    for kind, value in (("least", low), ("most", high)):
        held = log.timers.setdefault((title, kind), array("d"))
        if len(held) < _MOST:
            held.append(value / 1e3)


def _line(log: Log, found: "re.Match[bytes]") -> None:
    for name, value in _PART.findall(found.string, found.end()):
        _keep(log, name, value, None)


TIMERS = (
    rule("timers", "time (ms) |", r"time \(ms\) \| ", _line, True),
    rule("timers", "...: ",
         r"(?:^|[\s:\]])([a-z][a-z-]{1,60}) \.{2,}: \(?([\d.]{1,16})(?:, ([\d.]{1,16})\))?",
         lambda log, m: _keep(log, m[1], m[2], m[3]), True),
)  # fmt: skip


def stages(log: Log, step: float | None, has_pipeline: bool) -> dict[Stage, float]:
    """Mean seconds of a rank in a step; empty if the timers do not separate its parts.

    Of several ranks the log has the least and the most; the mean is taken to be between them.
    Communication of tensor parallelism is within the computing: no timer separates it.
    """
    rows: dict[str, Row] = {}
    for name in _KNOWN:
        least, most = (log.timers.get((name, kind)) for kind in ("least", "most"))
        if least and most:
            low, high = float(np.median(least)), float(np.median(most))
            rows[name] = (low, (low + high) / 2, high)
    sent = [rows[name] for name in (*_EXCHANGE, *_GRADIENTS, *_IN_OPTIMIZER) if name in rows]
    if not step or not sent or _OPTIMIZER not in rows:
        return {}
    compute = [rows[name] for name in (*_COMPUTE, _OPTIMIZER) if name in rows]
    nested = [rows[name] for name in (_LOADING, *_IN_OPTIMIZER) if name in rows]
    if not set(_COMPUTE) <= rows.keys():
        if has_pipeline or _WHOLE not in rows:
            return {}  # the exchange between pipeline stages would be called computing
        compute = [rows[_WHOLE], rows[_OPTIMIZER]]
        nested += [rows[name] for name in _GRADIENTS if name in rows]
    exchange: Row = tuple(sum(row[at] for row in sent) for at in range(3))  # type: ignore[assignment]
    idle = waiting(compute, exchange)
    found: dict[Stage, float] = {
        "compute": sum(row[1] for row in compute) - sum(row[1] for row in nested),
        "communication": exchange[1] - idle,
        "io": rows.get(_LOADING, (0.0, 0.0, 0.0))[1],
    }
    if any(low != high for low, _, high in rows.values()):
        found["idle"] = idle
    if _LOADING not in rows:
        del found["io"]
    is_plausible = found["compute"] > 0 and sum(found.values()) <= _MORE_THAN_STEP * step
    return found if is_plausible else {}
