"""An audited claim in charts: its curve, its efficiency, and the serial share that it implies."""

from collections.abc import Sequence
from typing import Literal

from nodewise.audit.rules import Audit, Correction
from nodewise.base.units import capitalised, format_efficiency, format_percent, format_speedup
from nodewise.report.charts.look import (
    HEIGHT,
    Axis,
    Definition,
    Figure,
    Row,
    figure,
    folds,
    label,
    layered,
    linear,
    mark,
    names_axis,
    nodes_axis,
    shortened,
    values_of,
)
from nodewise.report.charts.parts import part_bars, stacked

_VERDICTS = {"broken": "refused", "met": "measured", "unknown": "unrecorded"}


def claim_chart(audit: Audit) -> Figure:
    """The claimed speedup against the ideal line, and the curve that an honest base leaves."""
    rows, base = _rows(audit), audit.scaling.rows[0]
    x = nodes_axis([row["K"] for row in rows])
    values = values_of(rows, "speedup", "corrected", "ideal")
    y = folds("speedup", f"speedup over K={base.nodes}", min(values) / 1.3, max(values) * 1.4)
    last = rows[-1]
    layers = [
        mark("line", rows, "ideal", x=x, y=y.of("ideal")),
        label("ideal", x, y, (last["K"], last["ideal"]), align="right", away=9),
        *_both(rows, x, y, "speedup", "corrected", "left"),
    ]
    return figure(
        "claim",
        "Claimed speedup",
        [shortened(audit.name), _reading(audit.correction)],
        _claim_caption(audit),
        rows,
        layered(layers),
    )


def claim_efficiency_chart(audit: Audit) -> Figure:
    """The claimed efficiency, its threshold, and what an honest base leaves of it."""
    rows, threshold = _rows(audit), audit.scaling.bend.threshold
    x = nodes_axis([row["K"] for row in rows])
    top = 1.2 * max(1.0, *values_of(rows, "efficiency", "corrected efficiency"))
    y = linear("efficiency", "efficiency", 0, top)
    most = rows[-1]["K"]
    layers = [
        mark("rule", [{"efficiency": 1.0}], "ideal", y=y),
        label("ideal", x, y, (most, 1.0), align="right"),
        mark("rule", [{"efficiency": threshold}], "limit", y=y),
        label(f"threshold {threshold:.2f}", x, y, (rows[0]["K"], threshold), side="below", away=3),
        *_both(rows, x, y, "efficiency", "corrected efficiency", "right"),
    ]
    if audit.correction is None:
        caption = (
            f"At K={most} the claimed efficiency is {format_efficiency(rows[-1]['efficiency'])}."
        )
    else:
        caption = f"{capitalised(audit.correction.sentence)}."
    return figure(
        "efficiency", "Claimed efficiency", [shortened(audit.name)], caption, rows, layered(layers)
    )


def implied_chart(audit: Audit) -> Figure | None:
    """The share of serial work that each claimed speedup implies; below zero none can be."""
    rows: list[Row] = [
        {"K": row.nodes, "implied": 100 * row.karp_flatt, "speedup": row.speedup}
        for row in audit.scaling.rows
        if row.karp_flatt is not None
    ]
    if len(rows) < 2:
        return None
    x = nodes_axis([row["K"] for row in rows])
    shares = values_of(rows, "implied")
    room = 0.2 * (max([*shares, 0.0]) - min([*shares, 0.0])) or 1.0
    low, high = min([*shares, 0.0]) - room, max([*shares, 0.0]) + room
    y = linear("implied", "implied serial share, %", low, high)
    impossible = [row for row in rows if row["implied"] < 0]
    layers = [
        mark("rule", [{"implied": 0.0}], "wall", y=y),
        *([label("below 0: faster than ideal", x, y, (rows[-1]["K"], low), align="right",
                 style="warning")] if impossible else []),
        mark("line", rows, "join", x=x, y=y),
        mark("point", [row for row in rows if row["implied"] >= 0], "measured", x=x, y=y),
        mark("point", impossible, "refused", x=x, y=y),
    ]  # fmt: skip
    return figure(
        "implied",
        "Serial share that the claim implies",
        [shortened(audit.name), "Karp and Flatt: (1/S - 1/K) / (1 - 1/K)"],
        _implied_caption(rows, impossible),
        rows,
        layered(layers),
    )


