"""An engine calibrated on one replica, and the fleets that it predicts, with their residual.

The time between the first and the last token of a request with n tokens is

    step * (n - 1) + per_sequence * (n - 1) * sequences beside it + per_prompt_token * prompt
    tokens that others brought in meanwhile,

and a request that finds the replica idle has its first token after per_request + step +
per_sequence + per_prompt_token * its prompt. Both are linear in the four unknowns; requests that
something else disturbed are left out and the fit is made again, so that it describes the ordinary
request. Simulated tails are too good by what an ordinary request does not show: the residual
against every measured window is part of the answer. Replicas that share cores slow each other down,
which one replica cannot show. The windows of larger fleets do: their ordinary requests take longer
than the engine says. Where that is so, or the machine that client and replicas share was busy,
larger fleets are not predicted.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Floats
from nodewise.fleet.batching import Engine, Router, poisson_traffic, replayed, simulate
from nodewise.fleet.fleet_checks import BUSY_MACHINE
from nodewise.fleet.latency import Served, served
from nodewise.fleet.window_checks import seconds_before
from nodewise.study.service_objective import Objective
from nodewise.study.window import Summary, Window

_FAR = 3.0  # times the median deviation: not an ordinary request
_REFITS = 3
_REQUESTS = 1000  # of a simulated window, for each replica: enough to fill its queue
_PRECISION = 0.02  # of the rate that is searched
_DOUBLINGS = 40
_FEW = 30  # requests that an engine is not calibrated from
# The fit itself is off by a few percent; in busy fleets of replicas that share nothing it is below.
_SLOWER = 1.10
_METRICS = (("TTFT", "ttft"), ("TPOT", "tpot"), ("latency", "latency"))


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """An engine and how well it describes the requests that it was made from."""

    engine: Engine
    requests: int
    left_out: int  # requests that something else disturbed
    off_by: float  # of an ordinary request's time, in the median


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """One percentile of one window, measured and simulated with the same arrivals."""

    replicas: int
    offered_per_second: float
    metric: str
    share: float
    measured: float
    simulated: float
    is_calibration: bool  # the engine was made from this window

    @property
    def off_by(self) -> float:
        """The error of the simulation, as a share of what was measured."""
        return self.simulated / self.measured - 1


class Slowdown(msgspec.Struct, frozen=True, kw_only=True):
    """How much longer an ordinary request of a fleet takes than one replica alone would need."""

    replicas: int
    factor: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibrated engine says about fleets, and how far it was off where they were run."""

    objective: Objective
    router: Router
    calibration: Calibration
    residuals: tuple[Residual, ...]
    fleets: tuple[Served, ...]  # the highest rate that each predicted fleet serves
    windows: tuple[Window, ...] = ()
    slowdowns: tuple[Slowdown, ...] = ()  # of the larger fleets that were measured
    withheld: str = ""  # why no fleet is predicted

    def worst(self, share: float, calibration: bool = False) -> float | None:
        """The largest error of a latency percentile, over fleets it was not calibrated on."""
        errors = [
            abs(row.off_by)
            for row in self.residuals
            if row.share == share and row.metric == "latency" and row.is_calibration == calibration
        ]
        return max(errors, default=None)


def calibrate(
    windows: Sequence[Window | Summary],
    slots: int | None = None,
    kv_tokens: int | None = None,
    prefill_budget: int | None = None,
) -> Calibration:
    """The engine behind the measured windows of one replica."""
    own = [one for one in windows if isinstance(one, Window) and one.replicas == 1]
    rows = [_equations(window) for window in own]
    design = np.concatenate([design for design, _ in rows]) if rows else np.zeros((0, 4))
    times = np.concatenate([times for _, times in rows]) if rows else np.zeros(0)
    if len(times) < _FEW:
        raise DataError(
            f"{len(times)} requests of one replica can be used; an engine needs {_FEW}.",
            "Give windows of one replica, with the records of streamed answers.",
        )
    scaled = design / times[:, None]  # every request counts alike, long or short
    kept = np.ones(len(times), bool)
    for _ in range(_REFITS):
        found = nonnegative_fit(scaled, np.ones(len(times)), kept.astype(np.float64))
        off = np.abs(scaled @ found - 1)
        kept = off <= _FAR * max(float(np.median(off)), 1e-9)
    step, per_sequence, per_prompt_token, per_request = (float(value) for value in found)
    return Calibration(
        engine=Engine(
            step=step,
            per_request=per_request,
            per_sequence=per_sequence,
            per_prompt_token=per_prompt_token,
            slots=slots,
            kv_tokens=kv_tokens,
            prefill_budget=prefill_budget,
        ),
        requests=len(times),
        left_out=int((~kept).sum()),
        off_by=float(np.median(off)),
    )


