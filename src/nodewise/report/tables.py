"""Every table, once: what its columns are called and what is in them.

A terminal, a page, a paper and a README show the same cells.
"""

from collections.abc import Sequence

import msgspec

from nodewise.base.units import (
    SECONDS_PER_HOUR,
    digits_known,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_seconds,
    format_speedup,
    format_unit_cost,
    significant,
)
from nodewise.decide.choose import Choice
from nodewise.decide.decide import Decision, DecisionRow, Marginal
from nodewise.decide.inputs import INPUTS
from nodewise.decide.payment.ways import SpotOutlook
from nodewise.explain.attribute import Attribution, LedgerRow, Loss
from nodewise.explain.compare import Comparison
from nodewise.explain.laws import LawFit
from nodewise.explain.pop import Pop
from nodewise.explain.scaling import Scaling, ScalingRow
from nodewise.report.table import DASH
from nodewise.report.table import RECOMMENDED as RECOMMENDED
from nodewise.report.table import Formatter as Formatter
from nodewise.report.table import Table as Table
from nodewise.report.table import between as between
from nodewise.report.table import given as given
from nodewise.report.table import rows_table as rows_table
from nodewise.study.check import Check
from nodewise.study.study import Study

MOST_ROWS = 12
_MIN_FOLDS = 0.005  # less is printed as 0.00
_MIN_HIDDEN = 0.01  # of the wall time
MIN_GAIN = 0.02  # of the ideal speedup
BAR, _BAR_LENGTH = "\N{FULL BLOCK}", 24


def scaling_table(result: Scaling) -> Table:
    """Seconds, speedup and efficiency of every scale."""
    rows = [
        {
            "K": row.nodes,
            "rounds": row.rounds,
            "work/s": format_quantity(result.per_second(row)) if result.base_work else "",
            "seconds": format_seconds(row.seconds),
            "std": given(row.std, format_seconds),
            "median interval": between(row.seconds_low, row.seconds_high, format_seconds),
            "speedup": format_speedup(row.speedup),
            "interval": between(row.speedup_low, row.speedup_high, format_speedup),
            "efficiency": format_efficiency(row.efficiency),
            "Karp-Flatt": given(row.karp_flatt, "{:.4f}".format),
            "": "" if row.efficiency >= result.bend.threshold else "below",
        }
        for row in result.rows
    ]
    return rows_table("Seconds, speedup and efficiency of every scale", rows, sparse=True)


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
        titles=("law", "s", "interval", "c", "interval", "ceiling", "off by"),
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
        given(fit.s, _serial_share),
        between(fit.s_low, fit.s_high, _serial_share),
        given(fit.c, "{:.3g}".format),
        between(fit.c_low, fit.c_high, "{:.3g}".format),
        ceiling,
        off,
    ]


def _serial_share(s: float) -> str:
    """Four decimals, or two digits where those would hide it."""
    return f"{s:.4f}" if s == 0 or s >= 0.001 else f"{s:.2g}"


def ledger_table(result: Attribution) -> Table:
    """Speedup lost to each cause at every scale, the largest cause first."""
    shown, is_law = largest_causes(result), result.evidence == "fitted law"
    rows = []
    for row in result.rows:
        found: dict[str, Loss] = {loss.cause: loss for loss in row.causes}
        rows.append(
            {
                "K": row.nodes,
                "seconds": format_seconds(row.seconds),
                "ideal": f"{row.ideal:g}",
                "speedup": format_speedup(row.speedup),
                "lost": format_speedup(row.lost_folds),
                "gained": format_speedup(row.gained_folds)
                if row.gained_folds > MIN_GAIN * row.ideal
                else "",
                "hidden s": _hidden_seconds(row.hidden_seconds, row.seconds),
                **{cause: _folds_lost(found.get(cause), is_law) for cause in shown},
            }
        )
    return rows_table("Speedup lost to each cause", rows, sparse=True)


