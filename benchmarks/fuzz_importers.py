"""Corrupted inputs for every importer: an error with its fix or a result, never anything else.

.venv/bin/python benchmarks/fuzz_importers.py [--count 10000] [--formats kineto,talp] [--seed 0]

Samples of each format are cut off, get bits flipped, values of other types, huge numbers, nested
garbage and pieces of each other. Each input has ten seconds and, with all of the process, one
gibibyte more than at the start. What an importer lets out beside NodewiseError is a fault, printed
with its input and counted; the exit code says whether there was one.
"""

import argparse
import contextlib
import gzip
import json
import random
import re
import resource
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodewise.errors import NodewiseError

SECONDS = 10
_MORE_BYTES = 2**30
_BAD_VALUES = (
    b"null", b"true", b"-1", b"1e999", b"-1e999", b"NaN", b"9" * 400, b"1e400", b"0.1e-400",
    b'""', b'"x"', b"[]", b"{}", b"[" * 3000, b'{"a":' * 2000, b'"\\ud800"', b'"\x00"',
    b"18446744073709551616", b"-9223372036854775809", b"1.7976931348623157e308", b'"0x0"',
)  # fmt: skip
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"\n]*"|null|true|\[\]|\{\}')


def _trace_events() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for step in range(3):
        at, number = 1_690_000_000_000_000 + 1000 * step, 10 * step
        comm = {"Collective name": "allreduce", "In msg nelems": 9, "dtype": "Float"}
        rows: list[tuple[str, str, float, float, dict[str, Any]]] = [
            ("user_annotation", f"ProfilerStep#{step}", at, 1000, {}),
            ("user_annotation", "enumerate(DataLoader)#x.__next__", at, 9, {}),
            ("cuda_runtime", "cudaLaunchKernel", at + 2, 5, {"correlation": number}),
            ("kernel", "gemm", at + 10.125, 400.5, {"stream": 7, "correlation": number}),
            ("kernel", "ncclDevKernel_AllReduce_Sum(x)", at + 420, 99, comm),
            ("gpu_memcpy", "Memcpy HtoD", at + 600, 30, {"stream": "0x0"}),
        ]
        for category, name, ts, dur, arguments in rows:
            base = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 1}
            events.append({**base, "ts": ts, "dur": dur, "args": arguments})
    return events


def _host_events() -> list[dict[str, Any]]:
    events = []
    for step in range(3):
        at = 1000 * step
        shapes = {"Input Dims": [[4, 4]], "Input type": ["float"]}
        for category, name, ts, dur, arguments in (
            ("user_annotation", f"ProfilerStep#{step}", at, 1000, {}),
            ("cpu_op", "aten::mm", at + 1, 300, {}),
            ("cpu_op", "c10d::allreduce_", at + 310, 50, {}),
            ("user_annotation", "gloo:all_reduce", at + 320, 100, shapes),
        ):
            base = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 1}
            events.append({**base, "ts": ts, "dur": dur, "args": arguments})
    return events


def _kineto() -> list[bytes]:
    about = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}}
    device = {**about, "traceEvents": _trace_events()}
    host = {**about, "traceEvents": _host_events(), "baseTimeNanoseconds": 17 * 10**17}
    wide = json.dumps(device, indent=2).encode()
    return [
        json.dumps(device).encode(), wide, gzip.compress(wide), json.dumps(host).encode(),
        json.dumps(_trace_events(), separators=(",", ":")).encode(),
        json.dumps(device, sort_keys=True).encode(),
    ]  # fmt: skip


