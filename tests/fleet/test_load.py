"""The load generator, against servers whose behaviour is known to the byte."""

import asyncio
import gc
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError, SpecError
from nodewise.fleet.load import arrivals, windows
from nodewise.fleet.load.answers import Events, Streamed, Unread, Whole
from nodewise.fleet.load.client import Load, _without_garbage_collection, drive
from nodewise.fleet.load.requests import bodies, load_of
from nodewise.fleet.load.sweep import _Running, _with_energy, backlog_seconds
from nodewise.fleet.load.workload import NO_MATERIAL
from nodewise.fleet.search import Step
from nodewise.fleet.spec import LoadSpec, Server, parse_fleet
from nodewise.measure.energy import Meter, Reading
from nodewise.measure.engines.base import RUN_MARK, end_marked
from nodewise.study.window import Request, Window

pytestmark = pytest.mark.slow
pytest.importorskip("httptools", reason="httptools is not installed: pip install 'nodewise[fleet]'")

SCRIPTED = Path(__file__).parents[2] / "examples" / "fleet" / "scripted_server.py"
SPEC = """
name = "scripted"
replicas = [1]
[server]
endpoints = ["http://127.0.0.1:1"]
[request]
prompt_words = [3, 9]
output_tokens = [2, 6]
[load]
warmup_seconds = 0.2
{load}
[objective]
latency = 1.0
"""
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def served(handler: Handler) -> Iterator[str]:
    """A server on a thread of its own that does what the handler does with each connection."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()
    address = []

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(connection, "127.0.0.1", 0)
        address.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ready.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@contextmanager
def scripted(*options: str) -> Iterator[str]:
    """The scripted server of the examples, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTED), "--port", "0", *options], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline().split()[-1])}"
    finally:
        process.kill()
        process.communicate()


def load(*urls: str, times=(0.0,), reader=Unread, **more) -> Load:
    return Load(
        endpoints=urls,
        path="/v1/completions",
        times=list(times),
        bodies=[b"{}"],
        seconds=1.0,
        rate_per_second=len(times),
        reader=reader,
        **{"timeout_seconds": 10.0, "drain_seconds": 10.0} | more,
    )


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
    return head + await reader.readexactly(int(length or 0))


