"""`nodewise fleet`: how many replicas a token is cheapest with, within its latency limit."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import GATE_NOT_MET, DataError, RunError, SpecError, printable
from nodewise.base.units import format_duration
from nodewise.cli.measure import command_line, output_option, spec_argument
from nodewise.cli.options import (
    FRACTION,
    MONEY,
    POSITIVE_DURATION,
    QUANTITY,
    SOURCE,
    Source,
    emit,
    output_options,
    shared,
)
from nodewise.cli.pages import page_option
from nodewise.cli.progress import ProgressLine
from nodewise.study.files import file_name, open_own, read_regular, replace

if TYPE_CHECKING:
    from nodewise.decide.prices.bill import Price
    from nodewise.fleet.capacity import RateEvidence
    from nodewise.fleet.decide import FleetDecision, FleetQuestion
    from nodewise.fleet.spec import FleetSpec
    from nodewise.study.service_objective import Objective
    from nodewise.study.window import Summary, Window

FLEET = "fleet.toml"


@click.group("fleet")
def command() -> None:
    """The number of replicas with the cheapest token within a latency limit.

    sweep measures your server, decide also reads the results of other load tools, and predict
    simulates numbers of replicas that were not measured.

    \b
    Examples:
      nodewise fleet sweep fleet.toml
      nodewise fleet decide fleet.study --ttft 100ms
      nodewise fleet decide 1=guidellm-1.json 2=guidellm-2.json --ttft 200ms --price 2.10
      nodewise fleet predict fleet.study --replicas 4,8
    """


@command.command("sweep", short_help="Load replicas until the objective breaks; decide.")
@spec_argument
@output_option
@page_option
@output_options
def sweep_command(spec: Path, output: Path | None, page: Path | None, as_json: bool) -> None:
    """Load the fleet of SPEC until the number of replicas is decided.

    With a demand in SPEC, only the fleets that the choice depends on are loaded, at that demand.
    Without one, the capacity of every fleet is measured. Requests are sent at their intended times,
    whatever the server does, and latencies count from these times. Existing windows are not
    measured again. The folder is a study with K = replicas: report, audit and compare read it.
    Exits with 1 if no fleet meets the objective for certain.

    \b
    Examples:
      nodewise fleet sweep examples/fleet/fleet.toml
      nodewise fleet sweep fleet.toml -o /scratch/fleet.study --json
    """
    from nodewise.fleet.decide import decide_fleet
    from nodewise.report.text.fleet import fleet_report

    text, fleet = read_fleet(spec)
    folder = output or spec.parent / f"{file_name(fleet.name)}.study"
    windows = _measure(text, fleet, spec, folder, output)
    decision = decide_fleet(fleet.name, windows, _question(fleet), _price(fleet))
    # A study has a report when two of its scales worked.
    worked = [row for row in decision.rows if row.rate_per_second]
    then = "report" if len(worked) > 1 else "fleet decide"
    ending = [f"Study: {folder}", f"Next: nodewise {then} {folder}"]
    emit(decision, as_json, lambda found: fleet_report(found, ending))
    _page(decision, page, [folder])
    if decision.chosen is None:
        sys.exit(GATE_NOT_MET)


_windows_argument = click.argument(
    "windows", metavar="WINDOWS...", nargs=-1, required=True, type=SOURCE
)
_objective_options = shared(
    click.option("--ttft", type=POSITIVE_DURATION, help="Limit of the time to the first token."),
    click.option("--tpot", type=POSITIVE_DURATION, help="Limit of the time for a further token."),
    click.option("--latency", type=POSITIVE_DURATION, help="Limit of the time to the last token."),
    click.option(
        "--share", type=FRACTION, help="Share of requests within all limits; default: 99%."
    ),
)


@command.command("decide", short_help="The number of replicas to run, from measured windows.")
@_windows_argument
@_objective_options
@click.option("--price", type=MONEY, help="Dollars per replica-hour.")
@click.option("--demand", type=QUANTITY, help="Requests per second to serve.")
@click.option("--demand-curve", help="Requests per second in equal parts of a day: 4,4,9,12.")
@click.option("--curve-days", type=QUANTITY, help="Days that the curve lasts: 7 for a week.")
@click.option("--startup", type=POSITIVE_DURATION, help="Until a replica serves that was added.")
@click.option(
    "--goal",
    type=click.Choice(["cost", "throughput", "latency"]),
    help="What to optimise within the limits; default: cost.",
)
@click.option(
    "--spares", type=click.IntRange(min=0), help="Replicas that may be lost at peak demand."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Also a chart: latency.png, capacity.png or cost.svg.",
)
@click.option(
    "--llmd",
    type=click.Path(path_type=Path),
    help="Also the load test of the chosen fleet as an llm-d benchmark report: JSON.",
)
@page_option
@output_options
def decide_command(
    windows: tuple[Source, ...],
    demand_curve: str | None,
    plot: Path | None,
    llmd: Path | None,
    page: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """The replicas to run, from WINDOWS: a folder of a sweep, its windows.jsonl, or K=FILE.

    FILE is a result of GuideLLM, AIPerf, vllm bench serve, SGLang, inference-perf, llm-d-benchmark,
    k6 or vegeta for K replicas; its format is detected. For a folder, unset options default to its
    spec. Exits with 1 if no fleet meets the objective.

    \b
    Examples:
      nodewise fleet decide fleet.study
      nodewise fleet decide fleet.study --ttft 100ms --demand 40 --spares 1
      nodewise fleet decide 1=one.json 2=two.json --ttft 200ms --price 2.10 --json
    """
    from nodewise.fleet.decide import decide_fleet
    from nodewise.report.text.fleet import fleet_report

    asked["demand_curve"] = _curve(demand_curve)
    name, found, fleet = _read(windows)
    question, price = _asked(fleet, asked)
    decision = decide_fleet(name, found, question, price)
    if plot is not None:
        _plot(decision, plot)
    emit(decision, as_json, fleet_report)
    _page(decision, page, [path for _, path in windows])
    if decision.chosen is None:
        sys.exit(GATE_NOT_MET)
    if llmd is not None:
        _benchmark_report(decision, found, llmd)


@command.command("predict", short_help="Larger fleets, simulated, with the error.")
@_windows_argument
@_objective_options
@click.option("--replicas", default="2,4,8", show_default=True, help="The numbers to predict.")
@click.option("--slots", type=click.IntRange(min=1), help="Requests that a replica runs at once.")
@click.option("--kv-tokens", type=click.IntRange(min=1), help="Tokens in its key-value cache.")
@click.option(
    "--route",
    type=click.Choice(["round robin", "least outstanding"]),
    help="How requests are spread; default: as in the sweep, else least outstanding.",
)
@click.option(
    "--concurrency",
    metavar="LIST",
    help="Predict TTFT and TPOT at these concurrencies, from one CSV table.",
)
@click.option(
    "--input-tokens",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Tokens of a prompt, for --concurrency.",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Tokens of an answer, for --concurrency.",
)
@output_options
def predict_command(
    windows: tuple[Source, ...],
    replicas: str,
    concurrency: str | None,
    input_tokens: int,
    output_tokens: int,
    slots: int | None,
    kv_tokens: int | None,
    route: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Simulate larger fleets from the windows of one replica; the error is shown if it is known.

    WINDOWS is a folder of a sweep, its windows.jsonl, or K=FILE as for nodewise fleet decide. If
    larger fleets were measured too, the prediction is compared with them. With --concurrency,
    WINDOWS is a CSV table with the columns concurrency, ttft_ms and tpot_ms.

    \b
    Examples:
      nodewise fleet predict fleet.study
      nodewise fleet predict latency.csv --concurrency 64,128 --input-tokens 8192
      nodewise fleet predict fleet.study --replicas 4,8,16 --slots 8 --json
    """
    if concurrency is not None:
        _predict_latencies(windows, concurrency, (input_tokens, output_tokens), as_json)
        return
    from nodewise.fleet.simulate import calibrate, predict
    from nodewise.report.text.fleet import prediction_report
    from nodewise.study.window import Window

    _, found, fleet = _read(windows)
    measured = [window for window in found if isinstance(window, Window) and window.requests]
    ones = [window for window in measured if window.replicas == 1]
    if not ones:
        raise DataError(
            "No window of one replica was measured.", "Measure it: write 1 among the replicas."
        )
    spread = route or (fleet.load.route if fleet else "least outstanding")
    prediction = predict(
        calibrate(ones, slots=slots, kv_tokens=kv_tokens),
        measured,
        _objective(fleet, limits),
        replicas=_numbers(replicas),
        router="round robin" if spread == "round robin" else "shortest queue",
    )
    emit(prediction, as_json, prediction_report)


