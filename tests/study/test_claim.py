"""Tables as people write them, and results of other tools, become claims."""

import json

import pytest
from benchmarks import fuzz_readers

from nodewise.base.errors import DataError
from nodewise.importers.benchmarks import mlperf
from nodewise.importers.benchmarks.results import read_reframe_log, runs_of_json
from nodewise.importers.tables.claims_tables import claims_of_text
from nodewise.importers.tables.reading import claims_of_cells

MARKDOWN = """
# Results
Weak scaling, mean of 5 runs.

| GPUs | Time (ms) | Speed-up | Efficiency (%) | Global batch |
|-----:|----------:|---------:|---------------:|-------------:|
| 1 | 1,200 ± 12 | 1.00x | 100 | 256 |
| **2** | 1250 ± 10 | 1.92x | 96 | 512 |
| 4* | 1300 | 3.69x | 92 | 1024 |
| mean | | 2.20x | | |

Not a scaling table:

| a | b |
|---|---|
| x | y |
"""

LATEX = r"""
\begin{table}
\caption{Strong scaling of the solver; 64* is extrapolated.}
\begin{tabular}{l|rr}  % no comment is read: & 1
\toprule
\textbf{\# Nodes} & $T$ [s] & Speedup \\ \midrule
1 & $412.0 \pm 2.1$ & \textbf{1.0}$\times$ \\
2 & 212.5 & 1.94$\times$ \\[2pt]
\multicolumn{1}{r}{4} & 110.2 & 3.74$\times$ \\ \bottomrule
\end{tabular}
\end{table}
"""


def test_markdown_with_units_marks_and_a_summary():
    (claim,) = claims_of_text(MARKDOWN, "slide", None)
    assert claim.name == "slide, table 1"
    assert claim.scales == (1, 2, 4)
    assert claim.regime == claim.shown_regime == "weak"
    assert claim.rows[0]["seconds"].value == pytest.approx(1.2)
    assert claim.rows[0]["seconds"].half == pytest.approx(0.0005)
    assert claim.rows[0]["std"].value == pytest.approx(0.012)
    assert claim.rows[1]["efficiency"].value == pytest.approx(0.96)
    assert claim.rows[2]["speedup"].value == 3.69
    assert claim.predicted == (4,)
    assert claim.summary[0]["speedup"].value == 2.2


def test_latex():
    (claim,) = claims_of_text(LATEX, "paper", None)
    assert claim.scales == (1, 2, 4)
    assert [row["seconds"].value for row in claim.rows] == [412.0, 212.5, 110.2]
    assert [row["speedup"].value for row in claim.rows] == [1.0, 1.94, 3.74]
    assert claim.regime == "strong"
    assert "extrapolated" in claim.text


def test_scales_along_the_top_are_laid_down():
    (claim,) = claims_of_text(
        "| GPUs | 1 | 2 | 4 |\n|--|--|--|--|\n| Speedup | 1 | 1.9 | 3.6 |\n", "x", None
    )
    assert [row["speedup"].value for row in claim.rows] == [1, 1.9, 3.6]
    assert not claim.has_seconds


def test_csv_of_several_curves_with_metrics():
    text = "curve_id,regime,metric,K,value\na,strong,time_s,1,10\na,strong,time_s,2,6\n"
    text += "b,weak,throughput,1,5\nb,weak,throughput,2,9\n"
    first, second = claims_of_text(text, "file", None)
    assert (first.name, second.name) == ("a", "b")
    assert first.study.at(2)[0].seconds == 6
    assert second.study.at(2)[0].seconds == pytest.approx(2 / 9)


def test_a_table_of_runs_keeps_its_stages_and_ranks():
    text = "K,rank,compute_s,comm_s\n1,0,10,0\n2,0,5,1\n2,1,4,2\n"
    (claim,) = claims_of_text(text, "runs", None)
    assert claim.source is not None and len(claim.source.at(2)[0].ranks) == 2


def test_work_that_changes_is_kept_for_the_rules_to_judge():
    (claim,) = claims_of_text("K,time_s,work\n1,10,100\n2,6,100\n4,3,80\n", "x", None)
    assert claim.shown_regime is None
    assert claim.by_scale("work") == {1: 100, 2: 100, 4: 80}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K,time_s\n",
        "a,b\n1,2\n",
        "K,colour\n1,red\n2,blue\n",
        "K,time_s\n1,10\n",
        "K,speedup\n1,0\n2,0\n",
        "| a |\n|--|\n| 1 |\n",
        r"\begin{tabular}{r} K \\ 1 \\ \end{tabular}",
    ],
)
def test_what_is_no_scaling_table_is_refused(text):
    with pytest.raises(DataError):
        claims_of_text(text, "x", None)


