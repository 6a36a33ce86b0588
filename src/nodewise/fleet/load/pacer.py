"""A clock that wakes an event loop on time.

The timers of event loops are good to about a millisecond. A timer of the kernel, read like a
socket, is good to a tenth of that, under asyncio and under uvloop.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

_CLOCK_MONOTONIC = 1  # what time.monotonic() reads
_ABSOLUTE = 1
_NONBLOCKING = os.O_NONBLOCK | os.O_CLOEXEC


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Pacer:
    """Calls `wake` once for each time that it is set to, a moment of `time.monotonic()`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """Begin to listen; nothing is set yet."""
        self._loop, self._wake = loop, wake
        self._library = ctypes.CDLL(None, use_errno=True)
        self._setting = _Setting()
        self._file = self._library.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCKING)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        loop.add_reader(self._file, self._woken)

    def set(self, moment: float) -> None:
        """Wake at this moment; at once if it is past."""
        nanoseconds = max(int(moment * 1e9), 1)  # zero would switch the timer off
        value = self._setting.value
        value.seconds, value.nanoseconds = divmod(nanoseconds, 1_000_000_000)
        self._library.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(self._setting), None)

    def close(self) -> None:
        """Wake no more."""
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _woken(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:  # it was set again in the meantime
            return
        self._wake()