def _equations(window: Window) -> tuple[Floats, Floats]:
    """A row for each streamed answer, and one for each request that found the replica idle."""
    done = [one for one in window.requests if not one.error and one.first and one.last]
    if not done:
        return np.zeros((0, 4)), np.zeros(0)
    intended = np.array([one.intended for one in done])
    first = np.array([one.first for one in done], float)
    last = np.array([one.last for one in done], float)
    tokens = np.array([max(one.output_tokens, 1) for one in done], float)  # 0: not known
    prompts = np.array([one.input_tokens for one in done], float)
    begun, ended = np.sort(first), np.sort(last)
    streamed = (tokens > 2) & (last > first)
    beside = _mean_between(begun, ended, first, last, streamed)
    order = np.argsort(first)
    brought = np.concatenate([[0.0], np.cumsum(prompts[order])])
    meanwhile = (
        brought[np.searchsorted(begun, last, side="right")]
        - brought[np.searchsorted(begun, first, side="right")]
    )
    further = tokens - 1
    nothing, once = np.zeros_like(prompts), np.ones_like(prompts)
    decode = np.stack([further, further * beside, meanwhile, nothing], axis=1)[streamed]
    arrived = np.searchsorted(np.sort(intended), intended, side="left")
    idle = (arrived == np.searchsorted(ended, intended, side="right")) & (first > intended)
    alone = np.stack([once, once, prompts, once], axis=1)[idle]
    times = np.concatenate([(last - first)[streamed], (first - intended)[idle]])
    return np.concatenate([decode, alone]), times


def _mean_between(
    begun: Floats, ended: Floats, first: Floats, last: Floats, wanted: np.ndarray
) -> Floats:
    """The mean number of sequences in the batch while each of the answers came."""
    spans = np.where(wanted, last - first, 1.0)

    def until(at: Floats) -> Floats:
        return seconds_before(begun, at) - seconds_before(ended, at)

    inside = until(last) - until(first)
    return np.asarray(inside / spans)


def predict(
    calibration: Calibration,
    windows: Sequence[Window | Summary],
    objective: Objective,
    replicas: Sequence[int] = (2, 4, 8),
    router: Router = "shortest queue",
    seed: int = 7,
) -> Prediction:
    """Residuals against every measured window, and the fleets that were asked for.

    The lengths of requests are drawn from the measured ones.
    """
    measured = [one for one in windows if isinstance(one, Window) and not one.simulated]
    asked = [one for window in measured for one in window.requests if not one.error]
    if not asked:
        raise DataError("No request was answered.", "Give windows with answered requests.")
    lengths = ([one.input_tokens for one in asked], [one.output_tokens for one in asked])
    slowdowns = tuple(_slowdowns(calibration.engine, measured))
    withheld = _withheld(slowdowns, measured)
    tried = (
        []
        if withheld
        else [
            _highest_rate(calibration.engine, lengths, objective, count, router, seed)
            for count in replicas
        ]
    )
    fleets = [_best(group, objective) for group in tried]
    return Prediction(
        objective=objective,
        router=router,
        calibration=calibration,
        residuals=tuple(
            row for window in measured for row in _residuals(calibration, window, objective, router)
        ),
        fleets=tuple(one for one in fleets if one is not None),
        windows=tuple(window for group in tried for window in group),
        slowdowns=slowdowns,
        withheld=withheld,
    )


