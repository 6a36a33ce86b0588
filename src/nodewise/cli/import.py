"""`nodewise import`."""  # noqa: N999 - the module of a command has its name

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.cli.options import SOURCE, Source, emit, is_given, output_options, write
from nodewise.cli.sources import broken_option, format_option, reading_options, report_skipped
from nodewise.report.open import runs_in, study_of_runs, unit_in

if TYPE_CHECKING:
    from nodewise.importers.logs.study import Understood
    from nodewise.importers.logs.survey import Reading
    from nodewise.importers.registry import Files
    from nodewise.report.sections import Output
    from nodewise.report.text.logs import LogRow
    from nodewise.study.study import Study

    _Scaled = tuple[int | None, Files]  # files, and K where it is given


@click.command("import")
@click.argument("sources", metavar="[K=]PATH...", nargs=-1, required=True, type=SOURCE)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Study folder or .csv; default: imported.study.",
)
@click.option("--name", help="Name of the study; default: the output.")
@click.option(
    "--regime",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="strong: fixed job; weak: fixed work per node.",
)
@click.option("--k", "scale", default="", metavar="PATTERN", help="K in a path: 'n(\\d+)'.")
@click.option("--pattern", type=click.Path(path_type=Path), help="Your own format, in TOML.")
@click.option("--explain", is_flag=True, help="Show which lines of a log matched which rule.")
@click.option("--region", default="", help="The region, project, window or job to take.")
@click.option(
    "--missing",
    type=click.Choice(["refuse", "accept"]),
    default="refuse",
    show_default=True,
    help="What to do with ranks that have no trace.",
)
@format_option
@broken_option("refuse")
@reading_options
@output_options
def command(
    sources: tuple[Source, ...],
    output: Path | None,
    name: str | None,
    regime: Any,
    scale: str,
    pattern: Path | None,
    explain: bool,
    region: str,
    missing: str,
    form: str,
    as_json: bool,
    **reading: Any,
) -> None:
    """Make a study from files of other tools at several scales; nothing is run again.

    PATH is a file or a folder; its format is detected: logs of training and HPC programs, job
    records, traces, results and tables (nodewise help formats). K is needed only where the file
    does not give it. Files of one K are its rounds.

    \b
    Examples:
      nodewise import logs/ -o training.study
      nodewise import 'runs/*.out' --k 'n(\\d+)'
      nodewise import sacct history.txt --region heat3d
      nodewise import 8=traces8/ 16=traces16/ -o traced.study
    """
    from nodewise.importers import registry
    from nodewise.importers.profilers.read import TraceReading

    nodes, first = sources[0]
    if len(sources) > 1 and nodes is None and str(first) in registry.NAMES:  # import FORMAT K=PATH
        form, sources = str(first), sources[1:]
    how = _log_reading(pattern, scale, form)
    if explain:
        _explain(sources, how, as_json)
        return
    if _are_logs(sources, how):
        declared = regime if is_given("regime") else None
        _import_logs(sources, how, (output, name, declared, region), as_json)
        return
    found = [(nodes, registry.open_file(path, form)) for nodes, path in sources]
    if all(files.format.gives == "link" for _, files in found):
        emit([_link(path) for _, files in found for path in files.paths], as_json, _link_report)
        return
    for _, files in found:
        report_skipped(files)
    traces = TraceReading(**reading)
    runs = [
        run
        for nodes, files in _with_ranks_together(found)
        for run in runs_in(files, nodes, region, traces, missing == "accept")
    ]
    output = output or Path("imported.study")
    units = {unit_in(files, runs) for _, files in found}
    study = study_of_runs(
        name or output.stem, regime, runs, units.pop() if len(units) == 1 else None
    )
    words = [str(path) if nodes is None else f"{nodes}={path}" for nodes, path in sources]
    typed = ("nodewise", "import", *words, *(("--format", form) if form else ()))
    _write(study, sorted({files.format.name for _, files in found}), typed, output)
    emit(_summary(study, output), as_json, _summary_report)


def _log_reading(pattern: Path | None, scale: str, form: str) -> "Reading":
    from nodewise.importers.logs.pattern import read_pattern
    from nodewise.importers.logs.survey import Reading

    return Reading(None if pattern is None else read_pattern(pattern), scale, form)


