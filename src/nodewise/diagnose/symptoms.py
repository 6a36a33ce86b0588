"""The ceiling of a program that was only watched: each window is classified, then all are weighed.

The time in which other processes had the core is taken out first, so a busy machine gives the same
result. A class must hold in most of the windows; otherwise the answer is 'undecided', with what was
seen. The rules follow what the kernel shows without hardware counters, so some things stay out of
reach: waiting that spins looks like computing, and is called undecided where it is likely and the
kernel does not say which library runs.
"""

from collections import Counter
from itertools import pairwise

import msgspec

from nodewise.base.units import format_bandwidth, format_bytes, format_duration, format_percent
from nodewise.diagnose.axes import MENU, Answer, AxisName, CeilingName, Confidence, judge
from nodewise.diagnose.own_time import Window, account_of, thread_seconds, windows_of
from nodewise.diagnose.window_rules import (
    Roofs,
    Verdict,
    computes_between,
    faulting,
    judge_window,
    own_share,
    touched_share,
    waits_for_one,
)
from nodewise.study.observed import Observation, Sample

ENOUGH = 0.7  # of the windows must agree
_MIN_AGREEMENT = 0.9
_LEAST_SAMPLES = 2
_MIN_WINDOWS = 4
_AROUND = 3  # samples before and after: memory is asked for less often than looked at
_TURNS = 8  # the same, in which threads that share a lock have all had it: interpreters take 0.1 s
_OUT_OF_MEMORY = (  # C, Python, C++, Java, R, PHP, Rust, Fortran
    "memoryerror", "bad_alloc", "allocate memory", "out of memory", "outofmemory",
    "cannot allocate", "allowed memory size", "memory allocation of", "memory exhausted",
    "error allocating",
)  # fmt: skip
_SPINNING = ("libmpi", "libpsm", "libnccl", "libgloo", "libucp")
_KILLED = (-9, 137)
_LOADED = 0.9  # of its largest memory: until then it loads itself and its data
_STARVED = 1.0  # seconds without a core for each with one: what is left is too little to be sure


_MEMORY_UNSEEN = (
    "it keeps its cores busy, but its use of memory was not measured; --confirm separates "
    "arithmetic from memory"
)


class Symptoms(msgspec.Struct, frozen=True, kw_only=True):
    """The ceiling of a watched program, or none; why, and how sure."""

    command: tuple[str, ...]
    seconds: float
    windows: int
    ceiling: CeilingName | None
    axis: AxisName | None
    confidence: Confidence
    shares: dict[str, float]  # of the windows, by class
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    figures: dict[str, float]
    answer: Answer | None = None


def classify(seen: Observation, roofs: Roofs, proposal: str | None = None) -> Symptoms:
    """Name the ceiling of a program that ran on a machine with these roofs."""
    windows = _steady(seen, roofs)
    steady = tuple(window.whole for window in windows)
    figures = _figures(steady)
    touched = touched_share(
        [one for window in windows for one in window.samples], roofs, seen.page_bytes
    )
    if touched is not None:
        figures["touched_share"] = touched
    verdicts = []
    for at, window in enumerate(windows):
        near = touched_share(_around(windows, at), roofs, seen.page_bytes)
        whole = _with_busiest(window.whole, _around(windows, at, _TURNS))
        verdicts.append(judge_window(whole, seen, roofs, touched if near is None else near))
    shares = _shares(verdicts, steady)
    ceiling, confidence, evidence = _weigh(seen, windows, verdicts, shares, figures)
    return Symptoms(
        command=seen.command,
        seconds=seen.seconds,
        windows=len(windows),
        ceiling=ceiling,
        axis=MENU[ceiling].axis if ceiling else None,
        confidence=confidence,
        shares=shares,
        evidence=(*evidence, *_account(figures), *_extra(seen, steady), *_stopped(seen)),
        notes=_notes(seen, ceiling, figures),
        figures=figures,
        answer=judge(proposal, ceiling) if proposal else None,
    )


def _steady(seen: Observation, roofs: Roofs) -> tuple[Window, ...]:
    """Without the start, when programs load themselves and touch their memory for the first time.

    Memory that is allocated all along is not a start.
    """
    samples = seen.samples
    samples = samples[2:] if len(samples) >= 6 else samples[1:] if len(samples) >= 3 else samples
    windows = windows_of(samples)
    setting_up = [
        faulting(window.whole, account_of(window.whole), seen, roofs) for window in windows
    ]
    later = next((at for at, one in enumerate(setting_up) if one is None), 0)
    windows = windows[later:] or windows
    return windows[_loaded(tuple(window.whole for window in windows)) :]


def _around(windows: tuple[Window, ...], at: int, count: int = _AROUND) -> list[Sample]:
    """The samples of a window, and some before and after it."""
    before = [one for window in windows[:at] for one in window.samples]
    after = [one for window in windows[at + 1 :] for one in window.samples]
    return [*before[-count:], *windows[at].samples, *after[:count]]


