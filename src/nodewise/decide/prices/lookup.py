"""A question with the names in it looked up in the lists: instances, clouds, countries, today."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import SpecError
from nodewise.base.units import CURRENCY_SIGNS, parse_amount, parse_fraction
from nodewise.decide.energy import NodePower, find_grid, power_of_parts
from nodewise.decide.inputs import INPUTS, Question, Settings, ask, read_tables, replaced
from nodewise.decide.prices.files import (
    read_owned,
    read_prices,
    shipped_grids,
    shipped_prices,
    shipped_tariffs,
)
from nodewise.decide.prices.records import PriceRecord, find, find_tariff
from nodewise.study.files import read_regular
from nodewise.study.question import Tables
from nodewise.study.scale_unit import NODE

_LARGEST_BYTES = 256 * 2**20


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


def question_of(tables: Tables) -> Question:
    """The question that a spec asks, asked today.

    A spec may come from elsewhere, so it names no file. Where it states a value twice, or one that
    needs another, it is read as version 0.1 did.
    """
    settings = read_tables(tables)
    for key in ("trace", "prices", "own"):
        if key in settings and (key != "own" or str(settings[key]).endswith(".toml")):
            raise SpecError(
                f"{INPUTS[key].toml}: a spec cannot name this file.",
                f"Pass it with --{key}, or in a question file with -q.",
            )
    if "instance" in settings:
        settings.pop("price", None)
    preempt = settings.get("preempt")
    if preempt is None or preempt[0].scope == "gang":
        settings.pop("correlation", None)
    if "busy-watts" not in settings:
        settings.pop("idle-watts", None)
    return ask_today(Question(), settings)


def ask_today(question: Question, settings: Settings) -> Question:
    """The question with other settings: what they name is looked up, and prices have an age."""
    question = msgspec.structs.replace(question, asked_on=today())
    if "prices" in settings and "instance" not in settings:
        raise SpecError(
            "--prices gives a list, and no instance is chosen.", "Add --instance with its name."
        )
    if "instance" in settings and "price" in settings:
        raise SpecError("--price and --instance both name a price.", "Drop one of the two.")
    if "instance" in settings:
        question = with_instance(question, settings["instance"], settings.get("prices"))
    if "egress" in settings:
        question = with_egress(question, settings["egress"], settings.get("cloud", ""))
    question = ask(question, settings)
    _refuse_mixed_currencies(question, settings)
    if "trace" in settings:
        text = _text_of(Path(settings["trace"]))
        question = replaced(question, ("payment", "trace"), text)
    if "own" in settings:
        question = _with_own(question, settings)
    return with_grid(question, settings["grid"]) if "grid" in settings else question


def _refuse_mixed_currencies(question: Question, settings: Settings) -> None:
    """Prices of a list stay in its currency; no rate of exchange is known."""
    currency = question.price.currency
    record = question.records[0] if question.records else None
    listed = record.price().currency if record else currency
    signs = {CURRENCY_SIGNS.get(one, one) for one in (listed, currency)}
    if record and len(signs) > 1:
        raise SpecError(
            f"The price of {record.name} is in {listed}, and --currency is {currency}.",
            f"Drop --currency, or give --price in {currency}.",
        )
    if "egress" in settings and currency != "$":
        raise SpecError(
            f"Egress prices are in $, and --currency is {currency}.", "Drop one of the two."
        )


def _text_of(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
            raise SpecError(f"{path} is not a file of at most 256 MiB.", "Name a CSV or JSON.")
        return read_regular(path).decode("utf-8", "replace")
    except OSError as error:
        raise SpecError(
            f"Cannot read {path}: {(error.strerror or 'it fails').lower()}.", "Name a CSV or JSON."
        ) from None


def _with_own(question: Question, settings: Settings) -> Question:
    """Owned nodes: a fraction of the price, or what one costs by a file."""
    text = settings["own"]
    if not text.endswith(".toml"):
        try:
            fraction = parse_fraction(text)
        except ValueError as error:
            raise SpecError(f"own: {error}.", "Write a share or a TOML file.") from None
        if not 0 <= fraction <= 1:
            raise SpecError(f"own: {text} is not a share.", "Write 0 to 1, or a TOML file.")
        question = replaced(question, ("payment", "owned_fraction"), fraction)
        return replaced(question, ("payment", "owned"), None)
    owned = read_owned(Path(text))
    question = replaced(question, ("payment", "owned"), owned)
    if owned.busy_watts and question.site.power is None:
        power = NodePower(
            idle_watts=owned.idle_watts, busy_watts=owned.busy_watts, source=f"stated in {text}"
        )
        question = replaced(question, ("site", "power"), power)
        if "pue" not in settings:
            question = replaced(question, ("site", "pue"), owned.pue)
    return question


def with_instance(question: Question, name: str, prices: str | None = None) -> Question:
    """The price of an instance and, where they are known, its spot price and its power.

    `prices` is a file, followed by `@YYYY-MM-DD` if the file does not state its day.
    """
    records = shipped_prices() if prices is None else _read(prices)
    record = find(records, name)
    price = record.price()
    question = _with(
        question, "price",
        per_node_hour=price.per_node_hour, per=NODE, currency=price.currency, source=price.source,
    )  # fmt: skip
    used = [record, *(spot for spot in records if _is_spot_of(spot, record))][:2]
    if len(used) > 1:
        fraction = used[1].per_node_hour / record.per_node_hour
        stated = tuple(sorted({*question.payment.stated, "spot"}))
        question = _with(question, "payment", spot_fraction=fraction, stated=stated)
    if record.vcpus is not None and record.memory_gib is not None:
        power = power_of_parts(
            record.vcpus, record.memory_gib, record.accelerator, record.accelerator_count
        )
        question = _with(question, "site", power=power or question.site.power)
    return msgspec.structs.replace(question, records=tuple(used))


def _with(question: Question, part: str, **fields: Any) -> Question:
    for name, value in fields.items():
        question = replaced(question, (part, name), value)
    return question


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
        raise SpecError(f"'{day}' is not a date.", "Write FILE@YYYY-MM-DD.") from None
    return read_prices(Path(name), dated)


def with_egress(question: Question, text: str, cloud: str = "") -> Question:
    """The price of data that leave the cloud, by its tiers: `500@aws`, in gigabytes."""
    amount, _, named = text.partition("@")
    cloud = named or cloud or (question.records[0].cloud if question.records else "")
    if not cloud:
        raise SpecError(
            "The cloud of the egress price is missing.", f"Write {amount}@aws, or name an instance."
        )
    try:
        gigabytes = parse_amount(amount.lower().removesuffix("gb"))
    except ValueError:
        raise SpecError(f"'{amount}' is not an amount of data.", "Write gigabytes: 500.") from None
    cost = float(find_tariff(shipped_tariffs(), cloud).cost(gigabytes))
    return replaced(question, ("price", "egress"), cost)


def with_grid(question: Question, place: str) -> Question:
    """The grid of a country or a region."""
    return replaced(question, ("site", "grid"), find_grid(shipped_grids(), place))
