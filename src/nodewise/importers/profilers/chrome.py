"""Chrome trace JSON as a stream: bounded memory, and only the events that are asked for.

Almost all of a profile is of no interest here: operators, Python frames, arrows. So a block of text
is cut at the key "ph", which every event has once; the few bytes behind it tell whether an event is
wanted, and only those are parsed. In JSON a quote inside a string is escaped, so the key cannot
occur in a string. Where a block is laid out in any other way, it is scanned by its brackets and
parsed whole: slower, and the same result.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import DataError
from nodewise.study.files import open_regular

_inflate: Any = zlib
try:  # some five times as fast as zlib on traces
    from isal import isal_zlib

    _inflate = isal_zlib
except ImportError:
    pass

BLOCK_BYTES = 2**20  # large enough for arithmetic on arrays, small enough for a core's cache
_LONG_EVENT_BYTES = 2**22
_MOST_EVENT_BYTES = 2**24
_MOST_HEAD_BYTES = 2**24
_MOST_TAIL_BYTES = 2**22
_KIND_BYTES = 68  # of "ph" and what follows: the phase, the category, the beginning of the name
_MOST_KINDS = 100_000
_BETWEEN_BYTES = 24  # before "ph": the end of one event and the bracket that opens the next
_PH = int.from_bytes(b"ph", "little")
_QUOTE = ord('"')
_BATCH = 4096  # events that are worth a round of array arithmetic
_MOST_MICROSECONDS = 2**52  # 142 years
_MOST_EXACT_FLOAT = 2.0**43  # microseconds; beyond, a float64 no longer tells nanoseconds

_BETWEEN = re.compile(rb"\}\s*,\s*\{\s*\Z")
_LAYOUT = re.compile(
    rb'"ph"\s*:\s*"X"\s*,\s*"cat"\s*:\s*"([^"\\]*)"(?:\s*,\s*"name"\s*:\s*"([^"\\]*"|[^"\\]{21,}))?'
)
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_NO_NUMBER = re.compile(rb"(?<=[:\[,\s])-?(?:nan|inf|infinity)(?=[,\]}\s])", re.IGNORECASE)
_CONTROL = bytes(32 if code < 32 else code for code in range(256))


_NOTHING = msgspec.Raw()


class Arguments(msgspec.Struct, gc=False):
    """What the events that count say of themselves."""

    # Profilers differ in the types of what they add; only what is always a number is held to it.
    correlation: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    elements: Any = msgspec.field(name="In msg nelems", default=None)
    type: Any = msgspec.field(name="dtype", default=None)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=_NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=_NOTHING)


class _Whole(msgspec.Struct, gc=False):
    """An event whose times are whole microseconds."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    tid: Any = None
    ts: int | None = None
    dur: int | None = None
    args: Arguments | None = None


class _Fractional(_Whole, gc=False):
    """An event whose times fit a float to the nanosecond."""

    ts: float | None = None  # type: ignore[assignment]
    dur: float | None = None  # type: ignore[assignment]


class _Exact(_Whole, gc=False):
    """An event whose times need all their digits."""

    ts: Decimal | None = None  # type: ignore[assignment]
    dur: Decimal | None = None  # type: ignore[assignment]


TraceEvent = _Whole
_FORMS: tuple[type[_Whole], ...] = (_Whole, _Fractional, _Exact)
_DECODERS = tuple(msgspec.json.Decoder(list[form]) for form in _FORMS)  # type: ignore[valid-type]


def nanoseconds(times: list[Any]) -> NDArray[np.int64]:
    """Microseconds as written, in exact integer nanoseconds; `ValueError` where one is none."""
    if not times:
        return np.zeros(0, np.int64)
    try:
        if type(times[0]) is int:
            whole = np.array(times, np.int64)
            _check(whole)
            return whole * 1000
        if type(times[0]) is Decimal:
            return np.array([_exact_nanoseconds(time) for time in times], np.int64)
        floats = np.array(times, np.float64)
    except (TypeError, ArithmeticError) as error:
        raise ValueError(str(error)) from None
    _check(floats)
    below = np.floor(floats)
    # The parts are taken apart because a product of the whole would round.
    return below.astype(np.int64) * 1000 + np.rint((floats - below) * 1000).astype(np.int64)


