"""How many replicas: the cheapest token within its latency limit, for a demand or a day of it.

    cost per million tokens = 1e6 * (replicas * price + fixed) / 3600 / good tokens per second

Good tokens are those of requests that kept every limit. `allocation` divides what the fleet costs
by the tokens of the demand (of a day, where it is a curve), and so adds up to the bill; `usage`
divides it by the tokens of the highest rate that it serves within the limit, and so prices the
tokens alone. Their ratio is the utilisation, demand / highest rate. Efficiency is the estimated
capacity of each replica, against that of the smallest fleet.

A number of replicas is chosen only where it was measured and serves the demand for certain.
Where a cheaper one may serve it too, the choice is undecided between them. What lies between two
that were measured, or was simulated, is named as worth measuring.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.prices.bill import Price
from nodewise.fleet.capacity import Capacity, Evidence, capacities, last_tries
from nodewise.fleet.causes import break_causes
from nodewise.fleet.cost import (
    REPLICA_HOURS,
    TokenCost,
    Unit,
    cost_per_million,
    fleet_per_hour,
    good_per_second,
    in_hours,
    mean,
    money_in_words,
    token_cost,
)
from nodewise.fleet.day import DayRow, Demand, a_day, rate_at
from nodewise.fleet.fleet_checks import fleet_checks
from nodewise.fleet.latency import Percentile, Served, judged
from nodewise.study.check import Check
from nodewise.study.service_objective import TITLES, Objective, format_share
from nodewise.study.window import Summary, Window

Goal = Literal["cost", "throughput", "latency"]

_TIE = 0.02  # costs that differ by less are alike: nothing depends on the choice


class FleetQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wanted of a fleet, and what it must keep."""

    objective: Objective
    goal: Goal = "cost"
    demand_per_second: float | None = None  # requests; the throughput floor
    demand_curve: tuple[float, ...] = ()  # requests per second in equal parts of a day
    curve_days: float = 1.0  # that the curve lasts
    startup_seconds: float = 0.0  # of a replica that an autoscaler adds
    spares: int = 0  # replicas that may be lost while the demand is still served

    def __post_init__(self) -> None:
        """Refuse a question without an answer."""
        rates = [*self.demand_curve, self.demand_per_second or 0.0, self.startup_seconds]
        if not all(math.isfinite(rate) and rate >= 0 for rate in rates) or self.spares < 0:
            raise SpecError("A demand, a start-up time or spares are below 0.", "Write 0 or more.")
        if self.goal == "latency" and not self.floor:
            raise SpecError(
                "The lowest latency needs a throughput that must be kept.",
                "Give the requests per second with --demand.",
            )

    @property
    def floor(self) -> float | None:
        """Requests per second that must be served: the demand, or the peak of its curve."""
        if self.demand_per_second:
            return self.demand_per_second
        return max(self.demand_curve, default=0.0) or None

    @property
    def is_day(self) -> bool:
        """Whether the demand is the curve: the fleet is sized by its peak and paid for all day."""
        return not self.demand_per_second and self.floor is not None

    @property
    def billed_per_second(self) -> float | None:
        """Requests per second over which the bill is spread: the demand, on average over a day."""
        return fmean(self.demand_curve) if self.is_day else self.floor


class FleetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A number of replicas: what it serves within the limit, and what a token costs there."""

    replicas: int
    evidence: Evidence
    rounds: int
    rate_per_second: float  # the highest that keeps the objective for certain; 0: none does
    breaks_at: float | None  # the lowest rate above it that breaks the objective for certain
    estimate: float | None  # of the capacity between the two
    efficiency: float | None
    good_per_second: float  # tokens of good answers; good requests where tokens are not known
    utilisation: float | None = None  # of the highest rate, by the demand
    allocation: TokenCost | None = None
    usage: TokenCost | None = None
    blended: float | None = None  # for a million tokens of prompts and answers, as allocation
    joules_per_million: float | None = None
    latency_at_floor: float | None = None  # the objective's first metric at its share
    latency_low: float | None = None
    latency_high: float | None = None
    rate_one_lost: float | None = None
    meets: bool = False  # for certain
    undecided: bool = False  # whether it meets the question
    why: str = ""


class FleetDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The number of replicas, what it gives up, and what it rests on."""

    name: str
    question: FleetQuestion
    objective: str  # what is made best, in words
    constraint: str
    unit: Unit
    price: Price
    rows: tuple[FleetRow, ...]
    chosen: int | None
    rivals: tuple[int, ...]  # numbers that may be better than the chosen one: it is undecided
    because: str
    most_throughput: int | None
    gap_per_million: float | None  # what a token of the largest throughput costs more
    untried: int | None  # a number that was not measured and may be the better one
    untried_because: str
    day: tuple[DayRow, ...]
    windows: tuple[Served, ...]  # without those that were tried again
    checks: tuple[Check, ...]
    causes: tuple[str, ...] = ()  # why a rate broke, by the metrics of the servers
    notes: tuple[str, ...] = ()

    def row(self, replicas: int) -> FleetRow:
        """The row of a number of replicas."""
        return next(row for row in self.rows if row.replicas == replicas)


def decide_fleet(
    name: str,
    windows: Sequence[Window | Summary],
    question: FleetQuestion,
    price: Price | None = None,
) -> FleetDecision:
    """The number of replicas that answers the question best among those that were run."""
    if not windows:
        raise DataError("No measured window to decide from.", "Give the windows of a sweep.")
    price = in_hours(price or Price())
    last = last_tries([judged(window, question.objective) for window in windows])
    seen = tuple(one.served for one in last)
    unit: Unit = "tokens" if any(one.output_tokens_per_second for one in seen) else "requests"
    found = capacities(last, question.objective)
    rows = tuple(_row(question, price, found, replicas, seen, unit) for replicas in sorted(found))
    measured = [row for row in rows if row.evidence == "measured"]
    able = [row for row in measured if row.meets]
    chosen = _choose(able, question.goal)
    widest = max(
        (row for row in measured if row.rate_per_second),
        key=lambda row: (row.good_per_second, -row.replicas),
        default=None,
    )
    untried, untried_because = _untried(rows, chosen, question)
    goal, constraint = _words(question, price, unit)
    rates = {count: one.rate for count, one in found.items() if one.rate}
    tokens = _tokens_per_request(rows, chosen)
    demand = Demand(
        curve=question.demand_curve,
        days=question.curve_days,
        spares=question.spares,
        startup_seconds=question.startup_seconds,
    )
    day, no_day = a_day(demand, rates, tokens, price)
    return FleetDecision(
        name=name,
        question=question,
        objective=goal,
        constraint=constraint,
        unit=unit,
        price=price,
        rows=rows,
        chosen=None if chosen is None else chosen.replicas,
        rivals=_rivals(measured, chosen, question),
        because=_because(chosen, able, measured, question),
        most_throughput=None if widest is None else widest.replicas,
        gap_per_million=_gap(widest, chosen),
        untried=untried,
        untried_because=untried_because,
        day=day,
        windows=seen,
        checks=fleet_checks(seen, found, question.objective),
        causes=break_causes(windows, {count: one.breaks_at for count, one in found.items()}),
        notes=(*_notes(windows, price, unit), *no_day),
    )


def _rates(found: dict[int, Capacity]) -> dict[int, float]:
    return {count: one.rate for count, one in found.items()}


