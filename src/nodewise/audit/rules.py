"""The honesty rules, asked of a claim: pass, fail or unknown, each with its evidence.

What a rule is called, needs, weighs and comes from is data (rules.toml); here stand the
predicates, by key. The same rules judge a claimed table and a study of ours: what a measured study
answers for itself (`audit.answers`) goes before what its figures show.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from datetime import date
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from nodewise.audit import detectors, serving
from nodewise.audit.detectors import Summary
from nodewise.audit.own_study import Answer, answer_of, answers, own_checks
from nodewise.base.stats import ENOUGH_ROUNDS, Floats
from nodewise.base.units import format_duration, format_efficiency, format_percent
from nodewise.decide.inputs import Question, ask, read_tables
from nodewise.explain.baseline import Detection, Points, points_of, slow_baseline, superlinear
from nodewise.explain.quality import DriftState, quality_drifts
from nodewise.explain.scaling import THRESHOLD, Scaling, scale
from nodewise.explain.validity import changed_amount, load_check, rank_check
from nodewise.study.check import Check, Verdict
from nodewise.study.claim import Claim, ColumnReading, claim_of_study
from nodewise.study.study import Run, Study
from nodewise.study.titles import Column, amount, regime_of_amounts

Severity = Literal["fail", "warn"]
Need = Literal[
    "curve", "work", "words", "two columns", "ratios", "written", "repeats", "seeds", "rounds",
    "quality", "ranks", "pieces", "rank times", "setup", "starts", "contention", "settings",
    "kinds", "price", "energy", "decision", "latency", "cache state", "provenance", "serving",
]  # fmt: skip
_OF_QUALITY: tuple[tuple[DriftState, Verdict, str], ...] = (
    ("excluded", "fail", "not held"),
    ("undecided", "warn", "undecided"),
)
Standing = Literal["fails", "suspect", "open", "holds"]

_MOST_DIGITS = 4  # of a ratio without a stated spread: no machine repeats to a ten-thousandth
_DIVIDED = 0.03  # relative: how far a rate per device may be from the total over K
_TIMED_SHARE = 0.5  # below, most of the job lies outside of what is shown as the job
_FACTORS = ("cpu", "cores", "kernel", "command", "commit")
_FIXED: tuple[Column, ...] = ("work", "batch", "steps", "epochs")
_SIZES: tuple[Column, ...] = ("model", "size")
_SETTINGS: tuple[Column, ...] = ("precision", "machine", "settings")
_WARMUP = re.compile(r"warm-?\s?up|steady[- ]state|excluding (the )?(set-?up|start-?up)", re.I)
_RECOMMENDS = re.compile(
    r"\b(recommend\w*|sweet spot|best choice|should (buy|use|run))\b[^.\n]{0,60}\d", re.I
)
_CAUSE = re.compile(
    r"communicat|all-?reduce|network|bandwidth|serial|imbalance|straggl|latency|contention", re.I
)
_YEAR = re.compile(r"\b20\d\d\b")
# Said of points of the curve: a model may predict, and a layer may project.
_PREDICTED = re.compile(
    r"\d[\d,]*\*?( \w+)? (is|are|was|were) (an? )?(extrapolat|predict|project|estimat)\w*|"
    r"(extrapolat\w+|(projected|predicted|estimated|modell?ed)) (\w+ ){0,2}"
    r"(points?|values?|scal\w+|speed-?ups?|throughputs?|nodes|gpus|cores|(from|to|at) \d)|"
    r"\ba (prediction|projection|extrapolation)\b",
    re.I,
)
_KIND = re.compile(r"measured|predict|project|extrapolat|modell?ed|simulat|estimat", re.I)
_ENERGY_SAID = re.compile(
    r"rapl|nvml|\bpdu\b|\bpsu\b|meter|ipmi|measured|modell?ed|estimated|\btdp\b", re.I
)
_COUNT = re.compile(
    r"(?:mean|median|average|best|min\w*|fastest)\s+of\s+(\d+)|\b(\d+)\s+(?:runs|repeats|trials)"
    r"|\bn\s*=\s*(\d+)",
    re.I,
)
_CENTER = re.compile(r"\b(mean|median|average[ds]?)\b[^.]{0,20}\b\d+\b", re.I)
# of a service; that of a link is a cause
_LATENCY = re.compile(
    r"(?<!network )(?<!link )(?<!message )(?<!memory )\b(latenc(y|ies)|response times?)"
    r" (of|at|is|was|under|below|=|:|stays?|averages?)",
    re.I,
)
_MONEY = re.compile(r"(?<![\w$])[$€]\s?\d[\d.,]*\s*(/|per|an?|each)\s*\w+", re.I)
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


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of the list."""

    key: str
    rule: str
    needs: tuple[Need, ...]
    severity: Severity
    remedy: str
    source: str
    unknown: str = ""
    question: str = ""
    applies: Literal["all", "serving"] = "all"
    ask: Literal["always", "when broken"] = "always"


