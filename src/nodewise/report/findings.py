"""All results for one study and one question; every view is made from them."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from nodewise.decide.candidates import Candidates, candidates_of_study
from nodewise.decide.decide import Decision, curve_of, decide_candidates
from nodewise.decide.gates import gate_checks
from nodewise.decide.inputs import Question
from nodewise.explain import fidelity
from nodewise.explain.attribute import Attribution, attribute_timings
from nodewise.explain.scaling import Scaling, Timings, scale_timings, timings
from nodewise.study.check import Check, Verdict
from nodewise.study.study import Study

if TYPE_CHECKING:
    from nodewise.audit.rules import Rule
    from nodewise.decide.forecast import Forecast
    from nodewise.decide.idle import Idling
    from nodewise.decide.sliders import SliderNumbers
    from nodewise.decide.training import Training
    from nodewise.diagnose.next_ceiling import NextCeiling

_WORST_FIRST: tuple[Verdict, ...] = ("fail", "warn", "unknown", "pass")


class Findings:
    """The answer in the order in which it is found: measured, attributed, decided, checked.

    The timings are resampled once. What few views show is computed when the first one asks.
    """

    def __init__(self, study: Study, question: Question, rules: "Sequence[Rule]" = ()) -> None:
        """Measure, attribute, decide; ask the `rules` where there are some."""
        self.study = study
        self.question = question
        self._times: Timings = timings(study, question.center)
        self.scaling: Scaling = scale_timings(study, self._times, question.needs.threshold)
        self.attribution: Attribution = attribute_timings(study, self._times, self.scaling)
        self._candidates: Candidates = candidates_of_study(
            study, self._times, self.attribution, question
        )
        self._decided = decide_candidates(
            self._candidates, question, curve=curve_of(study, self._times)
        )
        self.decision: Decision = self._decided.decision
        self.checks: tuple[Check, ...] = self._checked(rules)

    def _checked(self, rules: "Sequence[Rule]") -> tuple[Check, ...]:
        found = [*self.attribution.checks, *self.decision.checks]
        found += gate_checks(self.question.needs, self.scaling)
        if rules:
            from nodewise.audit.rules import check_study

            asked = check_study(self.study, self.scaling, rules, self.question)
            found = [*asked, *found]
        # How faithful a rehearsal was comes before other warnings.
        return one_row_each(sorted(found, key=lambda check: check.rule != fidelity.RULE))

    @property
    def doubts(self) -> tuple[Check, ...]:
        """The checks that failed or warn."""
        return tuple(check for check in self.checks if check.verdict in ("fail", "warn"))

    @property
    def gates_are_met(self) -> bool:
        """Whether some scale may be chosen, and no gate of the spec fails."""
        failed = any(check.is_gate and check.verdict == "fail" for check in self.checks)
        return self.decision.recommended.nodes is not None and not failed

    @cached_property
    def forecast(self) -> "Forecast | None":
        """Predicted scales; None if too few were measured."""
        from nodewise.decide.forecast import forecast_ahead

        return forecast_ahead(self.study, self.question, self._times, self._decided)

    @cached_property
    def idling(self) -> "Idling | None":
        """What the idle time at the largest scale costs; None if none is recorded."""
        from nodewise.decide.idle import idling

        return idling(self.attribution, self.decision)

    @cached_property
    def next_ceiling(self) -> "NextCeiling":
        """What binds at the bend or the largest scale, and what is next."""
        from nodewise.diagnose.next_ceiling import next_ceiling

        recommended = self.decision.recommended.nodes
        return next_ceiling(self.study, self.attribution, recommended=recommended)

    @cached_property
    def sliders(self) -> "SliderNumbers":
        """What the sliders of a page need."""
        from nodewise.decide.sliders import slider_numbers

        chosen = self.decision.recommended.nodes
        return slider_numbers(self._decided.judged, self.question, chosen)

    @cached_property
    def training(self) -> "Training | None":
        """The figures of a training at every scale; None if the study is of another job."""
        from nodewise.decide.training import training_of

        return training_of(self.study, self.decision, self.question.needs)

    @property
    def document(self) -> dict[str, Any]:
        """The findings as JSON has them."""
        made = document(self.decision, self.checks, self.question, self.scaling, self.attribution)
        return made if self.training is None else {**made, "training": self.training}


def find(study: Study, question: Question, rules: "Sequence[Rule]" = ()) -> Findings:
    """All results for a study and a question; the rules of the audit apply if given."""
    return Findings(study, question, rules)


def one_row_each(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks without repeats: of those for one rule, the most severe, then the first."""
    kept: dict[str, Check] = {}
    for check in checks:
        name = check.key or f"{check.rule}: {check.evidence}"
        held = kept.get(name)
        if held is None or _grade(check) < _grade(held):
            kept[name] = check
    return tuple(kept.values())


def _grade(check: Check) -> int:
    return _WORST_FIRST.index(check.shown_verdict)


def document(
    decision: Decision,
    checks: Sequence[Check],
    question: Question,
    scaling: Scaling | None = None,
    attribution: Attribution | None = None,
) -> dict[str, Any]:
    """The one shape of JSON: the keys of the decision, and the results that it is based on.

    `decision` repeats the decision, because files of version 0.1 have that key.
    """
    made: dict[str, Any] = msgspec.to_builtins(decision, str_keys=True)
    return {
        **made,
        "question": question,
        "scaling": scaling,
        "attribution": attribution,
        "checks": checks,
        "decision": made,
    }
