"""Doubts from the GPUs of a run: clocks that heat or a power limit lowered."""

from collections.abc import Iterator

from nodewise.base.units import format_percent
from nodewise.study.check import Check, warning
from nodewise.study.study import GPU, GPU_CAPPED, GPU_HOT, Study

_OFTEN = 0.05  # of the looks at a GPU: a single one is only a moment
_APART = 0.2  # of shares at two scales: then they ran at different clocks
_RULE = "GPU clocks"


def device_checks(study: Study) -> Iterator[Check]:
    """Doubt where GPUs were slowed down. Runs without GPU readings give no check."""
    hot = _shares(study, GPU_HOT)
    capped = _shares(study, GPU_CAPPED)
    if not hot and not capped:
        return
    worst = max(hot, key=lambda nodes: hot[nodes], default=0)
    if worst and hot[worst] > _OFTEN:
        yield warning(
            _RULE,
            f"heat or its hardware slowed a GPU down in {format_percent(hot[worst])} of samples "
            f"at K={worst}",
            "Improve the cooling or leave this GPU out, then measure again.",
            makes="doubtful",
        )
    elif capped and max(capped.values()) - min(capped.values()) > _APART:
        low, high = (at(capped, key=lambda nodes: capped[nodes]) for at in (min, max))
        yield warning(
            _RULE,
            f"the power limit lowered clocks in {format_percent(capped[high])} of samples at "
            f"K={high}, and in {format_percent(capped[low])} at K={low}",
            "Lock the clocks (nvidia-smi -lgc) so that all scales run at the same speed.",
            makes="doubtful",
        )
    elif not hot:
        yield Check(rule=_RULE, verdict="unknown", evidence="the GPUs do not report heat")
    else:
        most = max(capped.values(), default=None)
        limit = "" if most is None else f"; the power limit did in up to {format_percent(most)}"
        yield Check(
            rule=_RULE,
            verdict="pass",
            evidence=f"heat slowed no GPU in over {format_percent(hot[worst])} of samples{limit}"
            if worst
            else "heat slowed no GPU",
        )


def _shares(study: Study, name: str) -> dict[int, float]:
    """The largest share of each scale; scales where it is unknown are left out."""
    found: dict[int, float] = {}
    for run in study.good_runs:
        share = run.provenance.get(f"{GPU}{name}")
        if isinstance(share, int | float):
            found[run.nodes] = max(float(share), found.get(run.nodes, 0.0))
    return found
