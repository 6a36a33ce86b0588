"""`nodewise import`."""  # noqa: N999 - the module of a command has its name

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.cli.options import SOURCE, Source, emit, json_option
from nodewise.cli.trace import (
    Broken,
    broken_option,
    check_broken,
    missing_ranks,
    read_digests,
    reading_options,
    trace_paths,
)

if TYPE_CHECKING:
    from nodewise.explain.trace.breakdown import Window
    from nodewise.report.text.findings import Report
    from nodewise.study.spec import Regime
    from nodewise.study.study import Run, Study

_TRACES = ("kineto", "nsys")
_LINKS = ("nccl-tests", "osu")
_MODULES = {
    "talp": "profilers.talp",
    "ray": "schedulers.ray_timeline",
    "dask": "schedulers.dask_stream",
    "spark": "schedulers.spark_log",
    "extra-p": "profilers.extrap",
    "mlperf": "benchmarks.mlperf",
    "caliper": "profilers.caliper",
    "csv": "tables.csv_table",
}
_METERS = ("codecarbon", "zeus")
_REGIONS = ("talp", "extra-p", "caliper", *_METERS)


@click.command("import")
@click.argument(
    "form", metavar="FORMAT", type=click.Choice([*_TRACES, *_MODULES, *_METERS, *_LINKS])
)
@click.argument("sources", metavar="K=PATH...", nargs=-1, required=True, type=SOURCE)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="A folder for the study, or a .csv file; default: imported.study.",
)
@click.option("--name", help="Name of the study; default: that of the output.")
@click.option(
    "--regime",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="strong: the job is fixed; weak: the work per node is. Traces cannot tell.",
)
@click.option(
    "--region", default="", help="The region to take, of talp, extra-p, caliper, codecarbon, zeus."
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "accept"]),
    default="refuse",
    show_default=True,
    help="A scale of which ranks have no trace: refuse it, for a missing one may be the slow one, "
    "or accept.",
)
@broken_option("refuse")
@reading_options
@json_option
def command(
    form: str,
    sources: tuple[Source, ...],
    output: Path | None,
    name: str | None,
    regime: Any,
    region: str,
    missing: str,
    broken: Broken,
    window: Any,
    collective_kernels: str,
    jobs: int | None,
    engine: str,
    as_json: bool,
) -> None:
    """A study from what other tools wrote at several scales; nothing is run again.

    \b
    FORMAT      what PATH is
      kineto      a folder of torch.profiler's traces, one a rank
      nsys        a folder of Nsight Systems' SQLite exports
      talp        a JSON of TALP (DLB)
      ray         a timeline of Ray
      dask        a task stream of Dask, as JSON
      spark       an event log of Spark
      extra-p     measurements of Extra-P, as text or JSON
      mlperf      a log of MLPerf training
      caliper     a JSON of Caliper or Hatchet
      csv         a table of timings, to be joined with others
      codecarbon  an emissions.csv, or a folder with one of each node: times and joules
      zeus        the log of a ZeusMonitor, likewise
      nccl-tests, osu   timings of messages: latency and bandwidth are fitted, no study is made

    Several sources of one K are its rounds. Steps of a trace are rounds too.

    \b
    Examples:
      nodewise import kineto 8=traces8/ 16=traces16/ -o training.study
      nodewise import talp 2=talp_2.json 4=talp_4.json -o talp.csv
      nodewise import codecarbon 1=one/emissions.csv 2=two/ -o energy.study
      nodewise import nccl-tests all_reduce.txt
    """
    if form in _LINKS:
        emit([_link(path) for _, path in sources], as_json, _link_report)
        return
    if region and form not in _REGIONS:
        raise SpecError(f"--region has no meaning for {form}.", "Leave it out.")
    read: Callable[[Source], Sequence[Run]]
    if form in _TRACES:

        def read(source: Source) -> "Sequence[Run]":
            return _traced_runs(source, window, collective_kernels, jobs, engine, broken, missing)
    else:

        def read(source: Source) -> "Sequence[Run]":
            return _logged_runs(form, source, region)

    output = output or Path("imported.study")
    study = _study(name or output.stem, regime, [run for one in sources for run in read(one)])
    _write(study, form, sources, output)
    emit(_summary(study, output), as_json, _summary_report)


def _traced_runs(
    source: Source,
    window: "Window",
    collective_kernels: str,
    jobs: int | None,
    engine: str,
    broken: Broken,
    missing: str,
) -> "Sequence[Run]":
    """The runs in the traces of one scale, which must tell of all its ranks."""
    from nodewise.explain.trace.breakdown import break_down, runs_of

    nodes, path = source
    digests = read_digests(trace_paths([path]), window, collective_kernels, jobs, engine)
    check_broken(digests, broken)
    job = break_down(digests, window, use_damaged=broken == "use")
    if job.missing_ranks and missing == "refuse":
        raise DataError(
            f"{path} has no trace of rank {missing_ranks(job)}.",
            "Add it, or go without with --missing accept.",
        )
    if nodes is None:
        # Ranks that are there and ranks that are not: the scale is that of the whole job.
        nodes = sum(rank.used for rank in job.ranks) + len(job.missing_ranks)
    return runs_of(job, nodes)


