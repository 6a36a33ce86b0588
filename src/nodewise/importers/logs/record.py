"""What one log says about one run, and the builder that the readers fill."""

from array import array
from itertools import pairwise
from typing import Any

import msgspec

from nodewise.base.stats import Floats
from nodewise.importers.logs.warmup import PauseKind, steady
from nodewise.study.study import Fact, Outcome, Rank, Stage

_TOO_FEW = "two or three steps whose times differ: no warm-up can be separated from them"
_RECENT = 64  # steps among which the lines of several ranks may be mixed up
_MOST = 10**9  # of a count: no world size, batch or step is larger


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took long after the warm-up."""

    kind: PauseKind
    step: int
    seconds: float  # more than a usual step


class LogRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run as its log has it. What the log does not say is None."""

    path: str
    format: str
    unit: str = "rank"  # what `world_size` counts
    world_size: int | None = None
    nodes: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    global_batch: int | None = None
    seq_length: int | None = None
    tokens_per_step: float | None = None
    iterations: int | None = None  # the last step
    entries: int = 0  # log lines with a step time
    warmup: int | None = None  # of them left out
    step_seconds: float | None = None  # median after the warm-up
    mean_step_seconds: float | None = None  # of the whole run
    run_seconds: float | None = None
    setup_seconds: float | None = None
    tokens_per_second: float | None = None  # of all devices
    skipped: int = 0
    nan: int = 0
    pauses: tuple[Pause, ...] = ()
    loss: float | None = None
    memory_bytes: float | None = None
    size: dict[str, float | str] = {}  # of the model or system: the same in one study
    work: float | None = None  # in `seconds`
    work_unit: str = "items"
    stages: dict[Stage, float] = {}
    ranks: tuple[Rank, ...] = ()
    energy_joules: float | None = None
    started: str = ""
    outcome: Outcome = "ok"
    detail: str = ""
    job: str = ""  # of a job record: its name, without what counts K
    changes: dict[str, Fact] = {}  # of a job record: what may have changed beside K
    problem: str = ""  # why the run cannot be used
    scale: int | None = None  # K, where the path or the user gives it
    scale_unit: str = ""  # what it counts, where the pattern of the path says so

    @property
    def seconds(self) -> float | None:
        """The time that is compared: of a step, else of the run."""
        return self.step_seconds or self.run_seconds or self.mean_step_seconds

    @property
    def is_record(self) -> bool:
        """Whether a scheduler recorded the run: an observation, not a measurement."""
        return bool(self.job)


class Log:
    """The builder of a run: facts and step times in the order of the file."""

    def __init__(self, path: Any, form: str, unit: str = "rank", *, one_rank: bool = False) -> None:
        """An empty log of one format; with `one_rank`, only lines of the first rank count."""
        self.path, self.form, self.unit, self.one_rank = str(path), form, unit, one_rank
        self.values: dict[str, Any] = {}
        self.size: dict[str, float | str] = {}
        self.stages: dict[str, list[float]] = {}
        self.numbers = array("i")
        self.seconds = array("d")
        self.marks: dict[int, PauseKind] = {}
        self.restarts: list[int] = []
        self.skipped = self.nan = 0
        self.out_of_memory = ""  # the line that says so, where no step follows it
        self.rank: bytes | None = None
        self.factor = 1.0  # from the rate of a step to its seconds
        self.last = b""  # line with a step
        self.texts: set[bytes] = set()  # a value as it is printed; several where it changes
        self.timers: dict[tuple[str, str], array[float]] = {}  # of a name: seconds of each step
        self.consumed: tuple[int, float] | None = None  # the last step, and samples until then
        self._mark: PauseKind | None = None
        self._dropped: set[str] = set()
        self.is_new = True  # header lines are read: no step was seen since the last beginning

    def put(self, name: str, value: float | str | None) -> None:
        """A fact of the log; values that contradict each other are dropped."""
        if value is None or (isinstance(value, float | int) and not 0 < value < 1e18):
            return
        if name in self._dropped:
            return
        if self.values.setdefault(name, value) != value:
            del self.values[name]
            self._dropped.add(name)

    def count(self, name: str, text: bytes) -> None:
        """A whole number."""
        value = number(text)
        if value is not None and 0 < value < _MOST and value == int(value):
            self.put(name, int(value))

    def keep_text(self, text: bytes) -> None:
        """A value as it is printed; two are enough to see that it changes."""
        if len(self.texts) < 2:
            self.texts.add(text)

    def mark(self, kind: PauseKind) -> None:
        """A checkpoint or an evaluation: it is within the next step time."""
        self._mark = kind

    def begin(self) -> None:
        """A program begins: its header follows."""
        self.is_new = True

    def end_header(self) -> None:
        """No header follows, in a log whose steps have no times of their own."""
        self.is_new = False

    def step(self, number: int, seconds: float, rank: bytes | None = None) -> bool:
        """A step time; False where it is a copy that another rank printed."""
        if not 0 <= number < _MOST or not 0 < seconds < 1e9:
            return False
        if not self.numbers or self.is_new:
            self.rank = rank
        elif rank != self.rank:
            return False
        if self.numbers and number <= self.numbers[-1]:
            if not self.is_new and number in self.numbers[-_RECENT:]:
                return False
            self.restarts.append(len(self.numbers))
        if self._mark:
            self.marks[len(self.numbers)] = self._mark
            self._mark = None
        self.numbers.append(number)
        self.seconds.append(seconds)
        self.out_of_memory = ""
        self.is_new = False
        return True

    def steps(self, numbers: list[bytes], seconds: Floats) -> bool:
        """Many step times of one rank; False, and none is taken, where one of them is unusual.

        Ranks that print the same steps are unusual: their numbers do not increase.
        """
        import numpy as np

        found = np.array(numbers, dtype=np.int64)
        if self.is_new or self._mark or not len(found) or found[0] <= self.numbers[-1]:
            return False
        if (np.diff(found) <= 0).any() or found[-1] >= _MOST:
            return False
        if not ((seconds > 0) & (seconds < 1e9)).all():
            return False
        self.numbers.frombytes(found.astype(np.int32).tobytes())
        self.seconds.frombytes(seconds.tobytes())
        return True

    def get(self, name: str) -> Any:
        """A fact, or None."""
        return self.values.get(name)

    def run(self, **more: Any) -> LogRun:
        """The run; what is given here counts."""
        known = {name: value for name, value in self.values.items() if name in _KEPT}
        made: dict[str, Any] = {**self._steady(), **known}
        made |= {"size": self.size, "skipped": self.skipped, "nan": self.nan}
        if self.out_of_memory:
            made |= {"outcome": "out of memory", "detail": self.out_of_memory}
        made |= {name: value for name, value in more.items() if value is not None}
        if self.seconds and made["step_seconds"] is None and not made.get("problem"):
            made["problem"] = _TOO_FEW
        if self.restarts and self._dropped & _SETTINGS:
            made = {name: value for name, value in made.items() if name not in _OF_ONE_RUN}
            changed = ", ".join(sorted(self._dropped & _SETTINGS))
            made["problem"] = f"runs with other settings follow each other ({changed}): split it"
        _derive(made)
        return LogRun(path=self.path, format=self.form, unit=self.unit, **made)

    def _steady(self) -> dict[str, Any]:
        """The level after each warm-up: of the first one, and of those after restarts."""
        if not self.seconds:
            return {}
        import numpy as np

        starts = [0, *self.restarts, len(self.seconds)]
        values = np.frombuffer(self.seconds, dtype=np.float64)
        kept, first, pauses = [], None, []
        level: float | None = None
        for begin, end in pairwise(starts):
            found = steady(values[begin:end])
            first = found.warmup if begin == 0 else first
            if found.median is None:
                continue
            level = found.median
            kept.append(values[begin + (found.warmup or 0) : end])
            pauses += [
                Pause(
                    kind=self.marks.get(begin + at, "other"),
                    step=self.numbers[begin + at],
                    seconds=float(values[begin + at] - found.median) * self._interval,
                )
                for at in found.slow
            ]
        return {
            "entries": len(values), "warmup": first, "pauses": tuple(pauses),
            "step_seconds": level if len(kept) < 2 else float(np.median(np.concatenate(kept))),
        }  # fmt: skip

    @property
    def _interval(self) -> int:
        """Steps between two log lines."""
        return max(1, self.numbers[-1] - self.numbers[-2]) if len(self.numbers) > 1 else 1


