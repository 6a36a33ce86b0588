"""The efficiencies of the POP method, as text."""

from nodewise.explain.pop import Pop
from nodewise.report.tables import Table, pop_table


def pop_lines(result: Pop | None) -> list[str | Table]:
    """The table, how its columns multiply, and what is unknown; nothing without it."""
    if result is None:
        return []
    reasons: dict[str, list[str]] = {}
    for name, reason in result.unknown.items():
        reasons.setdefault(reason, []).append(name)
    unknown = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return [
        "**POP efficiencies**",
        pop_table(result),
        f"Global = parallel x computation; parallel = load balance x communication; communication "
        f"= serialisation x transfer. Source: {result.source}.",
        *([f"Unknown: {unknown}."] if unknown else []),
    ]
