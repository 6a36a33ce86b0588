"""What each rule asks of a claim, by the key of the rule: its answer with the evidence."""

import re
from collections.abc import Callable
from datetime import date
from itertools import pairwise

from nodewise.audit import detectors, serving
from nodewise.audit.case import FIXED, LATENCY, PREDICTED, RECOMMENDS, SETTINGS, SIZES, WARMUP, Case
from nodewise.audit.own_study import Answer, answer_of
from nodewise.base.stats import ENOUGH_ROUNDS
from nodewise.base.units import format_duration, format_efficiency, format_percent
from nodewise.explain.baseline import Detection, superlinear
from nodewise.explain.quality import DriftState, quality_drifts
from nodewise.explain.validity import changed_amount, load_check, rank_check
from nodewise.study.check import Verdict
from nodewise.study.titles import Column, amount, regime_of_amounts

_OF_QUALITY: tuple[tuple[DriftState, Verdict, str], ...] = (
    ("excluded", "fail", "not held"),
    ("undecided", "warn", "undecided"),
)
_MOST_DIGITS = 4  # of a ratio without a stated spread: no machine repeats to a ten-thousandth
_DIVIDED = 0.03  # relative: how far a rate per device may be from the total over K
_TIMED_SHARE = 0.5  # below, most of the job lies outside of what is shown as the job
_FACTORS = ("cpu", "cores", "kernel", "command", "commit")
_CAUSE = re.compile(
    r"communicat|all-?reduce|network|bandwidth|serial|imbalance|straggl|latency|contention", re.I
)
_YEAR = re.compile(r"\b20\d\d\b")
_ENERGY_SAID = re.compile(
    r"rapl|nvml|\bpdu\b|\bpsu\b|meter|ipmi|measured|modell?ed|estimated|\btdp\b", re.I
)
_COUNT = re.compile(
    r"(?:mean|median|average|best|min\w*|fastest)\s+of\s+(\d+)|\b(\d+)\s+(?:runs|repeats|trials)"
    r"|\bn\s*=\s*(\d+)",
    re.I,
)
_CENTER = re.compile(r"\b(mean|median|average[ds]?)\b[^.]{0,20}\b\d+\b", re.I)
_ONE_STEP = re.compile(
    r"\b(read|taken|reported|measured|logged)\b[^.\n]{0,20} at (the )?(\d+(st|nd|rd|th) "
    r"(iteration|step)|(iteration|step) \d+)",
    re.I,
)
_OWN_BATCH = re.compile(r"batch", re.I)
_ALL_BATCH = re.compile(r"(global|total|effective)[ -]batch", re.I)
_HOLDS_RATE = 0.85  # a rate per device that holds like this over four times K and more
_LEVELS_OFF = 0.3  # of the memory at the base: what each device keeps however many there are
_LONG_AGO = 30  # days between the base and the rest
_PERCENTILE = re.compile(r"\bp\d\d|percentile|median|\bmax(imum)?\b|\btail\b", re.I)
_BEST = re.compile(r"\b(best|fastest|minimum|min) of \d+|\bbest run\b", re.I)


def _of(detection: Detection) -> Answer:
    """A detection as an answer: found is a failure, undecided is unknown."""
    verdicts: dict[bool | None, Verdict] = {True: "fail", False: "pass", None: "unknown"}
    return Answer(verdicts[detection.seen], detection.evidence)


def _baseline(case: Case) -> Answer:
    if case.slow.seen:
        return _of(case.slow)
    base = case.study.scales[0]
    if not case.claim.has_seconds and case.unread:
        return Answer(
            "unknown", f"'{case.unread}' could not be read, and the other columns are ratios"
        )
    if not case.claim.has_seconds:
        return Answer("fail", f"no seconds are given for K={base}, only ratios")
    if base != 1:
        return Answer("unknown", f"the base is K={base}: losses below it are not shown")
    if "seconds" not in case.claim.columns and case.claim.source is None:
        return Answer("unknown", "a rate at K=1 is given for a program that is not described")
    seconds = format_duration(case.scaling.rows[0].seconds)
    return Answer("unknown", f"T(1) = {seconds} for a program that is not described")


