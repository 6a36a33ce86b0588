"""Which scales may be chosen: the gates of the question, and a refusal for each that fails one."""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import format_duration, format_money, format_percent, format_quantity
from nodewise.decide.candidates import Candidates, Needs
from nodewise.decide.choose import TIE
from nodewise.decide.prices.bill import Bills, Price
from nodewise.explain.quality import DriftState
from nodewise.explain.scaling import Scaling
from nodewise.study.check import Check

Mask = NDArray[np.bool_]
Gate = Literal["validity", "failures", "least", "quality", "deadline", "budget", "energy", "carbon"]

_ROUNDING = 1e-12


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The first gate that a scale does not pass, with the figures that say so."""

    gate: Gate
    # of the scale: K, its drift, its seconds (or the share of runs in time), bill, joules, grams
    value: float
    limit: float
    confidence: float | None = None  # of a deadline: the share of runs that must be in time
    unit: str = ""  # the currency of a budget; how energy and carbon are known
    because: str = ""  # of failures: why a run never ends


def quality_states(scales: Candidates, needs: Needs) -> list[DriftState] | None:
    """Whether each scale holds the quality of the smallest; None if it is not known."""
    if scales.drifts is None:
        return None
    limits = needs.quality_tolerance, needs.quality_better
    return [drift.state(*limits) for drift in scales.drifts]


def _degraded(scales: Candidates, needs: Needs) -> Mask:
    states = quality_states(scales, needs) or ["held"] * len(scales.nodes)
    return np.array([state == "excluded" for state in states])


def _endless(scales: Candidates) -> Mask:
    why = scales.never_ends or ("",) * len(scales.nodes)
    return np.array([bool(one) for one in why], dtype=bool)


def _late(scales: Candidates, price: Price, needs: Needs) -> Mask:
    if needs.deadline_seconds is None:
        return np.zeros(len(scales.nodes), dtype=bool)
    if scales.in_time is not None:
        return np.asarray(scales.in_time < needs.deadline_confidence, dtype=bool)
    # rounding of T1*(s + ...) must not decide against a scale that just meets it
    latest = needs.deadline_seconds * (1 + _ROUNDING)
    return np.asarray(scales.seconds + price.startup_seconds > latest, dtype=bool)


def _above(values: Floats | None, budget: float | None, what: str, scales: Candidates) -> Mask:
    if budget is None:
        return np.zeros(len(scales.nodes), dtype=bool)
    if values is None:
        raise SpecError(
            f"A budget of {what} needs the {what} of each scale, which is not known.",
            "Add a column energy_j, or --watts and for grams --grid.",
        )
    # what is not known, nan, is not within; a figure at the limit is, whatever its rounding
    return np.asarray(~(values <= budget * (1 + TIE)), dtype=bool)


def _most(scales: Candidates) -> tuple[Floats | None, Floats | None]:
    """Joules and grams of each scale; of a model, the most that they may be."""
    energy, carbon = scales.energy, scales.carbon
    return (
        energy.joules if energy.high is None else energy.high,
        carbon.grams if carbon.high is None else carbon.high,
    )


def _failed_gates(
    scales: Candidates, price: Price, needs: Needs, bills: Bills
) -> list[tuple[Gate, Mask]]:
    """The scales that do not pass each gate, in the order in which gates are asked."""
    joules, grams = _most(scales)
    return [
        ("validity", np.full(len(scales.nodes), scales.validity.state == "invalid")),
        ("failures", _endless(scales)),
        ("least", np.array(scales.nodes) < (needs.least_scale or 0)),
        ("quality", _degraded(scales, needs)),
        ("deadline", _late(scales, price, needs)),
        ("budget", _above(bills.billed, needs.budget, "money", scales)),
        ("energy", _above(joules, needs.energy_budget_joules, "energy", scales)),
        ("carbon", _above(grams, needs.carbon_budget_grams, "carbon", scales)),
    ]


def allowed_scales(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> Mask:
    """Which scales pass every gate."""
    failed = [mask for _, mask in _failed_gates(scales, price, needs, bills)]
    return np.asarray(~np.logical_or.reduce(failed), dtype=bool)


def refused_at_any_price(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> Mask:
    """Which scales fail a gate that neither a price nor a deadline moves."""
    masks = dict(_failed_gates(scales, price, needs, bills))
    fixed: tuple[Gate, ...] = ("validity", "failures", "least", "quality", "energy", "carbon")
    return np.asarray(np.logical_or.reduce([masks[gate] for gate in fixed]), dtype=bool)


def refusals(scales: Candidates, price: Price, needs: Needs, bills: Bills) -> list[Refusal | None]:
    """Why each scale may not be chosen, or nothing; the first gate of several."""
    found: list[Refusal | None] = [None] * len(scales.nodes)
    for gate, mask in _failed_gates(scales, price, needs, bills):
        for at in np.flatnonzero(mask):
            found[at] = found[at] or _refusal(gate, scales, price, needs, bills, int(at))
    return found


def _refusal(
    gate: Gate, scales: Candidates, price: Price, needs: Needs, bills: Bills, at: int
) -> Refusal:
    if gate == "failures":
        limit = float(scales.undisturbed[at]) if scales.undisturbed is not None else 0.0
        why = scales.never_ends[at]
        return Refusal(gate=gate, value=float(scales.seconds[at]), limit=limit, because=why)
    if gate == "validity":
        return Refusal(gate=gate, value=0.0, limit=0.0)
    if gate == "least":
        return Refusal(gate=gate, value=scales.nodes[at], limit=needs.least_scale or 0)
    if gate == "quality":
        assert scales.drifts is not None
        drift = scales.drifts[at].value
        return Refusal(gate=gate, value=drift, limit=needs.quality_tolerance)
    if gate == "deadline":
        limit = needs.deadline_seconds or 0.0
        if scales.in_time is None:
            spent = float(scales.seconds[at]) + price.startup_seconds
            return Refusal(gate=gate, value=spent, limit=limit)
        share, asked = float(scales.in_time[at]), needs.deadline_confidence
        return Refusal(gate=gate, value=share, limit=limit, confidence=asked)
    if gate == "budget":
        spent, limit = float(bills.billed[at]), needs.budget or 0.0
        return Refusal(gate=gate, value=spent, limit=limit, unit=price.currency)
    joules, grams = _most(scales)
    if gate == "energy":
        assert joules is not None
        spent, limit = float(joules[at]), needs.energy_budget_joules or 0.0
        return Refusal(gate=gate, value=spent, limit=limit, unit=scales.energy.basis)
    assert grams is not None
    spent, limit = float(grams[at]), needs.carbon_budget_grams or 0.0
    return Refusal(gate=gate, value=spent, limit=limit, unit=scales.carbon.basis)


def why_refused(refusal: Refusal) -> str:
    """The gate that a scale does not pass, in words."""
    limit = refusal.limit
    if refusal.gate == "failures":
        return f"a run never ends: {refusal.because}"
    if refusal.gate == "validity":
        return "the measurement is invalid"
    if refusal.gate == "least":
        return f"it is below K={limit:g}, the least that can run"
    if refusal.gate == "quality":
        return f"quality drifts by {refusal.value:+.3g}, tolerance {limit:g}"
    if refusal.gate == "deadline":
        deadline = f"the deadline of {format_duration(limit)}"
        if refusal.confidence is None:
            return f"{deadline} is missed"
        return f"{deadline} is kept in fewer than {format_percent(refusal.confidence)} of runs"
    if refusal.gate == "budget":
        return f"the cost exceeds the budget of {format_money(limit, refusal.unit)}"
    if refusal.gate == "energy":
        return f"the energy exceeds {format_quantity(limit)} J ({refusal.unit})"
    return f"emissions exceed {format_quantity(limit)} g CO2e ({refusal.unit})"


def gate_checks(needs: Needs, scaling: Scaling) -> list[Check]:
    """The limits that the question sets at named scales."""
    asked = {
        "speedup": needs.least_speedup,
        "efficiency": needs.least_efficiency,
        "seconds": needs.most_seconds,
    }
    return [
        _gate_check(scaling, name, nodes, limit)
        for name, limits in asked.items()
        for nodes, limit in sorted(limits.items())
    ]


def _gate_check(scaling: Scaling, name: str, nodes: int, limit: float) -> Check:
    rule = f"{name} {'at most' if name == 'seconds' else 'at least'} {limit:g} at K={nodes}"
    row = next((row for row in scaling.rows if row.nodes == nodes), None)
    if row is None:
        evidence, remedy = f"no run at K={nodes} succeeded", "Measure that K, or drop its gate."
        return Check(rule=rule, verdict="fail", evidence=evidence, remedy=remedy, is_gate=True)
    value = getattr(row, name)
    low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
    evidence = f"{name} is {value:.4g}"
    if low is not None and high is not None:
        evidence += f" ({low:.4g} to {high:.4g})"
        if low <= limit <= high:
            evidence += "; the limit is within the noise"
    if value <= limit if name == "seconds" else value >= limit:
        return Check(rule=rule, verdict="pass", evidence=evidence, is_gate=True)
    remedy = f"See what is lost there: nodewise attribute, at K={nodes}."
    return Check(rule=rule, verdict="fail", evidence=evidence, remedy=remedy, is_gate=True)