def _row(
    question: FleetQuestion,
    price: Price,
    found: dict[int, Capacity],
    replicas: int,
    seen: Sequence[Served],
    unit: Unit,
) -> FleetRow:
    own = found[replicas]
    bounded = [count for count, one in found.items() if one.rate and one.breaks_at]
    base = min(bounded, default=None)
    unit_rate = (found[base].estimate or 0.0) / base if base is not None else 0.0
    row = FleetRow(
        replicas=replicas,
        evidence=own.evidence,
        rounds=own.rounds,
        rate_per_second=own.rate,
        breaks_at=own.breaks_at,
        estimate=own.estimate,
        efficiency=(own.estimate or 0.0) / replicas / unit_rate if replicas in bounded else None,
        good_per_second=good_per_second(own.best, unit)[0],
    )
    if own.rate:
        row = _priced(row, question, price, own, unit)
    row = _with_latency(row, question, seen)
    fewer = found.get(replicas - 1)
    unknown = fewer is not None and not fewer.rate  # broken at every rate that was tried
    lost = None if unknown else rate_at(replicas - 1, _rates(found))
    why, undecided = _why_not(row, question, found, seen)
    return msgspec.structs.replace(
        row, rate_one_lost=lost, meets=not why, undecided=undecided, why=why
    )


def _priced(
    row: FleetRow, question: FleetQuestion, price: Price, capacity: Capacity, unit: Unit
) -> FleetRow:
    per_hour = fleet_per_hour(price, row.replicas)
    billed = question.billed_per_second
    good = good_per_second(capacity.best, unit)
    if not good[0]:
        return row
    # at the demand the answers are as long, only fewer; at the highest rate most of them miss
    share = min(billed / mean(capacity.best, "offered_per_second"), 1.0) if billed else 1.0
    prompts = mean(capacity.best, "attainment") * mean(capacity.best, "input_tokens_per_second")
    joules = [
        one.joules_per_million_good_tokens
        for one in capacity.best
        if one.joules_per_million_good_tokens is not None
    ]
    # the capacity is at most the rate that breaks: a token may be as much cheaper
    most = good[2] * row.breaks_at / capacity.rate if row.breaks_at else float("inf")
    usage = (good[0], good[1], most)
    return msgspec.structs.replace(
        row,
        utilisation=billed / capacity.rate if billed else None,
        allocation=token_cost(per_hour, good if billed else usage, share),
        usage=token_cost(per_hour, usage, 1.0),
        blended=cost_per_million(per_hour, (good[0] + prompts) * share) if prompts else None,
        joules_per_million=fmean(joules) if joules else None,
    )


def _tokens_per_request(rows: Sequence[FleetRow], chosen: FleetRow | None) -> float:
    """Good tokens of a request that is offered to the chosen fleet, or to the smallest able one."""
    able = [row for row in rows if row.rate_per_second]
    if not able:
        return 0.0
    base = chosen if chosen in able else able[0]
    return base.good_per_second / base.rate_per_second


def _with_latency(row: FleetRow, question: FleetQuestion, seen: Sequence[Served]) -> FleetRow:
    found = [
        (one.low, one.seconds, one.high)
        for one in _percentiles_at_floor(row, question, seen)
        if one.seconds is not None
    ]
    if not found:
        return row
    return msgspec.structs.replace(
        row,
        latency_at_floor=fmean(seconds for _, seconds, _ in found),
        latency_low=min(seconds if low is None else low for low, seconds, _ in found),
        latency_high=max(seconds if high is None else high for _, seconds, high in found),
    )


def _percentiles_at_floor(
    row: FleetRow, question: FleetQuestion, seen: Sequence[Served]
) -> list[Percentile]:
    """The first metric of the objective at its share, in the windows nearest above the floor."""
    own = [one for one in _steady(row, question, seen) if one.replicas == row.replicas]
    if question.floor is None:
        own = [one for one in own if one.offered_per_second <= row.rate_per_second]
    pick = max if question.floor is None else min
    rate = pick((one.offered_per_second for one in own), default=0.0)
    return [one.percentile_of(question.objective) for one in own if one.offered_per_second == rate]


def _steady(row: FleetRow, question: FleetQuestion, seen: Sequence[Served]) -> list[Served]:
    """The windows at the floor or above, of any fleet, that are evidence as a row's own are."""
    floor = question.floor or 0.0
    return [
        one
        for one in seen
        if one.simulated == (row.evidence == "simulated")
        and one.is_steady
        and one.offered_per_second >= floor * (1 - 1e-9)
    ]


