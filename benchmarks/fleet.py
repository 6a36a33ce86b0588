"""Load generators: work per core, request timing and a stall, compared in one run.

    python benchmarks/fleet.py [--wrk2 PATH] [--guidellm PATH] [--aiperf PATH] [--tokenizer FOLDER]

All speak to one server on this machine, a protocol on uvloop that answers at once and notes when
each request came. Work per core is requests by CPU seconds of the client, so a busy machine
disturbs it little; ratios are the median of those of interleaved repeats. wrk2 is not packaged:
without a path to it or to a wrk that takes -R, wrk of Debian stands in for the work per core, and
nothing for the timing.
"""

import argparse
import asyncio
import importlib
import json
import math
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from nodewise.fleet.load.answers import Streamed, Unread
from nodewise.fleet.load.arrivals import constant
from nodewise.fleet.load.client import Load, drive
from nodewise.study.window import Window

CONNECTIONS = 32
REPEATS = 5
RATES = (200, 1000, 3000)
BODY = json.dumps({"model": "m", "prompt": "x " * 100, "max_tokens": 16, "stream": True}).encode()
PLAIN = b'{"choices":[{"text":"hello"}],"usage":{"prompt_tokens":9,"completion_tokens":12}}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(PLAIN),
    PLAIN,
)
EVENTS = b"".join(
    b'data: {"object":"text_completion","choices":[{"index":0,"text":"w"}]}\n\n' for _ in range(16)
)
USAGE = (
    b'data: {"object":"text_completion","choices":[],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":16}}\n\n'
)
STREAM_BODY = EVENTS + USAGE + b"data: [DONE]\n\n"
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(STREAM_BODY), STREAM_BODY)
)


# ---- the server, a process of its own


