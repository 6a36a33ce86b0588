"""Everything that one study says, given one question: what every report is made from."""

from collections.abc import Sequence

import msgspec

from nodewise.attribute import Attribution
from nodewise.audit import Check
from nodewise.candidates import Needs
from nodewise.decide import Decision, decide_timings
from nodewise.energy import Embodied, NodePower, Site
from nodewise.ownership import Commitment
from nodewise.prices import Price
from nodewise.question import Question, scenario_of, with_range
from nodewise.ranges import Range
from nodewise.regimes import Alternatives
from nodewise.rules import Rule, check_study
from nodewise.scaling import Scaling, scale_timings, timings
from nodewise.spec import Spec
from nodewise.spot import Checkpointing, parse_preemptions
from nodewise.study import Study

__all__ = ["Findings", "Question", "find", "question_of"]


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
    asked, watts = spec.price, spec.energy
    price = Price(
        per_node_hour=asked.per_node_hour,
        fixed_per_hour=asked.fixed_per_hour,
        startup_seconds=asked.startup_seconds,
        storage_per_hour=asked.storage_per_hour,
        source=asked.source,
    )
    needs = Needs(
        deadline_seconds=spec.gates.deadline_seconds,
        deadline_confidence=spec.gates.deadline_confidence,
        budget=spec.gates.budget,
        energy_budget_joules=spec.gates.energy_budget_joules,
        carbon_budget_grams=spec.gates.carbon_budget_grams,
        value_per_hour=asked.value_per_hour,
        quality_tolerance=spec.quality.tolerance,
        quality_better=spec.quality.better,
        threshold=spec.threshold,
    )
    alternatives = Alternatives(
        spot_fraction=0.30 if asked.spot is None else asked.spot,
        preemptions=msgspec.structs.replace(
            parse_preemptions(asked.preempt), correlation_exponent=asked.correlation
        )
        if asked.preempt
        else None,
        while_down=asked.while_down,
        checkpointing=Checkpointing(
            save_seconds=asked.checkpoint_seconds,
            downtime_seconds=asked.downtime_seconds,
            restart_seconds=asked.restart_seconds,
        ),
        utilisation=asked.utilisation,
        commitment=None if asked.commit is None else Commitment(discount=asked.commit),
    )
    site = Site(
        power=None
        if watts.busy_watts is None
        else NodePower(idle_watts=watts.idle_watts, busy_watts=watts.busy_watts),
        shared_watts=watts.shared_watts,
        pue=watts.pue,
        embodied=Embodied(kilograms=watts.embodied_kilograms) if watts.embodied_kilograms else None,
    )
    question = Question(
        price=price,
        needs=needs,
        alternatives=alternatives,
        site=site,
        scenarios={name: scenario_of(changes) for name, changes in spec.scenarios.items()},
        work_unit=spec.work_unit,
    )
    for name, (low, high) in asked.ranges.items():
        question = with_range(question, name, Range(low, high))
    return question


def find(study: Study, question: Question, rules: Sequence[Rule]) -> Findings:
    """Measure, attribute, decide and check, in this order, from one set of timings."""
    times = timings(study, question.center)
    scaling = scale_timings(study, times, question.needs.threshold)
    decision = decide_timings(study, times, scaling, question)
    return Findings(
        question=question,
        scaling=scaling,
        decision=decision,
        checks=(*check_study(study, scaling, rules), *decision.checks),
    )
