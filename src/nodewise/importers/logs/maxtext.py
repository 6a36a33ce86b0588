"""MaxText: `completed step: N, seconds: s, TFLOP/s/device: x, Tokens/s/device: y, ...`."""

import re
import statistics
from pathlib import Path

from nodewise.importers.logs.megatron import whole
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Seen, fact, rank_of, rule, scan

STEP = rb"completed step: \d{1,12}, seconds: [\d.]"
_FIELD = re.compile(rb"([A-Za-z][\w/]{0,30}): ([\d.e+-]{1,24}|nan|inf)")
_MOST_RATIOS = 1000
_WEIGHTS = b"total_weights: "


def _step(log: Log, found: "re.Match[bytes]") -> None:
    line = found.string
    seconds = number(found[2])
    if not seconds or not log.step(int(found[1]), seconds, rank_of(line)):
        return
    log.last = line
    at = line.find(_WEIGHTS)
    if at >= 0 and len(log.texts) < 2:
        log.texts.add(line[at + len(_WEIGHTS) : line.find(b",", at)])
    log.nan += b"loss: nan" in line
    if len(log.numbers) < _MOST_RATIOS:
        fields = dict(_FIELD.findall(line))
        if rate := number(fields.get(b"Tokens/s/device")):
            log.stages.setdefault("device", []).append(rate * seconds)


def _last_line(log: Log) -> None:
    """What the last step says of loss and of the model."""
    fields = dict(_FIELD.findall(log.last))
    rate, flops = number(fields.get(b"Tokens/s/device")), number(fields.get(b"TFLOP/s/device"))
    if rate and flops:
        log.size["TFLOP per token"] = flops / rate
    log.put("loss", number(fields.get(b"loss")))


RULES = (
    rule("step", "completed step:", r"completed step: (\d{1,12}), seconds: ([\d.]{1,16})", _step,
         True),
    fact("devices", "um_devices", r"[Nn]um_devices: ?(\d{1,7})\b", "world_size"),
    fact("sequence", "max_target_length", r"max_target_length: ?(\d{1,9})\b", "seq_length"),
    fact("batch", "global_batch_size_to_train_on",
         r"global_batch_size_to_train_on: ?(\d{1,9})\b", "global_batch"),
    rule("model", "number parameters", r"number parameters: ?([\d.]{1,16}) billion",
         lambda log, m: log.size.setdefault("parameters", 1e9 * (number(m[1]) or 0.0))),
    *LAUNCH, *PAUSES,
)  # fmt: skip


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a log of MaxText. `total_weights` counts tokens, without padding."""
    log = scan(path, Log(path, "maxtext", "device"), RULES, seen)
    _last_line(log)
    device = log.stages.get("device", [])
    weights = number(next(iter(log.texts))) if len(log.texts) == 1 else None
    if weights:  # equal in every step: no padding
        log.put("tokens_per_step", weights)
        if device:  # a rate is rounded, so the median of the ratios counts
            log.put("world_size", whole(statistics.median(weights / one for one in device)))
    elif device and log.get("world_size"):
        log.put("tokens_per_step", statistics.median(device) * log.get("world_size"))
    last = log.numbers[-1] + 1 if log.numbers else None
    return [log.run(iterations=last, problem="" if log.seconds else "no completed step")]
