"""Put a wrapped version in the place of a call of torch."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def after(first: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, after another one with the same arguments."""

    @functools.wraps(call)
    def both(*arguments: Any, **options: Any) -> Any:
        first(*arguments, **options)
        return call(*arguments, **options)

    return both


def then(second: Callable[[], object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, and another one when it has returned."""
    return then_with(lambda *_, **__: second(), call)


def then_with(second: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, and another one with the same arguments when it has returned."""

    @functools.wraps(call)
    def both(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        second(*arguments, **options)
        return result

    return both


def argument(arguments: Sequence[Any], options: Mapping[str, Any], at: int, name: str) -> Any:
    """An argument of a call, by position or by name; None if it is not given.

    >>> argument((1,), {"size": 2}, 1, "size"), argument((1, 2), {}, 1, "size")
    (2, 2)
    """
    return arguments[at] if len(arguments) > at else options.get(name)


def replace(owner: Any, name: str, wrap: Callable[..., Any]) -> None:
    """Put a wrapped version in the place of what has this name; torch may be without it."""
    if hasattr(owner, name):
        setattr(owner, name, wrap(getattr(owner, name)))
