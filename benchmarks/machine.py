"""Machine ceilings compared with compiled C, the best BLAS here, fio and iperf3, in one run.

    python benchmarks/machine.py [COMPETITORS]

Compiles its own C with gcc, and installs fio and iperf3 with apt-get where it may. Measures quiet,
then memory and products again with so many (4) competing processes, then the whole probe. Prints
each figure with the bound that it should keep, and exits with 1 if one is missed. For a fair answer
run it on a machine with nothing else to do; the competitors are started and ended here.
"""

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is loaded

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from nodewise.diagnose.machine.compute import products  # noqa: E402
from nodewise.diagnose.machine.disk import disk  # noqa: E402
from nodewise.diagnose.machine.links import processes  # noqa: E402
from nodewise.diagnose.machine.memory import LARGEST_BYTES, fresh_pages, stream  # noqa: E402
from nodewise.diagnose.machine.windows import loop  # noqa: E402

SECONDS = 2.0
BUSY = "while True: sum(range(100000))"
# In-place addition, as the probe does it, and STREAM's triad; bytes over wall seconds of a pass.
C_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
// Large pages, as numpy asks for them: with small ones each new page costs the kernel's table.
static double *array(long n) {
    double *a = aligned_alloc(1 << 21, (8 * n + (1 << 21) - 1) >> 21 << 21);
    if (getenv("LARGE_PAGES")) madvise(a, 8 * n, MADV_HUGEPAGE);
    return a;
}
static double now(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec;
}
static int order(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b; return (d > 0) - (d < 0);
}
int main(int count, char **words) {
    long n = atol(words[2]); double seconds = atof(words[3]);
    int triad = !strcmp(words[1], "triad");
    double *a = array(n), *b = array(n), *c = array(n), rates[10000]; int k = 0;
    for (long i = 0; i < n; i++) { a[i] = 1; b[i] = 2; c[i] = 0; }
    double until = now() + seconds;
    do {
        double start = now();
        if (triad) for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
        else for (long i = 0; i < n; i++) a[i] += b[i];
        rates[k++] = 24.0 * n / (now() - start);
    } while (now() < until && k < 10000);
    qsort(rates, k, sizeof(double), order);
    fprintf(stderr, "%g", a[n / 2]);
    printf("%.6g\n", rates[k / 2]);
}
"""


class Row:
    """A figure of ours beside somebody else's, and the bounds of their ratio."""

    def __init__(self, name: str, ours: float, theirs: float, least: float, most: float) -> None:
        """Least and most are of ours over theirs."""
        self.name, self.ours, self.theirs = name, ours, theirs
        self.kept = least <= ours / theirs <= most
        self.bound = f"{least:g}..{most:g}" if most < 10 else f">= {least:g}"

    def __str__(self) -> str:
        """One line of the table."""
        verdict = "kept" if self.kept else "MISSED"
        return (
            f"{self.name:46s} {self.ours / 1e9:9.3f} {self.theirs / 1e9:9.3f} "
            f"{self.ours / self.theirs:6.2f}  {self.bound:11s} {verdict}"
        )


