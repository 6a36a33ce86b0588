"""By default a command prints its answer on one screen; -v, -vv and --only print the rest."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.fleet.load import windows as fleet_windows
from nodewise.report.sections import Section, everything, output, shortened
from nodewise.report.tables import rows_table
from nodewise.report.terminal import LINES, WIDTH, show
from nodewise.study import store
from nodewise.study.check import Check
from nodewise.study.spec import Spec, Workload
from nodewise.study.spec_text import spec_text
from nodewise.study.study import Run
from tests.conftest import DATA, GOLDEN
from tests.fleet.test_decide import SWEEP

TRACES = DATA / "traces"
STEP, BREAKDOWN = GOLDEN / "step-times.csv", GOLDEN / "breakdown.csv"
TEN = "K,rep,time_s\n" + "".join(
    f"{k},{rep},{(1000 / k + 8 + 0.4 * k) * (1 + 0.01 * rep)}\n"
    for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    for rep in range(7)
)
# Faster than ideal, never repeated, slower at the end: rules fail and warn.
BAD = "K,speedup,efficiency,time_s\n1,1,1,100\n2,2.6,1.3,45\n4,5.2,1.3,30\n8,11,1.4,90\n"
ROOFLINE = ("roofline", "--peak-flops", "20T", "--memory-bandwidth", "800GB/s", "--flops", "6T",
            "--bytes", "120GB", "--net-bytes", "4GB", "--net-bandwidth", "25GB/s")  # fmt: skip
MEMORY = ("diagnose", "--propose", "fsdp", "--parameters", "13e9", "--device-memory", "80GB")
# Arguments, one of the sections, and words that only -v prints; {here} is the folder of the inputs.
COMMANDS: dict[str, tuple[tuple[object, ...], str, str]] = {
    "decide": (("decide", BREAKDOWN, "--price", "3.20"), "payment", "on-demand"),
    "decide with work": (("decide", GOLDEN / "rubric.csv", "--work", "1200000"), "cost", "work/$"),
    "decide a law": (
        ("decide", "--law", "s=0.03,c=0.0015", "--price", "2.10", "--fixed", "9"),
        "sensitivity", "+-20 %",
    ),
    "decide ten scales": (
        ("decide", "{here}/ten.csv", "--price", "2", "--deadline", "2min"), "laws", "Amdahl",
    ),
    "decide a folder": (("decide", "{here}/tiny.study"), "claim", "strong scaling)"),
    "decide an invalid table": (
        ("decide", "{here}/invalid.study", "--regime", "weak"), "checks", "Fix: ",
    ),
    "decide bad figures": (("decide", "{here}/bad.csv", "--price", "1"), "checks", "Fix: "),
    "scale": (("scale", STEP), "laws", "Amdahl"),
    "scale ten scales": (("scale", "{here}/ten.csv"), "scaling", "Karp-Flatt"),
    "attribute": (("attribute", GOLDEN / "ddp-step.csv"), "losses", "evidence: "),
    "attribute totals": (("attribute", STEP), "losses", "evidence: "),
    "attribute ten scales": (("attribute", "{here}/ten.csv"), "losses", "evidence: "),
    "predict": (("predict", STEP, "--price", "2"), "laws", "amdahl"),
    "predict ten scales": (
        ("predict", "{here}/ten.csv", "--price", "2"), "forecast", "95 % interval",
    ),
    "next": (("next", "{here}/ten.csv", "--price", "2"), "answer", ""),
    "audit": (("audit", GOLDEN / "vendor-claim.md"), "questions", "  4. "),
    "audit a study": (("audit", "{here}/tiny.study"), "checks", "passed, "),
    "audit bad figures": (("audit", "{here}/bad.csv"), "checks", "Fix: "),
    "compare": (("compare", BREAKDOWN, "{here}/ten.csv", "--price", "1"), "times", "intervals: "),
    "compare ten scales": (("compare", "{here}/ten.csv", "{here}/ten.csv"), "losses", "not "),
    "fleet decide": (
        ("fleet", "decide", "{here}/windows.jsonl", "--ttft", "200ms", "--price", "2.10"),
        "windows", "TTFT p50",
    ),
    "fleet no answer": (
        ("fleet", "decide", "{here}/windows.jsonl", "--ttft", "10ms", "--demand", "90"),
        "windows", "TTFT p50",
    ),
    "diagnose a proposal": (MEMORY, "remedy", "Cures: "),
    "diagnose a study": (("diagnose", BREAKDOWN), "answer", ""),
    "roofline": (ROOFLINE, "workers", "Ring all-reduce"),
    "trace": (("trace", TRACES / "k4"), "collectives", "allreduce"),
    "plan": (
        ("plan", GOLDEN / "gpt-22b.toml", GOLDEN / "a100-cluster.toml"), "memory", "activations",
    ),
    "doctor": (("doctor",), "conditions", "engine local"),
}  # fmt: skip


def invalid(folder: Path) -> None:
    """Runs of one size at every K, as a folder; weak scaling contradicts them."""
    spec = Spec(name="job", scales=(1, 8), rounds=3, workload=Workload(command=("true",)))
    store.create(folder, spec_text(spec, {}))
    for nodes in (1, 8):
        for number in range(3):
            seconds = 10.0 / nodes + 0.1 * number
            store.append(folder, Run(nodes=nodes, round=number, seconds=seconds, work=8.0))


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in (("ten", TEN), ("bad", BAD)):
        (folder / f"{name}.csv").write_text(text)
    shutil.copytree(DATA / "version1" / "tiny.study", folder / "tiny.study")
    invalid(folder / "invalid.study")
    for window in SWEEP:
        fleet_windows.append(folder, window)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_the_answer_fits_a_screen_and_the_rest_is_in_sections(nodewise, here, name, monkeypatch):
    given, section, words = COMMANDS[name]
    arguments = [str(one).replace("{here}", str(here)) for one in given]
    monkeypatch.delenv("COLUMNS", raising=False)
    first = nodewise(*arguments)
    lines = first.out.splitlines()
    assert first.code in (0, 1), first.err
    assert 0 < len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in first.out and "**" not in first.out
    more, everything = nodewise(*arguments, "-v").out, nodewise(*arguments, "-vv").out
    only = nodewise(*arguments, "--only", section)
    assert only.code == first.code
    if words:
        assert words not in first.out or name == "audit a study"
        assert words in more and words in everything and words in only.out
        assert len(more.splitlines()) > len(lines)
        assert len(only.out.splitlines()) < len(everything.splitlines())
    else:
        assert only.out == first.out
    assert len(everything) >= len(more) >= len(first.out) * (1 if words else 0)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = nodewise(*arguments).out.splitlines()
    assert len(narrow) <= LINES
    assert max(map(len, narrow)) <= 80


@pytest.mark.parametrize("width", [80, 100])
def test_runs_that_are_made_end_with_an_answer_of_one_screen(
    nodewise, tmp_path, monkeypatch, width
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    job = "import sys, time; time.sleep(0.05 / int(sys.argv[1]))"
    words = ["--rounds", "2", "--name", "job", "--price", "3", "--"]
    ran = nodewise("run", "-n", "1,2,4", *words, sys.executable, "-c", job, "{n}")
    assert ran.code == 0, ran.err
    assert len(ran.err.splitlines()) <= 6 + 2  # a line for each run, the spec, the length
    study = nodewise("study", "job.toml", "-o", "job.study")
    assert not study.err
    measured = nodewise("measure", "job.toml", "-o", "job.study")
    for done in (ran, study, measured):
        lines = done.out.splitlines()
        assert len(lines) <= LINES
        assert max(map(len, lines)) <= width
    assert "Page: job.study/report.html" in study.out
    assert "Next: nodewise ui ." in study.out
    assert "Next: nodewise decide job.study" in measured.out
    runs = nodewise("study", "job.toml", "-o", "job.study", "--only", "runs").out
    assert len(runs.splitlines()) == 2 + 6
    made = nodewise("import", f"2={TRACES / 'k2'}", f"4={TRACES / 'k4'}", "-o", "traces.study")
    assert len(made.out.splitlines()) <= LINES
    assert "Next: nodewise attribute traces.study" in made.out


def test_a_section_that_is_not_there_is_an_error_that_names_those_that_are(nodewise):
    wrong = nodewise("decide", BREAKDOWN, "--only", "price")
    assert wrong.code == 2
    assert wrong.err.splitlines()[0] == "nodewise: No such section: price here."
    assert "answer, scaling, laws, losses" in wrong.err
    assert nodewise("decide", BREAKDOWN, "--only", "cost", "--json").code == 2


def test_colour_is_for_doubt_and_failure_on_a_terminal_only():
    def on_terminal(**variables: str) -> str:
        ours, theirs = pty.openpty()
        done = subprocess.Popen(
            [sys.executable, "-m", "nodewise", "decide", BREAKDOWN, "--price", "3"],
            stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color", **variables},
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert done.wait(60) == 0
        return seen.decode()

    coloured = on_terminal()
    assert "\x1b[1;31mfail" in coloured
    assert "\x1b[33mwarn" in coloured
    assert coloured.count("\x1b[1;31m") + coloured.count("\x1b[33m") == 2
    assert "\x1b" not in on_terminal(NO_COLOR="1")


def check(number: int, verdict: str = "warn") -> Check:
    return Check(
        rule=f"rule {number}", verdict=verdict, evidence=f"evidence {number} " + "and more " * 12,
        remedy="" if verdict == "pass" else "Do it again.",
    )  # fmt: skip


@given(
    sentences=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    rows=st.integers(0, 40),
    doubts=st.integers(0, 30),
    width=st.integers(60, 100),
)
def test_whatever_is_said_fits_the_screen(sentences, rows, doubts, width):
    table = rows_table("t", [{"K": at, "time": at, "": "x" * (at % 3)} for at in range(rows)])
    shown = output(
        [" ".join(["word"] * (length // 5 + 1)) for length in sentences],
        table if rows else None,
        [Section(name="more", title="More", parts=["a line"])],
        [check(number, ("fail", "warn", "pass")[number % 3]) for number in range(doubts)],
        ["Page: here", "Next: that"],
    )
    lines = show(shown, width, colour=False).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= width
    assert "Next: that" in lines
    if doubts > 1:
        assert any(line.startswith("fail  ") or "more in --only checks" in line for line in lines)


def test_of_many_rows_the_marked_ones_stay_and_the_others_are_counted():
    rows = [{"K": at, "": "fastest" if at == 15 else ""} for at in range(20)]
    table, hidden = shortened(rows_table("t", rows, strong=9), 8)
    assert hidden == 12
    kept = [int(row[0]) for row in table.rows]
    assert {0, 9, 15, 19} <= set(kept) and kept == sorted(kept)
    assert table.rows[table.strong][0] == "9"


def test_everything_has_the_details_that_are_hidden():
    passed = [check(number, "pass") for number in range(3)]
    shown = output(["The answer."], checks=[check(9), *passed])
    assert "rule 1" not in show(shown, 100, colour=False, level=1)
    assert "rule 1" in show(shown, 100, colour=False, level=2)
    assert "3 passed, 0 not applicable" in show(shown, 100, colour=False, level=1)
    assert any("rule 1" in str(part) for part in everything(shown))
