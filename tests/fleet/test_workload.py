"""What requests ask: prompts of files, lengths, shared prefixes, sessions, mixes and traces."""

import json
import statistics
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError, SpecError
from nodewise.fleet.load.arrivals import poisson
from nodewise.fleet.load.prompts import read_prompts
from nodewise.fleet.load.requests import bodies, load_of
from nodewise.fleet.load.traces import Recorded, read_trace
from nodewise.fleet.load.workload import asks, read_material
from nodewise.fleet.spec import FleetSpec, parse_fleet

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:47.6805900,396,109
2023-11-16 18:15:50.1805900,879,55
2023-11-16 18:15:51.0000000,0,7
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.509930+00:00,2399,6
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
120,GPT-4,300,0,300,API log
"""
BURSTGPT_3 = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens
5.5,1,2.1,ChatGPT,472,18
6.5,1,2.1,ChatGPT,500,20
"""
MOONCAKE = """{"timestamp": 0, "input_length": 600, "output_length": 52, "hash_ids": [1, 2]}
{"timestamp": 3000, "input_length": 1100, "output_length": 26, "hash_ids": [1, 2, 3]}
{"timestamp": 4500, "input_length": 600, "output_length": 500, "hash_ids": [7, 8]}
"""
SHARE_GPT = [
    {"id": "a", "conversations": [
        {"from": "human", "value": "first question"}, {"from": "gpt", "value": "one two three"},
        {"from": "human", "value": "second question"}, {"from": "gpt", "value": "four"}]},
    {"id": "b", "conversations": [{"from": "gpt", "value": "an answer without a question"}]},
]  # fmt: skip


def spec_of(request: str = "", load: str = "", more: str = "") -> FleetSpec:
    return parse_fleet(
        'name = "x"\nreplicas = [1]\nserver.endpoints = ["http://127.0.0.1:1"]\n'
        f"objective.ttft = 1\n{more}\n[load]\n{load}\n[request]\n{request}"
    )


def steady(count: int, gap: float = 0.1) -> list[float]:
    return [gap * at for at in range(count)]


def words_of(text: str) -> int:
    return len(text.split())


# ---- traces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AZURE, [(0.0, 374, 44), (1.0, 396, 109), (3.5, 879, 55)]),
        (AZURE_2024, [(0.0, 2162, 5), (0.5, 2399, 6)]),
        (BURSTGPT, [(0.0, 472, 18), (40.0, 1087, 230), (113.0, 417, 276)]),
        (BURSTGPT_3, [(0.0, 472, 18), (1.0, 500, 20)]),
        (MOONCAKE, [(0.0, 600, 52), (3.0, 1100, 26), (4.5, 600, 500)]),
        ("2.5\n0.5 later\n", [(0.0, None, None), (2.0, None, None)]),
        ("arrival,tokens\n2.5,3\n0.5,1\n", [(0.0, None, None), (2.0, None, None)]),
    ],
)
def test_traces_are_read_with_their_lengths_and_without_failed_requests(text, expected):
    found = read_trace(text, "x")
    seen = [(one.seconds - found[0].seconds, one.input_tokens, one.output_tokens) for one in found]
    assert [row[1:] for row in seen] == [row[1:] for row in expected]
    assert [row[0] for row in seen] == pytest.approx([row[0] for row in expected], abs=1e-5)


@pytest.mark.parametrize("text", ["nothing\n", "", "1\n", "1\n1\n", "{\n{\n", AZURE[:40]])
def test_a_file_without_arrival_times_is_named(text):
    with pytest.raises(DataError, match=r"x\.csv holds no arrival times"):
        read_trace(text, "x.csv")


HUGE = 10**12


@pytest.mark.parametrize(
    "text",
    [
        f"timestamp,input_tokens,output_tokens\n0,{HUGE},5\n1,9,8\n2,9,1e300\n3,7,6\n",
        f'{{"timestamp": 0, "input_length": {HUGE}, "output_length": 5}}\n'
        '{"timestamp": 1000, "input_length": 9, "output_length": 8}\n'
        '{"timestamp": 3000, "input_length": 7, "output_length": 6}\n',
    ],
)
def test_lengths_that_cannot_be_are_left_out_of_a_trace(text):
    """Their words would fill the memory."""
    assert [row[1:3] for row in read_trace(text, "x")] == [(9, 8), (7, 6)]


