"""The figures that trainings are compared by: tokens a second, their cost, utilisation, a loss.

The FLOPs of a training are taken as 6 N D: six for each parameter and token, as of a dense
transformer. The time to a loss is where the curve of a run falls to it for the first time, its mean
over a few steps; a loss that no run reached is not extrapolated.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nodewise.study.check import Check, warning
from nodewise.study.study import Run, Study

if TYPE_CHECKING:
    from nodewise.decide.candidates import Needs
    from nodewise.decide.decide import Decision, DecisionRow

_FLOPS = 6  # for each parameter and token, forward and backward
_BILLION, _TERA = 1e9, 1e12
_SMOOTH = 5  # steps that a loss is averaged over


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The figures of one scale; null if they are not known."""

    nodes: int
    samples_per_second: float | None
    tokens_per_second: float | None
    tokens_per_second_each: float | None  # of one of K
    cost_per_billion_tokens: float | None
    teraflops_each: float | None  # of the model, a second, for one of K
    utilisation: float | None  # of the peak: MFU
    loss: float | None
    seconds_to_loss: float | None
    cost_to_loss: float | None


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a training at every scale."""

    rows: tuple[TrainingRow, ...]
    global_batch: dict[int, float]  # by K
    parameters: int | None
    precision: str
    target_loss: float | None
    flops: str = "6 N D"  # how they are counted
    checks: tuple[Check, ...] = ()


def training_of(study: Study, decision: "Decision", needs: "Needs") -> Training | None:
    """The figures of a study of a training; None of any other study."""
    if study.seen is None or decision.validity.state == "invalid":
        return None
    by_scale = {row.nodes: row for row in decision.rows}
    rows = tuple(_row(study.at(nodes), by_scale[nodes], needs) for nodes in study.scales)
    first = study.at(study.scales[0])[0]
    parameters = first.facts.get("parameters")
    return Training(
        rows=rows,
        global_batch={nodes: float(study.at(nodes)[0].facts["global_batch"]) for nodes in by_scale},
        parameters=int(parameters) if isinstance(parameters, int) else None,
        precision=str(first.facts.get("precision", "")),
        target_loss=needs.target_loss,
        checks=tuple(_loss_checks(study, rows, needs)),
    )


def _row(runs: Sequence[Run], row: "DecisionRow", needs: "Needs") -> TrainingRow:
    seconds, nodes = row.seconds, row.nodes
    tokens = _mean([_number(run, "tokens") for run in runs])
    parameters = _mean([_number(run, "parameters") for run in runs])
    flops = None
    if tokens is not None and parameters is not None:
        flops = _FLOPS * parameters * tokens / seconds / nodes / _TERA
    share = None
    if needs.target_loss is not None:
        share = _mean([_share_to_loss(run, needs.target_loss) for run in runs])
    work = _mean([run.work for run in runs])
    return TrainingRow(
        nodes=nodes,
        samples_per_second=None if work is None else work / seconds,
        tokens_per_second=None if tokens is None else tokens / seconds,
        tokens_per_second_each=None if tokens is None else tokens / seconds / nodes,
        cost_per_billion_tokens=None if tokens is None else _BILLION * row.cost / tokens,
        teraflops_each=flops,
        utilisation=None if flops is None or not needs.peak_tflops else flops / needs.peak_tflops,
        loss=_mean([run.quality for run in runs]) if _is_loss(runs) else None,
        seconds_to_loss=None if share is None else share * seconds,
        cost_to_loss=None if share is None else share * row.cost,
    )


def _is_loss(runs: Sequence[Run]) -> bool:
    return all(run.facts.get("quality_name") == "loss" for run in runs)


def _share_to_loss(run: Run, target: float) -> float | None:
    """The share of a run's timed steps after which its loss is at most the target.

    None: it never is, or already in the warm-up, which is not timed.
    """
    step = _step_of_loss(run, target)
    return None if step is None or step < 0 or not run.steps else (step + 1) / run.steps


def _step_of_loss(run: Run, target: float) -> int | None:
    """The first step whose smoothed loss is at most the target; negative: in the warm-up."""
    values = [loss for _, loss in run.losses]
    for at, (step, _) in enumerate(run.losses):
        around = values[max(0, at + 1 - _SMOOTH) : at + 1]
        if len(around) == _SMOOTH and sum(around) / len(around) <= target:
            return step
    return None


def _loss_checks(study: Study, rows: Sequence[TrainingRow], needs: "Needs") -> list[Check]:
    """What the time to a loss rests on."""
    if needs.target_loss is None:
        return []
    rule = "target loss"
    target = needs.target_loss
    steps = {row.nodes: [_step_of_loss(run, target) for run in study.at(row.nodes)] for row in rows}
    early = [nodes for nodes, of in steps.items() if any(at is not None and at < 0 for at in of)]
    if early:
        listed = ", ".join(map(str, early))
        evidence = f"a run at K={listed} reaches {target:g} in its warm-up, which is not timed"
        return [warning(rule, evidence, "Set a lower target loss, or fewer warmup_steps.")]
    missed = [row.nodes for row in rows if row.seconds_to_loss is None]
    if missed:
        least = min((loss for run in study.good_runs for _, loss in run.losses), default=None)
        lowest = (
            "no loss is recorded" if least is None else f"the lowest loss of a step is {least:.4g}"
        )
        listed = ", ".join(map(str, missed))
        evidence = f"no run at K={listed} reaches {needs.target_loss:g}; {lowest}"
        return [warning(rule, evidence, "Train longer; the curve is not extrapolated.")]
    evidence = "the time to a loss is of these short runs, from their first timed step"
    return [warning(rule, evidence, "Check it with a whole training.")]


def _number(run: Run, name: str) -> float | None:
    value = run.facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
