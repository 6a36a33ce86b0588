"""Ask by experiment: a watched program is run again with one thing changed; what reacts binds.

Reactions are in CPU seconds of the program, since other load hardly moves those. A competing memory
stream lengthens them where memory binds, and competing arithmetic does not. A program that shares
its cores takes the same CPU seconds where its work is fixed, and fewer where its duration is.
"""

import msgspec

from nodewise.base.units import format_percent
from nodewise.diagnose.axes import MENU, CeilingName, Confidence, judge
from nodewise.diagnose.symptoms import Symptoms
from nodewise.study.observed import Trials

_REACTS = 1.15  # of a known memory stream, at least
_AS_A_STREAM = 0.5  # of its reaction
_UNLIKE_A_STREAM = 0.2
_LEAST_CPU = 0.5  # seconds: less is mostly the start of a program
_FIXED_WORK = 0.8  # of the CPU seconds, with half the cores' time
_OWN_CODE = 0.6
_LOCKED = 0.3  # of the windows: threads wait for each other


def confirmed(symptoms: Symptoms, trials: Trials, proposal: str | None = None) -> Symptoms:
    """The answer of watching, changed or confirmed by what reacted."""
    ceiling, confidence, words = _judge(symptoms, trials)
    return msgspec.structs.replace(
        symptoms,
        ceiling=ceiling,
        confidence=confidence,
        axis=MENU[ceiling].axis if ceiling else None,
        evidence=(words, *_trial_words(trials), *symptoms.evidence),
        figures=symptoms.figures
        | {
            f"cpu_seconds_{name}": seconds
            for name, seconds in msgspec.structs.asdict(trials).items()
            if seconds is not None
        },
        answer=judge(proposal, ceiling) if proposal else None,
    )


def _judge(symptoms: Symptoms, trials: Trials) -> tuple[CeilingName | None, Confidence, str]:
    said, confidence = symptoms.ceiling, symptoms.confidence
    if why := _why_no_answer(symptoms, trials):
        return said, confidence, why
    assert trials.arithmetic is not None
    assert trials.memory is not None
    reference = _reference(trials)
    assert reference is not None
    reaction = (trials.memory / trials.arithmetic - 1) / (reference - 1)
    sure: Confidence = "high" if confidence == "medium" else "medium"
    if reaction >= _AS_A_STREAM:
        denied = said == "compute"
        return (
            "memory bandwidth",
            "medium" if denied else sure,
            "confirmed: a memory stream slows it",
        )
    if reaction <= _UNLIKE_A_STREAM:
        if said == "memory bandwidth":
            return None, "low", "not confirmed: a competing memory stream does not slow it"
        return "compute", sure, "confirmed: a competing memory stream does not slow it"
    words = "the reaction to a competing memory stream is too small to decide"
    if said == "memory bandwidth":  # what was watched is not denied
        return said, "medium", words
    return None, "low", words


def _why_no_answer(symptoms: Symptoms, trials: Trials) -> str:
    """Why the experiment leaves the answer as it was; empty if it decides."""
    reference = _reference(trials)
    if trials.shared is None or trials.memory is None or not trials.arithmetic or not reference:
        return "the experiment gave no answer: a run failed or did not end in time"
    if trials.arithmetic < _LEAST_CPU:
        return "the experiment gave no answer: it takes too little CPU time"
    if trials.shared < _FIXED_WORK * trials.arithmetic:
        return (
            "the experiment gave no answer: it runs for a fixed time and not for a fixed amount of "
            "work"
        )
    said = symptoms.ceiling
    if said not in (None, "compute", "memory bandwidth") or symptoms.figures["user"] < _OWN_CODE:
        return "the experiment only separates compute from memory, and neither was suspected"
    if reference < _REACTS:
        return (
            "the experiment gave no answer: the competing memory stream does not even slow down a "
            "known one"
        )
    locked = symptoms.shares.get("coordination", 0.0)
    if said is None and symptoms.figures["active_threads"] > 1.5 and locked > _LOCKED:
        return "it waits for locks in part, which the experiment does not change"
    return ""


def _reference(trials: Trials) -> float | None:
    """How much longer a known memory stream takes beside another one."""
    if not trials.reference_memory or not trials.reference_arithmetic:
        return None
    return trials.reference_memory / trials.reference_arithmetic


def _change(ratio: float) -> str:
    return f"{'+' if ratio >= 1 else '-'}{format_percent(abs(ratio - 1))}"


def _trial_words(trials: Trials) -> list[str]:
    if not trials.arithmetic or not trials.memory:
        return []
    reference = _reference(trials)
    known = "" if reference is None else f"; a known memory stream: {_change(reference)}"
    lines = [
        f"CPU time {trials.arithmetic:.2f} s with competing arithmetic, {trials.memory:.2f} s with "
        f"a competing memory stream ({_change(trials.memory / trials.arithmetic)}{known})"
    ]
    if trials.shared:
        lines.append(f"CPU time {trials.shared:.2f} s with half of its cores' time")
    return lines
