"""Replicas with continuous batching, event by event: who waits, who is in the batch, who is done.

A step of a replica takes

    step + per_sequence * sequences in the batch + per_prompt_token * prompt tokens taken in

and gives every sequence of the batch one token. Requests wait in the order in which they came and
are admitted at the edge of a step while a slot and room in the KV cache are left; a request may
need time of its own before it can be, that holds up no other one. Where the cache overflows, the
sequence that was admitted last gives way and is computed again later. While nothing is admitted,
done or pushed out, steps are alike and are taken at once, so a request costs a few events however
many tokens it has.
"""

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.study.window import Request, Window

Router = Literal["round robin", "shortest queue"]
_TOO_LONG = "longer than the KV cache"


class Engine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step of one replica takes, and what limits its batch."""

    step: float  # seconds, whatever the batch is
    per_request: float = 0.0  # seconds before it joins the queue: the network, parsing
    per_sequence: float = 0.0  # seconds
    per_prompt_token: float = 0.0  # seconds
    slots: int | None = None  # sequences in a batch, at most
    kv_tokens: int | None = None  # of prompts and answers together, at most
    prefill_budget: int | None = None  # tokens of a step; longer prompts are taken in pieces

    def __post_init__(self) -> None:
        """Refuse an engine that never ends a step, or never starts one."""
        least = min(self.step, self.per_request, self.per_sequence, self.per_prompt_token)
        if not self.step + self.per_sequence > 0 or least < 0:
            raise SpecError("A step of the engine takes no time.", "Give its seconds.")
        for name in ("slots", "kv_tokens", "prefill_budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SpecError(f"{name} is {value}.", "Write 1 or more, or leave it out.")


class Traffic(NamedTuple):
    """Requests in the order in which they come."""

    arrivals: Floats
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]


def poisson_traffic(
    rate: float, count: int, lengths: tuple[Sequence[int], Sequence[int]], seed: int = 7
) -> Traffic:
    """`count` requests in `count / rate` seconds, their lengths drawn in pairs from those given.

    Given their number, Poisson arrivals are uniform; so the rate is as said, not by chance.
    """
    draw = np.random.default_rng(seed)
    arrivals = np.sort(draw.uniform(0.0, count / rate, count))
    chosen = draw.integers(0, len(lengths[0]), count)
    return Traffic(arrivals, np.asarray(lengths[0])[chosen], np.asarray(lengths[1])[chosen])


def replayed(window: Window) -> Traffic:
    """The requests of a window, as they were intended."""
    return Traffic(
        np.array([one.intended for one in window.requests]),
        np.array([one.input_tokens for one in window.requests], np.int64),
        np.array([one.output_tokens for one in window.requests], np.int64),
    )


def simulate(
    engine: Engine,
    traffic: Traffic,
    replicas: int = 1,
    router: Router = "shortest queue",
    offered_per_second: float | None = None,
    seconds: float | None = None,
) -> Window:
    """The window that a fleet of such engines would have recorded."""
    fleet = [_Replica(engine, len(traffic.arrivals)) for _ in range(replicas)]
    ends = _Ends(len(traffic.arrivals))
    arrivals = traffic.arrivals.tolist()
    # an answer has a token at least, so that it ends
    prompts, answers = traffic.input_tokens.tolist(), np.maximum(traffic.output_tokens, 1).tolist()
    most = math.inf if engine.kv_tokens is None else engine.kv_tokens
    for number, arrival in enumerate(arrivals):
        if router == "round robin":
            at = number % replicas
            fleet[at].advance(arrival, ends)
        else:
            for replica in fleet:
                if replica.now < arrival:
                    replica.advance(arrival, ends)
            at = min(range(replicas), key=lambda one: fleet[one].outstanding)
        ends.endpoint[number] = at
        if prompts[number] + answers[number] <= most:
            fleet[at].add(number, arrival, prompts[number], answers[number])
    for replica in fleet:
        replica.advance(math.inf, ends)
    length = float(traffic.arrivals[-1]) if seconds is None else seconds
    return Window(
        replicas=replicas,
        offered_per_second=offered_per_second or len(arrivals) / length,
        seconds=length,
        requests=tuple(
            Request(
                intended=arrival, sent=arrival, first=first, last=last, input_tokens=prompt,
                output_tokens=answer, endpoint=endpoint, error="" if last else _TOO_LONG,
            )
            for arrival, first, last, prompt, answer, endpoint in zip(
                arrivals, ends.first, ends.last, prompts, answers, ends.endpoint, strict=True
            )
        ),
        simulated=True,
    )  # fmt: skip


class _Ends:
    """When each request had its first and its last token, and where."""

    def __init__(self, count: int) -> None:
        self.first: list[float | None] = [None] * count
        self.last: list[float | None] = [None] * count
        self.endpoint = [0] * count


class _Waiting(NamedTuple):
    number: int
    ready: float
    prompt: int  # tokens to take in, with the answer so far where it was pushed out
    answer: int  # tokens still to come


class _Replica:
    """One server: its queue, its batch, its clock."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._slots = engine.slots or most
        self._cache = math.inf if engine.kv_tokens is None else engine.kv_tokens
        self._budget = math.inf if engine.prefill_budget is None else engine.prefill_budget
        self._queue: deque[_Waiting] = deque()
        self._taking_in: deque[list[int]] = deque()  # number, prompt tokens left, prompt, answer
        self._batch: dict[int, tuple[int, int, int]] = {}  # number: end, prompt, first step
        self._ends: list[tuple[int, int]] = []  # steps at which sequences end; some pushed out
        self._cached = 0
        self._steps = 0
        self.now = 0.0
        self.outstanding = 0

    def add(self, number: int, arrival: float, prompt: int, answer: int) -> None:
        """A request joins the queue; an idle replica wakes up for it."""
        if not self.outstanding:
            self.now = max(self.now, arrival)
        self.outstanding += 1
        ready = arrival + self._engine.per_request
        self._queue.append(_Waiting(number, ready, prompt, answer))

    def advance(self, until: float, ends: _Ends) -> None:
        """Every step that begins before this time."""
        while self.outstanding and self.now < until:
            self._admit()
            if self._taking_in:
                self._mixed_step(ends)
            elif self._batch:
                self._alike_steps(until)
            else:  # all that is there makes itself ready
                self.now = min(self._queue[0].ready, until)
            self._finish(ends)

    def _admit(self) -> None:
        queue = self._queue
        while queue and queue[0].ready <= self.now and self._has_slot():
            number, _, prompt, answer = queue[0]
            if self._cached + prompt + 1 > self._cache:
                break
            queue.popleft()
            self._cached += prompt + 1
            self._taking_in.append([number, prompt, prompt, answer])

    def _has_slot(self) -> bool:
        return len(self._batch) + len(self._taking_in) < self._slots

    def _mixed_step(self, ends: _Ends) -> None:
        """One step in which prompts are taken in beside the sequences that go on."""
        self._make_room()
        going_on = len(self._batch)
        room = max(self._budget - going_on, 1)
        taken, touched, begun = 0, 0, []
        for one in self._taking_in:
            if taken >= room:  # those that begin are the first in line
                break
            piece = min(one[1], room - taken)
            one[1] -= int(piece)
            taken += int(piece)
            touched += 1
            if not one[1]:
                begun.append(one)
        engine = self._engine
        self.now += (
            engine.step
            + engine.per_sequence * (going_on + touched)
            + engine.per_prompt_token * taken
        )
        self._steps += 1
        self._cached += going_on
        for number, _, prompt, answer in begun:
            self._taking_in.popleft()
            if ends.first[number] is None:
                ends.first[number] = self.now
            end = self._steps + answer - 1
            self._batch[number] = (end, prompt, self._steps)
            heappush(self._ends, (end, number))

    def _alike_steps(self, until: float) -> None:
        """As many steps of one batch as nothing happens in."""
        self._make_room()
        batch = len(self._batch)
        seconds = self._engine.step + self._engine.per_sequence * batch
        count = self._next_end() - self._steps
        if self._queue and self._queue[0].ready > self.now and self._has_slot():
            until = min(until, self._queue[0].ready)
        if until < math.inf:
            count = min(count, math.ceil((until - self.now) / seconds))
        if self._cache < math.inf:
            count = min(count, int(self._cache - self._cached) // batch)
        count = max(count, 1)
        self.now += count * seconds
        self._steps += count
        self._cached += count * batch

    def _make_room(self) -> None:
        """Push out who came last, until each sequence has room for a token."""
        while len(self._batch) > 1 and self._cached + len(self._batch) > self._cache:
            number, (end, prompt, began) = self._batch.popitem()
            done = 1 + self._steps - began
            self._cached -= prompt + done
            self._queue.appendleft(_Waiting(number, self.now, prompt + done, end - self._steps))

    def _next_end(self) -> int:
        while True:
            end, number = self._ends[0]
            known = self._batch.get(number)
            if known is not None and known[0] == end:
                return end
            heappop(self._ends)  # it was pushed out meanwhile

    def _finish(self, ends: _Ends) -> None:
        heap = self._ends
        while heap and heap[0][0] <= self._steps:
            end, number = heappop(heap)
            known = self._batch.get(number)
            if known is None or known[0] != end:
                continue
            del self._batch[number]
            self._cached -= known[1] + 1 + end - known[2]
            self.outstanding -= 1
            ends.last[number] = self.now
