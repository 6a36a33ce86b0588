"""What a computing centre asks of an application: rule, columns and headings, as data."""

from importlib.resources import files
from typing import Annotated, Literal

import msgspec

from nodewise.base.errors import SpecError
from nodewise.study.spec import read_toml

RuleKind = Literal["doubling", "efficiency", "none"]
Part = Literal["scaling", "largest", "resources", "memory", "pop", "code", "author"]
ColumnName = Literal["size", "time", "speedup", "ideal", "efficiency", "factor", "passes"]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=100)]


class Tier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A factor that holds up to a size, in the centre's unit."""

    up_to: Annotated[int, msgspec.Meta(ge=1)]
    factor: Above0


class CentreRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a job size is granted."""

    kind: RuleKind
    factor: Above0 | None = None
    tiers: tuple[Tier, ...] = ()
    assumed: bool = False  # the centre names no number; this one is ours

    def factor_at(self, size: float | None) -> float | None:
        """The factor that a size is held to: that of the first tier that reaches so far.

        None if it is unknown: a size that no tier reaches, or tiers and an unknown size.

        >>> rule = CentreRule(kind="doubling", factor=1.3, tiers=(Tier(up_to=64, factor=1.5),))
        >>> rule.factor_at(64), rule.factor_at(65), rule.factor_at(None)
        (1.5, 1.3, None)
        """
        if size is None:
            return None if self.tiers else self.factor
        for tier in sorted(self.tiers, key=lambda one: one.up_to):
            if size <= tier.up_to:
                return tier.factor
        return self.factor


class Heading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the application, and what of the study fills it."""

    title: str
    fills: Part


class Centre(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A centre: who it is, where its rule was read, and what it asks."""

    key: str
    name: str
    unit: Literal["core", "node", "GPU"]
    year: int
    read: Literal["form", "summary"]
    source: str
    columns: tuple[ColumnName, ...]
    rule: CentreRule
    headings: tuple[Heading, ...]


def parse_centres(text: str) -> dict[str, Centre]:
    """The centres of a TOML text, by their keys; there is one at least."""
    try:
        found = msgspec.convert(read_toml(text)["centre"], tuple[Centre, ...])
    except KeyError:
        raise _no_centre("it has no [[centre]]") from None
    except msgspec.ValidationError as error:
        raise _no_centre(str(error)) from None
    except SpecError as error:
        raise _no_centre(error.what.rstrip(".")) from None
    if not found:
        raise _no_centre("it has no [[centre]]")
    for centre in found:
        if centre.rule.kind != "none" and centre.rule.factor is None:
            raise SpecError(
                f"The rule of centre '{centre.key}' has no factor.",
                "Give `factor`; with tiers it holds for sizes beyond the last one.",
            )
    return {centre.key: centre for centre in found}


def _no_centre(why: str) -> SpecError:
    return SpecError(
        f"The file does not describe a centre: {why}.",
        "Take a [[centre]] of nodewise/decide/allocation/centres.toml as a pattern.",
    )


def read_centres() -> dict[str, Centre]:
    """The centres that ship with nodewise."""
    text = files("nodewise.decide.allocation").joinpath("centres.toml").read_text("utf-8")
    return parse_centres(text)
