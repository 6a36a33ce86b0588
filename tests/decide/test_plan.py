"""The step model against published A100 runs; memory, search, files and the command."""

import json
import re
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.cli.options import parse_scales
from nodewise.cli.plan import command
from nodewise.decide.paper.files import read_cluster, read_job, shipped_accelerators, shipped_links
from nodewise.decide.paper.job import Anchor, Cluster, Efficiency, Fixed, Job, Plan, Training
from nodewise.decide.paper.memory import memory_of
from nodewise.decide.paper.plan import (
    CALCULON_MEAN_ERROR,
    FITTED_MEAN_ERROR,
    UNSEEN_MEAN_ERROR,
    Measured,
    assess,
    plan_job,
    plans_at,
    spread,
)
from nodewise.decide.paper.step import CEILINGS, step_time
from nodewise.decide.paper.transformer import Transformer, step_flops
from nodewise.diagnose.links import Link

EXAMPLES = Path(__file__).parents[2] / "examples"
A100 = Cluster(
    name="A100",
    accelerator=shipped_accelerators()["A100-80GB"],
    devices_per_node=8,
    node_link=shipped_links()["NVLink3"],
    network=shipped_links()["InfiniBand-HDR"],
    adapters_per_node=8,
)

# Narayanan et al. 2021 (SC21, arXiv 2104.04473), table 1: Selene, A100 80 GB, 8 HDR adapters a
# node, sequence 2048, vocabulary 51200, full recomputation, float16. Micro-batch, chunks and
# whether gradients overlap (DDP torch or local): NVIDIA/Megatron-LM, examples/sc21/run_table_1.sh.
# heads, hidden, layers, tensor, pipeline, devices, batch, micro-batch, chunks, overlap, TFLOP/s
MEGATRON = [
    (24, 2304, 24, 1, 1, 32, 512, 16, 1, True, 137),
    (32, 3072, 30, 2, 1, 64, 512, 16, 1, True, 138),
    (32, 4096, 36, 4, 1, 128, 512, 16, 1, True, 142),
    (48, 6144, 40, 8, 1, 256, 1024, 8, 1, True, 135),
    (64, 8192, 48, 8, 2, 512, 1536, 4, 1, False, 138),
    (80, 10240, 60, 8, 4, 1024, 1792, 2, 3, False, 140),
    (96, 12288, 80, 8, 8, 1536, 2304, 2, 2, False, 148),
    (128, 16384, 96, 8, 16, 1920, 2160, 1, 2, False, 155),
    (128, 20480, 105, 8, 35, 2520, 2520, 1, 3, False, 163),
    (160, 25600, 128, 8, 64, 3072, 3072, 1, 1, False, 163),
]
# Korthikanti et al. 2022 (arXiv 2205.05198), table 5: seconds of a step with full recomputation,
# and with sequence parallelism and selective recomputation; Calculon validates itself on these.
# heads, hidden, layers, pipeline, batch, micro-batch, chunks, seconds full, seconds selective
UNSEEN = [
    (64, 6144, 48, 1, 4, 4, 1, 1.42, 1.10),
    (96, 12288, 96, 8, 64, 1, 3, 18.13, 13.75),
    (128, 20480, 105, 35, 280, 1, 3, 49.05, 37.83),
    (160, 25600, 128, 64, 512, 1, 1, 94.42, 71.49),
]


def gpt(heads=64, hidden=6144, layers=48, **training) -> Job:
    return Job(
        name="gpt",
        model=Transformer(
            layers=layers, hidden=hidden, heads=heads, sequence=2048, vocabulary=51200
        ),
        training=Training(**{"batch": 64, "precision": "float16", **training}),
    )


