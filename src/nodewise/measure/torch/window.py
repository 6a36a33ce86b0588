"""A few steps of a training on a device, recorded by torch.profiler before the clock starts.

Host clocks cannot see a device: the host goes on while it works. So the stages come from the trace
of this window, and their shares hold for the steps that are timed, which no profiler slows down.
NODEWISE_TORCH_WINDOW sets the number of steps: 0 for none, and any other also on a CPU.
"""

import contextlib
import importlib
import os
from pathlib import Path
from time import perf_counter_ns
from typing import Any

STEPS = 4  # the profiler's last step is often cut off, and is not used
_VARIABLE = "NODEWISE_TORCH_WINDOW"


class Window:
    """The profiler over some steps of one rank."""

    def __init__(self, folder: Path, rank: int, steps: int) -> None:
        """The step after this one is the first that is recorded."""
        self._path = folder / f"trace-{rank}.json.gz"
        self._steps = steps
        self._begin_ns = 0
        self._seconds: list[float] = []
        self._failed = ""
        self._profiler: Any = None
        self._is_over = False

    @classmethod
    def of(cls, folder: Path, rank: int, device: str) -> "Window | None":
        """A window where the training is on a device, or one is requested."""
        asked = os.environ.get(_VARIABLE)
        steps = int(asked) if asked else STEPS if device != "cpu" else 0
        return cls(folder, rank, steps) if steps else None

    def step_ended(self) -> bool:
        """A step ended: start, go on or write the trace. Whether the window is over."""
        if self._is_over:
            return True
        if self._profiler is None:
            self._start()
        else:
            self._seconds.append((perf_counter_ns() - self._begin_ns) / 1e9)
            self._is_over = len(self._seconds) == self._steps
            if self._is_over:
                self._write()
            else:
                self._profiler.step()
        self._begin_ns = perf_counter_ns()
        return self._is_over

    def _start(self) -> None:
        profiler = importlib.import_module("torch.profiler")
        action = profiler.ProfilerAction

        def schedule(step: int) -> Any:
            return action.RECORD_AND_SAVE if step == self._steps - 1 else action.RECORD

        activities = list(profiler.supported_activities())
        try:
            made = profiler.profile(activities=activities, schedule=schedule, record_shapes=True)
            made.start()
        except RuntimeError as error:  # another profiler runs, or the driver refuses
            self._failed, self._is_over = str(error).splitlines()[0], True
            return
        self._profiler = made

    def _write(self) -> None:
        try:
            self._profiler.stop()
            self._profiler.export_chrome_trace(str(self._path))
        except (RuntimeError, OSError) as error:
            self._failed = str(error).splitlines()[0]
            with contextlib.suppress(OSError):
                self._path.unlink()

    def report(self) -> dict[str, object]:
        """The length of a recorded step, for the cost of recording; or why there is none."""
        middle = sorted(self._seconds)[len(self._seconds) // 2] if self._seconds else None
        return {
            "window_steps": len(self._seconds),
            "window_step_seconds": middle,
            "window_failed": self._failed or ("" if self._is_over else "the run ended before"),
        }
