"""Load generators on one server at one rate: GuideLLM, AIPerf, nodewise; percentiles, client CPU.

    python benchmarks/fleet_peers.py --guidellm PATH --aiperf PATH [--turns 3]
        [--keep FOLDER]

The server streams 16 tokens an answer, at times that it draws itself, and writes down when each
request came and when its first and last token left. That log is the truth: what a client reports
above it is the client's own delay. All three are asked for the same number of requests at the same
constant rate, one after the other, in turns. Latencies here count from the sending, as the others
print them; nodewise itself counts from the schedule. How late requests left, which on a busy
machine is most of a client's error, is a row of its own. CPU is that of the whole process with its
children; what a run of few requests costs is taken off as its start-up. A tool that is not
installed is left out, with the reason. Exits with 1 where ours is further from the truth, leaves
later at the median, or needs more CPU.
"""

import argparse
import asyncio
import importlib
import importlib.util
import json
import math
import os
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
from typing import Any, ClassVar, NamedTuple

RATE, COUNT, FEW, TURNS = 50, 600, 20, 3
TOKENS, GAP = 16, 0.010
SECONDS = 400  # of one test, start-up included
SHARES = (0.50, 0.90, 0.99)
METRICS = ("TTFT", "TPOT", "latency")
LATE = "late"  # by how much requests left after their time, as each client reports it
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


# ---- the server, a process of its own


def chunk(data: bytes) -> bytes:
    """A piece of a body, as HTTP frames it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps({"object": "text_completion", **document}).encode() + b"\n\n"


TOKEN = chunk(event({"choices": [{"index": 0, "text": " word", "finish_reason": None}]}))
USAGE = {"prompt_tokens": 32, "completion_tokens": TOKENS, "total_tokens": 32 + TOKENS}
LAST = chunk(
    event({"choices": [{"index": 0, "text": " word", "finish_reason": "length"}]})
    + event({"choices": [], "usage": USAGE})
    + b"data: [DONE]\n\n"
)
END = b"0\r\n\r\n"


class Server(asyncio.Protocol):
    """Streams an answer for each request, and notes its times."""

    log: ClassVar[list[list[float]]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self.transport, self.rest = transport, b""

    def data_received(self, data: bytes) -> None:
        """A request, or a part of one."""
        self.rest += data
        while (end := self.rest.find(b"\r\n\r\n")) >= 0:
            head = self.rest[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.rest) < end + 4 + length:
                return
            self.rest = self.rest[end + 4 + length :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        """A stream, or the list of models to whoever asks for something else."""
        if b"completions" not in head.split(b"\r\n", 1)[0]:
            body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
            length = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(b"HTTP/1.1 200 OK\r\n" + length + body)
            return
        loop, came = asyncio.get_running_loop(), time.monotonic()
        part = len(Server.log) * 0.618034 % 1.0  # even, in an order that looks like chance
        times = [came]
        Server.log.append(times)
        begin = loop.time() + 0.02 - 0.03 * math.log(1 - part)
        for number in range(TOKENS):
            loop.call_at(begin + number * GAP, self.token, number, times)

    def token(self, number: int, times: list[float]) -> None:
        """Send a token; the moments of the first and of the last are kept."""
        if number in (0, TOKENS - 1):
            times.append(time.monotonic())
        if self.transport.is_closing():  # a client that has all its answers may leave early
            return
        data = TOKEN if number < TOKENS - 1 else LAST + END
        self.transport.write(HEAD + data if number == 0 else data)


async def serve(record: Path) -> None:
    """Serve until SIGTERM, then write down the log."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    record.write_text(json.dumps(Server.log))


