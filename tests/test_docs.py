"""Every command in the documents is run, and prints what they say it prints."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from nodewise.cli.main import COMMANDS, nodewise
from nodewise.report.findings import find
from nodewise.report.notebook import open_job
from nodewise.study import store
from nodewise.study.table import _NAMES

ROOT = Path(__file__).parents[1]
START = ROOT / "docs" / "start.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for body in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL):
            found.append((page.name, body))
    return found


def examples() -> list[tuple[str, str, list[str]]]:
    """Page, command, expected lines; a line of three dots stands for any lines."""
    found = []
    for page, body in blocks("console"):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            found.append((page, command, lines))
    return found


def pattern(lines: list[str]) -> str:
    parts = [".*" if line == "..." else re.escape(line.rstrip()) + "\n" for line in lines]
    return "".join(parts)


def shell(command: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path, **variables},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command", "lines"), examples())
def test_commands_print_what_the_documents_say(page, command, lines):
    outcome = shell(command)
    printed = "".join(f"{line.rstrip()}\n" for line in outcome.stdout.splitlines())
    assert re.fullmatch(pattern(lines), printed, re.DOTALL), printed


def five_minutes() -> dict[str, tuple[str, str]]:
    """By its title, what each part of the page tells the reader to type, and to see."""
    parts = START.read_text().split("\n## ")[1:]
    typed = {
        part.partition("\n")[0]: re.findall(r"```\w+\n(.*?)```", part, re.DOTALL) for part in parts
    }
    return {title: (blocks[0], blocks[1]) for title, blocks in typed.items() if len(blocks) == 2}


def check_five_minutes(title: str, folder: Path) -> None:
    """Type a part into an empty folder: the study is made, and looks as the page shows it.

    Two rounds instead of seven, to be quick; the figures are those of this machine at this moment,
    so only the kind of the verdict is compared, and the table by its titles.
    """
    commands, shown = five_minutes()[title]
    assert "nodewise run " in commands
    done = shell("set -e\n" + commands.replace("nodewise run", "nodewise run --rounds 2"), folder)
    assert done.returncode == 0, done.stdout
    (study,) = folder.glob("*.study")
    assert [run.outcome for run in store.load(study).runs] == ["ok"] * 4
    verdict = rf"{study.stem}: (run on|undecided between) "
    assert re.search("run on|undecided between|no answer", (study / "report.html").read_text())
    assert re.match(verdict, shown), shown
    assert re.search(f"^{verdict}", done.stdout, re.MULTILINE), done.stdout
    printed, lines = without_numbers(done.stdout), without_numbers(shown)
    assert next(line for line in lines if line[:2] == ["K", "time"]) in printed


def without_numbers(text: str) -> list[list[str]]:
    """The words of each line, any number as one sign."""
    plain = re.sub(r"\d[\d.]*", "#", text).replace("nodes", "node").replace(";", " ;")
    return [line.split() for line in plain.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("title", ["An MPI program", "A plain command"])
def test_the_five_minutes(title, tmp_path):
    check_five_minutes(title, tmp_path)


@pytest.mark.slow
def test_the_five_minutes_with_a_table(tmp_path):
    commands, shown = five_minutes()["Times that you have"]
    done = shell("set -e\n" + commands, tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.match(pattern(shown.splitlines()), done.stdout, re.DOTALL), done.stdout
    assert "run on 4 nodes" in (tmp_path / "times.html").read_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [("bash", {"COMP_WORDS": "nodewise de", "COMP_CWORD": "1"}),
     ("zsh", {"COMP_WORDS": "nodewise de", "COMP_CWORD": "1"}),
     ("fish", {"COMP_WORDS": "nodewise de", "COMP_CWORD": "de"})],
)  # fmt: skip
def test_the_shell_completes_commands(name, words):
    line = f"_NODEWISE_COMPLETE={name}_source nodewise"
    assert line in START.read_text()
    script = shell(line)
    assert script.returncode == 0
    assert f"_NODEWISE_COMPLETE={name}_complete" in script.stdout
    completed = shell("nodewise", _NODEWISE_COMPLETE=f"{name}_complete", **words)
    assert completed.returncode == 0
    assert "decide" in completed.stdout
    assert "audit" not in completed.stdout


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from commands(command)


@pytest.mark.parametrize("command", [*commands(nodewise)], ids=lambda command: command.name)
def test_every_command_has_examples_and_every_option_its_words(command):
    assert "Examples:" in (command.help or "")
    silent = [o.name for o in command.params if isinstance(o, click.Option) and not o.help]
    assert not silent


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(nodewise, name):
    assert len(nodewise(name, "--help").out.splitlines()) <= 40


def test_bash_completes_commands_and_options():
    def complete(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        done = shell("nodewise", _NODEWISE_COMPLETE="bash_complete", **words)
        return [one.partition(",")[2] for one in done.stdout.splitlines()]

    assert complete("nodewise ") == list(COMMANDS)
    assert complete("nodewise decide t.csv --pri") == ["--price"]
    assert complete("nodewise decide t.csv --set spo") == ["spot="]
    assert complete("nodewise init --engine r") == ["rehearsal", "ray"]


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_gives_what_the_comments_say(page, code, monkeypatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for line in code.splitlines():
        statement, _, expected = line.partition("  # ")
        if expected:
            assert repr(eval(statement.strip(), names)) == expected.strip()
        else:
            exec(line, names)


def test_results_in_python_are_what_json_prints(nodewise):
    table = ROOT / "examples" / "breakdown.csv"
    job = open_job(table)
    in_python = {
        ("scale",): job.scale(),
        ("attribute",): job.attribute(),
        ("decide", "--price", "3.20"): find(job.study, job.question(price=3.20)).document,
    }
    for (command, *options), result in in_python.items():
        printed = json.loads(nodewise(command, table, *options, "--json").out)
        assert json.loads(msgspec.json.encode(result)) == printed, command


@pytest.mark.slow
def test_the_chart_of_the_reports_page_is_drawn(tmp_path):
    page = ROOT / "docs" / "reports.md"
    (command,) = re.findall(r"`(nodewise plot [^`]*)` draws", page.read_text())
    command = command.replace("examples/", f"{ROOT}/examples/")
    assert shell(command, tmp_path).returncode == 0
    assert list(tmp_path.iterdir())


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"(?:\]\(|src=\")([^)#\"]+)[)\"]", page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_old_page_names_lead_to_pages_of_today(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    moved = importlib.import_module("moved")
    of_version_1 = [
        "architecture",
        "audit",
        "benchmarks",
        "diagnose",
        "energy",
        "engines",
        "exercises",
        "first_hour",
        "fleet",
        "index",
        "load",
        "method",
        "plan",
        "predict",
        "reliability",
        "reports",
        "security",
        "spec",
        "start",
        "tables",
        "traces",
        "tutorial",
    ]
    pages = {page.stem for page in PAGES}
    assert [name for name in of_version_1 if moved.MOVED.get(name, name) not in pages] == []
    moved.on_post_build({"site_dir": tmp_path})
    assert "url=../start/" in (tmp_path / "first_hour" / "index.html").read_text()


def test_every_name_of_a_column_is_in_the_reference():
    page = (ROOT / "docs" / "tables.md").read_text()
    names = {name for several in _NAMES.values() for name in several}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", ["cli.md", "rules.md", "json.md", "inputs.md", "fields.md"])
def test_the_reference_is_as_the_code_has_it(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    reference = importlib.import_module("reference")
    assert reference.PAGES[name]() == (ROOT / "docs" / name).read_text(), (
        "Write it again: .venv/bin/python docs/reference.py"
    )


def test_json_of_a_decision_follows_its_schema(nodewise):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(nodewise("help", "json").out)
    for table in ("breakdown", "rubric", "step-times"):
        path = ROOT / "examples" / f"{table}.csv"
        jsonschema.validate(json.loads(nodewise("decide", path, "--json").out), schema)


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    """Each number that the README takes from a benchmark was printed by it."""
    told = (ROOT / "docs" / "benchmarks.md").read_text()
    printed = re.findall(r"^`benchmarks/(\w+\.py).*?$(.*?)^```$", told, re.DOTALL | re.MULTILINE)
    rows = re.findall(
        r"^\|[^|]*\|([^|]*)\| `(\w+\.py)` \|$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert rows
    for figure, name in rows:
        words = " ".join(text for benchmark, text in printed if benchmark == name)
        for number in re.findall(r"\d[\d.]*", figure):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", words), f"{name}: {number}"
