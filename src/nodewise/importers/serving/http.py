"""k6 and vegeta, which know requests but no tokens, so that a request is the unit of cost.

k6's summary (--summary-export, or the data of handleSummary); vegeta's report -type=json, and the
lines of vegeta encode.
"""

from datetime import datetime
from typing import Any

from nodewise.importers.files import number
from nodewise.importers.serving.records import percentiles, window_of
from nodewise.study.window import Request, Summary, Window

K6, VEGETA = "k6", "vegeta"
_NANOSECOND = 1e-9
_OK = range(200, 400)


def k6_summaries(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """The figures of one run; iterations that k6 dropped were asked for and never sent."""

    def values(name: str) -> dict[str, Any]:
        block = found["metrics"].get(name) or {}
        inner = block.get("values")
        return inner if isinstance(inner, dict) else block

    sent = values("http_reqs")
    count = int(sent["count"])
    seconds = count / float(sent["rate"])
    share = values("http_req_failed")
    failed = round(count * (number(share.get("rate", share.get("value"))) or 0.0))
    dropped = int(number(values("dropped_iterations").get("count")) or 0)
    notes = (f"k6 dropped {dropped} iterations for lack of users.",) if dropped else ()
    return [
        Summary(
            replicas=replicas,
            offered_per_second=(count + dropped) / seconds,
            seconds=seconds,
            completed=count - failed,
            failed=failed,
            tool=K6,
            ttft=percentiles(values("http_req_waiting"), 1e-3),
            latency=percentiles(values("http_req_duration"), 1e-3),
            notes=notes,
        )
    ]


def vegeta_summaries(found: dict[str, Any], replicas: int) -> list[Window | Summary]:
    """The figures of one attack."""
    count = int(found["requests"])
    done = round(count * float(found["success"]))
    return [
        Summary(
            replicas=replicas,
            offered_per_second=float(found["rate"]),
            seconds=count / float(found["rate"]),
            completed=done,
            failed=count - done,
            tool=VEGETA,
            latency=percentiles(found["latencies"], _NANOSECOND),
        )
    ]


def vegeta_windows(records: list[dict[str, Any]], replicas: int) -> list[Window | Summary]:
    """The window of the results of one attack."""
    return window_of([_result(one) for one in records], replicas, VEGETA)


def _result(one: dict[str, Any]) -> Request:
    sent = datetime.fromisoformat(_microseconds(str(one["timestamp"]))).timestamp()
    last = sent + int(one["latency"]) * _NANOSECOND
    code = int(number(one.get("code")) or 0)
    bad = str(one.get("error") or "") or ("" if code in _OK else f"status {code}")
    return Request(intended=sent, sent=sent, first=last, last=last, error=bad[-200:])


def _microseconds(stamp: str) -> str:
    """A time of nine decimals with the six that Python reads."""
    head, dot, tail = stamp.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}{dot}{tail[: min(digits, 6)]}{tail[digits:]}"
