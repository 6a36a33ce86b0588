"""`nodewise simulate`."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nodewise.cli.options import (
    FRACTION,
    POSITIVE_DURATION,
    QUANTITY,
    file_option,
    json_option,
    parse_scales,
    shared,
    to_json,
    write,
)

_truth = shared(
    click.option(
        "--law",
        default="s=0.04,c=0.01,growth=log2",
        show_default=True,
        metavar="s=S,c=C",
        help="Law of the system; growth=linear, log2 or none.",
    ),
    click.option(
        "--t1", type=POSITIVE_DURATION, default="1s", show_default=True, help="Time on one node."
    ),
    click.option(
        "--regime",
        type=click.Choice(["strong", "weak"]),
        default="strong",
        show_default=True,
        help="Fixed job, or fixed work per node.",
    ),
    click.option(
        "--noise",
        type=FRACTION,
        default="0.02",
        show_default=True,
        help="Relative spread of a run.",
    ),
    click.option(
        "--jitter", type=FRACTION, default="0", help="Relative spread of each rank's compute."
    ),
    click.option(
        "--imbalance",
        type=QUANTITY,
        default="1",
        help="Rank 0 has this many times the items.",
    ),
    click.option(
        "--slow-node",
        type=QUANTITY,
        default="1",
        help="The last node is this many times slower.",
    ),
    click.option(
        "--straggler",
        type=QUANTITY,
        default="1",
        help="Slowest round at each K, up to this factor.",
    ),
    click.option(
        "--crippled-baseline",
        type=QUANTITY,
        default="1",
        help="The smallest K is this much too slow.",
    ),
)


@click.command("simulate")
@_truth
@click.option("--scales", default="1,2,4,8,16,32,64", show_default=True, help="The K to run.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=7,
    show_default=True,
    help="Runs at each K.",
)
@click.option(
    "--detail",
    type=click.Choice(["timings", "stages", "ranks"]),
    default="timings",
    show_default=True,
    help="What is recorded.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    default=7,
    show_default=True,
    help="Seed of the noise.",
)
@file_option("The file to write; default: stdout.")
@click.option(
    "--rounds-to-see",
    type=FRACTION,
    metavar="SHARE",
    help="Print how many rounds show such a difference.",
)
@json_option
def command(
    output: Path | None, rounds_to_see: float | None, as_json: bool, **options: Any
) -> None:
    """Write a simulated table with known causes, to learn, to test detectors, to plan rounds.

    The times follow --law; each other option adds one fault. The command that made it is in the
    table's first line.

    \b
    Examples:
      nodewise simulate -o table.csv && nodewise scale table.csv
      nodewise simulate --straggler 1.5 | nodewise attribute -
      nodewise simulate --imbalance 2 --detail ranks | nodewise attribute -
      nodewise simulate --regime weak | nodewise scale -
      nodewise simulate --noise 3% --rounds-to-see 5%
    """
    if rounds_to_see is None:
        write(_simulate_table(options, as_json), output)
    else:
        write(_rounds_line(options["noise"], rounds_to_see, as_json), output)


def _simulate_table(options: dict[str, Any], as_json: bool) -> str:
    """The simulated study as a CSV text, or as JSON."""
    from nodewise.explain.simulate import simulate
    from nodewise.study.table import format_table

    study = simulate(_plan(options))
    return to_json(study) if as_json else format_table(study, [f"planted by: {_command_line()}"])


def _rounds_line(noise: float, difference: float, as_json: bool) -> str:
    """How many rounds show a difference, as a sentence or as JSON."""
    from nodewise.base.units import format_percent
    from nodewise.explain.simulate import rounds_needed

    rounds = rounds_needed(noise, difference)
    if as_json:
        return to_json({"rounds": rounds, "noise": noise, "difference": difference})
    return (
        f"{rounds} rounds show a difference of {format_percent(difference)} at a noise of "
        f"{format_percent(noise)} in four of five studies.\n"
    )


def _plan(options: dict[str, Any]) -> Any:
    from nodewise.explain.laws import parse_law
    from nodewise.explain.simulate import PlantedTruth

    return PlantedTruth(
        law=parse_law(options["law"], options["t1"], options["regime"]),
        scales=parse_scales(options["scales"]),
        rounds=options["rounds"],
        noise=options["noise"],
        jitter=options["jitter"],
        shard_factor=options["imbalance"],
        slow_node_factor=options["slow_node"],
        straggler_factor=options["straggler"],
        baseline_factor=options["crippled_baseline"],
        detail=options["detail"],
        seed=options["seed"],
    )


def _command_line() -> str:
    return shlex.join(["nodewise", *sys.argv[1:]])
