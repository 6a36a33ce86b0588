"""The load generator: an open loop of requests, each at its intended moment.

A slow server cannot slow it down: when a request is due it is sent, whatever became of the others,
and its latency counts from the moment at which it was due. What has to wait for a connection
waits in the client, and the delay is seen in `sent`.
"""

import asyncio
import collections
import contextlib
import datetime
import gc
import importlib
import signal
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Coroutine, Iterator, Sequence
from time import monotonic as now
from typing import Any, Literal, cast

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.fleet.load.answers import Streamed, Unread
from nodewise.fleet.load.pacer import Pacer
from nodewise.fleet.load.tokenizer import CountTokens
from nodewise.study.window import Request, Window

Route = Literal["round robin", "least outstanding"]

_LOOK_SECONDS = 0.02  # how often time-outs are looked for
_AHEAD_SECONDS = 0.02  # between the last preparation and the first request
_CONNECT_SECONDS = 5.0
_OPENED_BEFORE = 4  # connections to each endpoint, so that the first requests need not wait
_DIGITS = 7  # of a time in seconds: a tenth of a microsecond is less than a clock's reading costs


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: `times` count from the start of the timed part, so the warm-up is negative."""

    endpoints: tuple[str, ...]  # http://host:port, one a replica
    path: str
    times: Sequence[float]
    bodies: Sequence[bytes]  # used in turn
    seconds: float  # of the timed part
    rate_per_second: float
    reader: Callable[[], Unread]  # of answers, one a connection
    count_tokens: CountTokens | None = None  # of answers that the server has not counted
    method: str = "POST"
    headers: dict[str, str] = {}
    route: Route = "round robin"
    timeout_seconds: float = 60.0
    drain_seconds: float = 10.0
    most_connections: int = 1024  # to one endpoint; more requests than that wait in the client
    tls: ssl.SSLContext | None = None  # of encrypted endpoints; default: what the system trusts


def drive(
    load: Load, replicas: int, number: int = 0, ended: Callable[[], None] = lambda: None
) -> Window:
    """Send the load and wait for the answers, at most the drain limit.

    `ended` is called when the last answer is in, before tokens are counted here.
    """
    if not load.times or not load.bodies:
        raise SpecError("No request to send.", "Raise the rate or lengthen the window.")
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    client = _Client(load)
    with _without_garbage_collection():
        _run(client.work())
        ended()
    client.count_texts()
    return Window(
        replicas=replicas,
        round=number,
        offered_per_second=load.rate_per_second,
        seconds=load.seconds,
        requests=client.requests(),
        client_cpu_seconds=round(client.cpu_seconds, 6),
        client_seconds=round(client.seconds, 6),
        started=started,
        unfinished=client.unfinished,
        notes=client.notes(),
    )


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A collection would stop the client for milliseconds; a window is short enough without."""
    _collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _collect() -> None:
    """Collect garbage; an interrupt meanwhile is raised after it, as callbacks would lose it."""
    if threading.current_thread() is not threading.main_thread():
        gc.collect()
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        gc.collect()
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


