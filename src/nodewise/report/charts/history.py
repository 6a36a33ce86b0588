"""A history in charts: each metric over time, every K against its usual time, the ledger."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal

from nodewise.base.units import format_percent
from nodewise.history.entry import short
from nodewise.history.regressions import Regression
from nodewise.history.trend import LedgerChange, TrendPoint, Trends
from nodewise.report.charts.look import (
    HEIGHT,
    PALETTE,
    Axis,
    Definition,
    Figure,
    Row,
    choice,
    figure,
    folds,
    label,
    layered,
    linear,
    mark,
    names_axis,
    shortened,
    values_of,
)
from nodewise.report.text.history import cause_words, size_words

_MOST_SCALES = 6  # lines of one chart, the largest K first
# From few nodes to many; shapes separate them as well.
_LINES = (
    ("measured", "circle"), ("second", "square"), ("third", "diamond"), ("chosen", "triangle-up"),
    ("overhead", "triangle-down"), ("foreign", "cross"),
)  # fmt: skip
_MOST_ROWS = 24  # of the heat map, those with most studies
_ALMOST_USUAL = 0.02  # what a heat map shows as no change
_STEPS = (  # changes below each of these, in words, and their colour
    (-0.10, "10 % faster", "measured"),
    (-0.02, "faster", "slow node"),
    (0.02, "as usual", "grid"),
    (0.10, "slower", "imbalance"),
    (float("inf"), "10 % slower", "refused"),
)


def trend_chart(
    name: str, title: str, unit: str, points: Sequence[TrendPoint], trends: Trends
) -> Figure | None:
    """One metric of one workload over the campaigns, a line for each K, with slowdowns marked."""
    workloads = {point.workload for point in points}
    every = Counter(point.nodes for point in trends.seconds if point.workload in workloads)
    often = sorted(every, key=lambda nodes: (-every[nodes], -nodes))[:_MOST_SCALES]
    scales = sorted(often)  # of all charts, so that a K has one colour in them
    rows: list[Row] = [
        {
            "campaign": point.at,
            "commit": point.label,
            "date": point.date[:10],
            "K": point.nodes,
            "scale": f"K={point.nodes}",
            "value": point.value,
            "low": point.low,
            "high": point.high,
        }
        for point in points
        if point.nodes in scales
    ]
    if len({row["campaign"] for row in rows}) < 2:
        return None
    x = _campaigns(trends)
    low, high = _reach(values_of(rows, "value"))
    room = 0.12 * (high - low) or 0.1 * high
    least = low / 1.15 if unit == "speedup" else low - room
    for row in rows:  # an interval of few rounds may be longer than the chart is high
        for end in ("value", "low", "high"):
            if row[end] is not None:
                row[f"shown {end}"] = min(max(row[end], least), high + room)
    if unit == "speedup":
        y = folds("shown value", unit, low / 1.15, high * 1.5)
    else:
        y = linear("shown value", unit, low - room, high + 2.5 * room)
    known = {row["K"] for row in rows}
    looks = {
        f"K={nodes}": look for nodes, look in zip(scales, _LINES, strict=False) if nodes in known
    }
    layers: list[Definition] = []
    for scale, (color, _) in looks.items():
        own = [row for row in rows if row["scale"] == scale]
        tint = {"color": PALETTE[color]}
        layers += [mark("line", own, "join", tint, x=x, y=y)]
        layers += [mark("rule", [row for row in own if row["low"] is not None], "interval", tint,
                        x=x, y=y.of("shown low"), y2="shown high")]  # fmt: skip
    colors = {scale: PALETTE[color] for scale, (color, _) in looks.items()}
    shapes = {scale: shape for scale, (_, shape) in looks.items()}
    layers.append(
        mark(
            "point",
            rows,
            "measured",
            {"size": 26},
            x=x,
            y=y,
            color=choice("scale", colors, legend={"columns": 3 if len(colors) > 4 else 4}),
            shape=choice("scale", shapes),
            tips=("commit", "date", "scale"),
        )
    )
    return figure(
        name,
        title,
        ["", "bars: 95 % intervals, from three rounds on; dashed: first slow commit"],
        _caption(rows),
        rows,
        layered([*_changes(trends, x, y, y.scale["domain"][1]), *layers]),
    )


def _reach(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the largest value, without what lies far out."""
    ordered = sorted(values)
    cut = len(ordered) // 50
    return ordered[cut], ordered[-1 - cut]