def megatron() -> list[tuple[Job, Plan, float]]:
    """Job, plan and published seconds of a step, which is FLOPs over achieved FLOP/s."""
    cases = []
    for row in MEGATRON:
        heads, hidden, layers, tensor, pipeline, devices, batch, micro, chunks, overlap, rate = row
        job = gpt(heads, hidden, layers, batch=batch, overlap=overlap)
        plan = Plan(
            tensor=tensor, pipeline=pipeline, data=devices // tensor // pipeline,
            micro_batch=micro, interleave=chunks, recompute="full",
        )  # fmt: skip
        flops = step_flops(job.model, batch, "full")
        cases.append((job, plan, flops / (devices * rate * 1e12)))
    return cases


def unseen() -> list[tuple[Job, Plan, float]]:
    cases = []
    for heads, hidden, layers, pipeline, batch, micro, chunks, full, selective in UNSEEN:
        job = gpt(heads, hidden, layers, batch=batch, gradient_precision="float32")
        common = {
            "tensor": 8, "pipeline": pipeline, "micro_batch": micro, "interleave": chunks,
        }  # fmt: skip
        cases.append((job, Plan(**common, recompute="full"), full))
        plan = Plan(**common, recompute="selective", sequence_parallel=True)
        cases.append((job, plan, selective))
    return cases


def errors(cases, matrix: float | None = None) -> np.ndarray:
    matrix = matrix or Efficiency().matrix
    cluster = msgspec.structs.replace(A100, efficiency=Efficiency(matrix=matrix))
    return np.array([step_time(j, p, cluster).seconds / told - 1 for j, p, told in cases])


def fitted(cases) -> float:
    grid = np.arange(0.60, 0.90, 0.005)
    return float(min(grid, key=lambda matrix: np.abs(errors(cases, matrix)).mean()))


def test_the_megatron_table_is_reproduced():
    found = np.abs(errors(megatron()))
    assert found.mean() == pytest.approx(FITTED_MEAN_ERROR, abs=0.001)  # 1.7 %; asked for: 10 %
    assert found.max() < 0.06


def test_the_constant_is_the_one_that_fits_the_table():
    assert fitted(megatron()) == pytest.approx(Efficiency().matrix, abs=0.006)


@pytest.mark.parametrize("half", [slice(0, None, 2), slice(1, None, 2), slice(5), slice(5, None)])
def test_the_half_that_was_not_fitted_is_reproduced(half):
    cases = megatron()
    held_out = [case for case in cases if case not in cases[half]]
    found = np.abs(errors(held_out, fitted(cases[half])))
    assert found.mean() < 0.03  # 2.4, 1.6, 2.2 and 1.3 %
    assert found.max() < 0.06


def test_runs_of_another_paper_are_predicted_without_fitting():
    found = np.abs(errors(unseen()))
    assert found.mean() == pytest.approx(UNSEEN_MEAN_ERROR, abs=0.001)  # 7.8 %
    assert found.max() < 0.15


def test_with_the_constant_fitted_on_the_same_eight_runs_the_error_is_below_that_of_calculon():
    cases = unseen()
    assert np.abs(errors(cases, fitted(cases))).mean() < CALCULON_MEAN_ERROR  # 3.1 %


def test_selective_recomputation_saves_what_was_measured():
    # 29 to 32 % more throughput (table 5), whatever the constant is
    cases = unseen()
    for full, selective in zip(cases[::2], cases[1::2], strict=True):
        seconds = [step_time(job, plan, A100).seconds for job, plan, _ in (full, selective)]
        assert seconds[0] / seconds[1] == pytest.approx(full[2] / selective[2], rel=0.06)


def test_every_published_run_fits_in_memory():
    for job, plan, _ in [*megatron(), *unseen()]:
        assert memory_of(job, plan).bytes < A100.accelerator.memory_bytes


# arXiv 2205.05198, figure 1, in GiB a device, as read by Calculon's validation:
# parameters with optimizer (18 bytes each: gradients in 32 bits), activations none and selective
GIBIBYTES = [(45.56, 59.25, 9.56), (45.56, 66.84, 12.35), (31.64, 114.02, 23.08)]
GIBIBYTES += [(32.96, 131.25, 26.56)]


