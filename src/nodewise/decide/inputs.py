"""What is asked of a study: prices, ways to pay, gates, energy, and what is known as a range only.

The inputs that are numbers have a name each, the one of their option, so that a range, a scenario
and a search for the value that flips the answer all speak of the same thing.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple

import msgspec

from nodewise.base.errors import SpecError
from nodewise.base.interval import Range
from nodewise.base.stats import Center
from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_money,
    format_percent,
    parse_amount,
    parse_fraction,
    parse_seconds,
)
from nodewise.decide.candidates import Needs
from nodewise.decide.energy import Embodied, NodePower, Site
from nodewise.decide.payment.owned import Commitment
from nodewise.decide.payment.spot import Checkpointing, Preemptions, parse_preemptions
from nodewise.decide.payment.ways import Alternatives
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.records import PriceRecord
from nodewise.study.spec import Spec


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer is to hold to. Numbers given as a range stand at its centre."""

    price: Price = Price()
    needs: Needs = Needs()
    alternatives: Alternatives = Alternatives()
    site: Site = Site()
    center: Center = "mean"
    records: tuple[PriceRecord, ...] = ()  # where the prices come from
    ranges: dict[str, Range] = {}  # by input
    scenarios: dict[str, dict[str, float]] = {}  # inputs that differ, by scenario
    work_unit: str = "items"
    asked_on: date | None = None  # prices age


def question_of(spec: Spec | None) -> Question:
    """The question that a spec asks; without one, the defaults."""
    if spec is None:
        return Question()
    asked, watts = spec.price, spec.energy
    rate = None
    if asked.preempt:
        rate = msgspec.structs.replace(
            parse_preemptions(asked.preempt), correlation_exponent=asked.correlation
        )
    power = None
    if watts.busy_watts is not None:
        power = NodePower(idle_watts=watts.idle_watts, busy_watts=watts.busy_watts)
    question = Question(
        price=msgspec.convert(asked, Price, from_attributes=True),
        needs=msgspec.structs.replace(
            msgspec.convert(spec.gates, Needs, from_attributes=True),
            value_per_hour=asked.value_per_hour,
            quality_tolerance=spec.quality.tolerance,
            quality_better=spec.quality.better,
            threshold=spec.threshold,
        ),
        alternatives=Alternatives(
            spot_fraction=0.30 if asked.spot is None else asked.spot,
            preemptions=rate,
            while_down=asked.while_down,
            checkpointing=Checkpointing(
                save_seconds=asked.checkpoint_seconds,
                downtime_seconds=asked.downtime_seconds,
                restart_seconds=asked.restart_seconds,
            ),
            utilisation=asked.utilisation,
            commitment=None if asked.commit is None else Commitment(discount=asked.commit),
        ),
        site=Site(
            power=power,
            shared_watts=watts.shared_watts,
            pue=watts.pue,
            embodied=Embodied(kilograms=watts.embodied_kilograms)
            if watts.embodied_kilograms
            else None,
        ),
        scenarios={name: scenario_of(changes) for name, changes in spec.scenarios.items()},
        work_unit=spec.work_unit,
    )
    for name, (low, high) in asked.ranges.items():
        question = with_range(question, name, Range(low, high))
    return question


class Input(NamedTuple):
    """A number of the question: where it stands, how it is written and said."""

    title: str
    path: tuple[str, ...]
    parse: Callable[[str], float]
    form: Callable[[float, str], str]
    on_spot: bool = False  # it matters on spot only


def _seconds(value: float, _: str) -> str:
    return format_duration(value)


