"""Results as text for a terminal: the answer first, then the evidence in order.

Each function gives a list of rich renderables; a `str` is a line of rich markup.
"""

from collections.abc import Callable, Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from nodewise.attribute import Attribution, LedgerRow
from nodewise.audit import Check
from nodewise.causes import CAUSES
from nodewise.decide import Decision, DecisionRow, Marginal
from nodewise.findings import Findings
from nodewise.laws import LawFit
from nodewise.scaling import Scaling, ScalingRow
from nodewise.units import (
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    format_seconds,
    format_speedup,
    format_unit_cost,
)

Report = list[str | Table]
Formatter = Callable[[float], str]
RowFormatter = Callable[[DecisionRow], str]

_MOST_ROWS = 12
# Verdicts that several causes share, as one sentence for all of them.
_GROUPED = {
    "would do nothing": "would do nothing; hardly any of the lost folds are there",
    "unknown": "unknown; these records cannot show it, the stages of each rank could",
}
_TRIFLE = 0.05  # of the lost folds: in the table, not in a sentence


def scaling_report(result: Scaling) -> Report:
    """The scaling table, its landmarks and its laws."""
    return [*_scaling(result), *_notes(result.notes)]


def attribution_report(result: Attribution) -> Report:
    """The ledger, the cause of the bend, and what would move it."""
    return [*_attribution(result), *_notes(result.notes)]


def decision_report(result: Decision) -> Report:
    """The recommendation, the rubric of every scale, the prices and what would change it."""
    return [*_decision(result), *_notes(result.notes)]


def findings_report(result: Findings) -> Report:
    """Everything in the order in which it was found, each note once; the verdict stands last."""
    decision = result.decision
    return [
        *_scaling(result.scaling),
        "",
        *_attribution(result.attribution),
        "",
        *_decision(decision),
        *_notes(list(dict.fromkeys([*result.scaling.notes, *decision.notes]))),
        *checks_report(result.checks),
        "",
        f"[bold]{escape(decision.name)}: {_verdict(decision)}[/bold]",
    ]


def _scaling(result: Scaling) -> Report:
    return [
        f"[bold]{escape(result.name)}[/bold]: {_scaling_headline(result)}",
        "",
        _scaling_table(result),
        f"{_regime_line(result)}; intervals: {result.interval}.",
        "",
        *_landmarks(result),
        *_laws(result),
    ]


def _attribution(result: Attribution) -> Report:
    row = result.row(result.nodes)
    return [
        f"[bold]{escape(result.name)}[/bold]: {_attribution_headline(result, row)}",
        "",
        _ledger_table(result),
        f"Folds lost to each cause, ideal minus measured speedup; evidence: {result.evidence}.",
        "",
        *_causes_at(row),
        *_changes(result),
        *_shape(result),
    ]


def _decision(result: Decision) -> Report:
    lines: Report = [
        f"[bold]{escape(result.name)}: {_verdict(result)}[/bold]",
        f"  {result.recommended.because}.",
        "",
        _rubric_table(result),
        _rubric_caption(result),
        *_excluded(result),
        "",
    ]
    if result.attribution is not None:
        lines += ["[bold]Why not more[/bold]", *_why_not_more(result, result.attribution), ""]
    if result.cheapest and result.fastest and result.price_of_speed:
        lines += ["[bold]What speed costs[/bold]", *_exchange(result), ""]
    if len(result.regimes) > 1:
        lines += [
            "[bold]Ways to pay[/bold]",
            _regime_table(result),
            f"  {result.cheaper_nodes}",
            "",
        ]
    if result.would_change:
        lines.append("[bold]What would change it[/bold]")
        lines += [f"  - {change}." for change in result.would_change]
        lines.append("")
    if result.claim:
        lines += [f"[bold]Claim[/bold]: {escape(result.claim)}", ""]
    return lines[:-1]