def tool(name: str) -> str | None:
    """Where a program is; installed first, if it is missing and may be."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 300}
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "-y", name], check=False, **quiet)
    return shutil.which(name)


def compiled(folder: Path) -> Path:
    """The C program."""
    source = folder / "stream.c"
    source.write_text(C_SOURCE)
    program = folder / "stream"
    flags = ["-O3", "-march=native", "-o"]
    subprocess.run([tool("gcc") or "gcc", *flags, program, source], check=True)
    return program


def c_rate(program: Path, kernel: str, copies: int = 1, large_pages: bool = True) -> float:
    """Bytes per second of the compiled kernel, in so many processes at once."""
    environment = {**os.environ, **({"LARGE_PAGES": "1"} if large_pages else {})}
    length = LARGEST_BYTES // 16 // copies
    command = [str(program), kernel, str(length), str(SECONDS)]
    running = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        for _ in range(copies)
    ]
    return sum(float(one.communicate()[0]) for one in running)


def our_rate(copies: int) -> float:
    """The probe's figure over as much memory."""
    return stream(LARGEST_BYTES // copies, copies, SECONDS).value


def best_blas() -> tuple[str, float]:
    """The quickest matrix product of any library that is installed, on one core."""
    size = 2048
    generator = np.random.default_rng(0)
    left, right = (generator.random((size, size)) for _ in range(2))
    kernels: dict[str, Callable[[], object]] = {"numpy": lambda: np.matmul(left, right)}
    with contextlib.suppress(ImportError):
        from scipy.linalg.blas import dgemm

        ordered = np.asfortranarray(left), np.asfortranarray(right)
        kernels["scipy"] = lambda: dgemm(1.0, *ordered)
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
        tensors = torch.from_numpy(left), torch.from_numpy(right)
        kernels["torch"] = lambda: torch.mm(*tensors)
    rates = {
        name: 2.0 * size**3 / statistics.median(one.cpu for one in loop(kernel, SECONDS)) * 1e9
        for name, kernel in kernels.items()
    }
    best = max(rates, key=lambda name: rates[name])
    return best, rates[best]


def fio_rate(folder: Path, way: str) -> float | None:
    """Bytes per second of large direct blocks, one at a time."""
    program = tool("fio")
    if program is None:
        return None
    command = [program, "--name=probe", f"--directory={folder}", f"--rw={way}", "--direct=1",
               "--bs=4M", "--size=256M", "--ioengine=psync", "--runtime=1", "--time_based",
               "--overwrite=1", "--output-format=json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][way]
    return float(found["bw_bytes"])


def iperf_rate() -> float | None:
    """Bytes per second of one TCP stream on this node."""
    program = tool("iperf3")
    if program is None:
        return None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    cores = os.sched_getaffinity(0)
    sides = f"{min(cores)},{max(cores)}"  # as ours: either side has its core
    server = subprocess.Popen(
        [program, "-s", "-1", "-B", "127.0.0.1", "-p", port], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        done = subprocess.run(
            [program, "-c", "127.0.0.1", "-p", port, "-t", "3", "-l", "1M", "-J", "-A", sides],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    finally:
        server.kill()
        server.wait()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8


@contextlib.contextmanager
def competing(count: int) -> Iterator[None]:
    """So many busy processes beside us."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        time.sleep(1)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def whole_probe(folder: Path) -> tuple[float, float]:
    """Seconds and bytes of memory, of all its processes together, that `nodewise machine` takes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-m", "nodewise", "machine", "--refresh", "--json"]
    began, largest = time.perf_counter(), 0.0
    program = psutil.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while program.poll() is None:
        held = 0
        with contextlib.suppress(psutil.Error):
            for one in (program, *program.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    held += one.memory_full_info().pss
        largest = max(largest, held)
        time.sleep(0.1)
    return time.perf_counter() - began, largest


def disk_rows(folder: Path) -> list[Row]:
    """The disk past the page cache, ours and fio's in turn, so that both meet the same moments."""
    ours: dict[str, list[float]] = {"read": [], "write": []}
    theirs: dict[str, list[float]] = {"read": [], "write": []}
    for _ in range(5):
        found, _ = disk(folder, 0.8)
        for way in ours:
            rate = fio_rate(folder, way)
            if rate is None or f"{way}, direct" not in found:
                return []
            ours[way].append(found[f"{way}, direct"].value)
            theirs[way].append(rate)
    return [
        Row(f"disk, {way}, direct 4 MiB; fio", statistics.median(ours[way]),
            statistics.median(theirs[way]), 0.9, 1.1)
        for way in ours
    ]  # fmt: skip


def link_rows() -> list[Row]:
    """Large messages over TCP, ours and iperf3's in turn."""
    ours, theirs = [], []
    for _ in range(5):
        rate = iperf_rate()
        if rate is None:
            return []
        ours.append(processes(1.5)["TCP on this node"]["beta, 64 MiB"].value)
        theirs.append(rate)
    return [
        Row("TCP, 64 MiB; iperf3", statistics.median(ours), statistics.median(theirs), 0.8, 1.2)
    ]


def main(competitors: int) -> int:
    """Quiet, then loaded, then the whole probe."""
    print(f"load before: {os.getloadavg()[0]:.1f}")
    cores = len(os.sched_getaffinity(0))
    if os.getloadavg()[0] > 0.5 * cores:
        print("The machine is not quiet: what others measure reads low, so bounds will be missed.")
    with tempfile.TemporaryDirectory(dir=".", prefix=".machine-") as name:
        folder = Path(name)
        program = compiled(folder)
        # In turn, three times: the machine's own moods meet both.
        ours, theirs = {}, {}
        for copies in (1, cores):
            pairs = [(our_rate(copies), c_rate(program, "add", copies)) for _ in range(3)]
            ours[copies], theirs[copies] = (
                statistics.median(one) for one in zip(*pairs, strict=True)
            )
        triad = c_rate(program, "triad")
        small = c_rate(program, "add", large_pages=False)
        library, blas = best_blas()
        product = products("float64", 1, SECONDS).value
        fresh = fresh_pages(SECONDS).value
        rows = [
            *(
                Row(f"memory, {copies} core(s), quiet; C", ours[copies], theirs[copies], 0.95, 1.05)
                for copies in (1, cores)
            ),
            Row(f"matrix product, 1 core; best BLAS ({library})", product, blas, 0.95, 1e9),
            *disk_rows(folder),
            *link_rows(),
        ]
        with competing(competitors):
            loaded = our_rate(1)
            loaded_c = c_rate(program, "add")
            loaded_triad = c_rate(program, "triad")
            loaded_product = products("float64", 1, SECONDS).value
        rows += [
            Row(f"memory, 1 core, {competitors} competing; quiet C", loaded, theirs[1], 0.85, 1.15),
            Row(f"matrix product, {competitors} competing; quiet", loaded_product, product, 0.85,
                1.15),
        ]  # fmt: skip
        seconds, held = whole_probe(folder)
    print(f"{'':46s}   ours G/s  theirs  ratio  bound")
    print("\n".join(map(str, rows)))
    for what, quiet, busy in (("addition", theirs[1], loaded_c), ("triad", triad, loaded_triad)):
        print(f"C {what} with {competitors} competing reads {busy / quiet:.2f} of its quiet figure")
    print(f"fresh pages: {fresh / 1e9:.2f} GB/s, {fresh / ours[1]:.2f} of streaming")
    print(
        f"C addition with small pages reads {small / theirs[1]:.2f} of its figure with large ones"
    )
    light = seconds < 30 and held < 0.5e9
    print(f"whole probe: {seconds:.1f} s (< 30), {held / 1e9:.2f} GB (< 0.5) "
          f"{'kept' if light else 'MISSED'}")  # fmt: skip
    return 0 if light and all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
