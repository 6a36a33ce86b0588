"""The GPUs of this node while a run goes on: clock, power, memory, use, and what slows them down.

NVML (`pynvml`) for NVIDIA, AMD SMI (`amdsmi`) for AMD. Values that a driver lacks stay unknown.
Tested with fakes of both libraries; not yet run on a GPU.
"""

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, NamedTuple, Protocol

from nodewise.study.study import GPU, GPU_CAPPED, GPU_HOT, Fact

_EVERY_SECONDS = 0.5  # a look takes milliseconds a GPU
_LEAST_USE = 0.05  # a GPU below this share in every look takes no part in the run
# Bits of NVML's reasons for a lower clock. Idle, and clocks that a user set, are not among them.
_NVIDIA_HOT = 0x08 | 0x20 | 0x40 | 0x80  # slowed by hardware, heat or the power brake
_NVIDIA_CAPPED = 0x04  # the power limit
_AMD_HOT = ("active_socket_thrm", "active_vr_thrm", "active_hbm_thrm", "active_prochot_thrm")
_AMD_CAPPED = ("active_ppt_pwr",)


class State(NamedTuple):
    """One look at a GPU; None is unknown."""

    use: float | None = None  # share of the time in which a kernel ran
    clock_mhz: float | None = None
    highest_mhz: float | None = None
    watts: float | None = None
    memory_bytes: float | None = None
    is_hot: bool | None = None  # slowed down by heat or by the hardware's own protection
    is_capped: bool | None = None  # slowed down to keep the power limit


class Gpu(Protocol):
    """A GPU that can be looked at."""

    def look(self) -> State:
        """Its state now."""
        ...


def _number(read: Callable[[], Any], errors: tuple[type[Exception], ...]) -> float | None:
    """A figure of a driver; None if it has none, refuses it or says "N/A"."""
    try:
        value = read()
    except errors:
        return None
    return float(value) if isinstance(value, int | float) else None


