"""Answers of a measured study to the rules of the audit, by key, and checks beyond the rules.

The rules themselves are data (rules.toml), and `rules` asks them.
"""

from collections.abc import Iterator
from statistics import mean
from typing import NamedTuple

from nodewise.base.stats import ENOUGH_ROUNDS
from nodewise.base.units import format_duration, format_percent
from nodewise.decide.candidates import Needs
from nodewise.decide.gates import gate_checks
from nodewise.explain.fidelity import latency_words, link_of, of_node, transfer_seconds
from nodewise.explain.scaling import Scaling
from nodewise.explain.validity import (
    LIMITED_IN_TIME,
    changed_work,
    distributed_runs,
    limit_check,
    load_check,
    step_check,
    workload_check,
)
from nodewise.study.check import Check, Verdict
from nodewise.study.spec import Spec
from nodewise.study.study import PROGRAM, Run, Study, program_sums

# These follow from K itself.
_CHANGES_WITH_SCALE = {
    *("command", "log", "oversubscribed", "env_NODEWISE_NODES"),
    *("engine_nodes", "engine_workers", "engine_tasks", "kubernetes_job"),
    *("mpi_hosts", "mpi_options"),  # one more option where ranks share cores
    "spec_hash",  # a folder takes no spec that measures something else
}
# What an engine measures in each run does not describe the machine.
_OF_ONE_RUN = (
    *("rehearsal_", "slurm_", "sacct_", "ray_", "dask_", "spark_"),
    *("gpu_", "energy_samples", "energy_hertz", "no_counters", "threads_idle_share"),
    *("threads_seen_per_rank", "mpi_clock_error_ns", "mpi_messages_unmatched"),
)
_QUOTA_FILLED = 0.9
_THREADS = "threads of each rank"
_MUCH_IDLE = 0.25  # of the time outside MPI: more than serial parts of a rank usually take
_WENT_OVER = 0.95
_CPU_RULE = "CPU share of emulated nodes"
_LINK_RULE = "transfer over the link"
_BYTES_RULE = "bytes over the links"
_MUCH_OUTSIDE = 0.10  # of the wall time: then bills for the timed part alone are too low
_PERIODS_PER_STEP = 6  # at 8 and more steps were true to compute/K; at 3 they were half of it


class Answer(NamedTuple):
    """The answer to one rule."""

    verdict: Verdict
    evidence: str
    remedy: str | None = None  # instead of the rule's own


def answers(study: Study, spec: Spec, scaling: Scaling) -> dict[str, Answer]:
    """Answers from the runs to rules that a table alone cannot answer, by key."""
    return {
        "baseline": _baseline(study, scaling),
        "workload": _fixed_workload(spec, study),
        "warmup": _warmup(spec, study),
        "repeats": _repeats(study),
        "regime": _regime(study),
        "efficiency": _efficiency(scaling),
        "columns": Answer("pass", "nodewise computes them from the runs"),
        "averaged-ratios": Answer("pass", "each is a ratio of means or medians over the rounds"),
        "quality": _quality(study),
        "workers": _workers(spec, study),
        "contention": answer_of(load_check(study)),
        "same-place": _same_place(study),
    }


def own_checks(study: Study, needs: Needs, spec: Spec, scaling: Scaling) -> tuple[Check, ...]:
    """Checks that are not rules: of the emulated nodes, and of the gates of the spec."""
    rehearsal = _rehearsal(spec, study) if spec.engine.name == "rehearsal" else {}
    limits = limit_check(study)
    return (
        *([limits] if limits is not None and limits.verdict == "fail" else []),
        *(_check(rule, answer) for rule, answer in rehearsal.items()),
        *_clock_checks(study),
        *_thread_checks(study),
        *gate_checks(needs, scaling),
    )


def _clock_checks(study: Study) -> Iterator[Check]:
    """Which clock gives the times, where that is not ours, and what it leaves out."""
    runs = [run for run in distributed_runs(study) if "clock" in run.provenance]
    if not runs:
        return
    outside = {
        nodes: mean(
            1 - run.seconds / run.wall_seconds for run in study.at(nodes) if run.wall_seconds
        )
        for nodes in study.scales
        if all(run.wall_seconds for run in study.at(nodes))
    }
    at = max(outside, key=lambda nodes: outside[nodes], default=0)
    share = outside.get(at, 0.0)
    evidence = f"times are from {runs[0].provenance['clock']}"
    evidence += (
        f"; at K={at} that leaves out {format_percent(share)} of the wall time" if at else ""
    )
    verdict: Verdict = "warn" if share > _MUCH_OUTSIDE else "pass"
    remedy = "Add --startup TIME, so that bills include it." if verdict == "warn" else ""
    yield Check(rule="clock of a run", verdict=verdict, evidence=evidence, remedy=remedy)


