"""Megatron-LM and its family: Megatron-DeepSpeed, Bridge, Primus; and NeMo.

The line of Megatron-LM gives a mean over `log_interval` iterations; the one of NeMo is of one step.
"""

import re
from pathlib import Path

from nodewise.importers.logs.record import Log, LogRun, number
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

STEP = rb"iteration +\d{1,12}/ *(?:\d{1,12}|infinity) \|[^\n]{0,200}?elapsed time per iteration"
NEMO_STEP = rb"train_step_timing in s[:=] ?[\d.]"
_SKIPPED, _NAN = b"number of skipped iterations", b"number of nan iterations"
_SECONDS = ((b"elapsed time per iteration (ms)", 1e-3), (b"elapsed time per iteration (s)", 1.0))
_DOTS = r" \.{2,} *"


def _step(log: Log, found: "re.Match[bytes]") -> None:
    """One iteration line: names, colons and values between bars, in any order."""
    line = found.string
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
    if batch and batch not in log.texts:
        log.texts.add(batch)


def _last_line(log: Log) -> None:
    """What the last step says of loss, sequence and rate."""
    log.put("loss", number(text_after(log.last, b"lm loss")))
    if length := number(text_after(log.last, b"actual seqlen")):
        log.values["seq_length"] = int(length)
    for label in (b"throughput per GPU (TFLOP/s/GPU)", b"TFLOPs"):
        if rate := number(text_after(log.last, label).partition(b"/")[0]):
            log.values["tflop"] = rate * log.seconds[-1]


def _begin(log: Log, world: bytes) -> None:
    log.begin()
    log.count("world_size", world)


_SIZES = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "num_experts")
_HEADER = (
    rule("beginning", "using world size", r"using world size: ?(\d{1,7})",
         lambda log, m: _begin(log, m[1]), True),
    fact("data parallel", "data-parallel", r"data-parallel[- ]size: ?(\d{1,7})", "dp"),
    fact("tensor parallel", "tensor-model", r"tensor-model-parallel size: ?(\d{1,7})", "tp"),
    fact("pipeline parallel", "pipeline-model",
         r"pipeline-model-parallel size: ?(\d{1,7})", "pp"),
    fact("sequence", "seq_length", rf"(?<![\w-])seq_length{_DOTS}(\d{{1,9}})\b", "seq_length"),
    fact("batch", "global_batch_size", rf"(?<!\w)global_batch_size{_DOTS}(\d{{1,9}})\b",
         "batch_argument"),
    fact("world size", "world_size", rf"(?<!\w)world_size{_DOTS}(\d{{1,7}})\b", "world_size"),
    *(size(name, name, rf"(?<!\w){name}{_DOTS}(\d{{1,9}})\b") for name in _SIZES),
    fact("beginning", "world_size", r"(?<!\w)world_size: ?(\d{1,7})\b", "world_size"),
)  # fmt: skip
RULES = (
    rule("step", "elapsed time per iteration",
         r"iteration +(\d{1,12})/ *(?:\d{1,12}|infinity) \|", _step, True),
    *_HEADER, *LAUNCH, *PAUSES,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a log of Megatron-LM."""
    log = scan(path, Log(path, "megatron", "GPU"), RULES, seen)
    if len(log.texts) == 1:  # a ramp has several, and then no one batch
        log.count("global_batch", log.texts.pop())
    elif not log.texts and log.get("batch_argument"):
        log.values["global_batch"] = log.get("batch_argument")
    _last_line(log)
    return [_finish(log)]


def _finish(log: Log) -> LogRun:
    problem = "" if log.seconds else "no iteration line with its time"
    run = log.run(iterations=log.numbers[-1] if log.numbers else None, problem=problem)
    tflop = log.get("tflop")
    if tflop and run.world_size and run.tokens_per_step and len(run.size) < 2:
        run.size["TFLOP per token"] = tflop * run.world_size / run.tokens_per_step
    return run


_NEMO_FIELD = {
    b"reduced_train_loss": "loss",
    b"max_memory_allocated": "memory_bytes",
    b"peak_memory_usage": "memory_bytes",
}
_FIELD = re.compile(rb"([A-Za-z_][\w /-]{0,40}?)\s?[:=]\s?([-+\w.]{1,40})")


def _nemo_step(log: Log, found: "re.Match[bytes]") -> None:
    """A line of NeMo 2 (name: value between bars) or the progress bar of NeMo 1 (name=value)."""
    line = found.string
    fields = {name.strip(): value for name, value in _FIELD.findall(line)}
    seconds = number(fields.get(b"train_step_timing in s"))
    at = number(fields.get(b"global_step"))
    if at is None and (counted := re.search(rb"iteration (\d{1,12})/\d", line)):
        at = number(counted[1])
    if seconds is None or at is None or not log.step(int(at), seconds, rank_of(line)):
        return
    if batch := number(fields.get(b"global_batch_size")):
        log.values.setdefault("batches", set()).add(int(batch))
    for name, field in _NEMO_FIELD.items():
        if (value := number(fields.get(name))) is not None:
            log.values[field] = value
    if rate := number(fields.get(b"tokens_per_sec_per_gpu")):
        log.values["rate"] = rate * seconds  # tokens of one GPU in a step
    if fields.get(b"reduced_train_loss", b"").lower() in (b"nan", b"inf"):
        log.nan += 1


_NEMO_RULES = (
    rule("step", "train_step_timing in s", r"train_step_timing in s[:=] ?([\d.]+)", _nemo_step,
         True),
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
    batches = log.values.pop("batches", set())
    if len(batches) == 1:
        log.values["global_batch"] = batches.pop()
    per_gpu = log.values.pop("rate", None)
    tokens = (log.get("global_batch") or 0) * (log.get("seq_length") or 0)
    if per_gpu and tokens:
        log.put("world_size", whole(tokens / per_gpu))
    problem = "" if log.seconds else "no line with train_step_timing"
    last = log.numbers[-1] + 1 if log.numbers else None
    return [log.run(iterations=last, problem=problem)]


def whole(ratio: float, within: float = 0.005) -> int | None:
    """The whole number nearest to a ratio of printed figures; None where it is not clear."""
    if not 0 < ratio < 1e9:
        return None
    near = round(ratio)
    slack = max(within * ratio, 1e-9)
    return near if near >= 1 and abs(ratio - near) <= slack < 0.45 else None
