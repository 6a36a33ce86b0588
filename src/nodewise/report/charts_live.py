"""The chart whose numbers a reader changes in the page: the U of cost at prices of their own."""

from typing import Literal

import altair as alt

from nodewise.decide import Decision
from nodewise.prices import NODE_HOURS
from nodewise.report.charts_look import (
    HEIGHT,
    Definition,
    definition,
    layered,
    nodes_axis,
    tooltip,
)

# The page's script fills these two when a slider moves.
SCALES, MARKS = "scales", "marks"
_LEANING: tuple[tuple[str, Literal["left", "right"]], ...] = (("left", "left"), ("right", "right"))


def what_if(decision: Decision) -> Definition:
    """Cost against K, with the cheapest, the fastest and the recommended scale marked."""
    rows = [
        {"K": row.nodes, "cost": row.cost, "allowed": not row.excluded} for row in decision.rows
    ]
    x = nodes_axis([row.nodes for row in decision.rows])
    money = "node-hours" if decision.price.currency == NODE_HOURS else "dollars"
    y = alt.Y("cost:Q", title=f"{money} a run", scale=alt.Scale(zero=True, nice=True))
    scales, marks = alt.NamedData(SCALES), alt.NamedData(MARKS)
    allowed = alt.Chart(scales).transform_filter("datum.allowed")
    layers = [
        allowed.mark_line(style="join").encode(x=x.x(), y=y),
        allowed.mark_point(style="measured").encode(x=x.x(), y=y, tooltip=tooltip("K", "cost")),
        alt.Chart(scales)
        .transform_filter("!datum.allowed")
        .mark_point(style="refused")
        .encode(x=x.x(), y=y, tooltip=tooltip("K", "cost")),
        alt.Chart(marks).mark_point(style="ring").encode(x=x.x(), y=y),
        # Words lean towards the middle, so that the edge cuts none.
        *(
            alt.Chart(marks)
            .transform_filter(f"datum.half === '{half}'")
            .mark_text(style="verdict", dy=-18, align=align)
            .encode(x=x.x(), y=y, text="label:N")
            for half, align in _LEANING
        ),
    ]
    chart = layered(layers, HEIGHT)
    chart.datasets = {SCALES: rows, MARKS: _marks(decision)}
    return definition(chart)


def _marks(decision: Decision) -> list[dict[str, str | int | float]]:
    """The chosen scales, one label for each."""
    chosen = {
        "cheapest": decision.cheapest.nodes if decision.cheapest else None,
        "fastest": decision.fastest.nodes if decision.fastest else None,
        "recommended": decision.recommended.nodes,
    }
    marks: list[dict[str, str | int | float]] = []
    for at, row in enumerate(decision.rows):
        names = [name for name, nodes in chosen.items() if nodes == row.nodes]
        if names:
            half = "left" if at < len(decision.rows) / 2 else "right"
            label = f"K={row.nodes} {', '.join(names)}"
            marks.append({"half": half, "label": label, "K": row.nodes, "cost": row.cost})
    return marks