def _predict_latencies(
    sources: "Sequence[Source]", concurrency: str, tokens: tuple[int, int], as_json: bool
) -> None:
    """Latency against concurrency, from a table of few of them."""
    from nodewise.fleet.concurrency import LatencyTable, predict_latencies
    from nodewise.importers.serving import latency_table
    from nodewise.report.text.fleet import latency_report

    if len(sources) > 1 or sources[0][1].is_dir():
        raise SpecError("--concurrency needs one table of latencies.", "Name one CSV file.")
    path = sources[0][1]
    load, ttft, tpot = latency_table.read(path)
    table = LatencyTable(
        name=path.stem,
        concurrency=tuple(load),
        ttft=tuple(ttft),
        tpot=tuple(tpot),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
    )
    asked = list(_numbers(concurrency, "--concurrency"))
    emit(predict_latencies(table, asked), as_json, latency_report)


def read_fleet(path: Path, follow: bool = True) -> "tuple[str, FleetSpec]":
    """The text and the fleet of a file."""
    from nodewise.fleet.spec import parse_fleet

    try:
        text = read_regular(path, follow).decode()
    except (OSError, UnicodeDecodeError):
        raise SpecError(
            f"Cannot read the spec {path}.", "Begin with a copy of examples/fleet/fleet.toml."
        ) from None
    return text, parse_fleet(text)


