"""Megatron-LM and its family: Megatron-DeepSpeed, Bridge, Primus; and NeMo.

The line of Megatron-LM gives a mean over `log_interval` iterations; the one of NeMo is of one step.
"""

import re
from array import array
from pathlib import Path

import msgspec
import numpy as np

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.rounded import interval, only, whole
from nodewise.importers.logs.scan import (
    LAUNCH,
    PAUSES,
    Seen,
    fact,
    rank_of,
    rule,
    scan,
    size,
    text_after,
)
from nodewise.importers.logs.timers import TIMERS, stages

_SKIPPED, _NAN = b"number of skipped iterations", b"number of nan iterations"
_SECONDS = (
    (b"elapsed time per iteration (ms)", 1e-3),
    (b"elapsed time per iteration (s)", 1.0),
    (b"elapsed time per iteration ms", 1e-3),  # with underscores and equals signs
)
_MOST_STEP_TIMES = 100_000
_FINE_STEP = 0.5  # seconds, of which a rounding to 0.01 s is 1 %
_BEGINS = 10.0  # usual steps that one takes where a program may begin
_DEVICE_RATE_ERROR = 2e-4  # of a rate that is printed with five digits or more
_NEMO_RATE_ERROR = 6e-4  # of a rate and a time that are printed with four digits
_DEVICE_RATES = (
    b"tokens/sec/gpu", b"tokens per GPU (tokens/s/GPU)", b"tgs (tokens/gpu/second)",
    b"tokens per gpu per second (tgs)", b"tokens per gpu per second(tgs)",
    b"tokens per gpu per second tgs",
    b"Tokens per second per GPU (Tok/s/GPU)",
)  # fmt: skip
_IS = r"(?: \.{2,} *|[:=] ?)"  # of Megatron-LM, and of a file in YAML


def _plain(line: bytes) -> bytes:
    """A line whose names have underscores and equals signs, with spaces and colons."""
    return line.replace(b"_", b" ").replace(b"=", b":")


def _step(log: Log, found: "re.Match[bytes]") -> None:
    """One iteration line: names, colons and values between bars, in any order."""
    line = found.string
    if b"elapsed_time_per_iteration" in line:
        line = _plain(line)
    seconds = None
    for label, unit in _SECONDS:
        if value := number(text_after(line, label).partition(b"/")[0]):  # Primus: this one/mean
            seconds = value * unit
            break
    if seconds is None or not log.step(int(found[1]), seconds, rank_of(line)):
        return
    log.last = line
    for label, name in ((_SKIPPED, "skipped"), (_NAN, "nan")):
        text = text_after(line, label)
        if text not in (b"0", b""):
            setattr(log, name, getattr(log, name) + int(number(text) or 0))
    batch = text_after(line, b"global batch size")
    if batch:
        log.keep_text(batch)
    else:
        _count_samples(log, text_after(line, b"consumed samples"))


_MANY = re.compile(
    rb"iteration +(\d{1,12})/ *(?:\d{1,12}|infinity) \|[^\n]{0,400}?"
    rb"elapsed time per iteration \(ms\): {0,8}([\d.]{1,16}) "
)


def _all_steps(log: Log, block: bytes, count: int) -> bool:
    """The steps of a block, where none was skipped and all have the batch that is known."""
    if len(log.texts) != 1 or not log.last:
        return False
    batch = re.escape(next(iter(log.texts)))
    same = re.search(rb"global batch size: {0,12}" + batch + rb" \|", log.last)
    ends = [re.search(label + rb": {0,8}0 \|", log.last) for label in (_SKIPPED, _NAN)]
    if not same or any(end and block.count(end[0]) != count for end in (same, *ends)):
        return False
    if any(
        end is None and label in block for end, label in zip(ends, (_SKIPPED, _NAN), strict=True)
    ):
        return False
    return _many_steps(log, block, _MANY.findall(block), b"elapsed time per iteration", 1e-3)


def _many_steps(
    log: Log, block: bytes, found: list[tuple[bytes, bytes]], key: bytes, unit: float
) -> bool:
    """Take the steps of a block, unless one of the lines with the key is not among them."""
    if len(found) != block.count(key):
        return False
    numbers, times = zip(*found, strict=True)
    try:
        seconds = np.array(times, dtype=np.float64) * unit
    except ValueError:
        return False
    if not log.steps(list(numbers), seconds):
        return False
    begin = block.rfind(b"\n", 0, block.rfind(key)) + 1
    log.last = block[begin : block.find(b"\n", begin)]
    return True


