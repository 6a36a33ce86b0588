"""The rules as data, and what each answers on a claim that shows it."""

from importlib.resources import files

import msgspec
import numpy as np
import pytest

from nodewise.audit.rules import audit, parse_rules
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.importers.tables.claims_tables import claims_of_text
from nodewise.report.findings import find
from nodewise.study.claim import claim_of_study
from nodewise.study.study import Contention, Rank
from nodewise.study.table import parse_table

RULES = parse_rules(files("nodewise.audit").joinpath("rules.toml").read_text())
STRONG = "# strong scaling\n"


def audited(text, name="claim"):
    (claim,) = claims_of_text(text, name, None)
    return audit(claim, RULES)


def answers(text):
    return {check.key: check for check in audited(text).checks}


def test_every_rule_has_its_fields_and_its_source():
    assert len(RULES) == len({rule.key for rule in RULES}) == 42
    for rule in RULES:
        assert rule.source and rule.remedy.endswith(".") and rule.needs
        assert rule.unknown or rule.needs == ("curve",)


def test_a_rule_without_a_predicate_is_refused():
    with pytest.raises(ValueError, match="stranger"):
        parse_rules(
            '[[rule]]\nkey="stranger"\nrule="x"\nneeds=[]\nseverity="warn"\nremedy="x."\nsource="x"'
        )


