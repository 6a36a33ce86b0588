"""Programs that an independent test found wrong or undecided: `reported.py NAME SECONDS`."""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "held_out_5", Path(__file__).with_name("held_out_5.py")
)
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)

PROGRAMS = {
    "stress_mutex": ("coordination", "threads that take one mutex: futex calls, no sockets", "stress-ng --mutex 2 -t {s}"),
    "ffmpeg_x264": ("compute", "motion search; frame threads wait for each other in part", "timeout {s} ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=1280x720:rate=30 -c:v libx264 -threads 2 -f null -"),
    "stress_stream_one": ("memory bandwidth", "the STREAM loops on arrays beyond the caches", "stress-ng --stream 1 --stream-l3-size 64m -t {s}"),
    "stress_stream_two": ("memory bandwidth", "one on each core", "stress-ng --stream 2 --stream-l3-size 64m -t {s}"),
    "torch_fused_adam": ("memory bandwidth", "reads and writes 28 bytes for each of 30 M parameters", "OMP_NUM_THREADS=2 {python} torch_fused_adam.py"),
    "python_threads_lock": ("coordination", "four threads that count under one lock", "{python} python_threads_lock.py"),
    "gloo_all_reduce": ("communication", "16 MB between two processes and no work", "OMP_NUM_THREADS=1 {python} gloo_all_reduce.py"),
    "iperf3_loopback": ("communication", "bytes through a socket and nothing else", "iperf3 -s -1 -p {port} >/dev/null & sleep 0.4; iperf3 -c 127.0.0.1 -p {port} -t {s}; wait"),
    "kill_by_group": ("memory capacity", "the control group allows 300 MB and kills", "{group} {python} -c 'a=[]\nwhile True: a.append(bytes(9999))'"),
}  # fmt: skip
shared.FILES.update(
    {
        "torch_fused_adam": shared.TORCH + "p = torch.nn.Parameter(torch.rand(30_000_000)); p.grad = torch.rand(30_000_000)\no = torch.optim.Adam([p], fused=True)\nwhile time.time() < end: o.step()",
        "python_threads_lock": "import threading, time; end = time.time() + {s}; l = threading.Lock(); n = 0\n"
        "def work():\n    global n\n    while time.time() < end:\n        with l: n += 1\n"
        "t = [threading.Thread(target=work) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]",
        "gloo_all_reduce": shared.FILES["gloo_broadcast"].replace("d.broadcast(x, 0)", "d.all_reduce(x)"),
    }
)  # fmt: skip
ZOO = {name: row[0] for name, row in PROGRAMS.items()}

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