def _thread_checks(study: Study) -> Iterator[Check]:
    """How many threads each of K has, and how long they idle outside MPI."""
    runs = distributed_runs(study)
    seen = sorted({int(run.provenance.get("threads_seen_per_rank", 1)) for run in runs})
    if not runs or seen == [1]:
        return
    unit = study.scale_unit.unit
    if len(seen) > 1:
        listed = " and ".join(map(str, seen))
        yield Check(
            rule=_THREADS,
            verdict="warn",
            evidence=f"runs used {listed} threads in each {unit}, so K does not give the cores",
            remedy="Set threads_per_rank, so that every run has the same.",
        )
        return
    shares = [float(run.provenance.get("threads_idle_share", 0.0)) for run in runs]
    known = all("threads_idle_share" in run.provenance for run in runs)
    idle = "how long they idle is not recorded"
    if known:
        idle = f"they idle for up to {format_percent(max(shares))} of the time outside MPI"
    much = known and max(shares) > _MUCH_IDLE
    yield Check(
        rule=_THREADS,
        verdict="warn" if much else "pass" if known else "unknown",
        evidence=f"{seen[0]} threads in each {unit}, so K={runs[-1].nodes} uses "
        f"{seen[0] * runs[-1].nodes} cores; {idle}",
        remedy="Try fewer threads in each rank, and more ranks." if much else "",
    )


def answer_of(check: Check) -> Answer:
    """What a check says, as the answer to a rule."""
    return Answer(check.verdict, check.evidence, check.remedy)


def _check(rule: str, answer: Answer) -> Check:
    verdict, evidence, remedy = answer
    return Check(rule=rule, verdict=verdict, evidence=evidence, remedy=remedy or "")


def _baseline(study: Study, scaling: Scaling) -> Answer:
    first = scaling.rows[0]
    seconds = format_duration(first.seconds)
    if first.nodes != 1:
        return Answer(
            "fail",
            f"K=1 was not run; the base is K={first.nodes}, {seconds}",
            "Add 1 to scales.",
        )
    if not any(run.baseline for run in study.runs):
        return Answer(
            "unknown",
            f"T(1) = {seconds}, of the distributed code on one worker",
            "Give the fastest correct single-worker command under [baseline].",
        )
    which = "the single-worker program" if study.base_is_baseline else "the distributed code"
    return Answer("pass", f"T(1) = {seconds}, of {which}, the faster of the two")


def _fixed_workload(spec: Spec, study: Study) -> Answer:
    runs = distributed_runs(study)
    for name in spec.fixed:
        values = {str(run.facts.get(name)) for run in runs}
        if values == {"None"}:
            return Answer(
                "unknown",
                f"the workload does not report {name}",
                f"Call probe.fact({name}=...) in it.",
            )
    changed = workload_check(study) or step_check(study)
    if changed is not None:
        return answer_of(changed)
    if not spec.fixed and any(run.work is None for run in runs):
        return Answer(
            "unknown",
            "neither facts nor work are recorded",
            "Report them with probe.fact and probe.work, and list the facts under fixed.",
        )
    held = ", ".join(spec.fixed) or "the work"
    return Answer("pass", f"{held} did not change in {len(runs)} runs")


def _warmup(spec: Spec, study: Study) -> Answer:
    setups = [run.setup_seconds for run in study.runs if run.setup_seconds is not None]
    steps = [run.steps for run in study.runs if run.steps]
    if not steps and any("clock" in run.provenance for run in study.runs):
        return Answer(
            "unknown",
            "the program's log gives the time; whether that leaves out a warm-up is not recorded",
            "Check what the clock of the program includes.",
        )
    if not steps:
        return Answer(
            "unknown",
            "the whole program is timed: it reports no steps",
            "Use probe.setup and probe.steps.",
        )
    evidence = (
        f"{spec.workload.warmup_steps} warm-up steps left out of each run; setup "
        f"{format_duration(max(setups, default=0.0))} at most, reported separately"
    )
    if spec.workload.warmup_steps == 0:
        return Answer("fail", evidence, "Set workload.warmup_steps.")
    return Answer("pass", evidence)


