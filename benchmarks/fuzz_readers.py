"""Readers that fuzz.py tests, each with intact samples of its formats.

A reader is what a command calls first; its commands are what a user would ask of what was read.
The lists that come along (prices, grids, rules) are no input: nobody hands them in.
"""

import contextlib
import gzip
import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

try:  # as a script, or as a module of the benchmarks
    import log_samples
except ModuleNotFoundError:
    from benchmarks import log_samples

from nodewise.study.study import Contention, Run
from nodewise.study.table import parse_table

_ROOT = Path(__file__).parents[1]
_EXAMPLES = _ROOT / "examples"
_DAY = "2026-08-22"
_START = 1_759_813_207.0


class Reader(NamedTuple):
    """How one kind of file is read, and what is then asked of it."""

    samples: list[bytes]
    read: Callable[[Path], Any]
    name: str = "input"  # of the file, where its ending or its folder counts
    beside: Mapping[str, bytes] = MappingProxyType({})  # what else lies in its folder
    commands: tuple[str, ...] = ()  # in which {file} and {folder} are filled in


def _text(*names: str) -> list[bytes]:
    return [(_EXAMPLES / name).read_bytes() for name in names]


def _json(*documents: Any) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]


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


def _operations() -> list[bytes]:
    rows = ["dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc"]
    kinds = ("forward-compute", "backward-compute", "optimizer-clip-main-grad", "optimizer")
    rows += [
        f"{replica},0,{replica},{step},{kind},{at + 9 * step},1.5,0,0,0,0"
        for step in (4, 7)
        for replica in (0, 1)
        for at, kind in enumerate(kinds)
    ]
    return ["\n".join(rows).encode()]


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


def _guidellm() -> list[bytes]:
    def request(at: float) -> dict[str, Any]:
        begin = _START + at
        times = {"targeted_start": begin, "request_start": begin + 0.002,
                 "first_token_iteration": begin + 0.05, "request_end": begin + 0.25}  # fmt: skip
        return {"info": {"timings": times}, "prompt_tokens": 64, "output_tokens": 21}

    figures = {"percentiles": {"p50": 50.0, "p99": 80.0, "p999": 90.0}, "max": 95.0}
    totals = {"successful": 5, "errored": 1, "incomplete": 0, "total": 6}
    benchmark: dict[str, Any] = {
        "config": {"strategy": {"type_": "poisson", "rate": 10.0}}, "duration": 100.0,
        "scheduler_metrics": {"measure_start_time": _START, "measure_end_time": _START + 100},
        "metrics": {"request_totals": totals, "time_to_first_token_ms": {"successful": figures},
                    "output_token_count": {"successful": {"total_sum": 84.0}}},
        "requests": {"successful": [request(at / 10) for at in range(5)],
                     "errored": [request(0.4)], "incomplete": []},
    }  # fmt: skip
    many = {**benchmark, "metrics": benchmark["metrics"] | {
        "request_totals": totals | {"successful": 999, "total": 1000}}}  # fmt: skip
    return _json({"metadata": {}, "benchmarks": [benchmark]}, {"benchmarks": [many]})


def _aiperf() -> list[bytes]:
    def record(number: int) -> dict[str, Any]:
        start = int(_START * 1e9) + number * 100_000_000
        return {
            "metadata": {"session_num": number, "credit_issued_ns": start - 3_000_000,
                         "request_start_ns": start, "request_end_ns": start + 300_000_000,
                         "benchmark_phase": "profiling", "was_cancelled": False},
            "metrics": {"time_to_first_token": {"value": 60.0, "unit": "ms"},
                        "request_latency": {"value": 300.0, "unit": "ms"},
                        "output_sequence_length": {"value": 9, "unit": "tokens"}},
            "error": {"type": "Cancelled"} if number == 3 else None,
        }  # fmt: skip

    figures = {
        "request_throughput": {"unit": "requests/sec", "avg": 10.0},
        "request_count": {"avg": 1000}, "error_request_count": {"avg": 2},
        "benchmark_duration": {"unit": "sec", "avg": 100.2},
        "time_to_first_token": {"unit": "ms", "avg": 60.0, "p50": 55.0, "p99": 90.0},
        "effective_latency": {"unit": "ms", "p99": 500.0}, "total_osl": {"avg": 9000},
    }  # fmt: skip
    return [_json_lines([record(at) for at in range(5)]), *_json(figures)]


