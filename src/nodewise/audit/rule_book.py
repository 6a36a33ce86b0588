"""The honesty rules that come with nodewise."""

from importlib.resources import files

from nodewise.audit.rules import Rule, parse_rules


def read_rules() -> tuple[Rule, ...]:
    """All of them, in the order of the checklist."""
    return parse_rules(files("nodewise.audit").joinpath("rules.toml").read_text("utf-8"))
