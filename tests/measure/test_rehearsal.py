"""The engine of emulated nodes: its limits, its plan and its dry step, without any real node."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodewise.base.errors import RunError
from nodewise.measure import collect
from nodewise.measure.engines.base import Finished, Job
from nodewise.measure.engines.rehearsal import (
    control_groups,
    dry_step,
    node_launchers,
    rehearsal,
    virtual_nodes,
)
from nodewise.measure.engines.rehearsal.control_groups import NoGroups
from nodewise.measure.engines.rehearsal.dry_step import DryStep
from nodewise.measure.engines.rehearsal.limits import BY_CLOCK, BY_GATE, Limits, _Counters, _used
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.measure.engines.rehearsal.virtual_nodes import PlainNodes, missing_for_links
from nodewise.measure.mpi.preload import Launch
from nodewise.study.spec import Rehearsal
from nodewise.study.study import Rank, Stage


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> PlainNodes:
    """Two nodes without control groups."""
    monkeypatch.setattr(control_groups, "make_groups", lambda options: NoGroups())
    return PlainNodes(2, Rehearsal(), Path())


def _of_nodes(limits: Limits) -> dict[str, float | str]:
    return {name: value for name, value in limits.facts.items() if name.startswith("node")}


def test_without_groups_nothing_is_counted_and_no_fact_is_zero(nodes: PlainNodes) -> None:
    limits = Limits(nodes, 2, Rehearsal(slow_node=-1, slow_factor=2.0), start_seconds=1.0)
    limits.begin(BY_GATE)
    limits.end()
    cores = Rehearsal().cores_per_node
    assert _of_nodes(limits) == {"node0.cores": cores, "node1.cores": cores / 2}
    assert limits.facts["limited_by"] == "the gate"


def test_limits_end_once(nodes: PlainNodes) -> None:
    limits = Limits(nodes, 1, Rehearsal(), start_seconds=1.0)
    limits.begin(BY_GATE)
    limits.end()
    found = limits.facts
    limits.begin(BY_CLOCK)
    limits.end()
    assert limits.facts is found
    assert limits.begun_by == "the gate"


def test_a_quota_that_cannot_be_had_is_told_after_the_run(nodes: PlainNodes) -> None:
    limits = Limits(nodes, 1, Rehearsal(), start_seconds=1.0)
    limits.begin(BY_CLOCK)
    assert limits.failure is not None
    assert "needs control groups" in str(limits.failure)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "0.5 cores each, 1 of 2 cores in all"),
        ({"slow_node": 0}, "0.5 cores each; node0 has 0.25, 1 of 2 cores in all"),
        ({"slow_node": -1}, "0.5 cores each; node1 has 0.25, 1 of 2 cores in all"),
        ({"slow_node": 2}, "0.5 cores each, 1 of 2 cores in all"),
        (
            {"cores_per_node": 1.5},
            "1.5 cores each, 3 of 2 cores in all: too many, 0.7 cores each would fit",
        ),
    ],
)
def test_the_plan_says_what_each_node_has_and_whether_all_fit(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, float], words: str
) -> None:
    monkeypatch.setattr(rehearsal, "_cores_here", lambda: 2)
    job = Job(
        command=("x",), nodes=2, directory=Path(), folder=Path(), timeout_seconds=1.0,
        environment={},
    )  # fmt: skip
    given = {"cores_per_node": 0.5, "slow_factor": 2.0, **options}
    engine = RehearsalEngine(Rehearsal(**given))  # type: ignore[arg-type]
    assert engine.plan(job).splitlines()[0] == f"nodes: 2 emulated, {words}"


@pytest.mark.parametrize(
    ("vendor", "link", "said"),
    [
        ("MPICH", "auto", "300 Mbit/s, real, in network namespaces"),
        ("Open MPI", "auto", "modelled by pacing; Open MPI starts no ranks on a real one"),
        ("Open MPI", "modelled", "300 Mbit/s, 0.05 ms a message, modelled by pacing"),
        ("Open MPI", "real", ""),
    ],
)
def test_the_link_is_modelled_where_the_mpi_cannot_have_a_real_one(
    monkeypatch: pytest.MonkeyPatch, vendor: str, link: str, said: str
) -> None:
    launch = Launch(launcher="mpiexec", vendor=vendor)
    monkeypatch.setattr(node_launchers.preload, "launch_of", lambda *_: launch)
    monkeypatch.setattr(node_launchers, "missing_for_links", lambda: None)
    job = Job(
        command=("x",), nodes=2, directory=Path(), folder=Path(), timeout_seconds=1.0,
        environment={},
    )  # fmt: skip
    engine = RehearsalEngine(Rehearsal(link=link))  # type: ignore[arg-type]
    if said:
        engine.check_job(job)
        assert engine.plan(job).splitlines()[2].endswith(said)
    else:
        with pytest.raises(RunError, match="start the ranks of MPICH only"):
            engine.check_job(job)


def test_a_group_without_a_rank_in_it_has_counted_nothing() -> None:
    before = _Counters(1.0, 0.5, (3, 1), None)
    assert _used(before, before) == {}
    assert _used(before, _Counters(2.0, 0.75, (7, 3), (0, 0))) == {
        "cpu_seconds": 1.0, "throttled_seconds": 0.25, "throttled_periods": 0.5,
    }  # fmt: skip


def test_nodes_that_cannot_be_made_leave_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(NoGroups):
        removed = False

        def make(self, node: str) -> None:
            raise RunError("No group.", "Make one.")

        def remove(self) -> None:
            self.removed = True

    made = Failing()
    monkeypatch.setattr(control_groups, "make_groups", lambda options: made)
    with pytest.raises(RunError):
        PlainNodes(2, Rehearsal(), Path())
    assert made.removed


def test_a_trial_of_namespaces_that_does_not_end_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("unshare", 60.0)

    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    monkeypatch.setattr(subprocess, "run", late)
    assert "has not ended" in (missing_for_links.__wrapped__() or "")


def test_a_program_without_a_hook_leaves_the_output_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = RehearsalEngine(Rehearsal())
    job = Job(
        command=("x",), nodes=1, directory=tmp_path, folder=tmp_path, timeout_seconds=1.0,
        environment={"NODEWISE_GATE": "gate"},
    )  # fmt: skip

    def ran(*_: object, **__: object) -> Finished:
        assert not list(tmp_path.glob("rank-*.json"))
        (tmp_path / f"rank-{os.urandom(4).hex()}.json").write_text("{}")
        with job.log.open("a") as log:
            log.write("once\n")
        return Finished(outcome="ok", seconds=1.0, facts={"rehearsal_limited_by": "never"})

    monkeypatch.setattr(engine, "_nodes_for", lambda job: None)
    monkeypatch.setattr(engine, "_rehearse_dry", lambda nodes, job: None)
    monkeypatch.setattr(engine._launcher, "prepare", lambda nodes, job: None)
    monkeypatch.setattr(engine, "_run", ran)
    assert engine.run(job, lambda leaders: None).outcome == "ok"
    assert job.log.read_text() == "once\n"


@pytest.mark.parametrize("stages", [None, {"compute": 1.0}, {"compute": 1.0, "idle": 0.5}])
def test_a_dry_step_without_the_waits_of_every_rank_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: dict[Stage, float] | None
) -> None:
    ranks = [Rank(rank=0, seconds=2.0, stages={"compute": 1.0, "idle": 0.5})]
    ranks += [] if stages is None else [Rank(rank=1, seconds=2.0, stages=stages)]
    monkeypatch.setattr(collect, "read_ranks", lambda folder: ranks)
    found = dry_step.read(tmp_path, 2)
    assert found == (DryStep(0.2, 0.05) if stages and "idle" in stages else None)


def test_a_program_for_administrators_need_not_be_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {None: ("unshare",), virtual_nodes._ADMINISTRATORS: ("tc", "unshare")}

    def which(tool: str, path: str | None = None) -> str | None:
        return f"/there/{tool}" if tool in places[path] else None

    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setattr(virtual_nodes, "TOOLS", ("tc", "unshare"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess((), 0))
    assert missing_for_links.__wrapped__() is None
    monkeypatch.setattr(virtual_nodes, "TOOLS", ("tc", "ip"))
    assert missing_for_links.__wrapped__() == "the program ip"
