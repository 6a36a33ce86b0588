"""All probes, in a process whose BLAS uses one thread; run with `python -m`.

The threads are made here, so that each shows whether it was disturbed; the BLAS hides its own.
"""

import datetime
import sys
import time
from pathlib import Path

import msgspec
import psutil

from nodewise.diagnose.machine import compute, devices, disk, links, memory
from nodewise.diagnose.machine.identity import contention, identity
from nodewise.diagnose.machine.limits import limits
from nodewise.study.machine import Ceiling, Machine

_SECONDS = 0.8  # a probe


def probe_all(folder: Path, peer: str = "") -> Machine:
    """Every ceiling of this node that can be had without being root."""
    began = time.perf_counter()
    facts = identity(folder)
    before = contention()
    missing: dict[str, str] = {}
    threads = thread_counts(int(facts["cores"]))
    clock = compute.clock()
    peaks, instructions = compute.theory(clock) if clock else ({}, "")
    if not peaks:
        missing["theoretical peak"] = "the clock cannot be measured here"
    else:
        facts["instructions"] = instructions
    disks, not_had = disk.disk(folder, _SECONDS)
    missing |= not_had
    link = links.processes(_SECONDS)
    if peer:
        host, _, port = peer.rpartition(":")
        link[f"network to {host}"] = links.peer(host, int(port), 2 * _SECONDS)
    gpus = devices.devices()
    if not gpus:
        missing["GPU"] = "no driver or no torch shows one"
    missing["L1"] = "calls from Python take longer than its bytes"
    machine = Machine(
        identity=facts,
        measured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        compute={
            dtype: {count: compute.products(dtype, count, _SECONDS) for count in threads}
            for dtype in compute.DTYPES
        },
        peak_flops=peaks,
        clock_hertz=clock,
        memory=_memory(threads),
        page_fault=memory.fresh_pages(_SECONDS / 2),
        disk=disks,
        link=link,
        capacity=limits(),
        devices=gpus,
        contention=before,
        missing=missing,
    )
    return msgspec.structs.replace(machine, seconds=time.perf_counter() - began)


def thread_counts(cores: int) -> list[int]:
    """Doublings up to all cores, so that many cores take not much longer than few.

    >>> thread_counts(1), thread_counts(6)
    ([1], [1, 2, 4, 6])
    """
    counts = [2**power for power in range(12) if 2**power < cores]
    return [*counts, cores]


def _memory(threads: list[int]) -> dict[str, dict[int, Ceiling]]:
    available = psutil.virtual_memory().available
    found: dict[str, dict[int, Ceiling]] = {}
    for level, size in memory.working_sets(int(available)).items():
        found[level] = {}
        for count in threads:
            # Main memory is shared: what counts is that all of it is larger than the caches.
            own = max(size // count, 64 * 2**20) if level == "DRAM" else size
            if own * count > available // 4:
                break
            found[level][count] = memory.stream(own, count, _SECONDS)
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(probe_all(Path(sys.argv[1]), *sys.argv[2:3])))
