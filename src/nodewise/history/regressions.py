"""Slowdowns in a history: where they are, since which commit, how large, and by which cause."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import student_quantile
from nodewise.history.detect import Alarm, Point, detect
from nodewise.history.detect import Campaign as Measured
from nodewise.history.entry import Entry, Scale

Kind = Literal["base", "scaling", "workload", "series"]

SURE = 0.9  # a build that fails for nothing costs more than one that fails a commit later
WINDOW = 80  # campaigns that the detector sees; older ones are of other code
_ALIKE = 3.0  # two alarms of a row differ in size by less, else they are two slowdowns
_BEFORE = 8  # campaigns that a ledger is compared with
_LEAST_SHARE = 0.5  # of the added time: less is not the cause


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the wall time that grew most."""

    name: str  # empty: not identifiable
    share: float | None = None  # of the added time
    because: str = ""  # why none is named


class Regression(
    msgspec.Struct, frozen=True, kw_only=True, rename={"nodes_from": "from_K", "nodes": "K"}
):
    """One slowdown, as the newest campaign shows it."""

    kind: Kind
    workload: str | None = None  # of one workload, or one series
    nodes_from: int | None = None  # of scaling: at this K and above
    nodes: int | None = None  # of one series
    ratio: float  # new time over old time
    low: float
    high: float
    probability: float  # that a slowdown is real
    kind_probability: float  # that it is of this kind and scope, if it is real
    confirmed: bool  # sure enough to fail a build
    known: bool  # the campaign before showed it as surely
    age: int  # campaigns since the first slow one
    since: str  # date of the first campaign that is slower
    good: str  # the last commit, or date, before it
    bad: str  # the first commit, or date, that is slower
    same_code: bool  # both are one commit: the machine changed, or what runs beside the job
    cause: Cause
    measure_again: tuple[str, int] | None = None  # workload and K, where in doubt

    def covers(self, workload: str, nodes: int) -> bool:
        """Whether it says something of a workload at a K."""
        return (
            self.workload in (None, workload)
            and (self.nodes_from is None or nodes >= self.nodes_from)
            and self.nodes in (None, nodes)
        )


class Campaign(NamedTuple):
    """The studies that were made of one commit together, each workload once."""

    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """Its commit, or else its date."""
        return self.entries[0].commit or self.entries[0].date

    @property
    def label(self) -> str:
        """Its name, as it is shown."""
        return self.entries[0].label

    @property
    def is_clean(self) -> bool:
        """Whether its code is that of its commit."""
        return bool(self.entries[0].commit) and not any(one.changed for one in self.entries)

    @property
    def date(self) -> str:
        """When its last study began."""
        return self.entries[-1].date

    def of(self, workload: str) -> Entry | None:
        """The study of a workload."""
        return next((one for one in self.entries if one.workload == workload), None)


def campaigns_of(entries: Sequence[Entry], machine: str | None = None) -> list[Campaign]:
    """Studies in order of time, by the commit they were made of; invalid ones are left out.

    A workload that is studied again begins the next one, so that an unchanged commit may be
    measured as often as you like.
    """
    found: list[list[Entry]] = []
    for entry in entries:
        if entry.invalid or machine not in (None, entry.machine):
            continue
        held = found[-1] if found else []
        same = bool(held) and held[0].label == entry.label  # one commit, or one day
        if same and all(one.workload != entry.workload for one in held):
            held.append(entry)
        else:
            found.append([entry])
    return [Campaign(tuple(some)) for some in found]


def count_words(campaigns: int) -> str:
    """A number of campaigns, as it is shown."""
    return "1 campaign" if campaigns == 1 else f"{campaigns} campaigns"


def regressions(made: Sequence[Campaign]) -> list[Regression]:
    """What the newest campaign says: slowdowns that are sure, and suspicions."""
    recent = made[-WINDOW:]
    return _regressions_at(len(recent), recent, _Alarms(recent))


def past_regressions(made: Sequence[Campaign], most: int) -> list[Regression]:
    """The sure slowdowns of the last campaigns, each once, as they were first seen."""
    recent = made[-WINDOW - most :]
    alarms = _Alarms(recent)
    found: list[Regression] = []
    for end in range(max(len(recent) - most, 0) + 1, len(recent) + 1):
        for one in _regressions_at(end, recent, alarms):
            if one.confirmed and not one.known and one.since not in [held.since for held in found]:
                found.append(one)
    return found


class _Alarms:
    """What the detector says after each campaign, asked once."""

    def __init__(self, made: Sequence[Campaign]) -> None:
        self._campaigns = [_measured(one) for one in made]
        self._found: dict[int, Alarm | None] = {}

    def after(self, end: int) -> Alarm | None:
        """The alarm or the suspicion that the first `end` campaigns leave."""
        if end not in self._found:
            self._found[end] = next(iter(detect(self._campaigns[:end])), None)
        return self._found[end]


