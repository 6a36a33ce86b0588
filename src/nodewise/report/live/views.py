"""Studies as pages: every number and every word is made here, the browser only draws.

A page is made of parts. Whole, it is sent once; afterwards the browser asks for its parts alone.
"""

import datetime
import shlex
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2

from nodewise import __version__
from nodewise.base.errors import NodewiseError
from nodewise.base.units import format_duration, format_seconds, format_speedup
from nodewise.decide.compare import compare_costs
from nodewise.decide.prices.lookup import question_of
from nodewise.history.trend import trends as history_trends
from nodewise.report.charts.draw import draw
from nodewise.report.charts.look import Figure
from nodewise.report.live.histories import Kept, place_in
from nodewise.report.live.studies import Reading, Snapshot, State, damage_as_error, seconds_left
from nodewise.report.live.trends import jobs, trends
from nodewise.report.page import html, template
from nodewise.report.page.content import Card
from nodewise.report.page.history import history_page
from nodewise.report.page.sections import first_figures, reasons
from nodewise.report.page.vega import vega_bundle
from nodewise.report.tables import Table, failures_table, rows_table, scaling_table
from nodewise.report.text import findings as text
from nodewise.report.text.history import verdict as history_verdict
from nodewise.study import files, store
from nodewise.study.study import Study

_BOARD_PARTS = ("count", "rows", "histories")
_STUDY_PARTS = (
    "verdict", "because", "progress", "cards", "actions", "problem", "figures", "table",
    "failures", "runs",
)  # fmt: skip


def board(snapshots: Sequence[Snapshot], home: Path, kept: Sequence[Kept] = ()) -> str:
    """The page of all studies and histories."""
    return _template("board").render(_board(snapshots, home, kept), root="", version=__version__)


def board_state(
    snapshots: Sequence[Snapshot], home: Path, kept: Sequence[Kept] = ()
) -> dict[str, Any]:
    """The parts of that page, as they are now."""
    return {"parts": _parts("board", _BOARD_PARTS, _board(snapshots, home, kept)), "busy": True}


def study(snapshot: Snapshot, kept: Sequence[Kept] = ()) -> str:
    """The page of one study."""
    place = place_in(list(kept), snapshot.reading.study)
    return _template("study").render(
        _study(snapshot), place=place, root="../../", version=__version__
    )


def history(kept: Kept) -> str:
    """The page that `nodewise history page` makes, with a way back."""
    if kept.found is None:
        raise kept.problem or NodewiseError("The history is empty.", "Add a study to it.")
    content = history_page(kept.found, history_trends(kept.entries, kept.found.check.machine))
    return _with_way_back(template.render(content), ("../../", "All studies"))


def study_state(snapshot: Snapshot) -> dict[str, Any]:
    """The parts of that page, as they are now."""
    content = _study(snapshot)
    # while a study cannot be read, the charts stay as they are
    names = [name for name in _STUDY_PARTS if name != "figures" or content["figures"]]
    parts = _parts("study", names, content)
    return {"parts": parts, "busy": content["state"] == "running"}


def message(title: str, what: str, fix: str = "", root: str = "") -> str:
    """A page that says why there is nothing else to see."""
    return _template("message").render(
        title=title, what=what, fix=fix, root=root, version=__version__
    )


@lru_cache(maxsize=8)
def report(reading: Reading) -> str:
    """The page that `nodewise report` makes, with a way back."""
    assert reading.study is not None and reading.findings is not None
    spec = reading.folder / store.SPEC
    again = shlex.join(["nodewise", "report", str(reading.folder)])
    commands = (
        f"nodewise study {spec.name}   # measures again\n{again}\n"
        "nodewise report THIS-PAGE.html --price 2.50 -o other.html"
    )
    with damage_as_error():
        text = files.read_own(spec).decode()
        made = html.page(reading.study, reading.findings, commands, vega_bundle(), text)
    return _with_way_back(made, ("../../", "All studies"), ("./", "Live page"))


def comparison(first: Reading, second: Reading) -> str:
    """The page that `nodewise compare` makes, with a way back."""
    studies = [_comparable(one) for one in (first, second)]
    with damage_as_error():
        result = compare_costs(studies[0], studies[1], question_of(studies[0].asked))
        again = shlex.join(["nodewise", "compare", str(first.folder), str(second.folder)])
        made = html.comparison_page(result, again, vega_bundle())
    swapped = f"compare?study={second.key}&amp;study={first.key}"
    return _with_way_back(made, ("./", "All studies"), (swapped, "Swap the studies"))