def largest_causes(result: Attribution) -> list[str]:
    """The causes that take something at some scale, the largest first."""
    totals: dict[str, float] = {}
    is_law = result.evidence == "fitted law"
    for row in result.rows:
        for loss in row.causes:
            most = loss.folds_high if is_law and loss.folds_high is not None else loss.folds
            totals[loss.cause] = max(totals.get(loss.cause, 0.0), abs(most))
    causes = sorted(totals, key=lambda cause: -totals[cause])
    return [cause for cause in causes if totals[cause] >= _MIN_FOLDS]


def _folds_lost(loss: Loss | None, is_law: bool) -> str:
    """What one cause takes; from bare totals, its range over all laws that fit."""
    if loss is None:
        return format_speedup(0.0)
    if is_law and loss.folds_low is not None:
        return between(loss.folds_low, loss.folds_high, format_speedup)
    return format_speedup(loss.folds)


def _hidden_seconds(hidden: float, seconds: float) -> str:
    return format_seconds(hidden) if hidden > _MIN_HIDDEN * seconds else ""


def pop_table(result: Pop) -> Table:
    """The efficiencies of the POP method at every scale; unknown ones are left empty."""
    rows = [
        {
            "K": row.nodes,
            "seconds": format_seconds(row.seconds),
            "global": given(row.global_efficiency, format_efficiency),
            "parallel": given(row.parallel_efficiency, format_efficiency),
            "load balance": given(row.load_balance, format_efficiency),
            "communication": given(row.communication_efficiency, format_efficiency),
            "serialisation": given(row.serialisation, format_efficiency),
            "transfer": given(row.transfer, format_efficiency),
            "threads": given(row.thread_efficiency, format_efficiency),
            "computation": given(row.computation_scaling, format_efficiency),
            "instructions": given(row.instruction_scaling, format_efficiency),
            "IPC": given(row.ipc_scaling, format_efficiency),
            "frequency": given(row.frequency_scaling, format_efficiency),
        }
        for row in result.rows
    ]
    return rows_table("Efficiency and its factors at every K", rows, sparse=True)


def causes_table(row: LedgerRow) -> Table:
    """The losses of one scale: speedup, seconds, what removing each would give, and a bar."""
    losses = [
        loss
        for loss in row.causes
        if loss.folds >= _MIN_FOLDS or loss.hidden_seconds > _MIN_HIDDEN * row.seconds
    ]
    most = max([loss.folds for loss in losses if loss.folds > 0], default=1.0)
    first = f"lost at K={row.nodes}"
    rows = [
        {
            first: row.named(loss.cause),
            "lost": f"{format_speedup(loss.folds)}x",
            "interval": between(loss.folds_low, loss.folds_high, format_speedup),
            "seconds": format_duration(loss.seconds),
            "of the time": format_percent(loss.share),
            "hidden s": _hidden_seconds(loss.hidden_seconds, row.seconds),
            "speedup without it": f"{loss.speedup_without:.2f}x",
            "": BAR * max(int(loss.folds > 0), round(_BAR_LENGTH * loss.folds / most)),
        }
        for loss in losses
    ]
    return rows_table("The largest losses", rows, left=(first, ""), indent=2, sparse=True)


