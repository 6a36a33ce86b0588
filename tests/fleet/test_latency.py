"""What a window shows: percentiles with their certainty, goodput, and when it proves nothing."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.fleet.batching import Engine, poisson_traffic, simulate
from nodewise.fleet.certainty import (
    judge,
    judge_series,
    misses_too_often,
    requests_to_certify,
    wilson,
)
from nodewise.fleet.latency import percentile, served
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Summary, Window

LIMITS = Objective(ttft=0.2, tpot=0.05, share=0.99)


def request(at: float, ttft=0.1, tpot=0.02, tokens=11, delay=0.0, error="") -> Request:
    return Request(
        intended=at,
        sent=at + delay,
        first=at + ttft,
        last=at + ttft + tpot * (tokens - 1),
        input_tokens=32,
        output_tokens=tokens,
        error=error,
    )


def window(requests, rate=10.0, **more) -> Window:
    return Window(
        replicas=1,
        offered_per_second=rate,
        seconds=len(requests) / rate,
        requests=tuple(requests),
        client_cpu_seconds=1.0,
        client_seconds=40.0,
        **more,
    )


def steady(count: int, bad: int = 0, **more) -> Window:
    every = count // bad if bad else 0
    made = [
        request(at / 10, ttft=0.5 if bad and at % every == 0 and at // every < bad else 0.1, **more)
        for at in range(count)
    ]
    return window(made)


def test_no_p99_is_certified_from_fewer_than_299_requests():
    assert requests_to_certify(0.99) == 299
    assert [served(steady(count), LIMITS).verdict for count in (298, 299)] == ["undecided", "met"]
    p99 = served(steady(298), LIMITS).ttft[-1]
    assert (p99.seconds, p99.why) == (None, "needs 299 requests")
    assert served(steady(299), LIMITS).ttft[-1].seconds == pytest.approx(0.1)
    # both ends of the interval need more requests than the certificate of the upper one
    assert served(steady(367), LIMITS).ttft[-1].high is None
    assert served(steady(368), LIMITS).ttft[-1].high == pytest.approx(0.1)


def test_one_miss_needs_more_requests():
    # the binomial tail: P(X <= 1 | n, 0.01) <= 0.05 from n = 473 on
    assert [judge(n, 1, 1, 0.99) for n in (472, 473)] == ["undecided", "met"]


def test_errors_and_time_outs_miss():
    made = [request(at / 10, error="timeout" if at % 20 == 0 else "") for at in range(400)]
    result = served(window(made), LIMITS)
    assert result.failed == 20
    assert result.verdict == "missed"
    assert result.attainment == pytest.approx(0.95)
    assert result.latency[-1].why == "too many requests failed"
    assert result.latency[0].seconds == pytest.approx(0.3)


def test_every_limit_counts():
    slow = steady(400, tpot=0.06)
    assert served(slow, LIMITS).verdict == "missed"
    assert served(slow, Objective(ttft=0.2)).verdict == "met"
    assert served(slow, Objective(latency=0.65)).verdict == "missed"


def test_goodput_counts_the_tokens_of_good_requests():
    result = served(steady(400, bad=100), LIMITS)
    assert result.output_tokens_per_second == pytest.approx(110)
    assert result.good_tokens_per_second == pytest.approx(82.5)
    assert result.good_requests_per_second == pytest.approx(7.5)
    low, high = result.good_tokens_per_second_low, result.good_tokens_per_second_high
    assert low <= result.good_tokens_per_second <= high


def test_joules_per_million_good_tokens():
    result = served(msgspec.structs.replace(steady(400), energy_joules=880.0), LIMITS)
    assert result.joules_per_million_good_tokens == pytest.approx(880.0 / 4400 * 1e6)


def test_a_late_client_is_not_taken_for_a_slow_fleet():
    """It only adds to latencies: requests that are good all the same show what the fleet can do."""
    late = served(steady(400, delay=0.02), LIMITS)
    assert (late.verdict, late.is_client_fault, late.saturated) == ("met", True, False)
    assert "5 % of the limit" in late.why
    made = [request(at / 10, ttft=0.23 if at % 10 == 0 else 0.1, delay=0.02) for at in range(400)]
    slow = served(window(made), LIMITS)
    assert (slow.verdict, slow.is_client_fault) == ("void", True)
    assert served(steady(400, bad=40), LIMITS).verdict == "missed"
    assert served(steady(400, delay=0.005), LIMITS).verdict == "met"
    overloaded = window([request(at / 10, ttft=0.5 + at / 10, delay=0.02) for at in range(400)])
    assert served(overloaded, LIMITS).verdict == "missed"  # by far more than 20 ms
    hidden = msgspec.structs.replace(
        steady(400), client_cpu_seconds=30.0, from_intended=False, tool="other"
    )
    assert served(hidden, LIMITS).verdict == "void"  # its latencies hide what waited in the client


def test_a_client_that_cannot_keep_the_rate_voids_the_window():
    made = [request(at / 10, delay=at / 10 * 0.03) for at in range(400)]
    result = served(window(made), Objective(ttft=100.0))
    failed = [check.rule for check in result.checks if check.verdict == "fail"]
    assert failed == ["the client kept the rate"]


def test_a_busy_client_voids_the_window():
    busy = msgspec.structs.replace(steady(400), client_cpu_seconds=30.0)
    assert served(busy, LIMITS).is_client_fault
    unknown = msgspec.structs.replace(steady(400), client_seconds=0.0)
    assert served(unknown, LIMITS).verdict == "met"
    assert served(unknown, LIMITS).checks[-1].verdict == "unknown"


def test_a_growing_queue_is_saturation_and_not_the_clients_fault():
    made = [request(at / 10, ttft=0.1 + at / 100) for at in range(400)]
    result = served(window(made), Objective(ttft=0.2))
    assert (result.verdict, result.saturated, result.is_client_fault) == ("missed", True, False)
    kept = served(window(made), Objective(ttft=10.0))  # good so far, but it grows
    assert (kept.verdict, kept.saturated) == ("undecided", True)


def test_a_window_shorter_than_twenty_latencies_breaks_littles_law():
    slow = window([request(at / 10, ttft=5.0) for at in range(400)])
    result = served(slow, Objective(ttft=6.0))
    failed = [check for check in result.checks if check.verdict == "fail"]
    assert [check.rule for check in failed] == ["Little's law holds"]
    assert "longer" in failed[0].remedy
    assert result.verdict == "undecided"  # too short is neither kept nor broken
    assert served(slow, Objective(ttft=4.0)).verdict == "missed"


@pytest.mark.parametrize(("rate", "saturated"), [(30, 0.0), (55, 0.1), (110, 1.0)])
def test_saturation_is_found_and_not_invented(rate, saturated):
    engine = Engine(step=0.002, per_sequence=0.0001, per_prompt_token=5e-5, slots=16)
    found = []
    for seed in range(30):
        traffic = poisson_traffic(rate, 400, ([20, 64, 100], [16, 32, 96]), seed)
        found.append(served(simulate(engine, traffic, 1, seconds=400 / rate), LIMITS).saturated)
    share = float(np.mean(found))
    assert share <= saturated if saturated < 1 else share >= 0.9


def test_an_empty_window_is_void():
    result = served(window([]), LIMITS)
    assert result.verdict == "void"
    assert served(window([request(0.0)]), LIMITS).verdict == "void"


def test_wilson_holds_the_share():
    low, high = wilson(290, 300)
    assert low < 290 / 300 < high
    assert wilson(0, 10).low == 0.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9]))
def test_order_statistics_hold_the_percentile(seed, share):
    """Exponential values, whose percentiles are known: most intervals hold them."""
    draw = np.random.default_rng(seed)
    truth = -math.log(1 - share)
    held = 0
    for _ in range(60):
        found = percentile(draw.exponential(size=200), share)
        assert found.seconds is not None
        low = -1.0 if found.low is None else found.low
        high = math.inf if found.high is None else found.high
        assert low <= found.seconds <= high
        held += low <= truth <= high
    assert held >= 48  # 95 % are expected; fewer than 80 % has a chance below one in a million


waits = st.lists(st.floats(0.01, 0.5), min_size=20, max_size=60)


@given(waits, st.floats(0.01, 100.0))
def test_the_unit_of_time_changes_no_verdict(ttfts, unit):
    plain = window([request(at / 10, ttft=wait) for at, wait in enumerate(ttfts)])
    scaled = msgspec.structs.replace(
        plain,
        offered_per_second=plain.offered_per_second / unit,
        seconds=plain.seconds * unit,
        requests=tuple(
            msgspec.structs.replace(
                one,
                intended=one.intended * unit,
                sent=one.sent * unit,
                first=one.first * unit,
                last=one.last * unit,
            )
            for one in plain.requests
        ),
        client_cpu_seconds=plain.client_cpu_seconds * unit,
        client_seconds=plain.client_seconds * unit,
    )
    # no latency stands on the very limit, where rounding would decide
    limit = 0.2000001
    one = served(plain, Objective(ttft=limit, share=0.9))
    other = served(scaled, Objective(ttft=limit * unit, share=0.9))
    assert one.attainment == other.attainment
    assert one.verdict == other.verdict
    assert other.good_tokens_per_second * unit == pytest.approx(one.good_tokens_per_second)


@given(waits)
def test_goodput_is_at_most_throughput(ttfts):
    result = served(window([request(at / 10, ttft=wait) for at, wait in enumerate(ttfts)]), LIMITS)
    assert result.good_tokens_per_second <= result.output_tokens_per_second
    assert result.good_requests_per_second <= result.requests_per_second
    assert result.attainment_low <= result.attainment <= result.attainment_high


def test_a_summary_says_what_its_percentiles_allow():
    summary = Summary(
        replicas=1,
        offered_per_second=10.0,
        seconds=100.0,
        completed=1000,
        tool="k6",
        ttft={"0.5": 0.05, "0.99": 0.15, "1": 0.4},
    )
    # p99 below the limit proves at most ten misses, which may be too many to be certain
    told = served(summary, Objective(ttft=0.2))
    assert told.verdict == "undecided"
    assert "the summary of k6 has no more detail" in told.why
    assert served(summary, Objective(ttft=0.5)).verdict == "met"
    assert served(summary, Objective(ttft=0.2, share=0.98)).verdict == "met"
    assert served(summary, Objective(ttft=0.04)).verdict == "missed"
    assert served(summary, Objective(tpot=0.04)).verdict == "undecided"
    rules = {check.rule: check.verdict for check in told.checks}
    assert rules["start of latencies"] == "unknown"


def test_a_summary_of_too_few_requests_has_no_p99():
    summary = Summary(
        replicas=1, offered_per_second=1.0, seconds=71.0, completed=71, tool="x", ttft={"0.99": 0.1}
    )
    assert served(summary, LIMITS).ttft[-1].why == "needs 299 requests"


@pytest.mark.parametrize(
    "wrong", [{}, {"ttft": 0.0}, {"ttft": math.inf}, {"ttft": 1.0, "share": 1.0}]
)
def test_objectives_without_sense_are_refused(wrong):
    with pytest.raises(SpecError):
        Objective(**wrong)


def test_the_objective_in_words():
    assert LIMITS.words == "TTFT <= 200 ms and TPOT <= 50 ms for 99 % of the requests"


def single_server(rate: float, service: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Latencies of Poisson arrivals before one server."""
    gaps = draw.exponential(1 / rate, len(service))
    total = np.cumsum(np.concatenate([[0.0], service[:-1] - gaps[1:]]))
    return total - np.minimum.accumulate(np.minimum(total, 0.0)) + service


