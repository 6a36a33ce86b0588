"""The scales that a decision chooses from, as arrays: measured ones, or those of a law.

Everything after this point treats both alike; only a measured candidate can support a claim.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import SpecError
from nodewise.base.stats import (
    ENOUGH_ROUNDS,
    Center,
    Floats,
    center_of,
    common_log_spread,
    longest_run,
    normal_quantile,
    normal_share_below,
    plausible_centers,
    quantiles_of_run,
    share_below,
)
from nodewise.decide.counting import billed_units, scale_unit_of, shared_machine_check, unit_checks
from nodewise.decide.energy import Carbon, Energy, energy_of_runs
from nodewise.decide.prices.bill import Price
from nodewise.explain.attribute import Attribution
from nodewise.explain.causes import CauseName
from nodewise.explain.laws import Law, growth_term
from nodewise.explain.quality import Better, Drift, quality_drifts
from nodewise.explain.scaling import THRESHOLD, Timings
from nodewise.study.check import Check, Validity, validity_of, warning
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import Study
from nodewise.study.workload import SEEN_LOSS

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question

_SAME_WORK = 1e-9  # relative: runs whose work differs by less do the same
_DEADLINE = "deadline"
_QUANTILES = tuple(((np.arange(400) + 0.5) / 400).tolist())
QUALITY_TOLERANCE = 0.005  # of a figure of merit, from the smallest scale


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that the answer must keep, and the value of an hour of waiting."""

    deadline_seconds: float | None = None
    deadline_confidence: float = 0.95
    budget: float | None = None
    least_scale: int | None = None  # K that can run, for example for memory
    energy_budget_joules: float | None = None
    carbon_budget_grams: float | None = None
    value_per_hour: float | None = None  # of an hour of waiting; null: not stated
    quality_tolerance: float = QUALITY_TOLERANCE
    quality_better: Better = "same"  # a change this way is acceptable
    target_loss: float | None = None  # of a training, to which time and cost are given
    peak_tflops: float | None = None  # of one of K, for the utilisation of a training
    threshold: float = THRESHOLD
    least_speedup: dict[int, float] = {}  # gates at named K
    least_efficiency: dict[int, float] = {}
    most_seconds: dict[int, float] = {}

    @property
    def hour_value(self) -> float:
        """What waiting adds to a bill."""
        return self.value_per_hour or 0.0


class WorkUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The work that times and costs of several scales are compared for."""

    words: str = "a run"  # behind an amount: `$2 a run`
    of_first_run: float = 1.0  # this work over that of the first run
    clause: str = ""  # behind a comparison; empty if all runs do the same work
    is_counted: bool = False  # by a column of work; else a unit is the work of the first run

    @property
    def label(self) -> str:
        """The words behind an amount; empty if all runs do the same work."""
        return f" {self.words}" if self.clause else ""

    def amount(self, for_first_run: float) -> float:
        """An amount for this work, from that for the work of the first run."""
        return self.of_first_run * for_first_run


_COUNTS = {1: "unit", 1_000: "thousand units", 1_000_000: "million units", 10**9: "billion units"}


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Every scale under consideration; an array has one value for each."""

    name: str
    regime: Regime
    measured: bool
    price: Price  # that holds for them
    checks: tuple[Check, ...]
    nodes: tuple[int, ...]
    seconds: Floats
    speedup: Floats
    efficiency: Floats
    rate_per_hour: Floats  # of all nodes together
    relative_work: Floats  # of each run, over that of the first
    losses: tuple[tuple[tuple[CauseName, float], ...], ...]  # lost speedup by cause, largest first
    energy: Energy
    carbon: Carbon
    work: Floats | None = None
    quality: Floats | None = None
    bounds: tuple[Floats, Floats] | None = None  # of the seconds
    noise: Floats | None = None  # plausible centres over the seconds: one row per draw
    margins: Floats | None = None  # how far ratios of the seconds may be off; one row per scale
    joint_margins: Floats | None = None  # where all scales are compared with one
    samples: tuple[Floats, ...] = ()  # the runs of each scale, and the rounds that they belong to
    round_numbers: tuple[NDArray[np.int64], ...] = ()
    center: Center = "mean"
    unit: ScaleUnit = ScaleUnit()  # what K counts
    is_rate: bool = False  # only the throughput is known, and the work of a run is chosen
    drifts: tuple[Drift, ...] | None = None  # of the quality, from the first scale
    broken: tuple[tuple[int, str], ...] = ()  # scales at which every run failed, and how
    validity: Validity = Validity()
    fitted_base_seconds: float | None = None  # where the first scale is slower than its curve
    in_time: Floats | None = None  # share of runs that meet the deadline, when noise is known
    spread: Floats | None = None  # single runs over their centre, where `samples` do not tell
    left_seconds: float | None = None  # of the deadline, after the longest start-up
    undisturbed: Floats | None = None  # seconds without a failure; None: as `seconds` has them
    never_ends: tuple[str, ...] = ()  # why runs at each scale never end; empty: they do

    @property
    def unit_seconds(self) -> Floats:
        """Seconds for the work of the first run, so that growing jobs can be compared."""
        return self.seconds / self.relative_work

    @property
    def compared_for(self) -> WorkUnit:
        """What scales are compared for: a run, or a unit of work where runs do not do the same.

        A unit is counted by the column of work, and is the work of the first run without one.
        """
        done = 1.0 if self.work is None else float(self.work[0])
        if self.is_rate:
            return WorkUnit(words="for a million units of work", of_first_run=1e6 / done)
        if np.allclose(self.relative_work, 1.0, rtol=0.0, atol=_SAME_WORK):
            return WorkUnit()
        count = max((count for count in _COUNTS if count <= done), default=1)
        words = f"per {_COUNTS[count]} of work"
        return WorkUnit(
            words=words,
            of_first_run=count / done,
            clause=" per unit of work",
            is_counted=self.work is not None,
        )

    @property
    def base_share(self) -> float:
        """The fitted base over the measured one; 1 where the measured one fits its curve."""
        fitted = self.fitted_base_seconds
        return 1.0 if fitted is None else fitted / float(self.seconds[0])

    def of_other_time(self, at: int) -> NDArray[np.bool_]:
        """Which scales differ from one in time by more than the noise; that one counts too."""
        if self.margins is None:
            return np.ones(len(self.nodes), dtype=bool)
        ratios = np.abs(np.log(self.unit_seconds / self.unit_seconds[at]))
        return np.asarray((ratios > self.margins[at]) | (np.arange(len(ratios)) == at))

    @property
    def fitted_efficiency(self) -> Floats:
        """The efficiency over a base that fits the curve."""
        return np.asarray(self.efficiency * self.base_share)

    def sure_seconds(self, confidence: float) -> Floats:
        """The time that a run of each scale keeps with the confidence asked for."""
        if self.noise is None:
            return self.seconds
        spread, freedom = common_log_spread(self.samples), _freedom(self.samples)
        sure = [longest_run(values, confidence, spread, freedom) for values in self.samples]
        return np.asarray(self.seconds * np.array(sure) / self._centers)

    @property
    def _centers(self) -> Floats:
        return np.array([center_of(values, self.center) for values in self.samples])

    def noise_after(self, more_rounds: Sequence[int]) -> Floats | None:
        """The noise that would be left after so many further rounds of each scale."""
        drawn = plausible_centers(self.samples, self.round_numbers, self.center, more_rounds)
        return None if drawn is None else drawn / self._centers

    @property
    def run_quantiles(self) -> Floats | None:
        """Single runs over their centre, a row a quantile; nothing if no noise is known."""
        if self.spread is not None or self.noise is None:
            return self.spread
        common = common_log_spread(self.samples)
        freedom = _freedom(self.samples)
        runs = [quantiles_of_run(one, _QUANTILES, common, freedom) for one in self.samples]
        return np.stack(runs, axis=1) / self._centers

    @property
    def run_spread(self) -> float:
        """The relative spread of a single run; 0 where none was repeated."""
        return 0.0 if self.noise is None else common_log_spread(self.samples)

    def rates_at(self, nodes: Floats) -> Floats:
        """What all nodes of other scales cost an hour; nan if the table does not give it."""
        if not self.price.is_money:
            return self.unit.nodes(nodes)
        if self.price.per_node_hour is not None:
            units = billed_units(self.unit, self.price.per, nodes)
            return np.asarray(self.price.per_node_hour * units)
        own = np.array(self.nodes, dtype=np.float64)
        inside = (nodes >= own[0]) & (nodes <= own[-1])
        between = np.interp(
            np.log(nodes), np.log(own), np.log(np.maximum(self.rate_per_hour, 1e-300))
        )
        return np.asarray(np.where(inside, np.exp(between), np.nan))

    def only(self, positions: NDArray[np.int64]) -> "Candidates":
        """Some of the scales."""
        at = [int(position) for position in positions]

        def cut(value: Any) -> Any:
            if isinstance(value, Energy | Carbon):
                parts = {name: cut(getattr(value, name)) for name in value.__struct_fields__}
                return type(value)(**parts)
            return value[..., at] if isinstance(value, np.ndarray) else value

        parts = {name: cut(getattr(self, name)) for name in self.__struct_fields__}
        if self.margins is not None and self.joint_margins is not None:
            parts["margins"] = self.margins[np.ix_(at, at)]
            parts["joint_margins"] = self.joint_margins[np.ix_(at, at)]
        if self.bounds is not None:
            parts["bounds"] = (self.bounds[0][at], self.bounds[1][at])
        for name in ("nodes", "losses", "samples", "round_numbers", "drifts", "never_ends"):
            values = getattr(self, name)
            parts[name] = tuple(values[one] for one in at) if values else values
        return Candidates(**parts)

    @property
    def whole_nodes(self) -> Floats:
        """The nodes that each scale takes; K where it is not stated how many share a node."""
        return self.unit.nodes(self.nodes)

    @property
    def billed_units(self) -> Floats:
        """How many of what the price is for are paid at each scale."""
        return billed_units(self.unit, self.price.per, self.nodes)

    def named(self, at: int) -> str:
        """A scale in words: `16 GPUs (2 nodes)`."""
        return self.unit.named(self.nodes[at])

    def priced(self, per_node_hour: float | None) -> "Candidates":
        """The same scales at another price; where there is none, as they are."""
        if per_node_hour is None:
            return self
        return msgspec.structs.replace(self, rate_per_hour=per_node_hour * self.billed_units)

    def up_to(self, most_nodes: float) -> "Candidates":
        """The scales of at most so many nodes."""
        return self.only(np.flatnonzero(self.whole_nodes <= most_nodes))

    def after(self, at: int | None) -> int | None:
        """The position of the next larger scale."""
        return at + 1 if at is not None and at + 1 < len(self.nodes) else None


