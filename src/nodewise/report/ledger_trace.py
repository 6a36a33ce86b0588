"""The ledger of each step of a traced job, as a trace that Perfetto opens."""

from typing import Any

from nodewise.explain.trace.breakdown import JobBreakdown, StepRank

# The parts of a step in the order in which they are shown; transfer is what is left of the exposed
# communication.
LEDGER = (
    ("compute", "compute_us"),
    ("transfer", ""),
    ("wait", "wait_us"),
    ("copies", "exposed_copy_us"),
    ("input wait", "input_wait_us"),
    ("host-bound", "host_bound_us"),
    ("other idle", "other_idle_us"),
)


def part_of(rank: StepRank, field: str) -> float:
    """Microseconds of one part."""
    if not field:
        return rank.exposed_comm_us - rank.wait_us
    value: float = getattr(rank, field)
    return value


def ledger_trace(job: JobBreakdown) -> dict[str, Any]:
    """The ledger of each step as a Chrome trace: a process a rank, a slice a part.

    The parts of a step stand one after the other: their lengths are measured, their places
    inside the step are not.
    """
    events: list[dict[str, Any]] = []
    origin = min((rank.start_us for step in job.steps for rank in step.ranks), default=0.0)
    ranks = sorted({rank.rank for step in job.steps for rank in step.ranks})
    for rank in ranks:
        events.append(
            {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
        )
        for thread, name in ((0, "step"), (1, "ledger")):
            about = {"name": name}
            events.append(
                {"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "args": about}
            )
    for step in job.steps:
        for one in step.ranks:
            begin = one.start_us - origin
            common = {"ph": "X", "cat": "nodewise", "pid": one.rank}
            late = {"critical rank": step.critical_rank}
            whole = {"name": f"step {step.number}", "ts": begin, "dur": one.window_us}
            events.append({**common, **whole, "tid": 0, "args": late})
            for name, field in LEDGER:
                length = part_of(one, field)
                if length > 0:
                    part = {"name": name, "ts": begin, "dur": length, "tid": 1}
                    share = {"share of the step": length / one.window_us}
                    events.append({**common, **part, "args": share})
                    begin += length
    return {"traceEvents": events, "displayTimeUnit": "ms"}
