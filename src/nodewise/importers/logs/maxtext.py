"""MaxText: `completed step: N, seconds: s, TFLOP/s/device: x, Tokens/s/device: y, ...`."""

import re
import statistics
from pathlib import Path

from nodewise.importers.logs.megatron import whole
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Seen, fact, rank_of, rule, scan

STEP = rb"completed step: \d{1,12}, seconds: [\d.]"
_FIELD = re.compile(rb"([A-Za-z][\w/]{0,30}): ([\d.e+-]{1,24}|nan|inf)")
_MOST_RATIOS = 10_000


def _step(log: Log, found: "re.Match[bytes]") -> None:
    fields = dict(_FIELD.findall(found.string))
    seconds = number(found[2])
    if not seconds or not log.step(int(found[1]), seconds, rank_of(found.string)):
        return
    rate, weights = number(fields.get(b"Tokens/s/device")), number(fields.get(b"total_weights"))
    flops = number(fields.get(b"TFLOP/s/device"))
    if rate and flops:
        log.size["TFLOP per token"] = flops / rate
    if rate and len(log.stages.setdefault("device", [])) < _MOST_RATIOS:
        log.stages["device"].append(rate * seconds)
        log.stages.setdefault("all", []).append(weights or 0.0)
    loss = number(fields.get(b"loss"))
    if loss is not None:
        log.values["loss"] = loss
    elif b"loss" in fields:
        log.nan += 1


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
    device, every = log.stages.get("device", []), log.stages.get("all", [])
    if device and min(every) > 0 and max(every) == min(every):
        # Equal in every step: no padding. A rate is rounded, so the median of the ratios counts.
        world = whole(statistics.median(a / d for a, d in zip(every, device, strict=True)))
        log.put("world_size", world)
        log.put("tokens_per_step", every[0])
    elif device and log.get("world_size"):
        log.put("tokens_per_step", statistics.median(device) * log.get("world_size"))
    last = log.numbers[-1] + 1 if log.numbers else None
    return [log.run(iterations=last, problem="" if log.seconds else "no completed step")]
