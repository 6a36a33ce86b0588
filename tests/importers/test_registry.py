"""Every format is detected by its content, by one detector; commands read what they can."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from benchmarks import fuzz_readers, log_samples

from nodewise.base.errors import DataError, SpecError
from nodewise.importers import registry
from nodewise.importers.head import Head
from nodewise.study import store
from nodewise.study.window import Summary
from tests.conftest import DATA, GOLDEN
from tests.importers import test_serving_reports as reports

FUZZED = fuzz_readers.readers()
_HYPERFINE, _PYPERF, _REFRAME = fuzz_readers._results()
_NCCL, _OSU, _OSU_RATE = fuzz_readers._links()
_AIPERF, _AIPERF_SUMMARY = fuzz_readers._aiperf()
_VEGETA_REPORT, _VEGETA = fuzz_readers._vegeta()
_WINDOW = Summary(replicas=3, offered_per_second=9.0, seconds=9.0, completed=81)
SAMPLES: dict[str, list[bytes]] = {
    **log_samples.samples(),
    "digests": FUZZED["digests"].samples,
    "nsys": fuzz_readers._nsys(),
    "kineto": [*fuzz_readers._kineto(), *(p.read_bytes() for p in DATA.rglob("rank*.json"))],
    "operations": fuzz_readers._operations(),
    "talp": fuzz_readers._talp(),
    "ray": fuzz_readers._ray(),
    "dask": fuzz_readers._dask(),
    "spark": fuzz_readers._spark(),
    "extra-p": fuzz_readers._extrap(),
    "caliper": fuzz_readers._caliper(),
    "mlperf": [*fuzz_readers._mlperf(), *fuzz_readers._logs()],
    "hyperfine": [_HYPERFINE],
    "pyperf": [_PYPERF],
    "reframe": [_REFRAME],
    "reframe-log": [fuzz_readers._REFRAME_LOG],
    "jube": [fuzz_readers._JUBE],
    "codecarbon": [path.read_bytes() for path in (DATA / "energy").glob("*.csv")],
    "zeus": [fuzz_readers._ZEUS],
    "nccl-tests": [_NCCL, (DATA / "traces" / "nccl.txt").read_bytes()],
    "osu": [_OSU, _OSU_RATE],
    "windows": [fuzz_readers._windows(), msgspec.json.encode(_WINDOW)],
    "guidellm": fuzz_readers._guidellm(),
    "aiperf": [_AIPERF],
    "aiperf-summary": [_AIPERF_SUMMARY],
    "vllm": fuzz_readers._vllm(),
    "sglang": [json.dumps(reports.SGLANG).encode()],
    "inference-perf": [json.dumps(reports.INFERENCE_PERF, indent=1).encode()],
    "llmd": [
        json.dumps(reports.LLMD).encode(), json.dumps(reports.LLMD_OLD).encode(),
        reports.YAML.encode(),
    ],
    "k6": fuzz_readers._k6(),
    "vegeta": [_VEGETA],
    "vegeta-report": [_VEGETA_REPORT],
    "markdown": [fuzz_readers._MARKDOWN, (GOLDEN / "vendor-claim.md").read_bytes()],
    "latex": [fuzz_readers._LATEX],
    "csv": [
        *fuzz_readers._csv(), b"K time_s\n1 8\n2 4.5\n", b"nodes;seconds\n1;8\n2;5\n",
        b'"K","time_s"\n1,8\n2,5\n',
        *(path.read_bytes() for path in (*GOLDEN.glob("*.csv"), *DATA.glob("*.csv"))),
    ],
}  # fmt: skip
CASES = [(name, sample) for name, samples in SAMPLES.items() for sample in samples]


def test_every_format_has_samples():
    assert set(SAMPLES) == set(registry.NAMES)
    assert all(SAMPLES.values())


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_a_sample_is_detected_by_one_detector(tmp_path, name, sample):
    path = tmp_path / "input"  # nothing in its name helps
    packed = sample if sample[:2] == b"\x1f\x8b" else gzip.compress(sample)
    for content in (sample, packed):
        path.write_bytes(content)
        head = Head(path)
        assert [one.name for one in registry.FORMATS if one.detect(head)] == [name]


@pytest.mark.parametrize("name", registry.NAMES)
def test_a_reader_exists(name):
    assert callable(registry.by_name(name).read)


@pytest.mark.parametrize(
    ("name", "long"),
    [
        ("talp", {"Application": {f"region {at}": {"elapsedTime": at} for at in range(10**6)}}),
        ("vllm", {"request_throughput": 9.9, "duration": 4, "itls": [[0.25] * 9] * 400_000}),
    ],
)
def test_a_document_beyond_what_is_parsed_whole_is_detected(tmp_path, name, long):
    path = tmp_path / "long.json"
    path.write_text(json.dumps(long))
    assert path.stat().st_size > 2**24
    assert registry.detect(path).name == name


UNKNOWN = [b"", b"\0" * 99, b"hello world\nthis is nothing\n", b'{"a": 1}', b"[1, 2]", b"[" * 9999,
           b"{", b'name = "a"\nscales = [1, 2]\n', b"2026-01-01 10:00:00,5 INFO a\n" * 2,
           b"\x1f\x8bbroken"]  # fmt: skip


@pytest.mark.parametrize("content", UNKNOWN)
def test_an_unknown_file_is_two_lines_that_list_the_formats(tmp_path, nodewise, content):
    path = tmp_path / "input"
    path.write_bytes(content)
    assert registry.detect(path) is None
    for command in (["import"], ["trace"], ["audit"], ["decide"], ["fleet", "decide"]):
        refused = nodewise(*command, path)
        assert refused.code == 4, refused.err
        what, fix = refused.err.splitlines()
        assert "no known format" in what
        assert all(name in fix for name in registry.NAMES)


def write(folder: Path, name: str, at: int = 0, as_name: str = "input") -> Path:
    path = folder / as_name
    path.write_bytes(SAMPLES[name][at])
    return path


LOAD = [one.name for one in registry.FORMATS if one.gives == "load"]
LINKS = [one.name for one in registry.FORMATS if one.gives == "link"]


@pytest.mark.parametrize("name", [*LOAD, *LINKS])
def test_a_file_that_cannot_answer_names_the_command_that_reads_it(tmp_path, nodewise, name):
    path = write(tmp_path, name)
    right = "nodewise fleet decide" if name in LOAD else "nodewise import"
    for command in ("import", "trace", "audit", "decide"):
        if command == "import" and name in LINKS:
            continue
        refused = nodewise(command, path)
        assert refused.code == 4
        what, fix = refused.err.splitlines()
        assert registry.by_name(name).title in what
        assert right in fix


@pytest.mark.parametrize("name", sorted(set(registry.NAMES) - set(LOAD)))
def test_fleet_decide_names_the_command_of_what_is_no_load_test(tmp_path, nodewise, name):
    refused = nodewise("fleet", "decide", f"2={write(tmp_path, name)}")
    assert refused.code == 4
    assert "not a load test" in refused.err and "nodewise" in refused.err.splitlines()[1]


@pytest.mark.parametrize("name", [name for name in LOAD if name != "windows"])
def test_fleet_decide_reads_every_load_test(tmp_path, nodewise, name):
    path = write(tmp_path, name)
    refused = nodewise("fleet", "decide", path)
    assert refused.code == 2 and "K=PATH" in refused.err
    assert nodewise("fleet", "decide", f"2={path}", "--latency", "9s").code in (0, 1)


RUNS = [one.name for one in registry.FORMATS if one.gives in ("runs", "table")]
NEED_SCALE = ("mlperf", "codecarbon", "zeus")


@pytest.mark.parametrize("name", RUNS)
def test_import_detects_and_a_named_format_gives_the_same(tmp_path, nodewise, name):
    path = write(tmp_path, name)
    source = f"2={path}" if name in NEED_SCALE else path
    made = []
    for at, words in enumerate(([source], ["--format", name, source], [name, source])):
        output = tmp_path / f"{at}" / "made.study"
        outcome = nodewise("import", *words, "-o", output)
        assert outcome.code == 0, outcome.err
        made.append(store.load(output))
    assert made[0].runs and made[0].runs == made[1].runs == made[2].runs
    if name in NEED_SCALE:
        refused = nodewise("import", path, "-o", tmp_path / "x.study")
        assert refused.code == 2 and "Write K=PATH, for example 8=" in refused.err


def test_a_study_from_files_that_give_their_scale(tmp_path, nodewise):
    document = json.loads(SAMPLES["talp"][0])
    for nodes in (2, 4):
        region = document["Application"]["Global"]
        region |= {"numMpiRanks": nodes, "numCpus": nodes, "elapsedTime": 2 * 10**10 // nodes}
        (tmp_path / f"talp{nodes}.json").write_text(json.dumps(document))
    files = sorted(tmp_path.glob("*.json"))
    table = tmp_path / "talp.csv"
    made = nodewise("import", *files, "-o", table, "--json")
    assert [(one["K"], one["seconds"]) for one in made.json["scales"]] == [(2, 10.0), (4, 5.0)]
    assert nodewise("decide", table).code == 0
    (tmp_path / "readme.txt").write_text("hello")
    table.unlink()
    folder = nodewise("import", tmp_path, "-o", tmp_path / "talp.study")
    assert folder.code == 0 and "Left out" in folder.err and "readme.txt" in folder.err
    again = nodewise("import", tmp_path / "talp.study")
    assert again.code == 4 and "is a study folder" in again.err
    assert nodewise("audit", *files).code in (0, 1)


def test_ranks_named_one_by_one_are_one_job(tmp_path, nodewise):
    ranks = sorted((DATA / "traces" / "k2").glob("*.json"))
    job = nodewise("import", *ranks, "-o", tmp_path / "a.study", "--json").json
    assert [(one["K"], one["ranks"]) for one in job["scales"]] == [(2, 2)]
    scales = [f"2={DATA / 'traces' / 'k2'}", DATA / "traces" / "k4"]
    both = nodewise("import", *scales, "-o", tmp_path / "b.study", "--json").json
    assert [(one["K"], one["ranks"]) for one in both["scales"]] == [(2, 2), (4, 4)]


@pytest.mark.parametrize("name", ["talp", "ray", "dask", "spark", "caliper"])
def test_trace_shows_the_stages_of_other_formats(tmp_path, nodewise, name):
    path = write(tmp_path, name)
    [run] = nodewise("trace", path, "--json").json
    assert run.get("stages") or run["ranks"]
    text = nodewise("trace", path)
    assert text.code == 0 and "% compute" in text.out


def test_trace_of_runs_without_stages_is_refused(tmp_path, nodewise):
    refused = nodewise("trace", write(tmp_path, "extra-p"))
    assert refused.code == 4
    assert "Extra-P measurements, not a trace" in refused.err and "nodewise import" in refused.err


@pytest.mark.parametrize(
    "name", ["extra-p", "hyperfine", "pyperf", "reframe", "reframe-log", "jube", "latex", "csv"]
)
def test_decide_reads_files_of_several_scales(tmp_path, nodewise, name):
    decided = nodewise("decide", write(tmp_path, name), "--json")
    assert decided.code == 0, decided.err
    assert len(decided.json["rows"]) > 1


def test_ratios_alone_are_audited_and_not_decided(tmp_path, nodewise):
    path = tmp_path / "slide.md"
    path.write_text("| GPUs | Speedup |\n|--|--|\n| 1 | 1 |\n| 2 | 1.9 |\n| 4 | 3.7 |\n")
    refused = nodewise("decide", path)
    assert refused.code == 4
    assert "ratios and no times" in refused.err and "nodewise audit" in refused.err
    assert nodewise("audit", path).code in (0, 1)


def test_files_of_two_formats_in_a_folder_are_refused(tmp_path):
    for name in ("talp", "spark"):
        write(tmp_path, name, as_name=name)
    with pytest.raises(DataError, match="several formats: spark, talp"):
        registry.open_file(tmp_path)
    with pytest.raises(SpecError, match="'exe' is not a format"):
        registry.by_name("exe")


def test_a_scale_that_is_given_counts_over_a_number_in_a_name(tmp_path):
    one = {"results": [{"command": "job 1", "times": [3.0]}]}
    path = tmp_path / "fine.json"
    path.write_text(json.dumps(one))
    read = registry.by_name("hyperfine").read
    assert [run.nodes for run in read(path, 4)] == [4]
    assert [run.nodes for run in read(path, None)] == [1]
    path.write_bytes(_HYPERFINE)
    assert {run.nodes for run in read(path, 2)} == {2}
    with pytest.raises(DataError, match="no runs at K=16"):
        read(path, 16)
