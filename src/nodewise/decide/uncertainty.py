"""Which scale is the cheapest when prices are ranges: regret, the tornado, flips.

A draw is a resample of the measured rounds with every input somewhere in its range. Over draws a
scale is chosen by its expected regret.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import DRAWS, SEED, Floats, plausible_reach, quantiles
from nodewise.decide.candidates import Candidates, longest_startup
from nodewise.decide.choose import TIE
from nodewise.decide.gates import Mask, refused_at_any_price
from nodewise.decide.inputs import (
    INPUTS,
    RANGED,
    Question,
    is_spot_only,
    replaced,
    value_of,
    with_value,
)
from nodewise.decide.objective import Judged, judge, least_costs, picks, reference_bill
from nodewise.decide.payment.ways import Paid, on_demand, on_spot, with_failures
from nodewise.decide.prices.bill import Bills, bill
from nodewise.explain.laws import Law
from nodewise.explain.quality import drawn_held

_SWING = 0.2  # how far an input is moved that has no range of its own
_REACH, _STEPS = 16.0, 16  # how far a flip is looked for: a sixteenth to sixteen times
_FAILING = {"mtbf", "checkpoint", "downtime", "restart"}  # what makes a run longer than its work
_FAILING_DRAWS = 200  # each is a model of its own
_MOST_ROUNDS = 100  # that anybody would add
_SURE_AFTER = 0.98  # of times that stay as they are; at 95 % every other set of rounds falls short
_PRICES_OFF = (0.5, 0.8, 1.2, 1.5)
# The line items that one price sets.
_ITEMS_OF_PRICE = {
    "node price": ("compute", "startup", "rounding"),
    "overhead": ("fixed",),
    "storage": ("storage",),
    "egress": ("egress",),
    "waiting": ("waiting",),
}


class Regret(msgspec.Struct, frozen=True):
    """What draws say about each scale; arrays by scale. A scale that is excluded has no regret."""

    share_cheapest: Floats
    share_right: Floats  # how likely each is the right choice under the objective
    expected: Floats
    p95: Floats
    between: tuple[int, int]  # the cheapest K of 95 % of the draws lies between these
    least: int  # the position of the least expected regret
    draws: int


class Swing(
    msgspec.Struct, frozen=True, kw_only=True,
    rename={"payment": "regime", "low_nodes": "K_low", "high_nodes": "K_high"},
):  # fmt: skip
    """The recommended scale with one input at either end, all others as they are."""

    input: str
    payment: str  # on-demand or spot
    low: float
    high: float
    is_range: bool  # false: 20 % off, because no range was given
    low_nodes: int
    high_nodes: int
    low_cost: float
    high_cost: float

    @property
    def moves(self) -> bool:
        """Whether the recommended scale is another one at one of the ends."""
        return self.low_nodes != self.high_nodes


class Flip(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The nearest value of an input beyond which another scale is recommended."""

    input: str
    now: float
    value: float
    side: str  # above or below
    nodes: int


class PriceOff(msgspec.Struct, frozen=True, kw_only=True, rename={"cheapest": "cheapest_K"}):
    """What the recommended scale costs, and which is the cheapest, when one price is off."""

    price: str  # the line items that it sets, in words
    factor: float
    cost: float
    cheapest: int
    least_cost: float


def regret_of(
    judged: Judged, question: Question, noise: Floats | None, more_rounds: Sequence[int] = ()
) -> Regret | None:
    """Chances and regrets of the scales that pass every gate, over draws.

    `noise` are plausible times over the measured ones, one row per draw, after so many
    `more_rounds` of each scale.
    A scale that misses the deadline or the budget by its measured times may keep it in a draw, and
    may then be right. One whose quality is undecided is right only in draws that hold the quality.
    Nothing if neither times nor inputs are spread, or no scale passes.
    """
    scales, allowed = judged.scales, judged.allowed
    moved = {
        name: given
        for name, given in question.ranges.items()
        if not is_spot_only(question, name) and value_of(question, name) is not None
    }
    if (noise is None and not moved) or not allowed.any():
        return None
    billed_all, total_all = _drawn_bills(scales, question, moved, noise)
    where = np.flatnonzero(allowed)
    billed, total = billed_all[:, where], total_all[:, where]
    speed = np.broadcast_to(scales.speedup / (1.0 if noise is None else noise), billed_all.shape)
    kept = _keeps_limits(judged, question, billed_all, noise, more_rounds)
    right = _right(judged, question, billed_all, total_all, speed, kept)
    winners = where[least_costs(billed, speed[:, where])]
    # one draw in twenty of few rounds is so far out that it would rule every mean
    low, high = quantiles(total, [0.025, 0.975])
    above = np.clip(total, low, high)
    above = above - above.min(axis=1, keepdims=True)
    expected, tail = np.zeros(len(allowed)), np.zeros(len(allowed))
    expected[where] = above.mean(axis=0)
    tail[where] = quantiles(above, [0.95])[0]
    first, last = np.quantile(np.array(scales.nodes)[winners], [0.025, 0.975], method="nearest")
    return Regret(
        share_cheapest=_shares(winners, len(allowed)),
        share_right=_shares(right, len(allowed)),
        expected=expected,
        p95=tail,
        between=(int(first), int(last)),
        least=int(where[np.argmin(expected[where])]),
        draws=len(billed),
    )


