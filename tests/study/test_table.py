import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.study import Rank, Run, Study
from nodewise.study.table import format_table, parse_table


def error_of(text: str, **options) -> DataError:
    with pytest.raises(DataError) as caught:
        parse_table(text, **options)
    return caught.value


@pytest.mark.parametrize("name", ["K", "p", "n", "nodes", "workers", "gpus", "ranks", "GPUs"])
def test_names_of_the_node_column(name):
    study = parse_table(f"{name},time_s\n1,10\n2,6\n")
    assert study.scales == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "K;time_s\n1;10\n2;6\n",
        "K\ttime_s\n1\t10\n2\t6\n",
        "K time_s\n 1   10\n 2   6\n",
        "\ufeffK,time_s\r\n1,10\r\n2,6\r\n",
        "# a comment\nK,time_s\n\n1,10\n# more\n2,6",
        '"K","time_s"\n"1",10\n2,"6"\n',
    ],
)
def test_dialects(text):
    study = parse_table(text)
    assert [(run.nodes, run.seconds) for run in study.runs] == [(1, 10.0), (2, 6.0)]


def test_unknown_columns_are_named_and_ignored():
    study = parse_table("K,time_s,host,colour\n1,10,a,b\n2,6,a,c\n")
    assert "Columns not used: host, colour." in study.notes


def test_time_is_the_sum_of_stages_when_it_is_not_given():
    study = parse_table("K,compute_s,comm_s,idle_s\n1,800,0,0\n8,100,58,48\n")
    assert [run.seconds for run in study.runs] == [800, 206]


def test_wall_time_of_ranks_is_that_of_the_last():
    study = parse_table("K,rank,compute_s,work\n1,0,10,100\n2,0,4,50\n2,1,7,50\n")
    assert [run.seconds for run in study.runs] == [10, 7]
    assert [rank.items for rank in study.at(2)[0].ranks] == [50, 50]
    assert study.at(2)[0].work == 100


def test_throughput_strong_and_weak():
    strong = parse_table("K,throughput\n1,10\n4,32\n")
    assert [run.seconds for run in strong.runs] == [0.1, 1 / 32]
    weak = parse_table("K,throughput\n1,10\n4,32\n", regime="weak")
    assert [run.seconds for run in weak.runs] == [0.1, 4 / 32]
    sized = parse_table("K,throughput,work\n1,10,1000\n4,32,1000\n")
    assert [run.seconds for run in sized.runs] == [100, 1000 / 32]
    assert sized.notes == ()


def test_throughput_of_ranks_adds_up():
    study = parse_table("K,rank,throughput\n1,0,10\n2,0,10\n2,1,9\n")
    assert [run.seconds for run in study.runs] == pytest.approx([1 / 10, 1 / 19])


def test_repeats_without_a_rep_column_are_rounds_in_order_and_said():
    study = parse_table("K,time_s\n1,10\n1,11\n2,6\n2,7\n")
    assert [run.round for run in study.at(1)] == [0, 1]
    assert any("rounds, in the order" in note for note in study.notes)


def test_the_work_column_tells_the_regime():
    assert parse_table("K,time_s,work\n1,10,5\n2,6,5\n").regime == "strong"
    weak = parse_table("K,time_s,work\n1,10,5\n2,11,10\n4,12,20\n")
    assert weak.regime == "weak"
    assert any("weak" in note for note in weak.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("K,time_s\n", "no rows"),
        ("time_s\n1\n", "number of nodes"),
        ("K,colour\n1,2\n", "time"),
        ("K,nodes,time_s\n1,1,2\n", "both give"),
        ("K,time_s\n1,\n2,3\n", "Line 2, column time_s: the value is missing"),
        ("K,time_s\n1\n2,3\n", "Line 2, column time_s: the value is missing"),
        ("K,time_s\n1,100,5\n2,55,9\n", "Line 2 has 3 cells, the header has 2"),
        ("K,time_s\n1,1e-300\n2,3\n", "too small to be real"),
        ("K,time_s\n99999999999999999999,5\n2,3\n", "is not a count"),
        ("K,time_s\n1,5\n2,abc\n", "Line 3, column time_s: 'abc' is not a number"),
        ("K;time_s\n1;5\n2;3,5\n", "'3,5' is not a number"),
        ("K,time_s\n1,0\n2,3\n", "not above zero"),
        ("K,time_s\n1,-4\n2,3\n", "not above zero"),
        ("K,time_s\ninf,4\n2,3\n", "is not a count"),
        ("K,time_s\n1,inf\n2,3\n", "not a finite number"),
        ("K,time_s\n1,nan\n2,3\n", "not a finite number"),
        ("K,time_s\n1,1e300\n2,3\n", "not a finite number"),
        ("K,time_s\n0,1\n2,3\n", "is not a count"),
        ("K,time_s\n1.5,1\n2,3\n", "is not a count"),
        ("K,time_s\n-2,1\n2,3\n", "is not a count"),
        ("K,rep,time_s\n1,0,5\n1,0,6\n2,0,3\n", "Line 3 repeats line 2: K=1, rep=0"),
        ("K,time_s,regime\n1,5,strong\n2,3,weak\n", "strong and weak"),
        ("K,time_s,regime\n1,5,strong\n2,3,huge\n", "not a regime"),
        ("K,time_s,work\n1,5,10\n2,3,10\n4,3,40\n", "neither strong nor weak"),
        ("K,comm_s,compute_s\n1,-1,5\n2,1,3\n", "column comm_s: -1 is negative"),
        ("K,comm_s,compute_s\n1,0,0\n2,1,3\n", "add up to zero"),
        ("K,rank,compute_s\n1,0,5\n2,0,3\n", "has 1 ranks, where 2 are expected"),
        ("K,rank,time_s\n1,0,5\n4,0,3\n", "has 1 ranks, where 4 are expected"),
        ("K,time_s\n1,1_000\n2,3\n", "'1_000' is not a number"),
        ("K,time_s\n1,\uff1600\n2,3\n", "is not a number"),
        ("K,rank,compute_s,work\n1,0,5,0\n2,0,3,1\n2,1,3,1\n", "did no work"),
        ('K,time_s\n1,"5\n2,3\n', "is not CSV"),
    ],
)
def test_bad_tables_are_named_with_their_place(text, words):
    error = error_of(text)
    assert words in error.what
    assert error.fix
    assert str(error).count("\n") == 1