def _vllm() -> list[bytes]:
    figures = {"date": "20260101-000000", "request_rate": 10.0, "duration": 4.5, "completed": 39,
               "failed": 1, "total_output_tokens": 800, "request_throughput": 9.9,
               "median_ttft_ms": 50.0, "p99_ttft_ms": 80.0, "p99_e2el_ms": 300.0}  # fmt: skip
    each = {"input_lens": [32] * 40, "output_lens": [21] * 40, "ttfts": [0.05] * 40,
            "itls": [[0.01] * 3 + [0.02]] * 40, "errors": [""] * 39 + ["timed out"],
            "start_times": [500.0 + at / 10 for at in range(40)]}  # fmt: skip
    return _json(figures, figures | each)


def _k6() -> list[bytes]:
    metrics = {
        "http_reqs": {"count": 1000, "rate": 10.0}, "http_req_failed": {"value": 0.002},
        "http_req_duration": {"med": 80.0, "max": 180.0, "p(90)": 100.0},
        "http_req_waiting": {"med": 40.0, "max": 90.0}, "dropped_iterations": {"count": 3},
    }  # fmt: skip
    return _json({"metrics": metrics}, {"metrics": {n: {"values": v} for n, v in metrics.items()}})


def _vegeta() -> list[bytes]:
    figures = {"latencies": {"50th": 10_000_000, "99th": 40_000_000, "max": 98_000_000},
               "requests": 3000, "rate": 100.0, "success": 0.999}  # fmt: skip
    rows = [
        {"seq": at, "code": 200 if at else 503, "latency": 12_345_678, "error": "",
         "timestamp": f"2025-03-15T14:30:0{at}.123456789Z"} for at in range(4)
    ]  # fmt: skip
    return [*_json(figures), _json_lines(rows)]


def _windows() -> bytes:
    from nodewise.study.window import Request, Window

    requests = tuple(
        Request(intended=at / 20, sent=at / 20, first=at / 20 + 0.05, last=at / 20 + 0.3,
                output_tokens=9) for at in range(40)
    )  # fmt: skip
    windows = [
        Window(replicas=r, offered_per_second=20.0, seconds=2.0, requests=requests) for r in (1, 2)
    ]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in windows)


def _aws() -> list[bytes]:
    node = {"instanceType": "p5.48xlarge", "regionCode": "us-east-1", "operatingSystem": "Linux",
            "vcpu": "192", "memory": "2,048 GiB", "gpu": "8"}  # fmt: skip
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": "55.0400000000"}}
    terms = {"A": {"code": {"priceDimensions": {"rate": rate}}}}
    products = {"A": {"attributes": node}}
    day = "2026-08-20T10:00:00Z"
    return _json({"publicationDate": day, "products": products, "terms": {"OnDemand": terms}})


def _azure() -> list[bytes]:
    item = {"currencyCode": "USD", "retailPrice": 3.6, "tierMinimumUnits": 0.0,
            "armRegionName": "eastus", "armSkuName": "HB120", "productName": "HBrsv3 Series",
            "skuName": "HB120", "unitOfMeasure": "1 Hour", "type": "Consumption"}  # fmt: skip
    items = [item, item | {"skuName": "HB120 Spot", "retailPrice": 0.396},
             item | {"type": "Reservation", "reservationTerm": "1 Year"}]  # fmt: skip
    return _json({"Items": items, "NextPageLink": None})


_SKYPILOT = b"""SpotPrice,InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,Price
1.5,p3.2xlarge,8,61,V100,1,us-east-1,3.06
,m5.large,2,8,,,us-east-1,0.096
"""
_ZEUS = b"""start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy
1760000000.0,training,10.5,2000.0,2100.0
1760000020.0,training,10.0,1900.0,2000.0
"""
_LATEX = rb"""\caption{Strong scaling of the solver.}
\begin{tabular}{lrr}\toprule
Nodes & Time (s) & Speedup \\ \midrule
1 & 100.0 & 1.0 \\
2 & 52.5 & \multicolumn{1}{r}{1.9} \\
4 & 28.0 & 3.6 \\ \bottomrule
\end{tabular}
"""
_MARKDOWN = b"""# Weak scaling
| GPUs | throughput (images/s) | efficiency |
|--:|--:|--:|
| 1 | 1,200 | 100 % |
| 8 | 9.1k | 95% |
| 64 | 70,000 | 91 |
"""

