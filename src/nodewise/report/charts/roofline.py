"""The roofline with its steps."""

from collections.abc import Sequence

import msgspec

from nodewise.base.units import capitalised, format_bandwidth, format_flops
from nodewise.diagnose.training_step import TrainingStep
from nodewise.report.charts.look import (
    PALETTE,
    Axis,
    Definition,
    Figure,
    figure,
    label,
    layered,
    logarithmic,
    mark,
)

_ABOVE = 3  # times the highest roof: the top of the chart
_DECADES = 2  # beside the ridge, at least


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A step on the chart: FLOP per byte, and FLOP/s that it reaches or could reach."""

    name: str
    intensity: float
    flops: float


def roofline_chart(
    peak_flops: float,
    bandwidth: float,
    points: Sequence[Point],
    measured: str = "",
    exchange_flops: float | None = None,
) -> Figure:
    """What a step can reach at each intensity: the slope is memory, the flat part arithmetic.

    `measured` says how the points were got. `exchange_flops` is the roof of the link over the first
    point; a step of other intensity is taken to send the same share of its bytes.
    """
    ridge = peak_flops / bandwidth
    low = min([ridge / 10**_DECADES, *(point.intensity / 2 for point in points)])
    high = max([ridge * 10**_DECADES, *(point.intensity * 2 for point in points)])
    x = _decades("intensity", "arithmetic intensity, FLOP per byte", low, high, "~g")
    lowest = min([low * bandwidth, *(point.flops / 2 for point in points)])
    y = _decades("flops", "FLOP per second", lowest, peak_flops * _ABOVE, "~s")
    slope = (low * ridge) ** 0.5  # the middle of the slanted roof, for its name
    roof = [
        {"intensity": at, "flops": min(peak_flops, bandwidth * at)} for at in (low, ridge, high)
    ]
    rows = [
        {
            "step": point.name,
            "intensity": point.intensity,
            "flops": point.flops,
            "share of the roof": point.flops / min(peak_flops, bandwidth * point.intensity),
        }
        for point in points
    ]
    findings = [
        f"{capitalised(point.name)} has {point.intensity:.4g} FLOP per byte, "
        f"{'above' if point.intensity >= ridge else 'below'} the ridge of {ridge:.4g}: "
        f"{'compute' if point.intensity >= ridge else 'memory bandwidth'} is its roof."
        for point in points
    ]
    thick, orange = {"color": PALETTE["measured"], "strokeWidth": 2.5}, {"color": PALETTE["second"]}
    memory = f"memory {format_bandwidth(bandwidth)}"
    pale = {"color": PALETTE["grid"], "opacity": 0.6}
    below = [{**corner, "lowest": lowest} for corner in roof[:2]]
    layers = [
        mark("area", below, "", pale, x=x, y=y, y2="lowest"),
        *_link_roof(exchange_flops, points, (low, high), (lowest, peak_flops, bandwidth), (x, y)),
        mark("line", roof, "join", thick, x=x, y=y),
        label(memory, x, y, (slope, slope * bandwidth), side="below"),
        label(f"arithmetic {format_flops(peak_flops)}", x, y, (high, peak_flops), align="right"),
        label(f"ridge {ridge:.4g}", x, y, (ridge, peak_flops), align="right"),
        label("memory-bound", x, y, (ridge, lowest), align="right"),
        label("compute-bound", x, y, (ridge, lowest)),
        mark("point", rows, "measured", orange, x=x, y=y, tips=("step", "intensity", "flops")),
        *(
            label(point.name, x, y, (point.intensity, point.flops), style="label", side="below")
            for point in points
        ),
    ]
    if exchange_flops is not None:
        compared = "shorter" if exchange_flops >= points[0].flops else "longer"
        findings.append(
            f"The exchange allows {format_flops(exchange_flops)} at that intensity: it is "
            f"{compared} than the work."
        )
    return figure(
        "roofline",
        "Roofline of a step",
        _subtitle(measured, "both axes logarithmic"),
        " ".join(findings),
        rows,
        layered(layers),
    )


def _link_roof(
    flops: float | None,
    points: Sequence[Point],
    reach: tuple[float, float],
    roofs: tuple[float, float, float],
    axes: tuple[Axis, Axis],
) -> list[Definition]:
    """The roof of the link, dashed; what it takes from under the others is shaded."""
    if flops is None:
        return []
    (low, high), (lowest, peak, bandwidth), (x, y) = reach, roofs, axes
    slope = flops / points[0].intensity
    left, right = max(low, lowest / slope), min(high, peak * _ABOVE / slope)
    line = [{"intensity": at, "flops": at * slope} for at in (left, right)]
    dashed = {"color": PALETTE["second"], "strokeWidth": 1.5, "strokeDash": [6, 3]}
    layers = [mark("line", line, "join", dashed, x=x, y=y)]
    if slope < bandwidth:
        corners = sorted({left, min(max(peak / bandwidth, left), right), min(peak / slope, right)})
        lost = [
            {"intensity": at, "flops": at * slope, "roof": min(peak, bandwidth * at)}
            for at in corners
        ]
        tint = {"color": PALETTE["second"], "opacity": 0.15}
        layers.insert(0, mark("area", lost, "", tint, x=x, y=y, y2="roof"))
    name = label("exchange", x, y, (right, right * slope), side="below")
    return [*layers, name]


def step_chart(step: TrainingStep) -> Figure | None:
    """The step of a program and its stages under the roofs of its machine."""
    if not step.peak_flops or not step.memory_bandwidth or not step.intensity:
        return None
    points = [Point(name="step", intensity=step.intensity, flops=step.flops_per_second)]
    points += [
        Point(name=row.name, intensity=row.intensity, flops=row.flops_per_second)
        for row in step.stages
        if row.intensity and row.flops_per_second
    ]
    return roofline_chart(step.peak_flops, step.memory_bandwidth, points)


def _subtitle(measured: str, words: str) -> list[str]:
    return [f"{measured}; {words}" if measured else words]


def _decades(field: str, title: str, low: float, high: float, form: str) -> Axis:
    powers = [10.0**power for power in range(-6, 22) if low <= 10.0**power <= high]
    return logarithmic(field, title, low, high, 10, {"format": form, "values": powers})