@cache
def style() -> str:
    """The look of the report, and what only the live pages have."""
    return template.with_colors(_source("page.css")) + _source("ui.css")


@cache
def script() -> str:
    """What follows a study in the browser."""
    return _source("live.js")


def _comparable(reading: Reading) -> Study:
    if reading.problem is not None:
        raise reading.problem
    if reading.study is None or len(reading.study.scales) < 2:
        raise NodewiseError(
            f"{reading.name} does not have two scales yet.", "Compare it when more runs are made."
        )
    return reading.study


def _with_way_back(page: str, *links: tuple[str, str]) -> str:
    anchors = " ".join(f'<a href="{address}">{words}</a>' for address, words in links)
    return page.replace("<body>", f'<body>\n<nav aria-label="Studies">{anchors}</nav>', 1)


@cache
def _environment() -> jinja2.Environment:
    return template.templates(("nodewise.report.live", "pages"), template.FOLDER)


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(f"{name}.html.jinja")


def _source(name: str) -> str:
    return template.source(_environment(), name)


def _parts(page: str, names: Sequence[str], content: dict[str, Any]) -> dict[str, str]:
    made = _template(page)
    context = made.new_context({**content, "root": ""})
    return {name: "".join(made.blocks[name](context)).strip() for name in names}


def _board(snapshots: Sequence[Snapshot], home: Path, kept: Sequence[Kept] = ()) -> dict[str, Any]:
    ordered = sorted(snapshots, key=lambda one: (not one.running, -one.reading.changed))
    repeated = jobs([one.reading for one in ordered])
    return {
        "home": home,
        "rows": [_row(one, home, repeated) for one in ordered],
        "histories": [_kept_row(one, home) for one in kept],
    }


def _kept_row(kept: Kept, home: Path) -> dict[str, Any]:
    """A history as a line of the board."""
    return {
        "key": kept.key,
        "name": str(kept.path.relative_to(home)) if kept.path.is_relative_to(home) else kept.path,
        "studies": len(kept.entries),
        "verdict": history_verdict(kept.found.check) if kept.found else "",
        "problem": kept.problem,
    }


def _row(
    snapshot: Snapshot, home: Path, repeated: Mapping[str, Sequence[Reading]]
) -> dict[str, Any]:
    """A study as a line of the board."""
    reading, state = snapshot.reading, snapshot.state
    runs = reading.study.runs if reading.study else ()
    inside = reading.folder.relative_to(home) if reading.folder.is_relative_to(home) else None
    when = datetime.datetime.fromtimestamp(reading.changed, datetime.UTC)
    return {
        "key": reading.key,
        "name": reading.name,
        "folder": str(inside or reading.folder) if inside != Path() else ".",
        "state": state,
        "done": len(runs),
        "planned": len(runs) + len(reading.left),
        "failed": sum(run.outcome != "ok" for run in runs),
        "scales": ", ".join(map(str, reading.spec.scales)) if reading.spec else "",
        "speedup": _fastest(reading),
        "recommended": _recommended(reading),
        "verdict": _verdict(reading, state),
        "trends": trends(reading.key, repeated.get(reading.key, ())),
        "problem": reading.problem,
        "changed": _ago(datetime.datetime.now(datetime.UTC) - when),
        "changed_at": when.isoformat(timespec="seconds"),
    }


def _study(snapshot: Snapshot) -> dict[str, Any]:
    reading, state = snapshot.reading, snapshot.state
    made = reading.study
    scaling = reading.findings.scaling if reading.findings else None
    figures: tuple[tuple[Figure, str], ...] = ()
    problem = reading.problem
    try:
        figures = _drawn(reading)
    except NodewiseError as error:
        problem = error
    return {
        "name": reading.name,
        "folder": str(reading.folder),
        "state": state,
        "regime": made.regime if made else "",
        "verdict": _verdict(reading, state),
        "done": len(made.runs) if made else 0,
        "planned": (len(made.runs) if made else 0) + len(reading.left),
        "cards": _cards(reading, state),
        "reportable": reading.findings is not None and state != "running",
        "figures": figures,
        "because": reasons(reading.findings) if reading.findings else (),
        "problem": problem,
        "table": scaling_table(scaling) if scaling else None,
        "intervals": f"{scaling.regime} scaling; intervals: {scaling.interval}." if scaling else "",
        # a round under way is not complete yet
        "doubts": reading.findings.doubts if reading.findings and state == "finished" else (),
        "failures": failures_table(made) if made else None,
        "reasons": _reasons(made) if made else (),
        "runs": _runs_table(made) if made else None,
    }


