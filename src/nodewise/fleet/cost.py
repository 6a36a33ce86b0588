"""What a fleet costs an hour, and what a million good tokens of it cost."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import msgspec

from nodewise.base.errors import SpecError
from nodewise.base.units import SECONDS_PER_HOUR
from nodewise.decide.prices.bill import Price
from nodewise.fleet.latency import Served

Unit = Literal["tokens", "requests"]

REPLICA_HOURS = "replica-h"  # the currency where no price is given

_MILLION = 1e6


class TokenCost(msgspec.Struct, frozen=True, kw_only=True):
    """Money for a million good output tokens, with what is not known of tokens and capacity."""

    amount: float
    low: float
    high: float


def fleet_per_hour(price: Price, replicas: float) -> float:
    """What a fleet costs an hour: its replicas and what runs beside them.

    >>> fleet_per_hour(Price(per_node_hour=2.10, fixed_per_hour=9.0), 8)
    25.8
    """
    return (
        replicas * (price.per_node_hour or 0.0)
        + price.fixed_per_hour
        + (price.storage_per_hour or 0.0)
    )


def cost_per_million(per_hour: float, tokens_per_second: float) -> float:
    """Money for a million tokens.

    >>> round(cost_per_million(2.10, 1000.0), 4)
    0.5833
    """
    return _MILLION * per_hour / SECONDS_PER_HOUR / tokens_per_second


def in_hours(price: Price) -> Price:
    """A price that names no replica counts the hours of replicas, and no money."""
    if price.per_node_hour is not None:
        return price
    if price.prices_the_hour:
        raise SpecError(
            "Other costs have a price, but a replica has none.",
            "Give the price of a replica too: --price, or price.per_replica_hour in the spec.",
        )
    return msgspec.structs.replace(price, per_node_hour=1.0, currency=REPLICA_HOURS)


def money_in_words(price: Price) -> str:
    """What costs are counted in."""
    return "replica-hours" if price.currency == REPLICA_HOURS else price.currency


def mean(windows: Sequence[Served], name: str) -> float:
    """The mean of a figure over windows."""
    return fmean(float(getattr(one, name)) for one in windows) if windows else 0.0


def good_per_second(windows: Sequence[Served], unit: Unit) -> tuple[float, float, float]:
    """Good tokens or requests a second, over the rounds: the amount and its bounds."""
    if unit == "tokens":
        amount, low, high = (
            mean(windows, f"good_tokens_per_second{end}") for end in ("", "_low", "_high")
        )
        return amount, low, high
    rate = mean(windows, "good_requests_per_second")
    whole = rate / (mean(windows, "attainment") or 1.0)
    return (
        rate,
        whole * mean(windows, "attainment_low"),
        whole * mean(windows, "attainment_high"),
    )


def token_cost(per_hour: float, good: tuple[float, float, float], share: float) -> TokenCost:
    """The price of a million, where only a share of the good tokens is requested."""
    amount, low, high = good
    return TokenCost(
        amount=cost_per_million(per_hour, amount * share),
        low=cost_per_million(per_hour, high * share),
        high=cost_per_million(per_hour, low * share) if low > 0 else float("inf"),
    )
