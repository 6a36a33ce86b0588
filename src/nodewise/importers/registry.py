"""The one list of file formats that nodewise reads. Each is detected by its content."""

import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nodewise.base.errors import DataError, SpecError
from nodewise.importers.head import Head
from nodewise.study import store
from nodewise.study.scale_unit import NODE
from nodewise.study.study import Run

Gives = Literal["trace", "operations", "runs", "logs", "table", "load", "link"]

_TRACE_ENDINGS = (".json", ".json.gz", ".sqlite", ".digests")
_RAY_EVENT = re.compile(rb'"cat"\s*:\s*"(?:task:|ray\.|submit_task)')
_CALIPER_TIME = re.compile(r"(sum#|avg#)*time\.duration|time(\.exclusive\.duration| \(exc\))?$")
_CALIPER_PATHS = {"path", "function", "region", "mpi.function", "source.function#callpath.address"}
_GPU_ENERGY = re.compile(r"gpu\d+_energy")
_NCCL_ROW = re.compile(r"^ *\d+ +\d+ +\w+ +\w+ +-?\d+ +[\d.]+ +[\d.]+ +[\d.]+", re.MULTILINE)
_OSU_TITLE = re.compile(r"^[ \t]*#.*OSU ", re.MULTILINE)
_EXTRA_P = re.compile(r"(?:\s*#[^\n]*\n)*\s*(PARAMETER|POINTS|EXPERIMENT)\s")
_MARKDOWN_RULE = re.compile(
    r"^[ \t]{0,40}\|?([ \t]{0,40}:?-+:?[ \t]{0,40}\|)+[ \t]{0,40}(:?-+:?)?[ \t]*$", re.MULTILINE
)
_MONITOR_TIME = re.compile(r"train[/|._-]time")
_JUBE_RULE = re.compile(r"^-{2,}(?:\+-{2,})+ *$", re.MULTILINE)
_SACCT = {"jobid", "jobidraw", "jobname", "state", "elapsed", "elapsedraw", "nnodes", "allocnodes",
          "ntasks", "alloccpus", "partition", "exitcode", "alloctres", "reqtres", "consumedenergy",
          "consumedenergyraw", "reqcpufreq", "timelimit", "totalcpu", "nodelist"}  # fmt: skip
