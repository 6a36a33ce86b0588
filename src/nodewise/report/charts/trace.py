"""A traced job in charts: its ranks over time, the parts of their time, and who is late."""

from collections.abc import Sequence
from statistics import median

from nodewise.base.units import format_latency, format_percent
from nodewise.explain.trace.breakdown import JobBreakdown, RankBreakdown, StepBreakdown, StepRank
from nodewise.report.charts.look import (
    HEIGHT,
    Figure,
    Row,
    figure,
    layered,
    linear,
    mark,
    time_unit,
    values_of,
)
from nodewise.report.charts.parts import heat_cells, part_bars, stacked

# The parts of a rank's time in the order in which a step goes through them, with their colours.
_COLORS = {
    "input wait": "io",
    "compute": "compute",
    "host-bound": "serial",
    "copies": "overhead",
    "wait for a late rank": "idle",
    "transfer": "communication",
    "other idle": "unrecorded",
}
_MOST_RANKS = 16  # in a timeline: more are too thin to be read
_MOST_ROWS = 32  # of bars and cells
_MOST_STEPS = 12  # in a timeline
_MOST_COLUMNS = 64  # of cells
_MICRO = 1e-6


def trace_timeline(job: JobBreakdown) -> Figure | None:
    """Each rank over time, step by step; nothing if the steps of ranks cannot be set beside.

    Only sums of a step are known, so the order inside a step is the usual one.
    """
    steps = job.steps[:_MOST_STEPS]
    if not steps:
        return None
    origin = min(one.start_us for step in steps for one in step.ranks)
    end = max(one.start_us + one.window_us for step in steps for one in step.ranks)
    unit = time_unit(_MICRO * (end - origin))
    to_unit = _MICRO / unit.seconds
    shown = _slowest(steps, _MOST_RANKS)
    segments = [
        segment
        for step in steps
        for one in step.ranks
        if one.rank in shown
        for segment in _step_segments(one, step.number, origin, to_unit)
    ]
    x = linear("start", f"time, {unit.name}", 0, max(values_of(segments, "end")) * 1.01)
    y = {"field": "rank", "type": "ordinal", "title": "rank", "sort": [str(one) for one in shown]}
    begins = [
        {
            "start": to_unit * (min(one.start_us for one in step.ranks) - origin),
            "words": f"step {step.number}" if at == 0 else str(step.number),
        }
        for at, step in enumerate(steps)
    ]
    name = {"align": "left", "baseline": "bottom", "dx": 2, "dy": -2}
    layers = [
        part_bars(
            "bar",
            segments,
            _COLORS,
            ("rank", "step", "part", "took"),
            offset=20,
            x=x,
            x2="end",
            y=y,
        ),
        mark("rule", begins, "wall", x=x),
        mark("text", begins, "remark", name, x=x, y={"value": 0}, text="words"),
    ]
    more = (
        [f"the first {_MOST_STEPS} of {len(job.steps)} steps"]
        if len(job.steps) > len(steps)
        else []
    )
    ranks = len(steps[0].ranks)
    more += (
        [f"{len(shown)} of {ranks} ranks, evenly from fast to slow"] if ranks > len(shown) else []
    )
    return figure(
        "timeline",
        "Every rank over time",
        ["", "; ".join(["lines: a step begins; order within a step assumed", *more])],
        _timeline_caption(job, steps),
        [_step_row(step, one) for step in steps for one in step.ranks if one.rank in shown],
        layered(layers, max(0.5 * HEIGHT, min(24.0 * len(shown), 1.1 * HEIGHT))),
    )


def _step_segments(one: StepRank, step: int, origin: float, to_unit: float) -> list[Row]:
    parts = {name: to_unit * amount for name, amount in _step_parts(one).items()}
    found = stacked(parts, to_unit * (one.start_us - origin), rank=str(one.rank), step=step)
    took = {name: format_latency(_MICRO * amount) for name, amount in _step_parts(one).items()}
    return [{**segment, "took": took[segment["part"]]} for segment in found]


def _step_parts(one: StepRank) -> dict[str, float]:
    return {
        "input wait": one.input_wait_us,
        "compute": one.compute_us,
        "host-bound": one.host_bound_us,
        "copies": one.exposed_copy_us,
        "wait for a late rank": one.wait_us,
        "transfer": one.exposed_comm_us - one.wait_us,
        "other idle": one.other_idle_us,
    }


def _rank_parts(one: RankBreakdown) -> dict[str, float]:
    wait = one.exposed_wait_us or 0.0
    return {
        "input wait": one.input_wait_us,
        "compute": one.compute_us,
        "host-bound": one.host_bound_us,
        "copies": one.exposed_copy_us,
        "wait for a late rank": wait,
        "transfer": one.exposed_comm_us - wait,
        "other idle": one.idle_us - one.input_wait_us - one.host_bound_us,
    }


