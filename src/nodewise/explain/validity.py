"""Whether a measurement can be answered from: valid, doubtful or invalid, as checks say it.

Invalid: the ranks that ran are not K, no step ran, an emulated node was not limited, or the
workload changed between the scales. Doubtful: a scale failed, the base does not fit the curve,
other processes took the CPU, or workers shared cores. `scaling` checks the number of rounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nodewise.base.units import format_duration, format_percent
from nodewise.explain.baseline import SUPERLINEAR, Detection, superlinear
from nodewise.explain.fidelity import of_node
from nodewise.study.check import Check, warning
from nodewise.study.spec import Regime
from nodewise.study.study import Fact, Run, Study, program_sums
from nodewise.study.workload import BATCH, SAME_WORK, UNEVEN_STEPS

if TYPE_CHECKING:
    from nodewise.explain.scaling import Timings

FOREIGN_LOAD = "other processes took up to"  # how a doubt begins that is of their load
# Share of the CPU that other processes took: a warning above the first, doubtful above the second.
SOME_LOAD, MUCH_LOAD = 0.02, 0.10
ENOUGH_TO_TRUST = 3  # rounds; fewer leave a measurement doubtful
_NEAR_WORK = 0.05  # relative: sizes of a growing job are rounded to whole cells
QUOTA_HELD = 1.05  # CPU of an emulated node against its quota; above it the quota leaks
_NOT_LIMITED = 1.5
_LIMITED_SHARE = 0.9  # of a run in which the quota must be in force
LIMITED_IN_TIME = ("the gate", "the start")  # what put the limits of emulated nodes in force
_NOT_PACED = 0.5  # of a node's share: CPU of processes beside the rank that is paced
_BESIDE_SECONDS = 0.1  # CPU of a launcher's proxy, first messages and an evaluation, on each node
_MOSTLY_TIMED = 1.5  # of the timed seconds: a node was watched for longer, and may have done more
_WORKERS = "number of workers"
_WORKLOAD = "workload at every K"
_LIMITS = "CPU share of emulated nodes"
_LOAD = "foreign load"
_WORLD = ("world_size", "mpi_size", "comm_size", "num_processes")  # facts that count the ranks
_ALWAYS_FIXED = ("dtype", "precision", "model")
_FIXED_IF_STRONG = ("data_hash", "dataset", "global_batch", "global_batch_size")
_SHOWN_CHARACTERS = 120  # of a program's last line
_DIFFERS = "differs between ranks"  # where each rank reports its own share


def validity_checks(study: Study, times: "Timings") -> Iterator[Check]:
    """What makes the measurement invalid or doubtful, the most severe first."""
    found = (rank_check(study), step_check(study), limit_check(study), workload_check(study))
    yield from (check for check in found if check is not None and check.verdict == "fail")
    yield from regime_checks(study)
    yield from failure_checks(study)
    yield from copies_checks(study)
    program = program_check(study)
    if program is not None:
        yield program
    curve = (baseline_check(times), superlinear_check(times))
    yield from (check for check in curve if check is not None)
    load = load_check(study)
    if load.verdict in ("warn", "fail"):
        yield load


def distributed_runs(study: Study) -> list[Run]:
    """The successful runs, without those of a single-worker program."""
    return [run for run in study.runs if run.outcome == "ok" and not run.baseline]


def rank_check(study: Study) -> Check | None:
    """Whether K ranks, or as many for each of K, took part in every run; None: not recorded."""
    runs = [run for run in distributed_runs(study) if run.ranks]
    copies = [run for run in runs if len({rank.rank for rank in run.ranks}) < len(run.ranks)]
    if copies:
        run = copies[0]
        evidence = f"at K={run.nodes} {len(run.ranks)} copies of one rank ran"
        return _invalid(_WORKERS, evidence, "Start one job of K ranks.", "workers")
    counted = {run.nodes: float(_ranks_of(run)) for run in runs}
    wrong = next((run for run in runs if _ranks_of(run) != counted[run.nodes]), None)
    if wrong is not None:
        evidence = f"at K={wrong.nodes} the number of ranks that ran changes between runs"
        return _invalid(_WORKERS, evidence, "Repeat the runs with missing ranks.", "workers")
    remedy = "Start K ranks: pass the number of nodes to the launcher."
    for what, counts in [("ranks that ran", counted), *_worlds(study)]:
        if len({count / nodes for nodes, count in counts.items()}) > 1:
            listed = ", ".join(f"{count:g} at K={nodes}" for nodes, count in _ends(counts))
            return _invalid(_WORKERS, f"{what} do not follow K: {listed}", remedy, "workers")
    if not runs:
        return None
    per_node = _ranks_of(runs[0]) / runs[0].nodes
    evidence = f"ranks that report on each node, in every run: {per_node:g}"
    return Check(rule=_WORKERS, verdict="pass", evidence=evidence, key="workers")


def copies_checks(study: Study) -> Iterator[Check]:
    """Whether an MPI launcher started a program in which no rank was seen.

    At K=1 alone it may be a program that needs no MPI there.
    """
    runs = distributed_runs(study)
    blind = {
        run.nodes
        for run in runs
        if run.provenance.get("started_by_mpi") and run.provenance.get("mpi_calls_recorded")
        if not run.ranks
    }
    if blind and (blind != {1} or {run.nodes for run in runs} == {1}):
        evidence = (
            f"no rank called MPI_Init at K={_listed(sorted(blind))}: these may be copies of one job"
        )
        remedy = (
            "Start a program that uses MPI. If it does, linked statically: engine mpi with "
            "record = false."
        )
        yield _invalid(_WORKERS, evidence, remedy, "workers")
    alone = [run for run in runs if run.provenance.get("timed_from_launcher")]
    if alone and len(alone) < len(runs):
        evidence = "K=1 never calls MPI_Init: its time includes the start of the launcher"
        remedy = "Run K=1 with MPI too (OpenFOAM: -parallel), or take the time from the log."
        yield warning("clocks of the scales", evidence, remedy)


def program_check(study: Study) -> Check | None:
    """Whether the runs are of one program: they are averaged as if they were; None: they are."""
    sums = program_sums(distributed_runs(study))
    changed = [name for name, found in sums.items() if len(found) > 1]
    if not changed:
        return None
    return Check(
        rule="one program",
        verdict="fail",
        evidence=f"the program changed between runs: {', '.join(sorted(changed))}",
        remedy="Measure all scales again, into a new folder with -o.",
        makes="doubtful",
    )


def _ranks_of(run: Run) -> int:
    """The ranks of a run, with those whose trace was left out knowingly."""
    return len(run.ranks) + int(run.facts.get("missing_ranks", 0))


def _worlds(study: Study) -> list[tuple[str, dict[int, float]]]:
    """The number of ranks as the workload reports it, by scale."""
    found = []
    for name in _WORLD:
        sizes = _numbers(study, name)
        if sizes:
            found.append((f"ranks by the fact {name}", sizes))
    return found


def step_check(study: Study) -> Check | None:
    """Whether steps ran, and as many as the regime asks for; None: no run counts its steps."""
    runs = [run for run in distributed_runs(study) if run.steps is not None]
    empty = sorted({run.nodes for run in runs if run.steps == 0})
    if empty:
        last = next((line for run in runs for line in _last_line(run)), "")
        evidence = f"no step ran at K={_listed(empty)}{last and f'; its last line: {last}'}"
        remedy = "Make the script train for more steps than the warm-up."
        return _invalid("timed steps", evidence, remedy, "workload")
    apart = next((run for run in runs if UNEVEN_STEPS in run.facts), None)
    if apart is not None:
        evidence = f"the ranks at K={apart.nodes} made {apart.facts[UNEVEN_STEPS]} steps"
        return _invalid(_WORKLOAD, evidence, "Give every rank the same steps.", "workload")
    uneven = _uneven_rounds(runs)
    if uneven:
        return _invalid(_WORKLOAD, uneven, "Run the same steps in every round.", "workload")
    steps = {run.nodes: float(run.steps or 0) for run in runs}
    if len(steps) < 2 or _amounts(study):
        return None  # the work itself says more
    constant = max(steps.values()) <= min(steps.values()) * (1 + SAME_WORK)
    shared = all(  # a fixed job whose steps are dealt out to the ranks
        abs(count * nodes / min(steps) - steps[min(steps)]) <= nodes / min(steps)
        for nodes, count in steps.items()
    )
    if constant or (study.regime == "strong" and shared):
        return None
    listed = ", ".join(f"{count:g} at K={nodes}" for nodes, count in _ends(steps))
    remedy = "Run the same steps at every K, or record the work with probe.work."
    return _invalid(_WORKLOAD, f"the steps of a run change: {listed}", remedy, "workload")


def _last_line(run: Run) -> list[str]:
    """The last line that the program printed, if it was kept."""
    lines = [line.strip() for line in run.detail.splitlines() if line.strip()]
    return [f"'{lines[-1][:_SHOWN_CHARACTERS]}'"] if lines and run.steps == 0 else []


def _uneven_rounds(runs: Sequence[Run]) -> str:
    """That runs of one scale made different numbers of steps; else nothing."""
    steps: dict[int, set[int]] = {}
    for run in runs:
        steps.setdefault(run.nodes, set()).add(run.steps or 0)
    for nodes, counts in steps.items():
        if max(counts) > (1 + SAME_WORK) * min(counts):
            return f"the rounds of K={nodes} made {min(counts)} to {max(counts)} steps"
    return ""


def regime_checks(study: Study) -> Iterator[Check]:
    """What the batches of the runs say of the regime, against what was declared."""
    seen = study.seen
    if seen is None or seen.regime is None:
        return
    if study.declared not in (None, seen.regime):
        evidence = f"declared {study.declared}, but {seen.evidence}: judged as {seen.regime}"
        remedy = f"Correct the regime to {seen.regime}."
        yield warning("declared regime", evidence, remedy, makes="doubtful")
    if seen.regime == "strong" and seen.grows:
        evidence = f"{seen.evidence}: a larger K makes fewer steps, which may change the result"
        yield warning("optimisation at all K", evidence, "Compare the loss.", key="batch-grows")


def workload_check(study: Study) -> Check | None:
    """That the work or a fact of the runs contradicts the regime; None: nothing does."""
    problem = changed_fact(study)
    if problem:
        return _invalid(_WORKLOAD, problem, "Hold it fixed at every K.", "workload")
    if study.seen is not None and study.seen.regime is None:
        remedy = "Fix the global batch, or the batch of each device."
        return _invalid(_WORKLOAD, study.seen.evidence, remedy, "workload")
    return changed_work(study)


def changed_work(study: Study) -> Check | None:
    """That the work of the runs contradicts the regime; None: it does not, or is not recorded."""
    work = _amounts(study)
    if not work or not changed_amount(work, study.regime).seen:
        return None
    other: Regime = "strong" if study.regime == "weak" else "weak"
    base = work[min(work)] / min(work)
    off = {nodes: done / nodes / base - 1 for nodes, done in work.items()}
    worst = max(off, key=lambda nodes: abs(off[nodes]))
    if study.regime == "weak" and abs(off[worst]) <= _NEAR_WORK:
        evidence = f"the work per node changes with K, by {off[worst]:+.1%} at K={worst}"
        remedy = "Choose scales that divide the size evenly, with workload.requires."
        return Check(rule=_WORKLOAD, verdict="warn", evidence=evidence, remedy=remedy)
    fits = not changed_amount(work, other).seen
    what = f"the work contradicts {study.regime} scaling" if fits else "the work changes"
    listed = ", ".join(
        f"{done:g}{_in_steps(study, nodes)} at K={nodes}" for nodes, done in _ends(work)
    )
    remedy = f"Add --regime {other}." if fits else "Hold the work fixed (strong scaling)."
    return _invalid(_WORKLOAD, f"{what}: {listed}", remedy, "workload")


def _in_steps(study: Study, nodes: int) -> str:
    """The work of a run as steps of a batch, where both are known."""
    run = next(run for run in distributed_runs(study) if run.nodes == nodes)
    batch = run.facts.get(BATCH)
    return f" ({run.steps} steps of {batch})" if run.steps and batch is not None else ""


def changed_fact(study: Study) -> str:
    """The first recorded fact that the regime holds fixed and that changes; else nothing."""
    fixed = study.spec.fixed if study.spec is not None else ()
    known = (*_ALWAYS_FIXED, *(_FIXED_IF_STRONG if study.regime == "strong" else ()))
    # of a data set that is read once the batch may grow: the samples are fixed
    grows = study.seen is not None and study.seen.grows and study.seen.regime == study.regime
    free = BATCH if grows else ""
    for name in dict.fromkeys((*fixed, *known)):
        if name == free and name not in fixed:
            continue
        values: dict[Fact, int] = {}
        for run in distributed_runs(study):
            value = run.facts.get(name)
            if value is not None and (name in fixed or value != _DIFFERS):
                values.setdefault(value, run.nodes)
        if len(values) > 1:
            listed = ", ".join(f"{value} at K={nodes}" for value, nodes in list(values.items())[:3])
            return f"{name} changes between runs: {listed}"
    return ""


def changed_amount(values: Mapping[int, float], regime: Regime | None) -> Detection:
    """What must be fixed against K: constant (strong) or growing in proportion (weak)."""
    nodes = sorted(values)
    base = values[nodes[0]]
    grown = {count: values[count] / base for count in nodes}
    steady = all(abs(value - 1) <= SAME_WORK for value in grown.values())
    weak = all(abs(value * nodes[0] / count - 1) <= SAME_WORK for count, value in grown.items())
    if regime != "weak" and steady:
        return Detection(False, f"{base:g} at every K", 1.0)
    if regime != "strong" and weak:
        return Detection(
            False, f"grows with K from {base:g}: weak scaling", float(grown[nodes[-1]])
        )
    first = next((n for n in nodes if abs(grown[n] - 1) > SAME_WORK), nodes[-1])
    last = values[nodes[-1]]
    evidence = f"from {base:g} at K={nodes[0]} to {last:g} at K={nodes[-1]}, from K={first} on"
    return Detection(True, evidence, float(grown[nodes[-1]]))


def limit_check(study: Study) -> Check | None:
    """Whether every emulated node had its limits while it was timed; None: nothing is emulated."""
    engine = study.spec.engine.name if study.spec is not None else ""
    runs = [
        run
        for run in study.runs
        if run.outcome == "ok"
        and (engine == "rehearsal" or "rehearsal_limited_by" in run.provenance)
    ]
    if not runs:
        return None
    paced = [run for run in runs if run.provenance.get("rehearsal_cpu") == "paced"]
    if (doubt := _late_limits(runs) or _pace_doubt(paced)) is not None:
        return doubt
    if len(paced) == len(runs):
        return Check(rule=_LIMITS, verdict="pass", evidence="emulated nodes; every rank was paced")
    period = study.spec.engine.rehearsal.period_ms / 1000 if study.spec is not None else 0.1
    return _quota_check(
        [run for run in runs if run.provenance.get("rehearsal_cpu") != "paced"], period
    )


def _late_limits(runs: Sequence[Run]) -> Check | None:
    """That limits began late, or held for a part of a run only; None: they held in all runs."""
    late = [
        run for run in runs if run.provenance.get("rehearsal_limited_by") not in LIMITED_IN_TIME
    ]
    remedy = "Use probe.setup and probe.steps in the workload."
    for run in late:
        held = float(run.provenance.get("rehearsal_limited_seconds", 0.0))
        if held < _LIMITED_SHARE * run.seconds:
            evidence = (
                f"an emulated node was not limited: at K={run.nodes} for "
                f"{format_duration(held)} of {format_duration(run.seconds)} only"
                if held
                else f"the emulated nodes of K={run.nodes} were not limited"
            )
            return _invalid(_LIMITS, evidence, remedy)
    if late:
        evidence = "the limits did not begin with the timed region"
        return Check(
            rule=_LIMITS, verdict="fail", evidence=evidence, remedy=remedy, makes="doubtful"
        )
    return None


def _quota_check(runs: Sequence[Run], period: float) -> Check:
    """Whether the quotas of the nodes held."""
    shares = [_received_cpu(run, at, period) for run in runs for at in range(run.nodes)]
    known = [share for share in shares if share is not None]
    most = max(known, default=0.0)
    if most <= QUOTA_HELD and len(known) < len(shares):
        return _not_counted("the CPU that a node received was not counted")
    if most > QUOTA_HELD:
        return Check(
            rule=_LIMITS,
            verdict="fail",
            evidence=f"a node received {most:.2f} times its CPU share",
            remedy="Repeat on a quieter machine.",
            makes="invalid" if most > _NOT_LIMITED else "doubtful",
        )
    evidence = f"emulated nodes; each received at most {most:.2f} of its quota"
    return Check(rule=_LIMITS, verdict="pass", evidence=evidence)


def _pace_doubt(paced: Sequence[Run]) -> Check | None:
    """A doubt about the pacing of the paced runs; None without a doubt."""
    escapes = [(run.nodes, _escapes_pace(run, at)) for run in paced for at in range(run.nodes)]
    for nodes, escaped in escapes:
        if escaped:
            evidence = f"at K={nodes} processes ran that the probe does not pace"
            return _invalid(_LIMITS, evidence, 'Use cpu = "quota" in the rehearsal.')
    if any(escaped is None for _, escaped in escapes):
        return _not_counted("every rank was paced, but the CPU of a node was not counted")
    return None


def _not_counted(evidence: str) -> Check:
    remedy = "Run as root, or on a machine with writable control groups."
    return Check(rule=_LIMITS, verdict="unknown", evidence=evidence, remedy=remedy)


def _escapes_pace(run: Run, at: int) -> bool | None:
    """Whether a node computed more than its rank reports, or its rank was not paced at all.

    None: the CPU of the node was not counted.
    """
    rank = next((rank for rank in run.ranks if rank.rank == at), None)
    if rank is None or rank.pace is None:
        return True
    used, cores = (of_node(run, at, name) for name in ("cpu_seconds", "cores"))
    if used is None or cores is None:
        return None
    own = max(rank.pace.cpu_seconds, rank.usage.cpu_seconds if rank.usage is not None else 0.0)
    seconds = float(run.provenance.get("rehearsal_limited_seconds", 0.0))
    if seconds > _MOSTLY_TIMED * run.seconds:
        return False
    timed = min(run.seconds / seconds, 1.0) if seconds else 1.0  # the rest is warm-up
    return used * timed - own > _NOT_PACED * cores * run.seconds + _BESIDE_SECONDS


def _received_cpu(run: Run, at: int, period: float) -> float | None:
    """CPU of an emulated node against its quota; at either end a period more may be counted."""
    seconds = float(run.provenance.get("rehearsal_limited_seconds", 0.0))
    asked = of_node(run, at, "cpu_received_of_asked")
    return None if asked is None else asked * seconds / (seconds + 2 * period)


def failure_checks(study: Study) -> Iterator[Check]:
    """Scales at which every run failed, and single runs that did."""
    remedy = "See the study's runs.jsonl."
    if study.broken:
        listed = ", ".join(f"K={nodes} ({how})" for nodes, how in study.broken.items())
        evidence = f"every run failed at {listed}"
        yield warning(_WORKERS, evidence, remedy, key="workers", makes="doubtful")
    failed = {run.nodes for run in study.runs if run.outcome != "ok"} - set(study.broken)
    if failed:
        evidence = f"failed runs at K={_listed(sorted(failed))}"
        yield warning(_WORKERS, evidence, remedy, key="workers")


def baseline_check(times: "Timings") -> Check | None:
    """That the base is slower than the rest of the curve implies; None if it is not."""
    fitted, base = times.fitted_base_seconds, f"T({times.nodes[0]})"
    if fitted is None:
        return None
    ratio = float(times.seconds[0]) / fitted
    return warning(
        f"{base} fits the rest of the curve",
        f"{base} is {ratio:.2g} times what the curve implies; judged against {fitted:.4g} s",
        f"Re-measure {base} with the fastest correct program of that size.",
        key="slow-baseline",
        makes="doubtful",
    )


def load_check(study: Study) -> Check:
    """Whether the workers had the cores to themselves."""
    crowded = sorted({run.nodes for run in study.runs if run.provenance.get("oversubscribed")})
    if crowded:
        return Check(
            rule=_LOAD,
            verdict="fail",
            evidence=f"more workers than cores at K={_listed(crowded)}",
            remedy="Use more cores, or the rehearsal engine.",
            key="contention",
            makes="doubtful",
        )
    seen = [run for run in study.runs if run.contention is not None]
    loads = [run.contention for run in seen if run.contention is not None]
    shares = [_share_taken(run) for run in seen]
    worst = max(shares, default=0.0)
    unknown = not loads or any(load.run_delay is None for load in loads)
    if unknown and worst <= MUCH_LOAD:
        evidence = "waits for a core are not recorded in every run"
        return Check(rule=_LOAD, verdict="unknown", evidence=evidence, key="contention")
    return Check(
        rule=_LOAD,
        verdict="pass" if worst <= SOME_LOAD else "fail" if worst > MUCH_LOAD else "warn",
        evidence=f"{FOREIGN_LOAD} {format_percent(worst)} of the CPU",
        remedy="Repeat on a quieter machine." if worst > SOME_LOAD else "",
        key="contention",
        makes="doubtful" if worst > MUCH_LOAD else None,
    )


def foreign_load(study: Study) -> float | None:
    """The mean share of the CPU that other processes took; None if a run does not say."""
    runs = study.good_runs
    if not runs or any(run.contention is None for run in runs):
        return None
    return sum(map(_share_taken, runs)) / len(runs)


def _share_taken(run: Run) -> float:
    """What other load took of a run; of an emulated node, only what it was late by."""
    assert run.contention is not None
    late = run.contention.run_delay
    if late is not None and run.provenance.get("emulated"):
        return late
    return max(late or 0.0, run.contention.foreign_cpu)


def superlinear_check(times: "Timings") -> Check | None:
    """That scales are faster than ideal, against a base that fits; doubtful beyond the noise."""
    if times.fitted_base_seconds is not None:
        return None
    efficiencies = zip(times.nodes, times.efficiency(times.seconds), strict=True)
    above = [nodes for nodes, value in efficiencies if value > SUPERLINEAR]
    if not above:
        return None
    base = times.nodes[0]
    return warning(
        "superlinear speedup",
        f"faster than ideal at K={_listed(above)}: a cache effect, or a slow T({base})",
        f"Check that K={base} is the fastest correct run of that size.",
        key="superlinear",
        makes="doubtful" if superlinear(times.points).seen else None,
    )


def _invalid(rule: str, evidence: str, remedy: str, key: str = "") -> Check:
    return Check(
        rule=rule, verdict="fail", evidence=evidence, remedy=remedy, key=key, makes="invalid"
    )


def _amounts(study: Study) -> dict[int, float]:
    """The mean work of a run at each scale; nothing unless every run records it."""
    work: dict[int, list[float]] = {}
    for run in distributed_runs(study):
        if run.work is None or run.work <= 0:
            return {}
        work.setdefault(run.nodes, []).append(run.work)
    return {nodes: sum(work[nodes]) / len(work[nodes]) for nodes in sorted(work)}


def _numbers(study: Study, name: str) -> dict[int, float]:
    """A fact that is a number, by scale."""
    found = {run.nodes: run.facts.get(name) for run in distributed_runs(study)}
    return {nodes: float(value) for nodes, value in found.items() if isinstance(value, int | float)}


def _ends(values: Mapping[int, float]) -> list[tuple[int, float]]:
    """The first amount, and the last that differs most from it."""
    first, *others = sorted(values)
    last = max(others, key=lambda nodes: (abs(values[nodes] - values[first]), nodes))
    return [(first, values[first]), (last, values[last])]


def _listed(scales: Sequence[int]) -> str:
    return ", ".join(map(str, scales))