# Lines of logs; each is looked for at the beginning and at the end of a file.
_REFRAME = {"job_completion_time", "num_tasks", "result"}
_MEGATRON = re.compile(
    rb"iteration[ =]+\d{1,12}/ *(?:\d{1,12}|infinity) \|[^\n]{0,400}?"
    rb"elapsed[ _]time[ _]per[ _]iteration|Step Time ?: ?[\d.]{1,12} ?s[^\n]{1,80}MODEL_TFLOP"
)
_NEMO = re.compile(rb"train_step_timing in s\"?[:=] ?[\d.]")
_TORCHTITAN = re.compile(rb"step: {1,12}\d{1,12}[ /][^\n]{0,300}?(?:tps|wps): {0,8}[\d,]")
_HF = re.compile(rb"['\"]train_runtime['\"]: ?['\"]?[\d.]|(?<!\w)train_runtime {1,40}= {1,40}\d")
_DEEPSPEED = re.compile(
    rb"CurrSamplesPerSec=[\d.]|time \(ms\) \| [^\n]{0,40}(?:fwd|forward): [\d.]|"
    rb"steps: \d{1,12} loss: [^\n]{1,160} iter time \(s\): [\d.]"
)
_NANOTRON = re.compile(
    rb"iteration: \d{1,12} / \d{1,12} \|[^\n]{0,200}?time_per_iteration_ms: [\d.]"
)
_MAXTEXT = re.compile(rb"completed step: \d{1,12}, seconds: [\d.]")
_TITAN_EVENT = re.compile(rb'"log_type_name": ?"')
_LAMMPS = re.compile(rb"Loop time of [\d.e+-]{1,20} on \d|^LAMMPS \(\d", re.MULTILINE)
_GROMACS = re.compile(
    rb":-\) {1,2}G {0,2}R {0,2}O {0,2}M {0,2}A {0,2}C {0,2}S|^GROMACS: {1,12}\S|"
    rb" Core t \(s\) {1,8}Wall t \(s\) ",
    re.MULTILINE,
)
_OPENFOAM = re.compile(rb"ExecutionTime = [\d.]{1,16} s|OpenFOAM: The Open Source CFD Toolbox")
_HPCG = re.compile(rb"Distributed Processes ?[=:] ?\d")
_ESPRESSO = re.compile(
    rb"Program [A-Za-z]\w{1,15} {1,8}v\.\d[^\n]{0,60} starts|"
    rb"^ {1,8}[A-Z][A-Z0-9]{1,15} {1,12}: [^\n]{1,40}CPU [^\n]{1,30} WALL\s*$",
    re.MULTILINE,
)
_MPIP = re.compile(rb"^@ mpiP", re.MULTILINE)
_SEFF = re.compile(rb"^[# ]{0,4}Job ID: ?\d[^\n]{0,40}\n[^\0]{0,600}?Wall-clock", re.MULTILINE)
_CUBE = re.compile(rb"(?:anchor\.xml|\d{1,6}\.(?:data|index))\0")  # the first name in a tar file
_MLFLOW = re.compile(rb"^run_(?:id|uuid): ", re.MULTILINE)
_OPERATIONS = {"dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id"}
_LLMD_VERSION = re.compile(r"^version: ['\"]?0\.[12](\.\d{1,3})?['\"]? *(#.*)?$", re.MULTILINE)
# The results may be far below a scenario that names every option of the servers.
_LLMD_PARTS = re.compile(
    r"^ {1,8}request_performance: *$|^(metrics|scenario): *(#.*)?$", re.MULTILINE
)
_RETOKENIZED = "total_output_tokens_retokenized"  # by the client of SGLang
_LATEX_TABLE = re.compile(r"\\begin\{(tabular|longtable)")


class Format(NamedTuple):
    """A format: its name, what its files give, how it is detected, and its reader."""

    name: str
    title: str
    gives: Gives
    reader: str  # module:function
    detect: Callable[[Head], bool]
    has_regions: bool = False
    has_node_files: bool = False  # several files are the nodes of one run
    unit: str = NODE  # what K counts
    owns_folder: bool = False  # the files beside it and below belong to the same run

    @property
    def read(self) -> Callable[..., Any]:
        """The reader; its module is imported when it is needed."""
        module, _, function = self.reader.partition(":")
        found = importlib.import_module(f"nodewise.importers.{module}")
        reader: Callable[..., Any] = getattr(found, function)
        return reader

    def command(self, path: Path) -> str:
        """The command that reads a file of this format."""
        if self.gives == "load":
            return f"nodewise fleet decide {path if self.name == 'windows' else f'K={path}'}"
        verb = {"trace": "trace", "operations": "trace", "table": "audit"}.get(self.gives, "import")
        return f"nodewise {verb} {path}"


def _is_ray(head: Head) -> bool:
    return head.start == b"[" and bool(_RAY_EVENT.search(head.raw))


def _is_kineto(head: Head) -> bool:
    if head.start == b"{":
        return b'"traceEvents"' in head.raw
    return head.start == b"[" and b'"ph"' in head.raw and not _is_ray(head)


def _is_extra_p(head: Head) -> bool:
    if isinstance(head.keys.get("measurements"), dict) and not head.is_list:
        return True
    return {"params", "value"} <= head.keys.keys() or bool(_EXTRA_P.match(head.text))


def _is_caliper(head: Head) -> bool:
    if not head.is_list:
        return {"columns", "data", "nodes"} <= head.keys.keys()
    metrics = head.keys.get("metrics")
    if isinstance(metrics, dict) and {"frame", "name", "children"} & head.keys.keys():
        return True
    return bool(_CALIPER_PATHS & head.keys.keys()) and any(map(_CALIPER_TIME.match, head.keys))


