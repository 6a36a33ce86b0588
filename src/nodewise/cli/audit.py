"""`nodewise audit`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET, DataError
from nodewise.cli.options import (
    FRACTION,
    SOURCE,
    Source,
    emit,
    json_option,
    read_bytes,
    read_folder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodewise.study.claim import Claim
    from nodewise.study.spec import Regime
    from nodewise.study.study import Run


@click.command("audit")
@click.argument("sources", metavar="FILE|STUDY...", nargs=-1, required=True, type=SOURCE)
@click.option(
    "--regime",
    type=click.Choice(["strong", "weak"]),
    help="What the author says was held fixed; default: what the table or its text says.",
)
@click.option(
    "--threshold",
    type=FRACTION,
    default="0.70",
    show_default=True,
    help="Efficiency below which the curve has bent.",
)
@click.option("--curve", help="Of a file with several curves, only the one of this name.")
@json_option
def command(
    sources: tuple[Source, ...],
    regime: "Regime | None",
    threshold: float,
    curve: str | None,
    as_json: bool,
) -> None:
    """Is this scaling claim honest? Which inflations it shows, rules out, and what to ask.

    FILE is a table (CSV, Markdown, LaTeX) or a result of hyperfine, pyperf, ReFrame (JSON) or
    MLPerf (logs, as K=FILE where they do not tell their scale); STUDY is a study folder. Exits
    with 1 when a rule of severity fail is broken, so that it can gate a CI or an artifact.

    \b
    Examples:
      nodewise audit vendor.csv
      nodewise audit paper.tex --regime strong
      nodewise audit 8=result_0.txt 16=result_1.txt
    """
    from nodewise.audit.rule_book import read_rules
    from nodewise.audit.rules import audit
    from nodewise.report.text.audit import audit_report, audits_report

    rules = read_rules()
    claims = _claims(sources, regime)
    if curve is not None:
        claims = tuple(claim for claim in claims if claim.name == curve)
        if not claims:
            raise DataError(f"No curve is called {curve}.", "See the names without --curve.")
    audits = [audit(claim, rules, threshold) for claim in claims]
    if len(audits) == 1:
        emit(audits[0], as_json, audit_report)
    else:
        emit(audits, as_json, audits_report)
    if not all(one.passes for one in audits):
        sys.exit(GATE_NOT_MET)


def _claims(sources: "Sequence[Source]", regime: "Regime | None") -> "tuple[Claim, ...]":
    """The claims in all sources; results of single runs make one claim together."""
    from nodewise.study.claim import claim_of_study
    from nodewise.study.study import Study

    claims: list[Claim] = []
    runs: list[Run] = []
    for nodes, path in sources:
        made = _read(path, nodes, regime)
        if isinstance(made, tuple):
            claims += made
        else:
            runs += made
    if runs:
        counts: dict[int, int] = {}
        for at, run in enumerate(runs):
            number = counts.get(run.nodes, 0)
            counts[run.nodes] = number + 1
            runs[at] = msgspec.structs.replace(run, round=number)
        study = Study(name=sources[0][1].stem, regime=regime or "strong", runs=tuple(runs))
        if len(study.scales) < 2:
            raise DataError(
                "The results are of fewer than two scales.", "Hand in K=FILE for two K or more."
            )
        claim = claim_of_study(study)
        claims.append(msgspec.structs.replace(claim, regime=regime))
    return tuple(claims)


def _read(
    path: Path, nodes: int | None, regime: "Regime | None"
) -> "tuple[Claim, ...] | list[Run]":
    """The claims of a table or a study, or the runs of a benchmark tool."""
    from nodewise.importers.benchmarks import claims_results
    from nodewise.importers.tables import claims_tables
    from nodewise.study import store
    from nodewise.study.claim import claim_of_study

    if path.is_dir() and store.is_study(path):
        return (claim_of_study(read_folder(path)),)
    if path.is_dir():
        logs = sorted(file for file in path.rglob("*") if file.suffix in (".txt", ".log", ".out"))
        if not logs:
            raise DataError(f"{path} holds neither a study nor logs.", "Name a file or a study.")
        return [run for log in logs for run in claims_results.read_mllog(log, nodes)]
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    name = "stdin" if str(path) == "-" else path.stem
    if claims_results.is_mllog(text) and str(path) != "-":
        return claims_results.read_mllog(path, nodes)
    if text.lstrip()[:1] in ("{", "["):
        return claims_results.read_json(text, name)
    return claims_tables.read_text(text, name, regime)
