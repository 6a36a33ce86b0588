"""`nodewise report`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import GATE_NOT_MET
from nodewise.cli.inputs import analysis_options, find_in, question_options
from nodewise.cli.options import SOURCE, Source, file_option, write
from nodewise.cli.pages import save_page
from nodewise.study import files, store

if TYPE_CHECKING:
    from nodewise.report.findings import Findings
    from nodewise.study.study import Study


@click.command("report")
@click.argument("tables", metavar="TABLE...", type=SOURCE, nargs=-1, required=True)
@file_option("A file .html, .md or .pdf; default: report.html in the study folder, or TABLE.html.")
@click.option(
    "--static", is_flag=True, help="Leave out the scripts: no sliders, a quarter of the size."
)
@question_options
@analysis_options
def command(tables: tuple[Source, ...], output: Path | None, static: bool, **options: Any) -> None:
    """One page with the verdict, the evidence, the charts, the checks and the study itself.

    TABLE is a CSV file (- reads stdin), a study folder, logs, or a page of this command, which
    contains its study. The page needs no network, and scripts only for sliders and values under the
    pointer. A PDF is printed by the Chromium, Chrome or Edge of this machine. Exits with 1 when the
    measurement is invalid.

    \b
    Examples:
      nodewise report digits.study
      nodewise report timings.csv --price 3.20 -o timings.html
      nodewise report timings.html --price 2.80 -o cheaper.pdf
    """
    table = tables[0][1]
    if output is None and table.suffix == ".html":
        raise click.UsageError("-o: name the file to write, so that no page is overwritten")
    study, findings = find_in(tables, options)
    target = output or (
        table / "report.html" if store.is_study(table) else Path(f"{table.stem or 'report'}.html")
    )
    if target.suffix not in (".html", ".md", ".pdf"):
        raise click.UsageError(f"{target}: the name must end in .html, .md or .pdf")
    if target.suffix == ".md":
        _write_markdown(study, findings, target)
    else:
        is_plain = static or target.suffix == ".pdf"
        save_page(page_of(study, findings, table, is_plain), target)
    if findings.decision.validity.state == "invalid":
        sys.exit(GATE_NOT_MET)


def page_of(study: "Study", findings: "Findings", table: Path, static: bool = False) -> str:
    """The page, with the command that made it."""
    from nodewise.report.page.html import page
    from nodewise.report.page.vega import vega_bundle

    asked = shlex.join(["nodewise", *sys.argv[1:]])
    spec = table / store.SPEC
    measured = f"nodewise study {spec.name}   # measures again\n" if store.is_study(table) else ""
    commands = f"{measured}{asked}\nnodewise report THIS-PAGE.html --price 2.50 -o other.html"
    text = files.read_own(spec).decode() if store.is_study(table) else ""
    return page(study, findings, commands, "" if static else vega_bundle(), text)


def _write_markdown(study: "Study", findings: "Findings", target: Path) -> None:
    """The report as Markdown, its charts as SVG files in a folder beside it."""
    from nodewise.report.charts.draw import figures, sized
    from nodewise.report.export import markdown
    from nodewise.report.images import image
    from nodewise.report.sections import everything
    from nodewise.report.text.findings import findings_report

    folder = target.with_name(f"{target.stem}_figures")
    files.own_folder(folder)
    shown = []
    for figure in figures(study, findings):
        files.replace(folder / f"{figure.name}.svg", image(sized(figure.chart), "svg"))
        shown.append(f"![{figure.title}]({folder.name}/{figure.name}.svg)\n\n{figure.caption}\n")
    write(markdown(everything(findings_report(findings))) + "\n" + "\n".join(shown), target)
