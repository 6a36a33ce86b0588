"""What the rehearsal answers for itself, from what its runs recorded."""

import msgspec
import pytest

from nodewise.audit.own_study import answers, own_checks
from nodewise.decide.candidates import Needs
from nodewise.explain.scaling import scale
from nodewise.study.check import Check
from nodewise.study.spec import EngineSpec, Rehearsal, Spec, Workload
from nodewise.study.study import Rank, Run, Study, Usage

CPU, LINK, BYTES = (
    "CPU share of emulated nodes",
    "transfer over the link",
    "bytes over the links",
)
SPEC = Spec(
    name="emulated",
    scales=(1, 4),
    workload=Workload(command=("true",), warmup_steps=2),
    engine=EngineSpec(
        name="rehearsal", rehearsal=Rehearsal(cores_per_node=0.1, link_mbit_per_second=80.0)
    ),
)  # 10 MB/s


def emulated(nodes: int, transfer: float = 0.0, **changes: object) -> Run:
    """Eight timed steps, in which the ranks compute for 8 s in all and transfer 8 MB each."""
    compute = 8.0 / nodes
    figures = {"cores": 0.1, "cpu_received_of_asked": 1.0, "received_bytes": 10_000_000}
    figures |= {"sent_bytes": 10_000_000}  # two more MB in the two steps before
    facts = {f"rehearsal_node{at}.{name}": figures[name] for at in range(nodes) for name in figures}
    rank = Rank(
        rank=0,
        stages={"compute": compute, "communication": transfer},
        usage=Usage(cpu_seconds=0.1 * compute),
    )
    run = Run(
        nodes=nodes,
        round=0,
        seconds=compute + transfer,
        steps=8,
        ranks=tuple(msgspec.structs.replace(rank, rank=at) for at in range(nodes)),
        provenance={
            "rehearsal_limited_by": "the gate",
            "rehearsal_limited_seconds": 100.0,
            **facts,
        },
    )
    return msgspec.structs.replace(run, **changes)


def check(rule: str, *runs: Run) -> Check | None:
    study = Study(name="emulated", regime="strong", runs=runs, spec=SPEC)
    return next(
        (row for row in own_checks(study, Needs(), SPEC, scale(study)) if row.rule == rule), None
    )


def test_limits_that_began_with_the_clock_are_not_honest():
    late = emulated(4, provenance={"rehearsal_limited_by": "the clock"})
    found = check(CPU, emulated(1), late)
    assert found.verdict == "fail"
    assert "probe.steps" in found.remedy
    assert check(LINK, emulated(1), late) is None


def test_a_node_may_not_have_more_than_its_quota():
    run = emulated(4)
    facts = {**run.provenance, "rehearsal_node2.cpu_received_of_asked": 1.3}
    found = check(CPU, emulated(1), msgspec.structs.replace(run, provenance=facts))
    assert found.verdict == "fail"
    assert "1.30 times" in found.evidence
    facts |= {"rehearsal_limited_seconds": 0.1}  # a period more or less is nothing then
    assert check(CPU, emulated(1), msgspec.structs.replace(run, provenance=facts)).verdict == "pass"


def test_a_node_that_computes_with_less_was_robbed():
    run = emulated(4)
    poor = msgspec.structs.replace(run.ranks[1], usage=Usage(cpu_seconds=0.14))
    ranks = (run.ranks[0], poor, *run.ranks[2:])
    found = check(CPU, emulated(1), msgspec.structs.replace(run, ranks=ranks))
    assert found.verdict == "fail"
    assert "0.70 of its CPU share" in found.evidence


def test_steps_must_be_long_against_the_period():
    found = check(CPU, emulated(1), emulated(4, steps=50))
    assert found.verdict == "fail"
    assert "burst" in found.evidence
    assert check(CPU, emulated(1), emulated(4)).verdict == "pass"


@pytest.mark.parametrize(
    ("transfer", "verdict"), [(0.5, "pass"), (0.8, "pass"), (1.5, "pass"), (1.7, "fail")]
)
def test_transfer_beyond_twice_the_links_time_is_latency(transfer, verdict):
    """8 of 10 MB went in the timed steps: 0.8 s."""
    found = check(LINK, emulated(1), emulated(4, transfer))
    assert found.verdict == verdict
    if verdict == "fail":
        assert "latency-bound here, not rehearsable: at K=4" in found.evidence
        assert "larger messages" in found.remedy


def test_latency_that_hardly_matters_is_let_pass():
    run = emulated(4, 0.09)
    few = {n: 1000 if n.endswith("bytes") else v for n, v in run.provenance.items()}
    assert check(LINK, emulated(1), msgspec.structs.replace(run, provenance=few)).verdict == "pass"


def test_without_communication_nothing_is_known_of_the_link():
    assert check(LINK, emulated(1), emulated(4)).verdict == "unknown"


@pytest.mark.parametrize(("size", "verdict"), [(800_000, "pass"), (1_000_000, "fail")])
def test_a_ring_sends_at_least_so_many_bytes(size, verdict):
    """At K=4 one and a half times what is summed, in each of 8 steps, from 10 MB."""
    assert check(BYTES, emulated(1), emulated(4)) is None
    found = check(BYTES, emulated(1), emulated(4, facts={"allreduce_bytes": size}))
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("threads", "verdict", "words"),
    [
        ((None, None), None, ""),
        (((2, 0.1), (2, 0.2)), "pass", "2 threads in each node, so K=4 uses 8 cores; they idle"),
        (((2, 0.1), (2, 0.6)), "warn", "up to 60 % of the time outside MPI"),
        (((2, None), (2, None)), "unknown", "how long they idle is not recorded"),
        ((None, (2, 0.1)), "warn", "runs used 1 and 2 threads"),
    ],
)
def test_threads_of_each_rank_are_a_check(threads, verdict, words):
    runs = []
    for nodes, one in zip((1, 4), threads, strict=True):
        count, idle = one or (None, None)
        seen = {"threads_seen_per_rank": count, "threads_idle_share": idle}
        facts = {name: value for name, value in seen.items() if value is not None}
        runs.append(Run(nodes=nodes, round=0, seconds=8.0 / nodes, provenance=facts))
    found = check("threads of each rank", *runs)
    assert (found and found.verdict) == verdict
    assert found is None or words in found.evidence


@pytest.mark.parametrize(("versions", "verdict"), [(("5", "5"), "pass"), (("5", "4"), "fail")])
def test_what_mpi_records_of_each_run_is_no_other_machine(versions, verdict):
    runs = [
        emulated(
            nodes,
            provenance={
                "mpi_hosts": nodes,
                "mpi_clock_error_ns": 9 * nodes,
                "mpi_messages_unmatched": nodes,
                "mpi_options": "--oversubscribe" * (nodes > 2),
                "threads_seen_per_rank": nodes,
                "mpi_version": version,
            },
        )
        for nodes, version in zip((1, 4), versions, strict=True)
    ]
    study = Study(name="emulated", regime="strong", runs=tuple(runs), spec=SPEC)
    found = answers(study, SPEC, scale(study))["same-place"]
    assert found.verdict == verdict, found.evidence
    assert verdict == "pass" or found.evidence == "runs differ in mpi_version (4, 5)"
