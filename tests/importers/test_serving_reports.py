"""Reports of llm-d, inference-perf and SGLang: small files by hand, in the shape of each tool."""

import json

import pytest

from nodewise.base.errors import DataError
from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.fleet.latency import served
from nodewise.importers.serving.read import read_windows
from nodewise.study.service_objective import Objective
from nodewise.study.window import Summary
from tests.importers.test_serving import aiperf, guidellm, lines, vllm

SGLANG = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 20.0, "duration": 50.0,
    "completed": 1000, "total_input_tokens": 64_000, "total_output_tokens": 32_000,
    "total_output_tokens_retokenized": 16_500, "request_throughput": 20.0,
    "median_ttft_ms": 40.0, "p99_ttft_ms": 90.0, "median_tpot_ms": 5.0, "p99_tpot_ms": 9.0,
    "median_e2e_latency_ms": 400.0, "p99_e2e_latency_ms": 700.0,
}  # fmt: skip
INFERENCE_PERF = {
    "benchmark_time_seconds": 51.0,
    "load_summary": {
        "count": 1000, "send_duration": 50.0, "requested_rate": 20.0, "achieved_rate": 20.0,
        "schedule_delay": {"mean": 0.001, "median": 0.001, "p99": 0.003},
    },
    "successes": {
        "count": 998,
        "latency": {
            "request_latency": {"mean": 0.4, "median": 0.4, "p99": 0.7, "p99.9": 0.9, "max": 1.0},
            "time_to_first_token": {"mean": 0.04, "median": 0.04, "p99": 0.09},
            "time_per_output_token": {"median": 0.005, "p99": 0.009},
        },
        "throughput": {"requests_per_sec": 19.6},
        "prompt_len": {"mean": 64.0},
        "output_len": {"mean": 32.0},
    },
    "failures": {"count": 2},
}  # fmt: skip
LLMD = {
    "version": "0.2",
    "run": {"uid": "a", "time": {"duration": "PT1M40S"}},
    "scenario": {"load": {"standardized": {"tool": "inference-perf", "rate_qps": 10.0}}},
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {
                    "total": 1000, "failures": 3, "incomplete": 1,
                    "input_length": {"units": "count", "mean": 64.0},
                    "output_length": {"units": "count", "mean": 32.0},
                },
                "latency": {
                    "time_to_first_token": {"units": "ms", "mean": 40, "p99": 90, "p99p9": 95},
                    "time_per_output_token": {"units": "s/token", "mean": 0.005, "p99": 0.009},
                    "request_latency": {"units": "s", "mean": 0.4, "p50": 0.4, "max": 1.0},
                },
                "throughput": {"request_rate": {"units": "queries/s", "mean": 9.96}},
            }
        }
    },
}  # fmt: skip
LLMD_OLD = {
    "version": "0.1",
    "scenario": {"load": {"name": "vllm-benchmark"}},
    "metrics": {
        "time": {"duration": 100.0},
        "requests": {"total": 1000, "output_length": {"units": "count", "mean": 32.0}},
        "latency": {"time_to_first_token": {"units": "ms", "mean": 40.0, "p99": 90.0}},
        "throughput": {"requests_per_sec": 10.0},
    },
}
YAML = """\
version: '0.2'
run:
  uid: a
  time:
    start: 2025-11-05T18:00:42Z
    duration: PT1M40S
scenario:
  load:
    standardized:
      tool: inference-perf
      rate_qps: 10
      concurrency: .inf
results:
  request_performance:
    aggregate:
      requests:
        total: 1000
        failures: 0
        output_length:
          units: count
          mean: 32.5
      latency:
        time_to_first_token:
          units: s
          mean: 0.04
          p99: 0.09
          p99p9: 0.095
"""


@pytest.fixture
def read(tmp_path):
    def write_and_read(content, replicas=2) -> list:
        path = tmp_path / "result"
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return read_windows(path, replicas)

    return write_and_read


def test_an_llmd_report_is_read_as_json_and_as_yaml(read):
    [one] = read(LLMD)
    assert isinstance(one, Summary)
    assert (one.completed, one.failed, one.seconds, one.offered_per_second) == (996, 4, 100.0, 10.0)
    assert one.tool == "llm-d-benchmark (inference-perf)"
    assert (one.input_tokens, one.output_tokens) == (996 * 64, 996 * 32)
    assert one.ttft == pytest.approx({"0.99": 0.09, "0.999": 0.095})
    assert one.tpot == {"0.99": 0.009}
    assert one.latency == {"0.5": 0.4, "1": 1.0}
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    [one] = read(YAML)
    assert (one.completed, one.seconds, one.output_tokens) == (1000, 100.0, 32_500)
    assert one.ttft == pytest.approx({"0.99": 0.09, "0.999": 0.095})
    with pytest.raises(DataError, match="is not an llm-d benchmark report"):
        read(YAML + "  : [\n")


def test_an_llmd_report_of_the_first_version_and_one_without_a_length_are_read(read):
    [one] = read(LLMD_OLD)
    assert (one.completed, one.seconds, one.output_tokens) == (1000, 100.0, 32_000)
    assert one.ttft == pytest.approx({"0.99": 0.09})
    timeless = json.loads(json.dumps(LLMD)) | {"run": {"time": {}}}
    [one] = read(timeless)
    assert one.seconds == pytest.approx(100.0)  # by the rate of its answers


