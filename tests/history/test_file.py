"""The file of a history, on disk and on a branch; what other tools kept."""

import json
import subprocess

import msgspec
import pytest

from nodewise.base.errors import DataError
from nodewise.history import git
from nodewise.history.entry import in_regime
from nodewise.history.file import append, place_of, read
from nodewise.history.imports import read_history


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "missing"))  # no user name is configured
    (tmp_path / "code.py").write_text("1\n")
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "code.py"],
        ["-c", "user.name=n", "-c", "user.email=n@x", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], check=True)
    return tmp_path


def test_the_same_study_is_kept_once(tmp_path, usual):
    place = place_of(str(tmp_path))  # a folder
    assert append(place, usual[:2]) == usual[:2]
    assert append(place, usual[:3]) == usual[2:3]
    assert read(place) == usual[:3]
    assert (tmp_path / "history.jsonl").read_bytes().count(b"\n") == 3


def test_a_line_that_was_cut_off_is_not_used_and_not_continued(tmp_path, usual):
    place = place_of(str(tmp_path / "h.jsonl"))
    append(place, usual[:2])
    whole = place.path.read_bytes()
    place.path.write_bytes(whole[:-40])
    assert read(place) == usual[:1]
    append(place, usual[1:3])
    assert read(place) == usual[:3]


def test_what_could_not_be_read_back_is_refused(tmp_path, usual):
    place = place_of(str(tmp_path / "h.jsonl"))
    with pytest.raises(DataError, match="cannot be kept"):
        append(place, [msgspec.structs.replace(usual[0], workload="w" * 300)])
    assert read(place) == []


def test_a_damaged_line_is_named(tmp_path, usual):
    place = place_of(str(tmp_path / "h.jsonl"))
    append(place, usual[:2])
    place.path.write_bytes(place.path.read_bytes() + b'{"workload": 7}\n')
    with pytest.raises(DataError, match="Line 3"):
        read(place)


def test_studies_are_read_in_the_order_of_their_dates(tmp_path, usual):
    place = place_of(str(tmp_path))
    append(place, list(reversed(usual)))
    assert read(place) == usual


def test_a_branch_keeps_a_history_and_leaves_the_working_tree_alone(repository, usual):
    place = place_of("branch:results")
    assert read(place) == []
    append(place, usual[:2])
    append(place, usual[:3])
    assert read(place) == usual[:3]
    count = subprocess.run(
        ["git", "rev-list", "--count", "results"], capture_output=True, text=True
    )
    assert count.stdout.strip() == "2"
    left = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True)
    assert left.stdout == ""
    # a clone reads the branch as it was fetched, and continues it
    subprocess.run(["git", "clone", "-q", ".", "clone"], check=True)
    clone = place._replace(path=repository / "clone")
    assert read(clone) == usual[:3]
    append(clone, usual[3:4])
    assert read(clone) == usual[:4]


def test_a_branch_that_another_process_moves_loses_no_study(repository, usual, monkeypatch):
    place = place_of("branch:results")
    real, others = git.git, [usual[2:3], usual[1:2]]

    def crossed(*words, **more):
        if "update-ref" in words and others:
            append(place, others.pop())
        return real(*words, **more)

    monkeypatch.setattr(git, "git", crossed)
    append(place, usual[:1])  # while there is no branch yet
    assert others == []
    assert read(place) == usual[:3]


