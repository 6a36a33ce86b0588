"""Everything that one study says, given one question: what every report is made from."""

import msgspec

from nodewise.attribute import Attribution
from nodewise.audit import Check, checks
from nodewise.candidates import Needs
from nodewise.decide import Decision, decide_timings
from nodewise.prices import Price
from nodewise.regimes import Alternatives
from nodewise.scaling import Scaling, scale_timings, timings
from nodewise.spec import Spec
from nodewise.stats import Center
from nodewise.study import Study


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer is to hold to: the prices, the gates, and the centre of repeated runs."""

    price: Price = Price()
    needs: Needs = Needs()
    alternatives: Alternatives = Alternatives()
    center: Center = "mean"


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


def question_of(spec: Spec | None) -> Question:
    """The question that a spec asks; without one, the defaults."""
    if spec is None:
        return Question()
    price = Price(
        per_node_hour=spec.price.per_node_hour,
        fixed_per_hour=spec.price.fixed_per_hour,
        startup_seconds=spec.price.startup_seconds,
        source=spec.price.source,
    )
    needs = Needs(
        deadline_seconds=spec.gates.deadline_seconds,
        deadline_confidence=spec.gates.deadline_confidence,
        budget=spec.gates.budget,
        value_per_hour=spec.price.value_per_hour,
        quality_tolerance=spec.quality.tolerance,
        quality_better=spec.quality.better,
        threshold=spec.threshold,
    )
    return Question(price=price, needs=needs)


def find(study: Study, question: Question) -> Findings:
    """Measure, attribute, decide and check, in this order, from one set of timings."""
    times = timings(study, question.center)
    scaling = scale_timings(study, times, question.needs.threshold)
    decision = decide_timings(
        study, times, scaling, question.price, question.needs, question.alternatives
    )
    return Findings(
        question=question, scaling=scaling, decision=decision, checks=checks(study, scaling)
    )
