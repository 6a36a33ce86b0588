"""The batch script of a torch job: one agent a node, with the cores of its ranks."""

import re
from pathlib import Path

import pytest

from nodewise.base.errors import SpecError
from nodewise.measure.engines.base import Job
from nodewise.measure.engines.slurm import Slurm, SlurmOptions


def script(nodes: int, **options) -> str:
    job = Job(
        command=("python", "train.py"), nodes=nodes, directory=Path("/work"), environment={},
        folder=Path("/study/jobs/K"), timeout_seconds=60.0,
    )  # fmt: skip
    return Slurm(SlurmOptions(launcher="torchrun", **options)).plan(job)


@pytest.mark.parametrize(
    ("nodes", "options", "agents", "ranks", "cores"),
    [
        (4, {"tasks_per_node": 8, "cpus_per_task": 6}, 4, 8, 48),
        (2, {"scale": "tasks", "tasks_per_node": 8, "cpus_per_task": 6}, 1, 2, 12),
        (16, {"scale": "tasks", "tasks_per_node": 8}, 2, 8, 8),
        (3, {"scale": "tasks"}, 3, 1, 1),
    ],
)
def test_one_agent_a_node(nodes, options, agents, ranks, cores):
    text = script(nodes, **options)
    assert f"--nnodes={agents} " in text
    assert f"--nproc-per-node={ranks} " in text
    assert re.findall(r"--ntasks-per-node=\W*(\d+)", text) == ["1", "1"]
    assert set(re.findall(r"--nodes=\W*(\d+)", text)) == {str(agents)}
    assert set(re.findall(r"--cpus-per-task=\W*(\d+)", text)) == {str(cores)}
    assert "SLURM_NODEID" in text


def test_tasks_that_do_not_fill_the_nodes_are_refused():
    options = SlurmOptions(launcher="torchrun", scale="tasks", tasks_per_node=8)
    Slurm(options).check_spec([1, 2, 4, 8, 16])
    with pytest.raises(SpecError, match="K=12 tasks do not fill nodes of 8"):
        Slurm(options).check_spec([8, 12])