def _nsys() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(
                """
                create table StringIds (id integer primary key, value text);
                insert into StringIds values (1, 'gemm'), (2, 'ncclDevKernel_AllReduce'),
                  (3, 'step 1');
                create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer,
                  deviceId integer, streamId integer, correlationId integer, globalPid integer,
                  shortName integer);
                create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer,
                  deviceId integer, correlationId integer, globalPid integer);
                create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer,
                  correlationId integer, globalTid integer);
                create table NVTX_EVENTS (start integer, end integer, text text, textId integer,
                  globalTid integer);
                create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer);
                insert into TARGET_INFO_SESSION_START_TIME values (1700000000000000000);
                insert into NVTX_EVENTS values (0, 900, null, 3, 16777217);
                """
            )
            for at in range(20):
                kernel = (100 * at, 100 * at + 80, 0, 7, at, 16777216, 1 + at % 2)
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?)", kernel
                )
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,?,?)",
                    (100 * at - 10, 100 * at, at, 16777217),
                )
            database.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY values (85,95,0,50,16777216)")
            database.commit()
        return [path.read_bytes()]


def _json_lines(rows: list[Any], before: str = "") -> bytes:
    return "\n".join(before + json.dumps(row) for row in rows).encode()


def _ray() -> list[bytes]:
    kinds = ("task:execute", "ray.put", "submit_task")
    events = [
        {"cat": kinds[at % 3], "ph": "X", "pid": f"10.0.0.{at % 2}", "tid": f"w{at % 4}",
         "name": "f", "ts": 1e6 * at, "dur": 9e5, "args": {"task_id": "ab"}} for at in range(9)
    ]  # fmt: skip
    return [json.dumps(events).encode()]


def _dask() -> list[bytes]:
    actions = ("compute", "transfer", "disk-read")
    tasks = [
        {"worker": f"tcp://w{at % 2}", "key": f"f-{at}", "thread": 1, "status": "OK",
         "startstops": [{"action": actions[at % 3], "start": 1.7e9 + at, "stop": 1.7e9 + at + 0.9}]}
        for at in range(9)
    ]  # fmt: skip
    return [json.dumps(tasks).encode()]


def _spark() -> list[bytes]:
    rows: list[Any] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "3.5.1"},
        {"Event": "SparkListenerExecutorAdded", "Timestamp": 1, "Executor ID": "1",
         "Executor Info": {"Host": "h", "Total Cores": 2}},
    ]  # fmt: skip
    for at in range(5):
        info = {"Executor ID": "1", "Launch Time": 1000 * at, "Finish Time": 1000 * at + 900}
        metrics = {"Executor Run Time": 800, "Shuffle Read Metrics": {"Fetch Wait Time": 30},
                   "Shuffle Write Metrics": {"Shuffle Write Time": 20_000_000}}  # fmt: skip
        rows.append({"Event": "SparkListenerTaskEnd", "Stage ID": 0, "Stage Attempt ID": 0,
                     "Task Info": info, "Task Metrics": metrics})  # fmt: skip
    return [_json_lines(rows)]


def _talp() -> list[bytes]:
    region = {"elapsedTime": 10**10, "usefulTime": 12 * 10**9, "mpiTime": 8 * 10**9, "numCpus": 2,
              "numMpiRanks": 2, "ompSchedulingTime": 0, "parallelEfficiency": 0.6}  # fmt: skip
    document = {"dlbVersion": "3.5", "resources": {"numCpus": 2, "numMpiRanks": 2},
                "Application": {"Global": region, "solve": region}}  # fmt: skip
    return [json.dumps(document).encode()]


def _mlperf() -> list[bytes]:
    rows = [
        {"key": key, "time_ms": 1000 * at, "value": value, "metadata": {"status": "success"}}
        for at, (key, value) in enumerate(
            [("init_start", None), ("global_batch_size", 256), ("run_start", None),
             ("eval_accuracy", 0.75), ("run_stop", None)]
        )
    ]  # fmt: skip
    return [_json_lines(rows, "0: :::MLLOG ")]