@pytest.mark.parametrize("count", [1000, 3000, 10_000])
def test_met_is_rarely_said_at_the_true_limit_of_a_queue(count):
    """M/M/1 at 80 % load: exactly 99 % of the requests are within ln(100) / 0.2 service times."""
    draw, windows = np.random.default_rng(3), 100
    limit = math.log(100) / 0.2
    service = draw.exponential(1.0, windows * count)
    scores = single_server(0.8, service, draw).reshape(windows, count) / limit
    said = [judge_series(one, 0.99) for one in scores]
    assert said.count("met") <= 5
    assert said.count("missed") <= 8
    independent = [judge(count, int((one > 1).sum()), int((one > 1).sum()), 0.99) for one in scores]
    assert independent.count("met") >= 30  # what requests that are taken as independent would say
    quick = single_server(0.4, draw.exponential(1.0, 20 * count), draw).reshape(20, count) / limit
    if count >= 3000:
        assert [judge_series(one, 0.99) for one in quick].count("met") >= 15


def test_the_verdict_of_a_window_allows_for_dependence():
    """As many misses, alone or in one cluster: a cluster counts as one."""
    spread = steady(4000, bad=30)
    clustered = window(
        [request(at / 10, ttft=0.5 if 2000 <= at < 2030 else 0.1) for at in range(4000)]
    )
    one, other = served(spread, LIMITS), served(clustered, LIMITS)
    assert one.attainment == other.attainment
    assert other.effective_requests < one.effective_requests / 5
    assert other.attainment_low < one.attainment_low
    assert "independent" in other.why


def test_clusters_of_misses_prove_a_miss_and_rarely_at_the_limit():
    """M/M/1 at the rate at which exactly 99 % are within the limit, and a tenth above it."""
    draw, windows, count = np.random.default_rng(5), 40, 12_000
    limit = math.log(100) / 0.2

    def said(load: float) -> list[bool]:
        service = draw.exponential(1.0, windows * count)
        scores = single_server(load, service, draw).reshape(windows, count) / limit
        return [misses_too_often(one, 0.99) for one in scores]

    assert sum(said(0.8)) <= 5  # 5 %, and what chance adds
    assert sum(said(0.88)) >= 30


def test_a_few_clusters_prove_nothing():
    """Seven stalls, however long: whether they come this often is not known."""
    scores = np.zeros(5000)
    for at in range(7):
        scores[100 + 600 * at : 200 + 600 * at] = 2.0
    assert not misses_too_often(scores, 0.99)
    assert not misses_too_often(np.zeros(0), 0.99)