def test_a_window_replays_times_and_lengths_of_a_trace_at_its_own_rate(tmp_path):
    (tmp_path / "t.csv").write_text(AZURE)
    spec = spec_of('api = "chat"', 'arrivals = "trace"\ntrace = "t.csv"\nwarmup_seconds = 2')
    load = load_of(spec, ["http://127.0.0.1:1"], 1.0, 3.0, "s", read_material(spec, tmp_path))
    timed = [moment for moment in load.times if moment >= 0]
    assert timed == pytest.approx([0.0, 3 / 5.25, 3 * 3.5 / 5.25])  # the shape, in 3 seconds
    sent = [msgspec.json.decode(body) for body in load.bodies[-3:]]
    assert [words_of(one["messages"][0]["content"]) for one in sent] == [374, 396, 879]
    assert [one["max_tokens"] for one in sent] == [44, 109, 55]


def test_blocks_of_a_mooncake_trace_share_their_text_within_a_window_only(tmp_path):
    (tmp_path / "m.jsonl").write_text(MOONCAKE)
    spec = spec_of("", 'arrivals = "trace"\ntrace = "m.jsonl"')
    material = read_material(spec, tmp_path)
    one, two, other = (ask.messages[0][1].split() for ask in asks(spec, steady(3), "a", material))
    assert [len(one), len(two), len(other)] == [600, 1100, 600]
    assert one == two[:600] != other
    again = asks(spec, steady(3), "b", material)[0].messages[0][1].split()
    assert again != one
    twice = asks(spec, steady(4), "a", material)[3].messages[0][1].split()
    assert twice != one  # replayed from its start, it is new to the server's cache


# ---- prompts


def test_prompts_of_jsonl_are_sent_as_they_are_before_any_is_sent_again(tmp_path):
    lines = [
        '"only text"',
        '{"prompt": "with a length", "output_tokens": 7}',
        '{"messages": [{"role": "system", "content": "be brief"},'
        ' {"role": "user", "content": "say \\"hi\\""}], "max_tokens": 9}',
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n")
    spec = spec_of('api = "chat"\nprompts = "p.jsonl"\noutput_tokens = [3, 3]')
    found = asks(spec, steady(6), "s", read_material(spec, tmp_path))
    counts = Counter((ask.messages, ask.output_tokens) for ask in found)
    assert counts == {
        ((("user", "only text"),), 3): 2,
        ((("user", "with a length"),), 7): 2,
        ((("system", "be brief"), ("user", 'say "hi"')), 9): 2,
    }
    body = """'{"inputs": "{prompt}", "n": {output_tokens}}'"""
    own = spec_of(f'api = "json"\npath = "/x"\nprompts = "p.jsonl"\nbody = {body}')
    made = bodies(own, steady(3), "s", read_material(own, tmp_path))
    assert 'be brief\nsay "hi"' in {json.loads(one)["inputs"] for one in made}


def test_a_conversation_of_sharegpt_is_its_first_question_or_a_session(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SHARE_GPT))
    alone = spec_of('prompts = "s.json"')
    found = asks(alone, steady(2), "s", read_material(alone, tmp_path))
    assert {ask.messages for ask in found} == {(("user", "first question"),)}
    assert {ask.output_tokens for ask in found} == {4}  # as long as the recorded answer
    session = spec_of('prompts = "s.json"\nturns = [2, 2]\nturn_seconds = [0.35, 0.35]')
    found = asks(session, steady(40), "s", read_material(session, tmp_path))
    longest = max(found, key=lambda ask: len(ask.messages))
    assert longest.messages == (
        ("user", "first question"), ("assistant", "one two three"), ("user", "second question"),
    )  # fmt: skip
    assert {len(ask.messages) for ask in found} == {1, 3}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"prompts": "x"}', "[1, 2]", '{"prompt": 3}',
                                  f'{{"prompt": "x", "output_tokens": {HUGE}}}',
                                  '{"prompt": "x", "max_tokens": -1}'])  # fmt: skip
def test_a_file_that_holds_no_prompts_is_named(text, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=r"p\.jsonl is not a file of prompts"):
        read_prompts(path)
    with pytest.raises(DataError, match="Cannot read the prompts"):
        read_prompts(tmp_path / "absent")


