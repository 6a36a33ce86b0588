from msgspec import structs

from nodewise.decide.decide import decide_law
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain.attribute import attribute
from nodewise.explain.laws import Law
from nodewise.explain.scaling import scale
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.findings import find
from nodewise.report.sections import everything, output
from nodewise.report.tables import Table
from nodewise.report.terminal import render, show
from nodewise.report.text.findings import (
    attribution_headline,
    attribution_report,
    findings_report,
    law_report,
    scaling_report,
)
from nodewise.study.check import Check
from nodewise.study.study import Contention
from nodewise.study.table import parse_table
from tests.conftest import golden_study


def lines_of(shown) -> str:
    return "\n".join(part for part in everything(shown) if isinstance(part, str))


def tables_of(shown) -> list[Table]:
    return [part for part in everything(shown) if isinstance(part, Table)]


def text_of(shown, width: int = 100, colour: bool = False) -> str:
    return render(everything(shown), width, colour)


def test_the_scaling_table_prints_the_digits_of_the_worked_example():
    short, table, *_ = tables_of(scaling_report(scale(golden_study("step-times"))))
    assert table.rows[3] == (
        "8", "5", "0.1884", "0.0039", "0.1844\N{EN DASH}0.1944", "5.33",
        "5.20\N{EN DASH}5.45", "0.667", "0.0715", "below",
    )  # fmt: skip
    assert short.rows[3] == (
        "8",
        "0.188 s",
        "5.33 (5.20\N{EN DASH}5.45)",
        "67 %",
        "5",
        "below 0.70",
    )


def test_every_row_of_a_report_has_a_value_in_every_measured_column():
    for name in ("Every scale", "The rubric of every scale"):
        shown = findings_report(find(golden_study("rubric"), Question()))
        table = next(table for table in tables_of(shown) if table.name == name)
        for row in table.rows:
            assert all(row[:-1])


def test_a_long_ladder_shows_doublings_and_the_chosen_scales():
    price = Price(per_node_hour=2.1, fixed_per_hour=9.0)
    decision = decide_law(Law(s=0.03, c=0.0015, base_seconds=3600.0), 64, Question(price=price))
    table, *_ = tables_of(law_report(decision))
    shown = [row[0] for row in table.rows]
    assert shown == ["1", "2", "4", "8", "16", "24", "25", "32", "48", "64"]


def test_user_text_is_never_read_as_markup():
    study = parse_table("K,time_s\n1,10\n2,6\n", "[red]evil[/red] [/]")
    for report in (
        scaling_report(scale(study)),
        attribution_report(attribute(study)),
        findings_report(
            find(study, Question(price=Price(per_node_hour=1.0, source="[bold]list[/x]")))
        ),
    ):
        for colour in (True, False):
            assert "[red]evil[/red] [/]" in show(report, 100, colour, level=2)


def test_regime_and_evidence_are_always_said():
    weak = simulate(PlantedTruth(law=Law(c=0.01, regime="weak")))
    assert "Weak scaling against the flat line E = 1" in lines_of(scaling_report(scale(weak)))
    assert "evidence: stage totals" in lines_of(
        attribution_report(attribute(golden_study("breakdown")))
    )
    model = law_report(decide_law(Law(s=0.1), 8, Question(price=Price(per_node_hour=1.0))))
    assert "from a model" in lines_of(model)


def test_a_terminal_sees_strong_words_and_a_pipe_only_words():
    report = attribution_report(attribute(golden_study("breakdown")))
    assert "\x1b[1mcommunication\x1b[0m" in text_of(report, colour=True)
    piped = text_of(report)
    assert "\x1b" not in piped
    assert "**" not in piped


def test_lines_are_wrapped_and_tables_never_cut():
    narrow = text_of(findings_report(find(golden_study("rubric"), Question())), 40)
    wide = text_of(findings_report(find(golden_study("rubric"), Question())), 200)
    assert max(len(line) for line in narrow.splitlines() if line.startswith("  warn ")) <= 40
    table = [line for line in wide.splitlines() if "recommended" in line]
    assert table[0] in narrow


def test_a_word_in_a_column_of_its_own_keeps_the_column_free():
    first, *rest = render(["  fail     " + "evidence " * 30], 60, colour=False).splitlines()
    assert first.startswith("  fail     evidence")
    assert rest and all(line.startswith(" " * 11 + "evidence") for line in rest)


def test_the_longest_bar_belongs_to_the_largest_loss():
    report = attribution_report(attribute(golden_study("breakdown")))
    table = next(p for p in tables_of(report) if p.titles[0] == "lost at K=16")
    assert [row[:2] for row in table.rows] == [("communication", "6.47x"), ("idle", "6.13x")]
    assert [len(row[-1]) for row in table.rows] == [24, 23]


def test_a_cause_that_totals_cannot_identify_is_not_named():
    study = parse_table("K,time_s\n1,100\n2,56\n4,33\n8,24\n")
    text = text_of(attribution_report(attribute(study)), 100)
    assert "not identifiable from totals" in text
    assert "most to" not in text
    assert "resamples agree" not in text


