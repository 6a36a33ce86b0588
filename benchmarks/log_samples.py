"""Small logs with known figures, one or more for each format that nodewise reads as logs.

The lines have the form that the programs print; the figures are made up. Used by the tests, by the
fuzzing (fuzz_readers.py) and by examples/logs/make_logs.py.
"""

import io
import json
import math
import random
import struct
import tarfile
from collections.abc import Sequence

WARM = (6.0, 1.9, 1.4, 1.25, 1.18)  # times the usual step, as compilation and caches cost


def step_times(
    dice: random.Random, count: int, base: float, warm: int, noise: float = 0.012
) -> list[float]:
    """Step times with a planted warm-up."""
    times = [base * math.exp(dice.gauss(0, noise)) for _ in range(count)]
    return [time * (WARM[min(at, 4)] if at < warm else 1.0) for at, time in enumerate(times)]


def megatron(
    world: int = 16, batch: int = 128, base: float = 1.0, warm: int = 2, count: int = 24,
    layers: int = 32, seed: int = 0,
) -> str:  # fmt: skip
    """A log of Megatron-LM: header, arguments, iterations, a checkpoint and an evaluation."""
    dice = random.Random(seed)
    times = step_times(dice, count, base, warm)
    out = (
        f"using world size: {world}, data-parallel size: {world // 4}, context-parallel size: 1, "
        "tensor-model-parallel size: 4, pipeline-model-parallel size: 1\n"
        f"  num_layers ...................................... {layers}\n"
        "  hidden_size ..................................... 4096\n"
        "  seq_length ...................................... 4096\n"
        f"  global_batch_size ............................... {batch}\n"
    )
    for at, time in enumerate(times, start=1):
        if at == count - 8:
            out += f"saving checkpoint at iteration {at - 1} to /scratch/run\n"
            time *= 4
        if at == count - 4:
            out += f" validation loss at iteration {at - 1} | lm loss value: 2.0E+00 |\n"
            time *= 2
        out += (
            f" [2026-03-01 12:00:{at % 60:02d}] iteration {at:8d}/{count:8d} | consumed samples: "
            f"{at * batch:12d} | elapsed time per iteration (ms): {1e3 * time:.1f} | throughput "
            f"per GPU (TFLOP/s/GPU): {400 / time:.1f} | learning rate: 1.0E-05 | global batch "
            f"size: {batch:5d} | lm loss: 2.1E+00 | number of skipped iterations: "
            f"{int(at == 1):3d} | number of nan iterations:   0 |\n"
        )
    return out


TIMERS = """(min, max) time across ranks (ms):
    forward-backward ...............................: (810.40, 821.30)
    forward-compute ................................: (250.00, 260.00)
    backward-compute ...............................: (480.00, 500.00)
    batch-generator ................................: (2.00, 4.00)
    all-grads-sync .................................: (60.00, 80.00)
    optimizer ......................................: (100.10, 101.20)
"""


def megatron_timers(world: int = 16, base: float = 1.0) -> str:
    """A log of Megatron-LM with the timers of each iteration after it."""
    lines = megatron(world=world, base=base).splitlines(keepends=True)
    return "".join(line + (TIMERS if "elapsed time per" in line else "") for line in lines)


def nanotron_console(world: int = 8, base: float = 1.2, count: int = 16) -> str:
    """The console of nanotron: figures of three digits."""
    times = step_times(random.Random(2), count, base, 1)
    return "".join(
        f"[default0]:10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: {at} / {count} | "
        f"consumed_tokens: 8.5M | elapsed_time_per_iteration_ms: {_short(1e3 * time)} | "
        f"tokens_per_sec: {_short(world * 4e4 / time)} | tokens_per_sec_per_gpu: "
        f"{_short(4e4 / time)} | global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | "
        "model_tflops_per_gpu: 38.3 | hardware_tflops_per_gpu: 38.3 | grad_norm: 1.25\n"
        for at, time in enumerate(times, start=1)
    )


def _short(value: float) -> str:
    """Three digits, with K or M: 1.21K."""
    for sign, worth in (("M", 1e6), ("K", 1e3), ("", 1.0)):
        if value >= worth:
            return f"{value / worth:.3g}{sign}"
    return f"{value:.3g}"


