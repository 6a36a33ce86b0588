"""How many replicas: the cheapest token within its latency limit, for a demand or a day of it.

    cost per million tokens = 1e6 * (replicas * price + fixed) / 3600 / good tokens per second

Good tokens are those of requests that kept every limit. `allocation` divides what the fleet costs
by the tokens of the demand, and so adds up to the bill; `usage` divides it by the tokens of the
highest rate that it serves within the limit, and so prices the tokens alone. Their ratio is the
utilisation, demand / highest rate. Efficiency is the highest rate for each replica, against that of
the smallest fleet. A number of replicas is chosen only where it was measured; what lies between
two that were, or was simulated, is named as worth measuring.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.base.units import SECONDS_PER_HOUR
from nodewise.decide.prices.bill import Price
from nodewise.fleet.latency import Percentile, Served, served
from nodewise.study.check import Check
from nodewise.study.service_objective import TITLES, Objective, format_share
from nodewise.study.study import Run, Study
from nodewise.study.window import Summary, Window

Goal = Literal["cost", "throughput", "latency"]
Evidence = Literal["measured", "simulated"]
Unit = Literal["tokens", "requests"]

REPLICA_HOURS = "replica-h"  # the currency where no price is given

_MILLION = 1e6
_DAY_SECONDS = 24 * SECONDS_PER_HOUR
_STUDY_REQUESTS = 1000  # the job of a fleet's study


class FleetQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wanted of a fleet, and what it must keep."""

    objective: Objective
    goal: Goal = "cost"
    demand_per_second: float | None = None  # requests; the throughput floor
    demand_curve: tuple[float, ...] = ()  # requests per second in equal parts of a day
    spares: int = 0  # replicas that may be lost while the demand is still served

    def __post_init__(self) -> None:
        """Refuse a question without an answer."""
        rates = [*self.demand_curve, self.demand_per_second or 0.0]
        if not all(math.isfinite(rate) and rate >= 0 for rate in rates) or self.spares < 0:
            raise SpecError("A demand or a number of spares is below 0.", "Write 0 or more.")
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


class TokenCost(msgspec.Struct, frozen=True, kw_only=True):
    """Money for a million good output tokens, with what the tokens' own spread leaves open."""

    amount: float
    low: float
    high: float


class FleetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A number of replicas: what it serves within the limit, and what a token costs there."""

    replicas: int
    evidence: Evidence
    rounds: int
    rate_per_second: float  # the highest that keeps the objective; 0: none does
    rate_low: float  # the least and the most of the rounds
    rate_high: float
    breaks_at: float | None  # the lowest rate above it that was found not to keep it
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
    meets: bool = False
    why: str = ""


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve a day of demand."""

    way: str
    replicas: float  # on average
    most: int
    cost_per_day: float
    cost_per_million: float


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
    because: str
    most_throughput: int | None
    gap_per_million: float | None  # what a token of the largest throughput costs more
    untried: int | None  # a number that was not measured and may be the better one
    untried_because: str
    day: tuple[DayRow, ...]
    windows: tuple[Served, ...]  # without those that were tried again
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    def row(self, replicas: int) -> FleetRow:
        """The row of a number of replicas."""
        return next(row for row in self.rows if row.replicas == replicas)


def fleet_per_hour(price: Price, replicas: float) -> float:
    """What a fleet costs an hour: its replicas and what runs beside them.

    >>> fleet_per_hour(Price(per_node_hour=2.10, fixed_per_hour=9.0), 8)
    25.8
    """
    return (
        replicas * (price.per_node_hour or 0.0)
        + price.fixed_per_hour
        + (price.storage_per_hour or 0.0)
    )


def cost_per_million(per_hour: float, tokens_per_second: float) -> float:
    """Money for a million tokens.

    >>> round(cost_per_million(2.10, 1000.0), 4)
    0.5833
    """
    return _MILLION * per_hour / SECONDS_PER_HOUR / tokens_per_second