@pytest.mark.parametrize(
    ("title", "column"),
    [
        ("# GPUs", "nodes"),
        ("Number of nodes", "nodes"),
        ("T(K)", "seconds"),
        ("S(K)", "speedup"),
        ("Time to train (min)", "seconds"),
        ("images/sec", "throughput"),
        ("batch size", "batch"),
        ("Batch per GPU", "local_batch"),
        ("Throughput (tokens/s)", "throughput"),
        ("E", "efficiency"),
        ("Parallel efficiency [%]", "efficiency"),
        ("MPI ranks", "nodes"),
        ("Std. dev.", "std"),
        ("Top-1 accuracy", "quality"),
        ("runs", "rounds"),
        ("dtype", "precision"),
    ],
)
def test_titles_that_people_write(title, column):
    titles = [
        title,
        *(["K"] if column != "nodes" else []),
        *(["time"] if column != "seconds" else []),
    ]
    rows = [["1", *["1"] * (len(titles) - 1)], ["2", *["2"] * (len(titles) - 1)]]
    (claim,) = claims_of_cells("x", titles, rows)
    assert column in claim.columns


def test_hyperfine():
    text = json.dumps(
        {
            "results": [
                {
                    "command": "job 1",
                    "times": [10.0, 10.2],
                    "exit_codes": [0, 0],
                    "parameters": {"threads": "1"},
                },
                {
                    "command": "job 2",
                    "times": [5.4, 5.5],
                    "exit_codes": [0, 1],
                    "parameters": {"threads": "2"},
                },
            ]
        }
    )
    runs = runs_of_json(text, "x")
    assert [(run.nodes, run.round, run.seconds, run.outcome) for run in runs] == [
        (1, 0, 10.0, "ok"),
        (1, 1, 10.2, "ok"),
        (2, 0, 5.4, "ok"),
        (2, 1, 5.5, "crashed"),
    ]


def test_pyperf_leaves_warm_up_apart():
    text = json.dumps(
        {
            "version": "1.0",
            "metadata": {"hostname": "n1"},
            "benchmarks": [
                {
                    "metadata": {"name": f"fft_{k}"},
                    "runs": [
                        {
                            "metadata": {"date": "2026-08-01 10:00"},
                            "warmups": [[1, 0.5]],
                            "values": [1 / k, 1.1 / k],
                        },
                        {"values": [1.05 / k]},
                    ],
                }
                for k in (1, 2)
            ],
        }
    )
    runs = runs_of_json(text, "x")
    assert [run.nodes for run in runs] == [1, 1, 1, 2, 2, 2]
    assert runs[0].setup_seconds == 0.5 and runs[0].provenance["hostname"] == "n1"
    assert runs[0].started.startswith("2026")


@pytest.mark.parametrize(
    "performance",
    [
        {"perfvars": [{"name": "t", "unit": "s", "value": 12.5, "reference": 0}]},
        {"perfvalues": {"sys:part:t": [12.5, 0, None, None, "s"]}},
        {"time_run": 12.5},
    ],
)
def test_reframe_of_both_formats(performance):
    cases = [
        {
            "name": "solver",
            "result": "success",
            "system": "daint",
            "environment": "gnu",
            "check_vars": {"num_tasks": k},
            "nodelist": ["n1"],
            **performance,
        }
        for k in (1, 2)
    ]
    runs = runs_of_json(json.dumps({"session_info": {}, "runs": [{"testcases": cases}]}), "x")
    assert [(run.nodes, run.seconds) for run in runs] == [(1, 12.5), (2, 12.5)]
    assert runs[0].provenance == {"system": "daint", "environment": "gnu"}


def test_the_time_of_the_run_counts_in_reframe(tmp_path):
    """Not that of its set-up; and n may be the size of the problem."""
    path = tmp_path / "heat.log"
    path.write_bytes(fuzz_readers._REFRAME_LOG)
    runs = read_reframe_log(path, None)
    assert [(run.nodes, run.seconds, run.outcome) for run in runs] == [
        (8, 120.5, "ok"), (16, 63.1, "ok"), (32, 0.0, "crashed"),
    ]  # fmt: skip
    path.write_text("")
    with pytest.raises(DataError):
        read_reframe_log(path, None)


@pytest.mark.parametrize(
    "document", ["{}", "[1]", '{"results": [{"command": "x", "times": [1]}]}', "{"]
)
def test_a_result_without_a_scale_is_refused(document):
    with pytest.raises(DataError):
        runs_of_json(document, "x")


def test_mlperf_log_says_its_scale(tmp_path):
    def line(when, key, value=None, **metadata):
        event = {"namespace": "", "time_ms": when, "key": key, "value": value, "metadata": metadata}
        return f"0: :::MLLOG {json.dumps(event)}"

    log = tmp_path / "result_0.txt"
    log.write_text(
        "\n".join(
            [
                line(0, "submission_platform", "16xDGXA100"),
                line(0, "init_start"),
                line(5000, "run_start"),
                line(5000, "global_batch_size", 4096),
                line(60_000, "eval_accuracy", 0.76),
                line(65_000, "run_stop", status="success"),
            ]
        )
    )
    (run,) = mlperf.read(log, None)
    assert (run.nodes, run.seconds, run.quality, run.setup_seconds) == (16, 60.0, 0.76, 5.0)
    (run,) = mlperf.read(log, 128)
    assert run.nodes == 128