def _is_llmd(head: Head) -> bool:
    if head.start == b"{":
        performance = "request_performance" in head.inner("results")
        return performance or (
            {"version", "scenario"} <= head.keys.keys() and "requests" in head.inner("metrics")
        )
    return bool(_LLMD_VERSION.search(head.text) and _LLMD_PARTS.search(head.text))


def _is_codecarbon(head: Head) -> bool:
    return {"project_name", "duration", "energy_consumed"} <= head.titles


def _is_operations(head: Head) -> bool:
    return head.titles >= _OPERATIONS


def _is_zeus(head: Head) -> bool:
    return {"window_name", "elapsed_time"} <= head.titles and any(
        map(_GPU_ENERGY.fullmatch, head.titles)
    )


def _in_log(pattern: re.Pattern[bytes], *without: re.Pattern[bytes]) -> Callable[[Head], bool]:
    """A line of a log; `without` are lines of a framework that prints this one as well."""

    def detects(head: Head) -> bool:
        found = pattern.search(head.log)
        return bool(found) and not any(other.search(head.log) for other in without)

    return detects


def _is_lightning(head: Head) -> bool:
    return (
        "step" in head.titles
        and len(head.titles) > 2
        and ("epoch" in head.titles or any(_MONITOR_TIME.fullmatch(title) for title in head.titles))
    )


def _is_nanotron(head: Head) -> bool:
    return {"nodes", "tok/s/gpu", "gbs"} <= head.titles


def _is_sacct(head: Head) -> bool:
    if not head.rows or head.document is not None or head.path.suffix == ".md":
        return False
    titles = {cell.partition("%")[0].lower() for cell in re.split(r"[|,\s]+", head.rows[0][:2000])}
    return len(titles & _SACCT) >= 3 and bool(titles & {"jobid", "jobidraw"})


def _is_csv(head: Head) -> bool:
    """Two rows with as many cells, of which the first is not a number; or a file called .csv."""
    if any(one.gives == "logs" and one.detect(head) for one in FORMATS):
        return False
    if (
        _is_codecarbon(head)
        or _is_operations(head)
        or _is_zeus(head)
        or _MARKDOWN_RULE.search(head.text)
        or _LATEX_TABLE.search(head.text)
    ):
        return False
    if head.path.suffix in (".csv", ".tsv"):
        return True
    if head.document is not None or not head.rows or not head.rows[0].strip('"')[:1].isalpha():
        return False
    for mark in (",", ";", "\t"):
        if head.rows[0].count(mark):
            return len({row.count(mark) for row in head.rows}) == 1
    cells = [row.split() for row in head.rows]
    return len(cells) == 2 and len(cells[0]) == len(cells[1]) > 1 and cells[1][0].isdecimal()


