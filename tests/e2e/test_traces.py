"""`nodewise trace` and `nodewise import`, as a user calls them."""

import subprocess
import sys

import pytest

from nodewise.study import store
from tests.explain.test_trace import job_events, write_trace


@pytest.fixture
def traces(tmp_path):
    """A folder for K=2 and one for K=4; at K=4 rank 2 is late."""
    for nodes, late in ((2, [0, 0]), (4, [0, 0, 150, 0])):
        folder = tmp_path / f"traces{nodes}"
        folder.mkdir()
        for rank, late_us in enumerate(late):
            info = {"rank": rank, "world_size": nodes}
            write_trace(
                folder / f"host_{rank}.json.gz", job_events(5, late_us), "kineto",
                distributedInfo=info,
            )  # fmt: skip
    return tmp_path


def test_the_breakdown_of_a_job(nodewise, traces):
    found = nodewise("trace", traces / "traces4", "--json")
    assert found.code == 0, found.err
    job = found.json
    keys = {"file", "rank", "window_us", "compute_us", "exposed_comm_us", "exposed_copy_us",
            "idle_us", "comm_us", "overlap_us", "error"}  # fmt: skip
    assert all(keys <= set(rank) for rank in job["ranks"])
    assert job["collectives"]["count"] == 5
    assert job["collectives"]["transfer_us"] == 5 * 4 * 50
    assert job["collectives"]["wait_us"] == 5 * 3 * 150
    assert job["late_ranks"] == [{"rank": 2, "times_last": 5, "waited_for_us": 5 * 3 * 150}]
    pop = job["pop"]
    product = pop["load_balance"] * pop["serialisation"] * pop["transfer"]
    assert pop["parallel_efficiency"] == pytest.approx(product)
    text = nodewise("trace", traces / "traces4").out
    assert "Latest rank: rank 2, last in 5 of 5 collectives" in text


def test_the_three_windows(nodewise, traces):
    windows = {}
    for window in ("all", "hta", "common"):
        job = nodewise("trace", traces / "traces2", "--window", window, "--json").json
        windows[window] = job["ranks"][0]["window_us"]
    assert windows == {"all": 4640.0, "hta": 3640.0, "common": 4640.0}


def test_processes_give_the_same_as_one(nodewise, traces):
    one = nodewise("trace", traces / "traces4", "--json", "--jobs", 1)
    several = nodewise("trace", traces / "traces4", "--json", "--jobs", 3)
    assert one.json == several.json


def test_parts_of_a_job_are_merged(nodewise, traces, tmp_path):
    folder = traces / "traces4"
    files = [folder / f"host_{rank}.json.gz" for rank in range(4)]
    for name, some in (("a", files[:1]), ("b", files[1:])):
        assert nodewise("trace", *some, "--part", tmp_path / f"{name}.digests").code == 0
    merged = nodewise("trace", tmp_path / "a.digests", tmp_path / "b.digests", "--json")
    assert merged.json == nodewise("trace", *files, "--json").json
    other = nodewise("trace", tmp_path / "a.digests", "--window", "hta")
    assert other.code == 2 and "--window all" in other.err
    pattern = ("--collective-kernels", "multimem")
    assert nodewise("trace", *files[1:], *pattern, "--part", tmp_path / "c.digests").code == 0
    for said in ((), pattern):
        mixed = nodewise("trace", tmp_path / "a.digests", tmp_path / "c.digests", *said)
        assert mixed.code == 2 and "read them again with one pattern" in mixed.err
    assert "a.digests" in mixed.err
    assert nodewise("trace", tmp_path / "c.digests", *pattern).code == 0
    (tmp_path / "a.digests").write_bytes((tmp_path / "a.digests").read_bytes()[:200])
    damaged = nodewise("trace", tmp_path / "a.digests", tmp_path / "b.digests", "--json").json
    assert [rank["used"] for rank in damaged["ranks"]] == [False, True, True, True]
    assert "damaged" in damaged["ranks"][0]["error"]


def test_an_engine_that_is_none(nodewise, traces):
    refused = nodewise("trace", traces / "traces2", "--engine", "foo://x")
    assert refused.code == 2 and "not a cluster" in refused.err