def candidates_of_study(
    study: Study, times: Timings, attribution: Attribution, question: "Question"
) -> Candidates:
    """The measured scales, at the price that holds for them."""
    needs, site = question.needs, question.site
    unit = scale_unit_of(study.scale_unit, question)
    price, rate, checks = _rates(study, question.price, needs, unit)
    checks += unit_checks(unit, study.scale_unit, question)
    shared = shared_machine_check(study, unit, question)
    checks += [shared] if shared else []
    nodes = unit.nodes(times.nodes)
    energy = site.energy(times.seconds, nodes, price.startup_seconds, energy_of_runs(study))
    work = _mean_of(study, "work")
    grown = times.k if study.regime == "weak" else np.ones_like(times.k)
    drifts = quality_drifts(study) if _gates_quality(study, needs) else None
    return Candidates(
        name=study.name,
        regime=study.regime,
        measured=True,
        price=price,
        checks=(
            *checks,
            *_deadline_checks(times, needs),
            *_quality_checks(times.nodes, drifts, needs),
        ),
        nodes=times.nodes,
        seconds=times.seconds,
        speedup=times.speedup(times.seconds),
        efficiency=times.efficiency(times.seconds),
        rate_per_hour=rate,
        relative_work=grown if work is None else work / work[0],
        losses=tuple(
            tuple((loss.cause, loss.folds) for loss in row.causes) if row.dominant_cause else ()
            for row in attribution.rows
        ),
        work=work,
        quality=_mean_of(study, "quality"),
        energy=energy,
        carbon=site.carbon(energy, times.seconds, nodes, price.startup_seconds),
        bounds=times.bounds(),
        noise=times.noise,
        margins=times.margins,
        joint_margins=times.joint_margins,
        samples=times.samples,
        round_numbers=times.round_numbers,
        center=times.center,
        in_time=_shares_in_time(times, question),
        left_seconds=left_seconds(question),
        unit=unit,
        is_rate=study.is_rate,
        drifts=drifts,
        broken=tuple(study.broken.items()),
        validity=validity_of(attribution.checks),
        fitted_base_seconds=times.fitted_base_seconds,
    )


