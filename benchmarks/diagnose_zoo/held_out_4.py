"""A fourth set, written before the rules of that day met it: `held_out_4.py NAME SECONDS`.

The rules were frozen, then each program was run for the first time. `ZOO` names the ceiling of
each; where two cannot be told apart from outside, 'undecided' is a right answer too.
"""
# ruff: noqa: D103, PTH108, PTH110, PTH120, PTH123 - small programs as users write them

import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

ZOO = {
    "hash_blocks": "compute",
    "mandelbrot": "compute",
    "shell_arithmetic": "compute",
    "decimal_digits": "compute",
    "two_independent_workers": "compute",
    "running_difference": "memory bandwidth",
    "fill_large_array": "memory bandwidth",
    "transpose_large": "memory bandwidth or undecided",
    "direct_random_reads": "data I/O",
    "shelve_and_sync": "data I/O",
    "tar_with_sync": "data I/O or undecided",
    "fresh_mappings": "page faults",
    "poll_a_file": "latency",
    "rpc_with_think_time": "latency",
    "thread_pool_behind_a_lock": "coordination",
    "token_ring": "coordination or communication or undecided",
    "barrier_of_threads": "coordination",
    "http_small_requests": "communication or undecided",
    "udp_flood": "communication or undecided",
    "spin_on_shared_flag": "coordination or undecided",
    "mpi_halo": "communication or coordination or undecided",
    "dictionary_too_large": "memory capacity",
    "compute_then_read": "undecided",
}


def hash_blocks(until):
    import hashlib

    block = os.urandom(50_000)
    while time.time() < until:
        hashlib.sha512(block).digest()


def mandelbrot(until):
    while time.time() < until:
        for column in range(40):
            c, z = complex(-1.5 + column * 0.05, 0.1), 0j
            for _ in range(200):
                z = z * z + c
                if abs(z) > 2:
                    break


def shell_arithmetic(until):
    loop = "i=0; while :; do i=$((i * 7 % 1000 + 1)); done"
    subprocess.run(["timeout", str(until - time.time()), "sh", "-c", loop], check=False)


def decimal_digits(until):
    from decimal import Decimal, getcontext

    getcontext().prec = 300
    while time.time() < until:
        Decimal(2).sqrt() * Decimal(3).sqrt()


def _factor(until):
    while time.time() < until:
        number, divisor = 1_000_003 * 999_983, 2
        while number % divisor and divisor < 30_000:
            divisor += 1


def two_independent_workers(until):
    if os.fork() == 0:
        _factor(until)
        os._exit(0)
    _factor(until)
    os.wait()


def running_difference(until):
    import numpy as np

    values = np.random.default_rng(0).random(60_000_000)
    out = np.empty(len(values) - 1)
    while time.time() < until:
        np.subtract(values[1:], values[:-1], out=out)


def fill_large_array(until):
    import numpy as np

    values = np.zeros(80_000_000)
    number = 0
    while time.time() < until:
        number += 1
        values.fill(number)


def transpose_large(until):
    import numpy as np

    values = np.random.default_rng(0).random((6000, 6000))
    out = np.empty_like(values)
    while time.time() < until:
        np.copyto(out, values.T)


def direct_random_reads(until):
    import mmap
    import random

    with tempfile.NamedTemporaryFile(dir=".") as file:
        for _ in range(64):
            file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
        door = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        while time.time() < until:
            os.preadv(door, [page], random.randrange(64 * 256) * 4096)


def shelve_and_sync(until):
    import dbm.dumb

    with tempfile.TemporaryDirectory(dir=".") as folder:
        base = dbm.dumb.open(f"{folder}/base")  # noqa: SIM115
        number = 0
        while time.time() < until:
            base[str(number % 50)] = b"x" * 2000
            base.sync()
            os.sync()
            number += 1
        base.close()


def tar_with_sync(until):
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for number in range(20):
            with open(f"{folder}/{number}", "wb") as file:
                file.write(os.urandom(2**21))
        while time.time() < until:
            subprocess.run(["tar", "-C", folder, "-cf", f"{folder}.tar", "."], check=False)
            subprocess.run(["sync", f"{folder}.tar"], check=False)
        os.unlink(f"{folder}.tar")


