"""The chart of what scale draws and emits; a model never looks like a measurement."""

from nodewise.base.units import format_quantity
from nodewise.decide.decide import Decision
from nodewise.decide.energy import JOULES_PER_KWH
from nodewise.report.charts.look import (
    Figure,
    Row,
    about,
    figure,
    intervals,
    layered,
    linear,
    mark,
    nodes_axis,
    role_words,
    roles,
    values_of,
)

_UNITS = ((JOULES_PER_KWH, "kWh", JOULES_PER_KWH), (1e4, "kJ", 1e3), (0.0, "J", 1.0))


def energy(decision: Decision) -> Figure | None:
    """Grams of a run at each K, or joules where the grid is not known; nothing without energy."""
    first, basis = decision.rows[0], decision.energy.basis
    if first.energy_joules is None or len(decision.rows) < 2:
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
    field, unit, divisor = "grams", "g CO2e", 1.0
    if first.grams is None:
        most = max(values_of(rows, "joules", "joules high"))
        field, (_, unit, divisor) = "joules", next(one for one in _UNITS if most >= one[0])
    points = [
        {
            "K": row["K"],
            **{
                name: None if row[column] is None else row[column] / divisor
                for name, column in zip(
                    ("shown", "low", "high"), (field, f"{field} low", f"{field} high"), strict=True
                )
            },
            "amount": f"{format_quantity(row[field] / divisor)} {unit}, {basis}",
            "excluded": row["excluded"],
        }
        for row in rows
    ]
    x = nodes_axis([row.nodes for row in decision.rows])
    top = 1.08 * max(values_of(points, "shown", "low", "high")) or 1.0
    y = linear("shown", f"{unit} a run", 0.0, top)
    color, line = ("predicted", "beyond") if basis == "modelled" else ("measured", "join")
    found = {"greenest": decision.greenest, "cheapest": decision.cheapest}
    words = role_words({**found, decision.fastest_words: decision.fastest})
    kept = [row for row in points if not row["excluded"]]
    crossed = [row for row in points if row["excluded"]]
    layers = [
        mark("line", points, line, x=x, y=y, order={"field": "K", "type": "quantitative"}),
        *intervals(points, x, y, color),
        mark("point", kept, color, x=x, y=y, tips=("K", "amount")),
        mark("point", crossed, "refused", x=x, y=y, tips=("K", "amount", "excluded")),
        roles(points, {nodes: f"{role}: K={nodes}" for nodes, role in words.items()}, x, y),
    ]
    bars = "; bars: all nodes idle to all busy" if first.energy_low is not None else ""
    grid = f"; {decision.energy.grid}" if decision.energy.grid else ""
    return figure(
        "energy",
        f"What a run {'consumes' if field == 'joules' else 'emits'} at each scale",
        about(decision.name, decision.regime, f"{basis}: {decision.energy.note}{bars}{grid}"),
        _caption(decision, words),
        rows,
        layered(layers),
    )


def _caption(decision: Decision, words: dict[int, str]) -> str:
    green = decision.greenest
    if green is None:
        return f"None of {len(decision.rows)} scales passes every gate."
    row, basis = decision.row(green.nodes), decision.energy.basis
    joules = f"{format_quantity(row.energy_joules or 0.0)} J"
    text = f"K={green.nodes} consumes the least energy: {joules} a run, {basis}"
    if row.grams is not None:
        grams = format_quantity(row.grams)
        text = f"K={green.nodes} emits the least: {grams} g CO2e and {joules} a run, {basis}"
    fastest = decision.fastest
    if fastest is None or fastest.nodes == green.nodes:
        return f"{text}: {words[green.nodes]}."
    more = (decision.row(fastest.nodes).energy_joules or 0.0) / (row.energy_joules or 1.0)
    return f"{text}; the fastest, K={fastest.nodes}, takes {more:.2f} times the energy."
