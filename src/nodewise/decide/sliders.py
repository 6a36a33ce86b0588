"""The numbers that a page needs to decide again when its reader moves a slider."""

import msgspec
import numpy as np

from nodewise.base.stats import Floats
from nodewise.decide.candidates import Candidates, longest_startup
from nodewise.decide.gates import refused_at_any_price
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged
from nodewise.decide.payment.in_time import share_in_time
from nodewise.decide.payment.spot import expected

_HALVINGS = 24

Column = tuple[float, ...]  # a value for each scale


class SliderStart(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the sliders start with."""

    price: float | None  # null: the scales have prices of their own
    fixed: float
    deadline: float  # 0: none
    threshold: float


class SliderNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Scales with their times and rates, and what no slider moves."""

    nodes: tuple[int, ...]
    seconds: Column
    sure_seconds: Column  # that a run holds with the confidence asked for
    speedup: Column
    efficiency: Column
    relative_work: Column
    refused: tuple[bool, ...]  # by a gate that neither a price nor a deadline moves
    rate_per_hour: Column
    billed_units: Column  # what the price is multiplied by
    billed_unit: str  # a node, or what else the price is for
    startup_seconds: float
    longest_startup_seconds: float
    storage_per_hour: float
    egress: float
    billing_unit_seconds: float
    billing_minimum_seconds: float
    value_per_hour: float | None
    budget: float | None
    currency: str
    weak: bool  # costs are for the work of the first run
    # how far ln(T_j / T_i) may exceed what was measured, at row i and column j; null: single runs
    margins: tuple[Column, ...] | None
    joint_margins: tuple[Column, ...] | None  # where all scales are compared with one
    fitted_base_seconds: float | None  # where the first scale is slower than its curve
    chosen: int | None  # the recommended scale at the start, also where inputs are ranges
    asked: SliderStart


def slider_numbers(judged: Judged, question: Question, chosen: int | None) -> SliderNumbers:
    """The numbers for one study and one question; `chosen` is the recommended K."""
    scales, bills = judged.scales, judged.bills
    price, needs = scales.price, question.needs
    spread = scales.noise is not None or scales.undisturbed is not None
    return SliderNumbers(
        nodes=scales.nodes,
        seconds=_that_end(scales, scales.seconds),
        sure_seconds=_that_end(scales, _sure_seconds(scales, question)),
        speedup=tuple(scales.speedup.tolist()),
        efficiency=tuple(scales.efficiency.tolist()),
        relative_work=tuple(scales.relative_work.tolist()),
        refused=tuple(refused_at_any_price(scales, price, needs, bills).tolist()),
        rate_per_hour=tuple(scales.rate_per_hour.tolist()),
        billed_unit=price.per or scales.unit.metered,
        billed_units=tuple(scales.billed_units.tolist()),
        startup_seconds=price.startup_seconds,
        longest_startup_seconds=longest_startup(question) if spread else price.startup_seconds,
        storage_per_hour=price.storage_per_hour or 0.0,
        egress=price.egress or 0.0,
        billing_unit_seconds=price.billing_unit_seconds,
        billing_minimum_seconds=price.billing_minimum_seconds,
        value_per_hour=needs.value_per_hour,
        budget=needs.budget,
        currency=price.currency,
        weak=scales.regime == "weak",
        margins=_columns(scales.margins),
        joint_margins=_columns(scales.joint_margins),
        fitted_base_seconds=scales.fitted_base_seconds,
        chosen=chosen,
        asked=SliderStart(
            price=price.per_node_hour if price.is_money else 1.0,
            fixed=price.fixed_per_hour,
            deadline=needs.deadline_seconds or 0.0,
            threshold=needs.threshold,
        ),
    )


def _that_end(scales: Candidates, seconds: Floats) -> Column:
    """Times of runs; where they never end, a refused scale keeps those of its own work."""
    if scales.undisturbed is None:
        return tuple(seconds.tolist())
    endless = [bool(why) for why in scales.never_ends]
    return tuple(np.where(endless, scales.undisturbed, seconds).tolist())


def _sure_seconds(scales: Candidates, question: Question) -> Floats:
    """The time that a run of each scale keeps with the confidence asked for."""
    confidence, payment = question.needs.deadline_confidence, question.payment
    if scales.undisturbed is None:
        return scales.sure_seconds(confidence)
    rates = payment.failures(scales.whole_nodes)
    run = expected(scales.undisturbed, rates, payment.checkpointing, payment.rule)
    quantiles = scales.run_quantiles
    longest = np.ones(1) if quantiles is None else quantiles.max(axis=0)
    # of stops, by Markov's inequality, no more than this share takes longer
    low, high = np.zeros_like(run.seconds), longest * run.seconds / max(1 - confidence, 1e-3)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shares = share_in_time(run, rates, payment.checkpointing, middle, quantiles)
        low = np.where(shares >= confidence, low, middle)
        high = np.where(shares >= confidence, middle, high)
    return high


def _columns(matrix: Floats | None) -> tuple[Column, ...] | None:
    return None if matrix is None else tuple(tuple(row) for row in matrix.tolist())