def _repeats(study: Study) -> Answer:
    rounds = study.rounds
    paired = "every K in each" if study.paired else "not every K in each"
    return Answer(
        "pass" if rounds >= ENOUGH_ROUNDS else "fail",
        "one run per scale, so no spread"
        if rounds == 1
        else f"{rounds} rounds, {paired}; spread reported for every mean",
        "" if rounds >= ENOUGH_ROUNDS else "Ask for six rounds or more.",
    )


def _regime(study: Study) -> Answer:
    runs = distributed_runs(study)
    if any(run.work is None for run in runs):
        return Answer(
            "unknown",
            f"{study.regime}; the work of the runs is not recorded",
            "Report it with probe.work.",
        )
    changed = changed_work(study)
    if changed is not None:
        return answer_of(changed)
    if study.declared is None and study.seen is not None:
        return Answer("pass", f"{study.regime}: {study.seen.evidence}")
    return Answer("pass", f"declared {study.regime}, and the work of the runs agrees")


def _efficiency(scaling: Scaling) -> Answer:
    least = min(scaling.rows, key=lambda row: row.efficiency)
    reached = f"{least.efficiency:.3f} at K={least.nodes}"
    return Answer("pass", f"efficiency is given at every K; the least is {reached}")


def _quality(study: Study) -> Answer:
    runs = distributed_runs(study)
    if any(run.quality is None for run in runs):
        return Answer(
            "unknown",
            "not every run reports a figure of merit",
            "Call probe.quality(name=value, split=..., seed=...).",
        )
    places = {(run.facts.get("quality_split"), run.facts.get("quality_seed")) for run in runs}
    if len(places) > 1:
        return Answer(
            "fail",
            "split or seed differ between runs",
            "Evaluate every run on one split and seed.",
        )
    split, seed = places.pop()
    return Answer("pass", f"in every run, split {split}, seed {seed}")


def _workers(spec: Spec, study: Study) -> Answer:
    failed = sorted({run.nodes for run in study.runs if run.outcome != "ok"})
    missing = sorted(set(spec.scales) - set(study.scales))
    if failed or missing:
        named = ", ".join(f"K={nodes}" for nodes in sorted({*failed, *missing}))
        return Answer(
            "fail",
            f"runs failed or are missing at {named}",
            "See these runs in runs.jsonl.",
        )
    if not any(run.ranks for run in study.runs):
        evidence = "every run succeeded, but no rank reported: they may be K copies of one job"
        return Answer("unknown", evidence, "Compare the number of ranks in the program's own log.")
    return Answer("pass", "every run succeeded on all workers")


def _same_place(study: Study) -> Answer:
    """Machine, software and settings must not change together with K."""
    runs = distributed_runs(study)
    names = {name for run in runs for name in run.provenance} - _CHANGES_WITH_SCALE
    names -= {name for name in names if name.startswith(_OF_ONE_RUN) or name.endswith("_seconds")}
    if not names:
        return Answer(
            "unknown",
            "where the runs were made is not recorded",
            "Measure with nodewise, or state machine and versions with the table.",
        )
    # a command may name other files at another K
    changed = [name for name, found in sorted(program_sums(runs).items()) if len(found) > 1]
    differing = []
    for name in sorted(names):
        values = sorted({str(run.provenance.get(name, "nothing")) for run in runs})
        if len(values) > 1 and not name.startswith(PROGRAM):
            differing.append(f"{name} ({', '.join(value[:40] for value in values[:3])})")
    if changed or differing:
        said = [f"the program changed: {', '.join(changed)}"] if changed else []
        said += [f"runs differ in {'; '.join(differing)}"] if differing else []
        return Answer(
            "fail",
            "; ".join(said),
            "Re-measure all scales, into another folder with -o."
            if changed
            else "Measure all scales in one session, with one commit and one environment.",
        )
    return Answer("pass", f"{len(names)} recorded settings are identical in all runs")


def _rehearsal(spec: Spec, study: Study) -> dict[str, Answer]:
    """Checks of emulated nodes: their CPU, their link, and that no traffic bypassed it."""
    runs = [run for run in study.runs if run.outcome == "ok"]
    if any(run.provenance.get("rehearsal_limited_by") not in LIMITED_IN_TIME for run in runs):
        return {}  # `limit_check` says so
    spread = [run for run in runs if run.nodes > 1]
    counted = [run for run in spread if "allreduce_bytes" in run.facts]
    limits = limit_check(study)
    assert limits is not None
    modelled = any(run.provenance.get("rehearsal_link") == "modelled" for run in runs)
    link = {} if modelled else {_LINK_RULE: _rehearsed_link(study, spread)}
    return {
        **({} if limits.verdict == "fail" else {_CPU_RULE: _rehearsed_cpu(spec, runs, limits)}),
        **link,
        **({_BYTES_RULE: _rehearsed_bytes(counted)} if counted and not modelled else {}),
    }


