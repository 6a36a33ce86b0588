"""`nodewise history`: studies of one job over time, and the check that fails a build."""

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import GATE_NOT_MET, DataError
from nodewise.cli.gates import Written, fail_if_option, write_files, write_option
from nodewise.cli.inputs import input_options, read_question
from nodewise.cli.measure import read_spec
from nodewise.cli.options import emit, file_option, output_options, shared
from nodewise.cli.progress import ProgressLine

if TYPE_CHECKING:
    from nodewise.history.check import HistoryCheck
    from nodewise.history.entry import Entry
    from nodewise.history.file import Place
    from nodewise.history.gates import Gate
    from nodewise.study.spec import Regime

_place = click.option(
    "--history",
    "place",
    default="history.jsonl",
    show_default=True,
    metavar="WHERE",
    help="A file, a folder, or branch:NAME of this repository.",
)
_about_options = shared(
    click.option(
        "--commit", default="", help="The commit that was measured; default: as recorded."
    ),
    click.option("--date", default="", help="Date of the runs; default: as recorded, else now."),
    click.option(
        "--machine", default="", help="Machine; default: processor and cores as recorded."
    ),
    click.option("--workload", default="", help="Name of the job; default: that of the study."),
    input_options("price"),
)


@click.group("history")
def command() -> None:
    """Studies of one job over time: what became slower, since which commit, and why.

    A history is a file of JSON lines, one study a line. It can be in the repository, in a folder or
    on a branch. Studies of one processor are compared with each other.

    \b
    Examples:
      nodewise history add digits.study
      nodewise history show
      nodewise history page -o history.html
      nodewise history check --fail-if slower=3% --write junit=junit.xml
    """


@command.command("add", short_help="Add studies to a history.")
@click.argument("studies", metavar="STUDY...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@_place
@_about_options
def add_command(studies: tuple[Path, ...], place: str, **about: Any) -> None:
    """Add each STUDY: a study folder, a CSV of timings or a page of nodewise report.

    The same study is kept once. On a branch this makes a commit; push it yourself.

    \b
    Examples:
      nodewise history add digits.study
      nodewise history add timings.csv --commit 3f2a91c --date 2026-03-01
      nodewise history add digits.study --history branch:nodewise-history
    """
    from nodewise.history.file import append, place_of

    where = place_of(place)
    entries = [_entry(path, about) for path in studies]
    _say_added(where, append(where, entries), entries)


@command.command("import", short_help="Histories that other tools kept.")
@click.argument("sources", metavar="FILE|FOLDER...", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True))  # fmt: skip
@_place
@click.option(
    "--regime",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="strong: fixed job; weak: fixed work per node.",
)
def import_command(sources: tuple[Path, ...], place: str, regime: "Regime") -> None:
    """Add the history of other tools: a CSV, a folder of TALP-Pages or ReFrame reports, data.js.

    A CSV has the columns date, K and seconds, and may have commit, test and machine. Rows that
    agree in all but K and seconds are one study. data.js is the file of github-action-benchmark.

    \b
    Examples:
      nodewise history import campaigns.csv --regime weak
      nodewise history import talp/ --history history.jsonl
      nodewise history import dev/bench/data.js
    """
    from nodewise.history.entry import in_regime
    from nodewise.history.file import append, place_of
    from nodewise.history.imports import read_history

    where = place_of(place)
    entries = [in_regime(entry, regime) for source in sources for entry in read_history(source)]
    _say_added(where, append(where, entries), entries)


@command.command("show", short_help="The newest study against those before it.")
@_place
@output_options
def show_command(place: str, as_json: bool) -> None:
    """Print the newest study: verdict, times against earlier ones, trend at each K.

    \b
    Examples:
      nodewise history show
      nodewise history show --history branch:nodewise-history --json
    """
    from nodewise.history.trend import history
    from nodewise.report.text.history import history_report

    where, entries = _read(place)
    emit(history(str(where), entries), as_json, history_report)


@command.command("page", short_help="A page with trends and slowdowns.")
@_place
@file_option("The page to write: .html or .pdf. Default: history.html.")
def page_command(place: str, output: Path | None) -> None:
    """Write a page: speedup, efficiency and cost over time, slowdowns, a heat map, the ledger.

    \b
    Examples:
      nodewise history page
      nodewise history page --history branch:nodewise-history -o scaling.html
    """
    from nodewise.cli.pages import write_page
    from nodewise.history.trend import history, trends
    from nodewise.report.page.history import history_page

    where, entries = _read(place)
    found = history(str(where), entries)
    content = history_page(found, trends(entries, found.check.machine))
    target = output or Path("history.html")
    if target.suffix not in (".html", ".pdf"):
        raise click.UsageError(f"{target}: the name must end in .html or .pdf")
    write_page(content, target, [] if where.branch else [where.path])