def _workload(case: Case) -> Answer:
    claim = case.claim
    grows = _growing_size(case)
    if grows is not None:
        return grows
    told = {column: claim.by_scale(column) for column in FIXED}
    if "batch" not in claim.columns and "local_batch" in claim.columns:
        local = claim.by_scale("local_batch")
        told["batch"] = {nodes: nodes * own for nodes, own in local.items()}
        steady = max(local.values()) <= 1.01 * min(local.values())
        fixed = claim.regime == "strong" or claim.main == "seconds"
        if steady and claim.assumed_regime == "strong" and fixed:
            evidence = "the batch of each worker is fixed, so the global batch grows with K"
            return Answer("fail", evidence)
        if steady:
            return Answer("pass", "the share of each worker is fixed")
    said = []
    for column, values in told.items():
        if not values or min(values.values()) <= 0:
            continue
        # only the total grows in weak scaling; steps and epochs stay in both regimes
        may_grow = column in ("work", "batch")
        found = changed_amount(values, case.study.regime if may_grow else "strong")
        if found.seen and may_grow and claim.regime is None:
            found = min(found, changed_amount(values, "weak"), key=lambda one: bool(one.seen))
        if found.seen:
            return Answer("fail", f"{column} changes, {found.evidence}")
        said.append(f"{column} {found.evidence}")
    return Answer("pass", "; ".join(said)) if said else Answer("unknown", "no amount is above 0")


def _growing_size(case: Case) -> Answer | None:
    """A model or a problem whose size changes with K, and not as weak scaling asks."""
    claim = case.claim
    for column in SIZES:
        words = claim.words(column)
        sizes = {nodes: amount(min(some)) for nodes, some in words.items()}
        if column not in claim.columns or len(sizes) < 2 or not all(sizes.values()):
            continue
        if len(set(sizes.values())) == 1 or regime_of_amounts(sizes) == "weak":
            continue
        if column == "size" and "weak" in (claim.regime, claim.read_regime):
            continue  # how work depends on the grid is not stated
        shown = ", ".join(f"{min(words[nodes])} at K={nodes}" for nodes in list(words)[:4])
        name = "the model" if column == "model" else "the problem"
        return Answer("fail", f"{name} changes with K: {shown}")
    return None


def _warmup(case: Case) -> Answer:
    if said := case.quote(WARMUP):
        return Answer("pass", f"stated: {said}")
    setups = [run.setup_seconds for run in case.runs if run.setup_seconds is not None]
    return Answer("pass", f"setup of up to {format_duration(max(setups))} is reported separately")


def _repeats(case: Case) -> Answer:
    rounds = case.study.rounds
    stated = case.claim.by_scale("rounds")
    said = _COUNT.search(case.claim.text)
    if said_once := case.quote(_ONE_STEP):
        return Answer("fail", f"one iteration is reported as the run: {said_once}")
    if stated:
        rounds = int(min(stated.values()))
    elif rounds == 1 and said:
        rounds = int(next(group for group in said.groups() if group))
    elif rounds == 1:
        return Answer("unknown", "one value per scale; number of runs not stated")
    spread = rounds and ("std" in case.claim.columns or case.study.rounds > 1)
    shown = "with their spread" if spread else "without a spread"
    verdict: Verdict = "pass" if rounds >= ENOUGH_ROUNDS and spread else "fail"
    return Answer(verdict, f"{rounds} runs at each scale, {shown}")


def _regime(case: Case) -> Answer:
    claim = case.claim
    declared, shown = claim.regime, claim.shown_regime
    if shown == "weak" and declared != "weak" and "speedup" in claim.columns:
        return Answer("fail", "the work grows with K, but it is drawn as strong scaling")
    if declared == "strong" and (own := _own_share(case)):
        return Answer("fail", own)
    if declared is None:
        seen = f"; the work column shows {shown} scaling" if shown else ""
        return Answer("unknown", f"strong or weak scaling is not stated{seen}")
    if shown is not None and shown != declared:
        return Answer("fail", f"declared {declared}, and the work column shows {shown} scaling")
    agrees = ", and the work column agrees" if shown else ""
    return Answer("pass", f"declared {declared}{agrees}")


def _own_share(case: Case) -> str:
    """Evidence for a fixed share of each device in a table titled strong scaling."""
    claim, rows = case.claim, case.scaling.rows
    least = min(row.efficiency for row in rows)
    span = claim.scales[-1] / claim.scales[0]
    words = case.quote(_OWN_BATCH)
    if not case.per_device or span < 4 or least < _HOLDS_RATE or not words:
        return ""
    if _ALL_BATCH.search(claim.text) or "batch" in claim.columns:
        return ""
    memory = claim.by_scale("memory")
    if memory:
        (first, base), *_, (last, end) = memory.items()
        kept = (last * end - first * base) / (last - first)  # of memory = kept + shared out / K
        if kept < _LEVELS_OFF * base:
            return ""
    return (
        f"titled strong, but '{case.per_device}' is the rate of each device and holds "
        f"{format_efficiency(least)} of the base over {span:g} times K ({words}): each device kept "
        "its own batch, which is weak scaling"
    )


