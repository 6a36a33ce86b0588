"""Figures from the output of programs: patterns, presets, and what is refused."""

import pytest

from nodewise.base.errors import SpecError
from nodewise.study.log_patterns import Figures, NoFigure, Reading, log_patterns, presets
from nodewise.study.spec import Pattern, Workload, parse_spec


def read(workload: Workload, text: str) -> Figures:
    patterns = log_patterns(workload)
    assert patterns is not None
    return Reading(patterns).lines(text.splitlines())


def test_the_last_match_counts_by_default():
    text = "time 3 s\nwork 10 x 20\ntime 4 s\ntime 1,234.5 s\nerror 1e-3"
    found = read(
        Workload(seconds=r"time (\S+) s", work=r"work (\d+) x (\d+)", quality=r"error (\S+)"), text
    )
    assert found == (1234.5, 200.0, 0.001, {})


@pytest.mark.parametrize(("take", "expected"), [("last", 5.0), ("first", 3.0), ("sum", 12.0)])
def test_of_several_matches_one_is_taken_or_all_are_added(take, expected):
    stage = {"io": Pattern(pattern=r"io (\d)", take=take)}
    found = read(Workload(seconds=r"t=(\d)", stage=stage), "io 3\nt=9\nio 4\nio 5")
    assert found.stages == {"io": expected}


def test_a_preset_searches_what_its_reader_leaves_out():
    """The reader of a known program finds its time (measure/program_log.py)."""
    energy = "!    total energy              =   -1426.06044202 Ry"
    assert read(Workload(log="quantum-espresso"), energy).quality == -1426.06044202
    assert read(Workload(log="hpcg"), "hello") == (None, None, None, {})
    for name in presets():
        assert log_patterns(Workload(log=name)).program == name


@pytest.mark.parametrize(
    ("workload", "what"),
    [
        ({"seconds": "time (\\S+"}, "not a regular expression: missing ), unterminated"),
        ({"seconds": "time"}, "has no group"),
        ({"seconds": "(?P<minus>a)"}, "has no group"),
        ({"log": "lamps"}, "'lamps' is not a preset"),
        ({"seconds": "(a)", "stage": {"mpi": "(b)"}}, "unknown stage 'mpi'"),
        ({"output": "md.log"}, "no pattern is set to look for"),
    ],
)
def test_a_bad_pattern_is_refused_before_a_run(workload, what):
    with pytest.raises(SpecError) as refused:
        log_patterns(Workload(**workload))
    assert what in refused.value.what


def test_a_group_that_is_not_a_number_is_said():
    with pytest.raises(NoFigure, match="found 'fast', which is not a number"):
        read(Workload(seconds=r"took (\w+)"), "took fast")


def test_a_required_stage_that_is_missing_is_said():
    with pytest.raises(NoFigure, match=r"stage\.io"):
        read(Workload(seconds="t=(.)", stage={"io": "io=(.)"}), "t=1")


def test_the_spec_takes_patterns_and_arguments():
    spec = parse_spec(
        """
        name = "a"
        scales = [1, 8]
        [workload]
        command = ["app"]
        seconds = 'Loop time of (\\S+)'
        stage.communication = 'Comm (\\S+)'
        stage.io = { pattern = 'io (\\S+)', take = "sum" }
        [workload.arguments]
        1 = ["-s", "30"]
        8 = ["-s", "60"]
        """
    )
    assert spec.workload.arguments == {1: ("-s", "30"), 8: ("-s", "60")}
    assert spec.workload.stage["io"] == Pattern(pattern=r"io (\S+)", take="sum")


def test_arguments_must_be_there_for_every_scale():
    text = 'name = "a"\nscales = [1, 2]\n[workload]\ncommand = ["a"]\n[workload.arguments]\n1 = []'
    with pytest.raises(SpecError, match=r"K=2 has no arguments"):
        parse_spec(text)


def test_more_scales_with_their_arguments_continue_a_study():
    text = 'name = "a"\nscales = [{}]\n[workload]\ncommand = ["a"]\n[workload.arguments]\n{}'
    first = parse_spec(text.format("1", '1 = ["x"]'))
    assert parse_spec(text.format("1, 2", '1 = ["x"]\n2 = ["y"]')).continues(first)
    assert not parse_spec(text.format("1, 2", '1 = ["z"]\n2 = ["y"]')).continues(first)