_REFRAME_LOG = (
    b"result|job_completion_time|display_name|environ|job_nodelist|num_tasks|setup_value|"
    b"setup_unit|elapsed_value|elapsed_unit|system\n"
    b"pass|2026-07-11T13:55:43|heat %n=4000|gnu|n1|8|3.0|s|120.5|s|big\n"
    b"pass|2026-07-11T14:05:43|heat %n=4000|gnu|n[1-2]|16|3.0|s|63.1|s|big\n"
    b"fail|2026-07-11T14:15:43|heat %n=4000|gnu|n[1-4]|32|null|null|null|null|big\n"
)
_JUBE = (
    b"result:\nnodes | setup[s] | runtime[s]\n------+----------+-----------\n"
    b"1 | 2 | 10.0\n2 | 2 | 5.5\n"
)


def _results() -> list[bytes]:
    """Of hyperfine, pyperf and ReFrame."""
    fine = {"results": [
        {"command": f"job {k}", "times": [10.0 / k, 10.2 / k], "exit_codes": [0, 0],
         "parameters": {"threads": str(k)}} for k in (1, 2, 4)]}  # fmt: skip
    perf = {"metadata": {"hostname": "n1"}, "benchmarks": [
        {"metadata": {"name": f"fft_{k}"}, "runs": [
            {"metadata": {"date": "2026-08-01"}, "warmups": [[1, 0.5]], "values": [1 / k, 1.1 / k]},
            {"values": [1.05 / k]}]} for k in (1, 2)]}  # fmt: skip
    frame = {"runs": [{"testcases": [
        {"name": "solver", "result": "success", "system": "daint", "check_vars": {"num_tasks": k},
         "nodelist": ["n1"], "perfvalues": {"sys:part:t": [12.5 / k, 0, None, None, "s"]}}
        for k in (1, 2)]}]}  # fmt: skip
    return _json(fine, perf, frame)


def _logs() -> list[bytes]:
    """A log of MLPerf that says its own scale."""
    [log] = _mlperf()
    more = {"key": "submission_platform", "value": "16xDGX", "time_ms": 0, "metadata": {}}
    return [log + b"\n" + _json_lines([more], "0: :::MLLOG ")]


def _runs() -> bytes:
    """The runs of a study folder: ranks with stages, a baseline, and one that failed."""
    table = parse_table((_EXAMPLES / "ddp-step.csv").read_text(), "ddp")
    runs = [run for run in table.runs if run.nodes <= 4 and run.round < 3]
    runs = [
        msgspec.structs.replace(
            run, provenance={"host": "a", "cores": 2, "engine": "local"}, facts={"batch": 64},
            contention=Contention(run_delay=0.01), started="2026-11-16T03:05:24+00:00",
            setup_seconds=0.5, energy_joules=9.5, steps=12,
        ) for run in runs
    ]  # fmt: skip
    runs.append(Run(nodes=1, round=0, seconds=0.9, baseline=True))
    runs.append(Run(nodes=8, round=0, seconds=1.5, outcome="crashed", detail="exit code 3"))
    return b"".join(msgspec.json.encode(run) + b"\n" for run in runs)


_SPEC = b"""format = 1
name = "ddp"
scales = [1, 2, 4, 8]
rounds = 3
[workload]
command = ["{python}", "job.py"]
[price]
per_node_hour = 2.5
[gates]
least_speedup = {2 = 1.5}
"""


def _page() -> list[bytes]:
    from nodewise.decide.prices.lookup import question_of
    from nodewise.report.page.html import _Embedded

    study = parse_table((_EXAMPLES / "rubric.csv").read_text(), "rubric")
    inside = msgspec.json.encode(_Embedded(study=study, question=question_of({})))
    mark = b'<html><script type="application/json" id="nodewise-study">'
    return [mark + b"\n" + inside + b"\n</script></html>"]