@pytest.mark.parametrize(("row", "published"), list(zip(UNSEEN, GIBIBYTES, strict=True)))
def test_memory_is_as_published(row, published):
    heads, hidden, layers, pipeline, batch, micro, chunks, *_ = row
    job = gpt(heads, hidden, layers, batch=batch, gradient_precision="float32")
    plan = Plan(tensor=8, pipeline=pipeline, micro_batch=micro, interleave=chunks)
    held = memory_of(job, plan)
    states = held.weights + held.gradients + held.optimizer
    # The paper leaves out the words, which are on one stage only
    words = 18 * job.model.embedding_parameters / 8
    assert (states - words) / 2**30 == pytest.approx(published[0], rel=0.002)
    assert held.activations / 2**30 == pytest.approx(published[1], rel=0.002)
    both = msgspec.structs.replace(plan, recompute="selective", sequence_parallel=True)
    assert memory_of(job, both).activations / 2**30 == pytest.approx(published[2], rel=0.002)


def test_thirteen_billion_parameters_need_208_gigabytes():
    # Rajbhandari et al. 2020 (arXiv 1910.02054), section 3.1: 16 bytes a parameter with Adam
    job = gpt(40, 5120, 41)
    held = memory_of(job, Plan())
    states = held.weights + held.gradients + held.optimizer
    assert states == pytest.approx(16 * job.model.parameters)
    assert states == pytest.approx(208e9, rel=0.02)
    assert held.bytes > A100.accelerator.memory_bytes
    assert memory_of(job, Plan(data=8, sharding="full", recompute="full")).bytes < 80e9


def test_sharding_divides_as_in_the_zero_paper():
    # arXiv 1910.02054, figure 1: 7.5 B parameters over 64 devices: 120, 31.4 and 1.9 GB.
    # Its 31.4 shards the optimizer alone, as "optimizer" does here.
    model = Transformer(layers=36, hidden=4096, heads=32, sequence=1, vocabulary=1)
    job = Job(name="zero", model=model, training=Training(batch=64))
    scale = 7.5e9 / model.parameters

    def states(sharding):
        held = memory_of(job, Plan(data=64, sharding=sharding))
        return (held.weights + held.gradients + held.optimizer) * scale / 1e9

    assert states("none") == pytest.approx(120)
    assert states("optimizer") == pytest.approx(31.4, abs=0.05)
    assert states("full") == pytest.approx(1.9, abs=0.05)


