"""Programs whose ceiling is known, written before the rules met them: `held_out.py NAME SECONDS`.

`ZOO` names the ceiling of each. Where two ceilings cannot be told apart from outside, 'undecided'
is a right answer too.
"""
# ruff: noqa: D103, PTH118, PTH120, PTH123 - small programs as users write them

import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time

ZOO = {
    "regular_expressions": "compute",
    "solve_equations": "compute or undecided",  # parts of it stream
    "compress": "compute",
    "pool_of_processes": "compute",
    "sort_text": "compute or undecided",
    "scale_floats": "memory bandwidth",
    "copy_array": "memory bandwidth",
    "random_gather": "memory bandwidth or undecided",
    "sqlite_commits": "data I/O",
    "cold_reads": "data I/O",
    "copy_files": "data I/O",
    "many_small_files": "data I/O",
    "fresh_lists": "page faults or undecided",
    "fresh_numpy": "page faults",
    "web_service_client": "latency",
    "asyncio_sleepers": "latency",
    "child_that_sleeps": "latency",
    "queue_of_threads": "coordination",
    "manager_dictionary": "coordination or communication or undecided",
    "semaphore_processes": "coordination",
    "tcp_echo": "communication",
    "pipe_of_objects": "communication or coordination or undecided",
    "mpi_waits_spinning": "communication or coordination or undecided",
    "numpy_too_large": "memory capacity",
    "phases": "undecided",
}


def regular_expressions(until):
    import re

    text = "the quick brown fox " * 5000
    while time.time() < until:
        re.findall(r"(q\w+)\s+(b\w+)", text)


def solve_equations(until):
    import numpy as np

    generator = np.random.default_rng(0)
    matrix, right = generator.random((900, 900)), generator.random(900)
    while time.time() < until:
        np.linalg.solve(matrix, right)


def compress(until):
    import bz2

    block = os.urandom(300_000)
    while time.time() < until:
        bz2.compress(block)


def _squares(until):
    while time.time() < until:
        sum(number * number for number in range(50_000))


def pool_of_processes(until):
    children = [
        multiprocessing.get_context("fork").Process(target=_squares, args=(until,))
        for _ in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()


def sort_text(until):
    words = [os.urandom(8).hex() for _ in range(50_000)]
    while time.time() < until:
        sorted(words)


def scale_floats(until):
    import numpy as np

    values = np.ones(100_000_000, dtype=np.float32)
    while time.time() < until:
        np.multiply(values, np.float32(1.0001), out=values)


def copy_array(until):
    import numpy as np

    source = np.ones(40_000_000)
    target = np.zeros_like(source)
    while time.time() < until:
        np.copyto(target, source)


def random_gather(until):
    import numpy as np

    values = np.ones(50_000_000)
    places = np.random.default_rng(0).integers(0, len(values), 2_000_000)
    out = np.empty(len(places))
    while time.time() < until:
        np.take(values, places, out=out, mode="clip")


def sqlite_commits(until):
    import sqlite3

    with tempfile.TemporaryDirectory(dir=".") as folder:
        base = sqlite3.connect(f"{folder}/base.sqlite")
        base.execute("create table t (a int, b text)")
        number = 0
        while time.time() < until:
            with base:
                base.execute("insert into t values (?, ?)", (number, "x" * 100))
            number += 1


def cold_reads(until):
    with tempfile.NamedTemporaryFile(dir=".") as file:
        block = os.urandom(2**20)
        for _ in range(200):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        while time.time() < until:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with open(file.name, "rb", buffering=0) as again:
                while again.read(2**18):
                    pass


def copy_files(until):
    import shutil

    with tempfile.TemporaryDirectory(dir=".") as folder:
        with open(f"{folder}/a", "wb") as file:
            file.write(os.urandom(2**20) * 100)
        while time.time() < until:
            shutil.copyfile(f"{folder}/a", f"{folder}/b")
            os.sync()


def many_small_files(until):
    with tempfile.TemporaryDirectory(dir=".") as folder:
        number = 0
        while time.time() < until:
            door = os.open(f"{folder}/{number % 500}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.write(door, b"x" * 3000)
            os.fsync(door)
            os.close(door)
            number += 1


def fresh_lists(until):
    while time.time() < until:
        bytearray(64 * 2**20)


def fresh_numpy(until):
    import numpy as np

    while time.time() < until:
        np.ones(3_000_000, dtype=np.int8).repeat(16)


def web_service_client(until):
    import http.server
    import urllib.request

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(0.05)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    while time.time() < until:
        urllib.request.urlopen(address).read()


def asyncio_sleepers(until):
    import asyncio

    async def one():
        while time.time() < until:
            await asyncio.sleep(0.03)

    async def all_of_them():
        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(all_of_them())


def child_that_sleeps(until):
    while time.time() < until:
        subprocess.run(["sleep", "0.4"])


def queue_of_threads(until):
    todo, done = queue.Queue(2), queue.Queue(2)

    def work():
        while (item := todo.get()) is not None:
            done.put(sum(range(item)))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()

    def collect():
        while True:
            done.get()

    threading.Thread(target=collect, daemon=True).start()
    while time.time() < until:
        todo.put(2000)


def _count(shared, until):
    while time.time() < until:
        shared["n"] = shared.get("n", 0) + 1


def manager_dictionary(until):
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        shared = manager.dict()
        children = [context.Process(target=_count, args=(shared, until)) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()


def _guarded(guard, until):
    while time.time() < until:
        with guard:
            sum(range(200_000))


def semaphore_processes(until):
    context = multiprocessing.get_context("fork")
    guard = context.Semaphore(1)
    children = [context.Process(target=_guarded, args=(guard, until)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def tcp_echo(until):
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    if os.fork() == 0:
        door, _ = listener.accept()
        while message := door.recv(2**20):
            door.sendall(message)
        os._exit(0)
    door = socket.create_connection(address)
    block = bytes(4000)
    while time.time() < until:
        door.sendall(block)
        left = len(block)
        while left:
            left -= len(door.recv(left))


def _send_objects(door, until):
    while time.time() < until:
        door.send(list(range(2000)))
    door.send(None)


def pipe_of_objects(until):
    context = multiprocessing.get_context("fork")
    own, other = context.Pipe()
    child = context.Process(target=_send_objects, args=(other, until))
    child.start()
    while own.recv() is not None:
        pass
    child.join()


def mpi_waits_spinning(until):
    """Two ranks; one works, the other waits for it in a call that spins."""
    code = (
        "import time, sys; from mpi4py import MPI; c = MPI.COMM_WORLD\n"
        "end = float(sys.argv[1])\n"
        "go = True\n"
        "while go:\n"
        "    if c.rank == 0:\n"
        "        stop = time.time() + 0.05\n"
        "        while time.time() < stop: sum(range(1000))\n"
        "    go = c.bcast(time.time() < end)\n"
    )
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    subprocess.run([mpiexec, "-n", "2", sys.executable, "-c", code, str(until)])


def numpy_too_large(until):
    import numpy as np

    time.sleep(1)
    np.ones((300_000, 300_000)) @ np.ones((300_000, 300_000))


def phases(until):
    """Half of the time it computes, half of it waits: no one ceiling."""
    while time.time() < until:
        end = time.time() + 1.0
        while time.time() < end:
            sum(range(1000))
        time.sleep(1.0)


if __name__ == "__main__":
    globals()[sys.argv[1]](time.time() + float(sys.argv[2]))