def _rehearsed_cpu(spec: Spec, runs: list[Run], limits: Check) -> Answer:
    """A quota must hold, be used up, and have periods much shorter than a step."""
    if limits.verdict == "unknown":
        return Answer("unknown", limits.evidence, limits.remedy)
    if all(run.provenance.get("rehearsal_cpu") == "paced" for run in runs):
        return Answer("pass", limits.evidence)
    period = spec.engine.rehearsal.period_ms / 1000
    filled = [_filled(run, at) for run, at in _nodes(runs)]
    known = [share for share in filled if share is not None]
    least = min(known, default=1.0)
    if least >= _QUOTA_FILLED and len(known) < len(filled):
        evidence = "the CPU that a rank used, or its cores, are not recorded"
        return Answer("unknown", evidence, "Use probe.setup and probe.steps in the workload.")
    if least < _QUOTA_FILLED:
        evidence = f"a node computed with {least:.2f} of its CPU share"
        remedy = "Keep other load away, or lower the share. A rank that sleeps looks the same."
        return Answer("fail", evidence, remedy)
    shortest = min((run.seconds / run.steps for run in runs if run.steps), default=0.0)
    if shortest < _PERIODS_PER_STEP * period:
        evidence = (
            f"the shortest step, {format_duration(shortest)}, is less than {_PERIODS_PER_STEP} "
            "periods of the quota: a rank that waited computes in a burst"
        )
        remedy = "Make steps longer, give a node more of a core, or shorten period_ms."
        return Answer("fail", evidence, remedy)
    return Answer(
        "pass", f"{limits.evidence}; the shortest step is {shortest / period:.0f} periods"
    )


def _filled(run: Run, at: int) -> float | None:
    """CPU of a rank against what its quota gives in the time that it computed; None: unknown."""
    rank = run.ranks[at]
    computed = rank.stages.get("compute", 0.0) + rank.stages.get("serial", 0.0)
    cores = of_node(run, at, "cores")
    if rank.usage is None or cores is None:
        return None
    return rank.usage.cpu_seconds / (computed * cores) if computed and cores else 1.0


def _rehearsed_link(study: Study, runs: list[Run]) -> Answer:
    """Transfer must take about as long as its bytes need; the rest is latency of the emulation."""
    if not any(transfer_seconds(run) for run in runs):
        return Answer("unknown", "no communication is recorded", "Wrap it in probe.comm.")
    link = link_of(study)
    if link is None:
        return Answer("unknown", "no bytes are recorded", "Use a real link.")
    if link.is_latency_bound:
        remedy = "Send fewer, larger messages, or rehearse a slower link."
        return Answer("fail", latency_words(link), remedy)
    assert study.spec is not None
    rate = study.spec.engine.rehearsal.link_mbit_per_second
    share = f"at most {format_percent(max(link.beyond, 0.0))} of a run"
    return Answer("pass", f"it takes {share} more than its bytes need at {rate:g} Mbit/s")


def _rehearsed_bytes(runs: list[Run]) -> Answer:
    """An all-reduce cannot send less than a ring does; if it did, bytes took another path."""
    shares = []
    for run in runs:
        ring = 2 * (run.nodes - 1) / run.nodes * float(run.facts["allreduce_bytes"])
        each = [of_node(run, at, "sent_bytes") for _, at in _nodes([run])]
        known = [sent for sent in each if sent is not None]
        if len(known) < len(each):
            return Answer("unknown", "no bytes are recorded", "Use a real link.")
        sent = mean(known)
        shares.append(sent / (ring * (run.steps or 1)))
    least = min(shares)
    if least < _WENT_OVER:
        remedy = "Keep the ranks off shared memory: the launcher must use the network."
        return Answer("fail", f"only {least:.2f} times the bytes of a ring were sent", remedy)
    return Answer("pass", f"at least {least:.2f} times the bytes of a ring in the timed steps")


def _nodes(runs: list[Run]) -> list[tuple[Run, int]]:
    return [(run, at) for run in runs for at in range(run.nodes)]
