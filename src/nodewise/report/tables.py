"""Every table, once: what its columns are called and what stands in them.

A terminal, a page, a paper and a README show the same cells.
"""

from collections.abc import Callable, Sequence

import msgspec

from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_seconds,
    format_speedup,
    format_unit_cost,
)
from nodewise.decide.choose import Choice
from nodewise.decide.decide import Decision, DecisionRow, Marginal
from nodewise.decide.inputs import INPUTS
from nodewise.decide.payment.ways import SpotOutlook
from nodewise.explain.attribute import Attribution, LedgerRow
from nodewise.explain.compare import Comparison
from nodewise.explain.laws import LawFit
from nodewise.explain.scaling import Scaling, ScalingRow
from nodewise.study.check import Check
from nodewise.study.study import Study

Formatter = Callable[[float], str]
RowFormatter = Callable[[DecisionRow], str]

MOST_ROWS = 12
_MIN_LOSS_SHARE = 0.05  # of the lost folds: not worth a line
BAR, _BAR_LENGTH = "\N{FULL BLOCK}", 24


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Cells as they are read; columns of words are named in `left`, figures stand to the right."""

    name: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[str] = frozenset()
    strong: int | None = None  # the row that the reader looks for
    indent: int = 0


def scaling_table(result: Scaling) -> Table:
    """Seconds, speedup and efficiency of every scale."""
    spread = any(row.std is not None for row in result.rows)
    titles = (
        "K", "rounds", "seconds", *(["std", "median between"] if spread else []),
        "speedup", *(["between"] if spread else []), "efficiency",
        *(["Karp-Flatt"] if result.regime == "strong" else []), "",
    )  # fmt: skip
    return Table(
        name="Seconds, speedup and efficiency of every scale",
        titles=titles,
        rows=tuple(_scaling_cells(row, result, spread) for row in result.rows),
    )


def _scaling_cells(row: ScalingRow, result: Scaling, spread: bool) -> tuple[str, ...]:
    cells = [str(row.nodes), str(row.rounds), format_seconds(row.seconds)]
    if spread:
        cells.append("" if row.std is None else format_seconds(row.std))
        cells.append(between(row.seconds_low, row.seconds_high, format_seconds))
    cells.append(format_speedup(row.speedup))
    if spread:
        cells.append(between(row.speedup_low, row.speedup_high, format_speedup))
    cells.append(format_efficiency(row.efficiency))
    if result.regime == "strong":
        cells.append("" if row.karp_flatt is None else f"{row.karp_flatt:.4f}")
    return (*cells, "" if row.efficiency >= result.bend.threshold else "below")


def between(low: float | None, high: float | None, form: Formatter) -> str:
    """An interval, or nothing where there is none."""
    return "" if low is None or high is None else f"{form(low)}..{form(high)}"


def laws_table(result: Scaling) -> Table:
    """The fitted laws with their parameters, their ceiling and how far they are off."""
    laws = [
        ("Amdahl", result.laws.amdahl),
        ("Gustafson", result.laws.gustafson),
        ("universal", result.laws.universal),
        ("log2", result.laws.log2),
    ]
    return Table(
        name="The fitted laws",
        titles=("law", "s", "between", "c", "between", "ceiling", "off by"),
        rows=tuple((name, *_law_cells(fit, result)) for name, fit in laws if fit is not None),
        left=frozenset({"law"}),
    )


def place_of_ceiling(fit: LawFit, scaling: Scaling) -> str:
    """Where a law is fastest. Beyond the runs its K has no interval here, so none is stated."""
    if fit.ceiling_at is None:
        return ""
    largest, at = scaling.rows[-1].nodes, fit.ceiling_at * scaling.base_nodes
    return f" at K={at:.0f}" if at <= largest else f" beyond K={largest}"


def _law_cells(fit: LawFit, result: Scaling) -> list[str]:
    ceiling = "none" if fit.ceiling is None else f"{fit.ceiling:.1f}x"
    ceiling += place_of_ceiling(fit, result)
    off = format_percent(fit.rms) if fit.holds else "does not hold"
    return [
        "" if fit.s is None else f"{fit.s:.4f}",
        between(fit.s_low, fit.s_high, "{:.4f}".format),
        "" if fit.c is None else f"{fit.c:.3g}",
        between(fit.c_low, fit.c_high, "{:.3g}".format),
        ceiling,
        off,
    ]


def ledger_table(result: Attribution) -> Table:
    """Folds lost to each cause at every scale, the largest cause first."""
    totals: dict[str, float] = {}
    for row in result.rows:
        for loss in row.causes:
            totals[loss.cause] = max(totals.get(loss.cause, 0.0), abs(loss.folds))
    causes = [cause for cause in sorted(totals, key=lambda cause: -totals[cause])]
    shown = [cause for cause in causes if totals[cause] >= 0.005]
    rows = []
    for row in result.rows:
        folds = {loss.cause: loss.folds for loss in row.causes}
        rows.append(
            (
                str(row.nodes),
                format_seconds(row.seconds),
                f"{row.ideal:g}",
                format_speedup(row.speedup),
                format_speedup(row.lost_folds),
                *(format_speedup(folds[cause]) if cause in folds else "0.00" for cause in shown),
            )
        )
    return Table(
        name="Folds lost to each cause",
        titles=("K", "seconds", "ideal", "speedup", "lost", *shown),
        rows=tuple(rows),
    )


def causes_table(row: LedgerRow) -> Table:
    """The losses of one scale: folds, seconds, what removing each would give, and a bar."""
    losses = [
        loss
        for loss in row.causes
        if loss.folds > 0 and loss.folds >= _MIN_LOSS_SHARE * row.lost_folds
    ]
    spread = any(loss.folds_low is not None for loss in losses)
    most = max((loss.folds for loss in losses), default=1.0)
    rows = tuple(
        (
            row.named(loss.cause),
            format_speedup(loss.folds),
            *([between(loss.folds_low, loss.folds_high, format_speedup)] if spread else []),
            format_duration(loss.seconds),
            format_percent(loss.share),
            "" if loss.speedup_without is None else f"{format_speedup(loss.speedup_without)}x",
            BAR * max(1, round(_BAR_LENGTH * loss.folds / most)),
        )
        for loss in losses
    )
    first = f"lost at K={row.nodes}"
    titles = (first, "folds", *(["between"] if spread else []), "seconds", "of the time")
    titles = (*titles, "speedup without it", "")
    return Table(
        name="The largest losses", titles=titles, rows=rows, left=frozenset({first, ""}), indent=2
    )


def rubric_table(result: Decision) -> Table:
    """Seconds, speedup, efficiency, quality and cost of every scale."""
    rows = rows_to_show(result)
    currency = result.price.currency
    columns: list[tuple[str, RowFormatter]] = [
        ("K", lambda row: str(row.nodes)),
        ("seconds", lambda row: format_seconds(row.seconds)),
        ("speedup", lambda row: format_speedup(row.speedup)),
        ("efficiency", lambda row: format_efficiency(row.efficiency)),
    ]
    startup = result.price.startup_seconds
    if startup:
        columns.insert(2, ("from launch", lambda row: format_seconds(row.seconds + startup)))
    if rows[0].quality is not None:
        columns.append(("quality", lambda row: format_efficiency(row.quality or 0.0)))
    columns.append(("cost", lambda row: format_money(row.cost, currency)))
    if rows[0].cost_low is not None:
        columns.append(("between", lambda row: _cost_between(row, currency)))
    if rows[0].cost_per_work is not None:
        columns.append(
            ("cost/work", lambda row: format_unit_cost(row.cost_per_work or 0.0, currency))
        )
        columns.append(
            (
                "work/$" if currency == "$" else "work/node-h",
                lambda row: format_quantity(row.work_per_dollar or 0.0),
            )
        )
    if rows[0].cost_per_million_tokens is not None:
        columns.append(
            ("cost/Mtoken", lambda row: format_money(row.cost_per_million_tokens or 0.0, currency))
        )
    columns += _energy_columns(result)
    if rows[0].deadline_probability is not None:
        columns.append(("in time", lambda row: format_percent(row.deadline_probability or 0.0)))
    if rows[0].probability_cheapest is not None:
        columns.append(("P(cheapest)", lambda row: format_percent(row.probability_cheapest or 0.0)))
    if result.has_ranges:
        columns.append(("regret", lambda row: _known_money(row.expected_regret, currency)))
    columns.append(("", lambda row: _remark(row, result)))
    chosen = [at for at, row in enumerate(rows) if row.nodes == result.recommended.nodes]
    return Table(
        name="The rubric of every scale",
        titles=tuple(title for title, _ in columns),
        rows=tuple(tuple(form(row) for _, form in columns) for row in rows),
        left=frozenset({""}),
        strong=chosen[0] if chosen else None,
    )


def _energy_columns(result: Decision) -> list[tuple[str, RowFormatter]]:
    """Joules and grams, by run and by unit of work, each with the word for how it is known."""
    first, basis = result.rows[0], result.energy.basis
    columns: list[tuple[str, RowFormatter]] = []
    if first.energy_joules is not None:
        columns.append((f"J {basis}", lambda row: format_quantity(row.energy_joules or 0.0)))
    if first.energy_per_work is not None:
        columns.append(("J/work", lambda row: f"{row.energy_per_work:.4g}"))
    if first.grams is not None:
        columns.append(("g CO2e", lambda row: format_quantity(row.grams or 0.0)))
    if first.grams_per_work is not None:
        columns.append(("g/work", lambda row: f"{row.grams_per_work:.4g}"))
    return columns


def _known_money(amount: float | None, currency: str) -> str:
    return "" if amount is None else format_money(amount, currency)


def _cost_between(row: DecisionRow, currency: str) -> str:
    low, high = row.cost_low or 0.0, row.cost_high or 0.0
    return f"{format_money(low, currency)}..{format_money(high, currency)}"


def rows_to_show(result: Decision) -> Sequence[DecisionRow]:
    """All rows of a short ladder; of a long one doublings, their middles and the chosen scales."""
    if result.measured or len(result.rows) <= MOST_ROWS:
        return result.rows
    wanted = {1, result.rows[-1].nodes, result.recommended.nodes}
    found = (result.cheapest, result.fastest, result.greenest)
    wanted |= {choice.nodes for choice in found if choice}
    power = 2
    while power <= result.rows[-1].nodes:
        wanted |= {power, power * 3 // 2 if power >= 16 else power}
        power *= 2
    return [row for row in result.rows if row.nodes in wanted]


def _remark(row: DecisionRow, result: Decision) -> str:
    marks = []
    if row.nodes == result.recommended.nodes:
        marks.append("<- recommended")
    if result.cheapest and row.nodes == result.cheapest.nodes:
        marks.append("cheapest")
    if result.fastest and row.nodes == result.fastest.nodes:
        marks.append("fastest")
    if result.greenest and row.nodes == result.greenest.nodes:
        marks.append("greenest")
    if row.excluded:
        marks.append("excluded")
    return ", ".join(marks)


def marginal_table(steps: Sequence[Marginal], currency: str) -> Table:
    """What each step up the ladder gains and costs."""
    rows = []
    for step in steps:
        rate = step.speedup_per_dollar
        hourly = step.cost_per_hour_saved
        rows.append(
            (
                f"{step.from_nodes} -> {step.to_nodes}",
                f"{step.speedup:+.2f}",
                format_money(step.cost, currency),
                "saves" if step.cost < 0 else "free" if rate is None else f"{rate:.2f}",
                format_seconds(step.seconds_saved),
                "none" if hourly is None else format_money(hourly, currency),
            )
        )
    folds = "folds/$" if currency == "$" else "folds/node-h"
    titles = ("step", "speedup", "cost", folds, "seconds saved", "cost per hour saved")
    return Table(
        name="What each step up the ladder gains and costs",
        titles=titles,
        rows=tuple(rows),
        indent=2,
    )


def payment_table(result: Decision) -> Table:
    """The same curve paid for in other ways."""
    # only where nodes are lost do the times differ
    timed = result.spot is not None

    def time_of(choice: Choice | None) -> list[str]:
        return [format_duration(choice.seconds) if choice else ""] if timed else []

    rows = tuple(
        (
            one.label,
            format_percent(one.fraction),
            *_choice_cells(one.cheapest, result.price.currency),
            *time_of(one.cheapest),
            *_choice_cells(one.fastest, result.price.currency),
            *time_of(one.fastest),
            f"{'' if one.applies else 'does not apply: '}{one.condition}",
        )
        for one in result.payments
    )
    time = ["time"] if timed else []
    titles = ("payment", "of the price", "cheapest K", "cost", *time, "fastest K", "its cost")
    titles = (*titles, *time, "")
    return Table(
        name="The same runs paid for in other ways",
        titles=titles,
        rows=rows,
        left=frozenset({"payment", ""}),
        indent=2,
    )


def items_table(result: Decision) -> Table:
    """What the cheapest run of each way to pay is billed, item by item."""
    currency = result.price.currency
    bills = [(one.label, one.bill) for one in result.payments if one.bill is not None]
    names = dict.fromkeys(
        name for _, bill in bills for name in bill.__struct_fields__ if getattr(bill, name, 0.0)
    )
    rows = tuple(
        (label, *(format_money(getattr(bill, name, 0.0), currency) for name in names))
        for label, bill in bills
    )
    said = {"compute": "work", "startup": "start-up", "fixed": "overhead"}
    return Table(
        name="What the cheapest run of each way to pay is billed",
        titles=("cheapest of", *(said.get(name, name) for name in names)),
        rows=rows,
        left=frozenset({"cheapest of"}),
        indent=2,
    )


def moves_table(result: SpotOutlook, currency: str) -> Table:
    """How the cheapest spot scale moves with the discount and the rate of preemptions."""
    discounts = list(dict.fromkeys(one.discount for one in result.moves))
    cells = {(one.per_second, one.discount): one for one in result.moves}
    rates = list(dict.fromkeys(one.per_second for one in result.moves))
    rows = tuple(
        (
            f"{rate * SECONDS_PER_HOUR:.3g}/h",
            *(
                f"K={one.nodes} {format_money(one.cost, currency)}"
                for one in (cells[rate, discount] for discount in discounts)
            ),
            f"K={cells[rate, discounts[0]].fastest_nodes}",
        )
        for rate in rates
    )
    titles = ("preempted", *(f"{format_percent(discount)} off" for discount in discounts))
    return Table(
        name="How the cheapest spot scale moves",
        titles=(*titles, "fastest"),
        rows=rows,
        indent=2,
    )


def tornado_table(result: Decision) -> Table:
    """Which input moves the cheapest scale most."""
    rows = tuple(
        (
            title_of(one.input),
            "range" if one.is_range else "20 % off",
            f"{said_input(one.input, one.low, result)}..{said_input(one.input, one.high, result)}",
            one.payment,
            f"K={one.low_nodes or 'none'}..{one.high_nodes or 'none'}",
            f"{format_money(one.low_cost, result.price.currency)}.."
            f"{format_money(one.high_cost, result.price.currency)}",
        )
        for one in result.tornado
    )
    return Table(
        name="Which input moves the cheapest scale most",
        titles=("input", "moved", "between", "of", "cheapest", "its cost"),
        rows=rows,
        left=frozenset({"input", "moved", "of"}),
        indent=2,
    )


def title_of(name: str) -> str:
    """An input in words."""
    known = {"s": "serial fraction s", "c": "communication c", "threshold": "least efficiency"}
    return known[name] if name in known else INPUTS[name].title


def said_input(name: str, value: float, result: Decision) -> str:
    """A value of an input, in its unit."""
    if name not in INPUTS:
        return f"{value:.3g}"
    return INPUTS[name].form(value, result.price.currency)


def _choice_cells(choice: Choice | None, currency: str) -> tuple[str, str]:
    return (
        ("none", "") if choice is None else (str(choice.nodes), format_money(choice.cost, currency))
    )


def checks_table(result: Sequence[Check]) -> Table:
    """The honesty checklist."""
    rows = tuple((one.shown_verdict, one.rule, one.evidence, one.remedy) for one in result)
    titles = ("verdict", "rule", "evidence", "remedy")
    return Table(name="The checks", titles=titles, rows=rows, left=frozenset(titles))


def failures_table(study: Study) -> Table | None:
    """The runs that did not end well: where scaling broke is a result."""
    failed = [run for run in study.runs if run.outcome != "ok"]
    if not failed:
        return None
    rows = tuple(
        (
            str(run.nodes),
            str(run.round + 1),
            run.outcome,
            format_duration(run.seconds),
            run.detail.partition("\n")[0],
        )
        for run in failed
    )
    titles = ("K", "round", "outcome", "after", "what it said")
    return Table(
        name="Runs that did not end well",
        titles=titles,
        rows=rows,
        left=frozenset({"outcome", "what it said"}),
    )


def provenance_table(study: Study) -> Table | None:
    """Where and how the runs were made; facts that differ between runs show their values."""
    values: dict[str, list[str]] = {}
    for run in study.runs:
        for name, value in run.provenance.items():
            if not name.startswith("rehearsal_node"):
                seen = values.setdefault(name, [])
                if str(value) not in seen:
                    seen.append(str(value))
    if not values:
        return None
    rows = tuple((name.replace("_", " "), _few(seen)) for name, seen in sorted(values.items()))
    return Table(
        name="Where and how the runs were made",
        titles=("fact", "value"),
        rows=rows,
        left=frozenset({"fact", "value"}),
    )


def comparison_table(result: Comparison) -> Table:
    """Seconds, speedup and efficiency of two studies at each common scale."""
    rows = tuple(
        (
            str(row.nodes),
            format_seconds(row.first_seconds),
            format_seconds(row.second_seconds),
            f"{row.ratio:.3f}",
            between(row.ratio_low, row.ratio_high, "{:.3f}".format),
            f"{format_speedup(row.first_speedup)} -> {format_speedup(row.second_speedup)}",
            f"{format_efficiency(row.first_efficiency)} -> "
            f"{format_efficiency(row.second_efficiency)}",
            row.second_is,
        )
        for row in result.rows
    )
    titles = ("K", "first s", "second s", "second/first", "between", "speedup", "efficiency", "")
    return Table(
        name="Two studies at each common scale", titles=titles, rows=rows, left=frozenset({""})
    )


def _few(values: Sequence[str]) -> str:
    shown = ", ".join(values[:4])
    return shown if len(values) <= 4 else f"{shown} and {len(values) - 4} more"
