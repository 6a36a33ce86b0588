"""GPUs through torch, where both are there."""

import functools
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodewise.diagnose.machine.windows import ceiling_of
from nodewise.study.machine import Ceiling

_SIZE = 4096
_STREAM_BYTES = 512 * 2**20
_REPEATS = 10


def devices() -> dict[str, dict[str, Ceiling]]:
    """FLOP/s, bandwidth and memory of each GPU; nothing if no driver shows one."""
    if not any(Path(name).exists() for name in ("/dev/nvidia0", "/dev/kfd")):
        return {}
    if importlib.util.find_spec("torch") is None:
        return {}
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return {}
    return {
        f"{torch.cuda.get_device_name(at)} #{at}": _device(torch, torch.device("cuda", at))
        for at in range(torch.cuda.device_count())
    }


def _device(torch: Any, device: Any) -> dict[str, Ceiling]:
    found = {}
    for dtype in ("float32", "bfloat16", "float16"):
        left = torch.ones((_SIZE, _SIZE), dtype=getattr(torch, dtype), device=device)
        times = _timed(torch, device, functools.partial(torch.matmul, left, left))
        rates = [2.0 * _SIZE**3 / one for one in times]
        found[dtype] = ceiling_of(rates, "FLOP/s", f"matrix product of {_SIZE} x {_SIZE}")
    left = torch.ones(_STREAM_BYTES // 4, device=device)
    right = torch.ones_like(left)
    times = _timed(torch, device, lambda: left.add_(right))
    found["memory"] = ceiling_of(
        [3.0 * _STREAM_BYTES / one for one in times], "B/s", "in-place addition"
    )
    total = float(torch.cuda.get_device_properties(device).total_memory)
    found["capacity"] = Ceiling(value=total, low=total, high=total, unit="B", windows=1)
    return found


def _timed(torch: Any, device: Any, call: Callable[[], object]) -> list[float]:
    times = []
    for at in range(_REPEATS + 2):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        call()
        torch.cuda.synchronize(device)
        if at >= 2:  # the first ones choose and load the kernels
            times.append(time.perf_counter() - start)
    return times
