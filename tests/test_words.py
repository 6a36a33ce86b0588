"""Plain words: what a user reads has none of the words that need to be read twice."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "nodewise"
BANNED = re.compile(
    r"\b(folds?|anew|mend(s|ed|ing)?|nobody|somebody|strangers?|ladders?|hand(ed)? in|beyond it|"
    r"(is|are) no (?!faster|longer|slower|larger)|there (is|are) no|told|stands)\b",
    re.IGNORECASE,
)
OLD_NAME = "Job.told is now Job.own_environment."  # names what it replaces
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PRINTED = ("benchmarks.md",)  # quotes the output of benchmarks


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a module: strings, docstrings and comments of several words."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_the_words_are_found():
    assert BANNED.search("There is no torch.")
    assert BANNED.search("3 folds are lost")
    assert not BANNED.search("it is no faster than torch, and was restored")


@pytest.mark.parametrize("room", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_strings_of_a_room(room):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        for line, text in texts(path)
        if len(text.split()) > 1 and BANNED.search(text) and text != OLD_NAME
    ]
    for path in [*(SOURCE / room).rglob("*.toml"), *(SOURCE / room).rglob("*.jinja")]:
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line[:80]}"
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if BANNED.search(line)
        ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    if page.name in PRINTED:
        pytest.skip(f"{page.name} quotes what benchmarks print")
    words = re.sub(r"`[^`\n]*`", "", page.read_text())  # without names of the code
    lines = enumerate(words.splitlines(), start=1)
    assert [f"{number}: {line[:80]}" for number, line in lines if BANNED.search(line)] == []