@pytest.mark.parametrize(
    ("key", "verdict", "text"),
    [
        ("seconds", "fail", "K,speedup\n1,1\n2,1.9\n"),
        ("seconds", "pass", "K,time_s\n1,10\n2,5.3\n"),
        ("baseline", "fail", "K,speedup\n1,1\n2,1.9\n"),
        ("baseline", "unknown", "K,time_s\n2,10\n4,5.3\n"),
        ("workload", "fail", "K,time_s,batch\n1,10,256\n2,6,256\n4,3,512\n"),
        ("workload", "fail", "K,time_s,batch per GPU\n1,10,256\n2,6,256\n"),
        ("workload", "fail", "K,time_s,batch per GPU\n1,10,256\n2,6,256\n4,4,128\n"),
        ("workload", "pass", "K,time_s,batch per GPU\n1,10,256\n2,6,128\n"),
        ("workload", "unknown", "K,time_s,batch\n1,10,0\n2,6,0\n"),
        ("workload", "fail", "K,time_s,epochs\n1,10,90\n2,4,60\n"),
        ("workload", "pass", "K,time_s,batch,steps\n1,10,256,50\n2,6,256,50\n"),
        ("warmup", "pass", "# after a warm-up of 3 steps\nK,time_s\n1,10\n2,6\n"),
        ("warmup", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("repeats", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("repeats", "fail", "# mean of 3 runs\nK,time_s\n1,10\n2,6\n"),
        ("repeats", "fail", "# mean of 9 runs\nK,time_s\n1,10\n2,6\n"),
        ("repeats", "pass", "K,time_s,std,runs\n1,10,0.1,9\n2,6,0.1,9\n"),
        ("regime", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("regime", "pass", f"{STRONG}K,time_s\n1,10\n2,6\n"),
        ("regime", "fail", f"{STRONG}K,time_s,work\n1,10,100\n2,10,200\n"),
        ("regime", "fail", "K,speedup,batch\n1,1,256\n2,1.9,512\n"),
        ("efficiency", "fail", "K,time_s,speedup\n1,10,1\n2,5,2\n"),
        ("efficiency", "pass", "K,time_s,efficiency\n1,10,1\n2,5,1\n"),
        ("straight", "fail", "K,speedup\n1,1.0\n2,2.0\n4,4.0\n8,8.0\n"),
        ("superlinear", "fail", "K,time_s\n1,10\n2,4\n4,2.4\n"),
        ("columns", "fail", "K,time_s,speedup\n1,10.0,1.00\n2,6.0,1.95\n"),
        ("columns", "pass", "K,time_s,speedup\n1,10.0,1.00\n2,6.0,1.67\n"),
        ("columns", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("averaged-ratios", "fail", "K,speedup\n1,1.00\n2,1.67\n4,5.00\nmean,2.56\n"),
        ("digits", "fail", "K,time_s,std\n1,10.12345,0.5\n2,6.12345,0.4\n"),
        ("digits", "pass", "K,time_s,std\n1,10.12,0.51\n2,6.12,0.42\n"),
        ("digits", "fail", "K,speedup\n1,1\n2,1.912345\n"),
        ("identical", "fail", "K,rep,time_s\n1,0,10.12345\n1,1,10.12345\n1,2,10.3\n"
         "2,0,6.54321\n2,1,6.54321\n2,2,6.4\n"),
        ("seeds", "fail", "K,rep,time_s,seed\n1,0,10,1\n1,1,11,1\n2,0,6,1\n2,1,6.1,2\n"),
        ("seeds", "pass", "K,rep,time_s,seed\n1,0,10,1\n1,1,11,2\n2,0,6,1\n2,1,6.1,2\n"),
        ("best-of", "fail", "K,best time\n1,10\n2,6\n"),
        ("best-of", "fail", "# best of 5 runs\nK,time_s\n1,10\n2,6\n"),
        ("best-of", "pass", "# mean of 5 runs\nK,time_s\n1,10\n2,6\n"),
        ("missing-scales", "fail", "K,time_s\n1,10\n2,6\n4,4\n16,3\n32,2\n"),
        ("missing-runs", "fail", "K,rep,time_s\n1,0,10\n1,1,11\n2,0,6\n"),
        ("missing-runs", "fail", "K,rep,time_s\n1,0,10\n1,2,11\n2,0,6\n2,1,6.1\n"),
        ("quality", "fail", "K,time_s,accuracy\n1,10,0.91\n2,6,0.88\n"),
        ("quality", "pass", "K,time_s,accuracy\n1,10,0.91\n2,6,0.911\n"),
        ("divides", "fail", "K,time_s,batch\n1,10,100\n3,6,100\n"),
        ("divides", "pass", "K,time_s,batch\n1,10,256\n2,6,256\n"),
        ("same-place", "fail", "K,time_s,precision\n1,10,fp32\n2,3,bf16\n4,2,bf16\n"),
        ("same-place", "pass", "K,time_s,precision\n1,10,bf16\n2,6,bf16\n"),
        ("predicted", "fail", "# 64 is extrapolated\nK,time_s\n1,10\n2,6\n"),
        ("predicted", "pass", "# a star marks a prediction\nK,time_s\n1,10\n2*,6\n"),
        ("predicted", "pass", "K,time_s,kind\n1,10,measured\n2,6,predicted\n"),
        ("predicted", "unknown", "K,time_s,kind\n1,10,hpc\n2,6,hpc\n"),
        ("price", "fail", "K,time_s,price\n1,10,3.2\n2,6,6.4\n"),
        ("price", "pass", "# prices of May 2026\nK,time_s,price\n1,10,3.2\n2,6,6.4\n"),
        ("energy", "fail", "K,time_s,energy (J)\n1,10,500\n2,6,600\n"),
        ("energy", "pass", "# energy by RAPL at 10 Hz\nK,time_s,energy (J)\n1,10,500\n2,6,600\n"),
        ("attribution", "fail", "# we recommend 64 nodes\nK,time_s\n1,10\n2,6\n"),
        ("attribution", "pass", "# we recommend 2: the network costs more\nK,time_s\n1,10\n2,6\n"),
        ("percentile", "fail", "# latency at each K, averaged\nK,time_s\n1,10\n2,6\n"),
        ("percentile", "pass", "# p99 latency at each K\nK,time_s\n1,10\n2,6\n"),
        ("percentile", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("percentile", "unknown", "# the rest is network latency\nK,time_s\n1,10\n2,6\n"),
        ("caches", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("factors", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("order", "unknown", "K,time_s\n1,10\n2,6\n"),
        ("contention", "unknown", "K,time_s\n1,10\n2,6\n"),
    ],
)  # fmt: skip
def test_a_rule_answers(key, verdict, text):
    check = answers(text)[key]
    assert check.verdict == verdict, check.evidence
    assert bool(check.remedy) == (verdict == "fail")


def test_repeats_with_their_spread_are_not_said_to_have_none():
    rows = [f"{k},{rep},{10 / k + 0.013 * rep}" for k in (1, 2, 4) for rep in range(7)]
    found = answers("\n".join(["K,rep,time_s", *rows]))
    assert found["repeats"].evidence == "7 runs at each scale, with their spread"
    assert found["digits"].evidence == "raw runs have no rounded figures"


def planted_study(**changes):
    return simulate(PlantedTruth(law=Law(s=0.03), detail="ranks", **changes))


def test_the_runs_of_a_study_answer_more():
    study = planted_study()
    runs = tuple(
        msgspec.structs.replace(
            run,
            started=f"2026-08-01T{run.round:02}:{run.nodes:03}",
            setup_seconds=2 * run.seconds,
            contention=Contention(run_delay=0.2),
        )
        for run in study.runs
    )
    checks = audit(claim_of_study(msgspec.structs.replace(study, runs=runs)), RULES).checks
    found = {check.key: check.verdict for check in checks}
    assert found["workers"] == found["parallel-time"] == found["order"] == "pass"
    assert found["setup-share"] == found["contention"] == "fail"
    assert found["missing-runs"] == found["independent"] == found["significant"] == "pass"


def test_scales_run_one_after_the_other_and_a_mean_over_ranks_are_said():
    study = planted_study()
    runs = []
    for at, run in enumerate(study.runs):
        late = Rank(rank=0, stages={"compute": 2 * run.seconds})
        runs.append(msgspec.structs.replace(run, started=f"{at:04}", ranks=(late, *run.ranks[1:])))
    checks = audit(claim_of_study(msgspec.structs.replace(study, runs=tuple(runs))), RULES).checks
    found = {check.key: check.verdict for check in checks}
    assert found["order"] == found["parallel-time"] == "fail"


def test_the_buyers_story():
    """T(1) 1.8 times too slow: the baseline row fails, and the bend goes from 64 to 16."""
    text = "K,time_s\n" + "".join(
        f"{k},{412 * (0.031 + 0.969 / k) * (1.8 if k == 1 else 1):.1f}\n"
        for k in (1, 2, 4, 8, 16, 32, 64)
    )
    result = audited(STRONG + text)
    assert {c.key for c in result.checks if c.verdict == "fail"} >= {"baseline", "slow-baseline"}
    assert (result.correction.claimed_bend, result.correction.bend) == (64, 16)
    assert result.correction.factor == pytest.approx(1.8, rel=0.03)
    assert "with an honest baseline the bend is at 16, not 64" in result.verdict
    assert result.standing == "fails" and not result.passes
    assert (
        "fastest correct" in " ".join(result.questions) or "faster correct" in result.questions[0]
    )


def test_the_linear_table_is_suspected_with_both_mistakes():
    result = audited("K,time_s,speedup,efficiency\n" + "".join(
        f"{k},{80 / k:g},{k}.0,1.00\n" for k in (1, 2, 4, 8)))  # fmt: skip
    assert result.standing == "suspect" and result.passes
    (check,) = [check for check in result.checks if check.verdict == "fail"]
    assert (
        "baseline that is too slow" in check.evidence and "problem that changes" in check.evidence
    )
    assert "single-worker program" in check.remedy
    assert any("re-measure one point" in question for question in result.questions)


def test_nothing_against_an_honest_table_leaves_it_open():
    result = audited("K,time_s\n1,100\n2,53\n4,29\n8,17\n")
    assert result.standing == "open" and result.correction is None
    assert "cannot be judged" in result.verdict


def test_a_correction_that_does_not_move_the_bend_says_the_efficiency():
    text = "K,time_s\n" + "".join(
        f"{k},{100 * (0.001 + 0.999 / k) * (1.3 if k == 1 else 1):.2f}\n" for k in (1, 2, 4, 8, 16)
    )
    assert "the efficiency at K=16 is 0.9" in audited(text).verdict


@pytest.mark.parametrize(
    ("price", "verdict"),
    [
        (Price(), "unknown"),
        (Price(per_node_hour=3.2), "fail"),
        (Price(per_node_hour=3.2, source="a list, 2026-11-16"), "pass"),
    ],
)
def test_the_price_asked_with_is_the_one_that_needs_a_date(price, verdict):
    found = find(planted_study(), Question(price=price), RULES).checks
    assert [check.verdict for check in found if check.key == "price"] == [verdict]


def test_caches_and_factors_come_from_the_runs():
    study = planted_study()

    def found(**changes):
        runs = tuple(msgspec.structs.replace(run, **changes) for run in study.runs)
        changed = msgspec.structs.replace(study, runs=runs)
        return {check.key: check for check in audit(claim_of_study(changed), RULES).checks}

    facts = dict.fromkeys(("cpu", "cores", "kernel", "command", "commit"), "x")
    clean = found(facts={"cache_state": "cold"}, provenance=facts)
    assert clean["caches"].verdict == clean["factors"].verdict == "pass"
    assert found(provenance={"cpu": "x"})["factors"].evidence.endswith("kernel, command, commit")
    dirty = found(provenance=facts | {"uncommitted_changes": True})["factors"]
    assert dirty.verdict == "fail" and "changes" in dirty.evidence
    runs = [
        msgspec.structs.replace(run, facts={"cache_state": "cold" if run.round else "warm"})
        for run in study.runs
    ]
    mixed = msgspec.structs.replace(study, runs=tuple(runs))
    checks = audit(claim_of_study(mixed), RULES).checks
    assert next(c for c in checks if c.key == "caches").evidence == "runs differ: cold, warm"


WHOLE_SECONDS = "K,rep,time_s\n" + "".join(
    f"{k},{at},{second}\n"
    for k, seconds in ((1, (101, 99, 100, 101, 100, 98)), (2, (52, 51, 52, 50, 53, 52)))
    for at, second in enumerate(seconds)
)
COPIED = WHOLE_SECONDS.replace(",101\n", ",100.117\n").replace(",99\n", ",100.117\n")


@pytest.mark.parametrize(("text", "verdict"), [(WHOLE_SECONDS, "pass"), (COPIED, "fail")])
def test_repeats_are_judged_alike_in_a_table_and_in_runs(text, verdict):
    (written,) = claims_of_text(text, "table", None)
    measured = claim_of_study(parse_table(text, "table"))
    for claim in (written, measured):
        found = [check for check in audit(claim, RULES).checks if check.key == "identical"]
        assert [check.verdict for check in found] == [verdict]


def test_noisy_quality_is_undecided_not_broken():
    draw = np.random.default_rng(2).normal
    text = "K,rep,time_s,accuracy\n" + "".join(
        f"{k},{at},{10 / k:.2f},{draw(0.87, 0.01):.4f}\n" for at in range(7) for k in (1, 2, 4)
    )
    assert answers(text)["quality"].verdict == "warn"
