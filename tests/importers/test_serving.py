"""Load tests of other tools: small files by hand, in the shape that each tool writes."""

import json

import msgspec
import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.fleet.latency import served
from nodewise.importers.serving.read import read_windows
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Summary, Window

START = 1_759_813_207.0


@pytest.fixture
def read(tmp_path):
    def write_and_read(content, replicas=2):
        path = tmp_path / "result.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return read_windows(path, replicas)

    return write_and_read


def lines(records) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def test_our_own_windows_come_back(read):
    window = Window(
        replicas=3,
        offered_per_second=2.0,
        seconds=1.0,
        requests=(Request(intended=0.0, sent=0.1, first=0.2, last=0.3, output_tokens=5),) * 2,
    )
    summary = Summary(replicas=1, offered_per_second=2.0, seconds=1.0, completed=2)
    text = "".join(msgspec.json.encode(one).decode() + "\n" for one in (window, summary))
    assert read(text, None) == [window, summary]


def test_our_own_windows_from_before_deaths_were_counted_know_them(read):
    request = Request(intended=0.0, sent=0.1, error="no connection")
    died = ("Replica 1 of 2 ended: exit code 13.",)
    window = Window(
        replicas=2, offered_per_second=2.0, seconds=1.0, requests=(request,), notes=died
    )
    [known] = read(msgspec.json.encode(window).decode() + "\n", None)
    assert known == msgspec.structs.replace(window, died=1)


def guidellm(rate=10.0, kept=True):
    def request(at: float, late: float) -> dict:
        return {
            "info": {
                "timings": {
                    "targeted_start": START + at,
                    "request_start": START + at + late,
                    "first_token_iteration": START + at + late + 0.05,
                    "request_end": START + at + late + 0.25,
                }
            },
            "prompt_tokens": 64,
            "output_tokens": 21,
        }

    summary = {"percentiles": {"p50": 50.0, "p99": 80.0, "p999": 90.0}, "max": 95.0}
    benchmark = {
        "config": {"strategy": {"type_": "poisson", "rate": rate}},
        "scheduler_metrics": {
            "measure_start_time": START + 0.05,
            "measure_end_time": START + 100.0,
        },
        "duration": 100.0,
        "metrics": {
            "request_totals": {"successful": 4, "errored": 1, "incomplete": 0, "total": 5},
            "time_to_first_token_ms": {"successful": summary},
            "output_token_count": {"successful": {"total_sum": 84.0}},
        },
        "requests": {
            # the first of them belongs to the warm-up
            "successful": [request(at, 0.002) for at in (0.0, 0.1, 0.2, 0.3, 0.5)],
            "errored": [request(0.4, 0.002)],
            "incomplete": [],
        },
    }
    if not kept:
        benchmark["metrics"]["request_totals"] |= {"successful": 999, "total": 1000}
    return {"metadata": {}, "benchmarks": [benchmark]}


def test_guidellm_counts_from_the_target_and_leaves_out_the_warm_up(read):
    [window] = read(guidellm())
    assert isinstance(window, Window)
    assert (window.replicas, window.offered_per_second, window.tool) == (2, 10.0, "GuideLLM")
    assert window.from_intended
    assert [one.intended for one in window.requests] == pytest.approx(
        [0.0, 0.1, 0.2, 0.3, 0.4], abs=1e-6
    )
    assert window.requests[0].first == pytest.approx(0.052, abs=1e-5)
    assert [bool(one.error) for one in window.requests] == [False, False, False, True, False]
    assert served(window, Objective(ttft=0.1)).tpot[0].seconds == pytest.approx(0.01, rel=1e-3)


def test_guidellm_with_a_sample_of_its_requests_is_a_summary(read):
    [summary] = read(guidellm(kept=False))
    assert isinstance(summary, Summary)
    assert summary.ttft == pytest.approx({"0.5": 0.05, "0.99": 0.08, "0.999": 0.09, "1": 0.095})
    assert (summary.completed, summary.failed) == (999, 1)
    assert summary.output_tokens == 84