def rubric_table(result: Decision) -> Table:
    """Seconds, speedup, efficiency, quality and cost of every scale."""
    shown, price, is_rate = rows_to_show(result), result.price, result.is_rate
    money, startup = compared_form(result), price.startup_seconds
    per = result.compared_for.label
    rows: list[dict[str, object]] = [
        {
            "K": row.nodes,
            f"{result.work_unit}/s": format_quantity(row.work_per_second) if is_rate else "",
            "seconds": "" if is_rate else format_seconds(row.seconds),
            "from launch": format_seconds(row.seconds + startup) if startup else "",
            "speedup": format_speedup(row.speedup),
            "efficiency": format_efficiency(row.efficiency),
            "quality": given(row.quality, format_efficiency),
            "cost a run" if per else "cost": cost_cell(row, result),
            "interval": between(row.cost_low, row.cost_high, cost_form(result, row)),
            **({f"cost{per}": compared_form(result, row)(row.cost)} if per else {}),
            f"with waiting{per}": compared_form(result, row)(row.cost_with_waiting)
            if row.bill.waiting
            else "",
            "cost/work": ""
            if is_rate
            else given(row.cost_per_work, lambda c: format_unit_cost(c, price.currency)),
            _per_money("work", price.currency): given(row.work_per_dollar, format_quantity),
            "cost/Mtoken": given(row.cost_per_million_tokens, in_currency(price.currency)),
            f"J {result.energy.basis}": given(row.energy_joules, format_quantity),
            "J interval": between(row.energy_low, row.energy_high, format_quantity),
            "J/work": given(row.energy_per_work, "{:.4g}".format),
            "g CO2e": given(row.grams, format_quantity),
            "g/work": given(row.grams_per_work, "{:.4g}".format),
            "in time": given(row.deadline_probability, format_percent),
            "P(right)": given(row.probability_right, _probability),
            "regret": given(row.expected_regret if result.has_ranges else None, money),
            "": _remark(row, result),
        }
        for row in shown
    ]
    return _with_failed("The rubric of every scale", rows, result, ("",))


def scales_table(result: Decision, scaling: Scaling | None = None) -> Table:
    """Time, speedup with its interval, efficiency and cost of every scale, with its marks."""
    measured = {row.nodes: row for row in scaling.rows} if scaling else {}
    per, startup = result.compared_for.label, result.price.startup_seconds
    rows: list[dict[str, object]] = []
    for row in rows_to_show(result):
        found = measured.get(row.nodes)
        digits = _digits_of_time(found)
        rows.append(
            {
                "K": row.nodes,
                f"{result.work_unit}/s": significant(row.work_per_second, digits)
                if result.is_rate
                else "",
                "time": "" if result.is_rate else format_duration(row.seconds + startup, digits),
                "speedup": significant(row.speedup) if found is None else speedup_cell(found),
                "efficiency": format_percent(row.efficiency),
                f"cost{per}": compared_form(result, row)(row.cost),
                "in time": given(row.deadline_probability, format_percent),
                "": _remark(row, result),
            }
        )
    return _with_failed("Every scale", rows, result, ("speedup", ""))


def _digits_of_time(row: ScalingRow | None) -> int:
    return 3 if row is None else digits_known(row.seconds, row.seconds_low, row.seconds_high)


def speedup_cell(row: ScalingRow) -> str:
    """A speedup with its interval, in as many digits as the interval allows."""
    low, high = row.speedup_low, row.speedup_high
    digits = digits_known(row.speedup, low, high)
    speedup = significant(row.speedup, digits)
    if low is None or high is None or low == high:
        return speedup
    return f"{speedup} ({significant(low, digits)}{DASH}{significant(high, digits)})"


def _with_failed(
    name: str, rows: list[dict[str, object]], result: Decision, left: tuple[str, ...]
) -> Table:
    """A table of scales, with a row for each scale at which every run failed."""
    blank = dict.fromkeys(rows[0])
    rows += [blank | {"K": one.nodes, "": f"failed: {one.outcome}"} for one in result.failed]
    rows.sort(key=lambda row: int(str(row["K"])))
    chosen = [at for at, row in enumerate(rows) if row["K"] == result.recommended.nodes]
    strong = chosen[0] if chosen else None
    return rows_table(
        name, rows, left=left, strong=strong, sparse=True, optional=("in time", "efficiency")
    )