class RuleCheck(Check, frozen=True, kw_only=True):
    """A row of the checklist with the rule behind it."""

    key: str
    severity: Severity
    source: str
    cells: tuple[str, ...] = ()  # of the claimed table, that an accusation rests on

    @property
    def shown_verdict(self) -> Verdict:
        """As a reader sees it: a light rule that is broken is a warning."""
        return "warn" if self.verdict == "fail" and self.severity == "warn" else self.verdict


class CorrectedRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale as claimed and with the base that the rest of the curve implies."""

    nodes: int
    claimed_speedup: float
    claimed_efficiency: float
    speedup: float
    efficiency: float


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """The curve with an honest baseline; computed, not measured."""

    factor: float
    factor_low: float | None
    factor_high: float | None
    threshold: float
    claimed_bend: int | None
    bend: int | None
    rows: tuple[CorrectedRow, ...]

    @property
    def sentence(self) -> str:
        """Where the bend goes."""
        if self.bend == self.claimed_bend:
            last = self.rows[-1]
            return (
                f"with an honest baseline the efficiency at K={last.nodes} is "
                f"{last.efficiency:.2f}, not {last.claimed_efficiency:.2f}"
            )
        bend = "nowhere" if self.bend is None else f"at {self.bend}"
        claimed = "nowhere" if self.claimed_bend is None else str(self.claimed_bend)
        return f"with an honest baseline the bend is {bend}, not {claimed}"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of one claim, what to ask its author, and the curve that is left."""

    name: str
    standing: Standing
    verdict: str
    checks: tuple[Check, ...]
    questions: tuple[str, ...]
    correction: Correction | None
    scaling: Scaling
    notes: tuple[str, ...]
    reading: tuple[ColumnReading, ...] = ()
    second_reading: str = ""

    @property
    def passes(self) -> bool:
        """Whether no rule of severity `fail` failed, nor a gate of the spec."""
        return not any(is_grave(check) for check in self.checks if check.verdict == "fail")


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a TOML text, in their order; each must have its predicate."""
    rules = msgspec.convert(tomllib.loads(text)["rule"], tuple[Rule, ...])
    strangers = {rule.key for rule in rules} ^ set(_PREDICATES)
    if strangers:
        raise ValueError(f"rules and predicates differ in: {', '.join(sorted(strangers))}")
    return rules


def read_rules() -> tuple[Rule, ...]:
    """The rules that ship with nodewise."""
    return parse_rules(files("nodewise.audit").joinpath("rules.toml").read_text("utf-8"))


def audit(claim: Claim, rules: Sequence[Rule], threshold: float = THRESHOLD) -> Audit:
    """Ask every rule; where a table can be read in two ways, accuse only of what holds in both."""
    case = _case_of(claim, threshold)
    asked = [rule for rule in rules if rule.applies == "all" or "serving" in case.has]
    if claim.second is None:
        answered = [_ask(rule, case) for rule in asked]
    else:
        other = _case_of(claim.second, threshold)
        answered = [_in_both(_answer(rule, case), _answer(rule, other)) for rule in asked]
    checks = (*answered, *case.own_checks)
    slow = any(check.key == "slow-baseline" and check.verdict == "fail" for check in answered)
    correction = _correct(case) if slow else None
    standing, verdict = _verdict(claim.name, checks, correction)
    return Audit(
        name=claim.name,
        standing=standing,
        verdict=verdict,
        checks=checks,
        questions=_questions(asked, answered),
        correction=correction,
        scaling=case.scaling,
        notes=claim.notes,
        reading=claim.reading,
        second_reading=claim.second_reading,
    )


def _case_of(claim: Claim, threshold: float) -> "_Case":
    assert claim.study is not None
    asked = ask(Question(), read_tables(claim.study.asked))
    return _Case(claim, claim.study, scale(claim.study, threshold), asked)


def _in_both(check: RuleCheck, other: RuleCheck) -> RuleCheck:
    """A broken rule stays broken only where the second reading breaks it too."""
    if check.verdict != "fail" or other.verdict == "fail":
        return check
    evidence = f"not judged: {check.evidence}, but only in one of two readings"
    return msgspec.structs.replace(check, verdict="unknown", evidence=evidence, remedy="", cells=())


def check_study(
    study: Study, scaling: Scaling, rules: Sequence[Rule], question: Question
) -> tuple[Check, ...]:
    """Every rule, asked of a study whose scaling is known."""
    case = _Case(claim_of_study(study), study, scaling, question)
    asked = (rule for rule in rules if rule.applies == "all")
    return (*(_ask(rule, case) for rule in asked), *case.own_checks)


def is_grave(check: Check) -> bool:
    """Whether breaking it voids a claim: a rule of severity fail, or a gate of the spec."""
    return check.is_gate or (isinstance(check, RuleCheck) and check.severity == "fail")


class _Case:
    """A claim with what the predicates ask for, each computed once."""

    def __init__(self, claim: Claim, study: Study, scaling: Scaling, question: Question) -> None:
        self.claim = claim
        self.question = question
        self.study = study
        self.scaling = scaling

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """What a study that was measured here answers for itself."""
        spec = self.study.spec
        return {} if spec is None else answers(self.study, spec, self.scaling)

    @property
    def own_checks(self) -> tuple[Check, ...]:
        """What only a study that was measured here is asked."""
        spec = self.study.spec
        return (
            () if spec is None else own_checks(self.study, self.question.needs, spec, self.scaling)
        )

    def cite(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """The cells of these columns, as written, with the K that they belong to."""
        titles = {one.column: one.title for one in self.claim.reading if one.column}
        return tuple(
            f"{titles[column]} = {row[column].text} at K={row['nodes'].text}"
            for row in self.claim.rows
            for column in columns
            if column in row and column in titles and row[column].text
        )

    @property
    def guessed(self) -> str:
        """The column of the curve that was only guessed; empty where titles or units say it."""
        main = self.claim.main
        return next(
            (one.title for one in self.claim.reading
             if one.confidence == "guess" and one.column in ("nodes", main)),
            "",
        )  # fmt: skip

    @property
    def unread(self) -> str:
        """A column of figures without a known name: it may hold what seems to be missing."""
        return next(
            (one.title for one in self.claim.reading
             if one.column is None and re.search(r"\d", one.shown)),
            "",
        )  # fmt: skip

    @cached_property
    def per_device(self) -> str:
        """The title of the measure, where it is the rate of each device."""
        return next(
            (one.title for one in self.claim.reading if one.read_as == "rate of each device"), ""
        )

    @cached_property
    def samples(self) -> list[Floats]:
        return [np.array([run.seconds for run in self.study.at(n)]) for n in self.study.scales]

    @cached_property
    def points(self) -> Points:
        return points_of(
            self.study.scales, self.samples, self.study.regime, self._rounding, self._spreads
        )

    @property
    def _rounding(self) -> Floats | None:
        main = self.claim.main
        if main is None:
            return None
        halves: dict[int, float] = {}
        for row in self.claim.rows:
            figure = row[main]
            halves.setdefault(int(row["nodes"].value), figure.half / figure.value)
        return np.array([halves[nodes] for nodes in self.study.scales])

    @property
    def _spreads(self) -> Floats | None:
        """Relative standard errors, where the table states them."""
        centers = self.claim.by_scale(self.claim.main) if self.claim.main else {}
        spreads = self.claim.by_scale("std")
        if not centers or not spreads:
            return None
        counts = self.claim.by_scale("rounds")
        return np.array(
            [spreads[n] / centers[n] / max(counts.get(n, 1.0), 1.0) ** 0.5 for n in centers]
        )

    @cached_property
    def slow(self) -> Detection:
        return slow_baseline(self.points)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return self.study.good_runs

    @cached_property
    def way(self) -> Summary | None:
        """How claimed speedups were made from repeats that stand beside them."""
        written = self.figures("speedup")
        if written is None or self.study.rounds < 2:
            return None
        return detectors.summary_used(self.samples, written, self.study.regime, self.points.k)

    def figures(self, column: Column) -> list[tuple[float, float]] | None:
        """A column with half its last digit, one figure a scale; nothing where it is not full."""
        if column not in self.claim.columns:
            return None
        found: dict[int, tuple[float, float]] = {}
        for row in self.claim.rows:
            found.setdefault(int(row["nodes"].value), (row[column].value, row[column].half))
        return list(found.values())

    def quote(self, pattern: re.Pattern[str], reach: int = 30) -> str:
        """The words around the first match in the text, on one line; nothing without a match."""
        text, found = self.claim.text, pattern.search(self.claim.text)
        if found is None:
            return ""
        start, end = max(found.start() - reach, 0), min(found.end() + reach, len(text))
        cut = text[start:end].split()
        if start:
            cut = cut[1:] or cut
        if end < len(text):
            cut = cut[:-1] or cut
        return f'"{" ".join(cut)}"'

    @cached_property
    def tells_kinds(self) -> bool:
        """Whether a column says of every row if it was run."""
        words = {word for some in self.claim.words("kind").values() for word in some}
        return bool(words) and all(_KIND.search(word) for word in words)

    @cached_property
    def has(self) -> frozenset[Need]:
        """Which needs of the rules are met."""
        columns, runs, text = self.claim.columns, self.runs, self.claim.text
        spec = self.study.spec
        ratios = {"speedup", "efficiency"} & columns
        met: dict[Need, bool] = {
            "curve": True,
            "work": bool({*_FIXED, *_SIZES, "local_batch"} & columns),
            "words": bool(_WARMUP.search(text)) or any(run.setup_seconds for run in runs),
            "two columns": {"throughput", "device_rate"} <= columns
            or (
                bool(ratios)
                and ("seconds" in columns or "throughput" in columns or len(ratios) == 2)
                and self.study.rounds == 1
            ),
            "ratios": bool(ratios or self.claim.summary),
            "written": self.claim.source is None,
            "repeats": self.study.rounds > 1,
            "seeds": "seed" in columns,
            "rounds": "round" in columns,
            "quality": "quality" in columns,
            "ranks": any(run.ranks for run in runs),
            "pieces": bool({"work", "batch"} & columns),
            "rank times": any(rank.seconds or rank.stages for run in runs for rank in run.ranks),
            "setup": any(run.setup_seconds is not None for run in runs),
            "starts": all(run.started for run in runs),
            "contention": any(
                run.contention and run.contention.run_delay is not None for run in runs
            ),
            "settings": bool({*_SETTINGS, "date"} & columns) or any(run.provenance for run in runs),
            "kinds": bool(self.claim.predicted)
            or self.tells_kinds
            or bool(_PREDICTED.search(text))
            or spec is not None,
            "price": "price" in columns
            or bool(_MONEY.search(text))
            or self.question.price.per_node_hour is not None,
            "energy": bool({"energy", "power"} & columns)
            or any(run.energy_joules is not None for run in runs),
            "latency": bool(_LATENCY.search(text)),
            "cache state": any("cache_state" in run.facts for run in runs),
            "provenance": any(run.provenance for run in runs),
            "decision": bool(_RECOMMENDS.search(text)) or spec is not None,
            "serving": serving.is_serving(self.claim),
        }
        return frozenset(need for need, is_met in met.items() if is_met)


def _ask(rule: Rule, case: _Case) -> RuleCheck:
    """The answer, unless it would accuse on a column whose meaning is only a guess."""
    check = _answer(rule, case)
    if check.verdict != "fail" or rule.key not in _OF_CURVE or not case.guessed:
        return check
    evidence = f"not judged: the meaning of '{case.guessed}' is a guess"
    return msgspec.structs.replace(check, verdict="unknown", evidence=evidence, remedy="", cells=())


def _answer(rule: Rule, case: _Case) -> RuleCheck:
    own = case.answers.get(rule.key)
    if own is not None and not (rule.key == "baseline" and case.slow.seen):
        answer = own
    elif not set(rule.needs) <= case.has:
        answer = Answer("unknown", rule.unknown)
    elif case.claim.is_load and rule.key in _OF_CURVE:
        answer = Answer("unknown", "K is the load on one set-up, not a number of devices")
    else:
        answer = _PREDICATES[rule.key](case)
    columns = _RESTS_ON.get(rule.key, ("nodes", case.claim.main or "seconds"))
    cells = case.cite(columns) if answer.verdict == "fail" else ()
    usual = rule.remedy if answer.verdict == "fail" else ""
    return RuleCheck(
        key=rule.key,
        rule=rule.rule,
        verdict=answer.verdict,
        evidence=answer.evidence,
        remedy=usual if answer.remedy is None else answer.remedy,
        severity=rule.severity,
        source=rule.source,
        cells=cells,
    )


def _questions(rules: Sequence[Rule], answered: Sequence[Check]) -> tuple[str, ...]:
    """What to ask for: first what failed, then what is not known, the grave before the light."""
    ranked = []
    for at, (rule, check) in enumerate(zip(rules, answered, strict=True)):
        if check.verdict == "pass" or (check.verdict == "unknown" and rule.ask == "when broken"):
            continue
        if rule.question:
            rank = (check.verdict != "fail", rule.severity != "fail", at)
            ranked.append((rank, rule.question))
    return tuple(dict.fromkeys(question for _, question in sorted(ranked)))


def _verdict(
    name: str, answered: Sequence[Check], correction: Correction | None
) -> tuple[Standing, str]:
    failed = [check for check in answered if check.verdict == "fail"]
    grave = [check.rule for check in failed if is_grave(check)]
    unknown = sum(check.verdict == "unknown" for check in answered)
    open_ones = f"{unknown} of {len(answered)} rules cannot be judged from it"
    if grave:
        end = f"; {correction.sentence}" if correction else ""
        return "fails", f"{name} fails the audit: {_listed(grave)}{end}."
    if failed:
        return "suspect", f"{name} is suspect: {_listed([check.rule for check in failed])}."
    if unknown:
        return "open", f"{name} breaks no rule, but {open_ones}."
    return "holds", f"{name} holds: every rule is met."


def _listed(rules: Sequence[str]) -> str:
    """The rules that are broken, as one phrase."""
    return "broken " + ("rule: " if len(rules) == 1 else "rules: ") + "; ".join(rules)


def _correct(case: _Case) -> Correction | None:
    """The curve over the base that the rest of it implies, where the claimed base is too slow."""
    if not case.slow.seen or case.slow.size is None:
        return None
    factor = case.slow.size
    base = case.study.scales[0]
    runs = tuple(
        msgspec.structs.replace(run, seconds=run.seconds / factor) if run.nodes == base else run
        for run in case.study.good_runs
    )
    mended = scale(
        Study(name=case.claim.name, regime=case.study.regime, runs=runs),
        case.scaling.bend.threshold,
    )
    rows = tuple(
        CorrectedRow(
            nodes=claimed.nodes,
            claimed_speedup=claimed.speedup,
            claimed_efficiency=claimed.efficiency,
            speedup=row.speedup,
            efficiency=row.efficiency,
        )
        for claimed, row in zip(case.scaling.rows, mended.rows, strict=True)
    )
    return Correction(
        factor=factor,
        factor_low=case.slow.low,
        factor_high=case.slow.high,
        threshold=case.scaling.bend.threshold,
        claimed_bend=case.scaling.bend.first_below,
        bend=mended.bend.first_below,
        rows=rows,
    )


def _of(detection: Detection) -> Answer:
    """A detection as an answer: seen is a failure, and what cannot be decided is unknown."""
    verdicts: dict[bool | None, Verdict] = {True: "fail", False: "pass", None: "unknown"}
    return Answer(verdicts[detection.seen], detection.evidence)


def _baseline(case: _Case) -> Answer:
    if case.slow.seen:
        return _of(case.slow)
    base = case.study.scales[0]
    if not case.claim.has_seconds and case.unread:
        return Answer("unknown", f"'{case.unread}' could not be read, the rest are ratios")
    if not case.claim.has_seconds:
        return Answer("fail", f"no seconds are given for K={base}, only ratios")
    if base != 1:
        return Answer("unknown", f"the base is K={base}: what was lost below it is not shown")
    if "seconds" not in case.claim.columns and case.claim.source is None:
        return Answer("unknown", "a rate at K=1 is given for a program that is not described")
    seconds = format_duration(case.scaling.rows[0].seconds)
    return Answer("unknown", f"T(1) = {seconds} for a program that is not described")


def _workload(case: _Case) -> Answer:
    claim = case.claim
    grows = _growing_size(case)
    if grows is not None:
        return grows
    told = {column: claim.by_scale(column) for column in _FIXED}
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


def _growing_size(case: _Case) -> Answer | None:
    """A model or a problem whose size changes with K, and not as weak scaling asks."""
    claim = case.claim
    for column in _SIZES:
        words = claim.words(column)
        sizes = {nodes: amount(min(some)) for nodes, some in words.items()}
        if column not in claim.columns or len(sizes) < 2 or not all(sizes.values()):
            continue
        if len(set(sizes.values())) == 1 or regime_of_amounts(sizes) == "weak":
            continue
        if column == "size" and "weak" in (claim.regime, claim.read_regime):
            continue  # how work goes with the grid is not said
        shown = ", ".join(f"{min(words[nodes])} at K={nodes}" for nodes in list(words)[:4])
        name = "the model" if column == "model" else "the problem"
        return Answer("fail", f"{name} changes with K: {shown}")
    return None


def _warmup(case: _Case) -> Answer:
    if said := case.quote(_WARMUP):
        return Answer("pass", f"stated: {said}")
    setups = [run.setup_seconds for run in case.runs if run.setup_seconds is not None]
    return Answer("pass", f"setup of up to {format_duration(max(setups))} is reported apart")


def _repeats(case: _Case) -> Answer:
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


def _regime(case: _Case) -> Answer:
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


def _own_share(case: _Case) -> str:
    """What speaks for a fixed share of each device, under a title of strong scaling."""
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


def _efficiency(case: _Case) -> Answer:
    least = min(case.scaling.rows, key=lambda row: row.efficiency)
    reached = f"the least is {format_efficiency(least.efficiency)} at K={least.nodes}"
    if "efficiency" in case.claim.columns:
        return Answer("pass", f"efficiency is given at every K; {reached}")
    if "speedup" in case.claim.columns:
        return Answer("fail", f"speedup without efficiency; {reached}")
    return Answer("pass", f"no speedup is claimed; from the figures {reached}")


def _straight(case: _Case) -> Answer:
    answer = _of(detectors.too_straight(case.points))
    if answer.verdict != "fail":
        return answer
    of_rates = case.claim.main == "throughput" and case.claim.regime is None
    if case.claim.source is None and (case.study.regime == "weak" or of_rates):
        return Answer("unknown", f"{answer.evidence}, which weak scaling may be")
    mistakes = "a baseline that is too slow, and a problem that changes between the points"
    return Answer("fail", f"{answer.evidence}. Two mistakes look like this: {mistakes}")


def _seconds(case: _Case) -> Answer:
    if not case.claim.has_seconds and case.unread:
        return Answer("unknown", f"'{case.unread}' could not be read, the rest are ratios")
    if not case.claim.has_seconds:
        return Answer("fail", "only ratios are given")
    if "seconds" in case.claim.columns or case.claim.source is not None:
        return Answer("pass", "times are given at every K")
    return Answer("pass", "rates are given at every K")


def _columns(case: _Case) -> Answer:
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


def _wrong_division(case: _Case) -> str:
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


def _averaged(case: _Case) -> Answer:
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


def _digits(case: _Case) -> Answer:
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
        return Answer("unknown", "raw runs: no rounded figures to judge")
    return Answer("unknown", "no spread is given to judge the digits by")


def _identical(case: _Case) -> Answer:
    return _of(detectors.identical_repeats(case.samples))


def _seeds(case: _Case) -> Answer:
    seen: dict[int, list[str]] = {}
    for row in case.claim.rows:
        seen.setdefault(int(row["nodes"].value), []).append(row["seed"].text)
    if max(len(seeds) for seeds in seen.values()) < 2:
        return Answer("unknown", "one run a scale: nothing repeats a seed")
    twice = [nodes for nodes, seeds in seen.items() if len(set(seeds)) < len(seeds)]
    if twice:
        return Answer("fail", f"runs share a seed at K={', '.join(map(str, twice))}")
    return Answer("pass", "no two runs of a scale share a seed")


def _best_of(case: _Case) -> Answer:
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


def _missing_runs(case: _Case) -> Answer:
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


def _quality(case: _Case) -> Answer:
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


def _workers(case: _Case) -> Answer:
    ranks = rank_check(case.study)
    assert ranks is not None
    return answer_of(ranks)


def _divides(case: _Case) -> Answer:
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


def _parallel_time(case: _Case) -> Answer:
    for run in case.runs:
        longest = max((rank.seconds or sum(rank.stages.values()) for rank in run.ranks), default=0)
        if longest > 1.02 * run.seconds:
            evidence = (
                f"at K={run.nodes} a rank took {format_duration(longest)}, the run is reported "
            )
            return Answer("fail", evidence + f"as {format_duration(run.seconds)}")
    return Answer("pass", "no rank took longer than its run")


def _setup_share(case: _Case) -> Answer:
    timed = sum(run.seconds for run in case.runs)
    outside = sum(run.setup_seconds or 0.0 for run in case.runs)
    share = timed / (timed + outside)
    verdict: Verdict = "pass" if share >= _TIMED_SHARE else "fail"
    return Answer(verdict, f"the times cover {format_percent(share)} of set-up and run together")


def _order(case: _Case) -> Answer:
    ordered = [run.nodes for run in sorted(case.runs, key=lambda run: run.started)]
    changes = sum(a != b for a, b in pairwise(ordered))
    if case.study.rounds < 2:
        return Answer("unknown", "one run a scale has no order to judge")
    if changes == len(case.study.scales) - 1:
        return Answer("fail", "all runs of a scale were made in a row, so drift looks like scaling")
    return Answer("pass", f"the scale changed {changes} times in {len(ordered)} runs")


def _percentile(case: _Case) -> Answer:
    if named := case.quote(_PERCENTILE):
        return Answer("pass", f"stated: {named}")
    return Answer("fail", f"the percentile is not stated: {case.quote(_LATENCY)}")


def _caches(case: _Case) -> Answer:
    states = sorted({str(run.facts.get("cache_state", "not stated")) for run in case.runs})
    if len(states) > 1:
        return Answer("fail", f"runs differ: {', '.join(states)}")
    return Answer("pass", f"{states[0]} in every run")


def _factors(case: _Case) -> Answer:
    runs = [run for run in case.runs if not run.baseline]
    missing = [name for name in _FACTORS if any(name not in run.provenance for run in runs)]
    if missing:
        return Answer("fail", f"not recorded with every run: {', '.join(missing)}")
    if any(run.provenance.get("uncommitted_changes") for run in runs):
        return Answer("fail", "the code that ran had uncommitted changes")
    return Answer("pass", f"{', '.join(_FACTORS)} recorded for every run")


def _significant(case: _Case) -> Answer:
    if case.study.rounds < ENOUGH_ROUNDS:
        return Answer("unknown", f"{case.study.rounds} rounds are too few to tell")
    alike = [row.nodes for row in case.scaling.rows[1:] if row.faster is None]
    if alike:
        base = case.study.scales[0]
        named = ", ".join(map(str, alike))
        return Answer("fail", f"K={named} cannot be distinguished from K={base} by these runs")
    return Answer("pass", "every scale differs from the base by more than its noise")


def _contention(case: _Case) -> Answer:
    return answer_of(load_check(case.study))


def _same_place(case: _Case) -> Answer:
    said = []
    for column in _SETTINGS:
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


def _days_apart(case: _Case) -> int:
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


def _predicted(case: _Case) -> Answer:
    claim = case.claim
    if claim.predicted:
        named = ", ".join(map(str, claim.predicted))
        if case.tells_kinds or any(
            _PREDICTED.search(figure.text) for row in claim.rows for figure in row.values()
        ):
            return Answer("pass", f"K={named} is marked as not run")
        if _PREDICTED.search(claim.text):
            return Answer("pass", f"K={named} is marked, and the text explains the mark")
        return Answer("unknown", f"K={named} is marked, and nothing explains the mark")
    if claim.source is not None:
        return Answer("pass", "every point was measured")
    if case.tells_kinds:
        return Answer("pass", "every row says whether it was measured")
    return Answer("fail", f"no row is marked, but the text says: {case.quote(_PREDICTED)}")


def _price(case: _Case) -> Answer:
    text = case.claim.text + case.question.price.source
    if "price_date" in case.claim.columns or _YEAR.search(text):
        return Answer("pass", "a price is given with its date")
    return Answer("fail", "a price is given without a date")


def _energy(case: _Case) -> Answer:
    sources = {str(run.provenance.get("energy_source", "")) for run in case.runs} - {""}
    if how := ", ".join(sorted(sources)) or case.quote(_ENERGY_SAID):
        return Answer("pass", f"method stated: {how}")
    return Answer("fail", "energy is reported without a measurement method")


def _attribution(case: _Case) -> Answer:
    said = case.quote(_RECOMMENDS)
    if not said:
        return Answer("pass", "nodewise recommends only with an identified cause")
    if _CAUSE.search(case.claim.text):
        return Answer("pass", "the recommendation names a cause")
    return Answer("fail", f"the recommendation names no cause: {said}")


_PREDICATES: dict[str, Callable[[_Case], Answer]] = {
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
_RESTS_ON: dict[str, tuple[Column, ...]] = {
    "workload": ("nodes", *_FIXED, *_SIZES, "local_batch"),
    "columns": ("nodes", "seconds", "throughput", "device_rate", "speedup", "efficiency"),
    "averaged-ratios": ("speedup", "efficiency"),
    "digits": ("speedup", "efficiency", "std"),
    "quality": ("nodes", "quality"),
    "divides": ("nodes", "batch", "work"),
    "same-place": ("nodes", *_SETTINGS, "date"),
    "price": ("price",),
    "energy": ("energy", "power"),
    "regime": ("nodes", "throughput", "memory", "work", "batch"),
    "seeds": ("nodes", "seed"),
}
# Rules that judge the shape of the curve: they ask which column is K and which is the measure.
_OF_CURVE = frozenset({
    "baseline", "slow-baseline", "changed-problem", "straight", "superlinear", "columns", "regime",
    "significant", "missing-scales", "efficiency", "seconds",
})  # fmt: skip
