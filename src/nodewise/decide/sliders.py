"""The numbers that a page needs to decide again when its reader moves a slider."""

import msgspec
import numpy as np

from nodewise.base.stats import Floats
from nodewise.decide.candidates import Candidates, longest_startup, spread_of_runs
from nodewise.decide.gates import refused_at_any_price
from nodewise.decide.inputs import Question
from nodewise.decide.payment.in_time import share_in_time
from nodewise.decide.payment.spot import Expected
from nodewise.decide.payment.ways import on_demand
from nodewise.decide.prices.bill import NODE_HOURS
from nodewise.explain.scaling import Timings

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
    startup_seconds: float
    longest_startup_seconds: float
    storage_per_hour: float
    egress: float
    billing_unit_seconds: float
    billing_minimum_seconds: float
    value_per_hour: float
    budget: float | None
    currency: str
    asked: SliderStart


def slider_numbers(scales: Candidates, times: Timings, question: Question) -> SliderNumbers:
    """The numbers for one study and one question."""
    price, needs = scales.price, question.needs
    hired = on_demand(scales, price, needs, question.payment)
    scales, bills = hired.scales, hired.bills
    is_sure = times.draws is not None or hired.run is not None
    return SliderNumbers(
        nodes=scales.nodes,
        seconds=_that_end(scales, scales.seconds),
        sure_seconds=_sure_seconds(times, needs.deadline_confidence)
        if hired.run is None
        else _that_end(scales, _sure_of_stopped(hired.run, scales, times, question)),
        speedup=tuple(scales.speedup.tolist()),
        efficiency=tuple(scales.efficiency.tolist()),
        relative_work=tuple(scales.relative_work.tolist()),
        refused=tuple(refused_at_any_price(scales, price, needs, bills).tolist()),
        rate_per_hour=tuple(scales.rate_per_hour.tolist()),
        startup_seconds=price.startup_seconds,
        longest_startup_seconds=longest_startup(question) if is_sure else price.startup_seconds,
        storage_per_hour=price.storage_per_hour or 0.0,
        egress=price.egress or 0.0,
        billing_unit_seconds=price.billing_unit_seconds,
        billing_minimum_seconds=price.billing_minimum_seconds,
        value_per_hour=needs.value_per_hour,
        budget=needs.budget,
        currency=price.currency,
        asked=SliderStart(
            price=1.0 if price.currency == NODE_HOURS else price.per_node_hour,
            fixed=price.fixed_per_hour,
            deadline=needs.deadline_seconds or 0.0,
            threshold=needs.threshold,
        ),
    )


def _sure_seconds(times: Timings, confidence: float) -> Column:
    """The time that a run of each scale holds with the confidence asked for."""
    if times.draws is None:
        return tuple(times.seconds.tolist())
    sure = []
    for at, samples in enumerate(times.samples):
        runs = np.sort((times.draws[:, at, None] * samples[None, :] / times.seconds[at]).ravel())
        sure.append(float(runs[max(int(np.ceil(confidence * len(runs))) - 1, 0)]))
    return tuple(sure)


def _that_end(scales: Candidates, seconds: Floats) -> Column:
    """Times of runs that may fail; where they never end, a refused scale keeps its own work."""
    if scales.undisturbed is None:
        return tuple(seconds.tolist())
    endless = [bool(why) for why in scales.never_ends]
    return tuple(np.where(endless, scales.undisturbed, seconds).tolist())


def _sure_of_stopped(
    run: Expected, scales: Candidates, times: Timings, question: Question
) -> Floats:
    """The time that a run of each scale holds with the confidence asked for, where nodes fail."""
    payment = question.payment
    rates = payment.failures(np.array(scales.nodes, dtype=np.float64))
    spread = spread_of_runs(times)
    low = np.zeros_like(run.seconds)
    # by Markov's inequality no more than this share takes longer
    high = run.seconds / max(1 - question.needs.deadline_confidence, 1e-3)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shares = share_in_time(run, rates, payment.checkpointing, middle, spread)
        enough = shares >= question.needs.deadline_confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
