"""What hooks see of real trainers: the batch, the regime, the loss, and planted causes."""

import textwrap
from pathlib import Path

import msgspec
import pytest

from nodewise.explain.attribute import Attribution, attribute
from nodewise.explain.scaling import scale
from nodewise.measure.collect import collect
from nodewise.measure.engines.base import Finished
from nodewise.report.open import shares_in_traces
from nodewise.study.check import validity_of
from nodewise.study.study import Run, Study
from nodewise.study.workload import on_one_job
from tests.engines import ranks

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
TRAINERS = {
    "ddp": (),
    "fsdp2": (),
    "hf_trainer": ("transformers", "transformers.trainer"),
    "accelerated": ("accelerate",),
    "lightning_fit": ("lightning",),
}
BATCH = 16
STEPS = 12


def collected(folder: Path, nodes: int, number: int = 0) -> Run:
    """The run of a folder of rank reports, as `nodewise measure` makes it."""
    return collect(
        Finished(outcome="ok", seconds=10.0), folder, folder / "log",
        nodes=nodes, ranks=nodes, number=number, baseline=False, provenance={}, started="",
    )  # fmt: skip


def study_of(runs: list[Run], declared=None) -> Study:
    study = Study(name="trained", regime="strong", runs=on_one_job(tuple(runs)))
    shown = (study.seen and study.seen.regime) or "strong"
    return msgspec.structs.replace(study, regime=shown).in_regime(declared)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Every trainer with a fixed global batch and with a fixed batch per device, K = 1 and 2."""
    for names in TRAINERS.values():
        for name in names:
            pytest.importorskip(name.partition(".")[0], reason=f"{name} is not installed")
    folder = tmp_path_factory.mktemp("trained")
    jobs = [
        ranks.job(
            folder / f"{trainer}{option}-{nodes}", EXAMPLES / f"{trainer}.py",
            option, BATCH, "--steps", STEPS, ranks=nodes,
        )
        for trainer in TRAINERS
        for option in ("--global-batch", "--batch-per-device")
        for nodes in (1, 2)
    ]  # fmt: skip
    ranks.run(folder, jobs, *(name for names in TRAINERS.values() for name in names))
    return folder


@pytest.mark.parametrize("option", ["--global-batch", "--batch-per-device"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_regime_and_the_batch_are_seen(trained, trainer, option):
    runs = [collected(trained / f"{trainer}{option}-{nodes}", nodes) for nodes in (1, 2)]
    study = study_of(runs)
    fixed = option == "--global-batch"
    assert study.regime == ("strong" if fixed else "weak")
    assert [run.facts["global_batch"] for run in runs] == [BATCH, BATCH if fixed else 2 * BATCH]
    assert [run.steps for run in runs] == [STEPS - 2] * 2
    assert [run.work for run in runs] == [(STEPS - 2) * run.facts["global_batch"] for run in runs]
    for run in runs:
        assert run.facts["tokens"] == 32 * run.work
        assert run.facts["world_size"] == run.nodes
        assert run.facts["precision"] == "float32"
        assert run.facts["accumulation"] == 1
        assert run.facts["parameters"] > 100_000
        assert 4 < run.quality < 6  # of 128 tokens at random: ln 128 = 4.85
        assert all(rank.stages["compute"] > 0 for rank in run.ranks)
    assert validity_of(scale(study).checks).state != "invalid"


PLANTED = """
    import sys, threading, time
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, Dataset

    cause = sys.argv[1]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    class Rows(Dataset):
        def __len__(self):
            return 16 // ranks * 14

        def __getitem__(self, at):
            if cause == "slow loader":
                time.sleep(0.006)
            return torch.full((64,), float(at % 7))

    class Late(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            time.sleep(0.06 / ranks)
            if cause == "slow in compute" and rank == 1:
                time.sleep(0.08)
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient

    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(64, 1500 if cause == "large all-reduce" else 64), torch.nn.ReLU(),
        torch.nn.Linear(1500, 1500) if cause == "large all-reduce" else torch.nn.Linear(64, 64)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in DataLoader(Rows(), 16 // ranks):
        if cause == "slow before forward" and rank == 1:
            time.sleep(0.08)
        loss = Late.apply(model(batch)).pow(2).mean()
        loss.backward()
        if cause == "functional collectives":
            time.sleep(0.08 * rank)
            functional.all_reduce(loss.detach(), "sum", dist.group.WORLD).item()
        if cause == "collective in a thread":
            time.sleep(0.08 * rank)
            thread = threading.Thread(target=lambda: dist.all_reduce(torch.zeros(1)))
            thread.start()
            thread.join()
        optimizer.step()
        if cause == "evaluation on rank 0" and rank == 0:
            with torch.no_grad():
                model.eval()
                time.sleep(0.08)
                model.train()
    dist.destroy_process_group()
"""
CAUSES = {  # what may be named, with the rank
    "slow in compute": ({"slow node, rank 1"}),
    "slow before forward": ({"slow node, rank 1"}),
    "large all-reduce": ({"communication"}),
    "evaluation on rank 0": ({"serial fraction, rank 0"}),
    "functional collectives": ({"slow node, rank 1"}),
    "collective in a thread": ({"slow node, rank 1"}),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    script = folder / "train.py"
    script.write_text(textwrap.dedent(PLANTED))
    jobs = [
        ranks.job(folder / f"{cause}-{nodes}-{number}", script, cause, ranks=nodes)
        for cause in [*CAUSES, "slow loader"]
        for number in range(2)
        for nodes in (1, 2)
    ]
    ranks.run(folder, jobs)
    return folder


def ledger_of(planted: Path, cause: str) -> Attribution:
    study = study_of(
        [
            collected(planted / f"{cause}-{nodes}-{number}", nodes, number)
            for nodes in (1, 2)
            for number in range(2)
        ]
    )
    assert study.regime == "strong"
    return attribute(study)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named_in_two_rounds(planted, cause):
    row = ledger_of(planted, cause).rows[-1]
    named = {row.named(one) for one in row.possible_causes}
    assert named & CAUSES[cause], [(loss.cause, round(loss.seconds, 3)) for loss in row.causes]


def test_a_slow_loader_that_scales_binds_the_job(planted):
    bound = ledger_of(planted, "slow loader").bound
    assert bound is not None
    assert bound.cause == "input/output"
    assert bound.share > 0.4


COMPILED = """
    import sys
    import torch
    import torch._dynamo
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

        def forward(self, value):
            return self.two(self.one(value).relu())

    net = Net()
    if sys.argv[1] == "in place":
        net.compile(backend=backend)
        model = net
    else:
        model = torch.compile(net, backend=backend)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.step()  # as the loading of a checkpoint does
    for step in range(8):
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
        if step % 2:
            model.eval()
            with torch.no_grad():
                model(torch.ones(4, 8))
            model.train()
    print("graphs", len(graphs))
"""
NOTHING = """
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    print("no GPU: nothing to do")
    dist.destroy_process_group()
"""
# A device that works beside the host: what is called for is put in a queue, and `item` waits.
BESIDE = """
    import queue, threading, time
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    work = queue.Queue()

    def device():
        while True:
            work.get()()
            work.task_done()

    threading.Thread(target=device, daemon=True).start()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        work.put(lambda: time.sleep(0.02))
        model(torch.ones(2, 4)).sum().backward()
        work.put(lambda: time.sleep(0.02 * dist.get_world_size()))  # communication
        optimizer.step()
        work.join()  # loss.item()
    dist.destroy_process_group()
"""
RECORDED = """
    import time
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(16):
        time.sleep(0.05 * dist.get_rank())
        model(torch.ones(8, 512)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""
PIPELINE = """
    import time
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dist.init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))
    for _ in range(12):
        if rank == 0:
            out = model(torch.ones(4, 16))
            time.sleep(0.03)
            dist.send(out.detach(), 1)
            out.backward(torch.ones(4, 16))
        else:
            given = torch.zeros(4, 16)
            dist.irecv(given, 0).wait()
            model(given).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""
SCHEDULED = """
    import sys
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stage = pipelining.PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = getattr(pipelining, sys.argv[1])(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    for _ in range(12):
        if rank == 0:
            schedule.step(torch.ones(24, 16))
        else:
            schedule.step(target=torch.ones(24, 16))
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
"""
TWO_LOSSES = """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader
    dist.init_process_group("gloo")
    models = [torch.nn.Linear(16, 16) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for batch in DataLoader(torch.ones(72, 16), 6):
        for model, optimizer in zip(models, optimizers):
            for given in (batch, torch.randn(9, 16)):
                model(given).sum().backward()
            optimizer.step()
    dist.destroy_process_group()
"""
EVALUATED_FIRST = """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader
    dist.init_process_group("gloo")
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training, held_out = DataLoader(torch.ones(72, 16), 6), DataLoader(torch.ones(50, 16), 10)
    next(iter(training))
    batches = iter(training)
    batch = next(batches, None)
    while batch is not None:
        with torch.no_grad():
            for one in held_out:
                model(one)
        model(batch).sum().backward()
        optimizer.step()
        batch = next(batches, None)
    dist.destroy_process_group()
"""
UNEVEN = """
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12 - 4 * dist.get_rank()):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()
"""
SPECIAL = {
    "compiled": (COMPILED, ("as a module",), 1, {}),
    "compiled in place": (COMPILED, ("in place",), 1, {}),
    "nothing": (NOTHING, (), 2, {}),
    "beside": (BESIDE, (), 2, {}),
    "recorded": (RECORDED, (), 2, {"NODEWISE_TORCH_WINDOW": "4"}),
    "pipeline": (PIPELINE, (), 2, {}),
    "1F1B": (SCHEDULED, ("Schedule1F1B",), 2, {}),
    "GPipe": (SCHEDULED, ("ScheduleGPipe",), 2, {}),
    "two losses": (TWO_LOSSES, (), 1, {}),
    "evaluated first": (EVALUATED_FIRST, (), 1, {}),
    "uneven": (UNEVEN, (), 2, {}),
}


@pytest.fixture(scope="module")
def special(tmp_path_factory):
    folder = tmp_path_factory.mktemp("special")
    jobs = []
    for name, (text, arguments, count, variables) in SPECIAL.items():
        script = folder / f"{name}.py"
        script.write_text(textwrap.dedent(text))
        jobs.append(ranks.job(folder / name, script, *arguments, ranks=count, **variables))
        if "compiled" in name:
            bare = ranks.job(folder / f"{name} bare", script, *arguments, ranks=1, watched=False)
            jobs.append(bare)
    ranks.run(folder, jobs)
    return folder


@pytest.mark.parametrize("name", ["compiled", "compiled in place"])
def test_compiled_graphs_are_the_same_and_no_dummy_step_counts(special, name):
    assert (special / name / "log").read_text() == (special / f"{name} bare" / "log").read_text()
    assert "graphs 2" in (special / name / "log").read_text()  # training and evaluation
    run = collected(special / name, 1)
    assert run.steps == 8 - 2
    assert run.facts["global_batch"] == 4
    assert run.ranks[0].stages["compute"] > 0
    assert run.ranks[0].stages["serial"] > 0


def test_a_script_that_trains_nothing_is_invalid(special):
    runs = [msgspec.structs.replace(collected(special / "nothing", 2), nodes=k) for k in (1, 2)]
    assert runs[0].steps == 0
    made = msgspec.structs.replace(study_of(runs), runs=tuple(runs))
    found = validity_of(scale(made).checks)
    assert found.state == "invalid"
    assert "no step ran" in found.clause
    assert "no GPU: nothing to do" in found.clause


def test_ranks_that_differ_in_their_steps_are_invalid(special):
    runs = [msgspec.structs.replace(collected(special / "uneven", 2), nodes=k) for k in (1, 2)]
    found = validity_of(scale(study_of(runs)).checks)
    assert found.state == "invalid"
    assert "the ranks at K=1 made 8 to 12 steps" in found.clause


def test_an_asynchronous_device_is_withheld(special):
    run = collected(special / "beside", 2)
    assert run.steps == 10
    assert "host clocks cannot see the device" in run.facts["stages_withheld"]
    assert all(not rank.stages for rank in run.ranks)
    study = study_of([msgspec.structs.replace(run, nodes=1, ranks=run.ranks[:1]), run])
    found = attribute(study)
    assert found.dominant_cause is None
    assert any("cannot see the device" in check.evidence for check in found.checks)


def test_a_recorded_window_gives_the_stages_of_the_timed_steps(special):
    folder = special / "recorded"
    run = collected(folder, 2)
    assert run.steps == 16 - 4 - 2  # the window and the warm-up
    from_host = run.ranks
    finished = Finished(outcome="ok", seconds=10.0)
    run = collect(
        finished, folder, folder / "log", nodes=2, ranks=2, number=0, baseline=False,
        provenance={}, started="", read_traces=shares_in_traces,
    )  # fmt: skip
    for rank, host in zip(run.ranks, from_host, strict=True):
        assert sum(rank.stages.values()) == pytest.approx(rank.seconds, rel=0.01)
        waited = rank.stages["idle"] + rank.stages["communication"]
        clocked = host.stages["idle"] + host.stages["communication"]
        assert waited == pytest.approx(clocked, abs=0.15 * rank.seconds)
    assert run.ranks[0].stages["idle"] > 0.5 * run.seconds
    assert run.ranks[1].stages["compute"] > 0.5 * run.seconds
    assert run.facts["recorded_step_over_timed_step"] > 0


def test_messages_of_a_pipeline_are_communication_and_rows_count_once(special):
    run = collected(special / "pipeline", 2)
    first, second = run.ranks
    assert second.stages["communication"] > 0.8 * 10 * 0.03
    assert first.stages["compute"] > 0.9 * 10 * 0.03
    assert run.facts["global_batch"] == 4  # both ranks work on the same rows


@pytest.mark.parametrize("schedule", ["1F1B", "GPipe"])
def test_the_batch_of_a_scheduled_pipeline_is_that_of_all_its_parts(special, schedule):
    run = collected(special / schedule, 2)
    assert run.facts["global_batch"] == 24
    assert run.facts["accumulation"] == 4


def test_several_losses_and_optimizers_use_a_batch_once(special):
    run = collected(special / "two losses", 1)
    assert (run.facts["global_batch"], run.facts["accumulation"]) == (6, 1)
    assert run.facts["all_samples"] == 72


def test_batches_of_an_evaluation_before_the_first_step_do_not_count(special):
    run = collected(special / "evaluated first", 1)
    assert (run.facts["global_batch"], run.facts["all_samples"]) == (6, 72)
