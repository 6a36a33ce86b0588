"""A claim with what the rules ask of it, each computed once."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from nodewise.audit import detectors, serving
from nodewise.audit.detectors import Summary
from nodewise.audit.own_study import Answer, answers, own_checks
from nodewise.base.stats import Floats
from nodewise.decide.inputs import Question
from nodewise.explain.baseline import Detection, Points, points_of, slow_baseline
from nodewise.explain.scaling import Scaling
from nodewise.study.check import Check
from nodewise.study.claim import Claim
from nodewise.study.study import Run, Study
from nodewise.study.titles import Column

Need = Literal[
    "curve", "work", "words", "two columns", "ratios", "written", "repeats", "seeds", "rounds",
    "quality", "ranks", "pieces", "rank times", "setup", "starts", "contention", "settings",
    "kinds", "price", "energy", "decision", "latency", "cache state", "provenance", "serving",
]  # fmt: skip
FIXED: tuple[Column, ...] = ("work", "batch", "steps", "epochs")
SIZES: tuple[Column, ...] = ("model", "size")
SETTINGS: tuple[Column, ...] = ("precision", "machine", "settings")
WARMUP = re.compile(r"warm-?\s?up|steady[- ]state|excluding (the )?(set-?up|start-?up)", re.I)
RECOMMENDS = re.compile(
    r"\b(recommend\w*|sweet spot|best choice|should (buy|use|run))\b[^.\n]{0,60}\d", re.I
)
# Said of points of the curve: a model may predict, and a layer may project.
PREDICTED = re.compile(
    r"\d[\d,]*\*?( \w+)? (is|are|was|were) (an? )?(extrapolat|predict|project|estimat)\w*|"
    r"(extrapolat\w+|(projected|predicted|estimated|modell?ed)) (\w+ ){0,2}"
    r"(points?|values?|scal\w+|speed-?ups?|throughputs?|nodes|gpus|cores|(from|to|at) \d)|"
    r"\ba (prediction|projection|extrapolation)\b",
    re.I,
)
_KIND = re.compile(r"measured|predict|project|extrapolat|modell?ed|simulat|estimat", re.I)
# Of a service; that of a link is a cause.
LATENCY = re.compile(
    r"(?<!network )(?<!link )(?<!message )(?<!memory )\b(latenc(y|ies)|response times?)"
    r" (of|at|is|was|under|below|=|:|stays?|averages?)",
    re.I,
)
_MONEY = re.compile(r"(?<![\w$])[$€]\s?\d[\d.,]*\s*(/|per|an?|each)\s*\w+", re.I)


class Case:
    """A claim with what the predicates ask for, each computed once."""

    def __init__(self, claim: Claim, study: Study, scaling: Scaling, question: Question) -> None:
        """A claim read as a study, with the question that it answers."""
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
        """The column whose meaning was guessed; empty if a title or a unit gives it."""
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
        """The seconds of the runs, by scale."""
        return [np.array([run.seconds for run in self.study.at(n)]) for n in self.study.scales]

    @cached_property
    def points(self) -> Points:
        """The points of the curve, with the rounding and spread of each."""
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
        """Whether the base is slower than the rest of the curve implies."""
        return slow_baseline(self.points)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs that count."""
        return self.study.good_runs

    @cached_property
    def way(self) -> Summary | None:
        """How claimed speedups were computed from the repeats beside them."""
        written = self.figures("speedup")
        if written is None or self.study.rounds < 2:
            return None
        return detectors.summary_used(self.samples, written, self.study.regime, self.points.k)

    def figures(self, column: Column) -> list[tuple[float, float]] | None:
        """A column with half its last digit, one figure a scale; nothing if it is not full."""
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
        """Whether a column marks every row as measured or predicted."""
        words = {word for some in self.claim.words("kind").values() for word in some}
        return bool(words) and all(_KIND.search(word) for word in words)

    @cached_property
    def has(self) -> frozenset[Need]:
        """Which data needed by rules the claim has."""
        columns, runs, text = self.claim.columns, self.runs, self.claim.text
        spec = self.study.spec
        ratios = {"speedup", "efficiency"} & columns
        met: dict[Need, bool] = {
            "curve": True,
            "work": bool({*FIXED, *SIZES, "local_batch"} & columns),
            "words": bool(WARMUP.search(text)) or any(run.setup_seconds for run in runs),
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
            "settings": bool({*SETTINGS, "date"} & columns) or any(run.provenance for run in runs),
            "kinds": bool(self.claim.predicted)
            or self.tells_kinds
            or bool(PREDICTED.search(text))
            or spec is not None,
            "price": "price" in columns
            or bool(_MONEY.search(text))
            or self.question.price.per_node_hour is not None,
            "energy": bool({"energy", "power"} & columns)
            or any(run.energy_joules is not None for run in runs),
            "latency": bool(LATENCY.search(text)),
            "cache state": any("cache_state" in run.facts for run in runs),
            "provenance": any(run.provenance for run in runs),
            "decision": bool(RECOMMENDS.search(text)) or spec is not None,
            "serving": serving.is_serving(self.claim),
        }
        return frozenset(need for need, is_met in met.items() if is_met)
