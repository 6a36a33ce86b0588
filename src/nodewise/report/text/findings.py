"""Results as text for a terminal: the answer first, then the evidence in sections."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_money,
    format_percent,
    format_quantity,
    format_rate_cost,
    format_speedup,
)
from nodewise.decide.candidates import WorkUnit
from nodewise.decide.decide import Decision, Quality
from nodewise.decide.energy import UNKNOWN
from nodewise.decide.payment.ways import PaymentPrice
from nodewise.decide.unmeasured import Unmeasured
from nodewise.explain.attribute import Attribution, LedgerRow, Loss, TimeBound
from nodewise.explain.causes import CauseName
from nodewise.explain.scaling import JOB_RECORDS, Scaling
from nodewise.explain.validity import FOREIGN_LOAD
from nodewise.report.findings import Findings
from nodewise.report.sections import Output, Report, Section, output, sections_report
from nodewise.report.tables import (
    MIN_GAIN,
    MOST_ROWS,
    causes_table,
    compared_cost,
    compared_form,
    cost_form,
    input_words,
    items_table,
    laws_table,
    ledger_table,
    lost_table,
    marginal_table,
    moves_table,
    payment_table,
    rows_to_show,
    rubric_table,
    runs_table,
    scales_table,
    scaling_table,
    speedup_table,
    time_cell,
    title_of,
    tornado_table,
)
from nodewise.report.text.pop import pop_section
from nodewise.report.text.training import training_section
from nodewise.study.check import Validity, validity_of
from nodewise.study.scale_unit import plural
from nodewise.study.spec import Regime

__all__ = ["Report"]  # and every function below

_MIN_POSSIBLE = 0.05  # of the lost speedup: a cause that can take no more is not listed
_MIN_PART = 0.1  # of all that is gained: a part that gains less is not named
_MOST_SURE = 0.99
_MOST_SURE_UNDER_LOAD = 0.95
_SHOWN_LOSSES = 3

# Verdicts that several causes share, as one sentence for all of them.
_GROUPED = {"no measurable benefit"}


def scaling_report(result: Scaling) -> Output:
    """The scaling table, its landmarks and its laws."""
    validity = validity_of(result.checks)
    if validity.state == "invalid":
        return output([f"**{result.name}: {validity.clause}**"], checks=result.checks)
    headline = f"**{result.name}: {scaling_headline(result)}**{_doubt(validity.clause)}"
    return output(
        [headline, bend_line(result), knee_line(result)],
        speedup_table(result),
        [_scaling_section(result), _laws_section(result)],
        result.checks,
    )


def attribution_report(result: Attribution) -> Output:
    """The largest losses and the change that helps; the ledger of every scale in a section."""
    validity = validity_of(result.checks)
    if validity.state == "invalid":
        return output([f"**{result.name}: {validity.clause}**"], checks=result.checks)
    row = result.row(result.nodes)
    lines = [f"**{result.name}**: {attribution_headline(result, row)}{_doubt(validity.clause)}"]
    second = None if result.bend is None else result.row(result.bend)
    if second is not None and second.nodes != result.nodes and second.ideal > 1:
        lines.append(f"{capitalised(attribution_headline(result, second))}")
    if result.change is not None:
        lines.append(f"To lose less: **{result.change}**.")
    if result.bound is not None and result.bound.cause != result.dominant_cause:
        lines.append(f"To run faster at every K: **{result.bound.change}**.")
    causes = _causes_at(row)
    sections = [_losses_section(result), *_other_changes_section(result)]
    sections += pop_section(result.pop)
    if causes:
        largest = Section(name="largest", title=f"Losses at K={row.nodes}", parts=causes)
        sections.insert(1, largest)
    return output(lines, lost_table(result), sections, result.checks)


def invalid_report(result: Mapping[str, Any]) -> Output:
    """Why a measurement gets no answer."""
    headline = f"**{result['name']}: {result['validity'].clause}**"
    return output([headline], checks=result["checks"])


def law_report(result: Decision) -> Output:
    """The recommendation for a law without data."""
    return output(_answer(result, None), scales_table(result), _decision(result), result.checks)


def findings_report(result: Findings, ending: Sequence[str] = ()) -> Output:
    """What one study says: the recommendation with its certainty, and why not more."""
    decision, attribution = result.decision, result.attribution
    if decision.validity.state == "invalid":
        headline = f"**{decision.name}: {verdict(decision)}**"
        return output([headline], checks=result.checks, ending=ending)
    sections = [
        _scaling_section(result.scaling),
        _laws_section(result.scaling),
        _losses_section(attribution),
        *_other_changes_section(attribution),
        *pop_section(attribution.pop),
        *training_section(result.training, decision.price.currency),
        *_decision(decision),
        Section(name="runs", title="Runs", details=[runs_table(result.study)]),
    ]
    lines = _answer(decision, attribution)
    table = scales_table(decision, result.scaling)
    return output(lines, table, sections, result.checks, ending)


def _doubt(clause: str) -> str:
    return f" {capitalised(clause)}." if clause else ""


def _answer(result: Decision, attribution: Attribution | None) -> list[str]:
    """The recommendation, why, why not more, and what would make it better."""
    chosen = result.recommended
    decided = chosen.probability is not None and not chosen.undecided
    sure = f" ({how_sure(chosen.probability or 0.0, result.validity)})" if decided else ""
    lines = [
        f"**{result.name}: {verdict(result)}**{sure}",
        *([] if decided else _sure_lines(result)),
        f"{capitalised(chosen.because)}.",
        *_spot_lines(result),
    ]
    if attribution is not None:
        lines.append(f"Why not more: {why_not_more(result, attribution)}")
    lines += _next_lines(result)
    if attribution is not None and (change := _ledger_row(result, attribution).change):
        lines.append(f"To lose less: {change}.")
    return [*lines, _objective_line(result)]


def why_not_more(result: Decision, attribution: Attribution) -> str:
    """What is lost at the next scale, or at the largest, with the three largest losses."""
    row = _ledger_row(result, attribution)
    largest = attribution.rows[-1].nodes
    chosen = result.recommended.nodes
    above = f"no scale above K={largest} was measured. " if chosen == largest else ""
    words = losses_words(attribution, row)
    return f"{above}{capitalised(words) if above else words}"


def losses_words(result: Attribution, row: LedgerRow) -> str:
    """What is lost at one scale, and to which three causes most of it."""
    largest = [loss for loss in row.causes if loss.folds >= 0.01 * row.lost_folds][:_SHOWN_LOSSES]
    if not row.loses or row.dominant_cause is None or not largest:
        return attribution_headline(result, row)
    parts = [
        f"{row.named(loss.cause)} {format_speedup(loss.folds)}x "
        f"({format_percent(loss.share)} of the time)"
        for loss in largest
    ]
    return f"{_lost(row)}: {', '.join(parts)}."


def _lost(row: LedgerRow) -> str:
    return f"at K={row.nodes}, {format_speedup(row.lost_folds)}x of {row.ideal:g}x is lost"


def _scaling_section(result: Scaling) -> Section:
    base = "" if result.base_nodes == 1 else f" Speedup is relative to K={result.base_nodes}."
    return Section(
        name="scaling",
        title="Scaling",
        parts=[
            scaling_table(result),
            f"{capitalised(_regime_line(result))}; intervals: {result.interval}.{base}",
            bend_line(result),
            knee_line(result),
        ],
    )


def _laws_section(result: Scaling) -> Section:
    return Section(name="laws", title="Scaling laws", parts=_laws(result))


def _losses_section(result: Attribution) -> Section:
    return Section(
        name="losses", title="Lost speedup", parts=[ledger_table(result), _ledger_caption(result)]
    )


def _other_changes_section(result: Attribution) -> list[Section]:
    lines = [*_other_changes(result), *_shape(result)]
    return [Section(name="changes", title="Other changes", parts=lines)] if lines else []


def scaling_lines(result: Scaling) -> Report:
    """The headline, the table, the landmarks and the laws."""
    validity = validity_of(result.checks)
    invalid = validity.clause if validity.state == "invalid" else ""
    return [
        f"**{result.name}**: {invalid or scaling_headline(result)}",
        "",
        *_scaling_section(result).parts,
        "",
        *_laws(result),
    ]


def attribution_lines(result: Attribution, recommended: int | None = None) -> Report:
    """The headline, the ledger, the largest losses and what would change them.

    The headline is about the largest scale and the `recommended` one, or else about the bend.
    """
    row = result.row(result.nodes)
    validity = validity_of(result.checks)
    if validity.state == "invalid":
        return [f"**{result.name}**: {validity.clause}"]
    second = recommended or result.bend
    lines: Report = [f"**{result.name}**: {attribution_headline(result, row)}"]
    if second is not None and second != result.nodes and result.row(second).ideal > 1:
        lines.append(f"  {capitalised(attribution_headline(result, result.row(second)))}")
    causes = _causes_at(row)
    return [
        *lines,
        "",
        *_losses_section(result).parts,
        *(["", *causes] if causes else []),
        *_changes(result),
        *_shape(result),
    ]


def _ledger_caption(result: Attribution) -> str:
    """How to read the ledger."""
    notes = [f"evidence: {result.evidence}"]
    if result.evidence == "fitted law":
        notes.append("ranges are over all laws that fit about as well as the best")
    if any(one.hidden_seconds > 0.01 * one.seconds for one in result.rows):
        notes.append("hidden s: communication and input that overlap with compute, at no cost")
    return f"Speedup lost to each cause, ideal minus measured; {'; '.join(notes)}."


def decision_lines(result: Decision, attribution: Attribution | None) -> Report:
    """Why not more, what speed costs, other ways to pay, what would change it, the claim."""
    more: Report = []
    if attribution is not None:
        more = ["**Why not more**", *_why_not_more(result, attribution), ""]
    return [*more, *sections_report(_sections(result), details=True)[1:]]


def _decision(result: Decision) -> list[Section]:
    """The sections of a decision, with the rubric of every scale in that of the cost."""
    if result.validity.state == "invalid":
        return []
    rubric: Report = [
        rubric_table(result),
        capitalised(rubric_caption(result)),
        *excluded(result),
        *_failures(result),
    ]
    cost, *others = _sections(result)
    return [Section(name="cost", title="Cost", parts=[*rubric, *cost.parts]), *others]


def _sections(result: Decision) -> list[Section]:
    """What speed costs, how to pay, what the choice depends on, and the claim."""
    exchange = _exchange(result) if result.cheapest and result.price_of_speed else []
    return [
        Section(name="cost", title="Cost", parts=exchange),
        Section(name="payment", title="Payment", parts=_payment(result)),
        Section(name="sensitivity", title="Sensitivity", parts=_sensitivity(result)),
        Section(name="claim", title="Claim", parts=[result.claim] if result.claim else []),
    ]


def _payment(result: Decision) -> Report:
    if len(result.payments) < 2:
        return []
    return [
        payment_table(result),
        f"  {result.cheaper_nodes}",
        *_spot(result),
        *_ownership(result),
        *([f"  Not priced: {', '.join(result.unpriced)}."] if result.unpriced else []),
    ]


def _sensitivity(result: Decision) -> Report:
    """Which input matters most, and what would change the recommendation."""
    changes = [f"  - {capitalised(change)}." for change in [*_flips(result), *result.would_change]]
    table: Report = [tornado_table(result)] if result.tornado else []
    return [*table, *(["  The recommendation changes with:", *changes] if changes else [])]


def _spot(result: Decision) -> Report:
    """What preemptions do, up to which rate spot pays, and how it moves the cheapest scale."""
    outlook, currency = result.spot, result.price.currency
    if outlook is None:
        return []
    spot = next(one for one in result.payments if one.payment == "spot")
    saving = "nothing is saved"
    if outlook.interval_seconds is not None:
        saving = f"save every {format_duration(outlook.interval_seconds)} of work"
    items = items_table(result)
    lines: Report = [
        "",
        *([items] if items.rows else []),
    ]
    stops = "preemptions" + (" and failures" if result.payments[0].is_stopped else "")
    if outlook.preemptions is not None and outlook.goodput is not None:
        lines.append(
            f"  Spot at K={outlook.nodes}: {saving}; {outlook.preemptions:.2g} {stops} a run are "
            f"expected, {format_percent(outlook.goodput)} of the time is the job's own work."
        )
    if spot.endless:
        lines.append(f"  Spot never ends {_endless(spot)}.")
    rates = [
        (outlook.break_even_per_node_hour, "saving as stated"),
        (outlook.break_even_per_gang_hour, "saving as stated"),
        (outlook.break_even_without_saving, "without saving"),
    ]
    by = "gang" if outlook.scope == "gang" else result.unit.metered
    limits = [f"{rate:.3g} a {by}-hour {how}" for rate, how in rates if rate is not None]
    if limits:
        lines.append(f"  Spot beats on-demand up to these preemptions: {'; '.join(limits)}.")
    else:
        lines.append("  Spot never beats on-demand here, even without preemptions.")
    if outlook.replays and spot.cheapest:
        row = next(one for one in spot.rows if one.nodes == spot.cheapest.nodes)
        lines.append(
            f"  Replayed on {outlook.replays}: half of the runs at K={row.nodes} take "
            f"{_ended(row.median_seconds)} at most, 95 of 100 {_ended(row.p95_seconds)}"
            + ("." if row.in_time is None else f"; {format_percent(row.in_time)} are in time.")
        )
    lines += ["", moves_table(outlook, currency)]
    lines.append("  The cheapest K on spot and its cost: a discount drives it up, losses down.")
    return lines


def _ended(seconds: float | None) -> str:
    return "an unlimited time" if seconds is None else format_duration(seconds)


def _ownership(result: Decision) -> Report:
    """What an hour of an owned node costs, and from which use on it pays."""
    outlook, currency = result.ownership, result.price.currency
    if outlook is None:
        return []
    money = {
        "an hour of use": outlook.per_useful_hour,
        "one more hour": outlook.marginal_per_hour,
        "a rented hour": outlook.rent_per_hour,
    }
    prices = ", ".join(f"{what} {format_money(value, currency)}" for what, value in money.items())
    assumed = " (assumed, the best case: state --utilisation)" if outlook.assumed else ""
    used = f"{format_percent(outlook.utilisation)} use{assumed}"
    lines: Report = [f"  Owned at {used}: {prices}."]
    found = outlook.break_even_utilisation
    if found is None or found > 1:
        lines.append("  Owning never beats this rent, however much the nodes are used.")
    else:
        lines.append(f"  Owning beats renting above {format_percent(found)} use.")
    moved: dict[str, list[str]] = {}
    for one in outlook.sensitivity:
        use = "never" if one.utilisation is None else format_percent(one.utilisation)
        moved.setdefault(one.assumption.replace("_", " "), []).append(use)
    first = [f"{name} {' to '.join(uses)}" for name, uses in list(moved.items())[:4]]
    lines.append(f"  That use when one figure is 20 % lower to higher: {'; '.join(first)}.")
    return lines


def _flips(result: Decision) -> list[str]:
    """The value of each input at which another scale is recommended."""
    moves: dict[str, list[str]] = {}
    for one in result.flips:
        value = input_words(one.input, one.value, result)
        found = f"moves it to K={one.nodes}" if one.nodes else "leaves no scale that passes"
        moves.setdefault(one.input, []).append(f"{one.side} {value} {found}")
    return [
        f"{title_of(name)}, now {input_words(name, result.flip(name).now, result)}: "
        f"{', '.join(ways)}"
        for name, ways in moves.items()
    ]


def scaling_headline(result: Scaling) -> str:
    """The fastest scale, and where efficiency falls below its threshold."""
    fastest = result.row(result.fastest)
    is_first = fastest.speedup >= max(row.speedup for row in result.rows)
    if result.fastest == result.base_nodes:
        return f"no scale is {'' if is_first else 'clearly '}faster than K={result.base_nodes}."
    within = "" if is_first else " within noise"
    reach = f"fastest{within} {format_speedup(fastest.speedup)}x at K={result.fastest}"
    if result.regime == "weak":
        reach = f"most work per second {format_speedup(fastest.speedup)}x at K={result.fastest}"
    if result.bend.first_below is None:
        end = f"efficiency stays at or above {result.bend.threshold:.2f}"
    else:
        share = result.bend.shares.get(str(result.bend.first_below), 1.0)
        sure = "" if share >= 0.95 else f" ({how_sure(share)})"
        end = f"efficiency falls below {result.bend.threshold:.2f} at K={result.bend.first_below}"
        end += sure
    if result.base_nodes != 1:
        end += f", relative to K={result.base_nodes}"
    what = format_duration(fastest.seconds)
    if result.base_work is not None:
        what = f"{format_quantity(result.per_second(fastest))} units of work a second"
    return f"{reach} ({what}); {end}."


def _regime_line(result: Scaling) -> str:
    against = "the line S = K" if result.regime == "strong" else "the flat line E = 1"
    return f"{result.regime} scaling against {against}; centre: {result.center}"


def bend_line(result: Scaling) -> str:
    """The first scale below the threshold, and how sure that is."""
    bend = result.bend
    if bend.first_below is None:
        return f"Bend: none; efficiency is {bend.threshold:.2f} or more at every scale."
    share = bend.shares.get(str(bend.first_below))
    sure = f" ({how_sure(share)})" if share is not None else ""
    kept = f"; last at or above: K={bend.last_above}" if bend.last_above else ""
    return (
        f"Bend: K={bend.first_below} is the first with efficiency below {bend.threshold:.2f}"
        f"{sure}{kept}."
    )


def knee_line(result: Scaling) -> str:
    """The knee of the measured curve."""
    return knee_words(result.regime, result.knee, result.knee_low, result.knee_high)


def knee_words(
    regime: Regime, knee: int | None, low: int | None = None, high: int | None = None
) -> str:
    """The knee within the measured scales, with its 95 % bounds where they are known."""
    if knee is None:
        return "Knee: not reached within the measured scales."
    between = "" if low is None or high is None else f" (95 % CI {low}\N{EN DASH}{high})"
    terms = "1/K, 1, log2 K and K" if regime == "strong" else "1, log2 K and K"
    return f"Knee: K={knee}{between} has the largest speedup x efficiency on the fit of {terms}."


def _laws(result: Scaling) -> Report:
    falls = result.efficiency_falls
    lines: Report = [laws_table(result)]
    if falls is not None:
        lines.append(f"Amdahl predicts efficiency {falls.efficiency:.2f} at K = {falls.nodes:.1f}.")
    return [*lines, result.cannot_tell]


def attribution_headline(result: Attribution, row: LedgerRow) -> str:
    """What is lost at one scale, and to which cause as far as the records tell."""
    if not row.loses:
        return f"at K={row.nodes} hardly any speedup is lost{_bound(result, row)}."
    lost = _lost(row)
    found = {loss.cause: loss for loss in row.causes}
    if row.dominant_cause is not None:
        top = found[row.dominant_cause]
        range_ = _range_words(top, ", range ")
        lost += f", most to **{row.named(top.cause)}** ({format_speedup(top.folds)}x{range_})"
    elif row.possible_causes == ("unexplained",) or result.evidence == "two bare times":
        lost += ", most to a cause that is **not recorded**"
    elif result.evidence == "fitted law" and row.waits:
        kinds, range_ = ", ".join(row.possible_causes), _range_words(found["late rank"], ", range ")
        lost += f", most to **a late rank**{range_}; of what kind ({kinds}) is not identifiable "
        lost += "from totals"
    elif result.evidence == "fitted law":
        ranges = [
            f"{loss.cause}{_range_words(loss, ' ')}"
            for loss in row.causes
            if loss.folds_high is not None and loss.folds_high >= _MIN_POSSIBLE * row.lost_folds
        ]
        lost += f"; the cause is **not identifiable from totals**: {', '.join(ranges)}"
    else:
        names = [cause for cause in row.possible_causes if cause in found]
        parts = [f"{cause} {format_speedup(found[cause].folds)}x" for cause in names]
        named = [_with_rank(row, cause) for cause in names[:1]] + list(names[1:])
        either = " or ".join([", ".join(named[:-1]), named[-1]] if named[1:] else named)
        lost += f", most to **{either}**, not separable here ({', '.join(parts)})"
    return f"{lost}{_bound(result, row)}."


def _with_rank(row: LedgerRow, cause: CauseName) -> str:
    """A cause in a list, with the rank it lies with."""
    rank = row.named(cause).removeprefix(cause).removeprefix(", ")
    return f"{cause} ({rank})" if rank else cause


def _range_words(loss: Loss, lead: str) -> str:
    if loss.folds_low is None or loss.folds_high is None:
        return ""
    return f"{lead}{format_speedup(loss.folds_low)}\N{EN DASH}{format_speedup(loss.folds_high)}x"


def _bound(result: Attribution, row: LedgerRow) -> str:
    """The stage that takes much of the time whatever K is."""
    if result.bound is None or row.nodes != result.nodes:
        return ""
    bound = result.bound
    return (
        f"; {format_percent(bound.share)} of the time is **{_stage_words(bound)}**, "
        f"{format_percent(bound.base_share)} at K={result.rows[0].nodes}"
    )


def _stage_words(bound: TimeBound) -> str:
    return "in no recorded stage" if bound.cause == "unexplained" else bound.cause


def _causes_at(row: LedgerRow) -> Report:
    """What was lost at one scale, as bars; or that nothing was."""
    if row.loses and row.dominant_cause is None and not row.time_shares:
        return []  # the headline has the ranges; no single figure is known
    table = causes_table(row)
    shown: Report = [table] if table.rows else [f"  K={row.nodes}: hardly any speedup is lost."]
    gained = gain_words(row)
    return [*shown, f"  {gained}"] if gained else shown


def gain_words(row: LedgerRow) -> str:
    """What some stages gain on their ideal share, and what each cause loses without that."""
    if row.gained_folds <= MIN_GAIN * row.ideal:
        return ""
    total = sum(row.gained_seconds.values())
    parts = [name for name, gain in row.gained_seconds.items() if gain >= _MIN_PART * total]
    named = " and ".join("time in no stage" if name == "unexplained" else name for name in parts)
    gains, its = ("gains", "its") if len(parts) == 1 else ("gain", "their")
    amount = f"{format_duration(total)} ({format_speedup(row.gained_folds)}x)"
    words = f"At K={row.nodes} {named} {gains} {amount} on {its} ideal share."
    if row.lost_folds <= 0:
        return f"{words} This gain exceeds all losses."
    reduced = [
        f"{row.named(loss.cause)} loses {format_duration(loss.gross_seconds)} "
        f"({format_percent(loss.gross_seconds / row.seconds)} of the time)"
        for loss in row.causes
        if loss.gross_seconds - loss.seconds > MIN_GAIN * row.seconds
    ]
    without = f"; without it {', '.join(reduced)}" if reduced else ""
    return f"{words} This gain is deducted from the losses{without}."


def _changes(result: Attribution) -> Report:
    lines: Report = []
    if result.change is not None:
        lines += ["", f"To lose less: **{result.change}**."]
    lines += _other_changes(result)
    if result.bound is not None and result.bound.cause != result.dominant_cause:
        lines += ["", f"To run faster at every K: **{result.bound.change}**."]
    return lines


def _other_changes(result: Attribution) -> Report:
    """What changes against the other causes would bring."""
    grouped: dict[str, list[str]] = {}
    for other in result.other_changes:
        short = other.verdict.split(":")[0]
        verdict = short if short in _GROUPED else other.verdict
        grouped.setdefault(verdict, []).append(other.cause)
    return [
        f"  - {capitalised(', '.join(causes))}: {verdict}." for verdict, causes in grouped.items()
    ]


def _shape(result: Attribution) -> Report:
    """What repeated timings alone look like; stages say more, so only where there are none."""
    if result.shape is None or result.evidence != "fitted law":
        return []
    return [f"Shape of the bend: {result.shape.shape}; {result.shape.evidence}."]


def verdict(result: Decision) -> str:
    """The scale to run at, in words."""
    chosen = result.recommended.nodes
    if result.validity.state == "invalid":
        return result.validity.clause
    doubt = f"; {result.validity.clause}" if result.validity.clause else ""
    if chosen is None:
        return f"no scale passes every gate{doubt}"
    if result.row(chosen).quality_state == "undecided":
        doubt = f"; quality undecided at K={chosen}{doubt}"
    here = f"{result.unit.named(chosen)}, {result.run_words(chosen)}"
    among = result.recommended.undecided
    if among:
        named = ", ".join(map(str, among[:-1])) + f" and {among[-1]}"
        return f"undecided between {named} {plural(result.unit.unit)}; so far {here}{doubt}"
    return f"run on {here}{doubt}"


def certainty_lines(result: Decision) -> list[str]:
    """The objective, how sure the choice is, what would decide it, and what to measure next."""
    return [
        *_spot_lines(result),
        _objective_line(result),
        *_sure_lines(result),
        *_next_lines(result),
    ]


def _spot_lines(result: Decision) -> list[str]:
    """The scale to run at on spot nodes, where the question is of them; or why there is none."""
    spot = next((one for one in result.payments if one.payment == "spot" and one.asked), None)
    if spot is None:
        return []
    paid = f"{format_percent(spot.fraction)}{' (assumed)' if spot.assumed else ''} of the price"
    choice = spot.chosen
    if choice is None:
        why = spot.moved[-1].because if spot.moved else "none passes on demand either"
        return [f"On spot at {paid}, no scale passes: {why}."]
    row, currency = result.row(choice.nodes), result.price.currency
    took = format_duration(choice.seconds + result.price.startup_seconds)
    run = f"{took} and {format_money(choice.cost, currency)} a run"
    if result.is_rate and row.work:
        run = format_rate_cost(choice.cost / row.work, result.work_unit, currency)
    named = result.unit.named(choice.nodes)
    return [f"On spot at {paid}, by the same objective: run on {named}, {run}."]


def _objective_line(result: Decision) -> str:
    return f"Objective: {result.objective.name}, because {result.objective.because}."


def _sure_lines(result: Decision) -> list[str]:
    chosen = result.recommended
    if chosen.probability is not None:
        sure = capitalised(how_sure(chosen.probability, result.validity))
        return [f"{sure} among the measured scales{how_to_decide(result)}."]
    return [f"Undecided{how_to_decide(result)}."] if chosen.undecided else []


def _next_lines(result: Decision) -> list[str]:
    if result.better is None:
        return []
    price, unit = result.price, result.compared_for
    words = better_words(result.better, price.currency, unit, price.startup_seconds)
    return [f"Measure next: {words}."]


def how_sure(probability: float, validity: Validity | None = None) -> str:
    """A probability in words; it is never 100 %.

    It comes from the spread of the rounds, which does not show load that lasts through all of them.
    """
    doubts = validity.reasons if validity is not None else ()
    if probability > _MOST_SURE_UNDER_LOAD and any(one.startswith(FOREIGN_LOAD) for one in doubts):
        return f"at most {format_percent(_MOST_SURE_UNDER_LOAD)} sure"
    if probability > _MOST_SURE:
        return f"more than {format_percent(_MOST_SURE)} sure"
    return f"{format_percent(probability)} sure"


def how_to_decide(result: Decision) -> str:
    """What would decide between the scales that may be right."""
    chosen = result.recommended
    if not chosen.undecided:
        return ""
    if result.has_ranges:
        return "; narrower ranges would decide it"
    if chosen.rounds_to_decide is None or chosen.cost_to_decide is None:
        return "; not even 100 more rounds would decide it"
    rounds = "round" if chosen.rounds_to_decide == 1 else "rounds"
    cost = format_money(chosen.cost_to_decide, result.price.currency)
    return (
        f"; {chosen.rounds_to_decide} more {rounds} of K={listed(chosen.repeat)} would decide "
        f"it, for {cost}"
    )


def better_words(better: Unmeasured, currency: str, unit: WorkUnit, startup: float = 0.0) -> str:
    """The unmeasured scale that is likely better, and by how much; times from the launch."""
    saves = ""
    if better.saving is not None:
        saves = f", {format_money(unit.amount(better.saving), currency)} less {unit.words}"
    elif better.seconds_saved is not None:
        saves = f", {format_duration(unit.amount(better.seconds_saved))} less {unit.words}"
    seconds, cost = better.seconds + startup, better.cost
    each = unit.amount(cost / better.relative_work)
    per = f" a run ({format_money(each, currency)}{unit.label})" if unit.clause else ""
    if unit.words != "a run" and not unit.clause:  # only a rate is known
        seconds, cost = unit.amount(seconds / better.relative_work), each
    return (
        f"K={better.nodes}, {format_duration(seconds)} and "
        f"{format_money(cost, currency)}{per} predicted{saves}; {better.because} "
        f"({format_percent(better.probability)} likely)"
    )


def rubric_caption(result: Decision) -> str:
    """How to read the rubric."""
    observed = any(JOB_RECORDS in reason for reason in result.validity.reasons)
    known = "from job records" if observed else "measured"
    parts = [f"{result.regime} scaling", known if result.measured else "from a model"]
    if result.rows[0].nodes != 1:
        parts.append(f"relative to K={result.rows[0].nodes}")
    if result.is_rate:
        parts.append(f"cost of a million {result.work_unit}")
    words = compared_words(result.compared_for, result.rows[0].nodes)
    parts += [words] if words else []
    if len(rows_to_show(result)) < len(result.rows):
        parts.append(f"{len(result.rows)} scales, --json has all")
    parts += _line_items(result)
    if result.price.source:
        parts.append(f"price: {result.price.source}")
    parts += _energy(result)
    parts += [quality_words(result.quality)] if result.quality else []
    return "; ".join(parts) + "."


def compared_words(unit: WorkUnit, first: int) -> str:
    """What a unit of work is, where runs do not do the same work; `first` is the smallest scale."""
    if not unit.clause:
        return ""
    one = "" if unit.is_counted else f" (a unit is the work of the run at K={first})"
    return f"scales are compared{unit.clause}{one}, and the fastest does most work per second"


def quality_words(quality: Quality) -> str:
    """Whether the quality is kept, and how far it drifts."""
    held = "not held" if quality.state == "excluded" else quality.state
    around = "" if quality.low == quality.high else f", {quality.low:+.3f} to {quality.high:+.3f}"
    drift = f"largest drift {quality.max_drift:.3f}{around}"
    return f"quality {held} ({drift}, tolerance {quality.tolerance:g})"


def _energy(result: Decision) -> list[str]:
    """How joules and grams are known, and the range of a model at the recommended scale."""
    if result.energy.basis == "unknown":
        sought = result.energy.grid or result.energy.note != UNKNOWN.note
        return [f"energy: unknown, {result.energy.note}"] if sought else []
    parts = [f"energy: {result.energy.basis}, {result.energy.note}"]
    chosen = result.recommended.nodes
    row = None if chosen is None else result.row(chosen)
    if row is not None and row.energy_low is not None and row.energy_high is not None:
        low, high = format_quantity(row.energy_low), format_quantity(row.energy_high)
        parts.append(f"at K={chosen} between {low} and {high} J")
    if result.energy.grid:
        parts.append(result.energy.grid)
    return parts


def _line_items(result: Decision) -> list[str]:
    """What the cost of the recommended scale is made of, where it is more than node time."""
    if result.recommended.nodes is None:
        return []
    row = result.row(result.recommended.nodes)
    bill = row.bill
    items = {"start-up": bill.startup, "rounding": bill.rounding, "overhead": bill.fixed}
    items |= {"storage": bill.storage, "egress": bill.egress, "waiting": bill.waiting}
    money = cost_form(result, row)
    named = [f"{name} {money(v)}" for name, v in items.items() if v]
    if not named:
        return []
    nodes = f"node time {money(bill.compute)}"
    return [f"cost at K={result.recommended.nodes}: {' + '.join([nodes, *named])}"]


def excluded(result: Decision) -> Report:
    """Why scales were excluded: those with the same reason on one line."""
    grouped: dict[str, list[int]] = {}
    for row in result.rows:
        if row.excluded_because:
            grouped.setdefault(row.excluded_because, []).append(row.nodes)
    lines = [f"  excluded: K={listed(nodes)}: {reason}." for reason, nodes in grouped.items()]
    if result.payments[0].endless:
        lines.append(f"  excluded: a run never ends {_endless(result.payments[0])}.")
    return list(lines)


def _endless(payment: PaymentPrice) -> str:
    """At which scales a run never ends, and why at the first of them."""
    first, *others = payment.endless
    named = f"at K={listed([row.nodes for row in payment.endless])}: "
    return named + (f"at K={first.nodes} " if others else "") + str(first.never_ends)


def _failures(result: Decision) -> Report:
    """How much of the time is useful where nodes fail."""
    chosen = result.recommended.nodes
    row = next((one for one in result.payments[0].rows if one.nodes == chosen), None)
    if row is None or row.goodput is None or row.stops is None:
        return []
    saving = "nothing is saved"
    if row.interval_seconds is not None:
        saving = f"save every {format_duration(row.interval_seconds)} of work"
    return [
        f"  Failures at K={chosen}: {row.stops:.2g} a run are expected, "
        f"{format_percent(row.goodput)} of the time is useful; {saving}."
    ]


def _why_not_more(result: Decision, attribution: Attribution) -> Report:
    row = _ledger_row(result, attribution)
    lines = _causes_at(row)
    if row.change is not None and row.dominant_cause is None:
        lines.append(f"  {capitalised(attribution_headline(attribution, row))}")
    if row.change is not None:
        lines.append(f"  To lose less: {row.change}.")
    bound = attribution.bound
    if bound is not None:
        lines.append(
            f"  At every K {format_percent(min(bound.share, bound.base_share))} of the time or "
            f"more is {_stage_words(bound)}: {bound.change}."
        )
    return lines


def _ledger_row(result: Decision, attribution: Attribution) -> LedgerRow:
    """The first scale above the recommended one."""
    beyond = [row for row in attribution.rows if row.nodes > (result.recommended.nodes or 0)]
    return beyond[0] if beyond and result.recommended.nodes else attribution.rows[-1]


def _exchange(result: Decision) -> Report:
    assert result.cheapest and result.fastest and result.price_of_speed
    money, rows = compared_form(result), {row.nodes: row for row in result.rows}
    per = result.compared_for.clause
    lines: Report = []
    for one in result.deployments:
        kind = result.fastest_words if one.kind == "fastest" else one.kind
        lines.append(
            f"  {kind}: K={one.nodes}, {compared_cost(rows[one.nodes], result)}, "
            f"{time_cell(rows[one.nodes], result)}{' a run' if per else ''}; gives up "
            f"{one.gives_up}."
        )
    speed = result.price_of_speed
    if result.cheapest.nodes != result.fastest.nodes:
        times = "" if speed.cost_ratio is None else f"{speed.cost_ratio:.2f}x the cost to go "
        lines.append(
            f"  Price of speed: {money(speed.extra_cost)}{result.compared_for.label} from "
            f"K={result.cheapest.nodes} to K={result.fastest.nodes}: {times}"
            f"{speed.speed_ratio:.2f}x faster."
        )
    if result.cheapest_low is not None and result.cheapest_low != result.cheapest_high:
        lines.append(
            f"  The cheapest{per} lies between K={result.cheapest_low} and "
            f"K={result.cheapest_high} with 95 % probability."
        )
    lines.append(f"  Within 1 % of the lowest cost{per}: K={listed(result.within_1_percent)}.")
    lines.append(f"  Pareto-optimal in time and cost{per}: K={listed(result.frontier)}.")
    if result.pareto != result.frontier:
        lines.append(
            f"  Pareto-optimal in time, cost, energy and quality{per}: K={listed(result.pareto)}."
        )
    if result.least_regret is not None and result.has_ranges:
        regret = result.row(result.least_regret.nodes)
        expected, tail = regret.expected_regret or 0.0, regret.regret_p95 or 0.0
        lines.append(
            f"  Least regret over the ranges: K={regret.nodes}, {money(expected)} "
            f"expected, {money(tail)} in the worst of 20 draws."
        )
    steps = result.marginal if len(result.marginal) < MOST_ROWS else result.doublings
    if steps:
        lines.append(marginal_table(steps, result))
    if result.first_unfavourable_doubling:
        low, high = result.first_unfavourable_doubling
        lines.append(f"  First doubling that raises the cost{per}: {low} -> {high}.")
    if result.price.is_money:
        over = ", ".join(
            f"K={row.nodes} {row.cost_multiplier:.2f}x" for row in rows_to_show(result)
        )
        hours = f"{capitalised(result.unit.unit)}-hours"
        lines.append(f"  {hours} relative to ideal scaling (1/efficiency): {over}.")
    return lines


def listed(scales: Iterable[int]) -> str:
    """Scales in words; of very many the first and the last."""
    named = [str(nodes) for nodes in scales]
    if len(named) > MOST_ROWS:
        return f"{named[0]}..{named[-1]}"
    return ", ".join(named)
