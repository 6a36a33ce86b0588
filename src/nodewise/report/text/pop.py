"""The efficiencies of the POP method, as text."""

from nodewise.explain.pop import Pop
from nodewise.report.sections import Report, Section
from nodewise.report.tables import pop_table


def pop_section(result: Pop | None) -> list[Section]:
    """The efficiencies as a section; none without them."""
    parts = pop_lines(result)
    return [Section(name="pop", title="POP efficiencies", parts=parts)] if parts else []


def pop_lines(result: Pop | None) -> Report:
    """The table, how its columns multiply, and what is unknown; nothing without it."""
    if result is None:
        return []
    reasons: dict[str, list[str]] = {}
    for name, reason in result.unknown.items():
        reasons.setdefault(reason, []).append(name)
    unknown = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    product = (
        "Global = parallel x computation; parallel = load balance x communication; communication "
        f"= serialisation x transfer. Source: {result.source}."
    )
    return [pop_table(result), product, *([f"Unknown: {unknown}."] if unknown else [])]
