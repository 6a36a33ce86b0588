"""A study from logs: one workload, one regime and one meaning of K, or the reason why not."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.logs.record import LogRun
from nodewise.study.scale_unit import NODE, ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import OBSERVED, RECORD, Fact, Run, Study

_SAME_WORK = 0.01  # relative
_SAME_SIZE = {"TFLOP per token": 0.05, "FLOP per sample": 0.05}  # a rate is printed with few digits
_FAMILIES = {"hf-state": "hf", "hf-console": "hf", "torchtitan-jsonl": "torchtitan",
             "nanotron-console": "nanotron"}  # fmt: skip
_SIZES_FIRST = ("parameters", "num_layers", "hidden_size", "atoms")  # what people call a model
_ASSUMED = "The logs do not give the work of a run: strong scaling is assumed"
_GIVE_K = "Write K=PATH, or import with a pattern of the path: nodewise import --k 'n(\\d+)' PATH."

Count = Literal["scale", "world_size", "nodes"]
Timed = Literal["step", "mean step", "run"]


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a survey with their K, those that cannot be used, and what K counts."""

    runs: tuple[LogRun, ...]  # all of them; `problem` says why one is left out
    count: Count
    scale_unit: ScaleUnit
    compared: Timed | None  # at every K; None if the logs give nothing that all of them have

    @property
    def used(self) -> list[LogRun]:
        """The runs that make the study."""
        return [run for run in self.runs if not run.problem]

    def seconds_of(self, run: LogRun) -> float | None:
        """The time of a run that is compared."""
        if self.compared is None or run.outcome != "ok" or run.problem:
            return run.seconds
        return _seconds(run, self.compared)

    def scale_of(self, run: LogRun) -> int | None:
        """K of a run."""
        return None if run.problem and not run.scale else _count(run, self.count)


def _count(run: LogRun, count: Count) -> int | None:
    if count == "scale":
        return run.scale
    return run.nodes if count == "nodes" else run.world_size


def understand(runs: Sequence[LogRun]) -> Understood:
    """What K counts in these runs; a run without it is left out, with the reason."""
    used = [run for run in runs if not run.problem]
    if any(run.scale for run in used):
        count: Count = "scale"
    elif all(run.is_record for run in used):
        count = "nodes"
    else:
        logs = [run for run in used if not run.is_record]
        ranks = sum(run.world_size is not None for run in logs)
        count = "world_size" if ranks >= sum(run.nodes is not None for run in logs) else "nodes"
    if count == "scale" and _counts_ranks(used):
        runs = [msgspec.structs.replace(run, scale=run.scale or run.world_size) for run in runs]
    lacks = "the log does not give K; write K=PATH or use --k"
    if count == "scale":
        lacks = "K is given for other files and not for this one; write K=PATH for it, or use --k"
    checked = tuple(
        msgspec.structs.replace(run, problem=lacks)
        if not run.problem and _count(run, count) is None
        else run
        for run in runs
    )
    good = [run for run in checked if not run.problem]
    return Understood(
        runs=checked, count=count, scale_unit=_scale_unit(good, count), compared=_compared(good)
    )


def _counts_ranks(runs: Sequence[LogRun]) -> bool:
    """Whether the K that is given for some files is the number of ranks in their logs."""
    both = [run for run in runs if run.scale and run.world_size]
    return bool(both) and all(run.scale == run.world_size for run in both)


def _compared(runs: list[LogRun]) -> Timed | None:
    good = [run for run in runs if run.outcome == "ok"]
    try:
        return _timed(good) if good else None
    except DataError:
        return None


def _scale_unit(runs: list[LogRun], count: Count) -> ScaleUnit:
    """What K counts, and how many of it share a node where the logs say so."""
    if not runs:
        return ScaleUnit()
    if count == "scale":
        if not all(run.scale == run.world_size for run in runs):
            named = {run.scale_unit for run in runs}
            return ScaleUnit(unit=named.pop() or NODE) if len(named) == 1 else ScaleUnit()
        count = "world_size"
    units = {run.unit for run in runs}
    unit = NODE if count == "nodes" else units.pop() if len(units) == 1 else "rank"
    shared = {
        run.world_size // run.nodes
        for run in runs
        if run.world_size and run.nodes and run.world_size % run.nodes == 0
    }
    known = all(run.world_size and run.nodes for run in runs)
    per_node = shared.pop() if known and len(shared) == 1 else None
    if count == "nodes":
        return ScaleUnit()
    return ScaleUnit(unit=unit, per_node=per_node)