def checks_report(result: Sequence[Check]) -> Report:
    """The honesty checklist: verdict, rule, evidence, remedy."""
    lines: Report = ["", "[bold]Checks[/bold]"]
    for check in result:
        remedy = f" {escape(check.remedy)}" if check.remedy else ""
        lines.append(f"  {check.verdict:<7}  {check.rule}: {escape(check.evidence)}.{remedy}")
    return lines


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _scaling_headline(result: Scaling) -> str:
    fastest = result.row(result.fastest)
    if result.fastest == result.base_nodes:
        return f"no scale is faster than K={result.base_nodes}."
    reach = f"fastest {format_speedup(fastest.speedup)}x at K={result.fastest}"
    if result.regime == "weak":
        reach = f"most work per second {format_speedup(fastest.speedup)}x at K={result.fastest}"
    if result.bend.first_below is None:
        end = f"efficiency stays at or above {result.bend.threshold:.2f}"
    else:
        share = result.bend.shares.get(str(result.bend.first_below), 1.0)
        sure = "" if share >= 0.95 else f" (in {format_percent(share)} of resamples)"
        end = f"efficiency falls below {result.bend.threshold:.2f} at K={result.bend.first_below}"
        end += sure
    return f"{reach} ({format_duration(fastest.seconds)}); {end}."


def _regime_line(result: Scaling) -> str:
    against = "the line S = K" if result.regime == "strong" else "the flat line E = 1"
    base = "" if result.base_nodes == 1 else f", relative to K={result.base_nodes}"
    return f"{result.regime} scaling against {against}{base}; centre: {result.center}"


def _scaling_table(result: Scaling) -> Table:
    spread = any(row.std is not None for row in result.rows)
    table = _table(
        "K", "rounds", "seconds", *(["std", "median between"] if spread else []),
        "speedup", *(["between"] if spread else []), "efficiency",
        *(["Karp-Flatt"] if result.regime == "strong" else []), "",
    )  # fmt: skip
    for row in result.rows:
        table.add_row(*_scaling_cells(row, result, spread))
    return table


def _scaling_cells(row: ScalingRow, result: Scaling, spread: bool) -> list[str]:
    cells = [str(row.nodes), str(row.rounds), format_seconds(row.seconds)]
    if spread:
        cells.append("" if row.std is None else format_seconds(row.std))
        cells.append(_between(row.seconds_low, row.seconds_high, format_seconds))
    cells.append(format_speedup(row.speedup))
    if spread:
        cells.append(_between(row.speedup_low, row.speedup_high, format_speedup))
    cells.append(format_efficiency(row.efficiency))
    if result.regime == "strong":
        cells.append("" if row.karp_flatt is None else f"{row.karp_flatt:.4f}")
    return [*cells, "" if row.efficiency >= result.bend.threshold else "below"]


def _between(low: float | None, high: float | None, form: Formatter) -> str:
    return "" if low is None or high is None else f"{form(low)}..{form(high)}"


def _landmarks(result: Scaling) -> Report:
    bend = result.bend
    lines: Report = []
    if bend.first_below is None:
        lines.append(f"Bend: none; efficiency is {bend.threshold:.2f} or more at every scale.")
    else:
        share = bend.shares.get(str(bend.first_below))
        sure = f" (in {format_percent(share)} of resamples)" if share is not None else ""
        kept = f"; last at or above: K={bend.last_above}" if bend.last_above else ""
        lines.append(
            f"Bend: K={bend.first_below} is the first with efficiency below {bend.threshold:.2f}"
            f"{sure}{kept}."
        )
    if result.knee is not None:
        between = ""
        if result.knee_low is not None and result.knee_high is not None:
            between = f", between {result.knee_low} and {result.knee_high}"
        lines.append(
            f"Knee: K={result.knee} has the largest speedup x efficiency on the fit{between}."
        )
    else:
        lines.append("Knee: not reached within the measured scales.")
    return [*lines, ""]


def _laws(result: Scaling) -> Report:
    laws = [
        ("Amdahl", result.laws.amdahl),
        ("Gustafson", result.laws.gustafson),
        ("universal", result.laws.universal),
        ("log2", result.laws.log2),
    ]
    table = _table("law", "s", "between", "c", "between", "ceiling", "off by")
    table.columns[0].justify = "left"
    for name, fit in laws:
        if fit is not None:
            table.add_row(name, *_law_cells(fit, result.base_nodes))
    falls = result.efficiency_falls
    lines: Report = [table]
    if falls is not None:
        lines.append(f"Amdahl predicts efficiency {falls.efficiency:.2f} at K = {falls.nodes:.1f}.")
    return [*lines, result.cannot_tell]


