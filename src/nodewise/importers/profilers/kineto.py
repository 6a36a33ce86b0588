"""PyTorch profiles (Kineto): Chrome JSON of a GPU with NCCL or RCCL, or of a CPU with gloo.

Rows are device work by its category; what only carries a stream number, such as the launch of a
Triton kernel on the host, is none. Without a device the rows are the operators of the threads.
"""

import math
import re
from array import array
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import DataError
from nodewise.base.time_sets import union, without
from nodewise.importers.profilers.chrome import Reader, TraceEvent, nanoseconds
from nodewise.study.trace import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    NO_CALL,
    NO_LAUNCH,
    Call,
    Nanoseconds,
    RankTrace,
    Step,
)

_COMPUTE_CATEGORIES = frozenset({"kernel", "Kernel"})
_COPY_CATEGORIES = frozenset({"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"})
_DEVICE_CATEGORIES = _COMPUTE_CATEGORIES | _COPY_CATEGORIES
_LAUNCH_CATEGORIES = frozenset(
    {"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "xpu_runtime", "mtia_runtime"}
)
_MARK_CATEGORIES = frozenset({"user_annotation", "gpu_user_annotation"})
_HOST_CATEGORIES = frozenset({"cpu_op", "Operator"})
_LAUNCH, _MARK = 3, 4  # beside COMPUTE and COPY: what an event is, by its category
_CODES: dict[str | None, int] = {
    **dict.fromkeys(_COMPUTE_CATEGORIES, COMPUTE),
    **dict.fromkeys(_COPY_CATEGORIES, COPY),
    **dict.fromkeys(_LAUNCH_CATEGORIES, _LAUNCH),
}

# Calls that never put work on a device; two thirds of what a host calls.
_NO_WORK = re.compile(
    r"(cuda|hip)(TraceEvent|Stream(?!.*Value)|Get|Set|Device|Occupancy|Func|Peek|Pointer|Malloc|Free"
    r"|Host|ThreadExchange|CtxGet|IpcGet)"
)
COLLECTIVE_KERNEL = re.compile(r"(?:nccl|rccl|msccl)", re.IGNORECASE)
# Reductions between devices that are not NCCL's: compute to Holistic Trace Analysis, so to us.
_OTHER_COLLECTIVE = re.compile(r"multimem|cross_device_reduce|(two|one)shot|nvshmem|deep_ep")
_COLLECTIVE_MARK = re.compile(r"(?:gloo|mpi|ucc|xccl|nccl):(\w+)")
_OPERATION = re.compile(r"(?:nccl|rccl|msccl)\w*?_?(?:Dev)?Kernel_([A-Za-z]+)")
_COLLECTIVE_OPERATOR = re.compile(r"c10d::|record_param_comms|_c10d_functional")
_PAIRWISE = frozenset({"send", "recv", "isend", "irecv", "batched_isend_irecv", "coalesced"})
_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})(?!\d)")
_INPUT = "enumerate(DataLoader)"
_NAMED_MARKS = (_INPUT, "ProfilerStep")
_ROWS_AT_ONCE = 2**16
_MOST_BYTES = 2**48  # of a call; more cannot be a size

_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "unsigned char": 1, "signed char": 1,
    "half": 2, "bfloat16": 2, "short": 2, "c10::half": 2, "c10::bfloat16": 2,
    "int": 4, "float": 4, "long": 8, "long int": 8, "double": 8,
    "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip


def read(path: Path, collective_kernels: str = "") -> RankTrace:
    """The trace of one rank; `collective_kernels` names more kernels that communicate.

    A file that is not a trace, or holds nothing to break down, is a `DataError`; one that ends or
    breaks too early gives what was read, with `damage` saying why it is not all.
    """
    more = re.compile(collective_kernels) if collective_kernels else None
    rows = _Rows(more)
    reader = Reader(path, _wants_on_device)
    for events in reader:
        rows.add(events)
    if rows.count:
        return rows.device_trace(path, reader)
    # No device: the operators of the threads are the work, so the file is read again for them.
    threads, damage = _Threads(), reader.damage
    reader = Reader(path, _wants_on_host)
    for events in reader:
        threads.add(events)
    if not threads.count:
        why = f" ({damage or reader.damage})" if damage or reader.damage else ""
        raise DataError(
            f"{path} has no events of a device and no operators{why}.",
            "Record with torch.profiler and its activities CPU and CUDA.",
        )
    return threads.trace(path, reader)


