"""Charts of where the time goes: stages of every rank, one step of them, the ledger of causes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from nodewise.base.units import capitalised, format_duration, format_percent, format_speedup
from nodewise.explain.attribute import Attribution, LedgerRow, Loss
from nodewise.report.charts.look import (
    HEIGHT,
    PALETTE,
    Definition,
    Figure,
    Row,
    about,
    choice,
    columns,
    figure,
    intervals,
    layered,
    linear,
    mark,
    names_axis,
    places,
    time_unit,
    values_of,
)
from nodewise.report.charts.parts import heat_cells
from nodewise.report.text.findings import attribution_headline, gain_words
from nodewise.study.study import STAGES, Run, Stage, Study

# Words and colour of each stage, in the order in which a step goes through them; idle ends at the
# barrier, then data move.
_STAGES: dict[Stage | Literal["not recorded"], tuple[str, str]] = {
    "io": ("input/output", "io"),
    "compute": ("compute", "compute"),
    "serial": ("serial", "serial"),
    "idle": ("idle, waiting", "idle"),
    "communication": ("communication", "communication"),
    "overhead": ("engine overhead", "overhead"),
    "not recorded": ("not recorded", "unrecorded"),
}
_CAUSE_COLORS: dict[str, str] = {
    "serial fraction": "serial",
    "communication": "communication",
    "load imbalance": "imbalance",
    "slow node": "slow node",
    "jitter": "jitter",
    "late rank": "imbalance",
    "input/output": "io",
    "compute inflation": "compute",
    "foreign load": "foreign",
    "oversubscription": "foreign",
    "engine overhead": "overhead",
    "emulation": "emulation",
    "idle": "idle",
    "unexplained": "unexplained",
}
_BARS_APART = 8
_MOST_BARS = 16  # of one scale: thinner bars than these cannot be distinguished
_MOST_ROWS = 16  # of a timeline or a map of ranks
_MOST_ROUNDS = 32  # of a map of ranks
_CLOCK_ERROR = 0.005  # of the wall time: what is missing is then a matter of clocks
_INVISIBLE = 0.002  # of the wall time: less than a pixel
_MINUS = "\N{MINUS SIGN}"
_TOTALS = ("ideal", "measured")
_SMALL_CAUSE = 0.01  # of the ideal speedup: below it causes share one bar


class _Rank(NamedTuple):
    """One rank's mean seconds in each stage, in the order of a step; or those of the whole run."""

    rank: int | None
    stages: dict[str, float]

    @property
    def busy(self) -> float:
        """Seconds until it is ready to meet the others."""
        return sum(self.stages.get(stage, 0.0) for stage in ("io", "compute", "serial", "overhead"))


def stages(study: Study) -> Figure | None:
    """Shares of the wall time of every rank at every scale; nothing if no stage is recorded."""
    recorded = {nodes: _ranks(study.at(nodes)) for nodes in study.scales}
    if not all(recorded.values()):
        return None
    bars: list[Row] = []
    rows: list[Row] = []
    for at, (nodes, ranks) in enumerate(recorded.items()):
        wall = _wall(study, nodes)
        shown = _pick(ranks, _MOST_BARS)
        width = 0.86 / len(shown)
        for position, one in enumerate(shown):
            left = at + 0.07 + position * width
            # wide bars are apart; thin ones overlap, so that no background shines between them
            reach = 0.94 if len(shown) <= _BARS_APART else 1.0 if one is shown[-1] else 1.5
            edges = {"left": left, "right": left + width * reach}
            bars += [{**edges, "K": nodes, **segment} for segment in _segments(one, wall, wall)]
        rows += [_stage_row(nodes, one, wall) for one in shown]
    ticks = {"values": [0, 20, 40, 60, 80, 100], "format": "d"}
    y = linear("share", "share of the wall time, %", 0, 110, ticks)
    x = places("left", len(recorded))
    layers = [
        _stage_bars("rect", bars, 6, x=x, x2="right", y=y.of("start"), y2="end"),
        mark("rule", [{"share": 100}], "wall", y=y),
    ]
    by_rank = any(len(ranks) > 1 for ranks in recorded.values())
    what = "a bar for each rank, from rank 0" if by_rank else "stages of the whole run"
    read = f"{what}; the line at 100 % is the wall time written above it"
    return figure(
        "stages",
        "Where the time of every node goes" if by_rank else "Where the time goes",
        about(study.name, study.regime, read),
        _stages_caption(study, recorded),
        rows,
        columns(
            [(nodes, format_duration(_wall(study, nodes))) for nodes in recorded], y, 109, layers
        ),
    )


