"""Measured profiles on another cluster: by the laws of each part, and against real other links."""

import csv
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.inputs import Question
from nodewise.decide.paper.files import read_move, shipped_accelerators, shipped_links
from nodewise.decide.paper.relocate import Move, Place, all_reduce_cost, rehearsed_place, relocate
from nodewise.decide.prices.bill import Price
from nodewise.diagnose.links import Link
from nodewise.report.terminal import show
from nodewise.report.text.forecast import relocated_report
from nodewise.study.spec import EngineSpec, Rehearsal, Spec, Workload
from nodewise.study.study import Rank, Run, Study
from tests.conftest import SHARED

MEGABYTE = 1e6


def link(bytes_per_second: float, latency: float = 0.0) -> Link:
    return Link(latency_seconds=latency, bytes_per_second=bytes_per_second, efficiency=1.0)


def job(scales=(1, 2, 4, 8), rate=1e6, latency=0.0, serial=0.5) -> Study:
    """100 s of work, serial work, and one all-reduce of 10 MB, 20 times, as a ring."""
    runs = []
    for k in scales:
        stages = {
            "compute": 100 / k,
            "communication": 10 * MEGABYTE * 2 * (k - 1) / k / rate + 20 * 2 * (k - 1) * latency,
            "serial": serial,
        }
        runs.append(Run(nodes=k, round=0, seconds=sum(stages.values()), stages=stages))
    return Study(name="job", regime="strong", runs=tuple(runs))


def seconds(result) -> dict[int, float]:
    return {row.nodes: row.seconds for row in result.forecast.rows}


def move(**fields) -> Move:
    return Move(**{"name": "there", "source": Place(), "target": Place(), **fields})


def test_another_link_gives_what_would_have_been_measured_on_it():
    to_slow = move(source=Place(network=link(1e6, 1e-3)), target=Place(network=link(2e5, 5e-3)))
    for told in (
        to_slow,
        msgspec.structs.replace(to_slow, bytes_per_run=10e6, messages_per_run=20),
    ):
        found = relocate(job(latency=1e-3), told, Question())
        truth = {run.nodes: run.seconds for run in job(rate=2e5, latency=5e-3).runs}
        for k, expected in truth.items():
            assert seconds(found)[k] == pytest.approx(expected, rel=1e-6)


def test_faster_nodes_shrink_the_work_and_nothing_else():
    here, there = (shipped_accelerators()[name] for name in ("A100-80GB", "H100-80GB"))
    ratio = here.peak_flops["bfloat16"] / there.peak_flops["bfloat16"]
    told = move(
        source=Place(accelerator=here), target=Place(accelerator=there), precision="bfloat16",
        bound="compute",
    )  # fmt: skip
    found = relocate(job(), told, Question())
    for run in job().runs:
        comm = run.stages["communication"]
        assert seconds(found)[run.nodes] == pytest.approx((run.seconds - comm) * ratio + comm)
    assert any("same share of its ceiling" in line for line in found.assumptions)
    assert any("The link is the same" in line for line in found.assumptions)


def test_a_bound_that_nobody_told_widens_the_interval():
    here, there = (shipped_accelerators()[name] for name in ("A100-80GB", "H100-80GB"))
    open_ended = move(
        source=Place(accelerator=here), target=Place(accelerator=there), precision="bfloat16"
    )
    rows = {}
    for bound in ("compute", "memory", None):
        told = msgspec.structs.replace(open_ended, bound=bound)
        rows[bound] = relocate(job(), told, Question()).forecast.rows[0]
    assert rows["compute"].seconds < rows[None].seconds < rows["memory"].seconds
    assert rows[None].low80 <= rows["compute"].seconds
    assert rows[None].high80 >= rows["memory"].seconds
    assert rows[None].high80 / rows[None].low80 > rows["compute"].high80 / rows["compute"].low80


def test_nothing_there_is_called_measured():
    found = relocate(job(), move(target=Place(), source=Place()), Question())
    assert not any(row.measured for row in found.forecast.rows)
    assert found.measured_here == {run.nodes: pytest.approx(run.seconds) for run in job().runs}
    text = show(relocated_report(found), 120, colour=False, level=2)
    assert "- The nodes are the same" in text
    assert text.count(" predicted ") == len(found.forecast.rows) + 1  # and the headline


