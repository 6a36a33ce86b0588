"""`nodewise audit`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodewise.base.errors import GATE_NOT_MET, DataError
from nodewise.cli.inputs import input_options, value
from nodewise.cli.options import (
    SOURCE,
    Source,
    emit,
    output_options,
)
from nodewise.cli.sources import format_option, report_skipped
from nodewise.report.open import open_study, read_bytes, read_folder, runs_in, study_of_runs

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
@input_options("threshold")
@click.option("--curve", help="Of a file with several curves, only the one of this name.")
@format_option
@output_options
def command(
    sources: tuple[Source, ...],
    regime: "Regime | None",
    threshold: float | None,
    curve: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Is this scaling claim honest? Which inflations it shows, rules out, and what to ask.

    FILE is a table (CSV, Markdown, LaTeX) or anything that nodewise import reads: results of
    hyperfine, pyperf, ReFrame, MLPerf, traces. Write K=FILE where the file does not give K. STUDY
    is a study folder. Exits with 1 if a rule of severity fail is broken, so it can gate a CI.

    \b
    Examples:
      nodewise audit vendor.csv
      nodewise audit paper.tex --regime strong
      nodewise audit 8=result_0.txt 16=result_1.txt
    """
    from nodewise.audit.rules import audit, read_rules
    from nodewise.report.text.audit import audit_report, audits_report

    rules = read_rules()
    claims = _claims(sources, regime, form)
    if curve is not None:
        claims = tuple(claim for claim in claims if claim.name == curve)
        if not claims:
            raise DataError(f"No curve is called {curve}.", "See the names without --curve.")
    audits = [audit(claim, rules, value({"threshold": threshold}, "threshold")) for claim in claims]
    if len(audits) == 1:
        emit(audits[0], as_json, audit_report)
    else:
        emit(audits, as_json, audits_report)
    if not all(one.passes for one in audits):
        sys.exit(GATE_NOT_MET)


def _claims(
    sources: "Sequence[Source]", regime: "Regime | None", form: str = ""
) -> "tuple[Claim, ...]":
    """The claims in all sources; the runs of other formats make one claim together."""
    from nodewise.importers import registry
    from nodewise.importers.benchmarks.results import runs_of_json
    from nodewise.importers.tables.claims_tables import claims_of_text
    from nodewise.study import store
    from nodewise.study.claim import claim_of_study

    claims: list[Claim] = []
    runs: list[Run] = []
    for nodes, path in sources:
        if store.is_study(path):
            claims.append(claim_of_study(read_folder(path)))
            continue
        if path.suffix == ".html":
            claims.append(claim_of_study(open_study(path, regime)[0]))
            continue
        text = _text(path) if str(path) == "-" else ""
        if text.lstrip()[:1] in ("{", "["):
            runs += runs_of_json(text, "stdin")
        elif str(path) == "-":
            claims += claims_of_text(text, "stdin", regime)
        else:
            files = registry.open_file(path, form)
            if files.format.gives != "table":
                report_skipped(files)
                runs += runs_in(files, nodes)
                continue
            for file in files.paths:
                claims += claims_of_text(_text(file), file.stem, regime)
    if runs:
        study = study_of_runs(sources[0][1].stem, regime or "strong", runs)
        if len(study.scales) < 2:
            raise DataError("The results are of fewer than two scales.", "Name the files of two K.")
        claims.append(msgspec.structs.replace(claim_of_study(study), regime=regime))
    return tuple(claims)


def _text(path: Path) -> str:
    return read_bytes(path).decode("utf-8-sig", errors="replace")
