"""torchtitan: its console, and its structured logs with one JSONL file for each rank."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nodewise.importers.logs.lines import lines
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Rule, Seen, fact, rank_of, rule, scan
from nodewise.importers.logs.warmup import steady
from nodewise.study.study import Rank, Stage

_NUMBER = r"([\d,.]{1,24})"
_MEMORY = re.compile(rb"memory: {0,4}([\d.]{1,12})GiB")
_TFLOPS = re.compile(rb"tflops: {0,4}([\d,.]{1,16})")
_LOSS = re.compile(rb"loss: {0,8}(-?[\d.]{1,16})")
_MESH = re.compile(r"\b(pp|dp_replicate|dp_shard|dp|cp|tp) ?= ?(\d{1,7})")


def _step(log: Log, found: "re.Match[bytes]") -> None:
    line = found.string
    rate = number(found[2])
    if not rate:
        return
    if log.is_new or not log.numbers:
        if not log.get("world_size"):
            log.put("world_size", log.get("launched"))
        tokens, world = log.get("tokens_per_step") or _tokens(log), log.get("world_size")
        # Where tokens or devices are unknown, the rate alone is kept: of one device.
        log.values["in_seconds"] = bool(tokens and world)
        log.factor = tokens / world if tokens and world else 1.0
    if log.step(int(found[1]), log.factor / rate, rank_of(line)):
        log.last = line
        log.nan += b"loss: nan" in line or b"loss:      nan" in line


_NUMBERS = re.compile(rb"step: {1,12}(\d{1,12}) ")
_RATES = (re.compile(rb"tps: {0,8}([\d,.]{1,24})"), re.compile(rb"wps: {0,8}([\d,.]{1,24})"))


def _all_steps(log: Log, block: bytes, count: int) -> bool:
    """The steps of a block; of one with a bad loss, each line is looked at."""
    if block.count(b"\n") != count or b"nan" in block:
        return False  # other lines between the steps: a rate may be theirs
    numbers = _NUMBERS.findall(block)
    rates = _RATES[b"tps:" not in block].findall(block)
    if not len(numbers) == len(rates) == count:
        return False
    try:
        values = np.array(b" ".join(rates).replace(b",", b"").split(), dtype=np.float64)
    except ValueError:
        return False
    if len(values) != count or not (values > 0).all():
        return False
    if not log.steps(numbers, log.factor / values):
        return False
    log.last = block[block.rfind(b"step:") :]
    return True


def _last_line(log: Log) -> None:
    """What the last step says of memory, rate and loss."""
    rate = re.search(rb"(?:tps|wps): {0,8}([\d,.]{1,24})", log.last)
    if memory := _MEMORY.search(log.last):
        log.put("memory_bytes", (number(memory[1]) or 0) * 2**30)
    if (flops := _TFLOPS.search(log.last)) and (value := number(flops[1])) and rate:
        log.size["TFLOP per token"] = value / (number(rate[1]) or 1.0)
    if loss := _LOSS.search(log.last):
        log.put("loss", number(loss[1]))


def _tokens(log: Log) -> float | None:
    local, data = log.get("local_batch"), log.get("dp")
    if local and data and not log.get("global_batch") and not log.get("accumulation"):
        log.put("global_batch", local * data)  # of versions without accumulation
    batch, length = log.get("global_batch"), log.get("seq_length")
    return float(batch * length) if batch and length else None


def _mesh(log: Log, found: "re.Match[bytes]") -> None:
    """`pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1`; ep divides dp_shard, cp and tp."""
    log.begin()
    sizes = {name: int(size) for name, size in _MESH.findall(found[1].decode("ascii", "replace"))}
    if not sizes:
        return
    log.put("world_size", math.prod(sizes.values()))
    log.put("tp", sizes.get("tp"))
    log.put("pp", sizes.get("pp"))
    data = [sizes[name] for name in ("dp_replicate", "dp_shard", "dp") if name in sizes]
    log.put("dp", math.prod(data) if data else None)


def _old_mesh(log: Log, found: "re.Match[bytes]") -> None:
    """`Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]`."""
    log.begin()
    names = re.findall(rb"'(\w{1,20})'", found[1])
    sizes = [int(size) for size in re.findall(rb"\d{1,7}", found[2])]
    if names and len(names) == len(sizes):
        log.put("world_size", math.prod(sizes))
        by_name = dict(zip(names, sizes, strict=True))
        data = [by_name[name] for name in (b"dp", b"dp_shard", b"dp_replicate") if name in by_name]
        log.put("dp", math.prod(data))
        log.put("tp", by_name.get(b"tp", 1))
        log.put("pp", by_name.get(b"pp", 1))


def _model(log: Log, found: "re.Match[bytes]") -> None:
    if count := number(found[1]):
        log.size["parameters"] = count


def _option(name: str, key: str, option: str, field: str) -> Rule:
    """An option of a command line in the log, `--training.seq_len 8192`."""
    return fact(name, key, rf"--training\.{option.replace('_', '[_-]')}[ =](\d{{1,12}})\b", field)


RULES = (
    rule("step", "step:", r"\bstep: {1,12}(\d{1,12})(?:/\d{1,12} = [\d.]{1,8}%)? .{0,200}?"
         rf"(?:tps|wps): {{0,8}}{_NUMBER}", _step, True, _all_steps),
    rule("mesh", "device mesh", r"device mesh with parallelism: ?(.{1,200})", _mesh, True),
    rule("mesh", "device mesh", r"device mesh with \[([^\]]{1,200})\], ?\[([\d, ]{1,200})\]",
         _old_mesh, True),
    rule("model", "total parameters", r"size: ?([\d,]{1,20}) total parameters", _model),
    fact("batch", "global batch size", r"global batch size:? ([\d,]{1,12})", "global_batch"),
    fact("batch", "local batch size", r"local batch size:? ([\d,]{1,12})", "local_batch"),
    fact("accumulation", "accumulation", r"accumulation steps:? ([\d,]{1,12})", "accumulation"),
    fact("sequence", "sequence length", r"sequence length:? ([\d,]{1,12})", "seq_length"),
    fact("sequence", "context length", r"maximum context length:? ([\d,]{1,12})", "seq_length"),
    rule("tokens", "tokens per train step", r"([\d,]{1,20}) tokens per train step",
         lambda log, m: log.put("tokens_per_step", number(m[1]))),
    _option("batch", "training.global", "global_batch_size", "global_batch"),
    _option("batch", "training.local", "local_batch_size", "local_batch"),
    _option("sequence", "training.seq", "seq_len", "seq_length"),
    fact("world size", "mpi", r"\bmpi(?:exec|run) (?!.*(?:torchrun|distributed))"
         r".{0,80}?-n(?:p)?[ =](\d{1,7})\b", "launched"),
    *LAUNCH, *PAUSES,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in the console output."""
    log = scan(path, Log(path, "torchtitan", "GPU"), RULES, seen)
    _last_line(log)
    tokens, length = log.get("tokens_per_step"), log.get("seq_length")
    if tokens and length and not log.get("global_batch") and tokens % length == 0:
        log.values["global_batch"] = int(tokens // length)
    last = log.numbers[-1] if log.numbers else None
    if log.seconds and not log.get("in_seconds"):
        run = log.run(iterations=last)
        problem = "its rate is of one device, and the log lacks the device mesh or the batch"
        return [msgspec.structs.replace(run, step_seconds=None, pauses=(), problem=problem)]
    return [log.run(iterations=last, problem="" if log.seconds else "no step line")]


_KEEP = ("step", "fetching_batch", "fwd_bwd", "optim", "eval", "checkpoint_save", "checkpoint")
_MOST_STEPS = 1_000_000


def read_jsonl(paths: list[Path], seen: Seen | None = None) -> list[LogRun]:
    """The run in the files of a folder, one for each rank."""
    spans: dict[int, dict[str, dict[int, float]]] = {}
    tokens: dict[int, dict[int, float]] = {}
    hosts: set[str] = set()
    tags: dict[int, str] = {}
    for path in paths:
        for event in _events(path):
            _add(event, spans, tokens, hosts, tags)
    log = Log(paths[0].parent if len(paths) > 1 else paths[0], "torchtitan-jsonl")
    ranks = sorted(spans)
    if not ranks or not any(spans[rank].get("step") for rank in ranks):
        return [log.run(problem="no step_end event with its time")]
    missing = [rank for rank in range(ranks[-1] + 1) if rank not in spans]
    common = sorted(set.intersection(*(set(spans[rank].get("step", {})) for rank in ranks)))
    if not common:
        return [log.run(problem="no step that every rank finished")]
    for step in common:
        if tags.get(step):
            log.mark("evaluation" if tags[step] == "eval" else "checkpoint")
        log.step(step, max(spans[rank]["step"][step] for rank in ranks))
    if missing:
        return [log.run(iterations=common[-1], problem=f"no file of rank {missing[0]}")]
    kept = common[steady(log.seconds).warmup or 0 :]
    summed = [sum(tokens.get(rank, {}).get(step, 0.0) for rank in ranks) for step in kept]
    log.put("world_size", len(ranks))
    log.put("nodes", len(hosts) or None)
    log.put("tokens_per_step", float(np.median(summed)) if min(summed) > 0 else None)
    return [log.run(iterations=common[-1], ranks=tuple(_ranks(spans, ranks, kept)))]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in lines(path):
        if b"log_type_name" not in line:
            continue
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # a line that was cut off
        if isinstance(event, dict):
            yield event


def _add(
    event: dict[str, Any],
    spans: dict[int, dict[str, dict[int, float]]],
    tokens: dict[int, dict[int, float]],
    hosts: set[str],
    tags: dict[int, str],
) -> None:
    rank, step = event.get("global_rank", event.get("rank")), event.get("step")
    if not isinstance(rank, int) or not 0 <= rank < 10**6 or not isinstance(step, int):
        return
    if len(hosts) < 10**5 and isinstance(event.get("host_name"), str):
        hosts.add(event["host_name"])
    name, value = str(event.get("log_type_name")), event.get("value")
    if not isinstance(value, int | float) or not 0 <= value < 1e12 or not 0 <= step < 10**9:
        return
    span = name.removesuffix("_end")
    if name.endswith("_end") and span in _KEEP:
        if span in ("eval", "checkpoint", "checkpoint_save"):
            tags[step] = span
        held = spans.setdefault(rank, {}).setdefault(span, {})
        if len(held) < _MOST_STEPS:
            held[step] = value / 1e3
    elif event.get("event_name") == "local_valid_tokens":
        tokens.setdefault(rank, {})[step] = float(value)


def _ranks(
    spans: dict[int, dict[str, dict[int, float]]], ranks: list[int], steps: list[int]
) -> Iterator[Rank]:
    """The median stages of each rank in a step.

    The optimizer span contains the wait for the slowest rank: what a rank has more of it than the
    one that has least is idle time.
    """
    common = set(steps)
    for span in ("fetching_batch", "fwd_bwd", "optim"):
        for rank in ranks:
            common &= set(spans[rank].get(span, {}))
    if not common:
        return
    kept = sorted(common)
    least = [min(spans[rank]["optim"][step] for rank in ranks) for step in kept]
    for rank in ranks:
        of = spans[rank]
        whole = _median(of["step"], kept)
        compute = _median(of["fwd_bwd"], kept) + float(np.median(least))
        waits = [of["optim"][step] - few for step, few in zip(kept, least, strict=True)]
        stages: dict[Stage, float] = {
            "compute": compute,
            "io": _median(of["fetching_batch"], kept),
            "idle": float(np.median(waits)),
        }
        stages["overhead"] = max(0.0, whole - sum(stages.values()))
        yield Rank(rank=rank, stages=stages, seconds=whole)


def _median(values: dict[int, float], steps: list[int]) -> float:
    return float(np.median([values[step] for step in steps]))