def _check(microseconds: NDArray[Any]) -> None:
    if not (np.abs(microseconds) < _MOST_MICROSECONDS).all():  # not a number is not less
        raise ValueError("no time")


def _exact_nanoseconds(time: Decimal) -> int:
    if not abs(time) < _MOST_MICROSECONDS:
        raise ValueError("no time")
    return int((time * 1000).to_integral_value())


class Damage(Exception):
    """The bytes of a file end or break before their time."""


def blocks(path: Path) -> Iterator[bytes]:
    """The text of a file, unpacked where it is packed; `Damage` after the last good block."""
    try:
        with open_regular(path) as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield from _unpacked(file) if packed else iter(lambda: file.read(BLOCK_BYTES), b"")
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a trace that exists and is readable.",
        ) from None


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    unpacker, ended = _inflate.decompressobj(31), False
    waiting = b""
    while True:
        packed = waiting or file.read(max(BLOCK_BYTES // 16, 512))  # traces shrink to a sixteenth
        if not packed:
            break
        try:
            text = unpacker.decompress(packed, BLOCK_BYTES)
        except (zlib.error, _inflate.error) as error:
            raise Damage(f"the packed bytes are damaged ({error})") from None
        ended = unpacker.eof
        if ended:
            waiting = unpacker.unused_data.lstrip(b"\0")
            unpacker = _inflate.decompressobj(31)
        else:
            waiting = unpacker.unconsumed_tail
        if text:
            yield text
    if not ended:
        raise Damage("the file is cut off")


class Reader:
    """The wanted events of one file, one list per block; what else the file says is kept beside."""

    def __init__(self, path: Path, wants: Callable[[str, str], bool]) -> None:
        """Read a file; `wants` tells by category and name whether an event counts.

        An empty name is one that is not known yet.
        """
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.damage = ""
        self.unread_events = 0
        self._is_list = False
        self._scan_from = (
            0  # bytes; what was scanned without a result is scanned again when it has doubled
        )
        self._wants = wants
        self._form = 0  # of the events' times; a file that needs more digits moves on for good
        self._known: dict[bytes, bool | None] = {}

    def __iter__(self) -> Iterator[list[TraceEvent]]:
        """Lists of events; afterwards `damage` says whether some are missing.

        The times of one list have one form.
        """
        batch: list[TraceEvent] = []
        form = self._form
        for events in self._lists():
            if batch and (len(batch) >= _BATCH or self._form != form):
                yield batch
                batch = []
            form = self._form
            batch += events
        if batch:
            yield batch

    def _lists(self) -> Iterator[list[TraceEvent]]:
        """The events of each block."""
        text = self._blocks()
        rest = self._head(text)
        tail: bytes | None = None
        for block in text:
            if tail is not None:
                tail = tail + block if len(tail) < _MOST_TAIL_BYTES else tail
                continue
            events, rest, tail = self._part(rest + block)
            yield events
            if len(rest) > _MOST_EVENT_BYTES:
                self.damage = f"an event is longer than {_MOST_EVENT_BYTES >> 20} MiB"
                return
        if tail is None:
            self._scan_from = 0
            events, rest, tail = self._scan(rest)
            yield events
        self._end(tail)

    def _end(self, tail: bytes | None) -> None:
        """Read what follows the events, and say what was missing."""
        if tail is None:
            self.damage = self.damage or "the file is cut off"
        elif not self._is_list:
            # Some profilers write the rank and the base of the times behind the events.
            if not tail.rstrip().endswith(b"}") and len(tail) < _MOST_TAIL_BYTES:
                self.damage = self.damage or "the file is cut off behind its events"
            self.metadata |= _object(b"{" + tail.lstrip()[1:].lstrip(b" \t\r\n,"))
        if self.unread_events:
            unread = f"{self.unread_events} events could not be read"
            self.damage = f"{self.damage}, and {unread}" if self.damage else unread

    def _blocks(self) -> Iterator[bytes]:
        try:
            yield from blocks(self.path)
        except Damage as damage:
            self.damage = str(damage)

    def _head(self, text: Iterator[bytes]) -> bytes:
        """Read up to the events; the text behind their opening bracket."""
        head = b""
        for block in text:
            searched = max(len(head) - 100, 0)
            head += block
            body = head[:100].removeprefix(b"\xef\xbb\xbf").lstrip()
            if body[:1] == b"[":
                self._is_list = True
                return head[head.index(b"[") + 1 :]
            found = _EVENTS_KEY.search(head, searched)
            if found:
                before = head[: found.start()].strip().removeprefix(b"\xef\xbb\xbf")
                self.metadata = _object(before.rstrip(b" \t\r\n,") + b"}")
                return head[found.end() :]
            if (body and body[:1] != b"{") or len(head) > _MOST_HEAD_BYTES:
                break
        what = self.damage or ("it is empty" if not head.strip() else "it has no traceEvents")
        raise DataError(
            f"{self.path} is not a trace in Chrome's format: {what}.",
            "Use what torch.profiler's export_chrome_trace wrote: .json or .json.gz.",
        )

    def _part(self, buffer: bytes) -> tuple[list[TraceEvent], bytes, bytes | None]:
        """Events, the text that is left, and, where the list of events ended, what follows it."""
        keys = _keys(buffer)
        if len(keys) < 2:
            # Nothing but one unfinished event, or already what follows the list.
            scanned = len(buffer) > _LONG_EVENT_BYTES
            return self._scan(buffer) if scanned else ([], buffer, None)
        wanted = self._choose(buffer, keys) if _is_list_of_events(buffer, keys) else None
        if wanted is None:
            return self._scan(buffer)
        rest = buffer[buffer.rindex(b"{", 0, int(keys[-1])) :]
        if not wanted.any():
            return [], rest, None
        # Neighbours are cut out in one piece; each ends with the bracket that opens the next event.
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False))
        places = keys[edges].tolist()
        pieces = [buffer[start:end] for start, end in zip(places[::2], places[1::2], strict=True)]
        pieces[-1] = pieces[-1][: pieces[-1].rindex(b"}") + 1]
        events = self._decode(b"".join((b"[{", *pieces, b"]")))
        return self._scan(buffer) if events is None else (events, rest, None)

    def _choose(self, buffer: bytes, keys: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which events are wanted, of all but the last; nothing if one is unclear."""
        known = self._known
        if len(known) > _MOST_KINDS:
            known.clear()
        codes = np.frombuffer(buffer, np.uint8)
        events = keys[:-1]
        values = events + 5 + (codes[events + 5] == ord(" "))
        if not ((codes[events + 4] == ord(":")) & (codes[values] == _QUOTE)).all():
            return None
        complete = np.flatnonzero(codes[values + 1] == ord("X"))
        kinds = _strings(buffer, _KIND_BYTES)[events[complete]].tolist()
        for kind in set(kinds) - known.keys():
            layout = _LAYOUT.match(kind)
            if layout is None:
                return None
            # A name that ends beyond the kind is taken for unknown, unless it is long enough.
            name = (layout[2] or b"").rstrip(b'"').decode("latin1")
            known[kind] = self._wants(layout[1].decode("latin1"), name)
        wanted = np.zeros(len(events), np.bool_)
        wanted[complete] = [known[kind] for kind in kinds]
        return wanted

    def _decode(self, text: bytes) -> list[TraceEvent] | None:
        """Events with all digits of their times, or nothing if one of them is malformed."""
        for form in range(self._form, len(_FORMS)):
            try:
                events: list[TraceEvent] = _DECODERS[form].decode(text)
            except msgspec.ValidationError:
                continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if form == 1 and any(
                event.ts is not None and abs(event.ts) >= _MOST_EXACT_FLOAT for event in events
            ):
                continue
            self._form = form
            return events
        return None

    def _scan(self, buffer: bytes) -> tuple[list[TraceEvent], bytes, bytes | None]:
        """As `_part`, by brackets instead of by layout: slow, and sure."""
        if len(buffer) < self._scan_from:
            return [], buffer, None
        starts, ends, closed = _spans(buffer)
        self._scan_from = 0 if len(ends) else 2 * len(buffer)
        texts = [buffer[start:end] for start, end in zip(starts, ends, strict=True)]
        events = self._decode(b"[" + b",".join(texts) + b"]")
        if events is None:
            events = self._decode_singly(texts)
        chosen = [e for e in events if e.ph == "X" and self._wants(e.cat or "", e.name)]
        if closed is not None:
            return chosen, b"", buffer[closed:]
        return chosen, buffer[ends[-1] if len(ends) else 0 :], None

    def _decode_singly(self, texts: list[bytes]) -> list[TraceEvent]:
        """Each event by itself, repaired where profilers are known to write what is not JSON."""
        good: list[bytes] = []
        for text in texts:
            for repaired in (text, _repair(text)):
                if self._decode(b"[" + repaired + b"]") is not None:
                    good.append(repaired)
                    break
            else:
                self.unread_events += 1
        return self._decode(b"[" + b",".join(good) + b"]") or []


def _strings(buffer: bytes, length: int) -> NDArray[np.bytes_]:
    """The strings of a length that begin at each byte of a text, without a copy."""
    count = len(buffer) - length + 1
    return np.ndarray((count,), np.dtype((np.bytes_, length)), buffer, strides=(1,))


def _keys(buffer: bytes) -> NDArray[np.int64]:
    """Where "ph" is in a text, but for the last bytes of it."""
    found = []
    for offset in (0, 1):
        pairs = np.frombuffer(buffer, "<u2", (len(buffer) - offset) // 2, offset)
        found.append(2 * np.flatnonzero(pairs == _PH) + offset)
    places = np.sort(np.concatenate(found)) - 1
    places = places[(places >= 0) & (places < len(buffer) - _KIND_BYTES)]
    codes = np.frombuffer(buffer, np.uint8)
    quoted: NDArray[np.int64] = places[(codes[places] == _QUOTE) & (codes[places + 3] == _QUOTE)]
    return quoted


def _is_list_of_events(buffer: bytes, keys: NDArray[np.int64]) -> bool:
    """Whether each "ph" is the first key of an object in the same list."""
    first = int(keys[0])
    if buffer[:first].strip(b" \t\r\n,") != b"{":
        return False
    second = int(keys[1])
    between = buffer[max(buffer.rfind(b"}", first, second), second - _BETWEEN_BYTES) : second]
    befores = _strings(buffer, len(between))[keys[1:] - len(between)]
    odd = keys[1:][befores != between] if _BETWEEN.fullmatch(between) else keys[1:]
    return all(_BETWEEN.search(buffer, at - _BETWEEN_BYTES, at) for at in odd.tolist())


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one where the text is none."""
    for repaired in (text, _repair(text)):
        try:
            return msgspec.json.decode(repaired.strip(), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return {}


def _repair(text: bytes) -> bytes:
    """JSON where profilers are known to write what is none: bare nan, control characters."""
    return _NO_NUMBER.sub(b"null", text.translate(_CONTROL))


def _spans(buffer: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], int | None]:
    """Where the whole objects of a list begin and end, and where the list ends, if it does."""
    codes = np.frombuffer(buffer, np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    slashes = codes == ord("\\")
    if slashes.any():
        # A quote is escaped when the run of backslashes before it is odd.
        at = np.arange(len(codes))
        others = np.maximum.accumulate(np.where(slashes, -1, at))
        run = np.where(quotes > 0, quotes - 1 - others[quotes - 1], 0)
        quotes = quotes[run % 2 == 0]
    brackets = np.flatnonzero(
        (codes == ord("{")) | (codes == ord("}")) | (codes == ord("[")) | (codes == ord("]"))
    )
    brackets = brackets[np.searchsorted(quotes, brackets) % 2 == 0]
    step = np.where((codes[brackets] == ord("{")) | (codes[brackets] == ord("[")), 1, -1)
    depth = np.cumsum(step)
    beyond = np.flatnonzero(depth < 0)
    closed = None
    if len(beyond):
        closed = int(brackets[beyond[0]])
        brackets, step, depth = brackets[: beyond[0]], step[: beyond[0]], depth[: beyond[0]]
    starts = brackets[(step == 1) & (depth == 1)]
    ends = brackets[(step == -1) & (depth == 0)] + 1
    starts = starts[: len(ends)]
    objects = codes[starts] == ord("{")
    return starts[objects], ends[objects], closed
