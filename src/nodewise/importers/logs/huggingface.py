"""Hugging Face Trainer: its console and trainer_state.json. They give a run time, no step times."""

import math
import re
import statistics
from pathlib import Path
from typing import Any

from nodewise.importers.files import format_errors, read_json, read_start
from nodewise.importers.logs.record import Log, LogRun, clock_seconds, number
from nodewise.importers.logs.rounded import Interval, only
from nodewise.importers.logs.scan import LAUNCH, Rule, Seen, fact, rule, scan

_SAME_RUN = 1.05  # the ranks of a run print almost the same run time
_MOST_BARS = 1000
_BAR_SECONDS = 2.0  # by which a progress bar may differ from the run time
_WHOLE_EPOCH = 0.9  # a last step may be left out, so that 0.98 of an epoch are reported
_MOST_EPOCHS = 100.0  # of a run that does not say how many it took
_MOST_WIDTH = 0.05  # of an interval; in a wider one a whole number is likely by chance
_VALUE = re.compile(rb"['\"](train_\w{1,40}|epoch)['\"]: ?['\"]?(-?[\d.e+-]{1,24})")
_LEAST_STEP = 2e-4  # seconds; the Trainer itself takes longer
_MEAN_ERROR = 0.003  # of a step time that follows from a printed rate


def _summary(log: Log, found: "re.Match[bytes]") -> None:
    """The last line; every rank may print it."""
    for name, text in _VALUE.findall(found.string):
        log.values.setdefault(name.decode(), []).append(text.decode())


def _metric(log: Log, found: "re.Match[bytes]") -> None:
    """A row of `***** train metrics *****`: its run time is a clock, 1 day, 2:03:04.56."""
    text = found[3].decode()
    if b":" in found[3]:
        text = repr(86400 * int(found[2] or 0) + (clock_seconds(text) or 0.0))
    if log.get("metrics") == b"train":
        log.values.setdefault(found[1].decode(), []).append(text)


def _loss(log: Log, found: "re.Match[bytes]") -> None:
    log.end_header()
    if found[1] in (b"nan", b"inf"):
        log.nan += 1
    else:
        log.last = found[1]


def _bar(log: Log, found: "re.Match[bytes]") -> None:
    """A progress bar: the last one of each number of steps counts."""
    bars = log.values.setdefault("bars", {})
    if found[2] in bars or len(bars) < _MOST_BARS:
        bars[found[2]] = (found[1], found[3])


_LOSS = r"\{'loss': ?'?(-?[\d.e+-]{1,24}|nan|inf)"
_BAR = r"%(?:\|[^\n|]{0,900}\|)? *(\d{1,12})/(\d{1,12}) \[([\d:]{4,12})<"
_LOSSES, _BARS = re.compile(_LOSS.encode()), re.compile(_BAR.encode())


def _all_losses(log: Log, block: bytes, count: int) -> bool:
    found = _LOSSES.findall(block)
    bad = found.count(b"nan") + found.count(b"inf")
    log.nan += bad
    if bad < len(found):
        log.last = next(text for text in reversed(found) if text not in (b"nan", b"inf"))
    return True


def _all_bars(log: Log, block: bytes, count: int) -> bool:
    bars = log.values.setdefault("bars", {})
    for done, total, clock in _BARS.findall(block):
        if total in bars or len(bars) < _MOST_BARS:
            bars[total] = (done, clock)
    return True


