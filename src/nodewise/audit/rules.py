"""The rules of the audit, applied to a claim: pass, fail or unknown, each with its evidence.

The rules are data (rules.toml); `predicates` has what each asks. They judge a claimed table and a
measured study alike; what the study answers for itself (`own_study`) comes first.
"""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import msgspec

from nodewise.audit.case import Case, Need
from nodewise.audit.own_study import Answer
from nodewise.audit.predicates import OF_CURVE, PREDICATES, RESTS_ON
from nodewise.decide.inputs import Question, ask, read_tables
from nodewise.explain.scaling import THRESHOLD, Scaling, scale
from nodewise.study.check import Check, Verdict
from nodewise.study.claim import Claim, ColumnReading, claim_of_study
from nodewise.study.study import Study

Severity = Literal["fail", "warn"]
Standing = Literal["fails", "suspect", "open", "holds"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of the list."""

    key: str
    rule: str
    needs: tuple[Need, ...]
    severity: Severity
    remedy: str
    source: str
    unknown: str = ""
    question: str = ""
    applies: Literal["all", "serving"] = "all"
    ask: Literal["always", "when broken"] = "always"


class RuleCheck(Check, frozen=True, kw_only=True):
    """A row of the checklist with the rule behind it."""

    key: str
    severity: Severity
    source: str
    cells: tuple[str, ...] = ()  # of the claimed table, that an accusation rests on

    @property
    def shown_verdict(self) -> Verdict:
        """The verdict that is shown: a broken rule of low severity is a warning."""
        return "warn" if self.verdict == "fail" and self.severity == "warn" else self.verdict


class CorrectedRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale as claimed and with the base that the rest of the curve implies."""

    nodes: int
    claimed_speedup: float
    claimed_efficiency: float
    speedup: float
    efficiency: float


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """The curve with an honest baseline; computed, not measured."""

    factor: float
    factor_low: float | None
    factor_high: float | None
    threshold: float
    claimed_bend: int | None
    bend: int | None
    rows: tuple[CorrectedRow, ...]

    @property
    def sentence(self) -> str:
        """How the bend moves."""
        if self.bend == self.claimed_bend:
            last = self.rows[-1]
            return (
                f"with an honest baseline the efficiency at K={last.nodes} is "
                f"{last.efficiency:.2f}, not {last.claimed_efficiency:.2f}"
            )
        bend = "nowhere" if self.bend is None else f"at {self.bend}"
        claimed = "nowhere" if self.claimed_bend is None else str(self.claimed_bend)
        return f"with an honest baseline the bend is {bend}, not {claimed}"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on one claim, the questions to its author, and the corrected curve."""

    name: str
    standing: Standing
    verdict: str
    checks: tuple[Check, ...]
    questions: tuple[str, ...]
    correction: Correction | None
    scaling: Scaling
    notes: tuple[str, ...]
    reading: tuple[ColumnReading, ...] = ()
    second_reading: str = ""

    @property
    def passes(self) -> bool:
        """Whether no rule of severity `fail` failed, nor a gate of the spec."""
        return not any(is_severe(check) for check in self.checks if check.verdict == "fail")


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a TOML text, in their order; each must have its predicate."""
    rules = msgspec.convert(tomllib.loads(text)["rule"], tuple[Rule, ...])
    strangers = {rule.key for rule in rules} ^ set(PREDICATES)
    if strangers:
        raise ValueError(f"rules and predicates differ in: {', '.join(sorted(strangers))}")
    return rules


def read_rules() -> tuple[Rule, ...]:
    """The rules that ship with nodewise."""
    return parse_rules(files("nodewise.audit").joinpath("rules.toml").read_text("utf-8"))


def audit(claim: Claim, rules: Sequence[Rule], threshold: float = THRESHOLD) -> Audit:
    """Apply every rule; if a table has two readings, a rule fails only if both break it."""
    case = _case_of(claim, threshold)
    asked = [rule for rule in rules if rule.applies == "all" or "serving" in case.has]
    if claim.second is None:
        answered = [_ask(rule, case) for rule in asked]
    else:
        other = _case_of(claim.second, threshold)
        answered = [_in_both(_answer(rule, case), _answer(rule, other)) for rule in asked]
    checks = (*answered, *case.own_checks)
    slow = any(check.key == "slow-baseline" and check.verdict == "fail" for check in answered)
    correction = _correct(case) if slow else None
    standing, verdict = _verdict(claim.name, checks, correction)
    return Audit(
        name=claim.name,
        standing=standing,
        verdict=verdict,
        checks=checks,
        questions=_questions(asked, answered),
        correction=correction,
        scaling=case.scaling,
        notes=claim.notes,
        reading=claim.reading,
        second_reading=claim.second_reading,
    )


def _case_of(claim: Claim, threshold: float) -> "Case":
    assert claim.study is not None
    asked = ask(Question(), read_tables(claim.study.asked))
    return Case(claim, claim.study, scale(claim.study, threshold), asked)


def _in_both(check: RuleCheck, other: RuleCheck) -> RuleCheck:
    """A broken rule stays broken only where the second reading breaks it too."""
    if check.verdict != "fail" or other.verdict == "fail":
        return check
    evidence = f"not judged: {check.evidence}, but only in one of two readings"
    return msgspec.structs.replace(check, verdict="unknown", evidence=evidence, remedy="", cells=())


def check_study(
    study: Study, scaling: Scaling, rules: Sequence[Rule], question: Question
) -> tuple[Check, ...]:
    """Every rule, asked of a study whose scaling is known."""
    case = Case(claim_of_study(study), study, scaling, question)
    asked = (rule for rule in rules if rule.applies == "all")
    return (*(_ask(rule, case) for rule in asked), *case.own_checks)


def is_severe(check: Check) -> bool:
    """Whether breaking it voids a claim: a rule of severity fail, or a gate of the spec."""
    return check.is_gate or (isinstance(check, RuleCheck) and check.severity == "fail")


def _ask(rule: Rule, case: Case) -> RuleCheck:
    """The answer; unknown if it fails because of a column whose meaning is a guess."""
    check = _answer(rule, case)
    if check.verdict != "fail" or rule.key not in OF_CURVE or not case.guessed:
        return check
    evidence = f"not judged: the meaning of '{case.guessed}' is a guess"
    return msgspec.structs.replace(check, verdict="unknown", evidence=evidence, remedy="", cells=())


def _answer(rule: Rule, case: Case) -> RuleCheck:
    own = case.answers.get(rule.key)
    if own is not None and not (rule.key == "baseline" and case.slow.seen):
        answer = own
    elif not set(rule.needs) <= case.has:
        answer = Answer("unknown", rule.unknown)
    elif case.claim.is_load and rule.key in OF_CURVE:
        answer = Answer("unknown", "K is the load on one set-up, not a number of devices")
    else:
        answer = PREDICATES[rule.key](case)
    columns = RESTS_ON.get(rule.key, ("nodes", case.claim.main or "seconds"))
    cells = case.cite(columns) if answer.verdict == "fail" else ()
    usual = rule.remedy if answer.verdict == "fail" else ""
    return RuleCheck(
        key=rule.key,
        rule=rule.rule,
        verdict=answer.verdict,
        evidence=answer.evidence,
        remedy=usual if answer.remedy is None else answer.remedy,
        severity=rule.severity,
        source=rule.source,
        cells=cells,
    )


def _questions(rules: Sequence[Rule], answered: Sequence[Check]) -> tuple[str, ...]:
    """The questions to ask: failed rules first, then unknown ones, by severity."""
    ranked = []
    for at, (rule, check) in enumerate(zip(rules, answered, strict=True)):
        if check.verdict == "pass" or (check.verdict == "unknown" and rule.ask == "when broken"):
            continue
        if rule.question:
            rank = (check.verdict != "fail", rule.severity != "fail", at)
            ranked.append((rank, rule.question))
    return tuple(dict.fromkeys(question for _, question in sorted(ranked)))


def _verdict(
    name: str, answered: Sequence[Check], correction: Correction | None
) -> tuple[Standing, str]:
    failed = [check for check in answered if check.verdict == "fail"]
    grave = [check.rule for check in failed if is_severe(check)]
    unknown = sum(check.verdict == "unknown" for check in answered)
    open_ones = f"{unknown} of {len(answered)} rules cannot be judged from it"
    if grave:
        end = f"; {correction.sentence}" if correction else ""
        return "fails", f"{name} fails the audit: {_listed(grave)}{end}."
    if failed:
        return "suspect", f"{name} is suspect: {_listed([check.rule for check in failed])}."
    if unknown:
        return "open", f"{name} breaks no rule, but {open_ones}."
    return "holds", f"{name} passes the audit: every rule is met."


def _listed(rules: Sequence[str]) -> str:
    """The rules that are broken, as one phrase."""
    return "broken " + ("rule: " if len(rules) == 1 else "rules: ") + "; ".join(rules)


def _correct(case: Case) -> Correction | None:
    """The curve over the base that the rest of it implies, where the claimed base is too slow."""
    if not case.slow.seen or case.slow.size is None:
        return None
    factor = case.slow.size
    base = case.study.scales[0]
    runs = tuple(
        msgspec.structs.replace(run, seconds=run.seconds / factor) if run.nodes == base else run
        for run in case.study.good_runs
    )
    mended = scale(
        Study(name=case.claim.name, regime=case.study.regime, runs=runs),
        case.scaling.bend.threshold,
    )
    rows = tuple(
        CorrectedRow(
            nodes=claimed.nodes,
            claimed_speedup=claimed.speedup,
            claimed_efficiency=claimed.efficiency,
            speedup=row.speedup,
            efficiency=row.efficiency,
        )
        for claimed, row in zip(case.scaling.rows, mended.rows, strict=True)
    )
    return Correction(
        factor=factor,
        factor_low=case.slow.low,
        factor_high=case.slow.high,
        threshold=case.scaling.bend.threshold,
        claimed_bend=case.scaling.bend.first_below,
        bend=mended.bend.first_below,
        rows=rows,
    )
