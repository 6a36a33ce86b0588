"""What the runs of a study worked on, and the regime that follows from it.

The work of a training is its samples. They are the same at every K (strong scaling) where the
global batch is fixed, or where a fixed data set is read once; they grow with K (weak scaling) where
the batch of each device and the steps are fixed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nodewise.study.spec import Regime

if TYPE_CHECKING:
    from nodewise.study.study import Fact, Run

SAME_WORK = 0.01  # relative
BATCH = "global_batch"
ALL_SAMPLES = "all_samples"  # with those of the warm-up; `work` has the timed ones
DEVICES = "devices_per_node"  # accelerators of a host that a training uses
SEEN_LOSS = "quality_is_seen_loss"  # no rank reported a quality
UNEVEN_STEPS = "steps_of_the_ranks"  # of a training whose ranks differ in them
WITHHELD = "stages_withheld"  # why host clocks do not show the stages of this run


class SeenWork(msgspec.Struct, frozen=True, kw_only=True):
    """The regime that the batches of the runs show; None: neither strong nor weak."""

    regime: Regime | None
    evidence: str
    grows: bool = False  # the global batch, with K


def seen_work(runs: "Sequence[Run]") -> SeenWork | None:
    """The regime by the global batch and the samples at each K; None if they are not known."""
    good = [run for run in runs if run.outcome == "ok" and not run.baseline]
    batches = _by_scale(good, BATCH)
    if len(batches) < 2:
        return None
    samples = _by_scale(good, ALL_SAMPLES)
    listed = _ends(batches)
    if _is_fixed(batches):
        return SeenWork(regime="strong", evidence=f"the global batch is {listed}")
    if _same_samples(samples, batches):
        evidence = f"the samples are the same at every K, the global batch is {listed}"
        return SeenWork(regime="strong", evidence=evidence, grows=True)
    if _is_fixed({nodes: batch / nodes for nodes, batch in batches.items()}):
        evidence = f"the global batch grows with K: {listed}"
        return SeenWork(regime="weak", evidence=evidence, grows=True)
    evidence = f"the global batch is neither fixed nor in proportion to K: {listed}"
    return SeenWork(regime=None, evidence=evidence, grows=True)


def devices_per_node(runs: "Sequence[Run]") -> int | None:
    """How many accelerators share a node, where K counts them: a rank on each."""
    good = [run for run in runs if run.outcome == "ok" and not run.baseline]
    shared = _by_scale(good, DEVICES)
    if not shared or any(run.facts.get("world_size") != run.nodes for run in good):
        return None
    return int(max(shared.values()))


def on_one_job(runs: "tuple[Run, ...]") -> "tuple[Run, ...]":
    """Runs over the same samples, each at its own number of steps, made comparable.

    The warm-up takes more samples at a larger batch, so the timed rest differs: each run is scaled
    from its timed samples to those of the whole job, at the pace that was timed.
    """
    seen = seen_work(runs)
    if seen is None or seen.regime != "strong" or not seen.grows:
        return runs
    job = max(float(run.facts.get(ALL_SAMPLES, 0)) for run in runs)
    return tuple(_scaled(run, job) for run in runs)


def _scaled(run: "Run", job: float) -> "Run":
    """The seconds, stages and work of a run scaled to the job; steps and losses as they were run.

    The samples of a step do not change, so the number of steps is that of the timed part.
    """
    if run.outcome != "ok" or not run.work:
        return run
    factor = job / run.work
    ranks = tuple(
        msgspec.structs.replace(
            rank,
            stages={stage: factor * seconds for stage, seconds in rank.stages.items()},
            seconds=None if rank.seconds is None else factor * rank.seconds,
            items=None if rank.items is None else factor * rank.items,
        )
        for rank in run.ranks
    )
    return msgspec.structs.replace(
        run,
        seconds=factor * run.seconds,
        stages={stage: factor * seconds for stage, seconds in run.stages.items()},
        work=job,
        facts={**run.facts, **_all_tokens(run, factor)},
        ranks=ranks,
        energy_joules=None if run.energy_joules is None else factor * run.energy_joules,
    )


def _all_tokens(run: "Run", factor: float) -> "dict[str, Fact]":
    tokens = run.facts.get("tokens")
    return {"tokens": round(factor * tokens)} if isinstance(tokens, int) else {}


def _by_scale(runs: "Sequence[Run]", name: str) -> dict[int, float]:
    """A fact that is a number, by scale; nothing unless every run has it."""
    found: dict[int, list[float]] = {}
    for run in runs:
        value = run.facts.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            return {}
        found.setdefault(run.nodes, []).append(float(value))
    return {nodes: sum(found[nodes]) / len(found[nodes]) for nodes in sorted(found)}


def _is_fixed(values: dict[int, float]) -> bool:
    return max(values.values()) <= (1 + SAME_WORK) * min(values.values())


def _same_samples(samples: dict[int, float], batches: dict[int, float]) -> bool:
    """Whether the samples differ by one batch at most, as the last of a data set may be left out.

    Several times that must have been read, or nothing could tell.
    """
    if len(samples) < 2:
        return False
    most, least = max(samples.values()), min(samples.values())
    batch = max(batches.values())
    return most - least <= max(SAME_WORK * most, batch) and least >= 3 * batch


def _ends(values: dict[int, float]) -> str:
    """The amounts at the ends, in words."""
    first, last = min(values), max(values)
    if values[first] == values[last]:
        return f"{values[first]:g} at every K"
    return f"{values[first]:g} at K={first}, {values[last]:g} at K={last}"
