"""The command line as a user meets it: in a process of its own where that matters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GOLDEN

pytestmark = pytest.mark.slow

NODEWISE = [sys.executable, "-m", "nodewise"]


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NODEWISE, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=240
    )


def test_help_lists_commands_with_examples():
    top = run("--help")
    assert top.returncode == 0
    for command in ("scale", "attribute", "decide", "simulate"):
        assert command in top.stdout
        assert "Examples:" in run(command, "--help").stdout
    assert run("--version").stdout.startswith("nodewise, version 0.")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["scale", "nowhere.csv"], 4, "Cannot read nowhere.csv: no such file"),
        (["scale", "."], 4, ". holds no study"),
        (["scale"], 2, "Missing argument 'TABLE'"),
        (["frobnicate"], 2, "No such command"),
        (["scale", "x.csv", "--threshold", "7"], 2, "7 is above 1"),
        (["scale", "x.csv", "--center", "mode"], 2, "--center"),
        (["decide"], 2, "TABLE or a --law"),
        (["decide", "x.csv", "--law", "s=0.1"], 2, "TABLE or a --law"),
        (["decide", "--law", "s=oops"], 2, "s=oops is not a number"),
        (["decide", "--law", "s=0.1", "--t1", "soon"], 2, "'soon' is not a time"),
        (["decide", "--law", "s=0.1", "--price", "-3"], 2, "-3 is below 0"),
        (["decide", "--law", "s=0.1", "--price", "cheap"], 2, "'cheap' is not an amount"),
        (["decide", "--law", "s=0.1", "--fixed", "3"], 2, "needs the price of a node"),
        (["decide", "--law", "s=0.1", "--work", "3"], 2, "--work goes with a table"),
        (["decide", GOLDEN / "rubric.csv", "--noise", "5%"], 2, "--noise goes with --law"),
        (["simulate", "--scales", "1,x"], 2, "not a list of scales"),
        (["simulate", "-o", "/nowhere/x.csv"], 2, "Cannot write"),
        (["simulate", "--imbalance", "0.5"], 2, "below 1"),
    ],
)
def test_errors_are_two_lines_with_the_fix(arguments, code, words):
    outcome = run(*arguments)
    assert outcome.returncode == code
    assert outcome.stdout == ""
    what, fix = outcome.stderr.splitlines()
    assert what.startswith("nodewise: ")
    assert words in what
    assert fix.startswith("  fix: ")


def test_a_gate_that_is_not_met_still_reports_and_exits_with_1():
    outcome = run(
        "decide", GOLDEN / "breakdown.csv", "--price", "3.2", "--deadline", "100s", "--json"
    )
    assert outcome.returncode == 1
    assert json.loads(outcome.stdout)["recommended"]["K"] is None
    assert "no scale passes" in run("decide", GOLDEN / "breakdown.csv", "--deadline", "100s").stdout


def test_commands_can_be_piped_into_each_other():
    table = run("simulate", "--imbalance", "2", "--detail", "ranks", "--scales", "1,2,4,8").stdout
    assert table.startswith("# planted by: nodewise simulate --imbalance 2")
    named = json.loads(run("attribute", "-", "--json", stdin=table).stdout)
    assert named["dominant_cause"] == "load imbalance"


@pytest.mark.parametrize(
    "command",
    ["simulate --rounds 2000", f"decide {GOLDEN / 'rubric.csv'}", "decide --law s=0.1 --json"],
)
def test_a_reader_that_leaves_early_sees_no_traceback_and_no_failure(command):
    shell = f"set -o pipefail; {sys.executable} -m nodewise {command} | head -1"
    outcome = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=240)
    assert outcome.stderr == ""
    assert len(outcome.stdout.splitlines()) == 1
    assert outcome.returncode == 0


def test_without_a_command_it_shows_its_help():
    outcome = run()
    assert outcome.returncode == 0
    assert "Begin with one of:" in outcome.stdout


def test_a_file_that_is_not_text(tmp_path: Path):
    binary = tmp_path / "table.csv"
    binary.write_bytes(b"\xff\xfe\x00K\x00")
    outcome = run("scale", binary)
    assert outcome.returncode == 4
    assert "not text in UTF-8" in outcome.stderr


def test_piped_tables_are_not_cut_at_eighty_columns():
    out = run("decide", GOLDEN / "rubric.csv", "--work", "1200000", "-v").stdout
    assert max(len(line) for line in out.splitlines()) > 90
    assert all(line == line.rstrip() for line in out.splitlines())
    assert "…" not in out


def test_a_json_document_for_every_command():
    for command in ("scale", "attribute", "decide"):
        out = json.loads(run(command, GOLDEN / "step-times.csv", "--json").stdout)
        assert [row["K"] for row in out["rows"]] == [1, 2, 4, 8, 16, 32, 64]


PROMISED = {
    "scale": [
        "rows[].K seconds std speedup efficiency speedup_low speedup_high",
        "bend.threshold first_below last_above",
        "laws.amdahl.s ceiling",
        "knee fastest",
    ],
    "attribute": [
        "rows[].K speedup lost_folds causes",
        "rows[].causes[].cause seconds folds",
        "dominant_cause",
    ],
    "decide": [
        "rows[].K seconds speedup efficiency quality cost cost_per_work work_per_dollar excluded "
        "probability_cheapest",
        "cheapest.K cost",
        "fastest.K cost seconds",
        "marginal[].from to speedup cost speedup_per_dollar",
        "recommended.K because",
        "within_1_percent claim regimes",
    ],
}


@pytest.mark.parametrize("command", PROMISED)
def test_the_keys_that_other_programs_rely_on(command):
    result = json.loads(run(command, GOLDEN / "rubric.csv", "--json").stdout)
    for promise in PROMISED[command]:
        path, *names = promise.split()
        *parents, first = path.split(".")
        place = result
        for parent in parents:
            place = place[parent.removesuffix("[]")]
            place = place[-1] if parent.endswith("[]") else place
        assert {first, *names} <= place.keys(), promise


def test_help_imports_nothing_heavy():
    """What would make --help slow; how quick it is stands in benchmarks/."""
    code = (
        "import sys, nodewise.cli.main as cli\n"
        "sys.argv = ['nodewise', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: print([m for m in ('numpy', 'rich', 'msgspec') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert out.stdout.rstrip().endswith("[]")


def test_an_unknown_option_is_answered_with_a_near_one_only():
    far = run("decide", GOLDEN / "rubric.csv", "--frobnicate")
    assert (far.returncode, "No such option" in far.stderr) == (2, True)
    assert "--price" not in far.stderr
    near = run("decide", GOLDEN / "rubric.csv", "--deadlin", "9min")
    assert "Is it --deadline?" in near.stderr


def test_a_single_scale_is_refused_before_anything_runs(tmp_path):
    spec = tmp_path / "job.toml"
    outcome = run("init", "--scales", "2", "-o", spec)
    assert outcome.returncode == 2
    assert "scaling needs two scales" in outcome.stderr
    assert not spec.exists()
    spec.write_text('name = "job"\nscales = [2]\nrounds = 1\nworkload.command = ["true"]\n')
    outcome = run("study", spec)
    assert outcome.returncode == 2
    assert len(outcome.stderr.splitlines()) == 2
    assert not (tmp_path / "job.study").exists()
    assert "add a second scale" in run("measure", spec).stdout
