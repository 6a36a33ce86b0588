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
from nodewise.cli.pages import page_option
from nodewise.cli.sources import format_option, report_skipped
from nodewise.report.open import (
    open_study,
    read_bytes,
    read_folder,
    read_logs,
    runs_in,
    study_of_runs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodewise.study.claim import Claim
    from nodewise.study.spec import Regime
    from nodewise.study.study import Run
    from nodewise.study.titles import Column

_TEXTS = (".md", ".txt", ".org", ".rst", ".tex", ".html", ".json")


@click.command("audit")
@click.argument("sources", metavar="FILE|STUDY...", nargs=-1, required=True, type=SOURCE)
@click.option(
    "--regime",
    type=click.Choice(["strong", "weak"]),
    help="What the author says was held fixed; default: what the table or its text says.",
)
@input_options("threshold")
@click.option(
    "--column",
    "corrections",
    multiple=True,
    metavar="TITLE=WHAT",
    help="Meaning of a misread column: --column 'TPS/GPU=rate per device'.",
)
@click.option("--curve", help="Only the curve of this name, of a file with several.")
@click.option("--reply", "as_reply", is_flag=True, help="A short, polite comment to the author.")
@format_option
@page_option
@output_options
def command(
    sources: tuple[Source, ...],
    regime: "Regime | None",
    threshold: float | None,
    corrections: tuple[str, ...],
    curve: str | None,
    form: str,
    page: Path | None,
    as_reply: bool,
    as_json: bool,
) -> None:
    """Check a scaling claim: known inflations that it shows or rules out, and what to ask.

    FILE is a table in any layout (CSV, Markdown, HTML, LaTeX, org, JSON, a pasted terminal,
    sentences) or anything that nodewise import reads. The output begins with how they were read.
    Write K=FILE if the file does not give K. STUDY is a study folder. Exits with 1 if a rule of
    severity fail is broken, so it can gate a CI job.

    \b
    Examples:
      nodewise audit vendor.csv
      nodewise audit readme.md --column 'TPS/GPU=rate per device'
      nodewise audit paper.tex --regime strong --reply
      nodewise audit 8=result_0.txt 16=result_1.txt
    """
    from nodewise.audit.rules import audit, read_rules
    from nodewise.importers.tables.columns import parse_corrections
    from nodewise.report.text.audit import audit_report, audits_report
    from nodewise.report.text.reading import reply

    rules = read_rules()
    claims = _claims(sources, regime, form, parse_corrections(corrections))
    if curve is not None:
        claims = tuple(claim for claim in claims if claim.name == curve)
        if not claims:
            raise DataError(f"No curve is called {curve}.", "See the names without --curve.")
    audits = [audit(claim, rules, value({"threshold": threshold}, "threshold")) for claim in claims]
    if as_reply and not as_json:
        click.echo("\n\n".join(map(reply, audits)))
    elif len(audits) == 1:
        emit(audits[0], as_json, audit_report)
    else:
        emit(audits, as_json, audits_report)
    if page is not None:
        from nodewise.cli.pages import write_page
        from nodewise.report.page.audit import audit_page, audits_page

        content = audit_page(audits[0]) if len(audits) == 1 else audits_page(audits)
        write_page(content, page, [path for _, path in sources])
    if not all(one.passes for one in audits):
        sys.exit(GATE_NOT_MET)


def _claims(
    sources: "Sequence[Source]",
    regime: "Regime | None",
    form: str = "",
    corrections: "Mapping[str, Column] | None" = None,
) -> "tuple[Claim, ...]":
    """The claims in all sources; the runs of other formats make one claim together."""
    from nodewise.importers import registry
    from nodewise.importers.benchmarks.results import runs_of_json
    from nodewise.importers.tables.claims_tables import claims_of_text
    from nodewise.study import store
    from nodewise.study.claim import claim_of_study

    logs, sources = _logs_apart(sources, form)
    claims = [claim_of_study(read_logs(logs, regime))] if logs else []
    runs: list[Run] = []
    for nodes, path in sources:
        if store.is_study(path):
            claims.append(claim_of_study(read_folder(path)))
        elif str(path) == "-" and (text := _text(path)).lstrip()[:1] in ("{", "["):
            runs += runs_of_json(text, "stdin")
        elif str(path) == "-":
            claims += claims_of_text(text, "stdin", regime, corrections)
        elif path.is_file() and not form and registry.detect(path) is None:
            claims += _claims_of_any(path, regime, corrections)
        else:
            files = registry.open_file(path, form)
            if files.format.gives != "table":
                report_skipped(files)
                runs += runs_in(files, nodes)
                continue
            for file in files.paths:
                claims += claims_of_text(_text(file), file.stem, regime, corrections)
    if runs:
        study = study_of_runs(sources[0][1].stem, regime or "strong", runs)
        if len(study.scales) < 2:
            raise DataError("The results are of fewer than two scales.", "Name the files of two K.")
        claims.append(msgspec.structs.replace(claim_of_study(study), regime=regime))
    return tuple(claims)


def _logs_apart(sources: "Sequence[Source]", form: str) -> tuple[list[Source], list[Source]]:
    """The sources that are logs, which make one claim together, and the others."""
    from nodewise.importers.logs.survey import has_logs
    from nodewise.study import store

    logs = [
        source
        for source in sources
        if str(source[1]) != "-"
        and not form
        and not store.is_study(source[1])
        and source[1].suffix != ".html"
        and has_logs([source])
    ]
    return logs, [source for source in sources if source not in logs]


def _claims_of_any(
    path: Path, regime: "Regime | None", corrections: "Mapping[str, Column] | None"
) -> "tuple[Claim, ...]":
    """The claims in a file that import does not know: a pasted terminal, a page, sentences."""
    from nodewise.importers import registry
    from nodewise.importers.tables.claims_tables import claims_of_text
    from nodewise.importers.tables.layouts import sheets_of
    from nodewise.study.claim import claim_of_study

    if path.suffix == ".html":
        try:
            return (claim_of_study(open_study(path, regime)[0]),)
        except DataError:
            pass  # a page from elsewhere
    text = _text(path)
    try:
        return claims_of_text(text, path.stem, regime, corrections)
    except DataError:
        if path.suffix in _TEXTS and sheets_of(text):
            raise
        raise registry.unknown(path) from None


def _text(path: Path) -> str:
    return read_bytes(path).decode("utf-8-sig", errors="replace")