# ---- lengths, prefixes, sessions, mixes


def test_log_normal_lengths_have_their_median_and_their_90th_percentile():
    spec = spec_of("output_tokens = {median = 100, p90 = 400, most = 2000}")
    drawn = [ask.output_tokens for ask in asks(spec, steady(4000), "s")]
    assert statistics.median(drawn) == pytest.approx(100, rel=0.1)
    assert statistics.quantiles(drawn, n=10)[-1] == pytest.approx(400, rel=0.15)
    assert min(drawn) >= 1 and max(drawn) <= 2000


def test_shared_prefixes_are_the_same_in_every_window():
    spec = spec_of('api = "chat"\nshared_prefixes = {count = 3, words = 50}')
    first, second = (asks(spec, steady(100), seed) for seed in "ab")
    system = {ask.messages[0] for ask in first}
    assert len(system) == 3 and system == {ask.messages[0] for ask in second}
    assert all(role == "system" and words_of(text) == 50 for role, text in system)
    assert len({ask.messages[1] for ask in first + second}) == 200


@given(
    turns=st.integers(1, 6), pause=st.floats(0.5, 5.0), rate=st.floats(2.0, 30.0),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_sessions_continue_what_was_said_and_keep_the_rate_of_the_window(turns, pause, rate, seed):
    spec = spec_of(f"turns = [{turns}, {turns}]\nturn_seconds = [{pause}, {pause}]")
    times = poisson(round(40 * rate), 40.0, str(seed))
    found = asks(spec, times, "s")
    assert len(found) == len(times)  # no request more and none less than planned
    said: dict[tuple, float] = {}
    for ask, moment in zip(found, times, strict=True):
        before = ask.messages[:-2]
        if before and before in said:
            assert moment >= said[before] + pause - 1e-9
        said[ask.messages] = moment
    assert max(len(ask.messages) for ask in found) == 2 * turns - 1


def test_turns_that_are_due_at_once_go_on_in_the_order_of_their_sessions():
    spec = spec_of("turns = [3, 3]\nturn_seconds = [5.0, 5.0]", 'arrivals = "bursts"')
    found = asks(spec, [5.0 * burst for burst in range(10) for _ in range(8)], "s")
    asked = [ask.messages for ask in found]
    late = [messages for messages in asked[24:] if len(messages) > 1]
    assert late and all(messages[:-2] in asked for messages in late)


def test_sessions_are_under_way_from_the_beginning():
    """Otherwise all prompts of the first seconds would be short."""
    spec = spec_of("turns = [4, 4]\nturn_seconds = [4.0, 8.0]")
    times = poisson(6000, 60.0, "x")
    turn = [(len(ask.messages) + 1) / 2 for ask in asks(spec, times, "s")]
    parts = [statistics.mean(turn[at : at + 1000]) for at in range(0, 6000, 1000)]
    assert all(part == pytest.approx(2.5, abs=0.25) for part in parts)


def test_a_mix_has_its_weights(tmp_path):
    (tmp_path / "p.jsonl").write_text('"summarise this"\n')
    mix = """
[[request.mix]]
weight = 3
prompt_words = [5, 5]
output_tokens = [1, 1]
[[request.mix]]
prompts = "p.jsonl"
output_tokens = [2, 2]
"""
    spec = spec_of(mix)
    found = asks(spec, steady(2000), "s", read_material(spec, tmp_path))
    counts = Counter(ask.output_tokens for ask in found)
    assert counts[1] == pytest.approx(1500, rel=0.08)
    assert {ask.messages[0][1] for ask in found if ask.output_tokens == 2} == {"summarise this"}
    with pytest.raises(SpecError, match="outside of the mix"):
        spec_of("output_tokens = [1, 2]\n" + mix)


@pytest.mark.parametrize("asked", ["turns = [2, 1]", "prompt_words = {median = 9, p90 = 3}"])
def test_bounds_in_the_wrong_order_are_refused(asked):
    with pytest.raises(SpecError, match=r"request\..*above"):
        spec_of(asked)


def test_the_same_seed_asks_the_same():
    spec = spec_of("turns = [1, 3]\nshared_prefixes = {words = 5}")
    assert asks(spec, steady(50), "a") == asks(spec, steady(50), "a") != asks(spec, steady(50), "b")
    assert Recorded(1.0).blocks == ()
