"""The gate: ranks wait at it until all are ready, then start together."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType


class Gate:
    """A Unix socket that lets K ranks through at once; `before_release` runs just before."""

    def __init__(self, path: Path, ranks: int, before_release: Callable[[], None]) -> None:
        """Listen at `path` for `ranks` connections."""
        self.path = path
        self.arrived = 0
        self._ranks = ranks
        self._before_release = before_release
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Gate":
        """Open for arrivals."""
        self._listener.bind(str(self.path))
        self._listener.listen(self._ranks)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; whoever still waits is turned away."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        waiting: list[socket.socket] = []
        with contextlib.suppress(OSError):  # closed from outside: the run is over
            while self.arrived < self._ranks:
                door, _ = self._listener.accept()
                waiting.append(door)
                door.recv(16)  # its rank: only then is it waiting, not still sending
                self.arrived += 1
            self._before_release()
            for door in waiting:
                door.sendall(b"g")
        for door in waiting:
            door.close()
