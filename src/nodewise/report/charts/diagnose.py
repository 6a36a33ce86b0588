"""What limits one program: bars of memory, of time and of windows, and a step under its roofs."""

from collections.abc import Mapping, Sequence

from nodewise.base.units import (
    capitalised,
    format_bytes,
    format_latency,
    format_percent,
)
from nodewise.diagnose.memory import Fit
from nodewise.diagnose.roofline import Roofline
from nodewise.diagnose.symptoms import ENOUGH, Symptoms
from nodewise.diagnose.training_step import TrainingStep
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Figure,
    Row,
    choice,
    figure,
    layered,
    linear,
    mark,
    names_axis,
    values_of,
)
from nodewise.report.charts.roofline import Point, roofline_chart

_GIGA = 1e9
_ACCOUNT = {
    "user": "computing",
    "system": "in the kernel",
    "blocked": "waiting",
}
_CEILINGS = {
    "compute": "compute",
    "memory bandwidth": "slow node",
    "data I/O": "io",
    "page faults": "overhead",
    "coordination": "idle",
    "communication": "communication",
}
_BINDS, _OTHER = "refused", "measured"  # colours of bars


def memory_chart(training: Fit | None) -> Figure | None:
    """What each device would hold under each strategy, and what it can hold."""
    if training is None:
        return None
    limit = training.device_bytes / _GIGA
    rows = [
        _bar(share.strategy, share.device_bytes / _GIGA, format_bytes(share.device_bytes),
             "fits" if share.fits else "does not fit")
        for share in training.shares
    ]  # fmt: skip
    fitting = [share.strategy for share in training.shares if share.fits]
    which = f"{', '.join(fitting)} fit" if fitting else "nothing fits"
    return _bars(
        "memory",
        f"Memory of a device, on {training.workers} devices",
        f"Of {format_bytes(training.device_bytes)}, one copy needs "
        f"{format_bytes(training.demand.total)}: {which}.",
        rows,
        {"fits": _OTHER, "does not fit": _BINDS},
        "GB on each device",
        limit=(limit, f"a device: {format_bytes(training.device_bytes)}"),
    )


def paper_step_chart(step: Roofline | None) -> Figure | None:
    """The step of a job on paper under the roofs of its machine."""
    if step is None:
        return None
    bandwidth = step.attainable_flops / min(step.intensity, step.ridge)
    point = Point(name="step", intensity=step.intensity, flops=step.attainable_flops)
    return roofline_chart(
        step.ridge * bandwidth, bandwidth, [point], exchange_flops=step.exchange_flops
    )


def exchange_chart(step: Roofline | None) -> Figure | None:
    """What a step takes at least: arithmetic, memory and the exchange between workers."""
    if step is None or step.comm_s is None:
        return None
    seconds = {"compute": step.compute_s, "memory": step.memory_s, "exchange": step.comm_s}
    longest = max(seconds, key=lambda name: seconds[name])
    rows = [
        _bar(name, one, format_latency(one), "longest" if name == longest else "shorter")
        for name, one in seconds.items()
    ]
    colors = {"longest": _BINDS, "shorter": _OTHER}
    caption = f"The longest part of a step is {longest}, {format_latency(seconds[longest])}."
    return _bars("exchange", "Least time of each part of a step", caption, rows, colors, "seconds")


def windows_chart(result: Symptoms) -> Figure | None:
    """The share of the watched windows that look like each ceiling."""
    if not result.shares:
        return None
    rows = [
        _bar(name, 100 * share, format_percent(share),
             "binds" if name == result.ceiling else "does not bind")
        for name, share in result.shares.items()
    ]  # fmt: skip
    most = max(result.shares, key=lambda name: result.shares[name])
    return _bars(
        "windows",
        "What the program looked like, over its windows",
        f"{format_percent(result.shares[most])} of {result.windows} windows look like {most}.",
        rows,
        {"binds": _BINDS, "does not bind": _OTHER},
        "share of the windows, %",
        most=100,
        limit=(100 * ENOUGH, f"enough to decide: {format_percent(ENOUGH)}"),
    )


def time_chart(result: Symptoms) -> Figure | None:
    """Where the time of a watched program went."""
    shares = {
        words: result.figures[key] for key, words in _ACCOUNT.items() if key in result.figures
    }
    if not shares:
        return None
    rows = [_bar(words, 100 * one, format_percent(one), "time") for words, one in shares.items()]
    most = max(shares, key=lambda words: shares[words])
    return _bars(
        "time",
        "Where the time went",
        f"{capitalised(most)} takes {format_percent(shares[most])} of the time; the load of other "
        "programs is taken out.",
        rows,
        {"time": _OTHER},
        "share of the time, %",
        most=100,
    )


def stage_chart(result: TrainingStep) -> Figure | None:
    """The stages of a torch step by their time, and the ceiling of each."""
    if not result.stages:
        return None
    rows = [
        {
            **_bar(row.name, 100 * row.share_of_time, format_percent(row.share_of_time),
                   row.ceiling),
            "seconds": row.seconds,
            "reached": row.share,
        }
        for row in result.stages
    ]  # fmt: skip
    slowest = max(result.stages, key=lambda row: row.share_of_time)
    return _bars(
        "stages",
        "Stages of a step",
        f"{capitalised(slowest.name)} takes {format_percent(slowest.share_of_time)} of a step of "
        f"{format_latency(result.seconds)} and reaches {format_percent(slowest.share)} of its "
        f"ceiling, {slowest.ceiling}.",
        rows,
        {row.ceiling: _CEILINGS.get(row.ceiling, "unexplained") for row in result.stages},
        "share of the time, %",
        most=100,
    )


def _bar(name: str, value: float, words: str, kind: str) -> Row:
    return {"name": name, "value": value, "words": words, "kind": kind}


def _bars(
    name: str,
    title: str,
    caption: str,
    rows: Sequence[Row],
    colors: Mapping[str, str],
    unit: str,
    most: float = 0.0,
    limit: tuple[float, str] | None = None,
) -> Figure:
    """A bar for each row with its value after it, coloured by kind; `limit` is a line."""
    ends = [*values_of(rows, "value"), *([limit[0]] if limit else []), most]
    ticks = {"values": [0, 20, 40, 60, 80, 100]} if most else None
    x = linear("value", unit, 0, 1.3 * max(ends), ticks)
    y = names_axis("name", [row["name"] for row in rows])
    used = {row["kind"] for row in rows}
    shown = {kind: PALETTE[color] for kind, color in colors.items() if kind in used}
    legend = {"symbolType": "square", "offset": 20} if len(shown) > 1 else None
    start = [{**row, "zero": 0.0} for row in rows]
    end = {"value": {"expr": "width"}}
    text = {"align": "right", "baseline": "middle"}
    layers = [
        mark("bar", start, "", {"cornerRadius": 2, "size": 20}, x=x.of("zero"), x2="value", y=y,
             color=choice("kind", shown, legend=legend)),
        mark("text", rows, "label", text, x=end, y=y, text="words"),
    ]  # fmt: skip
    if limit is not None:
        layers += _limit(limit, x)
    table = [{key: row[key] for key in row if key != "words"} for row in rows]
    return figure(name, title, [""], caption, table, layered(layers, 40.0 * len(rows)))


def _limit(limit: tuple[float, str], x: Axis) -> list[dict[str, object]]:
    at, words = limit
    above = {"align": "right", "baseline": "bottom", "dy": -3}
    return [
        mark("rule", [{"value": at}], "wall", x=x),
        mark("text", [{"value": at, "words": words}], "label", above, x=x, y={"value": 0},
             text="words"),
    ]  # fmt: skip
