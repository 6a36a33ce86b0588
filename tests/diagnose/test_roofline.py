"""The roofline on paper, the menu, the guard, the memory of training."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.diagnose.axes import CEILINGS, MENU, PROPOSALS, judge
from nodewise.diagnose.flow import Facts, Service, diagnose, replicas_for
from nodewise.diagnose.links import Link
from nodewise.diagnose.memory import Demand, demand_of, device_bytes, fit
from nodewise.diagnose.roofline import binds_at, roofline

POSITIVE = st.floats(1e-3, 1e3)
EXERCISE = {
    "peak_flops": 20e12,
    "memory_bandwidth": 800e9,
    "flops": 6e12,
    "memory_bytes": 1.2e11,
}


def link(bytes_per_second, latency=0.0):
    return Link(latency_seconds=latency, bytes_per_second=bytes_per_second, efficiency=1)


LINK = {"link": link(25e9, 10e-6), "net_bytes": 4e9}


def test_the_exercise_of_the_book():
    step = roofline(**EXERCISE, **LINK)
    assert (step.ridge, step.intensity) == (25.0, 50.0)
    assert (step.bound, step.axis) == ("compute", "training")
    assert step.compute_s == pytest.approx(0.3, rel=1e-12)
    assert step.comm_s == pytest.approx(0.16001, rel=1e-12)
    assert step.communication_bound is False
    # Shared by two workers, the exchange already takes longer than each half of the work.
    assert (step.binds_at_strong, step.binds_at_weak) == (2, 16)
    assert step.verdict == (
        "a second worker does not shorten a step of fixed size: 2 workers take 0.310 s, one takes "
        "0.300 s"
    )
    assert step.reasons[0] == (
        "only a whole step for each worker (weak scaling) pays: efficiency 0.65 on 2 workers to "
        "0.49 on 64"
    )
    assert step.reasons[-1] == "axis: training, with a whole step for each worker"


@given(POSITIVE, st.floats(1e-3, 1e3), st.floats(0, 0.1))
def test_the_verdict_agrees_with_the_table(step_s, exchanged, latency):
    step = roofline(
        peak_flops=1.0, memory_bandwidth=1e9, flops=step_s, memory_bytes=step_s,
        link=link(1.0, latency), net_bytes=exchanged,
    )  # fmt: skip
    gains = any(row.strong_step_s < step.step_s for row in step.workers)
    assert ("second worker does not shorten" in step.verdict) == (not gains)
    split = "split the work among up to" in step.reasons[-1]
    assert split == (gains and step.axis == "training")
    if step.axis == "coordination":
        assert all(row.weak_efficiency < 0.5 for row in step.workers[1:])
    else:
        assert step.workers[1].weak_efficiency >= 0.5


def test_golden_figures(shared):
    golden = json.loads((shared / "golden" / "golden.json").read_text())["roofline"]
    step = roofline(
        peak_flops=golden["peak_flops"],
        memory_bandwidth=golden["mem_bytes_per_s"],
        flops=golden["step_flops"],
        memory_bytes=golden["step_bytes"],
        link=link(golden["net_bytes_per_s"], golden["alpha_s"]),
        net_bytes=golden["net_bytes"],
    )
    for name, expected in golden["expected"].items():
        found = getattr(step, name)
        assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_no_step_is_faster_than_its_roof(peak, bandwidth, flops, moved):
    step = roofline(peak_flops=peak, memory_bandwidth=bandwidth, flops=flops, memory_bytes=moved)
    assert flops / step.step_s == pytest.approx(step.attainable_flops)
    assert step.step_s == max(step.compute_s, step.memory_s)
    memory = step.memory_s > step.compute_s * (1 + 1e-9)
    assert not (memory and step.bound == "compute")


@given(st.floats(1e-6, 10), POSITIVE, st.floats(0, 0.1), st.booleans())
def test_the_number_of_workers_at_which_the_exchange_binds(step_s, size, alpha, shared_step):
    slow = link(1.0, alpha)
    found = binds_at(slow, size, step_s, shared=shared_step)
    counts = range(1, 300)
    own = {count: step_s / count if shared_step else step_s for count in counts}
    first = next((count for count in counts if slow.ring(size, count) > own[count]), None)
    if first is not None:
        assert found == first
    else:
        assert found is None or found > max(counts)


def test_a_slow_link_moves_the_remedy_to_coordination():
    step = roofline(**EXERCISE, link=link(1e9), net_bytes=4e9)
    assert step.communication_bound
    assert step.axis == "coordination"
    assert "second worker does not shorten" in step.verdict
    assert step.reasons[-1] == "axis: coordination; reduce messages and waiting"


def test_memory_may_hide_the_exchange():
    step = roofline(
        peak_flops=1e12, memory_bandwidth=1e9, flops=1e9, memory_bytes=1e9,
        link=link(2e9), net_bytes=1e9,
    )  # fmt: skip
    assert step.communication_bound  # against the arithmetic alone
    assert step.axis == "model"
    assert any("memory bandwidth still binds" in note for note in step.notes)


def test_the_memory_of_the_zero_paper():
    """Figure 1 of the paper: 7.5 billion parameters on 64 devices."""
    demand = demand_of(7.5e9)
    found = [device_bytes(demand, one, 64) / 1e9 for one in ("data parallel", "ZeRO-1", "ZeRO-2")]
    assert found == [pytest.approx(gigabytes, abs=0.05) for gigabytes in (120, 31.4, 16.6)]
    assert device_bytes(demand, "ZeRO-3 / FSDP", 64) / 1e9 == pytest.approx(1.9, abs=0.05)


@given(st.floats(1, 1e12), st.integers(1, 512), st.floats(0, 1e12), st.floats(1, 1e13))
def test_splitting_more_never_needs_more(parameters, workers, activations, memory):
    demand = demand_of(parameters, activations=activations)
    sizes = [share.device_bytes for share in fit(demand, memory, workers).shares]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(sizes))
    found = fit(demand, memory, workers)
    if found.least_workers is not None and found.least_workers < 10**9:
        enough = device_bytes(demand, "ZeRO-3 / FSDP", found.least_workers)
        assert enough <= memory * (1 + 1e-9)


def test_data_parallelism_multiplies_the_failure():
    found = fit(demand_of(13e9), 80e9, workers=4)
    assert not found.fits_one_device
    assert found.demand.total == 208e9
    assert [share.fits for share in found.shares] == [False, False, True, True, True]
    assert "data parallelism does not help" in found.verdict
    assert found.least_workers == 3


@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_one_axis_for_a_ceiling_and_a_reason_for_every_other(ceiling, proposal):
    answer = judge(proposal, ceiling)
    assert answer.answer == ("yes" if PROPOSALS[proposal].axis == MENU[ceiling].axis else "no")
    assert len(answer.reason) > 40
    assert answer.instead


def test_without_a_ceiling_nobody_says_yes():
    assert all(judge(proposal, None).answer == "undecided" for proposal in PROPOSALS)


SPEECH = Facts(service=Service(budget_seconds=0.2, rate=1000, request_seconds=0.08))
PRETRAINING = Facts(needed_memory=240e9, device_memory=80e9)
CRAWL = Facts(dataset_bytes=50e12, disk_bytes=16e12)
THIRTEEN = Facts(training=fit(demand_of(13e9), 80e9, 4))


@pytest.mark.parametrize(
    ("facts", "ceiling", "axis", "right", "wrong"),
    [
        (SPEECH, "latency", "inference", "replicas", "data-parallel"),
        (PRETRAINING, "memory capacity", "model", "model-parallel", "data-parallel"),
        (CRAWL, "data I/O", "data", "data-sharding", "model-parallel"),
        (THIRTEEN, "memory capacity", "model", "fsdp", "data-parallel"),
    ],
)
def test_the_ideas_of_the_book(facts, ceiling, axis, right, wrong):
    found = diagnose(facts, right)
    assert (found.ceiling, found.axis, found.answer.answer) == (ceiling, axis, "yes")
    refused = diagnose(facts, wrong)
    assert refused.answer.answer == "no"
    assert refused.answer.reason


def test_the_right_axis_with_too_few_devices_is_refused():
    found = diagnose(Facts(training=fit(demand_of(13e9), 80e9, 2)), "fsdp")
    assert found.answer.answer == "no"
    assert "from 3 devices on" in found.answer.instead


def test_replicas_do_not_shorten_one_request():
    slow = Facts(service=Service(budget_seconds=0.2, rate=10, request_seconds=0.3))
    assert diagnose(slow, "replicas").answer.answer == "no"
    assert diagnose(slow, "tensor-parallel").answer.answer == "yes"


def test_one_machine_may_be_enough():
    calm = Facts(service=Service(budget_seconds=1.0, rate=1, request_seconds=0.05))
    found = diagnose(calm, "replicas")
    assert found.outcome == "enough"
    assert found.answer.answer == "no"


def test_a_model_that_fits_is_not_split_and_nothing_more_is_known():
    fits = Facts(training=fit(demand_of(1e9), 80e9, 4))
    assert diagnose(fits).outcome == "undecided"
    assert diagnose(fits, "model-parallel").answer.answer == "no"
    assert diagnose(fits, "data-parallel").answer.answer == "undecided"


def test_a_yes_says_where_it_ends():
    facts = Facts(step=roofline(**EXERCISE, **LINK))
    answer = diagnose(facts, "data-parallel").answer
    assert answer.answer == "yes"
    assert "does not shorten a step of fixed size: 2 workers take 0.310 s" in answer.reason
    assert "pays: efficiency 0.65 on 2 workers to 0.49 on 64" in answer.reason
    assert diagnose(facts, "model-parallel").answer.answer == "no"


@given(st.floats(0.1, 200), st.floats(0.001, 0.2), st.floats(0, 0.5))
def test_replicas_are_never_fewer_than_the_load(rate, request, spare):
    found = replicas_for(
        Service(budget_seconds=request + spare, rate=rate, request_seconds=request)
    )
    assert found is None or found > rate * request
    more = replicas_for(
        Service(budget_seconds=request + 2 * spare, rate=rate, request_seconds=request)
    )
    assert more <= found


def test_erlang_against_a_simulated_queue():
    """With constant times, the sized fleet keeps the budget in at least the promised share."""
    import heapq

    import numpy as np

    service = Service(budget_seconds=0.2, rate=100, request_seconds=0.08)
    replicas = replicas_for(service)
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / service.rate, 20_000))
    free = [0.0] * replicas
    late = 0
    for arrival in arrivals:
        end = max(heapq.heappop(free), arrival) + service.request_seconds
        heapq.heappush(free, end)
        late += end - arrival > service.budget_seconds
    assert late / len(arrivals) <= 0.05


def test_a_demand_is_the_sum_of_its_parts():
    demand = Demand(parameters=1, gradients=2, states=3, activations=4)
    assert demand.total == 10
    assert demand_of(1, "sgd", "fp32").total == 8
    assert demand_of(1, "adam", "fp32").total == 16
