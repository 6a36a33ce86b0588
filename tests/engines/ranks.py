"""Run trainings as K ranks on gloo without importing torch and its trainers for each of them.

`python ranks.py JOBS.json` imports once and forks. A job: script, arguments, ranks, folder, the
variables of its environment, and the modules to import before.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

SECONDS = 150  # that a job may take


def main() -> None:
    jobs = json.loads(Path(sys.argv[1]).read_text())
    for module in ["torch", "torch._dynamo", "torch.distributed.fsdp", *jobs["imports"]]:
        importlib.import_module(module)
    for job in jobs["jobs"]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = [_fork(job, rank, port) for rank in range(job["ranks"])]
        deadline = time.monotonic() + SECONDS
        codes = {}
        while len(codes) < len(children) and time.monotonic() < deadline:
            for child in children:
                if child not in codes:
                    done, status = os.waitpid(child, os.WNOHANG)
                    if done:
                        codes[child] = os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        for child in set(children) - set(codes):
            os.kill(child, 9)
            os.waitpid(child, 0)
        Path(job["folder"], "codes").write_text(json.dumps([codes.get(c, -9) for c in children]))


def _fork(job: dict, rank: int, port: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with Path(job["folder"], "log").open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["ranks"]}
        place |= {"LOCAL_WORLD_SIZE": job["ranks"], "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        os.environ.update({name: str(value) for name, value in place.items()})
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "HF_HUB_OFFLINE": "1", **job["variables"]})
        if job["watched"]:
            os.environ["NODEWISE_RUN"] = job["folder"]
            importlib.import_module("nodewise.measure.torch.hooks").install()
        sys.argv[:] = ["launch", job["script"], *job["arguments"]]
        importlib.import_module("nodewise.measure.launch").main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        if job["watched"]:
            sys.modules["nodewise.probe"]._report.write()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def job(
    folder: Path,
    script: Path,
    *arguments: object,
    ranks: int,
    watched: bool = True,
    **variables: str,
) -> dict:
    """One job for `run`."""
    folder.mkdir(parents=True)
    return {
        "folder": str(folder),
        "script": str(script),
        "arguments": [str(word) for word in arguments],
        "ranks": ranks,
        "watched": watched,
        "variables": {"NODEWISE_WARMUP_STEPS": "2", **variables},
    }


def run(folder: Path, jobs: list[dict], *imports: str) -> None:
    """Run jobs one after the other; each must end well."""
    listed = folder / "jobs.json"
    listed.write_text(json.dumps({"imports": imports, "jobs": jobs}))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NODEWISE")}
    subprocess.run(
        [sys.executable, __file__, str(listed)],
        env={**environment, "OMP_NUM_THREADS": "1"}, check=True, timeout=SECONDS * len(jobs),
    )  # fmt: skip
    for one in jobs:
        place = Path(one["folder"])
        codes = json.loads((place / "codes").read_text())
        assert codes == [0] * one["ranks"], (place / "log").read_text()[-3000:]


def disturbed(run) -> bool:
    """Whether a rank was ready to run without a core for a tenth of the run."""
    delays = [rank.usage.run_delay_seconds or 0.0 for rank in run.ranks]
    return max(delays) > 0.1 * run.seconds


if __name__ == "__main__":
    main()
