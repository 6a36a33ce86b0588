"""Windows of a program's own time: nothing is lost when they are joined."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.diagnose.own_time import ENOUGH_SECONDS, account_of, joined, windows_of
from nodewise.study.observed import Sample

RUNNING = Sample(seconds=0.5, user=0.4, system=0.1, active_threads=1, runnable_ticks=1.0)
STARVED = msgspec.structs.replace(RUNNING, user=0.04, system=0.01, run_delay=0.45, switches=20)

samples = st.lists(
    st.builds(
        Sample,
        seconds=st.floats(0.4, 1.0),
        user=st.floats(0.0, 0.5),
        system=st.floats(0.0, 0.5),
        run_delay=st.floats(0.0, 2.0),
        runnable_ticks=st.floats(0.0, 1.0),
        lock_threads=st.floats(0.0, 8.0),
        switches=st.integers(0, 10**6).map(float),
        message_bytes=st.one_of(st.none(), st.floats(0, 1e9)),
    ),
    min_size=1,
    max_size=12,
)


@given(samples)
def test_joining_loses_no_sample_and_no_count(seen):
    windows = windows_of(seen)
    assert [one for window in windows for one in window.samples] == seen
    for name in ("seconds", "user", "run_delay", "switches"):
        whole = sum(getattr(window.whole, name) for window in windows)
        assert whole == pytest.approx(sum(getattr(one, name) for one in seen))
    for window in windows[:-1]:
        assert account_of(window.whole).seconds >= ENOUGH_SECONDS


@given(samples)
def test_threads_are_means_and_the_unknown_stays_unknown(seen):
    whole = joined(seen)
    waits = [one.lock_threads for one in seen]
    assert min(waits) - 1e-9 <= whole.lock_threads <= max(waits) + 1e-9
    assert (whole.message_bytes is None) == any(one.message_bytes is None for one in seen)


def test_a_starved_program_gets_longer_windows():
    assert len(windows_of([RUNNING] * 8)) == 8
    assert len(windows_of([STARVED] * 20)) == 4  # of a quarter of a second each


def test_short_processes_take_their_clocks_along():
    """Looks find it running all the time; the clocks of what has ended are gone."""
    chain = msgspec.structs.replace(STARVED, run_delay=0.0, user=0.1, switches=100)
    assert account_of(chain).blocked > 0.5
    assert account_of(msgspec.structs.replace(chain, unclocked=0.9)).blocked == 0
