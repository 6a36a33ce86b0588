"""A measured profile on another cluster: the same job on other nodes and another link.

Each part of the wall time moves by what it is bound by:

    compute, serial    by FLOP/s or memory bandwidth of the node, whichever binds the job
    waiting            as compute does: who is late is late by its work
    communication      bytes / bandwidth + messages * latency of the algorithm; what the link does
                       not explain is software, and stays
    input/output       stays

An all-reduce of n bytes over K nodes, per byte and per message:

    ring          2 (K-1)/K / bandwidth,  2 (K-1) latency
    tree          2 (K-1)/K / bandwidth,  2 log2 K latency: halves exchanged and put together again
    hierarchical  a ring inside the node over its link, then one among the nodes for each device
    neighbours    1 / bandwidth, 2 latency, whatever K is: no all-reduce, but a halo exchange
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import DataError, SpecError
from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Floats
from nodewise.decide.counting import with_scale_unit
from nodewise.decide.forecast import Forecast, forecast_curve
from nodewise.decide.inputs import Question
from nodewise.decide.paper.job import Accelerator, Efficiency, Precision
from nodewise.decide.prices.bill import Price
from nodewise.diagnose.links import Link
from nodewise.explain.predict.curve import Curve, measured_ladder, stage_parts
from nodewise.explain.predict.laws import Part, Parts
from nodewise.explain.scaling import timings
from nodewise.study.spec import Count, Positive
from nodewise.study.study import Study

Collective = Literal["ring", "tree", "hierarchical", "neighbours"]
Bound = Literal["compute", "memory"]

# How far a moved time may be off, as a share of ln(there / here): so the 80 % intervals held the
# truth in 59 and 58 of 72 moves between rehearsed links of 30 to 1000 Mbit/s, with the bytes given
# and with bytes that were read off the times (tests/test_relocate.py).
_DOUBT = 0.072
_DOUBT_WITHOUT_BYTES = 0.29
_SHOWN = 1e-3  # of the wall time: less is not worth a line


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes and what joins them. What is not given here stays as it was measured."""

    accelerator: Accelerator | None = None
    devices_per_node: Count = 1
    node_link: Link | None = None
    network: Link | None = None
    adapters_per_node: Positive = 1.0
    collective: Collective = "ring"
    efficiency: Efficiency = Efficiency()


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where, and what is known about the job."""

    name: str
    source: Place
    target: Place
    precision: Precision | None = None
    bound: Bound | None = None  # None: unknown; the answer then lies between the two
    bytes_per_run: Positive | None = None  # that each node hands to the collective
    messages_per_run: Positive | None = None  # calls of the collective
    price: Price | None = None  # of a node there


class MovedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the wall time at the largest measured scale, here and there."""

    part: Part
    here: float
    there: float
    by: str


class Relocated(msgspec.Struct, frozen=True, kw_only=True):
    """T(K) on the other cluster. Nothing in it was measured there."""

    name: str
    cluster: str
    forecast: Forecast
    measured_here: dict[int, float]  # seconds, by K
    parts: tuple[MovedPart, ...]
    assumptions: tuple[str, ...]


def rehearsed_place(study: Study) -> Place | None:
    """The link of an emulated cluster, where the study was measured on one."""
    if study.spec is None or study.spec.engine.name != "rehearsal":
        return None
    rate = study.spec.engine.rehearsal.link_mbit_per_second
    link = Link(
        name="rehearsed", latency_seconds=0.0, bytes_per_second=rate * 1e6 / 8, efficiency=1.0
    )
    return Place(network=link)


