"""Sweeps of fleets with known capacity: share of right decisions, and duration.

    python benchmarks/fleet_truth.py                 # 50 sweeps of each, about ten minutes
    python benchmarks/fleet_truth.py 10 M/M/1 M/M/c  # fewer sweeps, these queues only

Queues are simulated in virtual time in the place of the load generator; search and decision are
those of `nodewise fleet sweep`. The limit is the 99th percentile of the latency at a known rate, so
the capacity is known: by formula for M/M/1 and M/M/c, by simulation of millions of requests for the
others. Windows last 30 s. A server that stalls, a few times in a window and seldom as long as the
limit, shows what one window cannot see: there only the verdict of a whole test counts. Exits with 1
if "met" is said too often at the limit, or if a number of replicas near it is wrong in more than 5
of 100 sweeps.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewise.fleet.batching import Engine, Traffic, simulate
from nodewise.fleet.capacity import at_rate
from nodewise.fleet.decide import FleetDecision, FleetQuestion, decide_fleet
from nodewise.fleet.latency import judged
from nodewise.fleet.load.sweep import follow
from nodewise.fleet.search import Search, Step
from nodewise.fleet.spec import Demand as DemandSpec
from nodewise.fleet.spec import FleetSpec, LoadSpec, Server
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Window

Floats = NDArray[np.float64]
# Arrival times of a fleet of so many replicas to latencies.
Latencies = Callable[[Floats, int, np.random.Generator], Floats]

SWEEPS = 50
SECONDS, LONGEST, WARMUP = 30.0, 120.0, 5.0
SHARE = 0.99
SIZES = (1, 2, 3, 4)
AT = (0.90, 0.97, 1.03, 1.10)  # of the capacity of two replicas
LONG = 3_000_000  # requests, to find a limit
SERVICE = 0.02  # seconds


class Queue(NamedTuple):
    """A fleet: how it answers, and the rate of one replica at its limit."""

    name: str
    latencies: Latencies
    capacity: Callable[[int], float]
    limit: float
    burst: int = 1


def arrivals(rate: float, seconds: float, burst: int, draw: np.random.Generator) -> Floats:
    """As the client draws them: a fixed number at independent moments, in groups if they burst."""
    count = max(round(rate * seconds), 1)
    groups = np.sort(draw.uniform(0.0, seconds, -(-count // burst)))
    return np.repeat(groups, burst)[:count]


def single_server(times: Floats, service: Floats) -> Floats:
    """Latencies of one queue before one server, all at once."""
    steps = np.concatenate([[0.0], service[:-1] - np.diff(times)])
    total = np.cumsum(steps)
    return total - np.minimum.accumulate(np.minimum(total, 0.0)) + service


def split(one: Callable[[Floats, np.random.Generator], Floats], burst: int = 1) -> Latencies:
    """A fleet in which each request, or each burst, goes to a replica by chance."""

    def latencies(times: Floats, replicas: int, draw: np.random.Generator) -> Floats:
        groups = -(-len(times) // burst)
        where = np.repeat(draw.integers(0, replicas, groups), burst)[: len(times)]
        found = np.zeros(len(times))
        for replica in range(replicas):
            own = where == replica
            if own.any():
                found[own] = one(times[own], draw)
        return found

    return latencies


def exponential(times: Floats, draw: np.random.Generator) -> Floats:
    """One server, exponential service."""
    return single_server(times, draw.exponential(SERVICE, len(times)))


def constant(times: Floats, _: np.random.Generator) -> Floats:
    """One server, constant service."""
    return single_server(times, np.full(len(times), SERVICE))


def stalling(times: Floats, draw: np.random.Generator) -> Floats:
    """One server that stands still once in 20 s on average, for 0.4 s on average."""
    begin, end = float(times[0]), float(times[-1])
    stalls = draw.uniform(begin, end, draw.poisson((end - begin) / 20.0))
    every = np.concatenate([times, stalls])
    needed = np.concatenate(
        [draw.exponential(SERVICE, len(times)), draw.exponential(0.4, len(stalls))]
    )
    order = np.argsort(every, kind="stable")
    found = np.empty(len(every))
    found[order] = single_server(every[order], needed[order])
    return found[: len(times)]


def shared_queue(times: Floats, replicas: int, draw: np.random.Generator) -> Floats:
    """One queue before all replicas, exponential service."""
    service, free = draw.exponential(SERVICE, len(times)).tolist(), [-math.inf] * replicas
    found = []
    for arrival, needed in zip(times.tolist(), service, strict=True):
        end = max(free[0], arrival) + needed
        heapreplace(free, end)
        found.append(end - arrival)
    return np.array(found)


ENGINE = Engine(step=0.004, per_sequence=0.0002, per_prompt_token=2e-5, slots=16)


def batching(times: Floats, draw: np.random.Generator) -> Floats:
    """Continuous batching: answers of 16 to 64 tokens, 16 at once."""
    times = times - times[0]  # an engine begins at 0
    traffic = Traffic(times, draw.integers(16, 256, len(times)), draw.integers(16, 65, len(times)))
    made = simulate(ENGINE, traffic, 1, seconds=float(times[-1]) or 1.0)
    return np.array([one.last or math.inf for one in made.requests]) - times


def queues() -> Iterator[Queue]:
    """The fleets, with what they serve for certain."""
    mm1 = 0.8 / SERVICE
    yield Queue("M/M/1", split(exponential), lambda r: r * mm1, math.log(100) * SERVICE / 0.2)
    found = long_run(split(constant), 0.85 / SERVICE, 1)
    yield Queue("M/D/1", split(constant), lambda r: r * 0.85 / SERVICE, found)
    yield Queue("M/M/c", shared_queue, lambda r: erlang_capacity(r, 0.16), 0.16)
    found = long_run(split(batching), 42.0, 1, LONG // 10)
    yield Queue("batching server", split(batching), lambda r: 42.0 * r, found)
    found = long_run(split(exponential, 4), 0.7 / SERVICE, 4)
    yield Queue("bursts of 4", split(exponential, 4), lambda r: r * 0.7 / SERVICE, found, 4)


def stalls() -> Queue:
    """A fleet whose misses come from rare events."""
    found = long_run(split(stalling), 0.6 / SERVICE, 1)
    return Queue("stalls", split(stalling), lambda r: r * 0.6 / SERVICE, found)


def long_run(latencies: Latencies, rate: float, burst: int, count: int = LONG) -> float:
    """The 99th percentile of the latency of one replica at a rate."""
    draw = np.random.default_rng(1)
    times = arrivals(rate, count / rate, burst, draw)
    return float(np.quantile(latencies(times, 1, draw)[count // 100 :], SHARE))


def erlang_capacity(servers: int, limit: float) -> float:
    """The rate at which 99 % of the requests of M/M/c are answered within the limit."""
    low, high = 0.0, servers / SERVICE
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if late(middle, servers, limit) < 1 - SHARE else (low, middle)
    return low


def late(rate: float, servers: int, limit: float) -> float:
    """The share of requests of M/M/c that take longer than the limit."""
    from nodewise.base.queueing import erlang_c

    busy, steps = rate * SERVICE, limit / SERVICE
    chance, spare = erlang_c(servers, busy), servers - busy - 1
    if abs(spare) < 1e-9:
        return math.exp(-steps) * (1 + chance * steps)
    return math.exp(-steps) * (1 + chance * (1 - math.exp(-steps * spare)) / spare)


class Virtual:
    """A fleet in virtual time."""

    def __init__(self, queue: Queue, replicas: int, seed: list[int]) -> None:
        """The seed makes each sweep another one."""
        self.queue, self.replicas, self.seed = queue, replicas, seed

    def window(self, step: Step) -> Window:
        """The window that the client would have recorded, without a late moment."""
        seed = [*self.seed, self.replicas, step.round, step.look, round(1000 * step.rate)]
        draw = np.random.default_rng(seed)
        queue = self.queue
        times = arrivals(step.rate, step.seconds + WARMUP, queue.burst, draw) - WARMUP
        ends = times + queue.latencies(times, self.replicas, draw)
        return Window(
            replicas=self.replicas,
            round=step.round,
            offered_per_second=step.rate,
            seconds=step.seconds,
            client_seconds=step.seconds + WARMUP,
            requests=tuple(
                Request(intended=start, sent=start, first=end, last=end, output_tokens=1)
                for start, end in zip(times.tolist(), ends.tolist(), strict=True)
                if start >= 0
            ),
        )


def spec_of(queue: Queue, replicas: tuple[int, ...], demand: float | None) -> FleetSpec:
    """What a user would write."""
    return FleetSpec(
        name=queue.name,
        replicas=replicas,
        rounds=1,
        server=Server(endpoints=("http://127.0.0.1:1",)),
        load=LoadSpec(
            first_rate_per_second=5.0,
            window_seconds=SECONDS,
            most_window_seconds=LONGEST,
            warmup_seconds=WARMUP,
        ),
        objective=Objective(latency=queue.limit, share=SHARE),
        demand=DemandSpec(per_second=demand),
    )


def swept(queue: Queue, spec: FleetSpec, seed: int) -> tuple[FleetDecision, float]:
    """The decision of one sweep, and its virtual minutes."""
    made: list[Window] = []

    @contextmanager
    def opened(count: int) -> Iterator[Virtual]:
        yield Virtual(queue, count, [seed])

    follow(Search(spec), spec, opened, made.append, lambda *_: None)
    question = FleetQuestion(objective=spec.objective, demand_per_second=spec.demand.per_second)
    minutes = sum(one.seconds + WARMUP + 1 for one in made) / 60
    return decide_fleet(queue.name, made, question), minutes


def verdicts(queue: Queue, scale: float, count: int) -> tuple[list[str], list[str]]:
    """What single windows and three looks say at a multiple of the capacity of one replica."""
    rate = queue.capacity(1) * scale
    objective = Objective(latency=queue.limit, share=SHARE)
    alone, looked = [], []
    for seed in range(count):
        fleet, group, said = Virtual(queue, 1, [9, seed]), [], "undecided"
        for look in range(3):
            window = fleet.window(Step(1, 0, rate, min(SECONDS * 2**look, LONGEST), look))
            group.append(judged(window, objective))
            said = at_rate(group, objective).verdict
            if look == 0:
                alone.append(group[0].served.verdict)
            tested = sum(one.served.seconds for one in group)
            if said == "missed" or (said == "met" and tested >= objective.stall_seconds):
                break
        looked.append(said)
    return alone, looked


def percent(found: list[str], wanted: str) -> str:
    """How often something was said."""
    return f"{100 * found.count(wanted) / len(found):.0f}"


def calibration(queue: Queue, count: int, single: bool = True) -> bool:
    """Whether "met" is said rarely enough at the limit; "missed" too; `single` windows count."""
    good = True
    for scale in (0.97, 1.0, 1.03):
        alone, looked = verdicts(queue, scale, count)
        print(f"{queue.name:16s} {scale:5.2f}   {percent(alone, 'met'):>4s} / "
              f"{percent(alone, 'missed'):>3s}      {percent(looked, 'met'):>4s} / "
              f"{percent(looked, 'missed'):>3s}", flush=True)  # fmt: skip
        wrong = {0.97: ("missed",), 1.0: ("met", "missed"), 1.03: ("met",)}[scale]
        # 5 % of the windows, and what chance adds to it
        most = 0.05 * count + 2 * math.sqrt(0.05 * 0.95 * count)
        counted = (alone, looked) if single else (looked,)
        good = good and all(said.count(one) <= most for said in counted for one in wrong)
    return good


def capacities(queue: Queue, sweeps: int) -> None:
    """The error of the capacity of two replicas, and whether its bounds hold the truth."""
    truth = queue.capacity(2)
    errors, held, widths, minutes = [], 0, [], []
    begun = time.process_time()
    for seed in range(sweeps):
        result, took = swept(queue, spec_of(queue, (2,), None), seed)
        row = result.row(2)
        high = row.breaks_at or math.inf
        held += row.rate_per_second <= truth <= high
        errors.append((row.estimate or 0.0) / truth - 1)
        widths.append(high / row.rate_per_second - 1 if row.rate_per_second else math.inf)
        minutes.append(took)
    real = (time.process_time() - begun) / 60 / sweeps
    print(f"{queue.name:16s} {truth:7.1f}   {100 * float(np.mean(errors)):+5.1f} "
          f"+- {100 * float(np.std(errors)):4.1f} %   {100 * held / sweeps:5.0f} %   "
          f"{100 * float(np.median(widths)):4.0f} %   {float(np.mean(minutes)):5.1f}   "
          f"{real:6.3f}", flush=True)  # fmt: skip


def choices(queue: Queue, sweeps: int) -> bool:
    """How often the number of replicas is right, undecided and wrong."""
    good = True
    for part in AT:
        demand, truth = part * queue.capacity(2), 2 if part < 1 else 3
        found: list[str] = []
        minutes = []
        begun = time.process_time()
        for seed in range(sweeps):
            result, took = swept(queue, spec_of(queue, SIZES, demand), 100 + seed)
            open_ = bool(result.rivals) or result.chosen is None
            may_be = truth in (result.chosen, *result.rivals)
            right = "undecided" if may_be else "wrong"
            found.append(("right" if result.chosen == truth else "wrong") if not open_ else right)
            minutes.append(took)
        real = (time.process_time() - begun) / 60 / sweeps
        print(f"{queue.name:16s} {part:5.2f}   {percent(found, 'right'):>5s}   "
              f"{percent(found, 'undecided'):>9s}   {percent(found, 'wrong'):>5s}   "
              f"{float(np.mean(minutes)):5.1f}   {real:6.3f}", flush=True)  # fmt: skip
        good = good and found.count("wrong") <= max(0.05 * sweeps, 1)
    return good


def main() -> int:
    """Three tables."""
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else SWEEPS
    wanted = sys.argv[2:]
    chosen = [queue for queue in queues() if not wanted or queue.name in wanted]
    print(f"Windows of {SECONDS:g} s, then {2 * SECONDS:g} and {4 * SECONDS:g} s where undecided; "
          f"{SHARE:.0%} within the limit; {sweeps} sweeps each.")  # fmt: skip
    count = 2 * sweeps
    print(f"\nVerdicts at a multiple of the capacity, of {count} each: met / missed, %")
    print("queue               at   one window   up to three windows")
    good = [calibration(queue, count) for queue in chosen]
    print("\nCapacity of two replicas, requests/s")
    print("queue              truth   error, mean and sd   bounds hold   width   minutes   CPU")
    for queue in chosen:
        capacities(queue, sweeps)
    print(
        "\nReplicas for a demand, as a multiple of the capacity of two: %, virtual and CPU minutes"
    )
    print("queue               at   right   undecided   wrong   minutes   CPU")
    good += [choices(queue, sweeps) for queue in chosen]
    if not wanted:
        rare = stalls()
        print(f"\nStalls, few as long as the limit of {rare.limit:.2g} s: met / missed, %")
        good.append(calibration(rare, count, single=False))
    print(f"\n{'Kept' if all(good) else 'MISSED'}: met at the limit and wrong numbers of replicas "
          "in at most 5 of 100.")  # fmt: skip
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