def decide_fleet(
    name: str,
    windows: Sequence[Window | Summary],
    question: FleetQuestion,
    price: Price | None = None,
) -> FleetDecision:
    """The number of replicas that answers the question best among those that were run."""
    if not windows:
        raise DataError("There is no window to decide from.", "Hand in the windows of a sweep.")
    price = _in_hours(price or Price())
    seen = _last_words([served(window, question.objective) for window in windows])
    unit: Unit = "tokens" if any(one.output_tokens_per_second for one in seen) else "requests"
    capacities = _capacities(seen)
    rows = tuple(
        _row(question, price, capacities, replicas, seen, unit) for replicas in sorted(capacities)
    )
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
    day, no_day = _day(question, price, capacities, rows, chosen)
    return FleetDecision(
        name=name,
        question=question,
        objective=goal,
        constraint=constraint,
        unit=unit,
        price=price,
        rows=rows,
        chosen=None if chosen is None else chosen.replicas,
        because=_because(chosen, able, measured, question),
        most_throughput=None if widest is None else widest.replicas,
        gap_per_million=_gap(widest, chosen),
        untried=untried,
        untried_because=untried_because,
        day=day,
        windows=seen,
        checks=_checks(seen, rows),
        notes=(*_notes(windows, price, unit), *no_day),
    )


def _in_hours(price: Price) -> Price:
    """A price that names no replica counts the hours of replicas, and no money."""
    if price.per_node_hour is not None:
        return price
    if price.prices_the_hour:
        raise SpecError(
            "There is a price beside the replicas, and none of a replica.",
            "Give the price of a replica too: --price, or price.per_replica_hour in the spec.",
        )
    return msgspec.structs.replace(price, per_node_hour=1.0, currency=REPLICA_HOURS)


