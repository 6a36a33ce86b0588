"""The sweep: for each number of replicas, the highest rate at which the objective is met.

Every round visits each number once, in random order. The rate is doubled until the objective
breaks and then halved in on; a later round begins where the earlier ones ended. Each window is
kept as soon as it is over, and one that is there already is not measured again, so that an
interrupted sweep goes on where it stopped.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodewise.base.errors import DataError
from nodewise.fleet.load import windows
from nodewise.fleet.load.client import drive
from nodewise.fleet.load.replicas import ReplicaFailed, Replicas, replicas_of
from nodewise.fleet.load.requests import load_of, read_trace
from nodewise.fleet.load.tokenizer import CountTokens, read_tokenizer
from nodewise.fleet.spec import FleetSpec, Server
from nodewise.measure.energy import Meter
from nodewise.study.window import Window

LOGS = "logs"

_ATTEMPTS = 3  # at one rate, where a window said nothing: a void one, or a replica that died
_MOST_UP = 16  # steps from the first rate, doublings in the end
_MOST_DOWN = 6  # below a hundredth of the first rate nothing useful is left, and windows are long
_SETTLE = 1.4  # the first step from a rate that other numbers of replicas suggest
_LEAST_SAMPLES = 60  # of power, to call it measured
_MARGIN = 1.05  # requests above the fewest that can prove anything


class Judgement(NamedTuple):
    """What a window says; `again` if another one at the same rate could say more."""

    met: bool
    again: bool
    why: str


Judge = Callable[[Window], Judgement]
Tell = Callable[[Window, Judgement], None]


def sweep(
    spec: FleetSpec, home: Path, folder: Path, least_requests: int, judge: Judge, tell: Tell
) -> list[Window]:
    """Measure every window that is missing in the folder; all windows of it."""
    trace = _trace(spec, home)
    named = spec.request.tokenizer
    count_tokens = read_tokenizer(home / named) if named else None
    search = _Search(spec, folder, least_requests, judge, tell, trace, count_tokens)
    smallest = min(spec.replicas)
    for number in range(spec.rounds):
        block = list(spec.replicas)
        random.Random(f"{spec.seed} {number}").shuffle(block)
        for count in block:
            if search.is_done(count, number):
                continue
            try:
                with replicas_of(spec.server, count, home, folder / LOGS) as replicas:
                    search.highest_rate(replicas, count, number)
            except ReplicaFailed as error:
                if not any(window.requests for window in search.made):
                    # A server that never starts is a mistake: kept, it could not be mended.
                    if count == smallest:
                        raise
                    with replicas_of(spec.server, smallest, home, folder / LOGS):
                        pass  # so it is their number
                search.keep_failure(count, number, error.what)
    return search.made


def highest(
    first: float, step: float, most: float, precision: float, met: Callable[[float], bool]
) -> float | None:
    """The highest rate that is met, to within the precision; None if none is.

    Small steps grow to doublings as they go: a guess that is far off should be left quickly.

    >>> tried = []
    >>> highest(1.0, 2.0, 1e6, 0.1, lambda rate: tried.append(rate) or rate <= 11)
    10.4
    >>> tried
    [1.0, 2.0, 4.0, 8.0, 16.0, 11.3, 9.51, 10.4]
    """
    rate = _rounded(min(first, most))
    good: float | None = None
    bad: float | None = None
    for tried in range(_MOST_UP):
        if met(rate):
            good = rate
            if bad is not None or rate >= most:
                break
            rate = _rounded(min(rate * step, most))
        else:
            bad = rate
            if good is not None or tried == _MOST_DOWN:
                break
            rate = _rounded(rate / step)
        step = step * step if step < 2 else step
    if good is None or bad is None:
        return good
    while bad / good > 1 + precision:
        middle = _rounded(math.sqrt(good * bad))
        if met(middle):
            good = middle
        else:
            bad = middle
    return good


class _Search:
    """The windows so far, and how the next one is made."""

    def __init__(
        self,
        spec: FleetSpec,
        folder: Path,
        least_requests: int,
        judge: Judge,
        tell: Tell,
        trace: Sequence[float],
        count_tokens: CountTokens | None,
    ) -> None:
        self._spec, self._folder, self._trace = spec, folder, trace
        self._count_tokens = count_tokens
        self._least_requests, self._judge, self._tell = least_requests, judge, tell
        self.made: list[Window] = windows.load(folder)
        self._known: dict[int, list[float]] = defaultdict(list)  # highest rates by replicas
        self._kept: dict[tuple[int, int, float], list[Window]] = defaultdict(list)
        for window in self.made:
            self._kept[_key(window)].append(window)

    def is_done(self, count: int, number: int) -> bool:
        """Whether the search of an earlier process can be followed to its end."""
        try:
            self.highest_rate(None, count, number)
        except _Missing:
            return False
        return True

    def keep(self, window: Window) -> None:
        """Write a window down."""
        windows.append(self._folder, window)
        self.made.append(window)
        self._kept[_key(window)].append(window)

    def keep_failure(self, count: int, number: int, why: str) -> None:
        """Write down replicas that did not become ready: a window without requests."""
        window = Window(
            replicas=count,
            round=number,
            offered_per_second=self._spec.load.first_rate_per_second,
            seconds=0.0,
            requests=(),
            notes=(why,),
        )
        self.keep(window)
        self._tell(window, Judgement(met=False, again=False, why=why))

    def highest_rate(self, replicas: Replicas | None, count: int, number: int) -> None:
        """Search in one round; without replicas, only among the windows that are kept."""
        load = self._spec.load
        if self._failed_before(count, number):
            return
        first, step = self._begin(count, number)
        rate = highest(
            first,
            step,
            load.most_rate_per_second,
            load.precision,
            lambda rate: self._met(replicas, count, number, rate),
        )
        if rate is not None:
            self._known[count].append(rate)

    def _failed_before(self, count: int, number: int) -> bool:
        """Whether it was not ready in this round, or never yet: start-up time is paid once."""
        own = [window for window in self.made if window.replicas == count]
        never = not any(window.requests for window in own)
        return any(not window.requests for window in own if never or window.round == number)

    def _begin(self, count: int, number: int) -> tuple[float, float]:
        """The first rate and the first step, from what earlier searches have found.

        Each search begins a little off the others, so that rounds do not agree by their grid.
        """
        rate, step = self._guess(count)
        draw = random.Random(f"{self._spec.seed} {number} {count}")
        return rate * (1 + self._spec.load.precision) ** draw.uniform(-0.5, 0.5), step

    def _guess(self, count: int) -> tuple[float, float]:
        load = self._spec.load
        if self._known[count]:
            rates = sorted(self._known[count])
            return rates[len(rates) // 2], 1 + 2 * load.precision
        others = [other for other, rates in self._known.items() if rates]
        if others:
            nearest = min(others, key=lambda other: abs(math.log(other / count)))
            return self._known[nearest][-1] * count / nearest, _SETTLE
        return load.first_rate_per_second * count, 2.0

    def _met(self, replicas: Replicas | None, count: int, number: int, rate: float) -> bool:
        seconds = self._seconds(rate)
        kept = list(self._kept.get((count, number, rate), ()))
        for attempt in range(_ATTEMPTS):
            if attempt < len(kept):
                window = kept[attempt]
                judgement = self._judge(window)
            elif replicas is None:
                raise _Missing
            else:
                window = self._measure(replicas, count, number, rate, seconds, attempt)
                judgement = self._judge(window)
                self._tell(window, judgement)
            if not (judgement.again or window.died):
                break
            seconds = min(2 * seconds, self._spec.load.most_window_seconds)
        return judgement.met

    def _measure(
        self,
        replicas: Replicas,
        count: int,
        number: int,
        rate: float,
        seconds: float,
        attempt: int,
    ) -> Window:
        seed = f"{self._spec.seed} {number} {attempt}"
        load = load_of(
            self._spec, replicas.endpoints, rate, seconds, seed, self._trace, self._count_tokens
        )
        with Meter() as meter:
            window = drive(load, count, number, ended=meter.end)
        window = _with_energy(window, meter, self._spec.server)
        dead = replicas.dead()
        window = msgspec.structs.replace(window, died=len(dead), notes=(*window.notes, *dead))
        self.keep(window)
        if dead:
            replicas.revive()
        elif window.unfinished:
            # Many servers go on with what nobody waits for; the next window must not pay for it.
            time.sleep(self._spec.load.drain_seconds)
        return window

    def _seconds(self, rate: float) -> float:
        load = self._spec.load
        needed = max(load.window_seconds, _MARGIN * self._least_requests / rate)
        return min(needed, load.most_window_seconds)


class _Missing(Exception):
    """A window that is not kept yet would be needed."""


def _with_energy(window: Window, meter: Meter, server: Server) -> Window:
    """The window with its share of what this node used, where the whole fleet is on it alone."""
    if server.endpoints or server.cores_per_replica is not None:
        return window
    reading = meter.reading(window.client_seconds)
    if reading is None or reading.samples < _LEAST_SAMPLES:
        return window
    joules = reading.joules * window.seconds / window.client_seconds
    return msgspec.structs.replace(window, energy_joules=joules)


def _key(window: Window) -> tuple[int, int, float]:
    return window.replicas, window.round, window.offered_per_second


def _rounded(rate: float) -> float:
    """Three digits: nobody can tell finer rates apart, and they can be read."""
    return float(f"{rate:.3g}")


def _trace(spec: FleetSpec, home: Path) -> list[float]:
    if not spec.load.trace:
        return []
    path = home / spec.load.trace
    try:
        return read_trace(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError):
        raise DataError(f"Cannot read the trace {path}.", "Correct load.trace.") from None
