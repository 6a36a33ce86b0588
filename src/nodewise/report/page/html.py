"""The pages of a study and of a comparison of two.

The study itself is inside its page, so the page can be opened like a table and answer other
questions.
"""

import base64
import gzip
import re
import zlib
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.base.units import capitalised
from nodewise.decide.compare import PricedComparison
from nodewise.decide.inputs import Question, ask, read_tables
from nodewise.report.charts.draw import compare
from nodewise.report.charts.panel import sliders, unmoved_inputs
from nodewise.report.findings import Findings
from nodewise.report.page.content import Data, Page, Panel, Section
from nodewise.report.page.sections import cards, first_figures, labels, reasons, scales, sections
from nodewise.report.page.template import render
from nodewise.report.tables import provenance_table
from nodewise.report.text import compare as compare_text
from nodewise.report.text import findings as text
from nodewise.study.question import split
from nodewise.study.study import Study

# The study as JSON, or as compressed JSON where it is large.
_EMBEDDED = re.compile(rb'<script type="application/(json|gzip)" id="nodewise-study">')
_LARGE_BYTES = 32_768  # of JSON; a smaller one can be read by people
_MOST_BYTES = 256 * 2**20  # of a study, as of a table


class _Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """What the page carries: the study and the question that it answers."""

    study: Study
    question: Question


def page(
    study: Study, findings: Findings, reproduce: str, vega: str = "", spec_text: str = ""
) -> str:
    """The page of a study; `reproduce` are the commands that make it again."""
    decision = findings.decision
    embedded = _Embedded(study=study, question=findings.question)
    content = Page(
        name=study.name,
        kicker=f"{study.regime} scaling, {'measured' if decision.measured else 'from a model'}",
        labels=labels(study),
        verdict=text.verdict(decision),
        reasons=reasons(findings),
        cards=cards(findings),
        figures=first_figures(study, findings),
        table=scales(findings),
        sections=sections(study, findings),
        checks=findings.checks,
        provenance=provenance_table(study),
        lead="This file contains the whole study. These commands make the page again, or answer "
        "another question:",
        reproduce=reproduce,
        spec=spec_text,
        made=max((run.started for run in study.runs), default=""),
        panel=Panel(
            sliders=sliders(findings.sliders),
            also=unmoved_inputs(findings),
            numbers=msgspec.json.encode(findings.sliders).decode(),
        ),
        study=_packed(msgspec.json.encode(embedded)),
    )
    return render(content, vega)


def comparison_page(result: PricedComparison, reproduce: str, vega: str = "") -> str:
    """The page of two studies side by side."""
    times, money = compare_text.times_lines(result), compare_text.money_lines(result)[1:]
    scalings = (("first", result.first_scaling), ("second", result.second_scaling))
    parts = [
        Section(name="times", title="Times", rest=times, is_open=True),
        Section(name="cost", title="Cost and recommendation", rest=money, is_open=True),
        Section(name="ledger", title="Lost speedup", rest=compare_text.ledger_lines(result)),
        *(
            Section(name=name, title=scaling.name, rest=text.scaling_lines(scaling))
            for name, scaling in scalings
            if scaling is not None
        ),
    ]
    content = Page(
        name=f"{result.second} against {result.first}",
        kicker=f"{result.regime} scaling, two studies",
        verdict=compare_text.comparison_verdict(result),
        reasons=[f"{capitalised(compare_text.advice_verdict(result))}."],
        figures=[compare(result)],
        sections=parts,
        reproduce=reproduce,
    )
    return render(content, vega)


def study_of_page(content: bytes) -> tuple[Study, Question]:
    """The study inside a page, and the question that the page answers."""
    found = _EMBEDDED.search(content)
    end = -1 if found is None else content.find(b"</script>", found.end())
    if found is None or end < 0:
        raise DataError("The page holds no study.", "Name a page that nodewise report made.")
    try:
        inside = content[found.end() : end]
        inside = _unpacked(inside) if found[1] == b"gzip" else inside
        embedded = msgspec.json.decode(inside, type=_Embedded)
    except (msgspec.DecodeError, ValueError, zlib.error, RecursionError) as error:
        raise DataError(
            f"The study inside the page is damaged: {error}.", "Make the page again from its study."
        ) from None
    return _with_old_question(embedded, msgspec.json.decode(inside))


def _packed(encoded: bytes) -> Data:
    """JSON as it is, or compressed where it is large; the same study gives the same bytes."""
    if len(encoded) <= _LARGE_BYTES:
        return Data("json", encoded.decode())
    return Data("gzip", base64.b64encode(gzip.compress(encoded, mtime=0)).decode())


def _unpacked(packed: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    inside = reader.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
    if not reader.eof:
        raise ValueError("it is cut off, or larger than 256 MiB")
    return inside


def _with_old_question(embedded: _Embedded, raw: dict[str, Any]) -> tuple[Study, Question]:
    """Version 0.1 kept the question in the spec, and its gates at named K nowhere else."""
    study, question = embedded.study, embedded.question
    _, asked = split(raw["study"].get("spec") or {})
    if study.asked or not asked:
        return study, question
    gates = asked.get("gates", {})
    named = {key: limits for key, limits in gates.items() if isinstance(limits, dict)}
    question = ask(question, read_tables({"gates": named}))
    return msgspec.structs.replace(study, asked=asked), question