def _wants_on_device(category: str, name: str) -> bool:
    # Old profilers mark steps and input as operators. A name that is not known yet may be a mark.
    if category in _HOST_CATEGORIES or category in _MARK_CATEGORIES:
        return not name or name.startswith(_NAMED_MARKS)
    if category in _LAUNCH_CATEGORIES:
        return _NO_WORK.match(name) is None
    return category in _DEVICE_CATEGORIES


def _wants_on_host(category: str, name: str) -> bool:
    return category in _HOST_CATEGORIES or category in _MARK_CATEGORIES


class _Marks:
    """What the program and the profiler marked: steps, and waiting for input."""

    def __init__(self) -> None:
        self.steps: dict[int, Step] = {}
        self.last_step_start: int | None = None
        self.inputs: list[tuple[int, int]] = []
        self.unread = 0

    def add(self, event: TraceEvent, start: int, end: int) -> None:
        """Keep a mark of a step or of waiting for input; other marks are ignored."""
        on_host = event.cat != "gpu_user_annotation"
        if event.name.startswith(_INPUT) and on_host:
            self.inputs.append((start, end))
        step = _STEP.match(event.name)
        if step is None:
            return
        self.last_step_start = max(start, self.last_step_start or start)
        number = int(step[1])
        if on_host or number not in self.steps:
            self.steps[number] = Step(number=number, start=start, end=end)

    def timed(self, events: list[TraceEvent]) -> tuple[list[TraceEvent], Nanoseconds, Nanoseconds]:
        """The events that have a time, when they start and how long they are; others are counted.

        All at once, because hardly a file has a bad one.
        """
        try:
            starts = nanoseconds([event.ts for event in events])
            lengths = nanoseconds([event.dur for event in events])
            if not len(events) or lengths.min() >= 0:
                return events, starts, lengths
        except ValueError:
            pass
        good = [event for event in events if _has_time(event)]
        self.unread += len(events) - len(good)
        starts = nanoseconds([event.ts for event in good])
        return good, starts, nanoseconds([event.dur for event in good])


def _has_time(event: TraceEvent) -> bool:
    try:
        return nanoseconds([event.dur])[0] >= 0 and len(nanoseconds([event.ts])) == 1
    except ValueError:
        return False


class _Rows:
    """Work of a device, and the calls that launched it."""

    def __init__(self, more: re.Pattern[str] | None) -> None:
        self._more = more
        self._marks = _Marks()
        # Plain arrays grow in place: what a file of many rows takes is little more than its rows.
        self._starts, self._lengths = array("q"), array("q")
        self._kinds, self._calls = array("b"), array("i")
        self._correlations = array("q")
        self._launch_starts, self._launch_correlations = array("q"), array("q")
        self._kind_of: dict[str, int] = {}
        self._call_of: dict[Call, int] = {}
        self._call_at: dict[tuple[Any, ...], int] = {}  # by what the kernel says
        self._like_collectives: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._kinds)

    def add(self, events: list[TraceEvent]) -> None:
        events, starts, lengths = self._marks.timed(events)
        codes = np.array([_CODES.get(event.cat, _MARK) for event in events], np.int8)
        numbers = _identities(events)
        for code in (COMPUTE, COPY):
            here = codes == code
            self._starts.frombytes(starts[here].tobytes())
            self._lengths.frombytes(lengths[here].tobytes())
            self._correlations.frombytes(numbers[here].tobytes())
        launched = codes == _LAUNCH
        self._launch_starts.frombytes(starts[launched].tobytes())
        self._launch_correlations.frombytes(numbers[launched].tobytes())
        self._classify([event for event in compress(events, (codes == COMPUTE).tolist())])
        copies = int((codes == COPY).sum())
        self._kinds.extend([COPY] * copies)
        self._calls.extend([NO_CALL] * copies)
        for at in np.flatnonzero(codes == _MARK).tolist():
            start = int(starts[at])
            self._marks.add(events[at], start, start + int(lengths[at]))

    def _classify(self, kernels: list[TraceEvent]) -> None:
        """Tell compute from communication by the names of the kernels."""
        names = [kernel.name for kernel in kernels]
        for name in set(names) - self._kind_of.keys():
            self._kind_of[name] = self._kind(name)
        kinds = [self._kind_of[name] for name in names]
        calls = [NO_CALL] * len(kernels)
        if COMMUNICATION in kinds:
            for at, kind in enumerate(kinds):
                if kind == COMMUNICATION:
                    calls[at] = self._call(kernels[at])
        self._kinds.extend(kinds)
        self._calls.extend(calls)

    def _kind(self, name: str) -> int:
        if COLLECTIVE_KERNEL.match(name) or (self._more and self._more.search(name)):
            return COMMUNICATION
        if _OTHER_COLLECTIVE.search(name):
            self._like_collectives.add(name.split("<")[0].split("(void")[0])
        return COMPUTE

    def _call(self, kernel: TraceEvent) -> int:
        arguments = kernel.args
        key: tuple[Any, ...] = (kernel.name,)
        if arguments is not None:
            key = (
                kernel.name, arguments.collective, arguments.group, arguments.ranks,
                arguments.elements, arguments.type,
            )  # fmt: skip
        try:
            at = self._call_at.get(key)
        except TypeError:  # a list where a word should be
            return self._call_of.setdefault(_call_of_kernel(kernel), len(self._call_of))
        if at is None:
            call = _call_of_kernel(kernel)
            at = self._call_at[key] = self._call_of.setdefault(call, len(self._call_of))
        return at

    def device_trace(self, path: Path, reader: Reader) -> RankTrace:
        starts = np.frombuffer(self._starts, np.int64)
        ends = np.frombuffer(self._lengths, np.int64)
        ends += starts
        launches = np.frombuffer(self._correlations, np.int64)
        _match(
            launches,
            np.frombuffer(self._launch_correlations, np.int64),
            np.frombuffer(self._launch_starts, np.int64),
        )
        notes: tuple[str, ...] = ()
        if self._like_collectives:
            names = ", ".join(sorted(self._like_collectives)[:3])
            notes = (
                f"Kernels that may communicate count as compute: {names}; "
                "--collective-kernels changes that.",
            )
        return _trace(
            path,
            reader,
            self._marks,
            starts=starts,
            ends=ends,
            kinds=np.frombuffer(self._kinds, np.int8),
            launches=launches,
            calls=np.frombuffer(self._calls, np.int32),
            call_table=tuple(self._call_of),
            notes=notes,
        )


