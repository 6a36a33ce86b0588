"""What the body of an answer says: its tokens, when they came, and whether it is an error.

One reader serves one connection and starts again for each request. Tokens are the server's own
count (`usage`). Without one the text is there for a tokenizer to count, and a stream is counted by
its chunks.
"""

from typing import Any

import msgspec

DONE = b"[DONE]"


class _Part(msgspec.Struct, gc=False):
    """The text of a choice, wherever an API puts it."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: Any = None

    @property
    def words(self) -> str:
        return (self.reasoning_content or "") + (self.content or "")


class _Choice(msgspec.Struct, gc=False):
    text: str | None = None
    delta: _Part | None = None
    message: _Part | None = None  # in place of `delta`, where nothing is streamed

    @property
    def words(self) -> str:
        part = self.delta or self.message
        return part.words if part else self.text or ""


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


class Unread:
    """An answer whose body is not read: it has no tokens, and counts as a request."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self.first: float | None = None
        self.longest_gap: float | None = None
        self.input_tokens, self.output_tokens, self.counted = 0, 0, True
        self.text = ""  # of an answer of which the server has not counted the tokens

    def begin(self) -> None:
        """A new request was sent."""

    def finish(self) -> str:
        """The answer is complete; what is wrong with it, or nothing."""
        return ""


class Whole(Unread):
    """One JSON document."""

    def begin(self) -> None:
        """A new request was sent."""
        self._pieces: list[bytes] = []

    def feed(self, body: bytes, moment: float) -> None:
        """A piece of the body has come."""
        self._pieces.append(body)

    def finish(self) -> str:
        """The answer is complete; what is wrong with it, or nothing."""
        self.input_tokens, self.output_tokens, self.counted = 0, 0, False
        try:
            answer = _decode(b"".join(self._pieces))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "the answer is not the JSON of this API"
        if answer.error is not None:
            return f"the server says: {_short(answer.error)}"
        if answer.usage is not None:
            self.input_tokens = answer.usage.prompt_tokens
            self.output_tokens = answer.usage.completion_tokens
            self.counted = True
        self.text = "" if self.counted or not answer.choices else answer.choices[0].words
        return ""


class Streamed(Unread):
    """Server-sent events of the OpenAI API."""

    def begin(self) -> None:
        """A new request was sent."""
        self._rest = b""
        self._chunks = 0
        self._words: list[str] = []
        self._latest = 0.0
        self._usage: _Usage | None = None
        self._error = ""
        self._ended = False
        self.first = self.longest_gap = None

    def feed(self, body: bytes, moment: float) -> None:
        """A piece of the body has come; an event may begin in one piece and end in the next."""
        *events, self._rest = (self._rest + body).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            data = _data_of(event)
            if data == DONE:
                self._ended = True
            elif data and self._has_token(data):
                self._token(moment)

    def finish(self) -> str:
        """The answer is complete; what is wrong with it, or nothing."""
        usage = self._usage
        self.counted = usage is not None
        self.input_tokens = usage.prompt_tokens if usage else 0
        self.output_tokens = usage.completion_tokens if usage else self._chunks
        self.text = "" if usage else "".join(self._words)
        return self._error or ("" if self._complete() else "the stream broke off")

    def _complete(self) -> bool:
        return self._ended

    def _has_token(self, data: bytes) -> bool:
        try:
            answer = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._error = "an event of the stream is not the JSON of this API"
            return False
        if answer.error is not None:
            self._error = f"the server says: {_short(answer.error)}"
        if answer.usage is not None:
            self._usage = answer.usage
        if not answer.choices:
            return False
        choice = answer.choices[0]
        words = choice.words
        if words:
            self._words.append(words)
            return True
        return bool(choice.delta and choice.delta.tool_calls)

    def _token(self, moment: float) -> None:
        self._chunks += 1
        if self.first is None:
            self.first = moment
        else:
            gap = moment - self._latest
            if self.longest_gap is None or gap > self.longest_gap:
                self.longest_gap = gap
        self._latest = moment


class Events(Streamed):
    """Server-sent events of any kind: each is a token, unless it is the word that ends a stream."""

    def _complete(self) -> bool:
        return True

    def _has_token(self, data: bytes) -> bool:
        return True


def _data_of(event: bytes) -> bytes:
    """The data of an event; comments and other fields are left out."""
    if event.startswith(b"data:") and b"\n" not in event:
        return event[5:].strip()
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].strip() for line in lines)


def _short(error: Any) -> str:
    message = error.get("message", error) if isinstance(error, dict) else error
    return str(message)[:200]
