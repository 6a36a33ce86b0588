"""What judges of shared data call: one function for each judge.

../shared/data/trainlogs/eval_logs.py TRUTH FOLDER --plugin benchmarks.judges:logs
"""

from pathlib import Path
from typing import Any


def logs(path: str) -> dict[str, Any]:
    """The figures of one log, by the keys of eval_logs.py; what the log does not say is absent."""
    from nodewise.importers.logs.survey import survey

    names = {
        "world_size": "world_size", "nodes": "nodes", "global_batch": "global_batch",
        "iterations": "iterations", "seq_length": "seq_length", "tp": "tp", "pp": "pp", "dp": "dp",
        "median_step_s": "step_seconds", "mean_step_s": "mean_step_seconds",
        "tokens_per_s": "tokens_per_second", "warmup": "warmup",
    }  # fmt: skip
    found = [{key: getattr(run, field) for key, field in names.items()}
             for run in survey([(None, Path(path))])]  # fmt: skip
    return {
        key: found[0][key]
        for key in names
        if found and found[0][key] is not None and all(one[key] == found[0][key] for one in found)
    }
