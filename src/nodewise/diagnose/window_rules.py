"""What one window of a watched program looks like: rules in their order, the first that holds.

The rules follow what the kernel shows without hardware counters. Rates are over the program's own
time, so a busy machine gives the same result. A share of 0.5 means most of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nodewise.diagnose.axes import CeilingName
from nodewise.diagnose.own_time import STORES, Account, account_of, disk_ticks, ranks
from nodewise.study.observed import Observation, Rank, Sample

_HUGE_PAGE_BYTES = 2 * 2**20
_SOME_HUGE = 0.05  # of the memory of a process
# Memory used per second of CPU time, as a share of what one core can stream. The known stream adds
# in place: it moves three numbers for every two whose pages are seen.
_SEEN_OF_STREAM = 2 / 3
_STREAMS = 0.3
_COMPUTES = 0.1
_TELLS = 0.15  # a stream of this share leaves the caches within the window
_LEAST_OWN = 0.2  # of a moment: beyond that, the cost of our question is a guess
_WHOLE = 0.4  # of a program's memory: who used so much in a moment may use it again and again
_CARRIES = 2e8  # bytes in a second of CPU time: a tenth of what copying alone would carry
_HANDS_OVER = 1500  # times in a second of CPU time
_ONLY_PASSES_ON = 10_000  # times in a second of CPU time: a wait and a wake take 0.02 ms or so
_WAKES = 300  # times in a second of CPU time: threads that wait for each other, or are woken
_WAKES_SOMETIMES = 100  # of other threads, in a second of CPU time
_SOME_WAIT = 0.3  # of a thread, always seen waiting for a lock
_ALIKE = 1.4  # times the mean CPU time of a thread: 1.0 to 1.3 in all fights for one lock
_NEARLY_ALL = 0.9  # of the CPU time of all threads
_LEADS = 0.9  # of the CPU time of all threads: threads that share a lock share the work
_LEAST_MOMENT = 0.002  # seconds: in less, a walk over the pages sees too little
_STOPS = 1000  # times a second: who stops so often does not compute, that is work between messages
_FLOWS = 1e8  # bytes a second through TCP: what a link of 1 Gbit/s carries, or more
_MOSTLY_OWN = 0.75  # of the time in the program's own code: it stops because another part works
_SPEAKS = 5000  # messages in a second of CPU time: 0.2 ms for each is mostly the kernel's
_WAKES_ONLY = 3000  # times in a second of CPU time: 0.3 ms of work between two waits
_READS_MUCH = 1e7  # more than what programs write beside their work
_PAGES_IN = 300  # pages a second from storage: each waits for about as long as a read
_ALL_CORES = 0.85  # of the cores: looks and the end of a window take the rest
_WAITS = 0.35  # of the threads that wait for a lock or work
_WAITS_LONG = 0.45
_RARELY = 0.05  # of a thread: seen in one look of a window
_RESTS = 0.5  # of the looks
_IDLE = 0.9  # of the time
_SEEN_WAITING = 0.1  # of a process, for a file lock
_SIGNAL = 8  # bytes: what a read or a write of an eventfd carries
_SAVED = 0.5  # of the bytes whose pages are used for the first time
_ENOUGH_SAMPLES = 50  # of where ranks are: half of them is then 36 to 64 %
_HARDLY_OUT = 0.3  # of the CPU time of ranks
_MOSTLY_OUT = 0.5
_WORKS_ON = 0.85  # of the CPU time of the rank that works most
_WAITS_FOR_IT = 0.6  # the same of the others
_ALIKE_DELAY = 1.25  # times as long without a core as other ranks
_SHORT_DELAY = 0.1  # seconds


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


def judge_window(sample: Sample, seen: Observation, roofs: Roofs, touched: float | None) -> Verdict:
    """The class of one window: the first rule that holds."""
    account = account_of(sample)
    rules = (_paging, faulting, _reading, _in_messages, _one_at_a_time, _messaging, _locking,
             _talking, _handing_over, _waiting)  # fmt: skip
    for rule in rules:
        verdict = rule(sample, account, seen, roofs)
        if verdict is not None:
            return verdict
    if _waits_in_turn(sample, seen):
        fights = sample.active_threads >= 3 and sample.lock_threads > _SOME_WAIT
        fights = fights and sample.busiest_thread is not None and _work_alike(sample)
        fights = fights and not _is_hidden(sample, seen)
        return Verdict("coordination" if fights else None, strong=False)
    stops = sample.switches > _STOPS * account.seconds
    if account.user < 0.6 or (stops and not (account.user > _MOSTLY_OWN and _is_pipeline(sample))):
        return Verdict(None)
    if touched is None or _may_wait_in_turn(sample):
        return Verdict(None)  # only the memory that it uses can deny that it computes
    if touched >= _STREAMS:
        # Streaming and jumping about look alike from outside.
        return Verdict("memory bandwidth", strong=False)
    return Verdict("compute" if touched <= _COMPUTES else None, strong=touched < 0.05)


def _paging(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if sample.major_faults / account.seconds < _PAGES_IN or account.blocked + account.system < 0.5:
        return None
    if seen.memory_limit and sample.resident_bytes > 0.7 * seen.memory_limit:
        return Verdict("memory capacity")
    return Verdict("data I/O")  # a mapped file that is read, with memory to spare


def faulting(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    """The kernel's time is a large part, and faults take most of it at this machine's rate."""
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    if wanted < 0.3 * sample.seconds or sample.system < 0.3 * cpu or not sample.system:
        return None
    if sample.storage_bytes > _SAVED * sample.minor_faults * seen.page_bytes:
        return None  # pages of a file: what is written to them goes to the storage
    small = sample.minor_faults * seen.page_bytes / roofs.fresh_pages / sample.system
    huge = sample.minor_faults * _HUGE_PAGE_BYTES / roofs.fresh_pages / sample.system
    # Huge pages take few faults and long ones, longer still where memory is short; then hardly
    # anything else enters the kernel, and no copying by it explains the time.
    few_calls = sample.switches + sample.io_calls < 0.25 * sample.minor_faults
    few_calls = few_calls and sample.io_bytes < _CARRIES * cpu
    if small < 0.5 and not (huge > 0.15 and few_calls and _may_have_huge_pages(seen)):
        return None
    quiet = sample.switches < _STOPS * account.seconds
    if not quiet and sample.sockets:
        return Verdict(None)  # messages, and memory for them: neither is sure to bind
    clear = small > 0.5 or huge > 1
    return Verdict("page faults", strong=sample.system > 0.45 * cpu and quiet and clear)


def _may_have_huge_pages(seen: Observation) -> bool:
    """Whether huge pages were seen in its memory, or whether that is unknown."""
    asked = [one.touched_huge for one in seen.samples if one.touched_bytes is not None]
    return not asked or max(asked) > _SOME_HUGE


def _reading(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    storage = sample.storage_bytes / account.seconds
    elsewhere = sample.event_threads + sample.socket_threads + sample.lock_threads
    if 1 - sample.runnable_ticks - disk_ticks(sample) > _RESTS:
        return None  # nothing runs and nothing waits for the disk: what moves the bytes is paced
    if account.disk > 0.3:
        return Verdict("data I/O", strong=account.disk > 0.4 or storage > _READS_MUCH)
    if storage > _READS_MUCH and account.blocked + account.system > 0.5 and elsewhere < 0.5:
        return Verdict("data I/O", strong=account.blocked + account.system > 0.65)
    if storage > STORES and account.blocked > 0.3 and elsewhere < 0.2:
        return Verdict("data I/O", strong=account.blocked > 0.4)
    if storage > STORES and account.blocked + account.system > 0.5 and _waits_for_each_call(sample):
        return Verdict("data I/O", strong=False)  # whatever other threads wait for
    cpu = sample.user + sample.system
    if (
        account.system > 0.5
        and sample.files != 0  # pipes and sockets carry the rest
        and sample.io_bytes > _CARRIES * cpu
        and elsewhere + sample.sockets < 0.2
    ):
        return Verdict("data I/O", strong=False)  # through the page cache
    return None


def _in_messages(
    sample: Sample, account: Account, seen: Observation, roofs: Roofs
) -> Verdict | None:
    """Ranks are hardly ever outside of their library of messages, where they wait by spinning."""
    own = own_share(seen)
    if own is None or account.blocked > 0.5:
        return None
    if own <= _HARDLY_OUT * (1 - _starved(seen)):
        return Verdict("communication", strong=own < _HARDLY_OUT / 3)
    return Verdict("coordination", strong=False) if waits_for_one(seen) else None


def own_share(seen: Observation) -> float | None:
    """Of the CPU time of ranks, the part outside of the library of messages; none: not sampled."""
    own = sum(sample.own_samples for sample in seen.samples)
    whole = own + sum(sample.message_samples for sample in seen.samples)
    return own / whole if whole >= _ENOUGH_SAMPLES else None


def waits_for_one(seen: Observation) -> bool:
    """One rank works all the time, and others wait for it: not because it lacked a core."""
    sampled = {
        name: rank
        for name, rank in ranks(seen.samples).items()
        if rank.own + rank.messages >= _ENOUGH_SAMPLES
    }
    if len(sampled) < 2:
        return False
    last = max(sampled, key=lambda name: out_of_messages(sampled[name]))
    others = [rank for name, rank in sampled.items() if name != last]
    works = out_of_messages(sampled[last])
    rest = sum(map(out_of_messages, others)) / len(others)
    delay = sum(rank.run_delay for rank in others) / len(others)
    return (
        works > _WORKS_ON
        and rest < _WAITS_FOR_IT
        and sampled[last].run_delay < _ALIKE_DELAY * delay + _SHORT_DELAY
    )


def out_of_messages(rank: Rank) -> float:
    """Share of its CPU time."""
    return rank.own / max(rank.own + rank.messages, 1.0)


def computes_between(seen: Observation) -> bool:
    """Ranks work for most of the time in which their partners have a core too.

    A rank spins while its partner has none, so other load lengthens the waits.
    """
    own = own_share(seen)
    return own is not None and own > _MOSTLY_OUT * (1 - _starved(seen))


def _starved(seen: Observation) -> float:
    """Of the time in which the program wanted a core, the part without one."""
    delay = sum(sample.run_delay for sample in seen.samples)
    whole = delay + sum(sample.user + sample.system for sample in seen.samples)
    return delay / whole if whole else 0.0


def _one_at_a_time(
    sample: Sample, account: Account, seen: Observation, roofs: Roofs
) -> Verdict | None:
    """Processes wait, or ask again and again, for a file lock that another one works under."""
    working = (sample.user + sample.system + sample.run_delay / 2) / sample.seconds
    waiting = sample.file_lock_processes / max(sample.file_lock_processes + working, 1e-9)
    if sample.file_lock_processes < _SEEN_WAITING or account.blocked > 0.5:
        return None
    cpu = sample.user + sample.system
    all_cores = cpu + sample.run_delay > _ALL_CORES * seen.cores * sample.seconds
    if waiting < _WAITS or all_cores:
        # Who was woken for the lock and has no core yet looks like one that works; else all cores
        # work for it, so the wait costs nothing.
        if sample.run_delay <= cpu:
            return None
        in_turn = waiting >= _WAITS and _waits_in_turn(sample, seen)
        return Verdict("coordination" if in_turn else None, strong=False)
    return Verdict("coordination", strong=waiting > _WAITS_LONG)


def _waits_for_each_call(sample: Sample) -> bool:
    """Reads and writes go to the storage, and nearly each of them waits for it."""
    to_storage = sample.storage_bytes > 0.5 * sample.io_bytes > 0
    return to_storage and sample.switches > 0.5 * sample.io_calls


def _locking(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if sample.active_threads < 2 or account.system > 0.6 or _is_led(sample):
        return None
    if _waits_for_a_clock(sample, account):
        return None
    if _is_pipeline(sample):
        return None  # one waits because another works
    # Part of the delay is the threads' own: they wake up together and share the cores.
    working = (sample.user + sample.system + sample.run_delay / 2) / sample.seconds
    waiting = sample.lock_threads / max(sample.lock_threads + working, 1e-9)
    if waiting < _WAITS or _no_core_is_free(sample, seen):
        return None
    if account.user > 0.5 and not (_work_alike(sample) or _waits_in_python(sample)):
        # Helpers may wait for work, and others for the lock of a helper: neither does so often.
        often = sample.switches > _WAKES_ONLY * (sample.user + sample.system)
        in_turn = often and _waits_in_turn(sample, seen)
        return Verdict("coordination" if in_turn else None, strong=False)
    return Verdict("coordination", strong=waiting > _WAITS_LONG)


def _is_pipeline(sample: Sample) -> bool:
    """Several processes that wait to read or write."""
    return sample.processes > 1 and sample.io_calls > 0.5 * sample.switches


def _waits_for_a_clock(sample: Sample, account: Account) -> bool:
    """Nothing runs, and some thread waits for a clock or an event: the others wait for it."""
    return account.blocked > _IDLE and sample.event_threads + sample.timed_threads > _RARELY


def _work_alike(sample: Sample) -> bool:
    """Threads that fight for a lock get it in turn; helpers of a runtime work now and then."""
    if sample.thread_seconds:
        return _are_alike(sorted(sample.thread_seconds.values(), reverse=True))
    if sample.busiest_thread is None:
        return True
    cpu = sample.user + sample.system
    return sample.busiest_thread * sample.active_threads < _ALIKE * cpu


def _are_alike(seconds: Sequence[float]) -> bool:
    """Of several threads, the busiest first, those that do nearly all of the work do like parts."""
    whole, part = sum(seconds), 0.0
    for count, one in enumerate(seconds, start=1):
        part += one
        if part >= _NEARLY_ALL * whole:
            return count > 1 and seconds[0] * count < _ALIKE * part
    return False


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
    return own_code and wanted > _ALL_CORES * seen.cores * sample.seconds


def _messaging(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    """TCP carries much in each second of its CPU time, most of which the kernel takes."""
    if not sample.message_bytes or not sample.messages or account.system < 0.4:
        return None
    cpu = sample.user + sample.system
    if sample.message_bytes < _CARRIES * cpu and sample.messages < _SPEAKS * cpu:
        return None
    if sample.storage_bytes > STORES * account.seconds:
        return None
    return Verdict("communication", strong=account.system > 0.5)


def _talking(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if _only_wakes(sample, account):
        return Verdict("coordination", strong=False)
    often = sample.switches > _STOPS * account.seconds
    # Large messages take few switches; then one side is seen waiting for the other end.
    carries = sample.socket_threads > 0.1 or (sample.sockets and sample.messages)
    carries = carries or _carries_unseen(sample)
    large = account.system > 0.6 and sample.active_threads >= 2 and carries
    if not (often or large) or account.system < 0.4:
        return None
    if sample.storage_bytes > STORES * account.seconds:
        return None
    if sample.messages == 0 and sample.socket_threads < _RARELY and _hardly_calls(sample):
        if sample.sockets and not sample.lock_threads and account.system > 0.8:
            return Verdict("communication", strong=False)  # local sockets count no messages
        # Neither sockets nor pipes carry anything: the threads wake each other.
        several = sample.active_threads >= 2 and (
            not sample.sockets or sample.lock_threads > _RARELY
        )
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
    speaks = sample.messages != 0 or sample.sockets or sample.socket_threads >= _RARELY
    wakes = sample.switches > _WAKES * (sample.user + sample.system)
    fresh = sample.minor_faults > 0.1 * sample.switches
    stored = sample.storage_bytes > STORES * account.seconds
    return several and wakes and not (speaks or fresh or stored) and _hardly_calls(sample)


def _waits_in_turn(sample: Sample, seen: Observation) -> bool:
    """Threads that compute have no reason to wait so often: others hold what they need.

    While all cores work for it, such waits cost nothing.
    """
    cpu = sample.user + sample.system
    often = sample.switches > _WAKES * cpu and cpu < _ALL_CORES * seen.cores * sample.seconds
    several = sample.active_threads >= 2 and not _is_led(sample)
    return several and often and _hardly_calls(sample)


def _is_hidden(sample: Sample, seen: Observation) -> bool:
    """Other load has the cores that its threads want: whether these would work in turn is unseen.

    Who was woken for a lock looks like one that works, and working on all cores costs nothing.
    Threads that work on parts of their own do not wait as often as those that share a lock may.
    """
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    seldom = sample.switches < _HANDS_OVER * cpu
    return seldom and sample.run_delay > cpu and wanted > _ALL_CORES * seen.cores * sample.seconds


def _may_wait_in_turn(sample: Sample) -> bool:
    """Threads wait now and then, and other load has their cores: the waits are hardly seen then."""
    cpu = sample.user + sample.system
    waits = sample.lock_threads > _RARELY * sample.active_threads
    waits = waits and sample.switches > _WAKES_SOMETIMES * cpu
    several = sample.active_threads >= 2 and not _is_led(sample)
    return several and waits and sample.run_delay > cpu and _hardly_calls(sample)


def _hardly_calls(sample: Sample) -> bool:
    """Few reads and writes, or none that carries more than the number of an event."""
    signals = 0 < sample.io_bytes <= _SIGNAL * sample.io_calls
    return sample.io_calls < 0.1 * sample.switches or signals


def _handing_over(
    sample: Sample, account: Account, seen: Observation, roofs: Roofs
) -> Verdict | None:
    """Threads that wake each other thousands of times in a second of work."""
    cpu = sample.user + sample.system
    often = sample.switches > _WAKES_ONLY * cpu and sample.switches > _WAKES * sample.seconds
    if not often or sample.active_threads < 2 or _waits_for_a_clock(sample, account):
        return None
    if sample.files == 0 and sample.switches > _ONLY_PASSES_ON * cpu and not _hardly_calls(sample):
        return Verdict("communication", strong=False)  # through pipes or sockets
    # Waits of microseconds are counted by the kernel and hardly ever seen.
    if sample.lock_threads < _SOME_WAIT and sample.event_threads + sample.socket_threads > _RARELY:
        return None
    if sample.sockets or sample.io_calls > 0.3 * sample.switches:
        return None
    return Verdict("coordination", strong=False)


def _waiting(sample: Sample, account: Account, seen: Observation, roofs: Roofs) -> Verdict | None:
    if account.blocked < 0.5:
        return None
    waits = sample.event_threads + sample.lock_threads
    if sample.socket_threads > waits and (sample.message_bytes or 0) > _FLOWS * sample.seconds:
        return Verdict("communication", strong=False)  # it waits for room, or for the next bytes
    others = sample.event_threads + sample.socket_threads + _SOME_WAIT
    if sample.lock_threads > others and not _waits_for_a_clock(sample, account):
        return Verdict(None)
    return Verdict("latency", strong=account.blocked > 0.65)


def touched_share(samples: Sequence[Sample], roofs: Roofs, page_bytes: int) -> float | None:
    """Memory used beyond the caches per CPU second, over what one core can stream.

    A page counts once however often it is used, so every window gives a lower bound: of them the
    upper quarter counts. None if it was not seen: not asked, too short to leave the caches, or
    most of the memory of the program was used, perhaps many times.
    """
    seen = roofs.stream * _SEEN_OF_STREAM
    shares = []
    whole = 0
    for one in samples:
        if one.touched_bytes is None or one.touched_seconds < _LEAST_MOMENT:
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
