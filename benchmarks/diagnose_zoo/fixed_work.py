"""The programs of `reported`, each with a fixed amount of work: `fixed_work.py NAME SECONDS`.

For `diagnose --confirm`, which runs a program several times and compares its CPU seconds. SECONDS
does not change the work.
"""
# ruff: noqa: E501 - a table of commands as users type them

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("reported", Path(__file__).with_name("reported.py"))
reported = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reported)
shared = reported.shared

PROGRAMS = {
    "stress_mutex": ("coordination", "threads that take one mutex", "stress-ng --mutex 2 --mutex-ops 4000000"),
    "ffmpeg_x264": ("compute", "motion search; frame threads wait for each other in part", "ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=1280x720:rate=30 -frames:v 150 -c:v libx264 -threads 2 -f null -"),
    "stress_stream_one": ("memory bandwidth", "the STREAM loops on arrays beyond the caches", "stress-ng --stream 1 --stream-l3-size 64m --stream-ops 30"),
    "stress_stream_two": ("memory bandwidth", "one on each core", "stress-ng --stream 2 --stream-l3-size 64m --stream-ops 30"),
    "torch_fused_adam": ("memory bandwidth", "reads and writes 28 bytes for each of 30 M parameters", "OMP_NUM_THREADS=2 {python} adam_steps.py"),
    "python_threads_lock": ("coordination", "four threads that count under one lock", "{python} locked_counts.py"),
    "gloo_all_reduce": ("communication", "16 MB between two processes and no work", "OMP_NUM_THREADS=1 {python} gloo_sums.py"),
    "iperf3_loopback": ("communication", "bytes through a socket and nothing else", "iperf3 -s -1 -p {port} >/dev/null & sleep 0.4; iperf3 -c 127.0.0.1 -p {port} -n 8G; wait"),
    "kill_by_group": ("memory capacity", "the control group allows 300 MB and kills", "{group} {python} -c 'a=[]\nwhile True: a.append(bytes(9999))'"),
}  # fmt: skip
SCRIPTS = {
    "adam_steps": shared.TORCH + "p = torch.nn.Parameter(torch.rand(30_000_000)); p.grad = torch.rand(30_000_000)\no = torch.optim.Adam([p], fused=True)\nfor _ in range(50): o.step()",
    "locked_counts": "import threading; l = threading.Lock(); n = 0\ndef work():\n    global n\n    for _ in range(3_000_000):\n        with l: n += 1\n"
    "t = [threading.Thread(target=work) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]",
    "gloo_sums": shared.FILES["gloo_all_reduce"].replace("while go[0]:", "for _ in range(25):"),
}  # fmt: skip
ZOO = {name: row[0] for name, row in PROGRAMS.items()}


def _prepare(name, command, seconds):
    """The script of a row, beside the files that all rows may need."""
    _files(name, command, seconds)
    for script, text in SCRIPTS.items():
        if f"{script}.py" in command:
            Path(f"{script}.py").write_text(text.replace("{s}", "0"))


_files, shared._prepare = shared._prepare, _prepare

if __name__ == "__main__":
    sys.exit(shared.run(PROGRAMS, sys.argv[1], sys.argv[2]))