# Traces come first: their files are the largest, and their first bytes are enough.
FORMATS = (
    Format("digests", "digests of traces (nodewise trace --part)", "trace",
           "profilers.digests:unpack",
           lambda head: head.raw.startswith(b"nodewise digests "), unit="rank"),
    Format("nsys", "an SQLite export of Nsight Systems", "trace", "profilers.nsys:read",
           lambda head: head.raw.startswith(b"SQLite format 3\0"), unit="rank"),
    Format("kineto", "a Kineto trace (torch.profiler)", "trace", "profilers.kineto:read",
           _is_kineto, unit="rank"),
    Format("operations", "a table of pipeline operations", "operations",
           "profilers.operations:read", _is_operations, unit="rank"),
    Format("talp", "a TALP report", "runs", "profilers.talp:read",
           lambda head: isinstance(head.keys.get("Application"), dict), has_regions=True,
           unit="rank"),
    Format("ray", "a Ray timeline", "runs", "schedulers.ray_timeline:read", _is_ray),
    Format("dask", "a Dask task stream", "runs", "schedulers.dask_stream:read",
           lambda head: head.is_list and {"worker", "startstops"} <= head.keys.keys(),
           unit="worker"),
    Format("spark", "a Spark event log", "runs", "schedulers.spark_log:read",
           lambda head: str(head.keys.get("Event")).startswith("SparkListener"), unit="executor"),
    Format("extra-p", "Extra-P measurements", "runs", "profilers.extrap:read", _is_extra_p,
           has_regions=True),
    Format("caliper", "a Caliper or Hatchet profile", "runs", "profilers.caliper:read",
           _is_caliper, has_regions=True, unit="rank"),
    Format("mlperf", "an MLPerf log", "runs", "benchmarks.mlperf:read",
           lambda head: ":::MLLOG" in head.text),
    Format("hyperfine", "a hyperfine result", "runs", "benchmarks.results:read",
           lambda head: "command" in head.first("results")),
    Format("pyperf", "a pyperf result", "runs", "benchmarks.results:read",
           lambda head: "runs" in head.first("benchmarks")),
    Format("reframe", "a ReFrame report", "runs", "benchmarks.results:read",
           lambda head: "testcases" in head.first("runs")),
    Format("reframe-log", "a performance log of ReFrame", "runs",
           "benchmarks.results:read_reframe_log",
           lambda head: bool(head.rows) and set(head.rows[0].split("|")) >= _REFRAME),
    Format("tensorboard", "a TensorBoard event file", "logs", "logs.scalars:read_tensorboard",
           lambda head: b"brain.Event:" in head.raw[:64]),
    Format("wandb", "an offline W&B run", "logs", "logs.scalars:read_wandb",
           lambda head: head.raw.startswith(b":W&B"), owns_folder=True),
    Format("mlflow", "an MLflow run", "logs", "logs.scalars:read_mlflow",
           lambda head: bool(_MLFLOW.search(head.raw)) and b"artifact_uri: " in head.raw,
           owns_folder=True),
    Format("otf2", "an OTF2 archive (Score-P)", "logs", "logs.otf2_archive:read",
           lambda head: head.raw.startswith(b"\x03BOTF2"), owns_folder=True),
    Format("cube", "a Cube profile (Score-P)", "logs", "logs.cube:read",
           lambda head: bool(_CUBE.match(head.raw))),
    Format("torchtitan-jsonl", "structured logs of torchtitan", "logs",
           "logs.torchtitan:read_jsonl",
           lambda head: head.start == b"{" and bool(_TITAN_EVENT.search(head.raw)),
           has_node_files=True),
    Format("hf-state", "a trainer_state.json of Hugging Face", "logs",
           "logs.huggingface:read_state",
           lambda head: {"log_history", "global_step"} <= head.keys.keys()),
    Format("ramble", "results of Ramble or Benchpark", "logs", "logs.results:read_ramble",
           lambda head: "RAMBLE_STATUS" in head.first("experiments")),
    Format("megatron", "a log of Megatron-LM", "logs", "logs.megatron:read", _in_log(_MEGATRON)),
    Format("nemo", "a log of NeMo", "logs", "logs.megatron:read_nemo", _in_log(_NEMO, _MEGATRON)),
    Format("nanotron-console", "a log of nanotron", "logs", "logs.nanotron:read_console",
           _in_log(_NANOTRON)),
    Format("torchtitan", "a log of torchtitan", "logs", "logs.torchtitan:read",
           _in_log(_TORCHTITAN)),
    Format("maxtext", "a log of MaxText", "logs", "logs.maxtext:read", _in_log(_MAXTEXT)),
    Format("hf-console", "a log of Hugging Face Trainer", "logs", "logs.huggingface:read",
           lambda head: "log_history" not in head.keys and _in_log(_HF, _MEGATRON, _NEMO)(head)),
    Format("deepspeed", "a log of DeepSpeed", "logs", "logs.deepspeed:read",
           _in_log(_DEEPSPEED, _MEGATRON, _HF, _NEMO)),
    Format("lightning", "a metrics.csv of Lightning", "logs", "logs.lightning:read",
           _is_lightning),
    Format("nanotron", "a benchmark of nanotron", "logs", "logs.nanotron:read", _is_nanotron),
    Format("lammps", "a log of LAMMPS", "logs", "logs.lammps:read", _in_log(_LAMMPS)),
    Format("gromacs", "an md.log of GROMACS", "logs", "logs.gromacs:read", _in_log(_GROMACS)),
    Format("openfoam", "a log of OpenFOAM", "logs", "logs.hpc:read_openfoam",
           _in_log(_OPENFOAM)),
    Format("hpcg", "a report of HPCG", "logs", "logs.hpc:read_hpcg", _in_log(_HPCG)),
    Format("quantum-espresso", "an output of Quantum ESPRESSO", "logs", "logs.hpc:read_espresso",
           _in_log(_ESPRESSO)),
    Format("mpip", "a report of mpiP", "logs", "logs.hpc:read_mpip", _in_log(_MPIP)),
    Format("sacct", "job records of sacct", "logs", "logs.slurm:read_sacct", _is_sacct),
    Format("seff", "job records of seff", "logs", "logs.slurm:read_seff", _in_log(_SEFF)),
    Format("codecarbon", "CodeCarbon emissions", "runs", "benchmarks.energy_logs:read_codecarbon",
           _is_codecarbon, has_regions=True, has_node_files=True),
    Format("zeus", "a ZeusMonitor log", "runs", "benchmarks.energy_logs:read_zeus", _is_zeus,
           has_regions=True, has_node_files=True),
    Format("nccl-tests", "nccl-tests output", "link", "benchmarks.link_tests:read",
           lambda head: bool(_NCCL_ROW.search(head.text))),
    Format("osu", "OSU micro-benchmark output", "link", "benchmarks.link_tests:read",
           lambda head: bool(_OSU_TITLE.search(head.text))),
    Format("windows", "load windows (nodewise fleet sweep)", "load", "serving.read:own_windows",
           lambda head: "offered_per_second" in head.keys),
    Format("guidellm", "a GuideLLM report", "load", "serving.guidellm:windows",
           lambda head: isinstance(head.keys.get("benchmarks"), list)
           and "runs" not in head.first("benchmarks")),
    Format("aiperf", "AIPerf records", "load", "serving.aiperf:windows",
           lambda head: "request_start_ns" in head.inner("metadata")),
    Format("aiperf-summary", "an AIPerf summary", "load", "serving.aiperf:summaries",
           lambda head: isinstance(head.keys.get("request_throughput"), dict)),
    Format("vllm", "a vllm bench serve result", "load", "serving.vllm:windows",
           lambda head: isinstance(head.keys.get("request_throughput"), int | float)
           and "duration" in head.keys and _RETOKENIZED not in head.keys),
    Format("sglang", "SGLang bench_serving results", "load", "serving.reports:sglang",
           lambda head: {_RETOKENIZED, "duration"} <= head.keys.keys()),
    Format("inference-perf", "an inference-perf report", "load", "serving.reports:inference_perf",
           lambda head: {"load_summary", "successes"} <= head.keys.keys()),
    Format("llmd", "an llm-d benchmark report", "load", "serving.reports:llmd", _is_llmd),
    Format("k6", "a k6 summary", "load", "serving.http:k6_summaries",
           lambda head: "http_reqs" in head.inner("metrics")),
    Format("vegeta", "vegeta results", "load", "serving.http:vegeta_windows",
           lambda head: {"seq", "latency"} <= head.keys.keys()),
    Format("vegeta-report", "a vegeta report", "load", "serving.http:vegeta_summaries",
           lambda head: {"latencies", "rate"} <= head.keys.keys()),
    Format("jube", "a result table of JUBE", "table", "tables.claims_tables:read_runs",
           lambda head: bool(_JUBE_RULE.search(head.text[:2**16]))),
    Format("markdown", "a Markdown table", "table", "tables.claims_tables:read_runs",
           lambda head: bool(_MARKDOWN_RULE.search(head.text))),
    Format("latex", "a LaTeX table", "table", "tables.claims_tables:read_runs",
           lambda head: bool(_LATEX_TABLE.search(head.text))),
    Format("csv", "a CSV table", "table", "tables.claims_tables:read_csv", _is_csv),
)  # fmt: skip
NAMES = tuple(one.name for one in FORMATS)
_KINDS: dict[Gives, str] = {
    "trace": "traces", "operations": "pipelines", "runs": "runs", "logs": "logs",
    "table": "tables", "load": "load tests", "link": "link tests",
}  # fmt: skip


