"""`nodewise rerun`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET, DataError
from nodewise.cli.measure import measure_spec
from nodewise.cli.options import emit, output_options
from nodewise.report.open import read_folder
from nodewise.study import store
from nodewise.study.files import file_name, read_own, replace

if TYPE_CHECKING:
    from nodewise.explain.compare import Comparison, ComparisonRow
    from nodewise.report.sections import Output
    from nodewise.study.study import Study

Agreement = Literal["agrees", "differs", "unknown"]


class _Repeated(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    nodes: int
    first_speedup: float
    second_speedup: float
    speedup: Agreement  # what the study claims
    seconds: Agreement  # another machine may differ in these alone


class _Rerun(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    agrees: bool
    rows: tuple[_Repeated, ...]
    comparison: "Comparison"


@click.command("rerun")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "-C",
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the job is; default: the bundle's workload, else this folder.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The new study folder; default: NAME.rerun.",
)
@output_options
def command(bundle: Path, directory: Path | None, output: Path | None, as_json: bool) -> None:
    """Repeat the study of BUNDLE, and say scale by scale whether the new interval agrees.

    A study claims speedups. On another machine the seconds may differ while the claim still holds.
    Exits with 1 when the speedup of a scale differs. Checksums are verified first. A bundle runs
    programs, so use only bundles of people you trust.

    \b
    Examples:
      nodewise rerun digits.zip
      nodewise rerun digits.zip -C examples -o again.study
    """
    from nodewise.measure.scratch import scratch_folder
    from nodewise.study.bundle import unpack

    with scratch_folder() as made:
        folder = made / "bundle"
        unpack(bundle, folder)
        if not store.is_study(folder):
            raise DataError(f"{bundle} holds no study.", "Make one with: nodewise export STUDY")
        first = read_folder(folder)
        home = directory or (folder / "workload" if (folder / "workload").is_dir() else Path())
        # A spec finds its job from the folder that it is in.
        spec = home / f".{file_name(first.name)}.rerun.toml"
        replace(spec, read_own(folder / store.SPEC))
        try:
            again = measure_spec(spec, output or Path(f"{file_name(first.name)}.rerun"))
        finally:
            spec.unlink(missing_ok=True)
        second = read_folder(again)
    result = _compare(first, msgspec.structs.replace(second, name=f"{second.name} again"))
    emit(result, as_json, _report)
    if not result.agrees:
        sys.exit(GATE_NOT_MET)


def _compare(first: "Study", second: "Study") -> _Rerun:
    from nodewise.decide.prices.lookup import question_of
    from nodewise.explain.compare import compare

    threshold = question_of(first.asked).needs.threshold
    comparison = compare(first, second, threshold)
    rows = tuple(_repeated(row, comparison) for row in comparison.rows)
    return _Rerun(
        name=first.name,
        agrees=all(row.speedup != "differs" for row in rows) and not comparison.only_first,
        rows=rows,
        comparison=comparison,
    )


def _repeated(row: "ComparisonRow", comparison: "Comparison") -> _Repeated:
    """Speedups differ if their intervals do not overlap; without intervals, unknown."""
    ours, theirs = (
        None if one is None else one.row(row.nodes)
        for one in (comparison.first_scaling, comparison.second_scaling)
    )
    speedup: Agreement = "unknown"
    if (
        ours is not None
        and theirs is not None
        and ours.speedup_low is not None
        and ours.speedup_high is not None
        and theirs.speedup_low is not None
        and theirs.speedup_high is not None
    ):
        meet = ours.speedup_low <= theirs.speedup_high and theirs.speedup_low <= ours.speedup_high
        speedup = "agrees" if meet else "differs"
    seconds: Agreement = "differs" if row.second_is in ("faster", "slower") else "agrees"
    return _Repeated(
        nodes=row.nodes,
        first_speedup=row.first_speedup,
        second_speedup=row.second_speedup,
        speedup=speedup,
        seconds="unknown" if row.second_is == "unknown" else seconds,
    )


def _report(result: _Rerun) -> "Output":
    from nodewise.base.units import format_speedup
    from nodewise.report.tables import Table
    from nodewise.report.text.compare import comparison_report

    table = Table(
        name="Whether the new intervals agree",
        titles=("K", "speedup", "again", "speedups", "seconds"),
        rows=tuple(
            (
                str(row.nodes),
                format_speedup(row.first_speedup),
                format_speedup(row.second_speedup),
                row.speedup,
                row.seconds,
            )
            for row in result.rows
        ),
        left=frozenset({"speedups", "seconds"}),
    )
    differ = [str(row.nodes) for row in result.rows if row.speedup == "differs"]
    missing = result.comparison.only_first
    if differ:
        verdict = f"the speedup differs at K={', '.join(differ)}"
    elif missing:
        verdict = f"K={', '.join(map(str, missing))} could not be run again"
    else:
        verdict = "the speedup agrees at every scale"
    compared = comparison_report(result.comparison)
    return msgspec.structs.replace(
        compared, answer=(f"**{result.name}** again: {verdict}.", *compared.answer), table=table
    )