def speedup_table(result: Scaling) -> Table:
    """Time, speedup with its interval and efficiency of every scale."""
    rows = [
        {
            "K": row.nodes,
            "work/s": significant(result.per_second(row), _digits_of_time(row))
            if result.base_work
            else "",
            "time": "" if result.base_work else format_duration(row.seconds, _digits_of_time(row)),
            "speedup": speedup_cell(row),
            "efficiency": format_percent(row.efficiency),
            "rounds": row.rounds,
            "": ""
            if row.efficiency >= result.bend.threshold
            else f"below {result.bend.threshold:.2f}",
        }
        for row in result.rows
    ]
    return rows_table("Every scale", rows, left=("speedup", ""), sparse=True)


def lost_table(result: Attribution) -> Table:
    """Time, speedup, and what is lost to the largest causes at every scale."""
    causes = largest_causes(result)[:3]
    is_law = result.evidence == "fitted law"
    rows = []
    for row in result.rows:
        found: dict[str, Loss] = {loss.cause: loss for loss in row.causes}
        rows.append(
            {
                "K": row.nodes,
                "time": format_duration(row.seconds),
                "speedup": f"{significant(row.speedup)} of {row.ideal:g}",
                "lost": f"{format_speedup(row.lost_folds)}x",
                **{cause: f"{_folds_lost(found.get(cause), is_law)}x" for cause in causes},
                "": "most: " + row.dominant_cause if row.dominant_cause and row.loses else "",
            }
        )
    return rows_table(
        "Speedup lost to the largest causes", rows, left=("",), optional=("", *reversed(causes))
    )


def runs_table(study: Study) -> Table:
    """Every run, as it was recorded."""
    rows = [
        {
            "K": run.nodes,
            "round": run.round + 1,
            "seconds": format_seconds(run.seconds),
            "started": run.started,
            "": "" if run.outcome == "ok" else run.outcome,
        }
        for run in sorted(study.runs, key=lambda run: (run.nodes, run.round))
    ]
    return rows_table("Runs", rows, left=("", "started"), sparse=True)


def compared_form(result: Decision, row: DecisionRow | None = None) -> Formatter:
    """How costs are written that are compared: for a run, or for a unit of work.

    `row` is the run that they are of; without it, costs are for the work of the first run.
    """
    done = 1.0 if row is None else row.relative_work
    currency = result.price.currency
    return lambda amount: format_money(result.compared_for.amount(amount / done), currency)


def cost_form(result: Decision, row: DecisionRow) -> Formatter:
    """How costs of a run are written; where only a rate is known, those of a million units."""
    return compared_form(result, row) if result.is_rate else in_currency(result.price.currency)


def cost_cell(row: DecisionRow, result: Decision) -> str:
    """What a run costs, or a million units of its work."""
    return cost_form(result, row)(row.cost)


def compared_cost(row: DecisionRow, result: Decision) -> str:
    """What a run costs, for the work that scales are compared for, in words where that is new."""
    return f"{compared_form(result, row)(row.cost)}{result.compared_for.label}"


def time_cell(row: DecisionRow, result: Decision) -> str:
    """What a run takes from its launch, or the work a second."""
    if result.is_rate:
        return f"{format_quantity(row.work_per_second)} {result.work_unit}/s"
    return format_duration(row.seconds + result.price.startup_seconds)


def in_currency(currency: str) -> Formatter:
    """How amounts of a currency are written."""
    return lambda amount: format_money(amount, currency)


def _per_money(what: str, currency: str) -> str:
    return f"{what}/{currency}"


def rows_to_show(result: Decision) -> Sequence[DecisionRow]:
    """All rows if they are few; else doublings, their middles and the chosen scales."""
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
    roles = {
        RECOMMENDED: result.recommended,
        "cheapest": result.cheapest,
        result.fastest_words: result.fastest,
        "greenest": result.greenest,
    }
    marks = [name for name, choice in roles.items() if choice and choice.nodes == row.nodes]
    return ", ".join([*marks, "excluded"] if row.excluded else marks)


def _probability(share: float) -> str:
    """A probability; near one with a decimal, so that it adds up with the small ones, never 100 %.

    >>> [_probability(share) for share in (0.0012, 0.96, 0.9988, 1.0)]
    ['0.1 %', '96 %', '99.9 %', '> 99.9 %']
    """
    if share <= 0.995:
        return format_percent(share)
    return "> 99.9 %" if share > 0.9995 else f"{100 * share:.1f} %"