class _Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate of each round that keeps the objective, and the windows that show it."""

    evidence: Evidence
    best: tuple[Served, ...]  # one a round; none where no rate was kept
    rounds: int
    breaks_at: float | None
    never_ran: str  # why, where no window holds a request

    @property
    def rates(self) -> list[float]:
        kept = [one.offered_per_second for one in self.best]
        return kept + [0.0] * (self.rounds - len(kept))

    @property
    def rate(self) -> float:
        return float(median(self.rates))


def _capacities(seen: Sequence[Served]) -> dict[int, _Capacity]:
    measured = {one.replicas for one in seen if not one.simulated}
    found: dict[int, _Capacity] = {}
    for replicas in sorted({one.replicas for one in seen}):
        simulated = replicas not in measured
        own = [one for one in seen if one.replicas == replicas and one.simulated == simulated]
        rounds: dict[int, list[Served]] = {}
        for one in own:
            rounds.setdefault(one.round, []).append(one)
        tops = [_highest(group) for group in rounds.values()]
        best = tuple(one for one in tops if one is not None)
        rate = max((one.offered_per_second for one in best), default=0.0)
        broken = [one.offered_per_second for one in own if _breaks(one)]
        found[replicas] = _Capacity(
            evidence="simulated" if simulated else "measured",
            best=best,
            rounds=len(rounds),
            breaks_at=min((one for one in broken if one > rate), default=None),
            never_ran="" if any(one.requests for one in own) else own[0].why,
        )
    return found


def _last_words(seen: Sequence[Served]) -> tuple[Served, ...]:
    """Without the windows in which a replica died, where the rate was tried again.

    A restart that failed is a window without requests; it speaks for a round that has no other.
    """

    def group(one: Served) -> tuple[int, int, bool]:
        return one.replicas, one.round, one.simulated

    def key(one: Served) -> tuple[int, int, bool, float]:
        return *group(one), one.offered_per_second

    ran = {group(one) for one in seen if one.requests}
    seen = [one for one in seen if one.requests or group(one) not in ran]
    whole = {key(one) for one in seen if not one.died}
    return tuple(one for one in seen if not one.died or key(one) not in whole)


def _breaks(one: Served) -> bool:
    return one.verdict == "missed" or (one.verdict == "void" and not one.is_client_fault)


def _highest(group: Sequence[Served]) -> Served | None:
    """The highest rate that is kept, below all that are not: a lucky window counts for nothing."""
    first_broken = min(
        (one.offered_per_second for one in group if _breaks(one)), default=float("inf")
    )
    kept = [one for one in group if one.verdict == "met" and one.offered_per_second < first_broken]
    return max(kept, key=lambda one: one.offered_per_second, default=None)


def _rate_at(replicas: int, rates: dict[int, float]) -> float | None:
    """The highest rate of a fleet: as run, or on the line between two that were; else unknown.

    >>> _rate_at(3, {1: 10.0, 2: 20.0, 4: 36.0}), _rate_at(5, {4: 36.0})
    (28.0, None)
    """
    above = [count for count in rates if count >= replicas]
    if replicas <= 0 or not above:
        return None if replicas > 0 else 0.0
    right = min(above)
    left = max((count for count in rates if count <= replicas), default=0)
    low = rates.get(left, 0.0)
    if left == right:
        return low
    return low + (replicas - left) / (right - left) * (rates[right] - low)


def _rates(capacities: dict[int, _Capacity]) -> dict[int, float]:
    return {count: one.rate for count, one in capacities.items()}


def _row(
    question: FleetQuestion,
    price: Price,
    capacities: dict[int, _Capacity],
    replicas: int,
    seen: Sequence[Served],
    unit: Unit,
) -> FleetRow:
    capacity = capacities[replicas]
    base = min((count for count, one in capacities.items() if one.rate), default=None)
    row = FleetRow(
        replicas=replicas,
        evidence=capacity.evidence,
        rounds=capacity.rounds,
        rate_per_second=capacity.rate,
        rate_low=min(capacity.rates, default=0.0),
        rate_high=max(capacity.rates, default=0.0),
        breaks_at=capacity.breaks_at,
        efficiency=(
            capacity.rate / replicas / (capacities[base].rate / base) if base is not None else None
        ),
        good_per_second=_good(capacity.best, unit)[0],
    )
    if capacity.rate:
        row = _priced(row, question, price, capacity, unit)
    row = _with_latency(row, question, seen)
    lost = _rate_at(replicas - 1, _rates(capacities))
    why = _why_not(row, question, capacities, seen)
    return msgspec.structs.replace(row, rate_one_lost=lost, meets=not why, why=why)


def _mean(windows: Sequence[Served], name: str) -> float:
    return fmean(float(getattr(one, name)) for one in windows) if windows else 0.0


def _good(windows: Sequence[Served], unit: Unit) -> tuple[float, float, float]:
    """Good tokens or requests a second, over the rounds: the amount and its bounds."""
    if unit == "tokens":
        amount, low, high = (
            _mean(windows, f"good_tokens_per_second{end}") for end in ("", "_low", "_high")
        )
        return amount, low, high
    rate = _mean(windows, "good_requests_per_second")
    whole = rate / (_mean(windows, "attainment") or 1.0)
    return (
        rate,
        whole * _mean(windows, "attainment_low"),
        whole * _mean(windows, "attainment_high"),
    )


def _priced(
    row: FleetRow, question: FleetQuestion, price: Price, capacity: _Capacity, unit: Unit
) -> FleetRow:
    per_hour = fleet_per_hour(price, row.replicas)
    floor = question.floor
    good = _good(capacity.best, unit)
    if not good[0]:
        return row
    # at the demand the answers are as long, only fewer; at the highest rate most of them miss
    share = min(floor / _mean(capacity.best, "offered_per_second"), 1.0) if floor else 1.0
    prompts = _mean(capacity.best, "attainment") * _mean(capacity.best, "input_tokens_per_second")
    joules = [
        one.joules_per_million_good_tokens
        for one in capacity.best
        if one.joules_per_million_good_tokens is not None
    ]
    return msgspec.structs.replace(
        row,
        utilisation=floor / capacity.rate if floor else None,
        allocation=_token_cost(per_hour, good, share),
        usage=_token_cost(per_hour, good, 1.0),
        blended=cost_per_million(per_hour, (good[0] + prompts) * share) if prompts else None,
        joules_per_million=fmean(joules) if joules else None,
    )


def _token_cost(per_hour: float, good: tuple[float, float, float], share: float) -> TokenCost:
    amount, low, high = good
    return TokenCost(
        amount=cost_per_million(per_hour, amount * share),
        low=cost_per_million(per_hour, high * share),
        high=cost_per_million(per_hour, low * share) if low > 0 else float("inf"),
    )


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
        and one.verdict != "void"
        and one.offered_per_second >= floor * (1 - 1e-9)
    ]


def _why_not(
    row: FleetRow,
    question: FleetQuestion,
    capacities: dict[int, _Capacity],
    seen: Sequence[Served],
) -> str:
    """Why a fleet is out of the question, or nothing."""
    floor = question.floor
    if capacities[row.replicas].never_ran:
        return capacities[row.replicas].never_ran
    if question.goal == "latency":
        return _why_not_told(row, question, seen)
    if not row.rate_per_second:
        return "no rate that was tried keeps the objective"
    if floor is None:
        return ""
    if row.rate_per_second < floor * (1 - 1e-9):
        return f"serves {row.rate_per_second:.4g} of {floor:.4g} requests/s"
    if question.spares:
        left = _rate_at(row.replicas - question.spares, _rates(capacities))
        if left is None or left < floor * (1 - 1e-9):
            return (
                f"with {question.spares} lost it serves {left or 0.0:.4g} of {floor:.4g} requests/s"
            )
    return ""


def _why_not_told(row: FleetRow, question: FleetQuestion, seen: Sequence[Served]) -> str:
    """Why the latency at the floor is not known, or the floor not served by what is left."""
    floor, spares = question.floor, question.spares
    if row.latency_at_floor is None:
        told = _percentiles_at_floor(row, question, seen)
        if not told:
            return f"no window at {floor:g} requests/s or more shows its latency"
        return f"its {_lowest(question)} is not known: {told[0].why}"
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
        # the fewest replicas that cannot be told from the best
        alike = [row for row in able if (row.latency_low or 0.0) <= (best.latency_high or 0.0)]
        return min(alike, key=lambda row: row.replicas)
    return min(able, key=lambda row: (_amount(row), row.replicas))


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
    of = f"of {others + 1} that meet the constraint" if others else "the only one that meets it"
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
    """A number that nobody ran, and that would be cheaper if it is what it looks like."""
    floor = question.floor
    if question.goal != "cost" or not floor:
        return None, ""
    for row in rows:
        cheaper = chosen is None or _amount(row) < _amount(chosen)
        if row.evidence == "simulated" and row.meets and cheaper:
            return row.replicas, f"simulated to serve {row.rate_per_second:.4g} requests/s"
    rates = {row.replicas: row.rate_per_second for row in rows}
    for count in range(1, chosen.replicas if chosen else 0):
        rate, left = _rate_at(count, rates), _rate_at(count - question.spares, rates)
        enough = rate is not None and left is not None and min(rate, left) >= floor
        if enough and count not in rates:
            return count, f"on the line between its neighbours it serves {rate:.4g} requests/s"
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


def money_in_words(price: Price) -> str:
    """What costs are counted in."""
    return "replica-hours" if price.currency == REPLICA_HOURS else price.currency


def _day(
    question: FleetQuestion,
    price: Price,
    capacities: dict[int, _Capacity],
    rows: Sequence[FleetRow],
    chosen: FleetRow | None,
) -> tuple[tuple[DayRow, ...], tuple[str, ...]]:
    """A day of demand: a fleet for its peak, and an autoscaler that is always right at once.

    Where a part of the day cannot be served there are no rows, but the reason.
    """
    curve = question.demand_curve
    peak = max(curve, default=0.0)
    if not peak:
        return (), ()
    rates = {count: one.rate for count, one in capacities.items() if one.rate}
    most = max(rates.values(), default=0.0)
    counts = [count for count in (_fewest(rate, rates) for rate in curve) if count is not None]
    if len(counts) < len(curve):
        why = f"its peak is {peak:.4g} requests/s, and no fleet serves more than {most:.4g}"
        return (), (f"The day of demand has no price: {why}.",)
    able = [row for row in rows if row.rate_per_second]
    base = chosen if chosen in able else min(able, key=lambda row: row.replicas)
    tokens = fmean(curve) * _DAY_SECONDS * base.good_per_second / base.rate_per_second
    ways = [
        ("one fleet for the peak", [max(counts)] * len(counts)),
        ("autoscaler, always right (a bound)", counts),
    ]
    if question.spares:
        extra = f" and {question.spares} spare"
        ways += [(way + extra, [one + question.spares for one in used]) for way, used in ways]
    made = []
    for way, used in ways:
        hourly = fmean(fleet_per_hour(price, one) for one in used)
        made.append(
            DayRow(
                way=way,
                replicas=fmean(used),
                most=max(used),
                cost_per_day=24 * hourly,
                cost_per_million=_MILLION * 24 * hourly / tokens if tokens else float("inf"),
            )
        )
    return tuple(made), ()


def _fewest(rate: float, rates: dict[int, float]) -> int | None:
    for count in range(max(rates, default=0) + 1):
        served_rate = _rate_at(count, rates)
        if served_rate is not None and served_rate >= rate * (1 - 1e-9):
            return count
    return None


def _checks(seen: Sequence[Served], rows: Sequence[FleetRow]) -> tuple[Check, ...]:
    measured = [one for one in seen if not one.simulated]
    faults = [one for one in measured if one.is_client_fault]
    few = [one for one in measured if one.verdict == "undecided"]
    open_ended = [
        str(row.replicas)
        for row in rows
        if row.evidence == "measured" and row.rate_per_second and row.breaks_at is None
    ]
    client = f"in none of {len(measured)} windows"
    remedy = ""
    if faults:
        first = faults[0]
        where = f"r={first.replicas} at {first.offered_per_second:.4g}/s: {first.why}"
        client = f"{len(faults)} of {len(measured)} windows are void; {where}"
        remedy = next(check.remedy for check in first.checks if check.verdict == "fail")
    undecided = f"{len(few)} of {len(measured)} windows are undecided"
    broken = "above the highest rate that is kept, one was found that is not"
    if open_ended:
        broken = f"r={', '.join(open_ended)} kept the highest rate that was tried"
    return (
        Check(
            rule="the client was not the bottleneck",
            verdict="fail" if faults else "pass",
            evidence=client,
            remedy=remedy,
        ),
        Check(
            rule="every window is long enough to decide",
            verdict="unknown" if few else "pass",
            evidence=f"{undecided}; {few[0].why}" if few else undecided,
            remedy="Lengthen the windows; they count as not kept." if few else "",
        ),
        Check(
            rule="every fleet was driven until it broke",
            verdict="unknown" if open_ended else "pass",
            evidence=broken,
            remedy="Raise the rate: these fleets may serve more." if open_ended else "",
        ),
    )


def _notes(windows: Sequence[Window | Summary], price: Price, unit: Unit) -> tuple[str, ...]:
    notes = list(dict.fromkeys(note for window in windows for note in window.notes))
    tools = sorted({one.tool for one in windows if isinstance(one, Summary) and one.tool})
    if tools:
        notes.append(
            f"{', '.join(tools)} kept figures, not requests: the spread of tokens, trends and how "
            "busy the client was are not known."
        )
    if unit == "requests":
        notes.append("No window knows tokens: the unit of cost is a million good requests.")
    if price.currency == REPLICA_HOURS:
        notes.append("No price is given: costs are hours of a replica.")
    return tuple(notes)


def fleet_study(name: str, windows: Sequence[Window | Summary], objective: Objective) -> Study:
    """The sweep as a study with K = replicas: the time for 1000 requests at the highest rate.

    So speedup is the rate against that of the smallest fleet, and every rule of a study applies.
    """
    seen = _last_words([served(window, objective) for window in windows])
    groups: dict[tuple[int, int], list[Served]] = {}
    for one in seen:
        if not one.simulated:
            groups.setdefault((one.replicas, one.round), []).append(one)
    started = {(one.replicas, one.round): one.started for one in windows if isinstance(one, Window)}
    runs = tuple(
        _run(replicas, round_, group, started.get((replicas, round_), ""))
        for (replicas, round_), group in sorted(groups.items())
    )
    return Study(
        name=name,
        regime="strong",
        runs=runs,
        notes=(
            f"K is replicas; a run is {_STUDY_REQUESTS} requests at the highest rate with "
            f"{objective.words}.",
        ),
    )


def _run(replicas: int, round_: int, group: Sequence[Served], started: str) -> Run:
    best = _highest(group)
    if best is None:
        lowest = min(group, key=lambda one: one.offered_per_second)
        return Run(
            nodes=replicas,
            round=round_,
            seconds=0.0,
            outcome="crashed",
            detail=f"no rate is kept; at {lowest.offered_per_second:.4g}/s: {lowest.why}",
            started=started,
        )
    seconds = _STUDY_REQUESTS / best.offered_per_second
    return Run(
        nodes=replicas,
        round=round_,
        seconds=seconds,
        work=float(_STUDY_REQUESTS),
        energy_joules=(
            best.joules_per_million_good_tokens
            * best.good_tokens_per_request
            * _STUDY_REQUESTS
            / _MILLION
            if best.joules_per_million_good_tokens is not None
            else None
        ),
        facts={
            "requests_per_second": best.offered_per_second,
            "requests": best.requests,
            "attainment": best.attainment,
            "good_tokens": best.good_tokens_per_request * _STUDY_REQUESTS,
        },
        started=started,
    )
