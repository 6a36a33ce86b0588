"""A fifth set: ordinary tools, listed before the rules met them: `held_out_5.py NAME SECONDS`.

`PROGRAMS` names the ceiling of each, the reason, and the command; `{s}` is the number of seconds.
Where two ceilings cannot be told apart from outside, 'undecided' is a right answer too. A program
whose tool is not installed is left out.
"""
# ruff: noqa: E501, PTH102, PTH106, PTH112, PTH123 - a table of commands as users type them

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

PYTHON = sys.executable
NUMPY = "import time, sys, numpy as np; end = time.time() + {s}; r = np.random.default_rng(0)\n"
TORCH = "import time, torch; end = time.time() + {s}\n"

PROGRAMS = {
    # name: (ceiling, why, command of the shell)
    "openssl_sha256": ("compute", "hashes a block of 16 kB that stays in the cache", "openssl speed -seconds {s} -bytes 16384 sha256"),
    "openssl_rsa_two": ("compute", "two processes that multiply large numbers and share nothing", "openssl speed -seconds {s} -multi 2 rsa2048"),
    "gzip_best": ("compute", "its window is 32 kB; the input is in the page cache", "timeout {s} sh -c 'while :; do gzip -9 -c text >/dev/null; done'"),
    "bzip2_text": ("compute", "sorts blocks of 900 kB, which stay in the cache", "timeout {s} sh -c 'while :; do bzip2 -9 -c text >/dev/null; done'"),
    "xz_text": ("compute or undecided", "searches a dictionary of 8 MB: arithmetic and caches", "timeout {s} sh -c 'while :; do xz -6 -T1 -c text >/dev/null; done'"),
    "zstd_two_threads": ("compute or undecided", "two workers that compress blocks of their own", "timeout {s} zstd -15 -T2 -b15 -i{s} text"),
    "sysbench_cpu": ("compute", "divides to find primes, in registers", "sysbench cpu --time={s} run"),
    "stress_fft": ("compute", "a transform of 4096 numbers, in the cache", "stress-ng --cpu 2 --cpu-method fft -t {s}"),
    "stress_matrix": ("compute", "products of 128 x 128 matrices, in the cache", "stress-ng --matrix 1 --matrix-method prod --matrix-size 128 -t {s}"),
    "gcc_optimises": ("compute", "the compiler works on its own data; sources are in the page cache", "timeout {s} sh -c 'while :; do gcc -O3 -c many.c -o many.o; done'"),
    "bc_digits_of_pi": ("compute", "arithmetic on a few thousand digits", "echo 'scale=6000; a(1)*4' | timeout {s} bc -lq"),
    "perl_regex": ("compute", "matches one short text again and again", "timeout {s} perl -e 'while(1){ $t=\"abc123 x\" x 200; $n++ while $t=~/([a-c]+)(\\d+)/g }'"),
    "node_json": ("compute", "one thread parses a small text again and again", "timeout {s} node -e 'const t=JSON.stringify([...Array(500).keys()].map(i=>({i,n:\"x\"+i})));for(;;)JSON.parse(t)'"),
    "ffmpeg_mpeg4": ("compute", "motion search on small frames, one coding thread", "timeout {s} ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=640x360:rate=30 -c:v mpeg4 -threads 1 -f null -"),
    "numpy_product": ("compute", "900 operations for each number", "OPENBLAS_NUM_THREADS=1 {python} numpy_product.py"),
    "torch_convolution": ("compute or undecided", "hundreds of operations for each number; OpenMP threads wait by spinning", "OMP_NUM_THREADS=2 {python} torch_convolution.py"),
    "triad_in_c": ("memory bandwidth", "two operations for 24 bytes, arrays of 320 MB", "./triad {s}"),
    "mbw_copies": ("memory bandwidth", "copies 512 MB from memory to memory", "timeout {s} mbw -q -t0 -n 10000 512"),
    "numpy_add_in_place": ("memory bandwidth", "one operation for 24 bytes, arrays of 400 MB", "{python} numpy_add_in_place.py"),
    "numpy_vector_dot": ("memory bandwidth", "two operations for 16 bytes, arrays of 400 MB", "OPENBLAS_NUM_THREADS=1 {python} numpy_vector_dot.py"),
    "torch_momentum": ("memory bandwidth", "four operations for 20 bytes of 40 M parameters", "OMP_NUM_THREADS=1 {python} torch_momentum.py"),
    "triad_two_processes": ("memory bandwidth", "as above, one on each core", "./triad {s} & ./triad {s}; wait"),
    "fio_random_reads": ("data I/O", "one direct read of 4 kB at a time", "fio --name=r --filename=data --size=256m --rw=randread --bs=4k --direct=1 --ioengine=psync --runtime={s} --time_based --output=/dev/null"),
    "fio_sync_writes": ("data I/O", "every block is brought to the disk", "fio --name=w --filename=data --size=64m --rw=randwrite --bs=16k --fsync=1 --ioengine=psync --runtime={s} --time_based --output=/dev/null"),
    "dd_direct": ("data I/O", "blocks of 1 MB past the page cache", "timeout {s} sh -c 'while :; do dd if=data of=/dev/null bs=1M iflag=direct status=none; done'"),
    "sqlite_commits": ("data I/O", "every row is a transaction that reaches the disk", "{python} sqlite_commits.py"),
    "sleep_loop": ("latency", "waits for a clock", "timeout {s} sh -c 'while :; do sleep 0.05; done'"),
    "ping_slowly": ("latency", "an answer of 0.1 ms every 200 ms", "timeout {s} ping -q -i 0.2 127.0.0.1"),
    "redis_latency": ("latency", "a request of 0.1 ms, then a pause of 10 ms", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-cli -p {port} --latency >/dev/null; kill %1; wait"),
    "redis_small_requests": ("communication", "50 connections, a few bytes in each message", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-benchmark -p {port} -n 100000000 -q -t set,get >/dev/null; kill %1; wait"),
    "socat_stream": ("communication", "bytes through a socket and nothing else", "timeout {s} socat -u -b65536 TCP-LISTEN:{port},reuseaddr OPEN:/dev/null & sleep 0.3; timeout {s} socat -u -b65536 OPEN:/dev/zero TCP:127.0.0.1:{port}; wait"),
    "stress_sockets": ("communication", "messages through local sockets", "stress-ng --sock 1 -t {s}"),
    "gloo_broadcast": ("communication", "16 MB between two processes and no work", "OMP_NUM_THREADS=1 {python} gloo_broadcast.py"),
    "perf_messages": ("communication or coordination", "groups of processes that send 100 bytes through sockets", "timeout {s} perf bench sched messaging -g 4 -l 1000000"),
    "sysbench_one_mutex": ("coordination", "eight threads fight for one mutex", "timeout {s} sysbench mutex --threads=8 --mutex-num=1 --mutex-locks=100000000 --mutex-loops=0 run"),
    "sysbench_threads": ("coordination", "eight threads take turns with one lock, and yield in it", "sysbench threads --threads=8 --thread-locks=1 --time={s} run"),
    "stress_futex": ("coordination", "wait and wake between two processes", "stress-ng --futex 1 -t {s}"),
    "stress_semaphores": ("coordination", "processes that take one semaphore in turn", "stress-ng --sem-sysv 2 -t {s}"),
    "python_queue": ("coordination", "threads hand tiny items through a queue with a lock", "{python} python_queue.py"),
    "processes_one_lock": ("coordination", "four processes work only while they hold the one lock", "{python} processes_one_lock.py"),
    "numpy_fresh_arrays": ("page faults", "every array is fresh memory that is given back at once", "{python} numpy_fresh_arrays.py"),
    "stress_faults": ("page faults or undecided", "touches and drops pages of files and memory", "stress-ng --fault 1 -t {s}"),
    "list_over_limit": ("memory capacity", "a list that grows beyond the limit of the process", "ulimit -v 600000; {python} -c 'a=[]\nwhile True: a.append(bytes(9999))'"),
    "tail_over_group": ("memory capacity", "keeps an endless line; the control group allows 300 MB", "{group} tail /dev/zero"),
}  # fmt: skip

FILES = {
    "numpy_product": NUMPY + "a = r.random((900, 900))\nwhile time.time() < end: a @ a",
    "numpy_add_in_place": NUMPY + "a, b = r.random(50_000_000), r.random(50_000_000)\nwhile time.time() < end: a += b",
    "numpy_vector_dot": NUMPY + "a, b = r.random(50_000_000), r.random(50_000_000)\nwhile time.time() < end: a @ b",
    "numpy_fresh_arrays": NUMPY + "while time.time() < end: np.ones(2_000_000, np.int8).repeat(16)[::4096].sum()",
    "torch_convolution": TORCH + "n = torch.nn.Conv2d(64, 64, 3); x = torch.rand(8, 64, 56, 56)\nwith torch.no_grad():\n    while time.time() < end: n(x)",
    "torch_momentum": TORCH + "p = torch.nn.Parameter(torch.rand(40_000_000)); p.grad = torch.rand(40_000_000)\no = torch.optim.SGD([p], lr=1e-4, momentum=0.9)\nwhile time.time() < end: o.step()",
    "gloo_broadcast": TORCH + "import os, torch.distributed as d, torch.multiprocessing as m\n"
    "def work(rank, place):\n"
    "    d.init_process_group('gloo', init_method='file://' + place, rank=rank, world_size=2)\n"
    "    x, go = torch.rand(4_000_000), torch.ones(1)\n"
    "    while go[0]:\n"
    "        for _ in range(10): d.broadcast(x, 0)\n"
    "        go[0] = float(time.time() < end); d.broadcast(go, 0)\n"
    "if __name__ == '__main__': m.start_processes(work, (os.path.abspath('meet'),), 2, start_method='fork')",
    "sqlite_commits": "import sqlite3, time; end = time.time() + {s}\n"
    "c = sqlite3.connect('rows.db', isolation_level=None); c.execute('create table t(a)')\n"
    "while time.time() < end: c.execute('insert into t values (1)')",
    "python_queue": "import queue, threading, time; end = time.time() + {s}; q = queue.Queue(10)\n"
    "def give():\n    while time.time() < end: q.put(1)\n    q.put(None)\n"
    "t = threading.Thread(target=give); t.start()\nwhile q.get() is not None: pass\n",
    "processes_one_lock": "import multiprocessing as m, time; end = time.time() + {s}; l = m.Lock()\n"
    "def work():\n    while time.time() < end:\n        with l: sum(range(20000))\n"
    "if __name__ == '__main__':\n    p = [m.Process(target=work) for _ in range(4)]\n"
    "    [x.start() for x in p]; [x.join() for x in p]",
}  # fmt: skip

TRIAD = """
#include <stdlib.h>
#include <time.h>
#define N 40000000
int main(int c, char **v) {
  double *a = malloc(8L*N), *b = malloc(8L*N), *d = malloc(8L*N);
  for (long i = 0; i < N; i++) { a[i] = 1; b[i] = 2; d[i] = 3; }
  for (time_t end = time(0) + atoi(v[1]); time(0) < end;) {
    for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * d[i];
    __asm__ volatile("" ::: "memory");
  }
  return a[5] < 0;
}
"""


def _tool(name, command):
    """The program that a row needs, besides Python."""
    if "{group}" in command:
        return "tail" if os.access("/sys/fs/cgroup/memory", os.W_OK) else "missing"
    tools = ("openssl", "gzip", "bzip2", "xz", "zstd", "sysbench", "stress-ng", "gcc", "bc", "perl", "node",
             "ffmpeg", "mbw", "fio", "ping", "redis-server", "socat", "perf")  # fmt: skip
    return next((one for one in tools if one in command.split("{python}")[0]), "sh")


ZOO = {
    name: truth
    for name, (truth, _, command) in PROGRAMS.items()
    if shutil.which(_tool(name, command))
}


def _prepare(name, command, seconds):
    """Files that a row needs, in the folder it runs in."""
    if name in FILES:
        with open(f"{name}.py", "w") as file:
            file.write(FILES[name].replace("{s}", seconds))
    if " text" in command:
        words = [f"line {i * i % 9973} of {i * 7919 % 65537:x}\n" for i in range(300_000)]
        with open("text", "w") as file:
            file.writelines(words)
    if "many.c" in command:
        with open("many.c", "w") as file:
            file.writelines(
                f"int f{i}(int a, int *b) {{ int s = {i}; for (int j = 0; j < a; j++) s += b[j] * (j ^ {i});"
                " return s; }\n" for i in range(3000)
            )  # fmt: skip
    if "triad" in command:
        with open("triad.c", "w") as file:
            file.write(TRIAD)
        subprocess.run(["gcc", "-O3", "-march=native", "triad.c", "-o", "triad"], check=True)
    if "if=data" in command:
        with open("data", "wb") as file:
            for _ in range(512):
                file.write(os.urandom(2**20))
            os.fsync(file.fileno())


def _group(folder):
    """A shell prefix that enters a control group of 300 MB."""
    os.mkdir(folder)
    with open(f"{folder}/memory.limit_in_bytes", "w") as file:
        file.write("300M")
    return f"sh -c 'echo $$ > {folder}/cgroup.procs; exec \"$@\"' sh"


def run(programs, name, seconds):
    """Run one row in a folder of its own; a killed program gives its code on."""
    command = programs[name][2]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _prepare(name, command, seconds)
        group = f"/sys/fs/cgroup/memory/zoo-{os.getpid()}"
        filled = (
            command.replace("{s}", str(int(float(seconds))))
            .replace("{python}", PYTHON)
            .replace("{port}", str(20000 + os.getpid() % 20000))
        )
        if "{group}" in filled:
            filled = filled.replace("{group}", _group(group))
        done = subprocess.run(["bash", "-c", filled], check=False, stdout=subprocess.DEVNULL)
        for _ in range(
            20 if os.path.isdir(group) else 0
        ):  # what was killed leaves it a little later
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.1)
        os.chdir("/")
    # an end by `timeout` or by us is none by the program
    code = done.returncode if programs[name][0] == "memory capacity" else 0
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(run(PROGRAMS, sys.argv[1], sys.argv[2]))
