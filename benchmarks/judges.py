"""Adapters for the judges of shared data: one function for each judge.

../shared/data/trainlogs/eval_logs.py TRUTH FOLDER --plugin benchmarks.judges:logs
../shared/data/eval_curves.py CURVES --plugin benchmarks.judges:curves
../shared/data/planner/eval_planner.py ROWS --plugin benchmarks.judges:planner
../shared/data/serving/eval_serving.py CURVES --plugin benchmarks.judges:serving
../shared/data/stragglers/eval_stragglers.py FOLDER EXPECTED --plugin benchmarks.judges:stragglers
../shared/data/history/eval_history.py HISTORY --plugin benchmarks.judges:history
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


def curves(
    nodes: list[float], values: list[float], metric: str, regime: Any, asked: list[float]
) -> tuple[Any, Any, Any]:
    """Predicted values with 80 % bounds, for eval_curves.py."""
    import numpy as np

    from nodewise.explain.predict import curve
    from nodewise.explain.predict.laws import Ladder

    def grown(scales: Any) -> Any:
        return np.log(scales) if metric != "throughput" and regime == "weak" else 0.0

    sign = -1 if metric == "throughput" else 1
    at, known = np.array(nodes, float), np.array(values, float)
    ladder = Ladder(at, sign * np.log(known) - grown(at), np.zeros_like(at), regime)
    scales = np.array(asked, float)
    answer, spread = curve.Curve(ladder).log_times(scales)
    reach = spread * np.interp(0.8, curve.LEVELS, curve.FACTORS)
    middle = sign * (answer + grown(scales))
    return np.exp(middle), np.exp(middle - reach), np.exp(middle + reach)


def planner(row: dict[str, str], anchor: dict[str, str] | None = None) -> dict[str, float] | None:
    """Seconds of a step with 80 % bounds and memory, for eval_planner.py."""
    import math

    from benchmarks.plan import case, number

    from nodewise.decide.paper.memory import memory_of
    from nodewise.decide.paper.plan import Measured, spread
    from nodewise.decide.paper.step import step_time

    planned = case(row)
    if planned is None:
        return None
    job, plan, cluster = planned
    seconds = step_time(job, plan, cluster).seconds
    measured = None
    if anchor and (ran := case(anchor)):
        ratio = number(anchor["seconds_per_step"]) / step_time(*ran).seconds
        measured = Measured(ratio, ran[1], ran[0].training.precision)
        seconds *= measured.factor(job, plan, cluster)
    reach = math.exp(spread(job, plan, cluster, measured))
    return {
        "seconds_per_step": seconds,
        "low": seconds / reach,
        "high": seconds * reach,
        "memory_gib": memory_of(job, plan).bytes / 2**30,
    }


def serving(load: Any, values: Any, what: Any, asked: Any, facts: dict[str, Any]) -> Any:
    """Predicted latencies with 80 % bounds, for eval_serving.py."""
    from nodewise.fleet.concurrency import LatencyTable, predict

    ttft, tpot = (facts["other"], values) if what == "tpot" else (values, facts["other"])
    table = LatencyTable(
        name="judged",
        concurrency=tuple(load),
        ttft=tuple(ttft / 1e3),
        tpot=tuple(tpot / 1e3),
        input_tokens=float(facts["isl"]),
        output_tokens=float(facts["osl"]),
    )
    return tuple(1e3 * bound for bound in predict(table, what, asked))


def stragglers(trace: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """What the stragglers of a hybrid parallel job cost, by the keys of eval_stragglers.py."""
    from nodewise.explain.trace.replay import replay
    from nodewise.study.trace import Operations

    names = {
        "kind": "optype", "replica": "dp_rank", "stage": "stage", "rank": "rank", "step": "step",
        "number": "seq_id", "chunk": "mc", "model_chunk": "gmc", "start": "start_ts",
        "duration": "duration",
    }  # fmt: skip
    columns = {field: trace[column] for field, column in names.items()}
    job = Operations(name=meta["trial_name"], sequence_parallel=meta["dsp_size"], **columns)
    found = replay(job)
    return {
        "S": found.slowdown,
        "step_s": found.step_seconds,
        "ideal_step_s": found.ideal_seconds,
        "M_S": found.last_stage_share,
        "M_W": found.worker_share,
        "S_by_optype": found.by_kind,
        "S_by_dp_rank": found.by_replica,
        "S_by_stage": found.by_stage,
    }


def history(campaigns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """New alarms of the newest campaign, by the keys of eval_history.py."""
    from msgspec import convert, to_builtins

    from nodewise.history.detect import Campaign, detect

    found = detect(convert(campaigns, list[Campaign]))
    return [to_builtins(one) for one in found if one.confirmed and not one.repeated]
