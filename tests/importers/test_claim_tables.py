"""Tables as people publish them: what is read, and what is never accused for a misreading.

Figures from public tables where a source stands above them; ORG and JSON are our own figures.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.audit.rules import audit, read_rules
from nodewise.base.errors import DataError, SpecError
from nodewise.importers.tables.cells import count_of, parse_cell
from nodewise.importers.tables.claims_tables import claims_of_text
from nodewise.importers.tables.columns import parse_corrections
from nodewise.importers.tables.layouts import sheets_of

RULES = read_rules()
SHARED = Path(__file__).parents[3] / "shared" / "data" / "claims"

# radiasoft/sirepo issue 6220
DESCENDING = "|nodes|seconds|\n|--|--|\n| 8 | 532 |\n| 4 | 981 |\n| 2 | 1892 |\n| 1 | 3629 |\n"
# VTT-ProperTune/OpenPFC pull request 142
WEAK_MS = """## Weak scaling
| nodes | GCDs | grid | wall/step | efficiency |
|---|---|---|---|---|
| 1 | 8 | 2048²\u00d7128 | 204.5 ms | 100 % |
| 2 | 16 | 2048²\u00d7256 | 214.1 ms | 95.6 % |
| 4 | 32 | 2048²\u00d7512 | 315.9 ms | 64.7 % |
"""
# CliMA/Oceananigans.jl issue 1722
BOX = """weak scaling, with grid size 16384 x 1024R
┌───────────────┬─────────┬─────────┬─────────┬─────────┐
│          size │   ranks │     min │  median │ samples │
├───────────────┼─────────┼─────────┼─────────┼─────────┤
│ (16384, 1024) │  (1, 1) │ 5.827 s │ 5.827 s │       1 │
│ (16384, 2048) │  (1, 2) │ 5.863 s │ 5.866 s │       2 │
│ (16384, 4096) │  (1, 4) │ 5.825 s │ 5.850 s │       4 │
└───────────────┴─────────┴─────────┴─────────┴─────────┘
"""
# oxford-arc/bench-openfoam README.md
SPACED = """```
Cores   Wall time (s):
------------------------
1        4390.02
2        2359.38
4        1101.13
8        569.68
```
"""
# kakaobrain/torchgpipe docs/benchmarks.rst
RST = """
==========  ===================  =======
Experiment  Throughput           Speedup
==========  ===================  =======
naive-1      92.539 samples/sec   1.000x
pipeline-1   69.960 samples/sec   0.756x
pipeline-2  137.788 samples/sec   1.489x
pipeline-4  243.322 samples/sec   2.629x
==========  ===================  =======
"""
# Some-random/athena, training efficiency
TURNED = """| Server and GPU number | 1S - 1GPU | 1S - 2GPU | 1S - 4GPU |
|---|---|---|---|
| Training time(s/1 epoch) | 121.409 | 83.111 | 54.507 |
"""
# cpmech/laclib benchmarks
HTML = """<table><tr><td>av41092</td><th>MPI np 1</th><th>MPI np 2</th><th>MPI np 3</th></tr>
<tr><th>Analysis</th><td>1.39951s</td><td>2.31268s</td><td>2.35917s</td></tr></table>"""
# ultralytics/yolov5 issue 12424
LIST = "4 GPU: 2h, 30 min\n8 GPU: 2h 21 min\n16 GPU: 2h 25 min\n32 GPU: 2h 46 min\n"
# horovod/horovod issue 998
ARROWS = "40 sec -> 34 sec -> 19sec -> 14 sec\n1 GPU -> 2GPU -> 4 GPU -> 8 GPU\n"
# alpa-projects/alpa issue 824
SENTENCES = (
    "when I use 2 gpus, the throughput is 368.2 samples/s, when I use 4 gpus, the throughput is "
    "424.7 samples/s."
)
# mvsjober/ml-benchmarks results.md
SEVERAL = """| Benchmark | Framework | Cluster | GPUs | Img/sec |
|--|--|--|--|--|
| DDP, synthetic | PyTorch 1.11.0+cu115 | mahti | 1 | 758.90 |
| DDP, synthetic | PyTorch 1.11.0+cu115 | mahti | 8 | 5502.49 |
| DDP, Imagenet data | PyTorch 1.11.0+cu115 | mahti | 1 | 759.19 |
| DDP, Imagenet data | PyTorch 1.11.0+cu115 | mahti | 8 | 5492.90 |
| DDP, synthetic | PyTorch 1.11.0+cu113 | puhti | 1 | 325.95 |
| DDP, synthetic | PyTorch 1.11.0+cu113 | puhti | 8 | 2420.71 |
"""
# galeselee/HOSCF README.md
PER_MS = """| Threads | Time/ms | scalability(based on num_thread=1)|
|--|--|--|
| 1 | 35338 | - |
| 2 | 17916.3 | 98.61%|
| 4 | 8895.6 | 99.31% |
"""
# modal-labs/multinode-training-guide: the base on other hardware, ratios over another base
MODAL = """| Run | Nodes | Hardware | Date | Duration | Speedup |
|--|--|--|--|--|--|
| Modal nanoGPT | 1 | 8x H**2**00 SXM | 2025-02-16 | 23.97 mins | 1.88x |
| Modal clustered nanoGPT | 2 | 2x8xH100 SXM | 2025-04-23 | 10.54 mins | 4.32x |
| Modal clustered nanoGPT | 4 | 4x8xH100 SXM | 2025-04-23 | 5.88 mins | 7.65x |
| Modal clustered nanoGPT | 8 | 8x8xH100 SXM | 2025-05-28 | 3.38 mins | 13.31x |
"""
# a public forest model: the problem grows with the ranks
GROWING = """| Trees | Years | MPI Ranks | Time |
|--|--|--|--|
| 100 | 50 | 1 | ~2s |
| 1,000 | 100 | 4 | ~10s |
| 10,000 | 200 | 8 | ~2min |
"""
ORG = """* Strong scaling
|-------+--------+---------|
| cores | time/s | speedup |
|-------+--------+---------|
|    16 |  411.3 |    1.00 |
|    32 |  214.9 |    1.91 |
|    64 |  118.2 |    3.48 |
"""
JSON = '[{"gpus": 8, "tokens/s/gpu": 410}, {"gpus": 16, "tokens/s/gpu": 402}]'


def read(text, **corrections):
    return claims_of_text(text, "claim", None, corrections)[0]


def efficiencies(claim):
    return [row.efficiency for row in audit(claim, RULES).scaling.rows]


def broken(claim):
    return {check.key: check for check in audit(claim, RULES).checks if check.verdict == "fail"}


@pytest.mark.parametrize(
    ("text", "scales", "expected"),
    [
        (DESCENDING, (1, 2, 4, 8), [1, 0.959, 0.925, 0.853]),
        (WEAK_MS, (8, 16, 32), [1, 0.956, 0.647]),
        (BOX, (1, 2, 4), [1, 0.993, 0.996]),
        (SPACED, (1, 2, 4, 8), [1, 0.930, 0.997, 0.963]),
        (RST, (1, 2, 4), [1, 0.985, 0.870]),
        (TURNED, (1, 2, 4), [1, 0.730, 0.557]),
        (HTML, (1, 2, 3), [1, 0.303, 0.198]),
        (ARROWS, (1, 2, 4, 8), [1, 0.588, 0.526, 0.357]),
        (SENTENCES, (2, 4), [1, 0.577]),
        (SEVERAL, (1, 8), [1, 0.906]),
        (PER_MS, (1, 2, 4), [1, 0.986, 0.993]),
        (MODAL, (1, 2, 4, 8), [1, 1.137, 1.019, 0.886]),
        (ORG, (16, 32, 64), [1, 0.957, 0.870]),
        (JSON, (8, 16), [1, 0.980]),
    ],
    ids=lambda value: "" if isinstance(value, str | list | tuple) else None,
)
def test_public_tables_are_read(text, scales, expected):
    claim = read(text)
    assert claim.scales == scales
    assert efficiencies(claim) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("text", [DESCENDING, WEAK_MS, BOX, SPACED, TURNED, HTML, PER_MS, ORG])
def test_honest_public_tables_are_not_accused(text):
    assert not set(broken(read(text))) - {"digits", "efficiency", "missing-scales", "repeats"}


def test_each_accusation_cites_the_cells_it_rests_on():
    found = broken(read(MODAL))
    assert "same-place" in found and "columns" not in found
    assert any(cell == "Hardware = H200 SXM at K=1" for cell in found["same-place"].cells)
    grows = broken(read(GROWING))["workload"]
    assert "Trees = 100 at K=1" in grows.cells


def test_times_that_do_not_fall_have_two_readings_and_only_what_holds_in_both_is_judged():
    claim = read(LIST)
    assert [row["seconds"].value for row in claim.rows] == [9000, 8460, 8700, 9960]
    assert claim.second is not None and "or it is" in claim.second_reading
    assert not broken(claim)


def test_a_rate_that_does_not_grow_is_per_device_and_a_correction_changes_it():
    text = "| Nodes | Tokens/sec |\n|--|--|\n| 1 | 14796 |\n| 4 | 14276 |\n| 16 | 13856 |\n"
    assert efficiencies(read(text)) == pytest.approx([1, 0.965, 0.936], abs=0.002)
    as_total = parse_corrections(["Tokens/sec=total rate"])
    assert efficiencies(read(text, **as_total))[-1] == pytest.approx(0.0585, abs=0.001)
    with pytest.raises(SpecError, match="does not say what a column is"):
        parse_corrections(["Tokens/sec=colour"])


def test_a_rate_per_device_over_the_wrong_number_is_seen():
    text = (
        "| GPUs | tokens/s | tokens/s/GPU |\n|--|--|--|\n"
        "| 8 | 8000 | 1000 |\n| 16 | 15600 | 975 |\n| 32 | 30000 | {} |\n"
    )
    assert "columns" not in broken(read(text.format("937.5")))
    assert "total over 16" in broken(read(text.format("1875")))["columns"].evidence


def test_a_column_that_nobody_could_read_takes_an_accusation_back():
    ratios = "| K | {} | speedup |\n|--|--|--|\n| 1 | 3.1 | 1 |\n| 2 | 1.9 | 1.6 |\n"
    assert "seconds" not in broken(read(ratios.format("zork")))
    plain = "| K | speedup |\n|--|--|\n| 1 | 1 |\n| 2 | 1.6 |\n"
    assert "seconds" in broken(read(plain))


def test_nodes_beside_gpus_are_kept():
    claim = read("| Nodes | GPUs | time (s) |\n|--|--|--|\n| 1 | 8 | 10 |\n| 2 | 16 | 6 |\n")
    assert claim.scales == (8, 16)
    assert (claim.scale_unit.unit, claim.scale_unit.per_node) == ("GPU", 8)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24.93 mins", 1495.8), ("2'42\"", 162), ("1h 3m", 3780), ("5m9.04225s", 309.04225),
     ("0.661s", 0.661), ("481.821ms", 0.481821), ("~112 min", 6720), ("01:02:03", 3723)],
)  # fmt: skip
def test_durations(text, seconds):
    cell = parse_cell(text, is_time=True)
    assert cell is not None and cell.kind == "time" and cell.value == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "count"),
    [("1,024", 1024), ("8x8xH100 SXM", 64), ("(1, 4)", 4), ("tp8 pp4", 32), ("Single GPU", 1),
     ("Multi-GPU (2x)", 2), ("4 (1 node)", 4), ("p=8", 8), ("1 / 2 / 4", None), ("red", None)],
)  # fmt: skip
def test_counts(text, count):
    found = count_of(text)
    assert (found[0] if found else None) == count


@pytest.mark.parametrize(
    "text",
    [
        "| CPUs | Nodes | Walltime |\n|--|--|--|\n| 256 | 4 | 60 hours |\n| 512 | 8 | 60 hours |\n",
        "| Model | GPUs | VRAM |\n|--|--|--|\n| 7B | 1 | 24GB |\n| 70B | 8 | 80GB |\n",
        "Nothing about scaling here, but 8 GPUs.",
    ],
)
def test_what_is_no_scaling_table_is_refused(text):
    with pytest.raises(DataError):
        read(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1, 2, 4 cores in 26.1s, 19.5s, 14.3s", {1: 26.1, 2: 19.5, 4: 14.3}),
        ("With 1, 2 and 4 cores it took 26.1 s, 19.5 s and 14.3 s.", {1: 26.1, 2: 19.5, 4: 14.3}),
        ("1,024, 2,048 GPUs: 3.1 s and 2.0 s", {1024: 3.1, 2048: 2.0}),
    ],
)
def test_two_lists_in_one_sentence(text, seconds):
    assert read(text).by_scale("seconds") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["on 1,024 GPUs 3.1 s and 4.0 s", "v1.2, 4 nodes took 3 s and 5 s"]
)
def test_a_thousand_and_a_version_are_no_list_of_scales(text):
    with pytest.raises(DataError):
        read(text)


@pytest.mark.parametrize("text", ["", "|", "<td", "\\begin{tabular}", "{", "a,b", "\0", "|-|\n|-|"])
def test_no_text_breaks_the_layouts(text):
    assert isinstance(sheets_of(text), list)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables with their truth are not here")
def test_the_judge_of_the_shared_tables(tmp_path):
    command = f"{sys.executable} -m nodewise audit {{}} --json"
    judge = [sys.executable, SHARED / "eval_claims.py", SHARED, "--command", command]
    out = tmp_path / "judged.json"
    subprocess.run([*judge, "--json", out], check=True, capture_output=True, timeout=300)
    total = json.loads(out.read_text())["total"]
    assert total["read"] + total["right_refusal"] == 6
    assert total["false"] == total["missed"] == 0