def test_the_price_of_the_other_cluster_is_paid_there():
    priced = move(price=Price(per_node_hour=36.0, source="list, 2026-08-22"))
    found = relocate(job(), priced, Question(price=Price(per_node_hour=1.0, fixed_per_hour=5.0)))
    row = found.forecast.rows[1]
    assert row.cost == pytest.approx(row.seconds / 3600 * (2 * 36.0 + 5.0))
    kept = relocate(job(), move(), Question(price=Price(per_node_hour=1.0)))
    assert any("names no price" in line for line in kept.assumptions)


def test_hidden_transfers_stay_hidden_as_far_as_there_is_work():
    runs = [
        Run(nodes=k, round=0, seconds=max(80 / k, 8.0 * (k > 1)),
            stages={"compute": 80 / k, "communication": 8.0 * (k > 1)})
        for k in (1, 2, 4, 8)
    ]  # fmt: skip
    study = Study(name="overlap", regime="strong", runs=tuple(runs))
    told = move(
        source=Place(network=link(1e6), collective="neighbours"),
        target=Place(network=link(5e5), collective="neighbours"),
    )
    found = seconds(relocate(study, told, Question()))
    assert found[2] == pytest.approx(40)  # 16 s of transfer still fit behind 40 s of work
    assert found[8] == pytest.approx(16)  # 10 s of work no longer cover them


@pytest.mark.parametrize(
    ("collective", "beta", "alpha"),
    [("ring", 1.75, 14), ("tree", 1.75, 6), ("neighbours", 1.0, 2)],
)
def test_algorithms_of_eight_nodes(collective, beta, alpha):
    place = Place(network=link(1.0, 1.0), collective=collective)
    per_byte, per_message = all_reduce_cost(place, np.array([1.0, 8.0]))
    assert per_byte.tolist() == pytest.approx([0.0, beta])
    assert per_message.tolist() == pytest.approx([0.0, alpha])


def test_a_hierarchy_reduces_inside_the_node_first():
    place = Place(
        network=link(1.0), adapters_per_node=4, devices_per_node=4, node_link=link(10.0),
        collective="hierarchical",
    )  # fmt: skip
    per_byte, _ = all_reduce_cost(place, np.array([1.0, 8.0]))
    assert per_byte.tolist() == pytest.approx([0.15, 0.15 + 1.75 / 4])


def test_what_cannot_be_moved_is_refused():
    bare = Study(
        name="bare", regime="strong",
        runs=tuple(Run(nodes=k, round=0, seconds=10 / k) for k in (1, 2, 4)),
    )  # fmt: skip
    with pytest.raises(DataError, match="only with stage times"):
        relocate(bare, move(), Question())
    with pytest.raises(SpecError, match="target link"):
        relocate(job(), move(target=Place(network=link(1.0))), Question())
    a100 = shipped_accelerators()["A100-80GB"]
    with pytest.raises(SpecError, match="target nodes"):
        relocate(job(), move(target=Place(accelerator=a100)), Question())
    both = move(target=Place(accelerator=a100), source=Place(accelerator=a100))
    with pytest.raises(SpecError, match="precision: none"):
        relocate(job(), both, Question())


def test_files(tmp_path: Path):
    file = tmp_path / "h100.toml"
    file.write_text(
        'accelerator = "H100-80GB"\nnetwork = "InfiniBand-NDR"\ndevices_per_node = 8\n'
        '[price]\nper_node_hour = 55\ndate = 2026-08-22\nsource = "list"\n'
        '[from]\naccelerator = "A100-80GB"\nnetwork = "InfiniBand-HDR"\ncollective = "tree"\n'
    )
    read = read_move(file, None)
    assert read.name == "h100"
    assert read.source.collective == "tree" and read.source.devices_per_node == 1
    assert read.target.adapters_per_node == 8
    assert read.target.network == shipped_links()["InfiniBand-NDR"]
    assert read.price is not None and read.price.source == "list, 2026-08-22"
    file.write_text('network = "InfiniBand-NDR"\n')
    with pytest.raises(SpecError, match="the cluster of the study"):
        read_move(file, None)
    assert read_move(file, Place(network=link(1.0))).source.network == link(1.0)
    file.write_text("netwrok = 1\n")
    with pytest.raises(SpecError, match="netwrok") as error:
        read_move(file, None)
    assert "docs/predict.md" in error.value.fix


