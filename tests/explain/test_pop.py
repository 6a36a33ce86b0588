"""POP efficiencies: their products, their bounds, and agreement with the definition."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.explain.attribute import attribute
from nodewise.explain.pop import factors, pop
from nodewise.importers.profilers import caliper, talp
from nodewise.study.study import Rank, Run, Study

TALP = Path("/work/shared/data/traces/talp")
PARTS = ("compute", "communication", "idle")


def run_of(nodes: int, table: list[tuple[float, ...]], seconds: float, **more: object) -> Run:
    ranks = tuple(
        Rank(rank=at, stages=dict(zip(PARTS, row, strict=False)), seconds=seconds)
        for at, row in enumerate(table)
    )
    return Run(nodes=nodes, round=0, seconds=seconds, ranks=ranks, **more)


def study_of(*runs: Run, regime: str = "strong") -> Study:
    return Study(name="s", regime=regime, runs=runs)


def test_golden():
    # K=2: useful 3 and 5 of 8 s; the busiest rank transfers 1 s and waits 2 s.
    found = pop(study_of(run_of(1, [(10, 0, 0)], 10.0), run_of(2, [(3, 1, 4), (5, 1, 2)], 8.0)))
    assert found is not None and found.source == "stages of each rank"
    one, two = found.rows
    assert (one.parallel_efficiency, one.load_balance, one.transfer) == (1.0, 1.0, 1.0)
    assert two.parallel_efficiency == 0.5
    assert two.load_balance == 0.8
    assert two.communication_efficiency == 0.625
    assert two.serialisation == pytest.approx(5 / 7)
    assert two.transfer == pytest.approx(7 / 8)
    assert two.computation_scaling == pytest.approx(10 / 8)
    assert two.global_efficiency == pytest.approx(0.625)
    assert found.unknown == {"instructions, IPC and frequency": "no counters"}


shares = st.floats(0.01, 10.0)
rank_rows = st.lists(st.tuples(shares, st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=9)


@given(rank_rows, rank_rows, st.sampled_from(["strong", "weak"]), st.integers(2, 64))
def test_products_and_bounds(base_rows, rows, regime, nodes):
    def at(count: int, table: list[tuple[float, ...]]) -> Run:
        return run_of(count, table, max(sum(row) for row in table))

    found = pop(study_of(at(1, base_rows), at(nodes, rows), regime=regime))
    assert found is not None
    for row in found.rows:
        bounded = [row.parallel_efficiency, row.load_balance, row.communication_efficiency]
        assert row.parallel_efficiency == pytest.approx(
            row.load_balance * row.communication_efficiency
        )
        if row.serialisation is not None:
            bounded += [row.serialisation, row.transfer]
            product = row.serialisation * row.transfer
            assert row.communication_efficiency == pytest.approx(product)
        assert all(0 < value <= 1 + 1e-12 for value in bounded)
        assert row.global_efficiency == pytest.approx(
            row.parallel_efficiency * row.computation_scaling
        )


@given(rank_rows, st.integers(2, 16), st.sampled_from(["strong", "weak"]))
def test_global_efficiency_is_that_of_the_base_times_the_efficiency(rows, copies, regime):
    """With as many ranks for each of K, both say the same in two vocabularies."""
    base = run_of(1, rows, max(sum(row) for row in rows))
    more = rows * copies
    later = run_of(copies, more, 1.3 * max(sum(row) for row in more))
    found = pop(study_of(base, later, regime=regime))
    assert found is not None
    first, last = found.rows
    ideal = base.seconds if regime == "weak" else base.seconds / copies
    efficiency = ideal / later.seconds
    assert last.global_efficiency == pytest.approx(first.parallel_efficiency * efficiency)


@given(st.integers(0, 10**6))
def test_agreement_with_the_definition_on_simulated_steps(seed):
    """Ranks compute, meet, and transfer together in every step: each factor by its definition."""
    random = np.random.default_rng(seed)
    compute = random.uniform(0.5, 2.0, (5, 4))  # a row a step, a column a rank
    transfer = random.uniform(0.0, 0.5, 5)
    elapsed = float((compute.max(axis=1) + transfer).sum())
    waits = (compute.max(axis=1)[:, None] - compute).sum(axis=0)
    table = [(float(c), float(transfer.sum()), float(w)) for c, w in
             zip(compute.sum(axis=0), waits, strict=True)]  # fmt: skip
    found = pop(study_of(run_of(1, [(10, 0, 0)], 10.0), run_of(4, table, elapsed)))
    assert found is not None
    row = found.rows[1]
    useful = compute.sum(axis=0)
    on_ideal_network = compute.max(axis=1).sum()
    assert row.load_balance == pytest.approx(useful.mean() / useful.max())
    assert row.transfer == pytest.approx(on_ideal_network / elapsed)
    assert row.serialisation == pytest.approx(useful.max() / on_ideal_network)


def test_rounds_keep_the_late_rank_of_each():
    """A rank that is late by chance is another one each time: balanced on average, not in a run."""
    first, second = ([(4, 0, 2), (6, 0, 0)], [(6, 0, 0), (4, 0, 2)])
    runs = [run_of(2, first, 6.0), run_of(2, second, 6.0)]
    base = run_of(1, [(10, 0, 0)], 10.0)
    found = pop(study_of(base, *runs))
    assert found is not None and found.rows[1].load_balance == pytest.approx(5 / 6)


def test_time_in_no_stage_is_useful_and_hidden_communication_takes_none():
    # POP tools count all time outside of communication; 2 of 10 s are in no stage.
    open_time = run_of(2, [(6, 2, 0), (6, 2, 0)], 10.0)
    hidden = run_of(4, [(10, 4, 1)] * 4, 10.0)
    found = pop(study_of(run_of(1, [(10, 0, 0)], 10.0), open_time, hidden))
    assert found is not None
    assert [row.parallel_efficiency for row in found.rows[1:]] == [0.8, 1.0]


def test_waiting_that_is_not_recorded_apart_is_unknown():
    without = run_of(2, [(5, 1), (3, 3)], 6.0)
    zero = run_of(2, [(5, 1, 0), (3, 3, 0)], 6.0)
    for run in (without, zero):
        found = pop(study_of(run_of(1, [(10, 0, 0)], 10.0), run))
        assert found is not None
        assert found.rows[1].serialisation is found.rows[1].transfer is None
        assert found.rows[1].load_balance == 0.8
        assert "not recorded apart" in found.unknown["serialisation"]


def test_totals_give_the_parallel_efficiency_alone():
    runs = [
        Run(nodes=k, round=0, seconds=10.0, stages={"compute": 10.0 - k, "communication": float(k)})
        for k in (1, 2)
    ]
    found = pop(study_of(*runs))
    assert found is not None and found.rows[1].parallel_efficiency == 0.8
    assert found.rows[1].load_balance is None
    assert found.unknown["load balance"] == "needs the stages of each rank"


def test_without_communication_nothing_is_said():
    assert pop(study_of(*(Run(nodes=k, round=0, seconds=9.0 / k) for k in (1, 2)))) is None
    compute = [Run(nodes=k, round=0, seconds=9.0, stages={"compute": 9.0}) for k in (1, 2)]
    assert pop(study_of(*compute)) is None


def test_work_that_was_recorded_counts_before_the_regime():
    runs = [run_of(1, [(10, 0, 0)], 10.0, work=100.0),
            run_of(2, [(9, 1, 0), (9, 1, 0)], 10.0, work=180.0)]  # fmt: skip
    found = pop(study_of(*runs, regime="weak"))
    assert found is not None and found.rows[1].computation_scaling == pytest.approx(1.0)


def test_counters_divide_the_computation_scaling():
    def counted(nodes: int, useful: float, instructions: float, cycles: float) -> Run:
        table = [(useful, 1.0, 1.0)] * nodes
        counts = {"instructions": instructions, "cycles": cycles}
        return run_of(nodes, table, useful + 2.0, counters=counts)

    found = pop(study_of(counted(1, 8.0, 16e9, 16e9), counted(2, 5.0, 20e9, 25e9)))
    assert found is not None
    row = found.rows[1]
    assert row.instruction_scaling == pytest.approx(0.8)
    assert row.ipc_scaling == pytest.approx(0.8)
    assert row.frequency_scaling == pytest.approx(1.25)
    product = row.instruction_scaling * row.ipc_scaling * row.frequency_scaling
    assert row.computation_scaling == pytest.approx(product)


def test_a_run_of_no_useful_time_has_no_factors():
    assert factors([0.0, 0.0], 3.0, 1.0) is None
    assert factors([], 3.0, None) is None


def _talp(tmp_path: Path, **values: object) -> Run:
    region = {
        "numCpus": 2, "numMpiRanks": 2, "elapsedTime": 10 * 10**9, "usefulTime": 12 * 10**9,
        "mpiTime": 8 * 10**9, "ompLoadImbalanceTime": 0, "ompSchedulingTime": 0,
        "ompSerializationTime": 0, "parallelEfficiency": 0.6, "mpiLoadBalance": 0.75,
        "mpiCommunicationEfficiency": 0.8, "ompParallelEfficiency": 1.0, **values,
    }  # fmt: skip
    path = tmp_path / "talp.json"
    path.write_text(json.dumps({"Application": {"Global": region}}))
    return talp.read(path, None)[0]


def test_talp_gives_its_load_balance_and_no_zeros(tmp_path):
    run = _talp(tmp_path)
    assert run.efficiencies == {"parallel": 0.6, "load balance": 0.75, "communication": 0.8}
    # 6 s of use and 4 s of MPI on average; the busiest has 8 s of use, so 2 s are waiting for it
    assert run.stages == pytest.approx({"compute": 6.0, "communication": 2.0, "idle": 2.0})
    assert run.counters == {}
    unbalanced = _talp(tmp_path, mpiLoadBalance=None)
    assert unbalanced.stages == pytest.approx({"compute": 6.0, "communication": 4.0})
    threads = _talp(tmp_path, numOmpParallels=3, ompLoadImbalanceTime=10**9)
    assert threads.stages["idle"] == pytest.approx(2.5) and threads.stages["serial"] == 0.0
    assert threads.efficiencies["threads"] == 1.0
    alone = _talp(tmp_path, numMpiRanks=0, numNodes=1, numOmpParallels=0)
    assert (
        alone.stages == pytest.approx({"compute": 6.0}) and "load balance" not in alone.efficiencies
    )


def test_a_talp_study_states_what_the_files_say(tmp_path):
    runs = [_talp(tmp_path, numMpiRanks=1, numCpus=1, usefulTime=10**10, mpiTime=0,
                  parallelEfficiency=1.0, mpiLoadBalance=1.0, mpiCommunicationEfficiency=1.0),
            _talp(tmp_path, instructions=5e9, cycles=2e9)]  # fmt: skip
    found = attribute(study_of(*runs)).pop
    assert found is not None and found.source == "stated by the profiler"
    assert found.rows[1].load_balance == 0.75 and found.rows[1].communication_efficiency == 0.8
    assert found.rows[1].serialisation is None
    assert found.rows[1].computation_scaling == pytest.approx(10 / 12)
    assert found.unknown["instructions, IPC and frequency"] == "no counters"


def test_efficiencies_that_contradict_the_times_are_a_doubt(tmp_path):
    runs = [_talp(tmp_path, numMpiRanks=1, numCpus=1, parallelEfficiency=0.95), _talp(tmp_path)]
    doubts = [check for check in attribute(study_of(*runs)).checks if "efficiencies" in check.rule]
    assert len(doubts) == 1 and "states a parallel efficiency of 0.95" in doubts[0].evidence


@pytest.mark.skipif(not TALP.is_dir(), reason=f"no {TALP}")
def test_real_talp_files_are_read_without_invented_stages():
    for path in sorted(TALP.rglob("*.json")):
        if path.name in ("no_ressources.json", "talp.small.json"):
            continue
        run = talp.read(path, 2)[0]
        text = path.read_text()
        if "gpu" in path.name and "0mpi" in path.name:
            assert "communication" not in run.stages and "load balance" not in run.efficiencies
        if '"mpiLoadBalance": 0.33' in text:
            assert run.efficiencies["load balance"] == 0.33
        assert run.stages.get("serial") is None or "gpuRuntimeTime" in text


def test_caliper_ranks_have_a_load_balance_and_no_split(tmp_path):
    for ranks in (1, 2):
        rows = [
            {"path": name, "time": seconds, "mpi.rank": rank}
            for rank in range(ranks)
            for name, seconds in (("main", 8.0 / ranks + rank), ("MPI_Allreduce", 2.0 - rank))
        ]
        (tmp_path / f"{ranks}.json").write_text(json.dumps(rows))
    runs = [caliper.read(tmp_path / f"{ranks}.json", ranks)[0] for ranks in (1, 2)]
    if not runs[0].ranks:  # a profile of one rank is read as totals
        assert runs[0].stages
    found = pop(study_of(runs[1], run_of(4, [(2, 1)] * 4, 3.0)))
    assert found is not None
    assert found.rows[0].load_balance == pytest.approx(4.5 / 5)
    assert found.rows[0].serialisation is None
