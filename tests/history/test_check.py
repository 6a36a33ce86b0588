"""Slowdowns with kind, cause and commit; gates; histories that fail no build."""

import math

import msgspec
import numpy as np
import pytest

from nodewise.base.errors import SpecError
from nodewise.explain.laws import Law
from nodewise.history.check import check
from nodewise.history.entry import Scale, bare_entry
from nodewise.history.gates import judge, parse_gate
from nodewise.history.regressions import Campaign, campaigns_of, grown_cause
from nodewise.history.trend import trends
from nodewise.report.text.history import verdict
from tests.history.conftest import USUAL, commit, entry

SLOW = msgspec.structs.replace(USUAL, base_seconds=11.0)
CHATTY = Law(s=0.02, c=0.03, growth="log2", base_seconds=10.0)


def bare(number, seconds, workload="job", **more):
    known = {"commit": commit(number), "date": f"2026-01-{number + 1:02}T00:00:00Z", **more}
    return bare_entry(workload, seconds=seconds, **known)


def noisy(count, factor=1.0, first=0):
    """Bare times at K=1, 2, 4 with a noise of 2 %."""
    made = []
    for number in range(first, first + count):
        draw = np.random.default_rng(number)
        made.append(bare(number, {
            nodes: [factor * 8 / nodes * math.exp(0.02 * draw.standard_normal()) for _ in range(4)]
            for nodes in (1, 2, 4)
        }))  # fmt: skip
    return made


def test_an_unchanged_program_fails_no_build(usual):
    states = [check(usual[: count + 1]).state for count in range(12)]
    assert states[:3] == ["no answer"] * 3
    assert "failed" not in states
    assert states[-1] == "passed"


def test_a_program_that_became_slower_fails_with_compute_as_the_cause(slower):
    for count in (1, 2, 3):
        result = check(slower(SLOW, count))
        (found,) = result.regressions
        if result.failed:
            break
    assert result.failed
    assert count <= 2
    assert found.kind == "base"
    assert found.low < 1.10 < found.high
    assert (found.good, found.bad) == (commit(11), commit(12))
    assert found.cause.name == "compute"
    assert "slower at every K" in verdict(result)


def test_communication_that_grew_is_a_matter_of_scaling(slower):
    results = [check(slower(CHATTY, count)) for count in (1, 2, 3)]
    failed = [one for one in results if one.failed]
    assert failed
    found = failed[0].regressions[0]
    assert found.kind == "scaling"
    assert found.nodes_from in (4, 8)  # at K=2 it adds 5 %, at K=8 31 %
    assert found.cause.name == "communication"
    assert found.bad == commit(12)


def test_one_workload_of_three(usual):
    law = msgspec.structs.replace(USUAL, base_seconds=12.0)
    entries = []
    for number in range(14):
        for name in ("a", "bb", "ccc"):
            slow = name == "bb" and number >= 12
            entries.append(entry(number, law if slow else USUAL, name))
    assert len(campaigns_of(entries)) == 14
    found = check(entries).regressions[0]
    assert (found.kind, found.workload) == ("workload", "bb")


def test_a_slowdown_within_the_limit_fails_no_build(slower):
    entries = slower(SLOW, 2)
    assert check(entries, [parse_gate("slower=3%")]).failed
    assert not check(entries, [parse_gate("slower=15%")]).failed


def test_a_pull_request_does_not_fail_for_what_was_slow_before_it(slower):
    entries = slower(SLOW, 3)
    assert check(entries).failed
    proposed = check(entries, proposed=1)
    assert proposed.state == "passed"
    assert proposed.regressions[0].known
    assert "no new slowdown" in verdict(proposed)


def test_the_same_commit_cannot_become_slower(slower):
    entries = [msgspec.structs.replace(one, commit=commit(0)) for one in slower(SLOW, 2)]
    result = check(entries)
    assert not result.failed
    assert result.regressions[0].same_code


def test_an_invalid_study_gets_no_answer(usual):
    busy = msgspec.structs.replace(entry(12, SLOW), invalid="the machine was busy")
    result = check([*usual, busy])
    assert result.state == "no answer"
    assert "the machine was busy" in verdict(result)
    assert len(campaigns_of([*usual, busy])) == 12


@pytest.mark.parametrize(("load", "state"), [(0.5, "in doubt"), (0.25, "failed"), (None, "failed")])
def test_a_slowdown_that_comes_with_more_load_is_in_doubt(slower, load, state):
    *before, newest = slower(SLOW, 3)
    busy = [msgspec.structs.replace(entry, foreign_load=0.2) for entry in before]
    result = check([*busy, msgspec.structs.replace(newest, foreign_load=load)])
    assert result.state == state
    words = "other processes took 50 % of the CPU, 20 % in earlier studies"
    assert (words in result.because) == (words in verdict(result)) == (state == "in doubt")


def test_another_machine_has_a_history_of_its_own(usual):
    moved = [msgspec.structs.replace(entry(12 + at, SLOW), machine="other") for at in range(2)]
    result = check([*usual, *moved])
    assert (result.state, result.campaigns) == ("no answer", 2)


