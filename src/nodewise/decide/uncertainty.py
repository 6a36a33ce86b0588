"""Which scale is the cheapest when prices are ranges: regret, the tornado, flips.

A draw is a resample of the measured rounds with every input somewhere in its range. Over draws a
scale is chosen by its expected regret.
"""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from nodewise.base.interval import Interval
from nodewise.base.stats import DRAWS, SEED, Floats
from nodewise.decide.candidates import Candidates
from nodewise.decide.choose import cheapest_of
from nodewise.decide.gates import Mask, allowed_scales
from nodewise.decide.inputs import RANGED, Question, is_spot_only, replaced, value_of, with_value
from nodewise.decide.payment.ways import Paid, on_demand, on_spot, with_failures
from nodewise.decide.prices.bill import NODE_HOURS, Bills, bill
from nodewise.explain.laws import Law

_SWING = 0.2  # how far an input is moved that has no range of its own
_REACH, _STEPS = 16.0, 48  # how far a flip is looked for: a sixteenth to sixteen times
_FAILING = {"mtbf", "checkpoint", "downtime", "restart"}  # what makes a run longer than its work
_PRICES_OFF = (0.5, 0.8, 1.2, 1.5)
# The line items that one price stands behind.
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
    expected: Floats
    p95: Floats
    between: tuple[int, int]  # the cheapest K of 95 % of the draws lies between these
    least: int  # the position of the least expected regret
    draws: int


class Swing(
    msgspec.Struct, frozen=True, kw_only=True,
    rename={"payment": "regime", "low_nodes": "K_low", "high_nodes": "K_high"},
):  # fmt: skip
    """The cheapest scale with one input at either end, all others as they are."""

    input: str
    payment: str  # on-demand or spot
    low: float
    high: float
    is_range: bool  # false: 20 % off, because no range was given
    low_nodes: int
    high_nodes: int
    low_cost: float
    high_cost: float


class Flip(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The nearest value of an input beyond which another scale is recommended."""

    input: str
    now: float
    value: float
    side: str  # above or below
    nodes: int


class PriceOff(msgspec.Struct, frozen=True, kw_only=True, rename={"cheapest": "cheapest_K"}):
    """What the recommended scale costs, and which is the cheapest, when one price is off."""

    price: str  # the line items that it stands for, in words
    factor: float
    cost: float
    cheapest: int
    least_cost: float


def regret_of(scales: Candidates, question: Question, allowed: Mask) -> Regret | None:
    """Chances and regrets of the scales that pass every gate, over draws.

    Nothing where neither times nor inputs are spread, or no scale passes.
    """
    price, needs = question.price, question.needs
    moved = {
        name: given
        for name, given in question.ranges.items()
        if not is_spot_only(question, name) and value_of(question, name) is not None
    }
    if (scales.draws is None and not moved) or not allowed.any():
        return None
    if scales.draws is None or moved:
        costs = np.stack([cost[allowed] for cost in _drawn_costs(scales, question, moved)])
    else:
        drawn = bill(price, scales.rate_per_hour, scales.draws, needs.value_per_hour)
        costs = drawn.total[:, allowed] / scales.relative_work[allowed]
    where = np.flatnonzero(allowed)
    winners = where[costs.argmin(axis=1)]
    above = costs - costs.min(axis=1, keepdims=True)
    expected, tail = np.zeros(len(allowed)), np.zeros(len(allowed))
    expected[where] = above.mean(axis=0)
    tail[where] = np.quantile(above, 0.95, axis=0)
    low, high = np.quantile(np.array(scales.nodes)[winners], [0.025, 0.975], method="nearest")
    return Regret(
        share_cheapest=np.bincount(winners, minlength=len(allowed)) / len(winners),
        expected=expected,
        p95=tail,
        between=(int(low), int(high)),
        least=int(where[np.argmin(expected[where])]),
        draws=len(costs),
    )


def _drawn_costs(
    scales: Candidates, question: Question, moved: dict[str, Interval]
) -> Iterable[Floats]:
    """The cost of every scale in each draw: times resampled, inputs anywhere in their ranges."""
    generator = np.random.default_rng(SEED)
    # a law may have ten thousand scales, whose chances fewer draws tell as well
    most = max(200, min(DRAWS, 2_000_000 // len(scales.nodes)))
    count = most if scales.draws is None else len(scales.draws)
    shares = generator.random((count, len(moved)))
    for at in range(count):
        drawn = question
        for share, (name, given) in zip(shares[at], moved.items(), strict=True):
            drawn = with_value(drawn, name, given.low + float(share) * (given.high - given.low))
        seconds = scales.seconds if scales.draws is None else scales.draws[at]
        priced = scales.priced(drawn.price.per_node_hour) if "price" in moved else scales
        if _FAILING & moved.keys():
            seconds = seconds * with_failures(scales, drawn.payment)[0].seconds / scales.seconds
        bills = bill(drawn.price, priced.rate_per_hour, seconds, drawn.needs.value_per_hour)
        yield bills.total / scales.relative_work


def cost_bounds(scales: Candidates, question: Question) -> tuple[Floats, Floats] | None:
    """What a run may be billed: a longer run or a higher price never costs less."""
    if scales.bounds is None and not question.ranges:
        return None
    seconds = scales.bounds or (scales.seconds, scales.seconds)
    ends = []
    for end, spent in zip(("low", "high"), seconds, strict=True):
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


def _cheapest(scales: Candidates, question: Question, spot: bool = False) -> tuple[int, float]:
    """The cheapest scale and its cost; no scale is 0."""
    paid = _paid(scales, question, spot)
    allowed = allowed_scales(paid.scales, question.price, question.needs, paid.bills)
    cost = paid.bills.total / paid.scales.relative_work
    at = cheapest_of(paid.scales, cost, np.flatnonzero(allowed).tolist())
    return (0, 0.0) if at is None else (paid.scales.nodes[at], float(paid.bills.billed[at]))


def tornado(
    scales: Candidates,
    question: Question,
    law: Law | None = None,
    of_law: Callable[[Law], Candidates] | None = None,
) -> tuple[Swing, ...]:
    """How far each input moves the cheapest scale, the one that moves it most first.

    Inputs without a range are moved by 20 %; of a law its s and c as well.
    """
    if question.price.currency == NODE_HOURS:
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
            _cheapest(scales, with_value(question, name, end), spot)
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
                    _cheapest(of_law(msgspec.structs.replace(law, **{name: end})), question)
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
    """Where the cheapest scale changes as one input moves up or down, the others as they are.

    Only where an hour has a price: without one the recommendation does not hang on prices.
    """
    if question.price.currency == NODE_HOURS or scales.regime == "weak":
        return ()
    now, _ = _cheapest(scales, question)
    found = []
    for name, one in RANGED.items():
        value = value_of(question, name)
        if not value or one.on_spot or not now:
            continue
        # the scales have their failures already: a price does not change them
        asked = (
            question if name in _FAILING else replaced(question, ("payment", "mtbf_seconds"), None)
        )

        def at(changed: float, name: str = name, asked: Question = asked) -> int:
            return _cheapest(scales, with_value(asked, name, changed))[0]

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
    while abs(beyond - near) > 1e-6 * value:
        middle = (near + beyond) / 2
        near, beyond = (middle, beyond) if at(middle) == now else (near, middle)
    return beyond, at(beyond)


def prices_off(
    scales: Candidates, bills: Bills, allowed: Mask, chosen: int
) -> tuple[PriceOff, ...]:
    """How the cost and the cheapest scale move when one price is a fifth or a half off.

    Nothing where one price makes up the whole cost. Scales that a gate excludes stay excluded, also
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
