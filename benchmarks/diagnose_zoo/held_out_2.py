"""A second set that the rules had not met, written after the first had been looked at.

Two labels were mended after getrusage had contradicted them: `fourier` spends 60 % of its time in
195,000 page faults (1 % when malloc keeps the memory), and `bytes_again` has hardly any. A program
that sleeps until it is killed with little memory was first labelled memory capacity, wrongly.
"""
# ruff: noqa: D103 - small programs as users write them

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

ZOO = {
    "prime_numbers": "compute",
    "parse_json": "compute",
    "fourier": "page faults",
    "awk_script": "compute",
    "two_streams": "memory bandwidth",
    "daxpy": "memory bandwidth",
    "append_log": "data I/O",
    "dd_direct": "data I/O",
    "pickle_to_disk": "data I/O or undecided",
    "mapped_file": "data I/O",
    "bytes_again": "compute or undecided",
    "shell_pause": "latency",
    "udp_request": "latency",
    "condition_variable": "coordination",
    "two_thread_ping_pong": "coordination or communication or undecided",
    "unix_messages": "communication",
    "bulk_tcp": "communication",
    "killed": "latency or undecided",
    "list_too_long": "memory capacity",
}


def prime_numbers(until):
    number = 3
    while time.time() < until:
        all(number % divisor for divisor in range(2, 2000))
        number += 2


def parse_json(until):
    import json

    text = json.dumps([{"a": n, "b": str(n)} for n in range(2000)])
    while time.time() < until:
        json.loads(text)


def fourier(until):
    import numpy as np

    signal = np.random.default_rng(0).random(2**14)
    while time.time() < until:
        np.fft.fft(signal)


def awk_script(until):
    subprocess.run(
        ["timeout", str(until - time.time()), "awk", "BEGIN{while(1){x=x*3%7+1}}"], check=False
    )


def two_streams(until):
    if os.fork() == 0:
        daxpy(until)
        os._exit(0)
    daxpy(until)
    os.wait()


def daxpy(until):
    import numpy as np

    x, y = np.ones(25_000_000), np.zeros(25_000_000)
    while time.time() < until:
        np.subtract(y, x, out=y)


def append_log(until):
    with tempfile.NamedTemporaryFile(dir=".") as file:
        door = os.open(file.name, os.O_WRONLY | os.O_APPEND | os.O_DSYNC)
        while time.time() < until:
            os.write(door, b"line " * 100)


def dd_direct(until):
    with tempfile.TemporaryDirectory(dir=".") as folder:
        while time.time() < until:
            subprocess.run(
                ["dd", "if=/dev/zero", f"of={folder}/x", "bs=1M", "count=400", "oflag=direct"],
                stderr=subprocess.DEVNULL,
            )


def pickle_to_disk(until):
    import pickle

    block = os.urandom(30_000_000)
    with tempfile.NamedTemporaryFile(dir=".") as file:
        while time.time() < until:
            file.seek(0)
            pickle.dump(block, file)
            file.flush()
            os.fsync(file.fileno())


def mapped_file(until):
    import mmap
    import random

    with tempfile.NamedTemporaryFile(dir=".") as file:
        for _ in range(150):
            file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
        while time.time() < until:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                view.madvise(mmap.MADV_RANDOM)
                places = list(range(0, len(view), 4096))
                random.shuffle(places)
                for place in places[:10_000]:
                    view[place]


def bytes_again(until):
    while time.time() < until:
        bytes(3 * 2**20)


def shell_pause(until):
    subprocess.run(
        ["sh", "-c", f"for i in $(seq {int((until - time.time()) * 5)}); do sleep 0.2; done"]
    )


def udp_request(until):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def answer():
        while True:
            data, who = server.recvfrom(100)
            time.sleep(0.01)
            server.sendto(data, who)

    threading.Thread(target=answer, daemon=True).start()
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while time.time() < until:
        client.sendto(b"x", server.getsockname())
        client.recvfrom(100)


def condition_variable(until):
    turn, condition = [0], threading.Condition()

    def work(own):
        while time.time() < until:
            with condition:
                condition.wait_for(lambda: turn[0] == own or time.time() > until, timeout=1)
                sum(range(20_000))
                turn[0] = (own + 1) % 4
                condition.notify_all()

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def two_thread_ping_pong(until):
    first, second = threading.Semaphore(1), threading.Semaphore(0)

    def work(own, other):
        while time.time() < until:
            own.acquire(timeout=1)
            other.release()

    thread = threading.Thread(target=work, args=(second, first))
    thread.start()
    work(first, second)
    thread.join()


def unix_messages(until):
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        own.close()
        while message := other.recv(100):
            other.send(message)
        os._exit(0)
    other.close()
    while time.time() < until:
        own.send(b"x" * 64)
        own.recv(100)


def bulk_tcp(until):
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        door, _ = listener.accept()
        buffer = bytearray(2**20)
        while door.recv_into(buffer):
            pass
        os._exit(0)
    door = socket.create_connection(listener.getsockname())
    block = bytes(2**20)
    while time.time() < until:
        door.sendall(block)


def killed(until):
    time.sleep(max(until - time.time(), 0))
    os.kill(os.getpid(), 9)


def list_too_long(until):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
    found = []
    while True:
        found.append("x" * 1000)


if __name__ == "__main__":
    globals()[sys.argv[1]](time.time() + float(sys.argv[2]))
