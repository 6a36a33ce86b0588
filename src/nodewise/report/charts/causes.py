"""Charts of where the time goes: stages of every rank, one step of them, the ledger of causes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.units import format_duration, format_percent, format_speedup
from nodewise.explain.attribute import Attribution, LedgerRow, Loss
from nodewise.report.charts.look import (
    CAUSE_COLORS,
    HEIGHT,
    PALETTE,
    STAGE_COLORS,
    Axis,
    Figure,
    Row,
    about,
    columns,
    data,
    figure,
    layered,
    linear,
    number,
    places,
    time_unit,
    tooltip,
)
from nodewise.study.study import STAGES, Run, Stage, Study

# The order in which a step goes through its stages; idle ends at the barrier, then data move.
_ORDER = tuple(STAGE_COLORS)
_STAGE_WORDS = {
    "io": "input/output",
    "compute": "compute",
    "serial": "serial",
    "idle": "idle, waiting",
    "communication": "communication",
    "overhead": "engine overhead",
    "not recorded": "not recorded",
}
_BARS_APART = 8
_MOST_BARS = 64  # thinner bars than these cannot be told apart
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
    """Shares of the wall time of every rank at every scale; nothing where no stage is recorded."""
    recorded = {nodes: _ranks(study.at(nodes)) for nodes in study.scales}
    if not all(recorded.values()):
        return None
    bars: list[Row] = []
    rows: list[Row] = []
    for at, (nodes, ranks) in enumerate(recorded.items()):
        wall = _wall(study, nodes)
        shown = _pick(ranks)
        width = 0.86 / len(shown)
        for position, one in enumerate(shown):
            left = at + 0.07 + position * width
            # wide bars stand apart; thin ones overlap, so that no background shines between them
            reach = 0.94 if len(shown) <= _BARS_APART else 1.0 if one is shown[-1] else 1.5
            edges = {"left": left, "right": left + width * reach}
            bars += [{**edges, "K": nodes, **segment} for segment in _segments(one, wall, wall)]
        rows += [_stage_row(nodes, one, wall) for one in ranks]
    y = linear("share", "share of the wall time, %", 0, 110, _percent_ticks())
    chart = columns(
        [(nodes, format_duration(_wall(study, nodes))) for nodes in recorded],
        y,
        109,
        [
            alt.Chart(data(bars))
            .mark_rect()
            .encode(
                x=places("left", len(recorded)),
                x2="right:Q",
                y=y.y("start"),
                y2="end:Q",
                color=_stage_color(bars),
                tooltip=tooltip("K", "rank", "stage", "time", "of the wall"),
            ),
            alt.Chart(data([{"share": 100}])).mark_rule(style="wall").encode(y=y.y()),
        ],
    )
    by_rank = any(len(ranks) > 1 for ranks in recorded.values())
    read = "a bar for each rank, from rank 0; the line at 100 % is the wall time written above it"
    if not by_rank:
        read = "stages of the whole run; the line at 100 % is the wall time written above it"
    return figure(
        "stages",
        "Where the time of every node goes" if by_rank else "Where the time goes",
        about(study.name, study.regime, read),
        _stages_caption(study, recorded),
        rows,
        chart,
    )


def timeline(study: Study, nodes: int | None = None) -> Figure | None:
    """A mean step of every rank up to the barrier; nothing where ranks recorded no stages.

    At the largest scale, unless `nodes` says another. Only sums are recorded, so the order of the
    stages inside the step is the usual one: read, compute, wait, exchange.
    """
    nodes = study.scales[-1] if nodes is None else _measured(nodes, study.scales)
    runs = study.at(nodes)
    ranks = _ranks(runs)
    if len(ranks) < 2:
        return None
    steps = _steps(runs)
    wall = _wall(study, nodes) / steps
    unit = time_unit(wall)
    shown = _pick([_Rank(one.rank, _per_step(one, steps)) for one in ranks])
    bars = [
        {"row": str(one.rank), "K": nodes, **segment}
        for one in shown
        for segment in _segments(one, wall, unit.seconds * 100)
    ]
    order = [str(one.rank) for one in shown]
    late = max(shown, key=lambda one: one.busy)
    step = "step" if steps > 1 else "run"
    longest = max(wall / unit.seconds, *(number(bar["end"]) for bar in bars))
    x = linear("share", f"time of a {step}, {unit.name}", 0, longest * 1.02)
    y = alt.Y("row:O", title="rank", sort=order, axis=alt.Axis(labelOverlap="greedy", grid=False))
    arrival = [{"share": late.busy / unit.seconds}]
    chart = layered(
        [
            alt.Chart(data(bars))
            .mark_bar()
            .encode(
                x=x.x("start"),
                x2="end:Q",
                y=y,
                color=_stage_color(bars),
                tooltip=tooltip("K", "rank", "stage", "time", "of the wall"),
            ),
            alt.Chart(data(arrival)).mark_rule(style="wall").encode(x=x.x()),
        ],
        max(0.5 * HEIGHT, min(18.0 * len(shown), 1.6 * HEIGHT)),
    )
    return figure(
        "timeline",
        f"A mean {step} of every rank at K={nodes}",
        about(
            study.name,
            study.regime,
            f"line: when the last rank is ready (rank {late.rank}); order within a {step} assumed",
        ),
        _timeline_caption(shown, late, wall, step, nodes) + _few_drawn(len(ranks)),
        [_stage_row(nodes, _Rank(one.rank, _per_step(one, steps)), wall) for one in ranks],
        chart,
    )


def ledger(attribution: Attribution, nodes: int | None = None) -> Figure | None:
    """From the ideal folds down to the measured ones, a bar for each cause; where the curve bends.

    Nothing at the smallest scale, where nothing can be lost.
    """
    scales = [one.nodes for one in attribution.rows]
    row = attribution.row(attribution.nodes if nodes is None else _measured(nodes, scales))
    if row.ideal <= 1:
        return None
    bars = _waterfall(row)
    order = [str(bar["bar"]) for bar in bars]
    ends = [number(bar[end]) for bar in bars for end in ("from", "to", "label at")]
    reach = max(ends)
    folds = "folds of speedup" if attribution.regime == "strong" else "folds of scaled speedup"
    # The words behind a bar need room: those of the measured one are the longest.
    x = linear("from", folds, min(0.0, *ends), max(reach * 1.16, row.speedup * 1.5))
    y = alt.Y(
        "bar:N",
        title=None,
        sort=order,
        axis=alt.Axis(grid=False, domain=False, ticks=False, labelPadding=6),
    )
    totals = [bar for bar in bars if bar["kind"] in _TOTALS]
    losses = [bar for bar in bars if bar["kind"] not in _TOTALS]
    bounded = [bar for bar in losses if bar["low"] is not None]
    channels = {
        "x": x.x("from"),
        "x2": alt.X2("to:Q"),
        "y": y,
        "fill": _kind_color("paper"),
        "stroke": _kind_color("muted"),
        "tooltip": tooltip("bar", "folds", "between", "time", "share of the time"),
    }
    # causes that a law and not a record names are pale
    pale = 0.35 if _is_law(attribution) else 1.0
    chart = layered(
        [
            alt.Chart(data(totals)).mark_bar(strokeWidth=1).encode(**channels),
            alt.Chart(data(losses)).mark_bar(strokeWidth=1, fillOpacity=pale).encode(**channels),
            *_ledger_bounds(bounded, x, y),
            alt.Chart(data(bars))
            .mark_text(style="label", align="left", baseline="middle", dx=5)
            .encode(x=x.x("label at"), y=y, text="folds:N"),
        ],
        24.0 * len(bars) + 20,
    )
    title = f"From the ideal to the measured speedup at K={row.nodes}"
    if row.dominant_cause is not None:
        lost = format_speedup(row.lost_folds)
        title = f"What {lost} of {row.ideal:g} folds are lost to at K={row.nodes}"
    return figure(
        "ledger",
        title,
        about(attribution.name, attribution.regime, _evidence_line(attribution, bool(bounded))),
        _ledger_caption(attribution, row),
        [
            {
                "K": row.nodes,
                "cause": loss.cause,
                "folds": loss.folds,
                "low": loss.folds_low,
                "high": loss.folds_high,
                "seconds": loss.seconds,
                "share of the time": loss.share,
                "speedup without it": loss.speedup_without,
            }
            for loss in row.causes
        ],
        chart,
    )


def _measured(nodes: int, scales: Sequence[int]) -> int:
    if nodes not in scales:
        raise DataError(
            f"K={nodes} was not measured.", f"Name one of {', '.join(map(str, scales))}."
        )
    return nodes


def _ranks(runs: Sequence[Run]) -> list[_Rank]:
    """Mean seconds of each rank over the rounds; of runs without ranks, one for the whole run."""
    if all(run.ranks and all(rank.stages for rank in run.ranks) for run in runs):
        by_rank = {rank.rank for run in runs for rank in run.ranks}
        return [
            _Rank(number, _mean([r.stages for run in runs for r in run.ranks if r.rank == number]))
            for number in sorted(by_rank)
        ]
    if all(run.stages for run in runs):
        return [_Rank(None, _mean([run.stages for run in runs]))]
    return []


def _mean(recorded: Sequence[Mapping[Stage, float]]) -> dict[str, float]:
    return {
        stage: float(np.mean([one.get(stage, 0.0) for one in recorded]))
        for stage in STAGES
        if any(stage in one for one in recorded)
    }


def _wall(study: Study, nodes: int) -> float:
    return float(np.mean([run.seconds for run in study.at(nodes)]))


def _steps(runs: Sequence[Run]) -> int:
    """Steps of a run, where all say the same; else a run is one step."""
    counts = {run.steps for run in runs}
    return counts.pop() or 1 if len(counts) == 1 else 1


def _per_step(one: _Rank, steps: int) -> dict[str, float]:
    return {stage: seconds / steps for stage, seconds in one.stages.items()}


def _pick(ranks: Sequence[_Rank]) -> list[_Rank]:
    """All ranks, or so many as can be drawn: evenly by how busy they are, with both extremes."""
    if len(ranks) <= _MOST_BARS:
        return list(ranks)
    by_busy = sorted(ranks, key=lambda one: one.busy)
    at = np.linspace(0, len(ranks) - 1, _MOST_BARS).round().astype(int)
    return sorted((by_busy[where] for where in at), key=lambda one: one.rank or 0)


def _segments(one: _Rank, wall: float, whole: float) -> list[Row]:
    """The stages of a rank after another, in percent of `whole`; then what nobody recorded."""
    recorded = dict(one.stages)
    missing = wall - sum(recorded.values())
    if missing > _CLOCK_ERROR * wall:
        recorded["not recorded"] = missing
    start = 0.0
    segments: list[Row] = []
    for stage in _ORDER:
        seconds = recorded.get(stage, 0.0)
        if seconds <= _INVISIBLE * wall:
            continue
        end = start + 100 * seconds / whole
        segments.append(
            {
                "rank": "all" if one.rank is None else str(one.rank),
                "stage": _STAGE_WORDS[stage],
                "start": start,
                "end": end,
                "time": format_duration(seconds),
                "of the wall": format_percent(seconds / wall),
            }
        )
        start = end
    return segments


def _stage_row(nodes: int, one: _Rank, wall: float) -> Row:
    named: Row = {stage: one.stages.get(stage) for stage in _ORDER if stage != "not recorded"}
    return {"K": nodes, "rank": one.rank, "wall": wall, **named}


def _stage_color(bars: Sequence[Row]) -> alt.Color:
    used = {bar["stage"] for bar in bars}
    kept = [stage for stage in _ORDER if _STAGE_WORDS[stage] in used]
    return alt.Color(
        "stage:N",
        scale=alt.Scale(
            domain=[_STAGE_WORDS[stage] for stage in kept],
            range=[STAGE_COLORS[stage] for stage in kept],
        ),
        legend=alt.Legend(symbolType="square", columns=3),
    )


def _percent_ticks() -> alt.Axis:
    return alt.Axis(values=[0, 20, 40, 60, 80, 100], format="d")


def _stages_caption(study: Study, recorded: Mapping[int, Sequence[_Rank]]) -> str:
    parts = []
    for nodes in (study.scales[0], study.scales[-1]):
        ranks, wall = recorded[nodes], _wall(study, nodes)
        share = float(np.mean([one.stages.get("compute", 0.0) for one in ranks])) / wall
        parts.append(f"{format_percent(share)} of {format_duration(wall)} at K={nodes}")
    ranks, wall = recorded[study.scales[-1]], _wall(study, study.scales[-1])
    rest = {
        stage: float(np.mean([one.stages.get(stage, 0.0) for one in ranks])) / wall
        for stage in ("communication", "idle", "io", "serial", "overhead")
    }
    most = max(rest, key=lambda stage: rest[stage])
    text = f"Compute takes {parts[0]} and {parts[1]}"
    if rest[most] > 0:
        text += f"; there {_STAGE_WORDS[most]} takes {format_percent(rest[most])}"
    return f"{text}.{_few_drawn(len(ranks))}"


def _few_drawn(ranks: int) -> str:
    return f" {_MOST_BARS} of the {ranks} ranks are drawn." if ranks > _MOST_BARS else ""


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
        "folds": f"{_MINUS if folds >= 0 else '+'}{format_speedup(abs(folds))}",
        "between": "",
        "time": "",
        "share of the time": "",
    }


def _total_bar(kind: str, words: str, folds: float, time: str) -> Row:
    plain = _plain_bar(words, kind, folds, folds)
    text = format_speedup(folds) + (f" ({time})" if time else "")
    return {**plain, "folds": text, "time": time}


def _loss_bar(loss: Loss, level: float, words: str) -> Row:
    bar = _plain_bar(words, loss.cause, level, loss.folds)
    bar |= {"time": format_duration(loss.seconds), "share of the time": format_percent(loss.share)}
    if loss.folds_low is None or loss.folds_high is None:
        return bar
    low, high = level - loss.folds_high, level - loss.folds_low
    return {
        **bar,
        "low": low,
        "high": high,
        "label at": max(number(bar["label at"]), high),
        "between": f"{format_speedup(loss.folds_low)} to {format_speedup(loss.folds_high)}",
    }


def _ledger_bounds(bars: Sequence[Row], x: Axis, y: alt.Y) -> list[alt.Chart]:
    """Where the end of each bar may lie."""
    if not bars:
        return []
    base = alt.Chart(data(bars)).encode(y=y)
    cap = base.mark_tick(style="cap", orient="vertical", color=PALETTE["ink"])
    return [
        base.mark_rule(style="wall").encode(x=x.x("low"), x2="high:Q"),
        cap.encode(x=x.x("low")),
        cap.encode(x=x.x("high")),
    ]


def _evidence_line(attribution: Attribution, bounded: bool) -> str:
    text = f"evidence: {attribution.evidence}"
    if _is_law(attribution):
        text += ", so the causes are pale"
    return f"{text}; whiskers: from resampled rounds" if bounded else text


def _is_law(attribution: Attribution) -> bool:
    return attribution.evidence in ("fitted law", "two bare times")


def _kind_color(ideal: str) -> alt.Color:
    """The colour of every cause; the measured speedup is solid, the ideal one hollow."""
    colors: dict[str, str] = {
        "ideal": PALETTE[ideal],
        "measured": PALETTE["measured"],
        "smaller causes": PALETTE["muted"],
        **{str(cause): color for cause, color in CAUSE_COLORS.items()},
    }
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color("kind:N", scale=scale, legend=None)


def _ledger_caption(attribution: Attribution, row: LedgerRow) -> str:
    if row.dominant_cause is None:
        return (
            f"At K={row.nodes} nothing to speak of is lost: {format_speedup(row.speedup)} of "
            f"{row.ideal:g} folds, {format_duration(row.seconds)}."
        )
    top = row.causes[0]
    text = (
        f"At K={row.nodes} the job reaches {format_speedup(row.speedup)} of {row.ideal:g} folds "
        f"({format_duration(row.seconds)}); most is lost to {row.named(top.cause)}: "
        f"{format_speedup(top.folds)} folds, {format_duration(top.seconds)}"
    )
    if attribution.confidence is not None and row.nodes == attribution.nodes:
        text += f" ({format_percent(attribution.confidence)} of resamples agree)"
    if top.speedup_without is not None:
        text += f". Without it the speedup would be {format_speedup(top.speedup_without)}"
    return f"{text}."
