"""Price records: the amount, place, date and source of a price, and whether it is plausible.

A price without a date is not evidence: the same node went from 105 to 59 dollars in a year.
"""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from nodewise.base.errors import DataError, SpecError
from nodewise.base.stats import Floats
from nodewise.decide.prices.bill import Price
from nodewise.study.check import Check

Option = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "owned"]
Unit = Literal["node-h", "accelerator-h"]

STALE_DAYS = 90
_MOST = 1e9  # dollars an hour, and of anything in a node; more is a typing error
# dollars for one accelerator and hour: a T4 on spot is near 0.1, a B200 on demand near 15
PLAUSIBLE_PER_ACCELERATOR_HOUR = (0.05, 25.0)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class PriceRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One price as it was published. It is kept inside the result that used it."""

    value: float
    date: date
    source: str
    currency: str = "USD"
    unit: Unit = "node-h"
    includes: tuple[str, ...] = ("node",)  # what the price covers
    cloud: str = ""
    instance: str = ""
    region: str = ""
    zone: str = ""
    option: Option = "on-demand"
    accelerator: str = ""
    accelerator_count: float = 0
    vcpus: float | None = None
    memory_gib: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a price that is impossible or missing."""
        if not 1 / _MOST <= self.value <= _MOST:
            raise DataError(
                f"The price of {self.name} is {self.value:g}.", "Write what a node-hour costs."
            )
        for field in ("accelerator_count", "vcpus", "memory_gib"):
            if not 0 <= (getattr(self, field) or 0) <= _MOST:
                raise DataError(
                    f"The {field} of {self.name} is {getattr(self, field):g}.",
                    "Write how many a node has.",
                )
        if not self.source.strip():
            raise DataError(f"The price of {self.name} has no source.", "Say where it was read.")
        if self.unit == "accelerator-h" and not self.accelerator_count > 0:
            raise DataError(
                f"The price of {self.name} is per accelerator, without their number.",
                "Add accelerator_count.",
            )

    @property
    def per_node_hour(self) -> float:
        """The price of a whole node."""
        return self.value * (self.accelerator_count if self.unit == "accelerator-h" else 1)

    @property
    def name(self) -> str:
        """The instance with its place."""
        place = f"@{self.zone or self.region}" if self.zone or self.region else ""
        return f"{self.cloud}:{self.instance}{place}" if self.cloud else self.instance or "a node"

    @property
    def cited(self) -> str:
        """Option, place, date and source on one line, as `Price.source` holds it."""
        return f"{self.name} {self.option}, {self.date.isoformat()}, {self.source}"

    def price(self, **overheads: float) -> Price:
        """The price of a node with what is paid beside it.

        >>> record = PriceRecord(value=2.1, date=date(2026, 8, 22), source="a list")
        >>> record.price(fixed_per_hour=9.0).per_node_hour
        2.1
        """
        currency = "$" if self.currency == "USD" else self.currency
        price = Price(per_node_hour=self.per_node_hour, currency=currency, source=self.cited)
        return msgspec.structs.replace(price, **overheads)


def find(records: Sequence[PriceRecord], wanted: str, option: Option = "on-demand") -> PriceRecord:
    """The record of `aws:p5.48xlarge`, or of `aws:p5.48xlarge@eu-north-1` (a region or a zone).

    Without a place the first one listed is taken, and the record says which that is.
    """
    name, _, region = wanted.strip().partition("@")
    cloud, colon, instance = name.partition(":")
    if not colon:
        cloud, instance = "", name
    alike = [
        record
        for record in records
        if record.instance.lower() == instance.lower() and cloud.lower() in ("", record.cloud)
    ]
    if not alike:
        known = {f"{record.cloud}:{record.instance}": None for record in records}
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:3]
        raise SpecError(
            f"No price is known for {wanted}.",
            f"Take for example {', '.join(near)}; or give --price, or a file of prices.",
        )
    here = [
        record
        for record in alike
        if region.lower() in ("", record.region.lower(), record.zone.lower())
    ]
    if not here:
        regions = ", ".join(dict.fromkeys(record.region for record in alike))
        raise SpecError(f"No price of {name} is known in {region}.", f"It is known in {regions}.")
    for record in here:
        if record.option == option:
            return record
    options = ", ".join(dict.fromkeys(record.option for record in here))
    raise SpecError(f"No {option} price is known for {wanted}.", f"It is known for {options}.")


def stated_check(price: Price, today: date | None) -> Check:
    """Whether a price without a record has a source and a date."""
    rule = "price date"
    found = _DAY.search(price.source)
    if found is None:
        said = f"'{price.source}' has no date" if price.source else "source and date missing"
        return Check(
            rule=rule,
            verdict="fail",
            evidence=said,
            remedy="Add --price-source 'where, YYYY-MM-DD', or source under [price] in the spec; "
            "or use --instance.",
            key="price",
        )
    try:
        day = date.fromisoformat(found.group())
    except ValueError:
        return Check(rule=rule, verdict="fail", evidence=f"{found.group()} is not a date",
                     remedy="Write it as YYYY-MM-DD.", key="price")  # fmt: skip
    return _age("the price", day, today)


