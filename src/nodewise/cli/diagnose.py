"""`nodewise diagnose`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import GATE_NOT_MET, SpecError
from nodewise.base.units import parse_latency, parse_rate
from nodewise.cli.options import (
    POSITIVE_DURATION,
    Parsed,
    emit,
    file_option,
    output_options,
    shared,
)
from nodewise.cli.pages import page_option, write_page
from nodewise.cli.roofline import BANDWIDTH, COUNT, SIZE, step_of, step_options
from nodewise.diagnose.axes import CEILINGS, PROPOSALS

if TYPE_CHECKING:
    from nodewise.diagnose.axes import Answer
    from nodewise.diagnose.flow import Diagnosis, Facts, Service
    from nodewise.diagnose.memory import Fit
    from nodewise.diagnose.training_step import TrainingStep

_BUDGET = Parsed("time", parse_latency, above=0)
_RATE = Parsed("rate", parse_rate, above=0)

_memory_options = shared(
    click.option("--parameters", type=COUNT, help="Parameters of the model: 13e9, 13B."),
    click.option(
        "--optimizer",
        type=click.Choice(["adam", "adam-8bit", "momentum", "sgd", "adafactor"]),
        default="adam",
        metavar="NAME",
        help="adam-8bit, momentum, sgd, adafactor. [adam]",
    ),
    click.option(
        "--precision",
        type=click.Choice(["mixed", "fp32", "bf16"]),
        default="mixed",
        show_default=True,
        help="Numbers of the training.",
    ),
    click.option("--activations", type=SIZE, help="Activations of one worker: 10GB."),
    click.option("--needs", "needed_memory", type=SIZE, help="Memory of the job: 120GB."),
    click.option("--device-memory", type=SIZE, help="Memory of one device or node: 80GB."),
    click.option(
        "--workers",
        type=click.IntRange(1, 1_000_000),
        default=4,
        metavar="N",
        help="Devices of the job. [4]",
    ),
)
_data_options = shared(
    click.option("--dataset", "dataset_bytes", type=SIZE, help="Bytes to read: 50TB."),
    click.option("--disk", "disk_bytes", type=SIZE, help="Disk space of one node: 16TB."),
    click.option("--read-bandwidth", type=BANDWIDTH, help="Read rate of one node: 3GB/s."),
    click.option(
        "--within",
        "within_seconds",
        type=POSITIVE_DURATION,
        help="Longest time to read the data: 8h.",
    ),
)
_service_options = shared(
    click.option("--latency-budget", type=_BUDGET, help="Longest time of an answer: 200ms."),
    click.option("--rate", type=_RATE, help="Requests to answer: 1000/s."),
    click.option("--request-time", type=_BUDGET, help="One request on one machine: 150ms."),
)


@click.command("diagnose", context_settings={"ignore_unknown_options": False})
@click.argument("program", metavar="[STUDY | -- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--torch",
    "as_torch",
    is_flag=True,
    help="Count the operations of a torch script.",
)
@click.option(
    "--propose",
    type=click.Choice(list(PROPOSALS)),
    metavar="AXIS",
    help="Answer yes or no to fsdp, replicas, ...",
)
@click.option(
    "--ceiling", type=click.Choice(CEILINGS), metavar="NAME", help="The ceiling, if you know it."
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Test by experiment: three more runs.",
)
@click.option("--menu", is_flag=True, help="Every ceiling with its axis and tools.")
@click.option(
    "--watch-for",
    type=POSITIVE_DURATION,
    default="60s",
    show_default=True,
    help="Stop the program after this.",
)
@_memory_options
@_data_options
@_service_options
@step_options(hidden=True)
@file_option("Draw it: .svg, .png, .pdf or .json.")
@page_option
@output_options
def command(
    program: tuple[str, ...],
    as_torch: bool,
    propose: str | None,
    menu: bool,
    output: Path | None,
    page: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Name what limits a program, a study, or a job on paper.

    A COMMAND is run and watched. A STUDY names the limit after distribution. Otherwise the options
    describe the job. --propose exits with 1 unless yes.

    \b
    Examples:
      nodewise diagnose --confirm -- python train.py
      nodewise diagnose digits.study
      nodewise diagnose --propose fsdp --parameters 13e9 --device-memory 80GB
      nodewise diagnose --propose replicas --latency-budget 200ms --rate 1000/s
    """
    if menu:
        from nodewise.diagnose.axes import MENU
        from nodewise.report.text import diagnose as text_diagnose

        emit(MENU, as_json, text_diagnose.menu_report)
        return
    answer: Answer | None
    if as_torch:
        answer = _count(program, propose, as_json, output, page, options["watch_for"])
    elif program:
        if output is not None:
            raise SpecError(
                "-o draws a torch step or a job on paper, not a program or a study.", "Drop -o."
            )
        if _is_study(program):
            answer = _after_distribution(Path(program[0]), propose, as_json, page)
        else:
            answer = _watch(
                program, propose, as_json, page, options["watch_for"], options["confirm"]
            )
    else:
        from nodewise.diagnose.flow import diagnose
        from nodewise.report.text import diagnose as text_diagnose

        diagnosis = diagnose(_facts(options), propose)
        emit(diagnosis, as_json, text_diagnose.diagnosis_report)
        if output is not None:
            _draw_flow(diagnosis, output)
        if page is not None:
            from nodewise.report.page.diagnose import diagnosis_page

            write_page(diagnosis_page(diagnosis), page)
        answer = diagnosis.answer
    if answer is not None and answer.answer != "yes":
        sys.exit(GATE_NOT_MET)


