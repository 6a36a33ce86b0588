"""What binds a measured study: the bottleneck check, and its runs under the roofline."""

from nodewise.base.units import format_speedup
from nodewise.diagnose.next_ceiling import NextCeiling
from nodewise.report.charts.flow import questions_chart
from nodewise.report.charts.look import Figure
from nodewise.report.charts.roofline import Point, roofline_chart
from nodewise.study.study import Run, Study

_ROOFS = ("peak_flops", "memory_bandwidth")  # of a node
_WORK = ("flops", "memory_bytes")  # of a run, all nodes together


def study_flow(result: NextCeiling) -> Figure:
    """Each question about the lost speedup, as the ledger answers it."""
    at = f"{result.regime} scaling, K={result.nodes}"
    lost = f"{format_speedup(result.lost_folds)}x of {result.ideal:g}x is lost"
    words = f"{at}; {lost}; evidence: {result.evidence}; confidence: {result.confidence}"
    return questions_chart(result.branches, words, result.verdict)


def study_roofline(study: Study) -> Figure | None:
    """Each scale as a point for one node, where the runs tell their operations and bytes."""
    facts = {run.nodes: (run, found) for run in study.good_runs if (found := _facts(run))}
    if not facts:
        return None
    points = [
        Point(name=f"K = {nodes}", intensity=flops / moved, flops=flops / run.seconds / nodes)
        for nodes, (run, (flops, moved, *_)) in sorted(facts.items())
    ]
    *_, peak, bandwidth = facts[max(facts)][1]
    return roofline_chart(peak, bandwidth, points, f"{study.regime} scaling, a node at each K")


def _facts(run: Run) -> list[float] | None:
    """Operations and bytes of a run, and the roofs of its nodes, as the workload says."""
    found = [run.facts.get(name) for name in (*_WORK, *_ROOFS)]
    numbers = [float(one) for one in found if isinstance(one, int | float) and one > 0]
    return numbers if len(numbers) == len(found) else None