def candidates_of_law(
    law: Law, max_nodes: int, question: "Question", noise: float = 0.0
) -> Candidates:
    """Every K up to `max_nodes` as the law has it; `noise` is the relative spread of a run."""
    price, needs, site = question.price, question.needs, question.site
    unit = scale_unit_of(ScaleUnit(), question)
    price = price_or_hours(price, needs, unit)
    assert price.per_node_hour is not None
    nodes = np.arange(1, max_nodes + 1, dtype=np.float64)
    seconds = law.seconds(nodes)
    grown = nodes if law.regime == "weak" else np.ones_like(nodes)
    speedup = grown * seconds[0] / seconds
    in_time, left = None, left_seconds(question)
    if left is not None and noise > 0:
        slack = left / seconds - 1
        in_time = np.array([normal_share_below(float(value) / noise) for value in slack])
    serial = law.s * (1 - 1 / nodes) if law.regime == "strong" else np.zeros_like(nodes)
    communication = law.c * growth_term(law.growth, nodes)
    whole_nodes = unit.nodes(nodes)
    energy = site.energy(seconds, whole_nodes, price.startup_seconds)
    return Candidates(
        name="law",
        regime=law.regime,
        measured=False,
        price=price,
        checks=(*_law_checks(law, needs, noise), *unit_checks(unit, ScaleUnit(), question)),
        nodes=tuple(int(count) for count in nodes),
        seconds=seconds,
        speedup=speedup,
        efficiency=speedup / nodes,
        rate_per_hour=price.per_node_hour * billed_units(unit, price.per, nodes),
        relative_work=grown,
        losses=tuple(
            _by_folds(float(serial[at]), float(communication[at])) for at in range(len(nodes))
        ),
        energy=energy,
        carbon=site.carbon(energy, seconds, whole_nodes, price.startup_seconds),
        in_time=in_time,
        spread=_normal_spread(noise, len(nodes)) if in_time is not None else None,
        left_seconds=left,
        unit=unit,
    )


def left_seconds(question: "Question") -> float | None:
    """What a run may take of the deadline, after the longest start-up."""
    deadline = question.needs.deadline_seconds
    return None if deadline is None else deadline - longest_startup(question)


def longest_startup(question: "Question") -> float:
    """The start-up that counts for a deadline: the upper end, if it is a range."""
    given = question.ranges.get("startup")
    return question.price.startup_seconds if given is None else given.high


def _law_checks(law: Law, needs: Needs, noise: float) -> list[Check]:
    found = [
        warning(
            "origin of the times",
            f"a model, not a measurement: s={law.s:g}, c={law.c:g}, growth {law.growth}",
            "Measure two scales or more.",
        )
    ]
    if law.regime == "weak" and law.s:
        found.append(
            warning(
                "parameters of the law",
                "in weak scaling s has no effect: the serial part does not grow with K",
            )
        )
    if needs.deadline_seconds is not None and noise <= 0:
        found.append(
            warning(
                _DEADLINE,
                "the expected time meets the deadline, half of the runs may not",
                "State the spread of a run with --noise.",
            )
        )
    return found


def _deadline_checks(times: Timings, needs: Needs) -> list[Check]:
    if needs.deadline_seconds is None:
        return []
    if times.draws is None:
        evidence = "single runs: the deadline is compared with one time per scale"
        return [warning(_DEADLINE, evidence, "Repeat to be sure.")]
    fewest = min(len(samples) for samples in times.samples)
    if fewest < ENOUGH_ROUNDS:
        rounds = "one round says" if fewest == 1 else f"{fewest} rounds say"
        evidence = f"{rounds} little about meeting a deadline"
        return [warning(_DEADLINE, evidence, "Repeat more.")]
    return []


def _gates_quality(study: Study, needs: Needs) -> bool:
    """Whether a drift of the quality may exclude a scale.

    A loss that only hooks recorded excludes no scale unless a tolerance is stated: it is the loss
    of a few batches, and the default tolerance is for an accuracy.
    """
    stated = "tolerance" in study.asked.get("quality", {})
    stated = stated or needs.quality_tolerance != QUALITY_TOLERANCE
    return stated or not any(run.facts.get(SEEN_LOSS) for run in study.good_runs)