def test_the_declared_regime_must_agree_with_the_work():
    assert (
        "strong scaling, not weak" in error_of("K,time_s,work\n1,5,9\n2,3,9\n", regime="weak").what
    )
    named = "K,time_s,regime\n1,5,strong\n2,3,strong\n"
    assert "the option says weak" in error_of(named, regime="weak").what
    assert "--work" in error_of("K,time_s,work\n1,5,9\n2,3,9\n", work=3.0).what


positive = st.floats(1e-6, 1e6)


@st.composite
def studies(draw) -> Study:
    scales = sorted(draw(st.sets(st.integers(1, 64), min_size=1, max_size=4)))
    detail = draw(st.sampled_from(["totals", "stages", "ranks"]))
    quality, rate = draw(st.booleans()), draw(st.booleans())
    runs = []
    for nodes in scales:
        for number in range(draw(st.integers(1, 3))):
            stages = {"compute": draw(positive), "communication": draw(st.floats(0, 10))}
            ranks = tuple(
                Rank(rank=rank, stages=stages, items=10.0) for rank in range(nodes)
            )  # fmt: skip
            runs.append(
                Run(
                    nodes=nodes,
                    round=number,
                    seconds=draw(positive),
                    stages=stages if detail == "stages" else {},
                    ranks=ranks if detail == "ranks" else (),
                    work=10.0 * nodes if detail == "ranks" else None,
                    quality=draw(st.floats(-5, 5)) if quality else None,
                    rate_per_hour=draw(positive) if rate else None,
                )
            )
    return Study(name="made", regime="weak", runs=tuple(runs))


@given(studies())
def test_format_and_parse_are_inverse(study):
    again = parse_table(format_table(study, ["made up"]), "made", regime="weak")
    assert again.scales == study.scales
    for run, other in zip(study.runs, again.runs, strict=True):
        assert other.seconds == run.seconds
        assert other.stages == run.stages
        assert other.ranks == run.ranks
        assert other.quality == pytest.approx(run.quality)
        assert other.rate_per_hour == run.rate_per_hour


def test_a_simulated_study_survives_its_table():
    plan = PlantedTruth(law=Law(s=0.05, c=0.001), scales=(1, 2, 4), detail="ranks", shard_factor=2)
    study = simulate(plan)
    again = parse_table(format_table(study))
    assert [run.seconds for run in again.runs] == [run.seconds for run in study.runs]


GOOD = """K,rep,time_s,compute_s,quality,work
1,0,10,9,0.9,100
1,1,11,9,0.9,100
2,0,6,5,0.9,100
2,1,6.5,5,0.9,100
"""
JUNK = ["", " ", "abc", "-1", "0", "nan", "inf", "-inf", "1e999", "1e16", "0x10", "1,5", "--", "#"]
JUNK += ["None", "½", "\x00", '"', "'", "2.5", "9" * 400, "<script>", "=1+1", "K", "\u202e12"]


def malformed(seed: int) -> str:
    """A table that was right before one, two or three accidents."""
    chance = random.Random(seed)
    rows = [line.split(",") for line in GOOD.strip().split("\n")]
    for _ in range(chance.randint(1, 3)):
        accident = chance.randrange(6)
        row = chance.randrange(len(rows))
        if accident == 0:
            rows[row][chance.randrange(len(rows[row]))] = chance.choice(JUNK)
        elif accident == 1 and len(rows[row]) > 1:
            del rows[row][chance.randrange(len(rows[row]))]
        elif accident == 2:
            rows.append(list(rows[row]))
        elif accident == 3:
            rows[0][chance.randrange(2)] = chance.choice(["", "weight", "time_s", "x"])
        elif accident == 4:
            rows[chance.randrange(1, len(rows))][0] = chance.choice(["0", "-3", "1.5", "", "1e9"])
        else:
            rows[row] = [chance.choice(JUNK) for _ in rows[row]]
    return "\n".join(",".join(row) for row in rows)


