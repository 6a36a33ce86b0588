"""What makes a measurement invalid or doubtful."""

import msgspec
import pytest

from nodewise.explain.scaling import scale
from nodewise.explain.validity import program_check
from nodewise.study.check import Validity, validity_of
from nodewise.study.spec import EngineSpec, Spec, Workload
from nodewise.study.study import Contention, Rank, Run, Study

HONEST = {1: 1000.0, 2: 515.0, 4: 272.5, 8: 151.25}


def study(regime="strong", rounds=3, spec=None, extra=(), **by_scale) -> Study:
    """Runs of an honest curve; `by_scale` gives a field of a run as a function of K."""
    runs = [
        Run(
            nodes=nodes, round=number,
            seconds=seconds * (1 + 0.004 * number) if regime == "strong" else 1000.0 + number,
            **{name: value(nodes) for name, value in by_scale.items()},
        )
        for number in range(rounds)
        for nodes, seconds in HONEST.items()
    ]  # fmt: skip
    return Study(name="job", regime=regime, runs=(*runs, *extra), spec=spec)


def validity(made: Study) -> Validity:
    return validity_of(scale(made).checks)


def ranks(count: int, same: bool = False) -> tuple[Rank, ...]:
    return tuple(Rank(rank=0 if same else at, stages={}) for at in range(count))


def limited(by: str, seconds: float, received: float = 1.0):
    def provenance(nodes: int) -> dict:
        nodes_got = {f"rehearsal_node{at}.cpu_received_of_asked": received for at in range(nodes)}
        how = {"rehearsal_limited_by": by, "rehearsal_limited_seconds": seconds}
        return {"emulated": True, **how, **nodes_got}

    return provenance