def _identities(events: list[TraceEvent]) -> NDArray[np.int64]:
    """The numbers that rows share with the calls that launched them; -1 where there is none."""
    numbers = [event.args.correlation if event.args else -1 for event in events]
    try:
        return np.array(numbers, np.int64)
    except (TypeError, ValueError, OverflowError):
        known = [
            number if type(number) is int and -1 < number < 2**62 else -1 for number in numbers
        ]
        return np.array(known, np.int64)


def _match(rows: NDArray[np.int64], known: NDArray[np.int64], times: Nanoseconds) -> None:
    """Put the time of the call with the same correlation, or NO_LAUNCH, in its place."""
    if not len(known):
        rows[:] = NO_LAUNCH
        return
    if (known[1:] < known[:-1]).any():
        order = np.argsort(known, kind="stable")
        known[:] = known[order]
        times[:] = times[order]
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[begin : begin + _ROWS_AT_ONCE]
        at = np.minimum(np.searchsorted(known, part), len(known) - 1)
        same = (known[at] == part) & (part >= 0)
        part[:] = np.where(same, times[at], NO_LAUNCH)


class _Threads:
    """Operators of the threads of a rank without a device, and its collectives."""

    def __init__(self) -> None:
        self._marks = _Marks()
        self._operators: dict[Any, list[tuple[int, int]]] = {}
        self._waits: dict[Any, list[tuple[int, int]]] = {}
        self._collectives: list[tuple[int, int, int]] = []
        self._call_of: dict[Call, int] = {}

    @property
    def count(self) -> int:
        return len(self._operators) + len(self._collectives)

    def add(self, events: list[TraceEvent]) -> None:
        events, starts, lengths = self._marks.timed(events)
        ends = starts + lengths
        for event, start, end in zip(events, starts.tolist(), ends.tolist(), strict=True):
            is_mark = event.cat in _MARK_CATEGORIES
            mark = _COLLECTIVE_MARK.match(event.name) if is_mark else None
            if mark is not None:
                pairwise = mark[1].lower() in _PAIRWISE
                call = Call(operation=mark[1], bytes=_input_bytes(event), pairwise=pairwise)
                at = self._call_of.setdefault(call, len(self._call_of))
                self._collectives.append((start, end, at))
            elif is_mark or event.name.startswith(_NAMED_MARKS):
                self._marks.add(event, start, end)
            else:
                calls = _COLLECTIVE_OPERATOR.match(event.name) is not None
                spans = self._waits if calls else self._operators
                thread = event.tid if isinstance(event.tid, int) else str(event.tid)
                spans.setdefault(thread, []).append((start, end))

    def trace(self, path: Path, reader: Reader) -> RankTrace:
        starts: list[Nanoseconds] = []
        ends: list[Nanoseconds] = []
        for thread, spans in self._operators.items():
            # An operator that holds a call of a collective works only outside of it.
            busy = without(union(*_arrays(spans)), union(*_arrays(self._waits.get(thread, []))))
            starts.append(busy.starts)
            ends.append(busy.ends)
        work = sum(map(len, starts))
        calls = sorted(self._collectives)
        starts.append(np.array([call[0] for call in calls], np.int64))
        ends.append(np.array([call[1] for call in calls], np.int64))
        count = work + len(calls)
        kinds = np.full(count, COMPUTE, np.int8)
        kinds[work:] = COMMUNICATION
        indices = np.full(count, NO_CALL, np.int32)
        indices[work:] = [call[2] for call in calls]
        return _trace(
            path,
            reader,
            self._marks,
            starts=np.concatenate(starts),
            ends=np.concatenate(ends),
            kinds=kinds,
            launches=np.full(count, NO_LAUNCH),
            calls=indices,
            call_table=tuple(self._call_of),
            on_device=False,
        )


