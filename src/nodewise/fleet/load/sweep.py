"""The sweep: measure the windows that a search asks for, on replicas that run meanwhile.

Each window is kept as soon as it is over. The search follows from the windows alone, so that an
interrupted sweep goes on where it stopped.
"""

import ipaddress
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

from nodewise.fleet.capacity import RateEvidence
from nodewise.fleet.load import tls, windows
from nodewise.fleet.load.client import address_of, drive
from nodewise.fleet.load.first_request import first_request
from nodewise.fleet.load.replicas import ReplicaFailed, Replicas, replicas_of
from nodewise.fleet.load.requests import load_of
from nodewise.fleet.load.scraper import Scraper
from nodewise.fleet.load.tokenizer import CountTokens, read_tokenizer
from nodewise.fleet.load.workload import Material, read_material
from nodewise.fleet.search import Search, Step
from nodewise.fleet.spec import FleetSpec, LoadSpec, Server
from nodewise.measure.energy import Meter
from nodewise.study.window import Window

LOGS = "logs"

_LEAST_SAMPLES = 60  # of power, to call it measured


class Fleet(Protocol):
    """Replicas that run."""

    def window(self, step: Step) -> Window:
        """Load them as the step says."""
        ...


Opened = Callable[[int], AbstractContextManager[Fleet]]
Keep = Callable[[Window], None]
# A window, what is known about its rate, and the seconds that are left: likely, and at most.
Tell = Callable[[Window, RateEvidence | None, tuple[float, float]], None]


def sweep(
    spec: FleetSpec,
    home: Path,
    folder: Path,
    tell: Tell,
    note: Callable[[str], None] = lambda line: None,
) -> list[Window]:
    """Measure every window that is missing in the folder; all windows of it.

    One request comes before the load, and `note` takes its answer.
    """
    made = windows.load(folder)
    named = spec.request.tokenizer
    count_tokens = read_tokenizer(home / named) if named else None
    material = read_material(spec, home)
    context = tls.context_of(spec.server, home)
    asked = False

    @contextmanager
    def opened(count: int) -> Iterator[Fleet]:
        nonlocal asked
        with replicas_of(spec.server, count, home, folder / LOGS) as replicas:
            if not asked:
                note(_ask_first(spec, replicas, material, context))
                asked = True
            yield _Running(spec, replicas, count, material, count_tokens, context)

    def keep(window: Window) -> None:
        windows.append(folder, window)
        made.append(window)

    search = Search(spec)
    for window in made:
        search.add(window)
    follow(search, spec, opened, keep, tell, any_ran=any(one.requests for one in made))
    return made


def follow(
    search: Search, spec: FleetSpec, opened: Opened, keep: Keep, tell: Tell, any_ran: bool = False
) -> None:
    """Measure what the search asks for, until it asks for nothing more."""

    def take(window: Window) -> None:
        nonlocal any_ran
        any_ran = any_ran or bool(window.requests)
        keep(window)
        found = search.add(window)
        step = search.next()  # the round that is next counts in what is left
        tell(window, found, (0.0, 0.0) if step is None else search.seconds_left())

    smallest = min(spec.replicas)
    step = search.next()
    while step is not None:
        count, number = step.replicas, step.round
        try:
            with opened(count) as fleet:
                while step is not None and (step.replicas, step.round) == (count, number):
                    take(fleet.window(step))
                    step = search.next()
        except ReplicaFailed as error:
            if not any_ran:
                # A server that never starts is a mistake of the spec: kept, it would stay.
                if count == smallest:
                    raise
                with opened(smallest):
                    pass  # so it is their number
            take(_failure(spec, count, number, error.what))
            step = search.next()


def _ask_first(
    spec: FleetSpec, replicas: Replicas, material: Material, context: ssl.SSLContext | None
) -> str:
    """The answer of the first replica to one request."""
    load = load_of(spec, replicas.endpoints, 1.0, 1.0, f"{spec.seed} first", material, tls=context)
    return first_request(load, replicas.endpoints[0])


def _failure(spec: FleetSpec, count: int, number: int, why: str) -> Window:
    """Replicas that did not become ready: a window without requests."""
    return Window(
        replicas=count,
        round=number,
        offered_per_second=spec.load.first_rate_per_second,
        seconds=0.0,
        requests=(),
        notes=(why,),
    )


class _Running:
    """Replicas that were started, and how they are loaded."""

    def __init__(
        self,
        spec: FleetSpec,
        replicas: Replicas,
        count: int,
        material: Material,
        count_tokens: CountTokens | None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._spec, self._replicas, self._count = spec, replicas, count
        self._material, self._count_tokens, self._context = material, count_tokens, context

    def window(self, step: Step) -> Window:
        """Load the replicas; those that died in an earlier window are started again first."""
        spec, replicas = self._spec, self._replicas
        if replicas.dead():
            replicas.revive()
        seed = f"{spec.seed} {step.round} {step.look} {step.rate:g}"
        load = load_of(
            spec,
            replicas.endpoints,
            step.rate,
            step.seconds,
            seed,
            self._material,
            self._count_tokens,
            self._context,
        )
        before = psutil.cpu_times()
        with (
            Meter() as meter,
            Scraper(replicas.endpoints, spec.server.metrics, self._context) as scraper,
        ):
            window = drive(load, self._count, step.round, ended=meter.end)
        busy = _busy(before, psutil.cpu_times()) if _is_here(spec.server) else None
        window = _with_energy(window, meter, spec.server)
        dead = replicas.dead()
        if window.unfinished and not dead:
            time.sleep(backlog_seconds(window, spec.load))
        return msgspec.structs.replace(
            window,
            died=len(dead),
            machine_busy=busy,
            notes=(*window.notes, *dead, *filter(None, [scraper.problem])),
            server_load=scraper.load,
        )


def backlog_seconds(window: Window, load: LoadSpec) -> float:
    """How long a server may still work on abandoned requests, at the rate that it answered.

    Many servers do not notice, and the next window must not pay for it.
    """
    ends = [one.last for one in window.requests if one.last is not None]
    left = window.unfinished * max(ends) / len(ends) if ends else 0.0
    return max(load.drain_seconds, min(left, load.most_window_seconds))


def _is_here(server: Server) -> bool:
    """Whether the replicas run on the machine of the client."""
    return bool(server.command) or all(_is_loopback(url) for url in server.urls)


def _is_loopback(url: str) -> bool:
    host = address_of(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _busy(before: object, after: object) -> float | None:
    """The share of all cores that was in use between two readings."""
    fields = ("user", "nice", "system", "irq", "softirq", "steal")
    idle = ("idle", "iowait")

    def passed(names: tuple[str, ...]) -> float:
        return sum(getattr(after, one, 0.0) - getattr(before, one, 0.0) for one in names)

    used = passed(fields)
    total = used + passed(idle)
    return round(max(used, 0.0) / total, 4) if total > 0 else None


def _with_energy(window: Window, meter: Meter, server: Server) -> Window:
    """The window with its share of what this node used, where the whole fleet is on it alone."""
    if server.urls or server.cores_per_replica is not None:
        return window
    reading = meter.reading(window.client_seconds)
    if reading is None or reading.samples < _LEAST_SAMPLES:
        return window
    joules = reading.joules * window.seconds / window.client_seconds
    return msgspec.structs.replace(window, energy_joules=joules)