def _law_cells(fit: LawFit, base_nodes: int) -> list[str]:
    ceiling = "none" if fit.ceiling is None else f"{fit.ceiling:.1f}x"
    if fit.ceiling_at is not None:
        ceiling += f" at K={fit.ceiling_at * base_nodes:.0f}"
    off = format_percent(fit.rms) if fit.holds else "does not hold"
    return [
        "" if fit.s is None else f"{fit.s:.4f}",
        _between(fit.s_low, fit.s_high, "{:.4f}".format),
        "" if fit.c is None else f"{fit.c:.3g}",
        _between(fit.c_low, fit.c_high, "{:.3g}".format),
        ceiling,
        off,
    ]


def _attribution_headline(result: Attribution, row: LedgerRow) -> str:
    if result.dominant_cause is None:
        return f"nothing to speak of is lost up to K={result.nodes}."
    sure = ""
    if result.confidence is not None:
        sure = f", {format_percent(result.confidence)} of resamples agree"
    top = row.causes[0]
    return (
        f"at K={row.nodes} {format_speedup(row.lost_folds)} of {row.ideal:g} folds are lost, most "
        f"to [bold]{_named(top.cause, row)}[/bold] ({format_speedup(top.folds)}{sure})."
    )


def _named(cause: str, row: LedgerRow) -> str:
    """A cause, with the rank it lies with."""
    late = row.late_rank is not None and cause in ("slow node", "load imbalance")
    return f"{cause}, rank {row.late_rank}" if late else cause


def _ledger_table(result: Attribution) -> Table:
    totals: dict[str, float] = {}
    for row in result.rows:
        for loss in row.causes:
            totals[loss.cause] = max(totals.get(loss.cause, 0.0), abs(loss.folds))
    causes = [cause for cause in sorted(totals, key=lambda cause: -totals[cause])]
    shown = [cause for cause in causes if totals[cause] >= 0.005]
    table = _table("K", "seconds", "ideal", "speedup", "lost", *shown)
    for row in result.rows:
        folds = {loss.cause: loss.folds for loss in row.causes}
        table.add_row(
            str(row.nodes),
            format_seconds(row.seconds),
            f"{row.ideal:g}",
            format_speedup(row.speedup),
            format_speedup(row.lost_folds),
            *(format_speedup(folds[cause]) if cause in folds else "0.00" for cause in shown),
        )
    return table


def _causes_at(row: LedgerRow) -> Report:
    """A line for each cause at one scale: folds, seconds and what removing it would give."""
    lines: Report = []
    for loss in row.causes:
        if loss.folds < _TRIFLE * row.lost_folds or loss.folds <= 0:
            continue
        between = _between(loss.folds_low, loss.folds_high, format_speedup)
        line = (
            f"  K={row.nodes}: {format_speedup(loss.folds)} folds to {_named(loss.cause, row)}"
            f"{f' ({between})' if between else ''}: {format_duration(loss.seconds)}, "
            f"{format_percent(loss.share)} of the time"
        )
        if loss.speedup_without is not None:
            line += (
                f"; without it {format_speedup(loss.speedup_without)}x instead of "
                f"{format_speedup(row.speedup)}x"
            )
        lines.append(f"{line}.")
    return lines or [f"  K={row.nodes}: nothing to speak of is lost."]


def _changes(result: Attribution) -> Report:
    if result.change is None:
        return []
    aim = "To move the bend" if result.bends else "To lose less"
    lines: Report = ["", f"{aim}: [bold]{result.change}[/bold]."]
    grouped: dict[str, list[str]] = {}
    for other in result.other_changes:
        short = other.verdict.split(":")[0]
        verdict = short if short in _GROUPED else other.verdict
        grouped.setdefault(verdict, []).append(other.cause)
    for verdict, causes in grouped.items():
        lines.append(f"  - against {', '.join(causes)}: {_GROUPED.get(verdict, verdict)}.")
    return lines