PIPELINE = "".join(
    f"steps: {at} loss: 4.6178 iter time (s): 0.99{at % 7} samples/sec: "
    f"{256 / (0.99 + at % 7 / 1e3):.3f}\n"
    for at in range(10, 200, 10)
)


def torchtitan(world: int = 8, base: float = 1.2, warm: int = 1, count: int = 16) -> str:
    """The console of torchtitan, in colours and with the prefix of torchrun."""
    dice = random.Random(1)
    tokens = world * 2 * 4096
    out = (
        f"[rank0]:[titan] 2026-03-01 12:00:00,000 - root - INFO - Building device mesh with "
        f"parallelism: pp=1, dp_replicate=1, dp_shard={world}, cp=1, tp=1, ep=1\n"
        "[rank0]:[titan] - \x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total parameters\n"
        f"[rank0]:[titan] - Trainer is initialized with local batch size 2, global batch size "
        f"{2 * world}, gradient accumulation steps 1, sequence length 4096, total steps {count}\n"
    )
    for at, time in enumerate(step_times(dice, count, base, warm), start=1):
        rate = tokens / world / time
        out += "".join(
            f"[rank{rank}]:[titan] - \x1b[31mstep: {at:2}  \x1b[32mloss:  7.21000  memory: 47.90GiB"
            f"(59.90%)  \x1b[34mtps: {round(rate):,}  tflops: {rate * 0.05:,.2f}\x1b[39m\n"
            for rank in (0, 1)
        )
    return out


def torchtitan_jsonl(rank: int = 0, world: int = 1, count: int = 12) -> str:
    """The structured log of one rank; the last rank is slow and the others wait for it."""
    lines = []

    def event(name: str, step: int, value: float) -> None:
        lines.append(json.dumps({
            "rank": rank, "global_rank": rank, "host_name": "node0", "step": step,
            "time_us": 0, "log_type": "event", "log_type_name": name, "value": value,
        }))  # fmt: skip

    for step in range(1, count + 1):
        factor = 3.0 if step == 1 else 1.0
        own = 100.0 * factor * (1.5 if rank == world - 1 and world > 1 else 1.0)
        slowest = 100.0 * factor * (1.5 if world > 1 else 1.0)
        event("fetching_batch_end", step, 2.0)
        event("fwd_bwd_end", step, own)
        event("optim_end", step, 10.0 + slowest - own)
        event("step_end", step, 15.0 + slowest)
        lines.append(json.dumps({
            "rank": rank, "global_rank": rank, "step": step, "log_type_name": "metric_value",
            "event_name": "local_valid_tokens", "value": 8192.0,
        }))  # fmt: skip
    return "\n".join(lines) + "\n"