class _Client:
    """The requests of a load, by number, and where each of them is."""

    def __init__(self, load: Load) -> None:
        self.load = load
        count = len(load.times)
        self.intended: list[float] = []
        self.sent: list[float] = [0.0] * count
        self.first: list[float | None] = [None] * count
        self.last: list[float | None] = [None] * count
        self.tokens: list[tuple[int, int]] = [(0, 0)] * count
        self.longest_gap: list[float | None] = [None] * count
        self.endpoint: list[int] = [0] * count
        self.error: list[str] = [""] * count
        self.carrier: list[_Connection | None] = [None] * count
        self.done = bytearray(count)
        self.messages = [b"%d\r\n\r\n%b" % (len(body), body) for body in load.bodies]
        self.endpoints = [_Endpoint(self, at, url) for at, url in enumerate(load.endpoints)]
        self.by_chunks = False
        self.texts: dict[int, str] = {}  # of answers to count when the window is over
        self.unfinished = 0
        self.cpu_seconds = self.seconds = 0.0
        self._zero = 0.0
        self._next = self._oldest = self._finished = 0
        self._end = 0.0

    async def work(self) -> None:
        """All of it, with what it takes of the clock and of the CPU."""
        begin, cpu = now(), time.process_time()
        try:
            await self._open()
            await self._send_all()
        finally:
            await self._close()
        self.cpu_seconds, self.seconds = time.process_time() - cpu, now() - begin

    async def _open(self) -> None:
        """Get the first connections; a replica that refuses them will fail its requests."""
        self._loop = asyncio.get_running_loop()
        self._all_done = self._loop.create_future()
        self._loop.set_exception_handler(self._broken)
        before = min(_OPENED_BEFORE, self.load.most_connections)
        for endpoint in self.endpoints:
            for _ in range(before):
                endpoint.connect()
        tasks = [task for endpoint in self.endpoints for task in endpoint.connecting]
        if tasks:
            await asyncio.wait(tasks)

    async def _send_all(self) -> None:
        """Send each request at its moment; returns when all are answered, failed or given up."""
        times = self.load.times
        self._zero = now() + _AHEAD_SECONDS - min(times[0], 0.0)
        self.intended = [self._zero + moment for moment in times]
        self._end = self.intended[-1] + self.load.drain_seconds
        self._pacer = Pacer(self._loop, self._wake)
        self._look()
        try:
            self._pacer.set(self.intended[0])
            await self._all_done
        finally:
            self._pacer.close()
            self._looking.cancel()

    async def _close(self) -> None:
        """Leave no connection behind."""
        for endpoint in self.endpoints:
            endpoint.close()
        await asyncio.sleep(0)  # the connections learn that they are closed
        await asyncio.sleep(0)

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A mistake in this file must end the window, not leave requests without an end."""
        if not self._all_done.done():
            message = context["message"]
            self._all_done.set_exception(context.get("exception") or RuntimeError(message))

    def _wake(self) -> None:
        """Send what is due."""
        moment, intended, at = now(), self.intended, self._next
        count = len(intended)
        single = self.endpoints[0] if len(self.endpoints) == 1 else None
        while at < count and intended[at] <= moment:
            self._next = at + 1
            (single or self._choose(at)).take(at)
            at += 1
        if at < count:
            self._pacer.set(intended[at])

    def _choose(self, number: int) -> "_Endpoint":
        if self.load.route == "round robin":
            return self.endpoints[number % len(self.endpoints)]
        start = number % len(self.endpoints)  # equals are taken in turn
        order = self.endpoints[start:] + self.endpoints[:start]
        return min(order, key=lambda endpoint: endpoint.outstanding)

    def fail(self, number: int, error: str) -> None:
        """A request has no answer, and will have none."""
        if self.done[number]:
            return
        self.error[number] = error
        if not self.sent[number]:
            self.sent[number] = now()
        self.finish(number)

    def finish(self, number: int) -> None:
        """A request is over."""
        self.done[number] = 1
        self._finished += 1
        self.endpoints[self.endpoint[number]].outstanding -= 1
        if self._finished == len(self.done) and not self._all_done.done():
            self._all_done.set_result(None)

    def _look(self) -> None:
        """Give up what is too late. Requests are intended in order, so the oldest come first."""
        moment, timeout = now(), self.load.timeout_seconds
        while self._oldest < self._next:
            if not self.done[self._oldest]:
                if self.intended[self._oldest] + timeout > moment:
                    break
                self._give_up(self._oldest, f"no answer within {timeout:g} s")
            self._oldest += 1
        if moment > self._end:
            for number in range(self._oldest, self._next):
                if not self.done[number]:
                    self.unfinished += 1
                    limit = self.load.drain_seconds
                    self._give_up(number, f"unfinished {limit:g} s after the last request")
        self._looking = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _give_up(self, number: int, error: str) -> None:
        carrier = self.carrier[number]
        if carrier is not None and carrier.number == number:
            carrier.drop()
        self.fail(number, error)

    def count_texts(self) -> None:
        """Count with the tokenizer what the server has not counted; no request waits for it."""
        count, bodies = self.load.count_tokens, self.load.bodies
        if count is not None:
            for at, text in self.texts.items():
                self.tokens[at] = count(bodies[at % len(bodies)], text)

    def requests(self) -> tuple[Request, ...]:
        """The requests of the timed part, on its clock."""

        def since(moment: float | None, zero: float = self._zero) -> float | None:
            return None if moment is None else round(moment - zero, _DIGITS)

        return tuple(
            Request(
                intended=round(self.load.times[at], _DIGITS),
                sent=round(self.sent[at] - self._zero, _DIGITS),
                first=since(self.first[at]),
                last=since(self.last[at]),
                input_tokens=self.tokens[at][0],
                output_tokens=self.tokens[at][1],
                longest_gap=since(self.longest_gap[at], 0.0),
                endpoint=self.endpoint[at],
                error=self.error[at],
            )
            for at in range(len(self.intended))
            if self.load.times[at] >= 0
        )

    def notes(self) -> tuple[str, ...]:
        """What a reader of the window must know."""
        notes = []
        if self.texts:
            notes.append("The server sent no usage: tokens are counted with the tokenizer.")
        if self.by_chunks:
            streamed = isinstance(self.load.reader(), Streamed)
            how = "tokens are the chunks of the stream" if streamed else "tokens are not known"
            notes.append(f"The server sent no usage: {how}.")
        if self.unfinished:
            limit = self.load.drain_seconds
            notes.append(f"{self.unfinished} requests were unfinished {limit:g} s after the last.")
        return tuple(notes)


def address_of(url: str) -> urllib.parse.SplitResult:
    """The parts of the address of a server.

    >>> address_of("http://127.0.0.1:8000/v2").port
    8000
    """
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port
        known = False
    if not known:
        raise SpecError(f"{url} is not the address of a server.", "Write http://host:port.")
    return parts


class _Endpoint:
    """One replica: its connections, and the requests that wait for one."""

    def __init__(self, client: _Client, at: int, url: str) -> None:
        self.client, self.at = client, at
        parts = address_of(url)
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        load = client.load
        secure = parts.scheme == "https"
        self.tls = (load.tls or ssl.create_default_context()) if secure else None
        given = {"content-type": "application/json", **load.headers}
        lines = [f"{load.method} {parts.path.rstrip('/')}{load.path} HTTP/1.1"]
        lines += [f"host: {parts.netloc}", *(f"{name}: {text}" for name, text in given.items())]
        self.head = ("\r\n".join([*lines, "content-length: "])).encode()
        self.idle: list[_Connection] = []
        self.connections: set[_Connection] = set()
        self.connecting: set[asyncio.Task[None]] = set()
        self.waiting: collections.deque[int] = collections.deque()
        self.outstanding = 0

    def take(self, number: int) -> None:
        """Send a request on a free connection, or as soon as there is one."""
        self.outstanding += 1
        self.client.endpoint[number] = self.at
        if self.idle:
            self.idle.pop().send(number)
            return
        self.waiting.append(number)
        self.connect_for_waiting()

    def connect_for_waiting(self) -> None:
        """Open another connection if there is one too few for those that wait."""
        opened = len(self.connections) + len(self.connecting)
        if len(self.connecting) < len(self.waiting) and opened < self.client.load.most_connections:
            self.connect()

    def connect(self) -> None:
        """Begin to open a connection."""
        task = asyncio.create_task(self._connect())
        self.connecting.add(task)
        task.add_done_callback(self.connecting.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(
                    lambda: _connection(self), self.host, self.port, ssl=self.tls
                )
        except (OSError, TimeoutError):
            if self.waiting:
                self.client.fail(self.waiting.popleft(), "no connection")

    def free(self, connection: "_Connection") -> None:
        """A connection is ready for the next request."""
        while self.waiting:
            number = self.waiting.popleft()
            if not self.client.done[number]:
                connection.send(number)
                return
        self.idle.append(connection)

    def lost(self, connection: "_Connection") -> None:
        """A connection is gone; those that wait need another."""
        self.connections.discard(connection)
        with contextlib.suppress(ValueError):
            self.idle.remove(connection)
        while self.waiting and self.idle:
            self.free(self.idle.pop())
        if self.waiting:
            self.connect_for_waiting()

    def close(self) -> None:
        """End all connections."""
        self.waiting.clear()
        for task in list(self.connecting):
            task.cancel()
        for connection in list(self.connections):
            connection.drop()


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, endpoint: _Endpoint) -> None:
        self.endpoint, self.client = endpoint, endpoint.client
        self.number = -1  # of the request that it carries
        self.reader = self.client.load.reader()
        self._answered = 0
        self._begun = False
        self._moment = self._first_moment = 0.0
        self._first_bytes = b""
        self._parser = _http().HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not a subclass
        self.endpoint.connections.add(self)
        self.endpoint.free(self)

    def send(self, number: int) -> None:
        """Send a request; its answer is read here."""
        client = self.client
        self.number = number
        self._begun = False
        self.reader.begin()
        client.carrier[number] = self
        messages = client.messages
        client.sent[number] = now()
        self._transport.write(self.endpoint.head + messages[number % len(messages)])

    def data_received(self, data: bytes) -> None:
        """A piece of an answer has come."""
        self._moment = now()
        if not self._begun:
            if self.number < 0:  # nothing was asked
                self.drop()
                return
            self._begun = True
            self._first_bytes, self._first_moment = data, self._moment
        try:
            self._parser.feed_data(data)
        except (_http().HttpParserError, _http().HttpParserUpgrade):
            self._fail("the answer is not HTTP")

    def on_message_complete(self) -> None:
        """The parser has seen the end of an answer."""
        parser, number = self._parser, self.number
        status = parser.get_status_code()
        if number < 0 or status < 200:  # 100 Continue comes before the answer
            return
        self._complete(status)
        if parser.should_keep_alive():
            self.endpoint.free(self)
        else:
            self._transport.close()
            self.endpoint.lost(self)

    def _complete(self, status: int) -> None:
        client, number, reader = self.client, self.number, self.reader
        self.number, self._begun = -1, False
        self._answered += 1
        problem = reader.finish() if 200 <= status < 300 else f"status {status}"
        if problem:
            client.fail(number, problem)
            return
        client.last[number] = self._moment
        client.first[number] = reader.first or self._first_moment
        client.tokens[number] = (reader.input_tokens, reader.output_tokens)
        client.longest_gap[number] = reader.longest_gap
        if not reader.counted:
            if reader.text and client.load.count_tokens is not None:
                client.texts[number] = reader.text
            else:
                client.by_chunks = True
        client.finish(number)

    def connection_lost(self, error: Exception | None) -> None:
        """The other side, or this one, has closed the connection."""
        number = self.number
        if number >= 0:
            if not self._begun and self._answered:
                # The server closed it while the request was on its way: not the request's fault.
                self.number = -1
                self.endpoint.waiting.appendleft(number)
            elif self._begun and _ends_with_the_connection(self._first_bytes):
                self._complete(self._parser.get_status_code())
            else:
                self._fail("the connection broke off")
        self.endpoint.lost(self)

    def drop(self) -> None:
        """Close at once, whatever is on its way."""
        self.number = -1
        self._transport.abort()
        self.endpoint.lost(self)

    def _fail(self, error: str) -> None:
        number = self.number
        self.drop()
        if number >= 0:
            self.client.fail(number, error)


class _ReadingConnection(_Connection):
    """A connection whose answers have a body that is read."""

    def on_body(self, body: bytes) -> None:
        """The parser has a piece of the body."""
        self.reader.feed(body, self._moment)  # type: ignore[attr-defined]


def _connection(endpoint: _Endpoint) -> _Connection:
    """A body that is not read is not passed on by the parser."""
    unread = endpoint.client.load.reader is Unread
    return _Connection(endpoint) if unread else _ReadingConnection(endpoint)


def _ends_with_the_connection(head: bytes) -> bool:
    """Whether an answer says neither its length nor that it comes in chunks."""
    fields, complete, _ = head.lower().partition(b"\r\n\r\n")
    lengths = (b"\ncontent-length:", b"\ntransfer-encoding:")
    return bool(complete) and not any(length in fields for length in lengths)


def _http() -> Any:
    """The parser of HTTP, which is an extra."""
    try:
        return importlib.import_module("httptools")
    except ModuleNotFoundError:
        raise RunError(
            "The load generator needs httptools.", "Install it: pip install 'nodewise[fleet]'"
        ) from None