@contextmanager
def server() -> Iterator[tuple[str, Callable[[], list[list[float]]]]]:
    """The address, and what ends the server and returns its log."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "log.json"
        command = [sys.executable, __file__, "--serve", str(record)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"

        def log() -> list[list[float]]:
            process.terminate()
            process.communicate(timeout=20)
            return json.loads(record.read_text())

        try:
            yield url, log
        finally:
            process.kill()
            process.communicate()


# ---- the clients


def own(url: str, count: int, out: Path) -> None:
    """Our generator; the window is written as a sweep writes it."""
    import msgspec

    from nodewise.fleet.load.answers import Streamed
    from nodewise.fleet.load.arrivals import constant
    from nodewise.fleet.load.client import Load, drive

    asked = {"model": "m", "prompt": "word " * 32, "max_tokens": TOKENS, "stream": True}
    load = Load(
        endpoints=(url,),
        path="/v1/completions",
        times=constant(count, count / RATE),
        bodies=[json.dumps({**asked, "stream_options": {"include_usage": True}}).encode()],
        seconds=count / RATE,
        rate_per_second=RATE,
        reader=Streamed,
    )
    (out / "windows.jsonl").write_bytes(msgspec.json.encode(drive(load, 1)) + b"\n")


def commands(
    url: str, count: int, out: Path, programs: dict[str, str], tokenizer: Path
) -> dict[str, list[str]]:
    """How each tool is asked for the same load."""
    own_command = [sys.executable, __file__, "--own", url, str(count), str(out)]
    openai = f"kind=openai_http,target={url},model=m,request_format=/v1/completions"
    return {
        "nodewise": own_command,
        "GuideLLM": [
            programs["GuideLLM"], "run", "--disable-progress",
            "--profile", f"kind=constant,rate={RATE}", "--backend", openai,
            "--constraint", f"kind=max_requests,count={count}",
            "--tokenizer", f"kind=hf_auto,model={tokenizer}",
            "--output", f"kind=json,path={out}/benchmarks.json",
            "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}",
        ],
        "AIPerf": [
            programs["AIPerf"], "profile", "--model", "m", "--url", url,
            "--endpoint-type", "completions", "--streaming", "--request-rate", str(RATE),
            "--request-rate-mode", "constant", "--request-count", str(count),
            "--tokenizer", str(tokenizer), "--isl", "32", "--osl", str(TOKENS), "--ui", "none",
            "--use-server-token-count",
            "--extra-inputs", '{"stream_options":{"include_usage":true}}',
            "--artifact-dir", str(out),
        ],
    }  # fmt: skip


def percentiles(tool: str, out: Path) -> dict[str, list[float]]:
    """What a tool reports, in milliseconds: its headline figures."""
    if tool == "nodewise":
        from nodewise.importers.serving.read import own_windows

        window = own_windows(out / "windows.jsonl")[0]
        assert all(not one.error for one in window.requests)
        late = [1000 * (one.sent - one.intended) for one in window.requests]
        times = of_times([(one.sent, one.first, one.last) for one in window.requests])
        return {**times, LATE: [quantile(late, at) for at in SHARES]}
    names = [f"p{100 * share:.0f}" for share in SHARES]
    if tool == "AIPerf":
        found = json.loads((out / "profile_export_aiperf.json").read_text())
        asked = (
            "time_to_first_token", "inter_token_latency", "request_latency",
            "credit_to_start_latency",
        )  # fmt: skip
        return {
            metric: [found[name][share] for share in names]
            for metric, name in zip((*METRICS, LATE), asked, strict=True)
        }
    metrics = json.loads((out / "benchmarks.json").read_text())["benchmarks"][0]["metrics"]
    asked = (
        "time_to_first_token_ms", "inter_token_latency_ms", "request_latency",
        "request_dispatch_delay",
    )  # fmt: skip
    scale = {"request_latency": 1000.0, "request_dispatch_delay": 1000.0}
    return {
        metric: [
            scale.get(name, 1.0) * metrics[name]["successful"]["percentiles"][share]
            for share in names
        ]
        for metric, name in zip((*METRICS, LATE), asked, strict=True)
    }


def of_times(times: list[Any]) -> dict[str, list[float]]:
    """Percentiles in milliseconds of begin, first and last token of each request."""
    values = {
        "TTFT": [first - begin for begin, first, _ in times],
        "TPOT": [(last - first) / (TOKENS - 1) for _, first, last in times],
        "latency": [last - begin for begin, _, last in times],
    }
    return {name: [1000 * quantile(found, at) for at in SHARES] for name, found in values.items()}


def quantile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


class Test(NamedTuple):
    """One load test: figures of the client and of the server's log, rate and CPU."""

    client: dict[str, list[float]]
    truth: dict[str, list[float]]
    rate: float
    cpu_seconds: float


def run(tool: str, count: int, out: Path, programs: dict[str, str], tokenizer: Path) -> Test:
    """Let one tool load a new server."""
    out.mkdir(parents=True, exist_ok=True)
    with server() as (url, log):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            commands(url, count, out, programs, tokenizer)[tool],
            capture_output=True, text=True, timeout=SECONDS, cwd=out,
            # AIPerf takes a folder for a name of the hub when it is offline
            env={**os.environ, **({} if tool == "AIPerf" else {"HF_HUB_OFFLINE": "1"})},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = [one for one in log() if len(one) == 3][-count:]
    if done.returncode or len(times) < count:
        said = (done.stderr or done.stdout)[-1500:]
        raise SystemExit(f"{tool} sent {len(times)} of {count} requests: {said}")
    rate = (len(times) - 1) / (times[-1][0] - times[0][0])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Test(percentiles(tool, out), of_times(times), rate, spent)


# ---- the comparison


