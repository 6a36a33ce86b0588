"""An eighth set of ordinary programs, listed before the rules met them: `held_out_8.py NAME S`."""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import shutil
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_7", Path(__file__).with_name("held_out_7.py")
)
seventh = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(seventh)
shared = seventh.shared

PROGRAMS = {
    "gcc_one_file": ("compute", "a compiler on one file in the page cache", "timeout {s} sh -c 'while :; do gcc -O2 -c many.c -o many.o; done'"),
    "javac_again": ("compute", "a compiler that starts again each time", "timeout {s} sh -c 'while :; do javac Primes.java; done'"),
    "brotli_like_lzma": ("compute", "the 7-zip method on a text of 5 MB, one thread", "timeout {s} sh -c 'while :; do 7z a -mx9 -mmt1 -bso0 out.7z text; rm out.7z; done'"),
    "bzip2_unpacks": ("compute", "unpacks a text to nowhere", "bzip2 -k text; timeout {s} sh -c 'while :; do bzip2 -dc text.bz2 >/dev/null; done'"),
    "sed_and_sort": ("compute", "a text of 5 MB in the page cache, changed and sorted", "timeout {s} sh -c 'while :; do sed s/line/row/ text | LC_ALL=C.UTF-8 sort -u >/dev/null; done'"),
    "node_sorts": ("compute", "sorts 5000 numbers, makes garbage", "timeout {s} node -e 'const a=[...Array(5000).keys()].map(i=>i*7919%10007);for(;;)a.slice().sort((x,y)=>x-y)'"),
    "php_or_lua_loop": ("compute", "an interpreter that adds in a loop", "timeout {s} lua5.4 -e 'local x=0; while true do for i=1,100000 do x=x+i%7 end end'"),
    "octave_eigenvalues": ("compute", "eigenvalues of 200 x 200 numbers", "OMP_NUM_THREADS=1 timeout {s} octave-cli --eval 'a=rand(200); while 1 eig(a); end'"),
    "openssl_signs": ("compute", "signatures with elliptic curves, one process", "openssl speed -seconds {s} ecdsap256"),
    "stress_search": ("compute", "binary search over a table that fits the cache", "stress-ng --bsearch 1 -t {s}"),
    "python_json_pool": ("compute", "two processes that parse small texts", "{python} python_json_pool.py"),
    "scipy_minimise": ("compute", "a small function, minimised again and again", "{python} scipy_minimise.py"),
    "torch_attention": ("compute", "attention over 128 positions, two threads", "OMP_NUM_THREADS=2 {python} torch_attention.py"),
    "sqlite_like_scan": ("compute", "matches 50,000 strings in memory", "timeout {s} sqlite3 :memory: < likes.sql"),
    "numpy_where_large": ("memory bandwidth", "copies 480 MB in place of another array", "{python} numpy_where_large.py"),
    "torch_relu_in_place": ("memory bandwidth", "one comparison for 8 bytes of 400 MB", "OMP_NUM_THREADS=1 {python} torch_relu_in_place.py"),
    "c_histogram_of_rows": ("memory bandwidth", "two threads add up 600 MB each", "OMP_NUM_THREADS=2 ./sums {s}"),
    "stress_page_maps": ("page faults", "maps and unmaps fresh memory", "stress-ng --brk 1 --brk-notouch 0 -t {s} || stress-ng --brk 1 -t {s}"),
    "python_fresh_bytes": ("page faults", "100 MB of fresh zeros that are given back", "{python} python_fresh_bytes.py"),
    "perl_over_limit": ("memory capacity", "a list that grows beyond the limit of the process", "ulimit -v 400000; perl -e 'while(1){push @a, \"x\" x 10000}'"),
    "sort_over_group": ("memory capacity", "the control group allows 300 MB and kills", "{group} perl -e 'while(1){push @a, \"x\" x 10000}'"),
    "fio_mixed": ("data I/O", "direct reads and writes of 16 kB", "fio --name=m --filename=data2 --size=128m --rw=randrw --bs=16k --direct=1 --ioengine=psync --runtime={s} --time_based --output=/dev/null"),
    "git_like_small_files": ("data I/O", "small files, each brought to the disk", "timeout {s} sh -c 'i=0; while :; do i=$((i+1)); dd if=/dev/zero of=f$((i%50)) bs=4k count=3 conv=fsync status=none; done'"),
    "node_writes_synced": ("data I/O", "rows that are appended and brought to the disk", "timeout {s} node -e 'const f=require(\"fs\"),d=f.openSync(\"log\",\"a\");for(;;){f.writeSync(d,\"row of text\\n\".repeat(50));f.fsyncSync(d)}'"),
    "ruby_sleeps": ("latency", "waits for a clock", "timeout {s} ruby -e 'loop{sleep 0.01; 100.times{|i| i*i}}'"),
    "curl_slow_server": ("latency", "one request after another to a server that takes 100 ms", "{python} slow_server.py {port} & sleep 1; timeout {s} sh -c 'while :; do curl -s -o /dev/null http://127.0.0.1:{port}/; done'; kill %1; wait"),
    "postgres_small_queries": ("communication or compute or undecided", "a client and a server that take turns", seventh.SERVER + "timeout {s} pgbench -h /tmp -p {port} -U postgres -n -f select.sql -c 2 -T {s} postgres >/dev/null 2>&1" + seventh.DONE),
    "redis_many_clients": ("communication", "a few bytes in each message", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-benchmark -p {port} -c 20 -n 100000000 -q -t incr >/dev/null; kill %1; wait"),
    "python_socket_stream": ("communication", "bytes from one process to another", "{python} python_socket_stream.py"),
    "iperf3_four_streams": ("communication", "four streams through sockets", "iperf3 -s -1 -p {port} >/dev/null & sleep 0.4; iperf3 -c 127.0.0.1 -P 4 -p {port} -t {s}; wait"),
    "stress_datagrams": ("communication", "datagrams through local sockets", "stress-ng --udp 1 --udp-domain ipv6 -t {s}"),
    "cpp_condition_queue": ("coordination", "four threads take tiny tasks from one queue", "./tasks {s}"),
    "perf_pipe_threads": (
        "coordination or communication",
        "two threads that wake each other through a pipe",
        "timeout {s} perf bench sched pipe -T -l 100000000",
    ),
    "ruby_mutex": ("coordination", "four threads that count under one lock", "timeout {s} ruby -e 'm=Mutex.new; n=0; 4.times.map{Thread.new{loop{m.synchronize{n+=1}}}}.each(&:join)'"),
    "python_semaphore_processes": ("coordination", "three processes work only while they hold the one semaphore", "{python} python_semaphore_processes.py"),
    "stress_barriers": ("coordination", "threads that meet again and again", "stress-ng --resched 1 -t 1; timeout {s} {python} threads_meet.py"),
}  # fmt: skip
shared.FILES.update(
    {
        "python_json_pool": "import multiprocessing as m, json, time; end = time.time() + {s}\n"
        "def work(n):\n    t = json.dumps([{'i': i, 'n': 'x' * n} for i in range(300)])\n    while time.time() < end: json.loads(t)\n"
        "if __name__ == '__main__': m.Pool(2).map(work, [5, 6])",
        "scipy_minimise": "import time; from scipy.optimize import minimize, rosen; end = time.time() + {s}\n"
        "while time.time() < end: minimize(rosen, [1.3, 0.7, 0.8, 1.9, 1.2], method='Nelder-Mead')",
        "torch_attention": shared.TORCH + "q = torch.rand(4, 8, 128, 64)\nwith torch.no_grad():\n"
        "    while time.time() < end: torch.nn.functional.scaled_dot_product_attention(q, q, q)",
        "numpy_where_large": shared.NUMPY + "a, b = r.random(60_000_000), r.random(60_000_000)\nwhile time.time() < end: np.copyto(a, b)",
        "torch_relu_in_place": shared.TORCH + "x = torch.rand(100_000_000)\nwhile time.time() < end: x.relu_()",
        "python_fresh_bytes": "import time; end = time.time() + {s}\nwhile time.time() < end:\n    b = bytearray(100_000_000); b[::4096] = bytes(len(b[::4096])); del b",
        "slow_server": "import http.server, sys, time\nclass Slow(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): time.sleep(0.1); self.send_response(200); self.end_headers(); self.wfile.write(b'ok')\n"
        "    def log_message(self, *_): pass\nhttp.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Slow).serve_forever()",
        "python_socket_stream": "import os, socket, time; end = time.time() + {s}; a, b = socket.socketpair()\n"
        "if os.fork() == 0:\n    take = bytearray(1 << 18); a.close()\n    while b.recv_into(take): pass\n    os._exit(0)\n"
        "b.close(); give = bytes(1 << 18)\nwhile time.time() < end: a.sendall(give)\n",
        "python_semaphore_processes": "import multiprocessing as m, time; end = time.time() + {s}; l = m.Semaphore(1)\n"
        "def work():\n    while time.time() < end:\n        with l: sum(range(50000))\n"
        "if __name__ == '__main__':\n    p = [m.Process(target=work) for _ in range(3)]\n    [x.start() for x in p]; [x.join() for x in p]",
        "threads_meet": "import threading, time; b = threading.Barrier(4)\ndef work():\n    while True: b.wait()\n"
        "t = [threading.Thread(target=work) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]",
    }
)  # fmt: skip
FILE_OF_ROW = {"curl_slow_server": "slow_server", "stress_barriers": "threads_meet"}
seventh.OTHERS.update(
    {
        "likes.sql": (
            "likes.sql",
            "create table t as with recursive c(i) as (select 1 union all select i+1 from c where i<50000)\n"
            "select 'name ' || (i*7919)%10007 || ' of ' || i as n from c;\n"
            + "select count(*) from t where n like '%99%of%1%';\n" * 5000,
        ),
        "select.sql": ("select.sql", "select 1;\n"),
        "sums.c": (
            "./sums ",
            "#include <stdlib.h>\n#include <time.h>\n#define N 75000000L\nint main(int c, char **v) {\n"
            "time_t end = time(0) + atoi(v[1]); double all = 0;\n#pragma omp parallel reduction(+:all)\n"
            "{ double *a = malloc(8 * N); for (long i = 0; i < N; i++) a[i] = i;\n"
            "while (time(0) < end) { double s[8] = {0}; for (long i = 0; i < N; i += 8) for (int k = 0; k < 8; k++) s[k] += a[i + k];\n"
            "all += s[0] + s[7]; __asm__ volatile(\"\" ::: \"memory\"); } }\nreturn all < 0; }\n",
        ),
        "tasks.cpp": (
            "./tasks ",
            "#include <chrono>\n#include <condition_variable>\n#include <cstdlib>\n#include <deque>\n#include <mutex>\n#include <thread>\n#include <vector>\n"
            "std::mutex m; std::condition_variable ready; std::deque<int> tasks; bool over; volatile long sum;\n"
            "int main(int, char **v) { std::vector<std::thread> all;\n"
            "for (int i = 0; i < 4; i++) all.emplace_back([] { for (;;) { std::unique_lock l(m); ready.wait(l, [] { return over || !tasks.empty(); });\n"
            "if (over) return; int n = tasks.front(); tasks.pop_front(); l.unlock(); for (int j = 0; j < n; j++) sum = sum + j; } });\n"
            "auto end = std::chrono::steady_clock::now() + std::chrono::seconds(atoi(v[1]));\n"
            "while (std::chrono::steady_clock::now() < end) { { std::lock_guard l(m); if (tasks.size() < 8) tasks.push_back(50); } ready.notify_one(); }\n"
            "{ std::lock_guard l(m); over = true; } ready.notify_all(); for (auto &one : all) one.join(); }\n",
        ),
    }
)  # fmt: skip
_TOOLS = ("7z", "javac", "bzip2", "node", "lua5.4", "octave-cli", "openssl", "stress-ng", "sqlite3",
          "perl", "fio", "ruby", "curl", "postgres", "redis-server", "iperf3", "perf")  # fmt: skip


def _tool(command):
    """The program that a row needs, besides Python."""
    if "{group}" in command:
        return shared._tool("", command)
    words = command.replace(";", " ").split()
    return next((one for one in _TOOLS if one in words), "sh")


ZOO = {name: row[0] for name, row in PROGRAMS.items() if shutil.which(_tool(row[2]))}


def _prepare(name, command, seconds):
    """The files of a row; programs in C and C++ are compiled."""
    _files(name, command, seconds)
    if name in FILE_OF_ROW:
        _files(FILE_OF_ROW[name], command, seconds)
    for source, compiler in (
        ("sums.c", "gcc -O3 -fopenmp"),
        ("tasks.cpp", "g++ -O2 -std=c++17 -pthread"),
    ):
        if Path(source).exists():
            seventh.subprocess.run([*compiler.split(), source, "-o", Path(source).stem], check=True)


_files, shared._prepare = shared._prepare, _prepare

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