def rules_chart(audits: Sequence[Audit]) -> Figure:
    """Over several claims: how many break each rule, meet it, or leave it open."""
    counts: dict[str, dict[str, float]] = {}
    for check in (check for one in audits for check in one.checks):
        row = counts.setdefault(check.rule, dict.fromkeys(_VERDICTS, 0.0))
        row[{"fail": "broken", "warn": "broken", "pass": "met"}.get(check.verdict, "unknown")] += 1
    broken = sorted(
        (rule for rule in counts if counts[rule]["broken"]),
        key=lambda rule: -counts[rule]["broken"],
    )[:16]
    rules = broken or list(counts)[:16]
    names = {rule: shortened(rule, 24) for rule in rules}
    segments = [
        segment for rule in rules for segment in stacked(counts[rule], rule=names[rule], whole=rule)
    ]
    whole = [*range(0, len(audits) + 1, -(-len(audits) // 6))]
    x = linear("start", "claims", 0, len(audits), {"values": whole, "format": "d"})
    worst = f"Most often broken: {broken[0]}." if broken else "No claim breaks a rule."
    return figure(
        "rules",
        "Rules over all claims",
        ["", "those that at least one claim breaks" if broken else ""],
        worst,
        [{"rule": rule, **counts[rule]} for rule in counts],
        layered(
            [
                part_bars(
                    "bar",
                    segments,
                    _VERDICTS,
                    ("whole", "part"),
                    x=x,
                    x2="end",
                    y=names_axis("rule", list(names.values())),
                )
            ],
            max(0.5 * HEIGHT, 22.0 * len(rules)),
        ),
    )


def _rows(audit: Audit) -> list[Row]:
    corrected = {row.nodes: row for row in audit.correction.rows} if audit.correction else {}
    base = audit.scaling.rows[0].nodes
    return [
        {
            "K": row.nodes,
            "speedup": row.speedup,
            "ideal": row.nodes / base,
            "efficiency": row.efficiency,
            "corrected": corrected[row.nodes].speedup if row.nodes in corrected else None,
            "corrected efficiency": (
                corrected[row.nodes].efficiency if row.nodes in corrected else None
            ),
            "seconds": row.seconds,
        }
        for row in audit.scaling.rows
    ]


def _both(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    claimed: str,
    corrected: str,
    align: Literal["left", "right"],
) -> list[Definition]:
    """The claimed points, and below them those with an honest base: computed, so hollow."""
    fixed = [row for row in rows if row[corrected] is not None]
    layers = [
        mark("line", rows, "join", x=x, y=y.of(claimed)),
        mark("point", rows, "measured", x=x, y=y.of(claimed), tips=("K",)),
        mark("line", fixed, "beyond", x=x, y=y.of(corrected)),
        mark("point", fixed, "predicted", x=x, y=y.of(corrected), tips=("K",)),
    ]
    if len(fixed) > 1:
        place = fixed[-2]
        layers.append(label("corrected", x, y, (place["K"], place[corrected]), align=align,
                            side="below", style="expected", away=6))  # fmt: skip
    return layers


def _reading(correction: Correction | None) -> str:
    if correction is None:
        return "as claimed, not measured here"
    return "filled: as claimed; hollow: with the base that the rest of the curve implies"


def _claim_caption(audit: Audit) -> str:
    last = audit.scaling.rows[-1]
    text = f"Claimed at K={last.nodes}: speedup {format_speedup(last.speedup)}"
    if audit.correction is None:
        return f"{text}."
    fixed = format_speedup(audit.correction.rows[-1].speedup)
    return f"{text}; with an honest baseline {fixed}."


def _implied_caption(rows: Sequence[Row], impossible: Sequence[Row]) -> str:
    if impossible:
        scales = ", ".join(str(row["K"]) for row in impossible)
        return f"Impossible without an explanation: less than no serial work at K={scales}."
    ends = [
        f"{format_percent(row['implied'] / 100)} at K={row['K']}" for row in (rows[0], rows[-1])
    ]
    return f"The claim implies {ends[0]} and {ends[1]}."