def make_tokenizer(folder: Path) -> Path:
    """A tokenizer of bytes, so that no tool asks a hub for one."""
    tokenizers = importlib.import_module("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {letter: at for at, letter in enumerate(["<end>", *alphabet])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


def missing(programs: dict[str, str | None], tokenizer: str | None) -> dict[str, str]:
    """The tools that cannot run here, with the reason."""
    found = {}
    for tool, program in programs.items():
        if program is None or not Path(program).exists():
            found[tool] = "not installed, or no path to it was given"
        elif tokenizer is None and importlib.util.find_spec("tokenizers") is None:
            found[tool] = "needs a tokenizer, and tokenizers is not installed to make one"
    return found


def report(tests: dict[str, list[Test]], start: dict[str, float]) -> bool:
    """Print the tables; whether ours is as near to the truth and as cheap as the best."""
    print("\nReported by the client minus the server's log, ms: median of the turns (the log)")
    print(f"{'':10}{'p50':>20}{'p90':>20}{'p99':>20}")
    worst: dict[str, float] = defaultdict(float)
    for metric in METRICS:
        for tool, found in tests.items():
            cells = []
            for at in range(len(SHARES)):
                pairs = [(one.client[metric][at], one.truth[metric][at]) for one in found]
                off = statistics.median(client - truth for client, truth in pairs)
                truth = statistics.median(truth for _, truth in pairs)
                worst[tool] = max(worst[tool], abs(off))
                cells.append(f"{off:+9.2f} ({truth:7.2f})")
            print(f"{metric:8} {tool:9}" + "  ".join(f"{cell:>18}" for cell in cells))
    lateness = {}
    for tool, found in tests.items():
        late = [statistics.median(one.client[LATE][at] for one in found) for at in range(3)]
        lateness[tool] = late[0]
        print(f"{LATE:8} {tool:9}" + (" " * 11).join(f"{one:9.2f}" for one in late))
    print("\nclient     requests/s arrived   CPU ms/request   start-up, CPU s   farthest off, ms")
    each = {}
    for tool, found in tests.items():
        spent = statistics.median(one.cpu_seconds for one in found)
        each[tool] = 1000 * (spent - start[tool]) / (COUNT - FEW)
        rate = statistics.median(one.rate for one in found)
        print(f"{tool:10} {rate:18.2f} {each[tool]:16.2f} {start[tool]:17.2f} {worst[tool]:18.2f}")
    good = all(
        all(found["nodewise"] <= found[tool] for found in (each, worst, lateness)) for tool in tests
    )
    if len(tests) > 1:
        state = "Kept" if good else "MISSED"
        print(f"\n{state}: ours is nearest to the log, least late and needs least CPU.")
    return good


def main() -> int:
    """The comparison, the server, or our own client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="RECORD")
    parser.add_argument("--own", nargs=3, metavar=("URL", "COUNT", "FOLDER"))
    parser.add_argument("--guidellm", default=shutil.which("guidellm"))
    parser.add_argument("--aiperf", default=shutil.which("aiperf"))
    parser.add_argument("--tokenizer", help="a folder with a tokenizer; default: one of bytes")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--keep", type=Path, help="keep what the tools wrote in this folder")
    asked = parser.parse_args()
    if asked.serve:
        uvloop = importlib.import_module("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(Path(asked.serve)))
        return 0
    if asked.own:
        own(asked.own[0], int(asked.own[1]), Path(asked.own[2]))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        return compare(asked, asked.keep.resolve() if asked.keep else Path(scratch))


def compare(asked: argparse.Namespace, folder: Path) -> int:
    """Each tool in its turn."""
    given = {"GuideLLM": asked.guidellm, "AIPerf": asked.aiperf}
    absent = missing(given, asked.tokenizer)
    programs = {tool: str(program) for tool, program in given.items()}
    tools = ["nodewise", *(tool for tool in given if tool not in absent)]
    print(f"One server, {COUNT} requests at {RATE}/s, {TOKENS} tokens each, turns: {asked.turns}; "
          f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")  # fmt: skip
    for tool, reason in absent.items():
        print(f"{tool} is left out: {reason}.")
    tokenizer = Path(asked.tokenizer) if asked.tokenizer else folder / "tokenizer"
    if len(tools) > 1 and not asked.tokenizer:
        make_tokenizer(tokenizer)
    start = {
        tool: run(tool, FEW, folder / f"{tool}-few", programs, tokenizer).cpu_seconds
        for tool in tools
    }
    tests: dict[str, list[Test]] = {tool: [] for tool in tools}
    for turn in range(asked.turns):
        for tool in tools[turn % len(tools) :] + tools[: turn % len(tools)]:
            out = folder / f"{tool}-{turn}"
            tests[tool].append(run(tool, COUNT, out, programs, tokenizer))
    return 0 if report(tests, start) else 1


if __name__ == "__main__":
    sys.exit(main())
