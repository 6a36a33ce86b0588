"""What was seen of work from outside: a timed step, and the samples of a running program."""

import msgspec


class TimedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that ran several times: seconds of each, and what a run of it does."""

    name: str
    seconds: tuple[float, ...]  # without the time in which another process had the core
    cpu_seconds: float  # of all threads, in a median run
    system_seconds: float = 0.0
    faults: float = 0.0  # fresh pages that the kernel handed out, in that run
    flops: float = 0.0
    memory_bytes: float = 0.0
    disk_bytes: float = 0.0
    dtype: str = "float64"


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process tree did in one window of a second or less. Times are in thread-seconds."""

    seconds: float
    user: float = 0.0
    system: float = 0.0
    run_delay: float = 0.0  # ready to run, but another process had the core
    active_threads: float = 0.0  # that computed or wanted to
    runnable_ticks: float = 0.0  # share of looks at which some thread ran or wanted to
    disk_ticks: float = 0.0  # share of looks at which some thread waited for the disk
    lock_threads: float = 0.0  # mean number of threads seen waiting for a lock
    socket_threads: float = 0.0  # the same for a message
    event_threads: float = 0.0  # the same for a clock or an event
    idle_threads: float = 0.0  # that did next to nothing in the whole window
    sockets: float = 0.0  # open ones
    storage_bytes: float = 0.0
    io_bytes: float = 0.0  # through read and write calls, cached or not
    io_calls: float = 0.0
    minor_faults: float = 0.0
    major_faults: float = 0.0
    switches: float = 0.0  # voluntary: the thread chose to wait
    forced_switches: float = 0.0
    touched_bytes: float | None = None  # memory used within `touched_seconds` of CPU time
    touched_seconds: float = 0.0
    resident_bytes: float = 0.0
    processes: float = 1.0
    threads: float = 1.0


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that was watched, from its start to its end or to the end of our patience."""

    command: tuple[str, ...]
    seconds: float
    samples: tuple[Sample, ...]
    exit_code: int | None = None  # none: it was still running
    error_tail: str = ""
    page_bytes: int = 4096
    cores: int = 1
    memory_limit: float | None = None
    libraries: tuple[str, ...] = ()  # loaded ones that tell how it may wait: MPI, NCCL, OpenMP
    cpu_pressure: float | None = None
    stopped: bool = False  # by us, when the time was up