def test_bare_times_name_no_cause():
    entries = [*noisy(10), *noisy(2, 1.2, first=10)]
    result = check(entries)
    assert result.failed
    assert result.regressions[0].cause.name == ""
    assert "not recorded" in result.regressions[0].cause.because


def parted(number, seconds, parts):
    """One study at K=4, with the seconds of its parts."""
    made = bare(number, {4: [seconds, seconds]})
    return Campaign((msgspec.structs.replace(made, scales=(
        Scale(nodes=4, seconds=(seconds, seconds), parts=parts),)),))  # fmt: skip


def test_a_part_that_was_not_recorded_before_is_not_the_cause():
    def everything(workload, nodes):
        return True

    old = [parted(at, 10.0, {"compute": 8.0, "idle": 2.0}) for at in range(4)]
    new = [parted(4 + at, 12.0, {"compute": 8.0 + 0.01 * at, "communication": 4.0})
           for at in range(2)]  # fmt: skip
    found = grown_cause(old, new, everything)
    assert found.name == ""
    nothing = grown_cause([parted(0, 10.0, {"idle": 2.0})], new, everything)
    assert (nothing.name, "before and after" in nothing.because) == ("", True)
    same = [parted(4 + at, 12.0, {"compute": 10.0, "idle": 2.0}) for at in range(2)]
    assert grown_cause(old, same, everything).name == "compute"


def test_a_cause_that_was_not_recorded_before_has_no_change(usual):
    scale = usual[-1].scales[-1]
    blind = msgspec.structs.replace(
        scale, lost={"idle": 0.5}, parts={"compute": 1.0, "idle": scale.parts["idle"]}
    )
    first = msgspec.structs.replace(usual[-2], scales=(*usual[-2].scales[:-1], blind))
    causes = {one.cause for one in trends([first, usual[-1]], usual[-1].machine).ledger}
    assert "communication" not in causes
    assert {"idle", "compute inflation"} <= causes


class TestGates:
    @pytest.mark.parametrize("text", ["", "slower", "slow=3%", "slower=x", "k*@4=2", "cost=abc"])
    def test_what_is_not_a_gate_is_refused(self, text):
        with pytest.raises(SpecError):
            parse_gate(text)

    def test_it_fails_only_where_the_interval_excludes_the_limit(self):
        first = bare(0, {1: [10.0, 10.1, 9.9, 10.0]})
        for factor, state in ((1.2, "failed"), (1.031, "in doubt"), (0.9, "met")):
            second = bare(1, {1: [factor * value for value in (10.0, 10.1, 9.9, 10.0)]})
            (result,) = judge(parse_gate("slower=3%"), [first], second)
            assert result.state == state
            assert result.low < factor - 1 < result.high

    def test_single_runs_say_nothing(self):
        (result,) = judge(parse_gate("slower=3%"), [bare(0, {1: [1.0]})], bare(1, {1: [9.0]}))
        assert result.state == "unknown"

    def test_the_spread_from_study_to_study_counts_where_it_is_known(self):
        """Rounds agree within 0.1 %, but studies of one program differ by 10 %."""
        bases = [bare(at, {1: [level, 1.001 * level]}) for at, level in enumerate((9, 10, 11, 10))]
        newest = bare(5, {1: [11.0, 11.011]})
        assert judge(parse_gate("slower=3%"), bases[-1:], newest)[0].state == "failed"
        assert judge(parse_gate("slower=3%"), bases, newest)[0].state == "in doubt"

    def test_two_studies_of_a_history_leave_doubt(self):
        gate = parse_gate("slower@1=3%")
        entries = [bare(0, {1: [10.0, 10.1, 9.9]}), bare(1, {1: [15.0, 15.1, 14.9]})]
        assert check(entries, [gate]).gates[0].state == "in doubt"

    def test_values_of_the_newest_study(self, usual):
        newest = usual[-1]
        states = {
            text: judge(parse_gate(text), [], newest)[0].state
            for text in ("time@1=5s", "time@1=20s", "efficiency@8=0.99", "efficiency@8=0.5",
                         "cost@1=0.001", "cost@1=1", "k*=1", "k*=8000", "memory=1GB", "time@3=1s")
        }  # fmt: skip
        assert states == {
            "time@1=5s": "failed", "time@1=20s": "met", "efficiency@8=0.99": "failed",
            "efficiency@8=0.5": "met", "cost@1=0.001": "failed", "cost@1=1": "met", "k*=1": "met",
            "k*=8000": "failed", "memory=1GB": "unknown", "time@3=1s": "unknown",
        }  # fmt: skip

    def test_memory_energy_and_the_choice_against_the_base(self):
        def with_usage(number, factor, chosen):
            rounds = tuple(factor * value for value in (1e9, 1.01e9, 0.99e9))
            scale = Scale(nodes=4, seconds=(1.0, 1.1), memory_bytes=rounds, energy_joules=rounds)
            made = bare(number, {4: [1.0, 1.1]})
            return msgspec.structs.replace(made, scales=(scale,), chosen=chosen)

        base = with_usage(0, 1.0, (8, 4))
        worse = with_usage(1, 1.5, (2,))
        for text in ("memory=10%", "energy=10%", "k*=0%"):
            assert judge(parse_gate(text), [base], worse)[0].state == "failed", text
            assert judge(parse_gate(text), [base], base)[0].state != "failed", text
