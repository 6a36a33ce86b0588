"""Two studies under one question: what each costs at the common scales, and what is recommended."""

import msgspec

from nodewise.decide.decide import Decision, DecisionRow, decide
from nodewise.decide.inputs import Question
from nodewise.decide.objective import ObjectiveName
from nodewise.explain.compare import Comparison, at_scales, common_scales, compare
from nodewise.study.study import Study


class CostRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What a run, or a million units of work, costs in both studies at one scale."""

    nodes: int
    first: float
    second: float
    ratio: float | None  # null if the first costs nothing


class Advice(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K", "alone": "alone_K"}):
    """The scale that is recommended for one study, among the common ones."""

    nodes: int | None
    undecided: tuple[int, ...]  # the scales that may be the right one; empty: decided
    objective: ObjectiveName
    because: str
    seconds: float | None  # with the start-up
    work_per_second: float | None  # where only that is known
    cost: float | None  # null without a price
    alone: int | None  # recommended among all scales of the study


class PricedComparison(Comparison, frozen=True, kw_only=True):
    """A comparison with money: costs, and how the recommendation moves."""

    currency: str | None  # null: no price is known for both
    cost_of: str  # a run, or a million units of work
    costs: tuple[CostRow, ...]
    cost_note: str  # why costs are missing
    first_advice: Advice | None  # null if there is only one common scale
    second_advice: Advice | None


def compare_costs(first: Study, second: Study, question: Question) -> PricedComparison:
    """The second study against the first: times, ledgers, costs and recommendations."""
    found = compare(first, second, question.needs.threshold, question.center)
    shared = common_scales(first, second)
    studies = first, second
    # A bill does not depend on the base. A recommendation does, so it is made on the common one.
    wholes = [decide(study, question) for study in studies if len(study.scales) > 1]
    currency, note = _currency(found, wholes)
    advices: list[Advice] = []
    if len(shared) > 1:
        advices = [
            _advice(decide(at_scales(study, shared), question), whole)
            for study, whole in zip(studies, wholes, strict=True)
        ]
    return PricedComparison(
        **{name: getattr(found, name) for name in found.__struct_fields__},
        currency=currency,
        cost_of=f"a million {question.work_unit}" if first.is_rate else "a run",
        costs=tuple(_cost(nodes, *wholes) for nodes in shared) if currency else (),
        cost_note=note,
        first_advice=advices[0] if advices else None,
        second_advice=advices[1] if advices else None,
    )


def _currency(found: Comparison, decisions: list[Decision]) -> tuple[str | None, str]:
    """The currency of both, or why their costs cannot be compared."""
    if len(decisions) < 2:
        return None, "a study of one scale has no decision"
    names = [found.first, found.second]
    currencies = [decision.price.currency for decision in decisions]
    priced = [decision.name for decision in decisions if decision.price.is_money]
    if len({decision.is_rate for decision in decisions}) > 1:
        return None, "one study has times, the other only rates"
    if not priced:
        return None, "no price is given"
    if len(priced) == 1:
        return None, f"only {priced[0]} has a price"
    if currencies[0] != currencies[1]:
        return None, f"{names[0]} is priced in {currencies[0]}, {names[1]} in {currencies[1]}"
    return currencies[0], ""


def _cost(nodes: int, first: Decision, second: Decision) -> CostRow:
    before, after = _cost_of(first.row(nodes), first), _cost_of(second.row(nodes), second)
    return CostRow(
        nodes=nodes, first=before, second=after, ratio=after / before if before else None
    )


def _cost_of(row: DecisionRow, decision: Decision) -> float:
    return 1e6 * row.cost / (row.work or 1.0) if decision.is_rate else row.cost


def _advice(decision: Decision, whole: Decision) -> Advice:
    """What `decide` recommends at the common scales, and for the study as a whole."""
    chosen = decision.recommended.nodes
    row = None if chosen is None else decision.row(chosen)
    priced = decision.price.is_money
    return Advice(
        nodes=chosen,
        undecided=decision.recommended.undecided,
        objective=decision.objective.name,
        because=decision.recommended.because,
        seconds=row.seconds + decision.price.startup_seconds if row else None,
        work_per_second=row.work_per_second if row and decision.is_rate else None,
        cost=_cost_of(row, decision) if row and priced else None,
        alone=whole.recommended.nodes,
    )
