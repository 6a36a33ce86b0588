"""A ninth set of ordinary programs, listed before the rules met them: `held_out_9.py NAME SECONDS`.

Every row has one ceiling, or two where a message and a wait for it are the same thing; 'undecided'
is never a right answer. Programs in C, C++ and Java, a repository and a data file are made once, in
MADE: run a row once before it is watched, so that their making is not watched too.
"""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_5", Path(__file__).with_name("held_out_5.py")
)
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)

MADE = Path("/tmp/nodewise-zoo-nine")
RANKS = "timeout {s} mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "

PROGRAMS = {
    # each works on data of its own that the caches hold
    "sqlite_sudoku": ("compute", "a recursive query over strings of 81 characters, in memory", "timeout {s} sqlite3 :memory: < sudoku.sql"),
    "gxx_templates": ("compute", "templates of the standard library, headers in the page cache", "timeout {s} sh -c 'while :; do g++ -O1 -c templates.cpp -o templates.o; done'"),
    "git_repack": ("compute", "compares 120 versions of a table of 80 kB, in two threads", "cp -r {made}/repository .; timeout {s} sh -c 'while :; do git -C repository repack -adfq --window=60; done'"),
    "imagemagick_median": ("compute", "the median of 121 pixels for each of 240,000", "timeout {s} sh -c 'while :; do convert -size 600x400 plasma:red-blue -statistic Median 11x11 null:; done'"),
    "sklearn_forest": ("compute", "two threads of C that search splits of 480 kB", "{python} sklearn_forest.py"),
    "sympy_integrates": ("compute", "one Python thread that rewrites small expressions", "{python} sympy_integrates.py"),
    "lammps_two_ranks": ("compute", "forces between 16,000 atoms in each rank, at equal shares", RANKS + "/usr/bin/lmp -in melt.in -log none -screen none"),
    # each operation needs new bytes from memory; the caches hold a tenth or less
    "torch_matrix_vector": ("memory bandwidth", "two operations for 4 bytes of 400 MB of weights", "OMP_NUM_THREADS=1 {python} torch_matrix_vector.py"),
    "c_heat_two_threads": ("memory bandwidth", "five operations for 24 bytes of two grids of 288 MB", "OMP_NUM_THREADS=2 {made}/heat {s}"),
    "numpy_parity": ("memory bandwidth", "one operation for 3 bytes of arrays of 200 MB, 64 in each instruction", "{python} numpy_parity.py"),
    "torch_to_bfloat16": ("memory bandwidth", "one conversion for 6 bytes of 600 MB", "OMP_NUM_THREADS=1 {python} torch_to_bfloat16.py"),
    # each waits for the disk
    "shred_zeros": ("data I/O", "64 MB of zeros, brought to the disk in every pass", "head -c 64M /dev/zero >file; timeout {s} sh -c 'while :; do shred -n0 -z file; done'"),
    "torch_loader_cold": ("data I/O", "samples of 64 kB at random from a file that the page cache does not hold", "OMP_NUM_THREADS=1 {python} torch_loader_cold.py {made}/data"),
    "python_map_and_flush": ("data I/O", "changes 50 pages of a mapped file and flushes them", "{python} python_map_and_flush.py"),
    # each page is used once
    "python_fork_and_write": ("page faults", "children that write to each page of their parent's 200 MB and end", "{python} python_fork_and_write.py"),
    "cpp_fresh_vectors": ("page faults", "200 MB for each request, given back after it", "{made}/vectors {s}"),
    "torch_fresh_tensors": ("page faults", "160 MB of zeros for each step, given back after it", "OMP_NUM_THREADS=1 {python} torch_fresh_tensors.py"),
    # each waits for a clock, its own or that of a server
    "node_slow_server": ("latency", "one request after another to a server that takes 60 ms", "node slow.js {port} & sleep 0.5; timeout {s} node asks.js {port}; kill %1; wait"),
    "ffmpeg_real_time": ("latency", "codes a small video at the speed at which it is shown", "timeout {s} ffmpeg -v error -nostdin -re -f lavfi -i testsrc2=size=320x240:rate=25 -c:v mpeg4 -f null -"),
    "requests_four_threads": ("latency", "four threads, each waits 150 ms for an answer", "{python} slow_service.py {port} & sleep 1; {python} requests_four_threads.py {port}; kill %1; wait"),
    "rsync_limited": ("latency", "2 MB/s are allowed, it sleeps in between", "head -c 64M /dev/zero >in; timeout {s} rsync --bwlimit=2000 in out"),
    # each part waits until another has done something
    "sqlite_four_writers": ("coordination", "four processes, one may write at a time; the file is in memory", "{python} sqlite_four_writers.py /dev/shm/zoo-{port}.db; rm -f /dev/shm/zoo-{port}.db*"),
    "flock_four_jobs": ("coordination", "four shells, each works only while it holds the file lock", "head -c 500000 /dev/urandom >piece; for i in 1 2 3 4; do timeout {s} sh -c 'while :; do flock piece bzip2 -kc piece >/dev/null; done' & done; wait"),
    "joblib_python_threads": ("coordination", "four threads of Python code under the one lock of the interpreter", "{python} joblib_python_threads.py"),
    "java_queue_of_one": ("coordination", "two threads pass numbers through a queue with one place", "timeout {s} java -cp {made} Passes"),
    "mpi_barriers": ("coordination or communication", "two ranks that only meet", RANKS + "{made}/ranks barrier"),
    # each moves bytes between processes and does little else
    "wrk_nginx_small": ("communication", "requests and answers of some hundred bytes, 16 connections", "echo some words >small; nginx -p $PWD -c nginx.conf -e stderr -g 'daemon off;' & sleep 0.5; wrk -t1 -c16 -d{s}s http://127.0.0.1:{port}/small >/dev/null; kill %1; wait"),
    "numpy_through_pipe": ("communication", "arrays of 8 MB through a pipe of multiprocessing, into an array that is kept", "{python} numpy_through_pipe.py"),
    "mpi_large_messages": ("communication", "two ranks that swap 8 MB and do nothing else", RANKS + "{made}/ranks swap"),
    "torch_two_stages": ("communication", "16 MB to the next stage and back, one comparison for each number", "OMP_NUM_THREADS=1 {python} torch_two_stages.py"),
    # each ends because it may have no more memory
    "gawk_over_limit": ("memory capacity", "keeps every row until the limit of the process", "ulimit -v 1500000; seq 100000000 | gawk '{gsub(/[0-4]/, \"x\"); row[NR] = $0}'"),
    "cache_over_group": ("memory capacity", "a cache that forgets nothing; the control group allows 300 MB and kills", "{group} {python} cache_over_group.py"),
}  # fmt: skip
SLOW = (
    "import http.server, sys, time\nclass Slow(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self): time.sleep(0.15); self.send_response(200); self.end_headers(); self.wfile.write(b'{}')\n"
    "    def log_message(self, *_): pass\n"
    "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Slow).serve_forever()"
)
shared.FILES.update(
    {
        "sklearn_forest": shared.NUMPY + "from sklearn.ensemble import RandomForestClassifier\n"
        "x = r.random((3000, 20)); y = (x[:, 0] + x[:, 1] * x[:, 2] > 0.8).astype(int)\n"
        "while time.time() < end: RandomForestClassifier(100, n_jobs=2).fit(x, y)",
        "sympy_integrates": "import time, sympy; from sympy.core.cache import clear_cache; end = time.time() + {s}\n"
        "x = sympy.Symbol('x')\nwhile time.time() < end:\n    clear_cache(); sympy.integrate(x**2 * sympy.exp(x) * sympy.sin(x), x)",
        "torch_matrix_vector": shared.TORCH + "w, x = torch.ones(10_000, 10_000), torch.ones(10_000)\nwhile time.time() < end: torch.mv(w, x)",
        "numpy_parity": shared.NUMPY + "a, b, c = (np.full(200_000_000, i, np.uint8) for i in range(3))\nwhile time.time() < end: np.bitwise_xor(a, b, out=c)",
        "torch_to_bfloat16": shared.TORCH + "x = torch.ones(100_000_000); h = torch.ones(100_000_000, dtype=torch.bfloat16)\nwhile time.time() < end: h.copy_(x)",
        "torch_loader_cold": shared.TORCH + "import os, sys; from torch.utils.data import DataLoader, Dataset\n"
        "class Samples(Dataset):\n    door, size = os.open(sys.argv[1], os.O_RDONLY), 1 << 16\n    def __len__(self): return 4096\n"
        "    def __getitem__(self, i):\n        block = os.pread(self.door, self.size, i * self.size)\n"
        "        os.posix_fadvise(self.door, i * self.size, self.size, os.POSIX_FADV_DONTNEED)\n"
        "        return torch.frombuffer(bytearray(block), dtype=torch.uint8)\n"
        "os.posix_fadvise(Samples.door, 0, 0, os.POSIX_FADV_DONTNEED)\nlast = 0\n"
        "while time.time() < end:\n    for batch in DataLoader(Samples(), 16, shuffle=True): last = batch[:, 0].float().mean()",
        "python_map_and_flush": "import mmap, random, time; end = time.time() + {s}\n"
        "with open('pages', 'wb') as f: f.write(bytes(1 << 25))\n"
        "with open('pages', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:\n    while time.time() < end:\n"
        "        for _ in range(50): m[random.randrange(len(m))] = 1\n        m.flush()",
        "python_fork_and_write": "import os, time; end = time.time() + {s}; kept = bytearray(200_000_000); kept[::4096] = b'x' * len(kept[::4096])\n"
        "while time.time() < end:\n    child = os.fork()\n"
        "    if child == 0:\n        kept[::4096] = bytes(len(kept[::4096])); os._exit(0)\n    os.waitpid(child, 0)",
        "torch_fresh_tensors": shared.TORCH + "while time.time() < end: torch.zeros(40_000_000)",
        "requests_four_threads": "import requests, sys, threading, time; end = time.time() + {s}\n"
        "def work():\n    session = requests.Session()\n    while time.time() < end: session.get(f'http://127.0.0.1:{sys.argv[1]}/').json()\n"
        "t = [threading.Thread(target=work) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]",
        "sqlite_four_writers": "import multiprocessing as m, sqlite3, sys, time; end = time.time() + {s}\n"
        "def work():\n    c = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None); c.execute('pragma synchronous=off')\n"
        "    while time.time() < end: c.execute('begin immediate'); c.execute('update t set n = n + 1'); c.execute('commit')\n"
        "if __name__ == '__main__':\n    c = sqlite3.connect(sys.argv[1]); c.execute('create table t(n)')\n"
        "    c.executemany('insert into t values (?)', [(i,) for i in range(3000)]); c.commit(); c.close()\n"
        "    p = [m.Process(target=work) for _ in range(4)]\n    [x.start() for x in p]; [x.join() for x in p]",
        "joblib_python_threads": "import time; from joblib import Parallel, delayed; end = time.time() + {s}\n"
        "def steps(n):\n    k = 0\n    while n != 1: n = n // 2 if n % 2 == 0 else 3 * n + 1; k += 1\n    return k\n"
        "def most(first): return max(steps(n) for n in range(first, first + 500))\n"
        "while time.time() < end: Parallel(n_jobs=4, prefer='threads')(delayed(most)(1 + 500 * i) for i in range(40))",
        "numpy_through_pipe": shared.NUMPY + "import multiprocessing as m\n"
        "def give(door):\n    a = r.random(1_000_000)\n    while time.time() < end: door.send_bytes(a)\n    door.send_bytes(b'end')\n"
        "if __name__ == '__main__':\n    here, there = m.Pipe(); p = m.Process(target=give, args=(there,)); p.start(); kept = np.ones(1_000_000)\n"
        "    while here.recv_bytes_into(kept) > 3: pass\n    p.join()",
        "torch_two_stages": shared.TORCH + "import os, torch.distributed as d, torch.multiprocessing as m\n"
        "def work(rank, place):\n"
        "    d.init_process_group('gloo', init_method='file://' + place, rank=rank, world_size=2)\n"
        "    x, go = torch.rand(4_000_000), torch.ones(1)\n"
        "    while go[0]:\n"
        "        for _ in range(5):\n"
        "            if rank == 0: d.send(x, 1); d.recv(x, 1)\n"
        "            else: d.recv(x, 0); x.relu_(); d.send(x, 0)\n"
        "        go[0] = float(time.time() < end); d.broadcast(go, 0)\n"
        "if __name__ == '__main__': m.start_processes(work, (os.path.abspath('meet'),), 2, start_method='fork')",
        "cache_over_group": "import hashlib\ncache = {}\nfor n in range(1 << 40):\n"
        "    cache[n] = hashlib.pbkdf2_hmac('sha256', b'%d' % n, b'salt', 150).hex() * 20",
    }
)  # fmt: skip
BESIDE = {
    # a file that a row needs in its folder: the word of the command that shows it, its text
    "sudoku.sql": (
        "sudoku.sql",
        "with recursive input(sud) as (values('53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79')),\n"
        "digits(z, lp) as (values('1', 1) union all select cast(lp+1 as text), lp+1 from digits where lp<9),\n"
        "x(s, ind) as (select sud, instr(sud, '.') from input union all\n"
        "select substr(s, 1, ind-1) || z || substr(s, ind+1), instr(substr(s, 1, ind-1) || z || substr(s, ind+1), '.') from x, digits as z\n"
        "where ind>0 and not exists (select 1 from digits as lp where z.z = substr(s, ((ind-1)/9)*9 + lp, 1)\n"
        "or z.z = substr(s, ((ind-1)%9) + (lp-1)*9 + 1, 1)\n"
        "or z.z = substr(s, (((ind-1)/3) % 3) * 3 + ((ind-1)/27) * 27 + lp + ((lp-1) / 3) * 6, 1)))\n"
        "select s from x where ind=0;\n",
    ),
    "templates.cpp": (
        "templates.cpp",
        "#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n#include <unordered_map>\n#include <vector>\n"
        "template <int N> int part(const std::string &s) { std::regex e(\"a+\" + std::to_string(N)); std::map<std::string, std::vector<int>> m;\n"
        "m[s].push_back(std::regex_search(s, e)); return m.size() + part<N - 1>(s); }\n"
        "template <> int part<0>(const std::string &) { return 0; }\nint all(const std::string &s) { return part<40>(s); }\n",
    ),
    "melt.in": (
        "melt.in",
        "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 20 0 20 0 20\ncreate_box 1 box\ncreate_atoms 1 box\n"
        "mass 1 1.0\nvelocity all create 3.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\n"
        "neighbor 0.3 bin\nneigh_modify every 20 delay 0 check no\nfix 1 all nve\nthermo 100\nrun 1000000\n",
    ),
    "nginx.conf": (
        "nginx.conf",
        "pid nginx.pid; user root; error_log /dev/null; events {} http { access_log off; keepalive_requests 1000000000;\n"
        "server { listen 127.0.0.1:PORT; root .; } }\n",
    ),
    "slow.js": (
        "slow.js",
        "require('http').createServer((q, a) => setTimeout(() => a.end('{}'), 60)).listen(+process.argv[2], '127.0.0.1');\n",
    ),
    "asks.js": (
        "asks.js",
        "const http = require('http');\nconst ask = () => http.get({ port: +process.argv[2], host: '127.0.0.1' }, (a) => {\n"
        "let t = ''; a.on('data', (d) => (t += d)); a.on('end', () => { JSON.parse(t); ask(); }); });\nask();\n",
    ),
    "slow_service.py": ("slow_service.py", SLOW),
}  # fmt: skip
SOURCES = {
    # what is made once: its source, the text, the command that makes it
    "heat": (
        "heat.c",
        "#include <stdlib.h>\n#include <time.h>\n#define N 6000L\nint main(int c, char **v) {\n"
        "time_t end = time(0) + atoi(v[1]); double *a = malloc(8 * N * N), *b = malloc(8 * N * N);\n"
        "#pragma omp parallel for\nfor (long i = 0; i < N * N; i++) { a[i] = i % 7; b[i] = 0; }\n"
        "while (time(0) < end) {\n#pragma omp parallel for\nfor (long i = 1; i < N - 1; i++) for (long j = 1; j < N - 1; j++)\n"
        "b[i * N + j] = 0.5 * a[i * N + j] + 0.125 * (a[(i - 1) * N + j] + a[(i + 1) * N + j] + a[i * N + j - 1] + a[i * N + j + 1]);\n"
        "double *t = a; a = b; b = t; }\nreturn a[N + 1] < 0; }\n",
        "gcc -O3 -march=native -fopenmp heat.c -o heat",
    ),
    "vectors": (
        "vectors.cpp",
        "#include <chrono>\n#include <cstdlib>\n#include <vector>\nlong sum;\nint main(int, char **v) {\n"
        "auto end = std::chrono::steady_clock::now() + std::chrono::seconds(atoi(v[1]));\n"
        "while (std::chrono::steady_clock::now() < end) { std::vector<int> fresh(50'000'000, 3); sum += fresh[sum % 1000]; }\nreturn sum < 0; }\n",
        "g++ -O2 vectors.cpp -o vectors",
    ),
    "ranks": (
        "ranks.c",
        "#include <mpi.h>\n#include <stdlib.h>\n#include <string.h>\n#define N (8 << 20)\nint main(int c, char **v) {\n"
        "MPI_Init(&c, &v); int own; MPI_Comm_rank(MPI_COMM_WORLD, &own); char *a = calloc(N, 1), *b = calloc(N, 1);\n"
        "memset(a, own, N); if (!strcmp(v[1], \"barrier\")) for (;;) MPI_Barrier(MPI_COMM_WORLD);\n"
        "for (;;) MPI_Sendrecv(a, N, MPI_CHAR, 1 - own, 0, b, N, MPI_CHAR, 1 - own, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }\n",
        "mpicc.openmpi -O2 ranks.c -o ranks",
    ),
    "Passes.class": (
        "Passes.java",
        "import java.util.concurrent.*;\npublic class Passes { public static void main(String[] a) throws Exception {\n"
        "var q = new ArrayBlockingQueue<Integer>(1); var t = new Thread(() -> { try { while (true) q.take(); } catch (Exception e) {} });\n"
        "t.setDaemon(true); t.start(); for (int i = 0; ; i++) q.put(i % 100); } }\n",
        "javac Passes.java",
    ),
    "repository": (
        "versions.sh",
        "set -e\nrm -rf part; git init -q part; cd part; git config user.email a@b; git config user.name n; git config gc.auto 0\n"
        "awk 'BEGIN{srand(1); for(i=0;i<4000;i++) print \"row\", i, int(1e9*rand())}' >table\n"
        "for v in $(seq 120); do awk -v v=$v 'BEGIN{srand(v)} rand()<0.02{$3=int(1e9*rand())} {print}' table >next; mv next table\n"
        "git add table; git commit -qm $v; done\ncd ..; mv part repository\n",
        "bash versions.sh",
    ),
    "data": ("data.sh", "head -c 256M /dev/urandom >part; sync part; mv part data\n", "sh data.sh"),
}  # fmt: skip
PROGRAMS = {
    name: (truth, why, command.replace("{made}", str(MADE)))
    for name, (truth, why, command) in PROGRAMS.items()
}
_TOOLS = ("sqlite3", "g++", "git", "convert", "lmp", "mpirun.openmpi", "shred", "java", "node", "ffmpeg",
          "rsync", "flock", "wrk", "gawk")  # fmt: skip


def _tool(command):
    """The program that a row needs, besides Python."""
    if "{group}" in command:
        return shared._tool("", command)
    words = command.replace(";", " ").split()
    return next((one for one in _TOOLS if one in words), "sh")


ZOO = {name: row[0] for name, row in PROGRAMS.items() if shutil.which(_tool(row[2]))}


def _prepare(name, command, seconds):
    """The files of a row; what takes long to make is made once."""
    _files(name, command, seconds)
    for file, (word, text) in BESIDE.items():
        if word in command:
            times = 10_000 if file.endswith(".sql") else 1
            port = str(20000 + os.getpid() % 20000)
            Path(file).write_text(text.replace("PORT", port) * times)
    for made, (source, text, make) in SOURCES.items():
        word = made.removesuffix(".class") if ".class" in made else f"{MADE}/{made}"
        if word in command and not (MADE / made).exists():
            MADE.mkdir(exist_ok=True)
            (MADE / source).write_text(text)
            subprocess.run(make.split(), check=True, cwd=MADE)


_files, shared._prepare = shared._prepare, _prepare

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