def _campaigns(trends: Trends) -> Axis:
    """The axis of campaigns: their order, with the dates of some."""
    count = len(trends.dates)
    step = -(-count // 4)
    places = [*range(0, count, step)]
    names = ", ".join(f"'{trends.dates[at][:10]}'" for at in places)
    shown = f"[{names}][indexof([{', '.join(map(str, places))}], datum.value)]"
    ticks = {"values": places, "labelExpr": shown, "grid": False, "labelOverlap": "greedy"}
    return linear("campaign", "", -0.5, count - 0.5, ticks)


def _changes(trends: Trends, x: Axis, y: Axis, top: float) -> list[Definition]:
    """A line at each slowdown, with its commit; beside each other none is named twice."""
    layers: list[Definition] = []
    count = len(trends.dates)
    named: list[int] = []
    for one in trends.changes:
        if one.since not in trends.dates:
            continue
        at = trends.dates.index(one.since)
        layers.append(mark("rule", [{"campaign": at - 0.5}], "bend", x=x))
        if all(abs(at - other) > count / 5 for other in named):
            named.append(at)
            align: Literal["left", "right"] = "right" if at > count / 2 else "left"
            layers.append(label(short(one.bad)[:10], x, y, (at - 0.5, top), style="warning",
                                align=align, side="below", away=3))  # fmt: skip
    return layers


def _caption(rows: Sequence[Row]) -> str:
    """The newest study at the largest K that it shares with an earlier one."""
    last = rows[-1]["campaign"]
    before = {row["K"] for row in rows if row["campaign"] < last}
    common = [row["K"] for row in rows if row["campaign"] == last and row["K"] in before]
    if not common:
        return "The newest study shares no K with earlier ones."
    nodes = max(common)
    own = [row["value"] for row in rows if row["K"] == nodes]
    usual = median(own[:-1])
    changed = format_percent(abs(own[-1] / usual - 1)) if usual else "unknown"
    way = "above" if own[-1] >= usual else "below"
    return f"At K={nodes} the newest study is {changed} {way} the median of those before it."


def heat_map(points: Sequence[TrendPoint], trends: Trends) -> Figure | None:
    """Every K of every workload over the campaigns, against the median of its row."""
    series: dict[tuple[str, int], list[TrendPoint]] = {}
    for point in points:
        series.setdefault((point.workload, point.nodes), []).append(point)
    often = sorted(series, key=lambda key: (-len(series[key]), key))[:_MOST_ROWS]
    left_out = len(series) - len(often)
    series = {key: series[key] for key in often}
    if not series or len(trends.dates) < 2:
        return None
    several = len({workload for workload, _ in series}) > 1
    rows: list[Row] = []
    names = []
    for (workload, nodes), some in sorted(series.items()):
        name = f"{shortened(workload, 18)} K={nodes}" if several else f"K={nodes}"
        names.append(name)
        usual = median(point.value for point in some)
        for point in some:
            change = point.value / usual - 1
            rows.append(
                {
                    "series": name,
                    "campaign": point.at,
                    "start": point.at - 0.5,
                    "end": point.at + 0.5,
                    "commit": point.label,
                    "date": point.date[:10],
                    "change": change,
                    "state": next(word for most, word, _ in _STEPS if change < most),
                }
            )
    x = _campaigns(trends)
    cells = mark(
        "rect", rows, "", {"stroke": PALETTE["paper"], "strokeWidth": 0.5},
        x=x.of("start"), x2="end", y=names_axis("series", names),
        color=choice("state", {word: PALETTE[color] for _, word, color in _STEPS},
                     legend={"columns": 3, "symbolType": "square"}),
        tips=("series", "commit", "date", "state"),
    )  # fmt: skip
    slow = [row for row in rows if row["change"] >= _STEPS[3][0]]
    worst = max(rows, key=lambda row: row["change"])
    found = (
        f"{len(slow)} of {len(rows)} points are more than 10 % slower than usual; the worst, "
        f"{worst['series']} at {worst['commit']}, by {format_percent(worst['change'])}."
        if slow
        else "No point is more than 10 % slower than usual."
    )
    return figure(
        "heat",
        "Time against the median of each row",
        [
            "",
            f"within {format_percent(_ALMOST_USUAL)}: as usual",
            f"{left_out} series with fewer studies are left out" if left_out else "",
        ],
        found,
        rows,
        layered([cells], max(0.5 * HEIGHT, 24.0 * len(names))),
    )


def ledger_chart(changes: Sequence[LedgerChange]) -> Figure | None:
    """Speedup lost to each cause before and now, at the largest K of the first workload."""
    if not changes:
        return None
    first = changes[0]
    own = [one for one in changes if (one.workload, one.nodes) == (first.workload, first.nodes)]
    names = [one.cause for one in own][:8]
    rows: list[Row] = [
        {"cause": one.cause, "when": when, "lost": value}
        for one in own
        if one.cause in names
        for when, value in (("before", one.before), ("now", one.now))
    ]
    values = values_of(rows, "lost")
    room = 0.1 * (max(values) - min([*values, 0.0])) or 0.1
    x = linear("lost", "lost speedup", min([*values, 0.0]), max(values) + room)
    colors = {"before": PALETTE["idle"], "now": PALETTE["measured"]}
    bars = mark(
        "bar", rows, "", {"height": 7}, x=x, y=names_axis("cause", names),
        yOffset={"field": "when", "type": "nominal", "sort": ["before", "now"]},
        color=choice("when", colors), tips=("cause", "when"),
    )  # fmt: skip
    moved = own[0]
    return figure(
        "ledger",
        f"Lost speedup at K={first.nodes}",
        ["", "before: mean of up to eight earlier studies"],
        f"Largest change: {moved.cause}, {moved.now - moved.before:+.2f}x of speedup.",
        rows,
        layered([bars], max(0.5 * HEIGHT, 34.0 * len(names))),
    )


def _name(found: Regression) -> str:
    """Its commit with its date."""
    day = found.since[:10]
    return day if short(found.bad) == day else f"{day}, {short(found.bad)}"


def changes_rows(trends: Trends) -> list[str]:
    """The slowdowns in words, the newest first."""
    return [
        f"  {_name(one)} (last good: {short(one.good)}): {size_words(one)}. {cause_words(one)}"
        for one in reversed(trends.changes)
    ]