class Server(asyncio.Protocol):
    """Answers at once, streamed on a path of the OpenAI API, and notes when requests came."""

    arrivals: ClassVar[list[tuple[int, float]]] = []
    opened = 0
    stall = (0.0, 0.0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection has the next number."""
        Server.opened += 1
        self.number = Server.opened
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        """A request, or a part of one."""
        now = time.monotonic()
        self.rest += data
        while (end := self.rest.find(b"\r\n\r\n")) >= 0:
            head = self.rest[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.rest) < end + 4 + length:
                return
            self.rest = self.rest[end + 4 + length :]
            self.answer(head, now)

    def answer(self, head: bytes, now: float) -> None:
        """Write the answer, or hold it back while the stall lasts."""
        if b" /v1/models" in head:
            body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            return
        Server.arrivals.append((self.number, now))
        answer = STREAM if b"completions" in head else ANSWER
        begin = Server.arrivals[0][1] + Server.stall[0]
        wait = begin + Server.stall[1] - now
        if now >= begin and wait > 0 and Server.stall[1]:
            asyncio.get_running_loop().call_later(wait, self.transport.write, answer)
        else:
            self.transport.write(answer)


async def serve(record: Path, stall: tuple[float, float]) -> None:
    """Serve until SIGTERM, then write down the arrivals."""
    Server.stall = stall
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    record.write_text(json.dumps(Server.arrivals))


@contextmanager
def server(stall: tuple[float, float] = (0.0, 0.0)) -> Iterator[tuple[str, Callable[[], list]]]:
    """The address, and what ends the server and tells the arrivals by connection."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "arrivals.json"
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(record), *map(str, stall)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"

        def arrivals() -> list[tuple[int, float]]:
            process.terminate()
            process.communicate(timeout=20)
            return json.loads(record.read_text())

        try:
            yield url, arrivals
        finally:
            process.kill()
            process.communicate()


# ---- the clients


def own(url: str, count: int, rate: float, path: str = "/", connections: int = 1024) -> Window:
    """Our generator at a constant rate."""
    load = Load(
        endpoints=(url,),
        path=path,
        times=constant(count, count / rate),
        bodies=[BODY],
        seconds=count / rate,
        rate_per_second=rate,
        reader=Streamed if "completions" in path else Unread,
        timeout_seconds=100.0,
        drain_seconds=100.0,
        most_connections=connections,
    )
    return drive(load, 1)


def own_capacity(url: str, count: int, path: str = "/") -> float:
    """Requests by CPU second: far more are due than can be sent, so connections are the limit."""
    window = own(url, count, 10_000_000.0, path, CONNECTIONS)
    assert not any(request.error for request in window.requests)
    return count / window.client_cpu_seconds


def aiohttp_capacity(url: str, count: int, path: str = "/") -> float | None:
    """The same with aiohttp, each connection asking again when it has its answer."""
    try:
        aiohttp = importlib.import_module("aiohttp")
    except ModuleNotFoundError:
        return None

    async def main() -> float:
        left = iter(range(count))
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def worker() -> None:
                for _ in left:
                    async with session.post(url + path, data=BODY) as answer:
                        await answer.read()

            begin = time.process_time()
            await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
            return count / (time.process_time() - begin)

    return _fast(main())


def closed_loop(url: str, seconds: float, workers: int) -> list[float]:
    """Latencies as a client sees them that waits for each answer before it asks again."""

    async def worker(deadline: float) -> list[float]:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        found = []
        while time.monotonic() < deadline:
            begin = time.monotonic()
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
            await reader.readexactly(len(ANSWER))
            found.append(time.monotonic() - begin)
            await asyncio.sleep(0.01)
        writer.close()
        return found

    async def main() -> list[float]:
        deadline = time.monotonic() + seconds
        found = await asyncio.gather(*(worker(deadline) for _ in range(workers)))
        return [latency for part in found for latency in part]

    return _fast(main())


def _fast(main):
    uvloop = importlib.import_module("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def wrk(program: str, url: str, seconds: int, rate: int | None = None) -> tuple[int, float, str]:
    """Requests, CPU seconds and the words of wrk or wrk2, which alone takes a rate."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"wrk.method = 'POST'\nwrk.body = {json.dumps(BODY.decode())}\n")
        script.flush()
        pace = ["-R", str(rate)] if rate else []
        connections = CONNECTIONS if rate is None or rate > 10_000 else 16
        command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", *pace, "--latency"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*command, "-s", script.name, url], capture_output=True, text=True, timeout=120
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    requests = re.search(r"(\d+) requests in", done.stdout)
    assert requests is not None, done.stdout + done.stderr
    return int(requests.group(1)), spent, done.stdout


# ---- what is compared


def quantile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def capacity(wrk2: str | None) -> None:
    """Requests by CPU second of the client, in interleaved repeats."""
    program = wrk2 or shutil.which("wrk")
    found: dict[str, list[float]] = defaultdict(list)
    with server() as (url, _):
        for _ in range(REPEATS):
            found["nodewise"].append(own_capacity(url, 60_000))
            if program:
                requests, spent, _ = wrk(program, url, 3, 10_000_000 if wrk2 else None)
                found[Path(program).name].append(requests / spent)
            if (rate := aiohttp_capacity(url, 10_000)) is not None:
                found["aiohttp"].append(rate)
            found["nodewise, 16 events"].append(own_capacity(url, 10_000, "/v1/completions"))
            if (rate := aiohttp_capacity(url, 5_000, "/v1/completions")) is not None:
                found["aiohttp, 16 events"].append(rate)
    print("Requests by CPU second of the client, 32 connections, median (all repeats)")
    for name, rates in found.items():
        every = ", ".join(f"{rate:,.0f}" for rate in rates)
        print(f"  {name:22}{statistics.median(rates):10,.0f}  ({every})")
    for name, bound in ((Path(program).name if program else "", 0.7), ("aiohttp", 8.0)):
        if found.get(name):
            pairs = zip(found["nodewise"], found[name], strict=True)
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            said = "kept" if ratio >= bound else "MISSED"
            print(f"  nodewise by {name}: {ratio:.2f}, bound {bound:g}: {said}")


def timing(wrk2: str | None) -> None:
    """How late requests leave and arrive, at three rates; the best of the repeats, by its p99."""
    print("Send error in microseconds, constant rate: p50 / p99")
    for rate in RATES:
        left, arrived, theirs = [], [], []
        for _ in range(REPEATS):
            with server() as (url, arrivals):
                window = own(url, 4 * rate, rate)
                left.append([r.sent - r.intended for r in window.requests])
                arrived.append(_lateness([moment for _, moment in arrivals()], 1 / rate))
            if wrk2:
                with server() as (url, arrivals):
                    wrk(wrk2, url, 12, rate)  # it calibrates for ten seconds
                    theirs.append(_by_connection(arrivals(), 16 / rate))
        for name, series in (("nodewise left", left), ("nodewise arrived", arrived),
                             (f"{Path(wrk2 or '').name} arrived", theirs)):  # fmt: skip
            if series:
                best = min(series, key=lambda values: quantile(values, 0.99))
                p50, p99 = (1e6 * quantile(best, share) for share in (0.5, 0.99))
                print(f"  {rate:5}/s  {name:18}{p50:8.0f} / {p99:8.0f}")


def _by_connection(arrivals: list[tuple[int, float]], gap: float) -> list[float]:
    """wrk2 keeps a grid of its own on each connection; its last seconds are after calibration."""
    last = arrivals[-1][1] - 2.0
    grids = defaultdict(list)
    for number, moment in arrivals:
        if moment > last:
            grids[number].append(moment)
    return [late for moments in grids.values() for late in _lateness(moments, gap)]


def _lateness(moments: list[float], gap: float) -> list[float]:
    """How far each is behind an even grid that the earliest of them touches."""
    offsets = [moment - number * gap for number, moment in enumerate(moments)]
    return [offset - min(offsets) for offset in offsets]


def stall() -> None:
    """A server that says nothing for a second in ten: p99 is 0.9 s, by arithmetic."""
    rate, seconds, length = 200, 10, 1.0
    with server((4.0, length)) as (url, _):
        window = own(url, rate * seconds, rate)
    found = quantile([r.last - r.intended for r in window.requests], 0.99)
    right = length - 0.01 * seconds
    with server((4.0, length)) as (url, _):
        closed = quantile(closed_loop(url, seconds, 8), 0.99)
    print("A stall of 1 s in 10 s: p99 of the latency")
    print(f"  right     {1e3 * right:8.1f} ms")
    print(f"  nodewise  {1e3 * found:8.1f} ms")
    print(f"  a closed loop of 8 connections {1e3 * closed:8.1f} ms")
    if program := shutil.which("wrk"):
        with server((4.0, length)) as (url, _):
            said = wrk(program, url, seconds)[2]
        worst = re.search(r"99%\s+(\S+)", said)
        print(f"  wrk, which has no rate         {worst.group(1) if worst else '?'}")


def whole_tools(guidellm: str | None, aiperf: str | None, tokenizer: str | None) -> None:
    """What arrives of 500 requests/s for ten seconds, by the server's own notes."""
    print("Asked for 500 requests/s: what arrived, and CPU seconds of the client")
    with server() as (url, arrivals):
        window = own(url, 5000, 500, "/v1/completions")
        _arrived("nodewise", arrivals(), window.client_cpu_seconds)
    named = {
        "guidellm": [
            guidellm, "run", "--disable-progress", "--profile", "kind=constant,rate=500",
            "--backend", "kind=openai_http,target={url},model=m,request_format=/v1/completions",
            "--constraint", "kind=max_duration,seconds=10",
            "--tokenizer", f"kind=hf_auto,model={tokenizer}", "--output", "kind=json,path={out}",
            "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=16",
        ],
        "aiperf": [
            aiperf, "profile", "--model", "m", "--url", "{url}", "--endpoint-type", "completions",
            "--streaming", "--request-rate", "500", "--request-rate-mode", "constant",
            "--benchmark-duration", "10", "--tokenizer", tokenizer, "--osl", "16", "--isl", "32",
            "--ui", "none", "--artifact-dir", "{out}",
        ],
    }  # fmt: skip
    for name, command in named.items():
        if command[0] is None or tokenizer is None:
            print(f"  {name:10} no path was given")
            continue
        with server() as (url, arrivals), tempfile.TemporaryDirectory() as out:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            words = [str(word).format(url=url, out=f"{out}/result.json") for word in command]
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=180, cwd=out,
                env={**os.environ, "HF_HUB_OFFLINE": "1"} if name == "guidellm" else None,
            )  # fmt: skip
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = arrivals()
            if not found:
                print(f"  {name:10} sent nothing: {(done.stderr or done.stdout)[-300:]}")
                continue
            _arrived(
                name, found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            )


def _arrived(name: str, arrivals: list[tuple[int, float]], spent: float) -> None:
    moments = sorted(moment for _, moment in arrivals)
    # Without the edges: some send a first request long before the others, to see the server.
    first, last = len(moments) // 100 + 1, len(moments) - len(moments) // 100 - 1
    rate = (last - first) / (moments[last] - moments[first])
    print(f"  {name:10} {rate:7.1f}/s, {len(moments)} requests, {spent:.2f} CPU s")


def main() -> None:
    """All of it, or the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, metavar=("RECORD", "START", "LENGTH"))
    parser.add_argument("--wrk2", default=shutil.which("wrk2"))
    parser.add_argument("--guidellm")
    parser.add_argument("--aiperf")
    parser.add_argument("--tokenizer", help="a folder with a tokenizer, for the two before")
    parser.add_argument("--only", choices=["capacity", "timing", "stall", "tools"])
    asked = parser.parse_args()
    if asked.serve:
        record, start, length = asked.serve
        _fast(serve(Path(record), (float(start), float(length))))
        return
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    parts = {
        "capacity": lambda: capacity(asked.wrk2),
        "timing": lambda: timing(asked.wrk2),
        "stall": stall,
        "tools": lambda: whole_tools(asked.guidellm, asked.aiperf, asked.tokenizer),
    }
    for name, part in parts.items():
        if asked.only in (None, name):
            part()


if __name__ == "__main__":
    main()