def marginal_table(steps: Sequence[Marginal], result: Decision) -> Table:
    """What each step up gains and costs, for a run or for a unit of work."""
    currency, unit = result.price.currency, result.compared_for
    rows = [
        {
            "step": f"{step.from_nodes} -> {step.to_nodes}",
            "speedup": f"{step.speedup:+.2f}",
            f"cost{unit.label}": compared_form(result)(step.cost),
            _per_money("speedup", currency): (
                "saves"
                if step.cost < 0
                else given(step.speedup_per_dollar, lambda gain: _ratio(gain / unit.of_first_run))
                or "free"
            ),
            f"seconds saved{unit.label}": format_seconds(unit.amount(step.seconds_saved)),
            "cost per hour saved": given(step.cost_per_hour_saved, in_currency(currency)) or "none",
        }
        for step in steps
    ]
    return rows_table("What each step up gains and costs", rows, indent=2)


def _ratio(value: float) -> str:
    """A ratio with two decimals, above a hundred with three digits."""
    return f"{value:.2f}" if abs(value) < 100 else significant(value)


def payment_table(result: Decision) -> Table:
    """The runs paid for in other ways."""
    per = result.compared_for.label
    rows = [
        {
            "payment": one.label,
            "of the price": one.share,
            **_choice_cells(one.cheapest, result, "cheapest K", f"cost{per}", "time"),
            **_choice_cells(one.fastest, result, "fastest K", f"its cost{per}", "time "),
            "": f"{'' if one.applies else 'does not apply: '}{one.condition}",
        }
        for one in result.payments
    ]
    name = "The same runs paid for in other ways"
    table = rows_table(name, rows, left=("payment", ""), indent=2, sparse=True)
    return msgspec.structs.replace(table, titles=tuple(map(str.rstrip, table.titles)))


def _choice_cells(choice: Choice | None, result: Decision, *titles: str) -> dict[str, str]:
    cells = ["none", "", ""]
    if choice is not None:
        cost = compared_form(result, result.row(choice.nodes))(choice.cost)
        # only where nodes are lost do the times differ
        stops = result.spot or result.payments[0].is_stopped
        cells = [str(choice.nodes), cost, format_duration(choice.seconds) if stops else ""]
    return dict(zip(titles, cells, strict=True))


def items_table(result: Decision) -> Table:
    """What the cheapest run of each way to pay is billed, item by item."""
    bills = [
        (one.label, one.bill, cost_form(result, result.row(one.cheapest.nodes)))
        for one in result.payments
        if one.bill is not None and one.cheapest is not None
    ]
    names = dict.fromkeys(
        name for _, bill, _ in bills for name in bill.__struct_fields__ if getattr(bill, name)
    )
    words = {"compute": "work", "startup": "start-up", "fixed": "overhead"}
    rows = [
        {
            "cheapest of": label,
            **{words.get(name, name): money(getattr(bill, name, 0.0)) for name in names},
        }
        for label, bill, money in bills
    ]
    name = "What the cheapest run of each way to pay is billed"
    return rows_table(name, rows, left=("cheapest of",), indent=2)


def moves_table(result: SpotOutlook, currency: str) -> Table:
    """How the cheapest spot scale moves with the discount and the rate of preemptions."""
    unit = "h" if result.scope == "node" else "gang-h"
    rates: dict[float, dict[str, str]] = {}
    fastest: dict[float, str] = {}
    for one in result.moves:
        cells = rates.setdefault(
            one.per_second, {"preempted": f"{one.per_second * SECONDS_PER_HOUR:.3g}/{unit}"}
        )
        off = f"{format_percent(one.discount)} off"
        cells[off] = "never ends"
        if one.cost is not None:
            cells[off] = f"K={one.nodes} {format_money(one.cost, currency)}"
        fastest[one.per_second] = "" if one.fastest_nodes is None else f"K={one.fastest_nodes}"
    rows = [cells | {"fastest": fastest[rate]} for rate, cells in rates.items()]
    return rows_table("How the cheapest spot scale moves", rows, indent=2)