class Files(NamedTuple):
    """What a path names: files of one format, and the files of a folder that were left out."""

    format: Format
    paths: tuple[Path, ...]
    skipped: tuple[Path, ...] = ()


def detect(path: Path) -> Format | None:
    """The format of a file, by its content; None if it is unknown."""
    head = Head(path)
    return next((one for one in FORMATS if one.detect(head)), None)


def by_name(name: str) -> Format:
    """The format of a name."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise SpecError(f"'{name}' is not a format.", f"Use one of: {', '.join(NAMES)}.")


def open_file(path: Path, name: str = "") -> Files:
    """The format of a file, or of the files in a folder."""
    return open_files([path], name)


def open_files(paths: Sequence[Path], name: str = "") -> Files:
    """The one format of files and of the files in folders; `name` is given by the user.

    Where one file is a trace, the others are taken for traces too: a damaged one is not detected.
    """
    named = {path for path in paths if not path.is_dir()}
    files = [file for path in paths for file in ([path] if path in named else files_in(path))]
    files = list(dict.fromkeys(files))
    traces = tuple(f for f in files if f in named or f.name.endswith(_TRACE_ENDINGS))
    if name:
        form = by_name(name)
        return Files(form, traces or tuple(files) if form.gives == "trace" else tuple(files))
    found: dict[Format, list[Path]] = {}
    skipped: list[Path] = []
    for file in files:
        known = detect(file)
        if known is not None and known.gives == "trace":
            return Files(known, traces if file in traces else (*traces, file))
        if known is not None:
            found.setdefault(known, []).append(file)
        else:
            skipped.append(file)
    if not found or named & set(skipped):
        raise unknown(next(iter(skipped)) if named else paths[0])
    if len(found) > 1:
        raise DataError(
            f"The files are of several formats: {', '.join(one.name for one in found)}.",
            "Read the files of one format at a time.",
        )
    [(form, known_files)] = found.items()
    return Files(form, tuple(known_files), tuple(skipped))


def files_in(folder: Path) -> list[Path]:
    """The files in a folder and below it, with numbers in their names in numeric order."""
    if store.is_study(folder):
        raise DataError(f"{folder} is a study folder.", f"Use: nodewise report {folder}")
    files = [
        file
        for file in folder.rglob("*")
        if file.is_file() and not any(part[0] == "." for part in file.relative_to(folder).parts)
    ]
    if not files:
        raise DataError(f"{folder} has no files.", "Name a file, or a folder with files.")
    return sorted(
        files,
        key=lambda file: [int(part) if part.isdecimal() else part
                          for part in re.split(r"(\d+)", str(file))],
    )  # fmt: skip


def unknown(path: Path) -> DataError:
    """The error of a file in no known format."""
    kinds = (
        f"{kind} ({', '.join(one.name for one in FORMATS if one.gives == gives)})"
        for gives, kind in _KINDS.items()
    )
    return DataError(f"{path} is in no known format.", f"nodewise reads {', '.join(kinds)}.")


def unsuitable(path: Path, form: Format, wanted: str) -> DataError:
    """The error of a known format that cannot answer the command."""
    return DataError(f"{path} is {form.title}, not {wanted}.", f"Use: {form.command(path)}")


def read_runs(files: Files, nodes: int | None, region: str = "") -> list[Run]:
    """The runs in files that give runs or tables."""
    form = files.format
    more = {"region": region} if form.has_regions else {}
    if form.has_node_files:
        return list(form.read(files.paths, nodes, **more))
    return [run for path in files.paths for run in form.read(path, nodes, **more)]
