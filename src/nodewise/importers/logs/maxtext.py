"""MaxText: `completed step: N, seconds: s, TFLOP/s/device: x, Tokens/s/device: y, ...`."""

import re
import statistics
from pathlib import Path

import numpy as np

from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.rounded import whole
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Seen, fact, rank_of, rule, scan

_FIELD = re.compile(rb"([A-Za-z][\w/]{0,30}): ([\d.e+-]{1,24}|nan|inf)")
_MOST_RATIOS = 1000
_LEAST_ERROR = 1e-5
_ALIKE = 0.005  # of what two lines say
_WEIGHTS = b"total_weights: "


def _step(log: Log, found: "re.Match[bytes]") -> None:
    line = found.string
    seconds = number(found[2])
    if not seconds or not log.step(int(found[1]), seconds, rank_of(line)):
        return
    log.last = line
    at = line.find(_WEIGHTS)
    if at >= 0:
        log.values["weighted"] = (log.get("weighted") or 0) + 1
        log.keep_text(line[at + len(_WEIGHTS) : line.find(b",", at)])
    log.nan += b"loss: nan" in line
    if len(log.numbers) < _MOST_RATIOS:
        fields = dict(_FIELD.findall(line))
        text = fields.get(b"Tokens/s/device", b"").decode()
        if rate := number(text):
            log.stages.setdefault("device", []).append(rate * seconds)
            # What the rounding of both figures allows.
            error = sum(0.5 * 10.0 ** -len(one.partition(".")[2]) / value
                        for one, value in ((text, rate), (found[2].decode(), seconds)))  # fmt: skip
            log.stages.setdefault("error", []).append(error)


_MANY = re.compile(rb"completed step: (\d{1,12}), seconds: {1,4}([\d.]{1,16})")


def _all_steps(log: Log, block: bytes, count: int) -> bool:
    """The steps of a block, where all of them have the weights that are known."""
    if len(log.numbers) < _MOST_RATIOS or len(log.texts) != 1 or b"nan" in block:
        return False
    if block.count(_WEIGHTS + next(iter(log.texts)) + b",") != count:
        return False
    found = _MANY.findall(block)
    if len(found) != count:
        return False
    numbers, seconds = zip(*found, strict=True)
    try:
        values = np.array(seconds, dtype=np.float64)
    except ValueError:
        return False
    if not log.steps(list(numbers), values):
        return False
    log.last = block[block.rfind(b"completed step:") :]
    return True


def _last_line(log: Log) -> None:
    """What the last step says of loss and of the model."""
    fields = dict(_FIELD.findall(log.last))
    rate, flops = number(fields.get(b"Tokens/s/device")), number(fields.get(b"TFLOP/s/device"))
    if rate and flops:
        log.size["TFLOP per token"] = flops / rate
    log.put("loss", number(fields.get(b"loss")))


def _devices(weights: float, device: list[float], errors: list[float]) -> int | None:
    """The devices by the tokens of one in a step, from the line whose figures are most exact."""
    if not device:
        return None
    error, tokens = min(zip(errors, device, strict=True))
    middle = statistics.median(weights / one for one in device)
    ratio = weights / tokens
    return whole(ratio, max(error, _LEAST_ERROR)) if abs(ratio / middle - 1) < _ALIKE else None


RULES = (
    rule("step", "completed step:", r"completed step: (\d{1,12}), seconds: {1,4}([\d.]{1,16})",
         _step, True, _all_steps),
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
    devices = _devices(weights, device, log.stages.get("error", [])) if weights else None
    if weights and (log.get("weighted") > 1 or devices):  # equal in every step: no padding
        log.put("tokens_per_step", weights)
        log.put("world_size", devices)
    elif device and log.get("world_size"):
        log.put("tokens_per_step", statistics.median(device) * log.get("world_size"))
    last = log.numbers[-1] + 1 if log.numbers else None
    return [log.run(iterations=last, problem="" if log.seconds else "no completed step")]