NEMO = "".join(
    f"[default0]:Training epoch 0, iteration {at}/19 | lr: 1e-07 | global_batch_size: 64 | "
    f"global_step: {at} | reduced_train_loss: 9.1 | train_step_timing in s: "
    f"{(9.0, 2.2)[at > 0] + 0.001 * (at % 3):.4g} | consumed_samples: {64 * at + 64}\n"
    for at in range(20)
)
MAXTEXT = "".join(
    f"completed step: {at}, seconds: {(30.0, 0.004)[at] if at < 2 else 2.0:.3f}, TFLOP/s/device: "
    f"200.000, Tokens/s/device: {8192 / ((30.0, 0.004)[at] if at < 2 else 2.0):.3f}, "
    "total_weights: 65536, loss: 9.100\n"
    for at in range(20)
)
HF_CONSOLE = (
    "***** Running training *****\n  Num examples = 6,400\n"
    "  Instantaneous batch size per device = 8\n"
    "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
    "  Gradient Accumulation steps = 2\n  Total optimization steps = 100\n"
    "  Number of trainable parameters = 124,439,808\n"
    "\r 50%|#####     | 50/100 [00:25<00:25,  2.00it/s]\r100%|##########| 100/100\n"
    "{'loss': '3.21', 'grad_norm': '1.1', 'learning_rate': '1e-05', 'epoch': '0.5'}\n"
    "{'train_runtime': '50.01', 'train_samples_per_second': '128', 'train_steps_per_second': '2', "
    "'train_loss': '3.4', 'epoch': '1'}\n"
)
HF_METRICS = HF_CONSOLE.partition("{'train_runtime'")[0] + (
    "***** train metrics *****\n  epoch                    =        2.0\n"
    "  train_loss               =     0.9993\n  train_runtime            = 1 day, 0:14:32.12\n"
    "  train_samples_per_second =      0.073\n  train_steps_per_second   =      0.001\n"
    "TrainOutput(\n    global_step=100,\n    metrics={\n        'epoch': 2.0\n    }\n)\n"
)
MEGATRON_2021 = (
    "using world size: 64 and model-parallel size: 4\n  batch_size .... 4\n  gas .... 256\n"
    "  model_parallel_size .... 4\n  pipe_parallel_size .... 16\n  seq_length .... 1024\n"
    "  world_size .... 64\n[config.py:752:print]   train_batch_size .... 1024\n"
    "[config.py:752:print]   world_size .... 16\n"
) + "".join(
    f"steps: {at} loss: 12.79 iter time (s): 145.206 samples/sec: 7.052\n"
    f" iteration {at:8d}/    1000 | elapsed time per iteration (ms): 145207.{at} | lm loss: 1.2 |\n"
    for at in range(1, 9)
)
BRIDGE_STEPS = "".join(
    f"Step Time : {seconds:.2f}s GPU utilization: 426.6MODEL_TFLOP/s/GPU\n"
    for seconds in (60.0, 2.01, 2.0, 2.02, 2.0, 2.01, 2.02)
)
HF_STATE = json.dumps({
    "global_step": 100, "train_batch_size": 8, "total_flos": 1e15, "log_history": [
        {"loss": 3.2, "step": 50, "epoch": 0.5},
        {"train_runtime": 50.0, "train_samples_per_second": 640.0, "train_steps_per_second": 2.0,
         "step": 100, "epoch": 1.0}]})  # fmt: skip
