"""Hugging Face Trainer: its console and trainer_state.json. They give a run time, no step times."""

import math
import re
import statistics
from pathlib import Path
from typing import Any

from nodewise.importers.files import format_errors, read_json, read_start
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import LAUNCH, Rule, Seen, fact, rule, scan

SUMMARY = rb"['\"]train_runtime['\"]: ?['\"]?[\d.]"
_SAME_RUN = 1.05  # the ranks of a run print almost the same run time
_MOST_WIDTH = 0.05  # of an interval; in a wider one a whole number is likely by chance
_VALUE = re.compile(rb"['\"](train_\w{1,40}|epoch)['\"]: ?['\"]?(-?[\d.e+-]{1,24})")


def _summary(log: Log, found: "re.Match[bytes]") -> None:
    """The last line; every rank may print it."""
    for name, text in _VALUE.findall(found.string):
        log.values.setdefault(name.decode(), []).append(text.decode())


def _loss(log: Log, found: "re.Match[bytes]") -> None:
    value = number(found[1])
    if value is None or value != value:
        log.nan += 1
    else:
        log.values["loss"] = value


RULES: tuple[Rule, ...] = (
    rule("summary", "train_",
         r"['\"]train_(?:runtime|samples_per_second|steps_per_second)['\"]: ?['\"]?[\d.]",
         _summary, True),
    rule("loss", "loss", r"\{'loss': ?'?(-?[\d.e+-]{1,24}|nan|inf)", _loss, True),
    fact("batch per device", "batch size per device",
         r"Instantaneous batch size per device ?= ?([\d,]{1,12})", "per_device"),
    fact("batch", "otal train batch size", r"otal train batch size [^=]{0,80}= ?([\d,]{1,12})",
         "global_batch"),
    fact("accumulation", "radient", r"Gradient Accumulation steps ?= ?([\d,]{1,12})",
         "accumulation"),
    fact("steps", "optimization steps", r"Total optimization steps ?= ?([\d,]{1,12})",
         "iterations"),
    rule("parameters", "trainable parameters",
         r"Number of trainable parameters ?= ?([\d,]{1,20})",
         lambda log, m: log.size.setdefault("parameters", number(m[1]) or 0.0)),
    fact("world size", "world_size", r"(?<!\w)world_size \.{2,} *(\d{1,7})\b", "world_size"),
    fact("sequence", "block_size", r"--block_size[ =](\d{1,9})\b", "seq_length"),
    fact("sequence", "max_seq_length", r"--max_seq(?:_length|_len)[ =](\d{1,9})\b", "seq_length"),
    fact("positions", "n_positions", r"n_positions[\"']?[=:] ?(\d{1,9})\b", "positions"),
    fact("model maximum", "model_max_length", r"model_max_length[\"']?[=:] ?(\d{1,9})\b",
         "positions"),
    *LAUNCH,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in the console output."""
    log = scan(path, Log(path, "hf-console"), RULES, seen)
    runtimes = [value for text in log.values.pop("train_runtime", []) if (value := number(text))]
    rates = {name: log.values.pop(name, [""])[0] for name in _RATES}
    if not runtimes:
        return [log.run(problem="no train_runtime")]
    if max(runtimes) > _SAME_RUN * min(runtimes):
        return [log.run(problem="several runs follow each other: split the file")]
    runtime = statistics.median(runtimes)
    _from_rates(log, runtime, *rates.values())
    per_device, batch = log.get("per_device"), log.get("global_batch")
    if per_device and batch and batch % (per_device * (log.get("accumulation") or 1)) == 0:
        log.put("world_size", batch // (per_device * (log.get("accumulation") or 1)))
    # Without --block_size, run_clm cuts its text into blocks of 1024 where the model has as many.
    if log.get("seq_length") is None and log.get("positions") == 1024 and _uses_run_clm(path):
        log.put("seq_length", 1024)
    samples, length = number(rates[_RATES[0]]), log.get("seq_length")
    if samples and length:  # the last batch may be smaller: the rate counts, not the batch
        log.put("tokens_per_second", samples * length)
    return [_finish(log, runtime)]


_RATES = ("train_samples_per_second", "train_steps_per_second")


def _uses_run_clm(path: Path) -> bool:
    return b"run_clm" in read_start(path, 2**22)


def _finish(log: Log, runtime: float) -> LogRun:
    steps = log.get("iterations")
    return log.run(run_seconds=runtime, mean_step_seconds=runtime / steps if steps else None)


def _from_rates(log: Log, runtime: float, samples: str, steps: str) -> None:
    """The steps and the batch that the printed rates allow, where only one whole number does."""
    rate = _interval(steps)
    if rate and not log.get("iterations"):
        log.put("iterations", _only(rate[0] * runtime, rate[1] * runtime))
    many, done = _interval(samples), log.get("iterations")
    if many and done and not log.get("global_batch"):
        low, high = (rate * runtime / done for rate in many)
        log.put("global_batch", _only(low, high, _MOST_WIDTH))


def _interval(text: str) -> tuple[float, float] | None:
    """What a printed number may have been: rounded to 0.001, and since version 5 to four digits."""
    value = number(text)
    if value is None or value <= 0 or "e" in text:
        return None
    digits = sum(sign.isdecimal() for sign in text.lstrip("0."))
    few = 0.5 * 10.0 ** (math.floor(math.log10(value)) - 3) if digits <= 4 else 0.0
    half = max(few, 0.0005)
    return value - half, value + half


def _only(low: float, high: float, widest: float = 0.95) -> int | None:
    near = round((low + high) / 2)
    slack = 2e-4 * near  # of the run time, which is rounded as well
    fits = low - slack <= near <= high + slack
    alone = not (low - slack <= near - 1 or near + 1 <= high + slack)
    return near if fits and alone and near >= 1 and high - low < widest else None


def read_state(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a trainer_state.json."""
    state: dict[str, Any] = read_json(path, "a trainer_state.json", dict)
    log = Log(path, "hf-state")
    with format_errors(path):
        history = [entry for entry in state.get("log_history") or () if isinstance(entry, dict)]
        last = next((entry for entry in reversed(history) if "train_runtime" in entry), {})
        steps = state.get("global_step")
        if isinstance(steps, int) and 0 < steps < 10**9:
            log.put("iterations", steps)
        losses = [entry["loss"] for entry in history if "loss" in entry]
        log.nan = sum(not isinstance(one, int | float) or one != one for one in losses)
        log.put("loss", next((float(one) for one in reversed(losses)
                              if isinstance(one, int | float) and one == one), None))  # fmt: skip
        runtime = number(str(last.get("train_runtime")))
        if not runtime or runtime <= 0:
            return [log.run(problem="a checkpoint without train_runtime: the run had not ended")]
        if last.get("step") not in (None, steps):
            return [log.run(problem="train_runtime is of another step than the last one")]
        _from_rates(log, runtime, *(str(last.get(name, "")) for name in _RATES))
        batch, work = log.get("global_batch"), number(str(state.get("total_flos")))
        if batch and work and steps:
            log.size["FLOP per sample"] = work / (steps * batch)
    return [_finish(log, runtime)]