def relocate(study: Study, move: Move, question: Question, nodes: Sequence[int] = ()) -> Relocated:
    """The forecast of a study on another cluster, with what had to be assumed."""
    here = stage_parts(study)
    if here is None:
        raise DataError(
            "A profile can be moved only with stage times, and these runs have none.",
            "Record compute_s and comm_s of every run, or use the probe (docs/spec.md).",
        )
    ladder, _ = measured_ladder(study, timings(study, question.center))
    assumed: list[str] = []
    low, high = _node_factors(move, assumed)
    there = _move(study, here, ladder.nodes, move, (low * high) ** 0.5, assumed)
    wall, moved = _total(here), _total(there)
    if not np.isfinite(moved).all():
        raise SpecError(
            f"On {move.name} a run would never end.",
            "Correct the figures of its devices and links.",
        )
    either = np.log(high / low) / 2 * (there["compute"] + there["serial"]) / moved
    log_ratio = np.log(moved / wall)
    told = move.target.network is None or _traffic(study, move)[0] is not None
    doubt = np.hypot((_DOUBT if told else _DOUBT_WITHOUT_BYTES) * log_ratio, either)
    curve = Curve(
        ladder._replace(y=ladder.y + log_ratio, noise=np.hypot(ladder.noise, doubt)), parts=there
    )
    if move.price is not None:
        question = msgspec.structs.replace(question, price=_price_there(move.price, question.price))
    elif question.price.per_node_hour is not None:
        assumed.append("The file names no price, so a node costs the same there.")
    question = with_scale_unit(study.scale_unit, question)
    found = forecast_curve(curve, study.name, question, nodes)
    rows = tuple(msgspec.structs.replace(row, measured=False) for row in found.rows)
    times = np.exp(ladder.y) * (ladder.nodes if study.regime == "weak" else 1.0)
    return Relocated(
        name=study.name,
        cluster=move.name,
        forecast=msgspec.structs.replace(found, rows=rows),
        measured_here={int(k): float(t) for k, t in zip(ladder.nodes, times, strict=True)},
        parts=_moved_parts(here, there, move),
        assumptions=tuple(assumed),
    )


def all_reduce_cost(place: Place, nodes: Floats) -> tuple[Floats, Floats]:
    """Seconds for each byte and for each message at every K."""
    assert place.network is not None
    adapter = place.network.shared(place.adapters_per_node)
    if place.collective == "neighbours":
        apart = np.where(nodes > 1, 1.0, 0.0)
        return apart / adapter.rate, 2 * apart * adapter.latency_seconds
    reduce = adapter.tree if place.collective == "tree" else adapter.ring
    beta, alpha = reduce(1.0, nodes, 0.0), reduce(0.0, nodes)
    if place.collective == "hierarchical" and place.node_link is not None:
        beta = beta + place.node_link.ring(1.0, place.devices_per_node, 0.0)
        alpha = alpha + place.node_link.ring(0.0, place.devices_per_node)
    return beta, alpha


def _move(
    study: Study, here: Parts, nodes: Floats, move: Move, node_factor: float, assumed: list[str]
) -> Parts:
    """Each part by what it is bound by."""
    there: Parts = dict(here)
    for part in ("compute", "serial"):
        there[part] = here[part] * node_factor
    there["communication"] = _communication(study, here["communication"], nodes, move, assumed)
    # Below zero, `waiting` is how much of the transfer was hidden behind work.
    hidden = np.maximum(-here["waiting"], 0.0)
    share = np.minimum(hidden / np.maximum(here["communication"], 1e-300), 1.0)
    still = np.minimum(share * there["communication"], there["compute"])
    there["waiting"] = np.maximum(here["waiting"], 0.0) * node_factor - still
    if np.any(hidden > 0.02 * _total(here)):
        assumed.append("The share of the transfer that is hidden behind work stays the same.")
    if np.any(here["io"] > 0.01 * _total(here)):
        assumed.append("Input and output take as long as here: the file does not describe disks.")
    return there


def _node_factors(move: Move, assumed: list[str]) -> tuple[float, float]:
    """Seconds of work there over seconds here: the least and the most that the ceilings allow."""
    here, there = move.source.accelerator, move.target.accelerator
    if there is None:
        assumed.append("The nodes are the same: compute, serial work and waiting stay.")
        return 1.0, 1.0
    if here is None:
        raise SpecError(
            "The file describes the target nodes, but not the measured ones.",
            "Add accelerator to the table [from], or leave it out for equal nodes.",
        )
    precision = _precision(move.precision, here, there)
    flops = _per_node(move.source, here.peak_flops[precision], move.source.efficiency.matrix)
    flops /= _per_node(move.target, there.peak_flops[precision], move.target.efficiency.matrix)
    memory = _per_node(
        move.source, here.memory_bytes_per_second, move.source.efficiency.memory
    ) / _per_node(move.target, there.memory_bytes_per_second, move.target.efficiency.memory)
    assumed.append(
        "Work reaches the same share of its ceiling there; waiting shrinks and grows with it."
    )
    if move.bound is None:
        assumed.append(
            f"What limits the work is not stated: between {flops:.3g} times its seconds (FLOP/s) "
            f"and {memory:.3g} times (memory bandwidth). `nodewise diagnose` can tell."
        )
        return min(flops, memory), max(flops, memory)
    factor = flops if move.bound == "compute" else memory
    return factor, factor


