"""A sixth set, listed before the rules were changed and first run after: `held_out_6.py NAME S`."""
# ruff: noqa: E501, PTH123 - a table of commands as users type them

import importlib.util
import subprocess
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_5", Path(__file__).with_name("held_out_5.py")
)
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)

PROGRAMS = {
    "awk_arithmetic": ("compute", "an interpreter that adds in a loop", "timeout {s} awk 'BEGIN{while(1){for(i=0;i<100000;i++)x+=i%7}}'"),
    "pool_sorts": ("compute", "two processes that sort lists of 1000 numbers", "{python} pool_sorts.py"),
    "numpy_small_fft": ("compute", "transforms of 4096 numbers, in the cache", "{python} numpy_small_fft.py"),
    "numpy_column_means": ("memory bandwidth", "reads 640 MB for one addition each", "{python} numpy_column_means.py"),
    "copies_two_threads": ("memory bandwidth", "two threads that copy 256 MB each", "./copies {s}"),
    "random_gather": ("memory bandwidth", "one number from each of 64 million random places", "{python} random_gather.py"),
    "dd_to_disk": ("data I/O", "each block of 8 kB is brought to the disk", "timeout {s} dd if=/dev/zero of=out bs=8k oflag=dsync status=none"),
    "copy_and_sync": ("data I/O", "a file of 64 MB is copied and brought to the disk", "head -c 64M /dev/urandom > in; timeout {s} sh -c 'while :; do cp in out; sync out; done'"),
    "curl_polls": ("latency", "asks a server ten times a second", "{python} -m http.server {port} >/dev/null 2>&1 & sleep 0.5; timeout {s} sh -c 'while :; do curl -s -o /dev/null http://127.0.0.1:{port}/; sleep 0.1; done'; kill %1; wait"),
    "redis_large_values": ("communication", "answers of 100 kB through local sockets", "redis-server --port {port} --save '' --daemonize no >/dev/null & sleep 0.5; timeout {s} redis-benchmark -p {port} -n 100000000 -d 100000 -q -t get >/dev/null; kill %1; wait"),
    "stress_udp": ("communication", "datagrams through local sockets", "stress-ng --udp 1 -t {s}"),
    "condition_turns": ("coordination", "two threads that wake each other and do nothing else", "./turns {s}"),
    "thread_pool_tiny": ("coordination", "Python threads take tasks of a microsecond from one queue", "{python} thread_pool_tiny.py"),
    "critical_section": ("coordination", "four threads compute only while they hold the one lock", "OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive ./critical {s}"),
    "malloc_touch_free": ("page faults", "64 MB of fresh memory, touched once and given back", "./fresh {s}"),
    "vector_over_limit": ("memory capacity", "an array that doubles until the limit of the process", "ulimit -v 2000000; {python} -c 'import numpy as n; a=n.ones(1000)\nwhile True: a=n.concatenate([a,a])'"),
}  # fmt: skip
shared.FILES.update(
    {
        "pool_sorts": "import multiprocessing as m, random, time; end = time.time() + {s}\n"
        "def work(seed):\n    r = random.Random(seed); v = [r.random() for _ in range(1000)]\n    while time.time() < end: sorted(v)\n"
        "if __name__ == '__main__': m.Pool(2).map(work, range(2))",
        "numpy_small_fft": shared.NUMPY + "a = r.random(4096)\nwhile time.time() < end: np.fft.fft(a)",
        "numpy_column_means": shared.NUMPY + "a = r.random((20_000, 4000))\nwhile time.time() < end: a.mean(axis=0)",
        "random_gather": shared.NUMPY + "a = r.random(64_000_000); i = r.integers(0, len(a), 4_000_000); o = np.empty(len(i))\n"
        "while time.time() < end: np.take(a, i, out=o, mode='clip'); i = np.roll(i, 1) ^ 3",
        "thread_pool_tiny": "import concurrent.futures as f, time; end = time.time() + {s}\n"
        "with f.ThreadPoolExecutor(4) as p:\n    while time.time() < end: [x.result() for x in [p.submit(abs, 1) for _ in range(200)]]",
    }
)  # fmt: skip
SOURCES = {
    "copies": """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define N (256L << 20)
time_t end;
void *work(void *none) {
  char *a = malloc(N), *b = malloc(N);
  memset(a, 1, N); memset(b, 2, N);
  while (time(0) < end) memcpy(b, a, N), a[b[7]]++;
  return 0;
}
int main(int c, char **v) {
  pthread_t one; end = time(0) + atoi(v[1]);
  pthread_create(&one, 0, work, 0); work(0); pthread_join(one, 0);
}
""",
    "turns": """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
int turn; time_t end;
void *work(void *mine) {
  int me = mine != 0;
  pthread_mutex_lock(&lock);
  while (time(0) < end) {
    while (turn != me && time(0) < end) pthread_cond_wait(&turned, &lock);
    turn = !me; pthread_cond_signal(&turned);
  }
  turn = !me; pthread_cond_signal(&turned);
  pthread_mutex_unlock(&lock); return 0;
}
int main(int c, char **v) {
  pthread_t one; end = time(0) + atoi(v[1]);
  pthread_create(&one, 0, work, &turn); work(0); pthread_join(one, 0);
}
""",
    "critical": """
#include <stdlib.h>
#include <time.h>
int main(int c, char **v) {
  time_t end = time(0) + atoi(v[1]); double sum = 0;
  #pragma omp parallel
  while (time(0) < end) {
    #pragma omp critical
    for (int i = 1; i < 20000; i++) sum += 1.0 / i;
  }
  return sum < 0;
}
""",
    "fresh": """
#include <stdlib.h>
#include <time.h>
#define N (64L << 20)
int main(int c, char **v) {
  long sum = 0;
  for (time_t end = time(0) + atoi(v[1]); time(0) < end;) {
    char *a = malloc(N);
    for (long i = 0; i < N; i += 4096) a[i] = 1;
    sum += a[N / 2]; free(a);
  }
  return sum < 0;
}
""",
}
ZOO = {name: row[0] for name, row in PROGRAMS.items()}


def _prepare(name, command, seconds):
    """The files of a row; a program in C is compiled."""
    _files(name, command, seconds)
    for source, text in SOURCES.items():
        if f"./{source} " in command:
            with open(f"{source}.c", "w") as file:
                file.write(text)
            subprocess.run(["gcc", "-O2", "-fopenmp", f"{source}.c", "-o", source], check=True)


_files, shared._prepare = shared._prepare, _prepare

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