class Nvidia:
    """A GPU by NVML."""

    def __init__(self, library: Any, handle: Any) -> None:
        """The library is initialised."""
        self._library, self._handle = library, handle

    def look(self) -> State:
        """Its state now."""
        n, handle = self._library, self._handle
        errors = (n.NVMLError, AttributeError)  # an older library lacks some calls

        def number(read: Callable[[], Any]) -> float | None:
            return _number(read, errors)

        reasons = number(lambda: n.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:  # its older name
            reasons = number(lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        use = number(lambda: n.nvmlDeviceGetUtilizationRates(handle).gpu)
        milliwatts = number(lambda: n.nvmlDeviceGetPowerUsage(handle))
        return State(
            use=None if use is None else use / 100,
            clock_mhz=number(lambda: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)),
            highest_mhz=number(lambda: n.nvmlDeviceGetMaxClockInfo(handle, n.NVML_CLOCK_SM)),
            watts=None if milliwatts is None else milliwatts / 1000,
            memory_bytes=number(lambda: n.nvmlDeviceGetMemoryInfo(handle).used),
            is_hot=None if reasons is None else bool(int(reasons) & _NVIDIA_HOT),
            is_capped=None if reasons is None else bool(int(reasons) & _NVIDIA_CAPPED),
        )


class Amd:
    """A GPU by AMD SMI."""

    def __init__(self, library: Any, handle: Any) -> None:
        """The library is initialised."""
        self._library, self._handle = library, handle

    def look(self) -> State:
        """Its state now."""
        a, handle = self._library, self._handle
        errors = (a.AmdSmiException, AttributeError, KeyError)

        def number(read: Callable[[], Any]) -> float | None:
            return _number(read, errors)

        def violated(names: Sequence[str]) -> bool | None:
            try:
                status = a.amdsmi_get_violation_status(handle)
            except errors:
                return None
            known = [status.get(name) for name in names if isinstance(status.get(name), int)]
            return any(known) if known else None

        use = number(lambda: a.amdsmi_get_gpu_activity(handle)["gfx_activity"])
        megabytes = number(lambda: a.amdsmi_get_gpu_vram_usage(handle)["vram_used"])
        watts = number(lambda: a.amdsmi_get_power_info(handle)["current_socket_power"])
        if watts is None:  # older devices have only a mean
            watts = number(lambda: a.amdsmi_get_power_info(handle)["average_socket_power"])

        def clock(name: str) -> float | None:
            return number(lambda: a.amdsmi_get_clock_info(handle, a.AmdSmiClkType.GFX)[name])

        return State(
            use=None if use is None else use / 100,
            clock_mhz=clock("clk"),
            highest_mhz=clock("max_clk"),
            watts=watts,
            memory_bytes=None if megabytes is None else megabytes * 2**20,
            is_hot=violated(_AMD_HOT),
            is_capped=violated(_AMD_CAPPED),
        )


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs of this node; none if no library or no driver is installed."""
    return (*_nvidia(), *_amd())


def _nvidia() -> list[Gpu]:
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        return [Nvidia(library, library.nvmlDeviceGetHandleByIndex(at)) for at in range(count)]
    except library.NVMLError:
        return []


def _amd() -> list[Gpu]:
    try:
        library = importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError):  # the package loads a library of the driver
        return []
    try:
        library.amdsmi_init()
        return [Amd(library, handle) for handle in library.amdsmi_get_processor_handles()]
    except library.AmdSmiException:
        return []


class GpuWatch:
    """Looks at every GPU of this node twice a second while a run goes on."""

    def __init__(
        self, gpus: Sequence[Gpu] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Without GPUs nothing is looked at."""
        self._gpus = find_gpus() if gpus is None else tuple(gpus)
        self._clock = clock
        self._looks: list[tuple[float, list[State]]] = []
        self._end: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, daemon=True)

    def __enter__(self) -> "GpuWatch":
        """Begin to look."""
        if self._gpus:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.end()
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def end(self) -> None:
        """The timed part of the run is over; the first call counts."""
        if self._end is None:
            self._end = self._clock()

    def look(self) -> None:
        """Look at every GPU once."""
        self._looks.append((self._clock(), [gpu.look() for gpu in self._gpus]))

    def facts(self, seconds: float) -> dict[str, Fact]:
        """What the GPUs that the run used did in its last `seconds`; unknown figures are absent."""
        end = self._clock() if self._end is None else self._end
        looks = [states for stamp, states in self._looks if end - seconds <= stamp <= end]
        of_gpus = [list(states) for states in zip(*looks, strict=True)]
        used = [one for one in of_gpus if any(_may_work(look) for look in one)]
        if not used:
            return {}
        facts: dict[str, float | None] = {
            "used": len(used),
            "looks": len(looks),
            "utilisation": _mean_of(used, "use"),
            "clock_mhz": _mean_of(used, "clock_mhz"),
            "highest_clock_mhz": _mean_of(used, "highest_mhz"),
            "watts": _mean_of(used, "watts"),
            "memory_bytes": max(look.memory_bytes or 0.0 for one in used for look in one) or None,
            GPU_HOT: _worst_share(used, "is_hot"),
            GPU_CAPPED: _worst_share(used, "is_capped"),
        }
        known = {name: value for name, value in facts.items() if value is not None}
        return {f"{GPU}{name}": round(value, 3) for name, value in known.items()}

    def _look_until_stopped(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS) and self._end is None:
            self.look()


def _may_work(look: State) -> bool:
    """Whether a GPU was used; one that does not say counts as used."""
    return look.use is None or look.use > _LEAST_USE


def _mean_of(gpus: list[list[State]], name: str) -> float | None:
    known = [value for one in gpus for look in one if (value := getattr(look, name)) is not None]
    return mean(known) if known else None


def _worst_share(gpus: list[list[State]], name: str) -> float | None:
    """The share of looks at the GPU where it was true most often: all ranks wait for that one."""
    shares = []
    for one in gpus:
        known = [value for look in one if (value := getattr(look, name)) is not None]
        if known:
            shares.append(mean(map(float, known)))
    return max(shares, default=None)
