"""What an owned node costs, and from which use on it beats a rented one.

    a year = (capital - residual / (1+r)^y) * r / (1 - (1+r)^-y)
             + 8760 * (idle + (busy - idle) * u) * PUE * energy price + staff + colocation + upkeep

is affine in the use u, fixed + variable * u, so an hour of use costs (fixed/u + variable) / 8760
and the use at which it equals a rented hour is fixed / (8760 * rent - variable).
"""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import HOURS_PER_YEAR

_SWING = 0.2

Accounting = Literal["marginal", "full"]
_MOST = 1e12  # of anything that one node has; more is a typing error


class Owned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One owned node. All amounts are in one currency, and of this node's share."""

    capital: float
    residual_share: float = 0.0  # of the capital, when it is sold
    interest: float = 0.0  # a year, of money bound in it
    life_years: float = 4.0
    idle_watts: float = 0.0
    busy_watts: float = 0.0
    pue: float = 1.0  # watts of the site for each watt of the node
    per_kwh: float = 0.0
    staff_per_year: float = 0.0
    colocation_per_year: float = 0.0
    maintenance_share: float = 0.0  # of the capital, a year

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 <= value <= _MOST:
                raise SpecError(f"{_words(name)} is {value:g}.", f"Write 0 to {_MOST:g}.")
        if self.life_years < 1e-3:
            raise SpecError(
                f"life years is {self.life_years:g}.", "Write how many years the node will serve."
            )
        if self.residual_share > 1:
            raise SpecError(
                "residual share is above 1.", "Write the fraction of the capital that is recovered."
            )
        if self.pue < 1:
            raise SpecError(
                f"A PUE of {self.pue:g} is below 1.", "Write site watts over node watts, like 1.4."
            )
        if self.busy_watts < self.idle_watts:
            raise SpecError("A busy node draws less than an idle one.", "Swap the two.")

    @property
    def capital_per_year(self) -> float:
        """The annuity: equal yearly payments that are worth the capital less what it returns.

        >>> round(Owned(capital=350e3, residual_share=0.25, interest=0.08).capital_per_year)
        86254
        """
        r, y = self.interest, self.life_years
        if r * y < 1e-9:  # the annuity of no interest, where its formula is 0/0
            return self.capital * (1 - self.residual_share) / y
        at_end = math.exp(-y * math.log1p(r))
        return self.capital * (1 - self.residual_share * at_end) * r / (1 - at_end)

    @property
    def fixed_per_year(self) -> float:
        """What a year costs if the node never works."""
        return (
            self.capital_per_year
            + self._energy_per_hour(self.idle_watts) * HOURS_PER_YEAR
            + self.staff_per_year
            + self.colocation_per_year
            + self.maintenance_share * self.capital
        )

    @property
    def variable_per_year(self) -> float:
        """What working all year adds."""
        return self._energy_per_hour(self.busy_watts - self.idle_watts) * HOURS_PER_YEAR

    def _energy_per_hour(self, watts: float) -> float:
        return watts / 1000 * self.pue * self.per_kwh

    def per_useful_hour(self, utilisation: ArrayLike) -> Floats:
        """What an hour of use costs, by how much of the time the node is used.

        >>> node = Owned(capital=8760.0, life_years=1.0)
        >>> [float(cost) for cost in node.per_useful_hour([1.0, 0.5])]
        [1.0, 2.0]
        """
        used = np.asarray(utilisation, dtype=np.float64)
        if not ((used > 0) & (used <= 1)).all():
            raise SpecError(
                "A utilisation must be above 0 and at most 1.", "Write for example 60%."
            )
        return (self.fixed_per_year / used + self.variable_per_year) / HOURS_PER_YEAR

    def marginal_per_hour(self, idle_stays_on: bool = True) -> float:
        """What one more hour of use costs when the node is there anyway: energy alone.

        If idle nodes are switched off, it is all of their power and not the difference.
        """
        idle = self.idle_watts if idle_stays_on else 0.0
        return self._energy_per_hour(self.busy_watts - idle)

    def break_even_utilisation(self, rent_per_hour: float) -> float | None:
        """The use from which owning costs less than renting; above 1 it never does.

        Nothing if the energy of an hour costs more than the rent.

        >>> Owned(capital=8760.0, life_years=1.0).break_even_utilisation(4.0)
        0.25
        """
        margin = HOURS_PER_YEAR * rent_per_hour - self.variable_per_year
        return self.fixed_per_year / margin if margin > 0 else None


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """How the break-even use moves with one assumption."""

    assumption: str
    value: float
    utilisation: float | None


