"""From explained timings and a question to the scale that pays.

`nodewise.decide.decide(study, question)` decides. The room itself was a module once, whose names
keep working for one version, with a warning.
"""

import importlib
import warnings
from typing import TYPE_CHECKING

from nodewise.base.old_names import forward

if TYPE_CHECKING:
    from nodewise.decide.candidates import Needs
    from nodewise.decide.decide import Decision
    from nodewise.decide.prices.bill import Price
    from nodewise.study.study import Study

# Before the function of that name, so that a later import finds the module loaded.
importlib.import_module("nodewise.decide.decide")


def decide(
    study: "Study", price: "Price | None" = None, needs: "Needs | None" = None
) -> "Decision":
    """Decide as version 0.1 did; now `nodewise.decide.decide.decide(study, question)`."""
    from nodewise.decide.decide import decide as decide_question
    from nodewise.decide.inputs import Question, replaced

    text = "nodewise.decide.decide is now nodewise.decide.decide.decide."
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    question = replaced(Question(), ("price",), price) if price else Question()
    return decide_question(study, replaced(question, ("needs",), needs) if needs else question)


__getattr__ = forward(__name__, f"{__name__}.decide", "Needs", "Decision")
