"""Tokens counted here, with the tokenizer of the model, where a server does not count them."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError, RunError
from nodewise.study.files import read_regular

# The body of a request and the text of its answer; tokens of the prompt and of the answer.
CountTokens = Callable[[bytes, str], tuple[int, int]]


def read_tokenizer(path: Path) -> CountTokens:
    """What counts tokens with a tokenizer.json; nothing is fetched.

    Only text is counted: what a chat template puts around a prompt and the token that ends an
    answer are not.
    """
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ModuleNotFoundError:
        raise RunError(
            "request.tokenizer needs the library tokenizers.",
            "Install it: pip install 'nodewise[tokenizer]'",
        ) from None
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        raise DataError(
            f"Cannot read the tokenizer {path}.", "Correct request.tokenizer."
        ) from None
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library has no narrower one
        raise DataError(
            f"{path} is not a tokenizer: {error}.", "Give the tokenizer.json of the model."
        ) from error
    tokenizer.no_truncation()  # many files cut off or fill up what is to be embedded
    tokenizer.no_padding()

    def tokens(words: str) -> int:
        return len(tokenizer.encode(words, add_special_tokens=False).ids)

    return lambda body, answer: (tokens(_prompt(body)), tokens(answer))


def _prompt(body: bytes) -> str:
    asked: dict[str, Any] = msgspec.json.decode(body)
    said = [message.get("content") for message in asked.get("messages", ())]
    return "\n".join(words for words in (asked.get("prompt"), *said) if isinstance(words, str))
