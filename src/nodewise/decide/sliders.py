"""The numbers that a page needs to decide again when its reader moves a slider."""

import msgspec
import numpy as np

from nodewise.decide.candidates import Candidates, longest_startup
from nodewise.decide.gates import refused_at_any_price
from nodewise.decide.inputs import Question
from nodewise.decide.payment.ways import on_demand
from nodewise.explain.scaling import Timings

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
    value_per_hour: float
    budget: float | None
    currency: str
    asked: SliderStart


def slider_numbers(scales: Candidates, times: Timings, question: Question) -> SliderNumbers:
    """The numbers for one study and one question."""
    price, needs = scales.price, question.needs
    bills = on_demand(scales, price, needs).bills
    spread = times.draws is not None
    return SliderNumbers(
        nodes=scales.nodes,
        seconds=tuple(scales.seconds.tolist()),
        sure_seconds=_sure_seconds(times, needs.deadline_confidence),
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
        asked=SliderStart(
            price=price.per_node_hour if price.is_money else 1.0,
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