def _quality_checks(
    nodes: tuple[int, ...], drifts: tuple[Drift, ...] | None, needs: Needs
) -> list[Check]:
    """That the noise hides whether the quality is held, and how many rounds would show it."""
    limits = needs.quality_tolerance, needs.quality_better
    open_ones = {
        at: drift for at, drift in zip(nodes, drifts or (), strict=False)
        if drift.state(*limits) == "undecided"
    }  # fmt: skip
    if not open_ones:
        return []
    rounds = [drift.rounds_to_decide(*limits) for drift in open_ones.values()]
    known = [count for count in rounds if count is not None]
    more = f"Measure {max(known)} rounds" if len(known) == len(rounds) else "Measure more rounds"
    listed = ", ".join(map(str, open_ones))
    return [
        warning(
            "quality at every K",
            f"the noise hides whether the quality at K={listed} stays within {limits[0]:g}",
            f"{more}, or allow a larger drift with --quality-tolerance.",
            key="quality",
        )
    ]


def _by_folds(serial: float, communication: float) -> tuple[tuple[CauseName, float], ...]:
    both: list[tuple[CauseName, float]] = [
        ("serial fraction", serial),
        ("communication", communication),
    ]
    return tuple(sorted(both, key=lambda loss: -loss[1]))


def _rates(
    study: Study, price: Price, needs: Needs, unit: ScaleUnit
) -> tuple[Price, Floats, list[Check]]:
    """What all nodes of each scale cost an hour: by the price given, else by the table's column."""
    column = _mean_of(study, "rate_per_hour")
    checks = []
    if price.per_node_hour is not None:
        if column is not None:
            evidence = "column rate_per_hour is not used: --price is given"
            checks.append(warning("unused columns", evidence))
        rate = price.per_node_hour * billed_units(unit, price.per, study.scales)
    elif column is not None:
        rate = column
    else:
        _refuse_money_without_price(price, needs)
        evidence = f"no price is given: costs are {unit.hours}ours"
        checks.append(warning("unit of cost", evidence, "Add --price."))
        hours = msgspec.structs.replace(price, currency=unit.hours)
        return hours, unit.nodes(study.scales), checks
    return price, rate, checks


def price_or_hours(price: Price, needs: Needs, unit: ScaleUnit) -> Price:
    """The price, or hours of nodes where none is stated."""
    if price.per_node_hour is not None:
        return price
    _refuse_money_without_price(price, needs)
    return msgspec.structs.replace(price, per_node_hour=1.0, currency=unit.hours)


def _refuse_money_without_price(price: Price, needs: Needs) -> None:
    extras = price.fixed_per_hour or price.storage_per_hour or price.egress
    if extras or needs.value_per_hour or needs.budget is not None:
        raise SpecError(
            "An overhead, a value of time or a budget in money needs the price of a node.",
            "Add --price (dollars per node-hour) or a column rate_per_hour.",
        )


def _mean_of(study: Study, field: str) -> Floats | None:
    """A column's mean at each scale, or nothing if a run lacks it."""
    values = [[getattr(run, field) for run in study.at(nodes)] for nodes in study.scales]
    if any(value is None for rounds in values for value in rounds):
        return None
    return np.array([float(np.mean(rounds)) for rounds in values])


def _shares_in_time(times: Timings, question: "Question") -> Floats | None:
    """How often a run of each scale meets the deadline; nothing if no noise is known."""
    allowed = left_seconds(question)
    if allowed is None or times.draws is None:
        return None
    spread, freedom = common_log_spread(times.samples), _freedom(times.samples)
    return np.array([share_below(one, allowed, spread, freedom) for one in times.samples])


def _freedom(samples: Sequence[Floats]) -> int:
    """Degrees of freedom of the common spread."""
    return sum(len(values) - 1 for values in samples)


def _normal_spread(noise: float, count: int) -> Floats:
    """Single runs over the centre of their scale, as a relative spread has them."""
    runs = [1 + noise * normal_quantile(share) for share in _QUANTILES]
    return np.broadcast_to(np.maximum(runs, 0.0)[:, None], (len(runs), count))