def _links() -> list[bytes]:
    rows = [
        f"{2**at:12d} {2**at // 4:8d} float sum -1 {20 + 2**at / 1e4:9.2f} 1.0 1.0 0 9.0 1.0 1.0 0"
        for at in range(3, 20, 4)
    ]
    nccl = "# all_reduce_perf\n#  Rank  0 Group  0 Pid  1 on h device  0\n" + "\n".join(rows)
    osu = "# OSU MPI Latency Test v7.3\n# Size   Latency (us)\n1   1.5\n1024 2.5\n1048576 101.5\n"
    rate = "# OSU MPI Bandwidth Test v7.3\n# Size   Bandwidth (MB/s)\n1   1.5\n1048576 12000.5\n"
    return [nccl.encode(), osu.encode(), rate.encode()]


def _extrap() -> list[bytes]:
    text = "PARAMETER p\nPOINTS 1 2 4\nREGION m\nMETRIC time\nDATA 8 8.2\nDATA 4.1 4\nDATA 2 2.1\n"
    rows = [{"params": {"p": at}, "metric": "time", "callpath": "main", "value": 8 / at}
            for at in (1, 2, 4)]  # fmt: skip
    points = [{"point": [at], "values": [8 / at, 8.1 / at]} for at in (1, 2, 4)]
    document = {"measurements": {"main": {"time": points}}}
    return [text.encode(), _json_lines(rows), json.dumps(document).encode()]


def _caliper() -> list[bytes]:
    split = {
        "data": [[0.5, 0, 0], [1.5, 1, 0], [0.25, 2, 0], [0.5, 0, 1], [1.0, 1, 1]],
        "columns": ["sum#time.duration", "path", "mpi.rank"],
        "column_metadata": [{"is_value": True}, {"is_value": False}, {"is_value": True}],
        "nodes": [{"label": "main", "column": "path"}, {"label": "solve", "parent": 0},
                  {"label": "MPI_Allreduce", "parent": 1}], "jobsize": "2",
    }  # fmt: skip
    plain = [{"path": "main/solve", "sum#time.duration": "1.5", "mpi.rank": at} for at in (0, 1)]
    leaf = {"frame": {"name": "MPI_Send"}, "metrics": {"time": 1.0, "time (inc)": 1.0}}
    tree = {"frame": {"name": "main"}, "metrics": {"time": 2.0}, "children": [leaf, leaf]}
    return [json.dumps(one).encode() for one in (split, plain, [tree])]


def _csv() -> list[bytes]:
    rows = ["K,rep,rank,time_s,compute_s,comm_s,idle_s"]
    rows += [f"{k},0,{rank},{8 / k},{7 / k},0.1,0" for k in (1, 2, 4) for rank in range(k)]
    return ["\n".join(rows).encode(), b"K,time_s\n1,8\n2,4.5\n4,2.5\n"]


def _readers() -> dict[str, tuple[list[bytes], Callable[[Path], Any]]]:
    from nodewise.alpha_beta import fit_alpha_beta
    from nodewise.breakdown import Window, break_down, digest, runs_of
    from nodewise.digest_format import pack, unpack
    from nodewise.importers import (
        caliper,
        csv_table,
        dask_stream,
        extrap,
        kineto,
        link_tests,
        mlperf,
        nsys,
        ray_timeline,
        spark_log,
        talp,
    )  # fmt: skip

    def traced(traces: Any) -> None:
        windows: tuple[Window, ...] = ("all", "hta", "common")
        for window in windows:
            digests = [digest(one, window) for one in traces]
            job = break_down(unpack(pack(digests, window), window), window, True)
            msgspec.json.encode(job)  # what was read must also be told
            runs_of(job, 2)

    def link(path: Path) -> Any:
        points = link_tests.read(path).points
        return fit_alpha_beta(points) if len({size for size, _ in points}) > 1 else None

    return {
        "kineto": (_kineto(), lambda path: traced([kineto.read(path)])),
        "nsys": (_nsys(), lambda path: traced(nsys.read(path))),
        "ray": (_ray(), lambda path: ray_timeline.read(path, None)),
        "dask": (_dask(), lambda path: dask_stream.read(path, None)),
        "spark": (_spark(), lambda path: spark_log.read(path, None)),
        "talp": (_talp(), lambda path: talp.read(path, None)),
        "mlperf": (_mlperf(), lambda path: mlperf.read(path, 2)),
        "links": (_links(), link),
        "extra-p": (_extrap(), lambda path: extrap.read(path, None)),
        "caliper": (_caliper(), lambda path: caliper.read(path, 2)),
        "csv": (_csv(), lambda path: csv_table.read(path, None)),
    }