def _keeps_limits(
    judged: Judged,
    question: Question,
    billed: Floats,
    noise: Floats | None,
    more_rounds: Sequence[int],
) -> Mask:
    """Which scales pass every gate in each draw, by its own times, bills and drifts of quality."""
    scales, needs = judged.scales, question.needs
    open_ones = ~refused_at_any_price(scales, scales.price, needs, judged.bills)
    kept = np.broadcast_to(open_ones, billed.shape).copy()
    if scales.drifts is not None:
        limits = needs.quality_tolerance, needs.quality_better
        kept &= drawn_held(scales.drifts, *limits, len(billed), more_rounds)
    if needs.budget is not None:
        kept &= billed * scales.relative_work <= needs.budget * (1 + TIE)
    if needs.deadline_seconds is None:
        return kept
    if noise is None or question.payment.mtbf_seconds is not None:
        # a run that fails is late by more than its noise
        kept &= np.array([one is None or one.gate != "deadline" for one in judged.refused])
    else:
        share = needs.deadline_confidence
        reach = plausible_reach(scales.samples, share, len(noise), more_rounds)
        latest = needs.deadline_seconds - longest_startup(question)
        kept &= scales.seconds * noise * reach <= latest * (1 + TIE)
    return kept


def _right(
    judged: Judged, question: Question, billed: Floats, total: Floats, speed: Floats, kept: Mask
) -> NDArray[np.int64]:
    """The right scale in each draw; where none passes, the one that comes nearest."""
    scales, needs = judged.scales, question.needs
    some = kept.any(axis=1)
    open_ones = ~refused_at_any_price(scales, scales.price, needs, judged.bills)
    merit = speed if needs.deadline_seconds is not None else -billed
    nearest = np.where(open_ones, merit, -np.inf).argmax(axis=1)
    found = picks(
        judged.objective,
        question,
        np.where(kept, reference_bill(scales, billed), np.inf)[some],
        np.where(kept, total, np.inf)[some],
        np.where(kept, speed, 0.0)[some],
        scales.nodes,
        scales.relative_work,
    )
    nearest[some] = found
    return np.asarray(nearest)


def _shares(positions: NDArray[np.int64], count: int) -> Floats:
    return np.bincount(positions, minlength=count) / len(positions)