DEEPSPEED = (
    "[2026-01-01 00:00:00,000] [INFO] [config.py:988:print]   train_batch_size ............. 256\n"
    "[2026-01-01 00:00:00,000] [INFO] [config.py:988:print]   world_size ................... 16\n"
) + "".join(
    f"[2026-01-01 00:00:01,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={at}, skipped=2, "
    f"lr=[1e-05], mom=[(0.9, 0.95)]\n[2026-01-01 00:00:01,000] [INFO] [timer.py:260:stop] epoch=0/"
    f"micro_step={at}/global_step={at}, RunningAvgSamplesPerSec=120.0, CurrSamplesPerSec=128.0, "
    "MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n[2026-01-01 00:00:01,000] [INFO] "
    "[logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 600.0 | bwd: 1200.0 | bwd_inner: 700.0 | "
    "bwd_allreduce: 500.0 | step: 150.0\n"
    for at in range(10, 90, 10)
)
LIGHTNING = (
    "epoch,step,train/batches,train/device/samples_per_sec,train/samples,train/samples_per_sec,train/time,train_loss\n"
    + "".join(
        f"0,{at - 1},{at},160.0,{at * 32},640.0,{1.0 + at * 0.2},\n0,{at - 1},,,,,,2.1\n"
        for at in range(5, 60, 5)
    )
)
NANOTRON = (
    "job_id,name,nodes,seq_len,mbs,batch_accum,gbs,mTFLOPs,tok/s/gpu,Mem Alloc (GB),dp,pp,tp,cp,"
    "hidden_size,num_layers,Total Params\n"
    "1,a,1,4096,2,64,512,337.2,7000.00,40.0,8,1,1,1,4096,32,8.03G\n"
    "2,b,2,4096,2,32,512,320.0,6500.00,40.0,16,1,1,1,4096,32,8.03G\n"
)
LAMMPS = """LAMMPS (2 Aug 2023)
  2 by 1 by 1 MPI processor grid
Loop time of 2.5 on 2 procs for 100 steps with 32000 atoms

Performance: 17280.0 tau/day, 40.0 timesteps/s
99.0% CPU use with 2 MPI tasks x 1 OpenMP threads

MPI task timing breakdown:
Section |  min time  |  avg time  |  max time  |%varavg| %total
---------------------------------------------------------------
Pair    | 1.0        | 1.4        | 1.8        |  20.0 | 56.00
Neigh   | 0.1        | 0.1        | 0.1        |   0.0 |  4.00
Comm    | 0.2        | 0.6        | 1.0        |  30.0 | 24.00
Output  | 0.01       | 0.01       | 0.01       |   0.0 |  0.40
Modify  | 0.3        | 0.3        | 0.3        |   0.0 | 12.00
Other   |            | 0.09       |            |       |  3.60
Total wall time: 0:00:02
"""
GROMACS = """                      :-) GROMACS - gmx mdrun, 2024.2 (-:

GROMACS:      gmx mdrun, version 2024.2
Running on 2 nodes with total 8 cores, 8 processing units
Input Parameters:
   integrator                     = md
   dt                             = 0.002
   nsteps                         = 5000
Using 8 MPI processes
Using 1 OpenMP thread per MPI process
There are: 3000 Atoms

Dynamic load balancing report:
 Part of the total run time spent waiting due to load imbalance: 5.0%.

      R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G

On 8 MPI ranks

 Activity:              Num   Num      Call    Wall time         Giga-Cycles
                        Ranks Threads  Count      (s)         total sum    %
--------------------------------------------------------------------------------
 Domain decomp.            8    1         50       0.500          8.000   5.0
 Comm. coord.              8    1       4950       1.000         16.000  10.0
 Force                     8    1       5001       6.000         96.000  60.0
 Wait + Comm. F            8    1       5001       1.000         16.000  10.0
 PME mesh                  8    1       5001       1.000         16.000  10.0
 Rest                                              0.500          8.000   5.0
--------------------------------------------------------------------------------
 Total                                            10.000        160.000 100.0
--------------------------------------------------------------------------------

               Core t (s)   Wall t (s)        (%)
       Time:       80.000       10.000      800.0
                 (ns/day)    (hour/ns)
Performance:       86.400        0.278
"""
OPENFOAM = "Exec   : icoFoam -parallel\nnProcs : 4\n\n" + "".join(
    f"Time = {at}\n\nExecutionTime = {at * 2.0:.2f} s  ClockTime = {at * 2} s\n\n"
    for at in range(1, 101)
) + "End\n\nFinalising parallel run\n"  # fmt: skip
HPCG_YAML = """HPCG-Benchmark version: 3.1
Release date: March 28, 2019
Machine Summary:
  Distributed Processes: 8
  Threads per processes: 1
Global Problem Dimensions:
  Global nx: 208
  Global ny: 208
  Global nz: 208
Iteration Count Information:
  Result: PASSED
  Total number of optimized iterations: 500
Benchmark Time Summary:
  Optimization phase: 1.0e-06
  DDOT: 1.5
  Total: 60.0
Floating Point Operations Summary:
  Total: 2.0e+11
GFLOP/s Summary:
  Raw Total: 3.3
Final Summary:
  HPCG result is VALID with a GFLOP/s rating of: 3.28
"""
HPCG_TEXT = """HPCG-Benchmark
version=3.1
Machine Summary::Distributed Processes=16
Machine Summary::Threads per processes=1
Global Problem Dimensions::Global nx=416
Global Problem Dimensions::Global ny=208
Global Problem Dimensions::Global nz=208
Iteration Count Information::Total number of optimized iterations=450
Benchmark Time Summary::DDOT=1.5
Benchmark Time Summary::Total=60.3
Floating Point Operations Summary::Total=4.0e+11
Final Summary::HPCG result is VALID with a GFLOP/s rating of=6.11
"""
ESPRESSO = """
     Program PWSCF v.7.2 starts on 19Jul2026 at 11:28:15

     Parallel version (MPI & OpenMP), running on      12 processor cores
     Number of MPI processes:                 6
     Threads/MPI process:                     2
     MPI processes distributed on     1 nodes
     number of atoms/cell      =           64
     number of Kohn-Sham states=          160
     kinetic-energy cutoff     =      40.0000  Ry
     convergence has been achieved in  11 iterations
     PWSCF        :   1m20.00s CPU   1m23.50s WALL

   JOB DONE.
"""
MPIP = """@ mpiP
@ Command : ./heat
@ Version                  : 3.5.0
@ MPI Task Assignment      : 0 node1
@ MPI Task Assignment      : 1 node2
---------------------------------------------------------------------------
@--- MPI Time (seconds) ---------------------------------------------------
---------------------------------------------------------------------------
Task    AppTime    MPITime     MPI%
   0         10          1    10.00
   1         10          4    40.00
   *         20          5    25.00
---------------------------------------------------------------------------
@--- Callsites: 8 ---------------------------------------------------------
 ID Lev File/Address        Line Parent_Funct             MPI_Call
"""
SACCT = """JobID|JobName|NNodes|NTasks|Elapsed|State|ExitCode|ConsumedEnergyRaw|Partition|Start
7|heat_n1|1||00:10:10|COMPLETED|0:0|600000|batch|2026-05-04T08:00:00
7.0|heat|1|48|00:10:00|COMPLETED|0:0|590000||2026-05-04T08:00:05
8|heat_n2|2||00:05:20|COMPLETED|0:0|640000|batch|2026-05-05T08:00:00
8.0|heat|2|96|00:05:10|COMPLETED|0:0|630000||2026-05-05T08:00:05
9|heat_n4|4||1-00:00:00|TIMEOUT|0:0|9000000|batch|2026-05-06T08:00:00
10|heat_n4|4||00:00:00|PENDING|0:0||batch|Unknown
11_1|heat_n4|4||00:03:00|COMPLETED|0:0|700000|fat|2026-05-06T18:00:00
"""
SACCT_COLUMNS = """   Elapsed      State   NNodes        JobID    JobName
---------- ---------- -------- ------------ ----------
  00:10:00  COMPLETED        1            7    heat_n1
  00:05:10  COMPLETED        2            8    heat_n2
"""
SEFF = """Job ID: 12345678
Cluster: big
State: COMPLETED (exit code 0)
Nodes: 16
Cores per node: 28
CPU Utilized: 1-17:05:54
Job Wall-clock time: 00:05:49
"""
RAMBLE = json.dumps({"experiments": [
    {"name": f"heat.{nodes}", "RAMBLE_STATUS": status, "workload_name": "heat",
     "RAMBLE_VARIABLES": {"n_nodes": str(nodes), "n_ranks": str(8 * nodes)},
     "CONTEXTS": [{"name": "null", "foms": [
         {"name": "Total time", "value": str(64 / nodes), "units": "s"}]}]}
    for nodes, status in ((1, "SUCCESS"), (2, "SUCCESS"), (4, "FAILED"))]})  # fmt: skip