def _efficiency(case: Case) -> Answer:
    least = min(case.scaling.rows, key=lambda row: row.efficiency)
    reached = f"the least is {format_efficiency(least.efficiency)} at K={least.nodes}"
    if "efficiency" in case.claim.columns:
        return Answer("pass", f"efficiency is given at every K; {reached}")
    if "speedup" in case.claim.columns:
        return Answer("fail", f"speedup without efficiency; {reached}")
    return Answer("pass", f"no speedup is claimed; from the figures {reached}")


def _straight(case: Case) -> Answer:
    answer = _of(detectors.too_straight(case.points))
    if answer.verdict != "fail":
        return answer
    of_rates = case.claim.main == "throughput" and case.claim.regime is None
    if case.claim.source is None and (case.study.regime == "weak" or of_rates):
        return Answer("unknown", f"{answer.evidence}, which weak scaling may be")
    mistakes = "a baseline that is too slow, and a problem that changes between the points"
    return Answer("fail", f"{answer.evidence}. Two mistakes look like this: {mistakes}")


def _seconds(case: Case) -> Answer:
    if not case.claim.has_seconds and case.unread:
        return Answer(
            "unknown", f"'{case.unread}' could not be read, and the other columns are ratios"
        )
    if not case.claim.has_seconds:
        return Answer("fail", "only ratios are given")
    if "seconds" in case.claim.columns or case.claim.source is not None:
        return Answer("pass", "times are given at every K")
    return Answer("pass", "rates are given at every K")


def _columns(case: Case) -> Answer:
    wrong = _wrong_division(case)
    if wrong:
        return Answer("fail", wrong)
    times, rates = case.figures("seconds"), case.figures("throughput")
    return _of(
        detectors.column_mismatch(
            case.study.scales,
            times or rates,
            case.figures("speedup"),
            case.figures("efficiency"),
            case.study.regime,
            is_rate=times is None,
        )
    )


def _wrong_division(case: Case) -> str:
    """A rate per device that is not the total over K, nor over the nodes."""
    totals, own = case.claim.by_scale("throughput"), case.claim.by_scale("device_rate")
    shared = case.claim.scale_unit.per_node or 1
    for nodes, total in totals.items():
        if nodes not in own or own[nodes] <= 0:
            continue
        by = total / own[nodes]
        if min(abs(by / nodes - 1), abs(by * shared / nodes - 1)) > _DIVIDED:
            return f"at K={nodes} the rate per device is the total over {by:.4g}, not over {nodes}"
    return ""


def _averaged(case: Case) -> Answer:
    if case.way == "mean of ratios":
        return Answer("fail", "the speedups are means of the ratios of single runs")
    for row in case.claim.summary:
        for column in ("speedup", "efficiency"):
            values = [r[column].value for r in case.claim.rows if column in r]
            written = row.get(column)
            if written is not None and values and min(values) > 0:
                return _of(detectors.averaged_ratios(values, (written.value, written.half)))
    if case.way == "ratio of means":
        return Answer("pass", "the speedups are ratios of means or medians")
    return Answer("unknown", "neither a summary nor repeats are given with the ratios")


def _digits(case: Case) -> Answer:
    claim = case.claim
    spreads = claim.by_scale("std")
    figures = case.figures("seconds") or case.figures("throughput")
    if spreads and figures:
        return _of(detectors.idle_digits(figures, list(spreads.values())))
    written = [
        row[column] for row in claim.rows for column in ("speedup", "efficiency") if column in row
    ]
    most = max((figure.digits for figure in written), default=0)
    if most > _MOST_DIGITS + 1:
        return Answer("fail", f"ratios with {most} digits and no spread of them")
    if case.study.rounds > 1:
        return Answer("unknown", "raw runs have no rounded figures")
    return Answer("unknown", "no spread is given, so the digits cannot be judged")


def _identical(case: Case) -> Answer:
    return _of(detectors.identical_repeats(case.samples))


