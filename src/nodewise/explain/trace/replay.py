"""What stragglers cost in hybrid parallel training: the step rebuilt as a graph and replayed.

After "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 25). A trace
has no dependencies, so they are rebuilt from kind, stage and order of the operations of one replica
in one step; all replicas and steps share them. A collective starts when its last member arrives.
Its duration is the transfer: its end minus that start. The ideal duration of a kind is the mean of
its compute operations, or the median of its communication, over all ranks and steps.

Slowdown = the step replayed as measured / the step replayed with ideal durations. By kind, replica
or stage: only the operations of that key keep their measured durations.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import DataError, SpecError
from nodewise.explain.changes import link_rates, link_share, share_left
from nodewise.study.trace import Operations

Floats = NDArray[np.float64]

FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
_GATHER: Final = "params-all-gather"
_SCATTER: Final = "grads-reduce-scatter"
_SEPARATE: Final = "separate-grads-all-reduce"  # recorded where the reduction overlaps with compute
_NORM: Final = "layernorm-grads-all-reduce"
_EMBEDDING: Final = "embedding-grads-all-reduce"
_CLIP: Final = "optimizer-clip-main-grad"
_OPTIMIZER: Final = "optimizer"
_COLLECTION: Final = "gc"
_WAYS: Final = ("forward", "backward")
# A transfer between stages: the step in stages to its peer, and the kind of the peer.
_TRANSFERS: Final = {
    "forward-send": (1, "forward-recv"),
    "forward-recv": (-1, "forward-send"),
    "backward-send": (-1, "backward-recv"),
    "backward-recv": (1, "backward-send"),
}
_SHOWN: Final = {kind: f"{kind.partition('-')[0]}-pp-comm" for kind in _TRANSFERS}
_OVER_REPLICAS: Final = (_GATHER, _SCATTER, _SEPARATE)
_COMMUNICATION: Final = (*_TRANSFERS, *_OVER_REPLICAS, _NORM, _EMBEDDING, _CLIP)
_SLOW_NODE: Final = "slow-node"
_CHANGES: Final = (_SLOW_NODE, "communication", "link")  # the other keys name operations
_CLOCK_ERROR: Final = 5e-5  # seconds by which the clocks of two streams may differ
_WRONG_CLOCK: Final = 1e-2  # a transfer that ends this long before it starts counts as 0 s
_SLOWEST_PERCENT: Final = 3  # of the workers, at least one: the suspects
_MOST_CELLS: Final = 2**22  # of durations that are replayed at once

Node = tuple[str, int, int]  # kind, number, stage
_Key = TypeVar("_Key", int, str)


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The step as measured, without delays and without stragglers, and who costs how much."""

    name: str
    replicas: int
    stages: int
    steps: tuple[int, ...]
    measured_seconds: float  # of a step, in the mean
    step_seconds: float  # replayed: without the gaps that no recorded operation explains
    ideal_seconds: float
    slowdown: float
    by_step: dict[int, float]
    by_kind: dict[str, float]
    by_replica: dict[int, float]
    by_stage: dict[int, float]
    last_stage_share: float | None  # of the slowdown, gone with an ideal last stage
    worker_share: float | None  # of the slowdown, gone with ideal slowest workers
    slowest_workers: tuple[int, ...]
    ideal: dict[str, float]  # seconds by kind
    changes: dict[str, str] = {}  # what was asked
    changed_seconds: float | None = None

    @property
    def unexplained(self) -> float:
        """Measured over replayed step: 1 where the recorded operations explain it all."""
        return self.measured_seconds / self.step_seconds


