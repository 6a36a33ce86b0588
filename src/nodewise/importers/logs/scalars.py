"""Scalars over steps from trackers: TensorBoard event files, MLflow folders, W&B offline runs."""

import json
import math
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nodewise.base.errors import DataError
from nodewise.importers.files import read_text
from nodewise.importers.logs import protobuf
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import Seen
from nodewise.study.files import open_regular

_MOST_RECORD = 2**26  # of one event: graphs and images are larger than a scalar, not that large
_MOST_POINTS = 2_000_000
_BLOCK = 32768  # of LevelDB's log format, which W&B uses
# A scalar that is the time of a step, in seconds: torchtitan, Megatron-LM, NeMo.
_STEP_TIME = re.compile(
    r"(?:time_metrics/end_to_end\(s\)|iteration-time|iteration_time|train_step_timing in s|"
    r"(?:train/)?step_time(?:_seconds|_s)?|perf/step_time_seconds)"
)
# Scalars over samples or tokens, which Megatron-LM has beside those over steps and DeepSpeed alone;
# and those of a monitor of MLflow, which counts its samples of the machine.
_OVER_SAMPLES = re.compile(r"vs[ -](?:samples|tokens)|/Samples/|x=(?:samples|tokens)")
_OF_MACHINE = "system/"
_MEGATRON_COUNTS = {"world-size": "world_size", "batch-size": "global_batch"}
_COUNTS = {
    "world_size": "world_size", "num_nodes": "nodes", "nnodes": "nodes", "n_nodes": "nodes",
    "global_batch_size": "global_batch", "seq_length": "seq_length", "seq_len": "seq_length",
    "total_batch_size": "global_batch", "num_gpus": "world_size",
    "devices": "per_node",  # of Lightning
}  # fmt: skip

Series = dict[str, list[tuple[int, float, float]]]  # tag: step, wall time, value


def read_tensorboard(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in an event file."""
    series: Series = {}
    for event in _events(path):
        wall, step = 0.0, 0
        for field, value in protobuf.fields(event):
            if field == 1:
                wall = protobuf.real(value) or 0.0
            elif field == 2 and isinstance(value, int):
                step = value
            elif field == 5 and isinstance(value, bytes):
                for tag, scalar in _summary(value):
                    _keep(series, tag, step, wall, scalar)
    return [_run(Log(path, "tensorboard"), series)]


def _events(path: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length, checksum, data, checksum."""
    with _opened(path) as file:
        while len(head := file.read(12)) == 12:
            (size,) = struct.unpack("<Q", head[:8])
            if size > _MOST_RECORD:
                return
            data = file.read(size)
            if len(data) < size or len(file.read(4)) < 4:
                return  # the writer had not finished
            yield data


def _opened(path: Path) -> Any:
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.", "Name another file."
        ) from None


def _summary(data: bytes) -> Iterator[tuple[str, float]]:
    for field, value in protobuf.fields(data):
        if field != 1 or isinstance(value, int):
            continue
        tag, scalar = "", None
        for inner, content in protobuf.fields(value):
            if inner == 1:
                tag = protobuf.text(content)
            elif inner == 2:
                scalar = protobuf.real(content)
            elif inner == 8 and isinstance(content, bytes):
                scalar = _tensor(content)
        if tag and scalar is not None:
            yield tag[:200], scalar


def _tensor(data: bytes) -> float | None:
    """The one number of a tensor."""
    for field, value in protobuf.fields(data):
        if field in (4, 5, 6) and isinstance(value, bytes):
            return protobuf.real(value)
    return None


def _keep(series: Series, tag: str, step: int, wall: float, value: float) -> None:
    if len(series) < 5000:
        points = series.setdefault(tag, [])
        if len(points) < _MOST_POINTS and 0 <= step < 10**9 and 0 <= wall < 1e12:
            points.append((step, wall, value))


def _run(log: Log, series: Series, facts: dict[str, Any] | None = None) -> LogRun:
    """A run of scalars: its step time where one is logged, else the time between two steps."""
    for name, value in (facts or {}).items():
        if field := _COUNTS.get(name.rpartition("/")[2].rpartition(".")[2]):
            log.count(field, str(value).encode())
    has_points, series = bool(series), _over_steps(log, series)
    if has_points and not series:
        return log.run(problem="its scalars are over samples, so it has no steps")
    _put_loss(log, series)
    timed = next((tag for tag in series if _STEP_TIME.fullmatch(tag)), None)
    if timed:
        for step, _, value in series[timed]:
            log.step(step, value)
    else:
        _steps_by_clock(log, series)
    numbers = [point[0] for points in series.values() for point in points]
    final = max(numbers, default=0) + (min(numbers, default=1) == 0)  # steps may count from 0
    return log.run(
        iterations=final or None, problem="" if log.seconds else "fewer than two steps with a time"
    )


def _steps_by_clock(log: Log, series: Series) -> None:
    """The time between two points of the tag with most steps; points of one step are one moment."""
    points = max(series.values(), key=lambda found: len({step for step, _, _ in found}), default=[])
    last: tuple[int, float] | None = None
    for step, wall, _ in points:
        if last and step > last[0] and wall > last[1]:
            log.step(step, (wall - last[1]) / (step - last[0]))
        if last is None or step != last[0]:
            last = (step, wall)


