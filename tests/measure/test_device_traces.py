"""Stored traces of real devices through the path of a study: from rank reports to stages."""

import json
import shutil
from pathlib import Path

import pytest

from nodewise.explain.attribute import attribute
from nodewise.measure.collect import collect
from nodewise.measure.engines.base import Finished
from nodewise.report.open import shares_in_traces
from nodewise.study.study import Run, Study

TRACES = Path("/work/shared/data/traces")
REPORT = {
    "host": "node", "seconds": 20.0, "setup_seconds": 1.0, "steps": 10, "counts_steps": True,
    "stages": {"compute": 1.0, "serial": 19.0}, "items": None, "quality": None, "facts": {},
    "usage": {}, "comm_calls": 0, "step_ends": 0, "modules": {},
}  # fmt: skip
SEEN = {
    "rows": 320, "rows_of_a_step": 32, "rows_of_all_steps": 352, "all_steps": 11, "device": "cuda",
    "accumulation": 1, "window_steps": 4, "window_step_seconds": 2.1,
}  # fmt: skip
ON_DEVICE = (
    "a100_rank3of8", "b200_eager_rank0of8_ns", "h100_falconsai_ns", "mi300_falconsai_ns",
    "mi250_minitoy", "old_names_resnet50", "v100_rank1of2",
)  # fmt: skip


def run_of(folder: Path, traces: list[Path], rank: int = 0) -> Run:
    """A run whose ranks left these traces, beside what their hosts clocked."""
    for at, trace in enumerate(traces, rank):
        (folder / f"rank-{at}.json").write_text(json.dumps({"rank": at, **REPORT, "seen": SEEN}))
        shutil.copy(trace, folder / f"trace-{at}.json.gz")
    return collected(folder, max(len(traces), 1))


def collected(folder: Path, nodes: int) -> Run:
    return collect(
        Finished(outcome="ok", seconds=21.0), folder, folder / "log", nodes=nodes, ranks=nodes,
        number=0, baseline=False, provenance={}, started="", read_traces=shares_in_traces,
    )  # fmt: skip


@pytest.mark.parametrize("name", ON_DEVICE)
def test_the_figures_of_the_reference(tmp_path, name):
    if not (TRACES / "reference.json").exists():
        pytest.skip("the stored traces are not here")
    known = json.loads((TRACES / "reference.json").read_text())["traces"][f"{name}.json.gz"]["hta"]
    rank = 3 if "rank3" in name else 1 if "rank1" in name else 0
    run = run_of(tmp_path, [TRACES / "kineto" / f"{name}.json.gz"], rank)
    (one,) = run.ranks
    assert one.rank == rank
    span, stages = known["span"], one.stages
    assert sum(stages.values()) == pytest.approx(20.0)
    communication = span * (stages["communication"] + stages["idle"]) / 20
    assert communication == pytest.approx(known["exposed_comm"], abs=0.5)
    copies = known["noncompute"] - known["exposed_comm"]
    rest = span * (stages["compute"] + stages["serial"] + stages["io"]) / 20
    assert rest - copies == pytest.approx(known["compute"] + known["idle"], abs=0.5)
    assert span * stages["compute"] / 20 >= known["compute"] - 0.5
    assert run.facts["recorded_step_over_timed_step"] == pytest.approx(1.05)
    assert "stages_withheld" not in run.facts


def test_waits_are_matched_over_the_ranks(tmp_path):
    if not (TRACES / "reference.json").exists():
        pytest.skip("the stored traces are not here")
    pair = [TRACES / "kineto" / f"sampled_rank-{rank}.json.gz" for rank in (0, 1)]
    run = run_of(tmp_path, pair)
    assert [rank.rank for rank in run.ranks] == [0, 1]
    assert all(rank.stages["communication"] > 0 for rank in run.ranks)
    assert any(rank.stages["idle"] > 0 for rank in run.ranks)


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_without_a_whole_trace_the_stages_are_withheld(tmp_path, damage):
    (tmp_path / "rank-0.json").write_text(json.dumps({"rank": 0, **REPORT, "seen": SEEN}))
    if damage == "cut":
        (tmp_path / "trace-0.json.gz").write_bytes(b"\x1f\x8b\x08")
    run = collected(tmp_path, 1)
    assert run.ranks[0].stages == {}
    assert "host clocks cannot see the device (cuda" in str(run.facts["stages_withheld"])
    two = [
        Run(nodes=k, round=0, seconds=20.0 / k + k, ranks=run.ranks * k, facts=run.facts)
        for k in (1, 2, 4)
    ]
    found = attribute(Study(name="job", regime="strong", runs=tuple(two)))
    assert found.evidence == "fitted law"
    assert any("cannot see the device" in check.evidence for check in found.checks)