def _regressions_at(end: int, made: Sequence[Campaign], alarms: _Alarms) -> list[Regression]:
    alarm = alarms.after(end)
    if alarm is None:
        return []
    row = [alarm, *_row_before(alarm, end, alarms)]
    # The clearest of the row: the longer it goes on, the more the slow times become usual.
    best = min(row, key=lambda one: one.ratio_interval.high / one.ratio_interval.low)
    clearest = msgspec.structs.replace(best, since=min(row[-1].since, end - 1))
    known = any(one.probability >= SURE for one in row[1:])
    return [_regression(clearest, made[:end], known)]


def _row_before(alarm: Alarm, end: int, alarms: _Alarms) -> list[Alarm]:
    """The alarms of the unbroken row of campaigns before, as far as they are about as large."""
    row: list[Alarm] = []
    while alarm.confirmed and end > 2:
        end -= 1
        earlier = alarms.after(end)
        if earlier is None or not earlier.confirmed:
            break
        sizes = sorted(math.log(one.ratio) for one in (alarm, earlier))
        if sizes[1] > _ALIKE * sizes[0]:
            break
        row.append(earlier)
    return row


def _same_code(before: Campaign, after: Campaign) -> bool:
    return before.name == after.name and before.is_clean and after.is_clean


def _measured(made: Campaign) -> Measured:
    points = tuple(
        Point(entry.workload, scale.nodes, scale.seconds)
        for entry in made.entries
        for scale in entry.scales
    )
    return Measured(made.date, points)


def _regression(alarm: Alarm, made: Sequence[Campaign], known: bool) -> Regression:
    since = alarm.since
    kind: Kind = "workload" if alarm.kind == "test" else alarm.kind
    bare = Regression(
        kind=kind,
        workload=alarm.test,
        nodes_from=alarm.nodes_from,
        nodes=alarm.nodes,
        ratio=alarm.ratio,
        low=alarm.ratio_interval.low,
        high=alarm.ratio_interval.high,
        probability=alarm.probability,
        kind_probability=alarm.kind_probability,
        confirmed=alarm.probability >= SURE,
        known=known,
        age=len(made) - 1 - since,
        since=made[since].date,
        good=made[since - 1].name if since else "",
        bad=made[since].name,
        same_code=bool(since) and _same_code(made[since - 1], made[since]),
        cause=Cause(name=""),
        measure_again=alarm.measure_again,
    )
    cause = grown_cause(made[max(since - _BEFORE, 0) : since], made[since:], bare.covers)
    return msgspec.structs.replace(bare, cause=cause)


def grown_cause(
    before: Sequence[Campaign], after: Sequence[Campaign], covers: Callable[[str, int], bool]
) -> Cause:
    """The part of the wall time that takes most of the added seconds, where one clearly does.

    Each part is taken over the wall time before, so that every workload and K counts alike.
    """
    old, new = _parts(before, covers), _parts(after, covers)
    shared = [place for place in old if place in new]
    if not shared:
        return Cause(name="", because="the stages of a run are not recorded")
    grown: dict[str, list[Interval]] = {}
    for place in shared:
        for name in sorted(_recorded(old[place]) & _recorded(new[place])):
            grown.setdefault(name, []).append(_growth(old[place], new[place], name))
    if not grown:
        return Cause(name="", because="no part of the wall time is recorded before and after")
    means = {
        name: Interval(*(float(np.mean(ends)) for ends in zip(*some, strict=True)))
        for name, some in grown.items()
    }
    # what was recorded on one side only is in the wall time, and may be the cause
    whole = float(np.mean([_mean(new[place]) / _mean(old[place]) - 1 for place in shared]))
    added = max(sum(max(bounds.center, 0.0) for bounds in means.values()), whole)
    if added <= 0:
        return Cause(name="", because="no part of the wall time grew")
    top = max(means, key=lambda name: means[name].center)
    share = means[top].center / added
    if means[top].low <= 0 or share < _LEAST_SHARE:
        return Cause(name="", because="no part of the wall time clearly grew most")
    return Cause(name=top, share=share)


_Parts = dict[tuple[str, int], list[Scale]]


def _parts(made: Sequence[Campaign], covers: Callable[[str, int], bool]) -> _Parts:
    found: _Parts = {}
    for entry in (entry for one in made for entry in one.entries):
        for scale in entry.scales:
            if scale.parts and covers(entry.workload, scale.nodes):
                found.setdefault((entry.workload, scale.nodes), []).append(scale)
    return found


def _recorded(scales: Sequence[Scale]) -> set[str]:
    return {part for scale in scales for part in scale.parts}


def _mean(scales: Sequence[Scale]) -> float:
    return float(np.mean([scale.mean_seconds for scale in scales]))


def _growth(old: Sequence[Scale], new: Sequence[Scale], name: str) -> Interval:
    """By how much a part grew, over the wall time before; of two studies without a spread."""
    whole = _mean(old)
    first, second = (
        np.array([scale.parts[name] for scale in some if name in scale.parts]) / whole
        for some in (old, new)
    )
    center = float(second.mean() - first.mean())
    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return Interval(center, center)
    squares = sum(float(np.sum((some - some.mean()) ** 2)) for some in (first, second))
    spread = (squares / freedom * (1 / len(first) + 1 / len(second))) ** 0.5
    reach = student_quantile((1 + LEVEL) / 2, freedom) * spread
    return Interval(center - reach, center + reach)
