"""A check: one rule, its verdict, the evidence, and the fix. The only carrier of doubt."""

from typing import Literal

import msgspec

Verdict = Literal["pass", "fail", "unknown"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a checklist."""

    rule: str
    verdict: Verdict
    evidence: str
    remedy: str = ""
    is_gate: bool = False  # asked for in the spec; when it fails, so does the command