def test_an_inference_perf_stage_is_read_with_the_delay_of_its_client(read):
    [one] = read(INFERENCE_PERF)
    assert (one.completed, one.failed, one.offered_per_second) == (998, 2, 20.0)
    assert (one.input_tokens, one.output_tokens) == (998 * 64, 998 * 32)
    assert one.latency == {"0.5": 0.4, "0.99": 0.7, "0.999": 0.9, "1": 1.0}
    assert not served(one, Objective(ttft=0.2)).is_client_fault
    late = json.loads(json.dumps(INFERENCE_PERF))
    late["load_summary"]["schedule_delay"]["p99"] = 0.5
    [one] = read(late)
    assert served(one, Objective(ttft=0.2)).is_client_fault
    whole = json.loads(json.dumps(INFERENCE_PERF))
    whole["load_summary"] = {"count": 1000}
    [one] = read(whole)
    assert any("stage_N" in note for note in one.notes)


def test_sglang_runs_are_read_with_the_tokens_of_the_server(read):
    first, second = read(lines([SGLANG, SGLANG | {"request_rate": "trace"}]))
    assert (first.completed, first.offered_per_second) == (1000, 20.0)
    assert first.output_tokens == 32_000  # 16,500 when the client tokenises the text again
    assert first.ttft == pytest.approx({"0.5": 0.04, "0.99": 0.09})
    assert first.latency == pytest.approx({"0.5": 0.4, "0.99": 0.7})
    assert second.offered_per_second == 20.0
    details = {"ttfts": [0.1, 0.2, 0.0], "itls": [[0.1, 0.1], [0.3], []], "errors": ["", "", "x"]}
    [one] = read(lines([SGLANG | details | {"completed": 2}]))
    assert one.failed == 1
    assert one.ttft["0.5"] == 0.1 and one.ttft["1"] == 0.2
    assert one.latency["1"] == pytest.approx(0.5)


def test_an_sglang_run_at_its_default_rate_is_read(read):
    text = json.dumps(SGLANG | {"request_rate": float("inf")})
    assert "Infinity" in text
    [one] = read(f"{text}\n")
    assert one.offered_per_second == 20.0  # 1000 requests in 50 s


def test_aiperf_counts_tokens_as_the_server_does(read):
    usage = {
        "usage_prompt_tokens": {"value": 560, "unit": "tokens"},
        "usage_completion_tokens": {"value": 18, "unit": "tokens"},
    }
    records = [aiperf(number) for number in range(3)]
    for record in records:
        record["metrics"] |= usage
    [window] = read(lines(records))
    assert {(one.input_tokens, one.output_tokens) for one in window.requests} == {(560, 18)}
    figures = {
        "request_throughput": {"unit": "requests/sec", "avg": 10.0},
        "request_count": {"unit": "requests", "avg": 1000},
        "benchmark_duration": {"unit": "sec", "avg": 100.0},
        "output_sequence_length": {"unit": "tokens", "avg": 9.0},
        "total_osl": {"unit": "tokens", "avg": 9000},
    }
    [client] = read(figures)
    [each] = read(figures | {"usage_completion_tokens": {"unit": "tokens", "avg": 18.0}})
    [total] = read(figures | {"total_usage_completion_tokens": {"unit": "tokens", "avg": 18_100}})
    assert (client.output_tokens, each.output_tokens, total.output_tokens) == (9000, 18_000, 18_100)


def test_the_rate_that_was_sent_counts_where_it_is_above_the_nominal_one(read):
    [window] = read(guidellm(rate=8.0))  # its requests are 0.1 s apart
    assert window.offered_per_second == pytest.approx(10.0)
    note = "The tool was set to 8 requests/s and sent 10: the rate that was sent counts."
    assert window.notes == (note,)
    decision = decide_fleet("x", [window], FleetQuestion(objective=Objective(ttft=0.1)))
    assert note in decision.notes
    [summary] = read(guidellm(rate=8.0, kept=False))
    assert summary.offered_per_second == pytest.approx(10.0)
    [summary] = read(vllm(detailed=False) | {"request_rate": 5.0})
    assert summary.offered_per_second == pytest.approx(400 / 40.5)
    # a client that sent less is late: its check compares with the rate that was asked for
    [late] = read(guidellm(rate=20.0, kept=False))
    assert late.offered_per_second == 20.0
    assert served(late, Objective(ttft=0.1)).is_client_fault


def test_a_report_of_a_later_revision_with_comments_and_a_long_scenario_is_read(read):
    options = "".join(f"        --option-{number}: value\n" for number in range(2000))
    scenario = f"scenario:\n  stack:\n    - native:\n        args:\n{options}  load:\n"
    text = YAML.replace("version: '0.2'", "# a report\nversion: '0.2.1' # of the schema")
    [one] = read(text.replace("scenario:\n  load:\n", scenario))
    assert (one.completed, one.seconds, one.offered_per_second) == (1000, 100.0, 10.0)
