"""How a job changes over repeated studies: time, cost and efficiency, as sparklines."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nodewise.base.units import format_duration, format_efficiency, format_money
from nodewise.decide.decide import DecisionRow
from nodewise.report.live.studies import Reading

WIDTH, HEIGHT = 80, 20
_MARGIN = 3.0  # the point of a study is not cut off at the edge
_LEAST_SPAN = 0.1  # of the mean, from bottom to top: smaller changes look small


class Trend(NamedTuple):
    """One quantity over the studies of a job, the oldest first."""

    title: str
    line: str  # points of a polyline
    here: tuple[float, float]  # the point of this study
    value: str  # of this study
    words: str  # for those who do not see it


class Point(NamedTuple):
    """A study of a job, at the scale that is compared."""

    key: str
    row: DecisionRow
    currency: str


def jobs(readings: Sequence[Reading]) -> dict[str, list[Reading]]:
    """The studies of each job, the oldest first, by the key of each study.

    A job is a name, a regime and a command; studies that are damaged or too short belong to none.
    """
    found: dict[tuple[object, ...], list[Reading]] = {}
    for one in readings:
        if one.findings is not None and one.spec is not None and one.study is not None:
            job = (one.name, one.study.regime, tuple(one.spec.workload.command))
            found.setdefault(job, []).append(one)
    for some in found.values():
        some.sort(key=_begun)
    return {one.key: some for some in found.values() for one in some}


def _begun(reading: Reading) -> tuple[str, float]:
    """When the first run began; where no run says so, when the files were last written."""
    assert reading.study is not None
    return min((run.started for run in reading.study.runs), default=""), reading.changed


def trends(key: str, studies: Sequence[Reading]) -> list[Trend]:
    """Time, cost and efficiency at the largest scale that all studies have; none of one study."""
    points = _points(studies)
    if len(points) < 2:
        return []
    nodes = points[0].row.nodes
    here = next(at for at, point in enumerate(points) if point.key == key)
    values: Mapping[str, list[float]] = {
        f"time at K={nodes}": [point.row.seconds for point in points],
        "cost": [point.row.cost for point in points],
        "efficiency": [point.row.efficiency for point in points],
    }
    words = {
        "cost": [format_money(point.row.cost, point.currency) for point in points],
        "efficiency": [format_efficiency(point.row.efficiency) for point in points],
    }
    times = [format_duration(point.row.seconds) for point in points]
    return [_trend(title, some, words.get(title, times), here) for title, some in values.items()]


def _points(studies: Sequence[Reading]) -> list[Point]:
    decisions = {one.key: one.findings.decision for one in studies if one.findings is not None}
    scales = [{row.nodes for row in decision.rows} for decision in decisions.values()]
    common = set.intersection(*scales) if scales else set()
    if not common:
        return []
    return [
        Point(key, decision.row(max(common)), decision.price.currency)
        for key, decision in decisions.items()
    ]


def _trend(title: str, values: Sequence[float], words: Sequence[str], here: int) -> Trend:
    middle = (min(values) + max(values)) / 2
    span = max(max(values) - min(values), _LEAST_SPAN * abs(middle)) or 1.0
    wide, tall = WIDTH - 2 * _MARGIN, HEIGHT - 2 * _MARGIN

    def place(at: int) -> tuple[float, float]:
        share = 0.5 + (values[at] - middle) / span
        x = _MARGIN + wide * at / (len(values) - 1)
        return round(x, 1), round(_MARGIN + tall * (1 - share), 1)

    places = [place(at) for at in range(len(values))]
    line = " ".join(f"{x},{y}" for x, y in places)
    spoken = f"{title} over {len(values)} studies: {', '.join(words)}"
    return Trend(title, line, places[here], words[here], spoken)
