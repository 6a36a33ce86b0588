"""A history in numbers: every study at every K with intervals, and where the newest one belongs."""

from collections.abc import Sequence

import msgspec

from nodewise.history.check import HistoryCheck, check
from nodewise.history.entry import Entry, Scale
from nodewise.history.gates import Gate, interval_of, judge, parse_gate
from nodewise.history.regressions import (
    Campaign,
    Regression,
    campaigns_of,
    past_regressions,
)

SHOWN = 60  # campaigns in a trend; more points than these cannot be separated
_ENOUGH = 3  # rounds: the interval of two is as long as the chart is high
_CHANGE = parse_gate("time=0%")


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One metric of one study at one K."""

    at: int  # the campaign, counted from the first one shown
    label: str
    date: str
    workload: str
    nodes: int
    value: float
    low: float | None
    high: float | None


class TrendRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The newest study at one K, against those before it."""

    workload: str
    nodes: int
    seconds: float
    change: float | None  # of the time, against the mean of up to ten earlier studies
    change_low: float | None
    change_high: float | None
    efficiency: float | None  # null at the smallest K
    cost: float | None
    recent: tuple[float, ...]  # mean seconds, the newest last


class LedgerChange(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """Speedup lost to one cause before and now."""

    workload: str
    nodes: int
    cause: str
    before: float
    now: float


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a history says."""

    place: str
    studies: int
    campaigns: int  # on the machine of the newest study
    machines: int
    workloads: tuple[str, ...]
    first: str
    last: str
    check: HistoryCheck
    rows: tuple[TrendRow, ...]


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """The points behind a page."""

    labels: tuple[str, ...]  # of the campaigns shown
    dates: tuple[str, ...]
    seconds: tuple[TrendPoint, ...]
    speedup: tuple[TrendPoint, ...]
    efficiency: tuple[TrendPoint, ...]
    cost: tuple[TrendPoint, ...]
    currency: str
    changes: tuple[Regression, ...]  # confirmed slowdowns
    ledger: tuple[LedgerChange, ...]


def history(place: str, entries: Sequence[Entry], gates: Sequence[Gate] = ()) -> History:
    """The newest campaign against those before it."""
    result = check(entries, gates)
    made = campaigns_of(entries, result.machine)
    return History(
        place=place,
        studies=len(entries),
        campaigns=len(made),
        machines=len({entry.machine for entry in entries}),
        workloads=tuple(dict.fromkeys(entry.workload for entry in entries)),
        first=entries[0].date,
        last=entries[-1].date,
        check=result,
        rows=tuple(row for entry in result.newest for row in _rows(entry, made)),
    )


def _rows(newest: Entry, made: Sequence[Campaign]) -> list[TrendRow]:
    before = [
        entry
        for one in made[-SHOWN:]
        if (entry := one.of(newest.workload)) is not None and entry.key != newest.key
    ]
    rows = []
    for scale in newest.scales:
        gate = msgspec.structs.replace(_CHANGE, nodes=scale.nodes)
        (change,) = judge(gate, before, newest)
        past = [found.mean_seconds for one in before if (found := one.at(scale.nodes)) is not None]
        kept = interval_of(newest, "efficiency", scale.nodes)
        is_base = scale.nodes == newest.nodes[0]
        rows.append(
            TrendRow(
                workload=newest.workload,
                nodes=scale.nodes,
                seconds=scale.mean_seconds,
                change=change.value,
                change_low=change.low,
                change_high=change.high,
                efficiency=None if is_base or kept is None else kept[0],
                cost=scale.cost,
                recent=(*past, scale.mean_seconds),
            )
        )
    return rows


def trends(entries: Sequence[Entry], machine: str, most: int = SHOWN) -> Trends:
    """Every point of the last campaigns on one machine, and the slowdowns among them."""
    made = campaigns_of(entries, machine)
    shown = made[-most:]
    currency = next((entry.currency for entry in reversed(entries) if entry.currency), "")
    return Trends(
        labels=tuple(one.label for one in shown),
        dates=tuple(one.date for one in shown),
        seconds=_points(shown, "time"),
        speedup=_points(shown, "speedup"),
        efficiency=_points(shown, "efficiency"),
        cost=_points(shown, "cost", currency),
        currency=currency,
        changes=tuple(past_regressions(made, most)),
        ledger=_ledger(shown),
    )


def _points(made: Sequence[Campaign], metric: str, currency: str = "") -> tuple[TrendPoint, ...]:
    """A metric at every K; speedups only of studies with the base of the newest one."""
    points = []
    bases = {entry.workload: entry.nodes[0] for one in made for entry in one.entries}
    on_base = metric in ("speedup", "efficiency")
    for at, one in enumerate(made):
        for entry in one.entries:
            if currency and entry.currency != currency:
                continue
            if on_base and entry.nodes[0] != bases[entry.workload]:
                continue
            for nodes in entry.nodes[1:] if on_base else entry.nodes:
                asked = "efficiency" if metric == "speedup" else metric
                found = interval_of(entry, asked, nodes)  # type: ignore[arg-type]
                if found is None:
                    continue
                value, bounds = found
                scale = entry.at(nodes)
                if scale is not None and len(scale.seconds) < _ENOUGH:
                    bounds = None
                times = nodes / entry.nodes[0] if metric == "speedup" else 1.0
                points.append(
                    TrendPoint(
                        at=at,
                        label=one.label,
                        date=one.date,
                        workload=entry.workload,
                        nodes=nodes,
                        value=times * value,
                        low=None if bounds is None else times * bounds.low,
                        high=None if bounds is None else times * bounds.high,
                    )
                )
    return tuple(points)


def _ledger(made: Sequence[Campaign], before: int = 8) -> tuple[LedgerChange, ...]:
    """What each cause takes now, against the mean of earlier studies, at the largest K of each."""
    changes = []
    for newest in made[-1].entries if made else ():
        scale = newest.scales[-1]
        earlier = [
            found
            for one in made[-1 - before : -1]
            if (entry := one.of(newest.workload)) is not None
            and (found := entry.at(scale.nodes)) is not None
            and found.lost
        ]
        if not earlier or not scale.lost:
            continue
        for cause in sorted({*scale.lost, *(name for one in earlier for name in one.lost)}):
            before_it = [value for one in earlier if (value := _lost(one, cause)) is not None]
            now = _lost(scale, cause)
            if not before_it or now is None:
                continue
            changes.append(
                LedgerChange(
                    workload=newest.workload,
                    nodes=scale.nodes,
                    cause=cause,
                    before=sum(before_it) / len(before_it),
                    now=now,
                )
            )
    changes.sort(key=lambda one: -abs(one.now - one.before))
    return tuple(changes)


def _lost(scale: Scale, cause: str) -> float | None:
    """The speedup lost to a cause: none if its part is recorded, unknown if it is not."""
    part = "compute" if cause == "compute inflation" else cause
    return scale.lost.get(cause, 0.0 if part in scale.parts else None)