def _shape(result: Attribution) -> Report:
    """What repeated timings alone point at; stages say more, so only where there are none."""
    if result.shape is None or result.evidence != "fitted law":
        return []
    shape = result.shape
    agreed = f"agreed by {format_percent(shape.confidence)} of resamples"
    return ["", f"Shape of the bend: {shape.shape}; {shape.evidence} ({agreed})."]


def _verdict(result: Decision) -> str:
    chosen = result.recommended.nodes
    if chosen is None:
        return "no scale passes"
    row = result.row(chosen)
    cost = format_money(row.cost, result.price.currency)
    nodes = f"{chosen} node{'s' if chosen > 1 else ''}"
    wall = format_duration(row.seconds + result.price.startup_seconds)
    return f"run on {nodes}, {wall} and {cost} a run"


def _rubric_table(result: Decision) -> Table:
    rows = _rows_to_show(result)
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
    if rows[0].energy_joules is not None:
        columns.append(("energy J", lambda row: format_quantity(row.energy_joules or 0.0)))
    if rows[0].deadline_probability is not None:
        columns.append(("in time", lambda row: format_percent(row.deadline_probability or 0.0)))
    if rows[0].probability_cheapest is not None:
        columns.append(("P(cheapest)", lambda row: format_percent(row.probability_cheapest or 0.0)))
    table = _table(*(title for title, _ in columns))
    table.add_column("", justify="left", no_wrap=True)
    for row in rows:
        table.add_row(*(form(row) for _, form in columns), _remark(row, result))
    return table


def _cost_between(row: DecisionRow, currency: str) -> str:
    low, high = row.cost_low or 0.0, row.cost_high or 0.0
    return f"{format_money(low, currency)}..{format_money(high, currency)}"


def _rows_to_show(result: Decision) -> Sequence[DecisionRow]:
    """All rows of a short ladder; of a long one doublings, their middles and the chosen scales."""
    if result.measured or len(result.rows) <= _MOST_ROWS:
        return result.rows
    wanted = {1, result.rows[-1].nodes, result.recommended.nodes}
    wanted |= {choice.nodes for choice in (result.cheapest, result.fastest) if choice}
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
    if row.excluded:
        marks.append("excluded")
    return ", ".join(marks)


def _rubric_caption(result: Decision) -> str:
    parts = [f"{result.regime} scaling", "measured" if result.measured else "from a model"]
    if result.rows[0].nodes != 1:
        parts.append(f"relative to K={result.rows[0].nodes}")
    if len(_rows_to_show(result)) < len(result.rows):
        parts.append(f"{len(result.rows)} scales, --json has all")
    parts += _line_items(result)
    if result.price.source:
        parts.append(f"price: {escape(result.price.source)}")
    if result.quality is not None:
        held = "held" if result.quality.held else "not held"
        parts.append(
            f"quality {held} (largest drift {result.quality.max_drift:.3f}, tolerance "
            f"{result.quality.tolerance:g})"
        )
    return "; ".join(parts) + "."


def _line_items(result: Decision) -> list[str]:
    """What the cost of the recommended scale is made of, where it is more than node time."""
    if result.recommended.nodes is None:
        return []
    bill = result.row(result.recommended.nodes).bill
    items = {"start-up": bill.startup, "rounding": bill.rounding, "overhead": bill.fixed}
    items |= {"waiting": bill.waiting}
    named = [f"{name} {format_money(v, result.price.currency)}" for name, v in items.items() if v]
    if not named:
        return []
    nodes = f"node time {format_money(bill.compute, result.price.currency)}"
    return [f"cost at K={result.recommended.nodes}: {' + '.join([nodes, *named])}"]


def _excluded(result: Decision) -> Report:
    """Why scales were excluded: those with the same reason on one line."""
    grouped: dict[str, list[int]] = {}
    for row in result.rows:
        if row.excluded_because:
            grouped.setdefault(row.excluded_because, []).append(row.nodes)
    return [f"  excluded: K={_list(nodes)}: {reason}." for reason, nodes in grouped.items()]


