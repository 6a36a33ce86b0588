"""Causes planted in unchanged trainers on two ranks: each is named from two rounds."""

import textwrap

import pytest

from nodewise.explain.attribute import attribute
from tests.engines import ranks
from tests.engines.test_torch_workload import EXAMPLES, collected, study_of

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
# A step computes 60 ms, divided over the ranks. What is planted takes 80 ms more.
PLANT = """
    import functools, os, runpy, sys, time
    import torch

    trainer, cause = sys.argv[1:3]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    sys.path.insert(0, os.path.dirname(trainer))
    import common

    def sleeping(owner, name, seconds, before=True):
        call = getattr(owner, name)

        @functools.wraps(call)
        def both(*arguments, **options):
            if before:
                time.sleep(seconds)
            result = call(*arguments, **options)
            if not before:
                time.sleep(seconds)
            return result

        setattr(owner, name, both)

    model = common.Model
    if "hf_trainer" in trainer:
        import transformers
        model = transformers.GPT2LMHeadModel
    sleeping(model, "forward", 0.06 / ranks)
    late = 0.08 * rank
    if cause == "slow in compute":
        sleeping(model, "forward", late, before=False)
    if cause == "slow before forward":
        import lightning
        sleeping(lightning.LightningModule, "on_train_batch_start", late)
    if cause == "slow loader":
        sleeping(common.Tokens, "__getitem__", 0.01)
    if cause == "large all-reduce":
        class Large(common.Model):  # gradients of 40 MB that cost next to nothing to compute
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(40_000, 256)

            def forward(self, input_ids, labels):
                return super().forward(input_ids, labels) + self.table(input_ids[:1, :1]).mean()

        common.Model = Large
        torch.optim.AdamW = functools.partial(torch.optim.SGD, lr=1e-3)
    if cause == "evaluation on rank 0" and rank == 0:
        class Evaluate(transformers.TrainerCallback):
            def on_step_end(self, *arguments, model, **options):
                model.eval()
                time.sleep(0.08)
                model.train()

        transformers.Trainer.__init__ = functools.partialmethod(
            transformers.Trainer.__init__, callbacks=[Evaluate()])
    if cause == "functional collectives":
        sleeping(torch.nn.utils, "clip_grad_norm_", late)
    sys.argv = [trainer, "--global-batch", "16", "--steps", "12"]
    runpy.run_path(trainer, run_name="__main__")
"""
LATE = {"slow node, rank 1", "late rank, rank 1"}  # two names of it, with the rank
CASES = {
    ("hf_trainer", "slow in compute"): {"slow node, rank 1"},
    ("lightning_fit", "slow before forward"): LATE,
    ("hf_trainer", "slow loader"): {"input/output"},
    ("accelerated", "large all-reduce"): {"communication"},
    ("hf_trainer", "evaluation on rank 0"): {"serial fraction, rank 0"},
    ("fsdp2", "functional collectives"): LATE,
}
OF_LOAD = {"foreign load", "compute inflation"}  # on a busy machine these are true as well
ROUNDS = 2


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    modules = ("transformers", "accelerate", "lightning")
    for name in modules:
        pytest.importorskip(name, reason=f"{name} is not installed")
    folder = tmp_path_factory.mktemp("planted")
    script = folder / "plant.py"
    script.write_text(textwrap.dedent(PLANT))
    jobs = [
        ranks.job(
            folder / f"{trainer} {cause} {nodes} {number}", script,
            EXAMPLES / f"{trainer}.py", cause, ranks=nodes,
        )
        for trainer, cause in CASES
        for number in range(ROUNDS)
        for nodes in (1, 2)
    ]  # fmt: skip
    ranks.run(folder, jobs, *modules, "transformers.trainer")
    return folder


@pytest.mark.parametrize(("trainer", "cause"), CASES)
def test_a_cause_planted_in_a_trainer_is_named(planted, trainer, cause):
    study = study_of(
        [
            collected(planted / f"{trainer} {cause} {nodes} {number}", nodes, number)
            for nodes in (1, 2)
            for number in range(ROUNDS)
        ]
    )
    assert study.regime == "strong"
    found = attribute(study)
    if cause == "slow loader":  # it is divided over the ranks as the work is, and binds the job
        assert found.bound is not None
        assert found.bound.cause in CASES[trainer, cause]
        assert found.bound.share > 0.3
        return
    row = found.rows[-1]
    named = {row.named(one) for one in row.possible_causes}
    disturbed = any(ranks.disturbed(run) for run in study.runs)
    if disturbed:
        named -= OF_LOAD
    lost = [(loss.cause, round(loss.seconds, 3)) for loss in row.causes]
    if disturbed and not CASES[trainer, cause] & named:
        pytest.skip(f"disturbed: other load took more than what is planted: {lost}")
    assert CASES[trainer, cause] & named, lost
    if disturbed and len(named) > 1:
        pytest.skip(f"disturbed: other load leaves a second cause open: {named}")
    assert len(named) == 1, lost
