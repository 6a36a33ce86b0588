"""The roofline with its steps, and the questions of the decision flow with their answers."""

import textwrap
from collections.abc import Sequence

import msgspec

from nodewise.base.units import capitalised, format_bandwidth, format_flops
from nodewise.diagnose.axes import MENU, axis_words
from nodewise.diagnose.flow import Branch, BranchAnswer, Diagnosis, headline
from nodewise.diagnose.training_step import TrainingStep
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Figure,
    Row,
    choice,
    figure,
    label,
    layered,
    logarithmic,
    mark,
)

_DECADES = 2  # beside the ridge, at least
_INSIDE = 30  # characters of a question that fit on one line
_BESIDE = 30  # and of an answer, beside it
_LINE = 0.3  # of the distance between two questions
_ANSWERS: dict[BranchAnswer, str] = {
    "fine": "chosen",
    "second": "second",
    "binds": "refused",
    "not known": "muted",
    "not recorded": "muted",
    "not identifiable": "muted",
    "not asked": "muted",
}


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
    lowest = min([low * bandwidth, *(point.flops / 2 for point in points)])
    y = _decades("flops", "FLOP per second", lowest, peak_flops * 3, "~s")
    slope = (low * ridge) ** 0.5  # the middle of the slanted roof, for its name
    roof = [
        {"intensity": at, "flops": min(peak_flops, bandwidth * at)} for at in (low, ridge, high)
    ]
    rows = [
        {
            "step": point.name,
            "intensity": point.intensity,
            "flops": point.flops,
            "share of the roof": point.flops / min(peak_flops, bandwidth * point.intensity),
        }
        for point in points
    ]
    findings = [
        f"{point.name} has {point.intensity:.4g} FLOP per byte, "
        f"{'above' if point.intensity >= ridge else 'below'} the ridge of {ridge:.4g}: "
        f"{'compute' if point.intensity >= ridge else 'memory bandwidth'} is its roof."
        for point in points
    ]
    thick, orange = {"color": PALETTE["measured"], "strokeWidth": 2.5}, {"color": PALETTE["second"]}
    memory = f"memory {format_bandwidth(bandwidth)}"
    layers = [
        mark("line", roof, "join", thick, x=x, y=y),
        label(memory, x, y, (slope, slope * bandwidth), side="below"),
        label(f"arithmetic {format_flops(peak_flops)}", x, y, (high, peak_flops), align="right"),
        label(f"ridge {ridge:.4g}", x, y, (ridge, peak_flops), align="right"),
        mark("point", rows, "measured", orange, x=x, y=y, tips=("step", "intensity", "flops")),
        *(
            label(point.name, x, y, (point.intensity, point.flops), style="label", side="below")
            for point in points
        ),
    ]
    return figure(
        "roofline",
        "What binds a step: memory below the ridge, arithmetic above it",
        _subtitle(measured, f"ridge at {ridge:.4g} FLOP per byte; both axes logarithmic"),
        " ".join(findings),
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


def _decades(field: str, title: str, low: float, high: float, form: str) -> Axis:
    return logarithmic(field, title, low, high, 10, {"format": form, "tickCount": 7})


def flow_chart(diagnosis: Diagnosis) -> Figure:
    """The way of a job on paper through the questions."""
    evidence = "; ".join(diagnosis.evidence) or "no known fact names a ceiling"
    words = f"{headline(diagnosis)}; confidence: {diagnosis.confidence}"
    return questions_chart(diagnosis.branches, words, evidence)


def questions_chart(branches: Sequence[Branch], words: str, caption: str) -> Figure:
    """The questions from top to bottom with their answers; what binds has its remedy beside it."""
    x = Axis("left", "", {"domain": [0, 2], "nice": False}, None)
    y = Axis("at", "", {"domain": [-len(branches) + 0.4, 0.6], "nice": False}, None)
    boxes: list[Row] = []
    lines: list[Row] = []
    for at, branch in enumerate(branches):
        box = {"left": 0.0, "right": 1.0, "bottom": -at - 0.4, "top": -at + 0.4}
        boxes.append({"at": float(-at), "answer": branch.answer, **box})
        lines += _lines(at, "center", textwrap.wrap(branch.question, _width(branch.question)))
        lines += _lines(at, "left", _answer(branch))
    way = [{"left": 0.5, "at": box["at"]} for box in boxes if box["answer"] != "not asked"]
    answers: dict[str, str] = {answer: PALETTE[color] for answer, color in _ANSWERS.items()}
    stroke = choice("answer", answers, legend=None)
    frame = {"cornerRadius": 6, "fill": PALETTE["paper"], "strokeWidth": 2}
    layers = [
        mark("line", way, "join", {"color": PALETTE["ink"]}, x=x, y=y),
        mark("rect", boxes, "", frame,
             x=x, x2="right", y=y.of("bottom"), y2="top", stroke=stroke),
        *(
            mark("text", [line for line in lines if line["align"] == align], "label",
                 {"align": align}, x=x, y=y, text="text")
            for align in ("center", "left")
        ),
    ]  # fmt: skip
    table = [
        {"question": one.question, "answer": one.answer, "evidence": one.evidence}
        for one in branches
    ]
    return figure(
        "flow",
        "Bottleneck check",
        [words],
        f"{capitalised(caption)}.",
        table,
        layered(layers, height=52 * len(branches)),
    )


def _width(question: str) -> int:
    """So many characters that it has two lines."""
    return max(_INSIDE, len(question) // 2 + 6)


def _lines(at: int, align: str, texts: Sequence[str]) -> list[Row]:
    """Lines of text around the middle of a question's row: inside its box, or beside it."""
    top = -at + _LINE * (len(texts) - 1) / 2
    left = 0.5 if align == "center" else 1.06
    return [
        {"at": top - _LINE * number, "text": text, "left": left, "align": align}
        for number, text in enumerate(texts)
    ]


def _answer(branch: Branch) -> list[str]:
    if branch.answer == "not asked":
        return []
    short = [branch.evidence] if 0 < len(branch.evidence) <= _BESIDE else []
    if branch.answer != "binds":
        return [f"{branch.answer}:" if short else branch.answer, *short]
    lifts = axis_words(MENU[branch.ceiling].axis) if branch.ceiling else "no axis lifts it"
    return [f"binds: {short[0]}" if short else f"{branch.ceiling} binds:", lifts]
