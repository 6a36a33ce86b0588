"""A job in Python and in notebooks: open it once, ask it many questions.

import nodewise
job = nodewise.open("times.csv")
job.decide(price=3.20, deadline="15min").recommended.nodes
job.chart("speedup")
"""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodewise.audit.rules import Audit, audit, read_rules
from nodewise.base.errors import DataError, SpecError
from nodewise.decide.decide import Decision
from nodewise.decide.forecast import Forecast, predict
from nodewise.decide.inputs import Question, read_inputs, replaced
from nodewise.decide.prices.lookup import ask_today
from nodewise.explain.attribute import Attribution
from nodewise.explain.scaling import Scaling
from nodewise.report.findings import Findings, find
from nodewise.report.open import open_study as read_study
from nodewise.study.claim import claim_of_study
from nodewise.study.files import replace
from nodewise.study.study import Study

if TYPE_CHECKING:
    from nodewise.report.sections import Output, Report


class Chart:
    """One chart of a job, shown where the cell ends."""

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


class Job:
    """A measured job. Inputs of a question are keywords: price=3.20, deadline="15min".

    `nodewise help inputs` lists them. What is not given is what the spec of the study asks.
    """

    def __init__(self, study: Study, question: Question, path: Path | None = None) -> None:
        """A study, and the question that holds where none is asked."""
        self.study = study
        self._path = path
        self._question = question
        self._found: dict[str, Findings] = {}

    def question(self, **inputs: Any) -> Question:
        """The question with some inputs set."""
        return ask_today(self._question, read_inputs(inputs))

    @property
    def findings(self) -> Findings:
        """What the study says to its own question."""
        return self.ask()

    def ask(self, **inputs: Any) -> Findings:
        """What the study says to a question; computed once for each."""
        key = repr(sorted(inputs.items()))
        if key not in self._found:
            question = self.question(**inputs)
            self._found[key] = find(self._in_regime(question), question, read_rules())
        return self._found[key]

    def scale(self, **inputs: Any) -> Scaling:
        """Speedup and efficiency at each scale."""
        return self.ask(**inputs).scaling

    def attribute(self, **inputs: Any) -> Attribution:
        """The causes of the lost speedup."""
        return self.ask(**inputs).attribution

    def decide(self, **inputs: Any) -> Decision:
        """The cost of every scale, and the one to run at."""
        return self.ask(**inputs).decision

    def predict(self, *nodes: int, **inputs: Any) -> Forecast:
        """The time at scales that were not run: predict(16, 32)."""
        if not all(isinstance(one, int) for one in nodes):
            raise SpecError(f"{nodes} are not node counts.", "Write predict(16, 32).")
        question = self.question(**inputs)
        return predict(self._in_regime(question), question, nodes)

    def _in_regime(self, question: Question) -> Study:
        """The study as strong or weak scaling. A table is read again: rates become other times."""
        if question.regime in (None, self.study.regime):
            return self.study
        if self._path is None:
            return self.study.in_regime(question.regime)
        return read_study(self._path, question.regime)[0]

    def audit(self) -> Audit:
        """Every rule for a scaling claim, asked of this study."""
        return audit(claim_of_study(self.study), read_rules())

    def report(self, path: str | Path, **inputs: Any) -> Path:
        """Write the page of the study to an HTML file."""
        target = Path(path)
        if target.suffix != ".html":
            raise DataError(f"{target} is not an .html file.", "For .md or .pdf: nodewise report")
        try:
            replace(target, self._page(self.ask(**inputs)))
        except OSError as error:
            raise DataError(f"Cannot write {target}: {error}.", "Name a folder.") from None
        return target

    def chart(self, name: str, **inputs: Any) -> Chart:
        """One chart, by its name in `nodewise plot`."""
        from nodewise.report.charts.draw import CHARTS, draw, sized

        if name not in CHARTS:
            raise DataError(f"'{name}' is not a chart.", f"Choose from {', '.join(CHARTS)}.")
        findings = self.ask(**inputs)
        figure = draw(name, findings.study, findings)
        if figure is None:
            raise DataError(
                f"{self.study.name} has nothing to draw for {name}.",
                f"It needs {CHARTS[name].needs}.",
            )
        return Chart(sized(figure.chart, "screen"), figure.caption)

    def _page(self, findings: Findings) -> str:
        from nodewise.report.page.html import page
        from nodewise.report.page.vega import vega_bundle

        return page(findings.study, findings, "nodewise.open(...).report(...)", vega_bundle())

    def _repr_html_(self) -> str:
        inside = escape(self._page(self.findings))
        title = escape(f"Report of {self.study.name}")
        return (
            f'<iframe srcdoc="{inside}" title="{title}" style="width:100%;height:45rem;border:0">'
            "</iframe>"
        )

    def __repr__(self) -> str:
        """The verdict."""
        from nodewise.report.text.findings import verdict

        return f"{self.study.name}: {verdict(self.findings.decision)}"


def open_job(path: str | Path, regime: Any = None) -> Job:
    """A job from a table, a study folder, a page, a log or a trace; see `nodewise.open`."""
    if regime not in (None, "strong", "weak"):
        raise SpecError(f"'{regime}' is not a regime.", "Write strong or weak.")
    _show_results()
    study, question = read_study(Path(path), regime)
    return Job(study, replaced(question, ("regime",), regime or question.regime), Path(path))


def open_study(
    path: str | Path, price: float | None = None, question: Question | None = None
) -> Job:
    """Open a job as version 0.1 did; now `nodewise.open`."""
    job = open_job(path)
    asked = job._question if question is None else question
    settings = read_inputs({} if price is None else {"price": price})
    return Job(job.study, ask_today(asked, settings), Path(path))


def _show_results() -> None:
    """Let results show themselves in a notebook; the rooms that compute them do not render."""
    for kind, view in _views().items():
        type.__setattr__(kind, "_repr_html_", lambda result, view=view: _html_of(view(result)))


def _html_of(shown: "Output") -> str:
    from nodewise.report.sections import everything

    return to_html(everything(shown))


def _views() -> "dict[type, Callable[[Any], Output]]":
    from nodewise.report.text import audit as text_audit
    from nodewise.report.text import findings as text
    from nodewise.report.text.forecast import forecast_report

    return {
        Scaling: text.scaling_report,
        Attribution: text.attribution_report,
        Decision: text.law_report,
        Forecast: forecast_report,
        Audit: text_audit.audit_report,
    }


def to_html(report: "Report") -> str:
    """A report as HTML: its tables as tables, its lines as paragraphs."""
    parts = []
    for part in report:
        if isinstance(part, str):
            line = re.sub(r"\*\*(.*?)\*\*", r"<strong>\1</strong>", escape(part.strip()))
            parts.append(f"<p>{line}</p>" if line else "")
            continue
        head = "".join(f"<th>{escape(title)}</th>" for title in part.titles)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in part.rows
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    return "".join(parts)