def study_of_logs(
    found: Understood, name: str, regime: Regime | None = None, job: str = ""
) -> Study:
    """The study of the runs that were understood; refused where they are not one workload."""
    runs = _of_one_job(found.used, job)
    if not runs:
        problem = next((f"{run.path}: {run.problem}" for run in found.runs), "no files")
        problem, _, wanted = problem.partition("; ask for: ")
        fix = f"Ask for: {wanted}." if wanted else _GIVE_K
        raise DataError(f"No log can be used; {problem}.", fix)
    good = [run for run in runs if run.outcome == "ok"]
    pairs = [(_count(run, found.count) or 0, run) for run in good]
    _refuse_other_programs(good)
    _refuse_other_sizes(pairs)
    made, declared = _regime(pairs, regime)
    timed = _timed(good)
    rounds: dict[int, int] = {}
    numbered = []
    for run in sorted(runs, key=lambda run: (run.started, _natural(run.path))):
        nodes = _count(run, found.count) or 0
        rounds[nodes] = rounds.get(nodes, -1) + 1
        numbered.append(_run(run, nodes, rounds[nodes], timed))
    if any(run.work is None for run in numbered if run.outcome == "ok"):
        numbered = [msgspec.structs.replace(run, work=None) for run in numbered]
    unit = next((run.work_unit for run in good if run.work), "items")
    notes = [*([] if declared else [_ASSUMED]), *_left_out(found, runs)]
    return Study(
        name=name[:100] or "imported", regime=made, runs=tuple(numbered),
        scale_unit=found.scale_unit, asked={"work_unit": unit},
        notes=tuple(notes),
    )  # fmt: skip


def _left_out(found: Understood, used: list[LogRun]) -> list[str]:
    """The files that are not in the study, as one note."""
    kept = {id(run) for run in used}
    left = [run for run in found.runs if id(run) not in kept]
    if not left:
        return []
    named = [f"{Path(run.path).name} ({run.problem or f'job {run.job}'})" for run in left[:3]]
    more = ["..."] if len(left) > 3 else []
    return [f"{len(left)} of {len(found.runs)} logs are left out: {', '.join(named + more)}"]


def _natural(path: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() and len(part) < 19 else (-1, part)
        for part in re.split(r"(\d+)", path)
    ]


def _of_one_job(runs: list[LogRun], job: str) -> list[LogRun]:
    """The runs of one job name, where a scheduler recorded several."""
    records = [run for run in runs if run.is_record]
    if len(records) < len(runs):
        return runs  # no records, or logs of programs beside them, which are refused
    names: dict[str, set[int | None]] = {}
    for run in records:
        names.setdefault(run.job, set()).add(run.nodes)
    if job:
        if job not in names:
            raise DataError(f"Job {job} was not found.", f"Use one of: {', '.join(sorted(names))}.")
        return [run for run in runs if run.job == job]
    curves = [name for name, scales in names.items() if len(scales) > 1]
    if len(curves) > 1:
        raise DataError(
            f"The records are of {len(curves)} jobs at several K: {', '.join(sorted(curves)[:8])}.",
            f"Take one of them: --region {sorted(curves)[0]}.",
        )
    if curves or len(names) == 1:
        return [run for run in runs if run.job in (curves or names)]
    # No name ran at several K: the names may be of one job, or of several, so that is a doubt.
    return [
        msgspec.structs.replace(run, changes={**run.changes, "job name": run.job}) for run in runs
    ]


def _refuse_other_programs(runs: list[LogRun]) -> None:
    names = sorted({_FAMILIES.get(run.format, run.format) for run in runs})
    if len(names) > 1:
        raise DataError(
            f"The logs are of several programs: {', '.join(names)}.", "Import one at a time."
        )


def _refuse_other_sizes(pairs: list[tuple[int, LogRun]]) -> None:
    """A model or a system that changes with K is not one workload."""
    sizes: dict[str, tuple[int, float | str]] = {}
    for nodes, run in pairs:
        known: dict[str, float | str] = dict(run.size)
        if run.seq_length:
            known["sequence length"] = float(run.seq_length)
        for name, value in sorted(known.items(), key=lambda item: item[0] not in _SIZES_FIRST):
            first_at, first = sizes.setdefault(name, (nodes, value))
            if not _alike(first, value, _SAME_SIZE.get(name, _SAME_WORK)):
                raise DataError(
                    f"Two workloads: {name} is {_shown(first)} at K={first_at} and "
                    f"{_shown(value)} at K={nodes}.",
                    "Import the logs of one model or system; a study has one workload.",
                )