def _seeds(case: Case) -> Answer:
    seen: dict[int, list[str]] = {}
    for row in case.claim.rows:
        seen.setdefault(int(row["nodes"].value), []).append(row["seed"].text)
    if max(len(seeds) for seeds in seen.values()) < 2:
        return Answer("unknown", "one run per scale: no seed can repeat")
    twice = [nodes for nodes, seeds in seen.items() if len(set(seeds)) < len(seeds)]
    if twice:
        return Answer("fail", f"runs share a seed at K={', '.join(map(str, twice))}")
    return Answer("pass", "no two runs of a scale share a seed")


def _best_of(case: Case) -> Answer:
    if case.claim.selected:
        return Answer("fail", "a column title says that the best time was taken")
    if said := case.quote(_BEST):
        return Answer("fail", f"stated: {said}")
    if case.way == "best of the repeats":
        return Answer("fail", "the speedups follow from the best repeat at each K, not the mean")
    if case.way == "ratio of means":
        return Answer("pass", "the speedups follow from all repeats")
    if center := case.quote(_CENTER):
        return Answer("pass", f"stated: {center}")
    if case.study.rounds > 1:
        return Answer("pass", f"all {case.study.rounds} rounds are included")
    return Answer("unknown", "not stated whether a figure is a mean or the best run")


def _missing_runs(case: Case) -> Answer:
    declared = case.study.spec
    present = {nodes: sorted(run.round for run in case.study.at(nodes)) for nodes in
               case.study.scales}  # fmt: skip
    failed = sum(run.outcome != "ok" for run in case.study.runs)
    counts = {nodes: len(rounds) for nodes, rounds in present.items()}
    most = max(counts.values()) if declared is None else declared.rounds
    short = [
        nodes
        for nodes, rounds in present.items()
        if counts[nodes] < most or rounds != list(range(rounds[0], rounds[0] + len(rounds)))
    ]
    if short and not failed:
        where = ", ".join(map(str, short[:6]))
        return Answer("fail", f"runs are missing at K={where}, of up to {most} at a scale")
    kept = f"; {failed} failed runs are kept" if failed else ""
    return Answer("pass", f"{sum(counts.values())} numbered runs without a gap{kept}")


def _quality(case: Case) -> Answer:
    needs = case.question.needs
    drifts = quality_drifts(case.study)
    if drifts is None:
        return Answer("unknown", "not every run has its quality")
    states = [drift.state(needs.quality_tolerance, needs.quality_better) for drift in drifts]
    where = {"split", "seed"} & case.claim.columns
    told = "" if where else "; split and seed are not stated"
    largest = max(drifts, key=lambda drift: abs(drift.value))
    found = f"largest drift {abs(largest.value):.3g}, tolerance {needs.quality_tolerance:g}"
    for state, verdict, words in _OF_QUALITY:
        scales = [n for n, one in zip(case.study.scales, states, strict=True) if one == state]
        if scales:
            return Answer(verdict, f"{words} at K={', '.join(map(str, scales))}: {found}{told}")
    return Answer("pass", f"held at every K: {found}{told}")


def _workers(case: Case) -> Answer:
    ranks = rank_check(case.study)
    assert ranks is not None
    return answer_of(ranks)