@command.command("check", short_help="Fail a build that became slower.")
@click.argument("studies", metavar="[STUDY]...", nargs=-1, type=click.Path(path_type=Path))
@_place
@fail_if_option
@click.option(
    "--confirm",
    metavar="SPEC",
    type=click.Path(path_type=Path, exists=True),
    help="Before failing, run this spec and the commit before in turn, at one K.",
)
@click.option(
    "--rounds",
    type=click.IntRange(6, 1000),
    default=10,
    show_default=True,
    help="Rounds of --confirm.",
)
@click.option(
    "--build", metavar="COMMAND", default="", help="Builds the job in the worktree of --confirm."
)
@write_option
@_about_options
@output_options
def check_command(
    studies: tuple[Path, ...],
    place: str,
    gates: "tuple[Gate, ...]",
    confirm: Path | None,
    rounds: int,
    build: str,
    written: tuple[Written, ...],
    as_json: bool,
    **about: Any,
) -> None:
    """Judge the newest studies, or STUDY as if it were added, against the history.

    Exits with 1 only if an interval excludes the limit: a certain slowdown, or a gate of --fail-if.
    Without gates any certain slowdown fails. A doubtful one passes, and the output names the K to
    measure again; --confirm does that in a git worktree.

    GATE is METRIC[@K]=LIMIT of time (or slower), efficiency, cost, k*, memory or energy; a
    percentage is a change against the base. FORM is junit, markdown, annotations, openmetrics,
    benchmark-action, bencher or badge. Both can be repeated.

    \b
    Examples:
      nodewise history check
      nodewise history check pr.study --fail-if slower=3% --write junit=junit.xml
      nodewise history check --confirm study.toml --build 'make -j'
    """  # fmt: skip
    from nodewise.history.check import check
    from nodewise.report.ci.content import of_check
    from nodewise.report.text.history import check_report

    spec = None if confirm is None else read_spec(confirm)[1]  # an error before anything is run
    new = [_entry(path, about) for path in studies]
    _, entries = _read(place, needed=not new)
    keys = {entry.key for entry in new}
    before = [one for one in entries if one.key not in keys]
    result = check([*before, *new], gates, proposed=len(new))
    if confirm is not None and spec is not None:
        from nodewise.history.confirm import names_of

        names = {about["workload"]} if about["workload"] else names_of(spec)
        result = _confirmed(result, names, confirm, rounds, build)
    emit(result, as_json, check_report)
    write_files(of_check(result), written)
    if result.failed:
        sys.exit(GATE_NOT_MET)


def _confirmed(
    result: "HistoryCheck", names: set[str], spec: Path, rounds: int, build: str
) -> "HistoryCheck":
    """The check after the scale that is suspected was measured again on both commits."""
    from nodewise.base.units import format_duration
    from nodewise.history.check import with_confirmation
    from nodewise.history.confirm import confirm, suspicion

    suspected = suspicion(result, names)
    if suspected is None:
        return result
    left = 2 * rounds
    with ProgressLine(f"K={suspected.nodes} on both commits") as line:

        def tell(side: str, seconds: float) -> None:
            nonlocal left
            left -= 1
            line.step(f"K={suspected.nodes}  {side:<4}  {format_duration(seconds)}", left)

        made = confirm(
            suspected, spec, rounds, result.limit, build, lambda side, run: tell(side, run.seconds)
        )
    return with_confirmation(result, made)


def _read(place: str, needed: bool = True) -> "tuple[Place, list[Entry]]":
    from nodewise.history.file import place_of, read

    where = place_of(place)
    entries = read(where)
    if not entries and needed:
        raise DataError(
            f"{where} holds no studies.",
            f"Add one: nodewise history add STUDY --history {place}",
        )
    return where, entries


def _entry(path: Path, about: dict[str, Any]) -> "Entry":
    """A study as a line, with what the command line says of it."""
    from nodewise.history.entry import entry_of
    from nodewise.history.imports import utc

    study, question = read_question(path, {"price": about["price"]})
    begun = min((run.started for run in study.runs if run.started), default="")
    now = datetime.datetime.now(datetime.UTC).isoformat()
    known = {name: text for name, text in about.items() if name != "price"}
    return entry_of(study, question, **{**known, "date": utc(about["date"] or begun or now)})


def _say_added(where: "Place", added: "list[Entry]", entries: "list[Entry]") -> None:
    known = len(entries) - len(added)
    count = f"{len(added)} stud{'y' if len(added) == 1 else 'ies'}"
    rest = f"; {known} already recorded" if known else ""
    workloads = len({entry.workload for entry in added})
    several = f" of {workloads} workloads" if workloads > 1 else ""
    click.echo(f"Added {count}{several} to {where}{rest}.")