def test_a_hundred_malformed_tables_give_two_lines_and_never_a_traceback(nodewise):
    refused = 0
    seed = 0
    while refused < 100 and seed < 1000:
        text = malformed(seed)
        seed += 1
        for command in ("scale", "attribute", "decide"):
            outcome = nodewise(command, "-", stdin=text)
            if outcome.code == 0:  # the accident happened to leave a table that is right
                continue
            refused += command == "scale"
            assert outcome.code in (2, 4), text
            lines = outcome.err.splitlines()
            assert len(lines) == 2, (text, outcome.err)
            assert lines[0].startswith("nodewise: ")
            assert lines[1].startswith("  fix: ")
            assert outcome.out == ""
    assert refused == 100


@given(st.text(alphabet=st.sampled_from("K,time_s\n0123456789.-einf\"'; \t#rank"), max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        parse_table("K,time_s\n" + text)
    except DataError as error:
        assert str(error).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("gpus,time_s\n8,9\n16,5\n", ScaleUnit(unit="GPU")),
        ("processes,time_s\n8,9\n16,5\n", ScaleUnit(unit="process")),
        ("K,time_s\n8,9\n16,5\n", ScaleUnit()),
        ("gpus,nodes,time_s\n4,1,9\n8,1,6\n16,2,5\n", ScaleUnit(unit="GPU", per_node=8)),
        ("ranks,per_node,time_s\n8,4,9\n16,4,5\n", ScaleUnit(unit="rank", per_node=4)),
        ("nodes,gpus_per_node,time_s\n1,8,9\n2,8,5\n", ScaleUnit(per_node=8, device="GPU")),
        ("Number of Cores,runtime\n8,9\n16,5\n", ScaleUnit(unit="core")),
    ],
)
def test_the_title_says_what_k_counts(text, unit):
    study = parse_table(text)
    assert study.scale_unit == unit
    assert parse_table(format_table(study)) == study


def test_nodes_that_are_filled_step_by_step():
    study = parse_table(
        "nodes,gpus_per_node,rep,time_s\n1,1,0,80\n1,4,0,21\n2,4,0,11\n1,1,1,81\n1,4,1,22\n2,4,1,12\n"
    )
    assert study.scales == (1, 4, 8)
    assert study.scale_unit == ScaleUnit(unit="GPU", per_node=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus,nodes,time_s\n8,8,9\n16,2,5\n", "K=8 ran on 8 nodes, where 8 share a node"),
        ("gpus,per_node,time_s\n8,4,9\n16,8,5\n", "holds 4, 8"),
        ("K,gpus_per_node,time_s\n8,8,9\n16,8,5\n", "does not say what it counts"),
        ("gpus,ranks,time_s\n8,8,9\n16,16,5\n", "both give"),
    ],
)
def test_nodes_that_contradict_the_scales_are_refused(text, words):
    assert words in error_of(text).what


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("cores,runtime", 9.0),
        ("# cores;time (s)".removeprefix("# "), 9.0),
        ("K,elapsed", 9.0),
        ("K,wall", 9.0),
        ("threads,time (ms)", 0.009),
        ("Nodes,Execution time [min]", 540.0),
    ],
)
def test_titles_as_people_write_them(header, seconds):
    mark = ";" if ";" in header else ","
    study = parse_table(f"{header}\n1{mark}9\n2{mark}5\n")
    assert study.at(1)[0].seconds == pytest.approx(seconds)


def test_a_title_of_ours_comes_first():
    study = parse_table("K,time_s,elapsed\n1,9,1\n2,5,1\n")
    assert [run.seconds for run in study.runs] == [9, 5]
    assert "Columns not used: elapsed." in study.notes


def test_equal_times_are_two_runs():
    study = parse_table("K,time_s\n1,5\n1,5\n2,3\n2,3\n")
    assert [len(study.at(nodes)) for nodes in (1, 2)] == [2, 2]


def test_a_missing_rank_is_named_before_the_work():
    text = "K,rank,compute_s,work\n1,0,5,100\n2,0,3,50\n2,1,3,50\n4,0,2,25\n4,1,2,25\n4,3,2,25\n"
    assert "K=4, round 0 has 3 ranks, where 4 are expected" in error_of(text).what


def test_a_throughput_alone_is_a_rate():
    study = parse_table("K,throughput\n1,10\n4,32\n")
    assert study.is_rate
    again = parse_table(format_table(study))
    assert again.is_rate
    assert [run.seconds for run in again.runs] == [run.seconds for run in study.runs]
    assert not parse_table("K,throughput,work\n1,10,5\n4,32,5\n").is_rate
