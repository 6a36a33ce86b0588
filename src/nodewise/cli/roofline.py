"""`nodewise roofline`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import SpecError
from nodewise.base.units import parse_bandwidth, parse_bytes, parse_count, parse_latency
from nodewise.cli.options import Decorator, Parsed, emit, file_option, output_options, shared, write

if TYPE_CHECKING:
    from nodewise.diagnose.roofline import Roofline
    from nodewise.report.charts.look import Figure

COUNT = Parsed("number", parse_count, above=0)
SIZE = Parsed("size", parse_bytes, above=0)
BANDWIDTH = Parsed("bandwidth", parse_bandwidth, above=0)
LATENCY = Parsed("time", parse_latency, least=0)


def step_options(hidden: bool = False) -> Decorator:
    """The options of a step on paper."""
    option = partial(click.option, hidden=hidden)
    return shared(
        option("--peak-flops", type=COUNT, help="FLOP per second of the machine: 20e12, 20T."),
        option(
            "--memory-bandwidth", type=BANDWIDTH, help="Bandwidth of the machine's memory: 800GB/s."
        ),
        option("--flops", type=COUNT, help="Operations of one step: 6e12."),
        option(
            "--bytes", "memory_bytes", type=SIZE, help="Bytes that a step moves from memory: 120GB."
        ),
        option("--net-bytes", type=SIZE, help="Bytes that workers exchange after each step: 4GB."),
        option("--net-bandwidth", type=BANDWIDTH, help="Bandwidth of the link: 25e9, 25GB/s."),
        option("--alpha", type=LATENCY, default="0", help="Latency of a message: 10e-6, 10us."),
    )


@click.command("roofline")
@step_options()
@file_option("Draw the roofline into a file .svg, .png, .pdf or .json (Vega-Lite).")
@output_options
def command(output: Path | None, as_json: bool, **options: Any) -> None:
    """A step on paper: does compute, memory bandwidth or the network limit it?

    --peak-flops, --memory-bandwidth, --flops and --bytes are needed; with --net-bytes and
    --net-bandwidth the exchange of a step is compared with its compute.

    \b
    Examples:
      nodewise roofline --peak-flops 20e12 --memory-bandwidth 800e9 --flops 6e12 --bytes 1.2e11
      nodewise roofline --peak-flops 20T --memory-bandwidth 800GB/s --flops 6T --bytes 120GB \\
          --net-bytes 4GB --net-bandwidth 25GB/s --alpha 10us --json
    """
    from nodewise.report.text import diagnose as text_diagnose

    step = step_of(options)
    if step is None:
        raise SpecError(
            "A roofline needs the machine and the step.",
            "Give --peak-flops, --memory-bandwidth, --flops and --bytes.",
        )
    emit(step, as_json, text_diagnose.roofline_report)
    if output is not None:
        _draw(step, options, output)


def step_of(options: dict[str, Any]) -> "Roofline | None":
    """The roofline of the options, or nothing if none of them is given."""
    from nodewise.diagnose.links import Link
    from nodewise.diagnose.roofline import roofline

    needed = ("peak_flops", "memory_bandwidth", "flops", "memory_bytes")
    net = ("net_bytes", "net_bandwidth")
    given = [name for name in (*needed, *net) if options[name] is not None]
    if not given:
        return None
    exchange: dict[str, Any] = {}
    if any(options[name] is not None for name in net):
        _need_all(net, options)
        link = Link(
            latency_seconds=options["alpha"],
            bytes_per_second=options["net_bandwidth"],
            efficiency=1.0,
        )
        exchange = {"link": link, "net_bytes": options["net_bytes"]}
    _need_all(needed, options)
    return roofline(**{name: options[name] for name in needed}, **exchange)


def _need_all(names: tuple[str, ...], options: dict[str, Any]) -> None:
    flags = {"memory_bytes": "--bytes"}
    for name in names:
        if options[name] is None:
            flag = flags.get(name, f"--{name.replace('_', '-')}")
            others = ", ".join(flags.get(one, f"--{one.replace('_', '-')}") for one in names)
            raise SpecError(f"{flag} is missing.", f"Give all of {others}.")


def _draw(step: "Roofline", options: dict[str, Any], output: Path) -> None:
    from nodewise.report.charts.roofline import Point, roofline_chart

    point = Point(name="the step", intensity=step.intensity, flops=step.attainable_flops)
    figure = roofline_chart(
        options["peak_flops"],
        options["memory_bandwidth"],
        [point],
        exchange_flops=step.exchange_flops,
    )
    write_figure(figure, output)


def write_figure(figure: "Figure", output: Path) -> None:
    """A chart, in a file whose name says the format."""
    from nodewise.report.charts.look import sized
    from nodewise.report.images import image

    form: Any = output.suffix.removeprefix(".")
    if form not in ("svg", "png", "pdf", "json"):
        raise click.UsageError(f"{output}: the name must end in .svg, .png, .pdf or .json")
    write(image(sized(figure.chart, "screen"), form), output)