def answering(*pieces: bytes, close: bool = False, pause: float = 0.0) -> Handler:
    """Answer each request with the same bytes, in these pieces."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            if close:
                return

    return handler


def json_answer(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (more, len(body), body)


OK = json_answer(b"ok")
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(body: bytes) -> bytes:
    return STREAM + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def text(word: str) -> bytes:
    return b'data: {"choices":[{"text":"%b"}]}\n\n' % word.encode()


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\n'
DONE = b"data: [DONE]\n\n"


# ---- what is sent, and when


@given(count=st.integers(1, 400), seconds=st.floats(0.1, 100), size=st.integers(1, 50))
def test_arrivals_are_as_many_as_asked_in_order_and_inside_the_window(count, seconds, size):
    trace = [0.0, 0.2, 0.3, 1.7, 2.0]
    for times in (
        arrivals.constant(count, seconds),
        arrivals.poisson(count, seconds, "seed"),
        arrivals.bursts(count, seconds, size, "seed"),
        arrivals.replayed(trace, count, seconds),
    ):
        assert len(times) == count
        assert times == sorted(times)
        assert times[0] >= 0 and times[-1] < seconds * (1 + 1e-9)


def test_poisson_gaps_vary_as_they_should_and_follow_the_seed():
    times = arrivals.poisson(4000, 100.0, "a")
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert 0.85 < variance / mean**2 < 1.15  # of an exponential distribution it is 1
    assert times == arrivals.poisson(4000, 100.0, "a") != arrivals.poisson(4000, 100.0, "b")


def test_a_trace_keeps_its_shape_at_another_rate_and_is_played_again_when_it_is_short():
    times = arrivals.replayed([10.0, 11.0, 13.0], 6, 9.0)
    assert times == pytest.approx([0.0, 1.0, 3.0, 4.5, 5.5, 7.5])


def bodies_of(request: str, count: int) -> list[bytes]:
    spec = parse_fleet(
        'name = "x"\nreplicas = [1]\nserver.endpoints = ["http://h:1"]\nobjective.ttft = 1\n'
        f"[request]\n{request}"
    )
    return bodies(spec, [0.01 * at for at in range(count)], "seed")


def test_bodies_have_their_own_prompts_and_lengths_within_the_bounds():
    request = "prompt_words = [2, 5]\noutput_tokens = [3, 9]\noptions = {ignore_eos = true}"
    made = [msgspec.json.decode(body) for body in bodies_of(request, 200)]
    assert {len(body["prompt"].split()) for body in made} == {2, 3, 4, 5}
    assert {body["max_tokens"] for body in made} == set(range(3, 10))
    assert all(body["ignore_eos"] and body["stream_options"]["include_usage"] for body in made)
    chat = msgspec.json.decode(bodies_of('api = "chat"\nstream = false', 1)[0])
    assert chat["messages"][0]["role"] == "user" and "stream" not in chat
    own = """api = "json"\npath = "/x"\nbody = '{"inputs": "{prompt}", "n": {output_tokens}}'"""
    assert set(msgspec.json.decode(bodies_of(own, 1)[0])) == {"inputs", "n"}
    assert bodies_of('api = "plain"\npath = "/x"\nbody = "same"', 100) == [b"same"]


# ---- counts, tokens and clocks


@pytest.fixture(params=["uvloop", "asyncio"])
def loop_kind(request, monkeypatch):
    """Both event loops; without uvloop the one of the standard library is used."""
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return request.param


@pytest.mark.parametrize("stream", ["true", "false"])
def test_every_request_and_token_is_counted_exactly(loop_kind, stream):
    text_of_spec = SPEC.format(load='arrivals = "constant"').replace(
        "prompt_words", f"stream = {stream}\nprompt_words"
    )
    fleet = parse_fleet(text_of_spec)
    with scripted("--first-token", "0.01", "--gap", "0.002", "--slots", "1000") as url:
        asked = load_of(fleet, [url], 50.0, 1.0, "seed")
        window = drive(asked, 1, 3)
    assert (window.replicas, window.round, window.offered_per_second) == (1, 3, 50.0)
    assert window.seconds == 1.0 and window.notes == ()
    assert len(asked.times) == 60  # the warm-up is sent and not recorded
    assert [r.intended for r in window.requests] == pytest.approx([at / 50 for at in range(50)])
    sent = [msgspec.json.decode(body) for body in asked.bodies[10:]]
    assert [r.error for r in window.requests] == [""] * 50
    assert [r.output_tokens for r in window.requests] == [body["max_tokens"] for body in sent]
    assert [r.input_tokens for r in window.requests] == [
        len(body["prompt"].split()) for body in sent
    ]
    for request, body in zip(window.requests, sent, strict=True):
        assert request.intended <= request.sent <= request.first <= request.last
        # The server's clock is known: nothing can be faster, from the moment it was sent.
        generated = 0.002 * (body["max_tokens"] - 1)
        assert request.last - request.sent >= 0.01 + generated - 1e-3
        if stream == "true":
            assert request.first - request.sent >= 0.01 - 1e-3
    assert window.client_cpu_seconds > 0
    assert window.client_seconds >= 1.0


def test_latency_counts_from_the_intended_moment_and_not_from_the_sending():
    """One connection, 50 ms an answer, a request every 10 ms: each waits for all before it."""
    with served(answering(b"", OK[:5], OK[5:], pause=0.02)) as url:
        window = drive(load(url, times=[0.01 * at for at in range(10)], most_connections=1), 1)
    for number, request in enumerate(window.requests):
        assert request.error == ""
        waited = 0.04 * (number + 1) - 0.01 * number  # two pauses lie before the last byte
        assert request.last - request.intended >= waited - 1e-3
        assert request.sent - request.intended >= 0.04 * number - 0.01 * number - 1e-3
    assert window.requests[5].first < window.requests[5].last


def test_a_stall_of_the_server_shows_in_every_request_that_it_delays():
    """Half a second of silence in two: an open loop sees a quarter of the requests late.

    A client that waits for an answer before it asks again sees one late request a connection.
    """
    with scripted("--first-token", "0", "--gap", "0", "--slots", "1000", "--stall", "0.5", "0.5",
                  ) as url:  # fmt: skip
        fleet = parse_fleet(SPEC.format(load='arrivals = "constant"').replace("0.2", "0"))
        window = drive(load_of(fleet, [url], 100.0, 2.0, "seed"), 1)
    late = [r.last - r.intended for r in window.requests]
    assert len(late) == 200
    assert sorted(late)[197] >= 0.4  # p99: all but the last two of the 50 that were held
    first = window.requests[0]  # came between its sending and its answer; from then on it counts
    for request in window.requests:
        if first.first + 0.5 <= request.sent < first.sent + 1.0:
            assert request.last >= first.sent + 1.0 - 1e-3
    assert sum(wait > 0.1 for wait in late) >= 35


def test_endpoints_are_used_in_turn_or_by_the_fewest_under_way():
    never = threading.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        await asyncio.to_thread(never.wait, 3.0)

    times = [0.01 * at for at in range(40)]
    with served(answering(OK)) as one, served(answering(OK)) as two:
        window = drive(load(one, two, times=times), 2)
        assert [r.endpoint for r in window.requests] == [0, 1] * 20
    with served(answering(OK)) as quick, served(silent) as slow:
        window = drive(
            load(slow, quick, times=times, route="least outstanding", drain_seconds=1.5), 2
        )
        never.set()
        by_endpoint = [sum(r.endpoint == at for r in window.requests) for at in (0, 1)]
    assert by_endpoint[0] < by_endpoint[1]
    assert sum(not r.error for r in window.requests) == by_endpoint[1]


# ---- answers of all kinds


@pytest.mark.parametrize("pieces", [1, 2, 3, 1000])
def test_a_stream_may_be_cut_anywhere(pieces):
    body = text("a") + b": a comment\n\n" + text("") + text("b") + USAGE + DONE
    answer = chunked(body)
    size = max(len(answer) // pieces, 1)
    parts = [answer[at : at + size] for at in range(0, len(answer), size)]
    with served(answering(*parts)) as url:
        window = drive(load(url, times=[0.0, 0.01, 0.02], reader=Streamed), 1)
    for request in window.requests:
        assert (request.error, request.input_tokens, request.output_tokens) == ("", 5, 7)
        assert request.first <= request.last
    assert window.notes == ()


def test_chat_streams_with_carriage_returns_begin_with_the_first_word():
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\r\n\r\n'
    word = b'data: {"choices":[{"delta":{"content":"hi"}}]}\r\n\r\n'
    reader = Streamed()
    reader.begin()
    for moment, piece in enumerate([role, word[:9], word[9:], word, DONE]):
        reader.feed(piece, float(moment))
    assert reader.finish() == ""
    assert (reader.first, reader.longest_gap, reader.output_tokens) == (2.0, 1.0, 2)
    assert not reader.counted


def test_without_a_usage_field_chunks_are_counted_and_that_is_said():
    with served(answering(chunked(text("a") + text("b") + DONE))) as url:
        window = drive(load(url, reader=Streamed), 1)
    assert window.requests[0].output_tokens == 2
    assert window.notes == ("The server sent no usage: tokens are the chunks of the stream.",)
    with served(answering(json_answer(b'{"embedding": [1, 2]}'))) as url:
        window = drive(load(url, reader=Whole), 1)
    assert window.requests[0].output_tokens == 0
    assert "tokens are not known" in window.notes[0]
    with served(answering(chunked(b"data: x\n\ndata: y\n\n"))) as url:
        assert drive(load(url, reader=Events), 1).requests[0].output_tokens == 2


@pytest.mark.parametrize(
    ("answer", "reader", "error"),
    [
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Unread, "status 503"),
        (b"SMTP ready\r\n\r\n", Unread, "the answer is not HTTP"),
        (b"\x16\x03\x01\x02\x00", Unread, "the answer is not HTTP"),
        (json_answer(b"not json"), Whole, "the answer is not the JSON of this API"),
        (json_answer(b'{"error": {"message": "full"}}'), Whole, "the server says: full"),
        (chunked(text("a")), Streamed, "the stream broke off"),
        (chunked(text("a") + b"data: {]\n\n" + DONE), Streamed,
         "an event of the stream is not the JSON of this API"),
        (chunked(b'data: {"error": "late"}\n\n' + DONE), Streamed, "the server says: late"),
        (STREAM + b"zz\r\n", Streamed, "the answer is not HTTP"),
    ],
)  # fmt: skip
def test_a_bad_answer_is_an_error_of_that_request(answer, reader, error):
    with served(answering(answer)) as url:
        window = drive(load(url, times=[0.0, 0.05], reader=reader), 1)
    for request in window.requests:
        assert (request.error, request.last, request.output_tokens) == (error, None, 0)


@pytest.mark.parametrize("cut", [0, 20, len(OK) - 1])
def test_a_connection_that_breaks_off_is_an_error(cut):
    with served(answering(OK[:cut], close=True)) as url:
        window = drive(load(url, times=[0.0, 0.05]), 1)
    assert [r.error for r in window.requests] == ["the connection broke off"] * 2


def test_nobody_listens():
    with served(answering(OK)) as url:
        pass
    window = drive(load(url, times=[0.01 * at for at in range(20)]), 1)
    assert [r.error for r in window.requests] == ["no connection"] * 20


def test_connections_that_close_lose_no_request():
    """Said in the answer, not said at all, or as the end of a body without a length."""
    said = json_answer(b"ok", b"connection: close\r\n")
    until_the_end = b"HTTP/1.1 200 OK\r\n\r\nok"
    times = [0.005 * at for at in range(60)]
    for answer in (said, OK, until_the_end):
        with served(answering(answer, close=True)) as url:
            window = drive(load(url, times=times), 1)
        assert {r.error for r in window.requests} == {""}, answer
        assert len(window.requests) == 60


def test_an_interim_answer_is_not_the_answer():
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    with served(answering(interim, OK)) as url:
        window = drive(load(url, times=[0.0, 0.01]), 1)
    assert [r.error for r in window.requests] == ["", ""]


def test_what_is_not_answered_in_time_is_given_up():
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with served(silent) as url:
        window = drive(load(url, times=[0.0, 0.1], timeout_seconds=0.2), 1)
        assert [r.error for r in window.requests] == ["no answer within 0.2 s"] * 2
        assert (window.notes, window.unfinished) == ((), 0)
        window = drive(load(url, times=[0.0, 0.1], drain_seconds=0.2), 1)
        assert window.unfinished == 2
        assert {r.error for r in window.requests} == {"unfinished 0.2 s after the last request"}
        assert window.notes == ("2 requests were unfinished 0.2 s after the last.",)
        window = drive(load(url, times=[0.0, 0.1], timeout_seconds=0.2, most_connections=1), 1)
        assert [r.error for r in window.requests] == ["no answer within 0.2 s"] * 2


def test_a_server_gets_the_time_to_end_what_was_given_up():
    def after(answered: int, unfinished: int, drain: float = 2.0) -> float:
        requests = tuple(
            Request(intended=at / 10, sent=at / 10, first=at / 10, last=(at + 1) / 10)
            for at in range(answered)
        )
        window = Window(
            replicas=1, offered_per_second=30.0, seconds=10.0, requests=requests,
            unfinished=unfinished,
        )  # fmt: skip
        return backlog_seconds(window, LoadSpec(drain_seconds=drain, most_window_seconds=60.0))

    assert after(100, 200) == pytest.approx(20.0)  # ten a second were answered
    assert after(100, 1) == 2.0
    assert after(100, 10_000) == 60.0
    assert after(0, 5) == 2.0
    assert after(100, 1, drain=90.0) == 90.0  # as the spec asks, also above the longest window


def test_a_slow_answer_after_a_given_up_one_is_not_mixed_up():
    """The first answer comes too late; it must not be taken for that of another request."""
    numbers = iter(range(1000))

    async def first_slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            number = next(numbers)
            await asyncio.sleep(1.2 if number == 0 else 0)
            body = b'{"usage": {"completion_tokens": %d}}' % number
            writer.write(json_answer(body))

    with served(first_slow) as url:
        window = drive(load(url, times=[0.0, 1.0, 1.3, 1.6], reader=Whole, timeout_seconds=0.9), 1)
    assert [bool(r.error) for r in window.requests] == [True, False, False, False]
    assert [r.output_tokens for r in window.requests] == [0, 1, 2, 3]


# ---- the spec and the file of windows


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("replicas = [1]", "replicas = [1, 1]", "is listed twice"),
        ("replicas = [1]", "replicas = [2]", "2 replicas are requested, but only 1"),
        ('endpoints = ["http://127.0.0.1:1"]', "", "a command, endpoints or an endpoint"),
        ("http://127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1 is not the address of a server"),
        ("http://127.0.0.1:1", "http://host:99999", "host:99999 is not the address of a server"),
        ("latency = 1.0", "", "No limit of the latency is set"),
        ("[2, 6]", "[6, 2]", "6 is above 2"),
        ("prompt_words", 'api = "json"\nprompt_words', "no default path"),
        ("warmup_seconds", 'arrivals = "trace"\nwarmup_seconds', "no request to replay"),
        ("warmup_seconds", "warm_up", "unknown field"),
        ("replicas = [1]", "replicas = 1 2", "not TOML"),
    ],
)
def test_a_wrong_spec_is_named_by_its_field(old, new, what):
    with pytest.raises(SpecError, match=what):
        parse_fleet(SPEC.format(load="").replace(old, new))


def test_the_specs_of_the_examples_and_of_the_documents_can_be_read():
    examples = [path.read_text() for path in SCRIPTED.parent.glob("*.toml")]
    page = (SCRIPTED.parents[2] / "docs" / "load.md").read_text()
    documented = page.partition("```toml\n")[2].partition("```")[0]
    fleets = [parse_fleet(text) for text in (*examples, documented)]
    assert {"llama", "llama-rehearsal", "chat"} <= {fleet.name for fleet in fleets}


def test_windows_survive_a_torn_line(tmp_path):
    window = Window(replicas=1, offered_per_second=2.0, seconds=1.0, requests=())
    assert windows.load(tmp_path) == []
    windows.append(tmp_path, window)
    with (tmp_path / windows.WINDOWS).open("ab") as file:
        file.write(b'{"replicas": 2, "off')
    assert windows.load(tmp_path) == [window]
    windows.append(tmp_path, window)
    assert windows.load(tmp_path) == [window, window]


def test_windows_from_before_deaths_were_counted_are_read_by_their_notes(tmp_path):
    line = b'{"replicas":2,"offered_per_second":4.0,"seconds":1.0,"requests":[%b],"notes":["%b"]}\n'
    request, died = b'{"intended":0.0,"sent":0.0}', b"Replica 1 of 2 ended: exit code 13."
    chunks = b"The server sent no usage: tokens are the chunks of the stream."
    path = tmp_path / windows.WINDOWS
    path.write_bytes(line % (request, died) + line % (b"", died) + line % (request, chunks))
    assert [window.died for window in windows.load(tmp_path)] == [1, 0, 0]
    path.write_bytes(b"{]\n" + path.read_bytes())
    with pytest.raises(DataError, match="is damaged"):
        windows.load(tmp_path)


class Metered:
    """A meter that read 500 J in every second."""

    def __init__(self, samples):
        self.samples = samples

    def reading(self, seconds):
        return Reading(500 * seconds, self.samples, seconds)


def test_a_window_has_its_share_of_the_energy_of_a_node_that_holds_the_whole_fleet():
    window = Window(replicas=2, offered_per_second=1, seconds=30, client_seconds=40, requests=())
    here = Server(command=("serve",))
    assert _with_energy(window, Metered(400), here).energy_joules == pytest.approx(500 * 30)
    assert _with_energy(window, Metered(59), here).energy_joules is None
    elsewhere = Server(endpoints=("http://127.0.0.1:1",))
    assert _with_energy(window, Metered(400), elsewhere).energy_joules is None


def test_an_interrupt_while_garbage_is_collected_is_not_lost():
    class Cycle:
        def __init__(self):
            self.itself = self

    gc.disable()  # so that nothing else collects it
    try:
        seen = weakref.ref(Cycle(), lambda _: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt), _without_garbage_collection():
            pass
        assert seen() is None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        gc.enable()


def test_the_meter_ends_before_tokens_are_counted(tmp_path, monkeypatch):
    happened = []

    class Watched(Meter):
        def end(self):
            happened.append("end of the meter")
            super().end()

    def count(body, answer):
        happened.append("count")
        return 1, 1

    monkeypatch.setattr("nodewise.fleet.load.sweep.Meter", Watched)
    fleet = parse_fleet(SPEC.format(load='arrivals = "constant"'))
    with served(answering(chunked(text("a") + DONE))) as url:
        replicas = SimpleNamespace(endpoints=(url,), dead=list)
        window = _Running(fleet, replicas, 1, NO_MATERIAL, count).window(Step(1, 0, 20.0, 0.2, 0))
    assert [request.output_tokens for request in window.requests] == [1] * 4
    assert 0 <= window.machine_busy <= 1  # the server is on the client's machine
    assert happened[:2] == ["end of the meter", "count"]


def test_the_port_of_a_process_that_was_ended_is_free_at_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # so much memory takes the kernel a while to take back, and the last thread has to wait
        waiting = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
        code = f"import threading; {waiting}; x = b'x' * 200_000_000; print(1, flush=True); input()"
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, RUN_MARK: str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[server.fileno()],
        )
    with child:
        assert child.stdout.read(1) == b"1"
        end_marked(tmp_path)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        finally:
            child.kill()
    assert child.returncode == -9