def _measure(
    text: str, fleet: "FleetSpec", spec: Path, folder: Path, output: Path | None
) -> "list[Window]":
    """Sweep into the study folder; its runs are made from all windows at the end."""
    from nodewise.fleet.load import windows as kept
    from nodewise.fleet.load.sweep import sweep
    from nodewise.fleet.search import Search
    from nodewise.study import store

    store.create(folder, _study_text(fleet))
    _same_fleet(folder, text, fleet, spec)
    search = Search(fleet)
    for window in kept.load(folder):
        search.add(window)
    try:
        with store.locked(folder), ProgressLine("first window") as line:
            if search.next() is not None:
                line.note(f"Measuring takes {_length(*search.seconds_left())}.")
            windows = sweep(fleet, spec.parent, folder, lambda *seen: _tell(line, *seen), line.note)
            _keep_runs(text, fleet, spec, folder, windows)
    except KeyboardInterrupt:
        raise RunError(
            "Stopped; every finished window is kept.",
            f"Continue with: {command_line()}",
        ) from None
    return windows


def _same_fleet(folder: Path, text: str, fleet: "FleetSpec", spec: Path) -> None:
    """Write the spec into the folder without its keys, or check that its windows are of it."""
    from nodewise.fleet.load import windows
    from nodewise.fleet.spec import text_without_keys, without_keys

    kept = folder / FLEET
    if not os.path.lexists(kept) or not windows.load(folder):
        if kept.resolve() != spec.resolve():  # the user's own file keeps its key
            replace(kept, text_without_keys(text))
    elif without_keys(read_fleet(kept, follow=False)[1]) != without_keys(fleet):
        raise RunError(
            f"{folder} holds a sweep of another spec.",
            "Name another folder with -o, or delete it to measure again.",
        )


def _study_text(fleet: "FleetSpec") -> str:
    """The sweep as the spec of a study: K is the number of replicas, the requests are the job."""
    from nodewise.study.spec import Spec, Workload
    from nodewise.study.spec_text import spec_text

    spec = Spec(
        name=fleet.name,
        scales=tuple(sorted(fleet.replicas)),
        rounds=fleet.rounds,
        seed=fleet.seed,
        workload=Workload(command=("nodewise", "fleet", "sweep", FLEET)),
    )
    price: dict[str, Any] = {
        "fixed_per_hour": fleet.price.fixed_per_hour, "source": fleet.price.source,
    }  # fmt: skip
    if fleet.price.per_replica_hour is not None:
        price["per_node_hour"] = fleet.price.per_replica_hour
    return spec_text(spec, {"work_unit": "requests", "unit": "replicas", "price": price})


def _keep_runs(
    text: str, fleet: "FleetSpec", spec: Path, folder: Path, windows: "list[Window]"
) -> None:
    """Add the runs that follow from the windows, with where they were made."""
    import msgspec

    from nodewise.fleet.as_study import fleet_study
    from nodewise.measure import provenance
    from nodewise.study import store

    server = fleet.server
    where = {
        **provenance.machine(),
        **provenance.code(
            (spec.parent / server.directory).resolve(), server.command or server.urls, text
        ),
    }
    done = {(run.nodes, run.round) for run in store.load(folder).runs}
    for run in fleet_study(fleet.name, windows, fleet.objective).runs:
        if (run.nodes, run.round) not in done:
            store.append(folder, msgspec.structs.replace(run, provenance=where | run.provenance))


def _length(likely: float, most: float) -> str:
    about = f"about {format_duration(likely, digits=2)}"
    return f"{about}, at most {format_duration(most, digits=2)}" if most > likely else about


def _tell(
    line: ProgressLine,
    window: "Window",
    found: "RateEvidence | None",
    left: tuple[float, float],
) -> None:
    where = f"round {window.round + 1}  r={window.replicas}"
    rest = f"  ({_length(*left)} left)" if left[0] else ""
    if not window.requests or found is None:
        line.step(f"{where}  {printable(window.notes[0] if window.notes else '')}{rest}")
        return
    rate = f"{window.offered_per_second:g} requests/s"
    notes = "".join(f"; {printable(note)}" for note in window.notes)
    line.step(f"{where}  {rate}  {found.verdict}: {printable(found.why)}{notes}{rest}")