def timeline(study: Study) -> Figure | None:
    """A mean step of every rank up to the barrier; nothing if ranks recorded no stages.

    At the largest scale. Only sums are recorded, so the order of the stages inside the step is the
    usual one: read, compute, wait, exchange.
    """
    nodes = study.scales[-1]
    runs = study.at(nodes)
    steps = _steps(runs)
    ranks = [_Rank(one.rank, _per_step(one, steps)) for one in _ranks(runs)]
    if len(ranks) < 2:
        return None
    wall = _wall(study, nodes) / steps
    unit = time_unit(wall)
    shown = _pick(ranks, _MOST_ROWS)
    bars = [
        {"row": str(one.rank), "K": nodes, **segment}
        for one in shown
        for segment in _segments(one, wall, unit.seconds * 100)
    ]
    late = max(ranks, key=lambda one: one.busy)
    step = "step" if steps > 1 else "run"
    longest, ready = max(wall / unit.seconds, *values_of(bars, "end")), late.busy / unit.seconds
    x = linear("share", f"time of a {step}, {unit.name}", 0, longest * 1.02)
    y = {
        "field": "row",
        "type": "ordinal",
        "title": "rank",
        "sort": [str(one.rank) for one in shown],
        "axis": {"labelOverlap": "greedy", "grid": False},
    }
    layers = [
        _stage_bars("bar", bars, 20, x=x.of("start"), x2="end", y=y),
        mark("rule", [{"share": ready}], "wall", x=x),
        mark("text", [{"share": ready, "text": f"rank {late.rank} is ready"}], "label",
             {"align": "right" if ready > longest / 2 else "left", "baseline": "bottom", "dy": -3},
             x=x, y={"value": 0}, text="text"),
    ]  # fmt: skip
    read = f"line: when the last rank is ready; order within a {step} assumed"
    return figure(
        "timeline",
        f"A mean {step} of every rank at K={nodes}",
        about(study.name, study.regime, read),
        _timeline_caption(ranks, late, wall, step, nodes) + _few_drawn(len(ranks), _MOST_ROWS),
        [_stage_row(nodes, one, wall) for one in shown],
        layered(layers, max(0.5 * HEIGHT, min(18.0 * len(shown), 1.6 * HEIGHT))),
    )


def rank_map(study: Study) -> Figure | None:
    """Rank by round at the largest scale: how much busier than the median a rank was.

    Runs that were read from traces are steps, so a column is then a step. Nothing if fewer than
    two ranks or two runs recorded their stages.
    """
    nodes = study.scales[-1]
    runs = study.at(nodes)
    ranks = _ranks(runs)
    if len(ranks) < 2 or len(runs) < 2:
        return None
    shown = {one.rank for one in _pick(ranks, _MOST_ROWS)}
    column = "step" if all(run.steps == 1 for run in runs) else "round"
    cells: list[Row] = []
    for at, run in enumerate(runs[:_MOST_ROUNDS]):
        own = [_Rank(rank.rank, dict(rank.stages.items())) for rank in run.ranks]
        usual = float(np.median([one.busy for one in own]))
        cells += [
            {
                "rank": one.rank,
                column: at + 1,
                "value": 100 * (one.busy / usual - 1) if usual else 0.0,
                "busy": format_duration(one.busy),
            }
            for one in own
            if one.rank in shown
        ]
    worst = max(cells, key=lambda cell: cell["value"])
    layer = heat_cells(
        cells, (column, column), ("rank", "rank"), "% busier than the median rank",
        max(worst["value"], 5.0), ("rank", column, "busy"),
    )  # fmt: skip
    most = f"the first {_MOST_ROUNDS} of {len(runs)} {column}s" if len(runs) > _MOST_ROUNDS else ""
    return figure(
        "ranks",
        f"How busy each rank was in each {column}, at K={nodes}",
        about(
            study.name, study.regime, "; ".join(filter(None, ["empty: the median or less", most]))
        ),
        f"Rank {worst['rank']} is {worst['value']:.0f} % busier than the median in {column} "
        f"{worst[column]}, the largest excess.",
        [{key: cell[key] for key in ("rank", column, "value")} for cell in cells],
        layered([layer], max(0.5 * HEIGHT, min(18.0 * len(shown), 1.1 * HEIGHT))),
    )