FORMATS = ("kineto", "nsys", "ray", "dask", "spark", "talp", "mlperf", "links", "extra-p",
           "caliper", "csv")  # fmt: skip


def corrupted(samples: list[bytes], dice: random.Random) -> bytes:
    """One sample, broken in one to four ways."""
    text = dice.choice(samples)
    packed = text[:2] == b"\x1f\x8b"
    if packed and dice.random() < 0.5:
        text, packed = gzip.decompress(text), False
    for _ in range(dice.randint(1, 4)):
        text = _break(text, samples, dice)
    return text


def _break(text: bytes, samples: list[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(text) + 1)
    way = dice.randrange(7)
    if way == 0:
        return text[:at]
    if way == 1 and at < len(text):
        flipped = text[at] ^ (1 << dice.randrange(8))
        return text[:at] + bytes([flipped]) + text[at + 1 :]
    if way == 2:
        return text[:at] + text[at + dice.randint(1, 60) :]
    if way == 3:
        return text[:at] + dice.choice(_BAD_VALUES) + text[at:]
    if way == 4:
        return text[:at] + dice.randbytes(dice.randint(1, 40)) + text[at:]
    if way == 5:
        other = dice.choice(samples)
        begin = dice.randrange(len(other))
        return text[:at] + other[begin : begin + dice.randint(1, 400)] + text[at:]
    values = list(_VALUE.finditer(text))
    if not values:
        return text
    value = dice.choice(values)
    return text[: value.start()] + dice.choice(_BAD_VALUES) + text[value.end() :]


class _TooLong(Exception):
    pass


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Ten seconds for each input, and a limit on the memory of the process."""

    def too_long(*_: Any) -> None:
        raise _TooLong

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (size + _MORE_BYTES, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def fuzz(form: str, count: int, seed: int = 0) -> tuple[Counter[str], list[tuple[bytes, str]]]:
    """How often an input was read or refused, and the inputs that did neither."""
    samples, read = _readers()[form]
    dice = random.Random(f"{form} {seed}")
    told: Counter[str] = Counter()
    faults: list[tuple[bytes, str]] = []
    with tempfile.TemporaryDirectory() as folder, _bounded():
        path = Path(folder) / "input"
        for text in samples:
            path.write_bytes(text)
            read(path)  # what is whole must be read
        for _ in range(count):
            text = corrupted(samples, dice)
            path.write_bytes(text)
            signal.alarm(SECONDS)
            try:
                read(path)
                told["read"] += 1
            except NodewiseError:
                told["refused"] += 1
            except Exception:  # noqa: BLE001 - that is what is looked for
                told["faults"] += 1
                faults.append((text, traceback.format_exc()))
            signal.alarm(0)
    return told, faults


def main() -> None:
    """A line a format; faults in full."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total = 0
    for form in options.formats.split(","):
        begin = time.process_time()
        told, faults = fuzz(form, options.count, options.seed)
        total += len(faults)
        print(
            f"{form:<8} {options.count} inputs: {told['read']} read, {told['refused']} refused, "
            f"{told['faults']} faults; {time.process_time() - begin:.0f} CPU-s",
            flush=True,
        )
        seen = set()
        for text, report in faults:
            last = report.strip().splitlines()[-1]
            if last not in seen and len(seen) < 10:
                seen.add(last)
                print(f"--- {text[:600]!r}\n{report}", flush=True)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"at most {most:.0f} MB resident")
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
