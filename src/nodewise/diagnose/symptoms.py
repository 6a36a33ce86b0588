"""The ceiling of a program that was only watched: each window is classified, then all are weighed.

The time in which other processes had the core is taken out first, so a busy machine tells the same
story. A class must hold in most of the windows; otherwise the answer is 'undecided', with what was
seen. The rules follow what the kernel shows without hardware counters, so some things stay out of
reach: waiting that spins looks like computing, and is called undecided where it is likely.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from nodewise.base.units import format_bandwidth, format_bytes, format_percent
from nodewise.diagnose.axes import MENU, Answer, AxisName, CeilingName, judge
from nodewise.diagnose.flow import Confidence
from nodewise.diagnose.own_time import Account, Window, account_of, windows_of
from nodewise.study.observed import Observation, Sample

ENOUGH = 0.7  # of the windows must agree
_MIN_AGREEMENT = 0.9
_LEAST_SAMPLES = 2
_MIN_WINDOWS = 4
_HUGE_PAGE_BYTES = 2 * 2**20
# Memory used per second of CPU time, as a share of what one core can stream. The known stream adds
# in place: it moves three numbers for every two whose pages are seen.
_SEEN_OF_STREAM = 2 / 3
_STREAMS = 0.3
_COMPUTES = 0.1
_TELLS = 0.15  # a stream of this share leaves the caches within the window
_LEAST_OWN = 0.2  # of a moment: beyond that, the cost of our question is a guess
_AROUND = 3  # samples before and after: memory is asked for less often than looked at
_WHOLE = 0.4  # of a program's memory: who used so much in a moment may use it again and again
_OUT_OF_MEMORY = ("memoryerror", "bad_alloc", "allocate memory", "out of memory", "outofmemory")
_SPINNING = ("libmpi", "libpsm", "libnccl", "libgloo", "libucp")
_KILLED = (-9, 137)
_CARRIES = 2e8  # bytes in a second of CPU time: a tenth of what copying alone would carry
_HANDS_OVER = 1500  # times in a second of CPU time
_ONLY_PASSES_ON = 10_000  # times in a second of CPU time: a wait and a wake take 0.02 ms or so
_WAKES = 300  # times in a second of CPU time: threads that wait for each other, or are woken
_SOME_WAIT = 0.3  # of a thread, always seen waiting for a lock
_ALIKE = 1.4  # times the mean CPU time of a thread: 1.0 to 1.3 in all fights for one lock
_LEADS = 0.9  # of the CPU time of all threads: threads that share a lock share the work
_LOADED = 0.9  # of its largest memory: until then it loads itself and its data
_STARVED = 1.0  # seconds without a core for each with one: what is left is too little to be sure


_MEMORY_UNSEEN = (
    "it keeps its cores busy, and how much memory it uses was not seen: arithmetic and memory look "
    "alike; --confirm separates them"
)


class Roofs(NamedTuple):
    """What one core of this machine can do, in bytes per second, and its cache in bytes."""

    stream: float  # from main memory
    fresh_pages: float  # handed out and touched for the first time
    cache: float = 0.0  # bytes that it keeps close: used again and again, they move nothing
    mark: float = 0.0  # seconds that our question costs the program for each small page it uses


class Verdict(NamedTuple):
    """What one window looks like; `strong` when it is far from any other class."""

    ceiling: CeilingName | None
    strong: bool = True


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
    touched = _touched_share(
        [one for window in windows for one in window.samples], roofs, seen.page_bytes
    )
    if touched is not None:
        figures["touched_share"] = touched
    verdicts = []
    for at, window in enumerate(windows):
        near = _touched_share(_around(windows, at), roofs, seen.page_bytes)
        verdicts.append(_window(window.whole, seen, roofs, touched if near is None else near))
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
        evidence=(*evidence, *_account(figures)),
        notes=_notes(seen, ceiling, figures),
        figures=figures,
        answer=judge(proposal, ceiling) if proposal else None,
    )


def _steady(seen: Observation, roofs: Roofs) -> tuple[Window, ...]:
    """Without the start, when programs load themselves and touch their memory for the first time.

    Memory that is handed out all along is no start.
    """
    samples = seen.samples
    samples = samples[2:] if len(samples) >= 6 else samples[1:] if len(samples) >= 3 else samples
    windows = windows_of(samples)
    setting_up = [
        _faulting(window.whole, account_of(window.whole), seen, roofs) for window in windows
    ]
    later = next((at for at, one in enumerate(setting_up) if one is None), 0)
    windows = windows[later:] or windows
    return windows[_loaded(tuple(window.whole for window in windows)) :]


def _around(windows: tuple[Window, ...], at: int) -> list[Sample]:
    """The samples of a window, and some before and after it."""
    before = [one for window in windows[:at] for one in window.samples]
    after = [one for window in windows[at + 1 :] for one in window.samples]
    return [*before[-_AROUND:], *windows[at].samples, *after[:_AROUND]]


def _loaded(samples: tuple[Sample, ...]) -> int:
    """The window in which its memory has nearly its full size; 0 where it grows all along."""
    largest = max((sample.resident_bytes for sample in samples), default=0.0)
    full = (sample.resident_bytes >= _LOADED * largest for sample in samples)
    at = next((at for at, one in enumerate(full) if one), 0)
    return at if len(samples) - at >= max(len(samples) / 2, _MIN_WINDOWS) else 0


def _window(sample: Sample, seen: Observation, roofs: Roofs, touched: float | None) -> Verdict:
    """The class of one window: the first rule that holds."""
    account = account_of(sample)
    rules = (_paging, _faulting, _reading, _messaging, _locking, _talking, _handing_over, _waiting)
    for rule in rules:
        verdict = rule(sample, account, seen, roofs)
        if verdict is not None:
            return verdict
    # Who computes does not stop a thousand times a second: that is work between messages.
    if _waits_in_turn(sample, seen):
        fights = sample.active_threads >= 3 and sample.lock_threads > _SOME_WAIT
        fights = fights and sample.busiest_thread is not None and _work_alike(sample)
        return Verdict("coordination" if fights else None, strong=False)
    if account.user < 0.6 or sample.switches > 1000 * account.seconds:
        return Verdict(None)
    if touched is None:
        return Verdict(None)  # only the memory that it uses can deny that it computes
    if touched >= _STREAMS:
        # Streaming and jumping about look alike from outside.
        return Verdict("memory bandwidth", strong=False)
    return Verdict("compute" if touched <= _COMPUTES else None, strong=touched < 0.05)


def _paging(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if sample.major_faults / account.seconds < 300 or account.blocked + account.system < 0.5:
        return None
    if seen.memory_limit and sample.resident_bytes > 0.7 * seen.memory_limit:
        return Verdict("memory capacity")
    return Verdict("data I/O")  # a mapped file that is read, with memory to spare


def _faulting(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    """The kernel's time is a good part, and the faults take most of it at this machine's rate."""
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    if wanted < 0.3 * sample.seconds or sample.system < 0.3 * cpu or not sample.system:
        return None
    small = sample.minor_faults * seen.page_bytes / roofs.fresh_pages / sample.system
    huge = sample.minor_faults * _HUGE_PAGE_BYTES / roofs.fresh_pages / sample.system
    # Huge pages take few faults and long ones, longer still where memory is short; then hardly
    # anything else enters the kernel, and no copying by it explains the time.
    few_calls = sample.switches + sample.io_calls < 0.25 * sample.minor_faults
    few_calls = few_calls and sample.io_bytes < _CARRIES * cpu
    if small < 0.5 and not (huge > 0.15 and few_calls):
        return None
    quiet = sample.switches < 1000 * account.seconds
    if not quiet and sample.sockets:
        return Verdict(None)  # messages, and memory for them: neither can be told to bind
    clear = small > 0.5 or huge > 1
    return Verdict("page faults", strong=sample.system > 0.45 * cpu and quiet and clear)


def _reading(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    storage = sample.storage_bytes / account.seconds
    elsewhere = sample.event_threads + sample.socket_threads + sample.lock_threads
    if account.disk > 0.3:
        return Verdict("data I/O", strong=account.disk > 0.4 or storage > 1e7)
    if storage > 1e7 and account.blocked + account.system > 0.5 and elsewhere < 0.5:
        return Verdict("data I/O", strong=account.blocked + account.system > 0.65)
    if storage > 1e6 and account.blocked > 0.3 and elsewhere < 0.2:
        return Verdict("data I/O", strong=account.blocked > 0.4)
    if storage > 1e6 and account.blocked + account.system > 0.5 and _waits_for_each_call(sample):
        return Verdict("data I/O", strong=False)  # whatever other threads wait for
    cpu = sample.user + sample.system
    if (
        account.system > 0.5
        and sample.io_bytes > _CARRIES * cpu
        and elsewhere + sample.sockets < 0.2
    ):
        return Verdict("data I/O", strong=False)  # through the page cache
    return None


def _waits_for_each_call(sample: Sample) -> bool:
    """Reads and writes go to the storage, and nearly each of them waits for it."""
    to_storage = sample.storage_bytes > 0.5 * sample.io_bytes > 0
    return to_storage and sample.switches > 0.5 * sample.io_calls


def _locking(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if sample.active_threads < 2 or account.system > 0.6 or _is_led(sample):
        return None
    if sample.processes > 1 and sample.io_calls > 0.5 * sample.switches:
        return None  # a pipeline: one waits because another works
    # Part of the delay is the threads' own: they wake up together and share the cores.
    working = (sample.user + sample.system + sample.run_delay / 2) / sample.seconds
    waiting = sample.lock_threads / max(sample.lock_threads + working, 1e-9)
    if waiting < 0.35 or _no_core_is_free(sample, seen):
        return None
    if account.user > 0.5 and not (_work_alike(sample) or _waits_in_python(sample)):
        return Verdict(None)  # helpers may wait for work, and others for the lock of a helper
    return Verdict("coordination", strong=waiting > 0.45)


def _work_alike(sample: Sample) -> bool:
    """Threads that fight for a lock get it in turn; helpers of a runtime work now and then."""
    if sample.busiest_thread is None:
        return True
    cpu = sample.user + sample.system
    return sample.busiest_thread * sample.active_threads < _ALIKE * cpu


def _waits_in_python(sample: Sample) -> bool:
    """Most of the lock waits are in Python interpreters, which have no helpers of their own."""
    return (sample.python_lock_threads or 0.0) > sample.lock_threads / 2


def _is_led(sample: Sample) -> bool:
    """One thread does the work, and the others wait for some to help with: that costs nothing."""
    if sample.busiest_thread is None:
        return False
    return sample.busiest_thread > _LEADS * (sample.user + sample.system)


def _no_core_is_free(sample: Sample, seen: Observation) -> bool:
    """Its own threads want all cores for their own code, so who waits for a lock costs nothing.

    Threads of Python want cores only to ask for the interpreter's lock: they do not count.
    """
    if sample.python_lock_threads is None or _waits_in_python(sample):
        return False
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    own_code = sample.user > 0.7 * cpu and sample.switches < _HANDS_OVER * cpu
    return own_code and wanted > 0.85 * seen.cores * sample.seconds


def _messaging(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    """TCP carries much in each second of its CPU time, most of which the kernel takes."""
    if not sample.message_bytes or not sample.messages or account.system < 0.4:
        return None
    cpu = sample.user + sample.system
    if sample.message_bytes < _CARRIES * cpu and sample.messages < 5000 * cpu:
        return None
    if sample.storage_bytes > 1e6 * account.seconds:
        return None
    return Verdict("communication", strong=account.system > 0.5)


def _talking(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if _only_wakes(sample, account):
        return Verdict("coordination", strong=False)
    often = sample.switches > 1000 * account.seconds
    # Large messages take few switches; then somebody is seen waiting for the other end.
    carries = sample.socket_threads > 0.1 or (sample.sockets and sample.messages)
    carries = carries or _carries_unseen(sample)
    large = account.system > 0.6 and sample.active_threads >= 2 and carries
    if not (often or large) or account.system < 0.4:
        return None
    if sample.storage_bytes > 1e6 * account.seconds:
        return None
    if sample.messages == 0 and sample.socket_threads < 0.05 and _hardly_calls(sample):
        if sample.sockets and not sample.lock_threads and account.system > 0.8:
            return Verdict("communication", strong=False)  # local sockets count no messages
        # Neither sockets nor pipes carry anything: the threads wake each other.
        several = sample.active_threads >= 2 and (not sample.sockets or sample.lock_threads > 0.05)
        return Verdict("coordination" if several else None, strong=False)
    return Verdict("communication", strong=sample.sockets > 0 and account.system > 0.5)


def _carries_unseen(sample: Sample) -> bool:
    """Read and write calls carry much, and nothing but sockets and pipes is open.

    Only TCP counts its bytes.
    """
    much = sample.io_bytes > _CARRIES * (sample.user + sample.system)
    return much and sample.files == 0 and sample.sockets + sample.pipes > 0


def _only_wakes(sample: Sample, account: Account) -> bool:
    """Several threads are in the kernel, and no file, message or fresh memory takes them there.

    What is left is to wait for each other, to wake and to yield.
    """
    several = sample.active_threads >= 2 and account.system > 0.3
    speaks = sample.messages != 0 or sample.sockets or sample.socket_threads >= 0.05
    wakes = sample.switches > _WAKES * (sample.user + sample.system)
    fresh = sample.minor_faults > 0.1 * sample.switches
    stored = sample.storage_bytes > 1e6 * account.seconds
    return several and wakes and not (speaks or fresh or stored) and _hardly_calls(sample)


def _waits_in_turn(sample: Sample, seen: Observation) -> bool:
    """Threads that compute have no reason to wait so often: others hold what they need.

    While all cores work for it, such waits cost nothing.
    """
    cpu = sample.user + sample.system
    often = sample.switches > _WAKES * cpu and cpu < 0.85 * seen.cores * sample.seconds
    several = sample.active_threads >= 2 and not _is_led(sample)
    return several and often and _hardly_calls(sample)


def _hardly_calls(sample: Sample) -> bool:
    return sample.io_calls < 0.1 * sample.switches


def _handing_over(
    sample: Sample, account: Account, seen: Observation, roofs: Roofs
) -> Verdict | None:
    """Threads that wake each other thousands of times in a second of work."""
    cpu = sample.user + sample.system
    often = sample.switches > 3000 * cpu and sample.switches > 300 * sample.seconds
    if not often or sample.active_threads < 2:
        return None
    if sample.files == 0 and sample.switches > _ONLY_PASSES_ON * cpu and not _hardly_calls(sample):
        return Verdict("communication", strong=False)  # through pipes or sockets
    # Waits of microseconds are counted by the kernel and hardly ever seen.
    if sample.lock_threads < 0.3 and sample.event_threads + sample.socket_threads > 0.05:
        return None
    if sample.sockets or sample.io_calls > 0.3 * sample.switches:
        return None
    return Verdict("coordination", strong=False)


def _waiting(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if account.blocked < 0.5:
        return None
    if sample.lock_threads > sample.event_threads + sample.socket_threads + 0.3:
        return Verdict(None)
    return Verdict("latency", strong=account.blocked > 0.65)


def _touched_share(samples: Sequence[Sample], roofs: Roofs, page_bytes: int) -> float | None:
    """Memory used beyond the caches per CPU second, over what one core can stream.

    A page counts once however often it is used, so every window gives a lower bound: of them the
    upper quarter counts. None where it was not seen: not asked, too short to leave the caches, or
    most of the memory of the program was used, perhaps many times.
    """
    seen = roofs.stream * _SEEN_OF_STREAM
    shares = []
    whole = 0
    for one in samples:
        if one.touched_bytes is None or one.touched_seconds < 0.002:
            continue
        marking = one.touched_bytes * (1 - one.touched_huge) / page_bytes * roofs.mark
        seconds = max(one.touched_seconds - marking, _LEAST_OWN * one.touched_seconds)
        every = one.touched_bytes / seconds / seen
        beyond = max(one.touched_bytes - roofs.cache, 0.0) / seconds / seen
        long_enough = one.touched_seconds > roofs.cache / (_TELLS * seen)
        if every < _COMPUTES / 2 or beyond >= _STREAMS or long_enough:
            shares.append(every if every < _COMPUTES / 2 else beyond)
            most = max(_WHOLE * one.touched_of_bytes, roofs.cache)
            whole += one.touched_of_bytes > 0 and one.touched_bytes > most
    if not shares:
        return None
    share = sorted(shares)[3 * len(shares) // 4]
    return None if share < _STREAMS and whole > len(shares) / 2 else share


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
    """The ceiling that most windows show, unless something speaks against it."""
    ended = _ended_by_memory(seen)
    if ended is not None:
        return ended
    if _still_loads(verdicts, windows):
        return None, "low", ["it was asking for fresh memory all the time and its memory grew: it "
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
    if ceiling == "compute" and _may_spin(seen):
        return None, "low", ["it keeps its cores busy, but has loaded a library that waits by "
                             "spinning (MPI, NCCL): computing and waiting look alike from outside; "
                             "a trace of the messages would tell"]  # fmt: skip
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
        return "memory capacity", "high", [f"it ended with code {seen.exit_code} and says '{said}'"]
    largest = max((sample.resident_bytes for sample in seen.samples), default=0.0)
    much = seen.memory_limit is not None and largest > 0.3 * seen.memory_limit
    if seen.exit_code in _KILLED and seen.node_kills > 0:
        held = f"it was killed while it held {format_bytes(largest)}"
        return "memory capacity", "medium", [f"{held}, and the kernel killed for want of memory"]
    if seen.exit_code in _KILLED and much:
        held = f"it was killed while it held {format_bytes(largest)}"
        return "memory capacity", "medium", [f"{held}; the kernel does so when memory runs out"]
    return None


def _may_spin(seen: Observation) -> bool:
    several = max((one.processes for one in seen.samples), default=1.0) > 1
    return several and any(name in _SPINNING for name in seen.libraries)


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


def _notes(
    seen: Observation, ceiling: CeilingName | None, figures: dict[str, float]
) -> tuple[str, ...]:
    notes = []
    if seen.stopped:
        notes.append(f"It was stopped after {seen.seconds:.0f} s; --watch-for watches longer.")
    elif seen.exit_code:
        notes.append(f"It ended with code {seen.exit_code}.")
    if seen.hot_spots:
        spots = ", ".join(
            f"{name} {format_percent(share)}" for name, share in seen.hot_spots.items()
        )
        notes.append(f"Where Python was, by py-spy: {spots}.")
    if figures["run_delay"] > 0.1 * max(figures["cores"], 0.1):
        notes.append(
            "Other processes had its cores part of the time; that part is taken out of the shares."
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
