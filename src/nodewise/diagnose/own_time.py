"""The time that a program had for itself: other load's part of each window is taken out.

On a busy machine a window of the clock holds little of the program's own time, and the kernel's
split of that into user and system time is a guess. So windows are joined until they hold enough.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from nodewise.study.observed import Rank, Sample

ENOUGH_SECONDS = 0.25  # of its own time: the kernel's ticks of 10 ms then say 4 %
_HARDLY_WAITS = 20  # times a second by choice
_UNCLOCKED = 0.2  # of the threads that ran: of a chain of short processes only the looks tell
_SHORTEST = 0.05  # of the clock: less is rounding
STORES = 1e6  # bytes a second of storage: less is a log or a start
_MEANS = (
    "active_threads", "runnable_ticks", "disk_ticks", "lock_threads", "socket_threads",
    "event_threads", "timed_threads", "idle_threads", "unclocked", "completion_ticks",
    "python_lock_threads", "file_lock_processes", "processes", "threads",
)  # fmt: skip
_LAST = ("sockets", "pipes", "files")
_LARGEST = ("resident_bytes",)
_TOUCHED = ("touched_bytes", "touched_seconds", "touched_of_bytes", "touched_huge")


class Account(NamedTuple):
    """Where the time of a window went, as shares of it, with other load's part taken out."""

    user: float
    system: float
    blocked: float
    disk: float  # of the blocked part, seen waiting for the disk
    seconds: float  # in which it computed or waited for something else than a core


def account_of(sample: Sample) -> Account:
    """The shares of one window."""
    cpu = sample.user + sample.system
    wanted = cpu + sample.run_delay
    # Looks catch short waits badly, clocks do not know which threads overlap: the less counts. But
    # who hardly ever chose to wait did not wait shortly, and the kernel tells a delay when it ends.
    wanting = min(sample.runnable_ticks, wanted / sample.seconds, 1.0)
    if sample.switches < _HARDLY_WAITS * sample.seconds or sample.unclocked > _UNCLOCKED:
        wanting = sample.runnable_ticks
    running = wanting * cpu / wanted if wanted else 0.0
    whole = max(running + 1 - wanting, 1e-9)
    blocked = (1 - wanting) / whole
    share = running / whole / cpu if cpu else 0.0
    return Account(
        user=share * sample.user,
        system=share * sample.system,
        blocked=blocked,
        disk=min(disk_ticks(sample) / whole, blocked),
        # Rates are over this time: on a busy machine a program does less in a second of the clock.
        seconds=max((1 - wanting) * sample.seconds + cpu, _SHORTEST * sample.seconds),
    )


def disk_ticks(sample: Sample) -> float:
    """Share of looks at which it waited for the disk, or for requests while the disk moves bytes.

    Requests that the kernel completes later may go to a socket as well.
    """
    stores = sample.storage_bytes > STORES * sample.seconds
    return sample.disk_ticks + (sample.completion_ticks if stores else 0.0)


class Window(NamedTuple):
    """Neighbouring samples that hold enough of the program's own time, and all of them as one."""

    samples: tuple[Sample, ...]
    whole: Sample


def windows_of(samples: Sequence[Sample]) -> tuple[Window, ...]:
    """The samples in order; what is left at the end belongs to the last window."""
    groups: list[list[Sample]] = []
    left: list[Sample] = []
    for sample in samples:
        left.append(sample)
        if account_of(joined(left)).seconds >= ENOUGH_SECONDS:
            groups.append(left)
            left = []
    if left and groups:
        groups[-1].extend(left)
    elif left:
        groups.append(left)
    return tuple(Window(tuple(group), joined(group)) for group in groups)


def joined(samples: Sequence[Sample]) -> Sample:
    """Several windows as one: counts are added, numbers of threads are means over the time."""
    first, last = samples[0], samples[-1]
    if len(samples) == 1:
        return first
    seconds = sum(sample.seconds for sample in samples)
    fields: dict[str, Any] = {
        "thread_seconds": thread_seconds(samples),
        "ranks": ranks(samples),
    }
    for name in first.__struct_fields__:
        values = [getattr(sample, name) for sample in samples]
        if name in _TOUCHED or name in fields:
            continue
        if name in _LAST:
            fields[name] = values[-1]
        elif name in _LARGEST:
            fields[name] = max(values)
        elif None in values:
            fields[name] = None
        elif name in _MEANS:
            fields[name] = sum(
                one * sample.seconds for one, sample in zip(values, samples, strict=True)
            ) / max(seconds, 1e-9)
        else:
            fields[name] = sum(values)
    if fields["thread_seconds"]:  # not the busiest of each window: they take turns
        fields["busiest_thread"] = max(fields["thread_seconds"].values())
    return msgspec.structs.replace(last, **fields)


def thread_seconds(samples: Iterable[Sample]) -> dict[str, float]:
    """CPU seconds of each thread in all of these windows."""
    total: Counter[str] = Counter()
    for sample in samples:
        total.update(sample.thread_seconds)
    return dict(total)


def ranks(samples: Iterable[Sample]) -> dict[str, Rank]:
    """What was sampled of each rank in all of these windows."""
    total: dict[str, Rank] = {}
    for sample in samples:
        for name, one in sample.ranks.items():
            old = total.get(name, Rank())
            total[name] = Rank(
                old.messages + one.messages, old.own + one.own, old.run_delay + one.run_delay
            )
    return total
