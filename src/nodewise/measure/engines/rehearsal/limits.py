"""The limits of one run on emulated nodes: when they begin and end, and what the nodes used."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.engines.rehearsal.virtual_nodes import PlainNodes, cores_of
from nodewise.study.spec import Rehearsal

NEVER, BY_CLOCK, BY_GATE, AT_START = "never", "the clock", "the gate", "the start"
_LOOK_SECONDS = 0.2
_RELEASE_SECONDS = 10.0  # how long after the start of the quota new threads are looked for


class _Counters(msgspec.Struct, frozen=True):
    """What a node had used at one moment; None if it is not counted."""

    cpu_seconds: float | None
    throttled_seconds: float | None
    periods: tuple[int, int] | None  # awake, throttled
    traffic_bytes: tuple[int, int] | None  # received, sent


class Limits:
    """None at first; they begin when the ranks are ready, and end when all are through.

    Ranks that come to the gate pace themselves, unless a quota is requested. The gate, the watch
    and the run call it at once, so there is a lock.
    """

    def __init__(
        self, nodes: PlainNodes, running: int, options: Rehearsal, start_seconds: float
    ) -> None:
        """Of a run on the first `running` nodes; the quota waits `start_seconds` for the gate."""
        self.begun_by = NEVER
        self.failure: RunError | None = None
        self.facts: dict[str, float | str] = {}  # what the nodes were promised and got, at the end
        self._nodes = nodes
        self._names = [f"node{node}" for node in range(running)]
        self._cores = [cores_of(options, node, running) for node in range(running)]
        self._options = options
        self._start_seconds = start_seconds
        self._held = False
        self._paced = False
        self._lock = threading.RLock()
        nodes.unlimit()
        self._note(NEVER)

    def hold(self) -> None:
        """Ranks will come to the gate: the quota waits for it, however long they take."""
        self._held = True

    def begin(self, by: str) -> None:
        """Put the limits in force now.

        Never raises, as it runs in other threads: a failure ends the run, and is reported after it.
        """
        with self._lock:
            if self.facts:  # the run is over
                return
            self._paced = by == BY_GATE and self._options.cpu == "paced"
            try:
                if self._paced:
                    self._nodes.unlimit()  # a quota from before, by the clock
                    self._nodes.groups.shield(True)
                else:
                    self._release_communication()
                    self._nodes.limit(self._cores)
            except RunError as error:
                self.failure = error
                self._nodes.kill()
            self._note(by)

    def end(self) -> None:
        """Record what the nodes got, and lift the quotas: what is measured is over."""
        with self._lock:
            if not self.facts:
                self.facts = self._record()
                self._nodes.unlimit()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Limit a job that never comes to the gate; keep threads that move bytes unlimited."""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_SECONDS):
            with self._lock:
                waited = time.monotonic() - self._since
                limited = self.begun_by != NEVER
                if not limited and not self._held and waited > self._start_seconds:
                    self.begin(BY_CLOCK)
                elif limited and not self._paced and waited < _RELEASE_SECONDS:
                    self._release_communication()

    def _release_communication(self) -> None:
        for name in self._names:
            self._nodes.groups.release_communication(name)

    def _note(self, by: str) -> None:
        """Remember why and from where on the limits are as they are now."""
        self.begun_by = by
        self._since = time.monotonic()
        self._before = self._counters()

    def _counters(self) -> list[_Counters]:
        groups = self._nodes.groups
        return [
            _Counters(
                groups.cpu_seconds(name),
                groups.throttled_seconds(name),
                groups.periods(name),
                self._nodes.traffic_bytes(node),
            )
            for node, name in enumerate(self._names)
        ]

    def _record(self) -> dict[str, float | str]:
        """What was promised, and what was used since the limits came into force."""
        seconds = time.monotonic() - self._since
        facts: dict[str, float | str] = {
            "label": "rehearsal: emulated nodes",
            "cpu": "paced" if self._paced else "quota",
            "link": self._nodes.link,
            "limited_by": self.begun_by,
            "limited_seconds": 0.0 if self.begun_by == NEVER else seconds,
            "link_mbit_per_second": self._options.link_mbit_per_second,
        }
        after = self._counters()
        for node, name in enumerate(self._names):
            used = _used(self._before[node], after[node])
            cores = self._cores[node] if self._paced else self._nodes.groups.cores(name)
            if cores is not None:
                used["cores"] = cores
                if "cpu_seconds" in used and not self._paced:
                    used["cpu_received_of_asked"] = used["cpu_seconds"] / (cores * seconds)
            facts |= {f"{name}.{what}": value for what, value in used.items()}
        return facts


def _used(old: _Counters, new: _Counters) -> dict[str, float]:
    """What a node used between two moments, where it is counted.

    A group that used no CPU at all had no rank in it.
    """
    used: dict[str, float] = {}
    before, after = old.cpu_seconds, new.cpu_seconds
    if before is not None and after is not None and after > before:
        used["cpu_seconds"] = after - before
        if old.throttled_seconds is not None and new.throttled_seconds is not None:
            used["throttled_seconds"] = new.throttled_seconds - old.throttled_seconds
        if old.periods is not None and new.periods is not None:
            awake, throttled = new.periods[0] - old.periods[0], new.periods[1] - old.periods[1]
            used["throttled_periods"] = throttled / max(awake, 1)
    if old.traffic_bytes is not None and new.traffic_bytes is not None:
        used["received_bytes"] = new.traffic_bytes[0] - old.traffic_bytes[0]
        used["sent_bytes"] = new.traffic_bytes[1] - old.traffic_bytes[1]
    return used