def tornado_table(result: Decision) -> Table:
    """Which input moves the recommended scale most."""
    rows = [
        {
            "input": title_of(one.input),
            "moved": "range" if one.is_range else "+-20 %",
            "values": DASH.join(input_words(one.input, end, result) for end in (one.low, one.high)),
            "of": one.payment,
            "recommended": f"K={one.low_nodes or 'none'}{DASH}{one.high_nodes or 'none'}",
            f"its cost{result.compared_for.label}": DASH.join(
                compared_form(result)(cost) if nodes else "none"
                for nodes, cost in ((one.low_nodes, one.low_cost), (one.high_nodes, one.high_cost))
            ),
        }
        for one in result.tornado
    ]
    name = "Which input moves the recommended scale most"
    return rows_table(name, rows, left=("input", "moved", "of"), indent=2)


def title_of(name: str) -> str:
    """An input in words."""
    known = {
        "s": "serial fraction s",
        "c": "communication c",
        "threshold": "minimum cost efficiency",
    }
    return known[name] if name in known else INPUTS[name].title


def input_words(name: str, value: float, result: Decision) -> str:
    """A value of an input, in its unit."""
    if name not in INPUTS:
        return f"{value:.3g}"
    return INPUTS[name].form(value, result.price.currency)


def checks_table(result: Sequence[Check]) -> Table:
    """The checks."""
    titles = ("verdict", "rule", "evidence", "remedy")
    rows = [
        {**{title: getattr(one, title) for title in titles}, "verdict": one.shown_verdict}
        for one in result
    ]
    return rows_table("The checks", rows, left=titles)


def failures_table(study: Study) -> Table | None:
    """The failed runs: where scaling broke is a result."""
    rows = [
        {
            "K": run.nodes,
            "round": run.round + 1,
            "outcome": run.outcome,
            "after": format_duration(run.seconds),
            "message": run.detail.partition("\n")[0],
        }
        for run in study.runs
        if run.outcome != "ok"
    ]
    name = "Failed runs"
    return rows_table(name, rows, left=("outcome", "message")) if rows else None


def provenance_table(study: Study) -> Table | None:
    """Where and how the runs were made; facts that differ between runs show their values."""
    values: dict[str, dict[str, None]] = {}
    for run in study.runs:
        for name, value in run.provenance.items():
            if not name.startswith("rehearsal_node"):
                values.setdefault(name, {})[str(value)] = None
    rows = [
        {"fact": name.replace("_", " "), "value": _few(list(found))}
        for name, found in sorted(values.items())
    ]
    return (
        rows_table("Where and how the runs were made", rows, left=("fact", "value"))
        if rows
        else None
    )


def comparison_table(result: Comparison) -> Table:
    """Seconds, speedup and efficiency of two studies at each common scale."""
    rows = [
        {
            "K": row.nodes,
            "first s": format_seconds(row.first_seconds),
            "second s": format_seconds(row.second_seconds),
            "second/first": f"{row.ratio:.3f}",
            "interval": between(row.ratio_low, row.ratio_high, "{:.3f}".format),
            "speedup": f"{format_speedup(row.first_speedup)} -> "
            f"{format_speedup(row.second_speedup)}",
            "efficiency": f"{format_efficiency(row.first_efficiency)} -> "
            f"{format_efficiency(row.second_efficiency)}",
            "": row.second_is,
        }
        for row in result.rows
    ]
    return rows_table("Two studies at each common scale", rows, left=("",))


def _few(values: Sequence[str]) -> str:
    shown = ", ".join(values[:4])
    return shown if len(values) <= 4 else f"{shown} and {len(values) - 4} more"
