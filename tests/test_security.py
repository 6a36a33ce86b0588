"""What docs/security.md promises about files from strangers."""

import ast
import json
import socket
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from nodewise.audit.rules import read_rules
from nodewise.base.errors import DataError
from nodewise.decide.inputs import Question
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.export import export
from nodewise.report.findings import find
from nodewise.report.page.html import page
from nodewise.report.tables import failures_table, provenance_table
from nodewise.study import bundle
from nodewise.study.study import Run, Study
from tests.conftest import GOLDEN

SOURCE = Path(__file__).parents[1] / "src" / "nodewise"
EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>{{7*7}}\\input{secret}"
ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def calls():
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            yield file.relative_to(SOURCE), node


@pytest.mark.slow
def test_nothing_that_is_read_can_become_code():
    """No pickle and no eval anywhere; a program is started without a shell."""
    for file, node in calls():
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            assert not {"pickle", "marshal", "shelve", "dill"} & set(names), file
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("eval", "exec", "os.system", "os.popen", "np.load"), (
                f"{file}: {name}"
            )
            shells = [word for word in node.keywords if word.arg == "shell"]
            assert not any(ast.unparse(word.value) != "False" for word in shells), file


def hostile(text: str) -> Study:
    """A study in which everything that is text says the same."""
    study = simulate(PlantedTruth(law=Law(s=0.05), detail="ranks"))
    facts = {"commit": text, text: text}
    runs = [
        msgspec.structs.replace(run, provenance=facts, facts=facts, started=text)
        for run in study.runs
    ]
    failed = Run(nodes=99, round=0, seconds=1.0, outcome="crashed", detail=text)
    return Study(name=text, regime="strong", runs=(*runs, failed), notes=(text,))


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, tuple(name for name, _ in attrs)))


@pytest.mark.slow
def test_text_in_a_study_never_becomes_markup_of_the_page():
    def tags(text):
        study = hostile(text)
        return Tags(page(study, find(study, Question(), read_rules()), text, "")).seen

    assert tags(EVIL) == tags("a name")


def test_text_in_a_study_never_becomes_a_command_of_latex_or_a_cell_of_markdown():
    study = hostile(EVIL + " | more")
    for table in (failures_table(study), provenance_table(study)):
        assert "\\input" not in export(table, "tex", study.name)
        rows = export(table, "md").splitlines()
        assert len({row.replace("\\|", "").count("|") for row in rows}) == 1


@pytest.mark.parametrize("command", ["scale", "attribute", "decide", "audit"])
def test_text_in_a_table_never_commands_the_terminal(command, nodewise, tmp_path):
    table = tmp_path / f"x{ESCAPE}.csv"
    table.write_text(f"K,time_s,note{ESCAPE}\n1,10,{ESCAPE}\n2,6,{ESCAPE}\n4,4,x\n")
    outcome = nodewise(command, table)
    assert "\x1b" not in outcome.out + outcome.err
    table.write_text(f"{ESCAPE},time_s\n1,10\n")
    wrong = nodewise(command, table)
    assert wrong.code in (2, 4)
    assert "\x1b" not in wrong.out + wrong.err


def test_no_analysis_speaks_to_the_network(nodewise, monkeypatch, tmp_path):
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    table = GOLDEN / "breakdown.csv"
    for arguments in (
        ["decide", table, "--price", "3.20", "--grid", "FRA", "--watts", "300"],
        ["decide", table, "--instance", "aws:p5.48xlarge"],
        ["audit", table],
        ["predict", table],
        ["report", table, "-o", tmp_path / "page.html"],
        ["plot", table, "speedup", "-o", tmp_path / "speedup.svg"],
    ):
        assert nodewise(*arguments).code in (0, 1), arguments


def test_a_command_of_a_spec_is_no_line_for_a_shell(nodewise, tmp_path):
    spec = tmp_path / "job.toml"
    words = json.dumps(["{python}", "-c", "pass", ";", "touch", str(tmp_path / "made")])
    spec.write_text(f'name = "job"\nscales = [1]\nrounds = 1\n[workload]\ncommand = {words}\n')
    assert nodewise("measure", spec, "-o", tmp_path / "job.study").code == 0
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt", "ranks/../../out.txt"])
def test_a_bundle_writes_nowhere_else(name, tmp_path):
    (tmp_path / "a.zip").write_bytes(bundle.pack({name: b"x", "study.toml": b"x"}))
    with pytest.raises(DataError, match="outside"):
        bundle.write_files(bundle.unpack(tmp_path / "a.zip"), tmp_path / "deep" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
