"""The benchmark report of llm-d that `fleet decide --llmd` writes."""

import json

import msgspec
import pytest

from nodewise.base.errors import DataError
from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.importers.serving.read import read_windows
from nodewise.report.benchmark_report import benchmark_report
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Window

OBJECTIVE = Objective(ttft=0.2, share=0.95)


def window(rate: float = 10.0, seconds: float = 40.0, slow: float = 0.0) -> Window:
    requests = tuple(
        Request(intended=at / rate, sent=at / rate + 0.001, first=at / rate + 0.05 + slow,
                last=at / rate + 0.25 + slow, input_tokens=30, output_tokens=21)
        for at in range(int(rate * seconds))
    )  # fmt: skip
    failed = Request(intended=seconds, sent=seconds, error="reset")
    return Window(
        replicas=2,
        offered_per_second=rate,
        seconds=seconds,
        requests=(*requests, failed),
        started="2026-11-19T21:00:00+00:00",
    )


def report(*windows: Window):
    decision = decide_fleet("x", windows, FleetQuestion(objective=OBJECTIVE))
    return benchmark_report(decision, windows)


def test_the_report_is_of_the_longest_window_at_the_rate_that_is_kept():
    found = report(window(), window(seconds=80.0), window(rate=40.0, slow=1.0))
    assert (found["version"], found["run"]["time"]["duration"]) == ("0.2", "PT80S")
    assert found["run"]["time"]["start"] == "2026-11-19T21:00:00+00:00"
    assert found["scenario"]["load"]["standardized"]["rate_qps"] == 10.0
    aggregate = found["results"]["request_performance"]["aggregate"]
    assert aggregate["requests"]["total"] == 801
    assert (aggregate["requests"]["failures"], aggregate["requests"]["incomplete"]) == (1, 0)
    latency = aggregate["latency"]
    assert latency["time_to_first_token"]["p99"] == pytest.approx(0.05)
    assert latency["time_per_output_token"]["units"] == "s/token"
    assert latency["time_per_output_token"]["mean"] == pytest.approx(0.01)
    assert latency["request_latency"]["max"] == pytest.approx(0.25)
    assert aggregate["throughput"]["output_token_rate"]["mean"] == pytest.approx(210.0)


def test_what_is_written_is_read_again(tmp_path, nodewise):
    path = tmp_path / "windows.jsonl"
    path.write_bytes(msgspec.json.encode(window()) + b"\n")
    written = tmp_path / "report.json"
    assert nodewise("fleet", "decide", path, "--ttft", "200ms", "--share", "0.95",
                    "--llmd", written).code == 0  # fmt: skip
    assert json.loads(written.read_text())["version"] == "0.2"
    [one] = read_windows(written, 2)
    assert (one.completed, one.failed, one.output_tokens) == (400, 1, 8400)
    assert one.tool == "llm-d-benchmark (nodewise)"
    assert one.offered_per_second == 10.0
    assert one.ttft["0.99"] == pytest.approx(0.05)


def test_without_a_chosen_fleet_there_is_nothing_to_report():
    with pytest.raises(DataError, match="nothing can be reported"):
        report(window(slow=1.0))