def test_a_job_that_reads_most_of_the_time_says_so():
    rows = ["K,compute_s,io_s", *(f"{k},{400 / k},{600 / k}" for k in (1, 2, 4, 8))]
    study = parse_table("\n".join(rows))
    text = text_of(attribution_report(attribute(study)), 100)
    assert "60 % of the time is input/output" in text


def test_a_gain_that_is_set_off_against_losses_is_said():
    def said(last: str) -> str:
        study = parse_table(f"K,time_s,compute_s,comm_s\n1,100,100,0\n{last}\n")
        return lines_of(attribution_report(attribute(study)))

    gains = said("2,55,40,15")
    assert "At K=2 compute gains 10 s (0.36x) on its ideal share." in gains
    assert "without it communication loses 15 s (27 % of the time)." in gains
    assert "This gain exceeds all losses." in said("2,45,30,15")
    assert "gain" not in said("2,65,50,15").replace("against", "")


def test_bars_are_those_of_causes_that_lose_something():
    report = attribution_report(attribute(golden_study("ddp-step")))
    table = next(p for p in tables_of(report) if p.titles[0] == "lost at K=8")
    assert [row[:2] for row in table.rows] == [
        ("communication", "2.10x"), ("jitter", "1.51x"), ("input/output", "0.05x"),
    ]  # fmt: skip


def test_what_is_not_recorded_says_what_would_show_it():
    ranked = lines_of(attribution_report(attribute(golden_study("ddp-step"))))
    assert "Foreign load: unknown" in ranked
    assert "record how long each rank waits for its core" in ranked
    assert "record the stages of each rank" not in ranked
    waits = lines_of(attribution_report(attribute(golden_study("breakdown"))))
    assert "jitter: unknown: part of the 6.13x lost to waiting may be here" in waits


def test_a_scale_that_is_the_fastest_only_within_noise_is_named_so():
    rows = [f"1,{r},{100 + 30 * (r % 2)}\n2,{r},{80 + 30 * (r % 3)}\n" for r in range(7)]
    study = parse_table("K,rep,time_s\n" + "".join(rows), "noisy")
    result = find(study, Question())
    assert "no scale is clearly faster than K=1." in lines_of(scaling_report(result.scaling))
    text = text_of(findings_report(result))
    assert "<- recommended, cheapest, fastest within noise" in text
    assert "the cheapest scale is the fastest" not in text


def test_the_probabilities_of_all_scales_add_up():
    rows = [f"1,{r},{100 + r}\n2,{r},{52 + r % 3}\n4,{r},{30 + r % 2}\n" for r in range(7)]
    result = find(parse_table("K,rep,time_s\n" + "".join(rows)), Question())
    table = next(p for p in tables_of(findings_report(result)) if "P(right)" in p.titles)
    shown = [row[table.titles.index("P(right)")] for row in table.rows]
    assert "> 99.9 %" in shown
    assert "100 %" not in shown


def test_foreign_load_bounds_how_sure_the_headline_is_and_not_the_json():
    def told(foreign: float):
        law = Law(s=0.02, base_seconds=60.0)
        calm = simulate(PlantedTruth(law=law, scales=(1, 2, 4), rounds=12, noise=0.002))
        load = Contention(foreign_cpu=foreign)
        runs = tuple(structs.replace(run, contention=load) for run in calm.runs)
        findings = find(structs.replace(calm, runs=runs), Question())
        headline = " ".join(text_of(findings_report(findings)).splitlines()[:3])
        return headline, findings.decision.recommended.probability

    calm, sure = told(0.0)
    loaded, same = told(0.79)
    assert sure == same > 0.99
    assert "(more than 99 % sure)" in calm
    assert "doubtful: other processes took up to 79 % of the CPU" in loaded
    assert "(at most 95 % sure)" in loaded and "99 %" not in loaded


def test_the_gravest_doubt_is_first_also_where_two_have_the_same_evidence():
    same = {"evidence": "the work changes"}
    checks = [
        Check(rule="setup", verdict="warn", evidence="no warm-up"),
        Check(rule="work", verdict="fail", **same),
        Check(rule="fixed", verdict="warn", **same),
    ]
    doubts = output(["no answer"], checks=checks).doubts
    assert [(check.rule, check.verdict) for check in doubts] == [
        ("work", "fail"),
        ("setup", "warn"),
    ]


def test_the_largest_of_several_causes_is_shown_with_its_rank():
    law = Law(s=0.02, base_seconds=60.0)
    truth = PlantedTruth(law=law, scales=(1, 2, 4), slow_node_factor=2.0, detail="ranks")
    found = attribute(simulate(truth))
    row = found.rows[-1]
    first, second = (loss.cause for loss in row.causes[:2])
    row = structs.replace(row, dominant_cause=None, possible_causes=(first, second))
    told = attribution_headline(found, row)
    assert f"most to **slow node (rank {row.late_rank}) or {second}**, not separable" in told
