"""A question with what its names stand for in the lists: instances, clouds, countries, today."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import SpecError
from nodewise.base.units import parse_amount
from nodewise.decide.energy import find_grid, power_of_parts
from nodewise.decide.inputs import Question, question_of
from nodewise.decide.prices.files import read_prices, shipped_grids, shipped_prices, shipped_tariffs
from nodewise.decide.prices.records import PriceRecord, find, find_tariff
from nodewise.study.spec import Spec


def today() -> date:
    """The day in UTC, or that of SOURCE_DATE_EPOCH, for reports that come out the same again."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not stated:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(stated), UTC).date()
    except (ValueError, OverflowError, OSError):
        raise SpecError(
            f"SOURCE_DATE_EPOCH is '{stated}'.", "Write whole seconds since 1970, or unset it."
        ) from None


def question_today(spec: Spec | None) -> Question:
    """The question of a spec, asked today: prices are looked up, and their age is known."""
    question = msgspec.structs.replace(question_of(spec), asked_on=today())
    if spec is None:
        return question
    if spec.price.instance:
        question = with_instance(question, spec.price.instance)
        if spec.price.spot is not None:
            question = put(question, "alternatives", spot_fraction=spec.price.spot)
    if spec.price.egress_gb is not None:
        question = with_egress(question, f"{spec.price.egress_gb}@{spec.price.cloud}")
    return with_grid(question, spec.energy.grid) if spec.energy.grid else question


def put(question: Question, part: str, **fields: Any) -> Question:
    """The question with some fields of one part changed."""
    changed = msgspec.structs.replace(getattr(question, part), **fields)
    return msgspec.structs.replace(question, **{part: changed})


def with_instance(question: Question, name: str, prices: str | None = None) -> Question:
    """The price of an instance and, where they are known, its spot price and its power.

    `prices` is a file, with `@YYYY-MM-DD` behind it where the file does not say its day.
    """
    records = shipped_prices() if prices is None else _read(prices)
    record = find(records, name)
    price = record.price()
    question = put(
        question, "price",
        per_node_hour=price.per_node_hour, currency=price.currency, source=price.source,
    )  # fmt: skip
    used = [record, *(spot for spot in records if _is_spot_of(spot, record))][:2]
    if len(used) > 1:
        fraction = used[1].per_node_hour / record.per_node_hour
        question = put(question, "alternatives", spot_fraction=fraction)
    if record.vcpus is not None and record.memory_gib is not None:
        power = power_of_parts(
            record.vcpus, record.memory_gib, record.accelerator, record.accelerator_count
        )
        question = put(question, "site", power=power or question.site.power)
    return msgspec.structs.replace(question, records=tuple(used))


def _is_spot_of(spot: PriceRecord, record: PriceRecord) -> bool:
    where = ("cloud", "instance", "region", "zone", "currency")
    same = all(getattr(spot, name) == getattr(record, name) for name in where)
    return spot.option == "spot" and same


def _read(prices: str) -> tuple[PriceRecord, ...]:
    name, at, day = prices.rpartition("@")
    if not at:
        return read_prices(Path(prices))
    try:
        dated = date.fromisoformat(day)
    except ValueError:
        raise SpecError(f"'{day}' is no day.", "Write FILE@YYYY-MM-DD.") from None
    return read_prices(Path(name), dated)


def with_egress(question: Question, text: str) -> Question:
    """What the data that leave the cloud cost, by its tiers: `500@aws`, in gigabytes."""
    amount, _, cloud = text.partition("@")
    cloud = cloud or (question.records[0].cloud if question.records else "")
    if not cloud:
        raise SpecError("Whose egress price is it?", f"Write {amount}@aws, or name an instance.")
    try:
        gigabytes = parse_amount(amount.lower().removesuffix("gb"))
    except ValueError:
        raise SpecError(f"'{amount}' is no amount of data.", "Write gigabytes: 500.") from None
    return put(
        question, "price", egress=float(find_tariff(shipped_tariffs(), cloud).cost(gigabytes))
    )


def with_grid(question: Question, place: str) -> Question:
    """The grid of a country or a region."""
    return put(question, "site", grid=find_grid(shipped_grids(), place))
