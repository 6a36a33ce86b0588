"""The roofline with its steps, and the decision flow with the branch that was taken."""

import textwrap
from collections.abc import Sequence

import altair as alt
import msgspec

from nodewise.base.units import format_bandwidth, format_flops
from nodewise.diagnose.flow import Diagnosis, headline
from nodewise.diagnose.training_step import TrainingStep
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Figure,
    Row,
    data,
    figure,
    label,
    layered,
    number,
    tooltip,
)

_DECADES = 2  # beside the ridge, at least
_INSIDE = 30  # characters of a question that fit on one line
_BESIDE = 30  # and of an answer, beside it
_LINE = 0.3  # of the distance between two questions
_ANSWERS = {"fine": "chosen", "binds": "refused", "not known": "muted", "not asked": "muted"}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A step on the chart: FLOP per byte, and FLOP/s that it reaches or could reach."""

    name: str
    intensity: float
    flops: float


def roofline_chart(
    peak_flops: float, bandwidth: float, points: Sequence[Point], measured: str = ""
) -> Figure:
    """What a step can reach at each intensity: the slope is memory, the flat part arithmetic.

    `measured` says how the points were got.
    """
    ridge = peak_flops / bandwidth
    low = min([ridge / 10**_DECADES, *(point.intensity / 2 for point in points)])
    high = max([ridge * 10**_DECADES, *(point.intensity * 2 for point in points)])
    x = _decades("intensity", "arithmetic intensity, FLOP per byte", low, high, "~g")
    y = _decades(
        "flops",
        "FLOP per second",
        min([low * bandwidth, *(point.flops / 2 for point in points)]),
        peak_flops * 3,
    )
    slope = (low * ridge) ** 0.5  # the middle of the slanted roof, for its name
    roof = [
        {"intensity": at, "flops": min(peak_flops, bandwidth * at)} for at in (low, ridge, high)
    ]
    rows: list[Row] = [
        {
            "step": point.name,
            "intensity": point.intensity,
            "flops": point.flops,
            "share of the roof": point.flops / min(peak_flops, bandwidth * point.intensity),
        }
        for point in points
    ]
    told = [
        f"{point.name} has {point.intensity:.4g} FLOP per byte, "
        f"{'above' if point.intensity >= ridge else 'below'} the ridge of {ridge:.4g}: "
        f"{'compute' if point.intensity >= ridge else 'memory bandwidth'} is its roof."
        for point in points
    ]
    marks = alt.Chart(data(rows)).encode(
        x=x.x(), y=y.y(), tooltip=tooltip("step", "intensity", "flops")
    )
    layers = [
        alt.Chart(data(roof))
        .mark_line(style="join", color=PALETTE["measured"], strokeWidth=2.5)
        .encode(x=x.x(), y=y.y()),
        label(
            f"memory {format_bandwidth(bandwidth)}", x, y, (slope, slope * bandwidth), side="below"
        ),
        label(f"arithmetic {format_flops(peak_flops)}", x, y, (high, peak_flops), align="right"),
        label(f"ridge {ridge:.4g}", x, y, (ridge, peak_flops), align="right"),
        marks.mark_point(style="measured", color=PALETTE["second"]),
        *(
            label(point.name, x, y, (point.intensity, point.flops), style="label", side="below")
            for point in points
        ),
    ]
    return figure(
        "roofline",
        "What binds a step: memory below the ridge, arithmetic above it",
        _subtitle(measured, f"ridge at {ridge:.4g} FLOP per byte; both axes logarithmic"),
        " ".join(told),
        rows,
        layered(layers),
    )


def step_chart(step: TrainingStep) -> Figure | None:
    """The step of a program and its stages under the roofs of its machine."""
    if not step.peak_flops or not step.memory_bandwidth or not step.intensity:
        return None
    points = [Point(name="step", intensity=step.intensity, flops=step.flops_per_second)]
    points += [
        Point(name=row.name, intensity=row.intensity, flops=row.flops_per_second)
        for row in step.stages
        if row.intensity and row.flops_per_second
    ]
    return roofline_chart(step.peak_flops, step.memory_bandwidth, points)


def _subtitle(measured: str, words: str) -> list[str]:
    return [f"{measured}; {words}" if measured else words]


def _decades(field: str, title: str, low: float, high: float, form: str = "~s") -> Axis:
    scale = alt.Scale(type="log", base=10, domain=[low, high], nice=False)
    return Axis(field, title, scale, alt.Axis(format=form, tickCount=7))


def flow_chart(diagnosis: Diagnosis, measured: str = "") -> Figure:
    """The questions from top to bottom; where one binds, the way turns off to the axis."""
    rows: list[Row] = [
        {
            "at": float(-at),
            "question": branch.question,
            "answer": branch.answer,
            "evidence": branch.evidence,
            "ceiling": branch.ceiling if branch.answer == "binds" else "",
            "left": 0.0,
            "right": 1.0,
            "bottom": -at - 0.4,
            "top": -at + 0.4,
        }
        for at, branch in enumerate(diagnosis.branches)
    ]
    x = Axis("left", "", alt.Scale(domain=[0, 2], nice=False), None)
    y = Axis("at", "", alt.Scale(domain=[-len(rows) + 0.4, 0.6], nice=False), None)
    base = alt.Chart(data(rows))
    colors = alt.Scale(domain=list(_ANSWERS), range=[PALETTE[color] for color in _ANSWERS.values()])
    color = alt.Color("answer:N", scale=colors, legend=None)
    taken = [row for row in rows if row["answer"] != "not asked"]
    way = [{"left": 0.5, "at": row["at"]} for row in taken]
    asked = [line for row in rows for line in _lines(row, _two_lines(str(row["question"])))]
    beside = [line for row in rows for line in _lines(row, _words(row, diagnosis))]
    layers = [
        alt.Chart(data(way)).mark_line(style="join", color=PALETTE["ink"]).encode(x=x.x(), y=y.y()),
        base.mark_rect(cornerRadius=6, fill=PALETTE["paper"], strokeWidth=2).encode(
            x=x.x(), x2="right:Q", y=y.y("bottom"), y2="top:Q", stroke=color
        ),
        alt.Chart(data(asked)).mark_text(style="label", align="center").encode(
            x=alt.X("middle:Q", scale=x.scale, axis=None), y=y.y(), text="text:N"
        ),
        alt.Chart(data(beside)).mark_text(style="label", align="left").encode(
            x=alt.X("side:Q", scale=x.scale, axis=None), y=y.y(), text="text:N"
        ),
    ]  # fmt: skip
    table: list[Row] = [
        {"question": one.question, "answer": one.answer, "evidence": one.evidence}
        for one in diagnosis.branches
    ]
    evidence = "; ".join(diagnosis.evidence) or "nothing that was told names a ceiling"
    return figure(
        "flow",
        "The way through the decision flow",
        _subtitle(measured, f"{headline(diagnosis)}; confidence: {diagnosis.confidence}"),
        f"{evidence[:1].upper()}{evidence[1:]}.",
        table,
        layered(layers, height=52 * len(rows)),
    )


def _two_lines(question: str) -> list[str]:
    return textwrap.wrap(question, max(_INSIDE, len(question) // 2 + 6))


def _lines(row: Row, texts: Sequence[str]) -> list[Row]:
    """Lines of text around the middle of a question's row."""
    top = number(row["at"]) + _LINE * (len(texts) - 1) / 2
    return [
        {"at": top - _LINE * at, "text": text, "middle": 0.5, "side": 1.06}
        for at, text in enumerate(texts)
    ]


def _words(row: Row, diagnosis: Diagnosis) -> list[str]:
    if row["answer"] == "not asked":
        return []
    if row["answer"] != "binds":
        evidence = str(row["evidence"])
        short = evidence and len(evidence) <= _BESIDE
        return [f"{row['answer']}:", evidence] if short else [str(row["answer"])]
    axis = f"distribute {diagnosis.axis}" if diagnosis.axis else "on one machine"
    return [f"{row['ceiling']} binds:", axis]
