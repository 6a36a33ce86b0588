"""Every chart, once: what `nodewise plot` draws and what the page shows.

A figure is a chart with its title, a caption that states the finding in the study's own numbers,
a description for those who do not see it, and the rows behind it. It is nothing (None) where the
study lacks the data. `sized` gives it the size of a page, a paper or a slide.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from nodewise.base.units import capitalised
from nodewise.report.charts.causes import ledger, rank_map, stages, timeline
from nodewise.report.charts.ceilings import study_flow, study_roofline
from nodewise.report.charts.energy import energy
from nodewise.report.charts.forecast import beyond
from nodewise.report.charts.look import (
    SCALE_TITLE,
    Definition,
    Figure,
    beside,
    shortened,
    sized,
    with_recommended,
)
from nodewise.report.charts.money import cost, marginal, pareto, payment, sensitivity, triangle
from nodewise.report.charts.speedup import compare, efficiency, repeats, speedup
from nodewise.report.findings import Findings
from nodewise.report.text.findings import verdict
from nodewise.study.scale_unit import plural
from nodewise.study.study import Study

__all__ = ["CHARTS", "FIRST", "beyond", "compare", "draw", "figures", "sized", "slide"]

FIRST = ("speedup", "cost", "ledger")  # the charts of the first screen of a page


class ChartKind(NamedTuple):
    """A chart by name: what it shows, how it is drawn, and what it needs beside times."""

    shows: str
    draw: Callable[[Study, Findings], Figure | None]
    needs: str = ""


CHARTS: dict[str, ChartKind] = {
    "speedup": ChartKind(
        "speedup at each K against S = K; of a weak study, its time against the flat line 1",
        lambda study, found: speedup(found.scaling, study),
    ),
    "efficiency": ChartKind(
        "efficiency at each K, and its threshold",
        lambda study, found: efficiency(found.scaling, study),
    ),
    "ledger": ChartKind(
        "from the ideal to the measured speedup at the largest K, a bar for each cause",
        lambda study, found: ledger(found.attribution),
        "two scales",
    ),
    "stages": ChartKind(
        "compute, communication, input/output and waiting of every rank at each K",
        lambda study, found: stages(study),
        "stages of ranks or runs",
    ),
    "timeline": ChartKind(
        "a mean step of every rank up to the barrier, at the largest K",
        lambda study, found: timeline(study),
        "stages of ranks",
    ),
    "ranks": ChartKind(
        "how busy each rank was in each round or step, at the largest K",
        lambda study, found: rank_map(study),
        "stages of ranks in two runs",
    ),
    "flow": ChartKind(
        "lost speedup by cause at the bend or the largest K, and causes that are not recorded",
        lambda study, found: (
            None if found.decision.validity.state == "invalid" else study_flow(found.next_ceiling)
        ),
        "two scales",
    ),
    "roofline": ChartKind(
        "operations per byte against operations per second of a node, at each K",
        lambda study, found: study_roofline(study),
        "facts of every run: flops, memory_bytes, peak_flops, memory_bandwidth",
    ),
    "cost": ChartKind(
        "cost and time of a run at each K: the cheapest, the balanced and the fastest scale",
        lambda study, found: cost(found.decision, study),
    ),
    "pareto": ChartKind(
        "time against cost, and the scales that no other beats in both",
        lambda study, found: pareto(found.decision),
        "two scales",
    ),
    "marginal": ChartKind(
        "what each larger scale returns: speedup per added node and per extra dollar",
        lambda study, found: marginal(found.decision),
        "two scales that pass the gates",
    ),
    "payment": ChartKind(
        "the same runs on demand, on spot and on owned nodes",
        lambda study, found: payment(found.decision),
        "a price",
    ),
    "sensitivity": ChartKind(
        "how the cost and the cheapest K move if a price is wrong",
        lambda study, found: sensitivity(found.decision),
        "a price, and an overhead or a worth of waiting",
    ),
    "energy": ChartKind(
        "joules and grams of CO2e at each K, measured, imported or modelled with its range",
        lambda study, found: energy(found.decision),
        "energy: counters, a column energy_j, an import or --watts",
    ),
    "triangle": ChartKind(
        "quality, throughput and cost at each K",
        lambda study, found: triangle(found.decision),
        "quality of every run",
    ),
    "repeats": ChartKind(
        "every run, with the centre of its scale",
        lambda study, found: repeats(study, found.scaling),
        "repeated runs",
    ),
    "forecast": ChartKind(
        "measured times, and those expected beyond them, with their intervals",
        lambda study, found: beyond(found.forecast),
        "three scales",
    ),
}


def draw(name: str, study: Study, findings: Findings) -> Figure | None:
    """One figure by its name, or nothing if the study lacks what `CHARTS[name].needs` says."""
    drawn, unit = CHARTS[name].draw(study, findings), findings.decision.unit
    if drawn is None:
        return None
    chart, recommended = drawn.chart, findings.decision.recommended.nodes
    if recommended is not None:
        chart = with_recommended(chart, recommended)
    if not unit.counts_nodes:
        title = json.dumps(f"{plural(unit.unit)} K")
        chart = json.loads(json.dumps(chart).replace(json.dumps(SCALE_TITLE), title))
    return drawn.with_chart(chart)


def slide(study: Study, findings: Findings) -> Definition:
    """The charts of the first screen as one picture, with the answer above them."""
    decision = findings.decision
    drawn = [draw(name, study, findings) for name in FIRST]
    return beside(
        [one for one in drawn if one is not None],
        f"{shortened(study.name, 40)}: {verdict(decision)}",
        f"{capitalised(decision.recommended.because)}.",
    )


def figures(study: Study, findings: Findings) -> tuple[Figure, ...]:
    """Every figure that the study has the data for, in the order of the argument."""
    drawn = [draw(name, study, findings) for name in CHARTS]
    return tuple(one for one in drawn if one is not None)