def _are_logs(sources: Sequence[Source], how: "Reading") -> bool:
    from nodewise.importers import registry
    from nodewise.importers.logs.survey import has_logs

    if how.form:
        return registry.by_name(how.form).gives == "logs"
    return how.pattern is not None or bool(how.scale) or has_logs(sources)


def _import_logs(
    sources: Sequence[Source], how: "Reading", asked: tuple[Any, ...], as_json: bool
) -> None:
    """Show what the logs say, then write the study."""
    from nodewise.importers.logs.study import study_of_logs, understand
    from nodewise.importers.logs.survey import survey
    from nodewise.report.text.logs import understood_report

    output, name, regime, job = asked
    found = understand(survey(sources, how))
    rows = _log_rows(found)
    if not as_json:
        emit(rows, False, understood_report)
    output = output or Path("imported.study")
    study = study_of_logs(found, name or output.stem, regime, job)
    words = [str(path) if nodes is None else f"{nodes}={path}" for nodes, path in sources]
    _write(
        study, sorted({run.format for run in found.used}), ("nodewise", "import", *words), output
    )
    made = _summary(study, output)
    if as_json:
        emit({**msgspec.to_builtins(made), "logs": rows}, True, _next_lines)
    else:
        emit((made, study, found), False, _next_lines)


def _log_rows(found: "Understood") -> "list[LogRow]":
    from nodewise.report.text.logs import LogRow

    return [
        LogRow(
            file=run.path, format=run.format, nodes=found.scale_of(run),
            seconds=found.seconds_of(run), of=found.compared or "",
            steps=run.iterations, warmup=run.warmup, batch=run.global_batch,
            pauses=len(run.pauses), bad_steps=run.skipped + run.nan, outcome=run.outcome,
            rejected=run.problem,
        )
        for run in found.runs
    ]  # fmt: skip


_COMPARED = {
    "step": "Compared: the median step after the warm-up. What follows calls such a step a run.",
    "mean step": "Compared: the mean step of each log. What follows calls such a step a run.",
}


def _other_jobs(study: "Study", found: "Understood") -> list[str]:
    """The records of other jobs, which are not in the study."""
    used = {run.provenance.get("log") for run in study.runs}
    others = [run for run in found.used if run.is_record and run.path not in used]
    if not others:
        return []
    names = sorted({run.job for run in others})
    return [
        f"Left out: {len(others)} record{'s'[: len(others) > 1]} of other jobs "
        f"({', '.join(names[:8])}). "
        "Take one with --region NAME."
    ]


def _next_lines(made: "tuple[_Imported, Study, Understood]") -> "Output":
    from nodewise.report.sections import output
    from nodewise.study.scale_unit import plural

    imported, study, found = made
    compared = found.compared
    lines = _other_jobs(study, found)
    lines += [f"{study.regime} scaling; K counts {plural(study.scale_unit.unit)}"]
    lines += [_COMPARED[compared]] if compared in _COMPARED else []
    lines += [f"note: {note}." for note in study.notes if "left out" not in note]
    if len(imported.scales) > 1:
        return output([*lines, f"Next: nodewise decide {imported.output}"])
    return output([*lines, *_next_words(imported)])


def _explain(sources: Sequence[Source], how: "Reading", as_json: bool) -> None:
    """Which lines of the first file matched what."""
    from nodewise.importers import registry
    from nodewise.importers.logs.study import understand
    from nodewise.importers.logs.survey import expand
    from nodewise.report.text.logs import RuleRow, explain_report

    path = expand(sources)[0][1]
    form = registry.by_name(how.form) if how.form else registry.detect(path)
    if how.pattern is None and (form is None or form.gives != "logs"):
        raise registry.unknown(path) if form is None else registry.unsuitable(path, form, "a log")
    matched: dict[str, list[Any]] = {}

    def seen(number: int, rule: str, line: bytes) -> None:
        row = matched.setdefault(rule, [0, number, line.decode("utf-8", "replace").strip()])
        row[0] += 1

    if how.pattern is not None:
        name, runs = how.pattern.name, how.pattern.read(path, seen)
    else:
        assert form is not None
        name, runs = form.name, form.read([path] if form.has_node_files else path, seen)
    rules = [RuleRow(rule=rule, lines=count, first=first, text=text[:200])
             for rule, (count, first, text) in matched.items()]  # fmt: skip
    found = (name, rules, _log_rows(understand(runs)))
    emit({"format": name, "rules": rules, "logs": found[2]} if as_json else found, as_json,
         explain_report)  # fmt: skip


