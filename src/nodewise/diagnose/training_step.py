"""A step of a torch program under the roofline: its operations and bytes, and where its time goes.

Each stage is compared with the ceilings of as many cores as it kept busy. The ceiling under which
most of the step's time is spent is the step's; if none holds most of it, that is said. Operations
without a formula are listed with their share of the time, as they are missing in the counts.
"""

from collections import Counter

import msgspec
import numpy as np

from nodewise.diagnose.axes import MENU, Answer, AxisName, CeilingName, Confidence, judge
from nodewise.diagnose.steps import StepRow, StepTable, judge_steps
from nodewise.diagnose.symptoms import ENOUGH
from nodewise.study.machine import Machine
from nodewise.study.observed import CountedRun, CountedStage, TimedStep

_MOST = 0.5  # of the time under one ceiling: it is named, but with less than high confidence
_SURE_STEPS = 5
_DISTURBED = 0.05  # of the time waiting for cores: more than a ceiling's own interval
_LISTED = 0.01  # of the time; what takes less is summed up
LOADER = "loader"


class Uncounted(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of which only the bytes are counted."""

    name: str
    calls: float
    share: float  # of the time of all operations


class TrainingStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step's counts, its point under the roofline, its stages, and the ceiling that binds."""

    command: tuple[str, ...]
    step: str
    steps: int
    seconds: float
    flops: float
    memory_bytes: float  # at least
    intensity: float | None  # at most, as the bytes are a lower bound
    flops_per_second: float
    peak_flops: float | None  # of all cores, in this dtype
    memory_bandwidth: float | None
    ridge: float | None
    dtype: str
    stages: tuple[StepRow, ...]
    counted_share: float  # of the operations' time, with a formula for their operations
    uncounted: tuple[Uncounted, ...]
    shares: dict[str, float]  # of the time, by ceiling
    ceiling: CeilingName | None
    axis: AxisName | None
    confidence: Confidence
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    answer: Answer | None = None


def judge_run(run: CountedRun, machine: Machine, proposal: str | None = None) -> TrainingStep:
    """The ceiling of a counted program on this machine."""
    dtype = run.dtype if run.dtype in machine.compute else "float32"
    stages = [one for one in run.stages if one.seconds and max(one.seconds) > 0]
    rows = tuple(map(_as_loader, judge_steps([_timed(one, dtype) for one in stages], machine).rows))
    seconds = sum(float(np.median(one.seconds)) for one in stages)
    flops = sum(one.flops for one in run.stages)
    moved = sum(one.memory_bytes for one in run.stages)
    peak, bandwidth = machine.peak(dtype), machine.memory_bandwidth
    shares = _shares(rows)
    counted, uncounted = _uncounted(run)
    ceiling, confidence, evidence = _weigh(run, rows, shares)
    return TrainingStep(
        command=run.command,
        step=run.step,
        steps=run.steps,
        seconds=seconds,
        flops=flops,
        memory_bytes=moved,
        intensity=flops / moved if moved else None,
        flops_per_second=flops / seconds if seconds else 0.0,
        peak_flops=peak,
        memory_bandwidth=bandwidth,
        ridge=peak / bandwidth if peak and bandwidth else None,
        dtype=run.dtype,
        stages=rows,
        counted_share=counted,
        uncounted=uncounted,
        shares=shares,
        ceiling=ceiling,
        axis=MENU[ceiling].axis if ceiling else None,
        confidence=confidence,
        evidence=evidence,
        notes=_notes(run, rows, counted, dtype),
        answer=judge(proposal, ceiling) if proposal else None,
    )


def _timed(stage: CountedStage, dtype: str) -> TimedStep:
    seconds = tuple(max(one, 1e-9) for one in stage.seconds)
    return TimedStep(**{**msgspec.structs.asdict(stage), "seconds": seconds, "dtype": dtype})


def _as_loader(row: StepRow) -> StepRow:
    """A step that waits for its loader waits for data, whatever the loader does meanwhile."""
    if row.name != LOADER:
        return row
    return msgspec.structs.replace(row, ceiling="data I/O", axis="data", share=1.0, remark="")


def _shares(rows: tuple[StepRow, ...]) -> dict[str, float]:
    weights: Counter[str] = Counter()
    for row in rows:
        weights[row.ceiling] += row.share_of_time  # type: ignore[assignment]
    return {name: share for name, share in weights.most_common() if share > 0}


def _uncounted(run: CountedRun) -> tuple[float, tuple[Uncounted, ...]]:
    whole = sum(one.seconds for one in run.operations) or 1.0
    missing = [one for one in run.operations if one.flops is None]
    listed = [
        Uncounted(name=one.name, calls=one.calls, share=one.seconds / whole)
        for one in missing
        if one.seconds >= _LISTED * whole
    ]
    rest = [one for one in missing if one.seconds < _LISTED * whole]
    if rest:
        calls, share = sum(one.calls for one in rest), sum(one.seconds for one in rest) / whole
        listed.append(Uncounted(name=f"{len(rest)} others", calls=calls, share=share))
    return 1 - sum(one.seconds for one in missing) / whole, tuple(listed)


def _weigh(
    run: CountedRun, rows: tuple[StepRow, ...], shares: dict[str, float]
) -> tuple[CeilingName | None, Confidence, tuple[str, ...]]:
    if not shares:
        return None, "low", ("no step was seen",)
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    name, share = next(iter(shares.items()))
    if name not in MENU or share < _MOST:
        return None, "low", (f"no ceiling holds {100 * _MOST:.0f} % of a step's time: {told}",)
    ceiling: CeilingName = name
    stages = ", ".join(row.name for row in rows if row.ceiling == ceiling)
    disturbed = run.timed_while_counting or run.with_setup or run.exit_code
    clear = share >= ENOUGH and run.steps >= _SURE_STEPS and run.waited_share < 0.2
    clear = clear and not disturbed
    evidence = f"{100 * share:.0f} % of a step's time is below it ({stages}); in all: {told}"
    return ceiling, "high" if clear else "medium", (evidence,)


def _is_disturbed(run: CountedRun) -> bool:
    """Whether other load made its threads wait for each other; of one alone it is taken out."""
    return run.threads > 1 and run.waited_share > _DISTURBED


def _notes(
    run: CountedRun, rows: tuple[StepRow, ...], counted: float, dtype: str
) -> tuple[str, ...]:
    notes = []
    loader = next((row for row in rows if row.name == LOADER), None)
    if loader is not None and loader.share_of_time > 0.1 and loader.cores > 0.7:
        notes.append(
            "The loader runs in the process of the program. Give it workers before you add nodes."
        )
    if counted < 0.5:
        notes.append(
            f"Operations with a formula take {100 * counted:.0f} % of the time: the FLOP count is "
            "a lower bound of the work."
        )
    if run.with_setup:
        notes.append("Only one step was seen. It includes everything before the loop.")
    elif run.timed_while_counting:
        notes.append("Too few steps to time them without the counter, which makes them slower.")
    if _is_disturbed(run):
        notes.append(
            f"Its threads waited for cores in {100 * run.waited_share:.0f} % of their time: other "
            "processes had them, so the shares of the ceilings are too low. OMP_NUM_THREADS=1 is "
            "disturbed less."
        )
    if dtype != run.dtype:
        notes.append(f"No ceiling is measured for {run.dtype}: that of {dtype} is used.")
    if run.device != "cpu":
        notes.append(
            f"It computes on {run.device}: stages show when work is submitted, and the ceilings "
            "are those of the processor."
        )
    if run.stopped:
        notes.append(f"It was stopped after {run.all_steps} timed steps.")
    elif run.exit_code:
        notes.append(f"It ended with code {run.exit_code}.")
    return tuple(notes)


def table_of(step: TrainingStep) -> StepTable:
    """Its stages as any other steps."""
    return StepTable(rows=step.stages, slowest=max(step.stages, key=lambda row: row.seconds).name)