SMALL = gpt(16, 2048, 24, batch=256)
powers = st.sampled_from([1, 2, 4, 8])
plans = st.builds(
    Plan,
    tensor=powers,
    pipeline=powers,
    data=powers,
    micro_batch=st.sampled_from([1, 2, 4]),
    sharding=st.sampled_from(["none", "optimizer", "full"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    sequence_parallel=st.booleans(),
)


@given(plans)
def test_parts_add_up_and_no_plan_beats_the_peak(plan):
    step = step_time(SMALL, plan, A100)
    parts = [getattr(step, part) for part in CEILINGS]
    assert step.seconds == pytest.approx(sum(parts))
    assert min(parts) >= 0
    reached = step_flops(SMALL.model, 256) / (step.seconds * plan.devices)
    assert reached < A100.efficiency.matrix * A100.accelerator.peak_flops["float16"]


@given(st.sampled_from([1, 2, 4]), st.sampled_from(["none", "selective", "full"]))
def test_one_device_talks_to_nobody(micro_batch, recompute):
    step = step_time(SMALL, Plan(micro_batch=micro_batch, recompute=recompute), A100)
    assert (step.tensor, step.pipeline, step.data, step.bubble) == (0, 0, 0, 0)


@given(plans, st.sampled_from([2, 4]))
def test_more_micro_batches_shrink_the_bubble(plan, times):
    few, many = SMALL, gpt(16, 2048, 24, batch=256 * times)
    before, after = step_time(few, plan, A100), step_time(many, plan, A100)
    assert after.bubble / after.seconds <= before.bubble / before.seconds
    if plan.pipeline > 1:
        assert after.bubble / after.seconds < before.bubble / before.seconds


@given(plans)
def test_chunks_shrink_the_bubble_and_cost_memory(plan):
    chunked = msgspec.structs.replace(plan, interleave=3)
    before, after = step_time(SMALL, plan, A100), step_time(SMALL, chunked, A100)
    assert after.bubble <= before.bubble
    assert after.pipeline >= before.pipeline
    assert memory_of(SMALL, chunked).bytes >= memory_of(SMALL, plan).bytes


@given(plans)
def test_memory_falls_with_the_degree_of_sharding(plan):
    held = [
        memory_of(SMALL, msgspec.structs.replace(plan, data=data, sharding="full")).weights
        for data in (1, 2, 4, 8)
    ]
    assert held == sorted(held, reverse=True)
    by_sharding = [
        memory_of(SMALL, msgspec.structs.replace(plan, data=8, sharding=sharding)).optimizer
        for sharding in ("none", "optimizer", "full")
    ]
    assert by_sharding[0] == pytest.approx(8 * by_sharding[1])
    assert by_sharding[1] == by_sharding[2]


@given(plans, st.sampled_from([0.5, 2.0, 10.0]))
def test_a_cluster_that_is_faster_in_all_is_faster_by_that(plan, times):
    def faster(link: Link) -> Link:
        return msgspec.structs.replace(
            link,
            bytes_per_second=link.bytes_per_second * times,
            latency_seconds=link.latency_seconds / times,
        )

    device = A100.accelerator
    cluster = msgspec.structs.replace(
        A100,
        node_link=faster(A100.node_link),
        network=faster(A100.network),
        accelerator=msgspec.structs.replace(
            device,
            peak_flops={name: peak * times for name, peak in device.peak_flops.items()},
            memory_bytes_per_second=device.memory_bytes_per_second * times,
            watts=None,
        ),
    )
    expected = step_time(SMALL, plan, A100).seconds / times
    assert step_time(SMALL, plan, cluster).seconds == pytest.approx(expected)


@given(st.floats(1, 1e12), st.integers(1, 512))
def test_a_ring_moves_all_but_its_own_part(size, devices):
    link = Link(latency_seconds=1e-6, bytes_per_second=1e9, efficiency=0.5)
    expected = size * (1 - 1 / devices) / 0.5e9 + (devices - 1) * 1e-6
    assert link.gather(size, devices) == pytest.approx(expected)


def test_gradients_hide_behind_the_backward_pass():
    plan = Plan(data=64, micro_batch=1)
    shown = msgspec.structs.replace(
        SMALL, training=msgspec.structs.replace(SMALL.training, overlap=False)
    )
    assert step_time(SMALL, plan, A100).data < step_time(shown, plan, A100).data


@given(st.integers(1, 24))
def test_plans_use_every_device_and_divide_the_job(nodes):
    found = list(plans_at(SMALL, A100, nodes))
    assert len(set(map(msgspec.json.encode, found))) == len(found)
    for plan in found:
        assert plan.devices == 8 * nodes
        assert plan.tensor <= A100.devices_per_node
        assert SMALL.model.layers % (plan.pipeline * plan.interleave) == 0
        assert plan.micro_batches(256) * plan.data * plan.micro_batch == 256


def test_what_is_fixed_is_kept():
    fixed = Fixed(tensor=4, pipeline=2, micro_batch=2, sharding="none", recompute="full")
    found = list(plans_at(msgspec.structs.replace(SMALL, fixed=fixed), A100, 2))
    assert {(p.tensor, p.pipeline, p.data, p.micro_batch, p.sharding) for p in found} == {
        (4, 2, 2, 2, "none")
    }


def test_the_fastest_plan_that_fits_is_chosen():
    result = plan_job(SMALL, A100, [1, 2, 4])
    for row in result.rows:
        every = [assess(SMALL, plan, A100) for plan in plans_at(SMALL, A100, row.nodes)]
        fitting = [one for one in every if one.memory_bytes <= 80e9]
        assert row.plans == len(every)
        assert row.fitting == len(fitting)
        assert row.best is not None
        assert row.best.seconds == min(one.seconds for one in fitting)
        assert row.efficiency == pytest.approx(row.speedup / row.nodes)
    assert result.rows[0].efficiency == 1
    assert result.fastest == 4


def test_a_slow_network_brings_the_knee_closer():
    slow = msgspec.structs.replace(A100, network=shipped_links()["Ethernet-25"])
    slow = msgspec.structs.replace(slow, adapters_per_node=1)
    scales = [1, 2, 4, 8, 16, 32]
    quick, late = plan_job(SMALL, A100, scales), plan_job(SMALL, slow, scales)
    assert (late.last_above or 0) <= (quick.last_above or 0)
    assert late.rows[-1].efficiency < quick.rows[-1].efficiency
    assert late.rows[-1].lost_to in CEILINGS.values()


def test_what_comes_along_has_a_source_and_a_date():
    for one in [*shipped_accelerators().values(), *shipped_links().values()]:
        assert one.source
        assert date.fromisoformat(f"{one.date}-01")


# The command and its files


def run(*arguments: str):
    return CliRunner().invoke(command, arguments)


def test_examples_give_a_plan_with_the_same_numbers_in_both_forms():
    files = (str(EXAMPLES / "gpt-22b.toml"), str(EXAMPLES / "a100-cluster.toml"))
    text, machine = run(*files, "--scales", "4,8", "-v"), run(*files, "--scales", "4,8", "--json")
    assert (text.exit_code, machine.exit_code) == (0, 0)
    found = json.loads(machine.stdout)
    assert [row["K"] for row in found["rows"]] == [4, 8]
    for row in found["rows"]:
        assert f"{row['efficiency']:.3f}" in text.stdout
        assert row["best"]["seconds"] == pytest.approx(sum(row["best"]["step"].values()))
        assert row["best"]["memory_bytes"] <= found["memory_bytes"]
    assert "Calculon has 3.65 %" in text.stdout
    assert "2026-08-22" in text.stdout


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_model_that_fits_nowhere_is_told_so(tmp_path):
    job = (EXAMPLES / "gpt-22b.toml").read_text().replace("layers = 48", "layers = 480")
    model = written(tmp_path, "huge.toml", job)
    outcome = run(str(model), str(EXAMPLES / "a100-cluster.toml"), "--scales", "1")
    assert outcome.exit_code == 1
    assert "nothing fits" in outcome.stdout
    assert "K=1 does not fit: the smallest of" in outcome.stdout


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("layers = 48", "layers = 0", "model.layers: expected `int` >= 1"),
        ("layers = 48", "layer = 48", "model: object contains unknown field `layer`"),
        ("layers = 48", "", "model: object missing required field `layers`"),
        ("heads = 64", "heads = 60", "model.hidden: 6144 cannot be divided by 60 heads"),
        ('"bfloat16"', '"bf16"', "training.precision: invalid enum value 'bf16'"),
        ("layers = 48", "layers", "is not TOML"),
    ],
)
def test_a_bad_field_of_a_model_is_named(tmp_path, before, after, what):
    text = (EXAMPLES / "gpt-22b.toml").read_text()
    with pytest.raises(SpecError, match=r"^nodewise") as refused:
        read_job(written(tmp_path, "model.toml", text.replace(before, after)))
    assert what in refused.value.what


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ('"A100-80GB"', '"A1000"', "accelerator: A1000 is not built in"),
        ('"InfiniBand-HDR"', '"string"', "network: string is not built in"),
        ("devices_per_node = 8", "devices_per_node = 0", "devices_per_node: expected `int` >= 1"),
        ("date = 2026-08-22", "", "price: object missing required field `date`"),
    ],
)
def test_a_bad_field_of_a_cluster_is_named(tmp_path, before, after, what):
    text = (EXAMPLES / "a100-cluster.toml").read_text()
    with pytest.raises(SpecError) as refused:
        read_cluster(written(tmp_path, "cluster.toml", text.replace(before, after)))
    assert what in refused.value.what