def _drawn_bills(
    scales: Candidates, question: Question, moved: dict[str, Interval], noise: Floats | None
) -> tuple[Floats, Floats]:
    """The bill of every scale in each draw, and the cost of waiting with it, for equal work."""
    if not moved:
        assert noise is not None
        value = question.needs.hour_value
        drawn = bill(scales.price, scales.rate_per_hour, scales.seconds * noise, value)
        return drawn.billed / scales.relative_work, drawn.total / scales.relative_work
    generator = np.random.default_rng(SEED)
    # a law may have ten thousand scales, whose chances fewer draws tell as well
    most = max(200, min(DRAWS, 2_000_000 // len(scales.nodes)))
    count = most if noise is None else len(noise)
    shares = generator.random((count, len(moved)))
    values = {
        name: given.low + shares[:, [at]] * (given.high - given.low)
        for at, (name, given) in enumerate(moved.items())
    }
    seconds = scales.seconds * (np.ones((count, len(scales.nodes))) if noise is None else noise)
    if _FAILING & moved.keys():
        seconds = seconds * _slowed(scales, question, values)
    rate = values["price"] * scales.billed_units if "price" in values else scales.rate_per_hour
    worth = values.get("value-per-hour", question.needs.hour_value)
    drawn = bill(question.price, rate, seconds, worth, drawn=values)
    return drawn.billed / scales.relative_work, drawn.total / scales.relative_work


def _slowed(scales: Candidates, question: Question, values: dict[str, Floats]) -> Floats:
    """How much longer failures make the runs, one row per draw; some are computed, and repeated."""
    names, rows = sorted(_FAILING & values.keys()), []
    count = len(values[names[0]])
    for drawn in zip(*(values[name][:_FAILING_DRAWS, 0] for name in names), strict=True):
        changed = question
        for name, value in zip(names, drawn, strict=True):
            changed = with_value(changed, name, float(value))
        rows.append(with_failures(scales, changed.payment)[0].seconds / scales.seconds)
    return np.stack(rows)[np.arange(count) % len(rows)]


def likely(shares: Floats, chosen: int) -> list[int]:
    """The fewest scales, the chosen one among them, that contain the right choice with 95 %."""
    order = [chosen, *(int(at) for at in np.argsort(-shares) if at != chosen)]
    held = np.cumsum(shares[order])
    return sorted(order[: int(np.argmax(held >= LEVEL - 1e-12)) + 1])


class Repeats(msgspec.Struct, frozen=True):
    """Further rounds that would decide: how many, at which positions, and for what."""

    rounds: int
    where: tuple[int, ...]
    cost: float


def repeats_to_decide(judged: Judged, question: Question, among: Sequence[int]) -> Repeats | None:
    """The cheapest further rounds found that would decide, if times and spreads are as measured.

    Rounds of all scales are tried first, then scales whose noise does not matter are left out, the
    most expensive first. `among` are the scales that may be right. None: not even a hundred rounds
    of all scales would do, or no round was repeated.
    """
    if judged.scales.noise is None:
        return None
    where = sorted({*among, *judged.eligible}, key=lambda at: judged.bills.billed[at])
    rounds = _rounds_at(where, judged, question, _MOST_ROUNDS)
    if rounds is None:
        return None
    cost = rounds * float(judged.bills.billed[where].sum())
    for at in where[::-1]:
        rest = [other for other in where if other != at]
        each = float(judged.bills.billed[rest].sum())
        most = min(int(cost / each), _MOST_ROUNDS) if each > 0 else rounds
        fewer = _rounds_at(rest, judged, question, most) if rest else None
        if fewer is not None:
            where, rounds, cost = rest, fewer, fewer * each
    return Repeats(rounds, tuple(sorted(where)), cost)


def _rounds_at(where: Sequence[int], judged: Judged, question: Question, most: int) -> int | None:
    """How many further rounds of some scales would make the choice sure; None: more than `most`."""
    scales = judged.scales

    def is_sure(more: int) -> bool:
        added = [more if at in where else 0 for at in range(len(scales.nodes))]
        found = regret_of(judged, question, scales.noise_after(added), added)
        return found is not None and bool(found.share_right.max() >= _SURE_AFTER)

    if most < 1 or not is_sure(most):
        return None
    low = 0
    while most - low > 1:
        middle = (low + most) // 2
        low, most = (low, middle) if is_sure(middle) else (middle, most)
    return most


def cost_bounds(scales: Candidates, question: Question) -> tuple[Floats, Floats] | None:
    """What a run may be billed: a longer run or a higher price never costs less."""
    if scales.bounds is None and not question.ranges:
        return None
    ends = []
    for end, spent in zip(
        ("low", "high"), scales.bounds or (scales.seconds, scales.seconds), strict=True
    ):
        if question.ranges:  # where the times have no bounds, prices still have them
            spent = np.where(np.isnan(spent), scales.seconds, spent)
        moved = question
        for name, given in question.ranges.items():
            if not is_spot_only(question, name):
                # nodes that fail less often cost less
                other = {"low": "high", "high": "low"}[end] if name == "mtbf" else end
                moved = with_value(moved, name, getattr(given, other))
        priced = scales.priced(moved.price.per_node_hour) if "price" in question.ranges else scales
        longer = with_failures(scales, moved.payment)[0].seconds / scales.seconds
        ends.append(bill(moved.price, priced.rate_per_hour, longer * spent).billed)
    return ends[0], ends[1]


def _paid(scales: Candidates, question: Question, spot: bool) -> Paid:
    priced = scales.priced(question.price.per_node_hour)
    if spot:
        return on_spot(priced, question.price, question.needs, question.payment)
    return on_demand(priced, question.price, question.needs, question.payment)


def _chosen(scales: Candidates, question: Question, spot: bool = False) -> tuple[int, float]:
    """The scale that the objective takes, and its bill for equal work; no scale is 0."""
    paid = _paid(scales, question, spot)
    priced = msgspec.structs.replace(paid.scales, price=question.price)
    found = judge(priced, paid.bills, question)
    if found.chosen is None:
        return 0, 0.0
    return found.scales.nodes[found.chosen], float(found.unit_bill[found.chosen])


def tornado(
    scales: Candidates,
    question: Question,
    law: Law | None = None,
    of_law: Callable[[Law], Candidates] | None = None,
) -> tuple[Swing, ...]:
    """How far each input moves the recommended scale, the one that moves it most first.

    Inputs without a range are moved by 20 %; of a law its s and c as well.
    """
    if not question.price.is_money:
        return ()
    payment = question.payment
    risky = payment.preemptions is not None and payment.trace is None
    rows = []
    for name in RANGED:
        value = value_of(question, name)
        spot = is_spot_only(question, name)
        if not value or (spot and not risky):
            continue
        given = question.ranges.get(name) or Interval(value * (1 - _SWING), value * (1 + _SWING))
        ends = [
            _chosen(scales, with_value(question, name, end), spot)
            for end in (given.low, given.high)
        ]
        if any(nodes for nodes, _ in ends):
            rows.append(_swing(name, spot, given, name in question.ranges, ends))
    if law is not None and of_law is not None:
        for name in ("s", "c"):
            value = getattr(law, name)
            if value:
                given = Interval(value * (1 - _SWING), min(value * (1 + _SWING), 1.0))
                ends = [
                    _chosen(of_law(msgspec.structs.replace(law, **{name: end})), question)
                    for end in (given.low, given.high)
                ]
                rows.append(_swing(name, False, given, False, ends))
    return tuple(sorted(rows, key=_reach, reverse=True))


def _swing(
    name: str, spot: bool, given: Interval, is_range: bool, ends: list[tuple[int, float]]
) -> Swing:
    return Swing(
        input=name,
        payment="spot" if spot else "on-demand",
        low=given.low,
        high=given.high,
        is_range=is_range,
        low_nodes=ends[0][0],
        high_nodes=ends[1][0],
        low_cost=ends[0][1],
        high_cost=ends[1][1],
    )


def _reach(row: Swing) -> tuple[int, float]:
    return abs(row.high_nodes - row.low_nodes), abs(row.high_cost - row.low_cost)


def flips(scales: Candidates, question: Question) -> tuple[Flip, ...]:
    """Where the recommended scale changes as one input moves up or down, the others as they are."""
    if scales.regime == "weak":
        return ()
    now, _ = _chosen(scales, question)
    if now and question.needs.value_per_hour:
        # what more nodes save of the time may be noise, which is worth nothing
        differs = scales.of_other_time(scales.nodes.index(now))
        scales = scales.only(np.flatnonzero(differs | (np.array(scales.nodes) < now)))
    found = []
    for name in (*RANGED, "threshold"):
        row = INPUTS[name]
        value = value_of(question, name)
        free = not scales.price.is_money and name != "threshold"
        if not value or row.on_spot or not now or free:
            continue
        # the scales have their failures already: a price does not change them
        asked = (
            question if name in _FAILING else replaced(question, ("payment", "mtbf_seconds"), None)
        )

        def at(changed: float, name: str = name, asked: Question = asked) -> int:
            return _chosen(scales, with_value(asked, name, changed))[0]

        for side, factor in (("below", 1 / _REACH), ("above", _REACH)):
            edge = _edge(at, value, factor, now)
            if edge is not None:
                limit, nodes = edge
                found.append(Flip(input=name, now=value, value=limit, side=side, nodes=nodes))
    return tuple(found)


def _edge(
    at: Callable[[float], int], value: float, factor: float, now: int
) -> tuple[float, int] | None:
    """The first change on the way from a value to `factor` times it, and what it changes to."""
    near = value
    for far in value * factor ** (np.arange(1, _STEPS + 1) / _STEPS):
        if at(float(far)) != now:
            break
        near = float(far)
    else:
        return None
    beyond = float(far)
    while abs(beyond - near) > 1e-5 * value:
        middle = (near + beyond) / 2
        near, beyond = (middle, beyond) if at(middle) == now else (near, middle)
    return beyond, at(beyond)


def prices_off(
    scales: Candidates, bills: Bills, allowed: Mask, chosen: int
) -> tuple[PriceOff, ...]:
    """How the cost and the cheapest scale move when one price is a fifth or a half off.

    Nothing if one price makes up the whole cost. Scales that a gate excludes stay excluded, also
    where a lower price would bring them within a budget.
    """
    items = {
        name: np.sum([getattr(bills, part) for part in parts], axis=0) / scales.relative_work
        for name, parts in _ITEMS_OF_PRICE.items()
    }
    present = {name: cost for name, cost in items.items() if cost[allowed].any()}
    if len(present) < 2:
        return ()
    total = bills.total / scales.relative_work
    rows = []
    for name, part in present.items():
        for factor in _PRICES_OFF:
            costs = np.where(allowed, total + (factor - 1) * part, np.inf)
            least = int(np.argmin(costs))
            rows.append(
                PriceOff(
                    price=name,
                    factor=factor,
                    cost=float(costs[chosen]),
                    cheapest=scales.nodes[least],
                    least_cost=float(costs[least]),
                )
            )
    return tuple(rows)