INPUTS: dict[str, Input] = {
    "price": Input("price of a node", ("price", "per_node_hour"), parse_amount, format_money),
    "fixed": Input("overhead by the hour", ("price", "fixed_per_hour"), parse_amount, format_money),
    "storage": Input("storage by the hour", ("price", "storage_per_hour"), parse_amount,
                     format_money),
    "startup": Input("start-up", ("price", "startup_seconds"), parse_seconds, _seconds),
    "value-per-hour": Input("value of an hour", ("needs", "value_per_hour"), parse_amount,
                            format_money),
    "spot": Input("spot price, of that on demand", ("alternatives", "spot_fraction"),
                  parse_fraction, lambda value, _: format_percent(value), on_spot=True),
    "preempt": Input("preemptions", ("alternatives", "preemptions", "per_second"),
                     lambda text: parse_preemptions(text).per_second,
                     lambda value, _: f"{value * SECONDS_PER_HOUR:.3g}/h", on_spot=True),
    "checkpoint": Input("time to save", ("alternatives", "checkpointing", "save_seconds"),
                        parse_seconds, _seconds, on_spot=True),
    "downtime": Input("time to get nodes back",
                      ("alternatives", "checkpointing", "downtime_seconds"),
                      parse_seconds, _seconds, on_spot=True),
    "restart": Input("time to reload", ("alternatives", "checkpointing", "restart_seconds"),
                     parse_seconds, _seconds, on_spot=True),
}  # fmt: skip


def input_named(name: str) -> Input:
    """The input that is called so."""
    if name not in INPUTS:
        raise SpecError(f"'{name}' is no input.", f"Take one of {', '.join(INPUTS)}.")
    return INPUTS[name]


def value_of(question: Question, name: str) -> float | None:
    """What an input is; nothing where it is not stated."""
    value: Any = question
    for step in input_named(name).path:
        value = None if value is None else getattr(value, step)
    return None if value is None else float(value)


def with_value(question: Question, name: str, value: float) -> Question:
    """The question with one input at another value."""
    replaced: Question = _replaced(question, input_named(name).path, value)
    return replaced


def _replaced(whole: Any, path: tuple[str, ...], value: float) -> Any:
    step, *rest = path
    inner = getattr(whole, step)
    if step == "preemptions" and inner is None:
        inner = Preemptions(per_second=0.0)
    new = _replaced(inner, tuple(rest), value) if rest else value
    return msgspec.structs.replace(whole, **{step: new})


def with_range(question: Question, name: str, given: Range) -> Question:
    """The question with an input at the centre of its range, which is kept where it is one."""
    if not 0 <= given.low <= given.high < math.inf:
        raise SpecError(
            f"{name}: {given.low:g}..{given.high:g} is no range.",
            "Write two numbers of 0 or more, the smaller one first.",
        )
    moved = with_value(question, name, given.center)
    ranges = {key: value for key, value in question.ranges.items() if key != name}
    if not given.is_known:
        ranges[name] = given
    return msgspec.structs.replace(moved, ranges=ranges)


def with_scenario(question: Question, changes: Mapping[str, float]) -> Question:
    """The question in a scenario."""
    for name, value in changes.items():
        question = with_value(question, name, value)
    return question


def parse_scenario(text: str) -> tuple[str, dict[str, float]]:
    """A scenario from `crunch: price=3.5, preempt=0.2/h`.

    >>> parse_scenario("crunch: price=3.5, startup=2min")
    ('crunch', {'price': 3.5, 'startup': 120.0})
    """
    name, colon, rest = text.partition(":")
    fix = 'Write for example --scenario "crunch: price=3.5, fixed=4".'
    if not colon or not name.strip():
        raise SpecError(f"'{text}' names no scenario.", fix)
    changes = {}
    for part in rest.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise SpecError(f"'{part.strip()}' changes no input.", fix)
        changes[key.strip()] = value.strip()
    return name.strip(), scenario_of(changes)


def scenario_of(changes: Mapping[str, str | float]) -> dict[str, float]:
    """The inputs of a scenario as numbers; none may be negative."""
    found = {}
    for name, value in changes.items():
        try:
            found[name] = input_named(name).parse(str(value))
        except ValueError as error:
            raise SpecError(f"{name}: {error}.", "Write it as the option of that name.") from None
        if found[name] < 0:
            raise SpecError(f"{name}: {value} is below 0.", "Write 0 or more.")
    return found