def test_own_devices_and_links_can_be_spelled_out(tmp_path):
    cluster = read_cluster(
        written(
            tmp_path,
            "own.toml",
            'name = "own"\ndevices_per_node = 4\nnetwork = "Ethernet-25"\nadapters_per_node = 1\n'
            "[accelerator]\npeak_flops = { bfloat16 = 1e14 }\nmemory_bytes = 24e9\n"
            "memory_bytes_per_second = 1e12\n"
            "[node_link]\nlatency_seconds = 1e-5\nbytes_per_second = 2e10\n",
        )
    )
    assert cluster.accelerator.memory_bytes == 24e9
    assert cluster.adapter.bytes_per_second == 3.125e9 / 4
    with pytest.raises(SpecError, match="float16 has no peak"):
        plan_job(SMALL, cluster, [1])


def test_a_missing_file_is_refused_in_two_lines(nodewise, tmp_path):
    outcome = nodewise("plan", tmp_path / "none.toml", EXAMPLES / "a100-cluster.toml")
    assert outcome.code == 2
    assert outcome.out == ""
    what, fix = outcome.err.splitlines()
    assert what.endswith("none.toml: no such file or directory.")
    assert fix.startswith("  fix: ")


def test_the_files_of_the_documentation_are_read(tmp_path):
    page = (EXAMPLES.parent / "docs" / "plan.md").read_text()
    model, cluster = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    job = read_job(written(tmp_path, "model.toml", model))
    result = plan_job(job, read_cluster(written(tmp_path, "cluster.toml", cluster)), [8])
    assert result.fastest == 8
    best = result.row(8).best
    assert best.seconds80[0] < best.seconds < best.seconds80[1]