def _arrays(spans: list[tuple[int, int]]) -> tuple[Nanoseconds, Nanoseconds]:
    both = np.array(spans, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _trace(path: Path, reader: Reader, marks: _Marks, **rows: Any) -> RankTrace:
    """The rows with what the file says of its rank; times counted from the same second."""
    about = reader.metadata.get("distributedInfo")
    about = about if isinstance(about, dict) else {}
    base = reader.metadata.get("baseTimeNanoseconds")
    base = base if isinstance(base, int) and 0 < base < 2**61 else 0
    damage = reader.damage
    if marks.unread:
        unread = f"{marks.unread} events without a time"
        damage = f"{damage}, and {unread}" if damage else unread
    inputs = _arrays(sorted(marks.inputs))
    launches = rows["launches"]
    np.add(launches, base, out=launches, where=launches != NO_LAUNCH)
    for times in (rows["starts"], rows["ends"]):
        times += base
    last = marks.last_step_start
    return RankTrace(
        file=str(path),
        rank=_whole(about.get("rank")),
        world_size=_whole(about.get("world_size")),
        steps=tuple(
            Step(number=step.number, start=step.start + base, end=step.end + base)
            for step in sorted(marks.steps.values(), key=lambda step: step.start)
        ),
        last_step_start=None if last is None else last + base,
        input_starts=inputs[0] + base,
        input_ends=inputs[1] + base,
        damage=damage,
        **rows,
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 10_000_000 else None


def operation_of_kernel(name: str) -> str:
    """The collective in a kernel's name, such as AllReduce."""
    found = _OPERATION.match(name)
    return found[1] if found else name.split("(")[0][:60]


def _call_of_kernel(event: TraceEvent) -> Call:
    arguments = event.args
    operation = operation_of_kernel(event.name)
    if arguments is None:
        return Call(operation=operation)
    name = arguments.collective if isinstance(arguments.collective, str) else ""
    width = _BYTES.get(str(arguments.type).lower())
    elements = arguments.elements
    return Call(
        operation=name or operation,
        group="" if arguments.group is None else str(arguments.group),
        ranks=arguments.ranks if isinstance(arguments.ranks, str) else "",
        bytes=elements * width
        if type(elements) is int and 0 <= elements < _MOST_BYTES and width
        else None,
        pairwise=name.lower() in _PAIRWISE,
    )


def _input_bytes(event: TraceEvent) -> int | None:
    """Bytes of the tensors that an operator was called with, by their shapes and types."""
    arguments = event.args
    if arguments is None:
        return None
    try:
        shapes = msgspec.json.decode(bytes(arguments.shapes), type=list[list[int]])
        types = msgspec.json.decode(bytes(arguments.types), type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    total = 0
    for shape, name in zip(shapes, types, strict=False):
        width = _BYTES.get(name.lower())
        if width is None:
            return None
        total += math.prod(shape) * width
    return total if 0 <= total < _MOST_BYTES else None


def rank_of_name(path: Path) -> int | None:
    """The rank in a file name, such as rank3.json, trace-rank-3.json.gz or 3.json."""
    stem = path.name.split(".")[0]
    found = re.search(r"rank[-_]?(\d+)", path.name, re.IGNORECASE) or re.fullmatch(r"(\d+)", stem)
    return int(found[1]) if found else None
