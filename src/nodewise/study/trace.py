"""The trace of one rank, whatever profiler wrote it, and its digest. Times are nanoseconds."""

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Nanoseconds = NDArray[np.int64]

COMPUTE: Final = 0
COMMUNICATION: Final = 1
COPY: Final = 2

NO_LAUNCH: Final = np.iinfo(np.int64).min  # of a row whose launching call was not recorded
NO_CALL: Final = -1  # of a row that is not a collective

# What part of a trace counts: of each rank, as Holistic Trace Analysis, or of all ranks.
TraceWindow = Literal["all", "hta", "common"]
# The columns of a table of steps, in nanoseconds; the first six add up to the step's length.
PARTS = ("compute", "exposed_comm", "exposed_copy", "input_wait", "host_bound", "other_idle")


@dataclass(frozen=True, kw_only=True)
class Call:
    """What calls of one collective have in common: the operation, its group, its bytes."""

    operation: str
    group: str = ""  # of processes, by the name that the program gave it
    ranks: str = ""  # that take part, where recorded
    bytes: int | None = None  # that one rank puts in
    pairwise: bool = False  # send or receive: has no counterpart on every rank


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step that the profiler marked, on the host's clock."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """The rows of one rank: work on its device, or on its threads where it has no device."""

    file: str
    rank: int | None
    starts: Nanoseconds
    ends: Nanoseconds
    kinds: NDArray[np.int8]  # COMPUTE, COMMUNICATION or COPY
    launches: Nanoseconds  # when the host called for the row, or NO_LAUNCH
    calls: NDArray[np.int32]  # index into `call_table`, or NO_CALL
    call_table: tuple[Call, ...] = ()
    steps: tuple[Step, ...] = ()
    last_step_start: int | None = None  # over all annotations of steps, host and device
    input_starts: Nanoseconds = field(default_factory=lambda: np.zeros(0, np.int64))
    input_ends: Nanoseconds = field(default_factory=lambda: np.zeros(0, np.int64))
    world_size: int | None = None
    on_device: bool = True
    damage: str = ""  # why the rows are not all there
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Put the rows in the order of their starts, in place: there may be millions of them."""
        if (self.starts[1:] < self.starts[:-1]).any():
            order = np.argsort(self.starts, kind="stable")
            for column in (self.starts, self.ends, self.kinds, self.launches, self.calls):
                column[:] = column[order]


@dataclass(frozen=True, kw_only=True, eq=False)
class Digest:
    """What is left of a rank's trace once its rows are added up; small, whatever its size was."""

    file: str
    rank: int | None
    world_size: int | None
    start: int
    end: int
    compute: int
    communication: int
    copy: int
    busy: int
    computing_or_communicating: int
    input_wait: int
    host_bound: int
    rows: int
    on_device: bool
    call_starts: Nanoseconds
    call_lengths: Nanoseconds
    call_exposed: Nanoseconds
    call_steps: NDArray[np.int64]
    call_kinds: NDArray[np.int32]
    call_table: tuple[Call, ...]
    step_numbers: NDArray[np.int64]
    step_starts: Nanoseconds
    step_ends: Nanoseconds
    step_parts: NDArray[np.int64]  # one row per step, a column each of PARTS
    damage: str
    notes: tuple[str, ...]

    @property
    def exposed_communication(self) -> int:
        """Nanoseconds in which the rank communicated and did not compute."""
        return self.computing_or_communicating - self.compute

    @property
    def useful(self) -> int:
        """Nanoseconds of use: a device while it computes, a processor while it does not wait."""
        if self.on_device:
            return self.compute
        return self.end - self.start - self.exposed_communication


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A file that gave nothing, and why."""

    file: str
    reason: str
    rank: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Operations:
    """Timed operations of hybrid parallel training, one row per operation, in seconds.

    `number` counts the operations of one kind in a step on a rank. `chunk` is the virtual stage on
    the rank, `model_chunk` its position in the whole model; -1 where an operation has none.
    """

    name: str
    kind: NDArray[np.str_]
    replica: NDArray[np.int64]  # data parallel rank
    stage: NDArray[np.int64]  # pipeline rank
    rank: NDArray[np.int64]
    step: NDArray[np.int64]
    number: NDArray[np.int64]
    chunk: NDArray[np.int64]
    model_chunk: NDArray[np.int64]
    start: NDArray[np.float64]
    duration: NDArray[np.float64]
    sequence_parallel: int = 1  # data parallel groups inside a replica, where the job says so

    @property
    def end(self) -> NDArray[np.float64]:
        """When each operation ended, in the precision of the recorded starts."""
        start, duration = self.start.astype(np.float32), self.duration.astype(np.float32)
        is_single = np.array_equal(start, self.start) and np.array_equal(duration, self.duration)
        return (start + duration).astype(np.float64) if is_single else self.start + self.duration
