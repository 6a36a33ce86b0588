"""A line or a few that a program printed, with what a reader may say of them."""

from typing import Any, NamedTuple


class Sample(NamedTuple):
    """An excerpt, where it is from, and its figures."""

    name: str
    source: str
    text: str
    truth: dict[str, Any]
    file: str = "out.log"


def figures(run: Any) -> dict[str, Any]:
    """What a reader says of a run, by the names of the truth."""
    stages = run.stages
    return {
        "world_size": run.world_size, "nodes": run.nodes, "global_batch": run.global_batch,
        "iterations": run.iterations, "seq_length": run.seq_length, "tp": run.tp, "pp": run.pp,
        "dp": run.dp, "median_step_s": run.step_seconds, "mean_step_s": run.mean_step_seconds,
        "tokens_per_s": run.tokens_per_second, "warmup": run.warmup, "run_s": run.run_seconds,
        "skipped": run.skipped, "entries": run.entries, "energy": run.energy_joules,
        "format": run.format, **{name: stages.get(name) for name in (
            "compute", "communication", "idle")},
    }  # fmt: skip
