"""Files say what their K counts, and a study keeps it."""

import json

import pytest

from nodewise.report.open import open_study
from nodewise.study.scale_unit import ScaleUnit

TABLE = "| GPUs | time (s) |\n|---|---|\n| 8 | 3600 |\n| 16 | 1900 |\n"
# waiting is worth nothing: the cheapest
P5 = ("--instance", "aws:p5.48xlarge", "--fixed", 5, "--value-per-hour", 0)


def mlperf(nodes: int, seconds: float) -> str:
    events = {"number_of_nodes": nodes, "accelerators_per_node": 8}
    lines = [{"key": key, "value": value, "time_ms": 0} for key, value in events.items()]
    lines.append({"key": "run_start", "value": None, "time_ms": 0})
    lines.append({"key": "run_stop", "value": None, "time_ms": 1000 * seconds})
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)


@pytest.mark.parametrize(("name", "text"), [("gpus.md", TABLE)])
def test_a_markdown_table_names_its_unit(nodewise, tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert open_study(path)[0].scale_unit == ScaleUnit(unit="GPU")
    assert nodewise("decide", path, *P5).out.startswith("gpus: run on 8 GPUs (1 node), 1 h")


@pytest.mark.parametrize("output", ["made.study", "made.csv"])
def test_an_import_keeps_what_k_counts(nodewise, tmp_path, output):
    for nodes, seconds in ((1, 3600.0), (2, 1900.0)):
        (tmp_path / f"{nodes}.log").write_text(mlperf(nodes, seconds))
    logs, made = sorted(tmp_path.glob("*.log")), tmp_path / output
    assert nodewise("import", *logs, "-o", made).code == 0
    assert open_study(made)[0].scale_unit == ScaleUnit(unit="accelerator", per_node=8)
    answer = nodewise("decide", made, *P5).out
    assert answer.startswith("made: run on 8 accelerators (1 node), 1 h and $60.040 a run")


def test_a_table_of_throughput_leads_with_the_rate(nodewise):
    table = "K,throughput\n1,10000\n4,38000\n16,130000\n"
    answer = nodewise("decide", "-", "--price", 3.2, stdin=table).out
    assert answer.startswith("stdin: run on 16 nodes, 130,000 items/s and $0.109 per million items")
    table_of_scales = answer.partition(" K ")[2].partition("Why not more")[0]
    assert "16  130,000" in table_of_scales
    for command in ("decide", "next", "predict"):
        answer = nodewise(command, "-", "--price", 3.2, stdin=table).out
        assert "e-0" not in answer
        assert "$0.0000" not in answer
    assert "(130,000 units of work a second)" in nodewise("scale", "-", stdin=table).out


def test_sentences_name_a_base_that_is_not_one(nodewise):
    table = "gpus,time_s\n4,900\n8,480\n16,290\n"
    answer = nodewise("decide", "-", "--price", "2/gpu", stdin=table).out
    assert "at an efficiency of 0.776 relative to K=4" in " ".join(answer.split())
    scaled = nodewise("scale", "-", stdin="K,time_s\n4,900\n8,480\n16,390\n").out
    assert scaled.splitlines()[0].endswith("at K=16, relative to K=4.")