def replay(operations: Operations, changes: dict[str, str] | None = None) -> Replay:
    """What the stragglers of a traced job cost.

    `changes` asks for the step if something were different: optype, stage, replica and rank name
    operations that become ideal (several keys narrow the choice), slow-node=fixed makes the slowest
    workers ideal, and communication=0.5x or link=100Gbit:400Gbit shorten the transfers.
    """
    changes = changes or {}
    chosen = {key: value for key, value in changes.items() if key not in _CHANGES}
    sent = _communication_left(changes)
    table = _Table(operations)
    graph = _graph(table, operations)
    durations, ideal, seconds_of_kind = _durations(table, graph)
    nodes, replicas = table.nodes, table.replicas

    every = np.ones((len(nodes), replicas), bool)
    kinds = np.array([_SHOWN.get(kind, kind) for kind, _, _ in nodes])
    stages = np.array([stage for _, _, stage in nodes])
    shown = sorted(set(kinds.tolist()))
    last = stages.max()
    masks = [every, ~every]
    masks += [np.repeat((kinds == kind)[:, None], replicas, 1) for kind in shown]
    masks += [every & (np.arange(replicas) == replica) for replica in range(replicas)]
    masks += [np.repeat((stages == stage)[:, None], replicas, 1) for stage in range(last + 1)]
    masks.append(np.repeat((stages != last)[:, None], replicas, 1))
    steps = _replayed(graph, durations, ideal, masks)
    mean = steps.mean(1)
    measured, best = float(mean[0]), float(mean[1])
    if best <= 0:
        raise _incomplete(operations.name, "its operations take no time")
    ratios = iter((mean[2:] / best).tolist())
    by_kind = dict(zip(shown, ratios, strict=False))
    by_replica = {replica: next(ratios) for replica in range(replicas)}
    by_stage = {stage: next(ratios) for stage in range(last + 1)}

    workers = _slowest_workers(operations, by_replica, by_stage)
    suspect = every.copy()
    for _, replica, stage in workers:
        suspect[stages == stage, replica] = False
    without = float(_replayed(graph, durations, ideal, [suspect]).mean())
    lost = measured - best
    shares = [(measured - t) / lost if lost > 0 else None for t in (float(mean[-1]), without)]
    changed = None
    if changes:
        asked = suspect if _repairs_slowest(changes) else every
        if chosen:
            asked = asked & ~_named(operations, nodes, replicas, chosen)
        left = np.where([kind in _COMMUNICATION for kind, _, _ in nodes], sent, 1.0)
        scaled = durations * left[:, None, None]
        changed = float(_replayed(graph, scaled, ideal * left, [asked]).mean())
    return Replay(
        name=operations.name,
        replicas=replicas,
        stages=int(last) + 1,
        steps=tuple(int(step) for step in table.steps),
        measured_seconds=float(table.measured().mean()),
        step_seconds=measured,
        ideal_seconds=best,
        slowdown=measured / best,
        by_step=dict(zip(table.steps.tolist(), (steps[0] / steps[1]).tolist(), strict=True)),
        by_kind=_worst_first(by_kind),
        by_replica=_worst_first(by_replica),
        by_stage=_worst_first(by_stage),
        last_stage_share=shares[0],
        worker_share=shares[1],
        slowest_workers=tuple(rank for rank, _, _ in workers),
        ideal=seconds_of_kind,
        changes=changes,
        changed_seconds=changed,
    )


def _communication_left(changes: dict[str, str]) -> float:
    """What the changes leave of the seconds of every transfer."""
    left = 1.0
    if "communication" in changes:
        left *= share_left("communication", changes["communication"])
    if "link" in changes:
        here, there = link_rates(changes["link"])
        if here is None:
            raise SpecError(
                "--what-if link: a trace does not say what link it was recorded on.",
                "State both: link=100Gbit:400Gbit, or a factor: communication=0.5x.",
            )
        left *= link_share(here, there)
    return left


def _repairs_slowest(changes: dict[str, str]) -> bool:
    """Whether the slowest workers become ideal."""
    value = changes.get(_SLOW_NODE)
    if value not in (None, "fixed"):
        raise SpecError(
            f"--what-if {_SLOW_NODE}: {value!r} cannot be replayed.", f"State {_SLOW_NODE}=fixed."
        )
    return value is not None


