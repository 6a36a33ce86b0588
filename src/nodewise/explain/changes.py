"""What is left of a cause, as `--what-if` spells it: 0.5x, fixed, or a faster link."""

from nodewise.base.errors import SpecError
from nodewise.base.units import parse_bandwidth

_FIXED = "fixed"


def share_left(name: str, value: str) -> float:
    """The factor of `0.5x` or `fixed`."""
    if value == _FIXED:
        return 0.0
    try:
        factor = float(value.removesuffix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1:
        raise SpecError(
            f"--what-if {name}: {value!r} is not a factor between 0 and 1.",
            f"State {name}=0.5x or {name}=fixed.",
        )
    return factor


def link_rates(value: str) -> tuple[float | None, float]:
    """Bytes per second of the link measured on, if stated, and of the other one.

    >>> link_rates("100Gbit:400Gbit"), link_rates("400Gbit")
    ((12500000000.0, 50000000000.0), (None, 50000000000.0))
    """
    *measured, other = (_rate(part) for part in value.split(":"))
    if len(measured) > 1:
        raise SpecError(f"--what-if link: {value!r} names three links.", "State link=FROM:TO.")
    return (measured[0] if measured else None), other


def link_share(here: float, there: float) -> float:
    """What a faster link leaves of the seconds of communication; its latency is left out."""
    if there < here:
        raise SpecError(
            "--what-if link: a slower link would expose communication that is hidden now.",
            "Use nodewise predict --cluster FILE for a slower link.",
        )
    return here / there


def _rate(text: str) -> float:
    try:
        rate = parse_bandwidth(text)
    except ValueError:
        rate = 0.0
    if rate <= 0:
        raise SpecError(
            f"--what-if link: {text!r} is not a rate.",
            "State link=400Gbit, or with the link measured on, link=100Gbit:400Gbit.",
        )
    return rate
