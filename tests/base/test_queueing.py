"""Erlang's formulas against theory and against queues that are played out."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.base.queueing import erlang_c, waiting


def test_one_server_is_the_textbook_queue():
    wait = waiting(arrivals_per_second=0.9, service_seconds=1.0, servers=1)
    assert wait.chance == pytest.approx(0.9)
    assert wait.mean_seconds == pytest.approx(9.0)
    assert wait.mean_seconds + 1.0 == pytest.approx(10.0)
    assert wait.percentile(0.99) == pytest.approx(10 * math.log(90))
    assert wait.beyond(wait.percentile(0.99)) == pytest.approx(0.01)


def test_constant_service_waits_half_as_long():
    steady = waiting(arrivals_per_second=0.8, service_seconds=1.0, servers=1, cv2=0.0)
    assert steady.mean_seconds == pytest.approx(2.0)  # Pollaczek and Khinchine: rho/(2 (1-rho))


def sum_form(servers: int, load: float) -> float:
    """Erlang's C as it is usually printed."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


@given(st.integers(1, 60), st.floats(0.05, 0.98))
def test_the_recursion_is_the_sum(servers, busy):
    load = busy * servers
    assert erlang_c(servers, load) == pytest.approx(sum_form(servers, load), rel=1e-9)


def test_many_servers_do_not_overflow():
    assert 0 < erlang_c(5000, 4900.0) < 1


@given(st.integers(1, 40), st.floats(0.1, 0.95), st.floats(0.01, 100.0))
def test_the_unit_of_time_does_not_matter(servers, busy, unit):
    one = waiting(arrivals_per_second=busy * servers, service_seconds=1.0, servers=servers)
    other = waiting(
        arrivals_per_second=busy * servers / unit, service_seconds=unit, servers=servers
    )
    assert other.chance == pytest.approx(one.chance)
    assert other.mean_seconds == pytest.approx(unit * one.mean_seconds)


@given(st.integers(1, 30), st.floats(0.1, 0.9))
def test_pooling_shortens_the_wait(servers, busy):
    apart = waiting(arrivals_per_second=busy, service_seconds=1.0, servers=1)
    pooled = waiting(arrivals_per_second=busy * servers, service_seconds=1.0, servers=servers)
    assert pooled.mean_seconds <= apart.mean_seconds * (1 + 1e-12)


def played(rate: float, services: np.ndarray, servers: int, seed: int) -> np.ndarray:
    """Waits of a first-come queue before servers alike."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(1 / rate, len(services)))
    free = [0.0] * servers
    waits = np.empty(len(services))
    for number, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        start = max(heapq.heappop(free), arrival)
        waits[number] = start - arrival
        heapq.heappush(free, start + service)
    return waits


@pytest.mark.parametrize("servers", [1, 4, 16])
def test_simulated_waits_are_the_predicted_ones(servers):
    draw = np.random.default_rng(3)
    waits = played(0.7 * servers, draw.exponential(size=200_000), servers, 5)
    wait = waiting(arrivals_per_second=0.7 * servers, service_seconds=1.0, servers=servers)
    # of sixteen servers few requests wait at all, so their mean is the noisier one
    assert wait.mean_seconds == pytest.approx(waits.mean(), rel=0.08)
    assert wait.percentile(0.99) == pytest.approx(np.quantile(waits, 0.99), rel=0.08)


def test_general_service_is_an_approximation_that_is_close_for_one_server():
    draw = np.random.default_rng(4)
    services = draw.gamma(4.0, 0.25, 200_000)  # CV^2 = 1/4
    waits = played(0.7, services, 1, 6)
    wait = waiting(arrivals_per_second=0.7, service_seconds=1.0, servers=1, cv2=0.25)
    assert wait.mean_seconds == pytest.approx(waits.mean(), rel=0.05)


def test_an_overloaded_queue_is_refused_with_the_number_that_would_do():
    with pytest.raises(SpecError) as caught:
        waiting(arrivals_per_second=10, service_seconds=0.5, servers=5)
    assert "6 servers" in caught.value.fix