def fresh_mappings(until):
    import mmap

    while time.time() < until:
        with mmap.mmap(-1, 16 * 2**20) as memory:
            memory.write(bytes(1) * (16 * 2**20))


def poll_a_file(until):
    while time.time() < until:
        os.path.exists("/tmp/never-there")
        time.sleep(0.01)


def rpc_with_think_time(until):
    own, other = multiprocessing.Pipe()

    def serve():
        while True:
            question = other.recv()
            time.sleep(0.03)
            other.send(question)

    threading.Thread(target=serve, daemon=True).start()
    while time.time() < until:
        own.send([1, 2, 3])
        own.recv()


def thread_pool_behind_a_lock(until):
    import hashlib
    from concurrent.futures import ThreadPoolExecutor

    lock, block = threading.Lock(), os.urandom(1_000_000)

    def work():
        while time.time() < until:
            with lock:
                hashlib.sha256(block).digest()

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(work)


def token_ring(until):
    pipes = [os.pipe() for _ in range(3)]
    for number in range(1, 3):
        if os.fork() == 0:
            while token := os.read(pipes[number - 1][0], 1):
                os.write(pipes[number][1], token)
                if token == b"q":
                    os._exit(0)
    while time.time() < until:
        os.write(pipes[0][1], b"t")
        os.read(pipes[2][0], 1)
    os.write(pipes[0][1], b"q")


def barrier_of_threads(until):
    import zlib

    barrier, block = threading.Barrier(3, timeout=2), os.urandom(100_000)

    def work(many):
        while time.time() < until:
            for _ in range(many):
                zlib.compress(block)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(many,)) for many in (8, 1, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def http_small_requests(until):
    import http.client
    import http.server

    class Quick(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Quick)
    if os.fork() == 0:
        server.handle_request()
        while time.time() < until + 1:
            server.handle_request()
        os._exit(0)
    while time.time() < until:
        door = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=2)
        door.request("GET", "/")
        door.getresponse().read()
        door.close()


def udp_flood(until):
    taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taker.bind(("127.0.0.1", 0))
    if os.fork() == 0:
        taker.settimeout(1)
        try:
            while True:
                taker.recv(2000)
        except TimeoutError:
            os._exit(0)
    giver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while time.time() < until:
        giver.sendto(bytes(1000), taker.getsockname())


def _spin(flag, own, until):
    while time.time() < until:
        while flag.value != own and time.time() < until:
            pass
        sum(range(3000))
        flag.value = 1 - own


def spin_on_shared_flag(until):
    context = multiprocessing.get_context("fork")
    flag = context.Value("i", 0, lock=False)
    child = context.Process(target=_spin, args=(flag, 1, until))
    child.start()
    _spin(flag, 0, until)
    child.join()


def mpi_halo(until):
    """Two ranks that swap small edges again and again."""
    code = (
        "import time, sys; from mpi4py import MPI; import numpy as np; c = MPI.COMM_WORLD\n"
        "own, other, go = np.ones(512), np.ones(512), np.ones(1)\n"
        "while go[0]:\n"
        "    c.Sendrecv(own, 1 - c.rank, recvbuf=other, source=1 - c.rank)\n"
        "    own += other * 1e-9\n"
        "    go[0] = time.time() < float(sys.argv[1])\n"
        "    c.Bcast(go)\n"
    )
    mpiexec = f"{os.path.dirname(sys.executable)}/mpiexec"
    subprocess.run([mpiexec, "-n", "2", sys.executable, "-c", code, str(until)], check=False)


def dictionary_too_large(until):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
    kept = {}
    while time.time() < until + 60:
        kept[len(kept)] = bytes(5000)


def compute_then_read(until):
    """Two seconds of work, two of direct reading: no one ceiling."""
    half = (time.time() + until) / 2
    hash_blocks(half)
    direct_random_reads(until)


if __name__ == "__main__":
    globals()[sys.argv[1]](time.time() + float(sys.argv[2]))
