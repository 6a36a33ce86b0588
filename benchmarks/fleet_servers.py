"""Sweeps of real servers, from first start to decision, and of servers with errors.

    python benchmarks/fleet_servers.py [NAME ...]   # about six minutes in all

llama.cpp with a model of random weights, Ray Serve, FastAPI (streamed, and whole), nginx in front
of three replicas, and a scikit-learn model. Where service times are scripted the right number of
replicas follows from a simulation of the queue at the demand; where the server writes a log, the
latencies of the client are compared with it. Then nginx answers 404, 401, or with a self-signed
certificate. A server that is not installed is left out, with the reason. Exits with 1 if a decision
is wrong, or if an error takes more than 10 s or more than two lines.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heapreplace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nodewise.importers.serving.read import own_windows

HERE = Path(__file__).parent
SERVERS, EXAMPLES = HERE / "servers", HERE.parent / "examples/fleet"
MOST_SECONDS = 400
ERROR_SECONDS = 10.0
SPEC = """
name = "{name}"
replicas = {replicas}
rounds = 1
[server]
{server}
[request]
{request}
timeout_seconds = 10
[load]
window_seconds = 8
most_window_seconds = 32
warmup_seconds = 1
drain_seconds = 5
[objective]
{limit}
share = 0.95
[demand]
per_second = {demand}
[price]
per_replica_hour = 0.10
source = "an example"
"""
TOKENS = "prompt_words = [4, 24]\noutput_tokens = [8, 24]\noptions = { ignore_eos = true }"


class Queue(NamedTuple):
    """Replicas whose service times are scripted: seconds of an answer of n tokens."""

    slots: int
    first: float
    gap: float
    tokens: tuple[int, int]
    limit: float
    of_first_token: bool

    def good(self, rate: float, replicas: int) -> float:
        """The share of requests within the limit; they go where least are under way."""
        draw, count = np.random.default_rng(7), 40_000
        arrivals = np.cumsum(draw.exponential(1 / rate, count))
        answers = draw.integers(self.tokens[0], self.tokens[1] + 1, count)
        free = [0.0] * (self.slots * replicas)
        inside = 0
        for came, tokens in zip(arrivals.tolist(), answers.tolist(), strict=True):
            begun = max(came, free[0])
            whole = self.first + (tokens - 1) * self.gap
            heapreplace(free, begun + whole)
            used = begun - came + (self.first if self.of_first_token else whole)
            inside += used <= self.limit
        return inside / count

    def fewest(self, rate: float) -> int:
        """The fewest replicas that keep the limit."""
        return next(count for count in range(1, 20) if self.good(rate, count) >= 0.95)


class Fleet(NamedTuple):
    """A server, what is asked of it, and what is known about it."""

    name: str
    needs: tuple[str, ...]  # modules and programs
    replicas: str
    server: str
    request: str
    limit: str
    demand: float
    queue: Queue | None = None
    log: bool = False


def command(*words: object) -> str:
    """A command of a spec."""
    return f"command = {json.dumps(['{python}', *map(str, words)])}"


def fleets(folder: Path) -> Iterator[Fleet]:
    """The servers; logs go to the folder."""
    tokens = (8, 24)
    yield Fleet(
        "llama.cpp", ("xllamacpp",), "[1, 2]",
        command(EXAMPLES / "llama_server.py", "--port", "{port}", "--layers", "1")
        + '\nmetrics = "/metrics"',
        TOKENS, "ttft = 0.25", 10,
    )  # fmt: skip
    yield Fleet(
        "Ray Serve", ("ray",), "[1, 2, 3]",
        command(EXAMPLES / "ray_serve.py", "--port", "{port}", "--replicas", "{replicas}")
        + "\nbehind_one_port = true",
        TOKENS, "ttft = 0.5", 15, Queue(4, 0.1, 0.02, tokens, 0.5, True),
    )  # fmt: skip
    started = command(
        SERVERS / "fastapi_server.py", "--port", "{port}", "--log", folder / "fastapi-{replica}.log"
    )
    yield Fleet(
        "FastAPI, streamed", ("fastapi", "uvicorn"), "[1, 2, 3]", started, TOKENS,
        "ttft = 0.3", 30, Queue(4, 0.05, 0.01, tokens, 0.3, True), log=True,
    )  # fmt: skip
    yield Fleet(
        "FastAPI, whole", ("fastapi", "uvicorn"), "[1, 2, 3]", started,
        "stream = false\n" + TOKENS,
        "latency = 0.7", 30, Queue(4, 0.05, 0.01, tokens, 0.7, False), log=True,
    )  # fmt: skip
    yield Fleet(
        "nginx", ("/usr/sbin/nginx",), "[1, 2, 3]", "", TOKENS, "ttft = 0.3", 45,
        Queue(4, 0.05, 0.01, tokens, 0.3, True), log=True,
    )  # fmt: skip
    yield Fleet(
        "scikit-learn", ("sklearn",), "[1, 2]",
        command(SERVERS / "sklearn_server.py", "--port", "{port}",
                "--log", folder / "scikit-learn-{replica}.log"),
        'api = "plain"\npath = "/predict"\nbody = \'{"image": 17}\'',
        "latency = 0.3", 20, log=True,
    )  # fmt: skip


def absent(needs: tuple[str, ...]) -> str:
    """What is not installed."""
    for one in needs:
        found = shutil.which(one) if "/" in one else importlib.util.find_spec(one)
        if found is None:
            return one
    return ""


@contextmanager
def nginx(folder: Path) -> Iterator[int]:
    """Its port."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, SERVERS / "nginx.py", "start", folder],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=60)