def _named(
    operations: Operations, nodes: list[Node], replicas: int, chosen_by: dict[str, str]
) -> NDArray[np.bool_]:
    """The nodes and replicas that the user names; several keys narrow the choice."""
    chosen = np.ones((len(nodes), replicas), bool)
    kinds = np.array([kind for kind, _, _ in nodes])
    stages = np.array([stage for _, _, stage in nodes])
    for key, value in chosen_by.items():
        if key == "optype":
            shown = np.array([_SHOWN.get(kind, kind) for kind in kinds.tolist()])
            part = np.repeat(((kinds == value) | (shown == value))[:, None], replicas, 1)
        elif key in ("stage", "replica", "rank") and value.isdecimal():
            part = np.zeros_like(chosen)
            rows = np.flatnonzero(getattr(operations, key) == int(value))
            pairs = np.stack([operations.stage[rows], operations.replica[rows]], 1)
            for stage, replica in np.unique(pairs, axis=0).tolist():
                part[stages == stage, replica] = True
        else:
            raise SpecError(
                f"'{key}={value}' names no operations.",
                "Write optype=NAME, stage=N, replica=N, rank=N, slow-node=fixed, "
                "communication=0.5x or link=100Gbit:400Gbit.",
            )
        if not part.any():
            raise SpecError(
                f"{operations.name} has no operation with {key}={value}.",
                "The tables of nodewise trace -v list the keys.",
            )
        chosen &= part
    return chosen


def _worst_first(slowdowns: dict[_Key, float]) -> dict[_Key, float]:
    return dict(sorted(slowdowns.items(), key=lambda one: -one[1]))


