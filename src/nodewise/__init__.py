"""nodewise: how many nodes is this job worth, and why not more?

import nodewise
job = nodewise.open("times.csv")  # a table, a study folder, a page, a log or a trace
job.decide(price=3.20, deadline="15min").recommended.nodes
"""

from typing import TYPE_CHECKING, Any

from nodewise.base.old_names import install

if TYPE_CHECKING:
    from nodewise.report.notebook import open_job as open
    from nodewise.report.steps import Step, counted, steps

__version__ = "0.2.0"
__all__ = ["Step", "counted", "open", "steps"]

install()


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    """The functions of the package, imported when they are used."""
    if name == "open":
        from nodewise.report.notebook import open_job

        return open_job
    if name in __all__:
        from nodewise.report import steps

        return getattr(steps, name)
    raise AttributeError(f"module 'nodewise' has no attribute {name!r}")
