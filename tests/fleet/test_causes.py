"""What servers say of themselves, and the limit that it names."""

import itertools
import time

import msgspec
import pytest

from nodewise.fleet.causes import break_causes, cause, parse_metrics, server_load
from nodewise.fleet.load import scraper as scraper_module
from nodewise.fleet.load.scraper import Scraper
from nodewise.fleet.load.sweep import sweep
from nodewise.report.page.fleet import _reasons
from nodewise.report.text.fleet import fleet_report
from nodewise.study.window import ServerLoad, Window
from tests.fleet.test_decide import SWEEP, decide
from tests.fleet.test_first_request import Script, serving, spec_of
from tests.jobs import wait_until

VLLM = """\
# HELP vllm:num_requests_waiting Number of requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a b}c"} 12.0
vllm:num_requests_waiting{engine="1",model_name="a"} 3.0
vllm:num_requests_running{engine="0"} 8.0
vllm:kv_cache_usage_perc{engine="0"} 0.42
vllm:kv_cache_usage_perc{engine="1"} 0.97
vllm:num_preemptions_total{engine="0"} 5.0
vllm:num_requests_waiting_by_reason{reason="x"} 99
python_gc_objects_collected_total 7
"""


def test_the_metrics_of_four_engines_are_read():
    assert parse_metrics(VLLM) == {
        "waiting": 15.0,
        "running": 8.0,
        "cache": 0.97,
        "preemptions": 5.0,
    }
    sglang = 'sglang:num_queue_reqs{m="x"} 4\nsglang:num_running_reqs 2\nsglang:token_usage 0.28\n'
    assert parse_metrics(sglang) == {"waiting": 4.0, "running": 2.0, "cache": 0.28}
    llama = "llamacpp:requests_deferred 46\nllamacpp:requests_processing 4 1700000000\n"
    assert parse_metrics(llama) == {"waiting": 46.0, "running": 4.0}
    triton = 'nv_inference_pending_request_count{model="a"} 3\n'
    assert parse_metrics(triton) == {"waiting": 3.0}


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "vllm:num_requests_waiting NaN", "vllm:num_requests_waiting -1", "{" * 99],
)
def test_what_is_not_a_metric_is_left_out(text):
    assert parse_metrics(text) == {}


def test_samples_of_several_servers_are_one_load():
    first = [{"waiting": 2.0, "cache": 0.3, "preemptions": 5.0}, {"waiting": 4.0, "cache": 0.5}]
    second = [{"waiting": 1.0, "preemptions": 9.0}, {"waiting": 1.0, "preemptions": 12.0}]
    assert server_load([first, second, []]) == ServerLoad(waiting=4.0, cache=0.5, preemptions=3)
    assert server_load([[], []]) is None


def test_absent_metrics_name_no_cause():
    assert cause(ServerLoad(running=3.0)) == ""
    assert cause(ServerLoad(waiting=0.1, running=3.0)).startswith("each request took longer")
    assert cause(ServerLoad(cache=0.95)) == "the KV cache was full (95 %)"


def test_a_cache_that_was_not_seen_full_is_not_called_full():
    assert cause(ServerLoad(cache=0.5, preemptions=14)) == (
        "the server preempted requests (14 preemptions; at most 50 % of the KV cache was seen in "
        "use)"
    )
    assert cause(ServerLoad(cache=0.95, preemptions=1)) == (
        "the KV cache was full (95 %, 1 preemption)"
    )
    assert cause(ServerLoad(preemptions=2)) == "the KV cache was full (2 preemptions)"


def test_the_decision_names_the_cause_at_the_rate_that_broke():
    load = ServerLoad(waiting=12.0, running=8.0, cache=0.97, preemptions=14)
    windows = [msgspec.structs.replace(one, server_load=load) for one in SWEEP]
    result = decide(windows, demand_per_second=8.0)
    broken = result.row(1).breaks_at
    line = f"r=1 breaks at {broken:.4g} requests/s: the KV cache was full (97 %, 14 preemptions)."
    assert line in result.causes
    assert line in fleet_report(result).answer
    assert line in _reasons(result)
    assert decide(demand_per_second=8.0).causes == ()
    assert break_causes(windows, {1: None, 7: 3.0}) == ()


def test_a_page_is_read_while_a_window_runs_and_its_absence_costs_nothing(monkeypatch):
    monkeypatch.setattr("nodewise.fleet.load.scraper._EVERY_SECONDS", 0.02)
    script = Script()
    waits = itertools.count(1)
    script.page = lambda: VLLM.replace("} 12.0", f"}} {next(waits)}.0").encode()
    with serving(script) as url:
        with Scraper([url], "/metrics", None) as scraper:
            time.sleep(0.3)
        load = scraper.load
        read = next(waits) - 1
        assert load is not None and load.waiting is not None and load.cache == 0.97
        assert read >= 2 and load.waiting == pytest.approx(3 + (1 + read) / 2)
        time.sleep(0.1)
        assert next(waits) == read + 2  # nothing is read after the end
        with Scraper([url], "", None) as scraper:
            pass
        assert scraper.load is None and scraper.problem == ""
        with Scraper([url], "/missing", None) as scraper:
            wait_until(lambda: "answers" in scraper.problem)
        assert scraper.load is None
        assert scraper.problem == "No metrics of the servers: /missing answers 404."
        script.page = lambda: b"other_metric 1\n"
        with Scraper([url], "/metrics", None) as scraper:
            wait_until(lambda: "has no metric that nodewise knows" in scraper.problem)
    with Scraper([url], "/metrics", None) as scraper:  # it is gone
        pass
    assert scraper.load is None


def test_a_server_that_does_not_answer_at_once_is_asked_again(monkeypatch):
    answers = itertools.chain([None], itertools.repeat(VLLM))
    monkeypatch.setattr(scraper_module, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(Scraper, "_page", lambda self, url: next(answers))
    with Scraper(["http://127.0.0.1:9"], "/metrics", None) as scraper:
        wait_until(lambda: scraper.load is not None)


def test_a_sweep_keeps_the_load_of_its_servers(tmp_path):
    script = Script()
    script.page = VLLM.encode
    with serving(script) as url:
        spec = spec_of(url, 'metrics = "/metrics"')
        made = sweep(spec, tmp_path, tmp_path, lambda *_: None)
    seen = [one for one in made if one.server_load is not None]
    assert seen  # on a busy machine, a page may not be answered within a window of 0.5 s
    assert msgspec.json.decode(msgspec.json.encode(seen[0]), type=Window) == seen[0]
