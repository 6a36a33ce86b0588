"""Every command in the documents is run, and prints what they say it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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


@pytest.mark.parametrize(("page", "command", "lines"), examples())
def test_commands_print_what_the_documents_say(page, command, lines):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    outcome = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**os.environ, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
    )  # fmt: skip
    printed = "".join(f"{line.rstrip()}\n" for line in outcome.stdout.splitlines())
    assert re.fullmatch(pattern(lines), printed, re.DOTALL), printed


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


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
