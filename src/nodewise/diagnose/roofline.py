"""The roofline of a step: its intensity against the ridge, and the roof of communication.

All rates are in SI units: FLOP/s, bytes/s, seconds.
"""

from typing import Any, Literal

import msgspec

from nodewise.diagnose.axes import AxisName, axis_words
from nodewise.diagnose.links import Link

Bound = Literal["compute", "memory bandwidth"]
_MOST_WORKERS = 1_000_000


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step on so many workers: its work split (strong) or a whole step each (weak)."""

    workers: int
    exchange_s: float
    strong_step_s: float
    strong_efficiency: float
    weak_step_s: float
    weak_efficiency: float


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step is under the roofs of one machine, and of the link that it would need."""

    ridge: float  # FLOP per byte at which both roofs meet
    intensity: float
    bound: Bound
    axis: AxisName
    compute_s: float
    memory_s: float
    step_s: float  # the longer of both: no step can be faster
    attainable_flops: float
    comm_s: float | None = None
    communication_bound: bool | None = None
    # The fewest workers whose ring all-reduce takes longer than their own work; none: never.
    binds_at_strong: int | None = None
    binds_at_weak: int | None = None
    workers: tuple[WorkerRow, ...] = ()
    verdict: str = ""
    reasons: tuple[str, ...] = ()  # for the verdict
    notes: tuple[str, ...] = ()

    @property
    def exchange_flops(self) -> float | None:
        """FLOP/s at which the arithmetic takes as long as the exchange: the roof of the link."""
        return self.attainable_flops * self.step_s / self.comm_s if self.comm_s else None

    @property
    def fastest(self) -> WorkerRow:
        """The row of the table whose workers finish one shared step first; of equals the fewest."""
        return min(self.workers, key=lambda row: row.strong_step_s)


def roofline(
    *,
    peak_flops: float,
    memory_bandwidth: float,
    flops: float,
    memory_bytes: float,
    link: Link | None = None,
    net_bytes: float = 0.0,
) -> Roofline:
    """The bound of a step, its axis, and whether its all-reduce would take longer than its work.

    `net_bytes` are all-reduced over the link after each step.

    >>> step = roofline(peak_flops=20e12, memory_bandwidth=800e9, flops=6e12, memory_bytes=1.2e11)
    >>> step.ridge, step.intensity, step.bound, step.axis
    (25.0, 50.0, 'compute', 'training')
    """
    ridge = peak_flops / memory_bandwidth
    intensity = flops / memory_bytes
    compute_s, memory_s = flops / peak_flops, memory_bytes / memory_bandwidth
    step_s = max(compute_s, memory_s)
    bound: Bound = "memory bandwidth" if intensity < ridge else "compute"
    axis: AxisName = "model" if bound == "memory bandwidth" else "training"
    notes = []
    if abs(intensity / ridge - 1) < 0.1:
        notes.append("The step is near the ridge: compute and memory bandwidth both bind.")
    exchange: dict[str, Any] = {}
    if link is not None:
        comm_s = link.message(net_bytes)
        if compute_s < comm_s <= step_s:
            notes.append(
                "The exchange takes longer than the arithmetic, but not longer than memory does: "
                "memory bandwidth still binds."
            )
        if link.ring(net_bytes, 2) > step_s:  # two workers do less than one, even a step each
            axis = "coordination"
        exchange = {
            "comm_s": comm_s,
            "communication_bound": comm_s > compute_s,
            "binds_at_strong": binds_at(link, net_bytes, step_s, shared=True),
            "binds_at_weak": binds_at(link, net_bytes, step_s, shared=False),
            "workers": tuple(
                _at(workers, link.ring(net_bytes, workers), step_s)
                for workers in (1, 2, 4, 8, 16, 32, 64)
            ),
        }
    step = Roofline(
        ridge=ridge,
        intensity=intensity,
        bound=bound,
        axis=axis,
        compute_s=compute_s,
        memory_s=memory_s,
        step_s=step_s,
        attainable_flops=min(peak_flops, memory_bandwidth * intensity),
        notes=tuple(notes),
        **exchange,
    )
    verdict, *reasons = [*_on_workers(step), _on_one_machine(step), _axis(step)]
    return msgspec.structs.replace(step, verdict=verdict, reasons=tuple(reasons))


