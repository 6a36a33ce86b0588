"""What a page says: the first screen, then sections that open on demand.

A kind of page is a function that fills in a `Page` from one result; `template.render` draws it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from nodewise.report.charts.look import Figure
from nodewise.report.tables import Table
from nodewise.report.text.findings import Report
from nodewise.study.check import Check


class Card(NamedTuple):
    """One figure of the answer."""

    title: str
    value: str
    remark: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page that opens on demand: figures, and the text beside or below them."""

    name: str
    title: str
    figures: Sequence[Figure] = ()
    rest: Report = []
    has_sliders: bool = False
    is_open: bool = False


class Slider(NamedTuple):
    """An input that a reader may change: its largest value and its step."""

    name: str
    title: str
    unit: str
    most: float
    step: float


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """The sliders of a page, what they leave as it is, and the numbers that they move, as JSON."""

    sliders: Sequence[Slider]
    also: str
    numbers: str


class Data(NamedTuple):
    """Data inside a page: JSON, or JSON as gzip in base 64."""

    form: Literal["json", "gzip"]
    content: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a page, from the answer to the commands that make it again.

    What is empty is left out.
    """

    name: str
    kicker: str  # the kind of page
    verdict: str
    labels: Sequence[str] = ()  # what a reader must know first
    reasons: Sequence[str] = ()  # why this answer, and how sure it is
    cards: Sequence[Card] = ()
    figures: Sequence[Figure] = ()  # on the first screen
    table: Report = []  # below them; its strong row is the answer
    sections: Sequence[Section] = ()
    checks: Sequence[Check] = ()
    provenance: Table | None = None
    lead: str = "To make this page again:"
    reproduce: str = ""
    spec: str = ""
    made: str = ""  # when
    basis: str = "All figures are computed from the raw runs."
    panel: Panel | None = None
    study: Data | None = None  # inside the page