RULES: tuple[Rule, ...] = (
    rule("summary", "train_",
         r"['\"]train_(?:runtime|samples_per_second|steps_per_second)['\"]: ?['\"]?[\d.]",
         _summary, True),
    *(rule("summary", f"  {mark}epoch{mark}",
           rf"^\s{{1,40}}{mark}epoch{mark}: ?[\d.]{{1,24}},?\s*$", _summary, True)
      for mark in ("'", '"')),
    rule("metrics", " metrics *", r"\*{5} (\w{1,20}) metrics \*{5}",
         lambda log, m: log.values.update(metrics=m[1]), True),
    *(rule("metrics", key, r"(?<!\w)(train_\w{1,40}|epoch) {1,40}= {1,40}(?:(\d{1,4}) days?, )?"
           r"([\d.:]{1,24})\s*$", _metric, True) for key in ("train_", "epoch  ")),
    rule("loss", "'loss'", _LOSS, _loss, True, _all_losses, True),
    fact("batch per device", "batch size per device",
         r"Instantaneous batch size per device ?= ?([\d,]{1,12})", "per_device"),
    fact("batch", "otal train batch size", r"otal train batch size [^=]{0,80}= ?([\d,]{1,12})",
         "global_batch"),
    fact("batch", "train_batch_size", r"(?<!\w)train_batch_size \.{2,} *(\d{1,9})\b",
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
    fact("steps asked for", "max_steps", r"--max_steps[ =](\d{1,9})\b", "max_steps"),
    rule("progress bar", "%", _BAR, _bar, True, _all_bars, True),
    rule("steps", "global_step=", r"(?:TrainOutput\(|^\s{1,40})global_step=(\d{1,12}),",
         lambda log, m: log.count("output", m[1]), True),
    fact("tensor parallel", "tensor_parallel", r"--tensor_parallel_size[ =](\d{1,7})\b", "tp"),
    fact("resumed", "ontinuing training", r"Continuing training from global step (\d{1,12})",
         "resumed"),
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
    epochs = number(log.values.pop("epoch", [""])[0])
    loss = number(log.last)
    if loss is not None:
        log.values["loss"] = loss
    if not runtimes:
        return [log.run(problem="no train_runtime")]
    if max(runtimes) > _SAME_RUN * min(runtimes):
        return [log.run(problem="several runs follow each other: split the file")]
    runtime = statistics.median(runtimes)
    is_whole = _count_steps(log, runtime, rates)
    _from_rates(log, runtime, (rates[_RATES[0]], rates[_RATES[1]]), epochs)
    per_device, batch = log.get("per_device"), log.get("global_batch")
    if per_device and batch and batch % (per_device * (log.get("accumulation") or 1)) == 0:
        copies = batch // (per_device * (log.get("accumulation") or 1))
        log.put("world_size", copies * (log.get("tp") or 1))
    # Without --block_size, run_clm cuts its text into blocks of 1024 where the model has as many.
    if log.get("seq_length") is None and log.get("positions") == 1024 and _uses_run_clm(path):
        log.put("seq_length", 1024)
    samples, length = number(rates[_RATES[0]]), log.get("seq_length")
    if (
        samples and length and is_whole
    ):  # the last batch may be smaller: the rate counts, not the batch
        log.put("tokens_per_second", samples * length)
    return [_finish(log, runtime)]


_RATES = ("train_samples_per_second", "train_steps_per_second")


def _count_steps(log: Log, runtime: float, rates: dict[str, str]) -> bool:
    """The steps by the progress bar of the run, or by --max_steps; whether it ran all it planned.

    The printed rates are those of all planned steps, also where a run ended early or was resumed.
    Before version 4.5 the only rate counted steps, though it is called samples per second.
    """
    bars: dict[bytes, tuple[bytes, bytes]] = log.values.pop("bars", {})
    near = {(int(total), int(done)) for total, (done, clock) in bars.items()
            if (taken := clock_seconds(clock.decode())) is not None
            and abs(taken - runtime) <= _BAR_SECONDS}  # fmt: skip
    if log.get("output"):
        near = {(log.get("output"), log.get("output"))}
    if len(near) == 1 and log.get("iterations") in (None, *(total for total, _ in near)):
        log.values["iterations"], log.values["done"] = near.pop()
    if not rates[_RATES[1]]:
        rate, asked = number(rates[_RATES[0]]), log.get("max_steps")
        rates[_RATES[0]] = ""
        if rate and asked and not log.get("iterations") and abs(rate * runtime / asked - 1) < 1e-3:
            log.put("iterations", asked)
    return not log.get("resumed") and log.get("done") in (None, log.get("iterations"))


def _uses_run_clm(path: Path) -> bool:
    return b"run_clm" in read_start(path, 2**22)


def _finish(log: Log, runtime: float) -> LogRun:
    last = log.get("done") or log.get("iterations")
    steps = last - (log.get("resumed") or 0) if last else 0
    rate = log.values.pop("rate", None)
    mean = runtime / steps if steps > 0 else 1 / rate if rate and not last else None
    if mean is not None and mean < _LEAST_STEP:
        return log.run(problem="no step takes so little: the run was resumed at its end")
    return log.run(run_seconds=runtime, mean_step_seconds=mean, iterations=last)


def _from_rates(log: Log, runtime: float, rates: tuple[str, str], epochs: float | None) -> None:
    """The steps and the batch that the printed rates allow, where only one whole number does.

    Where several numbers of steps fit, their rate may still be exact enough for a mean step.
    """
    samples, rate = _interval(rates[0]), _interval(rates[1])
    if rate and not log.get("iterations"):
        log.put("iterations", only(rate[0] * runtime, rate[1] * runtime))
    done = log.get("iterations")
    if rate and not done and rate[1] <= (1 + _MEAN_ERROR) * rate[0]:
        log.values["rate"] = sum(rate) / 2
    if done:
        rate = done / runtime, done / runtime
    if samples and rate and (done or log.get("rate")) and not log.get("global_batch"):
        mean = samples[0] / rate[1], samples[1] / rate[0]
        steps = done or int(rate[0] * runtime)
        log.put("global_batch", _batch(mean, steps, epochs, log.get("per_device") or 1))


def _batch(mean: Interval, steps: int, epochs: float | None, grain: int) -> int | None:
    """The batch by the mean samples of a step, though an epoch may end with a smaller one.

    225 samples in batches of 16 are 15 a step. An epoch of N samples and n steps has a batch
    between N / (n + 1), where the last one is left out, and N / (n - 1), where it is small. The
    batch is a multiple of `grain`, that of one device. A run that ends within its first epoch
    has no smaller batch.
    """
    if epochs is not None and epochs < _WHOLE_EPOCH:
        return only(*mean, _MOST_WIDTH)
    per_epoch = steps / max(1.0, math.ceil(epochs or _MOST_EPOCHS))
    if per_epoch <= 1:
        return None
    low, high = mean[0] * per_epoch / (per_epoch + 1), mean[1] * per_epoch / (per_epoch - 1)
    first, last = math.ceil(low / grain), math.floor(high / grain)
    return first * grain if first == last else None


def _interval(text: str) -> tuple[float, float] | None:
    """What a printed number may have been: rounded to 0.001, and since version 5 to four digits."""
    value = number(text)
    if value is None or value <= 0 or "e" in text:
        return None
    digits = sum(sign.isdecimal() for sign in text.lstrip("0."))
    few = 0.5 * 10.0 ** (math.floor(math.log10(value)) - 3) if digits <= 4 else 0.0
    half = max(few, 0.0005)
    return value - half, value + half


def read_state(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a trainer_state.json."""
    state: dict[str, Any] = read_json(path, "a trainer_state.json", dict)
    log = Log(path, "hf-state")
    with format_errors(path):
        history = [entry for entry in state.get("log_history") or () if isinstance(entry, dict)]
        last = next((entry for entry in reversed(history) if "train_runtime" in entry), {})
        steps, planned = state.get("global_step"), state.get("max_steps")
        if isinstance(steps, int) and 0 < steps < 10**9:
            log.put("done", steps)
            is_longer = isinstance(planned, int) and steps < planned < 10**9
            log.put("iterations", planned if is_longer else steps)
        losses = [entry["loss"] for entry in history if "loss" in entry]
        log.nan = sum(not isinstance(one, int | float) or one != one for one in losses)
        log.put("loss", next((float(one) for one in reversed(losses)
                              if isinstance(one, int | float) and one == one), None))  # fmt: skip
        runtime = number(str(last.get("train_runtime")))
        if not runtime or runtime <= 0:
            problem = "a checkpoint without train_runtime: the run had not ended"
            return [log.run(iterations=log.get("done"), problem=problem)]
        if last.get("step") not in (None, steps):
            problem = "train_runtime is of another step than the last one"
            return [log.run(iterations=log.get("done"), problem=problem)]
        log.count("per_device", str(state.get("train_batch_size")).encode())
        if _RATES[1] in last:
            rates = str(last.get(_RATES[0], "")), str(last[_RATES[1]])
            _from_rates(log, runtime, rates, number(str(last.get("epoch"))))
        batch, work = log.get("global_batch"), number(str(state.get("total_flos")))
        if batch and work and steps:
            log.size["FLOP per sample"] = work / (steps * batch)
    return [_finish(log, runtime)]