def ledger(attribution: Attribution) -> Figure | None:
    """From the ideal to the measured speedup at the largest scale, a bar for each cause.

    Nothing if there is one scale only.
    """
    row = attribution.rows[-1]
    if row.ideal <= 1:
        return None
    bars = _waterfall(row)
    ends = values_of(bars, "from", "to", "label at")
    axis = "speedup" if attribution.regime == "strong" else "scaled speedup"
    # The words behind a bar need room: those of the measured one are the longest.
    x = linear("from", axis, min(0.0, *ends), max(max(ends) * 1.16, row.speedup * 1.5))
    y = names_axis("bar", [bar["bar"] for bar in bars])
    totals = [bar for bar in bars if bar["kind"] in _TOTALS]
    losses = [bar for bar in bars if bar["kind"] not in _TOTALS]
    # causes that a law and not a record names are pale
    is_law = attribution.evidence in ("fitted law", "two bare times")
    text = {"align": "left", "baseline": "middle", "dx": 5}
    layers = [
        *(
            mark(
                "bar",
                some,
                look={"strokeWidth": 1, **look},
                x=x,
                x2="to",
                y=y,
                fill=_kind_color("paper"),
                stroke=_kind_color("muted"),
                tips=("bar", "speedup", "interval", "time", "share of the time"),
            )
            for some, look in ((totals, {}), (losses, {"fillOpacity": 0.35 if is_law else 1.0}))
        ),
        *intervals(losses, x, y, "ink"),
        mark("text", bars, "label", text, x=x.of("label at"), y=y, text="speedup"),
    ]
    title = f"From ideal to measured speedup at K={row.nodes}"
    if row.loses:
        title = f"{format_speedup(row.lost_folds)}x of {row.ideal:g}x lost at K={row.nodes}"
    caption = capitalised(attribution_headline(attribution, row).replace("**", ""))
    if row.dominant_cause is not None:
        without = format_speedup(row.causes[0].speedup_without)
        caption += f" Without it the speedup would be {without}."
    caption = f"{caption} {gain_words(row)}".rstrip()
    read = f"evidence: {attribution.evidence}{', so the causes are pale' if is_law else ''}"
    if any(bar["low"] is not None for bar in losses):
        read += f"; whiskers: {'all laws that fit' if is_law else 'from resampled rounds'}"
    return figure(
        "ledger",
        title,
        about(attribution.name, attribution.regime, read),
        caption,
        [
            {
                "K": row.nodes,
                "cause": loss.cause,
                "speedup lost": loss.folds,
                "low": loss.folds_low,
                "high": loss.folds_high,
                "seconds": loss.seconds,
                "share of the time": loss.share,
                "speedup without it": loss.speedup_without,
                "hidden seconds": loss.hidden_seconds,
            }
            for loss in row.causes
        ],
        layered(layers, max(24.0 * len(bars) + 20, 0.8 * HEIGHT)),
    )