def _question(fleet: "FleetSpec") -> "FleetQuestion":
    from nodewise.fleet.decide import FleetQuestion

    demand = fleet.demand
    return FleetQuestion(
        objective=fleet.objective,
        goal=demand.goal,
        demand_per_second=demand.per_second,
        demand_curve=demand.curve,
        curve_days=demand.curve_days,
        startup_seconds=demand.startup_seconds,
        spares=demand.spares,
    )


def _price(fleet: "FleetSpec") -> "Price":
    from nodewise.decide.prices.bill import Price

    price = fleet.price
    return Price(
        per_node_hour=price.per_replica_hour,
        fixed_per_hour=price.fixed_per_hour,
        source=price.source,
    )


def _asked(fleet: "FleetSpec | None", asked: dict[str, Any]) -> "tuple[FleetQuestion, Price]":
    """The question: options override the spec."""
    import msgspec

    from nodewise.decide.prices.bill import Price
    from nodewise.fleet.decide import FleetQuestion

    objective = _objective(fleet, asked)
    per_hour = asked.pop("price")
    price = _price(fleet) if fleet else Price()
    if per_hour is not None:
        price = msgspec.structs.replace(price, per_node_hour=per_hour, source="")
    names = {
        "goal": "goal",
        "demand": "demand_per_second",
        "spares": "spares",
        "curve_days": "curve_days",
        "startup": "startup_seconds",
    }
    changed = {field: asked[name] for name, field in names.items() if asked[name] is not None}
    if asked["demand_curve"]:
        changed["demand_curve"] = asked["demand_curve"]
    question = _question(fleet) if fleet else FleetQuestion(objective=objective)
    return msgspec.structs.replace(question, objective=objective, **changed), price


def _objective(fleet: "FleetSpec | None", asked: dict[str, Any]) -> "Objective":
    """Limits given as options replace all limits of the spec."""
    from nodewise.study.service_objective import Objective

    limits = {name: asked.pop(name) for name in ("ttft", "tpot", "latency")}
    share = asked.pop("share")
    if all(limit is None for limit in limits.values()) and fleet is not None:
        limits = dict(fleet.objective.limits)
    if share is None:
        share = fleet.objective.share if fleet is not None else 0.99
    return Objective(**limits, share=share)


def _read(sources: "Sequence[Source]") -> "tuple[str, list[Window | Summary], FleetSpec | None]":
    """The name, the windows and the spec of a sweep or of other load tests."""
    from nodewise.fleet.load.windows import WINDOWS
    from nodewise.importers.serving.read import read_windows

    found: list[Window | Summary] = []
    fleet, name = None, ""
    for replicas, path in sources:
        if path.is_dir():
            _, fleet = read_fleet(path / FLEET, follow=False)
            name, path = fleet.name, path / WINDOWS
            _refuse_link(path)
        found += read_windows(path, replicas)
        name = name or path.stem
    return name, found, fleet


def _refuse_link(path: Path) -> None:
    """Refuse windows that lie outside their folder; the reader names a file that is missing."""
    try:
        open_own(path).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.", "Put the file itself into the folder."
        ) from None


def _plot(decision: "FleetDecision", path: Path) -> None:
    from nodewise.cli.roofline import write_figure
    from nodewise.report.charts.fleet import capacity_chart, latency_chart, token_cost_chart

    charts = {"latency": latency_chart, "capacity": capacity_chart, "cost": token_cost_chart}
    if path.stem not in charts:
        raise click.UsageError(f"{path}: name it latency, capacity or cost, and .svg, .png or .pdf")
    write_figure(charts[path.stem](decision), path)


def _benchmark_report(
    decision: "FleetDecision", windows: "Sequence[Window | Summary]", path: Path
) -> None:
    import msgspec

    from nodewise.report.benchmark_report import benchmark_report

    encoded = msgspec.json.encode(benchmark_report(decision, windows))
    replace(path, msgspec.json.format(encoded, indent=2).decode() + "\n")


def _page(decision: "FleetDecision", page: Path | None, sources: Sequence[Path]) -> None:
    if page is None:
        return
    from nodewise.cli.pages import write_page
    from nodewise.report.page.fleet import fleet_page

    write_page(fleet_page(decision), page, sources)


def _curve(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise click.UsageError(f"--demand-curve: '{text}' is not a list like 4,4,9,12") from None


def _numbers(text: str, option: str = "--replicas") -> tuple[int, ...]:
    numbers = tuple(int(word) for word in text.split(",") if word.strip().isdecimal())
    if len(numbers) != text.count(",") + 1 or min(numbers) < 1:
        raise click.UsageError(f"{option}: '{text}' is not a list like 2,4,8")
    return numbers