def _why_not_more(result: Decision, attribution: Attribution) -> Report:
    row = _ledger_row(result, attribution)
    lines = _causes_at(row)
    if row.dominant_cause is not None:
        lines.append(f"  To lose less: {CAUSES[row.dominant_cause].change}.")
    return lines


def _ledger_row(result: Decision, attribution: Attribution) -> LedgerRow:
    """The first scale beyond the recommended one: where the next fold is lost."""
    beyond = [row for row in attribution.rows if row.nodes > (result.recommended.nodes or 0)]
    return beyond[0] if beyond and result.recommended.nodes else attribution.rows[-1]


def _exchange(result: Decision) -> Report:
    assert result.cheapest and result.fastest and result.price_of_speed
    currency = result.price.currency
    lines: Report = []
    for one in result.deployments:
        lines.append(
            f"  {one.kind}: K={one.nodes}, {format_money(one.cost, currency)}, "
            f"{format_duration(one.seconds)}; gives up {one.gives_up}."
        )
    speed = result.price_of_speed
    if result.cheapest.nodes != result.fastest.nodes:
        times = "" if speed.cost_ratio is None else f"{speed.cost_ratio:.2f}x the cost to go "
        lines.append(
            f"  Price of pure speed: {format_money(speed.extra_cost, currency)} from "
            f"K={result.cheapest.nodes} to K={result.fastest.nodes}: {times}"
            f"{speed.speed_ratio:.2f}x faster."
        )
    if result.cheapest_low is not None and result.cheapest_low != result.cheapest_high:
        lines.append(
            f"  The cheapest of 95 % of resamples lies between K={result.cheapest_low} and "
            f"K={result.cheapest_high}."
        )
    lines.append(f"  Within 1 % of the least cost: K={_list(result.within_1_percent)}.")
    lines.append(f"  Not beaten in both speed and cost: K={_list(result.frontier)}.")
    steps = result.marginal if len(result.marginal) < _MOST_ROWS else result.doublings
    if steps:
        lines.append(_marginal_table(steps, currency))
    if result.first_unfavourable_doubling:
        low, high = result.first_unfavourable_doubling
        lines.append(f"  First doubling that raises the cost: {low} -> {high}.")
    return lines


def _list(scales: Iterable[int]) -> str:
    named = [str(nodes) for nodes in scales]
    if len(named) > _MOST_ROWS:
        return f"{named[0]}..{named[-1]}"
    return ", ".join(named)


def _marginal_table(steps: Sequence[Marginal], currency: str) -> Table:
    table = _table("  step", "speedup", "cost", "folds/$" if currency == "$" else "folds/node-h",
                   "seconds saved", "cost per hour saved")  # fmt: skip
    for step in steps:
        rate = step.speedup_per_dollar
        hourly = step.cost_per_hour_saved
        table.add_row(
            f"  {step.from_nodes} -> {step.to_nodes}",
            f"{step.speedup:+.2f}",
            format_money(step.cost, currency),
            "saves" if step.cost < 0 else "free" if rate is None else f"{rate:.2f}",
            format_seconds(step.seconds_saved),
            "none" if hourly is None else format_money(hourly, currency),
        )
    return table


def _regime_table(result: Decision) -> Table:
    currency = result.price.currency
    table = _table("  regime", "of the price", "cheapest K", "cost")
    table.columns[0].justify = "left"
    table.add_column("", justify="left", no_wrap=True)
    for one in result.regimes:
        gone = one.nodes is None or one.cost is None
        table.add_row(
            f"  {one.regime}",
            format_percent(one.fraction),
            "none" if gone else str(one.nodes),
            "" if one.cost is None else format_money(one.cost, currency),
            f"{'' if one.applies else 'does not apply: '}{one.condition}",
        )
    return table


def _notes(notes: Sequence[str]) -> Report:
    return ["", *(f"[dim]note:[/dim] {escape(note)}" for note in notes)] if notes else []