def aiperf(number: int, error=None, phase="profiling"):
    start = int(START * 1e9) + number * 100_000_000
    return {
        "metadata": {
            "session_num": number,
            "credit_issued_ns": start - 3_000_000,
            "request_start_ns": start,
            "request_end_ns": start + 300_000_000,
            "benchmark_phase": phase,
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": 60.0, "unit": "ms"},
            "request_latency": {"value": 300.0, "unit": "ms"},
            "input_sequence_length": {"value": 550, "unit": "tokens"},
            "output_sequence_length": {"value": 9, "unit": "tokens"},
        },
        "error": error,
    }


def test_aiperf_records_count_from_the_credit(read):
    records = [aiperf(0, phase="warmup"), *(aiperf(number) for number in (1, 2, 3))]
    records.append(aiperf(4, error={"code": 499, "type": "RequestCancellationError"}))
    [window] = read(lines(records))
    assert isinstance(window, Window)
    assert (len(window.requests), window.from_intended) == (4, True)
    one = window.requests[1]
    assert one.sent - one.intended == pytest.approx(0.003, abs=1e-6)
    assert one.first - one.sent == pytest.approx(0.06, abs=1e-6)
    assert (one.input_tokens, one.output_tokens) == (550, 9)
    assert window.requests[-1].error == "RequestCancellationError"


def test_aiperf_figures(read):
    [summary] = read(
        {
            "schema_version": "1.4",
            "request_throughput": {"unit": "requests/sec", "avg": 10.0},
            "request_count": {"unit": "requests", "avg": 1000},
            "error_request_count": {"unit": "requests", "avg": 2},
            "benchmark_duration": {"unit": "sec", "avg": 100.2},
            "time_to_first_token": {"unit": "ms", "avg": 60.0, "p50": 55.0, "p99": 90.0},
            "inter_token_latency": {"unit": "ms", "avg": 5.0, "p99": 8.0},
            "request_latency": {"unit": "ms", "p99": 400.0},
            "effective_latency": {"unit": "ms", "p99": 500.0},
            "credit_to_start_latency": {"unit": "ms", "p99": 100.0},
            "total_osl": {"unit": "tokens", "avg": 9000},
        }
    )
    assert isinstance(summary, Summary)
    assert (summary.completed, summary.failed, summary.output_tokens) == (1000, 2, 9000)
    assert summary.ttft["0.99"] == pytest.approx(0.09)
    assert summary.latency["0.99"] == pytest.approx(0.5)  # from the schedule, not the sending
    # the client was late by more than the limit allows: no evidence
    assert served(summary, Objective(ttft=0.2)).is_client_fault


def vllm(detailed=True):
    result = {
        "date": "20260101-000000",
        "request_rate": 10.0,
        "duration": 40.5,
        "completed": 399,
        "failed": 1,
        "total_input_tokens": 12800,
        "total_output_tokens": 8000,
        "request_throughput": 9.9,
        "median_ttft_ms": 50.0,
        "p99_ttft_ms": 80.0,
        "p99_e2el_ms": 300.0,
    }
    if detailed:
        result |= {
            "input_lens": [32] * 400,
            "output_lens": [21] * 400,
            "ttfts": [0.05] * 400,
            "itls": [[0.01] * 19 + [0.02]] * 400,
            "start_times": [500.0 + at / 10 for at in range(400)],
            "errors": [""] * 399 + ["timed out"],
        }
    return result


def test_vllm_with_details_is_a_window(read):
    [window] = read(vllm())
    assert isinstance(window, Window)
    assert window.seconds == pytest.approx(40.0)
    one = window.requests[10]
    assert one.last - one.sent == pytest.approx(0.05 + 0.21)
    assert one.longest_gap == 0.02
    assert window.requests[-1].error == "timed out"
    result = served(window, Objective(ttft=0.1, share=0.95))
    assert result.verdict == "met"
    unknown = [check.rule for check in result.checks if check.verdict == "unknown"]
    assert "start of latencies" in unknown


def test_vllm_without_details_is_a_summary(read):
    [summary] = read(vllm(detailed=False))
    assert isinstance(summary, Summary)
    assert summary.ttft == pytest.approx({"0.5": 0.05, "0.99": 0.08})
    assert summary.latency == pytest.approx({"0.99": 0.3})
    assert (summary.failed, summary.offered_per_second) == (1, 10.0)