def _over_steps(log: Log, series: Series) -> Series:
    """The scalars over steps; beside others, those of Megatron-LM say how many ranks there are."""
    series = {tag: points for tag, points in series.items() if not tag.startswith(_OF_MACHINE)}
    found = {tag: points for tag, points in series.items() if not _OVER_SAMPLES.search(tag)}
    for name, field in _MEGATRON_COUNTS.items() if len(found) < len(series) else ():
        values = {value for _, _, value in found.get(name, ())}
        if len(values) == 1:
            log.count(field, repr(values.pop()).encode())
    return found


def _put_loss(log: Log, series: Series) -> None:
    """The last loss, where it is a number, and how many are none."""
    tag = next((tag for tag in series if re.search(r"(^|/|_)(lm )?loss$", tag)), None)
    if tag is None:
        return
    losses = [value for _, _, value in series[tag]]
    log.nan = sum(map(math.isnan, losses))
    if losses and math.isfinite(losses[-1]):
        log.values["loss"] = losses[-1]


def read_mlflow(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run of an MLflow folder, by its meta.yaml."""
    folder = path.parent
    series: Series = {}
    for file in sorted((folder / "metrics").rglob("*"))[:2000]:
        if not file.is_file():
            continue
        tag = str(file.relative_to(folder / "metrics"))
        for line in read_text(file).splitlines():
            parts = [number(part) for part in line.split()]
            if len(parts) == 3 and parts[0] is not None and parts[2] is not None:
                value = parts[1] if parts[1] is not None else float("nan")
                _keep(series, tag, int(parts[2]), parts[0] / 1e3, value)
    params = {
        file.name: read_text(file)[:200].strip()
        for file in sorted((folder / "params").glob("*"))[:2000]
        if file.is_file()
    }
    log = Log(folder, "mlflow")
    run = _run(log, series, params)
    ended = re.search(r"^status: *['\"]?(\w+)", read_text(path), re.MULTILINE)
    if ended and ended[1] in ("4", "FAILED", "5", "KILLED"):
        return [
            log.run(iterations=run.iterations, outcome="crashed", detail="MLflow status: failed")
        ]
    return [run]


_GLOBAL_STEPS = ("trainer/global_step", "train/global_step", "global_step")


def read_wandb(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in the binary log of an offline W&B run.

    W&B counts its rows. Trainers that write one row in ten steps give the step beside it; then
    rows without it, such as those of a monitor, do not count.
    """
    by_row: Series = {}
    by_step: Series = {}
    facts: dict[str, Any] = {}
    for record in _wandb_records(path):
        for field, value in protobuf.fields(record):
            if field == 2 and isinstance(value, bytes):
                row = dict(_items(value))
                _wandb_history(by_row, row, row.get("_step"))
                known = (row[name] for name in _GLOBAL_STEPS if name in row)
                _wandb_history(by_step, row, next(known, None))
            elif field == 17 and isinstance(value, bytes):  # the run, with its config
                for inner, config in protobuf.fields(value):
                    if inner == 4 and isinstance(config, bytes):
                        facts |= dict(_flat(_items(config)))
            elif field == 5 and isinstance(value, bytes):
                facts |= dict(_flat(_items(value)))
    return [_run(Log(path, "wandb"), by_step or by_row, facts)]


def _flat(items: Iterable[tuple[str, Any]], depth: int = 2) -> Iterator[tuple[str, Any]]:
    """The values of nested dictionaries, by names with slashes."""
    for name, value in items:
        if isinstance(value, dict) and depth:
            yield from _flat(((f"{name}/{key}", one) for key, one in value.items()), depth - 1)
        else:
            yield name, value


def _items(data: bytes) -> Iterator[tuple[str, Any]]:
    """Keys and values of a history or a config: the key is field 1 or 2, its JSON field 16."""
    for field, value in protobuf.fields(data):
        if field != 1 or isinstance(value, int):
            continue
        key, found = "", None
        for inner, content in protobuf.fields(value):
            if inner == 1:
                key = protobuf.text(content)
            elif inner == 2:
                key = f"{key}/{protobuf.text(content)}" if key else protobuf.text(content)
            elif inner == 16:
                try:
                    found = json.loads(protobuf.text(content))
                except (ValueError, RecursionError):
                    found = None
        if key:
            yield key, found


def _wandb_history(series: Series, row: dict[str, Any], step: Any) -> None:
    wall = row.get("_timestamp", row.get("_runtime"))
    if not isinstance(step, int | float) or not isinstance(wall, int | float):
        return
    if not 0 <= step < 1e9:
        return
    for key, value in row.items():
        if isinstance(value, int | float) and not key.startswith("_"):
            _keep(series, key, int(step), float(wall), float(value))


def _wandb_records(path: Path) -> Iterator[bytes]:
    """The records of a LevelDB log: blocks of 32 KiB with parts of records."""
    with _opened(path) as file:
        at = len(file.read(7))  # ":W&B", a number and a version
        parts: list[bytes] = []
        while True:
            left = _BLOCK - at % _BLOCK
            if left < 7:
                at += len(file.read(left))
                continue
            head = file.read(7)
            if len(head) < 7:
                return
            size, kind = struct.unpack("<HB", head[4:])
            data = file.read(size)
            at += 7 + len(data)
            if len(data) < size or kind > 4:
                return
            if kind == 0:
                continue
            parts = [data] if kind in (1, 2) else [*parts, data]
            if sum(map(len, parts)) > _MOST_RECORD:
                return
            if kind in (1, 4):
                yield b"".join(parts)
                parts = []