def _alike(one: float | str, other: float | str, within: float) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= within * max(abs(one), abs(other))


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _regime(pairs: list[tuple[int, LogRun]], asked: Regime | None) -> tuple[Regime, bool]:
    """Strong where the work of a run is fixed, weak where it grows with K; and whether it shows."""
    work = [(nodes, _work(run)) for nodes, run in pairs]
    known = [(nodes, value) for nodes, value in work if value]
    scales = {nodes for nodes, _ in work}
    if len(known) < len(work) or len(scales) < 2:
        return asked or "strong", asked is not None or len(scales) < 2
    first_nodes, first = min(known)
    steady = all(abs(value / first - 1) <= _SAME_WORK for _, value in known)
    growing = all(abs(value / first * first_nodes / nodes - 1) <= _SAME_WORK
                  for nodes, value in known)  # fmt: skip
    if not steady and not growing:
        odd = [(nodes, value) for nodes, value in sorted(known)
               if abs(value / first - 1) > _SAME_WORK
               and abs(value / first * first_nodes / nodes - 1) > _SAME_WORK]  # fmt: skip
        nodes, other = odd[0] if odd else max(known)
        raise DataError(
            f"The work of a step is {first:g} at K={first_nodes} and {other:g} at K={nodes}: "
            "neither fixed (strong) nor proportional to K (weak).",
            "Import logs with one global batch, or with one batch per device.",
        )
    found: Regime = "strong" if steady else "weak"
    if asked is not None and asked != found:
        what = "the same at every K" if steady else "proportional to K"
        raise DataError(
            f"The work in the logs is {what}: that is {found} scaling, not {asked}.",
            f"Leave out --regime {asked}.",
        )
    return found, True


def _work(run: LogRun) -> float | None:
    """The work in the seconds that are compared: of one step where steps are compared."""
    if run.work is None or run.step_seconds:
        return run.work
    is_whole = run.work_unit in ("atom-steps", "steps")
    return run.work / run.iterations if is_whole and run.iterations else run.work


def _timed(runs: list[LogRun]) -> Timed:
    """What is compared, the same at every K: the median step, the mean step, or the run."""
    if all(run.step_seconds for run in runs):
        return "step"
    counts = {run.iterations for run in runs if run.iterations}
    has_mean = all(run.step_seconds or run.mean_step_seconds for run in runs)
    has_run = all(run.run_seconds for run in runs)
    items = any(run.work_unit in ("tokens", "samples") for run in runs)
    if has_mean and (items or len(counts) > 1 or not has_run):
        return "mean step"
    if has_run and len(counts) < 2:
        return "run"
    lacking = [Path(run.path).name for run in runs if not (run.step_seconds or run.iterations)]
    raise DataError(
        f"{len(lacking)} of {len(runs)} logs give no number of steps ({', '.join(lacking[:3])}), "
        "and the others have different ones: their times cannot be compared.",
        "Add the number of steps to these logs, or leave them out.",
    )


def _seconds(run: LogRun, timed: Timed) -> float | None:
    return run.run_seconds if timed == "run" else run.step_seconds or run.mean_step_seconds


def _run(run: LogRun, nodes: int, number: int, timed: Timed) -> Run:
    seconds = _seconds(run, timed)
    work, stages = run.work, run.stages
    if timed == "run":
        if run.work_unit in ("tokens", "samples"):
            work = run.work * run.iterations if run.work and run.iterations else None
    elif run.step_seconds is None and run.run_seconds is not None:
        work = _work(run)
        stages = {name: value / (run.iterations or 1) for name, value in stages.items()}
    if run.outcome != "ok":
        seconds = run.run_seconds or 0.0
    return Run(
        nodes=nodes, round=number, seconds=seconds or 0.0, outcome=run.outcome, detail=run.detail,
        stages=stages, ranks=run.ranks, work=work, energy_joules=run.energy_joules,
        setup_seconds=run.setup_seconds, facts=_facts(run), provenance=_provenance(run),
        started=run.started,
    )  # fmt: skip


def _facts(run: LogRun) -> dict[str, Fact]:
    names = ("global_batch", "seq_length", "world_size", "tp", "pp", "dp", "iterations", "warmup",
             "skipped", "nan", "loss", "memory_bytes", "tokens_per_second")  # fmt: skip
    facts: dict[str, Fact] = {
        name: value for name in names if (value := getattr(run, name)) not in (None, 0)
    }
    for kind in ("checkpoint", "evaluation", "other"):
        lost = [pause.seconds for pause in run.pauses if pause.kind == kind]
        if lost:
            facts[f"pauses_{kind}"] = len(lost)
            facts[f"pause_seconds_{kind}"] = sum(lost)
    return facts


def _provenance(run: LogRun) -> dict[str, Fact]:
    record: dict[str, Fact] = {OBSERVED: True} if run.is_record else {}
    record |= {f"{RECORD}{name}": value for name, value in run.changes.items()}
    return {"log": run.path, "log_format": run.format, **record}
