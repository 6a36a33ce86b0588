"""From explained timings and a question to the scale that pays.

`nodewise.decide.decide(study, question)` decides. The room itself was a module once, whose names
keep working for one version, with a warning.
"""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodewise.decide.candidates import Needs
    from nodewise.decide.decide import Decision
    from nodewise.decide.prices.bill import Price
    from nodewise.study.study import Study

# Before the function of that name: whoever imports the module later finds it loaded.
importlib.import_module("nodewise.decide.decide")


def decide(
    study: "Study", price: "Price | None" = None, needs: "Needs | None" = None
) -> "Decision":
    """Decide as version 0.1 did; now `nodewise.decide.decide.decide(study, question)`."""
    from nodewise.decide import inputs
    from nodewise.decide.decide import decide as decide_question

    _warn("decide")
    given = {"price": price, "needs": needs}
    question = inputs.Question(**{name: value for name, value in given.items() if value})  # type: ignore[arg-type]
    return decide_question(study, question)


def __getattr__(name: str) -> Any:
    if name not in ("Needs", "Decision"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _warn(name)
    return getattr(importlib.import_module("nodewise.decide.decide"), name)


def _warn(name: str) -> None:
    text = f"nodewise.decide.{name} is now nodewise.decide.decide.{name}."
    warnings.warn(text, DeprecationWarning, stacklevel=3)
