"""How far other load moves our ceilings, and how far it moves those of a plain timing loop.

    python benchmarks/machine.py [COMPETITORS]

Prints ratios of a loaded to a quiet measurement: 1.00 is immune. Run on a machine with nothing else
to do; the competitors are started and ended here.
"""

import os
import subprocess
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is loaded

import numpy as np  # noqa: E402

from nodewise.machine.compute import products  # noqa: E402
from nodewise.machine.memory import fresh_pages, stream  # noqa: E402

SECONDS = 2.0
BUSY = "while True: sum(range(100000))"


def plain_stream() -> float:
    """What a plain loop reports: bytes over wall seconds."""
    left, right = np.zeros(2**24), np.ones(2**24)
    left += right
    rates = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        start = time.perf_counter()
        np.add(left, right, out=left)
        rates.append(24.0 * len(left) / (time.perf_counter() - start))
    return float(np.median(rates))


def plain_product() -> float:
    """The same for matrix products."""
    left = np.ones((1024, 1024))
    rates = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        start = time.perf_counter()
        left @ left
        rates.append(2.0 * 1024**3 / (time.perf_counter() - start))
    return float(np.median(rates))


def all_rates() -> dict[str, float]:
    """Every measurement once."""
    return {
        "stream, 1 core, plain": plain_stream(),
        "stream, 1 core, clean windows": stream(256 * 2**20, 1, SECONDS).value,
        "stream, 2 cores, clean windows": stream(256 * 2**20, 2, SECONDS).value,
        "product, 1 core, plain": plain_product(),
        "product, 1 core, nodewise": products("float64", 1, SECONDS).value,
        "product, 2 cores, nodewise": products("float64", 2, SECONDS).value,
        "fresh pages, clean windows": fresh_pages(SECONDS).value,
    }


def main(competitors: int) -> None:
    """Quiet, then loaded."""
    print(f"load before: {os.getloadavg()[0]:.1f}")
    quiet = all_rates()
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(competitors)]
    try:
        time.sleep(1)
        loaded = all_rates()
    finally:
        for other in others:
            other.kill()
            other.wait()
    print(f"{'':32s} quiet G/s  loaded G/s  ratio   ({competitors} competing processes)")
    for name, rate in quiet.items():
        print(f"{name:32s} {rate / 1e9:9.2f} {loaded[name] / 1e9:11.2f} {loaded[name] / rate:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