def k6(flat: bool, dropped: int = 0):
    metrics = {
        "http_reqs": {"count": 1000, "rate": 10.0},
        "http_req_failed": {"value" if flat else "rate": 0.002, "passes": 2, "fails": 998},
        "http_req_duration": {"avg": 90.0, "med": 80.0, "max": 180.0, "p(90)": 100.0},
        "http_req_waiting": {"med": 40.0, "max": 90.0, "p(90)": 50.0},
        **({"dropped_iterations": {"count": dropped, "rate": 1.0}} if dropped else {}),
    }
    if flat:
        return {"metrics": metrics}
    return {"metrics": {name: {"values": values} for name, values in metrics.items()}}


@pytest.mark.parametrize("flat", [True, False])
def test_k6_in_both_shapes(read, flat):
    [summary] = read(k6(flat))
    assert isinstance(summary, Summary)
    assert (summary.completed, summary.failed, summary.seconds) == (998, 2, pytest.approx(100.0))
    assert summary.latency == pytest.approx({"0.5": 0.08, "1": 0.18, "0.9": 0.1})
    assert served(summary, Objective(latency=0.2)).verdict == "met"


def test_a_load_test_may_have_any_number_of_requests(read):
    many = k6(True)
    many["metrics"]["http_reqs"] = {"count": 24_000_000, "rate": 10_000.0}
    many["metrics"]["http_req_failed"] = {"value": 0.5, "passes": 12_000_000, "fails": 12_000_000}
    [summary] = read(many)
    assert (summary.completed, summary.failed) == (12_000_000, 12_000_000)


def test_iterations_that_k6_dropped_void_the_window(read):
    [summary] = read(k6(True, dropped=100))
    result = served(summary, Objective(latency=0.2))
    assert (result.verdict, result.is_client_fault) == ("void", True)
    assert "dropped 100" in summary.notes[0]


def test_vegeta_report_and_results(read):
    [summary] = read(
        {
            "latencies": {"mean": 1, "50th": 10_000_000, "99th": 40_000_000, "max": 98_000_000},
            "requests": 3000,
            "rate": 100.0,
            "throughput": 99.6,
            "success": 0.999,
        }
    )
    assert isinstance(summary, Summary)
    assert (summary.completed, summary.failed) == (2997, 3)
    assert summary.latency == pytest.approx({"0.5": 0.01, "0.99": 0.04, "1": 0.098})
    [window] = read(
        lines(
            {
                "attack": "",
                "seq": at,
                "code": 200 if at else 503,
                "timestamp": f"2025-03-15T14:30:0{at}.123456789Z",
                "latency": 12_345_678,
                "error": "",
            }
            for at in range(3)
        )
    )
    assert isinstance(window, Window)
    assert [one.error for one in window.requests] == ["status 503", "", ""]
    one = window.requests[2]
    assert one.intended == pytest.approx(2.0, abs=1e-6)
    assert one.last - one.sent == pytest.approx(0.012345678, abs=1e-6)


def test_results_of_two_tools_end_in_one_decision(read):
    windows = [*read(vllm(), 1), *read(guidellm(kept=False), 2)]
    question = FleetQuestion(objective=Objective(ttft=0.1, share=0.95))
    result = decide_fleet("imported", windows, question)
    assert [row.replicas for row in result.rows if row.rate_per_second] == [1, 2]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "no known format"),
        ("[]", "no known format"),
        ('{"a": 1}', "no known format"),
        ('{"latencies": {}, "rate": 1}', "lacks what its format requires"),
        ('{"benchmarks": []}', "has no finished request"),
        ('{"offered_per_second": "x"}', "not a window"),
        ("", "no known format"),
    ],
)
def test_other_files_are_refused_in_two_lines(read, content, what):
    with pytest.raises(DataError, match=what):
        read(content)


def test_the_number_of_replicas_must_be_said(read):
    for said in (None, 0):
        with pytest.raises(SpecError, match="does not give the number of replicas"):
            read(vllm(), said)


def test_our_own_windows_say_their_replicas_themselves(read):
    own = Summary(replicas=1, offered_per_second=2.0, seconds=1.0, completed=2)
    with pytest.raises(SpecError, match="gives its number of replicas itself"):
        read(msgspec.json.encode(own).decode(), 3)
