"""Everything that one study says, given one question: what every report is made from."""

from collections.abc import Sequence

import msgspec

from nodewise.audit.rules import Rule, check_study
from nodewise.decide.decide import Decision, decide_timings
from nodewise.decide.inputs import Question
from nodewise.explain.attribute import Attribution
from nodewise.explain.scaling import Scaling, scale_timings, timings
from nodewise.study.check import Check
from nodewise.study.study import Study


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in the order in which it was found: measured, attributed, decided, checked."""

    question: Question
    scaling: Scaling
    decision: Decision
    checks: tuple[Check, ...]

    @property
    def attribution(self) -> Attribution:
        """The ledger that the decision was made on."""
        assert self.decision.attribution is not None
        return self.decision.attribution

    @property
    def gates_are_met(self) -> bool:
        """Whether some scale may be chosen, and no gate of the spec fails."""
        failed = any(check.is_gate and check.verdict == "fail" for check in self.checks)
        return self.decision.recommended.nodes is not None and not failed


def find(study: Study, question: Question, rules: Sequence[Rule]) -> Findings:
    """Measure, attribute, decide and check, in this order, from one set of timings."""
    times = timings(study, question.center)
    scaling = scale_timings(study, times, question.needs.threshold)
    decision = decide_timings(study, times, scaling, question)
    return Findings(
        question=question,
        scaling=scaling,
        decision=decision,
        checks=(*check_study(study, scaling, rules, question), *decision.checks),
    )