def _facts(options: dict[str, Any]) -> "Facts":
    from nodewise.diagnose.flow import Facts

    facts = Facts(
        needed_memory=options["needed_memory"],
        device_memory=options["device_memory"],
        training=_training(options),
        dataset_bytes=options["dataset_bytes"],
        disk_bytes=options["disk_bytes"],
        read_bandwidth=options["read_bandwidth"],
        within_seconds=options["within_seconds"],
        service=_service(options),
        step=step_of(options),
        measured=options["ceiling"],
    )
    if facts == Facts(device_memory=options["device_memory"]):
        raise SpecError(
            "Nothing to diagnose is given.",
            "Name a program, nodewise diagnose -- python train.py, or describe the job; see "
            "nodewise diagnose --help.",
        )
    return facts


def _training(options: dict[str, Any]) -> "Fit | None":
    from nodewise.diagnose.memory import demand_of, fit

    if options["parameters"] is None:
        return None
    if options["device_memory"] is None:
        raise SpecError("--parameters needs the memory of a device.", "Add --device-memory 80GB.")
    if options["needed_memory"] is not None:
        raise SpecError("--needs and --parameters both give the memory.", "Drop one of the two.")
    demand = demand_of(
        options["parameters"],
        options["optimizer"],
        options["precision"],
        options["activations"] or 0.0,
    )
    return fit(demand, options["device_memory"], options["workers"])


def _service(options: dict[str, Any]) -> "Service | None":
    from nodewise.diagnose.flow import Service

    if options["latency_budget"] is None:
        for name in ("rate", "request_time"):
            if options[name] is not None:
                flag = f"--{name.replace('_', '-')}"
                raise SpecError(
                    f"{flag} needs the budget of an answer.", "Add --latency-budget 200ms."
                )
        return None
    return Service(
        budget_seconds=options["latency_budget"],
        rate=options["rate"],
        request_seconds=options["request_time"],
    )


def _watch(
    program: tuple[str, ...],
    propose: str | None,
    as_json: bool,
    page: Path | None,
    most_seconds: float,
    confirm: bool,
) -> "Answer | None":
    from nodewise.diagnose.machine.measured import one_core
    from nodewise.diagnose.machine.watching import watch
    from nodewise.diagnose.symptoms import classify
    from nodewise.diagnose.window_rules import Roofs
    from nodewise.report.text.symptoms import symptoms_report

    seen = watch(program, most_seconds)
    symptoms = classify(seen, Roofs(*one_core(Path.cwd())), propose)
    if confirm:
        from nodewise.diagnose.confirm import confirmed
        from nodewise.diagnose.machine.trials import trials

        symptoms = confirmed(symptoms, trials(program, most_seconds), propose)
    emit(symptoms, as_json, symptoms_report)
    if page is not None:
        from nodewise.report.page.diagnose import symptoms_page

        write_page(symptoms_page(symptoms), page)
    return symptoms.answer


def _count(
    script: tuple[str, ...],
    propose: str | None,
    as_json: bool,
    output: Path | None,
    page: Path | None,
    most_seconds: float,
) -> "Answer | None":
    from nodewise.diagnose.machine.measured import machine
    from nodewise.diagnose.machine.torch_script import count
    from nodewise.diagnose.training_step import judge_run
    from nodewise.report.text import diagnose as text_diagnose

    if not script or (not Path(script[0]).is_file() and script[0] != "-m" and ":" not in script[0]):
        raise SpecError(
            f"--torch needs a script, not {script[0] if script else 'nothing'}.",
            "Name a file: nodewise diagnose --torch -- train.py --epochs 1",
        )
    run = count(script, most_seconds)
    found, _ = machine(Path.cwd())
    step = judge_run(run, found, propose)
    emit(step, as_json, text_diagnose.training_step_report)
    if output is not None:
        _draw_step(step, output)
    if page is not None:
        from nodewise.report.page.diagnose import training_step_page

        write_page(training_step_page(step), page)
    return step.answer


def _is_study(program: tuple[str, ...]) -> bool:
    """A folder or a table cannot be run."""
    place = Path(program[0])
    return len(program) == 1 and (place.is_dir() or place.suffix in (".csv", ".html"))


def _after_distribution(
    place: Path, propose: str | None, as_json: bool, page: Path | None
) -> "Answer | None":
    from nodewise.cli.inputs import valid_or_exit
    from nodewise.diagnose.next_ceiling import next_ceiling
    from nodewise.report.findings import Findings
    from nodewise.report.open import open_study
    from nodewise.report.text import diagnose as text_diagnose

    study, question = open_study(place)
    valid_or_exit(study, question, as_json)
    found = Findings(study, question)
    recommended = found.decision.recommended.nodes
    result = next_ceiling(study, found.attribution, propose, recommended)
    emit(result, as_json, text_diagnose.next_ceiling_report)
    if page is not None:
        from nodewise.report.page.diagnose import next_ceiling_page

        write_page(next_ceiling_page(result, study, found.attribution), page, [place])
    return result.answer


def _draw_flow(diagnosis: "Diagnosis", output: Path) -> None:
    from nodewise.cli.roofline import write_figure
    from nodewise.report.charts.flow import flow_chart

    write_figure(flow_chart(diagnosis), output)


def _draw_step(step: "TrainingStep", output: Path) -> None:
    from nodewise.cli.roofline import write_figure
    from nodewise.report.charts.roofline import step_chart

    figure = step_chart(step)
    if figure is None:
        raise SpecError("The step has no point to draw: no operation was counted.", "Drop -o.")
    write_figure(figure, output)
