"""A seventh set of ordinary programs, listed before the rules met them: `held_out_7.py NAME S`."""
# ruff: noqa: E501, PTH102, PTH110, PTH123 - a table of commands as users type them

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

AS_POSTGRES = "runuser -u postgres -- "
DATABASE = "/tmp/nodewise-zoo-database"  # made once: making it takes longer than a run
SERVER = (
    AS_POSTGRES
    + "postgres -D "
    + DATABASE
    + " -p {port} -k /tmp -c listen_addresses= 2>/dev/null & sleep 1.5; "
)
DONE = "; kill -INT $(head -1 " + DATABASE + "/postmaster.pid); wait"

PROGRAMS = {
    # compilers, compressors, interpreters, media: they work on data of their own
    "clang_optimises": ("compute", "a compiler on sources in the page cache", "timeout {s} sh -c 'while :; do clang -O2 -c many.c -o many.o; done'"),
    "rustc_release": ("compute", "a compiler and a linker", "timeout {s} sh -c 'while :; do rustc -O primes.rs -o primes; done'"),
    "make_two_jobs": ("compute", "two compilers at a time, sources in the page cache", "timeout {s} sh -c 'while :; do make -s -j2 clean all; done'"),
    "pigz_two_threads": ("compute", "two threads with blocks of 128 kB", "timeout {s} sh -c 'while :; do pigz -9 -p2 -c text >/dev/null; done'"),
    "lz4_best": ("compute", "its window is 64 kB", "timeout {s} lz4 -9 -b9 -i{s} text"),
    "openssl_encrypts_file": ("compute", "a cipher over a file in the page cache", "timeout {s} sh -c 'while :; do openssl enc -camellia-256-cbc -k secret -md md5 -in text -out /dev/null 2>/dev/null; done'"),
    "node_key_derivation": ("compute", "hashes a password again and again", "timeout {s} node -e 'const c=require(\"crypto\");for(;;)c.pbkdf2Sync(\"a\",\"b\",20000,64,\"sha512\")'"),
    "perl_sorts": ("compute", "sorts 2000 strings again and again", "timeout {s} perl -e '@a=map{($_*7919)%10007}1..2000; while(1){@b=sort{$a cmp $b}@a}'"),
    "ruby_bodies": ("compute", "floating point in an interpreter", "timeout {s} ruby -e 'x=0.5; loop{1000.times{x=3.9*x*(1-x)}}'"),
    "java_primes": ("compute", "one thread divides in registers", "timeout {s} java Primes.java"),
    "ffmpeg_x264_one": ("compute", "motion search, one thread", "timeout {s} ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=640x360:rate=30 -c:v libx264 -threads 1 -x264-params lookahead-threads=1:sliced-threads=0 -f null -"),
    "imagemagick_blur": ("compute", "a filter of many operations for each pixel", "timeout {s} sh -c 'while :; do convert -size 800x600 plasma:red-blue -blur 0x8 null:; done'"),
    "stress_hash": ("compute", "hashes of a small buffer on two cores", "stress-ng --hash 2 -t {s}"),
    "sqlite_groups_in_memory": ("compute", "sorts and groups 50,000 rows in memory", "timeout {s} sqlite3 :memory: < groups.sql"),
    "postgres_hashes_series": ("compute", "one query that hashes numbers and keeps nothing", SERVER + "timeout {s} psql -h /tmp -p {port} -U postgres -c \"select max(md5(md5(i::text))) from generate_series(1,100000000) i\" >/dev/null" + DONE),
    "scipy_ode": ("compute", "a small system of equations, step by step", "{python} scipy_ode.py"),
    "numpy_svd": ("compute", "decompositions of 300 x 300 numbers", "OPENBLAS_NUM_THREADS=1 {python} numpy_svd.py"),
    "torch_product_two_threads": ("compute", "1500 operations for each number", "OMP_NUM_THREADS=2 {python} torch_product_two_threads.py"),
    "torch_small_network": ("compute", "training of a network that fits the cache", "OMP_NUM_THREADS=1 {python} torch_small_network.py"),
    "asyncio_without_waiting": ("compute", "tasks that only give way to each other, in one thread", "{python} asyncio_without_waiting.py"),
    # memory
    "scipy_sparse_product": ("memory bandwidth", "two operations for 12 bytes of a matrix of 360 MB", "{python} scipy_sparse_product.py"),
    "numpy_maximum": ("memory bandwidth", "one comparison for 12 bytes, arrays of 240 MB", "{python} numpy_maximum.py"),
    "torch_add_two_threads": ("memory bandwidth", "one addition for 12 bytes, tensors of 200 MB", "OMP_NUM_THREADS=2 {python} torch_add_two_threads.py"),
    "perf_memcpy": ("memory bandwidth", "copies 512 MB", "timeout {s} perf bench mem memcpy -s 512MB -l 100000 -f default"),
    "perl_fresh_strings": (
        "page faults",
        "200 MB of fresh memory, filled once and given back",
        "timeout {s} perl -e 'while(1){ my $x = \"a\" x 200_000_000; undef $x }'",
    ),
    "node_heap_limit": ("memory capacity", "an array that grows beyond the heap that is allowed", "node --max-old-space-size=150 -e 'const a=[];for(;;)a.push(Array(1000).fill(a.length))'"),
    "java_heap_limit": ("memory capacity", "a list that grows beyond the heap that is allowed", "java -Xmx100m Grow.java"),
    "numpy_over_group": ("memory capacity", "the control group allows 300 MB and kills", "{group} {python} -c 'import numpy as n\na=[]\nwhile True: a.append(n.ones(100000))'"),
    "reads_in_small_group": ("memory capacity or data I/O", "512 MB are read again and again where the group can keep 300", "dd of=data oflag=nocache conv=notrunc,fdatasync count=0 status=none; {group} timeout {s} sh -c 'while :; do cksum data; done'"),
    # storage
    "postgres_commits": ("data I/O", "every transaction reaches the disk", SERVER + "timeout {s} pgbench -h /tmp -p {port} -U postgres -n -f insert.sql -c 1 -T {s} postgres >/dev/null 2>&1" + DONE),
    "redis_append_always": ("data I/O", "every command is brought to the disk", "redis-server --port {port} --save '' --appendonly yes --appendfsync always --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-benchmark -p {port} -c 1 -n 100000000 -q -t set >/dev/null; kill %1; wait"),
    "sqlite_shell_inserts": ("data I/O", "every row is a transaction that reaches the disk", "yes 'insert into t values(1);' | timeout {s} sqlite3 rows.db -cmd 'create table t(a)'"),
    "rsync_and_sync": ("data I/O", "100 MB are copied and brought to the disk", "timeout {s} sh -c 'while :; do rsync -W --fsync data copy; rm copy; done'"),
    "tar_cold_files": ("data I/O", "files that are not in the page cache", "timeout {s} sh -c 'while :; do dd of=data oflag=nocache conv=notrunc,fdatasync count=0 status=none; tar cf - data | cat >/dev/null; done'"),
    "stress_hdd": ("data I/O", "direct writes", "stress-ng --hdd 1 --hdd-opts direct,wr-seq -t {s}"),
    # waiting for a clock
    "postgres_sleeps": ("latency", "a client that waits for a slow answer", SERVER + "timeout {s} psql -q -h /tmp -p {port} -U postgres -c \"do \\$\\$ begin loop perform pg_sleep(0.01); end loop; end \\$\\$\"" + DONE),
    "node_timers": ("latency", "a request every 20 ms", "timeout {s} node -e 'setInterval(()=>JSON.parse(\"[1]\"),20)'"),
    "asyncio_timeouts": ("latency", "twenty tasks that wait for a clock", "{python} asyncio_timeouts.py"),
    # messages
    "nginx_large_files": ("communication", "4 MB in each answer, from the page cache", "nginx -p $PWD -c nginx.conf -e stderr -g 'daemon off;' & sleep 0.5; timeout {s} ab -q -k -c 2 -n 100000000 http://127.0.0.1:{port}/data >/dev/null; kill %1; wait"),
    "iperf3_udp": ("communication", "datagrams as fast as they go", "iperf3 -s -1 -p {port} >/dev/null & sleep 0.4; iperf3 -u -b 0 -c 127.0.0.1 -p {port} -t {s}; wait"),
    "memcached_large_values": ("communication", "values of 500 kB through TCP", "memcached -u root -p {port} & sleep 0.5; {python} memcached_large_values.py {port}; kill %1; wait"),
    "stress_socket_pairs": (
        "communication",
        "bytes through pairs of local sockets",
        "stress-ng --sockpair 1 -t {s}",
    ),
    "gloo_all_gather": ("communication", "8 MB of each of two processes and no work", "OMP_NUM_THREADS=1 {python} gloo_all_gather.py"),
    "mpi_all_reduce": ("communication or undecided", "two ranks that wait by spinning", "timeout {s} {bin}/mpiexec -n 2 {python} mpi_all_reduce.py"),
    "processes_queue": ("coordination or communication", "tiny items through a queue of processes", "{python} processes_queue.py"),
    # threads that wait for each other
    "cpp_shared_mutex": ("coordination", "four threads that add under one lock", "./shared_mutex {s}"),
    "java_synchronized": ("coordination or undecided", "four threads that add under one lock; they spin before they wait", "timeout {s} java Locked.java"),
    "perf_futex_lock": ("coordination", "eight threads take one lock of the kernel", "perf bench futex lock-pi -t 8 -r {s}"),
    "node_atomics_turns": ("coordination", "two threads that wake each other and do nothing else", "timeout {s} node turns.js"),
    "stress_posix_semaphores": ("coordination", "threads that take one semaphore in turn", "stress-ng --sem 2 -t {s}"),
    "python_barrier_processes": ("coordination", "three processes that meet after every tiny piece of work", "{python} python_barrier_processes.py"),
}  # fmt: skip
shared.FILES.update(
    {
        "scipy_ode": "import time; from scipy.integrate import solve_ivp; end = time.time() + {s}\n"
        "while time.time() < end: solve_ivp(lambda t, y: [y[1], 5 * (1 - y[0] ** 2) * y[1] - y[0]], (0, 10), [2, 0], rtol=1e-6)",
        "numpy_svd": shared.NUMPY + "a = r.random((300, 300))\nwhile time.time() < end: np.linalg.svd(a)",
        "torch_product_two_threads": shared.TORCH + "a, o = torch.rand(1500, 1500), torch.rand(1500, 1500)\nwhile time.time() < end: torch.mm(a, a, out=o)",
        "torch_small_network": shared.TORCH + "n = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))\n"
        "o = torch.optim.SGD(n.parameters(), lr=1e-3); x = torch.rand(256, 256)\n"
        "while time.time() < end: o.zero_grad(); (n(x) - x).square().mean().backward(); o.step()",
        "asyncio_without_waiting": "import asyncio, time; end = time.time() + {s}\n"
        "async def one():\n    while time.time() < end: await asyncio.sleep(0)\n"
        "async def main(): await asyncio.gather(*(one() for _ in range(50)))\nasyncio.run(main())",
        "scipy_sparse_product": shared.NUMPY + "from scipy.sparse import diags\n"
        "a = diags([np.ones(3_000_000)] * 10, range(10), shape=(3_000_000, 3_000_000)).tocsr(); x = np.ones(3_000_000)\n"
        "while time.time() < end: a @ x",
        "numpy_maximum": shared.NUMPY + "a, b = r.random(60_000_000, np.float32), r.random(60_000_000, np.float32)\nwhile time.time() < end: np.maximum(a, b, out=a)",
        "torch_add_two_threads": shared.TORCH + "a, b, c = (torch.rand(50_000_000) for _ in range(3))\nwhile time.time() < end: torch.add(a, b, out=c)",
        "asyncio_timeouts": "import asyncio, time; end = time.time() + {s}\n"
        "async def one(wait):\n    while time.time() < end: await asyncio.sleep(wait)\n"
        "async def main(): await asyncio.gather(*(one(0.01 + i / 1000) for i in range(20)))\nasyncio.run(main())",
        "memcached_large_values": "import socket, sys, time; end = time.time() + {s}\n"
        "door = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); n = 500_000; take = bytearray(n)\n"
        "door.sendall(b'set k 0 0 %d\\r\\n' % n + bytes(n) + b'\\r\\n'); door.recv(100); want = n + len('VALUE k 0 500000\\r\\n') + 7\n"
        "while time.time() < end:\n    door.sendall(b'get k\\r\\n'); left = want\n    while left: left -= door.recv_into(take, min(n, left))",
        "gloo_all_gather": shared.FILES["gloo_broadcast"].replace("torch.rand(4_000_000)", "torch.rand(2_000_000)").replace("d.broadcast(x, 0)", "d.all_gather([torch.empty_like(x), torch.empty_like(x)], x)"),
        "mpi_all_reduce": "from mpi4py import MPI; import numpy as np; c = MPI.COMM_WORLD\n"
        "a, b = np.ones(100_000), np.ones(100_000)\nwhile True: c.Allreduce(a, b)",
        "processes_queue": "import multiprocessing as m, time; end = time.time() + {s}\n"
        "def give(q):\n    while time.time() < end: q.put(1)\n    q.put(None)\n"
        "if __name__ == '__main__':\n    q = m.Queue(100); p = m.Process(target=give, args=(q,)); p.start()\n"
        "    while q.get() is not None: pass\n    p.join()",
        "python_barrier_processes": "import multiprocessing as m, time; end = time.time() + {s}; b = m.Barrier(3)\n"
        "def work():\n    try:\n        while time.time() < end: sum(range(100)); b.wait(timeout=1)\n    except Exception: pass\n"
        "if __name__ == '__main__':\n    p = [m.Process(target=work) for _ in range(3)]\n    [x.start() for x in p]; [x.join() for x in p]",
    }
)  # fmt: skip
OTHERS = {
    # file: (what the command of a row holds, text)
    "primes.rs": (
        "primes.rs",
        "use std::collections::*;\nfn main() { let mut m: BTreeMap<u64, Vec<u64>> = BTreeMap::new();\n"
        "for i in 2..1000u64 { if (2..i).all(|d| i % d != 0) { m.entry(i % 10).or_default().push(i); } }\n"
        'println!("{:?}", m.iter().map(|(k, v)| (k, v.len())).collect::<HashMap<_, _>>()); }\n',
    ),
    "Makefile": (
        "make ",
        "all: $(patsubst %,%.o,0 1 2 3 4 5)\n%.o: many.c\n\tgcc -O2 -c many.c -o $@\nclean:\n\trm -f *.o\nMakefile: ;\n",
    ),
    "Primes.java": (
        "Primes.java",
        "public class Primes { public static void main(String[] a) { long n = 0; for (long i = 3; ; i += 2) {\n"
        "boolean p = true; for (long d = 3; d * d <= i; d += 2) if (i % d == 0) { p = false; break; } if (p) n++;\n"
        "if (n < 0) System.out.println(n); } } }\n",
    ),
    "Grow.java": (
        "Grow.java",
        "public class Grow { public static void main(String[] a) { var l = new java.util.ArrayList<long[]>();\n"
        "while (true) l.add(new long[5000]); } }\n",
    ),
    "Locked.java": (
        "Locked.java",
        "public class Locked { static long n; static synchronized void add() { n++; }\n"
        "public static void main(String[] a) { for (int i = 0; i < 4; i++) new Thread(() -> { while (true) add(); }).start(); } }\n",
    ),
    "groups.sql": (
        "groups.sql",
        "create table t as with recursive c(i) as (select 1 union all select i+1 from c where i<50000)\n"
        "select i, (i*7919)%10007 as k, (i*104729)%1000 as v from c;\n"
        + "select k%100, sum(v), count(distinct k) from t group by k%100 order by 2;\n" * 5000,
    ),
    "insert.sql": ("insert.sql", "insert into zoo values (1);\n"),
    "nginx.conf": (
        "nginx.conf",
        "pid nginx.pid; user root; error_log /dev/null; events {} http { access_log off;\n"
        "server { listen 127.0.0.1:PORT; root .; } }\n",
    ),
    "turns.js": (
        "turns.js",
        "const w = require('worker_threads');\n"
        "const take = (s, me) => { const a = new Int32Array(s); for (;;) {\n"
        "while (Atomics.load(a, 0) !== me) Atomics.wait(a, 0, 1 - me); Atomics.store(a, 0, 1 - me); Atomics.notify(a, 0); } };\n"
        "if (w.isMainThread) { const s = new SharedArrayBuffer(4); new w.Worker(__filename, { workerData: s }); take(s, 0); }\n"
        "else take(w.workerData, 1);\n",
    ),
    "shared_mutex.cpp": (
        "./shared_mutex ",
        "#include <chrono>\n#include <cstdlib>\n#include <mutex>\n#include <shared_mutex>\n#include <thread>\n#include <vector>\n"
        "std::shared_mutex lock; volatile long sum;\nint main(int, char **v) { std::vector<std::thread> all;\n"
        "auto end = std::chrono::steady_clock::now() + std::chrono::seconds(atoi(v[1]));\n"
        "for (int i = 0; i < 4; i++) all.emplace_back([=] { while (std::chrono::steady_clock::now() < end) {\n"
        "std::unique_lock own(lock); for (int j = 0; j < 2000; j++) sum = sum + j; } });\n"
        "for (auto &one : all) one.join(); }\n",
    ),
}  # fmt: skip
TOOLS = (
    "clang", "rustc", "make", "pigz", "lz4", "openssl", "node", "perl", "ruby", "java", "ffmpeg",
    "convert", "stress-ng", "postgres", "sqlite3", "perf", "redis-server", "rsync", "nginx",
    "iperf3", "memcached", "mpiexec",
)  # fmt: skip


