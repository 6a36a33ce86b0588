"""The decision flow: what is known of a job, asked in order, until one ceiling binds.

Does it fit in memory? Are the data read and stored? Are requests answered in time? Does the
exchange take longer than the work? Are there enough operations for each byte? The first ceiling
that is reached names the axis. What is not given stays open, and the answer says so.
"""

import functools
import math
from typing import Any, Literal

import msgspec

from nodewise.base.units import (
    format_bandwidth,
    format_bytes,
    format_duration,
    format_latency,
    format_percent,
)
from nodewise.diagnose.axes import (
    MENU,
    PROPOSALS,
    Answer,
    AxisName,
    CeilingName,
    Confidence,
    axis_words,
    judge,
)
from nodewise.diagnose.memory import Fit
from nodewise.diagnose.roofline import Roofline, shared_step_words, whole_step_words

Outcome = Literal["ceiling", "enough", "undecided"]
_TAIL = 0.05  # of the requests may be later than the budget
_MOST_REPLICAS = 100_000
_OF_REMEDY = ("axis", "tools", "cures", "leaves", "first")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What users of a service expect, and what one request takes on one machine by itself."""

    budget_seconds: float
    rate: float | None = None  # requests per second
    request_seconds: float | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job; everything may be missing."""

    needed_memory: float | None = None
    device_memory: float | None = None
    training: Fit | None = None
    dataset_bytes: float | None = None
    disk_bytes: float | None = None
    read_bandwidth: float | None = None
    within_seconds: float | None = None  # the data must have been read by then
    service: Service | None = None
    step: Roofline | None = None
    measured: CeilingName | None = None  # by watching a run, or as the user says


# Of a job on paper, facts may be not known. Of a study, stages may be not recorded.
BranchAnswer = Literal[
    "fine", "second", "binds", "not known", "not recorded", "not identifiable", "not asked"
]


