"""What CI systems read, judged by their schema or by a parser of theirs."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from lxml import etree
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nodewise.history.check import check
from nodewise.history.gates import parse_gate
from nodewise.report.ci.content import of_check
from nodewise.report.ci.formats import FORMATS
from tests.history.conftest import USUAL

GATES = [parse_gate(text) for text in ("slower=0%", "efficiency@8=0.1", "memory=10%")]


@pytest.fixture(scope="module")
def failed(slower):
    law = msgspec.structs.replace(USUAL, base_seconds=11.0)
    return of_check(check(slower(law, 2), GATES))


@pytest.fixture(scope="module")
def passed(usual):
    odd = [msgspec.structs.replace(one, workload='a "b" <c>\n& \x1b d') for one in usual]
    return of_check(check(odd, GATES))


def validate_junit(text):
    schema = etree.XMLSchema(etree.parse(Path(__file__).parent / "junit.xsd"))
    schema.assertValid(etree.fromstring(text.encode()))


def test_junit_keeps_to_its_schema_and_counts_its_cases(failed, passed):
    for report, failures in ((failed, 1), (passed, 0)):
        text = FORMATS["junit"](report)
        validate_junit(text)
        (suite,) = ElementTree.fromstring(text)
        assert suite.get("failures") == str(failures) == str(len(suite.findall(".//failure")))
        assert suite.get("tests") == str(len(suite.findall("testcase"))) == "6"
        assert suite.get("skipped") == str(len(suite.findall(".//skipped")))
    message = ElementTree.fromstring(FORMATS["junit"](failed)).find(".//failure").get("message")
    assert re.search(r"9\.\d % slower|10\.?\d? % slower|11 % slower", message)
    assert "Cause: compute" in message


def test_the_schema_refuses_what_is_not_junit(failed):
    with pytest.raises(etree.DocumentInvalid):
        validate_junit(FORMATS["junit"](failed).replace("classname", "class"))


def test_openmetrics_is_parsed_by_prometheus(failed, passed):
    for report in (failed, passed):
        text = FORMATS["openmetrics"](report)
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert families["nodewise_run_seconds"].unit == "seconds"
        known = {(figure.metric, figure.nodes): figure for figure in report.figures}
        for name, metric in (("nodewise_run_seconds", "time"), ("nodewise_run_cost", "cost"),
                             ("nodewise_efficiency_ratio", "efficiency")):  # fmt: skip
            samples = families[name].samples
            assert samples
            for sample in samples:
                figure = known[metric, int(sample.labels["K"])]
                assert sample.value == pytest.approx(figure.value)
                assert sample.labels["workload"] == figure.workload
        low, high = (families[f"nodewise_run_{end}_seconds"].samples[0] for end in ("low", "high"))
        assert low.value < known["time", 1].value < high.value
    (state,) = families["nodewise_check_failed"].samples
    assert state.value == 0


def test_annotations_are_one_line_each_with_escapes(failed):
    lines = FORMATS["annotations"](failed).splitlines()
    assert lines[0].startswith("::error title=")
    assert all(re.fullmatch(r"::(error|warning|notice) title=[^:,]*::[^\n]+", one) for one in lines)
    assert not re.search(r"%(?!25|0A|0D|3A|2C)", "".join(lines))


def test_markdown_has_the_verdict_and_the_gates(failed):
    text = FORMATS["markdown"](failed)
    assert text.startswith("<!-- nodewise history -->\n### nodewise: solver\n\n**Failed: ")
    assert "| efficiency@8=0.1 | solver | 8 | met |" in text


def test_json_of_benchmark_action_and_bencher(failed):
    rows = json.loads(FORMATS["benchmark-action"](failed))
    assert {"name", "unit", "value"} <= rows[0].keys()
    assert rows[0]["name"] == "solver K=1"
    assert rows[0]["value"] == pytest.approx(11, rel=0.05)
    metrics = json.loads(FORMATS["bencher"](failed))
    latency = metrics["solver K=1"]["latency"]
    assert latency["lower_value"] < latency["value"] < latency["upper_value"]
    assert latency["value"] == pytest.approx(11e9, rel=0.05)
    assert set(metrics["solver K=8"]) == {"latency", "efficiency", "cost"}


def test_the_badge_has_an_interval_and_the_colour_of_the_verdict(failed, passed):
    for report, color in ((failed, "#c0271d"), (passed, "#087f5f")):
        text = FORMATS["badge"](report)
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        assert color in text or report.state == "in doubt"
        assert re.search(r"0\.\d+ \(0\.\d+.0\.\d+\)", text)