def _tool(command):
    """The program that a row needs, besides Python."""
    if "{group}" in command:
        return shared._tool("", command)
    words = command.replace(";", " ").split()
    return next((one for one in TOOLS if one in words), "sh")


ZOO = {name: row[0] for name, row in PROGRAMS.items() if shutil.which(_tool(row[2]))}


def _database():
    """A database for all rows that need one, made at the first."""
    if not os.path.exists(f"{DATABASE}/made"):
        shutil.rmtree(DATABASE, ignore_errors=True)
        os.mkdir(DATABASE)
        shutil.chown(DATABASE, "postgres")
        quietly = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*AS_POSTGRES.split(), "initdb", "-D", DATABASE], **quietly)
        table = "create table zoo (a int)"
        alone = [*AS_POSTGRES.split(), "postgres", "--single", "-D", DATABASE, "postgres"]
        subprocess.run(alone, input=table.encode(), **quietly)
        Path(f"{DATABASE}/made").touch()
    Path(f"{DATABASE}/postmaster.pid").unlink(missing_ok=True)


def _prepare(name, command, seconds):
    """The files of a row; a program in C++ is compiled."""
    sized = name in ("reads_in_small_group", "rsync_and_sync", "tar_cold_files")
    _files(name, command, seconds)
    for file, (needs, text) in OTHERS.items():
        if needs in command:
            Path(file).write_text(text.replace("PORT", str(20000 + os.getpid() % 20000)))
    if "make " in command and not os.path.exists("many.c"):
        _files(name, "many.c", seconds)
    if sized or "/data" in command:
        size = {"reads_in_small_group": 512, "rsync_and_sync": 100, "tar_cold_files": 300}.get(
            name, 4
        )
        block = os.urandom(2**20)
        with open("data", "wb") as data:
            for _ in range(size):
                data.write(block)
            os.fsync(data.fileno())
    if "postgres" in command:
        os.chmod(".", 0o755)  # noqa: PTH101
        _database()
    if "./shared_mutex" in command:
        subprocess.run(
            ["g++", "-O2", "-std=c++17", "shared_mutex.cpp", "-o", "shared_mutex", "-pthread"],
            check=True,
        )


_files, shared._prepare = shared._prepare, _prepare

if __name__ == "__main__":
    PROGRAMS = {
        name: (truth, why, command.replace("{bin}", str(Path(sys.executable).parent)))
        for name, (truth, why, command) in PROGRAMS.items()
    }
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