@pytest.mark.parametrize("text", ["0..4", "8..4", "x", "1,,2", "0", "1..1000000", ""])
def test_bad_scales_are_refused(text):
    with pytest.raises(SpecError, match="not a list of scales"):
        parse_scales(text)


def test_scales_no_plan_divides_are_refused(tmp_path):
    job = (EXAMPLES / "gpt-22b.toml").read_text()
    model = written(tmp_path, "prime.toml", job.replace("batch = 512", "batch = 7"))
    outcome = run(str(model), str(EXAMPLES / "a100-cluster.toml"), "--scales", "11")
    assert isinstance(outcome.exception, SpecError)
    assert "No plan divides" in str(outcome.exception)


# Published runs of Llama 3.1 405B on H100, eight-bit matrices (Megatron-Bridge, release 26.04.01,
# docs/performance-summary-archive.md) and Llama 3 8B on eight H100 with HBM2e and 500 W
# (torchtitan, benchmarks/llama3_h100_202412_torchtitan.md): tokens a second and device.
H100 = msgspec.structs.replace(
    A100,
    name="H100",
    accelerator=shipped_accelerators()["H100-80GB"],
    node_link=shipped_links()["NVLink4"],
    network=shipped_links()["InfiniBand-NDR"],
)


def llama(layers, hidden, heads, wide, **training) -> Job:
    model = Transformer(
        layers=layers, hidden=hidden, heads=heads, key_value_heads=8, feed_forward=wide,
        sequence=8192, vocabulary=128256, gated=True, tied_embeddings=False, attention="flash",
    )  # fmt: skip
    return Job(name="llama", model=model, training=Training(**training))