class TestImports:
    def test_a_table_of_runs(self, tmp_path):
        path = tmp_path / "runs.csv"
        path.write_text(
            "date,commit,K,seconds,test\n"
            "2026-01-01,aaa,1,10.0,fft\n2026-01-01,aaa,1,10.2,fft\n2026-01-01,aaa,4,3.0,fft\n"
            "2026-01-01,aaa,1,5.0,lu\n2026-02-01T10:00:00+02:00,bbb,4,,fft\n"
            "2026-02-01T10:00:00+02:00,bbb,1,11.0,fft\n"
        )
        first, lu, last = read_history(path)
        assert (first.workload, first.commit, first.nodes) == ("fft", "aaa", (1, 4))
        assert first.at(1).seconds == (10.0, 10.2)
        assert lu.workload == "lu"
        assert (last.date, last.nodes) == ("2026-02-01T08:00:00Z", (1,))

    @pytest.mark.parametrize(
        ("text", "what"),
        [("date,K\n2026-01-01,1\n", "no column seconds"),
         ("date,K,seconds\n2026-01-01,0,1\n", "line 2"),
         ("date,K,seconds\nyesterday,1,1\n", "not a date"),
         ("date,K,seconds\n", "holds no studies"),
         ('{"entries": 7}', "github-action-benchmark"),
         ('{"entries": {"a": [{"date": 1e20, "commit": {"id": "c"}, "benches": []}]}}',
          "github-action-benchmark")],
    )  # fmt: skip
    def test_what_cannot_be_read_is_named(self, tmp_path, text, what):
        path = tmp_path / "runs.csv"
        path.write_text(text)
        with pytest.raises(DataError, match=what):
            read_history(path)

    def test_data_of_github_action_benchmark(self, tmp_path):
        def session(number, seconds):
            benches = [{"name": f"fft K={nodes}", "value": seconds * 1e9 / nodes, "unit": "ns/iter"}
                       for nodes in (1, 8)]  # fmt: skip
            benches.append({"name": "memory", "value": 3, "unit": "MB"})
            return {"commit": {"id": f"c{number}"}, "date": 1_767_225_600_000 + number,
                    "tool": "customSmallerIsBetter", "benches": benches}  # fmt: skip

        data = {"entries": {"Benchmark": [session(0, 2.0), session(60_000, 3.0)]}}
        path = tmp_path / "data.js"
        path.write_text(f"window.BENCHMARK_DATA = {json.dumps(data)}")
        first, second = read_history(path)
        assert (first.workload, first.commit, first.date) == ("fft", "c0", "2026-01-01T00:00:00Z")
        assert [first.at(nodes).seconds for nodes in (1, 8)] == [(2.0,), (0.25,)]
        assert second.date == "2026-01-01T00:01:00Z"

    def test_sizes_in_names_are_not_scales(self, tmp_path):
        names = ("BM_Sort/16", "BM_Sort/1024", "encode_4096", "fft[gpus=8]", "fft[gpus=2]")
        benches = [{"name": name, "value": 2.0, "unit": "s"} for name in names]
        sessions = [{"commit": {"id": "c"}, "date": 1_767_225_600_000, "benches": benches}]
        path = tmp_path / "data.json"
        path.write_text(json.dumps({"entries": {"all": sessions}}))
        found = {
            one.workload: (one.nodes, len(one.scales[0].seconds)) for one in read_history(path)
        }
        assert found == {
            "BM_Sort/16": ((1,), 1), "BM_Sort/1024": ((1,), 1), "encode_4096": ((1,), 1),
            "fft": ((2, 8), 1),
        }  # fmt: skip

    def test_a_table_read_as_weak_scaling_is_another_study(self, tmp_path):
        path = tmp_path / "runs.csv"
        path.write_text("date,K,seconds\n2026-01-01,1,10\n")
        (entry,) = read_history(path)
        weak = in_regime(entry, "weak")
        place = place_of(str(tmp_path))
        assert append(place, [entry, weak]) == [entry, weak]
        assert append(place, [in_regime(weak, "strong")]) == []

    def test_a_folder_of_talp_pages(self, tmp_path):
        for commit, seconds, day in (("aaaa", 2e9, "2026-02-01"), ("bbbb", 3e9, "2026-02-02")):
            for ranks in (1, 4):
                region = {
                    "elapsedTime": seconds / ranks,
                    "usefulTime": 0.9 * seconds,
                    "mpiTime": 0.1 * seconds,
                    "numCpus": ranks,
                    "numMpiRanks": ranks,
                }
                folder = tmp_path / "npb" / "class_B"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"talp_{commit}_{ranks}.json").write_text(json.dumps({
                    "dlbVersion": "3.5", "timestamp": "2026-03-01T10:00:00",
                    "resources": {}, "Application": {"Global": region},
                    "metadata": {"gitCommit": commit, "gitTimestamp": f"{day}T00:00:00"},
                }))  # fmt: skip
        first, second = read_history(tmp_path)
        assert (first.workload, first.commit, first.nodes) == ("npb/class_B", "aaaa", (1, 4))
        assert first.date == "2026-02-01T00:00:00Z"
        assert second.at(4).seconds == (0.75,)
        assert second.at(4).parts["compute"] == pytest.approx(0.675)

    def test_a_folder_of_reframe_reports(self, tmp_path):
        for day, seconds in ((1, 8.0), (2, 9.0)):
            cases = [{"name": "stream", "display_name": f"stream %num_tasks={tasks}",
                      "num_tasks": tasks, "result": "pass", "system": "daint", "environment": "gnu",
                      "perfvars": [{"name": "t", "value": seconds / tasks, "unit": "s"}]}
                     for tasks in (1, 2)]  # fmt: skip
            report = {"session_info": {"time_start": f"2026-03-0{day}T10:00:00+0000"},
                      "runs": [{"testcases": cases}]}  # fmt: skip
            (tmp_path / f"run-report-{day}.json").write_text(json.dumps(report))
        first, second = read_history(tmp_path)
        assert (first.workload, first.machine, first.nodes) == ("stream", "daint:gnu", (1, 2))
        assert (second.date, second.at(2).seconds) == ("2026-03-02T10:00:00Z", (4.5,))
