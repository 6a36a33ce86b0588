"""Small programs whose ceiling is known, used to choose the thresholds: `tuning.py NAME SECONDS`.

Each function runs for about so many seconds and names its ceiling in `ZOO`.
"""
# ruff: noqa: D103, SIM115 - small programs as users write them

import mmap
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time

ZOO = {
    "python_loop": "compute",
    "matrix_product": "compute",
    "hashing": "compute",
    "add_arrays": "memory bandwidth",
    "sum_array": "memory bandwidth",
    "direct_read": "data I/O",
    "write_sync": "data I/O",
    "small_syncs": "data I/O",
    "fresh_arrays": "page faults",
    "remote_call": "latency",
    "poll_clock": "latency",
    "gil_threads": "coordination",
    "locked_threads": "coordination",
    "barrier_processes": "coordination",
    "socket_exchange": "communication",
    "out_of_memory": "memory capacity",
}


def python_loop(until):
    total = 0
    while time.time() < until:
        for number in range(100_000):
            total += number * number % 7


def matrix_product(until):
    import numpy as np

    a, b = np.ones((800, 800)), np.ones((800, 800))
    while time.time() < until:
        a @ b


def hashing(until):
    import hashlib

    block = bytes(100_000)
    while time.time() < until:
        hashlib.sha256(block).digest()


def add_arrays(until):
    import numpy as np

    a, b = np.zeros(30_000_000), np.ones(30_000_000)
    while time.time() < until:
        np.add(a, b, out=a)


def sum_array(until):
    import numpy as np

    a = np.ones(60_000_000)
    while time.time() < until:
        a.max()


def _file(size):
    file = tempfile.NamedTemporaryFile(dir=".")
    block = os.urandom(2**20)
    for _ in range(size // 2**20):
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
    return file


def direct_read(until):
    with _file(128 * 2**20) as file, mmap.mmap(-1, 2**20) as buffer:
        door = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        at = 0
        while time.time() < until:
            os.preadv(door, [buffer], at * 2**20)
            at = (at + 1) % 128


def write_sync(until):
    block = os.urandom(8 * 2**20)
    with tempfile.NamedTemporaryFile(dir=".") as file:
        while time.time() < until:
            file.seek(0)
            for _ in range(4):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())


def small_syncs(until):
    with tempfile.NamedTemporaryFile(dir=".") as file:
        while time.time() < until:
            file.write(b"x" * 200)
            file.flush()
            os.fsync(file.fileno())


def fresh_arrays(until):
    while time.time() < until:
        with mmap.mmap(-1, 32 * 2**20) as memory:
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1


def _serve_slowly(door):
    while door.recv(10):
        time.sleep(0.02)
        door.send(b"y")


def remote_call(until):
    own, other = socket.socketpair()
    threading.Thread(target=_serve_slowly, args=(other,), daemon=True).start()
    while time.time() < until:
        own.send(b"x")
        own.recv(10)


def poll_clock(until):
    while time.time() < until:
        time.sleep(0.005)


def gil_threads(until):
    threads = [threading.Thread(target=python_loop, args=(until,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def locked_threads(until):
    import zlib

    lock, block = threading.Lock(), os.urandom(200_000)

    def work():
        while time.time() < until:
            with lock:
                zlib.compress(block)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _meet(barrier, until, number):
    while time.time() < until:
        end = time.time() + (0.02 if number == 0 else 0.001)
        while time.time() < end:
            sum(range(1000))
        barrier.wait()


def barrier_processes(until):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3, timeout=1)
    children = [context.Process(target=_meet, args=(barrier, until, n)) for n in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def _take(door):
    while door.recv(2**16):
        pass


def socket_exchange(until):
    own, other = socket.socketpair()
    if os.fork() == 0:
        own.close()
        _take(other)
        os._exit(0)
    other.close()
    block = bytes(2**16)
    while time.time() < until:
        own.sendall(block)


def out_of_memory(until):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    kept = []
    while time.time() < until + 60:
        kept.append(bytearray(20 * 2**20))
        time.sleep(0.02)


if __name__ == "__main__":
    globals()[sys.argv[1]](time.time() + float(sys.argv[2]))
