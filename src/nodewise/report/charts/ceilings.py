"""What binds a measured study: the way through the flow, and its runs under the roofline."""

from nodewise.diagnose.next_ceiling import NextCeiling, flow_of
from nodewise.report.charts.look import Figure
from nodewise.report.charts.roofline import Point, flow_chart, roofline_chart
from nodewise.study.study import Run, Study

_ROOFS = ("peak_flops", "memory_bandwidth")  # of a node
_WORK = ("flops", "memory_bytes")  # of a run, all nodes together


def study_flow(result: NextCeiling) -> Figure | None:
    """The ceiling at the bend or the largest scale, and the axis that lifts it."""
    diagnosis = flow_of(result)
    return None if diagnosis is None else flow_chart(diagnosis, f"{result.regime} scaling")


def study_roofline(study: Study) -> Figure | None:
    """Each scale as a point for one node, where the runs tell their operations and bytes."""
    told = {run.nodes: run for run in study.good_runs if _facts(run) is not None}
    if not told:
        return None
    points = []
    for nodes, run in sorted(told.items()):
        flops, moved, peak, bandwidth = _facts(run) or (0.0, 0.0, 0.0, 0.0)
        points.append(
            Point(
                name=f"K = {nodes}",
                intensity=flops / moved,
                flops=flops / run.seconds / nodes,
            )
        )
    return roofline_chart(peak, bandwidth, points, f"{study.regime} scaling, a node at each K")


def _facts(run: Run) -> tuple[float, float, float, float] | None:
    """Operations and bytes of a run, and the roofs of its nodes, as the workload says."""
    found = [run.facts.get(name) for name in (*_WORK, *_ROOFS)]
    numbers = [one for one in found if isinstance(one, int | float) and one > 0]
    if len(numbers) < len(found):
        return None
    flops, moved, peak, bandwidth = map(float, numbers)
    return flops, moved, peak, bandwidth
