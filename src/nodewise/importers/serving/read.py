"""Load tests of serving fleets: windows of our own, and what other tools wrote.

The format is told by what stands in the file. Where a tool kept every request, there is a `Window`;
where it kept but figures, a `Summary`, which says less.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.files import as_promised, text_of
from nodewise.importers.serving import aiperf as serving_aiperf
from nodewise.importers.serving import guidellm as serving_guidellm
from nodewise.importers.serving import http as serving_http
from nodewise.importers.serving import vllm as serving_vllm
from nodewise.study.window import Summary, Window, with_deaths

TOOLS = "GuideLLM, AIPerf, vllm bench serve, k6 or vegeta"
_Reader = Callable[[Any, int], list[Window | Summary]]

# How each document is told apart, and who reads it.
_DOCUMENTS: tuple[tuple[Callable[[dict[str, Any]], bool], _Reader], ...] = (
    (lambda one: isinstance(one.get("benchmarks"), list), serving_guidellm.windows),
    (lambda one: "request_throughput" in one and "duration" in one, serving_vllm.windows),
    (lambda one: isinstance(one.get("request_throughput"), dict), serving_aiperf.summaries),
    (lambda one: "latencies" in one and "rate" in one, serving_http.vegeta_summaries),
    (lambda one: isinstance(one.get("metrics"), dict), serving_http.k6_summaries),
)


def read_windows(path: Path, replicas: int | None = None) -> list[Window | Summary]:
    """The load tests in a file; `replicas` that they ran against, where the file does not say."""
    text = text_of(path)
    lines = text.splitlines()
    try:
        first: Any = msgspec.json.decode(lines[0].encode()) if lines else None
    except (msgspec.DecodeError, RecursionError):
        first = None  # a document over several lines
    if isinstance(first, dict) and "offered_per_second" in first:
        own = [_own(line, path, at) for at, line in enumerate(lines, start=1) if line.strip()]
        if replicas is not None:
            raise SpecError(
                f"{path} says itself how many replicas it drove.", "Leave out the number before it."
            )
        return own
    if isinstance(first, dict) and "metadata" in first and "metrics" in first:
        return _read(serving_aiperf.windows, _records(lines, path), _said(replicas, path), path)
    if isinstance(first, dict) and "seq" in first and "latency" in first:
        return _read(
            serving_http.vegeta_windows, _records(lines, path), _said(replicas, path), path
        )
    found = _document(text, path)
    for known, reader in _DOCUMENTS:
        if known(found):
            return _read(reader, found, _said(replicas, path), path)
    raise DataError(
        f"{path} is no load test that is known.", f"Hand in windows.jsonl, or what {TOOLS} wrote."
    )


def _own(line: str, path: Path, at: int) -> Window | Summary:
    form: type[Window | Summary] = Window if '"requests":[' in line else Summary
    try:
        window = msgspec.json.decode(line.encode(), type=form)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f"Line {at} of {path} is not a window: {error}.", "Hand in the file as it was written."
        ) from None
    return with_deaths(window) if isinstance(window, Window) else window


def _records(lines: list[str], path: Path) -> list[dict[str, Any]]:
    records = []
    for at, line in enumerate(lines, start=1):
        try:
            one: Any = msgspec.json.decode(line.encode()) if line.strip() else None
        except (msgspec.DecodeError, RecursionError) as error:
            raise DataError(
                f"Line {at} of {path} is not JSON: {error}.", "Hand in the file as it was written."
            ) from None
        if isinstance(one, dict):
            records.append(one)
    return records


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f"{path} is not JSON: {error}.", f"Hand in what {TOOLS} wrote as JSON."
        ) from None
    return found if isinstance(found, dict) else {}


def _said(replicas: int | None, path: Path) -> int:
    if not replicas:
        raise SpecError(
            f"{path} does not say how many replicas it drove.", f"Write 2={path} for two of them."
        )
    return replicas


def _read(reader: _Reader, found: Any, replicas: int, path: Path) -> list[Window | Summary]:
    with as_promised(path, "Hand in the file of a finished load test, as it was written."):
        # decoded again, what no load test can say is found by its field
        windows = [
            msgspec.json.decode(msgspec.json.encode(one), type=type(one))
            for one in reader(found, replicas)
        ]
    if not windows:
        raise DataError(f"{path} holds no finished request.", "Hand in a load test that ended.")
    return windows