def checks(
    used: Sequence[PriceRecord], today: date | None, known: Sequence[PriceRecord] = ()
) -> tuple[Check, ...]:
    """Whether the prices of a decision are possible and current.

    A spot price is compared with the on-demand price of the same node, here or among those `known`.
    """
    found: list[Check] = []
    for record in used:
        found.append(_age(f"{record.name} {record.option}", record.date, today))
        if record.accelerator_count:
            found.append(_per_accelerator(record))
        if record.option == "spot":
            found.append(_below(record, _on_demand_beside(record, (*used, *known))))
    return tuple(found)


def _on_demand_beside(spot: PriceRecord, records: Iterable[PriceRecord]) -> PriceRecord | None:
    same = (
        record
        for record in records
        if record.option == "on-demand"
        and (record.cloud, record.instance, record.region, record.currency)
        == (spot.cloud, spot.instance, spot.region, spot.currency)
    )
    return next(same, None)


def _age(name: str, day: date, today: date | None) -> Check:
    rule = "price date"
    said = f"{name} is of {day.isoformat()}"
    if today is None:
        return Check(rule=rule, verdict="unknown", evidence=said,
                     remedy="Compare it with the date of your decision.")  # fmt: skip
    days = (today - day).days
    if days < 0:
        return Check(rule=rule, verdict="fail", evidence=f"{said}, which is in the future",
                     remedy="Write the day on which it was read.")  # fmt: skip
    if days > STALE_DAYS:
        return Check(
            rule=rule,
            verdict="fail",
            evidence=f"{said}, {days} days ago",
            remedy="Look it up again; spot prices move by factors within months.",
        )
    return Check(rule=rule, verdict="pass", evidence=f"{said}, {days} days ago")


def _per_accelerator(record: PriceRecord) -> Check:
    rule = "price per accelerator-hour"
    each = record.per_node_hour / record.accelerator_count
    said = f"{record.name} {record.option}: {each:.3g} {record.currency} for a {record.accelerator}"
    if record.currency != "USD":
        return Check(rule=rule, verdict="unknown", evidence=said, remedy="Give it in USD.")
    low, high = PLAUSIBLE_PER_ACCELERATOR_HOUR
    if low <= each <= high:
        return Check(rule=rule, verdict="pass", evidence=said)
    return Check(
        rule=rule,
        verdict="fail",
        evidence=f"{said}, outside {low:g} to {high:g}",
        remedy="Check the count of accelerators and whether the price is of the whole node.",
    )


def _below(spot: PriceRecord, on_demand: PriceRecord | None) -> Check:
    rule = "spot price against on-demand"
    if on_demand is None:
        return Check(
            rule=rule,
            verdict="unknown",
            evidence=f"no on-demand price beside {spot.name}",
            remedy="Give both prices.",
        )
    said = f"{spot.name}: {spot.per_node_hour:g} on spot, {on_demand.per_node_hour:g} on demand"
    if spot.per_node_hour < on_demand.per_node_hour:
        return Check(rule=rule, verdict="pass", evidence=said)
    return Check(
        rule=rule,
        verdict="fail",
        evidence=said,
        remedy="Such a catalogue copies the one price into the other: look it up.",
    )


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """What a gigabyte costs up to an amount; the last tier has no end."""

    up_to_gb: float | None
    per_gb: float


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """Tiers of a cloud's egress price, the cheapest amounts first, as published."""

    cloud: str
    tiers: tuple[Tier, ...]
    date: date
    source: str

    def __post_init__(self) -> None:
        """Refuse tiers that do not rise or that pay the user."""
        ends = [tier.up_to_gb for tier in self.tiers]
        finite = [end for end in ends[:-1] if end is not None]
        rising = all(low < high for low, high in zip([0.0, *finite], finite, strict=False))
        if not ends or ends[-1] is not None or len(finite) != len(ends) - 1 or not rising:
            raise DataError(
                f"The tiers of {self.cloud} do not rise to an open end.",
                "Write rising ends, and none for the last tier.",
            )
        if any(not (math.isfinite(tier.per_gb) and tier.per_gb >= 0) for tier in self.tiers):
            raise DataError(f"A tier of {self.cloud} has no price.", "Write 0 or more.")

    def cost(self, gigabytes: ArrayLike) -> Floats:
        """The sum over tiers of what falls into each: more data never costs less.

        >>> tiers = (Tier(up_to_gb=10, per_gb=0.09), Tier(up_to_gb=None, per_gb=0.05))
        >>> tariff = Tariff(cloud="x", tiers=tiers, date=date(2026, 8, 22), source="")
        >>> [round(float(cost), 2) for cost in tariff.cost([10, 20])]
        [0.9, 1.4]
        """
        amount = np.asarray(gigabytes, dtype=np.float64)
        if not (amount >= 0).all():
            raise SpecError("An amount of data cannot be negative.", "Write gigabytes, 0 or more.")
        total, low = np.zeros_like(amount), 0.0
        for tier in self.tiers:
            high = math.inf if tier.up_to_gb is None else tier.up_to_gb
            total = total + np.clip(amount - low, 0.0, high - low) * tier.per_gb
            low = high
        return total


def find_tariff(tariffs: Sequence[Tariff], cloud: str) -> Tariff:
    """The egress tariff of a cloud."""
    for tariff in tariffs:
        if tariff.cloud == cloud.strip().lower():
            return tariff
    raise SpecError(
        f"No egress price is known for {cloud}.",
        f"It is known for {', '.join(tariff.cloud for tariff in tariffs)}.",
    )