def _count_samples(log: Log, text: bytes) -> None:
    """The batch of a line that has none: what was consumed since the line before."""
    done = number(text) if text.isdigit() else None
    last, log.consumed = log.consumed, (log.numbers[-1], done) if done else None
    if last and done and log.numbers[-1] > last[0]:
        log.keep_text(b"%g" % ((done - last[1]) / (log.numbers[-1] - last[0])))


def _last_line(log: Log) -> None:
    """What the last step says of loss, sequence and rate."""
    log.put("loss", number(text_after(log.last, b"lm loss")))
    if length := number(text_after(log.last, b"actual seqlen")):
        log.values["seq_length"] = int(length)
    for label in (b"throughput per GPU (TFLOP/s/GPU)", b"TFLOPs"):
        if rate := number(text_after(log.last, label).partition(b"/")[0]):
            log.values["tflop"] = rate * log.seconds[-1]
    for label in _DEVICE_RATES:
        text = re.match(rb"[\d.]{1,16}", text_after(log.last, label))
        if text and (rate := number(text[0])):
            _use_device_rate(log, rate * log.seconds[-1])


def _use_device_rate(log: Log, tokens: float) -> None:
    """The devices, or the tokens of a step, by the tokens of one device in a step."""
    batch, length, world = (log.get(name) for name in ("global_batch", "seq_length", "world_size"))
    if batch and length and not world:
        near = round(batch * length / tokens)
        if near and abs(batch * length / tokens / near - 1) < _DEVICE_RATE_ERROR and near < 2000:
            log.put("world_size", near)
    elif world and not length:
        log.put("tokens_per_step", tokens * world)


def _begin(log: Log, found: "re.Match[bytes]") -> None:
    log.begin()
    log.count("world_size", found[1])
    if found[2]:  # of versions before 2021
        log.count("tp", found[2])


def _world(log: Log, found: "re.Match[bytes]") -> None:
    """The argument; the configuration of DeepSpeed calls the data-parallel ranks its world."""
    if b"config.py" not in found.string:
        log.count("world_size", found[1])


def _batch_of_pipeline(log: Log, found: "re.Match[bytes]") -> None:
    """`iter time (s): 0.994 samples/sec: 257.601`, a line of DeepSpeed's pipeline."""
    time, rate = (interval(found[at].decode()) for at in (1, 2))
    if time and rate and not log.get("pipeline_batch"):
        log.put("pipeline_batch", only(rate[0] * time[0], rate[1] * time[1]))


def _step_time(log: Log, found: "re.Match[bytes]") -> None:
    """`Step Time : 6.13s GPU utilization: ...` of Megatron-Bridge, beside its iteration line."""
    rank, held = rank_of(found.string), log.timers.setdefault(("Step Time", ""), array("d"))
    if log.values.setdefault("timed rank", rank) == rank and len(held) < _MOST_STEP_TIMES:
        held.append(number(found[1]) or 0.0)


def _without_iterations(log: Log) -> LogRun | None:
    """A run of which only the step times are kept: their steps have no numbers."""
    held = log.timers.get(("Step Time", ""))
    if log.seconds or not held:
        return None
    for at, seconds in enumerate(held, 1):
        log.step(at, seconds)
    run = log.run()
    problem = ""
    if run.step_seconds and run.step_seconds < _FINE_STEP:
        problem = "its step times are rounded to 0.01 s, which is too coarse for such short steps"
    elif run.step_seconds and any(one.seconds > _BEGINS * run.step_seconds for one in run.pauses):
        problem = "a very slow step amid the others: if another run begins there, split the file"
    if not problem:
        return run
    return msgspec.structs.replace(run, step_seconds=None, pauses=(), problem=problem)


