"""A check: one rule, its verdict, the evidence, and the fix. The only carrier of doubt."""

from typing import Literal

import msgspec

Verdict = Literal["pass", "warn", "fail", "unknown"]  # warn: it holds, with this doubt


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a checklist."""

    rule: str
    verdict: Verdict
    evidence: str
    remedy: str = ""
    is_gate: bool = False  # asked for in the spec; when it fails, so does the command
    key: str = ""  # of the honesty rule that asks for this as well

    @property
    def shown_verdict(self) -> Verdict:
        """As a reader sees it."""
        return self.verdict


def warning(rule: str, evidence: str, remedy: str = "", key: str = "") -> Check:
    """A doubt about what was measured or asked."""
    return Check(rule=rule, verdict="warn", evidence=evidence, remedy=remedy, key=key)
