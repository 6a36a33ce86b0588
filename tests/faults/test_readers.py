"""Every reader with damaged inputs (benchmarks/fuzz.py), and the inputs that once were crashes."""

import json

import pytest
from benchmarks.fuzz import ASK_EVERY, Trial, bounded, fuzz
from benchmarks.fuzz_readers import readers

READERS = readers()

_DEEP = b"[" * 5000
_DIGITS = b"9" * 5000
_LONG_CELL = b'"' + b"x" * 200_000
_RUNS = b'{"K":1,"round":0,"seconds":1e300}\n{"K":2,"round":0,"seconds":1}\n'
_K_OF_19_DIGITS = json.dumps(
    {"results": [{"command": f"job_{k}", "times": [1.0]} for k in (1, 9223372036854775809)]}
).encode()


def _sample(name: str, old: bytes, new: bytes) -> bytes:
    text = READERS[name].samples[0]
    assert old in text
    return text.replace(old, new, 1)


def _without_a_rank() -> bytes:
    """A study of which one round at K=2 has one rank."""
    runs = [json.loads(line) for line in READERS["runs.jsonl"].samples[0].splitlines()]
    next(run for run in runs if run["K"] == 2)["ranks"].pop()
    return b"".join(json.dumps(run).encode() + b"\n" for run in runs)


def _torn_bundle() -> bytes:
    text = bytearray(READERS["bundle"].samples[0])
    text[60:64] = b"\xff\xff\xff\xff"
    return bytes(text)