def _step_row(step: StepBreakdown, one: StepRank) -> Row:
    parts = {f"{name}, us": amount for name, amount in _step_parts(one).items()}
    return {"step": step.number, "rank": one.rank, "start, us": one.start_us, **parts}


def _slowest(steps: Sequence[StepBreakdown], most: int) -> list[int]:
    """The ranks to draw, by number: all of them, or evenly from the fastest to the slowest."""
    own: dict[int, float] = {}
    for step in steps:
        for one in step.ranks:
            own[one.rank] = own.get(one.rank, 0.0) + one.window_us - one.wait_us
    by_time = sorted(own, key=lambda rank: own[rank])
    if len(by_time) > most:
        by_time = [by_time[round(at * (len(by_time) - 1) / (most - 1))] for at in range(most)]
    return sorted(by_time)


def _timeline_caption(job: JobBreakdown, steps: Sequence[StepBreakdown]) -> str:
    usual = median(step.window_us for step in steps)
    text = f"The median step takes {format_latency(_MICRO * usual)}"
    if job.late_ranks:
        late = job.late_ranks[0]
        waited = format_latency(_MICRO * late.waited_for_us)
        return (
            f"{text}. Rank {late.rank} came last {late.times_last} of {job.collectives.count} "
            f"times; the others waited {waited} for it, summed over ranks."
        )
    return f"{text}."


def breakdown_chart(job: JobBreakdown) -> Figure | None:
    """What each rank spent its time on, as shares of its window."""
    used = [rank for rank in job.ranks if rank.used and rank.window_us > 0]
    if not used:
        return None
    shown = used
    if len(used) > _MOST_ROWS:
        by_compute = sorted(used, key=lambda one: one.compute_us)
        places = (round(at * (len(used) - 1) / (_MOST_ROWS - 1)) for at in range(_MOST_ROWS))
        picked = [by_compute[at] for at in places]
        shown = [rank for rank in used if rank in picked]
    names = [_rank_name(rank) for rank in shown]
    segments = [
        {**segment, "share": format_percent((segment["end"] - segment["start"]) / 100)}
        for rank in shown
        for segment in stacked(
            {name: 100 * part / rank.window_us for name, part in _rank_parts(rank).items()},
            rank=_rank_name(rank),
        )
    ]
    x = linear("start", "share of the window, %", 0, 100, {"tickCount": 5, "format": "d"})
    y = {"field": "rank", "type": "ordinal", "title": "rank", "sort": names}
    few = [f"{len(shown)} of {len(used)} ranks"] if len(shown) < len(used) else []
    return figure(
        "breakdown",
        "What each rank spent its time on",
        ["", "; ".join(["transfer: exposed communication without waiting", *few])],
        _breakdown_caption(used),
        [{"rank": rank.rank, "window, us": rank.window_us, **_rank_parts(rank)} for rank in shown],
        layered(
            [part_bars("bar", segments, _COLORS, ("rank", "part", "share"), x=x, x2="end", y=y)],
            max(0.5 * HEIGHT, min(24.0 * len(shown), 1.1 * HEIGHT)),
        ),
    )


def _rank_name(rank: RankBreakdown) -> str:
    return "?" if rank.rank is None else str(rank.rank)


def _breakdown_caption(used: Sequence[RankBreakdown]) -> str:
    shares = [rank.compute_us / rank.window_us for rank in used]
    least, most = format_percent(min(shares)), format_percent(max(shares))
    return f"Ranks compute between {least} and {most} of their time."


def late_chart(job: JobBreakdown) -> Figure | None:
    """Rank by step: how much longer than the median a rank kept the others waiting."""
    steps = job.steps[:_MOST_COLUMNS]
    if len(steps) < 2 or len(steps[0].ranks) < 2:
        return None
    shown = _slowest(steps, _MOST_ROWS)
    cells: list[Row] = []
    for step in steps:
        usual = median(one.window_us - one.wait_us for one in step.ranks)
        for one in step.ranks:
            if one.rank in shown:
                own = one.window_us - one.wait_us
                cells.append(
                    {
                        "rank": str(one.rank),
                        "step": str(step.number),
                        "value": 100 * (own / usual - 1) if usual else 0.0,
                        "took": format_latency(_MICRO * own),
                    }
                )
    worst = max(cells, key=lambda cell: cell["value"])
    most = max(worst["value"], 5.0)
    layer = heat_cells(
        cells, ("step", "step"), ("rank", "rank"), "% longer than the median rank", most,
        ("rank", "step", "took"),
    )  # fmt: skip
    return figure(
        "late",
        "Time of each rank in each step, without waiting",
        ["", "empty: the median of the step or less"],
        f"Rank {worst['rank']} takes {worst['value']:.0f} % longer than the median in step "
        f"{worst['step']}, the largest excess.",
        [{key: cell[key] for key in ("rank", "step", "value")} for cell in cells],
        layered([layer], max(0.5 * HEIGHT, min(20.0 * len(shown), 1.1 * HEIGHT))),
    )