def _slowdowns(engine: Engine, measured: Sequence[Window]) -> list[Slowdown]:
    """The larger fleets, by the requests of each of their replicas."""
    constants = np.array(
        [engine.step, engine.per_sequence, engine.per_prompt_token, engine.per_request]
    )
    found: dict[int, list[Floats]] = {}
    for window in measured:
        if window.replicas == 1:
            continue
        for endpoint in sorted({one.endpoint for one in window.requests}):
            own = tuple(one for one in window.requests if one.endpoint == endpoint)
            design, times = _equations(msgspec.structs.replace(window, requests=own))
            expected = design @ constants
            ratios = (times / np.maximum(expected, 1e-12))[expected > 0]
            found.setdefault(window.replicas, []).append(ratios)
    joined = {count: np.concatenate(ratios) for count, ratios in found.items()}
    return [
        Slowdown(replicas=count, factor=float(np.median(ratios)))
        for count, ratios in sorted(joined.items())
        if len(ratios) >= _FEW
    ]


def _withheld(slowdowns: Sequence[Slowdown], measured: Sequence[Window]) -> str:
    """Why larger fleets cannot be predicted from one replica, or nothing."""
    worst = max(slowdowns, key=lambda one: one.factor, default=None)
    if worst is not None and worst.factor > _SLOWER:
        return (
            f"replicas slow each other down: an ordinary request takes {worst.factor:.2f} times "
            f"as long with {worst.replicas} replicas as with one"
        )
    busy = max((one.machine_busy or 0.0 for one in measured), default=0.0)
    if busy > BUSY_MACHINE:
        return f"client and replicas shared one machine, whose cores were {min(busy, 1.0):.0%} busy"
    return ""


def _residuals(
    calibration: Calibration, window: Window, objective: Objective, router: Router
) -> list[Residual]:
    seen = served(window, objective)
    if not seen.is_steady:  # the latency of a growing queue is that of the window's length
        return []
    replay = simulate(
        calibration.engine,
        replayed(window),
        window.replicas,
        router,
        window.offered_per_second,
        window.seconds,
    )
    made = served(replay, objective)
    rows = []
    for title, name in _METRICS:
        for one, other in zip(getattr(seen, name), getattr(made, name), strict=True):
            if one.share not in (0.5, 0.99) or not one.seconds or other.seconds is None:
                continue
            rows.append(
                Residual(
                    replicas=window.replicas,
                    offered_per_second=window.offered_per_second,
                    metric=title,
                    share=one.share,
                    measured=one.seconds,
                    simulated=other.seconds,
                    is_calibration=window.replicas == 1,
                )
            )
    return rows


def _highest_rate(
    engine: Engine,
    lengths: tuple[list[int], list[int]],
    objective: Objective,
    replicas: int,
    router: Router,
    seed: int,
) -> list[Window]:
    """Windows of a search for the highest rate that a fleet serves: doubling, then halving."""
    low, high, tried = 0.0, 0.0, []
    # one request at a time takes its prompt and its steps: surely served, if anything is
    alone = (
        engine.per_request
        + engine.per_prompt_token * float(np.mean(lengths[0]))
        + (engine.step + engine.per_sequence) * float(np.mean(lengths[1]))
    )
    rate, count = replicas / alone / 2, _REQUESTS * replicas
    for _ in range(_DOUBLINGS):
        traffic = poisson_traffic(rate, count, lengths, seed)
        tried.append(simulate(engine, traffic, replicas, router, rate, count / rate))
        if _keeps(tried[-1], objective):
            low = rate
        else:
            high = rate
        if high and high - low <= _PRECISION * high:
            break
        rate = (low + high) / 2 if high else 2 * rate
        if rate * alone < 1e-3 * replicas:  # not even alone
            break
    return tried


def _keeps(window: Window, objective: Objective) -> bool:
    """Whether a simulated fleet keeps the objective, without a growing queue."""
    seen = served(window, objective)
    return not seen.saturated and seen.attainment >= objective.share


def _best(windows: Sequence[Window], objective: Objective) -> Served | None:
    kept = [window for window in windows if _keeps(window, objective)]
    if not kept:
        return None
    return served(max(kept, key=lambda window: window.offered_per_second), objective)
