"""Which window to measure next, so that few of them decide how many replicas to run.

With a demand, the demand itself is the rate, and only the fleets that the choice depends on are
loaded: the smallest that serves it, and the next smaller one that does not. Without one, or for the
most throughput, the capacity of every fleet is bracketed: the rate grows until the objective
breaks, then the bracket closes to the precision of the spec on either side of the estimate. A rate
that is undecided is measured again, each time twice as long, and all of its windows are judged
together. What remains undecided after three windows is left so; a further round starts the replicas
again and goes on there.

A rate that the answer rests on is then tested further, in at most three windows too, until stalls
that are rare but break the objective would have been met: a short window without one proves little.

The next window follows from the windows so far and from nothing else, so that an interrupted search
goes on where it stopped.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from nodewise.fleet.capacity import LOOKS, Capacity, RateEvidence, capacity, last_tries
from nodewise.fleet.certainty import judge, requests_to_certify
from nodewise.fleet.latency import Judged, judged
from nodewise.fleet.spec import FleetSpec
from nodewise.study.window import Window

Status = Literal["met", "missed", "open", "spent"]

_MOST_RATES = 24  # of one fleet
_MOST_DOWN = 6  # rates below the first, where none is kept
_STEP, _SETTLE = 2.0, 1.4  # from the first rate on; from one that other fleets suggest
_CLOSE = 1.5  # bounds that are further apart are halved; then the estimate says where to look
_BELOW = 0.8  # of what a saturated fleet answers: near its capacity
_MARGIN = 1.05  # requests above the fewest that can prove anything
_USUAL_LOOKS = 2.0  # times the first window: what a verdict takes on average, before any is known


class Step(NamedTuple):
    """A window to measure."""

    replicas: int
    round: int
    rate: float
    seconds: float
    look: int  # at this rate, in this round


class Search:
    """The windows so far, and which one is next."""

    def __init__(self, spec: FleetSpec) -> None:
        """Without windows, the first step is that of a new search."""
        self._spec = spec
        self._found: dict[int, list[Judged]] = {count: [] for count in sorted(spec.replicas)}
        self._known: dict[int, Capacity | None] = {}
        self._round = 0
        self._last = 0  # replicas of the last window

    def add(self, window: Window) -> RateEvidence | None:
        """Take a window in; what is now known about its rate."""
        count = window.replicas
        if count not in self._found:
            return None
        self._found[count].append(judged(window, self._spec.objective))
        self._known.pop(count, None)
        self._round, self._last = max(self._round, window.round), count
        own = self._capacity(count)
        rate = window.offered_per_second
        rates = own.rates if own is not None else ()
        return next((one for one in rates if one.offered_per_second == rate), None)

    def next(self) -> Step | None:
        """The next window; nothing when the choice is decided, or no round is left to decide it."""
        while self._round < self._spec.rounds:
            step = self._step()
            if step is not None:
                return step
            self._round += 1
        self._round = self._spec.rounds - 1
        return None

    def seconds_left(self) -> tuple[float, float]:
        """About how long the search still takes, and how long at most."""
        load, demand = self._spec.load, self._spec.demand
        extra = load.warmup_seconds + 1.0
        most_verdict = sum(
            min(self._least_seconds(self._usual_rate()) * 2**look, load.most_window_seconds) + extra
            for look in range(LOOKS)
        )
        verdict = min(self._seconds_of_a_verdict(extra), most_verdict)
        rounds = self._spec.rounds - self._round
        if self._mode == "bracket":
            counts = [self._rates_left(count) for count in self._found]
            likely, most = float(sum(counts)), 2.0 * sum(counts) * rounds
        else:
            waiting = [count for count in self._candidates() if self._needs(count)]
            halving = demand.goal == "cost"
            likely = math.log2(len(waiting) + 1) if halving else float(len(waiting))
            most = float(len(waiting) * rounds)
        confirming = self._seconds_to_confirm(extra)
        return likely * verdict + confirming, most * most_verdict + confirming

    @property
    def _floor(self) -> float | None:
        demand = self._spec.demand
        return demand.per_second or max(demand.curve, default=0.0) or None

    @property
    def _mode(self) -> Literal["demand", "latency", "bracket"]:
        demand, counts = self._spec.demand, self._spec.replicas
        if self._floor is None or demand.goal == "throughput":
            return "bracket"
        if demand.goal == "latency":
            return "latency"
        left = [count - demand.spares for count in counts if count > demand.spares]
        # what is left of a fleet may be a number that is not run, and lies between two that are
        return "demand" if all(count in counts for count in left) else "bracket"

    def _capacity(self, count: int) -> Capacity | None:
        if count not in self._known:
            own = last_tries(self._found[count])
            self._known[count] = capacity(own, self._spec.objective) if own else None
        return self._known[count]

    def _step(self) -> Step | None:
        if self._mode == "bracket":
            return self._bracket_step()
        floor = self._floor or 0.0
        ready = [count for count in self._candidates() if self._needs(count)]
        if not ready:
            return self._confirming_step(self._answer())
        needed = self._needs(self._pick(ready, floor))
        chosen = self._last if self._last in needed else needed[0]
        return self._window(chosen, floor)

    # ---- further tests of what was kept

    def _confirming_step(self, counts: Sequence[int]) -> Step | None:
        for count in counts:
            kept = self._kept(count)
            if kept is not None:
                step = self._window(count, kept.offered_per_second)
                least = max(self._seconds_left_of(kept), self._least_seconds(step.rate))
                return step._replace(seconds=min(step.seconds, least))
        return None

    def _kept(self, count: int) -> RateEvidence | None:
        """The highest rate that a fleet keeps, where stalls may not have been met there."""
        own = self._capacity(count)
        kept = None if own is None else own.kept
        if kept is None or len(kept.windows) >= LOOKS or self._seconds_left_of(kept) <= 0:
            return None
        # windows in which a replica died are looks too
        return None if self._is_spent(count, kept.offered_per_second) else kept

    def _seconds_left_of(self, kept: RateEvidence) -> float:
        tested = sum(window.seconds for window in kept.windows)
        return self._spec.objective.stall_seconds - tested

    def _answer(self) -> list[int]:
        """The fleets whose kept rate the answer rests on, the running one first."""
        counts = sorted(self._found, key=lambda count: count != self._last)
        if self._mode != "demand":
            return counts if self._mode == "bracket" else []
        met = [count for count in self._found if set(self._states(count)) == {"met"}]
        return [one for one in counts if met and one in self._members(min(met))]

    def _seconds_to_confirm(self, extra: float) -> float:
        """How long the further tests take; where no rate is kept yet, after a first window."""
        if self._mode == "latency":
            return 0.0
        first = self._least_seconds(self._usual_rate())
        most = min(first * (2.0**LOOKS - 1), self._spec.objective.stall_seconds)
        answer = self._answer() or list(self._found)[:1]
        known = {count: self._capacity(count) for count in answer}
        unknown = [count for count, own in known.items() if own is None or not own.kept]
        kept = [one for one in map(self._kept, answer) if one is not None]
        left = [min(self._seconds_left_of(one), most) for one in kept]
        left += [most - first] * len(unknown)
        return sum(seconds + extra for seconds in left if seconds > 0)

    # ---- at the demand

    def _candidates(self) -> list[int]:
        """The fleets between the largest that does not serve the demand and the smallest that does.

        For the lowest latency, all of them.
        """
        counts = list(self._found)
        if self._mode != "demand":
            return counts
        states = {count: self._states(count) for count in counts}
        missed = [count for count in counts if "missed" in states[count]]
        lowest = max(missed, default=0)
        met = [count for count in counts if set(states[count]) == {"met"} and count > lowest]
        highest = min(met, default=math.inf)
        return [count for count in counts if lowest < count < highest]

    def _members(self, count: int) -> list[int]:
        """The fleets that must serve the demand if this one is to be chosen."""
        left = count - self._spec.demand.spares
        return [left, count] if left != count and left > 0 else [count]

    def _states(self, count: int) -> list[Status]:
        if count <= self._spec.demand.spares:
            return ["missed"]
        return [self._status(one, self._floor or 0.0) for one in self._members(count)]

    def _needs(self, count: int) -> list[int]:
        """Which fleets must be loaded at the demand to know about this one."""
        if self._mode == "latency":
            return [] if self._has_latency(count) else [count]
        states = zip(self._members(count), self._states(count), strict=False)
        return [one for one, state in states if state == "open"]

    def _status(self, count: int, rate: float) -> Status:
        own = self._capacity(count)
        if own is not None:
            serves = own.serves(rate)
            if serves != "undecided":
                return serves
        return "spent" if self._is_spent(count, rate) else "open"

    def _looks(self, count: int, rate: float) -> int:
        return sum(
            one.served.round == self._round and one.served.offered_per_second == rate
            for one in self._found[count]
        )

    def _is_spent(self, count: int, rate: float) -> bool:
        return self._failed(count) or self._looks(count, rate) >= LOOKS

    def _failed(self, count: int) -> bool:
        """Whether it was not ready in this round, or never yet: start-up time is paid once."""
        own = [one.served for one in self._found[count]]
        never = not any(one.requests for one in own)
        return any(not one.requests for one in own if never or one.round == self._round)

    def _has_latency(self, count: int) -> bool:
        """Whether this round shows the latency of a fleet at the demand."""
        objective, rate = self._spec.objective, self._floor or 0.0
        own = [one.served for one in self._found[count] if one.served.round == self._round]
        known = any(
            one.is_steady and one.percentile_of(objective).seconds is not None
            for one in own
            if one.offered_per_second == rate and not one.died
        )
        return known or self._is_spent(count, rate)

    def _pick(self, ready: list[int], floor: float) -> int:
        """The running fleet, or the smallest that should serve the demand."""
        running = [count for count in ready if self._last in self._needs(count)]
        if running:
            return running[0]
        each = self._rate_of_one()
        if not each:
            return ready[0]
        return next((count for count in ready if count * each >= floor), ready[-1])

    def _rate_of_one(self) -> float:
        """The capacity of a replica, as far as it is known: that of the fleet loaded last."""
        counts = sorted(self._found, key=lambda count: count != self._last)
        for count in counts:
            own = self._capacity(count)
            guess = _guess(own) if own is not None else 0.0
            if guess:
                return guess / count
        return 0.0

    # ---- brackets of the capacity

    def _bracket_step(self) -> Step | None:
        for count in sorted(self._found, key=lambda count: count != self._last):
            rate = None if self._failed(count) else self._bracket_rate(count)
            if rate is not None:
                return self._window(count, rate)
            if step := self._confirming_step([count]):
                return step
        return None

    def _bracket_rate(self, count: int) -> float | None:
        """The next rate of a fleet; nothing when its bracket is close enough."""
        own, load = self._capacity(count), self._spec.load
        if own is None:
            return self._first_rate(count)
        low, high = own.rate, own.breaks_at or math.inf
        between = [one for one in own.rates if low < one.offered_per_second < high and one.requests]
        unsure = [one for one in between if one.verdict in ("undecided", "void")]
        begun = [
            one
            for one in unsure
            if 0 < self._looks(count, one.offered_per_second) < LOOKS and self._may_decide(one)
        ]
        if begun:
            return begun[-1].offered_per_second
        if low and high / low <= (1 + load.precision) ** 2:
            return None
        fresh = [one for one in unsure if not self._looks(count, one.offered_per_second)]
        if fresh:  # of an earlier round
            return fresh[len(fresh) // 2].offered_per_second
        rate = self._further_rate(own, low, high, [one.offered_per_second for one in unsure])
        known = {one.offered_per_second for one in own.rates}
        return None if rate is None or rate in known or len(known) >= _MOST_RATES else rate

    def _further_rate(
        self, own: Capacity, low: float, high: float, unsure: list[float]
    ) -> float | None:
        if not low and (high < math.inf or not self._is_good(own)):
            if len(own.rates) > _MOST_DOWN:
                return None
            lowest = min([high, *unsure])
            rate = _rounded(min(lowest / _SETTLE, _BELOW * _answered(own) or lowest))
            # so few requests a second prove nothing in the longest window
            most = rate * self._spec.load.most_window_seconds
            return rate if most >= requests_to_certify(self._spec.objective.share) else None
        if high == math.inf:
            return self._higher_rate(own, max([low, *unsure]))
        if high / low > _CLOSE:
            middle = _rounded(math.sqrt(low * high))
            if not unsure:
                return middle
        return self._closer_rate(own, low, high, unsure)

    def _may_decide(self, one: RateEvidence) -> bool:
        """Whether a further window may decide a rate, if chance is as kind as one in six."""
        share, tested = self._spec.objective.share, sum(each.seconds for each in one.windows)
        further = self._window(one.replicas, one.offered_per_second).seconds
        growth = 1 + further / tested if tested else 1.0
        requests = one.effective_requests * growth
        misses = requests * one.misses / max(one.requests, 1)
        few, many = max(misses - math.sqrt(misses), 0.0), misses + math.sqrt(misses)
        return one.verdict == "void" or judge(requests, few, many, share) != "undecided"

    def _is_good(self, own: Capacity) -> bool:
        """Whether the target is kept so far, although not for certain: more requests would say."""
        last = own.rates[-1]
        return last.requests * (1 - self._spec.objective.share) >= last.misses

    def _higher_rate(self, own: Capacity, highest: float) -> float | None:
        load = self._spec.load
        # a client that is late at a rate is so at a higher one
        late = any(one.verdict == "void" and one.requests for one in own.rates)
        if late or highest >= load.most_rate_per_second:
            return None
        step = _STEP if len(own.rates) < 2 or not self._is_guided(own) else _SETTLE
        return _rounded(min(highest * step, load.most_rate_per_second))

    def _closer_rate(
        self, own: Capacity, low: float, high: float, unsure: list[float]
    ) -> float | None:
        """A rate that is as far from the estimate as the precision asks for: it can be decided.

        Between it and the estimate, verdicts take long and help little. Where it cannot be decided
        either, the gap to the bound is halved until it is as narrow.
        """
        close = 1 + self._spec.load.precision
        estimate = own.estimate or math.sqrt(low * high)
        below, above = _rounded(estimate / close), _rounded(estimate * close)
        nearly = math.sqrt(close)
        if below > low * nearly and all(one > below * nearly for one in unsure):
            return below
        if above < high / nearly and all(one < above / nearly for one in unsure):
            return above
        for near, far in ((min(unsure, default=low), low), (max(unsure, default=high), high)):
            if max(near / far, far / near) > close**2:
                return _rounded(math.sqrt(near * far))
        return None

    def _is_guided(self, own: Capacity) -> bool:
        return any(
            count != own.rates[0].replicas and self._capacity(count) for count in self._found
        )

    def _first_rate(self, count: int) -> float:
        load = self._spec.load
        each = self._rate_of_one() or load.first_rate_per_second
        rate = self._floor if self._floor and not self._rate_of_one() else each * count
        return _rounded(min(rate, load.most_rate_per_second))

    # ---- lengths

    def _window(self, count: int, rate: float) -> Step:
        look = self._looks(count, rate)
        seconds = min(self._least_seconds(rate) * 2**look, self._spec.load.most_window_seconds)
        return Step(count, self._round, rate, seconds, look)

    def _least_seconds(self, rate: float) -> float:
        load = self._spec.load
        needed = _MARGIN * requests_to_certify(self._spec.objective.share) / rate
        return min(max(load.window_seconds, needed), load.most_window_seconds)

    def _usual_rate(self) -> float:
        return self._floor or self._rate_of_one() or self._spec.load.first_rate_per_second

    def _seconds_of_a_verdict(self, extra: float) -> float:
        """What a verdict took on average, or is expected to take."""
        spent: dict[tuple[int, float], float] = {}
        for count, own in self._found.items():
            for one in own:
                key = count, one.served.offered_per_second
                spent[key] = spent.get(key, 0.0) + one.served.seconds + extra
        if spent:
            return sum(spent.values()) / len(spent)
        known = self._mode != "bracket"
        load = self._spec.load
        first = self._least_seconds(self._usual_rate()) if known else load.window_seconds
        return _USUAL_LOOKS * first + extra

    def _rates_left(self, count: int) -> float:
        """About how many rates the bracket of a fleet still needs."""
        if self._failed(count):
            return 0.0
        own, close = self._capacity(count), math.log(1 + self._spec.load.precision)
        if own is None or not own.rate or not own.breaks_at:
            begun = 0 if own is None else len(own.rates)
            return max(2.0 + math.log2(max(math.log(2) / close, 1.0)) + 2.0 - begun, 2.0)
        if self._bracket_rate(count) is None:
            return 0.0
        return 1.0 + max(math.log2(math.log(own.breaks_at / own.rate) / close), 0.0)


def _guess(own: Capacity) -> float:
    """What a fleet serves, by its estimate or by what it answered when it was saturated."""
    answered = _BELOW * _answered(own)
    if own.rate:
        return own.estimate or own.rate
    return min(answered, own.breaks_at) if answered and own.breaks_at else answered


def _answered(own: Capacity) -> float:
    """The most requests a second that a fleet answered."""
    windows = [window for one in own.rates for window in one.windows]
    return max((window.requests_per_second for window in windows), default=0.0)


def _rounded(rate: float) -> float:
    """Three digits: finer rates are alike in any window, and these can be read."""
    return float(f"{rate:.3g}")
