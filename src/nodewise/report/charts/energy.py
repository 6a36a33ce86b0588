"""The chart of what scale draws and emits; a model never looks like a measurement."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import altair as alt

from nodewise.base.units import format_quantity
from nodewise.decide.decide import Decision
from nodewise.decide.energy import JOULES_PER_KWH
from nodewise.report.charts.look import (
    Axis,
    Cell,
    Figure,
    Row,
    about,
    data,
    figure,
    intervals,
    known,
    layered,
    linear,
    nodes_axis,
    number,
    tooltip,
)

_UNITS = ((JOULES_PER_KWH, "kWh", JOULES_PER_KWH), (1e4, "kJ", 1e3), (0.0, "J", 1.0))
_SHAPES = ("diamond", "triangle-up", "square", "circle")


class _Quantity(NamedTuple):
    """What is drawn, in which unit: grams where the grid is known, else joules."""

    field: str
    unit: str
    divisor: float


def energy(decision: Decision) -> Figure | None:
    """Grams of a run at each K, or joules where the grid is not known; nothing without energy."""
    if decision.rows[0].energy_joules is None or len(decision.rows) < 2:
        return None
    rows: list[Row] = [
        {
            "K": row.nodes,
            "joules": row.energy_joules,
            "joules low": row.energy_low,
            "joules high": row.energy_high,
            "grams": row.grams,
            "grams low": row.grams_low,
            "grams high": row.grams_high,
            "seconds": row.seconds,
            "excluded": row.excluded_because,
        }
        for row in decision.rows
    ]
    most = max(number(row["joules high"] or row["joules"]) for row in rows)
    _, unit, divisor = next(one for one in _UNITS if most >= one[0])
    quantity = _Quantity("joules", unit, divisor)
    if decision.rows[0].grams is not None:
        quantity = _Quantity("grams", "g CO2e", 1.0)
    roles = _roles(decision)
    bars = "; bars: all nodes idle to all busy" if decision.rows[0].energy_low is not None else ""
    grid = f"; {decision.energy.grid}" if decision.energy.grid else ""
    return figure(
        "energy",
        f"What a run {'draws' if quantity.field == 'joules' else 'emits'} at each scale",
        about(
            decision.name,
            decision.regime,
            f"{decision.energy.basis}: {decision.energy.note}{bars}{grid}",
        ),
        _caption(decision, roles),
        rows,
        _chart(decision, rows, quantity, roles),
    )


def _roles(decision: Decision) -> Mapping[int, str]:
    """The scales that a reader looks for, and what each of them is."""
    words: dict[int, list[str]] = {}
    for one, role in (
        (decision.greenest, "greenest"),
        (decision.cheapest, "cheapest"),
        (decision.fastest, "fastest"),
    ):
        if one is not None:
            words.setdefault(one.nodes, []).append(role)
    return {nodes: ", ".join(roles) for nodes, roles in words.items()}


def _chart(
    decision: Decision, rows: Sequence[Row], quantity: _Quantity, roles: Mapping[int, str]
) -> alt.LayerChart:
    field, unit, divisor = quantity

    def scaled(value: Cell) -> float | None:
        return None if value is None else number(value) / divisor

    told: list[Row] = [
        {
            "K": row["K"],
            "shown": scaled(row[field]),
            "low": scaled(row[f"{field} low"]),
            "high": scaled(row[f"{field} high"]),
            "amount": f"{format_quantity(number(row[field]) / divisor)} {unit}, "
            f"{decision.energy.basis}",
            "excluded": row["excluded"],
        }
        for row in rows
    ]
    values = [v for row in told for v in known(row["shown"], row["low"], row["high"])]
    x = nodes_axis([int(number(row["K"])) for row in rows])
    y = linear("shown", f"{unit} a run", 0.0, 1.08 * max(values) or 1.0)
    modelled = decision.energy.basis == "modelled"
    color = "predicted" if modelled else "measured"
    base = alt.Chart(data(told)).encode(x=x.x(), y=y.y())
    kept = alt.Chart(data([row for row in told if not row["excluded"]])).encode(x=x.x(), y=y.y())
    crossed = alt.Chart(data([row for row in told if row["excluded"]])).encode(x=x.x(), y=y.y())
    layers = [
        base.mark_line(style="beyond" if modelled else "join").encode(order=alt.Order("K:Q")),
        *intervals(told, x, y, color),
        kept.mark_point(style=color).encode(tooltip=tooltip("K", "amount")),
        crossed.mark_point(style="refused").encode(tooltip=tooltip("K", "amount", "excluded")),
        _marked(told, x, y, roles),
    ]
    return layered(layers)


def _marked(rows: Sequence[Row], x: Axis, y: Axis, roles: Mapping[int, str]) -> alt.Chart:
    """The scales of a role by their shape; what they are stands in the legend."""
    marked = [
        {**row, "role": f"{roles[int(number(row['K']))]}: K={row['K']}"}
        for row in rows
        if row["K"] in roles
    ]
    names = [str(row["role"]) for row in marked]
    shapes = alt.Scale(domain=names, range=list(_SHAPES[: len(names)]))
    mark: alt.Chart = alt.Chart(data(marked)).mark_point(style="role")
    legend = alt.Shape("role:N", scale=shapes, legend=alt.Legend(columns=1))
    placed: alt.Chart = mark.encode(x=x.x(), y=y.y(), shape=legend)
    return placed


def _caption(decision: Decision, roles: Mapping[int, str]) -> str:
    green = decision.greenest
    if green is None:
        return f"None of {len(decision.rows)} scales passes every gate."
    row, basis = decision.row(green.nodes), decision.energy.basis
    joules = f"{format_quantity(row.energy_joules or 0.0)} J"
    text = f"K={green.nodes} draws the least: {joules} a run, {basis}"
    if row.grams is not None:
        grams = format_quantity(row.grams)
        text = f"K={green.nodes} emits the least: {grams} g CO2e and {joules} a run, {basis}"
    fastest = decision.fastest
    if fastest is None or fastest.nodes == green.nodes:
        return f"{text}: {roles[green.nodes]}."
    more = (decision.row(fastest.nodes).energy_joules or 0.0) / (row.energy_joules or 1.0)
    return f"{text}; the fastest, K={fastest.nodes}, takes {more:.2f} times the energy."
