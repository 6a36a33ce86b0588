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


class Rank(msgspec.Struct, frozen=True, array_like=True):
    """Samples of the CPU time of an MPI rank, and its seconds without a core while they ran."""

    messages: float = 0.0  # inside the library of messages
    own: float = 0.0  # in other code
    run_delay: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process tree did in one window of a second or less. Times are in thread-seconds."""

    seconds: float
    user: float = 0.0
    system: float = 0.0
    run_delay: float = 0.0  # ready to run, but another process had the core
    active_threads: float = 0.0  # that computed or wanted to
    busiest_thread: float | None = None  # CPU seconds of the thread that took most
    thread_seconds: dict[str, float] = {}  # CPU seconds of the threads that took most, by name
    runnable_ticks: float = 0.0  # share of looks at which some thread ran or wanted to
    unclocked: float = 0.0  # of the threads seen running, those that ended before being clocked
    disk_ticks: float = 0.0  # share of looks at which some thread waited for the disk
    completion_ticks: float = 0.0  # the same for the end of requests (io_uring, AIO) to any device
    lock_threads: float = 0.0  # mean number of threads seen waiting for a lock
    socket_threads: float = 0.0  # the same for a message
    event_threads: float = 0.0  # the same for a clock or an event
    timed_threads: float = 0.0  # that wait like for a lock, but not longer than a time they set
    idle_threads: float = 0.0  # that did next to nothing in the whole window
    python_lock_threads: float | None = None  # of the lock waits, those in Python interpreters
    file_lock_processes: float = 0.0  # mean number that wait for a file lock, or ask for it again
    message_samples: float = 0.0  # of CPU time, those inside a library of messages (MPI)
    own_samples: float = 0.0  # and of the same processes, those in other code
    ranks: dict[str, Rank] = {}  # the same of each process that is sampled
    sockets: float = 0.0  # open ones
    pipes: float = 0.0  # the same
    files: float | None = None  # open regular files and devices of storage
    message_bytes: float | None = None  # through its TCP sockets; none: not readable
    messages: float | None = None  # segments of TCP
    storage_bytes: float = 0.0
    io_bytes: float = 0.0  # through read and write calls, cached or not
    io_calls: float = 0.0
    minor_faults: float = 0.0
    major_faults: float = 0.0
    switches: float = 0.0  # voluntary: the thread chose to wait
    forced_switches: float = 0.0
    touched_bytes: float | None = None  # memory used within `touched_seconds` of CPU time
    touched_seconds: float = 0.0
    touched_of_bytes: float = 0.0  # resident memory of that process
    touched_huge: float = 1.0  # share of it in huge pages
    resident_bytes: float = 0.0
    processes: float = 1.0
    threads: float = 1.0


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that was watched, from its start to its end or to the time limit."""

    command: tuple[str, ...]
    seconds: float
    samples: tuple[Sample, ...]
    exit_code: int | None = None  # none: it was still running
    error_tail: str = ""
    page_bytes: int = 4096
    cores: int = 1
    memory_limit: float | None = None
    group_kills: int = 0  # for lack of memory, in the control groups of the program
    node_kills: int = 0  # the same on the whole node
    libraries: tuple[str, ...] = ()  # loaded ones that tell how it may wait: MPI, NCCL, OpenMP
    cpu_pressure: float | None = None
    stopped: bool = False  # by us, when the time was up
    hot_spots: dict[str, float] = {}  # Python functions, with their share of the looks


class Trials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CPU seconds of a program in runs that differ in one thing; None if a run gave none."""

    arithmetic: float | None = None  # beside competitors that only compute
    memory: float | None = None  # beside competitors that stream memory
    reference_arithmetic: float | None = None  # of a known memory stream in the program's place
    reference_memory: float | None = None
    shared: float | None = None  # with competitors on its own cores


class CountedOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of operation in a step of a program whose operations were counted."""

    name: str
    calls: float
    seconds: float  # within the operation, while it was counted
    flops: float | None  # none: it has no known formula
    memory_bytes: float  # inputs read once and outputs written once: at least so many


class CountedStage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage of a step: the seconds of each timed step, and what it does in one."""

    name: str
    seconds: tuple[float, ...]
    cpu_seconds: float = 0.0
    system_seconds: float = 0.0
    faults: float = 0.0
    flops: float = 0.0
    memory_bytes: float = 0.0


class CountedRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A torch program: its stages and operations, in a median step."""

    command: tuple[str, ...]
    step: str  # what ends one: an optimizer's step, a batch, a call of the model, the probe
    steps: int  # whose times are given: the least disturbed of all that were timed
    all_steps: int
    waited_share: float  # of their time in which threads waited for a core
    counted_steps: int
    stages: tuple[CountedStage, ...]
    operations: tuple[CountedOperation, ...]
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1
    torch: str = ""
    timed_while_counting: bool = False  # too few steps to time them without the counter
    with_setup: bool = False  # the only step, so what comes before the loop is in it
    stopped: bool = False
    exit_code: int | None = 0
