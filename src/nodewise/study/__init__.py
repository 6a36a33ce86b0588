"""What is measured, what is asked, and what was recorded; the files it is stored in."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """`from nodewise.study import Run`, as in version 0.1."""
    if name not in ("Run", "Rank", "Study"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nodewise.study import study

    text = f"nodewise.study.{name} is now nodewise.study.study.{name}."
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return getattr(study, name)