def _why_not(
    row: FleetRow,
    question: FleetQuestion,
    found: dict[int, Capacity],
    seen: Sequence[Served],
) -> tuple[str, bool]:
    """Why a fleet is excluded, or may be; nothing if it meets it for certain."""
    floor, own = question.floor, found[row.replicas]
    if own.never_ran:
        return own.never_ran, False
    if question.goal == "latency":
        return _why_not_quick(row, question, seen), False
    if floor is None:
        why = "" if row.rate_per_second else "no rate that was tried keeps the objective"
        return why, bool(why) and not own.breaks_at
    serves = own.serves(floor)
    if serves == "missed":
        return f"serves {_at_most(row)} of {floor:.4g} requests/s", False
    if serves == "undecided":
        return f"may serve {floor:.4g} requests/s: {_bracket(row)}", True
    if question.spares:
        return _why_not_spared(row, question, found, floor)
    return "", False


def _why_not_spared(
    row: FleetRow, question: FleetQuestion, found: dict[int, Capacity], floor: float
) -> tuple[str, bool]:
    """Why the demand is not served, or may not be, by what is left of a fleet."""
    left = row.replicas - question.spares
    sure = rate_at(left, _rates(found)) or 0.0
    if sure >= floor * (1 - 1e-9):
        return "", False
    # a fleet that never broke may serve any rate
    most = {count: one.breaks_at or float("inf") for count, one in found.items()}
    possible = (rate_at(left, most) or 0.0) > floor
    verb = "may serve less than" if possible else f"it serves {sure:.4g} of"
    return f"with {question.spares} lost {verb} {floor:.4g} requests/s", possible


def _at_most(row: FleetRow) -> str:
    """What a fleet that breaks at the demand serves."""
    if row.rate_per_second:
        return f"{row.rate_per_second:.4g}"
    return f"less than {row.breaks_at:.4g}"


def _bracket(row: FleetRow) -> str:
    """Between which rates the capacity lies."""
    kept = f"kept at {row.rate_per_second:.4g}" if row.rate_per_second else "kept at no rate"
    return f"{kept}, broken at {row.breaks_at:.4g}" if row.breaks_at else f"{kept}, never broken"


def _why_not_quick(row: FleetRow, question: FleetQuestion, seen: Sequence[Served]) -> str:
    """Why the latency at the floor is not known, or the floor not served by what is left."""
    floor, spares = question.floor, question.spares
    if row.latency_at_floor is None:
        known = _percentiles_at_floor(row, question, seen)
        if not known:
            return f"no window at {floor:g} requests/s or more shows its latency"
        return f"its {_lowest(question)} is not known: {known[0].why}"
    answered = [
        one.replicas
        for one in _steady(row, question, seen)
        if one.percentile_of(question.objective).seconds is not None
    ]
    if min(answered) > row.replicas - spares:
        return f"with {spares} lost no window shows that {floor:g} requests/s are served"
    return ""


def _lowest(question: FleetQuestion) -> str:
    """What the goal latency makes lowest."""
    objective = question.objective
    return f"{TITLES[objective.metric]} of {format_share(objective.share)} of the requests"


def _choose(able: Sequence[FleetRow], goal: Goal) -> FleetRow | None:
    if not able:
        return None
    if goal == "throughput":
        return max(able, key=lambda row: (row.good_per_second, -row.replicas))
    if goal == "latency":
        best = min(able, key=lambda row: row.latency_at_floor or 0.0)
        # the fewest replicas that may be as quick as the best
        alike = [row for row in able if (row.latency_low or 0.0) <= (best.latency_high or 0.0)]
        return min(alike, key=lambda row: row.replicas)
    return min(able, key=lambda row: (_amount(row), row.replicas))


def _rivals(
    measured: Sequence[FleetRow], chosen: FleetRow | None, question: FleetQuestion
) -> tuple[int, ...]:
    """Fleets that may meet the question and be better than the chosen one."""
    if question.goal == "latency":
        return ()
    able = [row for row in measured if row.undecided or (row.meets and row is not chosen)]
    return tuple(row.replicas for row in able if _may_be_better(row, chosen, question))