def _with_ranks_together(
    found: "list[tuple[int | None, Files]]",
) -> "list[tuple[int | None, Files]]":
    """Single trace files without K are the ranks of one job."""
    ranks = [
        files
        for nodes, files in found
        if nodes is None and files.format.gives == "trace" and len(files.paths) == 1
    ]
    if not ranks:
        return found
    job = ranks[0]._replace(paths=tuple(files.paths[0] for files in ranks))
    return [*((nodes, files) for nodes, files in found if files not in ranks), (None, job)]


def _write(study: "Study", formats: Sequence[str], typed: tuple[str, ...], output: Path) -> None:
    """Write a table, or a folder whose spec has this import as its workload."""
    from nodewise.study import store
    from nodewise.study.spec import Spec, Workload
    from nodewise.study.spec_text import spec_text
    from nodewise.study.study import OBSERVED
    from nodewise.study.table import format_table

    if output.suffix == ".csv":
        if any(run.provenance.get(OBSERVED) for run in study.runs):
            raise SpecError(
                "Job records are observations, and a table cannot record that.",
                f"Write a study: -o {output.with_suffix('.study')}",
            )
        write(format_table(study, [f"imported from {', '.join(formats)}"]), output)
        return
    if (output / store.RUNS).exists():
        raise SpecError(f"{output} already holds runs.", "Name another folder with -o.")
    scales = tuple(sorted({run.nodes for run in study.runs}))
    spec = Spec(
        name=study.name,
        scales=scales,
        rounds=max(sum(run.nodes == nodes for run in study.runs) for nodes in scales),
        workload=Workload(command=typed),
    )
    comment = "Imported: the workload below is the import, not the job."
    counted = msgspec.to_builtins(study.scale_unit)
    store.create(output, spec_text(spec, {"regime": study.regime, **counted}, comment))
    for run in study.runs:
        store.append(output, run)
    click.echo(f"Wrote {output}.", err=True)


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
        ended = [run.seconds for run in runs if run.outcome == "ok"] or [0.0]
        seconds = sum(ended) / len(ended)
        scales.append(
            _Scale(nodes=nodes, runs=len(runs), ranks=len(runs[0].ranks), seconds=seconds)
        )
    return _Imported(name=study.name, output=str(output), scales=tuple(scales))


def _summary_report(made: _Imported) -> "Output":
    from nodewise.base.units import format_duration
    from nodewise.report.sections import output
    from nodewise.report.tables import Table

    table = Table(
        name="Imported",
        titles=("K", "runs", "ranks", "mean time"),
        rows=tuple(
            (str(one.nodes), str(one.runs), str(one.ranks or ""), format_duration(one.seconds))
            for one in made.scales
        ),
    )
    runs = sum(one.runs for one in made.scales)
    headline = f"**{made.name}**: {runs} runs at {len(made.scales)} scales"
    return output([headline], table, ending=_next_words(made))


def _next_words(made: _Imported) -> Iterator[str]:
    if len(made.scales) < 2:
        yield "Next: name the files of the other scales in the same command, with another -o."
    else:
        yield f"Next: nodewise attribute {made.output}"


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


def _link_report(links: Sequence[dict[str, Any]]) -> "Output":
    from nodewise.report.sections import output

    lines = []
    for link in links:
        rate = link["bandwidth_gb_per_s"]
        speed = "no growth with size" if rate is None else f"{rate:.4g} GB/s"
        ranks = "" if link["ranks"] is None else f" over {link['ranks']} ranks"
        lines.append(
            f"**{link['operation']}**{ranks}: alpha {link['alpha_us']:.4g} us, {speed}; off by "
            f"{100 * link['rms_error']:.1f} % rms over {link['points']} sizes"
        )
    return output(lines)