def _logged_runs(form: str, source: Source, region: str) -> "Sequence[Run]":
    import importlib

    nodes, path = source
    paths = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"{path} is empty.", "Name a folder with files, or a file.")
    if form in _METERS:
        from nodewise.importers.benchmarks import energy_logs

        meters = {"codecarbon": energy_logs.read_codecarbon, "zeus": energy_logs.read_zeus}
        return meters[form](paths, nodes, region)
    module = importlib.import_module(f"nodewise.importers.{_MODULES[form]}")
    more = {"region": region} if form in _REGIONS else {}
    runs: list[Run] = []
    for file in paths:
        runs += module.read(file, nodes, **more)
    return runs


def _study(name: str, regime: "Regime", runs: "Sequence[Run]") -> "Study":
    """The runs as rounds of their scales, in the order in which they were handed in."""
    from nodewise.study.study import Study

    made: dict[int, int] = {}
    numbered = []
    for run in runs:
        at = made.get(run.nodes, 0)
        made[run.nodes] = at + 1
        numbered.append(msgspec.structs.replace(run, round=at))
    return Study(name=name[:100] or "imported", regime=regime, runs=tuple(numbered))


def _write(study: "Study", form: str, sources: Sequence[Source], output: Path) -> None:
    """A table, or a folder whose spec says that its workload is this import."""
    from nodewise.cli.options import write
    from nodewise.study import store
    from nodewise.study.table import format_table

    if output.suffix == ".csv":
        write(format_table(study, [f"imported from {form}"]), output)
        return
    if (output / store.RUNS).exists():
        raise SpecError(f"{output} already holds runs.", "Name another folder with -o.")
    store.create(output, _spec_text(study, form, sources))
    for run in study.runs:
        store.append(output, run)
    click.echo(f"Wrote {output}.", err=True)


def _spec_text(study: "Study", form: str, sources: Sequence[Source]) -> str:
    words = [str(path) if nodes is None else f"{nodes}={path}" for nodes, path in sources]
    scales = sorted({run.nodes for run in study.runs})
    rounds = max(sum(run.nodes == nodes for run in study.runs) for nodes in scales)
    command = ["nodewise", "import", form, *words]
    return (
        "# Imported: the workload below is the import, not the job.\n"
        f"name = {json.dumps(study.name)}\n"
        f"scales = {scales}\n"
        f'regime = "{study.regime}"\n'
        f"rounds = {rounds}\n\n"
        "[workload]\n"
        f"command = {json.dumps(command)}\n"
    )


class _Scale(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    nodes: int
    runs: int
    ranks: int
    seconds: float


class _Imported(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    output: str
    scales: tuple[_Scale, ...]


def _summary(study: "Study", output: Path) -> _Imported:
    scales = []
    for nodes in sorted({run.nodes for run in study.runs}):
        runs = [run for run in study.runs if run.nodes == nodes]
        seconds = sum(run.seconds for run in runs) / len(runs)
        scales.append(
            _Scale(nodes=nodes, runs=len(runs), ranks=len(runs[0].ranks), seconds=seconds)
        )
    return _Imported(name=study.name, output=str(output), scales=tuple(scales))


def _summary_report(made: _Imported) -> "Report":
    from nodewise.base.units import format_seconds
    from nodewise.report.tables import Table

    table = Table(
        name="Imported",
        titles=("K", "runs", "ranks", "mean seconds"),
        rows=tuple(
            (str(one.nodes), str(one.runs), str(one.ranks or ""), format_seconds(one.seconds))
            for one in made.scales
        ),
    )
    runs = sum(one.runs for one in made.scales)
    return [f"**{made.name}**: {runs} runs", "", table, "", *_next_words(made)]


def _next_words(made: _Imported) -> Iterator[str]:
    if len(made.scales) < 2:
        yield "One scale is not a study yet: name the others in the same command, and another -o."
    else:
        yield f"Go on with: nodewise attribute {made.output}"


def _link(path: Path) -> dict[str, Any]:
    """Latency and bandwidth in one output."""
    from nodewise.diagnose.links import fit_alpha_beta
    from nodewise.importers.benchmarks import link_tests

    test = link_tests.read(path)
    if len({size for size, _ in test.points}) < 2:
        raise DataError(f"{path} has one message size only.", "Time at least two sizes.")
    fit = fit_alpha_beta(test.points)
    about = {"file": str(path), "operation": test.operation, "ranks": test.ranks}
    return about | {name: value for name, value in msgspec.structs.asdict(fit).items()}


def _link_report(links: Sequence[dict[str, Any]]) -> "Report":
    lines: Report = []
    for link in links:
        rate = link["bandwidth_gb_per_s"]
        speed = "no growth with size" if rate is None else f"{rate:.4g} GB/s"
        ranks = "" if link["ranks"] is None else f" over {link['ranks']} ranks"
        lines.append(
            f"**{link['operation']}**{ranks}: alpha {link['alpha_us']:.4g} us, {speed}; off by "
            f"{100 * link['rms_error']:.1f} % rms over {link['points']} sizes"
        )
    return lines
