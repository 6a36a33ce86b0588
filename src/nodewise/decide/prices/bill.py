"""What a run at each scale is billed.

    bill = billed hours * (price * nodes + fixed + storage) + egress + waiting hours * value of one

Nodes are whole; a price may be per GPU or per core instead. Hours count from the launch, so
start-up is part of them, and are rounded up to the billing unit.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import SECONDS_PER_HOUR

_HOURS = "-h"  # the end of a currency that is not money: node-h, GPU-h, replica-h
NEVER_PRICED = ("traffic between zones", "licences and support", "taxes")
_INSTANT_SECONDS = 1e-6


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a node costs an hour, what runs beside it, and how the meter counts."""

    per_node_hour: float | None = None  # null: the table states the hourly cost of each scale
    # what the price is for, in the singular; empty: a node where K tells the nodes, else one of K
    per: str = ""
    fixed_per_hour: float = 0.0  # billed by wall-clock time whatever K is
    startup_seconds: float = 0.0  # launch and tear-down, billed on every node
    billing_unit_seconds: float = 0.0  # 0: to the instant
    billing_minimum_seconds: float = 0.0
    storage_per_hour: float | None = None  # disks of the job; null: not stated
    egress: float | None = None  # what a run sends out, in money; null: not stated
    currency: str = "$"
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse amounts that cannot be a bill."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
                raise SpecError(f"The {name.replace('_', ' ')} is {value:g}.", "Write 0 or more.")

    @property
    def is_money(self) -> bool:
        """Whether bills are in money; without a price they are hours of nodes."""
        return not self.currency.endswith(_HOURS)

    @property
    def prices_the_hour(self) -> bool:
        """Whether an hour costs something whatever K is."""
        return self.fixed_per_hour > 0 or bool(self.storage_per_hour)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """What the costs leave out, by name."""
        asked = {
            "start-up and tear-down": self.startup_seconds > 0,
            "an overhead by the hour": self.fixed_per_hour > 0,
            "storage": self.storage_per_hour is not None,
            "egress": self.egress is not None,
        }
        return (*(name for name, stated in asked.items() if not stated), *NEVER_PRICED)


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """The line items of one run; they add up to its cost."""

    compute: float
    startup: float
    rounding: float
    fixed: float
    storage: float
    egress: float
    waiting: float


ITEMS = Bill.__struct_fields__


class Bills(msgspec.Struct, frozen=True):
    """Line items of many runs at once, as arrays of one shape."""

    compute: Floats
    startup: Floats
    rounding: Floats
    fixed: Floats
    storage: Floats
    egress: Floats
    waiting: Floats

    @property
    def billed(self) -> Floats:
        """What is paid for each run."""
        nodes = self.compute + self.startup + self.rounding
        return nodes + self.fixed + self.storage + self.egress

    @property
    def total(self) -> Floats:
        """The cost of each run: its bill and what waiting for it is worth."""
        return self.billed + self.waiting

    def at(self, position: int) -> Bill:
        """The items of one run."""
        return Bill(**{item: float(getattr(self, item)[position]) for item in ITEMS})


def bill(
    price: Price,
    rate_per_hour: Floats,
    seconds: Floats,
    value_per_hour: float | Floats = 0.0,
    node_fraction: float = 1.0,
    drawn: Mapping[str, Floats] = MappingProxyType({}),
) -> Bills:
    """The bills of runs whose nodes together cost `rate_per_hour`.

    `node_fraction` scales the price of the nodes alone: a spot discount leaves the overhead. What
    is `drawn` of startup, fixed and storage replaces that of the price: a value for each run.

    >>> textbook = bill(Price(fixed_per_hour=9.0), np.array([8 * 2.10]), np.array([582.3]))
    >>> round(float(textbook.total[0]), 5)
    4.17315
    """
    rate = rate_per_hour * node_fraction
    startup = drawn.get("startup", price.startup_seconds)
    fixed = drawn.get("fixed", price.fixed_per_hour)
    storage = drawn.get("storage", price.storage_per_hour or 0.0)
    launched = seconds + startup
    billed = launched
    if price.billing_unit_seconds > _INSTANT_SECONDS:
        # the small slack keeps 60.000000001 s from being billed as two minutes
        units = np.ceil(launched / price.billing_unit_seconds - 1e-9)
        billed = units * price.billing_unit_seconds
    billed = np.maximum(billed, price.billing_minimum_seconds)
    return Bills(
        compute=rate * seconds / SECONDS_PER_HOUR,
        startup=rate * np.full_like(seconds, startup) / SECONDS_PER_HOUR,
        rounding=rate * (billed - launched) / SECONDS_PER_HOUR,
        fixed=fixed * billed / SECONDS_PER_HOUR,
        storage=storage * billed / SECONDS_PER_HOUR,
        egress=np.full_like(seconds, price.egress or 0.0),
        waiting=value_per_hour * launched / SECONDS_PER_HOUR,
    )
