"""DeepSpeed without a framework around it: throughput lines and wall_clock_breakdown."""

import re
from array import array
from pathlib import Path

import numpy as np

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.rounded import interval, only
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Seen, fact, rank_of, rule, scan
from nodewise.study.study import Stage

_MOST = 100_000  # steps whose parts are kept
_TIMER = re.compile(rb"\b((?:fwd|forward|bwd|backward)(?:_allreduce)?|step): ([\d.]{1,16})")


def _rate(log: Log, found: "re.Match[bytes]") -> None:
    """`epoch=0/micro_step=40/global_step=10, RunningAvg..., CurrSamplesPerSec=...`."""
    rate, batch = number(found[2]), log.get("global_batch")
    if rate and log.step(int(found[1]), (batch or 1.0) / rate, rank_of(found.string)):
        log.values["in_seconds"] = bool(batch)
        log.last = found.string


_RATE = (
    r"(?:global_step=|\b\d{1,9}/)(\d{1,12}), RunningAvgSamplesPerSec=[^,]{1,40}, "
    r"CurrSamplesPerSec=([\d.e+-]{1,30})"
)
_RATES = re.compile(_RATE.replace(r"(?:global_step=|\b\d{1,9}/)", "[=/]").encode())  # faster


def _all_rates(log: Log, block: bytes, count: int) -> bool:
    """The steps of a block that has no other lines of a rule."""
    found = _RATES.findall(block)
    if len(found) != count:
        return False
    numbers, texts = zip(*found, strict=True)
    try:
        rates = np.array(texts, dtype=np.float64)
    except ValueError:
        return False
    batch = log.get("global_batch")
    if not (rates > 0).all() or not log.steps(list(numbers), (batch or 1.0) / rates):
        return False
    log.values["in_seconds"] = bool(batch)
    log.last = block[block.rfind(b"CurrSamplesPerSec") :]
    return True


def _skipped(log: Log, found: "re.Match[bytes]") -> None:
    """`step=20, skipped=0, lr=[...]`: both count from the beginning."""
    log.values["last"], log.skipped = int(found[1]), int(found[2])


def _name(text: bytes) -> str:
    """The name of a timer as newer versions have it."""
    return text.replace(b"forward", b"fwd").replace(b"backward", b"bwd").decode()


def _pipeline(log: Log, found: "re.Match[bytes]") -> None:
    """`steps: 20 loss: 4.6178 iter time (s): 0.994 samples/sec: 257.601`."""
    seconds = number(found[2])
    if not seconds or not log.step(int(found[1]), seconds, rank_of(found.string)):
        return
    log.values["in_seconds"] = True
    rate, time = (interval(found[at].decode()) for at in (3, 2))
    if rate and time:
        log.put("global_batch", only(rate[0] * time[0], rate[1] * time[1]))


def _breakdown(log: Log, found: "re.Match[bytes]") -> None:
    """`time (ms) | fwd: 12.1 | bwd: 33.0 | bwd_inner: ... | bwd_allreduce: ... | step: 8.1`."""
    if len(log.timers.get(("step", ""), ())) >= _MOST:
        return
    rank = rank_of(found.string)
    if log.values.setdefault("timed rank", rank) != rank:
        return  # another rank printed the same step
    parts = {_name(name): number(value) for name, value in _TIMER.findall(found.string)}
    if {"fwd", "bwd", "step"} <= parts.keys():
        for name, value in parts.items():
            log.timers.setdefault((name, ""), array("d")).append((value or 0.0) / 1e3)


RULES = (
    rule("step", "CurrSamplesPerSec", _RATE, _rate, True, _all_rates),
    rule("breakdown", "time (ms) |", r"time \(ms\) \| .{0,40}(?:fwd|forward): ", _breakdown, True),
    rule("step", "iter time (s): ",
         r"steps: (\d{1,12}) loss: \S{1,24} (?:\w{1,20} loss: \S{1,24} ){0,4}iter time \(s\): "
         r"([\d.]{1,16}) samples/sec: ([\d.]{1,16})", _pipeline, True),
    rule("skipped", "skipped=", r"\bstep=(\d{1,12}), skipped=(\d{1,12})\b", _skipped, True),
    fact("batch", "train_batch_size", r"(?<!\w)train_batch_size[ .\"':]{1,40}(\d{1,9})\b",
         "global_batch"),
    fact("world size", "world_size", r"(?<!\w)world_size[ .\"':=]{1,40}(\d{1,7})\b", "world_size"),
    *LAUNCH, *PAUSES,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a log of DeepSpeed."""
    log = scan(path, Log(path, "deepspeed", "GPU"), RULES, seen)
    if memory := re.search(rb"MaxMemAllocated=([\d.]{1,12})GB", log.last):
        log.put("memory_bytes", (number(memory[1]) or 0.0) * 2**30)
    last = log.numbers[-1] if log.numbers else log.get("last")
    stages: dict[Stage, float] = {}
    medians = {name: float(np.median(values)) for (name, _), values in log.timers.items()}
    if medians:
        sent = medians.get("bwd_allreduce", 0.0)
        stages = {
            "compute": max(0.0, medians["fwd"] + medians["bwd"] + medians["step"] - sent),
            "communication": sent,
        }
    if not log.seconds or not log.get("in_seconds"):
        log.seconds, log.numbers = log.seconds[:0], log.numbers[:0]
        timers = [log.timers.get((name, ""), array("d")) for name in ("fwd", "bwd", "step")]
        for at, parts in enumerate(zip(*timers, strict=True)):
            log.step(at, sum(parts))
    problem = "" if log.seconds else "samples per second without train_batch_size"
    if not log.seconds and last is None:
        problem = "no line with step times"
    run = log.run(iterations=last, problem=problem)
    if stages and run.step_seconds and sum(stages.values()) <= 1.02 * run.step_seconds:
        run = log.run(iterations=last, stages=stages)
    return [run]