def _cards(reading: Reading, state: State) -> list[Card]:
    """The figures of a running study."""
    if reading.study is None or reading.spec is None:
        return []
    runs, left = reading.study.runs, reading.left
    failed = sum(run.outcome != "ok" for run in runs)
    most = "at most, until the speedup is known" if reading.spec.precision else ""
    remark = f"{failed} failed" if failed else most
    cards = [Card("Runs", f"{len(runs)} of {len(runs) + len(left)}", remark)]
    if state == "running" and left:
        task = left[0]
        now = "the baseline" if task.baseline else f"K={task.nodes}"
        cards.append(Card("Now", now, f"round {task.round + 1}"))
        rest = seconds_left(runs, left, datetime.datetime.now(datetime.UTC))
        known = "not known yet" if rest is None else format_duration(round(rest))
        cards.append(Card("Time left", known, "" if rest is None else "estimated"))
    if reading.findings:
        scaling = reading.findings.scaling
        fastest = scaling.row(scaling.fastest)
        cards.append(Card("Best speedup", _fastest(reading), format_duration(fastest.seconds)))
        cards.append(Card("Run on", _recommended(reading), "" if state == "finished" else "so far"))
    return cards


def _fastest(reading: Reading) -> str:
    if reading.findings is None:
        return ""
    scaling = reading.findings.scaling
    return f"{format_speedup(scaling.row(scaling.fastest).speedup)}x at K={scaling.fastest}"


def _recommended(reading: Reading) -> str:
    if reading.findings is None:
        return ""
    decision = reading.findings.decision
    nodes = decision.recommended.nodes
    if decision.validity.state == "invalid":
        return "no answer"
    return "no scale" if nodes is None else decision.unit.named(nodes)


def _verdict(reading: Reading, state: State) -> str:
    if reading.findings is not None:
        so_far = "" if state == "finished" else "so far: "
        return so_far + text.verdict(reading.findings.decision)
    if reading.study is None or reading.problem is not None:
        return "this study cannot be shown"
    if state == "failed":
        return "too few scales worked to compare them"
    wanted = "second" if reading.study.scales else "first"
    return f"waiting for the {wanted} scale" if state == "running" else f"no {wanted} scale yet"


def _runs_table(made: Study) -> Table:
    """Every run, the newest first."""
    rows = [
        {
            "started, UTC": run.started[:19].replace("T", " "),
            "K": "baseline" if run.baseline else run.nodes,
            "round": run.round + 1,
            "seconds": format_seconds(run.seconds),
            "outcome": run.outcome,
        }
        for run in reversed(made.runs)
    ]
    return rows_table("Every run, the newest first", rows, left=("started, UTC", "outcome"))


def _reasons(made: Study) -> list[tuple[str, str]]:
    """How the last failed run of each scale ended: in words, and the tail of its log."""
    last = {run.nodes: run for run in made.runs if run.outcome != "ok" and "\n" in run.detail}
    return [
        (f"K={nodes}, round {run.round + 1}: {run.outcome}", run.detail)
        for nodes, run in sorted(last.items())
    ]


@lru_cache(maxsize=64)
def _drawn(reading: Reading) -> tuple[tuple[Figure, str], ...]:
    """The charts of the first screen and every run, with their pictures."""
    if reading.study is None or reading.findings is None:
        return ()
    with damage_as_error():
        found = first_figures(reading.study, reading.findings)
        found += [one for one in [draw("repeats", reading.study, reading.findings)] if one]
        return tuple((figure, template.svg(figure)) for figure in found)


def _ago(passed: datetime.timedelta) -> str:
    """A time that has passed, so coarse that it seldom changes.

    >>> [_ago(datetime.timedelta(seconds=s)) for s in (5, 150, 7300, 200_000)]
    ['just now', '2 min ago', '2 h ago', '2 days ago']
    """
    seconds = passed.total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h ago"
    days = int(seconds // 86400)
    return f"{days} day{'s' if days > 1 else ''} ago"