MLFLOW = "artifact_uri: file:///runs/1/artifacts\nend_time: 2\nrun_id: 1\nrun_uuid: 1\nstatus: 3\n"


def _field(number: int, kind: int, data: bytes) -> bytes:
    size = (
        bytes([len(data)]) if len(data) < 128 else bytes([len(data) % 128 + 128, len(data) // 128])
    )
    return bytes([number << 3 | kind]) + (size if kind == 2 else b"") + data


def tensorboard(
    count: int = 20, tags: Sequence[tuple[str, int, float]] = (("train/loss", 1, 2.0),)
) -> bytes:
    """An event file; a step takes half a second, the first one two.

    A tag has a name, how far its axis goes in a step, and a value.
    """
    events = [_field(1, 1, struct.pack("<d", 1e9)) + _field(3, 2, b"brain.Event:2")]
    wall = 1e9
    for step in range(1, count + 1):
        wall += 2.0 if step <= 2 else 0.5
        for name, far, number in tags:
            value = _field(1, 2, name.encode()) + _field(2, 5, struct.pack("<f", number))
            at = step * far
            place = bytes([at]) if at < 128 else bytes([at % 128 + 128, at // 128])
            events.append(_field(1, 1, struct.pack("<d", wall)) + _field(2, 0, place)
                          + _field(5, 2, _field(1, 2, value)))  # fmt: skip
    return b"".join(struct.pack("<QI", len(one), 0) + one + bytes(4) for one in events)


def wandb(count: int = 20, every: int = 1) -> bytes:
    """The log of an offline W&B run: one row for each step, or for several steps."""
    out = b":W&B\x1f\xbe\x00"
    for step in range(count):
        row = {"_step": step, "_timestamp": 1e9 + 0.5 * step, "train/loss": 2.0}
        if every > 1:
            row["trainer/global_step"] = every * (step + 1)
        items = b"".join(
            _field(1, 2, _field(1, 2, key.encode()) + b"\x82\x01" + bytes([len(text)]) + text)
            for key, value in row.items()
            if (text := json.dumps(value).encode())
        )
        record = _field(2, 2, items)
        out += bytes(4) + struct.pack("<HB", len(record), 1) + record
    return out


# The anchor of an archive of OTF2 that lacks its other files: the package refuses it.
OTF2 = b"\x03BOTF2\x00\x03\x02\x02\x03\x00\x00\x00\x10" + bytes(40) + b"Score-P 7.1\x00" + bytes(9)


_CALLS = ("main", "MPI_Init", "solve", "MPI_Allreduce", "MPI_Finalize")


def cube(own: Sequence[tuple[float, ...]] = ((1, 2, 40, 10, 1), (1, 3, 30, 20, 1))) -> bytes:
    """A Cube profile: for each rank the seconds in each of the calls themselves."""
    places = range(len(own))
    regions = "".join(
        f'<region id="{at}" mod="" begin="-1" end="-1"><name>{name}</name></region>'
        for at, name in enumerate(_CALLS)
    )
    calls = (
        '<cnode id="0" calleeId="0"><cnode id="1" calleeId="1"/><cnode id="2" calleeId="2">'
        '<cnode id="3" calleeId="3"/></cnode><cnode id="4" calleeId="4"/></cnode>'
    )
    processes = "".join(
        f'<locationgroup Id="{at}"><name>MPI Rank {at}</name><rank>{at}</rank><type>process</type>'
        f'<location Id="{at}"><name>Master thread</name><rank>0</rank><type>thread</type>'
        "</location></locationgroup>"
        for at in places
    )
    anchor = (
        '<?xml version="1.0" encoding="UTF-8"?><cube version="4.4"><metrics><metric id="1" '
        'type="EXCLUSIVE"><uniq_name>time</uniq_name><dtype>DOUBLE</dtype><uom>sec</uom></metric>'
        f'</metrics><program>{regions}{calls}</program><system><systemtreenode Id="0">'
        f"<name>machine</name>{processes}</systemtreenode></system></cube>"
    )
    count = len(_CALLS)
    index = b"CUBEX.INDEX" + struct.pack("<ihbi", 1, 0, 0, count)
    index += struct.pack(f"<{count}i", *range(count))
    seconds = [own[at][call] for call in range(count) for at in places]
    data = b"CUBEX.DATA" + struct.pack(f"<{len(seconds)}d", *seconds)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        files = {"1.index": index, "1.data": data, "anchor.xml": anchor.encode()}
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def samples() -> dict[str, list[bytes]]:
    """Every format that gives logs, with its samples."""
    texts: dict[str, list[str]] = {
        "megatron": [megatron(), megatron_timers(), MEGATRON_2021, BRIDGE_STEPS], "nemo": [NEMO],
        "torchtitan": [torchtitan()],
        "torchtitan-jsonl": [torchtitan_jsonl()], "maxtext": [MAXTEXT],
        "hf-console": [HF_CONSOLE, HF_METRICS], "hf-state": [HF_STATE],
        "deepspeed": [DEEPSPEED, PIPELINE],
        "lightning": [LIGHTNING], "nanotron": [NANOTRON],
        "nanotron-console": [nanotron_console()], "lammps": [LAMMPS],
        "gromacs": [GROMACS], "openfoam": [OPENFOAM], "hpcg": [HPCG_YAML, HPCG_TEXT],
        "quantum-espresso": [ESPRESSO], "mpip": [MPIP], "sacct": [SACCT, SACCT_COLUMNS],
        "seff": [SEFF], "ramble": [RAMBLE], "mlflow": [MLFLOW],
    }  # fmt: skip
    found = {name: [text.encode() for text in some] for name, some in texts.items()}
    own = {"tensorboard": tensorboard(), "wandb": wandb(), "otf2": OTF2, "cube": cube()}
    return {**found, **{name: [content] for name, content in own.items()}}