_SETTINGS = frozenset(("world_size", "nodes", "global_batch", "seq_length", "tp", "pp", "dp"))
_OF_ONE_RUN = frozenset(("step_seconds", "warmup", "pauses", "iterations", "mean_step_seconds"))
_KEPT = frozenset((*LogRun.__struct_fields__, "per_node"))  # the rest is of the reader alone


def _derive(made: dict[str, Any]) -> None:
    """What follows from the facts without a guess."""
    batch, length = made.get("global_batch"), made.get("seq_length")
    if batch and length:
        made.setdefault("tokens_per_step", float(batch * length))
    tokens, step = made.get("tokens_per_step"), made.get("step_seconds")
    step = step or made.get("mean_step_seconds")
    if tokens and step:
        made.setdefault("tokens_per_second", tokens / step)
    world, per_node = made.get("world_size"), made.pop("per_node", None)
    if world and per_node and not made.get("nodes") and world % per_node == 0:
        made["nodes"] = world // per_node
    if not world and per_node and made.get("nodes"):
        made["world_size"] = made["nodes"] * per_node
    if made.get("work") is None and tokens:
        made["work"], made["work_unit"] = tokens, "tokens"
    elif made.get("work") is None and batch:
        made["work"], made["work_unit"] = float(batch), "samples"


def number(text: bytes | str | None) -> float | None:
    """A number as logs print it: 1,234.5 or 1.2E+03; None if it is none or not finite."""
    if text is None or len(text) > 40:
        return None
    plain = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    try:
        value = float(plain.replace(",", "").replace("_", " ").strip())
    except ValueError:
        return None
    return value if abs(value) < 1e18 else None


def clock_seconds(text: str) -> float | None:
    """A duration as [D-]HH:MM:SS[.fff], MM:SS or 1h2m3.4s; None if it is none.

    >>> clock_seconds("1-00:00:12"), clock_seconds("1m23.5s"), clock_seconds("05:40")
    (86412.0, 83.5, 340.0)
    """
    text = text.strip()
    if len(text) > 40 or not text:
        return None
    days, dash, clock = text.rpartition("-")
    if ":" in clock:
        parts = [number(part) for part in clock.split(":")]
        day = number(days) if dash else 0.0
        if len(parts) > 3 or day is None or None in parts or text.startswith("-"):
            return None
        total = 0.0
        for part in parts:
            total = 60 * total + (part or 0.0)
        return 86400 * day + total
    total, rest = 0.0, text.replace(" ", "")
    for unit, worth in (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        head, found, tail = rest.partition(unit)
        if found:
            value = number(head)
            if value is None:
                return None
            total, rest = total + worth * value, tail
    return None if rest else total