def _ranks(runs: Sequence[Run]) -> list[_Rank]:
    """Mean seconds of each rank over the rounds; of runs without ranks, one for the whole run."""
    if all(run.ranks and all(rank.stages for rank in run.ranks) for run in runs):
        by_rank: dict[int, list[Mapping[Stage, float]]] = {}
        for run in runs:
            for rank in run.ranks:
                by_rank.setdefault(rank.rank, []).append(rank.stages)
        return [_Rank(number, _mean(recorded)) for number, recorded in sorted(by_rank.items())]
    if all(run.stages for run in runs):
        return [_Rank(None, _mean([run.stages for run in runs]))]
    return []


def _mean(recorded: Sequence[Mapping[Stage, float]]) -> dict[str, float]:
    """The mean of each stage that is recorded; numpy is slower for so few numbers."""
    sums: dict[Stage, float] = {}
    for one in recorded:
        for stage, seconds in one.items():
            sums[stage] = sums.get(stage, 0.0) + seconds
    return {stage: sums[stage] / len(recorded) for stage in STAGES if stage in sums}


def _wall(study: Study, nodes: int) -> float:
    return float(np.mean([run.seconds for run in study.at(nodes)]))


def _steps(runs: Sequence[Run]) -> int:
    """Steps of a run, where all say the same; else a run is one step."""
    counts = {run.steps for run in runs}
    return counts.pop() or 1 if len(counts) == 1 else 1


def _per_step(one: _Rank, steps: int) -> dict[str, float]:
    return {stage: seconds / steps for stage, seconds in one.stages.items()}


def _pick(ranks: Sequence[_Rank], most: int) -> list[_Rank]:
    """All ranks, or so many as can be drawn: evenly by how busy they are, with both extremes."""
    if len(ranks) <= most:
        return list(ranks)
    by_busy = sorted(ranks, key=lambda one: one.busy)
    at = np.linspace(0, len(ranks) - 1, most).round().astype(int)
    return sorted((by_busy[where] for where in at), key=lambda one: one.rank or 0)


def _segments(one: _Rank, wall: float, whole: float) -> list[Row]:
    """The stages of a rank after another, in percent of `whole`; then what was not recorded."""
    recorded = dict(one.stages)
    missing = wall - sum(recorded.values())
    if missing > _CLOCK_ERROR * wall:
        recorded["not recorded"] = missing
    start = 0.0
    segments: list[Row] = []
    for stage, (words, _) in _STAGES.items():
        seconds = recorded.get(stage, 0.0)
        if seconds <= _INVISIBLE * wall:
            continue
        end = start + 100 * seconds / whole
        segments.append(
            {
                "rank": "all" if one.rank is None else str(one.rank),
                "stage": words,
                "start": start,
                "end": end,
                "time": format_duration(seconds),
                "of the wall": format_percent(seconds / wall),
            }
        )
        start = end
    return segments


def _stage_row(nodes: int, one: _Rank, wall: float) -> Row:
    named: Row = {stage: one.stages.get(stage) for stage in _STAGES if stage != "not recorded"}
    return {"K": nodes, "rank": one.rank, "wall": wall, **named}


def _stage_bars(kind: str, bars: Sequence[Row], offset: float, **channels: Any) -> Definition:
    used = {bar["stage"] for bar in bars}
    colors = {words: PALETTE[color] for words, color in _STAGES.values() if words in used}
    legend = {"symbolType": "square", "columns": 3, "offset": offset, "columnPadding": 22}
    color = choice("stage", colors, legend=legend)
    tips = ("K", "rank", "stage", "time", "of the wall")
    return mark(kind, bars, tips=tips, color=color, **channels)


