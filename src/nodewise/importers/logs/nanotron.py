"""nanotron: its benchmark CSV, one row for each run, and its console."""

import csv
import re
from pathlib import Path

from nodewise.importers.files import read_text
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.rounded import interval, only
from nodewise.importers.logs.scan import LAUNCH, PAUSES, Seen, fact, rank_of, rule, scan

_SIZE = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "vocab_size", "Total Params")


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The runs in a benchmark CSV; the rate is that of one GPU."""
    rows = csv.DictReader(read_text(path).replace("\0", "").splitlines())
    try:
        return [_run(path, {str(k): str(v or "").strip() for k, v in row.items()}) for row in rows]
    except csv.Error as error:
        return [Log(path, "nanotron", "GPU").run(problem=f"not CSV: {error}")]


def _run(path: Path, row: dict[str, str]) -> LogRun:
    log = Log(path, "nanotron", "GPU")
    for name, column in (("nodes", "nodes"), ("global_batch", "gbs"), ("seq_length", "seq_len"),
                         ("tp", "tp"), ("pp", "pp"), ("dp", "dp")):  # fmt: skip
        log.count(name, row.get(column, "").encode())
    parts = [number(row.get(name, "1") or "1") for name in ("dp", "pp", "tp", "cp")]
    if all(part and part == int(part) for part in parts):
        world = 1
        for part in parts:
            world *= int(part or 1)
        log.put("world_size", world)
    for name in _SIZE:
        if row.get(name):
            log.size[name] = number(row[name]) or row[name][:40]
    rate, world_size = number(row.get("tok/s/gpu", "")), log.get("world_size")
    memory = number(row.get("Mem Alloc (GB)", ""))
    log.put("memory_bytes", memory * 2**30 if memory else None)
    batch, length = log.get("global_batch"), log.get("seq_length")
    if not rate or not world_size or not batch or not length:
        return log.run(problem=f"no rate, batch or ranks in row {row.get('job_id', '')[:20]}")
    total = rate * world_size
    return log.run(tokens_per_second=total, step_seconds=batch * length / total)


_DIGITS = 3  # of a figure on the console: 11.5K
_FIELD = re.compile(rb"(\w{1,40}): ([\d.]{1,12}[KMGT]?)(?= |$)")


def _figure(text: bytes | None) -> float | None:
    known = interval(text.decode(), _DIGITS) if text else None
    return sum(known) / 2 if known else None


def _step(log: Log, found: "re.Match[bytes]") -> None:
    """`iteration: 7 / 90 | ... | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: ...`.

    Since 2025 it is time_per_iteration_ms, and the batch is in tokens.
    """
    seconds = _figure(found[3])
    if seconds and log.step(int(found[1]), seconds / 1e3, rank_of(found.string)):
        log.last = found.string
        log.values["in_tokens"] = found[2] is None


def _last_line(log: Log) -> None:
    """What the last step says of batch, rates and loss; three digits do not always give a count."""
    fields = dict(_FIELD.findall(log.last))
    rates = [fields.get(name) for name in (b"tokens_per_sec", b"tokens_per_sec_per_gpu")]
    all_gpus, one_gpu = (interval(text.decode(), _DIGITS) if text else None for text in rates)
    if all_gpus and one_gpu:
        log.put("world_size", only(all_gpus[0] / one_gpu[1], all_gpus[1] / one_gpu[0], slack=0.0))
    log.put("tokens_per_second", _figure(rates[0]))
    batch = fields.get(b"global_batch_size", b"")
    if batch.isdigit():
        tokens, length = int(batch), log.get("seq_length")
        if not log.get("in_tokens"):
            log.count("global_batch", batch)
        elif length and tokens % length == 0:
            log.put("global_batch", tokens // length)
        else:
            log.put("tokens_per_step", float(tokens))
    log.put("loss", _figure(fields.get(b"lm_loss")))


_CONSOLE = (
    rule("step", "time_per_iteration_ms: ",
         r"iteration: (\d{1,12}) / \d{1,12} \|.{0,200}?(elapsed_)?time_per_iteration_ms: "
         r"([\d.]{1,12}[KMGT]?)", _step, True),
    fact("sequence", "sequence_length", r"(?<!\w)sequence_length[:=] ?(\d{1,9})\b", "seq_length"),
    fact("batch", "global_batch_size", r"\| global_batch_size: (\d{1,9}) \|.{0,80}\| train_steps",
         "global_batch"),
    *LAUNCH, *PAUSES,
)  # fmt: skip


def read_console(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in the console output; its figures have three digits."""
    log = scan(path, Log(path, "nanotron-console", "GPU"), _CONSOLE, seen)
    _last_line(log)
    last = log.numbers[-1] if log.numbers else None
    return [log.run(iterations=last, problem="" if log.seconds else "no iteration with its time")]