def _divides(case: Case) -> Answer:
    column: Column = "batch" if "batch" in case.claim.columns else "work"
    if "parallelism" in case.claim.columns or min(case.claim.by_scale(column).values()) < max(
        case.claim.scales
    ):
        return Answer("unknown", f"how the {column} is split over K is not stated")
    uneven = {}
    for nodes, pieces in case.claim.by_scale(column).items():
        if pieces == int(pieces) and int(pieces) % nodes:
            share = (
                -(-pieces // nodes) * nodes / pieces - 1
            )  # idle, where the last piece runs alone
            uneven[nodes] = share
    if not uneven:
        return Answer("pass", f"the {column} divides by every K")
    worst = max(uneven, key=lambda nodes: uneven[nodes])
    named = ", ".join(map(str, uneven))
    evidence = f"the {column} does not divide by K={named}; up to {format_percent(uneven[worst])}"
    # a remainder of a large job does not matter
    verdict: Verdict = "fail" if uneven[worst] > 0.01 else "pass"
    return Answer(verdict, f"{evidence} idles")


def _parallel_time(case: Case) -> Answer:
    for run in case.runs:
        longest = max((rank.seconds or sum(rank.stages.values()) for rank in run.ranks), default=0)
        if longest > 1.02 * run.seconds:
            evidence = (
                f"at K={run.nodes} a rank took {format_duration(longest)}, the run is reported "
            )
            return Answer("fail", evidence + f"as {format_duration(run.seconds)}")
    return Answer("pass", "no rank took longer than its run")


def _setup_share(case: Case) -> Answer:
    timed = sum(run.seconds for run in case.runs)
    outside = sum(run.setup_seconds or 0.0 for run in case.runs)
    share = timed / (timed + outside)
    verdict: Verdict = "pass" if share >= _TIMED_SHARE else "fail"
    return Answer(verdict, f"the times cover {format_percent(share)} of set-up and run together")


def _order(case: Case) -> Answer:
    ordered = [run.nodes for run in sorted(case.runs, key=lambda run: run.started)]
    changes = sum(a != b for a, b in pairwise(ordered))
    if case.study.rounds < 2:
        return Answer("unknown", "one run per scale: no order to check")
    if len({run.started for run in case.runs}) < len(case.runs):
        return Answer("unknown", "several runs have the same start time")
    if changes == len(case.study.scales) - 1:
        return Answer("fail", "all runs of a scale were made in a row, so drift looks like scaling")
    return Answer("pass", f"the scale changed {changes} times in {len(ordered)} runs")


def _percentile(case: Case) -> Answer:
    if named := case.quote(_PERCENTILE):
        return Answer("pass", f"stated: {named}")
    return Answer("fail", f"the percentile is not stated: {case.quote(LATENCY)}")


def _caches(case: Case) -> Answer:
    states = sorted({str(run.facts.get("cache_state", "not stated")) for run in case.runs})
    if len(states) > 1:
        return Answer("fail", f"runs differ: {', '.join(states)}")
    return Answer("pass", f"{states[0]} in every run")


def _factors(case: Case) -> Answer:
    runs = [run for run in case.runs if not run.baseline]
    missing = [name for name in _FACTORS if any(name not in run.provenance for run in runs)]
    if missing:
        return Answer("fail", f"not recorded with every run: {', '.join(missing)}")
    if any(run.provenance.get("uncommitted_changes") for run in runs):
        return Answer("fail", "the code that ran had uncommitted changes")
    return Answer("pass", f"{', '.join(_FACTORS)} recorded for every run")


def _significant(case: Case) -> Answer:
    if case.study.rounds < ENOUGH_ROUNDS:
        return Answer("unknown", f"{case.study.rounds} rounds are too few to tell")
    alike = [row.nodes for row in case.scaling.rows[1:] if row.faster is None]
    if alike:
        base = case.study.scales[0]
        named = ", ".join(map(str, alike))
        return Answer("fail", f"K={named} cannot be distinguished from K={base} by these runs")
    return Answer("pass", "every scale differs from the base by more than its noise")


def _contention(case: Case) -> Answer:
    return answer_of(load_check(case.study))


def _same_place(case: Case) -> Answer:
    said = []
    for column in SETTINGS:
        words = case.claim.words(column)
        if not words or len(words) < len(case.study.scales):
            continue
        distinct = {frozenset(values) for values in words.values()}
        if len(distinct) == len(words) > 2:
            continue  # a name of each row, not a setting
        if len(distinct) > 1:
            base = case.study.scales[0]
            others = [value for nodes, value in words.items() if nodes != base]
            alone = words[base] not in others and len({frozenset(o) for o in others}) == 1
            where = f"K={base} alone has" if alone else f"{column} changes with K:"
            shown = " ".join(sorted(words[base])) if alone else "; ".join(
                sorted({" ".join(sorted(values)) for values in words.values()})
            )  # fmt: skip
            return Answer("fail", f"{where} {shown}")
        said.append(f"{column} {' '.join(sorted(next(iter(words.values()))))}")
    apart = _days_apart(case)
    if apart > _LONG_AGO:
        return Answer("fail", f"the base was measured {apart} days before the rest")
    if said:
        return Answer("pass", f"the same at every K: {'; '.join(said)}")
    return Answer("unknown", "not stated for every K")


def _days_apart(case: Case) -> int:
    """Days from the date of the smallest K to the next date; 0 where dates are not given."""
    days = {}
    for nodes, words in case.claim.words("date").items():
        try:
            days[nodes] = min(date.fromisoformat(word.strip()) for word in words)
        except ValueError:
            return 0
    if len(days) < 2 or len(days) < len(case.study.scales):
        return 0
    base, *rest = days.values()
    return (min(rest) - base).days


def _predicted(case: Case) -> Answer:
    claim = case.claim
    if claim.predicted:
        named = ", ".join(map(str, claim.predicted))
        if case.tells_kinds or any(
            PREDICTED.search(figure.text) for row in claim.rows for figure in row.values()
        ):
            return Answer("pass", f"K={named} is marked as not run")
        if PREDICTED.search(claim.text):
            return Answer("pass", f"K={named} is marked, and the text explains the mark")
        return Answer("unknown", f"K={named} is marked, and nothing explains the mark")
    if claim.source is not None:
        return Answer("pass", "every point was measured")
    if case.tells_kinds:
        return Answer("pass", "every row says whether it was measured")
    return Answer("fail", f"no row is marked, but the text says: {case.quote(PREDICTED)}")


def _price(case: Case) -> Answer:
    text = case.claim.text + case.question.price.source
    if "price_date" in case.claim.columns or _YEAR.search(text):
        return Answer("pass", "a price is given with its date")
    return Answer("fail", "a price is given without a date")


def _energy(case: Case) -> Answer:
    sources = {str(run.provenance.get("energy_source", "")) for run in case.runs} - {""}
    if how := ", ".join(sorted(sources)) or case.quote(_ENERGY_SAID):
        return Answer("pass", f"method stated: {how}")
    return Answer("fail", "energy is reported without a measurement method")


def _attribution(case: Case) -> Answer:
    said = case.quote(RECOMMENDS)
    if not said:
        return Answer("pass", "nodewise recommends only with an identified cause")
    if _CAUSE.search(case.claim.text):
        return Answer("pass", "the recommendation names a cause")
    return Answer("fail", f"the recommendation names no cause: {said}")


PREDICATES: dict[str, Callable[[Case], Answer]] = {
    "baseline": _baseline,
    "workload": _workload,
    "warmup": _warmup,
    "repeats": _repeats,
    "regime": _regime,
    "efficiency": _efficiency,
    "slow-baseline": lambda case: _of(case.slow),
    "changed-problem": lambda case: _of(detectors.bends_back(case.points)),
    "straight": _straight,
    "superlinear": lambda case: _of(superlinear(case.points)),
    "seconds": _seconds,
    "columns": _columns,
    "averaged-ratios": _averaged,
    "digits": _digits,
    "identical": _identical,
    "seeds": _seeds,
    "best-of": _best_of,
    "missing-scales": lambda case: _of(detectors.missing_scales(case.study.scales)),
    "missing-runs": _missing_runs,
    "quality": _quality,
    "workers": _workers,
    "divides": _divides,
    "parallel-time": _parallel_time,
    "setup-share": _setup_share,
    "percentile": _percentile,
    "caches": _caches,
    "factors": _factors,
    "order": _order,
    "independent": lambda case: _of(detectors.dependent_repeats(case.samples)),
    "significant": _significant,
    "contention": _contention,
    "same-place": _same_place,
    "predicted": _predicted,
    "price": _price,
    "energy": _energy,
    "attribution": _attribution,
    "serving-tokens": lambda case: serving.tokens(case.claim),
    "serving-devices": lambda case: serving.devices(case.claim),
    "serving-loop": lambda case: serving.loop(case.claim),
    "serving-percentile": lambda case: serving.percentile(case.claim),
    "serving-cache": lambda case: serving.cache(case.claim),
    "serving-one-run": lambda case: serving.one_run(case.claim),
}
# What a rule reads besides K and the measure of the curve.
RESTS_ON: dict[str, tuple[Column, ...]] = {
    "workload": ("nodes", *FIXED, *SIZES, "local_batch"),
    "columns": ("nodes", "seconds", "throughput", "device_rate", "speedup", "efficiency"),
    "averaged-ratios": ("speedup", "efficiency"),
    "digits": ("speedup", "efficiency", "std"),
    "quality": ("nodes", "quality"),
    "divides": ("nodes", "batch", "work"),
    "same-place": ("nodes", *SETTINGS, "date"),
    "price": ("price",),
    "energy": ("energy", "power"),
    "regime": ("nodes", "throughput", "memory", "work", "batch"),
    "seeds": ("nodes", "seed"),
}
# Rules that judge the shape of the curve: they ask which column is K and which is the measure.
OF_CURVE = frozenset({
    "baseline", "slow-baseline", "changed-problem", "straight", "superlinear", "columns", "regime",
    "significant", "missing-scales", "efficiency", "seconds",
})  # fmt: skip