def _may_be_better(row: FleetRow, chosen: FleetRow | None, question: FleetQuestion) -> bool:
    if chosen is None:
        return row.undecided
    if question.goal == "throughput":
        most = float("inf") if row.breaks_at is None else row.breaks_at
        return most > (chosen.estimate or 0.0)
    if question.floor is not None:  # the bill grows with the replicas, the tokens do not
        return row.undecided and row.replicas < chosen.replicas
    if row.usage is None or chosen.usage is None:
        return row.undecided
    return row.usage.low < chosen.usage.amount * (1 - _TIE) and row.usage.high >= chosen.usage.low


def _amount(row: FleetRow) -> float:
    return float("inf") if row.allocation is None else row.allocation.amount


def _because(
    chosen: FleetRow | None,
    able: Sequence[FleetRow],
    measured: Sequence[FleetRow],
    question: FleetQuestion,
) -> str:
    if chosen is None:
        reasons = "; ".join(f"r={row.replicas} {row.why}" for row in measured)
        return f"none of the measured fleets meets the question: {reasons}"
    others = len(able) - 1
    alone = "the only measured fleet that meets it"
    of = f"of {others + 1} that meet the constraint" if others else alone
    if question.goal == "throughput":
        return f"it serves the most, {of}"
    if question.goal == "latency":
        metric = TITLES[question.objective.metric]
        return f"no fewer replicas have a {metric} as low at that rate, {of}"
    return f"it is the cheapest {of}" if others else f"it is {of}"


def _gap(widest: FleetRow | None, chosen: FleetRow | None) -> float | None:
    if widest is None or chosen is None or not (widest.allocation and chosen.allocation):
        return None
    return widest.allocation.amount - chosen.allocation.amount


def _untried(
    rows: Sequence[FleetRow], chosen: FleetRow | None, question: FleetQuestion
) -> tuple[int | None, str]:
    """A number that was not run, and that would be cheaper if it is what it looks like."""
    floor = question.floor
    if question.goal != "cost" or not floor:
        return None, ""
    for row in rows:
        cheaper = chosen is None or _amount(row) < _amount(chosen)
        if row.evidence == "simulated" and row.meets and cheaper:
            return row.replicas, f"simulated to serve {row.rate_per_second:.4g} requests/s"
    rates = {row.replicas: row.rate_per_second for row in rows}
    for count in range(1, chosen.replicas if chosen else 0):
        rate, left = rate_at(count, rates), rate_at(count - question.spares, rates)
        enough = rate is not None and left is not None and min(rate, left) >= floor
        if enough and count not in rates:
            return count, f"by interpolation between its neighbours it serves {rate:.4g} requests/s"
    return None, ""


def _words(question: FleetQuestion, price: Price, unit: Unit) -> tuple[str, str]:
    """What is made best, and what must be kept."""
    limit = question.objective.words
    floor = question.floor
    demand = "" if floor is None else f" and at least {floor:g} requests/s"
    spare = "" if not question.spares else f", also with {question.spares} lost"
    if question.goal == "throughput":
        return f"most good {unit} a second", f"{limit}{demand}{spare}"
    if question.goal == "latency":
        return f"lowest {_lowest(question)}", f"at least {floor:g} requests/s{spare}"
    return f"least {money_in_words(price)} for a million good {unit}", f"{limit}{demand}{spare}"


def _notes(windows: Sequence[Window | Summary], price: Price, unit: Unit) -> tuple[str, ...]:
    notes = list(dict.fromkeys(note for window in windows for note in window.notes))
    tools = sorted({one.tool for one in windows if isinstance(one, Summary) and one.tool})
    if tools:
        notes.append(
            f"{', '.join(tools)} kept summaries, not requests: the spread of tokens, trends and "
            "the load of the client are unknown."
        )
    if unit == "requests":
        notes.append("No window has tokens, so the unit of cost is a million good requests.")
    if price.currency == REPLICA_HOURS:
        notes.append("No price is given: costs are hours of a replica.")
    return tuple(notes)
