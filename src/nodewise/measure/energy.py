"""The energy of a run, from counters that count by themselves: RAPL for CPUs, NVML for GPUs.

One meter reads the whole node, whatever runs on it: a meter for each rank would count the node once
a rank. The counters are read while the run goes on, because they start again from 0 when full.
"""

import importlib
import socket
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from nodewise.study.study import Fact, Run

POWERCAP = Path("/sys/class/powercap")
ROOT_ONLY = (
    "RAPL can be read by root only; allow it with: "
    "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"
)
_EVERY_SECONDS = 0.1  # RAPL counts every millisecond, NVML every 20 to 100


class Counter(Protocol):
    """Joules that only grow. A reading that fails is an OSError."""

    name: str

    def read(self) -> float:
        """The joules since some moment in the past."""
        ...


class Rapl:
    """A RAPL domain. Its counter starts again from 0 at the end of its range."""

    def __init__(self, zone: Path, name: str) -> None:
        """Read once, so that a counter that cannot be read does not count."""
        self.name = name
        self._file = zone / "energy_uj"
        self._range = int((zone / "max_energy_range_uj").read_text())
        self._last = self._microjoules()
        self._rounds = 0

    def read(self) -> float:
        """The joules, with every full round of the counter."""
        now = self._microjoules()
        self._rounds += now < self._last
        self._last = now
        return (self._rounds * self._range + now) / 1e6

    def _microjoules(self) -> int:
        try:
            return int(self._file.read_text())
        except ValueError as error:
            raise OSError(f"{self._file}: {error}") from None


class Nvml:
    """The energy counter of a GPU: millijoules since the driver was loaded."""

    def __init__(self, library: Any, handle: Any, index: int) -> None:
        """Read once, so that a GPU without the counter is found at once."""
        self.name = f"NVML GPU {index}"
        self._library, self._handle = library, handle
        self.read()

    def read(self) -> float:
        """The joules."""
        try:
            return float(self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1000
        except self._library.NVMLError as error:
            raise OSError(f"{self.name}: {error}") from None


class Found(NamedTuple):
    """The counters of this node, and why others are not among them."""

    counters: tuple[Counter, ...]
    missing: tuple[str, ...]

    @property
    def names(self) -> str:
        """The counters in words."""
        return ", ".join(counter.name for counter in self.counters)


def find_counters(powercap: Path | None = None) -> Found:
    """Every counter that can be read here."""
    cpus, gpus = _rapl(POWERCAP if powercap is None else powercap), _nvml()
    return Found((*cpus.counters, *gpus.counters), (*cpus.missing, *gpus.missing))


def _rapl(powercap: Path) -> Found:
    """Packages and their memory. Cores lie within a package, and psys holds packages again."""
    counters = []
    try:
        for zone in sorted(powercap.glob("intel-rapl:*")):
            domain = (zone / "name").read_text().strip()
            package = zone.name.split(":")[1]
            if domain.startswith("package"):
                counters.append(Rapl(zone, f"RAPL {domain}"))
            elif domain == "dram":
                counters.append(Rapl(zone, f"RAPL dram-{package}"))
    except PermissionError:
        return Found((), (ROOT_ONLY,))
    except (OSError, ValueError) as error:
        return Found((), (f"RAPL cannot be read: {error}",))
    return Found(tuple(counters), ())


def _nvml() -> Found:
    """Every GPU of the node, used or not: the node is paid for whole."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return Found((), ())
    try:
        library.nvmlInit()
    except library.NVMLError:
        return Found((), ())  # installed without a driver: no GPU to read
    try:
        count = library.nvmlDeviceGetCount()
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        return Found(tuple(Nvml(library, one, at) for at, one in enumerate(handles)), ())
    except (OSError, library.NVMLError) as error:
        return Found((), (f"GPUs cannot be read: {error}",))


class Reading(NamedTuple):
    """The energy of a window."""

    joules: float
    samples: int
    seconds: float


class Meter:
    """Reads the counters of this node ten times a second while a run goes on."""

    def __init__(
        self, found: Found | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A meter without counters reads nothing."""
        self.found = find_counters() if found is None else found
        self._clock = clock
        self._stamps, self._joules = array("d"), array("d")
        self._end: float | None = None
        self._failed = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> "Meter":
        """Begin to read."""
        if self.found.counters:
            self.sample()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Read a last time."""
        self.end()
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def end(self) -> None:
        """The timed part of the run is over; the first call counts."""
        if self._end is None and self.found.counters:
            self.sample()
            self._end = self._clock()

    def sample(self) -> None:
        """Read every counter once."""
        with self._lock:
            try:
                joules = sum(counter.read() for counter in self.found.counters)
            except OSError as error:
                self._failed = str(error)
                return
            self._stamps.append(self._clock())
            self._joules.append(joules)

    def reading(self, seconds: float) -> Reading | None:
        """The energy of the last `seconds` before the end, or nothing if it was not read."""
        if self._failed or self._end is None or len(self._stamps) < 2:
            return None
        begin = self._end - seconds
        if begin < self._stamps[0]:
            return None  # the run is older than the meter: it was replayed, not made
        first = bisect_left(self._stamps, begin)
        last = bisect_left(self._stamps, self._end)
        joules = self._at(self._end) - self._at(begin)
        return Reading(joules, last - first, self._end - begin)

    def facts(self, reading: Reading | None) -> dict[str, Fact]:
        """How the energy was read, or why it was not."""
        why = [self._failed] if self._failed else []
        facts: dict[str, Fact] = {}
        if reading is not None:
            facts = {
                "energy_basis": "measured",
                "energy_source": self.found.names,
                "energy_samples": reading.samples,
                "energy_hertz": round(reading.samples / max(reading.seconds, 1e-9), 2),
            }
        missing = "; ".join([*why, *self.found.missing])
        return facts | ({"energy_missing": missing} if missing else {})

    def _at(self, moment: float) -> float:
        """The joules at a moment, straight between two readings."""
        after = min(max(bisect_left(self._stamps, moment), 1), len(self._stamps) - 1)
        begin, end = self._stamps[after - 1], self._stamps[after]
        share = min(max((moment - begin) / max(end - begin, 1e-12), 0.0), 1.0)
        return self._joules[after - 1] + share * (self._joules[after] - self._joules[after - 1])

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS) and self._end is None:
            self.sample()


def with_energy(run: Run, meter: Meter, *, local: bool) -> Run:
    """The run with the energy of this node, where all of it ran here on real nodes."""
    why = _why_not(run, local) if meter.found.counters else ""
    reading = None if why else meter.reading(run.seconds)
    facts: dict[str, Fact] = {"energy_missing": why} if why else meter.facts(reading)
    return msgspec.structs.replace(
        run,
        energy_joules=None if reading is None else reading.joules,
        provenance={**run.provenance, **facts},
    )


def _why_not(run: Run, local: bool) -> str:
    here = {socket.gethostname()}
    hosts = {rank.host for rank in run.ranks} - {""}
    if run.provenance.get("emulated"):
        return "emulated nodes share one machine, whose energy is not theirs"
    if hosts - here:
        return f"{len(hosts - here)} of {len(hosts | here)} hosts were not read"
    if not local and not hosts:
        return "the ranks do not say on which hosts they ran"
    return ""
