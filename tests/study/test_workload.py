"""The regime that the batches of runs show."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from nodewise.explain.scaling import scale
from nodewise.study import store
from nodewise.study.check import validity_of
from nodewise.study.study import Rank, Run, Study
from nodewise.study.workload import devices_per_node, on_one_job, seen_work

SPEC = """
name = "job"
scales = [1, 2, 4]
{regime}
[workload]
command = ["train"]
"""


def trained(nodes: int, batch: float, samples: float, timed: float, seconds: float = 10.0) -> Run:
    facts = {"global_batch": batch, "all_samples": samples}
    one = Rank(rank=0, stages={"compute": seconds}, items=timed / nodes, seconds=seconds)
    ranks = tuple(msgspec.structs.replace(one, rank=at) for at in range(nodes))
    return Run(nodes=nodes, round=0, seconds=seconds, work=timed, facts=facts, ranks=ranks)


def fixed_global(nodes: int) -> Run:
    return trained(nodes, 64, 640, 576, 8.0 / nodes)


def fixed_per_device(nodes: int) -> Run:
    return trained(nodes, 64 * nodes, 640 * nodes, 576 * nodes, 8.0)


def one_epoch(nodes: int) -> Run:  # the first step is warm-up, so the timed rest differs
    return trained(nodes, 64 * nodes, 6400, 6400 - 64 * nodes, (6400 - 64 * nodes) / 800 / nodes)


def odd(nodes: int) -> Run:
    return trained(nodes, 64 + 10 * nodes, 640 + 100 * nodes, 640 + 100 * nodes)


CASES = {fixed_global: "strong", fixed_per_device: "weak", one_epoch: "strong", odd: None}


@pytest.mark.parametrize("made", CASES)
def test_the_regime_follows_from_the_batches(made):
    seen = seen_work([made(nodes) for nodes in (1, 2, 4)])
    assert seen is not None
    assert seen.regime == CASES[made]


def test_without_batches_nothing_is_seen():
    assert seen_work([Run(nodes=nodes, round=0, seconds=1.0) for nodes in (1, 2)]) is None
    assert seen_work([fixed_global(1)]) is None


@given(some.integers(1, 512), some.integers(4, 400), some.sampled_from([(1, 2), (2, 4, 8), (1, 3)]))
def test_any_batch_and_number_of_steps(batch, steps, scales):
    strong = [trained(k, batch, batch * steps, batch * (steps - 1)) for k in scales]
    weak = [trained(k, batch * k, batch * k * steps, batch * k * (steps - 1)) for k in scales]
    assert seen_work(strong).regime == "strong"
    assert seen_work(weak).regime == "weak"


def test_runs_over_one_data_set_are_scaled_to_all_of_it():
    runs = on_one_job(tuple(one_epoch(nodes) for nodes in (1, 2, 4)))
    assert [run.work for run in runs] == [6400] * 3
    assert [run.seconds for run in runs] == pytest.approx([8.0, 4.0, 2.0])
    assert [run.ranks[0].stages["compute"] for run in runs] == pytest.approx([8.0, 4.0, 2.0])
    study = Study(name="job", regime="strong", runs=runs)
    assert [row.efficiency for row in scale(study).rows] == pytest.approx([1.0] * 3)
    assert validity_of(scale(study).checks).state != "invalid"


def stored(folder, made, regime: str = "") -> Study:
    store.create(folder, SPEC.format(regime=regime))
    for nodes in (1, 2, 4):
        store.append(folder, made(nodes))
    return store.load(folder)


@pytest.mark.parametrize("made", [fixed_global, fixed_per_device])
def test_a_stored_study_has_the_regime_that_is_seen(tmp_path, made):
    study = stored(tmp_path / "job.study", made)
    assert study.regime == CASES[made]
    assert [row.efficiency for row in scale(study).rows] == pytest.approx([1.0] * 3)
    assert "declared" not in validity_of(scale(study).checks).clause


@pytest.mark.parametrize("how", ["in the spec", "on the command line"])
def test_another_regime_than_the_declared_one_is_told_and_followed(tmp_path, how):
    in_spec = 'regime = "strong"' if how == "in the spec" else ""
    study = stored(tmp_path / "job.study", fixed_per_device, in_spec)
    study = study if in_spec else study.in_regime("strong")
    assert study.regime == "weak"
    clause = validity_of(scale(study).checks).clause
    assert "declared strong, but the global batch grows with K: 64 at K=1, 256 at K=4" in clause
    assert "judged as weak" in clause
    assert study.in_regime("weak").declared == study.regime


def test_batches_that_are_neither_fixed_nor_in_proportion_are_invalid(tmp_path):
    study = stored(tmp_path / "job.study", odd)
    found = validity_of(scale(study).checks)
    assert found.state == "invalid"
    assert "global_batch changes between runs: 74 at K=1" in found.clause
    weak = msgspec.structs.replace(study, regime="weak")
    assert "neither fixed nor in proportion to K" in validity_of(scale(weak).checks).clause


def test_rounds_of_different_length_are_not_one_workload():
    runs = [
        Run(nodes=nodes, round=number, seconds=1.0, steps=9 if (nodes, number) == (1, 0) else 10)
        for nodes in (1, 2)
        for number in range(2)
    ]
    found = validity_of(scale(Study(name="job", regime="weak", runs=tuple(runs))).checks)
    assert found.state == "invalid"
    assert "the rounds of K=1 made 9 to 10 steps" in found.clause


def test_ranks_that_differ_in_their_steps_are_not_one_workload():
    runs = [
        Run(
            nodes=nodes, round=number, seconds=1.0, steps=40,
            facts={"steps_of_the_ranks": "30 to 40"} if nodes == 2 else {},
        )
        for nodes in (1, 2)
        for number in range(2)
    ]  # fmt: skip
    found = validity_of(scale(Study(name="job", regime="weak", runs=tuple(runs))).checks)
    assert found.state == "invalid"
    assert "the ranks at K=2 made 30 to 40 steps" in found.clause


def test_ranks_with_a_device_each_are_devices_of_a_node():
    def on_devices(nodes: int, world: int) -> Run:
        run = fixed_global(nodes)
        facts = {**run.facts, "devices_per_node": 8, "world_size": world}
        return msgspec.structs.replace(run, facts=facts)

    assert devices_per_node([on_devices(nodes, nodes) for nodes in (1, 8, 16)]) == 8
    assert devices_per_node([on_devices(nodes, 8 * nodes) for nodes in (1, 2)]) is None
    assert devices_per_node([fixed_global(nodes) for nodes in (1, 2)]) is None


def test_a_stored_study_on_devices_counts_them(tmp_path):
    def on_devices(nodes: int) -> Run:
        run = fixed_global(nodes)
        facts = {**run.facts, "devices_per_node": 8, "world_size": nodes}
        return msgspec.structs.replace(run, facts=facts)

    unit = stored(tmp_path / "job.study", on_devices).scale_unit
    assert unit.named(16) == "16 GPUs (2 nodes)"
    stated = stored(tmp_path / "stated.study", on_devices, 'unit = "ranks"')
    assert stated.scale_unit.unit == "rank"


def test_the_stages_of_a_run_are_scaled_with_its_seconds():
    made = (one_epoch(nodes) for nodes in (1, 2, 4))
    stages = {"compute": 0.75, "communication": 0.25}
    runs = tuple(
        msgspec.structs.replace(run, stages={name: of * run.seconds for name, of in stages.items()})
        for run in made
    )
    for run in on_one_job(runs):
        assert run.stages == pytest.approx({name: of * run.seconds for name, of in stages.items()})
