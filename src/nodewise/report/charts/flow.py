"""The decision flow: forks with their figures, the path taken, and where it ends."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from nodewise.base.units import capitalised
from nodewise.diagnose.axes import MENU, axis_words
from nodewise.diagnose.flow import Branch, BranchAnswer, Diagnosis, headline
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Definition,
    Figure,
    Row,
    figure,
    layered,
    mark,
)

_FORK = 80.0  # pixels from one question to the next, on a screen
_BOX = 0.3  # half the height of a box, in forks
_LINE = 0.18  # from one line of text to the next
_QUESTION = (0.0, 0.6)  # from left to right, of the width
_END = (0.69, 1.0)
_DOWN = 0.06  # where the way goes down
_QUESTION_LETTERS, _FIGURE_LETTERS, _END_LETTERS = 36, 52, 17  # that fit on a line
_OPEN: tuple[BranchAnswer, ...] = ("not known", "not recorded", "not identifiable")
_COLORS: dict[BranchAnswer, str] = {"binds": "refused", "second": "second"}


class _Text(NamedTuple):
    """Lines of text around a place."""

    x: float
    y: float
    lines: Sequence[str]
    style: str = "label"
    align: str = "left"
    strong: bool = False

    def rows(self) -> list[Row]:
        top = self.y + _LINE * (len(self.lines) - 1) / 2
        return [
            {"x": self.x, "y": top - _LINE * at, "text": line} for at, line in enumerate(self.lines)
        ]


def flow_chart(diagnosis: Diagnosis) -> Figure:
    """The way of a job on paper through the questions."""
    words = f"confidence: {diagnosis.confidence}"
    return questions_chart(diagnosis.branches, words, headline(diagnosis))


def questions_chart(branches: Sequence[Branch], words: str, end: str) -> Figure:
    """Questions from top to bottom: the way goes down, or turns right to what binds.

    `end` is where the way leads when nothing binds.
    """
    turn = next((at for at, one in enumerate(branches) if one.answer == "binds"), len(branches))
    is_open_end = turn == len(branches)
    rows = len(branches) + is_open_end
    axes = (
        Axis("x", "", {"domain": [0, 1], "nice": False, "zero": False}, None),
        Axis("y", "", {"domain": [-rows + 0.5, 0.35], "nice": False, "zero": False}, None),
    )
    layers: list[Definition] = []
    for at, branch in enumerate(branches):
        last = at == len(branches) - 1 and not is_open_end
        layers += _fork(branch, -at, at <= turn, at < turn, last, axes)
    if is_open_end:
        layers += _box(
            _QUESTION, -len(branches), "chosen" if "enough" in end else "muted", True, axes
        )
        lines = textwrap.wrap(capitalised(end), _QUESTION_LETTERS)[:2]
        layers += _texts([_Text(sum(_QUESTION) / 2, -len(branches), lines, align="center")], axes)
    table = [
        {"question": one.question, "answer": one.answer, "evidence": one.evidence}
        for one in branches
    ]
    return figure(
        "flow",
        "Bottleneck check",
        [words, "thick: the path that the figures take"],
        _caption(branches, end),
        table,
        layered(layers, _FORK * rows / 0.85),
    )


def _caption(branches: Sequence[Branch], end: str) -> str:
    known = sum(one.answer not in (*_OPEN, "not asked") for one in branches)
    open_ = [one for one in branches if one.answer in _OPEN]
    binds = next((one for one in branches if one.answer == "binds"), None)
    where = f"The path ends at {binds.ceiling}" if binds and binds.ceiling else capitalised(end)
    left = f", {len(open_)} lack data" if open_ else ""
    return f"{where}. {known} of {len(branches)} questions are answered{left}."


def _fork(
    branch: Branch, y: float, reached: bool, goes_on: bool, is_last: bool, axes: tuple[Axis, Axis]
) -> list[Definition]:
    """A question, its figure, the arrow down and the arrow to what would bind."""
    turns = branch.answer in _COLORS
    color = _COLORS.get(branch.answer, "muted")
    other = _OPPOSITE.get(branch.turn, "") if branch.answer not in (*_OPEN, "second") else ""
    layers = _box(_QUESTION, y, "ink" if reached else "muted", reached, axes)
    layers += _box(_END, y, color, turns, axes)
    layers += _arrow((_QUESTION[1], y), (_END[0], y), color, turns, axes)
    texts = [
        _Text(sum(_QUESTION) / 2, y, textwrap.wrap(branch.question, _QUESTION_LETTERS)[:2],
              align="center"),
        _Text((_QUESTION[1] + _END[0]) / 2 - 0.008, y + 0.14, [branch.turn] if branch.turn else [],
              "label" if turns else "remark", "center", turns),
        _Text(sum(_END) / 2, y, _end_lines(branch), "label" if turns else "remark", "center"),
    ]  # fmt: skip
    if not is_last:
        layers += _arrow((_DOWN, y - _BOX), (_DOWN, y - 1 + _BOX), "ink", goes_on, axes)
        texts.append(_Text(_DOWN + 0.02, y - 0.5, [other] if other else [],
                           "label" if goes_on else "remark", strong=goes_on))  # fmt: skip
    texts.append(_Text(_DOWN + 0.1, y - 0.5, _figure_lines(branch)))
    return [*layers, *_texts(texts, axes)]


_OPPOSITE = {"yes": "no", "no": "yes"}


def _figure_lines(branch: Branch) -> list[str]:
    """The measured figure of a fork: its first clause."""
    if branch.answer in _OPEN:
        return [branch.answer]
    return textwrap.wrap(branch.evidence.partition(";")[0], _FIGURE_LETTERS)[:2]


def _end_lines(branch: Branch) -> list[str]:
    """What binds if the way turns here, and what raises it."""
    if branch.ceiling is None:
        return textwrap.wrap("no axis raises it", _END_LETTERS)
    lifts = axis_words(MENU[branch.ceiling].axis)
    return [branch.ceiling, *textwrap.wrap(lifts, _END_LETTERS)[:2]]


def _box(
    reach: tuple[float, float], y: float, color: str, strong: bool, axes: tuple[Axis, Axis]
) -> list[Definition]:
    x_axis, y_axis = axes
    row = {"x": reach[0], "right": reach[1], "y": y - _BOX, "top": y + _BOX}
    look = {
        "cornerRadius": 6,
        "fill": PALETTE["paper"],
        "stroke": PALETTE[color],
        "strokeWidth": 2 if strong else 0.8,
        "strokeDash": [1, 0] if strong else [3, 3],
    }
    return [mark("rect", [row], "", look, x=x_axis, x2="right", y=y_axis, y2="top")]


def _arrow(
    start: tuple[float, float],
    end: tuple[float, float],
    color: str,
    taken: bool,
    axes: tuple[Axis, Axis],
) -> list[Definition]:
    x_axis, y_axis = axes
    tint = {"color": PALETTE[color if taken else "muted"]}
    line = [{"x": x, "y": y} for x, y in (start, end)]
    across = start[1] == end[1]
    head = {"shape": "triangle-right" if across else "triangle-down", "size": 60 if taken else 35}
    shift = {"dx": -3} if across else {"dy": -3}
    width = {"strokeWidth": 2.5 if taken else 0.8, "strokeDash": [1, 0] if taken else [3, 3]}
    return [
        mark("line", line, "join", tint | width, x=x_axis, y=y_axis),
        mark("point", line[1:], "", {"filled": True, "opacity": 1, **head, **tint, **shift},
             x=x_axis, y=y_axis),
    ]  # fmt: skip


def _texts(texts: Sequence[_Text], axes: tuple[Axis, Axis]) -> list[Definition]:
    x_axis, y_axis = axes
    return [
        mark("text", text.rows(), text.style,
             {"align": text.align, "baseline": "middle",
              "fontWeight": "bold" if text.strong else "normal"},
             x=x_axis, y=y_axis, text="text")
        for text in texts
        if text.lines
    ]  # fmt: skip
