"""`nodewise plan`."""

import sys
from pathlib import Path

import click

from nodewise.base.errors import GATE_NOT_MET, SpecError
from nodewise.cli.inputs import input_options, value
from nodewise.cli.options import emit, output_options, parse_scales
from nodewise.cli.pages import page_option, write_page


@click.command("plan")
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("cluster", metavar="CLUSTER", type=click.Path(path_type=Path))
@click.option(
    "--scales",
    default="1..64",
    show_default=True,
    metavar="1..64",
    help="The K to plan: 1..64 for the doublings in it, or a list such as 4,6,8.",
)
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A measured step of this job (TOML: seconds, and a table [plan]); it corrects the others.",
)
@input_options("threshold")
@page_option
@output_options
def command(
    model: Path,
    cluster: Path,
    scales: str,
    anchor: Path | None,
    threshold: float | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Plan the training of a transformer before any run: step time, memory, cost.

    MODEL and CLUSTER are TOML files. At each scale every combination of data, fully sharded,
    tensor, pipeline, context and expert parallelism is computed. The fastest that fits in memory is
    shown, with its bottleneck. Exits with 1 when nothing fits.

    \b
    Examples:
      nodewise plan examples/gpt-22b.toml examples/a100-cluster.toml
      nodewise plan gpt.toml cluster.toml --scales 1..256 --threshold 0.8
      nodewise plan gpt.toml cluster.toml --scales 4,6,8 --json
      nodewise plan gpt.toml cluster.toml --anchor measured.toml
    """
    from nodewise.decide.paper.files import read_anchor, read_cluster, read_job
    from nodewise.decide.paper.plan import plan_job
    from nodewise.report.text.paper import plan_report

    planned = plan_job(
        read_job(model),
        read_cluster(cluster),
        parse_scales(scales),
        value({"threshold": threshold}, "threshold"),
        None if anchor is None else read_anchor(anchor),
    )
    if not any(row.plans for row in planned.rows):
        raise SpecError(
            "No plan divides the job at these scales.",
            "Use a batch and layers with more divisors, other --scales, or remove fixed values.",
        )
    emit(planned, as_json, plan_report)
    if page is not None:
        from nodewise.report.page.plan import plan_page

        write_page(plan_page(planned), page, (model, cluster))
    if planned.fastest is None:
        sys.exit(GATE_NOT_MET)