class Branch(msgspec.Struct, frozen=True):
    """One question of the flow: passed, the ceiling that binds, or open."""

    question: str
    ceiling: CeilingName | None  # None: no axis raises it
    answer: BranchAnswer = "not known"
    evidence: str = ""
    confidence: Confidence = "high"
    turn: Literal["yes", "no", ""] = "no"  # the answer that leads to the ceiling; "": either does


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The ceiling that binds, the axis that raises it, and the answer to each question."""

    outcome: Outcome
    ceiling: CeilingName | None
    axis: AxisName | None
    confidence: Confidence
    evidence: tuple[str, ...]
    branches: tuple[Branch, ...]
    tools: tuple[str, ...] = ()
    cures: str = ""
    leaves: str = ""
    first: str = ""
    replicas: int | None = None
    training: Fit | None = None
    step: Roofline | None = None
    answer: Answer | None = None


def diagnose(facts: Facts, proposal: str | None = None) -> Diagnosis:
    """Walk through the flow; with a proposal, say yes or no to it."""
    branches: list[Branch] = []
    for branch in (_memory(facts), _data(facts), _service(facts), *_step(facts), *_measured(facts)):
        over = any(one.answer == "binds" for one in branches)
        branches.append(
            msgspec.structs.replace(branch, answer="not asked", evidence="") if over else branch
        )
    found = next((one for one in branches if one.answer == "binds"), None)
    fine = [one for one in branches if one.answer == "fine"]
    if found is not None:
        outcome: Outcome = "ceiling"
    else:
        outcome = "enough" if _is_enough(facts, fine) else "undecided"
    diagnosis = Diagnosis(
        outcome=outcome,
        **_remedy_fields(found.ceiling if found else None),
        confidence=found.confidence if found else "high" if outcome == "enough" else "low",
        evidence=tuple(one.evidence for one in ([found] if found else fine)),
        branches=tuple(branches),
        replicas=replicas_for(facts.service) if facts.service else None,
        training=facts.training,
        step=facts.step,
    )
    if proposal is None:
        return diagnosis
    return msgspec.structs.replace(diagnosis, answer=_answer(proposal, diagnosis, facts))


def _remedy_fields(ceiling: CeilingName | None) -> dict[str, Any]:
    """The fields of a diagnosis that follow from its ceiling."""
    if ceiling is None:
        return {"ceiling": None, "axis": None}
    remedy = msgspec.structs.asdict(MENU[ceiling])
    return {"ceiling": ceiling, **{name: remedy[name] for name in _OF_REMEDY}}


def _is_enough(facts: Facts, fine: list[Branch]) -> bool:
    """Whether the facts answer the whole question: time to answer, or time to read.

    That a model fits does not show its speed, so it is not enough by itself.
    """
    asked = {one.ceiling for one in fine}
    if facts.service is not None:
        return "latency" in asked
    return "data I/O" in asked and facts.within_seconds is not None


def _memory(facts: Facts) -> Branch:
    memory = functools.partial(
        Branch, "Does it fit in the memory of one device?", "memory capacity"
    )
    training, needed, room = facts.training, facts.needed_memory, facts.device_memory
    if training is not None:
        needed, room = training.demand.total, training.device_bytes
    if needed is None or room is None:
        return memory()
    times = needed / room
    fits = times <= 1
    words = (
        f"it needs {format_bytes(needed)}, {times:.3g} times the {format_bytes(room)} of one device"
    )
    if training is not None and not fits:
        words += f"; it {training.verdict}"
    return memory("fine" if fits else "binds", words)


def _data(facts: Facts) -> Branch:
    data = functools.partial(Branch, "Can one node store and read the data in time?", "data I/O")
    size = facts.dataset_bytes
    if size is None:
        return data()
    parts = []
    binds = known = False
    if facts.disk_bytes is not None:
        known = True
        binds = size > facts.disk_bytes
        parts.append(
            f"the data are {format_bytes(size)} and one node stores "
            f"{format_bytes(facts.disk_bytes)}"
        )
    if facts.read_bandwidth is not None:
        seconds = size / facts.read_bandwidth
        words = (
            f"reading {format_bytes(size)} once at {format_bandwidth(facts.read_bandwidth)} "
            f"takes {format_duration(seconds)}"
        )
        if facts.within_seconds is not None:
            known = True
            late = seconds > facts.within_seconds
            binds = binds or late
            words += f", {'more' if late else 'less'} than {format_duration(facts.within_seconds)}"
        parts.append(words)
    return data("not known" if not known else "binds" if binds else "fine", "; ".join(parts))


def _service(facts: Facts) -> Branch:
    latency = functools.partial(
        Branch, "Are requests answered within the budget on one machine?", "latency"
    )
    service = facts.service
    if service is None:
        return latency()
    budget = format_latency(service.budget_seconds)
    if service.request_seconds is None:
        rate = "" if service.rate is None else f" at {service.rate:g} requests a second"
        words = (
            f"each answer is due within {budget}{rate}, but the time of a single request is not "
            "known (--request-time)"
        )
        return latency("binds", words, "medium")
    alone = format_latency(service.request_seconds)
    if service.request_seconds > service.budget_seconds:
        return latency(
            "binds", f"one request takes {alone} alone, more than the budget of {budget}"
        )
    if service.rate is None:
        return latency()
    replicas = replicas_for(service)
    asked = f"{service.rate:g} requests a second of {alone} each"
    kept = f"within {budget} in {format_percent(1 - _TAIL)} of cases"
    if replicas == 1:
        return latency("fine", f"one machine answers {asked} {kept}")
    busy = f"{service.rate * service.request_seconds:.3g} machines busy"
    return latency("binds", f"{asked} keep {busy}; {kept} takes {replicas or 'too many'}")


def _step(facts: Facts) -> list[Branch]:
    exchange = "Does the exchange between workers take less than the work?"
    intensity = "Is the arithmetic the limit, or the memory that feeds it?"
    step = facts.step
    if step is None:
        if facts.measured is not None:
            return []
        return [Branch(exchange, "communication"), Branch(intensity, "compute", turn="")]
    branches = []
    if step.comm_s is not None:
        answer: BranchAnswer = "binds" if step.axis == "coordination" else "fine"
        words = f"the exchange takes {step.comm_s:.5g} s and the work {step.step_s:.5g} s"
        branches.append(Branch(exchange, "communication", answer, words))
    near = abs(step.intensity / step.ridge - 1) < 0.1
    words = f"{step.intensity:.4g} FLOP per byte against a ridge of {step.ridge:.4g}"
    sure: Confidence = "medium" if near else "high"
    return [*branches, Branch(intensity, step.bound, "binds", words, sure, "")]


def _measured(facts: Facts) -> list[Branch]:
    if facts.measured is None:
        return []
    words = f"{facts.measured}, as given"
    return [Branch("Which ceiling was named?", facts.measured, "binds", words, "medium", "")]


def replicas_for(service: Service) -> int | None:
    """The fewest machines whose queue keeps the budget for all but a few of the requests.

    Requests come at random and take about equally long. The chance of waiting longer than what the
    budget leaves is that of Erlang's queue, whose times vary more than ours: on the safe side.
    """
    if service.rate is None or service.request_seconds is None:
        return None
    spare = service.budget_seconds - service.request_seconds
    if spare < 0:
        return None
    load = service.rate * service.request_seconds
    blocked = 1.0  # Erlang's B, built up a server at a time
    for servers in range(1, min(_MOST_REPLICAS, int(10 * load) + 1000)):
        blocked = load * blocked / (servers + load * blocked)
        if servers <= load:
            continue
        waits = blocked / (1 - load / servers * (1 - blocked))
        if waits * math.exp(-(servers - load) * spare / service.request_seconds) <= _TAIL:
            return servers
    return None


def _answer(proposal: str, diagnosis: Diagnosis, facts: Facts) -> Answer:
    """Yes or no: by the ceiling that binds, and by what is known where none was found."""
    proposed = PROPOSALS[proposal]
    service = facts.service
    if diagnosis.ceiling is not None:
        answer = judge(proposal, diagnosis.ceiling)
        if diagnosis.ceiling == "latency" and service and service.request_seconds is not None:
            return _latency_answer(answer, service, diagnosis.evidence[0])
        return _limited(answer, facts)
    if diagnosis.outcome == "enough":
        enough = f"one machine is enough: {diagnosis.evidence[-1]}"
        return Answer(proposal, proposed.axis, "no", enough, "stay on one machine")
    fits = any(
        one.ceiling == "memory capacity" and one.answer == "fine" for one in diagnosis.branches
    )
    if proposed.axis == "model" and fits:
        return Answer(
            proposal,
            proposed.axis,
            "no",
            f"{diagnosis.evidence[0]}: a model that fits gains nothing from a split, "
            "and every step would wait for messages between the parts",
            "measure which ceiling binds: nodewise diagnose -- COMMAND",
        )
    return judge(proposal, None)


def _latency_answer(answer: Answer, service: Service, evidence: str) -> Answer:
    """Replicas shorten the queue; only splitting a request shortens the request."""
    assert service.request_seconds is not None
    if service.request_seconds <= service.budget_seconds:
        return answer
    if answer.axis == "inference":
        return msgspec.structs.replace(
            answer,
            answer="no",
            reason=f"{evidence}: replicas shorten the queue, never the request itself",
            instead="make one request shorter: a smaller or quantized model, or its layers split "
            "among devices (tensor-parallel)",
        )
    if answer.proposal == "tensor-parallel":
        return msgspec.structs.replace(
            answer,
            answer="yes",
            reason=f"{evidence}; tensor-parallel splits the work of one request",
            instead="the exchange between the devices must take less than it saves: "
            "nodewise roofline",
        )
    return answer


def _limited(answer: Answer, facts: Facts) -> Answer:
    """A yes with the number of workers at which it ends, or at which it begins."""
    if answer.answer != "yes":
        return answer
    if facts.training is not None and answer.axis == "model":
        fitting = [one.strategy for one in facts.training.shares if one.fits]
        workers = facts.training.workers
        if not fitting:
            least = facts.training.least_workers
            more = f"it fits from {least} devices on" if least else "no number of devices helps"
            return msgspec.structs.replace(
                answer,
                answer="no",
                reason=f"the axis is right, but {facts.training.verdict}",
                instead=more,
            )
        words = f"on {workers} devices: {', '.join(fitting)}"
        return msgspec.structs.replace(answer, reason=f"{answer.reason}; {words}")
    if facts.step is not None and facts.step.comm_s is not None:
        words = f"{shared_step_words(facts.step)}; {whole_step_words(facts.step)}"
        return msgspec.structs.replace(answer, reason=f"{answer.reason}; {words}")
    return answer


def from_workers(workers: int | None) -> str:
    """From where on something holds, in a sentence."""
    return "at no number of workers" if workers is None else f"from {workers} workers on"


def headline(diagnosis: Diagnosis) -> str:
    """The answer in one line."""
    if diagnosis.outcome == "enough":
        return "one machine is enough"
    if diagnosis.ceiling is None:
        return "undecided: the known inputs name no ceiling"
    binds = "bind" if diagnosis.ceiling == "page faults" else "binds"
    return f"{diagnosis.ceiling} {binds}; {axis_words(diagnosis.axis)}"
