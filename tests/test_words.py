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
    r"(is|are) no (?!faster|longer|slower|larger)|there (is|are) no|told|stands?|"
    r"(luck|lucky|moods?|same story|for want of|hopeless|gravest|dearer|dearest|midst)|"
    r"(forthwith|betrays?|hence|thereby|upon|whoever)|"
    r"(is|are) not (said|told)|(says?|said) nothing|who says|which is to come|for ever|"
    r"held against|(that|which) (is|are) none|of (ours|theirs)|as people (say|write) it|"
    r"(is|are) there already|(has|have) not an? |ended well|came to its end|what it said|"
    r"knows better|speaks? (for|against)|not a silence|be believed|"
    r"(row|column|line|file|point) an? (draw|scale|rank|run|window|node|call|step|request)|"
    r"(nothing|none|null|empty) where|reported apart|cry wolf|foretold|go(es)? on with(out)?|"
    r"at the begin|as people|on the meter|in its turn|in vain|once more|lifts (it|that)|"
    r"of the least bill|the way that|ask for whole)\b",
    re.IGNORECASE,
)
OLD_NAME = "Job.told is now Job.own_environment."  # names what it replaces
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md")),
]  # fmt: skip
PRINTED = ("benchmarks.md",)  # quotes the output of benchmarks


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a module: strings, docstrings and comments of several words.

    An f-string is one sentence, with an ellipsis for each value.
    """
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else "…" for one in node.values]
            yield node.lineno, "".join(map(str, parts))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_the_words_are_found():
    assert BANNED.search("There is no torch.")
    assert BANNED.search("3 folds are lost")
    assert BANNED.search("an added node returns … folds")
    assert not BANNED.search("it is no faster than torch, and was restored")


def test_the_parts_of_a_sentence_are_joined(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('words = f"{gain} folds"\n')
    assert "… folds" in [text for _, text in texts(path)]


@pytest.mark.parametrize("room", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_strings_of_a_room(room):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        for line, text in texts(path)
        if len(text.split()) > 1 and BANNED.search(text) and text != OLD_NAME
    ]
    endings = ("toml", "jinja", "js", "css", "c", "h")
    for path in [one for end in endings for one in (SOURCE / room).rglob(f"*.{end}")]:
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
