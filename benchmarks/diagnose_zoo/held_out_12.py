"""A twelfth set of ordinary programs, listed before the rules met them: `held_out_12.py NAME SECONDS`.

Every row has one ceiling, or two where a message and a wait for it are the same thing; 'undecided'
is never a right answer. Programs in C and Fortran are made once: run a row once before it is
watched, so that their making is not watched too.
"""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import shutil
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_9", Path(__file__).with_name("held_out_9.py")
)
ninth = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ninth)
shared, MADE = ninth.shared, ninth.MADE

PROGRAMS = {
    # each works on data of its own that the caches hold
    "python_mandelbrot": ("compute", "an interpreter over complex numbers", "{python} python_mandelbrot.py"),
    "scipy_integrates": ("compute", "integrals of a function in Python", "{python} scipy_integrates.py"),
    "sklearn_forest": ("compute", "one thread that grows trees over 900 kB", "{python} sklearn_forest.py"),
    "lua_sieve": ("compute", "an interpreter that sieves 20,000 numbers", "timeout {s} lua5.4 -e 'while true do local p = {} for i = 2, 20000 do if not p[i] then for j = i * i, 20000, i do p[j] = true end end end end'"),
    "openssl_signs_ecdsa": ("compute", "signatures, one after another", "openssl speed -seconds {s} ecdsap384"),
    "node_patterns": ("compute", "regular expressions over one sentence", "timeout {s} node -e 'const t = \"the quick brown fox jumps over the lazy dog \".repeat(50); for (;;) t.match(/(\\w+)\\s(?=\\w+\\s\\w+x)/g)'"),
    "perl_counts_words": ("compute", "counts words of 6 MB in the page cache", "timeout {s} perl -e 'while (1) { my %n; open F, \"<\", \"text\"; while (<F>) { $n{$_}++ for split } }' text"),
    "c_products_two": ("compute", "two processes, products of matrices of 320 kB", "for i in 1 2; do {made}/product {s} & done; wait"),
    "bc_digits": ("compute", "digits of an arctangent", "timeout {s} sh -c 'while :; do echo \"scale=1500; a(1)*4\" | bc -l >/dev/null; done'"),
    # each operation needs new bytes from memory; the caches hold a tenth or less
    "numpy_column_sums": ("memory bandwidth", "one addition for 8 bytes of 400 MB", "{python} numpy_column_sums.py"),
    "numpy_multiplies_out": ("memory bandwidth", "one operation for 24 bytes of three arrays of 300 MB", "{python} numpy_multiplies_out.py"),
    "fortran_dot": ("memory bandwidth", "two operations for 16 bytes of two vectors of 400 MB", "{made}/dots {s}"),
    "c_copies_backwards": ("memory bandwidth", "copies 300 MB from its end to its start", "{made}/backwards {s}"),
    # each waits for the disk
    "dd_every_block": ("data I/O", "blocks of 16 kB, each brought to the disk", "timeout {s} dd if=/dev/zero of=blocks bs=16k count=10000000 oflag=dsync status=none"),
    "python_sqlite_rows": ("data I/O", "every row is a transaction", "{python} python_sqlite_rows.py"),
    "python_direct_pages": ("data I/O", "pages at random places, past the page cache", "{python} python_direct_pages.py {made}/data"),
    "python_log_flushes": ("data I/O", "a log whose every line is brought to the disk", "{python} python_log_flushes.py"),
    "shell_syncs_copies": ("data I/O", "copies of 8 MB, each brought to the disk", "head -c 8M /dev/urandom >one; timeout {s} sh -c 'while :; do dd if=one of=two bs=1M conv=fsync status=none; done'"),
    # each page is used once
    "c_fresh_blocks": ("page faults", "blocks of 64 MB, touched once and given back", "{made}/fresh_blocks {s}"),
    "numpy_fresh_tables": ("page faults", "a fresh table of 200 MB each time", "{python} numpy_fresh_tables.py"),
    "python_forks_and_writes": ("page faults", "children that write into every page of their parent", "{python} python_forks_and_writes.py"),
    # each waits for a clock, its own or that of a server
    "python_polls_queue": ("latency", "looks into an empty queue 20 times a second", "{python} python_polls_queue.py"),
    "node_interval": ("latency", "a small sum every 25 ms", "timeout {s} node -e 'let n = 0; setInterval(() => { for (let i = 0; i < 20000; i++) n += i % 7 }, 25)'"),
    "shell_every_fifth": ("latency", "a short command five times a second", "timeout {s} sh -c 'while :; do date >>dates; sleep 0.2; done'"),
    "python_slow_answers": ("latency", "one request after another to a server that takes 60 ms", "{python} python_slow_answers.py {port}"),
    "c_paced_work": ("latency", "1 ms of work every 12 ms", "{made}/paced {s}"),
    # each part waits until another has done something
    "c_mutex_three": ("coordination", "three threads work 0.2 ms only while they hold the one mutex", "{made}/mutex_three {s}"),
    "c_barrier_four": ("coordination", "four threads with shares of 1 to 4 meet after each step", "{made}/barrier_four {s}"),
    "python_lock_three": ("coordination", "three processes work 2 ms only while they hold the one lock", "{python} python_lock_three.py"),
    "python_threads_parse": ("coordination", "three threads of Python code under the one lock of the interpreter", "{python} python_threads_parse.py"),
    "perl_token_pipes": ("coordination or communication", "two processes pass one byte to and fro", "timeout {s} perl -e 'pipe A, B; pipe C, D; if (fork) { while (1) { syswrite B, \"x\"; sysread C, $y, 1 } } else { while (1) { sysread A, $y, 1; syswrite D, \"x\" } }'"),
    "node_workers_turns": ("coordination", "two workers wait for each other's turn", "timeout {s} node turns.js"),
    # each moves bytes between processes and does little else
    "python_pipe_blocks": ("communication", "blocks of 1 MB through a pipe of processes", "{python} python_pipe_blocks.py"),
    "redis_bench_small": ("communication", "small commands of ten clients", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-benchmark -p {port} -t set,get -c 10 -n 100000000 -q >/dev/null; kill %1; wait"),
    "python_datagrams": ("communication", "datagrams of 1400 bytes from one process to another", "{python} python_datagrams.py {port}"),
    "curl_large_file": ("communication", "a file of 200 MB in the page cache, fetched again and again", "head -c 200M /dev/zero >large; {python} -m http.server -b 127.0.0.1 {port} >/dev/null 2>&1 & sleep 0.7; timeout {s} sh -c 'while :; do curl -s -o /dev/null http://127.0.0.1:{port}/large; done'; kill %1; wait"),
    "c_packets": ("communication", "packets of 4 kB through a local socket between two processes", "{made}/packets {s}"),
    # each ends because it may have no more memory
    "node_heap_limit": ("memory capacity", "keeps all objects, until the limit of its heap", "node --max-old-space-size=250 -e 'const a = []; for (let i = 0; ; i++) a.push({ i, s: String(i).repeat(4) })'"),
    "perl_over_ulimit": ("memory capacity", "keeps all lines, until the limit of the process", "ulimit -v 700000; perl -e '$i = 0; while (1) { push @a, join(\",\", $i .. $i + 200); $i++ }'"),
    "python_group_kill": ("memory capacity", "keeps all rows; the control group allows 300 MB and kills", "{group} {python} python_group_kill.py"),
}  # fmt: skip
TWO = "import multiprocessing as m, time; end = time.time() + {s}\n"
shared.FILES.update(
    {
        "python_mandelbrot": "import time; end = time.time() + {s}\nwhile time.time() < end:\n    for i in range(200):\n        c = complex(-2 + i / 80, 0.3); z = 0j; n = 0\n        while abs(z) < 2 and n < 200: z = z * z + c; n += 1",
        "scipy_integrates": "import math, time; from scipy.integrate import quad; end = time.time() + {s}\nwhile time.time() < end: quad(lambda x: math.sin(50 * x) * math.exp(-x), 0, 10, limit=200)",
        "sklearn_forest": "import time; from sklearn.datasets import load_digits; from sklearn.ensemble import RandomForestClassifier as F; end = time.time() + {s}; x, y = load_digits(return_X_y=True)\nwhile time.time() < end: F(20, n_jobs=1).fit(x, y)",
        "numpy_column_sums": shared.NUMPY + "a = r.random((50_000, 1000)); o = np.empty(1000)\nwhile time.time() < end: a.sum(axis=0, out=o)",
        "numpy_multiplies_out": shared.NUMPY + "a, b = r.random(37_500_000), r.random(37_500_000); c = np.zeros_like(a)\nwhile time.time() < end: np.multiply(a, b, out=c)",
        "python_sqlite_rows": "import sqlite3, time; end = time.time() + {s}; d = sqlite3.connect('rows.db', isolation_level=None); d.execute('pragma synchronous=full'); d.execute('create table t (i, w)'); i = 0\nwhile time.time() < end: d.execute('insert into t values (?, ?)', (i, 'word' * 20)); i += 1",
        "python_direct_pages": "import mmap, os, random, sys, time; end = time.time() + {s}; f = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); b = mmap.mmap(-1, 4096); n = os.fstat(f).st_size // 4096\nwhile time.time() < end: os.preadv(f, [b], 4096 * random.randrange(n))",
        "python_log_flushes": "import os, time; end = time.time() + {s}; f = open('log', 'w'); i = 0\nwhile time.time() < end: f.write(f'{i} a line of a log\\n'); f.flush(); os.fsync(f.fileno()); i += 1",
        "numpy_fresh_tables": shared.NUMPY + "while time.time() < end: np.full((5000, 5000), 1.5)[0, 0]",
        "python_forks_and_writes": "import mmap, os, time; end = time.time() + {s}; n = 300 << 20; b = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE); b[:] = b'x' * n\n"
        "while time.time() < end:\n    if os.fork() == 0:\n        for i in range(0, n, 4096): b[i] = 1\n        os._exit(0)\n    os.wait()",
        "python_polls_queue": "import queue, time; end = time.time() + {s}; q = queue.Queue()\nwhile time.time() < end:\n    try: q.get(timeout=0.05)\n    except queue.Empty: pass",
        "python_slow_answers": "import http.client, http.server, sys, threading, time; end = time.time() + {s}\n"
        "class H(http.server.BaseHTTPRequestHandler):\n    protocol_version = 'HTTP/1.1'\n    def log_message(self, *a): pass\n"
        "    def do_GET(self): time.sleep(0.06); self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'ok')\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H); threading.Thread(target=s.serve_forever, daemon=True).start(); c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
        "while time.time() < end: c.request('GET', '/'); c.getresponse().read()",
        "python_lock_three": TWO + "def work(l):\n    while time.time() < end:\n        with l:\n            until = time.thread_time() + 0.002\n            while time.thread_time() < until: pass\n"
        "if __name__ == '__main__':\n    l = m.Lock(); p = [m.Process(target=work, args=(l,)) for _ in range(3)]\n    [x.start() for x in p]; [x.join() for x in p]",
        "python_threads_parse": "import json, threading, time; end = time.time() + {s}; t = json.dumps([{'i': i, 'w': 'w' * (i % 9)} for i in range(300)])\n"
        "def work():\n    while time.time() < end: sum(len(x['w']) for x in json.loads(t))\n"
        "p = [threading.Thread(target=work) for _ in range(3)]; [x.start() for x in p]; [x.join() for x in p]",
        "python_pipe_blocks": TWO + "def give(c):\n    b = b'x' * 1_000_000\n    while time.time() < end: c.send_bytes(b)\n    c.send_bytes(b'')\n"
        "if __name__ == '__main__':\n    a, b = m.Pipe(False); p = m.Process(target=give, args=(b,)); p.start()\n    while a.recv_bytes(): pass\n    p.join()",
        "python_datagrams": TWO + "import socket, sys\ndef give(port):\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', port)); b = b'x' * 1400\n"
        "    while time.time() < end:\n        try: s.send(b)\n        except OSError: pass\n"
        "if __name__ == '__main__':\n    port = int(sys.argv[1]); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', port)); s.settimeout(0.5); p = m.Process(target=give, args=(port,)); p.start()\n"
        "    while time.time() < end:\n        try: s.recv(2000)\n        except TimeoutError: pass\n    p.join()",
        "python_group_kill": "a = []\nwhile True: a.append({i: str(i) * 3 for i in range(len(a), len(a) + 50)})",
    }
)  # fmt: skip
ninth.BESIDE.update(
    {
        "turns.js": (
            "turns.js",
            "const { Worker, isMainThread, workerData } = require('worker_threads');\n"
            "if (isMainThread) { const b = new SharedArrayBuffer(4); for (const me of [0, 1]) new Worker(__filename, { workerData: { b, me } }); }\n"
            "else { const t = new Int32Array(workerData.b), me = workerData.me; for (;;) { Atomics.wait(t, 0, 1 - me); for (let i = 0; i < 3000; i++); Atomics.store(t, 0, 1 - me); Atomics.notify(t, 0); } }\n",
        ),
    }
)  # fmt: skip
HEAD = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <sys/socket.h>\n#include <sys/wait.h>\n#include <time.h>\n#include <unistd.h>\n"
SPIN = (
    "static double of(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }\n"
    "static volatile double kept;\nstatic void spin(double s) { double u = of(CLOCK_THREAD_CPUTIME_ID) + s; while (of(CLOCK_THREAD_CPUTIME_ID) < u) for (int i = 0; i < 500; i++) kept += i; }\n"
    "static double end;\n"
)


def _c(name, body):
    """A program in C that is made once."""
    return (f"{name}.c", HEAD + SPIN + body, f"gcc -O2 -march=native -pthread {name}.c -o {name}")


ninth.SOURCES.update(
    {
        "product": _c("product", "#define N 200\nstatic double a[N][N], b[N][N], c[N][N];\nint main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = b[i][j] = i ^ j;\n"
            "while (of(CLOCK_MONOTONIC) < end) for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { double s = 0; for (int k = 0; k < N; k++) s += a[i][k] * b[j][k]; c[i][j] += s; } return c[3][4] < 0; }\n"),
        "backwards": _c("backwards", "int main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); long m = 300L << 17; long *a = malloc(8 * m), *b = malloc(8 * m); memset(a, 1, 8 * m); memset(b, 2, 8 * m);\n"
            "while (of(CLOCK_MONOTONIC) < end) { for (long i = m - 1; i >= 0; i--) b[i] = a[i]; __asm__ volatile(\"\" ::: \"memory\"); } return b[5] == 7; }\n"),
        "fresh_blocks": _c("fresh_blocks", "int main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); long m = 64L << 20; while (of(CLOCK_MONOTONIC) < end) {\n"
            "char *p = mmap(0, m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); for (long i = 0; i < m; i += 4096) p[i] = 1; munmap(p, m); } return 0; }\n"),
        "paced": _c("paced", "int main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); double next = of(CLOCK_MONOTONIC); while (next < end) { spin(0.001); next += 0.012;\n"
            "struct timespec t = { (long)next, (long)((next - (long)next) * 1e9) }; clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0); } return 0; }\n"),
        "mutex_three": _c("mutex_three", "static pthread_mutex_t l = PTHREAD_MUTEX_INITIALIZER;\nstatic void *work(void *x) { while (of(CLOCK_MONOTONIC) < end) { pthread_mutex_lock(&l); spin(0.0002); pthread_mutex_unlock(&l); } return 0; }\n"
            "int main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(t + i, 0, work, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); return 0; }\n"),
        "barrier_four": _c("barrier_four", "static pthread_barrier_t b; static long steps;\nstatic void *work(void *x) { for (long k = 0; k < steps; k++) { spin(0.0005 * (1 + (long)x)); pthread_barrier_wait(&b); } return 0; }\n"
            "int main(int n, char **v) { steps = atof(v[1]) * 350; pthread_barrier_init(&b, 0, 4); pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *)i); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); return 0; }\n"),
        "packets": _c("packets", "int main(int n, char **v) { end = of(CLOCK_MONOTONIC) + atof(v[1]); int s[2]; char m[4096] = {1}; socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s); pid_t c = fork();\n"
            "if (!c) { close(s[1]); while (read(s[0], m, sizeof m) > 0); return 0; } close(s[0]); while (of(CLOCK_MONOTONIC) < end) write(s[1], m, sizeof m); close(s[1]); wait(0); return 0; }\n"),
        "dots": ("dots.f90", "program dots\nimplicit none\nreal(8), allocatable :: a(:), b(:)\nreal(8) :: s\ninteger :: t, t0, rate\ncharacter(20) :: word\nreal :: secs\ncall get_command_argument(1, word)\nread(word, *) secs\n"
            "allocate(a(50000000), b(50000000))\na = 1.5d0\nb = 0.5d0\ns = 0\ncall system_clock(t0, rate)\ndo\ns = s + dot_product(a, b)\ncall system_clock(t)\nif (t - t0 > secs * rate) exit\nend do\nprint *, s\nend program\n",
            "gfortran -O3 -march=native -ffast-math dots.f90 -o dots"),
    }
)  # fmt: skip
PROGRAMS = {
    name: (truth, why, command.replace("{made}", str(MADE)))
    for name, (truth, why, command) in PROGRAMS.items()
}
_TOOLS = {
    "lua": "lua5.4", "openssl": "openssl", "node": "node", "perl": "perl", "c": "gcc", "bc": "bc",
    "fortran": "gfortran", "redis": "redis-benchmark", "curl": "curl",
}  # fmt: skip


def _runs(name, command):
    """Whether this machine has what a row needs."""
    start = name.partition("_")[0]
    if "{group}" in command and shared._tool("", command) == "missing":
        return False
    if start in ("scipy", "sklearn"):
        return importlib.util.find_spec(start) is not None
    return shutil.which(_TOOLS.get(start, "sh")) is not None


ZOO = {name: row[0] for name, row in PROGRAMS.items() if _runs(name, row[2])}

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