def test_eight_bit_training_on_h100_is_predicted():
    job = llama(126, 16384, 128, 53248, batch=1536, precision="float8", tensor_overlap=True)
    plan = Plan(
        tensor=8, pipeline=8, context=2, data=8, interleave=8, sharding="optimizer",
        sequence_parallel=True,
    )  # fmt: skip
    seconds = step_time(job, plan, H100).seconds
    assert 1536 * 8192 / seconds / 1024 == pytest.approx(328, rel=0.06)


@pytest.mark.parametrize(("software", "published"), [("torch", 6667), ("torch eager", 5762)])
def test_fully_sharded_training_under_a_power_cap_is_predicted(software, published):
    job = llama(32, 4096, 32, 14336, batch=16, software=software, gradient_precision="float32")
    device = msgspec.structs.replace(H100.accelerator, memory_bytes_per_second=2.4e12)
    capped = msgspec.structs.replace(H100, accelerator=device, power_cap_watts=500)
    plan = Plan(data=8, micro_batch=2, sharding="full", recompute="operator")
    seconds = step_time(job, plan, capped).seconds
    assert 16 * 8192 / seconds / 8 == pytest.approx(published, rel=0.06)
    assert memory_of(job, plan).bytes / 2**30 == pytest.approx(77.0, rel=0.08)
    assert step_time(job, plan, H100).seconds < seconds


def experts(**changed) -> Job:
    model = {"experts": 64, "experts_per_token": 4, "feed_forward": 1024, **changed}
    job = llama(24, 2048, 16, 1024, batch=256)
    return msgspec.structs.replace(job, model=msgspec.structs.replace(job.model, **model))


def test_experts_hold_memory_and_only_the_chosen_ones_compute():
    few, many = experts(experts=8), experts(experts=64)
    plan = Plan(data=8, expert=8, sharding="optimizer")
    assert memory_of(many, plan).weights > 2 * memory_of(few, plan).weights
    assert step_time(many, plan, H100).matrix == step_time(few, plan, H100).matrix
    whole = memory_of(many, Plan(data=8, sharding="optimizer"))
    assert memory_of(many, plan).weights < whole.weights


def test_experts_beyond_the_fast_link_take_longer():
    near, far = (Plan(data=64, expert=expert, sharding="optimizer") for expert in (8, 64))
    assert step_time(experts(), far, H100).experts > step_time(experts(), near, H100).experts
    joined = msgspec.structs.replace(H100, link_domain=72)
    assert step_time(experts(), far, joined).experts < step_time(experts(), far, H100).experts


def test_context_parallelism_divides_long_sequences():
    job = llama(32, 4096, 32, 14336, batch=8)
    model = msgspec.structs.replace(job.model, sequence=131072)
    long = msgspec.structs.replace(job, model=model)
    one, four = Plan(data=4, sharding="full"), Plan(context=4, sharding="full")
    assert memory_of(long, four).activations < memory_of(long, one).activations / 3
    found = {plan.context for plan in plans_at(long, H100, 1)}
    assert found == {1, 2, 4, 8}
    assert {plan.context for plan in plans_at(job, H100, 1)} == {1}


# Llama 3 8B by torchtitan, GiB of a device: December 2024 on 8 and 128 H100 (its loss was not
# compiled), June 2025 on 32 and 64 H200 (it was).
@pytest.mark.parametrize(
    ("devices", "fused", "measured"),
    [(8, False, 77.0), (128, False, 62.0), (32, True, 47.96), (64, True, 46.97)],
)
def test_the_loss_is_fused_or_keeps_copies_of_the_logits(devices, fused, measured):
    model = Transformer(
        layers=32, hidden=4096, heads=32, sequence=8192, vocabulary=128256, feed_forward=14336,
        key_value_heads=8, gated=True, tied_embeddings=False, attention="flash",
    )  # fmt: skip
    training = Training(
        batch=2 * devices, software="torch", gradient_precision="float32", fused_loss=fused
    )
    job = Job(name="Llama 3 8B", model=model, training=training)
    plan = Plan(data=devices, micro_batch=2, sharding="full", recompute="operator")
    assert memory_of(job, plan).bytes / 2**30 == pytest.approx(measured, rel=0.02)


