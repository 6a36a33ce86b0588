"""Prompts of a file: JSONL with a request a line, or the conversations of a ShareGPT file.

A line is a prompt in quotes, or an object with `prompt` or `messages`, and with `output_tokens`
where it says how long the answer is. A recorded answer says so too.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from nodewise.base.errors import DataError
from nodewise.fleet.load.traces import MOST_TOKENS
from nodewise.study.files import read_regular

Message = tuple[str, str]  # the role and what it says
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]

_TOKENS_PER_WORD = 4 / 3  # of English text, about: the length of a recorded answer
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "chatgpt": "assistant"}


class Exchange(NamedTuple):
    """What a conversation asks at one time."""

    messages: tuple[Message, ...]  # that are new; the last one is the question
    answer: str = ""  # as recorded: it is in later prompts
    output_tokens: int | None = None  # nothing: drawn


Conversation = tuple[Exchange, ...]


class _Message(msgspec.Struct):
    role: str
    content: str


class _Line(msgspec.Struct):
    prompt: str = ""
    messages: list[_Message] = []
    output_tokens: _Tokens | None = None
    max_tokens: _Tokens | None = None


class _Turn(msgspec.Struct, rename={"role": "from", "content": "value"}):
    role: str
    content: str


class _ShareGpt(msgspec.Struct):
    conversations: list[_Turn] = []


def read_prompts(path: Path) -> list[Conversation]:
    """The conversations of a file, in its order."""
    try:
        data = read_regular(path)
        whole = data.lstrip()[:1] == b"["
        found = list(_share_gpt(data) if whole else _lines(data))
    except OSError:
        raise DataError(f"Cannot read the prompts {path}.", "Correct request.prompts.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unusable(path, str(error)) from None
    if not found:
        raise _unusable(path, "it has no prompts")
    return found


def _unusable(path: Path, why: str) -> DataError:
    return DataError(
        f"{path} is not a file of prompts: {why}.",
        'Write a line {"prompt": "..."} for each, or give a ShareGPT file.',
    )


def _lines(data: bytes) -> Iterator[Conversation]:
    """Each line is one request, with all messages before its last question."""
    decode = msgspec.json.Decoder(_Line | str).decode
    for line in data.splitlines():
        if not line.strip():
            continue
        row = decode(line)
        if isinstance(row, str):
            row = _Line(prompt=row)
        said = [(one.role, one.content) for one in row.messages] or [("user", row.prompt)]
        asked = row.output_tokens or row.max_tokens
        if len(said) > 1 and said[-1][0] == "assistant":
            asked = asked or _length(said.pop()[1])
        if said[-1][1]:
            yield (Exchange(tuple(said), "", asked),)


def _share_gpt(data: bytes) -> Iterator[Conversation]:
    for one in msgspec.json.decode(data, type=list[_ShareGpt]):
        said = [(_ROLES.get(turn.role, turn.role), turn.content) for turn in one.conversations]
        if found := _exchanges(said):
            yield found


def _exchanges(said: list[Message]) -> Conversation:
    """The questions of a conversation, each with its recorded answer."""
    found, new = [], list[Message]()
    for (role, text), (next_role, answer) in pairwise([*said, ("", "")]):
        if role == "assistant":
            continue
        new.append((role, text))
        if role == "user":
            answer = answer if next_role == "assistant" else ""
            found.append(Exchange(tuple(new), answer, _length(answer)))
            new = []
    return tuple(found)


def _length(answer: str) -> int | None:
    return round(len(answer.split()) * _TOKENS_PER_WORD) or None