def binds_at(link: Link, net_bytes: float, step_s: float, shared: bool) -> int | None:
    """The fewest workers at which a ring all-reduce takes longer than a worker's own part.

    `shared`: the workers share one step (strong scaling); otherwise each has a whole one (weak).
    The exchange grows and the own part does not, so the first that binds is found by halving.
    """

    def binds(workers: int) -> bool:
        own = step_s / workers if shared else step_s
        return link.ring(net_bytes, workers) > own

    if not binds(_MOST_WORKERS):
        return None
    low, high = 1, _MOST_WORKERS  # the lower never binds: one worker exchanges nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binds(middle) else (middle, high)
    return high


def _at(workers: int, exchange_s: float, step_s: float) -> WorkerRow:
    """Without overlap: the step is work, then exchange."""
    strong, weak = step_s / workers + exchange_s, step_s + exchange_s
    return WorkerRow(
        workers=workers,
        exchange_s=exchange_s,
        strong_step_s=strong,
        strong_efficiency=step_s / workers / strong,
        weak_step_s=weak,
        weak_efficiency=step_s / weak,
    )


def _on_workers(step: Roofline) -> list[str]:
    """What more workers gain: on one shared step, and with a whole step each."""
    if not step.workers:
        return []
    return [shared_step_words(step), whole_step_words(step)]


def shared_step_words(step: Roofline) -> str:
    """What a step of fixed size gains from more workers (strong scaling)."""
    alone, two, best = step.workers[0], step.workers[1], step.fastest
    if best.workers == 1:
        return (
            "a second worker does not shorten a step of fixed size: 2 workers take "
            f"{_seconds(two.strong_step_s)}, one takes {_seconds(alone.strong_step_s)}"
        )
    return (
        f"a step of fixed size is fastest on {best.workers} workers: "
        f"{_seconds(best.strong_step_s)} against {_seconds(alone.strong_step_s)} for one, "
        f"efficiency {best.strong_efficiency:.2f}"
    )


def whole_step_words(step: Roofline) -> str:
    """What workers with a whole step each are worth (weak scaling)."""
    two, most = step.workers[1], step.workers[-1]
    shares = (
        f"efficiency {two.weak_efficiency:.2f} on {two.workers} workers to "
        f"{most.weak_efficiency:.2f} on {most.workers}"
    )
    if step.axis == "coordination":
        return f"with a whole step each (weak scaling) the workers mostly exchange: {shares}"
    only = "only " if step.fastest.workers == 1 else ""
    return f"{only}a whole step for each worker (weak scaling) pays: {shares}"


def _on_one_machine(step: Roofline) -> str:
    side = "above" if step.intensity >= step.ridge else "below"
    words = (
        f"{step.bound} bound: {step.intensity:.4g} FLOP per byte is {side} the ridge of "
        f"{step.ridge:.4g}"
    )
    if step.comm_s is None:
        return words
    longer = "longer" if step.comm_s > step.step_s else "less"
    return (
        f"{words}; the exchange ({step.comm_s:.5g} s) takes {longer} than the work "
        f"({step.step_s:.5g} s)"
    )


def _axis(step: Roofline) -> str:
    """The axis, and the form of it that the table of workers supports."""
    words = f"axis: {step.axis}; {axis_words(step.axis)}"
    if not step.workers or step.axis == "coordination":
        return words
    if step.fastest.workers == 1:
        return f"axis: {step.axis}, with a whole step for each worker"
    if step.binds_at_strong is None:
        return words
    most = step.binds_at_strong - 1  # two at least: the second worker gains
    return f"{words} among up to {most} workers, or give each a whole step"


def _seconds(seconds: float) -> str:
    """Three digits after the point, or three significant ones for smaller values."""
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds:.3g} s"