def sensitivity(
    owned: Owned, rent_per_hour: float, changes: Mapping[str, tuple[float, ...]] | None = None
) -> tuple[Sensitivity, ...]:
    """The break-even use with one assumption changed at a time, the largest effects first.

    Without `changes`, each assumption that is not zero is moved by 20 % down and up.
    """
    if changes is None:
        changes = {
            name: tuple(
                moved for moved in (value * (1 - _SWING), value * (1 + _SWING))
                if name != "pue" or moved >= 1
            )
            for name in owned.__struct_fields__
            if (value := getattr(owned, name)) > 0
        }  # fmt: skip
    base = owned.break_even_utilisation(rent_per_hour)
    rows = []
    for name, values in changes.items():
        if name not in owned.__struct_fields__:
            raise SpecError(
                f"'{name}' is not an assumption about owned nodes.",
                f"Take one of {', '.join(owned.__struct_fields__)}.",
            )
        found = [
            Sensitivity(
                assumption=name,
                value=value,
                utilisation=msgspec.structs.replace(owned, **{name: value}).break_even_utilisation(
                    rent_per_hour
                ),
            )
            for value in values
        ]
        rows.append(found)

    def swing(found: list[Sensitivity]) -> float:
        if base is None:
            return 0.0
        return max(
            (math.inf if one.utilisation is None else abs(one.utilisation - base) for one in found),
            default=0.0,
        )

    return tuple(one for found in sorted(rows, key=swing, reverse=True) for one in found)


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """A discount for hours that are paid whether they are used or not."""

    discount: float

    def __post_init__(self) -> None:
        """Refuse a discount outside 0 to 1."""
        if not 0 <= self.discount < 1:
            raise SpecError(
                f"A discount of {self.discount:g} is not between 0 and 1.", "Write 0.4 or 40%."
            )

    @property
    def break_even_utilisation(self) -> float:
        """It pays if more than this share of the term is used.

        >>> round(Commitment(discount=0.4).break_even_utilisation, 3)
        0.6
        """
        return 1 - self.discount

    def per_useful_hour(self, on_demand_per_hour: float, utilisation: ArrayLike) -> Floats:
        """What an hour of use costs under the commitment."""
        paid = on_demand_per_hour * (1 - self.discount)
        return np.asarray(paid / np.asarray(utilisation, dtype=np.float64), dtype=np.float64)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One way to charge an owned node to a run, and the case that it holds for."""

    accounting: Accounting
    per_node_hour: Floats  # one, or one for each utilisation
    question: str


def accounts(
    owned: Owned, utilisation: ArrayLike, idle_stays_on: bool = True
) -> tuple[Account, ...]:
    """Both ways to charge owned nodes; they favour different scales, so both are shown."""
    full = owned.per_useful_hour(utilisation)
    return (
        Account(
            accounting="marginal",
            per_node_hour=np.full_like(full, owned.marginal_per_hour(idle_stays_on)),
            question="If the nodes would otherwise be idle: a run costs its energy.",
        ),
        Account(
            accounting="full",
            per_node_hour=full,
            question="If other jobs queue for the nodes: a run costs its hours of use.",
        ),
    )


def _words(name: str) -> str:
    return "The energy price" if name == "per_kwh" else name.replace("_", " ")