def test_an_anchor_scales_steps_of_its_layout_and_narrows_their_interval():
    job, plan = gpt(batch=512), Plan(tensor=8, pipeline=2, data=8, recompute="full")
    measured = Measured(1.1, plan, "float16")
    before, after = assess(job, plan, A100), assess(job, plan, A100, measured)
    assert after.seconds == pytest.approx(1.1 * before.seconds)
    assert after.seconds80[1] / after.seconds80[0] < before.seconds80[1] / before.seconds80[0]
    anchor = Anchor(seconds=1.1 * step_time(job, plan, A100).seconds, plan=plan)
    assert plan_job(job, A100, [16], anchor=anchor).anchor_factor == pytest.approx(1.1)


def test_of_other_layouts_an_anchor_says_only_what_the_model_does_not_doubt_anyway():
    job, plan = gpt(batch=512), Plan(tensor=8, pipeline=2, data=8)
    other = msgspec.structs.replace(plan, tensor=4, data=16)
    low = msgspec.structs.replace(
        job, training=msgspec.structs.replace(job.training, precision="float8")
    )
    experts = msgspec.structs.replace(
        job, model=msgspec.structs.replace(job.model, experts=8, experts_per_token=2)
    )
    within, beyond, faster = (Measured(ratio, plan, "float16") for ratio in (1.1, 1.6, 1 / 1.6))
    new = msgspec.structs.replace(A100, accelerator=shipped_accelerators()["B200-180GB"])
    for asked, at in ((job, other), (low, plan), (experts, plan)):
        assert within.factor(asked, at, A100) == 1
        assert 1 < beyond.factor(asked, at, A100) < 1.6
        assert beyond.factor(asked, at, A100) * faster.factor(asked, at, A100) == pytest.approx(1)
        assert spread(asked, at, A100, beyond) > spread(job, plan, A100, beyond)
        assert 1 < within.factor(asked, at, new) < 1.1  # of a device that was never fitted


def test_an_anchor_that_cannot_have_been_run_is_refused(tmp_path, nodewise):
    common = 'sharding = "optimizer"\nrecompute = "full"\n'
    path = written(
        tmp_path, "anchor.toml", f"seconds = 9\n[plan]\ntensor = 8\ndata = 4096\n{common}"
    )
    files = (EXAMPLES / "gpt-22b.toml", EXAMPLES / "a100-cluster.toml")
    done = nodewise("plan", *files, "--scales", "16", "--anchor", path)
    assert done.code == 2 and "batch of 512 is too small" in done.err
    for plan, seconds, why in (
        ("data = 16", 9, "measured run took"),
        ("data = 16", 900, "times the computed one"),
        ("data = 16\npipeline = 64", 9, "more than the 48 layers"),
    ):
        text = f"seconds = {seconds}\n[plan]\ntensor = 8\n{plan}\n{common}"
        path = written(tmp_path, "anchor.toml", text)
        done = nodewise("plan", *files, "--scales", "16", "--anchor", path)
        assert done.code == (2 if "was measured" not in why else 0)
        assert why in done.out + done.err
    path = written(tmp_path, "anchor.toml", "seconds = 9\n[plan]\ndata = 1\n")
    done = nodewise("plan", *files, "--scales", "16", "--anchor", path)
    assert done.code == 2 and "GB on a device of 80" in done.err


@given(st.sampled_from([2, 4, 8, 16]))
def test_efficiency_is_never_above_one(batch):
    job = gpt(40, 5120, 40, batch=64 * batch)  # small scales need recomputation to fit
    result = plan_job(job, A100, [1, 2, 4, 8])
    assert all(row.efficiency <= 1 for row in result.fitting)
    assert max(row.efficiency for row in result.fitting) == 1
