"""How faithful a rehearsal was, from what its runs recorded."""

import msgspec
import pytest

from nodewise.explain.attribute import attribute
from nodewise.explain.scaling import scale
from nodewise.explain.validity import limit_check
from nodewise.study.check import validity_of
from nodewise.study.spec import EngineSpec, Spec, Workload
from nodewise.study.study import Pace, Rank, Run, Study

SPEC = Spec(
    name="job",
    scales=(1, 2, 4),
    workload=Workload(command=("x",)),
    engine=EngineSpec(name="rehearsal"),
)


def rehearsed(nodes: int, number: int, late: float, dry_wait: float, **pace: int) -> Run:
    """Ten steps of 8 s in all; the ranks wait 0.1 s a step for each other."""
    compute, wait = 8.0 / nodes, 1.0 if nodes > 1 else 0.0
    paced = Pace(cpu_seconds=0.1 * (compute - late), late_seconds=late, **pace)
    rank = {"stages": {"compute": compute, "communication": 0.0, "idle": wait}, "pace": paced}
    return Run(
        nodes=nodes,
        round=number,
        seconds=compute + wait,
        steps=10,
        ranks=tuple(Rank(rank=at, items=1.0 / nodes, **rank) for at in range(nodes)),
        provenance={
            "emulated": True,
            "rehearsal_cpu": "paced",
            "rehearsal_link": "modelled",
            "rehearsal_limited_by": "the gate",
            "rehearsal_limited_seconds": 100.0,
            "rehearsal_dry_step_seconds": 0.08,
            "rehearsal_dry_wait_seconds": dry_wait,
            **{f"rehearsal_node{at}.cores": 0.1 for at in range(nodes)},
        },
    )


def study(late: float = 0.0, dry_wait: float = 0.001, **pace: int) -> Study:
    runs = tuple(
        rehearsed(nodes, number, late, dry_wait, **pace)
        for nodes in (1, 2, 4)
        for number in range(6)
    )
    return Study(name="job", regime="strong", runs=runs, spec=SPEC)


def test_a_rehearsed_study_says_how_faithful_it_was():
    words = {check.rule: check.evidence for check in scale(study()).checks}
    assert words["emulated nodes"] == (
        "rehearsal on emulated nodes of 0.1 cores, by pacing; the slowest node received "
        "100 % of its CPU share; dry step waits 0.3 %; "
        "link modelled; latency is not that of a network"
    )
    assert validity_of(scale(study()).checks).state == "valid"


def test_the_speed_of_a_node_is_told_apart_from_what_it_costs_a_run():
    """0.1 s late beside 1.9 s of compute at K=4: 95 % of the share, 3.3 % of a run of 3 s."""
    evidence = {check.rule: check.evidence for check in scale(study(late=0.1)).checks}
    words = "the slowest node received 95 % of its CPU share, late by 3.3 % of a run"
    assert words in evidence["emulated nodes"]


@pytest.mark.parametrize(
    ("made", "state", "reason"),
    [
        (study(late=0.3), "doubtful", "received 85 % of its CPU share at K=4"),
        (study(late=0.9), "invalid", "received 55 % of its CPU share at K=4"),
        (study(dry_wait=0.06), "doubtful", "makes a step wait 20 % at K=4"),
        (study(dry_wait=0.12), "invalid", "makes a step wait 40 % at K=4"),
        (study(calls_without_bytes=3), "doubtful", "does not know the bytes of some messages"),
    ],
)
def test_a_rehearsal_that_was_not_faithful_is_not_valid(made, state, reason):
    found = validity_of(scale(made).checks)
    assert found.state == state
    assert reason in found.clause


@pytest.mark.parametrize(("share", "state"), [(0.1, "valid"), (0.2, "doubtful"), (0.4, "invalid")])
def test_waiting_for_a_core_inside_mpi_is_part_of_the_fidelity(share, state):
    def held_up(run: Run) -> Run:
        ranks = [
            msgspec.structs.replace(one, stages={**one.stages, "overhead": share * run.seconds})
            for one in run.ranks
        ]
        return msgspec.structs.replace(run, ranks=tuple(ranks)) if run.nodes == 4 else run

    made = study()
    found = scale(msgspec.structs.replace(made, runs=tuple(map(held_up, made.runs))))
    evidence = {check.rule: check.evidence for check in found.checks}
    words = f"inside MPI a rank waits {share:.0%}".replace("%", " % of a run for a core")
    assert words in evidence["emulated nodes"]
    assert validity_of(found.checks).state == state
    assert (f"{words} at K=4" in validity_of(found.checks).clause) == (state != "valid")


def test_what_a_dry_step_waits_is_put_down_to_the_emulation():
    row = attribute(study(dry_wait=0.04)).row(4)
    seconds = {loss.cause: loss.seconds for loss in row.causes}
    assert seconds["emulation"] == pytest.approx(10 * 0.04)
    assert seconds["jitter"] == pytest.approx(10 * 0.06)


def test_the_wait_of_a_paced_rank_for_its_core_is_foreign_load():
    row = attribute(study(late=0.3)).row(4)
    seconds = {loss.cause: loss.gross_seconds for loss in row.causes}
    assert seconds["foreign load"] == pytest.approx(0.3 - 0.3 / 4)


def test_ranks_that_nothing_paced_are_invalid():
    made = study()
    loose = tuple(
        Run(**{f: getattr(run, f) for f in Run.__struct_fields__ if f != "ranks"},
            ranks=tuple(Rank(rank=rank.rank, stages=rank.stages) for rank in run.ranks))
        for run in made.runs
    )  # fmt: skip
    found = validity_of(scale(Study(name="job", regime="strong", runs=loose, spec=SPEC)).checks)
    assert found.state == "invalid"
    assert "the probe does not pace" in found.clause


def changed(made: Study, **provenance: float | None) -> Study:
    """The same study with other facts of its runs; None: without this one."""
    runs = []
    for run in made.runs:
        facts = {**run.provenance, **provenance}
        known = {name: value for name, value in facts.items() if value is not None}
        runs.append(msgspec.structs.replace(run, provenance=known))
    return msgspec.structs.replace(made, runs=tuple(runs))


def test_a_failed_dry_run_is_unknown_and_not_without_waits():
    nothing = {"rehearsal_dry_step_seconds": None, "rehearsal_dry_wait_seconds": None}
    checks = {check.rule: check for check in scale(changed(study(), **nothing)).checks}
    check = checks["waits added by emulation"]
    assert check.verdict == "unknown"
    assert "was not measured at K=2, 4" in check.evidence


def test_a_share_of_unknown_cores_is_unknown_and_not_all_of_it():
    checks = scale(changed(study(), **{"rehearsal_node0.cores": None})).checks
    found = [check for check in checks if check.rule == "CPU received by emulated nodes"]
    assert [check.verdict for check in found] == ["unknown"]
    assert not any("of its CPU share" in check.evidence for check in checks)


def test_paced_nodes_whose_cpu_was_not_counted_are_unknown():
    counted = {f"rehearsal_node{at}.cpu_seconds": 0.1 for at in range(4)}
    within = changed(study(), rehearsal_limited_seconds=10.0, **counted)
    without = changed(study(), rehearsal_limited_seconds=10.0)
    assert limit_check(within).verdict == "pass"
    assert limit_check(without).verdict == "unknown"
    assert "not counted" in limit_check(without).evidence