def _report() -> list[bytes]:
    """What the probe of a rank leaves."""
    usage = {"cpu_seconds": 1.5, "memory_bytes": 10**8, "run_delay_seconds": 0.1,
             "read_bytes": 0, "written_bytes": 0}  # fmt: skip
    return _json(
        {"rank": 0, "host": "a", "began": _START, "seconds": 2.5, "setup_seconds": 0.5, "steps": 9,
         "stages": {"compute": 2.0, "io": 0.5}, "items": 64.0, "quality": 0.9,
         "facts": {"batch": 64}, "usage": usage, "comm_calls": 3, "step_ends": 9,
         "modules": {"numpy": "2.0"}}
    )  # fmt: skip


def _mpi_report(rank: int) -> bytes:
    """What the interposer of a rank leaves beside its stamps."""
    calls = {"seconds": 0.2, "calls": 3, "bytes": 4096, "calls_by_log2_ns": [0, 1, 2]}
    world = {
        "process": 100 + rank, "world_size": 2, "library": "MPICH", "finalized": True,
        "aborted": False, "abort_code": 0, "begin_ns": 0, "end_ns": 10**9, "clock_offset_ns": 5,
        "clock_error_ns": 9, "hosts": 1, "collectives_seen": 2, "messages_seen": 1, "unmatched": 0,
        "thread_cpu_s": [0.9, 0.1], "classes": {"allreduce": calls},
        "communicators": [{**calls, "id": "7", "size": 2}],
    }  # fmt: skip
    return json.dumps(
        {"rank": rank, "host": "h", "began": _START, "seconds": 1.0, "usage": {},
         "stages": {"compute": 0.5, "communication": 0.5, "io": 0.0}, "mpi": world, "cpu_s": 0.9,
         "paced_s": 0.1, "late_s": 0.0, "held_up_s": 0.0, "pace_share": 1.0}
    ).encode()  # fmt: skip


def _mpi_stamps(rank: int) -> bytes:
    """Two collectives and a message, as interposer.c writes them."""
    import numpy as np

    from nodewise.measure.mpi.reports import _STAMP

    rows = [
        (10**8 * at, 10**8 * at, 10**8 * (at + 1) - rank, 7, at, 2, kind, rank)
        for at, kind in enumerate((1, 2, 4 + rank))
    ]
    return np.array(rows, _STAMP).tobytes()


def _machine() -> list[bytes]:
    from nodewise.study.machine import Ceiling, Machine

    one = Ceiling(value=1e10, low=9e9, high=1.1e10, unit="B/s", windows=9)
    found = Machine(identity={"cpu": "x"}, measured="2026", seconds=9.0, memory={"DRAM": {1: one}},
                    page_fault=one, disk={"read": one}, capacity={"total": 1e10})  # fmt: skip
    return [msgspec.json.encode(found)]


def _answers() -> list[bytes]:
    """Of a server: a stream of events, and a whole document."""
    part = {"choices": [{"delta": {"content": "word"}}], "usage": None}
    last = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    events = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in (part, part, last)]
    whole = {"choices": [{"text": "words"}], "usage": {"prompt_tokens": 9}, "error": None}
    return [b"".join(events) + b"data: [DONE]\n\n", *_json(whole)]


