"""An eleventh set of ordinary programs, listed before the rules met them: `held_out_11.py NAME SECONDS`.

Every row has one ceiling, or two where a message and a wait for it are the same thing; 'undecided'
is never a right answer. Programs in C, Rust, Java, Go and OCaml are made once: run a row once before
it is watched, so that their making is not watched too.
"""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import shutil
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_10", Path(__file__).with_name("held_out_10.py")
)
tenth = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tenth)
ninth, shared, MADE = tenth.ninth, tenth.shared, tenth.MADE

RANKS = "timeout {s} mpirun.mpich -n 2 "

PROGRAMS = {
    # each works on data of its own that the caches hold
    "rust_bodies_two": ("compute", "two threads that move five bodies of their own", "{made}/rusty bodies {s}"),
    "luajit_queens": ("compute", "counts places of twelve queens, compiled while it runs", "timeout {s} luajit queens.lua"),
    "sbcl_permutations": ("compute", "flips permutations of ten numbers", "timeout {s} sbcl --script flips.lisp"),
    "ocaml_maps": ("compute", "builds and forgets trees of 500 keys", "{made}/maps {s}"),
    "z3_factors": ("compute", "searches the factors of a number of 64 bits", "timeout {s} z3 product.smt2"),
    "pari_factors": ("compute", "factors numbers of 50 digits", "timeout {s} gp -q factors.gp"),
    "ngspice_ring": ("compute", "the steps of a small oscillating circuit", "timeout {s} sh -c 'while :; do ngspice -b ring.cir >/dev/null 2>&1; done'"),
    "sox_resamples": ("compute", "filters sound in blocks of 8192 samples", "timeout {s} sox -n -n synth 100000 sine 300 rate -v 96k"),
    "jq_document": ("compute", "an interpreter over a document of 2 MB in the page cache", "{python} documents.py >rows.json; timeout {s} sh -c 'while :; do jq \"[.[] | select(.i % 7 == 3) | .word | test(\\\"a.*7\\\")] | length\" rows.json >/dev/null; done'"),
    "lightgbm_one": ("compute", "one thread that grows trees over 800 kB", "{python} lightgbm_one.py"),
    "numba_orbits_two": ("compute", "two threads, 400 operations for each point, equal shares", "NUMBA_NUM_THREADS=2 {python} numba_orbits_two.py"),
    "octave_collatz": ("compute", "an interpreter that follows one number", "timeout {s} octave-cli -qf collatz.m"),
    "mpich_collatz": ("compute", "two ranks that follow numbers of their own, one sum in a second", RANKS + "{made}/mpich_ranks collatz"),
    # each operation needs new bytes from memory; the caches hold a tenth or less
    "rust_adds": ("memory bandwidth", "one operation for 24 bytes of two vectors of 400 MB", "{made}/rusty adds {s}"),
    "java_scales": ("memory bandwidth", "two operations for 24 bytes of two arrays of 400 MB", "timeout {s} java -Xmx2g -cp {made} Scales"),
    "numba_mean_two": ("memory bandwidth", "two threads, three operations for 24 bytes of 400 MB", "NUMBA_NUM_THREADS=2 {python} numba_mean_two.py"),
    "sysbench_writes": ("memory bandwidth", "writes a block of 512 MB from its start to its end", "sysbench memory --memory-block-size=512M --memory-total-size=1000T --memory-oper=write --time={s} run"),
    "polars_largest": ("memory bandwidth", "two threads, one comparison for 8 bytes of 800 MB", "POLARS_MAX_THREADS=2 {python} polars_largest.py"),
    "c_moves_block": ("memory bandwidth", "moves 400 MB by one page, there and back", "{made}/moves {s}"),
    # each waits for the disk
    "rocksdb_synced_puts": ("data I/O", "every put is brought to the disk", "db_bench --benchmarks=fillrandom --sync=1 --db=rows --duration={s} --num=100000000 --compression_type=none"),
    "ioping_direct": ("data I/O", "one direct read after another, without a pause", "ioping -D -i 0 -q -w {s} {made}/data"),
    "fio_uring": ("data I/O", "four direct reads of 16 kB under way, through io_uring", "fio --name=u --filename=data5 --size=256m --rw=randread --bs=16k --direct=1 --ioengine=io_uring --iodepth=4 --runtime={s} --time_based --output=/dev/null"),
    "java_forces_records": ("data I/O", "records of 2 kB, each brought to the disk", "timeout {s} java -cp {made} Forces"),
    "rust_replaces_file": ("data I/O", "writes a file of 100 kB, syncs it, renames it, syncs the folder", "{made}/rusty replaces {s}"),
    "perl_two_logs": ("data I/O", "two processes that append lines, each brought to the disk", "for i in 1 2; do timeout {s} perl -MIO::Handle -e 'open F, \">>\", shift; while (1) { print F \"a line\\n\" x 40; F->flush; F->sync }' log$i & done; wait"),
    # each page is used once
    "rust_fresh_vecs": ("page faults", "a fresh vector of 200 MB each time", "{made}/rusty fresh {s}"),
    "octave_fresh_matrices": ("page faults", "a fresh matrix of 200 MB each time", "timeout {s} octave-cli -qf fresh.m"),
    "c_returns_pages": ("page faults", "an arena of 256 MB that is given back and used again", "{made}/returns {s}"),
    "lua_fresh_strings": ("page faults", "fresh strings of 100 MB each time", "timeout {s} lua5.4 -e 'local u = string.rep(\"x\", 1000000) while true do local s = string.rep(u, 100) s = nil collectgarbage() end'"),
    # each waits for a clock, its own or that of a server
    "rust_ticks": ("latency", "0.3 ms of work every 4 ms", "{made}/rusty ticks {s}"),
    "java_scheduled": ("latency", "a small sum every 20 ms", "timeout {s} java -cp {made} Ticks"),
    "redis_cli_interval": ("latency", "a command of 0.1 ms every 20 ms", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-cli -p {port} -r 1000000 -i 0.02 incr n >/dev/null; kill %1; wait"),
    "go_slow_service": ("latency", "one request after another to a service that takes 40 ms", "{made}/service {s} {port} serve & sleep 0.4; {made}/service {s} {port} ask; wait"),
    "stress_small_load": ("latency", "works 10 % of the time, and sleeps", "stress-ng --cpu 1 --cpu-load 10 -t {s}"),
    "perl_polls_file": ("latency", "looks for a file 50 times a second", "timeout {s} perl -e 'while (!-e \"done\") { select undef, undef, undef, 0.02 }'"),
    # each part waits until another has done something
    "rust_mutex_four": ("coordination", "four threads work 50 us only while they hold the one mutex", "{made}/rusty mutex {s}"),
    "java_reentrant_lock": ("coordination", "four threads hash 20 kB only while they hold the one lock", "timeout {s} java -cp {made} Locks"),
    "ruby_threads_four": ("coordination", "four threads of Ruby code under the one lock of the interpreter", "timeout {s} ruby -e '4.times.map { Thread.new { n = 0; loop { n += 1 } } }.each(&:join)'"),
    "c_signal_turns": ("coordination", "two processes; each waits for a signal of the other", "{made}/signals {s}"),
    "c_semaphore_jobs": ("coordination", "three processes work 3 ms only while they hold the one semaphore", "{made}/semaphores {s}"),
    "mpich_uneven_ranks": ("coordination or communication", "one rank works 5 ms, the other 40 ms, then they meet", RANKS + "{made}/mpich_ranks uneven"),
    "openmp_critical": ("coordination", "four threads work 30 us only in the one critical section", "OMP_WAIT_POLICY=passive OMP_NUM_THREADS=4 {made}/critical {s}"),
    # each moves bytes between processes and does little else
    "haproxy_relay": ("communication", "blocks of 64 kB through a relay", "{made}/stream {s} {port} take & NEXT=$(({port} + 1)) haproxy -f relay.cfg & sleep 0.5; {made}/stream {s} $(({port} + 1)) give; kill %2; wait %1"),
    "nuttcp_stream": ("communication", "blocks through a socket and nothing else", "nuttcp -1 -P{port} & sleep 0.4; nuttcp -t -P{port} -p $(({port} + 1)) -T{s} 127.0.0.1; wait"),
    "memcached_small": ("communication", "questions and answers of a few hundred bytes, four clients", "memcached -u nobody -p {port} -t 1 & sleep 0.4; for i in 1 2 3 4; do {python} memcached_small.py {port} & done; sleep {s}; kill %1; wait"),
    "dd_through_pipes": ("communication", "blocks of 64 kB through two pipes", "timeout {s} sh -c 'dd if=/dev/zero bs=64k status=none | dd bs=64k status=none | dd of=/dev/null bs=64k status=none'"),
    "mpich_all_to_all": ("communication", "4 MB from each rank to the other and nothing else", RANKS + "{made}/mpich_ranks exchange"),
    "java_socket_stream": ("communication", "blocks of 64 kB through a socket between two processes", "timeout {s} java -cp {made} Stream take {port} & sleep 0.8; timeout {s} java -cp {made} Stream give {port}; wait"),
    "perl_socket_pair": ("communication", "messages of 8 kB through a local socket", "timeout {s} perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); if (fork) { close B; 1 while sysread A, $x, 65536 } else { close A; $m = \"m\" x 8192; 1 while syswrite B, $m }'"),
    "c_message_queue": ("communication or coordination", "messages of 1 kB through a queue of ten places", "{made}/posts {s}"),
    # each ends because it may have no more memory
    "ruby_over_limit": ("memory capacity", "makes words and keeps them all, until the limit of the process", "ulimit -v 1200000; ruby -e 'a = []; loop { a << (1..2000).map { |i| (i * a.size).to_s } }'"),
    "rust_over_limit": ("memory capacity", "draws numbers and keeps them all, until the limit of the process", "ulimit -v 800000; {made}/rusty grows 60"),
    "java_over_group": ("memory capacity", "draws numbers and keeps them all; the control group allows 300 MB and kills", "{group} java -Xmx4g -cp {made} Grows"),
}  # fmt: skip
NUMBA = shared.NUMPY.replace("numpy as np", "numpy as np, numba as nb")
shared.FILES.update(
    {
        "lightgbm_one": "import lightgbm, numpy as np, time; end = time.time() + {s}; r = np.random.default_rng(0); x = r.random((5000, 20)); y = x[:, 0] * x[:, 1] + r.random(5000)\n"
        "while time.time() < end: lightgbm.train({'num_threads': 1, 'verbose': -1, 'num_leaves': 63}, lightgbm.Dataset(x, y), 50)",
        "numba_orbits_two": NUMBA + "@nb.njit(parallel=True, cache=True)\ndef f(c, o):\n    for i in nb.prange(len(c)):\n        x = 0.3\n"
        "        for _ in range(200): x = c[i] * x * (1.0 - x)\n        o[i] = x\n"
        "c = 3 + r.random(200_000); o = np.empty_like(c)\nwhile time.time() < end: f(c, o)",
        "numba_mean_two": NUMBA + "@nb.njit(parallel=True, cache=True)\ndef f(a, o):\n    for i in nb.prange(1, len(a) - 1): o[i] = (a[i - 1] + a[i] + a[i + 1]) * 0.333\n"
        "a = r.random(50_000_000); o = np.zeros_like(a)\nwhile time.time() < end: f(a, o)",
        "polars_largest": "import numpy as np, polars as pl, time; end = time.time() + {s}; r = np.random.default_rng(0)\n"
        "d = pl.DataFrame({'a': r.random(50_000_000), 'b': r.random(50_000_000)})\nwhile time.time() < end: d.select(pl.col('a').max(), pl.col('b').max())",
        "memcached_small": "import socket, sys, time; end = time.time() + {s} - 0.3; door = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "door.sendall(b'set k 0 0 300\\r\\n' + b'x' * 300 + b'\\r\\n'); door.recv(100)\n"
        "while time.time() < end:\n    door.sendall(b'get k\\r\\n'); n = b''\n    while not n.endswith(b'END\\r\\n'): n += door.recv(4096)",
    }
)  # fmt: skip
ninth.BESIDE.update(
    {
        "queens.lua": (
            "queens.lua",
            "local n = 12\nlocal function place(row, cols, d, e)\n  if row == n then return 1 end\n  local found = 0\n"
            "  for c = 0, n - 1 do if not cols[c] and not d[row + c] and not e[row - c + n] then\n"
            "    cols[c], d[row + c], e[row - c + n] = true, true, true; found = found + place(row + 1, cols, d, e)\n"
            "    cols[c], d[row + c], e[row - c + n] = nil, nil, nil end end\n  return found\nend\nwhile true do place(0, {}, {}, {}) end\n",
        ),
        "flips.lisp": (
            "flips.lisp",
            "(defun flips (p) (declare (type (simple-array fixnum (*)) p) (optimize speed))\n"
            "  (let ((q (copy-seq p)) (n 0)) (declare (fixnum n) (type (simple-array fixnum (*)) q))\n"
            "    (loop until (= (aref q 0) 0) do (let ((k (aref q 0))) (loop for i fixnum from 0 to (floor k 2) do (rotatef (aref q i) (aref q (- k i))))) (incf n)) n))\n"
            "(let ((p (make-array 10 :element-type 'fixnum)) (most 0))\n  (dotimes (i 10) (setf (aref p i) i))\n"
            "  (loop (let ((i (random 10)) (j (random 10))) (rotatef (aref p i) (aref p j))) (setf most (max most (flips p)))))\n",
        ),
        "product.smt2": (
            "product.smt2",
            "(declare-const a (_ BitVec 64))\n(declare-const b (_ BitVec 64))\n(assert (= (bvmul a b) #x3ffffe5a000ab00b))\n"
            "(assert (bvult a #x0000000100000000))\n(assert (bvult b #x0000000100000000))\n(assert (bvugt a #x0000000000000001))\n(assert (bvugt b #x0000000000000001))\n(check-sat)\n",
        ),
        "factors.gp": (
            "factors.gp",
            "setrand(1); while(1, factor(randomprime(10^25) * randomprime(10^25)))\n",
        ),
        "ring.cir": (
            "ring.cir",
            "five inverters in a ring\n.model n nmos (vto=0.7 kp=100u)\n.model p pmos (vto=-0.7 kp=50u)\nvdd dd 0 3\n"
            + "".join(
                f"mn{i} o{i} o{(i + 4) % 5} 0 0 n w=2u l=1u\nmp{i} o{i} o{(i + 4) % 5} dd dd p w=4u l=1u\nc{i} o{i} 0 {20 + i}f\n"
                for i in range(5)
            )
            + ".ic v(o0)=0 v(o1)=3\n.save v(o0)\n.tran 10p 4000n uic\n.control\nrun\nquit\n.endc\n.end\n",
        ),
        "documents.py": (
            "documents.py",
            "import json\nprint(json.dumps([{'i': i, 'word': f'{i * i % 9973:x}a{i}'} for i in range(60000)]))\n",
        ),
        "collatz.m": (
            "collatz.m",
            "sigterm_dumps_octave_core(false);\nn = 27; k = 27;\nwhile true\n  if mod(n, 2) n = 3 * n + 1; else n = n / 2; end\n  if n == 1 k = k + 2; n = k; end\nend\n",
        ),
        "fresh.m": ("fresh.m", "sigterm_dumps_octave_core(false);\nwhile true a = ones(5000, 5000); a = []; end\n"),
        "relay.cfg": (
            "relay.cfg",
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\nlisten relay\n  bind \"127.0.0.1:${NEXT}\"\n  server one 127.0.0.1:PORT\n",
        ),
    }
)  # fmt: skip
RUST = r"""
use std::{env, fs, hint::black_box, io::Write, sync::{Arc, Mutex}, thread, time::{Duration, Instant}};
fn bodies(end: Instant, mut seed: f64) -> f64 {
    let mut p = [[0f64; 3]; 5]; let mut v = [[0f64; 3]; 5];
    for b in 0..5 { for k in 0..3 { seed = (seed * 997.0 + 1.7) % 13.0; p[b][k] = seed; } }
    while Instant::now() < end { for _ in 0..10000 {
        for i in 0..5 { for j in i + 1..5 {
            let d = [p[i][0] - p[j][0], p[i][1] - p[j][1], p[i][2] - p[j][2]];
            let q = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01; let m = 1e-3 / (q * q.sqrt());
            for k in 0..3 { v[i][k] -= d[k] * m; v[j][k] += d[k] * m; } } }
        for i in 0..5 { for k in 0..3 { p[i][k] += v[i][k] * 1e-3; } } } }
    p[0][0]
}
fn main() {
    let a: Vec<String> = env::args().collect();
    let end = Instant::now() + Duration::from_secs(a[2].parse().unwrap());
    match a[1].as_str() {
        "bodies" => { let t = thread::spawn(move || bodies(end, 1.0)); black_box(bodies(end, 2.0)); black_box(t.join().unwrap()); }
        "adds" => { let mut x = vec![1f64; 50_000_000]; let y = vec![2f64; 50_000_000];
            while Instant::now() < end { for (p, q) in x.iter_mut().zip(&y) { *p += *q; } black_box(&x); } }
        "fresh" => while Instant::now() < end { black_box(&vec![1u8; 200_000_000]); },
        "ticks" => while Instant::now() < end { let until = Instant::now() + Duration::from_micros(300);
            while Instant::now() < until { black_box(1); } thread::sleep(Duration::from_millis(4)); },
        "mutex" => { let m = Arc::new(Mutex::new(1u64)); let t: Vec<_> = (0..4).map(|_| { let m = m.clone(); thread::spawn(move || {
            while Instant::now() < end { let mut x = m.lock().unwrap(); for i in 0..50_000u64 { *x = black_box(x.wrapping_mul(31) ^ i); } } }) }).collect();
            for one in t { one.join().unwrap(); } }
        "replaces" => { let b = vec![7u8; 100_000]; while Instant::now() < end { let mut f = fs::File::create("part").unwrap();
            f.write_all(&b).unwrap(); f.sync_all().unwrap(); fs::rename("part", "whole").unwrap(); fs::File::open(".").unwrap().sync_all().unwrap(); } }
        _ => { let mut x: Vec<Vec<u32>> = Vec::new(); let mut n = 1u64; loop { x.push((0..25_000).map(|_| { for _ in 0..3 { n = n.wrapping_mul(6364136223846793005).rotate_left(17) % 1_000_003; } n as u32 }).collect()); } }
    }
}
"""
HEAD = "#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n#include <signal.h>\n#include <sys/wait.h>\n"


def _java(name, body):
    return (f"{name}.java", f"public class {name} {{ public static void main(String[] a) throws Exception {{ {body} }} }}\n", f"javac {name}.java")  # fmt: skip


ninth.SOURCES.update(
    {
        "rusty": ("rusty.rs", RUST, "rustc -C opt-level=3 -C target-cpu=native rusty.rs -o rusty"),
        "maps": (
            "maps.ml",
            "module M = Map.Make (Int)\nlet () = let until = Unix.gettimeofday () +. float_of_string Sys.argv.(1) in\n"
            "while Unix.gettimeofday () < until do\n  let m = ref M.empty in\n  for i = 1 to 500 do m := M.add (i * 7919 mod 1009) i !m done;\n"
            "  if M.fold (fun _ v s -> s + v) !m 0 < 0 then print_string \"no\"\ndone\n",
            "ocamlfind ocamlopt -O3 -package unix -linkpkg maps.ml -o maps" if shutil.which("ocamlfind") else "ocamlopt unix.cmxa maps.ml -o maps",
        ),
        "moves": ("moves.c", HEAD + "#define N 400000000L\nint main(int c, char **v) { time_t end = time(0) + atoi(v[1]); char *a = malloc(N + 4096); memset(a, 1, N + 4096);\n"
            "while (time(0) < end) { memmove(a, a + 4096, N); memmove(a + 4096, a, N); }\nreturn a[5] != 1; }\n", "gcc -O2 moves.c -o moves"),
        "returns": ("returns.c", HEAD + "#include <sys/mman.h>\n#define N (256L << 20)\nint main(int c, char **v) { time_t end = time(0) + atoi(v[1]); char *a = mmap(0, N, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
            "while (time(0) < end) { for (long i = 0; i < N; i += 64) a[i] = i; madvise(a, N, MADV_DONTNEED); }\nreturn 0; }\n", "gcc -O2 returns.c -o returns"),
        "signals": ("signals.c", HEAD + "int main(int c, char **v) { time_t end = time(0) + atoi(v[1]); sigset_t s; int got; sigemptyset(&s); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, 0);\n"
            "pid_t other = fork(); int first = other != 0; if (!first) other = getppid(); if (first) kill(other, SIGUSR1);\n"
            "for (;;) { sigwait(&s, &got); if (first && time(0) >= end) { kill(other, SIGTERM); wait(0); return 0; } kill(other, SIGUSR1); } }\n", "gcc -O2 signals.c -o signals"),
        "semaphores": ("semaphores.c", HEAD + "#include <sys/ipc.h>\n#include <sys/sem.h>\nint main(int c, char **v) { time_t end = time(0) + atoi(v[1]); int s = semget(IPC_PRIVATE, 1, 0600); struct sembuf up = {0, 1, SEM_UNDO}, down = {0, -1, SEM_UNDO};\n"
            "struct sembuf begin = {0, 1, 0}; semop(s, &begin, 1);\nint child = !fork() || !fork(); double x = 0;\n"
            "while (time(0) < end) { semop(s, &down, 1); for (int i = 1; i < 2000000; i++) x += 1.0 / i; semop(s, &up, 1); }\n"
            "if (!child) { while (wait(0) > 0) ; semctl(s, 0, IPC_RMID); } return x < 0; }\n", "gcc -O2 semaphores.c -o semaphores"),
        "critical": ("critical.c", HEAD + "int main(int c, char **v) { time_t end = time(0) + atoi(v[1]); double s = 0;\n#pragma omp parallel\nwhile (time(0) < end) {\n#pragma omp critical\n"
            "for (int i = 1; i < 20000; i++) s += 1.0 / i;\n}\nreturn s < 0; }\n", "gcc -O2 -fopenmp critical.c -o critical"),
        "posts": ("posts.c", HEAD + "#include <mqueue.h>\nint main(int c, char **v) { time_t end = time(0) + atoi(v[1]); char name[40], b[1024] = \"a\"; sprintf(name, \"/zoo-%d\", getpid()); struct mq_attr m = {.mq_maxmsg = 10, .mq_msgsize = 1024};\n"
            "mqd_t q = mq_open(name, O_RDWR | O_CREAT, 0600, &m); mq_unlink(name); if (q < 0) return 1;\n"
            "if (!fork()) while (mq_receive(q, b, 1024, 0) > 0 && b[0] != 'e') ; else { while (time(0) < end) for (int i = 0; i < 100; i++) mq_send(q, b, 1024, 0); b[0] = 'e'; mq_send(q, b, 1024, 0); wait(0); }\nreturn 0; }\n".replace("<mqueue.h>", "<mqueue.h>\n#include <fcntl.h>"), "gcc -O2 posts.c -o posts -lrt"),
        "mpich_ranks": ("mpich_ranks.c", "#include <mpi.h>\n#include <stdlib.h>\n#include <string.h>\n#define N (4 << 20)\n"
            "long work(double until, long n) { long k = 0; while (MPI_Wtime() < until) for (int j = 0; j < 1000; j++, n += 2) for (long m = n; m != 1; k++) m = m % 2 ? 3 * m + 1 : m / 2; return k; }\n"
            "int main(int c, char **v) { MPI_Init(&c, &v); int own; MPI_Comm_rank(MPI_COMM_WORLD, &own); char *a = calloc(2 * N, 1), *b = calloc(2 * N, 1); long in = 0, all;\n"
            "if (!strcmp(v[1], \"exchange\")) for (;;) MPI_Alltoall(a, N, MPI_CHAR, b, N, MPI_CHAR, MPI_COMM_WORLD);\n"
            "double span = strcmp(v[1], \"uneven\") ? 1 : own ? 0.04 : 0.005;\n"
            "for (;;) { in = work(MPI_Wtime() + span, 27 + own); MPI_Allreduce(&in, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD); } }\n", "mpicc.mpich -O2 mpich_ranks.c -o mpich_ranks"),
        "service": tenth._go("service", "fmt io net/http", "func main() { u := end()\n"
            "if os.Args[3] == \"serve\" { go func() { http.ListenAndServe(\"127.0.0.1:\" + os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(40 * time.Millisecond); fmt.Fprint(w, \"done\") })) }(); time.Sleep(time.Until(u)); return }\n"
            "for time.Now().Before(u) { r, e := http.Get(\"http://127.0.0.1:\" + os.Args[2]); if e != nil { return }; io.Copy(io.Discard, r.Body); r.Body.Close() } }\n"),
        "Scales.class": _java("Scales", "double[] x = new double[50_000_000], y = new double[50_000_000]; for (int i = 0; i < x.length; i++) y[i] = i; while (true) { for (int i = 0; i < x.length; i++) x[i] = x[i] * 0.5 + y[i]; if (x[7] < 0) return; }"),
        "Forces.class": _java("Forces", "var f = java.nio.channels.FileChannel.open(java.nio.file.Path.of(\"records\"), java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.WRITE); var b = java.nio.ByteBuffer.allocate(2000); while (true) { b.clear(); f.write(b); f.force(false); }"),
        "Ticks.class": _java("Ticks", "var s = java.util.concurrent.Executors.newSingleThreadScheduledExecutor(); long[] n = {0}; s.scheduleAtFixedRate(() -> { for (int i = 0; i < 5000; i++) n[0] += i % 7; }, 0, 20, java.util.concurrent.TimeUnit.MILLISECONDS); Thread.sleep(1000000);"),
        "Locks.class": _java("Locks", "var l = new java.util.concurrent.locks.ReentrantLock(); byte[] b = new byte[20000]; for (int t = 0; t < 4; t++) new Thread(() -> { try { var d = java.security.MessageDigest.getInstance(\"SHA-256\"); while (true) { l.lock(); try { b[0] = d.digest(b)[0]; } finally { l.unlock(); } } } catch (Exception e) {} }).start();"),
        "Stream.class": _java("Stream", "var at = new java.net.InetSocketAddress(\"127.0.0.1\", Integer.parseInt(a[1])); var b = java.nio.ByteBuffer.allocateDirect(65536); if (a[0].equals(\"take\")) { var c = java.nio.channels.ServerSocketChannel.open().bind(at).accept(); while (c.read(b) >= 0) b.clear(); } else { var c = java.nio.channels.SocketChannel.open(at); while (true) { b.clear(); c.write(b); } }"),
        "Grows.class": _java("Grows", "var x = new java.util.ArrayList<double[]>(); var r = new java.util.Random(1); while (true) { double[] b = new double[10000]; for (int i = 0; i < b.length; i++) b[i] = r.nextGaussian() * r.nextGaussian() + r.nextGaussian(); x.add(b); }"),
    }
)  # fmt: skip
PROGRAMS = {
    name: (truth, why, command.replace("{made}", str(MADE)))
    for name, (truth, why, command) in PROGRAMS.items()
}
_TOOLS = {
    "rust": "rustc", "luajit": "luajit", "sbcl": "sbcl", "ocaml": "ocamlopt", "z3": "z3", "pari": "gp",
    "ngspice": "ngspice", "sox": "sox", "jq": "jq", "octave": "octave-cli", "mpich": "mpirun.mpich",
    "java": "javac", "sysbench": "sysbench", "rocksdb": "db_bench", "ioping": "ioping", "fio": "fio",
    "perl": "perl", "lua": "lua5.4", "redis": "redis-server", "go": "go", "stress": "stress-ng",
    "ruby": "ruby", "haproxy": "haproxy", "nuttcp": "nuttcp", "memcached": "memcached",
}  # fmt: skip


def _runs(name, command):
    """Whether this machine has what a row needs."""
    start = name.partition("_")[0]
    if "{group}" in command and shared._tool("", command) == "missing":
        return False
    if start in ("lightgbm", "numba", "polars"):
        return importlib.util.find_spec(start) is not None
    return shutil.which(_TOOLS.get(start, "sh")) is not None


ZOO = {name: row[0] for name, row in PROGRAMS.items() if _runs(name, row[2])}

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
