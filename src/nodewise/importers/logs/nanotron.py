"""nanotron's benchmark CSV: one row for each run, a study in one file."""

import csv
from pathlib import Path

from nodewise.importers.files import read_text
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.scan import Seen

_SIZE = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "vocab_size", "Total Params")


def is_nanotron(titles: set[str]) -> bool:
    """Whether these are the columns of nanotron's benchmark."""
    return {"nodes", "tok/s/gpu", "gbs"} <= titles


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
