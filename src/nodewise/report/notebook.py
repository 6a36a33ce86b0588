"""A study in a notebook: its report, its charts and its numbers, without leaving the cell.

from nodewise.report.notebook import open_study
digits = open_study("digits.study", price=3.20)
digits                      # the report
digits.chart("speedup")     # one chart
digits.findings.decision    # the numbers
"""

from html import escape
from pathlib import Path
from typing import Any

from nodewise.audit.rule_book import read_rules
from nodewise.base.errors import DataError
from nodewise.decide.inputs import Question
from nodewise.decide.prices.lookup import question_of
from nodewise.report.findings import Findings, find
from nodewise.study.study import Study


class Chart:
    """One chart of a report, shown where the cell ends."""

    def __init__(self, definition: dict[str, Any], caption: str) -> None:
        """`definition` is Vega-Lite, which notebooks draw by themselves."""
        self.definition = definition
        self.caption = caption

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from nodewise.report.images import image

        return {
            "application/vnd.vegalite.v6+json": self.definition,
            "image/svg+xml": image(self.definition, "svg").decode(),  # where Vega is not known
            "text/plain": self.caption,
        }


class Report:
    """A study with what it says; the last line of a cell shows the page."""

    def __init__(self, study: Study, question: Question) -> None:
        """Everything is computed here, once."""
        self.study = study
        self.findings: Findings = find(study, question, read_rules())

    def chart(self, name: str) -> Chart:
        """One chart by the name that `nodewise plot` knows it by."""
        from nodewise.report.charts.draw import CHARTS, draw, sized

        if name not in CHARTS:
            raise DataError(f"There is no chart {name}.", f"Choose from {', '.join(CHARTS)}.")
        figure = draw(name, self.study, self.findings)
        if figure is None:
            raise DataError(
                f"{self.study.name} has nothing to draw for {name}.",
                f"It needs {CHARTS[name].needs}.",
            )
        return Chart(sized(figure.chart, "screen"), figure.caption)

    def _repr_html_(self) -> str:
        from nodewise.report.page.html import page
        from nodewise.report.page.vega import vega_bundle

        inside = escape(page(self.study, self.findings, "nodewise.report.notebook", vega_bundle()))
        title = escape(f"Report of {self.study.name}")
        return (
            f'<iframe srcdoc="{inside}" title="{title}" style="width:100%;height:45rem;border:0">'
            "</iframe>"
        )

    def __repr__(self) -> str:
        """The verdict."""
        from nodewise.report.text.findings import verdict

        return f"{self.study.name}: {verdict(self.findings.decision)}"


def open_study(
    path: str | Path, price: float | None = None, question: Question | None = None
) -> Report:
    """The study in a folder or a CSV file; `price` is that of a node for an hour."""
    import msgspec

    from nodewise.study import store
    from nodewise.study.table import parse_table

    place = Path(path)
    if place.is_dir():
        study = store.load(place)
    else:
        study = parse_table(place.read_text(encoding="utf-8-sig"), place.stem)
    asked = question or question_of(study.asked)
    if price is not None:
        priced = msgspec.structs.replace(asked.price, per_node_hour=price)
        asked = msgspec.structs.replace(asked, price=priced)
    return Report(study, asked)