FOUND = [
    ("other history", b"date,K,seconds\n" + _LONG_CELL),
    ("other history", _sample("other history", b"2026-03-02", b"2026\r03-02")),
    ("other history", b'{"entries": ' + _DEEP),
    ("history of ReFrame", _sample("history of ReFrame", b'"testcases": [', b'"testcases": [3, ')),
    (
        "history of ReFrame",
        _sample("history of ReFrame", b'{"time_start": "2026-03-01T10:00:00+0100"}', b'"x"'),
    ),
    ("centre", b"[[centre]]\nyear = " + _DEEP),
    ("centre", b"[[centre]]\nyear = " + _DIGITS),
    ("question", b"deadline = " + b"9" * 400),
    ("question", b"quality = 3"),
    ("study spec", b"a = " + _DEEP),
    ("study spec", b"rounds = " + _DIGITS),
    ("fleet spec", b"a = " + _DEEP),
    ("fleet spec", b"rounds = " + _DIGITS),
    ("job", b"a = " + _DEEP),
    ("job", _sample("job", b"layers = 48", b"layers = " + b"9" * 400)),
    ("cluster", b"devices_per_node = " + _DIGITS),
    ("move", _sample("move", b"latency_seconds = 0", b"latency_seconds = 1e999")),
    ("move", _sample("move", b"efficiency = 1.0", b"efficiency = 5e-324")),
    ("own prices", b"price = " + _DEEP),
    ("own prices", b"price = " + _DIGITS),
    ("owned node", b"capital = " + _DEEP),
    ("owned node", b"capital = " + _DIGITS),
    ("owned node", _sample("owned node", b"busy_watts = 8500", b"busy_watts = 1.7e308")),
    ("skypilot", b"InstanceType,Region,Price\n" + _LONG_CELL),
    ("skypilot", b"Price,InstanceType,Region\n2,p3.2xlarge\n"),
    ("skypilot", _sample("skypilot", b"1.5,", b"1e308,")),
    ("aws", b'{"products": {}, "terms": {}, "publicationDate": "\xff", "priceDimensions": 1}'),
    ("azure", b'{"Items": [], "x": ' + _DEEP),
    ("azure", _sample("azure", b"3.6", b"5e-324")),
    ("spot trace", b"seconds,state\n" + _LONG_CELL),
    ("spot trace", b'{"x": ' + _DEEP),
    ("runs.jsonl", b'{"x": ' + _DEEP + b"\n"),
    ("runs.jsonl", _RUNS),
    ("runs.jsonl", _without_a_rank()),
    ("runs.jsonl", _RUNS.replace(b"1e300", b"0")),
    ("page", _sample("page", b'"name":"', b'"name":"\xff')),
    ("page", _sample("page", b'"name":', b'"x":' + _DEEP + b',"name":')),
    ("page", READERS["page"].samples[0][:60] * 20_000),
    ("claims", b"\\begin{tabular}\n" * 60_000),
    ("claims", b"| nodes | speedup |\n|--|--|\n| 1 | 1 |\n| 2 | e2 |\n| 4 | 3 |\n"),
    ("claims", b"| nodes | speedup |\n|--|--|\n| 1 | 1 |\n| 2 | 0e999 |\n| 4 | 3 |\n"),
    ("bundle", _torn_bundle()),
    ("results", b'{"benchmarks": [{"metadata": [1]}]}'),
    ("results", b'{"results": [{"command": "job_1", "times": 5}]}'),
    ("results", b'{"runs": [{"testcases": [{"check_vars": 5}]}]}'),
    ("results", b'{"runs": [{}]}'),
    ("results", _K_OF_19_DIGITS),
    ("codecarbon", b"project_name\n" + _LONG_CELL),
    ("zeus", b"window_name\n" + _LONG_CELL),
    ("spark", _sample("spark", b'"Total Cores": 2', b'"Total Cores": 0.5')),
    ("guidellm", b'{"benchmarks": [[]]}'),
    ("aiperf", b'{"metadata": 1, "metrics": 2}'),
    ("vegeta", b'{"seq": 1, "latency": 2}'),
    ("vllm", _sample("vllm", b'"failed": 1', b'"failed": 1e15')),
    ("summaries", _sample("summaries", b"0.99", b"nan")),
    ("summaries", _sample("summaries", b'"seconds":9.0', b'"seconds":0')),
    ("windows.jsonl", b'{"x": ' + _DEEP + b"\n"),
    ("arrivals", b"1\n" * 30 + b"2\n"),
    ("rank report", b"{"),
    ("rank report", _sample("rank report", b'"comm_calls": 3', b'"comm_calls": 99')),
    *(
        ("mpi report", _sample("mpi report", old, old[:-1] + b"9" * 400))
        for old in (b'"collectives_seen": 2', b'"messages_seen": 1', b'"calls": 3', b'"size": 2')
    ),
    ("machine", b'{"identity": {"\xff": 1}}'),
    ("answers", b'data: {"error": ' + _DEEP + b"\n\n"),
    ("slurm step", b"0 17"),
    ("slurm job", b"47x"),
    ("slurm task", b"0 node1 1 2 x 0"),
]


@pytest.mark.parametrize("name", READERS)
def test_damaged_inputs_are_read_or_refused(name):
    trial = fuzz(READERS[name], 25, seed=f"{name} test")
    assert not trial.faults, trial.faults[0]
    assert trial.told["inputs"] == 25


@pytest.mark.parametrize(("name", "text"), FOUND, ids=[name for name, _ in FOUND])
def test_what_was_found_stays_mended(name, text, tmp_path):
    trial = Trial(READERS[name]._replace(samples=[]), tmp_path)
    trial.told["read"] = ASK_EVERY - 1  # so that what is read is asked too
    with bounded():
        trial.put(text)
    assert not trial.faults, trial.faults[0].report


def test_times_that_are_no_numbers_do_not_arrive():
    from nodewise.fleet.load.traces import read_trace

    found = read_trace("nan\n2\ninf\n1\n-inf\n", "x.csv")
    assert [one.seconds for one in found] == [1.0, 2.0]


def test_a_fault_is_found_and_told(tmp_path):
    """The fuzzer itself: what is neither read nor refused is counted, with its place."""
    trial = fuzz(READERS["zeus"]._replace(read=lambda path: json.loads(path.read_bytes())[0],
                                          samples=[b"[1]"]), 50)  # fmt: skip
    assert 0 < len(trial.faults) <= 50
    assert any(fault.kind.startswith("JSONDecodeError") for fault in trial.faults)
