"""From the options of the command line to the question: what they say instead of the spec."""

from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import SpecError
from nodewise.cli.inputs import is_given
from nodewise.cli.options import FRACTION, read_bytes
from nodewise.decide.energy import NodePower
from nodewise.decide.inputs import Question, parse_scenario, with_range
from nodewise.decide.payment.owned import Commitment
from nodewise.decide.prices.files import read_owned
from nodewise.decide.prices.lookup import put, today, with_egress, with_grid, with_instance

# Which field of which part of the question an option sets.
_FIELDS = {
    "price_source": ("price", "source"),
    "billing_unit": ("price", "billing_unit_seconds"),
    "billing_minimum": ("price", "billing_minimum_seconds"),
    "owned_above": ("alternatives", "owned_above"),
    "utilisation": ("alternatives", "utilisation"),
    "while_down": ("alternatives", "while_down"),
    "shared_watts": ("site", "shared_watts"),
    "pue": ("site", "pue"),
    "deadline": ("needs", "deadline_seconds"),
    "confidence": ("needs", "deadline_confidence"),
    "quality_tolerance": ("needs", "quality_tolerance"),
    "quality_better": ("needs", "quality_better"),
    "threshold": ("needs", "threshold"),
}
_RANGES = ("price", "fixed", "startup", "storage", "spot", "downtime", "restart", "value_per_hour")


def with_options(question: Question, options: dict[str, Any]) -> Question:
    """The question, with what the command line says instead."""
    question = msgspec.structs.replace(question, asked_on=today())
    question = _with_prices(question, options)
    for name, (part, field) in _FIELDS.items():
        if is_given(name):
            question = put(question, part, **{field: options[name]})
    question = _with_spot(question, options)
    question = _with_ranges(question, options)
    question = _with_own(question, options)
    question = _with_energy(question, options)
    for field, value in options["budget"]:
        question = put(question, "needs", **{field: value})
    if is_given("scenario"):
        scenarios = dict(parse_scenario(text) for text in options["scenario"])
        question = msgspec.structs.replace(question, scenarios=scenarios)
    if is_given("center"):
        question = msgspec.structs.replace(question, center=options["center"])
    return question


def _with_prices(question: Question, options: dict[str, Any]) -> Question:
    """Prices from a list."""
    if is_given("prices") and not is_given("instance"):
        raise SpecError("--prices is a list: which of its nodes?", "Add --instance with its name.")
    if is_given("instance") and is_given("price"):
        raise SpecError("--price and --instance both name a price.", "Drop one of the two.")
    if is_given("instance"):
        question = with_instance(question, options["instance"], options["prices"])
    return with_egress(question, options["egress"]) if is_given("egress") else question


def _with_energy(question: Question, options: dict[str, Any]) -> Question:
    """What nodes draw, and where."""
    if is_given("watts"):
        watts = options["watts"]
        power = NodePower(idle_watts=watts.low, busy_watts=watts.high)
        question = put(question, "site", power=power)
    return with_grid(question, options["grid"]) if is_given("grid") else question


def _with_ranges(question: Question, options: dict[str, Any]) -> Question:
    """Numbers that may be ranges: the centre is taken, and the range is kept."""
    for name in _RANGES:
        if is_given(name):
            question = with_range(question, name.replace("_", "-"), options[name])
    if is_given("price") and question.records:
        # another price than that of the list which the spec names
        source = options["price_source"]
        question = put(msgspec.structs.replace(question, records=()), "price", source=source)
    return question


def _with_spot(question: Question, options: dict[str, Any]) -> Question:
    """How often nodes are lost, and what it takes to go on."""
    if is_given("checkpoint"):
        given = options["checkpoint"]
        question = put(question, "alternatives", saves=given is not None)
        if given is not None:
            question = with_range(question, "checkpoint", given)
    if is_given("preempt"):
        stated, given = options["preempt"]
        before = question.alternatives.preemptions
        if before is not None:
            exponent = before.correlation_exponent
            stated = msgspec.structs.replace(stated, correlation_exponent=exponent)
        question = put(question, "alternatives", preemptions=stated)
        question = with_range(question, "preempt", given)
    if is_given("correlation"):
        question = _correlated(question, options["correlation"])
    if is_given("trace"):
        if is_given("preempt"):
            raise SpecError("A trace says how often nodes are lost.", "Drop --preempt or --trace.")
        text = read_bytes(options["trace"]).decode("utf-8", "replace")
        question = put(question, "alternatives", trace=text)
    return question


def _correlated(question: Question, exponent: float) -> Question:
    """How the rate of a gang grows with its nodes; one that is counted of the gang does not."""
    rate = question.alternatives.preemptions
    if rate is None or rate.scope == "gang":
        raise SpecError(
            "--correlation goes with preemptions of a node.", "Add --preempt, for example 0.05/h."
        )
    changed = msgspec.structs.replace(rate, correlation_exponent=exponent)
    return put(question, "alternatives", preemptions=changed)


def _with_own(question: Question, options: dict[str, Any]) -> Question:
    """Owned nodes by a fraction of the price or by what one costs, and commitments."""
    if is_given("commit"):
        commitment = Commitment(discount=options["commit"])
        question = put(question, "alternatives", commitment=commitment)
    if not is_given("own"):
        return question
    text = str(options["own"])
    if not text.endswith(".toml"):
        fraction = FRACTION.convert(text, None, None)
        return put(question, "alternatives", owned_fraction=fraction, owned=None)
    owned = read_owned(Path(text))
    question = put(question, "alternatives", owned=owned)
    if owned.busy_watts and question.site.power is None and not is_given("watts"):
        power = NodePower(
            idle_watts=owned.idle_watts, busy_watts=owned.busy_watts, source=f"stated in {text}"
        )
        pue = options["pue"] if is_given("pue") else owned.pue
        question = put(question, "site", power=power, pue=pue)
    return question