def test_a_broken_file_is_skipped_refused_or_used_as_asked(nodewise, traces):
    folder = traces / "traces4"
    raw = (folder / "host_1.json.gz").read_bytes()
    (folder / "host_1.json.gz").write_bytes(raw[: len(raw) * 2 // 3])
    skipped = nodewise("trace", folder, "--json")
    assert skipped.code == 0
    errors = {rank["rank"]: (rank["error"], rank["used"]) for rank in skipped.json["ranks"]}
    assert errors[0] == (None, True)
    broken = next(rank for rank in skipped.json["ranks"] if rank["error"])
    assert "cut off" in broken["error"] and not broken["used"]
    assert "host_1.json.gz" in nodewise("trace", folder).out
    refused = nodewise("trace", folder, "--broken", "refuse")
    assert refused.code == 4
    assert "host_1.json.gz" in refused.err and "fix:" in refused.err
    used = nodewise("trace", folder, "--broken", "use", "--json").json
    assert all(rank["used"] for rank in used["ranks"])
    assert any(rank["error"] for rank in used["ranks"])


def test_foreign_files_beside_traces(nodewise, traces):
    folder = traces / "traces2"
    (folder / "notes.json").write_text('{"a": 1}')
    (folder / "readme.txt").write_text("hello")
    job = nodewise("trace", folder, "--json").json
    assert [rank["used"] for rank in job["ranks"]] == [True, True, False]
    assert "no traceEvents" in job["ranks"][2]["error"]
    alone = nodewise("trace", folder / "notes.json")
    assert alone.code == 4 and "no known format" in alone.err
    assert nodewise("trace", folder / "nothing.json").code == 4
    empty = folder / "empty"
    empty.mkdir()
    assert nodewise("trace", empty).code == 4
    assert nodewise("trace", folder, "--collective-kernels", "(").code == 2


def test_a_study_from_traces(nodewise, traces):
    target = traces / "made.study"
    sources = [f"2={traces / 'traces2'}", f"4={traces / 'traces4'}"]
    made = nodewise("import", "kineto", *sources, "-o", target, "--json")
    assert made.code == 0, made.err
    scales = [(scale["K"], scale["runs"], scale["ranks"]) for scale in made.json["scales"]]
    assert scales == [(2, 4, 2), (4, 4, 4)]
    study = store.load(target)
    assert study.at(4)[0].ranks[0].stages["idle"] == pytest.approx(150e-6)
    ledger = nodewise("attribute", target, "--json")
    assert ledger.code == 0, ledger.err
    assert ledger.json["rows"][-1]["late_rank"] == 2
    assert ledger.json["evidence"] == "stages of each rank"
    assert nodewise("decide", target, "--price", 3).code == 0
    again = nodewise("import", "kineto", *sources, "-o", target)
    assert again.code == 2 and "already holds runs" in again.err
    table = traces / "made.csv"
    assert nodewise("import", "kineto", *sources, "-o", table).code == 0
    same = nodewise("attribute", table, "--json").json
    assert same["dominant_cause"] == ledger.json["dominant_cause"]


def test_a_rank_that_is_missing_is_named(nodewise, tmp_path):
    folder = tmp_path / "traces40"
    folder.mkdir()
    for rank in set(range(40)) - {17}:
        info = {"rank": rank, "world_size": 40}
        write_trace(folder / f"{rank}.json", job_events(), "kineto", distributedInfo=info)
    job = nodewise("trace", folder, "--json").json
    assert job["missing_ranks"] == [17]
    refused = nodewise("import", "kineto", f"40={folder}", "-o", tmp_path / "a.study")
    assert refused.code == 4 and "no trace of rank 17" in refused.err
    accepted = (
        "import",
        "kineto",
        f"40={folder}",
        "-o",
        tmp_path / "b.study",
        "--missing",
        "accept",
    )
    assert nodewise(*accepted).code == 0


@pytest.mark.parametrize("scale", ["0", "99999999", "²", "x"])
def test_a_scale_that_is_none_is_two_lines(nodewise, tmp_path, scale):
    table = tmp_path / "table.csv"
    table.write_text("K,time_s\n1,10\n2,6\n")
    for command in (("import", "csv"), ("audit",)):
        outcome = nodewise(*command, f"{scale}={table}")
        assert (outcome.code in (2, 4), len(outcome.err.splitlines())) == (True, 2)


def test_a_rank_told_twice_counts_once(nodewise, traces):
    copy = traces / "traces2" / "copy.json.gz"
    copy.write_bytes((traces / "traces2" / "host_0.json.gz").read_bytes())
    job = nodewise("trace", traces / "traces2", "--json").json
    assert [rank["used"] for rank in job["ranks"]].count(True) == 2
    assert any("rank 0 is also in" in (rank["error"] or "") for rank in job["ranks"])


def test_links_from_outputs_of_tests(nodewise, tmp_path):
    path = tmp_path / "osu.txt"
    path.write_text("# OSU MPI Latency Test\n# Size Latency (us)\n8 2.0\n1048576 102.0\n")
    link = nodewise("import", "osu", path, "--json").json[0]
    assert link["alpha_us"] == pytest.approx(2, rel=1e-3)
    assert "alpha 1.999 us" in nodewise("import", "osu", path).out
    assert nodewise("import", "kineto", "0=x").code == 2


@pytest.mark.slow
def test_memory_stays_flat(tmp_path):
    """Twenty times the text takes hardly more memory."""
    peaks = []
    for name, steps in (("small", 300), ("large", 6_000)):
        noise = [
            {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 0, "tid": 1, "ts": 1, "dur": 1,
             "args": {"Input Dims": [[1, 2, 3]] * 9}}
        ] * 30  # fmt: skip
        events = job_events(steps)
        mixed = [one for event in events[::8] for one in (*noise, event)]
        path = write_trace(tmp_path / f"{name}.json.gz", [*events, *mixed])
        script = (
            "import sys; from nodewise.cli.main import main\n"
            "try: main()\n"
            "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], "
            "file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, "trace", str(path), "--json", "--jobs", "1"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(int(done.stderr.split()[-1]) / 1024)
    assert peaks[1] < 150
    assert peaks[1] - peaks[0] < 60