def _slowest_workers(
    operations: Operations, by_replica: dict[int, float], by_stage: dict[int, float]
) -> list[tuple[int, int, int]]:
    """Rank, replica and stage of the suspects, by the smaller of a worker's two slowdowns."""
    rows = np.stack([operations.rank, operations.replica, operations.stage], 1)
    found = [(int(r), int(d), int(p)) for r, d, p in np.unique(rows, axis=0)]
    found.sort(key=lambda one: (-min(by_replica[one[1]], by_stage[one[2]]), one[0]))
    return found[: -(-len(found) * _SLOWEST_PERCENT // 100)]


# ---- the operations as a table ------------------------------------------------------------------


class _Table:
    """Starts and durations of every operation, by node, step and replica."""

    def __init__(self, rows: Operations) -> None:
        kinds, kind = np.unique(rows.kind, return_inverse=True)
        places = np.stack([rows.number, rows.stage, rows.replica])
        if not places.size or places.min() < 0 or places.max() >= len(kind):
            raise _incomplete(rows.name, "an operation has no number, stage or replica")
        most, stages, self.replicas = (int(count) for count in places.max(1) + 1)
        codes, node = np.unique(
            (kind.astype(np.int64) * most + rows.number) * stages + rows.stage, return_inverse=True
        )
        self.steps, step = np.unique(rows.step, return_inverse=True)
        self.nodes: list[Node] = [
            (str(kinds[code // stages // most]), int(code // stages % most), int(code % stages))
            for code in codes.tolist()
        ]
        self.index = {node: i for i, node in enumerate(self.nodes)}
        shape = (len(codes), len(self.steps), self.replicas)
        cell = np.ravel_multi_index((node, step, rows.replica), shape)
        order = np.argsort(cell)
        wrong = np.flatnonzero(cell[order] != np.arange(len(cell)))
        if len(wrong) or len(cell) < np.prod(shape):
            missing = int(wrong[0]) if len(wrong) else len(cell)
            if len(wrong) and cell[order][missing] < missing:
                raise _incomplete(rows.name, "an operation is recorded twice")
            lost, at, replica = (int(i) for i in np.unravel_index(missing, shape))
            what, number, stage = self.nodes[lost]
            one = f"{what} {number} of stage {stage}"
            where = f"step {self.steps[at]}, replica {replica}"
            raise _incomplete(rows.name, f"{one} is missing in {where}")
        self.start = rows.start[order].reshape(shape)
        self.duration = rows.duration[order].reshape(shape)
        self.end = rows.end[order].reshape(shape)
        self.first = rows_of_first_group(rows)

    def measured(self) -> Floats:
        """Seconds of each step, by the clock."""
        seconds: Floats = self.end.max((0, 2)) - self.start.min((0, 2))
        return seconds


def _incomplete(name: str, why: str) -> DataError:
    return DataError(
        f"{name} cannot be replayed: {why}.",
        "Record every operation of every rank in the same steps.",
    )


class Operation(NamedTuple):
    """One operation of the replica whose order gives the dependencies."""

    node: Node
    start: float
    end: float
    chunk: int
    model_chunk: int


def rows_of_first_group(rows: Operations) -> list[Operation]:
    """The operations of the first replica in the first step, in the order in which they began."""
    chosen = np.flatnonzero((rows.replica == 0) & (rows.step == rows.step.min()))
    order = chosen[
        np.lexsort((rows.kind[chosen], rows.number[chosen], rows.start[chosen]))
    ].tolist()
    columns = (rows.kind, rows.number, rows.stage, rows.start, rows.end, rows.chunk)
    kind, number, stage, start, end, chunk = (column[order].tolist() for column in columns)
    return [
        Operation((kind[i], number[i], stage[i]), start[i], end[i], chunk[i], model)
        for i, model in enumerate(rows.model_chunk[order].tolist())
    ]


# ---- the dependencies ---------------------------------------------------------------------------


class _Graph(NamedTuple):
    """Nodes in an order in which they can run, as groups whose members start together."""

    groups: list[list[int]]
    needs: list[list[int]]  # of each node
    is_transfer: NDArray[np.bool_]  # of each node: its duration counts from the last arrival
    over_replicas: set[int]  # nodes for whose group all replicas wait


class _Builder:
    """Dependencies between nodes that the trace has; others are left out."""

    def __init__(self, index: dict[Node, int]) -> None:
        self.index = index
        self.needs: list[list[int]] = [[] for _ in index]
        self.groups: list[list[int]] = []

    def need(self, node: Node, *before: Node) -> None:
        if node in self.index:
            found = (self.index[one] for one in before if one in self.index)
            self.needs[self.index[node]].extend(found)

    def chain(self, nodes: Iterable[Node], *before: Node) -> None:
        for node in nodes:
            if node in self.index:
                self.need(node, *before)
                before = (node,)

    def group(self, *nodes: Node) -> None:
        members = [self.index[node] for node in nodes if node in self.index]
        if members:
            self.groups.append(members)


def _graph(table: _Table, rows: Operations) -> _Graph:
    built = _Builder(table.index)
    stages = int(rows.stage.max()) + 1
    by_stage: list[list[Operation]] = [[] for _ in range(stages)]
    for operation in table.first:
        by_stage[operation.node[2]].append(operation)
    chunks = max(operation.chunk for operation in table.first) + 1
    shares_gradients = table.replicas * rows.sequence_parallel > 1
    overlaps = any(kind == _SEPARATE for kind, _, _ in table.nodes)
    pairs: dict[tuple[Node, Node], list[Node]] = {}
    for stage, found in enumerate(by_stage):
        compute = [one for one in found if one.node[0] in (FORWARD, BACKWARD)]
        if not compute:
            raise _incomplete(rows.name, f"stage {stage} has no forward or backward compute")
        built.chain(one.node for one in compute)
        _pipeline(built, pairs, stage, found, compute, chunks * stages, stages)
        if shares_gradients:
            _shared_parameters(built, found, compute, overlaps)
        _after_compute(built, stage, stages, found, compute, shares_gradients, overlaps)
    for members in pairs.values():
        built.group(*members)
    if shares_gradients:
        for one in table.first:
            if one.node[0] in _OVER_REPLICAS:
                built.group(one.node)
    built.group(*dict.fromkeys([(_EMBEDDING, 0, 0), (_EMBEDDING, 0, stages - 1)]))
    built.group(*((_CLIP, 0, stage) for stage in range(stages)))
    is_transfer = np.zeros(len(table.nodes), bool)
    is_transfer[[node for group in built.groups for node in group]] = True
    synchronous = {
        i
        for i, (kind, _, _) in enumerate(table.nodes)
        if is_transfer[i] and kind in (*_OVER_REPLICAS, _CLIP)
    }
    groups = built.groups + [[int(i)] for i in np.flatnonzero(~is_transfer)]
    return _Graph(_in_order(groups, built.needs, rows.name), built.needs, is_transfer, synchronous)


def _pipeline(
    built: _Builder,
    pairs: dict[tuple[Node, Node], list[Node]],
    stage: int,
    found: list[Operation],
    compute: list[Operation],
    model_chunks: int,
    stages: int,
) -> None:
    """Transfers between stages: their order, the compute that each belongs to, and their peers."""
    for way in _WAYS:
        own = {one.node: one for one in compute if one.node[0] == f"{way}-compute"}
        for kind in (f"{way}-send", f"{way}-recv") if own else ():
            transfers = [one for one in found if one.node[0] == kind]
            built.chain(one.node for one in transfers)
            delta, peer = _TRANSFERS[kind]
            ordinal = 0
            matches = _matches(kind, transfers, list(own.values()))
            for transfer, number in zip(transfers, matches, strict=True):
                match = (f"{way}-compute", number, stage)
                if number >= 0 and kind.endswith("send"):
                    built.need(transfer.node, match)
                elif number >= 0:
                    built.need(match, transfer.node)
                    built.need(transfer.node, (match[0], number - 1, stage))
                if match in own and 0 <= own[match].model_chunk + delta < model_chunks:
                    ends = ((kind, ordinal, stage), (peer, ordinal, (stage + delta) % stages))
                    pairs.setdefault((min(ends), max(ends)), []).append(transfer.node)
                    ordinal += 1
                else:  # recorded, but nothing is sent: it waits for no other stage
                    built.group(transfer.node)
    first = next((i for i, one in enumerate(compute) if one.node[0] == BACKWARD), 0)
    if first >= 2:
        for kind in ("backward-recv", "backward-send"):
            built.need((kind, 0, stage), compute[first - 2].node)


def _matches(kind: str, transfers: list[Operation], own: list[Operation]) -> list[int]:
    """The number of the compute that each transfer belongs to; -1: recorded, but not made."""
    if kind.endswith("recv"):
        last = max(one.start for one in own) + _CLOCK_ERROR
        made = [one.start <= last for one in transfers]
    else:
        first = min(one.end for one in own) - _CLOCK_ERROR
        made = [one.end >= first for one in transfers]
    # The first receive of a pipeline with virtual stages may be missing.
    skipped = int(kind.endswith("recv") and sum(made) + 1 == len(own))
    return [skipped + sum(made[:i]) if one else -1 for i, one in enumerate(made)]


def _shared_parameters(
    built: _Builder, found: list[Operation], compute: list[Operation], overlaps: bool
) -> None:
    """All-gathers before the first forward of a chunk, reductions after its last backward."""
    built.chain(one.node for one in found if one.node[0] in (_GATHER, _SCATTER))

    def of_chunk(kind: str, chunk: int) -> list[Operation]:
        return [one for one in compute if one.node[0] == kind and one.chunk == chunk]

    gathers = sorted((one for one in found if one.node[0] == _GATHER), key=_number)
    for chunk, gather in {one.chunk: one for one in gathers}.items():  # the last of each chunk
        if forwards := of_chunk(FORWARD, chunk):
            built.need(min(forwards, key=lambda one: one.start).node, gather.node)
    if not overlaps:
        return
    scatters = sorted((one for one in found if one.node[0] == _SCATTER), key=_number, reverse=True)
    for chunk, scatter in {one.chunk: one for one in scatters}.items():  # the first of each chunk
        if backwards := of_chunk(BACKWARD, chunk):
            built.need(scatter.node, max(backwards, key=lambda one: one.end).node)


def _number(one: Operation) -> int:
    return one.node[1]


def _after_compute(
    built: _Builder,
    stage: int,
    stages: int,
    found: list[Operation],
    compute: list[Operation],
    shares_gradients: bool,
    overlaps: bool,
) -> None:
    """From the last backward to the optimizer."""
    collection = (_COLLECTION, 0, stage)
    last = max(compute, key=lambda one: one.end).node
    built.need(collection, last)
    before: list[Node] = [collection if collection in built.index else last]
    scatters = sorted(one.node for one in found if one.node[0] == _SCATTER)
    nodes: list[Node] = [(_NORM, 0, stage)]
    if stage in (0, stages - 1):
        nodes.append((_EMBEDDING, 0, stage))
    if shares_gradients and overlaps:
        before += scatters[-1:]
        nodes.append((_SEPARATE, 0, stage))
    elif shares_gradients:
        nodes += scatters
    built.chain([*nodes, (_CLIP, 0, stage), (_OPTIMIZER, 0, stage)], *before)


def _in_order(groups: list[list[int]], needs: list[list[int]], name: str) -> list[list[int]]:
    """Groups such that each comes after all that its members need."""
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    left = [0] * len(groups)
    then: list[list[int]] = [[] for _ in groups]
    for node, before in enumerate(needs):
        for one in before:
            left[group_of[node]] += 1
            then[group_of[one]].append(group_of[node])
    ready = [i for i, count in enumerate(left) if count == 0]
    for i in ready:  # grows while it is read
        for after in then[i]:
            left[after] -= 1
            if left[after] == 0:
                ready.append(after)
    if len(ready) < len(groups):
        raise DataError(
            f"{name} cannot be replayed: its operations wait for each other in a circle.",
            "Check that seq_id counts the operations of one kind in the order of their starts.",
        )
    return [groups[i] for i in ready]


# ---- durations and the replay -------------------------------------------------------------------


def _durations(table: _Table, graph: _Graph) -> tuple[Floats, Floats, dict[str, float]]:
    """Seconds of every operation, the ideal ones of every node, and the ideal ones by kind.

    Kept in single precision, as the published results are.
    """
    seconds = table.duration.copy()
    for group in graph.groups:
        if graph.is_transfer[group[0]]:
            arrival = table.start[group].max(0)
            if group[0] in graph.over_replicas:
                arrival = arrival.max(1, keepdims=True)
            seconds[group] = table.end[group] - arrival
    seconds[graph.is_transfer[:, None, None] & (seconds <= -_WRONG_CLOCK)] = 0.0
    seconds = seconds.astype(np.float32).astype(np.float64)
    kinds = np.array([kind for kind, _, _ in table.nodes])
    ideal = np.zeros(len(kinds))
    by_kind: dict[str, float] = {}
    for kind in dict.fromkeys(kinds.tolist()):
        chosen = kinds == kind
        middle: Callable[[Floats], float] = np.median if kind in _COMMUNICATION else np.mean
        by_kind[kind] = float(middle(seconds[chosen]))
        transfers = chosen & graph.is_transfer
        # Of a kind that is a transfer for some nodes only, the two are averaged apart.
        for part in (transfers, chosen & ~transfers):
            if part.any():
                value = float(middle(seconds[part]))
                ideal[part] = float(np.float32(value)) if part is transfers else value
    return seconds, ideal, by_kind


def _replayed(
    graph: _Graph, durations: Floats, ideal: Floats, measured: Sequence[NDArray[np.bool_]]
) -> Floats:
    """Seconds of every step, one row for each mask of nodes and replicas that stay as measured."""
    _, steps, replicas = durations.shape
    at_once = max(1, _MOST_CELLS // durations.size)
    found = []
    for first in range(0, len(measured), at_once):
        masks = np.stack(measured[first : first + at_once], 1)  # node, case, replica
        seconds = np.where(
            masks[:, :, None, :], durations[:, None], ideal[:, None, None, None]
        ).reshape(len(ideal), -1, replicas)
        ends: list[Floats | None] = [None] * len(ideal)
        for group in graph.groups:
            begin: Floats | float = 0.0
            for node in group:
                for before in graph.needs[node]:
                    begin = np.maximum(begin, ends[before])  # type: ignore[arg-type]
            if group[0] in graph.over_replicas and not isinstance(begin, float):
                begin = begin.max(1, keepdims=True)
            for node in group:
                ends[node] = begin + seconds[node]
        last = np.max([end.max(1) for end in ends if end is not None], axis=0)
        found.append(last.reshape(masks.shape[1], steps))
    return np.concatenate(found)