def _with_busiest(whole: Sample, around: list[Sample]) -> Sample:
    """A window whose busiest thread is that of a longer time: a lock is handed on in turns."""
    seconds = thread_seconds(around)
    if not seconds:
        return whole
    share = max(seconds.values()) / sum(seconds.values())
    busiest = share * (whole.user + whole.system)
    return msgspec.structs.replace(whole, busiest_thread=busiest, thread_seconds=seconds)


def _loaded(samples: tuple[Sample, ...]) -> int:
    """The window in which its memory has nearly its full size; 0 where it grows all along."""
    largest = max((sample.resident_bytes for sample in samples), default=0.0)
    full = (sample.resident_bytes >= _LOADED * largest for sample in samples)
    at = next((at for at, one in enumerate(full) if one), 0)
    return at if len(samples) - at >= max(len(samples) / 2, _MIN_WINDOWS) else 0


def _shares(verdicts: list[Verdict], samples: tuple[Sample, ...]) -> dict[str, float]:
    weights: Counter[str] = Counter()
    spent = [account_of(sample).seconds for sample in samples]
    whole = sum(spent) or 1.0
    for verdict, seconds in zip(verdicts, spent, strict=True):
        weights[verdict.ceiling or "undecided"] += seconds / whole  # type: ignore[assignment]
    return dict(weights.most_common())


def _still_loads(verdicts: list[Verdict], windows: tuple[Window, ...]) -> bool:
    """Fresh memory in most windows that is kept: who is bound by faults gives it back."""
    faulting = sum(one.ceiling == "page faults" for one in verdicts)
    sizes = [sample.resident_bytes for window in windows for sample in window.samples]
    if len(sizes) < _LEAST_SAMPLES or faulting < ENOUGH * len(verdicts):
        return False
    growing = sum(after > before for before, after in pairwise(sizes))
    return growing >= 0.7 * (len(sizes) - 1) and max(sizes) > 1.3 * sizes[0]


def _weigh(
    seen: Observation,
    windows: tuple[Window, ...],
    verdicts: list[Verdict],
    shares: dict[str, float],
    figures: dict[str, float],
) -> tuple[CeilingName | None, Confidence, list[str]]:
    """The ceiling that most windows show, unless other evidence contradicts it."""
    ended = _ended_by_memory(seen)
    if ended is not None:
        return ended
    if _still_loads(verdicts, windows):
        return None, "low", ["it requested fresh memory all the time and its memory grew, so it "
                             "may still have been setting up; watch it for longer"]  # fmt: skip
    if sum(len(window.samples) for window in windows) < _LEAST_SAMPLES:
        return None, "low", [f"it ran for {seen.seconds:.2g} s only; three would be enough"]
    name, share = next(iter(shares.items()))
    if name == "undecided" and figures["user"] > 0.6 and "touched_share" not in figures:
        return None, "low", [_MEMORY_UNSEEN]
    if name == "undecided" or share < ENOUGH:
        told = ", ".join(f"{one} in {format_percent(part)}" for one, part in shares.items())
        return None, "low", [f"no class holds in {format_percent(ENOUGH)} of the windows: {told}"]
    ceiling: CeilingName = name  # type: ignore[assignment]
    if ceiling == "compute" and _may_spin(seen) and not computes_between(seen):
        return None, "low", [_spins(seen)]
    strong = sum(one.strong for one in verdicts if one.ceiling == ceiling) / len(verdicts)
    sure = share >= _MIN_AGREEMENT and strong >= 0.8 and len(verdicts) >= _MIN_WINDOWS
    sure = sure and not seen.exit_code  # what failed was not seen whole
    sure = sure and figures["run_delay"] <= _STARVED * figures["cores"]
    # of several threads that compute, one may spin while it waits for another
    sure = sure and not (ceiling == "compute" and figures["active_threads"] > 1.5)
    shown = f"{format_percent(share)} of the windows show it"
    return ceiling, "high" if sure else "medium", [shown]


def _ended_by_memory(seen: Observation) -> tuple[CeilingName, Confidence, list[str]] | None:
    if seen.group_kills > 0:
        times = f"{seen.group_kills} time{'s' if seen.group_kills > 1 else ''}"
        return "memory capacity", "high", [
            f"the memory limit of its control group killed {times} (oom_kill)"
        ]  # fmt: skip
    if seen.exit_code in (0, None):
        return None
    said = next((word for word in _OUT_OF_MEMORY if word in seen.error_tail.lower()), None)
    if said is not None:
        return (
            "memory capacity",
            "high",
            [f"it ended with code {seen.exit_code} and printed '{said}'"],
        )
    largest = max((sample.resident_bytes for sample in seen.samples), default=0.0)
    much = seen.memory_limit is not None and largest > 0.3 * seen.memory_limit
    if seen.exit_code in _KILLED and seen.node_kills > 0:
        held = f"it was killed while it held {format_bytes(largest)}"
        return "memory capacity", "medium", [f"{held}, and the kernel killed as memory ran out"]
    if seen.exit_code in _KILLED and much:
        held = f"it was killed while it held {format_bytes(largest)}"
        return "memory capacity", "medium", [f"{held}; the kernel does so when memory runs out"]
    return None


