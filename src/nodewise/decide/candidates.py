"""The scales that a decision chooses from, as arrays: measured ones, or those of a law.

Everything after this point treats both alike; only a measured candidate can support a claim.
"""

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.stats import ENOUGH_ROUNDS, Floats, normal_share_below
from nodewise.decide.energy import Carbon, Energy, energy_of_runs
from nodewise.decide.prices.bill import NODE_HOURS, Price
from nodewise.explain.attribute import Attribution
from nodewise.explain.causes import CauseName
from nodewise.explain.laws import Law, growth_term
from nodewise.explain.scaling import THRESHOLD, Timings
from nodewise.study.check import Check, warning
from nodewise.study.spec import Regime
from nodewise.study.study import Study

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question

_DEADLINE = "the deadline is met with the confidence asked"
_QUANTILES = (np.arange(400) + 0.5) / 400
QUALITY_TOLERANCE = 0.005  # of a figure of merit, from the smallest scale


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer must hold to, and what an hour of waiting is worth."""

    deadline_seconds: float | None = None
    deadline_confidence: float = 0.95
    budget: float | None = None
    energy_budget_joules: float | None = None
    carbon_budget_grams: float | None = None
    value_per_hour: float = 0.0
    quality_tolerance: float = QUALITY_TOLERANCE
    quality_better: Literal["same", "higher", "lower"] = "same"  # a drift this way is no harm
    threshold: float = THRESHOLD
    least_speedup: dict[int, float] = {}  # gates at named K
    least_efficiency: dict[int, float] = {}
    most_seconds: dict[int, float] = {}


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
    losses: tuple[tuple[tuple[CauseName, float], ...], ...]  # folds by cause, largest first
    energy: Energy
    carbon: Carbon
    work: Floats | None = None
    quality: Floats | None = None
    bounds: tuple[Floats, Floats] | None = None  # of the seconds
    draws: Floats | None = None  # seconds of resampled rounds: a row a draw
    efficiency_draws: Floats | None = None
    broken: tuple[tuple[int, str], ...] = ()  # scales at which every run failed, and how
    in_time: Floats | None = None  # share of runs that meet the deadline, when noise is known
    spread: Floats | None = None  # single runs over their centre: a row a quantile
    left_seconds: float | None = None  # of the deadline, after the longest start-up
    undisturbed: Floats | None = None  # seconds without a failure; None: as `seconds` has them
    never_ends: tuple[str, ...] = ()  # why runs at each scale never end; empty: they do

    @property
    def unit_seconds(self) -> Floats:
        """Seconds for the work of the first run, so that growing jobs can be compared."""
        return self.seconds / self.relative_work

    def priced(self, per_node_hour: float | None) -> "Candidates":
        """The same scales at another price of a node; where there is none, as they are."""
        if per_node_hour is None:
            return self
        rate = per_node_hour * np.array(self.nodes, dtype=np.float64)
        return msgspec.structs.replace(self, rate_per_hour=rate)

    def up_to(self, most_nodes: float) -> "Candidates":
        """The scales of at most so many nodes."""
        count = sum(nodes <= most_nodes for nodes in self.nodes)

        def cut(value: Any) -> Any:
            if isinstance(value, Energy | Carbon):
                parts = {name: cut(getattr(value, name)) for name in value.__struct_fields__}
                return type(value)(**parts)
            if isinstance(value, np.ndarray):
                return value[..., :count]
            return value

        parts = {name: cut(getattr(self, name)) for name in self.__struct_fields__}
        bounds = self.bounds and (self.bounds[0][:count], self.bounds[1][:count])
        parts |= {"nodes": self.nodes[:count], "losses": self.losses[:count], "bounds": bounds}
        parts |= {"never_ends": self.never_ends[:count]}
        return Candidates(**parts)

    def after(self, at: int | None) -> int | None:
        """The position of the next larger scale."""
        return at + 1 if at is not None and at + 1 < len(self.nodes) else None


def candidates_of_study(
    study: Study, times: Timings, attribution: Attribution, question: "Question"
) -> Candidates:
    """The measured scales, at the price that holds for them."""
    needs, site = question.needs, question.site
    price, rate, checks = _rates(study, question.price, needs)
    nodes = np.array(times.nodes, dtype=np.float64)
    energy = site.energy(times.seconds, nodes, price.startup_seconds, energy_of_runs(study))
    work = _mean_of(study, "work")
    grown = times.k if study.regime == "weak" else np.ones_like(times.k)
    return Candidates(
        name=study.name,
        regime=study.regime,
        measured=True,
        price=price,
        checks=(*checks, *_deadline_checks(times, needs)),
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
        draws=times.draws,
        efficiency_draws=None if times.draws is None else times.efficiency(times.draws),
        in_time=_shares_in_time(times, question),
        spread=None if needs.deadline_seconds is None else spread_of_runs(times),
        left_seconds=_left_seconds(question),
        broken=tuple(study.broken.items()),
    )


def candidates_of_law(
    law: Law, max_nodes: int, question: "Question", noise: float = 0.0
) -> Candidates:
    """Every K up to `max_nodes` as the law has it; `noise` is the relative spread of a run."""
    price, needs, site = question.price, question.needs, question.site
    if price.per_node_hour is None:
        _refuse_money_without_price(price, needs)
        price = msgspec.structs.replace(price, per_node_hour=1.0, currency=NODE_HOURS)
    assert price.per_node_hour is not None
    nodes = np.arange(1, max_nodes + 1, dtype=np.float64)
    seconds = law.seconds(nodes)
    grown = nodes if law.regime == "weak" else np.ones_like(nodes)
    speedup = grown * seconds[0] / seconds
    in_time, left = None, _left_seconds(question)
    if left is not None and noise > 0:
        slack = left / seconds - 1
        in_time = np.array([normal_share_below(float(value) / noise) for value in slack])
    serial = law.s * (1 - 1 / nodes) if law.regime == "strong" else np.zeros_like(nodes)
    communication = law.c * growth_term(law.growth, nodes)
    energy = site.energy(seconds, nodes, price.startup_seconds)
    return Candidates(
        name="law",
        regime=law.regime,
        measured=False,
        price=price,
        checks=tuple(_law_checks(law, needs, noise)),
        nodes=tuple(int(count) for count in nodes),
        seconds=seconds,
        speedup=speedup,
        efficiency=speedup / nodes,
        rate_per_hour=price.per_node_hour * nodes,
        relative_work=grown,
        losses=tuple(
            _by_folds(float(serial[at]), float(communication[at])) for at in range(len(nodes))
        ),
        energy=energy,
        carbon=site.carbon(energy, seconds, nodes, price.startup_seconds),
        in_time=in_time,
        spread=_normal_spread(noise) if in_time is not None else None,
        left_seconds=left,
    )


def _left_seconds(question: "Question") -> float | None:
    deadline = question.needs.deadline_seconds
    return None if deadline is None else deadline - longest_startup(question)


def longest_startup(question: "Question") -> float:
    """The start-up that a deadline is held against: the end of its range, where it is one."""
    given = question.ranges.get("startup")
    return question.price.startup_seconds if given is None else given.high


def _law_checks(law: Law, needs: Needs, noise: float) -> list[Check]:
    found = [
        warning(
            "the times are measured",
            f"a model, not a measurement: s={law.s:g}, c={law.c:g}, growth {law.growth}",
            "Measure two scales or more.",
        )
    ]
    if law.regime == "weak" and law.s:
        found.append(
            warning(
                "every parameter of the law counts",
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
        evidence = "single runs: the deadline is held by the time seen once"
        return [warning(_DEADLINE, evidence, "Repeat to be sure.")]
    if times.rounds < ENOUGH_ROUNDS:
        evidence = f"{times.rounds} rounds say little about meeting a deadline"
        return [warning(_DEADLINE, evidence, "Repeat more.")]
    return []


def _by_folds(serial: float, communication: float) -> tuple[tuple[CauseName, float], ...]:
    both: list[tuple[CauseName, float]] = [
        ("serial fraction", serial),
        ("communication", communication),
    ]
    return tuple(sorted(both, key=lambda loss: -loss[1]))


def _rates(study: Study, price: Price, needs: Needs) -> tuple[Price, Floats, list[Check]]:
    """What all nodes of each scale cost an hour: by the price given, else by the table's column."""
    nodes = np.array(study.scales, dtype=np.float64)
    column = _mean_of(study, "rate_per_hour")
    checks = []
    if price.per_node_hour is not None:
        if column is not None:
            evidence = "column rate_per_hour is not used: --price is given"
            checks.append(warning("every column counts", evidence))
        rate = price.per_node_hour * nodes
    elif column is not None:
        rate = column
    else:
        _refuse_money_without_price(price, needs)
        evidence = "no price is given: costs are node-hours"
        checks.append(warning("costs are money", evidence, "Add --price."))
        return msgspec.structs.replace(price, currency=NODE_HOURS), nodes, checks
    return price, rate, checks


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
    """How often a run of each scale meets the deadline; nothing where no noise is known."""
    allowed = _left_seconds(question)
    if allowed is None or times.draws is None:
        return None
    return np.array(
        [
            _share_in_time(samples / times.seconds[at], times.draws[:, at], allowed)
            for at, samples in enumerate(times.samples)
        ]
    )


def _share_in_time(around: Floats, centers: Floats, allowed: float) -> float:
    """How often a single run is in time: spread of the centre and of the runs around it."""
    return float(np.mean(centers[:, None] * around[None, :] <= allowed))


def spread_of_runs(times: Timings) -> Floats | None:
    """Single runs over the centre of their scale; nothing where no noise is known."""
    if times.draws is None:
        return None
    columns = [
        np.quantile(times.draws[:, at, None] * samples[None, :] / center**2, _QUANTILES)
        for at, (samples, center) in enumerate(zip(times.samples, times.seconds, strict=True))
    ]
    return np.stack(columns, axis=1)


def _normal_spread(noise: float) -> Floats:
    """Single runs over the centre of their scale, as a relative spread has them."""
    runs = [1 + noise * NormalDist().inv_cdf(float(share)) for share in _QUANTILES]
    return np.maximum(runs, 0.0)[:, None]