def _plain(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def readers() -> dict[str, Reader]:
    """Every reader by its name."""
    return {
        **_table_readers(), **_trace_readers(), **_load_readers(), **_inner_readers(),
        **_log_readers(), **_history_readers(),
    }  # fmt: skip


def _history_readers() -> dict[str, Reader]:
    """Histories: our own, and those that other tools kept."""
    from nodewise.history import file
    from nodewise.history.imports import read_history

    own = b"".join((_EXAMPLES / "history" / "history.jsonl").read_bytes().splitlines(True)[:12])
    table = b"date,commit,K,seconds,workload,machine\n" + b"".join(
        f"2026-03-{day:02}T10:00:00+02:00,c{day},{nodes},{90 / nodes + day},solver,m\n".encode()
        for day in range(1, 9)
        for nodes in (1, 2, 4)
    )
    benches = [{"name": f"fft K={k}", "value": 900 / k, "unit": "ms/iter"} for k in (1, 2, 4)]
    sessions = [
        {"commit": {"id": f"c{at}"}, "date": 1.7e12 + 1e9 * at, "benches": benches}
        for at in range(3)
    ]
    (action,) = _json({"lastUpdate": 1, "entries": {"suite": sessions}})
    cases = [
        {"name": f"solver %n={k}", "system": "daint", "environment": "gnu", "result": "pass",
         "num_tasks": k, "time_run": 90 / k,
         "perfvalues": {"daint:mc:time": [90 / k, 80, None, 0.1, "s"]}}
        for k in (1, 2, 4)
    ]  # fmt: skip
    (reframe,) = _json({"session_info": {"time_start": "2026-03-01T10:00:00+0100"},
                        "runs": [{"testcases": cases}]})  # fmt: skip
    return {
        "history": Reader(
            [own],
            lambda path: file.read(file.place_of(str(path))),
            file.NAME,
            commands=("history check --history {file}", "history show --history {file}"),
        ),
        "other history": Reader(
            [table, action, b"window.BENCHMARK_DATA = " + action],
            read_history,
            commands=("history import {file} --history {folder}/made.jsonl",),
        ),
        "history of ReFrame": Reader([reframe], lambda path: read_history(path.parent), "run.json"),
        "history of TALP": Reader(_talp(), lambda path: read_history(path.parent), "talp.json"),
    }


def _table_readers() -> dict[str, Reader]:
    """Tables, specs, prices, studies: what people write and keep."""
    from nodewise.cli.audit import _claims
    from nodewise.cli.fleet import read_fleet
    from nodewise.cli.measure import read_spec
    from nodewise.decide.paper.files import read_cluster, read_job, read_move
    from nodewise.decide.payment.spot import most_nodes, parse_trace
    from nodewise.decide.prices.files import read_owned
    from nodewise.decide.prices.lookup import _read as read_prices
    from nodewise.importers.benchmarks import mlperf, results
    from nodewise.report.open import read_folder, read_study
    from nodewise.report.page.html import study_of_page
    from nodewise.study import store
    from nodewise.study.bundle import pack, unpack

    rubric = _EXAMPLES / "rubric.csv"
    questions = ("scale {}", "attribute {}", "decide {} --price 3.2", "predict {}", "next {}")
    of_table = tuple(one.format("{file}") for one in questions)
    of_folder = (*(one.format("{folder}") for one in questions), "audit {folder}")
    samples = b'{"metadata": {"gap_seconds": 300}, "data": [4, 2, 3, 0, 4, 4]}'
    prices = f"decide {rubric} --prices {{file}}@{_DAY} --instance "

    def priced(path: Path) -> Any:
        return read_prices(f"{path}@{_DAY}")

    def replayed(path: Path) -> Any:
        return parse_trace(_plain(path), 2), most_nodes(_plain(path))

    def unpacked(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            unpack(path, Path(folder))

    def result(path: Path) -> Any:
        text = _plain(path)
        return mlperf.read(path, None) if ":::MLLOG" in text else results.runs_of_json(text, "x")

    bundle = pack({"study.toml": _SPEC, "runs.jsonl": _runs()})
    return {
        "table": Reader(_text("rubric.csv", "breakdown.csv", "three-runs.csv", "step-times.csv"),
                        lambda path: read_study(path, None), commands=of_table),
        "study spec": Reader(
            [*_text("digits.toml", "scan.toml"), _SPEC],
            lambda path: read_spec(path)),
        "fleet spec": Reader(_text("fleet/fleet.toml", "fleet/fleet_rehearsal.toml"), read_fleet),
        "job": Reader(_text("gpt-22b.toml"), read_job,
                      commands=(f"plan {{file}} {_EXAMPLES / 'a100-cluster.toml'} --scales 2,4",)),
        "cluster": Reader(_text("a100-cluster.toml"), read_cluster,
                          commands=(f"plan {_EXAMPLES / 'gpt-22b.toml'} {{file}} --scales 2,4",)),
        "move": Reader(_text("slower-link.toml"), lambda path: read_move(path, None),
                       commands=(f"predict {_EXAMPLES / 'three-runs.csv'} --cluster {{file}}",)),
        "own prices": Reader(_text("prices.toml"), priced, "prices.toml",
                             commands=(prices + "ours:big",)),
        "skypilot": Reader([_SKYPILOT], priced, "aws.csv",
                           commands=(prices + "aws:p3.2xlarge",)),
        "aws": Reader(_aws(), priced, "aws.json", commands=(prices + "aws:p5.48xlarge",)),
        "azure": Reader(_azure(), priced, "azure.json", commands=(prices + "azure:HB120",)),
        "owned node": Reader(_text("owned-node.toml"), read_owned, "own.toml",
                             commands=(f"decide {rubric} --price 3.2 --own {{file}}",)),
        "spot trace": Reader([*_text("spot-trace.csv"), samples], replayed,
                             commands=(f"decide {rubric} --price 3.2 --trace {{file}}",)),
        "runs.jsonl": Reader([_runs()], lambda path: read_folder(path.parent), store.RUNS,
                             {store.SPEC: _SPEC}, of_folder),
        "study.toml": Reader([_SPEC], lambda path: read_folder(path.parent), store.SPEC,
                             {store.RUNS: _runs()}, of_folder),
        "page": Reader(_page(), lambda path: study_of_page(path.read_bytes()), "page.html",
                       commands=("decide {file}",)),
        "bundle": Reader([bundle], unpacked),
        "claims": Reader(
            [*_text("vendor-claim.md", "linear-claim.csv", "rubric.csv"), _LATEX, _MARKDOWN, _JUBE],
            lambda path: _claims([(None, path)], None), commands=("audit {file}",)),
        "results": Reader([*_logs(), *_results()], result, commands=("audit {file}",)),
    }  # fmt: skip


def _trace_readers() -> dict[str, Reader]:
    """What profilers, engines and meters wrote."""
    from nodewise.diagnose.links import fit_alpha_beta
    from nodewise.explain.trace.breakdown import break_down, digest, runs_of
    from nodewise.explain.trace.replay import replay
    from nodewise.importers import registry
    from nodewise.importers.benchmarks import energy_logs, link_tests, mlperf, results
    from nodewise.importers.profilers import caliper, extrap, kineto, nsys, operations, talp
    from nodewise.importers.profilers.digests import pack, unpack
    from nodewise.importers.schedulers import dask_stream, ray_timeline, spark_log
    from nodewise.importers.tables import claims_tables
    from nodewise.report.open import runs_in
    from nodewise.study.trace import TraceWindow

    windows: tuple[TraceWindow, ...] = ("all", "hta", "common")

    def told(digests: Any, window: TraceWindow) -> None:
        job = break_down(digests, window, True)
        msgspec.json.encode(job)  # what was read must also be told
        runs_of(job, 2)

    def traced(traces: Any) -> None:
        for window in windows:
            digests = [digest(one, window) for one in traces]
            told(unpack(pack(digests, window), window), window)

    def link(path: Path) -> Any:
        points = link_tests.read(path).points
        return fit_alpha_beta(points) if len({size for size, _ in points}) > 1 else None

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(_kineto()[0])
        part = pack([digest(kineto.read(path), "all")], "all")

    def any_runs(path: Path) -> Any:
        files = registry.open_file(path)
        gives_runs = files.format.gives in ("runs", "table", "trace")
        return runs_in(files, None, accept_missing=True) if gives_runs else None

    carbon = [path.read_bytes() for path in (_ROOT / "tests/data/energy").glob("*.csv")]
    return {
        "kineto": Reader(_kineto(), lambda path: traced([kineto.read(path)])),
        "nsys": Reader(_nsys(), lambda path: traced(nsys.read(path))),
        "digests": Reader([part], lambda path: told(unpack(path.read_bytes(), "all"), "all")),
        "ray": Reader(_ray(), lambda path: ray_timeline.read(path, None)),
        "dask": Reader(_dask(), lambda path: dask_stream.read(path, None)),
        "spark": Reader(_spark(), lambda path: spark_log.read(path, None)),
        "talp": Reader(_talp(), lambda path: talp.read(path, None)),
        "operations": Reader(_operations(), lambda path: replay(operations.read(path))),
        "mlperf": Reader(_mlperf(), lambda path: mlperf.read(path, 2)),
        "links": Reader(_links(), link),
        "reframe log": Reader([_REFRAME_LOG], lambda path: results.read_reframe_log(path, None)),
        "extra-p": Reader(_extrap(), lambda path: extrap.read(path, None)),
        "caliper": Reader(_caliper(), lambda path: caliper.read(path, 2)),
        "csv": Reader(_csv(), lambda path: claims_tables.read_csv(path, None)),
        "codecarbon": Reader(carbon, lambda path: energy_logs.read_codecarbon([path], 2)),
        "zeus": Reader([_ZEUS], lambda path: energy_logs.read_zeus([path], 2)),
        "any format": Reader(
            [part, *_kineto(), *_nsys(), *_ray(), *_dask(), *_spark(), *_talp(), *_logs(),
             *_extrap(), *_caliper()[:1], *_csv(), *_results(), *_links(), *_guidellm(), *_aiperf(),
             *_vllm(), *_k6(), *_vegeta(), _MARKDOWN, _LATEX, _JUBE],
            any_runs, commands=("trace {file}", "audit {file}", "decide {file}")),
    }  # fmt: skip


def _log_readers() -> dict[str, Reader]:
    """Logs, job records and results: each format, read and made into a study."""
    from nodewise.importers.logs.pattern import Pattern, read_pattern
    from nodewise.importers.logs.study import study_of_logs, understand
    from nodewise.importers.logs.survey import Reading, survey

    def read(form: str) -> Callable[[Path], Any]:
        def made(path: Path) -> Any:
            found = understand(survey([(None, path)], Reading(form=form)))
            if found.used:
                study_of_logs(found, "fuzzed")
            given = understand(survey([(2, path)], Reading(form=form)))
            return study_of_logs(given, "fuzzed") if given.used else None

        return made

    own = b"[pattern]\nk = 'on (\\d+) ranks'\nseconds = 'took ([\\d.]+) s'\n"
    own += b"units = {seconds = 'ms'}\n"
    ours = Pattern({"pattern": {"seconds": r"took ([\d.]+) s", "k": r"on (\d+)"}}, "x")
    text = b"on 4 ranks\nit took 12.5 s\n"
    found = {
        f"log {name}": Reader(some, read(name), commands=("import {file} -o {folder}/made.csv",))
        for name, some in log_samples.samples().items()
    }
    return {
        **found,
        "pattern": Reader([own], read_pattern),
        "log pattern": Reader([text], lambda path: ours.read(path)),
    }


def _load_readers() -> dict[str, Reader]:
    """Load tests of serving fleets."""
    from nodewise.fleet.load import arrivals, prompts, traces, windows
    from nodewise.importers.serving.read import read_windows
    from nodewise.study.window import Summary

    tools = {"guidellm": _guidellm(), "aiperf": _aiperf(), "vllm": _vllm(), "k6": _k6(),
             "vegeta": _vegeta()}  # fmt: skip
    decide = ("fleet decide 2={file} --ttft 100ms --price 2",)

    def own(path: Path) -> Any:
        return windows.load(path.parent), read_windows(path)

    def arriving(path: Path) -> Any:
        recorded = traces.read_trace(_plain(path), str(path))
        return arrivals.replayed([one.seconds for one in recorded], 20, 2.0)

    figures = Summary(replicas=3, offered_per_second=9.0, seconds=9.0, completed=81,
                      ttft={"0.99": 0.1})  # fmt: skip
    fleet = _text("fleet/fleet.toml")[0]
    azure = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n"
    azure += b"2023-11-16 18:15:47.99,396,109\n"
    mooncake = b"".join(
        b'{"timestamp": %d, "input_length": 600, "output_length": 52, "hash_ids": [1, 2]}\n' % at
        for at in (0, 3000)
    )
    questions = b'"hello"\n{"prompt": "x", "output_tokens": 7}\n'
    questions += b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}\n'
    turns = [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]
    (sharegpt,) = _json([{"id": "a", "conversations": turns}])
    return {
        **{
            name: Reader(samples, lambda path: read_windows(path, 2), commands=decide)
            for name, samples in tools.items()
        },
        "windows.jsonl": Reader([_windows()], own, windows.WINDOWS, {"fleet.toml": fleet},
                                ("fleet decide {folder}", "fleet decide {folder} --json",
                                 "fleet predict {folder} --replicas 2")),
        "summaries": Reader([msgspec.json.encode(figures)], read_windows,
                            commands=("fleet decide {file} --ttft 100ms",)),
        "arrivals": Reader([b"time_s,tokens\n0.5,10\n0.1,12\n2.5,9\n", azure, mooncake], arriving),
        "prompts": Reader([questions, sharegpt], prompts.read_prompts),
    }  # fmt: skip


def _inner_readers() -> dict[str, Reader]:
    """What our own workers, a server or a scheduler leave for us to read."""
    from importlib import resources

    from nodewise.decide.allocation.centres import parse_centres
    from nodewise.decide.inputs import read_question_tables
    from nodewise.diagnose.machine import measured
    from nodewise.fleet.load.answers import Events, Streamed, Whole
    from nodewise.measure.collect import collect
    from nodewise.measure.engines import shell_tasks, slurm
    from nodewise.measure.engines.base import Finished
    from nodewise.measure.program_log import with_figures
    from nodewise.study.log_patterns import log_patterns
    from nodewise.study.spec import Workload, read_toml

    def collected(path: Path) -> Any:
        ended = Finished(outcome="ok", seconds=3.0)
        return collect(ended, path.parent, path.parent / "log", nodes=1, ranks=1, number=0,
                       baseline=False, provenance={}, started="")  # fmt: skip

    def collected_of_two(path: Path) -> Any:
        ended = Finished(outcome="ok", seconds=3.0)
        return collect(ended, path.parent, path.parent / "log", nodes=2, ranks=2, number=0,
                       baseline=False, provenance={}, started="")  # fmt: skip

    def answered(path: Path) -> None:
        body = path.read_bytes()
        for kind in (Whole, Streamed, Events):
            reader = kind()
            reader.begin()
            for at in range(0, len(body), 4096):
                reader.feed(body[at : at + 4096], at / 4096)
            reader.finish()

    def stepped(path: Path) -> None:
        slurm._ended(path.parent)
        slurm._numbers(path.parent)
        shell_tasks.read_tasks(path.parent)

    def asked(path: Path) -> Any:
        return read_question_tables(read_toml(_plain(path)))

    def figures(path: Path) -> list[Run]:
        run = Run(nodes=2, round=0, seconds=9.0)
        return [with_figures(run, one, path, path.parent, 0.0) for one in patterns]

    programs = ("lammps", "gromacs", "openfoam", "hpcg", "quantum-espresso")
    patterns = [log_patterns(Workload(command=("x",), log=name)) for name in programs]
    printed = [log for name in programs for log in log_samples.samples()[name]]
    centres = resources.files("nodewise.decide.allocation").joinpath("centres.toml").read_bytes()
    question = b'regime = "weak"\nthreshold = 0.6\nprice = "2..3"\ndeadline = "2 h"\n'
    ranks = {f"mpi-{rank}-{100 + rank}.json": _mpi_report(rank) for rank in (0, 1)}
    ranks |= {f"mpi-{rank}-{100 + rank}.stamps": _mpi_stamps(rank) for rank in (0, 1)}

    def of_rank(name: str, also: bytes = b"") -> Reader:
        others = {other: content for other, content in ranks.items() if other != name}
        return Reader([ranks[name], *([also] if also else [])], collected_of_two, name, others)

    ended = b"0 1760000000.123456789 1760000009.5 node[1-2] 0\n"
    task = b"0 node1 1760000000.5 1760000009.25 8.5 0\n"
    return {
        "rank report": Reader(_report(), collected, "rank-0.json", {"rank-0.bin": bytes(96)}),
        "mpi report": of_rank("mpi-0-100.json", _mpi_report(1)),
        "mpi stamps": of_rank("mpi-0-100.stamps"),
        "program log": Reader(printed, figures),
        "centre": Reader([centres], lambda path: parse_centres(_plain(path))),
        "question": Reader([question], asked),
        "machine": Reader(_machine(), measured._stored),
        "answers": Reader(_answers(), answered),
        "slurm step": Reader([ended], stepped, "ended"),
        "slurm job": Reader([b"4711\n4712\n"], stepped, "submitted"),
        "slurm task": Reader([task], stepped, "task-0"),
    }