_SIZES = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "num_experts")
_HEADER = (
    rule("beginning", "using world size",
         r"using world size: ?(\d{1,7})(?: and model-parallel size: ?(\d{1,7}))?", _begin, True),
    fact("data parallel", "data-parallel", r"data-parallel[- ]size: ?(\d{1,7})", "dp"),
    fact("world size", "rank-", r"\[rank-\d{1,7}/(\d{1,7})\]", "world_size"),
    fact("tensor parallel", "tensor_model", rf"(?<!\w)tensor_model_parallel_size{_IS}(\d{{1,7}})\b",
         "tp"),
    fact("pipeline parallel", "pipeline_model",
         rf"(?<!\w)pipeline_model_parallel_size{_IS}(\d{{1,7}})\b", "pp"),
    fact("tensor parallel", "initialized tensor",
         r"initialized tensor model parallel with size (\d{1,7})\b", "tp"),
    fact("pipeline parallel", "initialized pipeline",
         r"initialized pipeline model parallel with size (\d{1,7})\b", "pp"),
    fact("tensor parallel", "tensor-model", r"tensor-model-parallel size: ?(\d{1,7})", "tp"),
    fact("pipeline parallel", "pipeline-model",
         r"pipeline-model-parallel size: ?(\d{1,7})", "pp"),
    fact("sequence", "seq_length", rf"(?<![\w-])seq_length{_IS}(\d{{1,9}})\b", "seq_length"),
    fact("batch", "global_batch_size", rf"(?<!\w)global_batch_size{_IS}(\d{{1,9}})\b",
         "batch_argument"),
    rule("world size", "world_size", rf"(?<!\w)world_size{_IS}(\d{{1,7}})\b", _world),
    fact("tensor parallel", "model_parallel", rf"(?<!\w)model_parallel_size{_IS}(\d{{1,7}})\b",
         "tp"),
    fact("pipeline parallel", "pipe_parallel", rf"(?<!\w)pipe_parallel_size{_IS}(\d{{1,7}})\b",
         "old_pp"),
    fact("batch", "train_batch_size", rf"(?<!\w)train_batch_size{_IS}(\d{{1,9}})\b",
         "deepspeed_batch"),
    *(size(name, name, rf"(?<!\w){name}{_IS}(\d{{1,9}})\b") for name in _SIZES),
)  # fmt: skip
_STEP = r"iteration[ =]+(\d{1,12})/ *(?:\d{1,12}|infinity) \|"
RULES = (
    rule("step", "elapsed time per iteration", _STEP, _step, True, _all_steps),
    rule("step", "elapsed_time_per_iteration", _STEP, _step, True),
    rule("step time", "Step Time", r"Step Time ?: ?([\d.]{1,12}) ?s\b", _step_time, True),
    rule("batch", "iter time (s): ", r"iter time \(s\): ([\d.]{1,16}) samples/sec: ([\d.]{1,16})",
         _batch_of_pipeline, True),
    *TIMERS, *_HEADER, *LAUNCH, *PAUSES,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a log of Megatron-LM."""
    log = scan(path, Log(path, "megatron", "GPU"), RULES, seen)
    _one_batch(log)
    for name in ("batch_argument", "deepspeed_batch", "pipeline_batch"):
        if not log.texts and log.get(name):
            log.values.setdefault("global_batch", log.get(name))
    _old_layout(log)
    if unnumbered := _without_iterations(log):
        return [unnumbered]
    _last_line(log)
    return [_finish(log)]


def _old_layout(log: Log) -> None:
    """The layout of Megatron-DeepSpeed before 2021, which knows tensor, pipeline and data."""
    pipeline, tensor, world = (log.get(name) for name in ("old_pp", "tp", "world_size"))
    if pipeline and tensor and world and world % (pipeline * tensor) == 0:
        log.put("pp", pipeline)
        log.put("dp", world // (pipeline * tensor))


def _one_batch(log: Log) -> None:
    """The batch, unless it changes: a ramp has several."""
    if len(log.texts) == 1:
        log.count("global_batch", next(iter(log.texts)))


def _finish(log: Log) -> LogRun:
    problem = "" if log.seconds else "no iteration line with its time"
    run = log.run(iterations=log.numbers[-1] if log.numbers else None, problem=problem)
    parts = stages(log, run.step_seconds, has_pipeline=run.pp != 1)
    run = msgspec.structs.replace(run, stages=parts) if parts else run
    tflop = log.get("tflop")
    if tflop and run.world_size and run.tokens_per_step and len(run.size) < 2:
        run.size["TFLOP per token"] = tflop * run.world_size / run.tokens_per_step
    return run


_NEMO_FIELD = {
    b"reduced_train_loss": "loss",
    b"max_memory_allocated": "memory_bytes",
    b"peak_memory_usage": "memory_bytes",
}
_FIELD = re.compile(rb"([A-Za-z_][\w /-]{0,40}?)\"?\s?[:=]\s?([-+\w.]{1,40})")


_NEMO_STEP = re.compile(rb"global_step\"?[:=] ?([\d.]{1,16}(e\+?\d{1,2})?)")
_NEMO_COUNT = re.compile(rb"iteration (\d{1,12})/\d|\| (\d{1,12})/\d{1,12} \[")
_NEMO_ROUNDING = 0.005  # of a number in a progress bar, which has three digits: 2e+3
_NEMO_BATCH = re.compile(rb"global_batch_size\"?[:=] ?([\w.]{1,16})")
_NEMO_CONSUMED = re.compile(rb"consumed_samples\"?[:=] ?(\d{1,18})(?:\.0)?(?![\d.e])")
_NEMO_BAD_LOSS = re.compile(rb"reduced_train_loss\"?[:=] ?(?:nan|inf)", re.IGNORECASE)


def _nemo_number(line: bytes) -> int | None:
    """The number of a step, from 0; where it is rounded, one less than the bar has counted."""
    said, count = _NEMO_STEP.search(line), _NEMO_COUNT.search(line)
    value = number(said[1]) if said else None
    if said and value is not None and not said[2]:
        return int(value)
    if count is None or count[1]:
        return int(count[1]) if count else None
    done = int(count[2])
    return done - 1 if value and abs(done / value - 1) <= _NEMO_ROUNDING else None


def _nemo_step(log: Log, found: "re.Match[bytes]") -> None:
    """A line of NeMo 2 (name: value between bars) or the progress bar of NeMo 1 (name=value)."""
    line = found.string
    seconds, at = number(found[1]), _nemo_number(line)
    if seconds is None or at is None or not log.step(at, seconds, rank_of(line)):
        return
    log.last = line
    if batch := _NEMO_BATCH.search(line):
        log.keep_text(batch[1])
    else:
        consumed = _NEMO_CONSUMED.search(line)
        _count_samples(log, consumed[1] if consumed else b"")
    log.nan += _NEMO_BAD_LOSS.search(line) is not None


_NEMO_MANY = re.compile(
    rb"iteration \d{1,12}/\d{1,12} \|[^\n]{0,200}?\| global_step: (\d{1,12}) \|[^\n]{0,400}?"
    rb"train_step_timing in s: ([\d.e+-]{1,16})[ \n]"
)


def _all_nemo_steps(log: Log, block: bytes, count: int) -> bool:
    """The steps of a block, where all have the batch that is known and none has a bad loss."""
    if len(log.texts) != 1 or b"nan" in block or b"inf" in block:
        return False
    if block.count(b"global_batch_size: " + next(iter(log.texts)) + b" |") != count:
        return False
    return _many_steps(log, block, _NEMO_MANY.findall(block), b"train_step_timing in s", 1.0)


def _one_nemo_batch(log: Log) -> None:
    """The batch; of a log with one line, what was consumed over the steps, where only that fits."""
    _one_batch(log)
    if log.texts or len(log.numbers) != 1 or not log.consumed:
        return
    steps, samples = log.numbers[0], log.consumed[1]
    if samples % (steps + 1) == 0 and (steps == 0 or samples % steps):
        log.put("global_batch", int(samples // (steps + 1)))


def _nemo_last_line(log: Log) -> None:
    """What the last step says of loss, memory and rate."""
    fields = {name.strip(): value for name, value in _FIELD.findall(log.last)}
    for name, field in _NEMO_FIELD.items():
        if (value := number(fields.get(name))) is not None:
            log.values[field] = value
    if (rate := number(fields.get(b"tokens_per_sec_per_gpu"))) and log.seconds:
        log.values["rate"] = rate * log.seconds[-1]  # tokens of one GPU in a step


_NEMO_RULES = (
    rule("step", "train_step_timing in s", r"train_step_timing in s\"?[:=] ?([\d.e+-]{1,24})",
         _nemo_step, True, _all_nemo_steps),
    fact("world size", "MEMBER", r"MEMBER: ?\d{1,7}/(\d{1,7})", "world_size"),
    fact("world size", "rocesses", r"Starting with (\d{1,7}) processes", "world_size"),
    fact("world size", "world_size", r"(?<!\w)world_size[:=] ?(\d{1,7})\b", "world_size"),
    fact("sequence", "seq_length", r"(?<![\w-])(?:seq_length|encoder_seq_length)[:=] ?(\d{1,9})\b",
         "seq_length"),
    fact("tensor parallel", "tensor_model", r"(?<!\w)tensor_model_parallel_size[:=] ?(\d{1,7})\b",
         "tp"),
    fact("pipeline parallel", "pipeline_model",
         r"(?<!\w)pipeline_model_parallel_size[:=] ?(\d{1,7})\b", "pp"),
    *LAUNCH, *PAUSES[:2],
)  # fmt: skip


def read_nemo(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a log of NeMo; its steps count from 0."""
    log = scan(path, Log(path, "nemo", "GPU"), _NEMO_RULES, seen)
    _one_nemo_batch(log)
    _nemo_last_line(log)
    per_gpu = log.values.pop("rate", None)
    tokens = (log.get("global_batch") or 0) * (log.get("seq_length") or 0)
    if per_gpu and tokens:
        log.put("world_size", whole(tokens / per_gpu, _NEMO_RATE_ERROR))
    problem = "" if log.seconds else "no line with train_step_timing"
    last = log.numbers[-1] + 1 if log.numbers else None
    return [log.run(iterations=last, problem=problem)]
