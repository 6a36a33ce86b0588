"""One job on several engines: one base, and folds of overhead that can be read off the stages."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodewise.base.errors import DataError
from nodewise.cli.compare import command
from nodewise.explain.compare import line_up
from nodewise.report.text.compare import lineup_report, lineup_table
from nodewise.study.study import Rank, Run, Study

EXAMPLES = Path(__file__).parents[2] / "examples"


def study(name, seconds, overhead=None, regime="strong"):
    """Two rounds at each K; `overhead` seconds by K, the rest of the time is computing."""
    runs = []
    for nodes, wall in seconds.items():
        for number in range(2):
            stages = {"compute": wall}
            if overhead is not None:
                stages = {"compute": wall - overhead[nodes], "overhead": overhead[nodes]}
            ranks = tuple(Rank(rank=at, stages=stages) for at in range(nodes))
            runs.append(Run(nodes=nodes, round=number, seconds=wall, ranks=ranks))
    return Study(name=name, regime=regime, runs=tuple(runs))


def test_folds_are_counted_on_the_base_of_the_quickest():
    plain = study("plain", {1: 100.0, 4: 25.0, 8: 12.5})
    heavy = study("heavy", {1: 120.0, 4: 40.0}, {1: 20.0, 4: 15.0})
    result = line_up([heavy, plain], 0.7)
    assert (result.base, result.base_seconds, result.left_out) == ("plain", 100.0, (8,))
    assert [(e.nodes, e.study) for e in result.entries] == [
        (1, "plain"), (1, "heavy"), (4, "plain"), (4, "heavy"),
    ]  # fmt: skip
    last = result.entries[-1]
    assert last.speedup == 2.5
    assert last.lost_folds == 1.5
    assert last.overhead_folds == 1.5  # 4 * 15 / 40: all of it
    assert result.entries[1].overhead_folds == pytest.approx(20 / 120)
    assert result.entries[2].overhead_folds is None  # nobody recorded it


def test_the_verdict_orders_engines_by_what_they_cost():
    studies = [
        study("light", {1: 100.0, 2: 52.0}, {1: 1.0, 2: 2.0}),
        study("heavy", {1: 120.0, 2: 70.0}, {1: 20.0, 2: 20.0}),
        study("plain", {1: 100.0, 2: 50.0}),
    ]
    result = line_up(studies, 0.7)
    assert lineup_report(result).answer[0] == (
        "**Of 2x, lost to the engine's own overhead at K=2: heavy 0.57x, light 0.08x.**"
    )
    assert lineup_table(result).rows[-1][1:7] == ("heavy", "70.0", "1.43", "0.57", "20.0", "0.57x")


def test_folds_count_from_the_smallest_common_scale():
    studies = [
        study("light", {2: 100.0, 8: 30.0}, {2: 1.0, 8: 3.0}),
        study("heavy", {2: 120.0, 8: 40.0}, {2: 20.0, 8: 20.0}),
        study("plain", {2: 100.0, 8: 25.0}),
    ]
    assert lineup_report(line_up(studies, 0.7)).answer[0] == (
        "**Of 4x, lost to the engine's own overhead at K=8: heavy 2.00x, light 0.40x.**"
    )


def test_what_cannot_share_a_base_is_refused():
    strong = study("a", {1: 1.0, 2: 1.0})
    with pytest.raises(DataError, match="regimes"):
        line_up([strong, study("b", {1: 1.0, 2: 1.0}, regime="weak")], 0.7)
    with pytest.raises(DataError, match="weak scaling"):
        line_up([study("b", {1: 1.0}, regime="weak")] * 3, 0.7)
    with pytest.raises(DataError, match="in common"):
        line_up([strong, study("b", {4: 1.0, 8: 1.0})], 0.7)


def test_the_command_takes_more_than_two(tmp_path):
    tables = [str(EXAMPLES / "breakdown.csv"), str(EXAMPLES / "breakdown.csv")]
    slower = tmp_path / "slower.csv"
    slower.write_text("K,rep,time_s,compute_s,overhead_s\n1,0,900,880,20\n2,0,600,500,100\n")
    done = CliRunner().invoke(command, [*tables, str(slower), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [(e["K"], e["study"]) for e in told["entries"]][-1] == (2, "slower")
    assert told["entries"][-1]["overhead_folds"] == pytest.approx(2 * 100 / 600)
    assert told["left_out"] == [4, 8, 16]
    assert CliRunner().invoke(command, [*tables, str(slower), "-o", "x.html"]).exit_code == 2