def _may_spin(seen: Observation) -> bool:
    several = max((one.processes for one in seen.samples), default=1.0) > 1
    return several and any(name in _SPINNING for name in seen.libraries)


def _spins(seen: Observation) -> str:
    own = own_share(seen)
    if own is None:
        return (
            "it keeps its cores busy, but has loaded a library that waits by spinning (MPI, NCCL), "
            "and the kernel does not say which code runs: a trace of the messages would show it"
        )
    return f"its ranks are outside of MPI for {format_percent(own)} of their CPU time only"


def _figures(samples: tuple[Sample, ...]) -> dict[str, float]:
    """Means over the steady windows, for the reader."""
    seconds = sum(sample.seconds for sample in samples) or 1.0
    accounts = [(sample.seconds / seconds, account_of(sample)) for sample in samples]

    def per_second(field: str) -> float:
        return float(sum(getattr(sample, field) for sample in samples)) / seconds

    def mean(field: str) -> float:
        return float(sum(getattr(one, field) * one.seconds for one in samples)) / seconds

    return {
        "user": sum(part * one.user for part, one in accounts),
        "system": sum(part * one.system for part, one in accounts),
        "blocked": sum(part * one.blocked for part, one in accounts),
        "disk": sum(part * one.disk for part, one in accounts),
        "cores": per_second("user") + per_second("system"),
        "run_delay": per_second("run_delay"),
        "active_threads": mean("active_threads"),
        "lock_threads": mean("lock_threads"),
        "socket_threads": mean("socket_threads"),
        "storage_bytes_per_second": per_second("storage_bytes"),
        "io_bytes_per_second": per_second("io_bytes"),
        "minor_faults_per_second": per_second("minor_faults"),
        "major_faults_per_second": per_second("major_faults"),
        "switches_per_second": per_second("switches"),
        "resident_bytes": max((sample.resident_bytes for sample in samples), default=0.0),
    }


def _account(figures: dict[str, float]) -> list[str]:
    """The figures in sentences."""
    user, system, blocked, disk = (
        format_percent(figures[name]) for name in ("user", "system", "blocked", "disk")
    )
    lines = [
        f"of its time {user} is its own code, {system} the kernel, {blocked} waiting ({disk} for "
        "the disk)",
        f"{figures['cores']:.2f} cores busy, {figures['active_threads']:.1f} threads active, "
        f"{figures['lock_threads']:.1f} waiting for a lock, {figures['socket_threads']:.1f} for a "
        "message",
        f"disk {format_bandwidth(figures['storage_bytes_per_second'])}, page faults "
        f"{figures['minor_faults_per_second']:.0f}/s, from disk "
        f"{figures['major_faults_per_second']:.0f}/s, memory "
        f"{format_bytes(figures['resident_bytes'])}",
    ]
    if "touched_share" in figures:
        lines.append(
            f"memory used per CPU second: {format_percent(figures['touched_share'])} of what a "
            "core can stream"
        )
    return lines


def _extra(seen: Observation, samples: tuple[Sample, ...]) -> list[str]:
    """Evidence that only some programs give."""
    lines = []
    own = own_share(seen)
    if own is not None:
        lines.append(f"ranks are inside MPI for {format_percent(1 - own)} of their CPU time")
        if waits_for_one(seen):
            lines.append("one rank works nearly all the time, and others wait for it")
    seconds = sum(sample.seconds for sample in samples) or 1.0
    locked = sum(one.file_lock_processes * one.seconds for one in samples) / seconds
    if locked > 0.1:
        lines.append(f"{locked:.1f} processes wait for a file lock")
    return lines


def _stopped(seen: Observation) -> list[str]:
    """That the program is not over, which its user may wonder about."""
    if not seen.stopped:
        return []
    seconds = format_duration(seen.seconds, digits=2)
    return [f"stopped after {seconds}, the limit of --watch-for; the program did not end by itself"]


def _notes(
    seen: Observation, ceiling: CeilingName | None, figures: dict[str, float]
) -> tuple[str, ...]:
    notes = []
    if seen.exit_code:
        notes.append(f"It ended with code {seen.exit_code}.")
    if seen.hot_spots:
        spots = ", ".join(
            f"{name} {format_percent(share)}" for name, share in seen.hot_spots.items()
        )
        notes.append(f"Python spent its time in (py-spy): {spots}.")
    if figures["run_delay"] > 0.1 * max(figures["cores"], 0.1):
        notes.append(
            "Other processes had its cores part of the time. The shares exclude that part."
        )
    one_core = figures["cores"] + figures["run_delay"] < 1.6 and figures["cores"] < 1.2
    if ceiling == "coordination" and "libpython" in seen.libraries and one_core:
        notes.append(
            "Several Python threads share one core: this is what the global interpreter lock looks "
            "like; processes would not share it."
        )
    if ceiling == "memory bandwidth":
        notes.append("Memory's bandwidth and its latency look alike from outside.")
    if ceiling == "compute" and seen.cores > 1 and figures["cores"] < 1.2:
        notes.append(f"It uses one of {seen.cores} cores: use the others before you add machines.")
    return tuple(notes)