def test_a_rehearsal_knows_its_own_link():
    spec = Spec(
        name="r", scales=(1, 2, 4), workload=Workload(command=("true",)),
        engine=EngineSpec(name="rehearsal", rehearsal=Rehearsal(link_mbit_per_second=80.0)),
    )  # fmt: skip
    place = rehearsed_place(Study(name="r", regime="strong", runs=(), spec=spec))
    assert place is not None and place.network is not None
    assert place.network.bytes_per_second == 10e6
    assert rehearsed_place(job()) is None


def rehearsed() -> dict[str, Study]:
    """Training on emulated nodes, by condition: stage times of each rank at K = 1 to 8."""
    table = SHARED / "data" / "rehearsal-sample.csv"
    if not table.exists():
        pytest.skip("the rehearsed runs of other links are not here")
    runs: dict[str, dict[tuple[int, int], list[dict[str, str]]]] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            name = f"{row['condition']}-{row['comm_threads_offloaded']}"
            key = int(row["K"]), int(row["rep"])
            runs.setdefault(name, {}).setdefault(key, []).append(row)
    return {
        name: Study(
            name=name, regime="strong",
            runs=tuple(
                Run(nodes=k, round=rep, seconds=float(rows[0]["T_step_s"]), ranks=tuple(
                    Rank(rank=int(row["rank"]), stages={
                        "compute": float(row["compute_s"]),
                        "communication": float(row["transfer_s"]), "idle": float(row["wait_s"]),
                        "io": float(row["io_s"]), "serial": float(row["serial_s"]),
                    })
                    for row in rows
                ))
                for (k, rep), rows in sorted(found.items())
            ),
        )
        for name, found in runs.items()
    }  # fmt: skip


@pytest.mark.parametrize(("size", "median", "p90"), [(939048.0, 0.05, 0.15), (None, 0.10, 0.60)])
def test_real_links_are_foretold_from_the_profile_on_another(size, median, p90):
    """30, 100, 300 and 1000 Mbit/s, each from each other: K = 2, 4, 8 were measured on both."""
    rates = {"link30": 30, "link100": 100, "base": 300, "link1000": 1000}
    studies = rehearsed()
    errors, held = [], []
    for threads in "01":
        for here in rates:
            for there in rates:
                if here == there:
                    continue
                told = move(
                    source=Place(network=link(rates[here] * 1e6 / 8)),
                    target=Place(network=link(rates[there] * 1e6 / 8)),
                    bytes_per_run=size,
                )
                found = relocate(studies[f"{here}-{threads}"], told, Question())
                for row in found.forecast.rows:
                    if row.nodes in (2, 4, 8):
                        runs = studies[f"{there}-{threads}"].at(row.nodes)
                        truth = float(np.mean([run.seconds for run in runs]))
                        errors.append(abs(row.seconds / truth - 1))
                        held.append(row.low80 <= truth <= row.high80)
    assert len(errors) == 72
    assert np.median(errors) < median
    assert np.percentile(errors, 90) < p90
    assert 0.75 <= np.mean(held) <= 0.92


def test_the_command(nodewise, tmp_path: Path):
    table = tmp_path / "job.csv"
    lines = ["K,time_s,compute_s,comm_s"]
    for run in job(serial=0.0).runs:
        lines.append(f"{run.nodes},{run.seconds},{100 / run.nodes},{run.stages['communication']}")
    table.write_text("\n".join(lines) + "\n")
    target = tmp_path / "there.toml"
    target.write_text(
        'name = "ten times the link"\n[network]\nlatency_seconds = 0\nbytes_per_second = 10e6\n'
        "efficiency = 1.0\n"
        "[from.network]\nlatency_seconds = 0\nbytes_per_second = 1e6\nefficiency = 1.0\n"
    )
    told = nodewise("predict", table, "--cluster", target, "--price", "2", "--json").json
    assert told["cluster"] == "ten times the link"
    at_8 = next(row for row in told["forecast"]["rows"] if row["K"] == 8)
    assert at_8["seconds"] == pytest.approx(12.5 + 1.75)
    assert at_8["measured"] is False
    assert told["assumptions"]
    shown = nodewise("predict", table, "--cluster", target)
    assert shown.code == 0 and "ten times the link" in shown.out
    missing = nodewise("predict", table, "--cluster", tmp_path / "none.toml")
    assert missing.code == 2 and "fix: Name a file that exists" in missing.err
