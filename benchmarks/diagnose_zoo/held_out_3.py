"""A third set that the rules had not met, of command-line tools mostly."""
# ruff: noqa: D103 - small programs as users write them

import asyncio
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

ZOO = {
    "gzip_noise": "compute",
    "checksum_zeros": "compute or undecided",  # half of it is the pipe
    "sort_lines": "compute or undecided",
    "dd_synced": "data I/O",
    "tar_to_disk": "data I/O or undecided",
    "shell_loop_of_programs": "compute or page faults or undecided",  # fork and exec
    "sleep_and_poll_files": "latency",
    "asyncio_server_slow_backend": "latency",
    "thread_pool_of_python": "coordination",
    "process_pool_of_tiny_tasks": "coordination or communication or undecided",
    "transpose": "memory bandwidth or page faults or undecided",
    "dot_products": "memory bandwidth",
    "eigenvalues": "compute or undecided",
}


def _shell(command, until):
    subprocess.run(["timeout", f"{until - time.time():.1f}", "sh", "-c", command], check=False)


def gzip_noise(until):
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(20_000_000))
        file.flush()
        _shell(f"while true; do gzip -c {file.name} > /dev/null; done", until)


def checksum_zeros(until):
    _shell("cat /dev/zero | sha256sum", until)


def sort_lines(until):
    _shell("while true; do seq 300000 | sort -R > /dev/null; done", until)


def dd_synced(until):
    with tempfile.TemporaryDirectory(dir=".") as folder:
        dd = f"dd if=/dev/zero of={folder}/x bs=64k count=2000 oflag=dsync 2> /dev/null"
        _shell(f"while true; do {dd}; done", until)


def tar_to_disk(until):
    with tempfile.TemporaryDirectory(dir=".") as folder:
        _shell(f"while true; do tar cf {folder}/x.tar /usr/lib/python3* ; sync; done", until)


def shell_loop_of_programs(until):
    _shell("while true; do /bin/true; done", until)


def sleep_and_poll_files(until):
    while time.time() < until:
        os.path.exists("/nowhere")  # noqa: PTH110
        time.sleep(0.1)


def asyncio_server_slow_backend(until):
    async def serve(reader, writer):
        await reader.readline()
        await asyncio.sleep(0.08)
        writer.write(b"ok\n")
        await writer.drain()
        writer.close()

    async def ask(port):
        while time.time() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x\n")
            await reader.readline()
            writer.close()

    async def both():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(ask(port) for _ in range(5)))

    asyncio.run(both())


def _work(size):
    return sum(number % 7 for number in range(size))


def thread_pool_of_python(until):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        while time.time() < until:
            list(pool.map(_work, [20_000] * 24))


def process_pool_of_tiny_tasks(until):
    with concurrent.futures.ProcessPoolExecutor(3) as pool:
        while time.time() < until:
            list(pool.map(_work, [10] * 500))


def transpose(until):
    import numpy as np

    matrix = np.ones((5000, 5000))
    out = np.empty_like(matrix)
    while time.time() < until:
        out[:] = matrix.T


def dot_products(until):
    import numpy as np

    left, right = np.ones(40_000_000), np.ones(40_000_000)
    while time.time() < until:
        left.dot(right)


def eigenvalues(until):
    import numpy as np

    matrix = np.random.default_rng(0).random((300, 300))
    while time.time() < until:
        np.linalg.eigvals(matrix)


if __name__ == "__main__":
    globals()[sys.argv[1]](time.time() + float(sys.argv[2]))
