"""What a check must not call passed: too little data, gates not asked, studies left out."""

import msgspec
import pytest

from nodewise.history.check import check
from nodewise.history.detect import LEAST_CAMPAIGNS, detect
from nodewise.history.entry import Scale
from nodewise.history.gates import judge, parse_gate
from nodewise.history.trend import history
from nodewise.report.ci.content import of_check
from nodewise.report.text.history import gates_verdict, history_report, verdict
from tests.history.conftest import commit, entry
from tests.history.test_check import SLOW, bare, noisy

BUSY = "the machine was busy"


def test_too_short_a_history_for_the_detector_gets_no_answer(usual):
    for count in range(1, LEAST_CAMPAIGNS):
        result = check(usual[:count])
        assert result.state == "no answer", count
        noun = "1 campaign " if count == 1 else f"{count} campaigns "
        assert result.because.startswith(noun)
    shown = history_report(history("history.jsonl", usual[:1])).answer
    assert any("1 study of 1 workload" in line for line in shown)
    assert check(usual[:LEAST_CAMPAIGNS]).state != "no answer"


def test_the_least_number_is_that_from_which_the_detector_speaks():
    from benchmarks.history import simulated

    slow = {
        count: detect(simulated(0, count=count, kind="base", ratio=2.0, since=count - 2))
        for count in (LEAST_CAMPAIGNS - 1, LEAST_CAMPAIGNS)
    }
    assert slow[LEAST_CAMPAIGNS - 1] == []
    assert slow[LEAST_CAMPAIGNS] != []


def test_a_new_workload_in_a_long_history_gets_no_answer(usual):
    assert check([*usual, entry(12, workload="new")]).state == "no answer"


def test_gates_alone_say_nothing_of_slowdowns(slower):
    """The detector fails this history; a gate on the efficiency does not look for it."""
    result = check(slower(SLOW, 3), [parse_gate("efficiency@8=0.1")])
    assert result.state == "passed"
    assert verdict(result) == "passed: 1 of 1 gates met, 0 without data"
    report = of_check(result)
    assert [case.name for case in report.cases] == ["efficiency@8=0.1 at K=8"]
    assert "slowdown" not in report.headline


def test_gates_without_data_get_no_answer(usual):
    one_scale = [bare(at, {4: [1.0, 1.1, 1.05]}) for at in range(8)]
    for text, entries in (("cost=5%", noisy(8)), ("efficiency=0.5", one_scale),
                          ("energy=5%", usual)):  # fmt: skip
        result = check(entries, [parse_gate(text)])
        assert result.gates, text
        assert result.state == "no answer", text
        assert "no gate has data" in verdict(result)
        assert gates_verdict(result.gates).startswith("no answer: ")
        assert of_check(result).state == "in doubt"


def test_gates_without_data_are_counted_beside_a_slowdown(usual):
    gates = [parse_gate(text) for text in ("slower=0%", "memory@1=10%")]
    found = verdict(check(usual, gates))
    assert found.startswith("passed: no slowdown in ")
    assert found.endswith("; 1 of 1 gates without data")


def test_few_studies_with_this_scale_leave_doubt():
    """Eight studies of the workload, but only two that have K=8."""
    old = [bare(at, {1: [8.0, 8.1, 7.9]}) for at in range(8)]
    new = [bare(8 + at, {1: [8.0, 8.1, 7.9], 8: [1.0, 1.01, 0.99]}) for at in range(2)]
    slow = bare(10, {1: [8.0, 8.1, 7.9], 8: [2.0, 2.01, 1.99]})
    (found,) = check([*old, *new, slow], [parse_gate("slower@8=3%")]).gates
    assert (found.state, found.bases) == ("in doubt", 2)
    assert "2 earlier studies do not show" in found.because


def test_costs_in_another_currency_are_not_compared():
    def priced(number, cost, currency):
        scale = Scale(nodes=1, seconds=(1.0, 1.1, 0.9), cost=cost, cost_low=0.99 * cost,
                      cost_high=1.01 * cost)  # fmt: skip
        made = bare(number, {1: [1.0]})
        return msgspec.structs.replace(made, scales=(scale,), currency=currency)

    gate = parse_gate("cost@1=5%")
    yen = [priced(at, 150.0, "JPY") for at in range(4)]
    assert judge(gate, yen, priced(5, 1.0, "$"))[0].state == "unknown"
    (found,) = judge(gate, [*yen, priced(4, 1.0, "$")], priced(5, 2.0, "$"))
    assert (found.state, found.bases) == ("failed", 1)


def test_the_level_of_an_interval_is_printed_as_it_is():
    base, newest = noisy(1)[0], noisy(1, 1.5, first=1)[0]
    assert "(98.33 %: " in judge(parse_gate("slower=3%"), [base], newest)[0].because
    assert "(95 %: " in judge(parse_gate("slower@1=3%"), [base], newest)[0].because


class TestLeftOut:
    def proposed(self, usual, **changes):
        """Two studies of one commit; the first one is changed."""
        other = [entry(number, workload="other") for number in range(12)]
        history = sorted([*usual, *other], key=lambda one: one.date)
        first = msgspec.structs.replace(entry(12, workload="other"), **changes)
        return [*history, first, entry(12)]

    @pytest.mark.parametrize("count", [0, 2])
    @pytest.mark.parametrize(
        ("changes", "because"),
        [({"invalid": BUSY}, f"invalid: {BUSY}"),
         ({"machine": "other CPU"}, "of another machine: other CPU")],
    )  # fmt: skip
    def test_each_study_that_cannot_be_judged_is_named(self, usual, changes, because, count):
        assert check(self.proposed(usual), proposed=count).state == "passed"
        result = check(self.proposed(usual, **changes), proposed=count)
        assert result.state == "in doubt"
        assert [(one.workload, one.because) for one in result.left_out] == [("other", because)]
        assert verdict(result) == f"in doubt: not judged: other ({because})"
        cases = {case.group: case.state for case in of_check(result).cases}
        assert cases["other"] == "in doubt"

    def test_a_slowdown_of_the_others_still_fails(self, slower):
        last = msgspec.structs.replace(entry(13, workload="x"), invalid=BUSY, commit=commit(13))
        result = check([*slower(SLOW, 2), last])
        assert result.failed
        assert f"not judged: x (invalid: {BUSY})" in verdict(result)

    def test_a_study_that_was_repeated_is_not_missing(self, usual):
        busy = msgspec.structs.replace(entry(12), invalid=BUSY)
        assert check([*usual, busy, entry(12)]).left_out == ()
