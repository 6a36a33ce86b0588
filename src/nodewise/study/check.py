"""A check: one rule, its verdict, the evidence, and the fix. The only carrier of doubt."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Verdict = Literal["pass", "warn", "fail", "unknown"]  # warn: it holds, with this doubt
Effect = Literal["doubtful", "invalid"]
State = Literal["valid", "doubtful", "invalid"]

BILLED = "billed-nodes"  # the key of a doubt about how many nodes are paid; shown before others

_SHOWN_REASONS = 2


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a checklist."""

    rule: str  # name of the rule
    verdict: Verdict
    evidence: str  # what was found
    remedy: str = ""  # the fix
    is_gate: bool = False  # true: a gate of the spec; a failure fails the command
    key: str = ""  # of the audit rule, if it is one
    makes: Effect | None = None  # effect on the measurement

    @property
    def shown_verdict(self) -> Verdict:
        """The verdict that is shown: a doubt that does not make a study invalid is a warning."""
        return "warn" if self.verdict == "fail" and self.makes == "doubtful" else self.verdict


class Validity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a measurement is valid, doubtful or invalid, with the reasons."""

    state: State = "valid"
    reasons: tuple[str, ...] = ()

    @property
    def clause(self) -> str:
        """The reasons for a headline; nothing if the measurement is valid."""
        left = len(self.reasons) - _SHOWN_REASONS
        shown = [*self.reasons[:_SHOWN_REASONS], *([f"and {left} more"] if left > 0 else [])]
        name = "no answer" if self.state == "invalid" else self.state
        return f"{name}: {'; '.join(shown)}" if shown else ""


def validity_of(checks: Iterable[Check]) -> Validity:
    """The state that a set of checks leaves a measurement in: the worst that one of them makes it.

    >>> doubt = Check(rule="repeats", verdict="warn", evidence="single runs", makes="doubtful")
    >>> validity_of([doubt]).clause
    'doubtful: single runs'
    """
    made = [(check.makes, check.evidence) for check in checks if check.makes is not None]
    for state in ("invalid", "doubtful"):
        reasons = tuple(dict.fromkeys(evidence for effect, evidence in made if effect == state))
        if reasons:
            return Validity(state=state, reasons=reasons)
    return Validity()


def warning(
    rule: str, evidence: str, remedy: str = "", key: str = "", makes: Effect | None = None
) -> Check:
    """A doubt about what was measured or asked."""
    return Check(rule=rule, verdict="warn", evidence=evidence, remedy=remedy, key=key, makes=makes)