def _precision(told: Precision | None, here: Accelerator, there: Accelerator) -> Precision:
    both = [name for name in here.peak_flops if name in there.peak_flops]
    if told is None and len(both) == 1:
        return both[0]
    if told is None or told not in both:
        raise SpecError(
            f"precision: {told or 'none'} is not a peak that both kinds of node have.",
            f"Write precision, one of {', '.join(both)}."
            if both
            else "Give both accelerators a peak of the same precision.",
        )
    return told


def _per_node(place: Place, peak: float, share: float) -> float:
    return place.devices_per_node * peak * share


def _communication(
    study: Study, seconds: Floats, nodes: Floats, move: Move, assumed: list[str]
) -> Floats:
    if move.target.network is None:
        assumed.append("The link is the same: communication stays.")
        return seconds
    if move.source.network is None:
        raise SpecError(
            "The file describes the target link, but not the measured one.",
            "Add network to the table [from], or leave it out for an equal link.",
        )
    beta, alpha = all_reduce_cost(move.source, nodes)
    size, messages = _traffic(study, move)
    if size is None:
        size, messages = _read_off(seconds, beta, alpha)
        assumed.append(
            f"The bytes sent are not stated; the times here look like {size / 1e6:.3g} MB a run. "
            "What software takes for each call is part of that: bytes_per_run would be better."
        )
    if messages is None:
        assumed.append("The number of messages is not stated: latency stays as it is here.")
        messages = 0.0
    elif not move.source.network.latency_seconds:
        assumed.append("The latency here is unknown, so that of the new link is added to it.")
    new_beta, new_alpha = all_reduce_cost(move.target, nodes)
    explained = size * beta + messages * alpha
    target = size * new_beta + messages * new_alpha
    assumed.append(
        f"The job sends the same {size / 1e6:.3g} MB a run at every K, as "
        f"{_algorithm(move.target.collective)}; seconds beyond that are software, and stay."
    )
    # Less than the link needs: part of the transfer was not seen, and stays unseen there.
    unseen = seconds < explained
    seen = np.divide(seconds, explained, out=np.ones_like(seconds), where=explained > 0)
    return np.where(unseen, seen * target, target + seconds - explained)


def _traffic(study: Study, move: Move) -> tuple[float | None, float | None]:
    """Bytes and messages of a run: as the file says, else as the job said."""
    run = study.good_runs[-1]
    size, steps = run.facts.get("allreduce_bytes"), run.steps
    if move.bytes_per_run is not None:
        return move.bytes_per_run, move.messages_per_run
    if isinstance(size, int | float) and steps:
        return float(size) * steps, move.messages_per_run or float(steps)
    return None, move.messages_per_run


def _read_off(seconds: Floats, beta: Floats, alpha: Floats) -> tuple[float, float | None]:
    """The bytes and messages that would take these times, by the least relative error."""
    apart = (seconds > 0) & (beta > 0)
    if not np.any(apart):
        raise DataError(
            "No run here spent time in communication, so none can be moved.",
            "Measure two nodes or more, or leave the network out of the file.",
        )
    columns = [beta[apart], alpha[apart]] if np.any(alpha[apart] > 0) else [beta[apart]]
    solved = nonnegative_fit(np.stack(columns, axis=1), seconds[apart], 1 / seconds[apart])
    return float(solved[0]), float(solved[1]) if len(solved) > 1 else None


def _moved_parts(here: Parts, there: Parts, move: Move) -> tuple[MovedPart, ...]:
    node = "the node" if move.target.accelerator else "nothing"
    link = "the link" if move.target.network else "nothing"
    by: dict[Part, str] = {"communication": link, "io": "nothing"}
    return tuple(
        MovedPart(
            part=part,
            here=float(seconds[-1]),
            there=float(there[part][-1]),
            by=by.get(part, node),
        )
        for part, seconds in here.items()
        if max(abs(seconds[-1]), abs(there[part][-1])) > _SHOWN * _total(here)[-1]
    )


def _algorithm(collective: Collective) -> str:
    if collective == "neighbours":
        return "an exchange between neighbours"
    return f"a {collective} all-reduce"


def _price_there(there: Price, here: Price) -> Price:
    """Nodes are paid as there; an overhead that the file does not speak of stays."""
    return msgspec.structs.replace(
        here,
        per_node_hour=there.per_node_hour,
        fixed_per_hour=there.fixed_per_hour or here.fixed_per_hour,
        source=there.source,
    )


def _total(parts: Parts) -> Floats:
    return np.asarray(np.sum(list(parts.values()), axis=0))