@pytest.mark.parametrize(
    "by_scale",
    [
        {},
        {"work": lambda k: 8.0, "steps": lambda k: 40, "ranks": ranks},
        {"ranks": lambda k: ranks(4 * k)},  # four to a node
        {"steps": lambda k: -(-37 // k)},  # dealt out to the ranks, the last one has fewer
        {"steps": lambda k: 80 // k, "work": lambda k: 80.0},
        {"facts": lambda k: {"dtype": "float32", "data_hash": "a1", "global_batch": 64}},
        {"facts": lambda k: {"data_hash": "a1" if k == 1 else "differs between ranks"}},
        {"facts": lambda k: {"world_size": 2 * k, "answer": f"{k}"}},
        {"provenance": limited("the gate", 100.0)},
        {"provenance": lambda k: {"started_by_mpi": False, "mpi_calls_recorded": True}},
        {
            "provenance": lambda k: {"started_by_mpi": True, "mpi_calls_recorded": True},
            "ranks": ranks,
        },
        {  # a program that needs no MPI on one core
            "provenance": lambda k: {"started_by_mpi": True, "mpi_calls_recorded": True},
            "ranks": lambda k: ranks(k) if k > 1 else (),
        },
        {"contention": lambda k: Contention(run_delay=0.05, foreign_cpu=0.08)},
    ],
)
def test_honest_records_are_valid(by_scale):
    assert validity(study(**by_scale)) == Validity()


@pytest.mark.parametrize(
    ("by_scale", "reason"),
    [
        (
            {"provenance": lambda k: {"started_by_mpi": True, "mpi_calls_recorded": True}},
            "no rank called MPI_Init at K=1, 2, 4, 8: these may be copies of one job",
        ),
        ({"ranks": lambda k: ranks(1)}, "ranks that ran do not follow K: 1 at K=1, 1 at K=8"),
        ({"ranks": lambda k: ranks(k if k < 8 else 7)}, "1 at K=1, 7 at K=8"),
        ({"ranks": lambda k: ranks(k, same=True)}, "at K=2 2 copies of one rank ran"),
        ({"facts": lambda k: {"world_size": 1}}, "ranks by the fact world_size do not follow K"),
        ({"steps": lambda k: 0 if k == 4 else 9}, "no step ran at K=4"),
        ({"steps": lambda k: 30 if k == 8 else 40}, "steps of a run change: 40 at K=1, 30 at K=8"),
        ({"work": lambda k: 8.0 + 0.2 * (k == 8)}, "the work changes: 8 at K=1, 8.2 at K=8"),
        ({"work": lambda k: 8.0 * k}, "contradicts strong scaling: 8 at K=1, 64 at K=8"),
        ({"facts": lambda k: {"dtype": "f32" if k < 4 else "bf16"}}, "dtype changes between runs"),
        ({"facts": lambda k: {"data_hash": f"a{k}"}}, "data_hash changes between runs: a1 at K=1"),
        ({"facts": lambda k: {"global_batch": 64 * k}}, "global_batch changes between runs"),
        ({"provenance": limited("never", 0.0)}, "the emulated nodes of K=1 were not limited"),
        ({"provenance": limited("the clock", 90.0)}, "an emulated node was not limited: at K=1"),
        ({"provenance": limited("the gate", 100.0, 3.0)}, "received 2.99 times its CPU share"),
    ],
)
def test_what_makes_a_measurement_invalid(by_scale, reason):
    found = validity(study(**by_scale))
    assert found.state == "invalid"
    assert reason in found.clause
    assert found.clause.startswith("no answer: ")


def test_work_against_a_regime_names_the_other_one():
    made = study("weak", work=lambda k: 8.0)
    (check,) = [check for check in scale(made).checks if check.makes == "invalid"]
    assert check.evidence == "the work contradicts weak scaling: 8 at K=1, 8 at K=8"
    assert check.remedy == "Add --regime strong."
    assert validity(study("weak", work=lambda k: 8.0 * k)) == Validity()
    # what grows with the job may change in weak scaling
    assert validity(study("weak", facts=lambda k: {"data_hash": f"a{k}"})) == Validity()


def test_a_declared_fact_must_not_change():
    spec = Spec(name="job", scales=(1, 2), workload=Workload(command=("x",)), fixed=("rows",))
    assert validity(study(spec=spec, facts=lambda k: {"rows": 9})) == Validity()
    assert "rows changes" in validity(study(spec=spec, facts=lambda k: {"rows": 9 * k})).clause


def test_a_rehearsal_without_a_record_of_its_limits_is_invalid():
    engine = EngineSpec(name="rehearsal")
    spec = Spec(name="job", scales=(1, 2), workload=Workload(command=("x",)), engine=engine)
    assert validity(study(spec=spec)).state == "invalid"


@pytest.mark.parametrize(
    ("by_scale", "reason"),
    [
        ({"contention": lambda k: Contention(run_delay=0.2)}, "took up to 20 % of the CPU"),
        ({"contention": lambda k: Contention(foreign_cpu=0.3)}, "took up to 30 % of the CPU"),
        ({"provenance": lambda k: {"oversubscribed": k > 4}}, "more workers than cores at K=8"),
        ({"provenance": limited("the clock", 999.0)}, "did not begin with the timed region"),
        ({"provenance": limited("the gate", 100.0, 1.2)}, "1.20 times its CPU share"),
        ({"rounds": 1}, "single runs, no error bars"),
        ({"rounds": 2}, "2 rounds give a range"),
        (
            {"extra": [Run(nodes=16, round=0, seconds=1.0, outcome="out of memory")]},
            "every run failed at K=16 (out of memory)",
        ),
    ],
)
def test_what_makes_a_measurement_doubtful(by_scale, reason):
    found = validity(study(**by_scale))
    assert found.state == "doubtful"
    assert reason in found.clause


def test_a_slow_base_is_doubtful_and_has_a_fitted_one():
    slow = study()
    runs = tuple(
        msgspec.structs.replace(run, seconds=1.6 * run.seconds) if run.nodes == 1 else run
        for run in slow.runs
    )
    found = validity(msgspec.structs.replace(slow, runs=runs))
    assert found.clause.startswith("doubtful: T(1) is 1.6 times what the curve implies; judged")


def test_many_doubts_are_cut_to_two():
    extra = [Run(nodes=16, round=0, seconds=1.0, outcome="crashed")]
    many = study(rounds=1, extra=extra, contention=lambda k: Contention(run_delay=0.5))
    assert len(validity(many).reasons) == 3
    assert validity(many).clause.endswith("; and 1 more")


def test_runs_of_a_program_that_changed_are_doubtful():
    def measured(*sums):
        runs = [
            Run(nodes=nodes, round=number, seconds=8 / nodes, provenance={"program_job.py": found})
            for number, found in enumerate(sums)
            for nodes in (1, 2)
        ]
        return Study(name="job", regime="strong", runs=tuple(runs))

    assert program_check(measured("a1", "a1", "a1")) is None
    check = program_check(measured("a1", "a1", "b2"))
    assert check is not None and check.makes == "doubtful"
    assert check.evidence == "the program changed between runs: job.py"