def _stages_caption(study: Study, recorded: Mapping[int, Sequence[_Rank]]) -> str:
    def share(stage: Stage, nodes: int) -> float:
        mean = np.mean([one.stages.get(stage, 0.0) for one in recorded[nodes]])
        return float(mean) / _wall(study, nodes)

    first, last = (
        f"{format_percent(share('compute', nodes))} of {format_duration(_wall(study, nodes))} "
        f"at K={nodes}"
        for nodes in (study.scales[0], study.scales[-1])
    )
    others: tuple[Stage, ...] = ("communication", "idle", "io", "serial", "overhead")
    rest = {stage: share(stage, study.scales[-1]) for stage in others}
    most = max(others, key=lambda stage: rest[stage])
    text = f"Compute takes {first} and {last}"
    if rest[most] > 0:
        words = "waiting" if most == "idle" else _STAGES[most][0]
        text += f", and {words} {format_percent(rest[most])} there"
    return f"{text}.{_few_drawn(len(recorded[study.scales[-1]]), _MOST_BARS)}"


def _few_drawn(ranks: int, most: int) -> str:
    if ranks <= most:
        return ""
    return f" {most} of the {ranks} ranks are drawn, evenly from the least to the most busy."


def _timeline_caption(
    ranks: Sequence[_Rank], late: _Rank, wall: float, step: str, nodes: int
) -> str:
    typical = float(np.median([one.busy for one in ranks]))
    idle = float(np.mean([one.stages.get("idle", 0.0) for one in ranks]))
    text = (
        f"At K={nodes} a {step} takes {format_duration(wall)}; rank {late.rank} is ready last, "
        f"after {format_duration(late.busy)}, the median rank after {format_duration(typical)}"
    )
    if idle > 0:
        text += f". Ranks wait {format_percent(idle / wall)} of the {step} on average"
    return f"{text}."


def _waterfall(row: LedgerRow) -> list[Row]:
    """The ideal, each cause below the one before, and what is left: the measured speedup."""
    large = [loss for loss in row.causes if abs(loss.folds) >= _SMALL_CAUSE * row.ideal]
    small = [loss for loss in row.causes if abs(loss.folds) < _SMALL_CAUSE * row.ideal]
    if len(small) == 1:
        large, small = list(row.causes), []
    level = row.ideal
    bars = [_total_bar("ideal", f"ideal, K={row.nodes}", level, "")]
    for loss in large:
        bars.append(_loss_bar(loss, level, row.named(loss.cause)))
        level -= loss.folds
    if small:
        rest = sum(loss.folds for loss in small)
        bars.append(_plain_bar("smaller causes", "smaller causes", level, rest))
    return [*bars, _total_bar("measured", "measured", row.speedup, format_duration(row.seconds))]


def _plain_bar(words: str, kind: str, level: float, folds: float) -> Row:
    return {
        "bar": words,
        "kind": kind,
        "from": level,
        "to": level - folds,
        "low": None,
        "high": None,
        "label at": max(level, level - folds),
        "speedup": f"{_MINUS if folds >= 0 else '+'}{format_speedup(abs(folds))}",
        "interval": "",
        "time": "",
        "share of the time": "",
    }


def _total_bar(kind: str, words: str, folds: float, time: str) -> Row:
    plain = _plain_bar(words, kind, folds, folds)
    text = format_speedup(folds) + (f" ({time})" if time else "")
    return {**plain, "speedup": text, "time": time}


def _loss_bar(loss: Loss, level: float, words: str) -> Row:
    bar = _plain_bar(words, loss.cause, level, loss.folds)
    bar |= {"time": format_duration(loss.seconds), "share of the time": format_percent(loss.share)}
    if loss.folds_low is None or loss.folds_high is None:
        return bar
    low, high = max(level - loss.folds_high, 0.0), level - loss.folds_low
    return {
        **bar,
        "low": low,
        "high": high,
        "label at": max(bar["label at"], high),
        "interval": f"{format_speedup(loss.folds_low)} to {format_speedup(loss.folds_high)}",
    }


def _kind_color(ideal: str) -> Definition:
    """The colour of every cause; the measured speedup is solid, the ideal one hollow."""
    totals = {"ideal": ideal, "measured": "measured", "smaller causes": "muted"}
    colors = {kind: PALETTE[color] for kind, color in (totals | _CAUSE_COLORS).items()}
    return choice("kind", colors, legend=None)
