"""A tenth set of ordinary programs, listed before the rules met them: `held_out_10.py NAME SECONDS`.

Every row has one ceiling, or two where a message and a wait for it are the same thing; 'undecided'
is never a right answer. Programs in C, Fortran and Go are made once: run a row once before it is
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

RANKS = "timeout {s} mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "

PROGRAMS = {
    # each works on data of its own that the caches hold
    "php_sieve": ("compute", "an interpreter that marks the multiples in 100,000 places", "timeout {s} php -r 'while (true) { $a = array_fill(0, 100000, 1); for ($i = 2; $i < 317; $i++) if ($a[$i]) for ($j = $i * $i; $j < 100000; $j += $i) $a[$j] = 0; }'"),
    "r_smooths": ("compute", "a local regression over 500 points, one thread", "OMP_NUM_THREADS=1 timeout {s} Rscript -e 'x <- seq(0, 9, len=500); y <- sin(x); repeat loess(y ~ x, span=0.3)'"),
    "povray_scene": ("compute", "rays through a small scene, in two threads", "timeout {s} sh -c 'while :; do povray +Iscene.pov +W800 +H600 +A0.1 +WT2 -D -GA +Oout.png >/dev/null 2>&1; done'"),
    "minisat_pigeons": ("compute", "proves that 12 pigeons do not fit 11 holes", "{python} pigeons.py >holes.cnf; timeout {s} minisat -verb=0 holes.cnf"),
    "flac_best": ("compute", "codes sound in blocks of 4096 samples", "head -c 40M /dev/urandom >sound; timeout {s} sh -c 'while :; do flac -8 -f -s --force-raw-format --endian=little --sign=signed --channels=2 --bps=16 --sample-rate=44100 sound -o sound.flac; done'"),
    "prolog_queens": ("compute", "searches for places of queens, one thread", "timeout {s} swipl -q -g 'repeat, queens(18, _), fail' queens.pl"),
    "go_sorts_two": ("compute", "two goroutines that sort 3000 numbers of their own", "{made}/sorts {s}"),
    "mpi_pi_by_chance": ("compute", "two ranks that draw numbers, one sum in a second", RANKS + "{made}/more_ranks pi"),
    "gpg_symmetric": ("compute", "packs and ciphers a text of 5 MB in the page cache", "GNUPGHOME=$PWD timeout {s} sh -c 'while :; do gpg --batch --yes --passphrase a --pinentry-mode loopback -o out.gpg -c text; done'"),
    # each operation needs new bytes from memory; the caches hold a tenth or less
    "fortran_axpy": ("memory bandwidth", "two operations for 24 bytes of arrays of 400 MB", "{made}/axpy {s}"),
    "go_copies": ("memory bandwidth", "copies 400 MB from slice to slice", "{made}/copies {s}"),
    "numpy_clip_in_place": ("memory bandwidth", "two comparisons for 8 bytes of 400 MB", "{python} numpy_clip_in_place.py"),
    "stress_memrate": ("memory bandwidth", "writes and reads 512 MB in large steps", "stress-ng --memrate 1 --memrate-bytes 512m -t {s}"),
    "mpi_triad": ("memory bandwidth", "two ranks, two operations for 24 bytes of 160 MB each", RANKS + "{made}/more_ranks triad"),
    # each waits for the disk
    "lmdb_commits": ("data I/O", "every row is a transaction that reaches the disk", "{python} lmdb_commits.py"),
    "c_saves_mapped_array": ("data I/O", "an array of 64 MB in a mapped file, saved after each small step", "{made}/saves {s}"),
    "fio_mapped_writes": ("data I/O", "blocks of a mapped file, each brought to the disk", "fio --name=m --filename=data3 --size=64m --rw=randwrite --bs=64k --ioengine=mmap --fsync=1 --runtime={s} --time_based --output=/dev/null"),
    "php_synced_rows": ("data I/O", "rows that are appended and brought to the disk", "timeout {s} php -r '$f = fopen(\"log\", \"a\"); while (true) { fwrite($f, str_repeat(\"row\", 500)); fsync($f); }'"),
    "python_four_cold_readers": ("data I/O", "four threads that read 64 kB each from a file that the page cache does not hold", "{python} python_four_cold_readers.py {made}/data"),
    # each page is used once
    "r_fresh_vectors": ("page faults", "a fresh vector of 320 MB each time", "timeout {s} Rscript -e 'repeat x <- numeric(4e7)'"),
    "fortran_allocates": ("page faults", "an array of 200 MB for each call, filled and given back", "{made}/allocates {s}"),
    "php_fresh_strings": ("page faults", "a fresh string of 100 MB each time", "timeout {s} php -d memory_limit=-1 -r 'while (true) { $s = str_repeat(\"x\", 100000000); unset($s); }'"),
    # each waits for a clock, its own or that of a server
    "pv_limited": ("latency", "3 MB/s are allowed, it sleeps in between", "head -c 64M /dev/zero >in; timeout {s} pv -q -L 3m in >out"),
    "curl_limited": ("latency", "a file of 64 MB at 2 MB/s, as its user asks", "head -c 64M /dev/zero >in; {python} -m http.server {port} >/dev/null 2>&1 & sleep 1; timeout {s} curl -s --limit-rate 2M -o out http://127.0.0.1:{port}/in; kill %1; wait"),
    "fio_thinks": ("latency", "a direct write of 4 kB, then 20 ms of thought", "fio --name=t --filename=data4 --size=64m --rw=randwrite --bs=4k --direct=1 --thinktime=20000 --runtime={s} --time_based --output=/dev/null"),
    "tcl_after": ("latency", "a small sum every 10 ms", "timeout {s} tclsh ticks.tcl"),
    "go_ticker": ("latency", "a small answer every 5 ms, by a clock", "{made}/ticks {s}"),
    # each part waits until another has done something
    "filelock_four_processes": ("coordination", "four processes work 20 ms only while they hold the file lock; they ask again every 50 ms", "{python} filelock_four_processes.py"),
    "python_locks_records": ("coordination", "three processes work only while they hold the lock of a record", "{python} python_locks_records.py"),
    "perl_flock_jobs": ("coordination", "three processes count only while they hold the file lock", "touch lock; for i in 1 2 3; do timeout {s} perl -e 'use Fcntl \":flock\"; open F, \"<lock\"; while (1) { flock F, LOCK_EX; $n++ for 1..300000; flock F, LOCK_UN }' & done; wait"),
    "go_one_mutex": ("coordination", "four goroutines work 0.1 ms only while they hold the one mutex", "GOMAXPROCS=4 {made}/mutex {s}"),
    "ruby_queue_of_one": ("coordination", "two threads pass numbers through a queue with one place", "timeout {s} ruby -e 'q = SizedQueue.new(1); Thread.new { loop { q.pop } }; loop { q << 1 }'"),
    "openmp_tiny_loops": ("coordination", "four threads that meet after each few thousand operations, and sleep there", "OMP_WAIT_POLICY=passive OMP_NUM_THREADS=4 {made}/meets {s}"),
    "mpi_token": ("coordination or communication", "a number goes round between two ranks", RANKS + "{made}/more_ranks token"),
    # each moves bytes between processes and does little else
    "mosquitto_messages": ("communication", "lines of 100 bytes through a broker", "mosquitto -p {port} >/dev/null 2>&1 & sleep 0.5; timeout {s} mosquitto_sub -p {port} -t t >/dev/null & yes $(printf %0100d 1) | timeout {s} mosquitto_pub -p {port} -t t -l; kill %1; wait"),
    "ab_lighttpd": ("communication", "requests and answers of some hundred bytes, 8 connections", "echo some words >small; lighttpd -D -f lighttpd.conf & sleep 0.5; ab -q -k -c 8 -t {s} -n 100000000 http://127.0.0.1:{port}/small >/dev/null; kill %1; wait"),
    "zeromq_messages": ("communication", "messages of 2 kB from one process to another", "{python} zeromq_messages.py {port}"),
    "ncat_stream": ("communication", "bytes through a socket and nothing else", "timeout {s} ncat -l 127.0.0.1 {port} >/dev/null & sleep 0.4; timeout {s} ncat --send-only 127.0.0.1 {port} </dev/zero; wait"),
    "go_tcp_stream": ("communication", "blocks of 64 kB through a socket between two processes", "{made}/stream {s} {port} take & sleep 0.4; {made}/stream {s} {port} give; wait"),
    "mpi_broadcasts": ("communication", "4 MB from one rank to the other and nothing else", RANKS + "{made}/more_ranks broadcast"),
    # each ends because it may have no more memory
    "r_over_limit": ("memory capacity", "a list that grows until the limit of the process", "ulimit -v 1500000; Rscript -e 'a <- list(); repeat a[[length(a) + 1]] <- runif(1e5)'"),
    "go_over_group": ("memory capacity", "a map that forgets nothing; the control group allows 300 MB and kills", "{group} {made}/grows"),
}  # fmt: skip
shared.FILES.update(
    {
        "numpy_clip_in_place": shared.NUMPY + "a = r.random(50_000_000)\nwhile time.time() < end: np.clip(a, 0.2, 0.8, out=a)",
        "lmdb_commits": "import lmdb, time; end = time.time() + {s}; n = 0\n"
        "with lmdb.open('rows', map_size=1 << 28) as store:\n    while time.time() < end:\n"
        "        with store.begin(write=True) as t: t.put(b'%d' % (n % 5000), b'x' * 200)\n        n += 1",
        "python_four_cold_readers": "import os, random, sys, time; from concurrent.futures import ThreadPoolExecutor; end = time.time() + {s}\n"
        "door = os.open(sys.argv[1], os.O_RDONLY); os.posix_fadvise(door, 0, 0, os.POSIX_FADV_DONTNEED); os.posix_fadvise(door, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "def work(_):\n    while time.time() < end:\n        at = random.randrange(4000) << 16\n"
        "        os.pread(door, 1 << 16, at); os.posix_fadvise(door, at, 1 << 16, os.POSIX_FADV_DONTNEED)\n"
        "list(ThreadPoolExecutor(4).map(work, range(4)))",
        "filelock_four_processes": "import multiprocessing as m, time; from filelock import FileLock; end = time.time() + {s}\n"
        "def work():\n    lock = FileLock('one.lock')\n    while time.time() < end:\n        with lock:\n            until = time.thread_time() + 0.02\n"
        "            while time.thread_time() < until: sum(range(1000))\n"
        "if __name__ == '__main__':\n    p = [m.Process(target=work) for _ in range(4)]\n    [x.start() for x in p]; [x.join() for x in p]",
        "python_locks_records": "import fcntl, hashlib, multiprocessing as m, time; end = time.time() + {s}\n"
        "def work():\n    with open('records', 'r+b') as f:\n        while time.time() < end:\n"
        "            fcntl.lockf(f, fcntl.LOCK_EX, 100, 0); hashlib.pbkdf2_hmac('sha256', b'a', b'b', 3000); fcntl.lockf(f, fcntl.LOCK_UN, 100, 0)\n"
        "if __name__ == '__main__':\n    open('records', 'wb').write(bytes(1000)); p = [m.Process(target=work) for _ in range(3)]\n"
        "    [x.start() for x in p]; [x.join() for x in p]",
        "zeromq_messages": "import multiprocessing as m, sys, time, zmq; end = time.time() + {s}; place = 'tcp://127.0.0.1:' + sys.argv[1]\n"
        "def take():\n    door = zmq.Context().socket(zmq.PULL); door.bind(place)\n    while door.recv() != b'end': pass\n"
        "if __name__ == '__main__':\n    p = m.Process(target=take); p.start(); door = zmq.Context().socket(zmq.PUSH); door.connect(place); note = bytes(2000)\n"
        "    while time.time() < end:\n        for _ in range(100): door.send(note)\n    door.send(b'end'); p.join()",
    }
)  # fmt: skip
ninth.BESIDE.update(
    {
        "scene.pov": (
            "scene.pov",
            "camera { location <0, 2, -9> look_at 0 }\nlight_source { <9, 9, -9> rgb 1 }\nplane { y, -1 pigment { checker rgb 0.2 rgb 0.8 } finish { reflection 0.3 } }\n"
            "#declare i = 0;\n#while (i < 40) sphere { <mod(i, 8) - 4, mod(i, 5) - 1, mod(i, 7) - 3>, 0.6 pigment { rgb <0.3, 0.5, 0.9> } finish { reflection 0.4 phong 0.7 } } #declare i = i + 1; #end\n",
        ),
        "queens.pl": (
            "queens.pl",
            "queens(N, Qs) :- numlist(1, N, L), place(L, [], Qs), !.\nplace([], Qs, Qs).\n"
            "place(L, Placed, Qs) :- select(Q, L, Rest), safe(Q, 1, Placed), place(Rest, [Q|Placed], Qs).\n"
            "safe(_, _, []).\nsafe(Q, D, [P|Ps]) :- Q =\\= P + D, Q =\\= P - D, D1 is D + 1, safe(Q, D1, Ps).\n",
        ),
        "pigeons.py": (
            "pigeons.py",
            "n = 11; p = lambda i, j: i * n + j + 1\nrows = [[p(i, j) for j in range(n)] for i in range(n + 1)]\n"
            "rows += [[-p(i, j), -p(k, j)] for j in range(n) for i in range(n + 1) for k in range(i)]\n"
            "print('p cnf', n * (n + 1), len(rows))\nfor row in rows: print(*row, 0)\n",
        ),
        "ticks.tcl": (
            "ticks.tcl",
            "proc tick {} { set n 0; for {set i 0} {$i < 300} {incr i} { incr n $i }; after 10 tick }\ntick\nvwait forever\n",
        ),
        "lighttpd.conf": (
            "lighttpd.conf",
            'server.document-root = var.CWD\nserver.port = PORT\nserver.bind = "127.0.0.1"\nserver.max-keep-alive-requests = 1000000000\n',
        ),
    }
)  # fmt: skip
GO = "package main\nimport (\n%s)\nfunc end() time.Time { s, _ := strconv.Atoi(os.Args[1]); return time.Now().Add(time.Duration(s) * time.Second) }\n"


def _go(name, imports, body):
    """A Go program: what is made, its source, the command that makes it."""
    lines = "".join(f'"{one}"\n' for one in sorted({"os", "strconv", "time", *imports.split()}))
    return (f"{name}.go", GO % lines + body, f"go build -o {name} {name}.go")


ninth.SOURCES.update(
    {
        "sorts": _go("sorts", "sort sync", "func main() { u := end(); var w sync.WaitGroup\n"
            "for g := 0; g < 2; g++ { w.Add(1); go func() { a := make([]int, 3000); for time.Now().Before(u) { for i := range a { a[i] = i * 7919 % 10007 }; sort.Ints(a) }; w.Done() }() }\nw.Wait() }\n"),
        "copies": _go("copies", "", "func main() { u := end(); a, b := make([]byte, 400000000), make([]byte, 400000000); for i := range a { a[i] = byte(i) }; for time.Now().Before(u) { copy(b, a) } }\n"),
        "ticks": _go("ticks", "", "func main() { u := end(); n := 0; t := time.NewTicker(5 * time.Millisecond); for range t.C { for i := 0; i < 3000; i++ { n += i % 7 }; if time.Now().After(u) { os.Exit(n & 0) } } }\n"),
        "mutex": _go("mutex", "crypto/sha256 sync", "func main() { u := end(); var m sync.Mutex; var w sync.WaitGroup; b := make([]byte, 50000)\n"
            "for g := 0; g < 4; g++ { w.Add(1); go func() { for time.Now().Before(u) { m.Lock(); s := sha256.Sum256(b); b[0] = s[0]; m.Unlock() }; w.Done() }() }\nw.Wait() }\n"),
        "stream": _go("stream", "net", "func main() { u := end(); b := make([]byte, 65536)\n"
            "if os.Args[3] == \"take\" { l, e := net.Listen(\"tcp\", \"127.0.0.1:\" + os.Args[2]); if e != nil { panic(e) }; c, _ := l.Accept(); for { if _, e := c.Read(b); e != nil { return } } }\n"
            "c, e := net.Dial(\"tcp\", \"127.0.0.1:\" + os.Args[2]); if e != nil { panic(e) }; for time.Now().Before(u) { c.Write(b) } }\n"),
        "grows": ("grows.go", "package main\nimport \"fmt\"\nfunc main() { m := map[int]string{}; for i := 0; ; i++ { m[i] = fmt.Sprintf(\"%0200d\", i) } }\n", "go build -o grows grows.go"),
        "axpy": (
            "axpy.f90",
            "program axpy\n  implicit none\n  integer, parameter :: n = 50000000\n  real(8), allocatable :: x(:), y(:)\n  character(9) :: word\n  integer :: seconds, t0, t, rate\n"
            "  call get_command_argument(1, word); read (word, *) seconds\n  allocate(x(n), y(n)); x = 1; y = 2\n  call system_clock(t0, rate)\n"
            "  do\n    y = y + 1d-9 * x\n    call system_clock(t)\n    if (t - t0 > seconds * rate) exit\n  end do\n  if (y(7) < 0) print *, y(7)\nend program\n",
            "gfortran -O3 -march=native axpy.f90 -o axpy",
        ),
        "allocates": (
            "allocates.f90",
            "program allocates\n  implicit none\n  real(8), allocatable :: a(:)\n  character(9) :: word\n  integer :: seconds, t0, t, rate\n  real(8) :: s\n"
            "  call get_command_argument(1, word); read (word, *) seconds\n  call system_clock(t0, rate); s = 0\n"
            "  do\n    allocate(a(25000000)); a = s; s = s + a(7) + 1; deallocate(a)\n    call system_clock(t)\n    if (t - t0 > seconds * rate) exit\n  end do\n  print *, s\nend program\n",
            "gfortran -O2 allocates.f90 -o allocates",
        ),
        "saves": (
            "saves.c",
            "#include <fcntl.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <time.h>\n#include <unistd.h>\n#define N (64L << 20)\n"
            "int main(int c, char **v) { time_t end = time(0) + atoi(v[1]); int f = open(\"array\", O_RDWR | O_CREAT, 0644); if (ftruncate(f, N)) return 1;\n"
            "double *a = mmap(0, N, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);\n"
            "for (int k = 0; time(0) < end; k++) { for (long i = k % 64; i < N / 8; i += 512) a[i] = a[i] * 0.5 + k; msync(a, N, MS_SYNC); }\nreturn 0; }\n",
            "gcc -O2 saves.c -o saves",
        ),
        "meets": (
            "meets.c",
            "#include <stdlib.h>\n#include <time.h>\nint main(int c, char **v) { time_t end = time(0) + atoi(v[1]); double s[64] = {0};\n"
            "while (time(0) < end) for (int k = 0; k < 100; k++) {\n#pragma omp parallel for schedule(static, 1)\n"
            "for (int t = 0; t < 4; t++) for (int i = 0; i < 1000 * (1 + t * k % 4); i++) s[16 * t] += i * 0.5; }\nreturn s[0] < 0; }\n",
            "gcc -O2 -fopenmp meets.c -o meets",
        ),
        "more_ranks": (
            "more_ranks.c",
            "#include <mpi.h>\n#include <stdlib.h>\n#include <string.h>\n#define N (4 << 20)\n#define M 6666666\n"
            "int main(int c, char **v) { MPI_Init(&c, &v); int own; MPI_Comm_rank(MPI_COMM_WORLD, &own); char *a = calloc(N, 1); long in = 0, all;\n"
            "if (!strcmp(v[1], \"broadcast\")) for (;;) MPI_Bcast(a, N, MPI_CHAR, 0, MPI_COMM_WORLD);\n"
            "if (!strcmp(v[1], \"token\")) for (;;) { if (own) { MPI_Recv(a, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); MPI_Send(a, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD); }\n"
            "  else { MPI_Send(a, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD); MPI_Recv(a, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); } }\n"
            "if (!strcmp(v[1], \"triad\")) { double *x = malloc(8L * M), *y = malloc(8L * M), *z = malloc(8L * M); for (long i = 0; i < M; i++) x[i] = y[i] = z[i] = i;\n"
            "  for (;;) { for (int k = 0; k < 30; k++) { for (long i = 0; i < M; i++) x[i] = y[i] + 3.0 * z[i]; __asm__ volatile(\"\" ::: \"memory\"); } MPI_Allreduce(&in, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD); } }\n"
            "unsigned long r = own + 88172645463325252UL; for (;;) { for (long i = 0; i < 200000000; i++) { r ^= r << 13; r ^= r >> 7; r ^= r << 17; double x = (r >> 40) / 16777216.0, y = (r & 0xffffff) / 16777216.0; in += x * x + y * y < 1; }\n"
            "  MPI_Allreduce(&in, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD); } }\n",
            "mpicc.openmpi -O3 more_ranks.c -o more_ranks",
        ),
    }
)  # fmt: skip
PROGRAMS = {
    name: (truth, why, command.replace("{made}", str(MADE)))
    for name, (truth, why, command) in PROGRAMS.items()
}
_TOOLS = ("php", "Rscript", "povray", "minisat", "flac", "swipl", "mpirun.openmpi", "gpg", "stress-ng", "fio",
          "pv", "curl", "tclsh", "perl", "ruby", "mosquitto", "lighttpd", "ncat")  # fmt: skip
_MADE_BY = {"go_": "go", "fortran_": "gfortran"}


def _tool(name, command):
    """The program that a row needs, besides Python."""
    if "{group}" in command and shared._tool("", command) == "missing":
        return "missing"
    maker = next((tool for start, tool in _MADE_BY.items() if name.startswith(start)), None)
    words = command.replace(";", " ").split()
    return maker or next((one for one in _TOOLS if one in words), "sh")


ZOO = {name: row[0] for name, row in PROGRAMS.items() if shutil.which(_tool(name, row[2]))}

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
