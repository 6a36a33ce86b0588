"""What docs/security.md promises about files from strangers."""

import ast
import json
import os
import socket
import stat
import subprocess
import sys
import zipfile
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
from nodewise.report.live.server import Server
from nodewise.report.page.html import page
from nodewise.report.tables import failures_table, provenance_table
from nodewise.study import bundle, store
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
        bundle.unpack(tmp_path / "a.zip", tmp_path / "deep" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_bundle_holds_regular_files_only(kind, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        entry = zipfile.ZipInfo("runs.jsonl")
        entry.external_attr = (kind | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
        archive.writestr("SHA256SUMS", "0  runs.jsonl\n")
    said = "runs.jsonl is a symbolic link" if kind == stat.S_IFLNK else "not a regular file"
    with pytest.raises(DataError, match=said):
        bundle.unpack(tmp_path / "a.zip", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_bundle_is_refused_by_its_unpacked_size_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "_MOST_BYTES", 1000)
    (tmp_path / "a.zip").write_bytes(bundle.pack({"study.toml": bytes(2000)}))
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # nothing may be unpacked
    with pytest.raises(DataError, match="holds more than"):
        bundle.unpack(tmp_path / "a.zip", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.slow
def test_a_large_bundle_needs_little_memory(tmp_path):
    """Both are unpacked by a process of their own; the large one holds 300 MB more."""
    peaks = []
    for name, size in (("small", 1), ("large", 300)):
        packed = bundle.pack({"study.toml": b"x", "ranks/K1.bin": bytes(size * 10**6)})
        (tmp_path / f"{name}.zip").write_bytes(packed)
        code = (
            "import resource, sys; from pathlib import Path; from nodewise.study.bundle import "
            "unpack; unpack(Path(sys.argv[1]), Path(sys.argv[2])); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
        )
        words = [sys.executable, "-c", code, tmp_path / f"{name}.zip", tmp_path / name]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 60


@pytest.fixture
def study_folder(tmp_path):
    """A study of another person, and a file of ours beside it."""
    folder = tmp_path / "their.study"
    words = json.dumps(["{python}", "-c", "pass"])
    store.create(
        folder, f'name = "their"\nscales = [1, 2]\nrounds = 1\n[workload]\ncommand = {words}\n'
    )
    for nodes, seconds in ((1, 10.0), (2, 6.0)):
        store.append(folder, Run(nodes=nodes, round=0, seconds=seconds))
    (tmp_path / "mine").write_text("precious")
    return folder


def in_place_of(path, kind):
    """Something other than a regular file, under the name of one."""
    if kind == "link":
        path.symlink_to("../mine")
    elif kind == "link to a folder":
        path.symlink_to("..")
    elif kind == "dangling link":
        path.symlink_to("../new")
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))


LINKS = ["link", "link to a folder", "dangling link"]


@pytest.mark.parametrize("kind", [*LINKS, "FIFO", "folder", "socket"])
def test_what_is_no_regular_file_is_never_opened_and_a_link_is_replaced(kind, study_folder):
    path = study_folder / "x"
    in_place_of(path, kind)
    for open_it in (store.files.open_own, store.files.read_own, store.files.open_to_change):
        with pytest.raises(store.files.NotRegularError):
            open_it(path)
    if kind in LINKS:
        store.files.replace(path, "ours")
        assert path.read_text() == "ours" and not path.is_symlink()
    else:
        with pytest.raises(store.files.NotRegularError):
            store.files.replace(path, "ours")
    assert (study_folder.parent / "mine").read_text() == "precious"
    assert {entry.name for entry in study_folder.parent.iterdir()} == {"mine", "their.study"}


def test_a_device_is_never_opened(tmp_path):
    with pytest.raises(store.files.NotRegularError, match="a device"):
        store.files.read_own(Path("/dev/zero"))


WRITES = {
    "sim.csv": ["simulate", "-o", "sim.csv"],
    "out.md": ["table", "their.study", "scaling", "-o", "out.md"],
    "out.html": ["audit", "their.study", "--page", "out.html"],
    "their.zip": ["export", "their.study"],
    "history.jsonl": ["history", "add", "their.study"],
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("kind", ["link", "FIFO"])
def test_no_command_writes_through_a_link_or_waits(name, kind, study_folder, nodewise, monkeypatch):
    here = study_folder.parent / "here"
    here.mkdir()
    (here / "their.study").symlink_to(study_folder)
    in_place_of(here / name, kind)
    monkeypatch.chdir(here)
    outcome = nodewise(*WRITES[name])
    assert (study_folder.parent / "mine").read_text() == "precious"
    is_replaced = stat.S_ISREG((here / name).lstat().st_mode)
    assert outcome.code in ((0, 1) if is_replaced else (2, 4))


FIRST = ["report", "scale", "decide", "attribute", "audit", "export"]


@pytest.mark.parametrize("name", ["study.toml", "runs.jsonl"])
@pytest.mark.parametrize("command", FIRST)
def test_a_fifo_in_a_study_stops_no_command(command, name, study_folder):
    (study_folder / name).unlink()
    os.mkfifo(study_folder / name)
    words = [sys.executable, "-m", "nodewise", command, study_folder]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=study_folder)
    assert done.returncode == 4
    assert f"{name}: it is a fifo, not a regular file" in done.stderr


@pytest.mark.parametrize("name", ["study.toml", "runs.jsonl"])
def test_a_link_in_a_study_is_refused(name, study_folder, nodewise):
    (study_folder / name).rename(study_folder.parent / "elsewhere")
    (study_folder / name).symlink_to("../elsewhere")
    for command in FIRST:
        outcome = nodewise(command, study_folder)
        assert outcome.code == 4
        assert f"{name}: it is a symbolic link, not a regular file" in outcome.err


@pytest.mark.parametrize("name", ["report.html", "result.json"])
def test_a_command_overwrites_nothing_outside_of_the_study(name, study_folder, nodewise):
    (study_folder / name).symlink_to("../mine")
    command = "report" if name == "report.html" else "study"
    path = study_folder if command == "report" else study_folder / store.SPEC
    outcome = nodewise(command, path, *([] if command == "report" else ["-o", study_folder]))
    assert outcome.code in (0, 1), outcome.err
    assert (study_folder.parent / "mine").read_text() == "precious"
    assert (study_folder / name).stat().st_size > 1000


@pytest.mark.parametrize(
    "name", ["lock", "running", "runs.jsonl", "ranks", "outputs", "study.part", ".study.toml.part"]
)
def test_a_measurement_writes_nothing_outside_of_the_study(name, study_folder, tmp_path, nodewise):
    outside = tmp_path / "outside"
    outside.mkdir()
    spec = tmp_path / "job.toml"
    words = json.dumps(["{python}", "-c", "print(1)"])
    spec.write_text(f'name = "their"\nscales = [1]\nrounds = 3\n[workload]\ncommand = {words}\n')
    store.files.replace(study_folder / store.SPEC, spec.read_text())
    for old in study_folder.glob(name):
        old.rmdir() if old.is_dir() else old.unlink()
    is_folder = name in ("ranks", "outputs")
    (study_folder / name).symlink_to("../outside" if is_folder else "../mine")
    outcome = nodewise("measure", spec, "-o", study_folder)
    refused = name not in ("running", "study.part", ".study.toml.part")  # these are replaced
    assert outcome.code == (4 if refused else 0), outcome.err
    assert ("it is a symbolic link, not a" in outcome.err) == refused
    assert (tmp_path / "mine").read_text() == "precious"
    assert list(outside.iterdir()) == []


def test_the_name_of_a_study_is_not_a_path(study_folder, nodewise, monkeypatch, tmp_path):
    spec = (study_folder / store.SPEC).read_text().replace('"their"', '"../mine"')
    (study_folder / store.SPEC).write_text(spec)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert nodewise("export", study_folder).code == 0
    assert [path.name for path in Path().iterdir()] == ["_mine.zip"]


def test_a_module_in_the_folder_of_a_table_is_never_imported(tmp_path):
    for name in ("vl_convert", "numpy", "json", "subprocess"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\nraise SystemExit(7)\n")
    (tmp_path / "times.csv").write_text("K,time_s\n1,10\n2,6\n4,4\n")
    nodewise = Path(sys.executable).with_name("nodewise")
    own_cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [nodewise, "report", "times.csv"],
        cwd=tmp_path,
        env=own_cache,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_bundle_takes_no_file_from_outside(study_folder, nodewise, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "key").symlink_to("../mine")
    outcome = nodewise("export", study_folder, "--workload", work, "-o", tmp_path / "a.zip")
    assert outcome.code == 2 and "outside of" in outcome.err
    (study_folder / "ranks" / "K1-round0.bin").symlink_to("../../mine")
    outcome = nodewise("export", study_folder, "-o", tmp_path / "a.zip")
    assert outcome.code == 4 and "symbolic link" in outcome.err
    assert not (tmp_path / "a.zip").exists()


def test_the_live_page_shows_nothing_outside_of_its_folder(study_folder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "link.study").symlink_to(study_folder)
    inner = home / "inner.study"
    inner.mkdir()
    (inner / store.SPEC).write_text((study_folder / store.SPEC).read_text())
    (inner / store.RUNS).symlink_to(study_folder / store.RUNS)
    with Server(home) as server:
        board = server.answer("localhost", f"/{server.token}/").body
        assert "link.study" not in board and "inner.study" in board
        [only] = server.studies.all()
        assert only.reading.study is None or not only.reading.study.runs
        assert "symbolic link" in str(only.reading.problem)