def nodewise(*words: object) -> subprocess.CompletedProcess[str]:
    """The command line."""
    return subprocess.run(
        [sys.executable, "-m", "nodewise", *map(str, words)],
        capture_output=True, text=True, timeout=MOST_SECONDS,
    )  # fmt: skip


def swept(fleet: Fleet, server: str, folder: Path) -> bool:
    """One sweep, its decision and its checks; whether they hold."""
    name = fleet.name.replace(", ", "-").replace(" ", "-").lower()
    spec, study = folder / f"{name}.toml", folder / f"{name}.study"
    fields = {**fleet._asdict(), "server": server, "name": name}
    spec.write_text(SPEC.format(**fields))
    begun = time.monotonic()
    done = nodewise(
        "fleet", "sweep", spec, "-o", study, "--json", "--page", folder / f"{name}.html"
    )
    seconds = time.monotonic() - begun
    if done.returncode not in (0, 1) or not done.stdout:
        print(f"{fleet.name}: exit code {done.returncode}: {done.stderr[-600:]}")
        return False
    found = json.loads(done.stdout)
    windows = [one for one in own_windows(study / "windows.jsonl") if one.requests]
    requests = [one for window in windows for one in window.requests]
    failed = sum(bool(one.error) for one in requests)
    print(f"{fleet.name}: {headline(study)}")
    print(f"  {seconds:.0f} s, {len(windows)} windows, {len(requests)} requests, {failed} failed, "
          f"{sum(one.output_tokens for one in requests)} tokens")  # fmt: skip
    good = True
    chosen, rivals = found["chosen"], found.get("rivals") or []
    if fleet.queue is not None:
        right = fleet.queue.fewest(fleet.demand)
        shares = {
            count: fleet.queue.good(fleet.demand, count) for count in (right - 1, right) if count
        }
        good = right == chosen or (right in rivals)
        shown = ", ".join(f"r={count} {share:.1%}" for count, share in shares.items())
        print(f"  by arithmetic {right}: within the limit {shown}")
    if fleet.log:
        compare(fleet, folder, requests, name)
    return good


def headline(study: Path) -> str:
    """The first lines of the decision."""
    said = nodewise("fleet", "decide", study).stdout
    return " ".join(said.partition("\nBecause")[0].split()).partition(": ")[2]


def compare(fleet: Fleet, folder: Path, requests: list, name: str) -> None:
    """Latencies of the client beside those of the server's log."""
    logs = sorted(folder.glob(f"{name.partition('-')[0] if 'fastapi' in name else name}-*.log"))
    if fleet.name == "nginx":
        lines = (folder / "nginx/access.log").read_text().splitlines()
        own = [float(line.split()[2]) for line in lines if line.split()[1] == "200"]
    else:
        pairs = [line.split() for log in logs for line in log.read_text().splitlines()]
        own = [float(end) - float(came) for came, end in pairs]
    for log in logs:
        log.unlink()
    client = [one.last - one.intended for one in requests if one.last is not None]
    cells = [f"p{share} {1000 * np.percentile(client, share):.1f} ms, log "
             f"{1000 * np.percentile(own, share):.1f} ms" for share in (50, 95)]  # fmt: skip
    print(f"  latency: {'; '.join(cells)} ({len(own)} requests in the log, with warm-ups)")


ERRORS = {
    "404": ('endpoint = "http://127.0.0.1:{port}"', 'path = "/missing/v1/completions"'),
    "401": ('endpoint = "http://127.0.0.1:{port}"', 'path = "/closed/v1/completions"'),
    "certificate": ('endpoint = "https://127.0.0.1:{secure}"', ""),
    "certificate, trusted": ('endpoint = "https://127.0.0.1:{secure}"\nca = "{ca}"', ""),
}


def errors(port: int, folder: Path) -> bool:
    """What a server with an error gets; whether it is told in two lines, and soon."""
    good = True
    for name, (server, request) in ERRORS.items():
        spec = folder / "error.toml"
        ca = folder / "nginx/cert.pem"
        server = server.format(port=port, secure=port + 1, ca=ca)
        text = SPEC.format(name="error", replicas=3, server=server, request=request,
                           limit="ttft = 0.3", demand=5)  # fmt: skip
        spec.write_text(text)
        shutil.rmtree(folder / "error.study", ignore_errors=True)
        begun = time.monotonic()
        done = nodewise("fleet", "sweep", spec, "-o", folder / "error.study", "--json")
        seconds = time.monotonic() - begun
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        if name.endswith("trusted"):
            good = good and done.returncode == 0
            print(f"{name}: exit code {done.returncode} after {seconds:.1f} s")
            continue
        good = good and seconds < ERROR_SECONDS and done.returncode not in (0, 1)
        print(f"{name}: exit code {done.returncode} after {seconds:.1f} s")
        print("\n".join(f"  {line}" for line in lines))
    return good


def main() -> int:
    """Every server that is installed, then the errors."""
    wanted = sys.argv[1:]
    keep = os.environ.get("NODEWISE_KEEP")
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(keep or scratch).resolve()
        for fleet in fleets(folder):
            if wanted and not any(one in fleet.name for one in wanted):
                continue
            if lacking := absent(fleet.needs):
                print(f"{fleet.name} is left out: {lacking} is not installed.")
            elif fleet.name != "nginx":
                good = swept(fleet, fleet.server, folder) and good
            else:
                with nginx(folder / "nginx") as port:
                    scale = f"{sys.executable} {SERVERS}/nginx.py scale {folder}/nginx {{n}}"
                    server = f'endpoint = "http://127.0.0.1:{port}"\nscale = "{scale}"'
                    good = swept(fleet, server, folder) and good
                    good = errors(port, folder) and good
            sys.stdout.flush()
    print("Kept: decisions agree with the arithmetic, errors are shown at once."
          if good else "MISSED: a decision or an error.")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
