"""What each request asks: words of chance, prompts of a file, or the lengths of a trace.

All of it is known before the load begins. In a session a later prompt holds the earlier ones with
recorded or random answers in the place of the server's: so it grows as a real one does, and no
request waits for another.
"""

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nodewise.base.errors import DataError
from nodewise.fleet.load.prompts import Conversation, Exchange, Message, read_prompts
from nodewise.fleet.load.traces import Recorded, read_trace
from nodewise.fleet.spec import Content, FleetSpec, Length, Lengths
from nodewise.study.files import read_regular

# Short, common words: each is a token or two everywhere, and a random order is never in a cache.
_WORDS = (
    "the", "of", "and", "to", "in", "is", "it", "was", "for", "on", "are", "as", "with", "they",
    "at", "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what",
    "all", "were", "we", "when", "your", "can", "said", "there", "use", "an", "each", "which",
)  # fmt: skip
_BLOCK_WORDS = 512  # of a Mooncake trace
_Z90 = 1.2815516  # standard deviations from the median to the 90th percentile


class Ask(NamedTuple):
    """One request."""

    messages: tuple[Message, ...]
    output_tokens: int


class Material(NamedTuple):
    """The files of a spec, read."""

    prompts: dict[str, list[Conversation]]
    trace: Sequence[Recorded]


NO_MATERIAL = Material({}, ())


def read_material(spec: FleetSpec, home: Path) -> Material:
    """Read the prompts and the trace that a spec names."""
    names = {part.prompts for part in spec.request.parts if part.prompts}
    return Material({name: read_prompts(home / name) for name in names}, _trace(spec, home))


def _trace(spec: FleetSpec, home: Path) -> list[Recorded]:
    if not spec.load.trace:
        return []
    path = home / spec.load.trace
    try:
        return read_trace(read_regular(path).decode(), str(path))
    except (OSError, UnicodeDecodeError):
        raise DataError(f"Cannot read the trace {path}.", "Correct load.trace.") from None


def asks(
    spec: FleetSpec, times: Sequence[float], seed: str, material: Material = NO_MATERIAL
) -> list[Ask]:
    """A request for each moment, the warm-up below 0; the same seed gives the same ones."""
    draw = random.Random(f"bodies {seed}")
    if material.trace and material.trace[0].output_tokens is not None:
        warm_up = sum(moment < 0 for moment in times)
        timed = _recorded(material.trace, len(times) - warm_up, seed)
        return [*_recorded(material.trace, warm_up, f"{seed} warm-up"), *timed]
    parts = spec.request.parts
    sources = [_Source(part, material, spec.seed, draw) for part in parts]
    chosen = draw.choices(sources, [part.weight for part in parts], k=len(times))
    return [one.ask(moment - times[0]) for one, moment in zip(chosen, times, strict=True)]


def _recorded(trace: Sequence[Recorded], count: int, seed: str) -> list[Ask]:
    """Requests as long as those of a trace; blocks of the same number are the same text."""
    draw = random.Random(f"trace {seed}")
    blocks: dict[tuple[int, int], list[str]] = {}
    made = []
    for number in range(count):
        again, at = divmod(number, len(trace))
        one, words = trace[at], list[str]()
        length = one.input_tokens or 1
        for block in one.blocks[: math.ceil(length / _BLOCK_WORDS)]:
            if (again, block) not in blocks:
                blocks[again, block] = draw.choices(_WORDS, k=_BLOCK_WORDS)
            words += blocks[again, block]
        words += draw.choices(_WORDS, k=max(length - len(words), 0))
        made.append(Ask((("user", " ".join(words[:length])),), one.output_tokens or 1))
    return made


class _Session:
    """A conversation, and what it asks next."""

    def __init__(self, exchanges: Conversation, at: int) -> None:
        self.exchanges, self.at = exchanges, at

    def ask(self) -> Ask:
        """The next request, with all that was said before it."""
        said: list[Message] = []
        for earlier in self.exchanges[: self.at]:
            said += [*earlier.messages, ("assistant", earlier.answer)]
        now = self.exchanges[self.at]
        self.at += 1
        return Ask((*said, *now.messages), now.output_tokens or 1)


class _Source:
    """The requests of one part of a mix."""

    def __init__(self, part: Content, material: Material, seed: int, draw: random.Random) -> None:
        self._part, self._draw, self._begun = part, draw, 0
        self._prompts = list(material.prompts.get(part.prompts, ()))
        draw.shuffle(self._prompts)
        shared, common = part.shared_prefixes, random.Random(f"prefixes {seed}")
        self._prefixes = (
            [_words(shared.words, common) for _ in range(shared.count)] if shared else []
        )
        # When the next turn is due; of turns due at once, the one first known goes on first.
        self._waiting: list[tuple[float, int, _Session]] = []
        self._pushed = itertools.count()

    def ask(self, moment: float) -> Ask:
        """The session whose turn is due goes on; where there is none, a new one begins."""
        if self._waiting and self._waiting[0][0] <= moment:
            session = heapq.heappop(self._waiting)[2]
        else:
            session = self._begin(moment)
        asked = session.ask()
        if session.at < len(session.exchanges):
            due = moment + self._draw.uniform(*self._part.turn_seconds)
            heapq.heappush(self._waiting, (due, next(self._pushed), session))
        return asked

    def _begin(self, moment: float) -> _Session:
        """A new session; at first, one that would have begun before the load is under way."""
        self._begun += 1
        exchanges = self._conversation()
        under_way = moment < self._draw.uniform(*self._part.turn_seconds)
        return _Session(exchanges, self._draw.randrange(len(exchanges)) if under_way else 0)

    def _conversation(self) -> Conversation:
        draw, part = self._draw, self._part
        turns = draw.randint(*part.turns)
        if self._prompts:
            known = self._prompts[self._begun % len(self._prompts)][:turns]
        else:
            new = [(("user", _words(_drawn(part.prompt_words, draw), draw)),) for _ in range(turns)]
            known = tuple(Exchange(messages) for messages in new)
        first = (("system", draw.choice(self._prefixes)),) if self._prefixes else ()
        whole = []
        for one in known:
            length = one.output_tokens or _drawn(part.output_tokens, draw)
            answer = one.answer or (_words(length, draw) if turns > 1 else "")
            whole.append(Exchange((*first, *one.messages), answer, length))
            first = ()
        return tuple(whole)


def _words(count: int, draw: random.Random) -> str:
    return " ".join(draw.choices(_WORDS, k=count))


def _drawn(length: Length, draw: random.Random) -> int:
    """A length between two bounds, or log-normal: a few are far longer than the median."""
    if not isinstance(length, Lengths):
        return draw.randint(*length)
    spread = math.log(length.p90 / length.median) / _Z90
    return min(max(round(length.median * math.exp(spread * draw.gauss(0.0, 1.0))), 1), length.most)
